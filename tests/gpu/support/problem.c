#include "problem.h"

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

enum { MOST_HEADS = 128, D_V = 512, NAN_BF16 = 0x7fff };

/* ---- The card ---- */

static int fail_smla(char why[PROBLEM_WHY], const char *function)
{
    smla_error_info info = {.struct_size = sizeof(info)};
    smla_last_error(&info);
    snprintf(why, PROBLEM_WHY, "%s: %.900s", function, info.message);
    return info.status == SMLA_ERROR_UNAVAILABLE ? 77 : 1;
}

static int prepare(struct bench *bench, const smla_kernel_desc *desc, smla_kernel **out, char why[PROBLEM_WHY])
{
    return smla_prepare(bench->context, desc, out) == SMLA_OK ? 0 : fail_smla(why, "smla_prepare");
}

static bool same_name(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_kernel(const smla_kernel_desc *a, const smla_kernel_desc *b)
{
    return a->h_q == b->h_q && a->d_qk == b->d_qk && same_name(a->kv_format, b->kv_format) &&
           same_name(a->extra_kv_format, b->extra_kv_format) && a->flags == b->flags &&
           a->batch_invariant == b->batch_invariant && a->kv_layout == b->kv_layout &&
           a->extra_kv_layout == b->extra_kv_layout;
}

/* The reference reads bf16 whatever the kernel reads. */
static int prepare_both(struct bench *bench, const smla_kernel_desc *desc, char why[PROBLEM_WHY])
{
    if (bench->prefill && same_kernel(&bench->desc, desc))
        return 0;
    smla_kernel_destroy(bench->prefill);
    smla_kernel_destroy(bench->reference);
    bench->prefill = bench->reference = NULL;
    bench->desc = *desc;
    const smla_kernel_desc reference = {
        .struct_size = sizeof(reference), .op = SMLA_OP_PREFILL_REFERENCE, .h_q = desc->h_q, .d_qk = desc->d_qk};
    const int code = prepare(bench, desc, &bench->prefill, why);
    return code ? code : prepare(bench, &reference, &bench->reference, why);
}

static smla_kernel_desc describe(const struct problem_spec *spec)
{
    smla_kernel_desc desc = {.struct_size = sizeof(desc),
                             .op = SMLA_OP_PREFILL,
                             .h_q = spec->h_q,
                             .d_qk = spec->d_qk,
                             .kv_format = spec->format.format,
                             .kv_layout = spec->format.layout};
    if (spec->has_extra) {
        desc.extra_kv_format = spec->extra.format || spec->extra.layout ? spec->extra.format : "bf16";
        desc.extra_kv_layout = spec->extra.layout;
    }
    return desc;
}

int bench_open(struct bench *bench, char why[PROBLEM_WHY])
{
    char text[DEVICE_WHY];
    memset(bench, 0, sizeof(*bench));
    const enum device_status opened = device_open(NULL, 0, &bench->device, text);
    if (opened != DEVICE_OK) {
        snprintf(why, PROBLEM_WHY, "%s", text);
        return opened == DEVICE_UNAVAILABLE ? 77 : 1;
    }
    bench->emulated = strstr(device_name(bench->device), "emulated") != NULL;
    int code = 0;
    if (smla_context_create(NULL, &bench->context) != SMLA_OK)
        code = fail_smla(why, "smla_context_create");
    const struct problem_spec usual = {.h_q = 64, .d_qk = 512};
    const smla_kernel_desc desc = describe(&usual);
    if (code == 0)
        code = prepare_both(bench, &desc, why);
    if (code != 0)
        bench_close(bench);
    return code;
}

void bench_close(struct bench *bench)
{
    smla_kernel_destroy(bench->prefill);
    smla_kernel_destroy(bench->reference);
    smla_context_destroy(bench->context);
    device_close(bench->device);
    memset(bench, 0, sizeof(*bench));
}

/* ---- Inputs ---- */

static int64_t or_contiguous(int64_t stride, int64_t contiguous)
{
    return stride ? stride : contiguous;
}

static void set_strides(struct problem *problem)
{
    if (!problem->spec.strided)
        return;
    smla_prefill_args *args = &problem->args;
    const int64_t heads = problem->spec.h_q, width = problem->spec.d_qk;
    args->query_stride_head = width + 8;
    args->query_stride_token = heads * (width + 8) + 16;
    args->kv_stride_token = width + 64;
    args->indices_stride_token = problem->spec.topk + 3;
    args->topk_length_stride = 3;
    args->out_stride_head = 2 * D_V;
    args->out_stride_token = heads * 2 * D_V + 24;
    args->lse_stride_token = heads + 5;
    args->max_logits_stride_token = heads + 1;
}

static const int32_t out_of_range[] = {INT_MIN, -123456, -1, -1, 0x7ffffff0, INT_MAX};

static int32_t invalid_entry(const struct problem_spec *spec, uint64_t *state)
{
    const uint64_t pick = random_bits(state) % 8;
    return pick < 6 ? out_of_range[pick] : (int32_t)spec->s_kv + (int32_t)(pick - 6) * 1000;
}

/* Only even rows other than 0 are ever selected (all rows when there are few), so that odd rows stay NaN. */
static int32_t valid_entry(const struct problem_spec *spec, uint64_t *state)
{
    if (spec->s_kv < 4)
        return (int32_t)(random_bits(state) % (uint64_t)spec->s_kv);
    return (int32_t)(2 + 2 * (random_bits(state) % (uint64_t)((spec->s_kv - 2) / 2)));
}

static int32_t draw_entry(const struct problem_spec *spec, int64_t position, bool dead, uint64_t *state)
{
    const bool elsewhere = spec->live_block != 0 && position / 64 != spec->live_block - 1;
    if (spec->s_kv == 0 || dead || (spec->first_block_dead && position < 64) || elsewhere ||
        random_chance(state, spec->invalid))
        return invalid_entry(spec, state);
    return valid_entry(spec, state);
}

static int32_t draw_length(const struct problem_spec *spec, int64_t token, uint64_t *state)
{
    static const int32_t edges[] = {0, 1, 63, 64, 65};
    static const int32_t wild[] = {INT_MIN, -1, INT_MAX};
    static const int32_t ends[] = {63, 65, 97, 129};
    if (spec->lengths == LENGTHS_RAMP)
        return spec->s_q <= 4 ? ends[token] : (int32_t)token + 1;
    if (spec->lengths == LENGTHS_WILD && token % 4 == 3)
        return wild[token / 4 % 3];
    if (token % 3 == 0 && edges[token / 3 % 5] <= spec->topk)
        return edges[token / 3 % 5];
    return (int32_t)(random_bits(state) % (uint64_t)(spec->topk + 1));
}

static int64_t effective_length(const struct problem_spec *spec, const int32_t *length)
{
    if (!length)
        return spec->topk;
    return *length < 0 ? 0 : *length > spec->topk ? spec->topk : *length;
}

/* One query's list; marks what it selects. Past the length stand entries that must not be looked at. */
static void fill_list(const struct problem_spec *spec, int32_t *list, int64_t length, uint8_t *selected,
                      uint64_t *state)
{
    const bool dead = random_chance(state, spec->dead_rows);
    for (int64_t j = 0; j < spec->topk; j++) {
        if (spec->duplicates && j % 2 == 1)
            list[j] = list[j - 1];
        else
            list[j] = draw_entry(spec, j, dead, state);
        if (j >= length)
            list[j] = spec->s_kv >= 4 && j % 2 ? 1 : list[j]; /* row 1 is NaN */
        else if (list[j] >= 0 && list[j] < spec->s_kv)
            selected[list[j]] = 1;
    }
}

static uint16_t *fill_rows(int64_t rows, int64_t stride, int64_t width, float magnitude, const uint8_t *selected,
                           uint64_t *state)
{
    const size_t count = (size_t)(rows * stride);
    uint16_t *bytes = malloc(count * 2 + 1);
    if (!bytes)
        return NULL;
    for (size_t i = 0; i < count; i++)
        bytes[i] = NAN_BF16;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t d = 0; (!selected || selected[row]) && d < width; d++)
            bytes[row * stride + d] = bf16_from_float(random_normal(state) * magnitude);
    return bytes;
}

