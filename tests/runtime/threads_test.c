/* Sixteen threads at once: one compilation and one load a kernel, and the same failure for all. Run under TSan. */
#include <pthread.h>

#include "harness.h"

enum { THREADS = 16, VARIETIES = 4 };

struct job {
    smla_context *context;
    struct stub_driver *driver;
    pthread_barrier_t *start;
    smla_kernel_desc desc;
    int prefills;
    smla_status status;
    char message[256];
};

static void *prepare_and_call(void *user)
{
    struct job *job = user;
    const smla_prefill_args args = {.struct_size = sizeof args};
    smla_kernel *kernel = NULL;

    job->driver->set_current(TEST_CONTEXT);
    pthread_barrier_wait(job->start);
    job->status = smla_prepare(job->context, &job->desc, &kernel);
    if (job->status != SMLA_OK)
        snprintf(job->message, sizeof job->message, "%s", last_error().message);
    for (int i = 0; job->status == SMLA_OK && i < job->prefills; i++)
        job->status = smla_prefill(kernel, &args, NULL);
    smla_kernel_destroy(kernel);
    return NULL;
}

static void run_all(const struct world *world, struct job jobs[THREADS], int varieties)
{
    pthread_t threads[THREADS];
    pthread_barrier_t start;

    assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){.context = world->context,
                               .driver = world->driver,
                               .start = &start,
                               .desc = reference_desc(),
                               .prefills = 50};
        jobs[i].desc.h_q = 1 + i % varieties;
        assert_int_equal(pthread_create(&threads[i], NULL, prepare_and_call, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
}

static void one_compile_a_kernel(void **state)
{
    struct world *world = *state;
    struct job jobs[THREADS];

    world_serve_reference(world);
    world->nvrtc->script.delay_us = 20000;
    world->driver->script.delay_us = 2000;
    run_all(world, jobs, VARIETIES);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(jobs[i].status, SMLA_OK);
    assert_int_equal(world->nvrtc->compiles, VARIETIES);
    assert_int_equal(world->driver->loads, VARIETIES);
    const smla_stats_counters stats = stats_of(world->context);
    assert_int_equal(stats.compiles, VARIETIES);
    assert_int_equal(stats.misses, VARIETIES);
    assert_int_equal(stats.memory_hits, THREADS - VARIETIES);
    assert_true(stats.shared_waits > 0);
}

/* The log of the one failed compilation reaches all who waited for it. */
static void all_get_the_failure(void **state)
{
    struct world *world = *state;
    struct job jobs[THREADS];

    world_serve_reference(world);
    world->nvrtc->script.delay_us = 20000;
    world->nvrtc->compile_result = 6;
    run_all(world, jobs, 1);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(jobs[i].status, SMLA_ERROR_COMPILE);
        assert_string_equal(jobs[i].message, jobs[0].message);
    }
    assert_int_equal(world->nvrtc->compiles, 1);
}

/* A failure that may pass is shared by those who waited and forgotten for those who come later. */
static void passing_failures(void **state)
{
    struct world *world = *state;
    struct job jobs[THREADS];

    world_serve_reference(world);
    world->nvrtc->script.delay_us = 5000;
    world->nvrtc->compile_result = 7;
    run_all(world, jobs, 2);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(jobs[i].status, SMLA_ERROR_UNAVAILABLE);
    world->nvrtc->compile_result = 0;
    run_all(world, jobs, 2);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(jobs[i].status, SMLA_OK);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(one_compile_a_kernel),
        TEST(all_get_the_failure),
        TEST(passing_failures),
    };
    return cmocka_run_group_tests_name("runtime.threads", tests, NULL, NULL);
}
