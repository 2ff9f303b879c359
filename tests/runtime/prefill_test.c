/* smla_prefill on the stub driver: the launch to its last byte, the calls it takes, every refusal. */
#include <limits.h>
#include <math.h>
#include <pthread.h>

#include "harness.h"
#include "prefill_tensor_params.h"

/* Device pointers that nobody follows. */
#define DEVICE(type, address) ((type *)(uintptr_t)(address))

struct call {
    struct world world;
    smla_kernel *kernel;
    smla_kernel *two_caches; /* v4 and v41_fp4 */
    smla_kernel *reference;
    smla_prefill_args args; /* good ones */
};

static smla_prefill_args good_args(void)
{
    return (smla_prefill_args){
        .struct_size = sizeof(smla_prefill_args),
        .s_q = 7,
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
        .max_logits = DEVICE(float, 0x80004),
    };
}

static int setup(void **state)
{
    struct call *call = calloc(1, sizeof *call);
    const smla_context_desc context_desc = stub_context_desc();
    const smla_kernel_desc prefill = prefill_desc(), reference = reference_desc();
    smla_kernel_desc two_caches = prefill_desc();

    if (call == NULL)
        return -1;
    *state = call;
    world_open_stubs(&call->world);
    if (smla_context_create(&context_desc, &call->world.context) != SMLA_OK)
        return -1;
    call->kernel = must_prepare(call->world.context, &prefill);
    two_caches.kv_format = "v4";
    two_caches.extra_kv_format = "v41_fp4";
    call->two_caches = must_prepare(call->world.context, &two_caches);
    world_serve_reference(&call->world);
    call->reference = must_prepare(call->world.context, &reference);
    call->args = good_args();
    call->world.driver->clear_log();
    return 0;
}

static int teardown(void **state)
{
    struct call *call = *state;

    smla_kernel_destroy(call->kernel);
    smla_kernel_destroy(call->two_caches);
    smla_kernel_destroy(call->reference);
    smla_context_destroy(call->world.context);
    const bool clean = call->world.driver->live_libraries == 0;
    free(call);
    return clean ? 0 : -1;
}

static void must_prefill(const struct call *call, smla_kernel *kernel, void *stream)
{
    if (smla_prefill(kernel, &call->args, stream) != SMLA_OK)
        fail_msg("prefill: %s", last_error().message);
}

static void launches_exactly_this(void **state)
{
    struct call *call = *state;
    struct smla_prefill_params params;
    char expected[512];
    smla_support support = {.struct_size = sizeof support};
    const smla_kernel_desc desc = prefill_desc();

    assert_int_equal(smla_query_support(call->world.context, &desc, &support), SMLA_OK);
    call->world.driver->clear_log();
    call->args.s_q = 100;
    must_prefill(call, call->kernel, (void *)0x51);
    snprintf(expected, sizeof expected,
             "cuCtxGetCurrent()\n"
             "cuLaunchKernelEx(grid 100 1 1, block %u 1 1, shared %u, stream 51, attrs 0, function 301, extra none, "
             "ctx c1)\n",
             support.threads, support.shared_bytes);
    assert_string_equal(call->world.driver->log(), expected);
    memset(&params, 0, sizeof params);
    params.query = DEVICE(void, 0x10000);
    params.cache[0].kv = DEVICE(void, 0x20000);
    params.cache[0].indices = DEVICE(int, 0x30004);
    params.cache[0].topk_length = DEVICE(int, 0x40004);
    params.attn_sink = DEVICE(float, 0x50004);
    params.out = DEVICE(void, 0x60000);
    params.lse = DEVICE(float, 0x70004);
    params.max_logits = DEVICE(float, 0x80004);
    params.query_stride_token = 64 * 512;
    params.query_stride_head = 512;
    params.cache[0].kv_stride_token = 512;
    params.cache[0].indices_stride_token = 130;
    params.cache[0].topk_length_stride = 1;
    params.out_stride_token = 64 * 512;
    params.out_stride_head = 512;
    params.lse_stride_token = 64;
    params.max_logits_stride_token = 64;
    params.s_q = 100;
    params.cache[0].s_kv = 4096;
    params.cache[0].page_tokens = 1u << 31; /* one page */
    params.cache[0].page_multiplier = 1u << 31;
    params.cache[0].page_shift = 62;
    params.cache[0].topk = 130;
    params.sm_scale = 0.125f;
    assert_memory_equal(call->world.driver->params, &params, sizeof params);
}

