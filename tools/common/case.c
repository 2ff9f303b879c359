#include "case.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANY = -1, D_V_DEFAULT = 512 };

__attribute__((format(printf, 2, 3))) static bool refuse(char why[CASE_WHY], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, CASE_WHY, format, arguments);
    va_end(arguments);
    return false;
}

static void name_of(const char *path, char *name, size_t size)
{
    const char *slash = strrchr(path, '/');
    snprintf(name, size, "%s", slash == NULL ? path : slash + 1);
    char *ending = strstr(name, ".safetensors");
    if (ending != NULL && ending != name)
        *ending = 0;
}

static bool shape_fits(const struct st_tensor *tensor, const int64_t *shape, int32_t rank)
{
    if (tensor->rank != rank)
        return false;
    for (int32_t i = 0; i < rank; i++)
        if (shape[i] != ANY && shape[i] != tensor->shape[i])
            return false;
    return true;
}

static void shape_text(const int64_t *shape, int32_t rank, char text[128])
{
    size_t used = 0;
    text[0] = 0;
    for (int32_t i = 0; i < rank && used < 100; i++) {
        const char *comma = i == 0 ? "" : ", ";
        const int added = shape[i] == ANY ? snprintf(text + used, 128 - used, "%sany", comma)
                                          : snprintf(text + used, 128 - used, "%s%lld", comma, (long long)shape[i]);
        used += (size_t)added;
    }
}

/* Finds a tensor of a dtype and shape (ANY matches); NULL with a sentence otherwise. */
static const struct st_tensor *expect(const struct st_file *file, const char *name, enum st_dtype dtype,
                                      const int64_t *shape, int32_t rank, char why[CASE_WHY])
{
    const struct st_tensor *tensor = st_find(file, name);
    char wanted[128];
    char found[128];
    shape_text(shape, rank, wanted);
    if (tensor == NULL) {
        refuse(why, "tensor '%s' %s [%s] is missing", name, st_dtype_name(dtype), wanted);
        return NULL;
    }
    if (tensor->dtype == dtype && shape_fits(tensor, shape, rank))
        return tensor;
    shape_text(tensor->shape, tensor->rank, found);
    refuse(why, "tensor '%s' is %s [%s], not %s [%s]", name, st_dtype_name(tensor->dtype), found, st_dtype_name(dtype),
           wanted);
    return NULL;
}

/* Copies a tensor into memory of its own, which aligns it. */
static bool take(const struct st_file *file, const char *name, enum st_dtype dtype, const int64_t *shape, int32_t rank,
                 void **out, char why[CASE_WHY])
{
    const struct st_tensor *tensor = expect(file, name, dtype, shape, rank, why);
    if (tensor == NULL)
        return false;
    *out = malloc(tensor->size_bytes + 1);
    if (*out == NULL)
        return refuse(why, "out of memory");
    memcpy(*out, tensor->data, tensor->size_bytes);
    return true;
}

static bool take_optional(const struct st_file *file, const char *name, enum st_dtype dtype, const int64_t *shape,
                          int32_t rank, void **out, char why[CASE_WHY])
{
    return st_find(file, name) == NULL || take(file, name, dtype, shape, rank, out, why);
}

static bool to_int32(int64_t value, const char *what, int32_t *out, char why[CASE_WHY])
{
    if (value < 1 || value > INT32_MAX)
        return refuse(why, "%s is %lld", what, (long long)value);
    *out = (int32_t)value;
    return true;
}

/* Decode's tensors have the requests in front. */
static int32_t batch_rank(const struct smla_case *loaded)
{
    return loaded->op == SMLA_OP_DECODE ? 1 : 0;
}

