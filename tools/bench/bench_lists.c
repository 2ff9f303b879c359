#include "bench_lists.h"

#include <stdlib.h>
#include <string.h>

#include "bench_numbers.h"
#include "cli.h"
#include "host_file.h"
#include "safetensors.h"

enum { WINDOW = 128, DRIFT_SHARE = 20 }; /* positions; one entry in so many changes */

/* ---- A file ---- */

static int read_tensor(const struct bench_shape *shape, const struct st_file *file, int32_t *out)
{
    const struct st_tensor *tensor = st_find(file, "indices");
    if (tensor == NULL || tensor->dtype != ST_I32 || tensor->rank != 2 || tensor->shape[0] < shape->s_q ||
        tensor->shape[1] != shape->topk)
        return cli_fail(CLI_USAGE, "%s: there is no tensor 'indices' of I32 with %lld rows and %lld columns",
                        shape->indices_file, (long long)shape->s_q, (long long)shape->topk);
    memcpy(out, tensor->data, (size_t)(shape->s_q * shape->topk) * sizeof *out);
    return CLI_FINE;
}

/* Reads a safetensors file, or else plain int32. */
static int read_lists(const struct bench_shape *shape, int32_t *out)
{
    char why[FILE_WHY], no_tensors[ST_WHY];
    struct st_file file;
    uint8_t *bytes;
    size_t size;
    const size_t wanted = (size_t)(shape->s_q * shape->topk) * sizeof *out;
    if (st_read(shape->indices_file, &file, no_tensors)) {
        const int code = read_tensor(shape, &file, out);
        st_free(&file);
        return code;
    }
    if (!file_read(shape->indices_file, &bytes, &size, why))
        return cli_fail(CLI_USAGE, "--indices: neither uniform, drift nor window, nor a file: %s", why);
    if (size >= wanted)
        memcpy(out, bytes, wanted);
    free(bytes);
    return size >= wanted ? CLI_FINE
                          : cli_fail(CLI_USAGE, "%s has %zu bytes; lists of [%lld, %lld] int32 need %zu",
                                     shape->indices_file, size, (long long)shape->s_q, (long long)shape->topk, wanted);
}

int bench_lists_open(const struct bench_shape *shape, struct bench_lists *lists)
{
    const size_t count = (size_t)(bench_shape_tokens(shape) * shape->topk);
    *lists = (struct bench_lists){.indices = malloc(count * sizeof(int32_t))};
    if (shape->length_high != 0)
        lists->lengths = malloc((size_t)bench_shape_lengths(shape) * sizeof(int32_t));
    if (shape->indices == BENCH_INDICES_FILE)
        lists->from_file = malloc(count * sizeof(int32_t));
    int code = CLI_FINE;
    if (lists->indices == NULL || (shape->length_high != 0 && lists->lengths == NULL) ||
        (shape->indices == BENCH_INDICES_FILE && lists->from_file == NULL))
        code = cli_fail(CLI_CHECK_FAILED, "out of memory");
    else if (shape->indices == BENCH_INDICES_FILE)
        code = read_lists(shape, lists->from_file);
    if (code != CLI_FINE)
        bench_lists_close(lists);
    return code;
}

void bench_lists_close(struct bench_lists *lists)
{
    free(lists->indices);
    free(lists->lengths);
    free(lists->from_file);
    *lists = (struct bench_lists){0};
}

/* ---- Making them ---- */

static void random_entries(uint64_t *state, int64_t rows, int32_t *list, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        list[i] = (int32_t)bench_random_below(state, rows);
}

static void drift(const struct bench_shape *shape, uint64_t *state, int64_t token, int32_t *list)
{
    if (token == 0) {
        random_entries(state, shape->s_kv, list, shape->topk);
        return;
    }
    memcpy(list, list - shape->topk, (size_t)shape->topk * sizeof *list);
    for (int64_t i = 0; i < (shape->topk + DRIFT_SHARE - 1) / DRIFT_SHARE; i++)
        list[bench_random_below(state, shape->topk)] = (int32_t)bench_random_below(state, shape->s_kv);
}

/* Queries are the last s_q positions of the cache, or spread over it when they are more. */
static void window(const struct bench_shape *shape, uint64_t *state, int64_t token, int32_t *list)
{
    const int64_t position =
        shape->s_q <= shape->s_kv ? shape->s_kv - shape->s_q + token : token * shape->s_kv / shape->s_q;
    const int64_t recent = shape->topk < WINDOW ? shape->topk : WINDOW;
    for (int64_t i = 0; i < recent; i++)
        list[i] = position - i >= 0 ? (int32_t)(position - i) : -1;
    random_entries(state, position + 1, list + recent, shape->topk - recent);
}

static void make_indices(const struct bench_shape *shape, uint64_t *state, struct bench_lists *lists)
{
    for (int64_t token = 0; token < bench_shape_tokens(shape); token++) {
        int32_t *list = lists->indices + token * shape->topk;
        switch (shape->indices) {
        case BENCH_INDICES_UNIFORM:
            random_entries(state, shape->s_kv, list, shape->topk);
            break;
        case BENCH_INDICES_DRIFT:
            drift(shape, state, token, list);
            break;
        case BENCH_INDICES_WINDOW:
            window(shape, state, token, list);
            break;
        case BENCH_INDICES_FILE:
            memcpy(list, lists->from_file + token * shape->topk, (size_t)shape->topk * sizeof *list);
            break;
        }
    }
}

static void make_lengths(const struct bench_shape *shape, uint64_t *state, int32_t *lengths)
{
    const int64_t count = bench_shape_lengths(shape);
    const int64_t longest = shape->one_long ? bench_random_below(state, count) : -1;
    for (int64_t i = 0; i < count; i++)
        lengths[i] =
            (int32_t)(shape->length_low + bench_random_below(state, shape->length_high - shape->length_low + 1));
    if (longest >= 0)
        lengths[longest] = (int32_t)shape->topk;
}

int64_t bench_lists_make(const struct bench_shape *shape, uint64_t *state, struct bench_lists *lists)
{
    const int64_t tokens = bench_shape_tokens(shape), tokens_a_length = tokens / bench_shape_lengths(shape);
    uint64_t same = 1; /* the calls of a decode shape have the same lengths, as the layers of a model do */
    int64_t valid = 0;
    make_indices(shape, state, lists);
    if (lists->lengths != NULL)
        make_lengths(shape, shape->op == SMLA_OP_DECODE ? &same : state, lists->lengths);
    for (int64_t token = 0; token < tokens; token++) {
        const int32_t *list = lists->indices + token * shape->topk;
        const int64_t length = lists->lengths == NULL ? shape->topk : lists->lengths[token / tokens_a_length];
        for (int64_t i = 0; i < length; i++)
            valid += list[i] >= 0 && list[i] < shape->s_kv;
    }
    return valid;
}
