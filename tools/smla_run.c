/* smla-run: a case file through a kernel on the card or the emulated device, or through the CPU reference, judged
 * against the case's answer. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bf16.h"
#include "case.h"
#include "cli.h"
#include "compare.h"
#include "reference.h"
#include "run_cuda.h"
#include "run_emu.h"
#include "run_self_test.h"
#include "safetensors.h"

static const char help[] =
    "usage: smla-run CASE... [--device auto|cuda|emu|cpu] [--check] [options]\n"
    "       smla-run --selftest [--from FILE] [--device auto|cuda|emu] [options]\n"
    "\n"
    "Runs cases (safetensors files: inputs and the right answer) and prints, with --check, each\n"
    "error beside its bound. On a card every tensor lies between guard zones, which are checked,\n"
    "outputs are filled with NaN before each run, and repeats must give the same bits.\n"
    "\n"
    "With --selftest there is no case: each kernel computes the library's own small problem, all\n"
    "of its variants, as smla_prepare does with SMLA_CONTEXT_SELF_TEST.\n"
    "\n"
    "  --device DEVICE         auto (cuda, else emu, else cpu); cuda; emu: the kernel's PTX on the\n"
    "                          CPU, searched for races; cpu: the float64 reference, no kernel\n"
    "  --sm TARGET             the target to build for (the device's own)\n"
    "  --check                 compare with the case's reference; exit 1 when past a bound\n"
    "  --checked               run a checked kernel: exit 1 at the first bad index or length, or\n"
    "                          a tensor that leaves its allocation\n"
    "  --not-persistent        run a kernel that has a block of threads a query\n"
    "  --sm-limit N            of it: take at most N multiprocessors (0: all)\n"
    "  --out FILE              write O, lse and max_logits as safetensors\n"
    "  --repeat N              run N times and compare the bits (1)\n"
    "  --driver PATH           the libcuda to use (SMLA_DRIVER, else libcuda.so.1; on emu the one\n"
    "                          built or installed beside smla-run)\n"
    "  --schedule SCHEDULE     on emu: eager, lazy, random, starve or pct (SMLA_EMU_SCHEDULE)\n"
    "  --seed N                on emu: of the schedule (SMLA_EMU_SEED)\n"
    "  --report FILE           on emu: write what was found, as JSON to a .json (SMLA_EMU_REPORT)\n"
    "  --nvrtc PATH            the libnvrtc to use (SMLA_NVRTC, else the newest found)\n"
    "  --stats FILE            write what the library counted and did to a .json (smla_stats_json)\n"
    "  --selftest              test a kernel of each row that smla-gen --list prints, with the most\n"
    "                          heads and each format; exit 1 when one is wrong\n"
    "  --from FILE             of it: those of a JSON array (docs/tools.md); may be repeated\n"
    "  --timeout S             of it: end after S seconds whatever hangs, with exit 4 (no limit)\n"
    "  --unverified            take kernels that are not verified; --selftest does\n"
    "  --json                  print an object, or an array of them for several cases\n"
    "  --help, --version\n"
    "\n"
    "Exit: 0 fine, 1 a check failed or the emulated device found a fault, 2 usage or a file that is\n"
    "no case, 3 unsupported or unavailable here, 4 device fault or --timeout.\n";

enum { DEVICE_AUTO, DEVICE_CUDA, DEVICE_EMU, DEVICE_CPU };
static const char *const device_names[] = {
    [DEVICE_AUTO] = "auto", [DEVICE_CUDA] = "cuda", [DEVICE_EMU] = "emu", [DEVICE_CPU] = "cpu"};

struct options {
    int device;
    const char *target;
    const char *out;
    const char *driver;
    const char *nvrtc;
    struct run_emu_options emu;
    int64_t repeat;
    bool check;
    bool checked;
    bool not_persistent;
    int64_t sm_limit;
    bool json;
    const char *stats;
    bool self_test;
    int64_t timeout_s;          /* of the self-test; 0: none */
    uint32_t context_flags;     /* SMLA_CONTEXT_* */
    struct shapes_options from; /* of the self-test */
};

