#include "node_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"
#include "why.h"

enum { KEY_HEX = 8 };

/* root's folder will not do, and others must not even read: who can open a lock file can hold its lock. */
static bool is_own(int folder, char *why)
{
    struct stat status;

    if (fstat(folder, &status) != 0)
        return rt_refuse(why, "%s", strerror(errno));
    if (status.st_uid != geteuid())
        return rt_refuse(why, "belongs to user %u, not to user %u", (unsigned)status.st_uid, (unsigned)geteuid());
    if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return rt_refuse(why, "others than its owner can enter it (mode %04o)", (unsigned)status.st_mode & 07777u);
    return true;
}

/* Opens parent/name, made when missing; the parent is not. -1 with a sentence that begins with the path. */
static int open_folder(const char *parent, const char *name, char *why)
{
    char reason[RT_WHY_BYTES];
    int error;
    int folder = -1;
    const int base = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);

    error = base < 0 ? errno : rt_folder_make_in(base, name);
    if (error != 0)
        rt_refuse(reason, "%s", strerror(error));
    else
        folder = rt_folder_open_in(base, name, &error, reason);
    if (base >= 0)
        close(base);
    if (folder >= 0 && is_own(folder, reason))
        return folder;
    if (folder >= 0)
        close(folder);
    rt_refuse(why, "%.100s/%.20s: %.100s", parent, name, reason);
    return -1;
}

static int open_first_folder(const char *runtime_dir, char *why)
{
    char name[32];
    int folder = runtime_dir != NULL ? open_folder(runtime_dir, "smla", why) : -1;

    snprintf(name, sizeof name, "smla-%u", (unsigned)geteuid());
    return folder >= 0 ? folder : open_folder("/dev/shm", name, why);
}

/* Mode 0600 whatever the umask; O_NONBLOCK: a FIFO of that name must not wait. */
static int open_file(int folder, const struct rt_key *key, struct rt_node_lock *lock)
{
    static const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    char hex[RT_DIGEST_HEX];
    char name[KEY_HEX + sizeof ".lock"];
    struct stat status;

    rt_digest_hex(&key->kernel_id, hex);
    snprintf(name, sizeof name, "%.*s.lock", (int)KEY_HEX, hex);
    lock->file = openat(folder, name, flags, S_IRUSR | S_IWUSR);
    if (lock->file < 0)
        return errno;
    if (fchmod(lock->file, S_IRUSR | S_IWUSR) != 0 || fstat(lock->file, &status) != 0)
        return errno;
    lock->failed = status.st_mtim;
    return 0;
}

bool rt_node_lock_open(const char *runtime_dir, const struct rt_key *key, struct rt_node_lock *lock, char why[256])
{
    int error;
    const int folder = open_first_folder(runtime_dir, why);

    lock->file = -1;
    if (folder < 0)
        return false;
    error = open_file(folder, key, lock);
    close(folder);
    if (error == 0)
        return true;
    rt_node_lock_close(lock);
    return rt_refuse(why, "a lock file cannot be opened: %s", strerror(error));
}

enum rt_node_lock_state rt_node_lock_try(struct rt_node_lock *lock, char why[256])
{
    if (lock->file < 0) {
        rt_refuse(why, "no lock file");
        return RT_NODE_LOCK_NONE;
    }
    if (flock(lock->file, LOCK_EX | LOCK_NB) == 0)
        return RT_NODE_LOCK_HELD;
    if (errno == EWOULDBLOCK || errno == EINTR)
        return RT_NODE_LOCK_BUSY;
    rt_refuse(why, "flock: %s", strerror(errno));
    return RT_NODE_LOCK_NONE;
}

bool rt_node_lock_failed_meanwhile(const struct rt_node_lock *lock)
{
    struct stat status;

    return fstat(lock->file, &status) != 0 || status.st_mtim.tv_sec != lock->failed.tv_sec ||
           status.st_mtim.tv_nsec != lock->failed.tv_nsec;
}

void rt_node_lock_tell_failure(const struct rt_node_lock *lock)
{
    /* Not UTIME_NOW: the kernel's own stamps may be milliseconds apart, and two failures must differ. */
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {0}};

    if (clock_gettime(CLOCK_REALTIME, &times[1]) == 0)
        (void)futimens(lock->file, times);
}

void rt_node_lock_close(struct rt_node_lock *lock)
{
    if (lock->file < 0)
        return;
    /* Closing alone would leave it to a child that was forked meanwhile. */
    (void)flock(lock->file, LOCK_UN);
    close(lock->file);
    lock->file = -1;
}
