/* cvt and cvt.pack (PTX ISA 9.7.9.21, 9.7.9.22).
 *
 * The general way takes a number apart and rounds it once to the destination's format, whatever the two types are. The
 * conversions that kernels are full of have a fast function each, chosen from a table. */
#include "alu.h"

/* ---- Types ---- */

static const struct alu_format *format_of(enum emu_type type)
{
    switch (type) {
    case EMU_F16:
    case EMU_F16X2:
        return &alu_f16;
    case EMU_BF16:
    case EMU_BF16X2:
        return &alu_bf16;
    case EMU_TF32:
        return &alu_tf32;
    case EMU_F32:
        return &alu_f32;
    case EMU_F64:
        return &alu_f64;
    case EMU_E4M3X2:
        return &alu_e4m3;
    case EMU_E5M2X2:
        return &alu_e5m2;
    default:
        return NULL;
    }
}

static bool is_integer(enum emu_type type)
{
    return type >= EMU_U8 && type <= EMU_S64;
}

static bool is_signed(enum emu_type type)
{
    return type >= EMU_S8 && type <= EMU_S64;
}

static uint64_t low_bits(uint64_t value, int bits)
{
    return bits == 64 ? value : value & ((1ull << bits) - 1);
}

/* The low bits of a value as a number of that type, extended to 64 bits. */
static uint64_t extend(uint64_t value, enum emu_type type)
{
    const int bits = emu_type_bits(type);
    const uint64_t low = low_bits(value, bits);
    const uint64_t sign = 1ull << (bits - 1);
    return is_signed(type) ? (low ^ sign) - sign : low;
}

/* ---- Numbers ---- */

static struct alu_number number_of_integer(uint64_t value, enum emu_type type)
{
    const uint64_t extended = extend(value, type);
    const bool negative = is_signed(type) && extended >> 63;
    return (struct alu_number){.negative = negative, .mantissa = negative ? 0 - extended : extended};
}

/* Rounded to an integer, out of range to the nearest end of the range (9.7.9.21, Integer Notes). */
static uint64_t integer_of_number(struct alu_number number, enum emu_type to, enum emu_type from,
                                  enum emu_rounding rounding)
{
    const int bits = emu_type_bits(to);
    if (number.nan) {
        return from != EMU_F64 && bits < 64 ? 0 : 1ull << (bits - 1);
    }
    const uint64_t most = is_signed(to) ? (1ull << (bits - 1)) - 1 : low_bits(~0ull, bits);
    const uint64_t least = is_signed(to) ? 1ull << (bits - 1) : 0; /* its magnitude */
    const uint64_t limit = number.negative ? least : most;
    uint64_t magnitude = limit;
    if (!number.infinite) {
        const int length = number.mantissa ? 64 - __builtin_clzll(number.mantissa) : 0;
        if (number.exponent <= 0) {
            magnitude = alu_shift_rounded(number.mantissa, -number.exponent, number.negative, rounding);
        } else if (length + number.exponent <= 64) {
            magnitude = number.mantissa << number.exponent;
        }
        magnitude = magnitude > limit ? limit : magnitude;
    }
    return number.negative ? 0 - magnitude : magnitude;
}

/* Rounded to a whole number that stays a floating-point number. */
static struct alu_number whole(struct alu_number number, enum emu_rounding rounding)
{
    if (!number.nan && !number.infinite && number.exponent < 0) {
        number.mantissa = alu_shift_rounded(number.mantissa, -number.exponent, number.negative, rounding);
        number.exponent = 0;
    }
    return number;
}

static struct alu_number saturate(struct alu_number number)
{
    const struct alu_number zero = {.nan = false}, one = {.mantissa = 1};
    if (number.nan || number.negative || (number.mantissa == 0 && !number.infinite)) {
        return zero;
    }
    const int length = number.infinite ? 0 : 64 - __builtin_clzll(number.mantissa);
    return number.infinite || length + number.exponent > 0 ? one : number;
}

static bool is_subnormal_f32(uint64_t bits)
{
    return !(bits & 0x7f800000u);
}

