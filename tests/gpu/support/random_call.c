#include "random_call.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bf16.h"
#include "random_numbers.h"

enum { D_V = 512, NAN_BF16 = 0x7fff };
enum input { QUERY, KV, INDICES, TOPK_LENGTH, ATTN_SINK };

static int chosen(const struct random_call *call, enum axis axis)
{
    return call->choices.value[axis];
}

/* ---- Shape and strides ---- */

static int64_t or_contiguous(int64_t stride, int64_t contiguous)
{
    return stride ? stride : contiguous;
}

/* Strides of [tokens, heads, width]; 0 where contiguous. Multiples of 8 elements, as the kernel needs. */
static void draw_view(struct random_call *call, enum axis axis, int64_t width, int64_t *token, int64_t *head)
{
    const int64_t inner = width + 8 * random_below(&call->state, 5), more = 8 * random_below(&call->state, 5);
    const int64_t heads = call->problem.spec.h_q, tokens = call->problem.spec.s_q;
    *token = *head = 0;
    if (chosen(call, axis) == VIEW_PADDED) {
        *head = inner;
        *token = inner * heads + more;
    } else if (chosen(call, axis) == VIEW_HEADS_OUTSIDE) {
        *token = inner;
        *head = inner * (tokens > 0 ? tokens : 1) + more;
    }
}

static int64_t draw_stride(struct random_call *call, enum axis axis, int64_t width)
{
    return chosen(call, axis) == VIEW_PADDED ? width + 1 + random_below(&call->state, 7) : 0;
}

static void draw_strides(struct random_call *call)
{
    smla_prefill_args *args = &call->problem.args;
    const struct problem_spec *spec = &call->problem.spec;
    draw_view(call, AXIS_QUERY_VIEW, spec->d_qk, &args->query_stride_token, &args->query_stride_head);
    draw_view(call, AXIS_OUT_VIEW, D_V, &args->out_stride_token, &args->out_stride_head);
    if (chosen(call, AXIS_KV_VIEW) == VIEW_PADDED)
        args->kv_stride_token = spec->d_qk + 8 * (1 + random_below(&call->state, 16));
    args->indices_stride_token = draw_stride(call, AXIS_INDICES_VIEW, spec->topk);
    args->topk_length_stride = draw_stride(call, AXIS_LENGTH_VIEW, 1);
    args->lse_stride_token = draw_stride(call, AXIS_LSE_VIEW, spec->h_q);
    args->max_logits_stride_token = draw_stride(call, AXIS_MAX_VIEW, spec->h_q);
}

/* As close to their alignment as inputs may lie: 16 bytes for query and kv, 4 for the others. */
static void draw_bases(struct random_call *call)
{
    for (int i = QUERY; chosen(call, AXIS_BASE) == BASE_LEAST && i <= ATTN_SINK; i++)
        call->base[i] = i <= KV ? 8 * (1 + random_below(&call->state, 15)) : 1 + random_below(&call->state, 63);
}

static float scale_of(const struct random_call *call)
{
    static const float scales[] = {
        [SCALE_ZERO] = 0.0f,       [SCALE_MINUS_ZERO] = -0.0f, [SCALE_NEGATIVE] = -0.04f,
        [SCALE_DENORMAL] = 1e-42f, [SCALE_ONE] = 1.0f,
    };
    const int scale = chosen(call, AXIS_SCALE);
    return scale == SCALE_USUAL ? 1 / sqrtf((float)call->problem.spec.d_qk) : scales[scale];
}

static int64_t query_at(const struct random_call *call, int64_t token, int64_t head)
{
    const smla_prefill_args *args = &call->problem.args;
    const int64_t heads = or_contiguous(args->query_stride_head, call->problem.spec.d_qk);
    return token * or_contiguous(args->query_stride_token, heads * call->problem.spec.h_q) + head * heads;
}

