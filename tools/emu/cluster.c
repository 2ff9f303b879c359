/* A cluster's storage: made once a host thread, used for one cluster after the other. */
#include <stdlib.h>
#include <string.h>

#include "state.h"

static size_t at_least_one(size_t count)
{
    return count ? count : 1;
}

/* Every class gets as many rows as the largest has: PTX that names a register of the wrong width then reads another
 * register, and never beside them. What no kernel touches costs address space alone. */
static size_t rows_of(const struct emu_kernel *kernel)
{
    size_t most = kernel->row32_count > kernel->row64_count ? kernel->row32_count : kernel->row64_count;
    return at_least_one(most > kernel->pred_count ? most : kernel->pred_count);
}

static bool create_warp(struct emu_warp *warp, struct emu_cta *cta, int index, const struct emu_kernel *kernel)
{
    const size_t rows = rows_of(kernel);
    warp->cta = cta;
    warp->index = index;
    warp->r32 = aligned_alloc(64, rows * EMU_LANES * sizeof(*warp->r32));
    warp->r64 = aligned_alloc(64, rows * EMU_LANES * sizeof(*warp->r64));
    warp->preds = calloc(rows, sizeof(*warp->preds));
    warp->def32 = calloc(rows, sizeof(*warp->def32));
    warp->def64 = calloc(rows, sizeof(*warp->def64));
    warp->defp = calloc(rows, sizeof(*warp->defp));
    warp->local = calloc(at_least_one(EMU_LANES * (size_t)kernel->local_bytes), 1);
    warp->sync = calloc(1, sizeof(*warp->sync));
    if (!warp->r32 || !warp->r64 || !warp->preds || !warp->def32 || !warp->def64 || !warp->defp || !warp->local ||
        !warp->sync)
        return false;
    warp->sync->in_flight_group = calloc(rows, sizeof(uint32_t));
    warp->sync->touched = calloc(rows / 64 + 1, sizeof(uint64_t));
    for (int queue = 0; queue < EMU_QUEUES; queue++)
        warp->sync->queues[queue].tail = &warp->sync->queues[queue].head;
    return warp->sync->in_flight_group && warp->sync->touched;
}

static void destroy_warp(struct emu_warp *warp)
{
    if (warp->sync) {
        if (warp->cta)
            emu_async_drop(warp);
        emu_clocks_release(warp->sync->now);
        emu_clocks_release(warp->sync->fence_clocks);
        emu_clocks_release(warp->sync->fenced);
        emu_clocks_release(warp->sync->known_inits);
        free(warp->sync->in_flight_group);
        free(warp->sync->touched);
    }
    free(warp->r32);
    free(warp->r64);
    free(warp->preds);
    free(warp->def32);
    free(warp->def64);
    free(warp->defp);
    free(warp->local);
    free(warp->sync);
}

/* The window begins with the system's part; static variables follow, then dynamic memory. */
static uint32_t shared_size(const struct emu_launch *launch)
{
    const uint64_t align = launch->kernel->dynamic_align ? launch->kernel->dynamic_align : 16;
    const uint64_t fixed = EMU_SHARED_RESERVED + launch->kernel->static_shared_bytes;
    return (uint32_t)(((fixed + align - 1) / align * align + launch->shared_bytes + 15) & ~(uint64_t)15);
}

static bool create_cta(struct emu_cta *cta, struct emu_cluster *cluster, uint32_t rank)
{
    struct emu_launch *launch = cluster->launch;
    const uint32_t threads = launch->block[0] * launch->block[1] * launch->block[2];
    cta->cluster = cluster;
    cta->launch = launch;
    cta->options = cluster->options;
    cta->rank = rank;
    cta->warp_count = (int)((threads + EMU_LANES - 1) / EMU_LANES);
    cta->shared.size = shared_size(launch);
    cta->shared.bytes = aligned_alloc(1024, (cta->shared.size + 1023u) & ~1023u);
    cta->shared.cells = calloc(cta->shared.size / EMU_CELL_BYTES + 1, sizeof(*cta->shared.cells));
    cta->shared.written = calloc(cta->shared.size / 32 + 1, sizeof(*cta->shared.written));
    cta->warps = calloc((size_t)cta->warp_count, sizeof(*cta->warps));
    cta->sync = calloc(1, sizeof(*cta->sync));
    if (!cta->shared.bytes || !cta->shared.cells || !cta->shared.written || !cta->warps || !cta->sync)
        return false;
    for (int i = 0; i < cta->warp_count; i++)
        if (!create_warp(&cta->warps[i], cta, i, launch->kernel))
            return false;
    return true;
}

