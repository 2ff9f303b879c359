/* The shadow of global memory during one launch. Blocks of a cluster are told apart as in shared memory; between
 * clusters an access is in order only when a release of the one was acquired by the other since (whole clusters, so
 * that something may be missed there, and nothing is called a race that is none). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"
#include "sync_hooks.h"

enum { PAGE_BYTES = 4096, PAGE_CELLS = PAGE_BYTES / EMU_CELL_BYTES, BUCKETS = 1 << 14, LOCKS = 64 };

/* A side of a cell: who, in which cluster, and that cluster's count of releases then. */
struct side {
    const struct emu_instr *instr;
    uint64_t cluster; /* number + 1; 0: nobody */
    uint32_t release;
    uint32_t epoch;
    uint16_t agent;
    int16_t warp;
    uint8_t rank;
    uint8_t lane;
    bool atomic, cp_async, async_proxy;
    bool others; /* a reader's side: other clusters have read too */
};

struct cell {
    struct side write, read;
};

struct page {
    struct page *next;
    uint64_t base;
    struct cell cells[PAGE_CELLS];
};

/* What was released at an address: by which cluster, at which of its counts. */
struct release {
    struct release *next;
    uint64_t address;
    uint64_t cluster;
    uint32_t count;
};

struct emu_global_shadow {
    pthread_mutex_t locks[LOCKS]; /* of pages, by bucket */
    struct page *buckets[BUCKETS];
    pthread_mutex_t release_lock;
    struct release *releases[1024];
};

/* Of another cluster, the newest release that this one has acquired. */
struct emu_known {
    struct emu_known *next;
    uint64_t cluster;
    uint32_t count;
};

struct emu_global_shadow *emu_global_shadow_create(void)
{
    struct emu_global_shadow *shadow = calloc(1, sizeof(*shadow));
    if (!shadow)
        return NULL;
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_init(&shadow->locks[i], NULL);
    pthread_mutex_init(&shadow->release_lock, NULL);
    return shadow;
}

void emu_global_shadow_destroy(struct emu_global_shadow *shadow)
{
    if (!shadow)
        return;
    for (int i = 0; i < BUCKETS; i++)
        while (shadow->buckets[i]) {
            struct page *page = shadow->buckets[i];
            shadow->buckets[i] = page->next;
            free(page);
        }
    for (int i = 0; i < 1024; i++)
        while (shadow->releases[i]) {
            struct release *release = shadow->releases[i];
            shadow->releases[i] = release->next;
            free(release);
        }
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_destroy(&shadow->locks[i]);
    pthread_mutex_destroy(&shadow->release_lock);
    free(shadow);
}

static uint32_t bucket_of(uint64_t base)
{
    return (uint32_t)((base / PAGE_BYTES * 0x9e3779b97f4a7c15u) >> 50);
}

static struct page *page_at(struct emu_global_shadow *shadow, uint64_t base, uint32_t bucket)
{
    struct page *page = shadow->buckets[bucket];
    while (page && page->base != base)
        page = page->next;
    if (page)
        return page;
    page = calloc(1, sizeof(*page));
    if (page) {
        page->base = base;
        page->next = shadow->buckets[bucket];
        shadow->buckets[bucket] = page;
    }
    return page;
}

/* ---- Order ---- */

static uint32_t known_release(const struct emu_cluster *cluster, uint64_t other)
{
    for (const struct emu_known *known = cluster->sync->known; known; known = known->next)
        if (known->cluster == other)
            return known->count;
    return 0;
}

static bool side_before(const struct side *side, const struct emu_access *access, struct emu_cluster *cluster)
{
    if (side->cluster != cluster->sync->number + 1)
        return side->release < known_release(cluster, side->cluster);
    const struct emu_record record = {.epoch = side->epoch, .agent = side->agent};
    return emu_record_before(&record, access);
}

static struct side make_side(struct emu_warp *warp, const struct emu_access *access, int lane)
{
    struct emu_cluster *cluster = warp->cta->cluster;
    return (struct side){.instr = access->instr,
                         .cluster = cluster->sync->number + 1,
                         .release = cluster->sync->release,
                         .epoch = access->epoch,
                         .agent = access->agent,
                         .warp = (int16_t)warp->index,
                         .rank = (uint8_t)warp->cta->rank,
                         .lane = (uint8_t)(lane & 31),
                         .atomic = access->atomic,
                         .cp_async = access->cp_async,
                         .async_proxy = access->async_proxy};
}

