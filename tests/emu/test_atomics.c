/* atom and red: each operation, type and mode, alone and from several host threads. */
#include "machine.h"

#include <stdio.h>
#include <string.h>

#include "region.h"

enum { BYTES = 4096, A64 = 10, A32 = 11, THREADS = 4, ROUNDS = 500 };
static _Alignas(256) uint8_t bytes[BYTES];
static struct machine machine;

static uint64_t global(size_t offset)
{
    return (uint64_t)(uintptr_t)bytes + offset;
}

static void addresses(struct machine *of, uint32_t stride)
{
    for (uint32_t lane = 0; lane < EMU_LANES; lane++) {
        of->r64[A64][lane] = global((size_t)lane * stride);
        of->r32[A32][lane] = 1024 + lane * stride;
    }
}

static int setup(void **state)
{
    (void)state;
    memset(bytes, 0, sizeof bytes);
    machine_init(&machine, bytes, sizeof bytes);
    addresses(&machine, 8);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    machine_destroy(&machine);
    return 0;
}

static struct emu_operand at64(void)
{
    return op_address(A64, 64, 0);
}

static int width_of(const char *text)
{
    const char *type = strrchr(text, '.') + 1;
    bool wide = strstr(type, "64") != NULL;
    bool half = strcmp(type, "b16") == 0 || strcmp(type, "f16") == 0 || strcmp(type, "bf16") == 0;
    return wide ? 64 : half ? 16 : 32;
}

/* ---- Each operation on each type ---- */

static const struct operation {
    const char *text; /* without "atom." */
    uint64_t old, b, c, result;
} operations[] = {
    {"and.b32", 0xff00ff00, 0x0ff00ff0, 0, 0x0f000f00},
    {"or.b32", 0xff00ff00, 0x0ff00ff0, 0, 0xfff0fff0},
    {"xor.b32", 0xff00ff00, 0x0ff00ff0, 0, 0xf0f0f0f0},
    {"and.b64", UINT64_C(0xff00000000000003), UINT64_C(0x8100000000000001), 0, UINT64_C(0x8100000000000001)},
    {"or.b64", UINT64_C(1) << 63, 1, 0, (UINT64_C(1) << 63) + 1},
    {"xor.b64", UINT64_MAX, 1, 0, UINT64_MAX - 1},
    {"exch.b32", 5, 9, 0, 9},
    {"exch.b64", 5, UINT64_C(1) << 40, 0, UINT64_C(1) << 40},
    {"add.u32", 0xffffffff, 2, 0, 1},
    {"add.s32", 0xffffffff, 2, 0, 1},
    {"add.u64", UINT64_MAX, 3, 0, 2},
    {"add.s64", 7, UINT64_MAX, 0, 6},
    {"inc.u32", 3, 5, 0, 4},
    {"inc.u32", 5, 5, 0, 0},
    {"inc.u32", 9, 5, 0, 0},
    {"dec.u32", 3, 5, 0, 2},
    {"dec.u32", 0, 5, 0, 5},
    {"dec.u32", 6, 5, 0, 5},
    {"min.u32", 0x80000000, 1, 0, 1},
    {"min.s32", 0x80000000, 1, 0, 0x80000000},
    {"max.u32", 0x80000000, 1, 0, 0x80000000},
    {"max.s32", 0x80000000, 1, 0, 1},
    {"min.u64", UINT64_C(1) << 63, 1, 0, 1},
    {"min.s64", UINT64_C(1) << 63, 1, 0, UINT64_C(1) << 63},
    {"max.u64", UINT64_C(1) << 63, 1, 0, UINT64_C(1) << 63},
    {"max.s64", UINT64_C(1) << 63, 1, 0, 1},
    {"cas.b16", 0x1234, 0x1234, 0xbeef, 0xbeef},
    {"cas.b16", 0x1234, 0x1235, 0xbeef, 0x1234},
    {"cas.b32", 7, 7, 8, 8},
    {"cas.b32", 7, 6, 8, 7},
    {"cas.b64", UINT64_C(7) << 32, UINT64_C(7) << 32, 8, 8},
    {"cas.b64", UINT64_C(7) << 32, 0, 8, UINT64_C(7) << 32},
    {"cas.u32", 7, 7, 8, 8},
    {"cas.s64", 7, 7, 8, 8},
    {"add.f32", 0x3f800000, 0x40000000, 0, 0x40400000},
    {"add.f32", 0x7f800000, 0xff800000, 0, 0x7fffffff},
    {"add.f64", UINT64_C(0x3ff0000000000000), UINT64_C(0x4000000000000000), 0, UINT64_C(0x4008000000000000)},
    {"add.noftz.f16", 0x3c00, 0x4000, 0, 0x4200},
    {"add.noftz.f16", 0x0001, 0x0002, 0, 0x0003}, /* subnormals stay */
    {"add.noftz.f16", 0x7bff, 0x7bff, 0, 0x7c00}, /* overflow */
    {"add.noftz.f16", 0x6800, 0x3c00, 0, 0x6800}, /* 2048 + 1: ties to even */
    {"add.noftz.f16", 0x6800, 0x4200, 0, 0x6802}, /* 2048 + 3: the tie goes up */
    {"add.noftz.f16", 0x7e00, 0x3c00, 0, 0x7fff},
    {"add.noftz.f16", 0x03ff, 0x0001, 0, 0x0400}, /* into the normal numbers */
    {"add.noftz.f16", 0xbc00, 0x3c00, 0, 0x0000},
    {"add.noftz.bf16", 0x3f80, 0x4000, 0, 0x4040},
    {"add.noftz.bf16", 0x4380, 0x3f80, 0, 0x4380}, /* 256 + 1: ties to even */
    {"add.noftz.bf16", 0x7fc0, 0x3f80, 0, 0x7fff},
    {"add.noftz.f16x2", 0x3c004000, 0x40003c00, 0, 0x42004200},
    {"add.noftz.bf16x2", 0x3f804000, 0x40003f80, 0, 0x40404040},
};

