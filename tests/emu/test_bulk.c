/* Bulk copies and reductions, st.async and red.async: bytes, mbarriers, alignment and bounds. */
#include "tensor_machine.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Rows: 32-bit ones for shared addresses, size and mask; 64-bit ones for global addresses and the policy. */
enum { TO = 0, FROM = 1, SIZE = 2, MBARRIER = 3, MASK = 4, VALUE = 5, GLOBAL = 0, POLICY = 1 };
enum { GLOBAL_BYTES = 8192, DESTINATION = 8192, SOURCE = 65536 };

static _Alignas(128) uint8_t global[GLOBAL_BYTES];

static uint32_t shared_address(uint32_t rank, uint32_t offset)
{
    return rank << EMU_RANK_SHIFT | offset;
}

static struct tensor_machine *machine_of(int blocks)
{
    struct tensor_machine *tm = tm_create(blocks);
    for (int i = 0; i < GLOBAL_BYTES; i++)
        global[i] = (uint8_t)(i * 7 + i / 256);
    for (int i = 0; i < 4096; i++)
        tm->shared[0][SOURCE + i] = (uint8_t)(i * 5 + 1);
    tm->global = global;
    tm->global_bytes = GLOBAL_BYTES;
    tm_set32(tm, TO, shared_address(0, DESTINATION));
    tm_set32(tm, FROM, SOURCE);
    tm_set32(tm, SIZE, 1008);
    tm_set32(tm, MBARRIER, shared_address(0, TM_MBARRIER));
    tm_set64(tm, GLOBAL, (uint64_t)(uintptr_t)(global + 16));
    return tm;
}

#define LOAD "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
#define STORE "cp.async.bulk.global.shared::cta.bulk_group"
#define PEER "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"

static void loads(void **unused)
{
    (void)unused;
    static const char *const opcodes[] = {LOAD, "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes",
                                          LOAD ".L2::cache_hint"};
    for (int i = 0; i < 6; i++) {
        struct tensor_machine *tm = machine_of(2);
        const struct emu_operand operands[] = {tm_address32(TO), tm_address64(GLOBAL), tm_reg32(SIZE),
                                               tm_address32(MBARRIER), tm_reg64(POLICY)};
        tm->backwards = i >= 3;
        assert_int_equal(tm_run(tm, 0, opcodes[i % 3], 1u << 5, i % 3 == 2 ? 5 : 4, operands), EMU_NEXT);
        assert_int_equal(tm->shared[0][DESTINATION], 0); /* nothing has happened yet */
        assert_true(tm_finish(tm));
        assert_memory_equal(tm->shared[0] + DESTINATION, global + 16, 1008);
        assert_int_equal(tm->shared[0][DESTINATION + 1008], 0);
        assert_int_equal(tm->tx[0], 1008);
        assert_int_equal(tm->tx[1], 0);
        assert_true(tm->async_proxy);
        tm_destroy(tm);
    }
}

static void multicast(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = machine_of(3);
    const struct emu_operand operands[] = {tm_address32(TO),       tm_address64(GLOBAL), tm_reg32(SIZE),
                                           tm_address32(MBARRIER), tm_reg32(MASK),       tm_reg64(POLICY)};
    tm_set32(tm, MASK, 5);
    assert_int_equal(tm_run(tm, 0, LOAD ".multicast::cluster", 1, 5, operands), EMU_NEXT);
    assert_true(tm_finish(tm));
    assert_memory_equal(tm->shared[0] + DESTINATION, global + 16, 1008);
    assert_memory_equal(tm->shared[2] + DESTINATION, global + 16, 1008);
    assert_int_equal(tm->shared[1][DESTINATION], 0);
    assert_int_equal(tm->tx[0], 1008);
    assert_int_equal(tm->tx[1], 0);
    assert_int_equal(tm->tx[2], 1008);
    assert_int_equal(tm_run(tm, 0, LOAD ".multicast::cluster.L2::cache_hint", 1, 6, operands), EMU_NEXT);
    for (uint32_t mask = 0; mask <= 8; mask += 8) {
        tm_set32(tm, MASK, mask);
        assert_int_equal(tm_run(tm, 0, LOAD ".multicast::cluster", 1, 5, operands), EMU_FAULT);
        assert_int_equal(tm->kind, EMU_BAD_OPERAND);
    }
    assert_int_equal(tm_run(tm, 0, "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.multicast::cluster",
                            1, 5, operands),
                     TM_REFUSED);
    tm_destroy(tm);
}