static void passes_given_strides(void **state)
{
    struct call *call = *state;
    const struct smla_prefill_params *params = (const void *)call->world.driver->params;

    call->args.query_stride_head = 640;
    call->args.kv_stride_token = 576;
    call->args.indices_stride_token = 200;
    call->args.topk_length_stride = 3;
    call->args.out_stride_token = 512; /* heads outside, tokens inside */
    call->args.out_stride_head = 512 * 7;
    call->args.lse_stride_token = 80;
    call->args.max_logits_stride_token = 96;
    call->args.lse_flags = SMLA_LSE_BASE_2 | SMLA_LSE_EMPTY_NEGATIVE;
    call->args.s_kv = (int64_t)1 << 40;
    must_prefill(call, call->kernel, NULL);
    assert_int_equal(params->query_stride_head, 640);
    assert_int_equal(params->query_stride_token, 640 * 64);
    assert_int_equal(params->cache[0].kv_stride_token, 576);
    assert_int_equal(params->cache[0].indices_stride_token, 200);
    assert_int_equal(params->cache[0].topk_length_stride, 3);
    assert_int_equal(params->out_stride_token, 512);
    assert_int_equal(params->out_stride_head, 512 * 7);
    assert_int_equal(params->lse_stride_token, 80);
    assert_int_equal(params->max_logits_stride_token, 96);
    assert_int_equal(params->lse_flags, 5);
    assert_int_equal(params->cache[0].s_kv, 1u << 31);
    assert_non_null(strstr(call->world.driver->log(), "stream 0,"));
}

/* What a kernel gets of a page size divides every index as it should. */
static void check_division(const struct smla_key_cache *cache, uint32_t tokens)
{
    static const uint32_t indices[] = {0, 1, 2, 63, 64, 1000003, 0x7ffffffe, 0x7fffffff};

    assert_int_equal(cache->page_tokens, tokens);
    for (size_t i = 0; i < sizeof indices / sizeof indices[0]; i++) {
        const uint64_t page = (uint64_t)indices[i] * cache->page_multiplier >> cache->page_shift;
        assert_int_equal(page, indices[i] / tokens);
        const uint32_t last = indices[i] / tokens * tokens; /* of the page before, and the first of this one */
        assert_int_equal((uint64_t)last * cache->page_multiplier >> cache->page_shift, last / tokens);
        if (last > 0)
            assert_int_equal((uint64_t)(last - 1) * cache->page_multiplier >> cache->page_shift, (last - 1) / tokens);
    }
}

static void passes_pages(void **state)
{
    struct call *call = *state;
    const struct smla_prefill_params *params = (const void *)call->world.driver->params;
    call->args.s_q = 100; /* few queries have one entry point */
    static const uint32_t sizes[] = {1, 2, 3, 53, 61, 64, 69, 256, 576, 641, 65537, 0x40000001, 0x7fffffff};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        call->args.kv_page_tokens = sizes[i];
        must_prefill(call, call->kernel, NULL);
        check_division(&params->cache[0], sizes[i]);
        assert_int_equal(params->cache[0].kv_stride_token, 512);
        assert_int_equal(params->cache[0].kv_stride_page, (int64_t)sizes[i] * 512);
    }
    assert_non_null(strstr(call->world.driver->log(), "function 311,")); /* the entry point for pages */
    assert_null(strstr(call->world.driver->log(), "function 301,"));
    call->args.kv_page_tokens = 64;
    call->args.kv_stride_token = 520;
    call->args.kv_stride_page = 64 * 520 + 8;
    must_prefill(call, call->kernel, NULL);
    assert_int_equal(params->cache[0].kv_stride_token, 520);
    assert_int_equal(params->cache[0].kv_stride_page, 64 * 520 + 8);
    call->args.kv_page_tokens = 0;
    call->args.kv_stride_page = 0;
    must_prefill(call, call->kernel, NULL);
    check_division(&params->cache[0], 1u << 31); /* all is page 0 */
    assert_non_null(strstr(call->world.driver->log(), "function 301,"));
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

static void passes_two_caches(void **state)
{
    struct call *call = *state;
    const struct smla_prefill_params *params = (const void *)call->world.driver->params;
    const struct smla_key_cache *extra = &params->cache[1];

    with_second_cache(call);
    must_prefill(call, call->two_caches, NULL);
    assert_int_equal(params->cache[0].kv_stride_token, 0); /* placed by page */
    assert_int_equal(params->cache[0].kv_stride_page, 64 * 584);
    assert_ptr_equal(extra->kv, DEVICE(void, 0xb0000));
    assert_ptr_equal(extra->indices, DEVICE(int, 0xc0004));
    assert_ptr_equal(extra->topk_length, DEVICE(int, 0xd0004));
    assert_int_equal(extra->s_kv, 1000);
    assert_int_equal(extra->topk, 70);
    assert_int_equal(extra->kv_stride_token, 288);
    assert_int_equal(extra->indices_stride_token, 70);
    assert_int_equal(extra->topk_length_stride, 1);
    call->args.kv_stride_page = 64 * 584 + 64;
    call->args.extra_kv_page_tokens = 2;
    call->args.extra_kv_stride_page = 1024;
    call->args.extra_indices_stride_token = 80;
    call->args.extra_topk_length_stride = 2;
    must_prefill(call, call->two_caches, NULL);
    assert_int_equal(params->cache[0].kv_stride_page, 64 * 584 + 64);
    assert_int_equal(extra->kv_stride_page, 1024);
    assert_int_equal(extra->page_tokens, 2);
    assert_int_equal(extra->indices_stride_token, 80);
    assert_int_equal(extra->topk_length_stride, 2);
    /* no second cache this time */
    call->args.extra_s_kv = call->args.extra_topk = 0;
    call->args.extra_kv = NULL;
    call->args.extra_indices = NULL;
    must_prefill(call, call->two_caches, NULL);
    assert_int_equal(extra->topk, 0);
}