static void destroy_cta(struct emu_cta *cta)
{
    for (int i = 0; cta->warps && i < cta->warp_count; i++)
        destroy_warp(&cta->warps[i]);
    if (cta->sync) {
        emu_cta_sync_free(cta);
        free(cta->sync->mbarriers);
    }
    free(cta->shared.bytes);
    free(cta->shared.cells);
    free(cta->shared.written);
    free(cta->warps);
    free(cta->sync);
}

bool emu_cluster_create(struct emu_cluster *cluster, struct emu_launch *launch, const struct emu_options *options,
                        struct emu_memory *memory, struct emu_report *report)
{
    *cluster = (struct emu_cluster){.launch = launch, .options = options, .memory = memory, .report = report};
    cluster->cta_count = (int)(launch->cluster[0] * launch->cluster[1] * launch->cluster[2]);
    cluster->ctas = calloc((size_t)cluster->cta_count, sizeof(*cluster->ctas));
    cluster->sync = calloc(1, sizeof(*cluster->sync));
    if (!cluster->ctas || !cluster->sync)
        return false;
    for (int rank = 0; rank < cluster->cta_count; rank++)
        if (!create_cta(&cluster->ctas[rank], cluster, (uint32_t)rank))
            return false;
    cluster->sync->agents =
        cluster->cta_count * (cluster->ctas[0].warp_count * EMU_AGENTS_A_WARP + EMU_LOAD_AGENTS) + 1;
    return true;
}

void emu_cluster_destroy(struct emu_cluster *cluster)
{
    for (int rank = 0; cluster->ctas && rank < cluster->cta_count; rank++)
        destroy_cta(&cluster->ctas[rank]);
    if (cluster->sync) {
        emu_known_free(cluster);
        emu_records_free(&cluster->sync->records);
        emu_clocks_release(cluster->sync->arriving);
        emu_clocks_release(cluster->sync->completed);
        emu_clocks_release(cluster->sync->arriving_inits);
        emu_clocks_release(cluster->sync->completed_inits);
        for (int rank = 0; rank < cluster->cta_count; rank++)
            emu_clocks_release(cluster->sync->ended[rank]);
    }
    free(cluster->ctas);
    free(cluster->sync);
}

/* ---- Before each cluster ---- */

static bool begin_warp(struct emu_warp *warp)
{
    const struct emu_kernel *kernel = warp->cta->launch->kernel;
    const struct emu_launch *launch = warp->cta->launch;
    const uint32_t threads = launch->block[0] * launch->block[1] * launch->block[2];
    const uint32_t first = (uint32_t)warp->index * EMU_LANES;
    const uint32_t count = threads - first < EMU_LANES ? threads - first : EMU_LANES;
    struct emu_warp_sync *sync = warp->sync;
    warp->present = warp->live = count == EMU_LANES ? EMU_ALL_LANES : (1u << count) - 1;
    warp->group_count = 1;
    warp->groups[0] = (struct emu_group){.mask = warp->live};
    warp->registers = kernel->launch_registers;
    warp->random = warp->cta->options->seed * 31 + warp->cta->cluster->sync->number * 1009 + (uint64_t)warp->index;
    /* What is read before it was written is the same in every run. */
    memset(warp->r32, 0xcd, (size_t)kernel->row32_count * EMU_LANES * sizeof(*warp->r32));
    memset(warp->r64, 0xcd, (size_t)kernel->row64_count * EMU_LANES * sizeof(*warp->r64));
    memset(warp->preds, 0, (size_t)kernel->pred_count * sizeof(*warp->preds));
    memset(warp->local, 0xcd, EMU_LANES * (size_t)kernel->local_bytes);
    warp->instr_executed = 0;
    memset(warp->def32, 0, kernel->row32_count * sizeof(*warp->def32));
    memset(warp->def64, 0, kernel->row64_count * sizeof(*warp->def64));
    memset(warp->defp, 0, kernel->pred_count * sizeof(*warp->defp));
    memset(sync->in_flight_group, 0, kernel->row32_count * sizeof(*sync->in_flight_group));
    /* A wgmma.fence stands before a kernel's first wgmma in any case (ISA 9.7.15.7.1). */
    memset(sync->touched, 0xff, (kernel->row32_count + 63) / 64 * sizeof(*sync->touched));
    memset(sync->barrier_state, 0, sizeof(sync->barrier_state));
    memset(sync->cluster_waits_for, 0, sizeof(sync->cluster_waits_for));
    sync->in_flight = sync->wgmma_retired = sync->last_record = sync->lane_epoch = 0;
    sync->setmaxnreg_count = sync->setmaxnreg_last = 0;
    memset(sync->store_group, 0, sizeof(sync->store_group));
    sync->time_is_up = false;
    sync->grid_waited = 0;
    emu_clocks_release(sync->fence_clocks);
    sync->fence_clocks = NULL;
    sync->parted_for = sync->warp_sync_done = 0;
    sync->pending_acquire_count = 0;
    emu_async_drop(warp);
    for (int queue = 0; queue < EMU_QUEUES; queue++) {
        sync->queues[queue].issued = 0;
        memset(sync->queues[queue].group_end, 0, sizeof(sync->queues[queue].group_end));
        for (int lane = 0; lane < EMU_LANES; lane++)
            sync->queues[queue].open_group[lane] = 1;
    }
    emu_clocks_release(sync->fenced);
    emu_clocks_release(sync->known_inits);
    sync->fenced = sync->known_inits = NULL;
    sync->fenced_inits = 0;
    emu_clocks_release(sync->now);
    sync->now = emu_clocks_new(warp->cta->cluster->sync->agents);
    sync->epoch = 1;
    sync->has_issued = false;
    if (sync->now)
        sync->now->v[emu_agent(warp, EMU_AGENT_WARP)] = 1;
    return sync->now != NULL;
}

