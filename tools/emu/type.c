/* The types of PTX: spelling and size (PTX ISA 5.2). */
#include "program.h"

#include <string.h>

static const struct {
    const char *name;
    int bits;
} types[EMU_TYPES] = {
    [EMU_NONE] = {"", 0},          [EMU_PRED] = {"pred", 1},
    [EMU_B8] = {"b8", 8},          [EMU_B16] = {"b16", 16},
    [EMU_B32] = {"b32", 32},       [EMU_B64] = {"b64", 64},
    [EMU_B128] = {"b128", 128},    [EMU_U8] = {"u8", 8},
    [EMU_U16] = {"u16", 16},       [EMU_U32] = {"u32", 32},
    [EMU_U64] = {"u64", 64},       [EMU_S8] = {"s8", 8},
    [EMU_S16] = {"s16", 16},       [EMU_S32] = {"s32", 32},
    [EMU_S64] = {"s64", 64},       [EMU_F16] = {"f16", 16},
    [EMU_F16X2] = {"f16x2", 32},   [EMU_BF16] = {"bf16", 16},
    [EMU_BF16X2] = {"bf16x2", 32}, [EMU_TF32] = {"tf32", 32},
    [EMU_F32] = {"f32", 32},       [EMU_F32X2] = {"f32x2", 64},
    [EMU_F64] = {"f64", 64},       [EMU_E4M3X2] = {"e4m3x2", 16},
    [EMU_E5M2X2] = {"e5m2x2", 16}, [EMU_UE8M0X2] = {"ue8m0x2", 16},
};

int emu_type_bits(enum emu_type type)
{
    return types[type].bits;
}

enum emu_type emu_type_find(const char *name)
{
    for (int type = EMU_PRED; type < EMU_TYPES; type++)
        if (!strcmp(types[type].name, name))
            return (enum emu_type)type;
    return EMU_NONE;
}
