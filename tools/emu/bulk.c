/* Bulk copies: runs of bytes between global and shared memory, or to another block (ISA 9.7.9.25.4). Each active lane
 * issues its own; the bytes land in pieces, in any order, and then the mbarrier or the bulk group hears of it. */
#include "tensor.h"

#include <string.h>

enum { PIECE = 128, UNIT = 16 };

/* ---- Operands ---- */

static enum emu_space destination_space(const struct emu_instr *instr)
{
    return emu_opcode_has(instr, "shared::cluster") ? EMU_SHARED_CLUSTER : EMU_SHARED_CTA;
}

static bool locate(struct emu_warp *warp, const struct emu_instr *instr, int lane, enum emu_space space,
                   uint64_t address, uint32_t align, const char *what, struct emu_cta **cta, uint32_t *offset)
{
    if (!emu_shared_locate(warp, space, address, cta, offset)) {
        emu_fault(warp, instr, lane, EMU_OUT_OF_BOUNDS, "%s 0x%llx is not in the cluster's shared memory", what,
                  (unsigned long long)address);
        return false;
    }
    if (*offset % align != 0) {
        emu_fault(warp, instr, lane, EMU_MISALIGNED_ACCESS, "%s at shared memory offset %u is not %u-byte aligned",
                  what, *offset, align);
        return false;
    }
    return true;
}

bool emu_destination_of(struct emu_warp *warp, const struct emu_instr *instr, int lane, enum emu_space space,
                        uint64_t address, uint32_t align, uint64_t mbarrier, struct emu_destination *to)
{
    struct emu_cta *mbarrier_cta;
    uint32_t mbarrier_offset;
    if (!locate(warp, instr, lane, space, address, align, "the destination", &to->cta, &to->offset) ||
        !locate(warp, instr, lane, space, mbarrier, 8, "the mbarrier", &mbarrier_cta, &mbarrier_offset))
        return false;
    if (mbarrier_cta != to->cta) {
        emu_fault(warp, instr, lane, EMU_BAD_OPERAND,
                  "the destination is in block %u of the cluster, the mbarrier in %u", to->cta->rank,
                  mbarrier_cta->rank);
        return false;
    }
    to->mbarrier = emu_shared_window() + ((uint64_t)to->cta->rank << EMU_RANK_SHIFT) + mbarrier_offset;
    return true;
}

uint32_t emu_multicast_of(struct emu_warp *warp, const struct emu_instr *instr, int lane,
                          const struct emu_operand *operand)
{
    uint32_t spare[EMU_LANES];
    const uint32_t blocks = emu_source32(warp, operand, spare)[lane] & 0xffff;
    const int count = warp->cta->cluster->cta_count;
    if (blocks != 0 && blocks >> count == 0)
        return blocks;
    emu_fault(warp, instr, lane, EMU_BAD_OPERAND, "multicast mask 0x%x in a cluster of %d blocks", blocks, count);
    return 0;
}

/* A multiple of 16 (ISA 9.7.9.25.4.1); false after a fault. */
static bool read_size(struct emu_warp *warp, const struct emu_instr *instr, int lane, const struct emu_operand *operand,
                      uint32_t *size)
{
    uint32_t spare[EMU_LANES];
    *size = emu_source32(warp, operand, spare)[lane];
    if (*size % UNIT == 0)
        return true;
    emu_fault(warp, instr, lane, EMU_BAD_OPERAND, "size %u is no multiple of 16", *size);
    return false;
}

static bool aligned_global(struct emu_warp *warp, const struct emu_instr *instr, int lane, uint64_t address)
{
    if (address % UNIT == 0)
        return true;
    emu_fault(warp, instr, lane, EMU_MISALIGNED_ACCESS, "global address 0x%llx is not 16-byte aligned",
              (unsigned long long)address);
    return false;
}

bool emu_write_blocks(const struct emu_async *op, struct emu_cta *cta, uint32_t offset, const uint8_t *bytes,
                      uint32_t size)
{
    const uint32_t blocks = op->multicast ? op->multicast : 1u << cta->rank;
    for (int rank = 0; rank < cta->cluster->cta_count; rank++) {
        if (!(blocks >> rank & 1))
            continue;
        uint8_t *to = emu_touch_shared(&cta->cluster->ctas[rank], &op->access, op->lane, offset, size, EMU_WRITE);
        if (!to)
            return false;
        memcpy(to, bytes, size);
    }
    return true;
}

