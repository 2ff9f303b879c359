/* Tensor reductions: 16 special values into 16 others, each pair once. */
#include "tensors.h"

enum operation { ADD, MIN, MAX, INC, DEC, AND, OR, XOR };

static const struct {
    const char *name;
    int type;
    enum operation operation;
} reductions[] = {
    /* 9.7.9.25.5.3 allows these: one process for all. */
    {"u32.add", U32, ADD},
    {"s32.add", S32, ADD},
    {"u64.add", U64, ADD},
    {"f16.add", F16, ADD},
    {"bf16.add", BF16, ADD},
    {"f32.add", F32, ADD},
    {"f32_ftz.add", F32_FTZ, ADD},
    {"u32.min", U32, MIN},
    {"u32.max", U32, MAX},
    {"s32.min", S32, MIN},
    {"s32.max", S32, MAX},
    {"u64.min", U64, MIN},
    {"s64.max", S64, MAX},
    {"s64.min", S64, MIN},
    {"f16.min", F16, MIN},
    {"f16.max", F16, MAX},
    {"bf16.min", BF16, MIN},
    {"bf16.max", BF16, MAX},
    {"u32.inc", U32, INC},
    {"u32.dec", U32, DEC},
    {"u32.and", U32, AND},
    {"s32.or", S32, OR},
    {"u64.xor", U64, XOR},
    /* These it does not name, or the card does not like: a process each. */
    {"s64.and", S64, AND},
    {"f64.add", F64, ADD},
    {"s64.add", S64, ADD},
    {"u8.add", U8, ADD},
    {"u16.add", U16, ADD},
    {"tf32.add", TF32, ADD},
    {"f32.min", F32, MIN},
    {"f32.max", F32, MAX},
    {"s32.inc", S32, INC},
    {"u64.inc", U64, INC},
    {"f32.xor", F32, XOR},
    {"f16.and", F16, AND},
    {"u8.or", U8, OR},
    {"tf32_ftz.add", TF32_FTZ, ADD},
    {"s64.or", S64, OR},
    {"s64.xor", S64, XOR},
    {"u64.and", U64, AND},
    {"s32.xor", S32, XOR},
    {"f32_ftz.xor", F32_FTZ, XOR},
    {"f64.min", F64, MIN},
    {"f64.xor", F64, XOR},
    {"u64.max", U64, MAX},
};

/* The same at an edge: rows that end within 16 bytes, negative coordinates, a first one that is no multiple. */
static const struct box_case edges[] = {
    {.type = U32, .rank = 2, .dims = {203, 40}, .box = {16, 8}, .steps = {1, 1}, .at = {192, 36}},
    {.type = F16, .rank = 2, .dims = {203, 40}, .box = {32, 8}, .steps = {1, 1}, .at = {176, 36}, .swizzle = 2},
    {.type = U32, .rank = 2, .dims = {203, 40}, .box = {16, 8}, .steps = {1, 1}, .at = {8, -1}},
    {.type = U32, .rank = 2, .dims = {203, 40}, .box = {16, 8}, .steps = {1, 1}, .at = {-4, 1}},
    {.type = U32, .rank = 2, .dims = {203, 40}, .box = {16, 8}, .steps = {1, 1}, .at = {2, 1}},
};

enum { ALLOWED = 23, SIDE = 16 };

int reduction_count(void)
{
    return (int)(sizeof(reductions) / sizeof(*reductions)) - ALLOWED + 1;
}

static uint64_t special(int type, int i)
{
    static const uint16_t half[SIDE] = {0,      0x8000, 1,      0x8001, 0x03ff, 0x0400, 0x3c00, 0xbc00,
                                        0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xfe55, 0x2e66};
    static const uint16_t bf16[SIDE] = {0,      0x8000, 1,      0x8001, 0x007f, 0x0080, 0x3f80, 0xbf80,
                                        0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0x7f81, 0xffd5, 0x3dcd};
    static const uint32_t f32[SIDE] = {0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000,
                                       0x3f800000, 0xbf800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
                                       0x7fc00000, 0x7f800001, 0xffd55555, 0x3dcccccd};
    static const uint64_t whole[SIDE] = {0,
                                         1,
                                         2,
                                         7,
                                         0x7f,
                                         0x80,
                                         0xff,
                                         0x8000,
                                         0x7fffffff,
                                         0x80000000,
                                         0xffffffff,
                                         0x100000000,
                                         0x7fffffffffffffff,
                                         0x8000000000000000,
                                         0xffffffffffffffff,
                                         0x1234567890abcdef};
    return type == F16                                                          ? half[i]
           : type == BF16                                                       ? bf16[i]
           : type == F32 || type == F32_FTZ || type == TF32 || type == TF32_FTZ ? f32[i]
                                                                                : whole[i];
}

