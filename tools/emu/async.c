/* Operations in flight: queues a warp, applied when the schedule says or when something waits for them. */
#include <stdlib.h>
#include <string.h>

#include "state.h"

/* An operation with what the engine adds. */
struct box {
    struct emu_async op; /* first */
    uint32_t group;
    uint32_t tx_left;
    int pieces_left;
};

static struct box *box_of(struct emu_async *op)
{
    return (struct box *)op;
}

enum { QUEUE_CP, QUEUE_WGMMA, QUEUE_LOAD, QUEUE_STORE };

static int queue_of(enum emu_async_kind kind)
{
    switch (kind) {
    case EMU_ASYNC_CP:
        return QUEUE_CP;
    case EMU_ASYNC_WGMMA:
        return QUEUE_WGMMA;
    case EMU_ASYNC_LOAD:
        return QUEUE_LOAD;
    default:
        return QUEUE_STORE;
    }
}

static int agent_of(const struct emu_warp *warp, enum emu_async_kind kind)
{
    static const enum emu_agent_kind kinds[] = {EMU_AGENT_CP, EMU_AGENT_WGMMA, EMU_AGENT_STORE, EMU_AGENT_STORE};
    return emu_agent(warp, kinds[queue_of(kind)]);
}

struct emu_async *emu_async_new(struct emu_warp *warp, const struct emu_instr *instr, int lane,
                                enum emu_async_kind kind)
{
    struct box *box = calloc(1, sizeof(*box));
    if (!box) {
        emu_fault(warp, instr, lane, EMU_LIMIT, "no memory for an operation in flight");
        return NULL;
    }
    box->op = (struct emu_async){.kind = kind,
                                 .warp = warp,
                                 .instr = instr,
                                 .lane = lane,
                                 .piece_count = 1,
                                 .access = {.agent = (uint16_t)agent_of(warp, kind),
                                            .async_proxy = kind != EMU_ASYNC_CP,
                                            .cp_async = kind == EMU_ASYNC_CP,
                                            .instr = instr,
                                            .warp = warp,
                                            .grid_waited = warp->sync->grid_waited}};
    box->op.lanes = lane < 0 ? EMU_ALL_LANES : 1u << lane;
    return &box->op;
}

/* Copies that complete on one mbarrier are one agent: its phase says that all of them are done. */
static void take_load_agent(struct emu_async *op)
{
    struct emu_cta *cta;
    const struct emu_access access = emu_access_of(op->warp, op->instr, true);
    struct emu_mbarrier *mbarrier = emu_mbarrier_at(op->warp, &access, op->lane, EMU_GENERIC, op->mbarrier, &cta);
    if (!mbarrier)
        return;
    const int first = cta->cluster->cta_count * cta->warp_count * EMU_AGENTS_A_WARP;
    if (mbarrier->load_agent < 0) {
        const int number = cta->sync->load_agents++ % EMU_LOAD_AGENTS;
        mbarrier->load_agent = first + (int)cta->rank * EMU_LOAD_AGENTS + number;
    }
    op->access.agent = (uint16_t)mbarrier->load_agent;
    op->access.epoch = ++cta->sync->load_epochs[(mbarrier->load_agent - first) % EMU_LOAD_AGENTS];
}

static int first_lane(uint32_t lanes)
{
    return __builtin_ctz(lanes);
}

static bool apply_whole(struct emu_warp *warp, int queue, struct emu_async *op);

/* cp.async.mbarrier.arrive: touches nothing itself, and counts as no operation of the agent. */
static bool is_arrival(const struct emu_async *op)
{
    return op->kind == EMU_ASYNC_CP && op->mbarrier != 0;
}

uint32_t emu_async_group(const struct emu_warp *warp, enum emu_async_kind kind, int lane)
{
    return warp->sync->queues[queue_of(kind)].open_group[lane];
}

void emu_async_issue(struct emu_async *op)
{
    struct box *box = box_of(op);
    struct emu_warp *warp = op->warp;
    const int number = queue_of(op->kind);
    struct emu_queue *queue = &warp->sync->queues[number];
    queue->issued += !is_arrival(op);
    op->access.epoch = queue->issued;
    if (op->kind == EMU_ASYNC_LOAD && op->mbarrier)
        take_load_agent(op);
    op->access.clocks = emu_clocks_share(warp->sync->now);
    warp->sync->has_issued = true;
    box->group = queue->open_group[first_lane(op->lanes)];
    if (op->kind == EMU_ASYNC_STORE) {
        warp->sync->store_group[first_lane(op->lanes)] = box->group;
        warp->sync->newest_store = op->instr;
    }
    box->tx_left = op->tx_bytes;
    box->pieces_left = op->piece_count;
    op->pieces_done = op->piece_count > 1 ? calloc((size_t)op->piece_count, 1) : NULL; /* without: all at once */
    *queue->tail = op;
    queue->tail = &op->next;
    if (number == QUEUE_WGMMA)
        emu_wake(warp->cta->cluster, EMU_WAIT_WGMMA); /* the other warps of its warpgroup */
    if (warp->cta->options->schedule == EMU_EAGER)
        apply_whole(warp, number, op);
}

