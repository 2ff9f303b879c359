/* The plan: tiles, stages, roles, memory, registers and launches of one kernel, computed as data, each number with who
 * decided it and why. The configuration header and the printed plan are two views of it. */
#ifndef SMLA_GEN_PLAN_H
#define SMLA_GEN_PLAN_H

#include <stdint.h>

#include "spec.h"
#include "text.h"

enum { GEN_MAX_NUMBERS = 64, GEN_MAX_REGIONS = 24, GEN_MAX_WGMMAS = 8, GEN_MAX_VARIANTS = 6, GEN_MAX_RULES = 8 };

enum gen_decider { GEN_BY_DESCRIPTION, GEN_BY_TARGET, GEN_BY_PLAN };

/* A named constant of the kernel. */
struct gen_number {
    const char *name; /* as in the configuration header, lower case, unit at the end where it has one */
    int32_t value;
    const char *unit;
    enum gen_decider decided_by;
    const char *reason;
};

/* A region of a block's shared memory. */
struct gen_region {
    const char *name;
    int32_t offset_bytes;
    int32_t size_bytes;
    const char *holds;
};

/* A wgmma shape the kernel uses: m64 n k16, bf16 in, fp32 accumulate. */
struct gen_wgmma {
    int32_t n;
    int32_t n_varies;      /* 1: with the description, so the wrapper is named by the letter: wgmma_m64nNk16 */
    int32_t a_is_mn_major; /* 1: A is read along M (V^T); 0: along K */
    int32_t b_is_mn_major; /* 1: B is read along N (V); 0: along K */
    int32_t a_in_registers;
    const char *used_for;
};

/* One compiled entry point. */
struct gen_variant {
    char name[64];     /* of the variant: tells what it is for */
    const char *entry; /* extern "C" symbol */
    int32_t threads;
    int32_t shared_bytes; /* dynamic */
    int32_t param_bytes; /* 0: the plan's; else of an entry point that takes the beginning of the plan's struct alone */
    int32_t blocks_per_query;
    int32_t blocks_per_sm; /* persistent: no more blocks than so many a multiprocessor are launched, which share the
                              work among them; 0: each block has its one query */
    const char *reason;    /* why it is there beside the kernel's own; NULL: it is the kernel */
};

/* When a call takes another variant than the kernel's own: few units of work. The first rule that holds is taken. */
struct gen_rule {
    int32_t variant;
    int32_t cluster_blocks;   /* blocks of threads a unit; holds while all units' fit on the multiprocessors */
    int32_t least_key_blocks; /* and topk has at least so many blocks of keys */
    int32_t most_key_blocks;  /* and at most so many; 0: any */
    bool takes_last_round; /* also the last tokens of a long call, which a persistent kernel would have a round for */
    const char *reason;    /* measured or counted */
};

/* Another kernel of a decode description beside its own: tiles of fewer heads, so more blocks of threads with less to
 * do each, for calls of few tokens. A cell is a block of keys of a token and a tile. */
struct gen_companion {
    int32_t tile_heads; /* 0: there is none */
    int32_t head_blocks;
    int32_t most_cells_percent; /* of the multiprocessors that a call may take; one with more is the kernel's own */
    const char *reason;         /* measured */
};

/* Another way for calls over a quantised cache: a kernel of its own turns all its tokens into rows of bf16, once, in
 * the caller's workspace, and the companion, which is the kernel of the same description with a bf16 cache, reads
 * those. Worth it where each token is selected often. */
struct gen_unpack {
    int32_t variant; /* the entry point that unpacks; 0: there is none */
    int32_t rows;    /* that a block of threads unpacks at once */
    int32_t blocks_per_sm;
    int32_t least_reads; /* entries of all lists for each token of the cache; 0: every call */
    const char *reason;  /* measured */
};

