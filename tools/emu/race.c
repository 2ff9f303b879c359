/* The shadow of shared memory: races, missing proxy fences. */
#include "race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

/* ---- Records ---- */

struct emu_access emu_access_of(struct emu_warp *warp, const struct emu_instr *instr, bool atomic)
{
    if (warp->sync->has_issued)
        emu_warp_new_epoch(warp);
    return (struct emu_access){.agent = (uint16_t)emu_agent(warp, EMU_AGENT_WARP),
                               .atomic = atomic,
                               .instr = instr,
                               .warp = warp,
                               .grid_waited = warp->sync->grid_waited,
                               .epoch = warp->sync->epoch,
                               .clocks = warp->sync->now};
}

static bool grow(void **array, uint32_t *capacity, uint32_t needed, size_t size)
{
    if (needed <= *capacity)
        return true;
    uint32_t more = *capacity ? 2 * *capacity : 1024;
    while (more < needed)
        more *= 2;
    void *moved = realloc(*array, more * size);
    if (!moved)
        return false;
    *array = moved;
    *capacity = more;
    return true;
}

#define GROW(array, capacity, needed) grow((void **)&(array), &(capacity), (needed), sizeof(*(array)))

static bool same_access(const struct emu_access *a, const struct emu_access *b)
{
    return a->instr == b->instr && a->agent == b->agent && a->epoch == b->epoch && a->atomic == b->atomic;
}

/* Lanes of one warp: ordered by .sync instructions and waits alone (CUDA guide, "Independent thread scheduling"). */
static bool is_warp_agent(const struct emu_cluster *cluster, uint16_t agent)
{
    const int warps = cluster->cta_count * cluster->ctas[0].warp_count;
    return agent < warps * EMU_AGENTS_A_WARP && agent % EMU_AGENTS_A_WARP == EMU_AGENT_WARP;
}

uint32_t emu_record_of(struct emu_cluster *cluster, const struct emu_access *access)
{
    struct emu_records *all = &cluster->sync->records;
    struct emu_warp_sync *sync = access->warp->sync;
    if (sync->last_record != 0 && same_access(&sync->last_access, access) &&
        all->records[sync->last_record].lane_epoch == sync->lane_epoch)
        return sync->last_record;
    if (!GROW(all->records, all->record_capacity, all->record_count + 2))
        return 0;
    if (all->record_count == 0)
        all->records[all->record_count++] = (struct emu_record){0}; /* 0: none */
    all->records[all->record_count] = (struct emu_record){.instr = access->instr,
                                                          .epoch = access->epoch,
                                                          .agent = access->agent,
                                                          .warp = (int16_t)access->warp->index,
                                                          .rank = (uint8_t)access->warp->cta->rank,
                                                          .async_proxy = access->async_proxy,
                                                          .cp_async = access->cp_async,
                                                          .atomic = access->atomic,
                                                          .mbarrier_init = access->mbarrier_init,
                                                          .lane_epoch = sync->lane_epoch};
    sync->last_access = *access;
    sync->last_record = all->record_count;
    return all->record_count++;
}

static int warp_agents(const struct emu_cluster *cluster)
{
    return cluster->cta_count * cluster->ctas[0].warp_count * EMU_AGENTS_A_WARP;
}

/* A warp's own instructions, and one warp's wgmmas, are in program order. */
static bool in_order(const struct emu_record *record, const struct emu_access *access)
{
    if (record->agent != access->agent || record->agent >= warp_agents(access->warp->cta->cluster))
        return false;
    const int kind = record->agent % EMU_AGENTS_A_WARP;
    return kind == EMU_AGENT_WARP || kind == EMU_AGENT_WGMMA;
}

/* By fence.mbarrier_init, which orders nothing else. */
static bool is_known_init(const struct emu_record *record, const struct emu_access *access)
{
    const struct emu_clocks *known = access->warp->sync->known_inits;
    return record->mbarrier_init && known && record->epoch <= known->v[record->agent];
}

bool emu_record_before(const struct emu_record *record, const struct emu_access *access)
{
    return in_order(record, access) || record->epoch <= access->clocks->v[record->agent] ||
           is_known_init(record, access);
}

/* A generic write and an asynchronous read (or write): is there a proxy fence between? */
static bool fenced(const struct emu_record *record, const struct emu_access *access, uint32_t checks)
{
    if (record->async_proxy || !access->async_proxy || !(checks & EMU_CHECK_PROXY))
        return true;
    if (record->cp_async && !(checks & EMU_CHECK_PROXY_CP_ASYNC))
        return true;
    return record->epoch <= emu_clocks_av(access->clocks)[record->agent];
}

/* ---- Read sets ---- */

