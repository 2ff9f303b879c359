/* A decode kernel and its companion on the stubs: both prepared, each failure of either, which call takes which, and a
 * workspace for both. */
#include <ftw.h>
#include <pthread.h>
#include <unistd.h>

#include "decode_params.h"
#include "harness.h"
#include "kernel.h"

#define DEVICE(type, address) ((type *)(uintptr_t)(address))

enum { SMS = 132 };

/* No thread is to be had while this is set. */
static bool no_threads;
static int threads_made;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *user);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *user)
{
    if (no_threads)
        return 11; /* EAGAIN */
    threads_made++;
    return __real_pthread_create(thread, attributes, start, user);
}

static int setup(void **state)
{
    if (world_setup(state) != 0)
        return -1;
    struct world *world = *state;
    world->nvrtc->entry = "smla_sm90_decode smla_sm90_decode_turned smla_decode_combine";
    world->driver->param_bytes = sizeof(struct smla_decode_params);
    world->driver->sm_count = SMS;
    no_threads = false;
    threads_made = 0;
    return 0;
}

static smla_kernel_desc decode_desc(int32_t h_q, const char *format, const char *extra)
{
    return (smla_kernel_desc){.struct_size = sizeof(smla_kernel_desc),
                              .op = SMLA_OP_DECODE,
                              .h_q = h_q,
                              .d_qk = 512,
                              .kv_format = format,
                              .extra_kv_format = extra};
}

static smla_decode_args args_of(int64_t b, int64_t s_q, int64_t topk, int64_t extra_topk)
{
    smla_decode_args args = {.struct_size = sizeof args,
                             .b = b,
                             .s_q = s_q,
                             .s_kv = 4096,
                             .topk = topk,
                             .sm_scale = 0.125f,
                             .query = DEVICE(void, 0x10000),
                             .kv = DEVICE(void, 0x20000),
                             .indices = DEVICE(int32_t, 0x30000),
                             .out = DEVICE(void, 0x60000),
                             .workspace = DEVICE(void, 0x100000),
                             .workspace_bytes = (uint64_t)1 << 40};
    if (extra_topk > 0) {
        args.kv_page_tokens = args.extra_kv_page_tokens = 64;
        args.extra_s_kv = 4096;
        args.extra_topk = extra_topk;
        args.extra_kv = DEVICE(void, 0x40000);
        args.extra_indices = DEVICE(int32_t, 0x50000);
    }
    return args;
}

/* Whether the last call launched that kernel first. */
static bool launched(const struct world *world, const smla_kernel *kernel)
{
    char text[64];

    snprintf(text, sizeof text, "function %llx,", (unsigned long long)(uintptr_t)kernel->functions[0]);
    const char *launch = strstr(world->driver->log(), "cuLaunchKernelEx(");
    assert_non_null(launch);
    const char *found = strstr(launch, text);
    return found != NULL && found < launch + strcspn(launch, "\n");
}

/* ---- Both are prepared ---- */

static void both_are_prepared(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = decode_desc(64, NULL, NULL);
    smla_support support = {.struct_size = sizeof support};

    assert_int_equal(smla_query_support(world->context, &desc, &support), SMLA_OK);
    assert_string_equal(support.companion, "sm90_decode_turned_h64_d512_tile16");
    assert_int_equal(strlen(support.companion_id), strlen(support.kernel_id));
    assert_string_not_equal(support.companion_id, support.kernel_id);
    for (int again = 0; again < 2; again++) {
        smla_kernel *kernel = must_prepare(world->context, &desc);
        assert_non_null(kernel->companion);
        assert_string_equal(kernel->companion->name, support.companion);
        assert_ptr_not_equal(kernel->companion->functions[0], kernel->functions[0]);
        assert_int_equal(world->nvrtc->compiles, 2);
        assert_int_equal(world->driver->live_libraries, 2);
        smla_kernel_destroy(kernel);
    }
    assert_int_equal(stats_of(world->context).compiles, 2);
    assert_int_equal(stats_of(world->context).memory_hits, 2);
    assert_int_equal(threads_made, 2);
}

