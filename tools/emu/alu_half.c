/* Half-precision arithmetic: f16, bf16 and pairs of them (PTX ISA 9.7.4).
 *
 * Every operation is done in double, exactly or rounded to odd, and rounded once to the format. A pair is two times 32
 * lanes: the low halves, then the high halves. */
#include "alu.h"

enum { MAX_VALUES = 2 * EMU_LANES };

static bool is_pair(enum emu_type type)
{
    return type == EMU_F16X2 || type == EMU_BF16X2;
}

static bool is_bf16(enum emu_type type)
{
    return type == EMU_BF16 || type == EMU_BF16X2;
}

static int value_count(const struct emu_instr *instr)
{
    return is_pair((enum emu_type)instr->type) ? MAX_VALUES : EMU_LANES;
}

static void split(struct emu_warp *warp, const struct emu_operand *operand, uint32_t halves[MAX_VALUES])
{
    uint32_t spare[EMU_LANES];
    const uint32_t *row = emu_source32(warp, operand, spare);
    ALU_EACH_LANE(i)
    {
        halves[i] = row[i] & 0xffff;
        halves[i + EMU_LANES] = row[i] >> 16;
    }
}

static void join(struct emu_warp *warp, const struct emu_instr *instr, uint32_t halves[MAX_VALUES], uint32_t mask)
{
    if (is_pair((enum emu_type)instr->type)) {
        ALU_EACH_LANE(i) halves[i] |= halves[i + EMU_LANES] << 16;
    }
    emu_store32(warp, &instr->operands[0], halves, mask);
}

/* Sign-preserving zero for a subnormal; `exponent` is the format's exponent field. */
static void flush_halves(uint32_t *halves, int count, uint32_t exponent)
{
    for (int i = 0; i < count; i++) {
        halves[i] = halves[i] & exponent ? halves[i] : halves[i] & 0x8000;
    }
}

static uint32_t exponent_field(enum emu_type type)
{
    return is_bf16(type) ? 0x7f80 : 0x7c00;
}

static void read_halves(struct emu_warp *warp, const struct emu_instr *instr, int operand, double values[MAX_VALUES])
{
    const enum emu_type type = (enum emu_type)instr->type;
    const int count = value_count(instr);
    uint32_t halves[MAX_VALUES];
    split(warp, &instr->operands[operand], halves);
    if (instr->facts.ftz) {
        flush_halves(halves, count, exponent_field(type));
    }
    if (is_bf16(type)) {
        for (int i = 0; i < count; i++) {
            values[i] = (double)alu_float_of_bits(halves[i] << 16);
        }
    } else {
        for (int i = 0; i < count; i++) {
            values[i] = alu_double_of_f16(halves[i]);
        }
    }
}

static void store_halves(struct emu_warp *warp, const struct emu_instr *instr, double values[MAX_VALUES], uint32_t mask)
{
    const enum emu_type type = (enum emu_type)instr->type;
    const int count = value_count(instr);
    uint32_t halves[MAX_VALUES];
    if (instr->facts.sat) { /* NaN becomes +0 (9.7.4.1) */
        for (int i = 0; i < count; i++) {
            values[i] = values[i] > 0 ? values[i] < 1 ? values[i] : 1 : 0;
        }
    } else if (instr->facts.relu) { /* NaN stays one (9.7.4.4) */
        for (int i = 0; i < count; i++) {
            values[i] = values[i] <= 0 ? 0 : values[i];
        }
    }
    if (is_bf16(type)) {
        for (int i = 0; i < count; i++) {
            halves[i] = alu_bf16_of_double(values[i]);
        }
    } else {
        for (int i = 0; i < count; i++) {
            halves[i] = alu_f16_of_double(values[i]);
        }
    }
    if (instr->facts.ftz) {
        flush_halves(halves, count, exponent_field(type));
    }
    join(warp, instr, halves, mask);
}

/* ---- add, sub, mul, fma (9.7.4.1 to 9.7.4.4) ---- */

