/* mma.sync against products of whole numbers, with the fragments of ISA 9.7.14.5.7 to 10 written out as formulas. */
#include "tensor_machine.h"

#include <string.h>

enum type { F16, BF16, TF32, E4M3, E5M2, S8, U8 };
static const int bytes_of[] = {2, 2, 4, 1, 1, 1, 1};

/* Bits of 0, 1 or 2 (and their negatives where there are any): one table a type. */
static uint32_t encode(enum type type, int value)
{
    static const uint32_t one[] = {0x3c00, 0x3f80, 0x3f800000, 0x38, 0x3c},
                          two[] = {0x4000, 0x4000, 0x40000000, 0x40, 0x40};
    static const uint32_t sign[] = {0x8000, 0x8000, 0x80000000, 0x80, 0x80};
    if (type >= S8)
        return (uint32_t)value & 0xff;
    const int magnitude = value < 0 ? -value : value;
    return (magnitude == 2 ? two[type] : magnitude ? one[type] : 0) | (value < 0 ? sign[type] : 0);
}

static const struct shape {
    const char *opcode;
    int k;
    enum type a, b;
    char d; /* f: f32, h: f16, s: s32 */
} shapes[] = {
    {"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 8, F16, F16, 'f'},
    {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16, F16, F16, 'f'},
    {"mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16", 8, F16, F16, 'h'},
    {"mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", 16, F16, F16, 'h'},
    {"mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", 8, BF16, BF16, 'f'},
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 16, BF16, BF16, 'f'},
    {"mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", 4, TF32, TF32, 'f'},
    {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 8, TF32, TF32, 'f'},
    {"mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f32", 16, E4M3, E4M3, 'f'},
    {"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32", 32, E4M3, E5M2, 'f'},
    {"mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32", 32, E5M2, E4M3, 'f'},
    {"mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", 16, S8, S8, 's'},
    {"mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32", 32, U8, S8, 's'},
    {"mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32", 32, S8, U8, 's'},
};

enum { ROW_A = 8, ROW_B = 16, ROW_C = 24, LARGE_K = 32 };

static int A[16][LARGE_K], B[LARGE_K][8], C[16][8];

/* groupID and threadID_in_group of the ISA's formulas; `i` numbers a lane's elements. */
static int *a_at(const struct shape *s, int lane, int i)
{
    const int group = lane >> 2, thread = lane % 4, p = 4 / bytes_of[s->a];
    const int row = i / p % 2 ? group + 8 : group;
    return &A[row][thread * p + i % p + i / (2 * p) * 4 * p];
}

static int *b_at(const struct shape *s, int lane, int i)
{
    const int group = lane >> 2, thread = lane % 4, p = 4 / bytes_of[s->b];
    return &B[thread * p + i % p + i / p * 4 * p][group];
}

static int *c_at(int lane, int i)
{
    const int group = lane >> 2, thread = lane % 4;
    return &C[i < 2 ? group : group + 8][thread * 2 + (i & 1)];
}

static int random_value(enum type type, uint64_t *state)
{
    const int value = (int)(tm_random(state) % 3);
    return type != U8 && (tm_random(state) & 1) ? -value : value;
}

static uint32_t c_bits(char d, int value)
{
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (d == 's')
        return (uint32_t)value;
    return d == 'f' || value == 0 ? bits
                                  : (bits >> 16 & 0x8000) | ((bits >> 23 & 255) - 112) << 10 | (bits >> 13 & 0x3ff);
}

static void fill(struct tensor_machine *tm, const struct shape *s, uint64_t *state)
{
    for (int k = 0; k < s->k; k++) {
        for (int m = 0; m < 16; m++)
            A[m][k] = random_value(s->a, state);
        for (int n = 0; n < 8; n++)
            B[k][n] = random_value(s->b, state);
    }
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 8; n++)
            C[m][n] = (int)(tm_random(state) % 41) - 20;
    memset(tm->r32[0][0], 0, sizeof tm->r32[0][0]);
    const int pa = 4 / bytes_of[s->a], a_count = s->k * 16 / 32, b_count = s->k * 8 / 32;
    for (int lane = 0; lane < EMU_LANES; lane++) {
        for (int i = 0; i < a_count; i++)
            tm->r32[0][0][ROW_A + i / pa][lane] |= encode(s->a, *a_at(s, lane, i)) << 8 * bytes_of[s->a] * (i % pa);
        for (int i = 0; i < b_count; i++)
            tm->r32[0][0][ROW_B + i / pa][lane] |= encode(s->b, *b_at(s, lane, i)) << 8 * bytes_of[s->b] * (i % pa);
        for (int i = 0; i < 4; i++) {
            const int row = s->d == 'h' ? i / 2 : i;
            tm->r32[0][0][ROW_C + row][lane] |= c_bits(s->d, *c_at(lane, i)) << (s->d == 'h' ? 16 * (i % 2) : 0);
        }
    }
}

