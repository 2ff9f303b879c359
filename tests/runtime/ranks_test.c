/* Processes of a node that want the same kernels at once (facts/jit.md §2: 1, 2, 38, 39, 40, 51, 61): each kernel is
 * compiled once, whoever dies, stops, forks or finds no lock. flock, openat, renameat and the clock are this program's
 * own. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cache_gc.h"
#include "ranks.h"

int __real_flock(int file, int operation);
int __wrap_flock(int file, int operation);
int __real_openat(int folder, const char *path, int flags, ...);
int __wrap_openat(int folder, const char *path, int flags, ...);
int __real_renameat(int from_folder, const char *from, int to_folder, const char *to);
int __wrap_renameat(int from_folder, const char *from, int to_folder, const char *to);
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

static int flock_error;         /* what flock fails with; 0: nothing */
static bool dies_before_rename; /* this process */
static bool hides_entries;
static int clock_speed = 1;

int __wrap_flock(int file, int operation)
{
    if (flock_error == 0)
        return __real_flock(file, operation);
    errno = flock_error;
    if (flock_error == EINTR) /* once */
        flock_error = 0;
    return -1;
}

int __wrap_renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    if (dies_before_rename)
        raise(SIGKILL);
    return __real_renameat(from_folder, from, to_folder, to);
}

/* As a host that has looked before sees a folder on NFS: the name that another host has made is not there yet. */
int __wrap_openat(int folder, const char *path, int flags, ...)
{
    const size_t length = strlen(path);
    va_list arguments;
    mode_t mode = 0;

    if ((flags & O_CREAT) != 0) {
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
    } else if (hides_entries && length > 4 && strcmp(path + length - 4, ".smk") == 0) {
        errno = ENOENT;
        return -1;
    }
    return __real_openat(folder, path, flags, mode);
}

/* Sleeps take their time, so that a minute's wait is over in clock_speed times fewer. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    const int result = __real_clock_gettime(clock, now);

    now->tv_sec *= clock_speed;
    now->tv_sec += now->tv_nsec * clock_speed / 1000000000;
    now->tv_nsec = now->tv_nsec * clock_speed % 1000000000;
    return result;
}

static int new_ranks(void **state)
{
    flock_error = 0;
    dies_before_rename = false;
    hides_entries = false;
    clock_speed = 1;
    *state = ranks_new(8, 6);
    return 0;
}

static int free_ranks(void **state)
{
    ranks_free(*state);
    return 0;
}

/* ---- Killed ------------------------------------------------------------------------------------------------- */

enum { VICTIMS = 3 };
static int victims[VICTIMS]; /* numbers of compilations */

static void choose_victims(uint32_t seed, int among)
{
    for (int i = 0; i < VICTIMS;) {
        bool again = false;

        seed = seed * 1664525u + 1013904223u;
        victims[i] = (int)((seed >> 8) % (uint32_t)among);
        for (int j = 0; j < i; j++)
            again |= victims[j] == victims[i];
        i += !again;
    }
}

/* Two die in the compiler, one with the entry written and not in its place. */
static void kill_victims(struct ranks *ranks, int number)
{
    (void)ranks;
    if (number == victims[0] || number == victims[1])
        raise(SIGKILL);
    dies_before_rename = number == victims[2];
}

static int count_killed(const struct ranks *ranks)
{
    int killed = 0;

    for (int i = 0; i < ranks->count; i++)
        killed += WIFSIGNALED(ranks->rank[i].exit_status) && WTERMSIG(ranks->rank[i].exit_status) == SIGKILL;
    return killed;
}

/* As smla-cache gc on a folder of one host: nothing but so many entries, and all of those. */
static void assert_gc_leaves(const struct ranks *ranks, int entries)
{
    const struct rt_cache_limits limits = {.max_bytes = UINT64_MAX, .down_to_bytes = UINT64_MAX, .dead_writers = true};
    struct rt_cache_collected collected;
    struct rt_cache *cache = NULL;

    assert_int_equal(rt_cache_open(ranks->cache_dir, true, true, NULL, &cache), SMLA_OK);
    assert_true(rt_cache_gc(cache, &limits, NULL, NULL, &collected));
    rt_cache_close(cache);
    assert_int_equal(collected.temporaries, 1);
    assert_int_equal(collected.removed, 0);
    assert_int_equal(collected.failed, 0);
    const struct ranks_files files = ranks_count_files(ranks->cache_dir);
    assert_int_equal(files.entries, entries);
    assert_int_equal(files.others, 0);
}

