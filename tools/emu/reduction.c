/* Reductions of arrays in memory: cp.reduce.async.bulk, its tensor form, red.async (ISA 9.7.9.25.4.2, 9.7.13.7). Each
 * element is combined atomically: clusters run on several host threads. */
#include "matrix_math.h"

#include <math.h>
#include <string.h>

static const char *const names[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor", NULL};

enum emu_reduction emu_reduction_of(const struct emu_instr *instr)
{
    const int at = emu_opcode_find(instr, names);
    return at < 0 ? EMU_R_NONE : (enum emu_reduction)at;
}

static bool is_one_of(enum emu_type type, const enum emu_type *types, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (types[i] == type)
            return true;
    return false;
}

#define ONE_OF(type, ...)                                                                                              \
    is_one_of(type, (const enum emu_type[]){__VA_ARGS__},                                                              \
              sizeof((enum emu_type[]){__VA_ARGS__}) / sizeof(enum emu_type))

bool emu_reduction_allowed(enum emu_reduction reduction, enum emu_type type)
{
    switch (reduction) {
    case EMU_R_ADD:
        return ONE_OF(type, EMU_U32, EMU_S32, EMU_U64, EMU_F32, EMU_F64, EMU_F16, EMU_BF16);
    case EMU_R_MIN:
    case EMU_R_MAX:
        return ONE_OF(type, EMU_U32, EMU_S32, EMU_U64, EMU_S64, EMU_F16, EMU_BF16);
    case EMU_R_INC:
    case EMU_R_DEC:
        return type == EMU_U32;
    case EMU_R_AND:
    case EMU_R_OR:
    case EMU_R_XOR:
        return ONE_OF(type, EMU_B32, EMU_B64);
    default:
        return false;
    }
}

/* ---- One element ---- */

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint64_t double_bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* Subnormals become zeros of their sign. */
static float flushed(float value, bool ftz)
{
    return ftz && fpclassify(value) == FP_SUBNORMAL ? copysignf(0.0f, value) : value;
}

static uint16_t bf16_of(float value)
{
    const uint32_t bits = bits_of(value);
    return isnan(value) ? (uint16_t)0x7fff : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* min and max: -0 is less than +0, a NaN of either kind is no number (IEEE 754-2019 minimumNumber). Floats here come
 * from 16 bits. */
static float combine_float(enum emu_reduction reduction, float old, float new)
{
    if (reduction == EMU_R_ADD)
        return old + new;
    if (isnan(old) || isnan(new))
        return isnan(old) ? new : old;
    const bool less = old < new || (signbit(old) && old == new);
    return less == (reduction == EMU_R_MIN) ? old : new;
}

static bool replaces(enum emu_reduction reduction, enum emu_type type, uint64_t old, uint64_t new)
{
    const bool is_signed = type == EMU_S32 || type == EMU_S64;
    const bool less = is_signed ? (int64_t) new < (int64_t)old : new < old;
    return reduction == EMU_R_MIN ? less : !less;
}

/* old and new are sign-extended for .s32. */
static uint64_t combine_integer(enum emu_reduction reduction, enum emu_type type, uint64_t old, uint64_t new)
{
    switch (reduction) {
    case EMU_R_ADD:
        return old + new;
    case EMU_R_MIN:
    case EMU_R_MAX:
        return replaces(reduction, type, old, new) ? new : old;
    case EMU_R_INC: /* in [0..new], wrapping to 0 */
        return old >= new ? 0 : old + 1;
    case EMU_R_DEC: /* in [0..new], wrapping to new */
        return old == 0 || old > new ? new : old - 1;
    case EMU_R_AND:
        return old & new;
    case EMU_R_OR:
        return old | new;
    default:
        return old ^ new;
    }
}

static uint64_t combine(enum emu_reduction reduction, enum emu_type type, bool ftz, uint64_t old, uint64_t new)
{
    switch (type) {
    case EMU_F16:
        return emu_half_of(
            combine_float(reduction, emu_float_of_half((uint16_t)old), emu_float_of_half((uint16_t) new)));
    case EMU_BF16:
        return bf16_of(combine_float(reduction, float_of((uint32_t)old << 16), float_of((uint32_t) new << 16)));
    case EMU_F32: {
        const float sum = flushed(float_of((uint32_t)old), ftz) + flushed(float_of((uint32_t) new), ftz);
        return isnan(sum) ? 0x7fffffff : bits_of(flushed(sum, ftz));
    }
    case EMU_F64:
        return double_bits_of(double_of(old) + double_of(new));
    case EMU_S32:
        return combine_integer(reduction, type, (uint64_t)(int32_t)old, (uint64_t)(int32_t) new);
    default:
        return combine_integer(reduction, type, old, new);
    }
}

/* ---- Atomically, in memory ---- */

static void reduce16(enum emu_reduction reduction, enum emu_type type, uint8_t *into, const uint8_t *from)
{
    uint16_t old, new, *cell = (uint16_t *)(void *)into;
    memcpy(&new, from, sizeof(new));
    old = __atomic_load_n(cell, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(cell, &old, (uint16_t)combine(reduction, type, false, old, new), true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}

static void reduce32(enum emu_reduction reduction, enum emu_type type, bool ftz, uint8_t *into, const uint8_t *from)
{
    uint32_t old, new, *cell = (uint32_t *)(void *)into;
    memcpy(&new, from, sizeof(new));
    old = __atomic_load_n(cell, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(cell, &old, (uint32_t)combine(reduction, type, ftz, old, new), true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}

static void reduce64(enum emu_reduction reduction, enum emu_type type, uint8_t *into, const uint8_t *from)
{
    uint64_t old, new, *cell = (uint64_t *)(void *)into;
    memcpy(&new, from, sizeof(new));
    old = __atomic_load_n(cell, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(cell, &old, combine(reduction, type, false, old, new), true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
        continue;
}

void emu_reduce(enum emu_reduction reduction, enum emu_type type, bool ftz, uint8_t *into, const uint8_t *from,
                size_t size)
{
    const size_t bytes = (size_t)emu_type_bits(type) / 8;
    for (size_t at = 0; at < size; at += bytes)
        switch (bytes) {
        case 2:
            reduce16(reduction, type, into + at, from + at);
            break;
        case 4:
            reduce32(reduction, type, ftz, into + at, from + at);
            break;
        default:
            reduce64(reduction, type, into + at, from + at);
        }
}
