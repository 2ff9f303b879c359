/* Any bytes as a shapes.json: descriptions that the generator takes or refuses with a reason, or none. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_desc.h"
#include "shapes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The sentences of what is refused are not wanted. libFuzzer and the sanitizers keep the standard error. */
static void silence(void)
{
    static FILE *nowhere;

    if (nowhere == NULL && (nowhere = fopen("/dev/null", "w")) == NULL)
        abort();
    stderr = nowhere;
}

static void use(const struct shape *shape)
{
    static const char *const targets[] = {"90", "100"};
    char text[160];

    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        struct shapes_job job = {.shape = *shape};
        smla_kernel_desc desc;

        snprintf(job.target, sizeof job.target, "%s", targets[i]);
        shapes_text(&job, text);
        shapes_desc(&job, &desc);
        fuzz_desc(&desc);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct shape *shapes = NULL;
    size_t count = 0;

    silence();
    if (shapes_read("fuzz.json", data, size, &shapes, &count) == CLI_FINE)
        for (size_t i = 0; i < count; i++)
            use(&shapes[i]);
    free(shapes);
    return 0;
}
