/* smla_combine on the stub driver: the launch to its last byte, the variant that a call selects, every refusal. */
#include <limits.h>

#include "combine_params.h"
#include "harness.h"

/* Device pointers that nobody follows. */
#define DEVICE(type, address) ((type *)(uintptr_t)(address))

struct call {
    struct world world;
    smla_kernel *kernel;
    smla_kernel *prefill;
    smla_combine_args args; /* good ones */
};

static smla_combine_args good_args(void)
{
    return (smla_combine_args){
        .struct_size = sizeof(smla_combine_args),
        .parts = 5,
        .s_q = 7,
        .partial_out = DEVICE(void, 0x10000),
        .partial_lse = DEVICE(float, 0x20004),
        .attn_sink = DEVICE(float, 0x30004),
        .out = DEVICE(void, 0x40000),
        .lse = DEVICE(float, 0x50004),
    };
}

static int setup(void **state)
{
    struct call *call = calloc(1, sizeof *call);
    const smla_context_desc context_desc = stub_context_desc();
    const smla_kernel_desc prefill = prefill_desc(), combine = combine_desc();

    if (call == NULL)
        return -1;
    *state = call;
    world_open_stubs(&call->world);
    if (smla_context_create(&context_desc, &call->world.context) != SMLA_OK)
        return -1;
    call->prefill = must_prepare(call->world.context, &prefill);
    world_serve_combine(&call->world);
    call->kernel = must_prepare(call->world.context, &combine);
    call->args = good_args();
    call->world.driver->clear_log();
    return 0;
}

static int teardown(void **state)
{
    struct call *call = *state;

    smla_kernel_destroy(call->kernel);
    smla_kernel_destroy(call->prefill);
    smla_context_destroy(call->world.context);
    const bool clean = call->world.driver->live_libraries == 0;
    free(call);
    return clean ? 0 : -1;
}

static void must_combine(const struct call *call, void *stream)
{
    if (smla_combine(call->kernel, &call->args, stream) != SMLA_OK)
        fail_msg("combine: %s", last_error().message);
}

static const struct smla_combine_params *params_of(const struct call *call)
{
    return (const void *)call->world.driver->params;
}

static void launches_exactly_this(void **state)
{
    struct call *call = *state;
    struct smla_combine_params params;

    call->args.lse_flags = SMLA_LSE_WITH_SINK;
    must_combine(call, (void *)0x51);
    assert_string_equal(call->world.driver->log(),
                        "cuCtxGetCurrent()\n"
                        "cuLaunchKernelEx(grid 112 1 1, block 128 1 1, shared 0, stream 51, attrs 0, function 302, "
                        "extra none, ctx c1)\n");
    memset(&params, 0, sizeof params);
    params.partial_out = DEVICE(void, 0x10000);
    params.partial_lse = DEVICE(float, 0x20004);
    params.attn_sink = DEVICE(float, 0x30004);
    params.out = DEVICE(void, 0x40000);
    params.lse = DEVICE(float, 0x50004);
    params.partial_out_stride_part = 7 * 64 * 512;
    params.partial_out_stride_token = 64 * 512;
    params.partial_out_stride_head = 512;
    params.partial_lse_stride_part = 7 * 64;
    params.partial_lse_stride_token = 64;
    params.partial_lse_stride_head = 1;
    params.out_stride_token = 64 * 512;
    params.out_stride_head = 512;
    params.lse_stride_token = 64;
    params.lse_stride_head = 1;
    params.parts = 5;
    params.lse_flags = SMLA_LSE_WITH_SINK;
    assert_memory_equal(call->world.driver->params, &params, sizeof params);
}

static void launches_after_previous(void **state)
{
    struct call *call = *state;

    call->args.launch_flags = SMLA_LAUNCH_AFTER_PREVIOUS;
    must_combine(call, NULL);
    assert_non_null(strstr(call->world.driver->log(), "attrs 1 (6: 1),"));
}

