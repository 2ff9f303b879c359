/* cuInit, versions, settings, fork. Each case has a process of its own: settings are read once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver_harness.h"
#include "drv_extra.h"

/* Runs a case in a child with NAME=VALUE settings; gives what it returned. */
static int in_child(int (*run)(void), const char *name, const char *value)
{
    int status;
    fflush(stdout);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (name != NULL)
            setenv(name, value, 1);
        _exit(run() & 0xff);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int init(void)
{
    return cuInit(0);
}

static int before_init(void)
{
    int count;
    cu_context context;
    uint64_t memory;
    if (cuDeviceGetCount(&count) != DRV_CUDA_ERROR_NOT_INITIALIZED)
        return 1;
    if (cuCtxGetCurrent(&context) != DRV_CUDA_ERROR_NOT_INITIALIZED)
        return 2;
    if (cuMemAlloc_v2(&memory, 4) != DRV_CUDA_ERROR_NOT_INITIALIZED)
        return 3;
    if (cuStreamSynchronize(NULL) != DRV_CUDA_ERROR_NOT_INITIALIZED)
        return 4;
    if (cuInit(1) != DRV_CUDA_ERROR_INVALID_VALUE || cuInit(0) != DRV_CUDA_SUCCESS || cuInit(0) != DRV_CUDA_SUCCESS)
        return 5;
    if (cuCtxGetCurrent(&context) != DRV_CUDA_SUCCESS || context != NULL)
        return 6;
    return cuMemAlloc_v2(&memory, 4) == DRV_CUDA_ERROR_INVALID_CONTEXT ? 0 : 7;
}

static void test_before_init(void **state)
{
    (void)state;
    assert_int_equal(in_child(before_init, NULL, NULL), 0);
}

static int after_fork(void)
{
    int status, count;
    if (cuInit(0) != DRV_CUDA_SUCCESS)
        return 1;
    const pid_t child = fork();
    if (child == 0)
        _exit(cuInit(0) != DRV_CUDA_ERROR_NOT_INITIALIZED ||
              cuDeviceGetCount(&count) != DRV_CUDA_ERROR_NOT_INITIALIZED ||
              cuDriverGetVersion(&count) != DRV_CUDA_SUCCESS || smla_emu_finding_count() != 0);
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return 2;
    return cuDeviceGetCount(&count) == DRV_CUDA_SUCCESS ? 0 : 3;
}

static void test_a_forked_child_has_no_driver(void **state)
{
    (void)state;
    assert_int_equal(in_child(after_fork, NULL, NULL), 0);
}

static void test_settings(void **state)
{
    static const struct {
        const char *name, *value;
        int result;
    } cases[] = {
        {"SMLA_EMU_SM", "90", DRV_CUDA_SUCCESS},
        {"SMLA_EMU_SM", "90a", DRV_CUDA_SUCCESS},
        {"SMLA_EMU_SM", "", DRV_CUDA_SUCCESS},
        {"SMLA_EMU_SM", "100", DRV_CUDA_ERROR_NOT_SUPPORTED},
        {"SMLA_EMU_SM_COUNT", "2", DRV_CUDA_SUCCESS},
        {"SMLA_EMU_SM_COUNT", "0", DRV_CUDA_ERROR_INVALID_VALUE},
        {"SMLA_EMU_SM_COUNT", "133", DRV_CUDA_ERROR_INVALID_VALUE},
        {"SMLA_EMU_SM_COUNT", "2x", DRV_CUDA_ERROR_INVALID_VALUE},
        {"SMLA_EMU_SCHEDULE", "pct", DRV_CUDA_SUCCESS},
        {"SMLA_EMU_SCHEDULE", "starve", DRV_CUDA_SUCCESS},
        {"SMLA_EMU_SCHEDULE", "slow", DRV_CUDA_ERROR_INVALID_VALUE},
        {"SMLA_EMU_SEED", "18446744073709551615", DRV_CUDA_SUCCESS},
        {"SMLA_EMU_SEED", "-1", DRV_CUDA_ERROR_INVALID_VALUE},
        {"SMLA_EMU_SEED", "1x", DRV_CUDA_ERROR_INVALID_VALUE},
        {"SMLA_EMU_CHECKS", "none,races,proxy", DRV_CUDA_SUCCESS},
        {"SMLA_EMU_CHECKS", "all,-uninitialised,sum-reversed,perturb", DRV_CUDA_SUCCESS},
        {"SMLA_EMU_CHECKS", "-exit,-warpgroup,-proxy-cp-async", DRV_CUDA_SUCCESS},
        {"SMLA_EMU_CHECKS", "race", DRV_CUDA_ERROR_INVALID_VALUE},
        {"SMLA_EMU_CHECKS", "none,-a-word-that-is-longer-than-all-the-names", DRV_CUDA_ERROR_INVALID_VALUE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(in_child(init, cases[i].name, cases[i].value), cases[i].result & 0xff);
}

static int refused_sm_says_why(void)
{
    char text[1024] = "";
    size_t size = sizeof text;
    if (cuInit(0) != DRV_CUDA_ERROR_NOT_SUPPORTED || cuLogsDumpToMemory(NULL, text, &size, 0) != DRV_CUDA_SUCCESS)
        return 1;
    return strcmp(text, "SMLA_EMU_SM '100': the emulated device is sm_90\n") == 0 && size == strlen(text) ? 0 : 2;
}

static void test_a_refusal_says_why(void **state)
{
    (void)state;
    assert_int_equal(in_child(refused_sm_says_why, "SMLA_EMU_SM", "100"), 0);
}

/* The report is written at exit, and after a launch that fails. */
static int racy_launch(void)
{
    cu_context context;
    cu_module module;
    cu_function function;
    if (cuInit(0) != 0 || cuCtxCreate_v2(&context, 0, 0) != 0 || cuModuleLoadData(&module, ptx_small) != 0 ||
        cuModuleGetFunction(&function, module, "racy") != 0)
        return 1;
    if (launch_one(function, 64, NULL, NULL) != DRV_CUDA_SUCCESS)
        return 2;
    return cuCtxSynchronize() == DRV_CUDA_ERROR_LAUNCH_FAILED && smla_emu_finding_count() == 1 ? 0 : 3;
}

static int quiet_exit(void)
{
    cuInit(0);
    exit(0);
}

static size_t read_file(const char *path, char *text, size_t capacity)
{
    FILE *file = fopen(path, "r");
    size_t size = 0;
    if (file != NULL) {
        size = fread(text, 1, capacity - 1, file);
        fclose(file);
    }
    text[size] = '\0';
    return size;
}

static void test_the_report_is_written(void **state)
{
    char path[] = "/tmp/emu-report-XXXXXX", json[64], text[4096];
    (void)state;
    close(mkstemp(path));
    assert_int_equal(in_child(racy_launch, "SMLA_EMU_REPORT", path), 0);
    assert_true(read_file(path, text, sizeof text) > 0);
    assert_non_null(strstr(text, "race in racy"));
    assert_int_equal(in_child(racy_launch, "SMLA_EMU_CHECKS", "none"), 3); /* nothing is looked for */
    snprintf(json, sizeof json, "%s.json", path);
    assert_int_equal(in_child(quiet_exit, "SMLA_EMU_REPORT", json), 0);
    assert_true(read_file(json, text, sizeof text) > 0);
    assert_non_null(strstr(text, "\"findings\": []"));
    unlink(path);
    unlink(json);
}

static void test_versions(void **state)
{
    int version = 0;
    (void)state;
    ok(cuDriverGetVersion(&version));
    assert_int_equal(version, 13000);
    gives(ERROR_INVALID_VALUE, cuDriverGetVersion(NULL));
    assert_int_equal(smla_emu_version(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_init),
        cmocka_unit_test(test_a_forked_child_has_no_driver),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_a_refusal_says_why),
        cmocka_unit_test(test_the_report_is_written),
        cmocka_unit_test(test_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
