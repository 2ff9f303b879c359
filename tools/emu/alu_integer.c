/* Integer arithmetic, logic and shifts (PTX ISA 9.7.1, 9.7.2, 9.7.8). */
#include <string.h>

#include "alu.h"

__extension__ typedef unsigned __int128 uint128;
__extension__ typedef __int128 int128;

/* ---- Templates: W is the width of a row (32 or 64), T how the instruction reads it, U the unsigned result ---- */

#define EXEC1(name, W, T, U, expression)                                                                               \
    ALU_EXEC(name)                                                                                                     \
    {                                                                                                                  \
        uint##W##_t spare[EMU_LANES], values[EMU_LANES];                                                               \
        const uint##W##_t *as = emu_source##W(warp, &instr->operands[1], spare);                                       \
        ALU_EACH_LANE(i)                                                                                               \
        {                                                                                                              \
            const T a = (T)as[i];                                                                                      \
            values[i] = (U)(expression);                                                                               \
        }                                                                                                              \
        emu_store##W(warp, &instr->operands[0], values, mask);                                                         \
        return EMU_NEXT;                                                                                               \
    }

#define EXEC2(name, W, T, U, expression)                                                                               \
    ALU_EXEC(name)                                                                                                     \
    {                                                                                                                  \
        uint##W##_t spare_a[EMU_LANES], spare_b[EMU_LANES], values[EMU_LANES];                                         \
        const uint##W##_t *as = emu_source##W(warp, &instr->operands[1], spare_a);                                     \
        const uint##W##_t *bs = emu_source##W(warp, &instr->operands[2], spare_b);                                     \
        ALU_EACH_LANE(i)                                                                                               \
        {                                                                                                              \
            const T a = (T)as[i];                                                                                      \
            const T b = (T)bs[i];                                                                                      \
            values[i] = (U)(expression);                                                                               \
        }                                                                                                              \
        emu_store##W(warp, &instr->operands[0], values, mask);                                                         \
        return EMU_NEXT;                                                                                               \
    }

#define EXEC3(name, W, T, U, expression)                                                                               \
    ALU_EXEC(name)                                                                                                     \
    {                                                                                                                  \
        uint##W##_t spare_a[EMU_LANES], spare_b[EMU_LANES], spare_c[EMU_LANES], values[EMU_LANES];                     \
        const uint##W##_t *as = emu_source##W(warp, &instr->operands[1], spare_a);                                     \
        const uint##W##_t *bs = emu_source##W(warp, &instr->operands[2], spare_b);                                     \
        const uint##W##_t *cs = emu_source##W(warp, &instr->operands[3], spare_c);                                     \
        ALU_EACH_LANE(i)                                                                                               \
        {                                                                                                              \
            const T a = (T)as[i];                                                                                      \
            const T b = (T)bs[i];                                                                                      \
            const T c = (T)cs[i];                                                                                      \
            values[i] = (U)(expression);                                                                               \
        }                                                                                                              \
        emu_store##W(warp, &instr->operands[0], values, mask);                                                         \
        return EMU_NEXT;                                                                                               \
    }

