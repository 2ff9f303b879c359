/* Bundle files that are damaged: what is refused, and what is served all the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bytes.h"
#include "sample_smlab.h"

static char why[256];

/* An entry that is damaged: the next best is taken, it is told and counted once, the others are served. */
static void test_54_damaged_entry(void **state)
{
    struct rt_entry entries[] = {sample_entry_by(1, 12, 8), sample_entry_by(1, 13, 0), sample_entry_by(2, 13, 0)};
    struct sample_smlab smlab = sample_smlab_of(entries, 3);
    struct sample_smlab_search searched = {.log = {.lines = 0}};
    struct rt_smlab *opened;

    (void)state;
    sample_smlab_entry(&smlab, 1)[entries[1].file_size - 40] ^= 1; /* by 13.0 */
    sample_smlab_entry(&smlab, 2)[200] ^= 1;
    opened = sample_smlab_open_sound(&smlab);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sample_smlab_find_with(&searched, opened, &entries[0], NULL, 0), 1208);
        assert_int_equal(sample_smlab_find_with(&searched, opened, &entries[2], NULL, 0), 0);
    }
    assert_int_equal(searched.counters.damaged, 2);
    assert_int_equal(searched.counters.errors, 0);
    assert_int_equal(searched.log.lines, 2);
    assert_non_null(strstr(searched.log.last, "kernel 0202020202020202 in the bundle bundle is damaged and not used: "
                                              "the header does not match its digest"));
    rt_smlab_close(opened);
    for (size_t i = 0; i < 3; i++)
        rt_entry_free(&entries[i]);
    free(smlab.bytes);
}

/* Cut anywhere: entries that are whole are served, no others (facts/jit.md §2 #6). */
static void test_every_length(void **state)
{
    struct sample_smlab smlab = sample_smlab_make(3);

    (void)state;
    for (size_t size = 0; size < smlab.size; size++) {
        struct rt_smlab *opened = sample_smlab_open(smlab.bytes, size, why);

        if (size < SMLAB_HEADER + 3 * SMLAB_ROW) {
            assert_null(opened);
            continue;
        }
        assert_non_null(opened);
        assert_non_null(strstr(why, "where the header says"));
        for (uint8_t i = 0; i < 3; i++) {
            const uint8_t *row = sample_smlab_row(&smlab, i);

            if (size % 16 == 0 || size + 16 > smlab.size)
                assert_int_equal(sample_smlab_serves(opened, (uint8_t)(i + 1)),
                                 rt_get_le64(row + ROW_AT) + rt_get_le64(row + ROW_BYTES) <= size);
        }
        rt_smlab_close(opened);
    }
    free(smlab.bytes);
}

static void refuses(const struct sample_smlab *smlab, const char *words)
{
    assert_null(sample_smlab_open(smlab->bytes, smlab->size, why));
    if (strstr(why, words) == NULL)
        fail_msg("no \"%s\" in: %s", words, why);
}

