/* Memory as an instruction sees it: which bytes an address means in its space, and whether it may be touched. */
#include "memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>

#include "engine.h"
#include "memory_lanes.h"
#include "race.h"
#include "region.h"

/* ---- Windows ---- */

/* Shared memory's window and behind it local memory's, both 2^28 bytes. Nothing is ever mapped there: the range is
 * reserved so that no host address, hence no global address, lies in it. The kernels rely on the shared window being
 * 2^28-aligned: they flip bits 24 and up of generic addresses to reach other blocks (facts/emulation.md 2.2). */
static uint64_t windows;
static pthread_once_t windows_once = PTHREAD_ONCE_INIT;

static void reserve_windows(void)
{
    size_t bytes = (size_t)3 * EMU_WINDOW_BYTES; /* two, and room to align */
    void *range = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) {
        windows = UINT64_C(1) << 62; /* no host address of a process either: not canonical */
        return;
    }
    uint64_t start = (uint64_t)(uintptr_t)range;
    windows = (start + EMU_WINDOW_BYTES - 1) & ~(uint64_t)(EMU_WINDOW_BYTES - 1);
}

uint64_t emu_shared_window(void)
{
    pthread_once(&windows_once, reserve_windows);
    return windows;
}

uint64_t emu_local_window(void)
{
    return emu_shared_window() + EMU_WINDOW_BYTES;
}

static uint64_t param_start(const struct emu_warp *warp)
{
    return (uint64_t)(uintptr_t)warp->cta->launch->params;
}

uint64_t emu_generic_address(const struct emu_warp *warp, enum emu_space space, uint64_t address)
{
    switch (space) {
    case EMU_SHARED_CTA:
    case EMU_SHARED_CLUSTER:
        return emu_shared_window() + address;
    case EMU_LOCAL:
        return emu_local_window() + address;
    case EMU_PARAM:
        return param_start(warp) + address;
    default:
        return address; /* global and const addresses are host addresses as they are */
    }
}

/* ---- Bits: which bytes have been written ---- */

static uint32_t bits_between(size_t first, size_t end)
{
    uint32_t from = UINT32_MAX << (first % 32);
    return end - first / 32 * 32 >= 32 ? from : from & ~(UINT32_MAX << (end % 32));
}

/* Other clusters run on other host threads and may mark the same word. */
static void bits_set(uint32_t *bits, size_t first, size_t end)
{
    for (; first < end; first = (first / 32 + 1) * 32) {
        uint32_t mask = bits_between(first, end);
        if ((__atomic_load_n(&bits[first / 32], __ATOMIC_RELAXED) & mask) != mask) {
            __atomic_fetch_or(&bits[first / 32], mask, __ATOMIC_RELAXED);
        }
    }
}

static void bits_clear(uint32_t *bits, size_t first, size_t end)
{
    for (; first < end; first = (first / 32 + 1) * 32) {
        __atomic_fetch_and(&bits[first / 32], ~bits_between(first, end), __ATOMIC_RELAXED);
    }
}

/* The first clear bit of [first, end), or end. */
static size_t bits_first_clear(const uint32_t *bits, size_t first, size_t end)
{
    for (; first < end; first = (first / 32 + 1) * 32) {
        uint32_t clear = ~__atomic_load_n(&bits[first / 32], __ATOMIC_RELAXED) & bits_between(first, end);
        if (clear != 0) {
            return first / 32 * 32 + (size_t)__builtin_ctz(clear);
        }
    }
    return end;
}

/* ---- Shared addresses ---- */

/* An address relative to the window; UINT64_MAX when it is none of shared memory. */
static uint64_t window_address(enum emu_space space, uint64_t address)
{
    uint64_t relative = space == EMU_GENERIC ? address - emu_shared_window() : address;
    return relative < EMU_WINDOW_BYTES ? relative : UINT64_MAX;
}

bool emu_shared_locate(struct emu_warp *warp, enum emu_space space, uint64_t address, struct emu_cta **cta,
                       uint32_t *offset)
{
    uint64_t relative = window_address(space, address);
    uint64_t rank = relative >> EMU_RANK_SHIFT;
    struct emu_cluster *cluster = warp->cta->cluster;
    if (relative == UINT64_MAX || rank >= (uint64_t)cluster->cta_count) {
        return false;
    }
    if (space == EMU_SHARED_CTA && rank != warp->cta->rank) {
        return false; /* .shared::cta is the window of the executing block alone (ISA 5.1.7) */
    }
    *cta = &cluster->ctas[rank];
    *offset = (uint32_t)(relative % EMU_BLOCK_WINDOW_BYTES);
    return true;
}

