/* The engine's state: clusters, blocks, warps, groups of lanes; and what instruction files need of it. */
#ifndef EMU_ENGINE_H
#define EMU_ENGINE_H

#include "memory.h"
#include "program.h"
#include "report.h"

enum {
    EMU_MAX_WARPS = 32, /* a block */
    EMU_NAMED_BARRIERS = 16,
    EMU_MAX_CLUSTER = 16,
    EMU_SHARED_RESERVED = 1024, /* system's part at the start of the window on sm_90: variables begin behind it */
    EMU_RANK_SHIFT = 24         /* of a shared::cluster address (facts/emulation.md 2.2) */
};

/* ---- Launch ---- */

enum emu_schedule { EMU_EAGER, EMU_LAZY, EMU_RANDOM, EMU_STARVE, EMU_PCT };

enum emu_checks {
    EMU_CHECK_RACES = 1u << 0,          /* shared and global memory, happens-before */
    EMU_CHECK_PROXY = 1u << 1,          /* generic writes read by the async proxy need a fence */
    EMU_CHECK_PROXY_CP_ASYNC = 1u << 2, /* … those of cp.async too (facts/emulation.md 6.2) */
    EMU_CHECK_PROXY_WAR = 1u << 3,      /* … and generic reads that an async write overwrites */
    EMU_CHECK_UNINITIALISED = 1u << 4,  /* registers, shared and global memory read before written */
    EMU_CHECK_WGMMA = 1u << 5,          /* accumulators in flight, wgmma.fence */
    EMU_CHECK_BARRIERS = 1u << 6,       /* over-arrival, re-initialisation, phases, unfinished barriers at exit */
    EMU_CHECK_EXIT = 1u << 7,           /* bulk copies out of shared memory that nobody waits for before the end */
    EMU_CHECK_WARPGROUP = 1u << 8,      /* a wait for a wgmma is for the warp's own part of it alone */
    EMU_CHECK_GRID = 1u << 9,           /* global memory before griddepcontrol.wait, of a dependent launch */
    EMU_CHECK_ALL = 0x3ff,
    EMU_CHECK_DEFAULT = EMU_CHECK_ALL & ~EMU_CHECK_PROXY_WAR
};

/* The order in which a matrix instruction adds up: the ISA leaves it open. */
enum emu_sum_order { EMU_SUM_FORWARD, EMU_SUM_REVERSED, EMU_SUM_DOUBLE };

struct emu_options {
    enum emu_schedule schedule;
    uint64_t seed;
    uint32_t checks; /* enum emu_checks */
    enum emu_sum_order sum_order;
    bool perturb_approx; /* ex2.approx and the like err within their bounds, by the seed */
    int threads;         /* clusters run at once on so many host threads */
    int max_findings;    /* a launch ends after so many */
};

struct emu_launch {
    const struct emu_kernel *kernel;
    const uint8_t *params; /* kernel->param_bytes */
    uint32_t grid[3], block[3], cluster[3];
    uint32_t shared_bytes; /* dynamic */
    int sm_count;
    bool dependent;          /* may start before the launch ahead of it has ended: griddepcontrol.wait waits for that */
    uint64_t instr_executed; /* out: warp instructions */
};

enum emu_result {
    EMU_OK,
    EMU_ILLEGAL_ADDRESS,
    EMU_MISALIGNED,
    EMU_ILLEGAL_INSTRUCTION,
    EMU_DEADLOCK,
    EMU_ASSERT,
    EMU_FINDINGS,
    EMU_NO_MEMORY
};

/* Runs a launch to its end. Everything wrong is in the report. */
enum emu_result emu_run(struct emu_launch *launch, const struct emu_options *options, struct emu_memory *memory,
                        struct emu_report *report);

/* ---- Warps ---- */

