/* cvt and cvt.pack: chosen values by hand, and all inputs of the 16-bit and 8-bit formats against their definition. */
#include "test_alu.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "test_alu_formats.h"

void test_conversions(void **state)
{
    (void)state;
    const uint64_t tiny = 1, minus1 = 0xffffffff;
    const struct alu_check checks[] = {
        /* Integers: cut, then extended to the register by the destination's sign (9.4.1). */
        {"cvt.u8.u32", "hr", {0x1ff}, 0xff, 0},
        {"cvt.s8.s32", "rr", {0x180}, 0xffffff80, 0},
        {"cvt.s8.s32", "hr", {0x180}, 0xff80, 0},
        {"cvt.u16.u32", "hr", {0x12345}, 0x2345, 0},
        {"cvt.s16.u32", "rr", {0x18000}, 0xffff8000, 0},
        {"cvt.u32.u8", "rh", {0x1ff}, 0xff, 0},
        {"cvt.s32.s8", "rh", {0x80}, 0xffffff80, 0},
        {"cvt.u32.u16", "rh", {0xffff}, 0xffff, 0},
        {"cvt.s32.s16", "rh", {0xffff}, minus1, 0},
        {"cvt.u32.u64", "rl", {0x1234567890}, 0x34567890, 0},
        {"cvt.s32.s64", "rl", {~0ull}, minus1, 0},
        {"cvt.s64.s32", "lr", {minus1}, ~0ull, 0},
        {"cvt.u64.s32", "lr", {minus1}, ~0ull, 0},
        {"cvt.u64.u32", "lr", {minus1}, 0xffffffff, 0},
        {"cvt.s64.u32", "lr", {minus1}, 0xffffffff, 0},
        {"cvt.u64.u16", "lh", {0xffff}, 0xffff, 0},
        {"cvt.s64.s16", "lh", {0xffff}, ~0ull, 0},
        {"cvt.u16.u32", "rl", {0x1fffff}, 0xffff, 0},
        {"cvt.sat.u8.s32", "rr", {minus1}, 0, 0},
        {"cvt.sat.u8.s32", "rr", {300}, 255, 0},
        {"cvt.sat.s8.s32", "rr", {0xffffff00}, 0xffffff80, 0},
        {"cvt.sat.s8.u32", "rr", {200}, 127, 0},
        {"cvt.sat.u32.s32", "rr", {minus1}, 0, 0},
        {"cvt.sat.s32.u32", "rr", {minus1}, 0x7fffffff, 0},
        {"cvt.sat.s32.s64", "rl", {1ull << 40}, 0x7fffffff, 0},
        {"cvt.sat.s64.u64", "ll", {~0ull}, 0x7fffffffffffffff, 0},
        {"cvt.sat.u64.s64", "ll", {~0ull}, 0, 0},
        {"cvt.sat.u16.s64", "rl", {1ull << 40}, 0xffff, 0},
        /* Float to integer. */
        {"cvt.rzi.s32.f32", "rr", {F(-1.75f)}, minus1, 0},
        {"cvt.rni.s32.f32", "rr", {F(2.5f)}, 2, 0},
        {"cvt.rni.s32.f32", "rr", {F(3.5f)}, 4, 0},
        {"cvt.rni.s32.f32", "rr", {F(-0.5f)}, 0, 0},
        {"cvt.rmi.s32.f32", "rr", {F(-0.25f)}, minus1, 0},
        {"cvt.rpi.s32.f32", "rr", {F(0.25f)}, 1, 0},
        {"cvt.rmi.ftz.s32.f32", "rr", {tiny | F_MINUS}, 0, 0},
        {"cvt.rmi.s32.f32", "rr", {tiny | F_MINUS}, minus1, 0},
        {"cvt.rzi.s32.f32", "rr", {F(3e9f)}, 0x7fffffff, 0},
        {"cvt.rzi.s32.f32", "rr", {F_INF | F_MINUS}, 0x80000000, 0},
        {"cvt.rzi.s32.f32", "rr", {F_NAN}, 0, 0},
        {"cvt.rzi.u32.f32", "rr", {F(-5.0f)}, 0, 0},
        {"cvt.rzi.u32.f32", "rr", {F(4e9f)}, 4000000000, 0},
        {"cvt.rzi.u32.f32", "rr", {F(5e9f)}, minus1, 0},
        {"cvt.rzi.s64.f32", "lr", {F_NAN}, 1ull << 63, 0},
        {"cvt.rzi.u64.f32", "lr", {F(0x1p63f)}, 1ull << 63, 0},
        {"cvt.rzi.u64.f32", "lr", {F(0x1p64f)}, ~0ull, 0},
        {"cvt.rzi.s64.f64", "ll", {D(-1e300)}, 1ull << 63, 0},
        {"cvt.rni.s32.f64", "rl", {0x7ff8000000000000}, 0x80000000, 0},
        {"cvt.rni.s32.f64", "rl", {D(1e-300)}, 0, 0},
        {"cvt.rpi.s32.f64", "rl", {D(1e-300)}, 1, 0},
        {"cvt.rzi.s8.f32", "rr", {F(-200.0f)}, 0xffffff80, 0},
        {"cvt.rzi.u8.f32", "rr", {F(300.5f)}, 255, 0},
        {"cvt.rzi.sat.u16.f32", "rr", {F(-2.0f)}, 0, 0},
        {"cvt.rni.s16.f16", "hh", {0x4100}, 2, 0},
        {"cvt.rzi.s32.bf16", "rh", {0xc020}, 0xfffffffe, 0},
        /* Integer to float. */
        {"cvt.rn.f32.s32", "rr", {minus1}, F(-1.0f), 0},
        {"cvt.rn.f32.s32", "rr", {16777217}, F(16777216.0f), 0},
        {"cvt.rz.f32.s32", "rr", {0x7fffffff}, F(2147483520.0f), 0},
        {"cvt.rp.f32.s32", "rr", {16777217}, F(16777218.0f), 0},
        {"cvt.rm.f32.s32", "rr", {(uint32_t)-16777217}, F(-16777218.0f), 0},
        {"cvt.rn.f32.u32", "rr", {minus1}, F(4294967296.0f), 0},
        {"cvt.rn.f32.u64", "rl", {~0ull}, F(0x1p64f), 0},
        {"cvt.rz.f32.u64", "rl", {~0ull}, F(0x1.fffffep63f), 0},
        {"cvt.rn.f32.s64", "rl", {~0ull}, F(-1.0f), 0},
        {"cvt.rn.f32.u8", "rh", {0x1ff}, F(255.0f), 0},
        {"cvt.rn.f32.s8", "rh", {0x1ff}, F(-1.0f), 0},
        {"cvt.rn.f32.u16", "rh", {0xffff}, F(65535.0f), 0},
        {"cvt.rn.f32.s16", "rh", {0xffff}, F(-1.0f), 0},
        {"cvt.rn.f64.s32", "lr", {minus1}, D(-1.0), 0},
        {"cvt.rn.f64.u32", "lr", {minus1}, D(4294967295.0), 0},
        {"cvt.rn.f64.s64", "ll", {1ull << 63}, D(-0x1p63), 0},
        {"cvt.rn.f64.u64", "ll", {~0ull}, D(0x1p64), 0},
        {"cvt.rn.f16.s32", "hr", {65520}, 0x7c00, 0},
        {"cvt.rz.f16.s32", "hr", {65520}, 0x7bff, 0},
        {"cvt.rn.bf16.u32", "hr", {257}, 0x4380, 0},
        {"cvt.rn.f16.s64", "hl", {(uint64_t)-3}, 0xc200, 0},
        /* Between floats. */
        {"cvt.f64.f32", "lr", {F(1.5f)}, D(1.5), 0},
        {"cvt.ftz.f64.f32", "lr", {tiny | F_MINUS}, D_MINUS, 0},
        {"cvt.rn.f32.f64", "rl", {D(1.0 + 0x1p-24)}, F(1.0f), 0},
        {"cvt.rz.f32.f64", "rl", {D(1e300)}, 0x7f7fffff, 0},
        {"cvt.rp.f32.f64", "rl", {D(1e-300)}, tiny, 0},
        {"cvt.rm.f32.f64", "rl", {D(-1e-300)}, tiny | F_MINUS, 0},
        {"cvt.rn.ftz.f32.f64", "rl", {D(0x1p-140)}, 0, 0},
        {"cvt.rn.sat.f32.f64", "rl", {D(7.0)}, F(1.0f), 0},
        {"cvt.rni.f32.f32", "rr", {F(-0.5f)}, F_MINUS, 0},
        {"cvt.rni.f32.f32", "rr", {F(2.5f)}, F(2.0f), 0},
        {"cvt.rmi.f32.f32", "rr", {F(-0.25f)}, F(-1.0f), 0},
        {"cvt.rpi.f32.f32", "rr", {F(0x1.8p30f)}, F(0x1.8p30f), 0},
        {"cvt.rzi.f64.f64", "ll", {D(-7.9)}, D(-7.0), 0},
        {"cvt.rpi.ftz.f32.f32", "rr", {tiny}, 0, 0},
        {"cvt.sat.f32.f32", "rr", {F_NAN}, 0, 0},
        {"cvt.sat.f32.f32", "rr", {F(-3.0f)}, 0, 0},
        {"cvt.sat.f32.f32", "rr", {F(0.5f)}, F(0.5f), 0},
        {"cvt.ftz.sat.f32.f32", "rr", {tiny}, 0, 0},
        {"cvt.f32.f16", "rh", {0x0001}, F(0x1p-24f), 0},
        {"cvt.f64.f16", "lh", {0xc000}, D(-2.0), 0},
        {"cvt.f32.f16", "rh", {0xfc01}, 0x7fffffff, 0}, /* H200: one NaN */
        {"cvt.f32.bf16", "rh", {0x3fc0}, F(1.5f), 0},
        {"cvt.f32.bf16", "rh", {0xff81}, 0xff810000, 0}, /* H200: as it is */
        {"cvt.f64.bf16", "lh", {0x3fc0}, D(1.5), 0},
        {"cvt.rn.bf16.f64", "hl", {D(1.0 + 0x1p-8)}, 0x3f80, 0},
        {"cvt.rn.f16.f64", "hl", {D(1.0 + 0x1p-11 + 0x1p-50)}, 0x3c01, 0},
        {"cvt.rz.bf16.f16", "hh", {0x3fff}, 0x3fff, 0},
        {"cvt.rn.f16.bf16", "hh", {0x4780}, 0x7c00, 0},
        {"cvt.rni.f16.f16", "hh", {0x3e00}, 0x4000, 0},
        {"cvt.rn.relu.f16.f32", "hr", {F(-1.0f)}, 0, 0},
        {"cvt.rz.relu.satfinite.bf16.f32", "hr", {F_INF}, 0x7f7f, 0},
        {"cvt.rn.relu.bf16.f32", "hr", {F_NAN | F_MINUS}, 0x7fff, 0},
        {"cvt.rn.satfinite.f16.f32", "hr", {F(-1e6f)}, 0xfbff, 0},
        {"cvt.rz.satfinite.bf16.f32", "hr", {F(1.0f)}, 0x3f80, 0},
        {"cvt.rna.tf32.f32", "rr", {F(1.0f + 0x1p-11f)}, F(1.0f + 0x1p-10f), 0},
        {"cvt.rna.tf32.f32", "rr", {F(-1.0f - 0x1p-12f)}, F(-1.0f), 0},
        {"cvt.rna.tf32.f32", "rr", {0x7f7fffff}, F_INF, 0},
        {"cvt.rna.satfinite.tf32.f32", "rr", {0x7f7fffff}, 0x7f7fe000, 0},
        {"cvt.rn.tf32.f32", "rr", {F(1.0f + 0x1p-11f)}, F(1.0f), 0},
        {"cvt.rz.relu.tf32.f32", "rr", {F(-2.0f)}, 0, 0},
        {"cvt.rz.satfinite.relu.tf32.f32", "rr", {F_INF}, 0x7f7fe000, 0},
        {"cvt.rn.f16x2.f32", "rrr", {F(1.0f), F(-2.0f)}, 0x3c00c000, 0},
        {"cvt.rz.f16x2.f32", "rrr", {F(1e6f), F(-2.0f)}, 0x7bffc000, 0},
        {"cvt.rn.relu.satfinite.f16x2.f32", "rrr", {F(1e6f), F(-2.0f)}, 0x7bff0000, 0},
        {"cvt.rn.bf16x2.f32", "rrr", {F(1.0f), F(-2.0f)}, 0x3f80c000, 0},
        {"cvt.rn.bf16x2.f32", "rrr", {0x3f808000, 0x3f818000}, 0x3f803f82, 0},
        {"cvt.rn.bf16x2.f32", "rrr", {0x7f7fffff, 0xff800001}, 0x7f807fff, 0},
        {"cvt.rn.satfinite.bf16x2.f32", "rrr", {0x7f7fffff, 0xff800000}, 0x7f7fff7f, 0},
        {"cvt.rz.relu.bf16x2.f32", "rrr", {0x7f7fffff, F(-1.0f)}, 0x7f7f0000, 0},
        {"cvt.rn.satfinite.e4m3x2.f32", "hrr", {F(1.0f), F(-500.0f)}, 0x38fe, 0},
        {"cvt.rn.satfinite.e4m3x2.f32", "hrr", {F_NAN, F(0x1p-10f)}, 0x7f00, 0},
        {"cvt.rn.satfinite.relu.e4m3x2.f32", "hrr", {F(1.0f), F(-500.0f)}, 0x3800, 0},
        {"cvt.rn.satfinite.e5m2x2.f32", "hrr", {F(1.0f), F(-1e9f)}, 0x3cfb, 0},
        {"cvt.rn.satfinite.relu.e5m2x2.f32", "hrr", {F(-1.0f), F_INF}, 0x007b, 0},
        {"cvt.rn.satfinite.e4m3x2.f16x2", "hr", {0x3c00fc00}, 0x38fe, 0},
        {"cvt.rn.satfinite.relu.e5m2x2.f16x2", "hr", {0x3c00bc00}, 0x3c00, 0},
        {"cvt.rn.satfinite.e4m3x2.bf16x2", "hr", {0x3f80c000}, 0x38c0, 0},
        {"cvt.rn.satfinite.relu.e5m2x2.bf16x2", "hr", {0x3f80c000}, 0x3c00, 0},
        {"cvt.rn.f16x2.e4m3x2", "rh", {0x38fe}, 0x3c00df00, 0},
        {"cvt.rn.relu.f16x2.e4m3x2", "rh", {0x38fe}, 0x3c000000, 0},
        {"cvt.rn.f16x2.e5m2x2", "rh", {0x3cfc}, 0x3c00fc00, 0},
        {"cvt.rn.bf16x2.e4m3x2", "rh", {0x38fe}, 0x3f80c3e0, 0},
        {"cvt.rn.relu.satfinite.bf16x2.e5m2x2", "rh", {0x7cbc}, 0x7f7f0000, 0},
        {"cvt.rz.ue8m0x2.f32", "hrr", {F(3.0f), F(0.5f)}, 0x807e, 0},
        {"cvt.rp.ue8m0x2.f32", "hrr", {F(3.0f), F(0.5f)}, 0x817e, 0},
        {"cvt.rp.satfinite.ue8m0x2.f32", "hrr", {F_INF, F_NAN}, 0xfeff, 0},
        {"cvt.rz.satfinite.ue8m0x2.bf16x2", "hr", {0x7f803f80}, 0xfe7f, 0},
        {"cvt.rp.ue8m0x2.bf16x2", "hr", {0x3f813f80}, 0x807f, 0},
        {"cvt.rn.bf16x2.ue8m0x2", "rh", {0x7f00}, 0x3f800040, 0},
        {"cvt.pack.sat.u16.s32", "rrr", {70000, minus1}, 0xffff0000, 0},
        {"cvt.pack.sat.s16.s32", "rrr", {70000, 0xffff0000}, 0x7fff8000, 0},
        {"cvt.pack.sat.u8.s32.b32", "rrrr", {300, minus1, 0xabcd1234}, 0x1234ff00, 0},
        {"cvt.pack.sat.s8.s32.b32", "rrrr", {300, 0xffffff00, 0x5678}, 0x56787f80, 0},
        {"cvt.pack.sat.u4.s32.b32", "rrrr", {20, 3, 0x123456}, 0x123456f3, 0},
        {"cvt.pack.sat.s4.s32.b32", "rrrr", {20, 0xffffff00, 1}, 0x178, 0},
        {"cvt.pack.sat.u2.s32.b32", "rrrr", {2, 9, 1}, 0x1b, 0},
        {"cvt.pack.sat.s2.s32.b32", "rrrr", {2, 0xffffff00, 1}, 0x16, 0},
    };
    ALU_CHECK_TABLE(checks);
}