/* Shared memory begins with garbage, so that what is read without having been written shows. */
static bool begin_cta(struct emu_cta *cta)
{
    memset(cta->shared.bytes, 0xcd, cta->shared.size);
    memset(cta->shared.cells, 0, (cta->shared.size / EMU_CELL_BYTES + 1) * sizeof(*cta->shared.cells));
    memset(cta->shared.written, 0, (cta->shared.size / 32 + 1) * sizeof(*cta->shared.written));
    emu_cta_sync_free(cta);
    cta->sync->register_pool = 0;
    bool fine = true;
    for (int i = 0; i < cta->warp_count; i++)
        fine = begin_warp(&cta->warps[i]) && fine;
    return fine;
}

/* Clusters are numbered with x fastest, as their blocks within. */
static void place_cta(struct emu_cta *cta)
{
    const struct emu_cluster *cluster = cta->cluster;
    const uint32_t *size = cluster->launch->cluster;
    const uint32_t rank = cta->rank;
    cta->ctaid[0] = cluster->clusterid[0] * size[0] + rank % size[0];
    cta->ctaid[1] = cluster->clusterid[1] * size[1] + rank / size[0] % size[1];
    cta->ctaid[2] = cluster->clusterid[2] * size[2] + rank / size[0] / size[1];
}

bool emu_cluster_begin(struct emu_cluster *cluster, uint64_t number)
{
    const struct emu_launch *launch = cluster->launch;
    const uint32_t x = launch->grid[0] / launch->cluster[0], y = launch->grid[1] / launch->cluster[1];
    struct emu_cluster_sync *sync = cluster->sync;
    cluster->clusterid[0] = (uint32_t)(number % x);
    cluster->clusterid[1] = (uint32_t)(number / x % y);
    cluster->clusterid[2] = (uint32_t)(number / x / y);
    cluster->random = cluster->options->seed + number * 0x9e3779b97f4a7c15u;
    emu_records_reset(&sync->records);
    emu_known_free(cluster);
    emu_clocks_release(sync->arriving);
    emu_clocks_release(sync->completed);
    emu_clocks_release(sync->arriving_inits);
    emu_clocks_release(sync->completed_inits);
    sync->arriving = sync->completed = sync->arriving_inits = sync->completed_inits = NULL;
    sync->arrived = sync->phase = sync->release = 0;
    for (int rank = 0; rank < cluster->cta_count; rank++) {
        emu_clocks_release(sync->ended[rank]);
        sync->ended[rank] = NULL;
    }
    sync->events = sync->idle_yields = 0;
    sync->number = number;
    bool fine = true;
    for (int rank = 0; rank < cluster->cta_count; rank++) {
        place_cta(&cluster->ctas[rank]);
        fine = begin_cta(&cluster->ctas[rank]) && fine;
    }
    return fine;
}
