/* The cache folder: what is found, what is ignored and why, who may own it. */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache.h"
#include "sample.h"

enum { NOBODY = 65534 };

/* A test's folder, the cache in its sub-folder "cache", and what that logged. */
struct fixture {
    char *folder;
    char *dir;
    struct sample_log log;
    struct rt_log to;
    struct rt_cache *cache;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    fixture->folder = sample_folder();
    fixture->dir = sample_path(fixture->folder, "cache");
    fixture->to = (struct rt_log){.fn = sample_log_line, .user = &fixture->log};
    *state = fixture;
    return rt_cache_open(fixture->dir, true, true, &fixture->to, &fixture->cache) == SMLA_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    rt_cache_close(fixture->cache);
    free(fixture->dir);
    sample_folder_remove(fixture->folder);
    free(fixture);
    return 0;
}

static bool finds(struct rt_cache *cache, const struct rt_entry *wanted, const struct rt_builder *builder)
{
    struct rt_entry found;

    if (!rt_cache_find(cache, &(struct rt_wanted){.key = &wanted->info.key, .builder = builder}, &found))
        return false;
    assert_int_equal(found.file_size, wanted->file_size);
    assert_memory_equal(found.file, wanted->file, found.file_size);
    rt_entry_free(&found);
    return true;
}

static void publish(struct rt_cache *cache, const struct rt_entry *entry)
{
    assert_true(rt_cache_publish(cache, entry));
}

static void test_publish_and_find(void **state)
{
    struct fixture *fixture = *state;
    struct rt_entry entry = sample_entry(1);
    struct rt_entry other = sample_entry(2);

    assert_false(finds(fixture->cache, &entry, NULL));
    publish(fixture->cache, &entry);
    publish(fixture->cache, &entry);
    assert_true(finds(fixture->cache, &entry, NULL));
    assert_true(finds(fixture->cache, &entry, &entry.info.builder));
    assert_false(finds(fixture->cache, &other, NULL));
    assert_int_equal(rt_cache_counters(fixture->cache)->written, 2);
    assert_int_equal(rt_cache_counters(fixture->cache)->errors, 0);
    assert_int_equal(fixture->log.lines, 0);
    assert_string_equal(rt_cache_dir(fixture->cache), fixture->dir);
    assert_int_equal(sample_count_files(fixture->folder, ""), 1);
    rt_entry_free(&entry);
    rt_entry_free(&other);
}

static int32_t found_by(struct rt_cache *cache, const struct rt_key *key, const struct rt_builder *builder,
                        int32_t max_major)
{
    struct rt_entry found;
    int32_t version;

    if (!rt_cache_find(cache, &(struct rt_wanted){.key = key, .builder = builder, .max_nvrtc_major = max_major},
                       &found))
        return -1;
    version = 100 * found.info.builder.nvrtc_major + found.info.builder.nvrtc_minor;
    rt_entry_free(&found);
    return version;
}

static void test_18_the_builder_is_chosen(void **state)
{
    struct fixture *fixture = *state;
    struct rt_entry made[] = {sample_entry_by(3, 12, 9), sample_entry_by(3, 13, 1), sample_entry_by(3, 12, 8)};
    const struct rt_key key = made[0].info.key;
    struct rt_builder unknown = {.nvrtc_major = 14};

    for (size_t i = 0; i < 3; i++)
        publish(fixture->cache, &made[i]);
    assert_int_equal(found_by(fixture->cache, &key, NULL, 0), 1301);
    assert_int_equal(found_by(fixture->cache, &key, NULL, 13), 1301);
    assert_int_equal(found_by(fixture->cache, &key, NULL, 12), 1209);
    assert_int_equal(found_by(fixture->cache, &key, NULL, 11), -1);
    assert_int_equal(found_by(fixture->cache, &key, &made[2].info.builder, 0), 1208);
    assert_int_equal(found_by(fixture->cache, &key, &made[1].info.builder, 12), 1209);
    assert_int_equal(found_by(fixture->cache, &key, &unknown, 0), 1301);
    for (size_t i = 0; i < 3; i++)
        rt_entry_free(&made[i]);
}

static mode_t mode_of(const char *path)
{
    struct stat status;

    assert_int_equal(stat(path, &status), 0);
    return status.st_mode & 07777;
}

