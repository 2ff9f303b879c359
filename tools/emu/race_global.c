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
    uint8_t bytes; /* bit a byte of the cell */
    bool others;   /* a reader's side: other clusters have read too */
};

/* The last reader, and another one that is not known to have come before it. */
struct cell {
    struct side write, read, older_read;
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
                         .bytes = 0xf,
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

/* One reader and a write to the same bytes. */
static void check_reader(struct emu_warp *warp, const struct emu_access *access, const struct side *read,
                         const struct side *now, uint64_t address)
{
    struct emu_cluster *cluster = warp->cta->cluster;
    const bool foreign = read->others; /* somebody else's read, whoever is remembered */
    if (read->cluster == 0 || (read->atomic && now->atomic) || !(read->bytes & now->bytes))
        return;
    if ((foreign || !side_before(read, access, cluster)) &&
        !(foreign && cluster->sync->known)) /* with releases between clusters the forgotten readers may be in order */
        report(warp, read, false, now, true, address);
}

static void touch_write(struct emu_warp *warp, const struct emu_access *access, struct cell *cell,
                        const struct side *now, uint64_t address)
{
    check_reader(warp, access, &cell->read, now, address);
    check_reader(warp, access, &cell->older_read, now, address);
    cell->write = *now;
    if (now->bytes == 0xf)
        cell->read = cell->older_read = (struct side){0};
}

static void touch_read(struct emu_warp *warp, const struct emu_access *access, struct cell *cell,
                       const struct side *now)
{
    const struct side *read = &cell->read;
    const bool others = read->others || (read->cluster != 0 && read->cluster != now->cluster);
    if (read->cluster != 0 && !side_before(read, access, warp->cta->cluster))
        cell->older_read = *read;
    cell->read = *now;
    cell->read.others = others;
}

static void touch_cell(struct emu_warp *warp, const struct emu_access *access, struct cell *cell,
                       const struct side *now, uint64_t address, int touch)
{
    if (cell->write.cluster != 0 && !(cell->write.atomic && now->atomic) && (cell->write.bytes & now->bytes) &&
        !side_before(&cell->write, access, warp->cta->cluster)) {
        report(warp, &cell->write, true, now, (touch & EMU_WRITE) != 0, address);
        cell->write.cluster = 0; /* once */
    }
    if (touch & EMU_WRITE)
        touch_write(warp, access, cell, now, address);
    else
        touch_read(warp, access, cell, now);
}

/* Of a cell, bit a byte in [at, stop). What fills a part alone is no race with its neighbours; a cell remembers only
 * the last of them. */
static uint8_t bytes_of(uint64_t at, uint64_t stop)
{
    const uint64_t base = at & ~(uint64_t)(EMU_CELL_BYTES - 1);
    const uint32_t end = stop - base < EMU_CELL_BYTES ? (uint32_t)(stop - base) : EMU_CELL_BYTES;
    return (uint8_t)(((1u << end) - 1) & ~((1u << (at - base)) - 1));
}

bool emu_shadow_global(struct emu_warp *warp, const struct emu_access *access, int lane, uint64_t address, size_t size,
                       int touch)
{
    struct emu_cluster *cluster = warp->cta->cluster;
    struct emu_global_shadow *shadow = cluster->memory->shadow;
    if (!shadow)
        return true;
    struct side now = make_side(warp, access, lane);
    for (uint64_t at = address, stop = address + size; at < stop;) {
        const uint64_t base = at & ~(uint64_t)(PAGE_BYTES - 1);
        const uint64_t end = stop < base + PAGE_BYTES ? stop : base + PAGE_BYTES;
        const uint32_t bucket = bucket_of(base);
        pthread_mutex_lock(&shadow->locks[bucket % LOCKS]);
        struct page *page = page_at(shadow, base, bucket);
        for (; page && at < end; at = (at / EMU_CELL_BYTES + 1) * EMU_CELL_BYTES) {
            now.bytes = bytes_of(at, end);
            touch_cell(warp, access, &page->cells[(at - base) / EMU_CELL_BYTES], &now, at, touch);
        }
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

/* Within the cluster: what has been released at an address. */
struct emu_released {
    struct emu_released *next;
    uint64_t address;
    struct emu_clocks *clocks;
};

static struct emu_clocks **released_at(struct emu_cluster *cluster, uint64_t address, bool make)
{
    struct emu_released *released = cluster->sync->released;
    while (released && released->address != address)
        released = released->next;
    if (released)
        return &released->clocks;
    if (!make || !(released = calloc(1, sizeof(*released))))
        return NULL;
    released->clocks = emu_clocks_new(cluster->sync->agents);
    if (!released->clocks) {
        free(released);
        return NULL;
    }
    released->address = address;
    released->next = cluster->sync->released;
    cluster->sync->released = released;
    return &released->clocks;
}

static void publish(struct emu_cluster *cluster, uint64_t address, uint32_t count)
{
    struct emu_global_shadow *shadow = cluster->memory->shadow;
    pthread_mutex_lock(&shadow->release_lock);
    put_release(shadow, address, cluster->sync->number + 1, count);
    pthread_mutex_unlock(&shadow->release_lock);
}

void emu_sync_release(struct emu_warp *warp, uint64_t address)
{
    struct emu_cluster *cluster = warp->cta->cluster;
    if (!cluster->memory->shadow)
        return;
    publish(cluster, address, ++cluster->sync->release);
    struct emu_clocks **clocks = released_at(cluster, address, true);
    if (clocks)
        emu_warp_release(warp, clocks);
}

/* A relaxed write releases what stood before the fence, not what came between the two (ISA 8.7). */
static void release_fenced(struct emu_warp *warp, uint64_t address)
{
    struct emu_cluster *cluster = warp->cta->cluster;
    if (!cluster->memory->shadow || !warp->sync->fence_clocks)
        return;
    publish(cluster, address, warp->sync->fence_release);
    struct emu_clocks **clocks = released_at(cluster, address, true);
    if (clocks)
        emu_clocks_join(clocks, warp->sync->fence_clocks);
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
    struct emu_clocks **clocks = released_at(cluster, address, false);
    if (clocks)
        emu_warp_acquire(warp, *clocks);
}

/* The newest are remembered: a loop reads the same address again and again. */
static void note_read(struct emu_warp_sync *sync, uint64_t address)
{
    const uint32_t known =
        sync->pending_acquire_count < EMU_PENDING_ACQUIRES ? sync->pending_acquire_count : EMU_PENDING_ACQUIRES;
    for (uint32_t i = 0; i < known; i++)
        if (sync->pending_acquires[i] == address)
            return;
    sync->pending_acquires[sync->pending_acquire_count++ % EMU_PENDING_ACQUIRES] = address;
}

/* A fence makes the relaxed accesses around it a release and an acquire pattern (ISA 8.7, 8.8). */
void emu_sync_relaxed(struct emu_warp *warp, uint64_t address, int touch)
{
    if (touch & EMU_WRITE)
        release_fenced(warp, address);
    if (touch & EMU_READ)
        note_read(warp->sync, address);
}

static void remember_fence(struct emu_warp *warp)
{
    emu_clocks_release(warp->sync->fence_clocks);
    warp->sync->fence_clocks = emu_clocks_share(warp->sync->now);
    warp->sync->fence_release = ++warp->cta->cluster->sync->release;
    emu_warp_new_epoch(warp);
}

void emu_sync_fence(struct emu_warp *warp, int kinds)
{
    struct emu_warp_sync *sync = warp->sync;
    const uint32_t known =
        sync->pending_acquire_count < EMU_PENDING_ACQUIRES ? sync->pending_acquire_count : EMU_PENDING_ACQUIRES;
    for (uint32_t i = 0; (kinds & EMU_FENCE_ACQUIRE) && i < known; i++)
        emu_sync_acquire(warp, sync->pending_acquires[i]);
    if (kinds & EMU_FENCE_ACQUIRE)
        sync->pending_acquire_count = 0;
    if (kinds & EMU_FENCE_RELEASE)
        remember_fence(warp);
}

void emu_known_free(struct emu_cluster *cluster)
{
    while (cluster->sync->released) {
        struct emu_released *released = cluster->sync->released;
        cluster->sync->released = released->next;
        emu_clocks_release(released->clocks);
        free(released);
    }
    while (cluster->sync->known) {
        struct emu_known *known = cluster->sync->known;
        cluster->sync->known = known->next;
        free(known);
    }
}
