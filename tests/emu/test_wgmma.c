/* wgmma against matrices that are laid out by CuTe's layout algebra, derived here anew from the canonical layouts of
 * ISA 9.7.15.5.1.2.1.3, and multiplied in whole numbers. */
#include "tensor_machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Layouts, CuTe's way: nested shape and stride, then Swizzle<B, 4, 3> of the byte address ---- */

struct mode {
    int swizzle; /* bytes; 0: none */
    bool mn_major;
};

static const struct mode modes[] = {{0, false}, {32, false}, {64, false}, {128, false},
                                    {0, true},  {32, true},  {64, true},  {128, true}};
enum { MODES = 8, K_MAJOR_MODES = 4 };

struct placed {
    struct mode mode;
    uint32_t start, leading, stride; /* bytes */
    int element_bytes;
};

/* Index of a coordinate in ((s0, s1, …)) : ((d0, d1, …)): the innermost runs fastest; the last shape is unbounded. */
static uint32_t crd2idx(uint32_t at, const uint32_t *shape, const uint32_t *stride, int rank)
{
    uint32_t index = 0;
    for (int i = 0; i < rank; i++) {
        const bool last = i == rank - 1;
        index += (last ? at : at % shape[i]) * stride[i];
        at /= last ? 1 : shape[i];
    }
    return index;
}

/* Byte address of element (mn, k). T = elements of 128 bits; strides in elements of the table are scaled to bytes. */
static uint32_t address_of(const struct placed *p, int mn, int k)
{
    const uint32_t e = (uint32_t)p->element_bytes, T = 16 / e, W = (uint32_t)p->mode.swizzle / 16;
    uint32_t index;
    if (!p->mode.mn_major) {
        /* ((8,m),(T,2k)) : ((1T,SBO),(1,LBO)) or ((2T|4T|8T,SBO),(1,T)) */
        const uint32_t row = (W ? W : 1) * T * e, column = W ? T * e : p->leading;
        index = crd2idx((uint32_t)mn, (const uint32_t[]){8, 0}, (const uint32_t[]){row, p->stride}, 2) +
                crd2idx((uint32_t)k, (const uint32_t[]){T, 0}, (const uint32_t[]){e, column}, 2);
    } else if (W == 0) {
        /* ((T,1,m),(8,k)) : ((1,T,SBO),(1T,LBO)) */
        index = crd2idx((uint32_t)mn, (const uint32_t[]){T, 0}, (const uint32_t[]){e, p->stride}, 2) +
                crd2idx((uint32_t)k, (const uint32_t[]){8, 0}, (const uint32_t[]){T * e, p->leading}, 2);
    } else {
        /* ((T,W,m),(8,k)) : ((1,T,LBO),(W*T,SBO)) */
        index = crd2idx((uint32_t)mn, (const uint32_t[]){T, W, 0}, (const uint32_t[]){e, T * e, p->leading}, 3) +
                crd2idx((uint32_t)k, (const uint32_t[]){8, 0}, (const uint32_t[]){W * T * e, p->stride}, 2);
    }
    /* Swizzle<B,4,3>: bits [4, 4+B) are exclusive-ored with bits [7, 7+B). */
    const uint32_t B = W == 8 ? 3 : W == 4 ? 2 : W == 2 ? 1 : 0, address = p->start + index;
    return address ^ ((address >> 7 & ((1u << B) - 1)) << 4);
}

static uint64_t descriptor_of(const struct placed *p)
{
    const uint64_t swizzle = p->mode.swizzle == 128 ? 1 : p->mode.swizzle == 64 ? 2 : p->mode.swizzle == 32 ? 3 : 0;
    return (uint64_t)(p->start >> 4) | (uint64_t)(p->leading >> 4) << 16 | (uint64_t)(p->stride >> 4) << 32 |
           swizzle << 62;
}

/* Compact strides for a matrix with `mn` rows and `k` columns, with a gap so that no stride follows from another. */
static struct placed place(struct mode mode, uint32_t start, int mn, int k, int element_bytes)
{
    const uint32_t W = mode.swizzle ? (uint32_t)mode.swizzle : 16;
    const uint32_t atom = 8 * W; /* bytes of 8 rows or columns of a swizzle atom */
    struct placed p = {.mode = mode, .start = start, .element_bytes = element_bytes};
    if (!mode.mn_major && mode.swizzle) {
        p.stride = atom;
    } else if (!mode.mn_major) {
        p.stride = 128;
        p.leading = 128 * (((uint32_t)mn + 7) / 8) + 256;
    } else if (mode.swizzle) {
        p.stride = atom;
        p.leading = atom * (((uint32_t)k + 7) / 8) + 1024;
    } else {
        p.leading = 128;
        p.stride = 128 * (((uint32_t)k + 7) / 8) + 256;
    }
    return p;
}

