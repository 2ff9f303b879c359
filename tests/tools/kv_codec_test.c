/* The caches' writer and reader: numbers exhaustively, and bytes against the Python package's
 * (tests/python/kv_rows.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bf16.h"
#include "kv_codec.h"
#include "safetensors.h"

/* ---- Numbers ---- */

static void same_float(float got, double wanted)
{
    if (isnan(wanted))
        assert_true(isnan(got));
    else
        assert_true((double)got == wanted && !signbit(got) == !signbit(wanted));
}

/* OCP 8-bit floating point 1.0, table 1: S.EEEE.MMM, bias 7. */
static double e4m3_value(int code)
{
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    const double size = exponent ? (1 + mantissa / 8.0) * exp2(exponent - 7) : mantissa / 8.0 * exp2(-6);

    if ((code & 0x7f) == 0x7f)
        return NAN;
    return code & 0x80 ? -size : size;
}

/* OCP Microscaling Formats 1.0, table 5: S.EE.M, bias 1. */
static double e2m1_value(int nibble)
{
    const int exponent = nibble >> 1 & 3, mantissa = nibble & 1;
    const double size = exponent ? (1 + mantissa / 2.0) * exp2(exponent - 1) : mantissa / 2.0;

    return nibble & 8 ? -size : size;
}

static void every_code_of_e4m3(void **state)
{
    (void)state;
    for (int code = 0; code < 256; code++)
        same_float(kv_e4m3_to_float((uint8_t)code), e4m3_value(code));
    same_float(kv_e4m3_to_float(0x7e), 448);
    same_float(kv_e4m3_to_float(0x01), 0x1p-9);
    same_float(kv_e4m3_to_float(0x80), -0.0);
}

static void every_code_of_e2m1(void **state)
{
    static const double sizes[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    (void)state;
    for (int nibble = 0; nibble < 16; nibble++) {
        same_float(kv_e2m1_to_float((uint8_t)nibble), e2m1_value(nibble));
        assert_true(fabs(e2m1_value(nibble)) == sizes[nibble & 7]);
    }
}

static void every_code_of_ue8m0(void **state)
{
    (void)state;
    for (int code = 0; code < 255; code++)
        same_float(kv_ue8m0_to_float((uint8_t)code), exp2(code - 127));
    same_float(kv_ue8m0_to_float(255), NAN);
}

/* The code, of the `count` not negative ones, whose value is nearest; of two the even one. Past the last, the last. */
static int nearest(double size, int count, double (*value)(int code))
{
    int best = 0;

    for (int code = 1; code < count; code++) {
        const double before = fabs(size - value(best)), now = fabs(size - value(code));
        if (now < before || (now == before && code % 2 == 0) || size > value(code))
            best = code;
    }
    return best;
}

static void round_one(float value)
{
    const int e4m3 = nearest(fabs((double)value), 0x7f, e4m3_value), e2m1 = nearest(fabs((double)value), 8, e2m1_value);

    assert_int_equal(kv_e4m3_from_float(value), e4m3 | (signbit(value) ? 0x80 : 0));
    assert_int_equal(kv_e2m1_from_float(value), e2m1 | (signbit(value) ? 8 : 0));
}

static void round_around(double value)
{
    const float middle = (float)value;
    const float values[] = {middle, nextafterf(middle, INFINITY), nextafterf(middle, -INFINITY)};

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        round_one(values[i]);
        round_one(-values[i]);
    }
}

/* Each bf16 that is a number; each code and each middle of two, and the floats beside them. */
static void rounding_is_to_nearest_even(void **state)
{
    (void)state;
    for (int bits = 0; bits < 1 << 16; bits++)
        if (!isnan(bf16_to_float((uint16_t)bits)))
            round_one(bf16_to_float((uint16_t)bits));
    for (int code = 0; code < 0x7e; code++) {
        round_around(e4m3_value(code));
        round_around((e4m3_value(code) + e4m3_value(code + 1)) / 2);
    }
    for (int code = 0; code < 7; code++) {
        round_around(e2m1_value(code));
        round_around((e2m1_value(code) + e2m1_value(code + 1)) / 2);
    }
    round_around(448);
    round_around(464); /* where a format with more codes would round up */
    assert_int_equal(kv_e4m3_from_float(NAN) & 0x7f, 0x7f);
    assert_int_equal(kv_e2m1_from_float(NAN) & 7, 0);
}

/* ---- Bytes ---- */

