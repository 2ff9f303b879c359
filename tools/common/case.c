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

/* Q, KV and indices tell the sizes; O_ref tells d_v. */
static bool read_sizes(const struct st_file *file, struct smla_case *out, char why[CASE_WHY])
{
    const struct st_tensor *query = expect(file, "Q", ST_BF16, (int64_t[]){ANY, ANY, ANY}, 3, why);
    if (query == NULL)
        return false;
    const int64_t d_qk = query->shape[2];
    out->s_q = query->shape[0];
    const struct st_tensor *kv = expect(file, "KV", ST_BF16, (int64_t[]){ANY, 1, d_qk}, 3, why);
    if (kv == NULL)
        return false;
    out->s_kv = kv->shape[0];
    const struct st_tensor *indices = expect(file, "indices", ST_I32, (int64_t[]){out->s_q, 1, ANY}, 3, why);
    if (indices == NULL)
        return false;
    out->topk = indices->shape[2];
    const struct st_tensor *out_ref = st_find(file, "O_ref");
    const int64_t d_v = out_ref != NULL && out_ref->rank == 3 ? out_ref->shape[2] : D_V_DEFAULT;
    if (d_v > d_qk)
        return refuse(why, "d_v %lld is more than d_qk %lld", (long long)d_v, (long long)d_qk);
    return to_int32(query->shape[1], "h_q", &out->h_q, why) && to_int32(d_qk, "d_qk", &out->d_qk, why) &&
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

static bool read_tensors(const struct st_file *file, struct smla_case *out, char why[CASE_WHY])
{
    const int64_t query[] = {out->s_q, out->h_q, out->d_qk};
    const int64_t kv[] = {out->s_kv, 1, out->d_qk};
    const int64_t indices[] = {out->s_q, 1, out->topk};
    const int64_t result[] = {out->s_q, out->h_q, out->d_v};
    const int64_t sink[] = {out->h_q};
    return read_scale(file, &out->sm_scale, why) && take(file, "Q", ST_BF16, query, 3, (void **)&out->query, why) &&
           take(file, "KV", ST_BF16, kv, 3, (void **)&out->kv, why) &&
           take(file, "indices", ST_I32, indices, 3, (void **)&out->indices, why) &&
           take_optional(file, "topk_length", ST_I32, query, 1, (void **)&out->topk_length, why) &&
           take_optional(file, "attn_sink", ST_F32, sink, 1, (void **)&out->attn_sink, why) &&
           take_optional(file, "O_ref", ST_F32, result, 3, (void **)&out->out_ref, why) &&
           take_optional(file, "lse_ref", ST_F32, result, 2, (void **)&out->lse_ref, why) &&
           take_optional(file, "max_logits_ref", ST_F32, result, 2, (void **)&out->max_logits_ref, why);
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
    if (strcmp(op, "decode") == 0) {
        refuse(why, "a decode case (kv_format %s): decode is not there yet, only prefill", kv_format);
        return CASE_UNSUPPORTED;
    }
    if (strcmp(op, "prefill") != 0) {
        refuse(why, "op '%s' is unknown: prefill is there", op);
        return CASE_UNSUPPORTED;
    }
    if (strcmp(kv_format, "bf16") != 0) {
        refuse(why, "prefill with kv_format '%s' is not there yet, only bf16", kv_format);
        return CASE_UNSUPPORTED;
    }
    snprintf(out->kv_format, sizeof out->kv_format, "%s", kv_format);
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
    free(loaded->kv);
    free(loaded->indices);
    free(loaded->topk_length);
    free(loaded->attn_sink);
    free(loaded->out_ref);
    free(loaded->lse_ref);
    free(loaded->max_logits_ref);
    *loaded = (struct smla_case){0};
}

void case_describe(const struct smla_case *loaded, smla_kernel_desc *desc)
{
    *desc = (smla_kernel_desc){.struct_size = sizeof *desc,
                               .op = SMLA_OP_PREFILL,
                               .h_q = loaded->h_q,
                               .d_qk = loaded->d_qk,
                               .d_v = loaded->d_v,
                               .kv_format = loaded->kv_format};
}

void case_arguments(const struct smla_case *loaded, smla_prefill_args *args)
{
    *args = (smla_prefill_args){.struct_size = sizeof *args,
                                .s_q = loaded->s_q,
                                .s_kv = loaded->s_kv,
                                .topk = loaded->topk,
                                .sm_scale = loaded->sm_scale,
                                .query = loaded->query,
                                .kv = loaded->kv,
                                .indices = loaded->indices,
                                .topk_length = loaded->topk_length,
                                .attn_sink = loaded->attn_sink};
}
