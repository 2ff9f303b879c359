/* Where wgmma, ldmatrix, stmatrix and movmatrix find each element. */
#include "probes.h"

enum { ONE_HOT = 32 * 1024 };

/* ---- wgmma: which byte of shared memory is element (mn, k)? ---- */

static uint8_t window[WINDOW];

/* Each 16-bit unit a different normal f16; behind it, at ONE_HOT, B[k][n] = (k == n % 16), K-major, not swizzled. */
static void number_halves(void)
{
    memset(window, 0, WINDOW);
    for (uint32_t i = 0; i < ONE_HOT / 2; i++) {
        const uint16_t half = (uint16_t)(0x0400 + i);
        memcpy(window + 2 * i, &half, 2);
    }
    for (uint32_t n = 0; n < 64; n++) {
        const uint32_t k = n % 16;
        const uint16_t one = 0x3c00;
        memcpy(window + ONE_HOT + n / 8 * 256 + n % 8 * 16 + k / 8 * 128 + k % 8 * 2, &one, 2);
    }
}

static void number_words(void)
{
    for (uint32_t i = 0; i < WINDOW / 4; i++) {
        const uint32_t word = (0x400 + i) << 13; /* a normal tf32 */
        memcpy(window + 4 * i, &word, 4);
    }
}

static void number_bytes(int high)
{
    for (uint32_t i = 0; i < WINDOW; i++)
        window[i] = (uint8_t)(i >> (high ? 8 : 0));
}

static uint64_t descriptor(uint32_t start, uint32_t leading, uint32_t stride, int mode)
{
    return (uint64_t)(start >> 4) | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32 |
           (uint64_t)mode << 62;
}

static const uint32_t spans[] = {16, 128, 64, 32}; /* of the descriptor's swizzle modes */

/* Two sets of strides a mode, one compact, one with gaps; all stay below ONE_HOT. */
static uint64_t layout(int mode, bool mn_major, int variant)
{
    const uint32_t atom = 8 * spans[mode], start = variant & 1 ? 2048 + (mode && !mn_major ? 32 % spans[mode] : 0) : 0;
    if (!mn_major)
        return mode ? descriptor(start, 16, variant & 2 ? atom + 1024 : atom, mode)
                    : descriptor(start, variant & 2 ? 2048 : 128, variant & 2 ? 128 : 256, mode);
    return mode ? descriptor(start, variant & 2 ? 2 * atom + 1024 : 2 * atom, atom, mode)
                : descriptor(start, 128, variant & 2 ? 512 : 256, mode);
}

static void wgmma_probes(void)
{
    const uint64_t one_hot = descriptor(ONE_HOT, 128, 256, 0);
    char name[64];
    number_halves();
    for (int mode = 0; mode < 4; mode++)
        for (int mn = 0; mn < 2; mn++)
            for (int variant = 0; variant < 4; variant++) {
                const uint64_t d = layout(mode, mn, variant);
                snprintf(name, sizeof(name), "wgmma.f16.A.swizzle%d.%s.%d", mode, mn ? "mn" : "k", variant);
                run(mn ? "wgmma_mk" : "wgmma_kk", name, 128, window, WINDOW, WINDOW, d, one_hot, 64 * 64 * 4);
                snprintf(name, sizeof(name), "wgmma.f16.B.swizzle%d.%s.%d", mode, mn ? "mn" : "k", variant);
                run(mn ? "wgmma_b_mn" : "wgmma_b_k", name, 128, window, WINDOW, WINDOW, 0, d, 16 * 64 * 4);
            }
    for (int mode = 0; mode < 4; mode++)
        for (int high = 0; high < 2; high++) {
            number_bytes(high);
            snprintf(name, sizeof(name), "wgmma.u8.B.swizzle%d.k.%s", mode, high ? "high" : "low");
            run("wgmma_b_u8", name, 128, window, WINDOW, WINDOW, 0, layout(mode, false, 0), 32 * 64 * 4);
        }
    number_words();
    for (int mode = 0; mode < 4; mode++) {
        snprintf(name, sizeof(name), "wgmma.tf32.B.swizzle%d.k", mode);
        run("wgmma_b_tf32", name, 128, window, WINDOW, WINDOW, 0, layout(mode, false, 0), 8 * 64 * 4);
    }
}

static void matrix_copies(void)
{
    for (uint32_t i = 0; i < 256; i++)
        memcpy(window + 2 * i, &(uint16_t){(uint16_t)i}, 2);
    run("matrices", "ldmatrix.movmatrix.stmatrix", 32, window, 512, 0, 0, 0, 640 * 4);
}

void matrix_probes(void)
{
    wgmma_probes();
    matrix_copies();
}
