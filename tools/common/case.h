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

/* A prefill case. Host memory, contiguous; what is absent from the file is NULL. */
struct smla_case {
    char name[128]; /* the file's name without folder and ending */
    char kv_format[32];
    int32_t h_q;
    int32_t d_qk;
    int32_t d_v;
    int64_t s_q;
    int64_t s_kv;
    int64_t topk;
    float sm_scale;
    uint16_t *query;       /* [s_q, h_q, d_qk] bf16 */
    uint16_t *kv;          /* [s_kv, d_qk] bf16 */
    int32_t *indices;      /* [s_q, topk] */
    int32_t *topk_length;  /* [s_q] or NULL */
    float *attn_sink;      /* [h_q] or NULL */
    float *out_ref;        /* [s_q, h_q, d_v] or NULL */
    float *lse_ref;        /* [s_q, h_q] or NULL */
    float *max_logits_ref; /* [s_q, h_q] or NULL */
};

/* Loads a case. Anything but CASE_OK comes with a sentence in why[], and nothing to free. */
enum case_status case_load(const char *path, struct smla_case *out, char why[CASE_WHY]);

/* The same from a file in memory, which may be freed afterwards. path: for the case's name. */
enum case_status case_read(const struct st_file *file, const char *path, struct smla_case *out, char why[CASE_WHY]);

void case_free(struct smla_case *loaded);

/* Describes the kernel that the case needs; its strings belong to the case. No target. */
void case_describe(const struct smla_case *loaded, smla_kernel_desc *desc);

/* The call's arguments with host pointers and without outputs, as the CPU reference takes them. */
void case_arguments(const struct smla_case *loaded, smla_prefill_args *args);

#endif