static void check_memory(const char *text, const uint8_t *base, uint32_t mask, const struct operation *one, int width)
{
    for (int lane = 0; lane < EMU_LANES; lane++) {
        uint64_t now = 0, want = mask >> lane & 1u ? one->result : one->old;
        memcpy(&now, base + lane * 8, (size_t)width / 8);
        if (now != want) {
            fail_msg("%s, lane %d: 0x%llx instead of 0x%llx", text, lane, (unsigned long long)now,
                     (unsigned long long)want);
        }
    }
}

static void set_up(uint8_t *base, const struct operation *one, int width)
{
    for (int lane = 0; lane < EMU_LANES; lane++) {
        memcpy(base + lane * 8, &one->old, (size_t)width / 8);
        machine.r64[2][lane] = one->b;
        machine.r32[2][lane] = (uint32_t)one->b;
        machine.r64[3][lane] = one->c;
        machine.r32[3][lane] = (uint32_t)one->c;
        machine.r64[1][lane] = machine.r32[1][lane] = 0x77;
    }
}

static void check_operation(const char *prefix, const struct operation *one, uint32_t mask)
{
    char text[96];
    bool shared = strstr(prefix, "shared") != NULL, reduction = strncmp(prefix, "red", 3) == 0;
    bool swap = strncmp(one->text, "cas", 3) == 0, exchange = strncmp(one->text, "exch", 4) == 0;
    int width = width_of(one->text);
    uint8_t *base = shared ? machine.shared[0] + 1024 : bytes;
    struct emu_operand to = op_reg(1, width), b = op_reg(2, width), c = op_reg(3, width);
    struct emu_operand address = shared ? op_address(A32, 32, 0) : at64();
    if (reduction && (swap || exchange)) {
        return;
    }
    snprintf(text, sizeof text, "%s%s", prefix, one->text);
    set_up(base, one, width);
    int action = reduction ? machine_run(&machine, text, mask, 2, address, b)
                 : swap    ? machine_run(&machine, text, mask, 4, to, address, b, c)
                           : machine_run(&machine, text, mask, 3, to, address, b);
    assert_int_equal(action, EMU_NEXT);
    check_memory(text, base, mask, one, width);
    for (int lane = 0; lane < EMU_LANES && !reduction; lane++) {
        uint64_t got = width == 64 ? machine.r64[1][lane] : machine.r32[1][lane];
        assert_int_equal(got, mask >> lane & 1u ? one->old : 0x77);
    }
}

static void test_operations(void **state)
{
    (void)state;
    static const char *const prefixes[] = {
        "atom.global.",
        "atom.",
        "atom.shared.",
        "atom.shared::cluster.",
        "atom.acq_rel.gpu.global.",
        "atom.global.gpu.acq_rel.",
        "atom.global.relaxed.sys.",
        "atom.shared::cta.release.cta.",
        "red.global.",
        "red.",
        "red.shared.",
        "red.release.gpu.global.",
        "red.global.gpu.relaxed.",
        "red.global.relaxed.cluster.",
    };
    static const uint32_t masks[] = {EMU_ALL_LANES, 0x80000001u, 0x00ffff00u};
    for (size_t prefix = 0; prefix < sizeof prefixes / sizeof *prefixes; prefix++) {
        for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
            for (size_t mask = 0; mask < 3; mask++) {
                check_operation(prefixes[prefix], &operations[i], masks[mask]);
            }
        }
    }
}

