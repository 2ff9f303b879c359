/* Sentences that say why something is not used: for a log line or an error, never for the control flow. */
#ifndef SMLA_RUNTIME_WHY_H
#define SMLA_RUNTIME_WHY_H

#include <stdbool.h>

enum { RT_WHY_BYTES = 256 };

/* Writes the sentence, cut to fit, and returns false, so that a check is one line. */
bool rt_refuse(char why[RT_WHY_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
