#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "key.h"

static const struct gen_target sm_90a = {.name = "90a", .arch = "sm_90a"};
static const struct gen_target sm_100f = {.name = "100f", .arch = "sm_100f"};

static struct gen_bundle bundle(void)
{
    struct gen_bundle made = {
        .spec = {.target = &sm_90a},
        .file_count = 3,
        .option_count = 2,
        .files = {{"kernel.cu", "int a;", 6, NULL},
                  {"config.cuh", "#define N 1", 11, NULL},
                  {"a.cuh", "int b;", 6, "00ff"}},
        .options = {"-lineinfo", "-std=c++17"},
        .arch_option = "-arch=sm_90a",
    };

    return made;
}

static struct rt_key key_of(const struct gen_bundle *made)
{
    struct rt_key key = {0};

    assert_int_equal(rt_key_make(made, RT_KIND_CUBIN, &key), SMLA_OK);
    return key;
}

static bool same(const struct gen_bundle *a, const struct gen_bundle *b)
{
    const struct rt_key key_a = key_of(a);
    const struct rt_key key_b = key_of(b);

    return memcmp(&key_a.kernel_id, &key_b.kernel_id, sizeof key_a.kernel_id) == 0;
}

/* Each changes one thing that the compiled code depends on. */
static void change_target(struct gen_bundle *made)
{
    made->spec.target = &sm_100f;
}
static void change_arch_option(struct gen_bundle *made)
{
    strcpy(made->arch_option, "-arch=sm_90");
}
static void change_option(struct gen_bundle *made)
{
    made->options[0] = "-lineinf";
}
static void drop_option(struct gen_bundle *made)
{
    made->option_count = 1;
}
static void add_option(struct gen_bundle *made)
{
    made->options[made->option_count++] = "-G";
}
static void swap_options(struct gen_bundle *made)
{
    made->options[0] = "-std=c++17";
    made->options[1] = "-lineinfo";
}
static void join_options(struct gen_bundle *made)
{
    made->options[0] = "-lineinfo-std=c++17";
    made->options[1] = "";
}
static void change_source(struct gen_bundle *made)
{
    made->files[0].bytes = "int b;";
}
static void change_header(struct gen_bundle *made)
{
    made->files[1].bytes = "#define N 2";
}
static void shorten_header(struct gen_bundle *made)
{
    made->files[1].size--;
}
static void rename_header(struct gen_bundle *made)
{
    made->files[1].name = "config2.cuh";
}
static void drop_header(struct gen_bundle *made)
{
    made->file_count = 2;
}
static void change_digest(struct gen_bundle *made)
{
    made->files[2].digest = "00fe";
}
static void digest_as_bytes(struct gen_bundle *made)
{
    made->files[2] = (struct gen_file){"a.cuh", "00ff", 4, NULL};
}
static void change_line_info(struct gen_bundle *made)
{
    made->spec.line_info = true;
}
static void swap_files(struct gen_bundle *made)
{
    const struct gen_file first = made->files[0];

    made->files[0] = made->files[1];
    made->files[1] = first;
}
static void move_a_byte_between_name_and_bytes(struct gen_bundle *made)
{
    made->files[0] = (struct gen_file){"kernel.cui", "nt a;", 5, NULL};
}

static void test_14_15_16_every_change_changes_the_key(void **state)
{
    static void (*const changes[])(struct gen_bundle *) = {
        change_target,    change_arch_option,
        change_option,    drop_option,
        add_option,       swap_options,
        join_options,     change_source,
        change_header,    shorten_header,
        rename_header,    drop_header,
        swap_files,       move_a_byte_between_name_and_bytes,
        change_digest,    digest_as_bytes,
        change_line_info,
    };
    enum { COUNT = sizeof changes / sizeof changes[0] };
    struct gen_bundle made[COUNT + 1];

    (void)state;
    for (size_t i = 0; i <= COUNT; i++) {
        made[i] = bundle();
        if (i > 0)
            changes[i - 1](&made[i]);
        for (size_t j = 0; j < i; j++) {
            if (same(&made[i], &made[j]))
                fail_msg("changes %zu and %zu give one key", i, j);
        }
    }
}

static void test_the_kind_is_part_of_the_key(void **state)
{
    const struct gen_bundle made = bundle();
    struct rt_key ptx;
    const struct rt_key cubin = key_of(&made);

    (void)state;
    assert_int_equal(rt_key_make(&made, RT_KIND_PTX, &ptx), SMLA_OK);
    assert_int_equal(ptx.kind, RT_KIND_PTX);
    assert_memory_not_equal(&ptx.kernel_id, &cubin.kernel_id, sizeof ptx.kernel_id);
}

/* What the compiled code does not depend on: where things lie in memory, the environment, the process's past. */
static void test_12_nothing_else_changes_the_key(void **state)
{
    struct gen_bundle made = bundle();
    const struct gen_bundle before = made;
    char *source = strdup("int a;");
    char *name = strdup("kernel.cu");

    (void)state;
    made.files[0].bytes = source;
    made.files[0].name = name;
    made.spec.h_q = 7; /* acts through the files alone */
    made.plan.launches = 3;
    setenv("HOME", "/elsewhere", 1);
    assert_true(same(&made, &before));
    free(source);
    free(name);
}

/* By an independent writing of the recipe (docs/cache-format.md). A value that must not change from release to release
 * without KEY_SCHEMA changing. */
static void test_known_key(void **state)
{
    const struct gen_bundle made = bundle();
    const struct rt_key key = key_of(&made);
    char hex[RT_DIGEST_HEX];

    (void)state;
    rt_digest_hex(&key.kernel_id, hex);
    assert_string_equal(hex, "64266a15377f17e39b9b47e33bbae16fb46b7fd6954105d419e61df8c405164a");
}

/* RFC 7693's algorithm with 32 bytes of output; by Python's hashlib.blake2b(b"abc", digest_size=32). */
static void test_known_digest(void **state)
{
    struct rt_digest digest;
    char hex[RT_DIGEST_HEX];

    (void)state;
    rt_digest_of("abc", 3, &digest);
    rt_digest_hex(&digest, hex);
    assert_string_equal(hex, "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
    rt_digest_of(NULL, 0, &digest);
    rt_digest_hex(&digest, hex);
    assert_string_equal(hex, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_14_15_16_every_change_changes_the_key),
        cmocka_unit_test(test_the_kind_is_part_of_the_key),
        cmocka_unit_test(test_12_nothing_else_changes_the_key),
        cmocka_unit_test(test_known_key),
        cmocka_unit_test(test_known_digest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
