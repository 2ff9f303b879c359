/* What a run of smla-bench prefill or decode measures: a kernel's description and the sizes and contents of its
 * arguments. */
#ifndef SMLA_TOOLS_BENCH_SHAPE_H
#define SMLA_TOOLS_BENCH_SHAPE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "smla/smla.h"

enum bench_indices {
    BENCH_INDICES_UNIFORM, /* each entry independent of the others */
    BENCH_INDICES_DRIFT,   /* a twentieth of the entries change from one query to the next */
    BENCH_INDICES_WINDOW,  /* the last 128 positions, the others random before them */
    BENCH_INDICES_FILE     /* lists from a file */
};

enum { BENCH_SHAPE_TEXT = 256 };

struct bench_shape {
    uint32_t op; /* SMLA_OP_PREFILL or SMLA_OP_DECODE */
    int32_t h_q, d_qk;
    int64_t b; /* requests; of prefill 1 */
    int64_t s_q, s_kv, topk;
    char kv_format[32]; /* "": bf16 */
    int64_t page;       /* tokens a page; 0: rows, or 64 in a format placed by page */
    int64_t length_low; /* each topk_length is uniform in [low, high]; high 0: none */
    int64_t length_high;
    bool sink;
    int64_t sm_limit; /* of the call's arguments */
    /* Of prefill, which has a length for each row. */
    bool not_persistent; /* SMLA_KERNEL_NOT_PERSISTENT */
    bool no_workspace;   /* none that a call may do without: its cache is not unpacked */
    enum bench_indices indices;
    char indices_file[256];
    /* Of decode, which has a length for each request, of its first list alone. */
    char extra_kv_format[32]; /* "": one cache */
    int64_t extra_s_kv, extra_topk, extra_page;
    bool one_long; /* one request has topk, the others length_high */
    bool batch_invariant;
};

/* The shapes that are measured when none is named, and what others start from. */
struct bench_shapes {
    const struct bench_shape *shapes;
    size_t count;
    struct bench_shape start;
};
const struct bench_shapes *bench_shapes_of(uint32_t op);

/* "prefill" or "decode", and back; 0: neither. */
const char *bench_op_name(uint32_t op);
uint32_t bench_op_of(const char *name);

/* FlashMLA's device time for a shape (docs/tools.md says where it was measured); 0: not known. */
double bench_flashmla_us(const struct bench_shape *shape);

/* Whose option this is: "prefill", "decode" or "prefill and decode". */
const char *bench_shape_owner(const char *name);

/* Query tokens; lengths of the first list. */
int64_t bench_shape_tokens(const struct bench_shape *shape);
int64_t bench_shape_lengths(const struct bench_shape *shape);

/* The second cache and its lists, as if they were the first. False: there is none. */
bool bench_shape_extra(const struct bench_shape *shape, struct bench_shape *extra);

/* Sets what an option says; name: its own without the dashes in front. Returns CLI_FINE, or CLI_USAGE after a
 * sentence that begins with `where` (NULL: none). */
int bench_shape_set(struct bench_shape *shape, const char *name, const char *value, const char *where);

/* Checks what no option alone can tell, and finds the layouts of both caches (layouts[1]: of the second, where there
 * is one); sets the pages where a format needs them. Returns as bench_shape_set. */
int bench_shape_check(struct bench_shape *shape, smla_kv_layout layouts[2], const char *where);

/* Reads an object of JSON whose keys are the options' names, with '_' for '-'. Returns as bench_shape_set. */
int bench_shape_read(const json_t *object, uint32_t op, struct bench_shape *shape, const char *where);

/* Reads a JSON array of such objects. *shapes is malloc'd. */
int bench_shapes_read(const char *path, uint32_t op, struct bench_shape **shapes, size_t *count);

/* "h 64 d 512 topk 640 s_q 4096 s_kv 65536 v4 uniform", "b 8 s_q 2 h 64 d 512 topk 128 + 512 …" */
void bench_shape_text(const struct bench_shape *shape, char text[BENCH_SHAPE_TEXT]);
json_t *bench_shape_json(const struct bench_shape *shape);

#endif
