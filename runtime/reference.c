#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bf16.h"
#include "kv_read.h"
#include "real.h"

static const double ln_2 = 0.69314718055994531;

/* A cache and the lists that select from it. */
struct cache {
    struct kv_view view;
    int64_t s_kv;
    int64_t topk;
    const int32_t *indices;
    int64_t indices_stride;
    const int32_t *length;
    int64_t length_stride;
};

/* The call with every default filled in. */
struct problem {
    smla_prefill_args args;
    struct cache caches[2]; /* the second has topk 0 when there is none */
    int64_t h_q;
    int64_t d_qk;
    int64_t d_v;
};

/* The valid keys of one query, as bf16 [count, d_qk], and room for a logit each. */
struct keys {
    uint16_t *rows;
    double *logits;
    int64_t count;
};

static int64_t stride_or(int64_t stride, int64_t contiguous)
{
    return stride == 0 ? contiguous : stride;
}

static struct problem fill_defaults(const smla_kernel_desc *shape, const smla_prefill_args *args)
{
    struct problem p = {
        .args = *args, .h_q = shape->h_q, .d_qk = shape->d_qk, .d_v = shape->d_v == 0 ? 512 : shape->d_v};
    p.args.query_stride_head = stride_or(args->query_stride_head, p.d_qk);
    p.args.query_stride_token = stride_or(args->query_stride_token, p.args.query_stride_head * p.h_q);
    return p;
}

/* The format of a cache: a layout, or a preset's, or bf16 of any width. */
static bool find_layout(const char *name, const smla_kv_layout *given, int32_t d_qk, smla_kv_layout *layout)
{
    *layout = (smla_kv_layout){
        .struct_size = sizeof *layout, .value_type = SMLA_VALUE_BF16, .value_elems = d_qk, .place = SMLA_PLACE_TOKEN};
    if (given != NULL)
        *layout = *given;
    return given != NULL || name == NULL || strcmp(name, "bf16") == 0 ||
           smla_kv_layout_preset(name, d_qk, layout) == SMLA_OK;
}

static bool find_caches(const smla_kernel_desc *shape, const smla_prefill_args *args, struct cache caches[2])
{
    smla_kv_layout layout;
    if (!find_layout(shape->kv_format, shape->kv_layout, shape->d_qk, &layout))
        return false;
    caches[0] = (struct cache){
        kv_view_make(&layout, args->kv, args->kv_stride_token, args->kv_page_tokens, args->kv_stride_page),
        args->s_kv,
        args->topk,
        args->indices,
        stride_or(args->indices_stride_token, args->topk),
        args->topk_length,
        stride_or(args->topk_length_stride, 1)};
    if (shape->extra_kv_format == NULL && shape->extra_kv_layout == NULL)
        return true;
    if (!find_layout(shape->extra_kv_format, shape->extra_kv_layout, shape->d_qk, &layout))
        return false;
    caches[1] = (struct cache){kv_view_make(&layout, args->extra_kv, args->extra_kv_stride_token,
                                            args->extra_kv_page_tokens, args->extra_kv_stride_page),
                               args->extra_s_kv,
                               args->extra_topk,
                               args->extra_indices,
                               stride_or(args->extra_indices_stride_token, args->extra_topk),
                               args->extra_topk_length,
                               stride_or(args->extra_topk_length_stride, 1)};
    return true;
}

/* Valid: position < length, 0 <= index < s_kv. Duplicates count. */
static void select_keys(const struct problem *p, int64_t token, struct keys *keys)
{
    keys->count = 0;
    for (const struct cache *cache = p->caches; cache < p->caches + 2; cache++) {
        const int32_t *list = cache->indices + token * cache->indices_stride;
        int64_t length = cache->topk;
        if (cache->length != NULL && cache->length[token * cache->length_stride] < length)
            length = cache->length[token * cache->length_stride];
        for (int64_t j = 0; j < length; j++)
            if (list[j] >= 0 && list[j] < cache->s_kv)
                kv_read(&cache->view, list[j], keys->rows + keys->count++ * p->d_qk);
    }
}

/* q.k; *sum_abs receives the sum of |q k|. */
static double dot(const uint16_t *query, const uint16_t *key, int64_t d_qk, double *sum_abs)
{
    double sum = 0;
    *sum_abs = 0;
    for (int64_t d = 0; d < d_qk; d++) {
        const double product = (double)bf16_to_float(query[d]) * (double)bf16_to_float(key[d]);
        sum += product;
        *sum_abs += fabs(product);
    }
    return sum;
}

/* Fills keys->logits. Returns the largest, -inf when there is none, NaN when one is NaN. */
static double compute_logits(const struct problem *p, const uint16_t *query, struct keys *keys, double *logit_abs)
{
    const double scale = (double)p->args.sm_scale;
    double max = -INFINITY;
    *logit_abs = 0;
    for (int64_t j = 0; j < keys->count; j++) {
        double sum_abs;
        keys->logits[j] = scale * dot(query, keys->rows + j * p->d_qk, p->d_qk, &sum_abs);
        if (keys->logits[j] > max) {
            max = keys->logits[j];
            *logit_abs = fabs(scale) * sum_abs;
        }
    }
    for (int64_t j = 0; j < keys->count; j++)
        if (isnan(keys->logits[j]))
            return NAN;
    return max;
}

