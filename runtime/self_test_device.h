/* The self-test's memory and stream on the device. */
#ifndef SMLA_RUNTIME_SELF_TEST_DEVICE_H
#define SMLA_RUNTIME_SELF_TEST_DEVICE_H

#include "device.h"
#include "self_test_problem.h"

struct test_device {
    const struct rt_driver *driver;
    const struct test_problem *problem;
    rt_cu_deviceptr memory; /* the problem's image */
    rt_cu_deviceptr workspace;
    rt_cu_stream stream;
    int capture_mode; /* of this thread, before */
    bool exchanged;
};

/* Refuses where a stream is known to capture (INVALID_ARGUMENT), or the driver lacks what the test calls (UNAVAILABLE).
 */
smla_status test_device_check(const struct rt_driver *driver);

/* Allocates and uploads. On OK, and only then, the caller closes. Returns SMLA_OK; DRIVER. */
smla_status test_device_open(const struct rt_driver *driver, const struct test_problem *problem,
                             struct test_device *device);

/* Makes room of at least so many bytes for the next call. Returns SMLA_OK; DRIVER. */
smla_status test_device_workspace(struct test_device *device, uint64_t bytes);

/* Fills the outputs with NaN before a call; waits for it and brings them to `to`, laid out as in the image from
 * TEST_OUT on. Return SMLA_OK; DRIVER. */
smla_status test_device_poison(struct test_device *device);
smla_status test_device_download(struct test_device *device, uint8_t *to);

/* A tensor on the device. */
void *test_device_tensor(const struct test_device *device, enum test_tensor which);

/* Frees all. Keeps `status` and the error when it is a failure. */
smla_status test_device_close(struct test_device *device, smla_status status);

#endif
