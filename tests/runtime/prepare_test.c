/* smla_prepare on the stubs: every driver call with its arguments, every one failing in turn, every refusal. */
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static const char expected_table[] = "cuGetProcAddress_v2(cuDriverGetVersion, 2020, 1)\n"
                                     "cuDriverGetVersion()\n"
                                     "cuGetProcAddress_v2(cuGetErrorName, 6000, 1)\n"
                                     "cuGetProcAddress_v2(cuGetErrorString, 6000, 1)\n"
                                     "cuGetProcAddress_v2(cuInit, 2000, 1)\n"
                                     "cuGetProcAddress_v2(cuDriverGetVersion, 2020, 1)\n"
                                     "cuGetProcAddress_v2(cuDeviceGetCount, 2000, 1)\n"
                                     "cuGetProcAddress_v2(cuDeviceGet, 2000, 1)\n"
                                     "cuGetProcAddress_v2(cuDeviceGetName, 2000, 1)\n"
                                     "cuGetProcAddress_v2(cuDeviceGetAttribute, 2000, 1)\n"
                                     "cuGetProcAddress_v2(cuDevicePrimaryCtxRetain, 7000, 1)\n"
                                     "cuGetProcAddress_v2(cuDevicePrimaryCtxRelease, 11000, 1)\n"
                                     "cuGetProcAddress_v2(cuCtxGetCurrent, 4000, 1)\n"
                                     "cuGetProcAddress_v2(cuCtxGetDevice, 2000, 1)\n"
                                     "cuGetProcAddress_v2(cuCtxGetId, 12000, 1)\n"
                                     "cuGetProcAddress_v2(cuCtxPushCurrent, 4000, 1)\n"
                                     "cuGetProcAddress_v2(cuCtxPopCurrent, 4000, 1)\n"
                                     "cuGetProcAddress_v2(cuLibraryLoadData, 12000, 1)\n"
                                     "cuGetProcAddress_v2(cuLibraryUnload, 12000, 1)\n"
                                     "cuGetProcAddress_v2(cuLibraryGetKernel, 12000, 1)\n"
                                     "cuGetProcAddress_v2(cuKernelGetFunction, 12000, 1)\n"
                                     "cuGetProcAddress_v2(cuKernelGetParamInfo, 12040, 1)\n"
                                     "cuGetProcAddress_v2(cuFuncGetAttribute, 2020, 1)\n"
                                     "cuGetProcAddress_v2(cuFuncSetAttribute, 9000, 1)\n"
                                     "cuGetProcAddress_v2(cuOccupancyMaxActiveClusters, 11070, 1)\n"
                                     "cuGetProcAddress_v2(cuLaunchKernelEx, 11060, 1)\n"
                                     "cuGetProcAddress_v2(cuTensorMapEncodeTiled, 12000, 1)\n"
                                     "cuGetProcAddress_v2(cuStreamIsCapturing, 10000, 1)\n"
                                     "cuGetProcAddress_v2(cuStreamSynchronize, 2000, 1)\n"
                                     "cuGetProcAddress_v2(cuMemsetD32Async, 3020, 1)\n"
                                     "cuGetProcAddress_v2(cuMemcpyAsync, 4000, 1)\n"
                                     "cuGetProcAddress_v2(cuThreadExchangeStreamCaptureMode, 10010, 1)\n"
                                     "cuGetProcAddress_v2(cuStreamCreate, 2000, 1)\n"
                                     "cuGetProcAddress_v2(cuStreamDestroy, 4000, 1)\n"
                                     "cuGetProcAddress_v2(cuMemAlloc, 3020, 1)\n"
                                     "cuGetProcAddress_v2(cuMemFree, 3020, 1)\n"
                                     "cuGetProcAddress_v2(cuPointerGetAttributes, 7000, 1)\n"
                                     "cuGetProcAddress_v2(cuMemRetainAllocationHandle, 11000, 1)\n"
                                     "cuGetProcAddress_v2(cuMemRelease, 10020, 1)\n"
                                     "cuGetProcAddress_v2(cuCtxGetDevResource, 12040, 1)\n"
                                     "cuInit(0)\n";

static const char expected_device[] = "cuCtxGetCurrent()\n"
                                      "cuCtxGetDevice()\n"
                                      "cuCtxGetId(ctx c1)\n"
                                      "cuDeviceGetName(0)\n"
                                      "cuDeviceGetAttribute(75, 0)\n"
                                      "cuDeviceGetAttribute(76, 0)\n"
                                      "cuDeviceGetAttribute(1, 0)\n"
                                      "cuDeviceGetAttribute(97, 0)\n"
                                      "cuDeviceGetAttribute(6, 0)\n"
                                      "cuDeviceGetAttribute(16, 0)\n"
                                      "cuCtxGetDevResource(ctx c1, 1)\n";