/* libcu++ writes the operation first. */
static void test_operation_first(void **state)
{
    (void)state;
    struct emu_operand to = op_reg(1, 32), b = op_reg(2, 32), c = op_reg(3, 32);
    machine.r32[2][0] = 4;
    machine.r32[3][0] = 9;
    assert_int_equal(machine_run(&machine, "atom.add.acq_rel.gpu.u32", 1, 3, to, at64(), b), EMU_NEXT);
    assert_int_equal(machine_run(&machine, "atom.cas.acquire.sys.b32", 1, 4, to, at64(), b, c), EMU_NEXT);
    assert_int_equal(machine_run(&machine, "red.add.release.gpu.global.u32", 1, 2, at64(), b), EMU_NEXT);
    assert_int_equal(bytes[0], 13);
}

static void test_subnormals(void **state)
{
    (void)state;
    static const struct operation kept = {"add.f32", 0x00000001, 0x00000002, 0, 0x00000003};
    static const struct operation flushed = {"add.f32", 0x80000001, 0x80000002, 0, 0x80000000};
    static const struct operation result = {"add.f32", 0x00800001, 0x80800000, 0, 0x00000000};
    check_operation("atom.shared.", &kept, EMU_ALL_LANES);
    check_operation("atom.global.", &flushed, EMU_ALL_LANES);
    check_operation("atom.", &result, EMU_ALL_LANES);
    /* A generic address of shared memory does not flush either. */
    machine.r64[A64][0] = emu_shared_window() + 1024;
    memcpy(machine.shared[0] + 1024, &kept.old, 4);
    machine.r32[2][0] = 2;
    assert_int_equal(machine_run(&machine, "red.add.f32", 1, 2, at64(), op_reg(2, 32)), EMU_NEXT);
    assert_int_equal(machine.shared[0][1024], 3);
}

/* ---- Lanes ---- */

static void test_lanes_in_order(void **state)
{
    (void)state;
    addresses(&machine, 0);
    for (uint32_t lane = 0; lane < EMU_LANES; lane++) {
        machine.r32[2][lane] = lane + 1;
    }
    assert_int_equal(machine_run(&machine, "atom.global.add.u32", 0xfffffffd, 3, op_reg(1, 32), at64(), op_reg(2, 32)),
                     EMU_NEXT);
    assert_int_equal(machine.r32[1][0], 0);
    assert_int_equal(machine.r32[1][2], 1);
    assert_int_equal(machine.r32[1][3], 4);
    uint32_t sum;
    memcpy(&sum, bytes, 4);
    assert_int_equal(sum, 32 * 33 / 2 - 2);
}

/* ---- Vectors ---- */