/* Four entry points of one library; the types of the call say which. Nothing is compiled or loaded. */
static void types_select_the_variant(void **state)
{
    static const char *const functions[2][2] = {{"function 302,", "function 312,"}, {"function 322,", "function 332,"}};
    struct call *call = *state;
    const smla_stats_counters before = stats_of(call->world.context);

    for (uint32_t partial = 0; partial < 2; partial++)
        for (uint32_t out = 0; out < 2; out++) {
            call->world.driver->clear_log();
            call->args.partial_dtype = partial ? SMLA_DTYPE_FLOAT32 : SMLA_DTYPE_BF16;
            call->args.out_dtype = out ? SMLA_DTYPE_FLOAT32 : SMLA_DTYPE_BF16;
            must_combine(call, NULL);
            assert_non_null(strstr(call->world.driver->log(), functions[partial][out]));
        }
    assert_int_equal(stats_of(call->world.context).compiles, before.compiles);
    assert_int_equal(stats_of(call->world.context).kernels_loaded, before.kernels_loaded);
}

static void passes_given_strides(void **state)
{
    struct call *call = *state;
    const struct smla_combine_params *params = params_of(call);

    call->args.partial_dtype = SMLA_DTYPE_FLOAT32;
    call->args.partial_out_stride_head = 516; /* 16 bytes of float32 */
    call->args.partial_out_stride_part = ((int64_t)1 << 33) + 4;
    call->args.partial_lse_stride_head = 7; /* tokens inside */
    call->args.partial_lse_stride_token = 1;
    call->args.out_stride_token = 512;
    call->args.out_stride_head = 512 * 7;
    call->args.lse_stride_head = 9;
    call->args.lse_stride_token = 1;
    call->args.lse_flags = SMLA_LSE_EMPTY_NEGATIVE;
    call->args.partial_lse_flags = SMLA_LSE_BASE_2 | SMLA_LSE_EMPTY_NEGATIVE;
    must_combine(call, NULL);
    assert_int_equal(params->partial_out_stride_head, 516);
    assert_int_equal(params->partial_out_stride_token, 516 * 64);
    assert_int_equal(params->partial_out_stride_part, ((int64_t)1 << 33) + 4);
    assert_int_equal(params->partial_lse_stride_head, 7);
    assert_int_equal(params->partial_lse_stride_token, 1);
    assert_int_equal(params->partial_lse_stride_part, 7);
    assert_int_equal(params->out_stride_token, 512);
    assert_int_equal(params->out_stride_head, 512 * 7);
    assert_int_equal(params->lse_stride_head, 9);
    assert_int_equal(params->lse_stride_token, 1);
    assert_int_equal(params->lse_flags, 4);
    assert_int_equal(params->partial_is_base_2, 1);
}

static void optional_tensors_may_be_null(void **state)
{
    struct call *call = *state;

    call->args.attn_sink = NULL;
    call->args.lse = NULL;
    call->args.lse_stride_head = -5; /* of a tensor that is not there */
    must_combine(call, NULL);
    assert_null(params_of(call)->attn_sink);
    assert_null(params_of(call)->lse);
    assert_int_equal(params_of(call)->lse_stride_head, 1);
}

/* As if all were empty: a launch, and what would be read does not matter. */
static void no_parts(void **state)
{
    struct call *call = *state;

    call->args.parts = 0;
    call->args.partial_out = DEVICE(void, 0x10001);
    call->args.partial_lse = NULL;
    call->args.partial_out_stride_part = -1;
    must_combine(call, NULL);
    assert_int_equal(call->world.driver->calls("cuLaunchKernelEx"), 1);
    assert_int_equal(params_of(call)->parts, 0);
    assert_null(params_of(call)->partial_out);
}

static void nothing_to_do(void **state)
{
    struct call *call = *state;
    const smla_combine_args empty = {.struct_size = sizeof empty, .parts = 3};

    assert_int_equal(smla_combine(call->kernel, &empty, NULL), SMLA_OK);
    assert_int_equal(call->world.driver->calls(NULL), 0);
}

static void many_queries_go_along_x(void **state)
{
    struct call *call = *state;

    call->args.s_q = 70000;
    must_combine(call, NULL);
    assert_non_null(strstr(call->world.driver->log(), "grid 1120000 1 1,"));
    call->args.s_q = INT32_MAX / 16;
    call->args.parts = INT32_MAX;
    call->args.partial_lse_stride_part = 64;
    call->args.partial_out_stride_part = 8;
    must_combine(call, NULL);
    assert_non_null(strstr(call->world.driver->log(), "grid 2147483632 1 1,"));
    assert_int_equal(params_of(call)->parts, INT32_MAX);
}

