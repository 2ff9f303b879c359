/* ld, st, ldu, and the table of all memory instructions. */
#include "memory_ops.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "region.h"
#include "sync_hooks.h"

/* ---- Words of an opcode ---- */

bool emu_has_token(const struct emu_bind *bind, const char *word)
{
    for (int i = 0; i < bind->token_count; i++) {
        if (strcmp(bind->tokens[i], word) == 0) {
            return true;
        }
    }
    return false;
}

enum emu_space emu_token_space(const struct emu_bind *bind)
{
    static const struct {
        const char *word;
        enum emu_space space;
    } spaces[] = {{"global", EMU_GLOBAL},
                  {"shared", EMU_SHARED_CTA}, /* without a sub-qualifier ::cta (ISA 9.7.9.8) */
                  {"shared::cta", EMU_SHARED_CTA},
                  {"shared::cluster", EMU_SHARED_CLUSTER},
                  {"local", EMU_LOCAL},
                  {"const", EMU_CONST},
                  {"param", EMU_PARAM},
                  {"param::entry", EMU_PARAM},
                  {"param::func", EMU_PARAM}};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
        if (emu_has_token(bind, spaces[i].word)) {
            return spaces[i].space;
        }
    }
    return EMU_GENERIC;
}

enum emu_type emu_token_type(const struct emu_bind *bind)
{
    enum emu_type type = EMU_NONE;
    for (int i = 0; i < bind->token_count; i++) {
        enum emu_type found = bind->tokens[i][0] ? emu_type_find(bind->tokens[i]) : EMU_NONE;
        type = found != EMU_NONE ? found : type;
    }
    return type;
}

enum emu_order emu_token_order(const struct emu_bind *bind)
{
    if (emu_has_token(bind, "acq_rel")) {
        return EMU_ACQ_REL;
    }
    if (emu_has_token(bind, "acquire")) {
        return EMU_ACQUIRE;
    }
    if (emu_has_token(bind, "release")) {
        return EMU_RELEASE;
    }
    /* A volatile operation is a relaxed one at system scope (ISA 8.4.2). */
    return emu_has_token(bind, "relaxed") || emu_has_token(bind, "volatile") ? EMU_RELAXED : EMU_WEAK;
}

int emu_token_vector(const struct emu_bind *bind)
{
    return emu_has_token(bind, "v8") ? 8 : emu_has_token(bind, "v4") ? 4 : emu_has_token(bind, "v2") ? 2 : 1;
}

bool emu_refuse(const struct emu_bind *bind, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(bind->why, 256, format, arguments);
    va_end(arguments);
    return false;
}

bool emu_bind_policy(const struct emu_bind *bind, int index)
{
    bool given = bind->instr->operand_count > index && bind->instr->operands[index].kind != EMU_OP_NONE;
    if (given != emu_has_token(bind, "L2::cache_hint")) {
        return emu_refuse(bind, "a cache policy and .L2::cache_hint go together");
    }
    return true;
}

bool emu_bind_elements(const struct emu_bind *bind, int index)
{
    const struct emu_operand *operand = &bind->instr->operands[index];
    int count = operand->kind == EMU_OP_VECTOR ? operand->count : 1, wanted = emu_token_vector(bind);
    if (count != wanted) {
        return emu_refuse(bind, "%d values where the opcode has %d", count, wanted);
    }
    return true;
}

/* ---- Operands ---- */

const struct emu_operand *emu_elements(const struct emu_warp *warp, const struct emu_operand *operand)
{
    return operand->kind == EMU_OP_VECTOR ? warp->cta->launch->kernel->pool + operand->first : operand;
}

static uint64_t literal_bits(const struct emu_operand *operand, enum emu_type type)
{
    uint64_t bits = (uint64_t)operand->imm;
    if (type == EMU_F32 && operand->bits == 64) { /* a decimal literal is a double */
        double wide;
        memcpy(&wide, &bits, sizeof wide);
        float narrow = (float)wide;
        uint32_t narrow_bits;
        memcpy(&narrow_bits, &narrow, sizeof narrow_bits);
        return narrow_bits;
    }
    if (type == EMU_F64 && operand->bits == 32) {
        uint32_t narrow_bits = (uint32_t)bits;
        float narrow;
        memcpy(&narrow, &narrow_bits, sizeof narrow);
        double wide = narrow;
        memcpy(&bits, &wide, sizeof bits);
    }
    return bits;
}

