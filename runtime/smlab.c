#include "smlab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bytes.h"
#include "folder.h"
#include "why.h"

struct rt_smlab {
    char *path;
    int fd;
    uint64_t size; /* of the file when it was opened */
    struct rt_smlab_header header;
    struct rt_smlab_row *rows;
    bool *damaged; /* a row's entry was found so, and told; atomic */
};

/* ---- Opening ----------------------------------------------------------------------------------------------- */

static enum rt_read_result refused(char *why, int error)
{
    rt_refuse(why, "%s", strerror(error));
    return RT_READ_REFUSED;
}

static enum rt_read_result read_at(int fd, uint64_t offset, void *bytes, size_t size, char *why)
{
    for (size_t done = 0; done < size;) {
        const ssize_t count = pread(fd, (uint8_t *)bytes + done, size - done, (off_t)(offset + done));

        if (count > 0) {
            done += (size_t)count;
        } else if (count == 0) {
            rt_refuse(why, "the file ends at %llu, within what is to be read", (unsigned long long)(offset + done));
            return RT_READ_DAMAGED;
        } else if (errno != EINTR) {
            return refused(why, errno);
        }
    }
    return RT_READ_OK;
}

static enum rt_read_result check_file(struct rt_smlab *smlab, bool any_owner, char *why)
{
    struct stat status;

    if (fstat(smlab->fd, &status) != 0)
        return refused(why, errno);
    if (!S_ISREG(status.st_mode)) {
        rt_refuse(why, "not a regular file");
        return RT_READ_REFUSED;
    }
    if (!any_owner && !rt_is_trusted(&status, why))
        return RT_READ_REFUSED;
    smlab->size = (uint64_t)status.st_size;
    if (smlab->size >= RT_SMLAB_HEADER_MIN_BYTES)
        return RT_READ_OK;
    rt_refuse(why, "%llu bytes are too few for a header", (unsigned long long)smlab->size);
    return RT_READ_DAMAGED;
}

static enum rt_read_result read_header(struct rt_smlab *smlab, char *why)
{
    uint8_t bytes[RT_SMLAB_HEADER_MAX_BYTES];
    uint32_t size = 0;
    enum rt_read_result result = read_at(smlab->fd, 0, bytes, RT_SMLAB_HEADER_MIN_BYTES, why);

    if (result == RT_READ_OK && !rt_smlab_header_size(bytes, &size, why))
        return RT_READ_DAMAGED;
    if (result == RT_READ_OK)
        result = read_at(smlab->fd, 0, bytes, size, why);
    if (result == RT_READ_OK && !rt_smlab_header_read(bytes, size, &smlab->header, why))
        return RT_READ_DAMAGED;
    return result;
}

static enum rt_read_result read_index_into(struct rt_smlab *smlab, uint8_t *index, size_t size, char *why)
{
    const enum rt_read_result result = read_at(smlab->fd, smlab->header.index_offset, index, size, why);

    if (result != RT_READ_OK)
        return result;
    return rt_smlab_index_read(&smlab->header, index, smlab->rows, why) ? RT_READ_OK : RT_READ_DAMAGED;
}

/* The header, which has a digest, bounds the sizes; but they are compared with the file before memory is taken. */
static enum rt_read_result read_index(struct rt_smlab *smlab, char *why)
{
    const struct rt_smlab_header *header = &smlab->header;
    const size_t size = (size_t)(header->count * header->row_size);
    const size_t count = header->count > 0 ? (size_t)header->count : 1;
    enum rt_read_result result;
    uint8_t *index;

    if (smlab->size < header->index_offset || smlab->size - header->index_offset < size) {
        rt_refuse(why, "an index of %zu bytes in a file of %llu", size, (unsigned long long)smlab->size);
        return RT_READ_DAMAGED;
    }
    smlab->rows = calloc(count, sizeof *smlab->rows);
    smlab->damaged = calloc(count, sizeof *smlab->damaged);
    index = malloc(size > 0 ? size : 1);
    if (smlab->rows == NULL || smlab->damaged == NULL || index == NULL) {
        free(index);
        return refused(why, ENOMEM);
    }
    result = read_index_into(smlab, index, size, why);
    free(index);
    return result;
}

static enum rt_read_result read_open(struct rt_smlab *smlab, bool any_owner, char *why)
{
    enum rt_read_result result = check_file(smlab, any_owner, why);

    if (result == RT_READ_OK)
        result = read_header(smlab, why);
    if (result == RT_READ_OK)
        result = read_index(smlab, why);
    if (result == RT_READ_OK && smlab->size != smlab->header.file_size)
        rt_refuse(why, "%llu bytes where the header says %llu: entries that are whole are used",
                  (unsigned long long)smlab->size, (unsigned long long)smlab->header.file_size);
    else if (result == RT_READ_OK)
        why[0] = '\0';
    return result;
}

