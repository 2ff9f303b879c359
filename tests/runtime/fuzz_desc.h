/* What may follow a description that came from outside. */
#ifndef SMLA_TESTS_RUNTIME_FUZZ_DESC_H
#define SMLA_TESTS_RUNTIME_FUZZ_DESC_H

#include "smla/smla.h"

/* Makes spec and plan of a full-size description, prints them, and reads the spec's text back. Aborts where a refusal
 * has no reason, or the text does not give the same spec. */
void fuzz_desc(const smla_kernel_desc *desc);

#endif
