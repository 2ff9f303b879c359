/* The self-test of kernels on the stub driver, whose launches the CPU's reference computes, rightly or with one element
 * wrong: what passes, what is caught and how it is told, what is remembered, and that nothing is left behind. */
#include <math.h>

#include "bf16.h"
#include "combine_params.h"
#include "harness.h"
#include "prefill_params.h"
#include "reference.h"
#include "self_test.h"
#include "self_test_problem.h"

enum { H_Q = 64, D = 512, SMS = 132 };

/* What the device does wrong. */
static struct {
    bool computes;
    unsigned entries; /* bits of a kernel's entry points whose launches are spoiled; 0: all */
    int tensor;       /* 0: none; 1 to 3: out, lse, max_logits */
    int64_t element;
    float value;
    int launches;
} device;

/* The stub numbers a library's functions by sixteens. */
static unsigned entry_of(const void *function)
{
    return ((unsigned)(uintptr_t)function - 0x300) / 0x10;
}

static void spoil(const void *function, int tensor, float *values, uint16_t *bits)
{
    if (device.tensor != tensor || (device.entries != 0 && !(device.entries >> entry_of(function) & 1u)))
        return;
    if (bits)
        bits[device.element] = bf16_from_float(device.value);
    else
        values[device.element] = device.value;
}

static void store(const void *function, const struct reference_result *result, int64_t rows, uint16_t *out, float *wide,
                  float *lse, float *max_logits)
{
    for (int64_t i = 0; i < rows * D; i++) {
        if (out)
            out[i] = bf16_from_float((float)result->out[i]);
        else
            wide[i] = (float)result->out[i];
    }
    spoil(function, 1, wide, out);
    for (int64_t i = 0; i < rows; i++)
        lse[i] = (float)result->lse[i];
    spoil(function, 2, lse, NULL);
    for (int64_t i = 0; max_logits && i < rows; i++)
        max_logits[i] = (float)result->max_logits[i];
    if (max_logits)
        spoil(function, 3, max_logits, NULL);
}

static void compute_prefill(void *function, void *parameter)
{
    const struct smla_prefill_params *params = parameter;
    const struct smla_key_cache *cache = &params->cache[0];
    const smla_kernel_desc shape = {.h_q = H_Q, .d_qk = D, .d_v = D};
    const smla_prefill_args args = {.s_q = params->s_q,
                                    .s_kv = cache->s_kv,
                                    .topk = cache->topk,
                                    .sm_scale = params->sm_scale,
                                    .query = params->query,
                                    .kv = cache->kv,
                                    .indices = cache->indices,
                                    .topk_length = cache->topk_length,
                                    .attn_sink = params->attn_sink};
    struct reference_result result;

    device.launches++;
    if (!device.computes || !reference_prefill(&shape, &args, &result))
        return;
    store(function, &result, params->s_q * H_Q, params->out, NULL, params->lse, params->max_logits);
    reference_free(&result);
}

/* Functions of the four pairs of types follow one another. */
static void compute_combine(void *function, void *parameter)
{
    const struct smla_combine_params *params = parameter;
    const unsigned pair = entry_of(function);
    const smla_kernel_desc shape = {.h_q = H_Q, .d_v = D};
    const smla_combine_args args = {.partial_dtype = pair / 2,
                                    .parts = params->parts,
                                    .s_q = TEST_TOKENS,
                                    .partial_out = params->partial_out,
                                    .partial_lse = params->partial_lse,
                                    .attn_sink = params->attn_sink};
    struct reference_result result;

    device.launches++;
    if (!device.computes || !reference_combine(&shape, &args, &result))
        return;
    store(function, &result, TEST_TOKENS * H_Q, pair % 2 ? NULL : params->out, params->out, params->lse, NULL);
    reference_free(&result);
}

static struct world *world;
static smla_context *context;

static void open_context(uint32_t flags)
{
    smla_context_desc desc = stub_context_desc();

    smla_context_destroy(context);
    context = NULL;
    desc.flags = flags;
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
}

static int setup(void **state)
{
    if (world_setup(state) != 0)
        return -1;
    world = *state;
    memset(&device, 0, sizeof device);
    device.computes = true;
    rt_self_test_forget();
    world->driver->launching = compute_prefill;
    open_context(SMLA_CONTEXT_SELF_TEST);
    return 0;
}

static int teardown(void **state)
{
    smla_context_destroy(context);
    context = NULL;
    assert_int_equal(world->driver->live_allocations, 0);
    assert_int_equal(world->driver->live_streams, 0);
    assert_int_equal(world->driver->capture_mode, 0);
    return world_teardown(state);
}

static void serve_combine(void)
{
    world_serve_combine(world);
    world->driver->launching = compute_combine;
}

/* ---- Right ---- */

