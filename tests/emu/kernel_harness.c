#include "kernel_harness.h"
#include "bundle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bf16.h"
#include "compare.h"
#include "decode_params.h"
#include "prefill_tensor_params.h"
#include "tensor_map.h"

enum { D_V = 512, NAN_BF16 = 0x7fff };

/* ---- The kernel ---- */

struct text {
    char *bytes;
    size_t size;
};

static int32_t keep(void *user, const void *bytes, size_t size)
{
    struct text *text = user;
    text->bytes = malloc(size);
    if (!text->bytes)
        return 12; /* ENOMEM */
    memcpy(text->bytes, bytes, size);
    text->size = size;
    return 0;
}

static bool fail_smla(char why[HARNESS_WHY])
{
    smla_error_info info = {.struct_size = sizeof(info)};
    smla_last_error(&info);
    snprintf(why, HARNESS_WHY, "%.500s", info.message);
    return false;
}

static const struct emu_kernel *find_entry(const struct harness *harness, const struct gen_variant *variant)
{
    for (size_t i = 0; i < (size_t)harness->module->kernel_count; i++)
        if (strcmp(harness->module->kernels[i].name, variant->entry) == 0)
            return &harness->module->kernels[i];
    return NULL;
}

/* The entry point of the variant that a call with lengths takes, or of one for clusters. */
static void find_kernel(struct harness *harness, const smla_kernel_desc *desc)
{
    struct gen_refusal refusal;
    struct gen_bundle bundle;
    if (gen_bundle_make(desc, NULL, &bundle, &refusal) != SMLA_OK)
        return;
    const int32_t for_few = harness->narrow ? bundle.plan.narrow_variant : bundle.plan.split_variant;
    const struct gen_variant *variant =
        &bundle.plan.variants[harness->cluster_blocks > 1 ? for_few : bundle.plan.lengths_variant];
    harness->kernel = find_entry(harness, variant);
    harness->blocks_per_query = variant->blocks_per_query;
    harness->blocks_per_sm = variant->blocks_per_sm;
    harness->threads = variant->threads;
    harness->shared_bytes = variant->shared_bytes;
    if (harness->op == SMLA_OP_DECODE) {
        const struct gen_variant *combine = &bundle.plan.variants[bundle.plan.combine_variant];
        harness->main = harness->kernel;
        harness->combine = find_entry(harness, combine);
        harness->combine_threads = combine->threads;
        harness->decode = gen_decode_of(&bundle.spec, &bundle.plan);
    }
    gen_bundle_free(&bundle);
}

static bool open_variant(struct harness *harness, const smla_kernel_desc *desc, bool narrow, int32_t cluster_blocks,
                         char why[HARNESS_WHY])
{
    const smla_context_desc context_desc = {.struct_size = sizeof(context_desc)};
    smla_context *context = NULL;
    struct text text = {0};
    *harness = (struct harness){.op = desc->op,
                                .h_q = desc->h_q,
                                .d_qk = desc->d_qk,
                                .cluster_blocks = cluster_blocks,
                                .narrow = narrow,
                                .support = {.struct_size = sizeof(smla_support)}};
    bool fine = smla_context_create(&context_desc, &context) == SMLA_OK &&
                smla_query_support(context, desc, &harness->support) == SMLA_OK &&
                smla_generate(context, desc, SMLA_EMIT_PTX, keep, &text) == SMLA_OK;
    if (!fine)
        fail_smla(why);
    smla_context_destroy(context);
    if (fine)
        harness->module = emu_module_load(text.bytes, text.size, why);
    free(text.bytes);
    if (harness->module)
        find_kernel(harness, desc);
    if (harness->module && !harness->kernel)
        snprintf(why, HARNESS_WHY, "the PTX has no entry point of the plan's variant");
    return harness->kernel != NULL;
}

