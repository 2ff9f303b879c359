/* Across lanes: sources differ from lane to lane, so each case is run by hand. */
#include "test_alu.h"

static void load_with_lane_numbers(struct alu_test *test, const char *opcode, const char *kinds)
{
    alu_load(test, opcode, kinds, NULL);
    for (int lane = 0; lane < EMU_LANES; lane++) {
        alu_set(test, 1, lane, 100 + (uint64_t)lane);
    }
}

void test_shuffles(void **state)
{
    (void)state;
    static const struct {
        const char *opcode;
        uint64_t b, c;
        int lane, from; /* what that lane gets */
        bool in_range;
    } checks[] = {
        {"shfl.sync.up.b32", 1, 0, 0, 0, false},        {"shfl.sync.up.b32", 1, 0, 9, 8, true},
        {"shfl.sync.up.b32", 3, 0x1800, 9, 9, false},   {"shfl.sync.up.b32", 1, 0x1800, 9, 8, true},
        {"shfl.sync.down.b32", 2, 31, 29, 31, true},    {"shfl.sync.down.b32", 2, 31, 30, 30, false},
        {"shfl.sync.down.b32", 2, 0x181f, 6, 6, false}, {"shfl.sync.bfly.b32", 16, 31, 3, 19, true},
        {"shfl.sync.bfly.b32", 1, 31, 3, 2, true},      {"shfl.sync.bfly.b32", 8, 0x1807, 3, 3, false},
        {"shfl.sync.idx.b32", 0, 31, 17, 0, true},      {"shfl.sync.idx.b32", 40, 31, 17, 8, true},
        {"shfl.sync.idx.b32", 3, 0x1c1f, 17, 19, true}, {"shfl.sync.idx.b32", 9, 7, 17, 17, false},
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        struct alu_test test;
        for (int with_predicate = 0; with_predicate < 2; with_predicate++) {
            load_with_lane_numbers(&test, checks[i].opcode, with_predicate ? "Srrrr" : "rrrrr");
            alu_set_all(&test, 2, checks[i].b);
            alu_set_all(&test, 3, checks[i].c);
            alu_set_all(&test, 4, EMU_ALL_LANES);
            assert_int_equal(alu_run(&test, EMU_ALL_LANES), EMU_NEXT);
            assert_int_equal(alu_get(&test, checks[i].lane, 0), 100 + checks[i].from);
            if (with_predicate) {
                assert_int_equal(alu_get(&test, checks[i].lane, 1), checks[i].in_range);
            }
            alu_free(&test);
        }
    }
}

void test_votes(void **state)
{
    (void)state;
    static const struct {
        const char *opcode, *kinds;
        uint32_t yes;
        uint64_t result;
    } votes[] = {
        {"vote.sync.all.pred", "ppr", 0xffffffff, 1},
        {"vote.sync.all.pred", "ppr", 0xfffffffe, 0},
        {"vote.sync.any.pred", "ppr", 0x00000100, 1},
        {"vote.sync.any.pred", "ppr", 0, 0},
        {"vote.sync.any.pred", "pnr", 0xffffffff, 0},
        {"vote.sync.uni.pred", "ppr", 0, 1},
        {"vote.sync.uni.pred", "ppr", 0xffffffff, 1},
        {"vote.sync.uni.pred", "ppr", 1, 0},
        {"vote.sync.ballot.b32", "rpr", 0x12345678, 0x12345678},
        {"vote.sync.ballot.b32", "rnr", 0x12345678, 0xedcba987},
    };
    struct alu_test test;
    for (size_t i = 0; i < sizeof votes / sizeof *votes; i++) {
        alu_load(&test, votes[i].opcode, votes[i].kinds, NULL);
        for (int lane = 0; lane < EMU_LANES; lane++) {
            alu_set(&test, 1, lane, votes[i].yes >> lane & 1);
        }
        alu_set_all(&test, 2, EMU_ALL_LANES);
        assert_int_equal(alu_run(&test, EMU_ALL_LANES), EMU_NEXT);
        assert_int_equal(alu_get(&test, 0, 0), votes[i].result);
        assert_int_equal(alu_get(&test, 31, 0), votes[i].result);
        alu_free(&test);
    }

    /* match: lanes 0 to 7 hold 5, the others their number. */
    static const struct {
        const char *opcode, *kinds;
        uint64_t at_3, at_20;
    } matches[] = {
        {"match.any.sync.b32", "rrr", 0xff, 1u << 20}, {"match.any.sync.b64", "rlr", 0xff, 1u << 20},
        {"match.all.sync.b32", "Srr", 0, 0},           {"match.all.sync.b64", "Slr", 0, 0},
        {"match.all.sync.b32", "rrr", 0, 0},
    };
    for (size_t i = 0; i < sizeof matches / sizeof *matches; i++) {
        alu_load(&test, matches[i].opcode, matches[i].kinds, NULL);
        for (int lane = 0; lane < EMU_LANES; lane++) {
            alu_set(&test, 1, lane, lane < 8 ? 5 : (uint64_t)lane);
        }
        alu_set_all(&test, 2, EMU_ALL_LANES);
        assert_int_equal(alu_run(&test, EMU_ALL_LANES), EMU_NEXT);
        assert_int_equal(alu_get(&test, 3, 0), matches[i].at_3);
        assert_int_equal(alu_get(&test, 20, 0), matches[i].at_20);
        alu_free(&test);
    }
    alu_load(&test, "match.all.sync.b32", "Srr", NULL);
    alu_set_all(&test, 1, 7);
    alu_set_all(&test, 2, 0xff);
    assert_int_equal(alu_run(&test, 0xff), EMU_NEXT);
    assert_int_equal(alu_get(&test, 7, 0), 0xff);
    assert_int_equal(alu_get(&test, 7, 1), 1);
    alu_free(&test);

    static const struct {
        const char *opcode;
        uint64_t result; /* of 100 to 131, lane 4 has -4 */
    } reductions[] = {
        {"redux.sync.add.u32", 3696 - 104 - 4},
        {"redux.sync.add.s32", 3696 - 104 - 4},
        {"redux.sync.min.u32", 100},
        {"redux.sync.min.s32", 0xfffffffc},
        {"redux.sync.max.u32", 0xfffffffc},
        {"redux.sync.max.s32", 131},
        {"redux.sync.and.b32", 0},
        {"redux.sync.or.b32", 0xffffffff},
        {"redux.sync.xor.b32", 0xfffffffc ^ 104},
    };
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++) {
        load_with_lane_numbers(&test, reductions[i].opcode, "rrr");
        alu_set(&test, 1, 4, 0xfffffffc);
        alu_set_all(&test, 2, EMU_ALL_LANES);
        assert_int_equal(alu_run(&test, EMU_ALL_LANES), EMU_NEXT);
        assert_int_equal(alu_get(&test, 0, 0), reductions[i].result);
        alu_free(&test);
    }

    alu_load(&test, "activemask.b32", "r", NULL);
    alu_run(&test, 0x00ff00f0);
    assert_int_equal(alu_get(&test, 4, 0), 0x00ff00f0);
    assert_int_equal(alu_get(&test, 0, 0), 0);
    alu_free(&test);
}

