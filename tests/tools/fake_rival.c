/* Rivals for tests of smla-bench: smla itself, from a libsmla of its own. FAKE_RIVAL=zeros writes zeros instead,
 * nothing writes nothing, refuse takes no shape, fail fails. With ONLY_PREFILL it exports nothing that is optional. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_device.h"
#include "smla_rival.h"

#define EXPORT __attribute__((visibility("default")))

static smla_context *context;
static smla_kernel *kernel;

static bool is_wanted(const char *what)
{
    const char *wanted = getenv("FAKE_RIVAL");
    return wanted != NULL && strcmp(wanted, what) == 0;
}

static bool prepare(const smla_kernel_desc *desc)
{
    smla_kernel_destroy(kernel);
    kernel = NULL;
    return (context != NULL || smla_context_create(NULL, &context) == SMLA_OK) &&
           smla_prepare(context, desc, &kernel) == SMLA_OK;
}

#ifdef ONLY_PREFILL

/* The shape is in the strides. Not captured, so by the first call alone. */
static bool is_ready(const smla_prefill_args *args)
{
    if (kernel != NULL)
        return true;
    if (args->query_stride_head == 0 || args->out_stride_head == 0 ||
        args->kv_stride_token != args->query_stride_head || args->indices_stride_token != args->topk ||
        args->topk_length_stride != 1 || args->lse_stride_token != args->max_logits_stride_token ||
        args->query_stride_token != args->lse_stride_token * args->query_stride_head ||
        args->out_stride_token != args->lse_stride_token * args->out_stride_head)
        return false;
    const smla_kernel_desc desc = {.struct_size = sizeof desc,
                                   .op = SMLA_OP_PREFILL,
                                   .h_q = (int32_t)args->lse_stride_token,
                                   .d_qk = (int32_t)args->query_stride_head,
                                   .d_v = (int32_t)args->out_stride_head};
    return prepare(&desc);
}

#else

EXPORT const char *smla_rival_name(void)
{
    return "fake";
}

EXPORT int smla_rival_describe(const smla_kernel_desc *desc, char *why, size_t why_size)
{
    if (is_wanted("refuse"))
        return snprintf(why, why_size, "not on a Tuesday"), 1;
    return prepare(desc) ? 0 : (snprintf(why, why_size, "smla cannot prepare it"), 2);
}

static bool is_ready(const smla_prefill_args *args)
{
    (void)args;
    return true;
}

#endif

/* The buffer is full of NaN: what is not written is seen. Not captured, so the first call alone. */
static int write_zeros(const smla_prefill_args *args)
{
    static struct device *device;
    char text[DEVICE_WHY];
    if (device != NULL)
        return 0;
    return device_open(NULL, 0, &device, text) != DEVICE_OK ||
           !device_fill(device, args->out, 0, (size_t)(args->s_q * args->out_stride_token) * 2);
}

EXPORT int smla_rival_prefill(const smla_prefill_args *args, void *stream)
{
    if (is_wanted("fail"))
        return 7;
    if (is_wanted("nothing"))
        return 0;
    if (is_wanted("zeros"))
        return write_zeros(args);
    return is_ready(args) && smla_prefill(kernel, args, stream) == SMLA_OK ? 0 : 1;
}

#ifndef ONLY_PREFILL

/* Its own workspace, made for the first call of a shape, which is not captured. */
static bool is_told(const smla_decode_args *args)
{
    const bool has_lengths = args->topk_length != NULL;
    return args->workspace == NULL && args->query_stride_request == args->s_q * args->query_stride_token &&
           args->indices_stride_request == args->s_q * args->topk && args->indices_stride_token == args->topk &&
           args->out_stride_request == args->s_q * args->out_stride_token &&
           args->lse_stride_request == args->s_q * args->lse_stride_token && args->lse_stride_head == 1 &&
           args->extra_indices_stride_token == args->extra_topk &&
           (args->kv_page_tokens == 0) == (args->kv_stride_page == 0) &&
           (args->extra_topk == 0) == (args->extra_kv == NULL) &&
           (!has_lengths || (args->decode_flags == SMLA_DECODE_LENGTHS_PER_REQUEST &&
                             args->topk_length_stride_request == 1 && args->topk_length_stride == 0));
}

EXPORT int smla_rival_decode(const smla_decode_args *args, void *stream)
{
    static struct device *device;
    static void *workspace;
    static uint64_t bytes;
    smla_decode_args own = *args;
    char text[DEVICE_WHY];
    if (is_wanted("fail"))
        return 7;
    if (!is_told(args) || (device == NULL && device_open(NULL, 0, &device, text) != DEVICE_OK) ||
        smla_decode_workspace_size(kernel, args->b, args->s_q, args->topk, args->extra_topk, &own.workspace_bytes) !=
            SMLA_OK)
        return 1;
    if (own.workspace_bytes > bytes) { /* what was there is left: a graph may hold it */
        bytes = own.workspace_bytes;
        if (!device_alloc(device, (size_t)bytes, &workspace))
            return 1;
    }
    own.workspace = own.workspace_bytes == 0 ? NULL : workspace;
    return smla_decode(kernel, &own, stream) == SMLA_OK ? 0 : 1;
}

#endif
