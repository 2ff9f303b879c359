/* mov, integers, logic, shifts: results worked out by hand from PTX ISA 9.7.1, 9.7.2, 9.7.8 and 9.7.9. */
#include "test_alu.h"

void test_moves(void **state)
{
    (void)state;
    const struct alu_check checks[] = {
        {"mov.b16", "hh", {0xabcd}, 0xabcd, 0},
        {"mov.u16", "hi", {5}, 5, 0},
        {"mov.s16", "hi", {(uint64_t)-1}, 0xffff, 0},
        {"mov.b32", "rr", {0xdeadbeef}, 0xdeadbeef, 0},
        {"mov.u32", "ri", {7}, 7, 0},
        {"mov.s32", "ri", {(uint64_t)-7}, 0xfffffff9, 0},
        {"mov.f32", "rr", {F_NAN}, F_NAN, 0},
        {"mov.b64", "ll", {0x123456789abcdef0}, 0x123456789abcdef0, 0},
        {"mov.u64", "li", {9}, 9, 0},
        {"mov.s64", "li", {(uint64_t)-9}, (uint64_t)-9, 0},
        {"mov.f64", "ll", {D(2.5)}, D(2.5), 0},
        {"mov.pred", "pp", {1}, 1, 0},
        {"mov.pred", "pn", {1}, 0, 0},
    };
    ALU_CHECK_TABLE(checks);

    static const struct {
        const char *statement;
        uint64_t per_lane, base; /* result: base + lane * per_lane */
        const char *registers;
    } specials[] = {
        {"mov.u32 %r0, %tid.x;", 1, 32, ".reg .b32 %r<2>;"},
        {"mov.u32 %r0, %laneid;", 1, 0, ".reg .b32 %r<2>;"},
        {"mov.u32 %r0, %ntid.x;", 0, 64, ".reg .b32 %r<2>;"},
        {"mov.u32 %r0, %ctaid.x;", 0, 5, ".reg .b32 %r<2>;"},
        {"mov.u32 %r0, %nctaid.x;", 0, 7, ".reg .b32 %r<2>;"},
        {"mov.u32 %r0, %warpid;", 0, 1, ".reg .b32 %r<2>;"},
        {"mov.u32 %r0, shared_variable;", 0, (1 << 24) + 1024, ".reg .b32 %r<2>;"},
        {"mov.u32 %r0, shared_variable+20;", 0, (1 << 24) + 1044, ".reg .b32 %r<2>;"},
        {"mov.u64 %r0, shared_variable;", 0, (1 << 24) + 1024, ".reg .b64 %r<2>;"},
        {"mov.f32 %r0, 0f3FC00000;", 0, 0x3fc00000, ".reg .b32 %r<2>;"},
        {"mov.f32 %r0, 1.5;", 0, 0x3fc00000, ".reg .b32 %r<2>;"},
        {"mov.f64 %r0, 0d3FF8000000000000;", 0, 0x3ff8000000000000, ".reg .b64 %r<2>;"},
        {"add.f32 %r0, 1.5, 0f3F800000;", 0, 0x40200000, ".reg .b32 %r<2>;"},
        {"cvt.rn.f16.f32 %r0, 1.5;", 0, 0x3e00, ".reg .b16 %r<2>;"},
        {"mov.b32 %r0, {1, 2};", 0, 0x20001, ".reg .b32 %r<2>;"},
        {"mov.b64 %r0, {%r1, %r2};", 0, 0, ".reg .b64 %r0; .reg .b32 %r1, %r2;"},
    };
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        struct alu_test test;
        alu_load_text(&test, specials[i].registers, specials[i].statement);
        assert_int_equal(alu_run(&test, EMU_ALL_LANES), EMU_NEXT);
        for (int lane = 0; lane < EMU_LANES; lane++) {
            assert_int_equal(alu_get(&test, lane, 0), specials[i].base + (uint64_t)lane * specials[i].per_lane);
        }
        alu_free(&test);
    }

    /* Vectors. */
    struct alu_test test;
    const struct emu_operand *parts;
    alu_load_text(&test, ".reg .b64 %l0; .reg .b32 %r<3>;", "mov.b64 %l0, {%r1, %r2};");
    parts = test.launch.kernel->pool + test.instr->operands[1].first;
    for (int lane = 0; lane < EMU_LANES; lane++) {
        emu_row32(&test.warp, parts[0].row)[lane] = 0x1000u + (uint32_t)lane;
        emu_row32(&test.warp, parts[1].row)[lane] = 0xffff0000u;
    }
    alu_run(&test, EMU_ALL_LANES);
    assert_int_equal(alu_get(&test, 3, 0), 0xffff000000001003);
    alu_free(&test);

    alu_load_text(&test, ".reg .b64 %l0; .reg .b16 %h<4>;", "mov.b64 {%h0, _, %h2, %h3}, %l0;");
    parts = test.launch.kernel->pool + test.instr->operands[0].first;
    alu_set_all(&test, 1, 0x4444333322221111);
    alu_run(&test, 1);
    assert_int_equal(emu_row32(&test.warp, parts[0].row)[0], 0x1111);
    assert_int_equal(emu_row32(&test.warp, parts[2].row)[0], 0x3333);
    assert_int_equal(emu_row32(&test.warp, parts[3].row)[0], 0x4444);
    alu_free(&test);

    alu_load_text(&test, ".reg .b32 %r<3>; .reg .b64 %l0;", "mov.b64 {%r1, %r2}, %l0;");
    parts = test.launch.kernel->pool + test.instr->operands[0].first;
    alu_set_all(&test, 1, 0x0123456789abcdef);
    alu_run(&test, EMU_ALL_LANES);
    assert_int_equal(emu_row32(&test.warp, parts[0].row)[31], 0x89abcdef);
    assert_int_equal(emu_row32(&test.warp, parts[1].row)[31], 0x01234567);
    alu_free(&test);
}

