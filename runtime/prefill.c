/* The call: check the arguments, fill the parameter struct, launch. */
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "error.h"
#include "launch.h"
#include "prefill_check.h"
#include "prefill_tensor_params.h"
#include "sized.h"
#include "tensor_check.h"

_Static_assert(SMLA_PARAM_LSE_BASE_2 == SMLA_LSE_BASE_2, "template and header agree");
_Static_assert(SMLA_PARAM_LSE_WITH_SINK == SMLA_LSE_WITH_SINK, "template and header agree");
_Static_assert(SMLA_PARAM_LSE_EMPTY_NEGATIVE == SMLA_LSE_EMPTY_NEGATIVE, "template and header agree");
_Static_assert(sizeof(long long) == sizeof(int64_t), "strides are int64 on both sides");

static const float LOG2_E = 1.4426950f; /* what the kernels multiply sm_scale by */

enum { ALL_LSE_FLAGS = SMLA_LSE_BASE_2 | SMLA_LSE_WITH_SINK | SMLA_LSE_EMPTY_NEGATIVE };

/* Those of the second cache stand last: a kernel of one cache has nothing to do with them. */
enum tensor_index {
    QUERY,
    ATTN_SINK,
    OUT,
    LSE,
    MAX_LOGITS,
    REF_OUT,
    REF_LOGIT,
    KV,
    INDICES,
    TOPK_LENGTH,
    EXTRA_KV,
    EXTRA_INDICES,
    EXTRA_TOPK_LENGTH,
    TENSORS
};

/* The names of the fields that describe a cache, of the first and of the second. */
static const struct cache_names {
    const char *s_kv, *topk, *kv, *stride_token, *page_tokens, *stride_page, *indices, *indices_stride, *length,
        *length_stride;
} cache_names[2] = {
    {"s_kv", "topk", "kv", "kv_stride_token", "kv_page_tokens", "kv_stride_page", "indices", "indices_stride_token",
     "topk_length", "topk_length_stride"},
    {"extra_s_kv", "extra_topk", "extra_kv", "extra_kv_stride_token", "extra_kv_page_tokens", "extra_kv_stride_page",
     "extra_indices", "extra_indices_stride_token", "extra_topk_length", "extra_topk_length_stride"},
};

/* And what a call has in them. */
struct cache_args {
    int64_t s_kv, topk;
    const void *kv;
    int64_t stride_token, page_tokens, stride_page;
    const int32_t *indices;
    int64_t indices_stride;
    const int32_t *length;
    int64_t length_stride;
};

static void list_inputs(const smla_kernel *kernel, const smla_prefill_args *args, struct tensor *tensors)
{
    set_shape(&tensors[QUERY], "query", args->query, args->s_q, kernel->h_q, kernel->d_qk);
    set_strides(&tensors[QUERY], "query_stride_token", args->query_stride_token, "query_stride_head",
                args->query_stride_head);
    set_storage(&tensors[QUERY], 2, kernel->pointer_alignment_bytes, kernel->stride_alignment_elems);
    tensors[QUERY].needed = true;
    set_shape(&tensors[ATTN_SINK], "attn_sink", args->attn_sink, 1, 1, kernel->h_q);
    set_strides(&tensors[ATTN_SINK], NULL, 0, NULL, 0);
}

static void read_caches(const smla_prefill_args *args, struct cache_args caches[2])
{
    caches[0] = (struct cache_args){args->s_kv,
                                    args->topk,
                                    args->kv,
                                    args->kv_stride_token,
                                    args->kv_page_tokens,
                                    args->kv_stride_page,
                                    args->indices,
                                    args->indices_stride_token,
                                    args->topk_length,
                                    args->topk_length_stride};
    caches[1] = (struct cache_args){args->extra_s_kv,
                                    args->extra_topk,
                                    args->extra_kv,
                                    args->extra_kv_stride_token,
                                    args->extra_kv_page_tokens,
                                    args->extra_kv_stride_page,
                                    args->extra_indices,
                                    args->extra_indices_stride_token,
                                    args->extra_topk_length,
                                    args->extra_topk_length_stride};
}

