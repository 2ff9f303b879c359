#include "sample_smlab.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bytes.h"

struct sample_smlab sample_smlab_of(const struct rt_entry *entries, size_t count)
{
    struct sample_smlab smlab;

    if (rt_smlab_build(entries, count, &smlab.bytes, &smlab.size) != SMLA_OK)
        abort();
    return smlab;
}

struct sample_smlab sample_smlab_make(uint8_t count)
{
    struct rt_entry *entries = calloc(count > 0 ? count : 1u, sizeof *entries);

    for (uint8_t i = 0; i < count; i++)
        entries[i] = sample_entry((uint8_t)(i + 1));
    const struct sample_smlab smlab = sample_smlab_of(entries, count);
    for (uint8_t i = 0; i < count; i++)
        rt_entry_free(&entries[i]);
    free(entries);
    return smlab;
}

uint8_t *sample_smlab_row(const struct sample_smlab *smlab, size_t index)
{
    return smlab->bytes + rt_get_le64(smlab->bytes + SMLAB_INDEX_OFFSET) +
           index * rt_get_le32(smlab->bytes + SMLAB_ROW_SIZE);
}

uint8_t *sample_smlab_entry(const struct sample_smlab *smlab, size_t index)
{
    return smlab->bytes + rt_get_le64(sample_smlab_row(smlab, index) + ROW_AT);
}

static void put_digest(uint8_t *at, const uint8_t *bytes, size_t size)
{
    struct rt_digest digest;

    rt_digest_of(bytes, size, &digest);
    memcpy(at, digest.bytes, RT_DIGEST_BYTES);
}

void sample_smlab_seal(uint8_t *bytes, size_t size)
{
    const uint64_t header = rt_get_le32(bytes + SMLAB_HEADER_SIZE);
    const uint64_t index = rt_get_le64(bytes + SMLAB_INDEX_OFFSET);
    const uint64_t rows = rt_get_le64(bytes + SMLAB_COUNT), row = rt_get_le32(bytes + SMLAB_ROW_SIZE);

    if (index <= size && (row == 0 || rows <= (size - index) / row))
        put_digest(bytes + SMLAB_INDEX_DIGEST, bytes + index, rows * row);
    if (header >= SMLAB_HEADER && header <= size)
        put_digest(bytes + header - RT_DIGEST_BYTES, bytes, header - RT_DIGEST_BYTES);
}

void sample_smlab_seal_entry(const struct sample_smlab *smlab, size_t index)
{
    uint8_t *entry = sample_smlab_entry(smlab, index);
    const size_t header = rt_get_le32(entry + 12);

    put_digest(entry + 104, entry + rt_get_le64(entry + 24), rt_get_le64(entry + 32));
    put_digest(entry + header - RT_DIGEST_BYTES, entry, header - RT_DIGEST_BYTES);
    memcpy(sample_smlab_row(smlab, index) + ROW_ENTRY, entry + header - RT_DIGEST_BYTES, RT_DIGEST_BYTES);
    sample_smlab_seal(smlab->bytes, smlab->size);
}

struct rt_smlab *sample_smlab_open(const void *bytes, size_t size, char why[256])
{
    struct rt_smlab *smlab;
    const int fd = memfd_create("bundle", MFD_CLOEXEC);

    if (fd < 0 || (size > 0 && write(fd, bytes, size) != (ssize_t)size))
        abort();
    /* A memory file is open to all. */
    return rt_smlab_open_fd(fd, "bundle", true, &smlab, why) == RT_READ_OK ? smlab : NULL;
}

struct rt_smlab *sample_smlab_open_sound(const struct sample_smlab *smlab)
{
    char why[256];
    struct rt_smlab *opened = sample_smlab_open(smlab->bytes, smlab->size, why);

    if (opened == NULL || why[0] != '\0')
        abort();
    return opened;
}

int32_t sample_smlab_find_with(struct sample_smlab_search *search, struct rt_smlab *smlab,
                               const struct rt_entry *wanted, const struct rt_builder *builder, int32_t max_major)
{
    const struct rt_log log = {.fn = sample_log_line, .user = &search->log};
    struct rt_entry found;

    if (!rt_smlab_find(
            smlab,
            &(struct rt_wanted){
                .key = &wanted->info.key, .arch = "sm_90a", .builder = builder, .max_nvrtc_major = max_major},
            &log, &search->counters, &found))
        return 0;
    if (found.payload_size != wanted->payload_size || memcmp(found.payload, wanted->payload, found.payload_size) != 0)
        abort();
    const int32_t by = found.info.builder.nvrtc_major * 100 + found.info.builder.nvrtc_minor;

    rt_entry_free(&found);
    return by;
}

int32_t sample_smlab_find(struct rt_smlab *smlab, const struct rt_entry *wanted, const struct rt_builder *builder,
                          int32_t max_major)
{
    struct sample_smlab_search search = {.log = {.lines = 0}};

    return sample_smlab_find_with(&search, smlab, wanted, builder, max_major);
}

bool sample_smlab_serves(struct rt_smlab *smlab, uint8_t seed)
{
    struct rt_entry wanted = sample_entry(seed);
    const bool found = sample_smlab_find(smlab, &wanted, NULL, 0) != 0;

    rt_entry_free(&wanted);
    return found;
}
