/* Times subjects (smla, rivals) in turn: device time by replaying graphs, host time by the clock. */
#ifndef SMLA_TOOLS_BENCH_MEASURE_H
#define SMLA_TOOLS_BENCH_MEASURE_H

#include "bench.h"
#include "bench_numbers.h"
#include "bench_nvml.h"

/* How a call went, or that there is none. */
enum bench_called { BENCH_LAUNCHED = 0, BENCH_NOT_ITS_SHAPE = 1, BENCH_FAULT = 2 };

/* Enqueues one launch with the arguments of a copy. why[]: a sentence unless BENCH_LAUNCHED. */
typedef enum bench_called (*bench_call_fn)(void *user, size_t copy, void *stream, char why[BENCH_WHY]);

struct bench_subject {
    const char *name;
    bench_call_fn call;
    void *user;
    /* What comes out. */
    enum bench_called called;
    char not_run[BENCH_WHY]; /* "" when it was measured */
    struct bench_spread us;  /* a launch on the device */
    struct bench_spread host_us;
    struct bench_spread mhz; /* no samples: not read */
    struct bench_spread watts;
    double difference, largest; /* of a rival's out to ours; our largest */
    /* While it runs. */
    void *graph;
    double *samples[3]; /* us, mhz, watts */
    size_t read;        /* clock and power samples */
};

struct bench_measure {
    struct device *device;
    const struct bench_nvml *nvml;
    void *stream, *begin, *end;
    int64_t runs;
    int64_t launches; /* of a replay; bench_measure_run chooses when it is 0 */
};

/* Makes the stream and the events. False after a fault. */
bool bench_measure_open(struct device *device, const struct bench_nvml *nvml, struct bench_measure *out);
void bench_measure_close(struct bench_measure *measure);

/* Calls a subject once and waits. False, with what happened in the subject, unless it ran. */
bool bench_measure_once(struct bench_measure *measure, struct bench_subject *subject);

/* Measures the subjects that have run once, the first of which is smla, replay by replay in turn. A subject that fails
 * says so in its not_run. */
void bench_measure_run(struct bench_measure *measure, struct bench_subject *subjects, size_t count, size_t copies);

#endif
