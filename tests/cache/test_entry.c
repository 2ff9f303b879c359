#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bytes.h"
#include "error.h"
#include "sample.h"

/* From docs/cache-format.md, not from the code. */
enum { MAJOR = 8, MINOR = 10, HEADER_SIZE = 12, FILE_SIZE = 16, PAYLOAD_OFFSET = 24, PAYLOAD_SIZE = 32, KIND = 136 };
enum { METADATA = 144, DIGEST = 32, LOG_TAG = 12 };

enum { ENDS_IN_NUL = 17 }; /* a field of this size that with_field adds is a text */

static char why[256];

/* Makes the header digest right again after a change that is meant. */
static void reseal(uint8_t *file)
{
    const size_t size = rt_get_le32(file + HEADER_SIZE) - DIGEST;
    struct rt_digest digest;

    rt_digest_of(file, size, &digest);
    memcpy(file + size, digest.bytes, DIGEST);
}

static bool reads(const uint8_t *file, size_t size, const struct rt_key *wanted)
{
    struct rt_entry entry;

    why[0] = '\0';
    if (!rt_entry_read(sample_copy(file, size), size, wanted, &entry, why))
        return false;
    rt_entry_free(&entry);
    return true;
}

static void assert_info_equal(const struct rt_entry_info *a, const struct rt_entry_info *b)
{
    assert_memory_equal(&a->key.kernel_id, &b->key.kernel_id, DIGEST);
    assert_int_equal(a->key.kind, b->key.kind);
    assert_memory_equal(&a->builder.build_id, &b->builder.build_id, DIGEST);
    assert_int_equal(a->builder.nvrtc_major, b->builder.nvrtc_major);
    assert_int_equal(a->builder.nvrtc_minor, b->builder.nvrtc_minor);
    assert_string_equal(a->arch, b->arch);
    assert_string_equal(a->entry_symbol, b->entry_symbol);
    assert_int_equal(a->param_bytes, b->param_bytes);
    assert_int_equal(a->registers, b->registers);
    assert_int_equal(a->spill_bytes, b->spill_bytes);
    assert_int_equal(a->local_bytes, b->local_bytes);
    assert_int_equal(a->static_shared_bytes, b->static_shared_bytes);
    assert_int_equal(a->compile_ms, b->compile_ms);
    assert_string_equal(a->description, b->description);
}

static void test_round_trip(void **state)
{
    struct rt_entry written = sample_entry(1);
    struct rt_entry read;

    (void)state;
    assert_true(
        rt_entry_read(sample_copy(written.file, written.file_size), written.file_size, &written.info.key, &read, why));
    assert_info_equal(&written.info, &read.info);
    assert_int_equal(written.payload_size, read.payload_size);
    assert_memory_equal(written.payload, read.payload, read.payload_size);
    assert_string_equal(read.log, written.log);
    rt_entry_free(&read);
    rt_entry_free(&written);
    assert_null(written.file);
}

static void test_round_trip_of_ptx_without_log(void **state)
{
    static const char ptx[] = ".version 9.0\n.target sm_90a\n.visible .entry kernel(\n)\n{ ret; }\n";
    struct rt_entry_info info = sample_info(2);
    struct rt_entry entry;

    (void)state;
    info.key.kind = RT_KIND_PTX;
    strcpy(info.entry_symbol, "kernel");
    info.description[0] = '\0';
    assert_int_equal(rt_entry_write(&info, ptx, sizeof ptx, NULL, &entry), SMLA_OK);
    assert_null(entry.log);
    assert_true(reads(entry.file, entry.file_size, &info.key));
    info.key.kind = RT_KIND_CUBIN;
    assert_false(reads(entry.file, entry.file_size, &info.key));
    rt_entry_free(&entry);
}

static void test_layout_is_as_documented(void **state)
{
    static const uint8_t magic[8] = {0x93, 'S', 'M', 'L', 'A', 0x0d, 0x0a, 0x1a};
    struct rt_entry entry = sample_entry(3);
    const uint8_t *file = entry.file;
    const size_t header_size = rt_get_le32(file + HEADER_SIZE);
    struct rt_digest digest;

    (void)state;
    assert_memory_equal(file, magic, 8);
    assert_int_equal(rt_get_le16(file + MAJOR), 1);
    assert_int_equal(rt_get_le16(file + MINOR), 0);
    assert_int_equal(rt_get_le64(file + FILE_SIZE), entry.file_size);
    assert_int_equal(rt_get_le64(file + PAYLOAD_OFFSET), (header_size + 63) / 64 * 64);
    assert_int_equal(rt_get_le64(file + PAYLOAD_SIZE), entry.payload_size);
    assert_memory_equal(file + 40, entry.info.key.kernel_id.bytes, DIGEST);
    assert_memory_equal(file + 72, entry.info.builder.build_id.bytes, DIGEST);
    rt_digest_of(entry.payload, entry.payload_size, &digest);
    assert_memory_equal(file + 104, digest.bytes, DIGEST);
    assert_int_equal(rt_get_le32(file + KIND), 1);
    assert_int_equal(rt_get_le32(file + 140), 0);
    assert_int_equal(rt_get_le32(file + METADATA), 1);
    assert_int_equal(rt_get_le32(file + METADATA + 4), sizeof "sm_90a");
    assert_string_equal((const char *)file + METADATA + 8, "sm_90a");
    rt_digest_of(file, header_size - DIGEST, &digest);
    assert_memory_equal(file + header_size - DIGEST, digest.bytes, DIGEST);
    assert_int_equal(entry.file_size, (size_t)(entry.payload - file) + entry.payload_size + 16);
    rt_entry_free(&entry);
}

