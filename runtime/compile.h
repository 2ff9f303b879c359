/* A bundle becomes a cubin or PTX. */
#ifndef SMLA_RUNTIME_COMPILE_H
#define SMLA_RUNTIME_COMPILE_H

#include "entry.h"
#include "nvrtc_table.h"

/* Compiles a bundle with its headers in memory. key: of this bundle; its kind says what is wanted.
 * *out is owned by the caller (rt_entry_free).
 * *lasting: a failure that the same input will always give.
 * Returns SMLA_OK; COMPILE (with the log); UNAVAILABLE (NVRTC's builtins are missing); OUT_OF_MEMORY. */
smla_status rt_compile(const struct rt_nvrtc *nvrtc, const struct gen_bundle *bundle, const struct rt_key *key,
                       struct rt_entry *out, bool *lasting);

#endif