/* Rows, or pages of rows, or pages that are one piece. */
static void list_kv(const smla_kernel *kernel, const struct rt_kv *kv, const struct cache_names *names,
                    const struct cache_args *cache, struct tensor *tensor)
{
    const int64_t pages =
        cache->page_tokens ? cache->s_kv / cache->page_tokens + (cache->s_kv % cache->page_tokens != 0) : 0;

    if (cache->page_tokens == 0) {
        set_shape(tensor, names->kv, cache->kv, cache->s_kv, 1, kv->token_elems);
        set_strides(tensor, names->stride_token, cache->stride_token, NULL, 0);
    } else if (kv->by_page) {
        set_shape(tensor, names->kv, cache->kv, pages, 1, cache->page_tokens * kv->token_elems);
        set_strides(tensor, names->stride_page, cache->stride_page, NULL, 0);
    } else {
        set_shape(tensor, names->kv, cache->kv, pages, cache->page_tokens, kv->token_elems);
        set_strides(tensor, names->stride_page, cache->stride_page, names->stride_token, cache->stride_token);
    }
    set_storage(tensor, kv->elem_bytes, kernel->pointer_alignment_bytes,
                kernel->stride_alignment_elems * 2 / kv->elem_bytes);
    tensor->needed = cache->s_kv > 0;
}

/* tensors: kv, indices and topk_length of cache c. */
static void list_cache(const smla_kernel *kernel, const struct cache_args *cache, int c, int64_t s_q,
                       struct tensor *tensors)
{
    const struct cache_names *names = &cache_names[c];

    list_kv(kernel, &kernel->kv[c], names, cache, &tensors[0]);
    set_shape(&tensors[1], names->indices, cache->indices, s_q, 1, cache->topk);
    set_strides(&tensors[1], names->indices_stride, cache->indices_stride, NULL, 0);
    tensors[1].needed = cache->topk > 0;
    set_shape(&tensors[2], names->length, cache->length, s_q, 1, 1);
    set_strides(&tensors[2], names->length_stride, cache->length_stride, NULL, 0);
}

static void list_outputs(const smla_kernel *kernel, const smla_prefill_args *args, struct tensor *tensors)
{
    set_shape(&tensors[OUT], "out", args->out, args->s_q, kernel->h_q, kernel->d_v);
    set_strides(&tensors[OUT], "out_stride_token", args->out_stride_token, "out_stride_head", args->out_stride_head);
    set_storage(&tensors[OUT], kernel->out_elem_bytes, kernel->out_alignment_bytes, kernel->stride_alignment_elems);
    tensors[OUT].needed = true;
    tensors[OUT].written = true;
    set_shape(&tensors[LSE], "lse", args->lse, args->s_q, 1, kernel->h_q);
    set_strides(&tensors[LSE], "lse_stride_token", args->lse_stride_token, NULL, 0);
    tensors[LSE].written = true;
    set_shape(&tensors[MAX_LOGITS], "max_logits", args->max_logits, args->s_q, 1, kernel->h_q);
    set_strides(&tensors[MAX_LOGITS], "max_logits_stride_token", args->max_logits_stride_token, NULL, 0);
    tensors[MAX_LOGITS].written = true;
    set_shape(&tensors[REF_OUT], "ref_out_abs", args->ref_out_abs, args->s_q, 1, (int64_t)kernel->h_q * kernel->d_v);
    set_strides(&tensors[REF_OUT], NULL, 0, NULL, 0);
    set_shape(&tensors[REF_LOGIT], "ref_logit_abs", args->ref_logit_abs, args->s_q, 1, kernel->h_q);
    set_strides(&tensors[REF_LOGIT], NULL, 0, NULL, 0);
}