/* [s_q, h_q, d_qk] with gaps of NaN. */
static uint16_t *fill_query(const struct problem_spec *spec, const smla_prefill_args *args, float magnitude,
                            uint64_t *state, size_t *size_bytes)
{
    const int64_t head = or_contiguous(args->query_stride_head, spec->d_qk);
    const int64_t token = or_contiguous(args->query_stride_token, head * spec->h_q);
    *size_bytes = (size_t)(args->s_q * token) * 2;
    uint16_t *bytes = malloc(*size_bytes + 1);
    for (size_t i = 0; bytes && i < *size_bytes / 2; i++)
        bytes[i] = NAN_BF16;
    for (int64_t row = 0; bytes && row < args->s_q * spec->h_q; row++)
        for (int64_t d = 0; d < spec->d_qk; d++)
            bytes[row / spec->h_q * token + row % spec->h_q * head + d] =
                bf16_from_float(random_normal(state) * magnitude);
    return bytes;
}

static float *make_sink(const struct problem_spec *spec, uint64_t *state)
{
    /* 90 to 104: out is among subnormals, or nearly 0. */
    static const float special[] = {INFINITY, -INFINITY, 1e4f, -1e4f, 3e38f, 0.0f, 90, 94, 98, 104};
    const int specials = sizeof(special) / sizeof(special[0]);
    float *sink = malloc((size_t)spec->h_q * sizeof(float));
    for (int head = 0; sink && head < spec->h_q; head++)
        sink[head] = head % 3 == 0 && head / 3 < specials ? special[head / 3] : random_normal(state) * 3;
    if (sink && spec->nan_sink)
        sink[spec->h_q > 7 ? 7 : 0] = NAN;
    return sink;
}

/* The first two selected rows get a NaN and an infinity. */
static void spoil_rows(const struct problem_spec *spec, uint16_t *kv, int64_t stride, const uint8_t *selected)
{
    static const uint16_t values[] = {NAN_BF16, 0x7f80};
    int spoiled = 0;
    for (int64_t row = 0; spec->nan_selected && row < spec->s_kv && spoiled < 2; row++)
        if (selected[row])
            kv[row * stride + 17] = values[spoiled++];
}