/* Of each rule of the plan. */
static const char expected_clusters[] =
    "cuOccupancyMaxActiveClusters(grid 8, block 576, shared 222848, cluster 8, function 331)\n"
    "cuOccupancyMaxActiveClusters(grid 4, block 576, shared 222848, cluster 4, function 331)\n"
    "cuOccupancyMaxActiveClusters(grid 2, block 576, shared 222848, cluster 2, function 331)\n"
    "cuOccupancyMaxActiveClusters(grid 8, block 256, shared 214592, cluster 8, function 321)\n"
    "cuOccupancyMaxActiveClusters(grid 4, block 256, shared 214592, cluster 4, function 321)\n"
    "cuOccupancyMaxActiveClusters(grid 2, block 256, shared 214592, cluster 2, function 321)\n";

/* %u: the dynamic shared memory of the plan. Four variants. */
static const char expected_load[] = "cuLibraryLoadData(ELF, 0, 0)\n"
                                    "cuLibraryGetKernel(lib 101, smla_sm90_prefill)\n"
                                    "cuKernelGetParamInfo(kernel 201, 0)\n"
                                    "cuKernelGetFunction(kernel 201)\n"
                                    "cuFuncGetAttribute(0, function 301)\n"
                                    "cuFuncSetAttribute(function 301, 8, %u)\n"
                                    "cuLibraryGetKernel(lib 101, smla_sm90_prefill_paged)\n"
                                    "cuKernelGetParamInfo(kernel 211, 0)\n"
                                    "cuKernelGetFunction(kernel 211)\n"
                                    "cuFuncGetAttribute(0, function 311)\n"
                                    "cuFuncSetAttribute(function 311, 8, %u)\n"
                                    "cuLibraryGetKernel(lib 101, smla_sm90_prefill_split)\n"
                                    "cuKernelGetParamInfo(kernel 221, 0)\n"
                                    "cuKernelGetFunction(kernel 221)\n"
                                    "cuFuncGetAttribute(0, function 321)\n"
                                    "cuFuncSetAttribute(function 321, 8, 214592)\n"
                                    "cuLibraryGetKernel(lib 101, smla_sm90_prefill_split_narrow)\n"
                                    "cuKernelGetParamInfo(kernel 231, 0)\n"
                                    "cuKernelGetFunction(kernel 231)\n"
                                    "cuFuncGetAttribute(0, function 331)\n"
                                    "cuFuncSetAttribute(function 331, 8, 222848)\n";

static unsigned planned_shared_bytes(void)
{
    smla_kernel_desc desc = prefill_desc();
    smla_support support = {.struct_size = sizeof support};

    desc.target = "90a";
    assert_int_equal(smla_query_support(NULL, &desc, &support), SMLA_OK);
    return support.shared_bytes;
}

static void makes_exactly_these_calls(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    char expected[4096], load[2048];

    snprintf(load, sizeof load, expected_load, planned_shared_bytes(), planned_shared_bytes());
    snprintf(expected, sizeof expected, "%s%s%s%s", expected_table, expected_device, load, expected_clusters);
    assert_string_equal(world->driver->log(), "");
    smla_kernel *kernel = must_prepare(world->context, &desc);
    assert_string_equal(world->driver->log(), expected);
    world->driver->clear_log();
    smla_kernel_destroy(kernel);
    assert_string_equal(world->driver->log(), "");
    smla_context_destroy(world->context);
    assert_string_equal(world->driver->log(), "cuLibraryUnload(lib 101)\n");
    world->context = NULL;
}

static void second_prepare_shares_code(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    smla_kernel *first = must_prepare(world->context, &desc);

    world->driver->clear_log();
    smla_kernel *second = must_prepare(world->context, &desc);
    char expected[2048];
    snprintf(expected, sizeof expected, "%s%s", expected_device, expected_clusters);
    assert_string_equal(world->driver->log(), expected);
    assert_ptr_not_equal(first, second);
    assert_int_equal(world->nvrtc->compiles, 1);
    smla_kernel_destroy(first);
    smla_kernel_destroy(second);
    const smla_stats_counters stats = stats_of(world->context);
    assert_int_equal(stats.compiles, 1);
    assert_int_equal(stats.misses, 1);
    assert_int_equal(stats.memory_hits, 1);
    assert_int_equal(stats.kernels_loaded, 1);
    assert_true(stats.driver_ns > stats.load_ns && stats.load_ns > 0);
}