static bool rounds_to_integer(enum emu_rounding rounding)
{
    return rounding >= EMU_RNI;
}

/* Number to bits of a floating-point type, with the modifiers of the instruction. */
static uint64_t float_of_number(struct alu_number number, enum emu_type to, const struct emu_facts *facts)
{
    const enum emu_rounding rounding = (enum emu_rounding)facts->rounding;
    if (rounds_to_integer(rounding)) {
        number = whole(number, rounding);
    }
    if (facts->sat) {
        number = saturate(number);
    }
    if (facts->relu && number.negative && !number.nan) {
        number = (struct alu_number){.nan = false};
    }
    if (to == EMU_TF32) { /* the 19 upper bits of a register */
        return number.nan ? 0x7fffffff : alu_encode(number, &alu_tf32, rounding, facts->satfinite) << 13;
    }
    const uint64_t bits = alu_encode(number, format_of(to), rounding, facts->satfinite);
    return facts->ftz && to == EMU_F32 && is_subnormal_f32(bits) ? bits & 0x80000000u : bits;
}

static struct alu_number number_of_float(uint64_t bits, enum emu_type type, bool ftz)
{
    if (ftz && type == EMU_F32 && is_subnormal_f32(bits)) {
        bits &= 0x80000000u;
    }
    return alu_unpack(bits, format_of(type));
}

/* ---- The general conversions ---- */

ALU_EXEC(cvt_float)
{
    const enum emu_type to = (enum emu_type)instr->type, from = (enum emu_type)instr->type2;
    const struct emu_facts *facts = &instr->facts;
    uint64_t values[EMU_LANES];
    alu_read64(warp, &instr->operands[1], values);
    ALU_EACH_LANE(i)
    {
        const struct alu_number number =
            is_integer(from) ? number_of_integer(values[i], from)
                             : number_of_float(low_bits(values[i], emu_type_bits(from)), from, facts->ftz);
        values[i] = is_integer(to) ? integer_of_number(number, to, from, (enum emu_rounding)facts->rounding)
                                   : float_of_number(number, to, facts);
        if (is_integer(to)) {
            values[i] = extend(values[i], to);
        }
    }
    alu_store_any(warp, &instr->operands[0], values, mask);
    return EMU_NEXT;
}

/* Integers: extended by the source's type, clamped with .sat, cut to the destination's, extended to its register. */
static uint64_t clamp(uint64_t extended, enum emu_type to, enum emu_type from)
{
    const int bits = emu_type_bits(to);
    const bool negative = is_signed(from) && extended >> 63;
    const uint64_t most = is_signed(to) ? (1ull << (bits - 1)) - 1 : low_bits(~0ull, bits);
    if (!negative) {
        return extended > most ? most : extended;
    }
    const int64_t least = is_signed(to) ? -(int64_t)most - 1 : 0;
    return (int64_t)extended < least ? (uint64_t)least : extended;
}

ALU_EXEC(cvt_integer)
{
    const enum emu_type to = (enum emu_type)instr->type, from = (enum emu_type)instr->type2;
    uint64_t values[EMU_LANES];
    alu_read64(warp, &instr->operands[1], values);
    ALU_EACH_LANE(i)
    {
        const uint64_t extended = extend(values[i], from);
        values[i] = extend(instr->facts.sat ? clamp(extended, to, from) : extended, to);
    }
    alu_store_any(warp, &instr->operands[0], values, mask);
    return EMU_NEXT;
}

/* ---- Fast ones: both registers as wide as the types (8 bits aside), no modifier ---- */

#define EXEC_FAST(name, TO, FROM, expression)                                                                          \
    ALU_EXEC(name)                                                                                                     \
    {                                                                                                                  \
        uint##FROM##_t spare[EMU_LANES];                                                                               \
        uint##TO##_t values[EMU_LANES];                                                                                \
        const uint##FROM##_t *row = emu_source##FROM(warp, &instr->operands[1], spare);                                \
        ALU_EACH_LANE(i)                                                                                               \
        {                                                                                                              \
            const uint##FROM##_t a = row[i];                                                                           \
            values[i] = expression;                                                                                    \
        }                                                                                                              \
        emu_store##TO(warp, &instr->operands[0], values, mask);                                                        \
        return EMU_NEXT;                                                                                               \
    }

