/* System calls and allocations that fail, one at a time: no file is left, nothing leaks, the work goes on. The linker's
 * --wrap puts these functions before libc's. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache.h"
#include "sample.h"

enum call {
    NONE,
    OPENAT_CREATE,
    WRITE,
    WRITE_SHORT,
    WRITE_ZERO,
    FSYNC,
    CLOSE,
    RENAMEAT,
    FCHMOD,
    MKDIRAT,
    MKDIRAT_SWAPPED, /* and a link put in its place */
    READ,
    READ_END,
    READ_REPLACED,
    FSTAT,
    UNLINKAT
};

static struct {
    enum call call;
    int error;
    int skip;         /* calls that go through first */
    int allocation;   /* the n-th from now fails; 0: none */
    int rename_error; /* beside `call`; 0: none */
    int environment_reads;
    const char *replaced; /* by READ_REPLACED; what the link of MKDIRAT_SWAPPED leads to */
    char created[256];
    char renamed_to[256];
} fault;

/* True when this call is the one to fail: errno is set, and later ones go through. */
static bool fails(enum call call)
{
    if (fault.call != call || fault.skip-- > 0)
        return false;
    fault.call = NONE;
    errno = fault.error;
    return true;
}

static bool allocation_fails(void)
{
    return fault.allocation > 0 && --fault.allocation == 0;
}

int __real_openat(int folder, const char *path, int flags, ...);
int __wrap_openat(int folder, const char *path, int flags, ...);
ssize_t __real_write(int file, const void *bytes, size_t size);
ssize_t __wrap_write(int file, const void *bytes, size_t size);
ssize_t __real_read(int file, void *bytes, size_t size);
ssize_t __wrap_read(int file, void *bytes, size_t size);
int __real_fsync(int file);
int __wrap_fsync(int file);
int __real_close(int file);
int __wrap_close(int file);
int __real_fchmod(int file, mode_t mode);
int __wrap_fchmod(int file, mode_t mode);
int __real_fstat(int file, struct stat *status);
int __wrap_fstat(int file, struct stat *status);
int __real_mkdirat(int folder, const char *path, mode_t mode);
int __wrap_mkdirat(int folder, const char *path, mode_t mode);
int __real_renameat(int from_folder, const char *from, int to_folder, const char *to);
int __wrap_renameat(int from_folder, const char *from, int to_folder, const char *to);
int __real_unlinkat(int folder, const char *path, int flags);
int __wrap_unlinkat(int folder, const char *path, int flags);
char *__real_secure_getenv(const char *name);
int __wrap_unlinkat(int folder, const char *path, int flags)
{
    return fails(UNLINKAT) ? -1 : __real_unlinkat(folder, path, flags);
}

char *__wrap_secure_getenv(const char *name);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);

int __wrap_openat(int folder, const char *path, int flags, ...)
{
    va_list arguments;
    mode_t mode = 0;

    if ((flags & O_CREAT) != 0) {
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
        strncpy(fault.created, path, sizeof fault.created - 1);
        if (fails(OPENAT_CREATE))
            return -1;
    }
    return __real_openat(folder, path, flags, mode);
}

ssize_t __wrap_write(int file, const void *bytes, size_t size)
{
    if (fails(WRITE))
        return -1;
    if (fails(WRITE_ZERO))
        return 0;
    if (fault.call == WRITE_SHORT) /* every write: the loop must go on */
        return __real_write(file, bytes, size < 100 ? size : 100);
    return __real_write(file, bytes, size);
}

ssize_t __wrap_read(int file, void *bytes, size_t size)
{
    if (fails(READ_REPLACED)) {
        char other[512];

        snprintf(other, sizeof other, "%s.other", fault.replaced);
        sample_file_write(other, "other", 5);
        assert_int_equal(rename(other, fault.replaced), 0);
        assert_int_equal(unlink(fault.replaced), 0);
    }
    if (fails(READ_END))
        return 0;
    return fails(READ) ? -1 : __real_read(file, bytes, size < 100 ? size : 100);
}

int __wrap_fsync(int file)
{
    return fails(FSYNC) ? -1 : __real_fsync(file);
}

/* Closes in any case, as Linux does. */
int __wrap_close(int file)
{
    const int result = __real_close(file);

    return fails(CLOSE) ? -1 : result;
}

