/* The self-test's problem: inputs and outputs as bytes on the host, laid out as on the device, and the right answer. */
#ifndef SMLA_RUNTIME_SELF_TEST_PROBLEM_H
#define SMLA_RUNTIME_SELF_TEST_PROBLEM_H

#include <stdbool.h>

#include "reference.h"
#include "spec.h"

/* Every head beyond these has the query and the sink of the one so many before it, so that the reference need not
 * compute it; no tile of heads is a multiple of it, so that tiles in each other's place are seen. */
enum { TEST_HEAD_CLASSES = 11 };
enum { TEST_TOKENS = 3, TEST_PAGE_TOKENS = 16, TEST_PARTS = 3, TEST_TENSOR_ALIGNMENT = 256 };

/* Two ways to call for the same answer: lengths, behind which whatever stands; or no lengths, and entries that are not
 * valid in their place. */
enum test_tensor {
    TEST_QUERY,
    TEST_KV,
    TEST_EXTRA_KV,
    TEST_INDICES,
    TEST_EXTRA_INDICES,
    TEST_LENGTHS,
    TEST_EXTRA_LENGTHS,
    TEST_PADDED_INDICES,
    TEST_EXTRA_PADDED_INDICES,
    TEST_SINK,
    TEST_PARTIAL_OUT,         /* of combine: bf16 */
    TEST_PARTIAL_OUT_FLOAT32, /* the same values */
    TEST_PARTIAL_LSE,
    TEST_OUT, /* this and what follows is written by the kernel */
    TEST_LSE,
    TEST_MAX_LOGITS,
    TEST_TENSORS
};

struct test_problem {
    const struct gen_spec *spec;
    int64_t s_kv[2];
    int64_t topk[2]; /* 0: there is no second cache */
    float sm_scale;
    size_t offsets[TEST_TENSORS];
    size_t image_bytes;
    uint8_t *image;
    struct reference_result expected; /* [TEST_TOKENS, h_q], …; max_logits is not combine's */
};

/* Makes the problem of a description. topk: entries of the first cache's lists, 64 or more; 0 for combine. checked: no
 * entry that a checked kernel refuses. False when memory runs out; on true the caller frees. */
bool test_problem_make(const struct gen_spec *spec, int64_t topk, struct test_problem *problem);
void test_problem_free(struct test_problem *problem);

/* A tensor in the image. */
void *test_tensor_at(const struct test_problem *problem, enum test_tensor which);

#endif
