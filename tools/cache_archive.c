#include "cache_archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

/* Its name since 2013 (libarchive 3.1); Debian's package is libarchive13. */
#define LIBRARY "libarchive.so.13"

#define SYMBOLS(X)                                                                                                     \
    X(archive_errno)                                                                                                   \
    X(archive_error_string)                                                                                            \
    X(archive_entry_new)                                                                                               \
    X(archive_entry_free)                                                                                              \
    X(archive_entry_set_pathname)                                                                                      \
    X(archive_entry_set_filetype)                                                                                      \
    X(archive_entry_set_perm)                                                                                          \
    X(archive_entry_set_size)                                                                                          \
    X(archive_entry_set_mtime)                                                                                         \
    X(archive_entry_pathname)                                                                                          \
    X(archive_entry_filetype)                                                                                          \
    X(archive_entry_hardlink)                                                                                          \
    X(archive_entry_size)                                                                                              \
    X(archive_write_new)                                                                                               \
    X(archive_write_set_format_ustar)                                                                                  \
    X(archive_write_add_filter_none)                                                                                   \
    X(archive_write_set_bytes_in_last_block)                                                                           \
    X(archive_write_open_fd)                                                                                           \
    X(archive_write_header)                                                                                            \
    X(archive_write_data)                                                                                              \
    X(archive_write_close)                                                                                             \
    X(archive_write_free)                                                                                              \
    X(archive_read_new)                                                                                                \
    X(archive_read_support_format_tar)                                                                                 \
    X(archive_read_open_fd)                                                                                            \
    X(archive_read_next_header)                                                                                        \
    X(archive_read_data)                                                                                               \
    X(archive_read_free)

static struct {
#define MEMBER(name) __typeof__(name) *name;
    SYMBOLS(MEMBER)
#undef MEMBER
} la;

int cache_archive_load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return cli_fail(CLI_UNAVAILABLE, "export and import need libarchive (Debian: libarchive13): %s", dlerror());
#define LOAD(name)                                                                                                     \
    {                                                                                                                  \
        void *address = dlsym(library, #name);                                                                         \
        if (address == NULL)                                                                                           \
            return cli_fail(CLI_UNAVAILABLE, LIBRARY " has no " #name);                                                \
        memcpy(&la.name, &address, sizeof address);                                                                    \
    }
    SYMBOLS(LOAD)
#undef LOAD
    return CLI_FINE; /* it stays open to the end */
}

static bool fail(struct archive *archive, char *why)
{
    const char *reason = archive != NULL ? la.archive_error_string(archive) : "out of memory";
    snprintf(why, CACHE_ARCHIVE_WHY, "%s", reason != NULL ? reason : "no reason given");
    return false;
}

/* libarchive says that writing failed; what the system said is the errno. */
static bool fail_write(struct archive *archive, char *why)
{
    const int error = archive != NULL ? la.archive_errno(archive) : 0;
    if (error <= 0)
        return fail(archive, why);
    snprintf(why, CACHE_ARCHIVE_WHY, "%s", strerror(error));
    return false;
}

/* ---- Writing ---- */

struct archive *cache_archive_create(int fd, char why[CACHE_ARCHIVE_WHY])
{
    struct archive *archive = la.archive_write_new();
    if (archive != NULL && la.archive_write_set_format_ustar(archive) == ARCHIVE_OK &&
        la.archive_write_add_filter_none(archive) == ARCHIVE_OK &&
        la.archive_write_set_bytes_in_last_block(archive, 1) == ARCHIVE_OK && /* the same into a pipe */
        la.archive_write_open_fd(archive, fd) == ARCHIVE_OK)
        return archive;
    fail_write(archive, why);
    la.archive_write_free(archive);
    return NULL;
}

bool cache_archive_add(struct archive *archive, const char *name, const uint8_t *bytes, size_t size_bytes,
                       char why[CACHE_ARCHIVE_WHY])
{
    struct archive_entry *entry = la.archive_entry_new();
    if (entry == NULL)
        return fail_write(NULL, why);
    la.archive_entry_set_pathname(entry, name);
    la.archive_entry_set_filetype(entry, AE_IFREG);
    la.archive_entry_set_perm(entry, 0600);
    la.archive_entry_set_size(entry, (la_int64_t)size_bytes);
    la.archive_entry_set_mtime(entry, 0, 0);
    const bool ok = la.archive_write_header(archive, entry) == ARCHIVE_OK &&
                    la.archive_write_data(archive, bytes, size_bytes) == (la_ssize_t)size_bytes;
    la.archive_entry_free(entry);
    return ok || fail_write(archive, why);
}

bool cache_archive_finish(struct archive *archive, char why[CACHE_ARCHIVE_WHY])
{
    const bool ok = la.archive_write_close(archive) == ARCHIVE_OK || fail_write(archive, why);
    la.archive_write_free(archive);
    return ok;
}

/* ---- Reading ---- */

struct archive *cache_archive_open(int fd, char why[CACHE_ARCHIVE_WHY])
{
    enum { BLOCK_BYTES = 64 << 10 };
    struct archive *archive = la.archive_read_new();
    if (archive != NULL && la.archive_read_support_format_tar(archive) == ARCHIVE_OK &&
        la.archive_read_open_fd(archive, fd, BLOCK_BYTES) == ARCHIVE_OK)
        return archive;
    fail(archive, why);
    la.archive_read_free(archive);
    return NULL;
}

static enum cache_member_kind kind_of(struct archive_entry *entry)
{
    if (la.archive_entry_hardlink(entry) != NULL)
        return CACHE_MEMBER_OTHER;
    switch (la.archive_entry_filetype(entry)) {
    case AE_IFREG:
        return CACHE_MEMBER_FILE;
    case AE_IFDIR:
        return CACHE_MEMBER_FOLDER;
    default:
        return CACHE_MEMBER_OTHER;
    }
}

bool cache_archive_next(struct archive *archive, struct cache_member *member, char why[CACHE_ARCHIVE_WHY])
{
    struct archive_entry *entry;
    *member = (struct cache_member){.kind = CACHE_MEMBER_END};
    const int result = la.archive_read_next_header(archive, &entry);
    if (result == ARCHIVE_EOF)
        return true;
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN)
        return fail(archive, why);
    const char *name = la.archive_entry_pathname(entry);
    member->kind = kind_of(entry);
    member->size_bytes = la.archive_entry_size(entry);
    snprintf(member->name, sizeof member->name, "%s", name != NULL ? name : "");
    /* An entry's name is plain; what is not must do no harm in a terminal or in JSON. */
    for (char *c = member->name; *c != 0; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    return true;
}

bool cache_archive_read(struct archive *archive, uint8_t *bytes, size_t size_bytes, char why[CACHE_ARCHIVE_WHY])
{
    size_t done = 0;
    while (done < size_bytes) {
        const la_ssize_t count = la.archive_read_data(archive, bytes + done, size_bytes - done);
        if (count < 0)
            return fail(archive, why);
        if (count == 0)
            break;
        done += (size_t)count;
    }
    if (done == size_bytes)
        return true;
    snprintf(why, CACHE_ARCHIVE_WHY, "it ends after %zu of %zu bytes", done, size_bytes);
    return false;
}

void cache_archive_close(struct archive *archive)
{
    la.archive_read_free(archive);
}
