/* wgmma: warpgroup matrix multiply-accumulate (ISA 9.7.15). Each warp of the warpgroup multiplies its own 16 rows, so
 * the four need not meet here; the checks of registers in flight and of fences are the engine's. */
#include "matrix_math.h"

#include <stdio.h>
#include <string.h>

/* ---- Binding ---- */

/* What an instruction does, from its text; packed into facts.number. */
struct wgmma_form {
    uint8_t a, b;        /* enum emu_number */
    uint8_t accumulator; /* enum emu_accumulator */
    bool a_in_registers;
    bool negate; /* exactly one of scale-a and scale-b is -1 */
    bool a_mn_major, b_mn_major;
    bool saturate;
};

_Static_assert(sizeof(struct wgmma_form) == sizeof(int64_t), "a form must fit into facts.number");

static struct wgmma_form form_of(const struct emu_instr *instr)
{
    struct wgmma_form form;
    memcpy(&form, &instr->facts.number, sizeof(form));
    return form;
}

/* ISA 9.7.15.2: multiples of 8; for integers 8, 16, 24, 32 and multiples of 16 from there. */
static bool shape_allowed(int n, bool integer)
{
    return n >= 8 && n <= EMU_MAX_N && n % 8 == 0 && !(integer && n > 32 && n % 16 != 0);
}

/* Immediates behind scale-d: scale-a, scale-b, then trans-a (when A is in shared memory) and trans-b. */
static bool immediate(const struct emu_bind *bind, int at, int64_t low, int64_t high, int64_t *value)
{
    const struct emu_operand *operand = &bind->instr->operands[at];
    *value = operand->imm;
    if (operand->kind == EMU_OP_IMM && (operand->imm == low || operand->imm == high))
        return true;
    return emu_tensor_refuse(bind, "operand %d must be the constant %d or %d", at + 1, (int)low, (int)high);
}

static bool bind_scales(const struct emu_bind *bind, struct wgmma_form *form)
{
    int64_t a = 1, b = 1;
    if (!immediate(bind, 4, -1, 1, &a) || !immediate(bind, 5, -1, 1, &b))
        return false;
    form->negate = a != b;
    return true;
}

static bool bind_transposes(const struct emu_bind *bind, struct wgmma_form *form)
{
    int64_t a = 0, b = 0;
    int at = 6;
    if (!form->a_in_registers && !immediate(bind, at++, 0, 1, &a))
        return false;
    if (!immediate(bind, at, 0, 1, &b))
        return false;
    form->a_mn_major = a == 1;
    form->b_mn_major = b == 1;
    return true;
}

static bool bind_operands(const struct emu_bind *bind, struct wgmma_form *form)
{
    struct emu_instr *instr = bind->instr;
    const bool integer = form->accumulator == EMU_ACC_S32, wide = emu_number_bytes(form->a) == 2;
    const int expected = integer ? 4 : !wide ? 6 : form->a_in_registers ? 7 : 8;
    if (instr->operand_count != expected)
        return emu_tensor_refuse(bind, "%d operands where %d belong", instr->operand_count, expected);
    int d_count = 0, a_count = 0;
    emu_vector_elements(bind->pool, &instr->operands[0], &d_count);
    emu_vector_elements(bind->pool, &instr->operands[1], &a_count);
    const int d_expected = instr->facts.n / (form->accumulator == EMU_ACC_F16 ? 4 : 2);
    if (d_count != d_expected)
        return emu_tensor_refuse(bind, "D has %d registers, m64n%d needs %d", d_count, instr->facts.n, d_expected);
    if (form->a_in_registers && a_count != 4)
        return emu_tensor_refuse(bind, "A has %d registers, 4 belong", a_count);
    return (integer || bind_scales(bind, form)) && (!wide || bind_transposes(bind, form));
}

static enum emu_accumulator accumulator_of(const char *type)
{
    return strcmp(type, "s32") == 0 ? EMU_ACC_S32 : strcmp(type, "f16") == 0 ? EMU_ACC_F16 : EMU_ACC_F32;
}

static enum emu_action exec_wgmma(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask);