static void unlink_op(struct emu_queue *queue, struct emu_async *op)
{
    struct emu_async **at = &queue->head;
    while (*at != op)
        at = &(*at)->next;
    *at = op->next;
    if (!op->next)
        queue->tail = at;
}

static void free_op(struct emu_async *op)
{
    emu_clocks_release(op->access.clocks);
    free(op->pieces_done);
    free(op->extra);
    free(box_of(op));
}

void emu_async_discard(struct emu_async *op)
{
    free_op(op);
}

/* complete_tx on the op's mbarrier, or on that of every block of a multicast at the same offset. */
static bool complete(struct emu_async *op, uint32_t bytes)
{
    if (op->multicast == 0)
        return emu_mbarrier_complete(op->warp, &op->access, op->mbarrier, bytes);
    const uint64_t offset = op->mbarrier & ((1u << EMU_RANK_SHIFT) - 1);
    for (uint32_t rank = 0; rank < EMU_MAX_CLUSTER; rank++)
        if (op->multicast >> rank & 1 &&
            !emu_mbarrier_complete(op->warp, &op->access,
                                   emu_shared_window() + ((uint64_t)rank << EMU_RANK_SHIFT) + offset, bytes))
            return false;
    return true;
}

static bool apply_piece(struct emu_async *op, int piece)
{
    struct box *box = box_of(op);
    if (!op->apply(op, piece))
        return false;
    if (op->pieces_done)
        op->pieces_done[piece] = 1;
    box->pieces_left--;
    if (!op->mbarrier || op->tx_bytes == 0)
        return true;
    const uint32_t bytes = box->pieces_left == 0 || op->tx_per_piece > box->tx_left ? box->tx_left : op->tx_per_piece;
    box->tx_left -= bytes;
    return bytes == 0 || complete(op, bytes);
}

static enum emu_wait_kind wait_of(int queue)
{
    static const enum emu_wait_kind kinds[] = {EMU_WAIT_CP_ASYNC, EMU_WAIT_WGMMA, EMU_WAIT_BULK, EMU_WAIT_BULK};
    return kinds[queue];
}

static void finish(struct emu_warp *warp, int queue, struct emu_async *op)
{
    unlink_op(&warp->sync->queues[queue], op);
    emu_wake(warp->cta->cluster, wait_of(queue));
    free_op(op);
}

/* All that is left of an op, in order. */
static bool apply_whole(struct emu_warp *warp, int queue, struct emu_async *op)
{
    bool fine = true;
    for (int piece = 0; fine && piece < op->piece_count; piece++)
        if (!op->pieces_done || !op->pieces_done[piece])
            fine = apply_piece(op, piece);
    finish(warp, queue, op);
    return fine;
}

bool emu_async_pending(const struct emu_warp *warp, int queue)
{
    return warp->sync->queues[queue].head != NULL;
}

/* An arrival on behalf of earlier copies of the same queue (cp.async.mbarrier.arrive) comes after them. */
static bool may_go_first(const struct emu_warp *warp, int queue, const struct emu_async *op)
{
    return !is_arrival(op) || warp->sync->queues[queue].head == op;
}

/* wgmma in order; of the rest any. */
static struct emu_async *pick(struct emu_warp *warp, int queue, uint64_t random)
{
    struct emu_async *head = warp->sync->queues[queue].head, *op = head;
    if (queue == QUEUE_WGMMA || random == 0)
        return head;
    for (uint64_t steps = random % 8; steps > 0 && op->next; steps--)
        op = op->next;
    return may_go_first(warp, queue, op) ? op : head;
}

bool emu_async_apply_head(struct emu_warp *warp, int queue, bool whole, uint64_t random)
{
    struct emu_async *op = pick(warp, queue, random);
    if (whole || !op->pieces_done)
        return apply_whole(warp, queue, op);
    int piece = (int)(random >> 8) % op->piece_count;
    if (piece < 0)
        piece = -piece;
    while (op->pieces_done[piece])
        piece = (piece + 1) % op->piece_count;
    const bool fine = apply_piece(op, piece);
    if (!fine || box_of(op)->pieces_left == 0)
        finish(warp, queue, op);
    return fine;
}

