/* A checked kernel's call on the stub driver: its calls in order, what each finds and says, the failure of each. */
#include "harness.h"
#include "prefill_check_key.h"
#include "prefill_params.h"

/* Device pointers that nobody follows. */
#define DEVICE(type, address) ((type *)(uintptr_t)(address))

struct call {
    struct world world;
    smla_kernel *kernel;
    smla_kernel *two_caches; /* bf16, and v41_planar in pages */
    smla_prefill_args args;  /* good ones of the first */
};

static smla_prefill_args good_args(void)
{
    return (smla_prefill_args){
        .struct_size = sizeof(smla_prefill_args),
        .s_q = 7,
        .s_kv = 1024,
        .topk = 130,
        .sm_scale = 0.125f,
        .query = DEVICE(void, 0x10000),
        .kv = DEVICE(void, 0x200000),
        .indices = DEVICE(int32_t, 0x30004),
        .topk_length = DEVICE(int32_t, 0x40004),
        .out = DEVICE(void, 0x60000),
        .workspace = DEVICE(void, 0x90008),
        .workspace_bytes = 8,
    };
}

static smla_kernel_desc checked_desc(void)
{
    smla_kernel_desc desc = prefill_desc();

    desc.flags |= SMLA_KERNEL_CHECKED;
    return desc;
}

static int setup(void **state)
{
    struct call *call = calloc(1, sizeof *call);
    const smla_context_desc context_desc = stub_context_desc();
    const smla_kernel_desc one = checked_desc();
    smla_kernel_desc two = checked_desc();

    if (call == NULL)
        return -1;
    *state = call;
    world_open_stubs(&call->world);
    call->world.nvrtc->entry = "smla_sm90_prefill smla_sm90_prefill_paged smla_sm90_prefill_split "
                               "smla_sm90_prefill_split_narrow smla_prefill_check";
    if (smla_context_create(&context_desc, &call->world.context) != SMLA_OK)
        return -1;
    call->kernel = must_prepare(call->world.context, &one);
    two.extra_kv_format = "v41_planar";
    call->two_caches = must_prepare(call->world.context, &two);
    call->args = good_args();
    call->world.driver->clear_log();
    return 0;
}

static int teardown(void **state)
{
    struct call *call = *state;

    smla_kernel_destroy(call->kernel);
    smla_kernel_destroy(call->two_caches);
    smla_context_destroy(call->world.context);
    free(call);
    return 0;
}

static void with_second_cache(struct call *call)
{
    call->args.extra_s_kv = 100;
    call->args.extra_topk = 70;
    call->args.extra_kv = DEVICE(void, 0x400000);
    call->args.extra_kv_page_tokens = 64;
    call->args.extra_indices = DEVICE(int32_t, 0xc0004);
    call->args.extra_topk_length = DEVICE(int32_t, 0xd0004);
}

static void must_prefill(const struct call *call, smla_kernel *kernel)
{
    if (smla_prefill(kernel, &call->args, (void *)0x51) != SMLA_OK)
        fail_msg("prefill: %s", last_error().message);
}

/* The call is refused, with this sentence whole, and the kernel itself is not launched. */
static void must_refuse(const struct call *call, smla_kernel *kernel, const char *sentence)
{
    call->world.driver->clear_log();
    assert_int_equal(smla_prefill(kernel, &call->args, (void *)0x51), SMLA_ERROR_INVALID_ARGUMENT);
    assert_string_equal(last_error().message, sentence);
    assert_true(call->world.driver->calls("cuLaunchKernelEx") <= 1);
    assert_null(strstr(call->world.driver->log(), "function 301,"));
    assert_null(strstr(call->world.driver->log(), "function 321,"));
    assert_null(strstr(call->world.driver->log(), "function 331,"));
    assert_ptr_equal(call->world.driver->get_current(), TEST_CONTEXT);
}

/* ---- Calls ---- */