/* ---- A copy in flight ---- */

/* op->data. FROM and TO are global addresses or shared offsets. */
enum { DATA_FROM, DATA_TO, DATA_SIZE, DATA_TO_RANK };

static struct emu_async *new_copy(struct emu_warp *warp, const struct emu_instr *instr, int lane,
                                  enum emu_async_kind kind, uint64_t from, uint64_t to, uint32_t size)
{
    struct emu_async *op = emu_async_new(warp, instr, lane, kind);
    if (!op)
        return NULL;
    op->piece_count = size ? (int)((size + PIECE - 1) / PIECE) : 1;
    op->data[DATA_FROM] = from;
    op->data[DATA_TO] = to;
    op->data[DATA_SIZE] = size;
    return op;
}

static uint32_t piece_size(const struct emu_async *op, int piece)
{
    const uint32_t left = (uint32_t)op->data[DATA_SIZE] - (uint32_t)piece * PIECE;
    return left < PIECE ? left : PIECE;
}

static bool apply_load(struct emu_async *op, int piece)
{
    const uint32_t at = (uint32_t)piece * PIECE, size = piece_size(op, piece);
    if (size == 0)
        return true;
    const uint8_t *from =
        emu_touch(op->warp, &op->access, op->lane, EMU_GLOBAL, op->data[DATA_FROM] + at, size, UNIT, EMU_READ);
    struct emu_cta *to = &op->warp->cta->cluster->ctas[op->data[DATA_TO_RANK]];
    return from && emu_write_blocks(op, to, (uint32_t)op->data[DATA_TO] + at, from, size);
}

/* Copies, or reduces when the instruction says so. Its reads are weak, its reductions atomic (ISA 9.7.9.25.4.2). */
static void write_piece(const struct emu_instr *instr, uint8_t *to, const uint8_t *from, uint32_t size)
{
    const enum emu_reduction reduction = (enum emu_reduction)instr->facts.mode;
    if (reduction == EMU_R_NONE)
        memcpy(to, from, size);
    else /* ISA 9.7.9.25.4.2 has add.f32 flush subnormals in "the current implementation": an H200 keeps them */
        emu_reduce(reduction, (enum emu_type)instr->type, false, to, from, size);
}

static int written_touch(const struct emu_instr *instr)
{
    return instr->facts.mode == EMU_R_NONE ? EMU_WRITE : EMU_READ | EMU_WRITE;
}

static struct emu_access written_access(const struct emu_async *op)
{
    struct emu_access access = op->access;
    access.atomic = op->instr->facts.mode != EMU_R_NONE;
    return access;
}

static bool apply_store(struct emu_async *op, int piece)
{
    const uint32_t at = (uint32_t)piece * PIECE, size = piece_size(op, piece);
    const struct emu_access written = written_access(op);
    if (size == 0)
        return true;
    const uint8_t *from =
        emu_touch_shared(op->warp->cta, &op->access, op->lane, (uint32_t)op->data[DATA_FROM] + at, size, EMU_READ);
    uint8_t *to = from ? emu_touch(op->warp, &written, op->lane, EMU_GLOBAL, op->data[DATA_TO] + at, size, UNIT,
                                   written_touch(op->instr))
                       : NULL;
    if (!to)
        return false;
    write_piece(op->instr, to, from, size);
    return true;
}

static bool apply_peer(struct emu_async *op, int piece)
{
    const uint32_t at = (uint32_t)piece * PIECE, size = piece_size(op, piece);
    const struct emu_access written = written_access(op);
    struct emu_cta *peer = &op->warp->cta->cluster->ctas[op->data[DATA_TO_RANK]];
    if (size == 0)
        return true;
    const uint8_t *from =
        emu_touch_shared(op->warp->cta, &op->access, op->lane, (uint32_t)op->data[DATA_FROM] + at, size, EMU_READ);
    uint8_t *to = from ? emu_touch_shared(peer, &written, op->lane, (uint32_t)op->data[DATA_TO] + at, size,
                                          written_touch(op->instr))
                       : NULL;
    if (!to)
        return false;
    write_piece(op->instr, to, from, size);
    return true;
}

/* ---- Issue: one lane ---- */