static bool upload(struct bench *bench, struct problem *problem, enum problem_input which, const char *name,
                   size_t size_bytes, struct guarded *buffer)
{
    return problem->host[which] && guarded_create(bench->device, name, problem->host[which], size_bytes, buffer);
}

/* spec: of the cache whose lists these are. */
static bool make_lists(void *host[2], const struct problem_spec *spec, int64_t stride, int64_t length_stride,
                       uint8_t *selected, uint64_t *state)
{
    int32_t *lists = calloc((size_t)(spec->s_q * stride) + 1, 4);
    int32_t *lengths = spec->lengths ? calloc((size_t)(spec->s_q * length_stride) + 1, 4) : NULL;
    host[0] = lists;
    host[1] = lengths;
    if (!lists || (spec->lengths && !lengths))
        return false;
    for (int64_t token = 0; token < spec->s_q; token++) {
        int32_t *length = lengths ? &lengths[token * length_stride] : NULL;
        if (length)
            *length = draw_length(spec, token, state);
        fill_list(spec, lists + token * stride, effective_length(spec, length), selected, state);
    }
    return true;
}

/* ---- Formats ---- */

static smla_kv_layout layout_of(const struct problem_cache *cache, int32_t d_qk)
{
    smla_kv_layout layout = {.struct_size = sizeof(layout)};
    if (cache->layout)
        return *cache->layout;
    smla_kv_layout_preset(cache->format ? cache->format : "bf16", d_qk, &layout);
    return layout;
}

static const void *tensor_of(const struct problem *problem, enum problem_input which)
{
    const uint8_t *bytes = problem->host[which];
    return bytes ? bytes + problem->before_bytes[which] : NULL;
}

static struct kv_view view_of(const struct problem *problem, bool extra)
{
    const smla_prefill_args *args = &problem->args;
    const smla_kv_layout layout = layout_of(extra ? &problem->spec.extra : &problem->spec.format, problem->spec.d_qk);
    const void *base = tensor_of(problem, extra ? EXTRA_KV : KV);
    return extra ? kv_view_make(&layout, base, args->extra_kv_stride_token, args->extra_kv_page_tokens,
                                args->extra_kv_stride_page)
                 : kv_view_make(&layout, base, args->kv_stride_token, args->kv_page_tokens, args->kv_stride_page);
}

/* Gaps to strides, in elements of the cache. */
static void lay_out(const struct problem_cache *cache, const smla_kv_layout *layout, int64_t *stride_token,
                    int64_t *page_tokens, int64_t *stride_page)
{
    const int64_t elem_bytes = kv_elem_bytes(layout);
    const int64_t token_bytes = kv_token_bytes(layout) + cache->token_gap_bytes;
    *page_tokens = cache->page_tokens;
    if (cache->token_gap_bytes)
        *stride_token = token_bytes / elem_bytes;
    if (cache->page_tokens)
        *stride_page = (cache->page_tokens * token_bytes + cache->page_gap_bytes) / elem_bytes;
}

/* float32 scales that no writer of powers of two makes. */
static void make_scales_odd(const struct kv_view *view, int64_t slot)
{
    uint8_t *scales = kv_find(view, slot).scales;
    for (int64_t i = 0; i < view->layout.value_elems / view->layout.scale_group; i++) {
        float scale;
        memcpy(&scale, scales + 4 * i, 4);
        scale *= 1.0f + (float)((slot + i) % 7) * 0.1371f;
        memcpy(scales + 4 * i, &scale, 4);
    }
}

/* A token's bytes, whatever they mean: kv_read tells. */
static void write_codes(const struct kv_view *view, int64_t slot)
{
    const smla_kv_layout *layout = &view->layout;
    const struct kv_parts at = kv_find(view, slot);
    for (int64_t i = 0; i < kv_value_bytes(layout); i++) {
        at.values[i] = (uint8_t)(slot * 3 + i);
        if (layout->value_type == SMLA_VALUE_E4M3 && (at.values[i] & 0x7f) == 0x7f && slot % 8 != 7)
            at.values[i] ^= 0x44;
    }
    for (int64_t i = 0; i < kv_scale_bytes(layout); i++)
        at.scales[i] = (uint8_t)(slot + (slot % 3) * i);
    for (int64_t i = 0; i < layout->tail_elems; i++) {
        const uint16_t value = bf16_from_float((float)(slot + i) / 64);
        memcpy(at.tail + 2 * i, &value, 2);
    }
}