static const char expected_calls[] =
    "cuCtxGetCurrent()\n"
    "cuStreamIsCapturing(stream 51)\n"
    "cuPointerGetAttributes(4, 90008)\n"
    "cuPointerGetAttributes(4, 10000)\n"
    "cuPointerGetAttributes(4, 60000)\n"
    "cuPointerGetAttributes(4, 200000)\n"
    "cuPointerGetAttributes(4, 30004)\n"
    "cuPointerGetAttributes(4, 40004)\n"
    "cuMemsetD32Async(90008, ffffffff, 2, stream 51)\n"
    "cuLaunchKernelEx(grid 7 1 1, block 256 1 1, shared 0, stream 51, attrs 0, function 341, extra none, ctx c1)\n"
    "cuMemcpyAsync(from 90008, 8, stream 51)\n"
    "cuStreamSynchronize(stream 51)\n"
    "cuCtxGetCurrent()\n"
    "cuLaunchKernelEx(grid 56 1 1, block 576 1 1, shared ";

static void makes_exactly_these_calls(void **state)
{
    struct call *call = *state;
    const struct smla_prefill_params *params = (const void *)call->world.driver->params;

    call->args.launch_flags = SMLA_LAUNCH_AFTER_PREVIOUS; /* nothing is left to wait for: no attribute */
    must_prefill(call, call->kernel);
    assert_memory_equal(call->world.driver->log(), expected_calls, sizeof expected_calls - 1);
    assert_null(strstr(call->world.driver->log(), "(6: 1"));
    assert_non_null(strstr(call->world.driver->log(), "function 331, extra none, ctx c1)\n"));
    assert_int_equal(call->world.driver->calls(NULL), 14);
    assert_ptr_equal(params->out, DEVICE(void, 0x60000)); /* the kernel's parameter, not the check's */
}

static void check_gets_the_lists(void **state)
{
    struct call *call = *state;
    const struct smla_prefill_params *params = (const void *)call->world.driver->params;

    call->args.indices_stride_token = 200;
    call->world.driver->check_result = 0; /* the check's launch is the last */
    call->world.driver->check_value = 131;
    must_refuse(call, call->kernel, "topk_length[0] is 131: lengths are 0 to topk 130");
    assert_ptr_equal(params->out, DEVICE(void, 0x90008));
    assert_ptr_equal(params->cache[0].indices, DEVICE(int, 0x30004));
    assert_int_equal(params->cache[0].indices_stride_token, 200);
    assert_int_equal(params->cache[0].topk, 130);
    assert_int_equal(params->cache[0].s_kv, 1024);
    assert_int_equal(params->s_q, 7);
}

static void another_current_context(void **state)
{
    struct call *call = *state;

    call->world.driver->set_current((void *)0xc2);
    must_prefill(call, call->kernel);
    assert_int_equal(call->world.driver->calls("cuCtxPushCurrent"), 2);
    assert_int_equal(call->world.driver->calls("cuCtxPopCurrent"), 2);
    assert_ptr_equal(call->world.driver->get_current(), (void *)0xc2);
    assert_int_equal(call->world.driver->stack_depth(), 1);
}

/* Each call of a good and of a bad one, in the kernel's context and in another; then all is as before. */
static void every_call_may_fail(void **state)
{
    struct call *call = *state;

    for (int variant = 0; variant < 4; variant++) {
        const bool pushed = variant & 1, bad = variant & 2;
        call->world.driver->check_result = bad ? (uint64_t)2 << 32 | 4 : SMLA_CHECK_NOTHING;
        call->world.driver->check_value = 5000;
        call->world.driver->set_current(pushed ? (void *)0xc2 : TEST_CONTEXT);
        call->world.driver->clear_log();
        (void)smla_prefill(call->kernel, &call->args, NULL);
        const int count = call->world.driver->calls(NULL);
        assert_int_equal(count, 14 + (!pushed ? 0 : bad ? 2 : 4));
        for (int n = 1; n <= count; n++) {
            const bool last_pop = bad && pushed && n == count; /* what was found is told before the pop's failure */
            call->world.driver->set_current(pushed ? (void *)0xc2 : TEST_CONTEXT);
            call->world.driver->clear_log();
            call->world.driver->script = (struct stub_script){.fail_call = n, .fail_code = 719};
            const smla_status status = smla_prefill(call->kernel, &call->args, NULL);
            assert_int_equal(status, last_pop ? SMLA_ERROR_INVALID_ARGUMENT : SMLA_ERROR_DRIVER);
            if (!last_pop)
                assert_error(SMLA_ERROR_DRIVER, "CUDA_ERROR_LAUNCH_FAILED");
            call->world.driver->script.fail_call = 0;
        }
        call->world.driver->set_current(TEST_CONTEXT);
    }
}