int64_t random_call_out_at(const struct random_call *call, int64_t token, int64_t head)
{
    const smla_prefill_args *args = &call->problem.args;
    const int64_t heads = or_contiguous(args->out_stride_head, D_V);
    return token * or_contiguous(args->out_stride_token, heads * call->problem.spec.h_q) + head * heads;
}

int64_t random_call_lse_at(const struct random_call *call, int64_t token)
{
    return token * or_contiguous(call->problem.args.lse_stride_token, call->problem.spec.h_q);
}

int64_t random_call_max_at(const struct random_call *call, int64_t token)
{
    return token * or_contiguous(call->problem.args.max_logits_stride_token, call->problem.spec.h_q);
}

/* ---- Lists ---- */

/* Rows that lists may select, and the others. */
struct rows {
    int32_t *pool, *rest;
    int64_t pool_count, rest_count;
};

static bool draw_rows(struct random_call *call, struct rows *rows)
{
    static const double shares[] = {[POOL_HALF] = 0.5, [POOL_ALL] = 1, [POOL_FEW] = 0.05};
    const int64_t s_kv = call->problem.spec.s_kv;
    *rows = (struct rows){.pool = malloc((size_t)s_kv * 4 + 4), .rest = malloc((size_t)s_kv * 4 + 4)};
    for (int64_t row = 0; rows->pool && rows->rest && row < s_kv; row++) {
        bool in = random_chance(&call->state, shares[chosen(call, AXIS_POOL)]);
        if (row == 0 && chosen(call, AXIS_ROW_0) == ROW_0_NOT_SELECTED)
            in = false;
        if (row == s_kv - 1 && rows->pool_count == 0) /* the last valid index, and something at all */
            in = true;
        if (in)
            rows->pool[rows->pool_count++] = (int32_t)row;
        else
            rows->rest[rows->rest_count++] = (int32_t)row;
    }
    return rows->pool && rows->rest;
}

static int32_t draw_invalid(struct random_call *call)
{
    const int32_t s_kv = (int32_t)call->problem.spec.s_kv;
    const int32_t kinds[ENTRIES] = {[ENTRY_MINUS_ONE] = -1,
                                    [ENTRY_INT_MIN] = INT_MIN,
                                    [ENTRY_INT_MAX] = INT_MAX,
                                    [ENTRY_S_KV] = s_kv,
                                    [ENTRY_S_KV_63] = s_kv + 63};
    const int kind = chosen(call, AXIS_ENTRY);
    return kinds[kind != ENTRY_EVERY_KIND ? kind : 1 + random_below(&call->state, ENTRIES - 1)];
}

/* Whether the entry at a position is invalid; *block: of the block of keys that it is in, kept by the caller. */
static bool draw_validity(struct random_call *call, int64_t position, bool *block)
{
    static const double shares[] = {[SHARE_HALF] = 0.5, [SHARE_TENTH] = 0.1, [SHARE_MOST] = 0.97, [SHARE_ALL] = 1};
    const double share = shares[chosen(call, AXIS_SHARE)];
    const double topk = (double)call->problem.spec.topk, at = (double)position;
    if (position % 64 == 0)
        *block = random_chance(&call->state, share);
    switch (chosen(call, AXIS_PLACE)) {
    case PLACE_LEADING:
        return at < share * topk;
    case PLACE_TRAILING:
        return at >= (1 - share) * topk;
    case PLACE_INTERLEAVED:
        return floor((at + 1) * share) > floor(at * share);
    case PLACE_BLOCKS:
        return *block;
    case PLACE_ANYWHERE:
        return random_chance(&call->state, share);
    default:
        return false;
    }
}

static int32_t draw_past(struct random_call *call, const struct rows *rows)
{
    if (chosen(call, AXIS_PAST) == PAST_GARBAGE)
        return (int32_t)random_bits(&call->state);
    if (chosen(call, AXIS_PAST) == PAST_ROWS_OF_NAN && rows->rest_count > 0)
        return rows->rest[random_below(&call->state, rows->rest_count)];
    return draw_invalid(call);
}

