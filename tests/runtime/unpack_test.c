/* Prefill kernels over a quantised cache that unpack it first, on the stubs: who does, which calls, and what they
 * launch. */
#include "harness.h"
#include "kernel.h"
#include "prefill_tensor_params.h"

#define DEVICE(type, address) ((type *)(uintptr_t)(address))

enum { SMS = 132, ROW = 1024 /* bytes */, WORKSPACE = 0x100000 };

/* What the launches of a call were given. */
static struct launched {
    int count;
    struct smla_prefill_params params[3];
    char entries[3][64];
} launched;

static void note_launch(const char *entry, void *params)
{
    assert_true(launched.count < 3);
    snprintf(launched.entries[launched.count], sizeof launched.entries[0], "%s", entry);
    memcpy(&launched.params[launched.count++], params, sizeof launched.params[0]);
}

static int setup(void **state)
{
    if (world_setup(state) != 0)
        return -1;
    struct world *world = *state;
    world_serve_all(world);
    world->driver->sm_count = SMS;
    world->driver->launching = note_launch;
    return 0;
}

static smla_kernel_desc desc_of(const char *format)
{
    smla_kernel_desc desc = prefill_desc();

    desc.flags = 0;
    desc.kv_format = format;
    return desc;
}

/* 640 * 100 entries for 6400 tokens: 10 each. */
static smla_prefill_args good_args(void)
{
    return (smla_prefill_args){.struct_size = sizeof(smla_prefill_args),
                               .s_q = 100,
                               .s_kv = 6400,
                               .topk = 640,
                               .sm_scale = 0.125f,
                               .query = DEVICE(void, 0x10000),
                               .kv = DEVICE(void, 0x20000),
                               .kv_page_tokens = 64,
                               .indices = DEVICE(int32_t, 0x30000),
                               .topk_length = DEVICE(int32_t, 0x64000),
                               .out = DEVICE(void, 0x50000),
                               .workspace = DEVICE(void, WORKSPACE),
                               .workspace_bytes = 6400 * ROW};
}

static void must_prefill(struct world *world, smla_kernel *kernel, const smla_prefill_args *args)
{
    launched.count = 0;
    world->driver->clear_log();
    if (smla_prefill(kernel, args, (void *)0x51) != SMLA_OK)
        fail_msg("prefill: %s", last_error().message);
    assert_ptr_equal(world->driver->get_current(), TEST_CONTEXT);
}

static void who_unpacks(void **state)
{
    static const struct {
        const char *format, *extra;
        int32_t h_q, d_qk;
        uint32_t flags, batch_invariant;
        bool unpacks;
        bool has_last_round;
    } rows[] = {
        {"v4", NULL, 64, 512, 0, 0, true, false},
        {"v41_fp4_planar", NULL, 57, 512, 0, 0, true, false},
        {"v41", NULL, 128, 512, SMLA_KERNEL_CHECKED, 0, true, false},
        {"v41", NULL, 64, 512, 0, 1, false, false}, /* other bits */
        {"v41", NULL, 64, 512, SMLA_KERNEL_NOT_PERSISTENT, 0, false, false},
        {"v41", NULL, 1, 512, 0, 0, true, false},
        {"v41", NULL, 48, 512, 0, 0, true, false},
        {"v32", NULL, 64, 576, 0, 0, true, false},
        {"v41", "v41", 64, 512, 0, 0, false, false},
        {"bf16", NULL, 64, 512, 0, 0, false, true},
    };
    struct world *world = *state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        smla_kernel_desc desc = desc_of(rows[i].format), bf16 = desc_of("bf16");
        smla_support support = {.struct_size = sizeof support}, companion = support;
        desc.extra_kv_format = rows[i].extra;
        desc.h_q = bf16.h_q = rows[i].h_q;
        desc.d_qk = bf16.d_qk = rows[i].d_qk;
        desc.flags = rows[i].flags;
        desc.batch_invariant = rows[i].batch_invariant;
        bf16.batch_invariant = 1;
        assert_int_equal(smla_query_support(world->context, &desc, &support), SMLA_OK);
        assert_int_equal(support.supported, 1);
        assert_int_equal(support.launches,
                         1 + rows[i].unpacks + rows[i].has_last_round + (rows[i].flags == SMLA_KERNEL_CHECKED));
        assert_int_equal(smla_query_support(world->context, &bf16, &companion), SMLA_OK);
        smla_kernel *kernel = must_prepare(world->context, &desc);
        if ((kernel->companion != NULL) != rows[i].unpacks)
            fail_msg("row %zu: it %s", i, kernel->companion ? "unpacks" : "does not unpack");
        assert_string_equal(support.companion, rows[i].unpacks ? companion.variant : "");
        assert_string_equal(support.companion_id, rows[i].unpacks ? companion.kernel_id : "");
        smla_kernel_destroy(kernel);
    }
}

