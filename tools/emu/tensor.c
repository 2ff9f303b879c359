/* The permitted tensor instructions of sm_90a, and what their files share. */
#include "tensor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Opcodes ---- */

void emu_opcode_part(const struct emu_instr *instr, int at, char part[32])
{
    const char *text = instr->text;
    for (; at > 0 && text; at--) {
        text = strchr(text, '.');
        text = text ? text + 1 : NULL;
    }
    const size_t length = text ? strcspn(text, ".") : 0;
    snprintf(part, 32, "%.*s", (int)length, text ? text : "");
}

bool emu_opcode_has(const struct emu_instr *instr, const char *token)
{
    const size_t length = strlen(token);
    for (const char *text = strchr(instr->text, '.'); text; text = strchr(text + 1, '.'))
        if (strncmp(text + 1, token, length) == 0 && (text[1 + length] == '.' || text[1 + length] == '\0'))
            return true;
    return false;
}

int emu_opcode_find(const struct emu_instr *instr, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        if (emu_opcode_has(instr, names[i]))
            return i;
    return -1;
}

bool emu_tensor_refuse(const struct emu_bind *bind, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(bind->why, 256, format, arguments);
    va_end(arguments);
    return false;
}

const struct emu_operand *emu_vector_elements(const struct emu_operand *pool, const struct emu_operand *operand,
                                              int *count)
{
    const bool vector = operand->kind == EMU_OP_VECTOR;
    *count = vector ? operand->count : 1;
    return vector ? pool + operand->first : operand;
}

bool emu_whole_warp(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    if (mask == EMU_ALL_LANES)
        return true;
    emu_fault(warp, instr, -1, EMU_DIVERGENT, "%s needs all 32 lanes of the warp; lanes 0x%08x execute it", instr->text,
              (unsigned)mask);
    return false;
}

bool emu_uniform64(struct emu_warp *warp, const struct emu_instr *instr, const struct emu_operand *operand,
                   const char *name, uint64_t *value)
{
    uint64_t spare[EMU_LANES];
    const uint64_t *values = emu_source64(warp, operand, spare);
    for (int lane = 1; lane < EMU_LANES; lane++)
        if (values[lane] != values[0]) {
            emu_fault(warp, instr, lane, EMU_BAD_OPERAND,
                      "%s differs between lanes: 0x%llx in lane 0, 0x%llx in lane %d", name,
                      (unsigned long long)values[0], (unsigned long long)values[lane], lane);
            return false;
        }
    *value = values[0];
    return true;
}

/* ---- Elements ---- */

static const char *const number_names[] = {"f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8"};

enum emu_number emu_number_find(const char *name)
{
    int at = 0;
    while (at < EMU_NUMBERS && strcmp(number_names[at], name) != 0)
        at++;
    return (enum emu_number)at;
}

int emu_number_bytes(enum emu_number element)
{
    return element == EMU_N_TF32 ? 4 : element <= EMU_N_BF16 ? 2 : 1;
}

/* ---- Rows ---- */

/* Forms that PTX has and this device does not: refused with a reason rather than as unknown. */
bool emu_bind_refused(const struct emu_bind *bind)
{
    static const struct {
        const char *part, *why;
    } reasons[] = {
        {"tile::gather4", "gather4 into shared::cluster needs sm_100a (ISA 9.7.9.25.5.2)"},
        {"tile::scatter4", "scatter4 needs sm_100a (ISA 9.7.9.25.5.2)"},
        {"im2col", "im2col tensor copies are not emulated"},
        {"im2col_no_offs", "im2col tensor copies are not emulated"},
        {"b1", "single-bit matrices are not emulated"},
    };
    for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++)
        if (emu_opcode_has(bind->instr, reasons[i].part))
            return emu_tensor_refuse(bind, "%s", reasons[i].why);
    return emu_tensor_refuse(bind, "not emulated");
}

#define MBARRIER "mbarrier::complete_tx::bytes"

/* .tile stands before or behind the completion mechanism (both in ISA's examples). */
#define TENSOR_LOAD(to)                                                                                                \
    "cp.async.bulk.tensor.[1d,2d,3d,4d,5d]." to ".global.{tile}." MBARRIER ".{tile}.{multicast::cluster}.{L2::cache_"  \
    "hint}"
