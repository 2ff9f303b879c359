/* Tensor copies in tile mode (ISA 9.7.9.25.5): a box of up to five dimensions between global memory, as a tensor map
 * describes it, and consecutive rows of shared memory, swizzled. */
#include "tensor.h"
#include "tensor_map.h"

#include <stdlib.h>
#include <string.h>

enum { UNIT = 16, DESTINATION_ALIGN = 128, MOST_ROW_BYTES = 256 * 8, OOB_NAN = 0x7ff7 };

/* A copy in flight (op->extra). A piece is one row of the box: its innermost dimension. */
struct tensor_copy {
    struct emu_tensor_map map;
    int64_t first[EMU_TENSOR_DIMS];  /* coordinates */
    uint32_t count[EMU_TENSOR_DIMS]; /* elements of the box */
    uint32_t row_bytes;
    uint32_t pitch;        /* from row to row in shared memory: a swizzled row takes up its swizzle's span */
    uint32_t swizzle_bits; /* 0, 1, 3, 7: of the unit's number in its 128 bytes */
    uint32_t offset;       /* in shared memory */
    uint32_t rank;         /* block, for loads */
    enum emu_reduction reduction;
    enum emu_type type; /* of the reduction */
};

/* ---- The map ---- */

static uint64_t map_address(struct emu_warp *warp, const struct emu_operand *operand, int lane)
{
    struct emu_operand address = *operand;
    address.kind = EMU_OP_ADDRESS;
    return emu_address(warp, &address, lane);
}

/* A kernel parameter's address is the host's: its place in the parameters is what must be aligned. */
static uint64_t map_alignment_base(const struct emu_warp *warp, uint64_t address)
{
    const struct emu_launch *launch = warp->cta->launch;
    const uint64_t start = (uint64_t)(uintptr_t)launch->params;
    return address - start < launch->kernel->param_bytes ? address - start : address;
}

static bool read_map(struct emu_warp *warp, const struct emu_instr *instr, int lane, uint64_t address,
                     struct emu_tensor_map *map)
{
    const struct emu_access access = emu_access_of(warp, instr, false);
    if (map_alignment_base(warp, address) % EMU_TENSOR_MAP_ALIGN != 0) {
        emu_fault(warp, instr, lane, EMU_MISALIGNED_ACCESS, "the tensor map at 0x%llx is not 64-byte aligned",
                  (unsigned long long)address);
        return false;
    }
    const uint8_t *bytes = emu_touch(warp, &access, lane, EMU_GENERIC, address, EMU_TENSOR_MAP_BYTES, 1, EMU_READ);
    if (!bytes)
        return false;
    if (!emu_tensor_map_decode(bytes, map)) {
        emu_fault(warp, instr, lane, EMU_BAD_OPERAND,
                  "the 128 bytes at 0x%llx are no tensor map that cuTensorMapEncodeTiled of this device would make",
                  (unsigned long long)address);
        return false;
    }
    if (!emu_tensor_map_changed(bytes))
        return true;
    emu_fault(warp, instr, lane, EMU_BAD_OPERAND,
              "the tensor map at 0x%llx was changed by a kernel: fence.proxy.tensormap::generic.acquire is missing "
              "(ISA 9.7.13.4)",
              (unsigned long long)address);
    return false;
}

static uint32_t swizzle_span(const struct emu_tensor_map *map)
{
    return map->swizzle == EMU_MAP_SWIZZLE_NONE ? 0 : 16u << map->swizzle;
}

static int opcode_rank(const struct emu_instr *instr)
{
    static const char *const dims[] = {"1d", "2d", "3d", "4d", "5d", NULL};
    return emu_opcode_find(instr, dims) + 1;
}

/* NULL: nothing is wrong with it here. */
static const char *unfit(const struct emu_instr *instr, const struct emu_tensor_map *map)
{
    if (map->interleave != EMU_MAP_INTERLEAVE_NONE)
        return "interleaved tensor maps are not emulated";
    return map->rank != opcode_rank(instr) ? "the tensor map has another number of dimensions" : NULL;
}

/* Faults of an H200 (probes of boxes, tests/emu/probes). ISA 5.5.3.1: the box's address must be a multiple of 16 bytes;
 * the tensor's and its strides are, so the first coordinate decides. The ISA allows negative coordinates without a word
 * on stores. NULL: none. */