static void multiply(const struct shape *s)
{
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 8; n++)
            for (int k = 0; k < s->k; k++)
                C[m][n] += A[m][k] * B[k][n];
}

static void run_shape(struct tensor_machine *tm, const struct shape *s, bool in_place)
{
    const int c = s->d == 'h' ? 2 : 4, bytes_k = s->k * bytes_of[s->a], d = in_place ? ROW_C : 0;
    tm->pool_count = 0;
    const struct emu_operand operands[] = {
        tm_vector(tm, d, c), tm_vector(tm, ROW_A, bytes_k / 8),
        bytes_k == 16 && in_place ? tm_reg32(ROW_B) : tm_vector(tm, ROW_B, bytes_k / 16), tm_vector(tm, ROW_C, c)};
    uint64_t state = (uint64_t)s->k + s->a;
    fill(tm, s, &state);
    const int result = tm_run(tm, 0, s->opcode, EMU_ALL_LANES, 4, operands);
    if (result != EMU_NEXT)
        fail_msg("%s: %s", s->opcode, tm->why);
    multiply(s);
    for (int lane = 0; lane < EMU_LANES; lane++)
        for (int i = 0; i < 4; i++) {
            const uint32_t row = tm->r32[0][0][d + (s->d == 'h' ? i / 2 : i)][lane];
            const uint32_t value = s->d == 'h' ? row >> 16 * (i % 2) & 0xffff : row;
            if (value != c_bits(s->d, *c_at(lane, i)))
                fail_msg("%s lane %d element %d: 0x%x", s->opcode, lane, i, value);
        }
}

static void every_shape(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = tm_create(1);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int order = EMU_SUM_FORWARD; order <= EMU_SUM_DOUBLE; order++) {
            tm->options.sum_order = (enum emu_sum_order)order;
            run_shape(tm, &shapes[i], order == EMU_SUM_REVERSED);
        }
    }
    tm_destroy(tm);
}

/* C as constants; a matrix of whole halves rounds to nearest even. */
static void constants_and_rounding(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = tm_create(1);
    const struct emu_operand a = tm_vector(tm, ROW_A, 2), b = tm_vector(tm, ROW_B, 1), d = tm_vector(tm, 0, 2);
    const int first = tm->pool_count;
    tm->pool[first] = tm_imm(0x6800);         /* 2048 in the lower half, 0 in the upper */
    tm->pool[first + 1] = tm_imm(0x68016801); /* 2050, where the spacing is 2 */
    tm->pool_count += 2;
    const struct emu_operand c = {.kind = EMU_OP_VECTOR, .first = first, .count = 2};
    const struct emu_operand operands[] = {d, a, b, c};
    tm_set32(tm, ROW_B, 0x3c00);     /* one, then zero */
    tm_set32(tm, ROW_A, 0x3c00);     /* rows 0 to 7: four ones where b has them, one for each even k */
    tm_set32(tm, ROW_A + 1, 0x3800); /* a half */
    for (int lane = 1; lane < EMU_LANES; lane++)
        if (lane % 4)
            tm->r32[0][0][ROW_A][lane] = tm->r32[0][0][ROW_A + 1][lane] = 0; /* k = 0 alone */
    assert_int_equal(tm_run(tm, 0, "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16", EMU_ALL_LANES, 4, operands),
                     EMU_NEXT);
    assert_int_equal(tm->r32[0][0][0][0], 0x3c006800); /* 2049: to even, down; and 1 */
    assert_int_equal(tm->r32[0][0][1][0], 0x68016801); /* 2050.5 */
    tm_destroy(tm);
}

static void refused(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = tm_create(1);
    const struct emu_operand v4 = tm_vector(tm, 0, 4), v2 = tm_vector(tm, 4, 2);
    const struct emu_operand wrong[] = {v4, v4, v4, v4}, fine[] = {v4, v4, v2, v4};
    const char *const opcode = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32";
    assert_int_equal(tm_run(tm, 0, opcode, EMU_ALL_LANES, 4, wrong), TM_REFUSED);
    assert_int_equal(tm_run(tm, 0, opcode, 0xffff, 4, fine), EMU_FAULT);
    assert_int_equal(tm->kind, EMU_DIVERGENT);
    assert_int_equal(tm_run(tm, 0, "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32", EMU_ALL_LANES, 4, fine),
                     TM_UNKNOWN);
    assert_int_equal(tm_run(tm, 0, "mma.sync.aligned.m16n8k16.row.row.f32.bf16.bf16.f32", EMU_ALL_LANES, 4, fine),
                     TM_UNKNOWN);
    tm_destroy(tm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_shape), cmocka_unit_test(constants_and_rounding),
                                       cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
