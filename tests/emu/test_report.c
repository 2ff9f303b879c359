/* The report's text and JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "program.h"
#include "report.h"

static const char *files[] = {NULL, "smla/prefill.cuh"};
static const struct emu_module module = {.files = files, .file_count = 1};
static const struct emu_kernel kernel = {.name = "smla_prefill", .module = &module};
static const struct emu_instr store = {.text = "st.shared.u32", .line = 52, .source_file = 1, .source_line = 88};
static const struct emu_instr load = {.text = "ld.shared.u32", .line = 61};

static struct emu_finding race(void)
{
    return (struct emu_finding){.kind = EMU_RACE,
                                .kernel = &kernel,
                                .first = {.instr = &store, .ctaid = {1, 2, 3}, .warp = 4, .lane = 5},
                                .second = {.instr = &load, .ctaid = {1, 2, 3}, .warp = 0, .lane = -1},
                                .has_address = true,
                                .address = 0x400,
                                .what = "shared memory, offset 0",
                                .message = "read after write: say \"bar.sync\"\nbetween\tthem"};
}

/* The file's contents, in a buffer that the next call reuses. */
static const char *written(struct emu_report *report, const char *ending)
{
    static char text[8192];
    char path[] = "/tmp/report-XXXXXX\0.json";
    const int fd = mkstemp(path);
    char name[64];
    assert_true(fd >= 0);
    snprintf(name, sizeof name, "%s%s", path, ending);
    assert_true(emu_report_write(report, name));
    FILE *file = fopen(name, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    close(fd);
    unlink(path);
    unlink(name);
    return text;
}

static void test_same_lines_are_counted(void **state)
{
    struct emu_report *report = emu_report_create();
    struct emu_finding finding = race();
    (void)state;
    assert_true(emu_report_add(report, &finding));
    finding.second.warp = 7;
    assert_false(emu_report_add(report, &finding));
    finding.kind = EMU_UNINITIALISED;
    assert_true(emu_report_add(report, &finding));
    assert_int_equal(report->count, 2);
    assert_int_equal(report->findings[0].count, 2);
    for (int i = 0; i < 40; i++) {
        static struct emu_instr others[40];
        finding.second.instr = &others[i];
        assert_true(emu_report_add(report, &finding));
    }
    assert_int_equal(report->count, 42);
    emu_report_destroy(report);
    emu_report_destroy(NULL);
}

static void test_text_names_both_sides(void **state)
{
    struct emu_report *report = emu_report_create();
    struct emu_finding finding = race();
    (void)state;
    emu_report_add(report, &finding);
    emu_report_add(report, &finding);
    report->launches = 3;
    const char *text = written(report, "");
    assert_non_null(strstr(text, "3 launches"));
    assert_non_null(strstr(text, "1 finding\n"));
    assert_non_null(strstr(text, "race in smla_prefill: read after write"));
    assert_non_null(strstr(text, "first:  PTX line 52, smla/prefill.cuh:88: st.shared.u32\n"));
    assert_non_null(strstr(text, "block (1,2,3) warp 4 lane 5\n"));
    assert_non_null(strstr(text, "then:   PTX line 61: ld.shared.u32\n"));
    assert_non_null(strstr(text, "warp 0, the whole warp\n"));
    assert_non_null(strstr(text, "address 0x400: shared memory, offset 0\n"));
    assert_non_null(strstr(text, "2 times at these lines\n"));
    emu_report_destroy(report);
}

static void test_json_is_escaped(void **state)
{
    struct emu_report *report = emu_report_create();
    struct emu_finding finding = race();
    (void)state;
    assert_string_equal(strstr(written(report, ".json"), "\"findings\": []"), "\"findings\": []\n}\n");
    emu_report_add(report, &finding);
    finding.first.instr = NULL;
    finding.has_address = false;
    finding.what[0] = '\0';
    emu_report_add(report, &finding);
    const char *text = written(report, ".json");
    assert_non_null(strstr(text, "\"kind\": \"race\", \"kernel\": \"smla_prefill\""));
    assert_non_null(strstr(text, "say \\\"bar.sync\\\"\\nbetween\\u0009them"));
    assert_non_null(strstr(text, "\"file\": \"smla/prefill.cuh\", \"file_line\": 88, \"block\": [1, 2, 3]"));
    assert_non_null(strstr(text, "\"file\": null, \"block\": [1, 2, 3], \"warp\": 0, \"lane\": null}"));
    assert_non_null(strstr(text, "\"first\": null"));
    assert_non_null(strstr(text, "\"address\": \"0x400\", \"what\": \"shared memory, offset 0\", \"count\": 1}"));
    assert_non_null(strstr(text, "\"address\": null, \"what\": null"));
    emu_report_destroy(report);
}

static void test_a_path_that_cannot_be(void **state)
{
    struct emu_report *report = emu_report_create();
    (void)state;
    assert_false(emu_report_write(report, "/nonexistent/report.json"));
    emu_report_destroy(report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_lines_are_counted),
        cmocka_unit_test(test_text_names_both_sides),
        cmocka_unit_test(test_json_is_escaped),
        cmocka_unit_test(test_a_path_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
