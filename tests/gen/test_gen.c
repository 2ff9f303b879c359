/* The generator: what it refuses and how it says so, which targets it knows, and golden plan and configuration. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bundle.h"
#include "config.h"
#include "plan_add.h"
#include "plan_decode.h"
#include "plan_rules.h"

static smla_kernel_desc prefill_desc(const char *target)
{
    return (smla_kernel_desc){
        .struct_size = sizeof(smla_kernel_desc), .op = SMLA_OP_PREFILL, .h_q = 64, .d_qk = 512, .target = target};
}

/* ---- Golden files ---- */

static char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    char *bytes = malloc(1 << 20);
    assert_non_null(bytes);
    *size = fread(bytes, 1, (1 << 20) - 1, file);
    bytes[*size] = '\0';
    fclose(file);
    return bytes;
}

static void write_file(const char *path, const struct gen_text *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text->bytes, 1, text->size, file), text->size);
    assert_int_equal(fclose(file), 0);
}

/* Compares with a file of the source tree, or rewrites it when SMLA_UPDATE_GOLDEN is set. Frees the text. */
static void check_golden(const char *name, struct gen_text *text)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", SMLA_SOURCE_DIR, name);
    assert_false(text->failed);
    if (getenv("SMLA_UPDATE_GOLDEN"))
        write_file(path, text);
    size_t size = 0;
    char *golden = read_file(path, &size);
    if (!golden)
        fail_msg("%s is missing; SMLA_UPDATE_GOLDEN=1 writes it", path);
    if (size != text->size || memcmp(golden, text->bytes, size) != 0)
        fail_msg("%s differs from what is generated; if that is meant, SMLA_UPDATE_GOLDEN=1 rewrites it", path);
    free(golden);
    gen_text_free(text);
}

/* In place: a bundle points into itself and may not be copied. */
static void make_bundle(uint32_t op, const char *target, struct gen_bundle *bundle)
{
    smla_kernel_desc desc = prefill_desc(target);
    desc.op = op;
    struct gen_refusal refusal = {""};
    if (gen_bundle_make(&desc, NULL, bundle, &refusal) != SMLA_OK)
        fail_msg("%s", refusal.text);
}

/* A description's plan against a file of tests/gen/golden, and what is generated for its template against those of
 * templates/example. example: NULL for none. */
static void check_goldens(const smla_kernel_desc *desc, const char *plan_name, const char *example)
{
    struct gen_bundle bundle;
    struct gen_refusal refusal = {""};
    if (gen_bundle_make(desc, NULL, &bundle, &refusal) != SMLA_OK)
        fail_msg("%s", refusal.text);
    struct gen_text plan = {0}, config = {0}, wgmma = {0};
    char path[128];
    gen_plan_print(&bundle.spec, &bundle.plan, &plan);
    snprintf(path, sizeof path, "tests/gen/golden/%s.plan", plan_name);
    check_golden(path, &plan);
    if (example) {
        gen_config_print(&bundle.spec, &bundle.plan, &config);
        snprintf(path, sizeof path, "templates/example/%s/smla_config.cuh", example);
        check_golden(path, &config);
    }
    if (example && bundle.plan.wgmma_count > 0) {
        gen_wgmma_print(&bundle.plan, &wgmma);
        snprintf(path, sizeof path, "templates/example/%s/smla_wgmma.cuh", example);
        check_golden(path, &wgmma);
    }
    gen_bundle_free(&bundle);
}

static void golden_sm90_prefill(void **state)
{
    smla_kernel_desc desc = prefill_desc("90");
    (void)state;
    desc.flags = SMLA_KERNEL_NOT_PERSISTENT;
    check_goldens(&desc, "sm90_prefill_h64_d512", "sm90_prefill");
}

/* Two blocks of heads, the second part full; keys wider than values. */
static void golden_sm90_prefill_wide(void **state)
{
    smla_kernel_desc desc = prefill_desc("90");
    (void)state;
    desc.h_q = 80;
    desc.d_qk = 576;
    desc.flags = SMLA_KERNEL_NOT_PERSISTENT;
    check_goldens(&desc, "sm90_prefill_h80_d576", NULL);
}

/* Few heads: the tile turned round, a third key slot, P with fewer. */
static void golden_sm90_prefill_turned(void **state)
{
    smla_kernel_desc desc = prefill_desc("90");
    (void)state;
    desc.h_q = 30;
    desc.d_qk = 576;
    check_goldens(&desc, "sm90_prefill_turned_h30_d576", "sm90_prefill_turned");
}

/* The fewest heads: blocks that compute one query after the other, and a warpgroup that gathers. */
static void golden_sm90_prefill_turned_persistent(void **state)
{
    smla_kernel_desc desc = prefill_desc("90");
    (void)state;
    desc.h_q = 6;
    desc.d_qk = 576;
    check_goldens(&desc, "sm90_prefill_turned_persistent_h6_d576", "sm90_prefill_turned_persistent");
}

/* Blocks that compute one query after the other; keys wider than values. */
static void golden_sm90_prefill_persistent(void **state)
{
    smla_kernel_desc desc = prefill_desc("90");
    (void)state;
    check_goldens(&desc, "sm90_prefill_persistent_h64_d512", "sm90_prefill_persistent");
    desc.h_q = 128;
    desc.d_qk = 576;
    check_goldens(&desc, "sm90_prefill_persistent_h128_d576", NULL);
}