void test_integers(void **state)
{
    (void)state;
    const uint64_t min32 = 0x80000000, max32 = 0x7fffffff, min64 = D_MINUS;
    const uint64_t ones32 = 0xffffffff, ones64 = ~0ull;
    const struct alu_check checks[] = {
        {"add.u16", "hhh", {0xffff, 2}, 1, 0},
        {"add.s16", "hhi", {5, (uint64_t)-7}, 0xfffe, 0},
        {"add.u32", "rrr", {ones32, 2}, 1, 0},
        {"add.s32", "rrr", {max32, 1}, min32, 0},
        {"add.s32", "rri", {1, (uint64_t)-4}, 0xfffffffd, 0},
        {"add.u64", "lll", {ones64, 2}, 1, 0},
        {"add.s64", "lli", {3, (uint64_t)-4}, ones64, 0},
        {"add.sat.s32", "rrr", {max32, 1}, max32, 0},
        {"add.sat.s32", "rrr", {min32, ones32}, min32, 0},
        {"add.sat.s32", "rrr", {1, 2}, 3, 0},
        {"add.u16x2", "rrr", {0xffff0001, 0x00020003}, 0x00010004, 0},
        {"add.s16x2", "rrr", {0x0001ffff, 0x00010002}, 0x00020001, 0},
        {"sub.u16", "hhh", {1, 2}, 0xffff, 0},
        {"sub.s16", "hhh", {0x8000, 1}, 0x7fff, 0},
        {"sub.u32", "rrr", {1, 2}, ones32, 0},
        {"sub.s32", "rrr", {min32, 1}, max32, 0},
        {"sub.u64", "lll", {1, 2}, ones64, 0},
        {"sub.s64", "lll", {5, 7}, (uint64_t)-2, 0},
        {"sub.sat.s32", "rrr", {min32, 1}, min32, 0},
        {"sub.sat.s32", "rrr", {max32, ones32}, max32, 0},
        {"mul.lo.u16", "hhh", {0xffff, 0xffff}, 1, 0},
        {"mul.lo.s16", "hhh", {0xffff, 3}, 0xfffd, 0},
        {"mul.lo.u32", "rrr", {0x10000, 0x10001}, 0x10000, 0},
        {"mul.lo.s32", "rrr", {ones32, 5}, 0xfffffffb, 0},
        {"mul.lo.u64", "lll", {1ull << 33, 1ull << 32}, 0, 0},
        {"mul.lo.s64", "lli", {ones64, 6}, (uint64_t)-6, 0},
        {"mul.hi.u16", "hhh", {0xffff, 0xffff}, 0xfffe, 0},
        {"mul.hi.s16", "hhh", {0xffff, 3}, 0xffff, 0},
        {"mul.hi.u32", "rrr", {ones32, ones32}, 0xfffffffe, 0},
        {"mul.hi.s32", "rrr", {min32, min32}, 0x40000000, 0},
        {"mul.hi.u64", "lll", {ones64, ones64}, 0xfffffffffffffffe, 0},
        {"mul.hi.s64", "lll", {min64, 2}, ones64, 0},
        {"mad.lo.u16", "hhhh", {0xffff, 2, 3}, 1, 0},
        {"mad.lo.s16", "hhhh", {3, 4, 0xffff}, 11, 0},
        {"mad.lo.u32", "rrrr", {3, 4, 5}, 17, 0},
        {"mad.lo.s32", "rrrr", {ones32, 4, 5}, 1, 0},
        {"mad.lo.u64", "llll", {3, 4, ones64}, 11, 0},
        {"mad.lo.s64", "llll", {ones64, 4, 5}, 1, 0},
        {"mad.hi.u16", "hhhh", {0xffff, 0xffff, 3}, 1, 0},
        {"mad.hi.s16", "hhhh", {0x8000, 2, 3}, 2, 0},
        {"mad.hi.u32", "rrrr", {ones32, ones32, 3}, 1, 0},
        {"mad.hi.s32", "rrrr", {min32, 2, 3}, 2, 0},
        {"mad.hi.u64", "llll", {ones64, ones64, 3}, 1, 0},
        {"mad.hi.s64", "llll", {min64, 2, 3}, 2, 0},
        {"mad.hi.sat.s32", "rrrr", {min32, min32, max32}, max32, 0},
        {"mad.hi.sat.s32", "rrrr", {min32, max32, min32}, min32, 0},
        {"mul24.lo.u32", "rrr", {0xff000003, 5}, 15, 0},
        {"mul24.lo.s32", "rrr", {0x00ffffff, 5}, 0xfffffffb, 0},
        {"mul24.hi.u32", "rrr", {0x00ffffff, 0x00ffffff}, 0xfffffe00, 0},
        {"mul24.hi.s32", "rrr", {0x00800000, 0x00800000}, 0x40000000, 0},
        {"mad24.lo.u32", "rrrr", {3, 5, 7}, 22, 0},
        {"mad24.lo.s32", "rrrr", {0xffffff, 5, 7}, 2, 0},
        {"mad24.hi.u32", "rrrr", {0x10000, 0x10000, 7}, 0x10007, 0},
        {"mad24.hi.s32", "rrrr", {0xffffff, 0x10000, 7}, 6, 0},
        {"mad24.hi.sat.s32", "rrrr", {0x800000, 0x800000, 0x7fffffff}, max32, 0},
        {"sad.u16", "hhhh", {3, 0xffff, 5}, 1, 0},
        {"sad.s16", "hhhh", {3, 0xffff, 5}, 9, 0},
        {"sad.u32", "rrrr", {3, ones32, 5}, 1, 0},
        {"sad.s32", "rrrr", {min32, max32, 1}, 0, 0},
        {"sad.u64", "llll", {3, 10, 5}, 12, 0},
        {"sad.s64", "llll", {ones64, 10, 5}, 16, 0},
        {"div.u16", "hhh", {0xffff, 16}, 0xfff, 0},
        {"div.s16", "hhh", {0x8000, 0xffff}, 0x8000, 0},
        {"div.u32", "rrr", {ones32, 16}, 0x0fffffff, 0},
        {"div.u32", "rrr", {5, 0}, ones32, 0},
        {"div.s32", "rrr", {0xfffffff9, 2}, 0xfffffffd, 0},
        {"div.s32", "rrr", {min32, ones32}, min32, 0},
        {"div.u64", "lll", {ones64, 16}, ones64 >> 4, 0},
        {"div.s64", "lll", {min64, ones64}, min64, 0},
        {"div.s64", "lll", {(uint64_t)-7, 2}, (uint64_t)-3, 0},
        {"rem.u16", "hhh", {0xffff, 16}, 15, 0},
        {"rem.s16", "hhh", {0xfff9, 2}, 0xffff, 0},
        {"rem.u32", "rrr", {ones32, 16}, 15, 0},
        {"rem.u32", "rrr", {5, 0}, 5, 0},
        {"rem.s32", "rrr", {0xfffffff9, 2}, ones32, 0},
        {"rem.s32", "rrr", {min32, ones32}, 0, 0},
        {"rem.u64", "lll", {ones64, 16}, 15, 0},
        {"rem.s64", "lll", {min64, ones64}, 0, 0},
        {"abs.s16", "hh", {0x8000}, 0x8000, 0},
        {"abs.s16", "hh", {0xffff}, 1, 0},
        {"abs.s32", "rr", {min32}, min32, 0},
        {"abs.s32", "rr", {0xfffffffb}, 5, 0},
        {"abs.s64", "ll", {min64}, min64, 0},
        {"abs.s64", "ll", {(uint64_t)-5}, 5, 0},
        {"neg.s16", "hh", {1}, 0xffff, 0},
        {"neg.s32", "rr", {min32}, min32, 0},
        {"neg.s64", "ll", {1}, ones64, 0},
        {"min.u16", "hhh", {0xffff, 1}, 1, 0},
        {"min.s16", "hhh", {0xffff, 1}, 0xffff, 0},
        {"min.u32", "rrr", {ones32, 1}, 1, 0},
        {"min.s32", "rrr", {ones32, 1}, ones32, 0},
        {"min.relu.s32", "rrr", {ones32, 1}, 0, 0},
        {"min.u64", "lll", {ones64, 1}, 1, 0},
        {"min.s64", "lll", {ones64, 1}, ones64, 0},
        {"min.u16x2", "rrr", {0xffff0001, 0x00010002}, 0x00010001, 0},
        {"min.s16x2", "rrr", {0xffff0001, 0x00010002}, 0xffff0001, 0},
        {"min.relu.s16x2", "rrr", {0xffff0001, 0x00010002}, 0x00000001, 0},
        {"max.u16", "hhh", {0xffff, 1}, 0xffff, 0},
        {"max.s16", "hhh", {0xffff, 1}, 1, 0},
        {"max.u32", "rrr", {ones32, 1}, ones32, 0},
        {"max.s32", "rrr", {ones32, 1}, 1, 0},
        {"max.relu.s32", "rrr", {ones32, 0xfffffffe}, 0, 0},
        {"max.u64", "lll", {ones64, 1}, ones64, 0},
        {"max.s64", "lll", {ones64, 1}, 1, 0},
        {"max.u16x2", "rrr", {0xffff0001, 0x00010002}, 0xffff0002, 0},
        {"max.s16x2", "rrr", {0xffff0001, 0x00010002}, 0x00010002, 0},
        {"max.relu.s16x2", "rrr", {0xffff0001, 0xfffe0002}, 0x00000002, 0},
        {"dp4a.u32.u32", "rrrr", {0xff010203, 0x02010101, 10}, 526, 0},
        {"dp4a.s32.s32", "rrrr", {0xff010203, 0x02010101, 10}, 14, 0},
        {"dp4a.u32.s32", "rrrr", {0x01010102, 0xff000001, 10}, 11, 0},
        {"dp4a.s32.u32", "rrrr", {0xff000000, 0xff000000, 0}, 0xffffff01, 0},
        {"dp2a.lo.u32.u32", "rrrr", {0x00020003, 0x0a0b0405, 1}, 24, 0},
        {"dp2a.hi.u32.u32", "rrrr", {0x00020003, 0x0a0b0405, 1}, 54, 0},
        {"dp2a.lo.s32.s32", "rrrr", {0xffff0003, 0x0000ff02, 1}, 8, 0},
        {"dp2a.hi.s32.u32", "rrrr", {0xffff0003, 0xff020000, 1}, 0xffffff08, 0},
        {"dp2a.hi.u32.s32", "rrrr", {0x00010003, 0xff020000, 1}, 6, 0},
    };
    ALU_CHECK_TABLE(checks);
}