/* The three outputs, in this order everywhere. */
enum { OUT, LSE, MAX_LOGITS, OUTPUTS };
static const char *const output_names[OUTPUTS] = {"out", "lse", "max_logits"};

/* One case from file to verdict. */
struct verdict {
    struct smla_case loaded;
    int device;            /* that ran it */
    bool on_card;          /* a kernel ran: on the card or the emulated device */
    struct run_result run; /* on the CPU: rounded from the reference, for --out */
    struct reference_result reference;
    bool has_reference;
    struct compare_result compared[OUTPUTS];
    bool pass;
};

/* The library's context and the card, opened at the first case that wants them. */
struct opened {
    struct run_session session;
    int device; /* DEVICE_CUDA or DEVICE_EMU */
    bool tried;
    bool told;
    bool lost;                 /* the CUDA context, after a fault */
    int code;                  /* CLI_FINE: session is open */
    char driver[RUN_EMU_PATH]; /* of the emulated device */
    char why[RUN_WHY];
};

/* ---- Running ---- */

static size_t rows_of(const struct smla_case *loaded)
{
    return (size_t)(loaded->b * loaded->s_q) * (size_t)loaded->h_q;
}

static bool is_decode(const struct smla_case *loaded)
{
    return loaded->op == SMLA_OP_DECODE;
}

/* Decode has no max_logits. */
static size_t output_count(const struct smla_case *loaded)
{
    return is_decode(loaded) ? MAX_LOGITS : OUTPUTS;
}

static bool compute_reference(struct verdict *verdict)
{
    smla_kernel_desc shape;
    smla_prefill_args args;
    if (verdict->has_reference)
        return true;
    case_describe(&verdict->loaded, &shape);
    case_arguments(&verdict->loaded, &args);
    verdict->has_reference = reference_prefill(&shape, &args, &verdict->reference);
    return verdict->has_reference;
}

/* The reference's answer in the types that a kernel writes. */
static bool round_reference(const struct verdict *verdict, struct run_result *run)
{
    const size_t rows = rows_of(&verdict->loaded);
    const size_t elems = rows * (size_t)verdict->loaded.d_v;
    run->out = malloc(elems * sizeof *run->out + 1);
    run->lse = malloc(rows * sizeof *run->lse + 1);
    run->max_logits = malloc(rows * sizeof *run->max_logits + 1);
    if (run->out == NULL || run->lse == NULL || run->max_logits == NULL)
        return false;
    for (size_t i = 0; i < elems; i++)
        run->out[i] = bf16_from_float((float)verdict->reference.out[i]);
    for (size_t i = 0; i < rows; i++) {
        run->lse[i] = (float)verdict->reference.lse[i];
        run->max_logits[i] = (float)verdict->reference.max_logits[i];
    }
    return true;
}

static bool is_emulated(const struct options *options)
{
    return options->driver != NULL && run_emu_is(options->driver);
}

static int open_card(struct opened *opened, const struct options *options)
{
    opened->device = DEVICE_CUDA;
    opened->code =
        run_session_open(&opened->session, options->driver, options->nvrtc, options->context_flags, opened->why);
    if (is_emulated(options)) {
        opened->device = DEVICE_EMU;
        snprintf(opened->driver, sizeof opened->driver, "%s", options->driver);
    }
    return opened->code;
}

/* A driver call's name and code tell less than the emulated device's own sentence. */
static void add_message(struct opened *opened)
{
    char message[512];
    const size_t length = strlen(opened->why);
    run_emu_message(opened->driver, message, sizeof message);
    if (message[0] != '\0')
        snprintf(opened->why + length, sizeof opened->why - length, ": %s", message);
}

