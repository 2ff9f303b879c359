/* Where addresses lie, who may touch them, and what the shadow hears of it. */
#include "machine.h"

#include <string.h>

#include "memory_lanes.h"
#include "region.h"

enum { BYTES = 1024 };
static _Alignas(256) uint8_t bytes[BYTES];
static struct machine machine;

static int setup(void **state)
{
    (void)state;
    memset(bytes, 0, sizeof bytes);
    machine_init(&machine, bytes, sizeof bytes);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    machine_destroy(&machine);
    return 0;
}

static uint64_t global(size_t offset)
{
    return (uint64_t)(uintptr_t)bytes + offset;
}

static uint8_t *touch(int lane, enum emu_space space, uint64_t address, size_t size, size_t align, int how)
{
    struct emu_access access = {.warp = machine.warp};
    return emu_touch(machine.warp, &access, lane, space, address, size, align, how);
}

static void expect_fault(enum emu_finding_kind kind, const char *part)
{
    assert_int_equal(machine.fault_count, 1);
    assert_int_equal(machine.kind, kind);
    if (strstr(machine.message, part) == NULL) {
        fail_msg("\"%s\" is not in: %s", part, machine.message);
    }
    machine.fault_count = 0;
}

static void test_window(void **state)
{
    (void)state;
    assert_int_equal(emu_shared_window() % EMU_WINDOW_BYTES, 0);
    assert_int_equal(emu_local_window(), emu_shared_window() + EMU_WINDOW_BYTES);
    assert_true(emu_shared_window() > UINT32_MAX);
}

static void test_locate(void **state)
{
    (void)state;
    static const struct {
        enum emu_space space;
        uint64_t address; /* in the window */
        int rank;         /* -1: none */
    } cases[] = {
        {EMU_SHARED_CTA, (1u << 24) + 1024, 1},      {EMU_SHARED_CTA, 1024, -1},
        {EMU_SHARED_CTA, (2u << 24) + 1024, -1},     {EMU_SHARED_CLUSTER, 1024, 0},
        {EMU_SHARED_CLUSTER, (3u << 24) + 8, 3},     {EMU_SHARED_CLUSTER, 4u << 24, -1},
        {EMU_SHARED_CLUSTER, (uint64_t)1 << 28, -1}, {EMU_GENERIC, (2u << 24) + 5, 2},
        {EMU_GENERIC, (uint64_t)1 << 28, -1},
    };
    machine_select(&machine, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct emu_cta *cta = NULL;
        uint32_t offset = 0;
        uint64_t address = cases[i].address + (cases[i].space == EMU_GENERIC ? emu_shared_window() : 0);
        assert_int_equal(emu_shared_locate(machine.warp, cases[i].space, address, &cta, &offset), cases[i].rank >= 0);
        if (cases[i].rank >= 0) {
            assert_int_equal(cta->rank, cases[i].rank);
            assert_int_equal(offset, cases[i].address % (1u << 24));
        }
    }
}

/* FlashMLA flips the rank's bit, also in generic pointers, and masks it to reach the first of a pair. */
static void test_peer_arithmetic(void **state)
{
    (void)state;
    machine_select(&machine, 1);
    uint64_t own = (1u << 24) + 2048;
    assert_ptr_equal(touch(0, EMU_SHARED_CTA, own, 4, 4, EMU_READ), machine.shared[1] + 2048);
    assert_ptr_equal(touch(0, EMU_SHARED_CLUSTER, own ^ (1u << 24), 4, 4, EMU_READ), machine.shared[0] + 2048);
    assert_ptr_equal(touch(0, EMU_SHARED_CLUSTER, own & 0xfeffffff, 4, 4, EMU_READ), machine.shared[0] + 2048);
    uint64_t generic = emu_shared_window() + own;
    assert_ptr_equal(touch(0, EMU_GENERIC, generic, 4, 4, EMU_READ), machine.shared[1] + 2048);
    assert_ptr_equal(touch(0, EMU_GENERIC, generic ^ (1u << 24), 4, 4, EMU_READ), machine.shared[0] + 2048);
    assert_int_equal(machine.fault_count, 0);
}

