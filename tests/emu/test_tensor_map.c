/* Tensor maps: each check of the encoder; boxes, strides, swizzles and edges of loads, stores and reductions against
 * tables that are computed element by element. */
#include "tensor_machine.h"

#include <stdio.h>
#include <string.h>

#include "tensor_map.h"

/* ---- The encoder ---- */

struct arguments {
    void *map;
    int type;
    uint32_t rank;
    uint64_t address, dims[5], strides[5];
    uint32_t box[5], steps[5];
    int interleave, swizzle, promotion, fill;
};

static _Alignas(128) uint8_t map_bytes[2 * EMU_TENSOR_MAP_BYTES];

static struct arguments fine(void)
{
    return (struct arguments){.map = map_bytes,
                              .type = EMU_MAP_BF16,
                              .rank = 2,
                              .address = 0x10000,
                              .dims = {640, 100, 7, 5, 3},
                              .strides = {1280, 128000, 896000, 4480000},
                              .box = {64, 8, 2, 2, 2},
                              .steps = {1, 1, 1, 1, 1},
                              .swizzle = EMU_MAP_SWIZZLE_128B};
}

static int encode(const struct arguments *a)
{
    return emu_tensor_map_encode_tiled(a->map, a->type, a->rank, a->address, a->dims, a->strides, a->box, a->steps,
                                       a->interleave, a->swizzle, a->promotion, a->fill);
}

#define REFUSED(change)                                                                                                \
    do {                                                                                                               \
        struct arguments a = fine();                                                                                   \
        change;                                                                                                        \
        assert_int_equal(encode(&a), 1);                                                                               \
    } while (0)
#define ACCEPTED(change)                                                                                               \
    do {                                                                                                               \
        struct arguments a = fine();                                                                                   \
        change;                                                                                                        \
        assert_int_equal(encode(&a), 0);                                                                               \
    } while (0)

static void encoder_checks(void **unused)
{
    (void)unused;
    ACCEPTED((void)a);
    REFUSED(a.map = NULL);
    REFUSED(a.map = map_bytes + 32);
    ACCEPTED(a.map = map_bytes + 64);
    REFUSED(a.type = -1);
    REFUSED(a.type = 16);
    REFUSED(a.rank = 0);
    ACCEPTED(a.rank = 5);
    REFUSED(a.rank = 6);
    REFUSED(a.address += 8);
    ACCEPTED(a.address += 16);
    REFUSED(a.dims[1] = 0);
    ACCEPTED(a.dims[1] = (uint64_t)1 << 32);
    REFUSED(a.dims[1] = ((uint64_t)1 << 32) + 1);
    REFUSED(a.strides[0] = 1288);
    REFUSED(a.strides[0] = (uint64_t)1 << 40);
    ACCEPTED(a.strides[0] = ((uint64_t)1 << 40) - 16);
    REFUSED(a.box[1] = 0);
    ACCEPTED(a.box[1] = 256);
    REFUSED(a.box[1] = 257);
    REFUSED(a.box[0] = 4);  /* 8 bytes */
    REFUSED(a.box[0] = 72); /* 144 bytes: more than the swizzle */
    ACCEPTED(a.box[0] = 56);
    REFUSED(a.swizzle = EMU_MAP_SWIZZLE_64B);
    REFUSED(a.swizzle = EMU_MAP_SWIZZLE_32B);
    ACCEPTED(a.swizzle = EMU_MAP_SWIZZLE_NONE; a.box[0] = 256);
    REFUSED(a.swizzle = 7);
    REFUSED(a.swizzle = -1);
    REFUSED(a.steps[1] = 0);
    REFUSED(a.steps[1] = 9);
    ACCEPTED(a.steps[1] = 8);
    REFUSED(a.steps[0] = 0); /* counts for nothing without interleaving, and is checked (H200) */
    REFUSED(a.steps[0] = 9);
    ACCEPTED(a.steps[0] = 2);
    REFUSED(a.interleave = 3);
    REFUSED(a.interleave = EMU_MAP_INTERLEAVE_16B); /* needs three dimensions */
    ACCEPTED(a.interleave = EMU_MAP_INTERLEAVE_16B; a.rank = 3);
    REFUSED(a.interleave = EMU_MAP_INTERLEAVE_16B; a.rank = 3; a.steps[0] = 0);
    ACCEPTED(a.interleave = EMU_MAP_INTERLEAVE_32B; a.rank = 3);
    REFUSED(a.interleave = EMU_MAP_INTERLEAVE_32B);
    REFUSED(a.interleave = EMU_MAP_INTERLEAVE_16B; a.rank = 3; a.box[0] = 12);
    ACCEPTED(a.interleave = EMU_MAP_INTERLEAVE_32B; a.rank = 3; a.swizzle = EMU_MAP_SWIZZLE_32B);
    REFUSED(a.interleave = EMU_MAP_INTERLEAVE_32B; a.rank = 3; a.swizzle = EMU_MAP_SWIZZLE_32B; a.address += 16);
    REFUSED(a.interleave = EMU_MAP_INTERLEAVE_32B; a.rank = 3; a.swizzle = EMU_MAP_SWIZZLE_32B; a.strides[1] += 16);
    REFUSED(a.promotion = 4);
    ACCEPTED(a.promotion = 3);
    REFUSED(a.fill = 2);
    ACCEPTED(a.fill = EMU_MAP_FILL_NAN);
    REFUSED(a.fill = EMU_MAP_FILL_NAN; a.type = EMU_MAP_U16);
    ACCEPTED(a.strides[0] = 0);
    ACCEPTED(a.strides[0] = 16);
    ACCEPTED(a.address = 0);
    ACCEPTED(a.address = ((uint64_t)1 << 57) - 16);
    REFUSED(a.address = (uint64_t)1 << 57);
    /* As much as an SM has shared memory, without the gaps of narrow rows. */
    ACCEPTED(a.type = EMU_MAP_F64; a.swizzle = 0; a.box[0] = 256; a.box[1] = 114);
    REFUSED(a.type = EMU_MAP_F64; a.swizzle = 0; a.box[0] = 256; a.box[1] = 115);
    ACCEPTED(a.rank = 3; a.box[0] = 8; a.box[1] = 256; a.box[2] = 8);
    /* sm_100's. */
    REFUSED(a.swizzle = EMU_MAP_SWIZZLE_128B_ATOM_32B);
    REFUSED(a.swizzle = EMU_MAP_SWIZZLE_128B_ATOM_64B);
    REFUSED(a.type = EMU_MAP_16U4_ALIGN8B; a.swizzle = 0; a.box[0] = 128);
    REFUSED(a.type = EMU_MAP_16U4_ALIGN16B; a.swizzle = 0; a.box[0] = 128);
    REFUSED(a.type = EMU_MAP_16U6_ALIGN16B; a.swizzle = 0; a.box[0] = 128);
}

