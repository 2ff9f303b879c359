/* The call of decode: check the arguments, share the work out, fill the parameter struct, launch two kernels. */
#include <string.h>

#include "call_args.h"
#include "decode_params.h"
#include "decode_share.h"
#include "launch.h"
#include "sized.h"

enum { ALL_DECODE_FLAGS = SMLA_DECODE_LENGTHS_PER_REQUEST | SMLA_DECODE_EXTRA_LENGTHS_PER_REQUEST };
enum { WORKSPACE_ALIGNMENT = 16 };

/* Those of the second cache stand last: a kernel of one cache has nothing to do with them. */
enum tensor_index {
    QUERY,
    ATTN_SINK,
    OUT,
    LSE,
    KV,
    INDICES,
    TOPK_LENGTH,
    EXTRA_KV,
    EXTRA_INDICES,
    EXTRA_TOPK_LENGTH,
    TENSORS
};

/* What a call works out before it launches. */
struct call {
    smla_decode_args args;
    struct cache_args caches[2];
    struct tensor tensors[TENSORS];
    const smla_kernel *kernel; /* the one that is called, or its companion */
    struct gen_decode_share share;
};

static void read_caches(const smla_decode_args *args, struct cache_args caches[2])
{
    caches[0] = (struct cache_args){.s_kv = args->s_kv,
                                    .topk = args->topk,
                                    .kv = args->kv,
                                    .stride_token = args->kv_stride_token,
                                    .page_tokens = args->kv_page_tokens,
                                    .stride_page = args->kv_stride_page,
                                    .indices = args->indices,
                                    .indices_stride_request = args->indices_stride_request,
                                    .indices_stride = args->indices_stride_token,
                                    .length = args->topk_length,
                                    .length_stride_request = args->topk_length_stride_request,
                                    .length_stride = args->topk_length_stride};
    caches[1] = (struct cache_args){.s_kv = args->extra_s_kv,
                                    .topk = args->extra_topk,
                                    .kv = args->extra_kv,
                                    .stride_token = args->extra_kv_stride_token,
                                    .page_tokens = args->extra_kv_page_tokens,
                                    .stride_page = args->extra_kv_stride_page,
                                    .indices = args->extra_indices,
                                    .indices_stride_request = args->extra_indices_stride_request,
                                    .indices_stride = args->extra_indices_stride_token,
                                    .length = args->extra_topk_length,
                                    .length_stride_request = args->extra_topk_length_stride_request,
                                    .length_stride = args->extra_topk_length_stride};
}

/* ---- Tensors ---- */

static void list_tensors(const smla_kernel *kernel, const smla_decode_args *args, struct tensor *tensors)
{
    set_shape(&tensors[QUERY], "query", args->query, args->s_q, kernel->h_q, kernel->d_qk);
    set_strides(&tensors[QUERY], "query_stride_token", args->query_stride_token, "query_stride_head",
                args->query_stride_head);
    set_outer(&tensors[QUERY], args->b, "query_stride_request", args->query_stride_request);
    set_storage(&tensors[QUERY], 2, kernel->pointer_alignment_bytes, kernel->stride_alignment_elems);
    tensors[QUERY].needed = true;
    set_shape(&tensors[ATTN_SINK], "attn_sink", args->attn_sink, 1, 1, kernel->h_q);
    set_strides(&tensors[ATTN_SINK], NULL, 0, NULL, 0);
    set_shape(&tensors[OUT], "out", args->out, args->s_q, kernel->h_q, kernel->d_v);
    set_strides(&tensors[OUT], "out_stride_token", args->out_stride_token, "out_stride_head", args->out_stride_head);
    set_outer(&tensors[OUT], args->b, "out_stride_request", args->out_stride_request);
    set_storage(&tensors[OUT], 2, kernel->pointer_alignment_bytes, kernel->stride_alignment_elems);
    tensors[OUT].needed = true;
    tensors[OUT].written = true;
    set_shape(&tensors[LSE], "lse", args->lse, args->s_q, kernel->h_q, 1);
    set_strides(&tensors[LSE], "lse_stride_token", args->lse_stride_token, "lse_stride_head", args->lse_stride_head);
    set_outer(&tensors[LSE], args->b, "lse_stride_request", args->lse_stride_request);
    tensors[LSE].written = true;
}