/* Two caches; 128 heads, in two blocks; few heads, the tile turned round; bf16 cut as topk alone says. */
static void golden_sm90_decode(void **state)
{
    (void)state;
    static const struct {
        const char *plan, *kv_format, *extra_kv_format;
        int32_t h_q, d_qk;
        uint32_t batch_invariant;
    } rows[] = {
        {"sm90_decode_h64_d512_v4_v4", "v4", "v4", 64, 512, 0},
        {"sm90_decode_h128_d576_v32", "v32", NULL, 128, 576, 0},
        {"sm90_decode_turned_h8_d512_v4", "v4", NULL, 8, 512, 0},
        {"sm90_decode_invariant_h64_d512", NULL, NULL, 64, 512, 1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        smla_kernel_desc desc = prefill_desc("90");
        desc.op = SMLA_OP_DECODE;
        desc.h_q = rows[i].h_q;
        desc.d_qk = rows[i].d_qk;
        desc.kv_format = rows[i].kv_format;
        desc.extra_kv_format = rows[i].extra_kv_format;
        desc.batch_invariant = rows[i].batch_invariant;
        check_goldens(&desc, rows[i].plan, NULL);
    }
}

/* In tiles of 16 of its 64 heads. */
static void golden_sm90_decode_companion(void **state)
{
    struct gen_bundle kernel, companion;
    struct gen_refusal refusal = {""};
    struct gen_text plan = {0};
    smla_kernel_desc desc = prefill_desc("90");
    (void)state;
    desc.op = SMLA_OP_DECODE;
    desc.kv_format = desc.extra_kv_format = "v4";
    if (gen_bundle_make(&desc, NULL, &kernel, &refusal) != SMLA_OK ||
        gen_bundle_make_companion(&kernel, &companion, &refusal) != SMLA_OK)
        fail_msg("%s", refusal.text);
    gen_plan_print(&companion.spec, &companion.plan, &plan);
    check_golden("tests/gen/golden/sm90_decode_turned_h64_d512_tile16_v4_v4.plan", &plan);
    gen_bundle_free(&companion);
    gen_bundle_free(&kernel);
}

static void golden_prefill_reference(void **state)
{
    smla_kernel_desc desc = prefill_desc("90");
    (void)state;
    desc.op = SMLA_OP_PREFILL_REFERENCE;
    check_goldens(&desc, "prefill_reference_h64_d512", "prefill_reference");
}

static void golden_combine(void **state)
{
    const smla_kernel_desc desc = {
        .struct_size = sizeof(desc), .op = SMLA_OP_COMBINE, .h_q = 64, .batch_invariant = 1, .target = "90"};
    (void)state;
    check_goldens(&desc, "combine_h64", "combine");
}

/* Beside the kernel, the entry point that looks at the lists first; of whichever kernel it is. */
static void golden_sm90_prefill_checked(void **state)
{
    (void)state;
    smla_kernel_desc desc = prefill_desc("90");
    desc.kv_format = "v41";
    desc.extra_kv_format = "v41_fp4_planar";
    desc.flags = SMLA_KERNEL_CHECKED;
    struct gen_bundle bundle;
    struct gen_refusal refusal = {""};
    if (gen_bundle_make(&desc, NULL, &bundle, &refusal) != SMLA_OK)
        fail_msg("%s", refusal.text);
    struct gen_text plan = {0}, config = {0}, flat = {0};
    gen_plan_print(&bundle.spec, &bundle.plan, &plan);
    gen_config_print(&bundle.spec, &bundle.plan, &config);
    gen_bundle_flatten(&bundle, &flat);
    assert_false(flat.failed);
    assert_null(strstr(flat.bytes, "\n#include"));
    assert_non_null(strstr(flat.bytes, "smla_sm90_prefill_paged"));
    assert_non_null(strstr(flat.bytes, "smla_prefill_check("));
    check_golden("tests/gen/golden/sm90_prefill_checked_h64_d512.plan", &plan);
    check_golden("templates/example/prefill_check/smla_config.cuh", &config);
    gen_text_free(&flat);
    gen_bundle_free(&bundle);
}

static void checked_adds_one_entry_point(void **state)
{
    (void)state;
    for (int32_t h_q = 8; h_q <= 128; h_q *= 2) {
        smla_kernel_desc desc = prefill_desc("90");
        desc.h_q = h_q;
        struct gen_bundle plain, checked;
        struct gen_refusal refusal = {""};
        assert_int_equal(gen_bundle_make(&desc, NULL, &plain, &refusal), SMLA_OK);
        desc.flags = SMLA_KERNEL_CHECKED;
        assert_int_equal(gen_bundle_make(&desc, NULL, &checked, &refusal), SMLA_OK);
        assert_int_equal(plain.plan.check_variant, 0);
        assert_int_equal(plain.plan.launches, h_q < 64 ? 1 : 2); /* what the last round is left with */
        assert_int_equal(checked.plan.launches, plain.plan.launches + 1);
        assert_int_equal(checked.plan.variant_count, plain.plan.variant_count + 1);
        assert_int_equal(checked.plan.check_variant, plain.plan.variant_count);
        assert_int_equal(checked.plan.paged_variant, plain.plan.paged_variant);
        for (int32_t v = 0; v < plain.plan.variant_count; v++)
            assert_memory_equal(&checked.plan.variants[v], &plain.plan.variants[v], sizeof plain.plan.variants[v]);
        assert_string_equal(checked.files[0].name, "smla_unit.cu");
        gen_bundle_free(&plain);
        gen_bundle_free(&checked);
    }
}

/* ---- Bundle ---- */

/* No header comes from outside, so nothing is looked for and none takes long to read. */
static void test_25_28_no_include_is_left(void **state)
{
    static const uint32_t ops[] = {SMLA_OP_PREFILL, SMLA_OP_PREFILL_REFERENCE, SMLA_OP_COMBINE, SMLA_OP_DECODE};
    (void)state;
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        smla_kernel_desc desc = prefill_desc("90a");
        desc.op = ops[i];
        if (desc.op == SMLA_OP_COMBINE)
            desc.d_qk = 0;
        struct gen_bundle bundle;
        struct gen_refusal refusal = {""};
        struct gen_text flat = {0};
        if (gen_bundle_make(&desc, NULL, &bundle, &refusal) != SMLA_OK)
            fail_msg("%s", refusal.text);
        gen_bundle_flatten(&bundle, &flat);
        assert_false(flat.failed);
        assert_null(strstr(flat.bytes, "\n#include"));
        gen_text_free(&flat);
        gen_bundle_free(&bundle);
    }
}

static void test_25_28_bundle_holds_every_include(void **state)
{
    (void)state;
    struct gen_bundle bundle;
    make_bundle(SMLA_OP_PREFILL, "90a", &bundle);
    assert_string_equal(bundle.files[0].name, "smla_unit.cu");
    assert_string_equal(bundle.options[0], "--gpu-architecture=sm_90a");
    struct gen_text flat = {0};
    gen_bundle_flatten(&bundle, &flat);
    assert_false(flat.failed);
    assert_null(strstr(flat.bytes, "\n#include"));
    static const char *const once[] = {"#define SMLA_CONFIG_CUH",         "#define SMLA_TYPES_CUH",
                                       "smla_sm90_prefill_persistent(",   "smla_sm90_prefill_split(",
                                       "smla_sm90_prefill_split_narrow(", "#define SMLA_WGMMA_CUH"};
    for (size_t i = 0; i < sizeof(once) / sizeof(once[0]); i++) {
        const char *first = strstr(flat.bytes, once[i]);
        assert_non_null(first);
        assert_null(strstr(first + 1, once[i]));
    }
    gen_text_free(&flat);
    gen_bundle_free(&bundle);
}

static void same_description_same_bytes(void **state)
{
    (void)state;
    struct gen_bundle a, b;
    make_bundle(SMLA_OP_PREFILL, "90", &a);
    make_bundle(SMLA_OP_PREFILL, "90a", &b);
    assert_int_equal(a.file_count, b.file_count);
    for (int32_t i = 0; i < a.file_count; i++) {
        assert_int_equal(a.files[i].size, b.files[i].size);
        assert_memory_equal(a.files[i].bytes, b.files[i].bytes, a.files[i].size);
    }
    gen_bundle_free(&a);
    gen_bundle_free(&b);
}

/* ---- Plan ---- */

