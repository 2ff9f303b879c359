/* The file format: docs/cache-format.md, which is to change with this file. */
#include "entry.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "cubin_check.h"
#include "error.h"
#include "why.h"

/* A first byte that is no text, and line ends that a transfer as text would change. */
static const uint8_t magic[8] = {0x93, 'S', 'M', 'L', 'A', 0x0d, 0x0a, 0x1a};

enum { FORMAT_MAJOR = 1, FORMAT_MINOR = 0 };

/* Where the header's fields lie. */
enum {
    AT_MAGIC = 0,
    AT_MAJOR = 8,
    AT_MINOR = 10,
    AT_HEADER_SIZE = 12,
    AT_FILE_SIZE = 16,
    AT_PAYLOAD_OFFSET = 24,
    AT_PAYLOAD_SIZE = 32,
    AT_KERNEL_ID = 40,
    AT_BUILD_ID = 72,
    AT_PAYLOAD_DIGEST = 104,
    AT_KIND = 136,
    AT_METADATA = 144, /* the four bytes before it are zero */
};

enum {
    PAYLOAD_ALIGNMENT = 64,
    TAIL_BYTES = 16,      /* of zeros after the payload */
    FIELD_HEAD_BYTES = 8, /* tag, size */
    LOG_MAX_BYTES = 64 << 10
};

/* Metadata: tags are never renumbered. A reader skips what it does not know. */
enum {
    TAG_ARCH = 1,
    TAG_ENTRY_SYMBOL = 2,
    TAG_NVRTC_MAJOR = 3,
    TAG_NVRTC_MINOR = 4,
    TAG_PARAM_BYTES = 5,
    TAG_REGISTERS = 6,
    TAG_SPILL_BYTES = 7,
    TAG_LOCAL_BYTES = 8,
    TAG_STATIC_SHARED_BYTES = 9,
    TAG_COMPILE_MS = 10,
    TAG_DESCRIPTION = 11,
    TAG_LOG = 12
};

enum field_type { FIELD_TEXT, FIELD_NUMBER };

struct field {
    uint32_t tag;
    enum field_type type;
    size_t offset; /* in rt_entry_info */
    size_t size;
};

#define FIELD(tag, type, member)                                                                                       \
    {                                                                                                                  \
        tag, type, offsetof(struct rt_entry_info, member), sizeof(((struct rt_entry_info *)0)->member)                 \
    }

/* Every entry has all of them. */
static const struct field fields[] = {
    FIELD(TAG_ARCH, FIELD_TEXT, arch),
    FIELD(TAG_ENTRY_SYMBOL, FIELD_TEXT, entry_symbol),
    FIELD(TAG_NVRTC_MAJOR, FIELD_NUMBER, builder.nvrtc_major),
    FIELD(TAG_NVRTC_MINOR, FIELD_NUMBER, builder.nvrtc_minor),
    FIELD(TAG_PARAM_BYTES, FIELD_NUMBER, param_bytes),
    FIELD(TAG_REGISTERS, FIELD_NUMBER, registers),
    FIELD(TAG_SPILL_BYTES, FIELD_NUMBER, spill_bytes),
    FIELD(TAG_LOCAL_BYTES, FIELD_NUMBER, local_bytes),
    FIELD(TAG_STATIC_SHARED_BYTES, FIELD_NUMBER, static_shared_bytes),
    FIELD(TAG_COMPILE_MS, FIELD_NUMBER, compile_ms),
    FIELD(TAG_DESCRIPTION, FIELD_TEXT, description),
};

enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };

static size_t align_up(size_t size, size_t alignment)
{
    return (size + alignment - 1) / alignment * alignment;
}

/* ---- Writing ----------------------------------------------------------------------------------------------- */

/* Appends one metadata field at *at, which has room for it. */
static void put_field(uint8_t **at, uint32_t tag, const void *bytes, size_t size)
{
    rt_put_le32(*at, tag);
    rt_put_le32(*at + 4, (uint32_t)size);
    memcpy(*at + FIELD_HEAD_BYTES, bytes, size);
    *at += FIELD_HEAD_BYTES + size;
}

static void put_info_field(uint8_t **at, const struct field *field, const struct rt_entry_info *info)
{
    const uint8_t *member = (const uint8_t *)info + field->offset;
    uint8_t number[4];
    uint32_t value;

    if (field->type == FIELD_TEXT) {
        put_field(at, field->tag, member, strlen((const char *)member) + 1);
        return;
    }
    memcpy(&value, member, sizeof value);
    rt_put_le32(number, value);
    put_field(at, field->tag, number, sizeof number);
}

