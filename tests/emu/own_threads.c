/* Checks of the kernels about threads: votes and reductions, atomics, roles, dependent launches; and pairs. */
#include "own_checks.h"

#include <math.h>
#include <string.h>

#include "own_device.h"

/* ---- reductions ---- */

enum { RED_BLOCKS = 3, RED_THREADS = 256 };

/* reductions.cu's */
struct found {
    uint32_t sum, maximum, odd, any_big, all_small, last_prefix, same_as_zero, alike, leaders, ballot, smallest;
    int32_t least_signed;
};

static struct found find(const uint32_t *in)
{
    struct found all = {.all_small = 1, .alike = 1, .leaders = RED_THREADS / 32, .smallest = UINT32_MAX};
    for (int i = 0; i < RED_THREADS; i++) {
        const int32_t shifted = (int32_t)(in[i] << 8);
        all.sum += in[i];
        all.maximum = in[i] > all.maximum ? in[i] : all.maximum;
        all.smallest = in[i] < all.smallest ? in[i] : all.smallest;
        all.least_signed = shifted < all.least_signed ? shifted : all.least_signed;
        all.odd += in[i] % 2;
        all.any_big |= in[i] > 1000000;
        all.all_small &= in[i] <= 1000000;
        all.same_as_zero += i < 32 && in[i] == in[0];
        all.ballot |= i < 32 ? in[i] % 2 << (31 - i) : 0;
        all.alike &= i / 32 != 1 || in[i] == in[32];
    }
    all.last_prefix = all.sum;
    return all;
}

void check_reductions(void)
{
    uint32_t in[RED_BLOCKS * RED_THREADS], seed = 1;
    struct found out[RED_BLOCKS];
    for (int i = 0; i < RED_BLOCKS * RED_THREADS; i++)
        in[i] = own_random(&seed) % (i < RED_THREADS ? 1 << 24 : 20);
    for (int i = 0; i < 32; i++)
        in[RED_THREADS + 32 + i] = 9; /* block 1, warp 1 */
    uint64_t in_at = own_upload(in, sizeof(in)), out_at = own_zeros(sizeof(out));
    own_start(&(struct own_launch){"reductions", {RED_BLOCKS}, RED_THREADS, 0, 0, false}, &in_at, &out_at, NULL);
    own_download(out, out_at, sizeof(out));
    for (int block = 0; block < RED_BLOCKS; block++) {
        const struct found expected = find(in + block * RED_THREADS);
        uint32_t got[12], want[12];
        memcpy(got, &out[block], sizeof(got));
        memcpy(want, &expected, sizeof(want));
        for (int i = 0; i < 12; i++)
            must(got[i] == want[i], "block %d, word %d is 0x%x, expected 0x%x", block, i, got[i], want[i]);
    }
}

/* ---- atomics ---- */

enum { AT_BLOCKS = 6, AT_THREADS = 128, AT_TILES = 17, BINS = 16 };

/* atomics.cu's */
struct results {
    uint32_t bins[BINS];
    float largest;
    uint32_t ticket, next_tile, total;
};

void check_atomics(void)
{
    static uint32_t in[AT_TILES * AT_THREADS], owner[AT_TILES];
    struct results all, expected = {0};
    uint32_t seed = 4, tiles = AT_TILES;
    for (int i = 0; i < AT_TILES * AT_THREADS; i++) {
        in[i] = own_random(&seed) % 100000;
        expected.bins[in[i] % BINS]++;
        expected.largest = fmaxf(expected.largest, (float)in[i]);
        expected.total += in[i];
    }
    uint64_t in_at = own_upload(in, sizeof(in)), all_at = own_zeros(sizeof(all)), partial_at = own_zeros(AT_BLOCKS * 4),
             owner_at = own_zeros(sizeof(owner));
    own_start(&(struct own_launch){"atomics", {AT_BLOCKS}, AT_THREADS, 0, 0, false}, &in_at, &all_at, &partial_at,
              &owner_at, &tiles, NULL);
    own_download(&all, all_at, sizeof(all));
    own_download(owner, owner_at, sizeof(owner));
    for (int i = 0; i < BINS; i++)
        must(all.bins[i] == expected.bins[i], "bin %d is %u, expected %u", i, all.bins[i], expected.bins[i]);
    for (int i = 0; i < AT_TILES; i++)
        must(owner[i] == 1, "tile %d was taken %u times", i, owner[i]);
    must(all.largest == expected.largest, "largest is %g", (double)all.largest);
    must(all.total == expected.total, "total is %u, expected %u", all.total, expected.total);
    must(all.ticket == 0 && all.next_tile == AT_TILES + AT_BLOCKS, "counters end at %u and %u", all.ticket,
         all.next_tile);
}

/* ---- roles ---- */

enum { ROLE_TILES = 11, ROLE_NUMBERS = ROLE_TILES * 128 };

