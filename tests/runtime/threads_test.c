/* Sixteen threads at once: one compilation and one load a kernel, and the same failure for all; of several contexts and
 * CUDA contexts too (facts/jit.md §2: 59). Run under TSan. */
#include <pthread.h>

#include "harness.h"

enum { THREADS = 16, VARIETIES = 4, CONTEXTS = 2, CUDA_CONTEXTS = 2 };

struct job {
    smla_context *context;
    struct stub_driver *driver;
    pthread_barrier_t *start;
    void *cuda_context;
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

    job->driver->set_current(job->cuda_context);
    pthread_barrier_wait(job->start);
    job->status = smla_prepare(job->context, &job->desc, &kernel);
    if (job->status != SMLA_OK)
        snprintf(job->message, sizeof job->message, "%s", last_error().message);
    for (int i = 0; job->status == SMLA_OK && i < job->prefills; i++)
        job->status = smla_prefill(kernel, &args, NULL);
    smla_kernel_destroy(kernel);
    return NULL;
}

static void fill_jobs(const struct world *world, struct job jobs[THREADS], int varieties)
{
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){.context = world->context,
                               .driver = world->driver,
                               .cuda_context = TEST_CONTEXT,
                               .desc = reference_desc(),
                               .prefills = 50};
        jobs[i].desc.h_q = 1 + i % varieties;
    }
}

static void run_jobs(struct job jobs[THREADS])
{
    pthread_t threads[THREADS];
    pthread_barrier_t start;

    assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++) {
        jobs[i].start = &start;
        assert_int_equal(pthread_create(&threads[i], NULL, prepare_and_call, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
}

static void run_all(const struct world *world, struct job jobs[THREADS], int varieties)
{
    fill_jobs(world, jobs, varieties);
    run_jobs(jobs);
}

static void test_J9_59_one_compile_a_kernel(void **state)
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

/* Contexts of one cache folder: in each a kernel is found once and loaded once a CUDA context; only one compiles it. */
static void test_J9_59_several_contexts(void **state)
{
    struct world *world = *state;
    smla_context_desc desc = stub_context_desc();
    smla_context *contexts[CONTEXTS] = {NULL};
    struct job jobs[THREADS];
    char *folder = make_folder();
    uint64_t compiles = 0, disk_hits = 0, waits = 0;

    world_serve_reference(world);
    world->nvrtc->script.delay_us = 20000;
    desc.cache_policy = SMLA_CACHE_RW;
    desc.cache_dir = folder;
    assert_int_equal(setenv("XDG_RUNTIME_DIR", folder, 1), 0);
    for (int i = 0; i < CONTEXTS; i++)
        assert_int_equal(smla_context_create(&desc, &contexts[i]), SMLA_OK);
    fill_jobs(world, jobs, VARIETIES);
    for (int i = 0; i < THREADS; i++) {
        jobs[i].context = contexts[i / VARIETIES % CONTEXTS];
        jobs[i].cuda_context = (char *)TEST_CONTEXT + i / VARIETIES / CONTEXTS;
    }
    run_jobs(jobs);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(jobs[i].status, SMLA_OK);
    for (int i = 0; i < CONTEXTS; i++) {
        const smla_stats_counters stats = stats_of(contexts[i]);

        compiles += stats.compiles;
        disk_hits += stats.disk_hits;
        waits += stats.node_waits;
        assert_int_equal(stats.kernels_loaded, VARIETIES * CUDA_CONTEXTS);
        smla_context_destroy(contexts[i]);
    }
    assert_int_equal(compiles, VARIETIES);
    assert_int_equal(world->nvrtc->compiles, VARIETIES);
    assert_int_equal(disk_hits, VARIETIES * (CONTEXTS - 1));
    assert_true(waits <= VARIETIES);
    remove_folder(folder);
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
        TEST(test_J9_59_one_compile_a_kernel),
        TEST(test_J9_59_several_contexts),
        TEST(all_get_the_failure),
        TEST(passing_failures),
    };
    return cmocka_run_group_tests_name("runtime.threads", tests, NULL, NULL);
}