static void modes_under_umask(struct fixture *fixture, mode_t mask)
{
    struct rt_entry entry = sample_entry(4);
    char *dir = sample_path(fixture->folder, "a/b/c");
    const char *const folders[] = {"a", "a/b", "a/b/c", "a/b/c/v1", "a/b/c/v1/04"};
    char *file = sample_entry_path(dir, &entry);
    struct rt_cache *cache = NULL;
    const mode_t before = umask(mask);

    assert_int_equal(rt_cache_open(dir, true, true, &fixture->to, &cache), SMLA_OK);
    publish(cache, &entry);
    assert_int_equal(umask(before), mask);
    for (size_t i = 0; i < 5; i++) {
        char *path = sample_path(fixture->folder, folders[i]);

        assert_int_equal(mode_of(path), 0700);
        free(path);
    }
    assert_int_equal(mode_of(file), 0600);
    rt_cache_close(cache);
    rt_entry_free(&entry);
    free(file);
    free(dir);
}

static void test_53_modes_with_umask_000(void **state)
{
    modes_under_umask(*state, 0);
}

static void test_53_modes_with_umask_777(void **state)
{
    modes_under_umask(*state, 0777);
}

/* Puts these bytes where the entry should be; finds nothing. */
static void is_damage(struct fixture *fixture, const struct rt_entry *entry, const void *bytes, size_t size)
{
    char *path = sample_entry_path(fixture->dir, entry);
    const uint64_t damaged = rt_cache_counters(fixture->cache)->damaged;
    const int lines = fixture->log.lines;

    publish(fixture->cache, entry);
    sample_file_write(path, bytes, size);
    assert_false(finds(fixture->cache, entry, &entry->info.builder));
    assert_int_equal(rt_cache_counters(fixture->cache)->damaged, damaged + 1);
    assert_int_equal(fixture->log.lines, lines + 1);
    assert_non_null(strstr(fixture->log.last, path));
    assert_int_not_equal(access(path, F_OK), 0);
    free(path);
}

static void test_6_damage_is_a_counted_miss_and_removed(void **state)
{
    struct fixture *fixture = *state;
    struct rt_entry entry = sample_entry(5);
    struct rt_entry other = sample_entry(6);
    uint8_t *flipped = sample_copy(entry.file, entry.file_size);

    flipped[entry.file_size - 100] ^= 4;
    is_damage(fixture, &entry, "", 0);
    is_damage(fixture, &entry, "text", 4);
    is_damage(fixture, &entry, flipped, entry.file_size);
    is_damage(fixture, &entry, other.file, other.file_size);
    for (size_t size = 0; size < entry.file_size; size += 64)
        is_damage(fixture, &entry, entry.file, size);
    publish(fixture->cache, &entry);
    assert_true(finds(fixture->cache, &entry, NULL));
    free(flipped);
    rt_entry_free(&entry);
    rt_entry_free(&other);
}

static void test_name_of_another_builder(void **state)
{
    struct fixture *fixture = *state;
    struct rt_entry entry = sample_entry_by(7, 12, 8);
    struct rt_entry other = sample_entry_by(7, 13, 0);

    is_damage(fixture, &entry, other.file, other.file_size);
    rt_entry_free(&entry);
    rt_entry_free(&other);
}

static void test_huge_file_is_damage(void **state)
{
    struct fixture *fixture = *state;
    struct rt_entry entry = sample_entry(8);
    char *path = sample_entry_path(fixture->dir, &entry);

    publish(fixture->cache, &entry);
    assert_int_equal(truncate(path, (off_t)RT_ENTRY_MAX_BYTES + 1), 0);
    assert_false(finds(fixture->cache, &entry, NULL));
    assert_int_equal(rt_cache_counters(fixture->cache)->damaged, 1);
    free(path);
    rt_entry_free(&entry);
}