static smla_status check_scalars(const smla_kernel *kernel, const smla_prefill_args *args)
{
    const smla_status status = check_size("s_q", args->s_q, INT32_MAX / kernel->blocks_per_query);

    if (status != SMLA_OK)
        return status;
    if (args->lse_flags & ~(uint32_t)ALL_LSE_FLAGS)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "lse_flags 0x%x: SMLA_LSE_* are 0x1, 0x2 and 0x4",
                       (unsigned)args->lse_flags);
    if (args->reserved)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "smla_prefill_args.reserved is %u: zero the struct first",
                       (unsigned)args->reserved);
    if (isfinite(args->sm_scale) && !isfinite(args->sm_scale * LOG2_E))
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "sm_scale is %g: with log2(e) it must be finite too, below 2.35e38",
                       (double)args->sm_scale);
    if (!isfinite(args->sm_scale))
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "sm_scale is %s: it must be finite, 1/sqrt(d_qk) for instance",
                       isnan(args->sm_scale) ? "NaN" : "infinite");
    if (args->sm_limit < 0)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                       "sm_limit %d: the multiprocessors that a persistent kernel may take, at least 1, or 0 for all",
                       args->sm_limit);
    return rt_check_launch_flags(args->launch_flags);
}

/* Rows of bf16 may overlap; bytes of two quantised tokens are never the same ones, so a stride that is too small is a
 * cache of another format. */
static smla_status check_token_bytes(const struct rt_kv *kv, const struct cache_args *cache,
                                     const struct cache_names *names)
{
    const int64_t page_bytes = kv->by_page ? cache->page_tokens * kv->token_elems : kv->token_elems;

    if (kv->elem_bytes != 1 || cache->s_kv == 0)
        return SMLA_OK;
    if (cache->stride_token > 0 && cache->stride_token < kv->token_elems)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "%s %lld: a token of this kernel's format has %lld bytes",
                       names->stride_token, (long long)cache->stride_token, (long long)kv->token_elems);
    if (cache->stride_page > 0 && cache->stride_page < page_bytes)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                       "%s %lld: a token of this kernel's format has %lld bytes, so a page's stride is at least %lld",
                       names->stride_page, (long long)cache->stride_page, (long long)kv->token_elems,
                       (long long)page_bytes);
    return SMLA_OK;
}

static smla_status check_cache(const struct rt_kv *kv, const struct cache_args *cache, const struct cache_names *names)
{
    smla_status status = check_size(names->s_kv, cache->s_kv, INT64_MAX);

    if (status == SMLA_OK)
        status = check_size(names->topk, cache->topk, INT32_MAX);
    if (status == SMLA_OK)
        status = check_size(names->page_tokens, cache->page_tokens, INT32_MAX);
    if (status != SMLA_OK)
        return status;
    if (kv->by_page && cache->page_tokens == 0 && cache->s_kv > 0)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                       "%s is 0: in this format a page's scales stand behind its values, so the tokens of a page are "
                       "needed (%lld when all of %s is one page)",
                       names->page_tokens, (long long)cache->s_kv, names->kv);
    if (kv->by_page && cache->stride_token != 0)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                       "%s %lld: tokens have no stride in a format placed by page, leave 0", names->stride_token,
                       (long long)cache->stride_token);
    if (cache->page_tokens == 0 && cache->stride_page != 0)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "%s %lld without pages: %s is 0", names->stride_page,
                       (long long)cache->stride_page, names->page_tokens);
    return check_token_bytes(kv, cache, names);
}

/* A second cache is not ignored where the kernel reads one. */
static smla_status check_no_extra(const smla_kernel *kernel, const struct cache_args *extra)
{
    const int64_t any = extra->s_kv | extra->topk | extra->stride_token | extra->page_tokens | extra->stride_page |
                        extra->indices_stride | extra->length_stride;

    if (any == 0 && extra->kv == NULL && extra->indices == NULL && extra->length == NULL)
        return SMLA_OK;
    return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                   "a second cache is given (extra_s_kv %lld, extra_topk %lld) and %s reads one: prepare a kernel with "
                   "extra_kv_format",
                   (long long)extra->s_kv, (long long)extra->topk, kernel->name);
}

static smla_status check_caches(const smla_kernel *kernel, const struct cache_args caches[2])
{
    const smla_status status = check_cache(&kernel->kv[0], &caches[0], &cache_names[0]);

    if (status != SMLA_OK)
        return status;
    return kernel->caches == 1 ? check_no_extra(kernel, &caches[1])
                               : check_cache(&kernel->kv[1], &caches[1], &cache_names[1]);
}

