/* Shared by the files of the decoder alone. */
#ifndef EMU_DECODE_H
#define EMU_DECODE_H

#include "match.h"
#include "syntax.h"

/* Lays out .global and .const variables and fills them. False with a reason. */
bool emu_layout_module(struct emu_syntax *syntax, struct emu_module *module, char *why);
/* Lays out what a kernel uses: parameters, shared and local variables. `number` tells the kernel from others. */
bool emu_layout_kernel(struct emu_syntax *syntax, const struct emu_syntax_kernel *from, uint32_t number,
                       struct emu_kernel *kernel, char *why);

/* Makes the module's kernels; the rows of the opcode table come from the matcher. */
bool emu_decode_kernels(struct emu_syntax *syntax, const struct emu_matcher *matcher, struct emu_module *module,
                        char *why);

/* All row uses of a kernel, as they stand in its instructions. */
struct emu_uses {
    struct emu_row_use *items;
    size_t count;
};

/* A module being decoded, kernel by kernel. */
struct emu_decoder {
    struct emu_syntax *syntax;
    const struct emu_syntax_kernel *from;
    struct emu_kernel *kernel;
    const struct emu_matcher *matcher;
    struct emu_candidates **candidates;  /* of each opcode; NULL: not looked for yet */
    const struct emu_candidate **chosen; /* of each instruction, for bind */
    struct emu_uses uses;
    char *why;
};

/* Notes a reason with the instruction's line; the arguments may stand in decoder->why. Returns false. */
bool emu_decode_fail(const struct emu_decoder *decoder, const struct emu_instr *instr, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool emu_decode_fail_memory(const struct emu_decoder *decoder);

/* Resolves a statement's operands, and what their vectors hold, into the kernel's pool, which has the same numbers as
 * the reader's. Rows are virtual registers. */
bool emu_resolve_operands(const struct emu_decoder *decoder, const struct emu_statement *statement,
                          struct emu_instr *instr);

/* Replaces virtual registers by rows, everywhere in the kernel, and counts the rows. */
bool emu_assign_rows(struct emu_kernel *kernel, const struct emu_register *registers, size_t register_count,
                     const struct emu_uses *uses, size_t pool_count, char *why);

/* The internal rows of calls (call.c); NULL when nothing of that name can be called. */
const struct emu_row *emu_call_row(const char *function);
extern const struct emu_row emu_call_result_row;

/* The whole opcode table (module.c). */
extern const struct emu_row_list *const emu_opcode_table[];
extern const size_t emu_opcode_table_count;

/* emu_module_load with a table of one's own. */
struct emu_module *emu_module_load_rows(const char *text, size_t size, const struct emu_row_list *const *lists,
                                        size_t list_count, char why[512]);

#endif
