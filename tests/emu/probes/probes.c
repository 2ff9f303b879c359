/* Runs the probes of probes.cu through a CUDA driver, any that dlopen finds, and writes what they found: a binary file
 * of all results and, on standard output, a line with name, size and digest each. A card's file is the golden one for
 * the emulated device.
 *
 * probes LIBCUDA IMAGE OUTPUT GROUP: IMAGE is probes.cu as PTX or cubin. GROUP is matrix, encode, convert, or the
 * number of a tensor box: each box in a process of its own (run), because a fault ends the context. Exit: 0 done, 77 no
 * device, 2 no such group, 1 a fault. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The driver ---- */

typedef uint64_t device_pointer;

static struct {
    int (*init)(unsigned);
    int (*device_get)(int *, int);
    int (*context_retain)(void **, int);
    int (*context_set)(void *);
    int (*module_load)(void **, const void *);
    int (*module_function)(void **, void *, const char *);
    int (*alloc)(device_pointer *, size_t);
    int (*free)(device_pointer);
    int (*set)(device_pointer, unsigned char, size_t);
    int (*to_device)(device_pointer, const void *, size_t);
    int (*to_host)(void *, device_pointer, size_t);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                  void **);
    int (*synchronize)(void);
    int (*encode)(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *, const uint32_t *,
                  int, int, int, int);
} cu;

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

static void check(int result, const char *what)
{
    if (result == 0)
        return;
    fprintf(stderr, "probes: %s: driver error %d\n", what, result);
    exit(1);
}

/* ---- Results ---- */

static FILE *output;

static void record(const char *name, const void *data, uint32_t size)
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

enum { OUT_BYTES = 1 << 20, WINDOW = 40 * 1024, ONE_HOT = 32 * 1024 };

static void *module;
static device_pointer out, image;
static uint8_t host[OUT_BYTES];

static void launch(const char *name, unsigned threads, void **parameters)
{
    void *function;
    check(cu.module_function(&function, module, name), name);
    check(cu.launch(function, 1, 1, 1, threads, 1, 1, WINDOW + 2048, NULL, parameters, NULL), name);
    check(cu.synchronize(), name);
}

/* A kernel (out, image, number, a, b) over an image of `bytes`. */
static void run(const char *kernel, const char *name, unsigned threads, const void *bytes, uint32_t size,
                uint32_t number, uint64_t a, uint64_t b, uint32_t out_bytes)
{
    void *parameters[] = {&out, &image, &number, &a, &b};
    check(cu.set(out, 0, OUT_BYTES), "cuMemsetD8");
    check(cu.to_device(image, bytes, size), "cuMemcpyHtoD");
    launch(kernel, threads, parameters);
    check(cu.to_host(host, out, out_bytes), "cuMemcpyDtoH");
    record(name, host, out_bytes);
}

/* ---- wgmma: which byte of shared memory is element (mn, k)? ---- */

static uint8_t window[WINDOW];

/* Each 16-bit unit a different normal f16; behind it, at ONE_HOT, B[k][n] = (k == n % 16), K-major, not swizzled. */
static void number_halves(void)
{
    memset(window, 0, WINDOW);
    for (uint32_t i = 0; i < ONE_HOT / 2; i++) {
        const uint16_t half = (uint16_t)(0x0400 + i);
        memcpy(window + 2 * i, &half, 2);
    }
    for (uint32_t n = 0; n < 64; n++) {
        const uint32_t k = n % 16;
        const uint16_t one = 0x3c00;
        memcpy(window + ONE_HOT + n / 8 * 256 + n % 8 * 16 + k / 8 * 128 + k % 8 * 2, &one, 2);
    }
}

static void number_words(void)
{
    for (uint32_t i = 0; i < WINDOW / 4; i++) {
        const uint32_t word = (0x400 + i) << 13; /* a normal tf32 */
        memcpy(window + 4 * i, &word, 4);
    }
}

static void number_bytes(int high)
{
    for (uint32_t i = 0; i < WINDOW; i++)
        window[i] = (uint8_t)(i >> (high ? 8 : 0));
}

