/* mma.sync: a warp's matrix multiply-accumulate from registers, done at once (ISA 9.7.14.5). All shapes here share the
 * fragment layouts of matrix_math.h: A has two registers for each 16 bytes of k, B one. */
#include "matrix_math.h"

#include <stdio.h>
#include <string.h>

struct mma_form {
    uint8_t a, b;        /* enum emu_number */
    uint8_t accumulator; /* enum emu_accumulator */
    bool saturate;
};

static struct mma_form form_of(const struct emu_instr *instr)
{
    struct mma_form form;
    memcpy(&form, &instr->facts.number, sizeof(form));
    return form;
}

enum { MOST_REGISTERS = 4 };

/* The rows of a vector of sources. */
static int sources(struct emu_warp *warp, const struct emu_operand *operand, const uint32_t *rows[MOST_REGISTERS],
                   uint32_t spare[MOST_REGISTERS][EMU_LANES])
{
    int count = 0;
    const struct emu_operand *elements = emu_vector_elements(emu_pool(warp), operand, &count);
    for (int i = 0; i < count; i++)
        rows[i] = emu_source32(warp, &elements[i], spare[i]);
    return count;
}

/* Register r of lane l holds column l / 4 and k = p * (l % 4) + 4 * p * r + i, with p elements a register. */
static void set_b(struct emu_tile *tile, enum emu_number element, const uint32_t *const *rows, int count)
{
    const int packed = 4 / emu_number_bytes(element);
    for (int r = 0; r < count; r++)
        for (int lane = 0; lane < EMU_LANES; lane++) {
            float values[4];
            emu_decode(element, (const uint8_t *)&rows[r][lane], packed, values);
            for (int i = 0; i < packed; i++)
                tile->b[(packed * (lane % 4) + 4 * packed * r + i) * tile->n + emu_tile_column(lane / 4)] = values[i];
        }
}

static enum emu_action exec_mma(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    if (!emu_whole_warp(warp, instr, mask))
        return EMU_FAULT;
    const struct mma_form form = form_of(instr);
    struct emu_tile tile;
    uint32_t spare[MOST_REGISTERS][EMU_LANES], results[MOST_REGISTERS][EMU_LANES];
    const uint32_t *rows[MOST_REGISTERS];
    uint32_t *d_rows[MOST_REGISTERS] = {results[0], results[1], results[2], results[3]};
    tile.n = instr->facts.n;
    tile.k = instr->facts.k;
    int count = sources(warp, &instr->operands[1], rows, spare);
    emu_tile_a_registers(&tile, (enum emu_number)form.a, rows, count);
    count = sources(warp, &instr->operands[2], rows, spare);
    set_b(&tile, (enum emu_number)form.b, rows, count);
    sources(warp, &instr->operands[3], rows, spare);
    memset(results, 0, sizeof(results));
    const struct emu_product product = {.kind = (enum emu_accumulator)form.accumulator,
                                        .order = warp->cta->options->sum_order,
                                        .add = true,
                                        .saturate = form.saturate};
    const struct emu_accumulator_rows accumulator = {rows, d_rows};
    emu_tile_multiply(&tile, &product, &accumulator);
    const struct emu_operand *d = emu_vector_elements(emu_pool(warp), &instr->operands[0], &count);
    for (int i = 0; i < count; i++)
        emu_store32(warp, &d[i], results[i], mask);
    return EMU_NEXT;
}

static bool check_counts(const struct emu_bind *bind, const struct mma_form *form)
{
    const struct emu_instr *instr = bind->instr;
    const int bytes_k = instr->facts.k * emu_number_bytes((enum emu_number)form->a);
    const int c = form->accumulator == EMU_ACC_F16 ? 2 : 4;
    const int expected[4] = {c, bytes_k / 8, bytes_k / 16, c};
    for (int i = 0; i < 4; i++) {
        int count = 0;
        emu_vector_elements(bind->pool, &instr->operands[i], &count);
        if (count != expected[i])
            return emu_tensor_refuse(bind, "operand %d has %d registers, %d belong", i + 1, count, expected[i]);
    }
    return true;
}

bool emu_bind_mma(const struct emu_bind *bind)
{
    struct emu_instr *instr = bind->instr;
    struct mma_form form = {.saturate = emu_opcode_has(instr, "satfinite")};
    char part[32];
    int n = 0, k = 0;
    emu_opcode_part(instr, 3, part);
    if (sscanf(part, "m16n%dk%d", &n, &k) != 2)
        return emu_tensor_refuse(bind, "shape %s", part);
    const int types = form.saturate ? 7 : 6;
    emu_opcode_part(instr, types, part);
    form.accumulator = (uint8_t)(strcmp(part, "s32") == 0   ? EMU_ACC_S32
                                 : strcmp(part, "f16") == 0 ? EMU_ACC_F16
                                                            : EMU_ACC_F32);
    emu_opcode_part(instr, types + 1, part);
    form.a = (uint8_t)emu_number_find(part);
    emu_opcode_part(instr, types + 2, part);
    form.b = (uint8_t)emu_number_find(part);
    instr->facts.m = EMU_TILE_ROWS;
    instr->facts.n = (int16_t)n;
    instr->facts.k = (int16_t)k;
    instr->facts.aligned = true;
    instr->facts.number = 0;
    memcpy(&instr->facts.number, &form, sizeof(form));
    instr->exec = exec_mma;
    return check_counts(bind, &form);
}