bool emu_bind_wgmma(const struct emu_bind *bind)
{
    struct emu_instr *instr = bind->instr;
    struct wgmma_form form = {0};
    char part[32];
    int n = 0, k = 0;
    emu_opcode_part(instr, 4, part);
    if (sscanf(part, "m64n%dk%d", &n, &k) != 2)
        return emu_tensor_refuse(bind, "shape %s", part);
    form.saturate = emu_opcode_has(instr, "satfinite");
    emu_opcode_part(instr, 5, part);
    const int types = strcmp(part, "satfinite") == 0 ? 6 : 5;
    emu_opcode_part(instr, types, part);
    form.accumulator = (uint8_t)accumulator_of(part);
    emu_opcode_part(instr, types + 1, part);
    form.a = (uint8_t)emu_number_find(part);
    emu_opcode_part(instr, types + 2, part);
    form.b = (uint8_t)emu_number_find(part);
    if (!shape_allowed(n, form.accumulator == EMU_ACC_S32))
        return emu_tensor_refuse(bind, "n = %d is not a shape of this type (ISA 9.7.15.2)", n);
    instr->facts.m = 64;
    instr->facts.n = (int16_t)n;
    instr->facts.k = (int16_t)k;
    form.a_in_registers = instr->operands[1].kind == EMU_OP_VECTOR;
    if (!bind_operands(bind, &form))
        return false;
    instr->facts.aligned = true;
    memcpy(&instr->facts.number, &form, sizeof(form));
    instr->exec = exec_wgmma;
    return true;
}

/* ---- Matrices in shared memory ---- */

/* A descriptor, decoded (ISA 9.7.15.5.1.2.2; facts/emulation.md 3.1). */
struct matrix {
    uint32_t start, leading, stride; /* bytes */
    uint32_t swizzle;                /* bytes: 0, 32, 64 or 128 */
    bool mn_major;
    enum emu_number element;
};

enum { UNIT = 16 }; /* bytes that swizzling keeps together */

static bool read_descriptor(struct emu_warp *warp, const struct emu_instr *instr, const char *name, uint64_t bits)
{
    const uint64_t used = 0xc00e3fff3fff3fffu;
    if (bits & ~used) {
        emu_fault(warp, instr, -1, EMU_BAD_OPERAND, "%s 0x%016llx has bits set that mean nothing (ISA 9.7.15.5.1.2.2)",
                  name, (unsigned long long)bits);
        return false;
    }
    if (bits >> 49 & 7) {
        emu_fault(warp, instr, -1, EMU_BAD_OPERAND,
                  "%s 0x%016llx has base offset %d: only 0 is emulated (no kernel vouches for the others)", name,
                  (unsigned long long)bits, (int)(bits >> 49 & 7));
        return false;
    }
    return true;
}

static struct matrix matrix_of(uint64_t descriptor, bool mn_major, enum emu_number element)
{
    static const uint8_t swizzles[] = {0, 128, 64, 32};
    return (struct matrix){
        .start = (uint32_t)(descriptor & 0x3fff) << 4,
        .leading = (uint32_t)(descriptor >> 16 & 0x3fff) << 4,
        .stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4,
        .swizzle = swizzles[descriptor >> 62],
        .mn_major = mn_major,
        .element = element,
    };
}

/* Offset in the shared window of the 16-byte unit that begins with element (mn, k). The canonical layouts of ISA
 * 9.7.15.5.1.2.1.3; swizzling applies to the final address, so that advancing the start by 32 bytes advances k. */
static inline uint32_t unit_offset(const struct matrix *m, int mn_int, int k_int)
{
    const uint32_t mn = (uint32_t)mn_int, k = (uint32_t)k_int, bytes = (uint32_t)emu_number_bytes(m->element);
    const uint32_t in_unit = UNIT / bytes;
    uint32_t offset = m->start;
    if (!m->mn_major && m->swizzle)
        offset += mn / 8 * m->stride + mn % 8 * m->swizzle + k * bytes;
    else if (!m->mn_major)
        offset += mn / 8 * m->stride + mn % 8 * UNIT + k / in_unit * m->leading;
    else if (m->swizzle)
        offset += mn / (m->swizzle / bytes) * m->leading + mn % (m->swizzle / bytes) * bytes + k / 8 * m->stride +
                  k % 8 * m->swizzle;
    else
        offset += mn / in_unit * m->stride + k / 8 * m->leading + k % 8 * UNIT;
    const uint32_t swizzled_bits = m->swizzle ? m->swizzle / UNIT - 1 : 0;
    return offset ^ (offset >> 7 & swizzled_bits) << 4;
}

/* The units of a tile of rows [mn, mn + mn_count) and all k, in order; at most 32 * 256 bytes of tf32. */
enum { MAX_UNITS = EMU_MAX_N * 32 / UNIT };

struct units {
    int count;
    uint32_t offset[MAX_UNITS];
};

