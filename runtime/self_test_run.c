#include "self_test_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bf16.h"
#include "combine_params.h"
#include "compare.h"
#include "error.h"

/* Of lists. A cluster of 8 has a share each of 449 entries; a decode kernel cuts 8 blocks of keys, and without regard
 * to the batch 1025 entries and more. */
enum { PLAIN_TOPK = 161, SHARED_TOPK = 449, PIECES_TOPK = 1089 };

/* A call, and what it is told by. */
struct run {
    struct test_device *device;
    const struct gen_spec *spec;
    smla_kernel kernel; /* a copy that takes the one variant */
    const char *variant;
    const char *how;
    bool padded; /* no lengths, entries that are not valid in their place */
    bool paged;
    int32_t sm_limit;
    int64_t b;
    uint32_t partial_dtype; /* of combine */
    uint32_t out_dtype;
    uint8_t *got;
};

int64_t test_topk(const struct gen_spec *spec, const smla_kernel *kernel)
{
    if (spec->op == SMLA_OP_COMBINE)
        return 0;
    if (spec->op == SMLA_OP_DECODE)
        return spec->batch_invariant ? PIECES_TOPK : SHARED_TOPK;
    return kernel->choice_count > 0 ? SHARED_TOPK : PLAIN_TOPK;
}

/* ---- Comparing ---- */

static const void *got_at(const struct run *run, enum test_tensor which)
{
    const struct test_problem *problem = run->device->problem;

    return run->got + (problem->offsets[which] - problem->offsets[TEST_OUT]);
}

static bool out_is_float(const struct run *run)
{
    return run->spec->op == SMLA_OP_PREFILL_REFERENCE ||
           (run->spec->op == SMLA_OP_COMBINE && run->out_dtype == SMLA_DTYPE_FLOAT32);
}

static double *widen(const void *values, bool is_float, int64_t count)
{
    double *wide = malloc((size_t)count * sizeof *wide);

    for (int64_t i = 0; wide != NULL && i < count; i++)
        wide[i] = is_float ? (double)((const float *)values)[i] : (double)bf16_to_float(((const uint16_t *)values)[i]);
    return wide;
}

/* Of a NaN no sign. */
static double plain(double value)
{
    return isnan(value) ? fabs(value) : value;
}

static smla_status fail_run(const struct run *run, const char *tensor, int64_t width,
                            const struct compare_result *compared)
{
    const int64_t worst = compared->worst < 0 ? 0 : compared->worst, row = worst / width;
    char element[48];

    snprintf(element, sizeof element, "[%lld][%lld]", (long long)(row / run->spec->h_q),
             (long long)(row % run->spec->h_q));
    if (width > 1)
        snprintf(element + strlen(element), sizeof element - strlen(element), "[%lld]", (long long)(worst % width));
    return rt_fail(SMLA_ERROR_SELF_TEST,
                   "self-test of %s (%s): %s%s is %.9g and should be %.9g; %lld elements are past their bounds, the "
                   "cosine difference is %.2g",
                   run->variant, run->how, tensor, element, plain(compared->worst_got), plain(compared->worst_ref),
                   (long long)compared->failed, compared->cos);
}

static smla_status compare_tensor(const struct run *run, enum test_tensor which)
{
    static const char *const names[] = {"out", "lse", "max_logits"};
    const struct reference_result *expected = &run->device->problem->expected;
    const int64_t rows = (int64_t)TEST_TOKENS * run->spec->h_q, width = which == TEST_OUT ? run->spec->d_v : 1;
    double *got = widen(got_at(run, which), which != TEST_OUT || out_is_float(run), rows * width);
    struct compare_result compared;

    if (got == NULL)
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for the self-test's results");
    if (which == TEST_OUT)
        compared = compare_out(got, expected->out, expected->out_abs, rows, width);
    else
        compared = compare_log(got, which == TEST_LSE ? expected->lse : expected->max_logits, expected->logit_abs, rows,
                               run->spec->op == SMLA_OP_DECODE ? COMPARE_DECODE : COMPARE_PREFILL);
    free(got);
    return compared.pass ? SMLA_OK : fail_run(run, names[which - TEST_OUT], width, &compared);
}

static smla_status compare(const struct run *run)
{
    const bool is_prefill = run->spec->op == SMLA_OP_PREFILL || run->spec->op == SMLA_OP_PREFILL_REFERENCE;
    smla_status status = compare_tensor(run, TEST_OUT);

    if (status == SMLA_OK)
        status = compare_tensor(run, TEST_LSE);
    return status == SMLA_OK && is_prefill ? compare_tensor(run, TEST_MAX_LOGITS) : status;
}

/* ---- Calling ---- */

static void *at(const struct run *run, enum test_tensor which)
{
    return test_device_tensor(run->device, which);
}