const uint64_t *emu_memory_source(struct emu_warp *warp, const struct emu_operand *operand, enum emu_type type,
                                  uint64_t spare[EMU_LANES])
{
    if (operand->kind != EMU_OP_IMM) {
        return emu_source64(warp, operand, spare);
    }
    uint64_t bits = literal_bits(operand, type);
    for (int lane = 0; lane < EMU_LANES; lane++) {
        spare[lane] = bits;
    }
    return spare;
}

/* ---- Order ---- */

/* The lowest lane whose address differs from that of the lane before it in the mask; clears the rest of its like. */
static int next_address(const struct emu_lanes *lanes, uint32_t *mask)
{
    int lane = emu_first_lane(*mask);
    do {
        *mask &= *mask - 1;
    } while (*mask != 0 && lanes->address[emu_first_lane(*mask)] == lanes->address[lane]);
    return lane;
}

void emu_order_before(struct emu_warp *warp, const struct emu_instr *instr, const struct emu_lanes *lanes,
                      uint32_t mask)
{
    if (instr->facts.mode != EMU_RELEASE && instr->facts.mode != EMU_ACQ_REL) {
        return;
    }
    while (mask != 0) {
        int lane = next_address(lanes, &mask);
        emu_sync_release(warp, emu_generic_address(warp, (enum emu_space)instr->facts.space, lanes->address[lane]));
    }
}

void emu_order_after(struct emu_warp *warp, const struct emu_instr *instr, const struct emu_lanes *lanes, uint32_t mask,
                     int touch)
{
    enum emu_order order = (enum emu_order)instr->facts.mode;
    if (order == EMU_WEAK || order == EMU_RELEASE) {
        return;
    }
    while (mask != 0) {
        int lane = next_address(lanes, &mask);
        uint64_t address = emu_generic_address(warp, (enum emu_space)instr->facts.space, lanes->address[lane]);
        if (order == EMU_RELAXED) {
            emu_sync_relaxed(warp, address, touch);
        } else {
            emu_sync_acquire(warp, address);
        }
    }
}

/* ---- Loads ---- */

/* facts: space, vector, mode (enum emu_order), n (bytes of an element), wide (sign-extends). */
static struct emu_access_shape shape_of(const struct emu_instr *instr, int touch)
{
    return (struct emu_access_shape){.space = (enum emu_space)instr->facts.space,
                                     .size = (uint32_t)instr->facts.n * instr->facts.vector,
                                     .touch = touch,
                                     .strong = instr->facts.mode != EMU_WEAK};
}

/* Element `from` bytes behind each lane's address. */
static void load32(uint32_t *row, const struct emu_lanes *lanes, size_t from, uint32_t mask)
{
    if (mask == EMU_ALL_LANES) {
        for (int lane = 0; lane < EMU_LANES; lane++) {
            memcpy(&row[lane], lanes->host[lane] + from, sizeof *row);
        }
        return;
    }
    for (; mask != 0; mask &= mask - 1) {
        memcpy(&row[emu_first_lane(mask)], lanes->host[emu_first_lane(mask)] + from, sizeof *row);
    }
}

static void load64(uint64_t *row, const struct emu_lanes *lanes, size_t from, uint32_t mask)
{
    if (mask == EMU_ALL_LANES) {
        for (int lane = 0; lane < EMU_LANES; lane++) {
            memcpy(&row[lane], lanes->host[lane] + from, sizeof *row);
        }
        return;
    }
    for (; mask != 0; mask &= mask - 1) {
        memcpy(&row[emu_first_lane(mask)], lanes->host[emu_first_lane(mask)] + from, sizeof *row);
    }
}

/* One scalar; as one access of the host too, since other blocks may run at the same time. */
static uint64_t load_scalar(const uint8_t *from, int bytes)
{
    switch (bytes) {
    case 1:
        return __atomic_load_n(from, __ATOMIC_ACQUIRE);
    case 2:
        return __atomic_load_n((const uint16_t *)(const void *)from, __ATOMIC_ACQUIRE);
    case 4:
        return __atomic_load_n((const uint32_t *)(const void *)from, __ATOMIC_ACQUIRE);
    default:
        return __atomic_load_n((const uint64_t *)(const void *)from, __ATOMIC_ACQUIRE);
    }
}

static uint64_t sign_extended(uint64_t value, int bytes)
{
    int unused = 64 - 8 * bytes;
    return (uint64_t)((int64_t)(value << unused) >> unused);
}

