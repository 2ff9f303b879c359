#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "error.h"
#include "log.h"
#include "sized.h"

struct known {
    uint32_t struct_size;
    uint32_t a;
    uint32_t b;
    uint32_t c;
};

/* Of a newer caller. */
struct newer {
    struct known known;
    uint32_t d[4];
};

static smla_error_info last(void)
{
    smla_error_info info = {.struct_size = sizeof info};

    assert_int_equal(smla_last_error(&info), SMLA_OK);
    return info;
}

static void test_smaller_struct_is_zero_filled(void **state)
{
    struct known full;
    uint32_t *given = malloc(8); /* exactly an older caller's size: ASan proves the reader */

    (void)state;
    given[0] = 8;
    given[1] = 41;
    memset(&full, 0xff, sizeof full);
    assert_int_equal(rt_sized_read(&full, sizeof full, given, "known"), SMLA_OK);
    assert_int_equal(full.struct_size, sizeof full);
    assert_int_equal(full.a, 41);
    assert_int_equal(full.b, 0);
    assert_int_equal(full.c, 0);
    free(given);
}

static void test_larger_struct(void **state)
{
    struct known full = {0};
    struct newer given = {.known = {sizeof given, 1, 2, 3}};

    (void)state;
    assert_int_equal(rt_sized_read(&full, sizeof full, &given, "known"), SMLA_OK);
    assert_int_equal(full.struct_size, sizeof full);
    assert_int_equal(full.c, 3);
    given.d[3] = 1;
    given.known.a = 9;
    assert_int_equal(rt_sized_read(&full, sizeof full, &given, "known"), SMLA_ERROR_UNSUPPORTED);
    assert_int_equal(full.a, 1);
    assert_non_null(strstr(last().message, "known has 32 bytes"));
}

static void test_impossible_sizes(void **state)
{
    static const uint32_t sizes[] = {0, 1, 3, 0x10001, UINT32_MAX};
    struct known full = {.a = 5};
    struct known given = {0};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        given.struct_size = sizes[i];
        assert_int_equal(rt_sized_read(&full, sizeof full, &given, "known"), SMLA_ERROR_INVALID_ARGUMENT);
        assert_int_equal(rt_sized_write(&given, &full, sizeof full), SMLA_ERROR_INVALID_ARGUMENT);
    }
    assert_int_equal(rt_sized_read(&full, sizeof full, NULL, "known"), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rt_sized_write(NULL, &full, sizeof full), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(full.a, 5);
}

static void test_writing(void **state)
{
    const struct known full = {sizeof full, 1, 2, 3};
    struct newer newer = {.known = {.struct_size = sizeof newer}};
    uint32_t *older = malloc(8);

    (void)state;
    older[0] = 8;
    assert_int_equal(rt_sized_write(older, &full, sizeof full), SMLA_OK);
    assert_int_equal(older[0], 8);
    assert_int_equal(older[1], 1);
    free(older);
    assert_int_equal(rt_sized_write(&newer, &full, sizeof full), SMLA_OK);
    assert_int_equal(newer.known.struct_size, sizeof newer);
    assert_int_equal(newer.known.c, 3);
    assert_int_equal(newer.d[0], 0);
    newer.d[0] = 1;
    assert_int_equal(rt_sized_write(&newer, &full, sizeof full), SMLA_ERROR_UNSUPPORTED);
}

static void test_fail_fills_everything(void **state)
{
    (void)state;
    assert_int_equal(rt_fail_native(SMLA_ERROR_IO, 13, "cannot open %s", "it"), SMLA_ERROR_IO);
    rt_fail_path("/a/b");
    rt_fail_log("log\0more", 8);
    assert_int_equal(last().status, SMLA_ERROR_IO);
    assert_int_equal(last().native_code, 13);
    assert_string_equal(last().message, "cannot open it");
    assert_string_equal(last().path, "/a/b");
    assert_string_equal(last().log, "log");
    rt_fail(SMLA_ERROR_INTERNAL, "again after: %s", last().message);
    assert_string_equal(last().message, "again after: cannot open it");
    assert_int_equal(last().native_code, 0);
    assert_string_equal(last().path, "");
    assert_string_equal(last().log, "");
}

