/* Launches: the driver's checks, parameters, the engine's verdict. */
#include <stdlib.h>
#include <string.h>

#include "drv_state.h"

/* ---- Attributes ---- */

struct launch_options {
    unsigned int cluster[3];
    bool cluster_given, cooperative, dependent;
    struct drv_event *after;
};

static int take_event(const struct cu_launch_attribute *attribute, struct launch_options *options)
{
    DRV_CHECK(drv_find(DRV_EVENT, drv_handle(attribute->value.event.event)) != NULL, CUDA_ERROR_INVALID_HANDLE);
    options->after = attribute->value.event.event;
    return DRV_CUDA_SUCCESS;
}

static int take_attribute(const struct cu_launch_attribute *attribute, struct launch_options *options)
{
    switch (attribute->id) {
    case DRV_CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        memcpy(options->cluster, attribute->value.dim, sizeof options->cluster);
        options->cluster_given = true;
        return DRV_CUDA_SUCCESS;
    case DRV_CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        options->cooperative = attribute->value.number != 0;
        return DRV_CUDA_SUCCESS;
    case DRV_CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        options->dependent = attribute->value.number != 0;
        return DRV_CUDA_SUCCESS;
    case DRV_CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
    case DRV_CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
        return take_event(attribute, options);
    case DRV_CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        return drv_log(DRV_CUDA_ERROR_NOT_SUPPORTED, "the emulated device does not change graphs from kernels");
    /* Of these only speed depends, and there is none. A kernel before always ends first. */
    case DRV_CU_LAUNCH_ATTRIBUTE_IGNORE:
    case DRV_CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case DRV_CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case DRV_CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case DRV_CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case DRV_CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case DRV_CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case DRV_CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case DRV_CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return DRV_CUDA_SUCCESS;
    default:
        return drv_log(DRV_CUDA_ERROR_INVALID_VALUE, "launch attribute %d is unknown", attribute->id);
    }
}

static int take_attributes(const struct cu_launch_config *config, struct launch_options *options)
{
    *options = (struct launch_options){.cluster = {1, 1, 1}};
    DRV_CHECK(config->attribute_count == 0 || config->attributes != NULL, CUDA_ERROR_INVALID_VALUE);
    for (unsigned int i = 0; i < config->attribute_count; i++)
        DRV_TRY(take_attribute(&config->attributes[i], options));
    return DRV_CUDA_SUCCESS;
}

/* ---- Checks ---- */

static int check_grid(const unsigned int grid[3])
{
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || grid[0] > 2147483647 || grid[1] > 65535 || grid[2] > 65535)
        return drv_log(DRV_CUDA_ERROR_INVALID_VALUE,
                       "grid %ux%ux%u: each side is at least 1, at most 2147483647x65535x65535", grid[0], grid[1],
                       grid[2]);
    return DRV_CUDA_SUCCESS;
}

static int check_required_block(const struct emu_kernel *code, const unsigned int block[3])
{
    const uint32_t *wanted = code->required_ntid;
    if (wanted[0] == 0 || (block[0] == wanted[0] && block[1] == wanted[1] && block[2] == wanted[2]))
        return DRV_CUDA_SUCCESS;
    return drv_log(DRV_CUDA_ERROR_INVALID_VALUE, "%s wants blocks of %ux%ux%u (.reqntid), not %ux%ux%u", code->name,
                   wanted[0], wanted[1], wanted[2], block[0], block[1], block[2]);
}

static int check_block(const struct emu_kernel *code, const unsigned int block[3])
{
    const uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (threads == 0 || block[0] > 1024 || block[1] > 1024 || block[2] > 64 || threads > DRV_MAX_THREADS)
        return drv_log(DRV_CUDA_ERROR_INVALID_VALUE, "a block of %ux%ux%u threads: at most %d, 1024x1024x64", block[0],
                       block[1], block[2], DRV_MAX_THREADS);
    DRV_TRY(check_required_block(code, block));
    if (code->max_threads != 0 && threads > code->max_threads)
        return drv_log(DRV_CUDA_ERROR_INVALID_VALUE, "%s allows blocks of %u threads (.maxntid), not %llu", code->name,
                       code->max_threads, (unsigned long long)threads);
    if (threads > (uint64_t)drv_kernel_max_threads(code))
        return drv_log(DRV_CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                       "%s has %d registers a thread: a block of %llu is too large", code->name, drv_registers(code),
                       (unsigned long long)threads);
    return DRV_CUDA_SUCCESS;
}

static int check_shared(const struct drv_function *function, unsigned int dynamic_bytes)
{
    if (dynamic_bytes <= (unsigned int)function->attributes->max_dynamic_bytes)
        return DRV_CUDA_SUCCESS;
    return drv_log(
        DRV_CUDA_ERROR_INVALID_VALUE,
        "%s: %u bytes of dynamic shared memory, allowed are %d (MAX_DYNAMIC_SHARED_SIZE_BYTES; at most %d with "
        "the static %llu)",
        function->code->name, dynamic_bytes, function->attributes->max_dynamic_bytes, DRV_MAX_SHARED_OPTIN,
        (unsigned long long)function->code->static_shared_bytes);
}

