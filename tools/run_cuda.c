#include "run_cuda.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "guarded.h"

enum buffer {
    QUERY,
    KV,
    INDICES,
    TOPK_LENGTH,
    EXTRA_KV,
    EXTRA_INDICES,
    EXTRA_TOPK_LENGTH,
    ATTN_SINK,
    WORKSPACE,
    OUT,
    LSE,
    MAX_LOGITS, /* prefill's */
    BUFFERS
};

/* One case on the card. */
struct run {
    struct device *device;
    const struct smla_case *loaded;
    smla_kernel *kernel;
    struct guarded buffers[BUFFERS];
    uint64_t workspace_bytes;
    int32_t sm_limit;
    bool checked;
};

__attribute__((format(printf, 3, 4))) static int fail(char why[RUN_WHY], int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, RUN_WHY, format, arguments);
    va_end(arguments);
    return code;
}

static int fail_smla(char why[RUN_WHY], const char *function)
{
    smla_error_info info = {.struct_size = sizeof info};
    smla_last_error(&info);
    return fail(why, cli_exit_of(info.status), "%s: %s%s%.800s", function, info.message, info.log[0] == 0 ? "" : "\n",
                info.log);
}

static int fail_device(char why[RUN_WHY], const struct device *device)
{
    return fail(why, CLI_DEVICE_FAULT, "%s", device_why(device));
}

int run_session_open(struct run_session *session, const char *driver_path, const char *nvrtc_path,
                     uint32_t context_flags, char why[RUN_WHY])
{
    char device_text[DEVICE_WHY];
    *session = (struct run_session){0};
    const enum device_status status = device_open(driver_path, 0, &session->device, device_text);
    if (status != DEVICE_OK)
        return fail(why, status == DEVICE_FAULT ? CLI_DEVICE_FAULT : CLI_UNAVAILABLE, "%s", device_text);
    const smla_context_desc desc = {
        .struct_size = sizeof desc, .flags = context_flags, .driver_path = driver_path, .nvrtc_path = nvrtc_path};
    if (smla_context_create(&desc, &session->context) == SMLA_OK)
        return CLI_FINE;
    const int code = fail_smla(why, "smla_context_create");
    run_session_close(session);
    return code;
}

void run_session_close(struct run_session *session)
{
    smla_context_destroy(session->context);
    device_close(session->device);
    *session = (struct run_session){0};
}

/* No event comes in between, since nothing is prepared any more. NULL without memory; the caller frees. */
static char *stats_text(smla_context *context)
{
    size_t size;
    if (smla_stats_json(context, NULL, 0, &size) != SMLA_OK)
        return NULL;
    char *text = malloc(size);
    if (text == NULL || smla_stats_json(context, text, size, &size) == SMLA_OK)
        return text;
    free(text);
    return NULL;
}

int run_session_write_stats(const struct run_session *session, const char *path)
{
    char *text = stats_text(session->context);
    if (text == NULL)
        return cli_fail(CLI_CHECK_FAILED, "no memory for the library's statistics");
    FILE *file = fopen(path, "w");
    bool written = file != NULL && fprintf(file, "%s\n", text) > 0;
    if (file != NULL)
        written = fclose(file) == 0 && written;
    free(text);
    return written ? CLI_FINE : cli_fail(CLI_USAGE, "%s: cannot be written", path);
}

/* A tensor that the case lacks stays NULL. */
static bool make_input(struct run *run, enum buffer which, const char *name, const void *contents, size_t size_bytes)
{
    return contents == NULL || guarded_create(run->device, name, contents, size_bytes, &run->buffers[which]);
}

static bool is_decode(const struct run *run)
{
    return run->loaded->op == SMLA_OP_DECODE;
}

/* The lengths as the call takes them: of requests in decode. */
static bool make_cache(struct run *run, int c)
{
    static const char *const names[2][3] = {{"kv", "indices", "topk_length"},
                                            {"extra_kv", "extra_indices", "extra_topk_length"}};
    const enum buffer first = c == 0 ? KV : EXTRA_KV;
    const struct smla_case *loaded = run->loaded;
    const struct case_cache *cache = &loaded->caches[c];
    const size_t tokens = (size_t)(loaded->b * loaded->s_q);
    const void *length = is_decode(run) ? cache->request_length : cache->topk_length;
    return make_input(run, first, names[c][0], cache->kv, cache->kv_bytes) &&
           make_input(run, first + 1, names[c][1], cache->indices, tokens * (size_t)cache->topk * 4) &&
           make_input(run, first + 2, names[c][2], length, (is_decode(run) ? (size_t)loaded->b : tokens) * 4);
}

