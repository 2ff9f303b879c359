/* Which kernels are chosen, on the stubs: the kill switch, from the description and the environment, and what is not
 * verified. */
#include "combine_params.h"
#include "decode_params.h"
#include "harness.h"
#include "kernel.h"
#include "trust.h"

static struct world *world;
static smla_context *context;

static int setup(void **state)
{
    if (world_setup(state) != 0)
        return -1;
    world = *state;
    return 0;
}

static int teardown(void **state)
{
    smla_context_destroy(context);
    context = NULL;
    unsetenv("SMLA_DISABLE");
    return world_teardown(state);
}

static void open_context(const char *disable, uint32_t flags)
{
    smla_context_desc desc = stub_context_desc();

    smla_context_destroy(context);
    context = NULL;
    desc.disable = disable;
    desc.flags = flags;
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
}

static smla_support support_of(const smla_kernel_desc *desc)
{
    smla_support support = {.struct_size = sizeof support};

    assert_int_equal(smla_query_support(context, desc, &support), SMLA_OK);
    return support;
}

static smla_kernel_desc decode_desc(void)
{
    return (smla_kernel_desc){.struct_size = sizeof(smla_kernel_desc), .op = SMLA_OP_DECODE, .h_q = 64, .d_qk = 512};
}

static void serve_decode(void)
{
    world->nvrtc->entry = "smla_sm90_decode smla_sm90_decode_turned smla_decode_combine";
    world->driver->param_bytes = sizeof(struct smla_decode_params);
}

static void must_refuse(const smla_kernel_desc *desc, const char *name, const char *pattern)
{
    smla_kernel *kernel = NULL;
    const smla_support support = support_of(desc);
    const int loads = world->driver->loads, told = events_of(context, SMLA_EVENT_SWITCHED_OFF, NULL);
    smla_event event;

    assert_int_equal(support.supported, 0);
    assert_non_null(strstr(support.reason, "SMLA_DISABLE"));
    assert_int_equal(smla_prepare(context, desc, &kernel), SMLA_ERROR_UNSUPPORTED);
    assert_error(SMLA_ERROR_UNSUPPORTED, name, "is switched off by", pattern,
                 "SMLA_DISABLE, or smla_context_desc.disable");
    assert_null(kernel);
    assert_int_equal(events_of(context, SMLA_EVENT_SWITCHED_OFF, &event), told + 1);
    assert_int_equal(event.status, SMLA_ERROR_UNSUPPORTED);
    assert_non_null(strstr(event.message, pattern));
    assert_int_equal(world->driver->loads, loads);
}

/* ---- Patterns ---- */

static void patterns_fit_names(void **state)
{
    static const struct {
        const char *pattern, *name;
        bool fits;
    } rows[] = {{"", "", true},
                {"", "a", false},
                {"a", "", false},
                {"*", "", true},
                {"*", "anything", true},
                {"a*", "a", true},
                {"*a", "banana", true},
                {"*an", "banana", false},
                {"b*a*a", "banana", true},
                {"b*x*a", "banana", false},
                {"b?nana", "banana", true},
                {"banana?", "banana", false},
                {"**a", "banana", true},
                {"sm90_prefill_*split*", "sm90_prefill_split_h64_d512", true},
                {"sm90_prefill_h64_d512", "sm90_prefill_h64_d512_paged", false},
                {"[a]", "a", false}};
    (void)state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (gen_name_matches(rows[i].pattern, strlen(rows[i].pattern), rows[i].name) != rows[i].fits)
            fail_msg("\"%s\" and \"%s\"", rows[i].pattern, rows[i].name);
    assert_true(gen_name_matches("banana split", 6, "banana"));
}

/* ---- The kill switch ---- */

static void few_queries_go_the_way_of_many(void **state)
{
    const smla_kernel_desc desc = prefill_desc();
    smla_event event;
    (void)state;

    open_context("", 0);
    smla_kernel *kernel = must_prepare(context, &desc);
    assert_int_equal(kernel->choice_count, 6);
    smla_kernel_destroy(kernel);
    const smla_support before = support_of(&desc);
    assert_string_equal(before.switched_off, "");
    open_context("nothing, sm90_prefill_*split*", 0);
    const smla_support support = support_of(&desc);
    assert_int_equal(support.supported, 1);
    assert_string_equal(support.switched_off, "sm90_prefill_split_h64_d512 sm90_prefill_split_narrow_h64_d512");
    assert_string_equal(support.kernel_id, before.kernel_id); /* the same code, in which it is not called */
    assert_int_equal(events_of(context, SMLA_EVENT_SWITCHED_OFF, NULL), 0); /* asking is none */
    kernel = must_prepare(context, &desc);
    assert_int_equal(kernel->choice_count, 0);
    smla_kernel_destroy(kernel);
    assert_int_equal(events_of(context, SMLA_EVENT_SWITCHED_OFF, &event), 1);
    assert_int_equal(event.status, SMLA_OK);
    assert_string_equal(event.message, "prefill h_q=64 d_qk=512 d_v=512 kv=bf16 not_persistent target=90a is served "
                                       "without what is switched off: sm90_prefill_split_h64_d512 "
                                       "sm90_prefill_split_narrow_h64_d512");
    open_context("sm90_prefill_split_narrow*", 0); /* the fewest go the way of few */
    kernel = must_prepare(context, &desc);
    assert_int_equal(kernel->choice_count, 3);
    smla_kernel_destroy(kernel);
}