static void missing_arrays(void **unused)
{
    (void)unused;
    const struct arguments a = fine();
    uint8_t before[sizeof map_bytes];
    memset(map_bytes, 0x5a, sizeof map_bytes);
    memcpy(before, map_bytes, sizeof before);
    assert_int_equal(
        emu_tensor_map_encode_tiled(map_bytes, a.type, 2, a.address, NULL, a.strides, a.box, a.steps, 0, 0, 0, 0), 1);
    assert_int_equal(
        emu_tensor_map_encode_tiled(map_bytes, a.type, 2, a.address, a.dims, NULL, a.box, a.steps, 0, 0, 0, 0), 1);
    assert_int_equal(
        emu_tensor_map_encode_tiled(map_bytes, a.type, 2, a.address, a.dims, a.strides, NULL, a.steps, 0, 0, 0, 0), 1);
    assert_int_equal(
        emu_tensor_map_encode_tiled(map_bytes, a.type, 2, a.address, a.dims, a.strides, a.box, NULL, 0, 0, 0, 0), 1);
    assert_memory_equal(map_bytes, before, sizeof before);
    assert_int_equal(
        emu_tensor_map_encode_tiled(map_bytes, a.type, 1, a.address, a.dims, NULL, a.box, a.steps, 0, 0, 0, 0), 1);
}

/* What goes in comes out; CUTLASS's clearing of bit 21 of word 1 does no harm; anything else does. */
static void round_trip(void **unused)
{
    (void)unused;
    struct emu_tensor_map map;
    struct arguments a = fine();
    uint64_t word;
    a.rank = 5;
    a.steps[4] = 8;
    memcpy(a.box, (uint32_t[]){8, 1, 3, 256, 2}, sizeof a.box);
    a.dims[2] = (uint64_t)1 << 32;
    assert_int_equal(encode(&a), 0);
    memcpy(&word, map_bytes + 8, 8);
    word ^= (uint64_t)1 << 21;
    memcpy(map_bytes + 8, &word, 8);
    assert_true(emu_tensor_map_decode(map_bytes, &map));
    assert_int_equal(map.type, a.type);
    assert_int_equal(map.rank, 5);
    assert_int_equal(map.swizzle, a.swizzle);
    assert_int_equal(map.address, a.address);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(map.dims[i], a.dims[i]);
        assert_int_equal(map.strides[i], i ? a.strides[i - 1] : 2);
        assert_int_equal(map.box[i], a.box[i]);
        assert_int_equal(map.element_strides[i], a.steps[i]);
    }
    for (int i = 0; i < EMU_TENSOR_MAP_BYTES; i++) {
        map_bytes[i] ^= 1;
        const bool free_byte = (i >= 8 && i < 16) || i == 29; /* CUTLASS's word; changed by a kernel */
        assert_true(emu_tensor_map_decode(map_bytes, &map) == free_byte);
        map_bytes[i] ^= 1;
    }
}

/* ---- Maps that a kernel makes ---- */

/* From zeros, field by field: the map that the encoder makes. */
static void made_field_by_field(void **unused)
{
    (void)unused;
    static _Alignas(128) uint8_t made[EMU_TENSOR_MAP_BYTES];
    struct emu_tensor_map map;
    const struct arguments a = fine();
    memset(made, 0, sizeof made);
    assert_null(emu_tensor_map_replace(made, EMU_FIELD_ADDRESS, 0, a.address));
    assert_null(emu_tensor_map_replace(made, EMU_FIELD_RANK, 0, a.rank - 1));
    for (uint32_t i = 0; i < a.rank; i++) {
        assert_false(emu_tensor_map_decode(made, &map)); /* not yet */
        assert_null(emu_tensor_map_replace(made, EMU_FIELD_BOX, i, a.box[i]));
        assert_null(emu_tensor_map_replace(made, EMU_FIELD_DIM, i, a.dims[i]));
        assert_null(emu_tensor_map_replace(made, EMU_FIELD_STEP, i, i ? a.steps[i] : 1));
    }
    assert_null(emu_tensor_map_replace(made, EMU_FIELD_STRIDE, 0, a.strides[0]));
    assert_null(emu_tensor_map_replace(made, EMU_FIELD_TYPE, 0, 10)); /* bf16 */
    assert_null(emu_tensor_map_replace(made, EMU_FIELD_INTERLEAVE, 0, (uint64_t)a.interleave));
    assert_null(emu_tensor_map_replace(made, EMU_FIELD_SWIZZLE, 0, (uint64_t)a.swizzle));
    assert_null(emu_tensor_map_replace(made, EMU_FIELD_FILL, 0, (uint64_t)a.fill));
    assert_true(emu_tensor_map_changed(made));
    emu_tensor_map_acquire(made);
    assert_false(emu_tensor_map_changed(made));
    assert_int_equal(encode(&a), 0);
    assert_memory_equal(made, map_bytes, EMU_TENSOR_MAP_BYTES);
}

