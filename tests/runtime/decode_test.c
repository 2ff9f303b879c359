/* smla_decode on the stub driver: the launches to their last byte, the workspace, every refusal. */
#include <limits.h>
#include <math.h>

#include "decode_params.h"
#include "harness.h"
#include "kernel.h"

/* Device pointers that nobody follows. */
#define DEVICE(type, address) ((type *)(uintptr_t)(address))

enum { SMS = 132, BLOCK_HEADS = 64, D_V = 512 };

struct call {
    struct world world;
    smla_kernel *kernel;     /* bf16, 64 heads */
    smla_kernel *invariant;  /* the same, batch invariant */
    smla_kernel *two_caches; /* v4 and v41_fp4 */
    smla_kernel *prefill, *reference, *combine;
    smla_decode_args args; /* good ones */
};

static smla_decode_args good_args(void)
{
    return (smla_decode_args){
        .struct_size = sizeof(smla_decode_args),
        .b = 5,
        .s_q = 3,
        .s_kv = 4096,
        .topk = 130,
        .sm_scale = 0.125f,
        .query = DEVICE(void, 0x10000),
        .kv = DEVICE(void, 0x20000),
        .indices = DEVICE(int32_t, 0x30004),
        .topk_length = DEVICE(int32_t, 0x40004),
        .attn_sink = DEVICE(float, 0x50004),
        .out = DEVICE(void, 0x60000),
        .lse = DEVICE(float, 0x70004),
        .workspace = DEVICE(void, 0x100000),
        .workspace_bytes = (uint64_t)1 << 40,
    };
}

static smla_kernel_desc decode_desc(void)
{
    return (smla_kernel_desc){
        .struct_size = sizeof(smla_kernel_desc), .op = SMLA_OP_DECODE, .h_q = 64, .d_qk = 512, .d_v = 512};
}

static void world_serve_decode(struct world *world)
{
    world->nvrtc->entry = "smla_sm90_decode smla_sm90_decode_turned smla_decode_combine";
    world->driver->param_bytes = sizeof(struct smla_decode_params);
}

/* The kernel itself, whatever the sizes; companion_test.c has what its companion takes. */
static smla_kernel *must_prepare_alone(smla_context *context, const smla_kernel_desc *desc)
{
    smla_kernel *kernel = must_prepare(context, desc);

    kernel->takes_companion.tile_heads = 0;
    return kernel;
}

static int setup(void **state)
{
    struct call *call = calloc(1, sizeof *call);
    const smla_context_desc context_desc = stub_context_desc();
    const smla_kernel_desc prefill = prefill_desc(), combine = combine_desc(), reference = reference_desc();
    smla_kernel_desc decode = decode_desc();

    if (call == NULL)
        return -1;
    *state = call;
    world_open_stubs(&call->world);
    call->world.driver->sm_count = SMS;
    if (smla_context_create(&context_desc, &call->world.context) != SMLA_OK)
        return -1;
    call->prefill = must_prepare(call->world.context, &prefill);
    world_serve_reference(&call->world);
    call->reference = must_prepare(call->world.context, &reference);
    world_serve_combine(&call->world);
    call->combine = must_prepare(call->world.context, &combine);
    world_serve_decode(&call->world);
    call->kernel = must_prepare_alone(call->world.context, &decode);
    decode.batch_invariant = 1;
    call->invariant = must_prepare(call->world.context, &decode);
    decode.batch_invariant = 0;
    decode.kv_format = "v4";
    decode.extra_kv_format = "v41_fp4";
    call->two_caches = must_prepare_alone(call->world.context, &decode);
    call->args = good_args();
    call->world.driver->clear_log();
    return 0;
}

static int teardown(void **state)
{
    struct call *call = *state;
    smla_kernel *const kernels[] = {call->kernel,  call->invariant, call->two_caches,
                                    call->prefill, call->reference, call->combine};

    call->world.driver->script.fail_call = 0;
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        smla_kernel_destroy(kernels[i]);
    smla_context_destroy(call->world.context);
    const bool clean = call->world.driver->live_libraries == 0;
    free(call);
    return clean ? 0 : -1;
}

static void must_decode(const struct call *call, smla_kernel *kernel, void *stream)
{
    if (smla_decode(kernel, &call->args, stream) != SMLA_OK)
        fail_msg("decode: %s", last_error().message);
}

static const struct smla_decode_params *params_of(const struct call *call)
{
    return (const void *)call->world.driver->params;
}

static void with_second_cache(struct call *call)
{
    call->args.kv_page_tokens = 64;
    call->args.extra_s_kv = 1000;
    call->args.extra_topk = 70;
    call->args.extra_kv = DEVICE(void, 0xb0000);
    call->args.extra_indices = DEVICE(int32_t, 0xc0004);
    call->args.extra_topk_length = DEVICE(int32_t, 0xd0004);
}

static uint64_t workspace_of(const smla_kernel *kernel, int64_t b, int64_t s_q, int64_t topk, int64_t extra_topk)
{
    uint64_t bytes = 0;

    if (smla_decode_workspace_size(kernel, b, s_q, topk, extra_topk, &bytes) != SMLA_OK)
        fail_msg("workspace: %s", last_error().message);
    return bytes;
}

/* ---- Launches ---- */

/* The fields that say how the call is shared. 15 units of 3 blocks of keys: 45 blocks of threads. */
static void expect_sharing(struct smla_decode_params *params, int blocks)
{
    params->part_out = DEVICE(float, 0x100000);
    params->part_lse = DEVICE(float, 0x100000 + 2 * blocks * BLOCK_HEADS * D_V * 4);
    params->shared = DEVICE(int, (uintptr_t)params->part_lse + (uintptr_t)(2 * blocks * BLOCK_HEADS * 4));
    params->s_q = 3;
    params->tokens = 15;
    params->pieces = 1;
    params->piece_blocks = 3;
    params->main_blocks = blocks;
    params->whole_items = 1;
    params->combine_runs = 2;
    params->starts_early = 1;
}

