/* The shared library in a process that ends, or closes and opens it, or has it twice (facts/jit.md §2: 60): no crash,
 * and no driver call that nobody asked for. On the stubs. */
#include <dlfcn.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "prefill_params.h"
#include "smla/smla.h"
#include "stub.h"

/* What is used of a copy of the library. */
struct copy {
    void *library;
    smla_status (*context_create)(const smla_context_desc *desc, smla_context **out);
    void (*context_destroy)(smla_context *context);
    smla_status (*prepare)(smla_context *context, const smla_kernel_desc *desc, smla_kernel **out);
    smla_status (*prepare_start)(smla_context *context, const smla_kernel_desc *desc, smla_preparation **out);
    smla_status (*prepare_wait)(smla_preparation *preparation, uint32_t timeout_ms, smla_kernel **out);
    void (*prepare_destroy)(smla_preparation *preparation);
    void (*kernel_destroy)(smla_kernel *kernel);
    smla_status (*last_error)(smla_error_info *out);
    smla_context *context;
    smla_kernel *kernel;
};

static struct stub_driver *driver;
static struct stub_nvrtc *nvrtc;
static struct copy copy; /* of the children, which do not give it back */
static int calls_before; /* of the driver */

static void *symbol(void *library, const char *name)
{
    void *address = dlsym(library, name);

    if (address == NULL)
        fail_msg("%s", dlerror());
    return address;
}

static void *open_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (library == NULL)
        fail_msg("%s", dlerror());
    return library;
}

static int open_stubs(void **state)
{
    struct stub_driver *(*get_driver)(void);
    struct stub_nvrtc *(*get_nvrtc)(void);
    void *address = symbol(open_library(STUB_DRIVER_PATH), "stub_driver");

    (void)state;
    memcpy(&get_driver, &address, sizeof get_driver);
    address = symbol(open_library(STUB_NVRTC_PATH), "stub_nvrtc");
    memcpy(&get_nvrtc, &address, sizeof get_nvrtc);
    driver = get_driver();
    nvrtc = get_nvrtc();
    driver->reset();
    nvrtc->reset();
    nvrtc->entry = "smla_prefill_reference";
    driver->param_bytes = sizeof(struct smla_prefill_params);
    driver->set_current((void *)0xc1);
    return 0;
}

static struct copy copy_open(const char *path)
{
    struct copy opened = {.library = open_library(path)};
    const struct {
        const char *name;
        void *pointer;
    } symbols[] = {
        {"smla_context_create", &opened.context_create},
        {"smla_context_destroy", &opened.context_destroy},
        {"smla_prepare", &opened.prepare},
        {"smla_prepare_start", &opened.prepare_start},
        {"smla_prepare_wait", &opened.prepare_wait},
        {"smla_prepare_destroy", &opened.prepare_destroy},
        {"smla_kernel_destroy", &opened.kernel_destroy},
        {"smla_last_error", &opened.last_error},
    };

    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *address = symbol(opened.library, symbols[i].name);

        memcpy(symbols[i].pointer, &address, sizeof address);
    }
    return opened;
}

static const smla_kernel_desc kernel_desc = {
    .struct_size = sizeof kernel_desc, .op = SMLA_OP_PREFILL_REFERENCE, .h_q = 64, .d_qk = 512, .d_v = 512};

static smla_context_desc context_desc(const char *folder)
{
    return (smla_context_desc){.struct_size = sizeof(smla_context_desc),
                               .cache_policy = folder ? SMLA_CACHE_RW : SMLA_CACHE_OFF,
                               .jit_policy = SMLA_JIT_ON,
                               .driver_path = STUB_DRIVER_PATH,
                               .nvrtc_path = STUB_NVRTC_PATH,
                               .cache_dir = folder};
}

static void copy_prepare(struct copy *opened, const char *folder)
{
    const smla_context_desc desc = context_desc(folder);

    if (opened->context_create(&desc, &opened->context) != SMLA_OK ||
        opened->prepare(opened->context, &kernel_desc, &opened->kernel) != SMLA_OK) {
        smla_error_info info = {.struct_size = sizeof info};
        opened->last_error(&info);
        fail_msg("%s", info.message);
    }
}