/* ---- Types ---- */

enum type { F16, BF16, TF32, E4M3, E5M2, S8, U8 };
static const char *const type_names[] = {"f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8"};
static const int type_bytes[] = {2, 2, 4, 1, 1, 1, 1};
static const int type_k[] = {16, 16, 8, 32, 32, 32, 32};

/* Bits of a small whole number; each format holds -8 … 8. */
static uint32_t encode(enum type type, int value)
{
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    const uint32_t sign = bits >> 31, exponent = value ? (bits >> 23 & 255) - 127 : 0, fraction = bits & 0x7fffff;
    switch (type) {
    case BF16:
        return bits >> 16;
    case TF32:
        return bits | 0x1abc; /* the lower 13 bits are to be ignored */
    case F16:
        return value ? sign << 15 | (exponent + 15) << 10 | fraction >> 13 : 0;
    case E4M3:
        return value ? sign << 7 | (exponent + 7) << 3 | fraction >> 20 : 0;
    case E5M2:
        return value ? sign << 7 | (exponent + 15) << 2 | fraction >> 21 : 0;
    default:
        return (uint32_t)value & 0xff;
    }
}

/* A random number that is exact in the type: e5m2 has three significant bits, u8 no sign. */
static int random_value(enum type type, uint64_t *state)
{
    const int value = (int)(tm_random(state) % 9);
    const int magnitude = type == E5M2 && value > 4 && value % 2 ? value - 1 : value;
    return type != U8 && (tm_random(state) & 1) ? -magnitude : magnitude;
}

/* ---- One case ---- */

struct test_case {
    int n;
    enum type a, b;
    const char *d; /* f32, f16, s32 */
    bool a_in_registers;
    struct mode a_mode, b_mode;
    int scale_a, scale_b;
    bool add;
    uint32_t a_start, b_start;
};

enum { M = 64, MOST_K = 32, MOST_N = 256, ROW_A = 136 };

static int A[M][MOST_K], B[MOST_K][MOST_N], C[M][MOST_N];

/* Fragment places, from the figures of ISA 9.7.15.5.1.1: column pairs of D in steps of eight, rows in steps of eight.
 */
static int *c_of(int warp, int lane, int value)
{
    return &C[16 * warp + lane / 4 + (value / 2 % 2 ? 8 : 0)][value / 4 * 8 + lane % 4 * 2 + value % 2];
}

static void put_shared(struct tensor_machine *tm, const struct placed *p, int mn, int k, uint32_t bits)
{
    memcpy(tm->shared[0] + address_of(p, mn, k), &bits, (size_t)p->element_bytes);
}

static void fill_matrices(struct tensor_machine *tm, const struct test_case *t, const struct placed *a,
                          const struct placed *b, uint64_t *state)
{
    const int k_count = type_k[t->a];
    memset(tm->shared[0], 0xff, TM_SHARED);
    for (int k = 0; k < k_count; k++) {
        for (int m = 0; m < M; m++)
            A[m][k] = random_value(t->a, state);
        for (int n = 0; n < t->n; n++) {
            B[k][n] = random_value(t->b, state);
            put_shared(tm, b, n, k, encode(t->b, B[k][n]));
        }
        for (int m = 0; m < M && !t->a_in_registers; m++)
            put_shared(tm, a, m, k, encode(t->a, A[m][k]));
    }
}

/* Registers of A: the first eight rows then the next eight, for each run of 16 bytes of k; each lane has 4 bytes. */
static void fill_a_registers(struct tensor_machine *tm, enum type type)
{
    const int bytes = type_bytes[type], in_lane = 4 / bytes, in_run = 16 / bytes;
    for (int warp = 0; warp < TM_WARPS; warp++)
        for (int r = 0; r < 4; r++)
            for (int lane = 0; lane < EMU_LANES; lane++) {
                uint32_t bits = 0;
                for (int i = 0; i < in_lane; i++) {
                    const int m = 16 * warp + (r & 1) * 8 + lane / 4, k = r / 2 * in_run + lane % 4 * in_lane + i;
                    bits |= encode(type, A[m][k]) << 8 * bytes * i;
                }
                tm->r32[0][warp][ROW_A + r][lane] = bits;
            }
}

