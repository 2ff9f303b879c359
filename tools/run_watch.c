#include "run_watch.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

/* ---- What is told ---- */

void run_watch_device(const struct run_session *session, char text[RUN_STATE])
{
    const int32_t capability = device_capability(session->device);
    char driver[32] = "unknown";
    int version;
    if (device_driver_version(session->device, &version))
        snprintf(driver, sizeof driver, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    snprintf(text, RUN_STATE, "device      %s, compute capability %d.%d\nversions    smla %s, driver %s\n",
             device_name(session->device), (int)(capability / 10), (int)(capability % 10), smla_version(), driver);
}

/* The last event of the context; false: there is none. */
static bool last_event(smla_context *context, smla_event *last)
{
    smla_event event = {.struct_size = sizeof event};
    size_t read = 1;
    bool found = false;
    for (uint64_t since = 0; smla_events(context, since, &event, 1, &read) == SMLA_OK && read > 0;
         since = event.number + 1) {
        *last = event;
        found = true;
    }
    return found;
}

void run_watch_cache(const struct run_session *session, char text[RUN_STATE])
{
    smla_stats_counters stats = {.struct_size = sizeof stats};
    smla_stats(session->context, &stats);
    snprintf(text, RUN_STATE,
             "cache       found: %llu in bundles, %llu in the system folder, %llu in the cache folder; compiled: %llu; "
             "written: %llu; damaged: %llu; not loaded: %llu; errors: %llu\n",
             (unsigned long long)stats.bundle_hits, (unsigned long long)stats.system_hits,
             (unsigned long long)stats.disk_hits, (unsigned long long)stats.compiles,
             (unsigned long long)stats.entries_written, (unsigned long long)stats.entries_damaged,
             (unsigned long long)stats.entries_refused, (unsigned long long)stats.cache_errors);
}

/* Whoever hangs may hold stdio's lock: nothing here takes it. */
static void write_text(const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        const ssize_t written = write(STDERR_FILENO, text, left);
        if (written <= 0)
            return;
        text += written;
        left -= (size_t)written;
    }
}

static void tell(const struct run_watch *watch)
{
    smla_event last;
    char text[RUN_STATE];
    snprintf(text, sizeof text, "%s: the self-test is not done after %lld s: %s\n", cli_tool(),
             (long long)watch->limit_s, watch->doing);
    write_text(text);
    if (watch->session == NULL)
        return;
    if (last_event(watch->session->context, &last)) {
        snprintf(text, sizeof text, "last        %s\n", last.message);
        write_text(text);
    }
    run_watch_device(watch->session, text);
    write_text(text);
    run_watch_cache(watch->session, text);
    write_text(text);
}

/* ---- The thread ---- */

static void *watch_until(void *user)
{
    struct run_watch *watch = user;
    struct timespec end;
    int result = 0;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += (time_t)watch->limit_s;
    pthread_mutex_lock(&watch->lock);
    while (!watch->stops && result == 0)
        result = pthread_cond_timedwait(&watch->ended, &watch->lock, &end);
    if (!watch->stops) {
        tell(watch);
        _exit(CLI_DEVICE_FAULT); /* no destructor: the driver's may hang, too */
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

int run_watch_start(struct run_watch *watch, int64_t limit_s)
{
    pthread_condattr_t attributes;
    *watch = (struct run_watch){.limit_s = limit_s, .doing = "nothing yet"};
    if (limit_s == 0)
        return CLI_FINE;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&watch->lock, NULL);
    pthread_cond_init(&watch->ended, &attributes);
    pthread_condattr_destroy(&attributes);
    watch->runs = pthread_create(&watch->thread, NULL, watch_until, watch) == 0;
    return watch->runs ? CLI_FINE : cli_fail(CLI_CHECK_FAILED, "there is no thread to be had for --timeout");
}

void run_watch_stop(struct run_watch *watch)
{
    if (!watch->runs)
        return;
    pthread_mutex_lock(&watch->lock);
    watch->stops = true;
    pthread_cond_signal(&watch->ended);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->ended);
    pthread_mutex_destroy(&watch->lock);
    watch->runs = false;
}

void run_watch_doing(struct run_watch *watch, const struct run_session *session, const char *doing)
{
    if (!watch->runs)
        return;
    pthread_mutex_lock(&watch->lock);
    watch->session = session;
    snprintf(watch->doing, sizeof watch->doing, "%s", doing);
    pthread_mutex_unlock(&watch->lock);
}