#define EXEC_HALF(name, sources, expression)                                                                           \
    ALU_EXEC(name##_halves)                                                                                            \
    {                                                                                                                  \
        double sources_of[3][MAX_VALUES], values[MAX_VALUES];                                                          \
        const int count = value_count(instr);                                                                          \
        for (int s = 0; s < (sources); s++) {                                                                          \
            read_halves(warp, instr, s + 1, sources_of[s]);                                                            \
        }                                                                                                              \
        const double *as = sources_of[0], *bs = sources_of[1], *cs = sources_of[2];                                    \
        (void)bs;                                                                                                      \
        (void)cs;                                                                                                      \
        for (int i = 0; i < count; i++) {                                                                              \
            values[i] = expression;                                                                                    \
        }                                                                                                              \
        store_halves(warp, instr, values, mask);                                                                       \
        return EMU_NEXT;                                                                                               \
    }
EXEC_HALF(add, 2, alu_add_odd(as[i], bs[i]))
EXEC_HALF(sub, 2, alu_add_odd(as[i], -bs[i]))
EXEC_HALF(mul, 2, as[i] * bs[i])
EXEC_HALF(fma, 3, alu_fma_odd(as[i], bs[i], cs[i]))

#define BIND_HALF(name, ...)                                                                                           \
    bool alu_bind_half_##name(const struct emu_bind *bind)                                                             \
    {                                                                                                                  \
        const enum emu_type type = alu_begin(bind);                                                                    \
        bind->instr->facts.mode = alu_has(bind, "xorsign");                                                            \
        bind->instr->exec = name##_halves;                                                                             \
        return ALU_FINISH(bind, __VA_ARGS__);                                                                          \
    }
BIND_HALF(add, type, type, type)
BIND_HALF(sub, type, type, type)
BIND_HALF(mul, type, type, type)
BIND_HALF(fma, type, type, type, type)

/* ---- neg, abs (9.7.4.5, 9.7.4.6): on the bits ---- */

#define EXEC_SIGN(name, expression)                                                                                    \
    ALU_EXEC(name##_halves)                                                                                            \
    {                                                                                                                  \
        uint32_t halves[MAX_VALUES];                                                                                   \
        split(warp, &instr->operands[1], halves);                                                                      \
        if (instr->facts.ftz) {                                                                                        \
            flush_halves(halves, MAX_VALUES, exponent_field((enum emu_type)instr->type));                              \
        }                                                                                                              \
        for (int i = 0; i < MAX_VALUES; i++) {                                                                         \
            const uint32_t a = halves[i];                                                                              \
            halves[i] = expression;                                                                                    \
        }                                                                                                              \
        join(warp, instr, halves, mask);                                                                               \
        return EMU_NEXT;                                                                                               \
    }
EXEC_SIGN(neg, a ^ 0x8000)
EXEC_SIGN(abs, a & 0x7fff)
BIND_HALF(neg, type, type)
BIND_HALF(abs, type, type)

/* ---- min, max (9.7.4.7, 9.7.4.8): facts.mode: .xorsign.abs ---- */

static double choose(double a, double b, bool larger, bool nan)
{
    if (a != a || b != b) {
        return nan || b != b ? (nan && b != b ? b : a) : b;
    }
    const bool a_smaller = a < b || (a == b && signbit(a)); /* -0 < +0 */
    return a_smaller != larger ? a : b;
}

static double choose_magnitude(double a, double b, bool larger, bool nan)
{
    const double chosen = choose(fabs(a), fabs(b), larger, nan);
    return signbit(a) != signbit(b) ? -chosen : chosen;
}

#define CHOOSE(larger)                                                                                                 \
    instr->facts.mode ? choose_magnitude(as[i], bs[i], larger, instr->facts.nan)                                       \
                      : choose(as[i], bs[i], larger, instr->facts.nan)
EXEC_HALF(min, 2, CHOOSE(false))
EXEC_HALF(max, 2, CHOOSE(true))
BIND_HALF(min, type, type, type)
BIND_HALF(max, type, type, type)

/* ---- ex2, tanh (9.7.4.9, 9.7.4.10) ---- */

/* Errs by what the bound leaves after rounding. */
static double err_half(struct emu_warp *warp, double exact, double relative, double absolute)
{
    if (!warp->cta->options->perturb_approx || exact == 0 || isinf(exact) || isnan(exact)) {
        return exact;
    }
    return exact + (relative * fabs(exact) + absolute) * alu_random(warp);
}

/* Bounds: 2^-9.9 and 2^-7 relative, less half a unit (2^-11, 2^-8). 2^0 is 1 exactly. */
static double ex2_of(struct emu_warp *warp, double x, bool bf16)
{
    return x == 0 ? 1 : err_half(warp, exp2(x), bf16 ? 0x1p-8 : 0x1p-10 * 1.0717734 - 0x1p-11, 0);
}

/* Bounds: 2^-10.987 and 2^-8 absolute, less half a unit below 1 (2^-12, 2^-9). */
static double tanh_of(struct emu_warp *warp, double x, bool bf16)
{
    const double exact = tanh(x);
    return fabs(exact) == 1 ? exact : err_half(warp, exact, 0, bf16 ? 0x1p-9 : 0x1p-11 * 1.0090515 - 0x1p-12);
}

EXEC_HALF(ex2, 1, ex2_of(warp, as[i], is_bf16((enum emu_type)instr->type)))
EXEC_HALF(tanh, 1, tanh_of(warp, as[i], is_bf16((enum emu_type)instr->type)))
BIND_HALF(ex2, type, type)
BIND_HALF(tanh, type, type)
