/* A warp's access at once: 32 addresses, one look into the allocation map where they lie together. */
#ifndef EMU_MEMORY_LANES_H
#define EMU_MEMORY_LANES_H

#include "engine.h"

struct emu_lanes {
    uint64_t address[EMU_LANES];
    uint8_t *host[EMU_LANES]; /* of the lanes in the mask */
    bool contiguous;          /* 32 lanes, each `size` bytes behind the one before, in host memory too */
};

/* How an instruction accesses memory; bind works it out (ld, st, atom, red). */
struct emu_access_shape {
    enum emu_space space;
    uint32_t size; /* bytes a lane, vector included; also the alignment (ISA 6.4.1: naturally aligned) */
    int touch;     /* enum emu_touch */
    bool strong;   /* not .weak: unordered among each other without being a race (ISA 8.5) */
};

/* The addresses of an EMU_OP_ADDRESS in all lanes. */
void emu_lane_addresses(struct emu_warp *warp, const struct emu_operand *operand, uint64_t address[EMU_LANES]);

/* Checks and records the access of the lanes in `mask` at lanes->address; fills in lanes->host, and the addresses of
 * the other lanes with one of theirs. False after a fault. */
bool emu_touch_lanes(struct emu_warp *warp, const struct emu_instr *instr, const struct emu_access_shape *shape,
                     uint32_t mask, struct emu_lanes *lanes);

/* The lowest lane of a mask that is not 0. */
static inline int emu_first_lane(uint32_t mask)
{
    return __builtin_ctz(mask);
}

#endif