static void copy_destroy(struct copy *opened)
{
    opened->kernel_destroy(opened->kernel);
    opened->context_destroy(opened->context);
}

/* ---- Ends of a process -------------------------------------------------------------------------------------- */

static void note_calls(void)
{
    calls_before = driver->calls(NULL);
}

static void check_calls(void)
{
    if (driver->calls(NULL) != calls_before)
        _exit(2);
}

static void destroy_late(void)
{
    driver->script = (struct stub_script){.fail_call = 1, .fail_code = 4, .again = 1}; /* DEINITIALIZED */
    driver->clear_log();
    copy_destroy(&copy);
    if (driver->calls(NULL) > 1)
        _exit(3);
}

/* In a child that ends as programs do. Returns its status. */
static int ends(void (*body)(void))
{
    int status = -1;

    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        body();
        exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* Handlers run from the last to the first: the calls are counted before and after everything that smla could have asked
 * for meanwhile. */
static void exit_with_a_context(void)
{
    atexit(check_calls);
    copy = copy_open(SMLA_PATH);
    copy_prepare(&copy, NULL);
    atexit(note_calls);
}

/* A destructor of the host's that runs when the driver is gone. */
static void exit_that_destroys(void)
{
    atexit(destroy_late);
    copy = copy_open(SMLA_PATH);
    copy_prepare(&copy, NULL);
}

static void exit_after_close(void)
{
    atexit(check_calls);
    copy = copy_open(SMLA_PATH);
    copy_prepare(&copy, NULL);
    note_calls();
    dlclose(copy.library);
}

static void test_60_exit(void **state)
{
    (void)state;
    assert_int_equal(ends(exit_with_a_context), 0);
    assert_int_equal(ends(exit_that_destroys), 0);
    assert_int_equal(ends(exit_after_close), 0);
}

/* ---- Ends beside a thread of the library's ------------------------------------------------------------------- */

static smla_preparation *preparation;

static void expect(bool is, int code)
{
    if (!is)
        _exit(code);
}

/* Returns when a worker is in the compiler, where it stays for a while. */
static void compile_in_background(void)
{
    const smla_context_desc desc = context_desc(NULL);

    nvrtc->script.delay_us = 300000;
    copy = copy_open(SMLA_PATH);
    expect(copy.context_create(&desc, &copy.context) == SMLA_OK, 4);
    expect(copy.prepare_start(copy.context, &kernel_desc, &preparation) == SMLA_OK, 5);
    while (__atomic_load_n(&nvrtc->compiles, __ATOMIC_SEQ_CST) == 0)
        usleep(1000);
}

static void compile_past_a_limit(void)
{
    smla_context_desc desc = context_desc(NULL);

    desc.compile_limit_ms = 20;
    nvrtc->script.delay_us = 300000;
    copy = copy_open(SMLA_PATH);
    expect(copy.context_create(&desc, &copy.context) == SMLA_OK, 4);
    expect(copy.prepare(copy.context, &kernel_desc, &copy.kernel) == SMLA_ERROR_TIMEOUT, 5);
}

static void close_beside_a_worker(void)
{
    struct copy again;
    smla_kernel *kernel = NULL;

    compile_in_background();
    expect(dlclose(copy.library) == 0, 6);
    again = copy_open(SMLA_PATH); /* the same, which has gone on */
    expect(again.prepare_wait(preparation, 10000, &kernel) == SMLA_OK, 7);
    again.prepare_destroy(preparation);
    again.kernel_destroy(kernel);
    again.context_destroy(copy.context);
    expect(driver->live_libraries == 0 && nvrtc->live_programs == 0, 8);
}

static void close_past_a_limit(void)
{
    compile_past_a_limit();
    expect(dlclose(copy.library) == 0, 6);
    while (__atomic_load_n(&nvrtc->live_programs, __ATOMIC_SEQ_CST) != 0)
        usleep(1000);
    usleep(10000); /* in the library, after the compiler */
}

static void close_and_exit(void)
{
    compile_in_background();
    expect(dlclose(copy.library) == 0, 6);
}

static void test_60_closed_beside_a_thread(void **state)
{
    (void)state;
    assert_int_equal(ends(close_beside_a_worker), 0);
    assert_int_equal(ends(close_past_a_limit), 0);
    assert_int_equal(ends(close_and_exit), 0);
}

/* Runs after the library has waited for the compiler: handlers run from the last to the first. */
static void ask_late(void)
{
    smla_error_info info = {.struct_size = sizeof info};
    smla_kernel *kernel = NULL;

    expect(nvrtc->live_programs == 0, 9);
    expect(copy.prepare_wait(preparation, SMLA_WAIT_FOREVER, &kernel) == SMLA_ERROR_UNAVAILABLE, 10);
    copy.last_error(&info);
    expect(strstr(info.message, "the process is ending") != NULL, 11);
    expect(copy.prepare(copy.context, &kernel_desc, &kernel) == SMLA_ERROR_UNAVAILABLE, 12);
    expect(nvrtc->compiles == 1 && driver->loads == 0, 13);
    copy.prepare_destroy(preparation);
    copy.context_destroy(copy.context);
}

static void exit_that_asks_late(void)
{
    atexit(ask_late);
    compile_in_background();
}

/* The stub's compiler, which the thread that ends the process is in itself. */
static void exit_here(uint64_t program)
{
    (void)program;
    alarm(10); /* less than the library waits for others */
    exit(0);
}

static void exit_in_the_worker(void)
{
    nvrtc->compiling = exit_here;
    compile_in_background();
    pause();
}

static void test_60_exit_beside_a_thread(void **state)
{
    (void)state;
    assert_int_equal(ends(compile_in_background), 0);
    assert_int_equal(ends(compile_past_a_limit), 0);
    assert_int_equal(ends(exit_that_asks_late), 0);
    assert_int_equal(ends(exit_in_the_worker), 0);
}

/* A forked child has none of its parent's threads, and waits for none. */
static void fork_beside_a_worker(void)
{
    int status = -1;

    compile_in_background();
    const pid_t child = fork();
    if (child == 0) {
        alarm(10);
        exit(0);
    }
    expect(waitpid(child, &status, 0) == child && status == 0, 14);
}

static void test_60_fork_beside_a_thread(void **state)
{
    (void)state;
    assert_int_equal(ends(fork_beside_a_worker), 0);
}

/* ---- Closed and opened again, and twice --------------------------------------------------------------------- */

static void test_60_closed_and_opened_again(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct copy again = copy_open(SMLA_PATH);

        copy_prepare(&again, NULL);
        copy_destroy(&again);
        assert_int_equal(driver->live_libraries, 0);
        assert_int_equal(dlclose(again.library), 0);
    }
}

