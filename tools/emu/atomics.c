/* atom and red (ISA 9.7.13.5, 9.7.13.6). Lanes in order; each scalar with one atomic operation of the host, since
 * other clusters run on other host threads. */
#include <math.h>
#include <string.h>

#include "memory_ops.h"
#include "region.h"

enum op { AND, OR, XOR, EXCH, CAS, ADD, INC, DEC, MIN, MAX, OPS };

static const char *const op_names[OPS] = {"and", "or", "xor", "exch", "cas", "add", "inc", "dec", "min", "max"};

/* ---- 16-bit floats ---- */

static float bits_to_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t float_to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float half_to_float(uint16_t half)
{
    uint32_t exponent = half >> 10 & 31u, fraction = half & 0x3ffu;
    float magnitude = exponent == 31  ? bits_to_float(0x7f800000u | fraction << 13)
                      : exponent == 0 ? ldexpf((float)fraction, -24)
                                      : ldexpf((float)(fraction + 1024), (int)exponent - 25);
    return half & 0x8000u ? -magnitude : magnitude;
}

/* To nearest even, subnormals kept; NaN is 0x7fff. */
static uint16_t float_to_half(float value)
{
    uint32_t bits = float_to_bits(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return 0x7fff;
    }
    if (magnitude >= 0x477ff000u) { /* 65520: rounds to infinity */
        return (uint16_t)(sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) { /* below 2^-14: a multiple of 2^-24 */
        return (uint16_t)(sign | (uint32_t)lrintf(ldexpf(fabsf(value), 24)));
    }
    magnitude += 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | ((magnitude - 0x38000000u) >> 13));
}

static float bfloat_to_float(uint16_t bits)
{
    return bits_to_float((uint32_t)bits << 16);
}

static uint16_t float_to_bfloat(float value)
{
    uint32_t bits = float_to_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return 0x7fff;
    }
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* ---- One operation on one value ---- */

/* minNum and maxNum: a number beats NaN, and -0 is below +0 (ISA 9.7.4.7). */
static float pick(enum op op, float a, float b)
{
    if (isnan(a) || isnan(b)) {
        return isnan(a) ? b : a;
    }
    bool a_first = a < b || (a == b && signbit(a));
    return (op == MIN) == a_first ? a : b;
}

/* A sum in float is rounded once more to 16 bits; 24 bits are enough for that to be the sum's own rounding. */
static uint16_t apply_half(enum op op, bool bfloat, uint16_t a, uint16_t b)
{
    float left = bfloat ? bfloat_to_float(a) : half_to_float(a);
    float right = bfloat ? bfloat_to_float(b) : half_to_float(b);
    float result = op == ADD ? left + right : pick(op, left, right);
    return bfloat ? float_to_bfloat(result) : float_to_half(result);
}

