/* Named barriers, cluster barriers and mbarriers: who has arrived, who may go on, and what each then knows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

/* ---- Knowledge ---- */

static void begin_epoch(struct emu_warp *warp)
{
    struct emu_warp_sync *sync = warp->sync;
    if (!emu_clocks_own(&sync->now))
        return;
    sync->has_issued = false;
    sync->epoch++;
    sync->now->v[emu_agent(warp, EMU_AGENT_WARP)] = sync->epoch;
}

void emu_warp_new_epoch(struct emu_warp *warp)
{
    begin_epoch(warp);
}

void emu_warp_release(struct emu_warp *warp, struct emu_clocks **to)
{
    emu_clocks_join(to, warp->sync->now);
    begin_epoch(warp);
}

void emu_warp_fence(struct emu_warp *warp)
{
    emu_clocks_fence(&warp->sync->now);
    begin_epoch(warp);
}

void emu_warp_fence_release(struct emu_warp *warp)
{
    emu_clocks_release(warp->sync->fenced);
    warp->sync->fenced = emu_clocks_share(warp->sync->now);
    begin_epoch(warp);
}

void emu_warp_fence_inits(struct emu_warp *warp)
{
    warp->sync->fenced_inits = warp->sync->epoch;
    begin_epoch(warp);
}

void emu_warp_acquire(struct emu_warp *warp, const struct emu_clocks *from)
{
    emu_clocks_join(&warp->sync->now, from);
    if (from->v[emu_agent_ahead(from)])
        warp->sync->grid_waited = EMU_ALL_LANES;
}

/* Makes room for what a barrier's next use will gather. */
static bool fresh(struct emu_cluster *cluster, struct emu_clocks **clocks)
{
    emu_clocks_release(*clocks);
    *clocks = emu_clocks_new(cluster->sync->agents);
    return *clocks != NULL;
}

static bool gather(struct emu_cluster *cluster, struct emu_clocks **clocks)
{
    return *clocks || fresh(cluster, clocks);
}

bool emu_lanes_are_here(struct emu_warp *warp, uint32_t mask, uint32_t wanted)
{
    if ((wanted & warp->live & ~mask) == 0)
        return true;
    warp->wait = (struct emu_wait){EMU_WAIT_LANES, wanted & warp->live, 0, mask};
    return false;
}

/* ---- Named barriers: PTX ISA 9.7.13.1 ---- */

static uint32_t block_threads(const struct emu_cta *cta)
{
    const struct emu_launch *launch = cta->launch;
    return launch->block[0] * launch->block[1] * launch->block[2];
}

/* Threads that will not come any more, those that a last warp lacks included: they do not keep the others waiting at a
 * barrier for all. */
static uint32_t gone_threads(const struct emu_cta *cta, const struct emu_named_barrier *barrier)
{
    uint32_t gone = 0;
    for (int i = 0; i < cta->warp_count; i++)
        gone += (uint32_t)__builtin_popcount(~cta->warps[i].live & ~barrier->here[i]);
    return gone;
}

static void release_warp(struct emu_warp *warp, uint32_t number, const struct emu_named_barrier *barrier)
{
    bool waited = false;
    for (int lane = 0; lane < EMU_LANES; lane++)
        if (warp->sync->barrier_state[lane] == EMU_LANE_WAITING && warp->sync->barrier_number[lane] == number) {
            warp->sync->barrier_state[lane] = EMU_LANE_RELEASED;
            warp->sync->red_true[lane] = barrier->trues;
            warp->sync->red_false[lane] = barrier->falses;
            waited = true;
        }
    if (!waited)
        return;
    emu_warp_acquire(warp, barrier->arriving);
}

static void complete_named(struct emu_cta *cta, uint32_t number)
{
    struct emu_named_barrier *barrier = &cta->sync->named[number];
    for (int i = 0; i < cta->warp_count; i++)
        release_warp(&cta->warps[i], number, barrier);
    emu_clocks_release(barrier->arriving);
    struct emu_named_barrier next = {0};
    memcpy(next.epoch_before, barrier->epoch, sizeof(next.epoch_before));
    *barrier = next;
    emu_wake(cta->cluster, EMU_WAIT_NAMED_BARRIER);
}