static void optional_tensors_may_be_null(void **state)
{
    struct call *call = *state;
    const struct smla_prefill_params *params = (const void *)call->world.driver->params;

    call->args.topk_length = NULL;
    call->args.attn_sink = NULL;
    call->args.lse = NULL;
    call->args.lse_stride_token = -5; /* of a tensor that is not there */
    call->args.max_logits = NULL;
    must_prefill(call, call->kernel, NULL);
    assert_null(params->cache[0].topk_length);
    assert_null(params->lse);
    assert_int_equal(params->lse_stride_token, 64);
    call->args.s_kv = 0;
    call->args.kv = NULL;
    call->args.topk = 0;
    call->args.indices = NULL;
    must_prefill(call, call->kernel, NULL);
    assert_int_equal(params->cache[0].topk, 0);
}

static void reference_launch(void **state)
{
    struct call *call = *state;
    const struct smla_prefill_params *params = (const void *)call->world.driver->params;

    call->args.ref_out_abs = DEVICE(float, 0x90004);
    call->args.ref_logit_abs = DEVICE(float, 0xa0004);
    call->args.out = DEVICE(void, 0x60004);
    must_prefill(call, call->reference, NULL);
    assert_non_null(strstr(call->world.driver->log(), "grid 7 64 1, block 128 1 1, shared 0,"));
    assert_ptr_equal(params->ref_out_abs, DEVICE(float, 0x90004));
    assert_ptr_equal(params->ref_logit_abs, DEVICE(float, 0xa0004));
    call->args.out = DEVICE(void, 0x60002); /* float32 here */
    assert_int_equal(smla_prefill(call->reference, &call->args, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "out is at", "4 bytes");
}

/* A persistent kernel's blocks share the queries: no more of them than multiprocessors, nor than queries. */
static void persistent_launch(void **state)
{
    struct call *call = *state;
    smla_kernel_desc desc = prefill_desc();

    desc.flags = 0;
    desc.batch_invariant = 1; /* whose few queries are not split */
    call->world.nvrtc->entry = "smla_sm90_prefill_persistent smla_sm90_prefill_persistent_paged "
                               "smla_sm90_prefill_persistent_lengths";
    call->world.driver->param_bytes = sizeof(struct smla_prefill_tensor_params);
    call->world.driver->param_offset = 48; /* of what the driver counts from, to a multiple of 64 */
    call->world.driver->sm_count = 4;
    smla_kernel *kernel = must_prepare(call->world.context, &desc);
    call->world.driver->sm_count = 132; /* of kernels to come */
    must_prefill(call, kernel, NULL);
    assert_non_null(strstr(call->world.driver->log(), "cuLaunchKernelEx(grid 4 1 1, block 384 1 1,"));
    call->args.s_q = 3;
    call->world.driver->clear_log();
    call->world.driver->set_current(NULL);
    must_prefill(call, kernel, NULL);
    static const char maps[] =
        "cuCtxGetCurrent()\ncuCtxPushCurrent(ctx c1)\n" /* encoding takes a context */
        "cuTensorMapEncodeTiled(type 9, rank 3, at 10000, dims 512 64 3, strides 1024 65536, box 64 64 1, steps 1 1 1, "
        "0 3 3 0, ctx c1)\n"
        "cuTensorMapEncodeTiled(type 9, rank 3, at 60000, dims 512 64 3, strides 1024 65536, box 64 64 1, steps 1 1 1, "
        "0 3 3 0, ctx c1)\n"
        "cuLaunchKernelEx(grid 3 1 1, block 384 1 1,";
    assert_memory_equal(call->world.driver->log(), maps, sizeof maps - 1);
    struct smla_prefill_tensor_params params;
    memcpy(&params, call->world.driver->params, sizeof params);
    assert_memory_equal(&params.query_map, "@@@@", 4); /* what the stub has written: the box's heads */
    assert_memory_equal(&params.out_map, "@@@@", 4);
    /* Of one token the stride means nothing; of more it has a bound. */
    call->args.s_q = 1;
    call->args.query_stride_token = (int64_t)1 << 45;
    must_prefill(call, kernel, NULL);
    call->args.s_q = 2;
    assert_int_equal(smla_prefill(kernel, &call->args, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "query_stride_token 35184372088832",
                 "a tensor map has strides below 2^40 bytes");
    smla_kernel_destroy(kernel);
}

/* Few queries: as many blocks a query as there are multiprocessors for, and blocks of keys; paged or not. Narrow tiles
 * where lists are not too long for them. */
static void few_queries_launch_in_clusters(void **state)
{
    static const struct {
        int64_t s_q, topk, page_tokens;
        const char *launch;
    } rows[] = {
        {1, 640, 0, "(grid 32 1 1, block 576 1 1, shared 222848, stream 0, attrs 1 (4: 8), function 331,"},
        {4, 640, 0, "(grid 128 1 1, block 576 1 1, shared 222848, stream 0, attrs 1 (4: 8), function 331,"},
        {5, 640, 0, "(grid 80 1 1, block 576 1 1, shared 222848, stream 0, attrs 1 (4: 4), function 331,"},
        {8, 640, 64, "(grid 128 1 1, block 576 1 1, shared 222848, stream 0, attrs 1 (4: 4), function 331,"},
        {8, 1600, 0, "(grid 64 1 1, block 256 1 1, shared 214592, stream 0, attrs 1 (4: 8), function 321,"},
        {9, 640, 0, "(grid 72 1 1, block 576 1 1, shared 222848, stream 0, attrs 1 (4: 2), function 331,"},
        {16, 640, 0, "(grid 128 1 1, block 576 1 1, shared 222848, stream 0, attrs 1 (4: 2), function 331,"},
        {16, 800, 64, "(grid 128 1 1, block 256 1 1, shared 214592, stream 0, attrs 1 (4: 8), function 321,"},
        {17, 640, 0, "(grid 68 1 1, block 256 1 1, shared 214592, stream 0, attrs 1 (4: 4), function 321,"},
        {34, 640, 0, "(grid 68 1 1, block 256 1 1, shared 214592, stream 0, attrs 1 (4: 2), function 321,"},
        {66, 640, 0, "(grid 132 1 1, block 256 1 1, shared 214592, stream 0, attrs 1 (4: 2), function 321,"},
        {67, 640, 0, "(grid 67 1 1, block 384 1 1, shared 213832, stream 0, attrs 0, function 301,"},
        {67, 640, 64, "(grid 67 1 1, block 384 1 1, shared 213832, stream 0, attrs 0, function 311,"},
        {1, 448, 0, "(grid 16 1 1, block 576 1 1, shared 222848, stream 0, attrs 1 (4: 4), function 331,"},
        {1, 65, 0, "(grid 8 1 1, block 576 1 1, shared 222848, stream 0, attrs 1 (4: 2), function 331,"},
        {1, 64, 0, "(grid 1 1 1, block 384 1 1, shared 213832, stream 0, attrs 0, function 301,"},
        {1, 0, 0, "(grid 1 1 1, block 384 1 1, shared 213832, stream 0, attrs 0, function 301,"},
    };
    struct call *call = *state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        call->args.s_q = rows[i].s_q;
        call->args.topk = rows[i].topk;
        call->args.kv_page_tokens = rows[i].page_tokens;
        call->world.driver->clear_log();
        must_prefill(call, call->kernel, NULL);
        if (strstr(call->world.driver->log(), rows[i].launch) == NULL)
            fail_msg("s_q %d, topk %d: %s", (int)rows[i].s_q, (int)rows[i].topk, call->world.driver->log());
    }
}

static void must_launch_once(const struct call *call, smla_kernel *kernel)
{
    call->world.driver->clear_log();
    must_prefill(call, kernel, NULL);
    assert_int_equal(call->world.driver->calls("cuLaunchKernelEx"), 1);
}

/* What a persistent kernel would have a round for, with most of its multiprocessors idle, takes narrow tiles behind it:
 * the call's last tokens. */
static void last_round_is_a_launch_of_its_own(void **state)
{
    static const struct {
        int64_t s_q;
        unsigned blocks, last_blocks; /* 0: one launch */
    } rows[] = {{132, 132, 0}, {133, 132, 32}, {264, 132, 0}, {132 + 17, 132, 0}, {4096, 132, 128}};
    struct call *call = *state;
    smla_kernel_desc desc = prefill_desc();
    char expected[64];

    desc.flags = 0;
    world_serve_all(&call->world);
    smla_kernel *kernel = must_prepare(call->world.context, &desc);
    call->args.topk_length = NULL;
    call->args.topk = 640;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct smla_prefill_params *params = (const void *)call->world.driver->params;
        const int64_t first = rows[i].s_q / 132 * 132;

        call->args.s_q = rows[i].s_q;
        call->world.driver->clear_log();
        must_prefill(call, kernel, NULL);
        snprintf(expected, sizeof expected, "cuLaunchKernelEx(grid %u 1 1, block 384 1 1,", rows[i].blocks);
        assert_non_null(strstr(call->world.driver->log(), expected));
        assert_int_equal(call->world.driver->calls("cuLaunchKernelEx"), rows[i].last_blocks > 0 ? 2 : 1);
        if (rows[i].last_blocks == 0)
            continue;
        snprintf(expected, sizeof expected, "cuLaunchKernelEx(grid %u 1 1, block 576 1 1,", rows[i].last_blocks);
        assert_non_null(strstr(call->world.driver->log(), expected));
        assert_non_null(strstr(call->world.driver->log(), "6: 1)"));
        assert_int_equal(params->s_q, rows[i].s_q - first);
        assert_ptr_equal(params->query, (const char *)call->args.query + first * 64 * 512 * 2);
        assert_ptr_equal(params->out, (const char *)call->args.out + first * 64 * 512 * 2);
        assert_ptr_equal(params->lse, call->args.lse + first * 64);
        assert_ptr_equal(params->max_logits, call->args.max_logits + first * 64);
        assert_ptr_equal(params->cache[0].indices, call->args.indices + first * 640);
    }
    call->args.topk_length = DEVICE(int32_t, 0x40004); /* queries are dealt by what they cost */
    must_launch_once(call, kernel);
    call->args.topk_length = NULL;
    call->args.sm_limit = 16; /* on which the last round's do not fit */
    must_launch_once(call, kernel);
    smla_kernel_destroy(kernel);
    desc.batch_invariant = 1;
    kernel = must_prepare(call->world.context, &desc);
    call->args.sm_limit = 0;
    must_launch_once(call, kernel);
    smla_kernel_destroy(kernel);
}