static smla_status call_prefill(struct run *run)
{
    const struct test_problem *problem = run->device->problem;
    const bool two = run->kernel.caches == 2;
    uint64_t workspace_bytes;
    smla_status status = smla_prefill_workspace_size(&run->kernel, TEST_TOKENS, problem->topk[0], &workspace_bytes);

    if (status == SMLA_OK)
        status = test_device_workspace(run->device, workspace_bytes);
    if (status != SMLA_OK)
        return status;
    const smla_prefill_args args = {
        .struct_size = sizeof args,
        .s_q = TEST_TOKENS,
        .s_kv = problem->s_kv[0],
        .topk = problem->topk[0],
        .sm_scale = problem->sm_scale,
        .query = at(run, TEST_QUERY),
        .kv = at(run, TEST_KV),
        .kv_page_tokens = run->paged ? TEST_PAGE_TOKENS : 0,
        .indices = at(run, run->padded ? TEST_PADDED_INDICES : TEST_INDICES),
        .topk_length = run->padded ? NULL : at(run, TEST_LENGTHS),
        .attn_sink = at(run, TEST_SINK),
        .out = at(run, TEST_OUT),
        .lse = at(run, TEST_LSE),
        .max_logits = at(run, TEST_MAX_LOGITS),
        .workspace = (void *)(uintptr_t)run->device->workspace,
        .workspace_bytes = workspace_bytes,
        .extra_s_kv = problem->s_kv[1],
        .extra_topk = problem->topk[1],
        .extra_kv = two ? at(run, TEST_EXTRA_KV) : NULL,
        .extra_kv_page_tokens = two && run->paged ? TEST_PAGE_TOKENS : 0,
        .extra_indices = two ? at(run, run->padded ? TEST_EXTRA_PADDED_INDICES : TEST_EXTRA_INDICES) : NULL,
        .extra_topk_length = two && !run->padded ? at(run, TEST_EXTRA_LENGTHS) : NULL,
        .sm_limit = run->sm_limit,
    };
    return smla_prefill(&run->kernel, &args, run->device->stream);
}

static smla_status call_decode(struct run *run)
{
    const struct test_problem *problem = run->device->problem;
    const bool two = run->kernel.caches == 2;
    uint64_t workspace_bytes;
    smla_status status = smla_decode_workspace_size(&run->kernel, run->b, TEST_TOKENS / run->b, problem->topk[0],
                                                    problem->topk[1], &workspace_bytes);

    if (status == SMLA_OK)
        status = test_device_workspace(run->device, workspace_bytes);
    if (status != SMLA_OK)
        return status;
    const smla_decode_args args = {
        .struct_size = sizeof args,
        .sm_scale = problem->sm_scale,
        .b = run->b,
        .s_q = TEST_TOKENS / run->b,
        .s_kv = problem->s_kv[0],
        .topk = problem->topk[0],
        .query = at(run, TEST_QUERY),
        .kv = at(run, TEST_KV),
        .kv_page_tokens = run->paged ? TEST_PAGE_TOKENS : 0,
        .indices = at(run, run->padded ? TEST_PADDED_INDICES : TEST_INDICES),
        .topk_length = run->padded ? NULL : at(run, TEST_LENGTHS),
        .attn_sink = at(run, TEST_SINK),
        .out = at(run, TEST_OUT),
        .lse = at(run, TEST_LSE),
        .workspace = (void *)(uintptr_t)run->device->workspace,
        .workspace_bytes = workspace_bytes,
        .extra_s_kv = problem->s_kv[1],
        .extra_topk = problem->topk[1],
        .extra_kv = two ? at(run, TEST_EXTRA_KV) : NULL,
        .extra_kv_page_tokens = two && run->paged ? TEST_PAGE_TOKENS : 0,
        .extra_indices = two ? at(run, run->padded ? TEST_EXTRA_PADDED_INDICES : TEST_EXTRA_INDICES) : NULL,
        .extra_topk_length = two && !run->padded ? at(run, TEST_EXTRA_LENGTHS) : NULL,
        .sm_limit = run->sm_limit,
    };
    return smla_decode(&run->kernel, &args, run->device->stream);
}

static smla_status call_combine(struct run *run)
{
    const smla_combine_args args = {
        .struct_size = sizeof args,
        .partial_dtype = run->partial_dtype,
        .out_dtype = run->out_dtype,
        .parts = TEST_PARTS,
        .s_q = TEST_TOKENS,
        .partial_out = at(run, run->partial_dtype == SMLA_DTYPE_FLOAT32 ? TEST_PARTIAL_OUT_FLOAT32 : TEST_PARTIAL_OUT),
        .partial_lse = at(run, TEST_PARTIAL_LSE),
        .attn_sink = at(run, TEST_SINK),
        .out = at(run, TEST_OUT),
        .lse = at(run, TEST_LSE),
    };
    return smla_combine(&run->kernel, &args, run->device->stream);
}

