#include "operations.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "computing.h"
#include "prefill_check_key.h"
#include "self_test.h"
#include "smlab_files.h"

/* Device pointers that nobody follows. */
#define DEVICE(type, address) ((type *)(uintptr_t)(address))

/* Where memory that the stub allocated may begin: below it are pointers that nobody follows. */
static const uintptr_t FIRST_ALLOCATED = 1 << 24;

/* What an output holds before. */
static const uintptr_t POISON = 0xdeadbeef;

static void check_untouched(struct scene *scene, smla_status status, bool untouched)
{
    if (status != SMLA_OK && !untouched)
        __atomic_store_n(&scene->touched, true, __ATOMIC_RELAXED);
}

/* ---- Descriptions ---- */

static smla_kernel_desc persistent_desc(void)
{
    smla_kernel_desc desc = prefill_desc();

    desc.flags = 0;
    desc.batch_invariant = 1; /* whose few queries are not split */
    return desc;
}

static smla_kernel_desc checked_desc(void)
{
    smla_kernel_desc desc = prefill_desc();

    desc.flags |= SMLA_KERNEL_CHECKED;
    return desc;
}

static smla_kernel_desc offline_desc(void)
{
    smla_kernel_desc desc = prefill_desc();

    desc.target = "90a";
    return desc;
}

/* One with a companion. */
static smla_kernel_desc decode_desc(void)
{
    return (smla_kernel_desc){.struct_size = sizeof(smla_kernel_desc), .op = SMLA_OP_DECODE, .h_q = 64, .d_qk = 512};
}

/* One that the stub computes: small, since that is done thousands of times. */
static smla_kernel_desc computed_desc(void)
{
    smla_kernel_desc desc = combine_desc();

    desc.h_q = 4;
    return desc;
}

/* One that it does not. */
static smla_kernel_desc wrong_desc(void)
{
    smla_kernel_desc desc = computed_desc();

    desc.h_q = 3;
    return desc;
}

/* ---- The device, where it computes ---- */

static _Thread_local bool on_device;

bool scene_is_on_device(void)
{
    return on_device;
}

/* What the self-test launches. */
static void compute(const char *entry, void *params)
{
    const smla_kernel_desc desc = computed_desc();
    const struct smla_combine_params *const combine = params;

    if (strncmp(entry, "smla_combine_", 13) != 0 || (uintptr_t)combine->partial_out < FIRST_ALLOCATED ||
        combine->out_stride_token != desc.h_q * desc.d_v)
        return;
    on_device = true;
    compute_combine(entry, combine, desc.h_q, desc.d_v);
    on_device = false;
}

/* ---- Scenes ---- */

static void make_context(struct scene *scene)
{
    if (smla_context_create(&scene->context_desc, &scene->world.context) != SMLA_OK)
        fail_msg("%s: %s", scene->operation->name, last_error().message);
}

/* A cache folder, empty; the operation makes the context. */
static void with_folder(struct scene *scene)
{
    scene->context_desc.cache_policy = SMLA_CACHE_RW;
    scene->context_desc.cache_dir = scene->cache;
}

static void with_primary(struct scene *scene)
{
    scene->context_desc.flags |= SMLA_CONTEXT_PRIMARY;
    scene->world.driver->set_current(NULL);
}

static void with_bundle(struct scene *scene)
{
    size_t size;
    uint8_t *bytes = smlab_of(&scene->desc, 1, &size);

    scene->bundle = path_in(scene->folder, "a.smlab");
    write_file(scene->bundle, bytes, size);
    free(bytes);
    scene->context_desc.bundles = scene->bundle;
}

static void with_folder_and_bundle(struct scene *scene)
{
    with_folder(scene);
    with_bundle(scene);
}

static void in_context(struct scene *scene)
{
    make_context(scene);
}

/* With the driver open, so that it does not fail to in every row. */
static void in_used_context(struct scene *scene)
{
    const smla_kernel_desc desc = combine_desc();
    smla_support support = {.struct_size = sizeof support};

    make_context(scene);
    if (smla_query_support(scene->world.context, &desc, &support) != SMLA_OK)
        fail_msg("%s: %s", scene->operation->name, last_error().message);
}

static void in_primary(struct scene *scene)
{
    with_primary(scene);
    make_context(scene);
}

static void in_empty_folder(struct scene *scene)
{
    with_folder(scene);
    in_used_context(scene);
}