/* What a blocked group waits for; for the scheduler and for deadlock reports. */
enum emu_wait_kind {
    EMU_WAIT_NONE,
    EMU_WAIT_NAMED_BARRIER, /* what: barrier number */
    EMU_WAIT_CLUSTER,       /* barrier.cluster.wait */
    EMU_WAIT_MBARRIER,      /* what: shared window address, parity */
    EMU_WAIT_LANES,         /* a .sync instruction's other lanes */
    EMU_WAIT_WGMMA,         /* wait_group: what = most groups that may be pending */
    EMU_WAIT_CP_ASYNC,      /* wait_group: likewise */
    EMU_WAIT_BULK,          /* bulk wait_group: likewise */
    EMU_WAIT_REGISTERS      /* setmaxnreg.inc */
};

struct emu_wait {
    enum emu_wait_kind kind;
    uint64_t what;
    uint32_t parity;
    uint32_t mask; /* lanes that wait */
};

/* Lanes of a warp that stand at the same pc. */
struct emu_group {
    uint32_t mask;
    uint32_t pc;
    bool blocked; /* until something that it waits for happens */
    bool yielded; /* let the others go first */
    struct emu_wait wait;
};

struct emu_warp {
    struct emu_cta *cta;
    int index;        /* in the block */
    uint32_t live;    /* lanes that have not exited */
    uint32_t present; /* lanes that exist (a last warp may be partial) */
    int group_count;
    struct emu_group groups[EMU_LANES];
    struct emu_wait wait;           /* of the group that runs, when exec returned EMU_BLOCKED or EMU_YIELD */
    uint32_t *r32;                  /* [row32_count][32] */
    uint64_t *r64;                  /* [row64_count][32] */
    uint32_t *preds;                /* [pred_count] one bit a lane */
    uint32_t *def32, *def64, *defp; /* [rows] lanes that have been written */
    uint32_t carry;                 /* CC.CF, one bit a lane (add.cc and the like) */
    uint8_t *local;                 /* [32][kernel->local_bytes] */
    struct emu_warp_sync *sync;     /* clocks and queues: race.h, async.h */
    uint32_t registers;             /* a thread, as setmaxnreg left it */
    uint64_t instr_executed;
    uint64_t random; /* per-warp generator state (perturb_approx) */
};

struct emu_cta {
    struct emu_cluster *cluster;
    struct emu_launch *launch;
    const struct emu_options *options;
    uint32_t ctaid[3];
    uint32_t rank; /* in the cluster */
    int warp_count;
    struct emu_warp *warps;
    struct emu_shared shared;  /* memory.h */
    struct emu_cta_sync *sync; /* named barriers, mbarriers, agents */
};

struct emu_cluster {
    struct emu_launch *launch;
    const struct emu_options *options;
    struct emu_memory *memory;
    struct emu_report *report;
    uint32_t clusterid[3];
    int cta_count;
    struct emu_cta *ctas;
    uint64_t random; /* scheduler's generator state */
    struct emu_cluster_sync *sync;
};

/* ---- Reading and writing registers ---- */

/* The 32 values of a 16/32-bit source: its row, or `spare` filled with an immediate or special register. */
const uint32_t *emu_source32(struct emu_warp *warp, const struct emu_operand *operand, uint32_t spare[EMU_LANES]);
/* The same for 64 bits; a 32-bit register is zero-extended into spare. */
const uint64_t *emu_source64(struct emu_warp *warp, const struct emu_operand *operand, uint64_t spare[EMU_LANES]);
/* A predicate as a mask of all lanes, negation applied. */
uint32_t emu_source_pred(const struct emu_warp *warp, const struct emu_operand *operand);

static inline uint32_t *emu_row32(struct emu_warp *warp, int32_t row)
{
    return warp->r32 + (size_t)row * EMU_LANES;
}

static inline uint64_t *emu_row64(struct emu_warp *warp, int32_t row)
{
    return warp->r64 + (size_t)row * EMU_LANES;
}

/* Stores the lanes in `mask` of a result; a sink takes nothing. The engine marks rows as written, not these. */
void emu_store32(struct emu_warp *warp, const struct emu_operand *operand, const uint32_t *values, uint32_t mask);
void emu_store64(struct emu_warp *warp, const struct emu_operand *operand, const uint64_t *values, uint32_t mask);
void emu_store_pred(struct emu_warp *warp, const struct emu_operand *operand, uint32_t values, uint32_t mask);

/* A special register's value in a lane. */
uint64_t emu_special(const struct emu_warp *warp, enum emu_special special, int lane);

