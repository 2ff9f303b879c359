/* Runs a cluster: picks a warp or an operation in flight, by the schedule, until nothing is left.
 *
 * Actors are the warps and, of each warp, its four queues of operations. eager: operations happen when they are issued,
 * warps run until they wait. lazy: operations happen when something waits for them or nothing else can run. random:
 * any actor, for a random while. starve: as random, but one actor, by the seed, only when nothing else can. pct:
 * the actor of highest priority; priorities are random, and a few times the running one drops to the lowest
 * (Burckhardt et al., "A randomized scheduler with probabilistic guarantees of finding bugs", 2010). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

enum {
    LONG_QUANTUM = 1 << 16,
    ACTORS_A_WARP = 1 + EMU_QUEUES,
    PCT_CHANGES = 3,
    PCT_STEPS = 4096,
    PCT_LOW = 1 << 20,    /* priorities below are those of actors that were put back */
    FAIR_AFTER = 1 << 12, /* instructions of a warp whose lanes have parted: then each group gets its turn */
    TIMEOUTS = 3,         /* of try_wait without an event between: nobody will end this wait */
    IDLE_LIMIT = 1 << 17  /* yields without an event: likewise */
};
static const uint64_t instr_limit = (uint64_t)1 << 32;

/* ---- Groups of lanes ---- */

static void remove_group(struct emu_warp *warp, int index)
{
    warp->groups[index] = warp->groups[--warp->group_count];
}

/* Lanes that already wait at a barrier stay apart from those that have yet to arrive. */
static bool may_merge(const struct emu_group *a)
{
    return a->wait.kind == EMU_WAIT_NONE || a->wait.kind == EMU_WAIT_LANES || a->wait.kind == EMU_WAIT_MBARRIER;
}

static void merge_groups(struct emu_warp *warp)
{
    for (int a = 0; a < warp->group_count; a++)
        for (int b = warp->group_count - 1; b > a; b--)
            if (warp->groups[a].pc == warp->groups[b].pc && may_merge(&warp->groups[a]) &&
                may_merge(&warp->groups[b])) {
                warp->groups[a].mask |= warp->groups[b].mask;
                warp->groups[a].blocked = warp->groups[a].yielded = false;
                warp->groups[a].wait = (struct emu_wait){0};
                remove_group(warp, b);
            }
}

/* The group that is furthest behind goes first, so that the others' lanes meet it. -1: none can run. */
static int lowest_group(const struct emu_warp *warp, bool yielded_too)
{
    int best = -1;
    for (int i = 0; i < warp->group_count; i++)
        if (!warp->groups[i].blocked && (yielded_too || !warp->groups[i].yielded) &&
            (best < 0 || warp->groups[i].pc < warp->groups[best].pc))
            best = i;
    return best;
}

/* A group that spins at a low pc must not keep another of its warp from ever running. Every so often the group of some
 * lane has its turn; which, changes slowly. */
static int fair_group(const struct emu_warp *warp)
{
    const uint64_t turn = warp->sync->parted_for >> 8;
    const int lane = (int)(turn / 2 % EMU_LANES);
    for (int i = 0; turn % 2 && i < warp->group_count; i++)
        if (!warp->groups[i].blocked && warp->groups[i].mask >> lane & 1)
            return i;
    return -1;
}

/* Puts the group to run at groups[0]. */
static bool select_group(struct emu_warp *warp)
{
    if (warp->group_count <= 1) {
        warp->sync->parted_for = 0;
        return warp->group_count == 1 && !warp->groups[0].blocked;
    }
    merge_groups(warp);
    int best = ++warp->sync->parted_for > FAIR_AFTER ? fair_group(warp) : -1;
    if (best < 0)
        best = lowest_group(warp, false);
    if (best < 0)
        best = lowest_group(warp, true);
    if (best < 0)
        return false;
    const struct emu_group chosen = warp->groups[best];
    warp->groups[best] = warp->groups[0];
    warp->groups[0] = chosen;
    return true;
}

/* ---- One instruction ---- */