static bool is_complete(const struct emu_cta *cta, const struct emu_named_barrier *barrier)
{
    const uint32_t all = (uint32_t)cta->warp_count * EMU_LANES;
    const bool for_all = barrier->expected >= block_threads(cta) || barrier->expected >= all;
    const uint32_t gone = for_all ? gone_threads(cta, barrier) : 0;
    return barrier->arrived + gone >= barrier->expected;
}

static bool lanes_in_state(const struct emu_warp *warp, uint32_t mask, enum emu_lane_state state)
{
    for (int lane = 0; lane < EMU_LANES; lane++)
        if (mask >> lane & 1 && warp->sync->barrier_state[lane] != state)
            return false;
    return true;
}

static void set_state(struct emu_warp *warp, uint32_t mask, enum emu_lane_state state, uint32_t number)
{
    for (int lane = 0; lane < EMU_LANES; lane++)
        if (mask >> lane & 1) {
            warp->sync->barrier_state[lane] = (uint8_t)state;
            warp->sync->barrier_number[lane] = (uint8_t)number;
        }
}

/* A warp that comes to a barrier must know that the phase before is over, or on another schedule it comes in that one:
 * who waits knows, who only arrives must have learnt otherwise that all have come. */
static bool check_phase_before(struct emu_warp *warp, const struct emu_instr *instr,
                               const struct emu_named_barrier *barrier, uint32_t number)
{
    for (int i = 0; i < warp->cta->warp_count; i++) {
        const struct emu_warp *other = &warp->cta->warps[i];
        if (other == warp || warp->sync->now->v[emu_agent(other, EMU_AGENT_WARP)] >= barrier->epoch_before[i])
            continue;
        emu_fault(warp, instr, -1, EMU_BARRIER_MISUSE,
                  "the warp arrives at barrier %u and cannot know that warp %d has come in the phase before: it might "
                  "arrive again before the others have come",
                  number, i);
        return false;
    }
    return true;
}

static bool check_use(struct emu_warp *warp, const struct emu_instr *instr, const struct emu_named_barrier *barrier,
                      uint32_t number, uint32_t threads, uint32_t count, uint32_t mask)
{
    const bool is_red = instr->facts.wide;
    if (barrier->expected != 0 && barrier->expected != threads) {
        emu_fault(warp, instr, -1, EMU_BARRIER_MISUSE,
                  "barrier %u is used for %u threads here and for %u by those that came before (PTX line %u)", number,
                  threads, barrier->expected, barrier->instr->line);
        return false;
    }
    if (barrier->expected != 0 && barrier->is_red != is_red) {
        emu_fault(warp, instr, -1, EMU_BARRIER_MISUSE,
                  "barrier %u is used by bar.red and, in the same phase, by another barrier instruction (PTX line %u)",
                  number, barrier->instr->line);
        return false;
    }
    if (barrier->here[warp->index] & mask) {
        emu_fault(warp, instr, -1, EMU_BARRIER_MISUSE,
                  "the warp arrives at barrier %u again before the others have come: %u of %u threads are here", number,
                  barrier->arrived, threads);
        return false;
    }
    if (barrier->arrived + count > threads) {
        emu_fault(warp, instr, -1, EMU_BARRIER_MISUSE, "barrier %u: %u threads arrive, %u are expected", number,
                  barrier->arrived + count, threads);
        return false;
    }
    return true;
}

static bool arrive_named(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask, uint32_t number,
                         uint32_t threads, uint32_t predicate)
{
    struct emu_cta *cta = warp->cta;
    struct emu_named_barrier *barrier = &cta->sync->named[number];
    const uint32_t count = instr->facts.aligned ? EMU_LANES : (uint32_t)__builtin_popcount(mask);
    if (!check_use(warp, instr, barrier, number, threads, count, mask) ||
        !check_phase_before(warp, instr, barrier, number) || !gather(cta->cluster, &barrier->arriving))
        return false;
    if (barrier->expected == 0)
        barrier->instr = instr;
    barrier->expected = threads;
    barrier->arrived += count;
    barrier->is_red = instr->facts.wide;
    barrier->here[warp->index] |= instr->facts.aligned ? EMU_ALL_LANES : mask;
    barrier->trues += (uint32_t)__builtin_popcount(predicate & mask);
    barrier->falses += (uint32_t)__builtin_popcount(~predicate & mask);
    barrier->epoch[warp->index] = warp->sync->now->v[emu_agent(warp, EMU_AGENT_WARP)];
    emu_warp_release(warp, &barrier->arriving);
    return true;
}