static void fields_that_cannot_be(void **unused)
{
    (void)unused;
    const struct {
        enum emu_map_field field;
        uint32_t ordinal;
        uint64_t value;
    } bad[] = {{EMU_FIELD_RANK, 0, 5},    {EMU_FIELD_BOX, 0, 0},        {EMU_FIELD_BOX, 1, 257},
               {EMU_FIELD_BOX, 5, 1},     {EMU_FIELD_DIM, 5, 1},        {EMU_FIELD_STRIDE, 4, 16},
               {EMU_FIELD_STEP, 1, 0},    {EMU_FIELD_STEP, 1, 9},       {EMU_FIELD_TYPE, 0, 16},
               {EMU_FIELD_SWIZZLE, 0, 4}, {EMU_FIELD_INTERLEAVE, 0, 3}, {EMU_FIELD_FILL, 0, 2}};
    struct arguments a = fine();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(encode(&a), 0);
        assert_non_null(emu_tensor_map_replace(map_bytes, bad[i].field, bad[i].ordinal, bad[i].value));
    }
    memset(map_bytes, 0xcd, EMU_TENSOR_MAP_BYTES);
    assert_non_null(emu_tensor_map_replace(map_bytes, EMU_FIELD_RANK, 0, 1));
}

/* ---- Copies ---- */

enum { TO = 0, MBARRIER = 1, MASK = 2, COORDINATES = 8, MAP = 0, POLICY = 1 };
enum { DESTINATION = 32768, GLOBAL_BYTES = 1 << 18 };

static _Alignas(128) uint8_t global[GLOBAL_BYTES];

struct box_case {
    int type, bytes;
    uint32_t rank;
    int swizzle;
    uint64_t dims[5];
    uint32_t box[5], steps[5];
    int32_t at[5];
    uint32_t offset; /* of the destination behind DESTINATION */
};

static const struct box_case boxes[] = {
    {EMU_MAP_BF16, 2, 1, EMU_MAP_SWIZZLE_NONE, {1000}, {256}, {1}, {512}, 0},
    {EMU_MAP_BF16, 2, 1, EMU_MAP_SWIZZLE_NONE, {1000}, {64}, {1}, {-8}, 128},
    {EMU_MAP_BF16, 2, 2, EMU_MAP_SWIZZLE_128B, {200, 40}, {64, 16}, {1, 1}, {64, 3}, 0},
    {EMU_MAP_BF16, 2, 2, EMU_MAP_SWIZZLE_128B, {200, 40}, {64, 16}, {1, 1}, {168, 33}, 1152},
    {EMU_MAP_F16, 2, 2, EMU_MAP_SWIZZLE_64B, {200, 40}, {32, 16}, {1, 1}, {-8, -2}, 0},
    {EMU_MAP_F16, 2, 2, EMU_MAP_SWIZZLE_64B, {200, 40}, {32, 9}, {1, 1}, {8, 2}, 640},
    {EMU_MAP_U8, 1, 2, EMU_MAP_SWIZZLE_32B, {208, 40}, {32, 16}, {1, 1}, {192, 30}, 128},
    {EMU_MAP_F32, 4, 2, EMU_MAP_SWIZZLE_32B, {200, 40}, {8, 16}, {1, 1}, {100, 7}, 0},
    {EMU_MAP_F32, 4, 3, EMU_MAP_SWIZZLE_128B, {40, 9, 6}, {32, 4, 3}, {1, 1, 1}, {12, 7, 4}, 0},
    {EMU_MAP_F64, 8, 3, EMU_MAP_SWIZZLE_NONE, {40, 9, 6}, {10, 4, 3}, {1, 2, 1}, {34, 2, -1}, 0},
    {EMU_MAP_U64, 8, 4, EMU_MAP_SWIZZLE_128B, {20, 6, 5, 4}, {16, 3, 2, 2}, {1, 1, 2, 1}, {2, 5, 1, 3}, 0},
    {EMU_MAP_S32, 4, 5, EMU_MAP_SWIZZLE_NONE, {12, 5, 4, 3, 3}, {8, 3, 3, 2, 2}, {1, 2, 1, 1, 2}, {4, 1, 2, 2, 1}, 256},
    {EMU_MAP_U16, 2, 5, EMU_MAP_SWIZZLE_64B, {64, 3, 3, 3, 3}, {32, 2, 2, 2, 2}, {1, 1, 1, 1, 1}, {40, 2, -1, 1, 0}, 0},
    {EMU_MAP_BF16, 2, 2, EMU_MAP_SWIZZLE_NONE, {200, 40}, {64, 16}, {1, 1}, {1000, 0}, 0}, /* all outside */
    /* Narrower than the swizzle. */
    {EMU_MAP_BF16, 2, 2, EMU_MAP_SWIZZLE_128B, {200, 40}, {24, 16}, {1, 1}, {184, 30}, 128},
    {EMU_MAP_F32, 4, 3, EMU_MAP_SWIZZLE_64B, {40, 9, 6}, {4, 4, 3}, {1, 2, 1}, {36, 7, 4}, 384},
    {EMU_MAP_U8, 1, 2, EMU_MAP_SWIZZLE_32B, {208, 40}, {16, 16}, {1, 1}, {-16, -3}, 128},
};
enum { BOXES = sizeof boxes / sizeof *boxes };