int __wrap_fchmod(int file, mode_t mode)
{
    return fails(FCHMOD) ? -1 : __real_fchmod(file, mode);
}

int __wrap_fstat(int file, struct stat *status)
{
    return fails(FSTAT) ? -1 : __real_fstat(file, status);
}

int __wrap_mkdirat(int folder, const char *path, mode_t mode)
{
    if (fails(MKDIRAT))
        return -1;
    const int result = __real_mkdirat(folder, path, mode);
    if (fails(MKDIRAT_SWAPPED)) {
        assert_int_equal(unlinkat(folder, path, AT_REMOVEDIR), 0);
        assert_int_equal(symlinkat(fault.replaced, folder, path), 0);
    }
    return result;
}

int __wrap_renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    assert_int_equal(from_folder, to_folder);
    assert_string_equal(from, fault.created);
    strncpy(fault.renamed_to, to, sizeof fault.renamed_to - 1);
    if (fault.rename_error != 0) {
        errno = fault.rename_error;
        return -1;
    }
    return fails(RENAMEAT) ? -1 : __real_renameat(from_folder, from, to_folder, to);
}

char *__wrap_secure_getenv(const char *name)
{
    fault.environment_reads++;
    return __real_secure_getenv(name);
}

void *__wrap_malloc(size_t size)
{
    return allocation_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return allocation_fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return allocation_fails() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text)
{
    return allocation_fails() ? NULL : __real_strdup(text);
}

struct fixture {
    char *folder;
    struct sample_log log;
    struct rt_log to;
    struct rt_cache *cache;
    struct rt_entry entry;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    memset(&fault, 0, sizeof fault);
    fixture->folder = sample_folder();
    fixture->to = (struct rt_log){.fn = sample_log_line, .user = &fixture->log};
    fixture->entry = sample_entry(1);
    *state = fixture;
    return rt_cache_open(fixture->folder, true, true, &fixture->to, &fixture->cache) == SMLA_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    memset(&fault, 0, sizeof fault);
    rt_entry_free(&fixture->entry);
    rt_cache_close(fixture->cache);
    sample_folder_remove(fixture->folder);
    free(fixture);
    return 0;
}

static bool finds(struct fixture *fixture)
{
    struct rt_entry found;

    if (!rt_cache_find(fixture->cache,
                       &(struct rt_wanted){.key = &fixture->entry.info.key, .builder = &fixture->entry.info.builder},
                       &found))
        return false;
    rt_entry_free(&found);
    return true;
}

/* Publishing fails with this call's error, counted and told, with nothing left; without the fault it works. */
static void publish_survives(struct fixture *fixture, enum call call, int error, int skip)
{
    const uint64_t errors = rt_cache_counters(fixture->cache)->errors;

    fault.call = call;
    fault.error = error;
    fault.skip = skip;
    assert_false(rt_cache_publish(fixture->cache, &fixture->entry));
    assert_int_equal(sample_count_files(fixture->folder, ""), 0);
    assert_int_equal(rt_cache_counters(fixture->cache)->errors, errors + 1);
    assert_non_null(strstr(fixture->log.last, strerror(error)));
    assert_non_null(strstr(fixture->log.last, fixture->folder));
    fault.call = NONE;
    assert_false(finds(fixture));
    assert_true(rt_cache_publish(fixture->cache, &fixture->entry));
    assert_true(finds(fixture));
    sample_folder_remove(sample_path(fixture->folder, "v1"));
}

