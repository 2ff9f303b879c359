/* What others' JITs and loaders were reported for and no other test here tries, by the numbers of docs/bug-reports.md:
 * on the stubs. */
#include <elf.h>
#include <ftw.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernel.h"
#include "prefill_params.h"
#include "ranks.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLOWER = 20, MEASURES_MEMORY = false };
#else
enum { SLOWER = 1, MEASURES_MEMORY = true };
#endif

static smla_context *open_context(const char *folder)
{
    smla_context_desc desc = stub_context_desc();
    smla_context *context = NULL;

    desc.cache_policy = folder ? SMLA_CACHE_RW : SMLA_CACHE_OFF;
    desc.cache_dir = folder;
    if (smla_context_create(&desc, &context) != SMLA_OK)
        fail_msg("%s", last_error().message);
    return context;
}

static void assert_files(const char *folder, int entries)
{
    const struct ranks_files files = ranks_count_files(folder);

    assert_int_equal(files.entries, entries);
    assert_int_equal(files.others, 0);
}

static smla_kernel_desc reference_of(int32_t h_q)
{
    smla_kernel_desc desc = reference_desc();

    desc.h_q = h_q;
    return desc;
}

static void prepare_and_destroy(smla_context *context, int32_t h_q)
{
    const smla_kernel_desc desc = reference_of(h_q);

    smla_kernel_destroy(must_prepare(context, &desc));
}

static int32_t ignore_bytes(void *user, const void *bytes, size_t size)
{
    (void)user;
    (void)bytes;
    return size == 0;
}

static smla_prefill_args call_of(int64_t s_q)
{
    return (smla_prefill_args){.struct_size = sizeof(smla_prefill_args),
                               .s_q = s_q,
                               .s_kv = 4096,
                               .topk = 640,
                               .sm_scale = 0.125f,
                               .query = (void *)(uintptr_t)0x10000,
                               .kv = (void *)(uintptr_t)0x20000,
                               .indices = (int32_t *)(uintptr_t)0x30000,
                               .out = (void *)(uintptr_t)0x60000};
}

/* One token of each of b requests, of the same tensors. */
static smla_decode_args decode_call_of(const smla_prefill_args *of, int64_t b, int64_t topk)
{
    return (smla_decode_args){.struct_size = sizeof(smla_decode_args),
                              .b = b,
                              .s_q = 1,
                              .s_kv = 4096,
                              .topk = topk,
                              .sm_scale = 0.125f,
                              .query = of->query,
                              .kv = of->kv,
                              .indices = of->indices,
                              .out = of->out,
                              .workspace = (void *)(uintptr_t)0x100000,
                              .workspace_bytes = (uint64_t)1 << 40};
}

/* ---- The folder and its keys -------------------------------------------------------------------------------- */

/* Whichever call of the compiler fails: its name is told, and nothing is in the folder. */
static void test_5_a_failed_compilation_leaves_nothing(void **state)
{
    struct world *world = *state;
    char *folder = make_folder();
    smla_context *context = open_context(folder);
    int failures = 0;

    world_serve_reference(world);
    for (int call = 1; call < 20; call++) {
        const smla_kernel_desc desc = reference_of(call);
        smla_kernel *kernel = NULL;

        world->nvrtc->clear_log();
        world->nvrtc->script = (struct stub_script){.fail_call = call, .fail_code = 7};
        if (smla_prepare(context, &desc, &kernel) == SMLA_OK) {
            smla_kernel_destroy(kernel);
            continue;
        }
        assert_error(SMLA_ERROR_UNAVAILABLE, "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE");
        assert_files(folder, call - 1 - failures++);
        smla_context_destroy(context); /* so that the compiler is looked for again */
        context = open_context(folder);
    }
    assert_true(failures > 7);
    world->nvrtc->script = (struct stub_script){0};
    const smla_kernel_desc refused = reference_of(100), empty = reference_of(101);
    smla_kernel *kernel = NULL;
    world->nvrtc->compile_result = 6;
    assert_int_equal(smla_prepare(context, &refused, &kernel), SMLA_ERROR_COMPILE);
    world->nvrtc->compile_result = 0;
    world->nvrtc->empty_result = true;
    assert_int_equal(smla_prepare(context, &empty, &kernel), SMLA_ERROR_COMPILE);
    assert_files(folder, 19 - failures);
    smla_context_destroy(context);
    remove_folder(folder);
}