/* Any type into any register: signed types are sign-extended to its width, all others zero-extended (ISA 9.7.9.8). */
static void load_any(struct emu_warp *warp, const struct emu_instr *instr, const struct emu_operand *to,
                     const struct emu_lanes *lanes, size_t from, uint32_t mask)
{
    for (; mask != 0; mask &= mask - 1) {
        int lane = emu_first_lane(mask);
        uint64_t value = load_scalar(lanes->host[lane] + from, instr->facts.n);
        value = instr->facts.wide ? sign_extended(value, instr->facts.n) : value;
        if (to->bits == 64) {
            emu_row64(warp, to->row)[lane] = value;
        } else {
            emu_row32(warp, to->row)[lane] = (uint32_t)(to->bits == 16 ? value & 0xffff : value);
        }
    }
}

static void load_element(struct emu_warp *warp, const struct emu_instr *instr, const struct emu_operand *to,
                         const struct emu_lanes *lanes, size_t from, uint32_t mask)
{
    bool weak = instr->facts.mode == EMU_WEAK;
    if (to->kind == EMU_OP_SINK) {
        return;
    }
    if (weak && instr->facts.n == 4 && to->bits != 64) {
        if (lanes->contiguous && instr->facts.vector == 1) {
            memcpy(emu_row32(warp, to->row), lanes->host[0], EMU_LANES * sizeof(uint32_t));
        } else {
            load32(emu_row32(warp, to->row), lanes, from, mask);
        }
    } else if (weak && instr->facts.n == 8) {
        load64(emu_row64(warp, to->row), lanes, from, mask);
    } else {
        load_any(warp, instr, to, lanes, from, mask);
    }
}

static enum emu_action ld(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    struct emu_lanes lanes;
    struct emu_access_shape shape = shape_of(instr, EMU_READ);
    emu_lane_addresses(warp, &instr->operands[1], lanes.address);
    if (!emu_touch_lanes(warp, instr, &shape, mask, &lanes)) {
        return EMU_FAULT;
    }
    const struct emu_operand *to = emu_elements(warp, &instr->operands[0]);
    for (int i = 0; i < instr->facts.vector; i++) {
        load_element(warp, instr, &to[i], &lanes, (size_t)(i * instr->facts.n), mask);
    }
    emu_order_after(warp, instr, &lanes, mask, EMU_READ);
    return EMU_NEXT;
}

/* ---- Stores ---- */

static void store32(const uint32_t *row, const struct emu_lanes *lanes, size_t at, uint32_t mask)
{
    if (mask == EMU_ALL_LANES) {
        for (int lane = 0; lane < EMU_LANES; lane++) {
            memcpy(lanes->host[lane] + at, &row[lane], sizeof *row);
        }
        return;
    }
    for (; mask != 0; mask &= mask - 1) {
        memcpy(lanes->host[emu_first_lane(mask)] + at, &row[emu_first_lane(mask)], sizeof *row);
    }
}

static void store_scalar(uint8_t *to, uint64_t value, int bytes)
{
    switch (bytes) {
    case 1:
        __atomic_store_n(to, (uint8_t)value, __ATOMIC_RELEASE);
        break;
    case 2:
        __atomic_store_n((uint16_t *)(void *)to, (uint16_t)value, __ATOMIC_RELEASE);
        break;
    case 4:
        __atomic_store_n((uint32_t *)(void *)to, (uint32_t)value, __ATOMIC_RELEASE);
        break;
    default:
        __atomic_store_n((uint64_t *)(void *)to, value, __ATOMIC_RELEASE);
        break;
    }
}

/* Any type from any register: its lower bits (ISA 9.7.9.11). */
static void store_any(struct emu_warp *warp, const struct emu_instr *instr, const struct emu_operand *from,
                      const struct emu_lanes *lanes, size_t at, uint32_t mask)
{
    uint64_t spare[EMU_LANES];
    const uint64_t *values = emu_memory_source(warp, from, (enum emu_type)instr->type, spare);
    for (; mask != 0; mask &= mask - 1) {
        int lane = emu_first_lane(mask);
        store_scalar(lanes->host[lane] + at, values[lane], instr->facts.n);
    }
}

