#include "machine.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "race.h"
#include "sync_hooks.h"

/* The machine that a function without an argument for it means; one a thread. */
static _Thread_local struct machine *running;

static atomic_bool row_done[128];

/* ---- Stand-ins for the engine ---- */

static void note(struct machine *machine, int lane, enum emu_finding_kind kind, const char *format, va_list arguments)
{
    machine->kind = kind;
    machine->lane = lane;
    vsnprintf(machine->message, sizeof machine->message, format, arguments);
}

enum emu_action emu_fault(struct emu_warp *warp, const struct emu_instr *instr, int lane, enum emu_finding_kind kind,
                          const char *format, ...)
{
    (void)warp;
    (void)instr;
    va_list arguments;
    va_start(arguments, format);
    note(running, lane, kind, format, arguments);
    va_end(arguments);
    running->fault_count++;
    return EMU_FAULT;
}

void emu_find(struct emu_warp *warp, const struct emu_instr *instr, int lane, enum emu_finding_kind kind,
              const char *format, ...)
{
    (void)warp;
    (void)instr;
    va_list arguments;
    va_start(arguments, format);
    note(running, lane, kind, format, arguments);
    va_end(arguments);
    running->finding_count++;
}

uint64_t emu_address(struct emu_warp *warp, const struct emu_operand *operand, int lane)
{
    if (operand->row < 0) {
        return (uint64_t)operand->imm;
    }
    if (operand->bits == 64) {
        return emu_row64(warp, operand->row)[lane] + (uint64_t)operand->imm;
    }
    return emu_row32(warp, operand->row)[lane] + (uint32_t)operand->imm;
}

const uint64_t *emu_source64(struct emu_warp *warp, const struct emu_operand *operand, uint64_t spare[EMU_LANES])
{
    if (operand->kind == EMU_OP_REG && operand->bits == 64) {
        return emu_row64(warp, operand->row);
    }
    for (int lane = 0; lane < EMU_LANES; lane++) {
        spare[lane] = operand->kind == EMU_OP_REG ? emu_row32(warp, operand->row)[lane] : (uint64_t)operand->imm;
    }
    return spare;
}

const uint32_t *emu_source32(struct emu_warp *warp, const struct emu_operand *operand, uint32_t spare[EMU_LANES])
{
    uint64_t wide[EMU_LANES];
    const uint64_t *values = emu_source64(warp, operand, wide);
    for (int lane = 0; lane < EMU_LANES; lane++) {
        spare[lane] = (uint32_t)values[lane];
    }
    return spare;
}

void emu_store64(struct emu_warp *warp, const struct emu_operand *operand, const uint64_t *values, uint32_t mask)
{
    for (int lane = 0; lane < EMU_LANES && operand->kind != EMU_OP_SINK; lane++) {
        if (mask >> lane & 1u) {
            emu_row64(warp, operand->row)[lane] = values[lane];
        }
    }
}

void emu_store32(struct emu_warp *warp, const struct emu_operand *operand, const uint32_t *values, uint32_t mask)
{
    for (int lane = 0; lane < EMU_LANES && operand->kind != EMU_OP_SINK; lane++) {
        if ((mask >> lane & 1u) == 0) {
            continue;
        }
        if (operand->bits == 64) {
            emu_row64(warp, operand->row)[lane] = values[lane];
        } else {
            emu_row32(warp, operand->row)[lane] = values[lane];
        }
    }
}

void emu_store_pred(struct emu_warp *warp, const struct emu_operand *operand, uint32_t values, uint32_t mask)
{
    uint32_t *pred = &warp->preds[operand->row];
    *pred = (*pred & ~mask) | (values & mask);
}

/* ---- Stand-ins for the allocation map ---- */

struct emu_allocation *emu_memory_find(struct emu_memory *memory, uint64_t address, size_t size)
{
    struct emu_allocation *found = NULL;
    pthread_mutex_lock(&memory->lock);
    for (size_t i = 0; i < memory->count; i++) {
        struct emu_allocation *one = &memory->allocations[i];
        if (address - one->address < one->size && size <= one->size - (address - one->address)) {
            found = one;
        }
    }
    pthread_mutex_unlock(&memory->lock);
    return found;
}

/* ---- Stand-ins for the race checker ---- */

struct emu_access emu_access_of(struct emu_warp *warp, const struct emu_instr *instr, bool atomic)
{
    return (struct emu_access){.warp = warp, .instr = instr, .atomic = atomic, .epoch = 7};
}

static bool log_shadow(const struct shadow_call *call)
{
    if (running->shadow_count < MACHINE_LOG) {
        running->shadow[running->shadow_count++] = *call;
    }
    return !running->shadow_refuses;
}

bool emu_shadow_shared(struct emu_cta *cta, const struct emu_access *access, int lane, uint32_t offset, uint32_t size,
                       int touch)
{
    return log_shadow(&(struct shadow_call){true, offset, size, touch, lane, access->atomic, cta->rank});
}

