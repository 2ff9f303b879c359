/* The opcode matcher: patterns, tokens, operand letters, refusals; and the check of a table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "match.h"

static const enum emu_shape V = EMU_SHAPE_VALUE, M = EMU_SHAPE_ADDRESS, T = EMU_SHAPE_TENSOR, L = EMU_SHAPE_LABEL;

struct table {
    struct emu_arena *arena;
    struct emu_matcher matcher;
    char why[512];
};

static bool make(struct table *table, const struct emu_row *rows, size_t count)
{
    const struct emu_row_list list = {rows, count};
    const struct emu_row_list *const lists[] = {&list};
    table->arena = emu_arena_create((size_t)1 << 24);
    return emu_matcher_init(&table->matcher, table->arena, lists, 1, table->why);
}

#define MAKE(table, ...)                                                                                               \
    const struct emu_row rows[] = {__VA_ARGS__};                                                                       \
    assert_true(make(table, rows, sizeof rows / sizeof *rows))

/* The candidate's tokens, joined by '/'; NULL when there is none. */
static const char *tokens_of(struct table *table, const char *opcode)
{
    static char joined[256];
    struct emu_candidates found;
    *joined = '\0';
    if (!emu_match_opcode(&table->matcher, table->arena, opcode, &found, table->why))
        return NULL;
    for (int i = 0; i < found.items[0].token_count; i++) {
        strcat(joined, i ? "/" : "");
        strcat(joined, found.items[0].tokens[i]);
    }
    return joined;
}

static void elements_are_matched(void **state)
{
    (void)state;
    struct table table;
    MAKE(&table, {"add.{rn,rz}.{ftz}.[f32,f64]", "dss", NULL, NULL}, {"mma.m64n#k16.f32", "dss", NULL, NULL},
         {"cp.async.shared::cta.{L2::64B,L2::128B}.{noinc}", "mm", NULL, NULL}, {"ret", "", NULL, NULL});
    assert_string_equal(tokens_of(&table, "add.f32"), "//f32");
    assert_string_equal(tokens_of(&table, "add.rz.ftz.f64"), "rz/ftz/f64");
    assert_string_equal(tokens_of(&table, "add.ftz.f64"), "/ftz/f64");
    assert_string_equal(tokens_of(&table, "mma.m64n256k16.f32"), "m64n256k16/f32");
    assert_string_equal(tokens_of(&table, "cp.async.shared::cta.L2::128B"), "async/shared::cta/L2::128B/");
    assert_string_equal(tokens_of(&table, "ret"), "");
    assert_null(tokens_of(&table, "add.ftz.rn.f32"));
    assert_null(tokens_of(&table, "add.rn.ftz"));
    assert_null(tokens_of(&table, "add.f32.f32"));
    assert_null(tokens_of(&table, "mma.m64nk16.f32"));
    assert_null(tokens_of(&table, "mma.m64n8k16x.f32"));
    assert_null(tokens_of(&table, "ret."));
    emu_arena_destroy(table.arena);
}

static void refusals_name_the_nearest(void **state)
{
    (void)state;
    struct table table;
    MAKE(&table, {"fma.rn.f64", "dsss", NULL, NULL}, {"fma.[rn,rz].f32", "dsss", NULL, NULL});
    assert_null(tokens_of(&table, "fma.rz.f16"));
    assert_string_equal(table.why,
                        "fma.rz.f16 is not in the permitted set; the nearest there: fma.[rn,rz].f32 fma.rn.f64");
    assert_null(tokens_of(&table, "tex.2d"));
    assert_string_equal(table.why, "tex.2d is not in the permitted set; nothing there has this name");
    emu_arena_destroy(table.arena);
}

static const struct emu_candidate *match_shapes(struct table *table, const char *opcode, int count,
                                                const enum emu_shape *shapes)
{
    static struct emu_candidates found;
    assert_true(emu_match_opcode(&table->matcher, table->arena, opcode, &found, table->why));
    return emu_match_operands(&found, opcode, shapes, count, table->why);
}