/* Strides with a gap of 32 bytes at each level. */
static void strides_of(const struct box_case *b, uint64_t strides[5])
{
    uint64_t stride = (b->dims[0] * (uint64_t)b->bytes + 15) / 16 * 16 + 32;
    for (uint32_t i = 1; i < b->rank; i++) {
        strides[i - 1] = stride;
        stride = stride * b->dims[i] + 32;
    }
    assert_true(stride <= GLOBAL_BYTES);
}

static struct tensor_machine *machine_that_fills(const struct box_case *b, int blocks, int fill)
{
    struct tensor_machine *tm = tm_create(blocks);
    uint64_t strides[5] = {0};
    strides_of(b, strides);
    for (int i = 0; i < GLOBAL_BYTES; i++)
        global[i] = (uint8_t)(i * 31 + i / 251 + i / 65536);
    tm->global = global;
    tm->global_bytes = GLOBAL_BYTES;
    const uint64_t start = (uint64_t)(uintptr_t)tm->params, map = (start + 63) / 64 * 64;
    assert_int_equal(emu_tensor_map_encode_tiled((void *)(uintptr_t)map, b->type, b->rank, (uint64_t)(uintptr_t)global,
                                                 b->dims, strides, b->box, b->steps, 0, b->swizzle, 0, fill),
                     0);
    /* Parameters must be aligned within themselves: move the start of the parameters to the map. */
    tm->launch.params = (const uint8_t *)(uintptr_t)map;
    tm->kernel.param_bytes = 128;
    tm_set64(tm, MAP, map);
    tm_set32(tm, TO, DESTINATION + b->offset);
    tm_set32(tm, MBARRIER, TM_MBARRIER);
    for (uint32_t i = 0; i < b->rank; i++)
        tm_set32(tm, COORDINATES + (int)i, (uint32_t)b->at[i]);
    return tm;
}

static struct tensor_machine *machine_of(const struct box_case *b, int blocks)
{
    return machine_that_fills(b, blocks, EMU_MAP_FILL_ZERO);
}

/* The j-th element of the box: where it is in the tensor; -1 when outside. */
static int64_t global_offset(const struct box_case *b, uint32_t j, const uint64_t *strides)
{
    int64_t offset = 0;
    bool inside = true;
    for (uint32_t i = 0; i < b->rank; i++) {
        const uint32_t count = (b->box[i] + b->steps[i] - 1) / b->steps[i];
        const int64_t at = b->at[i] + (int64_t)(j % count) * b->steps[i];
        j /= count;
        inside = inside && at >= 0 && at < (int64_t)b->dims[i];
        offset += at * (i ? (int64_t)strides[i - 1] : b->bytes);
    }
    return inside ? offset : -1;
}

static uint32_t element_count(const struct box_case *b)
{
    uint32_t count = 1;
    for (uint32_t i = 0; i < b->rank; i++)
        count *= (b->box[i] + b->steps[i] - 1) / b->steps[i];
    return count;
}

/* A swizzled row takes up the swizzle's span, whatever its own length. */
static uint32_t linear_offset(const struct box_case *b, uint32_t j)
{
    const uint32_t count = b->box[0], span = 16u << b->swizzle;
    const uint32_t pitch = b->swizzle ? span : count * (uint32_t)b->bytes;
    return DESTINATION + b->offset + j / count * pitch + j % count * (uint32_t)b->bytes;
}

/* Tables of ISA 5.5.7: 16-byte unit u of the 128-byte line r of the pattern holds unit u ^ f(r). */
static uint32_t shared_offset(const struct box_case *b, uint32_t j)
{
    const uint32_t linear = linear_offset(b, j);
    const uint32_t unit = linear / 16 % 8, line = linear / 128;
    const uint32_t exchange = b->swizzle == EMU_MAP_SWIZZLE_128B  ? line % 8
                              : b->swizzle == EMU_MAP_SWIZZLE_64B ? line % 4
                              : b->swizzle == EMU_MAP_SWIZZLE_32B ? line % 2
                                                                  : 0;
    return line * 128 + (unit ^ exchange) * 16 + linear % 16;
}

