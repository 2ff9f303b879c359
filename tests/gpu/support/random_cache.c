#include "random_cache.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random_numbers.h"

struct kv_view random_cache_view(const struct random_call *call, int c)
{
    const smla_prefill_args *args = &call->problem.args;
    const uint8_t *host = call->problem.host[c ? EXTRA_KV : KV];
    const uint8_t *base = host ? host + call->base[c ? EXTRA_KV : KV] : NULL;
    const smla_kv_layout *layout = &call->caches[c].layout;
    return c ? kv_view_make(layout, base, args->extra_kv_stride_token, args->extra_kv_page_tokens,
                            args->extra_kv_stride_page)
             : kv_view_make(layout, base, args->kv_stride_token, args->kv_page_tokens, args->kv_stride_page);
}

/* ---- Scales ---- */

static float alter_float(struct random_call *call, float scale)
{
    switch (call->choices.value[AXIS_SCALES]) {
    case SCALES_ODD:
        return scale * (1 + (float)random_below(&call->state, 100) * 0.00913f);
    case SCALES_FAR_APART:
        return ldexpf(scale, -(int)random_below(&call->state, 130));
    case SCALES_NEGATIVE:
        return random_chance(&call->state, 0.5) ? -scale : scale;
    default:
        return random_chance(&call->state, 0.05) ? NAN : scale;
    }
}

/* 0 is 2^-127, a scale like any other. It has no sign. */
static uint8_t alter_ue8m0(struct random_call *call, uint8_t scale)
{
    switch (call->choices.value[AXIS_SCALES]) {
    case SCALES_ODD:
    case SCALES_NEGATIVE:
        return (uint8_t)(scale - (scale > 0 && random_chance(&call->state, 0.5)));
    case SCALES_FAR_APART:
        return (uint8_t)random_below(&call->state, scale + 1);
    default:
        return random_chance(&call->state, 0.05) ? 255 : scale;
    }
}

static uint8_t alter_e4m3(struct random_call *call, uint8_t scale)
{
    switch (call->choices.value[AXIS_SCALES]) {
    case SCALES_ODD:
        return (uint8_t)(scale - random_below(&call->state, scale < 4 ? 1 : 4));
    case SCALES_FAR_APART:
        return (uint8_t)random_below(&call->state, (scale & 0x7f) + 1);
    case SCALES_NEGATIVE:
        return (uint8_t)(scale ^ (random_chance(&call->state, 0.5) ? 0x80 : 0));
    default:
        return random_chance(&call->state, 0.05) ? (uint8_t)(0x7f | (scale & 0x80)) : scale;
    }
}

static void alter_scale(struct random_call *call, uint32_t type, uint8_t *scales, int64_t group)
{
    float value;
    if (type == SMLA_SCALE_UE8M0 && scales[group] != 255) {
        scales[group] = alter_ue8m0(call, scales[group]);
    } else if (type == SMLA_SCALE_E4M3 && (scales[group] & 0x7f) != 0x7f) {
        scales[group] = alter_e4m3(call, scales[group]);
    } else if (type == SMLA_SCALE_FP32) {
        memcpy(&value, scales + 4 * group, 4);
        value = alter_float(call, value);
        memcpy(scales + 4 * group, &value, 4);
    }
}

/* ---- Codes ---- */

static void alter_codes(struct random_call *call, const struct kv_view *view, uint8_t *values)
{
    const bool e4m3 = view->layout.value_type == SMLA_VALUE_E4M3;
    const bool may_be_nan =
        call->choices.value[AXIS_CODES] == CODES_NAN && random_chance(&call->state, 0.1); /* few keys: of 512 codes */
    for (int64_t i = 0; i < kv_value_bytes(&view->layout); i++) {
        values[i] = (uint8_t)random_below(&call->state, 256);
        if (e4m3 && !may_be_nan && (values[i] & 0x7f) == 0x7f)
            values[i] ^= 0x40;
    }
}

void random_cache_alter(struct random_call *call, const struct kv_view *view, int64_t slot)
{
    const smla_kv_layout *layout = &view->layout;
    const struct kv_parts at = kv_find(view, slot);
    if (layout->value_type == SMLA_VALUE_BF16)
        return;
    if (call->choices.value[AXIS_CODES] != CODES_WRITTEN)
        alter_codes(call, view, at.values);
    for (int64_t i = 0;
         call->choices.value[AXIS_SCALES] != SCALES_WRITTEN && i < layout->value_elems / layout->scale_group; i++)
        alter_scale(call, layout->scale_type, at.scales, i);
}

/* Writers use codes up to 448 of e4m3, but up to 6 where its scales are e4m3 too. Logits must not outgrow what the axis
 * says: sinks are chosen by it. */
float random_cache_growth(const struct random_call *call)
{
    const bool codes = call->choices.value[AXIS_CODES] != CODES_WRITTEN;
    const float scales = call->choices.value[AXIS_SCALES] == SCALES_ODD ? 2 : 1;
    bool grows = false;
    for (int c = 0; c < call->cache_count; c++)
        grows |= call->caches[c].layout.value_type == SMLA_VALUE_E4M3 &&
                 call->caches[c].layout.scale_type == SMLA_SCALE_E4M3;
    return scales * (!codes ? 1 : grows ? 64 : 1.5f);
}

/* ---- What no list selects ---- */

static void poison(const struct random_call *call, const smla_kv_layout *layout, uint8_t *bytes, size_t size)
{
    static const uint8_t bf16[][2] = {[POISON_INFINITY] = {0x80, 0xff},
                                      [POISON_NAN] = {0xfe, 0xff},
                                      [POISON_LARGEST] = {0x7f, 0x7f},
                                      [POISON_ZERO] = {0, 0}};
    static const uint8_t quantised[] = {
        [POISON_INFINITY] = 0x80, [POISON_NAN] = 0x7f, [POISON_LARGEST] = 0x7e, [POISON_ZERO] = 0};
    const int kind = call->choices.value[AXIS_POISON];
    for (size_t i = 0; i < size; i++)
        bytes[i] = layout->value_type == SMLA_VALUE_BF16 ? bf16[kind][i % 2] : quantised[kind];
}

static void copy_token(const struct kv_view *to, const struct kv_view *from, int64_t slot)
{
    const smla_kv_layout *layout = &to->layout;
    const struct kv_parts there = kv_find(to, slot), here = kv_find(from, slot);
    const int64_t groups = layout->scale_group ? layout->value_elems / layout->scale_group : 0; /* without padding */
    memcpy(there.values, here.values, (size_t)kv_value_bytes(layout));
    memcpy(there.scales, here.scales, (size_t)groups * (layout->scale_type == SMLA_SCALE_FP32 ? 4 : 1));
    memcpy(there.tail, here.tail, (size_t)layout->tail_elems * 2);
}

bool random_cache_spoil(struct random_call *call, int c, uint8_t *bytes, size_t size)
{
    const struct random_cache *cache = &call->caches[c];
    const struct kv_view to = random_cache_view(call, c);
    struct kv_view from = to;
    uint8_t *kept = malloc(size + 1);
    if (!kept)
        return false;
    memcpy(kept, bytes, size);
    from.base = kept + (to.base - bytes);
    poison(call, &cache->layout, bytes, size);
    for (int64_t slot = 0; slot < cache->s_kv; slot++)
        if (cache->selected[slot])
            copy_token(&to, &from, slot);
    free(kept);
    return true;
}