static void a_right_kernel_is_handed_out(void **state)
{
    const smla_kernel_desc desc = prefill_desc();
    (void)state;

    smla_kernel_destroy(must_prepare(context, &desc));
    /* the kernel, its entry for pages, and the one for few queries in clusters of 8, 4 and 2 */
    assert_int_equal(device.launches, 5);
    assert_int_equal(stats_of(context).self_tests, 1);
    assert_int_equal(stats_of(context).self_test_failures, 0);
    assert_true(stats_of(context).self_test_ns > 0);
    assert_int_equal(world->driver->live_allocations, 0);
    assert_int_equal(world->driver->live_streams, 0);
}

static void it_is_remembered_for_the_process(void **state)
{
    const smla_kernel_desc desc = prefill_desc();
    (void)state;

    smla_kernel_destroy(must_prepare(context, &desc));
    smla_kernel_destroy(must_prepare(context, &desc));
    assert_int_equal(stats_of(context).self_tests, 1);
    open_context(SMLA_CONTEXT_SELF_TEST);
    smla_kernel_destroy(must_prepare(context, &desc));
    assert_int_equal(stats_of(context).self_tests, 0);
    assert_int_equal(device.launches, 5);
    world->driver->version = 13000; /* another driver has another compiler of PTX, and other bugs */
    open_context(SMLA_CONTEXT_SELF_TEST);
    smla_kernel_destroy(must_prepare(context, &desc));
    assert_int_equal(stats_of(context).self_tests, 1);
}

static void without_the_flag_nothing_runs(void **state)
{
    const smla_kernel_desc desc = prefill_desc();
    (void)state;

    device.computes = false;
    open_context(0);
    smla_kernel_destroy(must_prepare(context, &desc));
    assert_int_equal(device.launches, 0);
}

static void combine_is_tested_with_each_pair_of_types(void **state)
{
    const smla_kernel_desc desc = combine_desc();
    (void)state;

    serve_combine();
    smla_kernel_destroy(must_prepare(context, &desc));
    assert_int_equal(device.launches, 4);
}

/* ---- Wrong ---- */

static void must_be_caught(const smla_kernel_desc *desc, const char *sentence)
{
    smla_kernel *kernel = (smla_kernel *)(uintptr_t)0xdead;

    rt_self_test_forget();
    assert_int_equal(smla_prepare(context, desc, &kernel), SMLA_ERROR_SELF_TEST);
    assert_ptr_equal(kernel, (void *)(uintptr_t)0xdead);
    assert_error(SMLA_ERROR_SELF_TEST, sentence, "is not handed out", "Stub 9.0", "SMLA_DISABLE");
    assert_int_equal(world->driver->live_allocations, 0);
    assert_int_equal(world->driver->stack_depth(), 1);
}

static void one_wrong_element_is_caught(void **state)
{
    const smla_kernel_desc desc = prefill_desc();
    (void)state;

    device.tensor = 1;
    device.element = (1 * H_Q + 3) * D + 17;
    device.value = 99;
    must_be_caught(&desc, "self-test of sm90_prefill_h64_d512 (lengths): out[1][3][17] is 99 and should be ");
    device.value = NAN;
    must_be_caught(&desc, "out[1][3][17] is nan and should be ");
    device.tensor = 2;
    device.element = 2 * H_Q + 63; /* of the empty row */
    device.value = -INFINITY;
    must_be_caught(&desc, "(lengths): lse[2][63] is -inf and should be inf; 1 elements");
    device.tensor = 3;
    device.value = 0;
    must_be_caught(&desc, "(lengths): max_logits[2][63] is 0 and should be -inf");
    assert_int_equal(stats_of(context).self_test_failures, 4);
}

/* A stub computes nothing: outputs are what they were. */
static void a_kernel_that_writes_nothing_is_caught(void **state)
{
    const smla_kernel_desc desc = prefill_desc();
    (void)state;

    device.computes = false;
    must_be_caught(&desc, "out[0][0][0] is nan");
    serve_combine();
    const smla_kernel_desc combine = combine_desc();
    must_be_caught(&combine, "self-test of combine_bf16_to_bf16 (3 parts): out[0][0][0] is nan");
}

/* Each entry point has a test of its own. */
static void a_wrong_variant_is_caught(void **state)
{
    static const struct {
        unsigned entry;
        const char *sentence;
    } rows[] = {{0, "self-test of sm90_prefill_h64_d512 (lengths)"},
                {1, "self-test of sm90_prefill_h64_d512_paged (pages, no lengths)"},
                {2, "self-test of sm90_prefill_split_h64_d512 (lengths)"}};
    const smla_kernel_desc desc = prefill_desc();
    (void)state;

    device.tensor = 1;
    device.value = 99;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        open_context(SMLA_CONTEXT_SELF_TEST);
        device.entries = 1u << rows[i].entry;
        must_be_caught(&desc, rows[i].sentence);
    }
}

static void a_failure_is_remembered(void **state)
{
    const smla_kernel_desc desc = prefill_desc();
    smla_kernel *kernel = NULL;
    (void)state;

    device.computes = false;
    must_be_caught(&desc, "out[0][0][0] is nan");
    open_context(SMLA_CONTEXT_SELF_TEST);
    device.computes = true;
    assert_int_equal(smla_prepare(context, &desc, &kernel), SMLA_ERROR_SELF_TEST);
    assert_error(SMLA_ERROR_SELF_TEST, "out[0][0][0] is nan");
    assert_int_equal(stats_of(context).self_tests, 0);
    assert_int_equal(stats_of(context).self_test_failures, 1);
}