static void prepare_in_order(const char *folder, const int32_t order[3])
{
    smla_context *context = open_context(folder);

    for (int i = 0; i < 3; i++)
        prepare_and_destroy(context, order[i]);
    smla_context_destroy(context);
}

/* Three kernels in each order, by a process for each: three entries. */
static void test_9_the_same_keys_in_any_order(void **state)
{
    static const int32_t orders[6][3] = {{1, 2, 3}, {1, 3, 2}, {2, 1, 3}, {2, 3, 1}, {3, 1, 2}, {3, 2, 1}};
    struct world *world = *state;
    char *folder = make_folder();

    world_serve_reference(world);
    for (int i = 0; i < 6; i++) {
        int status = -1;
        const pid_t child = fork();

        if (child == 0) {
            prepare_in_order(folder, orders[i]);
            _exit(i == 0 || world->nvrtc->compiles == 0 ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_files(folder, 3);
    }
    remove_folder(folder);
}

static double now_ms(void)
{
    struct timespec now;

    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Of a folder that has all of them: a millisecond each, and no look at the compiler. */
static void test_37_a_warm_start_takes_no_time(void **state)
{
    enum { KERNELS = 20, STARTS = 5 };
    struct world *world = *state;
    char *folder = make_folder();
    double best = 1e9;

    world_serve_reference(world);
    for (int start = 0; start <= STARTS; start++) {
        smla_context *context = open_context(folder);
        const double began = now_ms();

        world->nvrtc->clear_log();
        for (int32_t i = 1; i <= KERNELS; i++)
            prepare_and_destroy(context, i);
        const double took = (now_ms() - began) / KERNELS;
        if (start > 0) {
            best = took < best ? took : best;
            assert_int_equal(stats_of(context).disk_hits, KERNELS);
            assert_int_equal(world->nvrtc->calls(NULL), 0);
        }
        smla_context_destroy(context);
    }
    print_message("a kernel of a warm folder is ready in %.3f ms, the driver's share not counted\n", best);
    assert_true(best < 1.0 * SLOWER);
    remove_folder(folder);
}

static uint64_t file_bytes;

static int add_bytes(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)path;
    (void)walk;
    file_bytes += type == FTW_F ? (uint64_t)info->st_size : 0;
    return 0;
}

/* A cap of one's own, by the description or the environment: all that is in the folder is young here, so twice the cap.
 */
static void test_47_a_cap_of_ones_own(void **state)
{
    enum { CAP = 64 << 10 };
    static const char *const bad[] = {"0", "-1", "1T", "some", "1GG", "99999999999G", "18446744073709551616"};
    struct world *world = *state;
    smla_context_desc desc = stub_context_desc();
    smla_context *context = NULL;

    world_serve_reference(world);
    desc.cache_policy = SMLA_CACHE_RW;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("SMLA_CACHE_BYTES", bad[i], 1);
        assert_int_equal(smla_context_create(&desc, &context), SMLA_ERROR_INVALID_ARGUMENT);
        assert_error(SMLA_ERROR_INVALID_ARGUMENT, "SMLA_CACHE_BYTES", bad[i]);
    }
    for (int by_environment = 0; by_environment < 2; by_environment++) {
        char *folder = make_folder();

        desc.cache_dir = folder;
        desc.cache_bytes = by_environment ? 0 : CAP;
        setenv("SMLA_CACHE_BYTES", by_environment ? "64K" : "2G", 1);
        assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
        unsetenv("SMLA_CACHE_BYTES");
        for (int32_t h_q = 1; h_q <= 128; h_q++)
            prepare_and_destroy(context, h_q);
        file_bytes = 0;
        assert_int_equal(nftw(folder, add_bytes, 16, FTW_PHYS), 0);
        assert_in_range(file_bytes, CAP, 2 * CAP);
        assert_int_equal(stats_of(context).entries_written, 128);
        assert_true(events_of(context, SMLA_EVENT_EVICTION, NULL) > 0);
        smla_context_destroy(context);
        remove_folder(folder);
    }
}

/* ---- Devices ------------------------------------------------------------------------------------------------ */

/* Two devices, one of which has no kernel: each prepare has its own answer, and the good one stays good. */
static void test_57_each_device_has_its_own_answer(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    const smla_prefill_args args = call_of(7);
    smla_kernel *kernel = must_prepare(world->context, &desc), *other = NULL;

    world->driver->device_count = 2;
    world->driver->second.cc_major = 8;
    world->driver->second.cc_minor = 9;
    world->driver->set_current(world->driver->second.context);
    assert_int_equal(smla_prepare(world->context, &desc, &other), SMLA_ERROR_UNSUPPORTED);
    assert_error(SMLA_ERROR_UNSUPPORTED, "device 1 (Stub 8.9)", "compute capability 8.9");
    assert_int_equal(smla_prefill(kernel, &args, NULL), SMLA_OK); /* its context is not current */
    world->driver->set_current(TEST_CONTEXT);
    assert_int_equal(smla_prefill(kernel, &args, NULL), SMLA_OK);
    other = must_prepare(world->context, &desc);
    smla_kernel_destroy(other);
    smla_kernel_destroy(kernel);
}

/* Which target's code was loaded while a context of either device was current; of two loads the last. */
static struct {
    struct stub_driver *driver;
    char on_first[16];
    char on_second[16];
} loaded;

static void note_load(const void *code)
{
    const char *bytes = code;
    const bool second = loaded.driver->get_current() == loaded.driver->second.context;
    char *arch = second ? loaded.on_second : loaded.on_first;
    Elf64_Ehdr header;
    Elf64_Shdr note;

    memcpy(&header, bytes, sizeof header);
    memcpy(&note, bytes + header.e_shoff + 2 * sizeof note, sizeof note);
    assert_int_equal(sscanf(bytes + note.sh_offset, "-v -arch %15s", arch), 1);
}

/* The kernel's context and its own function are what a call uses, whichever context is current; that stays. */
static void assert_runs_on(struct world *world, smla_kernel *kernel, void *context, void *current)
{
    const smla_prefill_args args = call_of(7);
    char launch[32];

    world->driver->set_current(current);
    world->driver->clear_log();
    assert_int_equal(smla_prefill(kernel, &args, NULL), SMLA_OK);
    snprintf(launch, sizeof launch, ", ctx %x)\n", (unsigned)(uintptr_t)context);
    const char *line = strstr(world->driver->log(), "cuLaunchKernelEx(");
    assert_non_null(line);
    assert_ptr_equal(strstr(line, launch), strchr(line, '\n') - strlen(launch) + 1);
    assert_ptr_equal(world->driver->get_current(), current);
    assert_int_equal(world->driver->stack_depth(), 1);
}

/* The number that the log has of the function that the last launch took. */
static unsigned function_launched(const struct world *world)
{
    const char *line = strstr(world->driver->log(), "cuLaunchKernelEx(");
    unsigned function = 0;

    assert_non_null(line);
    line = strstr(line, "function ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "function %x", &function), 1);
    return function;
}

/* One description on two devices: a compilation for each target that they have, code of its own in each; called with
 * either device's context current. */
static void on_two_devices(struct world *world, int second_major, int second_minor, const char *second_arch)
{
    const smla_kernel_desc desc = reference_desc();
    void *const contexts[2] = {TEST_CONTEXT, world->driver->second.context};
    smla_context_desc context_desc = stub_context_desc();
    smla_context *context = NULL;
    smla_kernel *kernels[2];
    unsigned functions[2];
    const bool same = strcmp(second_arch, "sm_90a") == 0;
    const int compiles = world->nvrtc->compiles, loads = world->driver->loads;

    world->driver->second.cc_major = second_major;
    world->driver->second.cc_minor = second_minor;
    context_desc.flags = SMLA_CONTEXT_UNVERIFIED;
    assert_int_equal(smla_context_create(&context_desc, &context), SMLA_OK);
    for (int i = 0; i < 2; i++) {
        world->driver->set_current(contexts[i]);
        kernels[i] = must_prepare(context, &desc);
    }
    assert_int_equal(world->nvrtc->compiles - compiles, same ? 1 : 2);
    assert_int_equal(world->driver->loads - loads, 2);
    assert_string_equal(loaded.on_first, "sm_90a");
    assert_string_equal(loaded.on_second, second_arch);
    for (int i = 0; i < 2; i++) {
        assert_runs_on(world, kernels[i], contexts[i], contexts[i]);
        functions[i] = function_launched(world);
        assert_runs_on(world, kernels[i], contexts[i], contexts[1 - i]);
        assert_int_equal(function_launched(world), functions[i]);
    }
    assert_int_not_equal(functions[0], functions[1]);
    /* What is there is found for either, and the second's is not handed out for the first. */
    for (int i = 0; i < 2; i++) {
        world->driver->set_current(contexts[i]);
        smla_kernel *again = must_prepare(context, &desc);
        assert_runs_on(world, again, contexts[i], contexts[1 - i]);
        assert_int_equal(function_launched(world), functions[i]);
        smla_kernel_destroy(again);
        smla_kernel_destroy(kernels[i]);
    }
    assert_int_equal(world->nvrtc->compiles - compiles, same ? 1 : 2);
    assert_int_equal(world->driver->loads - loads, 2);
    smla_context_destroy(context);
    world->driver->set_current(TEST_CONTEXT);
}

static void test_57_two_devices(void **state)
{
    struct world *world = *state;

    world_serve_reference(world);
    world->driver->device_count = 2;
    world->driver->loading = note_load;
    loaded.driver = world->driver;
    on_two_devices(world, 9, 0, "sm_90a");
    on_two_devices(world, 10, 3, "sm_103a");
}

/* The second device's primary context, while the first's is current. */
static void test_57_the_second_by_its_ordinal(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    smla_context_desc context_desc = stub_context_desc();
    smla_context *context = NULL;
    smla_kernel *kernel = NULL;

    world->driver->device_count = 2;
    world->driver->second.cc_major = 8;
    context_desc.flags = SMLA_CONTEXT_PRIMARY;
    context_desc.device = 1;
    assert_int_equal(smla_context_create(&context_desc, &context), SMLA_OK);
    assert_int_equal(smla_prepare(context, &desc, &kernel), SMLA_ERROR_UNSUPPORTED);
    assert_error(SMLA_ERROR_UNSUPPORTED, "device 1 (Stub 8.0)");
    kernel = must_prepare(world->context, &desc); /* the first's */
    smla_kernel_destroy(kernel);
    world->driver->second.cc_major = 9;
    kernel = must_prepare(context, &desc);
    assert_runs_on(world, kernel, (void *)0xa1, TEST_CONTEXT);
    smla_kernel_destroy(kernel);
    smla_context_destroy(context);
    context_desc.device = 2;
    context = NULL;
    assert_int_not_equal(smla_context_create(&context_desc, &context), SMLA_OK);
    assert_null(context);
    assert_int_equal(world->driver->retained_primaries, 0);
}

/* The number of multiprocessors is in no key, and the same code is shared out by what a device has. */
static void test_I3_L3_multiprocessors_decide_at_the_call(void **state)
{
    static const struct {
        int sm_count;
        const char *launch;
    } rows[] = {{132, "cuLaunchKernelEx(grid 128 1 1,"}, /* 16 queries by 8 blocks */
                {78, "cuLaunchKernelEx(grid 64 1 1,"},   /* by 4: as many as an H20 has */
                {40, "cuLaunchKernelEx(grid 32 1 1,"},
                {16, "cuLaunchKernelEx(grid 16 1 1,"}};
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    const smla_prefill_args args = call_of(16);
    char *folder = make_folder();

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        world->driver->sm_count = rows[i].sm_count;
        smla_context *context = open_context(folder);
        smla_kernel *kernel = must_prepare(context, &desc);
        world->driver->clear_log();
        assert_int_equal(smla_prefill(kernel, &args, NULL), SMLA_OK);
        if (strstr(world->driver->log(), rows[i].launch) == NULL)
            fail_msg("%d multiprocessors: %s", rows[i].sm_count, world->driver->log());
        assert_int_equal(stats_of(context).compiles, i == 0);
        smla_kernel_destroy(kernel);
        smla_context_destroy(context);
    }
    assert_files(folder, 1);
    remove_folder(folder);
}

/* A green context's kernels are shared out by what it has, the device's by what that has; where the driver cannot say,
 * or says nothing that can be, by what the device has. Calls do not ask. */
static void test_I3_a_part_of_the_device(void **state)
{
    static void *const green = (void *)0xc9;
    static const struct {
        void *context;
        int own, counted;
        const char *missing;
    } rows[] = {{TEST_CONTEXT, 16, 132, NULL}, {green, 16, 16, NULL},    {green, 132, 132, NULL},
                {green, 0, 132, NULL},         {green, 1000, 132, NULL}, {green, 16, 132, "cuCtxGetDevResource"}};
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    const smla_prefill_args args = call_of(16);

    world->driver->green_context = green;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        smla_context *context = open_context(NULL);

        world->driver->green_sm_count = rows[i].own;
        world->driver->missing = rows[i].missing;
        world->driver->missing_why = 1;
        world->driver->set_current(rows[i].context);
        smla_kernel *kernel = must_prepare(context, &desc);
        world->driver->clear_log();
        assert_int_equal(smla_prefill(kernel, &args, NULL), SMLA_OK);
        assert_int_equal(kernel->sm_count, rows[i].counted);
        if (rows[i].counted < 132)
            assert_non_null(strstr(world->driver->log(), "cuLaunchKernelEx(grid 16 1 1,"));
        assert_int_equal(world->driver->calls("cuCtxGetDevResource"), 0);
        smla_kernel_destroy(kernel);
        smla_context_destroy(context);
    }
}