void test_wide_integers(void **state)
{
    (void)state;
    const struct alu_check checks[] = {
        {"mul.wide.u16", "rhh", {0xffff, 0xffff}, 0xfffe0001, 0},
        {"mul.wide.s16", "rhh", {0x8000, 0x8000}, 0x40000000, 0},
        {"mul.wide.s16", "rhh", {0xffff, 2}, 0xfffffffe, 0},
        {"mul.wide.u32", "lrr", {0xffffffff, 0xffffffff}, 0xfffffffe00000001, 0},
        {"mul.wide.s32", "lrr", {0x80000000, 0x80000000}, 0x4000000000000000, 0},
        {"mul.wide.s32", "lri", {0xffffffff, 16}, (uint64_t)-16, 0},
        {"mad.wide.u16", "rhhr", {0xffff, 0xffff, 0xffffffff}, 0xfffe0000, 0},
        {"mad.wide.s16", "rhhr", {0xffff, 2, 1}, 0xffffffff, 0},
        {"mad.wide.u32", "lrrl", {0xffffffff, 2, 5}, 0x200000003, 0},
        {"mad.wide.s32", "lrrl", {0xffffffff, 2, 5}, 3, 0},
    };
    ALU_CHECK_TABLE(checks);
}

void test_bits(void **state)
{
    (void)state;
    const uint64_t none = 0xffffffff;
    const struct alu_check checks[] = {
        {"popc.b32", "rr", {0xf0f00001}, 9, 0},
        {"popc.b64", "rl", {~0ull}, 64, 0},
        {"clz.b32", "rr", {0}, 32, 0},
        {"clz.b32", "rr", {1}, 31, 0},
        {"clz.b64", "rl", {0}, 64, 0},
        {"clz.b64", "rl", {1ull << 40}, 23, 0},
        {"bfind.u32", "rr", {0x00080001}, 19, 0},
        {"bfind.u32", "rr", {0}, none, 0},
        {"bfind.shiftamt.u32", "rr", {0x00080001}, 12, 0},
        {"bfind.s32", "rr", {0xfffffffb}, 2, 0},
        {"bfind.s32", "rr", {0xffffffff}, none, 0},
        {"bfind.u64", "rl", {1ull << 63}, 63, 0},
        {"bfind.s64", "rl", {(uint64_t)-5}, 2, 0},
        {"bfind.shiftamt.s64", "rl", {(uint64_t)-5}, 61, 0},
        {"fns.b32", "rrrr", {0xaaaaaaaa, 3, 1}, 3, 0},
        {"fns.b32", "rrrr", {0xaaaaaaaa, 3, 0xffffffff}, 3, 0},
        {"fns.b32", "rrrr", {0xaaaaaaaa, 2, 1}, 3, 0},
        {"fns.b32", "rrrr", {0xaaaaaaaa, 2, 0xffffffff}, 1, 0},
        {"fns.b32", "rrrr", {0xaaaaaaaa, 3, 0}, 3, 0},
        {"fns.b32", "rrrr", {0xaaaaaaaa, 2, 0}, none, 0},
        {"fns.b32", "rrrr", {0xaaaaaaaa, 0, 17}, none, 0},
        {"fns.b32", "rrrr", {0xaaaaaaaa, 31, 0x80000000}, none, 0},
        {"brev.b32", "rr", {0x00000003}, 0xc0000000, 0},
        {"brev.b64", "ll", {0x13}, 0xc800000000000000, 0},
        {"bfe.u32", "rrrr", {0xabcd1234, 8, 12}, 0xd12, 0},
        {"bfe.u32", "rrrr", {0xabcd1234, 24, 12}, 0xab, 0},
        {"bfe.u32", "rrrr", {0xabcd1234, 40, 12}, 0, 0},
        {"bfe.u32", "rrrr", {0xabcd1234, 0, 0}, 0, 0},
        {"bfe.u32", "rrrr", {0xabcd1234, 0x104, 0x108}, 0x23, 0},
        {"bfe.s32", "rrrr", {0xabcd1234, 16, 8}, 0xffffffcd, 0},
        {"bfe.s32", "rrrr", {0xabcd1234, 24, 12}, 0xffffffab, 0},
        {"bfe.s32", "rrrr", {0xabcd1234, 40, 3}, 0xffffffff, 0},
        {"bfe.s32", "rrrr", {0xabcd1234, 40, 0}, 0, 0},
        {"bfe.s32", "rrrr", {0x00000234, 4, 4}, 3, 0},
        {"bfe.u64", "llrr", {0x123456789abcdef0, 32, 16}, 0x5678, 0},
        {"bfe.u64", "llrr", {~0ull, 0, 255}, ~0ull, 0},
        {"bfe.s64", "llrr", {0xf23456789abcdef0, 60, 16}, ~0ull, 0},
        {"bfe.s64", "llrr", {0xf23456789abcdef0, 255, 255}, ~0ull, 0},
        {"bfi.b32", "rrrrr", {0xff, 0x12345678, 8, 8}, 0x1234ff78, 0},
        {"bfi.b32", "rrrrr", {0xff, 0x12345678, 28, 8}, 0xf2345678, 0},
        {"bfi.b32", "rrrrr", {0xff, 0x12345678, 32, 8}, 0x12345678, 0},
        {"bfi.b32", "rrrrr", {0xff, 0x12345678, 0, 0}, 0x12345678, 0},
        {"bfi.b32", "rrrrr", {0xff, 0x12345678, 0, 32}, 0xff, 0},
        {"bfi.b64", "lllrr", {0x1, 0, 63, 1}, 1ull << 63, 0},
        {"bfi.b64", "lllrr", {0x1, ~0ull, 0, 64}, 1, 0},
        {"szext.clamp.s32", "rrr", {0x88, 8}, 0xffffff88, 0},
        {"szext.clamp.s32", "rrr", {0x88, 32}, 0x88, 0},
        {"szext.wrap.s32", "rrr", {0x88, 36}, 0xfffffff8, 0},
        {"szext.wrap.u32", "rrr", {0xffffffff, 0}, 0, 0},
        {"szext.clamp.u32", "rrr", {0xffffffff, 4}, 15, 0},
        {"bmsk.wrap.b32", "rrr", {1, 2}, 6, 0},
        {"bmsk.clamp.b32", "rrr", {32, 2}, 0, 0},
        {"bmsk.clamp.b32", "rrr", {4, 40}, 0xfffffff0, 0},
        {"bmsk.wrap.b32", "rrr", {33, 34}, 6, 0},
        {"bmsk.wrap.b32", "rrr", {0, 32}, 0, 0},
        {"bmsk.clamp.b32", "rrr", {30, 8}, 0xc0000000, 0},
    };
    ALU_CHECK_TABLE(checks);
}