/* Without a thread one after the other. */
static void no_thread_is_to_be_had(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = decode_desc(16, "v4", "v4");

    no_threads = true;
    smla_kernel *kernel = must_prepare(world->context, &desc);
    assert_string_equal(kernel->companion->name, "sm90_decode_turned_h16_d512_tile8_v4_v4");
    assert_int_equal(world->nvrtc->compiles, 2);
    smla_kernel_destroy(kernel);
}

static void who_has_none(void **state)
{
    struct world *world = *state;
    smla_kernel_desc desc = decode_desc(8, NULL, NULL);

    for (int i = 0; i < 2; i++) {
        smla_support support = {.struct_size = sizeof support};
        assert_int_equal(smla_query_support(world->context, &desc, &support), SMLA_OK);
        assert_string_equal(support.companion, "");
        assert_string_equal(support.companion_id, "");
        smla_kernel *kernel = must_prepare(world->context, &desc);
        assert_null(kernel->companion);
        smla_kernel_destroy(kernel);
        desc.h_q = 64;
        desc.batch_invariant = 1;
    }
    assert_int_equal(threads_made, 0);
}

/* ---- Failures ---- */

/* In a context of its own, in which afterwards all is well. */
static void must_fail_once(const struct world *world, struct stub_script *script, const struct stub_script *given,
                           smla_status expected)
{
    const smla_context_desc context_desc = stub_context_desc();
    const smla_kernel_desc desc = decode_desc(64, "v4", NULL), before = decode_desc(8, NULL, NULL);
    smla_context *context;
    smla_kernel *kernel = NULL;

    assert_int_equal(smla_context_create(&context_desc, &context), SMLA_OK);
    smla_kernel_destroy(must_prepare(context, &before)); /* driver and compiler are open */
    world->driver->clear_log();
    world->nvrtc->clear_log();
    *script = *given;
    const smla_status status = smla_prepare(context, &desc, &kernel);
    *script = (struct stub_script){0};
    assert_int_equal(status, expected);
    assert_error(expected, expected == SMLA_ERROR_DRIVER ? given->fail_name : "decode h_q=64");
    assert_null(kernel);
    kernel = must_prepare(context, &desc);
    assert_non_null(kernel->companion);
    smla_kernel_destroy(kernel);
    smla_context_destroy(context);
    assert_int_equal(world->driver->live_libraries, 0);
    assert_int_equal(world->nvrtc->live_programs, 0);
}

static void each_may_fail(void **state)
{
    struct world *world = *state;

    for (int n = 1; n <= 2; n++) {
        const struct stub_script load = {.fail_name = "cuLibraryLoadData", .fail_call = n, .fail_code = 2},
                                 resolve = {.fail_name = "cuLibraryGetKernel", .fail_call = 2 * n, .fail_code = 500},
                                 compile = {.fail_name = "nvrtcCompileProgram", .fail_call = n, .fail_code = 1};
        for (int threads = 0; threads < 2; threads++) {
            no_threads = !threads;
            must_fail_once(world, &world->driver->script, &load, SMLA_ERROR_DRIVER);
            must_fail_once(world, &world->driver->script, &resolve, SMLA_ERROR_DRIVER);
            must_fail_once(world, &world->nvrtc->script, &compile, SMLA_ERROR_OUT_OF_MEMORY);
        }
    }
}

/* The compiler refuses both: the kernel's failure is told. */
static void a_compile_error_is_told(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = decode_desc(64, NULL, NULL);
    smla_kernel *kernel = NULL;

    world->nvrtc->compile_result = 6;
    world->nvrtc->compile_log = "a log";
    assert_int_equal(smla_prepare(world->context, &desc, &kernel), SMLA_ERROR_COMPILE);
    assert_error(SMLA_ERROR_COMPILE, "decode h_q=64 d_qk=512 d_v=512 kv=bf16 target=90a");
    assert_string_equal(last_error().log, "a log");
    assert_null(kernel);
}

static const char *sought; /* in a file's path */

static int remove_found(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status, (void)at;
    return type == FTW_F && strstr(path, sought) ? unlink(path) : 0;
}

/* Removes an entry; which is named by its id but for two digits, which are a folder's name. */
static void remove_entry(const char *folder, const char *id)
{
    sought = id + 2;
    assert_int_equal(nftw(folder, remove_found, 8, FTW_PHYS), 0);
}

static int32_t take_text(void *user, const void *bytes, size_t size)
{
    snprintf(user, 4096, "%.*s", (int)size, (const char *)bytes);
    return 0;
}