/* ---- Regions ---- */

static bool shared_region(struct emu_warp *warp, enum emu_space space, uint64_t address, struct emu_region *region)
{
    struct emu_cta *cta = NULL;
    uint32_t offset = 0;
    /* The system keeps the first KiB of each block's window for itself. */
    if (!emu_shared_locate(warp, space, address, &cta, &offset) || offset < EMU_SHARED_RESERVED ||
        offset >= cta->shared.size) {
        return false;
    }
    region->space = EMU_SHARED_CLUSTER;
    region->low = address - offset + EMU_SHARED_RESERVED;
    region->high = address - offset + cta->shared.size;
    region->host = cta->shared.bytes + EMU_SHARED_RESERVED;
    region->cta = cta;
    return true;
}

static bool local_region(struct emu_warp *warp, uint64_t window, uint64_t address, struct emu_region *region)
{
    uint64_t bytes = warp->cta->launch->kernel->local_bytes;
    region->space = EMU_LOCAL;
    region->low = window;
    region->high = window + bytes;
    region->host = warp->local;
    region->lane_stride = bytes;
    return address - window < bytes;
}

static bool param_region(struct emu_warp *warp, uint64_t start, uint64_t address, struct emu_region *region)
{
    const struct emu_launch *launch = warp->cta->launch;
    region->space = EMU_PARAM;
    region->low = start;
    region->high = start + launch->kernel->param_bytes;
    region->host = (uint8_t *)(uintptr_t)param_start(warp);
    region->read_only = true;
    return address - start < launch->kernel->param_bytes;
}

static bool global_region(struct emu_warp *warp, uint64_t address, struct emu_region *region)
{
    struct emu_allocation *allocation = emu_memory_find(warp->cta->cluster->memory, address, 1);
    if (allocation == NULL) {
        return false;
    }
    region->space = EMU_GLOBAL;
    region->allocation = *allocation;
    region->low = allocation->address;
    region->high = allocation->address + allocation->size;
    region->host = (uint8_t *)(uintptr_t)allocation->address;
    return true;
}

/* Generic addressing: shared and local windows, and global memory with kernel parameters in it (ISA 6.4.1.1). */
static bool generic_region(struct emu_warp *warp, uint64_t address, struct emu_region *region)
{
    if (address - emu_shared_window() < EMU_WINDOW_BYTES) {
        return shared_region(warp, EMU_GENERIC, address, region);
    }
    if (address - emu_local_window() < EMU_WINDOW_BYTES) {
        return local_region(warp, emu_local_window(), address, region);
    }
    if (address - param_start(warp) < warp->cta->launch->kernel->param_bytes) {
        return param_region(warp, param_start(warp), address, region);
    }
    return global_region(warp, address, region);
}

bool emu_region_find(struct emu_warp *warp, enum emu_space space, uint64_t address, struct emu_region *region)
{
    region->lane_stride = 0;
    region->cta = NULL;
    region->read_only = false;
    switch (space) {
    case EMU_SHARED_CTA:
    case EMU_SHARED_CLUSTER:
        return shared_region(warp, space, address, region);
    case EMU_LOCAL:
        return local_region(warp, 0, address, region);
    case EMU_PARAM:
        return param_region(warp, 0, address, region);
    case EMU_GLOBAL:
        /* Kernel parameters lie in the global window as well (ISA 9.7.9.19). */
        if (address - param_start(warp) < warp->cta->launch->kernel->param_bytes) {
            return param_region(warp, param_start(warp), address, region);
        }
        return global_region(warp, address, region);
    case EMU_CONST:
        return global_region(warp, address, region);
    default:
        return generic_region(warp, address, region);
    }
}

/* ---- Faults ---- */

/* The allocation with the highest start at or below an address, for a message; false when there is none. */
static bool allocation_below(struct emu_memory *memory, uint64_t address, struct emu_allocation *below)
{
    bool found = false;
    pthread_mutex_lock(&memory->lock);
    for (size_t i = 0; i < memory->count; i++) {
        const struct emu_allocation *one = &memory->allocations[i];
        if (one->address <= address && (!found || one->address >= below->address)) {
            *below = *one;
            found = true;
        }
    }
    pthread_mutex_unlock(&memory->lock);
    return found;
}