/* A chain's carry stays in the warp, lane by lane. */
void test_carries(void **state)
{
    (void)state;
    static const struct {
        const char *opcode, *kinds;
        bool carry_in;
        uint64_t sources[3], result;
        bool carry_out;
    } checks[] = {
        {"add.cc.u32", "rrr", true, {0xffffffff, 1}, 0, true},
        {"add.cc.s32", "rrr", true, {5, 6}, 11, false},
        {"add.cc.u64", "lll", false, {~0ull, 1}, 0, true},
        {"add.cc.s64", "lll", false, {1, 2}, 3, false},
        {"addc.u32", "rrr", true, {1, 2}, 4, true},
        {"addc.s32", "rrr", false, {1, 2}, 3, false},
        {"addc.cc.u32", "rrr", true, {0xffffffff, 0xffffffff}, 0xffffffff, true},
        {"addc.cc.s32", "rrr", true, {0xffffffff, 0}, 0, true},
        {"addc.cc.u64", "lll", true, {~0ull, 0}, 0, true},
        {"addc.cc.s64", "lll", false, {~0ull, 0}, ~0ull, false},
        {"sub.cc.u32", "rrr", true, {1, 2}, 0xffffffff, true},
        {"sub.cc.s32", "rrr", true, {2, 2}, 0, false},
        {"sub.cc.u64", "lll", true, {1, 2}, ~0ull, true},
        {"sub.cc.s64", "lll", true, {3, 2}, 1, false},
        {"subc.u32", "rrr", true, {3, 2}, 0, true},
        {"subc.s32", "rrr", false, {3, 2}, 1, false},
        {"subc.cc.u32", "rrr", true, {2, 2}, 0xffffffff, true},
        {"subc.cc.s32", "rrr", false, {2, 2}, 0, false},
        {"subc.cc.u64", "lll", true, {0, ~0ull}, 0, true},
        {"subc.cc.s64", "lll", true, {5, 2}, 2, false},
        {"mad.lo.cc.u32", "rrrr", true, {0x10000, 0xffff, 0x00010000}, 0, true},
        {"mad.lo.cc.s32", "rrrr", true, {3, 4, 5}, 17, false},
        {"mad.hi.cc.u32", "rrrr", true, {0xffffffff, 0xffffffff, 2}, 0, true},
        {"mad.hi.cc.s32", "rrrr", true, {0xffffffff, 1, 0}, 0xffffffff, false},
        {"mad.lo.cc.u64", "llll", false, {1ull << 63, 2, 7}, 7, false},
        {"mad.hi.cc.s64", "llll", false, {~0ull, 1, 1}, 0, true},
        {"madc.lo.u32", "rrrr", true, {3, 4, 5}, 18, true},
        {"madc.lo.s32", "rrrr", false, {3, 4, 5}, 17, false},
        {"madc.hi.u64", "llll", true, {1ull << 63, 4, 5}, 8, true},
        {"madc.hi.cc.u32", "rrrr", true, {1u << 31, 2, 0xfffffffe}, 0, true},
        {"madc.lo.cc.s64", "llll", true, {1, ~0ull, 0}, 0, true},
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        struct alu_test test;
        const uint32_t mask = 0xffff00f0;
        alu_load(&test, checks[i].opcode, checks[i].kinds, NULL);
        for (int k = 1; checks[i].kinds[k]; k++) {
            alu_set_all(&test, k, checks[i].sources[k - 1]);
        }
        test.warp.carry = checks[i].carry_in ? EMU_ALL_LANES : 0;
        assert_int_equal(alu_run(&test, mask), EMU_NEXT);
        for (int lane = 0; lane < EMU_LANES; lane++) {
            const bool is_on = mask >> lane & 1;
            assert_int_equal(test.warp.carry >> lane & 1, is_on ? checks[i].carry_out : checks[i].carry_in);
            if (is_on && alu_get(&test, lane, 0) != checks[i].result) {
                fail_msg("%s: 0x%llx", checks[i].opcode, (unsigned long long)alu_get(&test, lane, 0));
            }
        }
        alu_free(&test);
    }
}