static void store_element(struct emu_warp *warp, const struct emu_instr *instr, const struct emu_operand *from,
                          const struct emu_lanes *lanes, size_t at, uint32_t mask)
{
    if (from->kind == EMU_OP_SINK) {
        return;
    }
    if (instr->facts.mode != EMU_WEAK || instr->facts.n != 4 || from->kind != EMU_OP_REG || from->bits == 64) {
        store_any(warp, instr, from, lanes, at, mask);
    } else if (lanes->contiguous && instr->facts.vector == 1) {
        memcpy(lanes->host[0], emu_row32(warp, from->row), EMU_LANES * sizeof(uint32_t));
    } else {
        store32(emu_row32(warp, from->row), lanes, at, mask);
    }
}

static enum emu_action st(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    struct emu_lanes lanes;
    struct emu_access_shape shape = shape_of(instr, EMU_WRITE);
    emu_lane_addresses(warp, &instr->operands[0], lanes.address);
    if (!emu_touch_lanes(warp, instr, &shape, mask, &lanes)) {
        return EMU_FAULT;
    }
    emu_order_before(warp, instr, &lanes, mask);
    const struct emu_operand *from = emu_elements(warp, &instr->operands[1]);
    for (int i = 0; i < instr->facts.vector; i++) {
        store_element(warp, instr, &from[i], &lanes, (size_t)(i * instr->facts.n), mask);
    }
    emu_order_after(warp, instr, &lanes, mask, EMU_WRITE);
    return EMU_NEXT;
}

/* ---- Binding ---- */

static bool is_signed(enum emu_type type)
{
    return type == EMU_S8 || type == EMU_S16 || type == EMU_S32 || type == EMU_S64;
}

/* What ld and st have in common; the operands with the address and with the values. */
static bool bind_access(const struct emu_bind *bind, int address, int values)
{
    struct emu_instr *instr = bind->instr;
    enum emu_type type = emu_token_type(bind);
    enum emu_space space = emu_token_space(bind);
    int bits = emu_type_bits(type), vector = emu_token_vector(bind);
    if (type == EMU_B128) {
        return emu_refuse(bind, "128-bit registers are not emulated");
    }
    if (vector * bits > 128 || emu_has_token(bind, "L2::evict_normal") || emu_has_token(bind, "L2::evict_first") ||
        emu_has_token(bind, "L2::evict_last")) {
        return emu_refuse(bind, "256-bit accesses and .L2::evict_* need sm_100 (ISA 9.7.9.8)");
    }
    /* A .param variable of a call sequence is laid out in local memory; a kernel's own parameters are not. */
    if (space == EMU_PARAM && instr->operands[address].space == EMU_LOCAL) {
        space = EMU_LOCAL;
    }
    instr->type = (uint8_t)type;
    instr->facts.space = (uint8_t)space;
    instr->facts.vector = (uint8_t)vector;
    instr->facts.mode = (uint8_t)emu_token_order(bind);
    instr->facts.n = (int16_t)(bits / 8);
    instr->facts.wide = is_signed(type);
    return emu_bind_elements(bind, values) && emu_bind_policy(bind, 2);
}

/* A register that a load of `bits` fits in: as wide or wider (ISA 9.4.1). */
static bool bind_destinations(const struct emu_bind *bind, int bits)
{
    const struct emu_operand *to = &bind->instr->operands[0];
    int count = to->kind == EMU_OP_VECTOR ? to->count : 1;
    const struct emu_operand *elements = to->kind == EMU_OP_VECTOR ? bind->pool + to->first : to;
    for (int i = 0; i < count; i++) {
        bool sink = elements[i].kind == EMU_OP_SINK;
        if (!sink && (elements[i].kind != EMU_OP_REG || elements[i].bits < bits)) {
            return emu_refuse(bind, "a destination narrower than the %d bits of the type", bits);
        }
    }
    return true;
}

static bool bind_ld(const struct emu_bind *bind)
{
    bind->instr->exec = ld;
    return bind_access(bind, 1, 0) && bind_destinations(bind, bind->instr->facts.n * 8);
}

static bool bind_st(const struct emu_bind *bind)
{
    bind->instr->exec = st;
    if (!bind_access(bind, 0, 1)) {
        return false;
    }
    if (bind->instr->facts.space == EMU_PARAM) {
        return emu_refuse(bind, "kernel parameters are read only");
    }
    return true;
}

/* ---- The table ---- */