static int open_emulated(struct opened *opened, const struct options *options)
{
    opened->device = DEVICE_EMU;
    if (options->driver != NULL) {
        snprintf(opened->driver, sizeof opened->driver, "%s", options->driver);
    } else if (!run_emu_find(opened->driver)) {
        snprintf(opened->why, sizeof opened->why,
                 "the emulated device's libcuda.so.1 is not beside smla-run: name it with --driver");
        return opened->code = CLI_UNAVAILABLE;
    }
    opened->code =
        run_session_open(&opened->session, opened->driver, options->nvrtc, options->context_flags, opened->why);
    if (opened->code == CLI_FINE && !run_emu_is(opened->driver)) {
        run_session_close(&opened->session);
        snprintf(opened->why, sizeof opened->why, "%s is not the emulated device", opened->driver);
        opened->code = CLI_UNAVAILABLE;
    }
    if (opened->code != CLI_FINE)
        add_message(opened);
    return opened->code;
}

/* The card, or without one the emulated device. */
static void open_device(struct opened *opened, const struct options *options)
{
    if (!run_emu_configure(&options->emu)) {
        snprintf(opened->why, sizeof opened->why, "out of memory");
        opened->code = CLI_CHECK_FAILED;
    } else if (options->device == DEVICE_EMU) {
        open_emulated(opened, options);
    } else if (open_card(opened, options) == CLI_UNAVAILABLE && options->device == DEVICE_AUTO &&
               options->driver == NULL) {
        char why[RUN_WHY];
        memcpy(why, opened->why, RUN_WHY);
        if (open_emulated(opened, options) == CLI_FINE)
            cli_fail(0, "not on a card: %s", why);
        else
            memcpy(opened->why, why, RUN_WHY);
    }
    opened->tried = true;
    opened->session.sm_limit = (int32_t)options->sm_limit;
    opened->session.kernel_flags =
        (options->checked ? SMLA_KERNEL_CHECKED : 0u) | (options->not_persistent ? SMLA_KERNEL_NOT_PERSISTENT : 0u);
}

/* A fault on the emulated device that it can explain is the kernel's: a failed check. */
static int explain(struct opened *opened, int code)
{
    if (code != CLI_DEVICE_FAULT)
        return code;
    opened->lost = true;
    return opened->device == DEVICE_EMU && run_emu_findings(opened->driver) > 0 ? CLI_CHECK_FAILED : code;
}

static int run_on_card(struct opened *opened, const struct options *options, struct verdict *verdict, char why[RUN_WHY])
{
    if (!opened->tried)
        open_device(opened, options);
    if (opened->code != CLI_FINE) {
        memcpy(why, opened->why, RUN_WHY);
        return opened->code;
    }
    verdict->on_card = true;
    verdict->device = opened->device;
    return explain(opened,
                   run_cuda(&opened->session, &verdict->loaded, options->target, options->repeat, &verdict->run, why));
}

/* Why a case does not run on the card; once when it is the same for all. */
static void tell_why_not(struct opened *opened, const char *name, const char *why)
{
    const char *where = opened->device == DEVICE_EMU ? "on the emulated device" : "on a card";
    if (opened->code == CLI_FINE)
        cli_fail(0, "%s: not %s: %s", name, where, why);
    else if (!opened->told)
        cli_fail(0, "not on a card: %s", why);
    opened->told = true;
}

static int run_case(struct opened *opened, const struct options *options, struct verdict *verdict)
{
    char why[RUN_WHY];
    const char *name = verdict->loaded.name;
    if (options->device != DEVICE_CPU) {
        const int code = run_on_card(opened, options, verdict, why);
        if (code == CLI_FINE)
            return CLI_FINE;
        if (code != CLI_UNAVAILABLE || options->device != DEVICE_AUTO || options->checked)
            return cli_fail(code, "%s: %s", name, why);
        tell_why_not(opened, name, why);
    }
    verdict->on_card = false;
    verdict->device = DEVICE_CPU;
    if (compute_reference(verdict) && round_reference(verdict, &verdict->run))
        return CLI_FINE;
    return cli_fail(CLI_CHECK_FAILED, "%s: out of memory", name);
}

