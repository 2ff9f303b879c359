/* ldmatrix, stmatrix, movmatrix: 8x8 matrices of 16-bit elements between shared memory and registers (ISA 9.7.14.5.15
 * to 17). Row j of matrix i is at the address in lane 8i + j; lane l holds elements 2(l % 4) and the next of row l / 4,
 * or, transposed, rows 2(l % 4) and the next of column l / 4. */
#include "tensor.h"

#include <string.h>

enum { ROWS = 8, MOST_MATRICES = 4 };

/* An 8x8 matrix as it lies in memory. */
typedef uint16_t matrix[ROWS][ROWS];

static void matrix_to_lanes(const matrix m, bool transposed, uint32_t lanes[EMU_LANES])
{
    for (int lane = 0; lane < EMU_LANES; lane++) {
        const int row = lane / 4, at = 2 * (lane % 4);
        const uint32_t low = transposed ? m[at][row] : m[row][at];
        const uint32_t high = transposed ? m[at + 1][row] : m[row][at + 1];
        lanes[lane] = low | high << 16;
    }
}

static void lanes_to_matrix(const uint32_t lanes[EMU_LANES], bool transposed, matrix m)
{
    for (int lane = 0; lane < EMU_LANES; lane++)
        for (int i = 0; i < 2; i++) {
            const int row = lane / 4, at = 2 * (lane % 4) + i;
            *(transposed ? &m[at][row] : &m[row][at]) = (uint16_t)(lanes[lane] >> 16 * i);
        }
}

/* The bytes of a row; NULL after a fault. */
static uint8_t *touch_row(struct emu_warp *warp, const struct emu_instr *instr, const struct emu_access *access,
                          const struct emu_operand *address, int lane, int touch)
{
    return emu_touch(warp, access, lane, (enum emu_space)instr->facts.space, emu_address(warp, address, lane),
                     sizeof(uint16_t[ROWS]), sizeof(uint16_t[ROWS]), touch);
}

static enum emu_action exec_ldmatrix(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    if (!emu_whole_warp(warp, instr, mask))
        return EMU_FAULT;
    const struct emu_access access = emu_access_of(warp, instr, false);
    uint32_t lanes[MOST_MATRICES][EMU_LANES];
    int count = 0;
    const struct emu_operand *d = emu_vector_elements(emu_pool(warp), &instr->operands[0], &count);
    for (int i = 0; i < count; i++) {
        matrix m;
        for (int row = 0; row < ROWS; row++) {
            const uint8_t *from = touch_row(warp, instr, &access, &instr->operands[1], ROWS * i + row, EMU_READ);
            if (!from)
                return EMU_FAULT;
            memcpy(m[row], from, sizeof(m[row]));
        }
        matrix_to_lanes((const uint16_t(*)[ROWS])m, instr->facts.mode != 0, lanes[i]);
    }
    /* All rows are read before a register is written: the address may be one of them. */
    for (int i = 0; i < count; i++)
        emu_store32(warp, &d[i], lanes[i], mask);
    return EMU_NEXT;
}

static enum emu_action exec_stmatrix(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    if (!emu_whole_warp(warp, instr, mask))
        return EMU_FAULT;
    const struct emu_access access = emu_access_of(warp, instr, false);
    int count = 0;
    const struct emu_operand *s = emu_vector_elements(emu_pool(warp), &instr->operands[1], &count);
    for (int i = 0; i < count; i++) {
        uint32_t spare[EMU_LANES];
        matrix m;
        lanes_to_matrix(emu_source32(warp, &s[i], spare), instr->facts.mode != 0, m);
        for (int row = 0; row < ROWS; row++) {
            uint8_t *to = touch_row(warp, instr, &access, &instr->operands[0], ROWS * i + row, EMU_WRITE);
            if (!to)
                return EMU_FAULT;
            memcpy(to, m[row], sizeof(m[row]));
        }
    }
    return EMU_NEXT;
}

static enum emu_action exec_movmatrix(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    if (!emu_whole_warp(warp, instr, mask))
        return EMU_FAULT;
    uint32_t spare[EMU_LANES], lanes[EMU_LANES];
    matrix m;
    lanes_to_matrix(emu_source32(warp, &instr->operands[1], spare), false, m);
    matrix_to_lanes((const uint16_t(*)[ROWS])m, true, lanes);
    emu_store32(warp, &instr->operands[0], lanes, mask);
    return EMU_NEXT;
}

/* Facts of ldmatrix and stmatrix: the space, and mode 1 for .trans. */
static bool bind_copy(const struct emu_bind *bind, int vector, emu_exec_fn exec)
{
    static const char *const numbers[] = {"x1", "x2", "x4", NULL};
    struct emu_instr *instr = bind->instr;
    int count = 0;
    emu_vector_elements(bind->pool, &instr->operands[vector], &count);
    const int expected = 1 << emu_opcode_find(instr, numbers);
    if (count != expected)
        return emu_tensor_refuse(bind, "%d registers where %d belong", count, expected);
    const bool shared = emu_opcode_has(instr, "shared") || emu_opcode_has(instr, "shared::cta");
    instr->facts.space = shared ? EMU_SHARED_CTA : EMU_GENERIC;
    instr->facts.mode = emu_opcode_has(instr, "trans");
    instr->facts.aligned = true;
    instr->exec = exec;
    return true;
}

bool emu_bind_ldmatrix(const struct emu_bind *bind)
{
    return bind_copy(bind, 0, exec_ldmatrix);
}

bool emu_bind_stmatrix(const struct emu_bind *bind)
{
    return bind_copy(bind, 1, exec_stmatrix);
}

bool emu_bind_movmatrix(const struct emu_bind *bind)
{
    bind->instr->facts.aligned = true;
    bind->instr->exec = exec_movmatrix;
    return true;
}