void emu_async_commit(struct emu_warp *warp, enum emu_async_kind kind, uint32_t mask)
{
    struct emu_queue *queue = &warp->sync->queues[queue_of(kind)];
    for (int lane = 0; lane < EMU_LANES; lane++)
        if (mask >> lane & 1)
            queue->group_end[queue->open_group[lane]++ % EMU_GROUP_RING][lane] = queue->issued;
}

/* Rows of groups up to `group` are the warp's own again. */
static void retire_rows(struct emu_warp *warp, uint32_t group)
{
    struct emu_warp_sync *sync = warp->sync;
    const uint32_t rows = warp->cta->launch->kernel->row32_count;
    for (uint32_t row = 0; sync->in_flight > 0 && row < rows; row++)
        if (sync->in_flight_group[row] != 0 && sync->in_flight_group[row] <= group) {
            sync->in_flight_group[row] = 0;
            sync->in_flight--;
        }
    if (group > sync->wgmma_retired)
        sync->wgmma_retired = group;
}

/* The newest group that must be done; 0: none. */
static uint32_t required_group(const struct emu_queue *queue, uint32_t mask, uint64_t pending)
{
    const uint32_t open = queue->open_group[first_lane(mask)];
    if (pending == UINT64_MAX) /* wait_all: what is not committed too */
        return open;
    return open - 1 > pending ? (uint32_t)(open - 1 - pending) : 0;
}

/* Notes which lanes have waited for all their bulk stores. */
static void waited_for_stores(struct emu_warp *warp, uint32_t mask, uint64_t pending)
{
    const struct emu_queue *queue = &warp->sync->queues[QUEUE_STORE];
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const int lane = first_lane(left);
        if (warp->sync->store_group[lane] <= required_group(queue, left, pending))
            warp->sync->store_group[lane] = 0;
    }
}

/* The newest op of a lane's group; 0 when there is none, or it is so long ago that earlier waits have seen it. */
static uint32_t end_of_group(const struct emu_queue *queue, uint32_t mask, uint32_t group, uint64_t pending)
{
    const int lane = first_lane(mask);
    if (pending == UINT64_MAX)
        return queue->issued;
    if (group == 0 || queue->open_group[lane] - group > EMU_GROUP_RING)
        return 0;
    return queue->group_end[group % EMU_GROUP_RING][lane];
}

/* ---- A warpgroup's matrix operations. One for its four warps, which each issue their part (ISA 9.7.15). A group is
 * the warpgroup's (9.7.15.7.2), so it may be complete for one warp only when all four have done their part: published
 * kernels rely on that, one thread of a warpgroup telling others that shared memory has been read. The strict reading,
 * "initiated by the executing warp", is a check. ---- */

enum { WARPGROUP = 4 };

/* Warp i of this warp's warpgroup; NULL: itself, or none. */
static struct emu_warp *sibling(const struct emu_warp *warp, int i)
{
    const int index = warp->index / WARPGROUP * WARPGROUP + i;
    return index == warp->index || index >= warp->cta->warp_count ? NULL : &warp->cta->warps[index];
}

static bool siblings_issued(struct emu_warp *warp, uint32_t newest, uint64_t pending)
{
    for (int i = 0; i < WARPGROUP; i++) {
        const struct emu_warp *other = sibling(warp, i);
        if (other && other->live != 0 && other->sync->queues[QUEUE_WGMMA].issued < newest) {
            warp->wait = (struct emu_wait){EMU_WAIT_WGMMA, pending, 0, EMU_ALL_LANES};
            return false;
        }
    }
    return true;
}

/* The siblings' parts of what this warp has waited for. */
static void complete_siblings(struct emu_warp *warp, uint32_t newest)
{
    for (int i = 0; i < WARPGROUP; i++) {
        struct emu_warp *other = sibling(warp, i);
        if (!other)
            continue;
        const struct emu_queue *queue = &other->sync->queues[QUEUE_WGMMA];
        bool fine = true;
        while (fine && queue->head && queue->head->access.epoch <= newest)
            fine = apply_whole(other, QUEUE_WGMMA, queue->head);
        emu_clocks_learn(&warp->sync->now, agent_of(other, EMU_ASYNC_WGMMA), newest, true);
    }
}

/* Waiting makes an op happen now, if it has not: nothing else could come between for this warp. */
static bool apply_groups(struct emu_warp *warp, int number, uint32_t mask, uint32_t group)
{
    bool again = true, fine = true;
    while (again && fine) {
        again = false;
        for (struct emu_async *op = warp->sync->queues[number].head; op && !again; op = op->next)
            if (box_of(op)->group <= group && (op->lanes & mask) && !is_arrival(op)) {
                fine = apply_whole(warp, number, op);
                again = true;
            }
    }
    return fine;
}