static uint32_t flushed(uint32_t bits)
{
    return (bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits;
}

/* On global memory .f32 flushes subnormals, on shared memory it does not (ISA 9.7.13.5). */
static uint32_t add_float(uint32_t a, uint32_t b, bool flush)
{
    float sum = bits_to_float(flush ? flushed(a) : a) + bits_to_float(flush ? flushed(b) : b);
    uint32_t bits = isnan(sum) ? 0x7fffffffu : float_to_bits(sum);
    return flush ? flushed(bits) : bits;
}

static uint64_t add_double(uint64_t a, uint64_t b)
{
    double left, right, sum;
    memcpy(&left, &a, sizeof left);
    memcpy(&right, &b, sizeof right);
    sum = left + right;
    if (isnan(sum)) {
        return UINT64_C(0x7fffffffffffffff);
    }
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    return bits;
}

/* One scalar's operation. */
struct update {
    enum op op;
    enum emu_type type;
    bool flush;
    uint64_t b, c;
};

static uint64_t apply_float(const struct update *update, uint64_t old)
{
    uint16_t low = 0, high = 0;
    bool bfloat = update->type == EMU_BF16 || update->type == EMU_BF16X2;
    switch (update->type) {
    case EMU_F32:
        return add_float((uint32_t)old, (uint32_t)update->b, update->flush);
    case EMU_F64:
        return add_double(old, update->b);
    case EMU_F16X2:
    case EMU_BF16X2:
        high = apply_half(update->op, bfloat, (uint16_t)(old >> 16), (uint16_t)(update->b >> 16));
        low = apply_half(update->op, bfloat, (uint16_t)old, (uint16_t)update->b);
        return (uint32_t)high << 16 | low;
    default:
        return apply_half(update->op, bfloat, (uint16_t)old, (uint16_t)update->b);
    }
}

static bool is_float(enum emu_type type)
{
    return type == EMU_F32 || type == EMU_F64 || type == EMU_F16 || type == EMU_BF16 || type == EMU_F16X2 ||
           type == EMU_BF16X2;
}

/* a < b as the type compares. */
static bool less(enum emu_type type, uint64_t a, uint64_t b)
{
    switch (type) {
    case EMU_S32:
        return (int32_t)a < (int32_t)b;
    case EMU_S64:
        return (int64_t)a < (int64_t)b;
    case EMU_U32:
        return (uint32_t)a < (uint32_t)b;
    default:
        return a < b;
    }
}

static uint64_t apply(const struct update *update, uint64_t old)
{
    uint64_t b = update->b;
    if (is_float(update->type)) {
        return apply_float(update, old);
    }
    switch (update->op) {
    case AND:
        return old & b;
    case OR:
        return old | b;
    case XOR:
        return old ^ b;
    case EXCH:
        return b;
    case CAS:
        return old == b ? update->c : old;
    case ADD:
        return old + b;
    case INC:
        return (uint32_t)old >= (uint32_t)b ? 0 : old + 1;
    case DEC:
        return (uint32_t)old == 0 || (uint32_t)old > (uint32_t)b ? b : old - 1;
    case MIN:
        return less(update->type, b, old) ? b : old;
    default:
        return less(update->type, old, b) ? b : old;
    }
}

/* ---- On the host's memory ---- */

static uint64_t update16(uint16_t *at, const struct update *update)
{
    uint16_t old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(at, &old, (uint16_t)apply(update, old), false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED)) {
    }
    return old;
}

static uint64_t update32(uint32_t *at, const struct update *update)
{
    uint32_t old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(at, &old, (uint32_t)apply(update, old), false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED)) {
    }
    return old;
}

static uint64_t update64(uint64_t *at, const struct update *update)
{
    uint64_t old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(at, &old, apply(update, old), false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
    }
    return old;
}

/* Returns the value before. The address is aligned: emu_touch_lanes has checked it. */
static uint64_t host_update(uint8_t *at, int bytes, struct update *update)
{
    uint64_t width = bytes == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * bytes)) - 1;
    update->b &= width; /* a wider source register: its lower bits */
    update->c &= width;
    switch (bytes) {
    case 2:
        return update16((uint16_t *)(void *)at, update);
    case 4:
        return update32((uint32_t *)(void *)at, update);
    default:
        return update64((uint64_t *)(void *)at, update);
    }
}

/* ---- Execution ---- */

/* facts: compare (enum op), space, vector, mode (enum emu_order), n (bytes of an element). */

enum { MOST_ELEMENTS = 8 };

/* Where the operands stand; red has no destination, only cas has a second value. */
struct places {
    const struct emu_operand *destination; /* NULL: red */
    const struct emu_operand *address, *value;
    const struct emu_operand *other; /* NULL: not cas */
};

static struct places places_of(const struct emu_instr *instr, bool reduction)
{
    const struct emu_operand *operands = instr->operands;
    struct places places = {.address = reduction ? operands : operands + 1};
    places.destination = reduction ? NULL : operands;
    places.value = places.address + 1;
    places.other = instr->facts.compare == CAS ? places.address + 2 : NULL;
    return places;
}