/* f32 to bf16, nearest even: half a unit added, one less for a tie that would become odd. */
static inline uint32_t bf16_of_bits(uint32_t bits)
{
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : rounded;
}

static inline uint32_t f16_of_bits(uint32_t bits)
{
    return alu_f16_of_double((double)alu_float_of_bits(bits));
}

/* Towards zero, a NaN to zero, the rest to the ends of the range. */
static inline uint32_t s32_of_bits(uint32_t bits)
{
    const double value = (double)alu_float_of_bits(bits);
    const double low = value > -0x1p31 ? value : -0x1p31;
    const double clamped = low < 0x7fffffff ? low : 0x7fffffff;
    return value == value ? (uint32_t)(int32_t)clamped : 0;
}

EXEC_FAST(s32_of_f32, 32, 32, s32_of_bits(a))
EXEC_FAST(f32_of_s32, 32, 32, alu_bits_of_float((float)(int32_t)a))
EXEC_FAST(f32_of_u32, 32, 32, alu_bits_of_float((float)a))
EXEC_FAST(f64_of_s32, 64, 32, alu_bits_of_double((double)(int32_t)a))
EXEC_FAST(f64_of_u32, 64, 32, alu_bits_of_double((double)a))
EXEC_FAST(f64_of_f32, 64, 32, alu_bits_of_double((double)alu_float_of_bits(a)))
EXEC_FAST(f32_of_f64, 32, 64, alu_bits_of_float((float)alu_double_of_bits(a)))
/* A NaN keeps no payload (H200), unlike one of bf16. */
static inline uint32_t f32_of_f16_bits(uint32_t half)
{
    return (half & 0x7fff) > 0x7c00 ? 0x7fffffff : alu_bits_of_float((float)alu_double_of_f16((uint16_t)half));
}

EXEC_FAST(f32_of_f16, 32, 32, f32_of_f16_bits(a))
EXEC_FAST(f32_of_bf16, 32, 32, a << 16)
EXEC_FAST(bf16_of_f32, 32, 32, bf16_of_bits(a))
EXEC_FAST(f16_of_f32, 32, 32, f16_of_bits(a))
EXEC_FAST(s64_of_s32, 64, 32, (uint64_t)(int64_t)(int32_t)a)
EXEC_FAST(u64_of_u32, 64, 32, (uint64_t)a)
EXEC_FAST(u32_of_u64, 32, 64, (uint32_t)a)
EXEC_FAST(u16_of_u32, 32, 32, a & 0xffff)
EXEC_FAST(u64_of_u16, 64, 32, (uint64_t)(a & 0xffff))
EXEC_FAST(u32_of_u16, 32, 32, a & 0xffff)
EXEC_FAST(s32_of_s16, 32, 32, (uint32_t)(int32_t)(int16_t)(uint16_t)a)

