/* The CPU reference: every golden case, and each rule of the operator on rows small enough to compute by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bf16.h"
#include "case.h"
#include "compare.h"
#include "reference.h"

/* ---- A problem of one head, d_qk 4, d_v 2, five keys ---- */

enum { D_QK = 4, D_V = 2, KEYS = 5, TOPK = 4 };

struct small {
    smla_kernel_desc shape;
    smla_prefill_args args;
    uint16_t query[D_QK];
    uint16_t kv[KEYS * D_QK];
    int32_t indices[TOPK];
    int32_t topk_length;
    float attn_sink;
    struct reference_result result;
};

static const double small_query[D_QK] = {1, -0.5, 2, 0.25};
static const double small_kv[KEYS][D_QK] = {
    {0.5, 1, -1, 2}, {2, 0, 0.5, -1}, {-1, -2, 1, 0.5}, {0.25, 4, 0, 1}, {1, 1, 1, 1}};

static int small_setup(void **state)
{
    struct small *small = calloc(1, sizeof *small);
    assert_non_null(small);
    for (int d = 0; d < D_QK; d++)
        small->query[d] = bf16_from_float((float)small_query[d]);
    for (int i = 0; i < KEYS * D_QK; i++)
        small->kv[i] = bf16_from_float((float)small_kv[i / D_QK][i % D_QK]);
    memcpy(small->indices, (int32_t[]){0, 1, 2, 3}, sizeof small->indices);
    small->shape = (smla_kernel_desc){.h_q = 1, .d_qk = D_QK, .d_v = D_V};
    small->args = (smla_prefill_args){.s_q = 1,
                                      .s_kv = KEYS,
                                      .topk = TOPK,
                                      .sm_scale = 0.5f,
                                      .query = small->query,
                                      .kv = small->kv,
                                      .indices = small->indices};
    *state = small;
    return 0;
}

static int small_teardown(void **state)
{
    struct small *small = *state;
    reference_free(&small->result);
    free(small);
    return 0;
}

static void run(struct small *small)
{
    reference_free(&small->result);
    assert_true(reference_prefill(&small->shape, &small->args, &small->result));
}

static void set_sink(struct small *small, float sink)
{
    small->attn_sink = sink;
    small->args.attn_sink = &small->attn_sink;
}

static void set_length(struct small *small, int32_t length)
{
    small->topk_length = length;
    small->args.topk_length = &small->topk_length;
}

static double logit(int key)
{
    double sum = 0;
    for (int d = 0; d < D_QK; d++)
        sum += small_query[d] * small_kv[key][d];
    return 0.5 * sum;
}

/* The definition without any care for overflow. */
static void expect_keys(const struct small *small, const int *keys, int count, double exp_sink)
{
    double sum = 0;
    double max = -INFINITY;
    double out[D_V] = {0};
    for (int j = 0; j < count; j++) {
        sum += exp(logit(keys[j]));
        max = fmax(max, logit(keys[j]));
        for (int d = 0; d < D_V; d++)
            out[d] += exp(logit(keys[j])) * small_kv[keys[j]][d];
    }
    assert_true(fabs(small->result.lse[0] - log(sum)) < 1e-12);
    assert_true(fabs(small->result.max_logits[0] - max) < 1e-12);
    for (int d = 0; d < D_V; d++)
        assert_true(fabs(small->result.out[d] - out[d] / (sum + exp_sink)) < 1e-12);
}

static void expect_empty(const struct small *small, double lse)
{
    assert_true(small->result.out[0] == 0 && small->result.out[1] == 0);
    assert_true(small->result.lse[0] == lse);
    assert_true(small->result.max_logits[0] == -INFINITY);
}

static void expect_nan(const struct small *small)
{
    assert_true(isnan(small->result.out[0]) && isnan(small->result.out[1]));
    assert_true(isnan(small->result.lse[0]) && isnan(small->result.max_logits[0]));
}

static void plain_row(void **state)
{
    struct small *small = *state;
    run(small);
    expect_keys(small, (int[]){0, 1, 2, 3}, 4, 0);
}

static void duplicates_count(void **state)
{
    struct small *small = *state;
    memcpy(small->indices, (int32_t[]){2, 2, 0, 2}, sizeof small->indices);
    run(small);
    expect_keys(small, (int[]){2, 2, 0, 2}, 4, 0);
}