/* A persistent kernel, and decode, launch no more blocks than the context has multiprocessors. */
static void test_I3_persistent_grids_of_a_part(void **state)
{
    struct world *world = *state;
    smla_kernel_desc desc = prefill_desc();
    const smla_prefill_args args = call_of(1000);
    smla_context *context = open_context(NULL);

    world_serve_all(world);
    world->driver->green_context = TEST_CONTEXT;
    world->driver->green_sm_count = 16;
    desc.flags = 0;
    smla_kernel *kernel = must_prepare(context, &desc);
    assert_int_equal(smla_prefill(kernel, &args, NULL), SMLA_OK);
    assert_non_null(strstr(world->driver->log(), "cuLaunchKernelEx(grid 16 1 1,"));
    smla_kernel_destroy(kernel);

    const smla_kernel_desc decode_desc = {
        .struct_size = sizeof decode_desc, .op = SMLA_OP_DECODE, .h_q = 64, .d_qk = 512, .batch_invariant = 1};
    const smla_decode_args decode = decode_call_of(&args, 64, 640);

    kernel = must_prepare(context, &decode_desc);
    world->driver->clear_log();
    assert_int_equal(smla_decode(kernel, &decode, NULL), SMLA_OK);
    assert_non_null(strstr(world->driver->log(), "cuLaunchKernelEx(grid 16 1 1,"));
    smla_kernel_destroy(kernel);
    smla_context_destroy(context);
}

