/* ld, st and the instructions about addresses: each opcode and mode. */
#include "machine.h"

#include <stdio.h>
#include <string.h>

#include "region.h"

enum { BYTES = 8192, A64 = 10, A32 = 11 }; /* rows of addresses */
static _Alignas(256) uint8_t bytes[BYTES];
static struct machine machine;

static uint64_t global(size_t offset)
{
    return (uint64_t)(uintptr_t)bytes + offset;
}

/* Row A64 holds global, row A32 shared addresses, `stride` apart. */
static void addresses(uint64_t start64, uint32_t start32, uint32_t stride)
{
    for (uint32_t lane = 0; lane < EMU_LANES; lane++) {
        machine.r64[A64][lane] = start64 + (uint64_t)lane * stride;
        machine.r32[A32][lane] = start32 + lane * stride;
    }
}

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < BYTES; i++) {
        bytes[i] = (uint8_t)(i * 7 + 128);
    }
    machine_init(&machine, bytes, sizeof bytes);
    for (size_t i = 0; i < MACHINE_SHARED; i++) {
        for (int rank = 0; rank < MACHINE_BLOCKS; rank++) {
            machine.shared[rank][i] = (uint8_t)(i * 3 + 200 + (size_t)rank);
        }
    }
    addresses(global(0), 1024, 4);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    machine_destroy(&machine);
    return 0;
}

static struct emu_operand at64(int64_t displacement)
{
    return op_address(A64, 64, displacement);
}

static struct emu_operand at32(int64_t displacement)
{
    return op_address(A32, 32, displacement);
}

static uint64_t expected(const uint8_t *from, int size, bool is_signed, int bits)
{
    uint64_t value = 0;
    memcpy(&value, from, (size_t)size);
    if (is_signed && size < 8 && value >> (8 * size - 1)) {
        value |= UINT64_MAX << (8 * size);
    }
    return bits == 64 ? value : value & ((UINT64_C(1) << bits) - 1);
}

/* ---- Types ---- */

static const struct {
    const char *name;
    int size;
    bool is_signed;
} types[] = {{"b8", 1, false},  {"u8", 1, false},  {"s8", 1, true},   {"b16", 2, false}, {"u16", 2, false},
             {"s16", 2, true},  {"b32", 4, false}, {"u32", 4, false}, {"s32", 4, true},  {"f32", 4, false},
             {"b64", 8, false}, {"u64", 8, false}, {"s64", 8, true},  {"f64", 8, false}};

static void check_load(const char *text, int size, bool is_signed, int bits, uint32_t mask)
{
    memset(machine.r32[1], 0x11, sizeof machine.r32[1]);
    memset(machine.r64[1], 0x11, sizeof machine.r64[1]);
    assert_int_equal(machine_run(&machine, text, mask, 2, op_reg(1, bits), at64(16)), EMU_NEXT);
    for (int lane = 0; lane < EMU_LANES; lane++) {
        const uint8_t *from = (const uint8_t *)(uintptr_t)(machine.r64[A64][lane] + 16);
        uint64_t old = bits == 64 ? UINT64_C(0x1111111111111111) : 0x11111111u;
        uint64_t want = mask >> lane & 1u ? expected(from, size, is_signed, bits) : old;
        assert_int_equal(bits == 64 ? machine.r64[1][lane] : machine.r32[1][lane], want);
    }
}

static void test_load_types(void **state)
{
    (void)state;
    static const char *const modes[] = {"ld.global.", "ld.", "ld.relaxed.gpu.global.", "ld.volatile.global."};
    static const int widths[] = {16, 32, 64};
    static const uint32_t masks[] = {EMU_ALL_LANES, 0x80000001u, 0x0000ff00u, 1u};
    for (size_t type = 0; type < sizeof types / sizeof *types; type++) {
        for (size_t mode = 0; mode < 4; mode++) {
            for (size_t width = 0; width < 3; width++) {
                char text[64];
                snprintf(text, sizeof text, "%s%s", modes[mode], types[type].name);
                addresses(global(0), 1024, (uint32_t)types[type].size);
                if (types[type].size * 8 > widths[width]) {
                    assert_int_equal(machine_run(&machine, text, 1, 2, op_reg(1, widths[width]), at64(0)),
                                     MACHINE_REFUSED);
                    continue;
                }
                for (size_t mask = 0; mask < 4; mask++) {
                    check_load(text, types[type].size, types[type].is_signed, widths[width], masks[mask]);
                    addresses(global(0), 1024, 24 * (uint32_t)(1 + mask)); /* not contiguous */
                    check_load(text, types[type].size, types[type].is_signed, widths[width], masks[mask]);
                }
            }
        }
    }
}

