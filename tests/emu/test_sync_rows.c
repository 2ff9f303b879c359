/* Every form of the control and synchronisation tables, loaded and executed by one warp; and a walk over the tables
 * that fails for a row, or a word of one, without a line here. What the forms mean among several warps is tested in
 * test_faults.c and test_engine.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine.h"

struct form {
    const char *text;
    enum emu_result result;
};

/* %r0 is shared memory, %r1 an mbarrier for 32 arrivals, %r4 one for 1, %rd0 and %rd1 generic addresses of both, %rd4
 * global memory; %p0 is true in lane 0. */
static const struct form forms[] = {
    {"bra.uni END; END: ret.uni;", EMU_OK},
    {"@%p0 bra END; END: exit;", EMU_OK},
    {"trap;", EMU_ASSERT},
    {"brkpt;", EMU_ASSERT},
    {"nanosleep.u32 20;", EMU_OK},
    {"pmevent 7;", EMU_OK},
    {"setmaxnreg.dec.sync.aligned.u32 64;", EMU_OK},
    {"setmaxnreg.dec.sync.aligned.u32 64; setmaxnreg.inc.sync.aligned.u32 96;", EMU_OK},
    {"griddepcontrol.launch_dependents; griddepcontrol.wait;", EMU_OK},

    {"bar.sync 0; bar.cta.sync 1, 32; bar.arrive 2, 64; bar.cta.arrive 3, 64;", EMU_OK},
    {"barrier.sync 0; barrier.cta.sync.aligned 1, 32; barrier.arrive 2, 64; barrier.cta.arrive.aligned 3, 64;", EMU_OK},
    {"bar.red.popc.u32 %r5, 0, %p0; bar.cta.red.popc.u32 %r5, 0, 32, %p0;", EMU_OK},
    {"bar.red.and.pred %p1, 0, %p0; bar.cta.red.or.pred %p1, 0, 32, %p0;", EMU_OK},
    {"barrier.red.popc.u32 %r5, 0, %p0; barrier.cta.red.popc.aligned.u32 %r5, 0, 32, !%p0;", EMU_OK},
    {"barrier.red.and.pred %p1, 0, %p0; barrier.cta.red.or.aligned.pred %p1, 0, 32, %p0;", EMU_OK},
    {"bar.warp.sync -1;", EMU_OK},
    {"barrier.cluster.arrive; barrier.cluster.wait;", EMU_OK},
    {"barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;", EMU_OK},
    {"barrier.cluster.arrive.relaxed; barrier.cluster.wait;", EMU_OK},

    {"membar.cta; membar.gl; membar.sys;", EMU_OK},
    {"fence.cta; fence.sc.cluster; fence.acq_rel.gpu; fence.acquire.sys; fence.release.gpu;", EMU_OK},
    {"fence.mbarrier_init.release.cluster;", EMU_OK},
    {"fence.proxy.async; fence.proxy.async.global; fence.proxy.async.shared::cta;", EMU_OK},
    {"fence.proxy.async.shared::cluster; fence.proxy.alias;", EMU_OK},
    {"elect.sync %r5|%p1, -1; elect.sync _|%p1, -1;", EMU_OK},

    {"@%p0 mbarrier.init.b64 [%rd3], 2; @%p0 mbarrier.inval.b64 [%rd3];", EMU_OK},
    {"@%p0 mbarrier.init.shared.b64 [%r6], 2; @%p0 mbarrier.inval.shared::cta.b64 [%r6];", EMU_OK},
    {"@%p0 mbarrier.init.shared::cta.b64 [%r6], 2; @%p0 mbarrier.inval.shared.b64 [%r6];", EMU_OK},
    {"mbarrier.arrive.b64 %rd2, [%rd1]; mbarrier.test_wait.b64 %p1, [%rd1], %rd2;", EMU_OK},
    {"mbarrier.arrive.release.cta.shared.b64 %rd2, [%r1]; mbarrier.try_wait.shared.b64 %p1, [%r1], %rd2;", EMU_OK},
    {"mbarrier.arrive.release.cluster.shared::cta.b64 _, [%r1];"
     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r1], 0;",
     EMU_OK},
    {"mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%r1];"
     "mbarrier.test_wait.parity.relaxed.cta.shared::cta.b64 %p1, [%r1], 0;",
     EMU_OK},
    {"mbarrier.arrive.shared::cluster.b64 _, [%r1]; mbarrier.test_wait.acquire.cta.shared.b64 %p1, [%r1], %rd2;",
     EMU_OK},
    {"@%p0 mbarrier.arrive.shared::cta.b64 %rd2, [%r1], 32;", EMU_OK},
    {"@%p0 mbarrier.arrive.noComplete.shared::cta.b64 %rd2, [%r1], 2; @%p0 mbarrier.arrive.shared.b64 _, [%r1], 30;",
     EMU_OK},
    {"@%p0 mbarrier.arrive_drop.shared::cta.b64 %rd2, [%r1], 32;", EMU_OK},
    {"@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 16;"
     "@%p0 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r4], 16;",
     EMU_OK},
    {"@%p0 mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%r4], 8;"
     "@%p0 mbarrier.complete_tx.shared.b64 [%r4], 8; @%p0 mbarrier.expect_tx.b64 [%rd0], 0;",
     EMU_OK},
    {"mbarrier.arrive.noComplete.shared::cta.b64 %rd2, [%r7], 1; mbarrier.pending_count.b64 %r5, %rd2;", EMU_OK},

    {"cp.async.ca.shared.global [%r0], [%rd4], 4; cp.async.commit_group; cp.async.wait_group 0;", EMU_OK},
    {"cp.async.cg.shared::cta.global.L2::128B [%r0], [%rd4], 16, 8; cp.async.wait_all;", EMU_OK},
    {"cp.async.ca.shared::cta.global.L2::64B [%r0], [%rd4], 8; cp.async.wait_all;", EMU_OK},
    {"cp.async.cg.shared.global.L2::cache_hint.L2::256B [%r0], [%rd4], 16, %rd5; cp.async.wait_all;", EMU_OK},
    {"cp.async.ca.shared::cta.global.L2::cache_hint.L2::64B [%r0], [%rd4], 16, 16, %rd5; cp.async.wait_all;", EMU_OK},
    {"cp.async.cg.shared.global.L2::cache_hint.L2::128B [%r0], [%rd4], 16, %rd5; cp.async.wait_all;", EMU_OK},
    {"cp.async.cg.shared.global.L2::256B [%r0], [%rd4], 16; cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1];"
     "LOOP: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra LOOP;",
     EMU_OK},
    {"cp.async.mbarrier.arrive.shared.b64 [%r1]; mbarrier.arrive.shared.b64 _, [%r1];", EMU_OK},
    {"cp.async.mbarrier.arrive.b64 [%rd1]; mbarrier.arrive.b64 _, [%rd1];", EMU_OK},
};

