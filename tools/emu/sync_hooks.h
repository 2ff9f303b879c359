/* What strong memory instructions tell the race checker about order between warps (ISA 8.7, 8.8: release and acquire
 * patterns). Addresses are generic. Called once for each distinct address of a warp's instruction. */
#ifndef EMU_SYNC_HOOKS_H
#define EMU_SYNC_HOOKS_H

#include "engine.h"

/* st.release, atom and red with .release or .acq_rel: before the write. */
void emu_sync_release(struct emu_warp *warp, uint64_t address);

/* ld.acquire, atom with .acquire or .acq_rel: after the read. */
void emu_sync_acquire(struct emu_warp *warp, uint64_t address);

/* A relaxed, volatile or mmio access. Orders nothing by itself, but a fence before such a write makes the pair a
 * release pattern, and a fence behind such a read an acquire pattern. touch: enum emu_touch. After the access. */
void emu_sync_relaxed(struct emu_warp *warp, uint64_t address, int touch);

/* A fence at any scope. kinds: EMU_FENCE_*. */
enum { EMU_FENCE_RELEASE = 1, EMU_FENCE_ACQUIRE = 2 };
void emu_sync_fence(struct emu_warp *warp, int kinds);

#endif
