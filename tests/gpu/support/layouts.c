#include "layouts.h"

const smla_kv_layout layout_e2m1_fp32_page = {.struct_size = sizeof(smla_kv_layout),
                                              .value_type = SMLA_VALUE_E2M1,
                                              .value_elems = 384,
                                              .scale_type = SMLA_SCALE_FP32,
                                              .scale_group = 128,
                                              .scale_bytes = 0,
                                              .tail_elems = 128,
                                              .place = SMLA_PLACE_PAGE};
const smla_kv_layout layout_e4m3_e4m3_token = {.struct_size = sizeof(smla_kv_layout),
                                               .value_type = SMLA_VALUE_E4M3,
                                               .value_elems = 192,
                                               .scale_type = SMLA_SCALE_E4M3,
                                               .scale_group = 32,
                                               .scale_bytes = 16,
                                               .tail_elems = 384,
                                               .place = SMLA_PLACE_TOKEN};
const smla_kv_layout layout_e4m3_one_scale = {.struct_size = sizeof(smla_kv_layout),
                                              .value_type = SMLA_VALUE_E4M3,
                                              .value_elems = 512,
                                              .scale_type = SMLA_SCALE_UE8M0,
                                              .scale_group = 512,
                                              .scale_bytes = 3,
                                              .tail_elems = 0,
                                              .place = SMLA_PLACE_PAGE};
const smla_kv_layout layout_bf16_page = {
    .struct_size = sizeof(smla_kv_layout), .value_type = SMLA_VALUE_BF16, .value_elems = 512, .place = SMLA_PLACE_PAGE};