static void invalid_entries_are_ignored(void **state)
{
    struct small *small = *state;
    memcpy(small->indices, (int32_t[]){-1, 4, INT32_MIN, KEYS}, sizeof small->indices);
    run(small);
    expect_keys(small, (int[]){4}, 1, 0);
    small->indices[2] = INT32_MAX;
    run(small);
    expect_keys(small, (int[]){4}, 1, 0);
}

static void lengths_clamp(void **state)
{
    struct small *small = *state;
    set_length(small, 2);
    run(small);
    expect_keys(small, (int[]){0, 1}, 2, 0);
    set_length(small, 1000);
    run(small);
    expect_keys(small, (int[]){0, 1, 2, 3}, 4, 0);
    set_length(small, -7);
    run(small);
    expect_empty(small, INFINITY);
}

static void empty_rows(void **state)
{
    struct small *small = *state;
    set_length(small, 0);
    run(small);
    expect_empty(small, INFINITY);
    small->args.lse_flags = SMLA_LSE_EMPTY_NEGATIVE;
    run(small);
    expect_empty(small, -INFINITY);
    set_sink(small, 1.5f);
    run(small);
    expect_empty(small, -INFINITY);
    small->args.lse_flags = SMLA_LSE_WITH_SINK;
    run(small);
    expect_empty(small, 1.5);
    small->args.lse_flags = SMLA_LSE_WITH_SINK | SMLA_LSE_BASE_2 | SMLA_LSE_EMPTY_NEGATIVE;
    run(small);
    expect_empty(small, 1.5 / log(2));
    small->args.attn_sink = NULL; /* without a sink there is none to take part */
    run(small);
    expect_empty(small, -INFINITY);
}

static void nothing_to_read(void **state)
{
    struct small *small = *state;
    small->args.topk = 0;
    small->args.indices = NULL;
    run(small);
    expect_empty(small, INFINITY);
    small->args = (smla_prefill_args){.s_q = 1, .topk = TOPK, .sm_scale = 1, .query = small->query};
    small->args.indices = small->indices;
    run(small);
    expect_empty(small, INFINITY);
    small->args.s_q = 0;
    run(small);
}

static void sink_joins_the_softmax(void **state)
{
    struct small *small = *state;
    set_sink(small, 0.75f);
    run(small);
    expect_keys(small, (int[]){0, 1, 2, 3}, 4, exp(0.75));
    set_sink(small, -INFINITY);
    run(small);
    expect_keys(small, (int[]){0, 1, 2, 3}, 4, 0);
    set_sink(small, INFINITY);
    run(small);
    expect_keys(small, (int[]){0, 1, 2, 3}, 4, INFINITY);
    set_sink(small, 3e38f);
    run(small);
    expect_keys(small, (int[]){0, 1, 2, 3}, 4, INFINITY);
}

static void lse_options(void **state)
{
    struct small *small = *state;
    run(small);
    const double lse = small->result.lse[0];
    const double max = small->result.max_logits[0];
    set_sink(small, 0.75f);
    small->args.lse_flags = SMLA_LSE_BASE_2;
    run(small);
    assert_true(fabs(small->result.lse[0] - lse / log(2)) < 1e-12);
    assert_true(small->result.max_logits[0] == max);
    small->args.lse_flags = SMLA_LSE_WITH_SINK;
    run(small);
    assert_true(fabs(small->result.lse[0] - log(exp(lse) + exp(0.75))) < 1e-12);
    set_sink(small, 3e38f); /* exp of it is infinite, the logarithm of the sum is not */
    run(small);
    assert_true(small->result.lse[0] == (double)3e38f);
    set_sink(small, -3e38f);
    run(small);
    assert_true(fabs(small->result.lse[0] - lse) < 1e-12);
    set_sink(small, INFINITY);
    run(small);
    assert_true(small->result.lse[0] == INFINITY);
    set_sink(small, -INFINITY);
    run(small);
    assert_true(fabs(small->result.lse[0] - lse) < 1e-12);
}

