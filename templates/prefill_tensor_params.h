/* The one parameter of a prefill kernel that copies query and out by tensor maps. Included by the runtime (C11) and by
 * the templates (CUDA). */
#ifndef SMLA_PREFILL_TENSOR_PARAMS_H
#define SMLA_PREFILL_TENSOR_PARAMS_H

#include "prefill_params.h"

/* The boxes of both maps: columns of 2 bytes, 128-byte swizzle; heads of query and of out. */
enum { SMLA_MAP_COLUMNS = 64, SMLA_QUERY_MAP_HEADS = 64, SMLA_OUT_MAP_HEADS = 64 };

/* What cuTensorMapEncodeTiled writes. */
struct __attribute__((aligned(64))) smla_tensor_map {
    unsigned long long words[16];
};

struct smla_prefill_tensor_params {
    struct smla_prefill_params prefill;
    struct smla_tensor_map query_map; /* [s_q, h_q, d_qk] */
    struct smla_tensor_map out_map;   /* [s_q, h_q, d_v] */
};

#endif
