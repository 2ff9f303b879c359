/* smla-bench prefill and decode: what a call takes, shape by shape, beside rivals and ceilings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench_report.h"
#include "bench_rival.h"
#include "cli.h"
#include "decode_share.h"
#include "kv_codec.h"
#include "prefill.h"

enum { DEFAULT_RUNS = 30, MAX_COPIES = 512 };

struct calls {
    const struct bench_options *options;
    struct device *device;
    smla_context *context;
    struct bench_nvml *nvml;
    struct bench_random_memory memory;
    struct bench_measure measure;
    struct bench_rival rivals[BENCH_MAX_RIVALS];
    struct bench_ceilings ceilings;
    struct bench_report report;
};

/* One shape while it is measured. */
struct running {
    const struct calls *bench;
    smla_kernel_desc desc;
    smla_kernel *kernel;
    struct bench_inputs inputs;
};

/* A rival on a shape. */
struct rival_call {
    struct running *running;
    const struct bench_rival *rival;
};

static int not_run(struct bench_row *row, int code, const char *why)
{
    snprintf(row->not_run, sizeof row->not_run, "%s", why);
    return code;
}

static int not_run_smla(struct bench_row *row)
{
    smla_error_info info = {.struct_size = sizeof info};
    smla_last_error(&info);
    return not_run(row, cli_exit_of(info.status), info.message);
}

/* ---- Subjects ---- */

static enum bench_called call_smla(void *user, size_t copy, void *stream, char why[BENCH_WHY])
{
    const struct running *running = user;
    const union bench_args *args = &running->inputs.copies[copy].args;
    smla_error_info info = {.struct_size = sizeof info};
    if ((running->desc.op == SMLA_OP_DECODE ? smla_decode(running->kernel, &args->decode, stream)
                                            : smla_prefill(running->kernel, &args->prefill, stream)) == SMLA_OK)
        return BENCH_LAUNCHED;
    smla_last_error(&info);
    snprintf(why, BENCH_WHY, "%s", info.message);
    return BENCH_FAULT;
}

static enum bench_called call_rival(void *user, size_t copy, void *stream, char why[BENCH_WHY])
{
    const struct rival_call *call = user;
    const struct running *running = call->running;
    const union bench_args *args = &running->inputs.copies[copy].rival_args;
    const uint32_t op = running->desc.op;
    const int result = op == SMLA_OP_DECODE ? call->rival->decode(&args->decode, stream)
                                            : call->rival->prefill(&args->prefill, stream);
    if (result != 0)
        snprintf(why, BENCH_WHY, "smla_rival_%s gave %d", bench_op_name(op), result);
    return result == 0 ? BENCH_LAUNCHED : BENCH_FAULT;
}

/* Describes the shape to a rival that wants to know; it may not take it. */
static void ask_rival(const struct rival_call *call, struct bench_subject *subject)
{
    char why[BENCH_WHY] = "";
    const int result = call->rival->describe == NULL ? 0 : call->rival->describe(&call->running->desc, why, sizeof why);
    if (result == 0)
        return;
    why[sizeof why - 1] = 0;
    subject->called = result == 1 ? BENCH_NOT_ITS_SHAPE : BENCH_FAULT;
    if (why[0] != 0)
        snprintf(subject->not_run, sizeof subject->not_run, "%s", why);
    else
        snprintf(subject->not_run, sizeof subject->not_run, "smla_rival_describe gave %d and does not say why", result);
}

/* Runs everybody once, and compares what rivals give with what smla gives. A rival that fails says so itself. */
static int run_once(struct calls *bench, struct running *running, struct bench_row *row)
{
    struct bench_subject *ours = &row->subjects[0];
    if (!bench_measure_once(&bench->measure, ours))
        return not_run(row, CLI_DEVICE_FAULT, ours->not_run);
    for (size_t i = 1; i < row->subject_count; i++) {
        struct bench_subject *rival = &row->subjects[i];
        if (rival->called != BENCH_LAUNCHED)
            continue;
        if (!bench_inputs_poison(&running->inputs))
            return not_run(row, CLI_DEVICE_FAULT, device_why(bench->device));
        if (!bench_measure_once(&bench->measure, ours))
            return not_run(row, CLI_DEVICE_FAULT, ours->not_run);
        if (bench_measure_once(&bench->measure, rival) &&
            !bench_inputs_compare(&running->inputs, &rival->difference, &rival->largest))
            return not_run(row, CLI_DEVICE_FAULT, device_why(bench->device));
    }
    return CLI_FINE;
}

