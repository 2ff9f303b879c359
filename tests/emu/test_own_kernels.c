/* Own kernels (kernels/) on the emulated libcuda, by the plain driver interface: in every schedule, with every check,
 * right and without a finding; and without any of the lines marked NEEDED in their source, found out.
 *
 * The device reads its settings once a process: every run is a child. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "own_checks.h"
#include "own_compile.h"
#include "own_device.h"

struct kernel_file {
    const char *name;
    void (*check)(void);
};

static const char *const schedules[] = {"eager", "lazy", "random", "starve", "pct"};
enum { SCHEDULES = sizeof(schedules) / sizeof(*schedules) };

static void be_the_child(const struct kernel_file *file, const char *ptx, const char *schedule, bool quiet)
{
    if (setenv("SMLA_EMU_SCHEDULE", schedule, 1) != 0 || setenv("SMLA_EMU_CHECKS", "all", 1) != 0 ||
        setenv("SMLA_EMU_SEED", "7", 1) != 0 || (quiet && !freopen("/dev/null", "w", stderr)))
        _Exit(1);
    own_open(OWN_LIBCUDA, ptx);
    file->check();
    own_close();
    _Exit(0);
}

/* The child's exit status; -1: it was killed. */
static int run(const struct kernel_file *file, const char *ptx, const char *schedule, bool quiet)
{
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0)
        be_the_child(file, ptx, schedule, quiet);
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

static void is_right(void **state)
{
    const struct kernel_file *file = *state;
    char *ptx = own_compile(file->name, 0);
    int failed = 0;
    assert_non_null(ptx);
    for (int i = 0; i < SCHEDULES; i++) {
        const int status = run(file, ptx, schedules[i], false);
        if (status != 0)
            print_error("%s, %s: exit status %d\n", file->name, schedules[i], status);
        failed += status != 0;
    }
    free(ptx);
    assert_int_equal(failed, 0);
}

/* In how many schedules the device reports something when marked line `mark` is not there. */
static int schedules_that_find(const struct kernel_file *file, int mark)
{
    char *ptx = own_compile(file->name, mark);
    int found = 0, line = 0;
    assert_non_null(ptx);
    for (int i = 0; i < SCHEDULES; i++) {
        const int status = run(file, ptx, schedules[i], true);
        found += status == OWN_FOUND;
        own_marks(file->name, mark, &line);
        if (status != OWN_FOUND)
            print_message("%s.cu without line %d, %s: exit status %d\n", file->name, line, schedules[i], status);
    }
    free(ptx);
    return found;
}

/* A report in every schedule: a race is one whoever comes first. */
static void needs_its_lines(void **state)
{
    const struct kernel_file *file = *state;
    int missed = 0;
    const int marks = own_marks(file->name, 0, NULL);
    for (int mark = 1; mark <= marks; mark++)
        missed += schedules_that_find(file, mark) != SCHEDULES;
    assert_int_equal(missed, 0);
}

static int close_compiler(void **state)
{
    (void)state;
    own_compile_end();
    return 0;
}

static struct kernel_file gemm_tma = {"gemm_tma", check_gemm_tma};
static struct kernel_file wgmma_layouts = {"wgmma_layouts", check_wgmma_layouts};
static struct kernel_file wgmma_types = {"wgmma_types", check_wgmma_types};
static struct kernel_file mma_sync = {"mma_sync", check_mma_sync};
static struct kernel_file tma_reduce = {"tma_reduce", check_tma_reduce};
static struct kernel_file cluster_exchange = {"cluster_exchange", check_cluster_exchange};
static struct kernel_file cluster_multicast = {"cluster_multicast", check_cluster_multicast};
static struct kernel_file cp_async = {"cp_async", check_cp_async};
static struct kernel_file tensor_map_made = {"tensor_map_made", check_tensor_map_made};
static struct kernel_file reductions = {"reductions", check_reductions};
static struct kernel_file atomics = {"atomics", check_atomics};
static struct kernel_file roles = {"roles", check_roles};
static struct kernel_file packed = {"packed", check_packed};
static struct kernel_file dependents = {"dependents", check_dependents};

#define TESTS(file)                                                                                                    \
    {#file, is_right, NULL, NULL, &(file)},                                                                            \
    {                                                                                                                  \
#file " needs its lines", needs_its_lines, NULL, NULL, &(file)                                                 \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        TESTS(gemm_tma),        TESTS(wgmma_layouts),    TESTS(wgmma_types),       TESTS(mma_sync),
        TESTS(tma_reduce),      TESTS(cluster_exchange), TESTS(cluster_multicast), TESTS(cp_async),
        TESTS(tensor_map_made), TESTS(reductions),       TESTS(atomics),           TESTS(roles),
        TESTS(packed),          TESTS(dependents),
    };
    return cmocka_run_group_tests(tests, NULL, close_compiler);
}
