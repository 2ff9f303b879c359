/* What public bug reports tell of the interface of others, on the stub driver; docs/bug-reports.md has the table. What
 * needs a device is in tests/gpu/bug_reports.c. */
#include "harness.h"

/* Device pointers that nobody follows. */
#define DEVICE(type, address) ((type *)(uintptr_t)(address))

struct call {
    struct world world;
    smla_kernel *kernel;
    smla_prefill_args args; /* good ones */
};

static int setup(void **state)
{
    struct call *call = calloc(1, sizeof *call);
    const smla_context_desc context_desc = stub_context_desc();
    const smla_kernel_desc prefill = prefill_desc();

    if (call == NULL)
        return -1;
    *state = call;
    world_open_stubs(&call->world);
    if (smla_context_create(&context_desc, &call->world.context) != SMLA_OK)
        return -1;
    call->kernel = must_prepare(call->world.context, &prefill);
    call->args = (smla_prefill_args){
        .struct_size = sizeof(smla_prefill_args),
        .s_q = 7,
        .s_kv = 4096,
        .topk = 130,
        .sm_scale = 0.125f,
        .query = DEVICE(void, 0x10000),
        .kv = DEVICE(void, 0x20000),
        .indices = DEVICE(int32_t, 0x30000),
        .topk_length = DEVICE(int32_t, 0x40000),
        .attn_sink = DEVICE(float, 0x50000),
        .out = DEVICE(void, 0x60000),
        .lse = DEVICE(float, 0x70000),
        .max_logits = DEVICE(float, 0x80000),
    };
    call->world.driver->clear_log();
    return 0;
}

static int teardown(void **state)
{
    struct call *call = *state;

    smla_kernel_destroy(call->kernel);
    smla_context_destroy(call->world.context);
    free(call);
    return 0;
}

/* The same success whichever outputs are wanted, and no launch. */
static void test_A5_zero_queries_with_each_set_of_outputs(void **state)
{
    struct call *call = *state;

    for (int set = 0; set < 4; set++) {
        smla_prefill_args args = call->args;
        args.s_q = 0;
        args.lse = set & 1 ? args.lse : NULL;
        args.max_logits = set & 2 ? args.max_logits : NULL;
        assert_int_equal(smla_prefill(call->kernel, &args, NULL), SMLA_OK);
    }
    assert_int_equal(call->world.driver->calls(NULL), 0);
}

/* A pointer by 2, 4 and 8 bytes off: it works, or the sentence names it and the alignment; and the next call works. */
static void test_D4_pointers_off_their_alignment(void **state)
{
    static const struct {
        const char *name;
        size_t offset;
        uint64_t alignment;
    } pointers[] = {
        {"query", offsetof(smla_prefill_args, query), 16},
        {"kv", offsetof(smla_prefill_args, kv), 16},
        {"indices", offsetof(smla_prefill_args, indices), 4},
        {"topk_length", offsetof(smla_prefill_args, topk_length), 4},
        {"attn_sink", offsetof(smla_prefill_args, attn_sink), 4},
        {"out", offsetof(smla_prefill_args, out), 16},
        {"lse", offsetof(smla_prefill_args, lse), 4},
        {"max_logits", offsetof(smla_prefill_args, max_logits), 4},
    };
    struct call *call = *state;

    for (size_t i = 0; i < sizeof pointers / sizeof pointers[0]; i++) {
        for (uint64_t off = 2; off <= 8; off *= 2) {
            smla_prefill_args args = call->args;
            uintptr_t address;
            char needs[64];
            memcpy(&address, (const char *)&args + pointers[i].offset, sizeof address);
            address += off;
            memcpy((char *)&args + pointers[i].offset, &address, sizeof address);
            snprintf(needs, sizeof needs, "aligned to %d bytes", (int)pointers[i].alignment);
            const smla_status status = smla_prefill(call->kernel, &args, NULL);
            assert_int_equal(status, off % pointers[i].alignment ? SMLA_ERROR_INVALID_ARGUMENT : SMLA_OK);
            if (status != SMLA_OK)
                assert_error(SMLA_ERROR_INVALID_ARGUMENT, pointers[i].name, needs);
            assert_int_equal(smla_prefill(call->kernel, &call->args, NULL), SMLA_OK);
        }
    }
}