static const struct fast {
    enum emu_type to, from;
    enum emu_rounding rounding;
    emu_exec_fn exec;
} fast_ones[] = {
    {EMU_F32, EMU_S32, EMU_RN, f32_of_s32},   {EMU_F32, EMU_U32, EMU_RN, f32_of_u32},
    {EMU_F64, EMU_S32, EMU_RN, f64_of_s32},   {EMU_F64, EMU_U32, EMU_RN, f64_of_u32},
    {EMU_F64, EMU_F32, EMU_RN, f64_of_f32},   {EMU_F32, EMU_F64, EMU_RN, f32_of_f64},
    {EMU_F32, EMU_F16, EMU_RN, f32_of_f16},   {EMU_F32, EMU_BF16, EMU_RN, f32_of_bf16},
    {EMU_BF16, EMU_F32, EMU_RN, bf16_of_f32}, {EMU_F16, EMU_F32, EMU_RN, f16_of_f32},
    {EMU_S64, EMU_S32, EMU_RN, s64_of_s32},   {EMU_U64, EMU_S32, EMU_RN, s64_of_s32},
    {EMU_U64, EMU_U32, EMU_RN, u64_of_u32},   {EMU_S64, EMU_U32, EMU_RN, u64_of_u32},
    {EMU_U32, EMU_U64, EMU_RN, u32_of_u64},   {EMU_S32, EMU_U64, EMU_RN, u32_of_u64},
    {EMU_U32, EMU_S64, EMU_RN, u32_of_u64},   {EMU_S32, EMU_S64, EMU_RN, u32_of_u64},
    {EMU_U32, EMU_U16, EMU_RN, u32_of_u16},   {EMU_S32, EMU_U16, EMU_RN, u32_of_u16},
    {EMU_U16, EMU_U32, EMU_RN, u16_of_u32},   {EMU_U16, EMU_S32, EMU_RN, u16_of_u32},
    {EMU_S16, EMU_U32, EMU_RN, u16_of_u32},   {EMU_S16, EMU_S32, EMU_RN, u16_of_u32},
    {EMU_U64, EMU_U16, EMU_RN, u64_of_u16},   {EMU_S64, EMU_U16, EMU_RN, u64_of_u16},
    {EMU_S32, EMU_F32, EMU_RZI, s32_of_f32},  {EMU_S32, EMU_S16, EMU_RN, s32_of_s16},
    {EMU_U32, EMU_S16, EMU_RN, s32_of_s16},
};

static bool is_plain(const struct emu_instr *instr)
{
    const struct emu_facts *facts = &instr->facts;
    const struct emu_operand *to = &instr->operands[0], *from = &instr->operands[1];
    return !facts->ftz && !facts->sat && !facts->relu && !facts->satfinite && to->kind == EMU_OP_REG &&
           to->bits == emu_type_bits((enum emu_type)instr->type) &&
           (from->kind != EMU_OP_REG || from->bits == emu_type_bits((enum emu_type)instr->type2));
}

/* ---- Which roundings a pair of types needs (9.7.9.21) ---- */

/* Of a floating-point type, whether all of another one's values are its own. */
static bool holds(const struct alu_format *format, const struct alu_format *other)
{
    return format->mantissa_bits >= other->mantissa_bits && format->exponent_bits >= other->exponent_bits;
}

static bool check_rounding(const struct emu_bind *bind)
{
    const enum emu_type to = (enum emu_type)bind->instr->type, from = (enum emu_type)bind->instr->type2;
    const bool stated = bind->tokens[0][0] == 'r';
    const bool integer_rounding = stated && rounds_to_integer((enum emu_rounding)bind->instr->facts.rounding);
    const struct alu_format *to_format = format_of(to), *from_format = format_of(from);
    if (!to_format && !from_format) {
        return !stated || alu_refuse(bind, "a conversion between integers is not rounded");
    }
    if (!to_format) {
        return integer_rounding || alu_refuse(bind, "to an integer: .rni, .rzi, .rmi or .rpi is needed");
    }
    if (integer_rounding) {
        return to == from || alu_refuse(bind, "a rounding to whole numbers keeps the type");
    }
    if (!from_format || !holds(to_format, from_format)) {
        return stated || alu_refuse(bind, "the result may be inexact: a rounding is needed");
    }
    return true;
}

bool alu_bind_cvt(const struct emu_bind *bind)
{
    alu_begin(bind);
    struct emu_instr *instr = bind->instr;
    const enum emu_type to = (enum emu_type)instr->type, from = (enum emu_type)instr->type2;
    if (!check_rounding(bind) || !alu_finish_wide(bind, 0, to) || !alu_finish_wide(bind, 1, from)) {
        return false;
    }
    instr->exec = format_of(to) || format_of(from) ? cvt_float : cvt_integer;
    for (size_t i = 0; i < sizeof fast_ones / sizeof *fast_ones; i++) {
        const struct fast *fast = &fast_ones[i];
        if (fast->to == to && fast->from == from && fast->rounding == instr->facts.rounding && is_plain(instr)) {
            instr->exec = fast->exec;
        }
    }
    return true;
}

/* ---- Two numbers into one register: the first source goes to the upper half ---- */

