/* 5,000 damaged bundles: cut at every boundary, flipped in every field, swapped, for another target, of an older and a
 * newer format. What reaches the stub driver is the sound code or nothing (facts/jit.md §2 #6, #7, #10; §0.1). Draws
 * from a fixed seed. */
#include "damage.h"

/* Served exactly where header, index and the wanted entry are whole. */
static void bundle_cut(void **state)
{
    const uint8_t *row = row_of(the.bundle, the.wanted);
    const size_t end = rt_get_le64(row + ROW_AT) + rt_get_le64(row + ROW_BYTES);

    (void)state;
    /* Every field of header, index and the first entry's header, then every 32 bytes and around each boundary. */
    for (size_t size = 0; size < the.bundle_size; size += size < HEADER + KERNELS * ROW + 256 ? 4 : 32)
        assert_int_equal(bundle_serves(the.bundle, size), size >= end);
    for (size_t i = 0; i < KERNELS; i++)
        for (size_t size = rt_get_le64(row_of(the.bundle, i) + ROW_AT) - 1, n = 0; n < 3; n++)
            assert_int_equal(bundle_serves(the.bundle, size + n), size + n >= end);
    assert_false(bundle_serves(the.bundle, end - 1));
    assert_true(bundle_serves(the.bundle, the.bundle_size));
}

static void bundle_flips(void **state)
{
    uint8_t *copy = copy_of(the.bundle, the.bundle_size);
    const uint8_t *row = row_of(the.bundle, the.wanted);
    const size_t first = rt_get_le64(row + ROW_AT), size = rt_get_le64(row + ROW_BYTES);

    (void)state;
    /* Each byte of header and index: nothing of the bundle is believed. */
    for (size_t at = 0; at < HEADER + KERNELS * ROW; at++) {
        copy[at] ^= (uint8_t)(1u << at % 8);
        assert_false(bundle_serves(copy, the.bundle_size));
        copy[at] = the.bundle[at];
    }
    /* Each byte of the wanted entry. */
    for (size_t at = first; at < first + size; at++) {
        copy[at] ^= (uint8_t)(1u << draw() % 8);
        assert_false(bundle_serves(copy, the.bundle_size));
        copy[at] = the.bundle[at];
    }
    /* Of the others: it is served. */
    for (int i = 0; i < 1000; i++) {
        const size_t at = HEADER + KERNELS * ROW + draw() % (the.bundle_size - HEADER - KERNELS * ROW);

        copy[at] ^= (uint8_t)(1u << draw() % 8);
        assert_int_equal(bundle_serves(copy, the.bundle_size), at < first || at >= first + size);
        copy[at] = the.bundle[at];
    }
    free(copy);
}

/* Fields that are changed on purpose, under digests that are right: never the code itself. */
static void bundle_sealed_changes(void **state)
{
    const uint8_t *row = row_of(the.bundle, the.wanted);
    const size_t first = rt_get_le64(row + ROW_AT), header = rt_get_le32(the.bundle + first + ENTRY_HEADER);

    (void)state;
    for (int i = 0; i < 1500; i++) {
        uint8_t *copy = copy_of(the.bundle, the.bundle_size);

        for (uint64_t changes = 1 + draw() % 3; changes > 0; changes--) {
            const uint64_t value = draw();

            if (value % 3 == 0)
                copy[draw() % (HEADER + KERNELS * ROW)] = (uint8_t)(value >> 8);
            else
                copy[first + 40 + draw() % (header - 40)] ^= (uint8_t)(1u << (value >> 8) % 8);
        }
        if (rt_get_le64(row_of(copy, the.wanted) + ROW_AT) == first)
            seal_within(copy, the.wanted);
        else
            seal_bundle(copy);
        (void)bundle_serves(copy, the.bundle_size);
        free(copy);
    }
}

/* The wanted row with the entry of another, in each way that the index can say it. */
static void test_10_bundle_swapped(void **state)
{
    (void)state;
    for (size_t other = 0; other < KERNELS; other++) {
        if (other == the.wanted)
            continue;
        for (int what = 0; what < 3; what++) {
            uint8_t *copy = copy_of(the.bundle, the.bundle_size);
            uint8_t *row = row_of(copy, the.wanted), *from = row_of(copy, other), kept[DIGEST];

            memcpy(kept, row, sizeof kept);
            if (what == 0) { /* ids changed places */
                memcpy(row, from, DIGEST);
                memcpy(from, kept, DIGEST);
            } else if (what == 1) { /* all of the other's row but the id */
                memcpy(row + DIGEST, from + DIGEST, ROW - DIGEST);
            } else { /* its bytes where this one's are */
                const size_t most = rt_get_le64(row + ROW_BYTES), size = rt_get_le64(from + ROW_BYTES);

                memcpy(entry_of(copy, the.wanted), the.bundle + rt_get_le64(from + ROW_AT), size < most ? size : most);
                memcpy(row + ROW_ENTRY, from + ROW_ENTRY, DIGEST);
            }
            seal_bundle(copy);
            assert_false(bundle_serves(copy, the.bundle_size));
            free(copy);
        }
    }
}

static void bundle_formats(void **state)
{
    uint8_t *copy = copy_of(the.bundle, the.bundle_size);

    (void)state;
    for (uint16_t major = 0; major < 40; major++) {
        rt_put_le16(copy + 8, major);
        seal_bundle(copy);
        assert_int_equal(bundle_serves(copy, the.bundle_size), major == 1);
        rt_put_le16(copy + 8, 1);
        rt_put_le16(entry_of(copy, the.wanted) + ENTRY_MAJOR, major);
        seal_within(copy, the.wanted);
        assert_int_equal(bundle_serves(copy, the.bundle_size), major == 1);
        rt_put_le16(entry_of(copy, the.wanted) + ENTRY_MAJOR, 1);
        seal_within(copy, the.wanted);
    }
    rt_put_le16(copy + 10, 7); /* a later minor is read */
    rt_put_le16(entry_of(copy, the.wanted) + ENTRY_MAJOR + 2, 7);
    seal_within(copy, the.wanted);
    assert_true(bundle_serves(copy, the.bundle_size));
    free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bundle_cut),
        cmocka_unit_test(bundle_flips),
        cmocka_unit_test(bundle_sealed_changes),
        cmocka_unit_test(test_10_bundle_swapped),
        cmocka_unit_test(bundle_formats),
    };
    return cmocka_run_group_tests_name("runtime.damage", tests, damage_setup, damage_teardown);
}
