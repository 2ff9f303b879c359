#include "merge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bf16.h"
#include "compare.h"
#include "random_numbers.h"
#include "reference.h"

enum { MOST_HEADS = 128, D_V = 512, MOST_ELEMS = MOST_HEADS * D_V };

static bool fail_smla(char why[PROBLEM_WHY], const char *function)
{
    smla_error_info info = {.struct_size = sizeof(info)};
    smla_last_error(&info);
    snprintf(why, PROBLEM_WHY, "%s: %.900s", function, info.message);
    return false;
}

static bool fail_device(struct merger *merger, char why[PROBLEM_WHY])
{
    snprintf(why, PROBLEM_WHY, "no memory, or %s", device_why(merger->bench->device));
    return false;
}

bool merger_prepare(struct merger *merger, int32_t h_q, char why[PROBLEM_WHY])
{
    const smla_kernel_desc desc = {.struct_size = sizeof(desc), .op = SMLA_OP_COMBINE, .h_q = h_q};
    if (merger->kernel && merger->h_q == h_q)
        return true;
    smla_kernel_destroy(merger->kernel);
    merger->kernel = NULL;
    merger->h_q = h_q;
    return smla_prepare(merger->bench->context, &desc, &merger->kernel) == SMLA_OK || fail_smla(why, "smla_prepare");
}

/* ---- Inputs ---- */

/* In elements; whole multiples of 16 bytes where the call needs it. */
static void set_strides(struct merge *merge)
{
    const struct merge_spec *spec = &merge->spec;
    smla_combine_args *args = &merge->args;
    const int64_t gap = spec->strided ? 1 : 0;
    args->partial_out_stride_head = D_V + gap * 24;
    args->partial_out_stride_token = args->partial_out_stride_head * spec->h_q + gap * 8;
    args->partial_out_stride_part = args->partial_out_stride_token * spec->s_q + gap * 16;
    args->out_stride_head = D_V + gap * D_V;
    args->out_stride_token = args->out_stride_head * spec->h_q + gap * 24;
    args->partial_lse_stride_head = spec->strided ? 3 * spec->s_q + 1 : 1;
    args->partial_lse_stride_token = spec->strided ? 3 : spec->h_q;
    args->partial_lse_stride_part =
        spec->strided ? args->partial_lse_stride_head * spec->h_q + 5 : spec->s_q * spec->h_q;
    args->lse_stride_head = spec->strided ? 2 * spec->s_q + 3 : 1;
    args->lse_stride_token = spec->strided ? 2 : spec->h_q;
}

static size_t elem_bytes(bool is_float32)
{
    return is_float32 ? 4 : 2;
}

static void put(void *tensor, bool is_float32, int64_t at, float value)
{
    const uint16_t narrow = bf16_from_float(value);
    if (is_float32)
        memcpy((float *)tensor + at, &value, 4);
    else
        memcpy((uint16_t *)tensor + at, &narrow, 2);
}

static void fill_row(struct merge *merge, int64_t part, int64_t token, int64_t head, bool empty, uint64_t *state)
{
    static const float garbage[] = {NAN, INFINITY, -INFINITY, 3e38f};
    const struct merge_spec *spec = &merge->spec;
    const smla_combine_args *args = &merge->args;
    const float magnitude = spec->magnitude != 0 ? spec->magnitude : 1;
    const int64_t row = token * spec->h_q + head;
    const int64_t at = part * args->partial_out_stride_part + token * args->partial_out_stride_token +
                       head * args->partial_out_stride_head;
    for (int64_t d = 0; d < D_V; d++)
        put(merge->host[0], spec->partial_float32, at + d,
            empty ? garbage[(part + d) % 4] : random_normal(state) * magnitude);
    if (spec->nan_parts && !empty && row % 7 >= 5)
        put(merge->host[0], spec->partial_float32, at + (row * 31 + part) % D_V, row % 7 == 5 ? NAN : INFINITY);
}

static float draw_lse(const struct merge_spec *spec, int64_t part, int64_t row, bool empty, uint64_t *state)
{
    if (empty)
        return (part + row) % 2 ? INFINITY : -INFINITY;
    if (spec->nan_parts && row % 7 == 3 && part == row % spec->parts)
        return NAN;
    return spec->center + random_normal(state) * (spec->spread != 0 ? spec->spread : 3);
}