static void loads(void **unused)
{
    (void)unused;
    for (int i = 0; i < 2 * BOXES; i++) {
        const struct box_case *b = &boxes[i % BOXES];
        struct tensor_machine *tm = machine_of(b, 1);
        uint64_t strides[5];
        char opcode[120];
        static uint8_t expected[TM_SHARED];
        const uint32_t count = element_count(b);
        const struct emu_operand operands[] = {tm_address32(TO), tm_tensor(tm, MAP, COORDINATES, (int)b->rank),
                                               tm_address32(MBARRIER)};
        strides_of(b, strides);
        memset(tm->shared[0], 0xee, TM_SHARED);
        memset(expected, 0xee, sizeof expected);
        for (uint32_t j = 0; j < count; j++) {
            const int64_t from = global_offset(b, j, strides);
            if (from < 0)
                memset(expected + shared_offset(b, j), 0, (size_t)b->bytes);
            else
                memcpy(expected + shared_offset(b, j), global + from, (size_t)b->bytes);
        }
        snprintf(opcode, sizeof opcode, "cp.async.bulk.tensor.%ud.shared::%s.global%s.mbarrier::complete_tx::bytes%s",
                 b->rank, i % 3 ? "cluster" : "cta", i % 5 == 1 ? ".tile" : "", i % 5 == 2 ? ".tile" : "");
        tm->backwards = i >= BOXES;
        if (tm_run(tm, 0, opcode, 1, 3, operands) != EMU_NEXT)
            fail_msg("%s: %s %s", opcode, tm->why, tm->message);
        assert_true(tm_finish(tm));
        if (memcmp(expected, tm->shared[0], TM_SHARED) != 0)
            fail_msg("box %d", i % BOXES);
        assert_int_equal(tm->tx[0], count * (uint32_t)b->bytes); /* those outside too */
        tm_destroy(tm);
    }
}

static bool is_negative(const struct box_case *b)
{
    for (uint32_t i = 0; i < b->rank; i++)
        if (b->at[i] < 0)
            return true;
    return false;
}

static void stores(void **unused)
{
    (void)unused;
    static uint8_t expected[GLOBAL_BYTES];
    for (int i = 0; i < BOXES; i++) {
        const struct box_case *b = &boxes[i];
        struct tensor_machine *tm = machine_of(b, 1);
        uint64_t strides[5];
        char opcode[96];
        const struct emu_operand operands[] = {tm_tensor(tm, MAP, COORDINATES, (int)b->rank), tm_address32(TO),
                                               tm_reg64(POLICY)};
        strides_of(b, strides);
        for (int at = 0; at < TM_SHARED; at++)
            tm->shared[0][at] = (uint8_t)(at * 13 + at / 253);
        memcpy(expected, global, GLOBAL_BYTES);
        for (uint32_t j = 0; j < element_count(b); j++) {
            const int64_t to = global_offset(b, j, strides);
            if (to >= 0)
                memcpy(expected + to, tm->shared[0] + shared_offset(b, j), (size_t)b->bytes);
        }
        snprintf(opcode, sizeof opcode, "cp.async.bulk.tensor.%ud.global.shared::cta%s.bulk_group%s", b->rank,
                 i % 2 ? ".tile" : "", i % 3 ? "" : ".L2::cache_hint");
        const int result = tm_run(tm, 0, opcode, 1, i % 3 ? 2 : 3, operands);
        if (is_negative(b)) { /* an H200's illegal instruction */
            assert_int_equal(result, EMU_FAULT);
            assert_int_equal(tm->kind, EMU_BAD_OPERAND);
            assert_non_null(strstr(tm->message, "negative coordinate"));
            tm_destroy(tm);
            continue;
        }
        if (result != EMU_NEXT)
            fail_msg("%s: %s %s", opcode, tm->why, tm->message);
        assert_true(tm_finish(tm));
        if (memcmp(expected, global, GLOBAL_BYTES) != 0)
            fail_msg("box %d", i);
        tm_destroy(tm);
    }
}

/* The H200's illegal instruction: a box whose first element is not 16-byte aligned, in every kind of copy. */
static void misaligned_boxes(void **unused)
{
    (void)unused;
    static const struct {
        int type, bytes;
        int32_t at;
        bool illegal;
    } cases[] = {{EMU_MAP_U8, 1, 8, true},    {EMU_MAP_U8, 1, 16, false}, {EMU_MAP_BF16, 2, 4, true},
                 {EMU_MAP_BF16, 2, 8, false}, {EMU_MAP_F32, 4, 2, true},  {EMU_MAP_F32, 4, 4, false},
                 {EMU_MAP_F64, 8, 1, true},   {EMU_MAP_F64, 8, 2, false}, {EMU_MAP_F64, 8, -1, true}};
    for (size_t i = 0; i < 3 * sizeof cases / sizeof *cases; i++) {
        const size_t at = i / 3, kind = i % 3;
        const struct box_case b = {cases[at].type, cases[at].bytes, 1, 0, {400}, {32}, {1}, {cases[at].at}, 0};
        struct tensor_machine *tm = machine_of(&b, 1);
        const struct emu_operand tensor = tm_tensor(tm, MAP, COORDINATES, 1), to = tm_address32(TO);
        const struct emu_operand operands[3][3] = {{to, tensor, tm_address32(MBARRIER)}, {tensor, to}, {tensor}};
        static const char *const opcodes[] = {
            "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes",
            "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group", "cp.async.bulk.prefetch.tensor.1d.L2.global"};
        const int result = tm_run(tm, 0, opcodes[kind], 1, 3 - (int)kind, operands[kind]);
        assert_int_equal(result, cases[at].illegal ? EMU_FAULT : EMU_NEXT);
        if (cases[at].illegal)
            assert_non_null(strstr(tm->message, "no multiple of 16 bytes"));
        if (cases[at].illegal)
            assert_int_equal(tm->kind, EMU_BAD_OPERAND);
        tm_destroy(tm);
    }
}