/* ue8m0 is a power of two, 2^(bits - 127), 0xff a NaN. The sign is dropped; nothing below 2^-127 is rounded up. */
static uint32_t ue8m0_of_f32(uint32_t bits, enum emu_rounding rounding, bool satfinite)
{
    const uint32_t magnitude = bits & 0x7fffffff;
    uint32_t result = magnitude >> 23;
    if (magnitude > 0x7f800000) {
        return 0xff;
    }
    if (rounding == EMU_RP && (magnitude & 0x7fffff) && magnitude > 0x00400000) {
        result++;
    }
    return satfinite && result == 0xff ? 0xfe : result;
}

/* Of f32 bits, one element of a packed type. */
static uint32_t narrow(uint32_t bits, enum emu_type to, const struct emu_facts *facts)
{
    if (to == EMU_UE8M0X2) {
        return ue8m0_of_f32(bits, (enum emu_rounding)facts->rounding, facts->satfinite);
    }
    return (uint32_t)float_of_number(alu_unpack(bits, &alu_f32), to, facts);
}

static int element_bits(enum emu_type type)
{
    return emu_type_bits(type) / 2;
}

#define EXEC_TWO(name, high, low)                                                                                      \
    ALU_EXEC(name)                                                                                                     \
    {                                                                                                                  \
        uint32_t spare_a[EMU_LANES], spare_b[EMU_LANES], values[EMU_LANES];                                            \
        const uint32_t *as = emu_source32(warp, &instr->operands[1], spare_a);                                         \
        const uint32_t *bs = emu_source32(warp, &instr->operands[2], spare_b);                                         \
        const enum emu_type to = (enum emu_type)instr->type;                                                           \
        const int bits = element_bits(to);                                                                             \
        ALU_EACH_LANE(i) values[i] = (high) << bits | (low);                                                           \
        emu_store32(warp, &instr->operands[0], values, mask);                                                          \
        return EMU_NEXT;                                                                                               \
    }
EXEC_TWO(cvt_two, narrow(as[i], to, &instr->facts), narrow(bs[i], to, &instr->facts))
EXEC_TWO(bf16x2_of_f32, bf16_of_bits(as[i]), bf16_of_bits(bs[i]))
EXEC_TWO(f16x2_of_f32, f16_of_bits(as[i]), f16_of_bits(bs[i]))

bool alu_bind_cvt_two(const struct emu_bind *bind)
{
    const enum emu_type to = alu_begin(bind);
    const struct emu_facts *facts = &bind->instr->facts;
    const bool plain = facts->rounding == EMU_RN && !facts->relu && !facts->satfinite;
    bind->instr->exec = plain && to == EMU_BF16X2 ? bf16x2_of_f32 : plain && to == EMU_F16X2 ? f16x2_of_f32 : cvt_two;
    return ALU_FINISH(bind, to, EMU_F32, EMU_F32);
}

/* ---- From one packed type to another, element by element ---- */

static uint32_t convert_element(uint32_t bits, enum emu_type to, enum emu_type from, const struct emu_facts *facts)
{
    if (from == EMU_UE8M0X2) { /* 2^-127 is a subnormal bf16 */
        return bits == 0xff ? 0x7fff : bits == 0 ? 0x0040 : bits << 7;
    }
    if (to == EMU_UE8M0X2) {
        return narrow(bits << 16, to, facts);
    }
    return (uint32_t)float_of_number(alu_unpack(bits, format_of(from)), to, facts);
}

ALU_EXEC(cvt_unpack)
{
    const enum emu_type to = (enum emu_type)instr->type, from = (enum emu_type)instr->type2;
    const int from_bits = element_bits(from), to_bits = element_bits(to);
    const uint32_t low = (1u << from_bits) - 1;
    uint32_t spare[EMU_LANES], values[EMU_LANES];
    const uint32_t *row = emu_source32(warp, &instr->operands[1], spare);
    ALU_EACH_LANE(i)
    {
        values[i] = convert_element(row[i] >> from_bits & low, to, from, &instr->facts) << to_bits |
                    convert_element(row[i] & low, to, from, &instr->facts);
    }
    emu_store32(warp, &instr->operands[0], values, mask);
    return EMU_NEXT;
}