static void test_a_read_only_cache_removes_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct rt_entry entry = sample_entry(9);
    char *path = sample_entry_path(fixture->dir, &entry);
    struct rt_cache *reader = NULL;

    publish(fixture->cache, &entry);
    assert_int_equal(rt_cache_open(fixture->dir, false, true, &fixture->to, &reader), SMLA_OK);
    assert_true(finds(reader, &entry, NULL));
    assert_false(rt_cache_publish(reader, &entry));
    assert_int_equal(fixture->log.lines, 0);
    assert_int_equal(truncate(path, 100), 0);
    assert_false(finds(reader, &entry, &entry.info.builder));
    assert_int_equal(rt_cache_counters(reader)->damaged, 1);
    assert_int_equal(access(path, F_OK), 0);
    rt_cache_close(reader);
    free(path);
    rt_entry_free(&entry);
}

/* After `spoil` the entry is ignored with a reason, neither damaged nor removed. */
static void is_ignored(struct fixture *fixture, const struct rt_entry *entry, const char *reason)
{
    char *path = sample_entry_path(fixture->dir, entry);
    struct stat status;
    const uint64_t errors = rt_cache_counters(fixture->cache)->errors;

    assert_false(finds(fixture->cache, entry, &entry->info.builder));
    assert_non_null(strstr(fixture->log.last, reason));
    assert_int_equal(rt_cache_counters(fixture->cache)->errors, errors + 1);
    assert_int_equal(rt_cache_counters(fixture->cache)->damaged, 0);
    assert_int_equal(lstat(path, &status), 0);
    free(path);
}

static void test_52_untrusted_entries_are_ignored(void **state)
{
    struct fixture *fixture = *state;
    struct rt_entry entry = sample_entry(10);
    char *path = sample_entry_path(fixture->dir, &entry);
    char *elsewhere = sample_path(fixture->folder, "elsewhere");

    publish(fixture->cache, &entry);
    assert_int_equal(chmod(path, 0620), 0);
    is_ignored(fixture, &entry, "others than its owner");
    assert_int_equal(chmod(path, 0602), 0);
    is_ignored(fixture, &entry, "others than its owner");
    assert_int_equal(chmod(path, 0600), 0);
    assert_true(finds(fixture->cache, &entry, NULL));
    assert_int_equal(rename(path, elsewhere), 0);
    assert_int_equal(symlink(elsewhere, path), 0);
    is_ignored(fixture, &entry, "a symbolic link");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    is_ignored(fixture, &entry, "not a regular file");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    is_ignored(fixture, &entry, "not a regular file");
    free(elsewhere);
    free(path);
    rt_entry_free(&entry);
}

static void test_52_foreign_entry_is_ignored(void **state)
{
    struct fixture *fixture = *state;
    struct rt_entry entry = sample_entry(11);
    char *path = sample_entry_path(fixture->dir, &entry);

    if (geteuid() != 0)
        skip();
    publish(fixture->cache, &entry);
    assert_int_equal(chown(path, 12345, 12345), 0);
    is_ignored(fixture, &entry, "belongs to user 12345, not to user 0 or root");
    free(path);
    rt_entry_free(&entry);
}

static void test_untrusted_shard_is_ignored(void **state)
{
    struct fixture *fixture = *state;
    struct rt_entry entry = sample_entry(12);
    char *shard = sample_path(fixture->dir, "v1/0c");

    publish(fixture->cache, &entry);
    assert_int_equal(chmod(shard, 0777), 0);
    is_ignored(fixture, &entry, "others than its owner");
    assert_false(rt_cache_publish(fixture->cache, &entry));
    assert_int_equal(chmod(shard, 0700), 0);
    free(shard);
    rt_entry_free(&entry);
}

/* One of the folders within is somebody else's, as after another user's bind mount. */
static void test_46_shard_of_another_user(void **state)
{
    struct fixture *fixture = *state;
    struct rt_entry entry = sample_entry(12);
    char *shard = sample_path(fixture->dir, "v1/0c");

    if (geteuid() != 0)
        skip();
    publish(fixture->cache, &entry);
    assert_int_equal(chown(shard, 12345, 12345), 0);
    is_ignored(fixture, &entry, "belongs to user 12345, not to user 0 or root");
    assert_false(rt_cache_publish(fixture->cache, &entry));
    free(shard);
    rt_entry_free(&entry);
}

