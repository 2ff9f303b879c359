/* The shapes that smla-bench prefill and decode measure by themselves, and what is known of FlashMLA on some. */
#include "bench_shape.h"

#define SHAPE(heads, d, k, queries, rows)                                                                              \
    .op = SMLA_OP_PREFILL, .h_q = heads, .d_qk = d, .b = 1, .topk = k, .s_q = queries, .s_kv = rows, .sink = true

static const struct bench_shape prefill_table[] = {
    {SHAPE(64, 512, 640, 4096, 8192)},
    {SHAPE(64, 512, 640, 4096, 32768)},
    {SHAPE(64, 512, 640, 4096, 65536)},
    {SHAPE(64, 512, 640, 4096, 992383)},
    {SHAPE(64, 512, 512, 4096, 8192)},
    {SHAPE(64, 512, 512, 4096, 65536)},
    {SHAPE(64, 512, 640, 4096, 8192), .indices = BENCH_INDICES_DRIFT},
    {SHAPE(64, 512, 640, 4096, 65536), .indices = BENCH_INDICES_DRIFT},
    {SHAPE(64, 512, 640, 4096, 65536), .length_low = 320, .length_high = 640},
    {SHAPE(128, 512, 1024, 4096, 32768)},
    {SHAPE(128, 576, 2048, 4096, 32768)},
    {SHAPE(128, 576, 2048, 4096, 131072)},
    {SHAPE(64, 512, 640, 1, 8192)},
    {SHAPE(64, 512, 640, 7, 8192)},
    {SHAPE(64, 512, 640, 64, 8192)},
    {SHAPE(64, 512, 640, 128, 8192)},
    {SHAPE(64, 512, 640, 256, 8192)},
    {SHAPE(64, 512, 640, 512, 8192)},
    {SHAPE(8, 512, 640, 4096, 32768)},
    {SHAPE(16, 512, 640, 4096, 32768)},
    {SHAPE(32, 512, 640, 4096, 32768)},
    {SHAPE(64, 512, 640, 4096, 65536), .kv_format = "v4"},
    {SHAPE(64, 512, 640, 4096, 65536), .kv_format = "v41"},
    {SHAPE(64, 512, 640, 4096, 8192), .not_persistent = true},
    {SHAPE(128, 512, 1024, 4096, 32768), .not_persistent = true},
};

/* Issue 7's cases: queries of the models with a second cache, which have a window of 128 tokens in pages of 256 and 512
 * of the compressed ones, and of those with one. Each request has 256 slots of the window's cache and 32,768 of any
 * other. */
#define DECODE(requests, queries, heads, d)                                                                            \
    .op = SMLA_OP_DECODE, .b = requests, .s_q = queries, .h_q = heads, .d_qk = d, .sink = true
#define WINDOW(requests, format) .kv_format = format, .topk = 128, .s_kv = 256 * (requests), .page = 256
#define CONTEXT(requests, format, k) .kv_format = format, .topk = k, .s_kv = 32768 * (requests), .page = 64
#define EXTRA(requests, format)                                                                                        \
    .extra_kv_format = format, .extra_topk = 512, .extra_s_kv = 32768 * (requests), .extra_page = 64

#define TWO_CACHES(b, heads, format, extra)                                                                            \
    {                                                                                                                  \
        DECODE(b, 2, heads, 512), WINDOW(b, format), EXTRA(b, extra)                                                   \
    }
#define TWO_CACHES_OF(heads, format, extra)                                                                            \
    TWO_CACHES(1, heads, format, extra), TWO_CACHES(2, heads, format, extra), TWO_CACHES(8, heads, format, extra),     \
        TWO_CACHES(64, heads, format, extra), TWO_CACHES(128, heads, format, extra),                                   \
        TWO_CACHES(256, heads, format, extra)
#define V4_OF(heads)                                                                                                   \
    TWO_CACHES_OF(heads, "v4", "v4"), {DECODE(1, 1, heads, 512), WINDOW(1, "v4")},                                     \
        {DECODE(16, 1, heads, 512), WINDOW(16, "v4")}, {DECODE(64, 1, heads, 512), WINDOW(64, "v4")},                  \
    {                                                                                                                  \
        DECODE(148, 2, heads, 512), CONTEXT(148, "v4", 16384)                                                          \
    }
#define V32_OF(heads)                                                                                                  \
    {DECODE(2, 2, heads, 576), CONTEXT(2, "v32", 2048)}, {DECODE(64, 2, heads, 576), CONTEXT(64, "v32", 2048)},        \
        {DECODE(128, 2, heads, 576), CONTEXT(128, "v32", 2048)},                                                       \
    {                                                                                                                  \
        DECODE(148, 2, heads, 576), CONTEXT(148, "v32", 16384)                                                         \
    }

static const struct bench_shape decode_table[] = {
    V4_OF(64),
    V32_OF(128),
    V4_OF(8),
    V4_OF(16),
    V32_OF(8),
    V32_OF(16),
    /* One long request, and the same keys spread evenly. */
    {DECODE(64, 2, 64, 512), CONTEXT(64, "v4", 16384), .length_low = 128, .length_high = 128, .one_long = true},
    {DECODE(64, 2, 64, 512), CONTEXT(64, "v4", 382)},
    TWO_CACHES_OF(64, "v41", "v41_fp4"),
};

const struct bench_shapes *bench_shapes_of(uint32_t op)
{
    static const struct bench_shapes prefill = {
        prefill_table,
        sizeof prefill_table / sizeof prefill_table[0],
        {.op = SMLA_OP_PREFILL, .h_q = 64, .d_qk = 512, .b = 1, .topk = 640, .s_q = 4096, .s_kv = 65536}};
    static const struct bench_shapes decode = {
        decode_table,
        sizeof decode_table / sizeof decode_table[0],
        {.op = SMLA_OP_DECODE, .h_q = 64, .d_qk = 512, .b = 1, .topk = 640, .s_q = 1, .s_kv = 65536, .page = 64}};
    return op == SMLA_OP_DECODE ? &decode : &prefill;
}

/* FlashMLA at 9241ae3 on one NVIDIA H200, driver 580.159.04, 2026-11-29: graphs of 20 launches, h_q 64, d_qk 512, topk
 * 640, 8192 rows, uniform lists, sink; 4096 queries back to back, under the power cap. */
static const struct {
    int64_t s_q;
    double us;
} flashmla[] = {{1, 18.9}, {7, 19.2}, {64, 21.6}, {128, 23.9}, {256, 45.1}, {512, 88.5}, {1024, 176}, {4096, 690}};

double bench_flashmla_us(const struct bench_shape *shape)
{
    if (shape->op != SMLA_OP_PREFILL || shape->h_q != 64 || shape->d_qk != 512 || shape->topk != 640 ||
        shape->s_kv != 8192 || shape->kv_format[0] != 0 || shape->length_high != 0 || shape->page != 0 ||
        shape->indices != BENCH_INDICES_UNIFORM || !shape->sink || shape->sm_limit != 0)
        return 0;
    for (size_t i = 0; i < sizeof flashmla / sizeof flashmla[0]; i++)
        if (flashmla[i].s_q == shape->s_q)
            return flashmla[i].us;
    return 0;
}
