/* What the emulated device found: text for people, JSON for scripts. */
#ifndef EMU_REPORT_H
#define EMU_REPORT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct emu_instr;
struct emu_kernel;

/* One row a kind: enum, name in JSON. */
#define EMU_FINDING_KINDS(X)                                                                                           \
    X(EMU_RACE, "race")                                                                                                \
    X(EMU_MISSING_PROXY_FENCE, "missing-proxy-fence")                                                                  \
    X(EMU_MISSING_WGMMA_FENCE, "missing-wgmma-fence")                                                                  \
    X(EMU_REGISTER_IN_FLIGHT, "register-in-flight")                                                                    \
    X(EMU_UNINITIALISED, "uninitialised-read")                                                                         \
    X(EMU_OUT_OF_BOUNDS, "out-of-bounds")                                                                              \
    X(EMU_MISALIGNED_ACCESS, "misaligned")                                                                             \
    X(EMU_BARRIER_MISUSE, "barrier-misuse")                                                                            \
    X(EMU_DIVERGENT, "divergent")                                                                                      \
    X(EMU_BAD_REGISTERS, "setmaxnreg")                                                                                 \
    X(EMU_BAD_OPERAND, "bad-operand")                                                                                  \
    X(EMU_DEADLOCKED, "deadlock")                                                                                      \
    X(EMU_TRAP, "trap")                                                                                                \
    X(EMU_LIMIT, "limit")

enum emu_finding_kind {
#define EMU_FINDING_ENUM(name, text) name,
    EMU_FINDING_KINDS(EMU_FINDING_ENUM)
#undef EMU_FINDING_ENUM
        EMU_FINDING_KIND_COUNT
};

/* One side of a finding. */
struct emu_site {
    const struct emu_instr *instr; /* NULL: none (host, initial state) */
    uint32_t ctaid[3];
    int warp;
    int lane; /* -1: the warp */
};

struct emu_finding {
    enum emu_finding_kind kind;
    const struct emu_kernel *kernel;
    struct emu_site first;  /* what was there before; instr NULL when there is one side */
    struct emu_site second; /* what was found when executing this */
    bool has_address;
    uint64_t address;  /* as the kernel sees it */
    char what[128];    /* what the address belongs to: "shared memory, offset 213504", "cuMemAlloc …" */
    char message[512]; /* what is wrong and which barrier, wait or fence is missing */
    uint64_t count;    /* the same pair of lines again */
};

/* Grows; one a process. Findings with the same kind and lines are counted, not repeated. */
struct emu_report {
    pthread_mutex_t lock;
    struct emu_finding *findings;
    int count, capacity;
    uint64_t launches, instr_executed;
};

struct emu_report *emu_report_create(void);
void emu_report_destroy(struct emu_report *report);

/* Adds a finding or counts it; true when it is new. */
bool emu_report_add(struct emu_report *report, const struct emu_finding *finding);

/* Writes the report; the file's ending tells how: ".json", otherwise text. "-" is standard error. False with errno. */
bool emu_report_write(struct emu_report *report, const char *path);

#endif