static void test_long_texts_are_cut(void **state)
{
    char *text = malloc(20001);

    (void)state;
    memset(text, 'x', 20000);
    text[20000] = '\0';
    rt_fail(SMLA_ERROR_COMPILE, "%s", text);
    rt_fail_path(text);
    rt_fail_log(text, 20000);
    assert_int_equal(strlen(last().message), 3071);
    assert_int_equal(strlen(last().path), 511);
    assert_int_equal(strlen(last().log), 8191);
    free(text);
}

static void *other_thread(void *argument)
{
    int32_t *statuses = argument;
    smla_error_info info = {.struct_size = sizeof info};

    smla_last_error(&info);
    statuses[0] = info.status;
    rt_fail(SMLA_ERROR_DRIVER, "mine");
    smla_last_error(&info);
    statuses[1] = info.status;
    return NULL;
}

static void test_each_thread_has_its_own(void **state)
{
    int32_t statuses[2] = {-1, -1};
    pthread_t thread;

    (void)state;
    rt_fail(SMLA_ERROR_IO, "of the first thread");
    assert_int_equal(pthread_create(&thread, NULL, other_thread, statuses), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(statuses[0], SMLA_OK);
    assert_int_equal(statuses[1], SMLA_ERROR_DRIVER);
    assert_int_equal(last().status, SMLA_ERROR_IO);
}

static void test_save_and_restore(void **state)
{
    struct rt_error *saved = malloc(sizeof *saved);

    (void)state;
    rt_fail(SMLA_ERROR_COMPILE, "first");
    rt_fail_log("its log", 7);
    rt_error_save(saved);
    rt_fail(SMLA_ERROR_IO, "second");
    assert_int_equal(rt_error_restore(saved), SMLA_ERROR_COMPILE);
    assert_string_equal(last().message, "first");
    assert_string_equal(last().log, "its log");
    free(saved);
}

static void test_status_texts(void **state)
{
    (void)state;
    assert_string_equal(smla_status_text(SMLA_OK), "success");
    assert_string_equal(smla_status_text(SMLA_ERROR_IO), "a file or folder cannot be used");
    assert_string_equal(smla_status_text(-1), "unknown status");
    assert_string_equal(smla_status_text(13), "unknown status");
}

static void test_last_error_refuses(void **state)
{
    smla_error_info info = {0};

    (void)state;
    assert_int_equal(smla_last_error(NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_last_error(&info), SMLA_ERROR_INVALID_ARGUMENT);
    assert_null(info.message);
}

static void keep_line(void *user, int32_t level, const char *line)
{
    assert_int_equal(level, SMLA_LOG_INFO);
    strncpy(user, line, 63);
}

static void test_log_line(void **state)
{
    char line[64] = "";
    const struct rt_log log = {.fn = keep_line, .user = line};
    const struct rt_log none = {0};
    const struct rt_event event = {.kind = SMLA_EVENT_STORE, .level = SMLA_LOG_INFO};

    (void)state;
    rt_tell(&log, &event, "%d entries", 3);
    assert_string_equal(line, "3 entries");
    rt_tell(&none, &event, "nobody");
    rt_tell(NULL, &event, "nobody");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smaller_struct_is_zero_filled),
        cmocka_unit_test(test_larger_struct),
        cmocka_unit_test(test_impossible_sizes),
        cmocka_unit_test(test_writing),
        cmocka_unit_test(test_fail_fills_everything),
        cmocka_unit_test(test_long_texts_are_cut),
        cmocka_unit_test(test_each_thread_has_its_own),
        cmocka_unit_test(test_save_and_restore),
        cmocka_unit_test(test_status_texts),
        cmocka_unit_test(test_last_error_refuses),
        cmocka_unit_test(test_log_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
