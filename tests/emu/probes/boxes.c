/* Tensor copies of one box. What is where when the box leaves the tensor, is swizzled, narrow, displaced or strided;
 * and which of these fault. */
#include "tensors.h"

#define LONG_ROW                                                                                                       \
    {                                                                                                                  \
        1000                                                                                                           \
    }
#define PLANE                                                                                                          \
    {                                                                                                                  \
        200, 40                                                                                                        \
    }
#define CUBE                                                                                                           \
    {                                                                                                                  \
        64, 9, 6                                                                                                       \
    }
#define HYPER                                                                                                          \
    {                                                                                                                  \
        64, 5, 5, 5                                                                                                    \
    }
#define HYPER5                                                                                                         \
    {                                                                                                                  \
        64, 4, 4, 4, 4                                                                                                 \
    }
#define ONES                                                                                                           \
    {                                                                                                                  \
        1, 1, 1, 1, 1                                                                                                  \
    }

static const struct box_case boxes[] = {
    {BF16, 1, 0, LONG_ROW, {256}, ONES, {512}, 0, 0, 0},
    {BF16, 1, 0, LONG_ROW, {64}, ONES, {-3}, 128, 0, 0},
    {BF16, 2, 3, PLANE, {64, 16}, ONES, {64, 3}, 0, 0, 0},
    {BF16, 2, 3, PLANE, {64, 16}, ONES, {168, 33}, 1152, 0, 0},
    {F16, 2, 2, PLANE, {32, 16}, ONES, {-5, -2}, 0, 0, 0},
    {F16, 2, 2, PLANE, {32, 9}, ONES, {5, 2}, 640, 0, 0},
    {U8, 2, 1, {208, 40}, {32, 16}, ONES, {190, 30}, 128, 0, 0},
    {F32, 2, 1, PLANE, {8, 16}, ONES, {100, 7}, 0, 0, 0},
    {F32, 3, 3, {40, 9, 6}, {32, 4, 3}, ONES, {10, 7, 4}, 0, 0, 0},
    {F64, 3, 0, {40, 9, 6}, {10, 4, 3}, {1, 2, 1}, {33, 2, -1}, 0, 0, 0},
    {U64, 4, 3, {20, 6, 5, 4}, {16, 3, 2, 2}, {1, 1, 2, 1}, {2, 5, 1, 3}, 0, 0, 0},
    {S32, 5, 0, {12, 5, 4, 3, 3}, {8, 3, 3, 2, 2}, {1, 2, 1, 1, 2}, {6, 1, 2, 2, 1}, 256, 0, 0},
    {U16, 5, 2, {64, 3, 3, 3, 3}, {32, 2, 2, 2, 2}, ONES, {40, 2, -1, 1, 0}, 0, 0, 0},

    /* 13: a swizzled box that is narrower than its swizzle. */
    {BF16, 2, 3, PLANE, {32, 16}, ONES, {64, 3}, 0, 0, 0},
    {BF16, 2, 3, PLANE, {16, 16}, ONES, {64, 3}, 0, 0, 0},
    {BF16, 2, 2, PLANE, {16, 16}, ONES, {64, 3}, 0, 0, 0},
    {BF16, 2, 1, PLANE, {8, 16}, ONES, {64, 3}, 0, 0, 0},
    {BF16, 2, 2, PLANE, {8, 16}, ONES, {64, 3}, 0, 0, 0},
    {BF16, 2, 2, PLANE, {24, 16}, ONES, {64, 3}, 0, 0, 0},
    {BF16, 2, 3, PLANE, {8, 16}, ONES, {64, 3}, 0, 0, 0},
    {BF16, 2, 3, PLANE, {24, 16}, ONES, {64, 3}, 0, 0, 0},
    {BF16, 2, 3, PLANE, {40, 16}, ONES, {64, 3}, 0, 0, 0},
    {BF16, 2, 3, PLANE, {48, 16}, ONES, {64, 3}, 0, 0, 0},
    {BF16, 2, 3, PLANE, {56, 16}, ONES, {64, 3}, 0, 0, 0},
    {BF16, 2, 3, PLANE, {32, 16}, ONES, {184, 30}, 128, 0, 0},
    {BF16, 2, 3, PLANE, {24, 16}, ONES, {-8, -2}, 640, 0, 0},
    {F32, 3, 3, CUBE, {12, 4, 3}, ONES, {56, 7, 4}, 384, 0, 0},
    {BF16, 1, 3, LONG_ROW, {24}, ONES, {64}, 128, 0, 0},
    {BF16, 1, 3, LONG_ROW, {64}, ONES, {64}, 640, 0, 0},

    /* 29: the innermost coordinate, by type. */
    {U8, 1, 0, {208}, {32}, ONES, {1}, 0, 0, 0},
    {U8, 1, 0, {208}, {32}, ONES, {8}, 0, 0, 0},
    {U8, 1, 0, {208}, {32}, ONES, {16}, 0, 0, 0},
    {U8, 2, 0, {208, 40}, {32, 4}, ONES, {8, 1}, 0, 0, 0},
    {BF16, 1, 0, LONG_ROW, {64}, ONES, {4}, 0, 0, 0},
    {BF16, 1, 0, LONG_ROW, {64}, ONES, {8}, 0, 0, 0},
    {F32, 1, 0, LONG_ROW, {64}, ONES, {2}, 0, 0, 0},
    {F32, 1, 0, LONG_ROW, {64}, ONES, {4}, 0, 0, 0},
    {F64, 1, 0, LONG_ROW, {64}, ONES, {1}, 0, 0, 0},
    {F64, 1, 0, LONG_ROW, {64}, ONES, {2}, 0, 0, 0},
    {U64, 2, 3, PLANE, {16, 4}, ONES, {1, 1}, 0, 0, 0},
    {F32, 4, 0, HYPER, {8, 2, 2, 2}, ONES, {2, 1, 1, 1}, 0, 0, 0},
    {F32, 5, 0, HYPER5, {8, 2, 2, 2, 2}, ONES, {2, 1, 1, 1, 1}, 0, 0, 0},

    /* 42: out of the tensor in its innermost dimension. */
    {BF16, 1, 0, LONG_ROW, {64}, ONES, {-8}, 0, 0, 0},
    {BF16, 1, 0, LONG_ROW, {64}, ONES, {-64}, 0, 0, 0},
    {BF16, 1, 0, LONG_ROW, {64}, ONES, {992}, 0, 0, 0},
    {BF16, 1, 0, LONG_ROW, {64}, ONES, {1000}, 0, 0, 0},
    {BF16, 1, 0, LONG_ROW, {64}, ONES, {1 << 20}, 0, 0, 0},
    {BF16, 1, 0, {997}, {64}, ONES, {960}, 0, 0, 0},
    {BF16, 2, 0, PLANE, {64, 4}, ONES, {-8, 3}, 0, 0, 0},
    {BF16, 2, 3, PLANE, {64, 4}, ONES, {-8, 3}, 0, 0, 0},
    {BF16, 2, 3, {203, 40}, {64, 4}, ONES, {160, 3}, 0, 0, 0},
    {BF16, 2, 3, {203, 40}, {64, 4}, ONES, {-24, 3}, 0, 0, 0},
    {U8, 2, 1, {203, 40}, {32, 4}, ONES, {192, 3}, 0, 0, 0},
    {F32, 2, 2, {203, 40}, {16, 4}, ONES, {192, 3}, 0, 0, 0},

    /* 54: in an outer one, at each end, by rank. */
    {BF16, 2, 0, PLANE, {64, 4}, ONES, {8, -1}, 0, 0, 0},
    {BF16, 2, 3, PLANE, {64, 4}, ONES, {8, -2}, 0, 0, 0},
    {BF16, 2, 3, PLANE, {64, 4}, ONES, {8, -4}, 0, 0, 0},
    {BF16, 2, 0, PLANE, {64, 4}, ONES, {8, 38}, 0, 0, 0},
    {BF16, 2, 0, PLANE, {64, 4}, ONES, {8, 40}, 0, 0, 0},
    {BF16, 2, 0, PLANE, {64, 4}, ONES, {-8, -1}, 0, 0, 0},
    {BF16, 3, 0, CUBE, {32, 3, 3}, ONES, {8, -1, 1}, 0, 0, 0},
    {BF16, 3, 0, CUBE, {32, 3, 3}, ONES, {8, 1, -1}, 0, 0, 0},
    {BF16, 3, 0, CUBE, {32, 3, 3}, ONES, {8, 7, 1}, 0, 0, 0},
    {BF16, 3, 0, CUBE, {32, 3, 3}, ONES, {8, 1, 4}, 0, 0, 0},
    {BF16, 3, 0, CUBE, {32, 3, 3}, ONES, {-8, -1, -1}, 0, 0, 0},
    {BF16, 4, 0, HYPER, {32, 2, 2, 2}, ONES, {8, -1, 1, 1}, 0, 0, 0},
    {BF16, 4, 0, HYPER, {32, 2, 2, 2}, ONES, {8, 1, -1, 1}, 0, 0, 0},
    {BF16, 4, 0, HYPER, {32, 2, 2, 2}, ONES, {8, 1, 1, -1}, 0, 0, 0},
    {BF16, 4, 0, HYPER, {32, 2, 2, 2}, ONES, {8, 4, 4, 4}, 0, 0, 0},
    {BF16, 4, 0, HYPER, {32, 2, 2, 2}, ONES, {-8, 1, 1, 1}, 0, 0, 0},
    {BF16, 5, 0, HYPER5, {32, 2, 2, 2, 2}, ONES, {8, -1, 1, 1, 1}, 0, 0, 0},
    {BF16, 5, 0, HYPER5, {32, 2, 2, 2, 2}, ONES, {8, 1, -1, 1, 1}, 0, 0, 0},
    {BF16, 5, 0, HYPER5, {32, 2, 2, 2, 2}, ONES, {8, 1, 1, -1, 1}, 0, 0, 0},
    {BF16, 5, 0, HYPER5, {32, 2, 2, 2, 2}, ONES, {8, 1, 1, 1, -1}, 0, 0, 0},
    {BF16, 5, 0, HYPER5, {32, 2, 2, 2, 2}, ONES, {8, 3, 3, 3, 3}, 0, 0, 0},
    {BF16, 5, 0, HYPER5, {32, 2, 2, 2, 2}, ONES, {-8, 1, 1, 1, 1}, 0, 0, 0},
    {BF16, 5, 0, HYPER5, {32, 2, 2, 2, 2}, ONES, {40, 1, 1, 1, 1}, 0, 0, 0},
    {U16, 5, 2, {64, 3, 3, 3, 3}, {32, 2, 2, 2, 2}, ONES, {40, 1, 1, 1, 0}, 0, 0, 0},
    {U16, 5, 2, {64, 3, 3, 3, 3}, {32, 2, 2, 2, 2}, ONES, {32, 1, -1, 1, 0}, 0, 0, 0},
    {U16, 5, 0, {64, 3, 3, 3, 3}, {32, 2, 2, 2, 2}, ONES, {32, 2, -1, 1, 0}, 0, 0, 0},

    /* 80: traversal strides. */
    {BF16, 2, 0, PLANE, {64, 8}, {1, 2}, {8, 3}, 0, 0, 0},
    {BF16, 2, 3, PLANE, {64, 8}, {1, 2}, {8, 3}, 0, 0, 0},
    {BF16, 2, 3, PLANE, {64, 8}, {1, 3}, {8, 3}, 0, 0, 0},
    {BF16, 2, 0, PLANE, {64, 8}, {1, 8}, {8, 3}, 0, 0, 0},
    {BF16, 2, 0, PLANE, {64, 8}, {2, 1}, {8, 3}, 0, 0, 0},
    {BF16, 2, 0, PLANE, {64, 8}, {1, 2}, {8, -1}, 0, 0, 0},
    {BF16, 2, 0, PLANE, {64, 8}, {1, 3}, {8, 36}, 0, 0, 0},
    {BF16, 3, 2, CUBE, {32, 4, 4}, {1, 2, 1}, {8, 1, 1}, 0, 0, 0},
    {BF16, 3, 0, CUBE, {32, 4, 4}, {1, 1, 3}, {8, 1, 1}, 0, 0, 0},
    {BF16, 4, 0, HYPER, {32, 2, 2, 3}, {1, 2, 1, 2}, {8, 1, 1, 1}, 0, 0, 0},

    /* 90: where the box begins in shared memory. */
    {BF16, 2, 0, PLANE, {64, 4}, ONES, {8, 3}, 8, 0, 0},
    {BF16, 2, 0, PLANE, {64, 4}, ONES, {8, 3}, 16, 0, 0},
    {BF16, 2, 0, PLANE, {64, 4}, ONES, {8, 3}, 32, 0, 0},
    {BF16, 2, 0, PLANE, {64, 4}, ONES, {8, 3}, 64, 0, 0},
    {BF16, 2, 1, PLANE, {16, 4}, ONES, {8, 3}, 16, 0, 0},
    {BF16, 2, 1, PLANE, {16, 4}, ONES, {8, 3}, 32, 0, 0},
    {BF16, 2, 2, PLANE, {32, 4}, ONES, {8, 3}, 64, 0, 0},
    {BF16, 2, 3, PLANE, {64, 4}, ONES, {8, 3}, 64, 0, 0},
    {BF16, 2, 1, PLANE, {16, 16}, ONES, {8, 3}, 128, 0, 0},
    {BF16, 2, 2, PLANE, {32, 16}, ONES, {8, 3}, 384, 0, 0},
    {BF16, 2, 3, PLANE, {64, 16}, ONES, {8, 3}, 896, 0, 0},

    /* 101: NaN outside, and what floats of each type become on their way. */
    {F16, 2, 2, PLANE, {32, 8}, ONES, {176, 36}, 0, 1, 0},
    {BF16, 2, 3, PLANE, {64, 8}, ONES, {-16, -2}, 0, 1, 0},
    {F32, 2, 0, PLANE, {16, 8}, ONES, {192, 36}, 0, 1, 0},
    {F64, 2, 0, PLANE, {16, 8}, ONES, {192, 36}, 0, 1, 0},
    {F32_FTZ, 2, 0, PLANE, {16, 16}, ONES, {192, 30}, 0, 1, 0},
    {TF32, 2, 0, PLANE, {16, 16}, ONES, {192, 30}, 0, 1, 0},
    {TF32_FTZ, 2, 0, PLANE, {16, 16}, ONES, {192, 30}, 0, 1, 0},
    {F32, 2, 0, PLANE, {32, 32}, ONES, {64, 3}, 0, 0, 0},
    {F32_FTZ, 2, 0, PLANE, {32, 32}, ONES, {64, 3}, 0, 0, 0},
    {TF32, 2, 0, PLANE, {32, 32}, ONES, {64, 3}, 0, 0, 0},
    {TF32_FTZ, 2, 0, PLANE, {32, 32}, ONES, {64, 3}, 0, 0, 0},

    /* 112: rows without gaps, rows that are all the same, rows of odd sizes. */
    {BF16, 2, 3, PLANE, {64, 16}, ONES, {160, 30}, 0, 0, 1},
    {BF16, 2, 0, PLANE, {64, 16}, ONES, {160, 30}, 0, 0, 2},
    {BF16, 2, 0, PLANE, {24, 16}, ONES, {8, 3}, 0, 0, 0},
    {BF16, 2, 0, PLANE, {8, 16}, ONES, {8, 3}, 0, 0, 0},
    {BF16, 2, 0, PLANE, {200, 8}, ONES, {8, 3}, 0, 0, 0},
    {S64, 2, 1, PLANE, {4, 16}, ONES, {8, 3}, 0, 0, 0},
    {U32, 3, 1, CUBE, {8, 5, 5}, ONES, {60, 6, 3}, 128, 0, 0},

    /* 119: rows that end within 16 bytes, once more: narrow, and with NaN outside. */
    {BF16, 2, 3, {203, 40}, {40, 8}, ONES, {176, 35}, 128, 0, 0},
    {BF16, 2, 0, {203, 40}, {8, 8}, ONES, {200, 35}, 0, 1, 0},
    {U8, 2, 0, {193, 40}, {32, 8}, ONES, {176, 35}, 0, 0, 0},
    {TF32, 2, 0, {203, 40}, {8, 8}, ONES, {200, 35}, 0, 1, 0},
};