/* [dst], [src], size, [mbar] {, ctaMask} {, policy} */
static bool issue_load(struct emu_warp *warp, const struct emu_instr *instr, int lane)
{
    const struct emu_operand *operands = instr->operands;
    struct emu_destination to;
    uint32_t size, multicast = 0;
    const uint64_t from = emu_address(warp, &operands[1], lane);
    if (!emu_destination_of(warp, instr, lane, destination_space(instr), emu_address(warp, &operands[0], lane), UNIT,
                            emu_address(warp, &operands[3], lane), &to) ||
        !aligned_global(warp, instr, lane, from) || !read_size(warp, instr, lane, &operands[2], &size))
        return false;
    if (emu_opcode_has(instr, "multicast::cluster")) {
        multicast = emu_multicast_of(warp, instr, lane, &operands[4]);
        if (multicast == 0)
            return false;
    }
    struct emu_async *op = new_copy(warp, instr, lane, EMU_ASYNC_LOAD, from, to.offset, size);
    if (!op)
        return false;
    op->apply = apply_load;
    op->data[DATA_TO_RANK] = to.cta->rank;
    op->mbarrier = to.mbarrier;
    op->tx_bytes = size;
    op->multicast = multicast;
    emu_async_issue(op);
    return true;
}

static bool own_source(struct emu_warp *warp, const struct emu_instr *instr, int lane, uint32_t *offset)
{
    struct emu_cta *cta;
    if (!locate(warp, instr, lane, EMU_SHARED_CTA, emu_address(warp, &instr->operands[1], lane), UNIT, "the source",
                &cta, offset))
        return false;
    if (cta == warp->cta)
        return true;
    emu_fault(warp, instr, lane, EMU_BAD_OPERAND, "the source is in block %u of the cluster: shared::cta is this block",
              cta->rank);
    return false;
}

/* [dst], [src], size {, policy} */
static bool issue_store(struct emu_warp *warp, const struct emu_instr *instr, int lane)
{
    uint32_t size, from;
    const uint64_t to = emu_address(warp, &instr->operands[0], lane);
    if (!own_source(warp, instr, lane, &from) || !aligned_global(warp, instr, lane, to) ||
        !read_size(warp, instr, lane, &instr->operands[2], &size))
        return false;
    struct emu_async *op = new_copy(warp, instr, lane, EMU_ASYNC_STORE, from, to, size);
    if (!op)
        return false;
    op->apply = apply_store;
    emu_async_issue(op);
    return true;
}

/* [dst], [src], size, [mbar]: the destination is another block's (ISA 9.7.9.25.4.1). */
static bool issue_peer(struct emu_warp *warp, const struct emu_instr *instr, int lane)
{
    struct emu_destination to;
    uint32_t size, from;
    if (!emu_destination_of(warp, instr, lane, EMU_SHARED_CLUSTER, emu_address(warp, &instr->operands[0], lane), UNIT,
                            emu_address(warp, &instr->operands[3], lane), &to) ||
        !own_source(warp, instr, lane, &from) || !read_size(warp, instr, lane, &instr->operands[2], &size))
        return false;
    if (to.cta == warp->cta) {
        emu_fault(warp, instr, lane, EMU_BAD_OPERAND, "the destination must be another block's shared memory");
        return false;
    }
    struct emu_async *op = new_copy(warp, instr, lane, EMU_ASYNC_LOAD, from, to.offset, size);
    if (!op)
        return false;
    op->apply = apply_peer;
    op->data[DATA_TO_RANK] = to.cta->rank;
    op->mbarrier = to.mbarrier;
    op->tx_bytes = size;
    emu_async_issue(op);
    return true;
}

/* [src], size {, policy}: changes nothing, but must name memory. */
static bool check_prefetch(struct emu_warp *warp, const struct emu_instr *instr, int lane)
{
    uint32_t size;
    const uint64_t from = emu_address(warp, &instr->operands[0], lane);
    if (!aligned_global(warp, instr, lane, from) || !read_size(warp, instr, lane, &instr->operands[1], &size))
        return false;
    if (size == 0 || emu_memory_find(warp->cta->cluster->memory, from, size))
        return true;
    emu_fault(warp, instr, lane, EMU_OUT_OF_BOUNDS, "prefetch of %u bytes at 0x%llx leaves its allocation", size,
              (unsigned long long)from);
    return false;
}

/* ---- Instructions ---- */

typedef bool (*issue_fn)(struct emu_warp *warp, const struct emu_instr *instr, int lane);

