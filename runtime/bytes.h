/* Little-endian numbers in unaligned bytes, and bytes that must be zero. */
#ifndef SMLA_RUNTIME_BYTES_H
#define SMLA_RUNTIME_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t rt_get_le16(const uint8_t *bytes)
{
    uint16_t value;

    memcpy(&value, bytes, sizeof value);
    return le16toh(value);
}

static inline uint32_t rt_get_le32(const uint8_t *bytes)
{
    uint32_t value;

    memcpy(&value, bytes, sizeof value);
    return le32toh(value);
}

static inline uint64_t rt_get_le64(const uint8_t *bytes)
{
    uint64_t value;

    memcpy(&value, bytes, sizeof value);
    return le64toh(value);
}

static inline void rt_put_le16(uint8_t *bytes, uint16_t value)
{
    value = htole16(value);
    memcpy(bytes, &value, sizeof value);
}

static inline void rt_put_le32(uint8_t *bytes, uint32_t value)
{
    value = htole32(value);
    memcpy(bytes, &value, sizeof value);
}

static inline void rt_put_le64(uint8_t *bytes, uint64_t value)
{
    value = htole64(value);
    memcpy(bytes, &value, sizeof value);
}

static inline bool rt_all_zero(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != 0)
            return false;
    }
    return true;
}

#endif