static uint32_t c_bits(const char *d, int value)
{
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return strcmp(d, "s32") == 0 ? (uint32_t)value : bits;
}

/* A half of a whole number up to 2048. */
static uint32_t half_bits(int value)
{
    int magnitude = abs(value), exponent = 0;
    if (value == 0)
        return 0;
    while (magnitude >> exponent > 1)
        exponent++;
    const uint32_t fraction = (uint32_t)(magnitude << 10 >> exponent) & 0x3ff;
    return (value < 0 ? 0x8000u : 0) | (uint32_t)(exponent + 15) << 10 | fraction;
}

static uint32_t d_bits(const char *d, int warp, int lane, int r)
{
    if (strcmp(d, "f16") != 0)
        return c_bits(d, *c_of(warp, lane, r));
    return half_bits(*c_of(warp, lane, 2 * r)) | half_bits(*c_of(warp, lane, 2 * r + 1)) << 16;
}

static int d_registers(const struct test_case *t)
{
    return strcmp(t->d, "f16") == 0 ? t->n / 4 : t->n / 2;
}

static void fill_c(struct tensor_machine *tm, const struct test_case *t, uint64_t *state)
{
    for (int m = 0; m < M; m++)
        for (int n = 0; n < t->n; n++)
            C[m][n] = (int)(tm_random(state) % 201) - 100;
    for (int warp = 0; warp < TM_WARPS; warp++)
        for (int r = 0; r < d_registers(t); r++)
            for (int lane = 0; lane < EMU_LANES; lane++)
                tm->r32[0][warp][r][lane] = d_bits(t->d, warp, lane, r);
}

static void multiply(const struct test_case *t)
{
    for (int m = 0; m < M; m++)
        for (int n = 0; n < t->n; n++) {
            int sum = 0;
            for (int k = 0; k < type_k[t->a]; k++)
                sum += A[m][k] * B[k][n];
            C[m][n] = (t->add ? C[m][n] : 0) + t->scale_a * t->scale_b * sum;
        }
}

static int operands_of(struct tensor_machine *tm, const struct test_case *t, struct emu_operand *operands)
{
    int count = 0;
    tm->pool_count = 0;
    operands[count++] = tm_vector(tm, 0, d_registers(t));
    operands[count++] = t->a_in_registers ? tm_vector(tm, ROW_A, 4) : tm_reg64(0);
    operands[count++] = tm_reg64(1);
    operands[count++] = tm_pred(0);
    if (t->a >= S8)
        return count;
    operands[count++] = tm_imm(t->scale_a);
    operands[count++] = tm_imm(t->scale_b);
    if (type_bytes[t->a] != 2)
        return count;
    if (!t->a_in_registers)
        operands[count++] = tm_imm(t->a_mode.mn_major);
    operands[count++] = tm_imm(t->b_mode.mn_major);
    return count;
}

static void opcode_of(const struct test_case *t, char *opcode, size_t room)
{
    snprintf(opcode, room, "wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s", t->n, type_k[t->a], t->d,
             type_names[t->a], type_names[t->b]);
}

static void check_d(struct tensor_machine *tm, const struct test_case *t)
{
    for (int warp = 0; warp < TM_WARPS; warp++)
        for (int r = 0; r < d_registers(t); r++)
            for (int lane = 0; lane < EMU_LANES; lane++)
                if (tm->r32[0][warp][r][lane] != d_bits(t->d, warp, lane, r))
                    fail_msg("n %d %s*%s->%s, A %s %d%s, B %d%s: warp %d lane %d register %d: 0x%08x, not 0x%08x", t->n,
                             type_names[t->a], type_names[t->b], t->d, t->a_in_registers ? "registers" : "shared",
                             t->a_mode.swizzle, t->a_mode.mn_major ? " MN" : "", t->b_mode.swizzle,
                             t->b_mode.mn_major ? " MN" : "", warp, lane, r, tm->r32[0][warp][r][lane],
                             d_bits(t->d, warp, lane, r));
}

