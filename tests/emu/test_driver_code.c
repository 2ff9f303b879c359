/* Modules, libraries, kernels, launches: answers, errors, and what stays in the context after a fault. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver_harness.h"
#include "drv_extra.h"

static const char zeros[64];
static const char cubin[64] = "\x7f"
                              "ELF";
static const char unknown_opcode[] = PTX_HEAD ".visible .entry k()\n{\n  warble.u32 %r1;\n}\n";
static const char other_target[] =
    ".version 8.6\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{\n  ret;\n}\n";
static const char old_target[] = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n  ret;\n}\n";

static void test_vecadd(void **state)
{
    uint64_t a = 0, b = 0, c = 0;
    float in[1000], out[1000];
    uint32_t n = 1000;
    (void)state;
    for (uint32_t i = 0; i < n; i++)
        in[i] = (float)i;
    ok(cuMemAlloc_v2(&a, sizeof in));
    ok(cuMemAlloc_v2(&b, sizeof in));
    ok(cuMemAlloc_v2(&c, sizeof in));
    ok(cuMemcpyHtoD_v2(a, in, sizeof in));
    ok(cuMemcpyHtoD_v2(b, in, sizeof in));
    const cu_function function = load(ptx_vecadd, "vecadd");
    void *params[] = {&a, &b, &c, &n};
    ok(cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    ok(cuCtxSynchronize());
    ok(cuMemcpyDtoH_v2(out, c, sizeof out));
    for (uint32_t i = 0; i < n; i++)
        assert_true(out[i] == 2 * in[i]);
}

static void test_packed_parameters(void **state)
{
    (void)state;
    uint64_t word = new_word(41);
    size_t size = sizeof word;
    const cu_function bump = load(ptx_small, "bump");
    void *extra[] = {(void *)1, &word, (void *)2, &size, NULL};
    ok(cuLaunchKernel(bump, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    assert_int_equal(read_word(word), 42);
    void *params[] = {&word};
    gives(ERROR_INVALID_VALUE, cuLaunchKernel(bump, 1, 1, 1, 1, 1, 1, 0, NULL, params, extra));
    gives(ERROR_INVALID_VALUE, cuLaunchKernel(bump, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    size = 4;
    gives(ERROR_INVALID_VALUE, cuLaunchKernel(bump, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    extra[0] = (void *)7;
    gives(ERROR_INVALID_VALUE, cuLaunchKernel(bump, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
}

static void test_modules(void **state)
{
    cu_module module = NULL;
    cu_function function = NULL, functions[16] = {NULL};
    uint64_t address = 0;
    size_t size = 0;
    unsigned int count = 0;
    uint32_t value = 0;
    int mode = 0;
    (void)state;
    gives(ERROR_INVALID_IMAGE, cuModuleLoadData(&module, zeros));
    gives(ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&module, cubin));
    gives(ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&module, other_target));
    gives(ERROR_INVALID_PTX, cuModuleLoadData(&module, unknown_opcode));
    gives(ERROR_INVALID_VALUE, cuModuleLoadData(&module, NULL));
    gives(ERROR_FILE_NOT_FOUND, cuModuleLoad(&module, "/nonexistent.ptx"));
    ok(cuModuleLoadData(&module, old_target));
    ok(cuModuleUnload(module));
    ok(cuModuleLoadData(&module, ptx_vecadd));
    gives(ERROR_NOT_FOUND, cuModuleGetFunction(&function, module, "vecsub"));
    ok(cuModuleGetFunction(&function, module, "vecadd"));
    ok(cuModuleGetGlobal_v2(&address, &size, module, "counter"));
    assert_int_equal(size, 4);
    ok(cuMemcpyDtoH_v2(&value, address, 4));
    assert_int_equal(value, 7);
    gives(ERROR_NOT_FOUND, cuModuleGetGlobal_v2(&address, &size, module, "other"));
    ok(cuModuleGetFunctionCount(&count, module));
    assert_int_equal(count, 1);
    ok(cuModuleEnumerateFunctions(functions, 16, module));
    assert_ptr_equal(functions[0], function);
    ok(cuModuleUnload(module));
    gives(ERROR_INVALID_HANDLE, cuModuleUnload(module));
    gives(ERROR_INVALID_HANDLE, cuModuleGetFunction(&function, module, "vecadd"));
    gives(ERROR_INVALID_HANDLE, launch_one(functions[0], 1, NULL, NULL));
    gives(ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(&value, address, 4));
    ok(cuModuleGetLoadingMode(&mode));
    assert_int_equal(mode, DRV_CU_MODULE_LAZY_LOADING);
}

static void test_jit_logs(void **state)
{
    char info[256] = "x", error[256] = "x", small[8] = "x";
    int options[] = {DRV_CU_JIT_INFO_LOG_BUFFER, DRV_CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, DRV_CU_JIT_ERROR_LOG_BUFFER,
                     DRV_CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {info, (void *)sizeof info, error, (void *)sizeof error};
    cu_module module = NULL;
    cu_library library = NULL;
    (void)state;
    gives(ERROR_INVALID_PTX, cuModuleLoadDataEx(&module, unknown_opcode, 4, options, values));
    assert_string_equal(info, "");
    assert_non_null(strstr(error, "warble"));
    assert_int_equal((uintptr_t)values[3], strlen(error));
    values[2] = small;
    values[3] = (void *)sizeof small;
    gives(ERROR_INVALID_PTX, cuLibraryLoadData(&library, unknown_opcode, options, values, 4, NULL, NULL, 0));
    assert_int_equal(strlen(small), sizeof small - 1);
    values[2] = error;
    values[3] = (void *)sizeof error;
    gives(ERROR_NO_BINARY_FOR_GPU, cuModuleLoadDataEx(&module, cubin, 4, options, values));
    assert_non_null(strstr(error, "the emulated device runs PTX"));
    values[1] = (void *)sizeof info;
    values[3] = (void *)sizeof error;
    ok(cuModuleLoadDataEx(&module, ptx_small, 4, options, values));
    assert_string_equal(error, "");
}

/* Loading tells nothing: errors come at the first use (measured, facts/jit.md §0.2). */
static void test_libraries_are_lazy(void **state)
{
    static const struct {
        const char *image;
        int error;
    } cases[] = {{zeros, DRV_CUDA_ERROR_INVALID_IMAGE},
                 {cubin, DRV_CUDA_ERROR_NO_BINARY_FOR_GPU},
                 {other_target, DRV_CUDA_ERROR_NO_BINARY_FOR_GPU},
                 {unknown_opcode, DRV_CUDA_ERROR_INVALID_PTX}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cu_library library = NULL;
        cu_kernel kernel = NULL;
        unsigned int count = 0;
        ok(cuLibraryLoadData(&library, cases[i].image, NULL, NULL, 0, NULL, NULL, 0));
        assert_int_equal(cuLibraryGetKernel(&kernel, library, "k"), cases[i].error);
        assert_int_equal(cuLibraryGetKernelCount(&count, library), cases[i].error);
        ok(cuLibraryUnload(library));
        gives(ERROR_INVALID_HANDLE, cuLibraryUnload(library));
    }
}

