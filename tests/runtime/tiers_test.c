/* Where a kernel comes from: memory, bundles, the system folder, the user's cache, the compiler, in this order. With
 * another compiler than the one that built it, and with none. */
#include <sys/stat.h>
#include <unistd.h>

#include "tiers_place.h"

/* Prepares twice, and compares the counters: where the first came from; the second from memory. */
static void comes_from(struct place *place, const char *tier)
{
    const smla_kernel_desc kernel = prefill_desc();
    smla_context *context = NULL;

    assert_int_equal(smla_context_create(&place->desc, &context), SMLA_OK);
    if (tier == NULL) {
        smla_kernel *none = NULL;

        assert_int_equal(smla_prepare(context, &kernel, &none), SMLA_ERROR_NOT_CACHED);
        assert_error(SMLA_ERROR_NOT_CACHED, "smla-gen");
    } else {
        smla_kernel_destroy(must_prepare(context, &kernel));
        smla_kernel_destroy(must_prepare(context, &kernel));
    }
    const smla_stats_counters stats = stats_of(context);

    assert_int_equal(stats.bundle_hits, tier != NULL && strcmp(tier, "bundle") == 0);
    assert_int_equal(stats.system_hits, tier != NULL && strcmp(tier, "system") == 0);
    assert_int_equal(stats.disk_hits, tier != NULL && strcmp(tier, "cache") == 0);
    assert_int_equal(stats.compiles, tier != NULL && strcmp(tier, "compiler") == 0);
    assert_int_equal(stats.misses, tier == NULL || strcmp(tier, "compiler") == 0);
    assert_int_equal(stats.memory_hits, tier != NULL);
    smla_context_destroy(context);
}

static void test_O3_order(void **state)
{
    struct place *place = *state;

    comes_from(place, "bundle");
    place->desc.bundles = "";
    comes_from(place, "system");
    place_set_system_dir("");
    comes_from(place, "cache");
    place->desc.cache_policy = SMLA_CACHE_OFF;
    comes_from(place, NULL);
    assert_int_equal(place->lines.warnings, 0);
    assert_int_equal(place->world.nvrtc->calls(NULL), 0);
    place->desc.jit_policy = SMLA_JIT_ON;
    place->desc.nvrtc_path = STUB_NVRTC_PATH;
    comes_from(place, "compiler");
}

/* What a tier serves is not written into the one behind it, and none is asked that was not wanted. */
static void what_is_asked(void **state)
{
    struct place *place = *state;
    char *empty = path_in(place->folder, "empty");

    place->desc.cache_dir = empty;
    comes_from(place, "bundle");
    assert_int_equal(rmdir(empty), 0);
    place->desc.cache_policy = SMLA_CACHE_OFF;
    comes_from(place, "bundle");
    place->desc.bundles = NULL;
    comes_from(place, NULL); /* not from the system folder either */
    place->desc.bundles = place->bundle;
    place->desc.flags = SMLA_CONTEXT_OWN_CACHE;
    comes_from(place, NULL);
    place->desc.cache_policy = SMLA_CACHE_RW;
    place->desc.cache_dir = place->cache;
    comes_from(place, "cache");
    assert_int_equal(place->lines.warnings, 0);
    free(empty);
}

/* facts/jit.md §2 #19, where no compiler is asked. */
static void test_19_built_by_a_newer_major(void **state)
{
    static const char *const places[] = {"newer.smlab", "newer system", "newer cache"};
    struct place *place = *state;
    struct stub_nvrtc *nvrtc = place->world.nvrtc;
    const smla_kernel_desc kernel = prefill_desc();
    smla_context_desc desc = place->desc;

    nvrtc->major = 13;
    nvrtc->minor = 2;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char *path = path_in(place->folder, places[i]), *empty = path_in(place->folder, "empty");
        smla_context *context = NULL;
        smla_kernel *none = NULL;

        desc = place->desc;
        desc.bundles = i == 0 ? path : "";
        desc.cache_dir = i == 2 ? path : empty;
        place_set_system_dir(i == 1 ? path : "");
        place->world.driver->version = 13000;
        if (i == 0)
            place_write_bundle(path);
        else
            place_fill_folder(path);
        place->world.driver->version = 12080;
        for (int sealed = 0; sealed < 2; sealed++) {
            desc.jit_policy = sealed ? SMLA_JIT_SEALED : SMLA_JIT_OFF;
            assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
            assert_int_equal(smla_prepare(context, &kernel, &none), SMLA_ERROR_NOT_CACHED);
            assert_error(SMLA_ERROR_NOT_CACHED, "built by NVRTC 13.2", "API 12.8");
            assert_error(SMLA_ERROR_NOT_CACHED, "an NVRTC of major 12: smla-gen", "-o kernel.smlab");
            assert_null(strstr(last_error().message, "--cache"));
            smla_context_destroy(context);
        }
        free(empty);
        free(path);
    }
}