/* Widths that are no bf16 row's, such as a quantised token's bytes: refused by the description, without a driver. */
static void test_D5_rows_of_another_width(void **state)
{
    static const int32_t widths[] = {0, 1, 528, 584, 640, 656};
    (void)state;

    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        smla_kernel_desc desc = prefill_desc();
        smla_support support = {.struct_size = sizeof support};
        char says[32];
        desc.d_qk = widths[i];
        desc.target = "90";
        snprintf(says, sizeof says, "d_qk %d", widths[i]);
        assert_int_equal(smla_query_support(NULL, &desc, &support), SMLA_OK);
        assert_int_equal(support.supported, 0);
        assert_non_null(strstr(support.reason, says));
        assert_non_null(strstr(support.reason, "512 or 576"));
    }
}

/* Presets with a d_qk that they exist for, and what a token takes. */
static const struct preset {
    const char *name;
    int32_t d_qk;
    int32_t token_bytes;
    bool by_page;
} presets[] = {
    {"bf16", 512, 1024, false},      {"bf16", 576, 1152, false},   {"v32", 576, 656, false},
    {"v32_norope", 512, 528, false}, {"v4", 512, 584, true},       {"v41", 512, 528, false},
    {"v41_planar", 512, 528, true},  {"v41_fp4", 512, 288, false}, {"v41_fp4_planar", 512, 288, true},
    {"hopper_fp4", 512, 384, false},
};

enum { PRESETS = sizeof presets / sizeof presets[0], PAGE = 64 };

/* A kernel of the preset in both caches, and a good call for it: pages of 64. */
static smla_kernel *prepare_preset(const struct call *call, const struct preset *preset, smla_prefill_args *args)
{
    smla_kernel_desc desc = prefill_desc();

    desc.d_qk = preset->d_qk;
    desc.kv_format = preset->name;
    desc.extra_kv_format = preset->name;
    *args = call->args;
    args->kv_page_tokens = PAGE;
    args->extra_kv_page_tokens = PAGE;
    args->extra_s_kv = 300;
    args->extra_topk = 65;
    args->extra_kv = DEVICE(void, 0x90000);
    args->extra_indices = DEVICE(int32_t, 0xa0000);
    return must_prepare(call->world.context, &desc);
}

/* Caches of every format at 2, 4 and 8 bytes off, and moved by a token of 656 bytes (a multiple of 16) or 584 (not). */
static void test_D4_caches_off_their_alignment(void **state)
{
    static const uint64_t offsets[] = {2, 4, 8, 16, 584, 656};
    struct call *call = *state;

    for (int i = 0; i < PRESETS; i++) {
        smla_prefill_args good;
        smla_kernel *kernel = prepare_preset(call, &presets[i], &good);
        for (size_t j = 0; j < sizeof offsets / sizeof offsets[0] * 2; j++) {
            smla_prefill_args args = good;
            const uint64_t off = offsets[j / 2];
            if (j % 2)
                args.extra_kv = DEVICE(void, 0x90000 + off);
            else
                args.kv = DEVICE(void, 0x20000 + off);
            const smla_status status = smla_prefill(kernel, &args, NULL);
            assert_int_equal(status, off % 16 ? SMLA_ERROR_INVALID_ARGUMENT : SMLA_OK);
            if (status != SMLA_OK)
                assert_error(SMLA_ERROR_INVALID_ARGUMENT, j % 2 ? "extra_kv is at" : "kv is at", "aligned to 16 bytes");
            assert_int_equal(smla_prefill(kernel, &good, NULL), SMLA_OK);
        }
        smla_kernel_destroy(kernel);
    }
}

/* Tokens and pages that are too small for the format are refused with the bytes that it has; page counts of 0 and page
 * sizes of all kinds are not. */
