/* Made-up bundle files, and changes of them that keep the digests right. From docs/cache-format.md, not from the code.
 */
#ifndef SMLA_TESTS_CACHE_SAMPLE_SMLAB_H
#define SMLA_TESTS_CACHE_SAMPLE_SMLAB_H

#include "sample.h"
#include "smlab.h"

/* Of a bundle that this smla writes. */
enum { SMLAB_MAJOR = 8, SMLAB_MINOR = 10, SMLAB_HEADER_SIZE = 12, SMLAB_FILE_SIZE = 16, SMLAB_INDEX_OFFSET = 24 };
enum { SMLAB_COUNT = 32, SMLAB_ROW_SIZE = 40, SMLAB_INDEX_DIGEST = 48, SMLAB_HEADER = 128, SMLAB_ROW = 144 };
enum { ROW_KERNEL = 0, ROW_BUILD = 32, ROW_ENTRY = 64, ROW_AT = 96, ROW_BYTES = 104, ROW_KIND_AT = 112 };
enum { ROW_MAJOR = 116, ROW_MINOR = 120, ROW_TARGET = 128 };

struct sample_smlab {
    uint8_t *bytes;
    size_t size;
};

/* Builds one of entries in an array. */
struct sample_smlab sample_smlab_of(const struct rt_entry *entries, size_t count);
/* … and one of sample_entry(1) to sample_entry(count). */
struct sample_smlab sample_smlab_make(uint8_t count);

/* Where a row and its entry lie, by what the header and the row say. */
uint8_t *sample_smlab_row(const struct sample_smlab *smlab, size_t index);
uint8_t *sample_smlab_entry(const struct sample_smlab *smlab, size_t index);

/* Makes the digests of the index and the header right again, as far as they lie within the bytes. */
void sample_smlab_seal(uint8_t *bytes, size_t size);
/* … of an entry, and that digest in the index, before that. */
void sample_smlab_seal_entry(const struct sample_smlab *smlab, size_t index);

/* Opens bytes as a bundle file, without a file. NULL: refused, or damaged. */
struct rt_smlab *sample_smlab_open(const void *bytes, size_t size, char why[256]);
/* … which has to be sound. */
struct rt_smlab *sample_smlab_open_sound(const struct sample_smlab *smlab);

/* What searches count and log. */
struct sample_smlab_search {
    struct rt_cache_counters counters;
    struct sample_log log;
};

/* Looks for an entry, and ends the test when another is found. Returns the compiler's version of the one found, as in
 * 1208; 0: none. */
int32_t sample_smlab_find_with(struct sample_smlab_search *search, struct rt_smlab *smlab,
                               const struct rt_entry *wanted, const struct rt_builder *builder, int32_t max_major);
int32_t sample_smlab_find(struct rt_smlab *smlab, const struct rt_entry *wanted, const struct rt_builder *builder,
                          int32_t max_major);

/* Whether sample_entry(seed) is found. */
bool sample_smlab_serves(struct rt_smlab *smlab, uint8_t seed);

#endif
