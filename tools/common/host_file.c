#include "host_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fail(char why[FILE_WHY], const char *action, const char *path)
{
    snprintf(why, FILE_WHY, "cannot %s '%s': %s", action, path, strerror(errno));
    return false;
}

/* Reads until the end; pipes and /proc do not tell their size. */
static bool read_all(int fd, uint8_t **bytes, size_t *size_bytes)
{
    size_t capacity = 1 << 16;
    uint8_t *buffer = malloc(capacity);
    size_t size = 0;
    while (buffer != NULL) {
        const ssize_t got = read(fd, buffer + size, capacity - size - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            break;
        if (got == 0) {
            buffer[size] = 0;
            *bytes = buffer;
            *size_bytes = size;
            return true;
        }
        size += (size_t)got;
        if (capacity - size > 1)
            continue;
        uint8_t *grown = realloc(buffer, capacity * 2);
        if (grown == NULL)
            break;
        buffer = grown;
        capacity *= 2;
    }
    free(buffer);
    return false;
}

bool file_read(const char *path, uint8_t **bytes, size_t *size_bytes, char why[FILE_WHY])
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail(why, "open", path);
    const bool ok = read_all(fd, bytes, size_bytes) || fail(why, "read", path);
    close(fd);
    return ok;
}

static bool write_all(int fd, const uint8_t *bytes, size_t size_bytes)
{
    while (size_bytes > 0) {
        const ssize_t done = write(fd, bytes, size_bytes);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        bytes += done;
        size_bytes -= (size_t)done;
    }
    return true;
}

static bool write_in_place(const char *path, const void *bytes, size_t size_bytes, char why[FILE_WHY])
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return fail(why, "open", path);
    const bool ok = write_all(fd, bytes, size_bytes);
    return (close(fd) == 0 && ok) || fail(why, "write", path);
}

/* Opens a new file beside `path`; the name is malloc'd. */
static int open_beside(const char *path, char **name)
{
    static uint32_t counter;
    const size_t size = strlen(path) + 40;
    *name = malloc(size);
    if (*name == NULL)
        return -1;
    const uint32_t serial = __atomic_add_fetch(&counter, 1, __ATOMIC_RELAXED);
    snprintf(*name, size, "%s.%ld-%u.tmp", path, (long)getpid(), serial);
    return open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

static bool write_beside(const char *path, const void *bytes, size_t size_bytes)
{
    char *name = NULL;
    const int fd = open_beside(path, &name);
    bool ok = fd >= 0;
    if (ok) {
        ok = write_all(fd, bytes, size_bytes) && fsync(fd) == 0;
        ok = close(fd) == 0 && ok;
        ok = ok && rename(name, path) == 0;
        const int saved = errno;
        if (!ok)
            unlink(name);
        errno = saved;
    }
    free(name);
    return ok;
}

bool file_write(const char *path, const void *bytes, size_t size_bytes, char why[FILE_WHY])
{
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        errno = EISDIR;
        return fail(why, "write", path);
    }
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return write_in_place(path, bytes, size_bytes, why);
    return write_beside(path, bytes, size_bytes) || fail(why, "write", path);
}

bool file_make_folder(const char *path, char why[FILE_WHY])
{
    struct stat info;
    if (mkdir(path, 0777) == 0 || (errno == EEXIST && stat(path, &info) == 0 && S_ISDIR(info.st_mode)))
        return true;
    return fail(why, "make the folder", path);
}
