/* The self-test on the emulated device, with the real compiler: kernels as they are pass, and one whose PTX was edited
 * is caught, whichever of its entry points it was; in a capture nothing happens to the capture. Exit 77: no compiler
 * here. */
#include <dlfcn.h>

#include "bundle.h"
#include "cache.h"
#include "harness.h"
#include "self_test.h"

enum { EXIT_SKIPPED = 77 };

static struct {
    int (*init)(unsigned int flags);
    int (*retain)(void **context, int device);
    int (*set_current)(void *context);
    int (*stream_create)(void **stream, unsigned int flags);
    int (*begin_capture)(void *stream, int mode);
    int (*is_capturing)(void *stream, int *status);
    int (*end_capture)(void *stream, void **graph);
    int (*memory_info)(size_t *free_bytes, size_t *total);
} cu;

static void find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);

    if (symbol == NULL)
        fail_msg("no %s", name);
    memcpy(function, &symbol, sizeof symbol);
}

static void find_driver(void)
{
    void *library = dlopen(EMULATED_DRIVER_PATH, RTLD_NOW | RTLD_LOCAL);

    assert_non_null(library);
    find(library, "cuInit", &cu.init);
    find(library, "cuDevicePrimaryCtxRetain", &cu.retain);
    find(library, "cuCtxSetCurrent", &cu.set_current);
    find(library, "cuStreamCreate", &cu.stream_create);
    find(library, "cuStreamBeginCapture_v2", &cu.begin_capture);
    find(library, "cuStreamIsCapturing", &cu.is_capturing);
    find(library, "cuStreamEndCapture", &cu.end_capture);
    find(library, "cuMemGetInfo_v2", &cu.memory_info);
}

static char *folder; /* of all tests, so that each kernel is compiled once */
static smla_context *context;

static smla_context_desc context_desc(uint32_t flags)
{
    return (smla_context_desc){.struct_size = sizeof(smla_context_desc),
                               .flags = flags,
                               .cache_policy = SMLA_CACHE_RW,
                               .jit_policy = SMLA_JIT_ON,
                               .driver_path = EMULATED_DRIVER_PATH,
                               .cache_dir = folder};
}

static int setup(void **state)
{
    const smla_context_desc desc = context_desc(SMLA_CONTEXT_SELF_TEST);

    (void)state;
    rt_self_test_forget();
    return smla_context_create(&desc, &context) == SMLA_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    smla_context_destroy(context);
    context = NULL;
    return 0;
}

static size_t free_memory(void)
{
    size_t free_bytes = 0, total;

    assert_int_equal(cu.memory_info(&free_bytes, &total), 0);
    return free_bytes;
}

/* Few heads, so that they are emulated fast. */
static const smla_kernel_desc descs[] = {
    {.op = SMLA_OP_COMBINE, .h_q = 3},
    {.op = SMLA_OP_PREFILL, .h_q = 12, .d_qk = 576},
    {.op = SMLA_OP_PREFILL, .h_q = 58, .d_qk = 512},
    {.op = SMLA_OP_PREFILL, .h_q = 8, .d_qk = 512, .kv_format = "v4", .extra_kv_format = "v4"},
    {.op = SMLA_OP_PREFILL, .h_q = 8, .d_qk = 512, .flags = SMLA_KERNEL_CHECKED},
    {.op = SMLA_OP_DECODE, .h_q = 12, .d_qk = 512, .kv_format = "v41", .extra_kv_format = "v41_fp4"},
    {.op = SMLA_OP_DECODE, .h_q = 8, .d_qk = 576, .kv_format = "v32", .batch_invariant = 1},
};

static void kernels_as_they_are_pass(void **state)
{
    const size_t before = free_memory();
    (void)state;

    for (size_t i = 0; i < sizeof descs / sizeof descs[0]; i++) {
        smla_kernel_desc desc = descs[i];
        desc.struct_size = sizeof desc;
        smla_kernel_destroy(must_prepare(context, &desc));
    }
    /* one of them has a companion */
    assert_int_equal(stats_of(context).self_tests, sizeof descs / sizeof descs[0] + 1);
    assert_int_equal(stats_of(context).self_test_failures, 0);
    assert_int_equal(free_memory(), before);
}

/* ---- A wrong kernel ---- */

/* An entry point's products of two float32 become sums. */
static void spoil(char *ptx, const char *entry)
{
    char start[96];
    int spoiled = 0;

    snprintf(start, sizeof start, ".entry %s(", entry);
    char *from = strstr(ptx, start);
    assert_non_null(from);
    const char *end = strstr(from + strlen(start), ".entry ");
    for (char *at = from; (at = strstr(at, "mul.f32")) != NULL && (end == NULL || at < end); at++)
        spoiled += memcpy(at, "add", 3) == at;
    assert_true(spoiled > 0);
}

/* What the folder has of a kernel, and the same spoiled, as an entry that is sound in itself. */
static void read_and_spoil(struct rt_cache *cache, const smla_kernel_desc *desc, const char *entry_point,
                           struct rt_entry *good, struct rt_entry *bad)
{
    struct gen_refusal refusal;
    struct gen_bundle bundle;
    struct rt_key key;