bool emu_shadow_global(struct emu_warp *warp, const struct emu_access *access, int lane, uint64_t address, size_t size,
                       int touch)
{
    return log_shadow(&(struct shadow_call){false, address, size, touch, lane, access->atomic, warp->cta->rank});
}

static void log_sync(char what, uint64_t address, int touch)
{
    if (running->sync_count < MACHINE_LOG) {
        running->sync[running->sync_count++] = (struct sync_call){what, address, touch};
    }
}

void emu_sync_release(struct emu_warp *warp, uint64_t address)
{
    (void)warp;
    log_sync('r', address, 0);
}

void emu_sync_acquire(struct emu_warp *warp, uint64_t address)
{
    (void)warp;
    log_sync('a', address, 0);
}

void emu_sync_relaxed(struct emu_warp *warp, uint64_t address, int touch)
{
    (void)warp;
    log_sync('x', address, touch);
}

/* ---- The machine ---- */

static void init_block(struct machine *machine, uint32_t rank)
{
    struct emu_cta *cta = &machine->ctas[rank];
    struct emu_warp *warp = &machine->warps[rank];
    *cta = (struct emu_cta){.cluster = &machine->cluster, .launch = &machine->launch, .options = &machine->options};
    cta->rank = rank;
    cta->warp_count = 1;
    cta->warps = warp;
    cta->shared.bytes = machine->shared[rank];
    cta->shared.size = MACHINE_SHARED;
    cta->shared.written = machine->shared_written[rank];
    warp->cta = cta;
    warp->live = warp->present = EMU_ALL_LANES;
    warp->r32 = machine->r32[0];
    warp->r64 = machine->r64[0];
    warp->preds = machine->preds;
    warp->local = machine->local;
}

void machine_init(struct machine *machine, void *global, size_t bytes)
{
    memset(machine, 0, sizeof *machine);
    pthread_mutex_init(&machine->memory.lock, NULL);
    machine->memory.allocations = machine->allocations;
    machine_add(machine, global, bytes, "cuMemAlloc");
    machine->kernel.module = &machine->module;
    machine->kernel.pool = machine->pool;
    machine->kernel.param_bytes = MACHINE_PARAMS;
    machine->kernel.local_bytes = MACHINE_LOCAL;
    machine->launch.kernel = &machine->kernel;
    machine->launch.params = machine->params;
    machine->cluster.launch = &machine->launch;
    machine->cluster.options = &machine->options;
    machine->cluster.memory = &machine->memory;
    machine->cluster.cta_count = MACHINE_BLOCKS;
    machine->cluster.ctas = machine->ctas;
    for (uint32_t rank = 0; rank < MACHINE_BLOCKS; rank++) {
        init_block(machine, rank);
    }
    machine_select(machine, 0);
}

void machine_destroy(struct machine *machine)
{
    pthread_mutex_destroy(&machine->memory.lock);
}

void machine_add(struct machine *machine, void *global, size_t bytes, const char *what)
{
    struct emu_allocation *allocation = &machine->allocations[machine->memory.count];
    allocation->address = (uint64_t)(uintptr_t)global;
    allocation->size = bytes;
    allocation->written = machine->written[machine->memory.count++];
    allocation->what = what;
}

void machine_select(struct machine *machine, uint32_t rank)
{
    machine->warp = &machine->warps[rank];
    running = machine;
}

/* ---- Matching ---- */

/* One element of a pattern against a word: taken, absent though optional, or no match. */
static bool element_names(const char *element, size_t length, const char *word)
{
    bool set = element[0] == '[' || element[0] == '{';
    const char *at = element + set, *end = element + length - set;
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        size_t one = (size_t)((comma ? comma : end) - at);
        if (strlen(word) == one && strncmp(at, word, one) == 0) {
            return true;
        }
        at = comma ? comma + 1 : end;
    }
    return false;
}

static size_t element_length(const char *element)
{
    const char *end = element[0] == '['   ? strchr(element, ']') + 1
                      : element[0] == '{' ? strchr(element, '}') + 1
                                          : element + strcspn(element, ".");
    return (size_t)(end - element);
}

/* Matches words (the base name first) with a pattern; tokens[] as in struct emu_bind. -1: no match. */
static int match(const char *pattern, char *const *words, int count, const char **tokens)
{
    size_t base = strcspn(pattern, ".");
    if (strlen(words[0]) != base || strncmp(pattern, words[0], base) != 0) {
        return -1;
    }
    int word = 1, token = 0;
    for (const char *at = pattern + base; *at == '.';) {
        size_t length = element_length(++at);
        bool named = word < count && element_names(at, length, words[word]);
        if (!named && at[0] != '{') {
            return -1;
        }
        tokens[token++] = named ? words[word++] : "";
        at += length;
    }
    return word == count ? token : -1;
}