/* By a context of its own. */
static void in_filled_folder(struct scene *scene)
{
    with_folder(scene);
    make_context(scene);
    smla_kernel_destroy(must_prepare(scene->world.context, &scene->desc));
    smla_context_destroy(scene->world.context);
    in_used_context(scene);
}

static int change_entry(const char *path, const struct stat *status, int type, struct FTW *at)
{
    FILE *file = type == FTW_F ? fopen(path, "r+b") : NULL;

    (void)status;
    (void)at;
    if (file == NULL)
        return 0;
    const bool changed = fseek(file, -40, SEEK_END) == 0 && fputc(0x55, file) != EOF;
    return fclose(file) == 0 && changed ? 0 : -1;
}

static void in_damaged_folder(struct scene *scene)
{
    in_filled_folder(scene);
    assert_int_equal(nftw(scene->cache, change_entry, 8, FTW_PHYS), 0);
    scene->damaged = true;
}

static int make_older(const char *path, const struct stat *status, int type, struct FTW *at)
{
    const struct timespec last_week[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - 7 * 24 * 60 * 60}};

    (void)status;
    (void)at;
    return type == FTW_F ? utimensat(AT_FDCWD, path, last_week, 0) : 0;
}

static void in_old_folder(struct scene *scene)
{
    in_filled_folder(scene);
    assert_int_equal(nftw(scene->cache, make_older, 8, FTW_PHYS), 0);
}

/* By a compiler whose code the driver does not load. */
static void in_refused_folder(struct scene *scene)
{
    struct stub_nvrtc *nvrtc = scene->world.nvrtc;
    const int minor = nvrtc->minor;

    nvrtc->minor = minor - 1;
    scene->world.driver->refusal = 0;
    in_filled_folder(scene);
    scene->world.driver->refused_builder = STUB_BUILT_BY(nvrtc->major, nvrtc->minor);
    scene->world.driver->refusal = 209;
    nvrtc->minor = minor;
}

static void in_refused_sealed_folder(struct scene *scene)
{
    in_refused_folder(scene);
    assert_int_equal(smla_context_seal(scene->world.context), SMLA_OK);
    scene->sealed = true;
}

static void in_bundle(struct scene *scene)
{
    with_bundle(scene);
    in_used_context(scene);
}

static void without_compiler(struct scene *scene)
{
    scene->context_desc.jit_policy = SMLA_JIT_OFF;
    in_used_context(scene);
}

static void in_sealed_folder(struct scene *scene)
{
    in_filled_folder(scene);
    assert_int_equal(smla_context_seal(scene->world.context), SMLA_OK);
    scene->sealed = true;
}

static void in_sealed_context(struct scene *scene)
{
    in_used_context(scene);
    assert_int_equal(smla_context_seal(scene->world.context), SMLA_OK);
}

static void with_limit(struct scene *scene)
{
    scene->context_desc.compile_limit_ms = 60000;
    in_empty_folder(scene);
}

static void with_self_test(struct scene *scene)
{
    scene->context_desc.flags |= SMLA_CONTEXT_SELF_TEST;
    in_used_context(scene);
}

static void with_some_switched_off(struct scene *scene)
{
    scene->context_desc.disable = "sm90_prefill_split*, *_tile16*";
    in_used_context(scene);
}

static void with_all_switched_off(struct scene *scene)
{
    scene->context_desc.disable = "*";
    in_used_context(scene);
}

/* For which no kernel is verified. */
static void on_another_device(struct scene *scene)
{
    scene->world.driver->cc_major = 10;
    make_context(scene);
}

static void with_source_that_fails(struct scene *scene)
{
    in_used_context(scene);
    scene->world.nvrtc->compile_result = 6;
}

static void in_folder_with_source_that_fails(struct scene *scene)
{
    with_folder(scene);
    with_source_that_fails(scene);
}

static void without_device(struct scene *scene)
{
    make_context(scene);
    scene->world.driver->init_result = 100;
}

static void with_kernel(struct scene *scene)
{
    make_context(scene);
    scene->kernel = must_prepare(scene->world.context, &scene->desc);
}

static void with_kernel_elsewhere(struct scene *scene)
{
    with_kernel(scene);
    scene->world.driver->set_current((void *)0xc2);
}