bool harness_open(struct harness *harness, uint32_t op, uint32_t flags, int32_t h_q, int32_t d_qk,
                  char why[HARNESS_WHY])
{
    const smla_kernel_desc desc = {
        .struct_size = sizeof(desc), .op = op, .h_q = h_q, .d_qk = d_qk, .flags = flags, .target = "90"};
    return open_variant(harness, &desc, false, 1, why);
}

bool harness_open_split(struct harness *harness, bool narrow, int32_t cluster_blocks, int32_t h_q, int32_t d_qk,
                        char why[HARNESS_WHY])
{
    const smla_kernel_desc desc = {
        .struct_size = sizeof(desc), .op = SMLA_OP_PREFILL, .h_q = h_q, .d_qk = d_qk, .target = "90"};
    return open_variant(harness, &desc, narrow, cluster_blocks, why);
}

bool harness_open_decode(struct harness *harness, bool batch_invariant, int32_t h_q, int32_t d_qk,
                         char why[HARNESS_WHY])
{
    const smla_kernel_desc desc = {.struct_size = sizeof(desc),
                                   .op = SMLA_OP_DECODE,
                                   .h_q = h_q,
                                   .d_qk = d_qk,
                                   .batch_invariant = batch_invariant,
                                   .target = "90"};
    return open_variant(harness, &desc, false, 1, why);
}

void harness_close(struct harness *harness)
{
    if (harness->module)
        emu_module_free(harness->module);
    *harness = (struct harness){0};
}

/* ---- The call ---- */

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u; /* Numerical Recipes' LCG */
    return *state >> 8;
}

static float draw(uint32_t *state)
{
    float sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (float)next(state) / (float)(1 << 24);
    return (sum - 2.0f) * 1.7f;
}

static uint16_t *draw_rows(size_t count, uint32_t *state)
{
    uint16_t *rows = malloc(count * 2 + 1);
    for (size_t i = 0; rows && i < count; i++)
        rows[i] = bf16_from_float(draw(state));
    return rows;
}

/* Odd rows of kv are NaN and stand only behind lengths and in no list. */
static void draw_lists(struct harness_call *call, uint32_t *state)
{
    static const int32_t invalid[] = {-1, INT32_MIN, INT32_MAX, 1 << 20};
    for (int64_t token = 0; token < call->s_q; token++) {
        int32_t *list = call->indices + token * call->topk;
        call->topk_length[token] = (int32_t)(call->topk - token * 37 % (call->topk + 1));
        for (int64_t j = 0; j < call->topk; j++) {
            list[j] = (int32_t)(2 * (next(state) % (uint32_t)(call->s_kv / 2)));
            if (next(state) % 5 == 0 || token % 4 == 3)
                list[j] = invalid[next(state) % 4];
            if (j >= call->topk_length[token])
                list[j] = 1;
        }
    }
    for (int64_t row = 1; row < call->s_kv; row += 2)
        for (int d = 0; d < call->d_qk; d++)
            call->kv[row * call->d_qk + d] = NAN_BF16;
}

bool harness_call_make(const struct harness *harness, struct harness_call *call, int64_t s_q, int64_t s_kv,
                       int64_t topk)
{
    uint32_t state = 7;
    *call = (struct harness_call){.h_q = harness->h_q, .d_qk = harness->d_qk, .s_q = s_q, .s_kv = s_kv, .topk = topk};
    call->query = draw_rows((size_t)(s_q * call->h_q * call->d_qk), &state);
    call->kv = draw_rows((size_t)(s_kv * call->d_qk), &state);
    call->indices = calloc((size_t)(s_q * topk) + 1, 4);
    call->topk_length = calloc((size_t)s_q + 1, 4);
    call->attn_sink = calloc((size_t)call->h_q, 4);
    if (!call->query || !call->kv || !call->indices || !call->topk_length || !call->attn_sink)
        return false;
    draw_lists(call, &state);
    for (int head = 0; head < call->h_q; head++)
        call->attn_sink[head] = head == 3 ? INFINITY : head == 5 ? -INFINITY : draw(&state);
    call->args = (smla_prefill_args){.struct_size = sizeof(call->args),
                                     .s_q = s_q,
                                     .s_kv = s_kv,
                                     .topk = topk,
                                     .sm_scale = harness->sm_scale != 0 ? harness->sm_scale : 0.04419417f,
                                     .query = call->query,
                                     .kv = call->kv,
                                     .indices = call->indices,
                                     .topk_length = call->topk_length,
                                     .attn_sink = call->attn_sink};
    const smla_kernel_desc shape = {
        .struct_size = sizeof(shape), .op = SMLA_OP_PREFILL, .h_q = call->h_q, .d_qk = call->d_qk};
    return reference_prefill(&shape, &call->args, &call->expected);
}

