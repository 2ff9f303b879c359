/* f32, f64, f32x2 and mixed precision. */
#include "test_alu.h"

#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

void test_floats(void **state)
{
    (void)state;
    const uint64_t tiny = 1, min_normal = 0x00800000, max = 0x7f7fffff;
    const struct alu_check checks[] = {
        {"add.f32", "rrr", {F(1.5f), F(2.25f)}, F(3.75f), 0},
        {"add.f32", "rrr", {F_INF, F_INF | F_MINUS}, F_NAN, 0},
        {"add.f32", "rrr", {0x7f800001, F(1.0f)}, F_NAN, 0},
        {"add.f32", "rrr", {tiny, tiny}, 2, 0},
        {"add.ftz.f32", "rrr", {tiny, tiny | F_MINUS}, 0, 0},
        {"add.ftz.f32", "rrr", {tiny | F_MINUS, tiny | F_MINUS}, F_MINUS, 0},
        {"add.ftz.f32", "rrr", {min_normal | F_MINUS, min_normal + 1}, 0, 0},
        {"add.sat.f32", "rrr", {F(0.75f), F(0.75f)}, F(1.0f), 0},
        {"add.sat.f32", "rrr", {F(-0.75f), F(0.25f)}, 0, 0},
        {"add.sat.f32", "rrr", {F_NAN, F(0.25f)}, 0, 0},
        {"add.rn.ftz.sat.f32", "rrr", {F(0.25f), F(0.25f)}, F(0.5f), 0},
        {"sub.f32", "rrr", {F(1.5f), F(2.25f)}, F(-0.75f), 0},
        {"sub.ftz.f32", "rrr", {tiny, 0}, 0, 0},
        {"sub.sat.f32", "rrr", {F(1.0f), F(2.0f)}, 0, 0},
        {"mul.f32", "rrr", {F(1.5f), F(-2.0f)}, F(-3.0f), 0},
        {"mul.f32", "rrr", {F(0.0f), F_INF}, F_NAN, 0},
        {"mul.f32", "rrr", {F(0x1p-75f), F(0x1p-75f)}, 0, 0},
        {"mul.f32", "rrr", {F(0x1p-100f), F(0x1p-40f)}, F(0x1p-140f), 0},
        {"mul.ftz.f32", "rrr", {F(0x1p-100f), F(-0x1p-40f)}, F_MINUS, 0},
        {"mul.sat.f32", "rrr", {F(4.0f), F(0.5f)}, F(1.0f), 0},
        {"fma.rn.f32", "rrrr", {F(2.0f), F(3.0f), F(4.0f)}, F(10.0f), 0},
        {"fma.rn.f32", "rrrr", {F_INF, F(1.0f), F_INF | F_MINUS}, F_NAN, 0},
        {"fma.rn.f32", "rrrr", {F_INF, F(1.0f), F(3.0f)}, F_INF, 0},
        {"fma.rn.f32", "rrrr", {max, max, max}, F_INF, 0},
        /* (1 + 2^-12)^2 - 1 needs 25 bits: one rounding only */
        {"fma.rn.f32", "rrrr", {F(0x1.001p0f), F(0x1.001p0f), F(-1.0f)}, F(0x1.0008p-11f), 0},
        {"fma.rn.ftz.f32", "rrrr", {tiny, F(0x1p100f), 0}, 0, 0},
        {"fma.rn.sat.f32", "rrrr", {F(2.0f), F(3.0f), F(4.0f)}, F(1.0f), 0},
        {"mad.rn.f32", "rrrr", {F(2.0f), F(3.0f), F(4.0f)}, F(10.0f), 0},
        {"mad.rn.ftz.sat.f32", "rrrr", {F(2.0f), F(3.0f), F(-4.0f)}, F(1.0f), 0},
        {"div.rn.f32", "rrr", {F(1.0f), F(3.0f)}, 0x3eaaaaab, 0},
        {"div.rn.f32", "rrr", {F(1.0f), F(0.0f)}, F_INF, 0},
        {"div.rn.f32", "rrr", {F(0.0f), F(0.0f)}, F_NAN, 0},
        {"div.rn.ftz.f32", "rrr", {F(1.0f), tiny | F_MINUS}, F_INF | F_MINUS, 0},
        {"rcp.rn.f32", "rr", {F(3.0f)}, 0x3eaaaaab, 0},
        {"rcp.rn.ftz.f32", "rr", {F(0x1p127f)}, 0, 0},
        {"rcp.rn.f32", "rr", {F(0x1p127f)}, F(0x1p-127f), 0},
        {"sqrt.rn.f32", "rr", {F(2.0f)}, 0x3fb504f3, 0},
        {"sqrt.rn.f32", "rr", {F(-0.0f)}, F_MINUS, 0},
        {"sqrt.rn.f32", "rr", {F(-1.0f)}, F_NAN, 0},
        {"sqrt.rn.ftz.f32", "rr", {tiny}, 0, 0},
        {"abs.f32", "rr", {F(-2.0f)}, F(2.0f), 0},
        {"abs.ftz.f32", "rr", {tiny | F_MINUS}, 0, 0},
        {"abs.f64", "ll", {D(-2.0)}, D(2.0), 0},
        {"neg.f32", "rr", {F(2.0f)}, F(-2.0f), 0},
        {"neg.ftz.f32", "rr", {tiny}, F_MINUS, 0},
        {"neg.f64", "ll", {D(0.0)}, D_MINUS, 0},
        {"min.f32", "rrr", {F(1.0f), F(2.0f)}, F(1.0f), 0},
        {"min.f32", "rrr", {F(0.0f), F(-0.0f)}, F_MINUS, 0},
        {"min.f32", "rrr", {F(-0.0f), F(0.0f)}, F_MINUS, 0},
        {"min.f32", "rrr", {F_NAN, F(2.0f)}, F(2.0f), 0},
        {"min.f32", "rrr", {F(2.0f), F_NAN}, F(2.0f), 0},
        {"min.f32", "rrr", {0xffc00000, 0x7f800001}, F_NAN, 0},
        {"min.NaN.f32", "rrr", {F(2.0f), 0xffc00000}, F_NAN, 0},
        {"min.ftz.f32", "rrr", {tiny, F(2.0f)}, 0, 0},
        {"min.ftz.NaN.xorsign.abs.f32", "rrr", {F(-1.0f), F(2.0f)}, F(-1.0f), 0},
        {"min.xorsign.abs.f32", "rrr", {F(-1.0f), F(-2.0f)}, F(1.0f), 0},
        {"min.NaN.xorsign.abs.f32", "rrr", {F(-1.0f), F_NAN}, F_NAN, 0},
        {"min.f64", "lll", {D(-0.0), D(0.0)}, D_MINUS, 0},
        {"min.f64", "lll", {0x7ff8000000000000, D(1.0)}, D(1.0), 0},
        {"max.f32", "rrr", {F(1.0f), F(2.0f)}, F(2.0f), 0},
        {"max.f32", "rrr", {F(-0.0f), F(0.0f)}, 0, 0},
        {"max.f32", "rrr", {F(0.0f), F(-0.0f)}, 0, 0},
        {"max.f32", "rrr", {F_NAN, F_INF | F_MINUS}, F_INF | F_MINUS, 0},
        {"max.NaN.f32", "rrr", {F_NAN, F(2.0f)}, F_NAN, 0},
        {"max.ftz.f32", "rrr", {tiny, tiny | F_MINUS}, 0, 0},
        {"max.ftz.NaN.xorsign.abs.f32", "rrr", {F(-1.0f), F(2.0f)}, F(-2.0f), 0},
        {"max.f64", "lll", {D(-0.0), D(0.0)}, 0, 0},
        {"max.f64", "lll", {D(1.0), 0x7ff8000000000000}, D(1.0), 0},
        {"copysign.f32", "rrr", {F(-1.0f), F(2.0f)}, F(-2.0f), 0},
        {"copysign.f64", "lll", {D(1.0), D(-2.0)}, D(2.0), 0},
        {"testp.finite.f32", "pr", {F(1.0f)}, 1, 0},
        {"testp.finite.f32", "pr", {F_INF}, 0, 0},
        {"testp.infinite.f32", "pr", {F_INF | F_MINUS}, 1, 0},
        {"testp.number.f32", "pr", {F_INF}, 1, 0},
        {"testp.number.f64", "pl", {0x7ff8000000000000}, 0, 0},
        {"testp.notanumber.f64", "pl", {0x7ff8000000000000}, 1, 0},
        {"testp.normal.f32", "pr", {0}, 1, 0},
        {"testp.normal.f32", "pr", {tiny}, 0, 0},
        {"testp.normal.f32", "pr", {F_INF}, 0, 0},
        {"testp.subnormal.f64", "pl", {1}, 1, 0},
        {"testp.subnormal.f32", "pr", {0}, 0, 0},
    };
    ALU_CHECK_TABLE(checks);
}