/* What is read is A and B, no byte more or less. */
static void check_reads(struct tensor_machine *tm, const struct test_case *t, const struct placed *a,
                        const struct placed *b)
{
    static uint8_t expected[TM_SHARED];
    memset(expected, 0, sizeof expected);
    for (int k = 0; k < type_k[t->a]; k++) {
        for (int m = 0; m < M && !t->a_in_registers; m++)
            memset(expected + address_of(a, m, k), 1, (size_t)a->element_bytes);
        for (int n = 0; n < t->n; n++)
            memset(expected + address_of(b, n, k), 1, (size_t)b->element_bytes);
    }
    assert_memory_equal(expected, tm->shared_read[0], TM_SHARED);
    memset(tm->shared_read[0], 0, TM_SHARED);
}

static void run_case(struct tensor_machine *tm, const struct test_case *t, uint64_t seed)
{
    uint64_t state = seed;
    const struct placed a = place(t->a_mode, t->a_start ? t->a_start : 2048, M, type_k[t->a], type_bytes[t->a]);
    const struct placed b = place(t->b_mode, t->b_start ? t->b_start : 98304, t->n, type_k[t->b], type_bytes[t->b]);
    struct emu_operand operands[8];
    char opcode[96];
    fill_matrices(tm, t, &a, &b, &state);
    fill_a_registers(tm, t->a);
    fill_c(tm, t, &state);
    tm_set64(tm, 0, descriptor_of(&a));
    tm_set64(tm, 1, descriptor_of(&b));
    for (int warp = 0; warp < TM_WARPS; warp++)
        tm->preds[0][warp][0] = t->add ? EMU_ALL_LANES : 0;
    const int count = operands_of(tm, t, operands);
    opcode_of(t, opcode, sizeof opcode);
    const int result = tm_run_all(tm, opcode, count, operands);
    if (result != EMU_NEXT)
        fail_msg("%s: %s %s", opcode, tm->why, tm->message);
    assert_int_equal(tm->in_flight_count, d_registers(t) + (t->a_in_registers ? 4 : 0));
    assert_true(tm_finish(tm));
    assert_true(tm->async_proxy);
    multiply(t);
    check_d(tm, t);
    check_reads(tm, t, &a, &b);
}

static struct test_case plain(int n, enum type type, const char *d)
{
    return (struct test_case){.n = n,
                              .a = type,
                              .b = type,
                              .d = d,
                              .a_mode = {128, false},
                              .b_mode = {128, false},
                              .scale_a = 1,
                              .scale_b = 1,
                              .add = true};
}

/* ---- Tests ---- */

static void every_n(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = tm_create(1);
    for (int n = 8; n <= 256; n += 8) {
        struct test_case t = plain(n, BF16, "f32");
        t.b_mode = modes[n / 8 % MODES];
        run_case(tm, &t, (uint64_t)n);
        t.a_in_registers = true;
        t.add = false;
        run_case(tm, &t, (uint64_t)n + 1000);
    }
    tm_destroy(tm);
}

/* Every swizzle and majorness of A with every of B, both 16-bit types. */
static void every_descriptor_mode(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = tm_create(1);
    for (int i = 0; i < MODES * MODES; i++) {
        struct test_case t = plain(64, i % 2 ? F16 : BF16, "f32");
        t.a_mode = modes[i / MODES];
        t.b_mode = modes[i % MODES];
        run_case(tm, &t, (uint64_t)i);
    }
    tm_destroy(tm);
}

/* Starts inside a swizzle atom, as kernels advance k: 32 bytes a step, K-major. */
static void advanced_starts(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = tm_create(1);
    for (uint32_t step = 0; step < 4; step++)
        for (int mode = 1; mode < K_MAJOR_MODES; mode++) {
            struct test_case t = plain(128, BF16, "f32");
            t.a_mode = t.b_mode = modes[mode];
            if (32 * step >= (uint32_t)t.a_mode.swizzle)
                continue;
            t.a_start = 4096 + 32 * step;
            t.b_start = 65536 + 32 * step;
            run_case(tm, &t, step);
        }
    tm_destroy(tm);
}

