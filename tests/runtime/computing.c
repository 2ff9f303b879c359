#include "computing.h"

#include <string.h>

#include "bf16.h"
#include "reference.h"
#include "self_test_problem.h"

/* wide: instead of out, or NULL. max_logits: may be NULL. */
static void store(const struct reference_result *result, int64_t rows, int32_t d, uint16_t *out, float *wide,
                  float *lse, float *max_logits)
{
    for (int64_t i = 0; i < rows * d; i++) {
        if (wide)
            wide[i] = (float)result->out[i];
        else
            out[i] = bf16_from_float((float)result->out[i]);
    }
    for (int64_t i = 0; i < rows; i++)
        lse[i] = (float)result->lse[i];
    for (int64_t i = 0; max_logits && i < rows; i++)
        max_logits[i] = (float)result->max_logits[i];
}

void compute_prefill(const struct smla_prefill_params *params, int32_t h_q, int32_t d)
{
    const struct smla_key_cache *cache = &params->cache[0];
    const smla_kernel_desc shape = {.h_q = h_q, .d_qk = d, .d_v = d};
    const smla_prefill_args args = {.s_q = params->s_q,
                                    .s_kv = cache->s_kv,
                                    .topk = cache->topk,
                                    .sm_scale = params->sm_scale,
                                    .query = params->query,
                                    .kv = cache->kv,
                                    .indices = cache->indices,
                                    .topk_length = cache->topk_length,
                                    .attn_sink = params->attn_sink};
    struct reference_result result;

    if (!reference_prefill(&shape, &args, &result))
        return;
    store(&result, params->s_q * h_q, d, params->out, NULL, params->lse, params->max_logits);
    reference_free(&result);
}

bool combine_writes_float(const char *entry)
{
    return strstr(entry, "_to_float32") != NULL;
}

void compute_combine(const char *entry, const struct smla_combine_params *params, int32_t h_q, int32_t d_v)
{
    const smla_kernel_desc shape = {.h_q = h_q, .d_v = d_v};
    const smla_combine_args args = {.partial_dtype =
                                        strstr(entry, "_float32_to_") ? SMLA_DTYPE_FLOAT32 : SMLA_DTYPE_BF16,
                                    .parts = params->parts,
                                    .s_q = TEST_TOKENS,
                                    .partial_out = params->partial_out,
                                    .partial_lse = params->partial_lse,
                                    .attn_sink = params->attn_sink};
    struct reference_result result;

    if (!reference_combine(&shape, &args, &result))
        return;
    store(&result, (int64_t)TEST_TOKENS * h_q, d_v, params->out, combine_writes_float(entry) ? params->out : NULL,
          params->lse, NULL);
    reference_free(&result);
}
