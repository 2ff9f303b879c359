/* Failures that the process remembers: by kernel and compiler, the last of them, for threads and forked children. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "error.h"
#include "failures.h"
#include "harness.h"

static struct rt_key key_of(uint8_t number)
{
    return (struct rt_key){.kernel_id = {{number}}, .kind = RT_KIND_CUBIN};
}

static const struct rt_builder builder = {13, 0, {{1}}};

static void add(uint8_t number)
{
    const struct rt_key key = key_of(number);

    rt_fail_native(SMLA_ERROR_COMPILE, 6, "failure %u", (unsigned)number);
    rt_fail_log("a log", 5);
    rt_failures_add(&key, &builder);
    rt_fail(SMLA_ERROR_IO, "another error of this thread");
}

static bool find(uint8_t number)
{
    const struct rt_key key = key_of(number);

    return rt_failures_find(&key, &builder);
}

static int setup(void **state)
{
    (void)state;
    rt_failures_forget();
    return 0;
}

static void by_kernel_kind_and_compiler(void **state)
{
    struct rt_key other_kind = key_of(1);
    const struct rt_key same = key_of(1);
    const struct rt_builder other_build = {13, 0, {{2}}};

    (void)state;
    other_kind.kind = RT_KIND_PTX;
    add(1);
    assert_false(find(2));
    assert_false(rt_failures_find(&other_kind, &builder));
    assert_false(rt_failures_find(&same, &other_build));
    assert_string_equal(last_error().message, "another error of this thread");
    assert_true(find(1));
    assert_error(SMLA_ERROR_COMPILE, "failure 1");
    assert_string_equal(last_error().log, "a log");
    assert_int_equal(last_error().native_code, 6);
    rt_failures_forget();
    assert_false(find(1));
}

static void the_oldest_goes(void **state)
{
    (void)state;
    for (int i = 0; i <= RT_FAILURES_KEPT; i++)
        add((uint8_t)i);
    assert_false(find(0));
    for (int i = 1; i <= RT_FAILURES_KEPT; i++)
        assert_true(find((uint8_t)i));
    add(1); /* known: nothing goes for it */
    assert_true(find(2));
}

static bool stop;

static void *add_and_find(void *user)
{
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        add(7);
        assert_true(find(7));
        assert_error(SMLA_ERROR_COMPILE, "failure 7");
    }
    return user;
}

/* A thread of the parent may have been in the middle of it. */
static void children_are_not_kept(void **state)
{
    pthread_t threads[2];

    (void)state;
    stop = false;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_and_find, NULL), 0);
    for (int i = 0; i < 50; i++) {
        int code = -1;
        const pid_t child = fork();
        if (child == 0) {
            alarm(20); /* one that is kept */
            add(9);
            _exit(find(9) && !find(8) ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &code, 0), child);
        assert_int_equal(code, 0);
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        TEST(by_kernel_kind_and_compiler),
        TEST(the_oldest_goes),
        TEST(children_are_not_kept),
    };
    return cmocka_run_group_tests_name("runtime.failures", tests, NULL, NULL);
}
