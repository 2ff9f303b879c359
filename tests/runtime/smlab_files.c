#include "smlab_files.h"

#include <fcntl.h>
#include <unistd.h>

#include "context.h"

/* A context without any tier, which has compiled the kernels. */
static smla_context *compile_all(const smla_kernel_desc *descs, size_t count)
{
    smla_context_desc desc = stub_context_desc();
    smla_context *context = NULL;

    desc.flags = SMLA_CONTEXT_OWN_CACHE;
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
    for (size_t i = 0; i < count; i++)
        smla_kernel_destroy(must_prepare(context, &descs[i]));
    return context;
}

uint8_t *smlab_of_context(smla_context *context, size_t count, size_t *size)
{
    struct rt_entry *entries = NULL;
    uint8_t *bytes = NULL;
    size_t found = 0;

    assert_int_equal(rt_store_list(&context->store, &entries, &found), SMLA_OK);
    assert_int_equal(found, count);
    assert_int_equal(rt_smlab_build(entries, found, &bytes, size), SMLA_OK);
    free(entries);
    return bytes;
}

uint8_t *smlab_of(const smla_kernel_desc *descs, size_t count, size_t *size)
{
    smla_context *context = compile_all(descs, count);
    uint8_t *bytes = smlab_of_context(context, count, size);

    smla_context_destroy(context);
    return bytes;
}

uint8_t *smk_of(const smla_kernel_desc *desc, size_t *size, const uint8_t **code, size_t *code_size)
{
    smla_context *context = compile_all(desc, 1);
    struct rt_entry *entry = NULL;
    size_t found = 0;

    assert_int_equal(rt_store_list(&context->store, &entry, &found), SMLA_OK);
    assert_int_equal(found, 1);
    uint8_t *bytes = malloc(entry->file_size);

    assert_non_null(bytes);
    memcpy(bytes, entry->file, entry->file_size);
    *size = entry->file_size;
    *code = bytes + (entry->payload - entry->file);
    *code_size = entry->payload_size;
    free(entry);
    smla_context_destroy(context);
    return bytes;
}

char *path_in(const char *folder, const char *name)
{
    char *path = NULL;

    assert_true(asprintf(&path, "%s/%s", folder, name) > 0);
    return path;
}

void write_file(const char *path, const void *bytes, size_t size)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size), size);
    assert_int_equal(close(file), 0);
}