/* Rows of very different size, so that a scale of the wrong token shows. What nothing selects is all ones: NaN. */
static uint8_t *fill_cache(const struct problem *problem, bool extra, int64_t s_kv, const uint8_t *selected,
                           uint64_t *state)
{
    static uint16_t row[576];
    struct kv_view view = view_of(problem, extra);
    const size_t size = (size_t)kv_cache_bytes(&view, s_kv);
    view.base = malloc(size + 1);
    int spoiled = problem->spec.nan_selected ? 0 : 1;
    const int64_t exponents = problem->spec.exponents ? problem->spec.exponents : 9;
    if (!view.base)
        return NULL;
    memset(view.base, 0xff, size);
    for (int64_t slot = 0; slot < s_kv; slot++) {
        if (!selected[slot])
            continue;
        if (problem->spec.any_codes) {
            write_codes(&view, slot);
            continue;
        }
        for (int64_t d = 0; d < problem->spec.d_qk; d++)
            row[d] = bf16_from_float(ldexpf(random_normal(state), (int)(slot % exponents) - 5));
        if (spoiled++ == 0)
            row[17] = NAN_BF16;
        kv_write(&view, slot, row);
        if (problem->spec.odd_scales && view.layout.scale_type == SMLA_SCALE_FP32)
            make_scales_odd(&view, slot);
    }
    return view.base;
}

/* The lists and the contents of the second cache. */
static bool make_extra(struct bench *bench, struct problem *problem, uint64_t *state)
{
    struct problem_spec spec = problem->spec;
    if (!spec.has_extra)
        return true;
    spec.s_kv = spec.extra_s_kv;
    spec.topk = spec.extra_topk;
    const smla_kv_layout layout = layout_of(&spec.extra, spec.d_qk);
    smla_prefill_args *args = &problem->args;
    args->extra_s_kv = spec.s_kv;
    args->extra_topk = spec.topk;
    lay_out(&spec.extra, &layout, &args->extra_kv_stride_token, &args->extra_kv_page_tokens,
            &args->extra_kv_stride_page);
    uint8_t *selected = calloc((size_t)spec.s_kv + 1, 1);
    const bool listed = selected && make_lists(&problem->host[EXTRA_INDICES], &spec, spec.topk, 1, selected, state);
    if (listed)
        problem->host[EXTRA_KV] = fill_cache(problem, true, spec.s_kv, selected, state);
    free(selected);
    const struct kv_view view = view_of(problem, true);
    return listed &&
           upload(bench, problem, EXTRA_KV, "extra_kv", (size_t)kv_cache_bytes(&view, spec.s_kv), &problem->extra_kv) &&
           upload(bench, problem, EXTRA_INDICES, "extra_indices", (size_t)(spec.s_q * spec.topk) * 4,
                  &problem->extra_indices) &&
           (!spec.lengths || upload(bench, problem, EXTRA_TOPK_LENGTH, "extra_topk_length", (size_t)spec.s_q * 4,
                                    &problem->extra_topk_length));
}

static bool make_inputs(struct bench *bench, struct problem *problem, uint8_t *selected)
{
    const struct problem_spec *spec = &problem->spec;
    smla_prefill_args *args = &problem->args;
    uint64_t state = spec->seed * 1000003u + 12345;
    if (!make_lists(&problem->host[INDICES], spec, or_contiguous(args->indices_stride_token, spec->topk),
                    or_contiguous(args->topk_length_stride, 1), selected, &state))
        return false;
    size_t query_bytes;
    problem->host[QUERY] = fill_query(spec, args, spec->magnitude != 0 ? spec->magnitude : 1, &state, &query_bytes);
    const bool plain = !spec->format.format && !spec->format.layout && !spec->format.page_tokens;
    const int64_t kv_stride = or_contiguous(args->kv_stride_token, spec->d_qk);
    size_t kv_bytes = (size_t)(spec->s_kv * kv_stride) * 2;
    if (plain) {
        problem->host[KV] = fill_rows(spec->s_kv, kv_stride, spec->d_qk, 1, selected, &state);
        if (problem->host[KV])
            spoil_rows(spec, problem->host[KV], kv_stride, selected);
    } else {
        const smla_kv_layout layout = layout_of(&spec->format, spec->d_qk);
        args->kv_stride_token = 0;
        lay_out(&spec->format, &layout, &args->kv_stride_token, &args->kv_page_tokens, &args->kv_stride_page);
        problem->host[KV] = fill_cache(problem, false, spec->s_kv, selected, &state);
        const struct kv_view view = view_of(problem, false);
        kv_bytes = (size_t)kv_cache_bytes(&view, spec->s_kv);
    }
    if (!make_extra(bench, problem, &state))
        return false;
    if (spec->sink || spec->nan_sink)
        problem->host[ATTN_SINK] = make_sink(spec, &state);
    const size_t list_bytes = (size_t)(spec->s_q * or_contiguous(args->indices_stride_token, spec->topk)) * 4;
    const size_t length_bytes = (size_t)(spec->s_q * or_contiguous(args->topk_length_stride, 1)) * 4;
    return upload(bench, problem, QUERY, "query", query_bytes, &problem->query) &&
           upload(bench, problem, KV, "kv", kv_bytes, &problem->kv) &&
           upload(bench, problem, INDICES, "indices", list_bytes, &problem->indices) &&
           (!spec->lengths ||
            upload(bench, problem, TOPK_LENGTH, "topk_length", length_bytes, &problem->topk_length)) &&
           (!(spec->sink || spec->nan_sink) ||
            upload(bench, problem, ATTN_SINK, "attn_sink", (size_t)spec->h_q * 4, &problem->attn_sink));
}