/* Writes the log with its NUL; returns where it will be found. */
static const char *put_log(uint8_t **at, const char *log)
{
    const size_t size = strnlen(log, LOG_MAX_BYTES);
    const char *text = (const char *)*at + FIELD_HEAD_BYTES;

    rt_put_le32(*at, TAG_LOG);
    rt_put_le32(*at + 4, (uint32_t)(size + 1));
    memcpy(*at + FIELD_HEAD_BYTES, log, size); /* the file is zero-filled: the NUL is there */
    *at += FIELD_HEAD_BYTES + size + 1;
    return text;
}

static void put_digest_of(uint8_t *at, const void *bytes, size_t size)
{
    struct rt_digest digest;

    rt_digest_of(bytes, size, &digest);
    memcpy(at, digest.bytes, sizeof digest.bytes);
}

static void put_header(uint8_t *file, size_t header_size, const struct rt_entry *entry)
{
    memcpy(file + AT_MAGIC, magic, sizeof magic);
    rt_put_le16(file + AT_MAJOR, FORMAT_MAJOR);
    rt_put_le16(file + AT_MINOR, FORMAT_MINOR);
    rt_put_le32(file + AT_HEADER_SIZE, (uint32_t)header_size);
    rt_put_le64(file + AT_FILE_SIZE, entry->file_size);
    rt_put_le64(file + AT_PAYLOAD_OFFSET, (uint64_t)(entry->payload - file));
    rt_put_le64(file + AT_PAYLOAD_SIZE, entry->payload_size);
    memcpy(file + AT_KERNEL_ID, entry->info.key.kernel_id.bytes, RT_DIGEST_BYTES);
    memcpy(file + AT_BUILD_ID, entry->info.builder.build_id.bytes, RT_DIGEST_BYTES);
    put_digest_of(file + AT_PAYLOAD_DIGEST, entry->payload, entry->payload_size);
    rt_put_le32(file + AT_KIND, (uint32_t)entry->info.key.kind);
    put_digest_of(file + header_size - RT_DIGEST_BYTES, file, header_size - RT_DIGEST_BYTES);
}

/* More than the header of any entry with this log takes. */
static size_t header_size_bound(const char *log)
{
    return AT_METADATA + sizeof(struct rt_entry_info) + (FIELD_COUNT + 1) * (FIELD_HEAD_BYTES + 1) +
           (log != NULL ? strnlen(log, LOG_MAX_BYTES) : 0) + RT_DIGEST_BYTES;
}

static bool is_terminated(const struct rt_entry_info *info)
{
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (fields[i].type == FIELD_TEXT && memchr((const char *)info + fields[i].offset, '\0', fields[i].size) == NULL)
            return false;
    }
    return true;
}

static smla_status check_writable(const struct rt_entry_info *info, size_t payload_size, const char *log)
{
    if (payload_size == 0)
        return rt_fail(SMLA_ERROR_INTERNAL, "an entry without code");
    if (payload_size > RT_ENTRY_MAX_BYTES - header_size_bound(log) - PAYLOAD_ALIGNMENT - TAIL_BYTES)
        return rt_fail(SMLA_ERROR_INTERNAL, "code of %zu bytes: an entry takes at most %d", payload_size,
                       (int)RT_ENTRY_MAX_BYTES);
    if (info->key.kind != RT_KIND_CUBIN && info->key.kind != RT_KIND_PTX)
        return rt_fail(SMLA_ERROR_INTERNAL, "an entry of unknown kind %d", (int)info->key.kind);
    if (!is_terminated(info))
        return rt_fail(SMLA_ERROR_INTERNAL, "an entry with a text that does not end");
    return SMLA_OK;
}

smla_status rt_entry_write(const struct rt_entry_info *info, const void *payload, size_t payload_size, const char *log,
                           struct rt_entry *out)
{
    struct rt_entry entry = {.info = *info, .payload_size = payload_size};
    smla_status status = check_writable(info, payload_size, log);
    size_t header_size;
    uint8_t *at;

