/* Small kernels without a fault, of the kinds that an engine gets wrong: right, clean and at an end in every schedule.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "faults.h"

struct clean_case {
    struct fault_case kernel; /* what is in scope: faults.h */
    uint32_t expected;        /* the buffer's first word afterwards */
};

#define STORE_BY_FIRST(value) "@%p2 st.global.u32 [%rd1], " value ";\n"

static const struct clean_case cases[] = {
    {{"bar.red.popc in a block with a partial last warp",
      "setp.lt.u32 %p10, %r1, 40;\nbar.red.popc.u32 %r10, 0, %p10;\n" STORE_BY_FIRST("%r10"), .threads = 48},
     40},
    {{"bar.red.and in a block with a partial last warp",
      "setp.lt.u32 %p10, %r1, 48;\nbar.red.and.pred %p11, 0, %p10;\nselp.u32 %r10, 1, 2, %p11;\n" STORE_BY_FIRST(
          "%r10"),
      .threads = 48},
     1},
    {{"bar.red.or without a true predicate",
      "setp.lt.u32 %p10, %r1, 0;\nbar.red.or.pred %p11, 0, %p10;\nselp.u32 %r10, 1, 2, %p11;\n" STORE_BY_FIRST("%r10"),
      .threads = 64},
     2},
    {{"barrier.sync of diverged halves, in a loop, with a partial last warp",
      "mov.u32 %r10, 0;\n"
      "setp.lt.u32 %p10, %r2, 16;\n"
      "LOOP:\n"
      "@%p10 bra LOW;\n"
      "barrier.sync 3;\n"
      "bra NEXT;\n"
      "LOW:\n"
      "barrier.sync 3;\n"
      "NEXT:\n"
      "add.u32 %r10, %r10, 1;\n"
      "setp.lt.u32 %p11, %r10, 5;\n"
      "@%p11 bra LOOP;\n" STORE_BY_FIRST("%r10"),
      .threads = 48},
     5},
    {{"producer and consumer with bar.arrive, reused",
      "mov.u32 %r10, 0;\n"
      "mov.u32 %r11, 0;\n"
      "LOOP:\n"
      "@%p3 bra CONSUMER;\n"
      "st.shared.u32 [%r6], %r10;\n"
      "bar.arrive 1, 64;\n"
      "bar.sync 2, 64;\n"
      "bra NEXT;\n"
      "CONSUMER:\n"
      "bar.sync 1, 64;\n"
      "ld.shared.u32 %r12, [%r6+-128];\n"
      "add.u32 %r11, %r11, %r12;\n"
      "bar.arrive 2, 64;\n"
      "NEXT:\n"
      "add.u32 %r10, %r10, 1;\n"
      "setp.lt.u32 %p11, %r10, 10;\n"
      "@%p11 bra LOOP;\n"
      "setp.eq.u32 %p12, %r1, 32;\n"
      "@%p12 st.global.u32 [%rd1], %r11;\n",
      .threads = 64},
     45},
    {{"a warp that arrives and ends, and a barrier for all",
      "@%p1 st.shared.u32 [%r6], 9;\n"
      "@%p1 bar.arrive 1, 64;\n"
      "@%p1 bra DONE;\n"
      "bar.sync 1, 64;\n"
      "ld.shared.u32 %r10, [%r6+-128];\n"
      "setp.eq.u32 %p12, %r1, 32;\n"
      "@%p12 st.global.u32 [%rd1], %r10;\n"
      "DONE:\n",
      .threads = 64},
     9},
    {{"warps that have ended are not waited for", "@%p3 bra DONE;\nbar.sync 0;\n" STORE_BY_FIRST("6") "DONE:\n",
      .threads = 96},
     6},
    {{"lanes of a warp take a lock in turn",
      "@%p2 st.shared.u32 [%r5], 0;\n"
      "@%p2 st.shared.u32 [%r5+4], 0;\n"
      "bar.sync 0;\n"
      "SPIN:\n"
      "atom.acquire.cta.shared.cas.b32 %r10, [%r5], 0, 1;\n"
      "setp.ne.u32 %p10, %r10, 0;\n"
      "@%p10 bra SPIN;\n"
      "ld.relaxed.cta.shared.u32 %r11, [%r5+4];\n"
      "add.u32 %r11, %r11, 1;\n"
      "st.relaxed.cta.shared.u32 [%r5+4], %r11;\n"
      "atom.release.cta.shared.exch.b32 %r12, [%r5], 0;\n"
      "bar.sync 0;\n"
      "ld.shared.u32 %r13, [%r5+4];\n" STORE_BY_FIRST("%r13"),
      .threads = 64},
     64},
    {{"a lane spins for another lane of its warp",
      "@%p2 st.shared.u32 [%r5], 0;\n"
      "bar.warp.sync 0xffffffff;\n"
      "@%p4 bra WRITER;\n"
      "SPIN:\n"
      "ld.acquire.cta.shared.u32 %r10, [%r5];\n"
      "setp.eq.u32 %p10, %r10, 0;\n"
      "@%p10 bra SPIN;\n"
      "bra DONE;\n"
      "WRITER:\n"
      "st.release.cta.shared.u32 [%r5], 5;\n" STORE_BY_FIRST("5") "DONE:\n",
      .threads = 32},
     5},
    {{"polling test_wait for a bulk load",
      "@%p2 mbarrier.init.shared.b64 [bar], 1;\n"
      "bar.sync 0;\n"
      "@%p2 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;\n"
      "@%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd1+256], 128, [bar];\n"
      "POLL:\n"
      "mbarrier.test_wait.parity.shared.b64 %p20, [bar], 0;\n"
      "@!%p20 bra POLL;\n"
      "ld.shared.u32 %r10, [%r5];\n"
      "add.u32 %r10, %r10, 3;\n" STORE_BY_FIRST("%r10"),
      .threads = 64},
     3},
    {{"a peek at an mbarrier that this warp itself completes",
      "@!%p2 bra DONE;\n"
      "mbarrier.init.shared.b64 [bar], 2;\n"
      "mbarrier.arrive.shared.b64 %rd10, [bar];\n"
      "mbarrier.try_wait.shared.b64 %p20, [bar], %rd10, 1000;\n"
      "mbarrier.pending_count.b64 %r10, %rd10;\n"
      "mbarrier.arrive.shared.b64 _, [bar];\n"
      "WAIT:\n"
      "mbarrier.try_wait.shared.b64 %p20, [bar], %rd10;\n"
      "@!%p20 bra WAIT;\n" STORE_BY_FIRST("%r10") "DONE:\n",
      .threads = 64},
     2},
    {{"arrive with a count, arrive_drop, expect_tx and complete_tx",
      "@!%p2 bra DONE;\n"
      "mbarrier.init.shared.b64 [bar], 5;\n"
      "mbarrier.arrive.shared.b64 _, [bar], 3;\n"
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 16;\n"
      "mbarrier.arrive_drop.shared.b64 _, [bar];\n"
      "mbarrier.arrive.shared.b64 _, [bar];\n"
      "mbarrier.test_wait.parity.shared.b64 %p20, [bar], 0;\n"
      "selp.u32 %r10, 100, 0, %p20;\n"
      "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 16;\n"
      "mbarrier.test_wait.parity.shared.b64 %p20, [bar], 0;\n"
      "selp.u32 %r11, 1, 0, %p20;\n"
      "mbarrier.arrive.shared.b64 _, [bar], 4;\n" /* four are left after the drop */
      "mbarrier.test_wait.parity.shared.b64 %p20, [bar], 1;\n"
      "selp.u32 %r12, 10, 0, %p20;\n"
      "add.u32 %r10, %r10, %r11; add.u32 %r10, %r10, %r12;\n" STORE_BY_FIRST("%r10") "DONE:\n",
      .threads = 64},
     11},
    {{"a remote arrival and special registers in a cluster",
      "mov.u32 %r10, bar;\n"
      "mapa.shared::cluster.u32 %r11, %r10, 0;\n"
      "@%p2 mbarrier.init.shared.b64 [bar], 2;\n"
      "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
      "@%p2 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r11];\n"
      "@!%p5 bra DONE;\n"
      "W:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p20, [bar], 0;\n"
      "@!%p20 bra W;\n"
      "mov.u32 %r12, %cluster_nctarank;\n"
      "mov.u32 %r13, %nclusterid.x;\n"
      "mad.lo.u32 %r12, %r13, 10, %r12;\n"
      "@%p6 st.global.u32 [%rd1], %r12;\n"
      "DONE:\n"
      "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n",
      .threads = 32, .blocks = 6, .cluster = 2},
     32},
    {{"local memory of parted lanes",
      ".local .align 4 .b8 mine[8];\n"
      "mov.u32 %r10, mine;\n"
      "setp.lt.u32 %p10, %r2, 16;\n"
      "@%p10 bra LOW;\n"
      "st.local.u32 [%r10], 100;\n"
      "bra JOIN;\n"
      "LOW:\n"
      "st.local.u32 [%r10], %r2;\n"
      "JOIN:\n"
      "bar.warp.sync 0xffffffff;\n"
      "ld.local.u32 %r11, [%r10];\n"
      "setp.eq.u32 %p11, %r1, 7;\n"
      "@%p11 st.global.u32 [%rd1], %r11;\n",
      .threads = 32},
     7},
    {{"elect.sync with and without a sink",
      "setp.ge.u32 %p12, %r2, 4;\n"
      "@%p12 elect.sync %r10|%p10, 0xfffffff0;\n"
      "elect.sync _|%p11, 0xffffffff;\n",
      .threads = 32},
     0},
    {{"a thousand blocks count", "@%p2 atom.global.add.u32 %r10, [%rd1], 1;\n", .threads = 32, .blocks = 1000}, 1000},
};