/* Means of the launches. */
static void count_keys(const struct bench_inputs *inputs, struct bench_row *row)
{
    for (int64_t i = 0; i < row->launches; i++) {
        const struct bench_copy *copy = &inputs->copies[(size_t)i % inputs->count];
        row->keys += (double)copy->keys / (double)row->launches;
        row->extra_keys += (double)copy->extra_keys / (double)row->launches;
    }
}

static int measure_shape(struct calls *bench, struct running *running, struct bench_row *row)
{
    struct rival_call calls[BENCH_MAX_RIVALS];
    row->subjects[0] = (struct bench_subject){.name = "smla", .call = call_smla, .user = running};
    for (size_t i = 0; i < bench->options->rival_count; i++) {
        calls[i] = (struct rival_call){running, &bench->rivals[i]};
        row->subjects[1 + i] =
            (struct bench_subject){.name = bench->rivals[i].name, .call = call_rival, .user = &calls[i]};
        ask_rival(&calls[i], &row->subjects[1 + i]);
    }
    row->subject_count = 1 + bench->options->rival_count;
    bench->measure.launches = bench->options->launches;
    bench->measure.runs = bench->report.runs;
    const int code = run_once(bench, running, row);
    if (code != CLI_FINE)
        return code;
    bench_measure_run(&bench->measure, row->subjects, row->subject_count, running->inputs.count);
    row->launches = bench->measure.launches;
    count_keys(&running->inputs, row);
    if (row->subjects[0].not_run[0] != 0)
        return not_run(row, CLI_DEVICE_FAULT, row->subjects[0].not_run);
    for (size_t i = 1; i < row->subject_count; i++)
        if (row->subjects[i].called == BENCH_FAULT)
            return CLI_DEVICE_FAULT;
    return CLI_FINE;
}

/* ---- A row ---- */

/* Of decode the one that these sizes take. */
static void name_variant(const smla_kernel *kernel, struct bench_row *row)
{
    const struct bench_shape *shape = &row->shape;
    if (shape->op == SMLA_OP_DECODE)
        snprintf(row->variant, sizeof row->variant, "%s",
                 rt_decode_variant(kernel, shape->b, shape->s_q, (int64_t[2]){shape->topk, shape->extra_topk},
                                   (int32_t)shape->sm_limit));
}

/* Of prefill the one that a call over these inputs takes. */
static void name_unpacked(const struct running *running, struct bench_row *row)
{
    if (row->shape.op == SMLA_OP_PREFILL &&
        rt_prefill_unpacks(running->kernel, &running->inputs.copies[0].args.prefill))
        snprintf(row->variant, sizeof row->variant, "unpacked, %s", running->kernel->companion->name);
}

static int prepare(struct calls *bench, struct running *running, struct bench_row *row)
{
    smla_support support = {.struct_size = sizeof support};
    const char *extra = row->shape.extra_kv_format;
    running->desc = (smla_kernel_desc){.struct_size = sizeof running->desc,
                                       .op = row->shape.op,
                                       .h_q = row->shape.h_q,
                                       .d_qk = row->shape.d_qk,
                                       .d_v = 512,
                                       .batch_invariant = row->shape.batch_invariant,
                                       .flags = row->shape.not_persistent ? SMLA_KERNEL_NOT_PERSISTENT : 0,
                                       .kv_format = row->shape.kv_format[0] == 0 ? "bf16" : row->shape.kv_format,
                                       .extra_kv_format = extra[0] == 0 ? NULL : extra,
                                       .target = bench->options->shapes.sm};
    if (smla_query_support(bench->context, &running->desc, &support) != SMLA_OK)
        return not_run_smla(row);
    if (!support.supported)
        return not_run(row, CLI_UNAVAILABLE, support.reason);
    snprintf(row->variant, sizeof row->variant, "%s", support.variant);
    snprintf(bench->report.target, sizeof bench->report.target, "%s", support.target);
    running->desc.target = bench->report.target;
    if (smla_prepare(bench->context, &running->desc, &running->kernel) != SMLA_OK)
        return not_run_smla(row);
    name_variant(running->kernel, row);
    return CLI_FINE;
}

