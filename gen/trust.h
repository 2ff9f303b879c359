/* What is known of a kernel's correctness: a table from family, operator and variant to a status. A kernel that is not
 * verified is prepared only where the caller asks for such (SMLA_CONTEXT_UNVERIFIED). */
#ifndef SMLA_GEN_TRUST_H
#define SMLA_GEN_TRUST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A rule; the first that fits is a variant's. */
struct gen_trust {
    const char *family;  /* "sm_90" */
    uint32_t op;         /* SMLA_OP_* */
    const char *variant; /* pattern of names, for gen_name_matches */
    uint32_t level;      /* SMLA_TRUST_* */
    const char *status;  /* the same for people: on which cards, with which driver, when last */
};

/* Finds the rule of a variant; where none fits, one that says "not verified". */
const struct gen_trust *gen_trust_find(const char *family, uint32_t op, const char *variant);

/* Whether a name fits a pattern of so many bytes: '*' stands for any characters, '?' for one, others for themselves. */
bool gen_name_matches(const char *pattern, size_t size, const char *name);

#endif