static void fill_parts(struct merge *merge, uint64_t *state)
{
    const struct merge_spec *spec = &merge->spec;
    const smla_combine_args *args = &merge->args;
    float *lse = merge->host[1];
    for (int64_t row = 0; row < spec->s_q * spec->h_q; row++) {
        const int64_t token = row / spec->h_q, head = row % spec->h_q;
        const bool dead = random_chance(state, spec->dead_rows);
        for (int64_t part = 0; part < spec->parts; part++) {
            const bool empty = dead || random_chance(state, spec->empty);
            lse[part * args->partial_lse_stride_part + token * args->partial_lse_stride_token +
                head * args->partial_lse_stride_head] = draw_lse(spec, part, row, empty, state);
            fill_row(merge, part, token, head, empty, state);
        }
    }
}

static float *make_sink(const struct merge_spec *spec, uint64_t *state)
{
    static const float special[] = {INFINITY, -INFINITY, 1e4f, -1e4f, 3e38f, -3e38f};
    float *sink = malloc((size_t)spec->h_q * sizeof(float));
    for (int head = 0; sink && head < spec->h_q; head++)
        sink[head] = head % 3 == 0 && head / 3 < 6 ? special[head / 3] : spec->center + random_normal(state) * 3;
    if (sink && spec->nan_sink)
        sink[spec->h_q > 7 ? 7 : 0] = NAN;
    return sink;
}

/* malloc'd and filled with NaN. */
static void *nan_bytes(size_t size)
{
    void *bytes = malloc(size + 1);
    return bytes ? memset(bytes, 0xff, size) : NULL;
}

static bool make_inputs(struct merger *merger, struct merge *merge)
{
    const struct merge_spec *spec = &merge->spec;
    struct device *device = merger->bench->device;
    uint64_t state = spec->seed * 1000003u + 4321;
    const size_t out_bytes =
        (size_t)(spec->parts * merge->args.partial_out_stride_part) * elem_bytes(spec->partial_float32);
    const size_t lse_bytes = (size_t)(spec->parts * merge->args.partial_lse_stride_part) * 4;
    const bool has_sink = spec->sink || spec->nan_sink;
    merge->host[0] = nan_bytes(out_bytes);
    merge->host[1] = nan_bytes(lse_bytes);
    merge->host[2] = has_sink ? make_sink(spec, &state) : NULL;
    if (!merge->host[0] || !merge->host[1] || (has_sink && !merge->host[2]))
        return false;
    fill_parts(merge, &state);
    return guarded_create(device, "partial_out", merge->host[0], out_bytes, &merge->partial_out) &&
           guarded_create(device, "partial_lse", merge->host[1], lse_bytes, &merge->partial_lse) &&
           (!has_sink || guarded_create(device, "attn_sink", merge->host[2], (size_t)spec->h_q * 4, &merge->attn_sink));
}

static bool make_outputs(struct merger *merger, struct merge *merge)
{
    const struct merge_spec *spec = &merge->spec;
    const smla_combine_args *args = &merge->args;
    const int64_t lse_elems = spec->strided ? args->lse_stride_head * spec->h_q : spec->s_q * spec->h_q;
    return guarded_create(merger->bench->device, "out", NULL,
                          (size_t)(spec->s_q * args->out_stride_token) * elem_bytes(spec->out_float32), &merge->out) &&
           guarded_create(merger->bench->device, "lse", NULL, (size_t)lse_elems * 4, &merge->lse);
}

bool merge_make(struct merger *merger, const struct merge_spec *spec, struct merge *out, char why[PROBLEM_WHY])
{
    memset(out, 0, sizeof(*out));
    out->spec = *spec;
    if (out->spec.h_q == 0)
        out->spec.h_q = 64;
    if (!merger_prepare(merger, out->spec.h_q, why))
        return false;
    out->args = (smla_combine_args){.struct_size = sizeof(smla_combine_args),
                                    .lse_flags = spec->lse_flags,
                                    .partial_lse_flags = spec->base_2 ? SMLA_LSE_BASE_2 : 0,
                                    .partial_dtype = spec->partial_float32 ? SMLA_DTYPE_FLOAT32 : SMLA_DTYPE_BF16,
                                    .out_dtype = spec->out_float32 ? SMLA_DTYPE_FLOAT32 : SMLA_DTYPE_BF16,
                                    .parts = spec->parts,
                                    .s_q = spec->s_q};
    set_strides(out);
    if (!make_inputs(merger, out) || !make_outputs(merger, out)) {
        merge_free(merger, out);
        return fail_device(merger, why);
    }
    out->args.partial_out = guarded_data(&out->partial_out);
    out->args.partial_lse = guarded_data(&out->partial_lse);
    out->args.attn_sink = guarded_data(&out->attn_sink);
    out->args.out = guarded_data(&out->out);
    out->args.lse = guarded_data(&out->lse);
    return true;
}

