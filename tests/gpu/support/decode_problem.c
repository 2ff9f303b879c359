#include "decode_problem.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bf16.h"
#include "compare.h"
#include "kv_codec.h"
#include "random_numbers.h"
#include "reference.h"

enum { D_V = 512, MOST_HEADS = 128, NAN_BF16 = 0x7fff, INFINITY_BF16 = 0x7f80, SHORT_LENGTH = 70 };

/* ---- The card ---- */

static int fail_smla(char why[PROBLEM_WHY], const char *function)
{
    smla_error_info info = {.struct_size = sizeof(info)};
    smla_last_error(&info);
    snprintf(why, PROBLEM_WHY, "%s: %.900s", function, info.message);
    return info.status == SMLA_ERROR_UNAVAILABLE ? 77 : 1;
}

static bool fail_device(struct decode_bench *bench, char why[PROBLEM_WHY])
{
    snprintf(why, PROBLEM_WHY, "no memory, or %s", device_why(bench->device));
    return false;
}

static bool same_name(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_kernel(const smla_kernel_desc *a, const smla_kernel_desc *b)
{
    return a->h_q == b->h_q && a->d_qk == b->d_qk && same_name(a->kv_format, b->kv_format) &&
           same_name(a->extra_kv_format, b->extra_kv_format) && a->kv_layout == b->kv_layout &&
           a->extra_kv_layout == b->extra_kv_layout && a->batch_invariant == b->batch_invariant;
}

static int prepare(struct decode_bench *bench, const smla_kernel_desc *desc, char why[PROBLEM_WHY])
{
    if (bench->kernel && same_kernel(&bench->desc, desc))
        return 0;
    smla_kernel_destroy(bench->kernel);
    bench->kernel = NULL;
    bench->desc = *desc;
    return smla_prepare(bench->context, desc, &bench->kernel) == SMLA_OK ? 0 : fail_smla(why, "smla_prepare");
}

static smla_kernel_desc describe(const struct decode_spec *spec)
{
    const struct problem_cache *first = &spec->caches[0].format, *second = &spec->caches[1].format;
    smla_kernel_desc desc = {.struct_size = sizeof(desc),
                             .op = SMLA_OP_DECODE,
                             .h_q = spec->h_q,
                             .d_qk = spec->d_qk,
                             .batch_invariant = (uint32_t)spec->batch_invariant,
                             .kv_format = first->format,
                             .kv_layout = first->layout};
    if (spec->has_extra) {
        desc.extra_kv_format = second->format || second->layout ? second->format : "bf16";
        desc.extra_kv_layout = second->layout;
    }
    return desc;
}

int decode_bench_open(struct decode_bench *bench, char why[PROBLEM_WHY])
{
    char text[DEVICE_WHY];
    memset(bench, 0, sizeof(*bench));
    const enum device_status opened = device_open(NULL, 0, &bench->device, text);
    if (opened != DEVICE_OK) {
        snprintf(why, PROBLEM_WHY, "%s", text);
        return opened == DEVICE_UNAVAILABLE ? 77 : 1;
    }
    bench->emulated = device_is_emulated(bench->device);
    const int code = smla_context_create(NULL, &bench->context) == SMLA_OK ? 0 : fail_smla(why, "smla_context_create");
    if (code != 0)
        decode_bench_close(bench);
    return code;
}

void decode_bench_close(struct decode_bench *bench)
{
    smla_kernel_destroy(bench->kernel);
    smla_context_destroy(bench->context);
    device_close(bench->device);
    memset(bench, 0, sizeof(*bench));
}

/* ---- Strides ---- */

/* Where an element of [b, s_q, h_q, width] lies: what the call's strides of 0 stand for is worked out here once more.
 */
struct strides {
    int64_t request, token, head;
};

static int64_t tokens_of(const struct decode_spec *spec)
{
    return spec->b * spec->s_q;
}

/* width: of a row; gap: what stands behind each where strides are DECODE_APART. */
static struct strides rows_of(const struct decode_spec *spec, int64_t width, int64_t gap)
{
    const int64_t heads = spec->h_q;
    if (spec->strides == DECODE_APART) {
        const int64_t head = width + gap, token = heads * head + 2 * gap;
        return (struct strides){spec->s_q * token + 3 * gap, token, head};
    }
    if (spec->strides == DECODE_TRANSPOSED)
        return (struct strides){heads * width, spec->b * heads * width, width};
    return (struct strides){spec->s_q * heads * width, heads * width, width};
}

static struct strides lse_of(const struct decode_spec *spec)
{
    if (spec->strides == DECODE_TRANSPOSED)
        return (struct strides){spec->h_q * spec->s_q + 2, 1, spec->s_q};
    return rows_of(spec, 1, 3);
}

static struct strides list_of(const struct decode_spec *spec, const struct decode_cache *cache)
{
    const bool apart = spec->strides == DECODE_APART;
    const int64_t token = cache->topk + (apart ? 3 : 0);
    return (struct strides){spec->s_q * token + (apart ? 5 : 0), token, 0};
}

static bool is_per_request(const struct decode_cache *cache)
{
    return cache->lengths == DECODE_LENGTHS_PER_REQUEST || cache->lengths == DECODE_LENGTHS_ONE_LONG;
}

static struct strides length_of(const struct decode_spec *spec, const struct decode_cache *cache)
{
    const bool apart = spec->strides == DECODE_APART;
    if (is_per_request(cache))
        return (struct strides){apart ? 3 : 1, 0, 0};
    return (struct strides){spec->s_q * (apart ? 2 : 1) + (apart ? 1 : 0), apart ? 2 : 1, 0};
}

/* Elements from the first to the last of `width` each. */
static size_t extent(const struct decode_spec *spec, struct strides strides, int64_t heads, int64_t width)
{
    if (tokens_of(spec) == 0 || width == 0)
        return 0;
    return (size_t)((spec->b - 1) * strides.request + (spec->s_q - 1) * strides.token + (heads - 1) * strides.head +
                    width);
}

/* Strides that the call could work out by itself it is left to work out. */
static void set_strides(const struct decode_spec *spec, smla_decode_args *args)
{
    const struct strides query = rows_of(spec, spec->d_qk, 8), out = rows_of(spec, D_V, 8), lse = lse_of(spec);
    args->decode_flags =
        (is_per_request(&spec->caches[0]) ? SMLA_DECODE_LENGTHS_PER_REQUEST : 0u) |
        (spec->has_extra && is_per_request(&spec->caches[1]) ? SMLA_DECODE_EXTRA_LENGTHS_PER_REQUEST : 0u);
    if (spec->strides == DECODE_TIGHT)
        return;
    args->query_stride_request = query.request;
    args->query_stride_token = query.token;
    args->query_stride_head = query.head;
    args->out_stride_request = out.request;
    args->out_stride_token = out.token;
    args->out_stride_head = out.head;
    args->lse_stride_request = lse.request;
    args->lse_stride_token = lse.token;
    args->lse_stride_head = lse.head;
    if (spec->strides != DECODE_APART)
        return;
    const struct strides list = list_of(spec, &spec->caches[0]), length = length_of(spec, &spec->caches[0]);
    args->indices_stride_request = list.request;
    args->indices_stride_token = list.token;
    args->topk_length_stride_request = length.request;
    args->topk_length_stride = length.token;
    if (!spec->has_extra)
        return;
    const struct strides extra = list_of(spec, &spec->caches[1]), extra_length = length_of(spec, &spec->caches[1]);
    args->extra_indices_stride_request = extra.request;
    args->extra_indices_stride_token = extra.token;
    args->extra_topk_length_stride_request = extra_length.request;
    args->extra_topk_length_stride = extra_length.token;
}

/* ---- Lists ---- */

static const int32_t out_of_range[] = {INT_MIN, -123456, -1, -1, 0x7ffffff0, INT_MAX};

static int32_t invalid_entry(int64_t s_kv, uint64_t *state)
{
    const uint64_t pick = random_bits(state) % 8;
    return pick < 6 ? out_of_range[pick] : (int32_t)s_kv + (int32_t)(pick - 6) * 1000;
}

/* Slots 0 and the odd ones are never valid where there are others, so that they stay spoiled. */
static int32_t valid_entry(int64_t s_kv, uint64_t *state)
{
    return (int32_t)(s_kv < 4 ? random_below(state, s_kv) : 2 + 2 * random_below(state, (s_kv - 2) / 2));
}

static int32_t draw_entry(const struct decode_spec *spec, int64_t s_kv, int64_t position, bool dead, uint64_t *state)
{
    const bool elsewhere = spec->live_block != 0 && position / 64 != spec->live_block - 1;
    if (s_kv == 0 || dead || elsewhere || random_chance(state, spec->invalid))
        return invalid_entry(s_kv, state);
    return valid_entry(s_kv, state);
}

static int32_t draw_length(const struct decode_spec *spec, const struct decode_cache *cache, int64_t number,
                           uint64_t *state)
{
    static const int32_t wild[] = {INT_MIN, -1, INT_MAX, 0, 1, 63, 64, 65}, ends[] = {1, 63, 64, 65, 321, 600};
    if (cache->lengths == DECODE_LENGTHS_RAMP)
        return spec->b <= 6 ? ends[number] : (int32_t)number + 1;
    if (cache->lengths == DECODE_LENGTHS_ONE_LONG)
        return number == spec->b / 2 ? INT_MAX : (int32_t)random_below(state, SHORT_LENGTH + 1);
    if (random_chance(state, 0.3))
        return wild[random_below(state, 8)];
    return (int32_t)random_below(state, cache->topk + 2);
}

static int64_t clamp_length(const struct decode_cache *cache, int64_t length)
{
    return length < 0 ? 0 : length > cache->topk ? cache->topk : length;
}

/* As they lie on the device, and as the reference wants them. */
static bool make_lengths(struct decode_problem *problem, int c, uint64_t *state)
{
    const struct decode_spec *spec = &problem->spec;
    const struct decode_cache *cache = &spec->caches[c];
    const struct strides strides = length_of(spec, cache);
    if (cache->lengths == DECODE_LENGTHS_NONE)
        return true;
    int32_t *lies = calloc(extent(spec, strides, 1, 1) + 1, 4);
    int32_t *flat = malloc((size_t)tokens_of(spec) * 4 + 1);
    problem->host[c ? DECODE_EXTRA_LENGTHS : DECODE_LENGTHS] = lies;
    problem->lengths[c] = flat;
    for (int64_t token = 0; lies && flat && token < tokens_of(spec); token++) {
        const int64_t request = token / spec->s_q, position = token % spec->s_q;
        int32_t *length = &lies[request * strides.request + position * strides.token];
        if (strides.token != 0 || position == 0)
            *length = draw_length(spec, cache, request, state);
        flat[token] = *length;
    }
    return lies && flat;
}

/* Past a length stand slots that nothing may look at. */
static void fill_list(const struct decode_spec *spec, const struct decode_cache *cache, int64_t length, int32_t *list,
                      uint8_t *selected, uint64_t *state)
{
    const bool dead = random_chance(state, spec->dead_tokens);
    for (int64_t j = 0; j < cache->topk; j++) {
        list[j] = draw_entry(spec, cache->s_kv, j, dead, state);
        if (j >= length)
            list[j] = cache->s_kv >= 4 && j % 2 ? 1 : list[j];
        else if (list[j] >= 0 && list[j] < cache->s_kv)
            selected[list[j]] = 1;
    }
}

static bool make_lists(struct decode_problem *problem, int c, uint8_t *selected, uint64_t *state)
{
    const struct decode_spec *spec = &problem->spec;
    const struct decode_cache *cache = &spec->caches[c];
    const struct strides strides = list_of(spec, cache);
    int32_t *lies = calloc(extent(spec, strides, 1, cache->topk) + 1, 4);
    int32_t *flat = malloc((size_t)(tokens_of(spec) * cache->topk) * 4 + 1);
    problem->host[c ? DECODE_EXTRA_INDICES : DECODE_INDICES] = lies;
    problem->lists[c] = flat;
    if (!lies || !flat || !make_lengths(problem, c, state))
        return false;
    for (int64_t token = 0; token < tokens_of(spec); token++) {
        int32_t *list = lies + token / spec->s_q * strides.request + token % spec->s_q * strides.token;
        const int64_t length = problem->lengths[c] ? problem->lengths[c][token] : cache->topk;
        fill_list(spec, cache, clamp_length(cache, length), list, selected, state);
        memcpy(flat + token * cache->topk, list, (size_t)cache->topk * 4);
    }
    return true;
}

/* ---- Caches ---- */

static struct kv_view view_of(const struct decode_problem *problem, int c)
{
    const smla_decode_args *args = &problem->args;
    const struct problem_cache *format = &problem->spec.caches[c].format;
    smla_kv_layout layout = {.struct_size = sizeof(layout)};
    if (format->layout)
        layout = *format->layout;
    else
        smla_kv_layout_preset(format->format ? format->format : "bf16", problem->spec.d_qk, &layout);
    return c ? kv_view_make(&layout, problem->host[DECODE_EXTRA_KV], args->extra_kv_stride_token,
                            args->extra_kv_page_tokens, args->extra_kv_stride_page)
             : kv_view_make(&layout, problem->host[DECODE_KV], args->kv_stride_token, args->kv_page_tokens,
                            args->kv_stride_page);
}

/* Gaps to strides, in elements of the cache. */
static void lay_out(struct decode_problem *problem, int c)
{
    const struct problem_cache *format = &problem->spec.caches[c].format;
    smla_decode_args *args = &problem->args;
    const struct kv_view view = view_of(problem, c);
    const int64_t elem_bytes = kv_elem_bytes(&view.layout);
    const int64_t token_bytes = kv_token_bytes(&view.layout) + format->token_gap_bytes;
    const int64_t page_bytes = format->page_tokens * token_bytes + format->page_gap_bytes;
    *(c ? &args->extra_s_kv : &args->s_kv) = problem->spec.caches[c].s_kv;
    *(c ? &args->extra_topk : &args->topk) = problem->spec.caches[c].topk;
    *(c ? &args->extra_kv_page_tokens : &args->kv_page_tokens) = format->page_tokens;
    if (format->token_gap_bytes)
        *(c ? &args->extra_kv_stride_token : &args->kv_stride_token) = token_bytes / elem_bytes;
    if (format->page_tokens && (format->page_gap_bytes || format->token_gap_bytes))
        *(c ? &args->extra_kv_stride_page : &args->kv_stride_page) = page_bytes / elem_bytes;
}

/* Tokens of very different size, so that a scale of another token shows. */
static bool fill_cache(struct decode_problem *problem, int c, const uint8_t *selected, size_t *size, uint64_t *state)
{
    static uint16_t row[576];
    const struct decode_spec *spec = &problem->spec;
    struct kv_view view = view_of(problem, c);
    bool spoils = (spec->nan_selected || spec->inf_selected) && c == 0;
    *size = (size_t)kv_cache_bytes(&view, spec->caches[c].s_kv);
    view.base = malloc(*size + 1);
    problem->host[c ? DECODE_EXTRA_KV : DECODE_KV] = view.base;
    if (!view.base)
        return false;
    memset(view.base, spec->spoiled ? spec->spoiled : 0xff, *size);
    for (int64_t slot = 0; slot < spec->caches[c].s_kv; slot++) {
        if (!selected[slot])
            continue;
        for (int64_t d = 0; d < spec->d_qk; d++)
            row[d] = bf16_from_float(ldexpf(random_normal(state), (int)(slot % 9) - 5));
        if (spoils)
            row[17] = spec->inf_selected ? INFINITY_BF16 : NAN_BF16;
        spoils = false;
        kv_write(&view, slot, row);
    }
    return true;
}

/* ---- Query and sinks ---- */

static bool fill_query(struct decode_problem *problem, size_t *size, uint64_t *state)
{
    const struct decode_spec *spec = &problem->spec;
    const struct strides strides = rows_of(spec, spec->d_qk, 8);
    const float magnitude = spec->magnitude != 0 ? spec->magnitude : 1;
    const size_t elems = extent(spec, strides, spec->h_q, spec->d_qk);
    uint16_t *lies = malloc(elems * 2 + 1);
    uint16_t *flat = malloc((size_t)(tokens_of(spec) * spec->h_q * spec->d_qk) * 2 + 1);
    *size = elems * 2;
    problem->host[DECODE_QUERY] = lies;
    problem->query = flat;
    if (!lies || !flat)
        return false;
    memset(lies, 0xff, elems * 2);
    for (int64_t row = 0; row < tokens_of(spec) * spec->h_q; row++) {
        const int64_t token = row / spec->h_q, head = row % spec->h_q;
        uint16_t *to =
            lies + token / spec->s_q * strides.request + token % spec->s_q * strides.token + head * strides.head;
        for (int64_t d = 0; d < spec->d_qk; d++)
            flat[row * spec->d_qk + d] = bf16_from_float(random_normal(state) * magnitude);
        memcpy(to, flat + row * spec->d_qk, (size_t)spec->d_qk * 2);
    }
    return true;
}

static bool make_sinks(struct decode_problem *problem, uint64_t *state)
{
    /* 90 to 104: out is among subnormals, or nearly 0. */
    static const float special[] = {INFINITY, -INFINITY, 1e4f, -1e4f, 3e38f, 0.0f, 90, 94, 98, 104};
    const int specials = sizeof(special) / sizeof(special[0]);
    const struct decode_spec *spec = &problem->spec;
    if (spec->sink == DECODE_NO_SINK)
        return true;
    float *sink = malloc((size_t)spec->h_q * sizeof(float));
    for (int head = 0; sink && head < spec->h_q; head++) {
        sink[head] = head % 3 == 1 && head / 3 < specials ? special[head / 3] : random_normal(state) * 3;
        if (spec->magnitude > 100 && isfinite(sink[head])) /* what nearly ties with a logit would be past the bounds */
            sink[head] = head % 2 ? 1e30f : -1e30f;
    }
    if (sink && spec->sink == DECODE_NAN_SINK)
        sink[spec->h_q - 1] = NAN;
    problem->host[DECODE_SINKS] = sink;
    return sink != NULL;
}

/* ---- Making ---- */

static const char *const input_names[DECODE_INPUTS] = {
    "query", "attn_sink", "kv", "indices", "topk_length", "extra_kv", "extra_indices", "extra_topk_length"};

static bool upload(struct decode_bench *bench, struct decode_problem *problem, const size_t size[DECODE_INPUTS])
{
    for (int i = 0; i < DECODE_INPUTS; i++)
        if (problem->host[i] &&
            !guarded_create(bench->device, input_names[i], problem->host[i], size[i], &problem->input[i]))
            return false;
    smla_decode_args *args = &problem->args;
    args->query = guarded_data(&problem->input[DECODE_QUERY]);
    args->attn_sink = guarded_data(&problem->input[DECODE_SINKS]);
    args->kv = guarded_data(&problem->input[DECODE_KV]);
    args->indices = guarded_data(&problem->input[DECODE_INDICES]);
    args->topk_length = guarded_data(&problem->input[DECODE_LENGTHS]);
    args->extra_kv = guarded_data(&problem->input[DECODE_EXTRA_KV]);
    args->extra_indices = guarded_data(&problem->input[DECODE_EXTRA_INDICES]);
    args->extra_topk_length = guarded_data(&problem->input[DECODE_EXTRA_LENGTHS]);
    return true;
}

static bool make_inputs(struct decode_bench *bench, struct decode_problem *problem)
{
    const struct decode_spec *spec = &problem->spec;
    uint64_t state = spec->seed * 1000003u + 12345;
    size_t size[DECODE_INPUTS] = {0};
    bool made = make_sinks(problem, &state) && fill_query(problem, &size[DECODE_QUERY], &state);
    size[DECODE_SINKS] = (size_t)spec->h_q * 4;
    for (int c = 0; made && c < (spec->has_extra ? 2 : 1); c++) {
        const struct decode_cache *cache = &spec->caches[c];
        const int of_cache = c ? DECODE_EXTRA_KV - DECODE_KV : 0;
        uint8_t *selected = calloc((size_t)cache->s_kv + 1, 1);
        lay_out(problem, c);
        made = selected && make_lists(problem, c, selected, &state) &&
               fill_cache(problem, c, selected, &size[DECODE_KV + of_cache], &state);
        size[DECODE_INDICES + of_cache] = extent(spec, list_of(spec, cache), 1, cache->topk) * 4;
        size[DECODE_LENGTHS + of_cache] = extent(spec, length_of(spec, cache), 1, 1) * 4;
        free(selected);
    }
    return made && upload(bench, problem, size);
}

static bool make_outputs(struct decode_bench *bench, struct decode_problem *problem, char why[PROBLEM_WHY])
{
    const struct decode_spec *spec = &problem->spec;
    smla_decode_args *args = &problem->args;
    uint64_t bytes = 0;
    if (smla_decode_workspace_size(bench->kernel, spec->b, spec->s_q, spec->caches[0].topk,
                                   spec->has_extra ? spec->caches[1].topk : 0, &bytes) != SMLA_OK) {
        fail_smla(why, "smla_decode_workspace_size");
        return false;
    }
    struct guarded *output = problem->output;
    if (!guarded_create(bench->device, "out", NULL, extent(spec, rows_of(spec, D_V, 8), spec->h_q, D_V) * 2,
                        &output[DECODE_OUT]) ||
        !guarded_create(bench->device, "lse", NULL, extent(spec, lse_of(spec), spec->h_q, 1) * 4,
                        &output[DECODE_LSE]) ||
        !guarded_create(bench->device, "workspace", NULL, (size_t)bytes, &output[DECODE_WORKSPACE]))
        return fail_device(bench, why);
    args->out = guarded_data(&output[DECODE_OUT]);
    args->lse = spec->no_lse ? NULL : guarded_data(&output[DECODE_LSE]);
    args->workspace = bytes ? guarded_data(&output[DECODE_WORKSPACE]) : NULL;
    args->workspace_bytes = bytes;
    return true;
}

bool decode_make(struct decode_bench *bench, const struct decode_spec *spec, struct decode_problem *out,
                 char why[PROBLEM_WHY])
{
    memset(out, 0, sizeof(*out));
    out->spec = *spec;
    out->spec.h_q = spec->h_q ? spec->h_q : 64;
    out->spec.d_qk = spec->d_qk ? spec->d_qk : 512;
    const smla_kernel_desc desc = describe(&out->spec);
    if (prepare(bench, &desc, why) != 0)
        return false;
    out->args = (smla_decode_args){.struct_size = sizeof(smla_decode_args),
                                   .lse_flags = spec->lse_flags,
                                   .b = spec->b,
                                   .s_q = spec->s_q,
                                   .sm_limit = spec->sm_limit,
                                   .sm_scale = spec->sm_scale == 0 && !signbit(spec->sm_scale) ? 0.04419417382f
                                                                                               : spec->sm_scale};
    set_strides(&out->spec, &out->args);
    why[0] = '\0';
    if (make_inputs(bench, out) && make_outputs(bench, out, why))
        return true;
    if (!why[0])
        fail_device(bench, why);
    decode_free(bench, out);
    return false;
}

void decode_free(struct decode_bench *bench, struct decode_problem *problem)
{
    for (int i = 0; i < DECODE_INPUTS; i++)
        if (problem->input[i].base)
            guarded_destroy(bench->device, &problem->input[i]);
    for (int i = 0; i < DECODE_OUTPUTS; i++)
        if (problem->output[i].base)
            guarded_destroy(bench->device, &problem->output[i]);
    for (int i = 0; i < DECODE_INPUTS; i++)
        free(problem->host[i]);
    free(problem->query);
    for (int c = 0; c < 2; c++) {
        free(problem->lists[c]);
        free(problem->lengths[c]);
    }
    memset(problem, 0, sizeof(*problem));
}

static void swap(void *a, void *b)
{
    void *kept;
    memcpy(&kept, a, sizeof(kept));
    memcpy(a, b, sizeof(kept));
    memcpy(b, &kept, sizeof(kept));
}

bool decode_refill(struct decode_bench *bench, struct decode_problem *problem, struct decode_problem *from,
                   char why[PROBLEM_WHY])
{
    for (int i = 0; i < DECODE_INPUTS; i++) {
        if (!problem->host[i])
            continue;
        swap(&problem->host[i], &from->host[i]);
        problem->input[i].contents = problem->host[i];
        from->input[i].contents = from->host[i];
        if (problem->input[i].size_bytes != from->input[i].size_bytes ||
            !device_upload(bench->device, guarded_data(&problem->input[i]), problem->host[i],
                           problem->input[i].size_bytes))
            return fail_device(bench, why);
    }
    swap(&problem->query, &from->query);
    for (int c = 0; c < 2; c++) {
        swap(&problem->lists[c], &from->lists[c]);
        swap(&problem->lengths[c], &from->lengths[c]);
    }
    return true;
}

/* ---- Running ---- */

bool decode_poison(struct decode_bench *bench, const struct decode_problem *problem, char why[PROBLEM_WHY])
{
    bool fine = true;
    for (int i = 0; fine && i < DECODE_OUTPUTS; i++)
        fine = problem->output[i].size_bytes == 0 || guarded_poison(bench->device, &problem->output[i]);
    return (fine && device_synchronize(bench->device)) || fail_device(bench, why);
}

bool decode_run(struct decode_bench *bench, struct decode_problem *problem, char why[PROBLEM_WHY])
{
    if (!decode_poison(bench, problem, why))
        return false;
    if (smla_decode(bench->kernel, &problem->args, NULL) != SMLA_OK) {
        fail_smla(why, "smla_decode");
        return false;
    }
    return device_synchronize(bench->device) || fail_device(bench, why);
}

uint8_t *decode_snapshot(struct decode_bench *bench, const struct decode_problem *problem, size_t *size_bytes)
{
    const struct guarded *out = &problem->output[DECODE_OUT], *lse = &problem->output[DECODE_LSE];
    *size_bytes = out->size_bytes + lse->size_bytes;
    uint8_t *bytes = malloc(*size_bytes + 1);
    const bool fine =
        bytes && (out->size_bytes == 0 ||
                  (device_download(bench->device, bytes, guarded_data(out), out->size_bytes) &&
                   device_download(bench->device, bytes + out->size_bytes, guarded_data(lse), lse->size_bytes)));
    if (!fine) {
        free(bytes);
        return NULL;
    }
    return bytes;
}

/* ---- Checking ---- */

static const uint16_t *out_row(const struct decode_problem *problem, const uint8_t *snapshot, int64_t token,
                               int64_t head)
{
    const struct strides strides = rows_of(&problem->spec, D_V, 8);
    const int64_t s_q = problem->spec.s_q;
    return (const uint16_t *)(const void *)snapshot + token / s_q * strides.request + token % s_q * strides.token +
           head * strides.head;
}

static const float *lse_element(const struct decode_problem *problem, const uint8_t *snapshot, int64_t token,
                                int64_t head)
{
    const struct strides strides = lse_of(&problem->spec);
    const int64_t s_q = problem->spec.s_q;
    const float *lse = (const float *)(const void *)(snapshot + problem->output[DECODE_OUT].size_bytes);
    return lse + token / s_q * strides.request + token % s_q * strides.token + head * strides.head;
}

void decode_token(const struct decode_problem *problem, const uint8_t *snapshot, int64_t request, int64_t position,
                  uint16_t *out, float *lse)
{
    const int64_t token = request * problem->spec.s_q + position;
    for (int64_t head = 0; head < problem->spec.h_q; head++) {
        memcpy(out + head * D_V, out_row(problem, snapshot, token, head), D_V * 2);
        memcpy(lse + head, lse_element(problem, snapshot, token, head), 4);
    }
}

static bool check_surroundings(struct decode_bench *bench, const struct decode_problem *problem, char why[PROBLEM_WHY])
{
    for (int i = 0; i < DECODE_INPUTS + DECODE_OUTPUTS; i++) {
        const struct guarded *buffer = i < DECODE_INPUTS ? &problem->input[i] : &problem->output[i - DECODE_INPUTS];
        char text[GUARDED_WHY] = "a guard zone cannot be read";
        if (buffer->base && guarded_check(bench->device, buffer, text) != GUARDED_INTACT) {
            snprintf(why, PROBLEM_WHY, "%s", text);
            return false;
        }
    }
    return true;
}

/* What lies between rows still holds the poison, and so does an lse that was not wanted. */
static bool gaps_intact(const struct decode_problem *problem, const uint8_t *snapshot)
{
    const struct decode_spec *spec = &problem->spec;
    const size_t size = problem->output[DECODE_OUT].size_bytes + problem->output[DECODE_LSE].size_bytes;
    uint8_t *copy = malloc(size + 1);
    bool intact = copy != NULL;
    if (copy)
        memcpy(copy, snapshot, size);
    for (int64_t row = 0; copy && row < tokens_of(spec) * spec->h_q; row++) {
        const int64_t token = row / spec->h_q, head = row % spec->h_q;
        memset(copy + ((const uint8_t *)out_row(problem, snapshot, token, head) - snapshot), 0xff, D_V * 2);
        if (!spec->no_lse)
            memset(copy + ((const uint8_t *)lse_element(problem, snapshot, token, head) - snapshot), 0xff, 4);
    }
    for (size_t i = 0; intact && i < size; i++)
        intact = copy[i] == 0xff;
    free(copy);
    return intact;
}

static bool run_reference(const struct decode_problem *problem, struct reference_result *result)
{
    const struct decode_spec *spec = &problem->spec;
    const smla_decode_args *from = &problem->args;
    const smla_kernel_desc shape = describe(spec);
    const smla_prefill_args args = {.struct_size = sizeof(args),
                                    .lse_flags = spec->lse_flags,
                                    .s_q = tokens_of(spec),
                                    .sm_scale = from->sm_scale,
                                    .query = problem->query,
                                    .attn_sink = problem->host[DECODE_SINKS],
                                    .s_kv = from->s_kv,
                                    .topk = from->topk,
                                    .kv = problem->host[DECODE_KV],
                                    .kv_stride_token = from->kv_stride_token,
                                    .kv_page_tokens = from->kv_page_tokens,
                                    .kv_stride_page = from->kv_stride_page,
                                    .indices = problem->lists[0],
                                    .topk_length = problem->lengths[0],
                                    .extra_s_kv = from->extra_s_kv,
                                    .extra_topk = from->extra_topk,
                                    .extra_kv = problem->host[DECODE_EXTRA_KV],
                                    .extra_kv_stride_token = from->extra_kv_stride_token,
                                    .extra_kv_page_tokens = from->extra_kv_page_tokens,
                                    .extra_kv_stride_page = from->extra_kv_stride_page,
                                    .extra_indices = problem->lists[1],
                                    .extra_topk_length = problem->lengths[1]};
    return reference_prefill(&shape, &args, result);
}

struct figures {
    struct compare_result out, lse;
    int64_t worst_token;
};

static void keep_worst(struct compare_result *all, struct compare_result one)
{
    all->bound_used = fmax(all->bound_used, one.bound_used);
    all->max_ulp = fmax(all->max_ulp, one.max_ulp);
    all->cos = fmax(all->cos, one.cos);
    all->failed += one.failed;
    all->pass = all->pass && one.pass;
}

static void compare_token(const struct decode_problem *problem, struct reference_result *expected,
                          const uint8_t *snapshot, int64_t token, struct figures *figures)
{
    static double out[MOST_HEADS * D_V], lse[MOST_HEADS];
    const int64_t heads = problem->spec.h_q, first = token * heads;
    for (int64_t head = 0; head < heads; head++) {
        const uint16_t *row = out_row(problem, snapshot, token, head);
        for (int64_t d = 0; d < D_V; d++)
            out[head * D_V + d] = (double)bf16_to_float(row[d]);
        lse[head] = (double)*lse_element(problem, snapshot, token, head);
        expected->lse[first + head] = (double)(float)expected->lse[first + head]; /* 3e38 in base 2 is infinite */
    }
    const struct compare_result of_out =
        compare_out(out, expected->out + first * D_V, expected->out_abs + first * D_V, heads, D_V);
    const struct compare_result of_lse =
        compare_log(lse, expected->lse + first, expected->logit_abs + first, heads, COMPARE_DECODE);
    const bool was_fine = figures->out.pass && figures->lse.pass;
    keep_worst(&figures->out, of_out);
    if (!problem->spec.no_lse)
        keep_worst(&figures->lse, of_lse);
    if (was_fine && !(figures->out.pass && figures->lse.pass))
        figures->worst_token = token;
}

bool decode_check(struct decode_bench *bench, const struct decode_problem *problem, char why[PROBLEM_WHY])
{
    if (!check_surroundings(bench, problem, why))
        return false;
    struct reference_result expected = {0};
    size_t size;
    uint8_t *snapshot = decode_snapshot(bench, problem, &size);
    struct figures figures = {.out = {.pass = true}, .lse = {.pass = true}, .worst_token = -1};
    const bool ran = snapshot && run_reference(problem, &expected);
    for (int64_t token = 0; ran && token < tokens_of(&problem->spec); token++)
        compare_token(problem, &expected, snapshot, token, &figures);
    const bool intact = ran && gaps_intact(problem, snapshot);
    reference_free(&expected);
    free(snapshot);
    if (!ran) {
        snprintf(why, PROBLEM_WHY, "the reference did not run: %s", device_why(bench->device));
        return false;
    }
    char first_bad[64] = "";
    if (figures.worst_token >= 0)
        snprintf(first_bad, sizeof(first_bad), "; first wrong: request %d, token %d",
                 (int)(figures.worst_token / problem->spec.s_q), (int)(figures.worst_token % problem->spec.s_q));
    snprintf(why, PROBLEM_WHY, "bound used: out %.3f (%.2f ulp, cos %.1e), lse %.3f%s%s", figures.out.bound_used,
             figures.out.max_ulp, figures.out.cos, figures.lse.bound_used, first_bad,
             intact ? "" : "; a gap between rows was written");
    return intact && figures.out.pass && figures.lse.pass;
}
