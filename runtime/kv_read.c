#include "kv_read.h"

#include <math.h>
#include <string.h>

#include "bf16.h"

/* ---- Numbers ---- */

/* OCP 8-bit floating point 1.0: bias 7, no infinity, S.1111.111 is NaN. */
float kv_e4m3_to_float(uint8_t bits)
{
    const int exponent = bits >> 3 & 15, mantissa = bits & 7;
    const float size = exponent == 0 ? ldexpf((float)mantissa, -9) : ldexpf((float)(8 + mantissa), exponent - 10);

    if ((bits & 0x7f) == 0x7f)
        return NAN;
    return bits & 0x80 ? -size : size;
}

static const float e2m1_sizes[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

float kv_e2m1_to_float(uint8_t nibble)
{
    const float size = e2m1_sizes[nibble & 7];

    return nibble & 8 ? -size : size;
}

/* OCP Microscaling Formats 1.0: 2^(e - 127), 255 is NaN. */
float kv_ue8m0_to_float(uint8_t bits)
{
    return bits == 255 ? NAN : ldexpf(1, bits - 127);
}

/* ---- Where things lie ---- */

int64_t kv_scale_bytes(const smla_kv_layout *layout)
{
    const int64_t size = layout->scale_type == SMLA_SCALE_FP32 ? 4 : 1;

    if (layout->scale_bytes != 0 || layout->scale_group == 0)
        return layout->scale_bytes;
    return layout->value_elems / layout->scale_group * size;
}

int64_t kv_value_bytes(const smla_kv_layout *layout)
{
    switch (layout->value_type) {
    case SMLA_VALUE_E4M3:
        return layout->value_elems;
    case SMLA_VALUE_E2M1:
        return layout->value_elems / 2;
    default:
        return layout->value_elems * 2;
    }
}

int64_t kv_token_bytes(const smla_kv_layout *layout)
{
    return kv_value_bytes(layout) + kv_scale_bytes(layout) + 2 * (int64_t)layout->tail_elems;
}

int64_t kv_elem_bytes(const smla_kv_layout *layout)
{
    return layout->value_type == SMLA_VALUE_BF16 ? 2 : 1;
}

struct kv_view kv_view_make(const smla_kv_layout *layout, const void *base, int64_t stride_token, int64_t page_tokens,
                            int64_t stride_page)
{
    const int64_t elem_bytes = kv_elem_bytes(layout);
    struct kv_view view = {*layout, (uint8_t *)(uintptr_t)base, page_tokens, stride_page * elem_bytes,
                           stride_token * elem_bytes};

    if (view.stride_token == 0)
        view.stride_token = kv_token_bytes(layout);
    if (view.stride_page == 0)
        view.stride_page = view.stride_token * page_tokens;
    return view;
}

int64_t kv_cache_bytes(const struct kv_view *view, int64_t s_kv)
{
    if (view->page_tokens == 0)
        return s_kv * view->stride_token;
    return (s_kv + view->page_tokens - 1) / view->page_tokens * view->stride_page;
}

struct kv_parts kv_find(const struct kv_view *view, int64_t slot)
{
    const smla_kv_layout *layout = &view->layout;
    const int64_t page = view->page_tokens ? slot / view->page_tokens : 0, token = slot - page * view->page_tokens;
    const int64_t values = kv_value_bytes(layout), scales = kv_scale_bytes(layout);
    uint8_t *base = view->base + page * view->stride_page;

    if (layout->place == SMLA_PLACE_PAGE) {
        const int64_t run = values + 2 * (int64_t)layout->tail_elems;
        uint8_t *at = base + token * run;
        return (struct kv_parts){at, base + view->page_tokens * run + token * scales, at + values};
    }
    base += token * view->stride_token;
    return (struct kv_parts){base, base + values, base + values + scales};
}

/* ---- Reading ---- */

static float read_scale(const smla_kv_layout *layout, const uint8_t *scales, int64_t group)
{
    float value;

    switch (layout->scale_type) {
    case SMLA_SCALE_FP32:
        memcpy(&value, scales + 4 * group, 4);
        return value;
    case SMLA_SCALE_UE8M0:
        return kv_ue8m0_to_float(scales[group]);
    default:
        return kv_e4m3_to_float(scales[group]);
    }
}

void kv_read(const struct kv_view *view, int64_t slot, uint16_t *row)
{
    const smla_kv_layout *layout = &view->layout;
    const struct kv_parts at = kv_find(view, slot);

    if (layout->value_type == SMLA_VALUE_BF16)
        memcpy(row, at.values, (size_t)layout->value_elems * 2);
    else
        for (int64_t i = 0; i < layout->value_elems; i++) {
            const float value = layout->value_type == SMLA_VALUE_E4M3
                                    ? kv_e4m3_to_float(at.values[i])
                                    : kv_e2m1_to_float((uint8_t)(at.values[i / 2] >> i % 2 * 4 & 15));
            row[i] = bf16_from_float(value * read_scale(layout, at.scales, i / layout->scale_group));
        }
    memcpy(row + layout->value_elems, at.tail, (size_t)layout->tail_elems * 2);
}
