/* set, setp, selp, slct. */
#include "test_alu.h"

#include <stdio.h>
#include <string.h>

void test_comparisons(void **state)
{
    (void)state;
    const uint64_t nan = F_NAN, small = 0x00000001; /* a subnormal */
    const struct alu_check checks[] = {
        {"setp.eq.b16", "phi", {0xffff, (uint64_t)-1}, 1, 0},
        {"setp.ne.b32", "prr", {1, 2}, 1, 0},
        {"setp.eq.b64", "pll", {1ull << 40, 1ull << 40}, 1, 0},
        {"setp.lt.u16", "phh", {1, 0xffff}, 1, 0},
        {"setp.lt.s16", "phh", {1, 0xffff}, 0, 0},
        {"setp.lt.u32", "prr", {1, 0xffffffff}, 1, 0},
        {"setp.lt.s32", "pri", {1, (uint64_t)-1}, 0, 0},
        {"setp.lo.u32", "prr", {1, 0xffffffff}, 1, 0},
        {"setp.ls.u64", "pll", {5, 5}, 1, 0},
        {"setp.hi.u16", "phh", {5, 4}, 1, 0},
        {"setp.hs.u32", "prr", {4, 5}, 0, 0},
        {"setp.gt.s64", "pll", {~0ull, 0}, 0, 0},
        {"setp.ge.u64", "pll", {~0ull, 0}, 1, 0},
        {"setp.lt.f32", "prr", {F(-0.0f), F(0.0f)}, 0, 0},
        {"setp.eq.f32", "prr", {F(-0.0f), F(0.0f)}, 1, 0},
        {"setp.lt.f32", "prr", {nan, F(0.0f)}, 0, 0},
        {"setp.ltu.f32", "prr", {nan, F(0.0f)}, 1, 0},
        {"setp.gt.f32", "prr", {small, F(0.0f)}, 1, 0},
        {"setp.gt.ftz.f32", "prr", {small, F(0.0f)}, 0, 0},
        {"setp.nan.f64", "pll", {D(1.0), 0x7ff8000000000000}, 1, 0},
        {"setp.num.f64", "pll", {D(1.0), 0x7ff8000000000000}, 0, 0},
        {"setp.lt.f16", "phh", {0xbc00, 0x3c00}, 1, 0},
        {"setp.gt.ftz.f16", "phh", {0x0001, 0x0000}, 0, 0},
        {"setp.gt.bf16", "phh", {0x3f80, 0x3f00}, 1, 0},
        {"setp.lt.f16x2", "Prr", {0x3c00bc00, 0x00000000}, 1, 0},
        {"setp.gt.bf16x2", "Prr", {0x3f80bf80, 0x00000000}, 0, 1},
        {"setp.lt.s32", "Prr", {1, 2}, 1, 0},
        {"setp.lt.and.s32", "Prrp", {1, 2, 1}, 1, 0},
        {"setp.lt.and.s32", "Prrp", {2, 1, 1}, 0, 1},
        {"setp.lt.and.s32", "prrp", {1, 2, 0}, 0, 0},
        {"setp.lt.or.s32", "prrn", {2, 1, 0}, 1, 0},
        {"setp.lt.xor.s32", "prrp", {1, 2, 1}, 0, 0},
        {"set.lt.u32.s32", "rrr", {0xffffffff, 1}, 0xffffffff, 0},
        {"set.lt.s32.u32", "rrr", {0xffffffff, 1}, 0, 0},
        {"set.ge.f32.f32", "rrr", {F(2.0f), F(2.0f)}, F(1.0f), 0},
        {"set.gt.ftz.f32.f32", "rrr", {small, F(0.0f)}, 0, 0},
        {"set.eq.u32.b16", "rhh", {3, 3}, 0xffffffff, 0},
        {"set.ne.u32.b32", "rrr", {3, 3}, 0, 0},
        {"set.eq.u32.b64", "rll", {3, 3}, 0xffffffff, 0},
        {"set.le.u32.u16", "rhh", {3, 4}, 0xffffffff, 0},
        {"set.le.u32.s16", "rhh", {0xffff, 4}, 0xffffffff, 0},
        {"set.lo.u32.u64", "rll", {1, 2}, 0xffffffff, 0},
        {"set.ls.u32.u64", "rll", {3, 2}, 0, 0},
        {"set.hi.u32.u64", "rll", {3, 2}, 0xffffffff, 0},
        {"set.hs.u32.u64", "rll", {2, 2}, 0xffffffff, 0},
        {"set.gt.u32.s64", "rll", {~0ull, 2}, 0, 0},
        {"set.equ.u32.f64", "rll", {D(1.0), D(2.0)}, 0, 0},
        {"set.neu.u32.f32", "rrr", {nan, nan}, 0xffffffff, 0},
        {"set.ltu.u32.f32", "rrr", {F(1.0f), F(2.0f)}, 0xffffffff, 0},
        {"set.leu.u32.f32", "rrr", {F(3.0f), F(2.0f)}, 0, 0},
        {"set.gtu.u32.f32", "rrr", {F(3.0f), F(2.0f)}, 0xffffffff, 0},
        {"set.geu.u32.f32", "rrr", {F(1.0f), F(2.0f)}, 0, 0},
        {"set.num.xor.s32.bf16", "rhhp", {0x3f80, 0x3f80, 1}, 0, 0},
        {"set.nan.or.u32.f32", "rrrp", {nan, 0, 0}, 0xffffffff, 0},
        {"set.lt.and.f16.f16", "hhhp", {0, 0x3c00, 1}, 0x3c00, 0},
        {"set.lt.and.u16.f16", "hhhp", {0, 0x3c00, 1}, 0xffff, 0},
        {"set.lt.s16.f16", "hhh", {0x3c00, 0}, 0, 0},
        {"set.lt.bf16.f16", "hhh", {0, 0x3c00}, 0x3f80, 0},
        {"set.eq.f16x2.f16x2", "rrr", {0x3c000000, 0x3c003c00}, 0x3c000000, 0},
        {"set.eq.u32.f16x2", "rrr", {0x3c000000, 0x3c003c00}, 0xffff0000, 0},
        {"set.equ.bf16x2.bf16x2", "rrr", {0x3f807fff, 0x3f803f80}, 0x3f803f80, 0},
        {"set.geu.s32.bf16x2", "rrr", {0x3f800000, 0x3f803f80}, 0xffff0000, 0},
    };
    ALU_CHECK_TABLE(checks);
}

