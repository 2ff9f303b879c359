/* Checks of the kernels that multiply matrices. */
#include "own_checks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "own_device.h"

/* Sum over k of a(m, k) b(n, k) in float64, where element (r, k) of a matrix is at r * row + k * column. */
struct view {
    const float *values;
    size_t row, column;
};

static double product(struct view a, struct view b, size_t m, size_t n, size_t depth)
{
    double sum = 0;
    for (size_t k = 0; k < depth; k++)
        sum += (double)a.values[m * a.row + k * a.column] * (double)b.values[n * b.row + k * b.column];
    return sum;
}

static void fill(float *values, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++)
        values[i] = own_sixteenth(&seed);
}

static uint64_t upload_halves(const float *values, size_t count, uint16_t (*convert)(float))
{
    static uint16_t halves[1 << 16];
    must(count <= 1 << 16, "too many values");
    for (size_t i = 0; i < count; i++)
        halves[i] = convert(values[i]);
    return own_upload(halves, count * 2);
}

/* ---- gemm_tma ---- */

enum { GEMM_M = 100, GEMM_N = 120, GEMM_K = 328, GEMM_SHARED = 7 * 64 * 128 + 48 };

static float gemm_a[GEMM_M * GEMM_K], gemm_b[GEMM_N * GEMM_K];

void check_gemm_tma(void)
{
    static uint16_t out[GEMM_M * GEMM_N];
    const uint32_t box[2] = {64, 64}, steps = (GEMM_K + 63) / 64;
    fill(gemm_a, GEMM_M * GEMM_K, 1);
    fill(gemm_b, GEMM_N * GEMM_K, 2);
    const uint64_t result = own_zeros(sizeof(out));
    struct own_map a = own_tensor(upload_halves(gemm_a, GEMM_M * GEMM_K, own_bf16), OWN_BF16, 2,
                                  (const uint64_t[]){GEMM_K, GEMM_M}, box, 128);
    struct own_map b = own_tensor(upload_halves(gemm_b, GEMM_N * GEMM_K, own_bf16), OWN_BF16, 2,
                                  (const uint64_t[]){GEMM_K, GEMM_N}, box, 128);
    struct own_map d = own_tensor(result, OWN_BF16, 2, (const uint64_t[]){GEMM_N, GEMM_M}, box, 128);
    own_start(&(struct own_launch){"gemm_tma", {2, 2}, 160, GEMM_SHARED, 0, false}, &a, &b, &d, &steps, NULL);
    own_download(out, result, sizeof(out));
    for (size_t i = 0; i < GEMM_M * GEMM_N; i++) {
        const double sum =
            product((struct view){gemm_a, GEMM_K, 1}, (struct view){gemm_b, GEMM_K, 1}, i / GEMM_N, i % GEMM_N, GEMM_K);
        must_be_near((double)own_of_bf16(out[i]), sum, fabs(sum) / 250 + 1e-5, "gemm", i);
    }
}

/* ---- wgmma_layouts ---- */

static void check_layout(unsigned int span, bool a_by_m, bool b_by_n)
{
    static float a[64 * 64], b[64 * 64], out[64 * 64];
    const uint64_t sizes[2] = {64, 64};
    const uint32_t box[2] = {span / 2, 64};
    const unsigned int swizzle = span == 16 ? 0 : span;
    char name[16];
    snprintf(name, sizeof(name), "%c%c_%u", a_by_m ? 'm' : 'k', b_by_n ? 'm' : 'k', span);
    fill(a, 64 * 64, span);
    fill(b, 64 * 64, span + 1);
    uint64_t result = own_zeros(sizeof(out));
    struct own_map a_map = own_tensor(upload_halves(a, 64 * 64, own_f16), OWN_F16, 2, sizes, box, swizzle);
    struct own_map b_map = own_tensor(upload_halves(b, 64 * 64, own_f16), OWN_F16, 2, sizes, box, swizzle);
    own_start(&(struct own_launch){name, {1}, 128, 2 * 64 * 64 * 2 + 8, 0, false}, &result, &a_map, &b_map, NULL);
    own_download(out, result, sizeof(out));
    const struct view a_view = {a, a_by_m ? 1 : 64, a_by_m ? 64 : 1}, b_view = {b, b_by_n ? 1 : 64, b_by_n ? 64 : 1};
    for (size_t i = 0; i < 64 * 64; i++)
        must_be_near((double)out[i], product(a_view, b_view, i / 64, i % 64, 64), 1e-5, name, i);
}

