/* The emulated device as the loader's driver: it is given PTX, and its reasons reach the caller. */
#include "harness.h"

static smla_context *open_context(const char *nvrtc_path)
{
    const smla_context_desc desc = {.struct_size = sizeof desc,
                                    .flags = SMLA_CONTEXT_PRIMARY,
                                    .cache_policy = SMLA_CACHE_OFF,
                                    .jit_policy = SMLA_JIT_ON,
                                    .driver_path = EMULATED_DRIVER_PATH,
                                    .nvrtc_path = nvrtc_path};
    smla_context *context = NULL;

    if (smla_context_create(&desc, &context) != SMLA_OK)
        fail_msg("%s", last_error().message);
    return context;
}

/* The stub writes PTX with an instruction that is none: the emulated device says where, and the error says it too. */
static void test_21_ptx_is_asked_for_and_its_refusal_told(void **state)
{
    struct world world;
    smla_kernel *kernel = NULL;
    const smla_kernel_desc desc = prefill_desc();
    (void)state;

    world_open_stubs(&world);
    world.nvrtc->entry =
        "smla_sm90_prefill()\n{ warble.u32; }\n.visible .entry smla_sm90_prefill_paged()\n{ ret; }\n"
        ".visible .entry smla_sm90_prefill_split()\n{ ret; }\n.visible .entry smla_sm90_prefill_split_narrow";
    smla_context *context = open_context(STUB_NVRTC_PATH);
    assert_int_equal(smla_prepare(context, &desc, &kernel), SMLA_ERROR_DRIVER);
    assert_error(SMLA_ERROR_DRIVER, "cuLibraryLoadData of smla_sm90_prefill", "CUDA_ERROR_INVALID_PTX");
    assert_non_null(strstr(last_error().log, "warble"));
    assert_int_equal(world.nvrtc->calls("nvrtcGetPTX"), 2); /* the empty program that names the compiler, the kernel */
    assert_int_equal(world.nvrtc->calls("nvrtcGetCUBIN"), 0);
    smla_context_destroy(context);
}

/* With a compiler the real kernel loads: threads, shared memory and the parameter's layout fit. */
static void test_the_real_kernel_loads(void **state)
{
    smla_kernel *kernel = NULL;
    const smla_kernel_desc desc = prefill_desc();
    (void)state;

    smla_context *context = open_context(NULL);
    const smla_status status = smla_prepare(context, &desc, &kernel);
    if (status == SMLA_ERROR_UNAVAILABLE)
        print_message("SKIP: %s\n", last_error().message);
    else if (status != SMLA_OK)
        fail_msg("%s\n%s", last_error().message, last_error().log);
    smla_kernel_destroy(kernel);
    smla_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_21_ptx_is_asked_for_and_its_refusal_told),
        cmocka_unit_test(test_the_real_kernel_loads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
