/* Scenario 18, second half (facts/jit.md §2 #18): an entry that is whole, and that the driver does not load, is a miss.
 * It is made again where compiling is on, once, stands in the cache folder instead of the other, and is counted and
 * told; where compiling is off the error says which file, what the driver said, and what builds the kernel. */
#include <glob.h>
#include <pthread.h>
#include <unistd.h>

#include "tiers_place.h"

enum { BUNDLE, SYSTEM, CACHE, TIERS };
enum { THREADS = 8 };

static const uint32_t tier_numbers[TIERS] = {SMLA_TIER_BUNDLE, SMLA_TIER_SYSTEM, SMLA_TIER_CACHE};

/* Leaves one tier its kernel. The cache folder stays, empty, so that what is made can be written. */
static void only(struct place *place, int tier)
{
    place->desc.bundles = tier == BUNDLE ? place->bundle : "";
    place_set_system_dir(tier == SYSTEM ? place->system : "");
    place->desc.cache_dir = tier == CACHE ? place->cache : path_in(place->folder, "empty");
}

static void leave(const struct place *place, int tier)
{
    if (tier != CACHE)
        free((char *)(uintptr_t)place->desc.cache_dir);
}

/* Milliseconds, which the entry tells: it is another than those that the place has. */
static void compiling(struct place *place)
{
    place->world.nvrtc->script.delay_us = 3000;
    place->desc.jit_policy = SMLA_JIT_ON;
    place->desc.nvrtc_path = STUB_NVRTC_PATH;
}

static smla_context *open_context(const struct place *place)
{
    smla_context *context = NULL;

    assert_int_equal(smla_context_create(&place->desc, &context), SMLA_OK);
    return context;
}

static void must_prepare_here(smla_context *context)
{
    const smla_kernel_desc desc = prefill_desc();

    smla_kernel_destroy(must_prepare(context, &desc));
}

static smla_status fail_to_prepare(smla_context *context)
{
    const smla_kernel_desc desc = prefill_desc();
    smla_kernel *kernel = NULL;
    const smla_status status = smla_prepare(context, &desc, &kernel);

    assert_null(kernel);
    return status;
}

static uint64_t hits_of(const smla_stats_counters *stats, int tier)
{
    return tier == BUNDLE ? stats->bundle_hits : tier == SYSTEM ? stats->system_hits : stats->disk_hits;
}

/* The call that tells it first, of each, with each of the codes. */
static void refuse_first(const struct place *place, const char *call, int code)
{
    place->world.driver->clear_log();
    place->world.driver->script = (struct stub_script){.fail_name = call, .fail_call = 1, .fail_code = code};
}

static size_t count_entries(const char *dir)
{
    char pattern[600];
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s/v1/*/*.smk", dir);
    const size_t count = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return count;
}

/* A first process makes it again; what a second one finds afterwards. */
static void made_again(struct place *place, int tier, const char *call, int code)
{
    smla_event event;

    only(place, tier);
    place->lines.warnings = 0;
    refuse_first(place, call, code);
    smla_context *context = open_context(place);
    must_prepare_here(context);
    must_prepare_here(context);
    smla_stats_counters stats = stats_of(context);

    assert_int_equal(hits_of(&stats, tier), 1);
    assert_int_equal(stats.entries_refused, 1);
    assert_int_equal(stats.entries_damaged, 0);
    assert_int_equal(stats.misses, 1);
    assert_int_equal(stats.compiles, 1);
    assert_int_equal(stats.memory_hits, 1);
    assert_int_equal(stats.entries_written, 1);
    assert_int_equal(events_of(context, SMLA_EVENT_ENTRY_REFUSED, &event), 1);
    assert_int_equal(event.tier, tier_numbers[tier]);
    assert_int_equal(event.status, SMLA_ERROR_DRIVER);
    assert_non_null(strstr(event.kernel, "prefill h_q=64"));
    assert_int_equal(place->lines.warnings, 1);
    assert_non_null(strstr(place->lines.last, "is whole, and the driver does not load it"));
    assert_non_null(strstr(place->lines.last, call));
    assert_non_null(strstr(place->lines.last, place->folder));
    smla_context_destroy(context);
    assert_int_equal(count_entries(place->desc.cache_dir), 1);

    /* A bundle and a system folder keep theirs, and the cache folder behind them has another. */
    if (tier == CACHE)
        place->world.driver->script.fail_call = 0;
    place->world.driver->clear_log();
    context = open_context(place);
    must_prepare_here(context);
    stats = stats_of(context);
    assert_int_equal(stats.compiles, 0);
    assert_int_equal(stats.disk_hits, 1);
    assert_int_equal(stats.entries_refused, tier == CACHE ? 0 : 1);
    smla_context_destroy(context);
    leave(place, tier);
}

static void test_18_made_again(void **state)
{
    static const struct {
        const char *call;
        int code;
    } rows[] = {{"cuLibraryLoadData", 209},  {"cuLibraryLoadData", 200},  {"cuLibraryLoadData", 222},
                {"cuLibraryLoadData", 218},  {"cuLibraryGetKernel", 200}, {"cuLibraryGetKernel", 500},
                {"cuKernelGetFunction", 209}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int tier = BUNDLE; tier < TIERS; tier++) {
            void *place = NULL;

            (void)state;
            assert_int_equal(place_setup(&place), 0);
            compiling(place);
            made_again(place, tier, rows[i].call, rows[i].code);
            assert_int_equal(place_teardown(&place), 0);
        }
}

/* What the driver lacks at the time says nothing about the entry. */
static void other_failures(void **state)
{
    static const int codes[] = {2, 719, 900, 999};
    struct place *place = *state;

    compiling(place);
    only(place, CACHE);
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        smla_context *context = open_context(place);

        refuse_first(place, "cuLibraryLoadData", codes[i]);
        assert_int_equal(fail_to_prepare(context), SMLA_ERROR_DRIVER);
        must_prepare_here(context);
        assert_int_equal(stats_of(context).compiles, 0);
        assert_int_equal(stats_of(context).entries_refused, 0);
        smla_context_destroy(context);
    }
}