void harness_call_free(struct harness_call *call)
{
    free(call->query);
    free(call->kv);
    free(call->indices);
    free(call->topk_length);
    free(call->attn_sink);
    reference_free(&call->expected);
    *call = (struct harness_call){0};
}

/* ---- The launch ---- */

static void *upload(struct emu_memory *memory, const void *bytes, size_t size, const char *what)
{
    const uint64_t address = emu_memory_alloc(memory, size, what);
    memcpy((void *)(uintptr_t)address, bytes, size);
    emu_memory_mark(memory, address, size);
    return (void *)(uintptr_t)address;
}

static void *make_output(struct emu_memory *memory, size_t size, const char *what)
{
    void *bytes = (void *)(uintptr_t)emu_memory_alloc(memory, size, what);
    memset(bytes, 0xff, size); /* NaN, as bf16 and float32 */
    return bytes;
}

static struct smla_prefill_params make_params(struct emu_memory *memory, const struct harness_call *call,
                                              size_t out_elem_bytes)
{
    const size_t rows = (size_t)(call->s_q * call->h_q), d_qk = (size_t)call->d_qk;
    return (struct smla_prefill_params){
        .query = upload(memory, call->query, rows * d_qk * 2, "query"),
        .cache = {{.kv = upload(memory, call->kv, (size_t)call->s_kv * d_qk * 2, "kv"),
                   .indices = upload(memory, call->indices, (size_t)(call->s_q * call->topk) * 4, "indices"),
                   .topk_length = upload(memory, call->topk_length, (size_t)call->s_q * 4, "topk_length"),
                   .kv_stride_token = call->d_qk,
                   .indices_stride_token = call->topk,
                   .topk_length_stride = 1,
                   .s_kv = (unsigned)call->s_kv,
                   .page_tokens = 1u << 31,
                   .page_multiplier = 1u << 31,
                   .page_shift = 62,
                   .topk = (int)call->topk}},
        .attn_sink = upload(memory, call->attn_sink, (size_t)call->h_q * 4, "attn_sink"),
        .out = make_output(memory, rows * D_V * out_elem_bytes, "out"),
        .lse = make_output(memory, rows * 4, "lse"),
        .max_logits = make_output(memory, rows * 4, "max_logits"),
        .query_stride_token = call->h_q * call->d_qk,
        .query_stride_head = call->d_qk,
        .out_stride_token = call->h_q * D_V,
        .out_stride_head = D_V,
        .lse_stride_token = call->h_q,
        .max_logits_stride_token = call->h_q,
        .s_q = call->s_q,
        .sm_scale = call->args.sm_scale};
}

static double *widen_out(const void *out, size_t count, bool is_bf16)
{
    double *values = malloc(count * sizeof(*values));
    for (size_t i = 0; values && i < count; i++)
        values[i] = is_bf16 ? (double)bf16_to_float(((const uint16_t *)out)[i]) : (double)((const float *)out)[i];
    return values;
}

