/* A spec's text read back: the same spec, or none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "describe.h"

/* Back and forth once. Returns whether the generator has the spec. */
static bool comes_back(const smla_kernel_desc *desc)
{
    char text[RT_DESCRIPTION_BYTES], again[RT_DESCRIPTION_BYTES];
    struct gen_refusal refusal;
    struct gen_spec spec, read;
    struct rt_described described;

    if (gen_spec_make(desc, NULL, &spec, &refusal) != SMLA_OK)
        return false;
    rt_describe(&spec, text);
    assert_true(rt_describe_read(text, &described));
    assert_int_equal(gen_spec_make(&described.desc, NULL, &read, &refusal), SMLA_OK);
    rt_describe(&read, again);
    assert_string_equal(text, again);
    assert_int_equal(spec.op, read.op);
    assert_int_equal(spec.batch_invariant, read.batch_invariant);
    assert_int_equal(spec.checked, read.checked);
    assert_int_equal(spec.not_persistent, read.not_persistent);
    assert_int_equal(spec.line_info, read.line_info);
    assert_ptr_equal(spec.target, read.target);
    return true;
}

static void test_every_operator_format_and_flag(void **state)
{
    static const uint32_t ops[] = {SMLA_OP_PREFILL, SMLA_OP_PREFILL_REFERENCE, SMLA_OP_COMBINE, SMLA_OP_DECODE};
    static const char *const formats[] = {NULL, "bf16", "v32", "v4", "v41", "v41_fp4", "hopper_fp4"};
    static const uint32_t flags[] = {0, SMLA_KERNEL_CHECKED, SMLA_KERNEL_NOT_PERSISTENT, SMLA_KERNEL_LINE_INFO};
    int specs = 0;

    (void)state;
    for (size_t i = 0; i < 4 * 7 * 7 * 4 * 2 * 2; i++) {
        const smla_kernel_desc desc = {.struct_size = sizeof desc,
                                       .op = ops[i % 4],
                                       .kv_format = formats[i / 4 % 7],
                                       .extra_kv_format = formats[i / 28 % 7],
                                       .flags = flags[i / 196 % 4],
                                       .batch_invariant = i / 784 % 2,
                                       .h_q = 64,
                                       .d_qk = i % 4 == 2          ? 0
                                               : i / 1568 % 2 == 0 ? 512
                                                                   : 576,
                                       .target = "100f"};

        specs += comes_back(&desc);
    }
    assert_true(specs > 100);
}

/* A companion's text names its tile, and is that of its kernel's description beside it. */
static void test_a_companion(void **state)
{
    struct rt_described described;
    struct gen_refusal refusal;
    struct gen_spec spec;
    char text[RT_DESCRIPTION_BYTES];

    (void)state;
    assert_true(
        rt_describe_read("decode h_q=64 d_qk=512 d_v=512 kv=v4 extra_kv=v41_fp4 tile_heads=16 target=90a", &described));
    assert_int_equal(described.tile_heads, 16);
    assert_int_equal(gen_spec_make(&described.desc, NULL, &spec, &refusal), SMLA_OK);
    assert_int_equal(spec.tile_heads, 0);
    spec.tile_heads = 16;
    rt_describe(&spec, text);
    assert_string_equal(text, "decode h_q=64 d_qk=512 d_v=512 kv=v4 extra_kv=v41_fp4 tile_heads=16 target=90a");
    assert_true(rt_describe_read("decode h_q=64 d_qk=512 d_v=512 kv=v4 target=90a", &described));
    assert_int_equal(described.tile_heads, 0);
}

static void test_what_is_none(void **state)
{
    static const char *const texts[] = {"",
                                        "prefill",
                                        "prefill h_q=64 d_qk=512 d_v=512 kv=bf16",
                                        "other h_q=64 target=90a",
                                        "prefill h_q=x target=90a",
                                        "prefill h_q=-1 target=90a",
                                        "prefill h_q= target=90a",
                                        "prefill h_q=99999999999 target=90a",
                                        "prefill h_q=64 fast target=90a",
                                        "prefill h_q=64 pages=4 target=90a"};
    struct rt_described described;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_false(rt_describe_read(texts[i], &described));
}

/* The text names no layout, so the generator has no such format. */
static void test_a_layout_of_ones_own(void **state)
{
    struct rt_described described;
    struct gen_refusal refusal;
    struct gen_spec spec;

    (void)state;
    assert_true(rt_describe_read("prefill h_q=64 d_qk=512 d_v=512 kv=custom target=90a", &described));
    assert_int_not_equal(gen_spec_make(&described.desc, NULL, &spec, &refusal), SMLA_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operator_format_and_flag),
        cmocka_unit_test(test_a_companion),
        cmocka_unit_test(test_what_is_none),
        cmocka_unit_test(test_a_layout_of_ones_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