void test_logic(void **state)
{
    (void)state;
    const struct alu_check checks[] = {
        {"and.b16", "hhi", {0xff0f, (uint64_t)-16}, 0xff00, 0},
        {"and.b32", "rrr", {0xff00ff00, 0x0ff00ff0}, 0x0f000f00, 0},
        {"and.b64", "lll", {~0ull, 5}, 5, 0},
        {"or.b16", "hhh", {0xf000, 0x000f}, 0xf00f, 0},
        {"or.b32", "rrr", {0xf0000000, 1}, 0xf0000001, 0},
        {"or.b64", "lll", {1ull << 63, 1}, 0x8000000000000001, 0},
        {"xor.b16", "hhh", {0xffff, 0x00ff}, 0xff00, 0},
        {"xor.b32", "rrr", {0xffffffff, 0x00ff00ff}, 0xff00ff00, 0},
        {"xor.b64", "lll", {~0ull, 1}, ~0ull - 1, 0},
        {"not.b16", "hh", {0x00ff}, 0xff00, 0},
        {"not.b32", "rr", {0x00ff00ff}, 0xff00ff00, 0},
        {"not.b64", "ll", {0}, ~0ull, 0},
        {"cnot.b16", "hh", {0}, 1, 0},
        {"cnot.b32", "rr", {7}, 0, 0},
        {"cnot.b32", "rr", {0}, 1, 0},
        {"cnot.b64", "ll", {1ull << 40}, 0, 0},
        {"and.pred", "ppp", {1, 1}, 1, 0},
        {"and.pred", "ppn", {1, 1}, 0, 0},
        {"or.pred", "ppp", {0, 1}, 1, 0},
        {"or.pred", "ppp", {0, 0}, 0, 0},
        {"xor.pred", "ppp", {1, 1}, 0, 0},
        {"xor.pred", "pnp", {1, 1}, 1, 0},
        {"not.pred", "pp", {1}, 0, 0},
        {"lop3.b32", "rrrri", {0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa, 0x96}, 0x96969696, 0},
        {"lop3.b32", "rrrri", {0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa, 0x1b}, 0x1b1b1b1b, 0},
        {"lop3.b32", "rrrri", {0xff00ff00, 0x0ff00ff0, 0x12345678, 0xc0}, 0x0f000f00, 0},
        {"lop3.or.b32", "Srrrip", {0, 0, 0, 0xc0, 0}, 0, 0},
        {"lop3.or.b32", "Srrrip", {0, 0, 0, 0xc0, 1}, 0, 1},
        {"lop3.and.b32", "Srrrip", {1, 1, 0, 0xc0, 0}, 1, 0},
        {"lop3.and.b32", "Srrrip", {1, 1, 0, 0xc0, 1}, 1, 1},
    };
    ALU_CHECK_TABLE(checks);
}

