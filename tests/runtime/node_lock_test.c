/* The lock of a key on this node: who has it, where its file lies, who may own that folder (facts/jit.md §2: 39, 40,
 * 52, 53). /dev/shm is a folder of this program's own. */
#include "node_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

static char *folder;   /* of everything */
static char *shm;      /* instead of /dev/shm */
static char *run;      /* a XDG_RUNTIME_DIR */
static char *run_smla; /* run/smla */
static char why[256];
static const struct rt_key key = {.kernel_id = {{0x12, 0x34, 0x56, 0x78, 0x9a}}, .kind = RT_KIND_CUBIN};

int __wrap_open(const char *path, int flags, ...)
{
    return __real_open(strcmp(path, "/dev/shm") == 0 ? shm : path, flags, 0600);
}

static char *in_folder(const char *name)
{
    char *path = malloc(600);

    assert_non_null(path);
    snprintf(path, 600, "%s/%s", folder, name);
    return path;
}

static int set_up(void **state)
{
    (void)state;
    folder = make_folder();
    shm = in_folder("shm");
    run = in_folder("run");
    run_smla = in_folder("run/smla");
    return mkdir(shm, 01777) == 0 && chmod(shm, 01777) == 0 && mkdir(run, 0700) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    remove_folder(folder);
    free(shm);
    free(run);
    free(run_smla);
    return 0;
}

static struct rt_node_lock opened(void)
{
    struct rt_node_lock lock;

    if (!rt_node_lock_open(run, &key, &lock, why))
        fail_msg("%s", why);
    return lock;
}

static struct stat status_of(const char *path)
{
    struct stat status = {0};

    if (lstat(path, &status) != 0)
        fail_msg("%s: %s", path, strerror(errno));
    return status;
}

/* The path of the lock file in a folder. */
static const char *lock_in(const char *dir)
{
    static char path[700];

    snprintf(path, sizeof path, "%s/12345678.lock", dir);
    return path;
}

static bool is_locked_in(const char *dir)
{
    return access(lock_in(dir), F_OK) == 0;
}

static void test_one_has_it(void **state)
{
    struct rt_node_lock first = opened(), second = opened();

    (void)state;
    assert_int_equal(rt_node_lock_try(&first, why), RT_NODE_LOCK_HELD);
    assert_int_equal(rt_node_lock_try(&second, why), RT_NODE_LOCK_BUSY);
    rt_node_lock_close(&first);
    assert_int_equal(first.file, -1);
    assert_int_equal(rt_node_lock_try(&second, why), RT_NODE_LOCK_HELD);
    rt_node_lock_close(&second);
    rt_node_lock_close(&second);
    assert_int_equal(rt_node_lock_try(&second, why), RT_NODE_LOCK_NONE);
}

static void test_40_the_file_stays(void **state)
{
    struct stat first = {0};

    (void)state;
    for (int i = 0; i < 1000; i++) {
        struct rt_node_lock lock = opened();

        assert_int_equal(rt_node_lock_try(&lock, why), RT_NODE_LOCK_HELD);
        if (i % 2 == 1)
            rt_node_lock_tell_failure(&lock);
        rt_node_lock_close(&lock);
        const struct stat status = status_of(lock_in(run_smla));
        first = i == 0 ? status : first;
        assert_int_equal(status.st_ino, first.st_ino);
        assert_int_equal(status.st_size, 0);
    }
}

/* Also when two failures come at once. */
static void test_failures_are_told(void **state)
{
    struct rt_node_lock holder = opened(), waits = opened();

    (void)state;
    assert_int_equal(rt_node_lock_try(&holder, why), RT_NODE_LOCK_HELD);
    assert_false(rt_node_lock_failed_meanwhile(&waits));
    for (int i = 0; i < 3; i++) {
        rt_node_lock_tell_failure(&holder);
        assert_true(rt_node_lock_failed_meanwhile(&waits));
        rt_node_lock_close(&waits);
        waits = opened();
        assert_false(rt_node_lock_failed_meanwhile(&waits));
    }
    rt_node_lock_close(&holder);
    rt_node_lock_close(&waits);
}

