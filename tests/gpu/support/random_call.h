/* A call of prefill made from choices (axes.h), as a problem that problem_run and problem_check take. Rows of kv that
 * no list selects are NaN, and so is what stands between the rows of views. */
#ifndef SMLA_TESTS_GPU_RANDOM_CALL_H
#define SMLA_TESTS_GPU_RANDOM_CALL_H

#include "axes.h"
#include "problem.h"

/* A cache of the call, with the lists that select from it. */
struct random_cache {
    int64_t s_kv, topk;
    smla_kv_layout layout;
    uint8_t *selected; /* [s_kv] whether a list selects the row */
};

struct random_call {
    struct choices choices; /* axes that say nothing of the bench's kernel have their plain value */
    struct problem problem;
    int64_t base[INPUTS]; /* elements (of caches: bytes) of each of problem.host before its tensor */
    int cache_count;
    struct random_cache caches[2];
    uint64_t state; /* of the random numbers */
};

/* Whether an axis says something of a kernel. */
bool random_call_has_axis(const smla_kernel_desc *desc, enum axis axis);

/* Makes the call for the bench's kernel: the same choices and state give the same call. */
bool random_call_make(struct bench *bench, const struct choices *choices, uint64_t state, struct random_call *out,
                      char why[PROBLEM_WHY]);
void random_call_free(struct bench *bench, struct random_call *call);

/* What no list selects becomes something else, on the card too: rows of kv, gaps, entries past lengths. */
bool random_call_spoil_rest(struct bench *bench, struct random_call *call);

/* Query token t becomes what t + 1 was, the last what the first was. */
bool random_call_rotate(struct bench *bench, struct random_call *call);

/* Where [token, head, 0] of out is, in elements. */
int64_t random_call_out_at(const struct random_call *call, int64_t token, int64_t head);
int64_t random_call_lse_at(const struct random_call *call, int64_t token);
int64_t random_call_max_at(const struct random_call *call, int64_t token);

#endif
