#include "run_self_test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "plan_list.h"
#include "run_emu.h"

/* Kernels to test. */
struct list {
    struct shapes_job *jobs;
    size_t count;
    size_t capacity;
};

/* What came of one. */
struct result {
    smla_support support;
    int code;
    uint64_t test_ns;
    bool lost;       /* the device, to a fault */
    const char *why; /* "" when it is right; valid until the next call of smla */
};

/* ---- Which ---- */

static bool add(struct list *list, const struct shapes_job *job)
{
    if (list->count == list->capacity) {
        const size_t capacity = 2 * list->capacity + 64;
        struct shapes_job *jobs = realloc(list->jobs, capacity * sizeof *jobs);
        if (jobs == NULL)
            return false;
        list->jobs = jobs;
        list->capacity = capacity;
    }
    list->jobs[list->count++] = *job;
    return true;
}

/* kv, extra: rows of the table of formats; -1: none. */
static bool add_formats(struct list *list, const struct gen_supported *row, int kv, int extra)
{
    size_t count;
    const struct gen_kv_format *formats = gen_kv_format_table(&count);
    struct shapes_job job = {.shape = {.op = row->op, .h_q = row->last_h_q, .d_qk = row->d_qk}};
    snprintf(job.target, sizeof job.target, "%s", row->target->name);
    if (kv >= 0)
        snprintf(job.shape.kv_format, sizeof job.shape.kv_format, "%s", formats[kv].name);
    if (extra >= 0)
        snprintf(job.shape.extra_kv_format, sizeof job.shape.extra_kv_format, "%s", formats[extra].name);
    return add(list, &job);
}

static int first_of(uint32_t formats)
{
    int first = 0;
    while (!(formats >> first & 1u))
        first++;
    return first;
}

/* With the most heads of the row, and each first format: alone where it may be, and beside a second cache, of the same
 * format where that is among them. */
static bool add_row(struct list *list, const struct gen_supported *row)
{
    bool ok = true;
    if (row->kv == GEN_NO_CACHE)
        return add_formats(list, row, -1, -1);
    for (int kv = 0; kv < 31; kv++) {
        const uint32_t second = row->extra_kv & ~GEN_NO_CACHE;
        if (!(row->kv >> kv & 1u))
            continue;
        if (row->extra_kv & GEN_NO_CACHE)
            ok = ok && add_formats(list, row, kv, -1);
        if (second != 0)
            ok = ok && add_formats(list, row, kv, second >> kv & 1u ? kv : first_of(second));
    }
    return ok;
}

static bool list_all(const char *target, struct list *list)
{
    static struct gen_supported rows[GEN_MAX_SUPPORTED];
    const struct gen_target *wanted = gen_target_find(target);
    const size_t count = gen_supported_list(rows);
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++)
        if (rows[i].target == wanted)
            ok = add_row(list, &rows[i]);
    return ok;
}

/* The device's is told with any description, also with one that is not supported. */
static int find_target(const struct run_self_test *test, char target[8])
{
    const struct gen_target *named = test->target != NULL ? gen_target_find(test->target) : NULL;
    const smla_kernel_desc desc = {.struct_size = sizeof desc, .op = SMLA_OP_COMBINE, .h_q = 1};
    smla_support support = {.struct_size = sizeof support};
    if (test->target != NULL) {
        snprintf(target, sizeof support.target, "%s", named != NULL ? named->name : "");
        return named != NULL ? CLI_FINE : cli_usage("--sm '%s' is no target", test->target);
    }
    if (smla_query_support(test->session->context, &desc, &support) != SMLA_OK)
        return cli_smla_error("--selftest");
    if (support.target[0] == 0)
        return cli_fail(CLI_UNAVAILABLE, "%s", support.reason);
    memcpy(target, support.target, sizeof support.target);
    return CLI_FINE;
}

static int make_list(const struct run_self_test *test, struct list *list)
{
    char target[8];
    int code = find_target(test, target);
    if (code != CLI_FINE)
        return code;
    if (test->from->from_count > 0) {
        struct shapes_options options = *test->from;
        options.sm = target;
        code = shapes_jobs(&options, &list->jobs, &list->count);
    } else if (!list_all(target, list)) {
        code = cli_fail(CLI_CHECK_FAILED, "out of memory");
    }
    for (size_t i = 0; code == CLI_FINE && i < list->count; i++)
        if (list->jobs[i].shape.op == SMLA_OP_PREFILL)
            list->jobs[i].shape.flags |= test->session->kernel_flags;
    return code;
}

/* ---- One ---- */

static uint64_t test_time(const struct run_self_test *test)
{
    smla_stats_counters stats = {.struct_size = sizeof stats};
    smla_stats(test->session->context, &stats);
    return stats.self_test_ns;
}

static const char *last_message(int *code)
{
    smla_error_info info = {.struct_size = sizeof info};
    smla_last_error(&info);
    *code = cli_exit_of(info.status);
    return info.message;
}

/* A fault, too, may be one that the emulated device can explain. */
static void look_at_findings(const struct run_self_test *test, size_t before, struct result *result)
{
    if (test->emulated == NULL || run_emu_findings(test->emulated) <= before)
        return;
    result->code = CLI_CHECK_FAILED;
    if (result->why[0] == 0)
        result->why = "the emulated device found a fault";
}

