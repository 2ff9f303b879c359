/* The call: check the arguments, fill the parameter struct, launch. */
#include <stdbool.h>
#include <string.h>

#include "call_args.h"
#include "error.h"
#include "launch.h"
#include "prefill.h"
#include "prefill_check.h"
#include "prefill_tensor_params.h"
#include "sized.h"
#include "tensor_check.h"

_Static_assert(SMLA_PARAM_LSE_BASE_2 == SMLA_LSE_BASE_2, "template and header agree");
_Static_assert(SMLA_PARAM_LSE_WITH_SINK == SMLA_LSE_WITH_SINK, "template and header agree");
_Static_assert(SMLA_PARAM_LSE_EMPTY_NEGATIVE == SMLA_LSE_EMPTY_NEGATIVE, "template and header agree");
_Static_assert(sizeof(long long) == sizeof(int64_t), "strides are int64 on both sides");

enum { RT_ROWS_ALIGNMENT = 16 };

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
    caches[0] = (struct cache_args){.s_kv = args->s_kv,
                                    .topk = args->topk,
                                    .kv = args->kv,
                                    .stride_token = args->kv_stride_token,
                                    .page_tokens = args->kv_page_tokens,
                                    .stride_page = args->kv_stride_page,
                                    .indices = args->indices,
                                    .indices_stride = args->indices_stride_token,
                                    .length = args->topk_length,
                                    .length_stride = args->topk_length_stride};
    caches[1] = (struct cache_args){.s_kv = args->extra_s_kv,
                                    .topk = args->extra_topk,
                                    .kv = args->extra_kv,
                                    .stride_token = args->extra_kv_stride_token,
                                    .page_tokens = args->extra_kv_page_tokens,
                                    .stride_page = args->extra_kv_stride_page,
                                    .indices = args->extra_indices,
                                    .indices_stride = args->extra_indices_stride_token,
                                    .length = args->extra_topk_length,
                                    .length_stride = args->extra_topk_length_stride};
}

/* tensors: kv, indices and topk_length of cache c. */
static void list_cache(const smla_kernel *kernel, const struct cache_args *cache, int c, int64_t s_q,
                       struct tensor *tensors)
{
    const struct cache_names *names = &rt_cache_names[c];

    rt_list_kv(kernel, cache, c, &tensors[0]);
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
    smla_status status = check_size("s_q", args->s_q, INT32_MAX / kernel->blocks_per_query);

    if (status != SMLA_OK)
        return status;
    status = rt_check_softmax(args->lse_flags, args->sm_scale);
    if (status != SMLA_OK)
        return status;
    if (args->reserved)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "smla_prefill_args.reserved is %u: zero the struct first",
                       (unsigned)args->reserved);
    status = rt_check_sm_limit(args->sm_limit);
    if (status != SMLA_OK)
        return status;
    return rt_check_launch_flags(args->launch_flags);
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

static void fill_params(const smla_kernel *kernel, const smla_prefill_args *args, const struct cache_args caches[2],
                        const struct tensor tensors[TENSORS], struct smla_prefill_params *params)
{
    /* Padding too: what is passed to a kernel has no undefined byte. */
    memset(params, 0, sizeof *params);
    for (int c = 0; c < kernel->caches; c++)
        rt_fill_cache(&tensors[c == 0 ? KV : EXTRA_KV], &caches[c], kernel->kv[c].by_page, &params->cache[c]);
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
    if (kernel->op == SMLA_OP_COMBINE || kernel->op == SMLA_OP_DECODE)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                       "%s: the kernel is of SMLA_OP_%s calls: prepare one of SMLA_OP_PREFILL", function,
                       kernel->op == SMLA_OP_COMBINE ? "COMBINE, which smla_combine" : "DECODE, which smla_decode");
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

/* Pages cost a division an entry; with lengths a persistent kernel's blocks of threads work out who has which queries.
 */
static rt_cu_function function_of(const smla_kernel *kernel, const smla_prefill_args *args, bool paged)
{
    if (paged)
        return kernel->functions[kernel->paged_variant];
    return kernel->functions[args->topk_length ? kernel->lengths_variant : 0];
}

/* The variant for few queries: a cluster of blocks in place of each. */
static void launch_in_clusters(const smla_kernel *kernel, const struct gen_choice *choice, int64_t s_q,
                               struct rt_launch *launch)
{
    launch->function = kernel->functions[choice->variant];
    launch->threads = choice->threads;
    launch->shared_bytes = choice->shared_bytes;
    launch->grid_x = (unsigned int)(s_q * choice->blocks_per_query * choice->cluster_blocks);
    rt_launch_in_clusters(launch, (unsigned int)choice->cluster_blocks);
}