static bool add_set(struct emu_records *all, const uint32_t *members, uint32_t count, uint32_t *out)
{
    if (!GROW(all->sets, all->set_capacity, all->set_count + 2) ||
        !GROW(all->pool, all->pool_capacity, all->pool_count + count))
        return false;
    if (all->set_count == 0)
        all->sets[all->set_count++] = (struct emu_read_set){0, 0}; /* 0: empty */
    memcpy(all->pool + all->pool_count, members, count * sizeof(*members));
    all->sets[all->set_count] = (struct emu_read_set){all->pool_count, count};
    all->pool_count += count;
    *out = all->set_count++;
    return true;
}

enum { MAX_READERS = 256 };

/* The set with one more reader; readers that happened before it need not be remembered. */
static uint32_t with_reader(struct emu_records *all, uint32_t set, uint32_t record, const struct emu_access *access)
{
    uint32_t members[MAX_READERS], count = 0, made = 0;
    if (set != 0)
        for (uint32_t i = 0; i < all->sets[set].count && count < MAX_READERS - 1; i++) {
            const uint32_t member = all->pool[all->sets[set].first + i];
            if (member == record)
                return set;
            if (!emu_record_before(&all->records[member], access))
                members[count++] = member;
        }
    members[count++] = record;
    return add_set(all, members, count, &made) ? made : 0;
}

/* ---- Findings ---- */

/* An operation that was not waited for may land on either side of the other access. */
static void describe_missing(char text[256], const struct emu_record *before, const struct emu_access *access)
{
    if (before->cp_async || access->cp_async)
        snprintf(text, 256,
                 "the copy is not waited for: cp.async.wait_group or an mbarrier that tracks it, then a "
                 "barrier between the warps");
    else if (before->async_proxy || access->async_proxy)
        snprintf(text, 256,
                 "the operation is not waited for: wgmma.wait_group, a bulk wait_group or its mbarrier, then "
                 "a barrier between the warps");
    else if (before->agent == access->agent)
        snprintf(text, 256, "one warp's operations in flight touch the same bytes");
    else
        snprintf(text, 256, "no barrier orders the two");
}

static const char *verb(bool write, const struct emu_record *record)
{
    if (record->cp_async)
        return "cp.async write";
    if (record->async_proxy)
        return write ? "asynchronous write" : "asynchronous read";
    return write ? "write" : "read";
}

static struct emu_site site_of(const struct emu_cluster *cluster, const struct emu_record *record, int lane)
{
    const struct emu_cta *cta = &cluster->ctas[record->rank];
    return (struct emu_site){.instr = record->instr,
                             .ctaid = {cta->ctaid[0], cta->ctaid[1], cta->ctaid[2]},
                             .warp = record->warp,
                             .lane = lane};
}

struct conflict {
    struct emu_cta *cta;
    const struct emu_access *access;
    int lane;
    uint32_t offset;
    bool write; /* the present access */
};

static void report(const struct conflict *conflict, enum emu_finding_kind kind, const struct emu_record *before,
                   int before_lane, bool before_writes, const char *missing)
{
    struct emu_cluster *cluster = conflict->cta->cluster;
    struct emu_records *all = &cluster->sync->records;
    const struct emu_record *now = &all->records[emu_record_of(cluster, conflict->access)];
    struct emu_finding finding = {.kind = kind,
                                  .kernel = cluster->launch->kernel,
                                  .first = site_of(cluster, before, before_lane),
                                  .second = site_of(cluster, now, conflict->lane),
                                  .has_address = true,
                                  .address = conflict->offset};
    snprintf(finding.what, sizeof(finding.what), "shared memory, offset %u (%u behind the system's part)",
             conflict->offset, conflict->offset - EMU_SHARED_RESERVED);
    snprintf(finding.message, sizeof(finding.message), "%s after %s: %s", verb(conflict->write, now),
             verb(before_writes, before), missing);
    emu_found(cluster, &finding);
}

static void report_race(const struct conflict *conflict, const struct emu_record *before, int lane, bool before_writes)
{
    char missing[256];
    describe_missing(missing, before, conflict->access);
    report(conflict, EMU_RACE, before, lane, before_writes, missing);
}

/* ---- Checks ---- */

/* Two lanes of one warp, and nothing between that orders them. (One instruction's own lanes are left alone: one of them
 * wins, as the ISA says.) */
static bool lanes_race(const struct conflict *conflict, const struct emu_record *before, uint32_t before_lane)
{
    const struct emu_access *access = conflict->access;
    return before->agent == access->agent && is_warp_agent(conflict->cta->cluster, access->agent) &&
           before->instr != access->instr && before->lane_epoch == access->warp->sync->lane_epoch &&
           before_lane != (uint32_t)conflict->lane;
}

static void report_lanes(const struct conflict *conflict, const struct emu_record *before, int lane, bool before_writes)
{
    report(conflict, EMU_RACE, before, lane, before_writes,
           "two lanes of one warp, and no bar.warp.sync (__syncwarp) orders them");
}