void test_shifts(void **state)
{
    (void)state;
    const struct alu_check checks[] = {
        {"shl.b16", "hhr", {0x8001, 1}, 2, 0},
        {"shl.b16", "hhr", {0x8001, 16}, 0, 0},
        {"shl.b32", "rri", {3, 31}, 0x80000000, 0},
        {"shl.b32", "rrr", {3, 31}, 0x80000000, 0},
        {"shl.b32", "rrr", {3, 32}, 0, 0},
        {"shl.b32", "rrr", {3, 0xffffffff}, 0, 0},
        {"shl.b64", "llr", {3, 63}, 1ull << 63, 0},
        {"shl.b64", "lli", {3, 64}, 0, 0},
        {"shr.b16", "hhr", {0x8000, 15}, 1, 0},
        {"shr.u16", "hhr", {0x8000, 16}, 0, 0},
        {"shr.s16", "hhr", {0x8000, 3}, 0xf000, 0},
        {"shr.s16", "hhr", {0x8000, 99}, 0xffff, 0},
        {"shr.b32", "rrr", {0x80000000, 31}, 1, 0},
        {"shr.u32", "rri", {0x80000000, 4}, 0x08000000, 0},
        {"shr.u32", "rrr", {0x80000000, 32}, 0, 0},
        {"shr.s32", "rri", {0x80000000, 4}, 0xf8000000, 0},
        {"shr.s32", "rrr", {0x80000000, 32}, 0xffffffff, 0},
        {"shr.s32", "rrr", {0x70000000, 77}, 0, 0},
        {"shr.b64", "llr", {1ull << 63, 63}, 1, 0},
        {"shr.u64", "llr", {1ull << 63, 64}, 0, 0},
        {"shr.s64", "llr", {1ull << 63, 64}, ~0ull, 0},
        {"shr.s64", "lli", {1ull << 63, 60}, 0xfffffffffffffff8, 0},
        {"shf.l.clamp.b32", "rrrr", {0x80000000, 0x00000001, 1}, 3, 0},
        {"shf.l.clamp.b32", "rrrr", {0x12345678, 0x9abcdef0, 32}, 0x12345678, 0},
        {"shf.l.clamp.b32", "rrrr", {0x12345678, 0x9abcdef0, 99}, 0x12345678, 0},
        {"shf.l.wrap.b32", "rrrr", {0x12345678, 0x9abcdef0, 36}, 0xabcdef01, 0},
        {"shf.l.wrap.b32", "rrrr", {0x12345678, 0x9abcdef0, 32}, 0x9abcdef0, 0},
        {"shf.r.clamp.b32", "rrrr", {0x12345678, 0x9abcdef0, 4}, 0x01234567, 0},
        {"shf.r.clamp.b32", "rrrr", {0x12345678, 0x9abcdef0, 40}, 0x9abcdef0, 0},
        {"shf.r.wrap.b32", "rrrr", {0x12345678, 0x9abcdef0, 40}, 0xf0123456, 0},
    };
    ALU_CHECK_TABLE(checks);
}

