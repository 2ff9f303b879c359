#include "plan_list.h"

#include <string.h>

/* What one pair of formats gets for all counts of heads: a few runs of them. */
enum { MOST_RUNS = 16, MOST_GROUPS = 32 };

struct profile {
    int32_t run_count;
    struct gen_supported runs[MOST_RUNS]; /* without target, op, d_qk and formats */
};

/* Pairs of formats that get the same. */
struct group {
    uint32_t kv, extra_kv;
    struct profile profile;
};

struct list {
    struct gen_supported *rows;
    size_t count;
    struct gen_supported what; /* target, op and d_qk of what is listed now */
    int32_t group_count;
    struct group groups[MOST_GROUPS];
};

static struct gen_supported describe(const struct gen_plan *plan, int32_t h_q)
{
    const struct gen_variant *variant = &plan->variants[0];
    return (struct gen_supported){.first_h_q = h_q,
                                  .last_h_q = h_q,
                                  .kernel = plan->kernel,
                                  .companion_heads = plan->companion.tile_heads,
                                  .launches = plan->launches,
                                  .threads = variant->threads,
                                  .least_shared_bytes = variant->shared_bytes,
                                  .most_shared_bytes = variant->shared_bytes};
}

static bool goes_on(const struct gen_supported *run, const struct gen_supported *next)
{
    return run->last_h_q + 1 == next->first_h_q && strcmp(run->kernel, next->kernel) == 0 &&
           run->companion_heads == next->companion_heads && run->launches == next->launches &&
           run->threads == next->threads;
}

static void add_to_profile(const struct gen_supported *next, struct profile *profile)
{
    struct gen_supported *last = profile->run_count ? &profile->runs[profile->run_count - 1] : NULL;
    if (!last || !goes_on(last, next)) {
        if (profile->run_count < MOST_RUNS)
            profile->runs[profile->run_count++] = *next;
        return;
    }
    last->last_h_q = next->last_h_q;
    if (next->least_shared_bytes < last->least_shared_bytes)
        last->least_shared_bytes = next->least_shared_bytes;
    if (next->most_shared_bytes > last->most_shared_bytes)
        last->most_shared_bytes = next->most_shared_bytes;
}

/* kv, extra_kv: NULL for none. */
static void make_profile(const struct gen_supported *what, const char *kv, const char *extra_kv, struct profile *out)
{
    *out = (struct profile){0};
    for (int32_t h_q = 1; h_q <= GEN_HEADS; h_q++) {
        const smla_kernel_desc desc = {.struct_size = sizeof(desc),
                                       .op = what->op,
                                       .h_q = h_q,
                                       .d_qk = what->d_qk,
                                       .kv_format = kv,
                                       .extra_kv_format = extra_kv};
        struct gen_refusal refusal;
        struct gen_spec spec;
        struct gen_plan plan;
        if (gen_spec_make(&desc, what->target, &spec, &refusal) != SMLA_OK ||
            gen_plan_make(&spec, &plan, &refusal) != SMLA_OK)
            continue;
        const struct gen_supported next = describe(&plan, h_q);
        add_to_profile(&next, out);
    }
}

static bool same_profile(const struct profile *a, const struct profile *b)
{
    bool same = a->run_count == b->run_count;
    for (int32_t i = 0; same && i < a->run_count; i++) {
        const struct gen_supported *x = &a->runs[i], *y = &b->runs[i];
        same = x->first_h_q == y->first_h_q && x->last_h_q == y->last_h_q && strcmp(x->kernel, y->kernel) == 0 &&
               x->companion_heads == y->companion_heads && x->launches == y->launches && x->threads == y->threads &&
               x->least_shared_bytes == y->least_shared_bytes && x->most_shared_bytes == y->most_shared_bytes;
    }
    return same;
}

/* Groups of one first format: by what they get. */
static void add_pair(struct list *list, int32_t first_group, uint32_t kv, uint32_t extra_kv,
                     const struct profile *profile)
{
    if (profile->run_count == 0)
        return;
    for (int32_t i = first_group; i < list->group_count; i++)
        if (same_profile(&list->groups[i].profile, profile)) {
            list->groups[i].extra_kv |= extra_kv;
            return;
        }
    if (list->group_count < MOST_GROUPS)
        list->groups[list->group_count++] = (struct group){kv, extra_kv, *profile};
}

/* First formats that go with the same second ones, and get the same, share a group. */
static void merge_groups(struct list *list, int32_t first_group)
{
    int32_t kept = first_group;
    for (int32_t i = first_group; i < list->group_count; i++) {
        int32_t to = 0;
        while (to < first_group && (list->groups[to].extra_kv != list->groups[i].extra_kv ||
                                    !same_profile(&list->groups[to].profile, &list->groups[i].profile)))
            to++;
        if (to < first_group)
            list->groups[to].kv |= list->groups[i].kv;
        else
            list->groups[kept++] = list->groups[i];
    }
    list->group_count = kept;
}

static void list_format(struct list *list, uint32_t kv)
{
    size_t count;
    const struct gen_kv_format *formats = gen_kv_format_table(&count);
    const int32_t first_group = list->group_count;
    struct profile profile;
    make_profile(&list->what, formats[kv].name, NULL, &profile);
    add_pair(list, first_group, 1u << kv, GEN_NO_CACHE, &profile);
    for (uint32_t extra = 0; extra < count; extra++) {
        make_profile(&list->what, formats[kv].name, formats[extra].name, &profile);
        add_pair(list, first_group, 1u << kv, 1u << extra, &profile);
    }
    merge_groups(list, first_group);
}

static void add_rows(struct list *list)
{
    for (int32_t i = 0; i < list->group_count; i++) {
        const struct group *group = &list->groups[i];
        for (int32_t run = 0; run < group->profile.run_count && list->count < GEN_MAX_SUPPORTED; run++) {
            struct gen_supported *row = &list->rows[list->count++];
            *row = group->profile.runs[run];
            row->target = list->what.target;
            row->op = list->what.op;
            row->d_qk = list->what.d_qk;
            row->kv = group->kv;
            row->extra_kv = group->extra_kv;
        }
    }
}

static void list_keys(struct list *list, int32_t d_qk)
{
    size_t count = 0;
    gen_kv_format_table(&count);
    list->what.d_qk = d_qk;
    list->group_count = 0;
    for (uint32_t kv = 0; kv < count; kv++)
        list_format(list, kv);
    add_rows(list);
}

static void list_without_keys(struct list *list)
{
    struct profile profile;
    list->what.d_qk = 0;
    list->group_count = 0;
    make_profile(&list->what, NULL, NULL, &profile);
    add_pair(list, 0, GEN_NO_CACHE, GEN_NO_CACHE, &profile);
    add_rows(list);
}

size_t gen_supported_list(struct gen_supported rows[GEN_MAX_SUPPORTED])
{
    struct list list = {.rows = rows};
    size_t target_count;
    const struct gen_target *targets = gen_target_table(&target_count);
    for (size_t i = 0; i < target_count; i++) {
        list.what.target = &targets[i];
        for (list.what.op = SMLA_OP_PREFILL; list.what.op <= SMLA_OP_PREFILL_REFERENCE; list.what.op++) {
            list_keys(&list, 512);
            list_keys(&list, 576);
        }
        list.what.op = SMLA_OP_COMBINE;
        list_without_keys(&list);
        list.what.op = SMLA_OP_DECODE;
        list_keys(&list, 512);
        list_keys(&list, 576);
    }
    return list.count;
}