/* kv reaches past the allocation that it begins in, which may be joined to another. */
static void with_virtual_memory(struct scene *scene)
{
    with_kernel(scene);
    scene->world.driver->ranges[0] =
        (struct stub_range){.start = 0x200000, .size = 4096, .memory_type = 2, .is_virtual = true};
}

static void with_bad_list(struct scene *scene)
{
    with_kernel_elsewhere(scene);
    scene->world.driver->check_result = (uint64_t)2 << 32 | 4;
    scene->world.driver->check_value = 5000;
}

static void in_used_primary(struct scene *scene)
{
    smla_kernel_desc second = reference_desc();

    in_primary(scene);
    smla_kernel_destroy(must_prepare(scene->world.context, &scene->desc));
    smla_kernel_destroy(must_prepare(scene->world.context, &second));
}

/* ---- Acts ---- */

static smla_status create(struct scene *scene)
{
    smla_context *const before = DEVICE(smla_context, POISON);
    smla_context *context = before;
    const smla_status status = smla_context_create(&scene->context_desc, &context);

    check_untouched(scene, status, context == before);
    if (status == SMLA_OK)
        smla_context_destroy(context);
    return status;
}

static smla_status query(struct scene *scene)
{
    smla_support support, before;

    memset(&before, 0xee, sizeof before);
    before.struct_size = sizeof before;
    support = before;
    const smla_status status = smla_query_support(scene->world.context, &scene->desc, &support);
    check_untouched(scene, status, memcmp(&support, &before, sizeof support) == 0);
    return status;
}

static smla_status prepare_in(struct scene *scene, smla_context *context)
{
    smla_kernel *const before = DEVICE(smla_kernel, POISON);
    smla_kernel *kernel = before;
    const smla_status status = smla_prepare(context, &scene->desc, &kernel);

    check_untouched(scene, status, kernel == before);
    if (status == SMLA_OK)
        smla_kernel_destroy(kernel);
    return status;
}

static smla_status prepare(struct scene *scene)
{
    return prepare_in(scene, scene->world.context);
}

static smla_status create_and_prepare(struct scene *scene)
{
    smla_context *context = NULL;
    smla_status status = smla_context_create(&scene->context_desc, &context);

    if (status == SMLA_OK)
        status = prepare_in(scene, context);
    smla_context_destroy(context);
    return status;
}

/* Tested anew each time. */
static smla_status prepare_tested(struct scene *scene)
{
    rt_self_test_forget();
    return prepare(scene);
}

/* Asks until it is no longer pending. */
static smla_status poll(smla_preparation *preparation, smla_kernel **kernel)
{
    smla_status status;

    while ((status = smla_prepare_poll(preparation, kernel)) == SMLA_PENDING)
        usleep(100);
    return status;
}

static smla_status wait(smla_preparation *preparation, smla_kernel **kernel)
{
    return smla_prepare_wait(preparation, SMLA_WAIT_FOREVER, kernel);
}

static smla_status start_and(struct scene *scene, smla_status (*ask)(smla_preparation *, smla_kernel **))
{
    smla_preparation *const none = DEVICE(smla_preparation, POISON);
    smla_kernel *const before = DEVICE(smla_kernel, POISON);
    smla_preparation *preparation = none;
    smla_kernel *kernel = before;
    smla_status status = smla_prepare_start(scene->world.context, &scene->desc, &preparation);

    check_untouched(scene, status, preparation == none);
    if (status != SMLA_OK)
        return status;
    status = ask(preparation, &kernel);
    check_untouched(scene, status, kernel == before);
    if (status == SMLA_OK)
        smla_kernel_destroy(kernel);
    smla_prepare_destroy(preparation);
    return status;
}

static smla_status start_and_poll(struct scene *scene)
{
    return start_and(scene, poll);
}

static smla_status start_and_wait(struct scene *scene)
{
    return start_and(scene, wait);
}

static smla_status start_and_wait_tested(struct scene *scene)
{
    rt_self_test_forget();
    return start_and(scene, wait);
}

static smla_status seal(struct scene *scene)
{
    return smla_context_seal(scene->world.context);
}

static smla_status mute(struct scene *scene)
{
    return smla_context_mute(scene->world.context);
}

