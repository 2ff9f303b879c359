/* Configuration of sm90_prefill_turned for sm_90a, kv bf16. Generated; see the plan for the reasons. */
#ifndef SMLA_CONFIG_CUH
#define SMLA_CONFIG_CUH

#define SMLA_H_Q 30 /* heads, by the description */
#define SMLA_D_QK 576 /* elements, by the description */
#define SMLA_D_V 512 /* elements, by the description */
#define SMLA_BLOCK_HEADS 32 /* heads, by the plan */
#define SMLA_HEAD_BLOCKS 1 /* blocks, by the plan */
#define SMLA_HEADS_ARE_COLUMNS 1 /* by the plan */
#define SMLA_BLOCK_KEYS 64 /* keys, by the target */
#define SMLA_KEY_SLOTS 2 /* slots, by the plan */
#define SMLA_PROBABILITY_SLOTS 2 /* slots, by the plan */
#define SMLA_OUTPUT_WARPGROUPS 2 /* by the plan */
#define SMLA_OUTPUT_COLUMNS 256 /* elements, by the plan */
#define SMLA_GATHER_WARPGROUPS 0 /* by the plan */
#define SMLA_SOFTMAX_REGISTERS 152 /* registers, by the plan */
#define SMLA_OUTPUT_REGISTERS 176 /* registers, by the plan */
#define SMLA_THREADS 384 /* threads, by the plan */
#define SMLA_RESCALE_THRESHOLD_LOG2 8 /* log2, by the plan */
#define SMLA_CACHES 1 /* caches, by the description */
#define SMLA_FLAT 1 /* by the plan */
#define SMLA_KV_VALUE_BITS 16 /* bits, by the description */
#define SMLA_KV_VALUE_ELEMS 576 /* elements, by the description */
#define SMLA_KV_SCALE_TYPE 0 /* by the description */
#define SMLA_KV_SCALE_GROUP 0 /* elements, by the description */
#define SMLA_KV_BY_PAGE 0 /* by the description */
#define SMLA_KV_TOKEN_BYTES 1152 /* bytes, by the description */
#define SMLA_KV_SCALE_OFFSET_BYTES 1152 /* bytes, by the description */
#define SMLA_KV_SCALE_BYTES 0 /* bytes, by the description */
#define SMLA_KV_TAIL_OFFSET_BYTES 1152 /* bytes, by the description */
#define SMLA_STAGED_TURNS 0 /* turns, by the plan */
#define SMLA_QUERY_OFFSET 0 /* bytes, by the plan: query, tiles of 64 columns; at the end out */
#define SMLA_KEY_OFFSET 36864 /* bytes, by the plan: key slots, tiles of 64 columns */
#define SMLA_PROBABILITY_OFFSET 184320 /* bytes, by the plan: P as bf16, a row a head */
#define SMLA_ROW_SCALE_OFFSET 192512 /* bytes, by the plan: factor for out before a block's P.V */
#define SMLA_OUT_SCALE_OFFSET 192768 /* bytes, by the plan: factor for out at the end */
#define SMLA_REFERENCE_OFFSET 192896 /* bytes, by the plan: what each head's exponents are relative to */
#define SMLA_WARP_MAX_OFFSET 193024 /* bytes, by the plan: each softmax warp's largest logit so far */
#define SMLA_WARP_SUM_OFFSET 193536 /* bytes, by the plan: each softmax warp's sum at the end */
#define SMLA_RESCALES_OFFSET 194048 /* bytes, by the plan: whether row_scale counts */
#define SMLA_BARRIERS_OFFSET 194064 /* bytes, by the plan: mbarriers: key_full for each half of each key slot, p_ready and p_free for each slot of P, out_scale_ready */
#define SMLA_SHARED_BYTES 194136 /* bytes, by the plan */

#endif
