#include "tensor_machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "match.h"

/* The machine that functions without one mean. */
static struct tensor_machine *running;

/* ---- Stand-ins for the engine ---- */

static void note(enum emu_finding_kind kind, const char *format, va_list arguments)
{
    running->faults++;
    running->kind = kind;
    vsnprintf(running->message, sizeof running->message, format, arguments);
}

enum emu_action emu_fault(struct emu_warp *warp, const struct emu_instr *instr, int lane, enum emu_finding_kind kind,
                          const char *format, ...)
{
    (void)warp, (void)instr, (void)lane;
    va_list arguments;
    va_start(arguments, format);
    note(kind, format, arguments);
    va_end(arguments);
    return EMU_FAULT;
}

void emu_find(struct emu_warp *warp, const struct emu_instr *instr, int lane, enum emu_finding_kind kind,
              const char *format, ...)
{
    (void)warp, (void)instr, (void)lane;
    va_list arguments;
    va_start(arguments, format);
    note(kind, format, arguments);
    va_end(arguments);
}

/* Shared memory of block r is at window + (r << 24). */
static const uint64_t window = (uint64_t)1 << 44;

uint64_t emu_shared_window(void)
{
    return window;
}

bool emu_shared_locate(struct emu_warp *warp, enum emu_space space, uint64_t address, struct emu_cta **cta,
                       uint32_t *offset)
{
    const uint64_t in_window = address >= window ? address - window : address;
    const uint64_t rank = in_window >> EMU_RANK_SHIFT;
    (void)space;
    if (rank >= (uint64_t)warp->cta->cluster->cta_count)
        return false;
    *cta = &warp->cta->cluster->ctas[rank];
    *offset = (uint32_t)(in_window & ((1u << EMU_RANK_SHIFT) - 1));
    return *offset < TM_SHARED;
}

static uint8_t *touch_shared(struct emu_cta *cta, const struct emu_access *access, uint32_t offset, size_t size,
                             int touch)
{
    running->touches++;
    running->async_proxy = access->async_proxy;
    running->atomic = access->atomic;
    if (offset + size > TM_SHARED) {
        emu_fault(access->warp, access->instr, -1, EMU_OUT_OF_BOUNDS, "shared %u", (unsigned)offset);
        return NULL;
    }
    if (touch & EMU_READ)
        memset(running->shared_read[cta->rank] + offset, 1, size);
    if (touch & EMU_WRITE)
        memset(running->shared_written[cta->rank] + offset, 1, size);
    return cta->shared.bytes + offset;
}

uint8_t *emu_touch_shared(struct emu_cta *cta, const struct emu_access *access, int lane, uint32_t offset,
                          uint32_t size, int touch)
{
    (void)lane;
    return touch_shared(cta, access, offset, size, touch);
}

uint8_t *emu_touch(struct emu_warp *warp, const struct emu_access *access, int lane, enum emu_space space,
                   uint64_t address, size_t size, size_t align, int touch)
{
    struct emu_cta *cta;
    uint32_t offset;
    if (address % align != 0) {
        emu_fault(warp, access->instr, lane, EMU_MISALIGNED_ACCESS, "0x%llx", (unsigned long long)address);
        return NULL;
    }
    const bool is_shared = space == EMU_SHARED_CTA || space == EMU_SHARED_CLUSTER || address >> 44 == 1;
    if (is_shared && emu_shared_locate(warp, space, address, &cta, &offset))
        return touch_shared(cta, access, offset, size, touch);
    const uint64_t start = (uint64_t)(uintptr_t)running->global;
    const uint64_t params = (uint64_t)(uintptr_t)running->params;
    if (space == EMU_GENERIC && address - params + size <= sizeof running->params)
        return running->params + (address - params);
    if (!is_shared && address >= start && address - start + size <= running->global_bytes)
        return running->global + (address - start);
    emu_fault(warp, access->instr, lane, EMU_OUT_OF_BOUNDS, "0x%llx", (unsigned long long)address);
    return NULL;
}

struct emu_access emu_access_of(struct emu_warp *warp, const struct emu_instr *instr, bool atomic)
{
    return (struct emu_access){.warp = warp, .instr = instr, .atomic = atomic};
}

struct emu_allocation *emu_memory_find(struct emu_memory *memory, uint64_t address, size_t size)
{
    static struct emu_allocation allocation;
    const uint64_t start = (uint64_t)(uintptr_t)running->global;
    (void)memory;
    return address >= start && address - start + size <= running->global_bytes ? &allocation : NULL;
}

bool emu_mbarrier_complete(struct emu_warp *warp, const struct emu_access *access, uint64_t address, uint32_t bytes)
{
    struct emu_cta *cta = NULL;
    uint32_t offset = 0;
    (void)access;
    assert_true(emu_shared_locate(warp, EMU_GENERIC, address, &cta, &offset));
    assert_int_equal(offset, TM_MBARRIER);
    running->tx[cta->rank] += bytes;
    return true;
}

