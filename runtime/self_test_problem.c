#include "self_test_problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bf16.h"
#include "kv_read.h"

enum {
    GOOD_ROWS = 80,
    BAD_ROWS = 16, /* NaN, selected behind lengths alone */
    EXTRA_TOPK = 70,
    VALID_ENTRIES = 150, /* of a list, about */
    SHORT_LENGTH = 5,
    OUT_BYTES = 4 /* an element of out, of the widest type */
};

/* ---- Numbers: the same everywhere ---- */

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* In [-1, 1). */
static float random_unit(uint32_t *state)
{
    return (float)((int32_t)(next_random(state) >> 8) - 32768) / 32768.0f;
}

static void fill_bf16(uint16_t *to, int64_t count, uint32_t *state)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = bf16_from_float(random_unit(state));
}

/* ---- Layout ---- */

static bool has_keys(const struct test_problem *problem)
{
    return problem->spec->op != SMLA_OP_COMBINE;
}

static int64_t rows_of(const struct test_problem *problem)
{
    return (int64_t)TEST_TOKENS * problem->spec->h_q;
}

static const struct gen_kv_format *format_of(const struct test_problem *problem, int c)
{
    return c == 0 ? &problem->spec->kv : &problem->spec->extra_kv;
}

static int64_t kv_bytes(const struct test_problem *problem, int c)
{
    return problem->s_kv[c] * format_of(problem, c)->bytes_per_token;
}

static void lay_out(struct test_problem *problem)
{
    const struct gen_spec *spec = problem->spec;
    const int64_t rows = rows_of(problem), parts = has_keys(problem) ? 0 : TEST_PARTS;
    const int64_t sizes[TEST_TENSORS] = {
        [TEST_QUERY] = rows * spec->d_qk * 2,
        [TEST_KV] = kv_bytes(problem, 0),
        [TEST_EXTRA_KV] = kv_bytes(problem, 1),
        [TEST_INDICES] = TEST_TOKENS * problem->topk[0] * 4,
        [TEST_EXTRA_INDICES] = TEST_TOKENS * problem->topk[1] * 4,
        [TEST_LENGTHS] = (int64_t)TEST_TOKENS * 4,
        [TEST_EXTRA_LENGTHS] = (int64_t)TEST_TOKENS * 4,
        [TEST_PADDED_INDICES] = TEST_TOKENS * problem->topk[0] * 4,
        [TEST_EXTRA_PADDED_INDICES] = TEST_TOKENS * problem->topk[1] * 4,
        [TEST_SINK] = (int64_t)spec->h_q * 4,
        [TEST_PARTIAL_OUT] = parts * rows * spec->d_v * 2,
        [TEST_PARTIAL_OUT_FLOAT32] = parts * rows * spec->d_v * 4,
        [TEST_PARTIAL_LSE] = parts * rows * 4,
        [TEST_OUT] = rows * spec->d_v * OUT_BYTES,
        [TEST_LSE] = rows * 4,
        [TEST_MAX_LOGITS] = rows * 4,
    };

    for (int i = 0; i < TEST_TENSORS; i++) {
        problem->offsets[i] = problem->image_bytes;
        problem->image_bytes +=
            ((size_t)sizes[i] + TEST_TENSOR_ALIGNMENT - 1) / TEST_TENSOR_ALIGNMENT * TEST_TENSOR_ALIGNMENT;
    }
}

void *test_tensor_at(const struct test_problem *problem, enum test_tensor which)
{
    return problem->image + problem->offsets[which];
}

/* ---- Inputs ---- */

/* Heads of a class alike. */
static void fill_query(const struct test_problem *problem, uint32_t *state)
{
    const int64_t d_qk = problem->spec->d_qk;
    uint16_t *query = test_tensor_at(problem, TEST_QUERY);

    for (int64_t row = 0; row < rows_of(problem); row++) {
        const int64_t head = row % problem->spec->h_q;
        if (head < TEST_HEAD_CLASSES)
            fill_bf16(query + row * d_qk, d_qk, state);
        else
            memcpy(query + row * d_qk, query + (row - TEST_HEAD_CLASSES) * d_qk, (size_t)d_qk * 2);
    }
}