/* To f16 without a modifier, on the bits. e4m3 has a bias of 7 for f16's 15, and eight subnormals that become normal.
 */
static inline uint32_t f16_of_e4m3(uint32_t byte)
{
    static const uint16_t subnormals[8] = {0, 0x1800, 0x1c00, 0x1e00, 0x2000, 0x2100, 0x2200, 0x2300};
    const uint32_t magnitude = byte & 0x7f, sign = (byte & 0x80) << 8;
    const uint32_t number = magnitude < 8 ? subnormals[magnitude] : (magnitude << 7) + (8 << 10);
    return magnitude == 0x7f ? 0x7fff : sign | number;
}

/* e5m2 is the upper half of an f16. */
static inline uint32_t f16_of_e5m2(uint32_t byte)
{
    return (byte & 0x7f) > 0x7c ? 0x7fff : byte << 8;
}

EXEC_FAST(f16x2_of_e4m3x2, 32, 32, f16_of_e4m3(a >> 8 & 0xff) << 16 | f16_of_e4m3(a & 0xff))
EXEC_FAST(f16x2_of_e5m2x2, 32, 32, f16_of_e5m2(a >> 8 & 0xff) << 16 | f16_of_e5m2(a & 0xff))

bool alu_bind_cvt_unpack(const struct emu_bind *bind)
{
    const enum emu_type to = alu_begin(bind);
    bind->instr->exec = cvt_unpack;
    if (to == EMU_F16X2 && !bind->instr->facts.relu) {
        bind->instr->exec = bind->instr->type2 == EMU_E4M3X2 ? f16x2_of_e4m3x2 : f16x2_of_e5m2x2;
    }
    return ALU_FINISH(bind, to, (enum emu_type)bind->instr->type2);
}

/* ---- cvt.pack: facts.mode is the width of an element; instr->type its type, u2 to s4 by sign alone ---- */

static uint32_t clamp_to_bits(int32_t value, int bits, bool to_signed)
{
    const int32_t most = (1 << (to_signed ? bits - 1 : bits)) - 1;
    const int32_t least = to_signed ? -most - 1 : 0;
    const int32_t clamped = value < least ? least : value > most ? most : value;
    return (uint32_t)clamped & ((1u << bits) - 1);
}

ALU_EXEC(cvt_pack)
{
    uint32_t spare_a[EMU_LANES], spare_b[EMU_LANES], spare_c[EMU_LANES], values[EMU_LANES];
    const uint32_t *as = emu_source32(warp, &instr->operands[1], spare_a);
    const uint32_t *bs = emu_source32(warp, &instr->operands[2], spare_b);
    const int bits = instr->facts.mode;
    const bool to_signed = instr->facts.number;
    ALU_EACH_LANE(i)
    {
        values[i] =
            clamp_to_bits((int32_t)as[i], bits, to_signed) << bits | clamp_to_bits((int32_t)bs[i], bits, to_signed);
    }
    if (instr->operand_count > 3) {
        const uint32_t *cs = emu_source32(warp, &instr->operands[3], spare_c);
        ALU_EACH_LANE(i) values[i] |= cs[i] << (2 * bits);
    }
    emu_store32(warp, &instr->operands[0], values, mask);
    return EMU_NEXT;
}

bool alu_bind_cvt_pack(const struct emu_bind *bind)
{
    static const struct {
        const char *name;
        uint8_t bits;
        bool is_signed;
    } elements[] = {{"u2", 2, false}, {"s2", 2, true}, {"u4", 4, false},   {"s4", 4, true},
                    {"u8", 8, false}, {"s8", 8, true}, {"u16", 16, false}, {"s16", 16, true}};
    alu_begin(bind);
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++) {
        if (alu_has(bind, elements[i].name)) {
            bind->instr->facts.mode = elements[i].bits;
            bind->instr->facts.number = elements[i].is_signed;
        }
    }
    bind->instr->exec = cvt_pack;
    return ALU_FINISH(bind, EMU_B32, EMU_S32, EMU_S32, EMU_B32);
}
