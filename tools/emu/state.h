/* The engine's own state behind the opaque pointers of engine.h: clocks, queues, barriers. Only engine files include
 * it. */
#ifndef EMU_STATE_H
#define EMU_STATE_H

#include "clocks.h"
#include "engine.h"
#include "race.h"

/* ---- Agents ---- */

/* Of each warp, in this order; then, for each block, EMU_LOAD_AGENTS for its mbarriers' copies into shared memory. */
enum emu_agent_kind {
    EMU_AGENT_WARP,
    EMU_AGENT_CP,
    EMU_AGENT_WGMMA,
    EMU_AGENT_STORE,
    EMU_AGENT_STORE_READ, /* a bulk store's reads, which wait_group.read waits for alone */
    EMU_AGENTS_A_WARP
};
enum { EMU_LOAD_AGENTS = 32 };

static inline int emu_agent(const struct emu_warp *warp, enum emu_agent_kind kind)
{
    return (int)((warp->cta->rank * (uint32_t)warp->cta->warp_count + (uint32_t)warp->index) * EMU_AGENTS_A_WARP +
                 (uint32_t)kind);
}

/* One more, of the whole cluster: the launch ahead of a dependent one. Who comes after a griddepcontrol.wait knows it.
 */
static inline int emu_agent_ahead(const struct emu_clocks *clocks)
{
    return clocks->agents - 1;
}

/* ---- Records: who accessed ---- */

/* An access that a cell remembers. */
struct emu_record {
    const struct emu_instr *instr;
    uint32_t epoch;
    uint16_t agent;
    int16_t warp; /* index in its block; with rank: whose it was */
    uint8_t rank;
    bool async_proxy, cp_async, atomic, mbarrier_init;
    uint32_t lane_epoch; /* of its warp */
};

/* A set of readers, none ordered before another: entries [first, first + count) of the pool. */
struct emu_read_set {
    uint32_t first, count;
};

struct emu_records {
    struct emu_record *records; /* 0: none */
    uint32_t record_count, record_capacity;
    struct emu_read_set *sets; /* 0: empty */
    uint32_t set_count, set_capacity;
    uint32_t *pool; /* record numbers */
    uint32_t pool_count, pool_capacity;
    struct emu_cell *split; /* groups of four byte cells */
    uint32_t split_count, split_capacity;
};

/* Four bytes of shared memory. write: record << 5 | lane, or EMU_SPLIT | group when bytes differ. */
struct emu_cell {
    uint32_t write;
    uint32_t reads;
    uint32_t reader; /* lane of the last read; EMU_LANES: several */
};
#define EMU_SPLIT 0x80000000u

/* ---- Barriers ---- */

struct emu_mbarrier {
    uint32_t offset; /* in the block's window; 0: free */
    uint32_t expected;
    int32_t pending;
    int64_t tx;
    uint32_t phase;
    int load_agent;               /* of the copies that complete on it; -1: none yet */
    struct emu_clocks *arriving;  /* what who arrives in this phase knows */
    struct emu_clocks *completed; /* … of the phase before */
    const struct emu_instr *init;
    const struct emu_instr *load; /* newest copy that completed on it; NULL: none */
    uint32_t load_phase;          /* … in which phase */
    uint32_t seen;                /* phases that a wait has seen complete */
};

struct emu_named_barrier {
    uint32_t expected; /* threads; 0: not in use */
    uint32_t arrived;
    uint32_t trues, falses; /* threads whose bar.red predicate is */
    bool is_red;
    uint32_t here[EMU_MAX_WARPS];         /* lanes of each warp that have arrived; all, by an aligned instruction */
    uint32_t epoch[EMU_MAX_WARPS];        /* of each warp when it arrived, in this phase; 0: it has not */
    uint32_t epoch_before[EMU_MAX_WARPS]; /* … in the phase before */
    struct emu_clocks *arriving;
    const struct emu_instr *instr; /* of the first that came */
};

struct emu_cta_sync {
    struct emu_named_barrier named[EMU_NAMED_BARRIERS];
    struct emu_mbarrier *mbarriers;
    uint32_t mbarrier_count, mbarrier_capacity;
    uint32_t mbarrier_low, mbarrier_end;   /* offsets between which all mbarriers have been */
    int load_agents;                       /* given out */
    uint32_t load_epochs[EMU_LOAD_AGENTS]; /* copies issued */
    uint32_t exited_warps;
    uint32_t register_pool; /* for setmaxnreg, a thread's registers times warps */
};

