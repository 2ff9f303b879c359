/* Numbers from a state of 64 bits: the same state gives the same numbers anywhere. */
#ifndef SMLA_TESTS_GPU_RANDOM_NUMBERS_H
#define SMLA_TESTS_GPU_RANDOM_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

/* splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t random_bits(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* In [0, count). */
static inline int64_t random_below(uint64_t *state, int64_t count)
{
    return (int64_t)(random_bits(state) % (uint64_t)count);
}

static inline bool random_chance(uint64_t *state, double share)
{
    return (double)(random_bits(state) >> 11) * 0x1p-53 < share;
}

/* Nearly normal: the sum of four uniforms, variance 1. */
static inline float random_normal(uint64_t *state)
{
    const uint64_t bits = random_bits(state);
    const double sum =
        (double)(bits & 0xffff) + (double)(bits >> 16 & 0xffff) + (double)(bits >> 32 & 0xffff) + (double)(bits >> 48);
    return (float)((sum / 65536 - 2) * 1.7320508);
}

#endif
