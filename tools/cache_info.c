/* smla-cache info: all that an entry says, and what the generator makes of its description. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bundle.h"
#include "cli.h"
#include "describe.h"
#include "host_file.h"
#include "key.h"
#include "smla_cache.h"
#include "trust.h"

/* The kernel of an entry, made again from its description. */
struct remade {
    struct gen_bundle bundle;
    bool held;     /* the bundle is to be freed */
    bool same;     /* it is the entry's kernel */
    char why[640]; /* not */
};

static smla_status make_bundle(const struct rt_described *described, struct gen_bundle *bundle,
                               struct gen_refusal *refusal)
{
    struct gen_bundle kernel;
    if (described->tile_heads == 0)
        return gen_bundle_make(&described->desc, NULL, bundle, refusal);
    smla_status status = gen_bundle_make(&described->desc, NULL, &kernel, refusal);
    if (status != SMLA_OK)
        return status;
    status = kernel.plan.companion.tile_heads == described->tile_heads
                 ? gen_bundle_make_companion(&kernel, bundle, refusal)
                 : gen_refuse(refusal, SMLA_ERROR_UNSUPPORTED, "it has no companion in tiles of %d heads",
                              described->tile_heads);
    gen_bundle_free(&kernel);
    return status;
}

static void remake(const struct rt_entry_info *info, struct remade *remade)
{
    struct rt_described described;
    struct gen_refusal refusal;
    struct rt_key key;
    *remade = (struct remade){.held = false};
    if (!rt_describe_read(info->description, &described)) {
        snprintf(remade->why, sizeof remade->why, "the description is not one of smla %s", smla_version());
        return;
    }
    if (make_bundle(&described, &remade->bundle, &refusal) != SMLA_OK) {
        snprintf(remade->why, sizeof remade->why, "smla %s does not make it from the description: %s", smla_version(),
                 refusal.text);
        return;
    }
    remade->held = true;
    remade->same = rt_key_make(&remade->bundle, info->key.kind, &key) == SMLA_OK &&
                   memcmp(key.kernel_id.bytes, info->key.kernel_id.bytes, sizeof key.kernel_id.bytes) == 0;
    if (!remade->same)
        snprintf(remade->why, sizeof remade->why, "smla %s makes another kernel of this description", smla_version());
}

/* Of a kernel that is known. */
static const char *status_text(const struct remade *remade)
{
    const struct gen_bundle *bundle = &remade->bundle;
    return gen_trust_find(bundle->plan.family, bundle->spec.op, bundle->plan.variants[0].name)->status;
}

static void free_remade(struct remade *remade)
{
    if (remade->held)
        gen_bundle_free(&remade->bundle);
}

/* NULL without memory; freed by gen_text_free. */
static const char *plan_text(const struct remade *remade, struct gen_text *text)
{
    gen_plan_print(&remade->bundle.spec, &remade->bundle.plan, text);
    return text->failed ? NULL : text->bytes;
}

static void payload_digest(const struct rt_entry *entry, char text[RT_DIGEST_HEX])
{
    struct rt_digest digest;
    rt_digest_of(entry->payload, entry->payload_size, &digest);
    rt_digest_hex(&digest, text);
}

/* ---- As text ---- */

