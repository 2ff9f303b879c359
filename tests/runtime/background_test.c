/* Preparing in the background: never waits for a compiler (facts/jit.md §2: 35, 36), delivers errors to who asks, ends
 * with its context, bounded threads. Run under TSan. */
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "context.h"
#include "gate.h"
#include "kernel.h"

enum { WORKERS = 4, THREADS = 16, VARIETIES = 4 };

/* No thread of the library is to be had while this is set. */
static bool no_threads;
static int threads_made;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *user);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *user)
{
    if (attributes != NULL && no_threads)
        return 11; /* EAGAIN */
    if (attributes != NULL)
        __atomic_add_fetch(&threads_made, 1, __ATOMIC_RELAXED);
    return __real_pthread_create(thread, attributes, start, user);
}

static int setup(void **state)
{
    if (world_setup(state) != 0)
        return -1;
    world_serve_reference(*state);
    no_threads = false;
    threads_made = 0;
    return 0;
}

static smla_kernel_desc variety(int32_t h_q)
{
    smla_kernel_desc desc = reference_desc();

    desc.h_q = h_q;
    return desc;
}

static smla_preparation *must_start(smla_context *context, const smla_kernel_desc *desc)
{
    smla_preparation *preparation = NULL;

    if (smla_prepare_start(context, desc, &preparation) != SMLA_OK)
        fail_msg("start: %s", last_error().message);
    return preparation;
}

static smla_kernel *must_finish(smla_preparation *preparation)
{
    smla_kernel *kernel = NULL;

    if (smla_prepare_wait(preparation, SMLA_WAIT_FOREVER, &kernel) != SMLA_OK)
        fail_msg("wait: %s", last_error().message);
    smla_prepare_destroy(preparation);
    return kernel;
}

static void pending_then_ready_then_taken(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = reference_desc();
    const smla_prefill_args args = {.struct_size = sizeof args};
    smla_kernel *kernel = NULL;

    gate_close(world);
    smla_preparation *preparation = must_start(world->context, &desc);
    for (int i = 0; i < 100; i++)
        assert_int_equal(smla_prepare_poll(preparation, &kernel), SMLA_PENDING);
    gate_wait_for(1);
    assert_int_equal(smla_prepare_poll(preparation, &kernel), SMLA_PENDING);
    assert_int_equal(last_error().status, SMLA_OK); /* an answer, no failure */
    assert_null(kernel);
    gate_open();
    assert_int_equal(smla_prepare_wait(preparation, SMLA_WAIT_FOREVER, NULL), SMLA_OK);
    assert_int_equal(smla_prepare_poll(preparation, NULL), SMLA_OK);
    assert_int_equal(smla_prepare_poll(preparation, &kernel), SMLA_OK);
    assert_int_equal(smla_prefill(kernel, &args, NULL), SMLA_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(smla_prepare_poll(preparation, i ? NULL : &kernel), SMLA_ERROR_INVALID_ARGUMENT);
        assert_error(SMLA_ERROR_INVALID_ARGUMENT, "handed over");
    }
    smla_prepare_destroy(preparation);
    smla_kernel_destroy(kernel);
    assert_int_equal(threads_made, 1);
}

static void *expect_failure(void *preparation)
{
    smla_kernel *kernel = NULL;

    assert_int_equal(smla_prepare_wait(preparation, SMLA_WAIT_FOREVER, &kernel), SMLA_ERROR_COMPILE);
    assert_error(SMLA_ERROR_COMPILE, "NVRTC 12.9", "h_q=64");
    assert_string_equal(last_error().log, "a.cu(1): error: x\n");
    assert_int_equal(last_error().native_code, 6);
    assert_null(kernel);
    return NULL;
}

static void failure_is_told_where_it_is_asked(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = reference_desc();
    pthread_t thread;

    world->nvrtc->compile_result = 6;
    world->nvrtc->compile_log = "a.cu(1): error: x\n";
    smla_preparation *preparation = must_start(world->context, &desc);
    assert_int_equal(pthread_create(&thread, NULL, expect_failure, preparation), 0);
    pthread_join(thread, NULL);
    expect_failure(preparation); /* again, and in another thread */
    smla_prepare_destroy(preparation);
}

