/* What is removed from a cache folder, when, and what is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache_name.h"
#include "gc_fixture.h"

#define NO_LIMIT UINT64_MAX

static bool collect(struct gc_fixture *fixture, uint64_t max_bytes, uint64_t max_age_s)
{
    const struct rt_cache_limits limits = {
        .max_bytes = max_bytes, .down_to_bytes = max_bytes, .max_age_s = max_age_s, .dead_writers = true};

    return rt_cache_gc(fixture->cache, &limits, NULL, NULL, &fixture->done);
}

static void test_the_least_recently_used_go(void **state)
{
    struct gc_fixture *fixture = *state;
    uint64_t sizes[6];

    for (uint8_t i = 0; i < 6; i++)
        sizes[i] = gc_add(fixture, (uint8_t)(i + 1), (i % 2 == 0 ? 10 + i : 20 + i) * DAY); /* 2, 4, 6 are older */
    assert_true(collect(fixture, sizes[0] + sizes[2] + sizes[4] + 10, 0));
    assert_int_equal(fixture->done.entries, 6);
    assert_int_equal(fixture->done.removed, 3);
    assert_int_equal(fixture->done.removed_bytes, sizes[1] + sizes[3] + sizes[5]);
    for (uint8_t i = 0; i < 6; i++)
        assert_int_equal(gc_is_there(fixture, (uint8_t)(i + 1)), i % 2 == 0);
    assert_true(collect(fixture, NO_LIMIT, 0));
    assert_int_equal(fixture->done.removed, 0);
    assert_int_equal(fixture->done.entries, 3);
}

static void test_the_young_stay(void **state)
{
    struct gc_fixture *fixture = *state;

    gc_add(fixture, 1, HOUR - 100);
    gc_add(fixture, 2, HOUR + 100);
    gc_add(fixture, 3, -100);      /* a clock that is a little ahead */
    gc_add(fixture, 4, -10 * DAY); /* and one that is wrong */
    assert_true(collect(fixture, 0, 1));
    assert_int_equal(fixture->done.removed, 2);
    assert_true(gc_is_there(fixture, 1));
    assert_true(gc_is_there(fixture, 3));
}

static void test_age_alone(void **state)
{
    struct gc_fixture *fixture = *state;

    gc_add(fixture, 1, 40 * DAY);
    gc_add(fixture, 2, 20 * DAY);
    assert_true(collect(fixture, NO_LIMIT, 30 * DAY));
    assert_false(gc_is_there(fixture, 1));
    assert_true(gc_is_there(fixture, 2));
}

static void test_a_dry_run_removes_nothing(void **state)
{
    struct gc_fixture *fixture = *state;
    const struct rt_cache_limits limits = {.dry_run = true};
    struct rt_cache *reader;

    gc_add(fixture, 1, DAY);
    assert_int_equal(rt_cache_open(fixture->dir, false, true, &fixture->to, &reader), SMLA_OK);
    assert_true(rt_cache_gc(reader, &limits, NULL, NULL, &fixture->done));
    assert_int_equal(fixture->done.removed, 1);
    assert_true(gc_is_there(fixture, 1));
    assert_false(rt_cache_gc(reader, &(struct rt_cache_limits){0}, NULL, NULL, &fixture->done));
    assert_true(gc_is_there(fixture, 1));
    rt_cache_close(reader);
}

/* ---- Left-over files --------------------------------------------------------------------------------------- */

static char *add_temporary(const struct gc_fixture *fixture, pid_t writer, int64_t age_s)
{
    char *path;

    assert_true(asprintf(&path, "%s/v1/01/.0123456789abcdef0123456789abcdef.%ld.00000000deadbeef.tmp", fixture->dir,
                         (long)writer) > 0);
    sample_file_write(path, "x", 1);
    gc_set_age(path, age_s);
    return path;
}

