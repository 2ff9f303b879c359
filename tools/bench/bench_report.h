/* The results of smla-bench prefill and decode: rows, as a table and as JSON. */
#ifndef SMLA_TOOLS_BENCH_REPORT_H
#define SMLA_TOOLS_BENCH_REPORT_H

#include "bench_ceilings.h"
#include "bench_measure.h"
#include "bench_nvml.h"

/* One shape. */
struct bench_row {
    struct bench_shape shape;
    char not_run[BENCH_WHY]; /* "" when it was measured */
    char variant[64];
    double keys, extra_keys; /* valid entries a launch, of the first lists and of the second */
    int64_t token_bytes, extra_token_bytes;
    int64_t launches; /* of a replay */
    size_t copies;
    size_t copy_bytes;
    struct bench_subject subjects[1 + BENCH_MAX_RIVALS]; /* smla, then rivals */
    size_t subject_count;
    struct bench_pool_ceiling ceiling; /* zeros: not measured */
};

/* What the card says of itself; 0: it does not. */
struct bench_card {
    int multiprocessors, l2_bytes, clock_khz, memory_clock_khz, memory_bus_bits;
    size_t memory_bytes;
    char driver[BENCH_NVML_TEXT]; /* by NVML; "": not known */
    int mig;                      /* by NVML; 1: the card is split, 0: it is not, -1: not known */
};

struct bench_report {
    uint32_t op;
    const char *command;
    const char *device;
    struct bench_card card;
    char target[8];
    int driver_version;
    char date[32]; /* UTC, ISO 8601 */
    int64_t runs;
    bool clocks_read;
    struct bench_row *rows;
    size_t row_count;
    const struct bench_ceilings *ceilings;
};

/* Bytes of query, lists and out that the launches of a replay use, one after the other. */
size_t bench_row_rotated_bytes(const struct bench_row *row);

/* Bytes of both caches, without the gaps between pages. */
int64_t bench_row_pool_bytes(const struct bench_row *row);

/* What a row's work comes to at a time. */
double bench_row_tflops(const struct bench_row *row, double us);
double bench_row_tbs(const struct bench_row *row, double us);

void bench_report_print(const struct bench_report *report);
int bench_report_print_json(const struct bench_report *report);

#endif