static void stores(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = machine_of(1);
    const struct emu_operand operands[] = {tm_address64(GLOBAL), tm_address32(FROM), tm_reg32(SIZE), tm_reg64(POLICY)};
    for (int i = 0; i < 2; i++) {
        memset(global, 0, sizeof global);
        assert_int_equal(tm_run(tm, 0, i ? STORE ".L2::cache_hint" : STORE, 1, 3 + i, operands), EMU_NEXT);
        assert_true(tm_finish(tm));
        assert_memory_equal(global + 16, tm->shared[0] + SOURCE, 1008);
        assert_int_equal(global[15], 0);
        assert_int_equal(global[1024], 0);
    }
    assert_int_equal(tm_run(tm, 0, "cp.async.bulk.commit_group", 1, 0, NULL), EMU_NEXT);
    assert_int_equal(tm->committed, 1);
    const struct emu_operand three = tm_imm(3), seven = tm_imm(7), row = tm_reg32(0);
    assert_int_equal(tm_run(tm, 0, "cp.async.bulk.wait_group.read", 1, 1, &three), EMU_NEXT);
    assert_true(tm->reads_only);
    assert_int_equal(tm->waited, 3);
    assert_int_equal(tm_run(tm, 0, "cp.async.bulk.wait_group", 1, 1, &seven), EMU_BLOCKED);
    assert_false(tm->reads_only);
    assert_int_equal(tm_run(tm, 0, "cp.async.bulk.wait_group", 1, 1, &row), TM_REFUSED);
    tm_destroy(tm);
}

static void peers(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = machine_of(2);
    const struct emu_operand operands[] = {tm_address32(TO), tm_address32(FROM), tm_reg32(SIZE),
                                           tm_address32(MBARRIER)};
    assert_int_equal(tm_run(tm, 0, PEER, 1, 4, operands), EMU_FAULT); /* its own block, and then the wrong mbarrier */
    tm_set32(tm, TO, shared_address(1, DESTINATION));
    assert_int_equal(tm_run(tm, 0, PEER, 1, 4, operands), EMU_FAULT);
    tm_set32(tm, MBARRIER, shared_address(1, TM_MBARRIER));
    assert_int_equal(tm_run(tm, 0, PEER, 1, 4, operands), EMU_NEXT);
    assert_true(tm_finish(tm));
    assert_memory_equal(tm->shared[1] + DESTINATION, tm->shared[0] + SOURCE, 1008);
    assert_int_equal(tm->tx[1], 1008);
    tm_set32(tm, FROM, shared_address(1, SOURCE));
    assert_int_equal(tm_run(tm, 0, PEER, 1, 4, operands), EMU_FAULT);
    tm_destroy(tm);
}

static void prefetches(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = machine_of(1);
    const struct emu_operand operands[] = {tm_address64(GLOBAL), tm_reg32(SIZE), tm_reg64(POLICY)};
    assert_int_equal(tm_run(tm, 0, "cp.async.bulk.prefetch.L2.global", 1, 2, operands), EMU_NEXT);
    assert_int_equal(tm_run(tm, 0, "cp.async.bulk.prefetch.L2.global.L2::cache_hint", 1, 3, operands), EMU_NEXT);
    tm_set32(tm, SIZE, GLOBAL_BYTES);
    assert_int_equal(tm_run(tm, 0, "cp.async.bulk.prefetch.L2.global", 1, 2, operands), EMU_FAULT);
    assert_int_equal(tm->kind, EMU_OUT_OF_BOUNDS);
    assert_int_equal(tm->touches, 0);
    tm_destroy(tm);
}

