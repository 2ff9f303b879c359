/* smla-gen: kernels as plan, source, PTX or cubin, without a GPU and without a driver. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "gen_smlab.h"
#include "host_file.h"
#include "pool.h"
#include "shapes.h"
#include "smlab_write.h"
#include "support_list.h"
#include "target.h"
#include "trust.h"

static const char help[] =
    "usage: smla-gen --sm LIST (--op OP --h-q N --d-qk N ... | --from FILE) --emit KIND -o PATH\n"
    "       smla-gen --list\n"
    "\n"
    "Generates sparse MLA kernels. Opens no driver; ptx and cubin need NVRTC.\n"
    "\n"
    "With one target and one description PATH is a file, '-' for stdout. Otherwise it is a\n"
    "folder, which receives files named <target>-<kernel id>.<kind>, of companions too. A PATH that\n"
    "ends in .smlab is a bundle of ptx or cubin for SMLA_BUNDLE, written when all is compiled; the\n"
    "same kernels by the same NVRTC give the same bytes.\n"
    "\n" SHAPES_HELP "  --emit KIND             plan, cuda, ptx or cubin\n"
    "  -o, --output PATH       where the result goes\n"
    "  -j N                    compile on N threads (one a core)\n"
    "  --check                 compile a second time and compare the bytes\n"
    "  --lower BACKEND         nvrtc (llvm is not there yet)\n"
    "  --cache DIR             use and fill this cache folder (none: compile always)\n"
    "  --nvrtc PATH            the libnvrtc to use (SMLA_NVRTC, else the newest found)\n"
    "  --list                  print what is supported\n"
    "  --json                  print a summary (or the list) as JSON\n"
    "  --help, --version\n"
    "\n"
    "Exit: 0 fine, 1 --check found other bytes or a compile failed, 2 usage, 3 unsupported or\n"
    "unavailable here.\n";

struct options {
    struct shapes_options shapes;
    uint32_t emit; /* SMLA_EMIT_*; 0: not given */
    const char *kind;
    const char *output;
    const char *nvrtc;
    const char *cache;
    size_t threads;
    bool check;
    bool list;
    bool json;
};

/* What smla_generate handed over. */
struct bytes {
    uint8_t *data;
    size_t size;
};

struct made {
    char target[8], variant[64], kernel_id[72];
    const char *status; /* how much is known of it: of the table in trust.h */
    char *path;
    size_t size;
    bool done;
};

struct build {
    const struct options *options;
    const struct shapes_job *jobs;
    struct made *made; /* two a job: a kernel, and its companion where PATH has room for both */
    size_t count;
    bool folder;
    bool smlab;
    smla_context *context;
    smla_context *second; /* for --check: shares nothing with the first */
};

static int32_t collect(void *user, const void *data, size_t size)
{
    struct bytes *bytes = user;
    bytes->data = malloc(size + 1);
    if (bytes->data == NULL)
        return ENOMEM;
    memcpy(bytes->data, data, size);
    bytes->size = size;
    return 0;
}

static int generate(smla_context *context, const smla_kernel_desc *desc, uint32_t emit, const char *label,
                    struct bytes *bytes)
{
    *bytes = (struct bytes){0};
    return smla_generate(context, desc, emit, collect, bytes) == SMLA_OK ? CLI_FINE : cli_smla_error(label);
}

/* Compiles again in a context of its own and compares. */
static int check(const struct build *build, const smla_kernel_desc *desc, uint32_t emit, const char *label,
                 const struct bytes *first)
{
    struct bytes again;
    const int code = generate(build->second, desc, emit, label, &again);
    const bool same = code == CLI_FINE && again.size == first->size && memcmp(again.data, first->data, again.size) == 0;
    free(again.data);
    if (code != CLI_FINE || same)
        return code;
    return cli_fail(CLI_CHECK_FAILED, "%s: a second compilation gave other bytes (%zu and %zu)", label, first->size,
                    again.size);
}

static char *path_of(const struct build *build, const struct made *made)
{
    char *path = NULL;
    const int length = build->folder ? asprintf(&path, "%s/%s-%s.%s", build->options->output, made->target,
                                                made->kernel_id, build->options->kind)
                                     : asprintf(&path, "%s", build->options->output);
    return length < 0 ? NULL : path;
}

static int store(const char *path, const struct bytes *bytes)
{
    char why[FILE_WHY];
    if (path == NULL)
        return cli_fail(CLI_CHECK_FAILED, "out of memory");
    if (strcmp(path, "-") == 0) {
        const bool ok = fwrite(bytes->data, 1, bytes->size, stdout) == bytes->size && fflush(stdout) == 0;
        return ok ? CLI_FINE : cli_fail(CLI_USAGE, "cannot write to stdout: %s", strerror(errno));
    }
    return file_write(path, bytes->data, bytes->size, why) ? CLI_FINE : cli_fail(CLI_USAGE, "%s", why);
}

