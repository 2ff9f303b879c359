#include "own_device.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_abi.h"

enum { MAX_DYNAMIC_SHARED = 8, MAX_ARGUMENTS = 8 }; /* CUfunction_attribute */

static struct {
    int (*init)(unsigned int);
    int (*device_get)(int *, int);
    int (*retain)(cu_context *, int);
    int (*set_current)(cu_context);
    int (*load)(cu_module *, const void *);
    int (*function)(cu_function *, cu_module, const char *);
    int (*set_attribute)(cu_function, int, int);
    int (*launch)(const struct cu_launch_config *, cu_function, void **, void **);
    int (*synchronize)(void);
    int (*alloc)(uint64_t *, size_t);
    int (*upload)(uint64_t, const void *, size_t);
    int (*download)(void *, uint64_t, size_t);
    int (*zero)(uint64_t, unsigned char, size_t);
    int (*encode)(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *, const uint32_t *,
                  int, int, int, int);
    uint64_t (*finding_count)(void);
    bool (*write_report)(const char *);
    size_t (*message)(char *, size_t);
} cu;

static cu_module module;

/* ---- Faults ---- */

static void print_fault(const char *format, va_list arguments)
{
    char last[640] = "";
    vfprintf(stderr, format, arguments);
    if (cu.message)
        cu.message(last, sizeof(last));
    fprintf(stderr, "%s%s\n", last[0] ? "; the device said: " : "", last);
}

void must(bool condition, const char *format, ...)
{
    va_list arguments;
    if (condition)
        return;
    va_start(arguments, format);
    print_fault(format, arguments);
    va_end(arguments);
    if (cu.finding_count && cu.finding_count() > 0) {
        cu.write_report("-");
        _Exit(OWN_FOUND);
    }
    _Exit(1);
}

void must_be_near(double value, double expected, double tolerance, const char *what, size_t at)
{
    must(fabs(value - expected) <= tolerance, "%s[%zu] is %.9g, expected %.9g within %g", what, at, value, expected,
         tolerance);
}

static void check(int result, const char *what)
{
    must(result == DRV_CUDA_SUCCESS, "%s: driver error %d", what, result);
}

/* ---- The device ---- */

static void load_driver(const char *path)
{
    const struct {
        const char *name;
        void *at;
    } functions[] = {{"cuInit", &cu.init},
                     {"cuDeviceGet", &cu.device_get},
                     {"cuDevicePrimaryCtxRetain", &cu.retain},
                     {"cuCtxSetCurrent", &cu.set_current},
                     {"cuModuleLoadData", &cu.load},
                     {"cuModuleGetFunction", &cu.function},
                     {"cuFuncSetAttribute", &cu.set_attribute},
                     {"cuLaunchKernelEx", &cu.launch},
                     {"cuCtxSynchronize", &cu.synchronize},
                     {"cuMemAlloc_v2", &cu.alloc},
                     {"cuMemcpyHtoD_v2", &cu.upload},
                     {"cuMemcpyDtoH_v2", &cu.download},
                     {"cuMemsetD8_v2", &cu.zero},
                     {"cuTensorMapEncodeTiled", &cu.encode},
                     {"smla_emu_finding_count", &cu.finding_count},
                     {"smla_emu_write_report", &cu.write_report},
                     {"smla_emu_message", &cu.message}};
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    must(library != NULL, "%s", path);
    for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
        void *symbol = dlsym(library, functions[i].name);
        must(symbol != NULL, "%s: no %s", path, functions[i].name);
        memcpy(functions[i].at, &symbol, sizeof(symbol));
    }
}

void own_open(const char *libcuda, const char *ptx)
{
    int device = 0;
    cu_context context = NULL;
    load_driver(libcuda);
    check(cu.init(0), "cuInit");
    check(cu.device_get(&device, 0), "cuDeviceGet");
    check(cu.retain(&context, device), "cuDevicePrimaryCtxRetain");
    check(cu.set_current(context), "cuCtxSetCurrent");
    check(cu.load(&module, ptx), "cuModuleLoadData");
}

