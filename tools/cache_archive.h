/* Tar archives of entries, by libarchive. The library is opened when it is needed: smla-cache starts where it is
 * missing, as the other tools do, and warms or looks. */
#ifndef SMLA_TOOLS_CACHE_ARCHIVE_H
#define SMLA_TOOLS_CACHE_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CACHE_ARCHIVE_WHY = 512 };

/* Opens libarchive. Returns CLI_FINE, or CLI_UNAVAILABLE after a sentence. Call first. */
int cache_archive_load(void);

struct archive;

/* ---- Writing: ustar, without times and owners, so that the same files give the same bytes ---- */

/* NULL with a sentence. */
struct archive *cache_archive_create(int fd, char why[CACHE_ARCHIVE_WHY]);
bool cache_archive_add(struct archive *archive, const char *name, const uint8_t *bytes, size_t size_bytes,
                       char why[CACHE_ARCHIVE_WHY]);

/* Writes the end and frees the archive in every case. */
bool cache_archive_finish(struct archive *archive, char why[CACHE_ARCHIVE_WHY]);

/* ---- Reading: tar of any kind, not compressed ---- */

enum cache_member_kind { CACHE_MEMBER_END, CACHE_MEMBER_FILE, CACHE_MEMBER_FOLDER, CACHE_MEMBER_OTHER };

struct cache_member {
    enum cache_member_kind kind;
    char name[512]; /* cut to fit; '?' for bytes that are no printable ASCII */
    int64_t size_bytes;
};

/* NULL with a sentence. */
struct archive *cache_archive_open(int fd, char why[CACHE_ARCHIVE_WHY]);

/* The next member, or the end. */
bool cache_archive_next(struct archive *archive, struct cache_member *member, char why[CACHE_ARCHIVE_WHY]);

/* Reads a file's bytes, all of them. */
bool cache_archive_read(struct archive *archive, uint8_t *bytes, size_t size_bytes, char why[CACHE_ARCHIVE_WHY]);
void cache_archive_close(struct archive *archive);

#endif
