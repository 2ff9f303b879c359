#include "gc_fixture.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

int gc_set_up(void **state)
{
    struct gc_fixture *fixture = calloc(1, sizeof *fixture);

    fixture->dir = sample_folder();
    fixture->to = (struct rt_log){.fn = sample_log_line, .user = &fixture->log};
    *state = fixture;
    return rt_cache_open(fixture->dir, true, true, &fixture->to, &fixture->cache) == SMLA_OK ? 0 : -1;
}

int gc_tear_down(void **state)
{
    struct gc_fixture *fixture = *state;

    rt_cache_close(fixture->cache);
    sample_folder_remove(fixture->dir);
    free(fixture);
    return 0;
}

void gc_set_age(const char *path, int64_t age_s)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - age_s}};

    assert_int_equal(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

int64_t gc_age_of(const char *path)
{
    struct timespec now; /* time's second may begin some milliseconds after that of a file's stamps */
    struct stat status;

    assert_int_equal(lstat(path, &status), 0);
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
    return (int64_t)now.tv_sec - (int64_t)status.st_mtim.tv_sec;
}

uint64_t gc_add(struct gc_fixture *fixture, uint8_t seed, int64_t age_s)
{
    struct rt_entry entry = sample_entry(seed);
    char *path = sample_entry_path(fixture->dir, &entry);
    const uint64_t size = entry.file_size;

    assert_true(rt_cache_publish(fixture->cache, &entry));
    gc_set_age(path, age_s);
    free(path);
    rt_entry_free(&entry);
    return size;
}

bool gc_is_there(const struct gc_fixture *fixture, uint8_t seed)
{
    struct rt_entry entry = sample_entry(seed);
    char *path = sample_entry_path(fixture->dir, &entry);
    const bool there = access(path, F_OK) == 0;

    free(path);
    rt_entry_free(&entry);
    return there;
}
