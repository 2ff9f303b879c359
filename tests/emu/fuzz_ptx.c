/* Any bytes are a module or refused with a reason. */
#include <stdint.h>
#include <stdlib.h>

#include "reader_rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[512];
    struct emu_module *module = emu_module_load_rows((const char *)data, size, reader_rows, 1, why);
    if (!module && !*why)
        abort();
    emu_module_free(module);
    return 0;
}
