/* The struct_size rule of smla.h, in one place: structs that grow at the end, read and written across versions. */
#ifndef SMLA_RUNTIME_SIZED_H
#define SMLA_RUNTIME_SIZED_H

#include <stddef.h>

#include "smla/smla.h"

/* Reads a caller's struct into *full, of this library's size: zero-filled where the caller's is smaller, and with its
 * struct_size set to full_size. `what` names the argument in messages ("smla_kernel_desc").
 * Returns SMLA_OK; INVALID_ARGUMENT (NULL, or a struct_size that cannot be); UNSUPPORTED (the caller's struct is larger
 * and sets a field that this library does not know). On failure *full is untouched. */
smla_status rt_sized_read(void *full, size_t full_size, const void *given, const char *what);

/* Writes *full into a caller's struct: as much as it holds, its own struct_size kept. Statuses as above; on failure
 * *given is untouched. */
smla_status rt_sized_write(void *given, const void *full, size_t full_size);

#endif