/* Directed roundings in f32 against the host's in the same mode. */
static float on_host(const char *opcode, float a_in, float b_in, float c_in, int mode)
{
    volatile float a = a_in, b = b_in, c = c_in, result;
    fesetround(mode);
    switch (opcode[0]) {
    case 'a':
        result = a + b;
        break;
    case 's':
        result = opcode[1] == 'u' ? a - b : sqrtf(a);
        break;
    case 'm':
        result = a * b;
        break;
    case 'd':
        result = a / b;
        break;
    case 'r':
        result = 1.0f / a;
        break;
    default:
        result = fmaf(a, b, c);
        break;
    }
    fesetround(FE_TONEAREST);
    return result;
}

static const uint64_t special_floats[] = {0,          F_MINUS,    1,          0x80000001, 0x007fffff, 0x00800000,
                                          0x3f800000, 0xbf800000, 0x3f800001, 0x3f7fffff, 0x7f7fffff, 0xff7fffff,
                                          F_INF,      0xff800000, F_NAN,      0x34000000, 0x33800000, 0x4b800000};
enum { SPECIAL_COUNT = sizeof special_floats / sizeof *special_floats };

/* A mix of special values and random ones, of near exponents as often as of any. */
static uint64_t random_float(uint64_t *random)
{
    const uint64_t bits = next_random(random);
    switch (bits >> 60) {
    case 0:
    case 1:
    case 2:
        return special_floats[(bits & 0xffff) % SPECIAL_COUNT];
    case 3:
    case 4:
        return bits & 0x80ffffff; /* around the subnormals */
    case 5:
    case 6:
    case 7:
    case 8:
        return 0x3f800000 ^ (bits & 0x81ffffff);
    default:
        return bits & 0xffffffff;
    }
}

