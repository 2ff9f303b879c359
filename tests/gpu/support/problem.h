/* A prefill call on the card with inputs made to hurt, and its check against the float64 kernel.
 *
 * Whatever an index list does not select is NaN: rows of kv, entries past a length point at such rows, invalid entries
 * are any out-of-range number. Buffers lie between guard zones, outputs are NaN before each run. */
#ifndef SMLA_TESTS_GPU_PROBLEM_H
#define SMLA_TESTS_GPU_PROBLEM_H

#include "guarded.h"
#include "smla/smla.h"

enum { PROBLEM_WHY = 1024 };

enum problem_lengths {
    LENGTHS_NONE,
    LENGTHS_RANDOM,
    LENGTHS_WILD, /* outside [0, topk] too */
    LENGTHS_RAMP  /* query i: i + 1; of four queries: about where tiles of 64 and 128 end */
};

/* The format of a cache and how it lies. */
struct problem_cache {
    const char *format;           /* a preset; NULL: layout, or bf16 */
    const smla_kv_layout *layout; /* NULL: format */
    int64_t page_tokens;          /* 0: no pages */
    int64_t page_gap_bytes;       /* behind a page */
    int64_t token_gap_bytes;      /* behind a token; 0 in a format placed by page */
};

/* What a problem is about. Zero is the plain thing. */
struct problem_spec {
    const char *name;
    int32_t h_q;  /* 0: 64 */
    int32_t d_qk; /* 0: 512 */
    int64_t s_q;
    int64_t emulated_s_q; /* at most so many on the emulated device; 0: 4 */
    int64_t s_kv;
    int64_t topk;
    double invalid;   /* share of entries that are out of range, anywhere in the list */
    double dead_rows; /* share of queries whose whole list is */
    enum problem_lengths lengths;
    bool sink;             /* finite, huge, +inf, -inf over the heads */
    bool nan_sink;         /* and NaN at head 7 */
    bool duplicates;       /* each key twice */
    bool first_block_dead; /* no valid key among the first 64 */
    int64_t live_block;    /* 1 up: all valid keys are among these 64 of the list; 0: anywhere */
    bool nan_selected;     /* a NaN in one selected row, an infinity in another */
    bool strided;          /* every tensor is a view with odd strides */
    float sm_scale;        /* 0: 1/sqrt(512); for a scale of zero give -0.0f */
    float magnitude;       /* of query elements; 0: 1 */
    uint32_t lse_flags;
    uint32_t seed;
    struct problem_cache format; /* of kv; zero: bf16 rows */
    struct problem_cache extra;  /* of a second cache, where has_extra */
    int64_t extra_s_kv, extra_topk;
    bool has_extra;
    bool any_codes;  /* every byte of a quantised cache takes every value; e4m3 NaN in one token of 8 */
    int exponents;   /* of a quantised cache: token i is 2^(i modulo this - 5) times as large as others; 0: 9 */
    bool odd_scales; /* float32 scales that are no powers of two */
};

enum problem_input { QUERY, KV, INDICES, TOPK_LENGTH, ATTN_SINK, EXTRA_KV, EXTRA_INDICES, EXTRA_TOPK_LENGTH, INPUTS };

struct problem {
    struct problem_spec spec;
    smla_prefill_args args; /* device pointers */
    struct guarded query, kv, indices, topk_length, attn_sink, out, lse, max_logits;
    struct guarded extra_kv, extra_indices, extra_topk_length;
    void *host[INPUTS];           /* contents of the inputs */
    int64_t before_bytes[INPUTS]; /* of each of host: where its tensor begins */
};

/* The card, the library and both kernels, for the description of the problem that was made last. */
struct bench {
    struct device *device;
    smla_context *context;
    smla_kernel *prefill;
    smla_kernel *reference;
    smla_kernel_desc desc; /* of prefill */
    uint32_t kernel_flags; /* of the next problem's prefill kernel */
    bool batch_invariant;  /* the same */
    bool emulated;         /* no card but the emulated device: problems are cut to size, the CPU reference judges */
};

/* Opens the card. 0; 77 when there is none (why[] tells); 1 after a fault. */
int bench_open(struct bench *bench, char why[PROBLEM_WHY]);
void bench_close(struct bench *bench);

bool problem_make(struct bench *bench, const struct problem_spec *spec, struct problem *out, char why[PROBLEM_WHY]);
void problem_free(struct bench *bench, struct problem *problem);

/* Poisons the outputs, runs on the stream, waits. */
bool problem_run(struct bench *bench, smla_kernel *kernel, struct problem *problem, void *stream,
                 char why[PROBLEM_WHY]);

/* Copies out, lse and max_logits to the host, gaps and guard zones included, so that runs can be compared byte for
 * byte. malloc'd. */
uint8_t *problem_snapshot(struct bench *bench, const struct problem *problem, size_t *size_bytes);

/* Compares the outputs as they stand with the float64 kernel within interface.md's bounds, and checks that guard
 * zones, gaps and inputs are as they were. why[]: the figures when it is right, the fault when not. */
bool problem_check(struct bench *bench, struct problem *problem, char why[PROBLEM_WHY]);

/* The keys of both caches as bf16 rows on the card, with one list a query; args: a call over them, without outputs. */
struct problem_flat {
    uint16_t *kv;
    int32_t *indices;
    void *device_kv, *device_indices;
};
bool problem_flatten(struct bench *bench, const struct problem *problem, struct problem_flat *flat,
                     smla_prefill_args *args);
void problem_flat_free(struct bench *bench, struct problem_flat *flat);

/* The first cache and its lists become the second's, and the reverse. Both have the same format. */
void problem_swap_caches(struct problem *problem);

#endif