static void test_spaces(void **state)
{
    (void)state;
    assert_ptr_equal(touch(0, EMU_GLOBAL, global(4), 4, 4, EMU_WRITE), bytes + 4);
    assert_ptr_equal(touch(0, EMU_CONST, global(4), 4, 4, EMU_READ), bytes + 4);
    assert_ptr_equal(touch(0, EMU_GENERIC, global(1020), 4, 4, EMU_WRITE), bytes + 1020);
    assert_ptr_equal(touch(3, EMU_LOCAL, 60, 4, 4, EMU_WRITE), machine.local + 3 * MACHINE_LOCAL + 60);
    assert_ptr_equal(touch(3, EMU_GENERIC, emu_local_window() + 8, 4, 4, EMU_WRITE),
                     machine.local + 3 * MACHINE_LOCAL + 8);
    assert_ptr_equal(touch(3, EMU_PARAM, 16, 8, 8, EMU_READ), machine.params + 16);
    uint64_t param = emu_generic_address(machine.warp, EMU_PARAM, 16);
    assert_ptr_equal(touch(0, EMU_GENERIC, param, 8, 8, EMU_READ), machine.params + 16);
    assert_ptr_equal(touch(0, EMU_GLOBAL, param, 8, 8, EMU_READ), machine.params + 16);
    machine.launch.params = machine.params + 1; /* wherever they lie */
    assert_non_null(touch(0, EMU_GENERIC, param + 1, 8, 8, EMU_READ));
    machine.launch.params = machine.params;
    assert_int_equal(machine.fault_count, 0);
}