/* ---- Lanes that part and meet ---- */

/* What a block's warps execute together, and what stands for a warp's lanes to meet at. */
static const char *const together[] = {
    "bar.sync 0;\n",
    "bar.sync 1, 96;\n",
    "barrier.sync 0;\n",
    "bar.red.popc.u32 %r12, 0, %p4;\n",
    "@%p1 bar.sync 2, 96;\n@!%p1 bar.arrive 2, 96;\nbar.sync 0;\n@!%p1 bar.sync 3, 96;\n@%p1 bar.arrive 3, 96;\n",
    "barrier.cluster.arrive;\nbarrier.cluster.wait;\n",
};
static const char *const meeting[] = {
    "bar.sync 0;\n",
    "barrier.sync.aligned 0;\n",
    "bar.red.or.pred %p12, 0, %p4;\n",
    "bar.warp.sync 0xffffffff;\n",
    "shfl.sync.bfly.b32 %r12, %r1, 1, 31, 0xffffffff;\n",
    "vote.sync.ballot.b32 %r12, %p4, 0xffffffff;\n",
    "elect.sync _|%p12, 0xffffffff;\n",
    "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n",
};

enum { PAIR_TEXT = 1024 };

static bool runs_clean(const struct clean_case *one, const struct emu_options *options)
{
    char *text = fault_text(&one->kernel, false);
    struct fault_run run = fault_execute(&one->kernel, text, options);
    const uint32_t word = *(const uint32_t *)(uintptr_t)run.buffer;
    const bool fine = run.result == EMU_OK && run.report->count == 0 && word == one->expected;
    if (!fine) {
        print_error("%s: schedule %d, seed %d, %d threads: result %d, %u where %u belongs\n", one->kernel.name,
                    (int)options->schedule, (int)options->seed, options->threads, (int)run.result, word, one->expected);
        emu_report_write(run.report, "-");
    }
    fault_run_end(&run);
    free(text);
    return fine;
}