struct gen_plan {
    const char *family;        /* "sm_90" */
    const char *kernel;        /* "sm90_prefill" */
    const char *template_name; /* file under templates/ */
    const char *split_name;    /* a second one in the same translation unit, for few queries; NULL: none */
    const char *narrow_name;   /* and a third, for the fewest; NULL: none */
    const char *combine_name;  /* another, of a decode kernel, which combines parts; NULL: none */
    const char *check_name;    /* another, of a checked kernel; NULL: none */
    const char *unpack_name;   /* another, which unpacks a quantised cache; NULL: none */
    int32_t launches;          /* a call issues, at most */
    int32_t pointer_alignment_bytes;
    int32_t stride_alignment_elems;
    int32_t param_bytes; /* size of the one kernel parameter, a struct from templates/ */
    bool tensor_maps;    /* prefill: the parameter is smla_prefill_tensor_params */
    int32_t variant_count;
    int32_t paged_variant;   /* the one for caches with pages; of prefill */
    int32_t lengths_variant; /* the one for lists with lengths, where a cache has no pages; of prefill; 0: none */
    int32_t split_variant;   /* the one for few queries, launched in clusters; 0: none */
    int32_t narrow_variant;  /* the one for the fewest, launched in clusters too; 0: none */
    int32_t check_variant;   /* the one that looks at the lists first; 0: none */
    int32_t combine_variant; /* the one that combines parts; 0: none */
    int32_t number_count;
    int32_t region_count;
    int32_t wgmma_count;
    int32_t rule_count;
    struct gen_variant variants[GEN_MAX_VARIANTS];
    struct gen_number numbers[GEN_MAX_NUMBERS];
    struct gen_region regions[GEN_MAX_REGIONS];
    struct gen_wgmma wgmmas[GEN_MAX_WGMMAS];
    struct gen_rule rules[GEN_MAX_RULES];
    struct gen_companion companion;
    struct gen_unpack unpack;
};

/* Plans a kernel: looks up the target's plan function for the operator. */
smla_status gen_plan_make(const struct gen_spec *spec, struct gen_plan *plan, struct gen_refusal *refusal);

/* Prints the plan, a line a number with its reason (smla-gen --emit plan). */
void gen_plan_print(const struct gen_spec *spec, const struct gen_plan *plan, struct gen_text *text);

/* The plan functions, one file each. */
bool gen_sm90_prefill_turns(const struct gen_spec *spec); /* whether heads are better N of the matrix tile than M */
smla_status gen_plan_sm90_prefill(const struct gen_spec *spec, struct gen_plan *plan, struct gen_refusal *refusal);
bool gen_sm90_prefill_persists(const struct gen_spec *spec); /* whether queries share blocks of threads */
smla_status gen_plan_sm90_prefill_persistent(const struct gen_spec *spec, struct gen_plan *plan);
smla_status gen_plan_sm90_prefill_turned(const struct gen_spec *spec, struct gen_plan *plan,
                                         struct gen_refusal *refusal);
smla_status gen_plan_sm90_decode(const struct gen_spec *spec, struct gen_plan *plan, struct gen_refusal *refusal);
smla_status gen_plan_prefill_reference(const struct gen_spec *spec, struct gen_plan *plan, struct gen_refusal *refusal);
void gen_plan_add_sm90_attention(const struct gen_spec *spec, struct gen_plan *plan); /* of heads as rows of tiles */
smla_status gen_plan_add_sm90_attention_turned(const struct gen_spec *spec, struct gen_plan *plan,
                                               struct gen_refusal *refusal);            /* of heads as columns */
void gen_plan_add_sm90_few_queries(const struct gen_spec *spec, struct gen_plan *plan); /* where there is anything */
void gen_plan_add_sm90_prefill_split(const struct gen_spec *spec, struct gen_plan *plan);
void gen_plan_add_sm90_prefill_split_narrow(const struct gen_spec *spec, struct gen_plan *plan);
void gen_plan_add_unpack(const struct gen_spec *spec, struct gen_plan *plan); /* of prefill, where there is one */
void gen_plan_add_prefill_check(struct gen_plan *plan); /* to the plan of a prefill kernel that is checked */
smla_status gen_plan_combine(const struct gen_spec *spec, struct gen_plan *plan, struct gen_refusal *refusal);

#endif
