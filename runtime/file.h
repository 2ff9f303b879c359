/* Whole files within an open folder: read at once, replaced at once. Never mapped: a mapping of a file that another
 * host truncates ends the process with SIGBUS. */
#ifndef SMLA_RUNTIME_FILE_H
#define SMLA_RUNTIME_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum rt_read_result {
    RT_READ_OK,
    RT_READ_ABSENT,
    RT_READ_REFUSED, /* cannot or must not be read: permissions, a link, not trusted, no memory */
    RT_READ_DAMAGED  /* empty, too large, or shorter than it said */
};

struct rt_file {
    uint8_t *bytes; /* malloc'd; NULL unless RT_READ_OK */
    size_t size;
    struct stat status; /* of what was opened; filled for RT_READ_OK and RT_READ_DAMAGED */
};

/* Reads a regular file that rt_is_trusted, of at most max_size bytes. Other results than OK and ABSENT come with a
 * sentence. */
enum rt_read_result rt_file_read(int folder, const char *name, size_t max_size, struct rt_file *out, char why[256]);

/* Puts a file in place at once: writes `temporary` (which must not exist) in the same folder, 0600 whatever the umask,
 * synchronises it and renames it. Returns 0, or an errno with nothing left behind. */
int rt_file_publish(int folder, const char *temporary, const char *name, const void *bytes, size_t size);

enum rt_remove_result {
    RT_REMOVED,
    RT_REMOVE_GONE,    /* somebody else has removed it */
    RT_REMOVE_CHANGED, /* another file than the one that was looked at: left alone */
    RT_REMOVE_FAILED   /* errno says why */
};

/* Removes a file unless it is another by now than the one that `status` was taken of. */
enum rt_remove_result rt_file_remove_if_same(int folder, const char *name, const struct stat *status);

#endif