    if (status != SMLA_OK)
        return status;
    entry.file = calloc(1, header_size_bound(log) + PAYLOAD_ALIGNMENT + payload_size + TAIL_BYTES);
    if (entry.file == NULL)
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a cache entry of %zu bytes", payload_size);
    at = entry.file + AT_METADATA;
    for (size_t i = 0; i < FIELD_COUNT; i++)
        put_info_field(&at, &fields[i], info);
    if (log != NULL)
        entry.log = put_log(&at, log);
    header_size = (size_t)(at - entry.file) + RT_DIGEST_BYTES;
    at = entry.file + align_up(header_size, PAYLOAD_ALIGNMENT);
    memcpy(at, payload, payload_size);
    entry.payload = at;
    entry.file_size = (size_t)(at - entry.file) + payload_size + TAIL_BYTES;
    put_header(entry.file, header_size, &entry);
    *out = entry;
    return SMLA_OK;
}

/* ---- Reading ----------------------------------------------------------------------------------------------- */

static bool is_digest_of(const uint8_t *digest, const void *bytes, size_t size)
{
    struct rt_digest actual;

    rt_digest_of(bytes, size, &actual);
    return memcmp(digest, actual.bytes, sizeof actual.bytes) == 0;
}

/* What the header says is used only after its digest was found right. */
static bool check_header(const uint8_t *file, size_t file_size, char *why)
{
    size_t header_size;

    if (file_size < AT_METADATA + RT_DIGEST_BYTES)
        return rt_refuse(why, "%zu bytes are too few for a header", file_size);
    if (memcmp(file + AT_MAGIC, magic, sizeof magic) != 0)
        return rt_refuse(why, "not an smla cache entry");
    if (rt_get_le16(file + AT_MAJOR) != FORMAT_MAJOR)
        return rt_refuse(why, "format %u, and this smla reads %d", (unsigned)rt_get_le16(file + AT_MAJOR),
                         FORMAT_MAJOR);
    if (rt_get_le64(file + AT_FILE_SIZE) != file_size)
        return rt_refuse(why, "%zu bytes where the header says %llu", file_size,
                         (unsigned long long)rt_get_le64(file + AT_FILE_SIZE));
    header_size = rt_get_le32(file + AT_HEADER_SIZE);
    if (header_size < AT_METADATA + RT_DIGEST_BYTES || header_size > file_size)
        return rt_refuse(why, "a header of %zu bytes in a file of %zu", header_size, file_size);
    if (!is_digest_of(file + header_size - RT_DIGEST_BYTES, file, header_size - RT_DIGEST_BYTES))
        return rt_refuse(why, "the header does not match its digest");
    return true;
}

static bool read_key(const uint8_t *file, const struct rt_key *wanted, struct rt_key *key, char *why)
{
    const uint32_t kind = rt_get_le32(file + AT_KIND);

    if (kind != RT_KIND_CUBIN && kind != RT_KIND_PTX)
        return rt_refuse(why, "unknown kind %u", (unsigned)kind);
    key->kind = (enum rt_kind)kind;
    memcpy(key->kernel_id.bytes, file + AT_KERNEL_ID, RT_DIGEST_BYTES);
    if (wanted != NULL &&
        (wanted->kind != key->kind || memcmp(wanted->kernel_id.bytes, key->kernel_id.bytes, RT_DIGEST_BYTES) != 0))
        return rt_refuse(why, "holds another kernel than its name says");
    return true;
}

static bool read_payload(struct rt_entry *entry, char *why)
{
    const uint8_t *file = entry->file;
    const size_t header_size = rt_get_le32(file + AT_HEADER_SIZE);
    const uint64_t offset = rt_get_le64(file + AT_PAYLOAD_OFFSET);
    const uint64_t size = rt_get_le64(file + AT_PAYLOAD_SIZE);

    if (offset != align_up(header_size, PAYLOAD_ALIGNMENT) || offset > entry->file_size ||
        size > entry->file_size - offset || entry->file_size - offset - size < TAIL_BYTES || size == 0)
        return rt_refuse(why, "code at %llu of %llu bytes in a file of %zu", (unsigned long long)offset,
                         (unsigned long long)size, entry->file_size);
    if (!rt_all_zero(file + header_size, offset - header_size) ||
        !rt_all_zero(file + offset + size, entry->file_size - offset - size))
        return rt_refuse(why, "padding that is not zero");
    if (!is_digest_of(file + AT_PAYLOAD_DIGEST, file + offset, size))
        return rt_refuse(why, "the code does not match its digest");
    entry->payload = file + offset;
    entry->payload_size = size;
    return true;
}