static void launches_exactly_this(void **state)
{
    struct call *call = *state;
    struct smla_decode_params params;
    char expected[512];
    smla_support support = {.struct_size = sizeof support};
    const smla_kernel_desc desc = decode_desc();

    assert_int_equal(smla_query_support(call->world.context, &desc, &support), SMLA_OK);
    assert_int_equal(support.launches, 2);
    call->world.driver->clear_log();
    call->args.lse_flags = SMLA_LSE_WITH_SINK;
    must_decode(call, call->kernel, (void *)0x51);
    snprintf(expected, sizeof expected,
             "cuCtxGetCurrent()\n"
             "cuLaunchKernelEx(grid 60 1 1, block %u 1 1, shared %u, stream 51, attrs 0, function 304, extra none, "
             "ctx c1)\n"
             "cuLaunchKernelEx(grid 240 1 1, block 256 1 1, shared 0, stream 51, attrs 1 (6: 1), function 314, extra "
             "none, ctx c1)\n",
             support.threads, support.shared_bytes);
    assert_string_equal(call->world.driver->log(), expected);
    memset(&params, 0, sizeof params);
    params.prefill.query = DEVICE(void, 0x10000);
    params.prefill.attn_sink = DEVICE(float, 0x50004);
    params.prefill.out = DEVICE(void, 0x60000);
    params.prefill.lse = DEVICE(float, 0x70004);
    params.prefill.query_stride_token = params.prefill.out_stride_token = 64 * 512;
    params.prefill.query_stride_head = params.prefill.out_stride_head = 512;
    params.prefill.lse_stride_token = 64;
    params.prefill.s_q = 3;
    params.prefill.sm_scale = 0.125f;
    params.prefill.lse_flags = SMLA_LSE_WITH_SINK;
    params.prefill.cache[0] = params_of(call)->prefill.cache[0]; /* as in prefill, whose test has it */
    params.indices_stride_request[0] = 3 * 130;
    params.topk_length_stride_request[0] = 3;
    params.query_stride_request = params.out_stride_request = 3 * 64 * 512;
    params.lse_stride_request = 3 * 64;
    params.lse_stride_head = 1;
    expect_sharing(&params, 60);
    assert_memory_equal(params_of(call), &params, sizeof params);
    assert_ptr_equal(params.prefill.cache[0].kv, DEVICE(void, 0x20000));
    assert_ptr_equal(params.prefill.cache[0].indices, DEVICE(int, 0x30004));
    assert_ptr_equal(params.prefill.cache[0].topk_length, DEVICE(int, 0x40004));
    assert_int_equal(params.prefill.cache[0].indices_stride_token, 130);
    assert_int_equal(params.prefill.cache[0].topk_length_stride, 1);
}

/* Launches of the last call; grid: of the first, combine: of the second, 0 for none. */
static void assert_grids(const struct call *call, int grid, int combine)
{
    char first[64], second[64];

    snprintf(first, sizeof first, "(grid %d 1 1,", grid);
    snprintf(second, sizeof second, "(grid %d 1 1, block 256", combine);
    assert_non_null(strstr(call->world.driver->log(), first));
    assert_int_equal(call->world.driver->calls("cuLaunchKernelEx"), combine ? 2 : 1);
    if (combine)
        assert_non_null(strstr(call->world.driver->log(), second));
}

/* M2: one token fills the card as many do, and no more blocks are launched than there is something to have for. */
static void test_M2_one_token_fills_the_card(void **state)
{
    static const struct {
        int64_t b, s_q, topk;
        int32_t sm_limit;
        int grid, combine;
        bool invariant;
    } rows[] = {
        {1, 1, 16384, 0, SMS, 32, false},     /* a run a thread combines the one unit */
        {1, 16, 640, 0, SMS, 16 * 16, false}, /* two */
        {1, 17, 640, 0, SMS, 17 * 8, false},  /* four: there are units enough */
        {1, 1, 640, 0, 11, 32, false},        {1, 1, 64, 0, 1, 0, false},     {1, 1, 0, 0, 1, 0, false},
        {1, 1, 65, 0, 1, 0, false}, /* cutting two blocks of keys never pays */
        {1, 1, 129, 0, 4, 32, false},         {1, 1, 16384, 1, 1, 0, false},  {1, 1, 16384, 7, 7, 8, false},
        {1, 1, 16384, 5000, SMS, 32, false},  {500, 2, 64, 0, SMS, 0, false}, {500, 2, 128, 0, SMS, 0, false},
        {1, 1, 1024, 0, 1, 0, true},          {1, 1, 1025, 0, 2, 32, true},   {3, 1, 16384, 0, 24, 96, true},
        {100, 1, 16384, 3, 3, 800, true},
    };
    struct call *call = *state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        call->world.driver->clear_log();
        call->args.b = rows[i].b;
        call->args.s_q = rows[i].s_q;
        call->args.topk = rows[i].topk;
        call->args.sm_limit = rows[i].sm_limit;
        must_decode(call, rows[i].invariant ? call->invariant : call->kernel, NULL);
        assert_grids(call, rows[i].grid, rows[i].combine);
        assert_int_equal(params_of(call)->main_blocks, rows[i].grid);
        assert_int_equal(params_of(call)->starts_early, rows[i].sm_limit == 0); /* beside others' kernels or not */
    }
}

