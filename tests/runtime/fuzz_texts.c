/* Any bytes as each of the short texts that reach the library from outside: a list of bundles, a file's name in a cache
 * folder, a compiler's report, a pattern of the kill switch; behind "SMLA_DISABLE=" as its patterns, for which
 * kernels have to be planned. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cache_name.h"
#include "ptxas_report.h"
#include "selection.h"
#include "tiers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *copy_of(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    if (text == NULL)
        abort();
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

/* Either something is left to choose, or the refusal names what is off. */
static void choose(char *patterns)
{
    static const uint32_t ops[] = {SMLA_OP_DECODE, SMLA_OP_PREFILL};
    const struct rt_settings settings = {.disable = patterns, .flags = SMLA_CONTEXT_UNVERIFIED};

    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        const smla_kernel_desc desc = {
            .struct_size = sizeof desc, .op = ops[i], .h_q = 64, .d_qk = 512, .target = "90a"};
        struct rt_selection selection;

        if (rt_selection_make(&settings, &desc, NULL, &selection) == SMLA_OK) {
            if (selection.count < 1)
                abort();
            rt_selection_free(&selection);
        } else if (selection.switched_off[0] == '\0') {
            abort();
        }
    }
}

static void match(const char *patterns)
{
    static const char *const names[] = {"smla_sm90_prefill", "smla_sm90_decode_split", ""};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        (void)gen_name_matches(patterns, strlen(patterns), names[i]);
    if (!gen_name_matches("*", 1, patterns))
        abort();
}

/* Paths are of the list, none is empty. */
static void split(const char *list)
{
    char *path = malloc(strlen(list) + 1);

    if (path == NULL)
        abort();
    for (const char *at = list; rt_tiers_next_path(&at, path);)
        if (path[0] == '\0' || strchr(path, ':') != NULL || strstr(list, path) == NULL)
            abort();
    free(path);
}

/* "<folder>/<file>": what is an entry's name is the one that is made. */
static void parse_name(char *name)
{
    struct rt_digest build_id = {{0}};
    struct rt_cache_name made;
    struct rt_key key;
    char *file = strchr(name, '/');

    if (file == NULL)
        return;
    *file = '\0';
    if (rt_cache_name_parse(name, file + 1, &key, build_id.bytes)) {
        rt_cache_name_make(&key, &build_id, &made);
        if (strcmp(made.shard, name) != 0 || strcmp(made.file, file + 1) != 0)
            abort();
    }
    *file = '/';
}

/* Cleaned twice is cleaned once. */
static void read_report(char *log)
{
    const size_t size = strlen(log);

    (void)rt_ptxas_report_read(log, "smla_sm90_prefill");
    rt_ptxas_report_clean(log);
    const size_t cleaned = strlen(log);
    rt_ptxas_report_clean(log);
    if (cleaned > size || strlen(log) > cleaned || strstr(log, "Compile time =") != NULL)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = copy_of(data, size);

    if (strncmp(text, "SMLA_DISABLE=", 13) == 0)
        choose(text + 13);
    match(text);
    split(text);
    parse_name(text);
    read_report(text);
    free(text);
    return 0;
}
