/* Comparison and selection (PTX ISA 9.7.6, 9.7.7). */
#include "alu.h"

/* ---- Relations: a comparison is the set of outcomes for which it holds ---- */

enum { LESS = 1, EQUAL = 2, GREATER = 4, UNORDERED = 8 };

static const struct comparison {
    const char *name;
    uint8_t holds_for;
    enum { ANY_TYPE, UNSIGNED_ONLY, FLOAT_ONLY } types;
} comparisons[] = {
    {"eq", EQUAL, ANY_TYPE},
    {"ne", LESS | GREATER, ANY_TYPE},
    {"lt", LESS, ANY_TYPE},
    {"le", LESS | EQUAL, ANY_TYPE},
    {"gt", GREATER, ANY_TYPE},
    {"ge", GREATER | EQUAL, ANY_TYPE},
    {"lo", LESS, UNSIGNED_ONLY},
    {"ls", LESS | EQUAL, UNSIGNED_ONLY},
    {"hi", GREATER, UNSIGNED_ONLY},
    {"hs", GREATER | EQUAL, UNSIGNED_ONLY},
    {"equ", EQUAL | UNORDERED, FLOAT_ONLY},
    {"neu", LESS | GREATER | UNORDERED, FLOAT_ONLY},
    {"ltu", LESS | UNORDERED, FLOAT_ONLY},
    {"leu", LESS | EQUAL | UNORDERED, FLOAT_ONLY},
    {"gtu", GREATER | UNORDERED, FLOAT_ONLY},
    {"geu", GREATER | EQUAL | UNORDERED, FLOAT_ONLY},
    {"num", LESS | EQUAL | GREATER, FLOAT_ONLY},
    {"nan", UNORDERED, FLOAT_ONLY},
};

enum { BOOL_NONE, BOOL_AND, BOOL_OR, BOOL_XOR };

static bool is_float(enum emu_type type)
{
    return type >= EMU_F16 && type <= EMU_F64;
}

static bool is_pair(enum emu_type type)
{
    return type == EMU_F16X2 || type == EMU_BF16X2;
}

static bool is_bit_size(enum emu_type type)
{
    return type == EMU_B16 || type == EMU_B32 || type == EMU_B64;
}

static bool is_unsigned(enum emu_type type)
{
    return type == EMU_U16 || type == EMU_U32 || type == EMU_U64;
}

/* ---- One bit a lane ---- */

/* Works out all outcomes and keeps those asked for: one vectorised loop for every comparison. */
#define COMPARE_LANES(name, T)                                                                                         \
    static uint32_t compare_##name(const T *as, const T *bs, unsigned holds_for)                                       \
    {                                                                                                                  \
        const bool less = holds_for & LESS, equal = holds_for & EQUAL, greater = holds_for & GREATER;                  \
        const bool unordered = holds_for & UNORDERED;                                                                  \
        uint8_t flags[EMU_LANES];                                                                                      \
        ALU_EACH_LANE(i)                                                                                               \
        {                                                                                                              \
            const bool is_less = as[i]<bs[i], is_equal = as[i] == bs[i], is_greater = as[i]> bs[i];                    \
            flags[i] = (uint8_t)((is_less & less) | (is_equal & equal) | (is_greater & greater) |                      \
                                 (!(is_less | is_equal | is_greater) & unordered));                                    \
        }                                                                                                              \
        return alu_pack(flags);                                                                                        \
    }
COMPARE_LANES(s32, int32_t)
COMPARE_LANES(u32, uint32_t)
COMPARE_LANES(s64, int64_t)
COMPARE_LANES(u64, uint64_t)
COMPARE_LANES(f32, float)
COMPARE_LANES(f64, double)

static void flush_f32(uint32_t *bits)
{
    ALU_EACH_LANE(i) bits[i] = bits[i] & 0x7f800000u ? bits[i] : bits[i] & 0x80000000u;
}

/* A half of each register as a double; f16 subnormals flushed with .ftz. */
static void read_half(const uint32_t *row, int shift, enum emu_type type, bool ftz, double values[EMU_LANES])
{
    if (type == EMU_BF16 || type == EMU_BF16X2) {
        ALU_EACH_LANE(i) values[i] = (double)alu_float_of_bits(row[i] >> shift << 16);
    } else {
        ALU_EACH_LANE(i)
        {
            const uint32_t bits = row[i] >> shift & 0xffff;
            values[i] = alu_double_of_f16(ftz && !(bits & 0x7c00) ? bits & 0x8000 : bits);
        }
    }
}

