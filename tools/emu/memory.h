/* Memory as a kernel sees it: device allocations at host addresses, a window for shared memory, a shadow of both that
 * knows what was written, by whom, and in what order. */
#ifndef EMU_MEMORY_H
#define EMU_MEMORY_H

#include <pthread.h>

#include "program.h"

struct emu_cta;

/* ---- Global memory ---- */

struct emu_allocation {
    uint64_t address;
    size_t size;
    uint32_t *written; /* one bit for each 4 bytes: initialised */
    const char *what;  /* "cuMemAlloc", "module variables", … */
    bool owned;        /* by emu_memory_alloc */
};

/* All allocations of the process, sorted by address. The driver changes it, launches read it: finding takes no lock, so
 * the driver changes nothing while a launch runs. */
struct emu_memory {
    pthread_mutex_t lock;
    struct emu_allocation *allocations;
    size_t count, capacity;
    struct emu_global_shadow *shadow; /* race.c: of the launch that runs */
};

struct emu_memory *emu_memory_create(void);
void emu_memory_destroy(struct emu_memory *memory);
/* 512-byte aligned zero-size-safe device memory; 0 when there is none. */
uint64_t emu_memory_alloc(struct emu_memory *memory, size_t size, const char *what);
/* False when the address is not the start of an allocation. */
bool emu_memory_free(struct emu_memory *memory, uint64_t address);
/* Registers memory that the driver owns otherwise (module variables). */
bool emu_memory_add(struct emu_memory *memory, uint64_t address, size_t size, const char *what);
void emu_memory_remove(struct emu_memory *memory, uint64_t address);
/* The allocation that holds [address, address + size), or NULL. */
struct emu_allocation *emu_memory_find(struct emu_memory *memory, uint64_t address, size_t size);
/* Marks host-written bytes (copies, memsets) as initialised. */
void emu_memory_mark(struct emu_memory *memory, uint64_t address, size_t size);
/* Carries what was and was not initialised along with a copy from device memory to device memory. */
void emu_memory_copy_marks(struct emu_memory *memory, uint64_t to, uint64_t from, size_t size);

/* ---- Shared memory ---- */

struct emu_shared {
    uint8_t *bytes; /* of this block: offset 0 is the window's start, EMU_SHARED_RESERVED included */
    uint32_t size;
    struct emu_cell *cells; /* race.h: one for each 4 bytes */
    uint32_t *written;      /* one bit a byte: initialised */
};

/* Generic addresses of shared memory: the window's base (2^28-aligned), rank in bits 24 and up. */
uint64_t emu_shared_window(void);

/* ---- Access ---- */

/* Who accesses, for the shadow. Made by emu_access_of for an instruction; an async op carries its own. */
struct emu_access {
    uint16_t agent;   /* race.h */
    bool async_proxy; /* wgmma, bulk and tensor copies */
    bool cp_async;
    bool atomic;
    bool mbarrier_init;
    bool mbarrier; /* by an mbarrier instruction, to the object itself */
    const struct emu_instr *instr;
    struct emu_warp *warp;
    uint32_t grid_waited;      /* lanes that had executed griddepcontrol.wait, or come after one that had */
    uint16_t lane_bytes;       /* of a run over neighbouring lanes: bytes of each; 0: one lane's, or all the same */
    uint32_t epoch;            /* of the agent's own clock */
    struct emu_clocks *clocks; /* clocks.h: what happened before; of the warp now, or of an op when it was issued */
};

struct emu_access emu_access_of(struct emu_warp *warp, const struct emu_instr *instr, bool atomic);

enum emu_touch { EMU_READ = 1, EMU_WRITE = 2 };

/* Resolves an address for an access of `size` bytes at a lane, checks bounds and alignment (`align` bytes), records
 * and checks it in the shadow, and returns the host bytes; NULL after a reported fault.
 * touch: EMU_READ, EMU_WRITE or both. Reads of bytes never written are reported when that check is on.
 * space: EMU_GENERIC finds out itself. rank of EMU_SHARED_CTA: the accessing warp's block. */
uint8_t *emu_touch(struct emu_warp *warp, const struct emu_access *access, int lane, enum emu_space space,
                   uint64_t address, size_t size, size_t align, int touch);

/* The same for many bytes of one block's shared memory at once, by offset in its window (tiles, rows). */
uint8_t *emu_touch_shared(struct emu_cta *cta, const struct emu_access *access, int lane, uint32_t offset,
                          uint32_t size, int touch);

/* Which block of the cluster and which offset a shared address means; false when it is none. */
bool emu_shared_locate(struct emu_warp *warp, enum emu_space space, uint64_t address, struct emu_cta **cta,
                       uint32_t *offset);

/* mbarrier complete_tx on behalf of an async op (sync.c). address: generic or window. False after a fault. */
bool emu_mbarrier_complete(struct emu_warp *warp, const struct emu_access *access, uint64_t address, uint32_t bytes);

#endif