/* A folder that smla_generate filled is enough to prepare from; without one of the two the other is not. */
static void a_folder_has_both(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = decode_desc(64, NULL, NULL);
    smla_support support = {.struct_size = sizeof support};
    smla_context_desc context_desc = stub_context_desc();
    char *folder = make_folder(), text[4096];
    smla_context *context;
    smla_kernel *kernel = NULL;

    assert_int_equal(smla_query_support(world->context, &desc, &support), SMLA_OK);
    for (int without = 0; without < 3; without++) {
        context_desc.cache_dir = folder;
        context_desc.cache_policy = SMLA_CACHE_RW;
        context_desc.jit_policy = SMLA_JIT_ON;
        assert_int_equal(smla_context_create(&context_desc, &context), SMLA_OK);
        assert_int_equal(smla_generate(context, &desc, SMLA_EMIT_CUBIN, take_text, text), SMLA_OK);
        smla_context_destroy(context);
        if (without > 0)
            remove_entry(folder, without == 1 ? support.kernel_id : support.companion_id);
        context_desc.jit_policy = SMLA_JIT_OFF;
        assert_int_equal(smla_context_create(&context_desc, &context), SMLA_OK);
        const smla_status expected = without ? SMLA_ERROR_NOT_CACHED : SMLA_OK;
        assert_int_equal(smla_prepare(context, &desc, &kernel), expected);
        assert_int_equal(smla_generate(context, &desc, SMLA_EMIT_CUBIN, take_text, text), expected);
        if (without > 0)
            assert_error(SMLA_ERROR_NOT_CACHED, without == 1 ? "kv=bf16 target" : "kv=bf16 tile_heads=16 target",
                         "smla-gen --sm 90a --op decode --h-q 64");
        smla_kernel_destroy(kernel);
        smla_context_destroy(context);
        kernel = NULL;
    }
    remove_folder(folder);
    assert_int_equal(threads_made, 0);
}

static void it_is_generated_alone(void **state)
{
    struct world *world = *state;
    smla_kernel_desc desc = decode_desc(40, NULL, NULL);
    char text[4096];

    assert_int_equal(smla_generate(world->context, &desc, SMLA_EMIT_PLAN | SMLA_EMIT_COMPANION, take_text, text),
                     SMLA_OK);
    assert_non_null(strstr(text, "sm90_decode_turned for sm_90a: h_q 40, in tiles of 16, "));
    assert_null(strstr(text, "companion"));
    assert_int_equal(smla_generate(world->context, &desc, SMLA_EMIT_CUBIN | SMLA_EMIT_COMPANION, take_text, text),
                     SMLA_OK);
    assert_int_equal(world->nvrtc->compiles, 1);
    assert_int_equal(smla_generate(world->context, &desc, SMLA_EMIT_CUBIN, take_text, text), SMLA_OK);
    assert_int_equal(world->nvrtc->compiles, 2); /* without a cache folder no more than what was asked for */
    assert_int_equal(smla_generate(world->context, &desc, SMLA_EMIT_COMPANION, take_text, text),
                     SMLA_ERROR_INVALID_ARGUMENT);
    desc.h_q = 8;
    assert_int_equal(smla_generate(world->context, &desc, SMLA_EMIT_PLAN | SMLA_EMIT_COMPANION, take_text, text),
                     SMLA_ERROR_UNSUPPORTED);
    assert_error(SMLA_ERROR_UNSUPPORTED, "sm90_decode_turned_h8_d512 has no companion");
}

/* ---- Calls ---- */