/* Plans every number of heads in both widths, and gives each plan to `check`. */
static void for_each_sm90_prefill(void (*check)(const struct gen_bundle *bundle))
{
    for (int32_t h_q = 1; h_q <= 128; h_q++)
        for (int32_t d_qk = 512; d_qk <= 576; d_qk += 64) {
            smla_kernel_desc desc = prefill_desc("90");
            desc.h_q = h_q;
            desc.d_qk = d_qk;
            struct gen_bundle bundle;
            struct gen_refusal refusal = {""};
            if (gen_bundle_make(&desc, NULL, &bundle, &refusal) != SMLA_OK)
                fail_msg("%s", refusal.text);
            check(&bundle);
            gen_bundle_free(&bundle);
        }
}

static void check_regions(const struct gen_bundle *bundle)
{
    const int32_t variants[] = {0, bundle->plan.split_variant, bundle->plan.narrow_variant};
    static const char *const prefixes[] = {"", "split_", "narrow_"}; /* another entry point's begin at 0 */
    int32_t end = 0, at = 0;
    for (int32_t i = 0; i < bundle->plan.region_count; i++) {
        const struct gen_region *region = &bundle->plan.regions[i];
        if (at < 2 && strncmp(region->name, prefixes[at + 1], strlen(prefixes[at + 1])) == 0) {
            assert_int_equal(end, bundle->plan.variants[variants[at]].shared_bytes);
            at++;
            end = 0;
        }
        assert_int_equal(region->offset_bytes, end);
        assert_int_equal(region->offset_bytes % 8, 0);
        end += region->size_bytes;
        assert_true(end <= bundle->spec.target->shared_bytes);
    }
    assert_int_equal(end, bundle->plan.variants[variants[at]].shared_bytes);
    assert_int_equal(at, variants[1] != 0 ? 2 : 0);
}

static void regions_do_not_overlap(void **state)
{
    (void)state;
    for_each_sm90_prefill(check_regions);
}

static int32_t number_of(const struct gen_plan *plan, const char *name)
{
    for (int32_t i = 0; i < plan->number_count; i++)
        if (strcmp(plan->numbers[i].name, name) == 0)
            return plan->numbers[i].value;
    fail_msg("the plan has no number %s", name);
    return 0;
}

static void check_registers(const struct gen_bundle *bundle)
{
    int32_t softmax = number_of(&bundle->plan, "softmax_registers");
    int32_t output = number_of(&bundle->plan, "output_registers");
    int32_t threads = number_of(&bundle->plan, "threads");
    int32_t at_launch = bundle->spec.target->registers / threads / 8 * 8;
    assert_true(softmax % 8 == 0 && softmax >= 24 && output % 8 == 0 && output <= 256);
    if (strcmp(bundle->plan.kernel, "sm90_prefill_turned_persistent") == 0)
        assert_true(softmax + 2 * output + number_of(&bundle->plan, "gather_registers") <= 4 * at_launch);
    else
        assert_true(softmax + 2 * output <= 3 * at_launch);
}

/* setmaxnreg moves registers between warpgroups: they must be there, and multiples of 8 from 24 to 256. */
static void registers_add_up(void **state)
{
    (void)state;
    for_each_sm90_prefill(check_registers);
}

/* ---- Rules ---- */

/* What a call of so many queries gets: the variant and its cluster; the kernel's own and 0. */
static void check_choice(const struct gen_plan *plan, int32_t sm_count, int64_t tokens, int64_t topk, int32_t variant,
                         int32_t cluster_blocks)
{
    static const int32_t any[GEN_MAX_RULES] = {INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX,
                                               INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX};
    struct gen_choice choices[GEN_MAX_RULES];
    gen_choices_make(plan, sm_count, any, choices);
    const struct gen_choice *choice = gen_choose(choices, plan->rule_count, tokens, topk, 0);
    if (cluster_blocks == 0) {
        assert_null(choice);
        return;
    }
    assert_non_null(choice);
    assert_int_equal(choice->variant, variant);
    assert_int_equal(choice->cluster_blocks, cluster_blocks);
    assert_int_equal(choice->threads, plan->variants[variant].threads);
    assert_int_equal(choice->shared_bytes, plan->variants[variant].shared_bytes);
    assert_int_equal(choice->blocks_per_query, plan->variants[variant].blocks_per_query);
}

static void few_queries_are_split(void **state)
{
    static const struct {
        int32_t sm_count;
        int64_t tokens, topk;
        bool narrow;
        int32_t cluster;
    } rows[] = {
        {132, 1, 640, true, 8},
        {132, 4, 640, true, 8},
        {132, 5, 640, true, 4},
        {132, 8, 640, true, 4},
        {132, 9, 640, true, 2},
        {132, 16, 640, true, 2},
        {132, 9, 768, true, 2},
        {132, 9, 769, false, 8},
        {132, 5, 1536, true, 4},
        {132, 5, 1537, false, 8},
        {132, 1, 100000, true, 8},
        {132, 16, 769, false, 8},
        {132, 17, 640, false, 4},
        {132, 33, 640, false, 4},
        {132, 34, 640, false, 2},
        {132, 66, 640, false, 2},
        {132, 67, 640, false, 0},
        {132, 4096, 640, false, 0},
        {132, 1, 449, true, 8},
        {132, 1, 448, true, 4},
        {132, 1, 193, true, 4},
        {132, 1, 192, true, 2},
        {132, 1, 65, true, 2},
        {132, 1, 64, false, 0},
        {132, 1, 0, false, 0},
        {132, 17, 192, false, 2},
        {114, 14, 640, true, 2},
        {114, 15, 640, false, 4},
        {114, 58, 640, false, 0},
        {31, 1, 640, true, 4},
        {15, 1, 640, true, 2},
        {7, 1, 640, false, 4},
        {2, 1, 640, false, 2},
        {1, 1, 640, false, 0},
        {132, INT32_MAX, INT32_MAX, false, 0},
    };
    struct gen_bundle bundle;
    (void)state;
    make_bundle(SMLA_OP_PREFILL, "90", &bundle);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_choice(&bundle.plan, rows[i].sm_count, rows[i].tokens, rows[i].topk,
                     rows[i].narrow ? bundle.plan.narrow_variant : bundle.plan.split_variant, rows[i].cluster);
    gen_bundle_free(&bundle);
}

