/* The CPU reference of combine: each rule on rows small enough to compute by hand, and the property it is there for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bf16.h"
#include "reference.h"

/* One row of d_v 2, up to three parts in float32. */
enum { D_V = 2, PARTS = 3 };

struct small {
    smla_kernel_desc shape;
    smla_combine_args args;
    float out[PARTS][D_V];
    float lse[PARTS];
    float sink;
    struct reference_result result;
};

/* cmocka 1.1's own takes float. */
static void assert_near(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-12))
        fail_msg("%.17g, not %.17g", got, wanted);
}

static int small_setup(void **state)
{
    static const float out[PARTS][D_V] = {{1, -2}, {3, 4}, {-5, 0.5f}};
    struct small *small = calloc(1, sizeof *small);

    assert_non_null(small);
    memcpy(small->out, out, sizeof out);
    for (int i = 0; i < PARTS; i++)
        small->lse[i] = (float)i;
    small->shape = (smla_kernel_desc){.h_q = 1, .d_v = D_V};
    small->args = (smla_combine_args){.parts = 2,
                                      .s_q = 1,
                                      .partial_dtype = SMLA_DTYPE_FLOAT32,
                                      .partial_out = small->out,
                                      .partial_lse = small->lse};
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

static void merge(struct small *small)
{
    reference_free(&small->result);
    assert_true(reference_combine(&small->shape, &small->args, &small->result));
}

static void expect(struct small *small, double first, double second, double lse)
{
    merge(small);
    assert_near(small->result.out[0], first);
    assert_near(small->result.out[1], second);
    if (isfinite(lse))
        assert_near(small->result.lse[0], lse);
    else
        assert_true(small->result.lse[0] == lse);
}

static void two_parts(void **state)
{
    struct small *small = *state;
    const double e = exp(1);

    expect(small, (1 + 3 * e) / (1 + e), (-2 + 4 * e) / (1 + e), log(1 + e));
    assert_near(small->result.out_abs[1], (2 + 4 * e) / (1 + e));
}

static void one_part_is_itself(void **state)
{
    struct small *small = *state;

    small->args.parts = 1;
    small->lse[0] = -1234.5f;
    expect(small, 1, -2, -1234.5);
}

static void bf16_parts(void **state)
{
    struct small *small = *state;
    const uint16_t out[2][D_V] = {{bf16_from_float(1), bf16_from_float(-2)}, {bf16_from_float(3), bf16_from_float(4)}};

    small->args.partial_dtype = SMLA_DTYPE_BF16;
    small->args.partial_out = out;
    small->lse[1] = 0;
    expect(small, 2, 1, log(2));
}

static void base_2_parts(void **state)
{
    struct small *small = *state;

    small->args.partial_lse_flags = SMLA_LSE_BASE_2; /* weights 1 and 2 */
    expect(small, 7.0 / 3, 2, log(3));
    small->args.lse_flags = SMLA_LSE_BASE_2;
    expect(small, 7.0 / 3, 2, log2(3));
}

/* Either infinity, whatever stands behind it. */
static void empty_parts(void **state)
{
    struct small *small = *state;

    for (int sign = -1; sign <= 1; sign += 2) {
        small->lse[1] = (float)sign * INFINITY;
        small->out[1][0] = NAN;
        small->out[1][1] = INFINITY;
        expect(small, 1, -2, 0);
    }
}

static void all_empty(void **state)
{
    struct small *small = *state;

    small->lse[0] = INFINITY;
    small->lse[1] = -INFINITY;
    expect(small, 0, 0, INFINITY);
    small->args.lse_flags = SMLA_LSE_EMPTY_NEGATIVE;
    expect(small, 0, 0, -INFINITY);
    small->args.parts = 0;
    small->args.partial_out = NULL;
    small->args.partial_lse = NULL;
    expect(small, 0, 0, -INFINITY);
    small->sink = 3;
    small->args.attn_sink = &small->sink;
    expect(small, 0, 0, -INFINITY);
    small->args.lse_flags = SMLA_LSE_WITH_SINK;
    expect(small, 0, 0, 3);
}

static void sink_joins_once(void **state)
{
    struct small *small = *state;
    const double e = exp(1);

    small->args.attn_sink = &small->sink;
    small->sink = 2;
    expect(small, (1 + 3 * e) / (1 + e + e * e), (-2 + 4 * e) / (1 + e + e * e), log(1 + e));
    small->args.lse_flags = SMLA_LSE_WITH_SINK;
    expect(small, (1 + 3 * e) / (1 + e + e * e), (-2 + 4 * e) / (1 + e + e * e), log(1 + e + e * e));
    small->sink = INFINITY;
    expect(small, 0, 0, INFINITY);
    small->sink = -INFINITY;
    expect(small, (1 + 3 * e) / (1 + e), (-2 + 4 * e) / (1 + e), log(1 + e));
}

static void nan_goes_where_it_must(void **state)
{
    struct small *small = *state;

    small->out[0][1] = NAN;
    merge(small);
    assert_true(isfinite(small->result.out[0]) && isnan(small->result.out[1]) && isfinite(small->result.lse[0]));
    small->lse[1] = NAN;
    merge(small);
    assert_true(isnan(small->result.out[0]) && isnan(small->result.lse[0]));
    small->lse[0] = small->lse[1] = INFINITY;
    small->sink = NAN;
    small->args.attn_sink = &small->sink;
    merge(small);
    assert_true(isnan(small->result.out[0]) && isnan(small->result.lse[0]));
}

/* Two tokens, two heads, everything apart and in odd order. */
static void strides(void **state)
{
    struct small *small = *state;
    float out[64], lse[64];

    for (int i = 0; i < 64; i++) {
        out[i] = (float)i;
        lse[i] = i % 2 ? NAN : 0;
    }
    small->shape.h_q = 2;
    small->args.s_q = 2;
    small->args.partial_out = out;
    small->args.partial_out_stride_part = 30;
    small->args.partial_out_stride_token = 3;
    small->args.partial_out_stride_head = 12;
    small->args.partial_lse = lse;
    small->args.partial_lse_stride_part = 20;
    small->args.partial_lse_stride_token = 2;
    small->args.partial_lse_stride_head = 8;
    merge(small);
    for (int token = 0; token < 2; token++)
        for (int head = 0; head < 2; head++)
            for (int d = 0; d < D_V; d++)
                assert_near(small->result.out[(token * 2 + head) * D_V + d], token * 3 + head * 12 + d + 15);
}

/* What it is for: the parts of a list, merged, are the whole list; the sink joins once, whoever lets it. */
static void parts_of_a_list_make_the_whole(void **state)
{
    enum { D_QK = 8, KEYS = 40, TOPK = 30, FIRST = 11 };
    struct small *small = *state;
    uint16_t query[D_QK], kv[KEYS * D_QK];
    int32_t list[TOPK];
    struct reference_result whole, part;
    const smla_kernel_desc shape = {.h_q = 1, .d_qk = D_QK, .d_v = D_V};

    for (int i = 0; i < D_QK; i++)
        query[i] = bf16_from_float((float)(i % 3) - 1.0f);
    for (int i = 0; i < KEYS * D_QK; i++)
        kv[i] = bf16_from_float((float)(i * 37 % 19) / 7 - 1.3f);
    for (int i = 0; i < TOPK; i++)
        list[i] = i % 5 == 4 ? -1 : i * 7 % KEYS;
    small->sink = 0.7f;
    smla_prefill_args args = {
        .s_q = 1, .s_kv = KEYS, .topk = TOPK, .sm_scale = 0.6f, .query = query, .kv = kv, .indices = list};
    for (int i = 0; i < 2; i++) {
        args.indices = list + (i ? FIRST : 0);
        args.topk = i ? TOPK - FIRST : FIRST;
        assert_true(reference_prefill(&shape, &args, &part));
        small->lse[i] = (float)part.lse[0];
        for (int d = 0; d < D_V; d++)
            small->out[i][d] = (float)part.out[d];
        reference_free(&part);
    }
    args.indices = list;
    args.topk = TOPK;
    args.attn_sink = &small->sink;
    assert_true(reference_prefill(&shape, &args, &whole));
    small->args.attn_sink = &small->sink;
    merge(small);
    for (int d = 0; d < D_V; d++)
        assert_true(fabs(small->result.out[d] - whole.out[d]) <= 1e-6);
    assert_true(fabs(small->result.lse[0] - whole.lse[0]) <= 1e-6);
    reference_free(&whole);
}

#define SMALL(test) cmocka_unit_test_setup_teardown(test, small_setup, small_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SMALL(two_parts),       SMALL(one_part_is_itself),
        SMALL(bf16_parts),      SMALL(base_2_parts),
        SMALL(empty_parts),     SMALL(all_empty),
        SMALL(sink_joins_once), SMALL(nan_goes_where_it_must),
        SMALL(strides),         SMALL(parts_of_a_list_make_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