static void test_34_another_cuda_context_gets_its_own_module(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    smla_kernel *first = must_prepare(world->context, &desc);

    world->driver->set_current((void *)0xc2);
    smla_kernel *second = must_prepare(world->context, &desc);
    assert_int_equal(world->nvrtc->compiles, 1);
    assert_int_equal(world->driver->loads, 2);
    smla_kernel_destroy(first);
    smla_kernel_destroy(second);
}

/* Every driver call in turn; with every failure the context must stay whole and the next attempt work. */
static void every_driver_call_may_fail(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    const smla_context_desc context_desc = stub_context_desc();
    int failures = 0, done_without = 0;

    for (int call = 1;; call++) {
        smla_context *context = NULL;
        smla_kernel *kernel = NULL;
        world_open_stubs(world);
        world->driver->script = (struct stub_script){.fail_call = call, .fail_code = 719};
        assert_int_equal(smla_context_create(&context_desc, &context), SMLA_OK);
        const smla_status status = smla_prepare(context, &desc, &kernel);
        const bool came = world->driver->failed() > 0;
        if (status == SMLA_OK) {
            world->driver->script.fail_call = 0; /* it would be the unloading */
            smla_kernel_destroy(kernel);
            smla_context_destroy(context);
            if (!came)
                break;
            done_without++;
            continue;
        }
        failures++;
        assert_null(kernel);
        assert_true(status == SMLA_ERROR_DRIVER || status == SMLA_ERROR_UNAVAILABLE);
        assert_true(strlen(last_error().message) > 20);
        if (status == SMLA_ERROR_DRIVER)
            assert_error(status, "CUDA_ERROR_LAUNCH_FAILED", "as scripted");
        kernel = must_prepare(context, &desc);
        smla_kernel_destroy(kernel);
        assert_int_equal(world->driver->stack_depth(), 1);
        smla_context_destroy(context);
        assert_int_equal(world->driver->live_libraries, 0);
    }
    assert_int_equal(failures, 28 + 13 + 10 + 1 + 4 * 5 + 6);
    assert_int_equal(done_without, 1); /* what part of the device a context has */
}

static void every_nvrtc_call_may_fail(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    const smla_context_desc context_desc = stub_context_desc();
    int failures = 0;

    for (int call = 1; call < 40; call++) {
        smla_context *context = NULL;
        smla_kernel *kernel = NULL;
        world_open_stubs(world);
        world->nvrtc->script = (struct stub_script){.fail_call = call, .fail_code = 7};
        assert_int_equal(smla_context_create(&context_desc, &context), SMLA_OK);
        if (smla_prepare(context, &desc, &kernel) != SMLA_OK) {
            failures++;
            assert_error(SMLA_ERROR_UNAVAILABLE, "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE", "libnvrtc_stub.so");
            kernel = must_prepare(context, &desc);
        }
        smla_kernel_destroy(kernel);
        smla_context_destroy(context);
        assert_int_equal(world->nvrtc->live_programs, 0);
    }
    /* version and archs 3, the empty program 4, the kernel's 4: its log may fail without harm. */
    assert_int_equal(failures, 3 + 4 + 4);
}

/* Two modules and a retained primary context: after the first "deinitialized" the driver is left alone. */
static void test_60_unload_stops_when_the_driver_is_going(void **state)
{
    struct world *world = *state;
    smla_context_desc context_desc = stub_context_desc();
    smla_kernel_desc desc = reference_desc();
    smla_context *context;

    world_serve_reference(world);
    context_desc.flags = SMLA_CONTEXT_PRIMARY;
    assert_int_equal(smla_context_create(&context_desc, &context), SMLA_OK);
    smla_kernel_destroy(must_prepare(context, &desc));
    desc.h_q = 16;
    smla_kernel_destroy(must_prepare(context, &desc));
    assert_int_equal(world->driver->loads, 2);
    world->driver->clear_log();
    world->driver->script = (struct stub_script){.fail_call = 1, .fail_code = 4};
    smla_context_destroy(context);
    assert_int_equal(world->driver->calls(NULL), 1);
    world->driver->live_libraries = 0;
    world->driver->retained_primaries = 0;
}

