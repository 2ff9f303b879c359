/* A small opcode table for tests of the reader and decoder: executes nothing. */
#ifndef EMU_READER_ROWS_H
#define EMU_READER_ROWS_H

#include "decode.h"

extern const struct emu_row_list *const reader_rows[1];

/* Loads with that table. */
struct emu_module *load_small(const char *text, char why[512]);

#endif
