/* smla-run --selftest: the library's own test of each kernel of a list. */
#ifndef SMLA_TOOLS_RUN_SELF_TEST_H
#define SMLA_TOOLS_RUN_SELF_TEST_H

#include "run_cuda.h"
#include "run_watch.h"
#include "shapes.h"

struct run_self_test {
    const struct run_session *session; /* with SMLA_CONTEXT_SELF_TEST */
    const char *emulated;              /* the emulated device's driver, whose findings count; NULL: on a card */
    const struct shapes_options
        *from;          /* without from_count: one of each row of the table that smla-gen --list prints */
    const char *target; /* NULL: the device's */
    bool json;
    struct run_watch *watch; /* that ends what hangs */
};

/* Prepares them all and prints what came of it. Returns the exit code. */
int run_self_test(const struct run_self_test *test);

#endif