static void driver_too_old(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    smla_kernel *kernel = NULL;

    world->driver->version = 12030;
    assert_int_equal(smla_prepare(world->context, &desc, &kernel), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, "12.3", "12.4", "libcuda_stub.so");
    assert_null(kernel);
}

static void driver_symbol_missing(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    smla_kernel *kernel = NULL;

    world->driver->missing = "cuLibraryLoadData";
    world->driver->missing_why = 1;
    assert_int_equal(smla_prepare(world->context, &desc, &kernel), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, "does not have cuLibraryLoadData", "12.0");
    world->driver->missing_why = 2;
    assert_int_equal(smla_prepare(world->context, &desc, &kernel), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, "not with the signature", "cuLibraryLoadData");
}

static void no_driver(void **state)
{
    const smla_kernel_desc desc = prefill_desc();
    smla_context_desc context_desc = stub_context_desc();
    smla_context *context;
    smla_kernel *kernel = NULL;

    (void)state;
    context_desc.driver_path = "/nonexistent/libcuda.so.1";
    assert_int_equal(smla_context_create(&context_desc, &context), SMLA_OK);
    assert_int_equal(smla_prepare(context, &desc, &kernel), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, "/nonexistent/libcuda.so.1", "SMLA_DRIVER");
    assert_string_equal(last_error().path, "/nonexistent/libcuda.so.1");
    smla_context_destroy(context);
    context_desc.driver_path = STUB_NVRTC_PATH; /* a library, but no driver */
    assert_int_equal(smla_context_create(&context_desc, &context), SMLA_OK);
    assert_int_equal(smla_prepare(context, &desc, &kernel), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, "cuGetProcAddress_v2");
    smla_context_destroy(context);
}

static void driver_without_device(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    smla_kernel *kernel = NULL;

    world->driver->init_result = 100;
    assert_int_equal(smla_prepare(world->context, &desc, &kernel), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, "cuInit", "CUDA_ERROR_NO_DEVICE");
    assert_int_equal(last_error().native_code, 100);
}

static void no_current_context(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    smla_kernel *kernel = NULL;

    world->driver->set_current(NULL);
    assert_int_equal(smla_prepare(world->context, &desc, &kernel), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, "no CUDA context is current", "SMLA_CONTEXT_PRIMARY");
}

static void primary_context(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    smla_context_desc context_desc = stub_context_desc();
    smla_context *context;

    world->driver->set_current(NULL);
    context_desc.flags = SMLA_CONTEXT_PRIMARY;
    assert_int_equal(smla_context_create(&context_desc, &context), SMLA_OK);
    assert_int_equal(world->driver->retained_primaries, 1);
    world->driver->clear_log();
    smla_kernel *kernel = must_prepare(context, &desc);
    assert_memory_equal(world->driver->log(), "cuCtxGetCurrent()\ncuCtxPushCurrent(ctx a0)\n", 43);
    assert_non_null(strstr(world->driver->log(), "cuCtxPopCurrent()\n"));
    assert_int_equal(world->driver->stack_depth(), 0);
    smla_kernel_destroy(kernel);
    smla_context_destroy(context);
    assert_int_equal(world->driver->retained_primaries, 0);
}

static void primary_context_refused(void **state)
{
    struct world *world = *state;
    smla_context_desc context_desc = stub_context_desc();
    smla_context *context = NULL;

    context_desc.flags = SMLA_CONTEXT_PRIMARY;
    context_desc.device = 3;
    assert_int_equal(smla_context_create(&context_desc, &context), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, "device 3", "sees 1 CUDA device");
    context_desc.device = -1;
    assert_int_equal(smla_context_create(&context_desc, &context), SMLA_ERROR_INVALID_ARGUMENT);
    context_desc.device = 0;
    for (int call = 1; call <= 29 + 13; call++) {
        world_open_stubs(world);
        world->driver->script = (struct stub_script){.fail_call = call, .fail_code = 719};
        assert_int_not_equal(smla_context_create(&context_desc, &context), SMLA_OK);
        assert_null(context);
        assert_int_equal(world->driver->retained_primaries, 0);
    }
}

static void test_L2_device_without_kernels(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    smla_kernel *kernel = NULL;

    world->driver->cc_major = 8;
    assert_int_equal(smla_prepare(world->context, &desc, &kernel), SMLA_ERROR_UNSUPPORTED);
    assert_error(SMLA_ERROR_UNSUPPORTED, "compute capability 8.0", "9.0");
    assert_int_equal(world->nvrtc->compiles, 0);
}

