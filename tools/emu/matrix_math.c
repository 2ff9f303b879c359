#include "matrix_math.h"

#include <math.h>
#include <string.h>

/* ---- Numbers ---- */

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint32_t to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* Exponent and mantissa moved to float's places are too small by 2^112, subnormals too; scaling is exact. */
static inline float half_to_float(uint32_t half)
{
    const uint32_t magnitude = (half & 0x7fff) << 13;
    const float scaled = from_bits(magnitude) * 0x1p112f;
    const uint32_t finite = to_bits(scaled), special = magnitude | 0x7f800000u;
    return from_bits(((half & 0x7c00) == 0x7c00 ? special : finite) | (half & 0x8000) << 16);
}

float emu_float_of_half(uint16_t half)
{
    return half_to_float(half);
}

uint16_t emu_half_of(float value)
{
    const uint32_t bits = to_bits(value), sign = bits >> 16 & 0x8000;
    const float magnitude = fabsf(value);
    if (isnan(value))
        return (uint16_t)0x7fff;
    if (magnitude >= 65520.0f) /* halfway between the largest half and the next power of two */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x1p-14f) /* subnormal: the float unit rounds when the last place of 1.0 is that of 2^-24 */
        return (uint16_t)(sign | (to_bits(magnitude + 0x1p-1f) - to_bits(0x1p-1f)));
    const uint32_t rounded = (bits & 0x7fffffff) + 0xfff + (bits >> 13 & 1);
    return (uint16_t)(sign | ((rounded >> 13) - (112u << 10)));
}

/* e4m3: bias 7, no infinity, NaN is S.1111.111 (ISA 5.2.3). In a half's places it is too small by 2^8, subnormals too.
 * e5m2 is the upper byte of a half. */
static float e4m3_to_float(uint32_t byte)
{
    const uint32_t half = (byte & 0x80) << 8 | (byte & 0x7f) << 7;
    return (byte & 0x7f) == 0x7f ? NAN : half_to_float(half) * 0x1p8f;
}

static float decode_byte(enum emu_number element, uint8_t byte)
{
    switch (element) {
    case EMU_N_E4M3:
        return e4m3_to_float(byte);
    case EMU_N_E5M2:
        return half_to_float((uint32_t)byte << 8);
    case EMU_N_S8:
        return (float)(int8_t)byte;
    default:
        return (float)byte;
    }
}

static void decode_bf16(const uint8_t *bytes, int count, float *out)
{
    for (int i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, bytes + 2 * i, sizeof(half));
        out[i] = from_bits((uint32_t)half << 16);
    }
}

static void decode_f16(const uint8_t *bytes, int count, float *out)
{
    for (int i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, bytes + 2 * i, sizeof(half));
        out[i] = half_to_float(half);
    }
}

/* The lower 13 bits are cut off (ISA 9.7.15.5.2). */
static void decode_tf32(const uint8_t *bytes, int count, float *out)
{
    for (int i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, bytes + 4 * i, sizeof(word));
        out[i] = from_bits(word & ~0x1fffu);
    }
}

/* Whole 16-byte units are the common case, and a constant count makes them a few vector instructions. */
void emu_decode(enum emu_number element, const uint8_t *bytes, int count, float *out)
{
    switch (element) {
    case EMU_N_BF16:
        if (count == 8)
            decode_bf16(bytes, 8, out);
        else
            decode_bf16(bytes, count, out);
        break;
    case EMU_N_F16:
        if (count == 8)
            decode_f16(bytes, 8, out);
        else
            decode_f16(bytes, count, out);
        break;
    case EMU_N_TF32:
        decode_tf32(bytes, count, out);
        break;
    default:
        for (int i = 0; i < count; i++)
            out[i] = decode_byte(element, bytes[i]);
    }
}

/* ---- A in registers ---- */

void emu_tile_a_registers(struct emu_tile *tile, enum emu_number element, const uint32_t *const *rows, int count)
{
    const int packed = 4 / emu_number_bytes(element);
    for (int r = 0; r < count; r++)
        for (int lane = 0; lane < EMU_LANES; lane++) {
            float values[4];
            emu_decode(element, (const uint8_t *)&rows[r][lane], packed, values);
            for (int i = 0; i < packed; i++)
                emu_tile_set_a(tile, lane / 4 + 8 * (r % 2), packed * (lane % 4) + 4 * packed * (r / 2) + i, values[i]);
        }
}

/* ---- Products ----
 *
 * One step is a block of 8 columns and a parity: 4 columns of B and two registers of D. Eight vectors of eight floats
 * are D's two rows of 32 lanes; B's four columns repeat in a vector. Written with GCC's vectors, which Clang has too,
 * compiled once for any machine and once for AVX2. No contraction into fused multiply-add: results must not depend on
 * the machine when a product overflows or underflows. */

typedef float vector8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float vector4 __attribute__((vector_size(16), aligned(4), may_alias));

enum { STEP_VECTORS = 8 };

/* acc: [2][32], in and out. */
typedef void (*step_fn)(float *acc, const struct emu_tile *tile, const float *b, int first, int last, int by);