static int make_inputs(struct calls *bench, struct running *running, const smla_kv_layout layouts[2],
                       struct bench_row *row)
{
    const struct bench_shape *shape = &row->shape;
    uint64_t workspace_bytes = 0;
    if (shape->op == SMLA_OP_DECODE && smla_decode_workspace_size(running->kernel, shape->b, shape->s_q, shape->topk,
                                                                  shape->extra_topk, &workspace_bytes) != SMLA_OK)
        return not_run_smla(row);
    if (shape->op == SMLA_OP_PREFILL && !shape->no_workspace &&
        smla_prefill_wanted_workspace_size(running->kernel, shape->s_q, shape->topk, shape->s_kv, &workspace_bytes) !=
            SMLA_OK)
        return not_run_smla(row);
    const int code = bench_inputs_make(&bench->memory, shape, layouts, workspace_bytes, MAX_COPIES,
                                       bench->options->rival_count > 0, &running->inputs);
    return code == CLI_FINE ? CLI_FINE : not_run(row, code, "its inputs could not be made");
}

static int run_row(struct calls *bench, struct bench_row *row)
{
    struct running running = {.bench = bench};
    smla_kv_layout layouts[2];
    int code = bench_shape_check(&row->shape, layouts, NULL);
    if (code != CLI_FINE)
        return not_run(row, code, "not a shape");
    code = prepare(bench, &running, row);
    if (code == CLI_FINE)
        code = make_inputs(bench, &running, layouts, row);
    if (code == CLI_FINE) {
        name_unpacked(&running, row);
        row->token_bytes = running.inputs.pools[0].token_bytes;
        row->extra_token_bytes = running.inputs.pools[1].token_bytes;
        row->copies = running.inputs.count;
        row->copy_bytes = running.inputs.copy_bytes;
        code = measure_shape(bench, &running, row);
    }
    smla_kernel_destroy(running.kernel);
    bench_inputs_free(&running.inputs);
    return code;
}

/* ---- All of it ---- */

static int choose_rows(struct calls *bench)
{
    const struct bench_options *options = bench->options;
    struct bench_shape *read = NULL;
    const struct bench_shapes *table = bench_shapes_of(options->shape.op);
    const struct bench_shape *shapes = options->has_shape ? &options->shape : table->shapes;
    size_t count = options->has_shape ? 1 : table->count;
    if (options->shapes_path != NULL) {
        const int code = bench_shapes_read(options->shapes_path, options->shape.op, &read, &count);
        if (code != CLI_FINE)
            return code;
        shapes = read;
    }
    bench->report.rows = calloc(count, sizeof *bench->report.rows);
    bench->report.row_count = bench->report.rows == NULL ? 0 : count;
    for (size_t i = 0; i < bench->report.row_count; i++)
        bench->report.rows[i].shape = shapes[i];
    free(read);
    if (bench->report.rows == NULL)
        return cli_fail(CLI_CHECK_FAILED, "out of memory");
    if (options->has_shape) {
        smla_kv_layout layouts[2];
        return bench_shape_check(&bench->report.rows[0].shape, layouts, NULL);
    }
    return CLI_FINE;
}

/* Prints the shapes as --shapes reads them, one a line. */
static int list_shapes(const struct bench_report *report)
{
    for (size_t i = 0; i < report->row_count; i++) {
        json_t *shape = bench_shape_json(&report->rows[i].shape);
        char *text = shape == NULL ? NULL : json_dumps(shape, 0);
        json_decref(shape);
        if (text == NULL)
            return cli_fail(CLI_CHECK_FAILED, "out of memory");
        printf("%s%s%s", i == 0 ? "[" : " ", text, i + 1 == report->row_count ? "]\n" : ",\n");
        free(text);
    }
    return CLI_FINE;
}

static int open_all(struct calls *bench)
{
    const struct bench_options *options = bench->options;
    const smla_context_desc desc = {
        .struct_size = sizeof desc, .driver_path = options->driver, .nvrtc_path = options->nvrtc};
    char why[DEVICE_WHY];
    if (options->device == BENCH_DEVICE_CPU)
        return cli_usage("%s needs a device: --device cpu is for startup", bench_op_name(options->shape.op));
    int code = choose_rows(bench);
    for (size_t i = 0; i < options->rival_count && code == CLI_FINE; i++)
        code = bench_rival_open(options->rivals[i], options->shape.op, &bench->rivals[i]);
    if (code == CLI_FINE)
        code = bench_open_device(options, &bench->device, why);
    if (code == CLI_FINE && bench->device == NULL)
        return cli_fail(CLI_UNAVAILABLE, "%s", why);
    if (code == CLI_FINE && smla_context_create(&desc, &bench->context) != SMLA_OK)
        return cli_smla_error("smla_context_create");
    if (code != CLI_FINE)
        return code;
    bench->nvml = bench_nvml_open(bench->device);
    if (!bench_measure_open(bench->device, bench->nvml, &bench->measure))
        return cli_fail(CLI_DEVICE_FAULT, "%s", device_why(bench->device));
    return bench_random_memory_make(bench->device, &bench->memory);
}