static void check_store(const char *text, int size, int bits, uint32_t mask)
{
    static uint8_t want[BYTES];
    for (int lane = 0; lane < EMU_LANES; lane++) {
        machine.r64[2][lane] = UINT64_C(0x8877665544332211) * (uint64_t)(lane + 1);
        machine.r32[2][lane] = (uint32_t)machine.r64[2][lane];
    }
    memcpy(want, bytes, sizeof want);
    for (int lane = 0; lane < EMU_LANES; lane++) {
        if (mask >> lane & 1u) {
            memcpy(want + (machine.r64[A64][lane] - global(0)) + 8, &machine.r64[2][lane], (size_t)size);
        }
    }
    assert_int_equal(machine_run(&machine, text, mask, 2, at64(8), op_reg(2, bits)), EMU_NEXT);
    assert_memory_equal(bytes, want, sizeof want);
}

static void test_store_types(void **state)
{
    (void)state;
    static const char *const modes[] = {"st.global.", "st.", "st.relaxed.gpu.global.", "st.volatile.global."};
    static const uint32_t masks[] = {EMU_ALL_LANES, 0x80000001u, 0x0000ff00u, 1u};
    for (size_t type = 0; type < sizeof types / sizeof *types; type++) {
        for (size_t mode = 0; mode < 4; mode++) {
            for (size_t mask = 0; mask < 4; mask++) {
                char text[64];
                int size = types[type].size;
                snprintf(text, sizeof text, "%s%s", modes[mode], types[type].name);
                addresses(global(0), 1024, (uint32_t)size);
                check_store(text, size, 64, masks[mask]);
                check_store(text, size, size == 8 ? 64 : 32, masks[mask]);
                addresses(global(64), 1024, 48);
                check_store(text, size, 64, masks[mask]);
                check_store(text, size, size == 8 ? 64 : 32, masks[mask]);
            }
        }
    }
}

static void test_store_immediates(void **state)
{
    (void)state;
    const struct {
        const char *text;
        struct emu_operand value;
        uint64_t bits;
        size_t size;
    } cases[] = {
        {"st.global.u8", op_imm(-1), 0xff, 1},
        {"st.global.u32", op_imm(-2), 0xfffffffe, 4},
        {"st.global.s64", op_imm(-2), UINT64_C(0xfffffffffffffffe), 8},
        {"st.global.f32", op_literal(0x3f800000, 32), 0x3f800000, 4},
        {"st.global.f32", op_literal(UINT64_C(0x3ff8000000000000), 64), 0x3fc00000, 4},
        {"st.global.f64", op_literal(0x3fc00000, 32), UINT64_C(0x3ff8000000000000), 8},
    };
    addresses(global(0), 1024, 8);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(machine_run(&machine, cases[i].text, EMU_ALL_LANES, 2, at64(0), cases[i].value), EMU_NEXT);
        assert_memory_equal(bytes + 31 * 8, &cases[i].bits, cases[i].size);
    }
}

/* ---- Vectors ---- */

static void check_vector(int count, const char *type, int size)
{
    char load[64], store[64];
    struct emu_operand elements[8];
    int bits = size == 8 ? 64 : 32;
    snprintf(load, sizeof load, "ld.global.v%d.%s", count, type);
    snprintf(store, sizeof store, "st.shared.v%d.%s", count, type);
    for (int i = 0; i < count; i++) {
        elements[i] = op_reg(i, bits);
    }
    addresses(global(0), 1024, (uint32_t)(count * size));
    struct emu_operand vector = op_vector(&machine, 0, count, elements);
    uint32_t mask = 0xfffffff7u;
    memset(machine.shared[0], 0, MACHINE_SHARED);
    assert_int_equal(machine_run(&machine, load, EMU_ALL_LANES, 2, vector, at64(0)), EMU_NEXT);
    assert_int_equal(machine_run(&machine, store, mask, 2, at32(0), vector), EMU_NEXT);
    for (int lane = 0; lane < EMU_LANES; lane++) {
        static const uint8_t zero[16];
        size_t bytes_each = (size_t)(count * size), offset = (size_t)lane * bytes_each;
        assert_memory_equal(machine.shared[0] + 1024 + offset, mask >> lane & 1u ? bytes + offset : zero, bytes_each);
    }
}

