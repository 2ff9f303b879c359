/* Real NVRTCs beside each other in a process: which of them compiles, and what a driver that is older does. Each test
 * has a process of its own, for an NVRTC stays loaded.
 *
 * SMLA_TEST_NVRTCS: NVRTC 12.8, 12.9, 13.0 and one of 13 that is newer, with colons between them (with_nvrtc). */
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "nvrtc_table.h"
#include "smlab_files.h"

enum { NVRTC_12_8, NVRTC_12_9, NVRTC_13_0, NVRTC_NEWEST, NVRTC_COUNT };
static char paths[NVRTC_COUNT][1024];

struct bytes {
    char *data;
    size_t size;
};

static int32_t keep_bytes(void *user, const void *bytes, size_t size)
{
    struct bytes *kept = user;

    kept->data = calloc(size + 1, 1);
    kept->size = size;
    assert_non_null(kept->data);
    memcpy(kept->data, bytes, size);
    return 0;
}

static smla_context *make_context(const char *nvrtc_path)
{
    smla_context_desc desc = stub_context_desc();
    smla_context *context = NULL;

    desc.nvrtc_path = nvrtc_path;
    if (smla_context_create(&desc, &context) != SMLA_OK)
        fail_msg("%s", last_error().message);
    return context;
}

static struct bytes generate(smla_context *context, uint32_t emit)
{
    smla_kernel_desc desc = reference_desc();
    struct bytes bytes = {0};

    desc.target = "90";
    if (smla_generate(context, &desc, emit, keep_bytes, &bytes) != SMLA_OK)
        fail_msg("%s\n%s", last_error().message, last_error().log);
    return bytes;
}

/* The PTX names the compiler that wrote it. */
static void assert_compiled_by(const char *nvrtc_path, const char *release)
{
    smla_context *context = make_context(nvrtc_path);
    struct bytes ptx = generate(context, SMLA_EMIT_PTX);
    char words[32];

    snprintf(words, sizeof words, "release %s,", release);
    if (strstr(ptx.data, words) == NULL)
        fail_msg("not by NVRTC %s: %.300s", release, ptx.data);
    free(ptx.data);
    smla_context_destroy(context);
}

/* As a program that uses NVRTC itself has done; its symbols are there for every library that is loaded later. */
static void load(int which)
{
    if (dlopen(paths[which], RTLD_LAZY | RTLD_GLOBAL) == NULL)
        fail_msg("%s", dlerror());
}

static void one_that_is_named_wins(void **state)
{
    (void)state;
    load(NVRTC_13_0);
    assert_compiled_by(paths[NVRTC_12_8], "12.8");
    setenv("SMLA_NVRTC", paths[NVRTC_12_9], 1);
    assert_compiled_by(NULL, "12.9");
    assert_compiled_by(paths[NVRTC_NEWEST], "13.5"); /* over the variable, too */
    unsetenv("SMLA_NVRTC");
    assert_compiled_by(NULL, "13.0"); /* of the two 13 in the process, the one that was there first */
}

static void one_in_the_process_wins(void **state)
{
    (void)state;
    load(NVRTC_12_8);
    assert_compiled_by(NULL, "12.8");
    load(NVRTC_13_0);
    assert_compiled_by(NULL, "13.0");
}

/* What one compiles is the same to the byte whatever is loaded beside it. */
static void others_change_nothing(void **state)
{
    smla_context *alone = make_context(paths[NVRTC_12_9]);
    struct bytes before = generate(alone, SMLA_EMIT_CUBIN);

    (void)state;
    load(NVRTC_12_8);
    load(NVRTC_NEWEST);
    for (int which = 0; which < NVRTC_COUNT; which++) {
        smla_context *other = make_context(paths[which]);
        struct bytes cubin = generate(other, SMLA_EMIT_CUBIN);
        const bool same = cubin.size == before.size && memcmp(cubin.data, before.data, cubin.size) == 0;
        assert_int_equal(same, which == NVRTC_12_9);
        free(cubin.data);
        smla_context_destroy(other);
    }
    free(before.data);
    smla_context_destroy(alone);
}