/* What the driver does not load by any compiler is made once, and no more. */
static void test_18_once(void **state)
{
    struct place *place = *state;

    compiling(place);
    only(place, CACHE);
    place->world.driver->script =
        (struct stub_script){.fail_name = "cuLibraryLoadData", .fail_call = 1, .fail_code = 209, .again = 1};
    smla_context *context = open_context(place);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fail_to_prepare(context), SMLA_ERROR_DRIVER);
        assert_error(SMLA_ERROR_DRIVER, "cuLibraryLoadData", "CUDA_ERROR_NO_BINARY_FOR_GPU");
    }
    assert_int_equal(stats_of(context).compiles, 1);
    assert_int_equal(stats_of(context).entries_refused, 1);
    place->world.driver->script.fail_call = 0;
    must_prepare_here(context);
    smla_context_destroy(context);
}

/* All tiers have an entry: each is tried before anything is compiled. */
static void test_18_the_next_tier(void **state)
{
    struct place *place = *state;

    compiling(place);
    place->desc.cache_dir = path_in(place->folder, "other");
    place_fill_folder(place->desc.cache_dir);
    place_set_system_dir(place->desc.cache_dir);
    refuse_first(place, "cuLibraryLoadData", 209);
    smla_context *context = open_context(place);
    must_prepare_here(context);
    smla_stats_counters stats = stats_of(context);

    assert_int_equal(stats.bundle_hits, 1);
    assert_int_equal(stats.system_hits, 1);
    assert_int_equal(stats.entries_refused, 1);
    assert_int_equal(stats.compiles, 0);
    smla_context_destroy(context);
    free((char *)(uintptr_t)place->desc.cache_dir);
}

/* By another compiler: in the folder its entry stands instead of the one that is refused, unless it is only read. */
static void test_18_another_compiler(void **state)
{
    struct place *place = *state;
    struct stub_nvrtc *nvrtc = place->world.nvrtc;

    compiling(place);
    only(place, CACHE);
    place->world.driver->refused_builder = STUB_BUILT_BY(nvrtc->major, nvrtc->minor);
    place->world.driver->refusal = 209;
    nvrtc->minor--;
    place->desc.cache_policy = SMLA_CACHE_RO;
    for (int i = 0; i < 3; i++) {
        smla_context *context = open_context(place);

        must_prepare_here(context);
        assert_int_equal(stats_of(context).entries_refused, i < 2);
        assert_int_equal(stats_of(context).compiles, i < 2);
        assert_int_equal(stats_of(context).entries_written, i == 1);
        assert_int_equal(count_entries(place->cache), 1);
        smla_context_destroy(context);
        place->desc.cache_policy = SMLA_CACHE_RW;
    }
}