static void check_reads(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    const uint32_t checks = warp->cta->options->checks;
    struct emu_warp_sync *sync = warp->sync;
    for (int i = 0; i < instr->read_count; i++) {
        const struct emu_row_use use = instr->reads[i];
        const uint32_t *defined = use.row_class == EMU_ROW32   ? warp->def32
                                  : use.row_class == EMU_ROW64 ? warp->def64
                                                               : warp->defp;
        if ((checks & EMU_CHECK_UNINITIALISED) && (defined[use.row] & mask) != mask) {
            emu_find(warp, instr, __builtin_ctz(mask & ~defined[use.row]), EMU_UNINITIALISED,
                     "a register is read that was never written");
            ((uint32_t *)defined)[use.row] |= mask; /* once */
        }
        if (use.row_class != EMU_ROW32)
            continue;
        if (sync->in_flight && sync->in_flight_group[use.row])
            emu_find(warp, instr, -1, EMU_REGISTER_IN_FLIGHT,
                     "a register of a wgmma in flight is read: wgmma.wait_group is missing before this");
        sync->touched[use.row / 64] |= (uint64_t)1 << (use.row % 64);
    }
}

static void check_writes(struct emu_warp *warp, const struct emu_instr *instr)
{
    struct emu_warp_sync *sync = warp->sync;
    for (int i = 0; sync->in_flight && i < instr->write_count; i++)
        if (instr->writes[i].row_class == EMU_ROW32 && sync->in_flight_group[instr->writes[i].row])
            emu_find(warp, instr, -1, EMU_REGISTER_IN_FLIGHT,
                     "a register of a wgmma in flight is written: wgmma.wait_group is missing before this");
}

static void mark_writes(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask, bool wgmma)
{
    for (int i = 0; i < instr->write_count; i++) {
        const struct emu_row_use use = instr->writes[i];
        if (use.row_class == EMU_ROW32) {
            warp->def32[use.row] |= mask;
            if (!wgmma)
                warp->sync->touched[use.row / 64] |= (uint64_t)1 << (use.row % 64);
        } else if (use.row_class == EMU_ROW64)
            warp->def64[use.row] |= mask;
        else
            warp->defp[use.row] |= mask;
    }
}

/* wgmma looks after its own registers (emu_wgmma_rows). */
static bool is_wgmma(const struct emu_instr *instr)
{
    return instr->text[0] == 'w';
}

static uint32_t guarded(const struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    if (instr->guard < 0 || instr->guard_by_exec)
        return mask;
    return mask & (instr->guard_negated ? ~warp->preds[instr->guard] : warp->preds[instr->guard]);
}

static void check_guard(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    if (instr->guard < 0 || !(warp->cta->options->checks & EMU_CHECK_UNINITIALISED) ||
        !(mask & ~warp->defp[instr->guard]))
        return;
    emu_find(warp, instr, __builtin_ctz(mask & ~warp->defp[instr->guard]), EMU_UNINITIALISED,
             "the guard is a predicate that was never written");
    warp->defp[instr->guard] |= mask; /* once */
}

/* Lanes whose guard is false do not wait for those whose guard is true. Unless all lanes have to come: then it shows
 * that some do not. */
static void leave_behind(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    const uint32_t rest = warp->groups[0].mask & ~mask;
    if (rest == 0 || instr->guard_by_exec || instr->facts.aligned)
        return;
    struct emu_group *other = &warp->groups[warp->group_count++];
    *other = (struct emu_group){.mask = rest, .pc = warp->groups[0].pc + 1};
    warp->groups[0].mask = mask;
}

/* An .aligned instruction waits for lanes that are elsewhere: they are on their way, or it is a deadlock. */
static enum emu_action execute(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    if (instr->facts.aligned && warp->group_count > 1 && mask == warp->groups[0].mask && mask != warp->live) {
        warp->wait = (struct emu_wait){EMU_WAIT_LANES, warp->live, 0, mask};
        return EMU_BLOCKED;
    }
    return instr->exec(warp, instr, mask);
}