static void test_vectors(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int count, bytes;
        uint32_t old, b, result;
    } cases[] = {
        {"global.add.v2.f32", 2, 4, 0x3f800000, 0x40000000, 0x40400000},
        {"global.add.v4.f32", 4, 4, 0x3f800000, 0x40000000, 0x40400000},
        {"add.noftz.v2.f16", 2, 2, 0x3c00, 0x4000, 0x4200},
        {"global.add.noftz.v8.f16", 8, 2, 0x3c00, 0x4000, 0x4200},
        {"global.add.noftz.v4.bf16x2", 4, 4, 0x3f804000, 0x40003f80, 0x40404040},
        {"global.min.noftz.v4.bf16", 4, 2, 0x3f80, 0xbf80, 0xbf80},
        {"global.max.noftz.v8.bf16", 8, 2, 0x7fc0, 0xbf80, 0xbf80}, /* a number beats NaN */
        {"global.max.noftz.v8.bf16", 8, 2, 0x3f80, 0x7fc0, 0x3f80},
        {"global.min.noftz.v2.f16x2", 2, 4, 0x3c000000, 0x40008000, 0x3c008000}, /* -0 is below +0 */
        {"global.max.noftz.v2.f16x2", 2, 4, 0x7e008000, 0x7e000000, 0x7fff0000},
        {"global.v8.f16.max.noftz", 8, 2, 0x3c00, 0x4000, 0x4000},
        {"global.v4.f32.add", 4, 4, 0x3f800000, 0x40000000, 0x40400000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char atom[96], red[96];
        struct emu_operand d[8], b[8];
        addresses(&machine, 16);
        for (int element = 0; element < cases[i].count; element++) {
            d[element] = op_reg(element, 32);
            b[element] = op_reg(12 + element, 32);
            machine.r32[12 + element][1] = cases[i].b;
            memcpy(bytes + 16 + element * cases[i].bytes, &cases[i].old, (size_t)cases[i].bytes);
        }
        struct emu_operand to = op_vector(&machine, 0, cases[i].count, d);
        struct emu_operand from = op_vector(&machine, 8, cases[i].count, b);
        snprintf(atom, sizeof atom, "atom.%s", cases[i].text);
        snprintf(red, sizeof red, "red.%s", cases[i].text);
        assert_int_equal(machine_run(&machine, atom, 2, 3, to, at64(), from), EMU_NEXT);
        for (int element = 0; element < cases[i].count; element++) {
            uint32_t now = 0;
            memcpy(&now, bytes + 16 + element * cases[i].bytes, (size_t)cases[i].bytes);
            assert_int_equal(now, cases[i].result);
            assert_int_equal(machine.r32[element][1], cases[i].old);
            memcpy(bytes + 16 + element * cases[i].bytes, &cases[i].old, (size_t)cases[i].bytes);
        }
        assert_int_equal(machine_run(&machine, atom, 2, 3, op_sink(), at64(), from), EMU_NEXT);
        assert_int_equal(machine_run(&machine, red, 2, 2, at64(), from), EMU_NEXT);
    }
}

/* ---- Refusals, faults ---- */

static void test_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "atom.global.and.u32",
        "atom.global.exch.f32",
        "atom.global.min.f32",
        "atom.global.add.f16x2",
        "atom.global.add.noftz.f32",
        "atom.global.inc.u64",
        "atom.shared.add.v2.f32",
        "atom.global.exch.b128",
        "atom.global.add.v8.f32",
        "atom.global.add.noftz.v8.f16x2",
        "atom.global.min.noftz.f16",
        "atom.global.add.v2.f32",
        "atom.global.add.L2::cache_hint.u32",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        machine.why[0] = '\0';
        assert_int_equal(machine_run(&machine, texts[i], 1, 3, op_reg(1, 64), at64(), op_reg(2, 64)), MACHINE_REFUSED);
        assert_true(machine.why[0] != '\0');
    }
    assert_int_equal(machine_run(&machine, "red.exch.b32", 1, 2, at64(), op_reg(2, 32)), MACHINE_REFUSED);
    assert_int_equal(machine_run(&machine, "red.acquire.gpu.add.u32", 1, 2, at64(), op_reg(2, 32)), MACHINE_REFUSED);
    assert_int_equal(machine_run(&machine, "atom.local.add.u32", 1, 3, op_reg(1, 32), at64(), op_reg(2, 32)),
                     MACHINE_UNKNOWN);
    assert_int_equal(machine_run(&machine, "atom.global.add.L2::cache_hint.u32", 1, 4, op_reg(1, 32), at64(),
                                 op_reg(2, 32), op_reg(3, 64)),
                     EMU_NEXT);
}

static void test_faults(void **state)
{
    (void)state;
    machine.r64[A64][4] = global(2);
    assert_int_equal(machine_run(&machine, "atom.global.add.u32", 0x10, 3, op_reg(1, 32), at64(), op_reg(2, 32)),
                     EMU_FAULT);
    assert_int_equal(machine.kind, EMU_MISALIGNED_ACCESS);
    machine.r64[A64][4] = global(BYTES);
    assert_int_equal(machine_run(&machine, "red.global.add.u32", 0x10, 2, at64(), op_reg(2, 32)), EMU_FAULT);
    assert_int_equal(machine.kind, EMU_OUT_OF_BOUNDS);
    assert_int_equal(machine.lane, 4);
    machine.r64[A64][4] = (uint64_t)(uintptr_t)machine.params;
    assert_int_equal(machine_run(&machine, "red.global.add.u32", 0x10, 2, at64(), op_reg(2, 32)), EMU_FAULT);
    assert_non_null(strstr(machine.message, "read only"));
}

/* ---- What the race checker hears ---- */

