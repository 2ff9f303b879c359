#include "bench_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

enum { D_V = 512 };

static const double farthest = 0.08; /* from a known value, before that is said */

size_t bench_row_rotated_bytes(const struct bench_row *row)
{
    const size_t launches = (size_t)row->launches;
    return row->copy_bytes * (launches < row->copies ? launches : row->copies);
}

int64_t bench_row_pool_bytes(const struct bench_row *row)
{
    return row->shape.s_kv * row->token_bytes + row->shape.extra_s_kv * row->extra_token_bytes;
}

double bench_row_tflops(const struct bench_row *row, double us)
{
    return us == 0 ? 0 : 2 * (row->keys + row->extra_keys) * row->shape.h_q * (row->shape.d_qk + D_V) / us / 1e6;
}

double bench_row_tbs(const struct bench_row *row, double us)
{
    const double bytes = row->keys * (double)row->token_bytes + row->extra_keys * (double)row->extra_token_bytes;
    return us == 0 ? 0 : bytes / us / 1e6;
}

/* Whether a value is farther from what an H200 gave before than it should be. */
static bool is_off(const struct bench_report *report, double value, double known)
{
    return known > 0 && value > 0 && strcmp(report->device, "NVIDIA H200") == 0 && fabs(value / known - 1) > farthest;
}

/* The bound of both together is for kernels of 64 heads over keys of 1 KiB that nobody converts. */
static bool bounded_by_both(const struct bench_row *row)
{
    return row->ceiling.both_tflops > 0 && row->shape.h_q == 64 && row->shape.d_qk == 512 &&
           row->shape.kv_format[0] == 0 && row->shape.extra_kv_format[0] == 0;
}

static double share(double value, double ceiling)
{
    return ceiling > 0 ? value / ceiling : 0;
}

/* ---- A table ---- */

static void print_known(const struct bench_report *report, double value, double known, double mhz)
{
    if (mhz > 0)
        printf(" at %.0f MHz", mhz);
    if (known > 0)
        printf(", known %.4g%s", known, is_off(report, value, known) ? ": MORE THAN 8 % OFF" : "");
}

static void print_ceilings(const struct bench_report *report)
{
    const struct bench_ceilings *ceilings = report->ceilings;
    if (ceilings->not_run[0] != 0) {
        printf("ceilings: not run: %s\n", ceilings->not_run);
        return;
    }
    printf("ceilings: matrix %.0f TFLOP/s", ceilings->matrix_tflops);
    print_known(report, ceilings->matrix_tflops, bench_known_matrix_tflops, ceilings->matrix_mhz);
    printf("\n");
    for (size_t i = 0; i < ceilings->pool_count; i++) {
        const struct bench_pool_ceiling *pool = &ceilings->pools[i];
        printf("  %7lld rows of 1 KiB: gather %.2f TB/s", (long long)pool->rows, pool->gather_tbs);
        print_known(report, pool->gather_tbs, bench_known_gather_tbs(pool->rows), pool->gather_mhz);
        printf("; both %.0f TFLOP/s", pool->both_tflops);
        print_known(report, pool->both_tflops, bench_known_both_tflops(pool->rows), pool->both_mhz);
        printf("\n");
    }
}

static void print_percent(double part)
{
    if (part > 0)
        printf(" %6.1f", 100 * part);
    else
        printf(" %6s", "-");
}

static void print_clocks(const struct bench_subject *subject)
{
    if (subject->mhz.count != 0)
        printf(" %5.0f %4.0f", subject->mhz.median, subject->watts.median);
    else
        printf(" %5s %4s", "-", "-");
}

static void print_times(const struct bench_subject *subject)
{
    printf(" %9.2f %9.2f %9.2f %9.2f %9.2f %7.2f", subject->us.median, subject->us.min, subject->us.p10,
           subject->us.p90, subject->us.max, subject->host_us.median);
}