static void every_schedule(void **state)
{
    int wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int schedule = 0; schedule < SCHEDULES; schedule++)
            for (uint64_t seed = 1; seed <= 3; seed++)
                for (int threads = 1; threads <= 2; threads++) {
                    const struct emu_options options = {.schedule = (enum emu_schedule)schedule,
                                                        .seed = seed,
                                                        .checks = EMU_CHECK_ALL,
                                                        .threads = threads,
                                                        .max_findings = 20};
                    wrong += !runs_clean(&cases[i], &options);
                }
    assert_int_equal(wrong, 0);
}

/* Right after the one, a warp's first lane takes a way of its own to the other, where the rest are before it: a
 * schedule that interrupts the warp anywhere lets it go on. */
static int pairs_that_fail(const char *first, const char *second)
{
    static const char begin[] = "mov.u32 %r10, 0;\n"
                                "mov.u32 %r11, 0;\n"
                                "LOOP:\n",
                      part[] = "@!%p4 bra MEET;\n"
                               "add.u32 %r11, %r11, 1;\n"
                               "MEET:\n",
                      again[] = "add.u32 %r10, %r10, 1;\n"
                                "setp.lt.u32 %p11, %r10, 100;\n"
                                "@%p11 bra LOOP;\n" STORE_BY_FIRST("%r11");
    char body[PAIR_TEXT];
    snprintf(body, PAIR_TEXT, "%s%s%s%s%s", begin, first, part, second, again);
    const struct clean_case one = {{.name = body, .body = body, .threads = 96}, 100};
    int wrong = 0;
    for (int schedule = 0; schedule < SCHEDULES; schedule++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            const struct emu_options options = {.schedule = (enum emu_schedule)schedule,
                                                .seed = seed,
                                                .checks = EMU_CHECK_ALL,
                                                .threads = 1,
                                                .max_findings = 20};
            wrong += !runs_clean(&one, &options);
        }
    return wrong;
}