static const char head[] =
    ".version 8.8\n.target sm_90a\n.address_size 64\n"
    ".visible .entry k(.param .u64 p)\n.maxntid 32, 1, 1\n.maxnreg 96\n{\n"
    ".reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .pred %p<4>;\n"
    ".shared .align 128 .b8 s[1024];\n"
    "mov.u32 %r5, %tid.x; setp.eq.u32 %p0, %r5, 0; mov.u32 %r3, s; mov.b64 %rd2, 0;\n"
    "mad.lo.u32 %r0, %r5, 16, %r3; add.u32 %r1, %r3, 512; add.u32 %r4, %r3, 520;\n"
    "add.u32 %r6, %r3, 528; add.u32 %r7, %r3, 536; ld.param.u64 %rd4, [p];\n"
    "cvt.u64.u32 %rd0, %r4; cvta.shared.u64 %rd0, %rd0; cvt.u64.u32 %rd1, %r1;\n"
    "cvta.shared.u64 %rd1, %rd1; cvt.u64.u32 %rd3, %r6; cvta.shared.u64 %rd3, %rd3;\n"
    "createpolicy.fractional.L2::evict_first.b64 %rd5, 1.0;\n"
    "@%p0 mbarrier.init.shared::cta.b64 [%r1], 32; @%p0 mbarrier.init.shared::cta.b64 [%r4], 1;\n"
    "@%p0 mbarrier.init.shared::cta.b64 [%r7], 64; bar.warp.sync -1;\n";