static uint32_t compare32(struct emu_warp *warp, const struct emu_instr *instr, enum emu_type type, int shift)
{
    const unsigned holds_for = instr->facts.compare;
    uint32_t as[EMU_LANES], bs[EMU_LANES], spare[EMU_LANES];
    memcpy(as, emu_source32(warp, &instr->operands[1], spare), sizeof as);
    memcpy(bs, emu_source32(warp, &instr->operands[2], spare), sizeof bs);
    switch (type) {
    case EMU_F32: {
        float x[EMU_LANES], y[EMU_LANES];
        if (instr->facts.ftz) {
            flush_f32(as);
            flush_f32(bs);
        }
        memcpy(x, as, sizeof x);
        memcpy(y, bs, sizeof y);
        return compare_f32(x, y, holds_for);
    }
    case EMU_F16:
    case EMU_F16X2:
    case EMU_BF16:
    case EMU_BF16X2: {
        double x[EMU_LANES], y[EMU_LANES];
        read_half(as, shift, type, instr->facts.ftz, x);
        read_half(bs, shift, type, instr->facts.ftz, y);
        return compare_f64(x, y, holds_for);
    }
    case EMU_S16: {
        int32_t x[EMU_LANES], y[EMU_LANES];
        ALU_EACH_LANE(i) x[i] = (int16_t)(uint16_t)as[i];
        ALU_EACH_LANE(i) y[i] = (int16_t)(uint16_t)bs[i];
        return compare_s32(x, y, holds_for);
    }
    case EMU_U16:
    case EMU_B16: /* a negative constant comes sign-extended */
        ALU_EACH_LANE(i) as[i] &= 0xffff;
        ALU_EACH_LANE(i) bs[i] &= 0xffff;
        return compare_u32(as, bs, holds_for);
    case EMU_S32: {
        int32_t x[EMU_LANES], y[EMU_LANES];
        memcpy(x, as, sizeof x);
        memcpy(y, bs, sizeof y);
        return compare_s32(x, y, holds_for);
    }
    default:
        return compare_u32(as, bs, holds_for);
    }
}

static uint32_t compare64(struct emu_warp *warp, const struct emu_instr *instr, enum emu_type type)
{
    const unsigned holds_for = instr->facts.compare;
    uint64_t spare_a[EMU_LANES], spare_b[EMU_LANES];
    const uint64_t *as = emu_source64(warp, &instr->operands[1], spare_a);
    const uint64_t *bs = emu_source64(warp, &instr->operands[2], spare_b);
    if (type == EMU_F64) {
        double x[EMU_LANES], y[EMU_LANES];
        memcpy(x, as, sizeof x);
        memcpy(y, bs, sizeof y);
        return compare_f64(x, y, holds_for);
    }
    if (type == EMU_S64) {
        int64_t x[EMU_LANES], y[EMU_LANES];
        memcpy(x, as, sizeof x);
        memcpy(y, bs, sizeof y);
        return compare_s64(x, y, holds_for);
    }
    return compare_u64(as, bs, holds_for);
}

/* shift: 16 for the upper elements of a pair. */
static uint32_t compare(struct emu_warp *warp, const struct emu_instr *instr, enum emu_type type, int shift)
{
    return emu_type_bits(type) == 64 ? compare64(warp, instr, type) : compare32(warp, instr, type, shift);
}

/* Combines with the predicate source, when there is one. */
static uint32_t combine(struct emu_warp *warp, const struct emu_instr *instr, uint32_t compared)
{
    if (instr->facts.bool_op == BOOL_NONE) {
        return compared;
    }
    const uint32_t other = emu_source_pred(warp, &instr->operands[3]);
    return instr->facts.bool_op == BOOL_AND  ? compared & other
           : instr->facts.bool_op == BOOL_OR ? compared | other
                                             : compared ^ other;
}

