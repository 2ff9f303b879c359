#include "plan_companion.h"

#include "plan_add.h"
#include "plan_formats.h"
#include "plan_unpack.h"

enum {
    NARROW_TILE = 16,
    NARROWEST_TILE = 8, /* twice as many blocks of threads, each of which gathers its keys anew */
    MOST_HEADS_OF_NARROWEST = 16,
    MOST_PERCENT_READ = 125, /* of quantised keys, which each tile dequantises anew */
    MOST_PERCENT_COPIED = 250
};

static int32_t tile_of(const struct gen_spec *spec)
{
    return spec->h_q <= MOST_HEADS_OF_NARROWEST ? NARROWEST_TILE : NARROW_TILE;
}

/* A batch-invariant kernel's bits must not hang on the batch, and another tile adds in another order. */
void gen_plan_add_companion(const struct gen_spec *spec, struct gen_plan *plan)
{
    const int32_t tile = tile_of(spec);
    const bool reads = gen_plan_dequantises(spec);
    if (spec->batch_invariant || spec->tile_heads > 0 || number(plan, "block_heads") <= tile)
        return;
    plan->companion = (struct gen_companion){
        .tile_heads = tile,
        .head_blocks = (spec->h_q + tile - 1) / tile,
        .most_cells_percent = reads ? MOST_PERCENT_READ : MOST_PERCENT_COPIED,
        .reason =
            reads ? "H200, 2026-11-30, 64 heads: at 121 % v4 + v4 took 12.1 us, and 12.95 in tiles of 64; at 388 % v4 "
                    "took 16, and 11.4"
                  : "H200, 2026-11-30, 64 heads: at 212 % bf16 took 11.7 us, and 14.9 in tiles of 64"};
}

void gen_companion_spec(const struct gen_spec *spec, const struct gen_plan *plan, struct gen_spec *out)
{
    *out = *spec;
    out->tile_heads = plan->companion.tile_heads;
    if (plan->unpack.variant > 0)
        gen_unpack_spec(out);
}

bool gen_has_companion(const struct gen_plan *plan)
{
    return plan->companion.tile_heads > 0 || plan->unpack.variant > 0;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most_cells(const struct gen_companion *companion, int32_t sm_count)
{
    return (int64_t)sm_count * companion->most_cells_percent / 100;
}

/* An item without keys counts as one of a block. */
bool gen_companion_takes(const struct gen_companion *companion, int64_t tokens, const int64_t topk[2], int32_t sm_count)
{
    int64_t key_blocks = 0;
    for (int c = 0; c < 2; c++)
        key_blocks += (topk[c] + 63) / 64;
    return companion->tile_heads > 0 &&
           tokens * companion->head_blocks * (key_blocks > 0 ? key_blocks : 1) <= most_cells(companion, sm_count);
}

/* Sharing takes no more for fewer tokens, keys or multiprocessors, so that what the largest call needs is enough. That
 * has no more tokens, and in neither list more blocks of keys, than cells are taken. */
int64_t gen_companion_workspace(const struct gen_companion *companion, const struct gen_decode *decode, int64_t tokens,
                                const int64_t topk[2], int32_t sm_count)
{
    const int64_t cells = most_cells(companion, sm_count);
    const int64_t most_topk[2] = {smaller(topk[0], 64 * cells), smaller(topk[1], 64 * cells)};
    struct gen_decode_share share = {0};
    if (companion->tile_heads == 0)
        return 0;
    gen_decode_make(decode, smaller(tokens, cells / companion->head_blocks), most_topk, sm_count, &share);
    return gen_decode_workspace(&share);
}