/* The variable, where the description says nothing: also that of a caller who knows no bundles. */
static void variable(void **state)
{
    struct place *place = *state;
    const smla_context_desc full = place->desc;
    smla_context *context = NULL;

    place_set_system_dir("");
    place->desc.bundles = NULL;
    comes_from(place, "cache");
    setenv("SMLA_BUNDLE", place->bundle, 1);
    comes_from(place, "bundle");
    place->desc.bundles = "";
    comes_from(place, "cache");
    smla_context_desc *older = older_struct(&full, offsetof(smla_context_desc, bundles));
    const smla_kernel_desc kernel = prefill_desc();

    assert_int_equal(smla_context_create(older, &context), SMLA_OK);
    smla_kernel_destroy(must_prepare(context, &kernel));
    assert_int_equal(stats_of(context).bundle_hits, 1);
    smla_context_destroy(context);
    free(older);
}

/* A list in which most cannot be used: each is told once, and the last one serves (facts/jit.md §2 #43, #54). */
static void test_54_list_of_bundles(void **state)
{
    struct place *place = *state;
    char *damaged = path_in(place->folder, "damaged.smlab"), *open = path_in(place->folder, "open.smlab");
    char *list = NULL;
    smla_context *context = NULL;
    const smla_kernel_desc kernel = prefill_desc();

    write_file(damaged, "no bundle", 9);
    place_write_bundle(open);
    assert_int_equal(chmod(open, 0666), 0);
    assert_true(asprintf(&list, ":/nonexistent/b.smlab::%s:%s:%s:", damaged, open, place->bundle) > 0);
    place->desc.bundles = list;
    assert_int_equal(smla_context_create(&place->desc, &context), SMLA_OK);
    assert_int_equal(place->lines.warnings, 3);
    assert_non_null(strstr(place->lines.last, "open.smlab is not used: others than its owner can write to it"));
    smla_kernel_destroy(must_prepare(context, &kernel));
    const smla_stats_counters stats = stats_of(context);

    assert_int_equal(stats.bundle_hits, 1);
    assert_int_equal(stats.entries_damaged, 1);
    assert_int_equal(stats.cache_errors, 2);
    assert_int_equal(place->lines.warnings, 3);
    smla_context_destroy(context);
    free(damaged);
    free(open);
    free(list);
}

/* By NVRTC 12.8, 12.9 and 13.0: the newest that the driver loads, though another compiler is here or none
 * (facts/jit.md §2 #19). */
static void test_O3_other_builders(void **state)
{
    static const int versions[][2] = {{12, 8}, {13, 0}, {12, 9}};
    struct place *place = *state;
    const smla_kernel_desc kernel = prefill_desc();
    char *paths[3], *list = NULL;

    place->world.driver->version = 13000;
    for (int i = 0; i < 3; i++) {
        char name[16];

        place->world.nvrtc->major = versions[i][0];
        place->world.nvrtc->minor = versions[i][1];
        snprintf(name, sizeof name, "%d.smlab", i);
        paths[i] = path_in(place->folder, name);
        place_write_bundle(paths[i]);
    }
    place_set_system_dir("");
    place->desc.cache_policy = SMLA_CACHE_OFF;
    place->world.driver->version = 12090;
    place->desc.bundles = paths[1];
    comes_from(place, NULL);
    assert_true(asprintf(&list, "%s:%s", paths[1], paths[0]) > 0);
    place->desc.bundles = list;
    comes_from(place, "bundle");
    place->world.driver->version = 13000;
    place->desc.bundles = paths[1];
    comes_from(place, "bundle");
    /* A compiler that is here, and another version, changes nothing. */
    smla_context *context = NULL;

    place->world.nvrtc->major = 12;
    place->world.nvrtc->minor = 9;
    place->desc.jit_policy = SMLA_JIT_ON;
    place->desc.nvrtc_path = STUB_NVRTC_PATH;
    assert_int_equal(smla_context_create(&place->desc, &context), SMLA_OK);
    smla_kernel_destroy(must_prepare(context, &kernel));
    assert_int_equal(stats_of(context).bundle_hits, 1);
    assert_int_equal(stats_of(context).compiles, 0);
    smla_context_destroy(context);
    for (int i = 0; i < 3; i++)
        free(paths[i]);
    free(list);
}

/* The system folder: not there is fine; what others can change is told and not read (facts/jit.md §2 #52). */
static void system_folder(void **state)
{
    struct place *place = *state;

    place->desc.bundles = "";
    place_set_system_dir("/nonexistent/kernels");
    comes_from(place, "cache");
    assert_int_equal(place->lines.warnings, 0);
    place_set_system_dir(place->system);
    assert_int_equal(chmod(place->system, 0777), 0);
    comes_from(place, "cache");
    assert_int_equal(place->lines.warnings, 1);
    assert_non_null(strstr(place->lines.last, "is not used: others than its owner can write to it (mode 0777)"));
    assert_int_equal(chmod(place->system, 0755), 0);
    comes_from(place, "system");
    assert_int_equal(place->lines.warnings, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_O3_order, place_setup, place_teardown),
        cmocka_unit_test_setup_teardown(what_is_asked, place_setup, place_teardown),
        cmocka_unit_test_setup_teardown(variable, place_setup, place_teardown),
        cmocka_unit_test_setup_teardown(test_54_list_of_bundles, place_setup, place_teardown),
        cmocka_unit_test_setup_teardown(test_19_built_by_a_newer_major, place_setup, place_teardown),
        cmocka_unit_test_setup_teardown(test_O3_other_builders, place_setup, place_teardown),
        cmocka_unit_test_setup_teardown(system_folder, place_setup, place_teardown),
    };
    return cmocka_run_group_tests_name("runtime.tiers", tests, NULL, NULL);
}
