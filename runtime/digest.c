#include "digest.h"

#include <blake2.h>

void rt_digest_of(const void *data, size_t size_bytes, struct rt_digest *out)
{
    /* Fails only on lengths that are wrong at compile time and on NULL data, which an empty input may come with. */
    blake2b(out->bytes, data != NULL ? data : "", NULL, RT_DIGEST_BYTES, size_bytes, 0);
}

void rt_digest_hex(const struct rt_digest *digest, char out[RT_DIGEST_HEX])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < RT_DIGEST_BYTES; i++) {
        out[2 * i] = digits[digest->bytes[i] >> 4];
        out[2 * i + 1] = digits[digest->bytes[i] & 15];
    }
    out[RT_DIGEST_HEX - 1] = '\0';
}