/* Rows of 203 halves end 6 bytes behind a multiple of 16: 10 more are stored (H200); loads fill to the element. */
static void odd_rows(void **unused)
{
    (void)unused;
    const struct box_case b = {EMU_MAP_BF16, 2, 2, EMU_MAP_SWIZZLE_64B, {203, 40}, {32, 4}, {1, 1}, {184, 2}, 0};
    struct tensor_machine *tm = machine_that_fills(&b, 1, EMU_MAP_FILL_NAN);
    const struct emu_operand load[] = {tm_address32(TO), tm_tensor(tm, MAP, COORDINATES, 2), tm_address32(MBARRIER)};
    const struct emu_operand store[] = {load[1], load[0]};
    assert_int_equal(
        tm_run(tm, 0, "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes", 1, 3, load),
        EMU_NEXT);
    assert_true(tm_finish(tm));
    uint16_t value, nan = 0x7ff7;
    memcpy(&value, tm->shared[0] + shared_offset(&b, 18), 2);
    assert_memory_equal(&value, global + 2 * 448 + 2 * 202, 2);
    memcpy(&value, tm->shared[0] + shared_offset(&b, 19), 2);
    assert_int_equal(value, nan);
    memset(tm->shared[0] + DESTINATION, 0x11, 256);
    memset(global, 0, sizeof global);
    assert_int_equal(tm_run(tm, 0, "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group", 1, 2, store), EMU_NEXT);
    assert_true(tm_finish(tm));
    for (int at = 0; at < 448; at++)
        assert_int_equal(global[2 * 448 + at], at >= 2 * 184 && at < 416 ? 0x11 : 0);
    tm_destroy(tm);
}

/* Maps of tf32 round to nearest even on the way in; they have one NaN, and f32 maps leave all as it is. */
static void rounding_maps(void **unused)
{
    (void)unused;
    static const uint32_t values[][2] = {{0x3f801000, 0x3f800000}, {0x3f803000, 0x3f804000}, {0x3f801001, 0x3f802000},
                                         {0x3f800fff, 0x3f800000}, {0x007fffff, 0x00800000}, {0x00000001, 0},
                                         {0x80000001, 0x80000000}, {0x7f7fffff, 0x7f800000}, {0xff800000, 0xff800000},
                                         {0x7f800001, 0x7fffe000}, {0xffc00000, 0x7fffe000}, {0x80614223, 0x80614000}};
    static const int types[] = {EMU_MAP_F32, EMU_MAP_F32_FTZ, EMU_MAP_TF32, EMU_MAP_TF32_FTZ};
    for (int i = 0; i < 4; i++) {
        const struct box_case b = {types[i], 4, 1, 0, {12}, {12}, {1}, {0}, 0};
        struct tensor_machine *tm = machine_of(&b, 1);
        const struct emu_operand load[] = {tm_address32(TO), tm_tensor(tm, MAP, COORDINATES, 1),
                                           tm_address32(MBARRIER)};
        for (int j = 0; j < 12; j++)
            memcpy(global + 4 * j, &values[j][0], 4);
        assert_int_equal(
            tm_run(tm, 0, "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes", 1, 3, load),
            EMU_NEXT);
        assert_true(tm_finish(tm));
        for (int j = 0; j < 12; j++)
            assert_memory_equal(tm->shared[0] + DESTINATION + 4 * j, &values[j][i >= 2], 4);
        tm_destroy(tm);
    }
}