static bool is_right(const struct harness *harness, const struct harness_call *call,
                     const struct smla_prefill_params *params)
{
    const int64_t rows = call->s_q * call->h_q;
    const bool decode = harness->op == SMLA_OP_DECODE;
    double *out = widen_out(params->out, (size_t)(rows * D_V), decode || harness->op == SMLA_OP_PREFILL);
    double *lse = widen_out(params->lse, (size_t)rows, false);
    double *max_logits = widen_out(params->max_logits, (size_t)rows, false);
    const bool right =
        out && lse && max_logits && compare_out(out, call->expected.out, call->expected.out_abs, rows, D_V).pass &&
        compare_log(lse, call->expected.lse, call->expected.logit_abs, rows, decode ? COMPARE_DECODE : COMPARE_PREFILL)
            .pass &&
        (decode ||
         compare_log(max_logits, call->expected.max_logits, call->expected.logit_abs, rows, COMPARE_PREFILL).pass);
    free(out);
    free(lse);
    free(max_logits);
    return right;
}

/* Few multiprocessors, so that blocks of a persistent kernel do several queries; of decode's three blocks the middle
 * one can begin and end in shared items. */
enum { SM_COUNT = 2, DECODE_SM_COUNT = 3 };

static uint32_t grid_blocks(const struct harness *harness, int64_t s_q)
{
    const int64_t blocks = s_q * harness->blocks_per_query * harness->cluster_blocks,
                  most = (int64_t)SM_COUNT * harness->blocks_per_sm;
    return (uint32_t)(most > 0 && most < blocks ? most : blocks);
}

/* [s_q, h_q, columns] bf16, as the runtime has it. */
static void encode_map(uint64_t address, const struct harness_call *call, int32_t columns, uint32_t heads,
                       struct smla_tensor_map *map)
{
    const uint64_t dims[3] = {(uint64_t)columns, (uint64_t)call->h_q, (uint64_t)call->s_q};
    const uint64_t strides[2] = {(uint64_t)columns * 2, (uint64_t)columns * 2 * (uint64_t)call->h_q};
    const uint32_t box[3] = {SMLA_MAP_COLUMNS, heads, 1}, steps[3] = {1, 1, 1};
    enum { L2_256B = 3 };

    /* A map that is not made stays zeros, which a kernel that uses it is stopped for. */
    emu_tensor_map_encode_tiled(map, EMU_MAP_BF16, 3, address, dims, strides, box, steps, EMU_MAP_INTERLEAVE_NONE,
                                EMU_MAP_SWIZZLE_128B, L2_256B, EMU_MAP_FILL_ZERO);
}

/* The maps are behind what kernels without them take. */
static struct smla_prefill_tensor_params with_maps(const struct smla_prefill_params *params,
                                                   const struct harness_call *call)
{
    struct smla_prefill_tensor_params with = {.prefill = *params};

    encode_map((uint64_t)(uintptr_t)params->query, call, call->d_qk, SMLA_QUERY_MAP_HEADS, &with.query_map);
    encode_map((uint64_t)(uintptr_t)params->out, call, D_V, SMLA_OUT_MAP_HEADS, &with.out_map);
    return with;
}