static uint64_t descriptor(uint32_t start, uint32_t leading, uint32_t stride, int mode)
{
    return (uint64_t)(start >> 4) | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32 |
           (uint64_t)mode << 62;
}

static const uint32_t spans[] = {16, 128, 64, 32}; /* of the descriptor's swizzle modes */

/* Two sets of strides a mode, one compact, one with gaps; all stay below ONE_HOT. */
static uint64_t layout(int mode, bool mn_major, int variant)
{
    const uint32_t atom = 8 * spans[mode], start = variant & 1 ? 2048 + (mode && !mn_major ? 32 % spans[mode] : 0) : 0;
    if (!mn_major)
        return mode ? descriptor(start, 16, variant & 2 ? atom + 1024 : atom, mode)
                    : descriptor(start, variant & 2 ? 2048 : 128, variant & 2 ? 128 : 256, mode);
    return mode ? descriptor(start, variant & 2 ? 2 * atom + 1024 : 2 * atom, atom, mode)
                : descriptor(start, 128, variant & 2 ? 512 : 256, mode);
}

static void wgmma_probes(void)
{
    const uint64_t one_hot = descriptor(ONE_HOT, 128, 256, 0);
    char name[64];
    number_halves();
    for (int mode = 0; mode < 4; mode++)
        for (int mn = 0; mn < 2; mn++)
            for (int variant = 0; variant < 4; variant++) {
                const uint64_t d = layout(mode, mn, variant);
                snprintf(name, sizeof(name), "wgmma.f16.A.swizzle%d.%s.%d", mode, mn ? "mn" : "k", variant);
                run(mn ? "wgmma_mk" : "wgmma_kk", name, 128, window, WINDOW, WINDOW, d, one_hot, 64 * 64 * 4);
                snprintf(name, sizeof(name), "wgmma.f16.B.swizzle%d.%s.%d", mode, mn ? "mn" : "k", variant);
                run(mn ? "wgmma_b_mn" : "wgmma_b_k", name, 128, window, WINDOW, WINDOW, 0, d, 16 * 64 * 4);
            }
    for (int mode = 0; mode < 4; mode++)
        for (int high = 0; high < 2; high++) {
            number_bytes(high);
            snprintf(name, sizeof(name), "wgmma.u8.B.swizzle%d.k.%s", mode, high ? "high" : "low");
            run("wgmma_b_u8", name, 128, window, WINDOW, WINDOW, 0, layout(mode, false, 0), 32 * 64 * 4);
        }
    number_words();
    for (int mode = 0; mode < 4; mode++) {
        snprintf(name, sizeof(name), "wgmma.tf32.B.swizzle%d.k", mode);
        run("wgmma_b_tf32", name, 128, window, WINDOW, WINDOW, 0, layout(mode, false, 0), 8 * 64 * 4);
    }
}

static void matrix_probes(void)
{
    for (uint32_t i = 0; i < 256; i++)
        memcpy(window + 2 * i, &(uint16_t){(uint16_t)i}, 2);
    run("matrices", "ldmatrix.movmatrix.stmatrix", 32, window, 512, 0, 0, 0, 640 * 4);
}

/* ---- Tensor copies ---- */

struct box_parameter {
    int at[5];
    int rank;
    uint32_t tx_bytes, offset, window_bytes;
};

struct box_case {
    int type, bytes;
    uint32_t rank;
    int swizzle;
    uint64_t dims[5];
    uint32_t box[5], steps[5];
    int at[5];
    uint32_t offset;
};