/* ---- To and from the 16-bit formats ---- */

/* From each pattern of bits: exact. */
static void check_widening(const char *opcode, const struct small_format *format, bool to_double_precision)
{
    struct alu_test test;
    alu_load(&test, opcode, to_double_precision ? "lh" : "rh", NULL);
    for (uint32_t first = 0; first < 0x10000; first += EMU_LANES) {
        for (int lane = 0; lane < EMU_LANES; lane++) {
            alu_set(&test, 1, lane, first + (uint32_t)lane);
        }
        alu_run(&test, EMU_ALL_LANES);
        for (int lane = 0; lane < EMU_LANES; lane++) {
            const double expected = small_value(format, first + (uint32_t)lane);
            const uint64_t bits = alu_get(&test, lane, 0);
            const double found = to_double_precision ? to_double(bits) : (double)to_float(bits);
            if (isnan(expected) ? !isnan(found) : D(found) != D(expected)) {
                fail_msg("%s of 0x%04x: %a instead of %a", opcode, first + (uint32_t)lane, found, expected);
            }
        }
    }
    alu_free(&test);
}

/* Around each number of the format and halfway to the next: the places where a rounding can go wrong. */
static void check_narrowing(const char *opcode, const char *kinds, const struct small_format *format,
                            enum small_rounding rounding, bool relu)
{
    struct alu_test test;
    const bool is_double = kinds[1] == 'l';
    const int bits = format->exponent_bits + format->mantissa_bits + 1;
    const uint64_t low_mask = (1ull << bits) - 1;
    alu_load(&test, opcode, kinds, NULL);
    for (uint32_t number = 0; number <= format->largest; number++) {
        const double here = small_value(format, number);
        const double next =
            number == format->largest ? 2 * here - small_value(format, number - 1) : small_value(format, number + 1);
        const double places[] = {here, (here + next) / 2, (3 * here + next) / 4, next};
        double inputs[EMU_LANES];
        for (int lane = 0; lane < EMU_LANES; lane++) {
            double value = places[lane / 2 % 4];
            const int direction = lane / 8 % 3; /* at, just below, just above */
            const double towards = direction == 1 ? -INFINITY : INFINITY;
            if (!is_double) {
                value = (double)(float)value; /* beyond the largest: infinite */
            }
            if (direction > 0) {
                value = is_double ? nextafter(value, towards) : (double)nextafterf((float)value, (float)towards);
            }
            inputs[lane] = lane % 2 ? -value : value;
            alu_set(&test, 1, lane, is_double ? D(inputs[lane]) : F((float)inputs[lane]));
            if (kinds[2]) {
                alu_set(&test, 2, lane, F((float)inputs[lane]));
            }
        }
        alu_run(&test, EMU_ALL_LANES);
        for (int lane = 0; lane < EMU_LANES; lane++) {
            uint32_t expected = small_round(format, (long double)inputs[lane], rounding);
            expected = relu && signbit(inputs[lane]) ? 0 : expected;
            const uint64_t found = alu_get(&test, lane, 0);
            if ((found & low_mask) != expected || (kinds[2] && found >> bits != expected)) {
                fail_msg("%s of %a: 0x%llx instead of 0x%x", opcode, inputs[lane], (unsigned long long)found, expected);
            }
        }
    }
    alu_free(&test);
}

