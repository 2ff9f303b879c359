/* The format of bundle files: docs/cache-format.md, which is to change with this file. */
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "error.h"
#include "smlab.h"
#include "why.h"

/* As an entry's, but for the letter. */
static const uint8_t magic[8] = {0x93, 'S', 'M', 'L', 'B', 0x0d, 0x0a, 0x1a};

enum { FORMAT_MAJOR = 1, FORMAT_MINOR = 0, ALIGNMENT = 64 };

/* Where the header's fields lie; zeros from 80 to its digest. */
enum {
    AT_MAJOR = 8,
    AT_MINOR = 10,
    AT_HEADER_SIZE = 12,
    AT_FILE_SIZE = 16,
    AT_INDEX_OFFSET = 24,
    AT_COUNT = 32,
    AT_ROW_SIZE = 40, /* and four bytes of zeros */
    AT_INDEX_DIGEST = 48
};

/* … and those of a row of the index. */
enum {
    ROW_KERNEL_ID = 0,
    ROW_BUILD_ID = 32,
    ROW_ENTRY_DIGEST = 64,
    ROW_OFFSET = 96,
    ROW_SIZE = 104,
    ROW_KIND = 112,
    ROW_NVRTC_MAJOR = 116,
    ROW_NVRTC_MINOR = 120, /* and four bytes of zeros */
    ROW_ARCH = 128
};