/* Types and swizzles by their numbers in cuda.h. */
static const struct box_case boxes[] = {
    {9, 2, 1, 0, {1000}, {256}, {1}, {512}, 0},
    {9, 2, 1, 0, {1000}, {64}, {1}, {-3}, 128},
    {9, 2, 2, 3, {200, 40}, {64, 16}, {1, 1}, {64, 3}, 0},
    {9, 2, 2, 3, {200, 40}, {64, 16}, {1, 1}, {168, 33}, 1152},
    {6, 2, 2, 2, {200, 40}, {32, 16}, {1, 1}, {-5, -2}, 0},
    {6, 2, 2, 2, {200, 40}, {32, 9}, {1, 1}, {5, 2}, 640},
    {0, 1, 2, 1, {208, 40}, {32, 16}, {1, 1}, {190, 30}, 128},
    {7, 4, 2, 1, {200, 40}, {8, 16}, {1, 1}, {100, 7}, 0},
    {7, 4, 3, 3, {40, 9, 6}, {32, 4, 3}, {1, 1, 1}, {10, 7, 4}, 0},
    {8, 8, 3, 0, {40, 9, 6}, {10, 4, 3}, {1, 2, 1}, {33, 2, -1}, 0},
    {4, 8, 4, 3, {20, 6, 5, 4}, {16, 3, 2, 2}, {1, 1, 2, 1}, {2, 5, 1, 3}, 0},
    {3, 4, 5, 0, {12, 5, 4, 3, 3}, {8, 3, 3, 2, 2}, {1, 2, 1, 1, 2}, {6, 1, 2, 2, 1}, 256},
    {1, 2, 5, 2, {64, 3, 3, 3, 3}, {32, 2, 2, 2, 2}, {1, 1, 1, 1, 1}, {40, 2, -1, 1, 0}, 0},
    /* A swizzled box that is narrower than its swizzle: packed rows, or rows as far apart as the swizzle is wide? */
    {9, 2, 2, 3, {200, 40}, {32, 16}, {1, 1}, {64, 3}, 0},
    {9, 2, 2, 3, {200, 40}, {16, 16}, {1, 1}, {64, 3}, 0},
    {9, 2, 2, 2, {200, 40}, {16, 16}, {1, 1}, {64, 3}, 0},
};

enum { TENSOR_BYTES = 1 << 18 };

struct __attribute__((aligned(128))) tensor_map {
    uint64_t words[16];
};

static void strides_of(const struct box_case *b, uint64_t strides[5])
{
    uint64_t stride = (b->dims[0] * (uint64_t)b->bytes + 15) / 16 * 16 + 32;
    for (uint32_t i = 1; i < b->rank; i++) {
        strides[i - 1] = stride;
        stride = stride * b->dims[i] + 32;
    }
}

static uint32_t box_bytes(const struct box_case *b)
{
    uint32_t bytes = (uint32_t)b->bytes;
    for (uint32_t i = 0; i < b->rank; i++)
        bytes *= (b->box[i] + b->steps[i] - 1) / b->steps[i];
    return bytes;
}

static void tensor_probe(const struct box_case *b, int number, device_pointer tensor)
{
    static uint8_t bytes[TENSOR_BYTES];
    struct tensor_map map = {{0}};
    uint64_t strides[5] = {0};
    struct box_parameter parameter = {
        .rank = (int)b->rank, .tx_bytes = box_bytes(b), .offset = b->offset, .window_bytes = 8192};
    char name[64];
    memcpy(parameter.at, b->at, sizeof(parameter.at));
    strides_of(b, strides);
    check(cu.encode(&map, b->type, b->rank, (void *)(uintptr_t)tensor, b->dims, strides, b->box, b->steps, 0,
                    b->swizzle, 0, 0),
          "cuTensorMapEncodeTiled");
    for (int i = 0; i < TENSOR_BYTES; i++)
        bytes[i] = (uint8_t)(i * 31 + i / 251 + i / 65536);
    check(cu.to_device(tensor, bytes, TENSOR_BYTES), "cuMemcpyHtoD");
    void *load[] = {&out, &map, &parameter};
    launch("tensor_load", 32, load);
    check(cu.to_host(host, out, 8192), "cuMemcpyDtoH");
    snprintf(name, sizeof(name), "tensor.load.%d", number);
    record(name, host, 8192);
    check(cu.set(tensor, 0x5a, TENSOR_BYTES), "cuMemsetD8");
    check(cu.to_device(image, bytes, WINDOW), "cuMemcpyHtoD");
    void *store[] = {&image, &map, &parameter};
    launch("tensor_store", 32, store);
    check(cu.to_host(bytes, tensor, 65536), "cuMemcpyDtoH");
    snprintf(name, sizeof(name), "tensor.store.%d", number);
    record(name, bytes, 65536);
}

