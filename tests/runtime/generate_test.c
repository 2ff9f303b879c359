/* smla_generate and smla_query_support, which need no device when a target is named. */
#include <errno.h>

#include "harness.h"

struct sink {
    char *bytes;
    size_t size;
    int calls;
    int32_t answer;
};

static int32_t keep_bytes(void *user, const void *bytes, size_t size)
{
    struct sink *sink = user;

    sink->calls++;
    sink->size = size;
    sink->bytes = malloc(size + 1);
    assert_non_null(sink->bytes);
    memcpy(sink->bytes, bytes, size);
    sink->bytes[size] = '\0';
    return sink->answer;
}

static smla_status generate(struct world *world, uint32_t emit, struct sink *sink)
{
    smla_kernel_desc desc = reference_desc();

    world_serve_reference(world);
    desc.target = "90";
    free(sink->bytes);
    *sink = (struct sink){.answer = sink->answer};
    return smla_generate(world->context, &desc, emit, keep_bytes, sink);
}

static void every_kind(void **state)
{
    struct world *world = *state;
    struct sink sink = {0};

    assert_int_equal(generate(world, SMLA_EMIT_PLAN, &sink), SMLA_OK);
    assert_non_null(strstr(sink.bytes, "prefill_reference"));
    assert_int_equal(sink.calls, 1);
    assert_int_equal(generate(world, SMLA_EMIT_CUDA, &sink), SMLA_OK);
    assert_non_null(strstr(sink.bytes, "__global__"));
    assert_int_equal(world->nvrtc->calls(NULL), 0);
    assert_int_equal(generate(world, SMLA_EMIT_PTX, &sink), SMLA_OK);
    assert_non_null(strstr(sink.bytes, ".target sm_90a"));
    assert_int_equal(strlen(sink.bytes), sink.size); /* the NUL is not written */
    assert_int_equal(generate(world, SMLA_EMIT_CUBIN, &sink), SMLA_OK);
    assert_memory_equal(sink.bytes, "\177ELF", 4);
    assert_int_equal(world->nvrtc->compiles, 2);
    assert_int_equal(generate(world, SMLA_EMIT_CUBIN, &sink), SMLA_OK);
    assert_int_equal(world->nvrtc->compiles, 2);
    assert_int_equal(stats_of(world->context).memory_hits, 1);
    assert_int_equal(world->driver->calls(NULL), 0);
    free(sink.bytes);
}

static void writer_fails(void **state)
{
    struct world *world = *state;
    struct sink sink = {.answer = ENOSPC};

    assert_int_equal(generate(world, SMLA_EMIT_PLAN, &sink), SMLA_ERROR_IO);
    assert_error(SMLA_ERROR_IO, "No space left");
    assert_int_equal(last_error().native_code, ENOSPC);
    assert_int_equal(generate(world, SMLA_EMIT_CUBIN, &sink), SMLA_ERROR_IO);
    free(sink.bytes);
}

static void bad_arguments(void **state)
{
    struct world *world = *state;
    struct sink sink = {0};
    smla_kernel_desc desc = prefill_desc();

    desc.target = "90";
    assert_int_equal(smla_generate(world->context, &desc, 0, keep_bytes, &sink), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_generate(world->context, &desc, 5, keep_bytes, &sink), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_generate(world->context, &desc, 1, NULL, &sink), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_generate(NULL, &desc, 1, keep_bytes, &sink), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_generate(world->context, NULL, 1, keep_bytes, &sink), SMLA_ERROR_INVALID_ARGUMENT);
    desc.kv_format = "v32";
    assert_int_equal(smla_generate(world->context, &desc, 1, keep_bytes, &sink), SMLA_ERROR_UNSUPPORTED);
    assert_int_equal(sink.calls, 0);
}

static void target_of_the_device(void **state)
{
    struct world *world = *state;
    struct sink sink = {0};
    const smla_kernel_desc desc = reference_desc();

    world->driver->cc_major = 10;
    assert_int_equal(smla_generate(world->context, &desc, SMLA_EMIT_PLAN, keep_bytes, &sink), SMLA_OK);
    assert_non_null(strstr(sink.bytes, "100a"));
    free(sink.bytes);
}

