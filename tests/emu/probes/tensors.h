/* Tensor maps of the probes. */
#ifndef PROBES_TENSORS_H
#define PROBES_TENSORS_H

#include "probes.h"

enum { TENSOR_BYTES = 1 << 18, LOADED_BYTES = 8192, STORED_BYTES = 65536 };

/* As in cuda.h. */
enum type { U8, U16, U32, S32, U64, S64, F16, F32, F64, BF16, F32_FTZ, TF32, TF32_FTZ, TYPES };

struct __attribute__((aligned(128))) tensor_map {
    uint64_t words[16];
};

/* The parameter of the kernels. */
struct box_parameter {
    int at[5];
    int rank;
    uint32_t tx_bytes, offset, window_bytes;
};

struct box_case {
    int type;
    uint32_t rank;
    int swizzle; /* 0 to 3: none, 32, 64, 128 bytes */
    uint64_t dims[5];
    uint32_t box[5], steps[5];
    int at[5];
    uint32_t offset; /* of the box in shared memory, from a multiple of 1024 */
    int fill;        /* 1: NaN outside the tensor */
    int tight;       /* 1: rows of the tensor follow each other without gaps; 2: all rows are the first one */
};

uint32_t element_bytes(int type);
/* False when the driver refuses, which it records under `name`. */
bool map_of(const struct box_case *box, const char *name, device_pointer tensor, struct tensor_map *map);
struct box_parameter parameter_of(const struct box_case *box);
device_pointer new_tensor(void);

#endif