static smla_status prefill(struct scene *scene)
{
    const smla_prefill_args args = {
        .struct_size = sizeof args,
        .s_q = 7,
        .s_kv = 1024,
        .topk = 130,
        .sm_scale = 0.125f,
        .query = DEVICE(void, 0x10000),
        .kv = DEVICE(void, 0x200000),
        .indices = DEVICE(int32_t, 0x30004),
        .topk_length = DEVICE(int32_t, 0x40004),
        .out = DEVICE(void, 0x60000),
        .workspace = DEVICE(void, 0x90008),
        .workspace_bytes = 8,
    };

    return smla_prefill(scene->kernel, &args, NULL);
}

static smla_status decode_of(struct scene *scene, int64_t b)
{
    const smla_decode_args args = {
        .struct_size = sizeof args,
        .b = b,
        .s_q = 1,
        .s_kv = 4096,
        .topk = 640,
        .sm_scale = 0.125f,
        .query = DEVICE(void, 0x10000),
        .kv = DEVICE(void, 0x20000),
        .indices = DEVICE(int32_t, 0x30000),
        .topk_length = DEVICE(int32_t, 0x40000),
        .out = DEVICE(void, 0x60000),
        .workspace = DEVICE(void, 0x100000),
        .workspace_bytes = (uint64_t)1 << 40,
    };

    return smla_decode(scene->kernel, &args, NULL);
}

static smla_status decode(struct scene *scene)
{
    return decode_of(scene, 64);
}

static smla_status decode_by_companion(struct scene *scene)
{
    return decode_of(scene, 1);
}

static smla_status combine(struct scene *scene)
{
    const smla_combine_args args = {
        .struct_size = sizeof args,
        .parts = 5,
        .s_q = 7,
        .partial_out = DEVICE(void, 0x10000),
        .partial_lse = DEVICE(float, 0x20004),
        .out = DEVICE(void, 0x40000),
    };

    return smla_combine(scene->kernel, &args, NULL);
}

static smla_status workspace_sizes(struct scene *scene)
{
    uint64_t bytes = POISON;
    const smla_status status = scene->desc.op == SMLA_OP_DECODE
                                   ? smla_decode_workspace_size(scene->kernel, 64, 2, 2048, 0, &bytes)
                                   : smla_prefill_workspace_size(scene->kernel, 64, 2048, &bytes);

    check_untouched(scene, status, bytes == POISON);
    return status;
}

static int32_t count_calls(void *user, const void *bytes, size_t size)
{
    (void)bytes;
    (void)size;
    ++*(int *)user;
    return 0;
}

static smla_status generate(struct scene *scene, uint32_t emit)
{
    int calls = 0;
    const smla_status status = smla_generate(scene->world.context, &scene->desc, emit, count_calls, &calls);

    check_untouched(scene, status, calls == 0);
    return status;
}

static smla_status generate_plan(struct scene *scene)
{
    return generate(scene, SMLA_EMIT_PLAN);
}

static smla_status generate_cuda(struct scene *scene)
{
    return generate(scene, SMLA_EMIT_CUDA);
}

static smla_status generate_ptx(struct scene *scene)
{
    return generate(scene, SMLA_EMIT_PTX);
}

static smla_status generate_cubin(struct scene *scene)
{
    return generate(scene, SMLA_EMIT_CUBIN);
}

static smla_status generate_companion(struct scene *scene)
{
    return generate(scene, SMLA_EMIT_CUBIN | SMLA_EMIT_COMPANION);
}

static smla_status read_counters(struct scene *scene)
{
    smla_stats_counters stats = {.struct_size = sizeof stats};

    return smla_stats(scene->world.context, &stats);
}

static smla_status read_events(struct scene *scene)
{
    smla_event events[4] = {{.struct_size = sizeof events[0]}};
    size_t count = POISON;
    const smla_status status = smla_events(scene->world.context, 0, events, 4, &count);

    check_untouched(scene, status, count == POISON && events[0].time_ns == 0);
    return status;
}

static smla_status write_json(struct scene *scene)
{
    static _Thread_local char text[1 << 19];
    size_t size = POISON;

    text[0] = '-';
    const smla_status status = smla_stats_json(scene->world.context, text, sizeof text, &size);
    check_untouched(scene, status, size == POISON && text[0] == '-');
    return status;
}

static smla_status destroy(struct scene *scene)
{
    smla_context_destroy(scene->world.context);
    scene->world.context = NULL;
    return SMLA_OK;
}