/* ---- Operations in flight ---- */

struct emu_async *emu_async_new(struct emu_warp *warp, const struct emu_instr *instr, int lane,
                                enum emu_async_kind kind)
{
    struct emu_async *op = calloc(1, sizeof *op);
    struct emu_instr *copy = malloc(sizeof *copy);
    assert_non_null(op);
    assert_non_null(copy);
    *copy = *instr;
    op->kind = kind;
    op->warp = warp;
    op->instr = copy;
    op->lane = lane;
    op->piece_count = 1;
    op->access = (struct emu_access){.warp = warp, .instr = copy, .async_proxy = kind != EMU_ASYNC_CP};
    return op;
}

void emu_async_issue(struct emu_async *op)
{
    *running->tail = op;
    running->tail = &op->next;
}

void emu_async_commit(struct emu_warp *warp, enum emu_async_kind kind, uint32_t mask)
{
    (void)warp, (void)kind, (void)mask;
    running->committed++;
}

bool emu_async_wait(struct emu_warp *warp, enum emu_async_kind kind, uint32_t mask, uint64_t pending, bool reads_only)
{
    (void)warp, (void)kind, (void)mask;
    running->waited = pending;
    running->reads_only = reads_only;
    return pending != 7; /* the test's way to ask for a block */
}

void emu_wgmma_rows(struct emu_warp *warp, const struct emu_instr *instr, const int32_t *rows, int count)
{
    (void)warp, (void)instr;
    memcpy(running->in_flight, rows, (size_t)count * sizeof *rows);
    running->in_flight_count = count;
}

void emu_wgmma_fence(struct emu_warp *warp)
{
    (void)warp;
    running->fences++;
}

static void complete(const struct emu_async *op)
{
    const uint32_t blocks = op->multicast;
    const uint64_t offset = op->mbarrier & ((1u << EMU_RANK_SHIFT) - 1);
    if (!op->mbarrier)
        return;
    if (!blocks)
        emu_mbarrier_complete(op->warp, &op->access, op->mbarrier, op->tx_bytes);
    for (uint64_t rank = 0; rank < TM_BLOCKS; rank++)
        if (blocks >> rank & 1)
            emu_mbarrier_complete(op->warp, &op->access, window + (rank << EMU_RANK_SHIFT) + offset, op->tx_bytes);
}

bool tm_finish(struct tensor_machine *tm)
{
    bool fine = true;
    while (tm->queue) {
        struct emu_async *op = tm->queue;
        for (int i = 0; fine && i < op->piece_count; i++)
            fine = op->apply(op, tm->backwards ? op->piece_count - 1 - i : i);
        if (fine)
            complete(op);
        tm->queue = op->next;
        free((void *)(uintptr_t)op->instr);
        free(op->extra);
        free(op);
    }
    tm->tail = &tm->queue;
    return fine;
}

/* ---- The machine ---- */

struct tensor_machine *tm_create(int blocks)
{
    struct tensor_machine *tm = calloc(1, sizeof *tm);
    assert_non_null(tm);
    running = tm;
    tm->tail = &tm->queue;
    tm->kernel = (struct emu_kernel){
        .name = "test", .module = &tm->module, .pool = tm->pool, .row32_count = TM_ROWS32, .param_bytes = 256};
    tm->launch = (struct emu_launch){.kernel = &tm->kernel, .params = tm->params};
    tm->cluster =
        (struct emu_cluster){.launch = &tm->launch, .options = &tm->options, .cta_count = blocks, .ctas = tm->ctas};
    for (int b = 0; b < blocks; b++) {
        tm->ctas[b] = (struct emu_cta){.cluster = &tm->cluster,
                                       .launch = &tm->launch,
                                       .options = &tm->options,
                                       .rank = (uint32_t)b,
                                       .warp_count = TM_WARPS,
                                       .warps = tm->warps[b],
                                       .shared = {.bytes = tm->shared[b], .size = TM_SHARED}};
        for (int w = 0; w < TM_WARPS; w++)
            tm->warps[b][w] = (struct emu_warp){.cta = &tm->ctas[b],
                                                .index = w,
                                                .live = EMU_ALL_LANES,
                                                .present = EMU_ALL_LANES,
                                                .r32 = tm->r32[b][w][0],
                                                .r64 = tm->r64[b][w][0],
                                                .preds = tm->preds[b][w],
                                                .def32 = tm->def32,
                                                .def64 = tm->def64,
                                                .defp = tm->defp};
    }
    return tm;
}

