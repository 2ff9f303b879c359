#include "bench_nvml.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { NVML_SUCCESS = 0, NVML_CLOCK_SM = 1, NVML_MIG_ENABLED = 1 }; /* nvml.h */

struct bench_nvml {
    void *library;
    void *device; /* nvmlDevice_t */
    int (*init)(void);
    int (*shutdown)(void);
    int (*get_handle)(const char *bus_id, void **device);
    int (*get_clock)(void *device, int type, unsigned int *mhz);
    int (*get_power)(void *device, unsigned int *milliwatts);
    /* The rest may be NULL. */
    int (*get_driver)(char *text, unsigned int capacity);
    int (*get_mig)(void *device, unsigned int *mode, unsigned int *pending);
};

/* dlsym gives an object pointer; POSIX guarantees that it holds a function's. */
static bool resolve(struct bench_nvml *nvml, const char *name, void *member)
{
    void *symbol = dlsym(nvml->library, name);
    memcpy(member, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool resolve_all(struct bench_nvml *nvml)
{
    return resolve(nvml, "nvmlInit_v2", &nvml->init) && resolve(nvml, "nvmlShutdown", &nvml->shutdown) &&
           resolve(nvml, "nvmlDeviceGetHandleByPciBusId_v2", &nvml->get_handle) &&
           resolve(nvml, "nvmlDeviceGetClockInfo", &nvml->get_clock) &&
           resolve(nvml, "nvmlDeviceGetPowerUsage", &nvml->get_power);
}

static void resolve_more(struct bench_nvml *nvml)
{
    resolve(nvml, "nvmlSystemGetDriverVersion", &nvml->get_driver);
    resolve(nvml, "nvmlDeviceGetMigMode", &nvml->get_mig);
}

struct bench_nvml *bench_nvml_open(struct device *device)
{
    char bus_id[32] = "";
    struct bench_nvml *nvml = calloc(1, sizeof *nvml);
    if (nvml == NULL || !device_pci_bus_id(device, bus_id, (int)sizeof bus_id)) {
        free(nvml);
        return NULL;
    }
    nvml->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (nvml->library != NULL && resolve_all(nvml) && nvml->init() == NVML_SUCCESS) {
        if (nvml->get_handle(bus_id, &nvml->device) == NVML_SUCCESS) {
            resolve_more(nvml);
            return nvml;
        }
        nvml->shutdown();
    }
    if (nvml->library != NULL)
        dlclose(nvml->library);
    free(nvml);
    return NULL;
}

void bench_nvml_close(struct bench_nvml *nvml)
{
    if (nvml == NULL)
        return;
    nvml->shutdown();
    dlclose(nvml->library);
    free(nvml);
}

bool bench_nvml_read(const struct bench_nvml *nvml, double *mhz, double *watts)
{
    unsigned int clock, power;
    if (nvml == NULL || nvml->get_clock(nvml->device, NVML_CLOCK_SM, &clock) != NVML_SUCCESS ||
        nvml->get_power(nvml->device, &power) != NVML_SUCCESS)
        return false;
    *mhz = clock;
    *watts = power / 1e3;
    return true;
}

bool bench_nvml_driver(const struct bench_nvml *nvml, char text[BENCH_NVML_TEXT])
{
    return nvml != NULL && nvml->get_driver != NULL && nvml->get_driver(text, BENCH_NVML_TEXT) == NVML_SUCCESS;
}

bool bench_nvml_mig(const struct bench_nvml *nvml, bool *on)
{
    unsigned int mode, pending;
    if (nvml == NULL || nvml->get_mig == NULL || nvml->get_mig(nvml->device, &mode, &pending) != NVML_SUCCESS)
        return false;
    *on = mode == NVML_MIG_ENABLED;
    return true;
}
