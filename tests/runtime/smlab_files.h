/* Kernels of the stub compiler as bundle files and folders. */
#ifndef SMLA_RUNTIME_SMLAB_FILES_H
#define SMLA_RUNTIME_SMLAB_FILES_H

#include "harness.h"
#include "smlab.h"

/* Compiles kernels with the stub (whose version and entries the caller has set) and returns the bundle of them. */
uint8_t *smlab_of(const smla_kernel_desc *descs, size_t count, size_t *size);

/* The bundle of the `count` kernels that a context has in memory. */
uint8_t *smlab_of_context(smla_context *context, size_t count, size_t *size);

/* As smlab_of, as an entry of the first kernel: its file's bytes, and those of its code. */
uint8_t *smk_of(const smla_kernel_desc *desc, size_t *size, const uint8_t **code, size_t *code_size);

/* Writes a file with mode 0600; "<folder>/<name>" is malloc'd. */
char *path_in(const char *folder, const char *name);
void write_file(const char *path, const void *bytes, size_t size);

#endif