static void fill_sink(const struct test_problem *problem, uint32_t *state)
{
    float *sink = test_tensor_at(problem, TEST_SINK);

    for (int64_t head = 0; head < problem->spec->h_q; head++)
        sink[head] = head < TEST_HEAD_CLASSES ? 4 * random_unit(state) : sink[head - TEST_HEAD_CLASSES];
}

static smla_kv_layout layout_of(const struct gen_kv_format *format)
{
    return (smla_kv_layout){.struct_size = sizeof(smla_kv_layout),
                            .value_type = format->value_type,
                            .value_elems = format->value_elems,
                            .scale_type = format->scale_type,
                            .scale_group = format->scale_group,
                            .scale_bytes = format->scale_bytes,
                            .tail_elems = format->tail_elems,
                            .place = format->place};
}

/* Sizes from 1/4 to 2 of e4m3; any of e2m1, two a byte. */
static uint8_t random_value(uint32_t value_type, uint32_t *state)
{
    const uint32_t bits = next_random(state);

    return value_type == SMLA_VALUE_E4M3 ? (uint8_t)((bits & 0x87) | (5 + (bits >> 8) % 3) << 3) : (uint8_t)bits;
}

static void write_scale(uint32_t scale_type, uint8_t *scales, int64_t group, uint32_t *state)
{
    const uint32_t bits = next_random(state);
    const float scale = 0.75f + 0.25f * random_unit(state);

    if (scale_type == SMLA_SCALE_FP32)
        memcpy(scales + 4 * group, &scale, 4);
    else if (scale_type == SMLA_SCALE_UE8M0)
        scales[group] = (uint8_t)(126 + bits % 2); /* 1/2, 1 */
    else
        scales[group] = (uint8_t)(0x20 + bits % 16); /* from 1/8 to below 1/2 */
}

static void fill_row(const struct kv_view *view, int64_t row, uint32_t *state)
{
    const smla_kv_layout *layout = &view->layout;
    const struct kv_parts at = kv_find(view, row);

    if (layout->value_type == SMLA_VALUE_BF16) {
        fill_bf16((uint16_t *)(void *)at.values, layout->value_elems, state);
    } else {
        for (int64_t i = 0; i < kv_value_bytes(layout); i++)
            at.values[i] = random_value(layout->value_type, state);
        for (int64_t group = 0; group < layout->value_elems / layout->scale_group; group++)
            write_scale(layout->scale_type, at.scales, group, state);
    }
    fill_bf16((uint16_t *)(void *)at.tail, layout->tail_elems, state);
}

/* What is not filled stays all ones: NaN in every format's values, scales or tails. */
static void fill_cache(const struct test_problem *problem, int c, uint32_t *state)
{
    const smla_kv_layout layout = layout_of(format_of(problem, c));
    uint8_t *base = test_tensor_at(problem, c == 0 ? TEST_KV : TEST_EXTRA_KV);
    const struct kv_view view = kv_view_make(&layout, base, 0, TEST_PAGE_TOKENS, 0);

    memset(base, 0xff, (size_t)kv_bytes(problem, c));
    for (int64_t row = 0; row < GOOD_ROWS; row++)
        fill_row(&view, row, state);
}

/* A checked kernel refuses all but -1. */
static int32_t invalid_entry(const struct test_problem *problem, int c, uint32_t *state)
{
    const int32_t kinds[] = {-1, (int32_t)problem->s_kv[c], INT32_MAX, INT32_MIN};

    return problem->spec->checked ? -1 : kinds[next_random(state) % 4];
}

/* Of the first token entries that are valid lie all over the list; the second has few, the third none. */
static int32_t length_of(const struct test_problem *problem, int c, int64_t token)
{
    const int64_t lengths[TEST_TOKENS] = {problem->topk[c], SHORT_LENGTH - c, 0};

    return (int32_t)lengths[token];
}

