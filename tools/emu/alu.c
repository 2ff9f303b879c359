/* The scalar part of the permitted set, and what its bind functions share. */
#include "alu.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- Bind ---- */

bool alu_has(const struct emu_bind *bind, const char *token)
{
    for (int i = 0; i < bind->token_count; i++) {
        if (strcmp(bind->tokens[i], token) == 0) {
            return true;
        }
    }
    return false;
}

bool alu_refuse(const struct emu_bind *bind, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(bind->why, 256, format, args);
    va_end(args);
    return false;
}

enum emu_type alu_begin(const struct emu_bind *bind)
{
    static const struct {
        const char *name;
        enum emu_rounding rounding;
    } roundings[] = {{"rn", EMU_RN},   {"rz", EMU_RZ},   {"rm", EMU_RM},   {"rp", EMU_RP},  {"rna", EMU_RNA},
                     {"rni", EMU_RNI}, {"rzi", EMU_RZI}, {"rmi", EMU_RMI}, {"rpi", EMU_RPI}};
    struct emu_instr *instr = bind->instr;
    struct emu_facts *facts = &instr->facts;
    uint8_t *types[] = {&instr->type, &instr->type2, &instr->type3};
    size_t type_count = 0;
    instr->type = instr->type2 = instr->type3 = EMU_NONE;
    for (int i = 0; i < bind->token_count; i++) {
        const char *token = bind->tokens[i];
        const enum emu_type type = emu_type_find(token);
        if (type != EMU_NONE && type_count < 3) {
            *types[type_count++] = (uint8_t)type;
        }
        for (size_t j = 0; j < sizeof roundings / sizeof *roundings; j++) {
            if (strcmp(token, roundings[j].name) == 0) {
                facts->rounding = (uint8_t)roundings[j].rounding;
            }
        }
    }
    facts->ftz = alu_has(bind, "ftz");
    facts->sat = alu_has(bind, "sat");
    facts->nan = alu_has(bind, "NaN");
    facts->approx = alu_has(bind, "approx");
    facts->full = alu_has(bind, "full");
    facts->hi = alu_has(bind, "hi");
    facts->wide = alu_has(bind, "wide");
    facts->relu = alu_has(bind, "relu");
    facts->satfinite = alu_has(bind, "satfinite");
    return (enum emu_type)instr->type;
}

static bool is_f32(enum emu_type type)
{
    return type == EMU_F32 || type == EMU_TF32;
}

/* A float literal's own width is 32 bits (0f) or 64 bits (0d, decimal); the operand wants its type's (4.5.2). */
static void convert_literal(const struct emu_bind *bind, int index, enum emu_type type)
{
    /* The operands belong to the instruction that is being completed. */
    struct emu_operand *operand = (struct emu_operand *)&bind->instr->operands[index];
    if (operand->bits == 64 && is_f32(type)) {
        operand->imm = alu_bits_of_float((float)alu_double_of_bits((uint64_t)operand->imm));
        operand->bits = 32;
    } else if (operand->bits == 32 && type == EMU_F64) {
        operand->imm = (int64_t)alu_bits_of_double((double)alu_float_of_bits((uint32_t)operand->imm));
        operand->bits = 64;
    }
}