/* ---- Streams and pointers ----------------------------------------------------------------------------------- */

/* Each line of the log that names a stream names that one, and no line waits, copies or fills. */
static void assert_on_stream(const struct world *world, unsigned stream, int launches)
{
    static const char *const others[] = {"cuStreamSynchronize", "cuMemcpyAsync", "cuMemsetD32Async", "cuStreamCreate"};
    unsigned named;
    int found = 0;

    for (const char *at = strstr(world->driver->log(), "stream "); at; at = strstr(at + 1, "stream ")) {
        assert_int_equal(sscanf(at, "stream %x", &named), 1);
        assert_int_equal(named, stream);
        found++;
    }
    assert_int_equal(found, launches);
    assert_int_equal(world->driver->calls("cuLaunchKernelEx"), launches);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(world->driver->calls(others[i]), 0);
}

/* The schedule of decode is made by the launch that uses it, and what it cut is combined behind it on the same stream:
 * no order among streams is left to the caller, nor in a captured call. */
static void test_H2_a_call_is_on_one_stream(void **state)
{
    static const unsigned streams[] = {0, 0x51, 0x52};
    struct world *world = *state;
    const smla_kernel_desc prefill_of = prefill_desc();
    smla_kernel_desc decode_of = prefill_desc();
    const smla_prefill_args prefill = call_of(7);
    const smla_decode_args decode = decode_call_of(&prefill, 4, 2048);

    world_serve_all(world);
    decode_of.op = SMLA_OP_DECODE;
    decode_of.flags = 0;
    smla_kernel *kernels[2] = {must_prepare(world->context, &prefill_of), must_prepare(world->context, &decode_of)};
    for (int captured = 0; captured < 2; captured++) {
        world->driver->capture_status = captured;
        for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
            void *stream = (void *)(uintptr_t)streams[i];
            world->driver->clear_log();
            assert_int_equal(smla_prefill(kernels[0], &prefill, stream), SMLA_OK);
            assert_on_stream(world, streams[i], 1);
            world->driver->clear_log();
            assert_int_equal(smla_decode(kernels[1], &decode, stream), SMLA_OK);
            assert_on_stream(world, streams[i], 2);
        }
    }
    smla_kernel_destroy(kernels[0]);
    smla_kernel_destroy(kernels[1]);
}

