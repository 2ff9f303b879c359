/* What must hold of any call: right against float64, nothing else written, and the same bits again, with other values
 * in what no list selects, with some outputs alone, and with the queries in another order. */
#ifndef SMLA_TESTS_GPU_PROPERTIES_H
#define SMLA_TESTS_GPU_PROPERTIES_H

#include "random_call.h"

/* Runs the call several times; afterwards its inputs are changed. figures: of the comparison with float64. False with
 * a sentence in why[]. */
bool random_call_check(struct bench *bench, struct random_call *call, char figures[PROBLEM_WHY], char why[PROBLEM_WHY]);

#endif
