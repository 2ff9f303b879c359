/* Any bytes as a cache entry; and the same with lengths and digests made right, so that what lies behind them is
 * reached. */
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "entry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_copy(const uint8_t *data, size_t size)
{
    struct rt_entry entry;
    char why[256];
    uint8_t *copy = malloc(size > 0 ? size : 1);

    if (copy == NULL)
        return;
    memcpy(copy, data, size);
    if (rt_entry_read(copy, size, NULL, &entry, why))
        rt_entry_free(&entry);
}

static void put_digest(uint8_t *at, const uint8_t *bytes, size_t size)
{
    struct rt_digest digest;

    rt_digest_of(bytes, size, &digest);
    memcpy(at, digest.bytes, RT_DIGEST_BYTES);
}

/* Makes lengths and digests right, so that what lies behind them is reached. */
static void seal(uint8_t *file, size_t size)
{
    const uint64_t offset = rt_get_le64(file + 24);
    const uint64_t payload_size = rt_get_le64(file + 32);
    const uint32_t header_size = rt_get_le32(file + 12);

    memcpy(file, "\x93SMLA\r\n\x1a\x01\0\0", 12);
    rt_put_le64(file + 16, size);
    if (offset <= size && payload_size <= size - offset)
        put_digest(file + 104, file + offset, payload_size);
    if (header_size >= 176 && header_size <= size)
        put_digest(file + header_size - RT_DIGEST_BYTES, file, header_size - RT_DIGEST_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *sealed;

    read_copy(data, size);
    if (size < 176)
        return 0;
    sealed = malloc(size);
    if (sealed == NULL)
        return 0;
    memcpy(sealed, data, size);
    seal(sealed, size);
    read_copy(sealed, size);
    free(sealed);
    return 0;
}