static void print_subject(const struct bench_report *report, const struct bench_row *row,
                          const struct bench_subject *subject)
{
    const double tflops = bench_row_tflops(row, subject->us.median), tbs = bench_row_tbs(row, subject->us.median);
    printf("  %-14s", subject->name);
    if (subject->not_run[0] != 0) {
        printf(" not run: %s\n", subject->not_run);
        return;
    }
    print_times(subject);
    printf(" %7.1f %6.2f", tflops, tbs);
    print_percent(share(tflops, report->ceilings->matrix_tflops));
    print_percent(share(tbs, row->ceiling.gather_tbs));
    print_percent(bounded_by_both(row) ? share(tflops, row->ceiling.both_tflops) : 0);
    print_clocks(subject);
    if (subject != row->subjects && row->subjects[0].us.median > 0)
        printf("  %.3f x smla, out differs by at most %.3g of %.3g", subject->us.median / row->subjects[0].us.median,
               subject->difference, subject->largest);
    const double known = strcmp(subject->name, "FlashMLA") == 0 ? bench_flashmla_us(&row->shape) : 0;
    if (known > 0)
        printf(", known %.4g us%s", known, is_off(report, subject->us.median, known) ? ": MORE THAN 8 % OFF" : "");
    printf("\n");
}

static void print_row(const struct bench_report *report, const struct bench_row *row)
{
    char text[BENCH_SHAPE_TEXT];
    bench_shape_text(&row->shape, text);
    printf("%s", text);
    if (row->not_run[0] != 0) {
        printf(": not run: %s\n", row->not_run);
        return;
    }
    printf(" (%s; %lld launches a replay, over %.0f MB of query, lists and out)\n", row->variant,
           (long long)row->launches, (double)bench_row_rotated_bytes(row) / 1e6);
    for (size_t i = 0; i < row->subject_count; i++)
        print_subject(report, row, &row->subjects[i]);
}

void bench_report_print(const struct bench_report *report)
{
    printf("%s: %s, driver for CUDA %d.%d, %s, median of %lld replays; clocks and power %s\n",
           bench_op_name(report->op), report->device, report->driver_version / 1000, report->driver_version % 1000 / 10,
           report->date, (long long)report->runs, report->clocks_read ? "read while they ran" : "not read");
    print_ceilings(report);
    printf("  %-14s %9s %9s %9s %9s %9s %7s %7s %6s %6s %6s %6s %5s %4s\n", "", "us", "min", "p10", "p90", "max",
           "host us", "TFLOP/s", "TB/s", "%matr.", "%gath.", "%both", "MHz", "W");
    for (size_t i = 0; i < report->row_count; i++)
        print_row(report, &report->rows[i]);
}

/* ---- JSON ---- */

static json_t *spread_json(const struct bench_spread *spread)
{
    if (spread->count == 0)
        return json_null();
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:I}", "median", spread->median, "min", spread->min, "max", spread->max,
                     "p10", spread->p10, "p90", spread->p90, "count", (json_int_t)spread->count);
}

static json_t *integer_json(json_int_t value)
{
    return value > 0 ? json_integer(value) : json_null();
}

/* What is 0 was not measured; infinities are no JSON. */
static json_t *number_json(double value)
{
    return value > 0 && isfinite(value) ? json_real(value) : json_null();
}

static json_t *card_json(const struct bench_card *card)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "multiprocessors", integer_json(card->multiprocessors),
                     "l2_bytes", integer_json(card->l2_bytes), "memory_bytes",
                     integer_json((json_int_t)card->memory_bytes), "clock_mhz", integer_json(card->clock_khz / 1000),
                     "memory_mhz", integer_json(card->memory_clock_khz / 1000), "memory_bus_bits",
                     integer_json(card->memory_bus_bits), "mig", card->mig < 0 ? json_null() : json_boolean(card->mig));
}

/* One ceiling: what it is, what it was on an H200, and at which clock it was measured. */
static json_t *ceiling_json(const struct bench_report *report, double value, double known, double mhz)
{
    return json_pack("{s:f, s:o, s:b, s:o}", "value", value, "known", number_json(known), "is_off",
                     is_off(report, value, known), "mhz", number_json(mhz));
}

static json_t *ceilings_json(const struct bench_report *report)
{
    const struct bench_ceilings *ceilings = report->ceilings;
    if (ceilings->not_run[0] != 0)
        return json_pack("{s:s}", "not_run", ceilings->not_run);
    json_t *pools = json_array();
    for (size_t i = 0; i < ceilings->pool_count; i++) {
        const struct bench_pool_ceiling *pool = &ceilings->pools[i];
        json_t *gather = ceiling_json(report, pool->gather_tbs, bench_known_gather_tbs(pool->rows), pool->gather_mhz);
        json_t *both = ceiling_json(report, pool->both_tflops, bench_known_both_tflops(pool->rows), pool->both_mhz);
        json_array_append_new(pools, json_pack("{s:I, s:o, s:o}", "rows", (json_int_t)pool->rows, "gather_tbs", gather,
                                               "both_tflops", both));
    }
    json_t *matrix = ceiling_json(report, ceilings->matrix_tflops, bench_known_matrix_tflops, ceilings->matrix_mhz);
    return json_pack("{s:o, s:o}", "matrix_tflops", matrix, "pools", pools);
}

