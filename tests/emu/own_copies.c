/* Checks of the kernels that move: tensor and bulk copies, clusters, cp.async. */
#include "own_checks.h"

#include <string.h>

#include "own_device.h"

static void fill(float *values, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++)
        values[i] = own_sixteenth(&seed);
}

/* ---- tma_reduce ---- */

enum { SIZE_X = 20, SIZE_Y = 10, SIZE_Z = 3, ALL = SIZE_X * SIZE_Y * SIZE_Z };
enum { GRID_X = 3, GRID_Y = 3, GRID_Z = 2, BLOCKS = GRID_X * GRID_Y * GRID_Z, BOX = 8 * 4 * 2 };

/* 0 outside. */
static double at_point(const float *in, int x, int y, int z)
{
    const bool inside = x >= 0 && x < SIZE_X && y >= 0 && y < SIZE_Y && z >= 0 && z < SIZE_Z;
    return inside ? (double)in[x + SIZE_X * (y + SIZE_Y * z)] : 0;
}

static void check_flat(const float *in, const float *flat)
{
    for (int i = 0; i < BLOCKS * BOX; i++) {
        const int block = i / BOX, x = 8 * (block % GRID_X) + i % 8, y = 4 * (block / GRID_X % GRID_Y) + i / 8 % 4,
                  z = 2 * (block / GRID_X / GRID_Y) + i % BOX / 32;
        must_be_near((double)flat[i], at_point(in, x - 4, y - 2, z - 1), 0, "flat", (size_t)i);
    }
}

void check_tma_reduce(void)
{
    static float in[ALL], out[ALL], sum[ALL], flat[BLOCKS * BOX];
    uint32_t counts[8];
    const uint64_t sizes[3] = {SIZE_X, SIZE_Y, SIZE_Z};
    const uint32_t box[3] = {8, 4, 2};
    fill(in, ALL, 1);
    fill(sum, ALL, 2);
    uint64_t out_at = own_zeros(sizeof(out)), sum_at = own_upload(sum, sizeof(sum)), flat_at = own_zeros(sizeof(flat)),
             counts_at = own_zeros(sizeof(counts));
    struct own_map in_map = own_tensor(own_upload(in, sizeof(in)), OWN_F32, 3, sizes, box, 0);
    struct own_map out_map = own_tensor(out_at, OWN_F32, 3, sizes, box, 0);
    struct own_map sum_map = own_tensor(sum_at, OWN_F32, 3, sizes, box, 0);
    own_start(&(struct own_launch){"tma_reduce", {GRID_X, GRID_Y, GRID_Z}, 32, 520, 0, false}, &in_map, &out_map,
              &sum_map, &flat_at, &counts_at, NULL);
    static float sum_after[ALL];
    own_download(out, out_at, sizeof(out));
    own_download(sum_after, sum_at, sizeof(sum_after));
    own_download(flat, flat_at, sizeof(flat));
    own_download(counts, counts_at, sizeof(counts));
    for (size_t i = 0; i < ALL; i++) {
        const int x = (int)i % SIZE_X, y = (int)i / SIZE_X % SIZE_Y, z = (int)i / SIZE_X / SIZE_Y;
        const double moved = at_point(in, x - 4, y - 2, z - 1);
        must_be_near((double)out[i], moved, 0, "out", i);
        must_be_near((double)sum_after[i], (double)sum[i] + 2 * moved, 1e-6, "sum", i);
    }
    for (size_t i = 0; i < 8; i++)
        must_be_near(counts[i], (double)(i * BLOCKS), 0, "counts", i);
    check_flat(in, flat);
}

/* ---- cluster_exchange ---- */

enum { EXCHANGE_BLOCKS = 8, EXCHANGE_THREADS = 64, NUMBERS = EXCHANGE_BLOCKS * EXCHANGE_THREADS };

static uint32_t number_of(const uint32_t *in, size_t cluster, size_t size, size_t rank, size_t i)
{
    return in[(cluster * size + rank % size) * EXCHANGE_THREADS + i];
}

static void check_exchange(unsigned int size)
{
    uint32_t in[NUMBERS], sum[NUMBERS], left[NUMBERS], right[NUMBERS], total[EXCHANGE_BLOCKS], seed = size;
    for (size_t i = 0; i < NUMBERS; i++)
        in[i] = own_random(&seed) % 1000;
    uint64_t in_at = own_upload(in, sizeof(in)), sum_at = own_zeros(sizeof(sum)), left_at = own_zeros(sizeof(left)),
             right_at = own_zeros(sizeof(right)), total_at = own_zeros(sizeof(total));
    own_start(&(struct own_launch){"cluster_exchange", {EXCHANGE_BLOCKS}, EXCHANGE_THREADS, 0, size, false}, &in_at,
              &sum_at, &left_at, &right_at, &total_at, NULL);
    own_download(sum, sum_at, sizeof(sum));
    own_download(left, left_at, sizeof(left));
    own_download(right, right_at, sizeof(right));
    own_download(total, total_at, sizeof(total));
    uint32_t together[EXCHANGE_BLOCKS] = {0};
    for (size_t at = 0; at < NUMBERS; at++) {
        const size_t block = at / EXCHANGE_THREADS, cluster = block / size, rank = block % size,
                     i = at % EXCHANGE_THREADS;
        uint32_t expected = 0;
        for (size_t other = 0; other < size; other++)
            expected += number_of(in, cluster, size, other, i);
        must(sum[at] == expected, "sum[%zu] is %u, expected %u", at, sum[at], expected);
        must(left[at] == number_of(in, cluster, size, rank + size - 1, i), "left[%zu] is %u", at, left[at]);
        must(right[at] == number_of(in, cluster, size, rank + 1, i), "right[%zu] is %u", at, right[at]);
        together[cluster] += in[at];
    }
    for (size_t cluster = 0; cluster < EXCHANGE_BLOCKS / size; cluster++)
        must(total[cluster] == together[cluster], "total[%zu] is %u", cluster, total[cluster]);
}