static void operands_choose_the_row(void **state)
{
    (void)state;
    struct table table;
    MAKE(&table, {"copy.b32", "dm?ss", NULL, NULL}, {"copy.{b32}", "tm", NULL, NULL}, {"bra.{uni}", "l", NULL, NULL});
    assert_ptr_equal(match_shapes(&table, "copy.b32", 2, (enum emu_shape[]){V, M})->row, &rows[0]);
    assert_ptr_equal(match_shapes(&table, "copy.b32", 4, (enum emu_shape[]){V, M, V, V})->row, &rows[0]);
    assert_ptr_equal(match_shapes(&table, "copy.b32", 2, (enum emu_shape[]){T, M})->row, &rows[1]);
    assert_ptr_equal(match_shapes(&table, "bra", 1, (enum emu_shape[]){L})->row, &rows[2]);
    assert_null(match_shapes(&table, "bra", 1, (enum emu_shape[]){V}));
    assert_null(match_shapes(&table, "copy.b32", 1, (enum emu_shape[]){V}));
    assert_null(match_shapes(&table, "copy.b32", 5, (enum emu_shape[]){V, M, V, V, V}));
    assert_non_null(strstr(table.why, "does not take these 5 operands"));
    emu_arena_destroy(table.arena);
}

static bool table_is_sound(const char *first, const char *first_operands, const char *second,
                           const char *second_operands)
{
    const struct emu_row rows[] = {{first, first_operands, NULL, NULL}, {second, second_operands, NULL, NULL}};
    struct table table;
    bool sound = make(&table, rows, 2) && emu_matcher_check(&table.matcher, table.why);
    emu_arena_destroy(table.arena);
    return sound;
}

static void tables_are_checked(void **state)
{
    (void)state;
    assert_true(table_is_sound("add.f32", "dss", "add.f64", "dss"));
    assert_true(table_is_sound("add.f32", "dss", "sub.f32", "dss"));
    assert_false(table_is_sound("add.f32", "dss", "add.{rn}.[f32,f64]", "dss"));
    assert_true(table_is_sound("add.f32", "dss", "add.{rn}.[f32,f64]", "ds"));
    assert_false(table_is_sound("add.f32", "ds?s", "add.{rn}.[f32,f64]", "ds"));
    assert_true(table_is_sound("ld.f32", "ds", "ld.f32", "dm"));
    assert_false(table_is_sound("mma.m64n#k16", "d", "mma.m64n8k16", "d"));
    assert_true(table_is_sound("mma.m64n#k16", "d", "mma.m64n8k8", "d"));
    assert_false(table_is_sound("a.{x}.{x,y}.z", "d", "b", "")); /* a.x.z in two ways */
    assert_true(table_is_sound("a.{x}.y.{x}", "d", "b", ""));
    assert_false(table_is_sound("a.[x,y.z]", "d", "b", ""));
    assert_false(table_is_sound("a.[x", "d", "b", ""));
    assert_false(table_is_sound("a.", "d", "b", ""));
    assert_false(table_is_sound("a.x", "dq", "b", ""));
    assert_false(table_is_sound("a.[]", "d", "b", ""));
}

/* An opcode can be anything. */
static void odd_opcodes_are_refused(void **state)
{
    (void)state;
    struct table table;
    char longest[600];
    MAKE(&table, {"a.{b}.{c}", "", NULL, NULL});
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_null(tokens_of(&table, longest));
    assert_null(tokens_of(&table, "a.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b"));
    assert_null(tokens_of(&table, ""));
    assert_null(tokens_of(&table, "a."));
    emu_arena_destroy(table.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_matched),    cmocka_unit_test(refusals_name_the_nearest),
        cmocka_unit_test(operands_choose_the_row), cmocka_unit_test(tables_are_checked),
        cmocka_unit_test(odd_opcodes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
