/* f16, bf16 and pairs: chosen values, and every pattern of bits where one source suffices. */
#include "test_alu.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "test_alu_formats.h"

void test_halves(void **state)
{
    (void)state;
    const uint64_t nan = 0x7fff;
    const struct alu_check checks[] = {
        {"add.f16", "hhh", {0x3c00, 0x4000}, 0x4200, 0},
        {"add.f16", "hhh", {0x7bff, 0x7bff}, 0x7c00, 0},
        {"add.f16", "hhh", {0x7c00, 0xfc00}, nan, 0},
        {"add.f16", "hhh", {0x3c00, 0x1000}, 0x3c00, 0}, /* 1 + 2^-11: a tie, to even */
        {"add.f16", "hhh", {0x3c01, 0x1000}, 0x3c02, 0},
        {"add.rn.ftz.f16", "hhh", {0x0001, 0x0001}, 0, 0},
        {"add.f16", "hhh", {0x0001, 0x03ff}, 0x0400, 0},
        {"add.sat.f16", "hhh", {0x3c00, 0x4000}, 0x3c00, 0},
        {"add.sat.f16", "hhh", {nan, 0x4000}, 0, 0},
        {"add.sat.f16x2", "rrr", {0x3c00bc00, 0x3c000000}, 0x3c000000, 0},
        {"add.rn.ftz.f16x2", "rrr", {0x3c000001, 0x3c000001}, 0x40000000, 0},
        {"add.bf16", "hhh", {0x3f80, 0x4000}, 0x4040, 0},
        {"add.rn.bf16", "hhh", {0x3f80, 0x3b80}, 0x3f80, 0}, /* 1 + 2^-8: a tie */
        {"add.rn.bf16x2", "rrr", {0x3f813f80, 0x3b803f80}, 0x3f824000, 0},
        {"sub.f16", "hhh", {0x3c00, 0x4000}, 0xbc00, 0},
        {"sub.rn.ftz.sat.f16", "hhh", {0x3c00, 0x4000}, 0, 0},
        {"sub.f16x2", "rrr", {0x3c004000, 0x40003c00}, 0xbc003c00, 0},
        {"sub.bf16", "hhh", {0x3f80, 0x4000}, 0xbf80, 0},
        {"sub.rn.bf16x2", "rrr", {0x3f804000, 0x40003f80}, 0xbf803f80, 0},
        {"mul.f16", "hhh", {0x3e00, 0x4000}, 0x4200, 0},
        {"mul.f16", "hhh", {0x0400, 0x3800}, 0x0200, 0},
        {"mul.rn.ftz.f16", "hhh", {0x0400, 0x3800}, 0, 0},
        {"mul.sat.f16", "hhh", {0x4000, 0x4000}, 0x3c00, 0},
        {"mul.f16x2", "rrr", {0x3e00bc00, 0x40004000}, 0x4200c000, 0},
        {"mul.bf16", "hhh", {0x3fc0, 0x4000}, 0x4040, 0},
        {"mul.bf16", "hhh", {0x7f7f, 0x4000}, 0x7f80, 0},
        {"mul.rn.bf16x2", "rrr", {0x3fc0bf80, 0x40004000}, 0x4040c000, 0},
        {"fma.rn.f16", "hhhh", {0x4000, 0x4200, 0x3c00}, 0x4700, 0},
        {"fma.rn.f16", "hhhh", {0x3c01, 0x3c01, 0xbc02}, 0x0010, 0}, /* (1 + 2^-10)^2 - 1 - 2^-9 = 2^-20 */
        {"fma.rn.ftz.f16", "hhhh", {0x3c01, 0x3c01, 0xbc02}, 0, 0},
        {"fma.rn.sat.f16", "hhhh", {0x4000, 0x4200, 0x3c00}, 0x3c00, 0},
        {"fma.rn.relu.f16", "hhhh", {0x4000, 0xc200, 0x3c00}, 0, 0},
        {"fma.rn.relu.f16", "hhhh", {nan, 0xc200, 0x3c00}, nan, 0},
        {"fma.rn.relu.f16x2", "rrrr", {0x40004000, 0x4200c200, 0x3c003c00}, 0x47000000, 0},
        {"fma.rn.bf16", "hhhh", {0x4000, 0x4040, 0x3f80}, 0x40e0, 0},
        {"fma.rn.relu.bf16", "hhhh", {0x4000, 0xc040, 0x3f80}, 0, 0},
        {"fma.rn.bf16x2", "rrrr", {0x40004000, 0x4040c040, 0x3f803f80}, 0x40e0c0a0, 0},
        {"fma.rn.bf16", "hhhh", {0x3f80, 0x3f80, 0x0001}, 0x3f80, 0},
        {"neg.f16", "hh", {0x3c00}, 0xbc00, 0},
        {"neg.ftz.f16", "hh", {0x0001}, 0x8000, 0},
        {"neg.f16x2", "rr", {0x3c00bc00}, 0xbc003c00, 0},
        {"neg.bf16", "hh", {0x0001}, 0x8001, 0},
        {"neg.bf16x2", "rr", {0x3f80bf80}, 0xbf803f80, 0},
        {"abs.f16", "hh", {0xbc00}, 0x3c00, 0},
        {"abs.ftz.f16x2", "rr", {0xbc008001}, 0x3c000000, 0},
        {"abs.bf16", "hh", {0xbf80}, 0x3f80, 0},
        {"abs.bf16x2", "rr", {0xbf808001}, 0x3f800001, 0},
        {"min.f16", "hhh", {0x3c00, 0xbc00}, 0xbc00, 0},
        {"min.f16", "hhh", {0x0000, 0x8000}, 0x8000, 0},
        {"min.f16", "hhh", {0x7e00, 0x3c00}, 0x3c00, 0},
        {"min.f16", "hhh", {0x3c00, 0xfe00}, 0x3c00, 0},
        {"min.f16", "hhh", {0x7e00, 0xfe00}, nan, 0},
        {"min.NaN.f16", "hhh", {0x3c00, 0xfe00}, nan, 0},
        {"min.ftz.f16x2", "rrr", {0x00014000, 0x3c003c00}, 0x00003c00, 0},
        {"min.ftz.NaN.xorsign.abs.f16", "hhh", {0xbc00, 0x4000}, 0xbc00, 0},
        {"min.xorsign.abs.f16x2", "rrr", {0xbc00c000, 0xc0003c00}, 0x3c00bc00, 0},
        {"min.bf16", "hhh", {0x3f80, 0xbf80}, 0xbf80, 0},
        {"min.NaN.bf16x2", "rrr", {0x3f807fc0, 0x40003f80}, 0x3f807fff, 0},
        {"min.xorsign.abs.bf16", "hhh", {0xbf80, 0x4000}, 0xbf80, 0},
        {"min.NaN.xorsign.abs.bf16x2", "rrr", {0xbf807fc0, 0xc0003f80}, 0x3f807fff, 0},
        {"max.f16", "hhh", {0x8000, 0x0000}, 0x0000, 0},
        {"max.ftz.NaN.f16x2", "rrr", {0x00014000, 0x80003c00}, 0x00004000, 0},
        {"max.ftz.NaN.xorsign.abs.f16", "hhh", {0xbc00, 0x4000}, 0xc000, 0},
        {"max.xorsign.abs.f16x2", "rrr", {0xbc00c000, 0xc0003c00}, 0x4000c000, 0},
        {"max.bf16", "hhh", {0x3f80, 0xbf80}, 0x3f80, 0},
        {"max.NaN.bf16x2", "rrr", {0x3f807fc0, 0x40003f80}, 0x40007fff, 0},
        {"max.NaN.xorsign.abs.bf16", "hhh", {0xbf80, 0x4000}, 0xc000, 0},
        {"max.xorsign.abs.bf16x2", "rrr", {0xbf80bf80, 0x4000c000}, 0xc0004000, 0},
        {"tanh.approx.f16", "hh", {0x7c00}, 0x3c00, 0},
        {"tanh.approx.f16x2", "rr", {0xfc008000}, 0xbc008000, 0},
        {"tanh.approx.bf16", "hh", {0x7fc0}, nan, 0},
        {"tanh.approx.bf16x2", "rr", {0x7f800000}, 0x3f800000, 0},
        {"ex2.approx.f16", "hh", {0x4400}, 0x4c00, 0},
        {"ex2.approx.f16", "hh", {0xcb80}, 0x0200, 0}, /* 2^-15 */
        {"ex2.approx.f16x2", "rr", {0xfc008000}, 0x00003c00, 0},
        {"ex2.approx.ftz.bf16", "hh", {0x4080}, 0x4180, 0},
        {"ex2.approx.ftz.bf16", "hh", {0xc300}, 0, 0}, /* 2^-128: flushed */
        {"ex2.approx.ftz.bf16x2", "rr", {0x7f800001}, 0x7f803f80, 0},
    };
    ALU_CHECK_TABLE(checks);
}