static bool make_buffers(struct run *run)
{
    const struct smla_case *loaded = run->loaded;
    const size_t rows = (size_t)(loaded->b * loaded->s_q) * (size_t)loaded->h_q;
    const size_t d_qk = (size_t)loaded->d_qk;
    const size_t d_v = (size_t)loaded->d_v;
    struct guarded *buffers = run->buffers;
    return make_input(run, QUERY, "query", loaded->query, rows * d_qk * 2) && make_cache(run, 0) &&
           make_cache(run, 1) && make_input(run, ATTN_SINK, "attn_sink", loaded->attn_sink, (size_t)loaded->h_q * 4) &&
           (run->workspace_bytes == 0 ||
            guarded_create(run->device, "workspace", NULL, (size_t)run->workspace_bytes, &buffers[WORKSPACE])) &&
           guarded_create(run->device, "out", NULL, rows * d_v * 2, &buffers[OUT]) &&
           guarded_create(run->device, "lse", NULL, rows * 4, &buffers[LSE]) &&
           (is_decode(run) || guarded_create(run->device, "max_logits", NULL, rows * 4, &buffers[MAX_LOGITS]));
}

static smla_status call_prefill(struct run *run)
{
    smla_prefill_args args;
    case_arguments(run->loaded, &args);
    args.query = guarded_data(&run->buffers[QUERY]);
    args.kv = guarded_data(&run->buffers[KV]);
    args.indices = guarded_data(&run->buffers[INDICES]);
    args.topk_length = guarded_data(&run->buffers[TOPK_LENGTH]);
    args.attn_sink = guarded_data(&run->buffers[ATTN_SINK]);
    args.workspace = guarded_data(&run->buffers[WORKSPACE]);
    args.workspace_bytes = run->workspace_bytes;
    args.out = guarded_data(&run->buffers[OUT]);
    args.lse = guarded_data(&run->buffers[LSE]);
    args.max_logits = guarded_data(&run->buffers[MAX_LOGITS]);
    args.sm_limit = run->sm_limit;
    return smla_prefill(run->kernel, &args, NULL);
}

static smla_status call_decode(struct run *run)
{
    smla_decode_args args;
    case_decode_arguments(run->loaded, &args);
    args.query = guarded_data(&run->buffers[QUERY]);
    args.kv = guarded_data(&run->buffers[KV]);
    args.indices = guarded_data(&run->buffers[INDICES]);
    args.topk_length = guarded_data(&run->buffers[TOPK_LENGTH]);
    args.extra_kv = guarded_data(&run->buffers[EXTRA_KV]);
    args.extra_indices = guarded_data(&run->buffers[EXTRA_INDICES]);
    args.extra_topk_length = guarded_data(&run->buffers[EXTRA_TOPK_LENGTH]);
    args.attn_sink = guarded_data(&run->buffers[ATTN_SINK]);
    args.workspace = guarded_data(&run->buffers[WORKSPACE]);
    args.workspace_bytes = run->workspace_bytes;
    args.out = guarded_data(&run->buffers[OUT]);
    args.lse = guarded_data(&run->buffers[LSE]);
    args.sm_limit = run->sm_limit;
    return smla_decode(run->kernel, &args, NULL);
}

/* The workspace is poisoned too: a kernel may not count on what stands in it. */
static bool poison_outputs(struct run *run)
{
    for (int which = WORKSPACE; which < BUFFERS; which++)
        if (run->buffers[which].base != NULL && !guarded_poison(run->device, &run->buffers[which]))
            return false;
    return device_synchronize(run->device);
}

/* Of decode there is no max_logits: nothing comes, into an array that stays zeros. */
static bool download(struct run *run, enum buffer which, void *host)
{
    return run->buffers[which].base == NULL ||
           device_download(run->device, host, guarded_data(&run->buffers[which]), run->buffers[which].size_bytes);
}

static bool allocate(const struct run *run, struct run_result *result)
{
    result->out = malloc(run->buffers[OUT].size_bytes + 1);
    result->lse = malloc(run->buffers[LSE].size_bytes + 1);
    result->max_logits = calloc(run->buffers[LSE].size_bytes + 1, 1);
    return result->out != NULL && result->lse != NULL && result->max_logits != NULL;
}

/* One run into result's arrays. */
static int launch_once(struct run *run, struct run_result *result, char why[RUN_WHY])
{
    const char *function = is_decode(run) ? "smla_decode" : "smla_prefill";
    if (!allocate(run, result))
        return fail(why, CLI_CHECK_FAILED, "out of memory");
    if (!poison_outputs(run))
        return fail_device(why, run->device);
    const smla_status status = is_decode(run) ? call_decode(run) : call_prefill(run);
    if (status != SMLA_OK) {
        const int code = fail_smla(why, function);
        /* the arguments are ours: what a checked kernel refuses, it found in the case */
        return run->checked && status == SMLA_ERROR_INVALID_ARGUMENT ? CLI_CHECK_FAILED : code;
    }
    if (!device_synchronize(run->device) || !download(run, OUT, result->out) || !download(run, LSE, result->lse) ||
        !download(run, MAX_LOGITS, result->max_logits))
        return fail_device(why, run->device);
    return CLI_FINE;
}