static void test_vectors(void **state)
{
    (void)state;
    for (size_t type = 0; type < sizeof types / sizeof *types; type++) {
        check_vector(2, types[type].name, types[type].size);
        if (types[type].size < 8) {
            check_vector(4, types[type].name, types[type].size);
        }
    }
}

static void test_vector_alignment(void **state)
{
    (void)state;
    struct emu_operand elements[] = {op_reg(0, 32), op_reg(1, 32), op_reg(2, 32), op_reg(3, 32)};
    struct emu_operand vector = op_vector(&machine, 0, 4, elements);
    addresses(global(8), 1024 + 8, 16);
    assert_int_equal(machine_run(&machine, "ld.global.v4.u32", 4, 2, vector, at64(0)), EMU_FAULT);
    assert_int_equal(machine.kind, EMU_MISALIGNED_ACCESS);
    assert_int_equal(machine.lane, 2);
    assert_non_null(strstr(machine.message, "no multiple of 16"));
    assert_int_equal(machine_run(&machine, "st.shared.v4.u32", 4, 2, at32(0), vector), EMU_FAULT);
    assert_int_equal(machine_run(&machine, "st.shared.v4.u32", 4, 2, at32(8), vector), EMU_NEXT);
}

/* A load whose destination is its own address, and a vector one whose first element is. */
static void test_destination_is_base(void **state)
{
    (void)state;
    struct emu_operand elements[] = {op_reg(A64, 64), op_reg(3, 64)};
    struct emu_operand vector = op_vector(&machine, 0, 2, elements);
    addresses(global(0), 1024, 16);
    assert_int_equal(machine_run(&machine, "ld.global.v2.u64", EMU_ALL_LANES, 2, vector, at64(0)), EMU_NEXT);
    assert_memory_equal(&machine.r64[A64][31], bytes + 31 * 16, 8);
    assert_memory_equal(&machine.r64[3][31], bytes + 31 * 16 + 8, 8);
}

/* ---- Spaces ---- */

static void test_shared(void **state)
{
    (void)state;
    uint32_t value;
    machine_select(&machine, 2);
    addresses(0, (2u << 24) + 1024, 4);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            machine_run(&machine, i ? "ld.shared.u32" : "ld.shared::cta.u32", EMU_ALL_LANES, 2, op_reg(1, 32), at32(4)),
            EMU_NEXT);
        memcpy(&value, machine.shared[2] + 1028 + 4 * 9, 4);
        assert_int_equal(machine.r32[1][9], value);
    }
    addresses(0, (3u << 24) + 1024, 4);
    assert_int_equal(machine_run(&machine, "ld.shared::cluster.u32", EMU_ALL_LANES, 2, op_reg(1, 32), at32(4)),
                     EMU_NEXT);
    memcpy(&value, machine.shared[3] + 1028 + 4 * 9, 4);
    assert_int_equal(machine.r32[1][9], value);
    assert_int_equal(machine_run(&machine, "ld.shared.u32", EMU_ALL_LANES, 2, op_reg(1, 32), at32(4)), EMU_FAULT);
    /* [variable] is the block's own. */
    assert_int_equal(
        machine_run(&machine, "ld.shared.u32", EMU_ALL_LANES, 2, op_reg(1, 32), op_variable(EMU_SHARED_CTA, 1032)),
        EMU_NEXT);
    assert_memory_equal(&machine.r32[1][5], machine.shared[2] + 1032, 4);
    /* A 32-bit base wraps. */
    addresses(0, 4, 0);
    assert_int_equal(machine_run(&machine, "ld.shared::cluster.u32", 1, 2, op_reg(1, 32), at32(-8 + 2048)), EMU_NEXT);
}

static void test_local(void **state)
{
    (void)state;
    assert_int_equal(
        machine_run(&machine, "st.local.u32", EMU_ALL_LANES, 2, op_variable(EMU_LOCAL, 12), op_reg(A32, 32)), EMU_NEXT);
    for (int lane = 0; lane < EMU_LANES; lane++) {
        assert_memory_equal(machine.local + lane * MACHINE_LOCAL + 12, &machine.r32[A32][lane], 4);
        machine.r64[A64][lane] = emu_local_window() + 12;
    }
    assert_int_equal(machine_run(&machine, "ld.u32", EMU_ALL_LANES, 2, op_reg(1, 32), at64(0)), EMU_NEXT);
    assert_memory_equal(machine.r32[1], machine.r32[A32], sizeof machine.r32[1]);
    assert_int_equal(machine_run(&machine, "ld.volatile.local.u32", 2, 2, op_reg(1, 32), op_variable(EMU_LOCAL, 64)),
                     EMU_FAULT);
}

