/* Numbers by a seed, the same on every machine. */
#ifndef SMLA_TESTS_GPU_SEEDED_H
#define SMLA_TESTS_GPU_SEEDED_H

#include <stdint.h>

/* splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline double uniform(uint64_t *state)
{
    return (double)(next(state) >> 11) * 0x1p-53;
}

/* Nearly normal: the sum of four uniforms, variance 1. */
static inline float normal(uint64_t *state)
{
    const uint64_t bits = next(state);
    const double sum =
        (double)(bits & 0xffff) + (double)(bits >> 16 & 0xffff) + (double)(bits >> 32 & 0xffff) + (double)(bits >> 48);
    return (float)((sum / 65536 - 2) * 1.7320508);
}

#endif
