/* Runs numbered jobs on a few threads with a progress line. */
#ifndef SMLA_TOOLS_POOL_H
#define SMLA_TOOLS_POOL_H

#include <stddef.h>

/* Does one job and returns its exit code. label: what the progress line says when it is done; left
 * empty, none is shown. Any thread. */
typedef int (*pool_fn)(void *user, size_t index, char label[160]);

/* Runs jobs 0 … count-1 on `threads` threads (0: one a core). All are run, whatever some return.
 * Returns the worst exit code. */
int pool_run(size_t count, size_t threads, pool_fn fn, void *user);

#endif
