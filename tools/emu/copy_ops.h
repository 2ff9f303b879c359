/* Bind functions of cp.async; their rows stand in sync_ops.c. */
#ifndef EMU_COPY_OPS_H
#define EMU_COPY_OPS_H

#include "state.h"

bool emu_bind_cp_async(const struct emu_bind *bind);
bool emu_bind_cp_async_hint(const struct emu_bind *bind);
bool emu_bind_cp_async_commit(const struct emu_bind *bind);
bool emu_bind_cp_async_wait(const struct emu_bind *bind);
bool emu_bind_cp_async_wait_all(const struct emu_bind *bind);
bool emu_bind_cp_async_arrive(const struct emu_bind *bind);

#endif
