#include "self_test_device.h"

#include "error.h"

#define PER_THREAD_STREAM ((rt_cu_stream)(uintptr_t)2) /* CU_STREAM_PER_THREAD */

/* A capture of a blocking stream makes the question about the legacy stream an error, which is an answer too. */
static smla_status check_stream(const struct rt_driver *driver, rt_cu_stream stream, const char *name)
{
    int capturing = RT_CU_STREAM_CAPTURE_STATUS_NONE;
    const rt_cu_result result = driver->cuStreamIsCapturing(stream, &capturing);

    if (result != RT_CUDA_SUCCESS && result != RT_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
        return rt_driver_fail(driver, result, "cuStreamIsCapturing of the %s stream", name);
    if (result == RT_CUDA_SUCCESS && capturing == RT_CU_STREAM_CAPTURE_STATUS_NONE)
        return SMLA_OK;
    return rt_fail(
        SMLA_ERROR_INVALID_ARGUMENT,
        "the self-test of a kernel (SMLA_CONTEXT_SELF_TEST) allocates and waits, and a stream is captured (so "
        "the driver says of the %s stream): prepare the kernel before the capture begins",
        name);
}

smla_status test_device_check(const struct rt_driver *driver)
{
    smla_status status = rt_driver_check_for_test(driver);

    if (status == SMLA_OK)
        status = check_stream(driver, NULL, "legacy");
    return status == SMLA_OK ? check_stream(driver, PER_THREAD_STREAM, "per-thread") : status;
}

static smla_status failed(const struct test_device *device, rt_cu_result result, const char *call)
{
    return result == RT_CUDA_SUCCESS
               ? SMLA_OK
               : rt_driver_fail(device->driver, result, "%s of the self-test (SMLA_CONTEXT_SELF_TEST)", call);
}

static smla_status upload(struct test_device *device, size_t from)
{
    const struct test_problem *problem = device->problem;

    return failed(device,
                  device->driver->cuMemcpyAsync(device->memory + from,
                                                (rt_cu_deviceptr)(uintptr_t)(problem->image + from),
                                                problem->image_bytes - from, device->stream),
                  "cuMemcpyAsync to the device");
}

/* A capture that the driver does not tell of goes on: in this mode allocating and freeing does not end it. */
static smla_status open(struct test_device *device)
{
    const struct rt_driver *driver = device->driver;
    smla_status status;

    device->capture_mode = RT_CU_STREAM_CAPTURE_MODE_RELAXED;
    status = failed(device, driver->cuThreadExchangeStreamCaptureMode(&device->capture_mode),
                    "cuThreadExchangeStreamCaptureMode");
    device->exchanged = status == SMLA_OK;
    if (status == SMLA_OK)
        status = failed(device, driver->cuStreamCreate(&device->stream, RT_CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    if (status == SMLA_OK)
        status = failed(device, driver->cuMemAlloc(&device->memory, device->problem->image_bytes), "cuMemAlloc");
    return status == SMLA_OK ? upload(device, 0) : status;
}

smla_status test_device_open(const struct rt_driver *driver, const struct test_problem *problem,
                             struct test_device *device)
{
    *device = (struct test_device){.driver = driver, .problem = problem};
    const smla_status status = open(device);
    return status == SMLA_OK ? SMLA_OK : test_device_close(device, status);
}

static smla_status free_workspace(struct test_device *device)
{
    const rt_cu_deviceptr workspace = device->workspace;

    device->workspace = 0;
    return workspace ? failed(device, device->driver->cuMemFree(workspace), "cuMemFree") : SMLA_OK;
}

smla_status test_device_workspace(struct test_device *device, uint64_t bytes)
{
    const smla_status status = free_workspace(device);

    return status == SMLA_OK && bytes > 0
               ? failed(device, device->driver->cuMemAlloc(&device->workspace, (size_t)bytes), "cuMemAlloc")
               : status;
}

smla_status test_device_poison(struct test_device *device)
{
    return upload(device, device->problem->offsets[TEST_OUT]);
}

smla_status test_device_download(struct test_device *device, uint8_t *to)
{
    const size_t from = device->problem->offsets[TEST_OUT];
    const smla_status status =
        failed(device,
               device->driver->cuMemcpyAsync((rt_cu_deviceptr)(uintptr_t)to, device->memory + from,
                                             device->problem->image_bytes - from, device->stream),
               "cuMemcpyAsync from the device");

    return status == SMLA_OK
               ? failed(device, device->driver->cuStreamSynchronize(device->stream), "cuStreamSynchronize")
               : status;
}

void *test_device_tensor(const struct test_device *device, enum test_tensor which)
{
    return (void *)(uintptr_t)(device->memory + device->problem->offsets[which]);
}

/* The host's memory may still be read by a copy when something in between has failed: so the stream is waited for. */
static smla_status release(struct test_device *device)
{
    const struct rt_driver *driver = device->driver;
    smla_status status = SMLA_OK;

    if (device->stream)
        status = failed(device, driver->cuStreamSynchronize(device->stream), "cuStreamSynchronize");
    const smla_status freed = free_workspace(device);
    status = status == SMLA_OK ? freed : status;
    if (device->memory && failed(device, driver->cuMemFree(device->memory), "cuMemFree") != SMLA_OK)
        status = SMLA_ERROR_DRIVER;
    if (device->stream && failed(device, driver->cuStreamDestroy(device->stream), "cuStreamDestroy") != SMLA_OK)
        status = SMLA_ERROR_DRIVER;
    if (device->exchanged && failed(device, driver->cuThreadExchangeStreamCaptureMode(&device->capture_mode),
                                    "cuThreadExchangeStreamCaptureMode") != SMLA_OK)
        status = SMLA_ERROR_DRIVER;
    return status;
}

smla_status test_device_close(struct test_device *device, smla_status status)
{
    struct rt_error first;

    rt_error_save(&first);
    const smla_status released = release(device);
    return status == SMLA_OK ? released : rt_error_restore(&first);
}
