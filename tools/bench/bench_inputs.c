#include "bench_inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_lists.h"
#include "bench_numbers.h"
#include "bf16.h"
#include "cli.h"
#include "kv_codec.h"

enum {
    CACHE_TOKENS = 4096, /* of a quantised cache that are written; the others repeat them */
    ALIGNMENT = 1024,
    D_V = 512,
    COMPARED_TOKENS = 512
};

static int fault(const struct device *device)
{
    return cli_fail(CLI_DEVICE_FAULT, "%s", device_why(device));
}

/* ---- Random memory ---- */

int bench_random_memory_make(struct device *device, struct bench_random_memory *out)
{
    *out = (struct bench_random_memory){.device = device, .state = 1, .host = malloc(BENCH_RANDOM_BYTES)};
    if (out->host == NULL)
        return cli_fail(CLI_CHECK_FAILED, "out of memory");
    bench_random_bf16(&out->state, out->host, BENCH_RANDOM_BYTES / sizeof *out->host);
    if (device_attribute(device, DEVICE_ATTRIBUTE_L2_BYTES, &out->l2_bytes) &&
        device_alloc(device, BENCH_RANDOM_BYTES, &out->memory) &&
        device_upload(device, out->memory, out->host, BENCH_RANDOM_BYTES))
        return CLI_FINE;
    bench_random_memory_free(out);
    return fault(device);
}

void bench_random_memory_free(struct bench_random_memory *memory)
{
    if (memory->memory != NULL)
        device_free(memory->device, memory->memory);
    free(memory->host);
    *memory = (struct bench_random_memory){0};
}

/* Copies what the first `filled` bytes are over the rest, twice as many each time. */
static bool repeat(struct device *device, uint8_t *to, size_t filled, size_t size)
{
    for (size_t bytes; filled < size; filled += bytes) {
        bytes = filled < size - filled ? filled : size - filled;
        if (!device_copy(device, to + filled, to, bytes))
            return false;
    }
    return true;
}

bool bench_random_memory_copy(const struct bench_random_memory *memory, size_t offset, void *to, size_t size_bytes)
{
    offset = offset % (BENCH_RANDOM_BYTES / 2) & ~(size_t)(ALIGNMENT - 1);
    const size_t first = size_bytes < BENCH_RANDOM_BYTES - offset ? size_bytes : BENCH_RANDOM_BYTES - offset;
    return device_copy(memory->device, to, (const uint8_t *)memory->memory + offset, first) &&
           repeat(memory->device, to, first, size_bytes);
}

/* ---- The pool ---- */

/* Writes some whole pages in the cache's format and repeats them. */
static int fill_quantised(struct bench_random_memory *memory, const struct kv_view *cache, int64_t s_kv, size_t size)
{
    const int64_t page = cache->page_tokens == 0 ? 1 : cache->page_tokens;
    const int64_t pages = (s_kv + page - 1) / page, most = (CACHE_TOKENS + page - 1) / page;
    const int64_t tokens = (pages < most ? pages : most) * page;
    struct kv_view view = *cache;
    const size_t bytes = (size_t)kv_cache_bytes(&view, tokens);
    view.base = calloc(bytes, 1);
    if (view.base == NULL)
        return cli_fail(CLI_CHECK_FAILED, "out of memory");
    for (int64_t token = 0; token < tokens; token++)
        kv_write(&view, token, memory->host + token % CACHE_TOKENS * 1024);
    const bool ok = device_upload(memory->device, cache->base, view.base, bytes < size ? bytes : size) &&
                    repeat(memory->device, cache->base, bytes, size);
    free(view.base);
    return ok ? CLI_FINE : fault(memory->device);
}

static int make_pool(struct bench_random_memory *memory, const struct bench_shape *shape, const smla_kv_layout *layout,
                     struct bench_inputs *out)
{
    struct kv_view cache = kv_view_make(layout, NULL, 0, shape->page, 0);
    const size_t size = (size_t)kv_cache_bytes(&cache, shape->s_kv);
    out->token_bytes = kv_token_bytes(layout);
    out->kv_stride_token = layout->place == SMLA_PLACE_PAGE ? 0 : cache.stride_token / kv_elem_bytes(layout);
    out->kv_stride_page = cache.stride_page / kv_elem_bytes(layout);
    if (!device_alloc(memory->device, size, &out->pool))
        return fault(memory->device);
    cache.base = out->pool;
    if (layout->value_type != SMLA_VALUE_BF16)
        return fill_quantised(memory, &cache, shape->s_kv, size);
    return bench_random_memory_copy(memory, 0, out->pool, size) ? CLI_FINE : fault(memory->device);
}

/* ---- Copies ---- */

