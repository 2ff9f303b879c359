/* The self-test of kernels on the stub driver, whose launches the CPU's reference computes, rightly or with one element
 * wrong: what passes, what is caught and how it is told, what is remembered, and that nothing is left behind. */
#include <math.h>

#include "bf16.h"
#include "computing.h"
#include "harness.h"
#include "self_test.h"

enum { H_Q = 64, D = 512, SMS = 132 };

/* What the device does wrong. */
static struct {
    bool computes;
    const char *entry; /* whose launches are spoiled; NULL: all */
    int tensor;        /* 0: none; 1 to 3: out, lse, max_logits */
    int64_t element;
    float value;
    int launches;
} device;

static void spoil(const char *entry, int tensor, float *values, uint16_t *bits)
{
    if (device.tensor != tensor || (device.entry != NULL && strcmp(device.entry, entry) != 0))
        return;
    if (bits)
        bits[device.element] = bf16_from_float(device.value);
    else
        values[device.element] = device.value;
}

static void launch_prefill(const char *entry, void *parameter)
{
    const struct smla_prefill_params *params = parameter;

    device.launches++;
    if (!device.computes)
        return;
    compute_prefill(params, H_Q, D);
    spoil(entry, 1, NULL, params->out);
    spoil(entry, 2, params->lse, NULL);
    spoil(entry, 3, params->max_logits, NULL);
}

static void launch_combine(const char *entry, void *parameter)
{
    const struct smla_combine_params *params = parameter;

    device.launches++;
    if (!device.computes)
        return;
    compute_combine(entry, params, H_Q, D);
    spoil(entry, 1, params->out, combine_writes_float(entry) ? NULL : params->out);
    spoil(entry, 2, params->lse, NULL);
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
    world->driver->launching = launch_prefill;
    open_context(SMLA_CONTEXT_SELF_TEST);
    return 0;
}

static int teardown(void **state)
{
    smla_context_destroy(context);
    context = NULL;
    assert_int_equal(world->driver->live_allocations, 0);
    assert_int_equal(world->driver->live_streams, 0);
    assert_int_equal(world->driver->get_capture_mode(), 0);
    return world_teardown(state);
}

static void serve_combine(void)
{
    world_serve_combine(world);
    world->driver->launching = launch_combine;
}

/* ---- Right ---- */

static void a_right_kernel_is_handed_out(void **state)
{
    const smla_kernel_desc desc = prefill_desc();
    smla_event event;
    (void)state;

    smla_kernel_destroy(must_prepare(context, &desc));
    /* the kernel, its entry for pages, and both for few queries in clusters of 8, 4 and 2 */
    assert_int_equal(device.launches, 8);
    assert_int_equal(stats_of(context).self_tests, 1);
    assert_int_equal(stats_of(context).self_test_failures, 0);
    assert_true(stats_of(context).self_test_ns > 0);
    assert_int_equal(events_of(context, SMLA_EVENT_SELF_TEST_START, NULL), 1);
    assert_int_equal(events_of(context, SMLA_EVENT_SELF_TEST_FAILED, NULL), 0);
    assert_int_equal(events_of(context, SMLA_EVENT_SELF_TEST_PASSED, &event), 1);
    assert_int_equal(event.status, SMLA_OK);
    assert_int_equal(event.duration_ns, stats_of(context).self_test_ns);
    assert_string_equal(event.kernel, "prefill h_q=64 d_qk=512 d_v=512 kv=bf16 not_persistent target=90a");
    assert_int_equal(strlen(event.kernel_id), 64);
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
    assert_int_equal(device.launches, 8);
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
        const char *entry, *sentence;
    } rows[] = {{"smla_sm90_prefill", "self-test of sm90_prefill_h64_d512 (lengths)"},
                {"smla_sm90_prefill_paged", "self-test of sm90_prefill_h64_d512_paged (pages, no lengths)"},
                {"smla_sm90_prefill_split", "self-test of sm90_prefill_split_h64_d512 (pages, no lengths)"},
                {"smla_sm90_prefill_split_narrow", "self-test of sm90_prefill_split_narrow_h64_d512 (lengths)"}};
    const smla_kernel_desc desc = prefill_desc();
    (void)state;

    device.tensor = 1;
    device.value = 99;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        open_context(SMLA_CONTEXT_SELF_TEST);
        device.entry = rows[i].entry;
        must_be_caught(&desc, rows[i].sentence);
    }
}

static void a_failure_is_remembered(void **state)
{
    const smla_kernel_desc desc = prefill_desc();
    smla_kernel *kernel = NULL;
    smla_event event;
    (void)state;

    device.computes = false;
    must_be_caught(&desc, "out[0][0][0] is nan");
    assert_int_equal(events_of(context, SMLA_EVENT_SELF_TEST_FAILED, &event), 1);
    assert_int_equal(event.status, SMLA_ERROR_SELF_TEST);
    assert_true(event.duration_ns > 0);
    assert_non_null(strstr(event.message, "out[0][0][0] is nan"));
    open_context(SMLA_CONTEXT_SELF_TEST);
    device.computes = true;
    assert_int_equal(smla_prepare(context, &desc, &kernel), SMLA_ERROR_SELF_TEST);
    assert_error(SMLA_ERROR_SELF_TEST, "out[0][0][0] is nan");
    assert_int_equal(events_of(context, SMLA_EVENT_SELF_TEST_START, NULL), 0);
    assert_int_equal(events_of(context, SMLA_EVENT_SELF_TEST_FAILED, &event), 1);
    assert_int_equal(event.status, SMLA_ERROR_SELF_TEST);
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
    device.entry = "smla_sm90_prefill_split";
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
    smla_event event;
    smla_kernel *kernel = NULL;
    (void)state;

    world->driver->capture_status = 1;
    assert_int_equal(smla_prepare(context, &desc, &kernel), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "self-test", "legacy stream", "before the capture begins");
    assert_int_equal(events_of(context, SMLA_EVENT_SELF_TEST_FAILED, &event), 1);
    assert_int_equal(event.status, SMLA_ERROR_INVALID_ARGUMENT);
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
            world->driver->set_capture_mode(0);
        }
    }
    smla_kernel_destroy(must_prepare(context, &desc)); /* none of it is remembered */
    assert_int_equal(world->driver->get_capture_mode(), 0);
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
