/* Any bytes as a bundle file: opens the bytes, reads every entry, looks for every kernel; and the
 * same with digests made right, so that what lies behind them is reached. */
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "sample_smlab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is served is what the index says. */
static void check_found(const struct rt_entry *entry, const struct rt_smlab_row *row)
{
    if (memcmp(&entry->info.key.kernel_id, &row->key.kernel_id, RT_DIGEST_BYTES) != 0 ||
        entry->info.key.kind != row->key.kind || strcmp(entry->info.arch, row->arch) != 0)
        abort();
}

/* builder: the wanted one, or NULL. Returns whether one was found that is of `row`'s builder. */
static bool find(struct rt_smlab *smlab, const struct rt_smlab_row *row, const struct rt_builder *builder)
{
    struct rt_cache_counters counters = {0};
    const struct rt_log log = {.fn = NULL};
    struct rt_entry entry;

    if (!rt_smlab_find(
            smlab, &(struct rt_wanted){.key = &row->key, .arch = row->arch, .builder = builder, .max_nvrtc_major = 13},
            &log, &counters, &entry))
        return false;
    check_found(&entry, row);
    const bool same = memcmp(&entry.info.builder.build_id, &row->builder.build_id, RT_DIGEST_BYTES) == 0;
    rt_entry_free(&entry);
    return same;
}

static void use_row(struct rt_smlab *smlab, size_t index)
{
    const struct rt_smlab_row *row = rt_smlab_row(smlab, index);
    struct rt_entry entry;
    char why[256];
    const bool sound = rt_smlab_read(smlab, index, &entry, why) == RT_READ_OK;

    if (sound) {
        check_found(&entry, row);
        rt_entry_free(&entry);
    }
    (void)find(smlab, row, NULL);
    if (!find(smlab, row, &row->builder) && sound && row->builder.nvrtc_major <= 13)
        abort();
}

static void use(const uint8_t *bytes, size_t size)
{
    char why[256];
    struct rt_smlab *smlab = sample_smlab_open(bytes, size, why);

    for (size_t i = 0; smlab != NULL && i < rt_smlab_count(smlab); i++)
        use_row(smlab, i);
    if (smlab != NULL)
        (void)rt_smlab_check_gaps(smlab, why);
    rt_smlab_close(smlab);
}

/* Makes an entry's digests right where they lie within it. */
static void seal_entry(const struct sample_smlab *smlab, size_t index)
{
    const uint64_t at = rt_get_le64(sample_smlab_row(smlab, index) + ROW_AT);

    if (at > smlab->size || smlab->size - at < 176)
        return;
    const uint8_t *entry = smlab->bytes + at;
    const uint64_t left = smlab->size - at, header = rt_get_le32(entry + 12);
    const uint64_t code = rt_get_le64(entry + 24), code_size = rt_get_le64(entry + 32);

    if (header >= 176 && header <= left && code <= left && code_size <= left - code)
        sample_smlab_seal_entry(smlab, index);
}

/* Where header, index and entries lie one behind the other, the entries' digests, then the others. */
static void seal(uint8_t *bytes, size_t size)
{
    const struct sample_smlab smlab = {bytes, size};
    const uint64_t index = rt_get_le64(bytes + SMLAB_INDEX_OFFSET), row_size = rt_get_le32(bytes + SMLAB_ROW_SIZE);
    const uint64_t count = rt_get_le64(bytes + SMLAB_COUNT);

    memcpy(bytes, "\x93SMLB\r\n\x1a\x01\0", 10);
    if (index < SMLAB_HEADER || index > size || row_size < SMLAB_ROW || count > (size - index) / row_size)
        return;
    for (uint64_t i = 0; i < count; i++)
        if (rt_get_le64(sample_smlab_row(&smlab, (size_t)i) + ROW_AT) >= index + count * row_size)
            seal_entry(&smlab, (size_t)i);
    sample_smlab_seal(bytes, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy;

    use(data, size);
    if (size < SMLAB_HEADER)
        return 0;
    copy = sample_copy(data, size);
    seal(copy, size);
    use(copy, size);
    free(copy);
    return 0;
}