static void test_D5_tokens_of_another_format(void **state)
{
    static const int64_t token_bytes[] = {512, 576, 584, 640, 656, 528, 288, 384};
    static const int64_t pages[] = {1, 2, 32, 53, 61, 64, 69, 128, 256, 576};
    struct call *call = *state;

    for (int i = 2; i < PRESETS; i++) { /* those that are quantised */
        const struct preset *preset = &presets[i];
        smla_prefill_args good;
        smla_kernel *kernel = prepare_preset(call, preset, &good);
        char says[64];
        snprintf(says, sizeof says, "has %d bytes", (int)preset->token_bytes);
        for (size_t j = 0; j < sizeof token_bytes / sizeof token_bytes[0]; j++) {
            smla_prefill_args args = good;
            const bool too_small = token_bytes[j] < preset->token_bytes;
            args.kv_stride_page = PAGE * token_bytes[j];
            if (!preset->by_page)
                args.kv_stride_token = token_bytes[j];
            const smla_status status = smla_prefill(kernel, &args, NULL);
            const bool aligned = preset->by_page || token_bytes[j] % 16 == 0;
            assert_int_equal(status, too_small || !aligned ? SMLA_ERROR_INVALID_ARGUMENT : SMLA_OK);
            if (too_small)
                assert_error(SMLA_ERROR_INVALID_ARGUMENT, preset->by_page ? "kv_stride_page" : "kv_stride_token", says);
        }
        for (size_t j = 0; j < sizeof pages / sizeof pages[0]; j++) {
            smla_prefill_args args = good;
            args.kv_page_tokens = pages[j];
            args.kv_stride_page = (pages[j] * preset->token_bytes + 15) / 16 * 16;
            assert_int_equal(smla_prefill(kernel, &args, NULL), SMLA_OK);
            args.s_kv = 0;
            args.kv = NULL;
            assert_int_equal(smla_prefill(kernel, &args, NULL), SMLA_OK);
        }
        smla_kernel_destroy(kernel);
    }
}

/* A page stride that is no multiple of 16 bytes is refused by name, in either cache; others of all kinds work. */
static void test_D2_page_strides(void **state)
{
    static const int64_t more[] = {0, 64, 16, 24, 8, 1};
    struct call *call = *state;

    for (int i = 0; i < PRESETS; i++) {
        const int64_t elem_bytes = i < 2 ? 2 : 1, tight = PAGE * presets[i].token_bytes;
        smla_prefill_args good;
        smla_kernel *kernel = prepare_preset(call, &presets[i], &good);
        for (size_t j = 0; j < sizeof more / sizeof more[0] * 2; j++) {
            smla_prefill_args args = good;
            const int64_t stride = (tight + more[j / 2]) / elem_bytes;
            *(j % 2 ? &args.extra_kv_stride_page : &args.kv_stride_page) = stride;
            const smla_status status = smla_prefill(kernel, &args, NULL);
            assert_int_equal(status, stride * elem_bytes % 16 ? SMLA_ERROR_INVALID_ARGUMENT : SMLA_OK);
            if (status != SMLA_OK)
                assert_error(SMLA_ERROR_INVALID_ARGUMENT, j % 2 ? "extra_kv_stride_page" : "kv_stride_page",
                             i < 2 ? "a multiple of 8 elements (16 bytes)" : "a multiple of 16 elements (16 bytes)");
        }
        good.kv_stride_page = 1039680 / elem_bytes; /* a pool of many layers */
        assert_int_equal(smla_prefill(kernel, &good, NULL), SMLA_OK);
        smla_kernel_destroy(kernel);
    }
}

