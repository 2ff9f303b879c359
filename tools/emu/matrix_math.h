/* Multiplies small tiles as tensor cores do: wgmma and mma.sync share the fragment layouts and this arithmetic. */
#ifndef EMU_MATRIX_MATH_H
#define EMU_MATRIX_MATH_H

#include "tensor.h"

enum { EMU_MAX_K = 32, EMU_MAX_N = 256, EMU_TILE_ROWS = 16 };

/* A warp's operands. Accumulators stay as they lie in registers: row r of D (r = 4 * block + 2 * half + parity) holds
 * for lane l the element of row l/4 + 8 * half and column 8 * block + 2 * (l % 4) + parity (ISA 9.7.14.5.8,
 * 9.7.15.5.1.1.1). So A is spread to one value a lane, and B's columns are sorted by parity. */
struct emu_tile {
    float a[EMU_MAX_K][2][EMU_LANES]; /* [k][half][lane] = A[lane / 4 + 8 * half][k] */
    float b[EMU_MAX_K * EMU_MAX_N];   /* [k][n / 8][n % 2][n % 8 / 2] */
    int n, k;
};

/* Column n of a row of b. */
static inline int emu_tile_column(int n)
{
    return (n & ~7) + 4 * (n & 1) + (n & 7) / 2;
}

/* Decodes `count` elements (at most 16 bytes) into floats. */
void emu_decode(enum emu_number element, const uint8_t *bytes, int count, float *out);

/* Sets A[row][k]. */
static inline void emu_tile_set_a(struct emu_tile *tile, int row, int k, float value)
{
    float *lanes = &tile->a[k][row / 8][4 * (row % 8)];
    for (int i = 0; i < 4; i++)
        lanes[i] = value;
}

/* Fills A from registers (ISA 9.7.14.5.8 and on): with p elements a register, register r of lane l holds row
 * l/4 + 8 * (r % 2) and k = p * (l % 4) + 4 * p * (r / 2) + i. */
void emu_tile_a_registers(struct emu_tile *tile, enum emu_number element, const uint32_t *const *rows, int count);

/* What becomes of D. Rows are the accumulator's registers: n / 2 of float or int32, or n / 4 of two halves. */
enum emu_accumulator { EMU_ACC_F32, EMU_ACC_F16, EMU_ACC_S32 };

struct emu_product {
    enum emu_accumulator kind;
    enum emu_sum_order order;
    bool add;      /* D = A*B + C; otherwise D = A*B */
    bool saturate; /* s32: .satfinite */
};

/* Row `at` of the accumulator that is read (C) and of the one that is written (D). */
struct emu_accumulator_rows {
    const uint32_t *const *c;
    uint32_t *const *d;
};

void emu_tile_multiply(const struct emu_tile *tile, const struct emu_product *product,
                       const struct emu_accumulator_rows *rows);

/* binary16, to nearest even. */
uint16_t emu_half_of(float value);
float emu_float_of_half(uint16_t half);

#endif