void check_cluster_exchange(void)
{
    check_exchange(2);
    check_exchange(4);
}

/* ---- cluster_multicast ---- */

enum { TILES = 5, CLUSTERS = 2, ROWS = CLUSTERS * TILES * 32 };

void check_cluster_multicast(void)
{
    static float in[ROWS * 32], weight[2 * CLUSTERS * 32], out[2 * CLUSTERS * 32];
    uint32_t tiles = TILES;
    fill(in, ROWS * 32, 1);
    fill(weight, 2 * CLUSTERS * 32, 2);
    struct own_map map =
        own_tensor(own_upload(in, sizeof(in)), OWN_F32, 2, (const uint64_t[]){32, ROWS}, (const uint32_t[]){32, 16}, 0);
    uint64_t weight_at = own_upload(weight, sizeof(weight)), out_at = own_zeros(sizeof(out));
    own_start(&(struct own_launch){"cluster_multicast", {2 * CLUSTERS}, 32, 2 * 32 * 32 * 4 + 32, 2, false}, &map,
              &weight_at, &out_at, &tiles, NULL);
    own_download(out, out_at, sizeof(out));
    for (size_t i = 0; i < 2 * CLUSTERS * 32; i++) {
        const size_t block = i / 32, first = block / 2 * TILES * 32;
        double sum = 0;
        for (size_t row = 0; row < TILES * 32; row++)
            sum += (double)weight[block * 32 + row % 32] * (double)in[(first + row) * 32 + i % 32];
        must_be_near((double)out[i], sum, 1e-4, "out", i);
    }
}

/* ---- cp_async ---- */

enum { COUNT = 1000 };

void check_cp_async(void)
{
    static float wide[COUNT * 4], middle[COUNT * 2], narrow[COUNT], out[COUNT];
    uint32_t count = COUNT;
    fill(wide, COUNT * 4, 1);
    fill(middle, COUNT * 2, 2);
    fill(narrow, COUNT, 3);
    uint64_t wide_at = own_upload(wide, sizeof(wide)), middle_at = own_upload(middle, sizeof(middle)),
             narrow_at = own_upload(narrow, sizeof(narrow)), out_at = own_zeros(sizeof(out));
    own_start(&(struct own_launch){"cp_async", {1}, 128, 0, 0, false}, &wide_at, &middle_at, &narrow_at, &out_at,
              &count, NULL);
    own_download(out, out_at, sizeof(out));
    for (size_t i = 0; i < COUNT; i++) {
        double sum = (double)narrow[i];
        for (size_t k = 0; k < 4; k++)
            sum += (double)wide[4 * i + k] + (k < 2 ? (double)middle[2 * i + k] : 0);
        must_be_near((double)out[i], sum, 1e-5, "out", i);
    }
}

/* ---- tensor_map_made ---- */

enum { SIDE = 64, MADE_BLOCKS = SIDE / 16 };

/* The kernel makes the first map of each block, and turns the second, of `in`, into one of `out`. */
void check_tensor_map_made(void)
{
    static float in[SIDE * SIDE], out[SIDE * SIDE];
    static struct own_map maps[2 * MADE_BLOCKS];
    fill(in, SIDE * SIDE, 1);
    uint64_t in_at = own_upload(in, sizeof(in)), out_at = own_zeros(sizeof(out));
    for (size_t block = 0; block < MADE_BLOCKS; block++)
        maps[2 * block + 1] =
            own_tensor(in_at, OWN_F32, 2, (const uint64_t[]){SIDE, SIDE}, (const uint32_t[]){16, 16}, 0);
    uint64_t maps_at = own_upload(maps, sizeof(maps));
    own_start(&(struct own_launch){"tensor_map_made", {MADE_BLOCKS}, 32, 16 * 16 * 4 + 128 + 8, 0, false}, &in_at,
              &out_at, &maps_at, NULL);
    own_download(out, out_at, sizeof(out));
    for (size_t i = 0; i < SIDE * SIDE; i++)
        must_be_near((double)out[i], (double)in[i] + 1, 1e-6, "out", i);
}