/* Which element types a reduction takes (H200; the ISA says nothing about most). */
static void reduced_types(void **unused)
{
    (void)unused;
    static const struct {
        int type, bytes;
        const char *operation;
        bool fine;
    } cases[] = {{EMU_MAP_F64, 8, "add", true},  {EMU_MAP_TF32, 4, "add", true}, {EMU_MAP_TF32_FTZ, 4, "add", true},
                 {EMU_MAP_S64, 8, "add", false}, {EMU_MAP_U16, 2, "add", false}, {EMU_MAP_F32, 4, "min", false},
                 {EMU_MAP_S64, 8, "max", true},  {EMU_MAP_S64, 8, "and", false}, {EMU_MAP_U64, 8, "xor", true},
                 {EMU_MAP_S32, 4, "or", true},   {EMU_MAP_F32, 4, "xor", false}, {EMU_MAP_S32, 4, "inc", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct box_case b = {cases[i].type, cases[i].bytes, 1, 0, {64}, {16}, {1}, {16}, 0};
        struct tensor_machine *tm = machine_of(&b, 1);
        const struct emu_operand operands[] = {tm_tensor(tm, MAP, COORDINATES, 1), tm_address32(TO)};
        char opcode[96];
        snprintf(opcode, sizeof opcode, "cp.reduce.async.bulk.tensor.1d.global.shared::cta.%s.bulk_group",
                 cases[i].operation);
        if (tm_run(tm, 0, opcode, 1, 2, operands) != (cases[i].fine ? EMU_NEXT : EMU_FAULT))
            fail_msg("type %d %s", cases[i].type, cases[i].operation);
        tm_finish(tm);
        tm_destroy(tm);
    }
}

static void multicast_and_hints(void **unused)
{
    (void)unused;
    const struct box_case *b = &boxes[2];
    struct tensor_machine *tm = machine_of(b, 3);
    const struct emu_operand operands[] = {tm_address32(TO), tm_tensor(tm, MAP, COORDINATES, 2), tm_address32(MBARRIER),
                                           tm_reg32(MASK), tm_reg64(POLICY)};
    tm_set32(tm, MASK, 6);
    assert_int_equal(tm_run(tm, 0,
                            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                            ".multicast::cluster.L2::cache_hint",
                            1, 5, operands),
                     EMU_NEXT);
    assert_true(tm_finish(tm));
    assert_memory_equal(tm->shared[1] + DESTINATION, tm->shared[2] + DESTINATION, 2048);
    assert_int_equal(tm->shared[0][DESTINATION], 0);
    assert_int_equal(tm->tx[0], 0);
    assert_int_equal(tm->tx[1], 2048);
    assert_int_equal(tm->tx[2], 2048);
    assert_int_equal(tm_run(tm, 0,
                            "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes"
                            ".multicast::cluster",
                            1, 4, operands),
                     TM_REFUSED);
    const struct emu_operand prefetch[] = {tm_tensor(tm, MAP, COORDINATES, 2), tm_reg64(POLICY)};
    assert_int_equal(tm_run(tm, 0, "cp.async.bulk.prefetch.tensor.2d.L2.global", 1, 1, prefetch), EMU_NEXT);
    assert_int_equal(tm_run(tm, 0, "cp.async.bulk.prefetch.tensor.2d.L2.global.tile.L2::cache_hint", 1, 2, prefetch),
                     EMU_NEXT);
    assert_null(tm->queue);
    tm_destroy(tm);
}

static void reductions(void **unused)
{
    (void)unused;
    const struct box_case b = {EMU_MAP_F32, 4, 2, EMU_MAP_SWIZZLE_128B, {200, 40}, {32, 8}, {1, 1}, {180, 36}, 0};
    struct tensor_machine *tm = machine_of(&b, 1);
    const struct emu_operand operands[] = {tm_tensor(tm, MAP, COORDINATES, 2), tm_address32(TO)};
    uint64_t strides[5];
    strides_of(&b, strides);
    memset(global, 0, sizeof global);
    for (uint32_t j = 0; j < element_count(&b); j++) {
        const float value = (float)j;
        memcpy(tm->shared[0] + shared_offset(&b, j), &value, 4);
    }
    const char *const sum = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group";
    for (int times = 0; times < 2; times++)
        assert_int_equal(tm_run(tm, 0, sum, 1, 2, operands), EMU_NEXT);
    assert_true(tm_finish(tm));
    float total = 0, expected = 0;
    for (int at = 0; at < GLOBAL_BYTES; at += 4) {
        float value;
        memcpy(&value, global + at, 4);
        total += value;
    }
    for (uint32_t j = 0; j < element_count(&b); j++) {
        const int64_t to = global_offset(&b, j, strides);
        float value = 0;
        if (to >= 0)
            memcpy(&value, global + to, 4);
        assert_true(to < 0 || value == 2.0f * (float)j);
        expected += value;
    }
    assert_true(total == expected);
    assert_int_equal(tm_run(tm, 0, "cp.reduce.async.bulk.tensor.2d.global.shared::cta.min.bulk_group", 1, 2, operands),
                     EMU_FAULT);
    assert_int_equal(tm->kind, EMU_BAD_OPERAND);
    tm_destroy(tm);
}

static void faults(void **unused)
{
    (void)unused;
    const char *const load = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes";
    for (int i = 0; i < 7; i++) {
        struct tensor_machine *tm = machine_of(&boxes[2], 1);
        const struct emu_operand operands[] = {tm_address32(TO), tm_tensor(tm, MAP, COORDINATES, 2),
                                               tm_address32(MBARRIER)};
        const uint64_t map = tm->r64[0][0][MAP][0];
        if (i == 0)
            tm_set32(tm, TO, DESTINATION + 64);
        if (i == 1)
            tm_set32(tm, MBARRIER, TM_MBARRIER + 4);
        if (i == 2)
            tm_set64(tm, MAP, map + 32);
        if (i == 3)
            *(uint8_t *)(uintptr_t)map ^= 1;
        if (i == 4)
            tm_set32(tm, TO, 5u << EMU_RANK_SHIFT);
        if (i == 5)
            tm_set64(tm, MAP, 64);
        if (i == 6) /* inside the tensor, outside the allocation */
            tm->global_bytes = 1000;
        static const enum emu_finding_kind kinds[] = {
            EMU_MISALIGNED_ACCESS, EMU_MISALIGNED_ACCESS, EMU_MISALIGNED_ACCESS, EMU_BAD_OPERAND,
            EMU_OUT_OF_BOUNDS,     EMU_OUT_OF_BOUNDS,     EMU_OUT_OF_BOUNDS};
        const int result = tm_run(tm, 0, load, 1, 3, operands);
        assert_true(i == 6 ? result == EMU_NEXT && !tm_finish(tm) : result == EMU_FAULT);
        if (tm->kind != kinds[i])
            fail_msg("fault %d: %s", i, tm->message);
        tm_destroy(tm);
    }
    struct tensor_machine *tm = machine_of(&boxes[2], 1);
    const struct emu_operand three[] = {tm_address32(TO), tm_tensor(tm, MAP, COORDINATES, 3), tm_address32(MBARRIER)};
    assert_int_equal(tm_run(tm, 0, load, 1, 3, three), TM_REFUSED);
    assert_int_equal(
        tm_run(tm, 0, "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes", 1, 3, three),
        EMU_FAULT); /* the map has two */
    tm_destroy(tm);
}

/* A kernel changes a map in global memory: copies want a fence first. */
static void changed_by_instructions(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = machine_of(&boxes[2], 1);
    static const char load[] = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes";
    static const char replace[] = "tensormap.replace.tile.global_dim.global.b1024.b32";
    const struct emu_operand copy[] = {tm_address32(TO), tm_tensor(tm, MAP, COORDINATES, 2), tm_address32(MBARRIER)};
    struct emu_operand change[] = {tm_address64(MAP), tm_imm(1), tm_imm(9)};
    const struct emu_operand acquire[] = {tm_address64(MAP), tm_imm(EMU_TENSOR_MAP_BYTES)};
    struct emu_tensor_map map;
    uint8_t *bytes = global + GLOBAL_BYTES - 4096;
    bytes += (128 - (uintptr_t)bytes % 128) % 128;
    memcpy(bytes, tm->launch.params, EMU_TENSOR_MAP_BYTES);
    tm_set64(tm, MAP, (uint64_t)(uintptr_t)bytes);
    assert_int_equal(tm_run(tm, 0, load, 1, 3, copy), EMU_NEXT);
    assert_int_equal(tm_run(tm, 0, replace, 1, 3, change), EMU_NEXT);
    assert_true(emu_tensor_map_decode(bytes, &map) && map.dims[1] == 9);
    assert_int_equal(tm_run(tm, 0, load, 1, 3, copy), EMU_FAULT);
    assert_non_null(strstr(tm->message, "fence.proxy.tensormap"));
    assert_int_equal(tm_run(tm, 0, "fence.proxy.tensormap::generic.release.gpu", 1, 0, NULL), EMU_NEXT);
    assert_int_equal(tm_run(tm, 0, "fence.proxy.tensormap::generic.acquire.gpu", 1, 2, acquire), EMU_NEXT);
    assert_int_equal(tm_run(tm, 0, load, 1, 3, copy), EMU_NEXT);
    change[1] = tm_imm(7);
    assert_int_equal(tm_run(tm, 0, replace, 1, 3, change), EMU_FAULT);
    tm_destroy(tm);
}

/* From shared memory to global memory, by a whole warp. */
static void published(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = machine_of(&boxes[2], 1);
    static const char publish[] =
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned";
    struct emu_operand operands[] = {tm_address64(MAP), tm_address32(TO), tm_imm(EMU_TENSOR_MAP_BYTES)};
    uint8_t *bytes = global + GLOBAL_BYTES - 4096;
    bytes += (128 - (uintptr_t)bytes % 128) % 128;
    memcpy(tm->shared[0] + DESTINATION, tm->launch.params, EMU_TENSOR_MAP_BYTES);
    tm_set32(tm, TO, DESTINATION);
    tm_set64(tm, MAP, (uint64_t)(uintptr_t)bytes);
    assert_int_equal(tm_run(tm, 0, publish, 1, 3, operands), EMU_FAULT); /* one lane */
    assert_int_equal(tm_run(tm, 0, publish, EMU_ALL_LANES, 3, operands), EMU_NEXT);
    assert_memory_equal(bytes, tm->launch.params, EMU_TENSOR_MAP_BYTES);
    operands[2] = tm_imm(64);
    assert_int_equal(tm_run(tm, 0, publish, EMU_ALL_LANES, 3, operands), TM_REFUSED);
    tm_destroy(tm);
}

static void refused(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = machine_of(&boxes[2], 1);
    const struct emu_operand load[] = {tm_address32(TO), tm_tensor(tm, MAP, COORDINATES, 5), tm_address32(MBARRIER)};
    const struct emu_operand store[] = {load[1], load[0]};
    const struct emu_operand replace[] = {tm_address64(MAP), tm_reg64(POLICY), tm_imm(64)};
    const struct {
        const char *opcode;
        int count;
        const struct emu_operand *operands;
    } cases[] = {
        {"cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes", 3, load},
        {"cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes", 3, load},
        {"cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group", 2, store},
        {"cp.async.bulk.tensor.5d.global.shared::cta.im2col_no_offs.bulk_group", 2, store},
        {"tensormap.replace.tile.global_address.global.b1024.b32", 2, replace},
        {"tensormap.replace.tile.global_address.global.b1024.b64", 3, replace},
        {"tensormap.replace.tile.box_dim.global.b1024.b32", 3, replace},
        {"tensormap.replace.tile.elemtype.global.b1024.b32", 2, replace},
        {"fence.proxy.tensormap::generic.release.gpu", 2, replace},
        {"fence.proxy.tensormap::generic.acquire.gpu", 0, replace},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tm->why[0] = '\0';
        if (tm_run(tm, 0, cases[i].opcode, 1, cases[i].count, cases[i].operands) != TM_REFUSED)
            fail_msg("%s: %s", cases[i].opcode, tm->why);
        assert_true(strlen(tm->why) > 0);
    }
    assert_int_equal(tm_run(tm, 0,
                            "cp.async.bulk.tensor.5d.shared::cluster.global.im2col::w.mbarrier::complete_tx::bytes", 1,
                            3, load),
                     TM_UNKNOWN);
    tm_destroy(tm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoder_checks),
        cmocka_unit_test(missing_arrays),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(loads),
        cmocka_unit_test(stores),
        cmocka_unit_test(multicast_and_hints),
        cmocka_unit_test(reductions),
        cmocka_unit_test(faults),
        cmocka_unit_test(made_field_by_field),
        cmocka_unit_test(fields_that_cannot_be),
        cmocka_unit_test(changed_by_instructions),
        cmocka_unit_test(published),
        cmocka_unit_test(refused),
        cmocka_unit_test(misaligned_boxes),
        cmocka_unit_test(odd_rows),
        cmocka_unit_test(rounding_maps),
        cmocka_unit_test(reduced_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
