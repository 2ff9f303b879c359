/* The table of KV cache formats: ../shared/interface.md, "KV formats". A layout is data; nothing is inferred from the
 * bytes a token takes. */
#ifndef SMLA_GEN_KV_FORMAT_H
#define SMLA_GEN_KV_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "smla/smla.h"

struct gen_kv_format {
    const char *name;
    int32_t d_qk[2];     /* the dims it exists for; 0 ends */
    uint32_t value_type; /* SMLA_VALUE_* */
    int32_t value_elems; /* values a token; in the table 0 for bf16, which has d_qk */
    uint32_t scale_type; /* SMLA_SCALE_* */
    int32_t scale_group; /* values that share a scale; 0 when none */
    int32_t scale_bytes; /* a token, padding included */
    int32_t tail_elems;  /* bf16 elements after the values */
    int32_t bytes_per_token;
    int32_t page_alignment; /* the page stride is often a multiple of this; 1 when no habit is known */
    uint32_t place;         /* SMLA_PLACE_* */
};

/* Bytes of a token's values: what stands before its scales, or before its tail in a format placed by page. */
int32_t gen_kv_value_bytes(const struct gen_kv_format *format);

/* Finds a preset by name; NULL when there is none. */
const struct gen_kv_format *gen_kv_format_find(const char *name);

/* The table, for listings; *count receives its length. */
const struct gen_kv_format *gen_kv_format_table(size_t *count);

#endif