void test_half_conversions_exhaustive(void **state)
{
    (void)state;
    check_widening("cvt.f32.f16", &format_f16, false);
    check_widening("cvt.f32.bf16", &format_bf16, false);
    check_widening("cvt.f64.f16", &format_f16, true);
    check_widening("cvt.f64.bf16", &format_bf16, true);
    check_narrowing("cvt.rn.f16.f32", "hr", &format_f16, SMALL_NEAREST, false);
    check_narrowing("cvt.rz.f16.f32", "hr", &format_f16, SMALL_TO_ZERO, false);
    check_narrowing("cvt.rn.bf16.f32", "hr", &format_bf16, SMALL_NEAREST, false);
    check_narrowing("cvt.rz.bf16.f32", "hr", &format_bf16, SMALL_TO_ZERO, false);
    check_narrowing("cvt.rn.f16.f64", "hl", &format_f16, SMALL_NEAREST, false);
    check_narrowing("cvt.rn.bf16.f64", "hl", &format_bf16, SMALL_NEAREST, false);
    check_narrowing("cvt.rn.relu.f16.f32", "hr", &format_f16, SMALL_NEAREST, true);
    check_narrowing("cvt.rn.satfinite.bf16.f32", "hr", &format_bf16, SMALL_NEAREST_FINITE, false);
    check_narrowing("cvt.rn.f16x2.f32", "rrr", &format_f16, SMALL_NEAREST, false);
    check_narrowing("cvt.rn.bf16x2.f32", "rrr", &format_bf16, SMALL_NEAREST, false);
    check_narrowing("cvt.rz.satfinite.f16x2.f32", "rrr", &format_f16, SMALL_TO_ZERO_FINITE, false);
    check_narrowing("cvt.rz.relu.bf16x2.f32", "rrr", &format_bf16, SMALL_TO_ZERO, true);
}