/* What generate made without a driver, prepare uses … */
static void prepare_uses_what_generate_made(void **state)
{
    struct world *world = *state;
    struct sink sink = {0};
    const smla_kernel_desc desc = reference_desc();

    assert_int_equal(generate(world, SMLA_EMIT_CUBIN, &sink), SMLA_OK);
    smla_kernel_destroy(must_prepare(world->context, &desc));
    assert_int_equal(world->nvrtc->compiles, 1);
    free(sink.bytes);
}

/* … unless the driver is of an older major than the compiler. */
static void prepare_refuses_what_a_newer_nvrtc_made(void **state)
{
    struct world *world = *state;
    struct sink sink = {0};
    const smla_kernel_desc desc = reference_desc();
    smla_kernel *kernel = NULL;

    world->nvrtc->major = 13;
    assert_int_equal(generate(world, SMLA_EMIT_CUBIN, &sink), SMLA_OK);
    assert_int_equal(smla_prepare(world->context, &desc, &kernel), SMLA_ERROR_UNAVAILABLE);
    assert_error(SMLA_ERROR_UNAVAILABLE, "NVRTC 13.9", "major 12");
    assert_int_equal(world->driver->loads, 0);
    free(sink.bytes);
}

static void support_yes(void **state)
{
    smla_kernel_desc desc = prefill_desc();
    smla_support support = {.struct_size = sizeof support};

    (void)state;
    desc.target = "90";
    assert_int_equal(smla_query_support(NULL, &desc, &support), SMLA_OK);
    assert_int_equal(support.supported, 1);
    assert_int_equal(support.launches, 1);
    assert_int_equal(support.variants, 4); /* without pages, with pages, few queries, fewest */
    assert_int_equal(support.threads, 384);
    assert_int_equal(support.pointer_alignment, 16);
    assert_int_equal(support.stride_alignment, 8);
    assert_string_equal(support.target, "90a");
    assert_int_equal(strlen(support.kernel_id), 64);
    assert_string_equal(support.reason, "");
}

/* An answer, not a failure: the last error stays what it was. */
static void support_no(void **state)
{
    smla_kernel_desc desc = prefill_desc();
    smla_support support = {.struct_size = sizeof support};

    (void)state;
    assert_int_equal(smla_query_support(NULL, NULL, &support), SMLA_ERROR_INVALID_ARGUMENT);
    desc.target = "90";
    desc.kv_format = "v32";
    assert_int_equal(smla_query_support(NULL, &desc, &support), SMLA_OK);
    assert_int_equal(support.supported, 0);
    assert_non_null(strstr(support.reason, "kv_format v32"));
    assert_int_equal(support.threads, 0);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "smla_kernel_desc is NULL");
    desc.kv_format = NULL;
    desc.target = "71";
    assert_int_equal(smla_query_support(NULL, &desc, &support), SMLA_ERROR_INVALID_ARGUMENT);
    desc.target = NULL;
    assert_int_equal(smla_query_support(NULL, &desc, &support), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "target");
}

static void support_of_the_device(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    smla_support support = {.struct_size = sizeof support};

    assert_int_equal(smla_query_support(world->context, &desc, &support), SMLA_OK);
    assert_string_equal(support.target, "90a");
    world->driver->cc_major = 8;
    world->driver->cc_minor = 9;
    assert_int_equal(smla_query_support(world->context, &desc, &support), SMLA_OK);
    assert_int_equal(support.supported, 0);
    assert_non_null(strstr(support.reason, "8.9"));
}

static void support_for_an_older_caller(void **state)
{
    const smla_support full = {0};
    smla_support *old = older_struct(&full, offsetof(smla_support, reason));
    smla_kernel_desc desc = prefill_desc();

    (void)state;
    desc.target = "90";
    assert_int_equal(smla_query_support(NULL, &desc, old), SMLA_OK);
    assert_int_equal(old->supported, 1);
    free(old);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(every_kind),
        TEST(writer_fails),
        TEST(bad_arguments),
        TEST(target_of_the_device),
        TEST(prepare_uses_what_generate_made),
        TEST(prepare_refuses_what_a_newer_nvrtc_made),
        TEST(support_yes),
        TEST(support_no),
        TEST(support_of_the_device),
        TEST(support_for_an_older_caller),
    };
    return cmocka_run_group_tests_name("runtime.generate", tests, NULL, NULL);
}
