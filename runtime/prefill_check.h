/* What a checked kernel's call does before it launches the kernel: the tensors' allocations, the lists' contents. */
#ifndef SMLA_RUNTIME_PREFILL_CHECK_H
#define SMLA_RUNTIME_PREFILL_CHECK_H

#include "kernel.h"
#include "prefill_params.h"
#include "tensor_check.h"

enum { RT_CHECK_WORKSPACE_BYTES = 8 };

/* A cache's lists by name, for sentences, and what of the cache no tensor tells. */
struct rt_check_list {
    const char *s_kv_name, *topk_name, *indices_name, *length_name, *stride_token_name, *stride_page_name;
    int kv; /* of tensors: kv, then indices, then lengths */
    int64_t s_kv;
    int64_t page_tokens;
};

struct rt_prefill_check {
    const smla_kernel *kernel;
    const struct smla_prefill_params *params; /* of the call */
    const struct tensor *tensors;             /* that have passed rt_check_tensor */
    int tensor_count;
    void *workspace;
    uint64_t workspace_bytes;
    struct rt_check_list lists[2]; /* kernel->caches of them */
};

/* Returns SMLA_OK, and the call may go on; INVALID_ARGUMENT with what was found; DRIVER. Waits for the stream. The
 * current context is afterwards what it was. */
smla_status rt_prefill_check(const struct rt_prefill_check *check, void *stream);

#endif