enum emu_action emu_named_barrier_arrive(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask,
                                         uint32_t number, uint32_t threads, bool wait, uint32_t predicate)
{
    if (wait && lanes_in_state(warp, mask, EMU_LANE_RELEASED)) {
        set_state(warp, mask, EMU_LANE_FREE, 0);
        return EMU_NEXT;
    }
    warp->wait = (struct emu_wait){EMU_WAIT_NAMED_BARRIER, number, 0, mask};
    if (wait && !lanes_in_state(warp, mask, EMU_LANE_FREE))
        return EMU_BLOCKED;
    if (!arrive_named(warp, instr, mask, number, threads, predicate))
        return EMU_FAULT;
    if (wait)
        set_state(warp, mask, EMU_LANE_WAITING, number);
    if (is_complete(warp->cta, &warp->cta->sync->named[number]))
        complete_named(warp->cta, number);
    if (!wait)
        return EMU_NEXT;
    if (!lanes_in_state(warp, mask, EMU_LANE_RELEASED))
        return EMU_BLOCKED;
    set_state(warp, mask, EMU_LANE_FREE, 0);
    return EMU_NEXT;
}

/* ---- Cluster barrier: PTX ISA 9.7.13.3 ---- */

static uint32_t cluster_threads(const struct emu_cluster *cluster)
{
    uint32_t live = 0;
    for (int c = 0; c < cluster->cta_count; c++)
        for (int w = 0; w < cluster->ctas[c].warp_count; w++)
            live += (uint32_t)__builtin_popcount(cluster->ctas[c].warps[w].live);
    return live;
}

static void complete_cluster(struct emu_cluster *cluster)
{
    struct emu_cluster_sync *sync = cluster->sync;
    emu_clocks_release(sync->completed);
    sync->completed = sync->arriving;
    sync->arriving = NULL;
    emu_clocks_release(sync->completed_inits);
    sync->completed_inits = sync->arriving_inits;
    sync->arriving_inits = NULL;
    sync->arrived = 0;
    sync->phase++;
    emu_wake(cluster, EMU_WAIT_CLUSTER);
}

/* .relaxed brings along what a fence before it has released (ISA 8.8; examples in 9.7.13.3 and 9.7.13.4). */
static bool arrive_relaxed(struct emu_warp *warp)
{
    struct emu_cluster *cluster = warp->cta->cluster;
    if (warp->sync->fenced)
        emu_clocks_join(&cluster->sync->arriving, warp->sync->fenced);
    if (warp->sync->fenced_inits == 0)
        return true;
    if (!gather(cluster, &cluster->sync->arriving_inits))
        return false;
    emu_clocks_learn(&cluster->sync->arriving_inits, emu_agent(warp, EMU_AGENT_WARP), warp->sync->fenced_inits, false);
    return true;
}

enum emu_action emu_cluster_arrive(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask, bool release)
{
    struct emu_cluster *cluster = warp->cta->cluster;
    struct emu_cluster_sync *sync = cluster->sync;
    for (int lane = 0; lane < EMU_LANES; lane++)
        if (mask >> lane & 1) {
            if (warp->sync->cluster_waits_for[lane] != 0)
                return emu_fault(warp, instr, lane, EMU_BARRIER_MISUSE,
                                 "barrier.cluster.arrive again without barrier.cluster.wait between");
            warp->sync->cluster_waits_for[lane] = sync->phase + 1;
        }
    if (!gather(cluster, &sync->arriving))
        return EMU_FAULT;
    if (release)
        emu_warp_release(warp, &sync->arriving);
    else if (!arrive_relaxed(warp))
        return EMU_FAULT;
    sync->arrived += (uint32_t)__builtin_popcount(mask);
    if (sync->arrived >= cluster_threads(cluster))
        complete_cluster(cluster);
    return EMU_NEXT;
}