static smla_status check_reference_outputs(const smla_kernel *kernel, const smla_prefill_args *args)
{
    if (kernel->op == SMLA_OP_PREFILL_REFERENCE || (args->ref_out_abs == NULL && args->ref_logit_abs == NULL))
        return SMLA_OK;
    return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                   "%s is given, and only a kernel of SMLA_OP_PREFILL_REFERENCE writes it: leave it NULL for %s",
                   args->ref_out_abs ? "ref_out_abs" : "ref_logit_abs", kernel->name);
}

static smla_status check_tensors(const smla_kernel *kernel, const smla_prefill_args *args,
                                 const struct cache_args caches[2], struct tensor tensors[TENSORS])
{
    const int count = kernel->caches == 1 ? EXTRA_KV : TENSORS;
    smla_status status = check_reference_outputs(kernel, args);

    list_inputs(kernel, args, tensors);
    list_outputs(kernel, args, tensors);
    for (int c = 0; c < kernel->caches; c++)
        list_cache(kernel, &caches[c], c, args->s_q, &tensors[c == 0 ? KV : EXTRA_KV]);
    for (int i = 0; status == SMLA_OK && i < count; i++)
        status = rt_check_tensor(&tensors[i]);
    return status;
}

/* No int index reaches past 2^31 rows, so the kernel need not know of more. */
static unsigned int clamp_rows(int64_t s_kv)
{
    return s_kv > (int64_t)INT32_MAX + 1 ? (unsigned int)INT32_MAX + 1u : (unsigned int)s_kv;
}

/* For index < 2^31 and 2^log2 >= tokens: index / tokens = index * ceil(2^(31 + log2) / tokens) >> (31 + log2). */
static void set_pages(struct smla_key_cache *cache, unsigned int tokens)
{
    const int log2 = tokens == 1 ? 0 : 32 - __builtin_clz(tokens - 1);

    cache->page_tokens = tokens;
    cache->page_shift = 31 + log2;
    cache->page_multiplier = (unsigned int)((((uint64_t)1 << cache->page_shift) + tokens - 1) / tokens);
}

/* tensors: kv, indices and topk_length, their strides resolved. */
static void fill_cache(const struct tensor *tensors, const struct cache_args *args, bool by_page,
                       struct smla_key_cache *cache)
{
    const bool paged = args->page_tokens != 0;

    cache->kv = args->kv;
    cache->indices = args->indices;
    cache->topk_length = args->length;
    cache->kv_stride_page = paged ? tensors[0].row_stride : 0;
    cache->kv_stride_token = !paged ? tensors[0].row_stride : by_page ? 0 : tensors[0].column_stride;
    cache->indices_stride_token = tensors[1].row_stride;
    cache->topk_length_stride = tensors[2].row_stride;
    cache->s_kv = clamp_rows(args->s_kv);
    set_pages(cache, paged ? (unsigned int)args->page_tokens : (unsigned int)INT32_MAX + 1u);
    cache->topk = (int)args->topk;
}

static void fill_params(const smla_kernel *kernel, const smla_prefill_args *args, const struct cache_args caches[2],
                        const struct tensor tensors[TENSORS], struct smla_prefill_params *params)
{
    /* Padding too: what is passed to a kernel has no undefined byte. */
    memset(params, 0, sizeof *params);
    for (int c = 0; c < kernel->caches; c++)
        fill_cache(&tensors[c == 0 ? KV : EXTRA_KV], &caches[c], kernel->kv[c].by_page, &params->cache[c]);
    params->query = args->query;
    params->attn_sink = args->attn_sink;
    params->out = args->out;
    params->lse = args->lse;
    params->max_logits = args->max_logits;
    params->ref_out_abs = args->ref_out_abs;
    params->ref_logit_abs = args->ref_logit_abs;
    params->query_stride_token = tensors[QUERY].row_stride;
    params->query_stride_head = tensors[QUERY].column_stride;
    params->out_stride_token = tensors[OUT].row_stride;
    params->out_stride_head = tensors[OUT].column_stride;
    params->lse_stride_token = tensors[LSE].row_stride;
    params->max_logits_stride_token = tensors[MAX_LOGITS].row_stride;
    params->s_q = args->s_q;
    params->sm_scale = args->sm_scale;
    params->lse_flags = args->lse_flags;
}