static void test_param(void **state)
{
    (void)state;
    const int32_t minus = -5;
    memcpy(machine.params + 20, &minus, sizeof minus);
    const struct emu_operand param = op_variable(EMU_PARAM, 20);
    assert_int_equal(machine_run(&machine, "ld.param.s32", EMU_ALL_LANES, 2, op_reg(1, 64), param), EMU_NEXT);
    assert_int_equal(machine.r64[1][31], UINT64_C(0xfffffffffffffffb));
    assert_int_equal(machine_run(&machine, "ld.param::entry.u32", EMU_ALL_LANES, 2, op_reg(1, 64), param), EMU_NEXT);
    assert_int_equal(machine.r64[1][31], 0xfffffffb);
    assert_int_equal(machine_run(&machine, "ld.param.u32", 1, 2, op_reg(1, 32), op_variable(EMU_PARAM, 128)),
                     EMU_FAULT);
    assert_int_equal(machine_run(&machine, "st.param.u32", 1, 2, param, op_reg(1, 32)), MACHINE_REFUSED);
    /* A call sequence's .param variable lies in local memory. */
    struct emu_operand argument = op_variable(EMU_LOCAL, 8);
    assert_int_equal(machine_run(&machine, "st.param.b32", 1, 2, argument, op_reg(A32, 32)), EMU_NEXT);
    assert_memory_equal(machine.local + 8, machine.r32[A32], 4);
    assert_int_equal(machine_run(&machine, "ld.param::func.b32", 1, 2, op_reg(1, 32), argument), EMU_NEXT);
    assert_int_equal(machine.r32[1][0], machine.r32[A32][0]);
}

/* ---- Qualifiers ---- */

static void test_qualifiers(void **state)
{
    (void)state;
    static const char *const loads[] = {
        "ld.global.nc.L1::no_allocate.L2::256B.u32",
        "ld.global.nc.u32",
        "ld.global.ca.nc.u32",
        "ld.weak.global.cg.u32",
        "ld.global.cs.u32",
        "ld.global.lu.u32",
        "ld.global.cv.u32",
        "ld.const.u32",
        "ld.global.L1::evict_last.u32",
        "ld.L2::128B.f32",
        "ld.global.L1::evict_first.L2::64B.b32",
        "ld.global.volatile.u32",
        "ld.relaxed.sys.u32",
        "ld.acquire.cluster.global.u32",
        "ld.global.acquire.gpu.u32",
        "ld.global.gpu.acquire.u32",
        "ld.mmio.relaxed.sys.global.u32",
        "ld.global.mmio.relaxed.sys.u32",
        "ldu.global.u32",
        "ldu.u32",
    };
    static const char *const stores[] = {
        "st.weak.global.wb.u32",     "st.global.cs.u32",
        "st.global.wt.u32",          "st.global.L1::no_allocate.u32",
        "st.volatile.u32",           "st.global.volatile.u32",
        "st.relaxed.gpu.u32",        "st.release.cta.global.u32",
        "st.global.release.gpu.u32", "st.global.gpu.release.u32",
        "st.mmio.relaxed.sys.u32",   "st.global.cg.u32",
    };
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        memset(machine.r32[1], 0, sizeof machine.r32[1]);
        assert_int_equal(machine_run(&machine, loads[i], EMU_ALL_LANES, 2, op_reg(1, 32), at64(0)), EMU_NEXT);
        assert_memory_equal(machine.r32[1], bytes, sizeof machine.r32[1]);
    }
    for (size_t i = 0; i < sizeof stores / sizeof *stores; i++) {
        memset(bytes, 0, EMU_LANES * 4);
        assert_int_equal(machine_run(&machine, stores[i], EMU_ALL_LANES, 2, at64(0), op_reg(A32, 32)), EMU_NEXT);
        assert_memory_equal(machine.r32[A32], bytes, sizeof machine.r32[1]);
    }
    assert_int_equal(machine_run(&machine, "ld.global.L1::evict_last.L2::cache_hint.u32", 1, 3, op_reg(1, 32), at64(0),
                                 op_reg(4, 64)),
                     EMU_NEXT);
    assert_int_equal(machine_run(&machine, "st.global.L2::cache_hint.u32", 1, 3, at64(0), op_reg(1, 32), op_reg(4, 64)),
                     EMU_NEXT);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "ld.global.v8.f32",
        "ld.global.v4.b64",
        "ld.global.b128",
        "ld.global.L2::evict_last.u32",
        "ld.global.v2.u32",             /* with one register */
        "ld.global.L2::cache_hint.u32", /* without a policy */
        "ldu.global.b128",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        machine.why[0] = '\0';
        assert_int_equal(machine_run(&machine, texts[i], 1, 2, op_reg(1, 64), at64(0)), MACHINE_REFUSED);
        assert_true(machine.why[0] != '\0');
    }
    assert_int_equal(machine_run(&machine, "ld.global.u32", 1, 3, op_reg(1, 32), at64(0), op_reg(4, 64)),
                     MACHINE_REFUSED);
    assert_int_equal(machine_run(&machine, "ld.acquire.global.u32", 1, 2, op_reg(1, 32), at64(0)), MACHINE_UNKNOWN);
    assert_int_equal(machine_run(&machine, "st.const.u32", 1, 2, at64(0), op_reg(1, 32)), MACHINE_UNKNOWN);
    assert_int_equal(machine_run(&machine, "multimem.ld_reduce.global.add.f32", 1, 2, op_reg(1, 32), at64(0)),
                     MACHINE_REFUSED);
    assert_int_equal(machine_run(&machine, "multimem.st.global.v4.f32", 1, 2, at64(0), op_reg(1, 32)), MACHINE_REFUSED);
    assert_int_equal(machine_run(&machine, "multimem.red.release.sys.global.add.u32", 1, 2, at64(0), op_reg(1, 32)),
                     MACHINE_REFUSED);
    assert_int_equal(machine_run(&machine, "alloca.u64", 1, 2, op_reg(1, 64), op_reg(2, 64)), MACHINE_REFUSED);
    assert_int_equal(machine_run(&machine, "stacksave.u64", 1, 1, op_reg(1, 64)), MACHINE_REFUSED);
    assert_int_equal(machine_run(&machine, "stackrestore.u64", 1, 1, op_reg(1, 64)), MACHINE_REFUSED);
}