/* Each query a request. The workspace is memory that nobody has written. */
static struct smla_decode_params with_sharing(struct emu_memory *memory, const struct smla_prefill_params *params,
                                              const struct harness_call *call, const struct gen_decode_share *share)
{
    const uint64_t workspace = emu_memory_alloc(memory, (size_t)gen_decode_workspace(share) + 16, "workspace");
    struct smla_decode_params with = {.prefill = *params,
                                      .indices_stride_request = {call->topk},
                                      .topk_length_stride_request = {1},
                                      .query_stride_request = params->query_stride_token,
                                      .out_stride_request = params->out_stride_token,
                                      .lse_stride_request = params->lse_stride_token,
                                      .lse_stride_head = 1,
                                      .s_q = 1,
                                      .tokens = (int)call->s_q,
                                      .pieces = (int)share->pieces,
                                      .piece_blocks = (int)share->piece_blocks,
                                      .main_blocks = (int)share->main_blocks,
                                      .whole_items = (int)share->whole_items,
                                      .combine_runs = (int)share->combine_runs,
                                      .starts_early = 1};
    if (params->cache[0].topk_length == NULL) {
        with.even_share = (int)share->even_share;
        with.even_item_cost = (int)share->even_item_cost;
        with.even_token_cost = (int)share->even_token_cost;
        with.even_cuts = share->even_cuts;
        with.main_blocks = (int)share->even_main_blocks;
        with.even_parts = (int)share->even_parts;
        with.even_part_blocks = (int)share->even_part_blocks;
        with.even_parts_multiplier = gen_decode_multiplier(share);
    }
    with.prefill.max_logits = NULL; /* decode has none */
    if (share->parts > 0) {
        with.part_out = (float *)(uintptr_t)workspace;
        with.part_lse = (float *)(uintptr_t)(workspace + (uint64_t)share->part_out_bytes);
    }
    if (share->shared_bytes > 0)
        with.shared = (int *)(uintptr_t)(workspace + (uint64_t)(share->part_out_bytes + share->part_lse_bytes));
    return with;
}

static enum emu_result run_decode(const struct harness *harness, const struct harness_call *call,
                                  const struct emu_options *options, struct emu_report *report, bool *wrong)
{
    struct emu_memory *memory = emu_memory_create();
    const struct smla_prefill_params prefill = make_params(memory, call, 2);
    struct gen_decode_share share;
    gen_decode_make(&harness->decode, call->s_q, (int64_t[2]){call->topk, 0}, DECODE_SM_COUNT, &share);
    const struct smla_decode_params params = with_sharing(memory, &prefill, call, &share);
    struct emu_launch launch = {.kernel = harness->main,
                                .params = (const uint8_t *)&params,
                                .grid = {(uint32_t)params.main_blocks, 1, 1},
                                .block = {(uint32_t)harness->threads, 1, 1},
                                .cluster = {1, 1, 1},
                                .shared_bytes = (uint32_t)harness->shared_bytes,
                                .sm_count = DECODE_SM_COUNT,
                                .dependent = true};
    enum emu_result result = emu_run(&launch, options, memory, report);
    launch.kernel = harness->combine;
    launch.grid[0] = (uint32_t)share.combine_blocks;
    launch.block[0] = (uint32_t)harness->combine_threads;
    launch.shared_bytes = 0;
    if (result == EMU_OK && share.combine_blocks > 0)
        result = emu_run(&launch, options, memory, report);
    *wrong = !is_right(harness, call, &prefill);
    emu_memory_destroy(memory);
    return result;
}

enum emu_result harness_run(const struct harness *harness, const struct harness_call *call,
                            const struct emu_options *options, struct emu_report *report, bool *wrong)
{
    const bool reference = harness->op == SMLA_OP_PREFILL_REFERENCE;
    if (harness->op == SMLA_OP_DECODE)
        return run_decode(harness, call, options, report, wrong);
    struct emu_memory *memory = emu_memory_create();
    const struct smla_prefill_params params = make_params(memory, call, reference ? 4 : 2);
    const struct smla_prefill_tensor_params tensor_params = with_maps(&params, call);
    struct emu_launch launch = {.kernel = harness->kernel,
                                .params = (const uint8_t *)&tensor_params,
                                .grid = {grid_blocks(harness, call->s_q), reference ? (uint32_t)call->h_q : 1, 1},
                                .block = {(uint32_t)harness->threads, 1, 1},
                                .cluster = {(uint32_t)harness->cluster_blocks, 1, 1},
                                .shared_bytes = (uint32_t)harness->shared_bytes,
                                .sm_count = SM_COUNT,
                                .dependent = true}; /* the strictest: nothing before griddepcontrol.wait */
    const enum emu_result result = emu_run(&launch, options, memory, report);
    *wrong = !is_right(harness, call, &params);
    emu_memory_destroy(memory);
    return result;
}
