/* A cluster of blocks of four warps, with stand-ins for the engine: for tests of the tensor instructions. Rows are
 * found by the real matcher; asynchronous operations wait in a list until the test lets them happen. */
#ifndef TEST_EMU_TENSOR_MACHINE_H
#define TEST_EMU_TENSOR_MACHINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include "engine.h"

enum {
    TM_BLOCKS = 3,
    TM_WARPS = 4,
    TM_ROWS32 = 160,
    TM_ROWS64 = 16,
    TM_PREDS = 4,
    TM_POOL = 1024,
    TM_SHARED = 227 * 1024,
    TM_REFUSED = -1, /* tm_run: bind refused; tm->why says why */
    TM_UNKNOWN = -2  /* tm_run: no row fits */
};

struct tensor_machine {
    struct emu_module module;
    struct emu_kernel kernel;
    struct emu_launch launch;
    struct emu_options options;
    struct emu_cluster cluster;
    struct emu_cta ctas[TM_BLOCKS];
    struct emu_warp warps[TM_BLOCKS][TM_WARPS];
    uint32_t r32[TM_BLOCKS][TM_WARPS][TM_ROWS32][EMU_LANES];
    uint64_t r64[TM_BLOCKS][TM_WARPS][TM_ROWS64][EMU_LANES];
    uint32_t preds[TM_BLOCKS][TM_WARPS][TM_PREDS];
    uint32_t def32[TM_ROWS32], def64[TM_ROWS64], defp[TM_PREDS]; /* one for all warps */
    uint8_t shared[TM_BLOCKS][TM_SHARED];
    uint8_t params[256];
    struct emu_operand pool[TM_POOL];
    int pool_count;
    uint8_t *global; /* the one allocation */
    size_t global_bytes;

    struct emu_async *queue, **tail;
    bool backwards;         /* pieces from the last to the first */
    uint32_t tx[TM_BLOCKS]; /* completed on mbarriers at TM_MBARRIER */
    uint64_t committed, waited, fences;
    bool reads_only;
    int32_t in_flight[TM_ROWS32];
    int in_flight_count;

    uint8_t shared_read[TM_BLOCKS][TM_SHARED], shared_written[TM_BLOCKS][TM_SHARED];
    int touches;
    bool async_proxy, atomic; /* of the last touch of shared memory */
    int faults;
    enum emu_finding_kind kind;
    char message[512];
    char why[512];
};

enum { TM_MBARRIER = 1024 }; /* offset of the mbarrier that tests use */

/* A zeroed machine on the heap; `blocks` in the cluster. */
struct tensor_machine *tm_create(int blocks);
void tm_destroy(struct tensor_machine *tm);

/* Binds and executes on a warp of block 0: enum emu_action or a negative number above. */
int tm_run(struct tensor_machine *tm, int warp, const char *opcode, uint32_t mask, int operand_count,
           const struct emu_operand *operands);
/* The same on all four warps, all lanes. */
int tm_run_all(struct tensor_machine *tm, const char *opcode, int operand_count, const struct emu_operand *operands);
/* Lets everything in flight happen. False after a fault. */
bool tm_finish(struct tensor_machine *tm);

/* Operands. */
struct emu_operand tm_reg32(int row);
struct emu_operand tm_reg64(int row);
struct emu_operand tm_imm(int64_t value);
struct emu_operand tm_pred(int row);
struct emu_operand tm_address32(int row);
struct emu_operand tm_address64(int row);
/* Rows first … first + count - 1. */
struct emu_operand tm_vector(struct tensor_machine *tm, int first, int count);
/* Map address in a 64-bit row, coordinates in 32-bit rows from `first`. */
struct emu_operand tm_tensor(struct tensor_machine *tm, int map, int first, int count);

/* Sets a row in all lanes of all warps of block 0. */
void tm_set32(struct tensor_machine *tm, int row, uint32_t value);
void tm_set64(struct tensor_machine *tm, int row, uint64_t value);

/* splitmix64 */
uint64_t tm_random(uint64_t *state);

#endif