static bool check_write_before(const struct conflict *conflict, uint32_t write)
{
    const struct emu_records *all = &conflict->cta->cluster->sync->records;
    const struct emu_record *before = &all->records[write >> 5];
    const uint32_t checks = conflict->cta->options->checks;
    if (before->atomic && conflict->access->atomic)
        return true;
    if (!emu_record_before(before, conflict->access)) {
        report_race(conflict, before, (int)(write & 31), true);
        return false;
    }
    if (lanes_race(conflict, before, write & 31)) {
        report_lanes(conflict, before, (int)(write & 31), true);
        return false;
    }
    if (fenced(before, conflict->access, checks))
        return true;
    report(conflict, EMU_MISSING_PROXY_FENCE, before, (int)(write & 31), true,
           "fence.proxy.async is missing between them");
    return false;
}

static bool check_reads_before(const struct conflict *conflict, uint32_t set, uint32_t reader)
{
    const struct emu_records *all = &conflict->cta->cluster->sync->records;
    for (uint32_t i = 0; i < all->sets[set].count; i++) {
        const struct emu_record *before = &all->records[all->pool[all->sets[set].first + i]];
        if (before->atomic && conflict->access->atomic)
            continue;
        if (!emu_record_before(before, conflict->access)) {
            report_race(conflict, before, -1, false);
            return false;
        }
        if (lanes_race(conflict, before, reader)) {
            report_lanes(conflict, before, reader < EMU_LANES ? (int)reader : -1, false);
            return false;
        }
        if (!before->async_proxy && conflict->access->async_proxy &&
            (conflict->cta->options->checks & EMU_CHECK_PROXY_WAR) &&
            before->epoch > emu_clocks_av(conflict->access->clocks)[before->agent]) {
            report(conflict, EMU_MISSING_PROXY_FENCE, before, -1, false, "fence.proxy.async is missing between them");
            return false;
        }
    }
    return true;
}

/* What was worked out for the last cell: neighbours are mostly alike. */
struct memo {
    uint32_t record;
    uint32_t write_fine; /* cell.write that was found in order */
    uint32_t reads_fine;
    uint32_t set_from, set_to;
    bool has_set;
    bool by_warp; /* lanes matter: nothing is remembered of what was in order */
};

static void touch_cell(struct conflict *conflict, struct emu_cell *cell, int touch, struct memo *memo)
{
    struct emu_records *all = &conflict->cta->cluster->sync->records;
    if (cell->write != 0 && (memo->by_warp || cell->write != memo->write_fine) &&
        check_write_before(conflict, cell->write))
        memo->write_fine = cell->write;
    if (touch & EMU_WRITE) {
        if (cell->reads != 0 && (memo->by_warp || cell->reads != memo->reads_fine) &&
            check_reads_before(conflict, cell->reads, cell->reader))
            memo->reads_fine = cell->reads;
        cell->write = memo->record << 5 | (uint32_t)(conflict->lane & 31);
        cell->reads = 0;
        return;
    }
    if (!memo->has_set || memo->set_from != cell->reads) {
        memo->set_from = cell->reads;
        memo->set_to = with_reader(all, cell->reads, memo->record, conflict->access);
        memo->has_set = true;
    }
    const bool again = cell->reads == memo->set_to; /* this record has read it already */
    cell->reader = again && cell->reader != (uint32_t)conflict->lane ? EMU_LANES : (uint32_t)conflict->lane;
    cell->reads = memo->set_to;
}

/* ---- Cells whose bytes differ ---- */

static struct emu_cell *split_cells(struct emu_records *all, struct emu_cell *cell)
{
    if (cell->write & EMU_SPLIT)
        return all->split + 4 * (cell->write & ~EMU_SPLIT);
    if (!GROW(all->split, all->split_capacity, 4 * (all->split_count + 1)))
        return NULL;
    struct emu_cell *bytes = all->split + 4 * all->split_count;
    for (int i = 0; i < 4; i++)
        bytes[i] = *cell;
    cell->write = EMU_SPLIT | all->split_count++;
    cell->reads = 0;
    return bytes;
}

static void touch_bytes(struct conflict *conflict, struct emu_cell *cell, uint32_t first, uint32_t end, int touch,
                        struct memo *memo)
{
    struct emu_cell *bytes = split_cells(&conflict->cta->cluster->sync->records, cell);
    for (uint32_t i = first; bytes && i < end; i++)
        touch_cell(conflict, &bytes[i], touch, memo);
}

static bool is_whole(uint32_t first, uint32_t end)
{
    return first == 0 && end == EMU_CELL_BYTES;
}