const struct operation operations[] = {
    {"context_create", prefill_desc, with_folder_and_bundle, create, SMLA_OK, false},
    {"context_create, primary context", prefill_desc, with_primary, create, SMLA_OK, true},
    {"query_support", decode_desc, in_context, query, SMLA_OK, false},
    {"query_support, primary context", prefill_desc, in_primary, query, SMLA_OK, true},
    {"query_support, target named", offline_desc, in_context, query, SMLA_OK, false},
    {"prepare", prefill_desc, in_context, prepare, SMLA_OK, false},
    {"prepare, primary context", prefill_desc, in_primary, prepare, SMLA_OK, true},
    {"prepare, known", prefill_desc, with_kernel, prepare, SMLA_OK, false},
    {"prepare, empty folder", prefill_desc, in_empty_folder, prepare, SMLA_OK, false},
    {"prepare, filled folder", prefill_desc, in_filled_folder, prepare, SMLA_OK, false},
    {"prepare, damaged folder", prefill_desc, in_damaged_folder, prepare, SMLA_OK, false},
    {"prepare, old folder", prefill_desc, in_old_folder, prepare, SMLA_OK, false},
    {"prepare, refused folder", prefill_desc, in_refused_folder, prepare, SMLA_OK, false},
    {"prepare, sealed, refused folder", prefill_desc, in_refused_sealed_folder, prepare, SMLA_ERROR_NOT_CACHED, false},
    {"prepare, bundle", prefill_desc, in_bundle, prepare, SMLA_OK, false},
    {"create and prepare, folder and bundle", prefill_desc, with_folder_and_bundle, create_and_prepare, SMLA_OK, false},
    {"prepare, not cached", prefill_desc, without_compiler, prepare, SMLA_ERROR_NOT_CACHED, false},
    {"prepare, compile error", prefill_desc, with_source_that_fails, prepare, SMLA_ERROR_COMPILE, true},
    {"prepare, compile error, folder", prefill_desc, in_folder_with_source_that_fails, prepare, SMLA_ERROR_COMPILE,
     true},
    {"prepare, no device", prefill_desc, without_device, prepare, SMLA_ERROR_UNAVAILABLE, true},
    {"prepare, persistent", persistent_desc, in_used_context, prepare, SMLA_OK, false},
    {"prepare, checked", checked_desc, in_context, prepare, SMLA_OK, false},
    {"prepare, reference", reference_desc, in_used_context, prepare, SMLA_OK, false},
    {"prepare, combine", combine_desc, in_used_context, prepare, SMLA_OK, false},
    {"prepare, decode and companion", decode_desc, in_used_context, prepare, SMLA_OK, false},
    {"prepare, decode and companion, empty folder", decode_desc, in_empty_folder, prepare, SMLA_OK, false},
    {"prepare, decode and companion, filled folder", decode_desc, in_filled_folder, prepare, SMLA_OK, false},
    {"prepare, sealed", prefill_desc, in_sealed_context, prepare, SMLA_ERROR_NOT_CACHED, false},
    {"prepare, sealed, filled folder", prefill_desc, in_sealed_folder, prepare, SMLA_OK, false},
    {"prepare, limit", prefill_desc, with_limit, prepare, SMLA_OK, false},
    {"prepare, decode and companion, limit", decode_desc, with_limit, prepare, SMLA_OK, false},
    {"prepare, self-test", computed_desc, with_self_test, prepare_tested, SMLA_OK, false},
    {"prepare, self-test, known", computed_desc, with_self_test, prepare, SMLA_OK, false},
    {"prepare, self-test, wrong", wrong_desc, with_self_test, prepare_tested, SMLA_ERROR_SELF_TEST, false},
    {"prepare, self-test, known to be wrong", wrong_desc, with_self_test, prepare, SMLA_ERROR_SELF_TEST, false},
    {"prepare, some switched off", prefill_desc, with_some_switched_off, prepare, SMLA_OK, false},
    {"prepare, decode, companion switched off", decode_desc, with_some_switched_off, prepare, SMLA_OK, false},
    {"prepare, switched off", prefill_desc, with_all_switched_off, prepare, SMLA_ERROR_UNSUPPORTED, false},
    {"prepare, not verified", reference_desc, on_another_device, prepare, SMLA_ERROR_UNSUPPORTED, true},
    {"query_support, switched off", prefill_desc, with_all_switched_off, query, SMLA_OK, false},
    {"prepare_start and wait", prefill_desc, in_used_context, start_and_wait, SMLA_OK, false},
    {"prepare_start and poll", prefill_desc, in_context, start_and_poll, SMLA_OK, true},
    {"prepare_start, primary context", prefill_desc, in_primary, start_and_wait, SMLA_OK, true},
    {"prepare_start, limit, companion", decode_desc, with_limit, start_and_wait, SMLA_OK, false},
    {"prepare_start, sealed", prefill_desc, in_sealed_context, start_and_wait, SMLA_ERROR_NOT_CACHED, false},
    {"prepare_start, self-test", computed_desc, with_self_test, start_and_wait_tested, SMLA_OK, false},
    {"prepare_start, compile error", prefill_desc, with_source_that_fails, start_and_wait, SMLA_ERROR_COMPILE, true},
    {"prefill", prefill_desc, with_kernel, prefill, SMLA_OK, false},
    {"prefill, another context current", prefill_desc, with_kernel_elsewhere, prefill, SMLA_OK, true},
    {"prefill, persistent", persistent_desc, with_kernel, prefill, SMLA_OK, false},
    {"prefill, reference", reference_desc, with_kernel, prefill, SMLA_OK, false},
    {"prefill, checked", checked_desc, with_kernel, prefill, SMLA_OK, false},
    {"prefill, checked, virtual memory", checked_desc, with_virtual_memory, prefill, SMLA_OK, true},
    {"prefill, checked, bad list", checked_desc, with_bad_list, prefill, SMLA_ERROR_INVALID_ARGUMENT, true},
    {"decode", decode_desc, with_kernel, decode, SMLA_OK, false},
    {"decode, another context current", decode_desc, with_kernel_elsewhere, decode, SMLA_OK, true},
    {"decode, companion", decode_desc, with_kernel, decode_by_companion, SMLA_OK, false},
    {"combine", combine_desc, with_kernel, combine, SMLA_OK, false},
    {"workspace of decode", decode_desc, with_kernel, workspace_sizes, SMLA_OK, false},
    {"workspace of prefill", checked_desc, with_kernel, workspace_sizes, SMLA_OK, false},
    {"generate, plan", offline_desc, in_context, generate_plan, SMLA_OK, false},
    {"generate, CUDA", offline_desc, in_context, generate_cuda, SMLA_OK, false},
    {"generate, PTX", offline_desc, in_context, generate_ptx, SMLA_OK, false},
    {"generate, cubin", prefill_desc, in_used_context, generate_cubin, SMLA_OK, false},
    {"generate, cubin, decode and folder", decode_desc, in_empty_folder, generate_cubin, SMLA_OK, false},
    {"generate, companion", decode_desc, in_used_context, generate_companion, SMLA_OK, false},
    {"stats", prefill_desc, in_context, read_counters, SMLA_OK, false},
    {"events", prefill_desc, with_kernel, read_events, SMLA_OK, false},
    {"stats_json", prefill_desc, with_kernel, write_json, SMLA_OK, false},
    {"context_seal", prefill_desc, in_context, seal, SMLA_OK, false},
    {"context_mute", prefill_desc, in_context, mute, SMLA_OK, false},
    {"context_destroy", prefill_desc, in_used_primary, destroy, SMLA_OK, true},
};
const size_t operation_count = sizeof operations / sizeof operations[0];

/* ---- */

void scene_arrange(struct scene *scene, const struct world *world, const struct operation *operation)
{
    *scene = (struct scene){.operation = operation,
                            .world = *world,
                            .folder = make_folder(),
                            .context_desc = stub_context_desc(),
                            .desc = operation->desc()};
    scene->world.context = NULL;
    scene->cache = path_in(scene->folder, "cache");
    scene->world.driver->launching = compute;
    operation->arrange(scene);
}

void scene_open(struct scene *scene, const struct operation *operation)
{
    struct world world;

    world_open_stubs(&world);
    world_serve_all(&world);
    scene_arrange(scene, &world, operation);
    world.driver->clear_log();
    world.nvrtc->clear_log();
}

void scene_must_act(struct scene *scene)
{
    const smla_status status = scene->operation->act(scene);

    if (status != scene->operation->usual)
        fail_msg("%s: status %d: %s", scene->operation->name, (int)status, last_error().message);
    assert_false(scene->touched);
}

void scene_close(struct scene *scene)
{
    smla_kernel_destroy(scene->kernel);
    smla_context_destroy(scene->world.context);
    remove_folder(scene->folder);
    free(scene->cache);
    free(scene->bundle);
}
