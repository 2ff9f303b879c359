/* Which NVRTC, what it is asked, and what happens when it cannot: on the stub NVRTC. */
#include <dlfcn.h>
#include <unistd.h>

#include "harness.h"
#include "nvrtc_table.h"

static const struct gen_target *target(const char *name)
{
    const struct gen_target *found = gen_target_find(name);

    assert_non_null(found);
    return found;
}

static int32_t ignore_bytes(void *user, const void *bytes, size_t size)
{
    (void)user;
    (void)bytes;
    return size == 0;
}

static smla_status generate_cubin(smla_context *context, const char *target_name)
{
    smla_kernel_desc desc = reference_desc();

    desc.target = target_name;
    return smla_generate(context, &desc, SMLA_EMIT_CUBIN, ignore_bytes, NULL);
}

/* The names of the headers that the generator puts beside the kernel, joined by blanks. */
static void header_names(char *text, size_t capacity)
{
    const smla_kernel_desc desc = reference_desc();
    struct gen_refusal refusal;
    struct gen_bundle bundle;
    size_t size = 0;

    assert_int_equal(gen_bundle_make(&desc, target("90"), &bundle, &refusal), SMLA_OK);
    for (int32_t i = 1; i < bundle.file_count; i++)
        size += (size_t)snprintf(text + size, capacity - size, "%s%s", i > 1 ? " " : "", bundle.files[i].name);
    gen_bundle_free(&bundle);
}

static void asks_exactly_this(void **state)
{
    struct world *world = *state;
    char names[512], expected[2048];

    header_names(names, sizeof names);
    snprintf(expected, sizeof expected,
             "nvrtcVersion()\n"
             "nvrtcGetNumSupportedArchs()\n"
             "nvrtcGetSupportedArchs()\n"
             "nvrtcCreateProgram(empty, smla_nothing.cu, [])\n"
             "nvrtcCompileProgram(-modify-stack-limit=false --no-cache)\n"
             "nvrtcGetPTXSize()\n"
             "nvrtcGetPTX()\n"
             "nvrtcCreateProgram(source, /smla/prefill_reference.cu, [%s])\n"
             "nvrtcCompileProgram(--gpu-architecture=sm_90a --std=c++17 -default-device "
             "-modify-stack-limit=false -no-source-include --ptxas-options=-v --no-cache)\n"
             "nvrtcGetProgramLogSize()\n"
             "nvrtcGetProgramLog()\n"
             "nvrtcGetCUBINSize()\n"
             "nvrtcGetCUBIN()\n",
             names);
    world_serve_reference(world);
    assert_int_equal(generate_cubin(world->context, "90"), SMLA_OK);
    assert_string_equal(world->nvrtc->log(), expected);
    assert_int_equal(world->driver->calls(NULL), 0); /* no driver is opened for it */
}

static void older_nvrtc_gets_no_unknown_option(void **state)
{
    struct world *world = *state;

    world_serve_reference(world);
    world->nvrtc->minor = 8;
    assert_int_equal(generate_cubin(world->context, "90"), SMLA_OK);
    assert_null(strstr(world->nvrtc->log(), "--no-cache"));
}

static void test_K4_23_family_target_needs_12_9(void **state)
{
    struct world *world = *state;

    world_serve_reference(world);
    world->nvrtc->minor = 8;
    world->nvrtc->arch_count = 3; /* 80 90 100 */
    assert_int_equal(generate_cubin(world->context, "100f"), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, "target 100f (sm_100f) needs NVRTC 12.9", "is 12.8", "sm_ 80 90 100",
                 "builds 90a, 100a:", "libnvrtc_stub.so", "SMLA_NVRTC");
    assert_int_equal(generate_cubin(world->context, "103"), SMLA_ERROR_UNAVAILABLE);
    assert_int_equal(generate_cubin(world->context, "100a"), SMLA_OK);
    assert_int_equal(world->nvrtc->compiles, 1);
}