enum emu_action emu_cluster_wait(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    struct emu_cluster_sync *sync = warp->cta->cluster->sync;
    for (int lane = 0; lane < EMU_LANES; lane++) {
        if (!(mask >> lane & 1))
            continue;
        if (warp->sync->cluster_waits_for[lane] == 0)
            return emu_fault(warp, instr, lane, EMU_BARRIER_MISUSE,
                             "barrier.cluster.wait without barrier.cluster.arrive before it");
        if (sync->phase < warp->sync->cluster_waits_for[lane]) {
            warp->wait = (struct emu_wait){EMU_WAIT_CLUSTER, 0, 0, mask};
            return EMU_BLOCKED;
        }
    }
    for (int lane = 0; lane < EMU_LANES; lane++)
        if (mask >> lane & 1)
            warp->sync->cluster_waits_for[lane] = 0;
    if (sync->completed)
        emu_warp_acquire(warp, sync->completed);
    if (sync->completed_inits && gather(warp->cta->cluster, &warp->sync->known_inits))
        emu_clocks_join(&warp->sync->known_inits, sync->completed_inits);
    return EMU_NEXT;
}

void emu_lanes_exit(struct emu_warp *warp, uint32_t mask)
{
    struct emu_cta *cta = warp->cta;
    struct emu_cluster *cluster = cta->cluster;
    for (int lane = 0; lane < EMU_LANES; lane++) /* an arrival stands for a live thread: cluster_threads() */
        if (mask >> lane & 1 && warp->sync->cluster_waits_for[lane] == cluster->sync->phase + 1)
            cluster->sync->arrived--;
    if (warp->live == 0 && cluster->cta_count > 1 && gather(cluster, &cluster->sync->ended[cta->rank]))
        emu_clocks_join(&cluster->sync->ended[cta->rank], warp->sync->now);
    emu_wake(cluster, EMU_WAIT_LANES);
    emu_wake(cluster, EMU_WAIT_WGMMA); /* a warpgroup's other warps do not wait for one that has gone */
    for (uint32_t number = 0; number < EMU_NAMED_BARRIERS; number++) {
        const struct emu_named_barrier *barrier = &cta->sync->named[number];
        if (barrier->expected != 0 && is_complete(cta, barrier))
            complete_named(cta, number);
    }
    if (cluster->sync->arrived != 0 && cluster->sync->arrived >= cluster_threads(cluster))
        complete_cluster(cluster);
}

/* ---- mbarriers: PTX ISA 9.7.13.15 ---- */

static struct emu_mbarrier *find(struct emu_cta *cta, uint32_t offset)
{
    for (uint32_t i = 0; i < cta->sync->mbarrier_count; i++)
        if (cta->sync->mbarriers[i].offset == offset)
            return &cta->sync->mbarriers[i];
    return NULL;
}

struct emu_mbarrier *emu_mbarrier_at(struct emu_warp *warp, const struct emu_access *access, int lane,
                                     enum emu_space space, uint64_t address, struct emu_cta **cta)
{
    uint32_t offset;
    /* The object itself is touched as by an atomic: its initialisation must have happened before. */
    struct emu_access touch = *access;
    touch.atomic = touch.mbarrier = true;
    touch.async_proxy = false;
    if (!emu_touch(warp, &touch, lane, space, address, 8, 8, EMU_READ) ||
        !emu_shared_locate(warp, space, address, cta, &offset))
        return NULL;
    struct emu_mbarrier *mbarrier = find(*cta, offset);
    if (!mbarrier)
        emu_fault(warp, access->instr, lane, EMU_BARRIER_MISUSE,
                  "shared memory at offset %u holds no mbarrier: mbarrier.init is missing before this", offset);
    return mbarrier;
}

