/* Where a cache cannot be had or written to, several processes at once: all get their kernels, each warns once, nothing
 * is left behind (facts/jit.md §2: 43, 44, 45, 46, 47, 52). Mounts and users by namespaces; where those are not
 * allowed, the test says so and is skipped. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ranks.h"

enum { RANKS = MOST_RANKS, KERNELS = MOST_KERNELS, NOBODY_KNOWN = 987654 };

static int new_ranks(void **state)
{
    static const char *const unset[] = {"SMLA_CACHE", "SMLA_CACHE_DIR", "SMLA_JIT", "XDG_CACHE_HOME"};

    for (size_t i = 0; i < sizeof unset / sizeof unset[0]; i++)
        unsetenv(unset[i]);
    *state = ranks_new(RANKS, KERNELS);
    return 0;
}

static int free_ranks(void **state)
{
    ranks_free(*state);
    return 0;
}

/* Each has warned that often, each time with all of these texts (NULL: none more). */
static bool warned(const struct ranks *ranks, int times, const char *first, const char *second, const char *third)
{
    const char *const texts[] = {first, second, third};
    bool all = true;

    for (int i = 0; i < ranks->count; i++) {
        const struct rank *rank = &ranks->rank[i];
        bool fits = rank->warnings == times;

        for (int j = 0; j < 3; j++)
            fits &= texts[j] == NULL || strstr(rank->warning, texts[j]) != NULL;
        if (!fits)
            fprintf(stderr, "process %d: %d warnings, the last: %s\n", i, rank->warnings, rank->warning);
        all &= fits;
    }
    return all;
}

static bool has_files(const char *folder, int entries, int others)
{
    const struct ranks_files files = ranks_count_files(folder);

    return files.entries == entries && files.others == others;
}

static bool mount_tmpfs(const char *folder, const char *options)
{
    if (mkdir(folder, 0700) == 0 && mount("tmpfs", folder, "tmpfs", 0, options) == 0)
        return true;
    perror("SKIP: no tmpfs here: mount");
    return false;
}

/* ---- Folders that take nothing ------------------------------------------------------------------------------ */

/* Writes until the disk is full. */
static bool fill(const char *path)
{
    static const char block[4096];
    const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ssize_t written = 0;

    while (file >= 0 && written >= 0)
        written = write(file, block, sizeof block);
    const bool full = file >= 0 && errno == ENOSPC;
    if (file >= 0)
        close(file);
    return full;
}

static int on_a_full_disk(struct ranks *ranks)
{
    char filler[600];

    if (!ranks_enter_namespaces(0) || !mount_tmpfs(ranks->cache, "size=1m,mode=0700"))
        return RANKS_SKIPPED;
    snprintf(filler, sizeof filler, "%s/filler", ranks->cache);
    RANKS_CHECK(fill(filler));
    ranks->compile_us = 100000;
    ranks_run(ranks);
    RANKS_CHECK(ranks_all_ready(ranks, RANKS));
    RANKS_CHECK(warned(ranks, 1, ranks->cache, "No space left on device", "SMLA_CACHE_DIR"));
    RANKS_CHECK(has_files(ranks->cache, 0, 1)); /* the filler */
    /* They wait for the first to try, and for nobody after. */
    for (int i = 0; i < RANKS; i++) {
        RANKS_CHECK(ranks->rank[i].stats.compiles == KERNELS);
        RANKS_CHECK(ranks->rank[i].stats.node_waits <= 1);
        RANKS_CHECK(ranks->rank[i].stats.cache_errors == KERNELS);
    }
    /* With room again everything is as ever. */
    RANKS_CHECK(unlink(filler) == 0);
    ranks->compile_us = 1000;
    ranks_run(ranks);
    RANKS_CHECK(ranks_all_ready(ranks, RANKS));
    RANKS_CHECK(warned(ranks, 0, NULL, NULL, NULL));
    RANKS_CHECK(ranks->compiles == KERNELS);
    RANKS_CHECK(has_files(ranks->cache, KERNELS, 0));
    return 0;
}

static void test_47_disk_full(void **state)
{
    assert_int_equal(ranks_in_child(on_a_full_disk, *state), 0);
}

static void count_inside(struct ranks *ranks, int number)
{
    const int inside = __atomic_add_fetch(&ranks->inside, 1, __ATOMIC_SEQ_CST);

    (void)number;
    if (inside > __atomic_load_n(&ranks->most_inside, __ATOMIC_SEQ_CST))
        __atomic_store_n(&ranks->most_inside, inside, __ATOMIC_SEQ_CST);
    usleep(200000);
    __atomic_sub_fetch(&ranks->inside, 1, __ATOMIC_SEQ_CST);
}

