/* Devices, contexts, memory, copies, streams, events: what they answer, and with which error. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "driver_harness.h"

static void test_device(void **state)
{
    int device = -1, count = 0, value = 0, major = 0, minor = -1;
    size_t bytes = 0;
    char name[32] = "", tiny[5] = "", bus[32] = "";
    struct cu_uuid uuid;
    (void)state;
    ok(cuDeviceGetCount(&count));
    assert_int_equal(count, 1);
    ok(cuDeviceGet(&device, 0));
    gives(ERROR_INVALID_DEVICE, cuDeviceGet(&device, 1));
    gives(ERROR_INVALID_DEVICE, cuDeviceGet(&device, -1));
    gives(ERROR_INVALID_VALUE, cuDeviceGet(NULL, 0));
    ok(cuDeviceGetName(name, sizeof name, device));
    assert_string_equal(name, "smla emulated sm_90");
    ok(cuDeviceGetName(tiny, sizeof tiny, device));
    assert_string_equal(tiny, "smla");
    gives(ERROR_INVALID_DEVICE, cuDeviceGetName(name, sizeof name, 7));
    ok(cuDeviceTotalMem_v2(&bytes, device));
    assert_true(bytes > 1 << 20);
    ok(cuDeviceComputeCapability(&major, &minor, device));
    assert_int_equal(major * 10 + minor, 90);
    ok(cuDeviceGetUuid_v2(&uuid, device));
    ok(cuDeviceGetPCIBusId(bus, sizeof bus, device));
    ok(cuDeviceGetByPCIBusId(&device, bus));
    gives(ERROR_INVALID_DEVICE, cuDeviceGetByPCIBusId(&device, "1"));
    ok(cuDeviceGetAttribute(&value, 16, device));
    assert_int_equal(value, 132);
    ok(cuDeviceGetAttribute(&value, 97, device));
    assert_int_equal(value, 232448);
    ok(cuDeviceGetAttribute(&value, 120, device)); /* cluster launch */
    assert_int_equal(value, 1);
    for (int attribute = 1; attribute <= 147; attribute++)
        ok(cuDeviceGetAttribute(&value, attribute, device));
    gives(ERROR_INVALID_VALUE, cuDeviceGetAttribute(&value, 0, device));
    gives(ERROR_INVALID_VALUE, cuDeviceGetAttribute(&value, 148, device));
    gives(ERROR_INVALID_DEVICE, cuDeviceGetAttribute(&value, 1, 1));
}

static void test_primary_context(void **state)
{
    cu_context first = NULL, second = NULL, before = NULL;
    unsigned int flags = 9;
    int active = 9;
    uint64_t id = 0, again = 0, memory = 0;
    (void)state;
    ok(cuCtxGetCurrent(&before));
    ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 0);
    gives(ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease_v2(0));
    gives(ERROR_INVALID_DEVICE, cuDevicePrimaryCtxRetain(&first, 1));
    ok(cuDevicePrimaryCtxRetain(&first, 0));
    ok(cuDevicePrimaryCtxRetain(&second, 0));
    assert_ptr_equal(first, second);
    ok(cuCtxGetId(first, &id));
    ok(cuDevicePrimaryCtxSetFlags_v2(0, 4));
    ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(flags, 4);
    assert_int_equal(active, 1);
    ok(cuCtxPushCurrent_v2(first));
    ok(cuMemAlloc_v2(&memory, 100));
    ok(cuDevicePrimaryCtxRelease_v2(0));
    ok(cuCtxSynchronize());
    ok(cuDevicePrimaryCtxRelease_v2(0));
    gives(ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
    ok(cuCtxPopCurrent_v2(&second));
    gives(ERROR_INVALID_CONTEXT, cuCtxPushCurrent_v2(first));
    ok(cuDevicePrimaryCtxRetain(&first, 0));
    ok(cuCtxGetId(first, &again));
    assert_true(id != again);
    ok(cuDevicePrimaryCtxReset_v2(0));
    ok(cuCtxGetCurrent(&second));
    assert_ptr_equal(before, second);
}