static void test_same_input_same_bytes(void **state)
{
    struct rt_entry a = sample_entry(4);
    struct rt_entry b = sample_entry(4);

    (void)state;
    assert_int_equal(a.file_size, b.file_size);
    assert_memory_equal(a.file, b.file, a.file_size);
    rt_entry_free(&a);
    rt_entry_free(&b);
}

static void test_every_truncation_is_a_miss(void **state)
{
    struct rt_entry entry = sample_entry(5);

    (void)state;
    for (size_t size = 0; size < entry.file_size; size++) {
        assert_false(reads(entry.file, size, NULL));
        assert_true(why[0] != '\0');
    }
    rt_entry_free(&entry);
}

static void test_every_flip_is_a_miss(void **state)
{
    struct rt_entry entry = sample_entry(6);

    (void)state;
    for (size_t bit = 0; bit < 8 * entry.file_size; bit++) {
        entry.file[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (reads(entry.file, entry.file_size, &entry.info.key))
            fail_msg("bit %zu of byte %zu", bit % 8, bit / 8);
        entry.file[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_true(reads(entry.file, entry.file_size, &entry.info.key));
    rt_entry_free(&entry);
}

static void test_longer_file_is_a_miss(void **state)
{
    struct rt_entry entry = sample_entry(7);
    uint8_t *longer = calloc(1, entry.file_size + 1);

    (void)state;
    memcpy(longer, entry.file, entry.file_size);
    assert_false(reads(longer, entry.file_size + 1, NULL));
    free(longer);
    rt_entry_free(&entry);
}

static void test_10_other_key_is_a_miss(void **state)
{
    struct rt_entry entry = sample_entry(8);
    struct rt_key other = entry.info.key;

    (void)state;
    other.kernel_id.bytes[31] ^= 1;
    assert_false(reads(entry.file, entry.file_size, &other));
    assert_string_equal(why, "holds another kernel than its name says");
    other = entry.info.key;
    other.kind = RT_KIND_PTX;
    assert_false(reads(entry.file, entry.file_size, &other));
    assert_true(reads(entry.file, entry.file_size, NULL));
    rt_entry_free(&entry);
}

/* The same entry with one more metadata field, sealed. malloc'd. */
static uint8_t *with_field(const struct rt_entry *entry, uint32_t tag, uint32_t claimed, uint32_t size, size_t *total)
{
    const size_t old_header = rt_get_le32(entry->file + HEADER_SIZE);
    const size_t header = old_header + 8 + size;
    const size_t offset = (header + 63) / 64 * 64;
    uint8_t *file = calloc(1, offset + entry->payload_size + 16);

    *total = offset + entry->payload_size + 16;
    memcpy(file, entry->file, old_header - DIGEST);
    rt_put_le32(file + old_header - DIGEST, tag);
    rt_put_le32(file + old_header - DIGEST + 4, claimed);
    memset(file + old_header - DIGEST + 8, 'x', size);
    if (size == ENDS_IN_NUL)
        file[old_header - DIGEST + 8 + size - 1] = '\0';
    rt_put_le32(file + HEADER_SIZE, (uint32_t)header);
    rt_put_le64(file + FILE_SIZE, *total);
    rt_put_le64(file + PAYLOAD_OFFSET, offset);
    memcpy(file + offset, entry->payload, entry->payload_size);
    reseal(file);
    return file;
}

static bool reads_with_field(uint32_t tag, uint32_t claimed, uint32_t size)
{
    struct rt_entry entry = sample_entry(9);
    size_t total;
    uint8_t *file = with_field(&entry, tag, claimed, size, &total);
    const bool valid = reads(file, total, &entry.info.key);

    free(file);
    rt_entry_free(&entry);
    return valid;
}

static void test_metadata_fields(void **state)
{
    (void)state;
    assert_true(reads_with_field(999, 0, 0));
    assert_true(reads_with_field(999, 100, 100));
    assert_false(reads_with_field(999, 101, 100));
    assert_false(reads_with_field(999, UINT32_MAX, 100));
    assert_false(reads_with_field(LOG_TAG, 5, 5)); /* no NUL */
    assert_false(reads_with_field(3, 8, 8));       /* a number of eight bytes */
    assert_false(reads_with_field(1, 16, 16));     /* no NUL either */
    assert_true(reads_with_field(LOG_TAG, 17, 17));
    assert_false(reads_with_field(1, 17, 17)); /* a text that is too long for this field */
    assert_string_equal(why, "metadata field 1 has a value that cannot be");
}

static void test_lacking_field_is_a_miss(void **state)
{
    struct rt_entry entry = sample_entry(10);

    (void)state;
    rt_put_le32(entry.file + METADATA, 999);
    reseal(entry.file);
    assert_false(reads(entry.file, entry.file_size, NULL));
    assert_string_equal(why, "metadata lacks a field");
    rt_entry_free(&entry);
}

static void test_versions(void **state)
{
    struct rt_entry entry = sample_entry(11);

    (void)state;
    rt_put_le16(entry.file + MINOR, 7);
    reseal(entry.file);
    assert_true(reads(entry.file, entry.file_size, NULL));
    rt_put_le16(entry.file + MAJOR, 2);
    reseal(entry.file);
    assert_false(reads(entry.file, entry.file_size, NULL));
    assert_string_equal(why, "format 2, and this smla reads 1");
    rt_entry_free(&entry);
}

/* Sealed headers that lie: the digest is right, the numbers are not. */
static bool reads_with_number(size_t at, uint64_t value, size_t size)
{
    struct rt_entry entry = sample_entry(12);
    uint8_t bytes[8];
    bool valid;

    rt_put_le64(bytes, value);
    memcpy(entry.file + at, bytes, size);
    if (at != HEADER_SIZE)
        reseal(entry.file);
    valid = reads(entry.file, entry.file_size, NULL);
    rt_entry_free(&entry);
    return valid;
}

static void test_lying_headers(void **state)
{
    (void)state;
    assert_false(reads_with_number(HEADER_SIZE, 0, 4));
    assert_false(reads_with_number(HEADER_SIZE, 176, 4));
    assert_false(reads_with_number(HEADER_SIZE, UINT32_MAX, 4));
    assert_false(reads_with_number(PAYLOAD_OFFSET, 0, 8));
    assert_false(reads_with_number(PAYLOAD_OFFSET, UINT64_MAX - 63, 8));
    assert_false(reads_with_number(PAYLOAD_SIZE, 0, 8));
    assert_false(reads_with_number(PAYLOAD_SIZE, UINT64_MAX, 8));
    assert_false(reads_with_number(PAYLOAD_SIZE, UINT64_MAX - 1024, 8));
    assert_false(reads_with_number(KIND, 0, 4));
    assert_false(reads_with_number(KIND, 3, 4));
}

/* The digests hold, and still the driver would crash: the ELF check is asked too. */
static void test_payload_that_is_no_cubin(void **state)
{
    const struct rt_entry_info info = sample_info(13);
    struct rt_entry entry;

    (void)state;
    assert_int_equal(rt_entry_write(&info, "not a cubin", 11, NULL, &entry), SMLA_OK);
    assert_false(reads(entry.file, entry.file_size, NULL));
    rt_entry_free(&entry);
}

static void test_write_refuses(void **state)
{
    struct rt_entry_info info = sample_info(14);
    struct rt_entry entry;

    (void)state;
    assert_int_equal(rt_entry_write(&info, "", 0, NULL, &entry), SMLA_ERROR_INTERNAL);
    assert_int_equal(rt_entry_write(&info, "", (size_t)RT_ENTRY_MAX_BYTES, NULL, &entry), SMLA_ERROR_INTERNAL);
    assert_int_equal(rt_entry_write(&info, "", SIZE_MAX, NULL, &entry), SMLA_ERROR_INTERNAL);
    info.key.kind = (enum rt_kind)3;
    assert_int_equal(rt_entry_write(&info, "x", 1, NULL, &entry), SMLA_ERROR_INTERNAL);
    info.key.kind = RT_KIND_CUBIN;
    memset(info.arch, 'x', sizeof info.arch);
    assert_int_equal(rt_entry_write(&info, "x", 1, NULL, &entry), SMLA_ERROR_INTERNAL);
}

static void test_long_log_is_cut(void **state)
{
    const struct rt_entry_info info = sample_info(15);
    char *log = malloc(200000);
    struct rt_entry entry;

    (void)state;
    memset(log, 'l', 199999);
    log[199999] = '\0';
    assert_int_equal(rt_entry_write(&info, "x", 1, log, &entry), SMLA_OK);
    assert_int_equal(strlen(entry.log), 64 << 10);
    rt_entry_free(&entry);
    free(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_round_trip_of_ptx_without_log),
        cmocka_unit_test(test_layout_is_as_documented),
        cmocka_unit_test(test_same_input_same_bytes),
        cmocka_unit_test(test_every_truncation_is_a_miss),
        cmocka_unit_test(test_every_flip_is_a_miss),
        cmocka_unit_test(test_longer_file_is_a_miss),
        cmocka_unit_test(test_10_other_key_is_a_miss),
        cmocka_unit_test(test_metadata_fields),
        cmocka_unit_test(test_lacking_field_is_a_miss),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_lying_headers),
        cmocka_unit_test(test_payload_that_is_no_cubin),
        cmocka_unit_test(test_write_refuses),
        cmocka_unit_test(test_long_log_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