/* What one of the lanes knows, the others now know. */
static void order_lanes(struct emu_warp *warp, uint32_t mask)
{
    warp->sync->lane_epoch++;
    if (warp->sync->grid_waited & mask)
        warp->sync->grid_waited |= mask;
}

/* False when the warp cannot go on now. */
static bool step(struct emu_warp *warp)
{
    const struct emu_kernel *kernel = warp->cta->launch->kernel;
    struct emu_group *group = &warp->groups[0];
    if (group->pc >= kernel->instr_count) {
        emu_fault(warp, &kernel->instrs[kernel->instr_count - 1], -1, EMU_TRAP,
                  "execution ran past the last instruction");
        return false;
    }
    const struct emu_instr *instr = &kernel->instrs[group->pc];
    check_guard(warp, instr, group->mask);
    const uint32_t mask = guarded(warp, instr, group->mask);
    const bool wgmma = is_wgmma(instr);
    warp->instr_executed++;
    if (mask == 0 && !instr->guard_by_exec) {
        group->pc++;
        return true;
    }
    if (!wgmma) {
        check_reads(warp, instr, mask);
        check_writes(warp, instr);
    }
    warp->wait = (struct emu_wait){0};
    const enum emu_action action = execute(warp, instr, mask);
    if (instr->orders_lanes && action != EMU_BLOCKED)
        order_lanes(warp, mask);
    group = &warp->groups[0];
    switch (action) {
    case EMU_NEXT:
    case EMU_YIELD:
        mark_writes(warp, instr, mask, wgmma);
        group->pc++;
        group->yielded = action == EMU_YIELD;
        /* Who goes on waits no more; it would be kept apart from its warp's other lanes (may_merge). */
        group->wait = group->yielded ? warp->wait : (struct emu_wait){0};
        warp->cta->cluster->sync->idle_yields += group->yielded;
        return !group->yielded;
    case EMU_BRANCH:
        if (group->mask == 0)
            remove_group(warp, 0);
        return true;
    case EMU_BLOCKED:
        group->blocked = true;
        group->wait = warp->wait;
        leave_behind(warp, instr, mask);
        return true; /* another group may go on */
    default:
        warp->cta->cluster->sync->fault = true;
        return false;
    }
}

static void run_warp(struct emu_warp *warp, uint64_t quantum)
{
    const struct emu_cluster_sync *sync = warp->cta->cluster->sync;
    for (uint64_t i = 0; i < quantum && !sync->fault; i++)
        if (!select_group(warp) || !step(warp))
            return;
}

/* ---- Actors ---- */

struct actor {
    struct emu_warp *warp;
    int queue; /* -1: the warp itself */
    int number;
};

struct scheduler {
    struct emu_cluster *cluster;
    enum emu_schedule schedule;
    struct actor *actors; /* those that can act now */
    int count;
    int last;             /* number of the actor that acted last */
    int victim;           /* starve */
    uint64_t *priorities; /* pct */
    uint64_t change_at[PCT_CHANGES];
    uint64_t low;   /* pct: below all priorities so far */
    uint64_t idle;  /* actions since the last event */
    uint64_t event; /* the last that was noticed */
    int timeouts;   /* since then */
    uint64_t steps;
};

static bool can_run(const struct emu_warp *warp)
{
    for (int i = 0; i < warp->group_count; i++)
        if (!warp->groups[i].blocked)
            return true;
    return false;
}

static void list_actors(struct scheduler *scheduler)
{
    scheduler->count = 0;
    int number = 0;
    for (int c = 0; c < scheduler->cluster->cta_count; c++)
        for (int w = 0; w < scheduler->cluster->ctas[c].warp_count; w++) {
            struct emu_warp *warp = &scheduler->cluster->ctas[c].warps[w];
            if (can_run(warp))
                scheduler->actors[scheduler->count++] = (struct actor){warp, -1, number};
            for (int queue = 0; queue < EMU_QUEUES; queue++)
                if (emu_async_pending(warp, queue))
                    scheduler->actors[scheduler->count++] = (struct actor){warp, queue, number + 1 + queue};
            number += ACTORS_A_WARP;
        }
}