/* What cannot be generated is the worker's to find out. */
static void refusals_come_by_poll(void **state)
{
    struct world *world = *state;
    smla_kernel_desc desc = reference_desc();
    smla_preparation *preparation = (void *)(uintptr_t)0xdead;
    smla_kernel *kernel = NULL;

    desc.kv_format = "v99";
    smla_preparation *refused = must_start(world->context, &desc);
    assert_int_equal(smla_prepare_wait(refused, SMLA_WAIT_FOREVER, &kernel), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "v99");
    smla_prepare_destroy(refused);
    assert_int_equal(smla_prepare_start(NULL, &desc, &preparation), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_prepare_start(world->context, NULL, &preparation), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_prepare_start(world->context, &desc, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    desc.struct_size = 2;
    assert_int_equal(smla_prepare_start(world->context, &desc, &preparation), SMLA_ERROR_INVALID_ARGUMENT);
    assert_ptr_equal(preparation, (void *)(uintptr_t)0xdead);
    assert_int_equal(smla_prepare_poll(NULL, &kernel), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_prepare_wait(NULL, 1, &kernel), SMLA_ERROR_INVALID_ARGUMENT);
    smla_prepare_destroy(NULL);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void wait_ends_with_its_time(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = reference_desc();
    smla_kernel *kernel = NULL;

    gate_close(world);
    smla_preparation *preparation = must_start(world->context, &desc);
    const uint64_t start = now_ns();
    assert_int_equal(smla_prepare_wait(preparation, 30, &kernel), SMLA_PENDING);
    assert_true(now_ns() - start >= 30000000u);
    assert_null(kernel);
    gate_open();
    smla_kernel_destroy(must_finish(preparation));
}

static int by_size(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return (left > right) - (left < right);
}

/* While every worker compiles. The median, because this machine may do other things meanwhile; that no call waits for a
 * compiler at all is shown by the gate, which would keep it for ever. */
static void test_36_start_and_poll_take_no_time(void **state)
{
    enum { CALLS = 41 };
    struct world *world = *state;
    smla_preparation *preparations[CALLS];
    uint64_t start_ns[CALLS], poll_ns[CALLS];

    gate_close(world);
    for (int i = 0; i < CALLS; i++) {
        const smla_kernel_desc desc = variety(1 + i % 8);
        uint64_t start = now_ns();
        preparations[i] = must_start(world->context, &desc);
        start_ns[i] = now_ns() - start;
        start = now_ns();
        assert_int_equal(smla_prepare_poll(preparations[i], NULL), SMLA_PENDING);
        poll_ns[i] = now_ns() - start;
    }
    qsort(start_ns, CALLS, sizeof *start_ns, by_size);
    qsort(poll_ns, CALLS, sizeof *poll_ns, by_size);
    const uint64_t start_median = start_ns[CALLS / 2], poll_median = poll_ns[CALLS / 2];
    print_message("start %.1f us, poll %.1f us in the median; %.1f and %.1f at most\n", (double)start_median / 1e3,
                  (double)poll_median / 1e3, (double)start_ns[CALLS - 1] / 1e3, (double)poll_ns[CALLS - 1] / 1e3);
    assert_true(start_median < 5000000u);
    assert_true(poll_median < 5000000u);
    gate_open();
    for (int i = 0; i < CALLS; i++)
        smla_kernel_destroy(must_finish(preparations[i]));
    assert_int_equal(world->nvrtc->compiles, 8);
}

static void threads_are_bounded(void **state)
{
    enum { KERNELS = 12 };
    struct world *world = *state;
    smla_preparation *preparations[KERNELS];

    gate_close(world);
    for (int i = 0; i < KERNELS; i++) {
        const smla_kernel_desc desc = variety(1 + i);
        preparations[i] = must_start(world->context, &desc);
    }
    gate_wait_for(WORKERS);
    usleep(20000);
    assert_int_equal(gate_arrived(), WORKERS);
    assert_int_equal(threads_made, WORKERS);
    gate_open();
    for (int i = 0; i < KERNELS; i++)
        smla_kernel_destroy(must_finish(preparations[i]));
    assert_int_equal(world->nvrtc->compiles, KERNELS);
    assert_int_equal(threads_made, WORKERS);
}

/* Under way: what it compiled is kept. Queued: it never begins. Ready: its kernel goes with it. */
static void destroyed_in_every_state(void **state)
{
    struct world *world = *state;
    smla_preparation *under_way[WORKERS], *queued[2];
    smla_kernel_desc desc;

    gate_close(world);
    for (int i = 0; i < WORKERS; i++) {
        desc = variety(1 + i);
        under_way[i] = must_start(world->context, &desc);
    }
    gate_wait_for(WORKERS);
    for (int i = 0; i < 2; i++) {
        desc = variety(50 + i);
        queued[i] = must_start(world->context, &desc);
    }
    for (int i = 0; i < WORKERS - 1; i++)
        smla_prepare_destroy(under_way[i]);
    smla_prepare_destroy(queued[0]);
    gate_open();
    smla_kernel_destroy(must_finish(queued[1])); /* behind queued[0] */
    assert_int_equal(smla_prepare_wait(under_way[WORKERS - 1], SMLA_WAIT_FOREVER, NULL), SMLA_OK);
    smla_prepare_destroy(under_way[WORKERS - 1]); /* ready, not taken */
    for (int i = 0; i < WORKERS; i++) {
        desc = variety(1 + i);
        smla_kernel_destroy(must_prepare(world->context, &desc));
    }
    assert_int_equal(world->nvrtc->compiles, WORKERS + 1);
}

static void assert_lost(smla_preparation *preparation, const char *text)
{
    smla_kernel *kernel = NULL;

    assert_int_equal(smla_prepare_poll(preparation, &kernel), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, text);
    assert_int_equal(smla_prepare_wait(preparation, SMLA_WAIT_FOREVER, &kernel), SMLA_ERROR_UNAVAILABLE);
    assert_null(kernel);
    smla_prepare_destroy(preparation);
}

static void context_destroyed_in_every_state(void **state)
{
    struct world *world = *state;
    smla_preparation *under_way[WORKERS], *ready, *failed, *queued;
    smla_kernel_desc desc = variety(40);
    smla_kernel *kernel = NULL;

    ready = must_start(world->context, &desc);
    assert_int_equal(smla_prepare_wait(ready, SMLA_WAIT_FOREVER, NULL), SMLA_OK);
    desc.kv_format = "v99";
    failed = must_start(world->context, &desc);
    assert_int_equal(smla_prepare_wait(failed, SMLA_WAIT_FOREVER, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    gate_close(world);
    for (int i = 0; i < WORKERS; i++) {
        desc = variety(1 + i);
        under_way[i] = must_start(world->context, &desc);
    }
    gate_wait_for(WORKERS);
    desc = variety(50);
    queued = must_start(world->context, &desc);
    gate_open_later();
    smla_context_destroy(world->context);
    world->context = NULL;
    gate_join();
    assert_int_equal(world->nvrtc->compiles, 1 + WORKERS);
    assert_int_equal(world->nvrtc->live_programs, 0);
    assert_int_equal(world->driver->live_libraries, 0);
    assert_lost(queued, "had begun");
    assert_lost(ready, "before its kernel was taken");
    for (int i = 0; i < WORKERS; i++)
        assert_lost(under_way[i], "before its kernel was taken");
    assert_int_equal(smla_prepare_poll(failed, &kernel), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "v99");
    smla_prepare_destroy(failed);
}

static void *wait_until_lost(void *preparation)
{
    assert_int_equal(smla_prepare_wait(preparation, SMLA_WAIT_FOREVER, NULL), SMLA_ERROR_UNAVAILABLE);
    return NULL;
}

/* A thread that waits is told, and does not wait for the compiler. */
static void context_destroyed_while_waited_for(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = reference_desc();
    pthread_t thread;

    gate_close(world);
    smla_preparation *preparation = must_start(world->context, &desc);
    gate_wait_for(1);
    assert_int_equal(pthread_create(&thread, NULL, wait_until_lost, preparation), 0);
    gate_open_later();
    smla_context_destroy(world->context);
    world->context = NULL;
    gate_join();
    pthread_join(thread, NULL);
    smla_prepare_destroy(preparation);
}

static void kernel_is_of_the_callers_cuda_context(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = reference_desc();
    void *const contexts[] = {(char *)TEST_CONTEXT + 1, TEST_CONTEXT};

    for (int i = 0; i < 2; i++) {
        world->driver->set_current(contexts[i]);
        smla_preparation *preparation = must_start(world->context, &desc);
        world->driver->set_current(NULL);
        smla_kernel *kernel = must_finish(preparation);
        assert_ptr_equal(kernel->cuda_context, contexts[i]);
        smla_kernel_destroy(kernel);
    }
    assert_int_equal(world->driver->loads, 2);
}

static void no_cuda_context(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = reference_desc();
    smla_context_desc context_desc = stub_context_desc();
    smla_preparation *preparation = NULL;
    smla_context *context = NULL;

    world->driver->set_current(NULL);
    assert_int_equal(smla_prepare_start(world->context, &desc, &preparation), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, "no CUDA context is current", "SMLA_CONTEXT_PRIMARY");
    /* A driver that nobody has loaded is not loaded for that. */
    context_desc.driver_path = "/nonexistent/libcuda.so.1";
    assert_int_equal(smla_context_create(&context_desc, &context), SMLA_OK);
    assert_int_equal(smla_prepare_start(context, &desc, &preparation), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, "no CUDA context is current");
    smla_context_destroy(context);
    assert_null(preparation);
    assert_int_equal(threads_made, 0);
}

static void primary_context(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = reference_desc();
    smla_context_desc context_desc = stub_context_desc();
    smla_context *context = NULL;

    context_desc.flags = SMLA_CONTEXT_PRIMARY;
    assert_int_equal(smla_context_create(&context_desc, &context), SMLA_OK);
    world->driver->set_current(NULL);
    smla_kernel_destroy(must_finish(must_start(context, &desc)));
    smla_context_destroy(context);
}

/* Everything that the description points to may change when start has returned. */
static void description_is_copied(void **state)
{
    struct world *world = *state;
    smla_kv_layout layout = {.struct_size = sizeof layout};
    smla_kernel_desc desc = prefill_desc();
    char format[] = "v4", extra[] = "v41", target[] = "90";

    world->nvrtc->reset();
    smla_preparation *running[WORKERS], *preparation[2];
    world_serve_reference(world);
    gate_close(world);
    for (int i = 0; i < WORKERS; i++) { /* nobody reads a description before the gate opens */
        const smla_kernel_desc other = variety(1 + i);
        running[i] = must_start(world->context, &other);
    }
    gate_wait_for(WORKERS);
    desc.flags = 0;
    desc.kv_format = format;
    desc.extra_kv_format = extra;
    desc.target = target;
    preparation[0] = must_start(world->context, &desc);
    assert_int_equal(smla_kv_layout_preset("v32", 576, &layout), SMLA_OK);
    desc = (smla_kernel_desc){.struct_size = sizeof desc, .op = SMLA_OP_PREFILL, .h_q = 64, .d_qk = 576};
    desc.kv_layout = &layout;
    preparation[1] = must_start(world->context, &desc);
    memset(format, 'x', sizeof format - 1);
    memset(extra, 'x', sizeof extra - 1);
    memset(target, 'x', sizeof target - 1);
    memset(&layout, 0xee, sizeof layout);
    memset(&desc, 0xee, sizeof desc);
    gate_open();
    for (int i = 0; i < WORKERS; i++)
        smla_kernel_destroy(must_finish(running[i]));
    /* Refused for what the stub compiled, and so not for the description. */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(smla_prepare_wait(preparation[i], SMLA_WAIT_FOREVER, NULL), SMLA_ERROR_COMPILE);
        smla_prepare_destroy(preparation[i]);
    }
}

static void no_thread_is_to_be_had(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = reference_desc(), another = variety(3);
    smla_preparation *preparation = NULL;

    no_threads = true;
    assert_int_equal(smla_prepare_start(world->context, &desc, &preparation), SMLA_ERROR_OUT_OF_MEMORY);
    assert_error(SMLA_ERROR_OUT_OF_MEMORY, "no thread", "Resource temporarily unavailable");
    assert_null(preparation);
    no_threads = false;
    gate_close(world);
    preparation = must_start(world->context, &desc);
    gate_wait_for(1);
    no_threads = true; /* one is there, and takes this next */
    smla_preparation *next = must_start(world->context, &another);
    gate_open();
    smla_kernel_destroy(must_finish(preparation));
    smla_kernel_destroy(must_finish(next));
    assert_int_equal(threads_made, 1);
}

static void test_35_after_seal(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc warm = variety(1), late = variety(2);
    smla_kernel *kernel = NULL;

    gate_close(world);
    smla_preparation *preparation = must_start(world->context, &warm);
    gate_wait_for(1);
    assert_int_equal(smla_context_seal(world->context), SMLA_OK);
    gate_open();
    smla_kernel_destroy(must_finish(preparation)); /* it had begun */
    preparation = must_start(world->context, &late);
    assert_int_equal(smla_prepare_wait(preparation, SMLA_WAIT_FOREVER, &kernel), SMLA_ERROR_NOT_CACHED);
    assert_error(SMLA_ERROR_NOT_CACHED, "sealed", "smla-gen");
    smla_prepare_destroy(preparation);
    smla_kernel_destroy(must_prepare(world->context, &warm));
    assert_int_equal(stats_of(world->context).refused_compiles, 1);
    assert_int_equal(world->nvrtc->compiles, 1);
    assert_int_equal(smla_context_seal(NULL), SMLA_ERROR_INVALID_ARGUMENT);
}

/* A host's callback, which is at it for a while. */
struct teller {
    int begun, ended; /* atomic */
};

static void tell_slowly(void *user, int32_t level, const char *line)
{
    struct teller *teller = user;

    (void)level, (void)line;
    __atomic_add_fetch(&teller->begun, 1, __ATOMIC_SEQ_CST);
    usleep(30000);
    __atomic_add_fetch(&teller->ended, 1, __ATOMIC_SEQ_CST);
}

static void muted_beside_a_worker(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = reference_desc();
    struct teller teller = {0};
    smla_context_desc own = stub_context_desc();
    smla_context *context = NULL;

    own.log = tell_slowly;
    own.log_user = &teller;
    assert_int_equal(smla_context_create(&own, &context), SMLA_OK);
    gate_close(world);
    smla_preparation *preparation = must_start(context, &desc);
    while (__atomic_load_n(&teller.begun, __ATOMIC_SEQ_CST) == 0)
        usleep(1000);
    assert_int_equal(smla_context_mute(context), SMLA_OK);
    const int told = teller.ended;
    assert_int_equal(__atomic_load_n(&teller.begun, __ATOMIC_SEQ_CST), told);
    const pid_t child = fork();
    if (child == 0) {
        context->events.telling = 1; /* of a thread that the child does not have */
        alarm(10);
        _exit(smla_context_mute(context) == SMLA_OK ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    gate_open();
    smla_kernel_destroy(must_finish(preparation));
    assert_int_equal(teller.begun, told);
    assert_true(stats_of(context).events > (uint64_t)told);
    assert_int_equal(smla_context_mute(NULL), SMLA_ERROR_INVALID_ARGUMENT);
    smla_context_destroy(context);
}

/* The parent's workers are not in a child, and one of them may have had any lock. */
static void forked_child_has_no_part(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = reference_desc();
    int code = -1;

    gate_close(world);
    smla_preparation *preparation = must_start(world->context, &desc);
    gate_wait_for(1);
    const pid_t child = fork();
    if (child == 0) {
        smla_preparation *another = NULL;
        bool good = smla_prepare_poll(preparation, NULL) == SMLA_ERROR_UNAVAILABLE;
        good &= strstr(last_error().message, "forked") != NULL;
        good &= smla_prepare_wait(preparation, SMLA_WAIT_FOREVER, NULL) == SMLA_ERROR_UNAVAILABLE;
        good &= smla_prepare_start(world->context, &desc, &another) == SMLA_ERROR_UNAVAILABLE;
        smla_prepare_destroy(preparation);
        smla_context_destroy(world->context);
        _exit(good && another == NULL ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    gate_open();
    smla_kernel_destroy(must_finish(preparation));
}

static void child_forked_before_works(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = reference_desc();
    int code = -1;

    const pid_t child = fork();
    if (child == 0) {
        smla_kernel *kernel = NULL;
        smla_preparation *preparation = must_start(world->context, &desc);
        const smla_status status = smla_prepare_wait(preparation, SMLA_WAIT_FOREVER, &kernel);
        smla_prepare_destroy(preparation);
        smla_kernel_destroy(kernel);
        smla_context_destroy(world->context);
        _exit(status == SMLA_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
}

struct asker {
    smla_context *context;
    const struct world *world;
    int number;
    smla_status status;
};

/* Some wait, some poll, some give up. */
static void *ask(void *user)
{
    struct asker *asker = user;
    const smla_kernel_desc desc = variety(1 + asker->number % VARIETIES);
    const smla_prefill_args args = {.struct_size = sizeof args};
    smla_preparation *preparation = NULL;
    smla_kernel *kernel = NULL;

    asker->world->driver->set_current(TEST_CONTEXT);
    asker->status = smla_prepare_start(asker->context, &desc, &preparation);
    if (asker->status != SMLA_OK)
        return NULL;
    if (asker->number % 3 == 0)
        asker->status = smla_prepare_wait(preparation, SMLA_WAIT_FOREVER, &kernel);
    else if (asker->number % 3 == 1)
        while ((asker->status = smla_prepare_poll(preparation, &kernel)) == SMLA_PENDING)
            usleep(200);
    smla_prepare_destroy(preparation);
    if (kernel != NULL && asker->status == SMLA_OK)
        asker->status = smla_prefill(kernel, &args, NULL);
    smla_kernel_destroy(kernel);
    return NULL;
}

static void many_threads(void **state)
{
    struct world *world = *state;
    const smla_context_desc context_desc = stub_context_desc();
    smla_context *second = NULL;
    struct asker askers[THREADS];
    pthread_t threads[THREADS];

    world->nvrtc->script.delay_us = 5000;
    assert_int_equal(smla_context_create(&context_desc, &second), SMLA_OK);
    for (int i = 0; i < THREADS; i++) {
        askers[i] = (struct asker){i % 2 ? second : world->context, world, i, SMLA_OK};
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(askers[i].status, SMLA_OK);
    }
    smla_context_destroy(second);
    assert_true(world->nvrtc->compiles <= 2 * VARIETIES);
}

struct taker {
    smla_preparation *preparation;
    smla_kernel *kernel;
    smla_status status;
};

static void *take(void *user)
{
    struct taker *taker = user;

    taker->status = smla_prepare_wait(taker->preparation, SMLA_WAIT_FOREVER, &taker->kernel);
    return NULL;
}

static void one_of_those_who_wait_gets_the_kernel(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = reference_desc();
    struct taker takers[THREADS];
    pthread_t threads[THREADS];
    int got = 0;

    gate_close(world);
    smla_preparation *preparation = must_start(world->context, &desc);
    for (int i = 0; i < THREADS; i++) {
        takers[i] = (struct taker){.preparation = preparation};
        assert_int_equal(pthread_create(&threads[i], NULL, take, &takers[i]), 0);
    }
    gate_open();
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        got += takers[i].status == SMLA_OK;
        assert_true(takers[i].status == SMLA_OK ? takers[i].kernel != NULL
                                                : takers[i].status == SMLA_ERROR_INVALID_ARGUMENT);
        smla_kernel_destroy(takers[i].kernel);
    }
    assert_int_equal(got, 1);
    smla_prepare_destroy(preparation);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(pending_then_ready_then_taken),
        TEST(failure_is_told_where_it_is_asked),
        TEST(refusals_come_by_poll),
        TEST(wait_ends_with_its_time),
        TEST(test_36_start_and_poll_take_no_time),
        TEST(threads_are_bounded),
        TEST(destroyed_in_every_state),
        TEST(context_destroyed_in_every_state),
        TEST(context_destroyed_while_waited_for),
        TEST(kernel_is_of_the_callers_cuda_context),
        TEST(no_cuda_context),
        TEST(primary_context),
        TEST(description_is_copied),
        TEST(no_thread_is_to_be_had),
        TEST(test_35_after_seal),
        TEST(muted_beside_a_worker),
        TEST(forked_child_has_no_part),
        TEST(child_forked_before_works),
        TEST(many_threads),
        TEST(one_of_those_who_wait_gets_the_kernel),
    };
    return cmocka_run_group_tests_name("runtime.background", tests, NULL, NULL);
}
