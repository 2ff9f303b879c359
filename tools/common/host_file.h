/* Whole files in and out. */
#ifndef SMLA_TOOLS_HOST_FILE_H
#define SMLA_TOOLS_HOST_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FILE_WHY = 512 };

/* Reads a file; *bytes is malloc'd, with a NUL after its *size_bytes bytes. False with a sentence in why[]. */
bool file_read(const char *path, uint8_t **bytes, size_t *size_bytes, char why[FILE_WHY]);

/* Writes a file so that nobody sees half of it: a temporary file beside it, fsync, rename. What exists and is no
 * regular file (/dev/null, a pipe) is written in place. Any number of threads. False with a sentence in why[]. */
bool file_write(const char *path, const void *bytes, size_t size_bytes, char why[FILE_WHY]);

/* Makes one folder, unless it is there. False with a sentence in why[]. */
bool file_make_folder(const char *path, char why[FILE_WHY]);

#endif