static void test_context_stack(void **state)
{
    cu_context mine = *state, other = NULL, got = NULL;
    int device = -1;
    unsigned int version = 0, flags = 0;
    uint64_t id = 0, other_id = 0;
    ok(cuCtxCreate_v4(&other, NULL, 1, 0));
    ok(cuCtxGetCurrent(&got));
    assert_ptr_equal(got, other);
    ok(cuCtxGetId(NULL, &id));
    ok(cuCtxGetId(mine, &other_id));
    assert_true(id != other_id);
    ok(cuCtxGetFlags(&flags));
    assert_int_equal(flags, 1);
    ok(cuCtxGetDevice(&device));
    ok(cuCtxGetDevice_v2(&device, mine));
    assert_int_equal(device, 0);
    ok(cuCtxGetApiVersion(other, &version));
    assert_true(version > 0);
    ok(cuCtxSetCurrent(mine));
    ok(cuCtxGetCurrent(&got));
    assert_ptr_equal(got, mine);
    gives(ERROR_CONTEXT_IS_DESTROYED, (ok(cuCtxPushCurrent_v2(other)), ok(cuCtxPushCurrent_v2(mine)),
                                       ok(cuCtxDestroy_v2(other)), ok(cuCtxPopCurrent_v2(&got)), cuCtxSynchronize()));
    ok(cuCtxPopCurrent_v2(NULL));
    gives(ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(other));
    gives(ERROR_INVALID_CONTEXT, cuCtxPushCurrent_v2(other));
    gives(ERROR_INVALID_CONTEXT, cuCtxSetCurrent(other));
    gives(ERROR_INVALID_CONTEXT, cuCtxPushCurrent_v2(NULL));
    ok(cuCtxPushCurrent_v2(mine));
    ok(cuCtxSetCurrent(NULL)); /* takes the top away */
    ok(cuCtxPopCurrent_v2(&got));
    ok(cuCtxPopCurrent_v2(&got));
    gives(ERROR_INVALID_CONTEXT, cuCtxPopCurrent_v2(&got));
    gives(ERROR_INVALID_CONTEXT, cuCtxSynchronize());
    gives(ERROR_INVALID_CONTEXT, cuCtxGetDevice(&device));
    ok(cuCtxPushCurrent_v2(mine));
}

static void test_context_settings(void **state)
{
    size_t value = 0;
    int least = 1, greatest = 1, config = 9;
    (void)state;
    ok(cuCtxGetLimit(&value, DRV_CU_LIMIT_STACK_SIZE));
    assert_int_equal(value, 1024);
    ok(cuCtxSetLimit(DRV_CU_LIMIT_STACK_SIZE, 4096));
    ok(cuCtxGetLimit(&value, DRV_CU_LIMIT_STACK_SIZE));
    assert_int_equal(value, 4096);
    gives(ERROR_UNSUPPORTED_LIMIT, cuCtxGetLimit(&value, 3));
    gives(ERROR_UNSUPPORTED_LIMIT, cuCtxSetLimit(99, 1));
    ok(cuCtxGetStreamPriorityRange(&least, &greatest));
    assert_true(least == 0 && greatest < 0);
    ok(cuCtxSetCacheConfig(2));
    ok(cuCtxGetCacheConfig(&config));
    assert_int_equal(config, 2);
    gives(ERROR_INVALID_VALUE, cuCtxSetCacheConfig(4));
    ok(cuCtxSetFlags(2));
    ok(cuCtxResetPersistingL2Cache());
    ok(cuCtxSynchronize_v2(*state));
}

static void test_device_memory(void **state)
{
    uint64_t memory = 0, base = 0;
    size_t size = 0, pitch = 0, free_before = 0, free_now = 0, total = 0;
    (void)state;
    gives(ERROR_INVALID_VALUE, cuMemAlloc_v2(&memory, 0));
    gives(ERROR_INVALID_VALUE, cuMemAlloc_v2(NULL, 1));
    gives(ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&memory, SIZE_MAX / 2));
    ok(cuMemGetInfo_v2(&free_before, &total));
    ok(cuMemAlloc_v2(&memory, 1000));
    ok(cuMemGetInfo_v2(&free_now, &total));
    assert_int_equal(free_before - free_now, 1000);
    assert_int_equal(memory % 512, 0);
    ok(cuMemGetAddressRange_v2(&base, &size, memory + 999));
    assert_int_equal(base, memory);
    assert_int_equal(size, 1000);
    gives(ERROR_NOT_FOUND, cuMemGetAddressRange_v2(&base, &size, memory + 1000));
    gives(ERROR_INVALID_VALUE, cuMemFree_v2(memory + 1));
    ok(cuMemFree_v2(memory));
    gives(ERROR_INVALID_VALUE, cuMemFree_v2(memory));
    ok(cuMemFree_v2(0));
    ok(cuMemAllocPitch_v2(&memory, &pitch, 513, 3, 4));
    assert_int_equal(pitch, 1024);
    gives(ERROR_INVALID_VALUE, cuMemAllocPitch_v2(&memory, &pitch, 513, 3, 3));
    gives(ERROR_OUT_OF_MEMORY, cuMemAllocPitch_v2(&base, &pitch, SIZE_MAX / 2, 3, 4));
    ok(cuMemFree_v2(memory));
}