static void it_launches_both(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = desc_of("v4");
    smla_kernel *kernel = must_prepare(world->context, &desc);
    smla_prefill_args args = good_args();

    for (uint32_t flags = 0; flags <= SMLA_LAUNCH_AFTER_PREVIOUS; flags++) {
        args.launch_flags = flags;
        must_prefill(world, kernel, &args);
        assert_int_equal(launched.count, 2);
        assert_string_equal(launched.entries[0], "smla_sm90_unpack");
        assert_string_equal(launched.entries[1], "smla_sm90_prefill_persistent_lengths");
        const struct smla_prefill_params *unpack = &launched.params[0], *main = &launched.params[1];
        assert_ptr_equal(unpack->cache[0].kv, args.kv);
        assert_int_equal(unpack->cache[0].page_tokens, 64);
        assert_ptr_equal(unpack->out, args.workspace);
        assert_ptr_equal(main->cache[0].kv, args.workspace);
        assert_int_equal(main->cache[0].kv_stride_token, 512);
        assert_int_equal(main->cache[0].s_kv, 6400);
        assert_ptr_equal(main->cache[0].indices, args.indices);
        assert_ptr_equal(main->cache[0].topk_length, args.topk_length);
        assert_ptr_equal(main->out, args.out);
        /* the second waits for the first in any case; the first for what the caller says */
        const char *const first = strstr(world->driver->log(), "cuLaunchKernelEx(");
        const char *const second = strstr(first + 1, "cuLaunchKernelEx(");
        const char *const waits = strstr(first, "(6: 1");
        assert_non_null(strstr(second, "(6: 1"));
        assert_int_equal(waits < second, flags != 0);
        assert_int_equal(strncmp(first, "cuLaunchKernelEx(grid 1056 1 1, block 256 1 1", 45), 0);
        assert_int_equal(strncmp(second, "cuLaunchKernelEx(grid 100 1 1, block 384 1 1", 44), 0);
    }
    args.sm_limit = 3;
    must_prefill(world, kernel, &args);
    assert_non_null(strstr(world->driver->log(), "cuLaunchKernelEx(grid 24 1 1, block 256"));
    assert_non_null(strstr(world->driver->log(), "cuLaunchKernelEx(grid 3 1 1, block 384"));
    smla_kernel_destroy(kernel);
}

/* Sizes and the workspace choose; a workspace that does not serve is as none. */
static void which_calls_unpack(void **state)
{
    static const struct {
        int64_t s_q, topk, s_kv;
        uint64_t workspace, bytes;
        bool unpacks;
    } rows[] = {
        {100, 640, 6400, WORKSPACE, 6400 * ROW, true},
        {100, 640, 6400, 0, 0, false},
        {100, 640, 6400, WORKSPACE, 6400 * ROW - 1, false},
        {100, 640, 6400, WORKSPACE + 8, 6400 * ROW, false},
        {100, 640, 6400, WORKSPACE + 16, 6400 * ROW, true},
        {100, 640, 6401, WORKSPACE, 9000 * ROW, false},
        {100, 639, 6400, WORKSPACE, 9000 * ROW, false},
        {99, 640, 6400, WORKSPACE, 9000 * ROW, false},
        {100, 640, 0, WORKSPACE, 9000 * ROW, false},
        {1, 10, 1, WORKSPACE, ROW, true},
        {1 << 20, 1 << 20, (int64_t)1 << 31, WORKSPACE, (uint64_t)1 << 41, true},
    };
    struct world *world = *state;
    const smla_kernel_desc desc = desc_of("v41");
    smla_kernel *kernel = must_prepare(world->context, &desc);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        smla_prefill_args args = good_args();
        args.s_q = rows[i].s_q;
        args.topk = rows[i].topk;
        args.s_kv = rows[i].s_kv;
        args.workspace = DEVICE(void, rows[i].workspace);
        args.workspace_bytes = rows[i].bytes;
        must_prefill(world, kernel, &args);
        if ((launched.count == 2) != rows[i].unpacks)
            fail_msg("row %zu: %d launches", i, launched.count);
    }
    smla_kernel_destroy(kernel);
}

static void a_checked_kernel_has_its_own_bytes_first(void **state)
{
    struct world *world = *state;
    smla_kernel_desc desc = desc_of("v4");
    smla_prefill_args args = good_args();
    uint64_t bytes;

    desc.flags = SMLA_KERNEL_CHECKED;
    smla_kernel *kernel = must_prepare(world->context, &desc);
    assert_int_equal(smla_prefill_wanted_workspace_size(kernel, 100, 640, 6400, &bytes), SMLA_OK);
    assert_int_equal(bytes, 6400 * ROW + 16);
    args.workspace_bytes = bytes;
    args.launch_flags = SMLA_LAUNCH_AFTER_PREVIOUS;
    must_prefill(world, kernel, &args);
    assert_int_equal(launched.count, 3);
    assert_string_equal(launched.entries[0], "smla_prefill_check");
    assert_ptr_equal(launched.params[0].out, args.workspace);
    assert_ptr_equal(launched.params[1].out, DEVICE(void, WORKSPACE + 16));
    assert_ptr_equal(launched.params[2].cache[0].kv, DEVICE(void, WORKSPACE + 16));
    args.workspace_bytes--;
    must_prefill(world, kernel, &args);
    assert_int_equal(launched.count, 2);
    smla_kernel_destroy(kernel);
}

