/* Bundle files (*.smlab): many entries in one read-only file, found by an index that is read once, at opening
 * (docs/cache-format.md). Read by pread, never mapped. Not gen_bundle, which is a kernel's source. */
#ifndef SMLA_RUNTIME_SMLAB_H
#define SMLA_RUNTIME_SMLAB_H

#include "cache.h"
#include "file.h"

struct rt_smlab; /* opaque; safe to use from several threads */

/* What the index says of an entry. */
struct rt_smlab_row {
    struct rt_key key;
    struct rt_builder builder;
    struct rt_digest entry_digest; /* the entry's own (rt_entry_digest) */
    uint64_t offset;
    uint64_t size;
    char arch[16]; /* "sm_90a" */
};

/* Opens a bundle file and reads its header and index; the entries are read when they are wanted.
 * any_owner: also one that is not rt_is_trusted, for tools that were given its name.
 * RT_READ_OK: *out is the caller's; why[] is "" or says that the file lacks bytes at its end or has too many: entries
 * that are whole are served all the same. The others come with a sentence. rt_smlab_open follows a symbolic link of
 * this user or root; rt_smlab_open_fd takes the descriptor in every case. */
enum rt_read_result rt_smlab_open(const char *path, bool any_owner, struct rt_smlab **out, char why[256]);
enum rt_read_result rt_smlab_open_fd(int fd, const char *path, bool any_owner, struct rt_smlab **out, char why[256]);
void rt_smlab_close(struct rt_smlab *smlab);

const char *rt_smlab_path(const struct rt_smlab *smlab);
uint64_t rt_smlab_size(const struct rt_smlab *smlab); /* of the file, in bytes */

/* The rows, by kernel id, kind and build id. They belong to the bundle file. */
size_t rt_smlab_count(const struct rt_smlab *smlab);
const struct rt_smlab_row *rt_smlab_row(const struct rt_smlab *smlab, size_t index);

/* Reads and verifies the entry of a row. RT_READ_OK: *out is the caller's. RT_READ_DAMAGED, or RT_READ_REFUSED where
 * the file or memory failed, with a sentence. */
enum rt_read_result rt_smlab_read(const struct rt_smlab *smlab, size_t index, struct rt_entry *out, char why[256]);

/* Looks for an entry for a target (wanted->arch is not NULL). One that is damaged is passed over: counted and told
 * once. True: *out is verified and owned by the caller. */
bool rt_smlab_find(struct rt_smlab *smlab, const struct rt_wanted *wanted, const struct rt_log *log,
                   struct rt_cache_counters *counters, struct rt_entry *out);

/* Whether all between the entries is zero, which no digest covers; otherwise a sentence. */
bool rt_smlab_check_gaps(const struct rt_smlab *smlab, char why[256]);

/* ---- The format, as bytes (smlab_format.c) ------------------------------------------------------------------ */

enum {
    RT_SMLAB_HEADER_MIN_BYTES = 128,
    RT_SMLAB_HEADER_MAX_BYTES = 4096,
    RT_SMLAB_ROW_MIN_BYTES = 144,
    RT_SMLAB_ROW_MAX_BYTES = 4096,
    RT_SMLAB_INDEX_MAX_BYTES = 256 << 20
};

struct rt_smlab_header {
    uint32_t header_size;
    uint32_t row_size;
    uint64_t file_size;
    uint64_t index_offset;
    uint64_t count;
    struct rt_digest index_digest;
};

/* Reads the size of the header out of its first RT_SMLAB_HEADER_MIN_BYTES; false with a sentence when they are no
 * bundle file's of this format. */
bool rt_smlab_header_size(const uint8_t *start, uint32_t *size, char why[256]);

/* Reads a header of that size. What it says is believed only after its digest was found right. */
bool rt_smlab_header_read(const uint8_t *bytes, uint32_t size, struct rt_smlab_header *out, char why[256]);

/* Reads the index, header.count rows of header.row_size bytes. rows: room for header.count. */
bool rt_smlab_index_read(const struct rt_smlab_header *header, const uint8_t *index, struct rt_smlab_row *rows,
                         char why[256]);

/* Where the bytes after `size` begin: everything in the file lies on multiples of 64. */
uint64_t rt_smlab_align(uint64_t size);

/* Less than zero, zero or more by the order of rows: kernel id, kind, build id. */
int rt_smlab_compare(const struct rt_key *key, const struct rt_digest *build_id, const struct rt_smlab_row *row);

/* Builds a whole file from entries in any order; of two of one key and builder one is taken, always the same. The time
 * that the compilation took is left out, so that the same kernels give the same bytes. The entries stay the caller's;
 * *bytes is malloc'd. Returns SMLA_OK; INTERNAL; OUT_OF_MEMORY. On failure the outputs are untouched. */
smla_status rt_smlab_build(const struct rt_entry *entries, size_t count, uint8_t **bytes, size_t *size);

#endif
