#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache.h"
#include "sample.h"

/* NULL: unset. */
struct row {
    const char *own;
    const char *xdg;
    const char *home;
    const char *dir;
};

static void set(const char *name, const char *value)
{
    if (value != NULL)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static char *dir_with(const struct row *row)
{
    set("SMLA_CACHE_DIR", row->own);
    set("XDG_CACHE_HOME", row->xdg);
    set("HOME", row->home);
    return rt_cache_default_dir();
}

static void test_44_table(void **state)
{
    static const struct row rows[] = {
        {"/own", "/xdg", "/home/u", "/own"},
        {"", "/xdg", "/home/u", "/xdg/smla"},
        {NULL, "/xdg", "/home/u", "/xdg/smla"},
        {NULL, "/xdg", NULL, "/xdg/smla"},
        {NULL, "xdg", "/home/u", "/home/u/.cache/smla"},
        {NULL, "./xdg", "/home/u", "/home/u/.cache/smla"},
        {NULL, "", "/home/u", "/home/u/.cache/smla"},
        {NULL, NULL, "/home/with space/ü", "/home/with space/ü/.cache/smla"},
        {NULL, NULL, "/", NULL},
        {NULL, NULL, "//", NULL},
        {NULL, NULL, "home", NULL},
        {"relative", NULL, "/home/u", "relative"}, /* refused by rt_cache_open, by name */
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *dir = dir_with(&rows[i]);

        if (rows[i].dir == NULL ? dir != NULL : dir == NULL || strcmp(dir, rows[i].dir) != 0)
            fail_msg("row %zu: %s", i, dir != NULL ? dir : "none");
        free(dir);
    }
}

static void test_home_from_passwd(void **state)
{
    static const struct row unset = {NULL, NULL, NULL, NULL};
    static const struct row empty = {"", "", "", NULL};
    const struct passwd *entry = getpwuid(geteuid());
    char *expected;
    char *dir;

    (void)state;
    if (entry == NULL || strcmp(entry->pw_dir, "/") == 0)
        skip();
    expected = sample_path(entry->pw_dir, ".cache/smla");
    dir = dir_with(&unset);
    assert_string_equal(dir, expected);
    free(dir);
    dir = dir_with(&empty);
    assert_string_equal(dir, expected);
    free(dir);
    free(expected);
}

static int child_without_passwd_entry(void *argument)
{
    static const struct row unset = {NULL, NULL, NULL, NULL};
    char *dir = dir_with(&unset);
    const int found = dir != NULL;

    (void)argument;
    free(dir);
    return found;
}

static void test_45_user_without_passwd_entry(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(sample_in_child(987654, child_without_passwd_entry, NULL), 0);
}

static const char *origin_with(const struct row *row)
{
    const char *origin = "not said";
    char *dir = dir_with(row);

    free(dir);
    dir = rt_cache_default_dir_from(&origin);
    assert_true((dir == NULL) == (origin == NULL));
    free(dir);
    return origin;
}

static void test_origins(void **state)
{
    (void)state;
    assert_string_equal(origin_with(&(struct row){"/own", "/xdg", "/home/u", NULL}), "SMLA_CACHE_DIR");
    assert_string_equal(origin_with(&(struct row){"", "/xdg", "/home/u", NULL}), "XDG_CACHE_HOME");
    assert_string_equal(origin_with(&(struct row){NULL, "xdg", "/home/u", NULL}), "HOME");
    assert_null(origin_with(&(struct row){NULL, NULL, "/", NULL}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_44_table),
        cmocka_unit_test(test_origins),
        cmocka_unit_test(test_home_from_passwd),
        cmocka_unit_test(test_45_user_without_passwd_entry),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