/* The lse that is returned, from the plain one (natural, no sink; -inf when nothing contributes). */
static double finish_lse(uint32_t flags, bool has_sink, double lse, double sink)
{
    const bool with_sink = (flags & SMLA_LSE_WITH_SINK) != 0 && has_sink;
    const bool empty = lse == -INFINITY;
    if (isnan(lse)) /* a logit of +inf; fmax would drop it */
        return lse;
    if (with_sink)
        lse =
            empty || isinf(sink) ? rt_larger(lse, sink) : rt_larger(lse, sink) + rt_log(1 + rt_exp(-fabs(sink - lse)));
    else if (empty)
        return (flags & SMLA_LSE_EMPTY_NEGATIVE) != 0 ? -INFINITY : INFINITY;
    return (flags & SMLA_LSE_BASE_2) != 0 ? lse / ln_2 : lse;
}

/* out = sum of p v. A weight of 0 is a factor too: 0 for a finite value, NaN for an infinite one. */
static void accumulate(const struct problem *p, const struct keys *keys, double max, double denominator, double *out,
                       double *out_abs)
{
    for (int64_t d = 0; d < p->d_v; d++)
        out[d] = out_abs[d] = 0;
    for (int64_t j = 0; j < keys->count; j++) {
        const double weight = max == -INFINITY ? 0 : rt_exp(keys->logits[j] - max) / denominator;
        for (int64_t d = 0; d < p->d_v; d++) {
            const double value = (double)bf16_to_float(keys->rows[j * p->d_qk + d]);
            out[d] += weight * value;
            out_abs[d] += weight * fabs(value);
        }
    }
}

/* One head of one query; row counts them. */
static void attend(const struct problem *p, int64_t row, const uint16_t *query, double sink, struct keys *keys,
                   struct reference_result *result)
{
    double *out = result->out + row * p->d_v;
    double max = compute_logits(p, query, keys, &result->logit_abs[row]);
    if (isnan(sink))
        max = NAN; /* counts as a NaN in the head */
    const bool has_sink = p->args.attn_sink != NULL;
    double sum = 0;
    for (int64_t j = 0; j < keys->count; j++)
        sum += rt_exp(keys->logits[j] - max);
    if (keys->count == 0 || max == -INFINITY) /* no key, or none with any weight */
        sum = 0;
    if (isnan(max)) {
        for (int64_t d = 0; d < p->d_v; d++)
            out[d] = result->out_abs[row * p->d_v + d] = NAN;
        result->lse[row] = NAN;
    } else if (sum == 0) {
        accumulate(p, keys, max, 1, out, result->out_abs + row * p->d_v);
        result->lse[row] = finish_lse(p->args.lse_flags, has_sink, -INFINITY, sink);
    } else {
        accumulate(p, keys, max, sum + rt_exp(sink - max), out, result->out_abs + row * p->d_v);
        result->lse[row] = finish_lse(p->args.lse_flags, has_sink, max + rt_log(sum), sink);
    }
    result->max_logits[row] = max;
}

bool reference_allocate(int64_t row_count, int64_t d_v, struct reference_result *result)
{
    const size_t rows = (size_t)row_count;
    const size_t elems = rows * (size_t)d_v;
    *result = (struct reference_result){.out = calloc(elems + 1, sizeof(double)),
                                        .lse = calloc(rows + 1, sizeof(double)),
                                        .max_logits = calloc(rows + 1, sizeof(double)),
                                        .out_abs = calloc(elems + 1, sizeof(double)),
                                        .logit_abs = calloc(rows + 1, sizeof(double))};
    if (result->out != NULL && result->lse != NULL && result->max_logits != NULL && result->out_abs != NULL &&
        result->logit_abs != NULL)
        return true;
    reference_free(result);
    return false;
}

static bool allocate(const struct problem *p, struct reference_result *result, struct keys *keys)
{
    const size_t topk = (size_t)(p->caches[0].topk + p->caches[1].topk);
    *keys =
        (struct keys){calloc((topk + 1) * (size_t)p->d_qk, sizeof *keys->rows), calloc(topk + 1, sizeof(double)), 0};
    return reference_allocate(p->args.s_q * p->h_q, p->d_v, result) && keys->rows != NULL && keys->logits != NULL;
}

bool reference_prefill(const smla_kernel_desc *shape, const smla_prefill_args *args, struct reference_result *result)
{
    struct problem p = fill_defaults(shape, args);
    struct keys keys;
    if (!find_caches(shape, args, p.caches))
        return false;
    const bool ok = allocate(&p, result, &keys);
    for (int64_t token = 0; ok && token < args->s_q; token++) {
        select_keys(&p, token, &keys);
        for (int64_t head = 0; head < p.h_q; head++) {
            const uint16_t *query =
                (const uint16_t *)args->query + token * p.args.query_stride_token + head * p.args.query_stride_head;
            const double sink = args->attn_sink == NULL ? -INFINITY : (double)args->attn_sink[head];
            attend(&p, token * p.h_q + head, query, sink, &keys, result);
        }
    }
    free(keys.rows);
    free(keys.logits);
    if (!ok)
        reference_free(result);
    return ok;
}