/* Without lengths the kernel is told how the keys are divided: gen/plan_decode.c, divide_evenly. */
static void divides_what_has_no_lengths(void **state)
{
    static const struct {
        int64_t b, s_q, topk;
        int share, item_cost, token_cost, cuts, parts, part_blocks, main_blocks;
    } rows[] = {
        {5, 3, 130, 2, 3, 6, 0, 0, 0, 60},     /* 15 tokens of 3 blocks of keys and 3 for themselves, whole */
        {1, 1, 640, 1, 1, 11, 1, 10, 1, 10},   /* cut alike, a block of keys each */
        {100, 1, 640, 10, 3, 13, 0, 0, 0, 132} /* 1300 in 132 shares; whole ones take as long */
    };
    struct call *call = *state;
    const struct smla_decode_params *params = params_of(call);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        call->args.b = rows[i].b;
        call->args.s_q = rows[i].s_q;
        call->args.topk = rows[i].topk;
        call->args.topk_length = NULL;
        must_decode(call, call->kernel, NULL);
        assert_int_equal(params->even_share, rows[i].share);
        assert_int_equal(params->even_item_cost, rows[i].item_cost);
        assert_int_equal(params->even_token_cost, rows[i].token_cost);
        assert_int_equal(params->even_cuts, rows[i].cuts);
        assert_int_equal(params->even_parts, rows[i].parts);
        assert_int_equal(params->even_part_blocks, rows[i].part_blocks);
        assert_int_equal(params->main_blocks, rows[i].main_blocks);
        call->args.topk_length = DEVICE(int, 0x40004);
        must_decode(call, call->kernel, NULL);
        assert_int_equal(params->even_share, 0);
        assert_int_equal(params->even_parts, 0);
    }
}

static void passes_given_strides(void **state)
{
    struct call *call = *state;
    const struct smla_decode_params *params = params_of(call);

    call->args.query_stride_request = 8 * 11;
    call->args.query_stride_token = 8 * 7;
    call->args.query_stride_head = 8;
    call->args.out_stride_head = 512 * 15; /* [h_q, b, s_q]: requests and tokens inside */
    call->args.out_stride_token = 512;
    call->args.out_stride_request = 512 * 3;
    call->args.lse_stride_head = 3; /* [b, h_q, s_q] */
    call->args.lse_stride_token = 1;
    call->args.lse_stride_request = 192;
    call->args.indices_stride_token = 131;
    call->args.indices_stride_request = ((int64_t)1 << 33) + 1;
    call->args.topk_length_stride = 2;
    call->args.topk_length_stride_request = 9;
    must_decode(call, call->kernel, NULL);
    assert_int_equal(params->query_stride_request, 8 * 11);
    assert_int_equal(params->prefill.query_stride_token, 8 * 7);
    assert_int_equal(params->prefill.query_stride_head, 8);
    assert_int_equal(params->out_stride_request, 512 * 3);
    assert_int_equal(params->prefill.out_stride_token, 512);
    assert_int_equal(params->prefill.out_stride_head, 512 * 15);
    assert_int_equal(params->lse_stride_request, 192);
    assert_int_equal(params->prefill.lse_stride_token, 1);
    assert_int_equal(params->lse_stride_head, 3);
    assert_int_equal(params->indices_stride_request[0], ((int64_t)1 << 33) + 1);
    assert_int_equal(params->prefill.cache[0].indices_stride_token, 131);
    assert_int_equal(params->topk_length_stride_request[0], 9);
    assert_int_equal(params->prefill.cache[0].topk_length_stride, 2);
}

static void lengths_per_request(void **state)
{
    struct call *call = *state;
    const struct smla_decode_params *params = params_of(call);

    with_second_cache(call);
    call->args.decode_flags = SMLA_DECODE_LENGTHS_PER_REQUEST;
    must_decode(call, call->two_caches, NULL);
    assert_int_equal(params->topk_length_stride_request[0], 1);
    assert_int_equal(params->prefill.cache[0].topk_length_stride, 0);
    assert_int_equal(params->topk_length_stride_request[1], 3);
    assert_int_equal(params->prefill.cache[1].topk_length_stride, 1);
    call->args.decode_flags = SMLA_DECODE_EXTRA_LENGTHS_PER_REQUEST;
    call->args.extra_topk_length_stride_request = 4;
    must_decode(call, call->two_caches, NULL);
    assert_int_equal(params->topk_length_stride_request[0], 3);
    assert_int_equal(params->prefill.cache[0].topk_length_stride, 1);
    assert_int_equal(params->topk_length_stride_request[1], 4);
    assert_int_equal(params->prefill.cache[1].topk_length_stride, 0);
}

static void passes_two_caches(void **state)
{
    struct call *call = *state;
    const struct smla_decode_params *params = params_of(call);
    const struct smla_key_cache *extra = &params->prefill.cache[1];

    with_second_cache(call);
    must_decode(call, call->two_caches, NULL);
    assert_int_equal(params->prefill.cache[0].kv_stride_page, 64 * 584);
    assert_ptr_equal(extra->kv, DEVICE(void, 0xb0000));
    assert_ptr_equal(extra->indices, DEVICE(int, 0xc0004));
    assert_ptr_equal(extra->topk_length, DEVICE(int, 0xd0004));
    assert_int_equal(extra->s_kv, 1000);
    assert_int_equal(extra->topk, 70);
    assert_int_equal(extra->indices_stride_token, 70);
    assert_int_equal(params->indices_stride_request[1], 3 * 70);
    assert_int_equal(params->piece_blocks, 5); /* 130 and 70 entries, each list in blocks of its own */
    call->args.extra_indices_stride_request = 999;
    call->args.extra_indices_stride_token = 71;
    must_decode(call, call->two_caches, NULL);
    assert_int_equal(params->indices_stride_request[1], 999);
    assert_int_equal(extra->indices_stride_token, 71);
}

