/* Device buffers with guard zones before and after, so that a kernel that writes beside its tensors is seen. */
#ifndef SMLA_TOOLS_GUARDED_H
#define SMLA_TOOLS_GUARDED_H

#include "cuda_device.h"

enum { GUARDED_ZONE_BYTES = 4096, GUARDED_WHY = 256 };

struct guarded {
    const char *name; /* of the tensor, for sentences */
    void *base;
    size_t size_bytes;    /* of the tensor alone */
    const void *contents; /* an input's bytes, which must not change; NULL for an output */
};

/* Allocates and fills a buffer: guard pattern around, `contents` inside (NULL: an output). False after a driver
 * fault. `name` and `contents` must outlive the buffer. */
bool guarded_create(struct device *device, const char *name, const void *contents, size_t size_bytes,
                    struct guarded *out);
void guarded_destroy(struct device *device, struct guarded *buffer);

/* The tensor's device address, aligned to 256 bytes; NULL when the buffer was never made. */
void *guarded_data(const struct guarded *buffer);

/* Fills the tensor with 0xff: NaN as bf16 and as float32. */
bool guarded_poison(struct device *device, const struct guarded *buffer);

enum guarded_state { GUARDED_INTACT, GUARDED_BROKEN, GUARDED_FAULT };

/* Checks both zones, and an input's contents. GUARDED_BROKEN comes with a sentence in why[]. */
enum guarded_state guarded_check(struct device *device, const struct guarded *buffer, char why[GUARDED_WHY]);

#endif
