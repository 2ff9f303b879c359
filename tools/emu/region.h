/* Where an address lies: the piece of memory around it, its host bytes, and what its shadow says of an access. */
#ifndef EMU_REGION_H
#define EMU_REGION_H

#include "engine.h"

enum { EMU_WINDOW_BYTES = 1 << 28, EMU_BLOCK_WINDOW_BYTES = 1 << EMU_RANK_SHIFT };

/* A stretch of memory with one owner. Addresses are those that the instruction's space uses. */
struct emu_region {
    enum emu_space space; /* EMU_GLOBAL, EMU_SHARED_CLUSTER, EMU_LOCAL or EMU_PARAM: what it is, not how it was named */
    uint64_t low, high;   /* [low, high) */
    uint8_t *host;        /* of low; local memory: in lane 0 */
    size_t lane_stride;   /* local memory: from one lane's bytes to the next lane's; otherwise 0 */
    struct emu_cta *cta;  /* shared memory: whose */
    struct emu_allocation allocation; /* global memory: a copy, since the driver may move its table */
    bool read_only;
};

/* Generic addresses of local memory: the same in each lane, each with its own bytes behind them. */
uint64_t emu_local_window(void);

/* The generic address of an address in a space. */
uint64_t emu_generic_address(const struct emu_warp *warp, enum emu_space space, uint64_t address);

/* Finds the region that holds the byte at an address; false when nothing does. */
bool emu_region_find(struct emu_warp *warp, enum emu_space space, uint64_t address, struct emu_region *region);

/* Host bytes of an address inside the region. */
static inline uint8_t *emu_region_host(const struct emu_region *region, int lane, uint64_t address)
{
    return region->host + (lane < 0 ? 0 : (size_t)lane) * region->lane_stride + (address - region->low);
}

/* Records an access inside the region: initialised bits, races. `each`: bytes of one lane, when the access is a run of
 * several lanes starting at `lane`. False when the launch should end. */
bool emu_region_record(const struct emu_region *region, const struct emu_access *access, int lane, uint64_t address,
                       size_t size, size_t each, int touch);

/* Makes bytes count as never written again (discard). */
void emu_region_forget(const struct emu_region *region, uint64_t address, size_t size);

/* Reports why an access fits nowhere: what lies nearest and by how much it misses. */
void emu_region_fault(struct emu_warp *warp, const struct emu_instr *instr, int lane, enum emu_space space,
                      uint64_t address, size_t size, int touch);

/* Reports an address that is no multiple of `align`. */
void emu_alignment_fault(struct emu_warp *warp, const struct emu_instr *instr, int lane, enum emu_space space,
                         uint64_t address, size_t align);

/* Reports a write to kernel parameters. */
void emu_read_only_fault(struct emu_warp *warp, const struct emu_instr *instr, int lane, uint64_t address);

/* True when the shadow wants to hear of accesses. */
static inline bool emu_shadowed(uint32_t checks)
{
    return (checks & (EMU_CHECK_RACES | EMU_CHECK_PROXY | EMU_CHECK_PROXY_CP_ASYNC | EMU_CHECK_PROXY_WAR)) != 0;
}

#endif