void check_roles(void)
{
    static float in[ROLE_NUMBERS], out[ROLE_NUMBERS];
    uint32_t seed = 1, tiles = ROLE_TILES;
    float scale = 1.5f;
    for (int i = 0; i < ROLE_NUMBERS; i++)
        in[i] = own_sixteenth(&seed);
    uint64_t in_at = own_upload(in, sizeof(in)), out_at = own_zeros(sizeof(out));
    own_start(&(struct own_launch){"roles", {2}, 384, 0, 0, false}, &in_at, &out_at, &scale, &tiles, NULL);
    own_download(out, out_at, sizeof(out));
    for (size_t i = 0; i < ROLE_NUMBERS; i++)
        must_be_near((double)out[i], 1.5 * (double)in[i] + (double)in[i ^ 1], 1e-6, "out", i);
}

/* ---- packed ---- */

enum { PAIRS = 64 };

static void expect_pair(double a, double b, double c, double expected[8])
{
    const double sum = a * b + c;
    const double values[8] = {sum, fmax(sum, 0), a + b, a - b, a * b, fmax(a, b), fmin(a, b), -a};
    memcpy(expected, values, sizeof(values));
}

static void check_pairs(const char *kernel, uint16_t (*convert)(float), float (*back)(uint16_t), double precision)
{
    static uint16_t in[3][2 * PAIRS], out[PAIRS][8][2];
    uint32_t seed = 1;
    uint64_t at[3], out_at = own_zeros(sizeof(out));
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 2 * PAIRS; i++)
            in[k][i] = convert(own_sixteenth(&seed));
        at[k] = own_upload(in[k], sizeof(in[k]));
    }
    own_start(&(struct own_launch){kernel, {2}, PAIRS / 2, 0, 0, false}, &out_at, &at[0], &at[1], &at[2], NULL);
    own_download(out, out_at, sizeof(out));
    for (size_t i = 0; i < 2 * PAIRS; i++) {
        double expected[8];
        expect_pair((double)back(in[0][i]), (double)back(in[1][i]), (double)back(in[2][i]), expected);
        for (size_t k = 0; k < 8; k++)
            must_be_near((double)back(out[i / 2][k][i % 2]), expected[k], fabs(expected[k]) * precision, kernel,
                         8 * i + k);
    }
}

/* The nearest number of 1 + fraction_bits bits (a tie to the even one), at most the largest; subnormals below. */
static double round_to(double value, int fraction_bits, int least_exponent, double largest)
{
    int exponent;
    frexp(value, &exponent); /* value is below 2^exponent */
    const int unit = (exponent - 1 < least_exponent ? least_exponent : exponent - 1) - fraction_bits;
    return copysign(fmin(fabs(ldexp(nearbyint(ldexp(value, -unit)), unit)), largest), value);
}

static void check_eight_bits(void)
{
    static float in[PAIRS], out[PAIRS][4];
    uint32_t seed = 2;
    for (int i = 0; i < PAIRS; i++)
        in[i] = ldexpf((float)(own_random(&seed) % 4096) - 2048, (int)(own_random(&seed) % 24) - 18);
    uint64_t in_at = own_upload(in, sizeof(in)), out_at = own_zeros(sizeof(out));
    own_start(&(struct own_launch){"eight_bits", {2}, PAIRS / 2, 0, 0, false}, &out_at, &in_at, NULL);
    own_download(out, out_at, sizeof(out));
    for (size_t i = 0; i < PAIRS; i++) {
        const double e4m3 = round_to((double)in[i], 3, -6, 448), e5m2 = round_to((double)in[i], 2, -14, 57344);
        must_be_near((double)out[i][0], e4m3, 0, "e4m3", i);
        must_be_near((double)out[i][1], -e4m3, 0, "e4m3, upper", i);
        must_be_near((double)out[i][2], e5m2, 0, "e5m2", i);
        must_be_near((double)out[i][3], -e5m2, 0, "e5m2, upper", i);
    }
}

void check_packed(void)
{
    check_pairs("packed_f16", own_f16, own_of_f16, 1.0 / 2048);
    check_pairs("packed_bf16", own_bf16, own_of_bf16, 1.0 / 256);
    check_eight_bits();
}

/* ---- dependents ---- */

enum { DEPENDENT = 512 };

void check_dependents(void)
{
    static float in[DEPENDENT], out[DEPENDENT];
    uint32_t seed = 1;
    for (int i = 0; i < DEPENDENT; i++)
        in[i] = own_sixteenth(&seed);
    uint64_t in_at = own_upload(in, sizeof(in)), middle_at = own_zeros(sizeof(in)), out_at = own_zeros(sizeof(out));
    own_start(&(struct own_launch){"first", {4}, 128, 0, 0, false}, &in_at, &middle_at, NULL);
    own_start(&(struct own_launch){"second", {4}, 128, 0, 0, true}, &middle_at, &out_at, NULL);
    own_download(out, out_at, sizeof(out));
    for (size_t i = 0; i < DEPENDENT; i++)
        must_be_near((double)out[i], 2 * ((double)in[i] + 1), 0, "out", i);
}