/* What was wrong is one variant: without it the kernel is right, and that is another verdict. */
static void what_is_switched_off_is_not_tested(void **state)
{
    const smla_kernel_desc desc = prefill_desc();
    smla_context_desc context_desc = stub_context_desc();
    (void)state;

    device.tensor = 1;
    device.value = 99;
    device.entries = 1u << 2;
    must_be_caught(&desc, "sm90_prefill_split_h64_d512");
    smla_context_destroy(context);
    context = NULL;
    context_desc.flags = SMLA_CONTEXT_SELF_TEST;
    context_desc.disable = "sm90_prefill_split*";
    assert_int_equal(smla_context_create(&context_desc, &context), SMLA_OK);
    smla_kernel_destroy(must_prepare(context, &desc));
}

/* ---- Where it cannot run ---- */

static void not_while_a_stream_captures(void **state)
{
    const smla_kernel_desc desc = prefill_desc();
    smla_kernel *kernel = NULL;
    (void)state;

    world->driver->capture_status = 1;
    assert_int_equal(smla_prepare(context, &desc, &kernel), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "self-test", "legacy stream", "before the capture begins");
    assert_int_equal(world->driver->calls("cuMemAlloc"), 0);
    world->driver->capture_status = 0;
    world->driver->script = (struct stub_script){.fail_name = "cuStreamIsCapturing", .fail_call = 2, .fail_code = 906};
    world->driver->clear_log();
    assert_int_equal(smla_prepare(context, &desc, &kernel), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "per-thread stream");
    assert_int_equal(world->driver->calls("cuMemAlloc"), 0);
    world->driver->script = (struct stub_script){0};
    smla_kernel_destroy(must_prepare(context, &desc)); /* none of it is remembered */
}

static void a_driver_that_lacks_a_call_is_told(void **state)
{
    static const char *const calls[] = {"cuMemAlloc", "cuMemFree", "cuStreamCreate", "cuStreamDestroy",
                                        "cuThreadExchangeStreamCaptureMode"};
    const smla_kernel_desc desc = prefill_desc();
    smla_kernel *kernel = NULL;
    (void)state;

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        world->driver->missing = calls[i];
        world->driver->missing_why = RT_CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        open_context(SMLA_CONTEXT_SELF_TEST);
        assert_int_equal(smla_prepare(context, &desc, &kernel), SMLA_ERROR_UNAVAILABLE);
        assert_error(SMLA_ERROR_UNAVAILABLE, calls[i], "which the self-test calls");
        open_context(0);
        smla_kernel_destroy(must_prepare(context, &desc));
    }
}

static void every_call_of_the_test_may_fail(void **state)
{
    static const struct {
        const char *name;
        int count;
    } calls[] = {{"cuStreamIsCapturing", 2}, {"cuThreadExchangeStreamCaptureMode", 2},
                 {"cuStreamCreate", 1},      {"cuMemAlloc", 1},
                 {"cuMemcpyAsync", 1 + 8},   {"cuLaunchKernelEx", 4},
                 {"cuStreamSynchronize", 5}, {"cuMemFree", 1},
                 {"cuStreamDestroy", 1}};
    const smla_kernel_desc desc = combine_desc();
    (void)state;

    serve_combine();
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        for (int call = 1; call <= calls[i].count; call++) {
            smla_kernel *kernel = NULL;
            rt_self_test_forget();
            world->driver->clear_log();
            world->driver->script =
                (struct stub_script){.fail_name = calls[i].name, .fail_call = call, .fail_code = 719};
            assert_int_equal(smla_prepare(context, &desc, &kernel), SMLA_ERROR_DRIVER);
            assert_null(kernel);
            assert_error(SMLA_ERROR_DRIVER, "CUDA_ERROR_LAUNCH_FAILED");
            assert_int_equal(world->driver->live_allocations, 0);
            assert_int_equal(world->driver->live_streams, 0);
            world->driver->script = (struct stub_script){0};
            world->driver->capture_mode = 0;
        }
    }
    smla_kernel_destroy(must_prepare(context, &desc)); /* none of it is remembered */
    assert_int_equal(world->driver->capture_mode, 0);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_right_kernel_is_handed_out),       TEST(it_is_remembered_for_the_process),
        TEST(without_the_flag_nothing_runs),      TEST(combine_is_tested_with_each_pair_of_types),
        TEST(one_wrong_element_is_caught),        TEST(a_kernel_that_writes_nothing_is_caught),
        TEST(a_wrong_variant_is_caught),          TEST(a_failure_is_remembered),
        TEST(what_is_switched_off_is_not_tested), TEST(not_while_a_stream_captures),
        TEST(a_driver_that_lacks_a_call_is_told), TEST(every_call_of_the_test_may_fail),
    };
    return cmocka_run_group_tests_name("runtime.self_test", tests, NULL, NULL);
}
