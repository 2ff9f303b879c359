/* Conversions, and arithmetic on zeros, subnormals, infinities and NaNs. */
#include "probes.h"

static const uint32_t specials[] = {0,          0x80000000, 1,          0x80000001, 0x00000100, 0x007fffff,
                                    0x807fffff, 0x00800000, 0x80800000, 0x00800001, 0x3f800000, 0xbf800000,
                                    0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000,
                                    0x7f800001, 0xff812345, 0x7fffffff, 0x3f800001, 0x33800000, 0x5f000000};

/* For the approximations: also powers of two and four, and where ex2 becomes subnormal, zero and infinite. */
static const uint32_t exact[] = {0x00000002, 0x00000008, 0x00200000, 0x00400000, 0x01000000, 0x7f000000,
                                 0x7e800000, 0x40800000, 0xc0800000, 0xc2fc0000, 0xc2fe0000, 0xc3000000,
                                 0xc3150000, 0xc3160000, 0xc3170000, 0x43000000, 0x42fe0000, 0x3f000000};

static const uint32_t half_specials[] = {0x00000000, 0x80008000, 0x00010001, 0x80018001, 0x007f03ff, 0x00800400,
                                         0x3f803c00, 0xbf80bc00, 0x7f7f7bff, 0xff7ffbff, 0x7f807c00, 0xff80fc00,
                                         0x7fc07e00, 0xffc0fe00, 0x7f817c01, 0xffd5fe55, 0x3dcd2e66, 0x33801400};

#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof(*(array))))

void number_probes(void)
{
    const uint32_t count = COUNT(specials), halves = COUNT(half_specials);
    uint32_t inputs[COUNT(specials) + COUNT(exact)];
    memcpy(inputs, specials, sizeof(specials));
    inputs[21] = 0x40000000; /* lg2 beside 1 is no exact value */
    memcpy(inputs + count, exact, sizeof(exact));
    run("conversions", "cvt.exact", 128, inputs, 64, 0, 0, 0, OUT_BYTES);
    run("conversions", "cvt.ties", 128, inputs, 64, 0x8000, 0, 0, OUT_BYTES);
    run("conversions", "cvt.near", 128, inputs, 64, 0x8001, 0, 0, OUT_BYTES);
    run("narrow_conversions", "cvt.narrow", 128, inputs, 64, 0, 0, 0, OUT_BYTES);
    run("approximations", "approximations", 32, inputs, sizeof(inputs), COUNT(inputs), 0, 0, COUNT(inputs) * 64);
    run("pairs", "pairs.f32", 128, specials, sizeof(specials), count, 0, 0, count * count * 96);
    run("half_pairs", "pairs.f16.bf16", 128, half_specials, sizeof(half_specials), halves, 0, 0, halves * halves * 64);
}

void absent_lane_probe(void)
{
    run("absent_lane", "shfl.absent", 32, specials, 64, 0, 0, 0, 128);
}