/* A child that lives on: closing frees the lock for it too; the descriptor does not reach another program. */
static void test_forked_child(void **state)
{
    struct rt_node_lock holder = opened(), other = opened();

    (void)state;
    assert_int_equal(fcntl(holder.file, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(rt_node_lock_try(&holder, why), RT_NODE_LOCK_HELD);
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        for (;;)
            pause();
    }
    assert_true(child > 0);
    assert_int_equal(rt_node_lock_try(&other, why), RT_NODE_LOCK_BUSY);
    rt_node_lock_close(&holder);
    assert_int_equal(rt_node_lock_try(&other, why), RT_NODE_LOCK_HELD);
    rt_node_lock_close(&other);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* … and a holder that dies frees it by that. */
static void test_dead_holder(void **state)
{
    struct rt_node_lock other = opened();
    int status = 0;

    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        struct rt_node_lock holder;

        if (rt_node_lock_open(run, &key, &holder, why) && rt_node_lock_try(&holder, why) == RT_NODE_LOCK_HELD)
            kill(getpid(), SIGKILL);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(rt_node_lock_try(&other, why), RT_NODE_LOCK_HELD);
    assert_false(rt_node_lock_failed_meanwhile(&other));
    rt_node_lock_close(&other);
}

static void modes_under_umask(mode_t mask)
{
    const mode_t before = umask(mask);
    struct rt_node_lock lock = opened();

    assert_int_equal(umask(before), mask);
    assert_int_equal(status_of(run_smla).st_mode & 07777, 0700);
    assert_int_equal(status_of(lock_in(run_smla)).st_mode & 07777, 0600);
    rt_node_lock_close(&lock);
    lock = opened(); /* and opens again */
    rt_node_lock_close(&lock);
}

static void test_53_modes_with_umask_000(void **state)
{
    (void)state;
    modes_under_umask(0);
}

static void test_53_modes_with_umask_777(void **state)
{
    (void)state;
    modes_under_umask(0777);
}

/* run/smla is passed over, and the folder in /dev/shm taken. */
static void next_is_taken(const char *runtime_dir)
{
    char own[64], *next;
    struct rt_node_lock lock;

    snprintf(own, sizeof own, "shm/smla-%u", (unsigned)geteuid());
    next = in_folder(own);
    assert_true(rt_node_lock_open(runtime_dir, &key, &lock, why));
    assert_true(is_locked_in(next));
    assert_int_equal(status_of(next).st_mode & 07777, 0700);
    assert_false(is_locked_in(run_smla));
    rt_node_lock_close(&lock);
    free(next);
}

static void test_52_folders_that_do_not_do(void **state)
{
    char *elsewhere = in_folder("elsewhere");

    (void)state;
    next_is_taken(NULL);
    next_is_taken("/nonexistent");
    assert_int_equal(mkdir(elsewhere, 0700), 0);
    assert_int_equal(symlink(elsewhere, run_smla), 0);
    next_is_taken(run);
    assert_int_equal(unlink(run_smla), 0);
    assert_int_equal(mkdir(run_smla, 0700), 0);
    assert_int_equal(chmod(run_smla, 0755), 0);
    next_is_taken(run);
    assert_int_equal(chmod(run_smla, 0777), 0);
    next_is_taken(run);
    assert_int_equal(chmod(run_smla, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(run_smla, 12345, 12345), 0);
        next_is_taken(run);
    }
    free(elsewhere);
}

static void none_is_had(const char *reason)
{
    struct rt_node_lock lock;

    assert_false(rt_node_lock_open(NULL, &key, &lock, why));
    assert_int_equal(lock.file, -1);
    assert_non_null(strstr(why, "/dev/shm/smla-"));
    assert_non_null(strstr(why, reason));
}

static void test_52_no_folder_does(void **state)
{
    char name[64], *own;

    (void)state;
    snprintf(name, sizeof name, "shm/smla-%u", (unsigned)geteuid());
    own = in_folder(name);
    assert_int_equal(mkdir(own, 0700), 0);
    assert_int_equal(chmod(own, 0770), 0);
    none_is_had("others than its owner");
    assert_int_equal(rmdir(own), 0);
    assert_int_equal(symlink(run, own), 0);
    none_is_had("Not a directory");
    assert_int_equal(unlink(own), 0);
    assert_int_equal(rmdir(shm), 0);
    none_is_had("No such file");
    free(own);
}

/* What lies where the lock file should is not followed, and not waited for. */
static void test_52_no_lock_file(void **state)
{
    char *elsewhere = in_folder("elsewhere");
    struct rt_node_lock lock = opened();

    (void)state;
    rt_node_lock_close(&lock);
    assert_int_equal(unlink(lock_in(run_smla)), 0);
    assert_int_equal(symlink(elsewhere, lock_in(run_smla)), 0);
    assert_false(rt_node_lock_open(run, &key, &lock, why));
    assert_non_null(strstr(why, "a lock file cannot be opened"));
    assert_int_not_equal(access(elsewhere, F_OK), 0);
    assert_int_equal(unlink(lock_in(run_smla)), 0);
    assert_int_equal(mkdir(lock_in(run_smla), 0700), 0);
    assert_false(rt_node_lock_open(run, &key, &lock, why));
    assert_int_equal(lock.file, -1);
    free(elsewhere);
}

/* What a miss pays, for the report: printed, not judged. */
static void test_time(void **state)
{
    enum { CYCLES = 1000 };
    struct timespec start, end;

    (void)state;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < CYCLES; i++) {
        struct rt_node_lock lock = opened();

        rt_node_lock_try(&lock, why);
        rt_node_lock_close(&lock);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    const double ns = (double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
    print_message("a lock nobody else wants, opened, taken and closed: %.1f us\n", ns / CYCLES / 1000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_one_has_it),
        TEST(test_40_the_file_stays),
        TEST(test_failures_are_told),
        TEST(test_forked_child),
        TEST(test_dead_holder),
        TEST(test_53_modes_with_umask_000),
        TEST(test_53_modes_with_umask_777),
        TEST(test_52_folders_that_do_not_do),
        TEST(test_52_no_folder_does),
        TEST(test_52_no_lock_file),
        TEST(test_time),
    };
    return cmocka_run_group_tests_name("runtime.node_lock", tests, NULL, NULL);
}