static void a_kernel_without_another_is_refused(void **state)
{
    smla_kernel_desc desc = prefill_desc();
    (void)state;

    open_context("sm90_prefill_h64*", 0);
    must_refuse(&desc, "sm90_prefill_h64_d512", "\"sm90_prefill_h64*\"");
    open_context("x\tsm90_prefill_*_paged y", 0); /* which calls with pages cannot do without */
    must_refuse(&desc, "sm90_prefill_h64_d512_paged", "\"sm90_prefill_*_paged\"");
    desc.flags |= SMLA_KERNEL_CHECKED;
    open_context("prefill_check", 0);
    must_refuse(&desc, "prefill_check", "\"prefill_check\"");
}

static void by_its_id(void **state)
{
    const smla_kernel_desc desc = prefill_desc();
    char pattern[16];
    (void)state;

    open_context("", 0);
    const smla_support support = support_of(&desc);
    open_context(support.kernel_id, 0);
    must_refuse(&desc, support.kernel_id, support.kernel_id);
    snprintf(pattern, sizeof pattern, "%.8s*", support.kernel_id);
    open_context(pattern, 0);
    must_refuse(&desc, support.kernel_id, pattern);
}

static void instead_of_a_persistent_kernel(void **state)
{
    smla_kernel_desc desc = prefill_desc();
    (void)state;

    desc.flags = 0;
    open_context("", 0);
    assert_string_equal(support_of(&desc).variant, "sm90_prefill_persistent_h64_d512");
    assert_int_equal(support_of(&desc).launches, 2); /* a long call's last tokens are one */
    open_context("*split_narrow*", 0);
    assert_int_equal(support_of(&desc).launches, 1);
    open_context("*persistent*", 0);
    const smla_support support = support_of(&desc);
    assert_string_equal(support.variant, "sm90_prefill_h64_d512");
    assert_string_equal(support.switched_off, "sm90_prefill_persistent_h64_d512");
    assert_int_equal(support.blocks_per_sm, 0);
    assert_int_equal(support.launches, 1);
    smla_kernel *kernel = must_prepare(context, &desc);
    assert_int_equal(kernel->blocks_per_sm, 0);
    assert_int_equal(kernel->choice_count, 6);
    smla_kernel_destroy(kernel);
    open_context("*persistent* sm90_prefill_h64*", 0);
    must_refuse(&desc, "sm90_prefill_h64_d512", "\"sm90_prefill_h64*\"");
}

static void without_a_companion(void **state)
{
    const smla_kernel_desc desc = decode_desc();
    uint64_t bytes, with_companion;
    (void)state;

    serve_decode();
    open_context("", 0);
    smla_kernel *kernel = must_prepare(context, &desc);
    assert_non_null(kernel->companion);
    assert_int_equal(smla_decode_workspace_size(kernel, 1, 1, 2048, 0, &with_companion), SMLA_OK);
    smla_kernel_destroy(kernel);
    open_context("*_tile16*", 0);
    const smla_support support = support_of(&desc);
    assert_string_equal(support.companion, "");
    assert_string_equal(support.companion_id, "");
    assert_string_equal(support.switched_off, "sm90_decode_turned_h64_d512_tile16");
    const int compiles = world->nvrtc->compiles;
    kernel = must_prepare(context, &desc);
    assert_null(kernel->companion);
    assert_int_equal(world->nvrtc->compiles, compiles + 1);
    assert_int_equal(smla_decode_workspace_size(kernel, 1, 1, 2048, 0, &bytes), SMLA_OK);
    assert_true(bytes <= with_companion);
    smla_kernel_destroy(kernel);
}

static void the_companion_alone(void **state)
{
    const smla_kernel_desc desc = decode_desc();
    (void)state;

    serve_decode();
    open_context("sm90_decode_h64_d512", 0);
    const smla_support support = support_of(&desc);
    assert_string_equal(support.variant, "sm90_decode_turned_h64_d512_tile16");
    assert_string_equal(support.companion, "");
    assert_string_equal(support.switched_off, "sm90_decode_h64_d512");
    smla_kernel *kernel = must_prepare(context, &desc);
    assert_string_equal(kernel->name, "sm90_decode_turned_h64_d512_tile16");
    assert_null(kernel->companion);
    assert_int_equal(world->nvrtc->compiles, 1);
    smla_kernel_destroy(kernel);
    open_context("sm90_decode_*", 0);
    must_refuse(&desc, "sm90_decode_h64_d512", "\"sm90_decode_*\"");
    open_context("decode_combine", 0);
    must_refuse(&desc, "decode_combine", "\"decode_combine\"");
}