static void thirty_two_and_three_killed(struct ranks *ranks, uint32_t seed)
{
    uint64_t compiles = 0, waits = 0, written = 0;
    char pid[32];

    ranks->count = MOST_RANKS;
    ranks->kernels = MOST_KERNELS;
    ranks->seed = seed;
    ranks->compiling = kill_victims;
    choose_victims(seed, ranks->kernels);
    ranks_run(ranks);
    assert_int_equal(count_killed(ranks), VICTIMS);
    assert_true(ranks_all_ready(ranks, ranks->count - VICTIMS));
    /* Once each, and once more for each that died. */
    assert_int_equal(ranks->compiles, ranks->kernels + VICTIMS);
    assert_in_range(ranks_most_compiles_of_one(ranks), 1, 1 + VICTIMS);
    for (int i = 0; i < ranks->count; i++) {
        compiles += ranks->rank[i].stats.compiles;
        waits += ranks->rank[i].stats.node_waits;
        written += ranks->rank[i].stats.entries_written;
        assert_int_equal(ranks->rank[i].warnings, 0);
        assert_true(ranks->rank[i].stats.node_wait_ns < 30000000000u);
    }
    assert_in_range(compiles, 1, ranks->kernels); /* those of the dead are told by nobody */
    assert_int_equal(written, compiles);
    assert_true(waits > 0);
    /* What was written and not renamed, which gc removes, and nothing else. */
    const struct ranks_files files = ranks_count_files(ranks->cache_dir);
    assert_int_equal(files.entries, ranks->kernels);
    assert_int_equal(files.others, 1);
    snprintf(pid, sizeof pid, ".%d.", (int)ranks->compiled[victims[2]].pid);
    assert_non_null(strstr(files.other, pid));
    assert_non_null(strstr(files.other, ".tmp"));
    assert_gc_leaves(ranks, ranks->kernels);
}

static void test_1_three_of_32_are_killed(void **state)
{
    thirty_two_and_three_killed(*state, 1);
}

static void test_1_three_of_32_are_killed_otherwise(void **state)
{
    thirty_two_and_three_killed(*state, 2);
}

/* The second start compiles nothing. */
static void test_1_61_nobody_dies(void **state)
{
    struct ranks *ranks = *state;

    ranks->count = 16;
    ranks_run(ranks);
    assert_true(ranks_all_ready(ranks, ranks->count));
    assert_int_equal(ranks->compiles, ranks->kernels);
    ranks_run(ranks);
    assert_true(ranks_all_ready(ranks, ranks->count));
    assert_int_equal(ranks->compiles, 0);
    const struct ranks_files files = ranks_count_files(ranks->cache_dir);
    assert_int_equal(files.entries, ranks->kernels);
    assert_int_equal(files.others, 0);
}

/* ---- Stopped, forked ---------------------------------------------------------------------------------------- */

static void stop_the_first(struct ranks *ranks, int number)
{
    (void)ranks;
    if (number == 0)
        raise(SIGSTOP);
}

static int rank_of(const struct ranks *ranks, pid_t pid)
{
    for (int i = 0; i < ranks->count; i++)
        if (ranks->rank[i].pid == pid)
            return i;
    return -1;
}

/* The others go on after the bound, a minute by this program's clock, and it goes on when it may. */
static void test_40_a_holder_is_stopped(void **state)
{
    struct ranks *ranks = *state;

    clock_speed = 40;
    ranks->compiling = stop_the_first;
    ranks_start(ranks);
    while (__atomic_load_n(&ranks->compiled[0].pid, __ATOMIC_SEQ_CST) == 0)
        usleep(1000);
    const int stopped = rank_of(ranks, ranks->compiled[0].pid);
    int gave_up = 0;
    for (int i = 0; i < ranks->count; i++) {
        if (i == stopped)
            continue;
        ranks_wait(ranks, i);
        gave_up += strstr(ranks->rank[i].warning, "compiling it here too") != NULL;
    }
    assert_in_range(gave_up, 1, ranks->count - 1);
    assert_int_equal(kill(ranks->rank[stopped].pid, SIGCONT), 0);
    ranks_wait(ranks, stopped);
    assert_true(ranks_all_ready(ranks, ranks->count));
    const struct ranks_files files = ranks_count_files(ranks->cache_dir);
    assert_int_equal(files.entries, ranks->kernels);
    assert_int_equal(files.others, 0);
}

/* The child has the descriptor of the lock, and lives on. */
static void fork_in_the_first(struct ranks *ranks, int number)
{
    if (number != 0)
        return;
    const pid_t child = fork();
    if (child != 0) {
        ranks->forked = child;
        return;
    }
    alarm(60);
    for (;;)
        pause();
}

static void fork_and_die_in_the_first(struct ranks *ranks, int number)
{
    fork_in_the_first(ranks, number);
    if (number == 0)
        raise(SIGKILL);
}

/* The holder frees the lock for its child too, so that nobody waits for the child. */
static void test_a_holder_forks(void **state)
{
    struct ranks *ranks = *state;

    ranks->compiling = fork_in_the_first;
    ranks_run(ranks);
    assert_int_equal(kill(ranks->forked, SIGKILL), 0); /* it lived until now */
    assert_true(ranks_all_ready(ranks, ranks->count));
    assert_int_equal(ranks->compiles, ranks->kernels);
    for (int i = 0; i < ranks->count; i++) {
        assert_int_equal(ranks->rank[i].warnings, 0);
        assert_true(ranks->rank[i].stats.node_wait_ns < 30000000000u);
    }
}

