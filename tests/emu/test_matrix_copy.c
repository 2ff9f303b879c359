/* ldmatrix, stmatrix, movmatrix: each element against the figures of ISA 9.7.14.5.15 to 17 written out. */
#include "tensor_machine.h"

#include <stdio.h>
#include <string.h>

enum { ROW_ADDRESS = 20, FIRST = 4096 };

/* Rows of 16 bytes lie apart and out of order: row j of matrix i. */
static uint32_t row_offset(int i, int j)
{
    return FIRST + (uint32_t)((i * 8 + j) * 7 % 32) * 48;
}

static uint16_t element(int i, int row, int column)
{
    return (uint16_t)(0x1000 * (i + 1) + 0x10 * row + column);
}

/* Lane l's register of matrix i: elements 2(l % 4) and the next of row l / 4; or of column l / 4. */
static uint32_t fragment(int i, int lane, bool trans)
{
    const int a = lane / 4, b = lane % 4 * 2;
    return trans ? element(i, b, a) | (uint32_t)element(i, b + 1, a) << 16
                 : element(i, a, b) | (uint32_t)element(i, a, b + 1) << 16;
}

static void set_addresses(struct tensor_machine *tm)
{
    for (int lane = 0; lane < EMU_LANES; lane++)
        tm->r32[0][0][ROW_ADDRESS][lane] = row_offset(lane / 8, lane % 8);
}

static void put_matrices(struct tensor_machine *tm)
{
    for (int i = 0; i < 4; i++)
        for (int row = 0; row < 8; row++)
            for (int column = 0; column < 8; column++) {
                const uint16_t value = element(i, row, column);
                memcpy(tm->shared[0] + row_offset(i, row) + 2 * column, &value, 2);
            }
}

/* With the shape first, as ISA has it, or last, as CUTLASS. */
static void opcode_of(char *opcode, size_t room, const char *name, int count, bool trans, bool last, const char *space)
{
    snprintf(opcode, room, "%s.sync.aligned%s.x%d%s%s%s.b16", name, last ? "" : ".m8n8", count, trans ? ".trans" : "",
             last ? ".m8n8" : "", space);
}

static void check_bytes(const uint8_t touched[TM_SHARED], int count)
{
    size_t total = 0;
    for (int i = 0; i < TM_SHARED; i++)
        total += touched[i];
    assert_int_equal(total, 128 * count);
    for (int i = 0; i < count; i++)
        for (int row = 0; row < 8; row++)
            assert_int_equal(touched[row_offset(i, row) + 15], 1);
}

static void loads(void **unused)
{
    (void)unused;
    static const char *const spaces[] = {".shared", ".shared::cta", ""};
    struct tensor_machine *tm = tm_create(1);
    put_matrices(tm);
    set_addresses(tm);
    for (int lane = 0; lane < EMU_LANES; lane++)
        tm->r64[0][0][0][lane] = emu_shared_window() + row_offset(lane / 8, lane % 8);
    for (int variant = 0; variant < 36; variant++) {
        const int count = 1 << variant % 3;
        const bool trans = variant / 3 % 2;
        const int space = variant / 6 % 3;
        char opcode[80];
        tm->pool_count = 0;
        memset(tm->shared_read, 0, sizeof tm->shared_read);
        const struct emu_operand operands[] = {tm_vector(tm, 0, count),
                                               space == 2 ? tm_address64(0) : tm_address32(ROW_ADDRESS)};
        opcode_of(opcode, sizeof opcode, "ldmatrix", count, trans, variant / 18, spaces[space]);
        assert_int_equal(tm_run(tm, 0, opcode, EMU_ALL_LANES, 2, operands), EMU_NEXT);
        for (int i = 0; i < count; i++)
            for (int lane = 0; lane < EMU_LANES; lane++)
                assert_int_equal(tm->r32[0][0][i][lane], fragment(i, lane, trans));
        check_bytes(tm->shared_read[0], count);
        assert_false(tm->async_proxy);
    }
    tm_destroy(tm);
}

