/* A catalogue of faults: small kernels that have one, and their corrected twins. */
#ifndef TEST_FAULTS_H
#define TEST_FAULTS_H

#include <stddef.h>
#include <stdint.h>

#include "engine.h"

enum { SCHEDULES = 5, ALWAYS = (1 << SCHEDULES) - 1, SOMETIMES = 0 };

/* A body of PTX, a statement a line. Lines that begin with '!' stand in the faulty kernel alone, those with '+' in its
 * twin alone. The comments //1 and //2 mark the lines that the finding must name (//1 none: it has one side).
 * In scope: %r1 thread, %r2 lane, %r3 warp, %r4 rank in the cluster, %r5 smem, %r6 smem + 4 * thread, %rd1 buffer,
 * %rd2 a buffer nobody has written, %rd4 buffer + 4 * thread; %p1 warp 0, %p2 thread 0, %p3 warp 1, %p4 lane 0, %p5
 * rank 0, %p6 block 0; %r10, %rd10, %p10, %f0 and up are free. smem: 16 KiB; bar, bar2: mbarriers. */
struct fault_case {
    const char *name;
    const char *body;
    uint32_t threads; /* 0: 64 */
    uint32_t blocks;  /* 0: 1 */
    uint32_t cluster; /* 0: 1 */
    enum emu_finding_kind kind;
    uint32_t certain;    /* bit a schedule in which it must be found; SOMETIMES: in one at least, with 8 seeds */
    const char *message; /* part of it; NULL: whatever */
    uint32_t checks;     /* 0: all; the twin runs with all */
    uint32_t max_registers;
    bool dependent; /* launched so that it may start before the launch ahead of it has ended */
};

struct fault_list {
    const struct fault_case *cases;
    size_t count;
};
extern const struct fault_list fault_races, fault_global, fault_waits, fault_barriers, fault_warps, fault_grid;

#define FAULT_LIST(name, array) const struct fault_list name = {array, sizeof(array) / sizeof((array)[0])}

struct fault_run {
    struct emu_module *module;
    struct emu_memory *memory;
    struct emu_report *report;
    uint64_t buffer, raw;
    uint64_t executed;
    enum emu_result result;
};

enum { FAULT_BUFFER_BYTES = 1 << 16 };

/* The kernel's text; faulty: with the lines marked '!'. To be freed. */
char *fault_text(const struct fault_case *fault, bool faulty);
/* Line of the comment //1 or //2; 0: there is none. */
uint32_t fault_line(const char *text, char mark);
/* Loads and runs it once. */
struct fault_run fault_execute(const struct fault_case *fault, const char *text, const struct emu_options *options);
void fault_run_end(struct fault_run *run);

#endif