/* ---- Judging ---- */

static double *widen_bf16(const uint16_t *values, size_t count)
{
    double *wide = malloc(count * sizeof *wide + 1);
    for (size_t i = 0; wide != NULL && i < count; i++)
        wide[i] = (double)bf16_to_float(values[i]);
    return wide;
}

static double *widen_float(const float *values, size_t count)
{
    double *wide = malloc(count * sizeof *wide + 1);
    for (size_t i = 0; wide != NULL && i < count; i++)
        wide[i] = (double)values[i];
    return wide;
}

static double *copy_double(const double *values, size_t count)
{
    double *copy = malloc(count * sizeof *copy + 1);
    if (copy != NULL)
        memcpy(copy, values, count * sizeof *copy);
    return copy;
}

static size_t count_of(const struct verdict *verdict, int output)
{
    return rows_of(&verdict->loaded) * (output == OUT ? (size_t)verdict->loaded.d_v : 1);
}

static const double *reference_of(const struct verdict *verdict, int output)
{
    const double *const arrays[OUTPUTS] = {verdict->reference.out, verdict->reference.lse,
                                           verdict->reference.max_logits};
    return arrays[output];
}

/* What is judged: the kernel's output, or on the CPU the reference's before rounding. */
static double *got_of(const struct verdict *verdict, int output)
{
    const size_t count = count_of(verdict, output);
    if (!verdict->on_card)
        return copy_double(reference_of(verdict, output), count);
    if (output == OUT)
        return widen_bf16(verdict->run.out, count);
    return widen_float(output == LSE ? verdict->run.lse : verdict->run.max_logits, count);
}

/* What it is judged by: the case's own answer, or where it has none the CPU's. */
static double *expected_of(const struct verdict *verdict, int output)
{
    const float *const arrays[OUTPUTS] = {verdict->loaded.out_ref, verdict->loaded.lse_ref,
                                          verdict->loaded.max_logits_ref};
    const size_t count = count_of(verdict, output);
    return arrays[output] != NULL ? widen_float(arrays[output], count)
                                  : copy_double(reference_of(verdict, output), count);
}

static bool compare_output(struct verdict *verdict, int output)
{
    double *got = got_of(verdict, output);
    double *expected = expected_of(verdict, output);
    const bool ok = got != NULL && expected != NULL;
    const int64_t rows = (int64_t)rows_of(&verdict->loaded);
    if (ok && output == OUT)
        verdict->compared[OUT] = compare_out(got, expected, verdict->reference.out_abs, rows, verdict->loaded.d_v);
    else if (ok)
        verdict->compared[output] = compare_log(got, expected, verdict->reference.logit_abs, rows,
                                                is_decode(&verdict->loaded) ? COMPARE_DECODE : COMPARE_PREFILL);
    free(got);
    free(expected);
    return ok;
}

static int judge(const struct options *options, struct verdict *verdict)
{
    verdict->pass = verdict->run.unsound[0] == 0;
    if (!options->check)
        return verdict->pass ? CLI_FINE : CLI_CHECK_FAILED;
    if (!compute_reference(verdict))
        return cli_fail(CLI_CHECK_FAILED, "%s: out of memory", verdict->loaded.name);
    for (int output = 0; output < (int)output_count(&verdict->loaded); output++) {
        if (!compare_output(verdict, output))
            return cli_fail(CLI_CHECK_FAILED, "%s: out of memory", verdict->loaded.name);
        verdict->pass = verdict->pass && verdict->compared[output].pass;
    }
    return verdict->pass ? CLI_FINE : CLI_CHECK_FAILED;
}

/* ---- Reporting ---- */