void own_close(void)
{
    must(cu.finding_count() == 0, "findings");
}

/* ---- Memory ---- */

uint64_t own_upload(const void *from, size_t bytes)
{
    uint64_t address = 0;
    check(cu.alloc(&address, bytes), "cuMemAlloc");
    check(cu.upload(address, from, bytes), "cuMemcpyHtoD");
    return address;
}

uint64_t own_zeros(size_t bytes)
{
    uint64_t address = 0;
    check(cu.alloc(&address, bytes), "cuMemAlloc");
    check(cu.zero(address, 0, bytes), "cuMemsetD8");
    return address;
}

void own_download(void *to, uint64_t from, size_t bytes)
{
    own_wait();
    check(cu.download(to, from, bytes), "cuMemcpyDtoH");
}

/* ---- Launches ---- */

void own_start(const struct own_launch *launch, void *first, ...)
{
    void *arguments[MAX_ARGUMENTS] = {first};
    cu_function function = NULL;
    struct cu_launch_attribute attributes[2] = {{.id = DRV_CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION},
                                                {.id = DRV_CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION}};
    struct cu_launch_config config = {.block = {launch->threads, 1, 1}, .shared_bytes = launch->shared_bytes};
    va_list rest;
    va_start(rest, first);
    for (int i = 1; i < MAX_ARGUMENTS && arguments[i - 1]; i++)
        arguments[i] = va_arg(rest, void *);
    va_end(rest);
    for (int i = 0; i < 3; i++)
        config.grid[i] = launch->grid[i] ? launch->grid[i] : 1;
    attributes[0].value.dim[0] = launch->cluster ? launch->cluster : 1;
    attributes[0].value.dim[1] = attributes[0].value.dim[2] = 1;
    attributes[1].value.number = launch->early;
    config.attributes = attributes + (launch->cluster ? 0 : 1);
    config.attribute_count = launch->cluster ? 2 : 1;
    check(cu.function(&function, module, launch->kernel), launch->kernel);
    if (launch->shared_bytes > 48 * 1024)
        check(cu.set_attribute(function, MAX_DYNAMIC_SHARED, (int)launch->shared_bytes), launch->kernel);
    check(cu.launch(&config, function, arguments, NULL), launch->kernel);
}

void own_wait(void)
{
    check(cu.synchronize(), "cuCtxSynchronize");
}

/* ---- Tensor maps ---- */

struct own_map own_tensor(uint64_t address, enum own_element element, uint32_t rank, const uint64_t *sizes,
                          const uint32_t *box, unsigned int swizzle)
{
    struct own_map map;
    uint64_t strides[5];
    const uint32_t steps[5] = {1, 1, 1, 1, 1};
    const int mode = swizzle == 128 ? 3 : swizzle == 64 ? 2 : swizzle == 32 ? 1 : 0; /* CUtensorMapSwizzle */
    strides[0] = sizes[0] * (element == OWN_F32 ? 4 : 2);
    for (uint32_t i = 1; i < rank; i++)
        strides[i] = strides[i - 1] * sizes[i];
    check(cu.encode(&map, (int)element, rank, (void *)(uintptr_t)address, sizes, strides, box, steps, 0, mode, 0, 0),
          "cuTensorMapEncodeTiled");
    return map;
}

/* ---- Numbers ---- */

uint32_t own_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u; /* Numerical Recipes' LCG */
    return *state >> 8;
}

float own_sixteenth(uint32_t *state)
{
    return ((float)(own_random(state) % 33) - 16) / 16;
}

uint16_t own_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return (uint16_t)(bits >> 16);
}

float own_of_bf16(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
}

uint16_t own_f16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    const uint32_t sign = bits >> 16 & 0x8000;
    return (uint16_t)(value == 0 ? sign : sign | ((bits & 0x7fffffff) - (112u << 23)) >> 13);
}

float own_of_f16(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const float magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                            : exponent == 0 ? ldexpf((float)fraction, -24)
                                            : ldexpf((float)(1024 + fraction), exponent - 25);
    return bits & 0x8000 ? -magnitude : magnitude;
}
