/* Instructions across the lanes of a warp: shfl.sync, vote.sync, match.sync, redux.sync, activemask (PTX ISA 9.7.9.6,
 * 9.7.13.9 to 9.7.13.12).
 *
 * A .sync instruction names the lanes that take part. It is executed when all of those that have not exited stand at
 * it; until then it returns EMU_BLOCKED, and the engine brings the others. Lanes may stand at one instruction with
 * several masks (two halves of a warp that each shuffle among themselves): each set is its own. */
#include "alu.h"

/* What a lane gets when it reads from one that does not take part: undefined by the ISA, easily seen here. */
#define NOT_TAKING_PART 0xbadbad00u

static enum emu_action fault_foreign_lane(struct emu_warp *warp, const struct emu_instr *instr, int lane,
                                          uint32_t members)
{
    return emu_fault(warp, instr, lane, EMU_DIVERGENT, "%s: lane %d is not in its own member mask 0x%08x", instr->text,
                     lane, members);
}

/* Lanes with different masks: each must name itself, and only lanes that name the same. */
static enum emu_action check_sets(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask,
                                  const uint32_t members[EMU_LANES])
{
    for (uint32_t lanes = mask; lanes; lanes &= lanes - 1) {
        const int lane = __builtin_ctz(lanes);
        if (!(members[lane] >> lane & 1)) {
            return fault_foreign_lane(warp, instr, lane, members[lane]);
        }
        for (uint32_t named = members[lane] & mask; named; named &= named - 1) {
            const int other = __builtin_ctz(named);
            if (members[other] != members[lane]) {
                return emu_fault(warp, instr, lane, EMU_DIVERGENT,
                                 "%s: lane %d names the member mask 0x%08x, lane %d, one of those, 0x%08x", instr->text,
                                 lane, members[lane], other, members[other]);
            }
        }
    }
    return EMU_NEXT;
}

/* The membermask operand in all lanes, and whether the instruction can go ahead. EMU_NEXT: it can. */
static enum emu_action gather(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask,
                              uint32_t members[EMU_LANES])
{
    uint32_t spare[EMU_LANES], named = 0;
    memcpy(members, emu_source32(warp, &instr->operands[instr->operand_count - 1], spare), EMU_LANES * sizeof *members);
    const uint32_t first = members[__builtin_ctz(mask)];
    bool all_alike = true;
    for (uint32_t lanes = mask; lanes; lanes &= lanes - 1) {
        named |= members[__builtin_ctz(lanes)];
        all_alike &= members[__builtin_ctz(lanes)] == first;
    }
    if (all_alike && mask & ~first) {
        return fault_foreign_lane(warp, instr, __builtin_ctz(mask & ~first), first);
    }
    if (!all_alike && check_sets(warp, instr, mask, members) != EMU_NEXT) {
        return EMU_FAULT;
    }
    if (named & warp->live & ~mask) {
        warp->wait = (struct emu_wait){.kind = EMU_WAIT_LANES, .what = named, .mask = mask};
        return EMU_BLOCKED;
    }
    return EMU_NEXT;
}

/* Goes through the sets of lanes that take part together. */
#define EACH_SET(mask, members, set)                                                                                   \
    for (uint32_t left = (mask), set = 0; left && (set = (members)[__builtin_ctz(left)] & (mask)); left &= ~set)

/* Destinations of "%r|%p". */
static struct emu_operand register_of(const struct emu_operand *to)
{
    if (to->kind != EMU_OP_PRED_PAIR) {
        return *to;
    }
    return (struct emu_operand){.kind = to->row < 0 ? EMU_OP_SINK : EMU_OP_REG, .bits = 32, .row = to->row};
}

static struct emu_operand predicate_of(const struct emu_operand *to)
{
    const bool has_one = to->kind == EMU_OP_PRED_PAIR && to->row2 >= 0;
    return (struct emu_operand){.kind = has_one ? EMU_OP_PRED : EMU_OP_SINK, .row = to->row2};
}

/* ---- shfl.sync ---- */

enum { SHFL_UP, SHFL_DOWN, SHFL_BFLY, SHFL_IDX };