static void print_tensor(const char *name, const struct compare_result *compared, bool is_out)
{
    printf("  %-10s  max error %9.3e  %7.4f of its bound", name, compared->max_abs, compared->bound_used);
    if (is_out)
        printf("  cos %8.2e (at most %.0e)  %6.3f ULP (at most %.0f)", compared->cos, compare_cos_limit,
               compared->max_ulp, compare_ulp_limit);
    printf("  %s\n", compared->pass ? "ok" : "FAILED");
    if (compared->failed > 0)
        printf("  %-10s  %lld elements failed; the worst, element %lld, is %.9g and should be %.9g\n", "",
               (long long)compared->failed, (long long)compared->worst, compared->worst_got, compared->worst_ref);
}

static void print_human(const struct opened *opened, const struct options *options, const struct verdict *verdict)
{
    const struct smla_case *loaded = &verdict->loaded;
    if (verdict->on_card)
        printf("%s: %s, %s, target %s, variant %s, %lld run%s%s%s\n", loaded->name, device_names[verdict->device],
               device_name(opened->session.device), verdict->run.support.target, verdict->run.support.variant,
               (long long)options->repeat, options->repeat == 1 ? "" : "s",
               options->checked ? "; lists and extents are good" : "",
               verdict->device == DEVICE_EMU ? "; ran on the emulated device: no GPU, no speed" : "");
    else
        printf("%s: cpu: no kernel ran; %s\n", loaded->name,
               options->check ? "the float64 reference is compared with the file's reference"
                              : "the float64 reference was computed");
    for (int output = 0; options->check && output < (int)output_count(loaded); output++)
        print_tensor(output_names[output], &verdict->compared[output], output == OUT);
    if (verdict->run.unsound[0] != 0)
        printf("  FAILED: %s\n", verdict->run.unsound);
    printf("%s: %s\n", loaded->name, !verdict->pass ? "FAILED" : options->check ? "pass" : "ran, not checked");
}

/* JSON has no infinity and no NaN: null stands for them. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *text_or_null(const char *text)
{
    return text == NULL ? json_null() : json_string(text);
}

static json_t *verdict_json(const struct options *options, const struct verdict *verdict)
{
    json_t *tensors = json_object();
    for (int output = 0; options->check && output < (int)output_count(&verdict->loaded); output++) {
        const struct compare_result *compared = &verdict->compared[output];
        json_object_set_new(tensors, output_names[output],
                            json_pack("{s:o, s:o, s:o, s:o, s:I}", "max_abs", number(compared->max_abs), "bound_used",
                                      number(compared->bound_used), "cos", number(compared->cos), "max_ulp",
                                      number(compared->max_ulp), "failed", (json_int_t)compared->failed));
    }
    const bool card = verdict->on_card;
    return json_pack("{s:s, s:s, s:o, s:o, s:b, s:o}", "case", verdict->loaded.name, "device",
                     device_names[verdict->device], "target", text_or_null(card ? verdict->run.support.target : NULL),
                     "variant", text_or_null(card ? verdict->run.support.variant : NULL), "pass", (int)verdict->pass,
                     "tensors", tensors);
}

static int write_outputs(const char *path, const struct verdict *verdict)
{
    char why[ST_WHY];
    const struct smla_case *loaded = &verdict->loaded;
    const size_t rows = rows_of(loaded);
    const int32_t batch = is_decode(loaded) ? 1 : 0;
    struct st_tensor tensors[OUTPUTS] = {
        {"O", ST_BF16, 3 + batch, {0}, verdict->run.out, rows * (size_t)loaded->d_v * 2},
        {"lse", ST_F32, 2 + batch, {0}, verdict->run.lse, rows * 4},
        {"max_logits", ST_F32, 2 + batch, {0}, verdict->run.max_logits, rows * 4}};
    const struct st_pair metadata[] = {{"op", is_decode(loaded) ? "decode" : "prefill"},
                                       {"kv_format", loaded->caches[0].format},
                                       {"device", device_names[verdict->device]}};
    for (int output = 0; output < OUTPUTS; output++) {
        const int64_t shape[] = {loaded->b, loaded->s_q, loaded->h_q, loaded->d_v};
        memcpy(tensors[output].shape, shape + 1 - batch, (size_t)tensors[output].rank * sizeof shape[0]);
    }
    return st_write(path, tensors, output_count(loaded), metadata, 3, why) ? CLI_FINE : cli_fail(CLI_USAGE, "%s", why);
}

/* ---- One case after the other ---- */