void check_wgmma_layouts(void)
{
    for (unsigned int span = 16; span <= 128; span *= 2)
        for (int form = 0; form < 4; form++)
            check_layout(span, form & 1, form & 2);
}

/* ---- wgmma_types ---- */

/* How a type of A and B is made: bytes of an element, and an element of a random number with its value. */
struct type {
    size_t bytes;
    float (*make)(uint32_t random, void *to);
};

static float make_tf32(uint32_t random, void *to)
{
    const float value = own_sixteenth(&random);
    memcpy(to, &value, 4);
    return value;
}

static float make_bf16(uint32_t random, void *to)
{
    const float value = own_sixteenth(&random);
    const uint16_t bits = own_bf16(value);
    memcpy(to, &bits, 2);
    return value;
}

/* Sign, exponent, fraction of a byte: normal numbers between 1/4 and 2. */
static float make_byte_float(uint32_t random, uint8_t *to, int fraction_bits, int bias)
{
    const int exponent = (int)(random >> 4 & 3) - 2, fraction = (int)random & ((1 << fraction_bits) - 1);
    const float magnitude = ldexpf((float)((1 << fraction_bits) + fraction), exponent - fraction_bits);
    *to = (uint8_t)((random >> 8 & 1) << 7 | (uint32_t)(exponent + bias) << fraction_bits | (uint32_t)fraction);
    return random >> 8 & 1 ? -magnitude : magnitude;
}

static float make_e4m3(uint32_t random, void *to)
{
    return make_byte_float(random, to, 3, 7);
}

static float make_e5m2(uint32_t random, void *to)
{
    return make_byte_float(random, to, 2, 15);
}

static float make_s8(uint32_t random, void *to)
{
    const int8_t value = (int8_t)random;
    memcpy(to, &value, 1);
    return (float)value;
}

static float make_u8(uint32_t random, void *to)
{
    const uint8_t value = (uint8_t)random;
    memcpy(to, &value, 1);
    return (float)value;
}

static const struct type tf32 = {4, make_tf32}, bf16 = {2, make_bf16}, e4m3 = {1, make_e4m3}, e5m2 = {1, make_e5m2},
                         s8 = {1, make_s8}, u8 = {1, make_u8};

enum { ROW_BYTES = 32, MAX_N = 256 };

static uint64_t make_rows(const struct type *type, size_t rows, uint32_t seed, float *values)
{
    static uint8_t bytes[MAX_N * ROW_BYTES];
    for (size_t i = 0; i < rows * ROW_BYTES / type->bytes; i++)
        values[i] = type->make(own_random(&seed), bytes + i * type->bytes);
    return own_upload(bytes, rows * ROW_BYTES);
}

struct type_case {
    const char *kernel;
    const struct type *a, *b;
    size_t n;
    double sign, tolerance;
    enum { OUT_F32, OUT_F16, OUT_S32 } out;
};

static uint64_t make_out(const struct type_case *c, double *before)
{
    static float floats[64 * MAX_N];
    static uint16_t halves[64 * MAX_N];
    static int32_t integers[64 * MAX_N];
    uint32_t seed = 3;
    for (size_t i = 0; i < 64 * c->n; i++) {
        floats[i] = own_sixteenth(&seed);
        halves[i] = own_f16(floats[i]);
        integers[i] = i % 5 == 0 ? INT32_MAX - 5 : i % 5 == 1 ? INT32_MIN + 5 : (int32_t)i;
        before[i] = c->out == OUT_S32 ? (double)integers[i] : (double)floats[i];
    }
    return c->out == OUT_F32   ? own_upload(floats, 64 * c->n * 4)
           : c->out == OUT_F16 ? own_upload(halves, 64 * c->n * 2)
                               : own_upload(integers, 64 * c->n * 4);
}