static void test_55_target_of_another_device(void **state)
{
    struct world *world = *state;
    smla_kernel_desc desc = prefill_desc();
    smla_kernel *kernel = NULL;

    desc.target = "90";
    world->driver->cc_major = 10;
    world->driver->cc_minor = 3;
    assert_int_equal(smla_prepare(world->context, &desc, &kernel), SMLA_ERROR_UNSUPPORTED);
    assert_error(SMLA_ERROR_UNSUPPORTED, "target 90a", "9.0 alone", "10.3");
}

static void test_55_device_family_target(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = reference_desc();
    smla_context_desc context_desc = stub_context_desc();
    smla_context *context = NULL;

    world_serve_reference(world);
    world->driver->cc_major = 10;
    world->driver->cc_minor = 3;
    context_desc.flags = SMLA_CONTEXT_UNVERIFIED;
    assert_int_equal(smla_context_create(&context_desc, &context), SMLA_OK);
    smla_kernel_destroy(must_prepare(context, &desc));
    assert_non_null(strstr(world->nvrtc->log(), "--gpu-architecture=sm_103a"));
    smla_context_destroy(context);
}

static void device_too_small(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    smla_kernel *kernel = NULL;

    world->driver->max_shared_bytes = 101376;
    assert_int_equal(smla_prepare(world->context, &desc, &kernel), SMLA_ERROR_UNSUPPORTED);
    assert_error(SMLA_ERROR_UNSUPPORTED, "101376", "shared memory");
    world->driver->max_shared_bytes = 232448;
    world->driver->max_threads = 256;
    assert_int_equal(smla_prepare(world->context, &desc, &kernel), SMLA_ERROR_UNSUPPORTED);
    assert_error(SMLA_ERROR_UNSUPPORTED, "384 threads", "256");
    assert_int_equal(world->nvrtc->compiles, 0);
}

static void parameter_layout(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    const size_t right = world->driver->param_bytes;
    smla_kernel *kernel = NULL;

    world->driver->param_bytes = right - 8;
    assert_int_equal(smla_prepare(world->context, &desc, &kernel), SMLA_ERROR_INTERNAL);
    assert_error(SMLA_ERROR_INTERNAL, "parameter of bytes");
    world->driver->param_bytes = right;
    world->driver->param_offset = 16;
    assert_int_equal(smla_prepare(world->context, &desc, &kernel), SMLA_ERROR_INTERNAL);
    world->driver->param_offset = 0;
    world->driver->function_max_threads = 256;
    assert_int_equal(smla_prepare(world->context, &desc, &kernel), SMLA_ERROR_INTERNAL);
    assert_error(SMLA_ERROR_INTERNAL, "registers allow 256");
    assert_null(kernel);
    world->driver->function_max_threads = 576;
    smla_kernel_destroy(must_prepare(world->context, &desc));
    assert_int_equal(world->driver->loads, 1); /* the loaded library was kept and used */
}

static void test_20_load_failure_tells_everything(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    smla_kernel *kernel = NULL;

    world->driver->script = (struct stub_script){.fail_name = "cuLibraryGetKernel", .fail_call = 1, .fail_code = 209};
    assert_int_equal(smla_prepare(world->context, &desc, &kernel), SMLA_ERROR_DRIVER);
    assert_error(SMLA_ERROR_DRIVER, "cuLibraryGetKernel", "sm_90a", "NVRTC 12.9", "Stub 9.0", "driver API 12.8",
                 "CUDA_ERROR_NO_BINARY_FOR_GPU");
    assert_int_equal(last_error().native_code, 209);
}

/* What to do is told beside the driver's name for it; a number without a name stands for itself. */
static void test_20_load_failure_tells_what_to_do(void **state)
{
    static const struct {
        int code;
        const char *text;
    } rows[] = {
        {200, "the code is what its compiler made (the digest was checked): update the driver"},
        {209, "compile it for this device with an NVRTC that is no newer than the driver"},
        {222, "update the driver, or name an older NVRTC"},
        {900, "a stream is being captured, and this driver does not allow it meanwhile: do it before the capture"},
        {901, "an earlier call has made the stream's capture invalid"},
        {906, "do it before the capture"},
        {9999, "failed: CUresult 9999 (as scripted)"},
    };
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    smla_kernel *kernel = NULL;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        world->driver->clear_log();
        world->driver->script =
            (struct stub_script){.fail_name = "cuLibraryLoadData", .fail_call = 1, .fail_code = rows[i].code};
        assert_int_equal(smla_prepare(world->context, &desc, &kernel), SMLA_ERROR_DRIVER);
        assert_error(SMLA_ERROR_DRIVER, "cuLibraryLoadData", rows[i].text);
    }
}