static void describe_card(struct calls *bench, struct bench_card *card)
{
    bool mig = false;
    size_t free_bytes;
    const struct {
        int attribute, *value;
    } attributes[] = {{DEVICE_ATTRIBUTE_SM_COUNT, &card->multiprocessors},
                      {DEVICE_ATTRIBUTE_L2_BYTES, &card->l2_bytes},
                      {DEVICE_ATTRIBUTE_CLOCK_KHZ, &card->clock_khz},
                      {DEVICE_ATTRIBUTE_MEMORY_CLOCK_KHZ, &card->memory_clock_khz},
                      {DEVICE_ATTRIBUTE_MEMORY_BUS_BITS, &card->memory_bus_bits}};
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++)
        if (!device_attribute(bench->device, attributes[i].attribute, attributes[i].value))
            *attributes[i].value = 0;
    if (!device_memory_info(bench->device, &free_bytes, &card->memory_bytes))
        card->memory_bytes = 0;
    if (!bench_nvml_driver(bench->nvml, card->driver))
        card->driver[0] = 0;
    card->mig = bench_nvml_mig(bench->nvml, &mig) ? mig : -1;
}

static void describe(struct calls *bench)
{
    double mhz, watts;
    const time_t now = time(NULL);
    struct tm parts;
    bench->report.op = bench->options->shape.op;
    bench->report.command = bench->options->command;
    bench->report.device = device_name(bench->device);
    describe_card(bench, &bench->report.card);
    bench->report.runs = bench->options->runs == 0 ? DEFAULT_RUNS : bench->options->runs;
    bench->report.clocks_read = bench_nvml_read(bench->nvml, &mhz, &watts);
    bench->report.ceilings = &bench->ceilings;
    device_driver_version(bench->device, &bench->report.driver_version);
    if (gmtime_r(&now, &parts) != NULL)
        strftime(bench->report.date, sizeof bench->report.date, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

/* Rows that cannot run here are told, not failed, when others ran. */
static int run_rows(struct calls *bench)
{
    int worst = CLI_FINE;
    size_t ran = 0;
    char text[BENCH_SHAPE_TEXT];
    for (size_t i = 0; i < bench->report.row_count; i++) {
        const int code = run_row(bench, &bench->report.rows[i]);
        worst = code == CLI_UNAVAILABLE ? worst : cli_worse(worst, code);
        ran += bench->report.rows[i].not_run[0] == 0;
        bench_shape_text(&bench->report.rows[i].shape, text);
        cli_progress(i + 1, bench->report.row_count, text);
    }
    return ran == 0 ? cli_worse(worst, CLI_UNAVAILABLE) : worst;
}

/* Last, so that a fault in them costs no row. */
static int measure_ceilings(struct calls *bench)
{
    struct bench_ceilings *ceilings = &bench->ceilings;
    int code = bench_ceilings_open(bench->options, &bench->memory, &bench->measure, ceilings);
    for (size_t i = 0; i < bench->report.row_count && code == CLI_FINE; i++) {
        struct bench_row *row = &bench->report.rows[i];
        if (row->not_run[0] == 0)
            code = bench_ceilings_of_pool(bench->options, &bench->memory, &bench->measure, bench_row_pool_bytes(row),
                                          ceilings, &row->ceiling);
    }
    return code == CLI_UNAVAILABLE ? CLI_FINE : code;
}

int bench_calls(const struct bench_options *options)
{
    struct calls bench = {.options = options};
    int code;
    if (options->list_shapes) {
        code = choose_rows(&bench);
        code = code == CLI_FINE ? list_shapes(&bench.report) : code;
        free(bench.report.rows);
        return code;
    }
    code = open_all(&bench);
    if (code == CLI_FINE) {
        describe(&bench);
        code = run_rows(&bench);
        if (code != CLI_DEVICE_FAULT)
            code = cli_worse(code, measure_ceilings(&bench));
        else
            snprintf(bench.ceilings.not_run, sizeof bench.ceilings.not_run, "something else failed on the device");
        if (options->json)
            code = cli_worse(code, bench_report_print_json(&bench.report));
        else
            bench_report_print(&bench.report);
    }
    if (bench.device != NULL) {
        bench_ceilings_close(bench.device, &bench.ceilings);
        bench_measure_close(&bench.measure);
        bench_random_memory_free(&bench.memory);
    }
    bench_nvml_close(bench.nvml);
    smla_context_destroy(bench.context);
    device_close(bench.device);
    free(bench.report.rows);
    return code;
}