/* Actions without an event before something is done about it: somebody may be polling. */
static uint64_t patience(const struct scheduler *scheduler)
{
    return 64 + 4 * (uint64_t)scheduler->count;
}

/* The next in turn after the last, warps before queues; when warps only poll, a queue. */
static int choose_in_turn(const struct scheduler *scheduler)
{
    int first[2] = {-1, -1}, after[2] = {-1, -1};
    for (int i = 0; i < scheduler->count; i++) {
        const int kind = scheduler->actors[i].queue >= 0;
        if (first[kind] < 0)
            first[kind] = i;
        if (after[kind] < 0 && scheduler->actors[i].number > scheduler->last)
            after[kind] = i;
    }
    const int kind = first[0] < 0 || (first[1] >= 0 && scheduler->idle > patience(scheduler));
    return after[kind] >= 0 ? after[kind] : first[kind];
}

static int choose_random(struct scheduler *scheduler)
{
    const int choice = (int)(emu_random(&scheduler->cluster->random) % (uint64_t)scheduler->count);
    if (scheduler->schedule != EMU_STARVE || scheduler->actors[choice].number != scheduler->victim)
        return choice;
    if (scheduler->idle > patience(scheduler)) { /* the others poll for what the victim would do: another one's turn */
        scheduler->victim = scheduler->actors[(choice + 1) % scheduler->count].number;
        return choice;
    }
    return (choice + 1) % scheduler->count;
}

static int choose_by_priority(struct scheduler *scheduler)
{
    int best = 0;
    for (int i = 1; i < scheduler->count; i++)
        if (scheduler->priorities[scheduler->actors[i].number] > scheduler->priorities[scheduler->actors[best].number])
            best = i;
    for (uint64_t i = 0; i < PCT_CHANGES; i++)
        if (scheduler->steps == scheduler->change_at[i])
            scheduler->priorities[scheduler->actors[best].number] = --scheduler->low;
    if (scheduler->idle > patience(scheduler)) { /* it may be polling, and must not keep the others out for ever */
        scheduler->priorities[scheduler->actors[best].number] = --scheduler->low;
        scheduler->idle = 0;
    }
    return best;
}

static int choose(struct scheduler *scheduler)
{
    scheduler->steps++;
    scheduler->idle++;
    if (scheduler->event != scheduler->cluster->sync->events) {
        scheduler->event = scheduler->cluster->sync->events;
        scheduler->idle = 0;
        scheduler->timeouts = 0;
    }
    switch (scheduler->schedule) {
    case EMU_RANDOM:
    case EMU_STARVE:
        return choose_random(scheduler);
    case EMU_PCT:
        return choose_by_priority(scheduler);
    default:
        return choose_in_turn(scheduler);
    }
}

static uint64_t quantum_of(struct scheduler *scheduler)
{
    if (scheduler->schedule == EMU_EAGER || scheduler->schedule == EMU_LAZY)
        return LONG_QUANTUM;
    return 1 + emu_random(&scheduler->cluster->random) % 64;
}

static void act(struct scheduler *scheduler, const struct actor *actor)
{
    const bool whole = scheduler->schedule == EMU_EAGER || scheduler->schedule == EMU_LAZY;
    scheduler->last = actor->number;
    if (actor->queue < 0)
        run_warp(actor->warp, quantum_of(scheduler));
    else if (!emu_async_apply_head(actor->warp, actor->queue, whole,
                                   whole ? 0 : emu_random(&scheduler->cluster->random) >> 1))
        scheduler->cluster->sync->fault = true;
}

