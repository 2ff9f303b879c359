/* Single- and double-precision arithmetic (PTX ISA 9.7.3) and mixed precision (9.7.5).
 *
 * The host's rounding mode is nearest, as C programs start. A directed rounding in single precision comes from a double
 * that is exact or rounded to odd, so the mode stays; in double precision it is set and put back around the operation.
 * NaNs: the ISA leaves those of single precision open; we give the canonical one, 0x7fffffff. */
#include <fenv.h>
#include <float.h>

#include "alu.h"

/* ---- Single precision: reading, flushing, rounding, saturating ---- */

static inline float flush(float value)
{
    const uint32_t bits = alu_bits_of_float(value);
    return (bits & 0x7f800000u) ? value : alu_float_of_bits(bits & 0x80000000u);
}

/* A source as floats, subnormals flushed with .ftz. */
static void read_f32(struct emu_warp *warp, const struct emu_operand *operand, bool ftz, float values[EMU_LANES])
{
    uint32_t spare[EMU_LANES];
    memcpy(values, emu_source32(warp, operand, spare), EMU_LANES * sizeof *values);
    if (ftz) {
        ALU_EACH_LANE(i) values[i] = flush(values[i]);
    }
}

/* .ftz, .sat and the canonical NaN on a result, in this order: .sat makes a NaN zero (9.7.3.3). */
static inline void finish_f32(const struct emu_facts *facts, float values[EMU_LANES])
{
    if (facts->ftz) {
        ALU_EACH_LANE(i) values[i] = flush(values[i]);
    }
    if (facts->sat) {
        ALU_EACH_LANE(i)
        {
            const float low = values[i] > 0 ? values[i] : 0; /* NaN too */
            values[i] = low < 1 ? low : 1;
        }
    }
    const float nan = alu_float_of_bits(0x7fffffff);
    ALU_EACH_LANE(i) values[i] = values[i] == values[i] ? values[i] : nan;
}

static void store_f32(struct emu_warp *warp, const struct emu_instr *instr, float values[EMU_LANES], uint32_t mask)
{
    uint32_t bits[EMU_LANES];
    finish_f32(&instr->facts, values);
    memcpy(bits, values, sizeof bits);
    emu_store32(warp, &instr->operands[0], bits, mask);
}

/* The next float up or down in magnitude. */
static inline float step_f32(float value, int step)
{
    return alu_float_of_bits(alu_bits_of_float(value) + (uint32_t)step);
}

/* A double that stands for an exact value (exact itself, or rounded to odd, or a quotient or root that can be exact
 * only when it is a float) in any rounding. */
static inline float round_f32(double exact, enum emu_rounding rounding)
{
    const float nearest = (float)exact;
    const double back = (double)nearest;
    if (rounding == EMU_RN || back == exact || exact != exact) {
        return nearest;
    }
    const bool too_large = back > exact;
    const bool negative = exact < 0;
    switch (rounding) {
    case EMU_RZ:
        return too_large != negative ? step_f32(nearest, -1) : nearest;
    case EMU_RM:
        if (!too_large) {
            return nearest;
        }
        return step_f32(nearest, negative ? 1 : -1);
    default:
        if (too_large) {
            return nearest;
        }
        return step_f32(nearest, negative ? -1 : 1);
    }
}

/* The one rounding case that differs in sign: an exact zero sum of unlike signs is -0 towards minus infinity and +0
 * otherwise (IEEE 754, 6.3). */
static inline double signed_zero(double sum, bool like_signs, enum emu_rounding rounding)
{
    return sum == 0 && !like_signs && rounding == EMU_RM ? -0.0 : sum;
}

static inline double exact_add(float a, float b, enum emu_rounding rounding)
{
    return signed_zero(alu_add_odd((double)a, (double)b), signbit(a) == signbit(b), rounding);
}

static inline double exact_fma(float a, float b, float c, enum emu_rounding rounding)
{
    return signed_zero(alu_fma_odd((double)a, (double)b, (double)c), (signbit(a) != signbit(b)) == (signbit(c) != 0),
                       rounding);
}

/* An operation in f32: `nearest` for .rn, vectorised; `exact` as a double for the other roundings. Sources at operands
 * 1, 2 and 3. */
