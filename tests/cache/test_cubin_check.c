#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cubin_check.h"
#include "sample.h"

static char why[256];

static void accepts_a_real_cubin(const char *name)
{
    size_t size;
    char *path = sample_path(SMLA_TEST_DATA, name);
    uint8_t *bytes = sample_file_read(path, &size);

    assert_true(rt_cubin_check(bytes, size, "sm_90a", "my_kernel", why));
    assert_false(rt_cubin_check(bytes, size, "sm_90", "my_kernel", why));
    assert_string_equal(why, "built for sm_90a, not for sm_90");
    assert_false(rt_cubin_check(bytes, size, "sm_100f", "my_kernel", why));
    assert_false(rt_cubin_check(bytes, size, "sm_90a", "my_kerne", why));
    assert_string_equal(why, "no kernel my_kerne");
    free(bytes);
    free(path);
}

static void test_real_cubin_with_a_note(void **state)
{
    (void)state;
    accepts_a_real_cubin("nvrtc-13.0-sm_90a.cubin");
}

static void test_real_cubin_without_a_note(void **state)
{
    (void)state;
    accepts_a_real_cubin("nvrtc-12.8-sm_90a.cubin");
}

/* What the driver would crash on: every section must be there to the last byte. */
static void refuses_every_truncation(const char *name)
{
    size_t size;
    char *path = sample_path(SMLA_TEST_DATA, name);
    uint8_t *bytes = sample_file_read(path, &size);

    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *copy = sample_copy(bytes, cut);

        assert_false(rt_cubin_check(copy, cut, "sm_90a", "my_kernel", why));
        free(copy);
    }
    free(bytes);
    free(path);
}

static void test_truncations(void **state)
{
    (void)state;
    refuses_every_truncation("nvrtc-13.0-sm_90a.cubin");
    refuses_every_truncation("nvrtc-12.8-sm_90a.cubin");
}

/* Every bit, one at a time: any answer, but no read outside (under ASan) and a sentence when refused. */
static void test_flips_are_survived(void **state)
{
    size_t size;
    char *path = sample_path(SMLA_TEST_DATA, "nvrtc-13.0-sm_90a.cubin");
    uint8_t *bytes = sample_file_read(path, &size);
    uint8_t *copy = sample_copy(bytes, size);

    (void)state;
    for (size_t bit = 0; bit < 8 * size; bit++) {
        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        why[0] = '\0';
        if (!rt_cubin_check(copy, size, "sm_90a", "my_kernel", why))
            assert_true(why[0] != '\0');
        copy[bit / 8] = bytes[bit / 8];
    }
    free(copy);
    free(bytes);
    free(path);
}

static bool check_sample(const struct sample_cubin *cubin, const char *arch, const char *symbol)
{
    size_t size;
    uint8_t *bytes = sample_cubin_make(cubin, &size);
    const bool valid = rt_cubin_check(bytes, size, arch, symbol, why);

    free(bytes);
    return valid;
}

static void test_made_up_cubins(void **state)
{
    const struct sample_cubin family = {.arch = "sm_100f", .symbol = "kernel"};
    const struct sample_cubin plain = {.arch = "sm_90", .symbol = "kernel"};
    const struct sample_cubin no_note = {.symbol = "kernel"};
    const struct sample_cubin old = {.symbol = "kernel", .os_abi = 0x33, .abi_version = 7, .flags = 0x5a055a};
    const struct sample_cubin old_a = {.symbol = "kernel", .os_abi = 0x33, .abi_version = 7, .flags = 0x5a0d5a};

    (void)state;
    assert_true(check_sample(&family, "sm_100f", "kernel"));
    assert_false(check_sample(&family, "sm_100", "kernel"));
    assert_false(check_sample(&family, "sm_100a", "kernel"));
    assert_true(check_sample(&plain, "sm_90", "kernel"));
    assert_false(check_sample(&plain, "sm_90a", "kernel"));
    assert_false(check_sample(&no_note, "sm_90a", "kernel"));
    assert_string_equal(why, "nothing tells the target: no .note.nv.tkinfo");
    assert_true(check_sample(&old, "sm_90", "kernel"));
    assert_false(check_sample(&old, "sm_90a", "kernel"));
    assert_true(check_sample(&old_a, "sm_90a", "kernel"));
}

