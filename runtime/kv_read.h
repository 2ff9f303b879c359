/* Cache formats on the CPU, written to be read: where a token's bytes lie, and what the kernels must read of them. A
 * format is a layout (smla.h); presets by smla_kv_layout_preset. */
#ifndef SMLA_RUNTIME_KV_READ_H
#define SMLA_RUNTIME_KV_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "smla/smla.h"

/* A cache in host memory. Strides are in bytes and proper. */
struct kv_view {
    smla_kv_layout layout;
    uint8_t *base;
    int64_t page_tokens; /* 0: no pages */
    int64_t stride_page;
    int64_t stride_token; /* not used where the place is by page */
};

/* Where a token's values, scales and tail begin. */
struct kv_parts {
    uint8_t *values, *scales, *tail;
};

/* Bytes of a token; of its values; of its scales, padding included. */
int64_t kv_token_bytes(const smla_kv_layout *layout);
int64_t kv_value_bytes(const smla_kv_layout *layout);
int64_t kv_scale_bytes(const smla_kv_layout *layout);

/* Bytes of an element of a cache, in which a call counts its strides. */
int64_t kv_elem_bytes(const smla_kv_layout *layout);

/* Describes a cache of a call: strides as in smla_prefill_args (elements; 0: contiguous). */
struct kv_view kv_view_make(const smla_kv_layout *layout, const void *base, int64_t stride_token, int64_t page_tokens,
                            int64_t stride_page);

/* Bytes of a cache of s_kv tokens. */
int64_t kv_cache_bytes(const struct kv_view *view, int64_t s_kv);

struct kv_parts kv_find(const struct kv_view *view, int64_t slot);

/* Reads token `slot` as bf16 [d_qk]: value * scale rounded to float32 and to bf16, then the tail. Any scale bits. */
void kv_read(const struct kv_view *view, int64_t slot, uint16_t *row);

/* Numbers. */
float kv_e4m3_to_float(uint8_t bits);
float kv_e2m1_to_float(uint8_t nibble);
float kv_ue8m0_to_float(uint8_t bits);

#endif
