/* A limit on how long a call waits for a compiler that cannot be stopped: told with the limit, the compilation goes on,
 * and what comes of it is kept; and what a context says is sealed. Run under TSan. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gate.h"

enum { LIMIT_MS = 30, LONG_MS = 60000, THREADS = 8, WORKERS = 4 };

static bool no_threads;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *user);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *user)
{
    return attributes != NULL && no_threads ? 11 : __real_pthread_create(thread, attributes, start, user);
}

static smla_context *create(uint32_t limit_ms, const char *cache_dir)
{
    smla_context_desc desc = stub_context_desc();
    smla_context *context = NULL;

    desc.compile_limit_ms = limit_ms;
    desc.cache_policy = cache_dir ? SMLA_CACHE_RW : SMLA_CACHE_OFF;
    desc.cache_dir = cache_dir;
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
    return context;
}

static int setup(void **state)
{
    if (world_setup(state) != 0)
        return -1;
    struct world *world = *state;
    smla_context_destroy(world->context);
    world_serve_reference(world);
    no_threads = false;
    world->context = create(LIMIT_MS, NULL);
    return 0;
}

static smla_status prepare(smla_context *context, int32_t h_q)
{
    smla_kernel_desc desc = reference_desc();
    smla_kernel *kernel = NULL;

    desc.h_q = h_q;
    const smla_status status = smla_prepare(context, &desc, &kernel);
    assert_true((kernel != NULL) == (status == SMLA_OK));
    smla_kernel_destroy(kernel);
    return status;
}

/* Asks until it is no longer being compiled. */
static smla_status prepare_in_the_end(smla_context *context, int32_t h_q)
{
    smla_status status;

    while ((status = prepare(context, h_q)) == SMLA_ERROR_TIMEOUT)
        usleep(1000);
    return status;
}

static void ends_in_time_and_is_kept(void **state)
{
    struct world *world = *state;

    gate_close(world);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(prepare(world->context, 64), SMLA_ERROR_TIMEOUT);
        assert_error(SMLA_ERROR_TIMEOUT, "h_q=64", "compile_limit_ms", "30 ms", "ask again");
    }
    gate_open();
    assert_int_equal(prepare_in_the_end(world->context, 64), SMLA_OK);
    assert_int_equal(world->nvrtc->compiles, 1);
    assert_true(stats_of(world->context).compile_timeouts >= 3);
    assert_int_equal(stats_of(world->context).compiles, 1);
}

static void soon_enough(void **state)
{
    struct world *world = *state;
    smla_context *context = create(LONG_MS, NULL);

    assert_int_equal(prepare(context, 64), SMLA_OK);
    assert_int_equal(prepare(context, 64), SMLA_OK);
    assert_int_equal(stats_of(context).compile_timeouts, 0);
    assert_int_equal(stats_of(context).misses, 1);
    assert_int_equal(stats_of(context).memory_hits, 1);
    assert_int_equal(world->nvrtc->compiles, 1);
    smla_context_destroy(context);
}

struct asker {
    const struct world *world;
    smla_status status;
};

static void *ask(void *user)
{
    struct asker *asker = user;

    asker->world->driver->set_current(TEST_CONTEXT);
    asker->status = prepare(asker->world->context, 64);
    return NULL;
}

/* Who waits for another thread's compilation waits no longer than that thread. */
static void ends_for_all_who_wait(void **state)
{
    struct world *world = *state;
    struct asker askers[THREADS];
    pthread_t threads[THREADS];

    gate_close(world);
    for (int i = 0; i < THREADS; i++) {
        askers[i] = (struct asker){world, SMLA_OK};
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(askers[i].status, SMLA_ERROR_TIMEOUT);
    }
    gate_open();
    assert_int_equal(prepare_in_the_end(world->context, 64), SMLA_OK);
    assert_int_equal(world->nvrtc->compiles, 1);
}

/* More overdue compilations than threads: the others wait for one, and their callers no longer than the limit. */
static void threads_are_bounded(void **state)
{
    struct world *world = *state;

    gate_close(world);
    for (int i = 0; i < WORKERS + 2; i++)
        assert_int_equal(prepare(world->context, 1 + i), SMLA_ERROR_TIMEOUT);
    gate_wait_for(WORKERS);
    assert_int_equal(gate_arrived(), WORKERS);
    gate_open();
    for (int i = 0; i < WORKERS + 2; i++)
        assert_int_equal(prepare_in_the_end(world->context, 1 + i), SMLA_OK);
    assert_int_equal(world->nvrtc->compiles, WORKERS + 2);
}

static void holds_in_the_background_too(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = reference_desc();
    smla_preparation *preparation = NULL;

    gate_close(world);
    assert_int_equal(smla_prepare_start(world->context, &desc, &preparation), SMLA_OK);
    assert_int_equal(smla_prepare_wait(preparation, SMLA_WAIT_FOREVER, NULL), SMLA_ERROR_TIMEOUT);
    assert_error(SMLA_ERROR_TIMEOUT, "30 ms");
    smla_prepare_destroy(preparation);
    gate_open();
    assert_int_equal(prepare_in_the_end(world->context, 64), SMLA_OK);
}

/* Those that run are waited for; those that have not begun never do. */
static void context_destroyed_meanwhile(void **state)
{
    struct world *world = *state;

    gate_close(world);
    for (int i = 0; i < WORKERS + 1; i++)
        assert_int_equal(prepare(world->context, 1 + i), SMLA_ERROR_TIMEOUT);
    gate_wait_for(WORKERS);
    gate_open_later();
    smla_context_destroy(world->context);
    world->context = NULL;
    gate_join();
    assert_int_equal(world->nvrtc->compiles, WORKERS);
    assert_int_equal(world->nvrtc->live_programs, 0);
}