static void list_units(const struct matrix *m, int mn, int mn_count, int k_count, struct units *units)
{
    const int in_unit = UNIT / emu_number_bytes(m->element);
    const int mn_step = m->mn_major ? in_unit : 1, k_step = m->mn_major ? 1 : in_unit;
    units->count = 0;
    for (int i = 0; i < mn_count; i += mn_step)
        for (int k = 0; k < k_count; k += k_step)
            units->offset[units->count++] = unit_offset(m, mn + i, k);
}

enum { WINDOW_UNITS = 256 * 1024 / UNIT }; /* descriptors reach 256 KiB */

/* Reads [first, first + count) units. False after a fault. */
static bool touch_run(const struct emu_async *op, uint32_t first, uint32_t count)
{
    return emu_touch_shared(op->warp->cta, &op->access, op->lane, first * UNIT, count * UNIT, EMU_READ) != NULL;
}

/* Runs of set bits in words [first, last]. False after a fault. */
static bool touch_bits(const struct emu_async *op, const uint64_t *bits, uint32_t first, uint32_t last)
{
    uint32_t start = 0, length = 0; /* of the run that reaches the place looked at */
    for (uint32_t word = first; word <= last; word++) {
        uint64_t left = bits[word];
        for (uint32_t at = 0; at < 64;) {
            const uint32_t room = 64 - at;
            const uint32_t clear = left ? (uint32_t)__builtin_ctzll(left) : room;
            if (clear > 0 && length > 0) {
                if (!touch_run(op, start, length))
                    return false;
                length = 0;
            }
            at += clear;
            if (at == 64)
                break;
            left >>= clear;
            const uint32_t set = ~left ? (uint32_t)__builtin_ctzll(~left) : 64;
            start = length ? start : word * 64 + at;
            length += set;
            at += set;
            left = set < 64 ? left >> set : 0;
        }
    }
    return length == 0 || touch_run(op, start, length);
}

/* Records the reading of all units, neighbours together: a bit map of the window's units finds them whatever the order.
 * False after a fault. */
static bool touch_units(const struct emu_async *op, const struct units *units)
{
    uint64_t bits[WINDOW_UNITS / 64];
    uint32_t low = units->offset[0], high = low;
    for (int i = 1; i < units->count; i++) {
        low = units->offset[i] < low ? units->offset[i] : low;
        high = units->offset[i] > high ? units->offset[i] : high;
    }
    if (high / UNIT >= WINDOW_UNITS) /* outside: let the check say so */
        return emu_touch_shared(op->warp->cta, &op->access, op->lane, high, UNIT, EMU_READ) != NULL;
    const uint32_t first = low / UNIT / 64, last = high / UNIT / 64;
    memset(bits + first, 0, (last - first + 1) * sizeof(*bits));
    for (int i = 0; i < units->count; i++)
        bits[units->offset[i] / UNIT / 64] |= (uint64_t)1 << units->offset[i] / UNIT % 64;
    return touch_bits(op, bits, first, last);
}

/* ---- Execution ---- */

/* op->data of a wgmma. */
enum { DATA_A, DATA_B, DATA_ADD };

/* B[k][n …] from one unit of an MN-major matrix: eight columns, which only 16-bit types have. */
static inline void set_b_columns(float *row, const float values[8])
{
    for (int i = 0; i < 4; i++) {
        row[i] = values[2 * i];
        row[4 + i] = values[2 * i + 1];
    }
}

static void decode_b_mn_major(const struct matrix *m, const uint8_t *shared, const uint32_t *offset,
                              struct emu_tile *tile)
{
    float values[8];
    for (int n = 0; n < tile->n; n += 8)
        for (int k = 0; k < tile->k; k++) {
            emu_decode(m->element, shared + *offset++, 8, values);
            set_b_columns(&tile->b[k * tile->n + n], values);
        }
}

static void decode_b_k_major(const struct matrix *m, const uint8_t *shared, const uint32_t *offset,
                             struct emu_tile *tile)
{
    const int in_unit = UNIT / emu_number_bytes(m->element);
    float values[UNIT];
    for (int n = 0; n < tile->n; n++)
        for (int k = 0; k < tile->k; k += in_unit) {
            float *column = &tile->b[k * tile->n + emu_tile_column(n)];
            emu_decode(m->element, shared + *offset++, in_unit, values);
            for (int i = 0; i < in_unit; i++)
                column[i * tile->n] = values[i];
        }
}

static bool load_b(const struct emu_async *op, const struct wgmma_form *form, struct emu_tile *tile)
{
    const struct matrix m = matrix_of(op->data[DATA_B], form->b_mn_major, (enum emu_number)form->b);
    struct units units;
    list_units(&m, 0, tile->n, tile->k, &units);
    if (!touch_units(op, &units))
        return false;
    (m.mn_major ? decode_b_mn_major : decode_b_k_major)(&m, op->warp->cta->shared.bytes, units.offset, tile);
    return true;
}