static void test_symbolic_link_as_shard(void **state)
{
    struct fixture *fixture = *state;
    struct rt_entry entry = sample_entry(13);
    char *shard = sample_path(fixture->dir, "v1/0d");
    char *elsewhere = sample_path(fixture->folder, "elsewhere");

    publish(fixture->cache, &entry);
    assert_int_equal(rename(shard, elsewhere), 0);
    assert_int_equal(symlink(elsewhere, shard), 0);
    assert_false(finds(fixture->cache, &entry, NULL));
    assert_false(rt_cache_publish(fixture->cache, &entry));
    assert_int_equal(rt_cache_counters(fixture->cache)->errors, 2);
    free(elsewhere);
    free(shard);
    rt_entry_free(&entry);
}

/* The user's own link to the folder is followed: ~/.cache is one on many clusters. */
static void test_4_symbolic_link_to_the_folder(void **state)
{
    struct fixture *fixture = *state;
    struct rt_entry entry = sample_entry(14);
    char *link = sample_path(fixture->folder, "link");
    struct rt_cache *cache = NULL;

    assert_int_equal(symlink(fixture->dir, link), 0);
    assert_int_equal(rt_cache_open(link, true, true, &fixture->to, &cache), SMLA_OK);
    publish(cache, &entry);
    assert_true(finds(fixture->cache, &entry, NULL));
    rt_cache_close(cache);
    free(link);
    rt_entry_free(&entry);
}

/* A required folder is an error with its path; otherwise the cache always misses and said so once. */
static void cannot_be_used(struct fixture *fixture, const char *dir, bool writable, const char *reason)
{
    struct rt_cache *cache = NULL;
    smla_error_info info = {.struct_size = sizeof info};
    struct rt_entry entry = sample_entry(15);
    const int lines = fixture->log.lines;

    assert_int_equal(rt_cache_open(dir, writable, true, &fixture->to, &cache), SMLA_ERROR_IO);
    assert_null(cache);
    assert_int_equal(smla_last_error(&info), SMLA_OK);
    assert_string_equal(info.path, dir);
    assert_non_null(strstr(info.message, dir));
    assert_non_null(strstr(info.message, reason));
    assert_int_not_equal(info.native_code, 0);
    assert_int_equal(fixture->log.lines, lines);
    assert_int_equal(rt_cache_open(dir, writable, false, &fixture->to, &cache), SMLA_OK);
    assert_null(rt_cache_dir(cache));
    assert_false(finds(cache, &entry, NULL));
    assert_false(rt_cache_publish(cache, &entry));
    assert_int_equal(fixture->log.lines, lines + 1);
    assert_non_null(strstr(fixture->log.last, reason));
    assert_non_null(strstr(fixture->log.last, "SMLA_CACHE_DIR"));
    assert_int_equal(rt_cache_counters(cache)->errors, 1);
    rt_cache_close(cache);
    rt_entry_free(&entry);
}

static void test_43_folders_that_cannot_be_used(void **state)
{
    struct fixture *fixture = *state;
    char *file = sample_path(fixture->folder, "file");
    char *below = sample_path(fixture->folder, "file/cache");
    char *missing = sample_path(fixture->folder, "missing/cache");

    sample_file_write(file, "x", 1);
    cannot_be_used(fixture, file, true, "Not a directory");
    cannot_be_used(fixture, below, true, "Not a directory");
    cannot_be_used(fixture, below, false, "Not a directory");
    cannot_be_used(fixture, missing, false, "No such file");
    cannot_be_used(fixture, "relative/cache", true, "not an absolute path");
    assert_int_equal(chmod(fixture->dir, 0770), 0);
    cannot_be_used(fixture, fixture->dir, true, "others than its owner");
    assert_int_equal(chmod(fixture->dir, 0702), 0);
    cannot_be_used(fixture, fixture->dir, true, "others than its owner");
    free(missing);
    free(below);
    free(file);
}