static void another_current_context(void **state)
{
    struct call *call = *state;

    call->world.driver->set_current((void *)0xc2);
    must_combine(call, NULL);
    assert_non_null(strstr(call->world.driver->log(), "ctx c1)\ncuCtxPopCurrent()\n"));
    assert_int_equal(call->world.driver->calls(NULL), 4);
    assert_ptr_equal(call->world.driver->get_current(), (void *)0xc2);
}

static void every_call_may_fail(void **state)
{
    struct call *call = *state;

    for (int n = 1; n <= 4; n++) {
        call->world.driver->set_current((void *)0xc2);
        call->world.driver->clear_log();
        call->world.driver->script = (struct stub_script){.fail_call = n, .fail_code = 719};
        assert_int_equal(smla_combine(call->kernel, &call->args, NULL), SMLA_ERROR_DRIVER);
        assert_error(SMLA_ERROR_DRIVER, "CUDA_ERROR_LAUNCH_FAILED");
        call->world.driver->script.fail_call = 0;
    }
    call->world.driver->set_current(TEST_CONTEXT);
    call->world.driver->clear_log();
    call->world.driver->script =
        (struct stub_script){.fail_name = "cuLaunchKernelEx", .fail_call = 1, .fail_code = 719};
    assert_int_equal(smla_combine(call->kernel, &call->args, NULL), SMLA_ERROR_DRIVER);
    assert_error(SMLA_ERROR_DRIVER, "the launch of combine (112 x 1 blocks of 128 threads");
}

/* A change of the good arguments that must be refused, and a text of the sentence. */
struct bad {
    const char *text;
    size_t offset;
    size_t size;
    int64_t value; /* its first bytes: this machine is little-endian */
};

#define BAD(field, number, text)                                                                                       \
    {                                                                                                                  \
        text, offsetof(smla_combine_args, field), sizeof((smla_combine_args *)0)->field, (int64_t)(number)             \
    }

