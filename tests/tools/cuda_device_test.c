/* The tools' driver user, on the driver on paper: what it does, and what it says when something is missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "cuda_device.h"
#include "guarded.h"

static void expect_unavailable(const char *path, int32_t ordinal, const char *text)
{
    char why[DEVICE_WHY] = "";
    struct device *device = NULL;
    assert_int_equal(device_open(path, ordinal, &device, why), DEVICE_UNAVAILABLE);
    assert_null(device);
    if (strstr(why, text) == NULL)
        fail_msg("'%s' does not say '%s'", why, text);
}

static void what_is_missing_is_named(void **state)
{
    (void)state;
    expect_unavailable("/nonexistent/libcuda.so.1", 0, "/nonexistent/libcuda.so.1");
    expect_unavailable("libm.so.6", 0, "the driver has no cuInit");
    expect_unavailable(PAPER_DRIVER, 1, "no CUDA device 1: the driver shows 1");
}

static int open_device(void **state)
{
    char why[DEVICE_WHY];
    struct device *device;
    if (device_open(PAPER_DRIVER, 0, &device, why) != DEVICE_OK)
        return -1;
    *state = device;
    return 0;
}

static int close_device(void **state)
{
    device_close(*state);
    return 0;
}

static void memory(void **state)
{
    struct device *device = *state;
    void *block;
    uint8_t bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    assert_string_equal(device_name(device), "Paper");
    assert_int_equal(device_capability(device), 90);
    assert_true(device_make_current(device));
    assert_true(device_alloc(device, 8, &block));
    assert_true(device_upload(device, block, bytes, 8));
    assert_true(device_fill(device, block, 9, 2));
    assert_true(device_download(device, bytes, block, 8));
    assert_memory_equal(bytes, ((uint8_t[]){9, 9, 3, 4, 5, 6, 7, 8}), 8);
    assert_true(device_upload(device, NULL, NULL, 0));
    assert_true(device_free(device, block));
    assert_true(device_free(device, NULL));
    assert_true(device_synchronize(device));
}

/* The driver on paper has no streams: a tool that wants one gets a sentence, not a crash. */
static void an_optional_function_is_missing(void **state)
{
    struct device *device = *state;
    void *handle;
    float ms;
    assert_false(device_stream_create(device, true, &handle));
    assert_string_equal(device_why(device), "the driver lacks cuStreamCreate");
    assert_false(device_event_elapsed_ms(device, NULL, NULL, &ms));
    assert_false(device_capture_end(device, NULL, &handle));
    assert_false(device_graph_launch(device, NULL, NULL));
    assert_string_equal(device_why(device), "the driver lacks cuGraphLaunch");
}

static void guard_zones(void **state)
{
    struct device *device = *state;
    char why[GUARDED_WHY];
    struct guarded input;
    struct guarded output;
    const uint8_t contents[5] = {1, 2, 3, 4, 5};
    assert_true(guarded_create(device, "input", contents, sizeof contents, &input));
    assert_true(guarded_create(device, "output", NULL, 6, &output));
    assert_int_equal((uintptr_t)guarded_data(&output) % 256, 0);
    uint8_t *out = guarded_data(&output); /* device memory is host memory here */
    uint8_t *in = guarded_data(&input);
    assert_true(guarded_poison(device, &output));
    assert_memory_equal(out, "\xff\xff\xff\xff\xff\xff", 6);
    memset(out, 7, 6);
    assert_int_equal(guarded_check(device, &output, why), GUARDED_INTACT);
    assert_int_equal(guarded_check(device, &input, why), GUARDED_INTACT);
    out[6] = 0;
    assert_int_equal(guarded_check(device, &output, why), GUARDED_BROKEN);
    assert_string_equal(why, "output: written 0 bytes past its end");
    out[-GUARDED_ZONE_BYTES] = 0;
    assert_int_equal(guarded_check(device, &output, why), GUARDED_BROKEN);
    assert_string_equal(why, "output: written 4096 bytes before its begin");
    in[2] = 0;
    assert_int_equal(guarded_check(device, &input, why), GUARDED_BROKEN);
    assert_string_equal(why, "input: an input was changed");
    guarded_destroy(device, &input);
    guarded_destroy(device, &output);
    assert_null(guarded_data(&output));
    assert_int_equal(guarded_check(device, &output, why), GUARDED_INTACT);
}

#define OPENED(test) cmocka_unit_test_setup_teardown(test, open_device, close_device)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_missing_is_named),
        OPENED(memory),
        OPENED(an_optional_function_is_missing),
        OPENED(guard_zones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