static inline __attribute__((always_inline)) void step_body(float *acc, const struct emu_tile *tile, const float *b,
                                                            int first, int last, int by)
{
    vector8 sum[STEP_VECTORS];
    for (int i = 0; i < STEP_VECTORS; i++)
        sum[i] = ((const vector8 *)acc)[i];
    for (int k = first; k != last; k += by) {
        const vector4 columns = *(const vector4 *)(b + k * tile->n);
        const vector8 twice = __builtin_shufflevector(columns, columns, 0, 1, 2, 3, 0, 1, 2, 3);
        const vector8 *a = (const vector8 *)&tile->a[k][0][0];
        for (int i = 0; i < STEP_VECTORS; i++)
            sum[i] += a[i] * twice;
    }
    for (int i = 0; i < STEP_VECTORS; i++)
        ((vector8 *)acc)[i] = sum[i];
}

static void step_any(float *acc, const struct emu_tile *tile, const float *b, int first, int last, int by)
{
    step_body(acc, tile, b, first, last, by);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void step_avx2(float *acc, const struct emu_tile *tile, const float *b,
                                                      int first, int last, int by)
{
    step_body(acc, tile, b, first, last, by);
}

static step_fn choose_step(void)
{
    return __builtin_cpu_supports("avx2") ? step_avx2 : step_any;
}
#else
static step_fn choose_step(void)
{
    return step_any;
}
#endif

static void step_double(float *acc, const struct emu_tile *tile, const float *b)
{
    for (int i = 0; i < 2 * EMU_LANES; i++) {
        double sum = (double)acc[i];
        for (int k = 0; k < tile->k; k++)
            sum += (double)tile->a[k][i / EMU_LANES][i % EMU_LANES] * (double)b[k * tile->n + i % 4];
        acc[i] = (float)sum;
    }
}

/* Forward: ((c + p0) + p1) + …; reversed is its mirror image: … + c last. */
static void step(step_fn multiply, const struct emu_tile *tile, const float *b, enum emu_sum_order order, float *acc)
{
    float before[2 * EMU_LANES];
    switch (order) {
    case EMU_SUM_FORWARD:
        multiply(acc, tile, b, 0, tile->k, 1);
        break;
    case EMU_SUM_DOUBLE:
        step_double(acc, tile, b);
        break;
    case EMU_SUM_REVERSED:
        memcpy(before, acc, sizeof(before));
        memset(acc, 0, sizeof(before));
        multiply(acc, tile, b, tile->k - 1, -1, -1);
        for (int i = 0; i < 2 * EMU_LANES; i++)
            acc[i] += before[i];
        break;
    }
}

/* ---- Accumulators ---- */

static void load_f32(const uint32_t *const *c, int block, int parity, float *acc)
{
    for (int half = 0; half < 2; half++)
        memcpy(acc + half * EMU_LANES, c[4 * block + 2 * half + parity], EMU_LANES * sizeof(float));
}

static void store_f32(uint32_t *const *d, int block, int parity, const float *acc)
{
    for (int half = 0; half < 2; half++)
        memcpy(d[4 * block + 2 * half + parity], acc + half * EMU_LANES, EMU_LANES * sizeof(float));
}

/* Two halves a register: the lower is parity 0. */
static void load_f16(const uint32_t *const *c, int block, int parity, float *acc)
{
    for (int i = 0; i < 2 * EMU_LANES; i++)
        acc[i] = half_to_float(c[2 * block + i / EMU_LANES][i % EMU_LANES] >> (16 * parity) & 0xffff);
}

static void store_f16(uint32_t *const *d, int block, int parity, const float *acc)
{
    for (int i = 0; i < 2 * EMU_LANES; i++) {
        uint32_t *cell = &d[2 * block + i / EMU_LANES][i % EMU_LANES];
        *cell = (*cell & (parity ? 0xffffu : 0xffff0000u)) | (uint32_t)emu_half_of(acc[i]) << (16 * parity);
    }
}

/* Sums of 32 products of bytes are whole numbers below 2^24: exact in float, in any order. */
static void add_s32(const struct emu_accumulator_rows *rows, int block, int parity, const float *acc,
                    const struct emu_product *product)
{
    for (int i = 0; i < 2 * EMU_LANES; i++) {
        const int row = 4 * block + 2 * (i / EMU_LANES) + parity, lane = i % EMU_LANES;
        int64_t sum = (int64_t)acc[i];
        if (product->add)
            sum += (int32_t)rows->c[row][lane];
        if (product->saturate)
            sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
        rows->d[row][lane] = (uint32_t)sum;
    }
}

static void multiply_columns(const struct emu_tile *tile, const struct emu_product *product,
                             const struct emu_accumulator_rows *rows, step_fn multiply, int block, int parity)
{
    float acc[2 * EMU_LANES] = {0};
    const bool half = product->kind == EMU_ACC_F16;
    if (product->add && product->kind != EMU_ACC_S32)
        (half ? load_f16 : load_f32)(rows->c, block, parity, acc);
    step(multiply, tile, tile->b + 8 * block + 4 * parity, product->order, acc);
    if (product->kind == EMU_ACC_S32)
        add_s32(rows, block, parity, acc, product);
    else
        (half ? store_f16 : store_f32)(rows->d, block, parity, acc);
}

void emu_tile_multiply(const struct emu_tile *tile, const struct emu_product *product,
                       const struct emu_accumulator_rows *rows)
{
    const step_fn multiply = choose_step();
    for (int block = 0; block < tile->n / 8; block++)
        for (int parity = 0; parity < 2; parity++)
            multiply_columns(tile, product, rows, multiply, block, parity);
}
