/* Small floating-point formats by definition: a value is computed from its fields, a rounding found by search among all
 * values. Slow, short, and independent of the bit tricks that it checks. */
#ifndef TEST_EMU_ALU_FORMATS_H
#define TEST_EMU_ALU_FORMATS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

struct small_format {
    int exponent_bits, mantissa_bits;
    bool has_infinity;
    uint32_t largest, nan; /* the largest number; the canonical NaN */
};

static const struct small_format format_f16 = {5, 10, true, 0x7bff, 0x7fff};
static const struct small_format format_bf16 = {8, 7, true, 0x7f7f, 0x7fff};
static const struct small_format format_e4m3 = {4, 3, false, 0x7e, 0x7f};
static const struct small_format format_e5m2 = {5, 2, true, 0x7b, 0x7f};

enum small_rounding { SMALL_NEAREST, SMALL_TO_ZERO, SMALL_NEAREST_FINITE, SMALL_TO_ZERO_FINITE };

static inline uint32_t small_sign(const struct small_format *format)
{
    return 1u << (format->exponent_bits + format->mantissa_bits);
}

/* The number that the bits stand for. */
static inline double small_value(const struct small_format *format, uint32_t bits)
{
    const uint32_t magnitude = bits & (small_sign(format) - 1);
    const double sign = bits & small_sign(format) ? -1 : 1;
    const int exponent = (int)(magnitude >> format->mantissa_bits);
    const double fraction = (double)(magnitude & ((1u << format->mantissa_bits) - 1)) / (1 << format->mantissa_bits);
    const int bias = (1 << (format->exponent_bits - 1)) - 1;
    if (magnitude > format->largest) {
        return format->has_infinity && fraction == 0 ? sign * INFINITY : NAN;
    }
    return sign * (exponent == 0 ? ldexp(fraction, 1 - bias) : ldexp(1 + fraction, exponent - bias));
}

/* The bits of the number that a value rounds to: a binary search for its neighbours, then the definition. */
static inline uint32_t small_round(const struct small_format *format, long double value, enum small_rounding rounding)
{
    const bool finite = rounding == SMALL_NEAREST_FINITE || rounding == SMALL_TO_ZERO_FINITE;
    const bool to_zero = rounding == SMALL_TO_ZERO || rounding == SMALL_TO_ZERO_FINITE;
    if (value != value) {
        return format->nan;
    }
    const uint32_t sign = signbit(value) ? small_sign(format) : 0;
    const uint32_t beyond = finite ? format->largest : format->has_infinity ? format->largest + 1 : format->nan;
    const long double magnitude = fabsl(value);
    uint32_t low = 0, high = format->largest + 1; /* low's value <= magnitude < high's */
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        *(small_value(format, middle) <= magnitude ? &low : &high) = middle;
    }
    const long double below = (long double)small_value(format, low);
    if (magnitude == below) {
        return sign | low;
    }
    if (isinf(magnitude)) {
        return sign | beyond;
    }
    if (to_zero) {
        return sign | low;
    }
    /* The one above the largest is where the next would be. */
    const long double above = low == format->largest ? below + (below - (long double)small_value(format, low - 1))
                                                     : (long double)small_value(format, high);
    const bool up = magnitude - below > above - magnitude || (magnitude - below == above - magnitude && (low & 1));
    return sign | (!up ? low : low == format->largest ? beyond : high);
}

#endif