static void test_order(void **state)
{
    (void)state;
    addresses(global(0), 1024, 0); /* all lanes at one address: one call */
    static const struct {
        const char *text;
        bool store;
        const char *calls;
    } cases[] = {{"ld.global.u32", false, ""},
                 {"ld.acquire.gpu.global.u32", false, "a"},
                 {"ld.relaxed.gpu.global.u32", false, "x"},
                 {"ld.volatile.global.u32", false, "x"},
                 {"ld.mmio.relaxed.sys.u32", false, "x"},
                 {"st.global.u32", true, ""},
                 {"st.release.gpu.global.u32", true, "r"},
                 {"st.relaxed.gpu.global.u32", true, "x"},
                 {"st.volatile.global.u32", true, "x"}};
    machine.options.checks = EMU_CHECK_RACES;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct emu_operand first = cases[i].store ? at64(0) : op_reg(1, 32);
        struct emu_operand second = cases[i].store ? op_reg(1, 32) : at64(0);
        machine.sync_count = machine.shadow_count = 0;
        assert_int_equal(machine_run(&machine, cases[i].text, EMU_ALL_LANES, 2, first, second), EMU_NEXT);
        assert_int_equal(machine.sync_count, strlen(cases[i].calls));
        assert_int_equal(machine.shadow_count, 1);
        assert_int_equal(machine.shadow[0].atomic, cases[i].calls[0] != '\0');
        assert_int_equal(machine.shadow[0].touch, cases[i].store ? EMU_WRITE : EMU_READ);
        if (machine.sync_count) {
            assert_int_equal(machine.sync[0].what, cases[i].calls[0]);
            assert_int_equal(machine.sync[0].address, global(0));
        }
    }
    machine.sync_count = 0;
    addresses(0, 1024, 4);
    assert_int_equal(machine_run(&machine, "ld.acquire.cta.shared.u32", 7, 2, op_reg(1, 32), at32(0)), EMU_NEXT);
    assert_int_equal(machine.sync_count, 3);
    assert_int_equal(machine.sync[2].address, emu_shared_window() + 1032);
}

/* ---- Addresses ---- */