static bool load_a_shared(const struct emu_async *op, const struct wgmma_form *form, struct emu_tile *tile)
{
    const struct matrix m = matrix_of(op->data[DATA_A], form->a_mn_major, (enum emu_number)form->a);
    const uint8_t *shared = op->warp->cta->shared.bytes;
    const int in_unit = UNIT / emu_number_bytes(m.element);
    struct units units;
    list_units(&m, op->warp->index % 4 * EMU_TILE_ROWS, EMU_TILE_ROWS, tile->k, &units);
    if (!touch_units(op, &units))
        return false;
    float values[UNIT];
    const uint32_t *offset = units.offset;
    const int row_step = m.mn_major ? in_unit : 1, k_step = m.mn_major ? 1 : in_unit;
    for (int row = 0; row < EMU_TILE_ROWS; row += row_step)
        for (int k = 0; k < tile->k; k += k_step) {
            emu_decode(m.element, shared + *offset++, in_unit, values);
            for (int i = 0; i < in_unit; i++)
                emu_tile_set_a(tile, row + (m.mn_major ? i : 0), k + (m.mn_major ? 0 : i), values[i]);
        }
    return true;
}

static void load_a_registers(const struct emu_async *op, const struct wgmma_form *form, struct emu_tile *tile)
{
    int count = 0;
    const struct emu_operand *a = emu_vector_elements(emu_pool(op->warp), &op->instr->operands[1], &count);
    uint32_t spare[4][EMU_LANES];
    const uint32_t *rows[4];
    for (int i = 0; i < count; i++)
        rows[i] = emu_source32(op->warp, &a[i], spare[i]);
    emu_tile_a_registers(tile, (enum emu_number)form->a, rows, count);
}

static void negate_a(struct emu_tile *tile)
{
    for (int k = 0; k < tile->k; k++)
        for (int i = 0; i < 2 * EMU_LANES; i++)
            tile->a[k][i / EMU_LANES][i % EMU_LANES] *= -1.0f;
}

/* Reads A and B, multiplies, and writes the accumulator: all at the time the schedule has chosen. */
static bool apply_wgmma(struct emu_async *op, int piece)
{
    (void)piece;
    const struct emu_instr *instr = op->instr;
    const struct wgmma_form form = form_of(instr);
    struct emu_tile tile;
    tile.n = instr->facts.n;
    tile.k = instr->facts.k;
    if (!load_b(op, &form, &tile) || (!form.a_in_registers && !load_a_shared(op, &form, &tile)))
        return false;
    if (form.a_in_registers)
        load_a_registers(op, &form, &tile);
    if (form.negate)
        negate_a(&tile);
    int count = 0;
    const struct emu_operand *d = emu_vector_elements(emu_pool(op->warp), &instr->operands[0], &count);
    uint32_t *rows[EMU_MAX_N / 2];
    for (int i = 0; i < count; i++)
        rows[i] = emu_row32(op->warp, d[i].row);
    const struct emu_product product = {.kind = (enum emu_accumulator)form.accumulator,
                                        .order = op->warp->cta->options->sum_order,
                                        .add = op->data[DATA_ADD] != 0,
                                        .saturate = form.saturate};
    const struct emu_accumulator_rows accumulator = {(const uint32_t *const *)rows, rows};
    emu_tile_multiply(&tile, &product, &accumulator);
    return true;
}

/* Tells the engine which rows are in flight from here on: D's, then A's. */
static void mark_rows(struct emu_warp *warp, const struct emu_instr *instr, const struct wgmma_form *form)
{
    int32_t rows[EMU_MAX_N / 2 + 4];
    int count = 0;
    for (int operand = 0; operand <= (form->a_in_registers ? 1 : 0); operand++) {
        int elements = 0;
        const struct emu_operand *at = emu_vector_elements(emu_pool(warp), &instr->operands[operand], &elements);
        for (int i = 0; i < elements; i++)
            if (at[i].kind == EMU_OP_REG)
                rows[count++] = at[i].row;
    }
    emu_wgmma_rows(warp, instr, rows, count);
}

