/* The known-answer test of a loaded kernel (SMLA_CONTEXT_SELF_TEST). */
#ifndef SMLA_RUNTIME_SELF_TEST_H
#define SMLA_RUNTIME_SELF_TEST_H

#include "context.h"
#include "kernel.h"

/* Tests every variant of a kernel that a call of it can take, but not its companion, which is a kernel of its own; or
 * remembers what came of it in this process. The device's context is current. image: the kernel's code.
 * Returns SMLA_OK; SELF_TEST (it is wrong); INVALID_ARGUMENT (a stream captures); UNAVAILABLE; DRIVER; OUT_OF_MEMORY.
 */
smla_status rt_self_test(smla_context *context, const struct rt_device *device, const struct gen_bundle *bundle,
                         const struct rt_entry *image, const smla_kernel *kernel);

/* Forgets all that is remembered: for tests. */
void rt_self_test_forget(void);

#endif