static void refusals_of_the_generator(void **state)
{
    struct world *world = *state;
    smla_kernel_desc desc = prefill_desc();
    smla_kernel *kernel = NULL;

    desc.kv_format = "v32";
    assert_int_equal(smla_prepare(world->context, &desc, &kernel), SMLA_ERROR_UNSUPPORTED);
    assert_error(SMLA_ERROR_UNSUPPORTED, "kv_format v32");
    desc = prefill_desc();
    desc.target = "77";
    assert_int_equal(smla_prepare(world->context, &desc, &kernel), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "77");
    assert_int_equal(smla_prepare(NULL, &desc, &kernel), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_prepare(world->context, NULL, &kernel), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_prepare(world->context, &desc, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_null(kernel);
}

/* On failure *out stays what it was, bit by bit. */
static void outputs_are_untouched(void **state)
{
    struct world *world = *state;
    smla_kernel_desc desc = prefill_desc();
    smla_kernel *const poison = (smla_kernel *)(uintptr_t)0xdead;
    smla_kernel *kernel = poison;
    smla_context_desc context_desc = stub_context_desc();
    smla_context *context = (smla_context *)(uintptr_t)0xdead;
    smla_support support, before;

    desc.kv_format = "v32";
    assert_int_not_equal(smla_prepare(world->context, &desc, &kernel), SMLA_OK);
    assert_ptr_equal(kernel, poison);
    context_desc.flags = 32;
    assert_int_not_equal(smla_context_create(&context_desc, &context), SMLA_OK);
    assert_ptr_equal(context, (void *)(uintptr_t)0xdead);
    memset(&support, 0xee, sizeof support);
    support.struct_size = sizeof support;
    before = support;
    desc.op = 9;
    assert_int_not_equal(smla_query_support(world->context, &desc, &support), SMLA_OK);
    assert_memory_equal(&support, &before, sizeof support);
}

/* An older caller's description ends before `target`: the device's own. */
static void older_description(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc full = prefill_desc();
    smla_kernel_desc *old = older_struct(&full, offsetof(smla_kernel_desc, target));

    smla_kernel_destroy(must_prepare(world->context, old));
    free(old);
}

/* A context that has not opened the driver may go through a fork. */
static void test_58_child_forked_before_init_works(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    int code = -1;

    const pid_t child = fork();
    if (child == 0) {
        smla_kernel *kernel = NULL;
        _exit(smla_prepare(world->context, &desc, &kernel) == SMLA_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    smla_kernel_destroy(must_prepare(world->context, &desc));
}

static void test_58_forked_child_is_refused(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    smla_kernel *kernel = must_prepare(world->context, &desc);
    int code = -1;

    const pid_t child = fork();
    if (child == 0) {
        smla_kernel *another = NULL;
        const smla_status status = smla_prepare(world->context, &desc, &another);
        const bool says_so = strstr(last_error().message, "forked") != NULL;
        world->driver->clear_log();
        smla_kernel_destroy(kernel);
        smla_context_destroy(world->context);
        _exit(status == SMLA_ERROR_UNAVAILABLE && says_so && world->driver->calls(NULL) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    smla_kernel_destroy(kernel);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(makes_exactly_these_calls),
        TEST(second_prepare_shares_code),
        TEST(test_34_another_cuda_context_gets_its_own_module),
        TEST(every_driver_call_may_fail),
        TEST(every_nvrtc_call_may_fail),
        TEST(test_60_unload_stops_when_the_driver_is_going),
        TEST(driver_too_old),
        TEST(driver_symbol_missing),
        TEST(no_driver),
        TEST(driver_without_device),
        TEST(no_current_context),
        TEST(primary_context),
        TEST(primary_context_refused),
        TEST(test_L2_device_without_kernels),
        TEST(test_55_target_of_another_device),
        TEST(test_55_device_family_target),
        TEST(device_too_small),
        TEST(parameter_layout),
        TEST(test_20_load_failure_tells_everything),
        TEST(test_20_load_failure_tells_what_to_do),
        TEST(refusals_of_the_generator),
        TEST(outputs_are_untouched),
        TEST(older_description),
        TEST(test_58_child_forked_before_init_works),
        TEST(test_58_forked_child_is_refused),
    };
    return cmocka_run_group_tests_name("runtime.prepare", tests, NULL, NULL);
}