/* Whether such a temporary file is removed. */
static bool is_swept(struct gc_fixture *fixture, pid_t writer, int64_t age_s, bool dead_writers)
{
    const struct rt_cache_limits limits = {.max_bytes = NO_LIMIT, .dead_writers = dead_writers};
    char *path = add_temporary(fixture, writer, age_s);
    bool swept;

    assert_true(rt_cache_gc(fixture->cache, &limits, NULL, NULL, &fixture->done));
    swept = access(path, F_OK) != 0;
    assert_int_equal(fixture->done.temporaries, swept);
    (void)unlink(path);
    free(path);
    return swept;
}

static pid_t a_dead_process(void)
{
    const pid_t child = fork();

    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return child;
}

static void test_3_temporary_files(void **state)
{
    struct gc_fixture *fixture = *state;
    const pid_t dead = a_dead_process();

    gc_add(fixture, 1, 0);
    assert_false(is_swept(fixture, getpid(), 10, true));
    assert_true(is_swept(fixture, getpid(), HOUR + 10, false));
    assert_true(is_swept(fixture, getpid(), -2 * HOUR, false));
    assert_true(is_swept(fixture, dead, 0, true));
    assert_false(is_swept(fixture, dead, 0, false)); /* it may live in another container */
    assert_false(is_swept(fixture, 0, 0, true));     /* no writer */
    assert_true(gc_is_there(fixture, 1));
}

/* ---- Folders that are not as they should be ---------------------------------------------------------------- */

static void test_what_is_no_entry_stays(void **state)
{
    struct gc_fixture *fixture = *state;
    struct rt_entry entry = sample_entry(2);
    char *link = sample_entry_path(fixture->dir, &entry);
    char *shard = sample_path(fixture->dir, "v1/02");
    char *target = sample_path(fixture->dir, "precious");
    char *stray = sample_path(fixture->dir, "v1/01/stray.smk");

    gc_add(fixture, 1, DAY);
    sample_file_write(target, "x", 1);
    sample_file_write(stray, "x", 1);
    gc_set_age(stray, DAY);
    assert_int_equal(mkdir(shard, 0700), 0);
    assert_int_equal(symlink(target, link), 0);
    gc_set_age(link, DAY);
    assert_true(collect(fixture, 0, 1));
    assert_int_equal(fixture->done.entries, 1);
    assert_int_equal(fixture->done.removed, 1);
    assert_int_equal(access(link, F_OK), 0);
    assert_int_equal(access(stray, F_OK), 0);
    free(stray);
    free(target);
    free(shard);
    free(link);
    rt_entry_free(&entry);
}

/* A folder that others can write to is not touched (facts/jit.md §2 #46, #52). */
static void test_46_52_a_folder_that_is_not_trusted(void **state)
{
    struct gc_fixture *fixture = *state;
    char *shard = sample_path(fixture->dir, "v1/01");

    gc_add(fixture, 1, DAY);
    gc_add(fixture, 2, DAY);
    assert_int_equal(chmod(shard, 0777), 0);
    assert_false(collect(fixture, 0, 0));
    assert_true(gc_is_there(fixture, 1));
    assert_false(gc_is_there(fixture, 2));
    assert_non_null(strstr(fixture->log.last, "v1/01 is not read: others than its owner"));
    assert_int_equal(chmod(shard, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(shard, 12345, 12345), 0);
        assert_false(collect(fixture, 0, 0));
        assert_true(gc_is_there(fixture, 1));
        assert_int_equal(chown(shard, 0, 0), 0);
    }
    assert_true(collect(fixture, 0, 0));
    assert_false(gc_is_there(fixture, 1));
    free(shard);
}

static void test_empty_and_missing_folders(void **state)
{
    struct gc_fixture *fixture = *state;

    assert_true(collect(fixture, 0, 0));
    assert_int_equal(fixture->done.entries, 0);
    assert_int_equal(rmdir(fixture->dir), 0); /* it is held open */
    assert_true(collect(fixture, 0, 0));
    assert_int_equal(mkdir(fixture->dir, 0700), 0);
}