/* The tokens that would have a persistent kernel's last round for themselves, and are fewer than blocks of threads,
 * where another variant is to have them: *choice. With lengths there are no rounds. */
static int64_t tokens_of_last_round(const smla_kernel *kernel, const smla_prefill_args *args, int64_t blocks,
                                    const struct gen_choice **choice)
{
    const int64_t units = args->s_q * kernel->blocks_per_query, left = units % blocks / kernel->blocks_per_query;

    if (kernel->blocks_per_sm == 0 || units <= blocks || args->topk_length != NULL)
        return 0;
    if (left == 0 || left * kernel->blocks_per_query != units % blocks)
        return 0;
    *choice = gen_choose(kernel->choices, kernel->choice_count, left, args->topk, args->sm_limit);
    return *choice && (*choice)->takes_last_round ? left : 0;
}

/* Makes them those of a call without its first tokens. */
static void skip_tokens(int64_t tokens, struct smla_prefill_params *params)
{
    params->s_q -= tokens;
    params->query = (const uint16_t *)params->query + tokens * params->query_stride_token;
    params->out = (uint16_t *)params->out + tokens * params->out_stride_token;
    if (params->lse)
        params->lse += tokens * params->lse_stride_token;
    if (params->max_logits)
        params->max_logits += tokens * params->max_logits_stride_token;
    if (params->cache[0].indices)
        params->cache[0].indices += tokens * params->cache[0].indices_stride_token;
}

/* What a call launches. */
struct prefill_launches {
    struct rt_launch launch[2];
    struct smla_prefill_params last; /* of the second: the last round's tokens */
    int count;
};

/* Takes the last `left` tokens from the first launch. */
static void split_last_round(const smla_kernel *kernel, const struct gen_choice *choice, int64_t left,
                             struct tensor tensors[TENSORS], struct smla_prefill_params *params,
                             struct prefill_launches *of)
{
    of->last = *params;
    skip_tokens(params->s_q - left, &of->last);
    params->s_q -= left;
    tensors[QUERY].rows -= left;
    tensors[OUT].rows -= left;
    of->launch[1] = (struct rt_launch){.name = kernel->name, .grid_y = 1, .params = &of->last};
    launch_in_clusters(kernel, choice, left, &of->launch[1]);
    rt_add_launch_flags(&of->launch[1], SMLA_LAUNCH_AFTER_PREVIOUS);
    of->count = 2;
}

static smla_status launch(const smla_kernel *kernel, const smla_prefill_args *args, bool paged,
                          struct tensor tensors[TENSORS], struct smla_prefill_tensor_params *tensor_params,
                          void *stream)
{
    struct smla_prefill_params *params = &tensor_params->prefill;
    const struct gen_choice *choice =
        gen_choose(kernel->choices, kernel->choice_count, params->s_q, params->cache[0].topk, args->sm_limit);
    struct prefill_launches of = {.count = 1};
    struct rt_launch *first = &of.launch[0];
    smla_status status = SMLA_OK;

    *first = (struct rt_launch){
        .function = function_of(kernel, args, paged),
        .name = kernel->name,
        .threads = kernel->threads,
        .shared_bytes = kernel->shared_bytes,
        .grid_x = block_count(kernel, params->s_q, args->sm_limit),
        .grid_y = kernel->op == SMLA_OP_PREFILL_REFERENCE ? (unsigned int)kernel->h_q : 1,
        .params = params,
    };
    if (choice) {
        launch_in_clusters(kernel, choice, params->s_q, first);
    } else {
        const int64_t left = tokens_of_last_round(kernel, args, first->grid_x, &choice);
        if (left > 0)
            split_last_round(kernel, choice, left, tensors, params, &of);
        if (kernel->tensor_maps)
            status = add_maps(tensors, tensor_params, first);
    }
    if (!kernel->check_variant) /* whose call has waited */
        rt_add_launch_flags(first, args->launch_flags);
    return status == SMLA_OK ? rt_launch_all_on(kernel, of.launch, of.count, stream) : status;
}

/* ---- Over an unpacked cache ---- */

/* Where the rows lie in the workspace: behind what a checked kernel has there. */
static uint64_t rows_offset(const smla_kernel *kernel)
{
    return kernel->check_variant ? RT_ROWS_ALIGNMENT : 0;
}

static uint64_t rows_bytes(const smla_kernel *kernel, int64_t rows)
{
    return (uint64_t)rows * (uint64_t)kernel->d_qk * 2;
}