/* Toolkits below one folder, as /usr/local/cuda-12.8 and so on: links to the folders of the first `count` NVRTCs. */
static char *make_toolkits(int count)
{
    char *folder = make_folder(), link[1200], target[1024];

    for (int i = 0; i < count; i++) {
        snprintf(link, sizeof link, "%s/cuda-%d", folder, i);
        snprintf(target, sizeof target, "%.*s", (int)(strrchr(paths[i], '/') - paths[i]), paths[i]);
        assert_int_equal(symlink(target, link), 0);
    }
    return folder;
}

static void assert_found(const struct rt_nvrtc_places *places, const char *target, int32_t max_major, int major,
                         int minor)
{
    struct rt_nvrtc_set set = {.places = places};
    const struct rt_nvrtc *found = NULL;

    if (rt_nvrtc_find(&set, gen_target_find(target), max_major, &found) != SMLA_OK)
        fail_msg("%s", last_error().message);
    assert_int_equal(found->major, major);
    assert_int_equal(found->minor, minor);
    rt_nvrtc_set_free(&set);
}

static void newest_found_wins(void **state)
{
    static const char *const none[] = {NULL};
    char *folder = make_toolkits(NVRTC_COUNT), pattern[600];
    const struct rt_nvrtc_places places = {none, pattern};

    (void)state;
    snprintf(pattern, sizeof pattern, "%s/cuda*/libnvrtc.so.1[2-9]", folder);
    assert_found(&places, "90", 0, 13, 5);
    assert_found(&places, "90", 12, 12, 9); /* of those that the driver can take */
    remove_folder(folder);
}

/* One in the process that does not serve is passed over: it does not know the target, or is newer than the driver. */
static void one_in_the_process_does_not_serve(void **state)
{
    static const char *const twelve[] = {"libnvrtc.so.12", NULL};
    char *folder = make_toolkits(NVRTC_13_0), pattern[600];
    const struct rt_nvrtc_places old = {twelve, pattern}; /* this machine may have a 13 */
    const struct rt_nvrtc_places all = {rt_nvrtc_default_places.sonames, pattern};

    (void)state;
    snprintf(pattern, sizeof pattern, "%s/cuda*/libnvrtc.so.1[2-9]", folder);
    load(NVRTC_12_8);
    assert_found(&old, "90", 0, 12, 8);
    assert_found(&old, "100f", 0, 12, 9);
    load(NVRTC_NEWEST);
    assert_found(&all, "100f", 0, 13, 5);
    assert_found(&all, "100f", 12, 12, 9);
    remove_folder(folder);
}

/* ---- A driver of CUDA 12.8 --------------------------------------------------------------------------------- */

static smla_context *make_older(struct world *world, const char *nvrtc_path, const char *cache_dir, const char *bundles)
{
    smla_context_desc desc = stub_context_desc();
    smla_context *context = NULL;

    world->driver->version = 12080;
    desc.nvrtc_path = nvrtc_path;
    desc.cache_dir = cache_dir;
    desc.cache_policy = cache_dir ? SMLA_CACHE_RW : SMLA_CACHE_OFF;
    desc.bundles = bundles;
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
    return context;
}

static void assert_refused(smla_context *context, const char *version)
{
    const smla_kernel_desc desc = reference_desc();
    smla_kernel *kernel = NULL;
    char words[64];

    snprintf(words, sizeof words, "NVRTC %s, and the CUDA driver (API 12.8)", version);
    assert_int_equal(smla_prepare(context, &desc, &kernel), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, words, "update the driver", "NVRTC of major 12", "bundle or a cache");
    assert_null(kernel);
    smla_context_destroy(context);
}

/* Returns the context for what is to be made of it. */
static smla_context *assert_served(smla_context *context)
{
    const smla_kernel_desc desc = reference_desc();

    smla_kernel_destroy(must_prepare(context, &desc));
    return context;
}

