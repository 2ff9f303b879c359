/* The control-flow graph of a kernel, and where its registers are live. */
#ifndef EMU_FLOW_H
#define EMU_FLOW_H

#include "arena.h"
#include "program.h"

enum { EMU_NOWHERE = -1 };

/* Straight code from `first` to before `end`; it goes on to at most two other blocks. */
struct emu_block {
    uint32_t first, end;
    int32_t next[2];
    uint32_t first_before, before_count; /* of flow->before */
    /* Marks of walks, the walk's number each: the register is written here for all lanes; it is live at the start; at
     * the end; read or written here; the block has been walked. */
    uint32_t kills, live_in, live_out, has_events, walked;
};

struct emu_flow {
    struct emu_kernel *kernel;
    struct emu_arena *arena;
    struct emu_block *blocks;
    uint32_t block_count;
    uint32_t *block_of; /* pc to block */
    uint32_t *before;   /* predecessors, block by block */
    uint32_t *stack;    /* for walks: room for every block */
};

/* Memory is out: false. Rows of uses are virtual registers still. */
bool emu_flow_build(struct emu_flow *flow, struct emu_kernel *kernel, struct emu_arena *arena);
bool emu_starts_with(const char *text, const char *start);

/* From pc to pc, both included: a register needs its row here. */
struct emu_live_span {
    uint32_t from, to;
    struct emu_live_span *next;
};

/* The spans of every register, in no order; they may overlap. False: memory is out. */
bool emu_find_liveness(struct emu_flow *flow, size_t register_count, struct emu_live_span **spans);

#endif
