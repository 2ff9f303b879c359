#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "why.h"

enum { OPEN_FOLDER = O_RDONLY | O_DIRECTORY | O_CLOEXEC };

/* fchmod does not take what was opened by O_PATH. Where /proc is missing, opened for reading is the other way. */
static int set_mode_of(int path_only)
{
    char name[32];
    int error = 0;

    snprintf(name, sizeof name, "/proc/self/fd/%d", path_only);
    if (chmod(name, S_IRWXU) == 0)
        return 0;
    const int folder = openat(path_only, ".", OPEN_FOLDER);
    if (folder < 0 || fchmod(folder, S_IRWXU) != 0)
        error = errno;
    if (folder >= 0)
        close(folder);
    return error;
}

/* Gives a folder that was just made its mode: that folder, whatever has its name by now. */
static int set_mode(int parent, const char *name)
{
    /* Not for reading: the umask may have taken that away. It is the process's, and not ours to change. */
    const int folder = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat status;
    int error = 0;

    if (folder < 0)
        return errno;
    if (fstat(folder, &status) != 0)
        error = errno;
    else if (status.st_uid != geteuid())
        error = EPERM; /* somebody put another in its place */
    else if ((status.st_mode & 0777) != S_IRWXU)
        error = set_mode_of(folder);
    close(folder);
    return error;
}

int rt_folder_make_in(int parent, const char *name)
{
    struct stat status;
    int error;

    if (mkdirat(parent, name, S_IRWXU) == 0)
        return set_mode(parent, name);
    error = errno;
    /* Not only after EEXIST: a folder that is there may be reported as EROFS or EACCES. */
    if (fstatat(parent, name, &status, 0) != 0)
        return error == EEXIST ? errno : error;
    return S_ISDIR(status.st_mode) ? 0 : ENOTDIR;
}

/* Makes the folders of `path` up to each slash in turn; `path` is as before afterwards. */
static int make_parents(char *path)
{
    int error = 0;

    for (char *slash = strchr(path + 1, '/'); slash != NULL && error == 0; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        error = rt_folder_make_in(AT_FDCWD, path);
        *slash = '/';
    }
    return error;
}

int rt_folder_make(const char *path)
{
    char *copy = strdup(path);
    int error;

    if (copy == NULL)
        return ENOMEM;
    error = make_parents(copy);
    free(copy);
    return error != 0 ? error : rt_folder_make_in(AT_FDCWD, path);
}

/* In a user namespace, of every user that it does not know: root outside, too. */
enum { OVERFLOW_USER = 65534 };

static bool is_ours(const struct stat *status)
{
    return status->st_uid == geteuid() || status->st_uid == 0;
}

/* Whether `above`, a folder, keeps what lies in it from everybody else; `below` is the path of what lies in it. In a
 * sticky folder everybody may make a name and only its owner may change it. */
static bool keeps(const char *above, const char *below, char why[256])
{
    struct stat folder, entry;

    if (lstat(below, &entry) == 0 && S_ISLNK(entry.st_mode) && !is_ours(&entry))
        return rt_refuse(why, "'%.100s' above it is a symbolic link of user %u, not of user %u or root", below,
                         (unsigned)entry.st_uid, (unsigned)geteuid());
    if (stat(above, &folder) != 0 || (folder.st_mode & S_IWOTH) == 0)
        return true;
    if ((folder.st_mode & S_ISVTX) == 0)
        return rt_refuse(why, "'%.100s' above it can be written to by everybody (mode %04o)", above,
                         (unsigned)folder.st_mode & 07777u);
    if (!is_ours(&folder) && folder.st_uid != OVERFLOW_USER)
        return rt_refuse(why, "'%.100s' above it can be written to by everybody and belongs to user %u", above,
                         (unsigned)folder.st_uid);
    if (lstat(below, &entry) == 0 && !is_ours(&entry))
        return rt_refuse(why, "'%.100s' above it, in a folder that everybody can write to, belongs to user %u", below,
                         (unsigned)entry.st_uid);
    return true;
}

/* path: absolute; as it was before afterwards. */
static bool each_keeps(char *path, char why[256])
{
    bool kept = true;

    for (char *slash = path; kept && slash != NULL; slash = strchr(slash + 1, '/')) {
        char *next = strchr(slash + 1, '/');
        char above[PATH_MAX];

        if (slash[1] == '/' || slash[1] == '\0' || slash - path >= PATH_MAX)
            continue;
        memcpy(above, path, (size_t)(slash - path));
        strcpy(above + (slash - path), slash == path ? "/" : "");
        if (next != NULL)
            *next = '\0';
        kept = keeps(above, path, why);
        if (next != NULL)
            *next = '/';
    }
    return kept;
}

bool rt_folder_is_kept(const char *path, char why[256])
{
    char written[PATH_MAX], resolved[2 * PATH_MAX];
    size_t there;

    if (path[0] != '/' || strlen(path) >= sizeof written)
        return rt_refuse(why, "not an absolute path of less than %d bytes", PATH_MAX);
    strcpy(written, path);
    if (!each_keeps(written, why))
        return false;
    /* Where links lead to. What is not there yet is made in the last of what is. */
    for (there = strlen(path); realpath(written, resolved) == NULL; written[there] = '\0') {
        while (there > 1 && path[--there] != '/')
            ;
        if (there <= 1)
            return true;
    }
    strcat(resolved, path + there);
    return each_keeps(resolved, why);
}

bool rt_is_trusted(const struct stat *status, char why[256])
{
    const uid_t user = geteuid();

    if (!is_ours(status))
        return rt_refuse(why, "belongs to user %u, not to user %u or root", (unsigned)status->st_uid, (unsigned)user);
    if ((status->st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return rt_refuse(why, "others than its owner can write to it (mode %04o)", (unsigned)status->st_mode & 07777u);
    return true;
}

static int open_trusted(int parent, const char *name, int flags, int *error, char *why)
{
    struct stat status;
    const int folder = openat(parent, name, flags);

    if (folder < 0 || fstat(folder, &status) != 0) {
        *error = errno;
        rt_refuse(why, "%s", strerror(*error));
    } else if (!rt_is_trusted(&status, why)) {
        *error = EPERM;
    } else {
        return folder;
    }
    if (folder >= 0)
        close(folder);
    return -1;
}

int rt_folder_open(const char *path, int *error, char why[256])
{
    struct stat status;

    if (lstat(path, &status) == 0 && S_ISLNK(status.st_mode) && status.st_uid != geteuid() && status.st_uid != 0) {
        rt_refuse(why, "a symbolic link of user %u, not of user %u or root", (unsigned)status.st_uid,
                  (unsigned)geteuid());
        *error = EPERM;
        return -1;
    }
    return open_trusted(AT_FDCWD, path, OPEN_FOLDER, error, why);
}

int rt_folder_open_in(int parent, const char *name, int *error, char why[256])
{
    return open_trusted(parent, name, OPEN_FOLDER | O_NOFOLLOW, error, why);
}

DIR *rt_folder_list(int folder)
{
    const int copy = openat(folder, ".", OPEN_FOLDER);
    DIR *list = copy >= 0 ? fdopendir(copy) : NULL;

    if (list == NULL && copy >= 0)
        close(copy);
    return list;
}