/* ---- The 8-bit formats ---- */

/* All pairs of bytes, against the value that each stands for. */
static void check_unpacking(const char *opcode, const struct small_format *from, const struct small_format *to)
{
    struct alu_test test;
    alu_load(&test, opcode, "rh", NULL);
    for (uint32_t first = 0; first < 0x10000; first += EMU_LANES) {
        for (int lane = 0; lane < EMU_LANES; lane++) {
            alu_set(&test, 1, lane, first + (uint32_t)lane);
        }
        alu_run(&test, EMU_ALL_LANES);
        for (int lane = 0; lane < EMU_LANES; lane++) {
            const uint32_t bits = first + (uint32_t)lane;
            const uint32_t low = small_round(to, (long double)small_value(from, bits & 0xff), SMALL_NEAREST);
            const uint32_t high = small_round(to, (long double)small_value(from, bits >> 8), SMALL_NEAREST);
            assert_int_equal(alu_get(&test, lane, 0), high << 16 | low);
        }
    }
    alu_free(&test);
}

/* All halves into both places, against the nearest of all numbers. */
static void check_packing(const char *opcode, const struct small_format *from, const struct small_format *to)
{
    struct alu_test test;
    alu_load(&test, opcode, "hr", NULL);
    for (uint32_t first = 0; first < 0x10000; first += EMU_LANES) {
        for (int lane = 0; lane < EMU_LANES; lane++) {
            alu_set(&test, 1, lane, (first + (uint32_t)lane) << 16 | (0xffff - first - (uint32_t)lane));
        }
        alu_run(&test, EMU_ALL_LANES);
        for (int lane = 0; lane < EMU_LANES; lane++) {
            const uint32_t bits = first + (uint32_t)lane;
            const uint32_t high = small_round(to, (long double)small_value(from, bits), SMALL_NEAREST_FINITE);
            const uint32_t low = small_round(to, (long double)small_value(from, 0xffff - bits), SMALL_NEAREST_FINITE);
            assert_int_equal(alu_get(&test, lane, 0), high << 8 | low);
        }
    }
    alu_free(&test);
}

