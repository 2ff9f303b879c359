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

/* Of a decode cache placed by page: a multiple of what a token's values and tail take, as engines have it. 0: no gap.
 */
static int64_t page_stride(const struct bench_shape *shape, const smla_kv_layout *layout)
{
    const int64_t run = kv_value_bytes(layout) + 2 * (int64_t)layout->tail_elems;
    if (shape->op != SMLA_OP_DECODE || layout->place != SMLA_PLACE_PAGE)
        return 0;
    return (shape->page * kv_token_bytes(layout) + run - 1) / run * run / kv_elem_bytes(layout);
}

static int make_pool(struct bench_random_memory *memory, const struct bench_shape *shape, const smla_kv_layout *layout,
                     struct bench_pool *out)
{
    struct kv_view cache = kv_view_make(layout, NULL, 0, shape->page, page_stride(shape, layout));
    const size_t size = (size_t)kv_cache_bytes(&cache, shape->s_kv);
    out->token_bytes = kv_token_bytes(layout);
    out->stride_token = layout->place == SMLA_PLACE_PAGE ? 0 : cache.stride_token / kv_elem_bytes(layout);
    out->stride_page = cache.stride_page / kv_elem_bytes(layout);
    if (!device_alloc(memory->device, size, &out->memory))
        return fault(memory->device);
    cache.base = out->memory;
    if (layout->value_type != SMLA_VALUE_BF16)
        return fill_quantised(memory, &cache, shape->s_kv, size);
    return bench_random_memory_copy(memory, 0, out->memory, size) ? CLI_FINE : fault(memory->device);
}

static int make_pools(struct bench_random_memory *memory, const struct bench_shape *shape,
                      const smla_kv_layout layouts[2], struct bench_inputs *out)
{
    struct bench_shape extra;
    const int code = make_pool(memory, shape, &layouts[0], &out->pools[0]);
    return code == CLI_FINE && bench_shape_extra(shape, &extra) ? make_pool(memory, &extra, &layouts[1], &out->pools[1])
                                                                : code;
}

/* ---- Copies ---- */

/* Bytes of a copy's parts, each from a multiple of ALIGNMENT. */
struct sizes {
    size_t query, indices, lengths, extra_indices, out, lse, max_logits;
    size_t outputs; /* the last three */
    size_t all;     /* of a copy, a rival's outputs included */
};

