/* Contexts: settings from the description and the environment, struct sizes, statistics, versions. */
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

static void defaults(void **state)
{
    smla_context *context = NULL;

    (void)state;
    setenv("SMLA_CACHE", "off", 1);
    assert_int_equal(smla_context_create(NULL, &context), SMLA_OK);
    const smla_stats_counters stats = stats_of(context);
    assert_int_equal(stats.compiles, 0);
    smla_context_destroy(context);
    smla_context_destroy(NULL);
    unsetenv("SMLA_CACHE");
}

static void bad_descriptions(void **state)
{
    const smla_context_desc good = stub_context_desc();
    smla_context *context = NULL;
    smla_context_desc desc = good;

    (void)state;
    assert_int_equal(smla_context_create(&good, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    desc.flags = 32;
    assert_int_equal(smla_context_create(&desc, &context), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "flags 0x20");
    desc = good;
    desc.cache_policy = 4;
    assert_int_equal(smla_context_create(&desc, &context), SMLA_ERROR_INVALID_ARGUMENT);
    desc = good;
    desc.jit_policy = 4;
    assert_int_equal(smla_context_create(&desc, &context), SMLA_ERROR_INVALID_ARGUMENT);
    desc = good;
    desc.reserved = 1;
    assert_int_equal(smla_context_create(&desc, &context), SMLA_ERROR_INVALID_ARGUMENT);
    desc = good;
    desc.struct_size = 0;
    assert_int_equal(smla_context_create(&desc, &context), SMLA_ERROR_INVALID_ARGUMENT);
    assert_null(context);
}

/* A word that is none would otherwise quietly mean "compile". */
static void bad_environment(void **state)
{
    smla_context_desc desc = stub_context_desc();
    smla_context *context = NULL;

    (void)state;
    desc.jit_policy = SMLA_JIT_DEFAULT;
    setenv("SMLA_JIT", "never", 1);
    assert_int_equal(smla_context_create(&desc, &context), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "SMLA_JIT", "never", "sealed");
    desc.jit_policy = SMLA_JIT_ON; /* the description wins */
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
    smla_context_destroy(context);
    unsetenv("SMLA_JIT");
}

static void environment_is_read_once(void **state)
{
    struct world world;
    smla_context_desc desc = {.struct_size = sizeof desc};
    const smla_kernel_desc kernel_desc = prefill_desc();
    smla_context *context = NULL;
    smla_kernel *kernel = NULL;

    (void)state;
    world_open_stubs(&world);
    setenv("SMLA_CACHE", "off", 1);
    setenv("SMLA_JIT", "off", 1);
    setenv("SMLA_DRIVER", STUB_DRIVER_PATH, 1);
    setenv("SMLA_NVRTC", STUB_NVRTC_PATH, 1);
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
    setenv("SMLA_JIT", "on", 1);
    setenv("SMLA_DRIVER", "/nonexistent", 1);
    assert_int_equal(smla_prepare(context, &kernel_desc, &kernel), SMLA_ERROR_NOT_CACHED);
    smla_context_destroy(context);
    setenv("SMLA_DRIVER", STUB_DRIVER_PATH, 1);
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
    smla_kernel_destroy(must_prepare(context, &kernel_desc));
    smla_context_destroy(context);
    unsetenv("SMLA_CACHE");
    unsetenv("SMLA_JIT");
    unsetenv("SMLA_DRIVER");
    unsetenv("SMLA_NVRTC");
}

static void given_cache_folder_must_work(void **state)
{
    smla_context_desc desc = stub_context_desc();
    smla_context *context = NULL;

    (void)state;
    desc.cache_policy = SMLA_CACHE_RW;
    desc.cache_dir = "/proc/nowhere/smla";
    assert_int_equal(smla_context_create(&desc, &context), SMLA_ERROR_IO);
    assert_string_equal(last_error().path, "/proc/nowhere/smla");
    assert_null(context);
}

struct log_lines {
    char text[4096];
};

static void keep_line(void *user, int32_t level, const char *line)
{
    struct log_lines *lines = user;

    (void)level;
    strncat(lines->text, line, sizeof lines->text - strlen(lines->text) - 2);
    strcat(lines->text, "\n");
}

static void default_cache_folder_need_not_work(void **state)
{
    struct log_lines lines = {""};
    smla_context_desc desc = stub_context_desc();
    smla_context *context = NULL;

    (void)state;
    setenv("SMLA_CACHE_DIR", "/proc/nowhere/smla", 1);
    desc.cache_policy = SMLA_CACHE_RW;
    desc.log = keep_line;
    desc.log_user = &lines;
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
    assert_non_null(strstr(lines.text, "/proc/nowhere/smla"));
    smla_context_destroy(context);
    unsetenv("SMLA_CACHE_DIR");
}

static void relative_cache_folder_is_fixed(void **state)
{
    struct world world;
    smla_context_desc desc = stub_context_desc();
    smla_kernel_desc kernel_desc = prefill_desc();
    smla_context *context = NULL;
    char *folder = make_folder(), *elsewhere = make_folder();
    char entries[600];
    struct stat info;

    (void)state;
    world_open_stubs(&world);
    assert_int_equal(chdir(folder), 0);
    desc.cache_policy = SMLA_CACHE_RW;
    desc.cache_dir = "cache";
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
    assert_int_equal(chdir(elsewhere), 0);
    smla_kernel_destroy(must_prepare(context, &kernel_desc));
    assert_int_equal(stats_of(context).entries_written, 1);
    smla_context_destroy(context);
    snprintf(entries, sizeof entries, "%s/cache", folder);
    assert_int_equal(stat(entries, &info), 0);
    assert_int_equal(chdir("/"), 0);
    remove_folder(folder);
    remove_folder(elsewhere);
}

static void disk_hit_opens_no_compiler(void **state)
{
    struct world world;
    smla_context_desc desc = stub_context_desc();
    const smla_kernel_desc kernel_desc = prefill_desc();
    smla_context *context = NULL;
    char *folder = make_folder();

    (void)state;
    world_open_stubs(&world);
    desc.cache_policy = SMLA_CACHE_RW;
    desc.cache_dir = folder;
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
    smla_kernel_destroy(must_prepare(context, &kernel_desc));
    smla_context_destroy(context);
    desc.nvrtc_path = "/nonexistent/libnvrtc.so";
    desc.cache_policy = SMLA_CACHE_RO;
    desc.jit_policy = SMLA_JIT_SEALED;
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
    smla_kernel_destroy(must_prepare(context, &kernel_desc));
    assert_int_equal(stats_of(context).disk_hits, 1);
    assert_int_equal(stats_of(context).misses, 0);
    assert_int_equal(stats_of(context).refused_compiles, 0);
    smla_context_destroy(context);
    assert_int_equal(world.nvrtc->compiles, 1);
    remove_folder(folder);
}

static void test_O2_older_description(void **state)
{
    const smla_context_desc good = stub_context_desc();
    smla_context_desc *old = older_struct(&good, offsetof(smla_context_desc, log));
    smla_context *context = NULL;

    (void)state;
    assert_int_equal(smla_context_create(old, &context), SMLA_OK);
    smla_context_destroy(context);
    free(old);
}

static void test_O2_older_outputs(void **state)
{
    struct world *world = *state;
    const size_t old_size = offsetof(smla_stats_counters, compiles);
    const smla_stats_counters full = {.misses = 77};
    smla_stats_counters *old = older_struct(&full, old_size);

    assert_int_equal(smla_stats(world->context, old), SMLA_OK);
    assert_int_equal(old->struct_size, old_size);
    assert_int_equal(old->misses, 0);
    free(old);
    assert_int_equal(smla_stats(world->context, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_stats(NULL, NULL), SMLA_ERROR_INVALID_ARGUMENT);
}

static void test_O2_version(void **state)
{
    (void)state;
    assert_string_equal(smla_version(), "0.1.0");
    assert_true(smla_abi_version() > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(bad_descriptions),
        cmocka_unit_test(bad_environment),
        cmocka_unit_test(environment_is_read_once),
        cmocka_unit_test(given_cache_folder_must_work),
        cmocka_unit_test(default_cache_folder_need_not_work),
        cmocka_unit_test(relative_cache_folder_is_fixed),
        cmocka_unit_test(disk_hit_opens_no_compiler),
        cmocka_unit_test(test_O2_older_description),
        cmocka_unit_test_setup_teardown(test_O2_older_outputs, world_setup, world_teardown),
        cmocka_unit_test(test_O2_version),
    };
    return cmocka_run_group_tests_name("runtime.context", tests, NULL, NULL);
}