/* companion: 0, or SMLA_EMIT_COMPANION. made: named, to be completed. */
static int make_file(const struct build *build, const smla_kernel_desc *desc, uint32_t companion, const char *label,
                     struct made *made)
{
    const uint32_t emit = build->options->emit | companion;
    struct bytes bytes;
    int code = generate(build->context, desc, emit, label, &bytes);
    if (code != CLI_FINE)
        return code;
    if (build->options->check)
        code = check(build, desc, emit, label, &bytes);
    if (code == CLI_FINE) {
        made->path = path_of(build, made);
        made->size = bytes.size;
        if (!build->smlab)
            code = store(made->path, &bytes);
        made->done = code == CLI_FINE;
    }
    free(bytes.data);
    return code;
}

static void name_made(const char *target, uint32_t op, const char *variant, const char *kernel_id, struct made *made)
{
    made->status = gen_trust_find(gen_target_find(target)->family, op, variant)->status;
    snprintf(made->target, sizeof made->target, "%s", target);
    snprintf(made->variant, sizeof made->variant, "%s", variant);
    snprintf(made->kernel_id, sizeof made->kernel_id, "%s", kernel_id);
}

static int make_one(void *user, size_t index, char label[160])
{
    struct build *build = user;
    struct made *made = &build->made[2 * index];
    smla_kernel_desc desc;
    smla_support support = {.struct_size = sizeof support};
    shapes_text(&build->jobs[index], label);
    shapes_desc(&build->jobs[index], &desc);
    if (smla_query_support(build->context, &desc, &support) != SMLA_OK)
        return cli_smla_error(label);
    if (!support.supported)
        return cli_fail(CLI_UNAVAILABLE, "%s: %s", label, support.reason);
    name_made(support.target, desc.op, support.variant, support.kernel_id, &made[0]);
    name_made(support.target, desc.op, support.companion, support.companion_id, &made[1]);
    const int code = make_file(build, &desc, 0, label, &made[0]);
    if (code != CLI_FINE || !(build->folder || build->smlab) || support.companion[0] == '\0')
        return code;
    return make_file(build, &desc, SMLA_EMIT_COMPANION, label, &made[1]);
}

static int print_json(json_t *root)
{
    const int failed = root == NULL || json_dumpf(root, stdout, JSON_INDENT(2)) != 0 || putchar('\n') == EOF;
    json_decref(root);
    return failed ? cli_fail(CLI_CHECK_FAILED, "cannot print the JSON summary") : CLI_FINE;
}

/* of: the kernel whose companion it is, or NULL. */
static json_t *row_of(const struct build *build, const struct made *made, const struct made *of)
{
    return json_pack("{s:s, s:s, s:o, s:s, s:s, s:s, s:s, s:I, s:b}", "target", made->target, "kernel_id",
                     made->kernel_id, "companion_of", of == NULL ? json_null() : json_string(of->kernel_id), "variant",
                     made->variant, "status", made->status, "kind", build->options->kind, "path", made->path, "bytes",
                     (json_int_t)made->size, "checked", (int)build->options->check);
}

static int print_summary(const struct build *build)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < 2 * build->count; i++) {
        const struct made *made = &build->made[i];
        if (made->done)
            json_array_append_new(rows, row_of(build, made, i % 2 == 0 ? NULL : made - 1));
    }
    return print_json(rows);
}

static int print_list(bool json)
{
    if (json)
        return print_json(support_list_json());
    return support_list_print() ? CLI_FINE : cli_fail(CLI_USAGE, "cannot write to stdout: %s", strerror(errno));
}

/* ---- Command line ---- */

static const struct option long_options[] = {
    CLI_OPTIONS,
    SHAPES_OPTIONS,
    {"emit", required_argument, NULL, 'e'},
    {"output", required_argument, NULL, 'o'},
    {"check", no_argument, NULL, 'c'},
    {"lower", required_argument, NULL, 'l'},
    {"cache", required_argument, NULL, 'C'},
    {"nvrtc", required_argument, NULL, CLI_OPTION_NVRTC},
    {"list", no_argument, NULL, 'L'},
    {NULL, 0, NULL, 0},
};

static int set_emit(struct options *options, const char *kind)
{
    static const char *const kinds[] = {
        [SMLA_EMIT_PLAN] = "plan", [SMLA_EMIT_CUDA] = "cuda", [SMLA_EMIT_PTX] = "ptx", [SMLA_EMIT_CUBIN] = "cubin"};
    for (uint32_t i = SMLA_EMIT_PLAN; i <= SMLA_EMIT_CUBIN; i++) {
        if (strcmp(kind, kinds[i]) == 0) {
            options->emit = i;
            options->kind = kinds[i];
            return CLI_FINE;
        }
    }
    return cli_usage("--emit '%s' is none of plan, cuda, ptx, cubin", kind);
}

static int set_lower(const char *backend)
{
    if (strcmp(backend, "nvrtc") == 0)
        return CLI_FINE;
    if (strcmp(backend, "llvm") == 0)
        return cli_fail(CLI_UNAVAILABLE, "--lower llvm is not there yet: nvrtc is");
    return cli_usage("--lower '%s' is none of nvrtc, llvm", backend);
}