static smla_status call(struct run *run)
{
    switch (run->spec->op) {
    case SMLA_OP_DECODE:
        return call_decode(run);
    case SMLA_OP_COMBINE:
        return call_combine(run);
    default:
        return call_prefill(run);
    }
}

static smla_status do_run(struct run *run)
{
    smla_status status = test_device_poison(run->device);

    if (status == SMLA_OK)
        status = call(run);
    if (status == SMLA_OK)
        status = test_device_download(run->device, run->got);
    return status == SMLA_OK ? compare(run) : status;
}

/* ---- Which calls ---- */

/* A copy of the kernel with one way to go for all calls. */
static struct run run_of(struct test_device *device, const struct gen_bundle *bundle, const smla_kernel *kernel,
                         uint8_t *got)
{
    struct run run = {.device = device,
                      .spec = &bundle->spec,
                      .kernel = *kernel,
                      .variant = bundle->plan.variants[0].name,
                      .how = "lengths",
                      .b = TEST_TOKENS,
                      .got = got};

    run.kernel.companion = NULL;
    run.kernel.takes_companion = (struct gen_companion){0};
    run.kernel.choice_count = 0;
    run.paged = kernel->kv[0].by_page || kernel->kv[1].by_page;
    return run;
}

/* The rules' variant, by each of them that the device has place for. */
static smla_status run_choices(struct run run, const struct gen_bundle *bundle, const smla_kernel *kernel)
{
    smla_status status = SMLA_OK;

    run.kernel.choice_count = 1;
    run.sm_limit = 0;
    for (int32_t i = 0; status == SMLA_OK && i < kernel->choice_count; i++) {
        if (kernel->choices[i].most_tokens == 0)
            continue;
        run.kernel.choices[0] = kernel->choices[i];
        run.kernel.choices[0].most_tokens = run.kernel.choices[0].most_topk = INT64_MAX;
        run.variant = bundle->plan.variants[kernel->choices[i].variant].name;
        run.padded = i % 2 == 1;
        run.paged = run.padded;
        run.how = run.padded ? "pages, no lengths" : "lengths";
        status = do_run(&run);
    }
    return status;
}

/* On one multiprocessor a persistent kernel's block has one query after the other. */
static smla_status run_prefill(struct run run, const struct gen_bundle *bundle, const smla_kernel *kernel)
{
    run.sm_limit = 1;
    run.variant = bundle->plan.variants[run.paged ? kernel->paged_variant : kernel->lengths_variant].name;
    smla_status status = do_run(&run);

    if (status == SMLA_OK && kernel->lengths_variant != 0) {
        run.padded = true;
        run.variant = bundle->plan.variants[0].name;
        run.how = "no lengths";
        status = do_run(&run);
    }
    run.sm_limit = 0;
    run.padded = run.paged = true;
    run.variant = bundle->plan.variants[kernel->paged_variant].name;
    run.how = "pages, no lengths";
    if (status == SMLA_OK)
        status = do_run(&run);
    return status == SMLA_OK ? run_choices(run, bundle, kernel) : status;
}

/* Keys are shared out by lengths, evenly without them, and few multiprocessors have several items each. */
static smla_status run_decode(struct run run)
{
    smla_status status = do_run(&run);

    run.sm_limit = 2;
    run.how = "lengths, 2 multiprocessors";
    if (status == SMLA_OK)
        status = do_run(&run);
    run.sm_limit = 0;
    run.padded = run.paged = true;
    run.b = 1;
    run.how = "pages, no lengths";
    return status == SMLA_OK ? do_run(&run) : status;
}

static smla_status run_combine(struct run run, const struct gen_bundle *bundle)
{
    smla_status status = SMLA_OK;

    run.how = "3 parts";
    for (uint32_t i = 0; status == SMLA_OK && i < 4; i++) {
        run.partial_dtype = i / 2;
        run.out_dtype = i % 2;
        run.variant = bundle->plan.variants[SMLA_COMBINE_VARIANT(run.partial_dtype, run.out_dtype)].name;
        status = do_run(&run);
    }
    return status;
}

smla_status test_run(struct test_device *device, const struct gen_bundle *bundle, const smla_kernel *kernel,
                     uint8_t *got)
{
    const struct run run = run_of(device, bundle, kernel, got);

    if (bundle->spec.op == SMLA_OP_COMBINE)
        return run_combine(run, bundle);
    return bundle->spec.op == SMLA_OP_DECODE ? run_decode(run) : run_prefill(run, bundle, kernel);
}
