#include "plan_decode.h"

#include "plan_add.h"

enum {
    LEAST_PIECE_BLOCKS = 16, /* batch invariant: 1024 keys, so that what V4 reads is one piece */
    MOST_PIECES = 8,
    RUN_ELEMS = 4,        /* float32, 16 bytes */
    FEW_THREADS = 512,    /* of a multiprocessor, of those that combine: two blocks, which it holds at once */
    MOST_ALIKE = 1 << 16, /* parts that kernels divide by a multiplication */
    MOST_COST = 1 << 30   /* kernels count twice as far at most */
};

struct gen_decode gen_decode_of(const struct gen_spec *spec, const struct gen_plan *plan)
{
    return (struct gen_decode){.block_heads = number(plan, "block_heads"),
                               .head_blocks = number(plan, "head_blocks"),
                               .combine_threads = number(plan, "combine_threads"),
                               .most_runs = number(plan, "most_combine_runs"),
                               .d_v = spec->d_v,
                               .item_cost = number(plan, "item_cost_blocks"),
                               .cut_cost = number(plan, "cut_cost_blocks"),
                               .small_share = number(plan, "small_share_blocks"),
                               .small_item_cost = number(plan, "small_item_cost_blocks"),
                               .batch_invariant = spec->batch_invariant};
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* By topk alone. */
static void set_pieces(const struct gen_decode *decode, struct gen_decode_share *share)
{
    share->pieces = 1;
    share->piece_blocks = share->key_blocks > 0 ? share->key_blocks : 1;
    if (!decode->batch_invariant)
        return;
    const int64_t blocks = divide_up(share->key_blocks, MOST_PIECES);
    share->piece_blocks = blocks > LEAST_PIECE_BLOCKS ? blocks : LEAST_PIECE_BLOCKS;
    if (share->key_blocks > share->piece_blocks)
        share->pieces = divide_up(share->key_blocks, share->piece_blocks);
}

/* Whether a kernel may find that cutting pays (decode_schedule.cuh): never where an item has no more blocks of keys
 * than cutting must gain, since a share is less than an item from what whole items take. */
static bool may_cut(const struct gen_decode *decode, const struct gen_decode_share *share)
{
    return !decode->batch_invariant && share->key_blocks > decode->cut_cost;
}

/* A block of threads has at most a part that another one has begun, and one that another one goes on with; parts of a
 * batch-invariant kernel are its pieces. */
static void set_parts(const struct gen_decode *decode, int64_t sm_count, struct gen_decode_share *share)
{
    const int64_t most_cut = share->pieces > 1 ? share->units : smaller(share->units, share->main_blocks);
    const int64_t part_runs = (int64_t)decode->block_heads * decode->d_v / RUN_ELEMS;
    share->combine_runs = 1;
    while (share->combine_runs < decode->most_runs &&
           most_cut * part_runs > share->combine_runs * sm_count * FEW_THREADS)
        share->combine_runs *= 2;
    const int64_t groups = divide_up(part_runs, decode->combine_threads * share->combine_runs);

    if (share->pieces > 1) {
        share->parts = share->units * share->pieces;
        share->combine_blocks = share->units * groups;
    } else if (may_cut(decode, share) && share->main_blocks > 1) {
        share->parts = 2 * share->main_blocks;
        share->combine_blocks = most_cut * groups;
    }
    share->part_out_bytes = share->parts * decode->block_heads * decode->d_v * (int64_t)sizeof(float);
    share->part_lse_bytes = divide_up(share->parts * decode->block_heads * (int64_t)sizeof(float), 16) * 16;
    if (!decode->batch_invariant && share->parts > 0)
        share->shared_bytes = divide_up(most_cut * 2 * (int64_t)sizeof(int32_t), 16) * 16;
}

/* As decode_schedule.cuh does from lengths (divide): by what whole items take, and what cut ones do. */
static void divide_evenly(const struct gen_decode *decode, int64_t tokens, struct gen_decode_share *share)
{
    const int64_t unit = share->pieces * decode->item_cost + share->key_blocks, all = unit * share->units;
    const int64_t largest = smaller(share->key_blocks, share->piece_blocks);

    if (share->main_blocks == 0)
        return;
    share->even_share = divide_up(all, share->main_blocks);
    share->even_item_cost = decode->item_cost;
    const int64_t cut = share->even_share + decode->item_cost + decode->cut_cost;
    share->even_cuts = !decode->batch_invariant &&
                       (decode->item_cost + largest > cut || share->whole_items * all > cut * share->units);
    const int64_t least =
        divide_up((share->pieces * decode->small_item_cost + share->key_blocks) * share->units, share->main_blocks);
    if (share->even_cuts && least <= decode->small_share) {
        share->even_share = least;
        share->even_item_cost = decode->small_item_cost;
    }
    share->even_token_cost = (share->pieces * share->even_item_cost + share->key_blocks) * (share->units / tokens);
    share->even_main_blocks = share->main_blocks;
}

/* Where there are two multiprocessors a unit or more, and cutting gains more than it costs, all units are cut alike:
 * then a block of threads has keys of one unit, and nobody has to be told where its parts are. */
static void cut_alike(const struct gen_decode *decode, int32_t sm_count, struct gen_decode_share *share)
{
    if (!may_cut(decode, share) || share->units == 0 || share->units > sm_count / 2 || sm_count > MOST_ALIKE)
        return;
    const int64_t part_blocks = divide_up(share->key_blocks, smaller(sm_count / share->units, share->key_blocks));
    if (share->key_blocks <= part_blocks + decode->cut_cost)
        return;
    share->even_part_blocks = part_blocks;
    share->even_parts = divide_up(share->key_blocks, share->even_part_blocks);
    share->even_main_blocks = share->units * share->even_parts;
}

bool gen_decode_make(const struct gen_decode *decode, int64_t tokens, const int64_t topk[2], int32_t sm_count,
                     struct gen_decode_share *out)
{
    struct gen_decode_share share = {.units = tokens * decode->head_blocks};

    for (int c = 0; c < 2; c++)
        share.key_blocks += divide_up(topk[c], 64);
    set_pieces(decode, &share);
    if (share.units * (share.pieces * decode->item_cost + share.key_blocks) > MOST_COST)
        return false;
    /* No more blocks of threads than there is something to have for. */
    const int64_t most =
        share.units * (may_cut(decode, &share) ? share.key_blocks + decode->small_item_cost : share.pieces);
    share.main_blocks = smaller(sm_count, most);
    share.whole_items = share.main_blocks > 0 ? divide_up(share.units, share.main_blocks) : 0;
    set_parts(decode, sm_count, &share);
    divide_evenly(decode, tokens, &share);
    cut_alike(decode, sm_count, &share);
    if (share.combine_blocks > INT32_MAX)
        return false;
    *out = share;
    return true;
}

uint32_t gen_decode_multiplier(const struct gen_decode_share *share)
{
    return share->even_parts > 0 ? (uint32_t)divide_up((int64_t)1 << 32, share->even_parts) : 0;
}

int64_t gen_decode_workspace(const struct gen_decode_share *share)
{
    return share->part_out_bytes + share->part_lse_bytes + share->shared_bytes;
}