    smla_kernel_destroy(must_prepare(context, desc));
    assert_int_equal(gen_bundle_make(desc, gen_target_find("90a"), &bundle, &refusal), SMLA_OK);
    assert_int_equal(rt_key_make(&bundle, RT_KIND_PTX, &key), SMLA_OK);
    gen_bundle_free(&bundle);
    assert_true(rt_cache_find(cache, &(struct rt_wanted){.key = &key, .arch = "sm_90a"}, good));
    char *ptx = malloc(good->payload_size);
    assert_non_null(ptx);
    memcpy(ptx, good->payload, good->payload_size);
    spoil(ptx, entry_point);
    assert_int_equal(rt_entry_write(&good->info, ptx, good->payload_size, NULL, bad), SMLA_OK);
    free(ptx);
}

static void must_be_caught(const smla_kernel_desc *given, const char *entry_point, const char *variant)
{
    const struct rt_log log = {0};
    const smla_context_desc reading = context_desc(SMLA_CONTEXT_SELF_TEST);
    smla_kernel_desc desc = *given;
    smla_context *reader = NULL;
    smla_kernel *kernel = NULL;
    struct rt_cache *cache;
    struct rt_entry good, bad;

    desc.struct_size = sizeof desc;
    assert_int_equal(rt_cache_open(folder, true, true, &log, &cache), SMLA_OK);
    read_and_spoil(cache, &desc, entry_point, &good, &bad);
    assert_true(rt_cache_publish(cache, &bad));
    assert_int_equal(smla_context_create(&reading, &reader), SMLA_OK);
    const size_t before = free_memory();
    assert_int_equal(smla_prepare(reader, &desc, &kernel), SMLA_ERROR_SELF_TEST);
    assert_null(kernel);
    assert_error(SMLA_ERROR_SELF_TEST, "self-test of ", variant, " and should be ", "is not handed out");
    assert_int_equal(stats_of(reader).compiles, 0);
    assert_int_equal(free_memory(), before);
    smla_context_destroy(reader);
    assert_true(rt_cache_publish(cache, &good));
    rt_entry_free(&good);
    rt_entry_free(&bad);
    rt_cache_close(cache);
}

static void a_wrong_kernel_is_caught(void **state)
{
    (void)state;
    must_be_caught(&descs[0], "smla_combine_float32_to_bf16", "combine_float32_to_bf16 ");
    must_be_caught(&descs[1], "smla_sm90_prefill_turned_persistent", "sm90_prefill_turned_persistent_h12_d576 ");
    must_be_caught(&descs[1], "smla_sm90_prefill_turned_persistent_paged",
                   "sm90_prefill_turned_persistent_h12_d576_paged ");
    must_be_caught(&descs[2], "smla_sm90_prefill_persistent_lengths", "sm90_prefill_persistent_h58_d512_lengths ");
    must_be_caught(&descs[2], "smla_sm90_prefill_split", "sm90_prefill_split_h58_d512 ");
    must_be_caught(&descs[2], "smla_sm90_prefill_split_narrow", "sm90_prefill_split_narrow_h58_d512 ");
    must_be_caught(&descs[5], "smla_sm90_decode_turned", "sm90_decode_turned_h12_d512_v41_v41_fp4 ");
    must_be_caught(&descs[5], "smla_decode_combine", "sm90_decode_turned_h12_d512_v41_v41_fp4 ");
}

/* ---- Captures ---- */

/* mode: of the capture, 0 global, 1 of the thread. blocking: the legacy stream tells of it. */
static void prepare_while_capturing(int mode, bool blocking)
{
    smla_kernel_desc desc = descs[0];
    void *stream = NULL, *graph = NULL;
    smla_kernel *kernel = NULL;
    int capturing = 0;

    desc.struct_size = sizeof desc;
    assert_int_equal(cu.stream_create(&stream, blocking ? 0 : 1), 0);
    assert_int_equal(cu.begin_capture(stream, mode), 0);
    const smla_status status = smla_prepare(context, &desc, &kernel);
    if (blocking) {
        assert_int_equal(status, SMLA_ERROR_INVALID_ARGUMENT);
        assert_error(SMLA_ERROR_INVALID_ARGUMENT, "self-test", "before the capture begins");
    } else {
        assert_int_equal(status, SMLA_OK);
    }
    assert_int_equal(cu.is_capturing(stream, &capturing), 0);
    assert_int_equal(capturing, 1); /* CU_STREAM_CAPTURE_STATUS_ACTIVE: not invalidated */
    assert_int_equal(cu.end_capture(stream, &graph), 0);
    smla_kernel_destroy(kernel);
}

static void a_capture_goes_on(void **state)
{
    (void)state;
    for (int mode = 0; mode < 2; mode++) {
        rt_self_test_forget();
        prepare_while_capturing(mode, true);
        prepare_while_capturing(mode, false);
    }
}

static bool has_compiler(void)
{
    smla_context_desc desc = context_desc(0);
    smla_kernel_desc combine = combine_desc();
    smla_kernel *kernel = NULL;

    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
    const bool has = smla_prepare(context, &combine, &kernel) == SMLA_OK;
    smla_kernel_destroy(kernel);
    teardown(NULL);
    return has;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(kernels_as_they_are_pass),
        TEST(a_wrong_kernel_is_caught),
        TEST(a_capture_goes_on),
    };
    void *primary = NULL;

    find_driver();
    folder = make_folder();
    if (cu.init(0) != 0 || cu.retain(&primary, 0) != 0 || cu.set_current(primary) != 0)
        return 1;
    if (!has_compiler()) {
        printf("SKIP: %s\n", last_error().message);
        remove_folder(folder);
        return last_error().status == SMLA_ERROR_UNAVAILABLE ? EXIT_SKIPPED : 1;
    }
    const int failed = cmocka_run_group_tests_name("runtime.self_test_emulated", tests, NULL, NULL);
    remove_folder(folder);
    return failed;
}
