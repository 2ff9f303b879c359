/* smla-bench table: results of smla-bench prefill and decode as tables of Markdown. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "cli.h"

enum { CELL_TEXT = 400, MOST_RIVALS = 2 * BENCH_MAX_RIVALS };

static const double as_fast = 1.01; /* times the fastest, that is as fast */

/* What `shape` asks of the plan is a variant; this is the shape where the plan chooses by itself. A line each. */
static struct bench_shape shape_of_plan(struct bench_shape shape)
{
    shape.not_persistent = false;
    return shape;
}

static const char *asked_for(const struct bench_shape *shape)
{
    return shape->not_persistent ? "`not_persistent`" : "the plan";
}

/* A row of a result. */
struct result {
    const json_t *json;
    struct bench_shape shape;
    char of_plan[BENCH_SHAPE_TEXT]; /* shape_of_plan()'s text: alike for the variants of a shape */
    bool is_plans;
};

/* ---- Reading ---- */

static int read_result(const json_t *json, uint32_t op, const char *where, struct result *out)
{
    *out = (struct result){.json = json};
    const int code = bench_shape_read(json_object_get(json, "shape"), op, &out->shape, where);
    if (code != CLI_FINE)
        return code;
    char text[BENCH_SHAPE_TEXT];
    const struct bench_shape shape = shape_of_plan(out->shape);
    bench_shape_text(&shape, out->of_plan);
    bench_shape_text(&out->shape, text);
    out->is_plans = strcmp(text, out->of_plan) == 0;
    return CLI_FINE;
}

/* 0: it is something else. */
static uint32_t op_of(const json_t *root)
{
    const char *bench = json_string_value(json_object_get(root, "bench"));
    return bench == NULL ? 0 : bench_op_of(bench);
}

/* Opens a file; *root is the caller's. */
static int read_file(const char *path, json_t **root)
{
    json_error_t error;
    *root = json_load_file(path, 0, &error);
    if (*root == NULL)
        return cli_fail(CLI_USAGE, "%s: %s (line %d)", path, error.text, error.line);
    if (op_of(*root) != 0 && json_is_array(json_object_get(*root, "results")))
        return CLI_FINE;
    json_decref(*root);
    return cli_fail(CLI_USAGE, "%s: this is no result of smla-bench prefill --json or decode --json", path);
}

/* Appends the results of a file to *results. */
static int read_results(const json_t *root, const char *path, struct result **results, size_t *count)
{
    char where[CELL_TEXT];
    const json_t *rows = json_object_get(root, "results");
    struct result *grown = realloc(*results, (*count + json_array_size(rows) + 1) * sizeof *grown);
    if (grown == NULL)
        return cli_fail(CLI_CHECK_FAILED, "out of memory");
    *results = grown;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        snprintf(where, sizeof where, "%s: result %zu", path, i);
        const int code = read_result(json_array_get(rows, i), op_of(root), where, &grown[*count]);
        if (code != CLI_FINE)
            return code;
        ++*count;
    }
    return CLI_FINE;
}

/* ---- Cells ---- */

static const char *text_of(const json_t *object, const char *key, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text == NULL ? otherwise : text;
}

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* 65,536: from five digits on with a comma. */
static void print_count(int64_t value)
{
    if (value >= 1000000)
        printf("%lld,%03lld,%03lld", (long long)(value / 1000000), (long long)(value / 1000 % 1000),
               (long long)(value % 1000));
    else if (value >= 10000)
        printf("%lld,%03lld", (long long)(value / 1000), (long long)(value % 1000));
    else
        printf("%lld", (long long)value);
}

/* Text that is no cell's end. */
static void print_text(const char *text)
{
    for (; *text != 0; text++)
        printf(*text == '|' ? "\\|" : "%c", *text == '\n' ? ' ' : *text);
}