/* Q tells the sizes; O_ref tells d_v. */
static bool read_sizes(const struct st_file *file, struct smla_case *out, char why[CASE_WHY])
{
    const int32_t batch = batch_rank(out);
    const struct st_tensor *query = expect(file, "Q", ST_BF16, (int64_t[]){ANY, ANY, ANY, ANY}, 3 + batch, why);
    if (query == NULL)
        return false;
    const int64_t *shape = query->shape + batch;
    const int64_t d_qk = shape[2];
    out->b = batch ? query->shape[0] : 1;
    out->s_q = shape[0];
    const struct st_tensor *out_ref = st_find(file, "O_ref");
    const int64_t d_v = out_ref != NULL && out_ref->rank == 3 + batch ? out_ref->shape[2 + batch] : D_V_DEFAULT;
    return to_int32(shape[1], "h_q", &out->h_q, why) && to_int32(d_qk, "d_qk", &out->d_qk, why) &&
           to_int32(d_v, "d_v", &out->d_v, why);
}

static bool read_scale(const struct st_file *file, float *out, char why[CASE_WHY])
{
    const struct st_tensor *tensor = expect(file, "sm_scale", ST_F32, (int64_t[]){1}, 1, why);
    if (tensor == NULL)
        return false;
    memcpy(out, tensor->data, sizeof *out);
    return true;
}

/* The names of a cache's tensors. */
static const struct {
    const char *format, *kv, *page_size, *indices, *length;
} cache_names[2] = {{"kv_format", "KV", "page_size", "indices", "topk_length"},
                    {"extra_kv_format", "extra_KV", "extra_page_size", "extra_indices", "extra_topk_length"}};

static bool read_rows(const struct st_file *file, const struct smla_case *loaded, struct case_cache *out,
                      char why[CASE_WHY])
{
    const struct st_tensor *kv = expect(file, "KV", ST_BF16, (int64_t[]){ANY, 1, loaded->d_qk}, 3, why);
    if (kv == NULL)
        return false;
    out->s_kv = kv->shape[0];
    out->kv_bytes = kv->size_bytes;
    return take(file, "KV", ST_BF16, kv->shape, 3, &out->kv, why);
}

static bool read_pages(const struct st_file *file, int c, struct case_cache *out, char why[CASE_WHY])
{
    int32_t page_tokens;
    const struct st_tensor *kv = expect(file, cache_names[c].kv, ST_U8, (int64_t[]){ANY, ANY}, 2, why);
    const struct st_tensor *page =
        kv == NULL ? NULL : expect(file, cache_names[c].page_size, ST_I32, (int64_t[]){1}, 1, why);
    if (page == NULL)
        return false;
    memcpy(&page_tokens, page->data, sizeof page_tokens);
    if (page_tokens < 1)
        return refuse(why, "%s is %d", cache_names[c].page_size, page_tokens);
    out->page_tokens = page_tokens;
    out->stride_page = kv->shape[1];
    if (__builtin_mul_overflow(kv->shape[0], page_tokens, &out->s_kv)) /* pages may have no bytes */
        return refuse(why, "%s: %lld pages of %d tokens overflow", cache_names[c].kv, (long long)kv->shape[0],
                      page_tokens);
    out->kv_bytes = kv->size_bytes;
    return take(file, cache_names[c].kv, ST_U8, kv->shape, 2, &out->kv, why);
}

/* A length of each request becomes one of each of its tokens. */
static bool read_request_lengths(const struct st_file *file, const struct smla_case *loaded, int c,
                                 struct case_cache *out, char why[CASE_WHY])
{
    if (!take_optional(file, cache_names[c].length, ST_I32, &loaded->b, 1, (void **)&out->request_length, why))
        return false;
    if (out->request_length == NULL)
        return true;
    out->topk_length = malloc((size_t)(loaded->b * loaded->s_q) * sizeof *out->topk_length + 1);
    if (out->topk_length == NULL)
        return refuse(why, "out of memory");
    for (int64_t i = 0; i < loaded->b * loaded->s_q; i++)
        out->topk_length[i] = out->request_length[i / loaded->s_q];
    return true;
}