/* Every comparison of every type on the four outcomes. */
void test_all_comparisons(void **state)
{
    (void)state;
    static const struct {
        const char *name, *outcomes; /* for which it holds: less, equal, greater, unordered */
    } comparisons[] = {{"eq", "E"},   {"ne", "LG"},   {"lt", "L"},   {"le", "LE"},   {"gt", "G"},    {"ge", "GE"},
                       {"lo", "L"},   {"ls", "LE"},   {"hi", "G"},   {"hs", "GE"},   {"equ", "EU"},  {"neu", "LGU"},
                       {"ltu", "LU"}, {"leu", "LEU"}, {"gtu", "GU"}, {"geu", "GEU"}, {"num", "LEG"}, {"nan", "U"}};
    static const struct {
        const char *name;
        char kind;
        const char *set; /* which comparisons: bits, integers, unsigned, float */
        uint64_t low, high, nan;
    } types[] = {
        {"b16", 'h', "b", 1, 2, 0},
        {"b32", 'r', "b", 1, 2, 0},
        {"b64", 'l', "b", 1, 2, 0},
        {"u16", 'h', "u", 1, 0xffff, 0},
        {"u32", 'r', "u", 1, 0xffffffff, 0},
        {"u64", 'l', "u", 1, ~0ull, 0},
        {"s16", 'h', "s", 0xffff, 1, 0},
        {"s32", 'r', "s", 0xffffffff, 1, 0},
        {"s64", 'l', "s", ~0ull, 1, 0},
        {"f16", 'h', "f", 0xbc00, 0x3c00, 0x7e00},
        {"bf16", 'h', "f", 0xbf80, 0x3f80, 0x7fc0},
        {"f32", 'r', "f", 0xbf800000, 0x3f800000, 0x7fc00000},
        {"f64", 'l', "f", 0xbff0000000000000, 0x3ff0000000000000, 0x7ff8000000000000},
    };
    for (size_t c = 0; c < sizeof comparisons / sizeof *comparisons; c++) {
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            const char set = types[t].set[0];
            const bool ok =
                c < 2 || (c < 6 && set != 'b') || (c >= 6 && c < 10 && set == 'u') || (c >= 10 && set == 'f');
            char opcode[32], kinds[8];
            snprintf(opcode, sizeof opcode, "setp.%s.%s", comparisons[c].name, types[t].name);
            snprintf(kinds, sizeof kinds, "p%c%c", types[t].kind, types[t].kind);
            if (!ok) {
                alu_refused(opcode, kinds);
                continue;
            }
            const uint64_t low = types[t].low, high = types[t].high, nan = types[t].nan;
            const struct {
                char outcome;
                uint64_t a, b;
            } cases[] = {{'L', low, high}, {'E', low, low},  {'E', high, high}, {'G', high, low},
                         {'U', nan, low},  {'U', high, nan}, {'U', nan, nan}};
            struct alu_test test;
            alu_load(&test, opcode, kinds, NULL);
            for (size_t i = 0; i < (set == 'f' ? 7 : 4); i++) {
                alu_set_all(&test, 1, cases[i].a);
                alu_set_all(&test, 2, cases[i].b);
                alu_run(&test, EMU_ALL_LANES);
                const bool holds = strchr(comparisons[c].outcomes, cases[i].outcome);
                /* bits have no order, but they differ either way */
                if (alu_get(&test, 17, 0) != holds) {
                    fail_msg("%s on outcome %c", opcode, cases[i].outcome);
                }
            }
            alu_free(&test);
        }
    }
}