static void nothing_to_do(void **state)
{
    struct call *call = *state;

    call->args.s_q = 0;
    call->args.workspace = NULL;
    must_prefill(call, call->kernel);
    assert_int_equal(call->world.driver->calls(NULL), 0);
}

/* ---- Stream ---- */

static void test_30_capturing_stream(void **state)
{
    struct call *call = *state;

    for (int status = 1; status <= 2; status++) { /* active, invalidated */
        call->world.driver->capture_status = status;
        must_refuse(call, call->kernel,
                    "the stream is capturing, and a checked kernel waits for it: check outside of the capture, and "
                    "capture a kernel without SMLA_KERNEL_CHECKED");
        assert_string_equal(call->world.driver->log(), "cuCtxGetCurrent()\ncuStreamIsCapturing(stream 51)\n");
    }
    call->world.driver->capture_status = 0;
    call->world.driver->clear_log();
    call->world.driver->script =
        (struct stub_script){.fail_name = "cuStreamIsCapturing", .fail_call = 1, .fail_code = 906};
    assert_int_equal(smla_prefill(call->kernel, &call->args, NULL), SMLA_ERROR_DRIVER);
    assert_error(SMLA_ERROR_DRIVER, "cuStreamIsCapturing, before a checked kernel waits for the stream, failed");
    assert_int_equal(last_error().native_code, 906);
    call->world.driver->script.fail_call = 0;
}

/* ---- Workspace ---- */