#define SHARED "shared,shared::cta,shared::cluster"
#define SPACE_LD "global," SHARED ",local,const,param,param::entry,param::func"
#define SPACE_ST "global," SHARED ",local,param,param::func"
#define SPACE_STRONG "global," SHARED
#define SPACE_VOLATILE "global," SHARED ",local,const"
#define SCOPE "cta,cluster,gpu,sys"
#define EVICT                                                                                                          \
    ".{L1::evict_normal,L1::evict_unchanged,L1::evict_first,L1::evict_last,L1::no_allocate}"                           \
    ".{L2::evict_normal,L2::evict_first,L2::evict_last}.{L2::cache_hint}"
#define PREFETCH ".{L2::64B,L2::128B,L2::256B}"
#define TYPES ".{v2,v4,v8}.[b8,b16,b32,b64,b128,u8,u16,u32,u64,s8,s16,s32,s64,f32,f64]"

/* Atomics: the qualifiers in the ISA's order, and in those of Triton, libcu++ and the ISA's own examples, all of which
 * ptxas takes. No opcode fits two rows. */
#define SEM "relaxed,acquire,release,acq_rel"
#define OPS ".[and,or,xor,exch,add,inc,dec,min,max].{noftz}"
#define OPS_TAIL ".{L2::cache_hint}.{v2,v4,v8}.[b32,b64,b128,u32,u64,s32,s64,f32,f64,f16,f16x2,bf16,bf16x2]"
#define CAS ".[cas]"
#define CAS_TAIL ".[b16,b32,b64,b128,u32,u64,s32,s64]"
#define ATOMIC_ROWS(name, ops, tail, operands, bind, isa)                                                              \
    {name ".{" SEM "}.{" SCOPE "}.{" SPACE_STRONG "}" ops tail, operands, bind, isa},                                  \
        {name ".[" SPACE_STRONG "].[" SCOPE "].{" SEM "}" ops tail, operands, bind, isa},                              \
        {name ".[" SPACE_STRONG "].[" SEM "].{" SCOPE "}" ops tail, operands, bind, isa},                              \
    {                                                                                                                  \
        name ops ".[" SEM "].{" SCOPE "}.{" SPACE_STRONG "}" tail, operands, bind, isa                                 \
    }

#define VECTOR_FIRST ".[v2,v4,v8].[f32,f16,f16x2,bf16,bf16x2]" OPS

#define POLICY_1 ".[L2::evict_last,L2::evict_normal,L2::evict_first,L2::evict_unchanged]"
#define POLICY_2 ".{L2::evict_first,L2::evict_unchanged}.b64"
#define ADDRESS_SPACES ".[const,global,local," SHARED ",param,param::entry]"
#define MULTIMEM ".{weak,relaxed,acquire,release}.{" SCOPE "}.{global}"
#define MULTIMEM_TYPES                                                                                                 \
    ".{acc::f32,acc::f16}.{v2,v4,v8}.[b32,b64,u32,u64,s32,s64,f16,f16x2,bf16,bf16x2,f32,f64,e5m2,e5m2x2,e5m2x4,"       \
    "e4m3,e4m3x2,e4m3x4]"

