/* safetensors: what is read back after writing, and each rule of the format broken once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "case.h"
#include "safetensors.h"

/* A file's bytes with a right length field; malloc'd. */
static uint8_t *build(const char *header, size_t data_bytes, size_t *size_bytes)
{
    const size_t length = strlen(header);
    *size_bytes = 8 + length + data_bytes;
    uint8_t *bytes = calloc(1, *size_bytes);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)length >> (8 * i));
    memcpy(bytes + 8, header, length);
    return bytes;
}

static const struct {
    const char *header;
    size_t data_bytes;
    const char *why; /* part of the sentence; NULL: the file is right */
} table[] = {
    {"{}", 0, NULL},
    {"{}   ", 0, NULL},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, NULL},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, NULL},
    {"{\"a\":{\"dtype\":\"F64\",\"shape\":[3,0],\"data_offsets\":[0,0]}}", 0, NULL},
    {"{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},"
     "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
     2, NULL},
    {"{\"__metadata__\":{\"k\":\"v\"}}", 0, NULL},
    {"", 0, "does not begin"},
    {"[]", 0, "does not begin"},
    {" {}", 0, "does not begin"},
    {"{", 0, "no JSON"},
    {"{}x", 0, "no JSON"},
    {"{\"a\":1}", 0, "not an object"},
    {"{\"a\":{}}", 0, "not an object"},
    {"{\"__metadata__\":[]}", 0, "__metadata__ is no object"},
    {"{\"__metadata__\":{\"k\":1}}", 0, "'k' is no string"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
     1, "no JSON"}, /* a name twice */
    {"{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "unknown dtype 'F33'"},
    {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "dtype is missing"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":4,\"data_offsets\":[0,1]}}", 1, "shape is no array"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1, "at most 8"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", 1, "natural number"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}", 1, "natural number"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[99999999999999999999],\"data_offsets\":[0,1]}}", 1, "no JSON"},
    {"{\"a\":{\"dtype\":\"F64\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0, "overflows"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0, "overflows"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, "no pair"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,\"1\"]}}", 1, "no pair"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[-1,0]}}", 1, "outside"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}}", 1, "outside"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 1, "outside"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[9223372036854775807,9223372036854775807]}}", 1,
     "outside"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "4 bytes of data for a shape of 8"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2, "a hole"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
     3, "overlap"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 3, "2 bytes of data belong to no tensor"},
};

static void each_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char why[ST_WHY] = "";
        struct st_file file;
        size_t size_bytes;
        uint8_t *bytes = build(table[i].header, table[i].data_bytes, &size_bytes);
        const bool ok = st_parse(bytes, size_bytes, &file, why);
        if (ok != (table[i].why == NULL) || (!ok && strstr(why, table[i].why) == NULL))
            fail_msg("%s: %s", table[i].header, ok ? "accepted" : why);
        st_free(&file);
    }
}

static void short_files(void **state)
{
    (void)state;
    static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    size_t size_bytes;
    uint8_t *whole = build(header, 8, &size_bytes);
    for (size_t size = 0; size < size_bytes; size++) {
        char why[ST_WHY];
        struct st_file file;
        uint8_t *part = malloc(size + 1);
        assert_non_null(part);
        memcpy(part, whole, size);
        assert_false(st_parse(part, size, &file, why));
    }
    free(whole);
}

static void huge_header_length(void **state)
{
    (void)state;
    char why[ST_WHY];
    struct st_file file;
    size_t size_bytes;
    uint8_t *bytes = build("{}", 0, &size_bytes);
    memset(bytes, 0xff, 8);
    assert_false(st_parse(bytes, size_bytes, &file, why));
    assert_non_null(strstr(why, "does not fit"));
}

static void missing_file(void **state)
{
    (void)state;
    char why[ST_WHY];
    struct st_file file;
    assert_false(st_read("/nonexistent/x.safetensors", &file, why));
    assert_non_null(strstr(why, "/nonexistent/x.safetensors"));
}

