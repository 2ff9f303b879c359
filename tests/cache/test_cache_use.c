/* How the folder knows what is used, and how writers keep it small. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache_internal.h"
#include "gc_fixture.h"

/* What a hit does to the time of the file, that of the last change being so long ago. */
static int64_t age_after_hit(struct gc_fixture *fixture, bool writable, int64_t age_s)
{
    struct rt_entry entry = sample_entry(1);
    char *path = sample_entry_path(fixture->dir, &entry);
    struct rt_entry found;
    struct rt_cache *cache;
    int64_t age;

    assert_int_equal(rt_cache_open(fixture->dir, writable, true, &fixture->to, &cache), SMLA_OK);
    gc_set_age(path, age_s);
    assert_true(rt_cache_find(cache, &(struct rt_wanted){.key = &entry.info.key}, &found));
    age = gc_age_of(path);
    rt_entry_free(&found);
    rt_cache_close(cache);
    free(path);
    rt_entry_free(&entry);
    return age;
}

/* Whatever the times are, hits stay hits (facts/jit.md §2 #13). */
static void test_13_a_hit_is_noted_once_a_day(void **state)
{
    struct gc_fixture *fixture = *state;

    gc_add(fixture, 1, 0);
    assert_in_range(age_after_hit(fixture, true, 3 * DAY), 0, 100);
    assert_in_range(age_after_hit(fixture, true, -3 * DAY), 0, 100);
    assert_in_range(age_after_hit(fixture, true, 20 * HOUR), 20 * HOUR, 20 * HOUR + 100);
    assert_in_range(age_after_hit(fixture, false, 3 * DAY), 3 * DAY, 3 * DAY + 100);
    assert_int_equal(fixture->log.lines, 0);
}

/* Of two compilers' entries the one that was not taken grows old. */
static void test_only_what_is_used_is_noted(void **state)
{
    struct gc_fixture *fixture = *state;
    struct rt_entry made[] = {sample_entry_by(3, 12, 9), sample_entry_by(3, 13, 0)};
    char *paths[2];
    struct rt_entry found;

    for (int i = 0; i < 2; i++) {
        assert_true(rt_cache_publish(fixture->cache, &made[i]));
        paths[i] = sample_entry_path(fixture->dir, &made[i]);
        gc_set_age(paths[i], 9 * DAY);
    }
    assert_true(rt_cache_find(fixture->cache, &(struct rt_wanted){.key = &made[0].info.key}, &found));
    assert_in_range(gc_age_of(paths[0]), 9 * DAY, 9 * DAY + 100);
    assert_in_range(gc_age_of(paths[1]), 0, 100);
    rt_entry_free(&found);
    for (int i = 0; i < 2; i++) {
        free(paths[i]);
        rt_entry_free(&made[i]);
    }
}

/* ---- By writers -------------------------------------------------------------------------------------------- */

/* Writers keep the folder small by themselves (facts/jit.md §2 #47). */
static void test_47_publishing_keeps_to_the_cap(void **state)
{
    enum { CAP = 20 };
    struct gc_fixture *fixture = *state;
    uint64_t size = 0;

    fixture->cache->cap_bytes = CAP * (uint64_t)4096;
    for (uint8_t i = 1; i < 60; i++) {
        size = gc_add(fixture, i, 2 * DAY);
        assert_true(gc_is_there(fixture, i));
    }
    const int kept = sample_count_files(fixture->dir, ".smk");
    assert_in_range((uint64_t)kept * size, fixture->cache->cap_bytes * 3 / 4, fixture->cache->cap_bytes + size);
    assert_non_null(strstr(fixture->log.last, "not used for longest"));
}

/* A process that knows nothing of what is in the folder looks at its 64th entry, and at one kernel in 64. */
static void test_one_in_64_looks(void **state)
{
    struct gc_fixture *fixture = *state;
    struct rt_entry entry = sample_entry(1);
    struct rt_entry_info info = entry.info;
    struct rt_entry chosen;

    gc_add(fixture, 100, 3 * DAY); /* the first to go */
    for (uint8_t i = 101; i < 120; i++)
        gc_add(fixture, i, 2 * DAY);
    fixture->cache->published = 0;
    fixture->cache->known_bytes = 0;
    fixture->cache->cap_bytes = 100000;
    for (int i = 0; i < 19; i++)
        gc_add(fixture, 1, 0);
    assert_true(gc_is_there(fixture, 100));
    fixture->cache->published = 63;
    fixture->cache->cap_bytes = 10000;
    fixture->cache->known_bytes = 0;
    gc_add(fixture, 1, 0);
    assert_false(gc_is_there(fixture, 100));
    gc_add(fixture, 100, 3 * DAY);
    fixture->cache->known_bytes = 0;
    info.key.kernel_id.bytes[RT_DIGEST_BYTES - 1] = 64;
    assert_int_equal(rt_entry_write(&info, entry.payload, entry.payload_size, NULL, &chosen), SMLA_OK);
    assert_true(rt_cache_publish(fixture->cache, &chosen));
    assert_false(gc_is_there(fixture, 100));
    rt_entry_free(&chosen);
    rt_entry_free(&entry);
}

/* Where all is young, twice the cap stays, those used last; the folder is not listed at each entry for nothing. */
static void test_young_entries_over_the_cap(void **state)
{
    struct gc_fixture *fixture = *state;

    uint64_t size = 0;
    int most = 0;

    fixture->cache->cap_bytes = 10000;
    for (uint8_t i = 1; i < 60; i++) {
        size = gc_add(fixture, i, 60 - i);
        const int there = sample_count_files(fixture->dir, ".smk");
        most = there > most ? there : most;
        assert_true((uint64_t)there * size <= 2 * 10000);
        assert_true(gc_is_there(fixture, i));
    }
    assert_true((uint64_t)most * size > 10000 + size); /* more than the cap */
    assert_false(gc_is_there(fixture, 1));
    assert_true(fixture->cache->known_bytes <= 10000);
}

static void *publish_some(void *user)
{
    struct rt_cache *cache = user;

    for (int i = 0; i < 40; i++) {
        struct rt_entry entry = sample_entry((uint8_t)(1 + i));

        (void)rt_cache_publish(cache, &entry);
        rt_entry_free(&entry);
    }
    return NULL;
}

/* Threads that publish into a folder that is over the cap: one removes, the others go on. */
static void test_threads_over_the_cap(void **state)
{
    enum { THREADS = 8 };
    struct gc_fixture *fixture = *state;
    pthread_t threads[THREADS];

    for (int i = 100; i < 140; i++)
        gc_add(fixture, (uint8_t)i, 2 * DAY);
    fixture->cache->cap_bytes = 10000;
    fixture->cache->log.fn = NULL; /* sample_log_line is for one thread */
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, publish_some, fixture->cache), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_in_range(sample_count_files(fixture->dir, ".smk"), 1, 40);
    assert_int_equal(sample_count_files(fixture->dir, ".tmp"), 0);
    assert_int_equal(rt_cache_counters(fixture->cache)->errors, 0);
    assert_false(fixture->cache->collecting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_13_a_hit_is_noted_once_a_day),   TEST(test_only_what_is_used_is_noted),
        TEST(test_47_publishing_keeps_to_the_cap), TEST(test_one_in_64_looks),
        TEST(test_young_entries_over_the_cap),     TEST(test_threads_over_the_cap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