void test_float_rounding(void **state)
{
    (void)state;
    static const char *const opcodes[] = {"add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt"};
    static const struct {
        const char *name;
        int mode;
    } modes[] = {{"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};
    uint64_t random = 0x9e3779b97f4a7c15;
    for (size_t o = 0; o < sizeof opcodes / sizeof *opcodes; o++) {
        for (size_t m = 0; m < 4; m++) {
            char opcode[32];
            const bool unary = opcodes[o][0] == 'r' || !strcmp(opcodes[o], "sqrt");
            const bool ternary = opcodes[o][0] == 'f' || !strcmp(opcodes[o], "mad");
            struct alu_test test;
            snprintf(opcode, sizeof opcode, "%s.%s.f32", opcodes[o], modes[m].name);
            alu_load(&test, opcode, unary ? "rr" : ternary ? "rrrr" : "rrr", NULL);
            for (int round = 0; round < 400; round++) {
                uint64_t sources[3][EMU_LANES];
                for (int lane = 0; lane < EMU_LANES; lane++) {
                    for (int s = 0; s < 3; s++) {
                        sources[s][lane] = random_float(&random);
                        if (s < (unary ? 1 : ternary ? 3 : 2)) {
                            alu_set(&test, s + 1, lane, sources[s][lane]);
                        }
                    }
                }
                alu_run(&test, EMU_ALL_LANES);
                for (int lane = 0; lane < EMU_LANES; lane++) {
                    const float a = to_float(sources[0][lane]), b = to_float(sources[1][lane]),
                                c = to_float(sources[2][lane]);
                    const float host = on_host(ternary ? "f" : opcodes[o], a, b, c, modes[m].mode);
                    const uint64_t expected = isnan(host) ? F_NAN : F(host);
                    if (alu_get(&test, lane, 0) != expected) {
                        fail_msg("%s(%a, %a, %a) = %a, not %a", opcode, (double)a, (double)b, (double)c,
                                 (double)to_float(alu_get(&test, lane, 0)), (double)host);
                    }
                }
            }
            assert_int_equal(fegetround(), FE_TONEAREST);
            alu_free(&test);
        }
    }
}

/* The fused product against libm's, where double rounding would show: products near halfway between two floats. */
void test_fma_against_libm(void **state)
{
    (void)state;
    uint64_t random = 12345;
    struct alu_test test;
    alu_load(&test, "fma.rn.f32", "rrrr", NULL);
    for (int round = 0; round < 20000; round++) {
        float a[EMU_LANES], b[EMU_LANES], c[EMU_LANES];
        for (int lane = 0; lane < EMU_LANES; lane++) {
            a[lane] = to_float(0x3f800000 | (next_random(&random) & 0x80fff800));
            b[lane] = to_float(0x3f800000 | (next_random(&random) & 0x80fff000));
            c[lane] = ldexpf(to_float(0x3f800000 | (next_random(&random) & 0x807fffff)), (int)(random >> 57) - 64);
            alu_set(&test, 1, lane, F(a[lane]));
            alu_set(&test, 2, lane, F(b[lane]));
            alu_set(&test, 3, lane, F(c[lane]));
        }
        alu_run(&test, EMU_ALL_LANES);
        for (int lane = 0; lane < EMU_LANES; lane++) {
            assert_int_equal(alu_get(&test, lane, 0), F(fmaf(a[lane], b[lane], c[lane])));
        }
    }
    alu_free(&test);
}

void test_doubles(void **state)
{
    (void)state;
    const double third = 1.0 / 3; /* rounded down */
    const uint64_t third_up = D(third) + 1;
    const uint64_t gross_nan = 0x7fffffff00000000;
    const struct alu_check checks[] = {
        {"add.f64", "lll", {D(1.5), D(2.25)}, D(3.75), 0},
        {"add.rn.f64", "lll", {D(1.0), D(0x1p-53)}, D(1.0), 0},
        {"add.rz.f64", "lll", {D(-1.0), D(-0x1p-60)}, D(-1.0), 0},
        {"add.rm.f64", "lll", {D(-1.0), D(-0x1p-60)}, D(-1.0) + 1, 0},
        {"add.rp.f64", "lll", {D(1.0), D(0x1p-60)}, D(1.0) + 1, 0},
        {"sub.f64", "lll", {D(1.0), D(3.0)}, D(-2.0), 0},
        {"sub.rn.f64", "lll", {D(1.0), D(0x1p-55)}, D(1.0), 0},
        {"sub.rz.f64", "lll", {D(1.0), D(0x1p-60)}, D(1.0) - 1, 0},
        {"sub.rm.f64", "lll", {D(1.0), D(1.0)}, D_MINUS, 0},
        {"sub.rp.f64", "lll", {D(1.0), D(1.0)}, 0, 0},
        {"mul.f64", "lll", {D(1.5), D(1.5)}, D(2.25), 0},
        {"mul.rn.f64", "lll", {D(third), D(3.0)}, D(1.0), 0},
        {"mul.rz.f64", "lll", {D(third), D(3.0)}, D(1.0) - 1, 0},
        {"mul.rm.f64", "lll", {D(third), D(3.0)}, D(1.0) - 1, 0},
        {"mul.rp.f64", "lll", {D(third), D(3.0)}, D(1.0), 0},
        {"fma.rn.f64", "llll", {D(third), D(3.0), D(-1.0)}, D(-0x1p-54), 0},
        {"fma.rz.f64", "llll", {D(1.0), D(1.0), D(0x1p-60)}, D(1.0), 0},
        {"fma.rm.f64", "llll", {D(1.0), D(-1.0), D(-0x1p-60)}, D(-1.0) + 1, 0},
        {"fma.rp.f64", "llll", {D(1.0), D(1.0), D(0x1p-60)}, D(1.0) + 1, 0},
        {"mad.rn.f64", "llll", {D(2.0), D(3.0), D(4.0)}, D(10.0), 0},
        {"mad.rz.f64", "llll", {D(1.0), D(1.0), D(0x1p-60)}, D(1.0), 0},
        {"mad.rm.f64", "llll", {D(1.0), D(-1.0), D(-0x1p-60)}, D(-1.0) + 1, 0},
        {"mad.rp.f64", "llll", {D(1.0), D(1.0), D(0x1p-60)}, D(1.0) + 1, 0},
        {"div.rn.f64", "lll", {D(1.0), D(3.0)}, D(third), 0},
        {"div.rz.f64", "lll", {D(1.0), D(3.0)}, D(third), 0},
        {"div.rm.f64", "lll", {D(1.0), D(-3.0)}, third_up | D_MINUS, 0},
        {"div.rp.f64", "lll", {D(1.0), D(3.0)}, third_up, 0},
        {"rcp.rn.f64", "ll", {D(3.0)}, D(third), 0},
        {"rcp.rz.f64", "ll", {D(3.0)}, D(third), 0},
        {"rcp.rm.f64", "ll", {D(-3.0)}, third_up | D_MINUS, 0},
        {"rcp.rp.f64", "ll", {D(3.0)}, third_up, 0},
        {"sqrt.rn.f64", "ll", {D(2.0)}, 0x3ff6a09e667f3bcd, 0},
        {"sqrt.rz.f64", "ll", {D(2.0)}, 0x3ff6a09e667f3bcc, 0},
        {"sqrt.rm.f64", "ll", {D(2.0)}, 0x3ff6a09e667f3bcc, 0},
        {"sqrt.rp.f64", "ll", {D(2.0)}, 0x3ff6a09e667f3bcd, 0},
        {"rcp.approx.ftz.f64", "ll", {D(4.0)}, D(0.25), 0},
        {"rcp.approx.ftz.f64", "ll", {D(4.0) + 1}, D(0.25), 0},
        {"rcp.approx.ftz.f64", "ll", {1 | D_MINUS}, 0xfff0000000000000, 0},
        {"rcp.approx.ftz.f64", "ll", {0x7ff8000000000001}, gross_nan, 0},
        {"rcp.approx.ftz.f64", "ll", {D(3.0)}, D(third) & 0xffffffff00000000, 0},
        {"rsqrt.approx.ftz.f64", "ll", {D(4.0)}, D(0.5), 0},
        {"rsqrt.approx.ftz.f64", "ll", {D(-4.0)}, gross_nan, 0},
        {"rsqrt.approx.f64", "ll", {D(4.0)}, D(0.5), 0},
    };
    ALU_CHECK_TABLE(checks);
    assert_int_equal(fegetround(), FE_TONEAREST);
}

static uint64_t two(float high, float low)
{
    return F(high) << 32 | F(low);
}

void test_pairs_of_floats(void **state)
{
    (void)state;
    const struct alu_check checks[] = {
        {"add.rn.f32x2", "lll", {two(1, 2), two(3, 4)}, two(4, 6), 0},
        {"add.rz.f32x2", "lll", {two(1, -1), two(0x1p-30f, -0x1p-30f)}, two(1, -1), 0},
        {"add.rm.f32x2", "lll", {two(1, -1), two(0x1p-30f, -0x1p-30f)}, two(1, nextafterf(-1, -2)), 0},
        {"add.rp.ftz.f32x2", "lll", {two(1, -1), two(0x1p-30f, -0x1p-30f)}, two(nextafterf(1, 2), -1), 0},
        {"add.ftz.f32x2", "lll", {two(1, 0x1p-140f), two(3, 0)}, two(4, 0), 0},
        {"sub.f32x2", "lll", {two(1, 2), two(3, 4)}, two(-2, -2), 0},
        {"sub.rn.ftz.f32x2", "lll", {two(1, 2), two(3, 4)}, two(-2, -2), 0},
        {"sub.rz.f32x2", "lll", {two(1, 2), two(3, 4)}, two(-2, -2), 0},
        {"sub.rm.f32x2", "lll", {two(1, 2), two(1, 4)}, two(-0.0f, -2), 0},
        {"sub.rp.f32x2", "lll", {two(1, 2), two(1, 4)}, two(0, -2), 0},
        {"mul.f32x2", "lll", {two(1, 2), two(3, 4)}, two(3, 8), 0},
        {"mul.rn.ftz.f32x2", "lll", {two(1, 0x1p-70f), two(3, 0x1p-70f)}, two(3, 0), 0},
        {"mul.rz.f32x2", "lll", {two(FLT_MAX, 2), two(3, 4)}, two(FLT_MAX, 8), 0},
        {"mul.rm.f32x2", "lll", {two(-FLT_MAX, 2), two(3, 4)}, two(-INFINITY, 8), 0},
        {"mul.rp.f32x2", "lll", {two(-FLT_MAX, 2), two(3, 4)}, two(-FLT_MAX, 8), 0},
        {"fma.rn.f32x2", "llll", {two(1, 2), two(3, 4), two(5, 6)}, two(8, 14), 0},
        {"fma.rz.ftz.f32x2", "llll", {two(1, 2), two(1, 4), two(0x1p-30f, 6)}, two(1, 14), 0},
        {"fma.rm.f32x2", "llll", {two(1, 2), two(1, 4), two(0x1p-30f, 6)}, two(1, 14), 0},
        {"fma.rp.f32x2", "llll", {two(1, 2), two(1, 4), two(0x1p-30f, 6)}, two(nextafterf(1, 2), 14), 0},
    };
    ALU_CHECK_TABLE(checks);
}

void test_approximations(void **state)
{
    (void)state;
    const uint64_t tiny = 1, minus = F_MINUS, inf = F_INF, minus_inf = F_INF | F_MINUS;
    const struct alu_check checks[] = {
        {"rcp.approx.f32", "rr", {F(4.0f)}, F(0.25f), 0},
        {"rcp.approx.f32", "rr", {minus_inf}, minus, 0},
        {"rcp.approx.f32", "rr", {minus}, minus_inf, 0},
        {"rcp.approx.f32", "rr", {0}, inf, 0},
        {"rcp.approx.ftz.f32", "rr", {tiny | minus}, minus_inf, 0},
        {"rcp.approx.ftz.f32", "rr", {F(0x1p127f)}, 0, 0},
        {"sqrt.approx.f32", "rr", {F(9.0f)}, F(3.0f), 0},
        {"sqrt.approx.f32", "rr", {minus_inf}, F_NAN, 0},
        {"sqrt.approx.ftz.f32", "rr", {tiny | minus}, minus, 0},
        {"rsqrt.approx.f32", "rr", {F(0.25f)}, F(2.0f), 0},
        {"rsqrt.approx.f32", "rr", {minus}, minus_inf, 0},
        {"rsqrt.approx.f32", "rr", {F(-1.0f)}, F_NAN, 0},
        {"rsqrt.approx.ftz.f32", "rr", {tiny}, inf, 0},
        {"ex2.approx.f32", "rr", {F(10.0f)}, F(1024.0f), 0},
        {"ex2.approx.f32", "rr", {minus_inf}, 0, 0},
        {"ex2.approx.f32", "rr", {F(-140.0f)}, F(0x1p-140f), 0},
        {"ex2.approx.f32", "rr", {F(200.0f)}, inf, 0},
        {"ex2.approx.ftz.f32", "rr", {F(-140.0f)}, 0, 0},
        {"ex2.approx.ftz.f32", "rr", {tiny}, F(1.0f), 0},
        {"lg2.approx.f32", "rr", {F(1024.0f)}, F(10.0f), 0},
        {"lg2.approx.f32", "rr", {minus}, minus_inf, 0},
        {"lg2.approx.f32", "rr", {F(-1.0f)}, F_NAN, 0},
        {"lg2.approx.f32", "rr", {tiny}, F(-149.0f), 0},
        {"lg2.approx.ftz.f32", "rr", {tiny}, minus_inf, 0},
        {"sin.approx.f32", "rr", {minus}, minus, 0},
        {"sin.approx.f32", "rr", {inf}, F_NAN, 0},
        {"sin.approx.ftz.f32", "rr", {tiny}, 0, 0},
        {"cos.approx.f32", "rr", {0}, F(1.0f), 0},
        {"cos.approx.ftz.f32", "rr", {minus_inf}, F_NAN, 0},
        {"tanh.approx.f32", "rr", {inf}, F(1.0f), 0},
        {"tanh.approx.f32", "rr", {minus}, minus, 0},
        {"div.approx.f32", "rrr", {F(6.0f), F(3.0f)}, F(2.0f), 0},
        {"div.approx.f32", "rrr", {F(6.0f), F(0x1p127f)}, 0, 0},
        {"div.approx.f32", "rrr", {F(-6.0f), F(0x1p127f)}, minus, 0},
        {"div.approx.f32", "rrr", {inf, F(0x1p127f)}, F_NAN, 0},
        {"div.approx.ftz.f32", "rrr", {F(6.0f), tiny}, inf, 0},
        {"div.full.f32", "rrr", {F(6.0f), F(0x1p127f)}, F(0x1.8p-125f), 0},
        {"div.full.ftz.f32", "rrr", {F(6.0f), tiny}, inf, 0},
    };
    ALU_CHECK_TABLE(checks);
}

/* In the mode that errs, results stay within the ISA's bounds, and do err. */
void test_approximations_err(void **state)
{
    (void)state;
    static const struct {
        const char *opcode;
        double low, high; /* sources */
        double relative, absolute, ulps;
        double (*exact)(double);
    } checks[] = {
        {"sqrt.approx.f32", 1e-30, 1e30, 0x1p-23, 0, 0, sqrt},   {"ex2.approx.ftz.f32", -120, 120, 0, 0, 2.5, exp2},
        {"lg2.approx.f32", 0.51, 1.99, 0, 0x1p-22, 0, log2},     {"lg2.approx.f32", 2.01, 1e30, 0x1p-22, 0, 0, log2},
        {"sin.approx.f32", -6.28, 6.28, 0, 0x1.6a1p-21, 0, sin}, {"cos.approx.f32", -314, 314, 0, 0x1.3b3p-15, 0, cos},
        {"tanh.approx.f32", -5, 5, 0x1p-11, 0, 0, tanh},         {"tanh.approx.f16", -5, 5, 0, 0x1.025p-11, 0, tanh},
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        struct alu_test test;
        int erred = 0;
        const bool half = strstr(checks[i].opcode, "f16") != NULL;
        alu_load(&test, checks[i].opcode, half ? "hh" : "rr", NULL);
        test.options.perturb_approx = true;
        for (int round = 0; round < 200; round++) {
            float x[EMU_LANES];
            for (int lane = 0; lane < EMU_LANES; lane++) {
                const double at = (round * EMU_LANES + lane) / (200.0 * EMU_LANES);
                x[lane] = (float)(checks[i].low + at * (checks[i].high - checks[i].low));
                if (half) {
                    x[lane] = (float)((round + 1) * EMU_LANES + lane) * 0x1p-11f; /* exact in f16 below 1 only */
                    x[lane] = x[lane] < 1 ? x[lane] : 0.5f;
                }
                const int exponent = half ? ilogbf(x[lane]) : 0;
                alu_set(&test, 1, lane,
                        half ? (uint64_t)((exponent + 15) << 10 | ((int)ldexpf(x[lane], 10 - exponent) & 0x3ff))
                             : F(x[lane]));
            }
            alu_run(&test, EMU_ALL_LANES);
            for (int lane = 0; lane < EMU_LANES; lane++) {
                const uint64_t bits = alu_get(&test, lane, 0);
                const double got =
                    half ? ldexp(0x400 + (int)(bits & 0x3ff), (int)(bits >> 10 & 31) - 25) : (double)to_float(bits);
                const double exact = checks[i].exact((double)x[lane]);
                const double ulp = exact == 0 ? 0 : ldexp(1.0, ilogb(exact) - 23);
                const double bound =
                    checks[i].relative * fabs(exact) + checks[i].absolute + checks[i].ulps * ulp + 1e-300;
                if (fabs(got - exact) > bound) {
                    fail_msg("%s(%a) = %a, exactly %a: off by %g, not %g", checks[i].opcode, (double)x[lane], got,
                             exact, fabs(got - exact), bound);
                }
                erred += !half && got != (double)(float)exact;
            }
        }
        assert_true(half || erred > 1000);
        alu_free(&test);
    }
}

void test_mixed(void **state)
{
    (void)state;
    const struct alu_check checks[] = {
        {"add.f32.f16", "rhr", {0x3e00, F(1.0f)}, F(2.5f), 0},
        {"add.rn.f32.bf16", "rhr", {0x3fc0, F(1.0f)}, F(2.5f), 0},
        {"add.rz.sat.f32.f16", "rhr", {0x3e00, F(1.0f)}, F(1.0f), 0},
        {"add.rm.f32.f16", "rhr", {0xbc00, F(-0x1p-40f)}, F(-1.0f) + 1, 0},
        {"add.rp.f32.f16", "rhr", {0x3c00, F(0x1p-40f)}, F(1.0f) + 1, 0},
        {"sub.f32.bf16", "rhr", {0x3fc0, F(1.0f)}, F(0.5f), 0},
        {"sub.rn.f32.f16", "rhr", {0x3e00, F(1.0f)}, F(0.5f), 0},
        {"sub.rz.f32.f16", "rhr", {0x3c00, F(0x1p-40f)}, F(1.0f) - 1, 0},
        {"sub.rm.sat.f32.f16", "rhr", {0x3c00, F(2.0f)}, 0, 0},
        {"sub.rp.f32.f16", "rhr", {0x3c00, F(0x1p-40f)}, F(1.0f), 0},
        {"fma.rn.f32.f16", "rhhr", {0x4000, 0x4200, F(4.0f)}, F(10.0f), 0},
        {"fma.rz.sat.f32.bf16", "rhhr", {0x4000, 0x4040, F(4.0f)}, F(1.0f), 0},
        {"fma.rm.f32.bf16", "rhhr", {0x3f80, 0x3f80, F(-0x1p-40f)}, F(1.0f) - 1, 0},
        {"fma.rp.f32.bf16", "rhhr", {0x3f80, 0x3f80, F(0x1p-40f)}, F(1.0f) + 1, 0},
    };
    ALU_CHECK_TABLE(checks);
}
