/* Kernel descriptions from a command line or a shapes.json, for each of a list of targets. */
#ifndef SMLA_TOOLS_SHAPES_H
#define SMLA_TOOLS_SHAPES_H

#include <stdbool.h>
#include <stddef.h>

#include "cli.h"
#include "smla/smla.h"

/* One description without a target. Empty strings, and layouts of no size, stand for NULL. */
struct shape {
    uint32_t op;
    int32_t h_q;
    int32_t d_qk;
    int32_t d_v;
    uint32_t batch_invariant;
    uint32_t flags; /* SMLA_KERNEL_* */
    char kv_format[32];
    char extra_kv_format[32];
    smla_kv_layout kv_layout;
    smla_kv_layout extra_kv_layout;
};

enum { SHAPES_FILES = 16 };

/* What the options said; starts zeroed. */
struct shapes_options {
    struct shape shape;
    bool has_shape; /* an option of a single description was given */
    const char *sm;
    const char *from[SHAPES_FILES];
    size_t from_count;
};

/* A kernel to make. */
struct shapes_job {
    struct shape shape;
    char target[16];
};

/* Rows of a getopt_long table. */
#define SHAPES_OPTIONS                                                                                                 \
    {"sm", required_argument, NULL, CLI_OPTION_SM}, {"op", required_argument, NULL, CLI_OPTION_OP},                    \
        {"h-q", required_argument, NULL, CLI_OPTION_H_Q}, {"heads", required_argument, NULL, CLI_OPTION_H_Q},          \
        {"d-qk", required_argument, NULL, CLI_OPTION_D_QK}, {"d-v", required_argument, NULL, CLI_OPTION_D_V},          \
        {"kv-format", required_argument, NULL, CLI_OPTION_KV_FORMAT},                                                  \
        {"extra-kv-format", required_argument, NULL, CLI_OPTION_EXTRA_KV_FORMAT},                                      \
        {"batch-invariant", no_argument, NULL, CLI_OPTION_BATCH_INVARIANT},                                            \
        {"checked", no_argument, NULL, CLI_OPTION_CHECKED},                                                            \
        {"not-persistent", no_argument, NULL, CLI_OPTION_NOT_PERSISTENT},                                              \
        {"line-info", no_argument, NULL, CLI_OPTION_LINE_INFO},                                                        \
    {                                                                                                                  \
        "from", required_argument, NULL, CLI_OPTION_FROM                                                               \
    }

/* Their text for --help. */
#define SHAPES_HELP                                                                                                    \
    "  --sm LIST               targets, separated by commas: 90, 90a, 100, ...\n"                                      \
    "  --op OP                 prefill, decode, combine or prefill_reference (plain float64)\n"                        \
    "  --h-q N, --heads N      query heads\n"                                                                          \
    "  --d-qk N                elements of a query head and of a key (not for combine)\n"                              \
    "  --d-v N                 elements of a value (512)\n"                                                            \
    "  --kv-format NAME        format of the KV cache (bf16)\n"                                                        \
    "  --extra-kv-format NAME  format of a second cache (none)\n"                                                      \
    "  --batch-invariant       a query's bits depend on its own inputs alone\n"                                        \
    "  --checked               calls look for bad indices, lengths and extents first (prefill)\n"                      \
    "  --not-persistent        a block of threads a query where the plan would share them out (prefill)\n"             \
    "  --line-info             with line tables, for profilers and compute-sanitizer\n"                                \
    "  --from FILE             descriptions from a JSON array of objects with the keys op, h_q,\n"                     \
    "                          d_qk, d_v, kv_format, extra_kv_format, batch_invariant, flags,\n"                       \
    "                          and kv_layout, extra_kv_layout: objects (docs/tools.md);\n"                             \
    "                          may be repeated\n"

/* Takes one of SHAPES_OPTIONS. Returns CLI_FINE, or another code after a sentence. */
int shapes_option(struct shapes_options *options, int option, const char *value);

/* Appends the descriptions in a shapes.json to *shapes, malloc'd, which stay the caller's whatever is returned. path:
 * for sentences. Returns CLI_FINE, or another code after a sentence. */
int shapes_read(const char *path, const uint8_t *bytes, size_t size_bytes, struct shape **shapes, size_t *count);

/* Every target with every description. *jobs is malloc'd. Returns CLI_FINE, or another code after a sentence. */
int shapes_jobs(const struct shapes_options *options, struct shapes_job **jobs, size_t *count);

/* The description that the library takes; its strings and layouts belong to the job. */
void shapes_desc(const struct shapes_job *job, smla_kernel_desc *desc);

/* "90a prefill h_q 64 d_qk 512 d_v 512 bf16" */
void shapes_text(const struct shapes_job *job, char text[160]);

#endif