/* Those who waited in vain do not take turns. */
static int together_on_a_full_disk(struct ranks *ranks)
{
    char filler[600];

    if (!ranks_enter_namespaces(0) || !mount_tmpfs(ranks->cache, "size=64k,mode=0700"))
        return RANKS_SKIPPED;
    snprintf(filler, sizeof filler, "%s/filler", ranks->cache);
    RANKS_CHECK(fill(filler));
    ranks->count = 8;
    ranks->kernels = 1;
    ranks->compiling = count_inside;
    ranks_run(ranks);
    RANKS_CHECK(ranks_all_ready(ranks, ranks->count));
    RANKS_CHECK(ranks->most_inside >= 3);
    return 0;
}

static void test_47_no_turns_on_a_full_disk(void **state)
{
    assert_int_equal(ranks_in_child(together_on_a_full_disk, *state), 0);
}

/* Some entries fit. */
static int on_a_small_disk(struct ranks *ranks)
{
    if (!ranks_enter_namespaces(0) || !mount_tmpfs(ranks->cache, "size=16k,mode=0700"))
        return RANKS_SKIPPED;
    ranks->kernels = MOST_KERNELS;
    ranks_run(ranks);
    RANKS_CHECK(ranks_all_ready(ranks, RANKS));
    RANKS_CHECK(ranks_count_files(ranks->cache).others == 0);
    RANKS_CHECK(ranks_count_files(ranks->cache).entries < MOST_KERNELS);
    return 0;
}

static void test_47_disk_that_fills_up(void **state)
{
    assert_int_equal(ranks_in_child(on_a_small_disk, *state), 0);
}

