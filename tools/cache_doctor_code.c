/* smla-cache doctor: the compiler, the driver and the devices. */
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache_doctor.h"
#include "target.h"

/* ---- The driver ---- */

/* The file that the loader found. */
static void driver_path(const struct rt_driver *driver, char *path, size_t size)
{
    void *address;
    Dl_info info;
    memcpy(&address, &driver->cuInit, sizeof address);
    const bool known = dladdr(address, &info) != 0 && info.dli_fname != NULL;
    snprintf(path, size, "%s", known ? info.dli_fname : driver->path);
}

json_t *doctor_driver(struct doctor *doctor)
{
    struct rt_driver *driver = &doctor->driver;
    char path[512], version[32];
    doctor->has_driver = rt_driver_open(driver, doctor->settings.driver_path) == SMLA_OK;
    if (!doctor->has_driver) {
        const char *why = doctor_last_error();
        memset(driver, 0, sizeof *driver); /* its version is no limit */
        return json_pack("{s:n, s:s}", "path", "why", why);
    }
    driver_path(driver, path, sizeof path);
    snprintf(version, sizeof version, "%d.%d", driver->version / 1000, driver->version % 1000 / 10);
    return json_pack("{s:s, s:s, s:b}", "path", path, "version", version, "emulated", (int)driver->takes_ptx);
}

/* ---- NVRTC ---- */

static json_t *version_json(const struct rt_nvrtc *nvrtc)
{
    char version[32];
    snprintf(version, sizeof version, "%d.%d", nvrtc->major, nvrtc->minor);
    return json_string(version);
}

static void try_library(json_t *tried, const char *name)
{
    struct rt_nvrtc opened;
    char why[512];
    json_t *row = json_pack("{s:s}", "name", name);
    if (rt_nvrtc_open(&opened, name, 0, why)) {
        json_object_set_new(row, "path", json_string(opened.path));
        json_object_set_new(row, "version", version_json(&opened));
        dlclose(opened.library);
    } else {
        json_object_set_new(row, "why", json_string(why));
    }
    json_array_append_new(tried, row);
}

/* As rt_nvrtc_find goes: the path given, or the names and places. */
static json_t *try_libraries(const struct doctor *doctor)
{
    json_t *tried = json_array();
    char why[256];
    glob_t files;
    if (doctor->nvrtcs.path != NULL) {
        try_library(tried, doctor->nvrtcs.path);
        return tried;
    }
    for (const char *const *name = doctor->nvrtcs.places->sonames; *name != NULL; name++)
        try_library(tried, *name);
    if (glob(doctor->nvrtcs.places->pattern, 0, NULL, &files) == 0) {
        for (size_t i = 0; i < files.gl_pathc; i++)
            try_library(tried, files.gl_pathv[i]);
        globfree(&files);
    } else {
        snprintf(why, sizeof why, "%s: no such file", doctor->nvrtcs.places->pattern);
        json_array_append_new(tried, json_pack("{s:s, s:s}", "name", doctor->nvrtcs.places->pattern, "why", why));
    }
    return tried;
}

static void add_target(json_t *wins, const struct rt_nvrtc *nvrtc, const char *target)
{
    size_t index;
    json_t *row;
    json_array_foreach(wins, index, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "path")), nvrtc->path) == 0) {
            json_array_append_new(json_object_get(row, "targets"), json_string(target));
            return;
        }
    }
    json_array_append_new(
        wins, json_pack("{s:s, s:o, s:[s]}", "path", nvrtc->path, "version", version_json(nvrtc), "targets", target));
}

static void warn_of_nvrtc(struct doctor *doctor, const struct rt_nvrtc *nvrtc)
{
    const int version = 1000 * nvrtc->major + 10 * nvrtc->minor;
    if (doctor->has_driver && version > doctor->driver.version)
        doctor_warn(doctor,
                    "NVRTC %d.%d is newer than the driver's CUDA %d.%d: its cubins run by minor-version compatibility, "
                    "its PTX does not",
                    nvrtc->major, nvrtc->minor, doctor->driver.version / 1000, doctor->driver.version % 1000 / 10);
}

