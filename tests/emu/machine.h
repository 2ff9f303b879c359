/* A cluster of blocks with one warp each, without reader or engine: for tests of the memory instructions. What the
 * engine and the race checker would be told is logged. */
#ifndef TEST_EMU_MACHINE_H
#define TEST_EMU_MACHINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include "engine.h"

enum {
    MACHINE_BLOCKS = 4,
    MACHINE_ROWS = 24,
    MACHINE_SHARED = 4096,
    MACHINE_LOCAL = 64,
    MACHINE_PARAMS = 128,
    MACHINE_LOG = 128,
    MACHINE_REFUSED = -1, /* machine_run: bind refused */
    MACHINE_UNKNOWN = -2  /* machine_run: no row matches */
};

struct shadow_call {
    bool shared;
    uint64_t address; /* offset in shared memory */
    uint64_t size;
    int touch, lane;
    bool atomic;
    uint32_t rank;
};

struct sync_call {
    char what; /* r release, a acquire, x relaxed */
    uint64_t address;
    int touch;
};

struct machine {
    struct emu_memory memory;
    struct emu_allocation allocations[4];
    uint32_t written[4][64];
    struct emu_module module;
    struct emu_kernel kernel;
    struct emu_launch launch;
    struct emu_options options;
    struct emu_cluster cluster;
    struct emu_cta ctas[MACHINE_BLOCKS];
    struct emu_warp warps[MACHINE_BLOCKS];
    struct emu_warp *warp; /* that runs: of block rank 0 at first */
    uint8_t shared[MACHINE_BLOCKS][MACHINE_SHARED];
    uint32_t shared_written[MACHINE_BLOCKS][MACHINE_SHARED / 32];
    uint8_t local[EMU_LANES * MACHINE_LOCAL];
    uint8_t params[MACHINE_PARAMS];
    uint32_t r32[MACHINE_ROWS][EMU_LANES];
    uint64_t r64[MACHINE_ROWS][EMU_LANES];
    uint32_t preds[8];
    struct emu_operand pool[16];

    /* What was reported. */
    int fault_count, finding_count, lane;
    enum emu_finding_kind kind;
    char message[512];
    char why[256];

    /* What the race checker was told. */
    struct shadow_call shadow[MACHINE_LOG];
    int shadow_count;
    bool shadow_refuses;
    struct sync_call sync[MACHINE_LOG];
    int sync_count;
};

/* Zeroed, no checks, one allocation at `global` of `bytes` (a multiple of 4, at most 8192). */
void machine_init(struct machine *machine, void *global, size_t bytes);
void machine_destroy(struct machine *machine);
/* Adds an allocation. */
void machine_add(struct machine *machine, void *global, size_t bytes, const char *what);
/* From now on the block of that rank runs. */
void machine_select(struct machine *machine, uint32_t rank);

/* Finds the row of an opcode, binds and executes it: an enum emu_action, or a negative number above. */
int machine_run(struct machine *machine, const char *text, uint32_t mask, int operand_count, ...);
/* The same again and again without binding, for time. */
double machine_nanoseconds(struct machine *machine, const char *text, uint32_t mask, int operand_count, ...);

/* Fails when a row whose pattern starts with one of the names (NULL at the end) was never run nor refused. */
void machine_check_rows(const char *const *names);

/* Operands, for machine_run. */
struct emu_operand op_reg(int row, int bits);
struct emu_operand op_imm(int64_t value);
struct emu_operand op_literal(uint64_t bits, int width);
struct emu_operand op_address(int row, int bits, int64_t displacement);
struct emu_operand op_variable(enum emu_space space, int64_t offset); /* [variable] */
struct emu_operand op_symbol(enum emu_space space, int64_t offset);   /* variable */
struct emu_operand op_vector(struct machine *machine, int first, int count, const struct emu_operand *elements);
struct emu_operand op_sink(void);
struct emu_operand op_pred(int row);

#endif
