#include "random_call.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bf16.h"
#include "random_cache.h"
#include "random_numbers.h"

enum { D_V = 512, NAN_BF16 = 0x7fff };

static const size_t elem_bytes[INPUTS] = {
    [QUERY] = 2,     [KV] = 1,       [INDICES] = 4,       [TOPK_LENGTH] = 4,
    [ATTN_SINK] = 4, [EXTRA_KV] = 1, [EXTRA_INDICES] = 4, [EXTRA_TOPK_LENGTH] = 4,
};

/* What is where, of the first cache and of the second. */
static const struct cache_place {
    enum problem_input kv, indices, lengths;
    enum axis length, page;
} places[2] = {{KV, INDICES, TOPK_LENGTH, AXIS_LENGTH, AXIS_PAGE},
               {EXTRA_KV, EXTRA_INDICES, EXTRA_TOPK_LENGTH, AXIS_EXTRA_LENGTH, AXIS_EXTRA_PAGE}};

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

/* Bytes behind a page: its stride must be a multiple of 16. far: as in a pool of many layers, where it fits. */
static int64_t draw_page_gap(struct random_call *call, int64_t pages)
{
    enum { FAR = 1039680, MOST = 1 << 25 };
    switch (chosen(call, AXIS_PAGE_GAP)) {
    case PAGE_GAP_16:
        return 16;
    case PAGE_GAP_FAR:
        if (pages * FAR <= MOST)
            return FAR;
        /* fall through */
    case PAGE_GAP_ANY:
        return 16 * (1 + random_below(&call->state, 100));
    default:
        return 0;
    }
}

/* Strides in elements, 0 where contiguous. A format placed by page has pages, one if need be. */
static void draw_cache(struct random_call *call, int c, int64_t *stride_token, int64_t *page_tokens,
                       int64_t *stride_page)
{
    const struct random_cache *cache = &call->caches[c];
    const bool by_page = cache->layout.place == SMLA_PLACE_PAGE;
    const int64_t elem = kv_elem_bytes(&cache->layout);
    int64_t token_bytes = kv_token_bytes(&cache->layout);
    if (chosen(call, AXIS_KV_VIEW) == VIEW_PADDED && !by_page) {
        token_bytes += 16 * (1 + random_below(&call->state, 16));
        *stride_token = token_bytes / elem;
    }
    *page_tokens = axis_number(places[c].page, chosen(call, places[c].page));
    if (by_page && *page_tokens == 0)
        *page_tokens = cache->s_kv;
    if (*page_tokens == 0)
        return;
    const int64_t tight = *page_tokens * token_bytes, pages = (cache->s_kv + *page_tokens - 1) / *page_tokens;
    const int64_t page_bytes = (tight + 15) / 16 * 16 + draw_page_gap(call, pages);
    if (page_bytes != tight)
        *stride_page = page_bytes / elem;
}

static void draw_strides(struct random_call *call)
{
    smla_prefill_args *args = &call->problem.args;
    const struct problem_spec *spec = &call->problem.spec;
    draw_view(call, AXIS_QUERY_VIEW, spec->d_qk, &args->query_stride_token, &args->query_stride_head);
    draw_view(call, AXIS_OUT_VIEW, D_V, &args->out_stride_token, &args->out_stride_head);
    draw_cache(call, 0, &args->kv_stride_token, &args->kv_page_tokens, &args->kv_stride_page);
    args->indices_stride_token = draw_stride(call, AXIS_INDICES_VIEW, spec->topk);
    args->topk_length_stride = draw_stride(call, AXIS_LENGTH_VIEW, 1);
    args->lse_stride_token = draw_stride(call, AXIS_LSE_VIEW, spec->h_q);
    args->max_logits_stride_token = draw_stride(call, AXIS_MAX_VIEW, spec->h_q);
    if (call->cache_count == 1)
        return;
    draw_cache(call, 1, &args->extra_kv_stride_token, &args->extra_kv_page_tokens, &args->extra_kv_stride_page);
    args->extra_indices_stride_token = draw_stride(call, AXIS_INDICES_VIEW, spec->extra_topk);
    args->extra_topk_length_stride = draw_stride(call, AXIS_LENGTH_VIEW, 1);
}

