#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "why.h"

static enum rt_read_result refused(char *why, int error)
{
    rt_refuse(why, "%s", strerror(error));
    return RT_READ_REFUSED;
}

static enum rt_read_result check_status(const struct stat *status, size_t max_size, char *why)
{
    if (!S_ISREG(status->st_mode)) {
        rt_refuse(why, "not a regular file");
        return RT_READ_REFUSED;
    }
    if (!rt_is_trusted(status, why))
        return RT_READ_REFUSED;
    if (status->st_size <= 0 || (uintmax_t)status->st_size > max_size) {
        rt_refuse(why, "%jd bytes, and it has between 1 and %zu", (intmax_t)status->st_size, max_size);
        return RT_READ_DAMAGED;
    }
    return RT_READ_OK;
}

/* Reads exactly `size` bytes. */
static enum rt_read_result read_exactly(int file, uint8_t *bytes, size_t size, char *why)
{
    for (size_t done = 0; done < size;) {
        const ssize_t count = read(file, bytes + done, size - done);

        if (count > 0) {
            done += (size_t)count;
        } else if (count == 0) {
            rt_refuse(why, "ends after %zu of %zu bytes", done, size);
            return RT_READ_DAMAGED;
        } else if (errno != EINTR) {
            return refused(why, errno);
        }
    }
    return RT_READ_OK;
}

static enum rt_read_result read_open(int file, size_t max_size, struct rt_file *out, char *why)
{
    enum rt_read_result result;

    if (fstat(file, &out->status) != 0)
        return refused(why, errno);
    result = check_status(&out->status, max_size, why);
    if (result != RT_READ_OK)
        return result;
    out->size = (size_t)out->status.st_size;
    out->bytes = malloc(out->size);
    if (out->bytes == NULL)
        return refused(why, ENOMEM);
    result = read_exactly(file, out->bytes, out->size, why);
    if (result != RT_READ_OK) {
        free(out->bytes);
        out->bytes = NULL;
    }
    return result;
}

enum rt_read_result rt_file_read(int folder, const char *name, size_t max_size, struct rt_file *out, char why[256])
{
    enum rt_read_result result;
    /* O_NONBLOCK: opening a FIFO that somebody put there must not wait. */
    const int file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    *out = (struct rt_file){0};
    if (file < 0 && errno == ENOENT)
        return RT_READ_ABSENT;
    if (file < 0 && errno == ELOOP) {
        rt_refuse(why, "a symbolic link");
        return RT_READ_REFUSED;
    }
    if (file < 0)
        return refused(why, errno);
    result = read_open(file, max_size, out, why);
    close(file);
    return result;
}

static int write_all(int file, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t count = write(file, bytes, size);

        if (count < 0 && errno != EINTR)
            return errno;
        if (count == 0)
            return ENOSPC;
        if (count > 0) {
            bytes += count;
            size -= (size_t)count;
        }
    }
    return 0;
}

/* close() is where a network file system may tell that the disk is full. */
static int write_and_close(int file, const void *bytes, size_t size)
{
    int error = fchmod(file, S_IRUSR | S_IWUSR) == 0 ? 0 : errno;

    if (error == 0)
        error = write_all(file, bytes, size);
    if (error == 0 && fsync(file) != 0)
        error = errno;
    if (close(file) != 0 && error == 0)
        error = errno;
    return error;
}

int rt_file_publish(int folder, const char *temporary, const char *name, const void *bytes, size_t size)
{
    int error;
    const int file = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);

    if (file < 0)
        return errno;
    error = write_and_close(file, bytes, size);
    if (error == 0 && renameat(folder, temporary, folder, name) != 0)
        error = errno;
    if (error != 0)
        unlinkat(folder, temporary, 0);
    return error;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

enum rt_remove_result rt_file_remove_if_same(int folder, const char *name, const struct stat *status)
{
    struct stat now;

    if (fstatat(folder, name, &now, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? RT_REMOVE_GONE : RT_REMOVE_FAILED;
    if (!is_same(&now, status))
        return RT_REMOVE_CHANGED;
    if (unlinkat(folder, name, 0) == 0)
        return RT_REMOVED;
    return errno == ENOENT ? RT_REMOVE_GONE : RT_REMOVE_FAILED;
}