static bool scheduler_create(struct scheduler *scheduler, struct emu_cluster *cluster)
{
    const size_t actors = (size_t)(cluster->cta_count * cluster->ctas[0].warp_count * ACTORS_A_WARP);
    *scheduler =
        (struct scheduler){.cluster = cluster, .schedule = cluster->options->schedule, .last = -1, .low = PCT_LOW};
    scheduler->actors = malloc(actors * sizeof(*scheduler->actors));
    scheduler->priorities = malloc(actors * sizeof(*scheduler->priorities));
    if (!scheduler->actors || !scheduler->priorities)
        return false;
    uint64_t state = cluster->random;
    scheduler->victim = (int)(emu_random(&state) % actors);
    for (size_t i = 0; i < actors; i++)
        scheduler->priorities[i] = (emu_random(&state) >> 8) + PCT_LOW;
    for (int i = 0; i < PCT_CHANGES; i++)
        scheduler->change_at[i] = emu_random(&state) % PCT_STEPS;
    return true;
}

/* ---- The end ---- */

enum { WAIT_TEXT = 200 };

static const char *wait_text(const struct emu_cluster *cluster, const struct emu_wait *wait, char text[WAIT_TEXT])
{
    switch (wait->kind) {
    case EMU_WAIT_NAMED_BARRIER:
        snprintf(text, WAIT_TEXT, "barrier %llu", (unsigned long long)wait->what);
        break;
    case EMU_WAIT_CLUSTER:
        snprintf(text, WAIT_TEXT, "barrier.cluster.wait");
        break;
    case EMU_WAIT_MBARRIER:
        emu_mbarrier_text(cluster, wait, text, WAIT_TEXT);
        break;
    case EMU_WAIT_WGMMA:
        snprintf(text, WAIT_TEXT, "the other warps of its warpgroup to issue their part of a wgmma");
        break;
    case EMU_WAIT_LANES:
        snprintf(text, WAIT_TEXT, "lanes 0x%08llx of its warp, of which 0x%08x are here",
                 (unsigned long long)wait->what, wait->mask);
        break;
    case EMU_WAIT_REGISTERS:
        snprintf(text, WAIT_TEXT, "registers for setmaxnreg.inc %llu", (unsigned long long)wait->what);
        break;
    default:
        snprintf(text, WAIT_TEXT, "nothing that is known");
    }
    return text;
}

/* One finding a group, so that each has its line. */
static void report_deadlock(struct emu_cluster *cluster)
{
    for (int c = 0; c < cluster->cta_count; c++)
        for (int w = 0; w < cluster->ctas[c].warp_count; w++) {
            struct emu_warp *warp = &cluster->ctas[c].warps[w];
            for (int g = 0; g < warp->group_count; g++) {
                const struct emu_group *group = &warp->groups[g];
                const struct emu_instr *instr = &cluster->launch->kernel->instrs[group->pc];
                char text[WAIT_TEXT];
                emu_find(warp, instr, -1, group->wait.kind == EMU_WAIT_LANES ? EMU_DIVERGENT : EMU_DEADLOCKED,
                         "deadlock: warp %d, lanes 0x%08x, waits for %s", w, group->mask,
                         wait_text(cluster, &group->wait, text));
            }
        }
    cluster->sync->fault = true;
    cluster->sync->fault_kind = EMU_DEADLOCKED;
}

static bool all_exited(const struct emu_cluster *cluster)
{
    for (int c = 0; c < cluster->cta_count; c++)
        for (int w = 0; w < cluster->ctas[c].warp_count; w++)
            if (cluster->ctas[c].warps[w].group_count > 0)
                return false;
    return true;
}

/* The setmaxnreg that one of the two executed last. */
static const struct emu_instr *setmaxnreg_of(const struct emu_warp *a, const struct emu_warp *b)
{
    const struct emu_kernel *kernel = a->cta->launch->kernel;
    const uint32_t line = b->sync->setmaxnreg_last ? b->sync->setmaxnreg_last : a->sync->setmaxnreg_last;
    for (uint32_t i = 0; i < kernel->instr_count; i++)
        if (kernel->instrs[i].line == line && strncmp(kernel->instrs[i].text, "setmaxnreg", 10) == 0)
            return &kernel->instrs[i];
    return &kernel->instrs[0];
}