/* As close to their alignment as inputs may lie: 16 bytes for query and caches, 4 for the others. */
static void draw_bases(struct random_call *call)
{
    const int inputs = call->cache_count == 1 ? EXTRA_KV : INPUTS;
    for (int i = QUERY; chosen(call, AXIS_BASE) == BASE_LEAST && i < inputs; i++)
        call->base[i] = i == QUERY                 ? 8 * (1 + random_below(&call->state, 15))
                        : i == KV || i == EXTRA_KV ? 16 * (1 + random_below(&call->state, 15))
                                                   : 1 + random_below(&call->state, 63);
    for (int i = QUERY; i < inputs; i++)
        call->problem.before_bytes[i] = call->base[i] * (int64_t)elem_bytes[i];
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

/* Strides of a cache's lists and lengths, as the call has them. */
static int64_t list_stride(const struct random_call *call, int c)
{
    const smla_prefill_args *args = &call->problem.args;
    return or_contiguous(c ? args->extra_indices_stride_token : args->indices_stride_token, call->caches[c].topk);
}

static int64_t length_stride_of(const struct random_call *call, int c)
{
    const smla_prefill_args *args = &call->problem.args;
    return or_contiguous(c ? args->extra_topk_length_stride : args->topk_length_stride, 1);
}

static int32_t *lists_of(const struct random_call *call, int c)
{
    return (int32_t *)call->problem.host[places[c].indices] + call->base[places[c].indices];
}

static int32_t *lengths_of(const struct random_call *call, int c)
{
    return (int32_t *)call->problem.host[places[c].lengths] + call->base[places[c].lengths];
}

/* Rows that lists may select, and the others. */
struct rows {
    int32_t *pool, *rest;
    int64_t pool_count, rest_count;
};

static bool draw_rows(struct random_call *call, int64_t s_kv, struct rows *rows)
{
    static const double shares[] = {[POOL_HALF] = 0.5, [POOL_ALL] = 1, [POOL_FEW] = 0.05};
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

static int32_t draw_invalid(struct random_call *call, const struct random_cache *cache)
{
    const int32_t s_kv = (int32_t)cache->s_kv;
    const int32_t kinds[ENTRIES] = {[ENTRY_MINUS_ONE] = -1,
                                    [ENTRY_INT_MIN] = INT_MIN,
                                    [ENTRY_INT_MAX] = INT_MAX,
                                    [ENTRY_S_KV] = s_kv,
                                    [ENTRY_S_KV_63] = s_kv + 63};
    const int kind = chosen(call, AXIS_ENTRY);
    return kinds[kind != ENTRY_EVERY_KIND ? kind : 1 + random_below(&call->state, ENTRIES - 1)];
}

/* Whether the entry at a position is invalid; *block: of the block of keys that it is in, kept by the caller. */
static bool draw_validity(struct random_call *call, const struct random_cache *cache, int64_t position, bool *block)
{
    static const double shares[] = {[SHARE_HALF] = 0.5, [SHARE_TENTH] = 0.1, [SHARE_MOST] = 0.97, [SHARE_ALL] = 1};
    const double share = shares[chosen(call, AXIS_SHARE)];
    const double topk = (double)cache->topk, at = (double)position;
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

static int32_t draw_past(struct random_call *call, const struct random_cache *cache, const struct rows *rows)
{
    if (chosen(call, AXIS_PAST) == PAST_GARBAGE)
        return (int32_t)random_bits(&call->state);
    if (chosen(call, AXIS_PAST) == PAST_ROWS_OF_NAN && rows->rest_count > 0)
        return rows->rest[random_below(&call->state, rows->rest_count)];
    return draw_invalid(call, cache);
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

static void draw_list(struct random_call *call, const struct random_cache *cache, const struct rows *rows,
                      int64_t token, int32_t *list, int64_t length)
{
    const int kind = chosen(call, AXIS_DEAD);
    const bool dead = rows->pool_count == 0 || (kind == DEAD_FIRST && token == 0) ||
                      (kind == DEAD_SOME && random_chance(&call->state, 0.4));
    bool block = false;
    for (int64_t j = 0; j < cache->topk; j++) {
        const bool invalid = draw_validity(call, cache, j, &block);
        if (j >= length)
            list[j] = draw_past(call, cache, rows);
        else if (dead || invalid)
            list[j] = draw_invalid(call, cache);
        else
            list[j] = draw_entry(call, rows, list, j);
        if (j < length && list[j] >= 0 && list[j] < cache->s_kv)
            cache->selected[list[j]] = 1;
    }
}

static int32_t draw_length(struct random_call *call, int c, int64_t token)
{
    const int32_t topk = (int32_t)call->caches[c].topk;
    int kind = chosen(call, places[c].length);
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
static bool make_lists(struct random_call *call, int c)
{
    const struct random_cache *cache = &call->caches[c];
    const int64_t s_q = call->problem.spec.s_q, stride = list_stride(call, c),
                  length_stride = length_stride_of(call, c);
    const int64_t lengths_count = call->base[places[c].lengths] + s_q * length_stride;
    int32_t *lists = calloc((size_t)(call->base[places[c].indices] + s_q * stride) + 1, 4);
    int32_t *lengths = calloc((size_t)lengths_count + 1, 4);
    struct rows rows = {0};
    call->problem.host[places[c].indices] = lists;
    call->problem.host[places[c].lengths] = lengths;
    const bool made = lists && lengths && draw_rows(call, cache->s_kv, &rows);
    for (int64_t i = 0; made && i < lengths_count; i++)
        lengths[i] = INT_MAX;
    for (int64_t token = 0; made && token < s_q; token++) {
        int32_t *length = lengths_of(call, c) + token * length_stride;
        *length = draw_length(call, c, token);
        draw_list(call, cache, &rows, token, lists_of(call, c) + token * stride, clamped(*length, cache->topk));
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
    const float kv = kv_magnitude(call) * random_cache_growth(call), scale = fabsf(call->problem.args.sm_scale);
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

static const uint16_t special_bits[] = {[SPECIAL_NAN_KEY] = 0xffc1,
                                        [SPECIAL_INFINITE_KEY] = 0x7f80,
                                        [SPECIAL_MINUS_INFINITE_KEY] = 0xff80,
                                        [SPECIAL_NAN_QUERY] = NAN_BF16,
                                        [SPECIAL_INFINITE_QUERY] = 0x7f80};

static void put_special_query(struct random_call *call)
{
    const struct problem_spec *spec = &call->problem.spec;
    const int special = chosen(call, AXIS_SPECIAL);
    if (special >= SPECIAL_NAN_QUERY && spec->s_q > 0)
        query_row(call, random_below(&call->state, spec->s_q),
                  random_below(&call->state, spec->h_q))[random_below(&call->state, spec->d_qk)] =
            special_bits[special];
}

/* A special element goes into two rows at most. Values that are quantised have no infinity: NaN there. */
static void put_special_key(struct random_call *call, const struct random_cache *cache, uint16_t *row, int *left)
{
    const int special = chosen(call, AXIS_SPECIAL);
    if (special == SPECIAL_NONE || special >= SPECIAL_NAN_QUERY || *left == 0 || random_chance(&call->state, 0.5))
        return;
    const int64_t column = random_below(&call->state, call->problem.spec.d_qk);
    const bool quantised = cache->layout.value_type != SMLA_VALUE_BF16 && column < cache->layout.value_elems;
    row[column] = special_bits[quantised ? SPECIAL_NAN_KEY : special];
    --*left;
}

static bool make_cache(struct random_call *call, int c)
{
    const struct random_cache *cache = &call->caches[c];
    const enum problem_input input = places[c].kv;
    uint16_t row[576];
    struct kv_view view = random_cache_view(call, c);
    const size_t size = (size_t)(call->base[input] + kv_cache_bytes(&view, cache->s_kv));
    int left = 2;
    uint8_t *bytes = call->problem.host[input] = malloc(size + 1);
    if (!bytes)
        return false;
    memset(bytes, 0xff, size); /* NaN in every format */
    view = random_cache_view(call, c);
    for (int64_t slot = 0; slot < cache->s_kv; slot++) {
        if (!cache->selected[slot])
            continue;
        fill_normal(call, row, call->problem.spec.d_qk, kv_magnitude(call));
        put_special_key(call, cache, row, &left);
        kv_write(&view, slot, row);
        random_cache_alter(call, &view, slot);
    }
    return true;
}

static bool make_values(struct random_call *call)
{
    const struct problem_spec *spec = &call->problem.spec;
    uint16_t *query = call->problem.host[QUERY] = nan_array(query_count(call));
    for (int64_t i = 0; query && i < spec->s_q * spec->h_q; i++)
        fill_normal(call, query_row(call, i / spec->h_q, i % spec->h_q), spec->d_qk, query_magnitude(call));
    if (query)
        put_special_query(call);
    bool made = query != NULL;
    for (int c = 0; c < call->cache_count; c++)
        made = made && make_cache(call, c);
    return made;
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
    int64_t count; /* elements */
};

static bool upload(struct bench *bench, const struct random_call *call, const struct buffer *buffers,
                   enum problem_input input)
{
    return device_upload(bench->device, guarded_data(buffers[input].guarded), call->problem.host[input],
                         (size_t)buffers[input].count * elem_bytes[input]);
}

/* Those of a cache that is not there have no name. */
static void list_inputs(struct random_call *call, struct buffer inputs[INPUTS])
{
    struct problem *problem = &call->problem;
    struct guarded *const guarded[2][3] = {{&problem->kv, &problem->indices, &problem->topk_length},
                                           {&problem->extra_kv, &problem->extra_indices, &problem->extra_topk_length}};
    static const char *const names[2][3] = {{"kv", "indices", "topk_length"},
                                            {"extra_kv", "extra_indices", "extra_topk_length"}};
    const int64_t s_q = problem->spec.s_q;
    memset(inputs, 0, INPUTS * sizeof(inputs[0]));
    inputs[QUERY] = (struct buffer){&problem->query, "query", query_count(call)};
    inputs[ATTN_SINK] = (struct buffer){&problem->attn_sink, "attn_sink", call->base[ATTN_SINK] + problem->spec.h_q};
    for (int c = 0; c < call->cache_count; c++) {
        const struct cache_place *place = &places[c];
        const struct kv_view view = random_cache_view(call, c);
        inputs[place->kv] = (struct buffer){guarded[c][0], names[c][0],
                                            call->base[place->kv] + kv_cache_bytes(&view, call->caches[c].s_kv)};
        inputs[place->indices] =
            (struct buffer){guarded[c][1], names[c][1], call->base[place->indices] + s_q * list_stride(call, c)};
        inputs[place->lengths] =
            (struct buffer){guarded[c][2], names[c][2], call->base[place->lengths] + s_q * length_stride_of(call, c)};
    }
}

static bool make_buffers(struct bench *bench, struct random_call *call)
{
    struct problem *problem = &call->problem;
    const struct problem_spec *spec = &problem->spec;
    struct buffer inputs[INPUTS];
    bool made = true;
    list_inputs(call, inputs);
    for (int i = 0; made && i < INPUTS; i++)
        made = !inputs[i].name || guarded_create(bench->device, inputs[i].name, problem->host[i],
                                                 (size_t)inputs[i].count * elem_bytes[i], inputs[i].guarded);
    const int64_t last = spec->s_q - 1;
    const int64_t out = view_count(spec->s_q, random_call_out_at(call, last, spec->h_q - 1), D_V);
    const int64_t lse = view_count(spec->s_q, random_call_lse_at(call, last), spec->h_q);
    const int64_t max_logits = view_count(spec->s_q, random_call_max_at(call, last), spec->h_q);
    return made && guarded_create(bench->device, "out", NULL, (size_t)out * 2, &problem->out) &&
           guarded_create(bench->device, "lse", NULL, (size_t)lse * 4, &problem->lse) &&
           guarded_create(bench->device, "max_logits", NULL, (size_t)max_logits * 4, &problem->max_logits);
}

static void *tensor_at(const struct random_call *call, const struct guarded *buffer, enum problem_input input)
{
    return (uint8_t *)guarded_data(buffer) + call->problem.before_bytes[input];
}

static void set_extra_pointers(struct random_call *call)
{
    struct problem *problem = &call->problem;
    smla_prefill_args *args = &problem->args;
    args->extra_kv = tensor_at(call, &problem->extra_kv, EXTRA_KV);
    args->extra_indices = tensor_at(call, &problem->extra_indices, EXTRA_INDICES);
    if (chosen(call, AXIS_EXTRA_LENGTH) != LENGTH_NULL)
        args->extra_topk_length = tensor_at(call, &problem->extra_topk_length, EXTRA_TOPK_LENGTH);
    if (chosen(call, AXIS_ABSENT) == ABSENT_WHAT_MAY_BE && args->extra_s_kv == 0)
        args->extra_kv = NULL;
    if (chosen(call, AXIS_ABSENT) == ABSENT_WHAT_MAY_BE && args->extra_topk == 0) {
        args->extra_indices = NULL;
        args->extra_indices_stride_token = 0;
    }
}

static void set_pointers(struct random_call *call)
{
    struct problem *problem = &call->problem;
    smla_prefill_args *args = &problem->args;
    args->query = tensor_at(call, &problem->query, QUERY);
    args->kv = tensor_at(call, &problem->kv, KV);
    args->indices = tensor_at(call, &problem->indices, INDICES);
    if (chosen(call, AXIS_LENGTH) != LENGTH_NULL)
        args->topk_length = tensor_at(call, &problem->topk_length, TOPK_LENGTH);
    if (chosen(call, AXIS_SINK) != SINK_NULL)
        args->attn_sink = tensor_at(call, &problem->attn_sink, ATTN_SINK);
    args->out = guarded_data(&problem->out);
    args->lse = guarded_data(&problem->lse);
    args->max_logits = guarded_data(&problem->max_logits);
    if (chosen(call, AXIS_ABSENT) == ABSENT_WHAT_MAY_BE && args->s_kv == 0)
        args->kv = NULL;
    if (chosen(call, AXIS_ABSENT) == ABSENT_WHAT_MAY_BE && args->topk == 0) {
        args->indices = NULL;
        args->indices_stride_token = 0;
    }
    if (call->cache_count == 2)
        set_extra_pointers(call);
}

/* ---- The call ---- */

static bool quantises(const char *name, const smla_kv_layout *layout)
{
    return layout ? layout->value_type != SMLA_VALUE_BF16 : name && strcmp(name, "bf16") != 0;
}

bool random_call_has_axis(const smla_kernel_desc *desc, enum axis axis)
{
    if (axis >= AXIS_EXTRA_S_KV && axis <= AXIS_EXTRA_PAGE)
        return desc->extra_kv_format || desc->extra_kv_layout;
    if (axis == AXIS_SCALES || axis == AXIS_CODES)
        return quantises(desc->kv_format, desc->kv_layout) || quantises(desc->extra_kv_format, desc->extra_kv_layout);
    return true;
}

static void set_layouts(const smla_kernel_desc *desc, struct random_call *call)
{
    const struct choices *choices = &call->choices;
    const char *const names[2] = {desc->kv_format ? desc->kv_format : "bf16", desc->extra_kv_format};
    const smla_kv_layout *const layouts[2] = {desc->kv_layout, desc->extra_kv_layout};
    call->cache_count = desc->extra_kv_format || desc->extra_kv_layout ? 2 : 1;
    for (int c = 0; c < call->cache_count; c++) {
        struct random_cache *cache = &call->caches[c];
        cache->layout.struct_size = sizeof(cache->layout);
        if (layouts[c])
            cache->layout = *layouts[c];
        else
            smla_kv_layout_preset(names[c], desc->d_qk, &cache->layout);
        cache->s_kv = c ? choices->extra_s_kv : choices->s_kv;
        cache->topk = c ? choices->extra_topk : choices->topk;
    }
}

static void begin(const struct bench *bench, struct random_call *call)
{
    const smla_kernel_desc *desc = &bench->desc;
    for (enum axis axis = 0; axis < AXES; axis++)
        if (!random_call_has_axis(desc, axis))
            call->choices.value[axis] = 0;
    set_layouts(desc, call);
    const struct random_cache *extra = &call->caches[1];
    struct problem_spec *spec = &call->problem.spec;
    *spec = (struct problem_spec){.name = "random",
                                  .h_q = desc->h_q,
                                  .d_qk = desc->d_qk,
                                  .s_q = call->choices.s_q,
                                  .s_kv = call->choices.s_kv,
                                  .topk = call->choices.topk,
                                  .lse_flags = (uint32_t)chosen(call, AXIS_LSE),
                                  .format = {.format = desc->kv_format, .layout = desc->kv_layout},
                                  .extra = {.format = desc->extra_kv_format, .layout = desc->extra_kv_layout},
                                  .has_extra = call->cache_count == 2,
                                  .extra_s_kv = extra->s_kv,
                                  .extra_topk = extra->topk};
    call->problem.args = (smla_prefill_args){.struct_size = sizeof(smla_prefill_args),
                                             .lse_flags = spec->lse_flags,
                                             .s_q = spec->s_q,
                                             .s_kv = spec->s_kv,
                                             .topk = spec->topk,
                                             .sm_scale = scale_of(call),
                                             .extra_s_kv = spec->extra_s_kv,
                                             .extra_topk = spec->extra_topk};
    draw_strides(call);
    draw_bases(call);
    spec->format.page_tokens = call->problem.args.kv_page_tokens;
    spec->extra.page_tokens = call->problem.args.extra_kv_page_tokens;
}

bool random_call_make(struct bench *bench, const struct choices *choices, uint64_t state, struct random_call *out,
                      char why[PROBLEM_WHY])
{
    memset(out, 0, sizeof(*out));
    out->choices = *choices;
    out->state = state;
    begin(bench, out);
    bool made = true;
    for (int c = 0; made && c < out->cache_count; c++) {
        out->caches[c].selected = calloc((size_t)out->caches[c].s_kv + 1, 1);
        made = out->caches[c].selected && make_lists(out, c);
    }
    if (!made || !make_values(out) || !make_sink(out) || !make_buffers(bench, out)) {
        snprintf(why, PROBLEM_WHY, "no memory, or %s", device_why(bench->device));
        return false;
    }
    set_pointers(out);
    return true;
}

void random_call_free(struct bench *bench, struct random_call *call)
{
    problem_free(bench, &call->problem);
    for (int c = 0; c < 2; c++) {
        free(call->caches[c].selected);
        call->caches[c].selected = NULL;
    }
}

/* ---- Changes ---- */

static void spoil_lists(struct random_call *call, int c)
{
    const struct random_cache *cache = &call->caches[c];
    const smla_prefill_args *args = &call->problem.args;
    const int64_t stride = list_stride(call, c), length_stride = length_stride_of(call, c);
    const int32_t *lengths = (c ? args->extra_topk_length : args->topk_length) ? lengths_of(call, c) : NULL;
    int32_t *lists = lists_of(call, c);
    for (int64_t token = 0; lengths && token < call->problem.spec.s_q; token++)
        for (int64_t j = clamped(lengths[token * length_stride], cache->topk); j < stride; j++)
            lists[token * stride + j] = cache->s_kv > 0 ? (int32_t)random_below(&call->state, cache->s_kv) : -1;
}

bool random_call_spoil_rest(struct bench *bench, struct random_call *call)
{
    struct buffer inputs[INPUTS];
    bool fine = true;
    list_inputs(call, inputs);
    for (int c = 0; fine && c < call->cache_count; c++) {
        spoil_lists(call, c);
        fine = random_cache_spoil(call, c, call->problem.host[places[c].kv], (size_t)inputs[places[c].kv].count) &&
               upload(bench, call, inputs, places[c].kv) && upload(bench, call, inputs, places[c].indices);
    }
    return fine;
}

/* Moves element `from` of an array to `to`, count elements of elem_bytes each. */
static void move(void *array, int64_t to, int64_t from, int64_t count, size_t elem)
{
    memcpy((char *)array + (size_t)to * elem, (char *)array + (size_t)from * elem, (size_t)count * elem);
}

/* One row after the other: the first is kept aside, each takes the next one's, the last gets what was kept. */
static bool rotate(void *array, int64_t first, int64_t stride, int64_t rows, int64_t width, size_t elem)
{
    void *kept = malloc((size_t)width * elem + 1);
    if (!kept)
        return false;
    if (rows > 0)
        memcpy(kept, (char *)array + (size_t)first * elem, (size_t)width * elem);
    for (int64_t row = 0; row + 1 < rows; row++)
        move(array, first + row * stride, first + (row + 1) * stride, width, elem);
    if (rows > 0)
        memcpy((char *)array + (size_t)(first + (rows - 1) * stride) * elem, kept, (size_t)width * elem);
    free(kept);
    return true;
}

bool random_call_rotate(struct bench *bench, struct random_call *call)
{
    const struct problem_spec *spec = &call->problem.spec;
    struct buffer inputs[INPUTS];
    bool fine = true;
    for (int c = 0; fine && c < call->cache_count; c++) {
        const struct cache_place *place = &places[c];
        fine = rotate(call->problem.host[place->indices], call->base[place->indices], list_stride(call, c), spec->s_q,
                      call->caches[c].topk, 4) &&
               rotate(call->problem.host[place->lengths], call->base[place->lengths], length_stride_of(call, c),
                      spec->s_q, 1, 4);
    }
    for (int64_t head = 0; fine && head < spec->h_q; head++)
        fine = rotate(call->problem.host[QUERY], call->base[QUERY] + query_at(call, 0, head),
                      query_at(call, 1, 0) - query_at(call, 0, 0), spec->s_q, spec->d_qk, 2);
    list_inputs(call, inputs);
    for (int i = QUERY; fine && i < INPUTS; i++)
        fine = !inputs[i].name || i == ATTN_SINK || upload(bench, call, inputs, (enum problem_input)i);
    return fine;
}
