/* What stands in a PTX text: declarations and statements, names resolved to registers and variables, nothing known yet
 * about instructions. reader.c makes it, decode.c turns it into a program. */
#ifndef EMU_SYNTAX_H
#define EMU_SYNTAX_H

#include "arena.h"
#include "program.h"
#include "scan.h"

enum {
    EMU_MODULE_SCOPE = 0,
    EMU_OPCODE_SCOPE = 1, /* no scope of the text: opcodes are kept in the same table */
    EMU_MAX_NESTING = 64,
    EMU_MAX_VECTOR = 256, /* elements; wgmma has 128 */
    EMU_MAX_OPERANDS = 16
};

/* ---- Names (syntax.c) ---- */

enum emu_symbol_kind {
    EMU_SYMBOL_REGISTER, /* index: of kernel->registers */
    EMU_SYMBOL_RANGE,    /* "%r" of %r<12>; index: of the reader's ranges. Registers come into being when used */
    EMU_SYMBOL_VARIABLE, /* index: of module->variables */
    EMU_SYMBOL_LABEL,    /* index: of kernel->statements */
    EMU_SYMBOL_FUNCTION,
    EMU_SYMBOL_OPCODE /* index: of module->opcodes */
};

struct emu_symbol {
    struct emu_span name;
    uint32_t scope;
    uint32_t index;
    uint8_t kind; /* enum emu_symbol_kind */
    bool used;    /* the slot of the table */
};

/* A { } scope. Inline assembly brings its own with every expansion, and the same names in each. */
struct emu_scope {
    uint32_t parent;
    bool has_ranges;
};

/* Every name of the text by scope and spelling: one open-addressed table. */
struct emu_names {
    struct emu_symbol *slots;
    size_t slot_count, used;
    struct emu_scope *scopes;
    size_t scope_count, scope_capacity;
};

bool emu_names_init(struct emu_names *names, struct emu_arena *arena);
/* A new scope inside another; 0 when memory is out. */
uint32_t emu_names_open(struct emu_names *names, struct emu_arena *arena, uint32_t parent);
/* The name in this very scope, or NULL. */
const struct emu_symbol *emu_names_get(const struct emu_names *names, uint32_t scope, struct emu_span name);
/* Enters a name that is not there; false when memory is out. */
bool emu_names_add(struct emu_names *names, struct emu_arena *arena, const struct emu_symbol *symbol);
/* A label, looked for from this scope outwards (after the whole kernel is read: jumps go forward too). */
const struct emu_symbol *emu_names_find_label(const struct emu_names *names, uint32_t scope, struct emu_span name);

/* ---- Statements ---- */

enum emu_syntax_kind {
    EMU_SYNTAX_REGISTER, /* reg, negated for predicates */
    EMU_SYNTAX_PAIR,     /* reg|reg2, -1: _ */
    EMU_SYNTAX_INT,      /* value */
    EMU_SYNTAX_FLOAT32,  /* value: bits */
    EMU_SYNTAX_FLOAT64,
    EMU_SYNTAX_SPECIAL,  /* value: enum emu_special */
    EMU_SYNTAX_VARIABLE, /* variable + value */
    EMU_SYNTAX_NAME,     /* name: nothing declared so far; a label further down or a mistake */
    EMU_SYNTAX_ADDRESS,  /* [reg + value] or [variable + value] or [value] */
    EMU_SYNTAX_VECTOR,   /* first, count */
    EMU_SYNTAX_TENSOR,   /* [reg or variable, {first, count}] */
    EMU_SYNTAX_SINK
};

struct emu_syntax_operand {
    uint8_t kind; /* enum emu_syntax_kind */
    bool negated;
    int32_t reg, reg2; /* of kernel->registers; -1: none */
    int32_t variable;  /* of module->variables; -1: none */
    uint32_t first, count;
    int64_t value;
    struct emu_span name;
};

enum emu_statement_kind {
    EMU_STATEMENT_INSTR,
    EMU_STATEMENT_CALL,  /* opcode: the function's name */
    EMU_STATEMENT_RESULT /* a load from a call's result: operand 0 becomes zero */
};

struct emu_statement {
    uint8_t kind; /* enum emu_statement_kind */
    bool guard_negated;
    uint16_t operand_count;
    int32_t guard; /* register; -1: none */
    uint32_t opcode;
    uint32_t first_operand;
    uint32_t scope; /* where its labels are looked for */
    uint32_t line, source_file, source_line;
};

struct emu_register {
    struct emu_span name;
    uint8_t bits; /* 1, 16, 32 or 64 */
};

/* `value` bytes at `offset` of a variable hold the address of another one plus `addend`. */
struct emu_relocation {
    uint64_t offset;
    int64_t addend;
    uint32_t variable;
    uint32_t bytes;
};

struct emu_syntax_variable {
    struct emu_span name;
    uint8_t space; /* enum emu_space */
    uint8_t type;  /* enum emu_type of an element */
    bool is_extern;
    bool is_call; /* a .param in a kernel's body: passes values to or from a call */
    uint32_t align;
    uint64_t size;
    uint8_t *init; /* NULL: zero */
    struct emu_relocation *relocations;
    size_t relocation_count, relocation_capacity;
    uint32_t line;
    /* Set by layout.c, for the kernel being decoded where the space is a kernel's. */
    uint64_t offset;
    uint32_t used_by; /* kernel's number + 1 */
};

struct emu_syntax_kernel {
    struct emu_span name;
    uint32_t line;
    uint32_t first_param, param_count; /* of module->variables */
    uint64_t max_threads, min_ctas, max_registers;
    uint32_t required_ntid[3], required_cluster[3];
    bool explicit_cluster;
    struct emu_register *registers;
    size_t register_count, register_capacity;
    struct emu_statement *statements;
    size_t statement_count, statement_capacity;
    struct emu_syntax_operand *operands;
    size_t operand_count, operand_capacity;
};

struct emu_syntax {
    struct emu_arena *arena;
    struct emu_names names;
    char target[16];
    struct emu_syntax_variable *variables;
    size_t variable_count, variable_capacity;
    struct emu_syntax_kernel *kernels;
    size_t kernel_count, kernel_capacity;
    const char **opcodes; /* distinct ones */
    size_t opcode_count, opcode_capacity;
    const char **files; /* index 0 unused */
    size_t file_count;
};

/* Reads a text. False with a reason that names the line. */
bool emu_read(struct emu_syntax *syntax, struct emu_arena *arena, const char *text, char *why);

#endif