uint64_t rt_smlab_align(uint64_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

int rt_smlab_compare(const struct rt_key *key, const struct rt_digest *build_id, const struct rt_smlab_row *row)
{
    const int ids = memcmp(key->kernel_id.bytes, row->key.kernel_id.bytes, RT_DIGEST_BYTES);

    if (ids != 0)
        return ids;
    if (key->kind != row->key.kind)
        return key->kind < row->key.kind ? -1 : 1;
    return memcmp(build_id->bytes, row->builder.build_id.bytes, RT_DIGEST_BYTES);
}

/* ---- Reading ----------------------------------------------------------------------------------------------- */

bool rt_smlab_header_size(const uint8_t *start, uint32_t *size, char why[256])
{
    if (memcmp(start, magic, sizeof magic) != 0)
        return rt_refuse(why, "not an smla bundle");
    if (rt_get_le16(start + AT_MAJOR) != FORMAT_MAJOR)
        return rt_refuse(why, "format %u, and this smla reads %d", (unsigned)rt_get_le16(start + AT_MAJOR),
                         FORMAT_MAJOR);
    *size = rt_get_le32(start + AT_HEADER_SIZE);
    if (*size < RT_SMLAB_HEADER_MIN_BYTES || *size > RT_SMLAB_HEADER_MAX_BYTES)
        return rt_refuse(why, "a header of %u bytes", (unsigned)*size);
    return true;
}

static bool is_digest_of(const uint8_t *digest, const void *bytes, size_t size)
{
    struct rt_digest actual;

    rt_digest_of(bytes, size, &actual);
    return memcmp(digest, actual.bytes, RT_DIGEST_BYTES) == 0;
}

bool rt_smlab_header_read(const uint8_t *bytes, uint32_t size, struct rt_smlab_header *out, char why[256])
{
    if (!is_digest_of(bytes + size - RT_DIGEST_BYTES, bytes, size - RT_DIGEST_BYTES))
        return rt_refuse(why, "the header does not match its digest");
    *out = (struct rt_smlab_header){.header_size = size,
                                    .row_size = rt_get_le32(bytes + AT_ROW_SIZE),
                                    .file_size = rt_get_le64(bytes + AT_FILE_SIZE),
                                    .index_offset = rt_get_le64(bytes + AT_INDEX_OFFSET),
                                    .count = rt_get_le64(bytes + AT_COUNT)};
    memcpy(out->index_digest.bytes, bytes + AT_INDEX_DIGEST, RT_DIGEST_BYTES);
    if (out->row_size < RT_SMLAB_ROW_MIN_BYTES || out->row_size > RT_SMLAB_ROW_MAX_BYTES)
        return rt_refuse(why, "an index with rows of %u bytes", (unsigned)out->row_size);
    if (out->count > RT_SMLAB_INDEX_MAX_BYTES / out->row_size || out->index_offset != rt_smlab_align(size))
        return rt_refuse(why, "an index of %llu rows at %llu", (unsigned long long)out->count,
                         (unsigned long long)out->index_offset);
    return true;
}

/* Copies a text that ends within its bytes and is followed by zeros alone. */
static bool read_arch(const uint8_t *bytes, char arch[16])
{
    memcpy(arch, bytes, 16);
    const size_t length = strnlen(arch, 16);

    return length > 0 && length < 16 && rt_all_zero(bytes + length, 16 - length);
}

static bool read_row(const uint8_t *bytes, struct rt_smlab_row *row)
{
    const uint32_t kind = rt_get_le32(bytes + ROW_KIND);

    memcpy(row->key.kernel_id.bytes, bytes + ROW_KERNEL_ID, RT_DIGEST_BYTES);
    memcpy(row->builder.build_id.bytes, bytes + ROW_BUILD_ID, RT_DIGEST_BYTES);
    memcpy(row->entry_digest.bytes, bytes + ROW_ENTRY_DIGEST, RT_DIGEST_BYTES);
    row->offset = rt_get_le64(bytes + ROW_OFFSET);
    row->size = rt_get_le64(bytes + ROW_SIZE);
    row->key.kind = kind == RT_KIND_PTX ? RT_KIND_PTX : RT_KIND_CUBIN;
    row->builder.nvrtc_major = (int32_t)rt_get_le32(bytes + ROW_NVRTC_MAJOR);
    row->builder.nvrtc_minor = (int32_t)rt_get_le32(bytes + ROW_NVRTC_MINOR);
    return kind == (uint32_t)row->key.kind && row->size > 0 && row->size <= RT_ENTRY_MAX_BYTES &&
           read_arch(bytes + ROW_ARCH, row->arch);
}

bool rt_smlab_index_read(const struct rt_smlab_header *header, const uint8_t *index, struct rt_smlab_row *rows,
                         char why[256])
{
    uint64_t end = header->index_offset + header->count * header->row_size;

    if (!is_digest_of(header->index_digest.bytes, index, header->count * header->row_size))
        return rt_refuse(why, "the index does not match its digest");
    for (uint64_t i = 0; i < header->count; i++) {
        struct rt_smlab_row *row = &rows[i];

        if (!read_row(index + i * header->row_size, row) || row->offset != rt_smlab_align(end))
            return rt_refuse(why, "row %llu of the index has a value that cannot be", (unsigned long long)i);
        if (i > 0 && rt_smlab_compare(&row->key, &row->builder.build_id, row - 1) <= 0)
            return rt_refuse(why, "row %llu of the index is out of order", (unsigned long long)i);
        end = row->offset + row->size;
    }
    if (end != header->file_size)
        return rt_refuse(why, "entries that end at %llu in a file of %llu bytes", (unsigned long long)end,
                         (unsigned long long)header->file_size);
    return true;
}

/* ---- Writing ----------------------------------------------------------------------------------------------- */

/* The same entry without what differs from one compilation to the next. */
static smla_status write_plain(const struct rt_entry *entry, struct rt_entry *out)
{
    struct rt_entry_info info = entry->info;

    info.compile_ms = 0;
    return rt_entry_write(&info, entry->payload, entry->payload_size, entry->log, out);
}

static void make_row(const struct rt_entry *entry, struct rt_smlab_row *row)
{
    *row = (struct rt_smlab_row){.key = entry->info.key, .builder = entry->info.builder, .size = entry->file_size};
    rt_entry_digest(entry, &row->entry_digest);
    memcpy(row->arch, entry->info.arch, sizeof row->arch);
}

/* By row; the digest decides between two of one key and builder. */
static int by_row(const void *left, const void *right)
{
    struct rt_smlab_row a, b;

    make_row(left, &a);
    make_row(right, &b);
    const int order = rt_smlab_compare(&a.key, &a.builder.build_id, &b);

    return order != 0 ? order : memcmp(a.entry_digest.bytes, b.entry_digest.bytes, RT_DIGEST_BYTES);
}

/* Sorts and drops the later ones of one row. Returns how many are left. */
static size_t sort_plain(struct rt_entry *plain, size_t count)
{
    size_t kept = 0;

    if (count > 0)
        qsort(plain, count, sizeof plain[0], by_row);
    for (size_t i = 0; i < count; i++) {
        struct rt_smlab_row last = {.size = 0};

        if (kept > 0)
            make_row(&plain[kept - 1], &last);
        if (kept > 0 && rt_smlab_compare(&plain[i].info.key, &plain[i].info.builder.build_id, &last) == 0) {
            rt_entry_free(&plain[i]);
            continue;
        }
        const struct rt_entry entry = plain[i];

        plain[i] = (struct rt_entry){0};
        plain[kept++] = entry;
    }
    return kept;
}

static void put_row(uint8_t *at, const struct rt_smlab_row *row)
{
    memcpy(at + ROW_KERNEL_ID, row->key.kernel_id.bytes, RT_DIGEST_BYTES);
    memcpy(at + ROW_BUILD_ID, row->builder.build_id.bytes, RT_DIGEST_BYTES);
    memcpy(at + ROW_ENTRY_DIGEST, row->entry_digest.bytes, RT_DIGEST_BYTES);
    rt_put_le64(at + ROW_OFFSET, row->offset);
    rt_put_le64(at + ROW_SIZE, row->size);
    rt_put_le32(at + ROW_KIND, (uint32_t)row->key.kind);
    rt_put_le32(at + ROW_NVRTC_MAJOR, (uint32_t)row->builder.nvrtc_major);
    rt_put_le32(at + ROW_NVRTC_MINOR, (uint32_t)row->builder.nvrtc_minor);
    memcpy(at + ROW_ARCH, row->arch, strnlen(row->arch, sizeof row->arch - 1));
}

static void put_digest_of(uint8_t *at, const void *bytes, size_t size)
{
    struct rt_digest digest;

    rt_digest_of(bytes, size, &digest);
    memcpy(at, digest.bytes, RT_DIGEST_BYTES);
}

static void put_header(uint8_t *file, size_t file_size, size_t count)
{
    const uint64_t index_offset = RT_SMLAB_HEADER_MIN_BYTES;

    memcpy(file, magic, sizeof magic);
    rt_put_le16(file + AT_MAJOR, FORMAT_MAJOR);
    rt_put_le16(file + AT_MINOR, FORMAT_MINOR);
    rt_put_le32(file + AT_HEADER_SIZE, RT_SMLAB_HEADER_MIN_BYTES);
    rt_put_le64(file + AT_FILE_SIZE, file_size);
    rt_put_le64(file + AT_INDEX_OFFSET, index_offset);
    rt_put_le64(file + AT_COUNT, count);
    rt_put_le32(file + AT_ROW_SIZE, RT_SMLAB_ROW_MIN_BYTES);
    put_digest_of(file + AT_INDEX_DIGEST, file + index_offset, count * RT_SMLAB_ROW_MIN_BYTES);
    put_digest_of(file + index_offset - RT_DIGEST_BYTES, file, index_offset - RT_DIGEST_BYTES);
}

/* Lays sorted entries out. file: NULL to learn the size alone, else zeros of that size. */
static size_t lay_out(const struct rt_entry *plain, size_t count, uint8_t *file)
{
    size_t end = RT_SMLAB_HEADER_MIN_BYTES + count * RT_SMLAB_ROW_MIN_BYTES;

    for (size_t i = 0; i < count; i++) {
        struct rt_smlab_row row;

        make_row(&plain[i], &row);
        row.offset = rt_smlab_align(end);
        end = row.offset + row.size;
        if (file == NULL)
            continue;
        put_row(file + RT_SMLAB_HEADER_MIN_BYTES + i * RT_SMLAB_ROW_MIN_BYTES, &row);
        memcpy(file + row.offset, plain[i].file, row.size);
    }
    if (file != NULL)
        put_header(file, end, count);
    return end;
}

static smla_status build_from(struct rt_entry *plain, size_t count, uint8_t **bytes, size_t *size)
{
    const size_t kept = sort_plain(plain, count);
    const size_t file_size = lay_out(plain, kept, NULL);
    uint8_t *file = calloc(1, file_size);

    if (file == NULL)
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a bundle of %zu bytes", file_size);
    lay_out(plain, kept, file);
    *bytes = file;
    *size = file_size;
    return SMLA_OK;
}

smla_status rt_smlab_build(const struct rt_entry *entries, size_t count, uint8_t **bytes, size_t *size)
{
    struct rt_entry *plain = calloc(count > 0 ? count : 1, sizeof *plain);
    smla_status status = SMLA_OK;

    if (plain == NULL)
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a list of %zu entries", count);
    if (count > RT_SMLAB_INDEX_MAX_BYTES / RT_SMLAB_ROW_MIN_BYTES)
        status = rt_fail(SMLA_ERROR_INTERNAL, "%zu entries: more than a bundle takes", count);
    for (size_t i = 0; i < count && status == SMLA_OK; i++)
        status = write_plain(&entries[i], &plain[i]);
    if (status == SMLA_OK)
        status = build_from(plain, count, bytes, size);
    for (size_t i = 0; i < count; i++)
        rt_entry_free(&plain[i]);
    free(plain);
    return status;
}