/* By sizes alone; a null length is no other call than one that is there. */
static void sizes_choose(void **state)
{
    static const struct {
        const char *format, *extra;
        int64_t b, s_q, topk, extra_topk;
        int32_t sm_limit;
        bool companion;
    } rows[] = {
        {"v4", "v4", 1, 2, 128, 512, 0, true},   {"v4", "v4", 2, 2, 128, 512, 0, true},
        {"v4", "v4", 3, 2, 128, 512, 0, false},  {"v4", "v4", 8, 2, 128, 512, 0, false},
        {"v4", "v4", 2, 2, 128, 512, 128, true}, {"v4", "v4", 2, 2, 128, 512, 127, false},
        {NULL, NULL, 1, 1, 640, 0, 0, true},     {NULL, NULL, 8, 1, 640, 0, 0, true},
        {NULL, NULL, 9, 1, 640, 0, 0, false},    {NULL, NULL, 1, 1, 640, 0, 15, false},
        {NULL, NULL, 1, 1, 640, 0, 16, true},    {NULL, NULL, 82, 1, 0, 0, 0, true},
        {NULL, NULL, 83, 1, 0, 0, 0, false},     {NULL, NULL, 1, 1, 0, 0, 1, false},
    };
    struct world *world = *state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const smla_kernel_desc desc = decode_desc(64, rows[i].format, rows[i].extra);
        smla_kernel *kernel = must_prepare(world->context, &desc);
        for (int lengths = 0; lengths < 2; lengths++) {
            smla_decode_args args = args_of(rows[i].b, rows[i].s_q, rows[i].topk, rows[i].extra_topk);
            args.sm_limit = rows[i].sm_limit;
            args.topk_length = lengths ? DEVICE(int32_t, 0x70000) : NULL;
            world->driver->clear_log();
            if (smla_decode(kernel, &args, NULL) != SMLA_OK)
                fail_msg("row %zu: %s", i, last_error().message);
            if (launched(world, kernel->companion) != rows[i].companion || launched(world, kernel) == rows[i].companion)
                fail_msg("row %zu: the other one", i);
        }
        smla_kernel_destroy(kernel);
    }
}

/* A failed launch names the kernel that it was. */
static void a_failed_launch_is_named(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = decode_desc(64, NULL, NULL);
    smla_kernel *kernel = must_prepare(world->context, &desc);
    const smla_decode_args args = args_of(1, 1, 640, 0);

    world->driver->clear_log();
    world->driver->script = (struct stub_script){.fail_name = "cuLaunchKernelEx", .fail_call = 1, .fail_code = 719};
    assert_int_equal(smla_decode(kernel, &args, NULL), SMLA_ERROR_DRIVER);
    assert_error(SMLA_ERROR_DRIVER, "the launch of sm90_decode_turned_h64_d512_tile16");
    world->driver->script = (struct stub_script){0};
    smla_kernel_destroy(kernel);
}

/* Uniform in [0, below). */
static int64_t draw(uint64_t *random, int64_t below)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(*random >> 33) % below;
}

/* What was asked for with maxima is enough for each smaller call, whichever kernel takes it. */
static void the_workspace_is_enough(void **state)
{
    static const int32_t heads[] = {9, 16, 17, 20, 40, 64, 100, 128};
    struct world *world = *state;
    uint64_t random = 1;
    int companions = 0;

    for (size_t h = 0; h < sizeof heads / sizeof heads[0]; h++) {
        const smla_kernel_desc desc = decode_desc(heads[h], NULL, NULL);
        smla_kernel *kernel = must_prepare(world->context, &desc);
        for (int i = 0; i < 300; i++) {
            const int64_t b = 1 + draw(&random, i % 2 ? 4 : 300), s_q = 1 + draw(&random, 3);
            const int64_t topk = draw(&random, i % 3 ? 400 : 3000);
            smla_decode_args args = args_of(1 + draw(&random, b), 1 + draw(&random, s_q), draw(&random, topk + 1), 0);
            args.sm_limit = (int32_t)(i % 2 * draw(&random, 140));
            assert_int_equal(smla_decode_workspace_size(kernel, b, s_q, topk, 0, &args.workspace_bytes), SMLA_OK);
            world->driver->clear_log();
            if (smla_decode(kernel, &args, NULL) != SMLA_OK)
                fail_msg("%d heads, %d: %s", heads[h], i, last_error().message);
            companions += launched(world, kernel->companion);
        }
        smla_kernel_destroy(kernel);
    }
    assert_true(companions > 200);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(both_are_prepared),        TEST(no_thread_is_to_be_had),  TEST(who_has_none),          TEST(each_may_fail),
        TEST(a_compile_error_is_told),  TEST(a_folder_has_both),       TEST(it_is_generated_alone), TEST(sizes_choose),
        TEST(a_failed_launch_is_named), TEST(the_workspace_is_enough),
    };
    return cmocka_run_group_tests_name("runtime.companion", tests, NULL, NULL);
}