static smla_status check_kernel(const smla_kernel *kernel, const char *function)
{
    if (kernel == NULL)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "%s: kernel is NULL", function);
    if (kernel->op == SMLA_OP_COMBINE)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                       "%s: the kernel is of SMLA_OP_COMBINE, which smla_combine calls: prepare one of SMLA_OP_PREFILL",
                       function);
    return SMLA_OK;
}

/* What a tensor map can hold. */
static smla_status check_map(const struct tensor *tensor)
{
    const int64_t least = ((int64_t)1 << 40) / 2;

    if (tensor->rows > 1 && tensor->row_stride >= least)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                       "%s %lld: a tensor map has strides below 2^40 bytes, so less than %lld elements",
                       tensor->row_stride_name, (long long)tensor->row_stride, (long long)least);
    if (tensor->column_stride >= least)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                       "%s %lld: a tensor map has strides below 2^40 bytes, so less than %lld elements",
                       tensor->column_stride_name, (long long)tensor->column_stride, (long long)least);
    return SMLA_OK;
}

/* Of one token the stride means nothing. */
static struct rt_tensor map_of(const struct tensor *tensor, unsigned int box_heads)
{
    return (struct rt_tensor){
        .name = tensor->name,
        .data = tensor->pointer,
        .dims = {(uint64_t)tensor->width, (uint64_t)tensor->columns, (uint64_t)tensor->rows},
        .strides = {(uint64_t)tensor->column_stride * 2, tensor->rows > 1 ? (uint64_t)tensor->row_stride * 2 : 16},
        .box = {SMLA_MAP_COLUMNS, box_heads, 1},
    };
}

static smla_status add_maps(const struct tensor tensors[TENSORS], struct smla_prefill_tensor_params *params,
                            struct rt_launch *launch)
{
    smla_status status = check_map(&tensors[QUERY]);

    if (status == SMLA_OK)
        status = check_map(&tensors[OUT]);
    launch->map_count = 2;
    launch->tensors[0] = map_of(&tensors[QUERY], SMLA_QUERY_MAP_HEADS);
    launch->tensors[1] = map_of(&tensors[OUT], SMLA_OUT_MAP_HEADS);
    launch->maps[0] = &params->query_map;
    launch->maps[1] = &params->out_map;
    return status;
}

/* A block for each query and its heads; of a persistent kernel, which shares them, no more than have a place. */
static unsigned int block_count(const smla_kernel *kernel, int64_t s_q, int32_t sm_limit)
{
    const int64_t blocks = s_q * kernel->blocks_per_query;
    int64_t most = kernel->most_blocks;

    if (sm_limit > 0 && kernel->blocks_per_sm > 0 && most > (int64_t)sm_limit * kernel->blocks_per_sm)
        most = (int64_t)sm_limit * kernel->blocks_per_sm;
    return (unsigned int)(blocks < most ? blocks : most);
}

/* The variant for few queries: a cluster of blocks in place of each. */
static void launch_in_clusters(const smla_kernel *kernel, const struct gen_choice *choice, struct rt_launch *launch)
{
    launch->function = kernel->functions[choice->variant];
    launch->threads = choice->threads;
    launch->shared_bytes = choice->shared_bytes;
    launch->grid_x *= (unsigned int)choice->cluster_blocks;
    rt_launch_in_clusters(launch, (unsigned int)choice->cluster_blocks);
}