static void test_libraries(void **state)
{
    cu_library library = NULL, got = NULL;
    cu_kernel kernel = NULL, kernels[2] = {NULL};
    cu_function function = NULL, again = NULL;
    cu_module module = NULL;
    const char *name = NULL;
    unsigned int count = 0;
    size_t offset = 9, size = 0;
    uint64_t address = 0;
    char path[] = "/tmp/emu-library-XXXXXX";
    (void)state;
    const int fd = mkstemp(path);
    assert_true(write(fd, ptx_vecadd, strlen(ptx_vecadd)) > 0);
    close(fd);
    ok(cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
    unlink(path);
    ok(cuLibraryGetKernelCount(&count, library));
    assert_int_equal(count, 1);
    ok(cuLibraryGetKernel(&kernel, library, "vecadd"));
    gives(ERROR_NOT_FOUND, cuLibraryGetKernel(&kernels[0], library, "none"));
    ok(cuLibraryEnumerateKernels(kernels, 2, library));
    assert_ptr_equal(kernels[0], kernel);
    ok(cuKernelGetName(&name, kernel));
    assert_string_equal(name, "vecadd");
    ok(cuKernelGetLibrary(&got, kernel));
    assert_ptr_equal(got, library);
    ok(cuKernelGetFunction(&function, kernel));
    ok(cuKernelGetFunction(&again, kernel));
    assert_ptr_equal(function, again);
    ok(cuKernelGetParamInfo(kernel, 3, &offset, &size));
    assert_true(offset == 24 && size == 4);
    gives(ERROR_INVALID_VALUE, cuKernelGetParamInfo(kernel, 4, &offset, &size));
    ok(cuFuncGetParamInfo(function, 1, &offset, NULL));
    assert_int_equal(offset, 8);
    ok(cuFuncGetName(&name, function));
    ok(cuFuncGetModule(&module, function));
    ok(cuFuncLoad(function));
    ok(cuLibraryGetModule(&module, library));
    gives(ERROR_INVALID_HANDLE, cuModuleUnload(module)); /* the library's own */
    ok(cuLibraryGetGlobal(&address, &size, library, "counter"));
    gives(ERROR_NOT_FOUND, cuLibraryGetManaged(&address, &size, library, "counter"));
    ok(cuLibraryUnload(library));
    gives(ERROR_INVALID_HANDLE, cuKernelGetName(&name, kernel));
    gives(ERROR_INVALID_HANDLE, cuFuncGetName(&name, function));
}

/* A CUkernel follows the context, a CUfunction does not (measured, facts/jit.md 3.2). */
static void test_functions_belong_to_contexts(void **state)
{
    cu_library library = NULL;
    cu_kernel kernel = NULL;
    cu_function function = NULL;
    cu_context other = NULL;
    uint64_t word = new_word(1);
    void *params[] = {&word};
    (void)state;
    ok(cuLibraryLoadData(&library, ptx_small, NULL, NULL, 0, NULL, NULL, 0));
    ok(cuLibraryGetKernel(&kernel, library, "bump"));
    ok(cuKernelGetFunction(&function, kernel));
    ok(launch_one((cu_function)(void *)kernel, 1, NULL, params));
    ok(cuCtxCreate_v2(&other, 0, 0));
    ok(launch_one((cu_function)(void *)kernel, 1, NULL, params));
    gives(ERROR_INVALID_HANDLE, launch_one(function, 1, NULL, params));
    ok(cuCtxDestroy_v2(other));
    ok(launch_one(function, 1, NULL, params));
    assert_int_equal(read_word(word), 4);
    ok(cuLibraryUnload(library));
}

static int attribute_of(cu_function function, int attribute)
{
    int value = -99;
    ok(cuFuncGetAttribute(&value, attribute, function));
    return value;
}

static void test_attributes(void **state)
{
    const cu_function bump = load(ptx_small, "bump");
    int value = 0;
    (void)state;
    assert_int_equal(attribute_of(load(ptx_small, "wide"), DRV_CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 64);
    assert_int_equal(attribute_of(load(ptx_small, "exact"), DRV_CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 64);
    assert_int_equal(attribute_of(load(ptx_small, "pair"), DRV_CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH), 2);
    assert_int_equal(attribute_of(load(ptx_small, "racy"), DRV_CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 4);
    assert_true(attribute_of(bump, DRV_CU_FUNC_ATTRIBUTE_NUM_REGS) > 0);
    assert_int_equal(attribute_of(bump, DRV_CU_FUNC_ATTRIBUTE_BINARY_VERSION), 90);
    assert_int_equal(attribute_of(bump, DRV_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), 49152);
    for (int attribute = 0; attribute <= 15; attribute++)
        attribute_of(bump, attribute);
    gives(ERROR_INVALID_VALUE, cuFuncGetAttribute(&value, 16, bump));
    gives(ERROR_INVALID_VALUE, cuFuncSetAttribute(bump, DRV_CU_FUNC_ATTRIBUTE_NUM_REGS, 3));
    ok(cuFuncSetAttribute(bump, DRV_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448));
    gives(ERROR_INVALID_VALUE, cuFuncSetAttribute(bump, DRV_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232449));
    gives(ERROR_INVALID_VALUE,
          cuFuncSetAttribute(load(ptx_small, "racy"), DRV_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448));
    ok(cuFuncSetAttribute(bump, DRV_CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100));
    ok(cuFuncSetCacheConfig(bump, 1));
    ok(cuFuncIsLoaded(&value, bump));
    assert_int_equal(value, 1);
}

static int launch_grid(cu_function function, unsigned int grid, unsigned int block, unsigned int shared,
                       struct cu_launch_attribute *attributes, unsigned int count)
{
    static uint64_t word;
    const struct cu_launch_config config = {.grid = {grid, 1, 1},
                                            .block = {block, 1, 1},
                                            .shared_bytes = shared,
                                            .attributes = attributes,
                                            .attribute_count = count};
    return cuLaunchKernelEx(&config, function, (void *[]){&word}, NULL);
}

static void test_launch_checks(void **state)
{
    const cu_function wide = load(ptx_small, "wide"), exact = load(ptx_small, "exact");
    uint64_t word = 0;
    (void)state;
    ok(launch_grid(wide, 1, 64, 0, NULL, 0));
    gives(ERROR_INVALID_VALUE, launch_grid(wide, 1, 65, 0, NULL, 0));
    gives(ERROR_INVALID_VALUE, launch_grid(wide, 0, 64, 0, NULL, 0));
    gives(ERROR_INVALID_VALUE, launch_grid(wide, 1, 0, 0, NULL, 0));
    gives(ERROR_INVALID_VALUE, launch_grid(wide, 1, 2048, 0, NULL, 0));
    gives(ERROR_INVALID_VALUE, cuLaunchKernel(wide, 1, 65536, 1, 1, 1, 1, 0, NULL, (void *[]){&word}, NULL));
    gives(ERROR_INVALID_VALUE, cuLaunchKernel(wide, 1, 1, 1, 1, 1, 65, 0, NULL, (void *[]){&word}, NULL));
    gives(ERROR_INVALID_VALUE, launch_grid(exact, 1, 64, 0, NULL, 0));
    ok(cuLaunchKernel(exact, 1, 1, 1, 32, 2, 1, 0, NULL, (void *[]){&word}, NULL));
    gives(ERROR_INVALID_VALUE, launch_grid(wide, 1, 64, 49153, NULL, 0));
    ok(cuFuncSetAttribute(wide, DRV_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
    ok(launch_grid(wide, 1, 64, 100000, NULL, 0));
    gives(ERROR_INVALID_VALUE, cuLaunchKernelEx(NULL, wide, NULL, NULL));
    gives(ERROR_INVALID_HANDLE, launch_grid(NULL, 1, 1, 0, NULL, 0));
    gives(ERROR_INVALID_HANDLE, launch_grid((cu_function)&word, 1, 1, 0, NULL, 0));
    gives(ERROR_INVALID_HANDLE, launch_one(wide, 1, (cu_stream)&word, (void *[]){&word}));
    ok(cuCtxSynchronize()); /* nothing of this stays */
}

static struct cu_launch_attribute cluster_of(unsigned int x)
{
    return (struct cu_launch_attribute){.id = DRV_CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.dim = {x, 1, 1}};
}

static void test_launch_attributes(void **state)
{
    const cu_function wide = load(ptx_small, "wide"), pair = load(ptx_small, "pair");
    struct cu_launch_attribute one = cluster_of(2), eight = cluster_of(8), sixteen = cluster_of(16),
                               none = cluster_of(0);
    (void)state;
    ok(launch_grid(wide, 4, 32, 0, &one, 1));
    gives(ERROR_INVALID_CLUSTER_SIZE, launch_grid(wide, 3, 32, 0, &one, 1));
    gives(ERROR_INVALID_CLUSTER_SIZE, launch_grid(wide, 3, 32, 0, &none, 1));
    ok(launch_grid(wide, 8, 32, 0, &eight, 1));
    gives(ERROR_INVALID_CLUSTER_SIZE, launch_grid(wide, 16, 32, 0, &sixteen, 1));
    ok(cuFuncSetAttribute(wide, DRV_CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    ok(launch_grid(wide, 16, 32, 0, &sixteen, 1));
    ok(launch_grid(pair, 2, 32, 0, NULL, 0)); /* its own cluster */
    ok(launch_grid(pair, 2, 32, 0, &one, 1));
    gives(ERROR_INVALID_CLUSTER_SIZE, launch_grid(pair, 3, 32, 0, NULL, 0));
    gives(ERROR_INVALID_CLUSTER_SIZE, launch_grid(pair, 8, 32, 0, &eight, 1));
    struct cu_launch_attribute several[] = {
        {.id = DRV_CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, .value.number = 1},
        {.id = DRV_CU_LAUNCH_ATTRIBUTE_PRIORITY, .value.number = -1},
        {.id = DRV_CU_LAUNCH_ATTRIBUTE_IGNORE}};
    ok(launch_grid(wide, 1, 32, 0, several, 3));
    several[2].id = 99;
    gives(ERROR_INVALID_VALUE, launch_grid(wide, 1, 32, 0, several, 3));
    gives(ERROR_INVALID_VALUE, launch_grid(wide, 1, 32, 0, NULL, 1));
    struct cu_launch_attribute event = {.id = DRV_CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};
    gives(ERROR_INVALID_HANDLE, launch_grid(wide, 1, 32, 0, &event, 1));
    ok(cuEventCreate(&event.value.event.event, DRV_CU_EVENT_DISABLE_TIMING));
    ok(launch_grid(wide, 1, 32, 0, &event, 1));
    gives(ERROR_NOT_SUPPORTED, cuLaunchCooperativeKernel(wide, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&event}));
}

static void test_occupancy(void **state)
{
    const cu_function bump = load(ptx_small, "bump");
    int blocks = 0, grid = 0, threads = 0, clusters = 0;
    size_t bytes = 0;
    struct cu_launch_attribute attribute = cluster_of(2);
    struct cu_launch_config config = {
        .grid = {2, 1, 1}, .block = {128, 1, 1}, .attributes = &attribute, .attribute_count = 1};
    (void)state;
    ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bump, 32, 0));
    assert_int_equal(blocks, 32);
    ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bump, 1024, 0));
    assert_true(blocks == 1 || blocks == 2);
    ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bump, 128, 100000));
    assert_int_equal(blocks, 2);
    ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, load(ptx_small, "wide"), 128, 0));
    assert_int_equal(blocks, 0);
    gives(ERROR_INVALID_VALUE, cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bump, 0, 0));
    ok(cuOccupancyMaxPotentialBlockSize(&grid, &threads, bump, NULL, 0, 0));
    assert_true(threads % 32 == 0 && threads > 0 && grid % 132 == 0);
    ok(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, bump, 2, 128));
    assert_true(bytes > 100000 && bytes < 120000);
    ok(cuOccupancyMaxPotentialClusterSize(&clusters, bump, &config));
    assert_int_equal(clusters, 8);
    ok(cuOccupancyMaxActiveClusters(&clusters, bump, &config));
    assert_true(clusters > 0 && clusters % 66 == 0);
}

