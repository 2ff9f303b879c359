/* Configuration of combine for sm_90a. Generated; see the plan for the reasons. */
#ifndef SMLA_CONFIG_CUH
#define SMLA_CONFIG_CUH

#define SMLA_H_Q 64 /* heads, by the description */
#define SMLA_D_V 512 /* elements, by the description */
#define SMLA_BLOCK_HEADS 4 /* heads, by the plan */
#define SMLA_HEAD_BLOCKS 16 /* blocks, by the plan */
#define SMLA_THREADS 128 /* threads, by the plan */
#define SMLA_RUN_ELEMS 8 /* elements, by the plan */
#define SMLA_PARTS_IN_FLIGHT 2 /* parts, by the plan */
#define SMLA_SHARED_BYTES 0 /* bytes, by the plan */

#endif