enum { EMU_KNOWN_LINES = 64 };

struct emu_cluster_sync {
    struct emu_records records;
    struct emu_clocks *arriving, *completed;             /* barrier.cluster */
    struct emu_clocks *arriving_inits, *completed_inits; /* … what only fence.mbarrier_init has released: v alone */
    uint32_t arrived, phase;
    uint64_t events;      /* anything that may let a blocked group go on */
    uint64_t idle_yields; /* yields since the last event */
    int agents;
    int findings, distinct; /* the latter: as their lines tell them apart */
    const struct emu_instr *known_lines[2 * EMU_KNOWN_LINES];
    uint8_t known_kinds[EMU_KNOWN_LINES];
    bool fault; /* the launch ends */
    enum emu_finding_kind fault_kind;
    uint64_t number;               /* of the cluster in the grid */
    struct emu_known *known;       /* other clusters' releases: race_global.c */
    uint32_t release;              /* this cluster's own count */
    struct emu_released *released; /* within the cluster, by address: race_global.c */
    struct emu_clocks
        *ended[EMU_MAX_CLUSTER]; /* what a block knew when it ended: who touches its memory later is late */
};

/* ---- Warps ---- */

enum { EMU_QUEUES = 4 }; /* cp.async, wgmma, loads, stores (and remote) */

enum { EMU_GROUP_RING = 32 };

struct emu_queue {
    struct emu_async *head, **tail;
    uint32_t issued;                               /* epoch of the newest op */
    uint32_t group_end[EMU_GROUP_RING][EMU_LANES]; /* newest op of each of a lane's newest groups */
    uint32_t open_group[EMU_LANES];                /* number of the group that a lane is filling, from 1 */
};

enum { EMU_PENDING_ACQUIRES = 64 };

/* Where a lane stands at a barrier that it waits for. */
enum emu_lane_state { EMU_LANE_FREE, EMU_LANE_WAITING, EMU_LANE_RELEASED };

struct emu_warp_sync {
    struct emu_clocks *now;
    struct emu_clocks *fenced;      /* at the last fence that releases: what a relaxed arrival brings along; or NULL */
    struct emu_clocks *known_inits; /* v: newest mbarrier.init of others that fence.mbarrier_init released; or NULL */
    uint32_t fenced_inits;          /* newest epoch of its own that fence.mbarrier_init covers */
    uint32_t epoch;                 /* now->v of its own agent */
    bool has_issued;                /* in this epoch: what the warp does next is not before what it has issued */
    struct emu_queue queues[EMU_QUEUES];
    uint32_t last_record; /* of the access below */
    struct emu_access last_access;
    uint8_t barrier_state[EMU_LANES]; /* named barriers: enum emu_lane_state */
    uint8_t barrier_number[EMU_LANES];
    uint32_t cluster_waits_for[EMU_LANES]; /* phase */
    uint32_t *in_flight_group;             /* [row32_count] wgmma group that uses the row; 0: none */
    uint32_t in_flight;                    /* rows */
    uint32_t wgmma_retired;                /* newest group that a wait has seen */
    uint64_t *touched;                     /* bit a row32: accessed since the last wgmma.fence */
    uint32_t setmaxnreg_count;
    uint32_t setmaxnreg_last;
    uint32_t lane_epoch;                                /* counts what orders the warp's lanes among each other */
    uint32_t red_true[EMU_LANES], red_false[EMU_LANES]; /* threads that the lane's last bar.red counted */
    uint32_t store_group[EMU_LANES];      /* of the newest bulk store that the lane has not waited for; 0: none */
    const struct emu_instr *newest_store; /* of those */
    uint32_t grid_waited;                 /* lanes that come after a griddepcontrol.wait, of their own or another's */
    uint64_t parted_for;                  /* instructions since the warp's lanes were last together */
    uint32_t warp_sync_done;              /* lanes whose bar.warp.sync another group has completed */
    bool time_is_up;                      /* the next try_wait that would block returns false */
    struct emu_clocks *fence_clocks;      /* at the last fence that releases; NULL: none */
    uint32_t fence_release;               /* … the cluster's count of releases then */
    uint32_t pending_acquire_count;       /* relaxed reads that a later fence makes acquires */
    uint64_t pending_acquires[EMU_PENDING_ACQUIRES];
};

/* ---- Between the engine's files ---- */

/* Adds a finding; ends the launch when there are too many. */
void emu_found(struct emu_cluster *cluster, const struct emu_finding *finding);