static const char *illegal(const struct tensor_copy *copy, bool writes)
{
    if (copy->first[0] * (int64_t)copy->map.strides[0] % UNIT != 0)
        return "the first coordinate is no multiple of 16 bytes: the box's address must be one (ISA 5.5.3.1)";
    for (int i = 0; writes && i < copy->map.rank; i++)
        if (copy->first[i] < 0)
            return "a tensor store or reduction at a negative coordinate is an illegal instruction on sm_90";
    return NULL;
}

/* Reads map and coordinates. False after a fault. */
static bool read_copy(struct emu_warp *warp, const struct emu_instr *instr, int lane, const struct emu_operand *tensor,
                      bool writes, struct tensor_copy *copy)
{
    struct emu_tensor_map *map = &copy->map;
    if (!read_map(warp, instr, lane, map_address(warp, tensor, lane), map))
        return false;
    const char *why = unfit(instr, map);
    for (int i = 0; !why && i < map->rank; i++) {
        uint32_t spare[EMU_LANES];
        const uint32_t step = i ? map->element_strides[i] : 1; /* the first is interleaving's (ISA 5.5.3.2) */
        copy->first[i] = (int32_t)emu_source32(warp, &emu_pool(warp)[tensor->first + i], spare)[lane];
        copy->count[i] = (map->box[i] + step - 1) / step;
    }
    why = why ? why : illegal(copy, writes);
    if (why) {
        emu_fault(warp, instr, lane, EMU_BAD_OPERAND, "%s", why);
        return false;
    }
    copy->row_bytes = copy->count[0] * (uint32_t)map->strides[0];
    copy->pitch = swizzle_span(map) ? swizzle_span(map) : copy->row_bytes;
    copy->swizzle_bits = swizzle_span(map) ? swizzle_span(map) / UNIT - 1 : 0;
    return true;
}

static uint32_t row_count(const struct tensor_copy *copy)
{
    uint32_t rows = 1;
    for (int i = 1; i < copy->map.rank; i++)
        rows *= copy->count[i];
    return rows;
}

/* ---- Rows ---- */

/* The part of a row that lies in the tensor: its global address, and where it begins in the row. 0 bytes: none. */
struct row_part {
    uint64_t address;
    uint32_t skip, bytes;
};

static struct row_part row_part_of(const struct tensor_copy *copy, int piece)
{
    const struct emu_tensor_map *map = &copy->map;
    const int64_t dim = (int64_t)map->dims[0], count = copy->count[0], first = copy->first[0];
    const int64_t low = first < 0 ? -first : 0, high = dim - first < count ? dim - first : count;
    struct row_part part = {.address = map->address};
    uint32_t left = (uint32_t)piece;
    if (low >= high)
        return part;
    for (int i = 1; i < map->rank; i++) {
        const int64_t at = copy->first[i] + (int64_t)(left % copy->count[i]) * map->element_strides[i];
        left /= copy->count[i];
        if (at < 0 || at >= (int64_t)map->dims[i])
            return part;
        part.address += (uint64_t)at * map->strides[i];
    }
    const uint64_t element = map->strides[0];
    part.address += (uint64_t)(first + low) * element;
    part.skip = (uint32_t)((uint64_t)low * element);
    part.bytes = (uint32_t)((uint64_t)(high - low) * element);
    return part;
}

/* Where a 16-byte unit of shared memory lies after swizzling, which works on the final address. */
static uint32_t swizzled(const struct tensor_copy *copy, uint32_t offset)
{
    return offset ^ (offset >> 7 & copy->swizzle_bits) << 4;
}

/* A swizzled row lies in its aligned 32, 64 or 128 bytes, with the units exchanged within them. */
static void permute_row(const struct tensor_copy *copy, uint32_t offset, const uint8_t *from, uint8_t *to)
{
    for (uint32_t at = 0; at < copy->row_bytes; at += UNIT)
        memcpy(to + (swizzled(copy, offset + at) - offset), from + at, UNIT);
}