json_t *doctor_nvrtc(struct doctor *doctor)
{
    const int32_t max_major = doctor->driver.version / 1000;
    size_t count;
    const struct gen_target *targets = gen_target_table(&count);
    json_t *wins = json_array();
    json_t *result = json_object();
    const char *flags = getenv("NVRTC_APPEND_FLAGS");
    doctor->nvrtcs.driver_version = doctor->driver.version;
    /* Held to the end: each target is looked for anew, and NVRTC leaves memory behind when it is closed. One that no
     * path names is not held: what is in the process already would win. */
    if (doctor->nvrtcs.path != NULL)
        (void)dlopen(doctor->nvrtcs.path, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < count; i++) {
        const struct rt_nvrtc *nvrtc;
        if (rt_nvrtc_find(&doctor->nvrtcs, &targets[i], max_major, &nvrtc) == SMLA_OK)
            add_target(wins, nvrtc, targets[i].name);
        else if (json_object_get(result, "why") == NULL)
            json_object_set_new(result, "why", json_string(doctor_last_error()));
    }
    for (const struct rt_nvrtc *nvrtc = doctor->nvrtcs.first; nvrtc != NULL; nvrtc = nvrtc->next)
        warn_of_nvrtc(doctor, nvrtc);
    if (flags != NULL && flags[0] != 0)
        doctor_warn(doctor,
                    "NVRTC_APPEND_FLAGS is \"%s\": should an NVRTC honour it, kernels are not what their ids say",
                    flags);
    json_object_set_new(result, "from",
                        json_string(doctor->options->nvrtc != NULL ? "--nvrtc"
                                    : doctor->nvrtcs.path != NULL  ? "SMLA_NVRTC"
                                                                   : "the newest found"));
    json_object_set_new(result, "wins", wins);
    json_object_set_new(result, "tried", try_libraries(doctor));
    return result;
}

/* ---- Devices ---- */

static int attribute(const struct rt_driver *driver, int which, rt_cu_device device)
{
    int value = 0;
    return driver->cuDeviceGetAttribute(&value, which, device) == RT_CUDA_SUCCESS ? value : 0;
}

static void warn_of_entries(struct doctor *doctor, const struct gen_target *target, const struct rt_builder *too_new)
{
    doctor_warn(
        doctor,
        "kernels for %s that NVRTC %d.%d built are passed over: the CUDA driver (API %d.%d) loads no code built "
        "by a newer major; update the driver, or have NVRTC %d build them",
        target->name, too_new->nvrtc_major, too_new->nvrtc_minor, doctor->driver.version / 1000,
        doctor->driver.version % 1000 / 10, doctor->driver.version / 1000);
}

static json_t *device_json(struct doctor *doctor, int ordinal)
{
    const struct rt_driver *driver = &doctor->driver;
    rt_cu_device device;
    char name[96] = "", capability[32];
    const struct rt_nvrtc *nvrtc;
    if (driver->cuDeviceGet(&device, ordinal) != RT_CUDA_SUCCESS ||
        driver->cuDeviceGetName(name, sizeof name, device) != RT_CUDA_SUCCESS)
        return json_pack("{s:i, s:s, s:n, s:b, s:b}", "ordinal", ordinal, "name", "cannot be asked", "target",
                         "compiles", 0, "cached", 0);
    const int major = attribute(driver, RT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    const int minor = attribute(driver, RT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    const struct gen_target *target = gen_target_for_device(major, minor);
    const bool compiles = target != NULL && doctor->settings.jit_policy == SMLA_JIT_ON &&
                          rt_nvrtc_find(&doctor->nvrtcs, target, driver->version / 1000, &nvrtc) == SMLA_OK;
    struct rt_builder too_new = {.nvrtc_major = 0};
    const char *tier = target != NULL ? doctor_tier_of(doctor, target, &too_new) : NULL;
    if (too_new.nvrtc_major > 0)
        warn_of_entries(doctor, target, &too_new);
    snprintf(capability, sizeof capability, "%d.%d", major, minor);
    return json_pack(
        "{s:i, s:s, s:s, s:i, s:s?, s:b, s:b, s:s?}", "ordinal", ordinal, "name", name, "capability", capability,
        "multiprocessors", attribute(driver, RT_CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device), "target",
        target != NULL ? target->name : NULL, "compiles", (int)compiles, "cached", (int)(tier != NULL), "tier", tier);
}

json_t *doctor_devices(struct doctor *doctor)
{
    json_t *devices = json_array();
    int count = 0;
    if (!doctor->has_driver || doctor->driver.cuDeviceGetCount(&count) != RT_CUDA_SUCCESS)
        return devices;
    for (int i = 0; i < count; i++)
        json_array_append_new(devices, device_json(doctor, i));
    return devices;
}
