#include "kv_codec.h"

#include <math.h>
#include <string.h>

#include "bf16.h"

/* ---- Numbers ---- */

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

/* To nearest, ties to even codes, saturating at 6. A NaN becomes 0: its group's scale tells. */
uint8_t kv_e2m1_from_float(float value)
{
    uint8_t code = 0;

    for (uint8_t next = 1; next < 8; next++) {
        const float middle = (kv_e2m1_to_float((uint8_t)(next - 1)) + kv_e2m1_to_float(next)) / 2;
        if (fabsf(value) > middle || (fabsf(value) == middle && next % 2 == 0))
            code = next;
    }
    return (uint8_t)(code | (signbit(value) ? 8 : 0));
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
