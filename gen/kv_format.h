/* The table of KV cache formats: ../shared/interface.md, "KV formats". A layout is data; nothing is inferred from the
 * bytes a token takes. */
#ifndef SMLA_GEN_KV_FORMAT_H
#define SMLA_GEN_KV_FORMAT_H

#include <stddef.h>
#include <stdint.h>

enum gen_value_type { GEN_VALUE_BF16, GEN_VALUE_E4M3, GEN_VALUE_E2M1 };
enum gen_scale_type { GEN_SCALE_NONE, GEN_SCALE_FP32, GEN_SCALE_UE8M0, GEN_SCALE_E4M3 };
enum gen_placement {
    GEN_PLACE_ROWS,  /* plain rows with a stride */
    GEN_PLACE_TOKEN, /* each token's bytes together */
    GEN_PLACE_PAGE   /* a page's values (and tails), then the page's scales */
};

struct gen_kv_format {
    const char *name;
    int32_t d_qk[2]; /* the dims it exists for; 0 ends */
    enum gen_value_type value_type;
    int32_t value_elems; /* quantised values a token (for bf16: d_qk, written 0) */
    enum gen_scale_type scale_type;
    int32_t scale_group;     /* values that share a scale; 0 when none */
    int32_t scale_bytes;     /* a token, padding included */
    int32_t tail_elems;      /* bf16 elements after the values */
    int32_t bytes_per_token; /* 0 for bf16: 2 * d_qk */
    int32_t page_alignment;  /* the page stride is often a multiple of this; 1 when no habit is known */
    enum gen_placement placement;
};

/* Finds a preset by name; NULL when there is none. */
const struct gen_kv_format *gen_kv_format_find(const char *name);

/* The table, for listings; *count receives its length. */
const struct gen_kv_format *gen_kv_format_table(size_t *count);

#endif