static void test_host_memory(void **state)
{
    void *pinned = NULL, *mine = malloc(256);
    uint64_t device = 0;
    unsigned int flags = 0;
    (void)state;
    ok(cuMemAllocHost_v2(&pinned, 64));
    memset(pinned, 1, 64);
    ok(cuMemHostGetDevicePointer_v2(&device, pinned, 0));
    assert_int_equal(device, (uint64_t)(uintptr_t)pinned);
    gives(ERROR_INVALID_VALUE, cuMemFree_v2(device));
    ok(cuMemFreeHost(pinned));
    gives(ERROR_INVALID_VALUE, cuMemFreeHost(pinned));
    ok(cuMemHostAlloc(&pinned, 64, DRV_CU_MEMHOSTALLOC_WRITECOMBINED));
    ok(cuMemHostGetFlags(&flags, pinned));
    assert_int_equal(flags, DRV_CU_MEMHOSTALLOC_WRITECOMBINED | DRV_CU_MEMHOSTALLOC_DEVICEMAP);
    gives(ERROR_INVALID_VALUE, cuMemHostAlloc(&pinned, 0, 0));
    ok(cuMemFreeHost(pinned));
    gives(ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(mine));
    ok(cuMemHostRegister_v2(mine, 256, 0));
    gives(ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister_v2((char *)mine + 16, 16, 0));
    gives(ERROR_INVALID_VALUE, cuMemFreeHost(mine));
    ok(cuMemHostUnregister(mine));
    free(mine);
}

static void test_pointer_attributes(void **state)
{
    uint64_t memory = 0, managed = 0, start = 0;
    unsigned int type = 0, is_managed = 9;
    size_t size = 0;
    cu_context context = NULL;
    int local = 0, ordinal = 9;
    ok(cuMemAlloc_v2(&memory, 100));
    ok(cuPointerGetAttribute(&type, DRV_CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory + 50));
    assert_int_equal(type, DRV_CU_MEMORYTYPE_DEVICE);
    ok(cuPointerGetAttribute(&context, DRV_CU_POINTER_ATTRIBUTE_CONTEXT, memory));
    assert_ptr_equal(context, *state);
    ok(cuPointerGetAttribute(&start, DRV_CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, memory + 50));
    ok(cuPointerGetAttribute(&size, DRV_CU_POINTER_ATTRIBUTE_RANGE_SIZE, memory + 50));
    assert_true(start == memory && size == 100);
    gives(ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, DRV_CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory + 100));
    gives(ERROR_INVALID_VALUE, cuPointerGetAttribute(&start, DRV_CU_POINTER_ATTRIBUTE_HOST_POINTER, memory));
    gives(ERROR_NOT_SUPPORTED, cuPointerGetAttribute(&start, 5, memory));
    ok(cuMemAllocManaged(&managed, 64, 1));
    *(uint32_t *)(uintptr_t)managed = 5;
    ok(cuPointerGetAttribute(&is_managed, DRV_CU_POINTER_ATTRIBUTE_IS_MANAGED, managed));
    assert_int_equal(is_managed, 1);
    ok(cuMemAdvise(managed, 64, 1, 0));
    ok(cuMemPrefetchAsync(managed, 64, 0, NULL));
    /* The plural form answers for any address. */
    int attributes[] = {DRV_CU_POINTER_ATTRIBUTE_MEMORY_TYPE, DRV_CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *data[] = {&type, &ordinal};
    ok(cuPointerGetAttributes(2, attributes, data, (uint64_t)(uintptr_t)&local));
    assert_int_equal(type, 0);
    ok(cuPointerGetAttributes(2, attributes, data, memory));
    assert_int_equal(type, DRV_CU_MEMORYTYPE_DEVICE);
    assert_int_equal(ordinal, 0);
    ok(cuMemFree_v2(managed));
}