static void lanes_part_and_meet(void **state)
{
    int wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof(together) / sizeof(together[0]); i++)
        for (size_t j = 0; j < sizeof(meeting) / sizeof(meeting[0]); j++)
            wrong += pairs_that_fail(together[i], meeting[j]);
    assert_int_equal(wrong, 0);
}

/* Several races, whose order depends on the schedule alone. */
static const struct fault_case racy = {.name = "racy",
                                       .body = "st.shared.u32 [%r6], %r1;\n"
                                               "atom.shared.add.u32 %r10, [%r5], 1;\n"
                                               "xor.b32 %r11, %r6, 128;\n"
                                               "ld.shared.u32 %r12, [%r11];\n"
                                               "cp.async.ca.shared.global [%r6], [%rd4], 4;\n"
                                               "st.global.u32 [%rd4], %r12;\n",
                                       .threads = 128,
                                       .blocks = 4};

static void must_be_alike(const struct fault_run *a, const struct fault_run *b, bool in_order)
{
    assert_int_equal(a->result, b->result);
    assert_int_equal(a->report->count, b->report->count);
    for (int i = 0; in_order && i < a->report->count; i++) {
        const struct emu_finding *one = &a->report->findings[i], *other = &b->report->findings[i];
        assert_int_equal(one->kind, other->kind);
        assert_int_equal(one->second.instr->line, other->second.instr->line);
        assert_int_equal(one->second.warp, other->second.warp);
        assert_int_equal(one->count, other->count);
        assert_string_equal(one->message, other->message);
    }
    if (in_order)
        assert_int_equal(a->executed, b->executed);
}

static void same_seed_same_run(void **state)
{
    char *text = fault_text(&racy, true);
    (void)state;
    for (int schedule = 0; schedule < SCHEDULES; schedule++)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            const struct emu_options options = {.schedule = (enum emu_schedule)schedule,
                                                .seed = seed,
                                                .checks = EMU_CHECK_ALL,
                                                .threads = 1,
                                                .max_findings = 1000};
            struct fault_run first = fault_execute(&racy, text, &options);
            struct fault_run again = fault_execute(&racy, text, &options);
            assert_true(first.report->count > 0);
            must_be_alike(&first, &again, true);
            fault_run_end(&first);
            fault_run_end(&again);
        }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_schedule), cmocka_unit_test(lanes_part_and_meet),
                                       cmocka_unit_test(same_seed_same_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