static void test_order(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *calls;
        int touch; /* of the relaxed call */
    } cases[] = {
        {"atom.global.add.u32", "x", EMU_READ | EMU_WRITE}, /* .relaxed when nothing is said */
        {"atom.relaxed.gpu.global.add.u32", "x", EMU_READ | EMU_WRITE},
        {"atom.acquire.gpu.global.add.u32", "a", 0},
        {"atom.release.gpu.global.add.u32", "r", 0},
        {"atom.acq_rel.gpu.global.add.u32", "ra", 0},
        {"red.global.add.u32", "x", EMU_WRITE},
        {"red.release.gpu.global.add.u32", "r", 0},
    };
    machine.options.checks = EMU_CHECK_RACES | EMU_CHECK_UNINITIALISED;
    memset(machine.written, 0xff, sizeof machine.written);
    addresses(&machine, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        machine.sync_count = machine.shadow_count = 0;
        int action = cases[i].text[0] == 'r'
                         ? machine_run(&machine, cases[i].text, 7, 2, at64(), op_reg(2, 32))
                         : machine_run(&machine, cases[i].text, 7, 3, op_reg(1, 32), at64(), op_reg(2, 32));
        assert_int_equal(action, EMU_NEXT);
        assert_int_equal(machine.sync_count, strlen(cases[i].calls));
        for (int call = 0; call < machine.sync_count; call++) {
            assert_int_equal(machine.sync[call].what, cases[i].calls[call]);
            assert_int_equal(machine.sync[call].address, global(0));
            assert_int_equal(machine.sync[call].touch, cases[i].touch);
        }
        assert_int_equal(machine.shadow_count, 1);
        assert_true(machine.shadow[0].atomic);
        assert_int_equal(machine.shadow[0].touch, EMU_READ | EMU_WRITE);
    }
}

static void test_uninitialised(void **state)
{
    (void)state;
    machine.options.checks = EMU_CHECK_UNINITIALISED;
    assert_int_equal(machine_run(&machine, "atom.global.exch.b32", 1, 3, op_sink(), at64(), op_reg(2, 32)), EMU_NEXT);
    assert_int_equal(machine.finding_count, 0);
    assert_int_equal(machine_run(&machine, "red.global.add.u32", 3, 2, at64(), op_reg(2, 32)), EMU_NEXT);
    assert_int_equal(machine.finding_count, 1);
    assert_int_equal(machine.lane, 1);
}

/* ---- Several host threads ---- */

static struct machine machines[THREADS];

static void *work(void *argument)
{
    struct machine *own = argument;
    machine_select(own, 0);
    for (int i = 0; i < ROUNDS; i++) {
        machine_run(own, "red.global.add.u32", EMU_ALL_LANES, 2, at64(), op_imm(1));
        machine_run(own, "atom.global.add.f64", EMU_ALL_LANES, 3, op_reg(1, 64), op_address(A64, 64, 8),
                    op_literal(UINT64_C(0x3ff0000000000000), 64));
        machine_run(own, "atom.global.inc.u32", EMU_ALL_LANES, 3, op_reg(1, 32), op_address(A64, 64, 16), op_imm(6));
        machine_run(own, "red.global.add.noftz.f16", 1, 2, op_address(A64, 64, 20), op_imm(0x3c00));
        machine_run(own, "red.global.add.noftz.f16", 1, 2, op_address(A64, 64, 22), op_imm(0x3c00));
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        machine_init(&machines[i], bytes, sizeof bytes);
        addresses(&machines[i], 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, &machines[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        machine_destroy(&machines[i]);
    }
    uint32_t count, ring;
    double sum;
    memcpy(&count, bytes, sizeof count);
    memcpy(&sum, bytes + 8, sizeof sum);
    memcpy(&ring, bytes + 16, sizeof ring);
    assert_int_equal(count, THREADS * ROUNDS * EMU_LANES);
    assert_true(sum == (double)(THREADS * ROUNDS * EMU_LANES));
    assert_int_equal(ring, THREADS * ROUNDS * EMU_LANES % 7);
    const uint16_t halves[2] = {0x67d0, 0x67d0}; /* 2000 */
    assert_memory_equal(bytes + 20, halves, sizeof halves);
}

static void test_all_rows(void **state)
{
    (void)state;
    static const char *const names[] = {"atom", "red", NULL};
    machine_check_rows(names);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_operations),    CASE(test_operation_first), CASE(test_subnormals), CASE(test_lanes_in_order),
        CASE(test_vectors),       CASE(test_refused),         CASE(test_faults),     CASE(test_order),
        CASE(test_uninitialised), CASE(test_threads),         CASE(test_all_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