static void must_launch_blocks(const struct call *call, smla_kernel *kernel, unsigned blocks)
{
    char expected[64];

    call->world.driver->clear_log();
    must_prefill(call, kernel, NULL);
    snprintf(expected, sizeof expected, "cuLaunchKernelEx(grid %u 1 1,", blocks);
    if (strstr(call->world.driver->log(), expected) == NULL)
        fail_msg("%u blocks: %s", blocks, call->world.driver->log());
}

/* A cap on a persistent kernel's blocks; to others it is nothing. smla_query_support tells which is which. */
static void keeps_sm_limit(void **state)
{
    static const struct {
        int32_t limit;
        unsigned blocks;
    } caps[] = {{0, 132}, {1, 1}, {7, 7}, {131, 131}, {132, 132}, {133, 132}, {INT32_MAX, 132}};
    struct call *call = *state;
    smla_kernel_desc desc = prefill_desc();
    smla_support support = {.struct_size = sizeof support};

    desc.flags = SMLA_KERNEL_NOT_PERSISTENT;
    assert_int_equal(smla_query_support(call->world.context, &desc, &support), SMLA_OK);
    assert_int_equal(support.blocks_per_sm, 0);
    call->args.s_q = 1000;
    call->args.sm_limit = 7;
    must_launch_blocks(call, call->kernel, 1000);
    desc.flags = 0;
    desc.batch_invariant = 1; /* whose few queries are not split */
    assert_int_equal(smla_query_support(call->world.context, &desc, &support), SMLA_OK);
    assert_int_equal(support.blocks_per_sm, 1);
    call->world.nvrtc->entry = "smla_sm90_prefill_persistent smla_sm90_prefill_persistent_paged "
                               "smla_sm90_prefill_persistent_lengths";
    call->world.driver->param_bytes = sizeof(struct smla_prefill_tensor_params);
    smla_kernel *kernel = must_prepare(call->world.context, &desc);
    for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++) {
        call->args.sm_limit = caps[i].limit;
        must_launch_blocks(call, kernel, caps[i].blocks);
    }
    call->args.s_q = 3; /* fewer queries than it may take */
    call->args.sm_limit = 7;
    must_launch_blocks(call, kernel, 3);
    smla_kernel_destroy(kernel);
}

/* CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION (6), in the caller's context and in another. */
static void launches_after_previous(void **state)
{
    struct call *call = *state;

    call->args.launch_flags = SMLA_LAUNCH_AFTER_PREVIOUS;
    must_prefill(call, call->kernel, NULL);
    assert_non_null(strstr(call->world.driver->log(), "attrs 2 (4: 2, 6: 1),")); /* few queries: in clusters, too */
    call->world.driver->clear_log();
    call->args.s_q = 100;
    must_prefill(call, call->kernel, NULL);
    assert_non_null(strstr(call->world.driver->log(), "attrs 1 (6: 1),"));
    call->world.driver->set_current(NULL);
    call->world.driver->clear_log();
    must_prefill(call, call->reference, NULL);
    assert_non_null(strstr(call->world.driver->log(), "attrs 1 (6: 1),"));
    call->world.driver->clear_log();
    call->args.launch_flags = 0;
    must_prefill(call, call->kernel, NULL);
    assert_non_null(strstr(call->world.driver->log(), "attrs 0,"));
}

static void another_current_context(void **state)
{
    struct call *call = *state;

    call->world.driver->set_current((void *)0xc2);
    must_prefill(call, call->kernel, NULL);
    assert_memory_equal(call->world.driver->log(), "cuCtxGetCurrent()\ncuCtxPushCurrent(ctx c1)\ncuLaunchKernelEx(",
                        60);
    assert_non_null(strstr(call->world.driver->log(), "ctx c1)\ncuCtxPopCurrent()\n"));
    assert_int_equal(call->world.driver->calls(NULL), 4);
    assert_ptr_equal(call->world.driver->get_current(), (void *)0xc2);
    assert_int_equal(call->world.driver->stack_depth(), 1);
}

static void *prefill_in_thread(void *user)
{
    struct call *call = user;
    const smla_status status = smla_prefill(call->kernel, &call->args, NULL);

    return status == SMLA_OK && call->world.driver->stack_depth() == 0 ? NULL : user;
}

static void thread_without_context(void **state)
{
    struct call *call = *state;
    void *result = call;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, prefill_in_thread, call), 0);
    pthread_join(thread, &result);
    assert_null(result);
    assert_int_equal(call->world.driver->calls("cuCtxPushCurrent"), 1);
    assert_int_equal(call->world.driver->calls("cuCtxPopCurrent"), 1);
}