/* ---- Faults ---- */

/* The launch succeeds, what follows does not, until the context is gone. */
static void check_sticky(cu_function function, unsigned int threads, void **params, int error)
{
    uint64_t memory = 0;
    int device = 0;
    cu_stream stream = NULL;
    ok(cuStreamCreate(&stream, 0));
    ok(launch_one(function, threads, stream, params));
    assert_int_equal(cuStreamSynchronize(stream), error);
    assert_int_equal(cuCtxSynchronize(), error);
    assert_int_equal(cuMemAlloc_v2(&memory, 4), error);
    assert_int_equal(launch_one(function, threads, NULL, params), error);
    ok(cuCtxGetDevice(&device)); /* questions are answered */
}

static void test_an_illegal_address(void **state)
{
    uint64_t word = new_word(0), nowhere = word + 4;
    (void)state;
    check_sticky(load(ptx_small, "bump"), 1, (void *[]){&nowhere}, DRV_CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void test_freed_memory(void **state)
{
    uint64_t word = new_word(0);
    (void)state;
    ok(cuMemFree_v2(word));
    check_sticky(load(ptx_small, "bump"), 1, (void *[]){&word}, DRV_CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void test_a_misaligned_address(void **state)
{
    uint64_t word = 0;
    (void)state;
    ok(cuMemAlloc_v2(&word, 16));
    check_sticky(load(ptx_small, "misaligned"), 1, (void *[]){&word}, DRV_CUDA_ERROR_MISALIGNED_ADDRESS);
}

static void test_a_deadlock(void **state)
{
    (void)state;
    check_sticky(load(ptx_small, "stuck"), 32, NULL, DRV_CUDA_ERROR_LAUNCH_TIMEOUT);
}

static void test_a_race(void **state)
{
    char message[256] = "";
    (void)state;
    const uint64_t before = smla_emu_finding_count();
    check_sticky(load(ptx_small, "racy"), 64, NULL, DRV_CUDA_ERROR_LAUNCH_FAILED);
    assert_true(smla_emu_finding_count() > before);
    assert_true(smla_emu_message(message, sizeof message) > 0);
}

static void test_a_trap(void **state)
{
    uint64_t memory = 0;
    (void)state;
    ok(launch_one(load(ptx_small, "trapped"), 32, NULL, NULL));
    const int error = cuCtxSynchronize();
    assert_true(error != DRV_CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc_v2(&memory, 4), error);
}

static void test_reading_what_was_never_written(void **state)
{
    uint64_t memory = 0;
    (void)state;
    ok(cuMemAlloc_v2(&memory, 4));
    check_sticky(load(ptx_small, "bump"), 1, (void *[]){&memory}, DRV_CUDA_ERROR_LAUNCH_FAILED);
}

/* bump does not wait for the launch ahead of it: fine, unless it was launched so that it may start before that ends. */
static void test_an_early_access(void **state)
{
    struct cu_launch_attribute early = {.id = DRV_CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
    uint64_t word = new_word(0);
    const struct cu_launch_config config = {
        .grid = {1, 1, 1}, .block = {1, 1, 1}, .attributes = &early, .attribute_count = 1};
    const cu_function bump = load(ptx_small, "bump");
    char message[256] = "";
    (void)state;
    ok(cuLaunchKernelEx(&config, bump, (void *[]){&word}, NULL));
    ok(cuCtxSynchronize());
    early.value.number = 1;
    ok(cuLaunchKernelEx(&config, bump, (void *[]){&word}, NULL));
    gives(ERROR_LAUNCH_FAILED, cuCtxSynchronize());
    assert_true(smla_emu_message(message, sizeof message) > 0);
    assert_non_null(strstr(message, "before griddepcontrol.wait"));
}

/* Another context lives on. */
static void test_a_fault_stays_in_its_context(void **state)
{
    cu_context other = NULL;
    (void)state;
    ok(cuCtxCreate_v2(&other, 0, 0));
    ok(launch_one(load(ptx_small, "stuck"), 32, NULL, NULL));
    gives(ERROR_LAUNCH_TIMEOUT, cuCtxSynchronize());
    ok(cuCtxDestroy_v2(other));
    ok(cuCtxSynchronize());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_context(test_vecadd),
        in_context(test_packed_parameters),
        in_context(test_modules),
        in_context(test_jit_logs),
        in_context(test_libraries_are_lazy),
        in_context(test_libraries),
        in_context(test_functions_belong_to_contexts),
        in_context(test_attributes),
        in_context(test_launch_checks),
        in_context(test_launch_attributes),
        in_context(test_occupancy),
        in_context(test_an_illegal_address),
        in_context(test_freed_memory),
        in_context(test_a_misaligned_address),
        in_context(test_a_deadlock),
        in_context(test_a_race),
        in_context(test_a_trap),
        in_context(test_reading_what_was_never_written),
        in_context(test_an_early_access),
        in_context(test_a_fault_stays_in_its_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