/* What a kernel would read of the sinks, through the address that it is given. */
static float seen_sink;

static void read_sink(const char *entry, void *params)
{
    const struct smla_prefill_params *given = params;

    (void)entry;
    seen_sink = given->attn_sink[63];
}

/* Sinks replaced at one address between calls, and between replays of what one call captured: nothing of them is kept,
 * neither contents nor that the address was seen before. */
static void test_H4_sinks_replaced_at_one_pointer(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    smla_prefill_args args = call_of(7);
    float sink[64] = {0};
    _Alignas(8) uint8_t first_params[sizeof(struct smla_prefill_params)];
    char *first_log = NULL;
    smla_kernel *kernel = must_prepare(world->context, &desc);

    args.attn_sink = sink;
    world->driver->launching = read_sink;
    for (int call = 0; call < 4; call++) {
        for (int i = 0; i < 64; i++)
            sink[i] = (float)(100 * call + i);
        world->driver->clear_log();
        assert_int_equal(smla_prefill(kernel, &args, NULL), SMLA_OK);
        assert_true(seen_sink == (float)(100 * call + 63));
        if (call == 0) {
            memcpy(first_params, world->driver->params, sizeof first_params);
            first_log = strdup(world->driver->log());
            assert_non_null(first_log);
        }
        assert_memory_equal(world->driver->params, first_params, sizeof first_params);
        assert_string_equal(world->driver->log(), first_log);
    }
    for (int replay = 0; replay < 4; replay++) { /* a graph launches with the parameters that it copied */
        sink[63] = (float)(7000 + replay);
        read_sink("", first_params);
        assert_true(seen_sink == (float)(7000 + replay));
    }
    free(first_log);
    smla_kernel_destroy(kernel);
}

