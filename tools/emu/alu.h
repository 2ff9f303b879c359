/* What the files of scalar instructions share: bind helpers, loops over lanes, small floating-point formats.
 *
 * Each exec function handles one opcode and type and works on all 32 lanes, masked at the store, so that the compiler
 * can vectorise it. The rows of the opcode table stand in alu.c; the bind functions they name, in the file of the
 * instruction's kind. */
#ifndef EMU_ALU_H
#define EMU_ALU_H

#include <math.h>
#include <string.h>

#include "engine.h"

#define ALU_EACH_LANE(i) for (int i = 0; i < EMU_LANES; i++)

/* The head of an exec function. */
#define ALU_EXEC(name) static enum emu_action name(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)

/* ---- Bind ---- */

/* Sets the instruction's types (in the order they stand in the opcode) and the facts that modifiers spell out:
 * rounding, .ftz, .sat, .NaN, .approx, .full, .hi, .wide, .relu, .satfinite. Returns the first type. */
enum emu_type alu_begin(const struct emu_bind *bind);

/* True when the opcode has this token. */
bool alu_has(const struct emu_bind *bind, const char *token);

/* Refuses with a reason; always false. */
bool alu_refuse(const struct emu_bind *bind, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Checks the operands against their types (register width, predicate or not), brings float literals to an operand's own
 * type, and that exec is set. More types than operands: the last operands are optional and absent. */
bool alu_finish(const struct emu_bind *bind, const enum emu_type *types, size_t count);
#define ALU_FINISH(bind, ...)                                                                                          \
    alu_finish(bind, (const enum emu_type[]){__VA_ARGS__},                                                             \
               sizeof((const enum emu_type[]){__VA_ARGS__}) / sizeof(enum emu_type))

/* As alu_finish, for one operand of cvt, whose register may be wider than the type (PTX ISA 9.4.1). */
bool alu_finish_wide(const struct emu_bind *bind, int index, enum emu_type type);

/* ---- Lanes ---- */

/* Reads a source of any width into 64 bits, zero-extended. */
void alu_read64(struct emu_warp *warp, const struct emu_operand *operand, uint64_t values[EMU_LANES]);

/* Stores into a register of any width: the low bits of each value. */
void alu_store_any(struct emu_warp *warp, const struct emu_operand *operand, const uint64_t values[EMU_LANES],
                   uint32_t mask);

/* One bit a lane out of one 0 or 1 a lane. */
uint32_t alu_pack(const uint8_t flags[EMU_LANES]);

/* The next number of the warp's generator, uniform in [-1, 1]: for approximations that are to err. */
double alu_random(struct emu_warp *warp);

/* ---- Floating-point numbers of any format ---- */

struct alu_format {
    int mantissa_bits; /* stored */
    int exponent_bits;
    bool has_infinity; /* e4m3 has none: its largest exponent holds numbers, the all-ones mantissa is NaN */
    uint64_t nan;      /* the canonical one */
};
extern const struct alu_format alu_f16, alu_bf16, alu_tf32, alu_f32, alu_f64, alu_e4m3, alu_e5m2;

/* A number taken apart: (-1)^negative * mantissa * 2^exponent; no mantissa: zero. */
struct alu_number {
    bool nan, infinite, negative;
    uint64_t mantissa;
    int exponent;
};

struct alu_number alu_unpack(uint64_t bits, const struct alu_format *format);
struct alu_number alu_number_of_double(double value);
/* Rounds once, correctly. EMU_RNA: ties away from zero. Overflow: infinity or the largest number as the rounding says
 * (IEEE 754, 7.4); satfinite or a format without infinity: see the code. */
uint64_t alu_encode(struct alu_number number, const struct alu_format *format, enum emu_rounding rounding,
                    bool satfinite);

/* mantissa / 2^shift, rounded to an integer; by more than 64 is allowed. */
uint64_t alu_shift_rounded(uint64_t mantissa, int shift, bool negative, enum emu_rounding rounding);

/* ---- Numbers as the host has them ---- */

static inline float alu_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t alu_bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double alu_double_of_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t alu_bits_of_double(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Exact. */
static inline double alu_double_of_f16(uint32_t bits)
{
    const uint32_t magnitude = bits & 0x7fff;
    const uint64_t sign = (uint64_t)(bits >> 15 & 1) << 63;
    if (magnitude >= 0x7c00) {
        return alu_double_of_bits(sign | 0x7ffull << 52 | (uint64_t)(magnitude & 0x3ff) << 42);
    }
    /* As the same fields of a double, scaled by what the biases differ: right for subnormals too. */
    const double scaled = alu_double_of_bits((uint64_t)magnitude << 42) * 0x1p1008;
    return alu_double_of_bits(alu_bits_of_double(scaled) | sign);
}

/* Rounded to nearest even to a format of 16 bits, in a few operations that vectorise; alu_encode is the general way.
 * The double must be exact or rounded to odd. */
static inline uint32_t alu_round_half(double value, int mantissa_bits, int bias)
{
    const int cut = 52 - mantissa_bits;
    const uint64_t bits = alu_bits_of_double(value);
    const uint64_t magnitude = bits & 0x7fffffffffffffffull;
    const uint32_t infinity = (uint32_t)(2 * bias + 1) << mantissa_bits;
    /* A normal result: half a unit added, less one when that would make a tie odd; the carry runs into the exponent. */
    const uint64_t rounded = magnitude + (1ull << (cut - 1)) - 1 + (magnitude >> cut & 1);
    const int64_t normal = (int64_t)(rounded >> cut) - ((int64_t)(1023 - bias) << mantissa_bits);
    /* A subnormal one: added to a number whose last place is worth the format's smallest, the host rounds it. */
    const double shifter = alu_double_of_bits((uint64_t)(1023 + 53 - bias - mantissa_bits) << 52);
    const uint64_t shifted = alu_bits_of_double(alu_double_of_bits(magnitude) + shifter);
    const int64_t subnormal = (int64_t)(shifted & 0xffff);
    const int64_t number = normal < (1ll << mantissa_bits) ? subnormal : normal;
    const uint32_t finite = number > (int64_t)infinity ? infinity : (uint32_t)number;
    return value != value ? 0x7fff : finite | (uint32_t)(bits >> 48 & 0x8000);
}

static inline uint32_t alu_f16_of_double(double value)
{
    return alu_round_half(value, 10, 15);
}

static inline uint32_t alu_bf16_of_double(double value)
{
    return alu_round_half(value, 7, 127);
}

/* sum, or its neighbour with an odd last bit on the side of the exact value sum + error. */
static inline double alu_to_odd(double sum, double error)
{
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    const bool inexact = error > 0 || error < 0; /* not for the NaN that infinities leave */
    const bool away = (error > 0) == (sum > 0);
    if (inexact && !(bits & 1)) {
        bits = away ? bits + 1 : bits - 1;
    }
    memcpy(&sum, &bits, sizeof sum);
    return sum;
}

/* a + b and a * b + c rounded to odd: the double next to the exact value whose last bit is set, unless it is exact.
 * Rounded once more to 51 bits or fewer, in any mode, that is the correctly rounded result (Boldo and Melquiond,
 * "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008). a * b must be exact in
 * a double: factors of at most 26 bits. */
static inline double alu_add_odd(double a, double b)
{
    const double sum = a + b;
    const double from_b = sum - a;
    const double error = (a - (sum - from_b)) + (b - from_b); /* Knuth's TwoSum: exact */
    return alu_to_odd(sum, error);
}

static inline double alu_fma_odd(double a, double b, double c)
{
    return alu_add_odd(a * b, c);
}

/* ---- Bind functions, by file ---- */

typedef bool alu_bind_fn(const struct emu_bind *bind);

/* alu_move.c */
alu_bind_fn alu_bind_mov;

/* alu_integer.c */
alu_bind_fn alu_bind_add, alu_bind_sub, alu_bind_add_sat, alu_bind_sub_sat, alu_bind_add_x2, alu_bind_carry,
    alu_bind_mul_lo, alu_bind_mul_hi, alu_bind_mul_wide, alu_bind_mad_lo, alu_bind_mad_hi, alu_bind_mad_hi_sat,
    alu_bind_mad_wide, alu_bind_mul24, alu_bind_mad24, alu_bind_sad, alu_bind_div, alu_bind_rem, alu_bind_abs,
    alu_bind_neg, alu_bind_min, alu_bind_max, alu_bind_min_x2, alu_bind_max_x2, alu_bind_popc, alu_bind_clz,
    alu_bind_bfind, alu_bind_fns, alu_bind_brev, alu_bind_bfe, alu_bind_bfi, alu_bind_szext, alu_bind_bmsk,
    alu_bind_dp4a, alu_bind_dp2a, alu_bind_and, alu_bind_or, alu_bind_xor, alu_bind_not, alu_bind_cnot,
    alu_bind_logic_pred, alu_bind_lop3, alu_bind_shf, alu_bind_shl, alu_bind_shr, alu_bind_prmt;

/* alu_float.c */
alu_bind_fn alu_bind_float_add, alu_bind_float_sub, alu_bind_float_mul, alu_bind_float_fma, alu_bind_float_div,
    alu_bind_float_rcp, alu_bind_float_sqrt, alu_bind_float_rsqrt, alu_bind_float_ex2, alu_bind_float_lg2,
    alu_bind_float_sin, alu_bind_float_cos, alu_bind_float_tanh, alu_bind_float_abs, alu_bind_float_neg,
    alu_bind_float_min, alu_bind_float_max, alu_bind_copysign, alu_bind_testp, alu_bind_mixed;

/* alu_half.c */
alu_bind_fn alu_bind_half_add, alu_bind_half_sub, alu_bind_half_mul, alu_bind_half_fma, alu_bind_half_neg,
    alu_bind_half_abs, alu_bind_half_min, alu_bind_half_max, alu_bind_half_ex2, alu_bind_half_tanh;

/* alu_convert.c */
alu_bind_fn alu_bind_cvt, alu_bind_cvt_two, alu_bind_cvt_unpack, alu_bind_cvt_pack;

/* alu_compare.c */
alu_bind_fn alu_bind_setp, alu_bind_set, alu_bind_selp, alu_bind_slct;

/* alu_warp.c */
alu_bind_fn alu_bind_shfl, alu_bind_vote, alu_bind_match, alu_bind_redux, alu_bind_activemask;

#endif