static void reduce(int index, device_pointer tensor)
{
    const int type = reductions[index].type;
    const uint32_t bytes = element_bytes(type);
    const struct box_case b = {
        .type = type, .rank = 2, .dims = {SIDE, SIDE}, .box = {SIDE, SIDE}, .steps = {1, 1}, .tight = 1};
    struct box_parameter parameter = parameter_of(&b);
    int operation = (int)reductions[index].operation;
    uint8_t from[SIDE * SIDE * 8] = {0}, to[SIDE * SIDE * 8] = {0};
    struct tensor_map map;
    char name[64];
    snprintf(name, sizeof(name), "tensor.reduce.%s", reductions[index].name);
    if (!map_of(&b, name, tensor, &map))
        return;
    for (int i = 0; i < SIDE * SIDE; i++) {
        memcpy(from + (uint32_t)i * bytes, &(uint64_t){special(type, i % SIDE)}, bytes);
        memcpy(to + (uint32_t)i * bytes, &(uint64_t){special(type, i / SIDE)}, bytes);
    }
    check(cu.to_device(tensor, to, sizeof(to)), "cuMemcpyHtoD");
    check(cu.set(image, 0, WINDOW), "cuMemsetD8");
    check(cu.to_device(image, from, sizeof(from)), "cuMemcpyHtoD");
    void *parameters[] = {&image, &map, &parameter, &operation};
    launch("tensor_reduce", name, 32, parameters);
    check(cu.to_host(host, tensor, sizeof(to)), "cuMemcpyDtoH");
    record(name, host, SIDE * SIDE * bytes);
}

int edge_count(void)
{
    return (int)(sizeof(edges) / sizeof(*edges));
}

void edge_probe(int number)
{
    const struct box_case *b = &edges[number];
    const device_pointer tensor = new_tensor();
    struct box_parameter parameter = parameter_of(b);
    struct tensor_map map;
    int operation = ADD;
    char name[64];
    snprintf(name, sizeof(name), "tensor.reduce.edge.%d", number);
    if (!map_of(b, name, tensor, &map))
        return;
    for (uint32_t i = 0; i < STORED_BYTES; i++)
        host[i] = (uint8_t)(i * 7 & 0x3f); /* no NaNs, no infinities */
    check(cu.to_device(tensor, host, STORED_BYTES), "cuMemcpyHtoD");
    check(cu.to_device(image, host, LOADED_BYTES), "cuMemcpyHtoD");
    void *parameters[] = {&image, &map, &parameter, &operation};
    launch("tensor_reduce", name, 32, parameters);
    check(cu.to_host(host, tensor, STORED_BYTES), "cuMemcpyDtoH");
    record(name, host, STORED_BYTES);
    check(cu.free(tensor), "cuMemFree");
}

/* Prefetches at such places. */
void prefetch_probe(int number)
{
    const struct box_case *b = &edges[number];
    const device_pointer tensor = new_tensor();
    struct box_parameter parameter = parameter_of(b);
    struct tensor_map map;
    char name[64];
    snprintf(name, sizeof(name), "tensor.prefetch.%d", number);
    if (!map_of(b, name, tensor, &map))
        return;
    void *parameters[] = {&out, &map, &parameter};
    launch("tensor_prefetch", name, 32, parameters);
    record(name, "", 0);
    check(cu.free(tensor), "cuMemFree");
}

/* cp.reduce.async.bulk without a map, on the same pairs of f32, f16 and bf16. */
void bulk_reduction_probe(void)
{
    static const int types[] = {F32, F16, BF16, F16};
    for (int i = 0; i < 4; i++) {
        uint8_t from[SIDE * SIDE * 4] = {0}, to[SIDE * SIDE * 4] = {0};
        const uint32_t bytes = element_bytes(types[i]);
        char name[64];
        for (int j = 0; j < SIDE * SIDE; j++) {
            memcpy(from + (uint32_t)j * bytes, &(uint64_t){special(types[i], j % SIDE)}, bytes);
            memcpy(to + (uint32_t)j * bytes, &(uint64_t){special(types[i], j / SIDE)}, bytes);
        }
        check(cu.to_device(out, to, sizeof(to)), "cuMemcpyHtoD");
        check(cu.to_device(image, from, sizeof(from)), "cuMemcpyHtoD");
        uint32_t size = SIDE * SIDE * bytes;
        void *parameters[] = {&out, &image, &size, &i};
        snprintf(name, sizeof(name), "bulk.reduce.%d", i);
        launch("bulk_reduce", name, 32, parameters);
        check(cu.to_host(host, out, size), "cuMemcpyDtoH");
        record(name, host, size);
    }
}

void reduction_probe(int number)
{
    const device_pointer tensor = new_tensor();
    if (number)
        reduce(ALLOWED - 1 + number, tensor);
    else
        for (int i = 0; i < ALLOWED; i++)
            reduce(i, tensor);
    check(cu.free(tensor), "cuMemFree");
}