enum rt_read_result rt_smlab_open_fd(int fd, const char *path, bool any_owner, struct rt_smlab **out, char why[256])
{
    struct rt_smlab *smlab = calloc(1, sizeof *smlab);
    enum rt_read_result result;

    if (smlab == NULL) {
        close(fd);
        return refused(why, ENOMEM);
    }
    smlab->fd = fd;
    smlab->path = strdup(path);
    result = smlab->path == NULL ? refused(why, ENOMEM) : read_open(smlab, any_owner, why);
    if (result == RT_READ_OK)
        *out = smlab;
    else
        rt_smlab_close(smlab);
    return result;
}

enum rt_read_result rt_smlab_open(const char *path, bool any_owner, struct rt_smlab **out, char why[256])
{
    struct stat link;
    int fd;

    if (!any_owner && lstat(path, &link) == 0 && S_ISLNK(link.st_mode) && link.st_uid != geteuid() &&
        link.st_uid != 0) {
        rt_refuse(why, "a symbolic link of user %u, not of user %u or root", (unsigned)link.st_uid,
                  (unsigned)geteuid());
        return RT_READ_REFUSED;
    }
    /* O_NONBLOCK: opening a FIFO that somebody put there must not wait. */
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
        return rt_smlab_open_fd(fd, path, any_owner, out, why);
    const int error = errno;

    rt_refuse(why, "%s", strerror(error));
    return error == ENOENT || error == ENOTDIR ? RT_READ_ABSENT : RT_READ_REFUSED;
}

void rt_smlab_close(struct rt_smlab *smlab)
{
    if (smlab == NULL)
        return;
    close(smlab->fd);
    free(smlab->path);
    free(smlab->rows);
    free(smlab->damaged);
    free(smlab);
}

const char *rt_smlab_path(const struct rt_smlab *smlab)
{
    return smlab->path;
}

uint64_t rt_smlab_size(const struct rt_smlab *smlab)
{
    return smlab->size;
}

size_t rt_smlab_count(const struct rt_smlab *smlab)
{
    return (size_t)smlab->header.count;
}

const struct rt_smlab_row *rt_smlab_row(const struct rt_smlab *smlab, size_t index)
{
    return &smlab->rows[index];
}

/* ---- Reading ----------------------------------------------------------------------------------------------- */

/* Takes ownership of `bytes`. The digest of the index covers the row, the row's the entry's header, and that the rest
 * of the entry: nothing is digested twice. */
static bool read_entry_of(const struct rt_smlab_row *row, uint8_t *bytes, struct rt_entry *out, char *why)
{
    struct rt_entry entry;
    struct rt_digest digest;

    if (!rt_entry_read(bytes, (size_t)row->size, &row->key, &entry, why))
        return false;
    rt_entry_digest(&entry, &digest);
    if (memcmp(digest.bytes, row->entry_digest.bytes, RT_DIGEST_BYTES) != 0)
        rt_refuse(why, "another entry than the index says");
    else if (memcmp(&entry.info.builder.build_id, &row->builder.build_id, sizeof row->builder.build_id) != 0 ||
             entry.info.builder.nvrtc_major != row->builder.nvrtc_major ||
             entry.info.builder.nvrtc_minor != row->builder.nvrtc_minor)
        rt_refuse(why, "built by another compiler than the index says");
    else if (strcmp(entry.info.arch, row->arch) != 0)
        rt_refuse(why, "built for %s, and the index says %s", entry.info.arch, row->arch);
    else {
        *out = entry;
        return true;
    }
    rt_entry_free(&entry);
    return false;
}

enum rt_read_result rt_smlab_read(const struct rt_smlab *smlab, size_t index, struct rt_entry *out, char why[256])
{
    const struct rt_smlab_row *row = &smlab->rows[index];
    enum rt_read_result result;
    uint8_t *bytes;

    /* Before memory is taken for what is not there. */
    if (row->offset > smlab->size || row->size > smlab->size - row->offset) {
        rt_refuse(why, "the file ends before it does");
        return RT_READ_DAMAGED;
    }
    bytes = malloc((size_t)row->size);
    if (bytes == NULL)
        return refused(why, ENOMEM);
    result = read_at(smlab->fd, row->offset, bytes, (size_t)row->size, why);
    if (result != RT_READ_OK) {
        free(bytes);
        return result;
    }
    return read_entry_of(row, bytes, out, why) ? RT_READ_OK : RT_READ_DAMAGED;
}