static void every_type(void **unused)
{
    (void)unused;
    static const struct {
        enum type a, b;
        const char *d;
    } types[] = {{F16, F16, "f32"},   {F16, F16, "f16"},   {BF16, BF16, "f32"}, {TF32, TF32, "f32"},
                 {E4M3, E4M3, "f32"}, {E4M3, E5M2, "f32"}, {E5M2, E4M3, "f32"}, {E5M2, E5M2, "f32"},
                 {E4M3, E4M3, "f16"}, {E5M2, E4M3, "f16"}, {E4M3, E5M2, "f16"}, {E5M2, E5M2, "f16"},
                 {S8, S8, "s32"},     {U8, U8, "s32"},     {S8, U8, "s32"},     {U8, S8, "s32"}};
    struct tensor_machine *tm = tm_create(1);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int variant = 0; variant < 16; variant++) {
            struct test_case t = plain(variant % 2 ? 48 : 256, types[i].a, types[i].d);
            t.b = types[i].b;
            t.a_in_registers = variant & 2;
            t.add = !(variant & 8);
            t.a_mode = modes[variant / 2 % K_MAJOR_MODES];
            t.b_mode = modes[variant % K_MAJOR_MODES];
            run_case(tm, &t, (uint64_t)variant);
        }
    tm_destroy(tm);
}

static void negations(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = tm_create(1);
    for (int i = 0; i < 8; i++) {
        struct test_case t = plain(32, i & 4 ? E4M3 : F16, "f32");
        t.scale_a = i & 1 ? -1 : 1;
        t.scale_b = i & 2 ? -1 : 1;
        run_case(tm, &t, (uint64_t)i);
    }
    tm_destroy(tm);
}

/* One-hot A: row m picks row m % k of B, whose elements are all different. */
static void one_hot(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = tm_create(1);
    for (int mode = 0; mode < MODES; mode++) {
        struct emu_operand operands[8];
        struct test_case t = plain(64, F16, "f32");
        const struct placed b = place(modes[mode], 65536, t.n, 16, 2);
        t.a_in_registers = true;
        t.b_mode = modes[mode];
        for (int m = 0; m < M; m++)
            for (int k = 0; k < 16; k++)
                A[m][k] = k == m % 16;
        for (int n = 0; n < t.n; n++)
            for (int k = 0; k < 16; k++)
                put_shared(tm, &b, n, k, half_bits(n * 16 + k + 1));
        fill_a_registers(tm, F16);
        tm_set64(tm, 1, descriptor_of(&b));
        const int count = operands_of(tm, &t, operands);
        assert_int_equal(tm_run_all(tm, "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16", count, operands),
                         EMU_NEXT);
        assert_true(tm_finish(tm));
        for (int m = 0; m < M; m++)
            for (int n = 0; n < t.n; n++)
                C[m][n] = n * 16 + m % 16 + 1;
        check_d(tm, &t);
    }
    tm_destroy(tm);
}

static float as_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Products 2^25, 1 and -2^25 at k = 0, 1, 2 and a sum of 1 before: the order decides what is lost. */
static void sum_orders(void **unused)
{
    (void)unused;
    static const float expected[] = {[EMU_SUM_FORWARD] = 0, [EMU_SUM_REVERSED] = 1, [EMU_SUM_DOUBLE] = 2};
    struct tensor_machine *tm = tm_create(1);
    const struct placed b = place(modes[3], 65536, 8, 16, 2);
    struct emu_operand operands[8];
    struct test_case t = plain(8, BF16, "f32");
    t.a_in_registers = true;
    for (int k = 0; k < 16; k++)
        for (int n = 0; n < 8; n++)
            put_shared(tm, &b, n, k, k == 0 ? 0x4c00 : k == 1 ? 0x3f80 : k == 2 ? 0xcc00 : 0); /* 2^25, 1, -2^25 */
    for (int m = 0; m < M; m++)
        for (int k = 0; k < 16; k++)
            A[m][k] = 1;
    for (int order = EMU_SUM_FORWARD; order <= EMU_SUM_DOUBLE; order++) {
        fill_a_registers(tm, BF16);
        for (int r = 0; r < 4; r++)
            tm_set32(tm, r, 0x3f800000);
        tm_set64(tm, 1, descriptor_of(&b));
        tm->options.sum_order = (enum emu_sum_order)order;
        tm->preds[0][0][0] = EMU_ALL_LANES;
        const int count = operands_of(tm, &t, operands);
        assert_int_equal(
            tm_run(tm, 0, "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16", EMU_ALL_LANES, count, operands),
            EMU_NEXT);
        assert_true(tm_finish(tm));
        for (int lane = 0; lane < EMU_LANES; lane++)
            assert_true(as_float(tm->r32[0][0][3][lane]) == expected[order]);
    }
    tm_destroy(tm);
}