static void launches_after_previous(void **state)
{
    struct call *call = *state;
    const char *log;

    call->args.launch_flags = SMLA_LAUNCH_AFTER_PREVIOUS;
    must_decode(call, call->kernel, NULL);
    log = strstr(call->world.driver->log(), "attrs 1 (6: 1), function 304");
    assert_non_null(log);
    assert_non_null(strstr(log, "attrs 1 (6: 1), function 314"));
}

static void optional_tensors_may_be_null(void **state)
{
    struct call *call = *state;
    const struct smla_decode_params *params = params_of(call);

    call->args.topk_length = NULL;
    call->args.topk_length_stride_request = -7; /* of tensors that are not there */
    call->args.attn_sink = NULL;
    call->args.lse = NULL;
    call->args.lse_stride_head = -5;
    call->args.lse_stride_request = -5;
    must_decode(call, call->kernel, NULL);
    assert_null(params->prefill.cache[0].topk_length);
    assert_null(params->prefill.attn_sink);
    assert_null(params->prefill.lse);
    assert_int_equal(params->lse_stride_head, 1);
    call->args.topk = 0;
    call->args.indices = NULL;
    call->args.s_kv = 0;
    call->args.kv = NULL;
    must_decode(call, call->kernel, NULL);
}

/* A2: no requests, or no tokens of them: no launch, and what stands elsewhere does not matter. */
static void test_A2_nothing_to_do(void **state)
{
    struct call *call = *state;
    const smla_decode_args empty = {.struct_size = sizeof empty, .sm_scale = 1};
    smla_decode_args args = empty;

    assert_int_equal(smla_decode(call->kernel, &empty, NULL), SMLA_OK);
    args.b = 5;
    assert_int_equal(smla_decode(call->kernel, &args, NULL), SMLA_OK);
    args.b = 0;
    args.s_q = 5;
    args.topk = 100;
    assert_int_equal(smla_decode(call->kernel, &args, NULL), SMLA_OK);
    assert_int_equal(call->world.driver->calls(NULL), 0);
}

static void another_current_context(void **state)
{
    struct call *call = *state;

    call->world.driver->set_current((void *)0xc2);
    must_decode(call, call->kernel, NULL);
    assert_int_equal(call->world.driver->calls("cuLaunchKernelEx"), 2);
    assert_int_equal(call->world.driver->calls("cuCtxPushCurrent"), 1);
    assert_int_equal(call->world.driver->calls(NULL), 5);
    assert_ptr_equal(call->world.driver->get_current(), (void *)0xc2);
    assert_int_equal(call->world.driver->stack_depth(), 1);
}

static void every_call_may_fail(void **state)
{
    struct call *call = *state;

    for (int pushed = 0; pushed < 2; pushed++)
        for (int n = 1; n <= (pushed ? 5 : 3); n++) {
            call->world.driver->set_current(pushed ? (void *)0xc2 : TEST_CONTEXT);
            call->world.driver->clear_log();
            call->world.driver->script = (struct stub_script){.fail_call = n, .fail_code = 719};
            assert_int_equal(smla_decode(call->kernel, &call->args, NULL), SMLA_ERROR_DRIVER);
            assert_error(SMLA_ERROR_DRIVER, "CUDA_ERROR_LAUNCH_FAILED");
            assert_int_equal(last_error().native_code, 719);
            call->world.driver->script.fail_call = 0;
            if (!pushed || n < 5) /* when the context cannot be popped, it stays */
                assert_ptr_equal(call->world.driver->get_current(), pushed ? (void *)0xc2 : TEST_CONTEXT);
        }
}

/* Which of the two launches failed is said, and after the first the second is not tried. */
static void a_failed_launch_is_named(void **state)
{
    static const char *const texts[] = {"the launch of sm90_decode", "the launch of decode_combine (240 x 1 blocks"};
    struct call *call = *state;

    for (int n = 1; n <= 2; n++) {
        call->world.driver->clear_log();
        call->world.driver->script =
            (struct stub_script){.fail_name = "cuLaunchKernelEx", .fail_call = n, .fail_code = 719};
        assert_int_equal(smla_decode(call->kernel, &call->args, NULL), SMLA_ERROR_DRIVER);
        assert_error(SMLA_ERROR_DRIVER, texts[n - 1]);
        assert_int_equal(call->world.driver->calls("cuLaunchKernelEx"), n);
    }
}

/* ---- Workspace ---- */

/* What is asked for is enough, to the byte what the largest call of these sizes needs, and enough for each smaller. */
static void test_D7_workspace_is_enough(void **state)
{
    static const int64_t sizes[][3] = {{1, 1, 16384}, {5, 3, 130}, {64, 2, 640}, {1, 16, 2048}, {300, 1, 1100}};
    struct call *call = *state;

    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            smla_kernel *kernel = k ? call->invariant : call->kernel;
            const uint64_t bytes = workspace_of(kernel, sizes[i][0], sizes[i][1], sizes[i][2], 0);
            call->args.b = sizes[i][0];
            call->args.s_q = sizes[i][1];
            call->args.topk = sizes[i][2];
            call->args.workspace_bytes = bytes;
            must_decode(call, kernel, NULL);
            if (bytes == 0)
                continue;
            call->args.workspace_bytes = bytes - 1;
            assert_int_equal(smla_decode(kernel, &call->args, NULL), SMLA_ERROR_INVALID_ARGUMENT);
            assert_error(SMLA_ERROR_INVALID_ARGUMENT, "smla_decode_workspace_size");
            /* smaller in one size or in each, and on fewer multiprocessors */
            call->args.workspace_bytes = bytes;
            for (int64_t b = 1; b <= sizes[i][0]; b += b / 3 + 1)
                for (int64_t topk = 0; topk <= sizes[i][2]; topk += topk / 5 + 1) {
                    call->args.b = b;
                    call->args.topk = topk;
                    call->args.sm_limit = (int32_t)(topk % 7);
                    must_decode(call, kernel, NULL);
                }
            call->args.sm_limit = 0;
        }
}