static struct emu_mbarrier *new_mbarrier(struct emu_cta *cta)
{
    struct emu_cta_sync *sync = cta->sync;
    struct emu_mbarrier *free_one = find(cta, 0);
    if (free_one)
        return free_one;
    if (sync->mbarrier_count == sync->mbarrier_capacity) {
        const uint32_t capacity = sync->mbarrier_capacity ? 2 * sync->mbarrier_capacity : 16;
        struct emu_mbarrier *more = realloc(sync->mbarriers, capacity * sizeof(*more));
        if (!more)
            return NULL;
        sync->mbarriers = more;
        sync->mbarrier_capacity = capacity;
    }
    sync->mbarriers[sync->mbarrier_count] = (struct emu_mbarrier){0};
    return &sync->mbarriers[sync->mbarrier_count++];
}

static bool in_use(const struct emu_mbarrier *mbarrier)
{
    return mbarrier->pending != (int32_t)mbarrier->expected || mbarrier->tx != 0;
}

static enum emu_space space_of(const struct emu_instr *instr)
{
    return (enum emu_space)instr->facts.space;
}

bool emu_mbarrier_init(struct emu_warp *warp, const struct emu_instr *instr, int lane, uint64_t address, uint32_t count)
{
    struct emu_access access = emu_access_of(warp, instr, false);
    access.mbarrier_init = access.mbarrier = true;
    struct emu_cta *cta;
    uint32_t offset;
    if (count == 0 || count > (1u << 20) - 1)
        return emu_fault(warp, instr, lane, EMU_BARRIER_MISUSE, "mbarrier.init for %u arrivals: 1 to 2^20 - 1", count),
               false;
    uint8_t *bytes = emu_touch(warp, &access, lane, space_of(instr), address, 8, 8, EMU_WRITE);
    if (!bytes || !emu_shared_locate(warp, space_of(instr), address, &cta, &offset))
        return false;
    memset(bytes, 0, 8);
    struct emu_mbarrier *mbarrier = find(cta, offset);
    if (mbarrier && in_use(mbarrier))
        return emu_fault(warp, instr, lane, EMU_BARRIER_MISUSE,
                         "mbarrier.init of a barrier in use: %d arrivals and %lld bytes are pending", mbarrier->pending,
                         (long long)mbarrier->tx),
               false;
    if (!mbarrier && !(mbarrier = new_mbarrier(cta)))
        return emu_fault(warp, instr, lane, EMU_LIMIT, "no memory for an mbarrier"), false;
    emu_clocks_release(mbarrier->arriving); /* of one that is initialised again */
    emu_clocks_release(mbarrier->completed);
    *mbarrier = (struct emu_mbarrier){
        .offset = offset, .expected = count, .pending = (int32_t)count, .load_agent = -1, .init = instr};
    if (cta->sync->mbarrier_end == 0 || offset < cta->sync->mbarrier_low)
        cta->sync->mbarrier_low = offset;
    if (offset + 8 > cta->sync->mbarrier_end)
        cta->sync->mbarrier_end = offset + 8;
    return fresh(cta->cluster, &mbarrier->arriving);
}

static void forget(struct emu_mbarrier *mbarrier)
{
    emu_clocks_release(mbarrier->arriving);
    emu_clocks_release(mbarrier->completed);
    *mbarrier = (struct emu_mbarrier){0};
}

bool emu_mbarrier_inval(struct emu_warp *warp, const struct emu_instr *instr, int lane, uint64_t address)
{
    struct emu_access access = emu_access_of(warp, instr, false);
    access.mbarrier = true;
    struct emu_cta *cta;
    struct emu_mbarrier *mbarrier = emu_mbarrier_at(warp, &access, lane, space_of(instr), address, &cta);
    if (!mbarrier || !emu_touch(warp, &access, lane, space_of(instr), address, 8, 8, EMU_WRITE))
        return false;
    forget(mbarrier);
    return true;
}

/* A waiter that was let go by the phase before and has not yet looked would now wait for ever (ISA 9.7.13.15.16: each
 * phase must be seen before the next one's arrivals). */