static int32_t draw_entry(struct random_call *call, const struct rows *rows, const int32_t *list, int64_t position)
{
    const int duplicates = chosen(call, AXIS_DUPLICATES);
    if (duplicates == DUPLICATES_PAIRS && position % 2 == 1)
        return list[position - 1];
    if (duplicates == DUPLICATES_NEXT_BLOCK && position >= 64)
        return list[position - 64];
    return rows->pool[duplicates == DUPLICATES_ONE_KEY ? 0 : random_below(&call->state, rows->pool_count)];
}

static void draw_list(struct random_call *call, const struct rows *rows, int64_t token, int32_t *list, int64_t length)
{
    const int64_t s_kv = call->problem.spec.s_kv;
    const int kind = chosen(call, AXIS_DEAD);
    const bool dead = rows->pool_count == 0 || (kind == DEAD_FIRST && token == 0) ||
                      (kind == DEAD_SOME && random_chance(&call->state, 0.4));
    bool block = false;
    for (int64_t j = 0; j < call->problem.spec.topk; j++) {
        const bool invalid = draw_validity(call, j, &block);
        if (j >= length)
            list[j] = draw_past(call, rows);
        else if (dead || invalid)
            list[j] = draw_invalid(call);
        else
            list[j] = draw_entry(call, rows, list, j);
        if (j < length && list[j] >= 0 && list[j] < s_kv)
            call->selected[list[j]] = 1;
    }
}

static int32_t draw_length(struct random_call *call, int64_t token)
{
    const int32_t topk = (int32_t)call->problem.spec.topk;
    int kind = chosen(call, AXIS_LENGTH);
    if (kind == LENGTH_EVERY_KIND)
        kind = LENGTH_TOPK + (int)random_below(&call->state, LENGTH_EVERY_KIND - LENGTH_TOPK);
    switch (kind) {
    case LENGTH_ZERO:
        return 0;
    case LENGTH_RANDOM:
        return (int32_t)random_below(&call->state, topk + 1);
    case LENGTH_NEGATIVE:
        return token % 2 ? INT_MIN : -1;
    case LENGTH_BEYOND:
        return token % 2 ? INT_MAX : topk + 1;
    case LENGTH_RAMP:
        return token < topk ? (int32_t)token + 1 : topk;
    default:
        return topk;
    }
}

static int64_t clamped(int64_t length, int64_t topk)
{
    return length < 0 ? 0 : length > topk ? topk : length;
}

/* Gaps between lists hold row 0, gaps between lengths a large one. */
static bool make_lists(struct random_call *call)
{
    const struct problem_spec *spec = &call->problem.spec;
    const smla_prefill_args *args = &call->problem.args;
    const int64_t stride = or_contiguous(args->indices_stride_token, spec->topk);
    const int64_t length_stride = or_contiguous(args->topk_length_stride, 1);
    const int64_t lengths_count = call->base[TOPK_LENGTH] + spec->s_q * length_stride;
    int32_t *lists = calloc((size_t)(call->base[INDICES] + spec->s_q * stride) + 1, 4);
    int32_t *lengths = calloc((size_t)lengths_count + 1, 4);
    struct rows rows = {0};
    call->problem.host[INDICES] = lists;
    call->problem.host[TOPK_LENGTH] = lengths;
    const bool made = lists && lengths && draw_rows(call, &rows);
    for (int64_t i = 0; made && i < lengths_count; i++)
        lengths[i] = INT_MAX;
    for (int64_t token = 0; made && token < spec->s_q; token++) {
        int32_t *length = &lengths[call->base[TOPK_LENGTH] + token * length_stride];
        *length = draw_length(call, token);
        draw_list(call, &rows, token, lists + call->base[INDICES] + token * stride, clamped(*length, spec->topk));
    }
    free(rows.pool);
    free(rows.rest);
    return made;
}

/* ---- Values ---- */