static void print_kernel(const struct bench_shape *shape)
{
    if (shape->op == SMLA_OP_DECODE) {
        printf("%d, %d, %lld", shape->h_q, shape->d_qk, (long long)shape->topk);
        if (shape->extra_kv_format[0] != 0)
            printf(" + %lld", (long long)shape->extra_topk);
        printf(", %lld · %lld", (long long)shape->b, (long long)shape->s_q);
        return;
    }
    printf("%d, %d, %lld, %lld", shape->h_q, shape->d_qk, (long long)shape->topk, (long long)shape->s_q);
}

static void print_pages(const struct bench_shape *shape)
{
    if (shape->page != 0)
        printf(", pages of %lld", (long long)shape->page);
}

/* What decode has, and prefill does not. */
static void print_decode(const struct bench_shape *shape)
{
    struct bench_shape extra;
    if (bench_shape_extra(shape, &extra)) {
        printf("; ");
        print_count(extra.s_kv);
        printf(" `%s`", extra.kv_format);
        print_pages(&extra);
    }
    if (shape->batch_invariant)
        printf(", `batch_invariant`");
    if (shape->sm_limit != 0)
        printf(", `sm_limit` %lld", (long long)shape->sm_limit);
}

static void print_rows(const struct bench_shape *shape)
{
    static const char *const lists[] = {
        [BENCH_INDICES_UNIFORM] = "", [BENCH_INDICES_DRIFT] = " drift", [BENCH_INDICES_WINDOW] = " window"};
    print_count(shape->s_kv);
    if (shape->kv_format[0] != 0)
        printf(" `%s`", shape->kv_format);
    printf("%s", shape->indices == BENCH_INDICES_FILE ? " lists of a file" : lists[shape->indices]);
    if (shape->one_long)
        printf(", one list whole, of the others %lld", (long long)shape->length_high);
    else if (shape->length_high != 0)
        printf(", lengths %lld to %lld", (long long)shape->length_low, (long long)shape->length_high);
    print_pages(shape);
    if (shape->op == SMLA_OP_DECODE)
        print_decode(shape);
    if (!shape->sink)
        printf(", no sinks");
}

/* The two cells of a shape; the first is empty when the kernel and its queries are those of the line before. */
static void print_shape(const struct bench_shape *shape, const struct bench_shape *before)
{
    const bool same = before != NULL && before->h_q == shape->h_q && before->d_qk == shape->d_qk &&
                      before->topk == shape->topk && before->extra_topk == shape->extra_topk && before->b == shape->b &&
                      before->s_q == shape->s_q;
    printf("| ");
    if (!same)
        print_kernel(shape);
    printf("%s| ", same ? "" : " ");
    print_rows(shape);
}

/* "647.6 (643 to 661)" */
static void print_times(const json_t *subject)
{
    const json_t *us = json_object_get(subject, "us");
    const double median = number_of(us, "median");
    const int digits = median < 10 ? 2 : 1;
    printf("%.*f (%.*f to %.*f)", digits, median, digits, number_of(us, "p10"), digits, number_of(us, "p90"));
}

static double median_of(const struct result *result)
{
    return number_of(json_object_get(json_object_get(result->json, "smla"), "us"), "median");
}

static const char *why_not(const json_t *object)
{
    return json_string_value(json_object_get(object, "not_run"));
}

/* Where, when and how it was measured. */
static void print_origin(const json_t *root)
{
    const char *driver = text_of(root, "driver", NULL), *command = text_of(root, "command", NULL);
    const int cuda = (int)json_integer_value(json_object_get(root, "driver_version"));
    printf("%s (driver ", text_of(root, "device", "a card"));
    if (driver != NULL)
        printf("%s", driver);
    else
        printf("for CUDA %d.%d", cuda / 1000, cuda % 1000 / 10);
    printf("), %.10s, ", text_of(root, "date", "no date"));
    if (command != NULL)
        printf("`%s`, ", command);
    printf("smla %s: device time by graph replay, median of %lld replays (p10 to p90)", text_of(root, "version", "?"),
           (long long)json_integer_value(json_object_get(root, "runs")));
}