#define TENSOR_STORE(more) "cp." more "async.bulk.tensor.[1d,2d,3d,4d,5d].global.shared::cta"

static const struct emu_row rows[] = {
    /* wgmma */
    {"wgmma.mma_async.sync.aligned.m64n#k16.[f32,f16].f16.f16", "xsss?ssss", emu_bind_wgmma, "9.7.15.5.2"},
    {"wgmma.mma_async.sync.aligned.m64n#k16.f32.bf16.bf16", "xsss?ssss", emu_bind_wgmma, "9.7.15.5.2"},
    {"wgmma.mma_async.sync.aligned.m64n#k8.f32.tf32.tf32", "xsss?ss", emu_bind_wgmma, "9.7.15.5.2"},
    {"wgmma.mma_async.sync.aligned.m64n#k32.[f32,f16].[e4m3,e5m2].[e4m3,e5m2]", "xsss?ss", emu_bind_wgmma,
     "9.7.15.5.2"},
    {"wgmma.mma_async.sync.aligned.m64n#k32.{satfinite}.s32.[s8,u8].[s8,u8].{satfinite}", "xsss", emu_bind_wgmma,
     "9.7.15.5.2"},
    {"wgmma.mma_async.sync.aligned.m64n#k256.s32.b1.b1.and.popc", "xsss", emu_bind_refused, "9.7.15.5.2"},
    {"wgmma.fence.sync.aligned", "", emu_bind_wgmma_fence, "9.7.15.7.1"},
    {"wgmma.commit_group.sync.aligned", "", emu_bind_wgmma_commit, "9.7.15.7.2"},
    {"wgmma.wait_group.sync.aligned", "s", emu_bind_wgmma_wait, "9.7.15.7.3"},

    /* mma.sync */
    {"mma.sync.aligned.[m16n8k8,m16n8k16].row.col.f32.f16.f16.f32", "dsss", emu_bind_mma, "9.7.14.5.14"},
    {"mma.sync.aligned.[m16n8k8,m16n8k16].row.col.f16.f16.f16.f16", "dsss", emu_bind_mma, "9.7.14.5.14"},
    {"mma.sync.aligned.[m16n8k8,m16n8k16].row.col.f32.bf16.bf16.f32", "dsss", emu_bind_mma, "9.7.14.5.14"},
    {"mma.sync.aligned.[m16n8k4,m16n8k8].row.col.f32.tf32.tf32.f32", "dsss", emu_bind_mma, "9.7.14.5.14"},
    {"mma.sync.aligned.[m16n8k16,m16n8k32].row.col.f32.[e4m3,e5m2].[e4m3,e5m2].f32", "dsss", emu_bind_mma,
     "9.7.14.5.14"},
    {"mma.sync.aligned.[m16n8k16,m16n8k32].row.col.{satfinite}.s32.[s8,u8].[s8,u8].s32", "dsss", emu_bind_mma,
     "9.7.14.5.14"},

    /* Matrices between shared memory and registers */
    {"ldmatrix.sync.aligned.m8n8.[x1,x2,x4].{trans}.{shared,shared::cta}.b16", "dm", emu_bind_ldmatrix, "9.7.14.5.15"},
    {"stmatrix.sync.aligned.m8n8.[x1,x2,x4].{trans}.{shared,shared::cta}.b16", "ms", emu_bind_stmatrix, "9.7.14.5.16"},
    /* Not ISA's order, but ptxas takes it and CUTLASS writes it. */
    {"ldmatrix.sync.aligned.[x1,x2,x4].{trans}.m8n8.{shared,shared::cta}.b16", "dm", emu_bind_ldmatrix, "9.7.14.5.15"},
    {"stmatrix.sync.aligned.[x1,x2,x4].{trans}.m8n8.{shared,shared::cta}.b16", "ms", emu_bind_stmatrix, "9.7.14.5.16"},
    {"movmatrix.sync.aligned.m8n8.trans.b16", "ds", emu_bind_movmatrix, "9.7.14.5.17"},

    /* Bulk copies */
    {"cp.async.bulk.[shared::cluster,shared::cta].global." MBARRIER ".{multicast::cluster}.{L2::cache_hint}", "mmsm?ss",
     emu_bind_bulk_load, "9.7.9.25.4.1"},
    {"cp.async.bulk.shared::cluster.shared::cta." MBARRIER, "mmsm", emu_bind_bulk_peer, "9.7.9.25.4.1"},
    {"cp.async.bulk.global.shared::cta.bulk_group.{L2::cache_hint}", "mms?s", emu_bind_bulk_store, "9.7.9.25.4.1"},
    {"cp.reduce.async.bulk.global.shared::cta.bulk_group.{L2::cache_hint}.[add,min,max,inc,dec,and,or,xor].{noftz}."
     "[f16,bf16,b32,u32,s32,b64,u64,s64,f32,f64]",
     "mms?s", emu_bind_bulk_store, "9.7.9.25.4.2"},
    {"cp.reduce.async.bulk.shared::cluster.shared::cta." MBARRIER ".[add,min,max,inc,dec,and,or,xor].[b32,u32,s32,u64]",
     "mmsm", emu_bind_bulk_peer, "9.7.9.25.4.2"},
    {"cp.async.bulk.prefetch.L2.global.{L2::cache_hint}", "ms?s", emu_bind_bulk_prefetch, "9.7.9.25.4.3"},
    {"cp.async.bulk.commit_group", "", emu_bind_bulk_commit, "9.7.9.25.6.1"},
    {"cp.async.bulk.wait_group.{read}", "s", emu_bind_bulk_wait, "9.7.9.25.6.2"},

    /* Tensor copies */
    {TENSOR_LOAD("[shared::cluster,shared::cta]"), "mtm?ss", emu_bind_tensor_load, "9.7.9.25.5.2"},
    {TENSOR_STORE("") ".{tile}.bulk_group.{tile}.{L2::cache_hint}", "tm?s", emu_bind_tensor_store, "9.7.9.25.5.2"},
    {TENSOR_STORE("reduce.") ".[add,min,max,inc,dec,and,or,xor].{tile}.bulk_group.{L2::cache_hint}", "tm?s",
     emu_bind_tensor_store, "9.7.9.25.5.3"},
    {"cp.async.bulk.prefetch.tensor.[1d,2d,3d,4d,5d].L2.global.{tile}.{L2::cache_hint}", "t?s",
     emu_bind_tensor_prefetch, "9.7.9.25.5.4"},
    {"cp.async.bulk.tensor.2d.[shared::cluster,shared::cta].global.tile::gather4." MBARRIER
     ".{multicast::cluster}.{cta_group::1,cta_group::2}.{L2::cache_hint}",
     "mtm?ss", emu_bind_refused, "9.7.9.25.5.2"},
    {"cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group.{L2::cache_hint}", "tm?s", emu_bind_refused,
     "9.7.9.25.5.2"},
    {"cp.async.bulk.tensor.[3d,4d,5d].[shared::cluster,shared::cta].global.im2col." MBARRIER
     ".{multicast::cluster}.{L2::cache_hint}",
     "mtm?sss", emu_bind_refused, "9.7.9.25.5.2"},
    {"cp.async.bulk.tensor.[3d,4d,5d].global.shared::cta.im2col_no_offs.bulk_group.{L2::cache_hint}", "tm?s",
     emu_bind_refused, "9.7.9.25.5.2"},

    /* Tensor maps that a kernel makes */
    {"tensormap.replace.tile.[global_address,rank,box_dim,global_dim,global_stride,element_stride,elemtype,"
     "interleave_layout,swizzle_mode,fill_mode].[global,shared::cta].b1024.[b32,b64]",
     "ms?s", emu_bind_map_replace, "9.7.9.26"},
    {"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.[cta,cluster,gpu,sys].sync.aligned", "mms",
     emu_bind_map_copy, "9.7.13.16"},
    {"fence.proxy.tensormap::generic.[release,acquire].[cta,cluster,gpu,sys]", "?ms", emu_bind_map_fence, "9.7.13.4"},

    /* To another block's shared memory */
    {"st.async.{weak}.{shared::cluster}." MBARRIER ".{v2,v4}.[b32,b64,u32,u64,s32,s64,f32,f64]", "msm",
     emu_bind_st_async, "9.7.9.12"},
    {"red.async.relaxed.cluster.{shared::cluster}." MBARRIER ".[add,min,max,inc,dec,and,or,xor].[b32,u32,s32,u64]",
     "msm", emu_bind_red_async, "9.7.13.7"},
};

const struct emu_row_list emu_tensor_rows = {rows, sizeof(rows) / sizeof(*rows)};