/* Where fewer clusters run at once than there are multiprocessors for, smaller ones are taken. */
static void clusters_that_do_not_fit_are_not_taken(void **state)
{
    static const int32_t active[GEN_MAX_RULES] = {0, 3, 7, 0, 30, 60};
    struct gen_choice choices[GEN_MAX_RULES];
    struct gen_bundle bundle;
    (void)state;
    make_bundle(SMLA_OP_PREFILL, "90", &bundle);
    gen_choices_make(&bundle.plan, 132, active, choices);
    const int32_t count = bundle.plan.rule_count, narrow = bundle.plan.narrow_variant;
    assert_int_equal(gen_choose(choices, count, 1, 640, 0)->cluster_blocks, 2); /* four clusters a query */
    assert_int_equal(gen_choose(choices, count, 1, 640, 0)->variant, narrow);
    assert_int_equal(gen_choose(choices, count, 2, 640, 0)->cluster_blocks, 4);
    assert_int_equal(gen_choose(choices, count, 2, 640, 0)->variant, bundle.plan.split_variant);
    assert_int_equal(gen_choose(choices, count, 30, 640, 0)->cluster_blocks, 4);
    assert_int_equal(gen_choose(choices, count, 31, 640, 0)->cluster_blocks, 2);
    assert_null(gen_choose(choices, count, 61, 640, 0));
    /* a call's own limit */
    assert_int_equal(gen_choose(choices, count, 1, 640, 8)->variant, narrow);
    assert_int_equal(gen_choose(choices, count, 1, 640, 7)->cluster_blocks, 4);
    assert_int_equal(gen_choose(choices, count, 1, 640, 3)->cluster_blocks, 2);
    assert_null(gen_choose(choices, count, 2, 640, 3));
    gen_bundle_free(&bundle);
}

/* Kernels over one bf16 cache whose queries' bits may depend on how many there are. */
static void what_is_not_split(void **state)
{
    smla_kernel_desc descs[6];
    (void)state;
    for (size_t i = 0; i < sizeof(descs) / sizeof(descs[0]); i++)
        descs[i] = prefill_desc("90");
    descs[0].flags = SMLA_KERNEL_NOT_PERSISTENT;
    descs[1].flags = SMLA_KERNEL_CHECKED;
    descs[2].batch_invariant = 1;
    descs[3].kv_format = "v41";
    descs[4].extra_kv_format = "bf16";
    descs[5].h_q = 32;
    for (size_t i = 0; i < sizeof(descs) / sizeof(descs[0]); i++) {
        struct gen_bundle bundle;
        struct gen_refusal refusal = {""};
        assert_int_equal(gen_bundle_make(&descs[i], NULL, &bundle, &refusal), SMLA_OK);
        assert_int_equal(bundle.plan.rule_count, i < 2 ? 6 : 0);
        assert_int_equal(bundle.plan.split_variant != 0, i < 2);
        assert_int_equal(bundle.plan.narrow_variant != 0, i < 2);
        gen_bundle_free(&bundle);
    }
}

/* Heads are covered, by no more blocks than there are of 64; and each plan's kernel is the one that is meant. */
static void check_heads(const struct gen_bundle *bundle)
{
    const int32_t h_q = bundle->spec.h_q, heads = number_of(&bundle->plan, "block_heads");
    const int32_t blocks = bundle->plan.variants[0].blocks_per_query;
    const bool turned = h_q <= 56 || (h_q > 64 && h_q <= 80 && bundle->spec.d_qk == 512);
    assert_true(heads * blocks >= h_q && blocks <= (h_q + 63) / 64);
    assert_int_equal(number_of(&bundle->plan, "head_blocks"), blocks);
    assert_string_equal(bundle->plan.kernel, turned && h_q <= 24 ? "sm90_prefill_turned_persistent"
                                             : turned            ? "sm90_prefill_turned"
                                                                 : "sm90_prefill_persistent");
    assert_true(turned ? heads - h_q < 8 : heads == 64);
}

static void few_heads_turn_the_tile(void **state)
{
    (void)state;
    for_each_sm90_prefill(check_heads);
}

/* Blocks have a warp a head and cover all heads, none of them idle; every target has the kernel. */
static void combine_covers_every_head(void **state)
{
    (void)state;
    size_t count;
    const struct gen_target *targets = gen_target_table(&count);
    for (size_t i = 0; i < count; i++)
        for (int32_t h_q = 1; h_q <= 128; h_q++) {
            const smla_kernel_desc desc = {.struct_size = sizeof(desc), .op = SMLA_OP_COMBINE, .h_q = h_q};
            struct gen_bundle bundle;
            struct gen_refusal refusal = {""};
            if (gen_bundle_make(&desc, &targets[i], &bundle, &refusal) != SMLA_OK)
                fail_msg("%s", refusal.text);
            const int32_t heads = number_of(&bundle.plan, "block_heads");
            const int32_t blocks = number_of(&bundle.plan, "head_blocks");
            assert_true(heads * blocks >= h_q && heads * (blocks - 1) < h_q);
            assert_int_equal(number_of(&bundle.plan, "threads"), 32 * heads);
            assert_int_equal(bundle.plan.variant_count, 4);
            for (int32_t v = 0; v < 4; v++)
                assert_int_equal(bundle.plan.variants[v].blocks_per_query, blocks);
            gen_bundle_free(&bundle);
        }
}

/* ---- Targets ---- */

static void bare_numbers_are_the_widest_target(void **state)
{
    (void)state;
    assert_string_equal(gen_target_find("90")->arch, "sm_90a");
    assert_string_equal(gen_target_find("100")->arch, "sm_100f");
    assert_string_equal(gen_target_find("103")->arch, "sm_103f");
    static const char *const own[] = {"90a", "100a", "103a", "100f", "103f"};
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        assert_string_equal(gen_target_find(own[i])->name, own[i]);
    static const char *const none[] = {"", "9", "10", "80", "sm_90", "90b", "1000", "90a "};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        assert_null(gen_target_find(none[i]));
}

static void test_L1_56_devices_prefer_their_exact_target(void **state)
{
    (void)state;
    assert_string_equal(gen_target_for_device(9, 0)->name, "90a");
    assert_string_equal(gen_target_for_device(10, 0)->name, "100a");
    assert_string_equal(gen_target_for_device(10, 3)->name, "103a");
    assert_string_equal(gen_target_for_device(10, 7)->name, "103f"); /* a later minor of the family */
    static const int none[][2] = {{0, 0}, {8, 0}, {8, 9}, {9, 1}, {11, 0}, {12, 0}, {12, 1}};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        assert_null(gen_target_for_device(none[i][0], none[i][1]));
    assert_true(gen_target_loads_on(gen_target_find("100f"), 10, 3));
    assert_false(gen_target_loads_on(gen_target_find("100a"), 10, 3));
    assert_false(gen_target_loads_on(gen_target_find("103f"), 10, 0));
    assert_false(gen_target_loads_on(gen_target_find("90a"), 9, 1));
}

/* ---- Refusals ---- */

