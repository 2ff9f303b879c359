/* The bundle: everything a compiler needs to make a kernel, as bytes in memory. */
#ifndef SMLA_GEN_BUNDLE_H
#define SMLA_GEN_BUNDLE_H

#include "plan.h"

enum { GEN_MAX_FILES = 32, GEN_MAX_OPTIONS = 8 };

struct gen_file {
    const char *name; /* as #include'd, and as line information shows it */
    const char *bytes;
    size_t size;
    const char *digest; /* of a template: SHA-256 in hex, worked out when the library was built; NULL: bytes say it */
};

/* files[0] is the translation unit, the others are its headers. Not to be copied: options and files point into it. */
struct gen_bundle {
    struct gen_spec spec;
    struct gen_plan plan;
    int32_t file_count;
    int32_t option_count;
    struct gen_file files[GEN_MAX_FILES];
    const char *options[GEN_MAX_OPTIONS]; /* that change the code; the compiler's caller adds those that do not, and
                                           * line tables (rt_line_option) */
    char arch_option[40];
    struct gen_text configuration; /* storage of the generated files */
    struct gen_text instructions;
    struct gen_text unit;
};

/* Runs all passes: description -> spec -> plan -> configuration and instruction wrappers -> bundle.
 * On OK the caller frees the bundle with gen_bundle_free; on failure nothing is held. `target` as in gen_spec_make. */
smla_status gen_bundle_make(const smla_kernel_desc *desc, const struct gen_target *target, struct gen_bundle *bundle,
                            struct gen_refusal *refusal);

/* The same for the companion (plan_companion.h) that the plan of bundle `of` has. */
smla_status gen_bundle_make_companion(const struct gen_bundle *of, struct gen_bundle *bundle,
                                      struct gen_refusal *refusal);

/* The same bundle once more, of its own. */
smla_status gen_bundle_make_again(const struct gen_bundle *of, struct gen_bundle *bundle, struct gen_refusal *refusal);

void gen_bundle_free(struct gen_bundle *bundle);

/* Appends the whole source as one CUDA file: headers inlined where they are first included (smla-gen --emit cuda). */
void gen_bundle_flatten(const struct gen_bundle *bundle, struct gen_text *text);

/* A template embedded in the library. NULL when there is none of that name. */
const struct gen_file *gen_template_find(const char *name);

#endif
