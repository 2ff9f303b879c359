/* BLAKE2b-256, from libb2. Identity of content, not protection against who can write the file. */
#ifndef SMLA_RUNTIME_DIGEST_H
#define SMLA_RUNTIME_DIGEST_H

#include <stddef.h>
#include <stdint.h>

enum { RT_DIGEST_BYTES = 32, RT_DIGEST_HEX = 2 * RT_DIGEST_BYTES + 1 };

struct rt_digest {
    uint8_t bytes[RT_DIGEST_BYTES];
};

void rt_digest_of(const void *data, size_t size_bytes, struct rt_digest *out);
void rt_digest_hex(const struct rt_digest *digest, char out[RT_DIGEST_HEX]);

#endif
