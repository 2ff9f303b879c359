#include "sized.h"

#include <string.h>

#include "bytes.h"
#include "error.h"

/* No struct of this library comes near: a larger size is an uninitialised field, not a newer caller. */
enum { MAX_STRUCT_SIZE = 1 << 16 };

/* Checks the caller's struct; *common receives how many bytes both sides know. */
static smla_status sized_check(const void *given, size_t full_size, const char *what, size_t *common)
{
    uint32_t size;

    if (given == NULL)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "%s is NULL", what);
    memcpy(&size, given, sizeof size);
    if (size < sizeof size || size > MAX_STRUCT_SIZE)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                       "%s has struct_size %u: set it to sizeof of the struct (%zu here) and zero the rest", what,
                       (unsigned)size, full_size);
    if (size > full_size && !rt_all_zero((const uint8_t *)given + full_size, size - full_size))
        return rt_fail(SMLA_ERROR_UNSUPPORTED,
                       "%s has %u bytes and sets a field past the %zu that this smla knows: use a newer smla, or leave "
                       "that field zero",
                       what, (unsigned)size, full_size);
    *common = size < full_size ? size : full_size;
    return SMLA_OK;
}

smla_status rt_sized_read(void *full, size_t full_size, const void *given, const char *what)
{
    const uint32_t size = (uint32_t)full_size;
    size_t common = 0; /* GCC 12 at -O3 does not see that it is set whenever it is used */
    const smla_status status = sized_check(given, full_size, what, &common);

    if (status != SMLA_OK)
        return status;
    memset(full, 0, full_size);
    memcpy(full, given, common);
    memcpy(full, &size, sizeof size);
    return SMLA_OK;
}

smla_status rt_sized_write(void *given, const void *full, size_t full_size)
{
    const size_t head = sizeof(uint32_t);
    size_t common = 0; /* GCC 12 at -O3 does not see that it is set whenever it is used */
    const smla_status status = sized_check(given, full_size, "the struct to fill", &common);

    if (status != SMLA_OK)
        return status;
    memcpy((uint8_t *)given + head, (const uint8_t *)full + head, common - head);
    return SMLA_OK;
}