void test_fp8_exhaustive(void **state)
{
    (void)state;
    check_unpacking("cvt.rn.f16x2.e4m3x2", &format_e4m3, &format_f16);
    check_unpacking("cvt.rn.f16x2.e5m2x2", &format_e5m2, &format_f16);
    check_unpacking("cvt.rn.bf16x2.e4m3x2", &format_e4m3, &format_bf16);
    check_unpacking("cvt.rn.bf16x2.e5m2x2", &format_e5m2, &format_bf16);
    check_packing("cvt.rn.satfinite.e4m3x2.f16x2", &format_f16, &format_e4m3);
    check_packing("cvt.rn.satfinite.e5m2x2.f16x2", &format_f16, &format_e5m2);
    check_packing("cvt.rn.satfinite.e4m3x2.bf16x2", &format_bf16, &format_e4m3);
    check_packing("cvt.rn.satfinite.e5m2x2.bf16x2", &format_bf16, &format_e5m2);
    check_narrowing("cvt.rn.satfinite.e4m3x2.f32", "hrr", &format_e4m3, SMALL_NEAREST_FINITE, false);
    check_narrowing("cvt.rn.satfinite.e5m2x2.f32", "hrr", &format_e5m2, SMALL_NEAREST_FINITE, false);
    check_narrowing("cvt.rn.satfinite.relu.e4m3x2.f32", "hrr", &format_e4m3, SMALL_NEAREST_FINITE, true);
}