/* The sum in 64 bits. Where it is a number of few bits, a tie perhaps, what did not fit moves it one place. */
static long double sum_for_rounding(long double a, long double b)
{
    const long double sum = a + b, from_b = sum - a;
    const long double error = (a - (sum - from_b)) + (b - from_b);
    const bool is_short = (long double)(float)sum == sum;
    return error == 0 || !is_short ? sum : nextafterl(sum, error > 0 ? INFINITY : -INFINITY);
}

/* x + y, x * y and x * y + z against long double, rounded by search. */
void test_half_arithmetic_exhaustive(void **state)
{
    (void)state;
    static const struct {
        const char *opcode;
        const struct small_format *format;
        uint32_t y, z;
    } checks[] = {
        {"add.rn.f16", &format_f16, 0x3555, 0},        {"add.rn.f16", &format_f16, 0x83ff, 0},
        {"sub.rn.bf16", &format_bf16, 0x3eab, 0},      {"mul.rn.f16", &format_f16, 0x3555, 0},
        {"mul.rn.f16", &format_f16, 0x0bfd, 0},        {"mul.rn.bf16", &format_bf16, 0x1234, 0},
        {"fma.rn.f16", &format_f16, 0x3aab, 0x8401},   {"fma.rn.f16", &format_f16, 0x0c03, 0x3fff},
        {"fma.rn.bf16", &format_bf16, 0x3eab, 0xbf81}, {"fma.rn.bf16", &format_bf16, 0x0081, 0x0033},
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        const char *opcode = checks[i].opcode;
        const bool is_fma = opcode[0] == 'f';
        const struct small_format *format = checks[i].format;
        const long double y = (long double)small_value(format, checks[i].y),
                          z = (long double)small_value(format, checks[i].z);
        struct alu_test test;
        alu_load(&test, opcode, is_fma ? "hhhh" : "hhh", NULL);
        for (uint32_t first = 0; first < 0x10000; first += EMU_LANES) {
            for (int lane = 0; lane < EMU_LANES; lane++) {
                alu_set(&test, 1, lane, first + (uint32_t)lane);
                alu_set(&test, 2, lane, checks[i].y);
                if (is_fma) {
                    alu_set(&test, 3, lane, checks[i].z);
                }
            }
            alu_run(&test, EMU_ALL_LANES);
            for (int lane = 0; lane < EMU_LANES; lane++) {
                const uint32_t bits = first + (uint32_t)lane;
                const double x = small_value(format, bits);
                if (isnan(x) || isinf(x)) {
                    continue;
                }
                const long double factor = is_fma || opcode[0] == 'm' ? (long double)x * y : (long double)x;
                const long double term = opcode[0] == 'a' ? y : opcode[0] == 's' ? -y : is_fma ? z : -0.0L;
                const long double exact = sum_for_rounding(factor, term);
                const uint32_t expected = small_round(format, exact, SMALL_NEAREST);
                if (alu_get(&test, lane, 0) != expected) {
                    fail_msg("%s: source 0x%04x: 0x%04x instead of 0x%04x", opcode, bits,
                             (unsigned)alu_get(&test, lane, 0), expected);
                }
            }
        }
        alu_free(&test);
    }
}