static void written_and_read_back(void **state)
{
    (void)state;
    char path[] = "/tmp/smla-safetensors-XXXXXX";
    char why[ST_WHY];
    struct st_file file;
    const float values[6] = {1, 2, 3, 4, 5, 6};
    const uint8_t bytes[3] = {7, 8, 9};
    const struct st_tensor tensors[] = {{"values", ST_F32, 2, {2, 3}, values, sizeof values},
                                        {"bytes", ST_U8, 1, {3}, bytes, sizeof bytes},
                                        {"nothing", ST_BF16, 2, {0, 4}, NULL, 0}};
    const struct st_pair metadata[] = {{"op", "prefill"}, {"quote", "a \"b\" \\ \xc3\xa4"}};
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_true(st_write(path, tensors, 3, metadata, 2, why));
    assert_true(st_read(path, &file, why));
    unlink(path);
    assert_int_equal(file.tensor_count, 3);
    const struct st_tensor *back = st_find(&file, "values");
    assert_non_null(back);
    assert_true(back->dtype == ST_F32 && back->rank == 2 && back->shape[0] == 2 && back->shape[1] == 3);
    assert_memory_equal(back->data, values, sizeof values);
    assert_int_equal((uintptr_t)((const uint8_t *)back->data - file.bytes) % 8, 0);
    assert_memory_equal(st_find(&file, "bytes")->data, bytes, sizeof bytes);
    assert_int_equal(st_find(&file, "nothing")->size_bytes, 0);
    assert_string_equal(st_metadata(&file, "quote"), metadata[1].value);
    assert_null(st_find(&file, "other"));
    assert_null(st_metadata(&file, "other"));
    st_free(&file);
}

static void unwritable_folder(void **state)
{
    (void)state;
    char why[ST_WHY];
    assert_false(st_write("/nonexistent/x.safetensors", NULL, 0, NULL, 0, why));
    assert_false(st_write("/tmp", NULL, 0, NULL, 0, why));
}

/* ---- Cases ---- */

#define DECODE                                                                                                         \
    "\"__metadata__\":{\"op\":\"decode\",\"kv_format\":\"v41\"},"                                                      \
    "\"Q\":{\"dtype\":\"BF16\",\"shape\":[1,1,1,4],\"data_offsets\":[0,8]}"
#define PAGES "\"KV\":{\"dtype\":\"U8\",\"shape\":[1,8],\"data_offsets\":[8,16]}"
#define PAGE_SIZE "\"page_size\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[16,20]}"
#define META "\"__metadata__\":{\"op\":\"prefill\",\"kv_format\":\"bf16\"}"
#define QUERY "\"Q\":{\"dtype\":\"BF16\",\"shape\":[1,1,4],\"data_offsets\":[0,8]}"
#define KEYS "\"KV\":{\"dtype\":\"BF16\",\"shape\":[1,1,4],\"data_offsets\":[8,16]}"
#define LIST "\"indices\":{\"dtype\":\"I32\",\"shape\":[1,1,1],\"data_offsets\":[16,20]}"
#define SCALE "\"sm_scale\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[20,24]}"
#define ANSWER "\"O_ref\":{\"dtype\":\"F32\",\"shape\":[1,1,2],\"data_offsets\":[24,32]}"