static json_t *subject_json(const struct bench_report *report, const struct bench_row *row,
                            const struct bench_subject *subject)
{
    const double us = subject->us.median, tflops = bench_row_tflops(row, us), tbs = bench_row_tbs(row, us);
    const double both = bounded_by_both(row) ? row->ceiling.both_tflops : 0;
    if (subject->not_run[0] != 0)
        return json_pack("{s:s, s:s}", "name", subject->name, "not_run", subject->not_run);
    json_t *object =
        json_pack("{s:s, s:o, s:o, s:f, s:f, s:{s:o, s:o, s:o}, s:o, s:o}", "name", subject->name, "us",
                  spread_json(&subject->us), "host_us", spread_json(&subject->host_us), "tflops", tflops, "tbs", tbs,
                  "share", "matrix", number_json(share(tflops, report->ceilings->matrix_tflops)), "gather",
                  number_json(share(tbs, row->ceiling.gather_tbs)), "both", number_json(share(tflops, both)), "mhz",
                  spread_json(&subject->mhz), "watts", spread_json(&subject->watts));
    if (subject != row->subjects) {
        const double known = strcmp(subject->name, "FlashMLA") == 0 ? bench_flashmla_us(&row->shape) : 0;
        const double ours = row->subjects[0].us.median;
        json_object_set_new(object, "ratio", number_json(ours > 0 ? us / ours : 0));
        json_object_set_new(object, "difference",
                            isfinite(subject->difference) ? json_real(subject->difference) : json_null());
        json_object_set_new(object, "largest", json_real(subject->largest));
        json_object_set_new(object, "known_us", number_json(known));
        json_object_set_new(object, "is_off", json_boolean(is_off(report, us, known)));
    }
    return object;
}

static json_t *row_json(const struct bench_report *report, const struct bench_row *row)
{
    json_t *shape = bench_shape_json(&row->shape);
    if (row->not_run[0] != 0)
        return json_pack("{s:o, s:s}", "shape", shape, "not_run", row->not_run);
    json_t *rivals = json_array();
    for (size_t i = 1; i < row->subject_count; i++)
        json_array_append_new(rivals, subject_json(report, row, &row->subjects[i]));
    json_t *object = json_pack("{s:o, s:s, s:f, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "shape", shape, "variant",
                               row->variant, "keys", row->keys, "token_bytes", (json_int_t)row->token_bytes, "launches",
                               (json_int_t)row->launches, "copies", (json_int_t)row->copies, "copy_bytes",
                               (json_int_t)row->copy_bytes, "rotated_bytes", (json_int_t)bench_row_rotated_bytes(row),
                               "smla", subject_json(report, row, &row->subjects[0]), "rivals", rivals);
    if (report->op == SMLA_OP_DECODE) {
        json_object_set_new(object, "extra_keys", json_real(row->extra_keys));
        json_object_set_new(object, "extra_token_bytes", json_integer((json_int_t)row->extra_token_bytes));
    }
    return object;
}

int bench_report_print_json(const struct bench_report *report)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < report->row_count; i++)
        json_array_append_new(rows, row_json(report, &report->rows[i]));
    json_t *root = json_pack("{s:s, s:s, s:s, s:s, s:o, s:s, s:i, s:o, s:s, s:I, s:b, s:o, s:o}", "bench",
                             bench_op_name(report->op), "version", smla_version(), "command", report->command, "device",
                             report->device, "card", card_json(&report->card), "target", report->target,
                             "driver_version", report->driver_version, "driver",
                             report->card.driver[0] == 0 ? json_null() : json_string(report->card.driver), "date",
                             report->date, "runs", (json_int_t)report->runs, "clocks_read", report->clocks_read,
                             "ceilings", ceilings_json(report), "results", rows);
    const bool ok = root != NULL && json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0;
    putchar('\n');
    json_decref(root);
    return ok ? CLI_FINE : cli_fail(CLI_CHECK_FAILED, "cannot print the JSON result");
}