/* The kernel's own cluster, if it has one, is the only one that it takes. */
static int choose_cluster(const struct drv_function *function, struct launch_options *options)
{
    const unsigned int *required = function->attributes->required_cluster;
    if (required[0] == 0)
        return DRV_CUDA_SUCCESS;
    const unsigned int wanted[3] = {required[0], required[1] == 0 ? 1 : required[1],
                                    required[2] == 0 ? 1 : required[2]};
    if (options->cluster_given && memcmp(options->cluster, wanted, sizeof wanted) != 0)
        return drv_log(DRV_CUDA_ERROR_INVALID_CLUSTER_SIZE, "%s wants clusters of %ux%ux%u", function->code->name,
                       wanted[0], wanted[1], wanted[2]);
    memcpy(options->cluster, wanted, sizeof wanted);
    return DRV_CUDA_SUCCESS;
}

static int check_cluster(const struct drv_function *function, const unsigned int grid[3], const unsigned int cluster[3])
{
    const uint64_t blocks = (uint64_t)cluster[0] * cluster[1] * cluster[2];
    const int limit = function->attributes->non_portable ? EMU_MAX_CLUSTER : DRV_PORTABLE_CLUSTER;
    for (int axis = 0; axis < 3; axis++)
        if (cluster[axis] == 0 || grid[axis] % cluster[axis] != 0)
            return drv_log(DRV_CUDA_ERROR_INVALID_CLUSTER_SIZE, "grid %ux%ux%u is no multiple of clusters of %ux%ux%u",
                           grid[0], grid[1], grid[2], cluster[0], cluster[1], cluster[2]);
    if (blocks > (uint64_t)limit)
        return drv_log(DRV_CUDA_ERROR_INVALID_CLUSTER_SIZE,
                       "a cluster of %llu blocks: at most %d (16 with NON_PORTABLE_CLUSTER_SIZE_ALLOWED)",
                       (unsigned long long)blocks, limit);
    return DRV_CUDA_SUCCESS;
}

static int check_launch(const struct drv_function *function, const struct cu_launch_config *config,
                        struct launch_options *options)
{
    DRV_TRY(check_grid(config->grid));
    DRV_TRY(check_block(function->code, config->block));
    DRV_TRY(check_shared(function, config->shared_bytes));
    DRV_TRY(choose_cluster(function, options));
    DRV_TRY(check_cluster(function, config->grid, options->cluster));
    if (options->cooperative)
        return drv_log(DRV_CUDA_ERROR_NOT_SUPPORTED,
                       "the emulated device runs clusters one after the other: no cooperative launch");
    return DRV_CUDA_SUCCESS;
}

/* ---- Parameters ---- */

/* The packed form: POINTER, address, SIZE, address of the size, END. */
static int unpack(const struct emu_kernel *code, void **extra, uint8_t *params)
{
    const void *buffer = NULL;
    const size_t *size = NULL;
    for (size_t i = 0; extra[i] != NULL; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_POINTER_ID)
            buffer = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_SIZE_ID)
            size = extra[i + 1];
        else
            return DRV_CUDA_ERROR_INVALID_VALUE;
    }
    DRV_CHECK(size != NULL && *size >= code->param_bytes && (buffer != NULL || code->param_bytes == 0),
              CUDA_ERROR_INVALID_VALUE);
    if (code->param_bytes > 0)
        memcpy(params, buffer, code->param_bytes);
    return DRV_CUDA_SUCCESS;
}

static int read_params(const struct emu_kernel *code, void **pointers, void **extra, uint8_t *params)
{
    DRV_CHECK(pointers == NULL || extra == NULL, CUDA_ERROR_INVALID_VALUE);
    if (extra != NULL)
        return unpack(code, extra, params);
    DRV_CHECK(pointers != NULL || code->param_count == 0, CUDA_ERROR_INVALID_VALUE);
    for (uint32_t i = 0; i < code->param_count; i++) {
        DRV_CHECK(pointers[i] != NULL, CUDA_ERROR_INVALID_VALUE);
        memcpy(params + code->params[i].offset, pointers[i], code->params[i].size);
    }
    return DRV_CUDA_SUCCESS;
}