/* ---- Findings ---- */

static struct emu_site site_of(const struct emu_cluster *cluster, const struct side *side)
{
    struct emu_site site = {.instr = side->instr, .warp = side->warp, .lane = side->lane};
    const uint64_t number = (side->cluster - 1) * (uint64_t)cluster->cta_count + side->rank;
    const uint32_t *grid = cluster->launch->grid;
    site.ctaid[0] = (uint32_t)(number % grid[0]);
    site.ctaid[1] = (uint32_t)(number / grid[0] % grid[1]);
    site.ctaid[2] = (uint32_t)(number / grid[0] / grid[1]);
    return site;
}

static void report(struct emu_warp *warp, const struct side *before, bool before_writes, const struct side *now,
                   bool writes, uint64_t address)
{
    struct emu_cluster *cluster = warp->cta->cluster;
    struct emu_finding finding = {.kind = EMU_RACE,
                                  .kernel = cluster->launch->kernel,
                                  .first = site_of(cluster, before),
                                  .second = site_of(cluster, now),
                                  .has_address = true,
                                  .address = address};
    const struct emu_allocation *allocation = emu_memory_find(cluster->memory, address, 1);
    if (allocation)
        snprintf(finding.what, sizeof(finding.what), "%s, byte %llu of %zu", allocation->what,
                 (unsigned long long)(address - allocation->address), allocation->size);
    snprintf(finding.message, sizeof(finding.message), "%s after %s in global memory: %s", writes ? "write" : "read",
             before_writes ? "write" : "read",
             before->cluster == now->cluster ? "no barrier orders the two"
                                             : "the blocks are not ordered: no release of the one was acquired by the "
                                               "other");
    emu_found(cluster, &finding);
}

/* ---- Access ---- */

static void touch_write(struct emu_warp *warp, const struct emu_access *access, struct cell *cell,
                        const struct side *now, uint64_t address)
{
    struct emu_cluster *cluster = warp->cta->cluster;
    const bool both_atomic = cell->read.atomic && now->atomic;
    const bool foreign = cell->read.others; /* somebody else's read, whoever is remembered */
    if (cell->read.cluster != 0 && !both_atomic && (foreign || !side_before(&cell->read, access, cluster)) &&
        !(foreign && cluster->sync->known)) /* with releases between clusters the forgotten readers may be in order */
        report(warp, &cell->read, false, now, true, address);
    cell->write = *now;
    cell->read = (struct side){0};
}

static void touch_read(struct cell *cell, const struct side *now)
{
    const bool others = cell->read.others || (cell->read.cluster != 0 && cell->read.cluster != now->cluster);
    cell->read = *now;
    cell->read.others = others;
}

static void touch_cell(struct emu_warp *warp, const struct emu_access *access, struct cell *cell,
                       const struct side *now, uint64_t address, int touch)
{
    if (cell->write.cluster != 0 && !(cell->write.atomic && now->atomic) &&
        !side_before(&cell->write, access, warp->cta->cluster)) {
        report(warp, &cell->write, true, now, (touch & EMU_WRITE) != 0, address);
        cell->write.cluster = 0; /* once */
    }
    if (touch & EMU_WRITE)
        touch_write(warp, access, cell, now, address);
    else
        touch_read(cell, now);
}

/* Smaller accesses than a cell are left alone: neighbours in a word may be different blocks'. */
static bool is_whole(uint64_t address, size_t size)
{
    return address % EMU_CELL_BYTES == 0 && size % EMU_CELL_BYTES == 0;
}

bool emu_shadow_global(struct emu_warp *warp, const struct emu_access *access, int lane, uint64_t address, size_t size,
                       int touch)
{
    struct emu_cluster *cluster = warp->cta->cluster;
    struct emu_global_shadow *shadow = cluster->memory->shadow;
    if (!shadow || !is_whole(address, size))
        return true;
    const struct side now = make_side(warp, access, lane);
    for (uint64_t at = address, stop = address + size; at < stop;) {
        const uint64_t base = at & ~(uint64_t)(PAGE_BYTES - 1);
        const uint64_t end = stop < base + PAGE_BYTES ? stop : base + PAGE_BYTES;
        const uint32_t bucket = bucket_of(base);
        pthread_mutex_lock(&shadow->locks[bucket % LOCKS]);
        struct page *page = page_at(shadow, base, bucket);
        for (; page && at < end; at += EMU_CELL_BYTES)
            touch_cell(warp, access, &page->cells[(at - base) / EMU_CELL_BYTES], &now, at, touch);
        pthread_mutex_unlock(&shadow->locks[bucket % LOCKS]);
        at = end;
    }
    return !cluster->sync->fault;
}