/* ---- Many at once ------------------------------------------------------------------------------------------ */

struct meddling {
    const struct gc_fixture *fixture;
    uint8_t seed; /* of what is removed, or replaced, meanwhile */
    bool replace;
};

static void meddle(void *user, const struct rt_cache_file *file, enum rt_remove_result result)
{
    const struct meddling *meddling = user;
    struct rt_entry entry = sample_entry(meddling->seed);
    char *path = sample_entry_path(meddling->fixture->dir, &entry);

    (void)file;
    (void)result;
    if (access(path, F_OK) == 0) {
        assert_int_equal(unlink(path), 0);
        if (meddling->replace)
            sample_file_write(path, entry.file, entry.file_size);
    }
    free(path);
    rt_entry_free(&entry);
}

/* Entries 1 to 4, of which 1 and 2 are too many; something happens to 2 while 1 is removed. */
static void collect_beside(struct gc_fixture *fixture, bool replace)
{
    const struct meddling meddling = {.fixture = fixture, .seed = 2, .replace = replace};
    uint64_t size = 0;

    for (uint8_t i = 1; i <= 4; i++)
        size = gc_add(fixture, i, (10 - i) * DAY); /* each a byte longer than the one before */
    const struct rt_cache_limits limits = {.max_bytes = 2 * size, .down_to_bytes = 2 * size};
    assert_true(rt_cache_gc(fixture->cache, &limits, meddle, (void *)&meddling, &fixture->done));
}

static void test_49_what_vanished_is_credited(void **state)
{
    struct gc_fixture *fixture = *state;

    collect_beside(fixture, false);
    assert_int_equal(fixture->done.removed, 1);
    assert_int_equal(fixture->done.vanished, 1);
    assert_true(gc_is_there(fixture, 3));
    assert_true(gc_is_there(fixture, 4));
}

static void test_what_was_replaced_stays(void **state)
{
    struct gc_fixture *fixture = *state;

    collect_beside(fixture, true);
    assert_true(gc_is_there(fixture, 2));
    assert_false(gc_is_there(fixture, 3)); /* in its place */
    assert_true(gc_is_there(fixture, 4));
    assert_int_equal(fixture->done.vanished, 0);
}

/* Two processes at once leave what one would (facts/jit.md §2 #49). */
static void test_49_two_collections_at_once(void **state)
{
    enum { ENTRIES = 60, KEPT = 30, ROUNDS = 10 };
    struct gc_fixture *fixture = *state;

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t size = 0;
        int status = 0;

        for (int i = 1; i <= ENTRIES; i++)
            size = gc_add(fixture, (uint8_t)i, (100 - i) * DAY);
        const pid_t child = fork();
        if (child == 0)
            _exit(collect(fixture, KEPT * size, 0) ? 0 : 1);
        assert_true(collect(fixture, KEPT * size, 0));
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_int_equal(sample_count_files(fixture->dir, ".smk"), KEPT);
    }
}

/* ---- Many files -------------------------------------------------------------------------------------------- */

enum { MANY = 100000, LINKS = 20000 /* of one file: fewer than ext4 allows */ };