static void stores(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = tm_create(1);
    set_addresses(tm);
    for (int variant = 0; variant < 12; variant++) {
        const int count = 1 << variant % 3;
        const bool trans = variant / 3 % 2;
        char opcode[80];
        tm->pool_count = 0;
        memset(tm->shared[0], 0, TM_SHARED);
        memset(tm->shared_written, 0, sizeof tm->shared_written);
        for (int i = 0; i < count; i++)
            for (int lane = 0; lane < EMU_LANES; lane++)
                tm->r32[0][0][i][lane] = fragment(i, lane, trans);
        const struct emu_operand operands[] = {tm_address32(ROW_ADDRESS), tm_vector(tm, 0, count)};
        opcode_of(opcode, sizeof opcode, "stmatrix", count, trans, variant / 6, ".shared");
        assert_int_equal(tm_run(tm, 0, opcode, EMU_ALL_LANES, 2, operands), EMU_NEXT);
        for (int i = 0; i < count; i++)
            for (int row = 0; row < 8; row++)
                for (int column = 0; column < 8; column++) {
                    uint16_t value;
                    memcpy(&value, tm->shared[0] + row_offset(i, row) + 2 * column, 2);
                    assert_int_equal(value, element(i, row, column));
                }
        check_bytes(tm->shared_written[0], count);
    }
    tm_destroy(tm);
}

static void moves(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = tm_create(1);
    for (int lane = 0; lane < EMU_LANES; lane++)
        tm->r32[0][0][1][lane] = fragment(2, lane, false);
    for (int in_place = 0; in_place < 2; in_place++) {
        const struct emu_operand operands[] = {tm_reg32(in_place), tm_reg32(1)};
        assert_int_equal(tm_run(tm, 0, "movmatrix.sync.aligned.m8n8.trans.b16", EMU_ALL_LANES, 2, operands), EMU_NEXT);
        for (int lane = 0; lane < EMU_LANES; lane++)
            assert_int_equal(tm->r32[0][0][in_place][lane], fragment(2, lane, true));
    }
    tm_destroy(tm);
}

static void faults(void **unused)
{
    (void)unused;
    struct tensor_machine *tm = tm_create(1);
    const struct emu_operand address = tm_address32(ROW_ADDRESS), four = tm_vector(tm, 0, 4), one = tm_reg32(0);
    const struct emu_operand load[] = {four, address}, store[] = {address, four}, move[] = {one, one};
    const char *const ld = "ldmatrix.sync.aligned.m8n8.x4.shared.b16", *const st =
                                                                           "stmatrix.sync.aligned.m8n8.x4.shared.b16";
    set_addresses(tm);
    assert_int_equal(tm_run(tm, 0, ld, 0xff, 2, load), EMU_FAULT);
    assert_int_equal(tm->kind, EMU_DIVERGENT);
    assert_int_equal(tm_run(tm, 0, st, 0xff, 2, store), EMU_FAULT);
    assert_int_equal(tm_run(tm, 0, "movmatrix.sync.aligned.m8n8.trans.b16", 0xff, 2, move), EMU_FAULT);
    tm->r32[0][0][ROW_ADDRESS][31] += 8;
    assert_int_equal(tm_run(tm, 0, ld, EMU_ALL_LANES, 2, load), EMU_FAULT);
    assert_int_equal(tm->kind, EMU_MISALIGNED_ACCESS);
    assert_int_equal(tm_run(tm, 0, st, EMU_ALL_LANES, 2, store), EMU_FAULT);
    assert_int_equal(tm_run(tm, 0, "ldmatrix.sync.aligned.m8n8.x2.shared.b16", EMU_ALL_LANES, 2, load), TM_REFUSED);
    assert_int_equal(tm_run(tm, 0, "stmatrix.sync.aligned.m8n8.x1.shared.b16", EMU_ALL_LANES, 2, store), TM_REFUSED);
    assert_int_equal(tm_run(tm, 0, "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8", EMU_ALL_LANES, 2, load),
                     TM_UNKNOWN);
    assert_int_equal(tm_run(tm, 0, "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8", EMU_ALL_LANES, 2, store),
                     TM_UNKNOWN);
    tm_destroy(tm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(loads), cmocka_unit_test(stores), cmocka_unit_test(moves),
                                       cmocka_unit_test(faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
