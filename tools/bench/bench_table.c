/* The shapes that smla-bench prefill measures by itself, and what is known of FlashMLA on some. */
#include "bench_shape.h"

#define SHAPE(heads, d, k, queries, rows) .h_q = heads, .d_qk = d, .topk = k, .s_q = queries, .s_kv = rows, .sink = true

const struct bench_shape bench_default_shape = {.h_q = 64, .d_qk = 512, .topk = 640, .s_q = 4096, .s_kv = 65536};

const struct bench_shape bench_table[] = {
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
    {SHAPE(64, 512, 640, 4096, 8192), .persistent = true},
    {SHAPE(64, 512, 640, 4096, 65536), .persistent = true},
    {SHAPE(64, 512, 640, 4096, 65536), .indices = BENCH_INDICES_DRIFT, .persistent = true},
    {SHAPE(64, 512, 640, 4096, 65536), .length_low = 320, .length_high = 640, .persistent = true},
    {SHAPE(128, 512, 1024, 4096, 32768), .persistent = true},
    {SHAPE(64, 512, 640, 256, 8192), .persistent = true},
};
const size_t bench_table_count = sizeof bench_table / sizeof bench_table[0];

/* FlashMLA at 9241ae3 on one NVIDIA H200, driver 580.159.04, 2026-11-29: graphs of 20 launches, h_q 64, d_qk 512, topk
 * 640, 8192 rows, uniform lists, sink; 4096 queries back to back, under the power cap. */
static const struct {
    int64_t s_q;
    double us;
} flashmla[] = {{1, 18.9}, {7, 19.2}, {64, 21.6}, {128, 23.9}, {256, 45.1}, {512, 88.5}, {1024, 176}, {4096, 690}};

double bench_flashmla_us(const struct bench_shape *shape)
{
    if (shape->h_q != 64 || shape->d_qk != 512 || shape->topk != 640 || shape->s_kv != 8192 ||
        shape->kv_format[0] != 0 || shape->length_high != 0 || shape->page != 0 ||
        shape->indices != BENCH_INDICES_UNIFORM || !shape->sink || shape->sm_limit != 0)
        return 0;
    for (size_t i = 0; i < sizeof flashmla / sizeof flashmla[0]; i++)
        if (flashmla[i].s_q == shape->s_q)
            return flashmla[i].us;
    return 0;
}