/* Overwrites `size` bytes of a sound cubin; true when it is still accepted. */
static bool accepted_with(size_t offset, uint64_t value, size_t size)
{
    const struct sample_cubin cubin = {.arch = "sm_90a", .symbol = "kernel"};
    size_t total;
    uint8_t *bytes = sample_cubin_make(&cubin, &total);
    bool valid;

    memcpy(bytes + offset, &value, size);
    valid = rt_cubin_check(bytes, total, "sm_90a", "kernel", why);
    free(bytes);
    return valid;
}

static void test_numbers_that_overflow(void **state)
{
    const size_t section_3 = 64 + 56 + 3 * 64;

    (void)state;
    assert_true(accepted_with(0, 0x464c457f, 4));
    assert_false(accepted_with(offsetof(Elf64_Ehdr, e_shoff), UINT64_MAX - 63, 8));
    assert_false(accepted_with(offsetof(Elf64_Ehdr, e_shnum), 0xffff, 2));
    assert_false(accepted_with(offsetof(Elf64_Ehdr, e_shnum), 0, 2));
    assert_false(accepted_with(offsetof(Elf64_Ehdr, e_shentsize), 63, 2));
    assert_false(accepted_with(offsetof(Elf64_Ehdr, e_shstrndx), 4, 2));
    assert_false(accepted_with(offsetof(Elf64_Ehdr, e_phoff), UINT64_MAX, 8));
    assert_false(accepted_with(offsetof(Elf64_Ehdr, e_machine), EM_X86_64, 2));
    assert_false(accepted_with(section_3 + offsetof(Elf64_Shdr, sh_offset), UINT64_MAX, 8));
    assert_false(accepted_with(section_3 + offsetof(Elf64_Shdr, sh_size), UINT64_MAX, 8));
    assert_false(accepted_with(section_3 + offsetof(Elf64_Shdr, sh_size), 0, 8));
    assert_false(accepted_with(section_3 + offsetof(Elf64_Shdr, sh_name), UINT32_MAX, 4));
    assert_false(accepted_with(section_3 + offsetof(Elf64_Shdr, sh_type), SHT_NOBITS, 4));
    assert_false(accepted_with(64 + offsetof(Elf64_Phdr, p_filesz), 1 << 20, 8));
}

static void test_ptx(void **state)
{
    size_t size;
    char *path = sample_path(SMLA_TEST_DATA, "nvrtc-13.0-sm_90a.ptx");
    uint8_t *bytes = sample_file_read(path, &size);
    uint8_t *unterminated = sample_copy(bytes, size - 1);

    (void)state;
    assert_true(rt_ptx_check(bytes, size, "sm_90a", "my_kernel", why));
    assert_false(rt_ptx_check(bytes, size, "sm_90", "my_kernel", why));
    assert_string_equal(why, "PTX without .target sm_90");
    assert_false(rt_ptx_check(bytes, size, "sm_90a", "my_kern", why));
    assert_false(rt_ptx_check(bytes, 0, "sm_90a", "my_kernel", why));
    assert_false(rt_ptx_check(unterminated, size - 1, "sm_90a", "my_kernel", why));
    free(unterminated);
    free(bytes);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_real_cubin_with_a_note),
        cmocka_unit_test(test_real_cubin_without_a_note),
        cmocka_unit_test(test_truncations),
        cmocka_unit_test(test_flips_are_survived),
        cmocka_unit_test(test_made_up_cubins),
        cmocka_unit_test(test_numbers_that_overflow),
        cmocka_unit_test(test_ptx),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