static bool make_outputs(struct bench *bench, struct problem *problem)
{
    const smla_prefill_args *args = &problem->args;
    const int64_t head = or_contiguous(args->out_stride_head, D_V);
    const size_t out_bytes = (size_t)(args->s_q * or_contiguous(args->out_stride_token, head * problem->spec.h_q)) * 2;
    return guarded_create(bench->device, "out", NULL, out_bytes, &problem->out) &&
           guarded_create(bench->device, "lse", NULL,
                          (size_t)(args->s_q * or_contiguous(args->lse_stride_token, problem->spec.h_q)) * 4,
                          &problem->lse) &&
           guarded_create(bench->device, "max_logits", NULL,
                          (size_t)(args->s_q * or_contiguous(args->max_logits_stride_token, problem->spec.h_q)) * 4,
                          &problem->max_logits);
}

bool problem_make(struct bench *bench, const struct problem_spec *spec, struct problem *out, char why[PROBLEM_WHY])
{
    memset(out, 0, sizeof(*out));
    out->spec = *spec;
    const int64_t most = !bench->emulated ? INT64_MAX : spec->emulated_s_q ? spec->emulated_s_q : 4;
    if (out->spec.s_q > most)
        out->spec.s_q = most;
    if (out->spec.h_q == 0)
        out->spec.h_q = 64;
    if (out->spec.d_qk == 0)
        out->spec.d_qk = 512;
    spec = &out->spec;
    smla_kernel_desc desc = describe(spec);
    desc.flags = bench->kernel_flags;
    desc.batch_invariant = bench->batch_invariant;
    if (prepare_both(bench, &desc, why) != 0)
        return false;
    out->args = (smla_prefill_args){.struct_size = sizeof(smla_prefill_args),
                                    .lse_flags = spec->lse_flags,
                                    .s_q = spec->s_q,
                                    .s_kv = spec->s_kv,
                                    .topk = spec->topk,
                                    .sm_scale = spec->sm_scale == 0 && !signbit(spec->sm_scale) ? 0.04419417382f
                                                                                                : spec->sm_scale};
    set_strides(out);
    uint8_t *selected = calloc((size_t)spec->s_kv + 1, 1);
    const bool made = selected && make_inputs(bench, out, selected) && make_outputs(bench, out);
    free(selected);
    if (!made) {
        snprintf(why, PROBLEM_WHY, "no memory, or %s", device_why(bench->device));
        problem_free(bench, out);
        return false;
    }
    out->args.query = guarded_data(&out->query);
    out->args.kv = guarded_data(&out->kv);
    out->args.indices = guarded_data(&out->indices);
    out->args.topk_length = guarded_data(&out->topk_length);
    out->args.extra_kv = guarded_data(&out->extra_kv);
    out->args.extra_indices = guarded_data(&out->extra_indices);
    out->args.extra_topk_length = guarded_data(&out->extra_topk_length);
    out->args.attn_sink = guarded_data(&out->attn_sink);
    out->args.out = guarded_data(&out->out);
    out->args.lse = guarded_data(&out->lse);
    out->args.max_logits = guarded_data(&out->max_logits);
    return true;
}

enum { BUFFERS = 11 };

/* All that a problem has on the device. */
static void list_buffers(struct problem *problem, struct guarded *buffers[BUFFERS])
{
    struct guarded *const all[BUFFERS] = {&problem->query,
                                          &problem->kv,
                                          &problem->indices,
                                          &problem->topk_length,
                                          &problem->attn_sink,
                                          &problem->out,
                                          &problem->lse,
                                          &problem->max_logits,
                                          &problem->extra_kv,
                                          &problem->extra_indices,
                                          &problem->extra_topk_length};
    for (int i = 0; i < BUFFERS; i++)
        buffers[i] = all[i];
}

void problem_free(struct bench *bench, struct problem *problem)
{
    struct guarded *buffers[BUFFERS];
    list_buffers(problem, buffers);
    for (int i = 0; i < BUFFERS; i++)
        if (buffers[i]->base)
            guarded_destroy(bench->device, buffers[i]);
    for (size_t i = 0; i < sizeof(problem->host) / sizeof(problem->host[0]); i++)
        free(problem->host[i]);
    memset(problem, 0, sizeof(*problem));
}

/* ---- Running and checking ---- */

bool problem_run(struct bench *bench, smla_kernel *kernel, struct problem *problem, void *stream, char why[PROBLEM_WHY])
{
    if (!guarded_poison(bench->device, &problem->out) || !guarded_poison(bench->device, &problem->lse) ||
        !guarded_poison(bench->device, &problem->max_logits) || !device_synchronize(bench->device)) {
        snprintf(why, PROBLEM_WHY, "%s", device_why(bench->device));
        return false;
    }
    if (smla_prefill(kernel, &problem->args, stream) != SMLA_OK) {
        fail_smla(why, "smla_prefill");
        return false;
    }
    if (!device_synchronize(bench->device)) {
        snprintf(why, PROBLEM_WHY, "%s", device_why(bench->device));
        return false;
    }
    return true;
}

