/* Any bytes are a module or refused with a reason: with the tests' small opcode table, or the whole one. */
#include <stdint.h>
#include <stdlib.h>

#ifdef FUZZ_WHOLE_TABLE
#include "program.h"
#else
#include "reader_rows.h"
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[512];
#ifdef FUZZ_WHOLE_TABLE
    struct emu_module *module = emu_module_load((const char *)data, size, why);
#else
    struct emu_module *module = emu_module_load_rows((const char *)data, size, reader_rows, 1, why);
#endif
    if (!module && !*why)
        abort();
    emu_module_free(module);
    return 0;
}