/* Neither list, nor cache, can be left out of a kernel of two by mistake, or given to a kernel of one. */
static void test_F5_a_second_cache_is_not_ignored(void **state)
{
    struct call *call = *state;
    smla_prefill_args args;
    smla_kernel *kernel = prepare_preset(call, &presets[4], &args);

    assert_int_equal(smla_prefill(call->kernel, &args, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "a second cache is given", "extra_kv_format");
    args.extra_indices = NULL;
    assert_int_equal(smla_prefill(kernel, &args, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "extra_indices", "NULL");
    smla_kernel_destroy(kernel);
}

/* Queries lie along the grid's x, which takes 2^31 - 1 blocks; y and z take 65,535. */
static void test_D6_a_million_queries_are_one_launch(void **state)
{
    struct call *call = *state;

    for (int64_t s_q = 65535; s_q <= 1100000; s_q += s_q < 70000 ? 1 : 1030000) {
        char grid[64];
        call->world.driver->clear_log();
        call->args.s_q = s_q;
        assert_int_equal(smla_prefill(call->kernel, &call->args, NULL), SMLA_OK);
        snprintf(grid, sizeof grid, "grid %d 1 1,", (int)s_q);
        assert_non_null(strstr(call->world.driver->log(), grid));
        assert_int_equal(call->world.driver->calls("cuLaunchKernelEx"), 1);
    }
    call->args.s_q = INT32_MAX;
    assert_int_equal(smla_prefill(call->kernel, &call->args, NULL), SMLA_OK);
    call->args.s_q = (int64_t)INT32_MAX + 1;
    assert_int_equal(smla_prefill(call->kernel, &call->args, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "s_q 2147483648", "2147483647 in one call");
}

/* Nothing, however many queries: no formula that could be wrong, nothing that grows. */
static void test_D7_workspace_of_nothing(void **state)
{
    static const int64_t queries[] = {0, 1, 14, 16, 512, 1024, 16384, 16385, 17000, 65536, 1 << 20};
    struct call *call = *state;

    for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++) {
        uint64_t bytes = 99;
        assert_int_equal(smla_prefill_workspace_size(call->kernel, queries[i], 2048, &bytes), SMLA_OK);
        assert_int_equal(bytes, 0);
    }
    assert_null(call->args.workspace);
    assert_int_equal(smla_prefill(call->kernel, &call->args, NULL), SMLA_OK);
}

/* A format is what the description says, never guessed from bytes (two pairs of presets share theirs): each has a
 * kernel of its own, or is refused by name. */
static void test_E5_formats_by_name(void **state)
{
    static const char *const formats[] = {"v32_norope", "v41",  "v41_planar", "v41_fp4", "v41_fp4_planar",
                                          "v4",         "bf16", "hopper_fp4", "v32"};
    enum { COUNT = sizeof formats / sizeof formats[0] };
    smla_support support[COUNT];
    (void)state;

    for (int i = 0; i < COUNT; i++) {
        smla_kernel_desc desc = prefill_desc();
        support[i] = (smla_support){.struct_size = sizeof support[i]};
        desc.kv_format = formats[i];
        desc.target = "90";
        assert_int_equal(smla_query_support(NULL, &desc, &support[i]), SMLA_OK);
        assert_int_equal(support[i].supported, strcmp(formats[i], "v32") != 0); /* which is for d_qk 576 */
        if (!support[i].supported)
            assert_non_null(strstr(support[i].reason, formats[i]));
        for (int j = 0; j < i; j++)
            if (support[i].supported && support[j].supported)
                assert_string_not_equal(support[i].kernel_id, support[j].kernel_id);
    }
}

/* What the query answers is what preparing does, with the same sentence. */
static void test_F3_support_says_what_prepare_does(void **state)
{
    static const int32_t widths[] = {512, 576, 584, 640};
    struct call *call = *state;

    for (int32_t heads = 0; heads <= 130; heads++) {
        for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
            smla_kernel_desc desc = prefill_desc();
            smla_support support = {.struct_size = sizeof support};
            smla_kernel *kernel = NULL;
            desc.h_q = heads;
            desc.d_qk = widths[i];
            const smla_status asked = smla_query_support(call->world.context, &desc, &support);
            const smla_status status = smla_prepare(call->world.context, &desc, &kernel);
            assert_int_equal(status == SMLA_OK, heads >= 1 && heads <= 128 && widths[i] <= 576);
            assert_int_equal(status == SMLA_OK, asked == SMLA_OK && support.supported);
            if (asked != SMLA_OK) /* a description that makes no sense is no question */
                assert_int_equal(asked, status);
            else if (status != SMLA_OK)
                assert_string_equal(support.reason, last_error().message);
            smla_kernel_destroy(kernel);
        }
    }
}

/* A thousand calls: one look at the current context and one launch each. */
static void test_M4_32_two_driver_calls_a_call(void **state)
{
    enum { CALLS = 1000 };
    struct call *call = *state;

    for (int i = 0; i < CALLS; i++)
        assert_int_equal(smla_prefill(call->kernel, &call->args, NULL), SMLA_OK);
    assert_int_equal(call->world.driver->calls("cuLaunchKernelEx"), CALLS);
    assert_int_equal(call->world.driver->calls("cuCtxGetCurrent"), CALLS);
    assert_int_equal(call->world.driver->calls(NULL), 2 * CALLS);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_A5_zero_queries_with_each_set_of_outputs),
        TEST(test_D4_pointers_off_their_alignment),
        TEST(test_D4_caches_off_their_alignment),
        TEST(test_D5_rows_of_another_width),
        TEST(test_D5_tokens_of_another_format),
        TEST(test_D2_page_strides),
        TEST(test_F5_a_second_cache_is_not_ignored),
        TEST(test_D6_a_million_queries_are_one_launch),
        TEST(test_D7_workspace_of_nothing),
        TEST(test_E5_formats_by_name),
        TEST(test_F3_support_says_what_prepare_does),
        TEST(test_M4_32_two_driver_calls_a_call),
    };
    return cmocka_run_group_tests_name("runtime.bug_reports", tests, NULL, NULL);
}