static void test_copies(void **state)
{
    uint64_t a = 0, b = 0;
    char in[64], out[64] = "";
    (void)state;
    for (int i = 0; i < 64; i++)
        in[i] = (char)i;
    ok(cuMemAlloc_v2(&a, 64));
    ok(cuMemAlloc_v2(&b, 64));
    ok(cuMemcpyHtoD_v2(a, in, 64));
    ok(cuMemcpyDtoD_v2(b, a, 64));
    ok(cuMemcpyDtoH_v2(out, b, 64));
    assert_memory_equal(in, out, 64);
    ok(cuMemcpyHtoD_v2(a, in, 0));
    gives(ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(a + 1, in, 64));
    gives(ERROR_INVALID_VALUE, cuMemcpyHtoD_v2((uint64_t)(uintptr_t)out, in, 64));
    gives(ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(out, 0, 4));
    gives(ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(NULL, a, 4));
    /* The generic form finds out what is what; an allocation's end counts. */
    ok(cuMemcpy(b, (uint64_t)(uintptr_t)in, 64));
    ok(cuMemcpy((uint64_t)(uintptr_t)out, b + 32, 32));
    gives(ERROR_INVALID_VALUE, cuMemcpy(b + 60, (uint64_t)(uintptr_t)in, 5));
    ok(cuMemcpyAsync(b, a, 64, CU_STREAM_LEGACY_HANDLE));
    ok(cuMemcpyHtoDAsync_v2(b, in, 64, CU_STREAM_PER_THREAD_HANDLE));
    ok(cuMemcpyDtoHAsync_v2(out, b, 64, NULL));
    ok(cuMemcpyDtoDAsync_v2(a, b, 64, NULL));
    ok(cuMemcpyPeer(a, *state, b, *state, 64));
    ok(cuMemcpyPeerAsync(a, *state, b, *state, 64, NULL));
    assert_memory_equal(in, out, 64);
}

static void test_boxes(void **state)
{
    uint64_t memory = 0;
    size_t pitch = 0;
    unsigned char in[4 * 10], out[2 * 3] = {0};
    (void)state;
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (unsigned char)i;
    ok(cuMemAllocPitch_v2(&memory, &pitch, 10, 4, 4));
    struct cu_copy2d copy = {.src_type = DRV_CU_MEMORYTYPE_HOST,
                             .src_host = in,
                             .src_pitch = 10,
                             .dst_type = DRV_CU_MEMORYTYPE_DEVICE,
                             .dst_device = memory,
                             .dst_pitch = pitch,
                             .width = 10,
                             .height = 4};
    ok(cuMemcpy2D_v2(&copy));
    struct cu_copy2d back = {.src_x = 2,
                             .src_y = 1,
                             .src_type = DRV_CU_MEMORYTYPE_UNIFIED,
                             .src_device = memory,
                             .src_pitch = pitch,
                             .dst_type = DRV_CU_MEMORYTYPE_HOST,
                             .dst_host = out,
                             .dst_pitch = 3,
                             .width = 3,
                             .height = 2};
    ok(cuMemcpy2DAsync_v2(&back, NULL));
    assert_memory_equal(out, ((unsigned char[]){12, 13, 14, 22, 23, 24}), 6);
    back.dst_pitch = 2;
    gives(ERROR_INVALID_VALUE, cuMemcpy2D_v2(&back));
    back.src_type = DRV_CU_MEMORYTYPE_ARRAY;
    gives(ERROR_NOT_SUPPORTED, cuMemcpy2DUnaligned_v2(&back));
    gives(ERROR_INVALID_VALUE, cuMemcpy2D_v2(NULL));
    copy.height = 5;
    gives(ERROR_INVALID_VALUE, cuMemcpy2D_v2(&copy)); /* past the end */
}

static void test_fills(void **state)
{
    uint64_t memory = 0;
    uint32_t words[16];
    (void)state;
    ok(cuMemAlloc_v2(&memory, sizeof words));
    ok(cuMemsetD32_v2(memory, 0x01020304, 16));
    ok(cuMemsetD16_v2(memory, 0xabcd, 1));
    ok(cuMemsetD8_v2(memory + 63, 0xff, 1));
    ok(cuMemsetD2D32_v2(memory + 16, 16, 7, 1, 3));
    ok(cuMemcpyDtoH_v2(words, memory, sizeof words));
    assert_int_equal(words[0], 0x0102abcd);
    assert_int_equal(words[1], 0x01020304);
    assert_int_equal(words[15], 0xff020304);
    assert_true(words[4] == 7 && words[8] == 7 && words[12] == 7 && words[5] == 0x01020304);
    gives(ERROR_INVALID_VALUE, cuMemsetD32_v2(memory + 2, 0, 1));
    gives(ERROR_INVALID_VALUE, cuMemsetD8_v2(memory, 0, 65));
    gives(ERROR_INVALID_VALUE, cuMemsetD2D8_v2(memory, 2, 0, 3, 2));
    gives(ERROR_INVALID_VALUE, cuMemsetD32_v2(memory, 0, SIZE_MAX / 2));
    ok(cuMemsetD8Async(memory, 0, 64, NULL));
    ok(cuMemsetD2D16Async(memory, 8, 1, 2, 2, CU_STREAM_PER_THREAD_HANDLE));
    ok(cuMemsetD8_v2(memory, 0, 0));
}

