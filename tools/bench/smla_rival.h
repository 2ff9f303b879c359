/* What a rival of smla-bench exports: a shared object for --rival, which wraps somebody else's kernel.
 *
 * Its functions are called from one thread, with the device's primary context current (a user of the CUDA runtime finds
 * it there). smla_rival_prefill must be there for smla-bench prefill, smla_rival_decode for smla-bench decode; the
 * others may be. */
#ifndef SMLA_RIVAL_H
#define SMLA_RIVAL_H

#include "smla/smla.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Computes what smla_prefill would with the same arguments.
 *
 * args: as of smla_prefill; out, lse and max_logits are a rival's own. No stride is 0 that could be another number:
 * query_stride_head is d_qk, query_stride_token h_q * d_qk, out_stride_head d_v, out_stride_token h_q * d_v,
 * kv_stride_token what a token takes (0 in a format placed by page), kv_stride_page what a page takes (0 without
 * pages), indices_stride_token topk, topk_length_stride 1, lse_stride_token and max_logits_stride_token h_q. So a rival
 * without smla_rival_describe can tell the shape from them. stream: a CUstream. The first call of a shape is not
 * captured; later ones may be, and must do no more than a captured one may. Returns 0: launched on the stream; anything
 * else: a fault, after which the shape is not tried again. */
int smla_rival_prefill(const smla_prefill_args *args, void *stream);

/* Computes what smla_decode would with the same arguments.
 *
 * args: as of smla_decode; out and lse are a rival's own, and it has no workspace: what it needs it keeps itself. No
 * stride is 0 that could be another number, as for smla_rival_prefill, and strides of requests are s_q times those of
 * tokens; lengths are of requests (SMLA_DECODE_LENGTHS_PER_REQUEST): topk_length_stride_request 1, topk_length_stride
 * 0. A page of a format placed by page takes a multiple of what values and tail of a token take (v4: 576 bytes).
 * stream, the first call and the result as for smla_rival_prefill; all calls of a shape have the same lengths, so a
 * schedule may be made in the first. */
int smla_rival_decode(const smla_decode_args *args, void *stream);

/* Optional. Names the rival in the results; "FlashMLA" is compared with what is known of it. Static storage. Without it
 * the name is the file's, without folder, "lib" and ".so". */
const char *smla_rival_name(void);

/* Optional. Called before the calls of a shape; says what their arguments do not. Without it every shape is tried.
 *
 * desc: the kernel's description, which is valid during the call: op says which function will be called, kv_format and
 * extra_kv_format are presets' names, target is the device's.
 * why: receives a sentence, with its NUL at most why_size bytes, when the result is not 0.
 * Returns 0: it takes the shape; 1: it does not; anything else: a fault. */
int smla_rival_describe(const smla_kernel_desc *desc, char *why, size_t why_size);

#ifdef __cplusplus
}
#endif

#endif
