/* A gate in the stub's compiler, so that tests say when a compilation ends and need no time to pass. */
#ifndef SMLA_RUNTIME_GATE_H
#define SMLA_RUNTIME_GATE_H

#include "harness.h"

/* From now on compilations wait. */
void gate_close(struct world *world);

/* Waits until so many have come to the gate since it was closed. */
void gate_wait_for(int arrived);
int gate_arrived(void);

/* Lets all of them go on, and those to come. */
void gate_open(void);

/* The same a little later, from another thread: for a call that is to find the gate closed and wait. */
void gate_open_later(void);
void gate_join(void);

#endif