/* Other tensors at the addresses of earlier ones: each call makes its own maps of query and out. */
static void test_H4_other_tensors_at_one_pointer(void **state)
{
    struct world *world = *state;
    smla_kernel_desc desc = prefill_desc();
    smla_kernel *kernel;
    char rows[16];

    world_serve_all(world);
    desc.flags = 0;
    kernel = must_prepare(world->context, &desc);
    for (int s_q = 1000; s_q < 1003; s_q++) {
        const smla_prefill_args args = call_of(s_q);

        world->driver->clear_log();
        assert_int_equal(smla_prefill(kernel, &args, NULL), SMLA_OK);
        assert_true(world->driver->calls("cuTensorMapEncodeTiled") > 0);
        snprintf(rows, sizeof rows, " %d, strides", s_q);
        for (const char *at = strstr(world->driver->log(), "cuTensorMapEncodeTiled("); at;
             at = strstr(at + 1, "cuTensorMapEncodeTiled(")) {
            const char *end = strchr(at, '\n');
            const char *found = strstr(at, rows);
            assert_true(found && found < end);
        }
    }
    smla_kernel_destroy(kernel);
}

/* ---- Calls -------------------------------------------------------------------------------------------------- */

enum { CALLERS = 8, CALLS = 100 };

struct caller {
    struct world *world;
    smla_kernel *kernel;
    smla_status status;
};