void test_selections(void **state)
{
    (void)state;
    const struct alu_check checks[] = {
        {"selp.b16", "hhhp", {1, 2, 1}, 1, 0},
        {"selp.u16", "hiip", {1, 0, 0}, 0, 0},
        {"selp.s16", "hiip", {(uint64_t)-1, 0, 1}, 0xffff, 0},
        {"selp.b32", "rrrp", {1, 2, 0}, 2, 0},
        {"selp.u32", "rrrn", {1, 2, 0}, 1, 0},
        {"selp.s32", "riip", {(uint64_t)-1, 0, 1}, 0xffffffff, 0},
        {"selp.f32", "rrrp", {F(1.0f), F_NAN, 0}, F_NAN, 0},
        {"selp.b64", "lllp", {1ull << 40, 2, 1}, 1ull << 40, 0},
        {"selp.u64", "lllp", {1, 2, 0}, 2, 0},
        {"selp.s64", "liip", {(uint64_t)-1, 0, 1}, ~0ull, 0},
        {"selp.f64", "lllp", {D(1.0), D(2.0), 1}, D(1.0), 0},
        {"slct.b16.s32", "hhhr", {1, 2, 0}, 1, 0},
        {"slct.u16.s32", "hhhr", {1, 2, 0xffffffff}, 2, 0},
        {"slct.s16.s32", "hhhr", {1, 2, 5}, 1, 0},
        {"slct.b32.s32", "rrrr", {1, 2, 0x80000000}, 2, 0},
        {"slct.u32.f32", "rrrr", {1, 2, F(-0.0f)}, 1, 0},
        {"slct.s32.f32", "rrrr", {1, 2, F_NAN}, 2, 0},
        {"slct.f32.f32", "rrrr", {1, 2, 0x80000001}, 2, 0},
        {"slct.ftz.f32.f32", "rrrr", {1, 2, 0x80000001}, 1, 0},
        {"slct.b64.s32", "lllr", {1, 2, 0xffffffff}, 2, 0},
        {"slct.u64.s32", "lllr", {1, 2, 1}, 1, 0},
        {"slct.s64.s32", "lllr", {1, 2, 1}, 1, 0},
        {"slct.f64.f32", "lllr", {1, 2, F(-1.0f)}, 2, 0},
    };
    ALU_CHECK_TABLE(checks);
}
