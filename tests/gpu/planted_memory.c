/* A prefill call whose lse ends one query too early, so that compute-sanitizer's memcheck has something to find. The
 * memory behind is the allocator's, so nothing else happens. Run under memcheck; by itself it exits 0 once the kernel
 * has run, 77 without a card, 1 after a fault of its own. */
#include <stdio.h>

#include "problem.h"

int main(void)
{
    enum { QUERIES = 2, HEADS = 64 };
    struct bench bench;
    char why[PROBLEM_WHY];
    const int opened = bench_open(&bench, why);
    if (opened != 0) {
        printf("%s\n", why);
        return opened;
    }
    const struct problem_spec spec = {.name = "planted", .s_q = QUERIES, .s_kv = 2048, .topk = 128};
    struct problem problem;
    void *lse = NULL;
    bool ran = problem_make(&bench, &spec, &problem, why);
    if (ran && !device_alloc(bench.device, (QUERIES - 1) * HEADS * sizeof(float), &lse)) {
        snprintf(why, sizeof(why), "%s", device_why(bench.device));
        ran = false;
    }
    problem.args.lse = lse;
    ran = ran && problem_run(&bench, bench.prefill, &problem, NULL, why);
    printf("%s\n", ran ? "the kernel has run with an lse that is too short" : why);
    return ran ? 0 : 1;
}