static float kv_magnitude(const struct random_call *call)
{
    static const float magnitudes[] = {
        [VALUES_NORMAL] = 1, [VALUES_QUERY_0] = 1, [VALUES_KV_0] = 0, [VALUES_TINY] = 1e-3f, [VALUES_LARGE] = 100};
    return magnitudes[chosen(call, AXIS_VALUES)];
}

/* What gives logits of the chosen size at this scale. */
static float query_magnitude(const struct random_call *call)
{
    const float kv = kv_magnitude(call), scale = fabsf(call->problem.args.sm_scale);
    const float unit = scale < 1e-6f ? 1 : scale * sqrtf((float)call->problem.spec.d_qk);
    if (chosen(call, AXIS_VALUES) == VALUES_QUERY_0)
        return 0;
    return call->choices.deviation / unit / (kv > 0 ? kv : 1);
}

static void fill_normal(struct random_call *call, uint16_t *row, int64_t width, float magnitude)
{
    for (int64_t d = 0; d < width; d++)
        row[d] = bf16_from_float(random_normal(&call->state) * magnitude);
}

static uint16_t *nan_array(int64_t count)
{
    uint16_t *array = malloc((size_t)count * 2 + 2);
    for (int64_t i = 0; array && i < count; i++)
        array[i] = NAN_BF16;
    return array;
}

static int64_t kv_count(const struct random_call *call)
{
    return call->base[KV] +
           call->problem.spec.s_kv * or_contiguous(call->problem.args.kv_stride_token, call->problem.spec.d_qk);
}

static uint16_t *kv_row(const struct random_call *call, int64_t row)
{
    const int64_t stride = or_contiguous(call->problem.args.kv_stride_token, call->problem.spec.d_qk);
    return (uint16_t *)call->problem.host[KV] + call->base[KV] + row * stride;
}

static uint16_t *query_row(const struct random_call *call, int64_t token, int64_t head)
{
    return (uint16_t *)call->problem.host[QUERY] + call->base[QUERY] + query_at(call, token, head);
}

/* From the first element to past the last row. */
static int64_t view_count(int64_t tokens, int64_t last_row_at, int64_t width)
{
    return tokens > 0 ? last_row_at + width : 0;
}

static int64_t query_count(const struct random_call *call)
{
    const struct problem_spec *spec = &call->problem.spec;
    return call->base[QUERY] + view_count(spec->s_q, query_at(call, spec->s_q - 1, spec->h_q - 1), spec->d_qk);
}

static void put_special(struct random_call *call)
{
    static const uint16_t bits[] = {[SPECIAL_NAN_KEY] = 0xffc1,
                                    [SPECIAL_INFINITE_KEY] = 0x7f80,
                                    [SPECIAL_MINUS_INFINITE_KEY] = 0xff80,
                                    [SPECIAL_NAN_QUERY] = NAN_BF16,
                                    [SPECIAL_INFINITE_QUERY] = 0x7f80};
    const struct problem_spec *spec = &call->problem.spec;
    const int special = chosen(call, AXIS_SPECIAL);
    const int64_t column = random_below(&call->state, spec->d_qk);
    if (special == SPECIAL_NONE)
        return;
    if (special >= SPECIAL_NAN_QUERY) {
        if (spec->s_q > 0)
            query_row(call, random_below(&call->state, spec->s_q), random_below(&call->state, spec->h_q))[column] =
                bits[special];
        return;
    }
    for (int64_t row = 0, left = 2; row < spec->s_kv && left > 0; row++)
        if (call->selected[row] && random_chance(&call->state, 0.5)) {
            kv_row(call, row)[column] = bits[special];
            left--;
        }
}