static int split(char *text, char **words)
{
    int count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(text, ".", &rest); word != NULL; word = strtok_r(NULL, ".", &rest)) {
        words[count++] = word;
    }
    return count;
}

/* Decodes one instruction: 0, MACHINE_REFUSED or MACHINE_UNKNOWN. */
static int decode(struct machine *machine, const char *text, struct emu_instr *instr)
{
    char copy[256], *words[32];
    const char *tokens[32];
    snprintf(copy, sizeof copy, "%s", text);
    int count = split(copy, words);
    for (size_t row = 0; row < emu_memory_rows.count; row++) {
        int token_count = match(emu_memory_rows.rows[row].pattern, words, count, tokens);
        if (token_count < 0) {
            continue;
        }
        row_done[row] = true;
        instr->row = &emu_memory_rows.rows[row];
        struct emu_bind bind = {instr, machine->pool, token_count, tokens, machine->why};
        return emu_memory_rows.rows[row].bind(&bind) ? 0 : MACHINE_REFUSED;
    }
    return MACHINE_UNKNOWN;
}

int machine_run(struct machine *machine, const char *text, uint32_t mask, int operand_count, ...)
{
    struct emu_operand operands[8];
    va_list arguments;
    va_start(arguments, operand_count);
    for (int i = 0; i < operand_count; i++) {
        operands[i] = va_arg(arguments, struct emu_operand);
    }
    va_end(arguments);
    struct emu_instr instr = {.text = text, .operand_count = (uint16_t)operand_count, .operands = operands};
    int result = decode(machine, text, &instr);
    return result < 0 ? result : (int)instr.exec(machine->warp, &instr, mask);
}

double machine_nanoseconds(struct machine *machine, const char *text, uint32_t mask, int operand_count, ...)
{
    enum { ROUNDS = 200000 };
    struct emu_operand operands[8];
    struct timespec start, end;
    va_list arguments;
    va_start(arguments, operand_count);
    for (int i = 0; i < operand_count; i++) {
        operands[i] = va_arg(arguments, struct emu_operand);
    }
    va_end(arguments);
    struct emu_instr instr = {.text = text, .operand_count = (uint16_t)operand_count, .operands = operands};
    assert_int_equal(decode(machine, text, &instr), 0);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    for (int i = 0; i < ROUNDS; i++) {
        machine->shadow_count = 0;
        instr.exec(machine->warp, &instr, mask);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    return ((double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec)) / ROUNDS;
}

void machine_check_rows(const char *const *names)
{
    int missing = 0;
    for (size_t row = 0; row < emu_memory_rows.count; row++) {
        const char *pattern = emu_memory_rows.rows[row].pattern;
        for (const char *const *name = names; *name != NULL; name++) {
            size_t length = strlen(*name);
            if (strncmp(pattern, *name, length) == 0 && pattern[length] == '.' && !row_done[row]) {
                print_error("no test of %s\n", pattern);
                missing++;
            }
        }
    }
    assert_int_equal(missing, 0);
}

/* ---- Operands ---- */

struct emu_operand op_reg(int row, int bits)
{
    return (struct emu_operand){.kind = EMU_OP_REG, .row = row, .bits = (uint8_t)bits};
}

struct emu_operand op_imm(int64_t value)
{
    return (struct emu_operand){.kind = EMU_OP_IMM, .imm = value};
}

struct emu_operand op_literal(uint64_t bits, int width)
{
    return (struct emu_operand){.kind = EMU_OP_IMM, .imm = (int64_t)bits, .bits = (uint8_t)width};
}

struct emu_operand op_address(int row, int bits, int64_t displacement)
{
    return (struct emu_operand){.kind = EMU_OP_ADDRESS, .row = row, .bits = (uint8_t)bits, .imm = displacement};
}

struct emu_operand op_variable(enum emu_space space, int64_t offset)
{
    return (struct emu_operand){.kind = EMU_OP_ADDRESS, .row = -1, .space = (uint8_t)space, .imm = offset};
}

struct emu_operand op_symbol(enum emu_space space, int64_t offset)
{
    return (struct emu_operand){.kind = EMU_OP_SYMBOL, .row = -1, .space = (uint8_t)space, .imm = offset};
}

struct emu_operand op_vector(struct machine *machine, int first, int count, const struct emu_operand *elements)
{
    memcpy(machine->pool + first, elements, (size_t)count * sizeof *elements);
    return (struct emu_operand){.kind = EMU_OP_VECTOR, .first = first, .count = count};
}

struct emu_operand op_sink(void)
{
    return (struct emu_operand){.kind = EMU_OP_SINK};
}

struct emu_operand op_pred(int row)
{
    return (struct emu_operand){.kind = EMU_OP_PRED, .row = row};
}