/* Between making a folder and giving it its mode somebody puts a link there: what it leads to keeps its own. */
static void test_52_a_link_in_place_of_a_new_folder(void **state)
{
    struct fixture *fixture = *state;
    char *elsewhere = sample_path(fixture->folder, "elsewhere");
    struct stat status;

    assert_int_equal(mkdir(elsewhere, 0750), 0);
    fault.replaced = elsewhere;
    fault.call = MKDIRAT_SWAPPED;
    assert_false(rt_cache_publish(fixture->cache, &fixture->entry));
    fault.call = NONE;
    assert_int_equal(stat(elsewhere, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0750);
    assert_int_equal(sample_count_files(fixture->folder, ""), 0);
    free(elsewhere);
}

static void test_5_publish_faults(void **state)
{
    publish_survives(*state, OPENAT_CREATE, EROFS, 0);
    publish_survives(*state, OPENAT_CREATE, ENOSPC, 0);
    publish_survives(*state, OPENAT_CREATE, EMFILE, 0);
    publish_survives(*state, FCHMOD, EPERM, 0);
    publish_survives(*state, WRITE, ENOSPC, 0);
    publish_survives(*state, WRITE, EDQUOT, 0);
    publish_survives(*state, WRITE, EIO, 0);
    publish_survives(*state, WRITE_ZERO, ENOSPC, 0);
    publish_survives(*state, FSYNC, EIO, 0);
    publish_survives(*state, CLOSE, EDQUOT, 3); /* the first are those of new folders, and v1's */
    publish_survives(*state, RENAMEAT, EXDEV, 0);
    publish_survives(*state, RENAMEAT, ESTALE, 0);
    publish_survives(*state, MKDIRAT, ENOSPC, 0);
    publish_survives(*state, MKDIRAT, EACCES, 1);
}

static void test_short_writes_are_continued(void **state)
{
    struct fixture *fixture = *state;

    fault.call = WRITE_SHORT;
    assert_true(rt_cache_publish(fixture->cache, &fixture->entry));
    assert_true(finds(fixture));
}

static void test_interrupted_calls_are_repeated(void **state)
{
    struct fixture *fixture = *state;

    fault.call = WRITE;
    fault.error = EINTR;
    assert_true(rt_cache_publish(fixture->cache, &fixture->entry));
    fault.call = READ;
    fault.skip = 1;
    assert_true(finds(fixture));
}

/* A full disk is one line, not one a kernel; another trouble is told again. */
static void test_the_same_trouble_is_told_once(void **state)
{
    struct fixture *fixture = *state;

    for (int i = 0; i < 5; i++) {
        fault.call = WRITE;
        fault.error = i < 4 ? ENOSPC : EIO;
        fault.skip = 0;
        assert_false(rt_cache_publish(fixture->cache, &fixture->entry));
    }
    assert_int_equal(fixture->log.lines, 2);
    assert_int_equal(rt_cache_counters(fixture->cache)->errors, 5);
}

static void test_8_temporary_file_lies_beside_its_target(void **state)
{
    struct fixture *fixture = *state;

    assert_true(rt_cache_publish(fixture->cache, &fixture->entry));
    /* __wrap_renameat compared the folders. */
    assert_int_equal(fault.created[0], '.');
    assert_null(strchr(fault.created, '/'));
    assert_string_equal(fault.created + strlen(fault.created) - 4, ".tmp");
    assert_null(strchr(fault.renamed_to, '/'));
    assert_string_equal(fault.renamed_to + strlen(fault.renamed_to) - 10, ".cubin.smk");
}

static void read_fault_is_a_miss(struct fixture *fixture, enum call call, int error, int skip)
{
    const uint64_t errors = rt_cache_counters(fixture->cache)->errors;

    fault.call = call;
    fault.error = error;
    fault.skip = skip;
    assert_false(finds(fixture));
    fault.call = NONE;
    assert_int_equal(rt_cache_counters(fixture->cache)->errors, errors + 1);
    assert_int_equal(rt_cache_counters(fixture->cache)->damaged, 0);
    assert_true(finds(fixture));
}

static void test_read_faults(void **state)
{
    struct fixture *fixture = *state;

    assert_true(rt_cache_publish(fixture->cache, &fixture->entry));
    read_fault_is_a_miss(fixture, READ, EIO, 0);
    read_fault_is_a_miss(fixture, READ, ESTALE, 3);
    read_fault_is_a_miss(fixture, FSTAT, EIO, 0);
    read_fault_is_a_miss(fixture, FSTAT, EIO, 2);
}

/* What cannot be renamed cannot be removed either: it stays for gc, and the caller has its code all the same. */
static void test_3_temporary_file_cannot_be_removed(void **state)
{
    static const int errors[] = {EBUSY, ENOTEMPTY, EIO};
    struct fixture *fixture = *state;

    for (int i = 0; i < 3; i++) {
        const int lines = fixture->log.lines;

        fault.rename_error = ESTALE;
        fault.call = UNLINKAT;
        fault.error = errors[i];
        fault.skip = 0;
        assert_false(rt_cache_publish(fixture->cache, &fixture->entry));
        assert_int_equal(fault.call, NONE);
        fault.rename_error = 0;
        assert_true(fixture->log.lines <= lines + 1);
        assert_int_equal(sample_count_files(fixture->folder, ".tmp"), 1 + i);
        assert_true(rt_cache_publish(fixture->cache, &fixture->entry));
        assert_true(finds(fixture));
    }
}

/* Between two reads of an entry a writer puts another file in its place, and gc removes that: what was opened is read.
 */
static void test_41_entry_replaced_while_read(void **state)
{
    struct fixture *fixture = *state;
    char *path = sample_entry_path(fixture->folder, &fixture->entry);
    struct rt_entry found;

    assert_true(rt_cache_publish(fixture->cache, &fixture->entry));
    fault.call = READ_REPLACED;
    fault.skip = 2;
    fault.replaced = path;
    assert_true(rt_cache_find(fixture->cache, &(struct rt_wanted){.key = &fixture->entry.info.key}, &found));
    assert_int_equal(fault.call, NONE);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(found.file_size, fixture->entry.file_size);
    assert_memory_equal(found.file, fixture->entry.file, found.file_size);
    rt_entry_free(&found);
    assert_int_equal(rt_cache_counters(fixture->cache)->damaged, 0);
    free(path);
}

/* The file was cut by another host while it was read. */
static void test_42_file_that_shrinks_is_damage(void **state)
{
    struct fixture *fixture = *state;

    assert_true(rt_cache_publish(fixture->cache, &fixture->entry));
    fault.call = READ_END;
    fault.skip = 2;
    assert_false(finds(fixture));
    assert_int_equal(rt_cache_counters(fixture->cache)->damaged, 1);
    assert_non_null(strstr(fixture->log.last, "ends after 200 of"));
}

static bool open_with_failing_allocation(struct fixture *fixture, int nth)
{
    struct rt_cache *cache = NULL;
    smla_status status;

    fault.allocation = nth;
    status = rt_cache_open(fixture->folder, true, true, &fixture->to, &cache);
    fault.allocation = 0;
    rt_cache_close(cache);
    return status == SMLA_OK;
}

/* The n-th allocation fails, for every n until none does. */
static void test_failing_allocations(void **state)
{
    struct fixture *fixture = *state;
    int nth = 1;

    while (!open_with_failing_allocation(fixture, nth))
        assert_true(nth++ < 20);
    assert_true(nth > 2);
    assert_true(rt_cache_publish(fixture->cache, &fixture->entry));
    fault.allocation = 1;
    assert_false(finds(fixture));
    fault.allocation = 0;
    assert_true(finds(fixture));
}

static void test_failing_allocation_of_an_entry(void **state)
{
    struct fixture *fixture = *state;
    struct rt_entry entry = {0};

    fault.allocation = 1;
    assert_int_equal(rt_entry_write(&fixture->entry.info, "x", 1, NULL, &entry), SMLA_ERROR_OUT_OF_MEMORY);
    assert_null(entry.file);
}

static void test_failing_allocation_of_a_key(void **state)
{
    static const struct gen_target target = {.arch = "sm_90a"};
    const struct gen_bundle bundle = {.spec = {.target = &target}};
    struct rt_key key;

    (void)state;
    fault.allocation = 1;
    assert_int_equal(rt_key_make(&bundle, RT_KIND_CUBIN, &key), SMLA_ERROR_OUT_OF_MEMORY);
}

static void test_environment_is_read_for_the_default_folder_alone(void **state)
{
    struct fixture *fixture = *state;

    assert_true(rt_cache_publish(fixture->cache, &fixture->entry));
    assert_true(finds(fixture));
    assert_int_equal(fault.environment_reads, 0);
    free(rt_cache_default_dir());
    assert_int_not_equal(fault.environment_reads, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_5_publish_faults),
        TEST(test_52_a_link_in_place_of_a_new_folder),
        TEST(test_short_writes_are_continued),
        TEST(test_interrupted_calls_are_repeated),
        TEST(test_the_same_trouble_is_told_once),
        TEST(test_8_temporary_file_lies_beside_its_target),
        TEST(test_read_faults),
        TEST(test_3_temporary_file_cannot_be_removed),
        TEST(test_41_entry_replaced_while_read),
        TEST(test_42_file_that_shrinks_is_damage),
        TEST(test_failing_allocations),
        TEST(test_failing_allocation_of_an_entry),
        TEST(test_failing_allocation_of_a_key),
        TEST(test_environment_is_read_for_the_default_folder_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