static void *call_often(void *user)
{
    struct caller *caller = user;
    const smla_prefill_args args = call_of(7);

    caller->world->driver->set_current(TEST_CONTEXT);
    for (int i = 0; caller->status == SMLA_OK && i < CALLS; i++)
        caller->status = smla_prefill(caller->kernel, &args, NULL);
    return NULL;
}

/* Kernels of much and of little shared memory, called by threads at once: no call sets what belongs to the function. */
static void test_I2_calls_set_no_attribute(void **state)
{
    struct world *world = *state;
    const smla_kernel_desc large = prefill_desc(), small = reference_of(64);
    struct caller callers[CALLERS];
    pthread_t threads[CALLERS];
    smla_kernel *kernels[2];

    kernels[0] = must_prepare(world->context, &large);
    world_serve_reference(world);
    kernels[1] = must_prepare(world->context, &small);
    world->driver->clear_log();
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){.world = world, .kernel = kernels[i % 2]};
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(callers[i].status, SMLA_OK);
    }
    assert_int_equal(world->driver->calls("cuLaunchKernelEx"), CALLERS * CALLS);
    assert_int_equal(world->driver->calls("cuFuncSetAttribute"), 0);
    smla_kernel_destroy(kernels[0]);
    smla_kernel_destroy(kernels[1]);
}

/* Sizes of a server's log, none of which was seen before. */
static void test_J7_nothing_is_compiled_after_prepare(void **state)
{
    static const int64_t sizes[] = {5908, 7241, 10349, 6109, 2125, 1999, 1, 169, 4092};
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    smla_kernel *kernel = must_prepare(world->context, &desc);

    world->nvrtc->clear_log();
    world->driver->clear_log();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const smla_prefill_args args = call_of(sizes[i]);

        assert_int_equal(smla_prefill(kernel, &args, NULL), SMLA_OK);
    }
    assert_int_equal(world->nvrtc->calls(NULL), 0);
    assert_int_equal(world->driver->calls("cuLibraryLoadData"), 0);
    assert_int_equal(stats_of(world->context).compiles, 1);
    smla_kernel_destroy(kernel);
}

/* What a dead CUDA context returns to whoever comes next is told as somebody's earlier work. */
static void test_O1_errors_of_earlier_work(void **state)
{
    static const int codes[] = {700, 702, 710, 714, 715, 716, 717, 718, 719};
    struct world *world = *state;
    const smla_kernel_desc desc = prefill_desc();
    const smla_prefill_args args = call_of(7);
    smla_kernel *kernel = must_prepare(world->context, &desc), *other = NULL;

    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        world->driver->clear_log();
        world->driver->script =
            (struct stub_script){.fail_name = "cuLaunchKernelEx", .fail_call = 1, .fail_code = codes[i]};
        assert_int_equal(smla_prefill(kernel, &args, NULL), SMLA_ERROR_DRIVER);
        assert_error(SMLA_ERROR_DRIVER, "the launch of sm90_prefill", "from earlier work");
        assert_int_equal(last_error().native_code, codes[i]);
    }
    world->driver->clear_log();
    world->driver->script = (struct stub_script){.fail_call = 1, .fail_code = 719};
    assert_int_equal(smla_prepare(world->context, &desc, &other), SMLA_ERROR_DRIVER);
    assert_error(SMLA_ERROR_DRIVER, "from earlier work");
    world->driver->script = (struct stub_script){0};
    smla_kernel_destroy(kernel);
}