static void describe_global(struct emu_warp *warp, uint64_t address, size_t size, char *text, size_t room)
{
    struct emu_allocation below = {0};
    if (address < 4096) {
        snprintf(text, room, "a null pointer");
        return;
    }
    if (address - emu_shared_window() < 2 * (uint64_t)EMU_WINDOW_BYTES) {
        snprintf(text, room, "a generic address of shared or local memory, not of global memory");
        return;
    }
    if (!allocation_below(warp->cta->cluster->memory, address, &below)) {
        snprintf(text, room, "below every allocation");
        return;
    }
    uint64_t end = below.address + below.size;
    snprintf(text, room, "up to %" PRIu64 " bytes past the end of %s (%zu bytes at 0x%" PRIx64 ")",
             address + size - end, below.what ? below.what : "an allocation", below.size, below.address);
}

static void describe_shared(struct emu_warp *warp, enum emu_space space, uint64_t address, size_t size, char *text,
                            size_t room)
{
    uint64_t relative = window_address(space, address);
    if (relative == UINT64_MAX) {
        snprintf(text, room, "outside the window of shared memory");
        return;
    }
    uint64_t rank = relative >> EMU_RANK_SHIFT, offset = relative % EMU_BLOCK_WINDOW_BYTES;
    if (rank >= (uint64_t)warp->cta->cluster->cta_count) {
        snprintf(text, room, "shared memory of block rank %" PRIu64 ", in a cluster of %d", rank,
                 warp->cta->cluster->cta_count);
    } else if (space == EMU_SHARED_CTA && rank != warp->cta->rank) {
        snprintf(text, room, "shared memory of block rank %" PRIu64 ", but shared::cta reaches only its own, rank %u",
                 rank, warp->cta->rank);
    } else if (offset < EMU_SHARED_RESERVED) {
        snprintf(text, room, "offset %" PRIu64 " of shared memory, in the system's first %d bytes", offset,
                 EMU_SHARED_RESERVED);
    } else {
        uint64_t have = warp->cta->cluster->ctas[rank].shared.size;
        snprintf(text, room,
                 "offset %" PRIu64 " of shared memory of block rank %" PRIu64 " (%" PRIu64
                 " behind the system's part), up to %" PRIu64 " bytes past its end (%" PRIu64 " bytes)",
                 offset, rank, offset - EMU_SHARED_RESERVED, offset + size - have, have);
    }
}

static void describe(struct emu_warp *warp, enum emu_space space, uint64_t address, size_t size, char *text,
                     size_t room)
{
    const struct emu_kernel *kernel = warp->cta->launch->kernel;
    bool generic = space == EMU_GENERIC;
    if (space == EMU_SHARED_CTA || space == EMU_SHARED_CLUSTER ||
        (generic && address - emu_shared_window() < EMU_WINDOW_BYTES)) {
        describe_shared(warp, space, address, size, text, room);
    } else if (space == EMU_LOCAL || (generic && address - emu_local_window() < EMU_WINDOW_BYTES)) {
        snprintf(text, room, "outside the thread's %" PRIu64 " bytes of local memory", kernel->local_bytes);
    } else if (space == EMU_PARAM) {
        snprintf(text, room, "outside the kernel's %u bytes of parameters", kernel->param_bytes);
    } else {
        describe_global(warp, address, size, text, room);
    }
}

static const char *verb_of(int touch)
{
    return touch == EMU_READ ? "reads" : touch == EMU_WRITE ? "writes" : touch == 0 ? "names" : "updates";
}

static const char *text_of(const struct emu_instr *instr)
{
    return instr != NULL && instr->text != NULL ? instr->text : "an access";
}

void emu_region_fault(struct emu_warp *warp, const struct emu_instr *instr, int lane, enum emu_space space,
                      uint64_t address, size_t size, int touch)
{
    char where[256];
    describe(warp, space, address, size, where, sizeof where);
    emu_fault(warp, instr, lane, EMU_OUT_OF_BOUNDS, "%s %s %zu bytes at 0x%" PRIx64 ": %s", text_of(instr),
              verb_of(touch), size, address, where);
}

