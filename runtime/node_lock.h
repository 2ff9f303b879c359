/* One compilation of a kernel at a time among the processes of a node: a lock file for each key, in a folder of this
 * user on this node. It saves work and nothing else: every failure means to go on without. */
#ifndef SMLA_RUNTIME_NODE_LOCK_H
#define SMLA_RUNTIME_NODE_LOCK_H

#include <stdbool.h>
#include <sys/stat.h>

#include "key.h"

/* flock on <folder>/<first 8 hex digits of the key>.lock, which nobody removes. The kernel frees the lock of a process
 * that died. A child forked while it is held has the descriptor too, until it executes a program (O_CLOEXEC) or ends:
 * rt_node_lock_close frees the lock for both, so that only the child of a holder that was killed keeps it, and others
 * wait for no lock for ever. (fcntl's locks of a process are not inherited, but do not tell its threads apart, and go
 * when any of them closes the file.)
 * The file's modification time is when a holder last ended without an entry: those who wait need not take turns then.
 */
struct rt_node_lock {
    int file;               /* -1: none */
    struct timespec failed; /* the file's time when it was opened */
};

enum rt_node_lock_state {
    RT_NODE_LOCK_HELD,
    RT_NODE_LOCK_BUSY, /* another process, or another thread of this one, has it */
    RT_NODE_LOCK_NONE  /* there is no lock to be had here */
};

/* Opens the lock file of a key in the first folder of these that belongs to this user alone: <runtime_dir>/smla,
 * /dev/shm/smla-<uid>; made 0700 when missing. runtime_dir: absolute, may be NULL. Takes no lock. False with a
 * sentence. */
bool rt_node_lock_open(const char *runtime_dir, const struct rt_key *key, struct rt_node_lock *lock, char why[256]);

/* Tries once, without waiting. NONE comes with a sentence. */
enum rt_node_lock_state rt_node_lock_try(struct rt_node_lock *lock, char why[256]);

/* True when a holder ended without an entry since the lock was opened. */
bool rt_node_lock_failed_meanwhile(const struct rt_node_lock *lock);

/* To be called by a holder that ends without an entry, before it closes. */
void rt_node_lock_tell_failure(const struct rt_node_lock *lock);

/* Frees the lock, if held, and closes the file. */
void rt_node_lock_close(struct rt_node_lock *lock);

#endif
