/* The argument checks of cuTensorMapEncodeTiled. */
#include "tensors.h"

/* More of them: how large a box, which addresses, types and interleavings. */
struct request {
    int type;
    uint32_t rank;
    uint64_t address; /* 0: a tensor's; else that */
    uint32_t box[3];
    int interleave, swizzle, fill;
    uint64_t stride; /* 0: as it should be */
};

static const struct request requests[] = {
    {F64, 2, 0, {256, 1}, 0, 0, 0, 0},
    {F64, 2, 0, {256, 64}, 0, 0, 0, 0},
    {F64, 2, 0, {256, 110}, 0, 0, 0, 0},
    {F64, 2, 0, {256, 111}, 0, 0, 0, 0},
    {F64, 2, 0, {256, 112}, 0, 0, 0, 0},
    {F64, 2, 0, {256, 113}, 0, 0, 0, 0},
    {F64, 2, 0, {256, 114}, 0, 0, 0, 0},
    {F64, 2, 0, {256, 115}, 0, 0, 0, 0},
    {F64, 2, 0, {256, 127}, 0, 0, 0, 0},
    {F64, 2, 0, {256, 128}, 0, 0, 0, 0},
    {F64, 2, 0, {256, 129}, 0, 0, 0, 0},
    {F64, 2, 0, {256, 192}, 0, 0, 0, 0},
    {F64, 2, 0, {256, 255}, 0, 0, 0, 0},
    {U8, 3, 0, {256, 256, 3}, 0, 0, 0, 0},
    {U8, 3, 0, {256, 256, 4}, 0, 0, 0, 0},
    {U8, 3, 0, {256, 256, 8}, 0, 0, 0, 0},
    {BF16, 3, 0, {16, 256, 32}, 0, 3, 0, 0},
    {BF16, 3, 0, {8, 256, 8}, 0, 3, 0, 0},
    {BF16, 2, (uint64_t)1 << 47, {64, 8}, 0, 3, 0, 0},
    {BF16, 2, (uint64_t)1 << 48, {64, 8}, 0, 3, 0, 0},
    {BF16, 2, (uint64_t)1 << 49, {64, 8}, 0, 3, 0, 0},
    {BF16, 2, (uint64_t)1 << 52, {64, 8}, 0, 3, 0, 0},
    {BF16, 2, (uint64_t)1 << 56, {64, 8}, 0, 3, 0, 0},
    {BF16, 2, ((uint64_t)1 << 57) - 16, {64, 8}, 0, 3, 0, 0},
    {BF16, 2, (uint64_t)1 << 57, {64, 8}, 0, 3, 0, 0},
    {BF16, 2, (uint64_t)1 << 60, {64, 8}, 0, 3, 0, 0},
    {BF16, 2, (uint64_t)1 << 63, {64, 8}, 0, 3, 0, 0},
    {13, 2, 0, {128, 8}, 0, 0, 0, 0},
    {13, 2, 0, {64, 8}, 0, 0, 0, 0},
    {14, 2, 0, {128, 8}, 0, 0, 0, 0},
    {14, 2, 0, {128, 8}, 0, 3, 0, 0},
    {15, 2, 0, {128, 8}, 0, 0, 0, 0},
    {15, 2, 0, {128, 8}, 0, 3, 0, 0},
    {BF16, 2, 0, {64, 8}, 0, 5, 0, 0},
    {BF16, 3, 0, {8, 8, 1}, 1, 2, 0, 0},
    {BF16, 3, 0, {8, 8, 1}, 1, 3, 0, 0},
    {BF16, 3, 0, {16, 8, 1}, 1, 0, 0, 0},
    {BF16, 3, 0, {256, 8, 1}, 1, 0, 0, 0},
    {BF16, 3, 0, {12, 8, 1}, 1, 0, 0, 0},
    {BF16, 3, 0, {16, 8, 1}, 2, 2, 0, 0},
    {BF16, 3, 0, {16, 8, 1}, 2, 3, 0, 0},
    {BF16, 3, 0, {8, 8, 1}, 2, 1, 0, 0},
    {BF16, 3, 0, {64, 8, 1}, 2, 1, 0, 0},
    {BF16, 2, 0, {16, 8}, 2, 1, 0, 0},
    {BF16, 2, 0, {8, 8}, 1, 0, 0, 0},
    {BF16, 3, 0, {16, 8, 1}, 2, 1, 0, 1296},
    {BF16, 3, 0, {16, 8, 1}, 2, 1, 0, 1312},
    {F32_FTZ, 2, 0, {32, 8}, 0, 3, 1, 0},
    {U64, 2, 0, {16, 8}, 0, 3, 1, 0},
    {U16, 2, 0, {64, 8}, 0, 3, 1, 0},
    {S32, 2, 0, {32, 8}, 0, 3, 1, 0},
    {U8, 2, 0, {128, 8}, 0, 3, 0, 0},
    {F64, 2, 0, {17, 8}, 0, 3, 0, 0},
    {F64, 2, 0, {1, 8}, 0, 0, 0, 0},
};

static void more_encoder_probes(void)
{
    uint8_t answers[sizeof(requests) / sizeof(*requests)];
    for (size_t i = 0; i < sizeof(answers); i++) {
        const struct request *r = &requests[i];
        const uint64_t row = r->stride ? r->stride : 8192, dims[3] = {640, 300, 40}, strides[2] = {row, row * 300};
        const uint32_t steps[3] = {1, 1, 1};
        struct tensor_map map;
        answers[i] = (uint8_t)cu.encode(&map, r->type, r->rank, (void *)(uintptr_t)(r->address ? r->address : image),
                                        dims, strides, r->box, steps, r->interleave, r->swizzle, 0, r->fill);
        fprintf(stderr, "%d", answers[i]);
    }
    fprintf(stderr, " more of the encoder\n");
    record("tensor.encode.more", answers, sizeof(answers));
}