static void the_description_wins(void **state)
{
    const smla_kernel_desc desc = prefill_desc();
    (void)state;

    setenv("SMLA_DISABLE", "sm90_prefill*", 1);
    open_context(NULL, 0);
    must_refuse(&desc, "sm90_prefill_h64_d512", "\"sm90_prefill*\"");
    open_context("", 0);
    smla_kernel_destroy(must_prepare(context, &desc));
    open_context("*split*", 0);
    assert_string_equal(support_of(&desc).switched_off,
                        "sm90_prefill_split_h64_d512 sm90_prefill_split_narrow_h64_d512");
    /* read when the context is created, and no more */
    setenv("SMLA_DISABLE", "*", 1);
    smla_kernel_destroy(must_prepare(context, &desc));
}

static int32_t count_bytes(void *user, const void *bytes, size_t size)
{
    (void)bytes;
    *(size_t *)user += size;
    return 0;
}

/* What is switched off is not run here; it is made as ever, for elsewhere. */
static void generating_is_free(void **state)
{
    const smla_kernel_desc desc = prefill_desc();
    size_t bytes = 0;
    (void)state;

    open_context("*", 0);
    assert_int_equal(smla_generate(context, &desc, SMLA_EMIT_CUBIN, count_bytes, &bytes), SMLA_OK);
    assert_true(bytes > 0);
}

/* ---- What is not verified ---- */

static void status_of_kernels(void **state)
{
    const smla_kernel_desc desc = prefill_desc(), decode = decode_desc();
    smla_kernel_desc elsewhere = combine_desc();
    smla_support support = {.struct_size = sizeof support};
    (void)state;

    open_context("", 0);
    assert_int_equal(support_of(&desc).trust, SMLA_TRUST_VERIFIED);
    assert_memory_equal(support_of(&desc).status, "verified on: NVIDIA H200 (driver 5", 34);
    assert_int_equal(support_of(&decode).trust, SMLA_TRUST_VERIFIED);
    elsewhere.target = "100";
    assert_int_equal(smla_query_support(NULL, &elsewhere, &support), SMLA_OK);
    assert_int_equal(support.supported, 1);
    assert_int_equal(support.trust, SMLA_TRUST_NONE);
    assert_string_equal(support.status, "not verified");
    /* a variant that no rule names is not verified, whatever its family's others are */
    assert_int_equal(gen_trust_find("sm_90", SMLA_OP_DECODE, "sm90_prefill_h64_d512")->level, SMLA_TRUST_NONE);
    assert_int_equal(gen_trust_find("sm_100", SMLA_OP_PREFILL, "sm100_prefill_h64")->level, SMLA_TRUST_NONE);
}

static void not_verified_is_taken_when_asked_for(void **state)
{
    const smla_kernel_desc desc = combine_desc();
    smla_kernel *kernel = NULL;
    smla_event event;
    size_t bytes = 0;
    (void)state;

    world_serve_combine(world);
    world->driver->cc_major = 10;
    open_context("", 0);
    assert_int_equal(smla_prepare(context, &desc, &kernel), SMLA_ERROR_UNSUPPORTED);
    assert_error(SMLA_ERROR_UNSUPPORTED, "combine_bf16_to_bf16 for sm_100", "\"not verified\"",
                 "SMLA_CONTEXT_UNVERIFIED");
    assert_null(kernel);
    assert_int_equal(events_of(context, SMLA_EVENT_UNVERIFIED, &event), 1);
    assert_int_equal(event.status, SMLA_ERROR_UNSUPPORTED);
    assert_string_equal(event.kernel, "combine h_q=64 d_v=512 target=100a");
    assert_int_equal(world->nvrtc->compiles, 0);
    assert_int_equal(smla_generate(context, &desc, SMLA_EMIT_CUBIN, count_bytes, &bytes), SMLA_OK);
    open_context("", SMLA_CONTEXT_UNVERIFIED);
    smla_kernel_destroy(must_prepare(context, &desc));
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_fit_names),
        TEST(few_queries_go_the_way_of_many),
        TEST(a_kernel_without_another_is_refused),
        TEST(by_its_id),
        TEST(instead_of_a_persistent_kernel),
        TEST(without_a_companion),
        TEST(the_companion_alone),
        TEST(the_description_wins),
        TEST(generating_is_free),
        TEST(status_of_kernels),
        TEST(not_verified_is_taken_when_asked_for),
    };
    return cmocka_run_group_tests_name("runtime.selection", tests, NULL, NULL);
}
