/* Times, what many of them come to, and random numbers. */
#ifndef SMLA_TOOLS_BENCH_NUMBERS_H
#define SMLA_TOOLS_BENCH_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

double bench_now_ns(void);

/* For qsort of doubles. */
int bench_by_value(const void *left, const void *right);

/* Of samples: the middle, the ends, and where the first and the last tenth end. */
struct bench_spread {
    double median, min, max, p10, p90;
    size_t count; /* 0: nothing was measured, and the rest is 0 */
};

/* Sorts the samples. */
struct bench_spread bench_spread_of(double *samples, size_t count);

/* splitmix64 (Steele, Lea, Flood 2014): the same state gives the same numbers anywhere. */
static inline uint64_t bench_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* In [0, count), count <= 2^32. */
static inline int64_t bench_random_below(uint64_t *state, int64_t count)
{
    return (int64_t)((bench_random(state) >> 32) * (uint64_t)count >> 32);
}

/* Fills with bf16 of a normal distribution, variance 1, at a gigabyte a second or so. */
void bench_random_bf16(uint64_t *state, uint16_t *out, size_t count);

#endif