static void test_cvta(void **state)
{
    (void)state;
    const struct {
        const char *space;
        struct emu_operand source;
        uint64_t generic;
    } cases[] = {
        {"global", op_symbol(EMU_GLOBAL, 4096), 4096},
        {"const", op_symbol(EMU_CONST, 4096), 4096},
        {"local", op_symbol(EMU_LOCAL, 8), emu_local_window() + 8},
        {"param", op_symbol(EMU_PARAM, 8), (uint64_t)(uintptr_t)machine.params + 8},
        {"param::entry", op_symbol(EMU_PARAM, 8), (uint64_t)(uintptr_t)machine.params + 8},
        {"shared", op_symbol(EMU_SHARED_CTA, 1028), emu_shared_window() + (1u << 24) + 1028},
        {"shared::cta", op_imm((1 << 24) + 1028), emu_shared_window() + (1u << 24) + 1028},
        {"shared::cluster", op_imm((3 << 24) + 1028), emu_shared_window() + (3u << 24) + 1028},
    };
    machine_select(&machine, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        snprintf(text, sizeof text, "cvta.%s.u64", cases[i].space);
        assert_int_equal(machine_run(&machine, text, 0xfffffffe, 2, op_reg(1, 64), cases[i].source), EMU_NEXT);
        assert_int_equal(machine.r64[1][1], cases[i].generic);
        assert_int_equal(machine.r64[1][0], 0);
        snprintf(text, sizeof text, "cvta.to.%s.u64", cases[i].space);
        assert_int_equal(machine_run(&machine, text, 2, 2, op_reg(2, 64), op_reg(1, 64)), EMU_NEXT);
        uint64_t rank = i == 5 ? 1u << 24 : 0;
        assert_int_equal(machine.r64[2][1], (uint64_t)cases[i].source.imm + rank);
        snprintf(text, sizeof text, "cvta.to.%s.u32", cases[i].space);
        assert_int_equal(machine_run(&machine, text, 2, 2, op_reg(2, 32), op_reg(1, 32)), MACHINE_REFUSED);
    }
}

static void test_isspacep(void **state)
{
    (void)state;
    static const char *const spaces[] = {"global", "shared", "shared::cta", "shared::cluster",
                                         "local",  "const",  "param",       "param::entry"};
    static uint8_t constants[64];
    struct emu_variable variable = {.name = "table", .space = EMU_CONST, .size = 32, .offset = 16};
    machine.module = (struct emu_module){.globals = &variable, .global_count = 1, .global_memory = constants};
    const struct {
        uint64_t address;
        const char *in; /* a digit a space above */
    } cases[] = {
        {global(0), "10000000"},
        {(uint64_t)(uintptr_t)machine.params, "10000011"},
        {emu_local_window() + 4, "00001000"},
        {emu_shared_window() + 1024, "01110000"},
        {emu_shared_window() + (3u << 24) + 1024, "00010000"},
        {emu_shared_window() + (4u << 24) + 1024, "00000000"},
        {(uint64_t)(uintptr_t)constants + 16, "00000100"},
        {(uint64_t)(uintptr_t)constants + 48, "10000000"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t space = 0; space < 8; space++) {
            char text[64];
            snprintf(text, sizeof text, "isspacep.%s", spaces[space]);
            machine.preds[2] = 0x80000000u;
            struct emu_operand address = op_imm((int64_t)cases[i].address);
            assert_int_equal(machine_run(&machine, text, 0xff, 2, op_pred(2), address), EMU_NEXT);
            assert_int_equal(machine.preds[2], 0x80000000u | (cases[i].in[space] == '1' ? 0xffu : 0));
        }
    }
}