uint8_t *problem_snapshot(struct bench *bench, const struct problem *problem, size_t *size_bytes)
{
    const struct guarded *const outputs[] = {&problem->out, &problem->lse, &problem->max_logits};
    *size_bytes = problem->out.size_bytes + problem->lse.size_bytes + problem->max_logits.size_bytes;
    uint8_t *bytes = malloc(*size_bytes + 1), *at = bytes;
    for (int i = 0; bytes && i < 3; at += outputs[i++]->size_bytes)
        if (!device_download(bench->device, at, guarded_data(outputs[i]), outputs[i]->size_bytes)) {
            free(bytes);
            return NULL;
        }
    return bytes;
}

/* What the float64 kernel says, contiguous. */
struct expected {
    int64_t rows; /* s_q * heads */
    float *out, *lse, *max_logits, *out_abs, *logit_abs;
};

/* NaN, on both sides: what the reference has not written, or a copy lost, is seen as that. (Once, in a CUDA context
 * just made, the beginning of a large copy came as zeros.) */
enum { NOT_WRITTEN = 0xff };

static bool download_expected(struct device *device, void *memory, size_t count, float **host)
{
    *host = malloc(count * 4 + 1);
    if (*host)
        memset(*host, NOT_WRITTEN, count * 4);
    return *host && device_download(device, *host, memory, count * 4);
}

static void flatten_list(const struct problem *problem, bool extra, int64_t token, int32_t base, int32_t *list)
{
    const smla_prefill_args *args = &problem->args;
    const int64_t topk = extra ? args->extra_topk : args->topk, s_kv = extra ? args->extra_s_kv : args->s_kv;
    const int64_t stride = extra ? args->extra_indices_stride_token : args->indices_stride_token;
    const int64_t length_stride = extra ? args->extra_topk_length_stride : args->topk_length_stride;
    const int32_t *lists = tensor_of(problem, extra ? EXTRA_INDICES : INDICES);
    const int32_t *lengths = tensor_of(problem, extra ? EXTRA_TOPK_LENGTH : TOPK_LENGTH);
    const bool counts = (extra ? args->extra_topk_length : args->topk_length) != NULL;
    const int32_t *from = lists + token * or_contiguous(stride, topk);
    const int64_t length = counts ? lengths[token * or_contiguous(length_stride, 1)] : topk;
    for (int64_t j = 0; j < topk; j++)
        list[j] = j < length && from[j] >= 0 && from[j] < s_kv ? from[j] + base : -1;
}

bool problem_flatten(struct bench *bench, const struct problem *problem, struct problem_flat *flat,
                     smla_prefill_args *args)
{
    const smla_prefill_args *from = &problem->args;
    const int64_t rows = from->s_kv + from->extra_s_kv, topk = from->topk + from->extra_topk, d = problem->spec.d_qk;
    const struct kv_view first = view_of(problem, false), second = view_of(problem, true);
    flat->kv = malloc((size_t)(rows * d) * 2 + 1);
    flat->indices = malloc((size_t)(from->s_q * topk) * 4 + 1);
    if (!flat->kv || !flat->indices)
        return false;
    for (int64_t row = 0; row < rows; row++)
        kv_read(row < from->s_kv ? &first : &second, row < from->s_kv ? row : row - from->s_kv, flat->kv + row * d);
    for (int64_t token = 0; token < from->s_q; token++) {
        flatten_list(problem, false, token, 0, flat->indices + token * topk);
        flatten_list(problem, true, token, (int32_t)from->s_kv, flat->indices + token * topk + from->topk);
    }
    *args = (smla_prefill_args){.struct_size = sizeof(*args),
                                .lse_flags = from->lse_flags,
                                .s_q = from->s_q,
                                .s_kv = rows,
                                .topk = topk,
                                .sm_scale = from->sm_scale,
                                .query = from->query,
                                .query_stride_token = from->query_stride_token,
                                .query_stride_head = from->query_stride_head,
                                .attn_sink = from->attn_sink};
    const size_t kv_bytes = (size_t)(rows * d) * 2, list_bytes = (size_t)(from->s_q * topk) * 4;
    const bool fine = device_alloc(bench->device, kv_bytes + 16, &flat->device_kv) &&
                      device_alloc(bench->device, list_bytes + 16, &flat->device_indices) &&
                      device_upload(bench->device, flat->device_kv, flat->kv, kv_bytes) &&
                      device_upload(bench->device, flat->device_indices, flat->indices, list_bytes);
    args->kv = flat->device_kv;
    args->indices = flat->device_indices;
    return fine;
}

void problem_flat_free(struct bench *bench, struct problem_flat *flat)
{
    free(flat->kv);
    free(flat->indices);
    if (flat->device_kv)
        device_free(bench->device, flat->device_kv);
    if (flat->device_indices)
        device_free(bench->device, flat->device_indices);
}

