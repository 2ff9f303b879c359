/* Bundle files as smla-gen and smla-cache write them. */
#ifndef SMLA_TOOLS_SMLAB_WRITE_H
#define SMLA_TOOLS_SMLAB_WRITE_H

#include "smlab.h"

/* Whether a path ends in ".smlab", which is how a bundle is asked for. */
bool smlab_is_path(const char *path);

/* Writes a bundle of entries, which stay the caller's: temporary file, fsync, rename; never open to a group, as no
 * reader would take it then. Sets *size_bytes. Returns an exit code, other than CLI_FINE after a sentence. */
int smlab_write(const char *path, const struct rt_entry *entries, size_t count, size_t *size_bytes);

#endif