/* Entries as far as their names go, used a day ago, over all shards. Returns their bytes. */
static uint64_t add_many(const struct gc_fixture *fixture)
{
    struct rt_entry entry = sample_entry(200);
    const uint64_t bytes = (uint64_t)MANY * entry.file_size;
    char source[600], path[900];
    uint64_t random = 1;

    for (int i = 0; i < MANY; i++) {
        struct rt_cache_name name;

        snprintf(source, sizeof source, "%s/source%d", fixture->dir, i / LINKS);
        if (i % LINKS == 0) {
            sample_file_write(source, entry.file, entry.file_size);
            gc_set_age(source, DAY);
        }
        random = random * 6364136223846793005u + 1442695040888963407u;
        memcpy(entry.info.key.kernel_id.bytes, (const uint8_t *)&random + 2, 6);
        memcpy(entry.info.key.kernel_id.bytes + 6, &i, sizeof i);
        rt_cache_name_make(&entry.info.key, &entry.info.builder.build_id, &name);
        snprintf(path, sizeof path, "%s/v1/%s", fixture->dir, name.shard);
        (void)mkdir(path, 0700);
        snprintf(path, sizeof path, "%s/v1/%s/%s", fixture->dir, name.shard, name.file);
        assert_int_equal(link(source, path), 0);
    }
    rt_entry_free(&entry);
    return bytes;
}

static double now_ms(void)
{
    struct timespec now;

    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* The best of several, since others use the machine too. */
static double find_ms(const struct gc_fixture *fixture, uint8_t seed)
{
    const struct rt_entry_info info = sample_info(seed);
    double best = 1e9;

    for (int i = 0; i < 20; i++) {
        struct rt_entry found;
        const double start = now_ms();

        assert_true(rt_cache_find(fixture->cache, &(struct rt_wanted){.key = &info.key}, &found));
        const double took = now_ms() - start;
        best = took < best ? took : best;
        rt_entry_free(&found);
    }
    return best;
}

/* What a find may take, which reads one shard and verifies one entry. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const double MOST_FIND_MS = 20;
#else
static const double MOST_FIND_MS = 1;
#endif

/* A lookup reads one shard, and gc each name once; the bound is in bytes. */
static void test_48_a_hundred_thousand_entries(void **state)
{
    struct gc_fixture *fixture = *state;

    gc_add(fixture, 1, 0);
    const uint64_t bytes = add_many(fixture);
    const double find = find_ms(fixture, 1), start = now_ms();
    assert_true(collect(fixture, bytes / 2, 0));
    print_message("of %d entries one is found in %.2f ms; half of them are removed in %.0f ms\n", MANY, find,
                  now_ms() - start);
    assert_true(find < MOST_FIND_MS);
    assert_true(now_ms() - start < 30000);
    assert_int_equal(fixture->done.entries, MANY + 1);
    assert_in_range(fixture->done.removed, MANY / 2, MANY / 2 + 2);
    assert_true(gc_is_there(fixture, 1));
}

/* ---- Removed meanwhile ------------------------------------------------------------------------------------- */

/* Whoever removes the folder while it is listed disturbs nobody (facts/jit.md §2 #51). */
static void test_51_the_folder_is_removed_meanwhile(void **state)
{
    struct gc_fixture *fixture = *state;
    char *version = sample_path(fixture->dir, "v1");

    for (int round = 0; round < 10; round++) {
        int status = 0;

        for (uint8_t i = 1; i <= 40; i++)
            gc_add(fixture, i, DAY);
        const pid_t child = fork();
        if (child == 0) {
            sample_folder_remove(sample_path(version, ""));
            _exit(0);
        }
        (void)collect(fixture, 0, 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(fixture->done.failed, 0);
        assert_int_equal(sample_count_files(fixture->dir, ".smk"), 0);
    }
    assert_int_equal(fixture->log.lines, 0);
    free(version);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_least_recently_used_go),
        TEST(test_the_young_stay),
        TEST(test_age_alone),
        TEST(test_a_dry_run_removes_nothing),
        TEST(test_3_temporary_files),
        TEST(test_what_is_no_entry_stays),
        TEST(test_46_52_a_folder_that_is_not_trusted),
        TEST(test_empty_and_missing_folders),
        TEST(test_49_what_vanished_is_credited),
        TEST(test_what_was_replaced_stays),
        TEST(test_49_two_collections_at_once),
        TEST(test_48_a_hundred_thousand_entries),
        TEST(test_51_the_folder_is_removed_meanwhile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