void emu_alignment_fault(struct emu_warp *warp, const struct emu_instr *instr, int lane, enum emu_space space,
                         uint64_t address, size_t align)
{
    static const char *const names[] = {"generic", "global",           "shared::cta", "shared::cluster",
                                        "local",   "kernel parameter", "const"};
    emu_fault(warp, instr, lane, EMU_MISALIGNED_ACCESS, "%s at %s address 0x%" PRIx64 ", which is no multiple of %zu",
              text_of(instr), names[space], address, align);
}

void emu_read_only_fault(struct emu_warp *warp, const struct emu_instr *instr, int lane, uint64_t address)
{
    emu_fault(warp, instr, lane, EMU_OUT_OF_BOUNDS,
              "%s writes at 0x%" PRIx64 ", a kernel parameter: they are read only", text_of(instr), address);
}

/* ---- Recording ---- */

/* The written bits behind a region: one a byte in shared memory, one for 4 bytes in global memory. */
struct written {
    uint32_t *bits; /* NULL: not tracked */
    uint64_t start; /* address of the first bit's byte */
    unsigned unit;  /* bytes a bit */
};

static struct written written_of(const struct emu_region *region)
{
    struct written written = {.unit = 1};
    if (region->space == EMU_SHARED_CLUSTER) {
        written.bits = region->cta->shared.written;
        written.start = region->low - EMU_SHARED_RESERVED;
    } else if (region->space == EMU_GLOBAL) {
        written.bits = region->allocation.written;
        written.start = region->low;
        written.unit = 4;
    }
    return written;
}

static size_t first_bit(const struct written *written, uint64_t address)
{
    return (size_t)((address - written->start) / written->unit);
}

static size_t end_bit(const struct written *written, uint64_t address, size_t size)
{
    return (size_t)((address - written->start + size - 1) / written->unit + 1);
}

static size_t count_clear(const uint32_t *bits, size_t first, size_t end)
{
    size_t count = 0;
    for (; first < end; first++) {
        count += (bits[first / 32] >> (first % 32) & 1u) == 0;
    }
    return count;
}

/* Reports the first byte of a read that nothing has written, and how many there are. */
static void report_unwritten(const struct emu_region *region, const struct written *written,
                             const struct emu_access *access, int lane, uint64_t address, size_t size, size_t each,
                             size_t clear)
{
    uint64_t at = written->start + clear * written->unit;
    at = at < address ? address : at;
    size_t missing = count_clear(written->bits, clear, end_bit(written, address, size)) * written->unit;
    int who = each != 0 && each < size && lane >= 0 ? lane + (int)((at - address) / each) : lane;
    if (region->space == EMU_SHARED_CLUSTER) {
        emu_find(access->warp, access->instr, who, EMU_UNINITIALISED,
                 "%s reads shared memory of block rank %u at offset %" PRIu64 " (%" PRIu64
                 " behind the system's part): %zu of %zu bytes were never written",
                 text_of(access->instr), region->cta->rank, at - written->start,
                 at - written->start - EMU_SHARED_RESERVED, missing < size ? missing : size, size);
        return;
    }
    emu_find(access->warp, access->instr, who, EMU_UNINITIALISED,
             "%s reads 0x%" PRIx64 ", byte %" PRIu64 " of %s (%zu bytes): %zu of %zu bytes were never written",
             text_of(access->instr), at, at - written->start,
             region->allocation.what ? region->allocation.what : "an allocation", region->allocation.size,
             missing < size ? missing : size, size);
}

static void record_written(const struct emu_region *region, const struct emu_access *access, int lane, uint64_t address,
                           size_t size, size_t each, int touch)
{
    struct written written = written_of(region);
    if (written.bits == NULL || size == 0) {
        return;
    }
    size_t first = first_bit(&written, address), end = end_bit(&written, address, size);
    if (touch & EMU_READ) {
        size_t clear = bits_first_clear(written.bits, first, end);
        if (clear != end) {
            report_unwritten(region, &written, access, lane, address, size, each, clear);
        }
    }
    if (touch & EMU_WRITE) {
        bits_set(written.bits, first, end);
    }
}