/* The sources of all elements and lanes. */
struct values {
    const uint64_t *b[MOST_ELEMENTS], *c;
    uint64_t spare[MOST_ELEMENTS + 1][EMU_LANES];
    uint64_t old[MOST_ELEMENTS][EMU_LANES];
};

static void read_values(struct emu_warp *warp, const struct emu_instr *instr, const struct places *places,
                        struct values *values)
{
    enum emu_type type = (enum emu_type)instr->type;
    const struct emu_operand *elements = emu_elements(warp, places->value);
    for (int i = 0; i < instr->facts.vector; i++) {
        values->b[i] = emu_memory_source(warp, &elements[i], type, values->spare[i]);
    }
    values->c = values->spare[MOST_ELEMENTS];
    if (places->other != NULL) {
        values->c = emu_memory_source(warp, places->other, type, values->spare[MOST_ELEMENTS]);
    }
}

static bool flushes(const struct emu_instr *instr, uint64_t address)
{
    bool shared = instr->facts.space == EMU_SHARED_CTA || instr->facts.space == EMU_SHARED_CLUSTER ||
                  (instr->facts.space == EMU_GENERIC && address - emu_shared_window() < EMU_WINDOW_BYTES);
    return instr->type == EMU_F32 && !shared;
}

static void update_lanes(const struct emu_instr *instr, const struct emu_lanes *lanes, const struct places *places,
                         struct values *values, uint32_t mask)
{
    for (; mask != 0; mask &= mask - 1) {
        int lane = emu_first_lane(mask);
        struct update update = {.op = (enum op)instr->facts.compare, .type = (enum emu_type)instr->type};
        update.flush = flushes(instr, lanes->address[lane]);
        for (int i = 0; i < instr->facts.vector; i++) {
            update.b = values->b[i][lane];
            update.c = places->other != NULL ? values->c[lane] : 0;
            values->old[i][lane] = host_update(lanes->host[lane] + i * instr->facts.n, instr->facts.n, &update);
        }
    }
}

static void write_destinations(struct emu_warp *warp, const struct emu_instr *instr, const struct places *places,
                               const struct values *values, uint32_t mask)
{
    const struct emu_operand *elements = emu_elements(warp, places->destination);
    uint32_t narrow[EMU_LANES] = {0};
    if (places->destination->kind == EMU_OP_SINK) {
        return;
    }
    for (int i = 0; i < instr->facts.vector; i++) {
        if (instr->facts.n == 8) {
            emu_store64(warp, &elements[i], values->old[i], mask);
            continue;
        }
        for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
            int lane = emu_first_lane(rest);
            narrow[lane] = (uint32_t)values->old[i][lane];
        }
        emu_store32(warp, &elements[i], narrow, mask);
    }
}

/* An exchange whose old value nobody takes is a write. */
static int touch_of(const struct emu_instr *instr, const struct places *places)
{
    bool unread =
        instr->facts.compare == EXCH && places->destination != NULL && places->destination->kind == EMU_OP_SINK;
    return unread ? EMU_WRITE : EMU_READ | EMU_WRITE;
}

static enum emu_action execute(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask, bool reduction)
{
    struct emu_lanes lanes;
    struct values values;
    struct places places = places_of(instr, reduction);
    struct emu_access_shape shape = {.space = (enum emu_space)instr->facts.space,
                                     .size = (uint32_t)instr->facts.n * instr->facts.vector,
                                     .touch = touch_of(instr, &places),
                                     .strong = true};
    emu_lane_addresses(warp, places.address, lanes.address);
    if (!emu_touch_lanes(warp, instr, &shape, mask, &lanes)) {
        return EMU_FAULT;
    }
    emu_order_before(warp, instr, &lanes, mask);
    read_values(warp, instr, &places, &values);
    update_lanes(instr, &lanes, &places, &values, mask);
    if (!reduction) {
        write_destinations(warp, instr, &places, &values, mask);
    }
    /* A reduction's read forms no acquire pattern (ISA 8.11.1). */
    emu_order_after(warp, instr, &lanes, mask, reduction ? EMU_WRITE : EMU_READ | EMU_WRITE);
    return EMU_NEXT;
}

