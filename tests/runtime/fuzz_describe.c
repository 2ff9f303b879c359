/* Any bytes as the description in a cache entry: none, or one that the generator takes or refuses with a reason. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "describe.h"
#include "fuzz_desc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rt_described described;
    char *text = malloc(size + 1);

    if (text == NULL)
        abort();
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    const bool read = rt_describe_read(text, &described);
    free(text); /* it keeps a copy */
    if (read)
        fuzz_desc(&described.desc);
    return 0;
}