ALU_EXEC(shfl)
{
    uint32_t members[EMU_LANES], spare[EMU_LANES], as[EMU_LANES], bs[EMU_LANES], cs[EMU_LANES], values[EMU_LANES];
    uint8_t in_range[EMU_LANES];
    const enum emu_action action = gather(warp, instr, mask, members);
    if (action != EMU_NEXT) {
        return action;
    }
    memcpy(as, emu_source32(warp, &instr->operands[1], spare), sizeof as);
    memcpy(bs, emu_source32(warp, &instr->operands[2], spare), sizeof bs);
    memcpy(cs, emu_source32(warp, &instr->operands[3], spare), sizeof cs);
    ALU_EACH_LANE(lane)
    {
        const int b = (int)(bs[lane] & 31), clamp = (int)(cs[lane] & 31), segment = (int)(cs[lane] >> 8 & 31);
        const int lowest = lane & segment, highest = lowest | (clamp & ~segment);
        int from = lane;
        bool inside;
        switch (instr->facts.mode) {
        case SHFL_UP:
            from = lane - b;
            inside = from >= highest; /* for .up, c's clamp is the lower bound */
            break;
        case SHFL_DOWN:
            from = lane + b;
            inside = from <= highest;
            break;
        case SHFL_BFLY:
            from = lane ^ b;
            inside = from <= highest;
            break;
        default:
            from = lowest | (b & ~segment);
            inside = from <= highest;
            break;
        }
        in_range[lane] = inside;
        from = inside ? from & 31 : lane;
        values[lane] = members[lane] & mask & 1u << from ? as[from] : NOT_TAKING_PART;
    }
    const struct emu_operand to = register_of(&instr->operands[0]), pred = predicate_of(&instr->operands[0]);
    emu_store32(warp, &to, values, mask);
    emu_store_pred(warp, &pred, alu_pack(in_range), mask);
    return EMU_NEXT;
}

bool alu_bind_shfl(const struct emu_bind *bind)
{
    alu_begin(bind);
    bind->instr->facts.mode = alu_has(bind, "up")     ? SHFL_UP
                              : alu_has(bind, "down") ? SHFL_DOWN
                              : alu_has(bind, "bfly") ? SHFL_BFLY
                                                      : SHFL_IDX;
    bind->instr->exec = shfl;
    return ALU_FINISH(bind, EMU_B32, EMU_B32, EMU_B32, EMU_B32, EMU_B32);
}

/* ---- vote.sync ---- */

enum { VOTE_ALL, VOTE_ANY, VOTE_UNI, VOTE_BALLOT };

ALU_EXEC(vote)
{
    uint32_t members[EMU_LANES], ballots[EMU_LANES], result = 0;
    const enum emu_action action = gather(warp, instr, mask, members);
    if (action != EMU_NEXT) {
        return action;
    }
    const uint32_t votes = emu_source_pred(warp, &instr->operands[1]);
    EACH_SET(mask, members, set)
    {
        const uint32_t yes = votes & set;
        const bool holds = instr->facts.mode == VOTE_ALL   ? yes == set
                           : instr->facts.mode == VOTE_ANY ? yes != 0
                                                           : yes == set || yes == 0;
        result |= holds ? set : 0;
        ALU_EACH_LANE(i)
        {
            if (set >> i & 1) {
                ballots[i] = yes;
            }
        }
    }
    if (instr->facts.mode == VOTE_BALLOT) {
        ALU_EACH_LANE(i)
        {
            if (!(mask >> i & 1)) {
                ballots[i] = 0;
            }
        }
        emu_store32(warp, &instr->operands[0], ballots, mask);
    } else {
        emu_store_pred(warp, &instr->operands[0], result, mask);
    }
    return EMU_NEXT;
}

bool alu_bind_vote(const struct emu_bind *bind)
{
    const enum emu_type type = alu_begin(bind);
    bind->instr->facts.mode = alu_has(bind, "all")   ? VOTE_ALL
                              : alu_has(bind, "any") ? VOTE_ANY
                              : alu_has(bind, "uni") ? VOTE_UNI
                                                     : VOTE_BALLOT;
    bind->instr->exec = vote;
    return ALU_FINISH(bind, type, EMU_PRED, EMU_B32);
}