static void nan_spreads_over_its_row_alone(void **state)
{
    struct small *small = *state;
    small->kv[4 * D_QK + 3] = 0x7fc0; /* a key that is not selected */
    run(small);
    expect_keys(small, (int[]){0, 1, 2, 3}, 4, 0);
    small->kv[3 * D_QK + 3] = 0xffc0; /* a selected one, outside V's columns */
    run(small);
    expect_nan(small);
    set_length(small, 3); /* … and past the length */
    run(small);
    expect_keys(small, (int[]){0, 1, 2}, 3, 0);
    set_sink(small, NAN);
    run(small);
    expect_nan(small);
    set_length(small, 0);
    run(small);
    assert_true(isnan(small->result.lse[0]) && isnan(small->result.out[0]));
}

/* A key with an infinite element: its weight is 0, and when no other has any the row is as good as empty. */
static void logits_of_minus_infinity(void **state)
{
    struct small *small = *state;
    small->kv[0 * D_QK + 2] = 0xff80; /* -inf, times 2, outside V's columns */
    run(small);
    expect_keys(small, (int[]){1, 2, 3}, 3, 0);
    set_length(small, 1);
    run(small);
    expect_empty(small, INFINITY);
    small->kv[0 * D_QK] = 0xff80; /* in V's first column: 0 times infinity */
    run(small);
    assert_true(isnan(small->result.out[0]) && small->result.out[1] == 0 && small->result.lse[0] == INFINITY);
}

/* Nothing is left of the other keys, and no sink hides it. */
static void logits_of_infinity(void **state)
{
    struct small *small = *state;
    small->kv[0 * D_QK + 2] = 0x7f80; /* inf, times 2 */
    set_sink(small, -INFINITY);
    small->args.lse_flags = SMLA_LSE_WITH_SINK;
    run(small);
    assert_true(isnan(small->result.lse[0]) && small->result.max_logits[0] == INFINITY);
}

static void figures_for_the_bounds(void **state)
{
    struct small *small = *state;
    memcpy(small->indices, (int32_t[]){1, 2, -1, -1}, sizeof small->indices);
    small->args.sm_scale = -0.5f;
    run(small);
    /* q.k is 2.75 and 2.125: at a negative scale key 2 is the largest */
    const double sum = exp(-1.375) + exp(-1.0625);
    assert_true(fabs(small->result.max_logits[0] - -1.0625) < 1e-12);
    assert_true(fabs(small->result.logit_abs[0] - 0.5 * (1 + 1 + 2 + 0.125)) < 1e-12);
    assert_true(fabs(small->result.out_abs[0] - (exp(-1.375) * 2 + exp(-1.0625) * 1) / sum) < 1e-12);
}

/* ---- Strides ---- */

static void strides(void **state)
{
    (void)state;
    enum { S_Q = 3, H_Q = 2, QUERY_TOKEN = 20, QUERY_HEAD = 7, KV_TOKEN = 9, LIST = 6, LENGTH = 4 };
    uint16_t query[S_Q * QUERY_TOKEN] = {0};
    uint16_t packed_query[S_Q * H_Q * D_QK];
    uint16_t kv[KEYS * KV_TOKEN] = {0};
    uint16_t packed_kv[KEYS * D_QK];
    int32_t indices[S_Q * LIST] = {0};
    int32_t packed_indices[S_Q * TOPK];
    int32_t lengths[S_Q * LENGTH] = {0};
    int32_t packed_lengths[S_Q];
    for (int i = 0; i < S_Q * H_Q * D_QK; i++) {
        packed_query[i] = bf16_from_float((float)(i % 7) - 3);
        query[i / (H_Q * D_QK) * QUERY_TOKEN + i / D_QK % H_Q * QUERY_HEAD + i % D_QK] = packed_query[i];
    }
    for (int i = 0; i < KEYS * D_QK; i++)
        packed_kv[i] = kv[i / D_QK * KV_TOKEN + i % D_QK] = bf16_from_float((float)(i % 5) - 2);
    for (int i = 0; i < S_Q * TOPK; i++)
        packed_indices[i] = indices[i / TOPK * LIST + i % TOPK] = i % KEYS;
    for (int i = 0; i < S_Q; i++)
        packed_lengths[i] = lengths[i * LENGTH] = i + 1;

    const smla_kernel_desc shape = {.h_q = H_Q, .d_qk = D_QK, .d_v = D_V};
    smla_prefill_args args = {.s_q = S_Q, .s_kv = KEYS, .topk = TOPK, .sm_scale = 0.5f};
    args.query = packed_query;
    args.kv = packed_kv;
    args.indices = packed_indices;
    args.topk_length = packed_lengths;
    struct reference_result packed;
    struct reference_result strided;
    assert_true(reference_prefill(&shape, &args, &packed));
    args.query = query;
    args.query_stride_token = QUERY_TOKEN;
    args.query_stride_head = QUERY_HEAD;
    args.kv = kv;
    args.kv_stride_token = KV_TOKEN;
    args.indices = indices;
    args.indices_stride_token = LIST;
    args.topk_length = lengths;
    args.topk_length_stride = LENGTH;
    assert_true(reference_prefill(&shape, &args, &strided));
    assert_memory_equal(packed.out, strided.out, S_Q * H_Q * D_V * sizeof(double));
    assert_memory_equal(packed.lse, strided.lse, S_Q * H_Q * sizeof(double));
    assert_memory_equal(packed.max_logits, strided.max_logits, S_Q * H_Q * sizeof(double));
    reference_free(&packed);
    reference_free(&strided);
}