static const struct bad bad_arguments[] = {
    BAD(s_q, -1, "s_q -1 is negative"),
    BAD(s_q, INT32_MAX / 16 + 1, "s_q 134217728: at most 134217727 in one call"),
    BAD(parts, -2, "parts -2 is negative"),
    BAD(parts, (int64_t)INT32_MAX + 1, "parts 2147483648: at most 2147483647"),
    BAD(lse_flags, 8, "lse_flags 0x8"),
    BAD(partial_lse_flags, 8, "partial_lse_flags 0x8"),
    BAD(partial_lse_flags, SMLA_LSE_WITH_SINK, "parts are without the sink, which joins once, as attn_sink"),
    BAD(partial_dtype, 2, "partial_dtype 2: SMLA_DTYPE_* are 0 (bf16) and 1 (float32)"),
    BAD(out_dtype, 9, "out_dtype 9"),
    BAD(reserved, 1, "smla_combine_args.reserved is 1"),
    BAD(reserved_2, 5, "smla_combine_args.reserved_2 is 5"),
    BAD(launch_flags, 2, "launch_flags 0x2: SMLA_LAUNCH_AFTER_PREVIOUS (0x1) is all there is"),
    BAD(partial_out, 0, "partial_out is NULL: a device pointer to 5 parts of [7, 64, 512]"),
    BAD(partial_lse, 0, "partial_lse is NULL: a device pointer to 5 parts of [7, 64, 1]"),
    BAD(out, 0, "out is NULL"),
    BAD(partial_out, 0x10008, "partial_out is at 0x10008: this kernel needs it aligned to 16 bytes"),
    BAD(partial_lse, 0x20002, "partial_lse is at 0x20002"),
    BAD(attn_sink, 0x30001, "attn_sink is at 0x30001"),
    BAD(out, 0x40008, "out is at 0x40008"),
    BAD(lse, 0x50002, "lse is at 0x50002"),
    BAD(partial_out_stride_part, -8, "partial_out_stride_part -8 is negative"),
    BAD(partial_out_stride_token, -8, "partial_out_stride_token -8 is negative"),
    BAD(partial_out_stride_head, -8, "partial_out_stride_head -8 is negative"),
    BAD(partial_lse_stride_part, -1, "partial_lse_stride_part -1 is negative"),
    BAD(partial_lse_stride_token, -1, "partial_lse_stride_token -1 is negative"),
    BAD(partial_lse_stride_head, -1, "partial_lse_stride_head -1 is negative"),
    BAD(out_stride_token, -8, "out_stride_token -8 is negative"),
    BAD(out_stride_head, -8, "out_stride_head -8 is negative"),
    BAD(lse_stride_token, -1, "lse_stride_token -1 is negative"),
    BAD(lse_stride_head, -1, "lse_stride_head -1 is negative"),
    BAD(partial_out_stride_part, 12,
        "partial_out_stride_part 12: this kernel needs a multiple of 8 elements (16 bytes)"),
    BAD(partial_out_stride_token, 516, "partial_out_stride_token 516"),
    BAD(partial_out_stride_head, 516, "partial_out_stride_head 516"),
    BAD(out_stride_token, 32772, "out_stride_token 32772"),
    BAD(out_stride_head, 516, "out_stride_head 516"),
    BAD(partial_out_stride_part, INT64_MAX / 8 * 8, "partial_out reaches past 2^63 bytes: 5 parts of [7, 64, 512]"),
    BAD(partial_out_stride_part, INT64_MAX / 16 * 8, "partial_out reaches past 2^63 bytes"),
    BAD(partial_out_stride_token, INT64_MAX / 8 * 8, "partial_out reaches past 2^63 bytes"),
    BAD(partial_out_stride_token, INT64_MAX / 6 / 2 / 8 * 8 - 65536, "partial_out reaches past 2^63 bytes"),
    BAD(partial_out_stride_head, INT64_MAX / 8 * 8, "partial_out reaches past 2^63 bytes"),
    BAD(partial_lse_stride_part, INT64_MAX / 16 + 64, "partial_lse reaches past 2^63 bytes"),
    BAD(partial_lse_stride_token, INT64_MAX / 8, "partial_lse reaches past 2^63 bytes"),
    BAD(partial_lse_stride_head, INT64_MAX / 8, "partial_lse reaches past 2^63 bytes"),
    BAD(out_stride_token, INT64_MAX / 8 * 8, "out reaches past 2^63 bytes"),
    BAD(lse_stride_token, INT64_MAX / 8, "lse reaches past 2^63 bytes"),
    BAD(out_stride_head, 504, "out overlaps itself"),
    BAD(out_stride_token, 512, "out overlaps itself"),
    BAD(lse_stride_token, 63, "lse overlaps itself"),
};

/* The struct must come back as it was, nothing may be launched, and the sentence must name the tensor. */
static void refuses(void **state)
{
    struct call *call = *state;

    for (size_t i = 0; i < sizeof bad_arguments / sizeof bad_arguments[0]; i++) {
        const struct bad *bad = &bad_arguments[i];
        smla_combine_args args = good_args(), before;
        memcpy((char *)&args + bad->offset, &bad->value, bad->size);
        before = args;
        if (smla_combine(call->kernel, &args, NULL) != SMLA_ERROR_INVALID_ARGUMENT)
            fail_msg("accepted: %s", bad->text);
        assert_error(SMLA_ERROR_INVALID_ARGUMENT, bad->text);
        assert_memory_equal(&args, &before, sizeof args);
        assert_int_equal(call->world.driver->calls(NULL), 0);
    }
}