static int load(const char *path, struct smla_case *loaded)
{
    char why[CASE_WHY];
    const enum case_status status = case_load(path, loaded, why);
    if (status == CASE_OK)
        return CLI_FINE;
    const bool named = strstr(why, path) != NULL; /* a file that cannot be read */
    return cli_fail(status == CASE_UNSUPPORTED ? CLI_UNAVAILABLE : CLI_USAGE, "%s%s%s", named ? "" : path,
                    named ? "" : ": ", why);
}

static int do_case(struct opened *opened, const struct options *options, const char *path, json_t *rows)
{
    struct verdict verdict = {0};
    int code = load(path, &verdict.loaded);
    if (code != CLI_FINE)
        return code;
    code = run_case(opened, options, &verdict);
    if (code == CLI_FINE) {
        code = judge(options, &verdict);
        json_array_append_new(rows, verdict_json(options, &verdict));
        if (!options->json)
            print_human(opened, options, &verdict);
        if (options->out != NULL)
            code = cli_worse(code, write_outputs(options->out, &verdict));
    }
    run_result_free(&verdict.run);
    reference_free(&verdict.reference);
    case_free(&verdict.loaded);
    return code;
}

/* One case: an object; several: an array of those that ran. */
static int print_json(json_t *rows, bool several)
{
    const json_t *root = several ? rows : json_array_get(rows, 0);
    if (root == NULL)
        return CLI_FINE;
    const bool ok = json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 && putchar('\n') != EOF;
    return ok ? CLI_FINE : cli_fail(CLI_CHECK_FAILED, "cannot print the JSON result");
}

static int close_session(struct opened *opened, const struct options *options, int code)
{
    if (options->stats != NULL)
        code = cli_worse(code, run_session_write_stats(&opened->session, options->stats));
    run_session_close(&opened->session);
    return code;
}

static int do_cases(const struct options *options, char **paths, int count)
{
    struct opened opened = {0};
    json_t *rows = json_array();
    int code = rows == NULL ? cli_fail(CLI_CHECK_FAILED, "out of memory") : CLI_FINE;
    for (int i = 0; rows != NULL && i < count; i++) {
        const int one = do_case(&opened, options, paths[i], rows);
        code = cli_worse(code, one);
        if (options->json)
            cli_progress((size_t)i + 1, (size_t)count, paths[i]);
        if (opened.lost)
            break;
    }
    if (options->json)
        code = cli_worse(code, print_json(rows, count > 1));
    json_decref(rows);
    return opened.tried && opened.code == CLI_FINE ? close_session(&opened, options, code) : code;
}

/* ---- Command line ---- */

enum {
    OPTION_DEVICE = CLI_OPTION_OWN,
    OPTION_CHECK,
    OPTION_CHECKED,
    OPTION_NOT_PERSISTENT,
    OPTION_SM_LIMIT,
    OPTION_OUT,
    OPTION_REPEAT,
    OPTION_SCHEDULE,
    OPTION_SEED,
    OPTION_REPORT,
    OPTION_STATS,
    OPTION_SELF_TEST,
    OPTION_TIMEOUT,
    OPTION_UNVERIFIED
};

