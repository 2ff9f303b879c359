/* Tensor instructions: what wgmma.c, mma.c, matrix_copy.c, bulk.c, bulk_tensor.c and remote.c share. */
#ifndef EMU_TENSOR_H
#define EMU_TENSOR_H

#include "engine.h"

/* ---- Binding (tensor.c) ---- */

/* True when `token` ("satfinite", "multicast::cluster") is one of the opcode's parts between dots. */
bool emu_opcode_has(const struct emu_instr *instr, const char *token);
/* The opcode's part number `at`, 0 being the base name; empty when there are fewer. */
void emu_opcode_part(const struct emu_instr *instr, int at, char part[32]);
/* The first of `names` (NULL ends them) that is a part of the opcode: its index, or -1. */
int emu_opcode_find(const struct emu_instr *instr, const char *const *names);
/* Writes the reason and returns false. */
bool emu_tensor_refuse(const struct emu_bind *bind, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The elements of a vector operand; another operand is its own only element. */
const struct emu_operand *emu_vector_elements(const struct emu_operand *pool, const struct emu_operand *operand,
                                              int *count);

static inline const struct emu_operand *emu_pool(const struct emu_warp *warp)
{
    return warp->cta->launch->kernel->pool;
}

/* A whole warp's instruction: true when all 32 lanes execute it, otherwise a fault is reported (ISA: .aligned). */
bool emu_whole_warp(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask);
/* A 64-bit source that must be the same in all lanes; false after a fault that names it. */
bool emu_uniform64(struct emu_warp *warp, const struct emu_instr *instr, const struct emu_operand *operand,
                   const char *name, uint64_t *value);

/* Element types of matrices. Their values are exact in float; so are their products, but for over- and underflow. */
enum emu_number { EMU_N_F16, EMU_N_BF16, EMU_N_TF32, EMU_N_E4M3, EMU_N_E5M2, EMU_N_S8, EMU_N_U8, EMU_NUMBERS };
/* From PTX's spelling; EMU_NUMBERS when it is none. */
enum emu_number emu_number_find(const char *name);
int emu_number_bytes(enum emu_number element);

/* ---- Rows (tensor.c lists them) ---- */

bool emu_bind_refused(const struct emu_bind *bind);

bool emu_bind_wgmma(const struct emu_bind *bind);
bool emu_bind_wgmma_fence(const struct emu_bind *bind);
bool emu_bind_wgmma_commit(const struct emu_bind *bind);
bool emu_bind_wgmma_wait(const struct emu_bind *bind);

bool emu_bind_mma(const struct emu_bind *bind);

bool emu_bind_ldmatrix(const struct emu_bind *bind);
bool emu_bind_stmatrix(const struct emu_bind *bind);
bool emu_bind_movmatrix(const struct emu_bind *bind);

bool emu_bind_bulk_load(const struct emu_bind *bind);
bool emu_bind_bulk_store(const struct emu_bind *bind);
bool emu_bind_bulk_peer(const struct emu_bind *bind);
bool emu_bind_bulk_prefetch(const struct emu_bind *bind);
bool emu_bind_bulk_commit(const struct emu_bind *bind);
bool emu_bind_bulk_wait(const struct emu_bind *bind);

bool emu_bind_tensor_load(const struct emu_bind *bind);
bool emu_bind_tensor_store(const struct emu_bind *bind);
bool emu_bind_tensor_prefetch(const struct emu_bind *bind);

bool emu_bind_map_replace(const struct emu_bind *bind);
bool emu_bind_map_copy(const struct emu_bind *bind);
bool emu_bind_map_fence(const struct emu_bind *bind);

bool emu_bind_st_async(const struct emu_bind *bind);
bool emu_bind_red_async(const struct emu_bind *bind);

/* ---- Asynchronous copies (bulk.c) ---- */

/* Where a copy arrives: a block's shared memory, and its mbarrier. */
struct emu_destination {
    struct emu_cta *cta;
    uint32_t offset;
    uint64_t mbarrier; /* generic */
};

/* Resolves a destination and its mbarrier, both `align`ed (the mbarrier to 8), in one block. False after a fault. */
bool emu_destination_of(struct emu_warp *warp, const struct emu_instr *instr, int lane, enum emu_space space,
                        uint64_t address, uint32_t align, uint64_t mbarrier, struct emu_destination *to);

/* Writes one piece into the same offset of each block of the multicast set, or of `cta`. False after a fault. */
bool emu_write_blocks(const struct emu_async *op, struct emu_cta *cta, uint32_t offset, const uint8_t *bytes,
                      uint32_t size);

/* The multicast operand of a lane, checked against the cluster's size; 0 after a fault. */
uint32_t emu_multicast_of(struct emu_warp *warp, const struct emu_instr *instr, int lane,
                          const struct emu_operand *operand);

/* ---- Reductions (reduction.c) ---- */

enum emu_reduction {
    EMU_R_ADD,
    EMU_R_MIN,
    EMU_R_MAX,
    EMU_R_INC,
    EMU_R_DEC,
    EMU_R_AND,
    EMU_R_OR,
    EMU_R_XOR,
    EMU_R_NONE
};

/* From the opcode; EMU_R_NONE when it has none. */
enum emu_reduction emu_reduction_of(const struct emu_instr *instr);
/* True when ISA 9.7.9.25.4.2 allows it for the type. */
bool emu_reduction_allowed(enum emu_reduction reduction, enum emu_type type);
/* Combines `size` bytes of elements into `into`. ftz: f32 sums flush subnormals. */
void emu_reduce(enum emu_reduction reduction, enum emu_type type, bool ftz, uint8_t *into, const uint8_t *from,
                size_t size);

#endif