/* What the driver answers to arguments at the edges: one change each to a map that is right. */
void encoder_probe(void)
{
    enum { CASES = 64 };
    static const uint64_t most = (uint64_t)1 << 32, far = (uint64_t)1 << 40;
    uint8_t answers[CASES];
    for (int i = 0; i < CASES; i++) {
        uint64_t dims[6] = {640, 100, 5, 5, 5, 5}, strides[6] = {1280, 128000, 640000, 3200000, 16000000, 80000000},
                 start = image;
        uint32_t box[6] = {64, 8, 1, 1, 1, 1}, steps[6] = {1, 1, 1, 1, 1, 1}, rank = 2;
        int swizzle = 3, type = 9, fill = 0, interleave = 0, promotion = 0;
        bool no_strides = false;
        struct tensor_map maps[2] = {{{0}}, {{0}}};
        switch (i) {
        case 1:
            start += 8;
            break;
        case 2:
            start += 16;
            break;
        case 3:
            dims[1] = 0;
            break;
        case 4:
            dims[1] = most;
            break;
        case 5:
            dims[1] = most + 1;
            break;
        case 6:
            strides[0] = 1288;
            break;
        case 7:
            strides[0] = far;
            break;
        case 8:
            strides[0] = far - 16;
            break;
        case 9:
            box[1] = 0;
            break;
        case 10:
            box[1] = 256;
            break;
        case 11:
            box[1] = 257;
            break;
        case 12:
            box[0] = 4;
            break;
        case 13:
            box[0] = 72;
            break;
        case 14:
            box[0] = 56;
            break;
        case 15:
            steps[1] = 0;
            break;
        case 16:
            steps[1] = 8;
            break;
        case 17:
            steps[1] = 9;
            break;
        case 18:
            steps[0] = 0;
            break;
        case 19:
            rank = 0;
            break;
        case 20:
            fill = 1;
            break;
        case 21:
            fill = 1, type = 1;
            break;
        case 22:
            interleave = 1;
            break;
        case 23:
            strides[0] = 0;
            break;
        case 24:
            steps[0] = 9;
            break;
        case 25:
            steps[0] = 2;
            break;
        case 26:
            rank = 6;
            break;
        case 27:
            dims[0] = 0;
            break;
        case 28:
            dims[0] = most + 1;
            break;
        case 29:
            box[0] = 0;
            break;
        case 30:
            box[0] = 257, type = 0, swizzle = 0;
            break;
        case 31:
            box[0] = 256, swizzle = 0;
            break;
        case 32:
            box[0] = 12;
            break;
        case 33:
            box[0] = 12, swizzle = 0;
            break;
        case 34:
            strides[0] = 16; /* less than a row */
            break;
        case 35:
            start = 0;
            break;
        case 36:
            swizzle = 7;
            break;
        case 37:
            swizzle = -1;
            break;
        case 38:
            promotion = 3;
            break;
        case 39:
            promotion = 4;
            break;
        case 40:
            promotion = -1;
            break;
        case 41:
            fill = 2;
            break;
        case 42:
            fill = 1, type = 0, box[0] = 128;
            break;
        case 43:
            fill = 1, type = 2, box[0] = 32;
            break;
        case 44:
            type = 16;
            break;
        case 45:
            type = -1;
            break;
        case 46:
            interleave = 3;
            break;
        case 47:
            interleave = -1;
            break;
        case 48:
            type = 12, box[0] = 32;
            break;
        case 49:
            rank = 1, no_strides = true;
            break;
        case 50:
            no_strides = true;
            break;
        case 51:
            box[0] = 256, box[1] = 256, swizzle = 0; /* 128 KiB, less than shared memory */
            break;
        case 52:
            type = 8, box[0] = 256, box[1] = 256, swizzle = 0; /* 512 KiB */
            break;
        case 53:
            interleave = 1, rank = 3, swizzle = 0, box[0] = 8;
            break;
        case 54:
            interleave = 2, rank = 3, swizzle = 0, box[0] = 16;
            break;
        case 55:
            interleave = 2, rank = 3, swizzle = 1, box[0] = 16, strides[0] = 1312, strides[1] = 131200;
            break;
        case 56:
            interleave = 1, rank = 3, swizzle = 0, box[0] = 8, steps[0] = 0;
            break;
        case 57:
            interleave = 1, rank = 3, swizzle = 1, box[0] = 8;
            break;
        case 58:
            start = 16 * ((uint64_t)1 << 58); /* no such address */
            break;
        case 59:
            box[0] = 8;
            break;
        case 60:
            steps[1] = 3, box[1] = 2;
            break;
        case 61:
            dims[0] = 3, dims[1] = 2; /* a box larger than its tensor */
            break;
        case 62:
            swizzle = 4;
            break;
        case 63:
            swizzle = 6;
            break;
        default:
            break;
        }
        answers[i] = (uint8_t)cu.encode(maps, type, rank, (void *)(uintptr_t)start, dims, no_strides ? NULL : strides,
                                        box, steps, interleave, swizzle, promotion, fill);
    }
    for (int i = 0; i < CASES; i++)
        fprintf(stderr, "%d", answers[i]);
    fprintf(stderr, " encoder\n");
    record("tensor.encode", answers, CASES);
    more_encoder_probes();
}
