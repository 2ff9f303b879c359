/* Every allocation of the library fails in turn (ld --wrap): OUT_OF_MEMORY or done without, no leak (ASan), and the
 * next attempt works. */
#include "smlab_files.h"

#include <unistd.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static int countdown; /* 1: the next one fails; 0: none does. Atomic */

static bool fails_now(void)
{
    return __atomic_load_n(&countdown, __ATOMIC_RELAXED) > 0 &&
           __atomic_sub_fetch(&countdown, 1, __ATOMIC_RELAXED) == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails_now() ? NULL : __real_realloc(old, size);
}

static int32_t ignore_bytes(void *user, const void *bytes, size_t size)
{
    (void)user;
    (void)bytes;
    (void)size;
    return 0;
}

static const char *bundles = ""; /* of create_and_prepare */
static bool in_background;       /* … and with a limit, so that a third thread compiles */

static smla_status prepare_in_background(smla_context *context, const smla_kernel_desc *desc, smla_kernel **kernel)
{
    smla_preparation *preparation = NULL;
    smla_status status = smla_prepare_start(context, desc, &preparation);

    if (status == SMLA_OK)
        status = smla_prepare_wait(preparation, SMLA_WAIT_FOREVER, kernel);
    smla_prepare_destroy(preparation);
    return status;
}

static smla_status create_and_prepare(const char *cache_dir, smla_context **context)
{
    smla_context_desc desc = stub_context_desc();
    const smla_kernel_desc kernel_desc = prefill_desc();
    smla_kernel *kernel = NULL;

    desc.cache_policy = SMLA_CACHE_RW;
    desc.cache_dir = cache_dir;
    desc.bundles = bundles;
    desc.compile_limit_ms = in_background ? 60000 : 0;
    smla_status status = smla_context_create(&desc, context);
    if (status == SMLA_OK)
        status = in_background ? prepare_in_background(*context, &kernel_desc, &kernel)
                               : smla_prepare(*context, &kernel_desc, &kernel);
    smla_kernel_destroy(kernel);
    return status;
}

static smla_status create_and_generate(const char *cache_dir, uint32_t emit, smla_context **context)
{
    smla_context_desc desc = stub_context_desc();
    smla_kernel_desc kernel_desc = prefill_desc();

    (void)cache_dir;
    kernel_desc.target = "90";
    const smla_status status = smla_context_create(&desc, context);
    return status == SMLA_OK ? smla_generate(*context, &kernel_desc, emit, ignore_bytes, NULL) : status;
}

/* Runs until nothing is left to fail; the failures must be told as what they are. */
static void fail_each(uint32_t emit)
{
    struct world world;
    int refused = 0, n;

    for (n = 1; n < 500; n++) {
        char *folder = make_folder();
        smla_context *context = NULL;
        world_open_stubs(&world);
        countdown = n;
        const smla_status status =
            emit ? create_and_generate(folder, emit, &context) : create_and_prepare(folder, &context);
        const bool all_done = countdown > 0;
        countdown = 0;
        if (status != SMLA_OK) {
            refused++;
            assert_int_equal(status, SMLA_ERROR_OUT_OF_MEMORY);
            assert_non_null(strcasestr(last_error().message, "memory"));
        }
        if (context && emit == 0) {
            const smla_kernel_desc desc = prefill_desc();
            smla_kernel_destroy(must_prepare(context, &desc));
        }
        smla_context_destroy(context);
        assert_int_equal(world.driver->live_libraries, 0);
        assert_int_equal(world.nvrtc->live_programs, 0);
        remove_folder(folder);
        if (all_done)
            break;
    }
    print_message("%d allocations, %d of them refused\n", n - 1, refused);
    assert_true(n < 500 && refused > 3);
}

static void prepare(void **state)
{
    (void)state;
    fail_each(0);
}

static void prepare_beside(void **state)
{
    (void)state;
    in_background = true;
    fail_each(0);
    in_background = false;
}

/* What a context tells of itself. */
static void stats_and_events(void **state)
{
    smla_context_desc desc = stub_context_desc();
    smla_context *context = NULL;
    smla_event events[4] = {{.struct_size = sizeof events[0]}};
    int refused = 0;
    size_t size;

    (void)state;
    desc.bundles = "/nonexistent/a.smlab";
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
    for (int n = 1; n < 10; n++) {
        countdown = n;
        const smla_status json = smla_stats_json(context, NULL, 0, &size);
        countdown = n;
        const smla_status read = smla_events(context, 0, events, 4, &size);
        countdown = 0;
        refused += (json == SMLA_ERROR_OUT_OF_MEMORY) + (read == SMLA_ERROR_OUT_OF_MEMORY);
        assert_true(json == SMLA_OK || json == SMLA_ERROR_OUT_OF_MEMORY);
        assert_true(read == SMLA_OK || read == SMLA_ERROR_OUT_OF_MEMORY);
    }
    assert_true(refused >= 3);
    smla_context_destroy(context);
}

/* Without memory for the bundle, or for what is in it, the kernel is compiled. */
static void prepare_from_bundle(void **state)
{
    const smla_kernel_desc desc = prefill_desc();
    struct world world;
    size_t size;
    char *folder = make_folder(), *path = path_in(folder, "a.smlab");

    (void)state;
    world_open_stubs(&world);
    uint8_t *bytes = smlab_of(&desc, 1, &size);
    write_file(path, bytes, size);
    bundles = path;
    fail_each(0);
    bundles = "";
    free(bytes);
    free(path);
    remove_folder(folder);
}

static void generate_plan(void **state)
{
    (void)state;
    fail_each(SMLA_EMIT_PLAN);
}

static void generate_cuda(void **state)
{
    (void)state;
    fail_each(SMLA_EMIT_CUDA);
}

static void generate_ptx(void **state)
{
    (void)state;
    fail_each(SMLA_EMIT_PTX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prepare),          cmocka_unit_test(prepare_from_bundle), cmocka_unit_test(prepare_beside),
        cmocka_unit_test(stats_and_events), cmocka_unit_test(generate_plan),       cmocka_unit_test(generate_cuda),
        cmocka_unit_test(generate_ptx),
    };
    return cmocka_run_group_tests_name("runtime.allocation", tests, NULL, NULL);
}
