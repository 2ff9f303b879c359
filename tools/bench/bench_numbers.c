#include "bench_numbers.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "bf16.h"

double bench_now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int bench_by_value(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

struct bench_spread bench_spread_of(double *samples, size_t count)
{
    if (count == 0)
        return (struct bench_spread){0};
    qsort(samples, count, sizeof *samples, bench_by_value);
    const size_t tenth = (count - 1) / 10;
    return (struct bench_spread){.median = samples[count / 2],
                                 .min = samples[0],
                                 .max = samples[count - 1],
                                 .p10 = samples[tenth],
                                 .p90 = samples[count - 1 - tenth],
                                 .count = count};
}

enum { NORMALS = 1 << 14 };

/* A normal number by Box and Muller's transform. */
static float one_normal(uint64_t *state)
{
    const double u = ((double)(bench_random(state) >> 11) + 1) * 0x1p-53;
    const double v = (double)(bench_random(state) >> 11) * 0x1p-53;
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

/* Drawn from a table of normal numbers, four to each 64 random bits. */
void bench_random_bf16(uint64_t *state, uint16_t *out, size_t count)
{
    static uint16_t normals[NORMALS];
    if (normals[0] == 0)
        for (size_t i = 0; i < NORMALS; i++)
            normals[i] = bf16_from_float(one_normal(state));
    for (size_t i = 0; i < count; i += 4) {
        uint64_t bits = bench_random(state);
        for (size_t j = i; j < i + 4 && j < count; j++, bits >>= 16)
            out[j] = normals[bits % NORMALS];
    }
}