static void the_wanted_size(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = desc_of("v4"), plain = desc_of("bf16");
    smla_kernel *kernel = must_prepare(world->context, &desc);
    smla_kernel *bf16 = must_prepare(world->context, &plain);
    uint64_t bytes;

    assert_int_equal(smla_prefill_wanted_workspace_size(kernel, 100, 640, 6400, &bytes), SMLA_OK);
    assert_int_equal(bytes, 6400 * ROW);
    assert_int_equal(smla_prefill_wanted_workspace_size(kernel, 100, 640, 1 << 20, &bytes), SMLA_OK);
    assert_int_equal(bytes, 6400 * ROW); /* a call over more does not unpack */
    assert_int_equal(smla_prefill_wanted_workspace_size(kernel, 0, 640, 6400, &bytes), SMLA_OK);
    assert_int_equal(bytes, 0);
    assert_int_equal(smla_prefill_wanted_workspace_size(kernel, INT32_MAX, INT32_MAX, INT64_MAX, &bytes), SMLA_OK);
    assert_int_equal(bytes, (uint64_t)ROW << 31);
    assert_int_equal(smla_prefill_workspace_size(kernel, 100, 640, &bytes), SMLA_OK);
    assert_int_equal(bytes, 0);
    assert_int_equal(smla_prefill_wanted_workspace_size(bf16, 100, 640, 6400, &bytes), SMLA_OK);
    assert_int_equal(bytes, 0);
    bytes = 7;
    assert_int_equal(smla_prefill_wanted_workspace_size(NULL, 1, 1, 1, &bytes), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_prefill_wanted_workspace_size(kernel, 1, 1, 1, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_prefill_wanted_workspace_size(kernel, -1, 1, 1, &bytes), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_prefill_wanted_workspace_size(kernel, 1, -1, 1, &bytes), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_prefill_wanted_workspace_size(kernel, 1, 1, -1, &bytes), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "max_s_kv");
    assert_int_equal(bytes, 7);
    smla_kernel_destroy(kernel);
    smla_kernel_destroy(bf16);
}

/* Without what unpacks, or the kernel over bf16, the cache is dequantised in the kernel. */
static void switched_off(void **state)
{
    static const char *const patterns[] = {"sm90_unpack_*", "sm90_prefill_persistent_*"};
    struct world *world = *state;
    const smla_kernel_desc desc = desc_of("v4");
    const smla_prefill_args args = good_args();

    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        smla_context_desc context_desc = stub_context_desc();
        smla_support support = {.struct_size = sizeof support};
        smla_context *context;
        context_desc.disable = patterns[i];
        assert_int_equal(smla_context_create(&context_desc, &context), SMLA_OK);
        assert_int_equal(smla_query_support(context, &desc, &support), SMLA_OK);
        assert_int_equal(support.supported, 1);
        assert_string_equal(support.companion, "");
        assert_int_equal(support.launches, 1);
        assert_string_equal(support.switched_off, i == 0 ? "sm90_unpack_d512_v4" : "sm90_prefill_persistent_h64_d512");
        smla_kernel *kernel = must_prepare(context, &desc);
        must_prefill(world, kernel, &args);
        assert_int_equal(launched.count, 1);
        smla_kernel_destroy(kernel);
        smla_context_destroy(context);
    }
}

static void each_launch_may_fail(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = desc_of("v4");
    const smla_prefill_args args = good_args();
    smla_kernel *kernel = must_prepare(world->context, &desc);

    for (int i = 1; i <= 2; i++) {
        launched.count = 0;
        world->driver->clear_log();
        world->driver->script = (struct stub_script){.fail_name = "cuLaunchKernelEx", .fail_call = i, .fail_code = 719};
        assert_int_equal(smla_prefill(kernel, &args, NULL), SMLA_ERROR_DRIVER);
        assert_error(SMLA_ERROR_DRIVER,
                     i == 1 ? "the launch of sm90_prefill " : "the launch of sm90_prefill_persistent");
        assert_int_equal(launched.count, i - 1);
        world->driver->script = (struct stub_script){0};
    }
    smla_kernel_destroy(kernel);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(who_unpacks),          TEST(it_launches_both),
        TEST(which_calls_unpack),   TEST(a_checked_kernel_has_its_own_bytes_first),
        TEST(the_wanted_size),      TEST(switched_off),
        TEST(each_launch_may_fail),
    };
    return cmocka_run_group_tests_name("runtime.unpack", tests, NULL, NULL);
}
