/* A cache whose entries were last used when a test says. */
#ifndef SMLA_TESTS_CACHE_GC_FIXTURE_H
#define SMLA_TESTS_CACHE_GC_FIXTURE_H

#include "cache_gc.h"
#include "sample.h"

enum { HOUR = 3600, DAY = 24 * HOUR };

struct gc_fixture {
    char *dir;
    struct sample_log log;
    struct rt_log to;
    struct rt_cache *cache;
    struct rt_cache_collected done;
};

int gc_set_up(void **state);
int gc_tear_down(void **state);

/* The age of a file by its last change. */
void gc_set_age(const char *path, int64_t age_s);
int64_t gc_age_of(const char *path);

/* Publishes the entry of a seed, used so long ago. Returns its size. */
uint64_t gc_add(struct gc_fixture *fixture, uint8_t seed, int64_t age_s);
bool gc_is_there(const struct gc_fixture *fixture, uint8_t seed);

#define TEST(name) cmocka_unit_test_setup_teardown(name, gc_set_up, gc_tear_down)

#endif
