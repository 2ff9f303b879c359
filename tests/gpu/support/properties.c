#include "properties.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bits {
    uint8_t *bytes;
    size_t size;
};

/* Runs the call and takes the bytes of its outputs, gaps included. */
static bool run_for_bits(struct bench *bench, struct random_call *call, struct bits *out, char why[PROBLEM_WHY])
{
    *out = (struct bits){0};
    if (!problem_run(bench, bench->prefill, &call->problem, NULL, why))
        return false;
    out->bytes = problem_snapshot(bench, &call->problem, &out->size);
    if (!out->bytes)
        snprintf(why, PROBLEM_WHY, "the outputs cannot be read: %s", device_why(bench->device));
    return out->bytes != NULL;
}

/* Whether a run gives the bits of the first. */
static bool same_again(struct bench *bench, struct random_call *call, const struct bits *first, const char *what,
                       char why[PROBLEM_WHY])
{
    struct bits again;
    if (!run_for_bits(bench, call, &again, why))
        return false;
    size_t at = 0;
    while (at < first->size && first->bytes[at] == again.bytes[at])
        at++;
    free(again.bytes);
    if (at < first->size)
        snprintf(why, PROBLEM_WHY, "%s: byte %zu of the outputs (out %zu, lse %zu, max_logits %zu bytes) differs", what,
                 at, call->problem.out.size_bytes, call->problem.lse.size_bytes, call->problem.max_logits.size_bytes);
    return at == first->size;
}

/* The three outputs in a snapshot. */
struct outputs {
    const uint16_t *out;
    const float *lse, *max_logits;
};

static struct outputs outputs_of(const struct random_call *call, const uint8_t *bytes)
{
    const uint8_t *lse = bytes + call->problem.out.size_bytes;
    return (struct outputs){(const uint16_t *)(const void *)bytes, (const float *)(const void *)lse,
                            (const float *)(const void *)(lse + call->problem.lse.size_bytes)};
}

/* Nothing but rows of outputs is written: all else still holds the poison. */
static bool gaps_intact(const struct random_call *call, const struct bits *bits, char why[PROBLEM_WHY])
{
    enum { D_V = 512 };
    const struct problem_spec *spec = &call->problem.spec;
    const size_t width = (size_t)spec->h_q * 4;
    uint8_t *rest = malloc(bits->size + 1);
    if (!rest)
        return false;
    memcpy(rest, bits->bytes, bits->size);
    uint8_t *lse = rest + call->problem.out.size_bytes, *max_logits = lse + call->problem.lse.size_bytes;
    for (int64_t token = 0; token < spec->s_q; token++) {
        for (int64_t head = 0; head < spec->h_q; head++)
            memset(rest + random_call_out_at(call, token, head) * 2, 0xff, D_V * 2);
        memset(lse + random_call_lse_at(call, token) * 4, 0xff, width);
        memset(max_logits + random_call_max_at(call, token) * 4, 0xff, width);
    }
    size_t at = 0;
    while (at < bits->size && rest[at] == 0xff)
        at++;
    free(rest);
    if (at < bits->size)
        snprintf(why, PROBLEM_WHY, "byte %zu of the outputs is of no row and was written", at);
    return at == bits->size;
}

/* The chosen outputs alone: their bits as before, the others not touched. */
static bool wanted_alone(struct bench *bench, struct random_call *call, const struct bits *first, char why[PROBLEM_WHY])
{
    smla_prefill_args *args = &call->problem.args, all = *args;
    const int wanted = call->choices.value[AXIS_WANTED];
    struct bits expected = {malloc(first->size + 1), first->size};
    if (!expected.bytes)
        return false;
    memcpy(expected.bytes, first->bytes, first->size);
    uint8_t *lse = expected.bytes + call->problem.out.size_bytes;
    if (wanted != WANTED_LSE) {
        args->lse = NULL;
        memset(lse, 0xff, call->problem.lse.size_bytes);
    }
    if (wanted != WANTED_MAX_LOGITS) {
        args->max_logits = NULL;
        memset(lse + call->problem.lse.size_bytes, 0xff, call->problem.max_logits.size_bytes);
    }
    const bool same = same_again(bench, call, &expected, axis_word(AXIS_WANTED, wanted), why);
    *args = all;
    free(expected.bytes);
    return same;
}

/* Query t of the rotated call is query t + 1 of the first. */
static bool rotates(struct bench *bench, struct random_call *call, const struct bits *first, char why[PROBLEM_WHY])
{
    const struct problem_spec *spec = &call->problem.spec;
    struct bits rotated;
    if (!random_call_rotate(bench, call) || !run_for_bits(bench, call, &rotated, why))
        return false;
    const struct outputs was = outputs_of(call, first->bytes), is = outputs_of(call, rotated.bytes);
    const size_t width = (size_t)spec->h_q * 4;
    bool same = true;
    for (int64_t token = 0; same && token < spec->s_q; token++) {
        const int64_t from = (token + 1) % spec->s_q;
        for (int64_t head = 0; same && head < spec->h_q; head++)
            same = memcmp(is.out + random_call_out_at(call, token, head),
                          was.out + random_call_out_at(call, from, head), 1024) == 0;
        same = same &&
               memcmp(is.lse + random_call_lse_at(call, token), was.lse + random_call_lse_at(call, from), width) == 0 &&
               memcmp(is.max_logits + random_call_max_at(call, token), was.max_logits + random_call_max_at(call, from),
                      width) == 0;
        if (!same)
            snprintf(why, PROBLEM_WHY, "queries in another order: query %" PRId64 " has other bits as query %" PRId64,
                     from, token);
    }
    free(rotated.bytes);
    return same;
}

bool random_call_check(struct bench *bench, struct random_call *call, char figures[PROBLEM_WHY], char why[PROBLEM_WHY])
{
    struct bits first;
    if (!run_for_bits(bench, call, &first, why))
        return false;
    bool fine = problem_check(bench, &call->problem, why);
    memcpy(figures, why, PROBLEM_WHY);
    fine = fine && gaps_intact(call, &first, why) && same_again(bench, call, &first, "run again", why) &&
           wanted_alone(bench, call, &first, why) && random_call_spoil_rest(bench, call) &&
           same_again(bench, call, &first, "other values where no list selects", why) &&
           rotates(bench, call, &first, why);
    free(first.bytes);
    return fine;
}