void test_permute(void **state)
{
    (void)state;
    const uint64_t a = 0x33221100, b = 0xf7e6d5c4; /* bytes 0 to 7: 00 11 22 33 c4 d5 e6 f7 */
    const struct alu_check checks[] = {
        {"prmt.b32", "rrrr", {a, b, 0x3210}, a, 0},          {"prmt.b32", "rrrr", {a, b, 0x7654}, b, 0},
        {"prmt.b32", "rrrr", {a, b, 0x5410}, 0xd5c41100, 0}, {"prmt.b32", "rrrr", {a, b, 0xf8c3}, 0xff00ff33, 0},
        {"prmt.b32", "rrri", {a, b, 0x0123}, 0x00112233, 0}, {"prmt.b32.f4e", "rrrr", {a, b, 0}, 0x33221100, 0},
        {"prmt.b32.f4e", "rrrr", {a, b, 3}, 0xe6d5c433, 0},  {"prmt.b32.b4e", "rrrr", {a, b, 0}, 0xd5e6f700, 0},
        {"prmt.b32.b4e", "rrrr", {a, b, 3}, 0x00112233, 0},  {"prmt.b32.rc8", "rrrr", {a, b, 2}, 0x22222222, 0},
        {"prmt.b32.ecl", "rrrr", {a, b, 1}, 0x33221111, 0},  {"prmt.b32.ecl", "rrrr", {a, b, 2}, 0x33222222, 0},
        {"prmt.b32.ecr", "rrrr", {a, b, 1}, 0x11111100, 0},  {"prmt.b32.ecr", "rrrr", {a, b, 2}, 0x22221100, 0},
        {"prmt.b32.rc16", "rrrr", {a, b, 1}, 0x33223322, 0}, {"prmt.b32.rc16", "rrrr", {a, b, 6}, 0x11001100, 0},
    };
    ALU_CHECK_TABLE(checks);
}