/* Address of an EMU_OP_ADDRESS in a lane: base + displacement, in the window or as a generic pointer. */
uint64_t emu_address(struct emu_warp *warp, const struct emu_operand *operand, int lane);

/* ---- Faults ---- */

/* Reports a fault of this instruction at a lane (-1: the warp) and returns EMU_FAULT. */
enum emu_action emu_fault(struct emu_warp *warp, const struct emu_instr *instr, int lane, enum emu_finding_kind kind,
                          const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Reports a finding that does not end the launch. */
void emu_find(struct emu_warp *warp, const struct emu_instr *instr, int lane, enum emu_finding_kind kind,
              const char *format, ...) __attribute__((format(printf, 5, 6)));

/* ---- Asynchronous operations (async.c) ---- */

/* An operation in flight. Queued by the instruction, applied by the scheduler: as soon, as late or as mixed as the
 * schedule says and the ISA allows. */
enum emu_async_kind {
    EMU_ASYNC_CP,    /* cp.async: one lane's copy; unordered between lanes */
    EMU_ASYNC_WGMMA, /* of one warp; in issue order */
    EMU_ASYNC_LOAD,  /* bulk or tensor copy into shared memory; pieces in any order, completes on an mbarrier */
    EMU_ASYNC_STORE, /* bulk or tensor copy or reduction out of shared memory; completes by bulk groups */
    EMU_ASYNC_REMOTE /* st.async, red.async: to another block, completes on its mbarrier */
};

struct emu_async {
    struct emu_async *next;
    enum emu_async_kind kind;
    struct emu_warp *warp; /* that issued it */
    const struct emu_instr *instr;
    int lane;             /* that issued it; -1: the warp */
    uint32_t lanes;       /* that wait for it: that one, or all; cp.async changes it */
    int piece_count;      /* independent parts, in any order; 1 for the rest */
    uint8_t *pieces_done; /* engine's */
    /* Carries out one piece. Race records and clocks of the op's agent are in place. False after a fault. */
    bool (*apply)(struct emu_async *op, int piece);
    struct emu_access access; /* who reads and writes: pass it to the memory functions */
    uint64_t mbarrier;        /* LOAD, REMOTE: generic shared address that gets complete_tx; 0: none */
    uint32_t tx_bytes;        /* … of the whole op */
    uint32_t tx_per_piece;    /* … completed with each piece; the last gets the rest */
    uint32_t multicast;       /* block ranks; 0: only its own */
    /* Copied by the issuing instruction; small ops use `data`, large ones `extra` (freed by the engine with free()). */
    uint64_t data[16];
    void *extra;
};

/* Allocates an operation for this warp; kind, instr and lane set, the rest zero. NULL: out of memory, reported. */
struct emu_async *emu_async_new(struct emu_warp *warp, const struct emu_instr *instr, int lane,
                                enum emu_async_kind kind);
/* Hands it to the scheduler; takes the clocks of the issuing warp at this point. */
void emu_async_issue(struct emu_async *op);
/* The number of the group that a lane's next operation of that kind joins. */
uint32_t emu_async_group(const struct emu_warp *warp, enum emu_async_kind kind, int lane);
/* Takes back an operation that was not issued. */
void emu_async_discard(struct emu_async *op);
/* Closes the warp's open group of that kind (commit_group). wgmma and bulk: of the warp; cp.async: of the lanes. */
void emu_async_commit(struct emu_warp *warp, enum emu_async_kind kind, uint32_t mask);
/* True when at most `pending` groups are left; otherwise sets warp->wait, and the instruction returns EMU_BLOCKED. */
bool emu_async_wait(struct emu_warp *warp, enum emu_async_kind kind, uint32_t mask, uint64_t pending, bool reads_only);

/* Marks accumulator rows as being in flight, or checks that they may be used by one more wgmma (emu_tensor). */
void emu_wgmma_rows(struct emu_warp *warp, const struct emu_instr *instr, const int32_t *rows, int count);
/* wgmma.fence: accesses so far come before the next wgmma's. */
void emu_wgmma_fence(struct emu_warp *warp);

#endif