static void integer_overflow(void **unused)
{
    (void)unused;
    static const char *const opcodes[] = {"wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.u8",
                                          "wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.u8.satfinite",
                                          "wgmma.mma_async.sync.aligned.m64n8k32.satfinite.s32.u8.u8"};
    struct tensor_machine *tm = tm_create(1);
    struct test_case t = plain(8, U8, "s32");
    struct emu_operand operands[8];
    memset(tm->shared[0], 255, TM_SHARED);
    t.a_in_registers = true;
    tm_set64(tm, 1, descriptor_of(&(struct placed){.mode = modes[3], .start = 65536, .stride = 1024}));
    tm->preds[0][0][0] = EMU_ALL_LANES;
    for (int i = 0; i < 3; i++) {
        for (int r = 0; r < 4; r++) {
            tm_set32(tm, r, INT32_MAX);
            tm_set32(tm, ROW_A + r, UINT32_MAX);
        }
        const int count = operands_of(tm, &t, operands);
        assert_int_equal(tm_run(tm, 0, opcodes[i], EMU_ALL_LANES, count, operands), EMU_NEXT);
        assert_true(tm_finish(tm));
        assert_int_equal(tm->r32[0][0][0][0], i ? INT32_MAX : (uint32_t)INT32_MAX + 32 * 255 * 255);
    }
    tm_destroy(tm);
}

/* A's registers and the predicate's value: the first are read late, the second at issue. */
static void late_registers(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = tm_create(1);
    struct test_case t = plain(8, BF16, "f32");
    struct emu_operand operands[8];
    const struct placed b = place(modes[3], 65536, 8, 16, 2);
    for (int k = 0; k < 16; k++)
        for (int n = 0; n < 8; n++)
            put_shared(tm, &b, n, k, 0x3f80);
    t.a_in_registers = true;
    tm_set64(tm, 1, descriptor_of(&b));
    const int count = operands_of(tm, &t, operands);
    assert_int_equal(
        tm_run(tm, 0, "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16", EMU_ALL_LANES, count, operands), EMU_NEXT);
    for (int r = 0; r < 4; r++)
        tm_set32(tm, ROW_A + r, 0x3f803f80);
    tm_set32(tm, 0, 0x42280000);
    tm->preds[0][0][0] = EMU_ALL_LANES;
    assert_true(tm_finish(tm));
    assert_true(as_float(tm->r32[0][0][0][0]) == 16.0f);
    tm_destroy(tm);
}

static void special_values(void **unused)
{
    (void)unused;
    static const struct {
        enum type type;
        const char *opcode;
        uint32_t bits;
        float expected;
    } values[] = {
        {F16, "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", 0x0001, 0x1p-24f},
        {F16, "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", 0x83ff, -1023 * 0x1p-24f},
        {F16, "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", 0x7bff, 65504.0f},
        {F16, "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", 0xfc00, -INFINITY},
        {BF16, "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16", 0x7f80, INFINITY},
        {TF32, "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32", 0x3f801fff, 1.0f},
        {E4M3, "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3", 0x01, 0x1p-9f},
        {E4M3, "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3", 0xfe, -448.0f},
        {E5M2, "wgmma.mma_async.sync.aligned.m64n8k32.f32.e5m2.e5m2", 0x03, 3 * 0x1p-16f},
        {E5M2, "wgmma.mma_async.sync.aligned.m64n8k32.f32.e5m2.e5m2", 0x7b, 57344.0f},
        {E5M2, "wgmma.mma_async.sync.aligned.m64n8k32.f32.e5m2.e5m2", 0x7c, INFINITY},
    };
    struct tensor_machine *tm = tm_create(1);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct emu_operand operands[8];
        struct test_case t = plain(8, values[i].type, "f32");
        const struct placed b = place(modes[3], 65536, 8, type_k[t.a], type_bytes[t.a]);
        memset(tm->shared[0], 0, TM_SHARED);
        memset(A, 0, sizeof A);
        A[0][0] = 1;
        put_shared(tm, &b, 0, 0, values[i].bits);
        fill_a_registers(tm, t.a);
        t.a_in_registers = true;
        t.add = false;
        tm_set64(tm, 1, descriptor_of(&b));
        const int count = operands_of(tm, &t, operands);
        assert_int_equal(tm_run(tm, 0, values[i].opcode, EMU_ALL_LANES, count, operands), EMU_NEXT);
        assert_true(tm_finish(tm));
        assert_true(as_float(tm->r32[0][0][0][0]) == values[i].expected);
    }
    tm_destroy(tm);
}

