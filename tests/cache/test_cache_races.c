/* Many at once on one key: threads of one cache, and processes of one folder. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache.h"
#include "sample.h"

enum { WORKERS = 8, ROUNDS = 40 };

struct work {
    struct rt_cache *cache;
    struct rt_entry entry;
    int failures; /* of all threads */
    pthread_barrier_t start;
};

/* Publishes and finds in turns. Returns the rounds in which the entry was not found whole. */
static int work_on(struct rt_cache *cache, const struct rt_entry *entry)
{
    int failures = 0;

    for (int i = 0; i < ROUNDS; i++) {
        struct rt_entry found;

        failures += !rt_cache_publish(cache, entry);
        if (!rt_cache_find(
                cache,
                &(struct rt_wanted){.key = &entry->info.key, .builder = i % 2 == 0 ? NULL : &entry->info.builder},
                &found)) {
            failures++;
            continue;
        }
        failures += memcmp(found.file, entry->file, entry->file_size) != 0;
        rt_entry_free(&found);
    }
    return failures;
}

static void *thread_body(void *argument)
{
    struct work *work = argument;

    pthread_barrier_wait(&work->start);
    __atomic_fetch_add(&work->failures, work_on(work->cache, &work->entry), __ATOMIC_RELAXED);
    return NULL;
}

/* One file in the end, no temporary one, nothing counted as damaged on the way. */
static void assert_clean(const char *folder, const struct rt_cache *cache)
{
    assert_int_equal(sample_count_files(folder, ""), 1);
    assert_int_equal(sample_count_files(folder, ".cubin.smk"), 1);
    assert_int_equal(rt_cache_counters(cache)->damaged, 0);
    assert_int_equal(rt_cache_counters(cache)->errors, 0);
}

static void test_threads(void **state)
{
    char *folder = sample_folder();
    struct work work = {.entry = sample_entry(1)};
    pthread_t threads[WORKERS];

    (void)state;
    assert_int_equal(rt_cache_open(folder, true, true, NULL, &work.cache), SMLA_OK);
    pthread_barrier_init(&work.start, NULL, WORKERS);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, thread_body, &work), 0);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(work.failures, 0);
    assert_int_equal(rt_cache_counters(work.cache)->written, WORKERS * ROUNDS);
    assert_clean(folder, work.cache);
    pthread_barrier_destroy(&work.start);
    rt_cache_close(work.cache);
    rt_entry_free(&work.entry);
    sample_folder_remove(folder);
}

/* Opens the cache itself: the folders are made by several at once too. */
static int process_body(const char *folder, int start)
{
    struct rt_entry entry = sample_entry(2);
    struct rt_cache *cache;
    char byte;
    int failures;

    if (read(start, &byte, 1) != 0 || rt_cache_open(folder, true, true, NULL, &cache) != SMLA_OK)
        return 200;
    failures = work_on(cache, &entry) + (int)rt_cache_counters(cache)->damaged + (int)rt_cache_counters(cache)->errors;
    rt_cache_close(cache);
    rt_entry_free(&entry);
    return failures < 200 ? failures : 200;
}

static void test_4_processes(void **state)
{
    char *folder = sample_folder();
    char *dir = sample_path(folder, "not/there/yet");
    struct rt_cache *cache;
    pid_t children[WORKERS];
    int start[2];

    (void)state;
    assert_int_equal(pipe(start), 0);
    for (int i = 0; i < WORKERS; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            close(start[1]);
            _exit(process_body(dir, start[0]));
        }
        assert_true(children[i] > 0);
    }
    close(start[0]);
    close(start[1]); /* the end of file starts them all */
    for (int i = 0; i < WORKERS; i++) {
        int status = -1;

        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(rt_cache_open(dir, false, true, NULL, &cache), SMLA_OK);
    assert_clean(dir, cache);
    rt_cache_close(cache);
    free(dir);
    sample_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_4_processes), /* before there are threads */
        cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