static void target_dropped_by_a_newer_nvrtc(void **state)
{
    struct world *world = *state;

    world->nvrtc->major = 14;
    world->nvrtc->arch_count = 1;
    world->nvrtc->archs[0] = 120;
    assert_int_equal(generate_cubin(world->context, "90"), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, "target 90a", "none of them");
}

static void test_J10_19_newer_major_than_the_driver(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    smla_kernel *kernel = NULL;

    world->nvrtc->major = 13;
    world->nvrtc->minor = 0;
    assert_int_equal(smla_prepare(world->context, &desc, &kernel), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, "NVRTC 13.0", "driver (API 12.8)", "NVRTC of major 12", "smla-gen");
    world->driver->version = 13000;
}

static void given_path_is_never_passed_over(void **state)
{
    smla_context_desc desc = stub_context_desc();
    smla_context *context = NULL;

    (void)state;
    desc.nvrtc_path = "/nonexistent/libnvrtc.so.13";
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
    assert_int_equal(generate_cubin(context, "90"), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, "/nonexistent/libnvrtc.so.13");
    assert_string_equal(last_error().path, "/nonexistent/libnvrtc.so.13");
    smla_context_destroy(context);
    desc.nvrtc_path = STUB_DRIVER_PATH; /* a library, but no NVRTC */
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
    assert_int_equal(generate_cubin(context, "90"), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, "has no nvrtcVersion");
    smla_context_destroy(context);
}

static void test_O4_nothing_found_says_what_was_tried(void **state)
{
    static const char *const sonames[] = {"libnvrtc_none.so.13", "libnvrtc_none.so.12", NULL};
    const struct rt_nvrtc_places places = {sonames, "/nonexistent/cuda*/libnvrtc.so.1?"};
    struct rt_nvrtc_set set = {.places = &places};
    const struct rt_nvrtc *found = NULL;

    (void)state;
    assert_int_equal(rt_nvrtc_find(&set, target("90"), 0, &found), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, "libnvrtc_none.so.13", "libnvrtc_none.so.12", "/nonexistent/cuda*",
                 "SMLA_NVRTC");
    assert_null(found);
    rt_nvrtc_set_free(&set);
}

/* The first program that a compiler gets shows whether it has what it needs. */
static void test_22_missing_builtins_are_told(void **state)
{
    struct world *world = *state;

    world->nvrtc->script =
        (struct stub_script){.fail_name = "nvrtcCompileProgram", .fail_call = 1, .fail_code = 7, .again = 1};
    assert_int_equal(generate_cubin(world->context, "90"), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, "cannot compile an empty program", "libnvrtc-builtins.so.12.9 beside it",
                 "LD_LIBRARY_PATH");
    assert_non_null(strstr(last_error().path, "libnvrtc_stub.so"));
    assert_int_equal(world->nvrtc->calls("nvrtcGetProgramLog"), 1);
}

static void found_and_of_no_use(void **state)
{
    struct world *world = *state;
    static const char *const sonames[] = {"libnvrtc_none.so.13", STUB_NVRTC_PATH, NULL};
    const struct rt_nvrtc_places places = {sonames, "/nonexistent/cuda*/libnvrtc.so.1?"};
    struct rt_nvrtc_set set = {.places = &places};
    const struct rt_nvrtc *found = NULL;

    world->nvrtc->script =
        (struct stub_script){.fail_name = "nvrtcGetSupportedArchs", .fail_call = 1, .fail_code = 7, .again = 1};
    assert_int_equal(rt_nvrtc_find(&set, target("90"), 0, &found), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, "libnvrtc_none.so.13", "libnvrtc_stub.so", "nvrtcGetSupportedArchs failed",
                 "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE");
    assert_int_equal(last_error().native_code, 7);
    assert_null(found);
}

