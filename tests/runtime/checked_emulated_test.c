/* A checked kernel on the emulated device, with the real compiler: the first offender among many is named, and nothing
 * of an output is touched; what may be stays allowed. Exit 77: no compiler here. */
#include <dlfcn.h>

#include "harness.h"

enum { EXIT_SKIPPED = 77, S_Q = 5, H_Q = 8, D = 512, S_KV = 40, TOPK = 300, EXTRA_S_KV = 30, EXTRA_TOPK = 70 };
enum { V41_BYTES = 528, ROUNDS = 60, OUT_BYTES = S_Q * H_Q * D * 2 };

typedef unsigned long long address;

/* Of the driver, what the library does not call. */
static struct {
    int (*retain)(void **context, int device);
    int (*set_current)(void *context);
    int (*alloc)(address *out, size_t bytes);
    int (*free)(address memory);
    int (*upload)(address to, const void *from, size_t bytes);
    int (*download)(void *to, address from, size_t bytes);
    int (*stream_create)(void **stream, unsigned int flags);
    int (*begin_capture)(void *stream, int mode);
    int (*end_capture)(void *stream, void **graph);
    int (*graph_nodes)(void *graph, void **nodes, size_t *count);
} cu;

static void find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);

    if (symbol == NULL)
        fail_msg("no %s", name);
    memcpy(function, &symbol, sizeof symbol);
}

static void find_driver(void)
{
    void *library = dlopen(EMULATED_DRIVER_PATH, RTLD_NOW | RTLD_LOCAL);

    assert_non_null(library);
    find(library, "cuDevicePrimaryCtxRetain", &cu.retain);
    find(library, "cuCtxSetCurrent", &cu.set_current);
    find(library, "cuMemAlloc_v2", &cu.alloc);
    find(library, "cuMemFree_v2", &cu.free);
    find(library, "cuMemcpyHtoD_v2", &cu.upload);
    find(library, "cuMemcpyDtoH_v2", &cu.download);
    find(library, "cuStreamCreate", &cu.stream_create);
    find(library, "cuStreamBeginCapture_v2", &cu.begin_capture);
    find(library, "cuStreamEndCapture", &cu.end_capture);
    find(library, "cuGraphGetNodes", &cu.graph_nodes);
}

/* A call's lists on the host, and what it has on the device. */
static smla_context *context;
static smla_kernel *one_cache, *two_caches, *unchecked;
static int32_t indices[S_Q][TOPK], lengths[S_Q], extra_indices[S_Q][EXTRA_TOPK], extra_lengths[S_Q];
static uint8_t poison[OUT_BYTES], got[OUT_BYTES];
static smla_prefill_args args;

static void *device_memory(size_t bytes)
{
    address memory = 0;

    assert_int_equal(cu.alloc(&memory, bytes), 0);
    return (void *)(uintptr_t)memory;
}

static void put(const void *to, const void *from, size_t bytes)
{
    assert_int_equal(cu.upload((address)(uintptr_t)to, from, bytes), 0);
}

static void *zeroed(size_t bytes)
{
    void *host = calloc(1, bytes), *device = device_memory(bytes);

    assert_non_null(host);
    put(device, host, bytes);
    free(host);
    return device;
}

static uint32_t seed = 1;

static int32_t below(int32_t end)
{
    seed = seed * 1664525u + 1013904223u;
    return (int32_t)((seed >> 8) % (uint32_t)end);
}

static void good_lists(void)
{
    for (int row = 0; row < S_Q; row++) {
        for (int i = 0; i < TOPK; i++)
            indices[row][i] = below(4) ? below(S_KV) : -1;
        for (int i = 0; i < EXTRA_TOPK; i++)
            extra_indices[row][i] = below(4) ? below(EXTRA_S_KV) : -1;
        lengths[row] = below(4) ? TOPK : below(TOPK + 1);
        extra_lengths[row] = below(4) ? EXTRA_TOPK : below(EXTRA_TOPK + 1);
    }
}