static bool make_values(struct random_call *call)
{
    const struct problem_spec *spec = &call->problem.spec;
    uint16_t *query = call->problem.host[QUERY] = nan_array(query_count(call));
    uint16_t *kv = call->problem.host[KV] = nan_array(kv_count(call));
    for (int64_t i = 0; query && i < spec->s_q * spec->h_q; i++)
        fill_normal(call, query_row(call, i / spec->h_q, i % spec->h_q), spec->d_qk, query_magnitude(call));
    for (int64_t row = 0; kv && row < spec->s_kv; row++)
        if (call->selected[row])
            fill_normal(call, kv_row(call, row), spec->d_qk, kv_magnitude(call));
    if (query && kv)
        put_special(call);
    return query && kv;
}

static float draw_sink(struct random_call *call)
{
    static const float values[] = {
        [SINK_HUGE] = 3e38f, [SINK_INFINITY] = INFINITY, [SINK_MINUS_INFINITY] = -INFINITY, [SINK_NAN] = NAN};
    int kind = chosen(call, AXIS_SINK);
    if (kind == SINK_EVERY_KIND)
        kind = SINK_FINITE + (int)random_below(&call->state, SINK_EVERY_KIND - SINK_FINITE);
    if (kind == SINK_HUGE && random_chance(&call->state, 0.5))
        return random_chance(&call->state, 0.5) ? -3e38f : 1e4f;
    if (kind != SINK_FINITE)
        return values[kind];
    /* A sink 88 to 104 above a row's largest logit leaves an out below 2^-126, for which the kernel writes 0: within
     * 1e-6, but not within 2 ULP. So sinks are near logits that are near 0, and far from others. */
    const float sink = random_normal(&call->state) * 3;
    return call->choices.deviation > 100 ? copysignf(3000, sink) : sink;
}

static bool make_sink(struct random_call *call)
{
    float *sink = calloc((size_t)(call->base[ATTN_SINK] + call->problem.spec.h_q), sizeof(*sink));
    call->problem.host[ATTN_SINK] = sink;
    for (int head = 0; sink && head < call->problem.spec.h_q; head++)
        sink[call->base[ATTN_SINK] + head] = draw_sink(call);
    return sink != NULL;
}

/* ---- Buffers ---- */

struct buffer {
    struct guarded *guarded;
    const char *name;
    enum input input;
    int64_t count;
    size_t elem_bytes;
};

static bool upload(struct bench *bench, const struct random_call *call, const struct buffer *buffer)
{
    return device_upload(bench->device, guarded_data(buffer->guarded), call->problem.host[buffer->input],
                         (size_t)buffer->count * buffer->elem_bytes);
}

static void list_inputs(struct random_call *call, struct buffer inputs[5])
{
    struct problem *problem = &call->problem;
    const struct problem_spec *spec = &problem->spec;
    const int64_t lists = spec->s_q * or_contiguous(problem->args.indices_stride_token, spec->topk);
    const int64_t lengths = spec->s_q * or_contiguous(problem->args.topk_length_stride, 1);
    inputs[0] = (struct buffer){&problem->query, "query", QUERY, query_count(call), 2};
    inputs[1] = (struct buffer){&problem->kv, "kv", KV, kv_count(call), 2};
    inputs[2] = (struct buffer){&problem->indices, "indices", INDICES, call->base[INDICES] + lists, 4};
    inputs[3] =
        (struct buffer){&problem->topk_length, "topk_length", TOPK_LENGTH, call->base[TOPK_LENGTH] + lengths, 4};
    inputs[4] = (struct buffer){&problem->attn_sink, "attn_sink", ATTN_SINK, call->base[ATTN_SINK] + spec->h_q, 4};
}

