/* Bundle files when the system fails: each call that opening and finding make, by ld --wrap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>

#include "sample_smlab.h"

ssize_t __real_pread(int fd, void *bytes, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *bytes, size_t size, off_t offset);
int __real_fstat(int fd, struct stat *status);
int __wrap_fstat(int fd, struct stat *status);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

/* 1: the next call fails; 0: none does. */
static int pread_countdown, fstat_countdown, memory_countdown, pread_errno;
static size_t most; /* bytes that a pread gives; 0: all */

static bool fails_now(int *countdown)
{
    return *countdown > 0 && --*countdown == 0;
}

ssize_t __wrap_pread(int fd, void *bytes, size_t size, off_t offset)
{
    if (fails_now(&pread_countdown)) {
        errno = pread_errno;
        return -1;
    }
    return __real_pread(fd, bytes, most > 0 && most < size ? most : size, offset);
}

int __wrap_fstat(int fd, struct stat *status)
{
    if (fails_now(&fstat_countdown)) {
        errno = EIO;
        return -1;
    }
    return __real_fstat(fd, status);
}

void *__wrap_malloc(size_t size)
{
    return fails_now(&memory_countdown) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now(&memory_countdown) ? NULL : __real_calloc(count, size);
}

struct fixture {
    struct sample_smlab smlab;
    struct rt_entry wanted;
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    fixture->smlab = sample_smlab_make(3);
    fixture->wanted = sample_entry(2);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    most = 0;
    free(fixture->smlab.bytes);
    rt_entry_free(&fixture->wanted);
    free(fixture);
    return 0;
}

/* Opens and finds; what failed is no damage, and works the next time. countdown: of the call that fails. Returns false
 * when so many were not made. */
static bool attempt(struct fixture *fixture, int *countdown, int n)
{
    struct sample_smlab_search search = {.log = {.lines = 0}};
    char why[256];
    int32_t found = 0;

    *countdown = n;
    struct rt_smlab *smlab = sample_smlab_open(fixture->smlab.bytes, fixture->smlab.size, why);

    if (smlab != NULL)
        found = sample_smlab_find_with(&search, smlab, &fixture->wanted, NULL, 0);
    const bool failed = *countdown == 0;

    *countdown = 0;
    if (failed) {
        assert_int_equal(found, 0);
        assert_int_equal(search.counters.damaged, 0);
        assert_int_equal(search.counters.errors, smlab != NULL);
        if (smlab != NULL)
            assert_int_equal(sample_smlab_find_with(&search, smlab, &fixture->wanted, NULL, 0), 1300);
    } else {
        assert_int_equal(found, 1300);
    }
    rt_smlab_close(smlab);
    return failed;
}

static void test_read_error(void **state)
{
    int n = 1;

    pread_errno = EIO;
    while (attempt(*state, &pread_countdown, n))
        n++;
    assert_int_equal(n - 1, 4); /* the header twice, the index, the entry */
}

static void test_no_status(void **state)
{
    assert_true(attempt(*state, &fstat_countdown, 1));
    assert_false(attempt(*state, &fstat_countdown, 2));
}

static void test_no_memory(void **state)
{
    int n = 1;

    while (attempt(*state, &memory_countdown, n))
        n++;
    assert_int_equal(n - 1, 5); /* itself, the rows, what is damaged, the index, the entry; strdup is not wrapped */
}

static void test_interrupted_and_short(void **state)
{
    struct fixture *fixture = *state;

    pread_errno = EINTR;
    for (int n = 1; n <= 4; n++) {
        pread_countdown = n;
        struct rt_smlab *smlab = sample_smlab_open_sound(&fixture->smlab);

        assert_int_equal(sample_smlab_find(smlab, &fixture->wanted, NULL, 0), 1300);
        rt_smlab_close(smlab);
    }
    most = 7;
    struct rt_smlab *smlab = sample_smlab_open_sound(&fixture->smlab);

    assert_int_equal(sample_smlab_find(smlab, &fixture->wanted, NULL, 0), 1300);
    rt_smlab_close(smlab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_read_error, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_status, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_interrupted_and_short, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
