/* The self-test's calls: each variant of a kernel, compared with the answer. */
#ifndef SMLA_RUNTIME_SELF_TEST_RUN_H
#define SMLA_RUNTIME_SELF_TEST_RUN_H

#include "bundle.h"
#include "kernel.h"
#include "self_test_device.h"

/* Entries of the lists that the kernel is tested with: so many that each of its ways to share keys out is taken. */
int64_t test_topk(const struct gen_spec *spec, const smla_kernel *kernel);

/* Makes every call. got: room for what test_device_download brings.
 * Returns SMLA_OK; SELF_TEST with variant, element, what it is and should be; DRIVER; OUT_OF_MEMORY. */
smla_status test_run(struct test_device *device, const struct gen_bundle *bundle, const smla_kernel *kernel,
                     uint8_t *got);

#endif
