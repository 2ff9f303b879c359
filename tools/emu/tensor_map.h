/* Tensor maps: the 128 opaque bytes that cuTensorMapEncodeTiled makes and cp.async.bulk.tensor reads. NVIDIA's format
 * is not published; ours leaves the second 64-bit word alone, since CUTLASS clears its bit 21 (facts/emulation.md 2.2).
 */
#ifndef EMU_TENSOR_MAP_H
#define EMU_TENSOR_MAP_H

#include <stdbool.h>
#include <stdint.h>

enum { EMU_TENSOR_MAP_BYTES = 128, EMU_TENSOR_MAP_ALIGN = 64, EMU_TENSOR_DIMS = 5 };

/* Values of cuda.h's CUtensorMapDataType. */
enum emu_map_type {
    EMU_MAP_U8,
    EMU_MAP_U16,
    EMU_MAP_U32,
    EMU_MAP_S32,
    EMU_MAP_U64,
    EMU_MAP_S64,
    EMU_MAP_F16,
    EMU_MAP_F32,
    EMU_MAP_F64,
    EMU_MAP_BF16,
    EMU_MAP_F32_FTZ,
    EMU_MAP_TF32,
    EMU_MAP_TF32_FTZ,
    EMU_MAP_16U4_ALIGN8B,
    EMU_MAP_16U4_ALIGN16B,
    EMU_MAP_16U6_ALIGN16B,
    EMU_MAP_TYPES
};

/* CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapFloatOOBfill. */
enum { EMU_MAP_INTERLEAVE_NONE, EMU_MAP_INTERLEAVE_16B, EMU_MAP_INTERLEAVE_32B };
enum {
    EMU_MAP_SWIZZLE_NONE,
    EMU_MAP_SWIZZLE_32B,
    EMU_MAP_SWIZZLE_64B,
    EMU_MAP_SWIZZLE_128B,
    EMU_MAP_SWIZZLE_128B_ATOM_32B,
    EMU_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B,
    EMU_MAP_SWIZZLE_128B_ATOM_64B
};
enum { EMU_MAP_FILL_ZERO, EMU_MAP_FILL_NAN };

/* Writes a tensor map, with the argument checks of cuTensorMapEncodeTiled (cuda.h 13.0, an H200's driver). 0
 * (CUDA_SUCCESS), or 1 (CUDA_ERROR_INVALID_VALUE) and the map untouched.
 * dims, box, element_strides: `rank` values, innermost first; strides: rank - 1 values in bytes, of dimension 1 and up,
 * not NULL even when rank is 1. */
int emu_tensor_map_encode_tiled(void *map128, int type, uint32_t rank, uint64_t address, const uint64_t *dims,
                                const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
                                int interleave, int swizzle, int l2_promotion, int oob_fill);

/* What a map says. */
struct emu_tensor_map {
    enum emu_map_type type;
    int rank;
    int interleave, swizzle, fill;
    uint64_t address;
    uint64_t dims[EMU_TENSOR_DIMS];
    uint64_t strides[EMU_TENSOR_DIMS]; /* bytes; [0] the element's size */
    uint32_t box[EMU_TENSOR_DIMS];
    uint32_t element_strides[EMU_TENSOR_DIMS];
};

/* False when the bytes are no tensor map of ours, or one that cuTensorMapEncodeTiled would not make. */
bool emu_tensor_map_decode(const void *map128, struct emu_tensor_map *map);

/* Fields of tensormap.replace (ISA 9.7.9.26). */
enum emu_map_field {
    EMU_FIELD_ADDRESS,
    EMU_FIELD_RANK, /* one less than the rank */
    EMU_FIELD_BOX,
    EMU_FIELD_DIM,
    EMU_FIELD_STRIDE, /* ordinal 0: of dimension 1 */
    EMU_FIELD_STEP,
    EMU_FIELD_TYPE, /* the ISA's numbers, which are not CUtensorMapDataType's */
    EMU_FIELD_INTERLEAVE,
    EMU_FIELD_SWIZZLE,
    EMU_FIELD_FILL,
    EMU_FIELDS
};

/* Changes a field of a map, or of 128 zeros, and marks the map as changed. NULL, or why not. */
const char *emu_tensor_map_replace(void *map128, enum emu_map_field field, uint32_t ordinal, uint64_t value);
/* The map was changed by a kernel and no fence.proxy.tensormap has acquired it since. Any thread may ask and acquire.
 */
bool emu_tensor_map_changed(const void *map128);
void emu_tensor_map_acquire(void *map128);

/* Bytes of an element in global memory; 0 for the packed types of less than a byte. */
int emu_map_type_bytes(enum emu_map_type type);

#endif
