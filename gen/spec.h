/* A validated description: every field checked, names resolved to rows of tables. */
#ifndef SMLA_GEN_SPEC_H
#define SMLA_GEN_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "kv_format.h"
#include "smla/smla.h"
#include "target.h"

/* Why not: a sentence that says what was asked, what the limit is and what would work. */
struct gen_refusal {
    char text[512];
};

struct gen_spec {
    uint32_t op; /* SMLA_OP_* */
    int32_t h_q;
    int32_t d_qk; /* 0: the operator has no keys */
    int32_t d_v;
    bool batch_invariant;
    bool checked;                  /* SMLA_KERNEL_CHECKED */
    bool not_persistent;           /* SMLA_KERNEL_NOT_PERSISTENT */
    bool line_info;                /* SMLA_KERNEL_LINE_INFO */
    struct gen_kv_format kv;       /* name NULL: the operator reads no cache */
    struct gen_kv_format extra_kv; /* of a second cache */
    bool has_extra_kv;
    int32_t tile_heads; /* of a companion (plan_companion.h), which no description asks for; 0: as planned */
    const struct gen_target *target;
};

/* Turns a full-size description into a spec. `target` overrides desc->target when not NULL; one of them must be set.
 * Checks what holds for every target; what a target can do is the plan's to say. */
smla_status gen_spec_make(const smla_kernel_desc *desc, const struct gen_target *target, struct gen_spec *spec,
                          struct gen_refusal *refusal);

/* Turns a caller's full-size layout into a format for keys of d_qk; refuses with a sentence. */
smla_status gen_kv_format_of_layout(const smla_kv_layout *layout, int32_t d_qk, struct gen_kv_format *out,
                                    struct gen_refusal *refusal);

/* Finds a format by a preset's name, or by a full-size layout where that is not NULL. */
smla_status gen_spec_kv_format(const char *name, const smla_kv_layout *layout, int32_t d_qk, struct gen_kv_format *out,
                               struct gen_refusal *refusal);

/* Writes the refusal's sentence and returns `status`, so that a check is one line. */
smla_status gen_refuse(struct gen_refusal *refusal, smla_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "extra_" before a refusal that begins with the name of a field of the first cache; returns `status`. */
smla_status gen_refuse_extra(struct gen_refusal *refusal, smla_status status);

/* The operator's name: "prefill", "prefill_reference", "combine", "decode"; NULL for a number that is none. */
const char *gen_op_name(uint32_t op);

#endif