static enum emu_action atom(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    return execute(warp, instr, mask, false);
}

static enum emu_action red(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    return execute(warp, instr, mask, true);
}

/* ---- Binding ---- */

static int find_op(const struct emu_bind *bind)
{
    for (int op = 0; op < OPS; op++) {
        if (emu_has_token(bind, op_names[op])) {
            return op;
        }
    }
    return OPS;
}

static bool is_half(enum emu_type type)
{
    return type == EMU_F16 || type == EMU_BF16 || type == EMU_F16X2 || type == EMU_BF16X2;
}

static bool integer_op_takes(enum op op, enum emu_type type)
{
    switch (op) {
    case AND:
    case OR:
    case XOR:
    case EXCH:
        return type == EMU_B32 || type == EMU_B64;
    case CAS:
        return type == EMU_B16 || type == EMU_B32 || type == EMU_B64 || type == EMU_U32 || type == EMU_U64 ||
               type == EMU_S32 || type == EMU_S64;
    case INC:
    case DEC:
        return type == EMU_U32;
    default: /* ADD, MIN, MAX */
        return type == EMU_U32 || type == EMU_S32 || type == EMU_U64 || type == EMU_S64;
    }
}

/* The combinations of operation, type and vector that exist (ISA 9.7.13.5, with its table of vectors). */
static bool exists(enum op op, enum emu_type type, int vector)
{
    if (vector > 1) {
        bool halves = is_half(type) && (op == ADD || op == MIN || op == MAX);
        bool floats = type == EMU_F32 && op == ADD;
        return vector == 8 ? halves && (type == EMU_F16 || type == EMU_BF16) : halves || floats;
    }
    return is_float(type) ? op == ADD : integer_op_takes(op, type);
}

static bool bind_atomic(const struct emu_bind *bind, bool reduction)
{
    struct emu_instr *instr = bind->instr;
    int op = find_op(bind), vector = emu_token_vector(bind), value = reduction ? 1 : 2;
    enum emu_type type = emu_token_type(bind);
    enum emu_space space = emu_token_space(bind);
    if (type == EMU_B128) {
        return emu_refuse(bind, "128-bit registers are not emulated");
    }
    if (op == OPS || !exists((enum op)op, type, vector) || (reduction && op == EXCH)) {
        return emu_refuse(bind, "no such operation on this type (ISA 9.7.13.5)");
    }
    if (is_half(type) != emu_has_token(bind, "noftz")) {
        return emu_refuse(bind, ".noftz goes with .f16 and .bf16 types, and with no others");
    }
    if (vector > 1 && space != EMU_GLOBAL && space != EMU_GENERIC) {
        return emu_refuse(bind, "vectors are for global memory alone");
    }
    if (reduction && (emu_has_token(bind, "acquire") || emu_has_token(bind, "acq_rel"))) {
        return emu_refuse(bind, "red is .relaxed or .release");
    }
    instr->type = (uint8_t)type;
    instr->facts.compare = (uint8_t)op;
    instr->facts.space = (uint8_t)space;
    instr->facts.vector = (uint8_t)vector;
    instr->facts.n = (int16_t)(emu_type_bits(type) / 8);
    /* Without .sem it is relaxed. */
    enum emu_order order = emu_token_order(bind);
    instr->facts.mode = (uint8_t)(order == EMU_WEAK ? EMU_RELAXED : order);
    instr->exec = reduction ? red : atom;
    bool elements = emu_bind_elements(bind, value) &&
                    (reduction || instr->operands[0].kind == EMU_OP_SINK || emu_bind_elements(bind, 0));
    return elements && (op == CAS || emu_bind_policy(bind, value + 1));
}

bool emu_bind_atom(const struct emu_bind *bind)
{
    return bind_atomic(bind, false);
}

bool emu_bind_red(const struct emu_bind *bind)
{
    return bind_atomic(bind, true);
}
