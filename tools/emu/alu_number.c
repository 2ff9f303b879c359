/* Floating-point numbers of any format: taken apart, and rounded once. */
#include "alu.h"

const struct alu_format alu_f16 = {.mantissa_bits = 10, .exponent_bits = 5, .has_infinity = true, .nan = 0x7fff};
const struct alu_format alu_bf16 = {.mantissa_bits = 7, .exponent_bits = 8, .has_infinity = true, .nan = 0x7fff};
const struct alu_format alu_f32 = {.mantissa_bits = 23, .exponent_bits = 8, .has_infinity = true, .nan = 0x7fffffff};
/* 10 bits of mantissa at the top of a register of f32 layout; encoded here in 19 bits. */
const struct alu_format alu_tf32 = {.mantissa_bits = 10, .exponent_bits = 8, .has_infinity = true, .nan = 0x3ffff};
const struct alu_format alu_f64 = {
    .mantissa_bits = 52, .exponent_bits = 11, .has_infinity = true, .nan = 0x7fffffffffffffff};
const struct alu_format alu_e4m3 = {.mantissa_bits = 3, .exponent_bits = 4, .has_infinity = false, .nan = 0x7f};
const struct alu_format alu_e5m2 = {.mantissa_bits = 2, .exponent_bits = 5, .has_infinity = true, .nan = 0x7f};

static int bias_of(const struct alu_format *format)
{
    return (1 << (format->exponent_bits - 1)) - 1;
}

struct alu_number alu_unpack(uint64_t bits, const struct alu_format *format)
{
    const int top = (1 << format->exponent_bits) - 1;
    const uint64_t fraction = bits & ((1ull << format->mantissa_bits) - 1);
    const int exponent = (int)(bits >> format->mantissa_bits & (uint64_t)top);
    struct alu_number number = {.negative = bits >> (format->mantissa_bits + format->exponent_bits) & 1};
    if (!format->has_infinity && (bits & format->nan) == format->nan) {
        number.nan = true;
    } else if (format->has_infinity && exponent == top) {
        number.nan = fraction != 0;
        number.infinite = fraction == 0;
    } else if (exponent == 0) {
        number.mantissa = fraction;
        number.exponent = 1 - bias_of(format) - format->mantissa_bits;
    } else {
        number.mantissa = fraction | 1ull << format->mantissa_bits;
        number.exponent = exponent - bias_of(format) - format->mantissa_bits;
    }
    return number;
}

struct alu_number alu_number_of_double(double value)
{
    return alu_unpack(alu_bits_of_double(value), &alu_f64);
}

/* Whether to go from a cut-off mantissa to the next larger one. half: what was cut off compared with half a unit, -1, 0
 * or 1; inexact: whether anything was. */
static bool rounds_up(enum emu_rounding rounding, bool negative, bool odd, int half, bool inexact)
{
    switch (rounding) {
    case EMU_RZ:
    case EMU_RZI:
        return false;
    case EMU_RM:
    case EMU_RMI:
        return negative && inexact;
    case EMU_RP:
    case EMU_RPI:
        return !negative && inexact;
    case EMU_RNA:
        return half >= 0;
    default:
        return half > 0 || (half == 0 && odd);
    }
}

uint64_t alu_shift_rounded(uint64_t mantissa, int shift, bool negative, enum emu_rounding rounding)
{
    if (mantissa == 0) {
        return 0;
    }
    if (shift <= 0) {
        return mantissa << -shift;
    }
    if (shift > 64) {
        return rounds_up(rounding, negative, false, -1, true);
    }
    const uint64_t kept = shift == 64 ? 0 : mantissa >> shift;
    const uint64_t rest = shift == 64 ? mantissa : mantissa & ((1ull << shift) - 1);
    const uint64_t middle = 1ull << (shift - 1);
    const int half = rest < middle ? -1 : rest == middle ? 0 : 1;
    return kept + rounds_up(rounding, negative, kept & 1, half, rest != 0);
}

/* The largest finite number, without sign. */
static uint64_t largest_of(const struct alu_format *format)
{
    const uint64_t infinity = ((1ull << format->exponent_bits) - 1) << format->mantissa_bits;
    return format->has_infinity ? infinity - 1 : format->nan - 1;
}

uint64_t alu_encode(struct alu_number number, const struct alu_format *format, enum emu_rounding rounding,
                    bool satfinite)
{
    if (number.nan) {
        return format->nan;
    }
    const int bits = format->mantissa_bits;
    const uint64_t sign = (uint64_t)number.negative << (bits + format->exponent_bits);
    const uint64_t largest = largest_of(format);
    if (number.infinite) {
        /* A format without infinity takes its NaN's place; satfinite, the largest number (9.7.9.21). */
        return sign | (satfinite ? largest : format->has_infinity ? largest + 1 : format->nan);
    }
    if (number.mantissa == 0) {
        return sign;
    }
    /* Bring the mantissa to bits + 1 bits, or to fewer where the result is subnormal. Adding its rounding to exponent
     * and fraction at once lets a carry run into the exponent, from the largest subnormal too. */
    const int length = 64 - __builtin_clzll(number.mantissa);
    const int smallest = 1 - bias_of(format) - bits; /* exponent of a subnormal's unit */
    int unit = number.exponent + length - (bits + 1);
    unit = unit < smallest ? smallest : unit;
    const uint64_t rounded = alu_shift_rounded(number.mantissa, unit - number.exponent, number.negative, rounding);
    const uint64_t result = ((uint64_t)(unit - smallest) << bits) + rounded;
    if (result <= largest) {
        return sign | result;
    }
    const bool stays_finite = satfinite || rounding == EMU_RZ || (rounding == EMU_RM && !number.negative) ||
                              (rounding == EMU_RP && number.negative);
    return sign | (stays_finite ? largest : format->has_infinity ? largest + 1 : format->nan);
}