/* It grows with each of its arguments, or stays. */
static void workspace_is_monotone(void **state)
{
    static const int64_t counts[] = {0, 1, 2, 3, 16, 17, 100, 132, 133, 1000};
    static const int64_t lists[] = {0,    1,    64,   65,   128,  640,   1024,  1025,
                                    2048, 8192, 8193, 8257, 9000, 16384, 16385, 70000};
    enum { COUNTS = sizeof counts / sizeof counts[0], LISTS = sizeof lists / sizeof lists[0] };
    struct call *call = *state;
    const smla_kernel *kernels[] = {call->kernel, call->invariant};

    for (int k = 0; k < 2; k++)
        for (int b = 0; b < COUNTS; b++)
            for (int t = 0; t < LISTS; t++) {
                const uint64_t bytes = workspace_of(kernels[k], counts[b], 2, lists[t], 0);
                assert_int_equal(bytes % 16, 0);
                if (b > 0)
                    assert_true(bytes >= workspace_of(kernels[k], counts[b - 1], 2, lists[t], 0));
                if (t > 0)
                    assert_true(bytes >= workspace_of(kernels[k], counts[b], 2, lists[t - 1], 0));
                assert_true(bytes >= workspace_of(kernels[k], counts[b], 1, lists[t], 0));
            }
    for (int t = 1; t < LISTS; t++) {
        assert_true(workspace_of(call->two_caches, 3, 1, 128, lists[t]) >=
                    workspace_of(call->two_caches, 3, 1, 128, lists[t - 1]));
        assert_true(workspace_of(call->two_caches, 3, 1, lists[t], 512) >=
                    workspace_of(call->two_caches, 3, 1, lists[t - 1], 512));
    }
}

/* H5: bounded by the multiprocessors, not by the tokens; 0 where nothing can be cut by topk alone. */
static void test_H5_workspace_is_bounded(void **state)
{
    struct call *call = *state;
    const uint64_t most = (uint64_t)2 * SMS * BLOCK_HEADS * (D_V + 1) * 4 + SMS * 8 + 16;

    assert_true(workspace_of(call->kernel, 1, 32768, 2048, 0) <= most);
    assert_true(workspace_of(call->kernel, 4096, 16, 16384, 0) <= most);
    assert_int_equal(workspace_of(call->invariant, 32768, 1, 1024, 0), 0);
    assert_int_equal(workspace_of(call->invariant, 2, 1, 1025, 0), 4 * BLOCK_HEADS * (D_V + 1) * 4);
    assert_int_equal(workspace_of(call->kernel, 0, 0, 0, 0), 0);
}

/* Cutting two blocks of keys never pays, whatever the lengths: one launch, which is told of no workspace. */
static void two_blocks_of_keys_need_no_workspace(void **state)
{
    struct call *call = *state;

    assert_int_equal(workspace_of(call->kernel, 4096, 16, 128, 0), 0);
    assert_int_equal(workspace_of(call->two_caches, 7, 1, 64, 64), 0);
    assert_true(workspace_of(call->kernel, 1, 1, 129, 0) > 0);
    call->world.driver->clear_log();
    call->args.topk = 128;
    call->args.workspace = NULL;
    call->args.workspace_bytes = 0;
    must_decode(call, call->kernel, NULL);
    assert_int_equal(call->world.driver->calls("cuLaunchKernelEx"), 1);
    assert_null(params_of(call)->part_out);
    assert_null(params_of(call)->shared);
}

