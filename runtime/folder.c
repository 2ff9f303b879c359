#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "why.h"

enum { OPEN_FOLDER = O_RDONLY | O_DIRECTORY | O_CLOEXEC };

int rt_folder_make_in(int parent, const char *name)
{
    struct stat status;
    int error;

    /* The umask may take bits away; it is the process's, and not ours to change. */
    if (mkdirat(parent, name, S_IRWXU) == 0)
        return fchmodat(parent, name, S_IRWXU, 0) == 0 ? 0 : errno;
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

bool rt_is_trusted(const struct stat *status, char why[256])
{
    const uid_t user = geteuid();

    if (status->st_uid != user && status->st_uid != 0)
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