static void test_18_without_compiling(void **state)
{
    struct place *place = *state;

    place->world.driver->script =
        (struct stub_script){.fail_name = "cuLibraryLoadData", .fail_call = 1, .fail_code = 209, .again = 1};
    for (int tier = BUNDLE; tier < TIERS; tier++)
        for (int policy = SMLA_JIT_OFF; policy <= SMLA_JIT_SEALED; policy++) {
            only(place, tier);
            place->desc.jit_policy = (uint32_t)policy;
            smla_context *context = open_context(place);

            for (int again = 0; again < 2; again++) {
                const char *file = tier == BUNDLE ? place->bundle : tier == SYSTEM ? place->system : place->cache;

                assert_int_equal(fail_to_prepare(context), SMLA_ERROR_NOT_CACHED);
                assert_error(SMLA_ERROR_NOT_CACHED, "in a form that the driver loads", "smla-gen --sm 90a", file,
                             "CUDA_ERROR_NO_BINARY_FOR_GPU", policy == SMLA_JIT_OFF ? "is off" : "is sealed");
                assert_int_equal(last_error().native_code, 209);
                assert_non_null(strstr(last_error().path, file));
                assert_int_equal(access(last_error().path, F_OK), 0);
                /* smla-gen would find it there. */
                assert_int_equal(strstr(last_error().message, "rm '") != NULL, tier == CACHE);
            }
            assert_int_equal(stats_of(context).entries_refused, 2);
            assert_int_equal(stats_of(context).refused_compiles, 2);
            smla_context_destroy(context);
            leave(place, tier);
        }
}

/* A compiler that is not to be had: the error tells both. */
static void without_a_compiler(void **state)
{
    struct place *place = *state;

    only(place, BUNDLE);
    place->desc.jit_policy = SMLA_JIT_ON;
    refuse_first(place, "cuLibraryLoadData", 209);
    smla_context *context = open_context(place);
    assert_int_equal(fail_to_prepare(context), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, "/nonexistent/libnvrtc.so", "The driver does not load", place->bundle,
                 "CUDA_ERROR_NO_BINARY_FOR_GPU");
    must_prepare_here(context); /* the driver takes it after all */
    smla_context_destroy(context);
    leave(place, BUNDLE);
}

/* With a limit, too, where another thread compiles. */
static void with_a_limit(void **state)
{
    struct place *place = *state;

    compiling(place);
    place->desc.compile_limit_ms = 60000;
    made_again(place, CACHE, "cuLibraryLoadData", 209);
}

static void *prepare_in_thread(void *user)
{
    const smla_kernel_desc desc = prefill_desc();
    smla_kernel *kernel = NULL;
    struct place *place = user;

    place->world.driver->set_current(TEST_CONTEXT);
    if (smla_prepare(place->world.context, &desc, &kernel) != SMLA_OK)
        return place;
    smla_kernel_destroy(kernel);
    return NULL;
}

/* Threads that find it refused at once share what is made instead. */
static void test_18_threads(void **state)
{
    struct place *place = *state;
    struct stub_nvrtc *nvrtc = place->world.nvrtc;
    pthread_t threads[THREADS];
    void *failed;

    compiling(place);
    place->world.driver->refused_builder = STUB_BUILT_BY(nvrtc->major, nvrtc->minor);
    place->world.driver->refusal = 209;
    place->world.driver->script.delay_us = nvrtc->script.delay_us = 2000;
    nvrtc->minor--;
    place->world.context = open_context(place);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, prepare_in_thread, place), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(stats_of(place->world.context).compiles, 1);
    assert_int_equal(stats_of(place->world.context).kernels_loaded, 1);
    smla_context_destroy(place->world.context);
}

/* A companion is an entry of its own. */
static void test_18_companion(void **state)
{
    struct place *place = *state;
    const smla_kernel_desc desc = {
        .struct_size = sizeof desc, .op = SMLA_OP_DECODE, .h_q = 64, .d_qk = 512, .target = "90a"};
    smla_kernel *kernel = NULL;

    world_serve_all(&place->world);
    compiling(place);
    only(place, BUNDLE);
    for (int i = 0; i < 2; i++) { /* the second time both are found, and the second of them is refused */
        smla_context *context = open_context(place);

        if (i == 1) {
            place->world.driver->clear_log();
            place->world.driver->script =
                (struct stub_script){.fail_name = "cuLibraryLoadData", .fail_call = 2, .fail_code = 209};
        }
        assert_int_equal(smla_prepare(context, &desc, &kernel), SMLA_OK);
        smla_kernel_destroy(kernel);
        assert_int_equal(stats_of(context).compiles, i == 0 ? 2 : 1);
        assert_int_equal(stats_of(context).entries_refused, i);
        smla_context_destroy(context);
    }
    leave(place, BUNDLE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_18_made_again),
        TEST(other_failures),
        TEST(test_18_once),
        TEST(test_18_the_next_tier),
        TEST(test_18_another_compiler),
        TEST(test_18_without_compiling),
        TEST(without_a_compiler),
        TEST(with_a_limit),
        TEST(test_18_threads),
        TEST(test_18_companion),
    };
    return cmocka_run_group_tests_name("runtime.refused", tests, NULL, NULL);
}