/* Header and index: each bit that is flipped is seen. */
static void test_every_bit(void **state)
{
    struct sample_smlab smlab = sample_smlab_make(2);

    (void)state;
    for (size_t bit = 0; bit < 8 * (SMLAB_HEADER + 2 * SMLAB_ROW); bit++) {
        smlab.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_null(sample_smlab_open(smlab.bytes, smlab.size, why));
        smlab.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    free(smlab.bytes);
}

/* Values that cannot be, under digests that are right. */
static void test_cannot_be(void **state)
{
    static const struct {
        size_t at; /* in the header, or after it */
        size_t bytes;
        uint64_t value;
        const char *words;
    } rows[] = {
        {SMLAB_MAJOR, 2, 2, "format 2, and this smla reads 1"},
        {SMLAB_MAJOR, 2, 0, "format 0"},
        {SMLAB_HEADER_SIZE, 4, 127, "a header of 127 bytes"},
        {SMLAB_HEADER_SIZE, 4, 4097, "a header of 4097 bytes"},
        {SMLAB_ROW_SIZE, 4, 143, "rows of 143 bytes"},
        {SMLAB_ROW_SIZE, 4, 5000, "rows of 5000 bytes"},
        {SMLAB_INDEX_OFFSET, 8, 192, "at 192"},
        {SMLAB_COUNT, 8, UINT64_MAX, "rows at"},
        {SMLAB_COUNT, 8, 1000000, "an index of 144000000 bytes in a file of"},
        {SMLAB_COUNT, 8, 1, "has a value that cannot be"}, /* the first entry is elsewhere then */
        {SMLAB_FILE_SIZE, 8, 1, "in a file of 1 bytes"},
        {SMLAB_HEADER + ROW_AT, 8, 64, "row 0 of the index has a value that cannot be"},
        {SMLAB_HEADER + ROW_BYTES, 8, 0, "row 0"},
        {SMLAB_HEADER + ROW_BYTES, 8, UINT64_MAX, "row 0"},
        {SMLAB_HEADER + ROW_KIND_AT, 4, 3, "row 0"},
        {SMLAB_HEADER + ROW_TARGET, 1, 0, "row 0"},
        {SMLAB_HEADER + ROW_TARGET + 8, 1, 'x', "row 0"},
        {SMLAB_HEADER + SMLAB_ROW + ROW_KERNEL, 1, 1, "row 1 of the index is out of order"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sample_smlab smlab = sample_smlab_make(2);
        uint8_t value[8];

        rt_put_le64(value, rows[i].value);
        memcpy(smlab.bytes + rows[i].at, value, rows[i].bytes);
        if (rows[i].at == SMLAB_HEADER + SMLAB_ROW) /* the whole id */
            memcpy(smlab.bytes + rows[i].at, smlab.bytes + SMLAB_HEADER, RT_DIGEST_BYTES);
        sample_smlab_seal(smlab.bytes, smlab.size);
        refuses(&smlab, rows[i].words);
        free(smlab.bytes);
    }
}

/* What the index says and what the entry says are compared, each under digests that are right (facts/jit.md §2 #10). */
static void test_entry_of_another_row(void **state)
{
    static const size_t fields[] = {ROW_KERNEL + 31, ROW_BUILD, ROW_ENTRY, ROW_MAJOR, ROW_MINOR, ROW_TARGET + 4};
    struct rt_entry wanted = sample_entry(1);

    (void)state;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        struct sample_smlab smlab = sample_smlab_make(1);
        struct rt_smlab *opened;
        struct rt_entry entry;

        sample_smlab_row(&smlab, 0)[fields[i]] ^= 1;
        sample_smlab_seal(smlab.bytes, smlab.size);
        opened = sample_smlab_open_sound(&smlab);
        assert_int_equal(rt_smlab_read(opened, 0, &entry, why), RT_READ_DAMAGED);
        assert_int_equal(sample_smlab_find(opened, &wanted, NULL, 0), 0);
        rt_smlab_close(opened);
        free(smlab.bytes);
    }
    rt_entry_free(&wanted);
}

static void test_gaps(void **state)
{
    struct sample_smlab smlab = sample_smlab_make(2);
    struct rt_smlab *opened = sample_smlab_open_sound(&smlab);

    (void)state;
    assert_true(rt_smlab_check_gaps(opened, why));
    rt_smlab_close(opened);
    sample_smlab_entry(&smlab, 1)[-1] = 1;
    opened = sample_smlab_open_sound(&smlab); /* nobody reads it */
    assert_true(sample_smlab_serves(opened, 1) && sample_smlab_serves(opened, 2));
    assert_false(rt_smlab_check_gaps(opened, why));
    rt_smlab_close(opened);
    free(smlab.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_54_damaged_entry),
        cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_every_bit),
        cmocka_unit_test(test_cannot_be),
        cmocka_unit_test(test_entry_of_another_row),
        cmocka_unit_test(test_gaps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