static enum emu_action each_lane(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask, issue_fn issue)
{
    for (int lane = 0; lane < EMU_LANES; lane++)
        if (mask >> lane & 1 && !issue(warp, instr, lane))
            return EMU_FAULT;
    return EMU_NEXT;
}

static enum emu_action exec_load(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    return each_lane(warp, instr, mask, issue_load);
}

static enum emu_action exec_store(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    return each_lane(warp, instr, mask, issue_store);
}

static enum emu_action exec_peer(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    return each_lane(warp, instr, mask, issue_peer);
}

static enum emu_action exec_prefetch(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    return each_lane(warp, instr, mask, check_prefetch);
}

static enum emu_action exec_commit(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    (void)instr;
    emu_async_commit(warp, EMU_ASYNC_STORE, mask);
    return EMU_NEXT;
}

static enum emu_action exec_wait(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    const uint64_t pending = (uint64_t)instr->operands[0].imm;
    return emu_async_wait(warp, EMU_ASYNC_STORE, mask, pending, instr->facts.mode != 0) ? EMU_NEXT : EMU_BLOCKED;
}

/* ---- Binding ---- */

/* Checks the number of operands: those all forms have, one for .multicast, one for .L2::cache_hint. */
static bool expect_operands(const struct emu_bind *bind, int least)
{
    const struct emu_instr *instr = bind->instr;
    const int expected = least + emu_opcode_has(instr, "multicast::cluster") + emu_opcode_has(instr, "L2::cache_hint");
    if (instr->operand_count == expected)
        return true;
    return emu_tensor_refuse(bind, "%d operands where %d belong", instr->operand_count, expected);
}

bool emu_bind_bulk_load(const struct emu_bind *bind)
{
    /* Only .shared::cluster multicasts. */
    if (emu_opcode_has(bind->instr, "shared::cta") && emu_opcode_has(bind->instr, "multicast::cluster"))
        return emu_tensor_refuse(bind, "multicast needs a shared::cluster destination");
    bind->instr->exec = exec_load;
    return expect_operands(bind, 4);
}

/* The reduction into facts.mode and its type; EMU_R_NONE for a copy. */
static bool bind_reduction(const struct emu_bind *bind, bool to_global)
{
    struct emu_instr *instr = bind->instr;
    const enum emu_reduction reduction = emu_reduction_of(instr);
    instr->facts.mode = (uint8_t)reduction;
    if (reduction == EMU_R_NONE)
        return true;
    const char *last = strrchr(instr->text, '.') + 1;
    const enum emu_type type = emu_type_find(last);
    const bool half = type == EMU_F16 || type == EMU_BF16;
    instr->type = (uint8_t)type;
    if (!emu_reduction_allowed(reduction, type) ||
        (!to_global && (type == EMU_B64 || (type == EMU_U64 && reduction != EMU_R_ADD))))
        return emu_tensor_refuse(bind, "%s is not a reduction of this type (ISA 9.7.9.25.4.2)", last);
    if (emu_opcode_has(instr, "noftz") != (half && reduction == EMU_R_ADD))
        return emu_tensor_refuse(bind, ".noftz belongs to add.f16 and add.bf16 alone (ISA 9.7.9.25.4.2)");
    return true;
}

bool emu_bind_bulk_store(const struct emu_bind *bind)
{
    bind->instr->exec = exec_store;
    return bind_reduction(bind, true) && expect_operands(bind, 3);
}

bool emu_bind_bulk_peer(const struct emu_bind *bind)
{
    bind->instr->exec = exec_peer;
    return bind_reduction(bind, false) && expect_operands(bind, 4);
}

bool emu_bind_bulk_prefetch(const struct emu_bind *bind)
{
    bind->instr->exec = exec_prefetch;
    return expect_operands(bind, 2);
}

bool emu_bind_bulk_commit(const struct emu_bind *bind)
{
    bind->instr->exec = exec_commit;
    return true;
}

bool emu_bind_bulk_wait(const struct emu_bind *bind)
{
    if (bind->instr->operands[0].kind != EMU_OP_IMM || bind->instr->operands[0].imm < 0)
        return emu_tensor_refuse(bind, "the number of pending groups must be a constant");
    bind->instr->facts.mode = emu_opcode_has(bind->instr, "read");
    bind->instr->exec = exec_wait;
    return true;
}