/* Of a launch that may start while the one ahead of it still runs: global memory is not to be touched yet. */
static void check_grid(const struct emu_region *region, const struct emu_access *access, int lane, uint64_t address,
                       size_t size, size_t each, int touch)
{
    const uint32_t count = each != 0 && each < size ? (uint32_t)(size / each) : 1;
    const uint32_t lanes = lane < 0 || count >= EMU_LANES ? EMU_ALL_LANES : ((1u << count) - 1) << lane;
    const uint32_t early = lanes & ~access->grid_waited;
    if (early == 0) {
        return;
    }
    emu_find(access->warp, access->instr, lane < 0 ? -1 : emu_first_lane(early), EMU_RACE,
             "%s %s 0x%" PRIx64 ", byte %" PRIu64
             " of %s, before griddepcontrol.wait: the launch ahead of it may still %s",
             text_of(access->instr), verb_of(touch), address, address - region->low,
             region->allocation.what ? region->allocation.what : "an allocation",
             touch == EMU_READ ? "write there" : "use what is there");
}

bool emu_region_record(const struct emu_region *region, const struct emu_access *access, int lane, uint64_t address,
                       size_t size, size_t each, int touch)
{
    uint32_t checks = access->warp->cta->options->checks;
    int shadow_lane = each != 0 && each < size ? -1 : lane;
    if (checks & EMU_CHECK_UNINITIALISED) {
        record_written(region, access, lane, address, size, each, touch);
    }
    if (region->space == EMU_GLOBAL && access->warp->cta->launch->dependent && (checks & EMU_CHECK_GRID)) {
        check_grid(region, access, lane, address, size, each, touch);
    }
    if (!emu_shadowed(checks)) {
        return true;
    }
    if (region->space == EMU_SHARED_CLUSTER) {
        uint32_t offset = (uint32_t)(address - region->low) + EMU_SHARED_RESERVED;
        if (access->lane_bytes != 0) { /* the shadow tells the run's lanes apart */
            shadow_lane = lane;
        }
        return emu_shadow_shared(region->cta, access, shadow_lane, offset, (uint32_t)size, touch);
    }
    if (region->space == EMU_GLOBAL) {
        return emu_shadow_global(access->warp, access, shadow_lane, address, size, touch);
    }
    return true; /* local memory and parameters are seen by nobody else */
}

void emu_region_forget(const struct emu_region *region, uint64_t address, size_t size)
{
    struct written written = written_of(region);
    if (written.bits != NULL) {
        bits_clear(written.bits, first_bit(&written, address), end_bit(&written, address, size));
    }
}

/* ---- One access ---- */

uint8_t *emu_touch(struct emu_warp *warp, const struct emu_access *access, int lane, enum emu_space space,
                   uint64_t address, size_t size, size_t align, int touch)
{
    struct emu_region region;
    if (!emu_region_find(warp, space, address, &region) || size > region.high - address) {
        emu_region_fault(warp, access->instr, lane, space, address, size, touch);
        return NULL;
    }
    /* The driver may keep a launch's parameters anywhere: what counts is the place among them. */
    uint64_t place = region.space == EMU_PARAM ? address - region.low : address;
    if (align > 1 && place % align != 0) {
        emu_alignment_fault(warp, access->instr, lane, space, address, align);
        return NULL;
    }
    if (region.read_only && (touch & EMU_WRITE)) {
        emu_read_only_fault(warp, access->instr, lane, address);
        return NULL;
    }
    if (warp->cta->options->checks != 0 && touch != 0) {
        struct emu_access own = *access;
        own.warp = warp;
        if (!emu_region_record(&region, &own, lane, address, size, size, touch)) {
            return NULL;
        }
    }
    return emu_region_host(&region, lane, address);
}

uint8_t *emu_touch_shared(struct emu_cta *cta, const struct emu_access *access, int lane, uint32_t offset,
                          uint32_t size, int touch)
{
    uint64_t address = ((uint64_t)cta->rank << EMU_RANK_SHIFT) + offset;
    if (offset < EMU_SHARED_RESERVED || offset > cta->shared.size || size > cta->shared.size - offset) {
        emu_region_fault(access->warp, access->instr, lane, EMU_SHARED_CLUSTER, address, size, touch);
        return NULL;
    }
    if (cta->options->checks != 0) {
        struct emu_region region = {.space = EMU_SHARED_CLUSTER, .cta = cta};
        region.low = address - offset + EMU_SHARED_RESERVED;
        if (!emu_region_record(&region, access, lane, address, size, size, touch)) {
            return NULL;
        }
    }
    return cta->shared.bytes + offset;
}
