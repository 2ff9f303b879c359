#include "harness.h"

#include <dlfcn.h>
#include <ftw.h>
#include <unistd.h>

#include "combine_params.h"
#include "decode_params.h"
#include "failures.h"
#include "prefill_tensor_params.h"

static void *open_stub(const char *path, const char *symbol)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *(*get)(void);

    if (library == NULL)
        fail_msg("%s", dlerror());
    void *address = dlsym(library, symbol);
    assert_non_null(address);
    memcpy(&get, &address, sizeof get);
    return get();
}

void world_open_stubs(struct world *world)
{
    world->driver = open_stub(STUB_DRIVER_PATH, "stub_driver");
    world->nvrtc = open_stub(STUB_NVRTC_PATH, "stub_nvrtc");
    world->driver->reset();
    world->nvrtc->reset();
    rt_failures_forget();
    world->driver->param_bytes = sizeof(struct smla_prefill_params);
    world->driver->set_current(TEST_CONTEXT);
}

void world_serve_reference(struct world *world)
{
    world->nvrtc->entry = "smla_prefill_reference";
}

void world_serve_combine(struct world *world)
{
    world->nvrtc->entry = "smla_combine_bf16_to_bf16 smla_combine_bf16_to_float32 smla_combine_float32_to_bf16 "
                          "smla_combine_float32_to_float32";
    world->driver->param_bytes = sizeof(struct smla_combine_params);
}

void world_serve_all(struct world *world)
{
    static const struct stub_kernel kernels[] = {
        {"sm90_prefill.cu", "smla_sm90_prefill smla_sm90_prefill_paged", sizeof(struct smla_prefill_params)},
        {"sm90_prefill_split.cu", "smla_sm90_prefill_split", sizeof(struct smla_prefill_params)},
        {"sm90_prefill_split_narrow.cu", "smla_sm90_prefill_split_narrow", sizeof(struct smla_prefill_params)},
        {"sm90_prefill_turned.cu", "smla_sm90_prefill_turned smla_sm90_prefill_turned_paged",
         sizeof(struct smla_prefill_params)},
        {"sm90_prefill_turned_persistent.cu",
         "smla_sm90_prefill_turned_persistent smla_sm90_prefill_turned_persistent_paged",
         sizeof(struct smla_prefill_params)},
        {"sm90_prefill_persistent.cu",
         "smla_sm90_prefill_persistent smla_sm90_prefill_persistent_paged smla_sm90_prefill_persistent_lengths",
         sizeof(struct smla_prefill_tensor_params)},
        {"prefill_check.cu", "smla_prefill_check", sizeof(struct smla_prefill_params)},
        {"prefill_reference.cu", "smla_prefill_reference", sizeof(struct smla_prefill_params)},
        {"combine.cu",
         "smla_combine_bf16_to_bf16 smla_combine_bf16_to_float32 smla_combine_float32_to_bf16 "
         "smla_combine_float32_to_float32",
         sizeof(struct smla_combine_params)},
        {"sm90_decode.cu", "smla_sm90_decode", sizeof(struct smla_decode_params)},
        {"sm90_decode_turned.cu", "smla_sm90_decode_turned", sizeof(struct smla_decode_params)},
        {"decode_combine.cu", "smla_decode_combine", sizeof(struct smla_decode_params)},
        {NULL, NULL, 0},
    };

    world->nvrtc->kernels = kernels;
    world->driver->kernels = kernels;
}

smla_context_desc stub_context_desc(void)
{
    return (smla_context_desc){.struct_size = sizeof(smla_context_desc),
                               .cache_policy = SMLA_CACHE_OFF,
                               .jit_policy = SMLA_JIT_ON,
                               .driver_path = STUB_DRIVER_PATH,
                               .nvrtc_path = STUB_NVRTC_PATH};
}

smla_kernel_desc prefill_desc(void)
{
    return (smla_kernel_desc){.struct_size = sizeof(smla_kernel_desc),
                              .op = SMLA_OP_PREFILL,
                              .h_q = 64,
                              .d_qk = 512,
                              .d_v = 512,
                              .flags = SMLA_KERNEL_NOT_PERSISTENT};
}

smla_kernel_desc reference_desc(void)
{
    smla_kernel_desc desc = prefill_desc();

    desc.op = SMLA_OP_PREFILL_REFERENCE;
    desc.flags = 0;
    return desc;
}

smla_kernel_desc combine_desc(void)
{
    return (smla_kernel_desc){.struct_size = sizeof(smla_kernel_desc), .op = SMLA_OP_COMBINE, .h_q = 64, .d_v = 512};
}

int world_setup(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    const smla_context_desc desc = stub_context_desc();

    if (world == NULL)
        return -1;
    world_open_stubs(world);
    *state = world;
    return smla_context_create(&desc, &world->context) == SMLA_OK ? 0 : -1;
}

int world_teardown(void **state)
{
    struct world *world = *state;

    world->driver->script.fail_call = 0;
    smla_context_destroy(world->context);
    const bool clean = world->driver->live_libraries == 0 && world->driver->retained_primaries == 0 &&
                       world->nvrtc->live_programs == 0;
    free(world);
    return clean ? 0 : -1;
}

smla_kernel *must_prepare(smla_context *context, const smla_kernel_desc *desc)
{
    smla_kernel *kernel = NULL;

    if (smla_prepare(context, desc, &kernel) != SMLA_OK)
        fail_msg("prepare: %s", last_error().message);
    return kernel;
}

smla_error_info last_error(void)
{
    smla_error_info info = {.struct_size = sizeof info};

    assert_int_equal(smla_last_error(&info), SMLA_OK);
    return info;
}

void assert_error_(smla_status status, const char *file, int line, ...)
{
    const smla_error_info info = last_error();
    va_list texts;

    if (info.status != status) {
        print_error("status %d, not %d: %s\n", (int)info.status, (int)status, info.message);
        _fail(file, line);
    }
    va_start(texts, line);
    for (const char *text = va_arg(texts, const char *); text; text = va_arg(texts, const char *)) {
        if (strstr(info.message, text) == NULL) {
            print_error("no \"%s\" in: %s\n", text, info.message);
            _fail(file, line);
        }
    }
    va_end(texts);
}

smla_stats_counters stats_of(const smla_context *context)
{
    smla_stats_counters stats = {.struct_size = sizeof stats};

    assert_int_equal(smla_stats(context, &stats), SMLA_OK);
    return stats;
}

int events_of(smla_context *context, uint32_t kind, smla_event *last)
{
    smla_event event = {.struct_size = sizeof event};
    size_t read = 1;
    int count = 0;

    for (uint64_t since = 0; read > 0; since = event.number + 1) {
        assert_int_equal(smla_events(context, since, &event, 1, &read), SMLA_OK);
        if (read == 0 || event.kind != kind)
            continue;
        count++;
        if (last)
            *last = event;
    }
    return count;
}

void *older_struct(const void *full, size_t size)
{
    const uint32_t struct_size = (uint32_t)size;
    void *old = malloc(size);

    assert_non_null(old);
    memcpy(old, full, size);
    memcpy(old, &struct_size, sizeof struct_size);
    return old;
}

char *make_folder(void)
{
    const char *parent = getenv("TMPDIR");
    char *folder = malloc(512);

    assert_non_null(folder);
    snprintf(folder, 512, "%s/smla-test-XXXXXX", parent && parent[0] ? parent : "/tmp");
    assert_non_null(mkdtemp(folder));
    return folder;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info;
    (void)type;
    (void)walk;
    return remove(path);
}

void remove_folder(char *folder)
{
    assert_int_equal(nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
    free(folder);
}