static bool run_reference_on(struct bench *bench, const struct problem *problem, smla_prefill_args args,
                             struct expected *expected)
{
    struct device *device = bench->device;
    const size_t rows = (size_t)(args.s_q * problem->spec.h_q), elems = rows * D_V;
    void *memory[5] = {0};
    bool fine = true;
    expected->rows = (int64_t)rows;
    for (int i = 0; i < 5; i++)
        fine = fine && device_alloc(device, (i < 2 ? elems : rows) * 4 + 16, &memory[i]) &&
               device_fill(device, memory[i], NOT_WRITTEN, (i < 2 ? elems : rows) * 4);
    args.out = memory[0];
    args.ref_out_abs = memory[1];
    args.lse = memory[2];
    args.max_logits = memory[3];
    args.ref_logit_abs = memory[4];
    args.out_stride_head = args.out_stride_token = args.lse_stride_token = args.max_logits_stride_token = 0;
    fine = fine && smla_prefill(bench->reference, &args, NULL) == SMLA_OK && device_synchronize(device) &&
           download_expected(device, memory[0], elems, &expected->out) &&
           download_expected(device, memory[1], elems, &expected->out_abs) &&
           download_expected(device, memory[2], rows, &expected->lse) &&
           download_expected(device, memory[3], rows, &expected->max_logits) &&
           download_expected(device, memory[4], rows, &expected->logit_abs);
    for (int i = 0; i < 5; i++)
        if (memory[i])
            device_free(device, memory[i]);
    return fine;
}

static bool run_reference(struct bench *bench, const struct problem *problem, struct expected *expected)
{
    const struct problem_spec *spec = &problem->spec;
    struct problem_flat flat = {0};
    smla_prefill_args args;
    if (!spec->format.format && !spec->format.layout && !spec->format.page_tokens && !spec->has_extra)
        return run_reference_on(bench, problem, problem->args, expected);
    const bool fine = problem_flatten(bench, problem, &flat, &args) && run_reference_on(bench, problem, args, expected);
    problem_flat_free(bench, &flat);
    return fine;
}

static float *narrow(const double *from, size_t count)
{
    float *to = malloc(count * sizeof(*to) + 1);
    for (size_t i = 0; to && i < count; i++)
        to[i] = (float)from[i];
    return to;
}

/* The emulated device's pointers are host pointers, so the CPU reference takes the call as it is; the float64 kernel
 * would take it minutes. */
static bool run_cpu_reference(const struct problem *problem, struct expected *expected)
{
    const smla_kernel_desc shape = describe(&problem->spec);
    struct reference_result result;
    if (!reference_prefill(&shape, &problem->args, &result))
        return false;
    const size_t rows = (size_t)(problem->args.s_q * problem->spec.h_q);
    *expected = (struct expected){.rows = (int64_t)rows,
                                  .out = narrow(result.out, rows * D_V),
                                  .lse = narrow(result.lse, rows),
                                  .max_logits = narrow(result.max_logits, rows),
                                  .out_abs = narrow(result.out_abs, rows * D_V),
                                  .logit_abs = narrow(result.logit_abs, rows)};
    reference_free(&result);
    return expected->out && expected->lse && expected->max_logits && expected->out_abs && expected->logit_abs;
}

#define SWAP(type, a, b)                                                                                               \
    do {                                                                                                               \
        type kept = (a);                                                                                               \
        (a) = (b);                                                                                                     \
        (b) = kept;                                                                                                    \
    } while (0)

void problem_swap_caches(struct problem *problem)
{
    smla_prefill_args *args = &problem->args;
    struct problem_spec *spec = &problem->spec;
    SWAP(int64_t, args->s_kv, args->extra_s_kv);
    SWAP(int64_t, args->topk, args->extra_topk);
    SWAP(const void *, args->kv, args->extra_kv);
    SWAP(int64_t, args->kv_stride_token, args->extra_kv_stride_token);
    SWAP(int64_t, args->kv_page_tokens, args->extra_kv_page_tokens);
    SWAP(int64_t, args->kv_stride_page, args->extra_kv_stride_page);
    SWAP(const int32_t *, args->indices, args->extra_indices);
    SWAP(int64_t, args->indices_stride_token, args->extra_indices_stride_token);
    SWAP(const int32_t *, args->topk_length, args->extra_topk_length);
    SWAP(int64_t, args->topk_length_stride, args->extra_topk_length_stride);
    SWAP(struct problem_cache, spec->format, spec->extra);
    SWAP(int64_t, spec->s_kv, spec->extra_s_kv);
    SWAP(int64_t, spec->topk, spec->extra_topk);
    SWAP(void *, problem->host[KV], problem->host[EXTRA_KV]);
    SWAP(void *, problem->host[INDICES], problem->host[EXTRA_INDICES]);
    SWAP(void *, problem->host[TOPK_LENGTH], problem->host[EXTRA_TOPK_LENGTH]);
    SWAP(struct guarded, problem->kv, problem->extra_kv);
    SWAP(struct guarded, problem->indices, problem->extra_indices);
    SWAP(struct guarded, problem->topk_length, problem->extra_topk_length);
}

static void free_expected(struct expected *expected)
{
    free(expected->out);
    free(expected->lse);
    free(expected->max_logits);
    free(expected->out_abs);
    free(expected->logit_abs);
}