/* By a home below `above`, which has that mode: done without, for that reason, and nothing is made; or used (NULL). */
static void home_below(struct fixture *fixture, const char *above, mode_t mode, const char *reason)
{
    char *dir = sample_path(above, "home/.cache/smla");
    char *home = sample_path(above, "home");
    struct rt_cache *cache = NULL;
    const int lines = fixture->log.lines;

    assert_int_equal(chmod(above, mode), 0);
    assert_int_equal(rt_cache_open_default(dir, true, &fixture->to, &cache), SMLA_OK);
    assert_int_equal(fixture->log.lines, lines + (reason != NULL));
    if (reason == NULL) {
        assert_string_equal(rt_cache_dir(cache), dir);
        assert_int_equal(access(dir, F_OK), 0);
    } else {
        assert_null(rt_cache_dir(cache));
        assert_non_null(strstr(fixture->log.last, reason));
        assert_non_null(strstr(fixture->log.last, "SMLA_CACHE_DIR"));
        assert_int_not_equal(access(dir, F_OK), 0);
    }
    rt_cache_close(cache);
    if (access(home, F_OK) == 0)
        sample_folder_remove(sample_path(above, "home"));
    free(home);
    free(dir);
}

/* A folder that nobody named: what is above it must keep it from others. */
static void test_52_what_is_above_a_home(void **state)
{
    struct fixture *fixture = *state;
    char *above = sample_path(fixture->folder, "above");
    char *link = sample_path(fixture->folder, "link");
    char *through = sample_path(fixture->folder, "link/in");
    char *home = sample_path(above, "home");
    struct rt_cache *cache = NULL;

    assert_int_equal(mkdir(above, 0700), 0);
    assert_int_equal(symlink(above, link), 0);
    home_below(fixture, above, 0755, NULL);
    home_below(fixture, above, 0775, NULL); /* a group of its own, or one that shares */
    home_below(fixture, above, 0777, "above' above it can be written to by everybody (mode 0777)");
    home_below(fixture, link, 0777, "can be written to by everybody (mode 0777)");
    home_below(fixture, above, 01777, NULL);
    home_below(fixture, link, 01777, NULL);
    /* Two levels below. */
    assert_int_equal(chmod(above, 0777), 0);
    assert_int_equal(mkdir(home, 0700), 0);
    home_below(fixture, home, 0700, "above' above it can be written to by everybody (mode 0777)");
    assert_int_equal(rmdir(home), 0);
    /* One that was named is used as ever. */
    assert_int_equal(rt_cache_open(through, true, true, &fixture->to, &cache), SMLA_OK);
    rt_cache_close(cache);
    free(home);
    free(through);
    free(link);
    free(above);
}

/* What others own below a sticky folder, and links of theirs. */
static void test_52_what_others_made_above_a_home(void **state)
{
    struct fixture *fixture = *state;
    char *above = sample_path(fixture->folder, "above");
    char *home = sample_path(above, "home");
    char *dir = sample_path(above, "home/.cache/smla");
    struct rt_cache *cache = NULL;

    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdir(above, 0700), 0);
    assert_int_equal(chmod(above, 01777), 0);
    assert_int_equal(mkdir(home, 0755), 0);
    assert_int_equal(chown(home, 12345, 12345), 0);
    assert_int_equal(rt_cache_open_default(dir, true, &fixture->to, &cache), SMLA_OK);
    assert_null(rt_cache_dir(cache));
    assert_non_null(strstr(fixture->log.last, "in a folder that everybody can write to, belongs to user 12345"));
    rt_cache_close(cache);
    assert_int_equal(rmdir(home), 0);
    assert_int_equal(symlink(fixture->dir, home), 0);
    assert_int_equal(lchown(home, 12345, 12345), 0);
    assert_int_equal(rt_cache_open_default(dir, true, &fixture->to, &cache), SMLA_OK);
    assert_null(rt_cache_dir(cache));
    assert_non_null(strstr(fixture->log.last, "is a symbolic link of user 12345"));
    rt_cache_close(cache);
    assert_int_equal(unlink(home), 0);
    assert_int_equal(chown(above, 12345, 12345), 0);
    assert_int_equal(chmod(above, 01777), 0);
    assert_int_equal(rt_cache_open_default(dir, true, &fixture->to, &cache), SMLA_OK);
    assert_null(rt_cache_dir(cache));
    assert_non_null(strstr(fixture->log.last, "can be written to by everybody and belongs to user 12345"));
    rt_cache_close(cache);
    free(dir);
    free(home);
    free(above);
}