/* Comparison and Boolean operation of set and setp, whose source type is `type`. */
static bool bind_comparison(const struct emu_bind *bind, enum emu_type type)
{
    struct emu_facts *facts = &bind->instr->facts;
    const struct comparison *comparison = NULL;
    for (size_t i = 0; i < sizeof comparisons / sizeof *comparisons; i++) {
        if (alu_has(bind, comparisons[i].name)) {
            comparison = &comparisons[i];
        }
    }
    facts->compare = comparison->holds_for;
    facts->bool_op = alu_has(bind, "and")   ? BOOL_AND
                     : alu_has(bind, "or")  ? BOOL_OR
                     : alu_has(bind, "xor") ? BOOL_XOR
                                            : BOOL_NONE;
    if (comparison->types == FLOAT_ONLY && !is_float(type)) {
        return alu_refuse(bind, ".%s compares floating-point numbers", comparison->name);
    }
    if (comparison->types == UNSIGNED_ONLY && !is_unsigned(type)) {
        return alu_refuse(bind, ".%s compares unsigned integers", comparison->name);
    }
    if (is_bit_size(type) && facts->compare != EQUAL && facts->compare != (LESS | GREATER)) {
        return alu_refuse(bind, "untyped bits are equal or not; .%s needs a type", comparison->name);
    }
    if (facts->ftz && type != EMU_F32 && type != EMU_F16 && type != EMU_F16X2) {
        return alu_refuse(bind, ".ftz goes with f32 and f16");
    }
    if ((facts->bool_op != BOOL_NONE) != (bind->instr->operand_count == 4)) {
        return alu_refuse(bind, "a Boolean operation and a predicate source go together");
    }
    return true;
}

/* ---- setp (9.7.6.2, 9.7.7.2) ---- */

ALU_EXEC(setp)
{
    const struct emu_operand *to = &instr->operands[0];
    const enum emu_type type = (enum emu_type)instr->type;
    const uint32_t compared = compare(warp, instr, type, 0);
    if (to->kind != EMU_OP_PRED_PAIR) {
        emu_store_pred(warp, to, combine(warp, instr, compared), mask);
        return EMU_NEXT;
    }
    const uint32_t second = is_pair(type) ? compare(warp, instr, type, 16) : ~compared;
    const uint32_t p = combine(warp, instr, compared), q = combine(warp, instr, second);
    const struct emu_operand first_to = {.kind = to->row < 0 ? EMU_OP_SINK : EMU_OP_PRED, .row = to->row};
    const struct emu_operand second_to = {.kind = to->row2 < 0 ? EMU_OP_SINK : EMU_OP_PRED, .row = to->row2};
    emu_store_pred(warp, &first_to, p, mask);
    emu_store_pred(warp, &second_to, q, mask);
    return EMU_NEXT;
}

bool alu_bind_setp(const struct emu_bind *bind)
{
    const enum emu_type type = alu_begin(bind);
    bind->instr->exec = setp;
    if (is_pair(type) != (bind->instr->operands[0].kind == EMU_OP_PRED_PAIR) && is_pair(type)) {
        return alu_refuse(bind, "two comparisons have two results");
    }
    return bind_comparison(bind, type) && ALU_FINISH(bind, EMU_PRED, type, type, EMU_PRED);
}

/* ---- set (9.7.6.1, 9.7.7.1): all ones or 1.0 where true ---- */

static uint32_t true_of(enum emu_type type)
{
    switch (type) {
    case EMU_F32:
        return 0x3f800000;
    case EMU_F16:
    case EMU_F16X2:
        return 0x3c00;
    case EMU_BF16:
    case EMU_BF16X2:
        return 0x3f80;
    case EMU_U16:
    case EMU_S16:
        return 0xffff;
    default:
        return 0xffffffff;
    }
}

ALU_EXEC(set)
{
    const enum emu_type to = (enum emu_type)instr->type, type = (enum emu_type)instr->type2;
    const uint32_t low = combine(warp, instr, compare(warp, instr, type, 0));
    uint32_t values[EMU_LANES];
    if (is_pair(type)) {
        const uint32_t high = combine(warp, instr, compare(warp, instr, type, 16));
        const uint32_t one = true_of(to) & 0xffff;
        ALU_EACH_LANE(i) values[i] = (low >> i & 1 ? one : 0) | (high >> i & 1 ? one << 16 : 0);
    } else {
        const uint32_t one = true_of(to);
        ALU_EACH_LANE(i) values[i] = low >> i & 1 ? one : 0;
    }
    emu_store32(warp, &instr->operands[0], values, mask);
    return EMU_NEXT;
}