/* An mbarrier's bytes are touched by mbarrier instructions alone until mbarrier.inval (ISA 9.7.13.15.1). */
static void check_overwritten(struct emu_cta *cta, const struct emu_access *access, int lane, uint32_t offset,
                              uint32_t size)
{
    if ((cta->options->checks & EMU_CHECK_BARRIERS) && emu_holds_mbarrier(cta, offset, size))
        emu_find(access->warp, access->instr, lane, EMU_BARRIER_MISUSE,
                 "shared memory at offset %u, %u bytes, holds an mbarrier and is written as data: mbarrier.inval is "
                 "missing before this",
                 offset, size);
}

/* ---- A block's end: other blocks of the cluster must be done with its shared memory ---- */

static void check_late(struct emu_cta *cta, uint32_t number, uint32_t offset)
{
    struct emu_cluster *cluster = cta->cluster;
    const struct emu_record *record = &cluster->sync->records.records[number];
    const struct emu_clocks *ended = cluster->sync->ended[cta->rank];
    if (number == 0 || record->rank == cta->rank || !ended || record->epoch <= ended->v[record->agent])
        return;
    struct emu_finding finding = {.kind = EMU_RACE,
                                  .kernel = cluster->launch->kernel,
                                  .second = site_of(cluster, record, -1),
                                  .has_address = true,
                                  .address = offset};
    snprintf(finding.message, sizeof(finding.message),
             "shared memory of block rank %u, which may have ended: no barrier.cluster orders this access before the "
             "block's end",
             cta->rank);
    emu_found(cluster, &finding);
}

static void check_cell_late(struct emu_cta *cta, const struct emu_cell *cell, uint32_t offset)
{
    const struct emu_records *all = &cta->cluster->sync->records;
    if (cell->write & EMU_SPLIT) {
        for (uint32_t i = 0; i < 4; i++)
            check_cell_late(cta, &all->split[4 * (cell->write & ~EMU_SPLIT) + i], offset + i);
        return;
    }
    check_late(cta, cell->write >> 5, offset);
    for (uint32_t i = 0; cell->reads != 0 && i < all->sets[cell->reads].count; i++)
        check_late(cta, all->pool[all->sets[cell->reads].first + i], offset);
}

void emu_check_ended(struct emu_cta *cta)
{
    for (uint32_t i = 0; i < cta->shared.size / EMU_CELL_BYTES && !cta->cluster->sync->fault; i++)
        if (cta->shared.cells[i].write != 0 || cta->shared.cells[i].reads != 0)
            check_cell_late(cta, &cta->shared.cells[i], i * EMU_CELL_BYTES);
}

/* What a bulk store reads is done before what it writes: wait_group.read waits for the former alone. */
static struct emu_access reading_apart(const struct emu_cluster *cluster, const struct emu_access *access, int touch)
{
    struct emu_access own = *access;
    if (access->agent < warp_agents(cluster) && access->agent % EMU_AGENTS_A_WARP == EMU_AGENT_STORE &&
        touch == EMU_READ && !access->atomic)
        own.agent = (uint16_t)(access->agent + EMU_AGENT_STORE_READ - EMU_AGENT_STORE);
    return own;
}

bool emu_shadow_shared(struct emu_cta *cta, const struct emu_access *by, int lane, uint32_t offset, uint32_t size,
                       int touch)
{
    const struct emu_access own = reading_apart(cta->cluster, by, touch), *access = &own;
    struct conflict conflict = {cta, access, lane, offset, (touch & EMU_WRITE) != 0};
    struct memo memo = {.record = emu_record_of(cta->cluster, access),
                        .by_warp = is_warp_agent(cta->cluster, access->agent)};
    const uint32_t stop = offset + size;
    if ((touch & EMU_WRITE) && !access->mbarrier && offset < cta->sync->mbarrier_end && stop > cta->sync->mbarrier_low)
        check_overwritten(cta, access, lane, offset, size);
    for (uint32_t at = offset; at < stop;) {
        const uint32_t base = at & ~(uint32_t)(EMU_CELL_BYTES - 1);
        const uint32_t end = stop - base < EMU_CELL_BYTES ? stop - base : EMU_CELL_BYTES;
        struct emu_cell *cell = &cta->shared.cells[base / EMU_CELL_BYTES];
        conflict.offset = at;
        if (access->lane_bytes)
            conflict.lane = lane + (int)((at - offset) / access->lane_bytes);
        if (is_whole(at - base, end) && !(cell->write & EMU_SPLIT))
            touch_cell(&conflict, cell, touch, &memo);
        else
            touch_bytes(&conflict, cell, at - base, end, touch, &memo);
        at = base + end;
    }
    return !cta->cluster->sync->fault;
}

void emu_records_reset(struct emu_records *records)
{
    records->record_count = records->set_count = records->pool_count = records->split_count = 0;
}

void emu_records_free(struct emu_records *records)
{
    free(records->records);
    free(records->sets);
    free(records->pool);
    free(records->split);
    memset(records, 0, sizeof(*records));
}