/* The accumulator is read when scale-d is true alone. */
static void unwritten_registers(void **unused)
{
    (void)unused;
    const char *const opcode = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16";
    struct tensor_machine *tm = tm_create(1);
    struct test_case t = plain(8, BF16, "f32");
    struct emu_operand operands[8];
    t.a_in_registers = true;
    const int count = operands_of(tm, &t, operands);
    tm_set64(tm, 1, descriptor_of(&(struct placed){.mode = modes[3], .start = 65536, .stride = 1024}));
    tm->options.checks = EMU_CHECK_UNINITIALISED;
    for (int add = 0; add < 2; add++) {
        memset(tm->def32, 0, sizeof tm->def32);
        tm->def64[1] = tm->defp[0] = EMU_ALL_LANES;
        tm->def32[ROW_A] = tm->def32[ROW_A + 1] = tm->def32[ROW_A + 2] = EMU_ALL_LANES;
        tm->def32[ROW_A + 3] = 0x7fffffff;
        tm->preds[0][0][0] = add ? EMU_ALL_LANES : 0;
        tm->faults = 0;
        assert_int_equal(tm_run(tm, 0, opcode, EMU_ALL_LANES, count, operands), EMU_NEXT);
        assert_int_equal(tm->faults, 1 + add);
        assert_int_equal(tm->kind, EMU_UNINITIALISED);
        assert_non_null(strstr(tm->message, "register 3 of A"));
    }
    assert_true(tm_finish(tm));
    tm_destroy(tm);
}

static void bad_operands(void **unused)
{
    (void)unused;
    const char *const opcode = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16";
    struct tensor_machine *tm = tm_create(1);
    struct test_case t = plain(8, BF16, "f32");
    struct emu_operand operands[8];
    const uint64_t fine = descriptor_of(&(struct placed){.mode = modes[3], .start = 65536, .stride = 1024});
    const int count = operands_of(tm, &t, operands);
    const struct {
        uint64_t a, b;
        enum emu_finding_kind kind;
    } cases[] = {
        {fine | (uint64_t)1 << 49, fine, EMU_BAD_OPERAND}, {fine, fine | (uint64_t)7 << 49, EMU_BAD_OPERAND},
        {fine | 1 << 14, fine, EMU_BAD_OPERAND},           {fine, fine | (uint64_t)1 << 46, EMU_BAD_OPERAND},
        {fine, fine | (uint64_t)1 << 61, EMU_BAD_OPERAND},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tm_set64(tm, 0, cases[i].a);
        tm_set64(tm, 1, cases[i].b);
        assert_int_equal(tm_run(tm, 0, opcode, EMU_ALL_LANES, count, operands), EMU_FAULT);
        assert_int_equal(tm->kind, cases[i].kind);
    }
    tm_set64(tm, 0, fine);
    tm_set64(tm, 1, fine);
    assert_int_equal(tm_run(tm, 0, opcode, 0x7fffffff, count, operands), EMU_FAULT);
    assert_int_equal(tm->kind, EMU_DIVERGENT);
    tm->preds[0][0][0] = 1;
    assert_int_equal(tm_run(tm, 0, opcode, EMU_ALL_LANES, count, operands), EMU_FAULT);
    assert_int_equal(tm->kind, EMU_BAD_OPERAND);
    tm->preds[0][0][0] = 0;
    tm->r64[0][0][1][31]++;
    assert_int_equal(tm_run(tm, 0, opcode, EMU_ALL_LANES, count, operands), EMU_FAULT);
    assert_non_null(strstr(tm->message, "lane 31"));
    tm_set64(tm, 1, 0x3fff | (uint64_t)1 << 62);
    assert_int_equal(tm_run(tm, 0, opcode, EMU_ALL_LANES, count, operands), EMU_NEXT);
    assert_false(tm_finish(tm)); /* the end of 256 KiB: outside */
    assert_int_equal(tm->kind, EMU_OUT_OF_BOUNDS);
    tm->ctas[0].warp_count = 3;
    assert_int_equal(tm_run(tm, 0, opcode, EMU_ALL_LANES, count, operands), EMU_FAULT);
    tm_destroy(tm);
}