void merge_free(struct merger *merger, struct merge *merge)
{
    struct guarded *const buffers[] = {&merge->partial_out, &merge->partial_lse, &merge->attn_sink, &merge->out,
                                       &merge->lse};
    for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++)
        if (buffers[i]->base)
            guarded_destroy(merger->bench->device, buffers[i]);
    for (size_t i = 0; i < sizeof(merge->host) / sizeof(merge->host[0]); i++)
        free(merge->host[i]);
    memset(merge, 0, sizeof(*merge));
}

/* ---- Running and checking ---- */

bool merge_run(struct merger *merger, struct merge *merge, void *stream, char why[PROBLEM_WHY])
{
    struct device *device = merger->bench->device;
    if (!guarded_poison(device, &merge->out) || !guarded_poison(device, &merge->lse) || !device_synchronize(device))
        return fail_device(merger, why);
    if (smla_combine(merger->kernel, &merge->args, stream) != SMLA_OK)
        return fail_smla(why, "smla_combine");
    return device_synchronize(device) || fail_device(merger, why);
}

uint8_t *merge_snapshot(struct merger *merger, const struct merge *merge, size_t *size_bytes)
{
    *size_bytes = merge->out.size_bytes + merge->lse.size_bytes;
    uint8_t *bytes = malloc(*size_bytes + 1);
    if (bytes && device_download(merger->bench->device, bytes, guarded_data(&merge->out), merge->out.size_bytes) &&
        device_download(merger->bench->device, bytes + merge->out.size_bytes, guarded_data(&merge->lse),
                        merge->lse.size_bytes))
        return bytes;
    free(bytes);
    return NULL;
}

struct figures {
    struct compare_result out, lse;
    double float32_used; /* largest error of a float32 out, of its own bound */
};

static void keep_worst(struct compare_result *all, struct compare_result one)
{
    all->bound_used = fmax(all->bound_used, one.bound_used);
    all->max_ulp = fmax(all->max_ulp, one.max_ulp);
    all->cos = fmax(all->cos, one.cos);
    all->pass = all->pass && one.pass;
}

static double get(const void *tensor, bool is_float32, int64_t at)
{
    return is_float32 ? (double)((const float *)tensor)[at] : (double)bf16_to_float(((const uint16_t *)tensor)[at]);
}

/* Exact but for the weights, whose base-2 logarithms are off by 2^-23 of themselves at most. */
static double float32_used(const double *got, const struct reference_result *expected, int64_t count, float center)
{
    double used = 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(got[i]) && isfinite(expected->out[i]))
            used = fmax(used, fabs(got[i] - expected->out[i]) /
                                  (ldexp(expected->out_abs[i] * (1 + fabs((double)center)), -18) + 1e-30));
    return used;
}

