/* Instructions about addresses: cvta, isspacep, mapa, getctarank; and those that only advise the caches. */
#include <inttypes.h>
#include <string.h>

#include "memory_ops.h"
#include "region.h"

/* ---- cvta ---- */

static uint64_t variable_rank(const struct emu_warp *warp, const struct emu_operand *operand)
{
    bool shared =
        operand->kind == EMU_OP_SYMBOL && (operand->space == EMU_SHARED_CTA || operand->space == EMU_SHARED_CLUSTER);
    return shared ? (uint64_t)warp->cta->rank << EMU_RANK_SHIFT : 0;
}

/* A source's addresses; a shared variable named directly is the executing block's own. */
static void source_addresses(struct emu_warp *warp, const struct emu_operand *operand, uint64_t address[EMU_LANES])
{
    uint64_t spare[EMU_LANES];
    const uint64_t *values = emu_source64(warp, operand, spare);
    uint64_t rank = variable_rank(warp, operand);
    for (int lane = 0; lane < EMU_LANES; lane++) {
        address[lane] = values[lane] | rank;
    }
}

static enum emu_action cvta(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    uint64_t address[EMU_LANES];
    source_addresses(warp, &instr->operands[1], address);
    uint64_t start = emu_generic_address(warp, (enum emu_space)instr->facts.space, 0);
    for (int lane = 0; lane < EMU_LANES; lane++) {
        address[lane] += start;
    }
    emu_store64(warp, &instr->operands[0], address, mask);
    return EMU_NEXT;
}

/* Outside the space's window the result is undefined (ISA 9.7.9.20), and compilers do convert before they ask
 * isspacep: such an address comes out as one that no access accepts. */
static enum emu_action cvta_to(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    uint64_t address[EMU_LANES];
    source_addresses(warp, &instr->operands[1], address);
    uint64_t start = emu_generic_address(warp, (enum emu_space)instr->facts.space, 0);
    for (int lane = 0; lane < EMU_LANES; lane++) {
        address[lane] -= start;
    }
    emu_store64(warp, &instr->operands[0], address, mask);
    return EMU_NEXT;
}

static bool bind_conversion(const struct emu_bind *bind, emu_exec_fn exec)
{
    if (emu_has_token(bind, "u32")) {
        return emu_refuse(bind, "generic addresses have 64 bits here; .u32 is for .address_size 32");
    }
    bind->instr->type = EMU_U64;
    bind->instr->facts.space = (uint8_t)emu_token_space(bind);
    bind->instr->exec = exec;
    return true;
}

bool emu_bind_cvta(const struct emu_bind *bind)
{
    return bind_conversion(bind, cvta);
}

bool emu_bind_cvta_to(const struct emu_bind *bind)
{
    return bind_conversion(bind, cvta_to);
}

/* ---- isspacep ---- */

static bool in_const_variable(const struct emu_module *module, uint64_t address)
{
    for (uint32_t i = 0; module != NULL && i < module->global_count; i++) {
        const struct emu_variable *variable = &module->globals[i];
        uint64_t start = (uint64_t)(uintptr_t)module->global_memory + variable->offset;
        if (variable->space == EMU_CONST && address - start < variable->size) {
            return true;
        }
    }
    return false;
}

static bool in_space(struct emu_warp *warp, enum emu_space space, uint64_t address)
{
    struct emu_cta *cta = NULL;
    uint32_t offset = 0;
    bool shared = emu_shared_locate(warp, EMU_GENERIC, address, &cta, &offset);
    const struct emu_kernel *kernel = warp->cta->launch->kernel;
    switch (space) {
    case EMU_SHARED_CTA:
        return shared && cta == warp->cta;
    case EMU_SHARED_CLUSTER:
        return shared;
    case EMU_LOCAL:
        return address - emu_local_window() < EMU_WINDOW_BYTES;
    case EMU_PARAM:
        return address - emu_generic_address(warp, EMU_PARAM, 0) < kernel->param_bytes;
    case EMU_CONST:
        return in_const_variable(kernel->module, address);
    default: /* global, kernel parameters included */
        return address - emu_shared_window() >= 2 * (uint64_t)EMU_WINDOW_BYTES &&
               !in_const_variable(kernel->module, address);
    }
}

static enum emu_action isspacep(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    uint64_t spare[EMU_LANES];
    const uint64_t *address = emu_source64(warp, &instr->operands[1], spare);
    uint32_t inside = 0;
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        int lane = emu_first_lane(rest);
        inside |= (uint32_t)in_space(warp, (enum emu_space)instr->facts.space, address[lane]) << lane;
    }
    emu_store_pred(warp, &instr->operands[0], inside, mask);
    return EMU_NEXT;
}

bool emu_bind_isspacep(const struct emu_bind *bind)
{
    bind->instr->facts.space = (uint8_t)emu_token_space(bind);
    bind->instr->exec = isspacep;
    return true;
}

/* ---- mapa, getctarank ---- */

