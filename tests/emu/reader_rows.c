#include "reader_rows.h"

#include <stdio.h>
#include <string.h>

#include "engine.h"

static enum emu_action nothing(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    (void)warp, (void)instr, (void)mask;
    return EMU_NEXT;
}

static bool bind_nothing(const struct emu_bind *bind)
{
    bind->instr->exec = nothing;
    return true;
}

static bool bind_refused(const struct emu_bind *bind)
{
    snprintf(bind->why, 256, "refused for a test");
    return false;
}

static const struct emu_row rows[] = {
    {"mov.[b16,b32,b64,u32,u64,f32,f64,pred]", "ds", bind_nothing, NULL},
    {"add.{rn,rz}.{ftz}.[s32,u32,s64,f32,f64]", "dss", bind_nothing, NULL},
    {"setp.[lt,eq].[s32,f32]", "dss", bind_nothing, NULL},
    {"ld.[global,shared,param,local].{v2,v4}.[b8,b32,b64,u32,u64,s32,f32]", "dm", bind_nothing, NULL},
    {"st.[global,shared,local,param].{v2,v4}.[b8,b32,b64,u32,f32]", "ms", bind_nothing, NULL},
    {"shfl.sync.[bfly,idx].b32", "dssss", bind_nothing, NULL},
    {"bar.sync", "s?s", bind_nothing, NULL},
    {"bra.{uni}", "l", bind_nothing, NULL},
    {"ret.{uni}", "", bind_nothing, NULL},
    {"exit", "", bind_nothing, NULL},
    {"brev.b32", "ds", bind_refused, NULL},
    {"wgmma.mma_async.sync.aligned.m64n#k16.f32.bf16.bf16", "xsss?ssss", bind_nothing, NULL},
    {"wgmma.wait_group.sync.aligned", "s", bind_nothing, NULL},
    {"cp.async.bulk.tensor.[1d,2d].shared::cluster.global.mbarrier::complete_tx::bytes", "mtm", bind_nothing, NULL},
};
static const struct emu_row_list list = {rows, sizeof rows / sizeof *rows};
const struct emu_row_list *const reader_rows[1] = {&list};

struct emu_module *load_small(const char *text, char why[512])
{
    return emu_module_load_rows(text, strlen(text), reader_rows, 1, why);
}

/* call.c's; nothing is executed here. */
enum emu_action emu_fault(struct emu_warp *warp, const struct emu_instr *instr, int lane, enum emu_finding_kind kind,
                          const char *format, ...)
{
    (void)warp, (void)instr, (void)lane, (void)kind, (void)format;
    return EMU_FAULT;
}
