#include "key.h"

#include <string.h>

#include "bytes.h"
#include "error.h"

/* Raised when the list of digested fields changes, or when smla's use of the compiled code does. */
enum { KEY_SCHEMA = 2 };

static void add_number(struct gen_text *text, uint64_t value)
{
    uint8_t bytes[8];

    rt_put_le64(bytes, value);
    gen_text_add_bytes(text, (const char *)bytes, sizeof bytes);
}

/* With its length before it, so that no two lists of fields give the same bytes. */
static void add_field(struct gen_text *text, const char *bytes, size_t size)
{
    add_number(text, size);
    gen_text_add_bytes(text, bytes, size);
}

static void add_string(struct gen_text *text, const char *string)
{
    add_field(text, string, strlen(string));
}

const char *rt_line_option(const struct gen_bundle *bundle, enum rt_kind kind)
{
    return kind == RT_KIND_PTX || bundle->spec.line_info ? "-lineinfo" : NULL;
}

static void add_options(struct gen_text *text, const struct gen_bundle *bundle, enum rt_kind kind)
{
    const char *lines = rt_line_option(bundle, kind);

    add_string(text, bundle->arch_option);
    add_number(text, (uint64_t)bundle->option_count + (lines != NULL));
    for (int32_t i = 0; i < bundle->option_count; i++)
        add_string(text, bundle->options[i]);
    if (lines != NULL)
        add_string(text, lines);
}

/* A template by its digest, which spares each process most of the work of a key. Its bytes here are one line more,
 * which the name tells. */
static void add_files(struct gen_text *text, const struct gen_bundle *bundle)
{
    add_number(text, (uint64_t)bundle->file_count);
    for (int32_t i = 0; i < bundle->file_count; i++) {
        const struct gen_file *file = &bundle->files[i];

        add_string(text, file->name);
        add_number(text, file->digest != NULL);
        if (file->digest != NULL)
            add_string(text, file->digest);
        else
            add_field(text, file->bytes, file->size);
    }
}

smla_status rt_key_make(const struct gen_bundle *bundle, enum rt_kind kind, struct rt_key *key)
{
    struct gen_text text = {0};

    add_number(&text, KEY_SCHEMA);
    add_number(&text, (uint64_t)kind);
    add_string(&text, bundle->spec.target->arch);
    add_options(&text, bundle, kind);
    add_files(&text, bundle);
    if (text.failed) {
        gen_text_free(&text);
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for the key of a kernel");
    }
    rt_digest_of(text.bytes, text.size, &key->kernel_id);
    key->kind = kind;
    gen_text_free(&text);
    return SMLA_OK;
}

bool rt_builder_is_newer(const struct rt_builder *a, const struct rt_builder *b)
{
    if (a->nvrtc_major != b->nvrtc_major)
        return a->nvrtc_major > b->nvrtc_major;
    if (a->nvrtc_minor != b->nvrtc_minor)
        return a->nvrtc_minor > b->nvrtc_minor;
    return memcmp(a->build_id.bytes, b->build_id.bytes, sizeof a->build_id.bytes) > 0;
}