/* The header of print_shape's cells. */
static const char *shape_header(const json_t *root)
{
    return op_of(root) == SMLA_OP_DECODE ? "| heads, `d_qk`, `topk`, requests · queries | slots, lists |"
                                         : "| heads, `d_qk`, `topk`, queries | rows, lists |";
}

/* ---- A line for each result ---- */

/* The names of all rivals, in the order in which they come. */
static size_t find_rivals(const struct result *results, size_t count, const char *names[MOST_RIVALS])
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *rivals = json_object_get(results[i].json, "rivals");
        for (size_t j = 0; j < json_array_size(rivals); j++) {
            const char *name = text_of(json_array_get(rivals, j), "name", "rival");
            size_t k = 0;
            while (k < found && strcmp(names[k], name) != 0)
                k++;
            if (k == found && found < MOST_RIVALS)
                names[found++] = name;
        }
    }
    return found;
}

static void print_rival(const json_t *row, const char *name)
{
    const json_t *rivals = json_object_get(row, "rivals"), *rival = NULL;
    for (size_t i = 0; i < json_array_size(rivals) && rival == NULL; i++)
        if (strcmp(text_of(json_array_get(rivals, i), "name", "rival"), name) == 0)
            rival = json_array_get(rivals, i);
    if (rival == NULL || why_not(rival) != NULL) {
        printf("%s | |", rival == NULL ? "" : " not run");
        return;
    }
    printf(" %.1f | %.2f |", number_of(json_object_get(rival, "us"), "median"), number_of(rival, "ratio"));
}

/* One figure of all pools: "9.5, 7.0, 4.4". */
static void print_pools(const json_t *pools, const char *key, int digits)
{
    for (size_t i = 0; i < json_array_size(pools); i++) {
        const json_t *pool = json_array_get(pools, i);
        printf("%s", i == 0 ? " " : ", ");
        if (key == NULL)
            print_count(json_integer_value(json_object_get(pool, "rows")));
        else
            printf("%.*f", digits, number_of(json_object_get(pool, key), "value"));
    }
}

static void print_ceilings(const json_t *root)
{
    const json_t *ceilings = json_object_get(root, "ceilings"), *pools = json_object_get(ceilings, "pools");
    if (!json_is_array(pools))
        return;
    printf("\nCeilings of the same run: matrix %.0f TFLOP/s; with pools of",
           number_of(json_object_get(ceilings, "matrix_tflops"), "value"));
    print_pools(pools, NULL, 0);
    printf(" KiB gather");
    print_pools(pools, "gather_tbs", 1);
    printf(" TB/s, and both together");
    print_pools(pools, "both_tflops", 0);
    printf(" TFLOP/s.\n");
}

static void print_table(const json_t *root, const struct result *results, size_t count)
{
    const char *names[MOST_RIVALS];
    const size_t rivals = find_rivals(results, count, names);
    print_origin(root);
    printf("%s.\n\n%s kernel | smla µs (p10 to p90) |", rivals == 0 ? "" : "; ratio: a rival's time divided by smla's",
           shape_header(root));
    for (size_t i = 0; i < rivals; i++)
        printf(" %s µs | ratio |", names[i]);
    printf("\n|---|---|---|---|");
    for (size_t i = 0; i < rivals; i++)
        printf("---|---|");
    printf("\n");
    for (size_t i = 0; i < count; i++) {
        const json_t *row = results[i].json;
        print_shape(&results[i].shape, i == 0 ? NULL : &results[i - 1].shape);
        printf(" | %s%s | ", text_of(row, "variant", "none"), results[i].is_plans ? "" : ", asked for");
        if (why_not(row) != NULL) {
            printf("not run: ");
            print_text(why_not(row));
        } else {
            print_times(json_object_get(row, "smla"));
        }
        printf(" |");
        for (size_t j = 0; j < rivals; j++)
            print_rival(row, names[j]);
        printf("\n");
    }
    print_ceilings(root);
}

/* ---- A line for each variant of each shape ---- */