void test_ue8m0_exhaustive(void **state)
{
    (void)state;
    struct alu_test test;
    alu_load(&test, "cvt.rn.bf16x2.ue8m0x2", "rh", NULL);
    for (uint32_t bits = 0; bits < 0x100; bits++) {
        alu_set_all(&test, 1, bits << 8 | bits);
        alu_run(&test, 1);
        const uint32_t expected =
            bits == 0xff ? 0x7fff : small_round(&format_bf16, ldexpl(1, (int)bits - 127), SMALL_NEAREST);
        assert_int_equal(alu_get(&test, 0, 0), expected << 16 | expected);
    }
    alu_free(&test);

    for (int up = 0; up < 2; up++) {
        alu_load(&test, up ? "cvt.rp.satfinite.ue8m0x2.bf16x2" : "cvt.rz.satfinite.ue8m0x2.bf16x2", "hr", NULL);
        for (uint32_t bits = 0; bits < 0x8000; bits++) {
            const double value = small_value(&format_bf16, bits);
            alu_set_all(&test, 1, bits);
            alu_run(&test, 1);
            uint32_t expected = 0; /* the power of two below or at, or above or at */
            while (expected < 0xfe &&
                   ldexp(1, (int)expected + (up ? 0 : 1) - 127) <= (up ? nextafter(value, 0) : value)) {
                expected++;
            }
            expected = isnan(value) ? 0xff : expected;
            assert_int_equal(alu_get(&test, 0, 0) & 0xff, expected);
        }
        alu_free(&test);
    }
}