static void store_sized(struct emu_warp *warp, const struct emu_instr *instr, const uint64_t *values, uint32_t mask)
{
    uint32_t narrow[EMU_LANES];
    if (instr->operands[0].bits == 64) {
        emu_store64(warp, &instr->operands[0], values, mask);
        return;
    }
    for (int lane = 0; lane < EMU_LANES; lane++) {
        narrow[lane] = (uint32_t)values[lane];
    }
    emu_store32(warp, &instr->operands[0], narrow, mask);
}

/* Splits shared addresses into rank and the rest; false after a fault. */
static bool locate_all(struct emu_warp *warp, const struct emu_instr *instr, uint64_t address[EMU_LANES],
                       uint32_t rank[EMU_LANES], uint32_t mask)
{
    source_addresses(warp, &instr->operands[1], address);
    for (; mask != 0; mask &= mask - 1) {
        int lane = emu_first_lane(mask);
        struct emu_cta *cta = NULL;
        uint32_t offset = 0;
        if (!emu_shared_locate(warp, (enum emu_space)instr->facts.space, address[lane], &cta, &offset)) {
            emu_fault(warp, instr, lane, EMU_BAD_OPERAND,
                      "%s of 0x%" PRIx64 ", which is no shared memory of the cluster", instr->text, address[lane]);
            return false;
        }
        rank[lane] = cta->rank;
    }
    return true;
}

static enum emu_action mapa(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    uint64_t address[EMU_LANES];
    uint32_t from[EMU_LANES] = {0}, spare[EMU_LANES];
    const uint32_t *to = emu_source32(warp, &instr->operands[2], spare);
    if (!locate_all(warp, instr, address, from, mask)) {
        return EMU_FAULT;
    }
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        int lane = emu_first_lane(rest);
        if (to[lane] >= (uint32_t)warp->cta->cluster->cta_count) {
            return emu_fault(warp, instr, lane, EMU_BAD_OPERAND, "%s to block rank %u of a cluster of %d", instr->text,
                             to[lane], warp->cta->cluster->cta_count);
        }
        address[lane] ^= (uint64_t)(from[lane] ^ to[lane]) << EMU_RANK_SHIFT;
    }
    store_sized(warp, instr, address, mask);
    return EMU_NEXT;
}

static enum emu_action getctarank(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    uint64_t address[EMU_LANES];
    uint32_t rank[EMU_LANES] = {0};
    if (!locate_all(warp, instr, address, rank, mask)) {
        return EMU_FAULT;
    }
    emu_store32(warp, &instr->operands[0], rank, mask);
    return EMU_NEXT;
}

static bool bind_rank(const struct emu_bind *bind, emu_exec_fn exec)
{
    bind->instr->type = (uint8_t)emu_token_type(bind);
    bind->instr->facts.space = (uint8_t)emu_token_space(bind);
    bind->instr->exec = exec;
    if (bind->instr->facts.space == EMU_GENERIC && bind->instr->type == EMU_U32) {
        return emu_refuse(bind, "generic addresses have 64 bits here");
    }
    return true;
}

bool emu_bind_mapa(const struct emu_bind *bind)
{
    return bind_rank(bind, mapa);
}

bool emu_bind_getctarank(const struct emu_bind *bind)
{
    return bind_rank(bind, getctarank);
}

/* ---- createpolicy ---- */

/* The policy is opaque and only advice: one value for all of them, that of an even eviction priority. */
#define POLICY UINT64_C(0x12f0000000000000)

static bool policy_range_valid(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    uint32_t spare[2][EMU_LANES];
    const uint32_t *primary = emu_source32(warp, &instr->operands[2], spare[0]);
    const uint32_t *total = emu_source32(warp, &instr->operands[3], spare[1]);
    for (; mask != 0; mask &= mask - 1) {
        int lane = emu_first_lane(mask);
        if (primary[lane] > total[lane]) {
            emu_fault(warp, instr, lane, EMU_BAD_OPERAND, "%s with a primary size of %u, above the total of %u",
                      instr->text, primary[lane], total[lane]);
            return false;
        }
    }
    return true;
}

static bool policy_fraction_valid(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    uint64_t spare[EMU_LANES];
    const uint64_t *bits = emu_memory_source(warp, &instr->operands[1], EMU_F32, spare);
    for (; mask != 0; mask &= mask - 1) {
        int lane = emu_first_lane(mask);
        uint32_t low = (uint32_t)bits[lane];
        float fraction;
        memcpy(&fraction, &low, sizeof fraction);
        if (!(fraction > 0.0f && fraction <= 1.0f)) {
            emu_fault(warp, instr, lane, EMU_BAD_OPERAND, "%s with fraction %g, not in (0, 1]", instr->text,
                      (double)fraction);
            return false;
        }
    }
    return true;
}

enum policy { POLICY_FRACTIONAL, POLICY_RANGE, POLICY_CONVERTED };