/* A workspace that does not serve is as none. Rows past 2^31 no index reaches. */
bool rt_prefill_unpacks(const smla_kernel *kernel, const smla_prefill_args *args)
{
    const int64_t s_kv = rt_clamp_rows(args->s_kv);

    return kernel->companion && args->workspace && (uintptr_t)args->workspace % RT_ROWS_ALIGNMENT == 0 &&
           gen_unpack_takes(&kernel->unpack, args->s_q, args->topk, s_kv) &&
           args->workspace_bytes >= rows_offset(kernel) + rows_bytes(kernel, s_kv);
}

static struct rt_launch unpack_launch(const smla_kernel *kernel, int32_t sm_limit, struct smla_prefill_params *params)
{
    const struct gen_unpack *unpack = &kernel->unpack;
    const int32_t sms = sm_limit > 0 && sm_limit < kernel->sm_count ? sm_limit : kernel->sm_count;
    const int64_t most = (int64_t)sms * unpack->blocks_per_sm;
    const int64_t blocks = ((int64_t)params->cache[0].s_kv + unpack->rows - 1) / unpack->rows;

    return (struct rt_launch){.function = kernel->functions[unpack->variant],
                              .name = kernel->name,
                              .threads = kernel->unpack_threads,
                              .grid_x = (unsigned int)(blocks < most ? blocks : most),
                              .grid_y = 1,
                              .params = params};
}

/* The cache as the companion reads it. */
static void use_rows(const smla_kernel *kernel, void *rows, struct smla_key_cache *cache)
{
    cache->kv = rows;
    cache->kv_stride_token = kernel->d_qk;
    cache->kv_stride_page = 0;
}

/* The kernel behind waits for what unpacks, and may start while that ends. */
static smla_status launch_over_rows(const smla_kernel *kernel, const smla_prefill_args *args,
                                    const struct tensor tensors[TENSORS],
                                    struct smla_prefill_tensor_params *tensor_params, void *stream)
{
    const smla_kernel *companion = kernel->companion;
    struct smla_prefill_params unpack_params = tensor_params->prefill;
    struct rt_launch launches[2];
    smla_status status = SMLA_OK;

    unpack_params.out = (char *)args->workspace + rows_offset(kernel);
    use_rows(kernel, unpack_params.out, &tensor_params->prefill.cache[0]);
    launches[0] = unpack_launch(kernel, args->sm_limit, &unpack_params);
    launches[1] = (struct rt_launch){
        .function = function_of(companion, args, false),
        .name = companion->name,
        .threads = companion->threads,
        .shared_bytes = companion->shared_bytes,
        .grid_x = block_count(companion, args->s_q, args->sm_limit),
        .grid_y = 1,
        .params = tensor_params,
    };
    if (companion->tensor_maps)
        status = add_maps(tensors, tensor_params, &launches[1]);
    if (!kernel->check_variant) /* whose call has waited */
        rt_add_launch_flags(&launches[0], args->launch_flags);
    rt_add_launch_flags(&launches[1], SMLA_LAUNCH_AFTER_PREVIOUS);
    return status == SMLA_OK ? rt_launch_all_on(kernel, launches, 2, stream) : status;
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
        const struct cache_names *names = &rt_cache_names[c];
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
    status = rt_check_caches(kernel, caches);
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
    if (rt_prefill_unpacks(kernel, &full))
        return launch_over_rows(kernel, &full, tensors, &params, stream);
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

smla_status smla_prefill_wanted_workspace_size(const smla_kernel *kernel, int64_t max_s_q, int64_t max_topk,
                                               int64_t max_s_kv, uint64_t *out_bytes)
{
    smla_status status = check_kernel(kernel, "smla_prefill_wanted_workspace_size");
    uint64_t needed = 0;

    if (status == SMLA_OK && out_bytes == NULL)
        status = rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "smla_prefill_wanted_workspace_size: out_bytes is NULL");
    if (status == SMLA_OK)
        status = check_size("max_s_q", max_s_q, INT32_MAX);
    if (status == SMLA_OK)
        status = check_size("max_topk", max_topk, INT32_MAX);
    if (status == SMLA_OK)
        status = check_size("max_s_kv", max_s_kv, INT64_MAX);
    if (status == SMLA_OK)
        status = smla_prefill_workspace_size(kernel, max_s_q, max_topk, &needed);
    if (status != SMLA_OK)
        return status;
    const int64_t most = rt_clamp_rows(max_s_kv);
    const int64_t rows = kernel->companion ? gen_unpack_most_rows(&kernel->unpack, max_s_q, max_topk, most) : 0;
    *out_bytes = rows > 0 ? rows_offset(kernel) + rows_bytes(kernel, rows) : needed;
    return SMLA_OK;
}
