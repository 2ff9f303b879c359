/* A libnvidia-ml.so.1 for tests of smla-bench: its one device, of any bus id, runs at 1755 MHz and 512.5 W,
 * in one piece, under driver 999.1. */

#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

enum { NVML_SUCCESS = 0, NVML_ERROR_INVALID_ARGUMENT = 2, NVML_CLOCK_SM = 1 }; /* nvml.h */

static int the_device;

EXPORT int nvmlInit_v2(void)
{
    return NVML_SUCCESS;
}

EXPORT int nvmlShutdown(void)
{
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device)
{
    *device = &the_device;
    return bus_id[0] != 0 ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

EXPORT int nvmlDeviceGetClockInfo(void *device, int type, unsigned int *mhz)
{
    *mhz = 1755;
    return device == &the_device && type == NVML_CLOCK_SM ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

EXPORT int nvmlDeviceGetPowerUsage(void *device, unsigned int *milliwatts)
{
    *milliwatts = 512500;
    return device == &the_device ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned int capacity)
{
    return snprintf(text, capacity, "999.1") < (int)capacity ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

EXPORT int nvmlDeviceGetMigMode(void *device, unsigned int *mode, unsigned int *pending)
{
    *mode = *pending = 0;
    return device == &the_device ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}