static void check_overrun(struct emu_cta *cta, const struct emu_mbarrier *mbarrier, struct emu_warp *by,
                          const struct emu_instr *instr)
{
    struct emu_cluster *cluster = cta->cluster;
    const uint64_t address = emu_shared_window() + ((uint64_t)cta->rank << EMU_RANK_SHIFT) + mbarrier->offset;
    const uint32_t before = (mbarrier->phase + 1) & 1;
    for (int c = 0; c < cluster->cta_count; c++)
        for (int w = 0; w < cluster->ctas[c].warp_count; w++) {
            const struct emu_warp *warp = &cluster->ctas[c].warps[w];
            for (int g = 0; g < warp->group_count; g++)
                if (warp->groups[g].wait.kind == EMU_WAIT_MBARRIER && warp->groups[g].wait.what == address &&
                    warp->groups[g].wait.parity == before)
                    emu_find(by, instr, -1, EMU_BARRIER_MISUSE,
                             "phase overrun: the mbarrier at offset %u completes a phase while warp %d has not yet "
                             "seen the one before",
                             mbarrier->offset, w);
        }
}

static void settle(struct emu_cta *cta, struct emu_mbarrier *mbarrier, struct emu_warp *by,
                   const struct emu_instr *instr)
{
    if (mbarrier->pending != 0 || mbarrier->tx != 0)
        return;
    if (cta->launch && (by->cta->options->checks & EMU_CHECK_BARRIERS))
        check_overrun(cta, mbarrier, by, instr);
    emu_clocks_release(mbarrier->completed);
    mbarrier->completed = mbarrier->arriving;
    mbarrier->arriving = emu_clocks_new(cta->cluster->sync->agents);
    mbarrier->pending = (int32_t)mbarrier->expected;
    mbarrier->phase++;
    emu_wake(cta->cluster, EMU_WAIT_MBARRIER);
}

bool emu_mbarrier_arrive(struct emu_warp *warp, const struct emu_access *access, int lane, enum emu_space space,
                         uint64_t address, uint32_t count, bool drop, const struct emu_clocks *clocks)
{
    struct emu_cta *cta;
    struct emu_mbarrier *mbarrier = emu_mbarrier_at(warp, access, lane, space, address, &cta);
    if (!mbarrier)
        return false;
    if (count == 0)
        return emu_fault(warp, access->instr, lane, EMU_BARRIER_MISUSE, "an arrival for 0: 1 to 2^20 - 1"), false;
    if ((int64_t)mbarrier->pending < (int64_t)count)
        return emu_fault(warp, access->instr, lane, EMU_BARRIER_MISUSE,
                         "over-arrival: %u arrive at the mbarrier at offset %u, %d are pending of %u", count,
                         mbarrier->offset, mbarrier->pending, mbarrier->expected),
               false;
    mbarrier->pending -= (int32_t)count;
    if (drop)
        mbarrier->expected -= count;
    if (clocks && mbarrier->arriving)
        emu_clocks_join(&mbarrier->arriving, clocks);
    settle(cta, mbarrier, warp, access->instr);
    return true;
}

enum { MAX_TX = (1 << 20) - 1 };

bool emu_mbarrier_expect(struct emu_warp *warp, const struct emu_access *access, int lane, enum emu_space space,
                         uint64_t address, int64_t bytes)
{
    struct emu_cta *cta;
    struct emu_mbarrier *mbarrier = emu_mbarrier_at(warp, access, lane, space, address, &cta);
    if (!mbarrier)
        return false;
    mbarrier->tx += bytes;
    if (mbarrier->tx > MAX_TX || mbarrier->tx < -MAX_TX)
        return emu_fault(warp, access->instr, lane, EMU_BARRIER_MISUSE,
                         "the mbarrier at offset %u has %lld bytes pending: the limit is 2^20 - 1", mbarrier->offset,
                         (long long)mbarrier->tx),
               false;
    settle(cta, mbarrier, warp, access->instr);
    return true;
}

/* Completion brings what the op knew when it was issued, and the op itself; by an implicit proxy fence its writes are
 * visible to both proxies (facts/emulation.md 3.5). */