bool rt_smlab_check_gaps(const struct rt_smlab *smlab, char why[256])
{
    const struct rt_smlab_header *header = &smlab->header;
    uint64_t end = header->header_size;

    for (size_t i = 0; i <= header->count; i++) {
        const uint64_t next = i == 0 ? header->index_offset : smlab->rows[i - 1].offset;
        uint8_t gap[64];

        if (next > smlab->size)
            return true; /* the entry is told */
        if (read_at(smlab->fd, end, gap, (size_t)(next - end), why) != RT_READ_OK)
            return false;
        if (!rt_all_zero(gap, (size_t)(next - end)))
            return rt_refuse(why, "padding at %llu that is not zero", (unsigned long long)end);
        end = i == 0 ? next + header->count * header->row_size : next + smlab->rows[i - 1].size;
    }
    return true;
}

/* ---- Finding ----------------------------------------------------------------------------------------------- */

/* The first row of a kernel, or of one that comes after it. */
static size_t first_row(const struct rt_smlab *smlab, const struct rt_key *key)
{
    static const struct rt_digest least;
    size_t low = 0, high = rt_smlab_count(smlab);

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (rt_smlab_compare(key, &least, &smlab->rows[middle]) > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_of(const struct rt_smlab_row *row, const struct rt_key *key)
{
    return row->key.kind == key->kind && memcmp(&row->key.kernel_id, &key->kernel_id, sizeof key->kernel_id) == 0;
}

/* Whether `a` is to be preferred to `b`: the wanted builder's, else the newer compiler's. */
static bool is_better(const struct rt_builder *a, const struct rt_builder *b, const struct rt_builder *wanted)
{
    if (wanted != NULL && memcmp(&a->build_id, &wanted->build_id, sizeof a->build_id) == 0)
        return true;
    if (wanted != NULL && memcmp(&b->build_id, &wanted->build_id, sizeof b->build_id) == 0)
        return false;
    return rt_builder_is_newer(a, b);
}

static void tell(const struct rt_smlab *smlab, const struct rt_smlab_row *row, enum rt_read_result result,
                 const char *why, const struct rt_log *log, struct rt_cache_counters *counters)
{
    const bool damaged = result == RT_READ_DAMAGED;
    const struct rt_event event = {.kind = damaged ? SMLA_EVENT_DAMAGE : SMLA_EVENT_UNUSED,
                                   .level = SMLA_LOG_WARNING,
                                   .status = SMLA_ERROR_IO,
                                   .tier = SMLA_TIER_BUNDLE,
                                   .key = &row->key};
    char id[RT_DIGEST_HEX];

    __atomic_fetch_add(damaged ? &counters->damaged : &counters->errors, 1, __ATOMIC_RELAXED);
    rt_digest_hex(&row->key.kernel_id, id);
    rt_tell(log, &event, "kernel %.16s in the bundle %s is %s: %s", id, smlab->path,
            damaged ? "damaged and not used" : "not used", why);
}

static bool is_wanted(const struct rt_wanted *wanted, const struct rt_smlab_row *row)
{
    return strcmp(row->arch, wanted->arch) == 0 && rt_is_of_builder(wanted, &row->builder) &&
           !rt_is_refused(wanted->refused, &row->entry_digest);
}

/* The row to read: of those that are wanted, and not known to be damaged, the best. rt_smlab_count: there is none. */
static size_t best_row(const struct rt_smlab *smlab, const struct rt_wanted *wanted)
{
    const size_t none = rt_smlab_count(smlab);
    size_t best = none;

    for (size_t i = first_row(smlab, wanted->key); i < none && is_of(&smlab->rows[i], wanted->key); i++) {
        if (__atomic_load_n(&smlab->damaged[i], __ATOMIC_RELAXED) || !is_wanted(wanted, &smlab->rows[i]))
            continue;
        if (best == none || is_better(&smlab->rows[i].builder, &smlab->rows[best].builder, wanted->builder))
            best = i;
    }
    return best;
}

bool rt_smlab_find(struct rt_smlab *smlab, const struct rt_wanted *wanted, const struct rt_log *log,
                   struct rt_cache_counters *counters, struct rt_entry *out)
{
    for (;;) {
        const size_t best = best_row(smlab, wanted);
        char why[RT_WHY_BYTES];

        if (best == rt_smlab_count(smlab))
            return false;
        const enum rt_read_result result = rt_smlab_read(smlab, best, out, why);

        if (result == RT_READ_OK) {
            out->tier = SMLA_TIER_BUNDLE;
            out->place = smlab->path;
            return true;
        }
        if (result != RT_READ_DAMAGED || !__atomic_exchange_n(&smlab->damaged[best], true, __ATOMIC_RELAXED))
            tell(smlab, &smlab->rows[best], result, why, log, counters);
        if (result != RT_READ_DAMAGED)
            return false;
    }
}
