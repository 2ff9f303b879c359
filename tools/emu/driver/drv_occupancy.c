/* Occupancy, from the limits alone. */
#include "drv_state.h"

static int smaller(int left, int right)
{
    return left < right ? left : right;
}

/* Blocks of so many threads that fit on an SM: registers come in 256 a warp, shared memory with its reserved part. */
static int blocks_per_sm(const struct drv_function *function, int threads, size_t dynamic_bytes)
{
    const int warps = (threads + 31) / 32;
    const int registers_a_warp = (drv_registers(function->code) * 32 + 255) / 256 * 256;
    const size_t shared = dynamic_bytes + function->code->static_shared_bytes + EMU_SHARED_RESERVED;
    int blocks = smaller(DRV_BLOCKS_PER_SM, DRV_THREADS_PER_SM / (warps * 32));
    blocks = smaller(blocks, DRV_REGISTERS_PER_SM / (registers_a_warp * warps));
    if (threads > drv_kernel_max_threads(function->code) || shared > DRV_SHARED_PER_SM)
        return 0;
    return smaller(blocks, (int)(DRV_SHARED_PER_SM / shared));
}

int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, cu_function handle, int threads,
                                                         size_t dynamic_bytes, unsigned int flags)
{
    struct drv_function *function = NULL;
    struct drv_kernel *kernel = NULL;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(blocks != NULL && threads > 0 && flags <= 1, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(drv_resolve_function(call.context, handle, &function, &kernel));
    *blocks = blocks_per_sm(function, threads, dynamic_bytes);
    return DRV_CUDA_SUCCESS;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, cu_function function, int threads, size_t dynamic_bytes)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, dynamic_bytes, 0);
}

int cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *threads, cu_function handle, cu_block_to_shared to_shared,
                                              size_t dynamic_bytes, int limit, unsigned int flags)
{
    struct drv_function *function = NULL;
    struct drv_kernel *kernel = NULL;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(grid != NULL && threads != NULL && flags <= 1, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(drv_resolve_function(call.context, handle, &function, &kernel));
    int most = drv_kernel_max_threads(function->code), best = 0;
    most = limit > 0 ? smaller(limit, most) : most;
    *grid = *threads = 0;
    for (int size = most; size > 0; size = size % 32 != 0 ? size / 32 * 32 : size - 32) {
        const int blocks = blocks_per_sm(function, size, to_shared != NULL ? to_shared(size) : dynamic_bytes);
        if (blocks * size <= best)
            continue;
        best = blocks * size;
        *threads = size;
        *grid = blocks * drv.settings.sm_count;
    }
    return DRV_CUDA_SUCCESS;
}

int cuOccupancyMaxPotentialBlockSize(int *grid, int *threads, cu_function function, cu_block_to_shared to_shared,
                                     size_t dynamic_bytes, int limit)
{
    return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, threads, function, to_shared, dynamic_bytes, limit, 0);
}

int cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, cu_function handle, int blocks, int threads)
{
    struct drv_function *function = NULL;
    struct drv_kernel *kernel = NULL;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(bytes != NULL && blocks > 0 && threads > 0, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(drv_resolve_function(call.context, handle, &function, &kernel));
    const size_t fixed = function->code->static_shared_bytes + EMU_SHARED_RESERVED;
    const size_t share = (size_t)(DRV_SHARED_PER_SM / blocks);
    const size_t most = DRV_MAX_SHARED_OPTIN - function->code->static_shared_bytes;
    *bytes = share <= fixed ? 0 : share - fixed < most ? share - fixed : most;
    return DRV_CUDA_SUCCESS;
}

static void cluster_of(const struct drv_function *function, const struct cu_launch_config *config, unsigned int *blocks)
{
    const unsigned int *required = function->attributes->required_cluster;
    *blocks = required[0] == 0
                  ? 1
                  : required[0] * (required[1] == 0 ? 1 : required[1]) * (required[2] == 0 ? 1 : required[2]);
    for (unsigned int i = 0; i < config->attribute_count; i++)
        if (config->attributes[i].id == DRV_CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            *blocks = config->attributes[i].value.dim[0] * config->attributes[i].value.dim[1] *
                      config->attributes[i].value.dim[2];
}

int cuOccupancyMaxPotentialClusterSize(int *cluster, cu_function handle, const struct cu_launch_config *config)
{
    struct drv_function *function = NULL;
    struct drv_kernel *kernel = NULL;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(cluster != NULL && config != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(drv_resolve_function(call.context, handle, &function, &kernel));
    *cluster = function->attributes->non_portable ? EMU_MAX_CLUSTER : DRV_PORTABLE_CLUSTER;
    return DRV_CUDA_SUCCESS;
}

int cuOccupancyMaxActiveClusters(int *clusters, cu_function handle, const struct cu_launch_config *config)
{
    struct drv_function *function = NULL;
    struct drv_kernel *kernel = NULL;
    unsigned int blocks = 1;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(clusters != NULL && config != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(drv_resolve_function(call.context, handle, &function, &kernel));
    const int threads = (int)(config->block[0] * config->block[1] * config->block[2]);
    cluster_of(function, config, &blocks);
    DRV_CHECK(threads > 0, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(blocks > 0 && blocks <= EMU_MAX_CLUSTER, CUDA_ERROR_INVALID_CLUSTER_SIZE);
    *clusters = blocks_per_sm(function, threads, config->shared_bytes) * drv.settings.sm_count / (int)blocks;
    return DRV_CUDA_SUCCESS;
}