void tm_destroy(struct tensor_machine *tm)
{
    tm->backwards = false;
    while (tm->queue) {
        struct emu_async *next = tm->queue->next;
        free((void *)(uintptr_t)tm->queue->instr);
        free(tm->queue->extra);
        free(tm->queue);
        tm->queue = next;
    }
    free(tm);
}

static enum emu_shape shape_of(const struct emu_operand *operand)
{
    return operand->kind == EMU_OP_ADDRESS  ? EMU_SHAPE_ADDRESS
           : operand->kind == EMU_OP_TENSOR ? EMU_SHAPE_TENSOR
                                            : EMU_SHAPE_VALUE;
}

/* The row, by the real matcher over the real table; NULL with a reason. */
static const struct emu_row *find_row(struct tensor_machine *tm, const char *opcode, int count,
                                      const struct emu_operand *operands)
{
    const struct emu_row_list *const lists[] = {&emu_tensor_rows};
    struct emu_arena *arena = emu_arena_create(1 << 24);
    struct emu_matcher matcher;
    struct emu_candidates candidates;
    enum emu_shape shapes[16];
    for (int i = 0; i < count; i++)
        shapes[i] = shape_of(&operands[i]);
    assert_true(emu_matcher_init(&matcher, arena, lists, 1, tm->why));
    const struct emu_candidate *found = NULL;
    if (emu_match_opcode(&matcher, arena, opcode, &candidates, tm->why))
        found = emu_match_operands(&candidates, opcode, shapes, count, tm->why);
    const struct emu_row *row = found ? found->row : NULL;
    emu_arena_destroy(arena);
    return row;
}

int tm_run(struct tensor_machine *tm, int warp, const char *opcode, uint32_t mask, int operand_count,
           const struct emu_operand *operands)
{
    const struct emu_row *row = find_row(tm, opcode, operand_count, operands);
    if (!row)
        return TM_UNKNOWN;
    struct emu_instr instr = {
        .row = row, .text = opcode, .guard = -1, .operand_count = (uint16_t)operand_count, .operands = operands};
    const struct emu_bind bind = {.instr = &instr, .pool = tm->pool, .why = tm->why};
    if (!row->bind(&bind))
        return TM_REFUSED;
    return (int)instr.exec(&tm->warps[0][warp], &instr, mask);
}

int tm_run_all(struct tensor_machine *tm, const char *opcode, int operand_count, const struct emu_operand *operands)
{
    int result = EMU_NEXT;
    for (int warp = 0; warp < TM_WARPS && result == EMU_NEXT; warp++)
        result = tm_run(tm, warp, opcode, EMU_ALL_LANES, operand_count, operands);
    return result;
}

/* ---- Operands ---- */

struct emu_operand tm_reg32(int row)
{
    return (struct emu_operand){.kind = EMU_OP_REG, .bits = 32, .row = row};
}

struct emu_operand tm_reg64(int row)
{
    return (struct emu_operand){.kind = EMU_OP_REG, .bits = 64, .row = row};
}

struct emu_operand tm_imm(int64_t value)
{
    return (struct emu_operand){.kind = EMU_OP_IMM, .row = -1, .imm = value};
}

struct emu_operand tm_pred(int row)
{
    return (struct emu_operand){.kind = EMU_OP_PRED, .bits = 1, .row = row};
}

struct emu_operand tm_address32(int row)
{
    return (struct emu_operand){.kind = EMU_OP_ADDRESS, .bits = 32, .row = row};
}

struct emu_operand tm_address64(int row)
{
    return (struct emu_operand){.kind = EMU_OP_ADDRESS, .bits = 64, .row = row};
}

struct emu_operand tm_vector(struct tensor_machine *tm, int first, int count)
{
    const int start = tm->pool_count;
    assert_true(start + count <= TM_POOL);
    for (int i = 0; i < count; i++)
        tm->pool[tm->pool_count++] = tm_reg32(first + i);
    return (struct emu_operand){.kind = EMU_OP_VECTOR, .first = start, .count = count};
}

struct emu_operand tm_tensor(struct tensor_machine *tm, int map, int first, int count)
{
    struct emu_operand operand = tm_vector(tm, first, count);
    operand.kind = EMU_OP_TENSOR;
    operand.bits = 64;
    operand.row = map;
    return operand;
}

void tm_set32(struct tensor_machine *tm, int row, uint32_t value)
{
    for (int warp = 0; warp < TM_WARPS; warp++)
        for (int lane = 0; lane < EMU_LANES; lane++)
            tm->r32[0][warp][row][lane] = value;
}

void tm_set64(struct tensor_machine *tm, int row, uint64_t value)
{
    for (int warp = 0; warp < TM_WARPS; warp++)
        for (int lane = 0; lane < EMU_LANES; lane++)
            tm->r64[0][warp][row][lane] = value;
}

uint64_t tm_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