static bool read_cache(const struct st_file *file, const struct smla_case *loaded, int c, struct case_cache *out,
                       char why[CASE_WHY])
{
    const bool decode = loaded->op == SMLA_OP_DECODE;
    const int64_t lists[] = {loaded->b, loaded->s_q, ANY}, rows[] = {loaded->s_q, 1, ANY};
    if (!(decode ? read_pages(file, c, out, why) : read_rows(file, loaded, out, why)))
        return false;
    const struct st_tensor *indices = expect(file, cache_names[c].indices, ST_I32, decode ? lists : rows, 3, why);
    if (indices == NULL)
        return false;
    out->topk = indices->shape[2];
    return take(file, cache_names[c].indices, ST_I32, indices->shape, 3, (void **)&out->indices, why) &&
           (decode ? read_request_lengths(file, loaded, c, out, why)
                   : take_optional(file, "topk_length", ST_I32, &loaded->s_q, 1, (void **)&out->topk_length, why));
}

static bool read_tensors(const struct st_file *file, struct smla_case *out, char why[CASE_WHY])
{
    const int32_t batch = batch_rank(out);
    const int64_t with_b[] = {out->b, out->s_q, out->h_q, out->d_v};
    const int64_t *result = batch ? with_b : with_b + 1;
    const int64_t query[] = {out->b, out->s_q, out->h_q, out->d_qk};
    const int64_t sink[] = {out->h_q};
    return take(file, "Q", ST_BF16, query + 1 - batch, 3 + batch, (void **)&out->query, why) &&
           read_cache(file, out, 0, &out->caches[0], why) &&
           (out->caches[1].format[0] == 0 || read_cache(file, out, 1, &out->caches[1], why)) &&
           read_scale(file, &out->sm_scale, why) &&
           (out->d_v <= out->d_qk || refuse(why, "d_v %d is more than d_qk %d", out->d_v, out->d_qk)) &&
           take_optional(file, "attn_sink", ST_F32, sink, 1, (void **)&out->attn_sink, why) &&
           take_optional(file, "O_ref", ST_F32, result, 3 + batch, (void **)&out->out_ref, why) &&
           take_optional(file, "lse_ref", ST_F32, result, 2 + batch, (void **)&out->lse_ref, why) &&
           take_optional(file, "max_logits_ref", ST_F32, result, 2 + batch, (void **)&out->max_logits_ref, why);
}

/* Which operator and formats: only the metadata tell. */
static enum case_status read_operator(const struct st_file *file, struct smla_case *out, char why[CASE_WHY])
{
    const char *op = st_metadata(file, "op");
    const char *kv_format = st_metadata(file, "kv_format");
    if (op == NULL || kv_format == NULL) {
        refuse(why, "the metadata name no op and kv_format: not a case file");
        return CASE_BROKEN;
    }
    if (strcmp(op, "prefill") != 0 && strcmp(op, "decode") != 0) {
        refuse(why, "op '%s' is unknown: prefill and decode are there", op);
        return CASE_UNSUPPORTED;
    }
    out->op = strcmp(op, "decode") == 0 ? SMLA_OP_DECODE : SMLA_OP_PREFILL;
    const char *extra = st_metadata(file, cache_names[1].format);
    if (out->op == SMLA_OP_PREFILL && (strcmp(kv_format, "bf16") != 0 || extra != NULL)) {
        refuse(why, "prefill with kv_format '%s'%s: prefill cases have one bf16 cache", kv_format,
               extra != NULL ? " and a second cache" : "");
        return CASE_UNSUPPORTED;
    }
    if (out->op == SMLA_OP_DECODE &&
        (strcmp(kv_format, "bf16") == 0 || (extra != NULL && strcmp(extra, "bf16") == 0))) {
        refuse(why, "decode with kv_format 'bf16': decode cases have caches of bytes");
        return CASE_UNSUPPORTED;
    }
    snprintf(out->caches[0].format, sizeof out->caches[0].format, "%s", kv_format);
    snprintf(out->caches[1].format, sizeof out->caches[1].format, "%s", extra == NULL ? "" : extra);
    return CASE_OK;
}

