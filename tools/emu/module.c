/* The public way in: loads a module with the whole opcode table. */
#include "decode.h"

const struct emu_row_list *const emu_opcode_table[] = {&emu_alu_rows, &emu_control_rows, &emu_sync_rows,
                                                       &emu_memory_rows, &emu_tensor_rows};
const size_t emu_opcode_table_count = sizeof emu_opcode_table / sizeof *emu_opcode_table;

struct emu_module *emu_module_load(const char *text, size_t size, char why[512])
{
    return emu_module_load_rows(text, size, emu_opcode_table, emu_opcode_table_count, why);
}