/* A child of a killed holder keeps the lock: the others go on after the bound. */
static void test_a_holder_forks_and_dies(void **state)
{
    struct ranks *ranks = *state;

    clock_speed = 40;
    ranks->compiling = fork_and_die_in_the_first;
    ranks_run(ranks);
    assert_int_equal(kill(ranks->forked, SIGKILL), 0);
    assert_int_equal(count_killed(ranks), 1);
    assert_true(ranks_all_ready(ranks, ranks->count - 1));
    const struct ranks_files files = ranks_count_files(ranks->cache_dir);
    assert_int_equal(files.entries, ranks->kernels);
    assert_int_equal(files.others, 0);
}

/* ---- No lock, no folder ------------------------------------------------------------------------------------- */

static void ready_with_flock_failing(struct ranks *ranks, int error, int most_compiles)
{
    flock_error = error;
    ranks_run(ranks);
    assert_true(ranks_all_ready(ranks, ranks->count));
    assert_in_range(ranks_most_compiles_of_one(ranks), 1, most_compiles);
    const struct ranks_files files = ranks_count_files(ranks->cache_dir);
    assert_int_equal(files.entries, ranks->kernels);
    assert_int_equal(files.others, 0);
    remove_folder(strdup(ranks->cache_dir));
}

static void test_39_flock_is_refused(void **state)
{
    struct ranks *ranks = *state;
    static const int errors[] = {ENOLCK, ENOSYS, EOPNOTSUPP, EINVAL};

    ranks->count = 4;
    ranks->kernels = 3;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        ready_with_flock_failing(ranks, errors[i], ranks->count);
    ready_with_flock_failing(ranks, EINTR, 1);
}

/* Two nodes have a lock folder each, and one cache. */
static void test_38_two_nodes(void **state)
{
    struct ranks *ranks = *state;

    ranks->nodes = 2;
    ranks_run(ranks);
    assert_true(ranks_all_ready(ranks, ranks->count));
    assert_in_range(ranks_most_compiles_of_one(ranks), 1, 2);
    const struct ranks_files files = ranks_count_files(ranks->cache_dir);
    assert_int_equal(files.entries, ranks->kernels);
    assert_int_equal(files.others, 0);
}

/* Nobody sees what was published: each compiles, and goes on with what it compiled. */
static void test_2_published_and_not_to_be_seen(void **state)
{
    struct ranks *ranks = *state;

    hides_entries = true;
    ranks_run(ranks);
    hides_entries = false;
    assert_true(ranks_all_ready(ranks, ranks->count));
    assert_int_equal(ranks->compiles, ranks->count * ranks->kernels);
    for (int i = 0; i < ranks->count; i++)
        assert_int_equal(ranks->rank[i].warnings, 0);
    const struct ranks_files files = ranks_count_files(ranks->cache_dir);
    assert_int_equal(files.entries, ranks->kernels);
    assert_int_equal(files.others, 0);
    ranks_run(ranks);
    assert_true(ranks_all_ready(ranks, ranks->count));
    assert_int_equal(ranks->compiles, 0);
}

static bool all_ended(struct ranks *ranks)
{
    for (int i = 0; i < ranks->count; i++) {
        siginfo_t info = {0};

        if (waitid(P_PID, (id_t)ranks->rank[i].pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0)
            return false;
    }
    return true;
}

/* What was written meanwhile stays. */
static int remove_what_goes(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)walk;
    (void)(type == FTW_DP ? rmdir(path) : unlink(path));
    return 0;
}

/* Somebody removes the cache again and again. */
static void test_51_the_cache_is_removed(void **state)
{
    struct ranks *ranks = *state;

    for (ranks_start(ranks); !all_ended(ranks); usleep(200))
        nftw(ranks->cache_dir, remove_what_goes, 16, FTW_DEPTH | FTW_PHYS);
    ranks_join(ranks);
    assert_true(ranks_all_ready(ranks, ranks->count));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, new_ranks, free_ranks)
    const struct CMUnitTest tests[] = {
        TEST(test_1_61_nobody_dies),
        TEST(test_1_three_of_32_are_killed),
        TEST(test_1_three_of_32_are_killed_otherwise),
        TEST(test_40_a_holder_is_stopped),
        TEST(test_a_holder_forks),
        TEST(test_a_holder_forks_and_dies),
        TEST(test_39_flock_is_refused),
        TEST(test_2_published_and_not_to_be_seen),
        TEST(test_38_two_nodes),
        TEST(test_51_the_cache_is_removed),
    };
    return cmocka_run_group_tests_name("runtime.ranks", tests, NULL, NULL);
}