static bool is_per_request(const smla_decode_args *args, int c)
{
    return args->decode_flags &
           (uint32_t)(c == 0 ? SMLA_DECODE_LENGTHS_PER_REQUEST : SMLA_DECODE_EXTRA_LENGTHS_PER_REQUEST);
}

/* tensors: kv, indices and lengths of cache c. */
static void list_cache(const smla_kernel *kernel, const struct call *call, int c, struct tensor *tensors)
{
    const struct cache_names *names = &rt_cache_names[c];
    const struct cache_args *cache = &call->caches[c];

    rt_list_kv(kernel, cache, c, &tensors[0]);
    set_shape(&tensors[1], names->indices, cache->indices, call->args.s_q, 1, cache->topk);
    set_strides(&tensors[1], names->indices_stride, cache->indices_stride, NULL, 0);
    set_outer(&tensors[1], call->args.b, names->indices_stride_request, cache->indices_stride_request);
    tensors[1].needed = cache->topk > 0;
    set_shape(&tensors[2], names->length, cache->length, is_per_request(&call->args, c) ? 1 : call->args.s_q, 1, 1);
    set_strides(&tensors[2], names->length_stride, cache->length_stride, NULL, 0);
    set_outer(&tensors[2], call->args.b, names->length_stride_request, cache->length_stride_request);
}

static smla_status check_tensors(const smla_kernel *kernel, struct call *call)
{
    const int count = kernel->caches == 1 ? EXTRA_KV : TENSORS;
    smla_status status = SMLA_OK;

    list_tensors(kernel, &call->args, call->tensors);
    for (int c = 0; c < kernel->caches; c++)
        list_cache(kernel, call, c, &call->tensors[c == 0 ? KV : EXTRA_KV]);
    for (int i = 0; status == SMLA_OK && i < count; i++)
        status = rt_check_tensor(&call->tensors[i]);
    return status;
}

/* ---- Scalars ---- */

static smla_status check_flags(const smla_decode_args *args)
{
    if (args->decode_flags & ~(uint32_t)ALL_DECODE_FLAGS)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "decode_flags 0x%x: SMLA_DECODE_* are 0x1 and 0x2",
                       (unsigned)args->decode_flags);
    for (int c = 0; c < 2; c++) {
        const int64_t stride = c == 0 ? args->topk_length_stride : args->extra_topk_length_stride;
        if (is_per_request(args, c) && stride != 0)
            return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                           "%s %lld: lengths per request have no stride of tokens, leave 0",
                           rt_cache_names[c].length_stride, (long long)stride);
    }
    return SMLA_OK;
}

static smla_status check_scalars(const smla_decode_args *args)
{
    smla_status status = check_size("b", args->b, INT32_MAX);

    if (status == SMLA_OK)
        status = check_size("s_q", args->s_q, INT32_MAX);
    if (status == SMLA_OK)
        status = rt_check_softmax(args->lse_flags, args->sm_scale);
    if (status == SMLA_OK)
        status = check_flags(args);
    if (status == SMLA_OK)
        status = rt_check_sm_limit(args->sm_limit);
    return status == SMLA_OK ? rt_check_launch_flags(args->launch_flags) : status;
}

/* ---- Workspace ---- */

