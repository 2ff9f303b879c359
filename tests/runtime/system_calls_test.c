/* Every system call on files that an operation makes fails in turn (ld --wrap), with several errors, or does part of
 * its work; alone, and with all that follow of its name. The operation does without, or ends in IO with path and errno;
 * no file is left open or half written, and the next attempt works. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failures.h"
#include "operations.h"

/* Calls of a name, in an operation, that fail with each error; later ones do with some. */
enum { EACH_ERROR_CALLS = 2 };

enum { PART = -1, NOTHING = -2 }; /* instead of an error: one byte of what was asked for; none */

/* A system call, how often an operation makes it, and how often it was made to fail. */
struct call {
    const char *name;
    bool parts; /* it may do part of its work */
    int made;
    int failures;
};

static struct call calls[] = {
    {"open", false, 0, 0},      {"openat", false, 0, 0},   {"read", true, 0, 0},       {"pread", true, 0, 0},
    {"write", true, 0, 0},      {"fsync", false, 0, 0},    {"close", false, 0, 0},     {"fchmod", false, 0, 0},
    {"fstat", false, 0, 0},     {"fstatat", false, 0, 0},  {"lstat", false, 0, 0},     {"mkdirat", false, 0, 0},
    {"renameat", false, 0, 0},  {"unlinkat", false, 0, 0}, {"flock", false, 0, 0},     {"futimens", false, 0, 0},
    {"utimensat", false, 0, 0}, {"readdir", false, 0, 0},  {"getrandom", false, 0, 0},
};
enum { CALLS = sizeof calls / sizeof calls[0] };

/* Of several threads. */
static void count(const char *name)
{
    for (int c = 0; c < CALLS; c++)
        if (strcmp(calls[c].name, name) == 0)
            __atomic_add_fetch(&calls[c].made, 1, __ATOMIC_RELAXED);
}

/* The failure, of several threads. */
static struct {
    bool counting; /* instead of it */
    const char *call;
    int error;
    bool lasting;
    int countdown; /* 1: the next one of that name fails */
    int came;
} fault;

static bool fails_now(const char *call)
{
    if (fault.counting)
        count(call);
    if (fault.call == NULL || strcmp(fault.call, call) != 0)
        return false;
    const int left = __atomic_sub_fetch(&fault.countdown, 1, __ATOMIC_RELAXED);
    if (left > 0 || (left < 0 && !fault.lasting))
        return false;
    __atomic_add_fetch(&fault.came, 1, __ATOMIC_RELAXED);
    errno = fault.error > 0 ? fault.error : EIO;
    return true;
}