/* One wrong thing at a time. */
static void faults(void **unused)
{
    (void)unused;
    static const struct {
        int row32, row64;
        uint64_t value;
        enum emu_finding_kind kind;
    } cases[] = {
        {SIZE, -1, 24, EMU_BAD_OPERAND},
        {TO, -1, DESTINATION + 8, EMU_MISALIGNED_ACCESS},
        {TO, -1, 5u << EMU_RANK_SHIFT, EMU_OUT_OF_BOUNDS},
        {MBARRIER, -1, TM_MBARRIER + 4, EMU_MISALIGNED_ACCESS},
        {MBARRIER, -1, 1u << EMU_RANK_SHIFT | TM_MBARRIER, EMU_BAD_OPERAND},
        {-1, GLOBAL, 8, EMU_MISALIGNED_ACCESS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tensor_machine *tm = machine_of(2);
        const struct emu_operand operands[] = {tm_address32(TO), tm_address64(GLOBAL), tm_reg32(SIZE),
                                               tm_address32(MBARRIER)};
        if (cases[i].row32 >= 0)
            tm_set32(tm, cases[i].row32, (uint32_t)cases[i].value);
        else
            tm_set64(tm, cases[i].row64, (uint64_t)(uintptr_t)global + cases[i].value);
        assert_int_equal(tm_run(tm, 0, LOAD, 1, 4, operands), EMU_FAULT);
        assert_int_equal(tm->kind, cases[i].kind);
        tm_destroy(tm);
    }
    struct tensor_machine *tm = machine_of(1);
    const struct emu_operand operands[] = {tm_address32(TO), tm_address64(GLOBAL), tm_reg32(SIZE),
                                           tm_address32(MBARRIER)};
    tm_set32(tm, SIZE, GLOBAL_BYTES);
    assert_int_equal(tm_run(tm, 0, LOAD, 1, 4, operands), EMU_NEXT);
    assert_false(tm_finish(tm));
    assert_int_equal(tm->kind, EMU_OUT_OF_BOUNDS);
    assert_int_equal(tm_run(tm, 0, LOAD ".L2::cache_hint", 1, 4, operands), TM_REFUSED);
    tm_set32(tm, SIZE, 0);
    assert_int_equal(tm_run(tm, 0, LOAD, 1, 4, operands), EMU_NEXT);
    assert_true(tm_finish(tm));
    tm_destroy(tm);
}

/* ---- Reductions ---- */

static uint64_t float_bits(double value, int bytes)
{
    const float single = (float)value;
    uint64_t bits = 0;
    if (bytes == 8)
        memcpy(&bits, &value, 8);
    else
        memcpy(&bits, &single, 4);
    return bits;
}

static void reductions(void **unused)
{
    (void)unused;
    const struct {
        const char *op;
        int bytes;
        uint64_t old, new, expected;
    } cases[] = {
        {"add.f32", 4, float_bits(1.5, 4), float_bits(2.25, 4), float_bits(3.75, 4)},
        {"add.f32", 4, 0x00000001, float_bits(0, 4), 1}, /* subnormals are kept (H200) */
        {"add.f32", 4, 0x80000001, 0x80000000, 0x80000001},
        {"add.f32", 4, 0x3f800000, 0xff800001, 0x7fffffff}, /* one NaN */
        {"min.f16", 2, 0, 0x8000, 0x8000},
        {"max.bf16", 2, 0x8000, 0, 0},
        {"min.f16", 2, 0x3c00, 0x7c01, 0x3c00}, /* no number, signalling or not */
        {"max.f16", 2, 0xfe00, 0xbc00, 0xbc00},
        {"max.bf16", 2, 0xffc0, 0x7f81, 0x7fff},
        {"add.f64", 8, float_bits(0.1, 8), float_bits(0.2, 8), float_bits(0.1 + 0.2, 8)},
        {"add.noftz.bf16", 2, 0x3f80, 0x3b80, 0x3f80}, /* 1 + 1/256: to even, down */
        {"add.noftz.bf16", 2, 0x3f81, 0x3b80, 0x3f82}, /* 1 + 1/128 + 1/256: to even, up */
        {"add.noftz.f16", 2, 0x3c00, 0x0001, 0x3c00},
        {"add.noftz.f16", 2, 0x0001, 0x0001, 0x0002},
        {"add.noftz.f16", 2, 0x7bff, 0x7bff, 0x7c00},
        {"min.f16", 2, 0x3c00, 0xbc00, 0xbc00},
        {"max.bf16", 2, 0x3f80, 0xbf80, 0x3f80},
        {"add.u32", 4, 0xffffffff, 2, 1},
        {"add.s32", 4, 0xffffffff, 2, 1},
        {"add.u64", 8, UINT64_MAX, 2, 1},
        {"min.s32", 4, 0xffffffff, 2, 0xffffffff},
        {"min.u32", 4, 0xffffffff, 2, 2},
        {"max.s32", 4, 0xffffffff, 2, 2},
        {"max.s64", 8, UINT64_MAX, 2, 2},
        {"max.u64", 8, UINT64_MAX, 2, UINT64_MAX},
        {"inc.u32", 4, 4, 5, 5},
        {"inc.u32", 4, 5, 5, 0},
        {"dec.u32", 4, 0, 5, 5},
        {"dec.u32", 4, 6, 5, 5},
        {"dec.u32", 4, 3, 5, 2},
        {"and.b32", 4, 0xff0, 0x3f, 0x30},
        {"or.b64", 8, 0xff0, 0x3f, 0xfff},
        {"xor.b32", 4, 0xff0, 0x3f, 0xfcf},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tensor_machine *tm = machine_of(1);
        const int count = 160 / cases[i].bytes, bytes = cases[i].bytes;
        char opcode[96];
        snprintf(opcode, sizeof opcode, "cp.reduce.async.bulk.global.shared::cta.bulk_group.%s", cases[i].op);
        for (int at = 0; at < count; at++) {
            memcpy(tm->shared[0] + SOURCE + at * bytes, &cases[i].new, (size_t)bytes);
            memcpy(global + 16 + at * bytes, &cases[i].old, (size_t)bytes);
        }
        tm_set32(tm, SIZE, 160);
        const struct emu_operand operands[] = {tm_address64(GLOBAL), tm_address32(FROM), tm_reg32(SIZE)};
        if (tm_run(tm, 0, opcode, 1, 3, operands) != EMU_NEXT)
            fail_msg("%s: %s", opcode, tm->why);
        assert_true(tm_finish(tm));
        for (int at = 0; at < count; at++) {
            uint64_t found = 0;
            memcpy(&found, global + 16 + at * bytes, (size_t)bytes);
            if (found != cases[i].expected)
                fail_msg("%s: 0x%llx, not 0x%llx", opcode, (unsigned long long)found,
                         (unsigned long long)cases[i].expected);
        }
        tm_destroy(tm);
    }
}

static void refused_reductions(void **unused)
{
    (void)unused;
    static const char *const opcodes[] = {
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f16",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f32",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.f32",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s64",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.xor.u32",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.inc.s32",
    };
    struct tensor_machine *tm = machine_of(2);
    const struct emu_operand operands[] = {tm_address64(GLOBAL), tm_address32(FROM), tm_reg32(SIZE)};
    for (size_t i = 0; i < sizeof opcodes / sizeof *opcodes; i++)
        assert_int_equal(tm_run(tm, 0, opcodes[i], 1, 3, operands), TM_REFUSED);
    const struct emu_operand peer[] = {tm_address32(TO), tm_address32(FROM), tm_reg32(SIZE), tm_address32(MBARRIER)};
    const char *const minimum = "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.min.u64";
    const char *const sum = "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u64";
    assert_int_equal(tm_run(tm, 0, minimum, 1, 4, peer), TM_REFUSED);
    tm_set32(tm, TO, shared_address(1, DESTINATION));
    tm_set32(tm, MBARRIER, shared_address(1, TM_MBARRIER));
    tm->shared[1][DESTINATION] = 1;
    assert_int_equal(tm_run(tm, 0, sum, 1, 4, peer), EMU_NEXT);
    assert_true(tm_finish(tm));
    assert_int_equal(tm->shared[1][DESTINATION], 2);
    assert_true(tm->atomic);
    tm_destroy(tm);
}

/* ---- To another block ---- */

static void remote_stores(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = machine_of(2);
    const struct emu_operand vector = tm_vector(tm, VALUE, 4);
    const struct emu_operand wide[] = {tm_address32(TO), vector, tm_address32(MBARRIER)};
    const struct emu_operand one[] = {tm_address32(TO), tm_reg32(VALUE), tm_address32(MBARRIER)};
    for (int lane = 0; lane < EMU_LANES; lane++) {
        tm->r32[0][0][TO][lane] = shared_address(1, DESTINATION + 16 * (uint32_t)lane);
        tm->r32[0][0][MBARRIER][lane] = shared_address(1, TM_MBARRIER);
        for (int i = 0; i < 4; i++)
            tm->r32[0][0][VALUE + i][lane] = (uint32_t)(100 * lane + i);
    }
    assert_int_equal(
        tm_run(tm, 0, "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32", 0x0000ffff, 3, wide),
        EMU_NEXT);
    tm_set32(tm, VALUE, 9); /* values are taken at issue */
    assert_true(tm_finish(tm));
    for (int lane = 0; lane < EMU_LANES; lane++) {
        uint32_t found[4];
        memcpy(found, tm->shared[1] + DESTINATION + 16 * lane, sizeof found);
        for (int i = 0; i < 4; i++)
            assert_int_equal(found[i], lane < 16 ? 100 * lane + i : 0);
    }
    assert_int_equal(tm->tx[1], 16 * 16);
    assert_false(tm->async_proxy); /* ISA 9.7.9.12: generic proxy */
    assert_int_equal(tm_run(tm, 0, "st.async.mbarrier::complete_tx::bytes.b32", 1, 3, one), EMU_NEXT);
    assert_int_equal(tm_run(tm, 0, "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32", 1, 3, wide),
                     TM_REFUSED);
    assert_int_equal(tm_run(tm, 0, "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b64", 1, 3, wide),
                     TM_REFUSED);
    tm->r32[0][0][TO][0] += 4;
    assert_int_equal(tm_run(tm, 0, "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32", 1, 3, wide),
                     EMU_FAULT);
    assert_int_equal(tm->kind, EMU_MISALIGNED_ACCESS);
    tm_finish(tm);
    tm->cluster.cta_count = 1;
    tm_set32(tm, TO, DESTINATION);
    tm_set32(tm, MBARRIER, TM_MBARRIER);
    assert_int_equal(tm_run(tm, 0, "st.async.mbarrier::complete_tx::bytes.b32", 1, 3, one), EMU_FAULT);
    assert_int_equal(tm->kind, EMU_BAD_OPERAND);
    tm_destroy(tm);
}

static void remote_reductions(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = machine_of(2);
    const struct emu_operand operands[] = {tm_address32(TO), tm_reg32(VALUE), tm_address32(MBARRIER)};
    const char *const sum = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32";
    tm_set32(tm, VALUE, 3);
    assert_int_equal(tm_run(tm, 0, sum, 1, 3, operands), EMU_FAULT); /* its own block */
    tm_set32(tm, TO, shared_address(1, DESTINATION));
    tm_set32(tm, MBARRIER, shared_address(1, TM_MBARRIER));
    assert_int_equal(tm_run(tm, 0, sum, EMU_ALL_LANES, 3, operands), EMU_NEXT);
    assert_true(tm_finish(tm));
    assert_int_equal(tm->shared[1][DESTINATION], 96);
    assert_int_equal(tm->tx[1], 128);
    assert_true(tm->atomic);
    assert_int_equal(
        tm_run(tm, 0, "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.min.b32", 1, 3, operands),
        TM_REFUSED);
    tm_destroy(tm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads),         cmocka_unit_test(multicast),
        cmocka_unit_test(stores),        cmocka_unit_test(peers),
        cmocka_unit_test(prefetches),    cmocka_unit_test(faults),
        cmocka_unit_test(reductions),    cmocka_unit_test(refused_reductions),
        cmocka_unit_test(remote_stores), cmocka_unit_test(remote_reductions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