static void box_probe(int number)
{
    device_pointer tensor;
    check(cu.alloc(&tensor, TENSOR_BYTES), "cuMemAlloc");
    tensor_probe(&boxes[number], number, tensor);
    check(cu.free(tensor), "cuMemFree");
}

/* What the driver answers to arguments at the edges: one change each to a map that is right. */
static void encoder_probe(device_pointer address)
{
    enum { CASES = 24 };
    static const uint64_t most = (uint64_t)1 << 32, far = (uint64_t)1 << 40;
    uint8_t answers[CASES];
    for (int i = 0; i < CASES; i++) {
        uint64_t dims[2] = {640, 100}, strides[1] = {1280}, start = address;
        uint32_t box[2] = {64, 8}, steps[2] = {1, 1}, rank = 2;
        int swizzle = 3, type = 9, fill = 0, interleave = 0, promotion = 0;
        struct tensor_map maps[2] = {{{0}}, {{0}}};
        switch (i) {
        case 1:
            start += 8;
            break;
        case 2:
            start += 16;
            break;
        case 3:
            dims[1] = 0;
            break;
        case 4:
            dims[1] = most;
            break;
        case 5:
            dims[1] = most + 1;
            break;
        case 6:
            strides[0] = 1288;
            break;
        case 7:
            strides[0] = far;
            break;
        case 8:
            strides[0] = far - 16;
            break;
        case 9:
            box[1] = 0;
            break;
        case 10:
            box[1] = 256;
            break;
        case 11:
            box[1] = 257;
            break;
        case 12:
            box[0] = 4;
            break;
        case 13:
            box[0] = 72;
            break;
        case 14:
            box[0] = 56;
            break;
        case 15:
            steps[1] = 0;
            break;
        case 16:
            steps[1] = 8;
            break;
        case 17:
            steps[1] = 9;
            break;
        case 18:
            steps[0] = 0;
            break;
        case 19:
            rank = 0;
            break;
        case 20:
            fill = 1;
            break;
        case 21:
            fill = 1, type = 1;
            break;
        case 22:
            interleave = 1;
            break;
        case 23:
            strides[0] = 0;
            break;
        default:
            break;
        }
        answers[i] = (uint8_t)cu.encode(maps, type, rank, (void *)(uintptr_t)start, dims, strides, box, steps,
                                        interleave, swizzle, promotion, fill);
    }
    for (int i = 0; i < CASES; i++)
        fprintf(stderr, "%d", answers[i]);
    fprintf(stderr, " encoder\n");
    record("tensor.encode", answers, CASES);
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

static void conversion_probes(void)
{
    run("conversions", "cvt.exact", 128, window, 512, 0, 0, 0, OUT_BYTES);
    run("conversions", "cvt.ties", 128, window, 512, 0x8000, 0, 0, OUT_BYTES);
    run("conversions", "cvt.near", 128, window, 512, 0x8001, 0, 0, OUT_BYTES);
}

/* False when there is no such group. */
static bool run_group(const char *group)
{
    const int box = atoi(group);
    if (strcmp(group, "matrix") == 0) {
        wgmma_probes();
        matrix_probes();
    } else if (strcmp(group, "encode") == 0)
        encoder_probe(image);
    else if (strcmp(group, "convert") == 0)
        conversion_probes();
    else if (group[0] >= '0' && group[0] <= '9' && box < (int)(sizeof(boxes) / sizeof(*boxes)))
        box_probe(box);
    else
        return false;
    return true;
}

int main(int count, char **arguments)
{
    int device;
    void *context;
    if (count != 5) {
        fprintf(stderr, "usage: %s LIBCUDA IMAGE OUTPUT GROUP\n", arguments[0]);
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