static void workspace_refusals(void **state)
{
    struct call *call = *state;
    uint64_t bytes = 0;

    assert_int_equal(smla_prefill_workspace_size(call->kernel, 1 << 20, 2048, &bytes), SMLA_OK);
    assert_int_equal(bytes, 8);
    call->args.workspace_bytes = 7;
    must_refuse(call, call->kernel,
                "workspace 0x90008 of 7 bytes: a checked kernel needs 8 bytes of device memory "
                "(smla_prefill_workspace_size)");
    assert_int_equal(call->world.driver->calls(NULL), 0);
    call->args.workspace_bytes = 64;
    call->args.workspace = DEVICE(void, 0x90004);
    must_refuse(call, call->kernel, "workspace is at 0x90004: a checked kernel needs it aligned to 8 bytes");
    call->args.workspace = NULL;
    assert_int_equal(smla_prefill(call->kernel, &call->args, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "of 64 bytes: a checked kernel needs 8 bytes");
    call->args.workspace = DEVICE(void, 0x90008);
    call->world.driver->ranges[0] = (struct stub_range){.start = 0x90000, .size = 12, .memory_type = 2};
    must_refuse(
        call, call->kernel,
        "workspace reaches 4 bytes past its allocation of 12 bytes: [1, 1, 2] with strides of 2 and 2 elements, "
        "from byte 8 of it");
}

/* ---- Lists ---- */

static void says_what_was_found(void **state)
{
    struct call *call = *state;
    static const struct {
        uint64_t key;
        int32_t value;
        const char *sentence;
    } rows[] = {
        {(uint64_t)6 << 32 | 44, 70000, "indices[row 6][slot 43] is 70000: neither -1 nor below s_kv 1024"},
        {(uint64_t)6 << 32 | 44, 1024, "indices[row 6][slot 43] is 1024: neither -1 nor below s_kv 1024"},
        {(uint64_t)1 << 32 | 1, -2, "indices[row 1][slot 0] is -2: negative, and not the marker -1"},
        {(uint64_t)1 << 32 | 1, 5,
         "indices[row 1][slot 0] was neither -1 nor below s_kv 1024 and is 5 now: something writes it while the call "
         "reads it"},
        {(uint64_t)1 << 32 | 1, -1,
         "indices[row 1][slot 0] was neither -1 nor below s_kv 1024 and is -1 now: something writes it while the call "
         "reads it"},
        {(uint64_t)5 << 32, -3, "topk_length[5] is -3: lengths are 0 to topk 130"},
        {(uint64_t)5 << 32, 131, "topk_length[5] is 131: lengths are 0 to topk 130"},
        {(uint64_t)5 << 32, 130,
         "topk_length[5] was outside 0 to topk 130 and is 130 now: something writes it while the call reads it"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        call->world.driver->check_result = rows[i].key;
        call->world.driver->check_value = rows[i].value;
        must_refuse(call, call->kernel, rows[i].sentence);
        assert_int_equal(call->world.driver->calls("cuStreamSynchronize"), 2);
    }
    assert_non_null(strstr(call->world.driver->log(), "cuMemcpyAsync(from 40018, 4, stream 51)\n"));
    call->args.indices_stride_token = 200;
    call->world.driver->check_result = (uint64_t)6 << 32 | 44;
    call->world.driver->check_value = 70000;
    must_refuse(call, call->kernel, rows[0].sentence);
    assert_non_null(strstr(call->world.driver->log(), "cuMemcpyAsync(from 31370, 4, ")); /* 30004 + 4 (6 * 200 + 43) */
}

static void names_the_second_cache(void **state)
{
    struct call *call = *state;
    const uint64_t second = 1u << 31;

    with_second_cache(call);
    call->world.driver->check_result = (uint64_t)6 << 32 | second | 70;
    call->world.driver->check_value = 100;
    must_refuse(call, call->two_caches, "extra_indices[row 6][slot 69] is 100: neither -1 nor below extra_s_kv 100");
    call->world.driver->check_result = (uint64_t)6 << 32 | second;
    call->world.driver->check_value = -1;
    must_refuse(call, call->two_caches, "extra_topk_length[6] is -1: lengths are 0 to extra_topk 70");
}

/* Memory that the check could not have written is not believed. */
static void answers_that_are_no_place(void **state)
{
    struct call *call = *state;
    static const uint64_t keys[] = {(uint64_t)7 << 32, 131, 1u << 31, 0x8000000000000000u};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        call->world.driver->check_result = keys[i];
        assert_int_equal(smla_prefill(call->kernel, &call->args, NULL), SMLA_ERROR_INTERNAL);
    }
    call->args.topk_length = NULL;
    call->world.driver->check_result = 0;
    assert_int_equal(smla_prefill(call->kernel, &call->args, NULL), SMLA_ERROR_INTERNAL);
    assert_error(SMLA_ERROR_INTERNAL, "answered 0x0, which is no place");
}

/* ---- Allocations ---- */

static void kv_past_its_allocation(void **state)
{
    struct call *call = *state;
    struct stub_range *range = &call->world.driver->ranges[0];
    const uint64_t bytes = 1024 * 512 * 2;

    *range = (struct stub_range){.start = 0x200000, .size = bytes, .memory_type = 2};
    must_prefill(call, call->kernel);
    range->start -= 4096; /* the tensor is the last of its allocation */
    range->size += 4096;
    must_prefill(call, call->kernel);
    range->size -= 4096;
    must_refuse(call, call->kernel,
                "kv reaches 4096 bytes past its allocation of 1048576 bytes: s_kv 1024, kv_stride_token 512, from byte "
                "4096 of it");
    *range = (struct stub_range){.start = 0x200000, .size = bytes - 1, .memory_type = 2};
    must_refuse(call, call->kernel,
                "kv reaches 1 byte past its allocation of 1048575 bytes: s_kv 1024, kv_stride_token 512, from byte 0 "
                "of it");
    range->is_virtual = true; /* a neighbour may be joined */
    call->world.driver->clear_log();
    must_prefill(call, call->kernel);
    assert_int_equal(call->world.driver->calls("cuMemRelease"), 1);
    range->is_virtual = false;
    call->args.s_kv = 1023;
    must_prefill(call, call->kernel);
    call->args.kv_stride_token = 520;
    must_refuse(
        call, call->kernel,
        "kv reaches 15329 bytes past its allocation of 1048575 bytes: s_kv 1023, kv_stride_token 520, from byte "
        "0 of it");
}

/* Of the last page, the tokens that are there. */
static void kv_in_pages(void **state)
{
    struct call *call = *state;
    struct stub_range *ranges = call->world.driver->ranges;
    const uint64_t by_page = 64 * 528 + 64 * 512 + 36 * 16; /* scales of 36 tokens behind the values of 64 */

    with_second_cache(call);
    call->args.kv_page_tokens = 100; /* 10 pages and 24 tokens */
    ranges[0] = (struct stub_range){.start = 0x200000, .size = 1024 * 512 * 2, .memory_type = 2};
    ranges[1] = (struct stub_range){.start = 0x400000, .size = by_page, .memory_type = 2};
    must_prefill(call, call->two_caches);
    ranges[1].size--;
    must_refuse(call, call->two_caches,
                "extra_kv reaches 1 byte past its allocation of 67135 bytes: extra_s_kv 100 in pages of 64 tokens, "
                "extra_kv_stride_page 33792, from byte 0 of it");
    ranges[1].size++;
    ranges[0].size--;
    must_refuse(call, call->two_caches,
                "kv reaches 1 byte past its allocation of 1048575 bytes: s_kv 1024 in pages of 100 tokens, "
                "kv_stride_page 51200, from byte 0 of it");
    /* pages that interleave: the last but one reaches further than the last, which has one token */
    ranges[0].size = (99 * 1024 + 512 + 512) * 2;
    call->args.s_kv = 201;
    call->args.kv_stride_page = 512;
    call->args.kv_stride_token = 1024;
    must_prefill(call, call->two_caches);
    ranges[0].size--;
    assert_int_equal(smla_prefill(call->two_caches, &call->args, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "kv reaches 1 byte past");
    call->args.s_kv = 0; /* no page, nothing to reach */
    must_prefill(call, call->two_caches);
}

static void other_tensors(void **state)
{
    struct call *call = *state;
    struct stub_range *range = &call->world.driver->ranges[0];

    *range = (struct stub_range){.start = 0x30000, .size = 4 + 7 * 130 * 4 - 2, .memory_type = 1}; /* pinned */
    must_refuse(call, call->kernel,
                "indices reaches 2 bytes past its allocation of 3642 bytes: [7, 1, 130] with strides of 130 and 130 "
                "elements, from byte 4 of it");
    *range = (struct stub_range){.start = 0x60000, .size = 1 << 16, .memory_type = 2, .not_accessible = true};
    must_refuse(call, call->kernel,
                "out at 0x60000 is memory that the kernel's device cannot access: another device's, or the host's that "
                "is not mapped");
    range->is_virtual = true;
    must_prefill(call, call->kernel);
    *range = (struct stub_range){0}; /* unknown: a device may read malloc's memory */
    must_prefill(call, call->kernel);
    static const int unknown[] = {1, 201, 801};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        call->world.driver->clear_log();
        call->world.driver->script =
            (struct stub_script){.fail_name = "cuPointerGetAttributes", .fail_call = 2, .fail_code = unknown[i]};
        must_prefill(call, call->kernel);
        call->world.driver->script.fail_call = 0;
    }
}

/* ---- Drivers ---- */

static smla_status prepare_without(const char *symbol, smla_context **context, smla_kernel **kernel)
{
    struct world world;
    const smla_context_desc context_desc = stub_context_desc();
    const smla_kernel_desc desc = checked_desc();

    world_open_stubs(&world);
    world.nvrtc->entry = "smla_sm90_prefill smla_sm90_prefill_paged smla_sm90_prefill_split "
                         "smla_sm90_prefill_split_narrow smla_prefill_check";
    world.driver->missing = symbol;
    world.driver->missing_why = 1;
    assert_int_equal(smla_context_create(&context_desc, context), SMLA_OK);
    return smla_prepare(*context, &desc, kernel);
}

/* What only checked kernels call is asked of the driver, and missed by them alone. */
static void drivers_that_lack_something(void **state)
{
    static const char *const needed[] = {"cuStreamIsCapturing", "cuStreamSynchronize", "cuMemsetD32Async",
                                         "cuMemcpyAsync"};
    const smla_kernel_desc unchecked = prefill_desc();
    const smla_prefill_args args = good_args();
    smla_context *context = NULL;
    smla_kernel *kernel = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        assert_int_equal(prepare_without(needed[i], &context, &kernel), SMLA_ERROR_UNAVAILABLE);
        assert_error(SMLA_ERROR_UNAVAILABLE, needed[i], "which a checked kernel calls");
        assert_null(kernel);
        kernel = must_prepare(context, &unchecked);
        assert_int_equal(smla_prefill(kernel, &args, NULL), SMLA_OK);
        smla_kernel_destroy(kernel);
        kernel = NULL;
        smla_context_destroy(context);
    }
    assert_int_equal(prepare_without("cuPointerGetAttributes", &context, &kernel), SMLA_OK);
    assert_int_equal(smla_prefill(kernel, &args, NULL), SMLA_OK);
    smla_kernel_destroy(kernel);
    smla_context_destroy(context);
}