/* Something happened that blocked groups of this kind may wait for. */
void emu_wake(struct emu_cluster *cluster, enum emu_wait_kind kind);

/* An arrival of this warp at something: shares what it knows and starts a new epoch. */
void emu_warp_release(struct emu_warp *warp, struct emu_clocks **to);
/* What the warp does from now on is a new epoch. */
void emu_warp_new_epoch(struct emu_warp *warp);
/* fence.proxy.async of this warp; what it does next is a new epoch, which the fence does not cover. */
void emu_warp_fence(struct emu_warp *warp);
/* A fence that releases, for relaxed arrivals after it; or only for the mbarrier.init before it. */
void emu_warp_fence_release(struct emu_warp *warp);
void emu_warp_fence_inits(struct emu_warp *warp);
/* The warp learns what something knows. */
void emu_warp_acquire(struct emu_warp *warp, const struct emu_clocks *from);

/* Lanes of a .sync or .aligned instruction: true when all of `wanted` that live are here. Otherwise sets warp->wait. */
bool emu_lanes_are_here(struct emu_warp *warp, uint32_t mask, uint32_t wanted);

/* sync.c */
enum emu_action emu_named_barrier_arrive(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask,
                                         uint32_t number, uint32_t threads, bool wait, uint32_t predicate);
enum emu_action emu_cluster_arrive(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask, bool release);
enum emu_action emu_cluster_wait(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask);
void emu_lanes_exit(struct emu_warp *warp, uint32_t mask); /* exited lanes count as arrived where PTX says so */
struct emu_mbarrier *emu_mbarrier_at(struct emu_warp *warp, const struct emu_access *access, int lane,
                                     enum emu_space space, uint64_t address, struct emu_cta **cta);
bool emu_mbarrier_init(struct emu_warp *warp, const struct emu_instr *instr, int lane, uint64_t address,
                       uint32_t count);
bool emu_mbarrier_inval(struct emu_warp *warp, const struct emu_instr *instr, int lane, uint64_t address);
/* An arrival of `count`; clocks: what the arriver knows, NULL for none (.relaxed). */
bool emu_mbarrier_arrive(struct emu_warp *warp, const struct emu_access *access, int lane, enum emu_space space,
                         uint64_t address, uint32_t count, bool drop, const struct emu_clocks *clocks);
/* A wait has seen the phase before the present one complete. */
void emu_mbarrier_seen(struct emu_mbarrier *mbarrier);
/* What a wait for an mbarrier waits for, and what the mbarrier lacks. */
void emu_mbarrier_text(const struct emu_cluster *cluster, const struct emu_wait *wait, char *text, size_t room);
bool emu_holds_mbarrier(const struct emu_cta *cta, uint32_t offset, uint32_t size);
/* At a block's end: bytes that are still expected or came too many, copies that nobody waited for. */
void emu_mbarriers_at_exit(struct emu_cta *cta);
bool emu_mbarrier_expect(struct emu_warp *warp, const struct emu_access *access, int lane, enum emu_space space,
                         uint64_t address, int64_t bytes);
void emu_cta_sync_free(struct emu_cta *cta);

/* async.c */
bool emu_async_apply_head(struct emu_warp *warp, int queue, bool whole, uint64_t random);
bool emu_async_pending(const struct emu_warp *warp, int queue);
void emu_async_drop(struct emu_warp *warp);
void emu_async_at_exit(struct emu_warp *warp);

/* race.c */
uint32_t emu_record_of(struct emu_cluster *cluster, const struct emu_access *access);
bool emu_record_before(const struct emu_record *record, const struct emu_access *access);
/* Reports accesses by other blocks that may have come after the block's end. */
void emu_check_ended(struct emu_cta *cta);
void emu_records_reset(struct emu_records *records);
void emu_records_free(struct emu_records *records);

/* race_global.c */
struct emu_global_shadow *emu_global_shadow_create(void);
void emu_global_shadow_destroy(struct emu_global_shadow *shadow);
void emu_known_free(struct emu_cluster *cluster);

/* schedule.c: runs a cluster to its end. */
void emu_cluster_run(struct emu_cluster *cluster);

/* cluster.c: makes and unmakes the state; reset before each use. */
bool emu_cluster_create(struct emu_cluster *cluster, struct emu_launch *launch, const struct emu_options *options,
                        struct emu_memory *memory, struct emu_report *report);
bool emu_cluster_begin(struct emu_cluster *cluster, uint64_t number);
void emu_cluster_destroy(struct emu_cluster *cluster);

/* splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t emu_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

#endif