static bool check_operand(const struct emu_bind *bind, int index, enum emu_type type, bool may_be_wider)
{
    const struct emu_operand *operand = &bind->instr->operands[index];
    const int bits = emu_type_bits(type) < 16 && type != EMU_PRED ? 16 : emu_type_bits(type);
    switch (operand->kind) {
    case EMU_OP_REG:
        if (type == EMU_PRED || (operand->bits != bits && !(may_be_wider && operand->bits > bits))) {
            return alu_refuse(bind, "operand %d is a register of %d bits, not of %d", index + 1, operand->bits, bits);
        }
        return true;
    case EMU_OP_PRED:
        return type == EMU_PRED || alu_refuse(bind, "operand %d must not be a predicate", index + 1);
    case EMU_OP_PRED_PAIR:
        if (index > 0 || operand->bits > 32 || (operand->bits == 32 ? bits != 32 : type != EMU_PRED)) {
            return alu_refuse(bind, "operand %d must not be such a pair", index + 1);
        }
        return true;
    case EMU_OP_IMM:
        if (index == 0) {
            return alu_refuse(bind, "a constant cannot be written");
        }
        convert_literal(bind, index, type);
        return true;
    case EMU_OP_SPECIAL:
    case EMU_OP_SYMBOL:
        return (index > 0 && type != EMU_PRED) || alu_refuse(bind, "operand %d must be a register", index + 1);
    case EMU_OP_SINK:
        return index == 0 || alu_refuse(bind, "operand %d cannot be _", index + 1);
    default:
        return alu_refuse(bind, "operand %d is of a kind that this instruction does not take", index + 1);
    }
}

bool alu_finish(const struct emu_bind *bind, const enum emu_type *types, size_t count)
{
    if (!bind->instr->exec) {
        return alu_refuse(bind, "not with this type");
    }
    if (bind->instr->operand_count > count) {
        return alu_refuse(bind, "too many operands");
    }
    for (int i = 0; i < bind->instr->operand_count; i++) {
        if (!check_operand(bind, i, types[i], false)) {
            return false;
        }
    }
    return true;
}

bool alu_finish_wide(const struct emu_bind *bind, int index, enum emu_type type)
{
    return check_operand(bind, index, type, true);
}

/* ---- Lanes ---- */

void alu_read64(struct emu_warp *warp, const struct emu_operand *operand, uint64_t values[EMU_LANES])
{
    if (operand->kind == EMU_OP_REG && operand->bits < 64) {
        const uint32_t *row = emu_row32(warp, operand->row);
        ALU_EACH_LANE(i) values[i] = row[i];
    } else {
        uint64_t spare[EMU_LANES];
        memcpy(values, emu_source64(warp, operand, spare), EMU_LANES * sizeof *values);
    }
}

void alu_store_any(struct emu_warp *warp, const struct emu_operand *operand, const uint64_t values[EMU_LANES],
                   uint32_t mask)
{
    if (operand->bits == 64) {
        emu_store64(warp, operand, values, mask);
        return;
    }
    const uint32_t kept = operand->bits == 16 ? 0xffff : 0xffffffff;
    uint32_t low[EMU_LANES];
    ALU_EACH_LANE(i) low[i] = (uint32_t)values[i] & kept;
    emu_store32(warp, operand, low, mask);
}

uint32_t alu_pack(const uint8_t flags[EMU_LANES])
{
    uint32_t mask = 0;
    for (int i = 0; i < EMU_LANES; i += 8) {
        uint64_t eight;
        memcpy(&eight, flags + i, 8);
        /* Byte k of the product's top byte gathers bit 0 of each of the eight: 56 - 7k places apart, without carries.
         */
        mask |= (uint32_t)(eight * 0x0102040810204080ull >> 56) << i;
    }
    return mask;
}

double alu_random(struct emu_warp *warp)
{
    /* splitmix64 (Steele, Lea, Flood 2014) */
    uint64_t z = warp->random += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-52 - 1.0;
}

/* ---- The rows ---- */

#define INTEGERS "[u16,u32,u64,s16,s32,s64]"
#define WIDTHS "[b16,b32,b64]"
#define ANY_TYPE "[b16,b32,b64,u16,u32,u64,s16,s32,s64,f32,f64]"
#define COMPARED "[b16,b32,b64,u16,u32,u64,s16,s32,s64,f16,f16x2,bf16,bf16x2,f32,f64]"
#define HALVES "[f16,f16x2,bf16,bf16x2]"
#define COMPARISONS "[eq,ne,lt,le,gt,ge,lo,ls,hi,hs,equ,neu,ltu,leu,gtu,geu,num,nan]"
#define ROUNDED "{rn,rz,rm,rp}"
#define MUST_ROUND "[rn,rz,rm,rp]"
#define CVT_TYPES "[u8,u16,u32,u64,s8,s16,s32,s64,f16,bf16,f32,f64]"