int box_count(void)
{
    return (int)(sizeof(boxes) / sizeof(*boxes));
}

uint32_t element_bytes(int type)
{
    static const uint8_t bytes[TYPES] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    return bytes[type];
}

static void strides_of(const struct box_case *b, uint64_t strides[5])
{
    const uint64_t gap = b->tight ? 0 : 32;
    uint64_t stride = b->tight == 2 ? 0 : (b->dims[0] * element_bytes(b->type) + 15) / 16 * 16 + gap;
    for (uint32_t i = 1; i < b->rank; i++) {
        strides[i - 1] = stride;
        stride = stride * b->dims[i] + gap;
    }
}

bool map_of(const struct box_case *b, const char *name, device_pointer tensor, struct tensor_map *map)
{
    uint64_t strides[5] = {0};
    strides_of(b, strides);
    const int result = cu.encode(map, b->type, b->rank, (void *)(uintptr_t)tensor, b->dims, strides, b->box, b->steps,
                                 0, b->swizzle, 0, b->fill);
    if (result != 0)
        printf("%-44s  refused %d\n", name, result);
    return result == 0;
}

/* The innermost traversal stride counts for nothing (cuTensorMapEncodeTiled). */
struct box_parameter parameter_of(const struct box_case *b)
{
    struct box_parameter parameter = {.rank = (int)b->rank, .offset = b->offset, .window_bytes = LOADED_BYTES};
    parameter.tx_bytes = element_bytes(b->type) * b->box[0];
    for (uint32_t i = 1; i < b->rank; i++)
        parameter.tx_bytes *= (b->box[i] + b->steps[i] - 1) / b->steps[i];
    memcpy(parameter.at, b->at, sizeof(parameter.at));
    return parameter;
}