int drv_kernel_op_make(struct drv_context *context, const struct cu_launch_config *config, cu_function handle,
                       void **params, void **extra, struct drv_op *out)
{
    struct launch_options options;
    struct drv_op op = {.type = DRV_CU_GRAPH_NODE_TYPE_KERNEL};
    struct drv_kernel_op *kernel = &op.as.kernel;
    DRV_TRY(drv_resolve_function(context, handle, &kernel->function, &kernel->kernel));
    DRV_TRY(take_attributes(config, &options));
    DRV_TRY(check_launch(kernel->function, config, &options));
    memcpy(kernel->grid, config->grid, sizeof kernel->grid);
    memcpy(kernel->block, config->block, sizeof kernel->block);
    memcpy(kernel->cluster, options.cluster, sizeof kernel->cluster);
    kernel->shared_bytes = config->shared_bytes;
    kernel->dependent = options.dependent;
    kernel->after = options.after;
    uint8_t *bytes = calloc(kernel->function->code->param_bytes + 1, 1);
    DRV_CHECK(bytes != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    kernel->params = bytes;
    int result = read_params(kernel->function->code, params, extra, bytes);
    if (result == DRV_CUDA_SUCCESS)
        result = drv_op_copy(out, &op); /* with pointers to each parameter */
    free(bytes);
    return result;
}

/* ---- Running ---- */

static int error_of(enum emu_result result)
{
    switch (result) {
    case EMU_OK:
        return DRV_CUDA_SUCCESS;
    case EMU_ILLEGAL_ADDRESS:
        return DRV_CUDA_ERROR_ILLEGAL_ADDRESS;
    case EMU_MISALIGNED:
        return DRV_CUDA_ERROR_MISALIGNED_ADDRESS;
    case EMU_ILLEGAL_INSTRUCTION:
        return DRV_CUDA_ERROR_ILLEGAL_INSTRUCTION;
    case EMU_DEADLOCK:
        return DRV_CUDA_ERROR_LAUNCH_TIMEOUT;
    case EMU_ASSERT:
        return DRV_CUDA_ERROR_ASSERT;
    case EMU_NO_MEMORY:
        return DRV_CUDA_ERROR_OUT_OF_MEMORY;
    default:
        return DRV_CUDA_ERROR_LAUNCH_FAILED;
    }
}

static void log_finding(void)
{
    pthread_mutex_lock(&drv.report->lock);
    if (drv.report->count > 0)
        drv_log(0, "%s", drv.report->findings[drv.report->count - 1].message);
    pthread_mutex_unlock(&drv.report->lock);
}

static void fill_launch(struct emu_launch *launch, const struct drv_kernel_op *op)
{
    *launch = (struct emu_launch){.kernel = op->function->code,
                                  .params = op->params,
                                  .shared_bytes = op->shared_bytes,
                                  .dependent = op->dependent,
                                  .sm_count = drv.settings.sm_count};
    for (int axis = 0; axis < 3; axis++) {
        launch->grid[axis] = op->grid[axis];
        launch->block[axis] = op->block[axis];
        launch->cluster[axis] = op->cluster[axis];
    }
}

/* A fault belongs to the context and shows at the next call, as on a device that runs behind the host. */
int drv_kernel_op_run(struct drv_context *context, const struct drv_kernel_op *op)
{
    struct emu_launch launch;
    fill_launch(&launch, op);
    const int error = error_of(emu_run(&launch, &drv.settings.options, drv.memory, drv.report));
    drv.clock_ns += launch.instr_executed;
    if (error == DRV_CUDA_ERROR_OUT_OF_MEMORY)
        return error;
    if (error != DRV_CUDA_SUCCESS) {
        context->error = error;
        log_finding();
        drv_write_report(false);
    }
    if (op->after != NULL)
        return drv_op_run(context,
                          &(struct drv_op){.type = DRV_CU_GRAPH_NODE_TYPE_EVENT_RECORD, .as.event = op->after});
    return DRV_CUDA_SUCCESS;
}

/* ---- Calls ---- */

int cuLaunchKernelEx(const struct cu_launch_config *config, cu_function function, void **params, void **extra)
{
    struct drv_op op;
    DRV_CHECK(config != NULL, CUDA_ERROR_INVALID_VALUE);
    cu_stream stream = config->stream;
    DRV_ENTER_STREAM(stream);
    DRV_TRY(drv_kernel_op_make(call.context, config, function, params, extra, &op));
    const int result = drv_submit(stream, &op);
    drv_op_free(&op);
    return result;
}

int cuLaunchKernel(cu_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                   unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                   cu_stream stream, void **params, void **extra)
{
    const struct cu_launch_config config = {.grid = {grid_x, grid_y, grid_z},
                                            .block = {block_x, block_y, block_z},
                                            .shared_bytes = shared_bytes,
                                            .stream = stream};
    return cuLaunchKernelEx(&config, function, params, extra);
}

int cuLaunchCooperativeKernel(cu_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                              unsigned int block_x, unsigned int block_y, unsigned int block_z,
                              unsigned int shared_bytes, cu_stream stream, void **params)
{
    struct cu_launch_attribute cooperative = {.id = DRV_CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.number = 1};
    const struct cu_launch_config config = {.grid = {grid_x, grid_y, grid_z},
                                            .block = {block_x, block_y, block_z},
                                            .shared_bytes = shared_bytes,
                                            .stream = stream,
                                            .attributes = &cooperative,
                                            .attribute_count = 1};
    return cuLaunchKernelEx(&config, function, params, NULL);
}