static struct emu_module *load(const struct form *form)
{
    char text[8192], why[512];
    const int size = snprintf(text, sizeof(text), "%s%s\nret;\n}\n", head, form->text);
    struct emu_module *module = emu_module_load(text, (size_t)size, why);
    if (!module)
        fail_msg("%s: %s", form->text, why);
    return module;
}

/* Rows that a module's instructions matched, with their texts. */
struct seen {
    const struct emu_row *row;
    char text[96];
};
static struct seen seen[4096];
static size_t seen_count;

static void remember(const struct emu_kernel *kernel)
{
    for (uint32_t i = 0; i < kernel->instr_count && seen_count < sizeof(seen) / sizeof(seen[0]); i++) {
        seen[seen_count].row = kernel->instrs[i].row;
        snprintf(seen[seen_count++].text, sizeof(seen[0].text), "%s.", kernel->instrs[i].text);
    }
}

static void run(const struct form *form)
{
    struct emu_module *module = load(form);
    struct emu_memory *memory = emu_memory_create();
    struct emu_report *report = emu_report_create();
    const uint64_t global = emu_memory_alloc(memory, 512, "global");
    memset((void *)(uintptr_t)global, 1, 512);
    emu_memory_mark(memory, global, 512);
    const struct emu_options options = {.schedule = EMU_RANDOM,
                                        .seed = 1,
                                        .checks = EMU_CHECK_RACES | EMU_CHECK_PROXY,
                                        .threads = 1,
                                        .max_findings = 9};
    struct emu_launch launch = {.kernel = &module->kernels[0],
                                .params = (const uint8_t *)&global,
                                .grid = {1, 1, 1},
                                .block = {32, 1, 1},
                                .sm_count = 1};
    remember(&module->kernels[0]);
    const enum emu_result result = emu_run(&launch, &options, memory, report);
    if (result != form->result) {
        emu_report_write(report, "-");
        fail_msg("%s: result %d", form->text, (int)result);
    }
    emu_report_destroy(report);
    emu_memory_destroy(memory);
    emu_module_free(module);
}

static void every_form(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
        run(&forms[i]);
}

static bool row_has(const struct emu_row *row, const char *word, size_t size)
{
    char dotted[64];
    snprintf(dotted, sizeof(dotted), ".%.*s.", (int)size, word);
    for (size_t i = 0; i < seen_count; i++)
        if (seen[i].row == row && (size == 0 || strstr(seen[i].text, dotted)))
            return true;
    return false;
}

/* Each word of a pattern behind its base name. */
static void check_row(const struct emu_row *row)
{
    if (!row_has(row, "", 0))
        fail_msg("no form here is of the row %s", row->pattern);
    const char *at = strchr(row->pattern, '.');
    while (at && *at) {
        at += strspn(at, ".,[]{}");
        const size_t size = strcspn(at, ".,[]{}");
        if (size > 0 && !row_has(row, at, size))
            fail_msg("no form here has .%.*s of the row %s", (int)size, at, row->pattern);
        at += size;
    }
}

static void every_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < emu_control_rows.count; i++)
        check_row(&emu_control_rows.rows[i]);
    for (size_t i = 0; i < emu_sync_rows.count; i++)
        check_row(&emu_sync_rows.rows[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_form), cmocka_unit_test(every_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