/* Bytes of a copy's parts, each from a multiple of ALIGNMENT. */
struct sizes {
    size_t query, indices, lengths, out, row; /* row: lse, and max_logits */
    size_t all;                               /* of a copy, a rival's outputs included */
};

static size_t aligned(int64_t bytes)
{
    return ((size_t)bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

static struct sizes find_sizes(const struct bench_shape *shape, bool rivals)
{
    const int64_t heads = shape->s_q * shape->h_q;
    struct sizes sizes = {.query = aligned(heads * shape->d_qk * 2),
                          .indices = aligned(shape->s_q * shape->topk * 4),
                          .lengths = shape->length_high == 0 ? 0 : aligned(shape->s_q * 4),
                          .out = aligned(heads * D_V * 2),
                          .row = aligned(heads * 4)};
    sizes.all = sizes.query + sizes.indices + sizes.lengths + (rivals ? 2 : 1) * (sizes.out + 2 * sizes.row);
    return sizes;
}

static void *take(uint8_t **at, size_t size)
{
    void *taken = *at;
    *at += size;
    return taken;
}

static void set_outputs(smla_prefill_args *args, const struct sizes *sizes, uint8_t **at)
{
    args->out = take(at, sizes->out);
    args->lse = take(at, sizes->row);
    args->max_logits = take(at, sizes->row);
}

/* Those that could be 0 for contiguous: a rival may have to tell the shape from them. */
static void set_strides(const struct bench_shape *shape, const struct bench_inputs *inputs, smla_prefill_args *args)
{
    args->query_stride_head = shape->d_qk;
    args->query_stride_token = (int64_t)shape->h_q * shape->d_qk;
    args->kv_stride_token = inputs->kv_stride_token;
    args->kv_stride_page = inputs->kv_stride_page;
    args->indices_stride_token = shape->topk;
    args->topk_length_stride = 1;
    args->out_stride_head = D_V;
    args->out_stride_token = (int64_t)shape->h_q * D_V;
    args->lse_stride_token = args->max_logits_stride_token = shape->h_q;
}

static void set_arguments(const struct bench_shape *shape, const struct sizes *sizes, const struct bench_inputs *inputs,
                          const void *sink, bool rivals, uint8_t *at, struct bench_copy *copy)
{
    copy->args = (smla_prefill_args){.struct_size = sizeof copy->args,
                                     .sm_limit = (int32_t)shape->sm_limit,
                                     .s_q = shape->s_q,
                                     .s_kv = shape->s_kv,
                                     .topk = shape->topk,
                                     .sm_scale = 1 / sqrtf((float)shape->d_qk),
                                     .kv = inputs->pool,
                                     .kv_page_tokens = shape->page,
                                     .attn_sink = shape->sink ? sink : NULL};
    set_strides(shape, inputs, &copy->args);
    copy->args.query = take(&at, sizes->query);
    copy->args.indices = take(&at, sizes->indices);
    if (sizes->lengths != 0)
        copy->args.topk_length = take(&at, sizes->lengths);
    copy->rival_args = copy->args;
    set_outputs(&copy->args, sizes, &at);
    if (rivals)
        set_outputs(&copy->rival_args, sizes, &at);
}

/* Fills a copy's query and lists. */
static bool fill_copy(struct bench_random_memory *memory, const struct bench_shape *shape, struct bench_lists *lists,
                      size_t number, struct bench_copy *copy)
{
    struct device *device = memory->device;
    copy->keys = bench_lists_make(shape, &memory->state, lists);
    return bench_random_memory_copy(memory, (number + 1) * 1234 * ALIGNMENT, (void *)(uintptr_t)copy->args.query,
                                    (size_t)(shape->s_q * shape->h_q * shape->d_qk) * 2) &&
           device_upload(device, (void *)(uintptr_t)copy->args.indices, lists->indices,
                         (size_t)(shape->s_q * shape->topk) * 4) &&
           (lists->lengths == NULL ||
            device_upload(device, (void *)(uintptr_t)copy->args.topk_length, lists->lengths, (size_t)shape->s_q * 4));
}

/* Enough to go past the L2 cache twice; at most 9 tenths of what is free. */
static size_t copies_of(const struct bench_random_memory *memory, const struct sizes *sizes, size_t max_copies)
{
    size_t free_bytes = 0, total = 0;
    size_t count = 2 * (size_t)memory->l2_bytes / sizes->all + 1;
    count = count < 2 ? 2 : count;
    if (device_memory_info(memory->device, &free_bytes, &total) && count > free_bytes / 10 * 9 / sizes->all)
        count = free_bytes / 10 * 9 / sizes->all;
    count = count > max_copies ? max_copies : count;
    return count < 1 ? 1 : count;
}

static int fill_copies(struct bench_random_memory *memory, const struct bench_shape *shape, const struct sizes *sizes,
                       bool rivals, struct bench_inputs *out)
{
    struct bench_lists lists;
    uint8_t *at = out->arena;
    void *sink = take(&at, aligned(shape->h_q * 4));
    float *sinks = calloc((size_t)shape->h_q, sizeof *sinks);
    int code = sinks == NULL ? cli_fail(CLI_CHECK_FAILED, "out of memory") : bench_lists_open(shape, &lists);
    if (code != CLI_FINE) {
        free(sinks);
        return code;
    }
    for (int32_t head = 0; head < shape->h_q; head++)
        sinks[head] = bf16_to_float(memory->host[head]);
    bool ok = device_upload(memory->device, sink, sinks, (size_t)shape->h_q * sizeof *sinks);
    for (size_t i = 0; i < out->count && ok; i++, at += sizes->all) {
        set_arguments(shape, sizes, out, sink, rivals, at, &out->copies[i]);
        ok = fill_copy(memory, shape, &lists, i, &out->copies[i]);
    }
    bench_lists_close(&lists);
    free(sinks);
    return ok && device_synchronize(memory->device) ? CLI_FINE : fault(memory->device);
}

static int make_copies(struct bench_random_memory *memory, const struct bench_shape *shape, size_t max_copies,
                       bool rivals, struct bench_inputs *out)
{
    const struct sizes sizes = find_sizes(shape, rivals);
    out->count = copies_of(memory, &sizes, max_copies);
    out->copy_bytes = sizes.query + sizes.indices + sizes.lengths + sizes.out;
    out->out_bytes = (size_t)(shape->s_q * shape->h_q) * D_V * 2;
    out->copies = calloc(out->count, sizeof *out->copies);
    if (out->copies == NULL)
        return cli_fail(CLI_CHECK_FAILED, "out of memory");
    if (!device_alloc(memory->device, aligned(shape->h_q * 4) + out->count * sizes.all, &out->arena))
        return fault(memory->device);
    return fill_copies(memory, shape, &sizes, rivals, out);
}

int bench_inputs_make(struct bench_random_memory *memory, const struct bench_shape *shape, const smla_kv_layout *layout,
                      size_t max_copies, bool rivals, struct bench_inputs *out)
{
    *out = (struct bench_inputs){.device = memory->device};
    int code = make_pool(memory, shape, layout, out);
    if (code == CLI_FINE)
        code = make_copies(memory, shape, max_copies, rivals, out);
    if (code != CLI_FINE)
        bench_inputs_free(out);
    return code;
}

void bench_inputs_free(struct bench_inputs *inputs)
{
    if (inputs->device != NULL) {
        device_free(inputs->device, inputs->pool);
        device_free(inputs->device, inputs->arena);
    }
    free(inputs->copies);
    *inputs = (struct bench_inputs){0};
}

/* ---- Comparing ---- */

bool bench_inputs_poison(const struct bench_inputs *inputs)
{
    const struct bench_copy *copy = &inputs->copies[0];
    return device_fill(inputs->device, copy->args.out, 0xff, inputs->out_bytes) &&
           (copy->rival_args.out == NULL ||
            device_fill(inputs->device, copy->rival_args.out, 0xff, inputs->out_bytes)) &&
           device_synchronize(inputs->device);
}

static void compare_token(const uint16_t *ours, const uint16_t *rivals, size_t count, double *difference,
                          double *largest)
{
    for (size_t i = 0; i < count; i++) {
        const double a = bf16_to_float(ours[i]), b = bf16_to_float(rivals[i]);
        const double apart = isnan(a) && isnan(b) ? 0 : fabs(a - b);
        *difference = isnan(apart) ? INFINITY : fmax(*difference, apart);
        *largest = fmax(*largest, fabs(a));
    }
}

bool bench_inputs_compare(const struct bench_inputs *inputs, double *difference, double *largest)
{
    const struct bench_copy *copy = &inputs->copies[0];
    const int64_t tokens = copy->args.s_q, compared = tokens < COMPARED_TOKENS ? tokens : COMPARED_TOKENS;
    const size_t bytes = inputs->out_bytes / (size_t)tokens;
    uint16_t *buffer = malloc(2 * bytes);
    bool ok = buffer != NULL;
    *difference = *largest = 0;
    for (int64_t i = 1; i <= compared && ok; i++) {
        const size_t at = (size_t)(i * tokens / compared - 1) * bytes;
        ok = device_download(inputs->device, buffer, (const uint8_t *)copy->args.out + at, bytes) &&
             device_download(inputs->device, buffer + bytes / 2, (const uint8_t *)copy->rival_args.out + at, bytes);
        if (ok)
            compare_token(buffer, buffer + bytes / 2, bytes / 2, difference, largest);
    }
    free(buffer);
    return ok;
}