/* A row that is narrower than its swizzle leaves the other units of the span alone. */
static bool write_units(struct emu_async *op, uint32_t offset, const uint8_t *row)
{
    const struct tensor_copy *copy = op->extra;
    struct emu_cta *cta = &op->warp->cta->cluster->ctas[copy->rank];
    for (uint32_t at = 0; at < copy->row_bytes; at += UNIT)
        if (!emu_write_blocks(op, cta, swizzled(copy, offset + at), row + at, UNIT))
            return false;
    return true;
}

static bool write_row(struct emu_async *op, uint32_t offset, const uint8_t *row)
{
    const struct tensor_copy *copy = op->extra;
    uint8_t buffer[MOST_ROW_BYTES];
    if (copy->row_bytes != copy->pitch)
        return write_units(op, offset, row);
    if (copy->swizzle_bits) {
        permute_row(copy, offset, row, buffer);
        row = buffer;
    }
    return emu_write_blocks(op, &op->warp->cta->cluster->ctas[copy->rank], offset, row, copy->row_bytes);
}

/* What arrives for elements outside the tensor. The ISA names OOB-NaN and keeps its value to itself. */
static void fill_row(const struct tensor_copy *copy, uint8_t *row)
{
    const uint16_t nan = OOB_NAN;
    memset(row, 0, copy->row_bytes);
    for (uint32_t at = 0; copy->map.fill == EMU_MAP_FILL_NAN && at < copy->row_bytes; at += sizeof(nan))
        memcpy(row + at, &nan, sizeof(nan));
}

/* Maps of tf32 round on the way in: to nearest even, subnormals as well, and there is one NaN, positive. The variant
 * with "FTZ" in its name flushes nothing in loads (H200). */
static void round_to_tf32(uint8_t *bytes, uint32_t size)
{
    for (uint32_t at = 0; at < size; at += 4) {
        uint32_t value;
        memcpy(&value, bytes + at, sizeof(value));
        const bool nan = (value & 0x7fffffff) > 0x7f800000;
        value = nan ? 0x7fffe000 : (value + 0xfff + (value >> 13 & 1)) & 0xffffe000;
        memcpy(bytes + at, &value, sizeof(value));
    }
}

static bool apply_load(struct emu_async *op, int piece)
{
    const struct tensor_copy *copy = op->extra;
    const struct row_part part = row_part_of(copy, piece);
    uint8_t row[MOST_ROW_BYTES];
    fill_row(copy, row);
    if (part.bytes) {
        const uint8_t *from =
            emu_touch(op->warp, &op->access, op->lane, EMU_GLOBAL, part.address, part.bytes, 1, EMU_READ);
        if (!from)
            return false;
        memcpy(row + part.skip, from, part.bytes);
        if (copy->map.type == EMU_MAP_TF32 || copy->map.type == EMU_MAP_TF32_FTZ)
            round_to_tf32(row + part.skip, part.bytes);
    }
    return write_row(op, copy->offset + (uint32_t)piece * copy->pitch, row);
}

/* Reads the units of shared memory that hold a part of a row, into their places in the row. NULL after a fault. */
static const uint8_t *read_shared(const struct emu_async *op, uint32_t offset, const struct row_part *part,
                                  uint8_t *row)
{
    const struct tensor_copy *copy = op->extra;
    const uint32_t end = part->skip + part->bytes;
    const bool whole = !copy->swizzle_bits || part->bytes == copy->pitch;
    const uint32_t start = copy->swizzle_bits ? part->skip / UNIT * UNIT : part->skip;
    const uint32_t step = whole ? part->bytes : UNIT;
    uint8_t buffer[MOST_ROW_BYTES];
    for (uint32_t at = start; at < end; at += step) {
        const uint32_t from = whole ? offset + at : swizzled(copy, offset + at);
        const uint8_t *bytes = emu_touch_shared(op->warp->cta, &op->access, op->lane, from, step, EMU_READ);
        if (!bytes)
            return NULL;
        memcpy(whole ? buffer + at : row + at, bytes, step);
    }
    if (whole && copy->swizzle_bits) /* exchanging units is its own inverse */
        permute_row(copy, offset, buffer, row);
    else if (whole)
        memcpy(row + start, buffer + start, part->bytes);
    return row;
}

static bool flushes(const struct tensor_copy *copy)
{
    return copy->map.type == EMU_MAP_F32_FTZ || copy->map.type == EMU_MAP_TF32_FTZ;
}