/* ---- Integers: all pairs of types, at the ends of their ranges ---- */

void test_integer_conversions_exhaustive(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int bits;
        bool is_signed;
    } types[] = {{"u8", 8, false}, {"u16", 16, false}, {"u32", 32, false}, {"u64", 64, false},
                 {"s8", 8, true},  {"s16", 16, true},  {"s32", 32, true},  {"s64", 64, true}};
    for (int to = 0; to < 8; to++) {
        for (int from = 0; from < 8; from++) {
            for (int sat = 0; sat < 2; sat++) {
                char opcode[32], kinds[3] = "";
                struct alu_test test;
                snprintf(opcode, sizeof opcode, "cvt.%s%s.%s", sat ? "sat." : "", types[to].name, types[from].name);
                kinds[0] = types[to].bits == 64 ? 'l' : types[to].bits == 32 ? 'r' : 'h';
                kinds[1] = types[from].bits == 64 ? 'l' : types[from].bits == 32 ? 'r' : 'h';
                alu_load(&test, opcode, kinds, NULL);
                for (int bit = 0; bit < 64; bit++) {
                    for (int offset = 0; offset < 3; offset++) {
                        const uint64_t input = ((uint64_t)1 << bit) - 1 + (uint64_t)(unsigned)offset;
                        /* The source's value, wide enough for all. */
                        const uint64_t cut = types[from].bits == 64 ? input : input & ((1ull << types[from].bits) - 1);
                        const bool negative = types[from].is_signed && cut >> (types[from].bits - 1) & 1;
                        long double value = (long double)cut;
                        value -= negative ? ldexpl(1, types[from].bits) : 0;
                        /* The destination's range, or its residue. */
                        const long double least = types[to].is_signed ? -ldexpl(1, types[to].bits - 1) : 0;
                        const long double most = ldexpl(1, types[to].bits - types[to].is_signed) - 1;
                        if (sat) {
                            value = value < least ? least : value > most ? most : value;
                        }
                        uint64_t expected = value < 0 ? 0 - (uint64_t)-value : (uint64_t)value;
                        const int width = types[to].bits < 16 ? 16 : types[to].bits;
                        if (types[to].bits < 64) {
                            expected &= (1ull << types[to].bits) - 1;
                            if (types[to].is_signed && expected >> (types[to].bits - 1)) {
                                expected |= ~0ull << types[to].bits;
                            }
                            expected &= (1ull << width) - 1;
                        }
                        alu_set_all(&test, 1, input);
                        alu_run(&test, EMU_ALL_LANES);
                        if (alu_get(&test, 9, 0) != expected) {
                            fail_msg("%s of 0x%llx: 0x%llx instead of 0x%llx", opcode, (unsigned long long)input,
                                     (unsigned long long)alu_get(&test, 9, 0), (unsigned long long)expected);
                        }
                    }
                }
                alu_free(&test);
            }
        }
    }
}

/* Towards zero over random patterns of bits, against the definition in long double. */
void test_float_to_integer(void **state)
{
    (void)state;
    static const struct {
        const char *opcode, *kinds;
        long double least, most;
    } checks[] = {{"cvt.rzi.s32.f32", "rr", -0x1p31L, 0x1p31L - 1}, {"cvt.rzi.u32.f32", "rr", 0, 0x1p32L - 1}};
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        struct alu_test test;
        uint32_t bits = 12345;
        alu_load(&test, checks[i].opcode, checks[i].kinds, NULL);
        for (int round = 0; round < 20000; round++) {
            bits = bits * 1664525u + 1013904223u;
            alu_set_all(&test, 1, bits);
            alu_run(&test, 1);
            const long double value = truncl((long double)to_float(bits));
            const long double clamped = value < checks[i].least  ? checks[i].least
                                        : value > checks[i].most ? checks[i].most
                                                                 : value;
            const uint32_t expected = value != value ? 0 : (uint32_t)(int64_t)clamped;
            if (alu_get(&test, 0, 0) != expected) {
                fail_msg("%s of 0x%08x", checks[i].opcode, bits);
            }
        }
        alu_free(&test);
    }
}
