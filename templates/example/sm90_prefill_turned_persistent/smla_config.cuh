/* Configuration of sm90_prefill_turned_persistent for sm_90a, kv bf16. Generated; see the plan for the reasons. */
#ifndef SMLA_CONFIG_CUH
#define SMLA_CONFIG_CUH

#define SMLA_H_Q 6 /* heads, by the description */
#define SMLA_D_QK 576 /* elements, by the description */
#define SMLA_D_V 512 /* elements, by the description */
#define SMLA_BLOCK_HEADS 8 /* heads, by the plan */
#define SMLA_HEAD_BLOCKS 1 /* blocks, by the plan */
#define SMLA_HEADS_ARE_COLUMNS 1 /* by the plan */
#define SMLA_BLOCK_KEYS 64 /* keys, by the target */
#define SMLA_KEY_SLOTS 3 /* slots, by the plan */
#define SMLA_PROBABILITY_SLOTS 1 /* slots, by the plan */
#define SMLA_OUTPUT_WARPGROUPS 2 /* by the plan */
#define SMLA_OUTPUT_COLUMNS 256 /* elements, by the plan */
#define SMLA_GATHER_WARPGROUPS 1 /* by the plan */
#define SMLA_SOFTMAX_REGISTERS 104 /* registers, by the plan */
#define SMLA_OUTPUT_REGISTERS 160 /* registers, by the plan */
#define SMLA_GATHER_REGISTERS 88 /* registers, by the plan */
#define SMLA_THREADS 512 /* threads, by the plan */
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
#define SMLA_KEY_OFFSET 9216 /* bytes, by the plan: key slots, tiles of 64 columns */
#define SMLA_PROBABILITY_OFFSET 230400 /* bytes, by the plan: P as bf16, a row a head */
#define SMLA_ROW_SCALE_OFFSET 231424 /* bytes, by the plan: factor for out before a block's P.V */
#define SMLA_OUT_SCALE_OFFSET 231456 /* bytes, by the plan: factor for out at the end */
#define SMLA_REFERENCE_OFFSET 231488 /* bytes, by the plan: what each head's exponents are relative to */
#define SMLA_WARP_MAX_OFFSET 231520 /* bytes, by the plan: each softmax warp's largest logit so far */
#define SMLA_WARP_SUM_OFFSET 231648 /* bytes, by the plan: each softmax warp's sum at the end */
#define SMLA_RESCALES_OFFSET 231776 /* bytes, by the plan: whether row_scale counts */
#define SMLA_BARRIERS_OFFSET 231784 /* bytes, by the plan: mbarriers: key_full and key_free for each key slot, p_ready and p_free for each slot of P, out_scale_ready, rows_free */
#define SMLA_ROWS_OFFSET 231864 /* bytes, by the plan: largest logits and references of a finished query */
#define SMLA_SHARED_BYTES 232024 /* bytes, by the plan */

#endif