static bool is_text(const uint8_t *bytes, size_t size)
{
    return size > 0 && memchr(bytes, '\0', size) == bytes + size - 1;
}

static bool read_field(const struct field *field, const uint8_t *bytes, size_t size, struct rt_entry_info *info)
{
    uint8_t *member = (uint8_t *)info + field->offset;
    uint32_t value;

    if (field->type == FIELD_TEXT) {
        if (size > field->size || !is_text(bytes, size))
            return false;
        memcpy(member, bytes, size);
        return true;
    }
    if (size != sizeof value)
        return false;
    value = rt_get_le32(bytes);
    memcpy(member, &value, sizeof value);
    return true;
}

/* Sets the bit of a known field in *found. False when a known field's value cannot be. */
static bool read_tagged(uint32_t tag, const uint8_t *bytes, size_t size, struct rt_entry *entry, uint32_t *found)
{
    if (tag == TAG_LOG) {
        entry->log = (const char *)bytes;
        return is_text(bytes, size);
    }
    for (uint32_t i = 0; i < FIELD_COUNT; i++) {
        if (fields[i].tag == tag) {
            *found |= UINT32_C(1) << i;
            return read_field(&fields[i], bytes, size, &entry->info);
        }
    }
    return true;
}

static bool read_metadata(struct rt_entry *entry, char *why)
{
    const uint8_t *at = entry->file + AT_METADATA;
    const uint8_t *end = entry->file + rt_get_le32(entry->file + AT_HEADER_SIZE) - RT_DIGEST_BYTES;
    uint32_t found = 0;

    while (at < end) {
        uint32_t tag;
        uint32_t size;

        if (end - at < FIELD_HEAD_BYTES)
            return rt_refuse(why, "metadata that ends within a field");
        tag = rt_get_le32(at);
        size = rt_get_le32(at + 4);
        at += FIELD_HEAD_BYTES;
        if (size > (size_t)(end - at))
            return rt_refuse(why, "metadata field %u of %u bytes reaches past the header", (unsigned)tag,
                             (unsigned)size);
        if (!read_tagged(tag, at, size, entry, &found))
            return rt_refuse(why, "metadata field %u has a value that cannot be", (unsigned)tag);
        at += size;
    }
    if (found != (UINT32_C(1) << FIELD_COUNT) - 1)
        return rt_refuse(why, "metadata lacks a field");
    memcpy(entry->info.builder.build_id.bytes, entry->file + AT_BUILD_ID, RT_DIGEST_BYTES);
    return true;
}

static bool check_payload(const struct rt_entry *entry, char *why)
{
    const struct rt_entry_info *info = &entry->info;

    if (info->key.kind == RT_KIND_PTX)
        return rt_ptx_check(entry->payload, entry->payload_size, info->arch, info->entry_symbol, why);
    return rt_cubin_check(entry->payload, entry->payload_size, info->arch, info->entry_symbol, why);
}

bool rt_entry_read(uint8_t *file, size_t file_size, const struct rt_key *wanted, struct rt_entry *out, char why[256])
{
    struct rt_entry entry = {.file = file, .file_size = file_size};

    if (check_header(file, file_size, why) && read_key(file, wanted, &entry.info.key, why) &&
        read_payload(&entry, why) && read_metadata(&entry, why) && check_payload(&entry, why)) {
        *out = entry;
        return true;
    }
    free(file);
    return false;
}

void rt_entry_digest(const struct rt_entry *entry, struct rt_digest *out)
{
    const size_t header_size = rt_get_le32(entry->file + AT_HEADER_SIZE);

    memcpy(out->bytes, entry->file + header_size - RT_DIGEST_BYTES, RT_DIGEST_BYTES);
}

bool rt_is_refused(const struct rt_refused *refused, const struct rt_digest *entry_digest)
{
    for (int i = 0; refused != NULL && i < refused->count; i++) {
        struct rt_digest digest;

        rt_entry_digest(refused->entries[i], &digest);
        if (memcmp(digest.bytes, entry_digest->bytes, sizeof digest.bytes) == 0)
            return true;
    }
    return false;
}

void rt_entry_free(struct rt_entry *entry)
{
    free(entry->file);
    *entry = (struct rt_entry){0};
}