static int set_threads(const char *text, size_t *threads)
{
    int64_t value;
    if (!cli_int(text, 1, 1024, &value))
        return cli_usage("-j '%s' is no number from 1 to 1024", text);
    *threads = (size_t)value;
    return CLI_FINE;
}

static int take_option(struct options *options, int option)
{
    switch (option) {
    case 'e':
        return set_emit(options, optarg);
    case 'o':
        options->output = optarg;
        return CLI_FINE;
    case 'j':
        return set_threads(optarg, &options->threads);
    case 'c':
        options->check = true;
        return CLI_FINE;
    case 'l':
        return set_lower(optarg);
    case 'C':
        options->cache = optarg;
        return CLI_FINE;
    case 'L':
        options->list = true;
        return CLI_FINE;
    case CLI_OPTION_NVRTC:
        options->nvrtc = optarg;
        return CLI_FINE;
    case CLI_OPTION_JSON:
        options->json = true;
        return CLI_FINE;
    default:
        return shapes_option(&options->shapes, option, optarg);
    }
}

/* What of the command line can be judged without the list of kernels. */
static int check_options(const struct options *options)
{
    if (options->emit == 0)
        return cli_usage("--emit plan|cuda|ptx|cubin is missing");
    if (options->output == NULL)
        return cli_usage("-o PATH is missing");
    if (smlab_is_path(options->output) && options->emit != SMLA_EMIT_PTX && options->emit != SMLA_EMIT_CUBIN)
        return cli_usage("%s: a bundle takes --emit ptx or cubin, not %s", options->output, options->kind);
    if (options->json && strcmp(options->output, "-") == 0)
        return cli_usage("--json and -o - would both write to stdout");
    return CLI_FINE;
}

static int prepare_output(struct build *build)
{
    char why[FILE_WHY];
    build->smlab = smlab_is_path(build->options->output);
    build->folder = build->count > 1 && !build->smlab;
    if (!build->folder)
        return CLI_FINE;
    if (strcmp(build->options->output, "-") == 0)
        return cli_usage("-o - takes one kernel, not %zu", build->count);
    return file_make_folder(build->options->output, why) ? CLI_FINE : cli_fail(CLI_USAGE, "%s", why);
}

static int open_context(const struct options *options, const char *cache, smla_context **out)
{
    const smla_context_desc desc = {.struct_size = sizeof desc,
                                    .flags = SMLA_CONTEXT_OWN_CACHE,
                                    .cache_policy = cache == NULL ? SMLA_CACHE_OFF : SMLA_CACHE_RW,
                                    .jit_policy = SMLA_JIT_ON,
                                    .nvrtc_path = options->nvrtc,
                                    .cache_dir = cache,
                                    .disable = ""}; /* which is of where kernels run */
    return smla_context_create(&desc, out) == SMLA_OK ? CLI_FINE : cli_smla_error(cache == NULL ? "smla" : cache);
}

static int run_build(struct build *build)
{
    int code = prepare_output(build);
    if (code == CLI_FINE)
        code = open_context(build->options, build->options->cache, &build->context);
    if (code == CLI_FINE && build->options->check)
        code = open_context(build->options, NULL, &build->second);
    if (code != CLI_FINE)
        return code;
    cli_progress(0, build->count, "started");
    code = pool_run(build->count, build->options->threads, make_one, build);
    if (code == CLI_FINE && build->smlab)
        code = gen_smlab(build->options->output, build->context, build->second);
    return build->options->json ? cli_worse(code, print_summary(build)) : code;
}

static int build_all(const struct options *options)
{
    struct shapes_job *jobs;
    struct build build = {.options = options};
    int code = check_options(options);
    if (code == CLI_FINE)
        code = shapes_jobs(&options->shapes, &jobs, &build.count);
    if (code != CLI_FINE)
        return code;
    build.jobs = jobs;
    build.made = calloc(2 * build.count, sizeof *build.made);
    code = build.made == NULL ? cli_fail(CLI_CHECK_FAILED, "out of memory") : run_build(&build);
    smla_context_destroy(build.context);
    smla_context_destroy(build.second);
    for (size_t i = 0; build.made != NULL && i < 2 * build.count; i++)
        free(build.made[i].path);
    free(build.made);
    free(jobs);
    return code;
}

int main(int argc, char **argv)
{
    struct options options = {0};
    int option;
    cli_start("smla-gen", argc, argv);
    while ((option = getopt_long(argc, argv, "o:j:", long_options, NULL)) != -1) {
        if (option == CLI_OPTION_HELP)
            return fputs(help, stdout) < 0;
        if (option == CLI_OPTION_VERSION)
            return cli_version();
        const int code = take_option(&options, option);
        if (code != CLI_FINE)
            return code;
    }
    if (optind < argc)
        return cli_usage("'%s' is one argument too many", argv[optind]);
    return options.list ? print_list(options.json) : build_all(&options);
}