/* ---- Many times --------------------------------------------------------------------------------------------- */

static double resident_mb(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long size = 0, resident = 0;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &size, &resident), 2);
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

/* Handles come and go: the code is loaded once, and unloaded with the context. */
static void test_I4_two_thousand_handles(void **state)
{
    struct world *world = *state;

    world_serve_reference(world);
    prepare_and_destroy(world->context, 64);
    const double before = resident_mb();
    for (int i = 0; i < 2000; i++)
        prepare_and_destroy(world->context, 64);
    assert_int_equal(world->driver->loads, 1);
    assert_int_equal(world->nvrtc->compiles, 1);
    for (int i = 0; i < 200; i++) {
        smla_context *context = open_context(NULL);

        prepare_and_destroy(context, 64);
        smla_context_destroy(context);
        assert_int_equal(world->driver->live_libraries, 1);
    }
    if (MEASURES_MEMORY)
        assert_true(resident_mb() - before < 1);
}

/* Every second one fails. */
static void test_J8_two_thousand_compilations(void **state)
{
    enum { CONTEXTS = 8 };
    struct world *world = *state;
    double before = 0;

    world_serve_reference(world);
    for (int i = 0; i < CONTEXTS; i++) {
        smla_context *context = open_context(NULL);

        for (int32_t h_q = 1; h_q <= 128; h_q++)
            for (int wide = 0; wide < 2; wide++) {
                smla_kernel_desc desc = reference_of(h_q);
                const bool fails = (h_q + wide) % 2 == 1;

                desc.d_qk = wide ? 576 : 512;
                desc.target = "90";
                world->nvrtc->compile_result = fails ? 1 : 0;
                assert_int_equal(smla_generate(context, &desc, SMLA_EMIT_CUBIN, ignore_bytes, NULL),
                                 fails ? SMLA_ERROR_OUT_OF_MEMORY : SMLA_OK);
            }
        smla_context_destroy(context);
        assert_int_equal(world->nvrtc->live_programs, 0);
        before = i == 0 ? resident_mb() : before;
    }
    assert_int_equal(world->nvrtc->compiles, CONTEXTS * 256);
    if (MEASURES_MEMORY)
        assert_true(resident_mb() - before < 5);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_5_a_failed_compilation_leaves_nothing),
        TEST(test_9_the_same_keys_in_any_order),
        TEST(test_37_a_warm_start_takes_no_time),
        TEST(test_47_a_cap_of_ones_own),
        TEST(test_57_each_device_has_its_own_answer),
        TEST(test_57_two_devices),
        TEST(test_57_the_second_by_its_ordinal),
        TEST(test_I3_L3_multiprocessors_decide_at_the_call),
        TEST(test_I3_a_part_of_the_device),
        TEST(test_I3_persistent_grids_of_a_part),
        TEST(test_H2_a_call_is_on_one_stream),
        TEST(test_H4_sinks_replaced_at_one_pointer),
        TEST(test_H4_other_tensors_at_one_pointer),
        TEST(test_I2_calls_set_no_attribute),
        TEST(test_J7_nothing_is_compiled_after_prepare),
        TEST(test_O1_errors_of_earlier_work),
        TEST(test_I4_two_thousand_handles),
        TEST(test_J8_two_thousand_compilations),
    };
    return cmocka_run_group_tests_name("runtime.scenarios", tests, NULL, NULL);
}
