/* A prepared kernel: all that a call needs, and nothing that it has to look up. */
#ifndef SMLA_RUNTIME_KERNEL_H
#define SMLA_RUNTIME_KERNEL_H

#include <stdbool.h>

#include "driver.h"
#include "plan_companion.h"
#include "plan_rules.h"
#include "plan_unpack.h"

/* How a cache is described by a call. */
struct rt_kv {
    int32_t elem_bytes;  /* 2 for bf16 rows, 1 for bytes of a quantised format */
    int32_t token_elems; /* elements that a token takes */
    int32_t scale_bytes; /* of a token; behind the page's values where by_page */
    bool by_page;        /* the scales of a page stand behind its values: tokens have no stride of their own */
};

struct smla_kernel {
    const struct rt_driver *driver; /* the context's */
    rt_cu_context cuda_context;
    rt_cu_function functions[GEN_MAX_VARIANTS];
    uint32_t op;
    int32_t h_q;
    int32_t d_qk;
    int32_t d_v;
    int32_t caches; /* 1, or 2 with an extra format */
    struct rt_kv kv[2];
    int32_t paged_variant;   /* of functions: prefill where a cache has pages */
    int32_t lengths_variant; /* of functions: prefill where lists have lengths and no cache has pages; 0: none */
    int32_t check_variant;   /* of functions: of a checked kernel, launched first; 0: none */
    int32_t check_threads;
    int32_t combine_variant; /* of functions: of a decode kernel, launched behind it */
    int32_t combine_threads;
    int32_t sm_count;
    struct gen_decode decode;             /* of a decode kernel */
    struct gen_companion takes_companion; /* when a call is the companion's */
    struct gen_unpack unpack;             /* when a prefill call is, whose cache is unpacked first */
    int32_t unpack_threads;
    struct smla_kernel *companion; /* the kernel's own: destroyed with it; NULL: none */
    bool tensor_maps;              /* the parameter is smla_prefill_tensor_params */
    int32_t choice_count;
    struct gen_choice choices[GEN_MAX_RULES]; /* of other functions by a call's sizes; the first that holds is taken */
    int32_t threads;
    int32_t shared_bytes;
    int32_t blocks_per_query;
    int32_t most_blocks;             /* of a launch: those of a persistent kernel share the work among them */
    int32_t blocks_per_sm;           /* of a persistent kernel; 0: it is none */
    int32_t pointer_alignment_bytes; /* of query and kv */
    int32_t stride_alignment_elems;  /* of query, kv and out */
    int32_t out_elem_bytes;
    int32_t out_alignment_bytes;
    char name[64]; /* of the variant; of the kernel when a call selects one of several */
};

/* smla_prepare of a full-size description. cuda_context: the kernel's; NULL: the one that is current. */
smla_status rt_prepare(smla_context *context, const smla_kernel_desc *desc, rt_cu_context cuda_context,
                       smla_kernel **out);

#endif