bool emu_mbarrier_complete(struct emu_warp *warp, const struct emu_access *access, uint64_t address, uint32_t bytes)
{
    struct emu_cta *cta;
    struct emu_mbarrier *mbarrier = emu_mbarrier_at(warp, access, -1, EMU_GENERIC, address, &cta);
    if (!mbarrier)
        return false;
    if (mbarrier->arriving)
        emu_clocks_learn(&mbarrier->arriving, access->agent, access->epoch, true);
    mbarrier->load = access->instr;
    mbarrier->load_phase = mbarrier->phase;
    mbarrier->tx -= bytes;
    if (mbarrier->tx < -MAX_TX)
        return emu_fault(warp, access->instr, -1, EMU_BARRIER_MISUSE,
                         "the mbarrier at offset %u got %lld bytes more than expected", mbarrier->offset,
                         (long long)-mbarrier->tx),
               false;
    settle(cta, mbarrier, warp, access->instr);
    return true;
}

void emu_mbarrier_seen(struct emu_mbarrier *mbarrier)
{
    mbarrier->seen = mbarrier->phase;
}

void emu_mbarrier_text(const struct emu_cluster *cluster, const struct emu_wait *wait, char *text, size_t room)
{
    const uint32_t rank = (uint32_t)((wait->what - emu_shared_window()) >> EMU_RANK_SHIFT);
    const uint32_t offset = (uint32_t)(wait->what & ((1u << EMU_RANK_SHIFT) - 1));
    const struct emu_mbarrier *mbarrier = find(&cluster->ctas[rank], offset);
    int length = snprintf(text, room, "the mbarrier at offset %u of block rank %u, phase of parity %u", offset, rank,
                          wait->parity);
    if (mbarrier && length > 0 && (size_t)length < room)
        snprintf(text + length, room - (size_t)length, ": %d of %u arrivals and %lld bytes are missing",
                 mbarrier->pending, mbarrier->expected, (long long)mbarrier->tx);
}

/* Is there a live mbarrier in [offset, offset + size)? */
bool emu_holds_mbarrier(const struct emu_cta *cta, uint32_t offset, uint32_t size)
{
    for (uint32_t i = 0; i < cta->sync->mbarrier_count; i++) {
        const uint32_t at = cta->sync->mbarriers[i].offset;
        if (at != 0 && at < offset + size && offset < at + 8)
            return true;
    }
    return false;
}

void emu_mbarriers_at_exit(struct emu_cta *cta)
{
    for (uint32_t i = 0; i < cta->sync->mbarrier_count; i++) {
        const struct emu_mbarrier *mbarrier = &cta->sync->mbarriers[i];
        if (mbarrier->offset == 0)
            continue;
        if (mbarrier->tx != 0)
            emu_find(
                &cta->warps[0], mbarrier->load ? mbarrier->load : mbarrier->init, -1, EMU_BARRIER_MISUSE,
                "the block has ended and the mbarrier at offset %u (PTX line %u) has got %lld bytes %s than expected",
                mbarrier->offset, mbarrier->init->line, (long long)(mbarrier->tx < 0 ? -mbarrier->tx : mbarrier->tx),
                mbarrier->tx < 0 ? "more" : "less");
        else if (mbarrier->load && mbarrier->seen <= mbarrier->load_phase)
            emu_find(&cta->warps[0], mbarrier->load, -1, EMU_BARRIER_MISUSE,
                     "the block has ended and nothing waited for this copy: a wait for the mbarrier at offset %u is "
                     "missing before the end",
                     mbarrier->offset);
    }
}

void emu_cta_sync_free(struct emu_cta *cta)
{
    struct emu_cta_sync *sync = cta->sync;
    for (uint32_t i = 0; i < sync->mbarrier_count; i++)
        forget(&sync->mbarriers[i]);
    for (int i = 0; i < EMU_NAMED_BARRIERS; i++)
        emu_clocks_release(sync->named[i].arriving);
    memset(sync->named, 0, sizeof(sync->named));
    sync->mbarrier_count = 0;
    sync->mbarrier_low = sync->mbarrier_end = 0;
    sync->load_agents = 0;
    memset(sync->load_epochs, 0, sizeof(sync->load_epochs));
}
