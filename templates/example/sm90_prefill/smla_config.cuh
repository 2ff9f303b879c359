/* Configuration of sm90_prefill for sm_90a, kv bf16. Generated; see the plan for the reasons. */
#ifndef SMLA_CONFIG_CUH
#define SMLA_CONFIG_CUH

#define SMLA_H_Q 64 /* heads, by the description */
#define SMLA_D_QK 512 /* elements, by the description */
#define SMLA_D_V 512 /* elements, by the description */
#define SMLA_BLOCK_HEADS 64 /* heads, by the target */
#define SMLA_HEAD_BLOCKS 1 /* blocks, by the plan */
#define SMLA_HEADS_ARE_COLUMNS 0 /* by the plan */
#define SMLA_BLOCK_KEYS 64 /* keys, by the plan */
#define SMLA_KEY_SLOTS 2 /* slots, by the plan */
#define SMLA_PROBABILITY_SLOTS 2 /* slots, by the plan */
#define SMLA_OUTPUT_WARPGROUPS 2 /* by the plan */
#define SMLA_OUTPUT_COLUMNS 256 /* elements, by the plan */
#define SMLA_THREADS 384 /* threads, by the plan */
#define SMLA_QUERY_REGISTER_TILES 0 /* tiles, by the plan */
#define SMLA_SOFTMAX_REGISTERS 152 /* registers, by the plan */
#define SMLA_OUTPUT_REGISTERS 176 /* registers, by the plan */
#define SMLA_RESCALE_THRESHOLD_LOG2 8 /* log2, by the plan */
#define SMLA_CACHES 1 /* caches, by the description */
#define SMLA_FLAT 1 /* by the plan */
#define SMLA_KV_VALUE_BITS 16 /* bits, by the description */
#define SMLA_KV_VALUE_ELEMS 512 /* elements, by the description */
#define SMLA_KV_SCALE_TYPE 0 /* by the description */
#define SMLA_KV_SCALE_GROUP 0 /* elements, by the description */
#define SMLA_KV_BY_PAGE 0 /* by the description */
#define SMLA_KV_TOKEN_BYTES 1024 /* bytes, by the description */
#define SMLA_KV_SCALE_OFFSET_BYTES 1024 /* bytes, by the description */
#define SMLA_KV_SCALE_BYTES 0 /* bytes, by the description */
#define SMLA_KV_TAIL_OFFSET_BYTES 1024 /* bytes, by the description */
#define SMLA_STAGED_TURNS 0 /* turns, by the plan */
#define SMLA_SPLIT_THREADS 256 /* threads, by the plan */
#define SMLA_SPLIT_KEY_SLOTS 2 /* slots, by the plan */
#define SMLA_SPLIT_PROBABILITY_SLOTS 2 /* slots, by the plan */
#define SMLA_SPLIT_SHARED_BYTES 214592 /* bytes, by the plan */
#define SMLA_NARROW_HEADS 16 /* heads, by the plan */
#define SMLA_NARROW_HEAD_BLOCKS 4 /* blocks, by the plan */
#define SMLA_NARROW_THREADS 576 /* threads, by the plan */
#define SMLA_NARROW_KEY_SLOTS 2 /* slots, by the plan */
#define SMLA_NARROW_SLOT_GROUPS 5 /* groups, by the plan */
#define SMLA_NARROW_SHARED_BYTES 222848 /* bytes, by the plan */
#define SMLA_QUERY_OFFSET 0 /* bytes, by the plan: query, tiles of 64 columns; at the end out */
#define SMLA_KEY_OFFSET 65536 /* bytes, by the plan: key slots, tiles of 64 columns */
#define SMLA_PROBABILITY_OFFSET 196608 /* bytes, by the plan: P as bf16 */
#define SMLA_ROW_SCALE_OFFSET 212992 /* bytes, by the plan: factor for out before a block's P.V */
#define SMLA_OUT_SCALE_OFFSET 213504 /* bytes, by the plan: factor for out at the end */
#define SMLA_BARRIERS_OFFSET 213760 /* bytes, by the plan: mbarriers: key_full for each half of each key slot, p_ready and p_free for each slot of P, out_scale_ready */
#define SMLA_SPLIT_QUERY_OFFSET 0 /* bytes, by the plan: query, tiles of 64 columns; at the end half of the part */
#define SMLA_SPLIT_KEY_OFFSET 65536 /* bytes, by the plan: key slots, tiles of 64 columns; at the end the other half of the part */
#define SMLA_SPLIT_PROBABILITY_OFFSET 196608 /* bytes, by the plan: P as bf16 */
#define SMLA_SPLIT_ROWS_OFFSET 212992 /* bytes, by the plan: the rows' largest logits, references and sums */
#define SMLA_SPLIT_ROW_SCALE_OFFSET 214016 /* bytes, by the plan: factor for out before a block's P.V */
#define SMLA_SPLIT_BARRIERS_OFFSET 214528 /* bytes, by the plan: mbarriers: key_full for each key slot, p_ready and p_free for each slot of P, logits_done */
#define SMLA_NARROW_QUERY_OFFSET 0 /* bytes, by the plan: query, tiles of 64 columns */
#define SMLA_NARROW_KEY_OFFSET 16384 /* bytes, by the plan: key slots, groups of 16 keys, tiles of 64 columns */
#define SMLA_NARROW_PARTS_OFFSET 180224 /* bytes, by the plan: of every rank's part what this one finishes */
#define SMLA_NARROW_PROBABILITY_OFFSET 212992 /* bytes, by the plan: P as bf16, rows apart */
#define SMLA_NARROW_STATES_OFFSET 218624 /* bytes, by the plan: every rank's largest logits, references and sums */
#define SMLA_NARROW_ROWS_OFFSET 220672 /* bytes, by the plan: maxima of groups, sums of warps, states; weights of ranks, factor for out */
#define SMLA_NARROW_BARRIERS_OFFSET 222784 /* bytes, by the plan: mbarriers: max_ready, p_ready and key_free of each slot, states_full, parts_full */
#define SMLA_SHARED_BYTES 213832 /* bytes, by the plan */

#endif