static void give_lists(void)
{
    put(args.indices, indices, sizeof indices);
    put(args.topk_length, lengths, sizeof lengths);
    if (args.extra_indices) {
        put(args.extra_indices, extra_indices, sizeof extra_indices);
        put(args.extra_topk_length, extra_lengths, sizeof extra_lengths);
    }
}

static void without_extra(void)
{
    args.extra_s_kv = args.extra_topk = 0;
    args.extra_kv = NULL;
    args.extra_indices = NULL;
    args.extra_topk_length = NULL;
}

static smla_prefill_args make_args(void)
{
    return (smla_prefill_args){
        .struct_size = sizeof(smla_prefill_args),
        .s_q = S_Q,
        .s_kv = S_KV,
        .topk = TOPK,
        .sm_scale = 0.04f,
        .query = zeroed(S_Q * H_Q * D * 2),
        .kv = zeroed(S_KV * D * 2),
        .indices = device_memory(sizeof indices),
        .topk_length = device_memory(sizeof lengths),
        .out = device_memory(OUT_BYTES),
        .workspace = device_memory(8),
        .workspace_bytes = 8,
        .extra_s_kv = EXTRA_S_KV,
        .extra_topk = EXTRA_TOPK,
        .extra_kv = zeroed(EXTRA_S_KV * V41_BYTES),
        .extra_indices = device_memory(sizeof extra_indices),
        .extra_topk_length = device_memory(sizeof extra_lengths),
    };
}

static int setup(void **state)
{
    static bool made;
    static smla_prefill_args whole;

    (void)state;
    if (!made)
        whole = make_args();
    made = true;
    args = whole;
    memset(poison, 0x7f, sizeof poison);
    put(args.out, poison, sizeof poison);
    good_lists();
    give_lists();
    return 0;
}

static void download_out(void)
{
    assert_int_equal(cu.download(got, (address)(uintptr_t)args.out, sizeof got), 0);
}