static void refusals_say_what_would_work(void **state)
{
    (void)state;
    const struct {
        uint32_t op;
        int32_t h_q, d_qk, d_v;
        const char *kv_format, *extra, *target;
        uint32_t batch_invariant, flags;
        smla_status status;
        const char *says; /* a part of the sentence */
    } rows[] = {
        {0, 64, 512, 0, NULL, NULL, "90", 0, 0, SMLA_ERROR_INVALID_ARGUMENT, "op 0 is not known"},
        {1, 0, 512, 0, NULL, NULL, "90", 0, 0, SMLA_ERROR_INVALID_ARGUMENT, "h_q 0: query heads are 1 to 128"},
        {1, 129, 512, 0, NULL, NULL, "90", 0, 0, SMLA_ERROR_INVALID_ARGUMENT, "h_q 129"},
        {1, -1, 512, 0, NULL, NULL, "90", 0, 0, SMLA_ERROR_INVALID_ARGUMENT, "h_q -1"},
        {1, 64, 640, 0, NULL, NULL, "90", 0, 0, SMLA_ERROR_UNSUPPORTED, "d_qk 640: the operator has 512 or 576"},
        {1, 64, 512, 640, NULL, NULL, "90", 0, 0, SMLA_ERROR_UNSUPPORTED, "d_v 640: the operator has 512"},
        {1, 64, 512, 0, "fp7", NULL, "90", 0, 0, SMLA_ERROR_INVALID_ARGUMENT, "\"fp7\" is not a preset; the presets"},
        {1, 64, 512, 0, "v32", NULL, "90", 0, 0, SMLA_ERROR_UNSUPPORTED, "v32 holds keys of d_qk 576, not 512"},
        {1, 64, 576, 0, NULL, "v4", "90", 0, 0, SMLA_ERROR_UNSUPPORTED, "v4 holds keys of d_qk 512, not 576"},
        {1, 64, 512, 0, NULL, NULL, NULL, 0, 0, SMLA_ERROR_INVALID_ARGUMENT, "no target"},
        {1, 64, 512, 0, NULL, NULL, "80", 0, 0, SMLA_ERROR_INVALID_ARGUMENT, "target \"80\" is not known; the targets"},
        {1, 64, 512, 0, NULL, NULL, "100", 0, 0, SMLA_ERROR_UNSUPPORTED,
         "target 100f has no prefill kernel yet; there "
         "is one for 90a"},
        {1, 64, 512, 0, NULL, NULL, "90", 2, 0, SMLA_ERROR_INVALID_ARGUMENT, "batch_invariant 2"},
        {1, 64, 512, 0, NULL, NULL, "90", 0, 8, SMLA_ERROR_UNSUPPORTED,
         "flags 0x8: there are SMLA_KERNEL_CHECKED (0x1)"},
        {2, 64, 512, 0, NULL, NULL, "90", 0, 1, SMLA_ERROR_UNSUPPORTED,
         "of a prefill_reference kernel there is SMLA_KERNEL_LINE"},
        {3, 64, 0, 0, NULL, NULL, "90", 0, 1, SMLA_ERROR_UNSUPPORTED,
         "of a combine kernel there is SMLA_KERNEL_LINE_INFO"},
        {2, 64, 576, 0, "v32", NULL, "90", 0, 0, SMLA_ERROR_UNSUPPORTED, "the reference reads one bf16 cache"},
        {3, 129, 0, 0, NULL, NULL, "90", 0, 0, SMLA_ERROR_INVALID_ARGUMENT, "h_q 129: query heads are 1 to 128"},
        {3, 64, 512, 0, NULL, NULL, "90", 0, 0, SMLA_ERROR_INVALID_ARGUMENT, "combine reads no keys, leave it 0"},
        {3, 64, 0, 256, NULL, NULL, "90", 0, 0, SMLA_ERROR_UNSUPPORTED, "d_v 256: the operator has 512"},
        {3, 64, 0, 0, "bf16", NULL, "90", 0, 0, SMLA_ERROR_INVALID_ARGUMENT, "kv_format \"bf16\": combine reads no"},
        {3, 64, 0, 0, NULL, "v4", "90", 0, 0, SMLA_ERROR_INVALID_ARGUMENT, "extra_kv_format \"v4\": combine reads no"},
        {5, 64, 512, 0, NULL, NULL, "90", 0, 0, SMLA_ERROR_INVALID_ARGUMENT,
         "op 5 is not known; there are prefill (1)"},
        {4, 64, 512, 0, NULL, NULL, "90", 0, 1, SMLA_ERROR_UNSUPPORTED,
         "of a decode kernel there is SMLA_KERNEL_LINE_INFO"},
        {4, 64, 512, 0, NULL, NULL, "100", 0, 0, SMLA_ERROR_UNSUPPORTED,
         "target 100f has no decode kernel yet; there is one for 90a"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        smla_kernel_desc desc = {.struct_size = sizeof(desc),
                                 .op = rows[i].op,
                                 .h_q = rows[i].h_q,
                                 .d_qk = rows[i].d_qk,
                                 .d_v = rows[i].d_v,
                                 .kv_format = rows[i].kv_format,
                                 .extra_kv_format = rows[i].extra,
                                 .target = rows[i].target,
                                 .batch_invariant = rows[i].batch_invariant,
                                 .flags = rows[i].flags};
        struct gen_bundle bundle;
        struct gen_refusal refusal = {""};
        smla_status status = gen_bundle_make(&desc, NULL, &bundle, &refusal);
        if (status != rows[i].status || !strstr(refusal.text, rows[i].says))
            fail_msg("row %zu: status %d, \"%s\"", i, status, refusal.text);
    }
}

/* interface.md: two pairs of presets share their bytes a token, so a format is told by name alone. */
static void kv_formats_add_up(void **state)
{
    (void)state;
    size_t count;
    const struct gen_kv_format *table = gen_kv_format_table(&count);
    assert_int_equal(count, 9);
    for (size_t i = 0; i < count; i++) {
        const struct gen_kv_format *format = &table[i];
        assert_ptr_equal(gen_kv_format_find(format->name), format);
        if (format->value_type == SMLA_VALUE_BF16)
            continue;
        int32_t value_bytes = format->value_type == SMLA_VALUE_E2M1 ? format->value_elems / 2 : format->value_elems;
        assert_int_equal(value_bytes + format->scale_bytes + 2 * format->tail_elems, format->bytes_per_token);
        assert_int_equal(format->value_elems + format->tail_elems, format->d_qk[0]);
    }
    assert_null(gen_kv_format_find("BF16"));
}

/* A format is data: each field has its limit, and a layout that keeps them needs no preset. */
static void layouts_are_checked(void **state)
{
    (void)state;
    const struct {
        smla_kv_layout layout; /* struct_size, value type, elems, scale type, group, bytes, tail, place */
        smla_status status;
        const char *says;
    } rows[] = {
        {{32, 0, 512, 2, 32, 0, 0, 1}, SMLA_ERROR_INVALID_ARGUMENT, "value_type 0"},
        {{32, 4, 512, 2, 32, 0, 0, 1}, SMLA_ERROR_INVALID_ARGUMENT, "value_type 4"},
        {{32, 2, 512, 4, 32, 0, 0, 1}, SMLA_ERROR_INVALID_ARGUMENT, "scale_type 4"},
        {{32, 2, 512, 0, 0, 0, 0, 1}, SMLA_ERROR_INVALID_ARGUMENT, "e4m3 and e2m1 values have"},
        {{32, 1, 512, 1, 128, 0, 0, 1}, SMLA_ERROR_INVALID_ARGUMENT, "bf16 values have no scales"},
        {{32, 2, 512, 2, 32, 0, 0, 0}, SMLA_ERROR_INVALID_ARGUMENT, "place 0"},
        {{32, 2, 500, 2, 4, 0, 12, 1}, SMLA_ERROR_INVALID_ARGUMENT, "500 values"},
        {{32, 2, 448, 2, 64, 0, 128, 1}, SMLA_ERROR_INVALID_ARGUMENT, "add up to d_qk"},
        {{32, 2, 512, 2, 48, 0, 0, 1}, SMLA_ERROR_INVALID_ARGUMENT, "scale_group 48"},
        {{32, 2, 512, 2, 8, 0, 0, 1}, SMLA_ERROR_INVALID_ARGUMENT, "scale_group 8"},
        {{32, 2, 512, 2, 32, 15, 0, 1}, SMLA_ERROR_INVALID_ARGUMENT, "scale_bytes 15"},
        {{32, 2, 512, 2, 32, 24, 0, 1}, SMLA_ERROR_UNSUPPORTED, "scale_bytes 24 a token: a multiple of 16"},
        {{32, 2, 512, 1, 32, 0, 0, 1}, SMLA_ERROR_UNSUPPORTED, "groups of 64 or more"},
        {{32, 2, 512, 2, 32, 17, 0, 2}, SMLA_OK, ""},
        {{32, 3, 512, 3, 16, 0, 0, 1}, SMLA_OK, ""},
        {{32, 1, 512, 0, 0, 0, 0, 1}, SMLA_OK, ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        smla_kernel_desc desc = prefill_desc("90");
        desc.kv_layout = &rows[i].layout;
        struct gen_bundle bundle;
        struct gen_refusal refusal = {""};
        smla_status status = gen_bundle_make(&desc, NULL, &bundle, &refusal);
        if (status != rows[i].status || !strstr(refusal.text, rows[i].says))
            fail_msg("row %zu: status %d, \"%s\"", i, status, refusal.text);
        if (status == SMLA_OK)
            gen_bundle_free(&bundle);
        desc.kv_format = "v41";
        assert_int_equal(gen_bundle_make(&desc, NULL, &bundle, &refusal), SMLA_ERROR_INVALID_ARGUMENT);
        assert_non_null(strstr(refusal.text, "give one of them"));
    }
}

/* A preset and the layout that says the same give the same kernel. */
static void preset_is_its_layout(void **state)
{
    (void)state;
    size_t count;
    const struct gen_kv_format *table = gen_kv_format_table(&count);
    for (size_t i = 0; i < count; i++) {
        const smla_kv_layout layout = {
            sizeof layout,       table[i].value_type,  table[i].value_elems ? table[i].value_elems : table[i].d_qk[0],
            table[i].scale_type, table[i].scale_group, table[i].scale_bytes,
            table[i].tail_elems, table[i].place};
        struct gen_kv_format format;
        struct gen_refusal refusal = {""};
        if (gen_kv_format_of_layout(&layout, table[i].d_qk[0], &format, &refusal) != SMLA_OK)
            fail_msg("%s: %s", table[i].name, refusal.text);
        if (table[i].bytes_per_token)
            assert_int_equal(format.bytes_per_token, table[i].bytes_per_token);
        assert_int_equal(format.scale_bytes, table[i].scale_bytes);
    }
}

/* ---- How decode is shared ---- */

static const struct gen_decode decode_64 = {.block_heads = 64,
                                            .head_blocks = 1,
                                            .combine_threads = 256,
                                            .most_runs = 4,
                                            .d_v = 512,
                                            .item_cost = 3,
                                            .cut_cost = 2,
                                            .small_share = 2,
                                            .small_item_cost = 1};

static struct gen_decode decode_with(int32_t block_heads, int32_t head_blocks, bool batch_invariant)
{
    struct gen_decode decode = decode_64;
    decode.block_heads = block_heads;
    decode.head_blocks = head_blocks;
    decode.batch_invariant = batch_invariant;
    return decode;
}

/* What the plan gives, by count of heads. */
static void decode_plans_tell_the_sharing(void **state)
{
    static const struct {
        int32_t h_q, d_qk, block_heads, head_blocks;
    } rows[] = {{1, 512, 8, 1},   {8, 576, 8, 1},   {16, 512, 16, 1},  {40, 576, 40, 1}, {41, 512, 48, 1},
                {57, 512, 64, 1}, {64, 512, 64, 1}, {64, 576, 64, 1},  {56, 512, 56, 1}, {65, 512, 64, 2},
                {80, 512, 64, 2}, {81, 576, 64, 2}, {128, 512, 64, 2}, {128, 576, 64, 2}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (uint32_t invariant = 0; invariant < 2; invariant++) {
            const smla_kernel_desc desc = {.struct_size = sizeof(desc),
                                           .op = SMLA_OP_DECODE,
                                           .h_q = rows[i].h_q,
                                           .d_qk = rows[i].d_qk,
                                           .batch_invariant = invariant,
                                           .target = "90"};
            struct gen_bundle bundle;
            struct gen_refusal refusal = {""};
            if (gen_bundle_make(&desc, NULL, &bundle, &refusal) != SMLA_OK)
                fail_msg("%s", refusal.text);
            const struct gen_decode decode = gen_decode_of(&bundle.spec, &bundle.plan);
            if (decode.block_heads != rows[i].block_heads || decode.head_blocks != rows[i].head_blocks)
                fail_msg("%d heads, d %d: %d blocks of %d", rows[i].h_q, rows[i].d_qk, decode.head_blocks,
                         decode.block_heads);
            assert_int_equal(decode.combine_threads, 256);
            assert_int_equal(decode.most_runs, 4);
            assert_int_equal(decode.d_v, 512);
            assert_int_equal(decode.item_cost, 3);
            assert_int_equal(decode.cut_cost, 2);
            assert_int_equal(decode.small_share, 2);
            assert_int_equal(decode.small_item_cost, 1);
            assert_int_equal(decode.batch_invariant, invariant);
            gen_bundle_free(&bundle);
        }
}

/* Where keys are dequantised blocks are counted from before the first (sm90_keys.cuh), in 32 bits: slots must divide
 * 2^32. */
static void quantised_keys_have_slots_that_divide_their_count(void **state)
{
    static const struct {
        int32_t d_qk;
        const char *kv_format, *extra_kv_format;
    } rows[] = {{576, "v32", NULL}, {512, "v4", "v4"}, {512, "v41", "v41_fp4"}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (int32_t h_q = 1; h_q <= 128; h_q++)
            for (int decode = 0; decode < 2; decode++) {
                const smla_kernel_desc desc = {.struct_size = sizeof(desc),
                                               .op = decode ? SMLA_OP_DECODE : SMLA_OP_PREFILL,
                                               .h_q = h_q,
                                               .d_qk = rows[i].d_qk,
                                               .kv_format = rows[i].kv_format,
                                               .extra_kv_format = rows[i].extra_kv_format,
                                               .target = "90"};
                struct gen_bundle bundle;
                struct gen_refusal refusal = {""};
                if (gen_bundle_make(&desc, NULL, &bundle, &refusal) != SMLA_OK)
                    fail_msg("%s", refusal.text);
                const int32_t slots = number(&bundle.plan, "key_slots");
                assert_true(slots > 0 && (slots & (slots - 1)) == 0);
                gen_bundle_free(&bundle);
            }
}

static void decode_is_shared_by_sizes(void **state)
{
    static const struct {
        bool invariant;
        int64_t tokens, topk, extra;
        int32_t sms;
        int64_t main_blocks, pieces, piece_blocks, parts, combine_blocks;
    } rows[] = {
        {false, 1, 16384, 0, 132, 132, 1, 256, 264, 32},      /* for the one unit; a run a thread */
        {false, 1000, 16384, 0, 132, 132, 1, 256, 264, 1056}, /* for each block of threads; four runs */
        {false, 1, 129, 0, 132, 4, 1, 3, 8, 32},              /* a block of keys each, and one for what an item costs */
        {false, 1, 64, 65, 132, 4, 1, 3, 8, 32},              /* each list ends in a block of its own */
        {false, 1, 128, 0, 132, 1, 1, 2, 0, 0},               /* cutting two blocks of keys never pays */
        {false, 1000, 128, 0, 132, 132, 1, 2, 0, 0},
        {false, 1, 64, 0, 132, 1, 1, 1, 0, 0},
        {false, 1, 0, 0, 132, 1, 1, 1, 0, 0},
        {false, 1000, 64, 0, 132, 132, 1, 1, 0, 0}, /* one block of keys is not cut */
        {false, 1000, 640, 0, 1, 1, 1, 10, 0, 0},   /* nor is anything for one block of threads */
        {false, 0, 640, 0, 132, 0, 1, 10, 0, 0},
        {true, 1, 1024, 0, 132, 1, 1, 16, 0, 0},
        {true, 1, 1025, 0, 132, 2, 2, 16, 2, 32},
        {true, 1, 512, 513, 132, 2, 2, 16, 2, 32},
        {true, 7, 8192, 0, 132, 56, 8, 16, 56, 224},
        {true, 7, 8193, 0, 132, 56, 8, 17, 56, 224},
        {true, 7, 16384, 0, 3, 3, 8, 32, 56, 56},
        {true, 1000, 640, 0, 132, 132, 1, 16, 0, 0},
        {true, 0, 16384, 0, 132, 0, 8, 32, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct gen_decode decode = decode_with(64, 1, rows[i].invariant);
        struct gen_decode_share share;
        if (!gen_decode_make(&decode, rows[i].tokens, (int64_t[2]){rows[i].topk, rows[i].extra}, rows[i].sms, &share))
            fail_msg("row %zu does not fit", i);
        if (share.main_blocks != rows[i].main_blocks || share.pieces != rows[i].pieces ||
            share.piece_blocks != rows[i].piece_blocks || share.parts != rows[i].parts ||
            share.combine_blocks != rows[i].combine_blocks)
            fail_msg("row %zu: %lld blocks, %lld pieces of %lld, %lld parts, %lld that combine", i,
                     (long long)share.main_blocks, (long long)share.pieces, (long long)share.piece_blocks,
                     (long long)share.parts, (long long)share.combine_blocks);
    }
}

static void few_units_are_cut_alike(void **state)
{
    static const struct {
        bool invariant;
        int64_t tokens, topk;
        int32_t sms;
        int64_t parts, part_blocks, main_blocks;
    } rows[] = {
        {false, 2, 640, 132, 10, 1, 20},  /* a block of keys each */
        {false, 16, 640, 132, 5, 2, 80},  /* 8 places a unit: two each, and no fewer parts than that takes */
        {false, 66, 640, 132, 2, 5, 132}, /* two places a unit */
        {false, 67, 640, 132, 0, 0, 132}, /* no longer */
        {false, 1, 16384, 132, 128, 2, 128},
        {false, 1, 256, 132, 4, 1, 4}, /* cutting four blocks of keys into one each gains three, and costs two */
        {false, 1, 192, 132, 0, 0, 4}, /* of three it gains no more than it costs */
        {false, 0, 640, 132, 0, 0, 0},
        {true, 2, 16384, 132, 0, 0, 16}, /* by topk alone */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct gen_decode decode = decode_with(64, 1, rows[i].invariant);
        struct gen_decode_share share;
        if (!gen_decode_make(&decode, rows[i].tokens, (int64_t[2]){rows[i].topk, 0}, rows[i].sms, &share))
            fail_msg("row %zu does not fit", i);
        if (share.even_parts != rows[i].parts || share.even_part_blocks != rows[i].part_blocks ||
            share.even_main_blocks != rows[i].main_blocks)
            fail_msg("row %zu: %lld parts of %lld, %lld blocks", i, (long long)share.even_parts,
                     (long long)share.even_part_blocks, (long long)share.even_main_blocks);
    }
}

/* Parts cover a unit's keys, none is empty, each has a place; and kernels divide by their number exactly. */
static void check_alike(const struct gen_decode_share *share)
{
    if (share->even_parts == 0) {
        assert_int_equal(share->even_main_blocks, share->main_blocks);
        return;
    }
    assert_true(share->even_parts * share->even_part_blocks >= share->key_blocks);
    assert_true((share->even_parts - 1) * share->even_part_blocks < share->key_blocks);
    assert_int_equal(share->even_main_blocks, share->even_parts * share->units);
    assert_true(share->even_main_blocks <= share->main_blocks);
    const uint64_t multiplier = gen_decode_multiplier(share);
    for (uint64_t part = 0; part <= (uint64_t)share->even_main_blocks; part++)
        assert_int_equal(part * multiplier >> 32, part / (uint64_t)share->even_parts);
}

static void check_share(const struct gen_decode *decode, const struct gen_decode_share *share, int32_t sms)
{
    const int64_t runs = (int64_t)decode->block_heads * decode->d_v / 4;
    const int64_t block_runs = decode->combine_threads * share->combine_runs;
    const int64_t groups = (runs + block_runs - 1) / block_runs;
    assert_true(share->combine_runs >= 1 && decode->most_runs % share->combine_runs == 0);
    check_alike(share);
    /* Without lengths: every token's cost is in some block of threads' share. */
    const int64_t tokens = share->units / decode->head_blocks;
    assert_true(share->even_share * share->main_blocks >= share->even_token_cost * tokens);
    assert_true(share->units == 0 || (share->even_share > 0 && share->even_token_cost >= share->key_blocks));
    assert_true(share->main_blocks <= sms && (share->main_blocks > 0 || share->units == 0));
    assert_true(share->piece_blocks >= 1);
    assert_true(share->pieces * share->piece_blocks >= share->key_blocks);
    assert_true((share->pieces - 1) * share->piece_blocks < share->key_blocks || share->pieces == 1);
    assert_true(share->pieces == 1 || decode->batch_invariant);
    assert_true((share->parts == 0) == (share->combine_blocks == 0));
    assert_true(share->part_out_bytes >= share->parts * decode->block_heads * decode->d_v * 4);
    assert_true(share->part_lse_bytes >= share->parts * decode->block_heads * 4);
    if (!decode->batch_invariant) { /* two parts a block of threads; two words for each that can be shared */
        const int64_t most_shared = share->units < share->main_blocks ? share->units : share->main_blocks;
        assert_true(share->parts == 0 || share->shared_bytes >= most_shared * 8);
        assert_true(share->parts == 0 || share->parts >= 2 * share->main_blocks);
        assert_true(share->parts == 0 || share->combine_blocks == most_shared * groups);
    } else if (share->pieces > 1) {
        assert_int_equal(share->parts, share->units * share->pieces);
        assert_int_equal(share->combine_blocks, share->units * groups);
    }
    assert_int_equal(share->part_out_bytes % 16 + share->part_lse_bytes % 16 + share->shared_bytes % 16, 0);
    assert_int_equal(gen_decode_workspace(share), share->part_out_bytes + share->part_lse_bytes + share->shared_bytes);
}

/* Whatever the sizes: what the device's schedule relies on holds, and no size needs less than a smaller one. */
static void decode_shares_hold_together(void **state)
{
    static const int64_t tokens[] = {0, 1, 2, 3, 16, 131, 132, 133, 1000, 40000};
    static const int32_t sms[] = {1, 2, 5, 114, 132};
    static const int32_t heads[][2] = {{8, 1}, {40, 1}, {64, 1}, {72, 1}, {64, 2}};
    (void)state;
    for (size_t h = 0; h < sizeof(heads) / sizeof(heads[0]); h++)
        for (int invariant = 0; invariant < 2; invariant++)
            for (size_t s = 0; s < sizeof(sms) / sizeof(sms[0]); s++) {
                const struct gen_decode decode = decode_with(heads[h][0], heads[h][1], invariant);
                int64_t before[600] = {0};
                for (size_t t = 0; t < sizeof(tokens) / sizeof(tokens[0]); t++)
                    for (int64_t blocks = 0, last = 0; blocks < 600; blocks++) {
                        struct gen_decode_share share;
                        const int64_t topk[2] = {blocks * 64 - blocks % 64, 0};
                        assert_true(gen_decode_make(&decode, tokens[t], topk, sms[s], &share));
                        assert_int_equal(share.key_blocks, blocks);
                        check_share(&decode, &share, sms[s]);
                        const int64_t bytes = gen_decode_workspace(&share);
                        if (bytes < last || bytes < before[blocks])
                            fail_msg("%lld tokens, %lld blocks of keys, %d multiprocessors: less than a smaller call",
                                     (long long)tokens[t], (long long)blocks, sms[s]);
                        before[blocks] = last = bytes;
                    }
            }
}

/* Kernels count the cost of everything, and half of that again, in 31 bits. */
static void decode_that_is_too_large_does_not_fit(void **state)
{
    static const struct {
        struct {
            int32_t head_blocks;
            bool invariant;
        } of;
        int64_t most_tokens, topk[2];
    } rows[] = {
        {{1, false}, (1 << 30) / 3, {0, 0}},
        {{2, false}, (1 << 30) / 3 / 2, {0, 0}},
        {{1, false}, (1 << 30) / 13, {640, 0}},
        {{1, false}, 15, {INT32_MAX, INT32_MAX}}, /* 2^26 blocks of keys a token */
        {{2, false}, 7, {INT32_MAX, INT32_MAX}},
        {{1, true}, 15, {INT32_MAX, INT32_MAX}},
        {{1, true}, (1 << 30) / (2 * 3 + 17), {1025, 0}}, /* two pieces */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct gen_decode decode = decode_with(64, rows[i].of.head_blocks, rows[i].of.invariant);
        struct gen_decode_share share;
        if (!gen_decode_make(&decode, rows[i].most_tokens, rows[i].topk, 132, &share))
            fail_msg("row %zu does not fit", i);
        check_share(&decode, &share, 132);
        share.units = -7;
        if (gen_decode_make(&decode, rows[i].most_tokens + 1, rows[i].topk, 132, &share))
            fail_msg("row %zu: one more fits", i);
        assert_int_equal(share.units, -7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_sm90_prefill),
        cmocka_unit_test(golden_sm90_prefill_wide),
        cmocka_unit_test(golden_sm90_prefill_turned),
        cmocka_unit_test(golden_sm90_prefill_turned_persistent),
        cmocka_unit_test(golden_sm90_prefill_persistent),
        cmocka_unit_test(golden_sm90_decode),
        cmocka_unit_test(golden_sm90_decode_companion),
        cmocka_unit_test(golden_prefill_reference),
        cmocka_unit_test(golden_sm90_prefill_checked),
        cmocka_unit_test(checked_adds_one_entry_point),
        cmocka_unit_test(golden_combine),
        cmocka_unit_test(test_25_28_no_include_is_left),
        cmocka_unit_test(test_25_28_bundle_holds_every_include),
        cmocka_unit_test(same_description_same_bytes),
        cmocka_unit_test(regions_do_not_overlap),
        cmocka_unit_test(registers_add_up),
        cmocka_unit_test(combine_covers_every_head),
        cmocka_unit_test(few_heads_turn_the_tile),
        cmocka_unit_test(bare_numbers_are_the_widest_target),
        cmocka_unit_test(test_L1_56_devices_prefer_their_exact_target),
        cmocka_unit_test(refusals_say_what_would_work),
        cmocka_unit_test(kv_formats_add_up),
        cmocka_unit_test(layouts_are_checked),
        cmocka_unit_test(few_queries_are_split),
        cmocka_unit_test(clusters_that_do_not_fit_are_not_taken),
        cmocka_unit_test(what_is_not_split),
        cmocka_unit_test(preset_is_its_layout),
        cmocka_unit_test(decode_plans_tell_the_sharing),
        cmocka_unit_test(quantised_keys_have_slots_that_divide_their_count),
        cmocka_unit_test(decode_is_shared_by_sizes),
        cmocka_unit_test(few_units_are_cut_alike),
        cmocka_unit_test(decode_shares_hold_together),
        cmocka_unit_test(decode_that_is_too_large_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