static struct result test_one(const struct run_self_test *test, const struct shapes_job *job)
{
    struct result result = {.support = {.struct_size = sizeof result.support}, .why = ""};
    const size_t findings = test->emulated != NULL ? run_emu_findings(test->emulated) : 0;
    const uint64_t before = test_time(test);
    smla_kernel_desc desc;
    smla_kernel *kernel = NULL;
    shapes_desc(job, &desc);
    if (smla_query_support(test->session->context, &desc, &result.support) != SMLA_OK ||
        smla_prepare(test->session->context, &desc, &kernel) != SMLA_OK)
        result.why = last_message(&result.code);
    /* After a launch that failed each call fails; after others, of memory that was not to be had, none. */
    result.lost = result.code == CLI_DEVICE_FAULT && !device_synchronize(test->session->device);
    smla_kernel_destroy(kernel);
    result.test_ns = test_time(test) - before;
    look_at_findings(test, findings, &result);
    return result;
}

static const char *verdict_of(const struct result *result)
{
    switch (result->code) {
    case CLI_FINE:
        return "right";
    case CLI_UNAVAILABLE:
        return "not tested";
    case CLI_DEVICE_FAULT:
        return "fault";
    default:
        return "WRONG";
    }
}

static void print_one(const char *text, const struct result *result)
{
    printf("%-11s %s", verdict_of(result), text);
    if (result->support.variant[0] != 0)
        printf(": %s%s%s, %.1f ms", result->support.variant, result->support.companion[0] != 0 ? " and " : "",
               result->support.companion, (double)result->test_ns / 1e6);
    printf("\n");
    if (result->why[0] != 0)
        printf("            %s\n", result->why);
    fflush(stdout);
}

static json_t *one_json(const struct shapes_job *job, const char *text, const struct result *result)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:f, s:s?}", "kernel", text, "target", job->target, "variant",
                     result->support.variant, "companion", result->support.companion, "status", result->support.status,
                     "tested", (int)(result->code != CLI_UNAVAILABLE), "pass", (int)(result->code == CLI_FINE), "ms",
                     (double)result->test_ns / 1e6, "why", result->why[0] != 0 ? result->why : NULL);
}

/* ---- All ---- */

static void tell_one(const struct run_self_test *test, const struct shapes_job *job, const struct result *result,
                     json_t *rows)
{
    char text[160];
    shapes_text(job, text);
    if (test->json)
        json_array_append_new(rows, one_json(job, text, result));
    else
        print_one(text, result);
}

/* Whatever they are, their calls would fail. */
static void tell_not_run(const struct run_self_test *test, const struct list *list, size_t first, json_t *rows)
{
    const struct result not_run = {.code = CLI_UNAVAILABLE,
                                   .why = "not run: the device cannot be used after the fault before"};
    for (size_t i = first; i < list->count; i++)
        tell_one(test, &list->jobs[i], &not_run, rows);
    if (first < list->count)
        cli_fail(0, "the device cannot be used after this fault: %zu of %zu kernels were not run", list->count - first,
                 list->count);
}

static void print_device(const struct run_self_test *test)
{
    char text[RUN_STATE];
    run_watch_device(test->session, text);
    fputs(text, stdout);
}

static void print_cache(const struct run_self_test *test)
{
    char text[RUN_STATE];
    run_watch_cache(test->session, text);
    fputs(text, stdout);
}

static int test_all(const struct run_self_test *test, const struct list *list, json_t *rows)
{
    int code = CLI_FINE;
    size_t right = 0, done = 0;
    bool lost = false;
    if (!test->json)
        print_device(test);
    while (done < list->count && !lost) {
        char text[160];
        const struct shapes_job *job = &list->jobs[done++];
        shapes_text(job, text);
        run_watch_doing(test->watch, test->session, text);
        const struct result result = test_one(test, job);
        code = cli_worse(code, result.code);
        right += result.code == CLI_FINE;
        lost = result.lost;
        tell_one(test, job, &result, rows);
        cli_progress(done, list->count, text);
    }
    tell_not_run(test, list, done, rows);
    run_watch_doing(test->watch, test->session, "telling what came of it");
    if (!test->json)
        print_cache(test);
    if (!test->json)
        printf("%zu of %zu kernels right\n", right, list->count);
    return code;
}

static int print_rows(const json_t *rows)
{
    const bool ok = json_dumpf(rows, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0 && putchar('\n') != EOF;
    return ok ? CLI_FINE : cli_fail(CLI_CHECK_FAILED, "cannot print the JSON result");
}

int run_self_test(const struct run_self_test *test)
{
    struct list list = {0};
    json_t *rows = json_array();
    int code = rows == NULL ? cli_fail(CLI_CHECK_FAILED, "out of memory") : make_list(test, &list);
    if (code == CLI_FINE) {
        code = test_all(test, &list, rows);
        if (test->json)
            code = cli_worse(code, print_rows(rows));
    }
    json_decref(rows);
    free(list.jobs);
    return code;
}
