/* How a decode call shares its work out: blocks of threads, parts and the workspace that they take. Worked out from
 * sizes alone: what depends on the real lengths is the device's (templates/decode_schedule.cuh). */
#ifndef SMLA_GEN_PLAN_DECODE_H
#define SMLA_GEN_PLAN_DECODE_H

#include "plan.h"

enum { GEN_DECODE_WALK_BYTES = 176 }; /* of shared memory, behind what prefill's roles have */

/* What of a decode kernel's plan the sharing depends on. */
struct gen_decode {
    int32_t block_heads;
    int32_t head_blocks;
    int32_t combine_threads; /* of a block that combines */
    int32_t most_runs;       /* of 16 bytes a part that each of them has at most: a power of 2 */
    int32_t d_v;
    int32_t item_cost;       /* blocks of keys that an item counts for beside its own */
    int32_t cut_cost;        /* and that cutting it must gain */
    int32_t small_share;     /* of keys at most, */
    int32_t small_item_cost; /* where an item counts for this */
    bool batch_invariant;
};

struct gen_decode_share {
    int64_t units;      /* tokens times blocks of heads */
    int64_t key_blocks; /* of a unit whose lists count in whole */
    int64_t pieces;     /* items of a unit */
    int64_t piece_blocks;
    int64_t main_blocks;    /* blocks of threads of the main kernel */
    int64_t whole_items;    /* units that one of them has at most where none is cut */
    int64_t parts;          /* that there is place for */
    int64_t combine_blocks; /* of threads; 0: no item can be cut, nothing is combined */
    int64_t combine_runs;   /* of 16 bytes a part that each of their threads has */
    /* The workspace: from its beginning, each a multiple of 16 bytes. */
    int64_t part_out_bytes;
    int64_t part_lse_bytes;
    int64_t shared_bytes; /* what of smla_decode_params is `shared` */
    /* How the row of items is divided where every list counts in whole; templates/decode_schedule.cuh has the same for
     * real lengths, and what it means. */
    int64_t even_share;
    int64_t even_item_cost;
    int64_t even_token_cost;
    bool even_cuts;
    int64_t even_parts;       /* of a unit, each of a block of threads; 0: they have shares by cost */
    int64_t even_part_blocks; /* of keys, but for the last part */
    int64_t even_main_blocks; /* of threads of the main kernel */
};

struct gen_decode gen_decode_of(const struct gen_spec *spec, const struct gen_plan *plan);

/* tokens: of all requests, below 2^31. topk: of the caches, 0 where there is no second. sm_count: multiprocessors to
 * take. Returns false where there is more than kernels count in 32 bits. */
bool gen_decode_make(const struct gen_decode *decode, int64_t tokens, const int64_t topk[2], int32_t sm_count,
                     struct gen_decode_share *out);

/* What kernels divide by even_parts with: 2^32 / even_parts, rounded up; 0 where there are none. (A unit is two parts
 * or more, so it fits.) */
uint32_t gen_decode_multiplier(const struct gen_decode_share *share);

/* Bytes of the workspace. */
int64_t gen_decode_workspace(const struct gen_decode_share *share);

#endif