static void test_34_every_call_may_fail(void **state)
{
    struct call *call = *state;

    for (int pushed = 0; pushed < 2; pushed++) {
        for (int n = 1; n <= (pushed ? 4 : 2); n++) {
            call->world.driver->set_current(pushed ? (void *)0xc2 : TEST_CONTEXT);
            call->world.driver->clear_log();
            call->world.driver->script = (struct stub_script){.fail_call = n, .fail_code = 719};
            assert_int_equal(smla_prefill(call->kernel, &call->args, NULL), SMLA_ERROR_DRIVER);
            assert_error(SMLA_ERROR_DRIVER, "CUDA_ERROR_LAUNCH_FAILED");
            assert_int_equal(last_error().native_code, 719);
            call->world.driver->script.fail_call = 0;
            call->world.driver->set_current(TEST_CONTEXT);
            must_prefill(call, call->kernel, NULL);
        }
    }
}

static void nothing_to_do(void **state)
{
    struct call *call = *state;
    const smla_prefill_args empty = {.struct_size = sizeof empty};

    assert_int_equal(smla_prefill(call->kernel, &empty, NULL), SMLA_OK);
    assert_int_equal(call->world.driver->calls(NULL), 0);
}

/* A change of the good arguments that must be refused, and a text of the sentence. */
struct bad {
    const char *text;
    size_t offset;
    size_t size;
    union {
        int64_t i64;
        uint64_t address;
        uint32_t u32;
        float f32;
    } value;
};

#define FIELD(field) offsetof(smla_prefill_args, field), sizeof((smla_prefill_args *)0)->field
#define BAD_I(field, number, text)                                                                                     \
    {                                                                                                                  \
        text, FIELD(field),                                                                                            \
        {                                                                                                              \
            .i64 = (number)                                                                                            \
        }                                                                                                              \
    }
#define BAD_P(field, number, text)                                                                                     \
    {                                                                                                                  \
        text, FIELD(field),                                                                                            \
        {                                                                                                              \
            .address = (number)                                                                                        \
        }                                                                                                              \
    }
#define BAD_U(field, number, text)                                                                                     \
    {                                                                                                                  \
        text, FIELD(field),                                                                                            \
        {                                                                                                              \
            .u32 = (number)                                                                                            \
        }                                                                                                              \
    }
#define BAD_F(field, number, text)                                                                                     \
    {                                                                                                                  \
        text, FIELD(field),                                                                                            \
        {                                                                                                              \
            .f32 = (number)                                                                                            \
        }                                                                                                              \
    }

static const struct bad bad_arguments[] = {
    BAD_I(s_q, -1, "s_q -1 is negative"),
    BAD_I(s_q, (int64_t)INT32_MAX + 1, "s_q 2147483648"),
    BAD_I(s_kv, -4, "s_kv -4 is negative"),
    BAD_I(topk, -1, "topk -1 is negative"),
    BAD_I(topk, (int64_t)INT32_MAX + 1, "topk 2147483648"),
    BAD_F(sm_scale, NAN, "sm_scale is NaN"),
    BAD_F(sm_scale, INFINITY, "sm_scale is infinite"),
    BAD_F(sm_scale, -INFINITY, "sm_scale is infinite"),
    BAD_F(sm_scale, 3e38f, "sm_scale is 3e+38"),
    BAD_F(sm_scale, -3e38f, "sm_scale is -3e+38"),
    BAD_U(lse_flags, 8, "lse_flags 0x8"),
    BAD_U(reserved, 1, "reserved is 1"),
    BAD_P(query, 0, "query is NULL"),
    BAD_P(kv, 0, "kv is NULL"),
    BAD_P(indices, 0, "indices is NULL"),
    BAD_P(out, 0, "out is NULL"),
    BAD_P(query, 0x10008, "query is at 0x10008"),
    BAD_P(kv, 0x20002, "kv is at 0x20002"),
    BAD_P(out, 0x60004, "out is at 0x60004"),
    BAD_P(indices, 0x30002, "indices is at 0x30002"),
    BAD_P(topk_length, 0x40001, "topk_length is at 0x40001"),
    BAD_P(attn_sink, 0x50002, "attn_sink is at 0x50002"),
    BAD_P(lse, 0x70002, "lse is at 0x70002"),
    BAD_P(max_logits, 0x80001, "max_logits is at 0x80001"),
    BAD_P(ref_out_abs, 0x90000, "ref_out_abs is given"),
    BAD_P(ref_logit_abs, 0x90000, "ref_logit_abs is given"),
    BAD_I(query_stride_token, -512, "query_stride_token -512 is negative"),
    BAD_I(query_stride_head, -8, "query_stride_head -8 is negative"),
    BAD_I(kv_stride_token, -512, "kv_stride_token -512 is negative"),
    BAD_I(indices_stride_token, -1, "indices_stride_token -1 is negative"),
    BAD_I(topk_length_stride, -1, "topk_length_stride -1 is negative"),
    BAD_I(out_stride_token, -512, "out_stride_token -512 is negative"),
    BAD_I(out_stride_head, -512, "out_stride_head -512 is negative"),
    BAD_I(lse_stride_token, -64, "lse_stride_token -64 is negative"),
    BAD_I(max_logits_stride_token, -64, "max_logits_stride_token -64 is negative"),
    BAD_I(query_stride_token, 32772, "query_stride_token 32772: this kernel needs a multiple of 8 elements (16 bytes)"),
    BAD_I(query_stride_head, 513, "query_stride_head 513"),
    BAD_I(kv_stride_token, 514, "kv_stride_token 514"),
    BAD_I(out_stride_token, 32772, "out_stride_token 32772"),
    BAD_I(out_stride_head, 516, "out_stride_head 516"),
    BAD_I(query_stride_head, INT64_MAX / 64 / 8 * 8, "query reaches past 2^63 bytes"),
    BAD_I(query_stride_head, INT64_MAX / 8 * 8, "query reaches past 2^63 bytes"),
    BAD_I(query_stride_token, INT64_MAX / 8 * 8, "query reaches past 2^63 bytes"),
    BAD_I(kv_stride_token, INT64_MAX / 4096 / 8 * 8, "kv reaches past 2^63 bytes"),
    BAD_I(s_kv, INT64_MAX, "kv reaches past 2^63 bytes"),
    BAD_I(indices_stride_token, INT64_MAX / 2, "indices reaches past 2^63 bytes"),
    BAD_I(topk_length_stride, INT64_MAX / 8, "topk_length reaches past 2^63 bytes"),
    BAD_I(out_stride_token, INT64_MAX / 8 * 8, "out reaches past 2^63 bytes"),
    BAD_I(lse_stride_token, INT64_MAX / 8, "lse reaches past 2^63 bytes"),
    BAD_I(max_logits_stride_token, INT64_MAX, "max_logits reaches past 2^63 bytes"),
    BAD_I(out_stride_head, 504, "out overlaps itself"),
    BAD_I(out_stride_token, 512, "out overlaps itself"),
    BAD_I(lse_stride_token, 63, "lse overlaps itself"),
    BAD_I(max_logits_stride_token, 1, "max_logits overlaps itself"),
    BAD_U(sm_limit, (uint32_t)-3,
          "sm_limit -3: the multiprocessors that a persistent kernel may take, at least 1, or 0 for all"),
    BAD_U(launch_flags, 6, "launch_flags 0x6: SMLA_LAUNCH_AFTER_PREVIOUS (0x1) is all there is"),
};

