/* The shadow: who wrote and read each cell last, and what happened before what.
 *
 * Agents are what acts in order: each warp; and, beside it, its cp.async copies, its wgmma, its bulk copies. An agent
 * carries a vector clock V (what happened before its next action) and AV, the part of V that its next asynchronous
 * action may rely on when it reads generic writes: fence.proxy.async sets AV = V. Barriers and mbarriers carry both
 * from who arrives to who waits (facts/emulation.md 6.1). */
#ifndef EMU_RACE_H
#define EMU_RACE_H

#include "engine.h"

enum { EMU_CELL_BYTES = 4 };

/* Records an access to shared memory and reports a conflict. False when the launch should end (too many findings). */
bool emu_shadow_shared(struct emu_cta *cta, const struct emu_access *access, int lane, uint32_t offset, uint32_t size,
                       int touch);

/* The same for global memory. */
bool emu_shadow_global(struct emu_warp *warp, const struct emu_access *access, int lane, uint64_t address, size_t size,
                       int touch);

#endif
