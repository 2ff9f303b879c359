/* Bundle files: what is written, and what is read back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "bytes.h"
#include "sample_smlab.h"

static char why[256];

/* ---- What is written --------------------------------------------------------------------------------------- */

static void test_layout(void **state)
{
    struct sample_smlab smlab = sample_smlab_make(3);
    struct rt_entry first = sample_entry(1);
    size_t end = SMLAB_HEADER + 3 * SMLAB_ROW;

    (void)state;
    assert_memory_equal(smlab.bytes, "\x93SMLB\r\n\x1a\x01\0\0\0", 12);
    assert_int_equal(rt_get_le32(smlab.bytes + SMLAB_HEADER_SIZE), SMLAB_HEADER);
    assert_int_equal(rt_get_le64(smlab.bytes + SMLAB_FILE_SIZE), smlab.size);
    assert_int_equal(rt_get_le64(smlab.bytes + SMLAB_INDEX_OFFSET), SMLAB_HEADER);
    assert_int_equal(rt_get_le64(smlab.bytes + SMLAB_COUNT), 3);
    assert_int_equal(rt_get_le32(smlab.bytes + SMLAB_ROW_SIZE), SMLAB_ROW);
    assert_memory_equal(sample_smlab_row(&smlab, 0), first.info.key.kernel_id.bytes, RT_DIGEST_BYTES);
    assert_string_equal((char *)sample_smlab_row(&smlab, 2) + ROW_TARGET, "sm_90a");
    assert_int_equal(rt_get_le32(sample_smlab_row(&smlab, 2) + ROW_MAJOR), 13);
    for (size_t i = 0; i < 3; i++) {
        const uint8_t *row = sample_smlab_row(&smlab, i);
        const size_t at = (end + 63) / 64 * 64;

        assert_int_equal(rt_get_le64(row + ROW_AT), at);
        assert_true(rt_all_zero(smlab.bytes + end, at - end));
        end = at + rt_get_le64(row + ROW_BYTES);
    }
    assert_int_equal(end, smlab.size);
    rt_entry_free(&first);
    free(smlab.bytes);
}

/* The same kernels, the same file: whatever the order, how often, and however long the compilation took. */
static void test_same_bytes(void **state)
{
    struct rt_entry entries[4];
    struct rt_entry_info info = sample_info(2);
    struct sample_smlab sorted = sample_smlab_make(3), mixed;

    (void)state;
    entries[0] = sample_entry(3);
    entries[2] = sample_entry(1);
    entries[3] = sample_entry(3);
    entries[1] = sample_entry(2);
    info.compile_ms = 7;
    struct rt_entry slow = entries[1];

    assert_int_equal(rt_entry_write(&info, slow.payload, slow.payload_size, slow.log, &entries[1]), SMLA_OK);
    rt_entry_free(&slow);
    mixed = sample_smlab_of(entries, 4);
    assert_int_equal(mixed.size, sorted.size);
    assert_memory_equal(mixed.bytes, sorted.bytes, sorted.size);
    for (size_t i = 0; i < 4; i++)
        rt_entry_free(&entries[i]);
    free(mixed.bytes);
    free(sorted.bytes);
}

static void test_empty(void **state)
{
    struct sample_smlab smlab = sample_smlab_make(0);
    struct rt_smlab *opened = sample_smlab_open_sound(&smlab);

    (void)state;
    assert_int_equal(smlab.size, SMLAB_HEADER);
    assert_int_equal(rt_smlab_count(opened), 0);
    assert_false(sample_smlab_serves(opened, 1));
    assert_true(rt_smlab_check_gaps(opened, why));
    rt_smlab_close(opened);
    free(smlab.bytes);
}

/* ---- What is found ----------------------------------------------------------------------------------------- */

static void test_which_builder(void **state)
{
    struct rt_entry entries[] = {sample_entry_by(1, 12, 8), sample_entry_by(1, 13, 0), sample_entry_by(1, 12, 9),
                                 sample_entry_by(2, 13, 0)};
    struct sample_smlab smlab = sample_smlab_of(entries, 4);
    struct rt_smlab *opened = sample_smlab_open_sound(&smlab);
    struct rt_entry other = sample_entry_by(1, 12, 7);
    const struct rt_builder *oldest = &entries[0].info.builder;

    (void)state;
    assert_int_equal(sample_smlab_find(opened, &entries[0], NULL, 0), 1300);
    assert_int_equal(sample_smlab_find(opened, &entries[0], oldest, 0), 1208);
    assert_int_equal(sample_smlab_find(opened, &entries[0], &other.info.builder, 0), 1300);
    assert_int_equal(sample_smlab_find(opened, &entries[0], NULL, 12), 1209);
    assert_int_equal(sample_smlab_find(opened, &entries[0], &entries[1].info.builder, 12), 1209);
    assert_int_equal(sample_smlab_find(opened, &entries[0], NULL, 11), 0);
    assert_int_equal(sample_smlab_find(opened, &entries[3], NULL, 12), 0);
    for (size_t i = 0; i < 4; i++)
        rt_entry_free(&entries[i]);
    rt_entry_free(&other);
    rt_smlab_close(opened);
    free(smlab.bytes);
}