static size_t aligned(int64_t bytes)
{
    return ((size_t)bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

static struct sizes find_sizes(const struct bench_shape *shape, bool rivals)
{
    const int64_t tokens = bench_shape_tokens(shape), heads = tokens * shape->h_q;
    struct sizes sizes = {.query = aligned(heads * shape->d_qk * 2),
                          .indices = aligned(tokens * shape->topk * 4),
                          .lengths = shape->length_high == 0 ? 0 : aligned(bench_shape_lengths(shape) * 4),
                          .extra_indices = aligned(tokens * shape->extra_topk * 4),
                          .out = aligned(heads * D_V * 2),
                          .lse = aligned(heads * 4),
                          .max_logits = shape->op == SMLA_OP_DECODE ? 0 : aligned(heads * 4)};
    sizes.outputs = sizes.out + sizes.lse + sizes.max_logits;
    sizes.all = sizes.query + sizes.indices + sizes.lengths + sizes.extra_indices + (rivals ? 2 : 1) * sizes.outputs;
    return sizes;
}

static void *take(uint8_t **at, size_t size)
{
    void *taken = size == 0 ? NULL : *at;
    *at += size;
    return taken;
}

static void take_outputs(const struct sizes *sizes, uint8_t **at, struct bench_tensors *tensors)
{
    tensors->out = take(at, sizes->out);
    tensors->lse = take(at, sizes->lse);
    tensors->max_logits = take(at, sizes->max_logits);
}

static void set_arguments(const struct bench_shape *shape, const struct sizes *sizes, const struct bench_inputs *inputs,
                          const void *sink, bool rivals, uint8_t *at, struct bench_copy *copy)
{
    struct bench_tensors *tensors = &copy->tensors;
    tensors->sink = shape->sink ? sink : NULL;
    tensors->query = take(&at, sizes->query);
    tensors->indices = take(&at, sizes->indices);
    tensors->lengths = take(&at, sizes->lengths);
    tensors->extra_indices = take(&at, sizes->extra_indices);
    struct bench_tensors rival = *tensors;
    take_outputs(sizes, &at, tensors);
    tensors->workspace = inputs->workspace;
    tensors->workspace_bytes = inputs->workspace_bytes;
    copy->args = bench_args_make(shape, inputs->pools, tensors);
    if (rivals)
        take_outputs(sizes, &at, &rival);
    copy->rival_out = rival.out;
    copy->rival_args = bench_args_make(shape, inputs->pools, &rival);
}

/* The lists of all calls. */
struct all_lists {
    struct bench_shape extra_shape;
    bool has_extra;
    struct bench_lists first, extra;
};

static int open_lists(const struct bench_shape *shape, struct all_lists *lists)
{
    *lists = (struct all_lists){.has_extra = false};
    lists->has_extra = bench_shape_extra(shape, &lists->extra_shape);
    const int code = bench_lists_open(shape, &lists->first);
    return code == CLI_FINE && lists->has_extra ? bench_lists_open(&lists->extra_shape, &lists->extra) : code;
}

static void close_lists(struct all_lists *lists)
{
    bench_lists_close(&lists->first);
    bench_lists_close(&lists->extra);
}

static bool upload_list(struct device *device, const struct bench_shape *shape, const struct bench_lists *lists,
                        void *to)
{
    return device_upload(device, to, lists->indices, (size_t)(bench_shape_tokens(shape) * shape->topk) * 4);
}

/* Fills a copy's query and lists. */
static bool fill_copy(struct bench_random_memory *memory, const struct bench_shape *shape, struct all_lists *lists,
                      size_t number, struct bench_copy *copy)
{
    struct device *device = memory->device;
    const struct bench_tensors *tensors = &copy->tensors;
    copy->keys = bench_lists_make(shape, &memory->state, &lists->first);
    if (lists->has_extra)
        copy->extra_keys = bench_lists_make(&lists->extra_shape, &memory->state, &lists->extra);
    return bench_random_memory_copy(memory, (number + 1) * 1234 * ALIGNMENT, tensors->query,
                                    (size_t)(bench_shape_tokens(shape) * shape->h_q * shape->d_qk) * 2) &&
           upload_list(device, shape, &lists->first, tensors->indices) &&
           (tensors->lengths == NULL ||
            device_upload(device, tensors->lengths, lists->first.lengths, (size_t)bench_shape_lengths(shape) * 4)) &&
           (!lists->has_extra || upload_list(device, &lists->extra_shape, &lists->extra, tensors->extra_indices));
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
    struct all_lists lists;
    uint8_t *at = out->arena;
    void *sink = take(&at, aligned(shape->h_q * 4));
    float *sinks = calloc((size_t)shape->h_q, sizeof *sinks);
    int code = sinks == NULL ? cli_fail(CLI_CHECK_FAILED, "out of memory") : open_lists(shape, &lists);
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
    close_lists(&lists);
    free(sinks);
    return ok && device_synchronize(memory->device) ? CLI_FINE : fault(memory->device);
}

static int make_copies(struct bench_random_memory *memory, const struct bench_shape *shape, size_t max_copies,
                       bool rivals, struct bench_inputs *out)
{
    const struct sizes sizes = find_sizes(shape, rivals);
    out->count = copies_of(memory, &sizes, max_copies);
    out->copy_bytes = sizes.query + sizes.indices + sizes.lengths + sizes.extra_indices + sizes.out;
    out->tokens = bench_shape_tokens(shape);
    out->out_bytes = (size_t)(out->tokens * shape->h_q) * D_V * 2;
    out->copies = calloc(out->count, sizeof *out->copies);
    if (out->copies == NULL)
        return cli_fail(CLI_CHECK_FAILED, "out of memory");
    if (!device_alloc(memory->device, aligned(shape->h_q * 4) + out->count * sizes.all, &out->arena))
        return fault(memory->device);
    return fill_copies(memory, shape, &sizes, rivals, out);
}

static int make_workspace(struct bench_inputs *inputs, uint64_t bytes)
{
    inputs->workspace_bytes = bytes;
    return bytes == 0 || device_alloc(inputs->device, (size_t)bytes, &inputs->workspace) ? CLI_FINE
                                                                                         : fault(inputs->device);
}

int bench_inputs_make(struct bench_random_memory *memory, const struct bench_shape *shape,
                      const smla_kv_layout layouts[2], uint64_t workspace_bytes, size_t max_copies, bool rivals,
                      struct bench_inputs *out)
{
    *out = (struct bench_inputs){.device = memory->device};
    int code = make_pools(memory, shape, layouts, out);
    if (code == CLI_FINE)
        code = make_workspace(out, workspace_bytes);
    if (code == CLI_FINE)
        code = make_copies(memory, shape, max_copies, rivals, out);
    if (code != CLI_FINE)
        bench_inputs_free(out);
    return code;
}

void bench_inputs_free(struct bench_inputs *inputs)
{
    if (inputs->device != NULL) {
        device_free(inputs->device, inputs->pools[0].memory);
        device_free(inputs->device, inputs->pools[1].memory);
        device_free(inputs->device, inputs->workspace);
        device_free(inputs->device, inputs->arena);
    }
    free(inputs->copies);
    *inputs = (struct bench_inputs){0};
}

/* ---- Comparing ---- */

bool bench_inputs_poison(const struct bench_inputs *inputs)
{
    const struct bench_copy *copy = &inputs->copies[0];
    return device_fill(inputs->device, copy->tensors.out, 0xff, inputs->out_bytes) &&
           (copy->rival_out == NULL || device_fill(inputs->device, copy->rival_out, 0xff, inputs->out_bytes)) &&
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
    const int64_t tokens = inputs->tokens, compared = tokens < COMPARED_TOKENS ? tokens : COMPARED_TOKENS;
    const size_t bytes = inputs->out_bytes / (size_t)tokens;
    uint16_t *buffer = malloc(2 * bytes);
    bool ok = buffer != NULL;
    *difference = *largest = 0;
    for (int64_t i = 1; i <= compared && ok; i++) {
        const size_t at = (size_t)(i * tokens / compared - 1) * bytes;
        ok = device_download(inputs->device, buffer, (const uint8_t *)copy->tensors.out + at, bytes) &&
             device_download(inputs->device, buffer + bytes / 2, (const uint8_t *)copy->rival_out + at, bytes);
        if (ok)
            compare_token(buffer, buffer + bytes / 2, bytes / 2, difference, largest);
    }
    free(buffer);
    return ok;
}
