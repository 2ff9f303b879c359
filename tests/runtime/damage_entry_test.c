/* 5,000 damaged entries: cut at every boundary, flipped in every field, swapped, for another target, of an older and a
 * newer format. What reaches the stub driver is the sound code or nothing (facts/jit.md §2 #6, #7; §0.1). Draws from a
 * fixed seed. */
#include "damage.h"

static void test_6_entry_cut(void **state)
{
    (void)state;
    for (size_t size = 1; size < the.entry_size; size++)
        assert_false(entry_serves(the.entry, size));
    assert_true(entry_serves(the.entry, the.entry_size));
}

static void test_7_entry_flips(void **state)
{
    uint8_t *copy = copy_of(the.entry, the.entry_size);

    (void)state;
    for (int round = 0; the.attempts < DAMAGE_ATTEMPTS || round == 0; round++)
        for (size_t at = 0; at < the.entry_size; at++) {
            copy[at] ^= (uint8_t)(1u << draw() % 8);
            /* Readers ignore the four bytes before the metadata, but the digest does not. */
            assert_false(entry_serves(copy, the.entry_size));
            copy[at] = the.entry[at];
        }
    free(copy);
}

static void entry_formats(void **state)
{
    uint8_t *copy = copy_of(the.entry, the.entry_size);

    (void)state;
    for (uint16_t major = 0; major < 40; major++) {
        rt_put_le16(copy + ENTRY_MAJOR, major);
        seal_entry(copy);
        assert_int_equal(entry_serves(copy, the.entry_size), major == 1);
    }
    free(copy);
}

/* A sound entry for another card under the wanted kernel's id (facts/jit.md §2 #55, #56): code for it would load, and
 * fail at the first use or later. */
static void test_55_56_foreign_target(void **state)
{
    static const char *const targets[] = {"sm_80", "sm_90", "sm_100a", "sm_100f", "sm_103a"};

    (void)state;
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        struct rt_entry entry, foreign;
        char why[256];
        uint8_t *code = copy_of(the.code, the.code_size), *bytes = NULL;
        size_t size;
        char *note = memmem(code, the.code_size, "-arch sm_90a", 12);

        assert_non_null(note);
        snprintf(note + 6, 10, "%s", targets[i]);
        assert_true(rt_entry_read(copy_of(the.entry, the.entry_size), the.entry_size, NULL, &entry, why));
        snprintf(entry.info.arch, sizeof entry.info.arch, "%s", targets[i]);
        assert_int_equal(rt_entry_write(&entry.info, code, the.code_size, entry.log, &foreign), SMLA_OK);
        assert_int_equal(rt_smlab_build(&foreign, 1, &bytes, &size), SMLA_OK);
        assert_false(bundle_serves(bytes, size));
        memcpy(bytes + HEADER + ROW_TARGET, "sm_90a\0", 8); /* and the index that hides it */
        put_digest(bytes + 48, bytes + HEADER, ROW);
        put_digest(bytes + HEADER - DIGEST, bytes, HEADER - DIGEST);
        assert_false(bundle_serves(bytes, size));
        assert_false(entry_serves(foreign.file, foreign.file_size));
        rt_entry_free(&foreign);
        rt_entry_free(&entry);
        free(bytes);
        free(code);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_6_entry_cut),
        cmocka_unit_test(entry_formats),
        cmocka_unit_test(test_55_56_foreign_target),
        cmocka_unit_test(test_7_entry_flips),
    };
    return cmocka_run_group_tests_name("runtime.damage_entry", tests, damage_setup, damage_teardown);
}