static bool make_buffers(struct bench *bench, struct random_call *call)
{
    struct problem *problem = &call->problem;
    const struct problem_spec *spec = &problem->spec;
    struct buffer inputs[5];
    bool made = true;
    list_inputs(call, inputs);
    for (int i = 0; made && i < 5; i++)
        made = guarded_create(bench->device, inputs[i].name, problem->host[inputs[i].input],
                              (size_t)inputs[i].count * inputs[i].elem_bytes, inputs[i].guarded);
    const int64_t last = spec->s_q - 1;
    const int64_t out = view_count(spec->s_q, random_call_out_at(call, last, spec->h_q - 1), D_V);
    const int64_t lse = view_count(spec->s_q, random_call_lse_at(call, last), spec->h_q);
    const int64_t max_logits = view_count(spec->s_q, random_call_max_at(call, last), spec->h_q);
    return made && guarded_create(bench->device, "out", NULL, (size_t)out * 2, &problem->out) &&
           guarded_create(bench->device, "lse", NULL, (size_t)lse * 4, &problem->lse) &&
           guarded_create(bench->device, "max_logits", NULL, (size_t)max_logits * 4, &problem->max_logits);
}

static void set_pointers(struct random_call *call)
{
    struct problem *problem = &call->problem;
    smla_prefill_args *args = &problem->args;
    args->query = (uint16_t *)guarded_data(&problem->query) + call->base[QUERY];
    args->kv = (uint16_t *)guarded_data(&problem->kv) + call->base[KV];
    args->indices = (int32_t *)guarded_data(&problem->indices) + call->base[INDICES];
    if (chosen(call, AXIS_LENGTH) != LENGTH_NULL)
        args->topk_length = (int32_t *)guarded_data(&problem->topk_length) + call->base[TOPK_LENGTH];
    if (chosen(call, AXIS_SINK) != SINK_NULL)
        args->attn_sink = (float *)guarded_data(&problem->attn_sink) + call->base[ATTN_SINK];
    args->out = guarded_data(&problem->out);
    args->lse = guarded_data(&problem->lse);
    args->max_logits = guarded_data(&problem->max_logits);
    if (chosen(call, AXIS_ABSENT) == ABSENT_WHAT_MAY_BE && args->s_kv == 0)
        args->kv = NULL;
    if (chosen(call, AXIS_ABSENT) == ABSENT_WHAT_MAY_BE && args->topk == 0) {
        args->indices = NULL;
        args->indices_stride_token = 0;
    }
}

/* ---- The call ---- */

static void begin(const struct bench *bench, struct random_call *call)
{
    call->problem.spec = (struct problem_spec){.name = "random",
                                               .h_q = bench->desc.h_q,
                                               .d_qk = bench->desc.d_qk,
                                               .s_q = call->choices.s_q,
                                               .s_kv = call->choices.s_kv,
                                               .topk = call->choices.topk,
                                               .lse_flags = (uint32_t)chosen(call, AXIS_LSE)};
    const struct problem_spec *spec = &call->problem.spec;
    call->problem.args = (smla_prefill_args){.struct_size = sizeof(smla_prefill_args),
                                             .lse_flags = spec->lse_flags,
                                             .s_q = spec->s_q,
                                             .s_kv = spec->s_kv,
                                             .topk = spec->topk,
                                             .sm_scale = scale_of(call)};
    draw_strides(call);
    draw_bases(call);
}

bool random_call_make(struct bench *bench, const struct choices *choices, uint64_t state, struct random_call *out,
                      char why[PROBLEM_WHY])
{
    memset(out, 0, sizeof(*out));
    out->choices = *choices;
    out->state = state;
    begin(bench, out);
    out->selected = calloc((size_t)out->problem.spec.s_kv + 1, 1);
    if (!out->selected || !make_lists(out) || !make_values(out) || !make_sink(out) || !make_buffers(bench, out)) {
        snprintf(why, PROBLEM_WHY, "no memory, or %s", device_why(bench->device));
        return false;
    }
    set_pointers(out);
    return true;
}

void random_call_free(struct bench *bench, struct random_call *call)
{
    problem_free(bench, &call->problem);
    free(call->selected);
    call->selected = NULL;
}

/* ---- Changes ---- */

