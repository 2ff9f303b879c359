/* What a run of smla-bench prefill measures: a kernel's description and the sizes and contents of its arguments. */
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

struct bench_shape {
    int32_t h_q, d_qk;
    int64_t s_q, s_kv, topk;
    char kv_format[32]; /* "": bf16 */
    int64_t page;       /* tokens a page; 0: rows, or 64 in a format placed by page */
    int64_t length_low; /* topk_length of each row is uniform in [low, high]; high 0: none */
    int64_t length_high;
    bool sink;
    bool not_persistent; /* SMLA_KERNEL_NOT_PERSISTENT */
    int64_t sm_limit;    /* of smla_prefill_args */
    enum bench_indices indices;
    char indices_file[256];
};

/* The shapes that are measured when none is named, and what others start from. */
extern const struct bench_shape bench_table[];
extern const size_t bench_table_count;
extern const struct bench_shape bench_default_shape;

/* FlashMLA's device time for a shape (docs/tools.md says where it was measured); 0: not known. */
double bench_flashmla_us(const struct bench_shape *shape);

/* Sets what an option says; key: its name without the dashes in front. Returns CLI_FINE, or CLI_USAGE after a
 * sentence that begins with `where` (NULL: none). */
int bench_shape_set(struct bench_shape *shape, const char *key, const char *value, const char *where);

/* Checks what no option alone can tell, and finds the cache's layout; sets `page` where the format needs one. Returns
 * as bench_shape_set. */
int bench_shape_check(struct bench_shape *shape, smla_kv_layout *layout, const char *where);

/* Reads an object of JSON whose keys are the options' names, with '_' for '-'. Returns as bench_shape_set. */
int bench_shape_read(const json_t *object, struct bench_shape *shape, const char *where);

/* Reads a JSON array of such objects. *shapes is malloc'd. */
int bench_shapes_read(const char *path, struct bench_shape **shapes, size_t *count);

/* "h 64 d 512 topk 640 s_q 4096 s_kv 65536 v4" */
void bench_shape_text(const struct bench_shape *shape, char text[160]);
json_t *bench_shape_json(const struct bench_shape *shape);

#endif
