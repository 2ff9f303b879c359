#include "bench_measure.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    LEAST_LAUNCHES = 4,
    MOST_LAUNCHES = 512,
    REPLAY_US = 10000, /* about what a replay takes */
    ESTIMATE_CALLS = 3,
    WARM_REPLAYS = 5,
    HOST_CALLS = 100,
    HOST_US = 50000 /* about what the calls for the host's time take at most */
};

enum { US, MHZ, WATTS, SAMPLES };

bool bench_measure_open(struct device *device, const struct bench_nvml *nvml, struct bench_measure *out)
{
    *out = (struct bench_measure){.device = device, .nvml = nvml};
    return device_stream_create(device, true, &out->stream) && device_event_create(device, &out->begin) &&
           device_event_create(device, &out->end);
}

void bench_measure_close(struct bench_measure *measure)
{
    if (measure->begin != NULL)
        device_event_destroy(measure->device, measure->begin);
    if (measure->end != NULL)
        device_event_destroy(measure->device, measure->end);
    if (measure->stream != NULL)
        device_stream_destroy(measure->device, measure->stream);
}

static bool fail(const struct bench_measure *measure, struct bench_subject *subject)
{
    subject->called = BENCH_FAULT;
    snprintf(subject->not_run, sizeof subject->not_run, "%s", device_why(measure->device));
    return false;
}

static bool runs(const struct bench_subject *subject)
{
    return subject->called == BENCH_LAUNCHED;
}

/* Enqueues a call. */
static bool call(struct bench_measure *measure, struct bench_subject *subject, size_t copy)
{
    char why[BENCH_WHY] = "";
    subject->called = subject->call(subject->user, copy, measure->stream, why);
    if (!runs(subject))
        snprintf(subject->not_run, sizeof subject->not_run, "%s", why);
    return runs(subject);
}

bool bench_measure_once(struct bench_measure *measure, struct bench_subject *subject)
{
    return call(measure, subject, 0) &&
           (device_stream_synchronize(measure->device, measure->stream) || fail(measure, subject));
}

/* ---- Host time ---- */

static bool estimate(struct bench_measure *measure, struct bench_subject *subject, double *us)
{
    float ms = 0;
    bool ok = device_event_record(measure->device, measure->begin, measure->stream);
    for (int i = 0; i < ESTIMATE_CALLS && ok; i++)
        if (!call(measure, subject, 0))
            return false;
    ok = ok && device_event_record(measure->device, measure->end, measure->stream) &&
         device_event_elapsed_ms(measure->device, measure->begin, measure->end, &ms);
    *us = ms * 1e3 / ESTIMATE_CALLS;
    return ok || fail(measure, subject);
}

/* Calls with the device idle. */
static bool time_host(struct bench_measure *measure, struct bench_subject *subject, double device_us, size_t copies)
{
    double samples[HOST_CALLS];
    size_t count = device_us * HOST_CALLS > HOST_US ? (size_t)(HOST_US / device_us) + 1 : HOST_CALLS;
    if (measure->runs < HOST_CALLS / 10 && count > (size_t)measure->runs)
        count = (size_t)measure->runs;
    for (size_t i = 0; i < count; i++) {
        const double begin = bench_now_ns();
        const bool ok = call(measure, subject, i % copies);
        samples[i] = (bench_now_ns() - begin) / 1e3;
        if (!ok)
            return false;
        if (!device_stream_synchronize(measure->device, measure->stream))
            return fail(measure, subject);
    }
    subject->host_us = bench_spread_of(samples, count);
    return true;
}

/* ---- Device time ---- */

static bool capture(struct bench_measure *measure, struct bench_subject *subject, size_t copies)
{
    if (!device_capture_begin(measure->device, measure->stream))
        return fail(measure, subject);
    bool ok = true;
    for (int64_t i = 0; i < measure->launches && ok; i++)
        ok = call(measure, subject, (size_t)i % copies);
    const bool ended = device_capture_end(measure->device, measure->stream, &subject->graph);
    return ok && (ended || fail(measure, subject));
}

/* Replays a subject's graph; the clocks are read while it runs. */
static bool replay(struct bench_measure *measure, struct bench_subject *subject, int64_t run)
{
    float ms = 0;
    double mhz, watts;
    if (!device_event_record(measure->device, measure->begin, measure->stream) ||
        !device_graph_launch(measure->device, subject->graph, measure->stream) ||
        !device_event_record(measure->device, measure->end, measure->stream))
        return fail(measure, subject);
    const bool read = bench_nvml_read(measure->nvml, &mhz, &watts);
    if (!device_event_elapsed_ms(measure->device, measure->begin, measure->end, &ms))
        return fail(measure, subject);
    if (run < 0)
        return true;
    subject->samples[US][run] = ms * 1e3 / (double)measure->launches;
    if (read) {
        subject->samples[MHZ][subject->read] = mhz;
        subject->samples[WATTS][subject->read++] = watts;
    }
    return true;
}

static bool prepare(struct bench_measure *measure, struct bench_subject *subject, size_t copies)
{
    double us = 0;
    subject->read = 0;
    for (int i = 0; i < SAMPLES; i++) {
        subject->samples[i] = calloc((size_t)measure->runs, sizeof(double));
        if (subject->samples[i] == NULL) {
            subject->called = BENCH_FAULT;
            snprintf(subject->not_run, sizeof subject->not_run, "out of memory");
            return false;
        }
    }
    if (!estimate(measure, subject, &us) || !time_host(measure, subject, us, copies))
        return false;
    if (measure->launches == 0) {
        const double wanted = us > 0 ? REPLAY_US / us : MOST_LAUNCHES;
        measure->launches = wanted < LEAST_LAUNCHES  ? LEAST_LAUNCHES
                            : wanted > MOST_LAUNCHES ? MOST_LAUNCHES
                                                     : (int64_t)wanted;
    }
    return capture(measure, subject, copies);
}

static void finish(struct bench_measure *measure, struct bench_subject *subject)
{
    if (runs(subject)) {
        subject->us = bench_spread_of(subject->samples[US], (size_t)measure->runs);
        subject->mhz = bench_spread_of(subject->samples[MHZ], subject->read);
        subject->watts = bench_spread_of(subject->samples[WATTS], subject->read);
    }
    for (int i = 0; i < SAMPLES; i++) {
        free(subject->samples[i]);
        subject->samples[i] = NULL;
    }
    if (subject->graph != NULL)
        device_graph_destroy(measure->device, subject->graph);
    subject->graph = NULL;
}

void bench_measure_run(struct bench_measure *measure, struct bench_subject *subjects, size_t count, size_t copies)
{
    const int64_t warm = measure->runs < WARM_REPLAYS ? 1 : WARM_REPLAYS;
    for (size_t i = 0; i < count; i++)
        if (runs(&subjects[i]))
            prepare(measure, &subjects[i], copies);
    for (int64_t run = -warm; run < measure->runs; run++)
        for (size_t i = 0; i < count; i++)
            if (runs(&subjects[i]))
                replay(measure, &subjects[i], run);
    for (size_t i = 0; i < count; i++)
        finish(measure, &subjects[i]);
}