static void test_pools(void **state)
{
    cu_pool pool = NULL, own = NULL;
    cu_stream stream = NULL;
    uint64_t memory = 0, threshold = 4096, read = 0;
    char properties[88] = "";
    (void)state;
    ok(cuDeviceGetDefaultMemPool(&pool, 0));
    ok(cuMemPoolSetAttribute(pool, 4, &threshold));
    ok(cuMemPoolGetAttribute(pool, 4, &read));
    assert_int_equal(read, 4096);
    gives(ERROR_INVALID_VALUE, cuMemPoolGetAttribute(pool, 9, &read));
    gives(ERROR_INVALID_VALUE, cuMemPoolDestroy(pool));
    ok(cuMemPoolCreate(&own, properties));
    ok(cuStreamCreate(&stream, 0));
    ok(cuMemAllocFromPoolAsync(&memory, 32, own, stream));
    ok(cuMemFreeAsync(memory, stream));
    ok(cuMemAllocAsync(&memory, 32, stream));
    ok(cuMemFree_v2(memory));
    gives(ERROR_INVALID_VALUE, cuMemFreeAsync(memory, stream));
    ok(cuMemPoolTrimTo(own, 0));
    ok(cuMemPoolDestroy(own));
    gives(ERROR_INVALID_VALUE, cuMemPoolTrimTo(own, 0));
}

static void called(cu_stream stream, int status, void *user)
{
    (void)stream;
    *(int *)user += status == DRV_CUDA_SUCCESS ? 1 : 100;
}

/* Calls the driver, which the real one forbids, but a thread that it waits for may. */
static void host_function(void *user)
{
    int count = 0;
    if (cuDeviceGetCount(&count) == DRV_CUDA_SUCCESS)
        *(int *)user += 10;
}

static void test_streams(void **state)
{
    cu_stream stream = NULL;
    cu_context context = NULL;
    unsigned int flags = 9;
    uint64_t id = 0, legacy_id = 0;
    int priority = 9, calls = 0, device = 9;
    gives(ERROR_INVALID_VALUE, cuStreamCreate(&stream, 2));
    ok(cuStreamCreateWithPriority(&stream, DRV_CU_STREAM_NON_BLOCKING, -99));
    ok(cuStreamGetPriority(stream, &priority));
    assert_int_equal(priority, -5);
    ok(cuStreamGetFlags(stream, &flags));
    assert_int_equal(flags, DRV_CU_STREAM_NON_BLOCKING);
    ok(cuStreamGetCtx(stream, &context));
    assert_ptr_equal(context, *state);
    ok(cuStreamGetId(stream, &id));
    ok(cuStreamGetId(NULL, &legacy_id));
    assert_true(id != legacy_id);
    ok(cuStreamGetId(CU_STREAM_LEGACY_HANDLE, &id));
    assert_int_equal(id, legacy_id);
    ok(cuStreamGetId(CU_STREAM_PER_THREAD_HANDLE, &id));
    assert_true(id != legacy_id);
    ok(cuStreamGetId_ptsz(NULL, &legacy_id));
    assert_int_equal(id, legacy_id);
    ok(cuStreamGetDevice(stream, &device));
    ok(cuStreamQuery(stream));
    ok(cuStreamSynchronize(stream));
    ok(cuStreamAddCallback(stream, called, &calls, 0));
    ok(cuLaunchHostFunc(stream, host_function, &calls));
    assert_int_equal(calls, 11);
    gives(ERROR_INVALID_VALUE, cuLaunchHostFunc(stream, NULL, NULL));
    /* An explicit stream needs no current context. */
    ok(cuCtxPopCurrent_v2(&context));
    ok(cuStreamSynchronize(stream));
    gives(ERROR_INVALID_CONTEXT, cuStreamSynchronize(NULL));
    ok(cuCtxPushCurrent_v2(context));
    ok(cuStreamDestroy_v2(stream));
    gives(ERROR_INVALID_HANDLE, cuStreamDestroy_v2(stream));
    gives(ERROR_INVALID_HANDLE, cuStreamSynchronize(stream));
    gives(ERROR_INVALID_HANDLE, cuStreamDestroy_v2(NULL));
}

