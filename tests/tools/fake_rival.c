/* A rival for tests of smla-bench: smla itself, from a libsmla of its own. FAKE_RIVAL=zeros writes zeros instead,
 * nothing writes nothing, refuse knows no shape, fail fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_device.h"
#include "rival.h"

#define EXPORT __attribute__((visibility("default")))

static smla_context *context;
static smla_kernel *kernel;

EXPORT const char *smla_rival_name(void)
{
    return "fake";
}

static int fail(const char *text, int result, char *why, size_t why_size)
{
    snprintf(why, why_size, "%s", text);
    return result;
}

/* The buffer is full of NaN: what is not written is seen. Not captured, so the first call alone. */
static int write_zeros(const smla_kernel_desc *desc, const smla_prefill_args *args, char *why, size_t why_size)
{
    static struct device *device;
    char text[DEVICE_WHY];
    if (device != NULL)
        return 0;
    if (device_open(NULL, 0, &device, text) != DEVICE_OK ||
        !device_fill(device, args->out, 0, (size_t)(args->s_q * desc->h_q * desc->d_v) * 2))
        return fail("no zeros were written", 2, why, why_size);
    return 0;
}

EXPORT int smla_rival_prefill(const smla_kernel_desc *desc, const smla_prefill_args *args, void *stream, char *why,
                              size_t why_size)
{
    const char *wanted = getenv("FAKE_RIVAL");
    if (wanted != NULL && strcmp(wanted, "refuse") == 0)
        return fail("not on a Tuesday", 1, why, why_size);
    if (wanted != NULL && strcmp(wanted, "fail") == 0)
        return fail("broken", 2, why, why_size);
    if (wanted != NULL && strcmp(wanted, "nothing") == 0)
        return 0;
    if (wanted != NULL && strcmp(wanted, "zeros") == 0)
        return write_zeros(desc, args, why, why_size);
    if (kernel == NULL &&
        (smla_context_create(NULL, &context) != SMLA_OK || smla_prepare(context, desc, &kernel) != SMLA_OK))
        return fail("smla cannot prepare it", 2, why, why_size);
    return smla_prefill(kernel, args, stream) == SMLA_OK ? 0 : fail("smla cannot launch it", 2, why, why_size);
}