device_pointer new_tensor(void)
{
    device_pointer tensor;
    check(cu.alloc(&tensor, TENSOR_BYTES), "cuMemAlloc");
    return tensor;
}

static uint8_t pattern[TENSOR_BYTES];

/* Every byte differs from its neighbours; floats of 32 bits get special values, and ties of tf32, among them. */
static void fill_pattern(int type)
{
    static const uint32_t special[] = {1,          0x80000001, 0x007fffff, 0x00800000, 0x7f800001, 0xffc00000,
                                       0x7f800000, 0x80000000, 0x3f801000, 0x3f801001, 0x3f800fff, 0x3f803000,
                                       0x7f7fffff, 0x007ff000, 0x7fffffff, 0xff812345};
    for (uint32_t i = 0; i < TENSOR_BYTES; i++)
        pattern[i] = (uint8_t)(i * 31 + i / 251 + i / 65536);
    if (type == F32 || type >= F32_FTZ)
        for (uint32_t i = 0; i < TENSOR_BYTES / 4; i += 3)
            memcpy(pattern + i * 4, &special[i / 3 % 16], 4);
}

void load_probe(int number)
{
    const struct box_case *b = &boxes[number];
    const device_pointer tensor = new_tensor();
    struct box_parameter parameter = parameter_of(b);
    struct tensor_map map;
    char name[64];
    snprintf(name, sizeof(name), "tensor.load.%d", number);
    if (!map_of(b, name, tensor, &map))
        return;
    fill_pattern(b->type);
    check(cu.to_device(tensor, pattern, TENSOR_BYTES), "cuMemcpyHtoD");
    void *parameters[] = {&out, &map, &parameter};
    launch("tensor_load", name, 32, parameters);
    check(cu.to_host(host, out, LOADED_BYTES), "cuMemcpyDtoH");
    record(name, host, LOADED_BYTES);
    check(cu.free(tensor), "cuMemFree");
}