/* ISA 9.7.19.5: all warps of a warpgroup execute the same setmaxnreg. */
static void check_warpgroups(struct emu_cta *cta)
{
    for (int first = 0; first + 3 < cta->warp_count; first += 4)
        for (int i = 1; i < 4; i++) {
            struct emu_warp *a = &cta->warps[first], *b = &cta->warps[first + i];
            if (a->sync->setmaxnreg_count != b->sync->setmaxnreg_count ||
                a->sync->setmaxnreg_last != b->sync->setmaxnreg_last)
                emu_find(b, setmaxnreg_of(a, b), -1, EMU_BAD_REGISTERS,
                         "warps %d and %d of a warpgroup executed different setmaxnreg (PTX lines %u and %u)", first,
                         first + i, a->sync->setmaxnreg_last, b->sync->setmaxnreg_last);
        }
}

static void finish(struct emu_cluster *cluster)
{
    for (int c = 0; c < cluster->cta_count; c++) {
        for (int w = 0; w < cluster->ctas[c].warp_count; w++)
            emu_async_at_exit(&cluster->ctas[c].warps[w]);
        if (cluster->options->checks & EMU_CHECK_BARRIERS)
            emu_mbarriers_at_exit(&cluster->ctas[c]);
        check_warpgroups(&cluster->ctas[c]);
        if (cluster->cta_count > 1 && (cluster->options->checks & EMU_CHECK_RACES))
            emu_check_ended(&cluster->ctas[c]);
    }
}

static uint64_t executed(const struct emu_cluster *cluster)
{
    uint64_t sum = 0;
    for (int c = 0; c < cluster->cta_count; c++)
        for (int w = 0; w < cluster->ctas[c].warp_count; w++)
            sum += cluster->ctas[c].warps[w].instr_executed;
    return sum;
}

/* Nothing can run: try_wait's time is up (ISA 9.7.13.15.16). True when that lets a group go on. */
static bool end_timed_waits(struct scheduler *scheduler)
{
    const struct emu_cluster *cluster = scheduler->cluster;
    bool ended = false;
    if (scheduler->count > 0 || scheduler->timeouts++ >= TIMEOUTS)
        return false;
    for (int c = 0; c < cluster->cta_count; c++)
        for (int w = 0; w < cluster->ctas[c].warp_count; w++) {
            struct emu_warp *warp = &cluster->ctas[c].warps[w];
            for (int g = 0; g < warp->group_count; g++)
                if (warp->groups[g].blocked && warp->groups[g].wait.kind == EMU_WAIT_MBARRIER) {
                    warp->groups[g].blocked = false;
                    warp->sync->time_is_up = ended = true;
                }
        }
    return ended;
}

static bool is_stuck(struct scheduler *scheduler)
{
    struct emu_cluster *cluster = scheduler->cluster;
    if (scheduler->count == 0 || cluster->sync->idle_yields > IDLE_LIMIT) {
        report_deadlock(cluster);
        return true;
    }
    if ((scheduler->steps & 0xfff) == 0 && executed(cluster) > instr_limit) {
        struct emu_warp *warp = scheduler->actors[0].warp;
        emu_fault(warp, &cluster->launch->kernel->instrs[0], -1, EMU_LIMIT, "2^32 instructions and no end");
        return true;
    }
    return false;
}

void emu_cluster_run(struct emu_cluster *cluster)
{
    struct scheduler scheduler;
    if (!scheduler_create(&scheduler, cluster))
        cluster->sync->fault = true;
    while (!cluster->sync->fault) {
        list_actors(&scheduler);
        if (all_exited(cluster) && scheduler.count == 0)
            break;
        if (end_timed_waits(&scheduler))
            continue;
        if (is_stuck(&scheduler))
            break;
        const struct actor actor = scheduler.actors[choose(&scheduler)];
        act(&scheduler, &actor);
        if (all_exited(cluster))
            break;
    }
    if (!cluster->sync->fault)
        finish(cluster);
    free(scheduler.actors);
    free(scheduler.priorities);
}