/* An instruction whose low result bits do not depend on signs: unsigned arithmetic for all types, cut to the width. */
#define EACH_WIDTH(EXEC, name, expression)                                                                             \
    EXEC(name##_16, 32, uint32_t, uint16_t, expression)                                                                \
    EXEC(name##_32, 32, uint32_t, uint32_t, expression)                                                                \
    EXEC(name##_64, 64, uint64_t, uint64_t, expression)                                                                \
    static emu_exec_fn name##_of(enum emu_type type)                                                                   \
    {                                                                                                                  \
        switch (emu_type_bits(type)) {                                                                                 \
        case 16:                                                                                                       \
            return name##_16;                                                                                          \
        case 32:                                                                                                       \
            return name##_32;                                                                                          \
        default:                                                                                                       \
            return name##_64;                                                                                          \
        }                                                                                                              \
    }

/* One function a type: EXPRESSION(T, U, wide T, bits). */
#define EACH_TYPE(EXEC, name, EXPRESSION)                                                                              \
    EXEC(name##_u16, 32, uint16_t, uint16_t, EXPRESSION(uint16_t, uint16_t, uint32_t, 16))                             \
    EXEC(name##_s16, 32, int16_t, uint16_t, EXPRESSION(int16_t, uint16_t, int32_t, 16))                                \
    EXEC(name##_u32, 32, uint32_t, uint32_t, EXPRESSION(uint32_t, uint32_t, uint64_t, 32))                             \
    EXEC(name##_s32, 32, int32_t, uint32_t, EXPRESSION(int32_t, uint32_t, int64_t, 32))                                \
    EXEC(name##_u64, 64, uint64_t, uint64_t, EXPRESSION(uint64_t, uint64_t, uint128, 64))                              \
    EXEC(name##_s64, 64, int64_t, uint64_t, EXPRESSION(int64_t, uint64_t, int128, 64))                                 \
    static emu_exec_fn name##_of(enum emu_type type)                                                                   \
    {                                                                                                                  \
        switch (type) {                                                                                                \
        case EMU_S16:                                                                                                  \
            return name##_s16;                                                                                         \
        case EMU_U16:                                                                                                  \
        case EMU_B16:                                                                                                  \
            return name##_u16;                                                                                         \
        case EMU_S32:                                                                                                  \
            return name##_s32;                                                                                         \
        case EMU_U32:                                                                                                  \
        case EMU_B32:                                                                                                  \
            return name##_u32;                                                                                         \
        case EMU_S64:                                                                                                  \
            return name##_s64;                                                                                         \
        default:                                                                                                       \
            return name##_u64;                                                                                         \
        }                                                                                                              \
    }

/* The bind function of an instruction: which function for the type, and the types of the operands in terms of TYPE. */
#define BIND(name, pick, ...)                                                                                          \
    bool alu_bind_##name(const struct emu_bind *bind)                                                                  \
    {                                                                                                                  \
        const enum emu_type TYPE = alu_begin(bind);                                                                    \
        (void)TYPE;                                                                                                    \
        bind->instr->exec = pick;                                                                                      \
        return ALU_FINISH(bind, __VA_ARGS__);                                                                          \
    }

/* ---- add, sub, mul, mad, sad (9.7.1.1 to 9.7.1.7) ---- */

EACH_WIDTH(EXEC2, add, a + b)
EACH_WIDTH(EXEC2, sub, a - b)
EACH_WIDTH(EXEC2, mul_lo, a *b)
EACH_WIDTH(EXEC3, mad_lo, a *b + c)
BIND(add, add_of(TYPE), TYPE, TYPE, TYPE)
BIND(sub, sub_of(TYPE), TYPE, TYPE, TYPE)
BIND(mul_lo, mul_lo_of(TYPE), TYPE, TYPE, TYPE)
BIND(mad_lo, mad_lo_of(TYPE), TYPE, TYPE, TYPE, TYPE)

static inline uint32_t saturate32(int64_t value)
{
    return (uint32_t)(value < INT32_MIN ? INT32_MIN : value > INT32_MAX ? INT32_MAX : value);
}

EXEC2(add_sat_s32, 32, int32_t, uint32_t, saturate32((int64_t)a + b))
EXEC2(sub_sat_s32, 32, int32_t, uint32_t, saturate32((int64_t)a - b))
EXEC3(mad_hi_sat_s32, 32, int32_t, uint32_t, saturate32(((int64_t)a * b >> 32) + c))
BIND(add_sat, add_sat_s32, TYPE, TYPE, TYPE)
BIND(sub_sat, sub_sat_s32, TYPE, TYPE, TYPE)
BIND(mad_hi_sat, mad_hi_sat_s32, TYPE, TYPE, TYPE, TYPE)

#define PRODUCT_HIGH(T, U, WIDE, bits) (U)((WIDE)a * (WIDE)b >> bits)
#define PRODUCT_HIGH_PLUS(T, U, WIDE, bits) (U)((WIDE)a * (WIDE)b >> bits) + (U)c
EACH_TYPE(EXEC2, mul_hi, PRODUCT_HIGH)
EACH_TYPE(EXEC3, mad_hi, PRODUCT_HIGH_PLUS)
BIND(mul_hi, mul_hi_of(TYPE), TYPE, TYPE, TYPE)
BIND(mad_hi, mad_hi_of(TYPE), TYPE, TYPE, TYPE, TYPE)

#define SUM_OF_DIFFERENCE(T, U, WIDE, bits) (U) c + (U)(a < b ? (U)b - (U)a : (U)a - (U)b)
EACH_TYPE(EXEC3, sad, SUM_OF_DIFFERENCE)
BIND(sad, sad_of(TYPE), TYPE, TYPE, TYPE, TYPE)

/* .wide: sources of half the result's width (9.7.1.3). From 32 bits the rows differ in width too. */
EXEC2(mul_wide_u16, 32, uint16_t, uint32_t, (uint32_t)a *b)
EXEC2(mul_wide_s16, 32, int16_t, uint32_t, (int32_t)a *b)

#define WIDE32(name, T, WIDE, is_mad)                                                                                  \
    ALU_EXEC(name)                                                                                                     \
    {                                                                                                                  \
        uint32_t spare_a[EMU_LANES], spare_b[EMU_LANES];                                                               \
        uint64_t spare_c[EMU_LANES], values[EMU_LANES];                                                                \
        const uint32_t *as = emu_source32(warp, &instr->operands[1], spare_a);                                         \
        const uint32_t *bs = emu_source32(warp, &instr->operands[2], spare_b);                                         \
        ALU_EACH_LANE(i) values[i] = (uint64_t)((WIDE)(T)as[i] * (T)bs[i]);                                            \
        if (is_mad) {                                                                                                  \
            const uint64_t *cs = emu_source64(warp, &instr->operands[3], spare_c);                                     \
            ALU_EACH_LANE(i) values[i] += cs[i];                                                                       \
        }                                                                                                              \
        emu_store64(warp, &instr->operands[0], values, mask);                                                          \
        return EMU_NEXT;                                                                                               \
    }
WIDE32(mul_wide_u32, uint32_t, uint64_t, false)
WIDE32(mul_wide_s32, int32_t, int64_t, false)
WIDE32(mad_wide_u32, uint32_t, uint64_t, true)
WIDE32(mad_wide_s32, int32_t, int64_t, true)

#define MAD_WIDE16(name, T, WIDE)                                                                                      \
    ALU_EXEC(name)                                                                                                     \
    {                                                                                                                  \
        uint32_t spare_a[EMU_LANES], spare_b[EMU_LANES], spare_c[EMU_LANES], values[EMU_LANES];                        \
        const uint32_t *as = emu_source32(warp, &instr->operands[1], spare_a);                                         \
        const uint32_t *bs = emu_source32(warp, &instr->operands[2], spare_b);                                         \
        const uint32_t *cs = emu_source32(warp, &instr->operands[3], spare_c);                                         \
        ALU_EACH_LANE(i) values[i] = (uint32_t)((WIDE)(T)as[i] * (T)bs[i]) + cs[i];                                    \
        emu_store32(warp, &instr->operands[0], values, mask);                                                          \
        return EMU_NEXT;                                                                                               \
    }
MAD_WIDE16(mad_wide_u16, uint16_t, uint32_t)
MAD_WIDE16(mad_wide_s16, int16_t, int32_t)

static enum emu_type wide_type(enum emu_type type)
{
    return emu_type_bits(type) == 16 ? EMU_B32 : EMU_B64;
}

static emu_exec_fn wide_of(enum emu_type type, emu_exec_fn u16, emu_exec_fn s16, emu_exec_fn u32, emu_exec_fn s32)
{
    return type == EMU_U16 ? u16 : type == EMU_S16 ? s16 : type == EMU_U32 ? u32 : s32;
}

BIND(mul_wide, wide_of(TYPE, mul_wide_u16, mul_wide_s16, mul_wide_u32, mul_wide_s32), wide_type(TYPE), TYPE, TYPE)
BIND(mad_wide, wide_of(TYPE, mad_wide_u16, mad_wide_s16, mad_wide_u32, mad_wide_s32), wide_type(TYPE), TYPE, TYPE,
     wide_type(TYPE))

/* mul24, mad24 (9.7.1.5, 9.7.1.6): 24-bit sources; .lo bits 31..0 and .hi bits 47..16 of the 48-bit product. */
static inline int64_t signed24(int32_t value)
{
    return (int32_t)((uint32_t)value << 8) >> 8;
}

static inline uint64_t unsigned24(uint32_t value)
{
    return value & 0xffffffu;
}

EXEC2(mul24_lo_u32, 32, uint32_t, uint32_t, unsigned24(a) * unsigned24(b))
EXEC2(mul24_lo_s32, 32, int32_t, uint32_t, signed24(a) * signed24(b))
EXEC2(mul24_hi_u32, 32, uint32_t, uint32_t, unsigned24(a) * unsigned24(b) >> 16)
EXEC2(mul24_hi_s32, 32, int32_t, uint32_t, signed24(a) * signed24(b) >> 16)
EXEC3(mad24_lo_u32, 32, uint32_t, uint32_t, unsigned24(a) * unsigned24(b) + c)
EXEC3(mad24_lo_s32, 32, int32_t, uint32_t, signed24(a) * signed24(b) + c)
EXEC3(mad24_hi_u32, 32, uint32_t, uint32_t, (unsigned24(a) * unsigned24(b) >> 16) + c)
EXEC3(mad24_hi_s32, 32, int32_t, uint32_t, (signed24(a) * signed24(b) >> 16) + c)
EXEC3(mad24_hi_sat_s32, 32, int32_t, uint32_t,
      saturate32((int64_t)(int32_t)(signed24(a) * signed24(b) >> 16) + (int64_t)c))

static emu_exec_fn mul24_of(const struct emu_bind *bind, enum emu_type type)
{
    if (alu_has(bind, "hi")) {
        return type == EMU_U32 ? mul24_hi_u32 : mul24_hi_s32;
    }
    return type == EMU_U32 ? mul24_lo_u32 : mul24_lo_s32;
}

static emu_exec_fn mad24_of(const struct emu_bind *bind, enum emu_type type)
{
    if (alu_has(bind, "sat")) {
        return mad24_hi_sat_s32;
    }
    if (alu_has(bind, "hi")) {
        return type == EMU_U32 ? mad24_hi_u32 : mad24_hi_s32;
    }
    return type == EMU_U32 ? mad24_lo_u32 : mad24_lo_s32;
}

BIND(mul24, mul24_of(bind, TYPE), TYPE, TYPE, TYPE)
BIND(mad24, mad24_of(bind, TYPE), TYPE, TYPE, TYPE, TYPE)

/* ---- Two 16-bit integers in a register (9.7.1.1, 9.7.1.12, 9.7.1.13) ---- */

static inline uint32_t halves(uint32_t low, uint32_t high)
{
    return (low & 0xffff) | high << 16;
}

static inline int32_t low_s16(uint32_t value)
{
    return (int16_t)(uint16_t)value;
}

static inline int32_t high_s16(uint32_t value)
{
    return (int16_t)(uint16_t)(value >> 16);
}

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

EXEC2(add_x2, 32, uint32_t, uint32_t, halves(a + b, (a >> 16) + (b >> 16)))
EXEC2(min_u16x2, 32, uint32_t, uint32_t, halves(MIN(a & 0xffff, b & 0xffff), MIN(a >> 16, b >> 16)))
EXEC2(max_u16x2, 32, uint32_t, uint32_t, halves(MAX(a & 0xffff, b & 0xffff), MAX(a >> 16, b >> 16)))
EXEC2(min_s16x2, 32, uint32_t, uint32_t,
      halves((uint32_t)MIN(low_s16(a), low_s16(b)), (uint32_t)MIN(high_s16(a), high_s16(b))))
EXEC2(max_s16x2, 32, uint32_t, uint32_t,
      halves((uint32_t)MAX(low_s16(a), low_s16(b)), (uint32_t)MAX(high_s16(a), high_s16(b))))
EXEC2(min_relu_s16x2, 32, uint32_t, uint32_t,
      halves((uint32_t)MAX(0, MIN(low_s16(a), low_s16(b))), (uint32_t)MAX(0, MIN(high_s16(a), high_s16(b)))))
EXEC2(max_relu_s16x2, 32, uint32_t, uint32_t,
      halves((uint32_t)MAX(0, MAX(low_s16(a), low_s16(b))), (uint32_t)MAX(0, MAX(high_s16(a), high_s16(b)))))

static emu_exec_fn x2_of(const struct emu_bind *bind, emu_exec_fn u16, emu_exec_fn s16, emu_exec_fn relu)
{
    return alu_has(bind, "relu") ? relu : alu_has(bind, "u16x2") ? u16 : s16;
}

#define BIND_X2(name, pick)                                                                                            \
    bool alu_bind_##name(const struct emu_bind *bind)                                                                  \
    {                                                                                                                  \
        alu_begin(bind);                                                                                               \
        bind->instr->type = EMU_B32;                                                                                   \
        bind->instr->exec = pick;                                                                                      \
        return ALU_FINISH(bind, EMU_B32, EMU_B32, EMU_B32);                                                            \
    }
BIND_X2(add_x2, add_x2)
BIND_X2(min_x2, x2_of(bind, min_u16x2, min_s16x2, min_relu_s16x2))
BIND_X2(max_x2, x2_of(bind, max_u16x2, max_s16x2, max_relu_s16x2))

/* ---- Carry chains (9.7.2): facts.mode says what an instruction does with CC.CF ---- */

enum { CARRY_IN = 1, CARRY_OUT = 2, CARRY_SUBTRACTS = 4, CARRY_MULTIPLIES = 8, CARRY_HIGH = 16 };

#define CARRY_EXEC(name, W, WIDE, T)                                                                                   \
    ALU_EXEC(name)                                                                                                     \
    {                                                                                                                  \
        uint##W##_t spare_a[EMU_LANES], spare_b[EMU_LANES], spare_c[EMU_LANES], values[EMU_LANES];                     \
        uint8_t carries[EMU_LANES];                                                                                    \
        const unsigned mode = instr->facts.mode;                                                                       \
        const bool multiplies = mode & CARRY_MULTIPLIES;                                                               \
        const uint32_t carry_in = mode & CARRY_IN ? warp->carry : 0;                                                   \
        const uint##W##_t *as = emu_source##W(warp, &instr->operands[1], spare_a);                                     \
        const uint##W##_t *bs = emu_source##W(warp, &instr->operands[2], spare_b);                                     \
        const uint##W##_t *cs = multiplies ? emu_source##W(warp, &instr->operands[3], spare_c) : bs;                   \
        ALU_EACH_LANE(i)                                                                                               \
        {                                                                                                              \
            uint##W##_t a = as[i];                                                                                     \
            if (multiplies) {                                                                                          \
                const WIDE product = (WIDE)(T)as[i] * (WIDE)(T)bs[i];                                                  \
                a = (uint##W##_t)(mode & CARRY_HIGH ? product >> W : product);                                         \
            }                                                                                                          \
            const uint##W##_t b = cs[i], carry = carry_in >> i & 1;                                                    \
            if (mode & CARRY_SUBTRACTS) {                                                                              \
                values[i] = a - b - carry;                                                                             \
                carries[i] = a < b || (a == b && carry);                                                               \
            } else {                                                                                                   \
                values[i] = a + b + carry;                                                                             \
                carries[i] = values[i] < a || (values[i] == a && carry);                                               \
            }                                                                                                          \
        }                                                                                                              \
        emu_store##W(warp, &instr->operands[0], values, mask);                                                         \
        if (mode & CARRY_OUT) {                                                                                        \
            warp->carry = (warp->carry & ~mask) | (alu_pack(carries) & mask);                                          \
        }                                                                                                              \
        return EMU_NEXT;                                                                                               \
    }
CARRY_EXEC(carry_u32, 32, uint64_t, uint32_t)
CARRY_EXEC(carry_s32, 32, int64_t, int32_t)
CARRY_EXEC(carry_u64, 64, uint128, uint64_t)
CARRY_EXEC(carry_s64, 64, int128, int64_t)

bool alu_bind_carry(const struct emu_bind *bind)
{
    const enum emu_type type = alu_begin(bind);
    const char *name = bind->instr->text;
    const bool multiplies = strncmp(name, "mad", 3) == 0;
    unsigned mode = multiplies ? CARRY_MULTIPLIES : 0;
    mode |= alu_has(bind, "cc") ? CARRY_OUT : 0;
    mode |= alu_has(bind, "hi") ? CARRY_HIGH : 0;
    mode |= strncmp(name, "sub", 3) == 0 ? CARRY_SUBTRACTS : 0;
    mode |= name[3] == 'c' ? CARRY_IN : 0; /* addc, subc, madc */
    bind->instr->facts.mode = (uint8_t)mode;
    bind->instr->exec = type == EMU_U32   ? carry_u32
                        : type == EMU_S32 ? carry_s32
                        : type == EMU_U64 ? carry_u64
                                          : carry_s64;
    return multiplies ? ALU_FINISH(bind, type, type, type, type) : ALU_FINISH(bind, type, type, type);
}

/* ---- div, rem, abs, neg, min, max (9.7.1.8 to 9.7.1.13) ---- */

/* By zero the ISA leaves the value open; we give all ones for a quotient and the dividend as remainder. The one
 * quotient that overflows, the smallest number by -1, wraps. */
static inline uint64_t quotient_unsigned(uint64_t a, uint64_t b)
{
    return b == 0 ? ~0ull : a / b;
}

static inline uint64_t quotient_signed(int64_t a, int64_t b)
{
    return b == 0 ? ~0ull : b == -1 ? 0 - (uint64_t)a : (uint64_t)(a / b);
}

static inline uint64_t remainder_unsigned(uint64_t a, uint64_t b)
{
    return b == 0 ? a : a % b;
}

static inline uint64_t remainder_signed(int64_t a, int64_t b)
{
    return b == 0 ? (uint64_t)a : b == -1 ? 0 : (uint64_t)(a % b);
}

#define UNSIGNED(T) ((T)-1 > (T)0)
#define QUOTIENT(T, U, WIDE, bits)                                                                                     \
    UNSIGNED(T) ? quotient_unsigned((uint64_t)a, (uint64_t)b) : quotient_signed((int64_t)a, (int64_t)b)
#define REMAINDER(T, U, WIDE, bits)                                                                                    \
    UNSIGNED(T) ? remainder_unsigned((uint64_t)a, (uint64_t)b) : remainder_signed((int64_t)a, (int64_t)b)
#define MAGNITUDE(T, U, WIDE, bits) a < 0 ? 0 - (U)a : (U)a
#define SMALLER(T, U, WIDE, bits) (U) MIN(a, b)
#define LARGER(T, U, WIDE, bits) (U) MAX(a, b)
EACH_TYPE(EXEC2, div, QUOTIENT)
EACH_TYPE(EXEC2, rem, REMAINDER)
EACH_TYPE(EXEC2, min, SMALLER)
EACH_TYPE(EXEC2, max, LARGER)
EXEC1(abs_s16, 32, int16_t, uint16_t, MAGNITUDE(int16_t, uint16_t, int32_t, 16))
EXEC1(abs_s32, 32, int32_t, uint32_t, MAGNITUDE(int32_t, uint32_t, int64_t, 32))
EXEC1(abs_s64, 64, int64_t, uint64_t, MAGNITUDE(int64_t, uint64_t, int128, 64))
EXEC2(min_relu_s32, 32, int32_t, uint32_t, (uint32_t)MAX(0, MIN(a, b)))
EXEC2(max_relu_s32, 32, int32_t, uint32_t, (uint32_t)MAX(0, MAX(a, b)))
EACH_WIDTH(EXEC1, neg, 0 - a)
BIND(div, div_of(TYPE), TYPE, TYPE, TYPE)
BIND(rem, rem_of(TYPE), TYPE, TYPE, TYPE)
BIND(abs, TYPE == EMU_S16 ? abs_s16 : TYPE == EMU_S32 ? abs_s32 : abs_s64, TYPE, TYPE)
BIND(neg, neg_of(TYPE), TYPE, TYPE)
BIND(min, alu_has(bind, "relu") ? min_relu_s32 : min_of(TYPE), TYPE, TYPE, TYPE)
BIND(max, alu_has(bind, "relu") ? max_relu_s32 : max_of(TYPE), TYPE, TYPE, TYPE)

/* ---- Bits (9.7.1.14 to 9.7.1.24) ---- */

/* Of a 64-bit source a 32-bit result. */
#define EXEC1_64_TO_32(name, T, expression)                                                                            \
    ALU_EXEC(name)                                                                                                     \
    {                                                                                                                  \
        uint64_t spare[EMU_LANES];                                                                                     \
        uint32_t values[EMU_LANES];                                                                                    \
        const uint64_t *as = emu_source64(warp, &instr->operands[1], spare);                                           \
        ALU_EACH_LANE(i)                                                                                               \
        {                                                                                                              \
            const T a = (T)as[i];                                                                                      \
            values[i] = (uint32_t)(expression);                                                                        \
        }                                                                                                              \
        emu_store32(warp, &instr->operands[0], values, mask);                                                          \
        return EMU_NEXT;                                                                                               \
    }

EXEC1(popc_32, 32, uint32_t, uint32_t, __builtin_popcount(a))
EXEC1_64_TO_32(popc_64, uint64_t, __builtin_popcountll(a))
EXEC1(clz_32, 32, uint32_t, uint32_t, a ? __builtin_clz(a) : 32)
EXEC1_64_TO_32(clz_64, uint64_t, a ? __builtin_clzll(a) : 64)
BIND(popc, TYPE == EMU_B32 ? popc_32 : popc_64, EMU_B32, TYPE)
BIND(clz, TYPE == EMU_B32 ? clz_32 : clz_64, EMU_B32, TYPE)

/* The position of the highest bit that differs from the sign, or with .shiftamt how far it is from the top. */
static inline uint32_t find_bit(uint64_t value, int top, bool shift_amount)
{
    if (value == 0) {
        return 0xffffffffu;
    }
    const int position = 63 - __builtin_clzll(value);
    return (uint32_t)(shift_amount ? top - position : position);
}

EXEC1(bfind_u32, 32, uint32_t, uint32_t, find_bit(a, 31, instr->facts.mode))
EXEC1(bfind_s32, 32, int32_t, uint32_t, find_bit((uint32_t)(a < 0 ? ~a : a), 31, instr->facts.mode))
EXEC1_64_TO_32(bfind_u64, uint64_t, find_bit(a, 63, instr->facts.mode))
EXEC1_64_TO_32(bfind_s64, int64_t, find_bit((uint64_t)(a < 0 ? ~a : a), 63, instr->facts.mode))

bool alu_bind_bfind(const struct emu_bind *bind)
{
    const enum emu_type type = alu_begin(bind);
    bind->instr->facts.mode = alu_has(bind, "shiftamt");
    bind->instr->exec = type == EMU_U32   ? bfind_u32
                        : type == EMU_S32 ? bfind_s32
                        : type == EMU_U64 ? bfind_u64
                                          : bfind_s64;
    return ALU_FINISH(bind, EMU_U32, type);
}

/* The offset-th set bit from `base` on, upwards or downwards. */
static uint32_t nth_set_bit(uint32_t bits, uint32_t base, uint32_t offset_bits)
{
    const int64_t offset = (int32_t)offset_bits;
    const int step = offset < 0 ? -1 : 1;
    int64_t left = offset < 0 ? -offset : offset;
    if (base > 31) {
        return 0xffffffffu; /* undefined (9.7.1.17) */
    }
    if (offset == 0) {
        return bits >> base & 1 ? base : 0xffffffffu;
    }
    for (int position = (int)base; position >= 0 && position < 32; position += step) {
        if (bits >> position & 1 && --left == 0) {
            return (uint32_t)position;
        }
    }
    return 0xffffffffu;
}

EXEC3(fns, 32, uint32_t, uint32_t, nth_set_bit(a, b, c))
BIND(fns, fns, EMU_B32, EMU_B32, EMU_B32, EMU_B32)

static inline uint32_t reverse32(uint32_t a)
{
    a = (a >> 1 & 0x55555555u) | (a & 0x55555555u) << 1;
    a = (a >> 2 & 0x33333333u) | (a & 0x33333333u) << 2;
    a = (a >> 4 & 0x0f0f0f0fu) | (a & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(a);
}

EXEC1(brev_32, 32, uint32_t, uint32_t, reverse32(a))
EXEC1(brev_64, 64, uint64_t, uint64_t, (uint64_t)reverse32((uint32_t)a) << 32 | reverse32((uint32_t)(a >> 32)))
BIND(brev, TYPE == EMU_B32 ? brev_32 : brev_64, TYPE, TYPE)

/* Bits from `start`, `length` of them, of the low `width` bits of a value that is sign- or zero-extended to 64. Source
 * bits above the top repeat the sign (9.7.1.19), which the extension has done already. */
static inline uint64_t extract_field(uint64_t value, bool is_signed, uint32_t start, uint32_t length)
{
    const uint32_t position = (start & 0xff) < 63 ? start & 0xff : 63;
    const uint32_t bits = length & 0xff;
    if (bits == 0) {
        return 0;
    }
    if (!is_signed) {
        const uint64_t shifted = (start & 0xff) > 63 ? 0 : value >> position;
        return bits > 63 ? shifted : shifted & ((1ull << bits) - 1);
    }
    const int64_t shifted = (int64_t)value >> position;
    return bits > 63 ? (uint64_t)shifted : (uint64_t)((int64_t)((uint64_t)shifted << (64 - bits)) >> (64 - bits));
}

/* b with the low `length` bits of a put in at `start`. */
static inline uint64_t insert_field(uint64_t a, uint64_t b, uint32_t start, uint32_t length)
{
    const uint32_t position = start & 0xff;
    const uint32_t bits = length & 0xff;
    if (bits == 0 || position > 63) {
        return b;
    }
    const uint64_t field = (bits > 63 ? ~0ull : (1ull << bits) - 1) << position;
    return (b & ~field) | (a << position & field);
}

#define BFE_EXEC(name, W, T, is_signed)                                                                                \
    ALU_EXEC(name)                                                                                                     \
    {                                                                                                                  \
        uint##W##_t spare_a[EMU_LANES], values[EMU_LANES];                                                             \
        uint32_t spare_b[EMU_LANES], spare_c[EMU_LANES];                                                               \
        const uint##W##_t *as = emu_source##W(warp, &instr->operands[1], spare_a);                                     \
        const uint32_t *bs = emu_source32(warp, &instr->operands[2], spare_b);                                         \
        const uint32_t *cs = emu_source32(warp, &instr->operands[3], spare_c);                                         \
        ALU_EACH_LANE(i) values[i] = (uint##W##_t)extract_field((uint64_t)(T)as[i], is_signed, bs[i], cs[i]);          \
        emu_store##W(warp, &instr->operands[0], values, mask);                                                         \
        return EMU_NEXT;                                                                                               \
    }
BFE_EXEC(bfe_u32, 32, uint32_t, false)
BFE_EXEC(bfe_s32, 32, int32_t, true)
BFE_EXEC(bfe_u64, 64, uint64_t, false)
BFE_EXEC(bfe_s64, 64, int64_t, true)
BIND(bfe,
     TYPE == EMU_U32   ? bfe_u32
     : TYPE == EMU_S32 ? bfe_s32
     : TYPE == EMU_U64 ? bfe_u64
                       : bfe_s64,
     TYPE, TYPE, EMU_U32, EMU_U32)

#define BFI_EXEC(name, W)                                                                                              \
    ALU_EXEC(name)                                                                                                     \
    {                                                                                                                  \
        uint##W##_t spare_a[EMU_LANES], spare_b[EMU_LANES], values[EMU_LANES];                                         \
        uint32_t spare_c[EMU_LANES], spare_d[EMU_LANES];                                                               \
        const uint##W##_t *as = emu_source##W(warp, &instr->operands[1], spare_a);                                     \
        const uint##W##_t *bs = emu_source##W(warp, &instr->operands[2], spare_b);                                     \
        const uint32_t *cs = emu_source32(warp, &instr->operands[3], spare_c);                                         \
        const uint32_t *ds = emu_source32(warp, &instr->operands[4], spare_d);                                         \
        ALU_EACH_LANE(i) values[i] = (uint##W##_t)insert_field(as[i], bs[i], cs[i], ds[i]);                            \
        emu_store##W(warp, &instr->operands[0], values, mask);                                                         \
        return EMU_NEXT;                                                                                               \
    }
BFI_EXEC(bfi_32, 32)
BFI_EXEC(bfi_64, 64)
BIND(bfi, TYPE == EMU_B32 ? bfi_32 : bfi_64, TYPE, TYPE, TYPE, EMU_U32, EMU_U32)

/* facts.mode of szext, bmsk and shf: .clamp, otherwise .wrap. */
static inline uint32_t extend_low_bits(uint32_t a, uint32_t b, bool is_signed, bool clamp)
{
    if (clamp && b >= 32) {
        return a;
    }
    const uint32_t bits = b & 31;
    if (bits == 0) {
        return 0;
    }
    const uint32_t top = a << (32 - bits);
    return is_signed ? (uint32_t)((int32_t)top >> (32 - bits)) : top >> (32 - bits);
}

static inline uint32_t bit_mask(uint32_t position, uint32_t width, bool clamp)
{
    if (!clamp) {
        position &= 31;
        width &= 31;
    }
    if (position >= 32 || width == 0) {
        return 0;
    }
    const uint32_t ones = width >= 32 ? 0xffffffffu : (1u << width) - 1;
    return ones << position;
}

EXEC2(szext_u32, 32, uint32_t, uint32_t, extend_low_bits(a, b, false, instr->facts.mode))
EXEC2(szext_s32, 32, uint32_t, uint32_t, extend_low_bits(a, b, true, instr->facts.mode))
EXEC2(bmsk, 32, uint32_t, uint32_t, bit_mask(a, b, instr->facts.mode))

bool alu_bind_szext(const struct emu_bind *bind)
{
    const enum emu_type type = alu_begin(bind);
    bind->instr->facts.mode = alu_has(bind, "clamp");
    bind->instr->exec = type == EMU_U32 ? szext_u32 : szext_s32;
    return ALU_FINISH(bind, type, type, EMU_U32);
}

bool alu_bind_bmsk(const struct emu_bind *bind)
{
    alu_begin(bind);
    bind->instr->facts.mode = alu_has(bind, "clamp");
    bind->instr->exec = bmsk;
    return ALU_FINISH(bind, EMU_B32, EMU_B32, EMU_B32);
}

/* Byte or half `index` of a register as a number. */
static inline int32_t part(uint32_t value, int index, int bits, bool is_signed)
{
    const uint32_t top = value << (32 - bits * (index + 1));
    return is_signed ? (int32_t)top >> (32 - bits) : (int32_t)(top >> (32 - bits));
}

static uint32_t dot_bytes(uint32_t a, uint32_t b, uint32_t sum, bool a_signed, bool b_signed)
{
    for (int i = 0; i < 4; i++) {
        sum += (uint32_t)(part(a, i, 8, a_signed) * part(b, i, 8, b_signed));
    }
    return sum;
}

static uint32_t dot_halves(uint32_t a, uint32_t b, uint32_t sum, bool a_signed, bool b_signed, bool high)
{
    for (int i = 0; i < 2; i++) {
        sum += (uint32_t)(part(a, i, 16, a_signed) * part(b, i + 2 * high, 8, b_signed));
    }
    return sum;
}

EXEC3(dp4a, 32, uint32_t, uint32_t, dot_bytes(a, b, c, instr->type == EMU_S32, instr->type2 == EMU_S32))
EXEC3(dp2a, 32, uint32_t, uint32_t,
      dot_halves(a, b, c, instr->type == EMU_S32, instr->type2 == EMU_S32, instr->facts.hi))
BIND(dp4a, dp4a, TYPE, TYPE, TYPE, TYPE)
BIND(dp2a, dp2a, TYPE, TYPE, TYPE, TYPE)

/* ---- Logic (9.7.8.1 to 9.7.8.6) ---- */

EACH_WIDTH(EXEC2, and, a &b)
EACH_WIDTH(EXEC2, or, a | b)
EACH_WIDTH(EXEC2, xor, a ^ b)
EACH_WIDTH(EXEC1, not, ~a)
EACH_WIDTH(EXEC1, cnot, instr->type == EMU_B16 ? (a & 0xffff) == 0 : a == 0)
BIND(and, and_of(TYPE), TYPE, TYPE, TYPE)
BIND(or, or_of(TYPE), TYPE, TYPE, TYPE)
BIND(xor, xor_of(TYPE), TYPE, TYPE, TYPE)
BIND(not, not_of(TYPE), TYPE, TYPE)
BIND(cnot, cnot_of(TYPE), TYPE, TYPE)

#define PRED_EXEC(name, expression)                                                                                    \
    ALU_EXEC(name)                                                                                                     \
    {                                                                                                                  \
        const uint32_t a = emu_source_pred(warp, &instr->operands[1]);                                                 \
        const uint32_t b = instr->operand_count > 2 ? emu_source_pred(warp, &instr->operands[2]) : 0;                  \
        (void)b;                                                                                                       \
        emu_store_pred(warp, &instr->operands[0], expression, mask);                                                   \
        return EMU_NEXT;                                                                                               \
    }
PRED_EXEC(and_pred, a &b)
PRED_EXEC(or_pred, a | b)
PRED_EXEC(xor_pred, a ^ b)
PRED_EXEC(not_pred, ~a)

bool alu_bind_logic_pred(const struct emu_bind *bind)
{
    alu_begin(bind);
    switch (bind->instr->text[0]) {
    case 'a':
        bind->instr->exec = and_pred;
        break;
    case 'o':
        bind->instr->exec = or_pred;
        break;
    case 'x':
        bind->instr->exec = xor_pred;
        break;
    default:
        bind->instr->exec = not_pred;
        break;
    }
    return ALU_FINISH(bind, EMU_PRED, EMU_PRED, EMU_PRED);
}

/* Bit 4a + 2b + c of the table is the result for these bits of the sources. */
static void look_up(uint32_t table, const uint32_t *as, const uint32_t *bs, const uint32_t *cs, uint32_t *values)
{
    memset(values, 0, EMU_LANES * sizeof *values);
    for (uint32_t row = 0; row < 8; row++) {
        if (table >> row & 1) {
            const uint32_t flip_a = row & 4 ? 0 : ~0u, flip_b = row & 2 ? 0 : ~0u, flip_c = row & 1 ? 0 : ~0u;
            ALU_EACH_LANE(i) values[i] |= (as[i] ^ flip_a) & (bs[i] ^ flip_b) & (cs[i] ^ flip_c);
        }
    }
}

ALU_EXEC(lop3)
{
    uint32_t spare_a[EMU_LANES], spare_b[EMU_LANES], spare_c[EMU_LANES], values[EMU_LANES];
    const uint32_t *as = emu_source32(warp, &instr->operands[1], spare_a);
    const uint32_t *bs = emu_source32(warp, &instr->operands[2], spare_b);
    const uint32_t *cs = emu_source32(warp, &instr->operands[3], spare_c);
    look_up((uint32_t)instr->operands[4].imm, as, bs, cs, values);
    if (instr->operand_count > 5) { /* lop3.BoolOp d|p: p = (d != 0) BoolOp q */
        const struct emu_operand *pair = &instr->operands[0];
        uint8_t flags[EMU_LANES];
        ALU_EACH_LANE(i) flags[i] = values[i] != 0;
        const uint32_t q = emu_source_pred(warp, &instr->operands[5]);
        const uint32_t p = instr->facts.bool_op ? alu_pack(flags) | q : alu_pack(flags) & q;
        const struct emu_operand d = {.kind = pair->row < 0 ? EMU_OP_SINK : EMU_OP_REG, .bits = 32, .row = pair->row};
        const struct emu_operand pred = {.kind = pair->row2 < 0 ? EMU_OP_SINK : EMU_OP_PRED, .row = pair->row2};
        emu_store32(warp, &d, values, mask);
        emu_store_pred(warp, &pred, p, mask);
    } else {
        emu_store32(warp, &instr->operands[0], values, mask);
    }
    return EMU_NEXT;
}

bool alu_bind_lop3(const struct emu_bind *bind)
{
    alu_begin(bind);
    struct emu_instr *instr = bind->instr;
    instr->exec = lop3;
    const bool has_bool = alu_has(bind, "or") || alu_has(bind, "and");
    instr->facts.bool_op = alu_has(bind, "or");
    if (has_bool != (instr->operand_count > 5) || has_bool != (instr->operands[0].kind == EMU_OP_PRED_PAIR)) {
        return alu_refuse(bind, "a Boolean operation goes with a predicate destination and source, and only then");
    }
    if (instr->operands[4].kind != EMU_OP_IMM || instr->operands[4].imm < 0 || instr->operands[4].imm > 255) {
        return alu_refuse(bind, "the look-up table must be a constant from 0 to 255");
    }
    return ALU_FINISH(bind, EMU_B32, EMU_B32, EMU_B32, EMU_B32, EMU_B32, EMU_PRED);
}

/* ---- Shifts (9.7.8.7 to 9.7.8.9): amounts are unsigned 32-bit, larger ones than the width shift everything out ----
 */

#define SHIFT_EXEC(name, W, T, U, expression)                                                                          \
    ALU_EXEC(name)                                                                                                     \
    {                                                                                                                  \
        uint##W##_t spare_a[EMU_LANES], values[EMU_LANES];                                                             \
        uint32_t spare_n[EMU_LANES];                                                                                   \
        const uint##W##_t *as = emu_source##W(warp, &instr->operands[1], spare_a);                                     \
        const uint32_t *ns = emu_source32(warp, &instr->operands[2], spare_n);                                         \
        if (instr->operands[2].kind == EMU_OP_IMM) { /* one amount for all lanes: vectorised */                        \
            const uint32_t n = ns[0];                                                                                  \
            ALU_EACH_LANE(i)                                                                                           \
            {                                                                                                          \
                const T a = (T)as[i];                                                                                  \
                values[i] = (U)(expression);                                                                           \
            }                                                                                                          \
        } else {                                                                                                       \
            ALU_EACH_LANE(i)                                                                                           \
            {                                                                                                          \
                const T a = (T)as[i];                                                                                  \
                const uint32_t n = ns[i];                                                                              \
                values[i] = (U)(expression);                                                                           \
            }                                                                                                          \
        }                                                                                                              \
        emu_store##W(warp, &instr->operands[0], values, mask);                                                         \
        return EMU_NEXT;                                                                                               \
    }

SHIFT_EXEC(shl_16, 32, uint32_t, uint16_t, n > 15 ? 0 : a << n)
SHIFT_EXEC(shl_32, 32, uint32_t, uint32_t, n > 31 ? 0 : a << n)
SHIFT_EXEC(shl_64, 64, uint64_t, uint64_t, n > 63 ? 0 : a << n)
SHIFT_EXEC(shr_u16, 32, uint16_t, uint16_t, n > 15 ? 0 : a >> n)
SHIFT_EXEC(shr_u32, 32, uint32_t, uint32_t, n > 31 ? 0 : a >> n)
SHIFT_EXEC(shr_u64, 64, uint64_t, uint64_t, n > 63 ? 0 : a >> n)
SHIFT_EXEC(shr_s16, 32, int16_t, uint16_t, a >> (n > 15 ? 15 : n))
SHIFT_EXEC(shr_s32, 32, int32_t, uint32_t, a >> (n > 31 ? 31 : n))
SHIFT_EXEC(shr_s64, 64, int64_t, uint64_t, a >> (n > 63 ? 63 : n))

static emu_exec_fn shr_of(enum emu_type type)
{
    switch (type) {
    case EMU_S16:
        return shr_s16;
    case EMU_S32:
        return shr_s32;
    case EMU_S64:
        return shr_s64;
    default:
        return emu_type_bits(type) == 16 ? shr_u16 : emu_type_bits(type) == 32 ? shr_u32 : shr_u64;
    }
}

BIND(shl, TYPE == EMU_B16 ? shl_16 : TYPE == EMU_B32 ? shl_32 : shl_64, TYPE, TYPE, EMU_U32)
BIND(shr, shr_of(TYPE), TYPE, TYPE, EMU_U32)

static inline uint32_t shift_amount(uint32_t n, bool clamp)
{
    return clamp ? MIN(n, 32) : n & 31;
}

EXEC3(shf_l, 32, uint32_t, uint32_t, ((uint64_t)b << 32 | a) << shift_amount(c, instr->facts.mode) >> 32)
EXEC3(shf_r, 32, uint32_t, uint32_t, ((uint64_t)b << 32 | a) >> shift_amount(c, instr->facts.mode))

bool alu_bind_shf(const struct emu_bind *bind)
{
    alu_begin(bind);
    bind->instr->facts.mode = alu_has(bind, "clamp");
    bind->instr->exec = alu_has(bind, "l") ? shf_l : shf_r;
    return ALU_FINISH(bind, EMU_B32, EMU_B32, EMU_B32, EMU_U32);
}

/* ---- prmt (9.7.9.7) ---- */

static inline uint32_t permute(uint32_t a, uint32_t b, uint32_t selectors)
{
    const uint64_t source = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t selector = selectors >> (4 * i) & 15;
        uint32_t byte = (uint32_t)(source >> (8 * (selector & 7))) & 0xff;
        if (selector & 8) { /* the byte's sign, eight times */
            byte = byte & 0x80 ? 0xff : 0;
        }
        result |= byte << (8 * i);
    }
    return result;
}

/* The modes' tables as selectors of the default form, for the four values of c's low bits. */
static const struct {
    const char *name;
    uint16_t selectors[4];
} permute_modes[] = {
    {"f4e", {0x3210, 0x4321, 0x5432, 0x6543}}, {"b4e", {0x5670, 0x6701, 0x7012, 0x0123}},
    {"rc8", {0x0000, 0x1111, 0x2222, 0x3333}}, {"ecl", {0x3210, 0x3211, 0x3222, 0x3333}},
    {"ecr", {0x0000, 0x1110, 0x2210, 0x3210}}, {"rc16", {0x1010, 0x3232, 0x1010, 0x3232}},
};

EXEC3(prmt, 32, uint32_t, uint32_t, permute(a, b, c))
EXEC3(prmt_mode, 32, uint32_t, uint32_t, permute(a, b, permute_modes[instr->facts.mode].selectors[c & 3]))

bool alu_bind_prmt(const struct emu_bind *bind)
{
    alu_begin(bind);
    bind->instr->exec = prmt;
    for (size_t i = 0; i < sizeof permute_modes / sizeof *permute_modes; i++) {
        if (alu_has(bind, permute_modes[i].name)) {
            bind->instr->facts.mode = (uint8_t)i;
            bind->instr->exec = prmt_mode;
        }
    }
    return ALU_FINISH(bind, EMU_B32, EMU_B32, EMU_B32, EMU_U32);
}
