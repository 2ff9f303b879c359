/* What a block leaves in flight when it ends: found in every schedule, however early it landed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine.h"

enum { WORDS = 4 };

/* Lane 0 of the warp stores 16 bytes; another lane's wait does not count. */
static const char kernel_text[] = ".version 8.0\n.target sm_90a\n.address_size 64\n"
                                  ".visible .entry leave(.param .u64 to) {\n"
                                  ".reg .b32 %%r<3>; .reg .b64 %%d<2>; .reg .pred %%p<3>;\n"
                                  ".shared .align 16 .b32 words[4];\n"
                                  "ld.param.u64 %%d1, [to];\n"
                                  "mov.u32 %%r1, %%tid.x;\n"
                                  "setp.eq.u32 %%p1, %%r1, 0;\n"
                                  "setp.eq.u32 %%p2, %%r1, 1;\n"
                                  "mov.u32 %%r2, words;\n"
                                  "@%%p1 st.shared.v4.b32 [%%r2], {1, 2, 3, 4};\n"
                                  "fence.proxy.async;\n"
                                  "@%%p1 cp.async.bulk.global.shared::cta.bulk_group [%%d1], [%%r2], 16;\n"
                                  "%s\nret;\n}\n";

static int findings(const char *ending, enum emu_schedule schedule, uint32_t checks)
{
    char text[2048], why[512] = "";
    snprintf(text, sizeof text, kernel_text, ending);
    struct emu_module *module = emu_module_load(text, strlen(text), why);
    assert_string_equal(why, "");
    struct emu_memory *memory = emu_memory_create();
    struct emu_report *report = emu_report_create();
    const uint64_t to = emu_memory_alloc(memory, WORDS * sizeof(uint32_t), "to");
    struct emu_launch launch = {.kernel = &module->kernels[0],
                                .params = (const uint8_t *)&to,
                                .grid = {1, 1, 1},
                                .block = {EMU_LANES, 1, 1},
                                .sm_count = 1};
    const struct emu_options options = {
        .schedule = schedule, .seed = 1, .checks = checks, .threads = 1, .max_findings = 9};
    const enum emu_result result = emu_run(&launch, &options, memory, report);
    const int count = report->count;
    assert_int_equal(result, count > 0 ? EMU_FINDINGS : EMU_OK);
    if (count > 0)
        assert_non_null(strstr(report->findings[0].message, "wait_group is missing before the end"));
    const uint32_t expected[WORDS] = {1, 2, 3, 4};
    assert_memory_equal((const void *)(uintptr_t)to, expected, sizeof expected);
    emu_report_destroy(report);
    emu_memory_destroy(memory);
    emu_module_free(module);
    return count;
}

static void stores(void **state)
{
    static const struct {
        const char *ending;
        uint32_t checks;
        int findings;
    } cases[] = {
        {"", EMU_CHECK_ALL, 1},
        {"cp.async.bulk.commit_group;", EMU_CHECK_ALL, 1},
        {"cp.async.bulk.commit_group;", EMU_CHECK_ALL & ~EMU_CHECK_EXIT, 0},
        {"cp.async.bulk.wait_group 0;", EMU_CHECK_ALL, 1},
        {"@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 1;", EMU_CHECK_ALL, 1},
        {"@%p1 cp.async.bulk.commit_group; @%p2 cp.async.bulk.wait_group 0;", EMU_CHECK_ALL, 1},
        {"@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;", EMU_CHECK_ALL, 0},
        {"cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;", EMU_CHECK_ALL, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int schedule = EMU_EAGER; schedule <= EMU_PCT; schedule++)
            assert_int_equal(findings(cases[i].ending, (enum emu_schedule)schedule, cases[i].checks),
                             cases[i].findings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(stores)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