static int on_a_read_only_mount(struct ranks *ranks)
{
    if (!ranks_enter_namespaces(0) || !mount_tmpfs(ranks->cache, "size=1m,mode=0700"))
        return RANKS_SKIPPED;
    ranks->kernels = KERNELS / 2;
    ranks_run(ranks);
    RANKS_CHECK(ranks_all_ready(ranks, RANKS));
    RANKS_CHECK(mount(NULL, ranks->cache, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
    /* What is there is found, silently. */
    ranks_run(ranks);
    RANKS_CHECK(ranks_all_ready(ranks, RANKS));
    RANKS_CHECK(ranks->compiles == 0);
    RANKS_CHECK(warned(ranks, 0, NULL, NULL, NULL));
    /* What is not is compiled. */
    ranks->kernels = KERNELS;
    ranks_run(ranks);
    RANKS_CHECK(ranks_all_ready(ranks, RANKS));
    RANKS_CHECK(warned(ranks, 1, ranks->cache, "Read-only file system", "SMLA_CACHE"));
    /* And silently again by who said that it is read-only. */
    ranks->cache_policy = SMLA_CACHE_RO;
    ranks_run(ranks);
    RANKS_CHECK(ranks_all_ready(ranks, RANKS));
    RANKS_CHECK(warned(ranks, 0, NULL, NULL, NULL));
    RANKS_CHECK(has_files(ranks->cache, KERNELS / 2, 0));
    return 0;
}

static void test_43_read_only_mount(void **state)
{
    assert_int_equal(ranks_in_child(on_a_read_only_mount, *state), 0);
}

/* ---- Users and homes ---------------------------------------------------------------------------------------- */

/* A folder of the environment is no must, as one of the description is. */
static int use_environment(struct ranks *ranks, const char *name, const char *value)
{
    ranks->cache_dir = NULL;
    return value ? setenv(name, value, 1) : unsetenv(name);
}

static bool live_from_memory(struct ranks *ranks, int warnings, const char *first, const char *second)
{
    ranks_run(ranks);
    return ranks_all_ready(ranks, RANKS) && ranks->compiles == RANKS * KERNELS &&
           warned(ranks, warnings, first, second, NULL) && has_files(ranks->folder, 0, 0);
}

/* A user whom no passwd file knows, with every sort of home. */
static int without_a_home(struct ranks *ranks)
{
    if (!ranks_enter_namespaces(NOBODY_KNOWN))
        return RANKS_SKIPPED;
    RANKS_CHECK(geteuid() == NOBODY_KNOWN);
    RANKS_CHECK(use_environment(ranks, "HOME", NULL) == 0);
    RANKS_CHECK(live_from_memory(ranks, 0, NULL, NULL));
    RANKS_CHECK(use_environment(ranks, "HOME", "") == 0);
    RANKS_CHECK(live_from_memory(ranks, 0, NULL, NULL));
    RANKS_CHECK(use_environment(ranks, "HOME", "/") == 0);
    RANKS_CHECK(live_from_memory(ranks, 0, NULL, NULL));
    RANKS_CHECK(use_environment(ranks, "XDG_CACHE_HOME", "relative") == 0);
    RANKS_CHECK(live_from_memory(ranks, 0, NULL, NULL));
    RANKS_CHECK(use_environment(ranks, "HOME", "/proc/nowhere") == 0);
    RANKS_CHECK(live_from_memory(ranks, 1, "/proc/nowhere/.cache/smla is done without", "SMLA_CACHE_DIR"));
    return 0;
}

static void test_J6_44_no_home(void **state)
{
    assert_int_equal(ranks_in_child(without_a_home, *state), 0);
}

/* … and a home of its own, which it fills. */
static int with_a_home(struct ranks *ranks)
{
    char cache[600];

    if (!ranks_enter_namespaces(NOBODY_KNOWN))
        return RANKS_SKIPPED;
    RANKS_CHECK(use_environment(ranks, "HOME", ranks->folder) == 0);
    ranks_run(ranks);
    snprintf(cache, sizeof cache, "%s/.cache/smla", ranks->folder);
    RANKS_CHECK(ranks_all_ready(ranks, RANKS));
    RANKS_CHECK(ranks->compiles == KERNELS);
    RANKS_CHECK(has_files(cache, KERNELS, 0));
    return 0;
}

static void test_45_unmapped_user(void **state)
{
    assert_int_equal(ranks_in_child(with_a_home, *state), 0);
}

/* … and one whom the namespace does not know either: every user of that kind looks like every other. */
static int without_a_mapping(struct ranks *ranks)
{
    const uid_t before = geteuid();

    if (unshare(CLONE_NEWUSER) != 0) {
        perror("SKIP: no user namespaces here: unshare");
        return RANKS_SKIPPED;
    }
    fprintf(stderr, "user %u looks like %u\n", (unsigned)before, (unsigned)geteuid());
    ranks_run(ranks);
    RANKS_CHECK(ranks_all_ready(ranks, RANKS));
    RANKS_CHECK(ranks_count_files(ranks->cache).others == 0);
    return 0;
}

static void test_45_user_without_a_mapping(void **state)
{
    assert_int_equal(ranks_in_child(without_a_mapping, *state), 0);
}

/* Fills the cache, gives it to somebody else by chown(path), and looks. */
static void is_not_used(struct ranks *ranks, const char *path, const char *reason)
{
    ranks_run(ranks);
    assert_int_equal(ranks->compiles, KERNELS);
    assert_int_equal(lchown(path, 12345, 12345), 0);
    use_environment(ranks, "SMLA_CACHE_DIR", path);
    ranks_run(ranks);
    assert_true(ranks_all_ready(ranks, RANKS));
    assert_int_equal(ranks->compiles, RANKS * KERNELS);
    assert_true(warned(ranks, 1, path, reason, "SMLA_CACHE_DIR"));
    assert_true(has_files(ranks->cache, KERNELS, 0));
}

static void test_J6_46_cache_of_another_user(void **state)
{
    struct ranks *ranks = *state;

    if (geteuid() != 0) {
        print_message("SKIP: only root can give a folder to another user\n");
        skip();
    }
    is_not_used(ranks, ranks->cache, "belongs to user 12345, not to user 0 or root");
}

/* Its target is this user's own and would do; the link is not. */
static void test_J6_52_link_of_another_user(void **state)
{
    struct ranks *ranks = *state;
    char link[600];

    if (geteuid() != 0) {
        print_message("SKIP: only root can give a link to another user\n");
        skip();
    }
    snprintf(link, sizeof link, "%s/link", ranks->folder);
    assert_int_equal(symlink(ranks->cache, link), 0);
    is_not_used(ranks, link, "a symbolic link of user 12345, not of user 0 or root");
}

static void test_J6_52_folder_open_to_all(void **state)
{
    struct ranks *ranks = *state;

    assert_int_equal(mkdir(ranks->cache, 0700), 0);
    assert_int_equal(chmod(ranks->cache, 01777), 0);
    use_environment(ranks, "SMLA_CACHE_DIR", ranks->cache);
    assert_true(live_from_memory(ranks, 1, "others than its owner can write to it (mode 1777)", "SMLA_CACHE_DIR"));
}

/* A home in which somebody else could put another in the place of each folder. */
static void test_J6_52_home_below_a_folder_open_to_all(void **state)
{
    struct ranks *ranks = *state;
    char home[600];

    snprintf(home, sizeof home, "%s/home", ranks->cache);
    assert_int_equal(mkdir(ranks->cache, 0700), 0);
    assert_int_equal(mkdir(home, 0700), 0);
    assert_int_equal(chmod(ranks->cache, 0777), 0);
    use_environment(ranks, "HOME", home);
    assert_true(live_from_memory(ranks, 1, "above it can be written to by everybody (mode 0777)", "SMLA_CACHE_DIR"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, new_ranks, free_ranks)
    const struct CMUnitTest tests[] = {
        TEST(test_47_disk_full),
        TEST(test_47_no_turns_on_a_full_disk),
        TEST(test_47_disk_that_fills_up),
        TEST(test_43_read_only_mount),
        TEST(test_J6_44_no_home),
        TEST(test_45_unmapped_user),
        TEST(test_45_user_without_a_mapping),
        TEST(test_J6_46_cache_of_another_user),
        TEST(test_J6_52_link_of_another_user),
        TEST(test_J6_52_folder_open_to_all),
        TEST(test_J6_52_home_below_a_folder_open_to_all),
    };
    return cmocka_run_group_tests_name("runtime.surroundings", tests, NULL, NULL);
}