/* A row that ends within 16 bytes is stored to their end, into the tensor's padding (H200). */
static void round_up_part(const struct tensor_copy *copy, struct row_part *part)
{
    const uint32_t end = (part->skip + part->bytes + UNIT - 1) / UNIT * UNIT;
    if (part->bytes)
        part->bytes = (end < copy->row_bytes ? end : copy->row_bytes) - part->skip;
}

/* Elements outside the tensor are neither read nor written, but for those. */
static bool apply_store(struct emu_async *op, int piece)
{
    const struct tensor_copy *copy = op->extra;
    struct row_part part = row_part_of(copy, piece);
    const bool reduces = copy->reduction != EMU_R_NONE;
    struct emu_access written = op->access;
    uint8_t row[MOST_ROW_BYTES];
    written.atomic = reduces;
    round_up_part(copy, &part);
    if (part.bytes == 0)
        return true;
    if (!read_shared(op, copy->offset + (uint32_t)piece * copy->pitch, &part, row))
        return false;
    uint8_t *to = emu_touch(op->warp, &written, op->lane, EMU_GLOBAL, part.address, part.bytes, 1,
                            reduces ? EMU_READ | EMU_WRITE : EMU_WRITE);
    if (!to)
        return false;
    if (reduces)
        emu_reduce(copy->reduction, copy->type, flushes(copy), to, row + part.skip, part.bytes);
    else
        memcpy(to, row + part.skip, part.bytes);
    return true;
}

/* ---- Issue: one lane ---- */

static bool hand_over(struct emu_async *op, const struct tensor_copy *copy)
{
    struct tensor_copy *extra = malloc(sizeof(*extra));
    if (!extra) {
        emu_fault(op->warp, op->instr, op->lane, EMU_LIMIT, "no memory for a tensor copy");
        return false;
    }
    *extra = *copy;
    op->extra = extra;
    op->piece_count = (int)row_count(copy);
    emu_async_issue(op);
    return true;
}

/* [dst], [map, coordinates], [mbar] {, ctaMask} {, policy} */
static bool issue_load(struct emu_warp *warp, const struct emu_instr *instr, int lane)
{
    struct tensor_copy copy = {.reduction = EMU_R_NONE};
    struct emu_destination to;
    uint32_t multicast = 0;
    const enum emu_space space = emu_opcode_has(instr, "shared::cluster") ? EMU_SHARED_CLUSTER : EMU_SHARED_CTA;
    if (!read_copy(warp, instr, lane, &instr->operands[1], false, &copy) ||
        !emu_destination_of(warp, instr, lane, space, emu_address(warp, &instr->operands[0], lane), DESTINATION_ALIGN,
                            emu_address(warp, &instr->operands[2], lane), &to))
        return false;
    if (emu_opcode_has(instr, "multicast::cluster")) {
        multicast = emu_multicast_of(warp, instr, lane, &instr->operands[3]);
        if (multicast == 0)
            return false;
    }
    struct emu_async *op = emu_async_new(warp, instr, lane, EMU_ASYNC_LOAD);
    if (!op)
        return false;
    copy.offset = to.offset;
    copy.rank = to.cta->rank;
    op->apply = apply_load;
    op->mbarrier = to.mbarrier;
    op->multicast = multicast;
    /* Elements outside the tensor count as well. */
    op->tx_bytes = row_count(&copy) * copy.row_bytes;
    return hand_over(op, &copy);
}

/* ISA 9.7.9.25.5.3: the element type is the map's. It names no types; an H200 adds f64, and tf32 as f32, and takes
 * bits of the 32-bit integers and .u64 alone. */
static enum emu_type reduction_type(enum emu_reduction reduction, enum emu_map_type type)
{
    static const uint8_t types[EMU_MAP_TYPES] = {
        [EMU_MAP_U32] = EMU_U32, [EMU_MAP_S32] = EMU_S32,  [EMU_MAP_U64] = EMU_U64,     [EMU_MAP_S64] = EMU_S64,
        [EMU_MAP_F16] = EMU_F16, [EMU_MAP_F32] = EMU_F32,  [EMU_MAP_BF16] = EMU_BF16,   [EMU_MAP_F32_FTZ] = EMU_F32,
        [EMU_MAP_F64] = EMU_F64, [EMU_MAP_TF32] = EMU_F32, [EMU_MAP_TF32_FTZ] = EMU_F32};
    if (reduction >= EMU_R_AND && reduction <= EMU_R_XOR)
        return type == EMU_MAP_U32 || type == EMU_MAP_S32 ? EMU_B32 : type == EMU_MAP_U64 ? EMU_B64 : EMU_NONE;
    return (enum emu_type)types[type];
}