static smla_status launch(const smla_kernel *kernel, const smla_prefill_args *args, bool paged,
                          const struct tensor tensors[TENSORS], struct smla_prefill_tensor_params *tensor_params,
                          void *stream)
{
    struct smla_prefill_params *params = &tensor_params->prefill;
    const int64_t units = params->s_q * kernel->blocks_per_query;
    const struct gen_choice *choice =
        gen_choose(kernel->choices, kernel->choice_count, units, params->cache[0].topk, args->sm_limit);
    struct rt_launch launch = {
        .function = kernel->functions[paged ? kernel->paged_variant : 0],
        .name = kernel->name,
        .threads = kernel->threads,
        .shared_bytes = kernel->shared_bytes,
        .grid_x = block_count(kernel, params->s_q, args->sm_limit),
        .grid_y = kernel->op == SMLA_OP_PREFILL_REFERENCE ? (unsigned int)kernel->h_q : 1,
        .params = params,
    };
    smla_status status = SMLA_OK;

    if (choice)
        launch_in_clusters(kernel, choice, &launch);
    else if (kernel->tensor_maps)
        status = add_maps(tensors, tensor_params, &launch);
    if (!kernel->check_variant) /* whose call has waited */
        rt_add_launch_flags(&launch, args->launch_flags);
    return status == SMLA_OK ? rt_launch_on(kernel, &launch, stream) : status;
}

/* What a checked kernel looks at: the tensors that are there, and how the lists are called. */
static smla_status check_contents(const smla_kernel *kernel, const smla_prefill_args *args,
                                  const struct cache_args caches[2], const struct tensor tensors[TENSORS],
                                  const struct smla_prefill_params *params, void *stream)
{
    struct rt_prefill_check check = {.kernel = kernel,
                                     .params = params,
                                     .tensors = tensors,
                                     .tensor_count = kernel->caches == 1 ? EXTRA_KV : TENSORS,
                                     .workspace = args->workspace,
                                     .workspace_bytes = args->workspace_bytes};

    for (int c = 0; c < kernel->caches; c++) {
        const struct cache_names *names = &cache_names[c];
        check.lists[c] =
            (struct rt_check_list){names->s_kv,          names->topk,        names->indices,         names->length,
                                   names->stride_token,  names->stride_page, c == 0 ? KV : EXTRA_KV, caches[c].s_kv,
                                   caches[c].page_tokens};
    }
    return rt_prefill_check(&check, stream);
}

smla_status smla_prefill(smla_kernel *kernel, const smla_prefill_args *args, void *stream)
{
    struct tensor tensors[TENSORS];
    struct cache_args caches[2];
    struct smla_prefill_tensor_params params; /* the first part is the parameter of kernels without tensor maps */
    smla_prefill_args full;

    smla_status status = check_kernel(kernel, "smla_prefill");
    if (status == SMLA_OK)
        status = rt_sized_read(&full, sizeof full, args, "smla_prefill_args");
    if (status == SMLA_OK)
        status = check_scalars(kernel, &full);
    if (status != SMLA_OK)
        return status;
    read_caches(&full, caches);
    status = check_caches(kernel, caches);
    if (status != SMLA_OK || full.s_q == 0 || kernel->h_q == 0)
        return status;
    status = check_tensors(kernel, &full, caches, tensors);
    if (status != SMLA_OK)
        return status;
    fill_params(kernel, &full, caches, tensors, &params.prefill);
    if (kernel->check_variant)
        status = check_contents(kernel, &full, caches, tensors, &params.prefill, stream);
    if (status != SMLA_OK)
        return status;
    return launch(kernel, &full, caches[0].page_tokens != 0 || caches[1].page_tokens != 0, tensors, &params, stream);
}

smla_status smla_prefill_workspace_size(const smla_kernel *kernel, int64_t max_s_q, int64_t max_topk,
                                        uint64_t *out_bytes)
{
    smla_status status = check_kernel(kernel, "smla_prefill_workspace_size");
    if (status == SMLA_OK && out_bytes == NULL)
        status = rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "smla_prefill_workspace_size: out_bytes is NULL");
    if (status == SMLA_OK)
        status = check_size("max_s_q", max_s_q, INT64_MAX);
    if (status == SMLA_OK)
        status = check_size("max_topk", max_topk, INT64_MAX);
    if (status == SMLA_OK)
        *out_bytes = kernel->check_variant ? RT_CHECK_WORKSPACE_BYTES : 0; /* prefill keeps everything in a block */
    return status;
}