static void print_line(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void print_line(const char *name, const char *format, ...)
{
    va_list arguments;
    printf("  %-18s ", name);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

/* -1: the compiler did not tell. */
static void print_number(const char *name, int32_t value, const char *unit)
{
    if (value < 0)
        print_line(name, "not known");
    else
        print_line(name, "%d%s", (int)value, unit);
}

/* Each line four columns in. */
static void print_indented(const char *text)
{
    while (*text != 0) {
        const size_t length = strcspn(text, "\n");
        printf("%s%.*s\n", length > 0 ? "    " : "", (int)length, text);
        text += length + (text[length] == '\n');
    }
}

static void print_options(const struct remade *remade)
{
    printf("  %-18s", "options");
    for (int32_t i = 0; i < remade->bundle.option_count; i++)
        printf(" %s", remade->bundle.options[i]);
    putchar('\n');
}

static void print_remade(const struct remade *remade)
{
    struct gen_text text = {.bytes = NULL};
    if (!remade->same) {
        print_line("plan, options", "not known: %s", remade->why);
        return;
    }
    print_line("status", "%s", status_text(remade));
    print_options(remade);
    const char *plan = plan_text(remade, &text);
    puts("  plan:");
    print_indented(plan != NULL ? plan : "out of memory");
    gen_text_free(&text);
}

/* status: NULL of an entry in a bundle. */
static void print_file(const struct stat *status, const struct rt_entry *entry)
{
    char used[CACHE_TIME_BYTES];
    if (status == NULL) {
        print_line("entry", "%zu bytes of the bundle", entry->file_size);
        return;
    }
    cache_time_text((int64_t)status->st_mtim.tv_sec, used);
    print_line("file", "%zu bytes, used last, to a day, %s", entry->file_size, used);
}

static void print_entry(const char *path, const struct stat *status, const struct rt_entry *entry,
                        const struct remade *remade)
{
    const struct rt_entry_info *info = &entry->info;
    char id[RT_DIGEST_HEX], build[RT_DIGEST_HEX], payload[RT_DIGEST_HEX];
    rt_digest_hex(&info->key.kernel_id, id);
    rt_digest_hex(&info->builder.build_id, build);
    payload_digest(entry, payload);
    puts(path);
    print_line("description", "%s", info->description);
    print_line("kernel id", "%s", id);
    print_line("target", "%s", info->arch);
    print_line("kind", "%s", cache_kind_name(info->key.kind));
    print_line("entry point", "%s", info->entry_symbol);
    print_line("compiler", "NVRTC %d.%d, build id %s", (int)info->builder.nvrtc_major, (int)info->builder.nvrtc_minor,
               build);
    print_line("compile time", "%u ms", (unsigned)info->compile_ms);
    print_number("registers", info->registers, " a thread");
    print_number("spilled", info->spill_bytes, " bytes of loads and stores");
    print_number("stack frame", info->local_bytes, " bytes");
    print_number("static shared", info->static_shared_bytes, " bytes; dynamic shared memory is the plan's");
    print_number("parameter", info->param_bytes, " bytes");
    print_file(status, entry);
    print_line("code", "%zu bytes, BLAKE2b-256 %s", entry->payload_size, payload);
    if (entry->log != NULL && entry->log[0] != 0) {
        puts("  compile log:");
        print_indented(entry->log);
    } else {
        print_line("compile log", "empty");
    }
    print_remade(remade);
}

/* ---- As JSON ---- */

static json_t *options_json(const struct remade *remade)
{
    if (!remade->same)
        return json_null();
    json_t *options = json_array();
    for (int32_t i = 0; i < remade->bundle.option_count; i++)
        json_array_append_new(options, json_string(remade->bundle.options[i]));
    return options;
}

static json_t *info_json(const char *path, const struct stat *status, const struct rt_entry *entry,
                         const struct remade *remade)
{
    const struct rt_entry_info *info = &entry->info;
    char build[RT_DIGEST_HEX], payload[RT_DIGEST_HEX];
    struct gen_text text = {.bytes = NULL};
    json_t *root = cache_entry_json(path, entry->file_size, info);
    rt_digest_hex(&info->builder.build_id, build);
    payload_digest(entry, payload);
    json_object_set_new(root, "build_id", json_string(build));
    json_object_set_new(root, "entry_symbol", json_string(info->entry_symbol));
    json_object_set_new(root, "param_bytes", json_integer(info->param_bytes));
    json_object_set_new(root, "static_shared_bytes", json_integer(info->static_shared_bytes));
    json_object_set_new(root, "last_use_s",
                        status != NULL ? json_integer((json_int_t)status->st_mtim.tv_sec) : json_null());
    json_object_set_new(root, "code_bytes", json_integer((json_int_t)entry->payload_size));
    json_object_set_new(root, "code_digest", json_string(payload));
    json_object_set_new(root, "log", entry->log != NULL ? json_string(entry->log) : json_null());
    json_object_set_new(root, "options", options_json(remade));
    json_object_set_new(root, "status", remade->same ? json_string(status_text(remade)) : json_null());
    json_object_set_new(root, "plan", remade->same ? json_string(plan_text(remade, &text)) : json_null());
    json_object_set_new(root, "plan_why_not", remade->same ? json_null() : json_string(remade->why));
    gen_text_free(&text);
    return root;
}

/* ---- Which ---- */

static void show(const struct cache_options *options, json_t *rows, const char *path, const struct stat *status,
                 const struct rt_entry *entry)
{
    struct remade *remade = malloc(sizeof *remade); /* a bundle is large */
    if (remade == NULL) {
        cli_fail(0, "out of memory");
        return;
    }
    remake(&entry->info, remade);
    if (options->json) {
        json_array_append_new(rows, info_json(path, status, entry, remade));
    } else {
        if (json_array_size(rows) > 0)
            putchar('\n');
        print_entry(path, status, entry, remade);
        json_array_append_new(rows, json_null()); /* counts it */
    }
    free_remade(remade);
    free(remade);
}

/* A file anywhere; its name is compared only where it is an entry's. */
static int show_file(const struct cache_options *options, json_t *rows)
{
    const char *path = options->operands[0];
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    char why[FILE_WHY];
    struct rt_cache_name as = {.shard = ""};
    struct rt_entry entry;
    struct stat status = {.st_size = 0};
    uint8_t *bytes;
    size_t size;
    if (!file_read(path, &bytes, &size, why))
        return cli_fail(CLI_USAGE, "%s", why);
    (void)stat(path, &status); /* for the time of the last use */
    if (name - path >= 3)
        snprintf(as.shard, sizeof as.shard, "%.2s", name - 3);
    snprintf(as.file, sizeof as.file, "%s", name);
    if (rt_cache_name_is_entry(&as) ? !rt_cache_entry_of(&as, bytes, size, &entry, why)
                                    : !rt_entry_read(bytes, size, NULL, &entry, why))
        return cli_fail(CLI_CHECK_FAILED, "'%s' is damaged: %s", path, why);
    show(options, rows, path, &status, &entry);
    rt_entry_free(&entry);
    return CLI_FINE;
}

static int show_listed(const struct cache_options *options, const struct cache_folder *folder,
                       struct rt_cache_file *file, json_t *rows)
{
    char why[256];
    struct rt_entry entry;
    int code = CLI_FINE;
    char *path = rt_cache_file_path(folder->cache, &file->name);
    const enum rt_read_result result = rt_cache_file_read(folder->cache, file, &entry, why);
    if (result == RT_READ_OK) {
        show(options, rows, path, &file->status, &entry);
        rt_entry_free(&entry);
    } else if (result != RT_READ_ABSENT) {
        code =
            cli_fail(CLI_CHECK_FAILED, "'%s' is %s: %s", path, result == RT_READ_DAMAGED ? "damaged" : "not used", why);
    }
    free(path);
    return code;
}

static int show_prefix(const struct cache_options *options, json_t *rows)
{
    const char *prefix = options->operands[0];
    struct cache_folder folder;
    if (!cache_is_prefix(prefix))
        return CLI_USAGE;
    int code = cache_open_list(options, false, &folder);
    for (size_t i = 0; i < folder.list.count; i++)
        if (cache_has_prefix(&folder.list.files[i], prefix))
            code = cli_worse(code, show_listed(options, &folder, &folder.list.files[i], rows));
    if (code == CLI_FINE && json_array_size(rows) == 0)
        code = cli_fail(CLI_CHECK_FAILED, "no kernel id in '%s' begins with %s", folder.path, prefix);
    cache_close(&folder);
    return code;
}

struct shown_smlab {
    const struct cache_options *options;
    json_t *rows;
};

static void show_row(void *user, const struct rt_smlab_row *row, const struct rt_entry *entry, const char *why)
{
    const struct shown_smlab *shown = user;
    const struct cache_options *options = shown->options;
    char name[CACHE_ROW_BYTES];
    if (options->operand_count > 1 && !cache_id_has_prefix(&row->key, options->operands[1]))
        return;
    cache_row_name(options->operands[0], row, name);
    if (entry != NULL)
        show(options, shown->rows, options->operands[0], NULL, entry);
    else
        cli_fail(0, "'%s' is damaged: %s", name, why);
}

static int show_smlab(const struct cache_options *options, json_t *rows)
{
    struct shown_smlab shown = {options, rows};
    struct rt_smlab *smlab;
    if (options->operand_count > 1 && !cache_is_prefix(options->operands[1]))
        return CLI_USAGE;
    int code = cache_open_smlab(options->operands[0], &smlab);
    if (smlab != NULL)
        code = cli_worse(code, cache_visit_smlab(smlab, show_row, &shown));
    if (code == CLI_FINE && json_array_size(rows) == 0)
        code = cli_fail(CLI_CHECK_FAILED, "there is no such kernel in '%s'", options->operands[0]);
    rt_smlab_close(smlab);
    return code;
}

static bool is_path(const char *text)
{
    const size_t length = strlen(text);
    return strchr(text, '/') != NULL || (length > 4 && strcmp(text + length - 4, ".smk") == 0);
}

int cache_info(const struct cache_options *options)
{
    json_t *rows = json_array();
    const bool smlab = smlab_is_path(options->operands[0]);
    int code;
    if (options->operand_count > 1 && !smlab)
        code = cli_usage("'%s' is one argument too many", options->operands[1]);
    else if (smlab)
        code = show_smlab(options, rows);
    else
        code = is_path(options->operands[0]) ? show_file(options, rows) : show_prefix(options, rows);
    if (options->json && json_array_size(rows) > 0)
        code = cli_worse(code, cache_print_json(json_incref(rows)));
    json_decref(rows);
    return code;
}