static const struct option long_options[] = {
    CLI_OPTIONS,
    {"device", required_argument, NULL, OPTION_DEVICE},
    {"sm", required_argument, NULL, CLI_OPTION_SM},
    {"check", no_argument, NULL, OPTION_CHECK},
    {"checked", no_argument, NULL, OPTION_CHECKED},
    {"not-persistent", no_argument, NULL, OPTION_NOT_PERSISTENT},
    {"sm-limit", required_argument, NULL, OPTION_SM_LIMIT},
    {"out", required_argument, NULL, OPTION_OUT},
    {"repeat", required_argument, NULL, OPTION_REPEAT},
    {"driver", required_argument, NULL, CLI_OPTION_DRIVER},
    {"nvrtc", required_argument, NULL, CLI_OPTION_NVRTC},
    {"schedule", required_argument, NULL, OPTION_SCHEDULE},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"report", required_argument, NULL, OPTION_REPORT},
    {"stats", required_argument, NULL, OPTION_STATS},
    {"selftest", no_argument, NULL, OPTION_SELF_TEST},
    {"from", required_argument, NULL, CLI_OPTION_FROM},
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"unverified", no_argument, NULL, OPTION_UNVERIFIED},
    {NULL, 0, NULL, 0},
};

static int set_device(struct options *options, const char *name)
{
    for (int i = DEVICE_AUTO; i <= DEVICE_CPU; i++) {
        if (strcmp(name, device_names[i]) == 0) {
            options->device = i;
            return CLI_FINE;
        }
    }
    return cli_usage("--device '%s' is none of auto, cuda, emu, cpu", name);
}

static int set_schedule(struct options *options, const char *name)
{
    static const char *const schedules[] = {"eager", "lazy", "random", "starve", "pct"};
    for (size_t i = 0; i < sizeof schedules / sizeof schedules[0]; i++)
        if (strcmp(name, schedules[i]) == 0)
            options->emu.schedule = name;
    return options->emu.schedule == name
               ? CLI_FINE
               : cli_usage("--schedule '%s' is none of eager, lazy, random, starve, pct", name);
}

static int set_seed(struct options *options, const char *text)
{
    int64_t seed;
    options->emu.seed = text;
    return cli_int(text, 0, INT64_MAX, &seed) ? CLI_FINE : cli_usage("--seed '%s' is no number from 0", text);
}

static int take_option(struct options *options, int option)
{
    switch (option) {
    case OPTION_DEVICE:
        return set_device(options, optarg);
    case CLI_OPTION_SM:
        options->target = optarg;
        return CLI_FINE;
    case OPTION_CHECK:
        options->check = true;
        return CLI_FINE;
    case OPTION_CHECKED:
        options->checked = true;
        return CLI_FINE;
    case OPTION_NOT_PERSISTENT:
        options->not_persistent = true;
        return CLI_FINE;
    case OPTION_SM_LIMIT:
        if (cli_int(optarg, 0, INT32_MAX, &options->sm_limit))
            return CLI_FINE;
        return cli_usage("--sm-limit '%s' is no number of multiprocessors from 0", optarg);
    case OPTION_OUT:
        options->out = optarg;
        return CLI_FINE;
    case OPTION_REPEAT:
        if (cli_int(optarg, 1, 1000000, &options->repeat))
            return CLI_FINE;
        return cli_usage("--repeat '%s' is no number from 1 to 1000000", optarg);
    case CLI_OPTION_DRIVER:
        options->driver = optarg;
        return CLI_FINE;
    case CLI_OPTION_NVRTC:
        options->nvrtc = optarg;
        return CLI_FINE;
    case CLI_OPTION_JSON:
        options->json = true;
        return CLI_FINE;
    case OPTION_SCHEDULE:
        return set_schedule(options, optarg);
    case OPTION_SEED:
        return set_seed(options, optarg);
    case OPTION_REPORT:
        options->emu.report = optarg;
        return CLI_FINE;
    case OPTION_STATS:
        options->stats = optarg;
        return CLI_FINE;
    case OPTION_SELF_TEST:
        options->self_test = true;
        options->context_flags |= SMLA_CONTEXT_SELF_TEST | SMLA_CONTEXT_UNVERIFIED;
        return CLI_FINE;
    case CLI_OPTION_FROM:
        return shapes_option(&options->from, option, optarg);
    case OPTION_TIMEOUT:
        if (cli_int(optarg, 1, 1000000, &options->timeout_s))
            return CLI_FINE;
        return cli_usage("--timeout '%s' is no number of seconds from 1 to 1000000", optarg);
    case OPTION_UNVERIFIED:
        options->context_flags |= SMLA_CONTEXT_UNVERIFIED;
        return CLI_FINE;
    default:
        return cli_usage_getopt();
    }
}