static void refused(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = tm_create(1);
    const struct emu_operand d4 = tm_vector(tm, 0, 4), d8 = tm_vector(tm, 0, 8), a3 = tm_vector(tm, 8, 3);
    const struct emu_operand desc = tm_reg64(0), p = tm_pred(0), one = tm_imm(1), two = tm_imm(2), zero = tm_imm(0);
    const char *const bf16 = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16";
    const struct {
        const char *opcode;
        int count;
        struct emu_operand operands[8];
    } cases[] = {
        {"wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16", 8, {d4, desc, desc, p, one, one, zero, zero}},
        {"wgmma.mma_async.sync.aligned.m64n264k16.f32.bf16.bf16", 8, {d4, desc, desc, p, one, one, zero, zero}},
        {"wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8", 4, {d4, desc, desc, p}},
        {"wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc", 4, {d4, desc, desc, p}},
        {bf16, 8, {d8, desc, desc, p, one, one, zero, zero}},
        {bf16, 7, {d4, a3, desc, p, one, one, zero}},
        {bf16, 7, {d4, desc, desc, p, one, one, zero}},
        {bf16, 8, {d4, desc, desc, p, two, one, zero, zero}},
        {bf16, 8, {d4, desc, desc, p, one, zero, zero, zero}},
        {bf16, 8, {d4, desc, desc, p, one, one, two, zero}},
        {bf16, 8, {d4, desc, desc, p, one, one, zero, p}},
        {"wgmma.wait_group.sync.aligned", 1, {tm_reg32(0)}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tm->why[0] = '\0';
        assert_int_equal(tm_run(tm, 0, cases[i].opcode, EMU_ALL_LANES, cases[i].count, cases[i].operands), TM_REFUSED);
        assert_true(strlen(tm->why) > 0);
    }
    const struct emu_operand fine[] = {d4, desc, desc, p, one, one, zero, zero};
    assert_int_equal(tm_run(tm, 0, "wgmma.mma_async.sync.aligned.m64n8k16.f16.bf16.bf16", EMU_ALL_LANES, 8, fine),
                     TM_UNKNOWN);
    assert_int_equal(tm_run(tm, 0, "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16", EMU_ALL_LANES, 8, fine),
                     TM_UNKNOWN);
    tm_destroy(tm);
}

static void groups(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = tm_create(1);
    const struct emu_operand one = tm_imm(1), seven = tm_imm(7);
    assert_int_equal(tm_run(tm, 0, "wgmma.fence.sync.aligned", EMU_ALL_LANES, 0, NULL), EMU_NEXT);
    assert_int_equal(tm->fences, 1);
    assert_int_equal(tm_run(tm, 0, "wgmma.commit_group.sync.aligned", EMU_ALL_LANES, 0, NULL), EMU_NEXT);
    assert_int_equal(tm->committed, 1);
    assert_int_equal(tm_run(tm, 0, "wgmma.wait_group.sync.aligned", EMU_ALL_LANES, 1, &one), EMU_NEXT);
    assert_int_equal(tm->waited, 1);
    assert_int_equal(tm_run(tm, 0, "wgmma.wait_group.sync.aligned", EMU_ALL_LANES, 1, &seven), EMU_BLOCKED);
    assert_int_equal(tm_run(tm, 0, "wgmma.fence.sync.aligned", 1, 0, NULL), EMU_FAULT);
    assert_int_equal(tm_run(tm, 0, "wgmma.commit_group.sync.aligned", 1, 0, NULL), EMU_FAULT);
    assert_int_equal(tm_run(tm, 0, "wgmma.wait_group.sync.aligned", 1, 1, &one), EMU_FAULT);
    tm_destroy(tm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_n),         cmocka_unit_test(every_descriptor_mode),
        cmocka_unit_test(advanced_starts), cmocka_unit_test(every_type),
        cmocka_unit_test(negations),       cmocka_unit_test(one_hot),
        cmocka_unit_test(sum_orders),      cmocka_unit_test(integer_overflow),
        cmocka_unit_test(late_registers),  cmocka_unit_test(special_values),
        cmocka_unit_test(bad_operands),    cmocka_unit_test(refused),
        cmocka_unit_test(groups),          cmocka_unit_test(unwritten_registers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
