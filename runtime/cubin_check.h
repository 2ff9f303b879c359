/* Checks bytes before the driver sees them: it takes a pointer without a length and crashes on damage (jit.md §0.1). */
#ifndef SMLA_RUNTIME_CUBIN_CHECK_H
#define SMLA_RUNTIME_CUBIN_CHECK_H

#include <stdbool.h>
#include <stddef.h>

/* True when the bytes are a complete 64-bit CUDA ELF whose sections all lie inside, built for `arch` ("sm_90a", from
 * its .note.nv.tkinfo), defining .text.<symbol>. Otherwise false with a sentence in why[]. */
bool rt_cubin_check(const void *bytes, size_t size_bytes, const char *arch, const char *symbol, char why[256]);

/* The same for PTX text: NUL-terminated within size_bytes, ".target <arch>", ".entry <symbol>". */
bool rt_ptx_check(const void *bytes, size_t size_bytes, const char *arch, const char *symbol, char why[256]);

#endif