static void read_out(const struct type_case *c, uint64_t from, double *values)
{
    static uint32_t words[64 * MAX_N];
    static uint16_t halves[64 * MAX_N];
    if (c->out == OUT_F16)
        own_download(halves, from, 64 * c->n * 2);
    else
        own_download(words, from, 64 * c->n * 4);
    for (size_t i = 0; i < 64 * c->n; i++) {
        float value;
        memcpy(&value, &words[i], 4);
        values[i] = c->out == OUT_F32   ? (double)value
                    : c->out == OUT_F16 ? (double)own_of_f16(halves[i])
                                        : (double)(int32_t)words[i];
    }
}

static double clamp(double value)
{
    return fmin(fmax(value, INT32_MIN), INT32_MAX);
}

static void check_type(const struct type_case *c)
{
    static float a[64 * ROW_BYTES], b[MAX_N * ROW_BYTES];
    static double before[64 * MAX_N], after[64 * MAX_N];
    const size_t depth = ROW_BYTES / c->a->bytes;
    uint64_t a_rows = make_rows(c->a, 64, 5, a), b_rows = make_rows(c->b, c->n, 6, b), out = make_out(c, before);
    own_start(&(struct own_launch){c->kernel, {1}, 128, (64 + MAX_N) * ROW_BYTES, 0, false}, &out, &a_rows, &b_rows,
              NULL);
    read_out(c, out, after);
    for (size_t i = 0; i < 64 * c->n; i++) {
        const double sum = before[i] + c->sign * product((struct view){a, depth, 1}, (struct view){b, depth, 1},
                                                         i / c->n, i % c->n, depth);
        must_be_near(after[i], c->out == OUT_S32 ? clamp(sum) : sum, c->tolerance, c->kernel, i);
    }
}

void check_wgmma_types(void)
{
    const struct type_case cases[] = {
        {"tf32_n8", &tf32, &tf32, 8, -1, 1e-5, OUT_F32},       {"e4m3_n16_f16", &e4m3, &e4m3, 16, 1, 0.04, OUT_F16},
        {"e5m2_e4m3_n32", &e5m2, &e4m3, 32, 1, 1e-3, OUT_F32}, {"s8_u8_n24", &s8, &u8, 24, 1, 0, OUT_S32},
        {"bf16_n256", &bf16, &bf16, MAX_N, 1, 1e-5, OUT_F32},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        check_type(&cases[i]);
}

/* ---- mma_sync ---- */

static void check_16x16(const char *kernel, uint16_t (*convert)(float), struct view b_view, const float *b)
{
    static float a[16 * 64], out[16 * 16];
    fill(a, 16 * 64, 8);
    uint64_t a_rows = upload_halves(a, 16 * 64, convert), b_rows = upload_halves(b, 16 * 64, convert);
    uint64_t result = own_zeros(sizeof(out));
    own_start(&(struct own_launch){kernel, {1}, 32, 0, 0, false}, &result, &a_rows, &b_rows, NULL);
    own_download(out, result, sizeof(out));
    for (size_t i = 0; i < 16 * 16; i++)
        must_be_near((double)out[i], product((struct view){a, 64, 1}, b_view, i / 16, i % 16, 64), 1e-5, kernel, i);
}

static void check_16x8(const char *kernel, const struct type *type, bool integer)
{
    static float a[64 * ROW_BYTES], b[64 * ROW_BYTES];
    uint32_t words[16 * 8];
    const size_t depth = ROW_BYTES / type->bytes;
    uint64_t a_rows = make_rows(type, 16, 9, a), b_rows = make_rows(type, 8, 10, b), out = own_zeros(sizeof(words));
    own_start(&(struct own_launch){kernel, {1}, 32, 0, 0, false}, &out, &a_rows, &b_rows, NULL);
    own_download(words, out, sizeof(words));
    for (size_t i = 0; i < 16 * 8; i++) {
        float value;
        memcpy(&value, &words[i], 4);
        must_be_near(integer ? (double)(int32_t)words[i] : (double)value,
                     product((struct view){a, depth, 1}, (struct view){b, depth, 1}, i / 8, i % 8, depth),
                     integer ? 0 : 1e-5, kernel, i);
    }
}

void check_mma_sync(void)
{
    static float b[16 * 64];
    fill(b, 16 * 64, 11);
    check_16x16("mma_f16", own_f16, (struct view){b, 1, 16}, b);
    check_16x16("mma_bf16", own_bf16, (struct view){b, 64, 1}, b);
    check_16x8("mma_s8", &s8, true);
    check_16x8("mma_tf32", &tf32, false);
}
