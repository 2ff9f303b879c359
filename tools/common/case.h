/* A case file: the tensors of one call and what must come out (../shared/cases/README.md). */
#ifndef SMLA_TOOLS_CASE_H
#define SMLA_TOOLS_CASE_H

#include <stdbool.h>
#include <stdint.h>

#include "safetensors.h"
#include "smla/smla.h"

enum { CASE_WHY = 1024 };

enum case_status {
    CASE_OK,
    CASE_BROKEN,     /* not a case, or one whose tensors do not fit together */
    CASE_UNSUPPORTED /* a case that these tools cannot run yet */
};

/* A cache of a case and the lists that select from it. */
struct case_cache {
    char format[32]; /* a preset's name; "" for a second cache that there is not */
    int64_t s_kv;    /* rows, or slots of the pages */
    int64_t topk;
    int64_t page_tokens; /* 0: no pages */
    int64_t stride_page; /* bytes */
    void *kv;
    size_t kv_bytes;
    int32_t *indices;        /* [b, s_q, topk] */
    int32_t *topk_length;    /* [b, s_q] or NULL */
    int32_t *request_length; /* decode: the same, [b], as the file has it; or NULL */
};

/* Host memory, contiguous; what is absent from the file is NULL. */
struct smla_case {
    char name[128]; /* the file's name without folder and ending */
    uint32_t op;    /* SMLA_OP_PREFILL or SMLA_OP_DECODE */
    int32_t h_q;
    int32_t d_qk;
    int32_t d_v;
    int64_t b;   /* requests; 1 for prefill */
    int64_t s_q; /* query tokens of each */
    float sm_scale;
    uint16_t *query; /* [b, s_q, h_q, d_qk] bf16 */
    struct case_cache caches[2];
    float *attn_sink;      /* [h_q] or NULL */
    float *out_ref;        /* [b, s_q, h_q, d_v] or NULL */
    float *lse_ref;        /* [b, s_q, h_q] or NULL */
    float *max_logits_ref; /* [b, s_q, h_q] or NULL */
};

/* Loads a case. Anything but CASE_OK comes with a sentence in why[], and nothing to free. */
enum case_status case_load(const char *path, struct smla_case *out, char why[CASE_WHY]);

/* The same from a file in memory, which may be freed afterwards. path: for the case's name. */
enum case_status case_read(const struct st_file *file, const char *path, struct smla_case *out, char why[CASE_WHY]);

void case_free(struct smla_case *loaded);

/* Describes the kernel that the case needs; its strings belong to the case. No target. */
void case_describe(const struct smla_case *loaded, smla_kernel_desc *desc);

/* The call's arguments with host pointers and without outputs, as the CPU reference takes them: of decode too, whose
 * tokens are then those of one prefill. */
void case_arguments(const struct smla_case *loaded, smla_prefill_args *args);

/* The arguments of a decode case's call, with host pointers and without outputs. */
void case_decode_arguments(const struct smla_case *loaded, smla_decode_args *args);

#endif
