/* The map of global memory. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "memory.h"

static bool bit(const struct emu_allocation *allocation, size_t cell)
{
    return (allocation->written[cell / 32] >> cell % 32 & 1) != 0;
}

static void test_allocations_are_found_to_the_byte(void **state)
{
    struct emu_memory *memory = emu_memory_create();
    (void)state;
    const uint64_t a = emu_memory_alloc(memory, 1000, "a"), b = emu_memory_alloc(memory, 1, "b");
    assert_true(a != 0 && b != 0 && a % 512 == 0 && b % 512 == 0);
    assert_string_equal(emu_memory_find(memory, a, 1000)->what, "a");
    assert_string_equal(emu_memory_find(memory, a + 999, 1)->what, "a");
    assert_string_equal(emu_memory_find(memory, b, 1)->what, "b");
    assert_null(emu_memory_find(memory, a + 999, 2));
    assert_null(emu_memory_find(memory, a + 1000, 1));
    assert_null(emu_memory_find(memory, a - 1, 1));
    assert_null(emu_memory_find(memory, a, SIZE_MAX));
    assert_null(emu_memory_find(memory, 0, 1));
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(((const uint8_t *)(uintptr_t)a)[i], 0xcd);
    assert_false(emu_memory_free(memory, a + 1));
    assert_true(emu_memory_free(memory, a));
    assert_false(emu_memory_free(memory, a));
    assert_null(emu_memory_find(memory, a, 1));
    emu_memory_destroy(memory);
    emu_memory_destroy(NULL);
}

static void test_sizes_at_the_ends(void **state)
{
    struct emu_memory *memory = emu_memory_create();
    (void)state;
    const uint64_t none = emu_memory_alloc(memory, 0, "none");
    assert_true(none != 0);
    assert_null(emu_memory_find(memory, none, 1));
    assert_non_null(emu_memory_find(memory, none, 0));
    assert_true(emu_memory_free(memory, none));
    assert_int_equal(emu_memory_alloc(memory, SIZE_MAX, "all"), 0);
    assert_int_equal(emu_memory_alloc(memory, SIZE_MAX / 4, "much"), 0);
    emu_memory_destroy(memory);
}

static void test_memory_of_others(void **state)
{
    static uint8_t bytes[64];
    struct emu_memory *memory = emu_memory_create();
    const uint64_t address = (uint64_t)(uintptr_t)bytes;
    (void)state;
    assert_true(emu_memory_add(memory, address, sizeof bytes, "variables"));
    assert_false(emu_memory_add(memory, address + 63, 1, "again"));
    assert_false(emu_memory_add(memory, address - 1, 2, "across"));
    assert_false(emu_memory_add(memory, address, 0, "nothing"));
    assert_false(emu_memory_add(memory, UINT64_MAX, 2, "round the end"));
    assert_false(emu_memory_free(memory, address)); /* not ours to free */
    emu_memory_remove(memory, address);
    emu_memory_remove(memory, address);
    assert_null(emu_memory_find(memory, address, 1));
    emu_memory_destroy(memory);
}

static void test_marks(void **state)
{
    struct emu_memory *memory = emu_memory_create();
    const uint64_t a = emu_memory_alloc(memory, 4096, "a");
    (void)state;
    const struct emu_allocation *allocation = emu_memory_find(memory, a, 1);
    emu_memory_mark(memory, a + 5, 1); /* cell 1 */
    emu_memory_mark(memory, a + 120, 140);
    for (size_t cell = 0; cell < 1024; cell++)
        assert_int_equal(bit(allocation, cell), cell == 1 || (cell >= 30 && cell <= 64));
    emu_memory_mark(memory, a, 0);
    emu_memory_mark(memory, a + 4096, 1); /* outside: nothing happens */
    emu_memory_mark(memory, a, 4096);
    for (size_t cell = 0; cell < 1024; cell++)
        assert_true(bit(allocation, cell));
    emu_memory_destroy(memory);
}

static void test_marks_go_with_a_copy(void **state)
{
    struct emu_memory *memory = emu_memory_create();
    const uint64_t a = emu_memory_alloc(memory, 64, "a"), b = emu_memory_alloc(memory, 64, "b");
    (void)state;
    const struct emu_allocation *target = emu_memory_find(memory, b, 1);
    emu_memory_mark(memory, b, 64);
    emu_memory_mark(memory, a + 8, 8);
    emu_memory_copy_marks(memory, b, a, 16);
    for (size_t cell = 0; cell < 16; cell++)
        assert_int_equal(bit(target, cell), cell >= 2);
    emu_memory_copy_marks(memory, b + 1, a + 8, 2); /* a part of a cell */
    assert_true(bit(target, 0));
    emu_memory_copy_marks(memory, b + 60, a, 8); /* outside */
    assert_true(bit(target, 15));
    emu_memory_destroy(memory);
}

enum { MANY = 300 };

static void *allocate_many(void *argument)
{
    uint64_t addresses[MANY];
    struct emu_memory *memory = argument;
    for (size_t i = 0; i < MANY; i++)
        addresses[i] = emu_memory_alloc(memory, i + 1, "many");
    for (size_t i = 0; i < MANY; i++)
        if (addresses[i] == 0 || !emu_memory_free(memory, addresses[i]))
            return argument;
    return NULL;
}

static void test_threads_allocate_and_free(void **state)
{
    struct emu_memory *memory = emu_memory_create();
    pthread_t threads[4];
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_many, memory), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(memory->count, 0);
    emu_memory_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations_are_found_to_the_byte),
        cmocka_unit_test(test_sizes_at_the_ends),
        cmocka_unit_test(test_memory_of_others),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_marks_go_with_a_copy),
        cmocka_unit_test(test_threads_allocate_and_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
