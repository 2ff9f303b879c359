/* Sources that a compiler refused, remembered for the process: another context need not ask it again. */
#ifndef SMLA_RUNTIME_FAILURES_H
#define SMLA_RUNTIME_FAILURES_H

#include <stdbool.h>

#include "key.h"

/* True: this builder refused the source, and the thread's last error is what was told then, log and all. */
bool rt_failures_find(const struct rt_key *key, const struct rt_builder *builder);

/* Keeps the thread's last error. The oldest of RT_FAILURES_KEPT goes. */
enum { RT_FAILURES_KEPT = 32 };
void rt_failures_add(const struct rt_key *key, const struct rt_builder *builder);

/* For tests, whose compilers fail by script. */
void rt_failures_forget(void);

#endif