static void spoil_values(struct random_call *call)
{
    static const uint16_t poisons[] = {
        [POISON_INFINITY] = 0xff80, [POISON_NAN] = 0xffff, [POISON_LARGEST] = 0x7f7f, [POISON_ZERO] = 0};
    const uint16_t poison = poisons[chosen(call, AXIS_POISON)];
    const struct problem_spec *spec = &call->problem.spec;
    const int64_t stride = or_contiguous(call->problem.args.kv_stride_token, spec->d_qk);
    uint16_t *kv = call->problem.host[KV];
    for (int64_t i = 0; i < kv_count(call); i++) {
        const int64_t at = i - call->base[KV];
        if (at < 0 || !call->selected[at / stride] || at % stride >= spec->d_qk)
            kv[i] = poison;
    }
}

static void spoil_lists(struct random_call *call)
{
    const struct problem_spec *spec = &call->problem.spec;
    const smla_prefill_args *args = &call->problem.args;
    const int64_t stride = or_contiguous(args->indices_stride_token, spec->topk);
    const int64_t length_stride = or_contiguous(args->topk_length_stride, 1);
    const int32_t *lengths = (const int32_t *)call->problem.host[TOPK_LENGTH] + call->base[TOPK_LENGTH];
    int32_t *lists = (int32_t *)call->problem.host[INDICES] + call->base[INDICES];
    for (int64_t token = 0; args->topk_length && token < spec->s_q; token++)
        for (int64_t j = clamped(lengths[token * length_stride], spec->topk); j < stride; j++)
            lists[token * stride + j] = spec->s_kv > 0 ? (int32_t)random_below(&call->state, spec->s_kv) : -1;
}

bool random_call_spoil_rest(struct bench *bench, struct random_call *call)
{
    struct buffer inputs[5];
    spoil_values(call);
    spoil_lists(call);
    list_inputs(call, inputs);
    return upload(bench, call, &inputs[KV]) && upload(bench, call, &inputs[INDICES]);
}

/* Moves element `from` of an array to `to`, count elements of elem_bytes each. */
static void move(void *array, int64_t to, int64_t from, int64_t count, size_t elem_bytes)
{
    memcpy((char *)array + (size_t)to * elem_bytes, (char *)array + (size_t)from * elem_bytes,
           (size_t)count * elem_bytes);
}

/* One row after the other: the first is kept aside, each takes the next one's, the last gets what was kept. */
static bool rotate(void *array, int64_t first, int64_t stride, int64_t rows, int64_t width, size_t elem_bytes)
{
    void *kept = malloc((size_t)width * elem_bytes + 1);
    if (!kept)
        return false;
    if (rows > 0)
        memcpy(kept, (char *)array + (size_t)first * elem_bytes, (size_t)width * elem_bytes);
    for (int64_t row = 0; row + 1 < rows; row++)
        move(array, first + row * stride, first + (row + 1) * stride, width, elem_bytes);
    if (rows > 0)
        memcpy((char *)array + (size_t)(first + (rows - 1) * stride) * elem_bytes, kept, (size_t)width * elem_bytes);
    free(kept);
    return true;
}

bool random_call_rotate(struct bench *bench, struct random_call *call)
{
    const struct problem_spec *spec = &call->problem.spec;
    const smla_prefill_args *args = &call->problem.args;
    struct buffer inputs[5];
    bool fine = rotate(call->problem.host[INDICES], call->base[INDICES],
                       or_contiguous(args->indices_stride_token, spec->topk), spec->s_q, spec->topk, 4) &&
                rotate(call->problem.host[TOPK_LENGTH], call->base[TOPK_LENGTH],
                       or_contiguous(args->topk_length_stride, 1), spec->s_q, 1, 4);
    for (int64_t head = 0; fine && head < spec->h_q; head++)
        fine = rotate(call->problem.host[QUERY], call->base[QUERY] + query_at(call, 0, head),
                      query_at(call, 1, 0) - query_at(call, 0, 0), spec->s_q, spec->d_qk, 2);
    list_inputs(call, inputs);
    for (int i = QUERY; fine && i <= TOPK_LENGTH; i++)
        fine = upload(bench, call, &inputs[i]);
    return fine;
}
