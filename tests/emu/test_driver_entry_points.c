/* cuGetProcAddress, its versions and flags; the texts of errors. */
#include <dlfcn.h>
#include <string.h>

#include "driver_harness.h"

static void *find(const char *name, int version, uint64_t flags, int *status)
{
    void *address = (void *)1;
    ok(cuGetProcAddress_v2(name, &address, version, flags, status));
    return address;
}

/* Every row is exported and found under its base name at its version. */
static void test_the_table_is_complete(void **state)
{
    static const struct {
        const char *name, *base;
        int version;
    } rows[] = {
#define ROW(name, base, version, parameters) {#name, #base, version},
        DRV_FUNCTIONS(ROW)
#undef ROW
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int status = -1;
        void *exported = dlsym(RTLD_DEFAULT, rows[i].name);
        assert_non_null(exported);
        assert_ptr_equal(find(rows[i].base, rows[i].version, 0, &status), exported);
        assert_int_equal(status, DRV_CU_GET_PROC_ADDRESS_SUCCESS);
        assert_non_null(find(rows[i].base, 13000, DRV_CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL));
    }
}

static void test_per_thread_forms(void **state)
{
    static const struct {
        const char *name, *form;
    } rows[] = {
#define ROW(name, suffix, parameters, arguments) {#name, #name "_" #suffix},
        DRV_PER_THREAD_FUNCTIONS(ROW)
#undef ROW
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_non_null(dlsym(RTLD_DEFAULT, rows[i].form));
    const uint64_t flag = DRV_CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    assert_ptr_equal(find("cuLaunchKernel", 12000, flag, NULL), dlsym(RTLD_DEFAULT, "cuLaunchKernel_ptsz"));
    assert_ptr_equal(find("cuMemcpyHtoD", 12000, flag, NULL), dlsym(RTLD_DEFAULT, "cuMemcpyHtoD_v2_ptds"));
    assert_ptr_equal(find("cuMemAlloc", 12000, flag, NULL), dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
}

static void test_versions(void **state)
{
    int status = -1;
    void *address = NULL;
    (void)state;
    assert_ptr_equal(find("cuGraphInstantiate", 10000, 0, NULL), dlsym(RTLD_DEFAULT, "cuGraphInstantiate"));
    assert_ptr_equal(find("cuGraphInstantiate", 11030, 0, NULL), dlsym(RTLD_DEFAULT, "cuGraphInstantiate_v2"));
    assert_ptr_equal(find("cuGraphInstantiate", 12000, 0, NULL), dlsym(RTLD_DEFAULT, "cuGraphInstantiateWithFlags"));
    assert_ptr_equal(find("cuCtxCreate", 12000, 0, NULL), dlsym(RTLD_DEFAULT, "cuCtxCreate_v3"));
    assert_ptr_equal(find("cuCtxCreate", 12050, 0, NULL), dlsym(RTLD_DEFAULT, "cuCtxCreate_v4"));
    assert_ptr_equal(find("cuGetProcAddress", 11030, 0, NULL), dlsym(RTLD_DEFAULT, "cuGetProcAddress"));
    assert_null(find("cuMemAlloc", 2000, 0, &status));
    assert_int_equal(status, DRV_CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    assert_null(find("cuMakeCoffee", 13000, 0, &status));
    assert_int_equal(status, DRV_CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    assert_null(find("cuMemAlloc_v2", 13000, 0, &status)); /* base names alone */
    gives(ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", &address, 13010, 0, NULL));
    gives(ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", &address, 13000, 4, NULL));
    gives(ERROR_INVALID_VALUE, cuGetProcAddress_v2(NULL, &address, 13000, 0, NULL));
    gives(ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", NULL, 13000, 0, NULL));
    gives(ERROR_NOT_FOUND, cuGetProcAddress("cuMakeCoffee", &address, 13000, 0));
    ok(cuGetProcAddress("cuInit", &address, 13000, 0));
}

static void test_export_tables(void **state)
{
    const void *table = &table;
    const struct cu_uuid id = {{0}};
    (void)state;
    gives(ERROR_NOT_FOUND, cuGetExportTable(&table, &id));
    assert_null(table);
    gives(ERROR_INVALID_VALUE, cuGetExportTable(NULL, &id));
}

static void test_error_texts(void **state)
{
    const char *text = NULL;
    (void)state;
    ok(cuGetErrorName(719, &text));
    assert_string_equal(text, "CUDA_ERROR_LAUNCH_FAILED");
    ok(cuGetErrorString(700, &text));
    assert_string_equal(text, "an illegal memory access was encountered");
    gives(ERROR_INVALID_VALUE, cuGetErrorName(12345, &text));
    assert_null(text);
    gives(ERROR_INVALID_VALUE, cuGetErrorString(12345, &text));
    gives(ERROR_INVALID_VALUE, cuGetErrorName(0, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_table_is_complete),
        cmocka_unit_test(test_per_thread_forms),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_export_tables),
        cmocka_unit_test(test_error_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