static const struct {
    const char *header;
    size_t data_bytes;
    enum case_status status;
    const char *why;
} case_table[] = {
    {"{" META "," QUERY "," KEYS "," LIST "," SCALE "," ANSWER "}", 32, CASE_OK, NULL},
    {"{" QUERY "," KEYS "," LIST "," SCALE "," ANSWER "}", 32, CASE_BROKEN, "no op and kv_format"},
    {"{\"__metadata__\":{\"op\":\"decode\",\"kv_format\":\"v32\"}}", 0, CASE_BROKEN, "tensor 'Q' BF16"},
    {"{\"__metadata__\":{\"op\":\"sort\",\"kv_format\":\"bf16\"}}", 0, CASE_UNSUPPORTED, "op 'sort' is unknown"},
    {"{\"__metadata__\":{\"op\":\"prefill\",\"kv_format\":\"v32\"}}", 0, CASE_UNSUPPORTED,
     "prefill cases have one bf16 cache"},
    {"{" META "}", 0, CASE_BROKEN, "'Q' BF16 [any, any, any] is missing"},
    {"{" META "," QUERY "}", 8, CASE_BROKEN, "'KV' BF16 [any, 1, 4] is missing"},
    {"{" META "," QUERY "," KEYS "}", 16, CASE_BROKEN, "'indices' I32 [1, 1, any] is missing"},
    {"{" META "," QUERY "," KEYS "," LIST "," SCALE "}", 24, CASE_BROKEN, "d_v 512 is more than d_qk 4"},
    {"{" META "," QUERY "," KEYS "," LIST "," SCALE ",\"O_ref\":{\"dtype\":\"F32\",\"shape\":[1,2,2],"
     "\"data_offsets\":[24,40]}}",
     40, CASE_BROKEN, "'O_ref' is F32 [1, 2, 2], not F32 [1, 1, 2]"},
    {"{" META "," QUERY "," KEYS "," LIST "," SCALE "," ANSWER ",\"attn_sink\":{\"dtype\":\"F64\",\"shape\":[1],"
     "\"data_offsets\":[32,40]}}",
     40, CASE_BROKEN, "'attn_sink' is F64 [1], not F32 [1]"},
    {"{" DECODE "}", 8, CASE_BROKEN, "'KV' U8 [any, any] is missing"},
    {"{" DECODE "," KEYS "}", 16, CASE_BROKEN, "'KV' is BF16 [1, 1, 4], not U8 [any, any]"},
    {"{" DECODE "," PAGES "}", 16, CASE_BROKEN, "'page_size' I32 [1] is missing"},
    {"{" DECODE "," PAGES "," PAGE_SIZE "}", 20, CASE_BROKEN, "page_size is 0"},
};

/* Pages without bytes may be any number of them. */
static void pages_that_overflow(void **state)
{
    static const char header[] = "{" DECODE ",\"KV\":{\"dtype\":\"U8\",\"shape\":[4611686018427387904,0],"
                                 "\"data_offsets\":[8,8]},"
                                 "\"page_size\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[8,12]}}";
    char why[CASE_WHY] = "";
    struct st_file file;
    struct smla_case loaded;
    size_t size_bytes;
    uint8_t *bytes = build(header, 12, &size_bytes);
    (void)state;
    bytes[size_bytes - 4] = 2; /* tokens a page */
    assert_true(st_parse(bytes, size_bytes, &file, why));
    assert_int_equal(case_read(&file, "p.safetensors", &loaded, why), CASE_BROKEN);
    assert_non_null(strstr(why, "KV: 4611686018427387904 pages of 2 tokens overflow"));
    st_free(&file);
}

static void cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof case_table / sizeof case_table[0]; i++) {
        char why[CASE_WHY] = "";
        struct st_file file;
        struct smla_case loaded;
        size_t size_bytes;
        uint8_t *bytes = build(case_table[i].header, case_table[i].data_bytes, &size_bytes);
        if (!st_parse(bytes, size_bytes, &file, why))
            fail_msg("%s: %s", case_table[i].header, why);
        const enum case_status status = case_read(&file, "folder/p.x.safetensors", &loaded, why);
        if (status != case_table[i].status || (status != CASE_OK && strstr(why, case_table[i].why) == NULL))
            fail_msg("%s: %d, %s", case_table[i].header, (int)status, why);
        st_free(&file);
        if (status == CASE_OK) {
            assert_string_equal(loaded.name, "p.x");
            assert_true(loaded.h_q == 1 && loaded.d_qk == 4 && loaded.d_v == 2 && loaded.caches[0].topk == 1);
            case_free(&loaded);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule),    cmocka_unit_test(short_files),           cmocka_unit_test(huge_header_length),
        cmocka_unit_test(missing_file), cmocka_unit_test(written_and_read_back), cmocka_unit_test(unwritable_folder),
        cmocka_unit_test(cases),        cmocka_unit_test(pages_that_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
