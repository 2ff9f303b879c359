#include "kv_format.h"

#include <string.h>

static const struct gen_kv_format table[] = {
    {"bf16", {512, 576}, SMLA_VALUE_BF16, 0, SMLA_SCALE_NONE, 0, 0, 0, 0, 1, SMLA_PLACE_TOKEN},
    {"v32", {576}, SMLA_VALUE_E4M3, 512, SMLA_SCALE_FP32, 128, 16, 64, 656, 1, SMLA_PLACE_TOKEN},
    {"v32_norope", {512}, SMLA_VALUE_E4M3, 512, SMLA_SCALE_FP32, 128, 16, 0, 528, 1, SMLA_PLACE_TOKEN},
    {"v4", {512}, SMLA_VALUE_E4M3, 448, SMLA_SCALE_UE8M0, 64, 8, 64, 584, 576, SMLA_PLACE_PAGE},
    {"v41", {512}, SMLA_VALUE_E4M3, 512, SMLA_SCALE_UE8M0, 32, 16, 0, 528, 1, SMLA_PLACE_TOKEN},
    {"v41_planar", {512}, SMLA_VALUE_E4M3, 512, SMLA_SCALE_UE8M0, 32, 16, 0, 528, 512, SMLA_PLACE_PAGE},
    {"v41_fp4", {512}, SMLA_VALUE_E2M1, 512, SMLA_SCALE_E4M3, 16, 32, 0, 288, 1, SMLA_PLACE_TOKEN},
    {"v41_fp4_planar", {512}, SMLA_VALUE_E2M1, 512, SMLA_SCALE_E4M3, 16, 32, 0, 288, 256, SMLA_PLACE_PAGE},
    {"hopper_fp4", {512}, SMLA_VALUE_E2M1, 448, SMLA_SCALE_E4M3, 16, 32, 64, 384, 1, SMLA_PLACE_TOKEN},
};

const struct gen_kv_format *gen_kv_format_table(size_t *count)
{
    *count = sizeof(table) / sizeof(table[0]);
    return table;
}

const struct gen_kv_format *gen_kv_format_find(const char *name)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

int32_t gen_kv_value_bytes(const struct gen_kv_format *format)
{
    switch (format->value_type) {
    case SMLA_VALUE_E4M3:
        return format->value_elems;
    case SMLA_VALUE_E2M1:
        return format->value_elems / 2;
    default:
        return format->value_elems * 2;
    }
}