/* The warp then knows of the groups that it waited for, however early others have happened. (Copies by lanes that have
 * parted may be counted in: that hides a fault at most.) */
bool emu_async_wait(struct emu_warp *warp, enum emu_async_kind kind, uint32_t mask, uint64_t pending, bool reads_only)
{
    const int number = queue_of(kind);
    const uint32_t group = required_group(&warp->sync->queues[number], mask, pending);
    const uint32_t end = end_of_group(&warp->sync->queues[number], mask, group, pending);
    const bool together = number == QUEUE_WGMMA && !(warp->cta->options->checks & EMU_CHECK_WARPGROUP);
    if (together && !siblings_issued(warp, end, pending))
        return false;
    if (!apply_groups(warp, number, mask, group))
        return true; /* the launch ends */
    if (number == QUEUE_WGMMA)
        retire_rows(warp, group);
    if (together)
        complete_siblings(warp, end);
    if (number == QUEUE_STORE) {
        waited_for_stores(warp, mask, pending);
        emu_clocks_learn(&warp->sync->now, emu_agent(warp, EMU_AGENT_STORE_READ), end, true);
    }
    const bool visible = kind != EMU_ASYNC_CP || !(warp->cta->options->checks & EMU_CHECK_PROXY_CP_ASYNC);
    if (!reads_only)
        emu_clocks_learn(&warp->sync->now, agent_of(warp, kind), end, visible);
    return true;
}

void emu_async_drop(struct emu_warp *warp)
{
    for (int number = 0; number < EMU_QUEUES; number++) {
        struct emu_queue *queue = &warp->sync->queues[number];
        while (queue->head) {
            struct emu_async *op = queue->head;
            queue->head = op->next;
            free_op(op);
        }
        queue->tail = &queue->head;
    }
}

/* ---- wgmma's registers: PTX ISA 9.7.15.7.1 ---- */

static bool was_touched(const struct emu_warp_sync *sync, int32_t row)
{
    return sync->touched[row / 64] >> (row % 64) & 1;
}

void emu_wgmma_rows(struct emu_warp *warp, const struct emu_instr *instr, const int32_t *rows, int count)
{
    struct emu_warp_sync *sync = warp->sync;
    if (!(warp->cta->options->checks & EMU_CHECK_WGMMA))
        return;
    bool reported = false;
    for (int i = 0; i < count; i++) {
        if (!reported && was_touched(sync, rows[i])) {
            emu_find(
                warp, instr, -1, EMU_MISSING_WGMMA_FENCE,
                "a register of this wgmma was accessed after the last wgmma.fence: wgmma.fence is missing before it");
            reported = true;
        }
        if (sync->in_flight_group[rows[i]] == 0)
            sync->in_flight++;
        sync->in_flight_group[rows[i]] = sync->queues[QUEUE_WGMMA].open_group[0];
    }
}

/* wgmma.fence orders all register accesses before it and the wgmma after it. */
void emu_wgmma_fence(struct emu_warp *warp)
{
    memset(warp->sync->touched, 0, (warp->cta->launch->kernel->row32_count + 63) / 64 * sizeof(*warp->sync->touched));
}

/* ---- The end ---- */

/* What is still on its way into shared memory, of this block or a peer, reaches memory that is gone. */
static void find_arriving(struct emu_warp *warp)
{
    for (int queue = QUEUE_LOAD; queue <= QUEUE_STORE; queue++)
        for (const struct emu_async *op = warp->sync->queues[queue].head; op; op = op->next)
            if (op->kind != EMU_ASYNC_STORE) {
                emu_find(warp, op->instr, -1, EMU_BARRIER_MISUSE,
                         "the block has ended and nothing waited for this copy: a wait is missing before the end");
                break;
            }
}

/* A bulk store may read shared memory that is gone, in whatever order it lands here. PTX does not say that the block's
 * end waits for it; published kernels rely on that, so it can be switched off (facts/emulation.md 6.2). */
static void find_leaving(struct emu_warp *warp)
{
    if (!(warp->cta->options->checks & EMU_CHECK_EXIT))
        return;
    for (int lane = 0; lane < EMU_LANES; lane++)
        if (warp->sync->store_group[lane] != 0) {
            emu_find(warp, warp->sync->newest_store, lane, EMU_BARRIER_MISUSE,
                     "the block has ended and nothing waited for this copy: cp.async.bulk.wait_group is missing before "
                     "the end");
            return;
        }
}

void emu_async_at_exit(struct emu_warp *warp)
{
    find_arriving(warp);
    find_leaving(warp);
    for (int queue = 0; queue < EMU_QUEUES; queue++)
        while (warp->sync->queues[queue].head && !warp->cta->cluster->sync->fault)
            if (!emu_async_apply_head(warp, queue, true, 0))
                break;
}
