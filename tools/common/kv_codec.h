/* Writers and readers of cache formats on the CPU, written to be read: what the kernels must read, and what tests and
 * tools fill caches with. A format is a layout (smla.h); presets by smla_kv_layout_preset. */
#ifndef SMLA_TOOLS_KV_CODEC_H
#define SMLA_TOOLS_KV_CODEC_H

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

/* Writes bf16 [d_qk] to token `slot`, bit for bit as interface.md's writers: ue8m0 and float32 scales are
 * 2^ceil(log2(max(amax / 448, 1e-4))), values e4m3(x / scale); e4m3 scales e4m3(clamp(amax / 6, 2^-9, 448)), values
 * e2m1(x / scale); to nearest even, saturating; a NaN makes its group's scale NaN. Padding is left as it was. */
void kv_write(const struct kv_view *view, int64_t slot, const uint16_t *row);

/* Numbers, for tests. */
float kv_e4m3_to_float(uint8_t bits);
uint8_t kv_e4m3_from_float(float value);
float kv_e2m1_to_float(uint8_t nibble);
uint8_t kv_e2m1_from_float(float value);
float kv_ue8m0_to_float(uint8_t bits);

#endif
