/* What the driver's tests share: they are linked with the emulated libcuda and call it by its own declarations. */
#ifndef TEST_DRIVER_HARNESS_H
#define TEST_DRIVER_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "driver_ptx.h"
#include "functions.h"

#define ok(call) assert_int_equal(call, DRV_CUDA_SUCCESS)
#define gives(name, call) assert_int_equal(call, DRV_CUDA_##name)

/* cmocka fixtures: a context of its own for each test, so that an error stays in it. */
static inline int enter_context(void **state)
{
    cu_context context = NULL;
    ok(cuInit(0));
    ok(cuCtxCreate_v2(&context, 0, 0));
    *state = context;
    return 0;
}

static inline int leave_context(void **state)
{
    ok(cuCtxDestroy_v2(*state));
    return 0;
}

#define in_context(test) cmocka_unit_test_setup_teardown(test, enter_context, leave_context)

static inline cu_function load(const char *ptx, const char *name)
{
    cu_module module = NULL;
    cu_function function = NULL;
    ok(cuModuleLoadData(&module, ptx));
    ok(cuModuleGetFunction(&function, module, name));
    return function;
}

static inline uint64_t new_word(uint32_t value)
{
    uint64_t address = 0;
    ok(cuMemAlloc_v2(&address, sizeof value));
    ok(cuMemcpyHtoD_v2(address, &value, sizeof value));
    return address;
}

static inline uint32_t read_word(uint64_t address)
{
    uint32_t value = 0;
    ok(cuMemcpyDtoH_v2(&value, address, sizeof value));
    return value;
}

static inline int launch_one(cu_function function, unsigned int threads, cu_stream stream, void **params)
{
    return cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, stream, params, NULL);
}

#endif