bool alu_bind_set(const struct emu_bind *bind)
{
    const enum emu_type to = alu_begin(bind), type = (enum emu_type)bind->instr->type2;
    const bool pair_result = is_pair(to) || to == EMU_U32 || to == EMU_S32;
    bind->instr->exec = set;
    if (is_pair(type) ? !pair_result || (is_pair(to) && to != type) : is_pair(to)) {
        return alu_refuse(bind, "these two types do not go together");
    }
    return bind_comparison(bind, type) && ALU_FINISH(bind, to, type, type, EMU_PRED);
}

/* ---- selp, slct (9.7.6.3, 9.7.6.4) ---- */

/* a in the lanes of `first`, b in the others: two stores into disjoint lanes. */
static void select32(struct emu_warp *warp, const struct emu_instr *instr, uint32_t first, uint32_t mask)
{
    const struct emu_operand *to = &instr->operands[0];
    const uint32_t kept = to->bits == 16 ? 0xffff : 0xffffffff; /* of a negative 16-bit constant */
    uint32_t as[EMU_LANES], bs[EMU_LANES], spare[EMU_LANES];
    memcpy(as, emu_source32(warp, &instr->operands[1], spare), sizeof as);
    memcpy(bs, emu_source32(warp, &instr->operands[2], spare), sizeof bs);
    ALU_EACH_LANE(i) as[i] &= kept;
    ALU_EACH_LANE(i) bs[i] &= kept;
    emu_store32(warp, to, bs, mask & ~first);
    emu_store32(warp, to, as, mask & first);
}

static void select64(struct emu_warp *warp, const struct emu_instr *instr, uint32_t first, uint32_t mask)
{
    uint64_t as[EMU_LANES], bs[EMU_LANES], spare[EMU_LANES];
    memcpy(as, emu_source64(warp, &instr->operands[1], spare), sizeof as);
    memcpy(bs, emu_source64(warp, &instr->operands[2], spare), sizeof bs);
    emu_store64(warp, &instr->operands[0], bs, mask & ~first);
    emu_store64(warp, &instr->operands[0], as, mask & first);
}

ALU_EXEC(selp32)
{
    select32(warp, instr, emu_source_pred(warp, &instr->operands[3]), mask);
    return EMU_NEXT;
}

ALU_EXEC(selp64)
{
    select64(warp, instr, emu_source_pred(warp, &instr->operands[3]), mask);
    return EMU_NEXT;
}

bool alu_bind_selp(const struct emu_bind *bind)
{
    const enum emu_type type = alu_begin(bind);
    bind->instr->exec = emu_type_bits(type) == 64 ? selp64 : selp32;
    return ALU_FINISH(bind, type, type, type, EMU_PRED);
}

/* c >= 0; -0 is, a NaN is not, and with .ftz a negative subnormal is. */
static uint32_t not_negative(struct emu_warp *warp, const struct emu_instr *instr)
{
    uint32_t cs[EMU_LANES], spare[EMU_LANES];
    memcpy(cs, emu_source32(warp, &instr->operands[3], spare), sizeof cs);
    if (instr->type2 == EMU_F32) {
        const float zero[EMU_LANES] = {0};
        float values[EMU_LANES];
        if (instr->facts.ftz) {
            flush_f32(cs);
        }
        memcpy(values, cs, sizeof values);
        return compare_f32(values, zero, GREATER | EQUAL);
    }
    const int32_t zero[EMU_LANES] = {0};
    int32_t values[EMU_LANES];
    memcpy(values, cs, sizeof values);
    return compare_s32(values, zero, GREATER | EQUAL);
}

ALU_EXEC(slct32)
{
    select32(warp, instr, not_negative(warp, instr), mask);
    return EMU_NEXT;
}

ALU_EXEC(slct64)
{
    select64(warp, instr, not_negative(warp, instr), mask);
    return EMU_NEXT;
}

bool alu_bind_slct(const struct emu_bind *bind)
{
    const enum emu_type type = alu_begin(bind), condition = (enum emu_type)bind->instr->type2;
    bind->instr->exec = emu_type_bits(type) == 64 ? slct64 : slct32;
    if (bind->instr->facts.ftz && condition != EMU_F32) {
        return alu_refuse(bind, ".ftz goes with an f32 condition");
    }
    return ALU_FINISH(bind, type, type, type, condition);
}
