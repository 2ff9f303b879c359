#include "kv_codec.h"

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

/* To nearest even, saturating at 448. */
uint8_t kv_e4m3_from_float(float value)
{
    const uint8_t sign = signbit(value) ? 0x80 : 0;
    const float size = fminf(fabsf(value), 448);
    int exponent;

    if (isnan(value))
        return sign | 0x7f;
    frexpf(fmaxf(size, 0x1p-6f), &exponent); /* size = m 2^exponent, m in [0.5, 1); subnormals as the least normal */
    const int steps = (int)rintf(ldexpf(size, 4 - exponent)); /* of the spacing 2^(exponent - 4): 8 to 16 if normal */
    return (uint8_t)(sign | ((exponent + 5) * 8 + steps));
}

static const float e2m1_sizes[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

float kv_e2m1_to_float(uint8_t nibble)
{
    const float size = e2m1_sizes[nibble & 7];

    return nibble & 8 ? -size : size;
}

/* To nearest, ties to even codes, saturating at 6. A NaN becomes 0: its group's scale tells. */
uint8_t kv_e2m1_from_float(float value)
{
    uint8_t code = 0;

    for (uint8_t next = 1; next < 8; next++) {
        const float middle = (e2m1_sizes[next - 1] + e2m1_sizes[next]) / 2;
        if (fabsf(value) > middle || (fabsf(value) == middle && next % 2 == 0))
            code = next;
    }
    return (uint8_t)(code | (signbit(value) ? 8 : 0));
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

/* ---- Writing ---- */

/* The bits of 2^ceil(log2(max(amax / 448, 1e-4))) as an exponent: one more where there is a mantissa. */
static uint8_t power_of_two_scale(float amax)
{
    const float least = fmaxf(amax / 448, 1e-4f);
    uint32_t bits;

    if (isnan(amax))
        return 255;
    memcpy(&bits, &least, 4);
    const uint32_t exponent = (bits >> 23) + ((bits & 0x7fffff) != 0);
    return (uint8_t)(exponent < 255 ? exponent : 255);
}

/* Writes a group's scale; returns it. */
static float write_scale(const smla_kv_layout *layout, uint8_t *scales, int64_t group, float amax)
{
    if (layout->scale_type == SMLA_SCALE_E4M3) {
        scales[group] = kv_e4m3_from_float(isnan(amax) ? amax : fminf(fmaxf(amax / 6, 0x1p-9f), 448));
        return kv_e4m3_to_float(scales[group]);
    }
    const uint8_t exponent = power_of_two_scale(amax);
    const float scale = kv_ue8m0_to_float(exponent);
    if (layout->scale_type == SMLA_SCALE_FP32)
        memcpy(scales + 4 * group, &scale, 4);
    else
        scales[group] = exponent;
    return scale;
}

static void write_value(const smla_kv_layout *layout, uint8_t *values, int64_t i, float value)
{
    if (layout->value_type == SMLA_VALUE_E4M3) {
        values[i] = kv_e4m3_from_float(value);
        return;
    }
    const uint8_t nibble = kv_e2m1_from_float(value);
    values[i / 2] = (uint8_t)(i % 2 ? (values[i / 2] & 0x0f) | nibble << 4 : (values[i / 2] & 0xf0) | nibble);
}

static float absolute_max(const uint16_t *row, int64_t count)
{
    float max = 0;

    for (int64_t i = 0; i < count; i++) {
        const float size = fabsf(bf16_to_float(row[i]));
        max = isnan(size) || isnan(max) ? NAN : fmaxf(max, size);
    }
    return max;
}

void kv_write(const struct kv_view *view, int64_t slot, const uint16_t *row)
{
    const smla_kv_layout *layout = &view->layout;
    const struct kv_parts at = kv_find(view, slot);

    if (layout->value_type == SMLA_VALUE_BF16)
        memcpy(at.values, row, (size_t)layout->value_elems * 2);
    else
        for (int64_t first = 0; first < layout->value_elems; first += layout->scale_group) {
            const int64_t group = first / layout->scale_group;
            const float scale = write_scale(layout, at.scales, group, absolute_max(row + first, layout->scale_group));
            for (int64_t i = first; i < first + layout->scale_group; i++)
                write_value(layout, at.values, i, bf16_to_float(row[i]) / scale);
        }
    memcpy(at.tail, row + layout->value_elems, (size_t)layout->tail_elems * 2);
}