static void test_mapa(void **state)
{
    (void)state;
    machine_select(&machine, 1);
    for (uint32_t lane = 0; lane < EMU_LANES; lane++) {
        machine.r32[3][lane] = lane % 4; /* to that rank */
        machine.r32[4][lane] = (1u << 24) + 1024 + lane;
        machine.r64[4][lane] = emu_shared_window() + machine.r32[4][lane];
    }
    assert_int_equal(machine_run(&machine, "mapa.shared::cluster.u32", EMU_ALL_LANES, 3, op_reg(1, 32), op_reg(4, 32),
                                 op_reg(3, 32)),
                     EMU_NEXT);
    assert_int_equal(machine.r32[1][7], (3u << 24) + 1031);
    assert_int_equal(machine_run(&machine, "mapa.u64", EMU_ALL_LANES, 3, op_reg(1, 64), op_reg(4, 64), op_reg(3, 32)),
                     EMU_NEXT);
    assert_int_equal(machine.r64[1][6], emu_shared_window() + (2u << 24) + 1030);
    assert_int_equal(machine_run(&machine, "getctarank.u64", EMU_ALL_LANES, 2, op_reg(2, 32), op_reg(1, 64)), EMU_NEXT);
    assert_int_equal(machine.r32[2][6], 2);
    assert_int_equal(machine_run(&machine, "mapa.shared::cluster.u64", 2, 3, op_reg(1, 64),
                                 op_symbol(EMU_SHARED_CTA, 1040), op_imm(3)),
                     EMU_NEXT);
    assert_int_equal(machine.r64[1][1], (3u << 24) + 1040);
    assert_int_equal(
        machine_run(&machine, "getctarank.shared::cluster.u32", 2, 2, op_reg(2, 32), op_symbol(EMU_SHARED_CTA, 1040)),
        EMU_NEXT);
    assert_int_equal(machine.r32[2][1], 1);
    /* Faults. */
    assert_int_equal(machine_run(&machine, "mapa.shared::cluster.u32", 2, 3, op_reg(1, 32), op_reg(4, 32), op_imm(4)),
                     EMU_FAULT);
    assert_non_null(strstr(machine.message, "block rank 4 of a cluster of 4"));
    assert_int_equal(machine_run(&machine, "mapa.u64", 2, 3, op_reg(1, 64), op_imm(64), op_imm(0)), EMU_FAULT);
    assert_int_equal(machine.kind, EMU_BAD_OPERAND);
    assert_int_equal(machine_run(&machine, "getctarank.u64", 2, 2, op_reg(2, 32), op_imm(64)), EMU_FAULT);
    assert_int_equal(machine_run(&machine, "mapa.u32", 2, 3, op_reg(1, 32), op_reg(4, 32), op_imm(0)), MACHINE_REFUSED);
    assert_int_equal(machine_run(&machine, "getctarank.u32", 2, 2, op_reg(1, 32), op_reg(4, 32)), MACHINE_REFUSED);
}

/* ---- Advice ---- */

static void test_createpolicy(void **state)
{
    (void)state;
    struct emu_operand to = op_reg(1, 64);
    static const char fraction[] = "createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64";
    static const char range[] = "createpolicy.range.global.L2::evict_last.L2::evict_first.b64";
    assert_int_equal(machine_run(&machine, "createpolicy.fractional.L2::evict_first.b64", 3, 1, to), EMU_NEXT);
    assert_true(machine.r64[1][1] != 0);
    assert_int_equal(machine.r64[1][2], 0);
    assert_int_equal(machine_run(&machine, fraction, 3, 2, to, op_literal(0x3f000000, 32)), EMU_NEXT);
    assert_int_equal(machine_run(&machine, fraction, 3, 2, to, op_literal(UINT64_C(0x3ff0000000000000), 64)), EMU_NEXT);
    assert_int_equal(machine_run(&machine, fraction, 3, 2, to, op_literal(0x40000000, 32)), EMU_FAULT);
    assert_int_equal(machine_run(&machine, fraction, 3, 2, to, op_literal(0, 32)), EMU_FAULT);
    assert_int_equal(machine_run(&machine, range, 3, 4, to, at64(0), op_imm(16), op_imm(32)), EMU_NEXT);
    assert_int_equal(machine_run(&machine, range, 3, 4, to, at64(0), op_imm(64), op_imm(32)), EMU_FAULT);
    assert_int_equal(machine_run(&machine, "createpolicy.cvt.L2.b64", 3, 2, to, op_reg(2, 64)), EMU_NEXT);
}

static void test_prefetch(void **state)
{
    (void)state;
    static const char *const texts[] = {"prefetch.global.L1", "prefetch.L2", "prefetch.local.L1",
                                        "prefetch.global.L2::evict_last", "prefetchu.L1"};
    addresses(global(BYTES), 0, 4096); /* past the end: no fault */
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(machine_run(&machine, texts[i], EMU_ALL_LANES, 1, at64(0)), EMU_NEXT);
    }
    addresses((uint64_t)(uintptr_t)machine.params, 0, 0);
    assert_int_equal(machine_run(&machine, "prefetch.tensormap", 1, 1, at64(0)), EMU_NEXT);
    assert_int_equal(machine_run(&machine, "prefetch.param.tensormap", 1, 1, op_variable(EMU_PARAM, 0)), EMU_NEXT);
    assert_int_equal(machine_run(&machine, "prefetch.param.tensormap", 1, 1, op_variable(EMU_PARAM, 64)), EMU_FAULT);
    assert_int_equal(machine_run(&machine, "prefetch.tensormap", 1, 1, op_variable(EMU_GENERIC, 64)), EMU_FAULT);
}

