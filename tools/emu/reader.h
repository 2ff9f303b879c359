/* Shared by the files of the reader alone. */
#ifndef EMU_READER_H
#define EMU_READER_H

#include "syntax.h"

/* A declaration %r<12>: the registers %r0 to %r11 of these bits. */
struct emu_range {
    uint64_t count;
    uint8_t bits;
};

struct emu_reader {
    struct emu_scanner scan;
    struct emu_syntax *syntax;
    struct emu_arena *arena;
    struct emu_syntax_kernel *kernel; /* being read; NULL outside */
    uint32_t scope;
    uint32_t source_file, source_line; /* of the last .loc */
    struct emu_range *ranges;
    size_t range_count, range_capacity;
};

/* Appends a zeroed element to an array of the arena; NULL fails the reader. */
void *emu_reader_append(struct emu_reader *reader, void *items, size_t *count, size_t *capacity, size_t size);
#define EMU_APPEND(reader, owner, field)                                                                               \
    emu_reader_append(reader, &(owner)->field##s, &(owner)->field##_count, &(owner)->field##_capacity,                 \
                      sizeof *(owner)->field##s)

/* Enters the name into the current scope; fails when it is there already. */
bool emu_reader_declare(struct emu_reader *reader, struct emu_span name, enum emu_symbol_kind kind, size_t index);
/* Takes a name. */
bool emu_reader_name(struct emu_reader *reader, struct emu_span *name);

/* read_variable.c. The state space that the current directive names; false when it is none. */
bool emu_reader_space(const struct emu_scanner *scan, enum emu_space *space);
/* From behind the space to the ';': ".align 4 .f32 a, b[2] = {0f3F800000};". */
bool emu_read_variables(struct emu_reader *reader, enum emu_space space, bool is_extern);
/* From behind .param to the ',' or ')' of a kernel's list. */
bool emu_read_parameter(struct emu_reader *reader);
/* From behind .reg to the ';'. */
bool emu_read_registers(struct emu_reader *reader);

/* read_init.c: from behind the '=' of a variable with these dimensions (the first may be 0: as many as there are). */
bool emu_read_initialiser(struct emu_reader *reader, struct emu_syntax_variable *variable, const uint64_t *dims,
                          int dim_count);

/* read_operand.c */
bool emu_read_operand(struct emu_reader *reader, struct emu_syntax_operand *operand);
/* The register of this name, made when it is one of a range; -1 when there is none. */
int32_t emu_read_register(struct emu_reader *reader, struct emu_span name);

/* read_kernel.c: from behind .entry to its closing brace. */
bool emu_read_kernel(struct emu_reader *reader);
bool emu_read_loc(struct emu_reader *reader);
bool emu_read_pragma(struct emu_reader *reader);

#endif
