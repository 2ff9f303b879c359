/* Deletes each wait, barrier and fence of smla's kernels in turn: the emulated device must notice every one, by a
 * finding or by wrong values, and find nothing in the kernels as they are (test_kernels.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel_harness.h"

/* A mutant that the emulated device cannot tell from the kernel, and why. Any other survivor is a barrier too many, or
 * a gap in the checks. */
struct equivalent {
    const char *kernel;
    const char *opcode;
    const char *reason;
    const char *after; /* the opcode before it; NULL: any */
};
static const struct equivalent equivalents[] = {
    {"smla_sm90_prefill", "bar.warp.sync",
     "the lanes of an emulated warp have one clock: each one's copies are there when all have waited", NULL},
    {"smla_sm90_prefill_split", "bar.warp.sync",
     "the lanes of an emulated warp have one clock: each has read before any writes (racecheck tells)", NULL},
    {"smla_sm90_prefill_split_narrow", "bar.warp.sync",
     "the lanes of an emulated warp have one clock: each one's copies are there when all have waited", NULL},
    {"smla_sm90_prefill_split", "mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64",
     "a turn at the matrix unit: without it the values are the same, later", NULL},
    {"smla_sm90_prefill_persistent_lengths", "fence.proxy.async.shared::cta",
     "whether tensor copies see that an mbarrier has begun is not asked", "mbarrier.init.shared::cta.b64"},
};

/* instr: not the first of the kernel. */
static const char *equivalent_reason(const char *kernel, const struct emu_instr *instr)
{
    for (size_t i = 0; i < sizeof(equivalents) / sizeof(equivalents[0]); i++)
        if (strcmp(equivalents[i].kernel, kernel) == 0 && strcmp(equivalents[i].opcode, instr->text) == 0 &&
            (equivalents[i].after == NULL || strcmp(equivalents[i].after, instr[-1].text) == 0))
            return equivalents[i].reason;
    return NULL;
}

/* ---- Mutants ---- */

static enum emu_action do_nothing(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    (void)warp;
    (void)instr;
    (void)mask;
    return EMU_NEXT;
}

/* try_wait that says at once that the phase is complete. */
static enum emu_action do_not_wait(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    emu_store_pred(warp, &instr->operands[0], EMU_ALL_LANES, mask);
    return EMU_NEXT;
}

static emu_exec_fn mutation_of(const struct emu_instr *instr)
{
    static const char *const deleted[] = {"bar.",
                                          "barrier.",
                                          "wgmma.wait",
                                          "wgmma.fence",
                                          "fence.",
                                          "cp.async.wait",
                                          "membar.",
                                          "mbarrier.arrive",
                                          "mbarrier.init",
                                          "cp.async.mbarrier",
                                          "griddepcontrol.wait"};
    if (strncmp(instr->text, "mbarrier.try_wait", 17) == 0 || strncmp(instr->text, "mbarrier.test_wait", 18) == 0)
        return do_not_wait;
    for (size_t i = 0; i < sizeof(deleted) / sizeof(deleted[0]); i++)
        if (strncmp(instr->text, deleted[i], strlen(deleted[i])) == 0)
            return do_nothing;
    return NULL;
}

/* ---- Hunting ---- */

static const struct {
    enum emu_schedule schedule;
    uint64_t seed;
} hunts[] = {{EMU_EAGER, 1}, {EMU_LAZY, 1}, {EMU_RANDOM, 1}, {EMU_RANDOM, 2}, {EMU_STARVE, 3}, {EMU_PCT, 4}};

static bool is_noticed(const struct harness *harness, const struct harness_call *call, char how[160])
{
    for (size_t i = 0; i < sizeof(hunts) / sizeof(hunts[0]); i++) {
        const struct emu_options options = {.schedule = hunts[i].schedule,
                                            .seed = hunts[i].seed,
                                            .checks = EMU_CHECK_ALL,
                                            .threads = 1,
                                            .max_findings = 3};
        struct emu_report *report = emu_report_create();
        bool wrong;
        const enum emu_result result = harness_run(harness, call, &options, report, &wrong);
        const bool noticed = result != EMU_OK || wrong;
        if (noticed)
            snprintf(how, 160, "%.150s", report->count ? report->findings[0].message : "wrong values");
        emu_report_destroy(report);
        if (noticed)
            return true;
    }
    return false;
}

struct tally {
    int mutants, noticed, equivalent;
};

/* Several calls: what one does not come by, another does. */
enum { MOST_CALLS = 5 };

static void try_mutant(const struct harness *harness, const struct harness_call *calls, int call_count,
                       struct emu_instr *instr, struct tally *tally)
{
    const struct emu_instr original = *instr;
    char how[160];
    instr->exec = mutation_of(instr);
    instr->orders_lanes = false;
    tally->mutants++;
    bool noticed = false;
    for (int i = 0; !noticed && i < call_count; i++)
        noticed = is_noticed(harness, &calls[i], how);
    *instr = original;
    const char *reason = equivalent_reason(harness->kernel->name, instr);
    tally->noticed += noticed;
    tally->equivalent += !noticed && reason != NULL;
    print_message("%-8s %s:%u %s: %s\n",
                  noticed  ? "noticed"
                  : reason ? "same"
                           : "SURVIVED",
                  harness->module->files[instr->source_file], instr->source_line, instr->text,
                  noticed  ? how
                  : reason ? reason
                           : "");
}

