/* Configuration of prefill_reference for sm_90a, kv bf16. Generated; see the plan for the reasons. */
#ifndef SMLA_CONFIG_CUH
#define SMLA_CONFIG_CUH

#define SMLA_H_Q 64 /* heads, by the description */
#define SMLA_D_QK 512 /* elements, by the description */
#define SMLA_D_V 512 /* elements, by the description */
#define SMLA_THREADS 128 /* threads, by the plan */
#define SMLA_SHARED_BYTES 0 /* bytes, by the plan */

#endif
