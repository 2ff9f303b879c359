/* Bundles: opened, gone through, verified. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "smla_cache.h"

int cache_open_smlab(const char *path, struct rt_smlab **smlab)
{
    char why[256];
    *smlab = NULL;
    if (!smlab_is_path(path))
        return cli_usage("'%s' is no bundle: NAME.smlab", path);
    const enum rt_read_result result = rt_smlab_open(path, true, smlab, why);
    if (result == RT_READ_OK && why[0] == 0)
        return CLI_FINE;
    if (result == RT_READ_OK || result == RT_READ_DAMAGED)
        return cli_fail(CLI_CHECK_FAILED, "'%s' is damaged: %s", path, why);
    return cli_fail(CLI_USAGE, "cannot read '%s': %s", path, why);
}

int cache_visit_smlab(const struct rt_smlab *smlab, cache_smlab_fn call, void *user)
{
    int code = CLI_FINE;
    for (size_t i = 0; i < rt_smlab_count(smlab); i++) {
        const struct rt_smlab_row *row = rt_smlab_row(smlab, i);
        char why[256];
        struct rt_entry entry;
        const bool sound = rt_smlab_read(smlab, i, &entry, why) == RT_READ_OK;
        call(user, row, sound ? &entry : NULL, why);
        if (sound)
            rt_entry_free(&entry);
        else
            code = CLI_CHECK_FAILED;
    }
    return code;
}

void cache_row_name(const char *path, const struct rt_smlab_row *row, char text[CACHE_ROW_BYTES])
{
    char id[RT_DIGEST_HEX];
    rt_digest_hex(&row->key.kernel_id, id);
    snprintf(text, CACHE_ROW_BYTES, "%.900s: kernel %.16s", path, id);
}

/* ---- verify ---- */

struct smlab_verification {
    const char *path;
    bool json;
    json_t *bad;
    size_t sound;
    uint64_t sound_bytes;
};

static void tell(struct smlab_verification *of, const char *verdict, const char *name, const char *kernel_id,
                 uint64_t bytes, const char *why)
{
    if (!of->json)
        printf("%s: %s: %s\n", verdict, name, why);
    json_array_append_new(of->bad,
                          json_pack("{s:s, s:s?, s:I, s:s, s:s, s:b}", "path", of->path, "kernel_id", kernel_id,
                                    "bytes", (json_int_t)bytes, "verdict", verdict, "why", why, "removed", 0));
}

static void verify_row(void *user, const struct rt_smlab_row *row, const struct rt_entry *entry, const char *why)
{
    struct smlab_verification *of = user;
    char name[CACHE_ROW_BYTES], id[RT_DIGEST_HEX];
    if (entry != NULL) {
        of->sound++;
        of->sound_bytes += entry->file_size;
        return;
    }
    cache_row_name(of->path, row, name);
    rt_digest_hex(&row->key.kernel_id, id);
    tell(of, "damaged", name, id, row->size, why);
}

/* As the loader opens it; what it would not use for its owner's or mode's sake is read all the same. */
static int verify_open(struct smlab_verification *of, struct rt_smlab **smlab)
{
    char why[256];
    enum rt_read_result result = rt_smlab_open(of->path, false, smlab, why);
    if (result == RT_READ_REFUSED) {
        tell(of, "not used", of->path, NULL, 0, why);
        result = rt_smlab_open(of->path, true, smlab, why);
    }
    if (result == RT_READ_ABSENT || result == RT_READ_REFUSED)
        return cli_fail(CLI_USAGE, "cannot read '%s': %s", of->path, why);
    if (result != RT_READ_OK || why[0] != 0)
        tell(of, "damaged", of->path, NULL, *smlab != NULL ? rt_smlab_size(*smlab) : 0, why);
    return CLI_FINE;
}

int cache_verify_smlab(const struct cache_options *options)
{
    if (!smlab_is_path(options->operands[0]))
        return cli_usage("'%s' is no bundle: NAME.smlab", options->operands[0]);
    struct smlab_verification of = {.path = options->operands[0], .json = options->json, .bad = json_array()};
    struct rt_smlab *smlab = NULL;
    char why[256];
    int code =
        options->repair ? cli_usage("a bundle is not repaired: write '%s' anew", of.path) : verify_open(&of, &smlab);
    if (smlab != NULL) {
        (void)cache_visit_smlab(smlab, verify_row, &of);
        if (!rt_smlab_check_gaps(smlab, why))
            tell(&of, "damaged", of.path, NULL, rt_smlab_size(smlab), why);
    }
    const size_t bad = json_array_size(of.bad);
    if (code == CLI_FINE && options->json)
        code =
            cache_print_json(json_pack("{s:s, s:I, s:I, s:I, s:O}", "path", of.path, "sound", (json_int_t)of.sound,
                                       "bytes", (json_int_t)of.sound_bytes, "removed", (json_int_t)0, "bad", of.bad));
    else if (code == CLI_FINE)
        printf("%zu sound entries, %" PRIu64 " bytes in %s; %zu bad\n", of.sound, of.sound_bytes, of.path, bad);
    rt_smlab_close(smlab);
    json_decref(of.bad);
    return bad > 0 ? cli_worse(code, CLI_CHECK_FAILED) : code;
}
