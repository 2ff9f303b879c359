/* A spec's text read back: the same spec, or none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* ---- As a command ---- */

/* What a shell makes of "printf %s <quoted>". */
static void comes_through_a_shell(const char *word)
{
    char quoted[2 * RT_COMMAND_BYTES], command[sizeof quoted + 16], got[RT_COMMAND_BYTES] = "";
    int ends[2], status;

    assert_true(rt_describe_quoted(word, quoted, sizeof quoted));
    snprintf(command, sizeof command, "printf %%s %s", quoted);
    assert_int_equal(pipe(ends), 0);
    const pid_t shell = fork();
    if (shell == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    assert_true(shell > 0);
    close(ends[1]);
    FILE *out = fdopen(ends[0], "r");
    assert_non_null(out);
    const size_t size = fread(got, 1, sizeof got - 1, out);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(waitpid(shell, &status, 0), shell);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(size, strlen(word));
    assert_string_equal(got, word);
}

static void test_quoted(void **state)
{
    char most[9];

    (void)state;
    comes_through_a_shell("");
    comes_through_a_shell("/var/cache/smla");
    comes_through_a_shell("/it's/'quoted'");
    comes_through_a_shell("'");
    comes_through_a_shell("/a b/$HOME/`id`/\\/\"/;*/\n/é");
    assert_true(rt_describe_quoted("abcdef", most, sizeof most));
    assert_string_equal(most, "'abcdef'");
    assert_false(rt_describe_quoted("abcdefg", most, sizeof most));
    assert_string_equal(most, "");
    assert_true(rt_describe_quoted("a'b", most, sizeof most));
    assert_false(rt_describe_quoted("a'bc", most, sizeof most));
}

/* Every length of a folder: named whole, or not at all; and the longest line of all has place. */
static void test_command_is_whole(void **state)
{
    const smla_kv_layout layout = {.struct_size = sizeof layout,
                                   .value_type = SMLA_VALUE_E2M1,
                                   .value_elems = 384,
                                   .scale_type = SMLA_SCALE_FP32,
                                   .scale_group = 128,
                                   .tail_elems = 128,
                                   .place = SMLA_PLACE_PAGE};
    const smla_kernel_desc desc = {.struct_size = sizeof desc,
                                   .op = SMLA_OP_PREFILL,
                                   .h_q = 128,
                                   .d_qk = 512,
                                   .kv_layout = &layout,
                                   .extra_kv_layout = &layout,
                                   .batch_invariant = 1,
                                   .flags = SMLA_KERNEL_CHECKED | SMLA_KERNEL_NOT_PERSISTENT | SMLA_KERNEL_LINE_INFO,
                                   .target = "90a"};
    char folder[1200], quoted[2600], text[RT_COMMAND_BYTES];
    struct gen_refusal refusal;
    struct gen_spec spec;
    int named = 0;

    (void)state;
    assert_int_equal(gen_spec_make(&desc, NULL, &spec, &refusal), SMLA_OK);
    for (size_t size = 1; size < sizeof folder; size++) {
        memset(folder, 'x', size);
        folder[0] = '/';
        folder[size / 2] = size % 3 == 0 ? '\'' : 'x';
        folder[size] = '\0';
        rt_describe_command(&spec, "cubin", folder, text);
        assert_true(rt_describe_quoted(folder, quoted, sizeof quoted));
        const char *at = strstr(text, " --cache ");
        if (at != NULL)
            assert_string_equal(at + strlen(" --cache "), quoted);
        else
            assert_non_null(strstr(text, "-o kernel.smlab && export SMLA_BUNDLE=\"$PWD/kernel.smlab\""));
        named += at != NULL;
    }
    assert_in_range(named, 450, 550);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operator_format_and_flag),
        cmocka_unit_test(test_a_companion),
        cmocka_unit_test(test_what_is_none),
        cmocka_unit_test(test_a_layout_of_ones_own),
        cmocka_unit_test(test_quoted),
        cmocka_unit_test(test_command_is_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