/* A query token at a time, so that the copies in double stay small. */
static bool compare_token(const struct merge *merge, const uint8_t *snapshot, int64_t token, struct figures *figures)
{
    static double got[MOST_ELEMS];
    static const double zeros[MOST_HEADS];
    const struct merge_spec *spec = &merge->spec;
    const smla_kernel_desc shape = {.struct_size = sizeof(shape), .op = SMLA_OP_COMBINE, .h_q = spec->h_q};
    struct reference_result expected;
    smla_combine_args args = merge->args;
    args.s_q = 1;
    args.partial_out = (const uint8_t *)merge->host[0] +
                       (size_t)(token * args.partial_out_stride_token) * elem_bytes(spec->partial_float32);
    args.partial_lse = (const float *)merge->host[1] + token * args.partial_lse_stride_token;
    args.attn_sink = merge->host[2];
    if (!reference_combine(&shape, &args, &expected))
        return false;
    for (int64_t i = 0; i < spec->h_q * D_V; i++)
        got[i] =
            get(snapshot, spec->out_float32, token * args.out_stride_token + i / D_V * args.out_stride_head + i % D_V);
    keep_worst(&figures->out, compare_out(got, expected.out, expected.out_abs, spec->h_q, D_V));
    if (spec->out_float32)
        figures->float32_used =
            fmax(figures->float32_used, float32_used(got, &expected, spec->h_q * D_V, spec->center));
    const float *lse = (const float *)(const void *)(snapshot + merge->out.size_bytes);
    for (int64_t head = 0; head < spec->h_q; head++)
        expected.lse[head] = (double)(float)expected.lse[head]; /* a sink of 3e38 has no base-2 form in float */
    for (int64_t head = 0; head < spec->h_q; head++)
        got[head] = (double)lse[token * args.lse_stride_token + head * args.lse_stride_head];
    keep_worst(&figures->lse, compare_log(got, expected.lse, zeros, spec->h_q, COMPARE_PREFILL));
    reference_free(&expected);
    return true;
}

static bool check_surroundings(struct merger *merger, const struct merge *merge, char why[PROBLEM_WHY])
{
    const struct guarded *const buffers[] = {&merge->partial_out, &merge->partial_lse, &merge->attn_sink, &merge->out,
                                             &merge->lse};
    for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++) {
        char text[GUARDED_WHY];
        if (buffers[i]->base && guarded_check(merger->bench->device, buffers[i], text) != GUARDED_INTACT) {
            snprintf(why, PROBLEM_WHY, "%s", text);
            return false;
        }
    }
    return true;
}

/* The gaps of strided outputs still hold the poison. */
static bool gaps_intact(const struct merge *merge, const uint8_t *snapshot)
{
    const struct merge_spec *spec = &merge->spec;
    const smla_combine_args *args = &merge->args;
    const size_t elem = elem_bytes(spec->out_float32);
    const float *lse = (const float *)(const void *)(snapshot + merge->out.size_bytes);
    uint32_t bits;
    if (!spec->strided)
        return true;
    for (size_t i = 0; i < merge->out.size_bytes / elem; i++) {
        const int64_t in_token = (int64_t)i % args->out_stride_token;
        const bool written = in_token / args->out_stride_head < spec->h_q && in_token % args->out_stride_head < D_V;
        if (!written && (snapshot[i * elem] != 0xff || snapshot[i * elem + elem - 1] != 0xff))
            return false;
    }
    for (size_t i = 0; i < merge->lse.size_bytes / 4; i++) {
        const int64_t in_head = (int64_t)i % args->lse_stride_head;
        const bool written = in_head / args->lse_stride_token < spec->s_q && in_head % args->lse_stride_token == 0;
        memcpy(&bits, &lse[i], 4);
        if (!written && bits != 0xffffffffu)
            return false;
    }
    return true;
}

bool merge_check(struct merger *merger, const struct merge *merge, char why[PROBLEM_WHY])
{
    if (!check_surroundings(merger, merge, why))
        return false;
    size_t size_bytes;
    uint8_t *snapshot = merge_snapshot(merger, merge, &size_bytes);
    struct figures figures = {.out = {.pass = true}, .lse = {.pass = true}};
    bool ran = snapshot != NULL;
    for (int64_t token = 0; ran && token < merge->spec.s_q; token++)
        ran = compare_token(merge, snapshot, token, &figures);
    const bool intact = ran && gaps_intact(merge, snapshot);
    free(snapshot);
    if (!ran)
        return fail_device(merger, why);
    const int used = snprintf(why, PROBLEM_WHY, "bound used: out %.3f (%.2f ulp, cos %.1e), lse %.3f",
                              figures.out.bound_used, figures.out.max_ulp, figures.out.cos, figures.lse.bound_used);
    snprintf(why + used, (size_t)(PROBLEM_WHY - used), "%s%.3f%s", merge->spec.out_float32 ? ", float32 " : " / ",
             figures.float32_used, intact ? "" : "; a gap of an output was written");
    return intact && figures.out.pass && figures.lse.pass && figures.float32_used <= 1;
}