/* ---- match.sync ---- */

ALU_EXEC(match)
{
    const bool all = instr->facts.mode;
    uint32_t members[EMU_LANES], values[EMU_LANES] = {0}, alike = 0;
    uint64_t as[EMU_LANES];
    const enum emu_action action = gather(warp, instr, mask, members);
    if (action != EMU_NEXT) {
        return action;
    }
    alu_read64(warp, &instr->operands[1], as);
    ALU_EACH_LANE(i)
    {
        const uint32_t set = members[i] & mask;
        uint32_t same = 0;
        if (!(mask >> i & 1)) {
            continue;
        }
        ALU_EACH_LANE(j) same |= set >> j & 1 && as[j] == as[i] ? 1u << j : 0;
        values[i] = all && same != set ? 0 : same;
        alike |= same == set ? 1u << i : 0;
    }
    const struct emu_operand to = register_of(&instr->operands[0]), pred = predicate_of(&instr->operands[0]);
    emu_store32(warp, &to, values, mask);
    emu_store_pred(warp, &pred, alike, mask);
    return EMU_NEXT;
}

bool alu_bind_match(const struct emu_bind *bind)
{
    const enum emu_type type = alu_begin(bind);
    bind->instr->facts.mode = alu_has(bind, "all");
    bind->instr->exec = match;
    if (!bind->instr->facts.mode && bind->instr->operands[0].kind == EMU_OP_PRED_PAIR) {
        return alu_refuse(bind, "match.any has no predicate result");
    }
    return ALU_FINISH(bind, EMU_B32, type, EMU_B32);
}

/* ---- redux.sync ---- */

enum { REDUX_ADD, REDUX_MIN, REDUX_MAX, REDUX_AND, REDUX_OR, REDUX_XOR };

static uint32_t reduce(uint32_t a, uint32_t b, int operation, bool is_signed)
{
    const bool less = is_signed ? (int32_t)a < (int32_t)b : a < b;
    switch (operation) {
    case REDUX_ADD:
        return a + b;
    case REDUX_MIN:
        return less ? a : b;
    case REDUX_MAX:
        return less ? b : a;
    case REDUX_AND:
        return a & b;
    case REDUX_OR:
        return a | b;
    default:
        return a ^ b;
    }
}

ALU_EXEC(redux)
{
    uint32_t members[EMU_LANES], spare[EMU_LANES], values[EMU_LANES] = {0};
    const enum emu_action action = gather(warp, instr, mask, members);
    if (action != EMU_NEXT) {
        return action;
    }
    const uint32_t *as = emu_source32(warp, &instr->operands[1], spare);
    EACH_SET(mask, members, set)
    {
        uint32_t result = as[__builtin_ctz(set)];
        for (uint32_t rest = set & (set - 1); rest; rest &= rest - 1) {
            result = reduce(result, as[__builtin_ctz(rest)], instr->facts.mode, instr->type == EMU_S32);
        }
        ALU_EACH_LANE(i)
        {
            if (set >> i & 1) {
                values[i] = result;
            }
        }
    }
    emu_store32(warp, &instr->operands[0], values, mask);
    return EMU_NEXT;
}

bool alu_bind_redux(const struct emu_bind *bind)
{
    static const char *const names[] = {"add", "min", "max", "and", "or", "xor"};
    const enum emu_type type = alu_begin(bind);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (alu_has(bind, names[i])) {
            bind->instr->facts.mode = (uint8_t)i;
        }
    }
    bind->instr->exec = redux;
    return ALU_FINISH(bind, type, type, EMU_B32);
}

/* ---- activemask ---- */

ALU_EXEC(activemask)
{
    uint32_t values[EMU_LANES];
    ALU_EACH_LANE(i) values[i] = mask;
    emu_store32(warp, &instr->operands[0], values, mask);
    return EMU_NEXT;
}

bool alu_bind_activemask(const struct emu_bind *bind)
{
    alu_begin(bind);
    bind->instr->exec = activemask;
    return ALU_FINISH(bind, EMU_B32);
}