static void test_discard(void **state)
{
    (void)state;
    memset(machine.written, 0xff, sizeof machine.written);
    machine.options.checks = EMU_CHECK_UNINITIALISED;
    addresses(global(0), 1024, 128);
    assert_int_equal(machine_run(&machine, "applypriority.global.L2::evict_normal", 3, 2, at64(0), op_imm(128)),
                     EMU_NEXT);
    assert_int_equal(machine_run(&machine, "discard.global.L2", 3, 2, at64(128), op_imm(128)), EMU_NEXT);
    assert_int_equal(machine_run(&machine, "ld.global.u32", 1, 2, op_reg(1, 32), at64(124)), EMU_NEXT);
    assert_int_equal(machine.finding_count, 0);
    assert_int_equal(machine_run(&machine, "ld.global.u32", 1, 2, op_reg(1, 32), at64(128)), EMU_NEXT);
    assert_int_equal(machine.finding_count, 1);
    assert_int_equal(machine_run(&machine, "discard.L2", 1, 2, at64(64), op_imm(128)), EMU_FAULT);
    assert_int_equal(machine_run(&machine, "discard.L2", 1, 2, at64(0), op_imm(64)), MACHINE_REFUSED);
    assert_int_equal(machine_run(&machine, "applypriority.L2::evict_normal", 1, 2, at64(BYTES), op_imm(128)),
                     EMU_FAULT);
}

/* ---- Speed and completeness ---- */

static void test_speed(void **state)
{
    (void)state;
    struct emu_operand elements[] = {op_reg(0, 32), op_reg(1, 32), op_reg(2, 32), op_reg(3, 32)};
    struct emu_operand vector = op_vector(&machine, 0, 4, elements);
    print_message("ns: ld.global.u32 %.0f",
                  machine_nanoseconds(&machine, "ld.global.u32", EMU_ALL_LANES, 2, op_reg(1, 32), at64(0)));
    print_message(", ld.shared.u32 %.0f",
                  machine_nanoseconds(&machine, "ld.shared.u32", EMU_ALL_LANES, 2, op_reg(1, 32), at32(0)));
    print_message(", st.shared.u32 %.0f",
                  machine_nanoseconds(&machine, "st.shared.u32", EMU_ALL_LANES, 2, at32(0), op_reg(1, 32)));
    print_message(", ld.param.u32 %.0f", machine_nanoseconds(&machine, "ld.param.u32", EMU_ALL_LANES, 2, op_reg(1, 32),
                                                             op_variable(EMU_PARAM, 0)));
    addresses(global(0), 1024, 16);
    print_message(", ld.shared.v4.u32 %.0f",
                  machine_nanoseconds(&machine, "ld.shared.v4.u32", EMU_ALL_LANES, 2, vector, at32(0)));
    print_message(", st.global.v4.u32 %.0f",
                  machine_nanoseconds(&machine, "st.global.v4.u32", EMU_ALL_LANES, 2, at64(0), vector));
    memset(machine.shared_written, 0xff, sizeof machine.shared_written);
    machine.options.checks = EMU_CHECK_ALL;
    addresses(global(0), 1024, 4);
    print_message(", checked ld.shared.u32 %.0f without the shadow's part\n",
                  machine_nanoseconds(&machine, "ld.shared.u32", EMU_ALL_LANES, 2, op_reg(1, 32), at32(0)));
}

static void test_all_rows(void **state)
{
    (void)state;
    static const char *const names[] = {
        "ld",        "st",           "ldu",     "cvta",          "isspacep", "mapa",         "getctarank",
        "prefetch",  "prefetchu",    "discard", "applypriority", "multimem", "createpolicy", "alloca",
        "stacksave", "stackrestore", NULL};
    machine_check_rows(names);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_load_types),
        CASE(test_store_types),
        CASE(test_store_immediates),
        CASE(test_vectors),
        CASE(test_vector_alignment),
        CASE(test_destination_is_base),
        CASE(test_shared),
        CASE(test_local),
        CASE(test_param),
        CASE(test_qualifiers),
        CASE(test_refused),
        CASE(test_order),
        CASE(test_cvta),
        CASE(test_isspacep),
        CASE(test_mapa),
        CASE(test_createpolicy),
        CASE(test_prefetch),
        CASE(test_discard),
        CASE(test_speed),
        CASE(test_all_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
