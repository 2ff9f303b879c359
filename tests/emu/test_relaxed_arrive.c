/* What a relaxed arrival brings along: nothing but what a fence before it has released (ISA 8.8, 9.7.13.3, 9.7.13.4).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine.h"

/* Warp 0's lane 0 does `before`, all arrive and wait, warp 1's lane 0 does `after`. */
static const char kernel_text[] = ".version 8.0\n.target sm_90a\n.address_size 64\n"
                                  ".visible .entry relaxed() {\n"
                                  ".reg .b32 %%r<4>; .reg .b64 %%d<2>; .reg .pred %%p<3>;\n"
                                  ".shared .align 8 .b64 bar; .shared .align 4 .b32 word;\n"
                                  "mov.u32 %%r1, %%tid.x;\n"
                                  "setp.eq.u32 %%p1, %%r1, 0;\n"
                                  "setp.eq.u32 %%p2, %%r1, 32;\n"
                                  "@!%%p1 bra arrive;\n"
                                  "mbarrier.init.shared.b64 [bar], 2;\n"
                                  "%s\n"
                                  "arrive:\n"
                                  "%s\n"
                                  "@!%%p2 bra end;\n"
                                  "%s\n"
                                  "end: ret;\n}\n";

#define RELAXED "barrier.cluster.arrive.relaxed; barrier.cluster.wait;"
#define RELEASE "barrier.cluster.arrive; barrier.cluster.wait;"
#define USE "mbarrier.arrive.shared.b64 %d1, [bar];"
#define STORE "st.shared.u32 [word], 7;"
#define LOAD "ld.shared.u32 %r2, [word];"
/* Through the mbarrier, which the cluster barrier has made known. */
#define ARRIVE_RELAXED "mbarrier.arrive.relaxed.cluster.shared::cta.b64 %d1, [bar];"
#define TWICE "barrier.cluster.arrive; barrier.cluster.wait; @%p1 " STORE
#define WAIT "again: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra again;"

static int findings(const char *before, const char *sync, const char *after, enum emu_schedule schedule)
{
    char text[2048], why[512] = "";
    snprintf(text, sizeof text, kernel_text, before, sync, after);
    struct emu_module *module = emu_module_load(text, strlen(text), why);
    assert_string_equal(why, "");
    struct emu_memory *memory = emu_memory_create();
    struct emu_report *report = emu_report_create();
    struct emu_launch launch = {.kernel = &module->kernels[0],
                                .params = (const uint8_t *)"",
                                .grid = {1, 1, 1},
                                .block = {2 * EMU_LANES, 1, 1},
                                .cluster = {1, 1, 1},
                                .sm_count = 1};
    const struct emu_options options = {
        .schedule = schedule, .seed = 1, .checks = EMU_CHECK_ALL, .threads = 1, .max_findings = 9};
    const enum emu_result result = emu_run(&launch, &options, memory, report);
    const int count = report->count;
    assert_int_equal(result, count > 0 ? EMU_FINDINGS : EMU_OK);
    if (count > 0)
        assert_int_equal(report->findings[0].kind, EMU_RACE);
    emu_report_destroy(report);
    emu_memory_destroy(memory);
    emu_module_free(module);
    return count;
}

static void arrivals(void **state)
{
    static const struct {
        const char *before, *sync, *after;
        int findings;
    } cases[] = {
        {"fence.mbarrier_init.release.cluster;", RELAXED, USE, 0},
        {"", RELAXED, USE, 1},
        {"", RELEASE, USE, 0},
        {STORE "fence.mbarrier_init.release.cluster;", RELAXED, USE LOAD, 1},
        {"fence.mbarrier_init.release.cluster; mbarrier.inval.shared.b64 [bar]; mbarrier.init.shared.b64 [bar], 2;",
         RELAXED, USE, 1},
        {STORE "fence.acq_rel.cluster;", RELAXED, USE LOAD, 0},
        {STORE "fence.acquire.cluster;", RELAXED, LOAD, 1},
        {STORE "fence.release.cluster;", RELAXED, LOAD, 0},
        {"fence.acq_rel.cluster;" STORE, RELAXED, LOAD, 1},
        {STORE, RELAXED, LOAD, 1},
        {STORE, RELEASE, LOAD, 0},
        {"", TWICE "; @%p1 fence.acq_rel.cta; @%p1 " ARRIVE_RELAXED "@%p2 " ARRIVE_RELAXED, WAIT LOAD, 0},
        {"", TWICE "; @%p1 " ARRIVE_RELAXED "@%p2 " ARRIVE_RELAXED, WAIT LOAD, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int schedule = EMU_EAGER; schedule <= EMU_PCT; schedule++)
            if (findings(cases[i].before, cases[i].sync, cases[i].after, (enum emu_schedule)schedule) !=
                cases[i].findings)
                fail_msg("case %zu, schedule %d", i, schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(arrivals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