/* The least time of a shape's variants; 0: none ran. */
static double fastest_of(const struct result *results, size_t count, const char *of_plan)
{
    double least = 0;
    for (size_t i = 0; i < count; i++) {
        const double us = strcmp(results[i].of_plan, of_plan) == 0 ? median_of(&results[i]) : 0;
        least = us > 0 && (least == 0 || us < least) ? us : least;
    }
    return least;
}

static void print_variant(const struct result *result, double fastest)
{
    printf(" | %s | %s | ", asked_for(&result->shape), text_of(result->json, "variant", ""));
    if (why_not(result->json) != NULL) {
        printf("not run: ");
        print_text(why_not(result->json));
        printf(" | |\n");
        return;
    }
    print_times(json_object_get(result->json, "smla"));
    const double ratio = median_of(result) / fastest;
    printf(ratio == 1 ? " | **%.2f** |\n" : " | %.2f |\n", ratio);
}

/* A shape, at its first result. The plan's own kernel comes first. */
static void print_variants(const struct result *results, size_t count, size_t first)
{
    const char *of_plan = results[first].of_plan;
    const double fastest = fastest_of(results, count, of_plan);
    bool started = false;
    for (int plans = 1; plans >= 0; plans--) {
        for (size_t i = first; i < count; i++) {
            if (results[i].is_plans != plans || strcmp(results[i].of_plan, of_plan) != 0)
                continue;
            if (started)
                printf("| |");
            else
                print_shape(&results[first].shape, NULL);
            started = true;
            print_variant(&results[i], fastest);
        }
    }
}

static bool is_first(const struct result *results, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (strcmp(results[i].of_plan, results[index].of_plan) == 0)
            return false;
    return true;
}

/* For how many of the shapes that ran the plan's own choice was the fastest. */
static void print_verdict(const struct result *results, size_t count)
{
    size_t shapes = 0, right = 0;
    for (size_t i = 0; i < count; i++) {
        const double us = median_of(&results[i]);
        if (!results[i].is_plans || us == 0)
            continue;
        shapes++;
        right += us <= as_fast * fastest_of(results, count, results[i].of_plan);
    }
    printf("\nThe plan's own choice was the fastest, or within 1 %% of it, for %zu of %zu shapes.\n", right, shapes);
}

static void print_all_variants(const json_t *root, const struct result *results, size_t count)
{
    print_origin(root);
    printf(". The last column is the time divided by the fastest variant's.\n\n"
           "%s chosen by | kernel | µs (p10 to p90) | ÷ fastest |\n"
           "|---|---|---|---|---|---|\n",
           shape_header(root));
    for (size_t i = 0; i < count; i++)
        if (is_first(results, i))
            print_variants(results, count, i);
    print_verdict(results, count);
}

/* ---- Both ---- */

static int print_files(json_t **roots, char *const *paths, size_t count, bool variants, struct result **results)
{
    size_t rows = 0;
    for (size_t i = 0; i < count; i++) {
        int code = read_file(paths[i], &roots[i]);
        if (code != CLI_FINE) {
            roots[i] = NULL;
            return code;
        }
        rows = variants ? rows : 0;
        code = read_results(roots[i], paths[i], results, &rows);
        if (code != CLI_FINE)
            return code;
        if (!variants) {
            printf("%s", i == 0 ? "" : "\n");
            print_table(roots[i], *results, rows);
        }
    }
    if (variants)
        print_all_variants(roots[0], *results, rows);
    return CLI_FINE;
}

int bench_markdown(char *const *paths, size_t count, bool variants)
{
    struct result *results = NULL;
    json_t **roots = calloc(count, sizeof *roots);
    const int code = roots == NULL ? cli_fail(CLI_CHECK_FAILED, "out of memory")
                                   : print_files(roots, paths, count, variants, &results);
    for (size_t i = 0; roots != NULL && i < count; i++)
        json_decref(roots[i]);
    free(roots);
    free(results);
    return code;
}
