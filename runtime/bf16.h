/* bfloat16 on the host: the upper half of a float32. */
#ifndef SMLA_RUNTIME_BF16_H
#define SMLA_RUNTIME_BF16_H

#include <stdint.h>
#include <string.h>

static inline float bf16_to_float(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Rounds to nearest even; a NaN stays a NaN (quiet), whatever its payload. */
static inline uint16_t bf16_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16) | 0x40u);
    bits += 0x7fffu + ((bits >> 16) & 1u);
    return (uint16_t)(bits >> 16);
}

#endif
