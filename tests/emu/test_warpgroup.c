/* A wgmma is one operation of its warpgroup: when one warp has waited for it, all four warps' parts are done; or, by
 * the strict check, its own alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine.h"

enum { WARPGROUP_THREADS = 128 };

/* A warpgroup multiplies zeros by ones from shared memory; one thread of its warp 1 alone says so to warp 4, which then
 * overwrites B with twos. D of every row of A, all ones, must have seen ones. */
static const char kernel_text[] =
    ".version 8.0\n.target sm_90a\n.address_size 64\n"
    ".visible .entry multiply(.param .u64 to) {\n"
    ".reg .b32 %%r<9>; .reg .f32 %%f<5>; .reg .b64 %%d<9>; .reg .pred %%p<5>;\n"
    ".shared .align 128 .b8 a[2048]; .shared .align 128 .b8 b[256]; .shared .align 8 .b64 bar;\n"
    "ld.param.u64 %%d1, [to];\n"
    "mov.u32 %%r1, %%tid.x;\n"
    "setp.eq.u32 %%p1, %%r1, 0;\n"
    "@%%p1 mbarrier.init.shared.b64 [bar], 1;\n"
    /* 1.0 in bf16: A by all of the warpgroup, 16 bytes a thread, B by half a warp. */
    "mov.b32 %%r2, 0x3f803f80;\n"
    "setp.ge.u32 %%p2, %%r1, 128;\n"
    "shl.b32 %%r3, %%r1, 4;\n"
    "mov.u32 %%r4, a; add.u32 %%r4, %%r4, %%r3;\n"
    "mov.u32 %%r5, b; add.u32 %%r5, %%r5, %%r3;\n"
    "@!%%p2 st.shared.v4.b32 [%%r4], {%%r2, %%r2, %%r2, %%r2};\n"
    "setp.lt.u32 %%p3, %%r1, 16;\n"
    "@%%p3 st.shared.v4.b32 [%%r5], {%%r2, %%r2, %%r2, %%r2};\n"
    "fence.proxy.async;\n"
    "bar.sync 0;\n"
    "@%%p2 bra overwrite;\n"
    /* No swizzle, K-major: the two core matrices of a row of 16 lie 128 bytes apart, rows of them 256 (ISA 9.7.15.5.1)
     */
    "mov.u32 %%r4, a; cvt.u64.u32 %%d2, %%r4; shr.u64 %%d2, %%d2, 4; or.b64 %%d2, %%d2, 0x0000001000080000;\n"
    "mov.u32 %%r5, b; cvt.u64.u32 %%d3, %%r5; shr.u64 %%d3, %%d3, 4; or.b64 %%d3, %%d3, 0x0000001000080000;\n"
    "mov.f32 %%f1, 0f00000000; mov.f32 %%f2, %%f1; mov.f32 %%f3, %%f1; mov.f32 %%f4, %%f1;\n"
    "wgmma.fence.sync.aligned;\n"
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%%f1, %%f2, %%f3, %%f4}, %%d2, %%d3, 1, 1, 1, 0, 0;\n"
    "wgmma.commit_group.sync.aligned;\n"
    "%s\n" /* the wait, or none */
    "setp.eq.u32 %%p4, %%r1, 40;\n"
    "@%%p4 mbarrier.arrive.shared.b64 %%d4, [bar];\n"
    "wgmma.wait_group.sync.aligned 0;\n"
    "mul.wide.u32 %%d5, %%r1, 16; add.u64 %%d5, %%d5, %%d1;\n"
    "st.global.v4.f32 [%%d5], {%%f1, %%f2, %%f3, %%f4};\n"
    "ret;\n"
    "overwrite:\n"
    "mbarrier.try_wait.parity.shared.b64 %%p1, [bar], 0;\n"
    "@!%%p1 bra overwrite;\n"
    "mov.b32 %%r2, 0x40004000;\n"
    "and.b32 %%r3, %%r3, 0xff;\n"
    "mov.u32 %%r5, b; add.u32 %%r5, %%r5, %%r3;\n"
    "setp.lt.u32 %%p3, %%r1, 144;\n"
    "@%%p3 st.shared.v4.b32 [%%r5], {%%r2, %%r2, %%r2, %%r2};\n"
    "ret;\n}\n";

#define WAIT "wgmma.wait_group.sync.aligned 0;"

static int findings(const char *wait, enum emu_schedule schedule, uint64_t seed, uint32_t checks)
{
    char text[4096], why[512] = "";
    snprintf(text, sizeof text, kernel_text, wait);
    struct emu_module *module = emu_module_load(text, strlen(text), why);
    assert_string_equal(why, "");
    struct emu_memory *memory = emu_memory_create();
    struct emu_report *report = emu_report_create();
    const size_t count = WARPGROUP_THREADS * 4;
    const uint64_t to = emu_memory_alloc(memory, count * sizeof(float), "to");
    struct emu_launch launch = {.kernel = &module->kernels[0],
                                .params = (const uint8_t *)&to,
                                .grid = {1, 1, 1},
                                .block = {WARPGROUP_THREADS + EMU_LANES, 1, 1},
                                .sm_count = 1};
    const struct emu_options options = {
        .schedule = schedule, .seed = seed, .checks = checks, .threads = 1, .max_findings = 9};
    emu_run(&launch, &options, memory, report);
    const int found = report->count;
    const float *got = (const float *)(uintptr_t)to;
    for (size_t i = 0; found == 0 && i < count; i++)
        assert_true(got[i] == 16.0f);
    emu_report_destroy(report);
    emu_memory_destroy(memory);
    emu_module_free(module);
    return found;
}

static void one_warp_waits(void **state)
{
    (void)state;
    for (int schedule = EMU_EAGER; schedule <= EMU_PCT; schedule++)
        for (uint64_t seed = 1; seed <= 8; seed++) {
            const enum emu_schedule as = (enum emu_schedule)schedule;
            const uint32_t together = EMU_CHECK_ALL & ~EMU_CHECK_WARPGROUP;
            assert_int_equal(findings(WAIT, as, seed, together), 0);
            assert_true(findings("", as, seed, together) > 0);
            assert_true(findings("wgmma.wait_group.sync.aligned 1;", as, seed, together) > 0);
            assert_true(findings(WAIT, as, seed, EMU_CHECK_ALL) > 0);
            assert_int_equal(findings(WAIT "bar.sync 1, 128;", as, seed, EMU_CHECK_ALL), 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_warp_waits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