/* A query's worth at a time, so that the double copies stay small. Keeps the worst of each figure. */
static void keep_worst(struct compare_result *all, struct compare_result one)
{
    all->bound_used = fmax(all->bound_used, one.bound_used);
    all->max_ulp = fmax(all->max_ulp, one.max_ulp);
    all->cos = fmax(all->cos, one.cos);
    all->failed += one.failed;
    all->pass = all->pass && one.pass;
}

static void widen(double *to, const float *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = (double)from[i];
}

static void widen_bf16(double *to, const uint16_t *from)
{
    for (int64_t i = 0; i < D_V; i++)
        to[i] = (double)bf16_to_float(from[i]);
}

struct figures {
    struct compare_result out, lse, max_logits;
};

static void compare_token(const struct problem *problem, const struct expected *expected, const uint8_t *snapshot,
                          int64_t token, struct figures *figures)
{
    static double got[MOST_HEADS * D_V], ref[MOST_HEADS * D_V], bound[MOST_HEADS * D_V];
    const int64_t heads = problem->spec.h_q;
    const smla_prefill_args *args = &problem->args;
    const int64_t head_stride = or_contiguous(args->out_stride_head, D_V);
    const int64_t token_stride = or_contiguous(args->out_stride_token, head_stride * heads);
    const uint16_t *out = (const uint16_t *)(const void *)snapshot;
    const float *lse = (const float *)(const void *)(snapshot + problem->out.size_bytes);
    const float *max_logits =
        (const float *)(const void *)(snapshot + problem->out.size_bytes + problem->lse.size_bytes);
    for (int64_t head = 0; head < heads; head++)
        widen_bf16(got + head * D_V, out + token * token_stride + head * head_stride);
    widen(ref, expected->out + token * heads * D_V, heads * D_V);
    widen(bound, expected->out_abs + token * heads * D_V, heads * D_V);
    keep_worst(&figures->out, compare_out(got, ref, bound, heads, D_V));
    widen(bound, expected->logit_abs + token * heads, heads);
    widen(got, lse + token * or_contiguous(args->lse_stride_token, heads), heads);
    widen(ref, expected->lse + token * heads, heads);
    keep_worst(&figures->lse, compare_log(got, ref, bound, heads, COMPARE_PREFILL));
    widen(got, max_logits + token * or_contiguous(args->max_logits_stride_token, heads), heads);
    widen(ref, expected->max_logits + token * heads, heads);
    keep_worst(&figures->max_logits, compare_log(got, ref, bound, heads, COMPARE_PREFILL));
}

static bool check_surroundings(struct bench *bench, struct problem *problem, char why[PROBLEM_WHY])
{
    struct guarded *buffers[BUFFERS];
    list_buffers(problem, buffers);
    for (int i = 0; i < BUFFERS; i++) {
        char text[GUARDED_WHY];
        if (buffers[i]->base && guarded_check(bench->device, buffers[i], text) != GUARDED_INTACT) {
            snprintf(why, PROBLEM_WHY, "%s", text);
            return false;
        }
    }
    return true;
}

/* The gaps between rows of a strided out still hold the poison. */
static bool gaps_intact(const struct problem *problem, const uint8_t *snapshot)
{
    const smla_prefill_args *args = &problem->args;
    const uint16_t *out = (const uint16_t *)(const void *)snapshot;
    if (!problem->spec.strided)
        return true;
    for (size_t i = 0; i < problem->out.size_bytes / 2; i++) {
        const int64_t in_token = (int64_t)i % args->out_stride_token;
        const bool written =
            in_token / args->out_stride_head < problem->spec.h_q && in_token % args->out_stride_head < D_V;
        if (!written && out[i] != 0xffff)
            return false;
    }
    return true;
}

bool problem_check(struct bench *bench, struct problem *problem, char why[PROBLEM_WHY])
{
    if (!check_surroundings(bench, problem, why))
        return false;
    struct expected expected = {0};
    size_t size_bytes;
    uint8_t *snapshot = problem_snapshot(bench, problem, &size_bytes);
    struct figures figures = {.out = {.pass = true}, .lse = {.pass = true}, .max_logits = {.pass = true}};
    const bool ran = snapshot && (bench->emulated ? run_cpu_reference(problem, &expected)
                                                  : run_reference(bench, problem, &expected));
    for (int64_t token = 0; ran && token < problem->spec.s_q; token++)
        compare_token(problem, &expected, snapshot, token, &figures);
    const bool intact = ran && gaps_intact(problem, snapshot);
    free_expected(&expected);
    free(snapshot);
    if (!ran) {
        snprintf(why, PROBLEM_WHY, "the reference did not run: %s", device_why(bench->device));
        return false;
    }
    snprintf(why, PROBLEM_WHY, "bound used: out %.3f (%.2f ulp, cos %.1e), lse %.3f, max_logits %.3f%s",
             figures.out.bound_used, figures.out.max_ulp, figures.out.cos, figures.lse.bound_used,
             figures.max_logits.bound_used, intact ? "" : "; a gap between rows of out was written");
    return intact && figures.out.pass && figures.lse.pass && figures.max_logits.pass;
}