/* The same of a kernel of two caches, the first placed by page. */
static const struct bad bad_caches[] = {
    BAD_I(kv_page_tokens, 0, "kv_page_tokens is 0: in this format a page's scales stand behind its values"),
    BAD_I(kv_page_tokens, -1, "kv_page_tokens -1 is negative"),
    BAD_I(kv_page_tokens, 53, "kv_stride_page 30952: this kernel needs a multiple of 16 elements (16 bytes)"),
    BAD_I(kv_page_tokens, (int64_t)INT32_MAX + 1, "kv_page_tokens 2147483648"),
    BAD_I(kv_stride_token, 584, "kv_stride_token 584: tokens have no stride in a format placed by page"),
    BAD_I(kv_stride_page, 64 * 584 + 24,
          "kv_stride_page 37400: this kernel needs a multiple of 16 elements (16 bytes)"),
    BAD_I(kv_page_tokens, 63, "kv_stride_page"), /* contiguous: 63 * 584 is no multiple of 16 */
    BAD_I(kv_stride_page, -16, "kv_stride_page -16 is negative"),
    BAD_I(kv_stride_page, INT64_MAX / 16 * 16, "kv reaches past 2^63 bytes"),
    BAD_P(kv, 0x20008, "kv is at 0x20008"),
    BAD_I(extra_s_kv, -1, "extra_s_kv -1 is negative"),
    BAD_I(extra_topk, -1, "extra_topk -1 is negative"),
    BAD_I(extra_topk, (int64_t)INT32_MAX + 1, "extra_topk 2147483648"),
    BAD_P(extra_kv, 0, "extra_kv is NULL"),
    BAD_P(extra_kv, 0xb0008, "extra_kv is at 0xb0008"),
    BAD_P(extra_indices, 0, "extra_indices is NULL"),
    BAD_P(extra_indices, 0xc0002, "extra_indices is at 0xc0002"),
    BAD_P(extra_topk_length, 0xd0002, "extra_topk_length is at 0xd0002"),
    BAD_I(extra_kv_stride_token, 296, "extra_kv_stride_token 296: this kernel needs a multiple of 16 elements"),
    BAD_I(extra_kv_stride_page, 1024, "extra_kv_stride_page 1024 without pages: extra_kv_page_tokens is 0"),
    BAD_I(extra_indices_stride_token, -1, "extra_indices_stride_token -1 is negative"),
    BAD_I(extra_topk_length_stride, -1, "extra_topk_length_stride -1 is negative"),
};