static smla_status check_workspace(const struct call *call)
{
    const int64_t wanted = gen_decode_workspace(&call->share);
    const smla_decode_args *args = &call->args;

    if (wanted == 0)
        return SMLA_OK;
    if (args->workspace == NULL || args->workspace_bytes < (uint64_t)wanted)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                       "workspace %s%llu bytes: this call needs %lld (smla_decode_workspace_size)",
                       args->workspace == NULL ? "is NULL, workspace_bytes " : "of ",
                       (unsigned long long)args->workspace_bytes, (long long)wanted);
    if ((uintptr_t)args->workspace % WORKSPACE_ALIGNMENT)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "workspace is at %p: it must be aligned to %d bytes",
                       args->workspace, WORKSPACE_ALIGNMENT);
    return SMLA_OK;
}

/* ---- Parameters ---- */

static void fill_prefill(const smla_kernel *kernel, const struct call *call, struct smla_prefill_params *params)
{
    const struct tensor *tensors = call->tensors;

    for (int c = 0; c < kernel->caches; c++)
        rt_fill_cache(&tensors[c == 0 ? KV : EXTRA_KV], &call->caches[c], kernel->kv[c].by_page, &params->cache[c]);
    params->query = call->args.query;
    params->attn_sink = call->args.attn_sink;
    params->out = call->args.out;
    params->lse = call->args.lse;
    params->query_stride_token = tensors[QUERY].row_stride;
    params->query_stride_head = tensors[QUERY].column_stride;
    params->out_stride_token = tensors[OUT].row_stride;
    params->out_stride_head = tensors[OUT].column_stride;
    params->lse_stride_token = tensors[LSE].row_stride;
    params->s_q = call->args.s_q;
    params->sm_scale = call->args.sm_scale;
    params->lse_flags = call->args.lse_flags;
}

/* Every list counts in whole. */
static bool is_even(const struct call *call)
{
    return call->args.topk_length == NULL && call->args.extra_topk_length == NULL;
}

static void fill_params(const smla_kernel *kernel, const struct call *call, struct smla_decode_params *params)
{
    const struct tensor *tensors = call->tensors;
    unsigned char *workspace = call->args.workspace;

    /* Padding too: what is passed to a kernel has no undefined byte. */
    memset(params, 0, sizeof *params);
    fill_prefill(kernel, call, &params->prefill);
    for (int c = 0; c < kernel->caches; c++) {
        const struct tensor *lists = &tensors[c == 0 ? INDICES : EXTRA_INDICES];
        params->indices_stride_request[c] = lists[0].outer_stride;
        params->topk_length_stride_request[c] = lists[1].outer_stride;
        if (is_per_request(&call->args, c))
            params->prefill.cache[c].topk_length_stride = 0;
    }
    params->query_stride_request = tensors[QUERY].outer_stride;
    params->out_stride_request = tensors[OUT].outer_stride;
    params->lse_stride_request = tensors[LSE].outer_stride;
    params->lse_stride_head = tensors[LSE].column_stride;
    if (call->share.parts > 0) {
        params->part_out = (float *)workspace;
        params->part_lse = (float *)(workspace + call->share.part_out_bytes);
    }
    if (call->share.shared_bytes > 0)
        params->shared = (int *)(workspace + call->share.part_out_bytes + call->share.part_lse_bytes);
    params->s_q = (int)call->args.s_q;
    params->tokens = (int)(call->args.b * call->args.s_q);
    params->pieces = (int)call->share.pieces;
    params->piece_blocks = (int)call->share.piece_blocks;
    params->main_blocks = (int)call->share.main_blocks;
    params->whole_items = (int)call->share.whole_items;
    params->combine_runs = (int)call->share.combine_runs;
    /* Blocks that wait hold their place: a caller who keeps multiprocessors free for others gets none of them. */
    params->starts_early = call->args.sm_limit <= 0;
    if (is_even(call)) {
        params->even_share = (int)call->share.even_share;
        params->even_item_cost = (int)call->share.even_item_cost;
        params->even_token_cost = (int)call->share.even_token_cost;
        params->even_cuts = call->share.even_cuts;
        params->main_blocks = (int)call->share.even_main_blocks;
        params->even_parts = (int)call->share.even_parts;
        params->even_part_blocks = (int)call->share.even_part_blocks;
        params->even_parts_multiplier = gen_decode_multiplier(&call->share);
    }
}