/* ---- Combine ---- */

/* The call with every default filled in. */
struct merge {
    smla_combine_args args;
    int64_t h_q;
    int64_t d_v;
};

static struct merge fill_merge(const smla_kernel_desc *shape, const smla_combine_args *args)
{
    struct merge m = {*args, shape->h_q, shape->d_v == 0 ? 512 : shape->d_v};
    m.args.partial_out_stride_head = stride_or(args->partial_out_stride_head, m.d_v);
    m.args.partial_out_stride_token = stride_or(args->partial_out_stride_token, m.args.partial_out_stride_head * m.h_q);
    m.args.partial_out_stride_part =
        stride_or(args->partial_out_stride_part, m.args.partial_out_stride_token * args->s_q);
    m.args.partial_lse_stride_head = stride_or(args->partial_lse_stride_head, 1);
    m.args.partial_lse_stride_token = stride_or(args->partial_lse_stride_token, m.args.partial_lse_stride_head * m.h_q);
    m.args.partial_lse_stride_part =
        stride_or(args->partial_lse_stride_part, m.args.partial_lse_stride_token * args->s_q);
    return m;
}

/* Natural; -inf for an empty part, whichever infinity stands there. */
static double part_lse(const struct merge *m, int64_t part, int64_t token, int64_t head)
{
    const float lse =
        m->args.partial_lse[part * m->args.partial_lse_stride_part + token * m->args.partial_lse_stride_token +
                            head * m->args.partial_lse_stride_head];
    if (isinf(lse))
        return -INFINITY;
    return (m->args.partial_lse_flags & SMLA_LSE_BASE_2) != 0 ? (double)lse * ln_2 : (double)lse;
}

static double part_value(const struct merge *m, int64_t part, int64_t token, int64_t head, int64_t d)
{
    const int64_t at = part * m->args.partial_out_stride_part + token * m->args.partial_out_stride_token +
                       head * m->args.partial_out_stride_head + d;
    return m->args.partial_dtype == SMLA_DTYPE_FLOAT32
               ? (double)((const float *)m->args.partial_out)[at]
               : (double)bf16_to_float(((const uint16_t *)m->args.partial_out)[at]);
}

/* out = sum of share * part; nothing is added for an empty part, whatever stands there. */
static void add_parts(const struct merge *m, int64_t token, int64_t head, double max, double denominator, double *out,
                      double *out_abs)
{
    for (int64_t part = 0; part < m->args.parts; part++) {
        const double lse = part_lse(m, part, token, head);
        const double share = rt_exp(lse - max) / denominator;
        for (int64_t d = 0; lse != -INFINITY && d < m->d_v; d++) {
            const double value = part_value(m, part, token, head, d);
            out[d] += share * value;
            out_abs[d] += share * fabs(value);
        }
    }
}

static void merge_row(const struct merge *m, int64_t token, int64_t head, struct reference_result *result)
{
    const int64_t row = token * m->h_q + head;
    const bool has_sink = m->args.attn_sink != NULL;
    const double sink = has_sink ? (double)m->args.attn_sink[head] : -INFINITY;
    double *out = result->out + row * m->d_v, *out_abs = result->out_abs + row * m->d_v;
    double max = isnan(sink) ? NAN : -INFINITY, sum = 0;
    for (int64_t part = 0; part < m->args.parts; part++) {
        const double lse = part_lse(m, part, token, head);
        max = isnan(lse) || isnan(max) ? NAN : rt_larger(max, lse);
    }
    for (int64_t part = 0; part < m->args.parts && max != -INFINITY; part++)
        sum += rt_exp(part_lse(m, part, token, head) - max);
    if (isnan(max)) {
        for (int64_t d = 0; d < m->d_v; d++)
            out[d] = out_abs[d] = NAN;
        result->lse[row] = NAN;
    } else if (sum == 0) {
        result->lse[row] = finish_lse(m->args.lse_flags, has_sink, -INFINITY, sink);
    } else {
        add_parts(m, token, head, max, sum + rt_exp(sink - max), out, out_abs);
        result->lse[row] = finish_lse(m->args.lse_flags, has_sink, max + rt_log(sum), sink);
    }
}

bool reference_combine(const smla_kernel_desc *shape, const smla_combine_args *args, struct reference_result *result)
{
    const struct merge m = fill_merge(shape, args);
    const bool ok = reference_allocate(args->s_q * m.h_q, m.d_v, result);
    for (int64_t token = 0; ok && token < args->s_q; token++)
        for (int64_t head = 0; head < m.h_q; head++)
            merge_row(&m, token, head, result);
    if (!ok)
        reference_free(result);
    return ok;
}

void reference_free(struct reference_result *result)
{
    free(result->out);
    free(result->lse);
    free(result->max_logits);
    free(result->out_abs);
    free(result->logit_abs);
    *result = (struct reference_result){0};
}
