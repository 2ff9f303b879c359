/* smla-gen -o NAME.smlab */
#ifndef SMLA_TOOLS_GEN_SMLAB_H
#define SMLA_TOOLS_GEN_SMLAB_H

#include "smla/smla.h"

/* Writes all code that a context has made as a bundle. second: NULL, or a context that has made the same again; where
 * that gives another file, none is written. Returns an exit code, other than CLI_FINE after a sentence. */
int gen_smlab(const char *path, smla_context *context, smla_context *second);

#endif
