/* Processes of one node that start at once and prepare the same kernels, on the stubs: what they did is in memory that
 * they share with the test. */
#ifndef SMLA_RUNTIME_RANKS_H
#define SMLA_RUNTIME_RANKS_H

#include <stdbool.h>
#include <sys/types.h>

#include "harness.h"

enum { MOST_RANKS = 32, MOST_KERNELS = 20, MOST_COMPILES = 1024 };

struct rank {
    pid_t pid;
    int ready;         /* kernels prepared */
    int warnings;      /* log lines of that level */
    char warning[512]; /* the last one */
    char failure[512]; /* the first error's message; empty when there was none */
    smla_stats_counters stats;
    int exit_status; /* as of waitpid */
};

struct ranks {
    /* Set by the test after ranks_new. */
    int count;
    int kernels;
    uint32_t cache_policy;
    const char *cache_dir; /* NULL: by the environment */
    int nodes;             /* 0 and 1: one; more: that many lock folders */
    int compile_us;
    uint32_t seed; /* of the order in which each prepares */
    /* Called in the process that compiles, with the number of the compilation; may be NULL. */
    void (*compiling)(struct ranks *ranks, int number);

    /* Made by ranks_new: the folder of everything; within it the cache's, which is cache_dir, and XDG_RUNTIME_DIR. */
    char *folder;
    char cache[512];
    char runtime_dir[512];

    /* Filled by the processes. */
    int started;
    pid_t forked; /* for a test that forks */
    int inside;   /* for a test that counts who is in the compiler at a time … */
    int most_inside;
    int compiles;
    struct {
        pid_t pid;
        uint64_t program;
    } compiled[MOST_COMPILES];
    struct rank rank[MOST_RANKS];
};

/* The stubs must be open (world_open_stubs). XDG_RUNTIME_DIR is set, for the processes. */
struct ranks *ranks_new(int count, int kernels);
/* Removes the folder. */
void ranks_free(struct ranks *ranks);

/* Starts the processes with fresh results; returns when all run. */
void ranks_start(struct ranks *ranks);
/* Waits for one of them to end, or for all. */
void ranks_wait(struct ranks *ranks, int number);
void ranks_join(struct ranks *ranks);
/* Starts and waits. */
void ranks_run(struct ranks *ranks);

/* True when `count` ended by themselves, each with every kernel and no error; otherwise prints what did not. */
bool ranks_all_ready(const struct ranks *ranks, int count);

/* Of the program that was compiled most often, how often that was. */
int ranks_most_compiles_of_one(const struct ranks *ranks);

/* Regular files below a folder. */
struct ranks_files {
    int entries;     /* *.smk; those that do not verify are `others` */
    int others;      /* the rest: printed */
    char other[256]; /* the last one's name */
};
struct ranks_files ranks_count_files(const char *folder);

/* Runs body(argument) in a child and returns what it returns; on RANKS_SKIPPED skips the test. For bodies, which must
 * not use cmocka's assertions: RANKS_CHECK returns 1 when a condition is false. */
enum { RANKS_SKIPPED = 77 };
int ranks_in_child(int (*body)(struct ranks *ranks), struct ranks *ranks);
#define RANKS_CHECK(condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                                  \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

/* For a child: new user and mount namespaces, in which this user is `uid`; or false, with the reason printed. */
bool ranks_enter_namespaces(unsigned uid);

#endif