static void workspace_refusals(void **state)
{
    struct call *call = *state;
    uint64_t bytes = 99;

    assert_int_equal(smla_decode_workspace_size(call->kernel, -1, 1, 1, 0, &bytes), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "max_b -1 is negative");
    assert_int_equal(smla_decode_workspace_size(call->kernel, 1, -2, 1, 0, &bytes), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "max_s_q -2 is negative");
    assert_int_equal(smla_decode_workspace_size(call->kernel, 1, 1, -3, 0, &bytes), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "max_topk -3 is negative");
    assert_int_equal(smla_decode_workspace_size(call->two_caches, 1, 1, 1, -4, &bytes), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "max_extra_topk -4 is negative");
    assert_int_equal(smla_decode_workspace_size(call->kernel, (int64_t)INT32_MAX + 1, 1, 1, 0, &bytes),
                     SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_decode_workspace_size(call->kernel, 1, 1, (int64_t)INT32_MAX + 1, 0, &bytes),
                     SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_decode_workspace_size(call->kernel, 1 << 16, 1 << 15, 1, 0, &bytes),
                     SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "b 65536, s_q 32768", "more than 2^30 blocks");
    assert_int_equal(smla_decode_workspace_size(NULL, 1, 1, 1, 0, &bytes), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_decode_workspace_size(call->prefill, 1, 1, 1, 0, &bytes), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "smla_decode_workspace_size", "SMLA_OP_DECODE");
    assert_int_equal(bytes, 99);
    assert_int_equal(smla_decode_workspace_size(call->kernel, 1, 1, 1, 0, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(call->world.driver->calls(NULL), 0);
}

/* The header: max_extra_topk is 0 for a kernel of one cache. */
static void one_cache_has_no_extra_topk(void **state)
{
    struct call *call = *state;
    uint64_t bytes = 99;

    assert_int_equal(smla_decode_workspace_size(call->kernel, 1, 1, 128, 512, &bytes), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "max_extra_topk 512: sm90_decode", "reads one cache, leave it 0");
    assert_int_equal(bytes, 99);
}

/* ---- Refusals ---- */

struct bad {
    const char *text;
    size_t offset;
    size_t size;
    int64_t value; /* its first bytes: this machine is little-endian */
};

#define BAD(field, number, text)                                                                                       \
    {                                                                                                                  \
        text, offsetof(smla_decode_args, field), sizeof((smla_decode_args *)0)->field, (int64_t)(number)               \
    }
#define BAD_SCALE(bits, text)                                                                                          \
    {                                                                                                                  \
        text, offsetof(smla_decode_args, sm_scale), sizeof(float), bits                                                \
    }

static const struct bad bad_arguments[] = {
    BAD(b, -1, "b -1 is negative"),
    BAD(b, (int64_t)INT32_MAX + 1, "b 2147483648: at most 2147483647"),
    BAD(b, INT32_MAX, "b 2147483647, s_q 3, topk 130, extra_topk 0: more than 2^30 blocks"),
    BAD(s_q, -1, "s_q -1 is negative"),
    BAD(s_q, (int64_t)INT32_MAX + 1, "s_q 2147483648: at most 2147483647"),
    BAD(s_q, INT32_MAX, "s_q 2147483647, topk 130, extra_topk 0: more than 2^30 blocks"),
    BAD(s_kv, -1, "s_kv -1 is negative"),
    BAD(topk, -1, "topk -1 is negative"),
    BAD(topk, (int64_t)INT32_MAX + 1, "topk 2147483648"),
    BAD(lse_flags, 8, "lse_flags 0x8"),
    BAD(decode_flags, 4, "decode_flags 0x4: SMLA_DECODE_* are 0x1 and 0x2"),
    BAD_SCALE(0x7fc00000, "sm_scale is NaN"),
    BAD_SCALE(0x7f800000, "sm_scale is infinite"),
    BAD_SCALE(0x7f7fffff, "with log2(e) it must be finite too"),
    BAD(sm_limit, -1, "sm_limit -1"),
    BAD(launch_flags, 2, "launch_flags 0x2"),
    BAD(query, 0, "query is NULL: a device pointer to [5, 3, 64, 512]"),
    BAD(kv, 0, "kv is NULL"),
    BAD(indices, 0, "indices is NULL: a device pointer to [5, 3, 1, 130]"),
    BAD(out, 0, "out is NULL: a device pointer to [5, 3, 64, 512]"),
    BAD(query, 0x10008, "query is at 0x10008: this kernel needs it aligned to 16 bytes"),
    BAD(kv, 0x20008, "kv is at 0x20008"),
    BAD(indices, 0x30002, "indices is at 0x30002"),
    BAD(topk_length, 0x40002, "topk_length is at 0x40002"),
    BAD(attn_sink, 0x50002, "attn_sink is at 0x50002"),
    BAD(out, 0x60008, "out is at 0x60008"),
    BAD(lse, 0x70002, "lse is at 0x70002"),
    BAD(workspace, 0, "workspace is NULL"),
    BAD(workspace, 0x100008, "workspace is at 0x100008: it must be aligned to 16 bytes"),
    BAD(workspace_bytes, 0, "workspace of 0 bytes: this call needs"),
    BAD(query_stride_request, -8, "query_stride_request -8 is negative"),
    BAD(query_stride_token, -8, "query_stride_token -8 is negative"),
    BAD(query_stride_head, -8, "query_stride_head -8 is negative"),
    BAD(query_stride_request, 12, "query_stride_request 12: this kernel needs a multiple of 8 elements (16 bytes)"),
    BAD(query_stride_token, 12, "query_stride_token 12"),
    BAD(query_stride_head, 516, "query_stride_head 516"),
    BAD(kv_stride_token, -8, "kv_stride_token -8 is negative"),
    BAD(kv_stride_token, 516, "kv_stride_token 516"),
    BAD(kv_stride_page, 512, "kv_stride_page 512 without pages: kv_page_tokens is 0"),
    BAD(kv_page_tokens, -1, "kv_page_tokens -1 is negative"),
    BAD(indices_stride_request, -1, "indices_stride_request -1 is negative"),
    BAD(indices_stride_token, -1, "indices_stride_token -1 is negative"),
    BAD(topk_length_stride_request, -1, "topk_length_stride_request -1 is negative"),
    BAD(topk_length_stride, -1, "topk_length_stride -1 is negative"),
    BAD(out_stride_request, -8, "out_stride_request -8 is negative"),
    BAD(out_stride_token, -8, "out_stride_token -8 is negative"),
    BAD(out_stride_head, -8, "out_stride_head -8 is negative"),
    BAD(out_stride_request, 98308, "out_stride_request 98308"),
    BAD(out_stride_token, 32772, "out_stride_token 32772"),
    BAD(out_stride_head, 516, "out_stride_head 516"),
    BAD(lse_stride_request, -1, "lse_stride_request -1 is negative"),
    BAD(lse_stride_token, -1, "lse_stride_token -1 is negative"),
    BAD(lse_stride_head, -1, "lse_stride_head -1 is negative"),
    BAD(out_stride_request, 512, "out overlaps itself: [5, 3, 64, 512] with strides of 512, 32768 and 512 elements"),
    BAD(out_stride_token, 512, "out overlaps itself"),
    BAD(out_stride_head, 504, "out overlaps itself"),
    BAD(lse_stride_request, 191, "lse overlaps itself"),
    BAD(lse_stride_token, 63, "lse overlaps itself"),
    BAD(query_stride_request, INT64_MAX / 8 * 8, "query reaches past 2^63 bytes"),
    BAD(query_stride_request, INT64_MAX / 8 / 8 * 8, "query reaches past 2^63 bytes"),
    BAD(query_stride_token, INT64_MAX / 8 * 8, "query reaches past 2^63 bytes"),
    BAD(query_stride_head, INT64_MAX / 8 * 8, "query reaches past 2^63 bytes"),
    BAD(indices_stride_request, INT64_MAX / 4, "indices reaches past 2^63 bytes"),
    BAD(indices_stride_token, INT64_MAX, "indices reaches past 2^63 bytes"),
    BAD(topk_length_stride_request, INT64_MAX / 4, "topk_length reaches past 2^63 bytes"),
    BAD(topk_length_stride, INT64_MAX, "topk_length reaches past 2^63 bytes"),
    BAD(out_stride_request, INT64_MAX / 8 * 8, "out reaches past 2^63 bytes"),
    BAD(lse_stride_request, INT64_MAX / 4, "lse reaches past 2^63 bytes"),
    /* of a kernel of one cache */
    BAD(extra_s_kv, 1, "a second cache is given"),
    BAD(extra_topk, 1, "a second cache is given"),
    BAD(extra_kv, 0xb0000, "a second cache is given"),
    BAD(extra_indices, 0xc0000, "a second cache is given"),
    BAD(extra_topk_length, 0xd0000, "a second cache is given"),
    BAD(extra_kv_page_tokens, 64, "a second cache is given"),
    BAD(extra_kv_stride_page, 64, "a second cache is given"),
    BAD(extra_kv_stride_token, 64, "a second cache is given"),
    BAD(extra_indices_stride_request, 64, "a second cache is given"),
    BAD(extra_indices_stride_token, 64, "a second cache is given"),
    BAD(extra_topk_length_stride_request, 64, "a second cache is given"),
    BAD(extra_topk_length_stride, 64, "a second cache is given"),
};

static const struct bad bad_caches[] = {
    BAD(kv_page_tokens, 0, "kv_page_tokens is 0: in this format a page's scales stand behind its values"),
    BAD(kv_page_tokens, 53, "kv_stride_page 30952: this kernel needs a multiple of 16 elements (16 bytes)"),
    BAD(kv_stride_token, 584, "kv_stride_token 584: tokens have no stride in a format placed by page"),
    BAD(kv_stride_page, 64 * 584 - 16, "kv_stride_page 37360: a token of this kernel's format has 584 bytes"),
    BAD(kv_stride_page, INT64_MAX / 16 * 16, "kv reaches past 2^63 bytes"),
    BAD(extra_s_kv, -1, "extra_s_kv -1 is negative"),
    BAD(extra_topk, -1, "extra_topk -1 is negative"),
    BAD(extra_topk, (int64_t)INT32_MAX + 1, "extra_topk 2147483648"),
    BAD(extra_kv, 0, "extra_kv is NULL"),
    BAD(extra_kv, 0xb0008, "extra_kv is at 0xb0008"),
    BAD(extra_indices, 0, "extra_indices is NULL: a device pointer to [5, 3, 1, 70]"),
    BAD(extra_indices, 0xc0002, "extra_indices is at 0xc0002"),
    BAD(extra_topk_length, 0xd0002, "extra_topk_length is at 0xd0002"),
    BAD(extra_kv_stride_token, 296, "extra_kv_stride_token 296"),
    BAD(extra_kv_stride_page, 1024, "extra_kv_stride_page 1024 without pages: extra_kv_page_tokens is 0"),
    BAD(extra_indices_stride_request, -1, "extra_indices_stride_request -1 is negative"),
    BAD(extra_indices_stride_token, -1, "extra_indices_stride_token -1 is negative"),
    BAD(extra_topk_length_stride_request, -1, "extra_topk_length_stride_request -1 is negative"),
    BAD(extra_topk_length_stride, -1, "extra_topk_length_stride -1 is negative"),
};

/* The struct must come back as it was, nothing may be launched, and the sentence must name the tensor. */
static void refuse_each(const struct call *call, smla_kernel *kernel, const struct bad *list, size_t count)
{
    for (const struct bad *bad = list; bad < list + count; bad++) {
        smla_decode_args args = call->args, before;
        memcpy((char *)&args + bad->offset, &bad->value, bad->size);
        before = args;
        if (smla_decode(kernel, &args, NULL) != SMLA_ERROR_INVALID_ARGUMENT)
            fail_msg("accepted: %s", bad->text);
        assert_error(SMLA_ERROR_INVALID_ARGUMENT, bad->text);
        assert_memory_equal(&args, &before, sizeof args);
        assert_int_equal(call->world.driver->calls(NULL), 0);
    }
}

static void refuses(void **state)
{
    struct call *call = *state;

    refuse_each(call, call->kernel, bad_arguments, sizeof bad_arguments / sizeof bad_arguments[0]);
    with_second_cache(call);
    refuse_each(call, call->two_caches, bad_caches, sizeof bad_caches / sizeof bad_caches[0]);
}

/* Lengths per request have no stride of tokens. */
static void refuses_strides_that_are_not_there(void **state)
{
    struct call *call = *state;

    with_second_cache(call);
    call->args.decode_flags = SMLA_DECODE_LENGTHS_PER_REQUEST;
    call->args.topk_length_stride = 1;
    assert_int_equal(smla_decode(call->two_caches, &call->args, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "topk_length_stride 1: lengths per request have no stride of tokens");
    call->args.decode_flags = SMLA_DECODE_EXTRA_LENGTHS_PER_REQUEST;
    call->args.extra_topk_length_stride = 2;
    assert_int_equal(smla_decode(call->two_caches, &call->args, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "extra_topk_length_stride 2");
    assert_int_equal(call->world.driver->calls(NULL), 0);
}

/* One request, token or head: its stride does not matter, and is not held against the caller. */
static void strides_that_do_not_matter(void **state)
{
    struct call *call = *state;

    call->args.b = 1;
    call->args.out_stride_request = 8;
    call->args.lse_stride_request = 1;
    must_decode(call, call->kernel, NULL);
    call->args.query_stride_request = INT64_MAX / 8 * 8;
    must_decode(call, call->kernel, NULL);
    call->args.s_q = 1;
    call->args.out_stride_token = 8;
    call->args.lse_stride_token = 1;
    must_decode(call, call->kernel, NULL);
}

/* Reads may overlap as they like: one query and one list for all. */
static void overlapping_reads(void **state)
{
    struct call *call = *state;

    call->args.query_stride_request = call->args.query_stride_token = call->args.query_stride_head = 8;
    call->args.kv_stride_token = 8;
    call->args.indices_stride_request = call->args.indices_stride_token = 1;
    call->args.topk_length_stride_request = call->args.topk_length_stride = 1;
    must_decode(call, call->kernel, NULL);
}

/* Every call against kernels of every other operator. */
static void refuses_the_wrong_kernel(void **state)
{
    struct call *call = *state;
    smla_kernel *const others[] = {NULL, call->prefill, call->reference, call->combine};
    const smla_prefill_args prefill = {.struct_size = sizeof prefill, .sm_scale = 1};
    const smla_combine_args combine = {.struct_size = sizeof combine};
    uint64_t bytes = 99;

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(smla_decode(others[i], &call->args, NULL), SMLA_ERROR_INVALID_ARGUMENT);
        assert_error(SMLA_ERROR_INVALID_ARGUMENT, "smla_decode: ", i ? "SMLA_OP_DECODE" : "kernel is NULL");
    }
    assert_int_equal(smla_prefill(call->kernel, &prefill, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "smla_prefill", "SMLA_OP_DECODE");
    assert_int_equal(smla_combine(call->kernel, &combine, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "smla_combine", "SMLA_OP_COMBINE");
    assert_int_equal(smla_prefill_workspace_size(call->kernel, 1, 1, &bytes), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(bytes, 99);
    assert_int_equal(smla_decode(call->kernel, NULL, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(call->world.driver->calls(NULL), 0);
}

/* An older caller's struct: exactly its bytes are read (ASan watches), the rest is zero. */
static void older_arguments(void **state)
{
    struct call *call = *state;
    smla_decode_args *old;

    call->args.sm_limit = -1; /* beyond what it has */
    call->args.extra_topk = 70;
    old = older_struct(&call->args, offsetof(smla_decode_args, extra_s_kv));
    assert_int_equal(smla_decode(call->kernel, old, NULL), SMLA_OK);
    assert_ptr_equal(params_of(call)->prefill.lse, DEVICE(float, 0x70004));
    assert_ptr_equal(params_of(call)->part_out, DEVICE(float, 0x100000));
    free(old);
    old = older_struct(&call->args, offsetof(smla_decode_args, workspace));
    assert_int_equal(smla_decode(call->kernel, old, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "workspace is NULL");
    free(old);
    old = older_struct(&call->args, offsetof(smla_decode_args, b));
    assert_int_equal(smla_decode(call->kernel, old, NULL), SMLA_OK); /* no requests */
    free(old);
}

static void newer_arguments(void **state)
{
    struct call *call = *state;
    struct {
        smla_decode_args args;
        uint64_t new_field;
    } newer = {.args = good_args()};

    newer.args.struct_size = sizeof newer;
    assert_int_equal(smla_decode(call->kernel, &newer.args, NULL), SMLA_OK);
    newer.new_field = 1;
    assert_int_equal(smla_decode(call->kernel, &newer.args, NULL), SMLA_ERROR_UNSUPPORTED);
    newer.args.struct_size = 0;
    assert_int_equal(smla_decode(call->kernel, &newer.args, NULL), SMLA_ERROR_INVALID_ARGUMENT);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(launches_exactly_this),
        TEST(test_M2_one_token_fills_the_card),
        TEST(divides_what_has_no_lengths),
        TEST(passes_given_strides),
        TEST(lengths_per_request),
        TEST(passes_two_caches),
        TEST(launches_after_previous),
        TEST(optional_tensors_may_be_null),
        TEST(test_A2_nothing_to_do),
        TEST(another_current_context),
        TEST(every_call_may_fail),
        TEST(a_failed_launch_is_named),
        TEST(test_D7_workspace_is_enough),
        TEST(workspace_is_monotone),
        TEST(test_H5_workspace_is_bounded),
        TEST(two_blocks_of_keys_need_no_workspace),
        TEST(workspace_refusals),
        TEST(one_cache_has_no_extra_topk),
        TEST(refuses),
        TEST(refuses_strides_that_are_not_there),
        TEST(strides_that_do_not_matter),
        TEST(overlapping_reads),
        TEST(refuses_the_wrong_kernel),
        TEST(older_arguments),
        TEST(newer_arguments),
    };
    return cmocka_run_group_tests_name("runtime.decode", tests, NULL, NULL);
}