static void test_another_target_or_kind(void **state)
{
    struct sample_smlab smlab = sample_smlab_make(2);
    struct rt_smlab *opened = sample_smlab_open_sound(&smlab);
    struct rt_cache_counters counters = {0};
    const struct rt_log log = {.fn = NULL};
    struct rt_key key = sample_info(1).key;
    struct rt_entry found;

    (void)state;
    assert_false(rt_smlab_find(opened, &(struct rt_wanted){.key = &key, .arch = "sm_100a"}, &log, &counters, &found));
    key.kind = RT_KIND_PTX;
    assert_false(rt_smlab_find(opened, &(struct rt_wanted){.key = &key, .arch = "sm_90a"}, &log, &counters, &found));
    assert_int_equal(counters.damaged + counters.errors, 0);
    rt_smlab_close(opened);
    free(smlab.bytes);
}

/* ---- A later minor version, files ---------------------------------------------------------------------------- */

/* Longer header and rows, with fields that this smla does not know. */
static void test_later_minor(void **state)
{
    enum { HEADER = 192, ROW = 160 };
    struct sample_smlab old = sample_smlab_make(2), later = {.size = old.size + 128};
    size_t end = HEADER + 2 * ROW;
    struct rt_smlab *opened;

    (void)state;
    later.bytes = calloc(1, later.size);
    memcpy(later.bytes, old.bytes, SMLAB_HEADER - RT_DIGEST_BYTES);
    rt_put_le16(later.bytes + SMLAB_MINOR, 1);
    rt_put_le32(later.bytes + SMLAB_HEADER_SIZE, HEADER);
    rt_put_le32(later.bytes + SMLAB_ROW_SIZE, ROW);
    rt_put_le64(later.bytes + SMLAB_INDEX_OFFSET, HEADER);
    later.bytes[130] = 0xff;
    for (size_t i = 0; i < 2; i++) {
        uint8_t *row = later.bytes + HEADER + i * ROW;

        memcpy(row, sample_smlab_row(&old, i), SMLAB_ROW);
        memset(row + SMLAB_ROW, 0xff, ROW - SMLAB_ROW);
        rt_put_le64(row + ROW_AT, (end + 63) / 64 * 64);
        end = rt_get_le64(row + ROW_AT) + rt_get_le64(row + ROW_BYTES);
        memcpy(sample_smlab_entry(&later, i), sample_smlab_entry(&old, i), rt_get_le64(row + ROW_BYTES));
    }
    later.size = end;
    rt_put_le64(later.bytes + SMLAB_FILE_SIZE, end);
    sample_smlab_seal(later.bytes, later.size);
    opened = sample_smlab_open_sound(&later);
    assert_true(sample_smlab_serves(opened, 1) && sample_smlab_serves(opened, 2));
    rt_smlab_close(opened);
    free(later.bytes);
    free(old.bytes);
}

static enum rt_read_result open_path(const char *path)
{
    struct rt_smlab *opened = NULL;
    const enum rt_read_result result = rt_smlab_open(path, false, &opened, why);

    rt_smlab_close(opened);
    return result;
}

/* Owner, mode, links (facts/jit.md §2 #52). */
static void test_who_may_have_written_it(void **state)
{
    char *folder = sample_folder();
    char *path = sample_path(folder, "a.smlab"), *link = sample_path(folder, "link.smlab");
    struct sample_smlab smlab = sample_smlab_make(1);

    (void)state;
    assert_int_equal(open_path(path), RT_READ_ABSENT);
    assert_int_equal(open_path(folder), RT_READ_REFUSED);
    sample_file_write(path, smlab.bytes, smlab.size);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(open_path(path), RT_READ_OK);
    assert_int_equal(open_path(link), RT_READ_OK);
    assert_int_equal(chmod(path, 0664), 0);
    assert_int_equal(open_path(path), RT_READ_REFUSED);
    assert_non_null(strstr(why, "others than its owner can write to it"));
    assert_int_equal(chmod(path, 0600), 0);
    if (geteuid() == 0) {
        assert_int_equal(lchown(link, 4711, 4711), 0);
        assert_int_equal(open_path(link), RT_READ_REFUSED);
        assert_int_equal(chown(path, 4711, 4711), 0);
        assert_int_equal(open_path(path), RT_READ_REFUSED);
        assert_non_null(strstr(why, "belongs to user 4711"));
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(open_path(path), RT_READ_REFUSED); /* and does not wait */
    free(path);
    free(link);
    free(smlab.bytes);
    sample_folder_remove(folder);
}

/* Another file in its place, or bytes that go, while it is open (facts/jit.md §2 #41). */
static void test_41_file_changes_while_open(void **state)
{
    char *folder = sample_folder();
    char *path = sample_path(folder, "a.smlab"), *other = sample_path(folder, "b.smlab");
    struct sample_smlab smlab = sample_smlab_make(3);
    struct rt_smlab *opened;

    (void)state;
    sample_file_write(path, smlab.bytes, smlab.size);
    sample_file_write(other, smlab.bytes, SMLAB_HEADER);
    assert_int_equal(rt_smlab_open(path, true, &opened, why), RT_READ_OK);
    assert_int_equal(truncate(path, (off_t)rt_get_le64(sample_smlab_row(&smlab, 1) + ROW_AT)), 0);
    assert_int_equal(rename(other, path), 0);
    assert_true(sample_smlab_serves(opened, 1));
    assert_false(sample_smlab_serves(opened, 2));
    assert_false(sample_smlab_serves(opened, 3));
    rt_smlab_close(opened);
    free(path);
    free(other);
    free(smlab.bytes);
    sample_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_same_bytes),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_which_builder),
        cmocka_unit_test(test_another_target_or_kind),
        cmocka_unit_test(test_later_minor),
        cmocka_unit_test(test_who_may_have_written_it),
        cmocka_unit_test(test_41_file_changes_while_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
