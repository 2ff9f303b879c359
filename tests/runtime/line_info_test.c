/* Line tables: none unless they are asked for, by description, context or environment; with them a kernel is another,
 * so that both lie in one cache. PTX, which the emulated device runs, has them always. On the stubs. */
#include "harness.h"
#include "ranks.h"

static smla_context *open_context(const char *folder, uint32_t flags, uint32_t jit_policy)
{
    smla_context_desc desc = stub_context_desc();
    smla_context *context = NULL;

    desc.flags = flags;
    desc.jit_policy = jit_policy;
    desc.cache_policy = folder ? SMLA_CACHE_RW : SMLA_CACHE_OFF;
    desc.cache_dir = folder;
    if (smla_context_create(&desc, &context) != SMLA_OK)
        fail_msg("%s", last_error().message);
    return context;
}

static int32_t drop_bytes(void *user, const void *bytes, size_t size)
{
    (void)user;
    (void)bytes;
    return size == 0;
}

/* Whether the compiler was asked for lines. */
static bool asks_for_lines(struct world *world, uint32_t context_flags, uint32_t kernel_flags, uint32_t emit)
{
    smla_context *context = open_context(NULL, context_flags, SMLA_JIT_ON);
    smla_kernel_desc desc = prefill_desc();

    desc.target = "90";
    desc.flags |= kernel_flags;
    world->nvrtc->clear_log();
    assert_int_equal(smla_generate(context, &desc, emit, drop_bytes, NULL), SMLA_OK);
    const bool asked = strstr(world->nvrtc->log(), " -lineinfo ") != NULL;
    smla_context_destroy(context);
    return asked;
}

static void asked_for(void **state)
{
    struct world *world = *state;

    assert_false(asks_for_lines(world, 0, 0, SMLA_EMIT_CUBIN));
    assert_true(asks_for_lines(world, 0, SMLA_KERNEL_LINE_INFO, SMLA_EMIT_CUBIN));
    assert_true(asks_for_lines(world, SMLA_CONTEXT_LINE_INFO, 0, SMLA_EMIT_CUBIN));
    assert_true(asks_for_lines(world, 0, 0, SMLA_EMIT_PTX));
    setenv("SMLA_LINE_INFO", "1", 1);
    assert_true(asks_for_lines(world, 0, 0, SMLA_EMIT_CUBIN));
    setenv("SMLA_LINE_INFO", "0", 1);
    assert_false(asks_for_lines(world, 0, 0, SMLA_EMIT_CUBIN));
    assert_true(asks_for_lines(world, SMLA_CONTEXT_LINE_INFO, 0, SMLA_EMIT_CUBIN));
    unsetenv("SMLA_LINE_INFO");
}

static void another_word(void **state)
{
    const smla_context_desc desc = stub_context_desc();
    smla_context *context = NULL;

    (void)state;
    setenv("SMLA_LINE_INFO", "yes", 1);
    assert_int_equal(smla_context_create(&desc, &context), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "SMLA_LINE_INFO is \"yes\"", "1 or 0");
    unsetenv("SMLA_LINE_INFO");
}

static const char *id_of(smla_context *context, const smla_kernel_desc *desc, smla_support *support)
{
    *support = (smla_support){.struct_size = sizeof *support};
    assert_int_equal(smla_query_support(context, desc, support), SMLA_OK);
    assert_int_equal(support->supported, 1);
    return support->kernel_id;
}

/* Kernels of two ids, of one description otherwise. */
static void both_in_one_cache(void **state)
{
    struct world *world = *state;
    char *folder = make_folder();
    smla_context *plain = open_context(folder, 0, SMLA_JIT_ON);
    smla_context *lines = open_context(folder, SMLA_CONTEXT_LINE_INFO, SMLA_JIT_ON);
    smla_kernel_desc desc = prefill_desc();
    smla_support supports[3];

    for (int round = 0; round < 2; round++) {
        smla_kernel_destroy(must_prepare(plain, &desc));
        smla_kernel_destroy(must_prepare(lines, &desc));
    }
    assert_int_equal(world->nvrtc->compiles, 2);
    assert_int_equal(ranks_count_files(folder).entries, 2);
    assert_string_not_equal(id_of(plain, &desc, &supports[0]), id_of(lines, &desc, &supports[1]));
    desc.flags |= SMLA_KERNEL_LINE_INFO;
    assert_string_equal(id_of(plain, &desc, &supports[2]), supports[1].kernel_id);
    smla_kernel_destroy(must_prepare(plain, &desc));
    assert_int_equal(stats_of(plain).disk_hits, 1);
    smla_context_destroy(plain);
    smla_context_destroy(lines);
    remove_folder(folder);
}

/* Every operator has the flag, and the line that builds such a kernel says so. */
static void every_operator(void **state)
{
    static const uint32_t ops[] = {SMLA_OP_PREFILL, SMLA_OP_PREFILL_REFERENCE, SMLA_OP_COMBINE, SMLA_OP_DECODE};
    smla_context *context = open_context(NULL, 0, SMLA_JIT_OFF);

    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        const smla_kernel_desc desc = {.struct_size = sizeof desc,
                                       .op = ops[i],
                                       .h_q = 64,
                                       .d_qk = ops[i] == SMLA_OP_COMBINE ? 0 : 512,
                                       .flags = SMLA_KERNEL_LINE_INFO};
        smla_kernel *kernel = NULL;

        assert_int_equal(smla_prepare(context, &desc, &kernel), SMLA_ERROR_NOT_CACHED);
        assert_error(SMLA_ERROR_NOT_CACHED, " line_info target=90a is in no bundle", " --line-info --emit cubin");
    }
    smla_context_destroy(context);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(asked_for),
        TEST(another_word),
        TEST(both_in_one_cache),
        TEST(every_operator),
    };
    return cmocka_run_group_tests_name("runtime.line_info", tests, NULL, NULL);
}
