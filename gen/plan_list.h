/* The supported set as a table: what the plans say of every description of presets, with like ones in one row. */
#ifndef SMLA_GEN_PLAN_LIST_H
#define SMLA_GEN_PLAN_LIST_H

#include "plan.h"

enum { GEN_MAX_SUPPORTED = 256, GEN_HEADS = 128 };

/* Of the formats of a cache, bit i is row i of gen_kv_format_table; this one: none. */
#define GEN_NO_CACHE (1u << 31)

/* Every count of heads from the first to the last, with each of the formats, and each of the second cache's. */
struct gen_supported {
    const struct gen_target *target;
    uint32_t op;
    int32_t d_qk;      /* 0: the operator has no keys */
    uint32_t kv;       /* formats; GEN_NO_CACHE alone for an operator that reads none */
    uint32_t extra_kv; /* formats of a second cache, GEN_NO_CACHE among them where it may be left out */
    int32_t first_h_q, last_h_q;
    const char *kernel;
    int32_t companion_heads; /* in a tile of its companion (plan_companion.h); 0: it has none */
    int32_t launches;
    int32_t threads; /* a block */
    int32_t least_shared_bytes, most_shared_bytes;
};

/* Plans every description of presets and writes the table, by target, operator and d_qk. Returns its length. */
size_t gen_supported_list(struct gen_supported rows[GEN_MAX_SUPPORTED]);

#endif
