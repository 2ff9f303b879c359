/* A prefill call whose topk_length nobody has written, so that compute-sanitizer's initcheck has something to find. Any
 * length may be given, so nothing else happens. Run under initcheck; by itself it exits 0 once the kernel has run, 77
 * without a card, 1 after a fault of its own. */
#include <stdio.h>

#include "problem.h"

int main(void)
{
    enum { QUERIES = 2 };
    struct bench bench;
    char why[PROBLEM_WHY];
    const int opened = bench_open(&bench, why);
    if (opened != 0) {
        printf("%s\n", why);
        return opened;
    }
    const struct problem_spec spec = {.name = "planted", .s_q = QUERIES, .s_kv = 2048, .topk = 128};
    struct problem problem;
    void *lengths = NULL;
    bool ran = problem_make(&bench, &spec, &problem, why);
    if (ran && !device_alloc(bench.device, QUERIES * sizeof(int32_t), &lengths)) {
        snprintf(why, sizeof(why), "%s", device_why(bench.device));
        ran = false;
    }
    problem.args.topk_length = lengths;
    ran = ran && problem_run(&bench, bench.prefill, &problem, NULL, why);
    printf("%s\n", ran ? "the kernel has run with lengths that nobody wrote" : why);
    return ran ? 0 : 1;
}