static void late_result_is_written_down(void **state)
{
    struct world *world = *state;
    char *folder = make_folder();
    smla_context *context = create(LIMIT_MS, folder);
    smla_context_desc desc = stub_context_desc();

    gate_close(world);
    assert_int_equal(prepare(context, 64), SMLA_ERROR_TIMEOUT);
    gate_wait_for(1);
    gate_open();
    smla_context_destroy(context);
    desc.cache_policy = SMLA_CACHE_RO;
    desc.cache_dir = folder;
    desc.jit_policy = SMLA_JIT_OFF;
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
    assert_int_equal(prepare(context, 64), SMLA_OK);
    assert_int_equal(stats_of(context).disk_hits, 1);
    smla_context_destroy(context);
    remove_folder(folder);
}

static void late_failure_is_remembered(void **state)
{
    struct world *world = *state;

    world->nvrtc->compile_result = 6;
    world->nvrtc->compile_log = "error: x\n";
    gate_close(world);
    assert_int_equal(prepare(world->context, 64), SMLA_ERROR_TIMEOUT);
    gate_open();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(prepare_in_the_end(world->context, 64), SMLA_ERROR_COMPILE);
        assert_string_equal(last_error().log, "error: x\n");
    }
    assert_int_equal(world->nvrtc->compiles, 1);
}

/* What may pass is forgotten when it is over, and then tried again. */
static void late_passing_failure_is_tried_again(void **state)
{
    struct world *world = *state;

    world->nvrtc->compile_result = 7;
    gate_close(world);
    assert_int_equal(prepare(world->context, 64), SMLA_ERROR_TIMEOUT);
    gate_open();
    while (stats_of(world->context).compile_failures == 0)
        usleep(1000);
    world->nvrtc->compile_result = 0;
    smla_status status = prepare_in_the_end(world->context, 64);
    if (status == SMLA_ERROR_UNAVAILABLE) /* asked just before it was forgotten */
        status = prepare_in_the_end(world->context, 64);
    assert_int_equal(status, SMLA_OK);
    assert_int_equal(world->nvrtc->compiles, 2);
}

static void no_thread_is_to_be_had(void **state)
{
    struct world *world = *state;

    no_threads = true;
    assert_int_equal(prepare(world->context, 64), SMLA_ERROR_OUT_OF_MEMORY);
    assert_error(SMLA_ERROR_OUT_OF_MEMORY, "no thread");
    no_threads = false;
    assert_int_equal(prepare_in_the_end(world->context, 64), SMLA_OK);
    assert_int_equal(world->nvrtc->compiles, 1);
}

static void limit_from_the_environment(void **state)
{
    struct world *world = *state;
    static const char *const bad[] = {"soon", "-1", "5s", "4294967295", "99999999999999999999"};
    smla_context_desc desc = stub_context_desc();
    smla_context *context = NULL;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("SMLA_COMPILE_LIMIT_MS", bad[i], 1);
        assert_int_equal(smla_context_create(&desc, &context), SMLA_ERROR_INVALID_ARGUMENT);
        assert_error(SMLA_ERROR_INVALID_ARGUMENT, "SMLA_COMPILE_LIMIT_MS", bad[i]);
    }
    setenv("SMLA_COMPILE_LIMIT_MS", "30", 1);
    context = create(0, NULL);
    gate_close(world);
    assert_int_equal(prepare(context, 64), SMLA_ERROR_TIMEOUT);
    gate_open();
    smla_context_destroy(context);
    context = create(SMLA_COMPILE_LIMIT_NONE, NULL); /* the description wins */
    gate_close(world);
    gate_open_later();
    assert_int_equal(prepare(context, 64), SMLA_OK);
    gate_join();
    smla_context_destroy(context);
    unsetenv("SMLA_COMPILE_LIMIT_MS");
    desc.reserved_2 = 1;
    assert_int_equal(smla_context_create(&desc, &context), SMLA_ERROR_INVALID_ARGUMENT);
}

static void other_process_is_waited_for_no_longer(void **state)
{
    struct world *world = *state;
    char *folder = make_folder();
    int ready[2], code = -1;
    char byte = 0;

    assert_int_equal(setenv("XDG_RUNTIME_DIR", folder, 1), 0);
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) { /* compiles with the lock held until it is killed */
        smla_context *context = create(0, folder);
        gate_close(world);
        pthread_t thread;
        struct asker asker = {&(struct world){.driver = world->driver, .context = context}, SMLA_OK};
        pthread_create(&thread, NULL, ask, &asker);
        gate_wait_for(1);
        (void)!write(ready[1], &byte, 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    smla_context *context = create(LIMIT_MS, folder);
    assert_int_equal(prepare(context, 64), SMLA_ERROR_TIMEOUT);
    assert_int_equal(world->nvrtc->compiles, 0);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(prepare_in_the_end(context, 64), SMLA_OK);
    assert_int_equal(world->nvrtc->compiles, 1);
    smla_context_destroy(context);
    close(ready[0]);
    close(ready[1]);
    remove_folder(folder);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(ends_in_time_and_is_kept),
        TEST(soon_enough),
        TEST(ends_for_all_who_wait),
        TEST(threads_are_bounded),
        TEST(holds_in_the_background_too),
        TEST(context_destroyed_meanwhile),
        TEST(late_result_is_written_down),
        TEST(late_failure_is_remembered),
        TEST(late_passing_failure_is_tried_again),
        TEST(no_thread_is_to_be_had),
        TEST(limit_from_the_environment),
        TEST(other_process_is_waited_for_no_longer),
    };
    return cmocka_run_group_tests_name("runtime.compile_limit", tests, NULL, NULL);
}