void test_waiting_for_lanes(void **state)
{
    (void)state;
    struct alu_test test;
    load_with_lane_numbers(&test, "shfl.sync.bfly.b32", "rrrrr");
    alu_set_all(&test, 2, 1);
    alu_set_all(&test, 3, 31);
    alu_set_all(&test, 4, 0x0000ffff);

    /* Half of the named lanes: wait for the others. */
    assert_int_equal(alu_run(&test, 0x00ff), EMU_BLOCKED);
    assert_int_equal(test.warp.wait.kind, EMU_WAIT_LANES);
    assert_int_equal(test.warp.wait.what, 0xffff);
    assert_int_equal(test.warp.wait.mask, 0x00ff);
    /* … unless those have exited. */
    test.warp.live = 0xffff00ff;
    assert_int_equal(alu_run(&test, 0x00ff), EMU_NEXT);
    assert_int_equal(alu_get(&test, 4, 0), 105);
    test.warp.live = EMU_ALL_LANES;

    /* A lane that does not name itself. */
    assert_int_equal(alu_run(&test, 0x1ffff), EMU_FAULT);

    /* Two sets at one instruction, each among itself. */
    for (int lane = 0; lane < EMU_LANES; lane++) {
        alu_set(&test, 1, lane, 100 + (uint64_t)lane);
        alu_set(&test, 2, lane, lane < 16 ? 1 : 2);
        alu_set(&test, 3, lane, 31);
        alu_set(&test, 4, lane, lane < 16 ? 0x0000ffff : 0xffff0000);
    }
    assert_int_equal(alu_run(&test, EMU_ALL_LANES), EMU_NEXT);
    assert_int_equal(alu_get(&test, 4, 0), 105);
    assert_int_equal(alu_get(&test, 20, 0), 122);

    /* Sets that overlap. */
    for (int lane = 0; lane < EMU_LANES; lane++) {
        alu_set(&test, 4, lane, lane < 16 ? 0x0001ffff : 0xffff0000);
    }
    assert_int_equal(alu_run(&test, EMU_ALL_LANES), EMU_FAULT);
    alu_free(&test);

    /* Votes and reductions in two sets. */
    alu_load(&test, "vote.sync.ballot.b32", "rpr", NULL);
    for (int lane = 0; lane < EMU_LANES; lane++) {
        alu_set(&test, 1, lane, lane & 1);
        alu_set(&test, 2, lane, lane < 16 ? 0x0000ffff : 0xffff0000);
    }
    assert_int_equal(alu_run(&test, EMU_ALL_LANES), EMU_NEXT);
    assert_int_equal(alu_get(&test, 0, 0), 0x0000aaaa);
    assert_int_equal(alu_get(&test, 31, 0), 0xaaaa0000);
    alu_free(&test);
    load_with_lane_numbers(&test, "redux.sync.max.u32", "rrr");
    for (int lane = 0; lane < EMU_LANES; lane++) {
        alu_set(&test, 2, lane, lane < 16 ? 0x0000ffff : 0xffff0000);
    }
    assert_int_equal(alu_run(&test, EMU_ALL_LANES), EMU_NEXT);
    assert_int_equal(alu_get(&test, 0, 0), 115);
    assert_int_equal(alu_get(&test, 16, 0), 131);
    alu_free(&test);

    /* What comes from a lane that does not take part cannot be mistaken for a value. */
    load_with_lane_numbers(&test, "shfl.sync.down.b32", "rrrrr");
    alu_set_all(&test, 2, 4);
    alu_set_all(&test, 3, 31);
    alu_set_all(&test, 4, 0xff);
    assert_int_equal(alu_run(&test, 0xff), EMU_NEXT);
    assert_int_equal(alu_get(&test, 3, 0), 107);
    assert_int_equal(alu_get(&test, 7, 0), 0xbadbad00);
    alu_free(&test);
}