static void test_no_folder(void **state)
{
    struct fixture *fixture = *state;
    struct rt_cache *cache = NULL;

    assert_int_equal(rt_cache_open(NULL, true, false, &fixture->to, &cache), SMLA_OK);
    assert_null(rt_cache_dir(cache));
    assert_false(rt_cache_visit(cache, NULL, NULL));
    rt_cache_close(cache);
    cache = NULL;
    assert_int_equal(rt_cache_open(NULL, true, true, &fixture->to, &cache), SMLA_ERROR_IO);
    assert_null(cache);
    rt_cache_close(NULL);
    assert_int_equal(fixture->log.lines, 0);
}

/* In children that are nobody, since root may read and write everything. An assertion would not end the parent's test:
 * they return the number of the first step that failed. */
static int child_reads_a_read_only_folder(void *argument)
{
    struct fixture *fixture = argument;
    struct rt_entry entry = sample_entry(16);
    struct rt_cache *cache;

    if (rt_cache_open(fixture->dir, true, true, &fixture->to, &cache) != SMLA_OK)
        return 1;
    if (!finds(cache, &entry, NULL))
        return 2;
    for (int i = 0; i < 2; i++) {
        if (rt_cache_publish(cache, &entry))
            return 3;
    }
    if (fixture->log.lines != 1 || strstr(fixture->log.last, fixture->dir) == NULL ||
        strstr(fixture->log.last, "Permission denied") == NULL)
        return 4;
    if (rt_cache_counters(cache)->errors != 2)
        return 5;
    rt_cache_close(cache);
    rt_entry_free(&entry);
    return 0;
}

static void test_43_read_only_folder(void **state)
{
    struct fixture *fixture = *state;
    struct rt_entry entry = sample_entry(16);
    const char *const folders[] = {"cache/v1/10", "cache/v1", "cache"};
    char *file = sample_entry_path(fixture->dir, &entry);

    if (geteuid() != 0)
        skip(); /* needs files of root that another user reads */
    publish(fixture->cache, &entry);
    assert_int_equal(chmod(file, 0644), 0);
    assert_int_equal(chmod(fixture->folder, 0755), 0);
    for (size_t i = 0; i < 3; i++) {
        char *path = sample_path(fixture->folder, folders[i]);

        assert_int_equal(chmod(path, 0555), 0);
        free(path);
    }
    assert_int_equal(sample_in_child(NOBODY, child_reads_a_read_only_folder, fixture), 0);
    free(file);
    rt_entry_free(&entry);
}

static int child_cannot_read(void *argument)
{
    struct fixture *fixture = argument;
    struct rt_cache *cache = NULL;
    smla_error_info info = {.struct_size = sizeof info};

    if (rt_cache_open(fixture->dir, false, true, &fixture->to, &cache) != SMLA_ERROR_IO)
        return 1;
    smla_last_error(&info);
    if (strcmp(info.path, fixture->dir) != 0 || info.native_code != EACCES)
        return 2;
    return rt_cache_open(fixture->dir, true, true, &fixture->to, &cache) == SMLA_ERROR_IO ? 0 : 3;
}

static void test_unreadable_required_folder(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(chmod(fixture->folder, 0755), 0);
    assert_int_equal(chmod(fixture->dir, 0), 0);
    assert_int_equal(sample_in_child(NOBODY, child_cannot_read, fixture), 0);
    assert_int_equal(chmod(fixture->dir, 0700), 0);
}

static int child_cannot_make(void *argument)
{
    struct fixture *fixture = argument;
    struct rt_cache *cache = NULL;
    char *dir = sample_path(fixture->folder, "new/cache");
    const smla_status status = rt_cache_open(dir, true, true, &fixture->to, &cache);

    free(dir);
    return status == SMLA_ERROR_IO ? 0 : 1;
}

static void test_parents_that_cannot_be_made(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(chmod(fixture->folder, 0555), 0);
    assert_int_equal(sample_in_child(NOBODY, child_cannot_make, fixture), 0);
    assert_int_equal(chmod(fixture->folder, 0700), 0);
}

static void test_foreign_folder(void **state)
{
    struct fixture *fixture = *state;

    if (geteuid() != 0)
        skip();
    assert_int_equal(chown(fixture->dir, 12345, 12345), 0);
    cannot_be_used(fixture, fixture->dir, true, "belongs to user 12345");
}

