/* ptxas's report as NVRTC 12 and 13 print it. */
#include "harness.h"
#include "ptxas_report.h"

static const char report_13[] = "ptxas info    : 0 bytes gmem\n"
                                "ptxas info    : Compiling entry function 'bar' for 'sm_90a'\n"
                                "ptxas info    : Function properties for bar\n"
                                "ptxas         .     16 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
                                "ptxas info    : Used 8 registers, used 0 barriers, 16 bytes cumulative stack size\n"
                                "ptxas info    : Compile time = 5.051 ms\n"
                                "ptxas info    : Compiling entry function 'foo' for 'sm_90a'\n"
                                "ptxas info    : Function properties for foo\n"
                                "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
                                "ptxas info    : Used 168 registers, used 1 barriers, 1024 bytes smem\n"
                                "ptxas info    : Compile time = 1.901 ms\n";

static const char report_12[] = "ptxas info    : 0 bytes gmem\n"
                                "ptxas info    : Compiling entry function 'foo' for 'sm_90a'\n"
                                "ptxas info    : Function properties for foo\n"
                                "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
                                "ptxas info    : Used 40 registers, 512 bytes smem, 400 bytes cmem[0]\n";

static void reads_each_entry(void **state)
{
    struct rt_ptxas_report report = rt_ptxas_report_read(report_13, "foo");

    (void)state;
    assert_int_equal(report.registers, 168);
    assert_int_equal(report.spill_store_bytes, 0);
    assert_int_equal(report.stack_bytes, 0);
    assert_int_equal(report.static_shared_bytes, 1024);
    report = rt_ptxas_report_read(report_13, "bar");
    assert_int_equal(report.registers, 8);
    assert_int_equal(report.spill_store_bytes, 4);
    assert_int_equal(report.spill_load_bytes, 12);
    assert_int_equal(report.stack_bytes, 16);
    assert_int_equal(report.static_shared_bytes, 0);
    report = rt_ptxas_report_read(report_12, "foo");
    assert_int_equal(report.registers, 40);
    assert_int_equal(report.static_shared_bytes, 512);
}

static void test_J5_says_when_it_does_not_know(void **state)
{
    static const char *const reports[] = {"",
                                          "ptxas info    : Compiling entry function 'fo' for 'sm_90a'\n",
                                          "Compiling entry function 'foo",
                                          "Compiling entry function 'foo'",
                                          "Compiling entry function 'foo' Used many registers bytes stack frame",
                                          "Compiling entry function 'foo' Used 99999999999999999999 registers"};

    (void)state;
    for (size_t i = 0; i < sizeof reports / sizeof reports[0]; i++) {
        const struct rt_ptxas_report report = rt_ptxas_report_read(reports[i], "foo");
        assert_int_equal(report.registers, -1);
        assert_int_equal(report.spill_load_bytes, -1);
        assert_int_equal(report.stack_bytes, -1);
    }
}

static void cleans_out_times(void **state)
{
    char text[sizeof report_13];

    (void)state;
    memcpy(text, report_13, sizeof text);
    rt_ptxas_report_clean(text);
    assert_null(strstr(text, "Compile time"));
    assert_null(strstr(text, " ms"));
    assert_non_null(strstr(text, "16 bytes cumulative stack size\nptxas info    : Compiling entry function 'foo'"));
    strcpy(text, "Compile time = 1 ms");
    rt_ptxas_report_clean(text);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_each_entry),
        cmocka_unit_test(test_J5_says_when_it_does_not_know),
        cmocka_unit_test(cleans_out_times),
    };
    return cmocka_run_group_tests_name("runtime.ptxas_report", tests, NULL, NULL);
}