static const struct emu_row rows[] = {
    {"ld.{weak}.{" SPACE_LD "}.{ca,cg,cs,lu,cv}.{nc}" EVICT PREFETCH TYPES, "dm?s", bind_ld, "9.7.9.8, 9.7.9.9"},
    {"ld.volatile.{" SPACE_VOLATILE "}" PREFETCH TYPES, "dm", bind_ld, "9.7.9.8"},
    {"ld.[" SPACE_VOLATILE "].volatile" PREFETCH TYPES, "dm", bind_ld, "9.7.9.8"},
    {"ld.[relaxed,acquire].[" SCOPE "].{" SPACE_STRONG "}" EVICT PREFETCH TYPES, "dm?s", bind_ld, "9.7.9.8"},
    {"ld.[" SPACE_STRONG "].[relaxed,acquire].[" SCOPE "]" EVICT PREFETCH TYPES, "dm?s", bind_ld, "9.7.9.8"},
    {"ld.[" SPACE_STRONG "].[" SCOPE "].[relaxed,acquire]" EVICT PREFETCH TYPES, "dm?s", bind_ld, "9.7.9.8"},
    {"ld.{global}.mmio.relaxed.sys.{global}" TYPES, "dm", bind_ld, "9.7.9.8"},
    {"ldu.{global}" TYPES, "dm", bind_ld, "9.7.9.10"},
    {"st.{weak}.{" SPACE_ST "}.{wb,cg,cs,wt}" EVICT TYPES, "ms?s", bind_st, "9.7.9.11"},
    {"st.volatile.{" SPACE_ST "}" TYPES, "ms", bind_st, "9.7.9.11"},
    {"st.[" SPACE_ST "].volatile" TYPES, "ms", bind_st, "9.7.9.11"},
    {"st.[relaxed,release].[" SCOPE "].{" SPACE_STRONG "}" EVICT TYPES, "ms?s", bind_st, "9.7.9.11"},
    {"st.[" SPACE_STRONG "].[relaxed,release].[" SCOPE "]" EVICT TYPES, "ms?s", bind_st, "9.7.9.11"},
    {"st.[" SPACE_STRONG "].[" SCOPE "].[relaxed,release]" EVICT TYPES, "ms?s", bind_st, "9.7.9.11"},
    {"st.{global}.mmio.relaxed.sys.{global}" TYPES, "ms", bind_st, "9.7.9.11"},

    ATOMIC_ROWS("atom", OPS, OPS_TAIL, "dms?s", emu_bind_atom, "9.7.13.5"),
    {"atom.{" SEM "}.{" SCOPE "}.[global]" VECTOR_FIRST, "dms", emu_bind_atom, "9.7.13.5"},
    ATOMIC_ROWS("atom", CAS, CAS_TAIL, "dmss", emu_bind_atom, "9.7.13.5"),
    ATOMIC_ROWS("red", OPS, OPS_TAIL, "ms?s", emu_bind_red, "9.7.13.6"),
    {"red.{" SEM "}.{" SCOPE "}.[global]" VECTOR_FIRST, "ms", emu_bind_red, "9.7.13.6"},

    {"cvta" ADDRESS_SPACES ".[u32,u64]", "ds", emu_bind_cvta, "9.7.9.20"},
    {"cvta.to" ADDRESS_SPACES ".[u32,u64]", "ds", emu_bind_cvta_to, "9.7.9.20"},
    {"isspacep" ADDRESS_SPACES, "ds", emu_bind_isspacep, "9.7.9.19"},
    {"mapa.{shared::cluster}.[u32,u64]", "dss", emu_bind_mapa, "9.7.9.23"},
    {"getctarank.{shared::cluster}.[u32,u64]", "ds", emu_bind_getctarank, "9.7.9.24"},
    {"createpolicy.fractional" POLICY_1 POLICY_2, "d?s", emu_bind_createpolicy, "9.7.9.18"},
    {"createpolicy.range.{global}" POLICY_1 POLICY_2, "dmss", emu_bind_createpolicy, "9.7.9.18"},
    {"createpolicy.cvt.L2.b64", "ds", emu_bind_createpolicy, "9.7.9.18"},
    {"prefetch.{global,local}.[L1,L2]", "m", emu_bind_prefetch, "9.7.9.15"},
    {"prefetch.global.[L2::evict_last,L2::evict_normal]", "m", emu_bind_prefetch, "9.7.9.15"},
    {"prefetch.{const,param}.tensormap", "m", emu_bind_prefetch, "9.7.9.15"},
    {"prefetchu.L1", "m", emu_bind_prefetch, "9.7.9.15"},
    {"discard.{global}.L2", "ms", emu_bind_discard, "9.7.9.17"},
    {"applypriority.{global}.L2::evict_normal", "ms", emu_bind_applypriority, "9.7.9.16"},

    {"multimem.[ld_reduce]" MULTIMEM ".[min,max,add,and,or,xor]" MULTIMEM_TYPES, "dm", emu_bind_refused_multimem,
     "9.7.9.14"},
    {"multimem.[st]" MULTIMEM MULTIMEM_TYPES, "ms", emu_bind_refused_multimem, "9.7.9.14"},
    {"multimem.[red]" MULTIMEM ".[min,max,add,and,or,xor]" MULTIMEM_TYPES, "ms", emu_bind_refused_multimem, "9.7.9.14"},
    {"alloca.[u32,u64]", "ds?s", emu_bind_refused_stack, "9.7.17"},
    {"stacksave.[u32,u64]", "d", emu_bind_refused_stack, "9.7.17"},
    {"stackrestore.[u32,u64]", "s", emu_bind_refused_stack, "9.7.17"},
};

const struct emu_row_list emu_memory_rows = {rows, sizeof rows / sizeof *rows};