/* And of a kernel of one cache: a second is not ignored. */
static const struct bad bad_extras[] = {
    BAD_I(extra_s_kv, 1, "a second cache is given"),
    BAD_I(extra_topk, 1, "a second cache is given"),
    BAD_P(extra_kv, 0xb0000, "a second cache is given"),
    BAD_P(extra_indices, 0xc0000, "a second cache is given"),
    BAD_P(extra_topk_length, 0xd0000, "a second cache is given"),
    BAD_I(extra_kv_stride_token, 512, "a second cache is given"),
    BAD_I(extra_kv_page_tokens, 64, "a second cache is given"),
    BAD_I(kv_stride_page, 512, "kv_stride_page 512 without pages: kv_page_tokens is 0"),
};

/* The struct must come back as it was, nothing may be launched, and the sentence must name the tensor. */
static void refuse_each(const struct call *call, smla_kernel *kernel, const struct bad *list, size_t count)
{
    for (const struct bad *bad = list; bad < list + count; bad++) {
        smla_prefill_args args = call->args, before;
        memcpy((char *)&args + bad->offset, &bad->value, bad->size);
        before = args;
        if (smla_prefill(kernel, &args, NULL) != SMLA_ERROR_INVALID_ARGUMENT)
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
    refuse_each(call, call->kernel, bad_extras, sizeof bad_extras / sizeof bad_extras[0]);
    with_second_cache(call);
    refuse_each(call, call->two_caches, bad_caches, sizeof bad_caches / sizeof bad_caches[0]);
}

static void refuses_null_handles(void **state)
{
    struct call *call = *state;

    assert_int_equal(smla_prefill(NULL, &call->args, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_prefill(call->kernel, NULL, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    smla_kernel_destroy(NULL);
}

/* One token or one head: the other stride does not matter, and is not held against the caller. */
static void strides_that_do_not_matter(void **state)
{
    struct call *call = *state;

    call->args.s_q = 1;
    call->args.out_stride_token = 8;
    call->args.lse_stride_token = 1;
    must_prefill(call, call->kernel, NULL);
    call->args.query_stride_token = INT64_MAX / 8 * 8;
    must_prefill(call, call->kernel, NULL);
}

/* Reads may overlap as they like. */
static void overlapping_reads(void **state)
{
    struct call *call = *state;

    call->args.query_stride_head = 8;
    call->args.query_stride_token = 8;
    call->args.kv_stride_token = 8;
    call->args.indices_stride_token = 1;
    must_prefill(call, call->kernel, NULL);
}

/* An older caller's struct: exactly its bytes are read (ASan watches), the rest is zero. */
static void older_arguments(void **state)
{
    struct call *call = *state;
    const struct smla_prefill_params *params = (const void *)call->world.driver->params;
    smla_prefill_args *old = older_struct(&call->args, offsetof(smla_prefill_args, workspace));

    assert_int_equal(smla_prefill(call->kernel, old, NULL), SMLA_OK);
    assert_ptr_equal(params->max_logits, DEVICE(float, 0x80004));
    free(old);
    call->args.sm_limit = -1; /* beyond what it has */
    old = older_struct(&call->args, offsetof(smla_prefill_args, sm_limit));
    assert_int_equal(smla_prefill(call->kernel, old, NULL), SMLA_OK);
    free(old);
}

static void newer_arguments(void **state)
{
    struct call *call = *state;
    struct {
        smla_prefill_args args;
        uint64_t new_field;
    } newer = {.args = good_args()};

    newer.args.struct_size = sizeof newer;
    assert_int_equal(smla_prefill(call->kernel, &newer.args, NULL), SMLA_OK);
    newer.new_field = 1;
    assert_int_equal(smla_prefill(call->kernel, &newer.args, NULL), SMLA_ERROR_UNSUPPORTED);
    newer.args.struct_size = 0;
    assert_int_equal(smla_prefill(call->kernel, &newer.args, NULL), SMLA_ERROR_INVALID_ARGUMENT);
}

static void workspace(void **state)
{
    struct call *call = *state;
    uint64_t bytes = 99;

    assert_int_equal(smla_prefill_workspace_size(call->kernel, -1, 5, &bytes), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_prefill_workspace_size(call->kernel, 1, -5, &bytes), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_prefill_workspace_size(NULL, 1, 5, &bytes), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(bytes, 99);
    assert_int_equal(smla_prefill_workspace_size(call->kernel, 1 << 20, 2048, &bytes), SMLA_OK);
    assert_int_equal(bytes, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(launches_exactly_this),
        TEST(passes_given_strides),
        TEST(passes_pages),
        TEST(passes_two_caches),
        TEST(optional_tensors_may_be_null),
        TEST(reference_launch),
        TEST(persistent_launch),
        TEST(last_round_is_a_launch_of_its_own),
        TEST(few_queries_launch_in_clusters),
        TEST(keeps_sm_limit),
        TEST(launches_after_previous),
        TEST(another_current_context),
        TEST(thread_without_context),
        TEST(test_34_every_call_may_fail),
        TEST(nothing_to_do),
        TEST(refuses),
        TEST(refuses_null_handles),
        TEST(strides_that_do_not_matter),
        TEST(overlapping_reads),
        TEST(older_arguments),
        TEST(newer_arguments),
        TEST(workspace),
    };
    return cmocka_run_group_tests_name("runtime.prefill", tests, NULL, NULL);
}
