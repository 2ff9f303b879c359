/* A prefill kernel with a fault planted into its template's text, for what must find it. */
#ifndef SMLA_TESTS_GPU_MUTANT_H
#define SMLA_TESTS_GPU_MUTANT_H

#include "entry.h"
#include "kernel.h"
#include "problem.h"

struct mutant {
    struct smla_kernel kernel;
    struct rt_entry image; /* the loaded module points into it until the bench is closed */
};

/* Compiles and loads the kernel of 64 heads, d_qk 512, for the card with `to` in place of `from`, which must stand once
 * in the template. Line numbers stay when `to` has no line end. False with a sentence in why[]. */
bool mutant_make(struct bench *bench, const char *from, const char *to, struct mutant *out, char why[PROBLEM_WHY]);

/* The whole program: opens the card, makes the mutant, runs it once over two blocks of keys, says so. Returns 0 once it
 * has run, 77 without a card, 1 after a fault. (Two blocks, one a slot: with more, a refill that nobody waits for can
 * overrun a phase and hang.) */
int mutant_main(const char *from, const char *to, const char *what);

#endif