#define WRAP(type, name, parameters, arguments, failure)                                                               \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters                                                                                      \
    {                                                                                                                  \
        return fails_now(#name) ? (failure) : __real_##name arguments;                                                 \
    }
WRAP(int, fsync, (int file), (file), -1)
WRAP(int, fchmod, (int file, mode_t mode), (file, mode), -1)
WRAP(int, fstat, (int file, struct stat *status), (file, status), -1)
WRAP(int, fstatat, (int folder, const char *name, struct stat *status, int flags), (folder, name, status, flags), -1)
WRAP(int, lstat, (const char *name, struct stat *status), (name, status), -1)
WRAP(int, mkdirat, (int folder, const char *name, mode_t mode), (folder, name, mode), -1)
WRAP(int, renameat, (int from, const char *name, int to, const char *new_name), (from, name, to, new_name), -1)
WRAP(int, unlinkat, (int folder, const char *name, int flags), (folder, name, flags), -1)
WRAP(int, flock, (int file, int operation), (file, operation), -1)
WRAP(int, futimens, (int file, const struct timespec times[2]), (file, times), -1)
WRAP(int, utimensat, (int folder, const char *name, const struct timespec times[2], int flags),
     (folder, name, times, flags), -1)
WRAP(struct dirent *, readdir, (DIR * list), (list), NULL)
WRAP(ssize_t, getrandom, (void *bytes, size_t size, unsigned flags), (bytes, size, flags), -1)

/* Closed all the same. */
int __real_close(int file);
int __wrap_close(int file);

int __wrap_close(int file)
{
    const bool fails = fails_now("close");
    const int error = errno, result = __real_close(file);

    errno = fails ? error : errno;
    return fails ? -1 : result;
}

static ssize_t part_of(void)
{
    return fault.error == NOTHING ? 0 : fault.error == PART ? 1 : -1;
}

ssize_t __real_read(int file, void *bytes, size_t size);
ssize_t __wrap_read(int file, void *bytes, size_t size);
ssize_t __real_pread(int file, void *bytes, size_t size, off_t offset);
ssize_t __wrap_pread(int file, void *bytes, size_t size, off_t offset);
ssize_t __real_write(int file, const void *bytes, size_t size);
ssize_t __wrap_write(int file, const void *bytes, size_t size);
int __real_open(const char *name, int flags, ...);
int __wrap_open(const char *name, int flags, ...);
int __real_openat(int folder, const char *name, int flags, ...);
int __wrap_openat(int folder, const char *name, int flags, ...);

ssize_t __wrap_read(int file, void *bytes, size_t size)
{
    if (!fails_now("read"))
        return __real_read(file, bytes, size);
    return part_of() > 0 ? __real_read(file, bytes, 1) : part_of();
}

ssize_t __wrap_pread(int file, void *bytes, size_t size, off_t offset)
{
    if (!fails_now("pread"))
        return __real_pread(file, bytes, size, offset);
    return part_of() > 0 ? __real_pread(file, bytes, 1, offset) : part_of();
}

ssize_t __wrap_write(int file, const void *bytes, size_t size)
{
    if (!fails_now("write"))
        return __real_write(file, bytes, size);
    return part_of() > 0 ? __real_write(file, bytes, 1) : part_of();
}

int __wrap_open(const char *name, int flags, ...)
{
    return fails_now("open") ? -1 : __real_open(name, flags, 0600);
}

int __wrap_openat(int folder, const char *name, int flags, ...)
{
    return fails_now("openat") ? -1 : __real_openat(folder, name, flags, 0600);
}

/* ---- One failure ---- */

/* What an operation left behind or open. */
static int count_open_files(void)
{
    DIR *list = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(list);
    while (readdir(list))
        count++;
    closedir(list);
    return count;
}

static int temporaries;

static int count_temporary(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status;
    temporaries += type == FTW_F && path[at->base] == '.';
    return 0;
}

static int count_temporaries(const char *folder)
{
    temporaries = 0;
    (void)nftw(folder, count_temporary, 8, FTW_PHYS);
    return temporaries;
}

struct trial {
    const char *call;
    int number;
    int error;
    bool lasting;
    struct scene scene;
    smla_status status;
};

static void must(const struct trial *trial, bool good, const char *what)
{
    if (!good)
        fail_msg("%s, %s %d%s, error %d: %s; status %d: %s", trial->scene.operation->name, trial->call, trial->number,
                 trial->lasting ? " and later ones" : "", trial->error, what, (int)trial->status, last_error().message);
}

static void check_status(const struct trial *trial)
{
    const smla_error_info error = last_error();

    if (trial->status == trial->scene.operation->usual ||
        (trial->scene.sealed && trial->status == SMLA_ERROR_NOT_CACHED))
        return;
    must(trial, trial->status == SMLA_ERROR_IO, "another status");
    must(trial, error.native_code == trial->error, "another native code");
    must(trial, strcmp(error.path, trial->scene.cache) == 0, "another path");
    must(trial, strstr(error.message, "cache folder") != NULL, "its stage is not named");
}

/* What was published is whole: whoever comes finds it, or nothing. */
static void check_folder(const struct trial *trial)
{
    const struct scene *scene = &trial->scene;
    smla_context_desc desc = scene->context_desc;
    smla_context *context = NULL;

    scene->world.nvrtc->compile_result = 0;
    rt_failures_forget();
    if (desc.cache_policy != SMLA_CACHE_RW)
        return;
    must(trial, count_temporaries(scene->cache) == 0, "a temporary file is left");
    desc.jit_policy = SMLA_JIT_ON;
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
    smla_kernel_destroy(must_prepare(context, &scene->desc));
    must(trial, stats_of(context).entries_damaged <= scene->damaged, "an entry is damaged");
    must(trial, stats_of(context).cache_errors == 0, "the folder is not well");
    smla_context_destroy(context);
}

/* What looks damaged is removed, and a sealed context compiles nothing in its place. */
static bool lost_its_entry(const struct trial *trial)
{
    return trial->scene.sealed && trial->status == SMLA_ERROR_NOT_CACHED &&
           stats_of(trial->scene.world.context).entries_damaged > 0;
}

/* Returns whether it came. */
static bool fail_one(struct trial *trial, const struct operation *operation)
{
    struct scene *scene = &trial->scene;

    scene_open(scene, operation);
    const int before = count_open_files();
    fault.call = trial->call;
    fault.error = trial->error;
    fault.lasting = trial->lasting;
    fault.came = 0;
    fault.countdown = trial->number;
    trial->status = operation->act(scene);
    fault.call = NULL;
    if (fault.came > 0) {
        check_status(trial);
        must(trial, !scene->touched, "an output was written");
        must(trial, count_open_files() == before, "a file is left open");
    }
    if (!lost_its_entry(trial))
        scene_must_act(scene);
    if (fault.came > 0)
        check_folder(trial);
    scene_close(scene);
    return fault.came > 0;
}

/* ---- All of them ---- */

static bool is_meant(const struct call *call, int error, bool lasting)
{
    if (error == PART || error == NOTHING)
        return call->parts;
    return !lasting || error == EIO || error == ENOSPC; /* who is interrupted tries again */
}

/* So that nothing is tried where there is nothing to fail. */
static void count_calls(const struct operation *operation)
{
    struct scene scene;

    for (int c = 0; c < CALLS; c++)
        calls[c].made = 0;
    scene_open(&scene, operation);
    fault.counting = true;
    scene_must_act(&scene);
    fault.counting = false;
    scene_close(&scene);
}

static void fail_call(struct call *call, const struct operation *operation)
{
    static const int errors[] = {EIO, ENOSPC, EACCES, EINTR, ENOENT, ESTALE, PART, NOTHING};
    bool came = call->made > 0;

    for (int number = 1; came; number++) {
        for (size_t i = 0; came && i < 2 * sizeof errors / sizeof errors[0]; i++) {
            struct trial trial = {call->name, number, errors[i / 2], i % 2, .status = SMLA_OK};

            if (!is_meant(call, trial.error, trial.lasting) || (number > EACH_ERROR_CALLS && (i + (size_t)number) % 4))
                continue;
            came = fail_one(&trial, operation);
            call->failures += came;
        }
    }
}

static void every_system_call(void **state)
{
    int failures = 0;

    (void)state;
    for (size_t i = 0; i < operation_count; i++) {
        count_calls(&operations[i]);
        for (int c = 0; c < CALLS; c++)
            fail_call(&calls[c], &operations[i]);
    }
    for (int c = 0; c < CALLS; c++) {
        if (calls[c].failures == 0)
            fail_msg("no operation reaches %s: add a row to operations.c", calls[c].name);
        failures += calls[c].failures;
    }
    print_message("%d failures of %d system calls\n", failures, CALLS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_system_call)};
    return cmocka_run_group_tests_name("runtime.system_calls", tests, NULL, NULL);
}