static void must_refuse(smla_kernel *kernel, const char *sentence)
{
    assert_int_equal(smla_prefill(kernel, &args, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    assert_string_equal(last_error().message, sentence);
    download_out();
    assert_memory_equal(got, poison, sizeof poison);
}

static void must_prefill(smla_kernel *kernel)
{
    if (smla_prefill(kernel, &args, NULL) != SMLA_OK)
        fail_msg("%s", last_error().message);
    download_out();
}

/* ---- What may be ---- */

static void good_lists_give_the_kernels_bits(void **state)
{
    static uint8_t plain[OUT_BYTES];
    (void)state;

    must_prefill(two_caches);
    assert_memory_not_equal(got, poison, sizeof poison);
    without_extra();
    must_prefill(unchecked);
    memcpy(plain, got, sizeof plain);
    put(args.out, poison, sizeof poison);
    must_prefill(one_cache);
    assert_memory_equal(got, plain, sizeof plain);
}

/* What stands past a length is not looked at: it need not even be written. */
static void past_the_length(void **state)
{
    (void)state;
    args.indices = device_memory(sizeof indices); /* full of what nobody wrote */
    memset(lengths, 0, sizeof lengths);
    lengths[2] = 3;
    put(args.topk_length, lengths, sizeof lengths);
    put(&args.indices[2 * TOPK], indices[2], 3 * 4);
    without_extra();
    must_prefill(one_cache);
    lengths[2] = lengths[3] = -1;
    put(args.topk_length, lengths, sizeof lengths);
    put(args.out, poison, sizeof poison);
    must_refuse(one_cache, "topk_length[2] is -1: lengths are 0 to topk 300");
}

static void empty_calls(void **state)
{
    (void)state;
    without_extra();
    args.topk = 0;
    args.indices = NULL;
    args.topk_length = NULL;
    must_prefill(one_cache);
    for (int i = 0; i < OUT_BYTES; i++)
        assert_int_equal(got[i], 0);
    put(args.out, poison, sizeof poison);
    lengths[0] = lengths[1] = lengths[2] = lengths[3] = 0;
    lengths[4] = 1; /* of a list of none */
    args.topk_length = device_memory(sizeof lengths);
    put(args.topk_length, lengths, sizeof lengths);
    must_refuse(one_cache, "topk_length[4] is 1: lengths are 0 to topk 0");
    args.s_q = 0;
    must_prefill(one_cache);
    assert_memory_equal(got, poison, sizeof poison);
}

/* ---- The first of many ---- */

static bool first_in(const char *name, const int32_t *list, int topk, const int32_t *length, int s_kv, int row,
                     char sentence[256])
{
    const char *extra = strncmp(name, "extra_", 6) == 0 ? "extra_" : "";

    if (length[row] < 0 || length[row] > topk) {
        snprintf(sentence, 256, "%stopk_length[%d] is %d: lengths are 0 to %stopk %d", extra, row, length[row], extra,
                 topk);
        return true;
    }
    for (int i = 0; i < length[row]; i++) {
        const int32_t index = list[row * topk + i];
        if (index >= -1 && index < s_kv)
            continue;
        if (index < 0)
            snprintf(sentence, 256, "%s[row %d][slot %d] is %d: negative, and not the marker -1", name, row, i, index);
        else
            snprintf(sentence, 256, "%s[row %d][slot %d] is %d: neither -1 nor below %ss_kv %d", name, row, i, index,
                     extra, s_kv);
        return true;
    }
    return false;
}

/* What the header promises, read by one thread in order. */
static bool find_first(bool two, char sentence[256])
{
    for (int row = 0; row < S_Q; row++)
        if (first_in("indices", indices[0], TOPK, lengths, S_KV, row, sentence) ||
            (two && first_in("extra_indices", extra_indices[0], EXTRA_TOPK, extra_lengths, EXTRA_S_KV, row, sentence)))
            return true;
    return false;
}

static int32_t bad_index(int32_t s_kv)
{
    static const int32_t kinds[] = {-2, INT32_MIN, INT32_MAX, 70000};
    const int32_t which = below(6);

    return which < 4 ? kinds[which] : s_kv + which - 4;
}

static void spoil_lists(void)
{
    for (int32_t n = 1 + below(12); n > 0; n--) {
        const int32_t row = below(S_Q), what = below(8);
        if (what < 5)
            indices[row][below(TOPK)] = bad_index(S_KV);
        else if (what < 7)
            extra_indices[row][below(EXTRA_TOPK)] = bad_index(EXTRA_S_KV);
        else
            (below(2) ? lengths : extra_lengths)[row] = below(2) ? -1 - below(9) : TOPK + 1 + below(9);
    }
}

static void the_first_of_many(void **state)
{
    char sentence[256];
    int refused = 0;
    (void)state;

    for (int round = 0; round < ROUNDS; round++) {
        const bool two = round % 3 != 0;
        setup(NULL);
        if (!two)
            without_extra();
        spoil_lists();
        give_lists();
        if (!find_first(two, sentence))
            continue; /* all of it past the lengths */
        must_refuse(two ? two_caches : one_cache, sentence);
        refused++;
    }
    assert_true(refused > ROUNDS / 2);
}

/* ---- Extents, captures ---- */

static void one_byte_short(void **state)
{
    (void)state;
    args.kv = device_memory(S_KV * D * 2 - 1);
    must_refuse(two_caches, "kv reaches 1 byte past its allocation of 40959 bytes: s_kv 40, kv_stride_token 512, from "
                            "byte 0 of it");
    setup(NULL);
    args.extra_kv = device_memory(EXTRA_S_KV * V41_BYTES - 1);
    must_refuse(two_caches, "extra_kv reaches 1 byte past its allocation of 15839 bytes: extra_s_kv 30, "
                            "extra_kv_stride_token 528, from byte 0 of it");
    setup(NULL);
    args.extra_indices = (const int32_t *)device_memory(sizeof extra_indices + 2) + 1;
    must_refuse(two_caches,
                "extra_indices reaches 2 bytes past its allocation of 1402 bytes: [5, 1, 70] with strides of "
                "70 and 70 elements, from byte 4 of it");
    setup(NULL);
    args.lse = device_memory(S_Q * H_Q * 4 - 1);
    must_refuse(two_caches, "lse reaches 1 byte past its allocation of 159 bytes: [5, 1, 8] with strides of 8 and 8 "
                            "elements, from byte 0 of it");
}

static void a_capture_goes_on(void **state)
{
    void *stream = NULL, *graph = NULL;
    size_t nodes = 99;
    (void)state;

    assert_int_equal(cu.stream_create(&stream, 1), 0);
    assert_int_equal(cu.begin_capture(stream, 0), 0);
    assert_int_equal(smla_prefill(two_caches, &args, stream), SMLA_ERROR_INVALID_ARGUMENT);
    assert_error(SMLA_ERROR_INVALID_ARGUMENT, "the stream is capturing");
    assert_int_equal(cu.end_capture(stream, &graph), 0);
    assert_int_equal(cu.graph_nodes(graph, NULL, &nodes), 0);
    assert_int_equal(nodes, 0);
    if (smla_prefill(two_caches, &args, stream) != SMLA_OK)
        fail_msg("%s", last_error().message);
}

/* Legacy stream beside a capture of a stream that it would wait for: the driver's own error. */
static void a_capture_elsewhere(void **state)
{
    void *stream = NULL, *graph = NULL;
    (void)state;

    assert_int_equal(cu.stream_create(&stream, 0), 0);
    assert_int_equal(cu.begin_capture(stream, 0), 0);
    assert_int_equal(smla_prefill(two_caches, &args, NULL), SMLA_ERROR_DRIVER);
    assert_int_equal(last_error().native_code, 906);
    (void)cu.end_capture(stream, &graph);
}

/* ---- Kernels ---- */

static smla_status prepare(void)
{
    smla_kernel_desc desc = prefill_desc();
    const smla_context_desc context_desc = {.struct_size = sizeof context_desc,
                                            .flags = SMLA_CONTEXT_PRIMARY,
                                            .cache_policy = SMLA_CACHE_OFF,
                                            .jit_policy = SMLA_JIT_ON,
                                            .driver_path = EMULATED_DRIVER_PATH};

    smla_status status = smla_context_create(&context_desc, &context);
    desc.h_q = H_Q;
    if (status == SMLA_OK)
        status = smla_prepare(context, &desc, &unchecked);
    desc.flags = SMLA_KERNEL_CHECKED;
    if (status == SMLA_OK)
        status = smla_prepare(context, &desc, &one_cache);
    desc.extra_kv_format = "v41";
    if (status == SMLA_OK)
        status = smla_prepare(context, &desc, &two_caches);
    return status;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        TEST(good_lists_give_the_kernels_bits),
        TEST(past_the_length),
        TEST(empty_calls),
        TEST(the_first_of_many),
        TEST(one_byte_short),
        TEST(a_capture_goes_on),
        TEST(a_capture_elsewhere),
    };
    void *primary = NULL;
    const smla_status status = prepare();

    if (status == SMLA_ERROR_UNAVAILABLE) {
        printf("SKIP: %s\n", last_error().message);
        return EXIT_SKIPPED;
    }
    if (status != SMLA_OK) {
        fprintf(stderr, "%s\n%s\n", last_error().message, last_error().log);
        return 1;
    }
    find_driver();
    if (cu.retain(&primary, 0) != 0 || cu.set_current(primary) != 0)
        return 1;
    const int failed = cmocka_run_group_tests_name("runtime.checked_emulated", tests, NULL, NULL);
    smla_kernel_destroy(unchecked);
    smla_kernel_destroy(one_cache);
    smla_kernel_destroy(two_caches);
    smla_context_destroy(context);
    return failed;
}