/* ---- Release and acquire ---- */

static struct release **release_at(struct emu_global_shadow *shadow, uint64_t address)
{
    return &shadow->releases[(address / 4 * 0x9e3779b97f4a7c15u) >> 54];
}

static void put_release(struct emu_global_shadow *shadow, uint64_t address, uint64_t cluster, uint32_t count)
{
    struct release **bucket = release_at(shadow, address);
    struct release *release = *bucket;
    while (release && (release->address != address || release->cluster != cluster))
        release = release->next;
    if (!release && (release = calloc(1, sizeof(*release)))) {
        release->next = *bucket;
        *bucket = release;
    }
    if (release)
        *release = (struct release){release->next, address, cluster, count};
}

void emu_sync_release(struct emu_warp *warp, uint64_t address)
{
    struct emu_cluster *cluster = warp->cta->cluster;
    struct emu_global_shadow *shadow = cluster->memory->shadow;
    if (!shadow)
        return;
    cluster->sync->release++;
    pthread_mutex_lock(&shadow->release_lock);
    put_release(shadow, address, cluster->sync->number + 1, cluster->sync->release);
    pthread_mutex_unlock(&shadow->release_lock);
    /* Within the cluster: all of it shares one clock of released knowledge. */
    if (!cluster->sync->released)
        cluster->sync->released = emu_clocks_new(cluster->sync->agents);
    if (cluster->sync->released)
        emu_warp_release(warp, &cluster->sync->released);
}

static void learn_cluster(struct emu_cluster *cluster, uint64_t other, uint32_t count)
{
    struct emu_known *known = cluster->sync->known;
    while (known && known->cluster != other)
        known = known->next;
    if (!known && (known = calloc(1, sizeof(*known)))) {
        known->next = cluster->sync->known;
        known->cluster = other;
        cluster->sync->known = known;
    }
    if (known && count > known->count)
        known->count = count;
}

void emu_sync_acquire(struct emu_warp *warp, uint64_t address)
{
    struct emu_cluster *cluster = warp->cta->cluster;
    struct emu_global_shadow *shadow = cluster->memory->shadow;
    if (!shadow)
        return;
    pthread_mutex_lock(&shadow->release_lock);
    for (const struct release *release = *release_at(shadow, address); release; release = release->next)
        if (release->address == address && release->cluster != cluster->sync->number + 1)
            learn_cluster(cluster, release->cluster, release->count);
    pthread_mutex_unlock(&shadow->release_lock);
    if (cluster->sync->released)
        emu_warp_acquire(warp, cluster->sync->released);
}

/* A fence makes the relaxed accesses around it a release and an acquire pattern (ISA 8.7, 8.8). */
void emu_sync_relaxed(struct emu_warp *warp, uint64_t address, int touch)
{
    if ((touch & EMU_WRITE) && warp->sync->fenced_release)
        emu_sync_release(warp, address);
    if ((touch & EMU_READ) && warp->sync->pending_acquire_count < EMU_PENDING_ACQUIRES)
        warp->sync->pending_acquires[warp->sync->pending_acquire_count++] = address;
}

void emu_sync_fence(struct emu_warp *warp, int kinds)
{
    if (kinds & EMU_FENCE_RELEASE)
        warp->sync->fenced_release = true;
    if (!(kinds & EMU_FENCE_ACQUIRE))
        return;
    for (uint32_t i = 0; i < warp->sync->pending_acquire_count; i++)
        emu_sync_acquire(warp, warp->sync->pending_acquires[i]);
    warp->sync->pending_acquire_count = 0;
}

void emu_known_free(struct emu_cluster *cluster)
{
    while (cluster->sync->known) {
        struct emu_known *known = cluster->sync->known;
        cluster->sync->known = known->next;
        free(known);
    }
}