static void fill_lists(const struct test_problem *problem, int c, uint32_t *state)
{
    const int64_t topk = problem->topk[c], step = topk > VALID_ENTRIES ? topk / VALID_ENTRIES : 1;
    int32_t *indices = test_tensor_at(problem, c == 0 ? TEST_INDICES : TEST_EXTRA_INDICES);
    int32_t *padded = test_tensor_at(problem, c == 0 ? TEST_PADDED_INDICES : TEST_EXTRA_PADDED_INDICES);
    int32_t *lengths = test_tensor_at(problem, c == 0 ? TEST_LENGTHS : TEST_EXTRA_LENGTHS);

    for (int64_t token = 0; token < TEST_TOKENS; token++) {
        lengths[token] = length_of(problem, c, token);
        for (int64_t j = 0; j < topk; j++) {
            const bool valid = j % step == 0 && j % 8 != 3;
            const int32_t invalid = invalid_entry(problem, c, state), good = (int32_t)(next_random(state) % GOOD_ROWS),
                          bad = GOOD_ROWS + (int32_t)(next_random(state) % BAD_ROWS);
            const bool counts = j < lengths[token];
            indices[token * topk + j] = !counts ? bad : valid ? good : invalid;
            padded[token * topk + j] = counts && valid ? good : invalid;
        }
    }
}

/* The third token's parts are empty, and one of the second's. */
static void fill_parts(const struct test_problem *problem, uint32_t *state)
{
    const int64_t h_q = problem->spec->h_q, d_v = problem->spec->d_v;
    uint16_t *out = test_tensor_at(problem, TEST_PARTIAL_OUT);
    float *wide = test_tensor_at(problem, TEST_PARTIAL_OUT_FLOAT32), *lse = test_tensor_at(problem, TEST_PARTIAL_LSE);

    for (int64_t row = 0; row < TEST_PARTS * rows_of(problem); row++) {
        const int64_t head = row % h_q, token = row / h_q % TEST_TOKENS, part = row / h_q / TEST_TOKENS;
        const bool empty = token == 2 || (token == 1 && part == 1), first = head < TEST_HEAD_CLASSES;
        const int64_t like = row - TEST_HEAD_CLASSES;
        if (first)
            fill_bf16(out + row * d_v, d_v, state);
        else
            memcpy(out + row * d_v, out + like * d_v, (size_t)d_v * 2);
        for (int64_t i = row * d_v; i < (row + 1) * d_v; i++)
            wide[i] = bf16_to_float(out[i]);
        lse[row] = empty ? part == 0 ? -INFINITY : INFINITY : first ? 4 * random_unit(state) : lse[like];
    }
}

static void fill(const struct test_problem *problem)
{
    uint32_t state = 1;

    fill_sink(problem, &state);
    if (!has_keys(problem)) {
        fill_parts(problem, &state);
        return;
    }
    fill_query(problem, &state);
    for (int c = 0; c < 2 && problem->topk[c] > 0; c++) {
        fill_cache(problem, c, &state);
        fill_lists(problem, c, &state);
    }
}

/* ---- The answer ---- */

static int32_t classes_of(const struct test_problem *problem)
{
    return problem->spec->h_q < TEST_HEAD_CLASSES ? problem->spec->h_q : TEST_HEAD_CLASSES;
}

static bool compute_attention(const struct test_problem *problem, struct reference_result *result)
{
    const struct gen_spec *spec = problem->spec;
    const smla_kv_layout layout = layout_of(&spec->kv), extra_layout = layout_of(&spec->extra_kv);
    const smla_kernel_desc shape = {.h_q = classes_of(problem),
                                    .d_qk = spec->d_qk,
                                    .d_v = spec->d_v,
                                    .kv_layout = &layout,
                                    .extra_kv_layout = problem->topk[1] > 0 ? &extra_layout : NULL};
    const smla_prefill_args args = {.s_q = TEST_TOKENS,
                                    .s_kv = problem->s_kv[0],
                                    .topk = problem->topk[0],
                                    .sm_scale = problem->sm_scale,
                                    .query = test_tensor_at(problem, TEST_QUERY),
                                    .query_stride_token = (int64_t)spec->h_q * spec->d_qk,
                                    .kv = test_tensor_at(problem, TEST_KV),
                                    .kv_page_tokens = TEST_PAGE_TOKENS,
                                    .indices = test_tensor_at(problem, TEST_INDICES),
                                    .topk_length = test_tensor_at(problem, TEST_LENGTHS),
                                    .attn_sink = test_tensor_at(problem, TEST_SINK),
                                    .extra_s_kv = problem->s_kv[1],
                                    .extra_topk = problem->topk[1],
                                    .extra_kv = test_tensor_at(problem, TEST_EXTRA_KV),
                                    .extra_kv_page_tokens = TEST_PAGE_TOKENS,
                                    .extra_indices = test_tensor_at(problem, TEST_EXTRA_INDICES),
                                    .extra_topk_length = test_tensor_at(problem, TEST_EXTRA_LENGTHS)};

    return reference_prefill(&shape, &args, result);
}

