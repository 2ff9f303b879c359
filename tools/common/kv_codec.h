/* Writers of cache formats on the CPU, written to be read: what tests and tools fill caches with. The readers are the
 * library's own (kv_read.h). */
#ifndef SMLA_TOOLS_KV_CODEC_H
#define SMLA_TOOLS_KV_CODEC_H

#include "kv_read.h"

/* Writes bf16 [d_qk] to token `slot`, bit for bit as interface.md's writers: ue8m0 and float32 scales are
 * 2^ceil(log2(max(amax / 448, 1e-4))), values e4m3(x / scale); e4m3 scales e4m3(clamp(amax / 6, 2^-9, 448)), values
 * e2m1(x / scale); to nearest even, saturating; a NaN makes its group's scale NaN. Padding is left as it was. */
void kv_write(const struct kv_view *view, int64_t slot, const uint16_t *row);

/* Numbers, for tests. */
uint8_t kv_e4m3_from_float(float value);
uint8_t kv_e2m1_from_float(float value);

#endif