/* ---- Golden cases ---- */

static double *widen(const float *values, size_t count)
{
    double *wide = malloc((count + 1) * sizeof *wide);
    assert_non_null(wide);
    for (size_t i = 0; i < count; i++)
        wide[i] = (double)values[i];
    return wide;
}

/* Two float64 computations of one formula agree far better than the bound for kernels asks. */
static void expect_same(const char *path, const char *name, struct compare_result compared)
{
    if (!compared.pass || compared.bound_used > 0.01)
        fail_msg("%s: %s: error %g, %g of the bound, cos %g, %d failed", path, name, compared.max_abs,
                 compared.bound_used, compared.cos, (int)compared.failed);
}

static void check_case(const char *path)
{
    char why[CASE_WHY];
    struct smla_case loaded;
    smla_kernel_desc shape;
    smla_prefill_args args;
    struct reference_result result;
    if (case_load(path, &loaded, why) != CASE_OK)
        fail_msg("%s: %s", path, why);
    case_describe(&loaded, &shape);
    case_arguments(&loaded, &args);
    assert_true(reference_prefill(&shape, &args, &result));
    const int64_t rows = loaded.b * loaded.s_q * loaded.h_q;
    double *out = widen(loaded.out_ref, (size_t)(rows * loaded.d_v));
    double *lse = widen(loaded.lse_ref, (size_t)rows);
    double *max_logits = widen(loaded.max_logits_ref, (size_t)rows);
    expect_same(path, "out", compare_out(result.out, out, result.out_abs, rows, loaded.d_v));
    expect_same(path, "lse", compare_log(result.lse, lse, result.logit_abs, rows, COMPARE_PREFILL));
    expect_same(path, "max_logits",
                compare_log(result.max_logits, max_logits, result.logit_abs, rows, COMPARE_PREFILL));
    free(out);
    free(lse);
    free(max_logits);
    reference_free(&result);
    case_free(&loaded);
}

static int check_folder(const char *folder)
{
    int checked = 0;
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        char path[1024];
        if (entry->d_name[0] != 'p' || strstr(entry->d_name, ".safetensors") == NULL)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        check_case(path);
        checked++;
    }
    if (directory != NULL)
        closedir(directory);
    return checked;
}

static void shipped_case(void **state)
{
    (void)state;
    assert_true(check_folder(TEST_DATA) > 0);
}

static void all_golden_cases(void **state)
{
    (void)state;
    const char *folder = getenv("SMLA_CASES");
    const int checked = check_folder(folder == NULL || folder[0] == 0 ? TEST_CASES : folder);
    print_message("%d cases\n", checked);
    if (checked == 0)
        skip();
}

#define SMALL(test) cmocka_unit_test_setup_teardown(test, small_setup, small_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SMALL(plain_row),
        SMALL(duplicates_count),
        SMALL(invalid_entries_are_ignored),
        SMALL(lengths_clamp),
        SMALL(empty_rows),
        SMALL(nothing_to_read),
        SMALL(sink_joins_the_softmax),
        SMALL(lse_options),
        SMALL(nan_spreads_over_its_row_alone),
        SMALL(logits_of_minus_infinity),
        SMALL(logits_of_infinity),
        SMALL(figures_for_the_bounds),
        cmocka_unit_test(strides),
        cmocka_unit_test(shipped_case),
        cmocka_unit_test(all_golden_cases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