/* Alignment follows the type: 4 elements of float32 are 16 bytes, and 4 of bf16 are not. */
static void alignment_follows_the_type(void **state)
{
    struct call *call = *state;

    call->args.out_stride_head = 516;
    call->args.out_dtype = SMLA_DTYPE_FLOAT32;
    must_combine(call, NULL);
    call->args.out_stride_head = 514;
    assert_int_equal(smla_combine(call->kernel, &call->args, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT,
                 "out_stride_head 514: this kernel needs a multiple of 4 elements (16 bytes)");
}

static void refuses_the_wrong_kernel(void **state)
{
    struct call *call = *state;
    const smla_prefill_args prefill = {.struct_size = sizeof prefill, .sm_scale = 1};
    uint64_t bytes = 99;

    assert_int_equal(smla_combine(call->prefill, &call->args, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "sm90_prefill", "which smla_prefill calls", "SMLA_OP_COMBINE");
    assert_int_equal(smla_prefill(call->kernel, &prefill, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "smla_prefill: the kernel is of SMLA_OP_COMBINE");
    assert_int_equal(smla_prefill_workspace_size(call->kernel, 1, 1, &bytes), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(bytes, 99);
    assert_int_equal(smla_combine(NULL, &call->args, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_combine(call->kernel, NULL, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(call->world.driver->calls(NULL), 0);
}

/* Reads may overlap as they like: one part for all, one row for all. */
static void overlapping_reads(void **state)
{
    struct call *call = *state;

    call->args.partial_out_stride_part = 8;
    call->args.partial_out_stride_token = 8;
    call->args.partial_out_stride_head = 8;
    call->args.partial_lse_stride_part = 1;
    call->args.partial_lse_stride_token = 1;
    must_combine(call, NULL);
}

/* An older caller's struct: exactly its bytes are read (ASan watches), the rest is zero. A newer one's tail is zero. */
static void older_and_newer_arguments(void **state)
{
    struct call *call = *state;
    smla_combine_args *old = older_struct(&call->args, offsetof(smla_combine_args, lse));
    struct {
        smla_combine_args args;
        uint64_t new_field;
    } newer = {.args = good_args()};

    assert_int_equal(smla_combine(call->kernel, old, NULL), SMLA_OK);
    assert_null(params_of(call)->lse);
    free(old);
    newer.args.struct_size = sizeof newer;
    assert_int_equal(smla_combine(call->kernel, &newer.args, NULL), SMLA_OK);
    newer.new_field = 1;
    assert_int_equal(smla_combine(call->kernel, &newer.args, NULL), SMLA_ERROR_UNSUPPORTED);
}

static void support_needs_no_device(void **state)
{
    const smla_kernel_desc desc = {.struct_size = sizeof desc, .op = SMLA_OP_COMBINE, .h_q = 6, .target = "100"};
    smla_support support = {.struct_size = sizeof support};

    (void)state;
    assert_int_equal(smla_query_support(NULL, &desc, &support), SMLA_OK);
    assert_int_equal(support.supported, 1);
    assert_int_equal(support.launches, 1);
    assert_int_equal(support.variants, 4);
    assert_int_equal(support.threads, 128);
    assert_int_equal(support.pointer_alignment, 16);
    assert_string_equal(support.target, "100f");
    assert_string_equal(support.variant, "combine_bf16_to_bf16");
}

/* Without a compiler the refusal names the line that builds it, which has no keys in it. */
static void refusal_names_the_command(void **state)
{
    struct call *call = *state;
    smla_context_desc context_desc = stub_context_desc();
    const smla_kernel_desc desc = combine_desc();
    smla_context *context = NULL;
    smla_kernel *kernel = NULL;

    (void)call;
    context_desc.jit_policy = SMLA_JIT_OFF;
    assert_int_equal(smla_context_create(&context_desc, &context), SMLA_OK);
    assert_int_equal(smla_prepare(context, &desc, &kernel), SMLA_ERROR_NOT_CACHED);
    assert_error(
        SMLA_ERROR_NOT_CACHED, "combine h_q=64 d_v=512 target=90a",
        "smla-gen --sm 90a --op combine --h-q 64 --d-v 512 --emit cubin -o kernel.smlab && export SMLA_BUNDLE=");
    smla_context_destroy(context);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(launches_exactly_this),
        TEST(launches_after_previous),
        TEST(types_select_the_variant),
        TEST(passes_given_strides),
        TEST(optional_tensors_may_be_null),
        TEST(no_parts),
        TEST(nothing_to_do),
        TEST(many_queries_go_along_x),
        TEST(another_current_context),
        TEST(every_call_may_fail),
        TEST(refuses),
        TEST(alignment_follows_the_type),
        TEST(refuses_the_wrong_kernel),
        TEST(overlapping_reads),
        TEST(older_and_newer_arguments),
        TEST(support_needs_no_device),
        TEST(refusal_names_the_command),
    };
    return cmocka_run_group_tests_name("runtime.combine", tests, NULL, NULL);
}
