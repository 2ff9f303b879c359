/* Every allocation of the library fails in turn (ld --wrap), and so does every thread and lock that is to be had, in
 * every operation: alone, and with all that follow. OUT_OF_MEMORY or done without, outputs untouched, no leak (ASan,
 * and what the stubs count), and the next attempt works. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>

#include "operations.h"

static int countdown; /* 1: the next one fails; 0 and below: none does; of several threads */
static bool lasting;  /* and all that follow */

static bool fails_now(void)
{
    if (scene_is_on_device())
        return false;
    const int left = __atomic_sub_fetch(&countdown, 1, __ATOMIC_RELAXED);

    return left == 0 || (lasting && left < 0 && left > -1000000);
}

/* Below any that fails. */
static void stop_failing(void)
{
    lasting = false;
    __atomic_store_n(&countdown, 0, __ATOMIC_RELAXED);
}

#define WRAP(type, name, parameters, arguments, failure)                                                               \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters                                                                                      \
    {                                                                                                                  \
        if (!fails_now())                                                                                              \
            return __real_##name arguments;                                                                            \
        errno = ENOMEM;                                                                                                \
        return failure;                                                                                                \
    }
WRAP(void *, malloc, (size_t size), (size), NULL)
WRAP(void *, calloc, (size_t count, size_t size), (count, size), NULL)
WRAP(void *, realloc, (void *old, size_t size), (old, size), NULL)
WRAP(char *, strdup, (const char *text), (text), NULL)
WRAP(DIR *, fdopendir, (int folder), (folder), NULL)
WRAP(int, pthread_mutex_init, (pthread_mutex_t * lock, const pthread_mutexattr_t *how), (lock, how), ENOMEM)
WRAP(int, pthread_cond_init, (pthread_cond_t * condition, const pthread_condattr_t *how), (condition, how), ENOMEM)
WRAP(int, pthread_attr_init, (pthread_attr_t * attributes), (attributes), ENOMEM)
WRAP(int, pthread_create, (pthread_t * thread, const pthread_attr_t *how, void *(*start)(void *), void *user),
     (thread, how, start, user), EAGAIN)

int __wrap_asprintf(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));

int __wrap_asprintf(char **text, const char *format, ...)
{
    va_list arguments;

    if (fails_now()) {
        *text = NULL;
        return -1;
    }
    va_start(arguments, format);
    const int size = vasprintf(text, format, arguments);
    va_end(arguments);
    return size;
}

/* Where the n-th fails. Returns whether there are so many. */
static bool fail_one(const struct operation *operation, int n, bool all_that_follow, int *refused)
{
    struct scene scene;

    scene_open(&scene, operation);
    lasting = all_that_follow;
    __atomic_store_n(&countdown, n, __ATOMIC_RELAXED);
    const smla_status status = operation->act(&scene);
    const bool came = __atomic_load_n(&countdown, __ATOMIC_RELAXED) <= 0;
    stop_failing();
    if (status != operation->usual) {
        const char *const message = last_error().message;
        const bool unread = scene.sealed && status == SMLA_ERROR_NOT_CACHED;
        const bool told = strcasestr(message, "memory") != NULL || strstr(message, "no thread") != NULL;
        if (!came || (!unread && (status != SMLA_ERROR_OUT_OF_MEMORY || !told)))
            fail_msg("%s, allocation %d%s: status %d: %s", operation->name, n, all_that_follow ? " and later ones" : "",
                     (int)status, message);
        ++*refused;
    }
    if (scene.touched)
        fail_msg("%s, allocation %d: an output was written", operation->name, n);
    scene_must_act(&scene);
    scene_close(&scene);
    assert_int_equal(scene.world.driver->live_libraries, 0);
    assert_int_equal(scene.world.driver->live_allocations, 0);
    assert_int_equal(scene.world.driver->live_streams, 0);
    assert_int_equal(scene.world.driver->retained_primaries, 0);
    assert_int_equal(scene.world.nvrtc->live_programs, 0);
    return came;
}

static void fail_each(bool all_that_follow)
{
    int refused = 0, done_without = 0;

    for (size_t i = 0; i < operation_count; i++) {
        const int before = refused;
        int n = 1;

        while (fail_one(&operations[i], n, all_that_follow, &refused))
            n++;
        done_without += n - 1 - (refused - before);
    }
    print_message("%d allocations refused, %d done without\n", refused, done_without);
    assert_true(refused > 300);
}

static void the_nth(void **state)
{
    (void)state;
    fail_each(false);
}

static void all_from_the_nth(void **state)
{
    (void)state;
    fail_each(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nth),
        cmocka_unit_test(all_from_the_nth),
    };
    return cmocka_run_group_tests_name("runtime.allocation", tests, NULL, NULL);
}