static void test_faults(void **state)
{
    (void)state;
    const uint64_t window = emu_shared_window();
    const struct {
        enum emu_space space;
        uint64_t address;
        int touch;
        enum emu_finding_kind kind;
        const char *part;
    } cases[] = {
        {EMU_GLOBAL, global(BYTES), EMU_READ, EMU_OUT_OF_BOUNDS, "4 bytes past the end of cuMemAlloc (1024 bytes"},
        {EMU_GLOBAL, global(BYTES + 8), EMU_WRITE, EMU_OUT_OF_BOUNDS, "12 bytes past the end"},
        {EMU_GENERIC, global(BYTES - 2), EMU_READ, EMU_OUT_OF_BOUNDS, "2 bytes past the end"},
        {EMU_GENERIC, 16, EMU_READ, EMU_OUT_OF_BOUNDS, "a null pointer"},
        {EMU_GLOBAL, 8192, EMU_READ, EMU_OUT_OF_BOUNDS, "below every allocation"},
        {EMU_GLOBAL, window + 2048, EMU_READ, EMU_OUT_OF_BOUNDS, "of shared or local memory"},
        {EMU_SHARED_CTA, 1000, EMU_READ, EMU_OUT_OF_BOUNDS, "the system's first 1024 bytes"},
        {EMU_SHARED_CTA, 4096, EMU_READ, EMU_OUT_OF_BOUNDS,
         "offset 4096 of shared memory of block rank 0 (3072 behind the system's part), up to 4 bytes past its end "
         "(4096 "
         "bytes)"},
        {EMU_SHARED_CTA, 4094, EMU_READ, EMU_OUT_OF_BOUNDS, "2 bytes past its end"},
        {EMU_SHARED_CTA, (1u << 24) + 2048, EMU_READ, EMU_OUT_OF_BOUNDS, "shared::cta reaches only its own, rank 0"},
        {EMU_SHARED_CLUSTER, (7u << 24) + 2048, EMU_READ, EMU_OUT_OF_BOUNDS, "block rank 7, in a cluster of 4"},
        {EMU_SHARED_CLUSTER, global(0), EMU_READ, EMU_OUT_OF_BOUNDS, "outside the window"},
        {EMU_GENERIC, window + 8192, EMU_WRITE, EMU_OUT_OF_BOUNDS, "offset 8192"},
        {EMU_LOCAL, 64, EMU_READ, EMU_OUT_OF_BOUNDS, "64 bytes of local memory"},
        {EMU_GENERIC, emu_local_window() + 64, EMU_READ, EMU_OUT_OF_BOUNDS, "64 bytes of local memory"},
        {EMU_PARAM, 126, EMU_READ, EMU_OUT_OF_BOUNDS, "128 bytes of parameters"},
        {EMU_PARAM, 16, EMU_WRITE, EMU_OUT_OF_BOUNDS, "they are read only"},
        {EMU_GLOBAL, global(2), EMU_READ, EMU_MISALIGNED_ACCESS, "no multiple of 4"},
        {EMU_SHARED_CTA, 2049, EMU_READ, EMU_MISALIGNED_ACCESS, "no multiple of 4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(touch(5, cases[i].space, cases[i].address, 4, 4, cases[i].touch));
        expect_fault(cases[i].kind, cases[i].part);
        assert_int_equal(machine.lane, 5);
    }
}

static void test_touch_shared(void **state)
{
    (void)state;
    struct emu_access access = {.warp = machine.warp};
    assert_ptr_equal(emu_touch_shared(&machine.ctas[2], &access, -1, 1024, 3072, EMU_WRITE), machine.shared[2] + 1024);
    assert_null(emu_touch_shared(&machine.ctas[2], &access, -1, 1024, 3073, EMU_WRITE));
    expect_fault(EMU_OUT_OF_BOUNDS, "up to 1 bytes past its end");
    assert_null(emu_touch_shared(&machine.ctas[2], &access, -1, 512, 4, EMU_READ));
    expect_fault(EMU_OUT_OF_BOUNDS, "the system's first");
    assert_int_equal(machine.shadow_count, 0);

    machine.options.checks = EMU_CHECK_RACES;
    assert_non_null(emu_touch_shared(&machine.ctas[2], &access, -1, 2048, 512, EMU_READ));
    assert_int_equal(machine.shadow_count, 1);
    assert_int_equal(machine.shadow[0].address, 2048);
    assert_int_equal(machine.shadow[0].size, 512);
    assert_int_equal(machine.shadow[0].rank, 2);
    machine.shadow_refuses = true;
    assert_null(emu_touch_shared(&machine.ctas[2], &access, -1, 2048, 512, EMU_READ));
}

static void test_uninitialised_shared(void **state)
{
    (void)state;
    struct emu_access access = {.warp = machine.warp};
    machine.options.checks = EMU_CHECK_UNINITIALISED;
    emu_touch_shared(&machine.ctas[0], &access, -1, 2001, 70, EMU_WRITE);
    emu_touch_shared(&machine.ctas[0], &access, -1, 2001, 70, EMU_READ);
    assert_int_equal(machine.finding_count, 0);
    emu_touch_shared(&machine.ctas[0], &access, -1, 2000, 72, EMU_READ);
    assert_int_equal(machine.finding_count, 1);
    assert_int_equal(machine.kind, EMU_UNINITIALISED);
    assert_non_null(strstr(machine.message, "offset 2000 (976 behind the system's part): 2 of 72 bytes"));
    emu_touch_shared(&machine.ctas[0], &access, -1, 2071, 1, EMU_READ);
    assert_int_equal(machine.finding_count, 2);
    emu_touch_shared(&machine.ctas[1], &access, -1, 2001, 1, EMU_READ); /* another block's */
    assert_int_equal(machine.finding_count, 3);
    touch(0, EMU_SHARED_CTA, 2071, 1, 1, EMU_READ | EMU_WRITE); /* is reported, then written */
    touch(0, EMU_SHARED_CTA, 2071, 1, 1, EMU_READ);
    assert_int_equal(machine.finding_count, 4);
}

static void test_uninitialised_global(void **state)
{
    (void)state;
    machine.options.checks = EMU_CHECK_UNINITIALISED;
    touch(0, EMU_GLOBAL, global(1), 1, 1, EMU_WRITE); /* bits stand for four bytes */
    touch(0, EMU_GLOBAL, global(0), 4, 4, EMU_READ);
    assert_int_equal(machine.finding_count, 0);
    touch(9, EMU_GLOBAL, global(0), 8, 8, EMU_READ);
    assert_int_equal(machine.finding_count, 1);
    assert_int_equal(machine.lane, 9);
    assert_non_null(strstr(machine.message, "byte 4 of cuMemAlloc (1024 bytes): 4 of 8 bytes"));
    machine.allocations[0].written = NULL; /* not tracked */
    touch(0, EMU_GLOBAL, global(8), 4, 4, EMU_READ);
    machine.options.checks = 0;
    touch(0, EMU_SHARED_CTA, 2048, 4, 4, EMU_READ);
    touch(0, EMU_LOCAL, 0, 4, 4, EMU_READ);
    assert_int_equal(machine.finding_count, 1);
}

/* ---- Whole warps ---- */

static bool touch_warp(uint32_t mask, uint32_t size, struct emu_lanes *lanes)
{
    struct emu_access_shape shape = {EMU_GENERIC, size, EMU_READ, false};
    struct emu_instr instr = {.text = "ld"};
    machine.shadow_count = 0;
    return emu_touch_lanes(machine.warp, &instr, &shape, mask, lanes);
}

static void test_runs(void **state)
{
    (void)state;
    struct emu_lanes lanes;
    machine.options.checks = EMU_CHECK_RACES;
    for (int lane = 0; lane < EMU_LANES; lane++) {
        lanes.address[lane] = global((size_t)lane * 4);
    }
    assert_true(touch_warp(EMU_ALL_LANES, 4, &lanes));
    assert_true(lanes.contiguous);
    assert_int_equal(machine.shadow_count, 1);
    assert_int_equal(machine.shadow[0].size, 128);
    assert_int_equal(machine.shadow[0].lane, -1);

    assert_true(touch_warp(0x0ff0000f, 4, &lanes)); /* two runs of neighbours */
    assert_false(lanes.contiguous);
    assert_int_equal(machine.shadow_count, 2);
    assert_int_equal(machine.shadow[1].address, global(80));
    assert_int_equal(machine.shadow[1].size, 32);

    for (int lane = 0; lane < EMU_LANES; lane++) {
        lanes.address[lane] = global((size_t)(lane / 8) * 64); /* four broadcasts */
    }
    assert_true(touch_warp(EMU_ALL_LANES, 4, &lanes));
    assert_int_equal(machine.shadow_count, 4);
    assert_int_equal(machine.shadow[3].size, 4);
    for (int lane = 0; lane < EMU_LANES; lane++) {
        lanes.address[lane] = global((size_t)lane * 32); /* scattered */
        assert_ptr_equal(lanes.host[lane], bytes + lane / 8 * 64);
    }
    assert_true(touch_warp(0xfffffffe, 16, &lanes));
    assert_int_equal(machine.shadow_count, 31);
    assert_int_equal(machine.shadow[30].lane, 31);
    machine.shadow_refuses = true;
    assert_false(touch_warp(EMU_ALL_LANES, 4, &lanes));
}

static void test_lanes_of_several_regions(void **state)
{
    (void)state;
    struct emu_lanes lanes;
    machine.options.checks = EMU_CHECK_ALL;
    memset(machine.written, 0xff, sizeof machine.written);
    memset(machine.shared_written, 0xff, sizeof machine.shared_written);
    for (int lane = 0; lane < EMU_LANES; lane++) {
        lanes.address[lane] = lane & 1 ? emu_shared_window() + ((uint64_t)(lane % 4) << 24) + 1024 : global(64);
    }
    lanes.address[7] = emu_local_window() + 4;
    assert_true(touch_warp(EMU_ALL_LANES, 4, &lanes));
    assert_ptr_equal(lanes.host[0], bytes + 64);
    assert_ptr_equal(lanes.host[1], machine.shared[1] + 1024);
    assert_ptr_equal(lanes.host[3], machine.shared[3] + 1024);
    assert_ptr_equal(lanes.host[7], machine.local + 7 * MACHINE_LOCAL + 4);
    assert_int_equal(machine.finding_count, 0);

    lanes.address[20] = 4;
    assert_true(touch_warp(~(1u << 20), 4, &lanes)); /* lane 20 takes no part */
    lanes.address[20] = 4;
    assert_false(touch_warp(EMU_ALL_LANES, 4, &lanes));
    assert_int_equal(machine.lane, 20);
}

static void test_run_names_the_lane(void **state)
{
    (void)state;
    struct emu_lanes lanes;
    machine.options.checks = EMU_CHECK_UNINITIALISED;
    machine.written[0][0] = 0xfffffff7; /* the fourth word is missing */
    for (int lane = 0; lane < EMU_LANES; lane++) {
        lanes.address[lane] = global((size_t)lane * 4);
    }
    assert_true(touch_warp(EMU_ALL_LANES, 4, &lanes));
    assert_int_equal(machine.finding_count, 1);
    assert_int_equal(machine.lane, 3);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_window),
        CASE(test_locate),
        CASE(test_peer_arithmetic),
        CASE(test_spaces),
        CASE(test_faults),
        CASE(test_touch_shared),
        CASE(test_uninitialised_shared),
        CASE(test_uninitialised_global),
        CASE(test_runs),
        CASE(test_lanes_of_several_regions),
        CASE(test_run_names_the_lane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
