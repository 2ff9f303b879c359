#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "file.h"
#include "folder.h"
#include "sample.h"

struct fixture {
    char *path;
    int folder;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    fixture->path = sample_folder();
    fixture->folder = open(fixture->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = fixture;
    return fixture->folder < 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    close(fixture->folder);
    sample_folder_remove(fixture->path);
    free(fixture);
    return 0;
}

static bool holds(struct fixture *fixture, const char *name, const char *text)
{
    char why[256];
    struct rt_file file;
    bool same;

    if (rt_file_read(fixture->folder, name, 100, &file, why) != RT_READ_OK)
        return false;
    same = file.size == strlen(text) && memcmp(file.bytes, text, file.size) == 0;
    free(file.bytes);
    return same;
}

static struct stat status_of(struct fixture *fixture, const char *name)
{
    struct stat status;

    assert_int_equal(fstatat(fixture->folder, name, &status, AT_SYMLINK_NOFOLLOW), 0);
    return status;
}

static void test_publish_replaces(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(rt_file_publish(fixture->folder, ".t.tmp", "name", "one", 3), 0);
    assert_int_equal(rt_file_publish(fixture->folder, ".t.tmp", "name", "three", 5), 0);
    assert_true(holds(fixture, "name", "three"));
    assert_int_equal(sample_count_files(fixture->path, ""), 1);
}

/* Somebody's file, or link, of the temporary name is neither written to nor removed. */
static void test_publish_takes_no_existing_file(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(rt_file_publish(fixture->folder, ".other.tmp", "theirs", "theirs", 6), 0);
    assert_int_equal(rt_file_publish(fixture->folder, "theirs", "name", "mine", 4), EEXIST);
    assert_true(holds(fixture, "theirs", "theirs"));
    assert_int_equal(symlinkat("theirs", fixture->folder, ".link.tmp"), 0);
    assert_int_equal(rt_file_publish(fixture->folder, ".link.tmp", "name", "mine", 4), EEXIST);
    assert_true(holds(fixture, "theirs", "theirs"));
    assert_int_equal(sample_count_files(fixture->path, "name"), 0);
}

static void test_a_replaced_file_is_not_removed(void **state)
{
    struct fixture *fixture = *state;
    struct stat old;

    assert_int_equal(rt_file_publish(fixture->folder, ".t.tmp", "name", "old", 3), 0);
    old = status_of(fixture, "name");
    assert_int_equal(rt_file_publish(fixture->folder, ".t.tmp", "name", "new", 3), 0);
    rt_file_remove_if_same(fixture->folder, "name", &old);
    assert_true(holds(fixture, "name", "new"));
}

/* Each part of the guard by itself. */
static void test_the_guard_of_removing(void **state)
{
    struct fixture *fixture = *state;
    struct stat status;
    struct stat other;

    assert_int_equal(rt_file_publish(fixture->folder, ".t.tmp", "name", "text", 4), 0);
    status = status_of(fixture, "name");
    for (int part = 0; part < 5; part++) {
        other = status;
        other.st_dev += part == 0;
        other.st_ino += part == 1;
        other.st_size += part == 2;
        other.st_mtim.tv_sec += part == 3;
        other.st_mtim.tv_nsec ^= part == 4;
        rt_file_remove_if_same(fixture->folder, "name", &other);
        assert_true(holds(fixture, "name", "text"));
    }
    rt_file_remove_if_same(fixture->folder, "name", &status);
    assert_int_equal(sample_count_files(fixture->path, ""), 0);
}

static void test_sizes(void **state)
{
    struct fixture *fixture = *state;
    char why[256];
    struct rt_file file;

    assert_int_equal(rt_file_read(fixture->folder, "none", 4, &file, why), RT_READ_ABSENT);
    assert_int_equal(rt_file_publish(fixture->folder, ".t.tmp", "name", "", 0), 0);
    assert_int_equal(rt_file_read(fixture->folder, "name", 4, &file, why), RT_READ_DAMAGED);
    assert_int_equal(rt_file_publish(fixture->folder, ".t.tmp", "name", "12345", 5), 0);
    assert_int_equal(rt_file_read(fixture->folder, "name", 4, &file, why), RT_READ_DAMAGED);
    assert_null(file.bytes);
    assert_int_equal(rt_file_read(fixture->folder, "name", 5, &file, why), RT_READ_OK);
    free(file.bytes);
}

static void test_folder_make(void **state)
{
    struct fixture *fixture = *state;
    char *deep = sample_path(fixture->path, "a//b/c/");
    char *loose = sample_path(fixture->path, "loose");
    struct stat status;

    assert_int_equal(rt_folder_make(deep), 0);
    assert_int_equal(rt_folder_make(deep), 0);
    assert_int_equal(rt_folder_make("/"), 0);
    assert_int_equal(mkdir(loose, 0750), 0);
    assert_int_equal(rt_folder_make(loose), 0);
    assert_int_equal(stat(loose, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0750); /* one that exists is left as it is */
    free(loose);
    free(deep);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_publish_replaces),
        TEST(test_publish_takes_no_existing_file),
        TEST(test_a_replaced_file_is_not_removed),
        TEST(test_the_guard_of_removing),
        TEST(test_sizes),
        TEST(test_folder_make),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