static void test_events(void **state)
{
    cu_event begin = NULL, end = NULL, silent = NULL;
    float ms = -1;
    (void)state;
    ok(cuEventCreate(&begin, 0));
    ok(cuEventCreate(&end, 0));
    ok(cuEventCreate(&silent, DRV_CU_EVENT_DISABLE_TIMING));
    gives(ERROR_INVALID_VALUE, cuEventCreate(&end, 64));
    ok(cuEventQuery(begin)); /* never recorded: done */
    gives(ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, begin, end));
    ok(cuEventRecord(begin, NULL));
    ok(launch_one(load(ptx_small, "wide"), 32, NULL, (void *[]){&(uint64_t){0}}));
    ok(cuEventRecordWithFlags(end, NULL, 0));
    ok(cuEventSynchronize(end));
    ok(cuEventElapsedTime_v2(&ms, begin, end));
    assert_true(ms > 0 && ms < 1);
    ok(cuEventRecord(silent, NULL));
    gives(ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, begin, silent));
    ok(cuStreamWaitEvent(NULL, end, 0));
    gives(ERROR_INVALID_VALUE, cuStreamWaitEvent(NULL, end, 2));
    ok(cuEventDestroy_v2(end));
    gives(ERROR_INVALID_HANDLE, cuEventQuery(end));
    gives(ERROR_INVALID_HANDLE, cuEventRecord(end, NULL));
    gives(ERROR_INVALID_HANDLE, cuEventDestroy_v2(NULL));
}

static void test_tensor_maps(void **state)
{
    _Alignas(64) unsigned char map[128] = {0};
    uint64_t memory = 0;
    const uint64_t dims[] = {64, 16}, strides[] = {128};
    const uint32_t box[] = {64, 8}, ones[] = {1, 1};
    (void)state;
    ok(cuMemAlloc_v2(&memory, 2048));
    ok(cuTensorMapEncodeTiled(map, 9, 2, (void *)(uintptr_t)memory, dims, strides, box, ones, 0, 3, 0, 0));
    ok(cuTensorMapReplaceAddress(map, (void *)(uintptr_t)(memory + 128)));
    gives(ERROR_INVALID_VALUE,
          cuTensorMapEncodeTiled(map, 9, 6, (void *)(uintptr_t)memory, dims, strides, box, ones, 0, 3, 0, 0));
    gives(ERROR_INVALID_VALUE,
          cuTensorMapEncodeTiled(NULL, 9, 2, (void *)(uintptr_t)memory, dims, strides, box, ones, 0, 3, 0, 0));
    gives(ERROR_NOT_SUPPORTED, cuTensorMapEncodeIm2col(map, 9, 3, (void *)(uintptr_t)memory, dims, strides, NULL, NULL,
                                                       1, 1, ones, 0, 0, 0, 0));
}

static void *per_thread(void *context)
{
    uint64_t id = 0, memory = 0;
    if (cuCtxSetCurrent(context) != DRV_CUDA_SUCCESS || cuStreamGetId(CU_STREAM_PER_THREAD_HANDLE, &id) != 0)
        return NULL;
    for (int i = 0; i < 100; i++) {
        if (cuMemAlloc_v2(&memory, 64) != 0 || cuMemsetD8_v2(memory, 1, 64) != 0 || cuMemFree_v2(memory) != 0)
            return NULL;
    }
    return (void *)(uintptr_t)id;
}

static void test_threads(void **state)
{
    pthread_t threads[4];
    void *ids[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, per_thread, *state), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], &ids[i]);
    for (int i = 0; i < 4; i++)
        assert_non_null(ids[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_context(test_device),
        in_context(test_primary_context),
        in_context(test_context_stack),
        in_context(test_context_settings),
        in_context(test_device_memory),
        in_context(test_host_memory),
        in_context(test_pointer_attributes),
        in_context(test_copies),
        in_context(test_boxes),
        in_context(test_fills),
        in_context(test_pools),
        in_context(test_streams),
        in_context(test_events),
        in_context(test_tensor_maps),
        in_context(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