static enum emu_action createpolicy(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    uint64_t value[EMU_LANES];
    bool fraction =
        instr->facts.mode == POLICY_FRACTIONAL && instr->operand_count > 1 && instr->operands[1].kind != EMU_OP_NONE;
    if (fraction && !policy_fraction_valid(warp, instr, mask)) {
        return EMU_FAULT;
    }
    if (instr->facts.mode == POLICY_RANGE && !policy_range_valid(warp, instr, mask)) {
        return EMU_FAULT;
    }
    for (int lane = 0; lane < EMU_LANES; lane++) {
        value[lane] = POLICY;
    }
    emu_store64(warp, &instr->operands[0], value, mask);
    return EMU_NEXT;
}

bool emu_bind_createpolicy(const struct emu_bind *bind)
{
    bool range = strncmp(bind->instr->text, "createpolicy.range", 18) == 0;
    bool converted = strncmp(bind->instr->text, "createpolicy.cvt", 16) == 0;
    bind->instr->facts.mode = (uint8_t)(range ? POLICY_RANGE : converted ? POLICY_CONVERTED : POLICY_FRACTIONAL);
    bind->instr->type = EMU_B64;
    bind->instr->exec = createpolicy;
    return true;
}

/* ---- prefetch, discard, applypriority ---- */

enum { TENSOR_MAP_BYTES = 128, TENSOR_MAP_ALIGN = 64, CACHE_LINE = 128 };

/* A prefetch never faults, and prefetching past an end is common: nothing to check, nothing to do. */
static enum emu_action prefetch(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    (void)warp;
    (void)instr;
    (void)mask;
    return EMU_NEXT;
}

/* A tensor map is 128 bytes, 64-byte aligned; there is no reason to prefetch anything else as one. */
static enum emu_action prefetch_map(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    uint64_t address[EMU_LANES];
    struct emu_access access = {.warp = warp, .instr = instr};
    emu_lane_addresses(warp, &instr->operands[0], address);
    for (; mask != 0; mask &= mask - 1) {
        int lane = emu_first_lane(mask);
        if (emu_touch(warp, &access, lane, (enum emu_space)instr->facts.space, address[lane], TENSOR_MAP_BYTES,
                      TENSOR_MAP_ALIGN, 0) == NULL) {
            return EMU_FAULT;
        }
    }
    return EMU_NEXT;
}

bool emu_bind_prefetch(const struct emu_bind *bind)
{
    bool map = strstr(bind->instr->text, ".tensormap") != NULL;
    bind->instr->facts.space = (uint8_t)emu_token_space(bind);
    bind->instr->exec = map ? prefetch_map : prefetch;
    return true;
}

/* discard: a weak write of a value that nobody may rely on (ISA 9.7.9.17). */
static enum emu_action discard(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    struct emu_lanes lanes;
    struct emu_access_shape shape = {EMU_GLOBAL, CACHE_LINE, EMU_WRITE, false};
    shape.space = (enum emu_space)instr->facts.space;
    emu_lane_addresses(warp, &instr->operands[0], lanes.address);
    if (!emu_touch_lanes(warp, instr, &shape, mask, &lanes)) {
        return EMU_FAULT;
    }
    for (; mask != 0; mask &= mask - 1) {
        struct emu_region region;
        int lane = emu_first_lane(mask);
        if (emu_region_find(warp, shape.space, lanes.address[lane], &region)) {
            emu_region_forget(&region, lanes.address[lane], CACHE_LINE);
        }
    }
    return EMU_NEXT;
}

static enum emu_action applypriority(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    struct emu_lanes lanes;
    struct emu_access_shape shape = {EMU_GLOBAL, CACHE_LINE, 0, false};
    shape.space = (enum emu_space)instr->facts.space;
    emu_lane_addresses(warp, &instr->operands[0], lanes.address);
    return emu_touch_lanes(warp, instr, &shape, mask, &lanes) ? EMU_NEXT : EMU_FAULT;
}

static bool bind_line(const struct emu_bind *bind, emu_exec_fn exec)
{
    const struct emu_operand *size = &bind->instr->operands[1];
    if (size->kind != EMU_OP_IMM || size->imm != CACHE_LINE) {
        return emu_refuse(bind, "the only size is 128");
    }
    bind->instr->facts.space = (uint8_t)emu_token_space(bind);
    bind->instr->exec = exec;
    return true;
}

bool emu_bind_discard(const struct emu_bind *bind)
{
    return bind_line(bind, discard);
}

bool emu_bind_applypriority(const struct emu_bind *bind)
{
    return bind_line(bind, applypriority);
}

/* ---- Refused by name ---- */

bool emu_bind_refused_multimem(const struct emu_bind *bind)
{
    return emu_refuse(bind, "multimem addresses need several devices; the emulated device is one");
}

bool emu_bind_refused_stack(const struct emu_bind *bind)
{
    return emu_refuse(bind, "a stack that grows at run time is not emulated");
}