void store_probe(int number)
{
    const struct box_case *b = &boxes[number];
    const device_pointer tensor = new_tensor();
    struct box_parameter parameter = parameter_of(b);
    struct tensor_map map;
    char name[64];
    if (b->tight == 2) /* which of the rows would stay? */
        return;
    snprintf(name, sizeof(name), "tensor.store.%d", number);
    if (!map_of(b, name, tensor, &map))
        return;
    fill_pattern(b->type);
    check(cu.set(tensor, 0x5a, TENSOR_BYTES), "cuMemsetD8");
    check(cu.to_device(image, pattern, WINDOW), "cuMemcpyHtoD");
    void *parameters[] = {&image, &map, &parameter};
    launch("tensor_store", name, 32, parameters);
    check(cu.to_host(host, tensor, STORED_BYTES), "cuMemcpyDtoH");
    record(name, host, STORED_BYTES);
    check(cu.free(tensor), "cuMemFree");
}

/* A load, a store and a reduction with cache hints: the same as without. */
void hint_probe(void)
{
    static const struct box_case b = {U32, 2, 2, PLANE, {16, 8}, ONES, {8, 3}, 0, 0, 0};
    const device_pointer tensor = new_tensor();
    struct box_parameter parameter = parameter_of(&b);
    struct tensor_map map;
    if (!map_of(&b, "tensor.hints", tensor, &map))
        return;
    fill_pattern(U32);
    check(cu.to_device(tensor, pattern, TENSOR_BYTES), "cuMemcpyHtoD");
    void *parameters[] = {&out, &map, &parameter};
    launch("tensor_hints", "tensor.hints", 32, parameters);
    check(cu.to_host(host, tensor, STORED_BYTES), "cuMemcpyDtoH");
    record("tensor.hints", host, STORED_BYTES);
    check(cu.free(tensor), "cuMemFree");
}
