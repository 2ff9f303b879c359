/* Runs the probes of probes.cu through a CUDA driver, any that dlopen finds, and writes what they found: a binary file
 * of all results and, on standard output, a line with name, size and digest each. A card's lines are the golden ones
 * for the emulated device (h200.txt).
 *
 * probes LIBCUDA IMAGE OUTPUT GROUP: IMAGE is probes.cu as PTX or cubin; `probes list` names the groups. Whatever may
 * fault is a group of its own, because a fault ends the context. "absent" is in no list: it shows what a card does
 * where the ISA says that nothing is defined. Exit: 0 done, 77 no device, 2 no such group, 1 an error. */
#include "probes.h"

#include <dlfcn.h>

/* ---- The driver ---- */

struct driver cu;

static bool load_driver(const char *path)
{
    const struct {
        const char *name;
        void *at;
    } functions[] = {{"cuInit", &cu.init},
                     {"cuDeviceGet", &cu.device_get},
                     {"cuDevicePrimaryCtxRetain", &cu.context_retain},
                     {"cuCtxSetCurrent", &cu.context_set},
                     {"cuModuleLoadData", &cu.module_load},
                     {"cuModuleGetFunction", &cu.module_function},
                     {"cuMemAlloc_v2", &cu.alloc},
                     {"cuMemFree_v2", &cu.free},
                     {"cuMemsetD8_v2", &cu.set},
                     {"cuMemcpyHtoD_v2", &cu.to_device},
                     {"cuMemcpyDtoH_v2", &cu.to_host},
                     {"cuLaunchKernel", &cu.launch},
                     {"cuCtxSynchronize", &cu.synchronize},
                     {"cuTensorMapEncodeTiled", &cu.encode}};
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; library && i < sizeof(functions) / sizeof(*functions); i++) {
        void *symbol = dlsym(library, functions[i].name);
        if (!symbol)
            return false;
        memcpy(functions[i].at, &symbol, sizeof(symbol));
    }
    return library != NULL;
}

void check(int result, const char *what)
{
    if (result == 0)
        return;
    fprintf(stderr, "probes: %s: driver error %d\n", what, result);
    exit(1);
}

/* ---- Results ---- */

static FILE *output;

void record(const char *name, const void *data, uint32_t size)
{
    const uint8_t *bytes = data;
    const uint32_t length = (uint32_t)strlen(name);
    uint64_t digest = 0xcbf29ce484222325u; /* FNV-1a */
    for (uint32_t i = 0; i < size; i++)
        digest = (digest ^ bytes[i]) * 0x100000001b3u;
    printf("%-44s %8u %016llx\n", name, (unsigned)size, (unsigned long long)digest);
    if (fwrite(&length, 4, 1, output) != 1 || fwrite(name, 1, length, output) != length ||
        fwrite(&size, 4, 1, output) != 1 || fwrite(data, 1, size, output) != size)
        exit(1);
}

/* ---- Launches ---- */

static void *module;
device_pointer out, image;
uint8_t host[OUT_BYTES];

void launch(const char *kernel, const char *name, unsigned threads, void **parameters)
{
    void *function;
    check(cu.module_function(&function, module, kernel), kernel);
    int result = cu.launch(function, 1, 1, 1, threads, 1, 1, WINDOW + 2048, NULL, parameters, NULL);
    if (result == 0)
        result = cu.synchronize();
    if (result == 0)
        return;
    printf("%-44s   faults %d\n", name, result);
    exit(0);
}

void run(const char *kernel, const char *name, unsigned threads, const void *bytes, uint32_t size, uint32_t number,
         uint64_t a, uint64_t b, uint32_t out_bytes)
{
    void *parameters[] = {&out, &image, &number, &a, &b};
    check(cu.set(out, 0, OUT_BYTES), "cuMemsetD8");
    check(cu.to_device(image, bytes, size), "cuMemcpyHtoD");
    launch(kernel, name, threads, parameters);
    check(cu.to_host(host, out, out_bytes), "cuMemcpyDtoH");
    record(name, host, out_bytes);
}

/* ---- All ---- */

static void *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    long size = -1;
    char *bytes = NULL;
    if (file && fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0)
        bytes = calloc(1, (size_t)size + 1);
    if (bytes) {
        rewind(file);
        if (fread(bytes, 1, (size_t)size, file) != (size_t)size) {
            free(bytes);
            bytes = NULL;
        }
    }
    if (file)
        fclose(file);
    return bytes;
}

/* A group's name ends in its number where there are many of a kind. */
struct group {
    const char *name;
    void (*one)(void);
    void (*numbered)(int);
    int (*count)(void);
};

static const struct group groups[] = {
    {"matrix", matrix_probes, NULL, NULL},
    {"numbers", number_probes, NULL, NULL},
    {"encode", encoder_probe, NULL, NULL},
    {"hints", hint_probe, NULL, NULL},
    {"load", NULL, load_probe, box_count},
    {"store", NULL, store_probe, box_count},
    {"reduce", NULL, reduction_probe, reduction_count},
    {"edge", NULL, edge_probe, edge_count},
    {"prefetch", NULL, prefetch_probe, edge_count},
    {"bulk", bulk_reduction_probe, NULL, NULL},
};

static void list_groups(void)
{
    for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++)
        if (groups[i].one)
            puts(groups[i].name);
        else
            for (int number = 0; number < groups[i].count(); number++)
                printf("%s%d\n", groups[i].name, number);
}

/* False when there is no such group. */
static bool run_group(const char *name)
{
    for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++) {
        const size_t length = strlen(groups[i].name);
        if (strncmp(name, groups[i].name, length) != 0)
            continue;
        if (groups[i].one)
            groups[i].one();
        else if (atoi(name + length) < groups[i].count())
            groups[i].numbered(atoi(name + length));
        else
            return false;
        return true;
    }
    if (strcmp(name, "absent") != 0)
        return false;
    absent_lane_probe();
    return true;
}

int main(int count, char **arguments)
{
    int device;
    void *context;
    if (count == 2 && strcmp(arguments[1], "list") == 0) {
        list_groups();
        return 0;
    }
    if (count != 5) {
        fprintf(stderr, "usage: %s list | LIBCUDA IMAGE OUTPUT GROUP\n", arguments[0]);
        return 2;
    }
    if (!load_driver(arguments[1]) || cu.init(0) != 0 || cu.device_get(&device, 0) != 0)
        return 77;
    void *bytes = read_file(arguments[2]);
    output = fopen(arguments[3], "wb");
    if (!bytes || !output) {
        perror("probes");
        return 1;
    }
    check(cu.context_retain(&context, device), "cuDevicePrimaryCtxRetain");
    check(cu.context_set(context), "cuCtxSetCurrent");
    check(cu.module_load(&module, bytes), "cuModuleLoadData");
    check(cu.alloc(&out, OUT_BYTES), "cuMemAlloc");
    check(cu.alloc(&image, 1 << 17), "cuMemAlloc");
    const bool known = run_group(arguments[4]);
    free(bytes);
    if (!known)
        return 2;
    return fclose(output) == 0 ? 0 : 1;
}