static void newer_than_the_driver(void **state)
{
    struct world *world = *state;
    static const char *const thirteen[] = {"libnvrtc.so.13", NULL};
    const struct rt_nvrtc_places places = {thirteen, "/nonexistent/libnvrtc.so.13"};
    struct rt_nvrtc_set set = {.places = &places, .driver_version = 12080};
    const struct rt_nvrtc *found = NULL;

    assert_refused(make_older(world, paths[NVRTC_13_0], NULL, NULL), "13.0");
    assert_string_equal(last_error().path, paths[NVRTC_13_0]);
    assert_refused(make_older(world, paths[NVRTC_NEWEST], NULL, NULL), "13.5");
    /* A newer minor is none: a driver loads code of its own major. */
    smla_context_destroy(assert_served(make_older(world, paths[NVRTC_12_9], NULL, NULL)));
    load(NVRTC_13_0);
    assert_int_equal(rt_nvrtc_find(&set, gen_target_find("90"), 12, &found), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, "NVRTC 13.0", "API 12.8");
    rt_nvrtc_set_free(&set);
}

static void bundle_serves_an_older_driver(void **state)
{
    struct world *world = *state;
    char *folder = make_folder(), *older = path_in(folder, "older.smlab"), *newer = path_in(folder, "newer.smlab");
    const struct {
        const char *path;
        int nvrtc;
    } bundles[] = {{older, NVRTC_12_9}, {newer, NVRTC_13_0}};

    for (int i = 0; i < 2; i++) {
        size_t size;
        smla_context *builder = make_context(paths[bundles[i].nvrtc]);
        world->driver->version = 13000;
        uint8_t *bytes = smlab_of_context(assert_served(builder), 1, &size);
        write_file(bundles[i].path, bytes, size);
        free(bytes);
        smla_context_destroy(builder);
    }
    smla_context *served = assert_served(make_older(world, paths[NVRTC_13_0], NULL, older));
    assert_int_equal(stats_of(served).bundle_hits, 1);
    assert_int_equal(stats_of(served).compiles, 0);
    smla_context_destroy(served);
    /* The newer compiler's entry of the same kernel is not handed to this driver. */
    assert_refused(make_older(world, paths[NVRTC_13_0], NULL, newer), "13.0");
    free(older);
    free(newer);
    remove_folder(folder);
}

static void cache_serves_an_older_driver(void **state)
{
    struct world *world = *state;
    char *folder = make_folder();

    smla_context_destroy(assert_served(make_older(world, paths[NVRTC_12_8], folder, NULL)));
    smla_context *served = assert_served(make_older(world, paths[NVRTC_NEWEST], folder, NULL));
    assert_int_equal(stats_of(served).disk_hits, 1);
    assert_int_equal(stats_of(served).compiles, 0);
    smla_context_destroy(served);
    remove_folder(folder);
}

/* ---- A process each ---------------------------------------------------------------------------------------- */

static const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
    TEST(one_that_is_named_wins),
    TEST(one_in_the_process_wins),
    TEST(others_change_nothing),
    TEST(newest_found_wins),
    TEST(one_in_the_process_does_not_serve),
    TEST(newer_than_the_driver),
    TEST(bundle_serves_an_older_driver),
    TEST(cache_serves_an_older_driver),
};

static bool passes(const struct CMUnitTest *test)
{
    int status = 0;

    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        const struct CMUnitTest alone[] = {*test};
        exit(cmocka_run_group_tests_name(test->name, alone, NULL, NULL));
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(void)
{
    const char *list = getenv("SMLA_TEST_NVRTCS");
    int failed = 0, count = 0;
    char *rest, *copy = strdup(list ? list : "");

    for (char *path = strtok_r(copy, ":", &rest); path && count < NVRTC_COUNT; path = strtok_r(NULL, ":", &rest))
        snprintf(paths[count++], sizeof paths[0], "%s", path);
    free(copy);
    if (count != NVRTC_COUNT) {
        printf("SMLA_TEST_NVRTCS names %d NVRTCs instead of %d\n", count, NVRTC_COUNT);
        return 1;
    }
    unsetenv("SMLA_NVRTC");
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        failed += !passes(&tests[i]);
    return failed != 0;
}