/* The engine leaves wgmma's operands to wgmma: whether the accumulator is read depends on scale-d. */
static void check_written(struct emu_warp *warp, const struct emu_instr *instr, const struct emu_operand *operand,
                          const char *name)
{
    int count = 0;
    const struct emu_operand *at = emu_vector_elements(emu_pool(warp), operand, &count);
    for (int i = 0; i < count; i++) {
        uint32_t *written = at[i].kind == EMU_OP_PRED ? warp->defp : at[i].bits == 64 ? warp->def64 : warp->def32;
        if ((at[i].kind != EMU_OP_REG && at[i].kind != EMU_OP_PRED) || written[at[i].row] == EMU_ALL_LANES)
            continue;
        emu_find(warp, instr, __builtin_ctz(~written[at[i].row]), EMU_UNINITIALISED,
                 "register %d of %s was never written", i, name);
        written[at[i].row] = EMU_ALL_LANES; /* once */
        return;
    }
}

static void check_operands_written(struct emu_warp *warp, const struct emu_instr *instr)
{
    static const char *const names[] = {"the accumulator", "A", "B's descriptor", "scale-d"};
    if (!(warp->cta->options->checks & EMU_CHECK_UNINITIALISED))
        return;
    for (int i = emu_source_pred(warp, &instr->operands[3]) ? 0 : 1; i < 4; i++)
        check_written(warp, instr, &instr->operands[i], names[i]);
}

static bool read_operands(struct emu_warp *warp, const struct emu_instr *instr, const struct wgmma_form *form,
                          uint64_t data[3])
{
    if (!form->a_in_registers && (!emu_uniform64(warp, instr, &instr->operands[1], "A's descriptor", &data[DATA_A]) ||
                                  !read_descriptor(warp, instr, "A's descriptor", data[DATA_A])))
        return false;
    if (!emu_uniform64(warp, instr, &instr->operands[2], "B's descriptor", &data[DATA_B]) ||
        !read_descriptor(warp, instr, "B's descriptor", data[DATA_B]))
        return false;
    const uint32_t add = emu_source_pred(warp, &instr->operands[3]);
    if (add != 0 && add != EMU_ALL_LANES) {
        emu_fault(warp, instr, -1, EMU_BAD_OPERAND, "scale-d differs between lanes: 0x%08x", (unsigned)add);
        return false;
    }
    data[DATA_ADD] = add != 0;
    return true;
}

static enum emu_action exec_wgmma(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    const struct wgmma_form form = form_of(instr);
    uint64_t data[3] = {0};
    if (!emu_whole_warp(warp, instr, mask) || !read_operands(warp, instr, &form, data))
        return EMU_FAULT;
    if ((warp->index | 3) >= warp->cta->warp_count)
        return emu_fault(warp, instr, -1, EMU_DIVERGENT,
                         "wgmma needs a warpgroup of four warps; the block has %d warps", warp->cta->warp_count);
    check_operands_written(warp, instr);
    mark_rows(warp, instr, &form);
    struct emu_async *op = emu_async_new(warp, instr, -1, EMU_ASYNC_WGMMA);
    if (!op)
        return EMU_FAULT;
    op->piece_count = 1;
    op->apply = apply_wgmma;
    memcpy(op->data, data, sizeof(data));
    emu_async_issue(op);
    return EMU_NEXT;
}

/* ---- fence, commit_group, wait_group ---- */

static enum emu_action exec_commit(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    if (!emu_whole_warp(warp, instr, mask))
        return EMU_FAULT;
    emu_async_commit(warp, EMU_ASYNC_WGMMA, mask);
    return EMU_NEXT;
}

static enum emu_action exec_wait(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    if (!emu_whole_warp(warp, instr, mask))
        return EMU_FAULT;
    const uint64_t pending = (uint64_t)instr->operands[0].imm;
    return emu_async_wait(warp, EMU_ASYNC_WGMMA, mask, pending, false) ? EMU_NEXT : EMU_BLOCKED;
}

bool emu_bind_wgmma_commit(const struct emu_bind *bind)
{
    bind->instr->facts.aligned = true;
    bind->instr->exec = exec_commit;
    return true;
}

bool emu_bind_wgmma_wait(const struct emu_bind *bind)
{
    if (bind->instr->operands[0].kind != EMU_OP_IMM || bind->instr->operands[0].imm < 0)
        return emu_tensor_refuse(bind, "the number of pending groups must be a constant");
    bind->instr->facts.aligned = true;
    bind->instr->exec = exec_wait;
    return true;
}

static enum emu_action exec_fence(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    if (!emu_whole_warp(warp, instr, mask))
        return EMU_FAULT;
    emu_wgmma_fence(warp);
    return EMU_NEXT;
}

bool emu_bind_wgmma_fence(const struct emu_bind *bind)
{
    bind->instr->facts.aligned = true;
    bind->instr->exec = exec_fence;
    return true;
}