static const struct emu_row rows[] = {
    /* Moves */
    {"mov.[pred,b16,b32,b64,u16,u32,u64,s16,s32,s64,f32,f64]", "ds", alu_bind_mov, "9.7.9.3, 9.7.9.4"},

    /* Integer arithmetic */
    {"add." INTEGERS, "dss", alu_bind_add, "9.7.1.1"},
    {"add.sat.s32", "dss", alu_bind_add_sat, "9.7.1.1"},
    {"add.[u16x2,s16x2]", "dss", alu_bind_add_x2, "9.7.1.1"},
    {"sub." INTEGERS, "dss", alu_bind_sub, "9.7.1.2"},
    {"sub.sat.s32", "dss", alu_bind_sub_sat, "9.7.1.2"},
    {"add.cc.[u32,s32,u64,s64]", "dss", alu_bind_carry, "9.7.2.1"},
    {"addc.{cc}.[u32,s32,u64,s64]", "dss", alu_bind_carry, "9.7.2.2"},
    {"sub.cc.[u32,s32,u64,s64]", "dss", alu_bind_carry, "9.7.2.3"},
    {"subc.{cc}.[u32,s32,u64,s64]", "dss", alu_bind_carry, "9.7.2.4"},
    {"mad.[lo,hi].cc.[u32,s32,u64,s64]", "dsss", alu_bind_carry, "9.7.2.5"},
    {"madc.[lo,hi].{cc}.[u32,s32,u64,s64]", "dsss", alu_bind_carry, "9.7.2.6"},
    {"mul.lo." INTEGERS, "dss", alu_bind_mul_lo, "9.7.1.3"},
    {"mul.hi." INTEGERS, "dss", alu_bind_mul_hi, "9.7.1.3"},
    {"mul.wide.[u16,u32,s16,s32]", "dss", alu_bind_mul_wide, "9.7.1.3"},
    {"mad.lo." INTEGERS, "dsss", alu_bind_mad_lo, "9.7.1.4"},
    {"mad.hi." INTEGERS, "dsss", alu_bind_mad_hi, "9.7.1.4"},
    {"mad.hi.sat.s32", "dsss", alu_bind_mad_hi_sat, "9.7.1.4"},
    {"mad.wide.[u16,u32,s16,s32]", "dsss", alu_bind_mad_wide, "9.7.1.4"},
    {"mul24.[lo,hi].[u32,s32]", "dss", alu_bind_mul24, "9.7.1.5"},
    {"mad24.[lo,hi].[u32,s32]", "dsss", alu_bind_mad24, "9.7.1.6"},
    {"mad24.hi.sat.s32", "dsss", alu_bind_mad24, "9.7.1.6"},
    {"sad." INTEGERS, "dsss", alu_bind_sad, "9.7.1.7"},
    {"div." INTEGERS, "dss", alu_bind_div, "9.7.1.8"},
    {"rem." INTEGERS, "dss", alu_bind_rem, "9.7.1.9"},
    {"abs.[s16,s32,s64]", "ds", alu_bind_abs, "9.7.1.10"},
    {"neg.[s16,s32,s64]", "ds", alu_bind_neg, "9.7.1.11"},
    {"min." INTEGERS, "dss", alu_bind_min, "9.7.1.12"},
    {"min.relu.s32", "dss", alu_bind_min, "9.7.1.12"},
    {"min.u16x2", "dss", alu_bind_min_x2, "9.7.1.12"},
    {"min.{relu}.s16x2", "dss", alu_bind_min_x2, "9.7.1.12"},
    {"max." INTEGERS, "dss", alu_bind_max, "9.7.1.13"},
    {"max.relu.s32", "dss", alu_bind_max, "9.7.1.13"},
    {"max.u16x2", "dss", alu_bind_max_x2, "9.7.1.13"},
    {"max.{relu}.s16x2", "dss", alu_bind_max_x2, "9.7.1.13"},
    {"popc.[b32,b64]", "ds", alu_bind_popc, "9.7.1.14"},
    {"clz.[b32,b64]", "ds", alu_bind_clz, "9.7.1.15"},
    {"bfind.{shiftamt}.[u32,u64,s32,s64]", "ds", alu_bind_bfind, "9.7.1.16"},
    {"fns.b32", "dsss", alu_bind_fns, "9.7.1.17"},
    {"brev.[b32,b64]", "ds", alu_bind_brev, "9.7.1.18"},
    {"bfe.[u32,u64,s32,s64]", "dsss", alu_bind_bfe, "9.7.1.19"},
    {"bfi.[b32,b64]", "dssss", alu_bind_bfi, "9.7.1.20"},
    {"szext.[clamp,wrap].[u32,s32]", "dss", alu_bind_szext, "9.7.1.21"},
    {"bmsk.[clamp,wrap].b32", "dss", alu_bind_bmsk, "9.7.1.22"},
    {"dp4a.[u32,s32].[u32,s32]", "dsss", alu_bind_dp4a, "9.7.1.23"},
    {"dp2a.[lo,hi].[u32,s32].[u32,s32]", "dsss", alu_bind_dp2a, "9.7.1.24"},

    /* Logic and shifts */
    {"and." WIDTHS, "dss", alu_bind_and, "9.7.8.1"},
    {"or." WIDTHS, "dss", alu_bind_or, "9.7.8.2"},
    {"xor." WIDTHS, "dss", alu_bind_xor, "9.7.8.3"},
    {"not." WIDTHS, "ds", alu_bind_not, "9.7.8.4"},
    {"and.pred", "dss", alu_bind_logic_pred, "9.7.8.1"},
    {"or.pred", "dss", alu_bind_logic_pred, "9.7.8.2"},
    {"xor.pred", "dss", alu_bind_logic_pred, "9.7.8.3"},
    {"not.pred", "ds", alu_bind_logic_pred, "9.7.8.4"},
    {"cnot." WIDTHS, "ds", alu_bind_cnot, "9.7.8.5"},
    {"lop3.b32", "dssss", alu_bind_lop3, "9.7.8.6"},
    {"lop3.[or,and].b32", "dsssss", alu_bind_lop3, "9.7.8.6"},
    {"shf.[l,r].[clamp,wrap].b32", "dsss", alu_bind_shf, "9.7.8.7"},
    {"shl." WIDTHS, "dss", alu_bind_shl, "9.7.8.8"},
    {"shr.[b16,b32,b64,u16,u32,u64,s16,s32,s64]", "dss", alu_bind_shr, "9.7.8.9"},
    {"prmt.b32.{f4e,b4e,rc8,ecl,ecr,rc16}", "dsss", alu_bind_prmt, "9.7.9.7"},

    /* Single and double precision */
    {"testp.[finite,infinite,number,notanumber,normal,subnormal].[f32,f64]", "ds", alu_bind_testp, "9.7.3.1"},
    {"copysign.[f32,f64]", "dss", alu_bind_copysign, "9.7.3.2"},
    {"add." ROUNDED ".{ftz}.{sat}.f32", "dss", alu_bind_float_add, "9.7.3.3"},
    {"add." ROUNDED ".{ftz}.f32x2", "dss", alu_bind_float_add, "9.7.3.3"},
    {"add." ROUNDED ".f64", "dss", alu_bind_float_add, "9.7.3.3"},
    {"sub." ROUNDED ".{ftz}.{sat}.f32", "dss", alu_bind_float_sub, "9.7.3.4"},
    {"sub." ROUNDED ".{ftz}.f32x2", "dss", alu_bind_float_sub, "9.7.3.4"},
    {"sub." ROUNDED ".f64", "dss", alu_bind_float_sub, "9.7.3.4"},
    {"mul." ROUNDED ".{ftz}.{sat}.f32", "dss", alu_bind_float_mul, "9.7.3.5"},
    {"mul." ROUNDED ".{ftz}.f32x2", "dss", alu_bind_float_mul, "9.7.3.5"},
    {"mul." ROUNDED ".f64", "dss", alu_bind_float_mul, "9.7.3.5"},
    {"fma." MUST_ROUND ".{ftz}.{sat}.f32", "dsss", alu_bind_float_fma, "9.7.3.6"},
    {"fma." MUST_ROUND ".{ftz}.f32x2", "dsss", alu_bind_float_fma, "9.7.3.6"},
    {"fma." MUST_ROUND ".f64", "dsss", alu_bind_float_fma, "9.7.3.6"},
    {"mad." MUST_ROUND ".{ftz}.{sat}.f32", "dsss", alu_bind_float_fma, "9.7.3.7"},
    {"mad." MUST_ROUND ".f64", "dsss", alu_bind_float_fma, "9.7.3.7"},
    {"div.[approx,full].{ftz}.f32", "dss", alu_bind_float_div, "9.7.3.8"},
    {"div." MUST_ROUND ".{ftz}.f32", "dss", alu_bind_float_div, "9.7.3.8"},
    {"div." MUST_ROUND ".f64", "dss", alu_bind_float_div, "9.7.3.8"},
    {"abs.{ftz}.f32", "ds", alu_bind_float_abs, "9.7.3.9"},
    {"abs.f64", "ds", alu_bind_float_abs, "9.7.3.9"},
    {"neg.{ftz}.f32", "ds", alu_bind_float_neg, "9.7.3.10"},
    {"neg.f64", "ds", alu_bind_float_neg, "9.7.3.10"},
    {"min.{ftz}.{NaN}.f32", "dss", alu_bind_float_min, "9.7.3.11"},
    {"min.{ftz}.{NaN}.xorsign.abs.f32", "dss", alu_bind_float_min, "9.7.3.11"},
    {"min.f64", "dss", alu_bind_float_min, "9.7.3.11"},
    {"max.{ftz}.{NaN}.f32", "dss", alu_bind_float_max, "9.7.3.12"},
    {"max.{ftz}.{NaN}.xorsign.abs.f32", "dss", alu_bind_float_max, "9.7.3.12"},
    {"max.f64", "dss", alu_bind_float_max, "9.7.3.12"},
    {"rcp.approx.{ftz}.f32", "ds", alu_bind_float_rcp, "9.7.3.13"},
    {"rcp." MUST_ROUND ".{ftz}.f32", "ds", alu_bind_float_rcp, "9.7.3.13"},
    {"rcp." MUST_ROUND ".f64", "ds", alu_bind_float_rcp, "9.7.3.13"},
    {"rcp.approx.ftz.f64", "ds", alu_bind_float_rcp, "9.7.3.14"},
    {"sqrt.approx.{ftz}.f32", "ds", alu_bind_float_sqrt, "9.7.3.15"},
    {"sqrt." MUST_ROUND ".{ftz}.f32", "ds", alu_bind_float_sqrt, "9.7.3.15"},
    {"sqrt." MUST_ROUND ".f64", "ds", alu_bind_float_sqrt, "9.7.3.15"},
    {"rsqrt.approx.{ftz}.f32", "ds", alu_bind_float_rsqrt, "9.7.3.16"},
    {"rsqrt.approx.{ftz}.f64", "ds", alu_bind_float_rsqrt, "9.7.3.16, 9.7.3.17"},
    {"sin.approx.{ftz}.f32", "ds", alu_bind_float_sin, "9.7.3.18"},
    {"cos.approx.{ftz}.f32", "ds", alu_bind_float_cos, "9.7.3.19"},
    {"lg2.approx.{ftz}.f32", "ds", alu_bind_float_lg2, "9.7.3.20"},
    {"ex2.approx.{ftz}.f32", "ds", alu_bind_float_ex2, "9.7.3.21"},
    {"tanh.approx.f32", "ds", alu_bind_float_tanh, "9.7.3.22"},
    {"add." ROUNDED ".{sat}.f32.[f16,bf16]", "dss", alu_bind_mixed, "9.7.5.1"},
    {"sub." ROUNDED ".{sat}.f32.[f16,bf16]", "dss", alu_bind_mixed, "9.7.5.2"},
    {"fma." MUST_ROUND ".{sat}.f32.[f16,bf16]", "dsss", alu_bind_mixed, "9.7.5.3"},

    /* Half precision */
    {"add.{rn}.{ftz}.{sat}.[f16,f16x2]", "dss", alu_bind_half_add, "9.7.4.1"},
    {"add.{rn}.[bf16,bf16x2]", "dss", alu_bind_half_add, "9.7.4.1"},
    {"sub.{rn}.{ftz}.{sat}.[f16,f16x2]", "dss", alu_bind_half_sub, "9.7.4.2"},
    {"sub.{rn}.[bf16,bf16x2]", "dss", alu_bind_half_sub, "9.7.4.2"},
    {"mul.{rn}.{ftz}.{sat}.[f16,f16x2]", "dss", alu_bind_half_mul, "9.7.4.3"},
    {"mul.{rn}.[bf16,bf16x2]", "dss", alu_bind_half_mul, "9.7.4.3"},
    {"fma.rn.{ftz}.{sat,relu}.[f16,f16x2]", "dsss", alu_bind_half_fma, "9.7.4.4"},
    {"fma.rn.{relu}.[bf16,bf16x2]", "dsss", alu_bind_half_fma, "9.7.4.4"},
    {"neg.{ftz}.[f16,f16x2]", "ds", alu_bind_half_neg, "9.7.4.5"},
    {"neg.[bf16,bf16x2]", "ds", alu_bind_half_neg, "9.7.4.5"},
    {"abs.{ftz}.[f16,f16x2]", "ds", alu_bind_half_abs, "9.7.4.6"},
    {"abs.[bf16,bf16x2]", "ds", alu_bind_half_abs, "9.7.4.6"},
    {"min.{ftz}.{NaN}.[f16,f16x2]", "dss", alu_bind_half_min, "9.7.4.7"},
    {"min.{ftz}.{NaN}.xorsign.abs.[f16,f16x2]", "dss", alu_bind_half_min, "9.7.4.7"},
    {"min.{NaN}.[bf16,bf16x2]", "dss", alu_bind_half_min, "9.7.4.7"},
    {"min.{NaN}.xorsign.abs.[bf16,bf16x2]", "dss", alu_bind_half_min, "9.7.4.7"},
    {"max.{ftz}.{NaN}.[f16,f16x2]", "dss", alu_bind_half_max, "9.7.4.8"},
    {"max.{ftz}.{NaN}.xorsign.abs.[f16,f16x2]", "dss", alu_bind_half_max, "9.7.4.8"},
    {"max.{NaN}.[bf16,bf16x2]", "dss", alu_bind_half_max, "9.7.4.8"},
    {"max.{NaN}.xorsign.abs.[bf16,bf16x2]", "dss", alu_bind_half_max, "9.7.4.8"},
    {"tanh.approx." HALVES, "ds", alu_bind_half_tanh, "9.7.4.9"},
    {"ex2.approx.[f16,f16x2]", "ds", alu_bind_half_ex2, "9.7.4.10"},
    {"ex2.approx.ftz.[bf16,bf16x2]", "ds", alu_bind_half_ex2, "9.7.4.10"},

    /* Comparison and selection */
    {"set." COMPARISONS ".{and,or,xor}.{ftz}.[u16,s16,u32,s32,f16,f16x2,bf16,bf16x2,f32]." COMPARED, "dss?s",
     alu_bind_set, "9.7.6.1, 9.7.7.1"},
    {"setp." COMPARISONS ".{and,or,xor}.{ftz}." COMPARED, "dss?s", alu_bind_setp, "9.7.6.2, 9.7.7.2"},
    {"selp." ANY_TYPE, "dsss", alu_bind_selp, "9.7.6.3"},
    {"slct.{ftz}." ANY_TYPE ".[s32,f32]", "dsss", alu_bind_slct, "9.7.6.4"},

    /* Conversion */
    {"cvt.{rni,rzi,rmi,rpi,rn,rz,rm,rp}.{ftz}.{sat}." CVT_TYPES "." CVT_TYPES, "ds", alu_bind_cvt, "9.7.9.21"},
    {"cvt.[rn,rz].relu.{satfinite}.[f16,bf16].f32", "ds", alu_bind_cvt, "9.7.9.21"},
    {"cvt.[rn,rz].satfinite.[f16,bf16].f32", "ds", alu_bind_cvt, "9.7.9.21"},
    {"cvt.rna.{satfinite}.tf32.f32", "ds", alu_bind_cvt, "9.7.9.21"},
    {"cvt.[rn,rz].{satfinite}.{relu}.tf32.f32", "ds", alu_bind_cvt, "9.7.9.21"},
    {"cvt.[rn,rz].{relu}.{satfinite}.[f16x2,bf16x2].f32", "dss", alu_bind_cvt_two, "9.7.9.21"},
    {"cvt.rn.satfinite.{relu}.[e4m3x2,e5m2x2].f32", "dss", alu_bind_cvt_two, "9.7.9.21"},
    {"cvt.rn.satfinite.{relu}.[e4m3x2,e5m2x2].[f16x2,bf16x2]", "ds", alu_bind_cvt_unpack, "9.7.9.21"},
    {"cvt.rn.{relu}.f16x2.[e4m3x2,e5m2x2]", "ds", alu_bind_cvt_unpack, "9.7.9.21"},
    {"cvt.rn.{relu}.{satfinite}.bf16x2.[e4m3x2,e5m2x2]", "ds", alu_bind_cvt_unpack, "9.7.9.21"},
    {"cvt.[rz,rp].{satfinite}.ue8m0x2.f32", "dss", alu_bind_cvt_two, "9.7.9.21"},
    {"cvt.[rz,rp].{satfinite}.ue8m0x2.bf16x2", "ds", alu_bind_cvt_unpack, "9.7.9.21"},
    {"cvt.rn.bf16x2.ue8m0x2", "ds", alu_bind_cvt_unpack, "9.7.9.21"},
    {"cvt.pack.sat.[u16,s16].s32", "dss", alu_bind_cvt_pack, "9.7.9.22"},
    {"cvt.pack.sat.[u2,s2,u4,s4,u8,s8].s32.b32", "dsss", alu_bind_cvt_pack, "9.7.9.22"},

    /* Across the lanes of a warp */
    {"shfl.sync.[up,down,bfly,idx].b32", "dssss", alu_bind_shfl, "9.7.9.6"},
    {"vote.sync.[all,any,uni].pred", "dss", alu_bind_vote, "9.7.13.9"},
    {"vote.sync.ballot.b32", "dss", alu_bind_vote, "9.7.13.9"},
    {"match.[any,all].sync.[b32,b64]", "dss", alu_bind_match, "9.7.13.10"},
    {"activemask.b32", "d", alu_bind_activemask, "9.7.13.11"},
    {"redux.sync.[add,min,max].[u32,s32]", "dss", alu_bind_redux, "9.7.13.12"},
    {"redux.sync.[and,or,xor].b32", "dss", alu_bind_redux, "9.7.13.12"},
};

const struct emu_row_list emu_alu_rows = {.rows = rows, .count = sizeof rows / sizeof *rows};