/* The folder is removed under a running process: misses and failed writes, nothing worse. */
static void test_51_removed_folder(void **state)
{
    struct fixture *fixture = *state;
    struct rt_entry entry = sample_entry(17);

    publish(fixture->cache, &entry);
    sample_folder_remove(strdup(fixture->dir));
    assert_false(finds(fixture->cache, &entry, NULL));
    assert_false(rt_cache_publish(fixture->cache, &entry));
    rt_entry_free(&entry);
}

struct visited {
    int valid;
    int invalid;
    int stop_after;
};

static bool visit(void *user, const char *path, uint64_t size_bytes, bool valid, const struct rt_entry_info *info,
                  const char *why)
{
    struct visited *visited = user;

    assert_int_equal(access(path, R_OK), 0);
    if (valid) {
        assert_string_equal(info->arch, "sm_90a");
        assert_null(why);
        assert_true(size_bytes > 1000);
    } else {
        assert_null(info);
        assert_true(why[0] != '\0');
    }
    visited->valid += valid;
    visited->invalid += !valid;
    return visited->valid + visited->invalid != visited->stop_after;
}

static void test_visit(void **state)
{
    struct fixture *fixture = *state;
    struct visited visited = {0};
    char *stray = NULL;

    assert_true(rt_cache_visit(fixture->cache, visit, &visited));
    assert_int_equal(visited.valid, 0);
    for (uint8_t seed = 20; seed < 25; seed++) {
        struct rt_entry entry = sample_entry(seed);
        char *path = sample_entry_path(fixture->dir, &entry);

        publish(fixture->cache, &entry);
        if (seed == 24)
            assert_int_equal(truncate(path, 700), 0);
        free(path);
        rt_entry_free(&entry);
    }
    stray = sample_path(fixture->dir, "v1/18/stray.smk");
    sample_file_write(stray, "x", 1);
    free(stray);
    stray = sample_path(fixture->dir, "v1/18/.left.tmp");
    sample_file_write(stray, "x", 1);
    assert_true(rt_cache_visit(fixture->cache, visit, &visited));
    assert_int_equal(visited.valid, 4);
    assert_int_equal(visited.invalid, 2);
    assert_int_equal(rt_cache_counters(fixture->cache)->damaged, 0);
    assert_int_equal(sample_count_files(fixture->dir, ".smk"), 6);
    visited = (struct visited){.stop_after = 2};
    assert_true(rt_cache_visit(fixture->cache, visit, &visited));
    assert_int_equal(visited.valid + visited.invalid, 2);
    free(stray);
}

static int open_descriptors(void)
{
    DIR *list = opendir("/proc/self/fd");
    int count = 0;

    while (readdir(list) != NULL)
        count++;
    closedir(list);
    return count;
}

static void test_no_descriptor_is_left_open(void **state)
{
    struct fixture *fixture = *state;
    const int before = open_descriptors();

    test_publish_and_find(state);
    test_52_untrusted_entries_are_ignored(state);
    test_untrusted_shard_is_ignored(state);
    cannot_be_used(fixture, "/dev/null", true, "Not a directory");
    assert_int_equal(open_descriptors(), before);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_publish_and_find),
        TEST(test_18_the_builder_is_chosen),
        TEST(test_53_modes_with_umask_000),
        TEST(test_53_modes_with_umask_777),
        TEST(test_6_damage_is_a_counted_miss_and_removed),
        TEST(test_name_of_another_builder),
        TEST(test_huge_file_is_damage),
        TEST(test_a_read_only_cache_removes_nothing),
        TEST(test_52_untrusted_entries_are_ignored),
        TEST(test_52_foreign_entry_is_ignored),
        TEST(test_untrusted_shard_is_ignored),
        TEST(test_46_shard_of_another_user),
        TEST(test_symbolic_link_as_shard),
        TEST(test_4_symbolic_link_to_the_folder),
        TEST(test_43_folders_that_cannot_be_used),
        TEST(test_52_what_is_above_a_home),
        TEST(test_52_what_others_made_above_a_home),
        TEST(test_no_folder),
        TEST(test_43_read_only_folder),
        TEST(test_unreadable_required_folder),
        TEST(test_parents_that_cannot_be_made),
        TEST(test_foreign_folder),
        TEST(test_51_removed_folder),
        TEST(test_visit),
        TEST(test_no_descriptor_is_left_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