/* [map, coordinates], [src] {, policy} */
static bool issue_store(struct emu_warp *warp, const struct emu_instr *instr, int lane)
{
    struct tensor_copy copy = {.reduction = (enum emu_reduction)instr->facts.mode};
    struct emu_cta *cta;
    const uint64_t from = emu_address(warp, &instr->operands[1], lane);
    if (!read_copy(warp, instr, lane, &instr->operands[0], true, &copy))
        return false;
    copy.type = reduction_type(copy.reduction, copy.map.type);
    if (copy.reduction != EMU_R_NONE && !emu_reduction_allowed(copy.reduction, copy.type)) {
        emu_fault(warp, instr, lane, EMU_BAD_OPERAND, "the map's element type does not allow this reduction");
        return false;
    }
    if (!emu_shared_locate(warp, EMU_SHARED_CTA, from, &cta, &copy.offset) || cta != warp->cta) {
        emu_fault(warp, instr, lane, EMU_OUT_OF_BOUNDS, "the source 0x%llx is not in this block's shared memory",
                  (unsigned long long)from);
        return false;
    }
    if (copy.offset % DESTINATION_ALIGN != 0) {
        emu_fault(warp, instr, lane, EMU_MISALIGNED_ACCESS, "the source at offset %u is not 128-byte aligned",
                  copy.offset);
        return false;
    }
    struct emu_async *op = emu_async_new(warp, instr, lane, EMU_ASYNC_STORE);
    if (!op)
        return false;
    op->apply = apply_store;
    return hand_over(op, &copy);
}

/* ---- Instructions ---- */

static enum emu_action exec_load(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    for (int lane = 0; lane < EMU_LANES; lane++)
        if (mask >> lane & 1 && !issue_load(warp, instr, lane))
            return EMU_FAULT;
    return EMU_NEXT;
}

static enum emu_action exec_store(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    for (int lane = 0; lane < EMU_LANES; lane++)
        if (mask >> lane & 1 && !issue_store(warp, instr, lane))
            return EMU_FAULT;
    return EMU_NEXT;
}

/* Prefetches change nothing, but their map must be one. */
static enum emu_action exec_prefetch(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    struct tensor_copy copy;
    for (int lane = 0; lane < EMU_LANES; lane++)
        if (mask >> lane & 1 && !read_copy(warp, instr, lane, &instr->operands[0], false, &copy))
            return EMU_FAULT;
    return EMU_NEXT;
}

/* ---- Binding ---- */

static bool bind_tensor(const struct emu_bind *bind, int tensor, int least, emu_exec_fn exec)
{
    struct emu_instr *instr = bind->instr;
    const int expected = least + emu_opcode_has(instr, "multicast::cluster") + emu_opcode_has(instr, "L2::cache_hint");
    if (instr->operand_count != expected)
        return emu_tensor_refuse(bind, "%d operands where %d belong", instr->operand_count, expected);
    if (instr->operands[tensor].count != opcode_rank(instr))
        return emu_tensor_refuse(bind, "%d coordinates in %d dimensions", (int)instr->operands[tensor].count,
                                 opcode_rank(instr));
    instr->exec = exec;
    return true;
}

bool emu_bind_tensor_load(const struct emu_bind *bind)
{
    if (emu_opcode_has(bind->instr, "shared::cta") && emu_opcode_has(bind->instr, "multicast::cluster"))
        return emu_tensor_refuse(bind, "multicast needs a shared::cluster destination");
    return bind_tensor(bind, 1, 3, exec_load);
}

bool emu_bind_tensor_store(const struct emu_bind *bind)
{
    bind->instr->facts.mode = (uint8_t)emu_reduction_of(bind->instr);
    return bind_tensor(bind, 0, 2, exec_store);
}

bool emu_bind_tensor_prefetch(const struct emu_bind *bind)
{
    return bind_tensor(bind, 0, 1, exec_prefetch);
}