/* ---- The call ---- */

static smla_status check_kernel(const smla_kernel *kernel, const char *function)
{
    if (kernel == NULL)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "%s: kernel is NULL", function);
    if (kernel->op != SMLA_OP_DECODE)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "%s: the kernel is %s: prepare one of SMLA_OP_DECODE", function,
                       kernel->name);
    return SMLA_OK;
}

static smla_status launch(const smla_kernel *kernel, const struct call *call, void *stream)
{
    struct smla_decode_params params;
    struct rt_launch launches[2] = {
        {.function = kernel->functions[0],
         .name = kernel->name,
         .threads = kernel->threads,
         .shared_bytes = kernel->shared_bytes,
         .grid_y = 1,
         .params = &params},
        {.function = kernel->functions[kernel->combine_variant],
         .name = "decode_combine",
         .threads = kernel->combine_threads,
         .grid_x = (unsigned int)call->share.combine_blocks,
         .grid_y = 1,
         .params = &params},
    };

    fill_params(kernel, call, &params);
    launches[0].grid_x = (unsigned int)params.main_blocks;
    rt_add_launch_flags(&launches[0], call->args.launch_flags);
    rt_add_launch_flags(&launches[1], SMLA_LAUNCH_AFTER_PREVIOUS); /* which waits for the first by itself */
    return rt_launch_all_on(kernel, launches, call->share.combine_blocks > 0 ? 2 : 1, stream);
}

smla_status smla_decode(smla_kernel *kernel, const smla_decode_args *args, void *stream)
{
    struct call call;
    smla_status status = check_kernel(kernel, "smla_decode");

    if (status == SMLA_OK)
        status = rt_sized_read(&call.args, sizeof call.args, args, "smla_decode_args");
    if (status == SMLA_OK)
        status = check_scalars(&call.args);
    if (status != SMLA_OK)
        return status;
    read_caches(&call.args, call.caches);
    status = rt_check_caches(kernel, call.caches);
    if (status != SMLA_OK || call.args.b == 0 || call.args.s_q == 0)
        return status;
    status = check_tensors(kernel, &call);
    if (status == SMLA_OK)
        status = rt_decode_share(kernel, call.args.b, call.args.s_q, (int64_t[2]){call.args.topk, call.args.extra_topk},
                                 call.args.sm_limit, &call.kernel, &call.share);
    if (status == SMLA_OK)
        status = check_workspace(&call);
    return status == SMLA_OK ? launch(call.kernel, &call, stream) : status;
}

smla_status smla_decode_workspace_size(const smla_kernel *kernel, int64_t max_b, int64_t max_s_q, int64_t max_topk,
                                       int64_t max_extra_topk, uint64_t *out_bytes)
{
    smla_status status = check_kernel(kernel, "smla_decode_workspace_size");

    if (status == SMLA_OK && out_bytes == NULL)
        status = rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "smla_decode_workspace_size: out_bytes is NULL");
    if (status == SMLA_OK)
        status = check_size("max_b", max_b, INT32_MAX);
    if (status == SMLA_OK)
        status = check_size("max_s_q", max_s_q, INT32_MAX);
    if (status == SMLA_OK)
        status = check_size("max_topk", max_topk, INT32_MAX);
    if (status == SMLA_OK)
        status = check_size("max_extra_topk", max_extra_topk, INT32_MAX);
    if (status == SMLA_OK && kernel->caches == 1 && max_extra_topk != 0)
        status = rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "max_extra_topk %lld: %s reads one cache, leave it 0",
                         (long long)max_extra_topk, kernel->name);
    if (status == SMLA_OK)
        status = rt_decode_workspace(kernel, max_b, max_s_q, (int64_t[2]){max_topk, max_extra_topk}, out_bytes);
    return status;
}