static const struct {
    const char *name;
    int32_t d_qk;
    int64_t token_bytes;
} formats[] = {
    {"v32", 576, 656},
    {"v32_norope", 512, 528},
    {"v4", 512, 584},
    {"v41", 512, 528},
    {"v41_planar", 512, 528},
    {"v41_fp4", 512, 288},
    {"v41_fp4_planar", 512, 288},
    {"hopper_fp4", 512, 384},
};
enum { FORMATS = sizeof formats / sizeof formats[0], ROWS = 6, WIDTH = 576, PAGES = 2, PAGE_TOKENS = 4 };

struct fixture {
    struct st_file file;
    uint16_t rows[ROWS][WIDTH];
    int32_t slots[ROWS];
};

/* Copies a tensor of just this size. */
static void take(const struct fixture *fixture, const char *name, void *to, size_t size_bytes)
{
    const struct st_tensor *tensor = st_find(&fixture->file, name);

    if (tensor == NULL)
        fail_msg("no tensor %s: run tests/python/kv_rows.py", name);
    else {
        assert_int_equal(tensor->size_bytes, size_bytes);
        memcpy(to, tensor->data, size_bytes);
    }
}

static int open_fixture(void **state)
{
    static struct fixture fixture;
    char why[ST_WHY];

    if (!st_read(TEST_DATA "/formats/kv-rows.safetensors", &fixture.file, why))
        fail_msg("%s", why);
    take(&fixture, "rows", fixture.rows, sizeof fixture.rows);
    take(&fixture, "slots", fixture.slots, sizeof fixture.slots);
    *state = &fixture;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *fixture = *state;
    st_free(&fixture->file);
    return 0;
}

static struct kv_view view_of(size_t format, uint8_t *cache)
{
    smla_kv_layout layout = {.struct_size = sizeof layout};

    assert_int_equal(smla_kv_layout_preset(formats[format].name, formats[format].d_qk, &layout), SMLA_OK);
    assert_int_equal(kv_token_bytes(&layout), formats[format].token_bytes);
    return kv_view_make(&layout, cache, 0, PAGE_TOKENS, PAGE_TOKENS * formats[format].token_bytes);
}

/* What the Python writer wrote, padding and other tokens included. */
static void bytes_are_pythons(void **state)
{
    const struct fixture *fixture = *state;

    for (size_t f = 0; f < FORMATS; f++) {
        const size_t size = (size_t)(PAGES * PAGE_TOKENS * formats[f].token_bytes);
        uint8_t *wanted = malloc(size), *cache = malloc(size);
        assert_true(wanted != NULL && cache != NULL);
        take(fixture, formats[f].name, wanted, size);
        memset(cache, 0x7f, size);
        const struct kv_view view = view_of(f, cache);
        for (int i = 0; i < ROWS; i++)
            kv_write(&view, fixture->slots[i], fixture->rows[i]);
        for (size_t i = 0; i < size; i++)
            if (cache[i] != wanted[i])
                fail_msg("%s: byte %zu is 0x%02x, Python wrote 0x%02x", formats[f].name, i, cache[i], wanted[i]);
        free(wanted);
        free(cache);
    }
}

/* And what the Python reader read of it. */
static void values_are_pythons(void **state)
{
    const struct fixture *fixture = *state;

    for (size_t f = 0; f < FORMATS; f++) {
        const size_t size = (size_t)(PAGES * PAGE_TOKENS * formats[f].token_bytes), d_qk = (size_t)formats[f].d_qk;
        uint8_t *cache = malloc(size);
        uint16_t wanted[ROWS * WIDTH], row[WIDTH];
        char name[32];
        assert_non_null(cache);
        take(fixture, formats[f].name, cache, size);
        snprintf(name, sizeof name, "%s.read", formats[f].name);
        take(fixture, name, wanted, ROWS * d_qk * sizeof wanted[0]);
        const struct kv_view view = view_of(f, cache);
        for (size_t i = 0; i < ROWS; i++) {
            kv_read(&view, fixture->slots[i], row);
            for (size_t d = 0; d < d_qk; d++)
                if (row[d] != wanted[i * d_qk + d])
                    fail_msg("%s: row %zu, element %zu is 0x%04x, Python read 0x%04x", formats[f].name, i, d, row[d],
                             wanted[i * d_qk + d]);
        }
        free(cache);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_of_e4m3),
        cmocka_unit_test(every_code_of_e2m1),
        cmocka_unit_test(every_code_of_ue8m0),
        cmocka_unit_test(rounding_is_to_nearest_even),
        cmocka_unit_test_setup_teardown(bytes_are_pythons, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(values_are_pythons, open_fixture, close_fixture),
    };
    return cmocka_run_group_tests_name("tools.kv_codec", tests, NULL, NULL);
}