/* What of the command line does not go with the self-test, which has neither cases nor outputs. */
static int check_self_test(const struct options *options, const char *operand)
{
    if (operand != NULL)
        return cli_usage("'%s': --selftest takes no case", operand);
    if (options->device == DEVICE_CPU)
        return cli_usage("--selftest needs a kernel, and --device cpu runs none");
    if (options->out != NULL || options->check || options->repeat != 1 || options->sm_limit != 0)
        return cli_usage("--check, --out, --repeat and --sm-limit are of cases, and --selftest has none");
    return CLI_FINE;
}

static int do_self_test(const struct options *options)
{
    struct opened opened = {0};
    struct run_watch watch;
    int code = run_watch_start(&watch, options->timeout_s);
    if (code != CLI_FINE)
        return code;
    run_watch_doing(&watch, NULL, "opening the device");
    open_device(&opened, options);
    if (opened.code != CLI_FINE) {
        run_watch_stop(&watch);
        return cli_fail(opened.code, "%s", opened.why);
    }
    const struct run_self_test test = {.session = &opened.session,
                                       .emulated = opened.device == DEVICE_EMU ? opened.driver : NULL,
                                       .from = &options->from,
                                       .target = options->target,
                                       .json = options->json,
                                       .watch = &watch};
    code = run_self_test(&test);
    run_watch_doing(&watch, NULL, "closing the device");
    code = close_session(&opened, options, code);
    run_watch_stop(&watch);
    return code;
}

int main(int argc, char **argv)
{
    struct options options = {.repeat = 1};
    int option;
    cli_start("smla-run", argc, argv);
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (option == CLI_OPTION_HELP)
            return fputs(help, stdout) < 0;
        if (option == CLI_OPTION_VERSION)
            return cli_version();
        const int code = take_option(&options, option);
        if (code != CLI_FINE)
            return code;
    }
    if (options.from.from_count > 0 && !options.self_test)
        return cli_usage("--from is of --selftest");
    if (options.timeout_s > 0 && !options.self_test)
        return cli_usage("--timeout is of --selftest");
    if (options.self_test) {
        const int code = check_self_test(&options, argv[optind]);
        return code == CLI_FINE ? do_self_test(&options) : code;
    }
    if (optind == argc)
        return cli_usage("a CASE is missing");
    const bool for_emu = options.emu.schedule != NULL || options.emu.seed != NULL || options.emu.report != NULL;
    if (for_emu && (options.device == DEVICE_CUDA || options.device == DEVICE_CPU))
        return cli_usage("--schedule, --seed and --report belong to the emulated device, not to --device %s",
                         device_names[options.device]);
    if (options.checked && options.device == DEVICE_CPU)
        return cli_usage("--checked needs a kernel, and --device cpu runs none");
    if (options.stats != NULL && options.device == DEVICE_CPU)
        return cli_usage("--stats is of the library, and --device cpu runs no kernel of it");
    if (options.out != NULL && argc - optind > 1)
        return cli_usage("--out takes one case, not %d", argc - optind);
    return do_cases(&options, argv + optind, argc - optind);
}