static bool compute_combine(const struct test_problem *problem, struct reference_result *result)
{
    const struct gen_spec *spec = problem->spec;
    const smla_kernel_desc shape = {.h_q = classes_of(problem), .d_v = spec->d_v};
    const smla_combine_args args = {.partial_dtype = SMLA_DTYPE_FLOAT32,
                                    .parts = TEST_PARTS,
                                    .s_q = TEST_TOKENS,
                                    .partial_out = test_tensor_at(problem, TEST_PARTIAL_OUT_FLOAT32),
                                    .partial_out_stride_token = (int64_t)spec->h_q * spec->d_v,
                                    .partial_lse = test_tensor_at(problem, TEST_PARTIAL_LSE),
                                    .partial_lse_stride_token = spec->h_q,
                                    .attn_sink = test_tensor_at(problem, TEST_SINK)};

    return reference_combine(&shape, &args, result);
}

static void spread_rows(const struct test_problem *problem, const double *from, int64_t width, double *to)
{
    const int64_t h_q = problem->spec->h_q, classes = classes_of(problem);

    for (int64_t row = 0; row < rows_of(problem); row++)
        memcpy(to + row * width, from + (row / h_q * classes + row % h_q % classes) * width,
               (size_t)width * sizeof *to);
}

/* From the classes' heads to all. */
static bool spread(struct test_problem *problem, const struct reference_result *classes)
{
    const int64_t rows = rows_of(problem), d_v = problem->spec->d_v;
    struct reference_result *all = &problem->expected;

    if (!reference_allocate(rows, d_v, all))
        return false;
    spread_rows(problem, classes->out, d_v, all->out);
    spread_rows(problem, classes->out_abs, d_v, all->out_abs);
    spread_rows(problem, classes->lse, 1, all->lse);
    spread_rows(problem, classes->max_logits, 1, all->max_logits);
    spread_rows(problem, classes->logit_abs, 1, all->logit_abs);
    return true;
}

static bool compute(struct test_problem *problem)
{
    struct reference_result classes = {0};
    bool ok = has_keys(problem) ? compute_attention(problem, &classes) : compute_combine(problem, &classes);

    ok = ok && spread(problem, &classes);
    reference_free(&classes);
    return ok;
}

bool test_problem_make(const struct gen_spec *spec, int64_t topk, struct test_problem *problem)
{
    *problem = (struct test_problem){.spec = spec, .sm_scale = 0.35f};
    if (has_keys(problem)) {
        problem->topk[0] = topk;
        problem->s_kv[0] = GOOD_ROWS + BAD_ROWS;
    }
    if (spec->has_extra_kv) {
        problem->topk[1] = EXTRA_TOPK;
        problem->s_kv[1] = GOOD_ROWS + BAD_ROWS;
    }
    lay_out(problem);
    problem->image = calloc(1, problem->image_bytes);
    if (problem->image == NULL)
        return false;
    fill(problem);
    memset(test_tensor_at(problem, TEST_OUT), 0xff, problem->image_bytes - problem->offsets[TEST_OUT]);
    if (compute(problem))
        return true;
    test_problem_free(problem);
    return false;
}

void test_problem_free(struct test_problem *problem)
{
    free(problem->image);
    reference_free(&problem->expected);
    problem->image = NULL;
}
