/* A limit on the time of a self-test: whatever hangs, the program ends and says what it was doing. */
#ifndef SMLA_TOOLS_RUN_WATCH_H
#define SMLA_TOOLS_RUN_WATCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "run_cuda.h"

enum { WATCH_DOING = 256 };

/* Made by run_watch_start, which leaves it empty where there is no limit: then the others do nothing. */
struct run_watch {
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t ended;
    bool runs; /* the thread does: set and read by the one who started it */
    bool stops;
    int64_t limit_s;
    const struct run_session *session; /* NULL: not open */
    char doing[WATCH_DOING];
};

/* From now on there are limit_s seconds (0: no limit) until run_watch_stop; then the process ends at once, with
 * CLI_DEVICE_FAULT and the reason on standard error. Returns CLI_FINE or an exit code, told. */
int run_watch_start(struct run_watch *watch, int64_t limit_s);
void run_watch_stop(struct run_watch *watch);

/* Says what is done now, and with which session: one that stays open until the next call. May be NULL. */
void run_watch_doing(struct run_watch *watch, const struct run_session *session, const char *doing);

/* Device and versions in two lines, and the cache's state in one, as text[]. */
enum { RUN_STATE = 1024 };
void run_watch_device(const struct run_session *session, char text[RUN_STATE]);
void run_watch_cache(const struct run_session *session, char text[RUN_STATE]);

#endif