static void hunt_in(const struct harness *harness, int64_t s_q, const int64_t *topk, int call_count,
                    struct tally *tally)
{
    struct harness_call calls[MOST_CALLS];
    for (int i = 0; i < call_count; i++) {
        char how[160];
        assert_true(harness_call_make(harness, &calls[i], s_q, 600, topk[i]));
        if (is_noticed(harness, &calls[i], how)) /* the kernel as it is */
            fail_msg("%s, topk %d: %s", harness->kernel->name, (int)topk[i], how);
    }
    for (uint32_t i = 0; i < harness->kernel->instr_count; i++)
        if (mutation_of(&harness->kernel->instrs[i]))
            try_mutant(harness, calls, call_count, &harness->kernel->instrs[i], tally);
    for (int i = 0; i < call_count; i++)
        harness_call_free(&calls[i]);
}

/* A persistent kernel also with lists of two blocks of keys and of one. */
static void hunt(uint32_t op, uint32_t flags, int32_t h_q, int32_t d_qk, int64_t s_q, int64_t topk, struct tally *tally)
{
    struct harness harness;
    char why[HARNESS_WHY];
    if (!harness_open(&harness, op, flags, h_q, d_qk, why))
        fail_msg("%s", why);
    hunt_in(&harness, s_q, (int64_t[]){topk, topk / 3, topk / 6}, harness.blocks_per_sm > 0 ? 3 : 1, tally);
    harness_close(&harness);
}

/* Two blocks of threads a unit, with so many keys that slots are filled again, and with few, down to none; last
 * blocks of every length. Logits of which later ones are larger by more than the threshold. */
static void hunt_split(bool narrow, int32_t d_qk, struct tally *tally)
{
    struct harness harness;
    char why[HARNESS_WHY];
    if (!harness_open_split(&harness, narrow, 2, 64, d_qk, why))
        fail_msg("%s", why);
    harness.sm_scale = 1;
    hunt_in(&harness, 1, (int64_t[]){512, 224, 192, 160, 16}, 5, tally);
    harness_close(&harness);
}

/* Four requests on three multiprocessors: items that are shared, and the lists of the last call, which are too short to
 * be. Both kernels. */
static void hunt_decode(bool batch_invariant, int32_t h_q, int32_t d_qk, const int64_t *topk, int call_count,
                        struct tally *tally)
{
    struct harness harness;
    char why[HARNESS_WHY];
    if (!harness_open_decode(&harness, batch_invariant, h_q, d_qk, why))
        fail_msg("%s", why);
    hunt_in(&harness, 4, topk, call_count, tally);
    harness.kernel = harness.combine;
    hunt_in(&harness, 4, topk, call_count, tally);
    harness_close(&harness);
}

static void every_deletion_is_noticed(void **state)
{
    struct tally tally = {0};
    (void)state;
    hunt(SMLA_OP_PREFILL, SMLA_KERNEL_NOT_PERSISTENT, 64, 512, 1, 300, &tally);
    hunt(SMLA_OP_PREFILL, 0, 64, 512, 7, 300, &tally); /* several queries for each block of threads */
    hunt(SMLA_OP_PREFILL, SMLA_KERNEL_NOT_PERSISTENT, 64, 576, 1, 300, &tally);
    hunt(SMLA_OP_PREFILL, 0, 64, 576, 7, 300, &tally);
    hunt(SMLA_OP_PREFILL, SMLA_KERNEL_NOT_PERSISTENT, 8, 512, 1, 300, &tally);
    hunt(SMLA_OP_PREFILL, 0, 8, 512, 7, 300, &tally);
    hunt(SMLA_OP_PREFILL, 0, 32, 512, 3, 700, &tally);
    hunt_split(false, 512, &tally);
    hunt_split(false, 576, &tally);
    hunt_split(true, 512, &tally);
    hunt_split(true, 576, &tally);
    hunt(SMLA_OP_PREFILL_REFERENCE, 0, 64, 512, 1, 3, &tally);
    hunt_decode(false, 64, 512, (int64_t[]){700, 64}, 2, &tally);
    hunt_decode(false, 8, 512, (int64_t[]){700, 64}, 2, &tally);
    hunt_decode(true, 8, 512, (int64_t[]){1100, 64}, 2, &tally);
    print_message("%d mutants, %d noticed (%.0f %%), %d equivalent\n", tally.mutants, tally.noticed,
                  100.0 * tally.noticed / tally.mutants, tally.equivalent);
    assert_true(tally.mutants >= 20);
    /* Issue 3 asks for 95 % of what is not equivalent. */
    assert_int_equal(tally.noticed, tally.mutants - tally.equivalent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_deletion_is_noticed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