static void copy_file(const char *from, const char *to)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    char buffer[65536];
    size_t size;

    assert_true(in != NULL && out != NULL);
    while ((size = fread(buffer, 1, sizeof buffer, in)) > 0)
        assert_int_equal(fwrite(buffer, 1, size, out), size);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info, (void)type, (void)walk;
    return remove(path);
}

/* As of two packages that each bring one: they share the folder, and nothing else. */
static void test_60_two_copies(void **state)
{
    char folder[] = "/tmp/smla-test-XXXXXX", path[64], cache[64];

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/libsmla.so", folder);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    copy_file(SMLA_PATH, path);
    struct copy first = copy_open(SMLA_PATH), second = copy_open(path);
    assert_ptr_not_equal(first.library, second.library);
    copy_prepare(&first, cache);
    copy_prepare(&second, cache);
    assert_int_equal(nvrtc->compiles, 1);
    assert_int_equal(driver->loads, 2);
    copy_destroy(&first);
    assert_int_equal(driver->live_libraries, 1);
    dlclose(first.library);
    copy_destroy(&second);
    assert_int_equal(driver->live_libraries, 0);
    dlclose(second.library);
    assert_int_equal(nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_60_exit, open_stubs),
        cmocka_unit_test_setup(test_60_closed_beside_a_thread, open_stubs),
        cmocka_unit_test_setup(test_60_exit_beside_a_thread, open_stubs),
        cmocka_unit_test_setup(test_60_fork_beside_a_thread, open_stubs),
        cmocka_unit_test_setup(test_60_closed_and_opened_again, open_stubs),
        cmocka_unit_test_setup(test_60_two_copies, open_stubs),
    };
    return cmocka_run_group_tests_name("runtime.exit", tests, NULL, NULL);
}