static void support_tells(void **state)
{
    smla_kernel_desc desc = checked_desc();
    smla_support support = {.struct_size = sizeof support}, plain = {.struct_size = sizeof plain};

    (void)state;
    desc.target = "90";
    assert_int_equal(smla_query_support(NULL, &desc, &support), SMLA_OK);
    assert_int_equal(support.launches, 2);
    assert_int_equal(support.variants, 5);
    desc.flags &= ~(uint32_t)SMLA_KERNEL_CHECKED;
    assert_int_equal(smla_query_support(NULL, &desc, &plain), SMLA_OK);
    assert_string_equal(support.variant, plain.variant);
    assert_string_not_equal(support.kernel_id, plain.kernel_id);
    desc.flags = 8;
    assert_int_equal(smla_query_support(NULL, &desc, &support), SMLA_OK);
    assert_int_equal(support.supported, 0);
    assert_string_equal(support.reason,
                        "flags 0x8: there are SMLA_KERNEL_CHECKED (0x1), SMLA_KERNEL_NOT_PERSISTENT (0x2) and "
                        "SMLA_KERNEL_LINE_INFO (0x4)");
}

/* Where nothing may be compiled, the line that builds the kernel says which it is: as options, or in a file. */
static void told_as_what_it_is(void **state)
{
    static const smla_kv_layout layout = {
        .struct_size = sizeof layout, .value_type = SMLA_VALUE_BF16, .value_elems = 512, .place = SMLA_PLACE_PAGE};
    smla_context_desc context_desc = stub_context_desc();
    smla_kernel_desc desc = checked_desc();
    smla_context *context = NULL;
    smla_kernel *kernel = NULL;
    struct world world;

    (void)state;
    world_open_stubs(&world);
    context_desc.jit_policy = SMLA_JIT_OFF;
    assert_int_equal(smla_context_create(&context_desc, &context), SMLA_OK);
    desc.flags = SMLA_KERNEL_CHECKED;
    assert_int_equal(smla_prepare(context, &desc, &kernel), SMLA_ERROR_NOT_CACHED);
    assert_error(SMLA_ERROR_NOT_CACHED, "kv=bf16 checked target=90a", "--kv-format bf16 --checked --emit cubin");
    desc.flags |= SMLA_KERNEL_NOT_PERSISTENT;
    assert_int_equal(smla_prepare(context, &desc, &kernel), SMLA_ERROR_NOT_CACHED);
    assert_error(SMLA_ERROR_NOT_CACHED, "kv=bf16 checked not_persistent target=90a",
                 "--kv-format bf16 --checked --not-persistent --emit cubin");
    desc.kv_layout = &layout;
    assert_int_equal(smla_prepare(context, &desc, &kernel), SMLA_ERROR_NOT_CACHED);
    assert_error(SMLA_ERROR_NOT_CACHED, "\"flags\":[\"checked\",\"not_persistent\"]}]' >kernel.json");
    desc.flags = SMLA_KERNEL_NOT_PERSISTENT;
    assert_int_equal(smla_prepare(context, &desc, &kernel), SMLA_ERROR_NOT_CACHED);
    assert_error(SMLA_ERROR_NOT_CACHED, "\"flags\":[\"not_persistent\"]}]' >kernel.json");
    smla_context_destroy(context);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(makes_exactly_these_calls),
        TEST(check_gets_the_lists),
        TEST(another_current_context),
        TEST(every_call_may_fail),
        TEST(nothing_to_do),
        TEST(test_30_capturing_stream),
        TEST(workspace_refusals),
        TEST(says_what_was_found),
        TEST(names_the_second_cache),
        TEST(answers_that_are_no_place),
        TEST(kv_past_its_allocation),
        TEST(kv_in_pages),
        TEST(other_tensors),
        cmocka_unit_test(drivers_that_lack_something),
        cmocka_unit_test(support_tells),
        cmocka_unit_test(told_as_what_it_is),
    };
    return cmocka_run_group_tests_name("runtime.checked", tests, NULL, NULL);
}