#define EXEC_F32(name, sources, nearest, exact)                                                                        \
    static void name##_lanes(const struct emu_facts *facts, const float *as, const float *bs, const float *cs,         \
                             float *values)                                                                            \
    {                                                                                                                  \
        const enum emu_rounding rounding = (enum emu_rounding)facts->rounding;                                         \
        (void)bs;                                                                                                      \
        (void)cs;                                                                                                      \
        if (rounding == EMU_RN) {                                                                                      \
            ALU_EACH_LANE(i) values[i] = nearest;                                                                      \
        } else {                                                                                                       \
            ALU_EACH_LANE(i) values[i] = round_f32(exact, rounding);                                                   \
        }                                                                                                              \
    }                                                                                                                  \
    ALU_EXEC(name##_f32)                                                                                               \
    {                                                                                                                  \
        float sources_of[3][EMU_LANES], values[EMU_LANES];                                                             \
        for (int s = 0; s < (sources); s++) {                                                                          \
            read_f32(warp, &instr->operands[s + 1], instr->facts.ftz, sources_of[s]);                                  \
        }                                                                                                              \
        name##_lanes(&instr->facts, sources_of[0], sources_of[1], sources_of[2], values);                              \
        store_f32(warp, instr, values, mask);                                                                          \
        return EMU_NEXT;                                                                                               \
    }

/* The same on the two halves of 64-bit registers. */
#define EXEC_F32X2(name, sources)                                                                                      \
    ALU_EXEC(name##_f32x2)                                                                                             \
    {                                                                                                                  \
        float low[3][EMU_LANES], high[3][EMU_LANES], low_values[EMU_LANES], high_values[EMU_LANES];                    \
        uint64_t packed[EMU_LANES];                                                                                    \
        for (int s = 0; s < (sources); s++) {                                                                          \
            read_f32x2(warp, &instr->operands[s + 1], instr->facts.ftz, low[s], high[s]);                              \
        }                                                                                                              \
        name##_lanes(&instr->facts, low[0], low[1], low[2], low_values);                                               \
        name##_lanes(&instr->facts, high[0], high[1], high[2], high_values);                                           \
        finish_f32(&instr->facts, low_values);                                                                         \
        finish_f32(&instr->facts, high_values);                                                                        \
        ALU_EACH_LANE(i)                                                                                               \
        packed[i] = (uint64_t)alu_bits_of_float(high_values[i]) << 32 | alu_bits_of_float(low_values[i]);              \
        emu_store64(warp, &instr->operands[0], packed, mask);                                                          \
        return EMU_NEXT;                                                                                               \
    }

static void read_f32x2(struct emu_warp *warp, const struct emu_operand *operand, bool ftz, float low[EMU_LANES],
                       float high[EMU_LANES])
{
    uint64_t spare[EMU_LANES];
    const uint64_t *row = emu_source64(warp, operand, spare);
    ALU_EACH_LANE(i)
    {
        low[i] = alu_float_of_bits((uint32_t)row[i]);
        high[i] = alu_float_of_bits((uint32_t)(row[i] >> 32));
    }
    if (ftz) {
        ALU_EACH_LANE(i) low[i] = flush(low[i]);
        ALU_EACH_LANE(i) high[i] = flush(high[i]);
    }
}

EXEC_F32(add, 2, as[i] + bs[i], exact_add(as[i], bs[i], rounding))
EXEC_F32(sub, 2, as[i] - bs[i], exact_add(as[i], -bs[i], rounding))
EXEC_F32(mul, 2, as[i] * bs[i], ((double)as[i] * (double)bs[i]))
/* By way of a double rounded to odd even for .rn: that vectorises, fmaf is a call where the host has no FMA. */
EXEC_F32(fma, 3, (float)alu_fma_odd((double)as[i], (double)bs[i], (double)cs[i]),
         exact_fma(as[i], bs[i], cs[i], rounding))
EXEC_F32(div, 2, as[i] / bs[i], ((double)as[i] / (double)bs[i]))
EXEC_F32(rcp, 1, 1.0f / as[i], (1.0 / (double)as[i]))
EXEC_F32(sqrt, 1, sqrtf(as[i]), sqrt((double)as[i]))
EXEC_F32X2(add, 2)
EXEC_F32X2(sub, 2)
EXEC_F32X2(mul, 2)
EXEC_F32X2(fma, 3)

/* ---- Double precision ---- */

static void read_f64(struct emu_warp *warp, const struct emu_operand *operand, double values[EMU_LANES])
{
    uint64_t spare[EMU_LANES];
    memcpy(values, emu_source64(warp, operand, spare), EMU_LANES * sizeof *values);
}

static void store_f64(struct emu_warp *warp, const struct emu_instr *instr, const double values[EMU_LANES],
                      uint32_t mask)
{
    uint64_t bits[EMU_LANES];
    memcpy(bits, values, sizeof bits);
    emu_store64(warp, &instr->operands[0], bits, mask);
}

static int host_rounding(enum emu_rounding rounding)
{
    return rounding == EMU_RZ ? FE_TOWARDZERO : rounding == EMU_RM ? FE_DOWNWARD : FE_UPWARD;
}

/* volatile keeps the operation between the two changes of mode, which compilers do not know about. */
#define EXEC_F64(name, sources, nearest, directed)                                                                     \
    ALU_EXEC(name##_f64)                                                                                               \
    {                                                                                                                  \
        double sources_of[3][EMU_LANES], values[EMU_LANES];                                                            \
        for (int s = 0; s < (sources); s++) {                                                                          \
            read_f64(warp, &instr->operands[s + 1], sources_of[s]);                                                    \
        }                                                                                                              \
        const double *as = sources_of[0], *bs = sources_of[1], *cs = sources_of[2];                                    \
        (void)bs;                                                                                                      \
        (void)cs;                                                                                                      \
        if (instr->facts.rounding == EMU_RN) {                                                                         \
            ALU_EACH_LANE(i) values[i] = nearest;                                                                      \
        } else {                                                                                                       \
            ALU_EACH_LANE(i)                                                                                           \
            {                                                                                                          \
                volatile double a = as[i], b = (sources) > 1 ? bs[i] : 0, c = (sources) > 2 ? cs[i] : 0;               \
                (void)b;                                                                                               \
                (void)c;                                                                                               \
                fesetround(host_rounding((enum emu_rounding)instr->facts.rounding));                                   \
                volatile double result = directed;                                                                     \
                fesetround(FE_TONEAREST);                                                                              \
                values[i] = result;                                                                                    \
            }                                                                                                          \
        }                                                                                                              \
        store_f64(warp, instr, values, mask);                                                                          \
        return EMU_NEXT;                                                                                               \
    }
EXEC_F64(add, 2, as[i] + bs[i], a + b)
EXEC_F64(sub, 2, as[i] - bs[i], a - b)
EXEC_F64(mul, 2, as[i] * bs[i], a *b)
EXEC_F64(fma, 3, fma(as[i], bs[i], cs[i]), fma(a, b, c))
EXEC_F64(div, 2, as[i] / bs[i], a / b)
EXEC_F64(rcp, 1, 1.0 / as[i], 1.0 / a)
EXEC_F64(sqrt, 1, sqrt(as[i]), sqrt(a))

/* ---- Binding of the exactly rounded ones ---- */

#define TYPED(name) (type == EMU_F64 ? name##_f64 : name##_f32)
#define TYPED_OR_X2(name) (type == EMU_F32X2 ? name##_f32x2 : TYPED(name))

#define BIND2(name, pick)                                                                                              \
    bool alu_bind_float_##name(const struct emu_bind *bind)                                                            \
    {                                                                                                                  \
        const enum emu_type type = alu_begin(bind);                                                                    \
        bind->instr->exec = pick;                                                                                      \
        return ALU_FINISH(bind, type, type, type);                                                                     \
    }
BIND2(add, TYPED_OR_X2(add))
BIND2(sub, TYPED_OR_X2(sub))
BIND2(mul, TYPED_OR_X2(mul))

bool alu_bind_float_fma(const struct emu_bind *bind)
{
    const enum emu_type type = alu_begin(bind);
    bind->instr->exec = TYPED_OR_X2(fma);
    return ALU_FINISH(bind, type, type, type, type);
}

/* ---- Approximations ---- */

/* How far an approximation may be off, as the ISA states it; what rounding to the format uses up is taken off. */
struct tolerance {
    double relative;
    double absolute;
    double ulps;
};

static float err_f32(struct emu_warp *warp, double exact, struct tolerance tolerance)
{
    const float nearest = (float)exact;
    if (nearest == 0 || isinf(nearest) || isnan(nearest)) {
        return nearest; /* the tables of special results hold exactly */
    }
    const double ulp = ldexp(1.0, ilogbf(fabsf(nearest) < FLT_MIN ? FLT_MIN : nearest) - 23);
    const double room = tolerance.relative * fabs(exact) + tolerance.absolute + tolerance.ulps * ulp - ulp / 2;
    return room > 0 ? (float)(exact + room * alu_random(warp)) : nearest;
}

/* An approximate function of one float: its value in double, and its bound, both of x. */
#define EXEC_APPROX(name, value, ...)                                                                                  \
    ALU_EXEC(name##_approx)                                                                                            \
    {                                                                                                                  \
        float xs[EMU_LANES], values[EMU_LANES];                                                                        \
        read_f32(warp, &instr->operands[1], instr->facts.ftz, xs);                                                     \
        const bool errs = warp->cta->options->perturb_approx;                                                          \
        ALU_EACH_LANE(i)                                                                                               \
        {                                                                                                              \
            if (!(mask >> i & 1)) {                                                                                    \
                values[i] = 0; /* a lane that is off may hold anything, and libm is slow on some of that */            \
                continue;                                                                                              \
            }                                                                                                          \
            const double x = (double)xs[i];                                                                            \
            const double exact = value;                                                                                \
            values[i] = errs ? err_f32(warp, exact, (struct tolerance)__VA_ARGS__) : (float)exact;                     \
        }                                                                                                              \
        store_f32(warp, instr, values, mask);                                                                          \
        return EMU_NEXT;                                                                                               \
    }

#define PI 3.14159265358979323846

static inline double sine_bound(double x)
{
    return fabs(x) <= 2 * PI ? 0x1p-20 * 0.70710678 : fabs(x) <= 100 * PI ? 0x1p-14 * 0.61557220 : 0;
}

EXEC_APPROX(rcp, 1 / x, {.ulps = 1})
EXEC_APPROX(sqrt, sqrt(x), {.relative = 0x1p-23})
EXEC_APPROX(rsqrt, 1 / sqrt(x), {.relative = 0x1p-22 * 0.53588673}) /* 2^-22.9 */
EXEC_APPROX(ex2, exp2(x), {.ulps = x == 0 ? 0 : 2})
EXEC_APPROX(lg2, log2(x), {.relative = x > 0.5 && x<2 ? 0 : 0x1p-22, .absolute = x> 0.5 && x < 2 ? 0x1p-22 : 0})
EXEC_APPROX(sin, sin(x), {.absolute = sine_bound(x)}) /* 2^-20.5, 2^-14.7 */
EXEC_APPROX(cos, cos(x), {.absolute = x == 0 ? 0 : sine_bound(x)})
EXEC_APPROX(tanh, tanh(x), {.relative = 0x1p-11})

/* div.approx is a * (1/b): beyond 2^126 the reciprocal is zero (9.7.3.8). div.full scales, and has no such hole. */
ALU_EXEC(div_approx)
{
    float as[EMU_LANES], bs[EMU_LANES], values[EMU_LANES];
    read_f32(warp, &instr->operands[1], instr->facts.ftz, as);
    read_f32(warp, &instr->operands[2], instr->facts.ftz, bs);
    const bool errs = warp->cta->options->perturb_approx;
    ALU_EACH_LANE(i)
    {
        const bool hole = instr->facts.approx && fabsf(bs[i]) > 0x1p126f && !isinf(bs[i]);
        const double exact = hole ? (double)as[i] * copysign(0.0, (double)bs[i]) : (double)as[i] / (double)bs[i];
        values[i] = errs ? err_f32(warp, exact, (struct tolerance){.ulps = 2}) : (float)exact;
    }
    store_f32(warp, instr, values, mask);
    return EMU_NEXT;
}

/* rcp and rsqrt .approx.ftz.f64 look at the upper word only and clear the lower one (9.7.3.14, 9.7.3.17). */
static uint64_t upper_word(double value)
{
    if (isnan(value)) {
        return 0x7fffffff00000000ull;
    }
    const uint64_t bits = alu_bits_of_double(value);
    const uint64_t kept = bits & 0x7ff0000000000000ull ? bits : bits & 0x8000000000000000ull;
    return kept & 0xffffffff00000000ull;
}

#define EXEC_GROSS(name, value)                                                                                        \
    ALU_EXEC(name)                                                                                                     \
    {                                                                                                                  \
        double as[EMU_LANES];                                                                                          \
        uint64_t values[EMU_LANES];                                                                                    \
        read_f64(warp, &instr->operands[1], as);                                                                       \
        ALU_EACH_LANE(i)                                                                                               \
        {                                                                                                              \
            const double x = alu_double_of_bits(upper_word(as[i]));                                                    \
            values[i] = upper_word(value);                                                                             \
        }                                                                                                              \
        emu_store64(warp, &instr->operands[0], values, mask);                                                          \
        return EMU_NEXT;                                                                                               \
    }
EXEC_GROSS(rcp_gross, 1 / x)
EXEC_GROSS(rsqrt_gross, 1 / sqrt(x))

ALU_EXEC(rsqrt_f64)
{
    double values[EMU_LANES];
    read_f64(warp, &instr->operands[1], values);
    ALU_EACH_LANE(i) values[i] = 1 / sqrt(values[i]);
    store_f64(warp, instr, values, mask);
    return EMU_NEXT;
}

static bool bind1(const struct emu_bind *bind, enum emu_type type, emu_exec_fn exec)
{
    bind->instr->exec = exec;
    return ALU_FINISH(bind, type, type);
}

bool alu_bind_float_div(const struct emu_bind *bind)
{
    const enum emu_type type = alu_begin(bind);
    bind->instr->exec = bind->instr->facts.approx || bind->instr->facts.full ? div_approx : TYPED(div);
    return ALU_FINISH(bind, type, type, type);
}

bool alu_bind_float_rcp(const struct emu_bind *bind)
{
    const enum emu_type type = alu_begin(bind);
    return bind1(bind, type, !bind->instr->facts.approx ? TYPED(rcp) : type == EMU_F64 ? rcp_gross : rcp_approx);
}

bool alu_bind_float_sqrt(const struct emu_bind *bind)
{
    const enum emu_type type = alu_begin(bind);
    return bind1(bind, type, bind->instr->facts.approx ? sqrt_approx : TYPED(sqrt));
}

bool alu_bind_float_rsqrt(const struct emu_bind *bind)
{
    const enum emu_type type = alu_begin(bind);
    return bind1(bind, type, type == EMU_F32 ? rsqrt_approx : bind->instr->facts.ftz ? rsqrt_gross : rsqrt_f64);
}

#define BIND_APPROX(name)                                                                                              \
    bool alu_bind_float_##name(const struct emu_bind *bind)                                                            \
    {                                                                                                                  \
        return bind1(bind, alu_begin(bind), name##_approx);                                                            \
    }
BIND_APPROX(ex2)
BIND_APPROX(lg2)
BIND_APPROX(sin)
BIND_APPROX(cos)
BIND_APPROX(tanh)

/* ---- Signs: on the bits, so that NaNs keep theirs (9.7.3.9, 9.7.3.10) ---- */

#define EXEC_SIGN(name, W, expression)                                                                                 \
    ALU_EXEC(name)                                                                                                     \
    {                                                                                                                  \
        const uint##W##_t sign = (uint##W##_t)1 << (W - 1);                                                            \
        uint##W##_t spare[EMU_LANES], values[EMU_LANES];                                                               \
        const uint##W##_t *as = emu_source##W(warp, &instr->operands[1], spare);                                       \
        const bool ftz = instr->facts.ftz;                                                                             \
        ALU_EACH_LANE(i)                                                                                               \
        {                                                                                                              \
            const uint##W##_t a = ftz && !(as[i] & 0x7f800000u) ? as[i] & sign : as[i];                                \
            values[i] = expression;                                                                                    \
        }                                                                                                              \
        emu_store##W(warp, &instr->operands[0], values, mask);                                                         \
        return EMU_NEXT;                                                                                               \
    }
EXEC_SIGN(abs_f32, 32, a & ~sign)
EXEC_SIGN(abs_f64, 64, a & ~sign)
EXEC_SIGN(neg_f32, 32, a ^ sign)
EXEC_SIGN(neg_f64, 64, a ^ sign)

bool alu_bind_float_abs(const struct emu_bind *bind)
{
    const enum emu_type type = alu_begin(bind);
    return bind1(bind, type, TYPED(abs));
}

bool alu_bind_float_neg(const struct emu_bind *bind)
{
    const enum emu_type type = alu_begin(bind);
    return bind1(bind, type, TYPED(neg));
}

/* The sign of a on the magnitude of b (9.7.3.2). */
#define EXEC_COPYSIGN(name, W)                                                                                         \
    ALU_EXEC(name)                                                                                                     \
    {                                                                                                                  \
        const uint##W##_t sign = (uint##W##_t)1 << (W - 1);                                                            \
        uint##W##_t spare_a[EMU_LANES], spare_b[EMU_LANES], values[EMU_LANES];                                         \
        const uint##W##_t *as = emu_source##W(warp, &instr->operands[1], spare_a);                                     \
        const uint##W##_t *bs = emu_source##W(warp, &instr->operands[2], spare_b);                                     \
        ALU_EACH_LANE(i) values[i] = (as[i] & sign) | (bs[i] & ~sign);                                                 \
        emu_store##W(warp, &instr->operands[0], values, mask);                                                         \
        return EMU_NEXT;                                                                                               \
    }
EXEC_COPYSIGN(copysign_f32, 32)
EXEC_COPYSIGN(copysign_f64, 64)

bool alu_bind_copysign(const struct emu_bind *bind)
{
    const enum emu_type type = alu_begin(bind);
    bind->instr->exec = TYPED(copysign);
    return ALU_FINISH(bind, type, type, type);
}

/* ---- min, max (9.7.3.11, 9.7.3.12) ---- */

/* -0 < +0, a NaN loses unless .NaN; of two NaNs, and with .NaN, the canonical one (put in by store_f32). */
static inline float smaller(float a, float b, bool nan)
{
    if (a != a) {
        return nan ? a : b;
    }
    if (b != b) {
        return nan ? b : a;
    }
    return a < b || (a == b && signbit(a)) ? a : b;
}

static inline float larger(float a, float b, bool nan)
{
    if (a != a) {
        return nan ? a : b;
    }
    if (b != b) {
        return nan ? b : a;
    }
    return a > b || (a == b && !signbit(a)) ? a : b;
}

enum { MINMAX_XORSIGN = 1 };

#define EXEC_MINMAX(name, choose)                                                                                      \
    ALU_EXEC(name##_f32)                                                                                               \
    {                                                                                                                  \
        float as[EMU_LANES], bs[EMU_LANES], values[EMU_LANES];                                                         \
        const bool nan = instr->facts.nan;                                                                             \
        read_f32(warp, &instr->operands[1], instr->facts.ftz, as);                                                     \
        read_f32(warp, &instr->operands[2], instr->facts.ftz, bs);                                                     \
        if (instr->facts.mode == MINMAX_XORSIGN) {                                                                     \
            ALU_EACH_LANE(i)                                                                                           \
            values[i] = copysignf(choose(fabsf(as[i]), fabsf(bs[i]), nan), signbit(as[i]) != signbit(bs[i]) ? -1 : 1); \
        } else if (nan) {                                                                                              \
            ALU_EACH_LANE(i) values[i] = choose(as[i], bs[i], true);                                                   \
        } else {                                                                                                       \
            ALU_EACH_LANE(i) values[i] = choose(as[i], bs[i], false);                                                  \
        }                                                                                                              \
        store_f32(warp, instr, values, mask);                                                                          \
        return EMU_NEXT;                                                                                               \
    }
EXEC_MINMAX(min, smaller)
EXEC_MINMAX(max, larger)

/* Of two NaNs the first, quiet: double precision keeps payloads (9.7.3). */
static inline double choose_f64(double a, double b, bool larger_one)
{
    if (a != a || b != b) {
        return a != a ? (b != b ? a : b) : a;
    }
    const bool a_smaller = a < b || (a == b && signbit(a));
    return a_smaller != larger_one ? a : b;
}

#define EXEC_MINMAX_F64(name, larger_one)                                                                              \
    ALU_EXEC(name)                                                                                                     \
    {                                                                                                                  \
        double as[EMU_LANES], bs[EMU_LANES];                                                                           \
        read_f64(warp, &instr->operands[1], as);                                                                       \
        read_f64(warp, &instr->operands[2], bs);                                                                       \
        ALU_EACH_LANE(i) as[i] = choose_f64(as[i], bs[i], larger_one);                                                 \
        store_f64(warp, instr, as, mask);                                                                              \
        return EMU_NEXT;                                                                                               \
    }
EXEC_MINMAX_F64(min_f64, false)
EXEC_MINMAX_F64(max_f64, true)

static bool bind_minmax(const struct emu_bind *bind, emu_exec_fn f32, emu_exec_fn f64)
{
    const enum emu_type type = alu_begin(bind);
    bind->instr->facts.mode = alu_has(bind, "xorsign") ? MINMAX_XORSIGN : 0;
    bind->instr->exec = type == EMU_F64 ? f64 : f32;
    return ALU_FINISH(bind, type, type, type);
}

bool alu_bind_float_min(const struct emu_bind *bind)
{
    return bind_minmax(bind, min_f32, min_f64);
}

bool alu_bind_float_max(const struct emu_bind *bind)
{
    return bind_minmax(bind, max_f32, max_f64);
}

/* ---- testp (9.7.3.1): facts.number holds the kinds that pass; zero counts as normal ---- */

enum { IS_NAN = 1, IS_INFINITE = 2, IS_SUBNORMAL = 4, IS_NORMAL = 8 };

static int kind_of(double value, double smallest_normal)
{
    if (isnan(value)) {
        return IS_NAN;
    }
    if (isinf(value)) {
        return IS_INFINITE;
    }
    return value != 0 && fabs(value) < smallest_normal ? IS_SUBNORMAL : IS_NORMAL;
}

ALU_EXEC(testp)
{
    uint8_t flags[EMU_LANES];
    if (instr->type == EMU_F32) {
        float values[EMU_LANES];
        read_f32(warp, &instr->operands[1], false, values);
        ALU_EACH_LANE(i) flags[i] = (kind_of((double)values[i], (double)FLT_MIN) & instr->facts.number) != 0;
    } else {
        double values[EMU_LANES];
        read_f64(warp, &instr->operands[1], values);
        ALU_EACH_LANE(i) flags[i] = (kind_of(values[i], DBL_MIN) & instr->facts.number) != 0;
    }
    emu_store_pred(warp, &instr->operands[0], alu_pack(flags), mask);
    return EMU_NEXT;
}

bool alu_bind_testp(const struct emu_bind *bind)
{
    static const struct {
        const char *name;
        int kinds;
    } tests[] = {{"finite", IS_SUBNORMAL | IS_NORMAL},
                 {"infinite", IS_INFINITE},
                 {"number", ~IS_NAN},
                 {"notanumber", IS_NAN},
                 {"normal", IS_NORMAL},
                 {"subnormal", IS_SUBNORMAL}};
    const enum emu_type type = alu_begin(bind);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (alu_has(bind, tests[i].name)) {
            bind->instr->facts.number = tests[i].kinds;
        }
    }
    bind->instr->exec = testp;
    return ALU_FINISH(bind, EMU_PRED, type);
}

/* ---- Mixed precision (9.7.5): f16 or bf16 sources, widened exactly; the last source is f32 ---- */

static void read_half(struct emu_warp *warp, const struct emu_operand *operand, enum emu_type type,
                      float values[EMU_LANES])
{
    uint32_t spare[EMU_LANES];
    const uint32_t *row = emu_source32(warp, operand, spare);
    if (type == EMU_F16) {
        ALU_EACH_LANE(i) values[i] = (float)alu_double_of_f16(row[i]);
    } else {
        ALU_EACH_LANE(i) values[i] = alu_float_of_bits(row[i] << 16);
    }
}

ALU_EXEC(mixed)
{
    float sources[3][EMU_LANES], values[EMU_LANES];
    const int last = instr->operand_count - 1;
    for (int s = 1; s < last; s++) {
        read_half(warp, &instr->operands[s], (enum emu_type)instr->type2, sources[s - 1]);
    }
    read_f32(warp, &instr->operands[last], false, sources[last - 1]);
    switch (instr->text[0]) {
    case 'a':
        add_lanes(&instr->facts, sources[0], sources[1], NULL, values);
        break;
    case 's':
        sub_lanes(&instr->facts, sources[0], sources[1], NULL, values);
        break;
    default:
        fma_lanes(&instr->facts, sources[0], sources[1], sources[2], values);
        break;
    }
    store_f32(warp, instr, values, mask);
    return EMU_NEXT;
}

bool alu_bind_mixed(const struct emu_bind *bind)
{
    alu_begin(bind);
    const enum emu_type half = (enum emu_type)bind->instr->type2;
    bind->instr->exec = mixed;
    return bind->instr->operand_count == 3 ? ALU_FINISH(bind, EMU_F32, half, EMU_F32)
                                           : ALU_FINISH(bind, EMU_F32, half, half, EMU_F32);
}
