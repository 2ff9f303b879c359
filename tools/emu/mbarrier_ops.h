/* Bind functions of mbarrier; their rows stand in sync_ops.c. */
#ifndef EMU_MBARRIER_OPS_H
#define EMU_MBARRIER_OPS_H

#include "state.h"

bool emu_bind_mbarrier_init(const struct emu_bind *bind);
bool emu_bind_mbarrier_inval(const struct emu_bind *bind);
bool emu_bind_mbarrier_arrive(const struct emu_bind *bind);
bool emu_bind_mbarrier_tx(const struct emu_bind *bind);
bool emu_bind_mbarrier_wait(const struct emu_bind *bind);
bool emu_bind_mbarrier_pending(const struct emu_bind *bind);

#endif
