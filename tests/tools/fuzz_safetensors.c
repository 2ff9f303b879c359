/* Any bytes as a safetensors file and as a case: no crash, no read outside, and what is accepted can be used. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "case.h"
#include "safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Touches every byte that a tensor claims. */
static uint8_t touch(const struct st_file *file)
{
    uint8_t sum = 0;
    for (size_t i = 0; i < file->tensor_count; i++)
        for (size_t at = 0; at < file->tensors[i].size_bytes; at++)
            sum = (uint8_t)(sum + ((const uint8_t *)file->tensors[i].data)[at]);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[CASE_WHY];
    struct st_file file;
    struct smla_case loaded;
    uint8_t *copy = malloc(size + 1);
    if (copy == NULL)
        abort();
    if (size > 0)
        memcpy(copy, data, size);
    if (!st_parse(copy, size, &file, why))
        return 0;
    static volatile uint8_t sink;
    sink = touch(&file);
    (void)sink;
    if (case_read(&file, "fuzz.safetensors", &loaded, why) == CASE_OK)
        case_free(&loaded);
    st_free(&file);
    return 0;
}
