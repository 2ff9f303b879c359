/* The whole opcode table: well formed, and no two rows for one instruction. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "decode.h"

static void no_two_rows_fit_one_instruction(void **state)
{
    (void)state;
    struct emu_arena *arena = emu_arena_create((size_t)1 << 26);
    struct emu_matcher matcher;
    char why[512];
    if (!emu_matcher_init(&matcher, arena, emu_opcode_table, emu_opcode_table_count, why) ||
        !emu_matcher_check(&matcher, why))
        fail_msg("%s", why);
    assert_true(matcher.count > 100);
    emu_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_two_rows_fit_one_instruction)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