static void one_in_the_process_wins(void **state)
{
    struct world *world = *state; /* has opened the stub, so it is in the process */
    static const char *const sonames[] = {"libnvrtc_none.so.13", STUB_NVRTC_PATH, NULL};
    const struct rt_nvrtc_places places = {sonames, "/usr/local/cuda*/lib64/libnvrtc.so.1[2-9]"};
    struct rt_nvrtc_set set = {.places = &places};
    const struct rt_nvrtc *found = NULL;

    assert_int_equal(rt_nvrtc_find(&set, target("90"), 0, &found), SMLA_OK);
    assert_non_null(strstr(found->path, "libnvrtc_stub.so"));
    assert_int_equal(found->builder.nvrtc_major, 12);
    assert_int_equal(found->builder.nvrtc_minor, 9);
    world->nvrtc->clear_log();
    assert_int_equal(rt_nvrtc_find(&set, target("100f"), 12, &found), SMLA_OK);
    assert_string_equal(world->nvrtc->log(), ""); /* kept open */
    rt_nvrtc_set_free(&set);
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

/* A copy of the stub: another library, with a script of its own. */
static struct stub_nvrtc *copy_stub(const char *folder, const char *name, int major, int minor)
{
    char path[600];
    struct stub_nvrtc *(*get)(void);

    snprintf(path, sizeof path, "%s/%s", folder, name);
    copy_file(STUB_NVRTC_PATH, path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *address = dlsym(library, "stub_nvrtc");
    memcpy(&get, &address, sizeof get);
    struct stub_nvrtc *stub = get();
    stub->major = major;
    stub->minor = minor;
    return stub;
}

static void must_find(const struct rt_nvrtc_places *places, const char *name, int32_t max_major, const char *path_end)
{
    struct rt_nvrtc_set set = {.places = places};
    const struct rt_nvrtc *found = NULL;

    assert_int_equal(rt_nvrtc_find(&set, target(name), max_major, &found), SMLA_OK);
    assert_non_null(strstr(found->path, path_end));
    rt_nvrtc_set_free(&set);
}

static void newest_found_wins(void **state)
{
    static const char *const none[] = {NULL};
    char *folder = make_folder();
    char pattern[600];
    const struct rt_nvrtc_places places = {none, pattern};
    struct rt_nvrtc_set set = {.places = &places};
    const struct rt_nvrtc *found = NULL;

    (void)state;
    snprintf(pattern, sizeof pattern, "%s/libnvrtc.so.1[2-9]", folder);
    copy_stub(folder, "libnvrtc.so.12", 12, 8);
    struct stub_nvrtc *newer = copy_stub(folder, "libnvrtc.so.13", 13, 0);
    must_find(&places, "90", 0, "libnvrtc.so.13");
    must_find(&places, "90", 12, "libnvrtc.so.12");
    newer->minor = 2;
    must_find(&places, "100f", 0, "libnvrtc.so.13");
    newer->arch_count = 1; /* it has dropped what the older one knows */
    must_find(&places, "90", 0, "libnvrtc.so.12");
    assert_int_equal(rt_nvrtc_find(&set, target("100f"), 12, &found), SMLA_ERROR_UNAVAILABLE);
    assert_null(found);
    rt_nvrtc_set_free(&set);
    remove_folder(folder);
}

static void test_24_compile_error_has_the_log(void **state)
{
    struct world *world = *state;

    world_serve_reference(world);
    world->nvrtc->compile_result = 6;
    world->nvrtc->compile_log = "prefill_reference.cu(12): error: identifier \"x\" is undefined\n";
    assert_int_equal(generate_cubin(world->context, "90"), SMLA_ERROR_COMPILE);
    assert_error(SMLA_ERROR_COMPILE, "NVRTC 12.9", "prefill_reference.cu", "h_q=64 d_qk=512", "target=90a",
                 "--gpu-architecture=sm_90a", "NVRTC_ERROR_COMPILATION");
    assert_string_equal(last_error().log, world->nvrtc->compile_log);
    assert_int_equal(last_error().native_code, 6);
    /* For good: the same source gives the same error, and is not compiled again. */
    world->nvrtc->compile_result = 0;
    assert_int_equal(generate_cubin(world->context, "90"), SMLA_ERROR_COMPILE);
    assert_string_equal(last_error().log, world->nvrtc->compile_log);
    assert_int_equal(world->nvrtc->compiles, 1);
    assert_int_equal(stats_of(world->context).compile_failures, 1);
}

/* For the process: another context has the same answer, of the same compiler. */
static void compile_error_is_for_every_context(void **state)
{
    struct world *world = *state;
    const smla_context_desc desc = stub_context_desc();
    smla_context *second = NULL;

    world_serve_reference(world);
    world->nvrtc->compile_result = 6;
    world->nvrtc->compile_log = "prefill_reference.cu(12): error\n";
    assert_int_equal(generate_cubin(world->context, "90"), SMLA_ERROR_COMPILE);
    world->nvrtc->compile_result = 0;
    assert_int_equal(smla_context_create(&desc, &second), SMLA_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(generate_cubin(second, "90"), SMLA_ERROR_COMPILE);
        assert_error(SMLA_ERROR_COMPILE, "NVRTC_ERROR_COMPILATION");
        assert_string_equal(last_error().log, "prefill_reference.cu(12): error\n");
        assert_int_equal(last_error().native_code, 6);
    }
    assert_int_equal(world->nvrtc->compiles, 1);
    assert_int_equal(stats_of(second).compiles, 0);
    assert_int_equal(stats_of(second).compile_failures, 0);
    assert_int_equal(stats_of(second).remembered_failures, 2);
    smla_context_destroy(second);
    /* Another compiler is asked. */
    world->nvrtc->minor = 8;
    assert_int_equal(smla_context_create(&desc, &second), SMLA_OK);
    assert_int_equal(generate_cubin(second, "90"), SMLA_OK);
    assert_int_equal(world->nvrtc->compiles, 2);
    smla_context_destroy(second);
}

static void passing_failure_is_tried_again(void **state)
{
    struct world *world = *state;

    world_serve_reference(world);
    world->nvrtc->compile_result = 7;
    assert_int_equal(generate_cubin(world->context, "90"), SMLA_ERROR_UNAVAILABLE);
    world->nvrtc->compile_result = 1;
    assert_int_equal(generate_cubin(world->context, "90"), SMLA_ERROR_OUT_OF_MEMORY);
    world->nvrtc->compile_result = 0;
    assert_int_equal(generate_cubin(world->context, "90"), SMLA_OK);
    assert_int_equal(world->nvrtc->compiles, 3);
}

/* Installed meanwhile, perhaps. */
static void no_compiler_is_looked_for_again(void **state)
{
    struct world *world = *state;
    char *folder = make_folder();
    char path[600];
    smla_context_desc desc = stub_context_desc();
    smla_context *context = NULL;

    world_serve_reference(world);
    snprintf(path, sizeof path, "%s/libnvrtc.so", folder);
    desc.nvrtc_path = path;
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
    assert_int_equal(generate_cubin(context, "90"), SMLA_ERROR_UNAVAILABLE);
    assert_int_equal(symlink(STUB_NVRTC_PATH, path), 0);
    assert_int_equal(generate_cubin(context, "90"), SMLA_OK);
    assert_int_equal(stats_of(context).remembered_failures, 0);
    smla_context_destroy(context);
    remove_folder(folder);
}

static void test_24_results_are_checked(void **state)
{
    struct world *world = *state;

    world_serve_reference(world);
    world->nvrtc->empty_result = true;
    assert_int_equal(generate_cubin(world->context, "90"), SMLA_ERROR_COMPILE);
    assert_error(SMLA_ERROR_COMPILE, "empty");
    world->nvrtc->empty_result = false;
    world->nvrtc->arch = "sm_80";
    assert_int_equal(generate_cubin(world->context, "90"), SMLA_ERROR_COMPILE);
    assert_error(SMLA_ERROR_COMPILE, "sm_80", "sm_90a");
    world->nvrtc->arch = NULL;
    world->nvrtc->entry = "another_kernel";
    assert_int_equal(generate_cubin(world->context, "90"), SMLA_ERROR_COMPILE);
    assert_error(SMLA_ERROR_COMPILE, "smla_prefill_reference");
    world_serve_reference(world);
    assert_int_equal(generate_cubin(world->context, "90"), SMLA_OK);
}

static void switched_off_compiler_tells_the_command(void **state)
{
    static const smla_kv_layout layout = {.struct_size = sizeof layout,
                                          .value_type = SMLA_VALUE_E2M1,
                                          .value_elems = 384,
                                          .scale_type = SMLA_SCALE_FP32,
                                          .scale_group = 128,
                                          .tail_elems = 128,
                                          .place = SMLA_PLACE_PAGE};
    struct world *world = *state;
    smla_context_desc desc = stub_context_desc();
    smla_kernel_desc kernel_desc = prefill_desc();
    smla_context *context = NULL;
    smla_kernel *kernel = NULL;
    char *folder = make_folder();
    char variable[600];

    kernel_desc.flags = 0;
    desc.jit_policy = SMLA_JIT_OFF;
    desc.cache_policy = SMLA_CACHE_RW;
    desc.cache_dir = folder;
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
    assert_int_equal(smla_prepare(context, &kernel_desc, &kernel), SMLA_ERROR_NOT_CACHED);
    snprintf(variable, sizeof variable, " --emit cubin -o kernel.cubin --cache '%s'", folder);
    assert_error(SMLA_ERROR_NOT_CACHED, variable,
                 "smla-gen --sm 90a --op prefill --h-q 64 --d-qk 512 --d-v 512 --kv-format bf16 --emit cubin -o ");
    /* A layout of no preset has no option: it goes through a file. */
    kernel_desc.kv_layout = &layout;
    kernel_desc.extra_kv_format = "v4";
    assert_int_equal(smla_prepare(context, &kernel_desc, &kernel), SMLA_ERROR_NOT_CACHED);
    assert_error(
        SMLA_ERROR_NOT_CACHED,
        "echo '[{\"op\":\"prefill\",\"h_q\":64,\"d_qk\":512,\"d_v\":512,\"kv_layout\":{\"value_type\":\"e2m1\","
        "\"value_elems\":384,\"scale_type\":\"fp32\",\"scale_group\":128,\"scale_bytes\":12,\"tail_elems\":128,"
        "\"place\":\"page\"},\"extra_kv_format\":\"v4\"}]' >kernel.json && ",
        "smla-gen --sm 90a --from kernel.json --emit cubin -o kernel.cubin");
    assert_int_equal(stats_of(context).refused_compiles, 2);
    assert_int_equal(stats_of(context).compiles, 0);
    smla_context_destroy(context);
    remove_folder(folder);
    assert_int_equal(world->nvrtc->calls(NULL), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(asks_exactly_this),
        TEST(older_nvrtc_gets_no_unknown_option),
        TEST(test_K4_23_family_target_needs_12_9),
        TEST(target_dropped_by_a_newer_nvrtc),
        TEST(test_J10_19_newer_major_than_the_driver),
        TEST(given_path_is_never_passed_over),
        TEST(test_O4_nothing_found_says_what_was_tried),
        TEST(test_22_missing_builtins_are_told),
        TEST(found_and_of_no_use),
        TEST(one_in_the_process_wins),
        TEST(newest_found_wins),
        TEST(test_24_compile_error_has_the_log),
        TEST(compile_error_is_for_every_context),
        TEST(passing_failure_is_tried_again),
        TEST(no_compiler_is_looked_for_again),
        TEST(test_24_results_are_checked),
        TEST(switched_off_compiler_tells_the_command),
    };
    return cmocka_run_group_tests_name("runtime.nvrtc", tests, NULL, NULL);
}