static int check_guards(struct run *run, struct run_result *result, char why[RUN_WHY])
{
    for (int which = 0; which < BUFFERS; which++) {
        char text[GUARDED_WHY];
        const enum guarded_state state = guarded_check(run->device, &run->buffers[which], text);
        if (state == GUARDED_FAULT)
            return fail_device(why, run->device);
        if (state == GUARDED_BROKEN && result->unsound[0] == 0)
            snprintf(result->unsound, sizeof result->unsound, "%s", text);
    }
    return CLI_FINE;
}

static bool same_bits(const struct run *run, const struct run_result *left, const struct run_result *right)
{
    return memcmp(left->out, right->out, run->buffers[OUT].size_bytes) == 0 &&
           memcmp(left->lse, right->lse, run->buffers[LSE].size_bytes) == 0 &&
           memcmp(left->max_logits, right->max_logits, run->buffers[LSE].size_bytes) == 0;
}

/* Run `number` of the repeats, compared with the first. */
static int launch_again(struct run *run, int64_t number, struct run_result *first, char why[RUN_WHY])
{
    struct run_result again = {0};
    const int code = launch_once(run, &again, why);
    if (code == CLI_FINE && first->unsound[0] == 0 && !same_bits(run, first, &again))
        snprintf(first->unsound, sizeof first->unsound, "run %lld gave other bits than the first", (long long)number);
    run_result_free(&again);
    return code;
}

static smla_status ask_workspace(struct run *run)
{
    const struct smla_case *loaded = run->loaded;
    const int64_t topk = loaded->caches[0].topk;
    return is_decode(run) ? smla_decode_workspace_size(run->kernel, loaded->b, loaded->s_q, topk,
                                                       loaded->caches[1].topk, &run->workspace_bytes)
                          : smla_prefill_workspace_size(run->kernel, loaded->s_q, topk, &run->workspace_bytes);
}

static int launch_all(struct run *run, int64_t repeat, struct run_result *result, char why[RUN_WHY])
{
    if (ask_workspace(run) != SMLA_OK)
        return fail_smla(why, is_decode(run) ? "smla_decode_workspace_size" : "smla_prefill_workspace_size");
    if (!make_buffers(run))
        return fail_device(why, run->device);
    int code = launch_once(run, result, why);
    for (int64_t i = 2; code == CLI_FINE && i <= repeat; i++)
        code = launch_again(run, i, result, why);
    return code == CLI_FINE ? check_guards(run, result, why) : code;
}

static int prepare(struct run_session *session, const struct smla_case *loaded, const char *target,
                   struct run_result *result, smla_kernel **kernel, char why[RUN_WHY])
{
    smla_kernel_desc desc;
    case_describe(loaded, &desc);
    desc.target = target;
    desc.flags = session->kernel_flags;
    result->support.struct_size = sizeof result->support;
    if (smla_query_support(session->context, &desc, &result->support) != SMLA_OK)
        return fail_smla(why, "smla_query_support");
    if (!result->support.supported)
        return fail(why, CLI_UNAVAILABLE, "%s", result->support.reason);
    return smla_prepare(session->context, &desc, kernel) == SMLA_OK ? CLI_FINE : fail_smla(why, "smla_prepare");
}

int run_cuda(struct run_session *session, const struct smla_case *loaded, const char *target, int64_t repeat,
             struct run_result *result, char why[RUN_WHY])
{
    struct run run = {.device = session->device,
                      .loaded = loaded,
                      .sm_limit = session->sm_limit,
                      .checked = (session->kernel_flags & SMLA_KERNEL_CHECKED) != 0};
    *result = (struct run_result){0};
    int code = prepare(session, loaded, target, result, &run.kernel, why);
    if (code == CLI_FINE)
        code = launch_all(&run, repeat, result, why);
    for (int which = 0; which < BUFFERS; which++)
        guarded_destroy(run.device, &run.buffers[which]);
    smla_kernel_destroy(run.kernel);
    if (code != CLI_FINE)
        run_result_free(result);
    return code;
}

void run_result_free(struct run_result *result)
{
    free(result->out);
    free(result->lse);
    free(result->max_logits);
    result->out = NULL;
    result->lse = NULL;
    result->max_logits = NULL;
}