enum case_status case_read(const struct st_file *file, const char *path, struct smla_case *out, char why[CASE_WHY])
{
    *out = (struct smla_case){0};
    name_of(path, out->name, sizeof out->name);
    enum case_status status = read_operator(file, out, why);
    if (status == CASE_OK && !(read_sizes(file, out, why) && read_tensors(file, out, why)))
        status = CASE_BROKEN;
    if (status != CASE_OK)
        case_free(out);
    return status;
}

enum case_status case_load(const char *path, struct smla_case *out, char why[CASE_WHY])
{
    struct st_file file;
    if (!st_read(path, &file, why))
        return CASE_BROKEN;
    const enum case_status status = case_read(&file, path, out, why);
    st_free(&file);
    return status;
}

void case_free(struct smla_case *loaded)
{
    free(loaded->query);
    for (int c = 0; c < 2; c++) {
        free(loaded->caches[c].kv);
        free(loaded->caches[c].indices);
        free(loaded->caches[c].topk_length);
        free(loaded->caches[c].request_length);
    }
    free(loaded->attn_sink);
    free(loaded->out_ref);
    free(loaded->lse_ref);
    free(loaded->max_logits_ref);
    *loaded = (struct smla_case){0};
}

void case_describe(const struct smla_case *loaded, smla_kernel_desc *desc)
{
    const char *extra = loaded->caches[1].format;
    *desc = (smla_kernel_desc){.struct_size = sizeof *desc,
                               .op = loaded->op,
                               .h_q = loaded->h_q,
                               .d_qk = loaded->d_qk,
                               .d_v = loaded->d_v,
                               .kv_format = loaded->caches[0].format,
                               .extra_kv_format = extra[0] == 0 ? NULL : extra};
}

void case_arguments(const struct smla_case *loaded, smla_prefill_args *args)
{
    const struct case_cache *first = &loaded->caches[0], *second = &loaded->caches[1];
    *args = (smla_prefill_args){.struct_size = sizeof *args,
                                .s_q = loaded->b * loaded->s_q,
                                .sm_scale = loaded->sm_scale,
                                .query = loaded->query,
                                .attn_sink = loaded->attn_sink,
                                .s_kv = first->s_kv,
                                .topk = first->topk,
                                .kv = first->kv,
                                .kv_page_tokens = first->page_tokens,
                                .kv_stride_page = first->stride_page,
                                .indices = first->indices,
                                .topk_length = first->topk_length,
                                .extra_s_kv = second->s_kv,
                                .extra_topk = second->topk,
                                .extra_kv = second->kv,
                                .extra_kv_page_tokens = second->page_tokens,
                                .extra_kv_stride_page = second->stride_page,
                                .extra_indices = second->indices,
                                .extra_topk_length = second->topk_length};
}

void case_decode_arguments(const struct smla_case *loaded, smla_decode_args *args)
{
    const struct case_cache *first = &loaded->caches[0], *second = &loaded->caches[1];
    *args = (smla_decode_args){.struct_size = sizeof *args,
                               .decode_flags = SMLA_DECODE_LENGTHS_PER_REQUEST | SMLA_DECODE_EXTRA_LENGTHS_PER_REQUEST,
                               .b = loaded->b,
                               .s_q = loaded->s_q,
                               .sm_scale = loaded->sm_scale,
                               .query = loaded->query,
                               .attn_sink = loaded->attn_sink,
                               .s_kv = first->s_kv,
                               .topk = first->topk,
                               .kv = first->kv,
                               .kv_page_tokens = first->page_tokens,
                               .kv_stride_page = first->stride_page,
                               .indices = first->indices,
                               .topk_length = first->request_length,
                               .extra_s_kv = second->s_kv,
                               .extra_topk = second->topk,
                               .extra_kv = second->kv,
                               .extra_kv_page_tokens = second->page_tokens,
                               .extra_kv_stride_page = second->stride_page,
                               .extra_indices = second->indices,
                               .extra_topk_length = second->request_length};
}
