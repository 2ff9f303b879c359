/* Sixteen threads, each of which does every operation, beginning with another one, in two CUDA contexts: kernels and
 * smla contexts are prepared, called, generated, asked and created at once, the same and different ones. Run under
 * TSan. */
#include <pthread.h>

#include "operations.h"

enum { THREADS = 16, ROUNDS = 2, CUDA_CONTEXTS = 2, MOST_SCENES = 64, KERNELS = 2 };

struct worker {
    struct scene *scenes;
    size_t scene_count;
    size_t first;
    void *cuda_context;
    pthread_barrier_t *start;
    bool some_fail;
    const struct operation *failed; /* and its message; NULL: none */
    char message[256];
};

static bool suits(const struct worker *worker, const struct operation *operation, smla_status status)
{
    return status == operation->usual ||
           (worker->some_fail && (status == SMLA_ERROR_DRIVER || status == SMLA_ERROR_UNAVAILABLE));
}

static void *do_all(void *user)
{
    struct worker *worker = user;

    pthread_barrier_wait(worker->start);
    for (size_t i = 0; i < ROUNDS * worker->scene_count && worker->failed == NULL; i++) {
        struct scene *scene = &worker->scenes[(worker->first + i) % worker->scene_count];

        scene->world.driver->set_current(worker->cuda_context); /* where it could not be popped, too */
        if (suits(worker, scene->operation, scene->operation->act(scene)))
            continue;
        worker->failed = scene->operation;
        snprintf(worker->message, sizeof worker->message, "%s", last_error().message);
    }
    return NULL;
}

static size_t arrange_all(const struct world *world, struct scene scenes[MOST_SCENES])
{
    size_t count = 0;

    for (size_t i = 0; i < operation_count; i++) {
        if (operations[i].alone)
            continue;
        assert_true(count < MOST_SCENES);
        world->driver->set_current(TEST_CONTEXT);
        scene_arrange(&scenes[count++], world, &operations[i]);
    }
    return count;
}

static void run_all(struct scene *scenes, size_t scene_count, bool some_fail)
{
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    pthread_barrier_t start;

    assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
    for (size_t i = 0; i < THREADS; i++) { /* two of them begin alike */
        workers[i] = (struct worker){.scenes = scenes,
                                     .scene_count = scene_count,
                                     .first = i / 2 * scene_count / (THREADS / 2),
                                     .cuda_context = (char *)TEST_CONTEXT + i % CUDA_CONTEXTS,
                                     .start = &start,
                                     .some_fail = some_fail};
        assert_int_equal(pthread_create(&threads[i], NULL, do_all, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    for (int i = 0; i < THREADS; i++)
        if (workers[i].failed)
            fail_msg("%s: %s", workers[i].failed->name, workers[i].message);
}

/* Each context has compiled each of its kernels once at most, and loaded it once for each CUDA context. */
static void check_scene(const struct scene *scene)
{
    assert_false(scene->touched);
    if (scene->world.context == NULL)
        return;
    const smla_stats_counters stats = stats_of(scene->world.context);
    if (stats.compiles > KERNELS || stats.kernels_loaded > KERNELS * CUDA_CONTEXTS)
        fail_msg("%s: %d compilations, %d loads", scene->operation->name, (int)stats.compiles,
                 (int)stats.kernels_loaded);
}

static void all_at_once(void **state)
{
    struct world world;
    struct scene scenes[MOST_SCENES];

    (void)state;
    world_open_stubs(&world);
    world_serve_all(&world);
    const size_t count = arrange_all(&world, scenes);
    world.driver->script.delay_us = world.nvrtc->script.delay_us = 500;
    run_all(scenes, count, false);
    for (size_t i = 0; i < count; i++) {
        check_scene(&scenes[i]);
        scene_close(&scenes[i]);
    }
    assert_int_equal(world.driver->live_libraries, 0);
    assert_int_equal(world.nvrtc->live_programs, 0);
}

/* Calls of driver and compiler fail meanwhile; afterwards all is well. */
static void all_at_once_and_some_fail(void **state)
{
    struct world world;
    struct scene scenes[MOST_SCENES];

    (void)state;
    world_open_stubs(&world);
    world_serve_all(&world);
    const size_t count = arrange_all(&world, scenes);
    world.driver->clear_log();
    world.nvrtc->clear_log();
    world.driver->script = (struct stub_script){.fail_call = 5, .fail_code = 2, .delay_us = 500, .again = 37};
    world.nvrtc->script = (struct stub_script){.fail_call = 3, .fail_code = 7, .delay_us = 500, .again = 11};
    run_all(scenes, count, true);
    assert_true(world.driver->failed() > 20 && world.nvrtc->failed() > 5);
    world.driver->script = world.nvrtc->script = (struct stub_script){0};
    world.driver->set_current(TEST_CONTEXT);
    for (size_t i = 0; i < count; i++) {
        scene_must_act(&scenes[i]);
        scene_close(&scenes[i]);
    }
    assert_int_equal(world.nvrtc->live_programs, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_at_once),
        cmocka_unit_test(all_at_once_and_some_fail),
    };
    return cmocka_run_group_tests_name("runtime.operations_threads", tests, NULL, NULL);
}
