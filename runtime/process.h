/* The process around the library: it may end, or close the library, while a thread is at work. */
#ifndef SMLA_RUNTIME_PROCESS_H
#define SMLA_RUNTIME_PROCESS_H

#include <stdbool.h>

#include "smla/smla.h"

/* A compilation, or a kernel's loading by the driver: what exit() has to wait for, since afterwards the destructors of
 * NVRTC and driver take away what it works with. Returns SMLA_OK; UNAVAILABLE (the process is ending: what would be
 * called may be gone). May be nested; ends in the thread that began it. */
smla_status rt_process_begin_work(void);
void rt_process_end_work(void);

/* Has exit() wait for work, at most RT_PROCESS_WAIT_MS, before anything that is loaded by now is taken away: exit
 * handlers run from the last to the first, so one is not enough. False when there is no memory for another. */
enum { RT_PROCESS_WAIT_MS = 30000 };
bool rt_process_wait_at_exit(void);

/* Keeps the library mapped until the process ends, whoever closes it: for a thread that nobody can wait for then. False
 * when it cannot be. */
bool rt_process_stay_mapped(void);

#endif
