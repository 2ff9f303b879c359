#include "tiers_place.h"

static const char *system_dir = "";

void place_set_system_dir(const char *dir)
{
    system_dir = dir;
}

const char *__wrap_rt_cache_system_dir(void);

const char *__wrap_rt_cache_system_dir(void)
{
    return system_dir;
}

static void note_line(void *user, int32_t level, const char *line)
{
    struct place_lines *lines = user;

    if (level != SMLA_LOG_WARNING)
        return;
    lines->warnings++;
    snprintf(lines->last, sizeof lines->last, "%s", line);
}

void place_fill_folder(const char *dir)
{
    smla_context_desc desc = stub_context_desc();
    const smla_kernel_desc kernel = prefill_desc();
    smla_context *context = NULL;

    desc.flags = SMLA_CONTEXT_OWN_CACHE;
    desc.cache_policy = SMLA_CACHE_RW;
    desc.cache_dir = dir;
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
    smla_kernel_destroy(must_prepare(context, &kernel));
    smla_context_destroy(context);
}

void place_write_bundle(const char *path)
{
    const smla_kernel_desc kernel = prefill_desc();
    size_t size;
    uint8_t *bytes = smlab_of(&kernel, 1, &size);

    write_file(path, bytes, size);
    free(bytes);
}

int place_setup(void **state)
{
    struct place *place = calloc(1, sizeof *place);

    world_open_stubs(&place->world);
    place->folder = make_folder();
    place->bundle = path_in(place->folder, "a.smlab");
    place->system = path_in(place->folder, "system");
    place->cache = path_in(place->folder, "cache");
    place_write_bundle(place->bundle);
    place_fill_folder(place->system);
    place_fill_folder(place->cache);
    place->desc = stub_context_desc();
    place->desc.nvrtc_path = "/nonexistent/libnvrtc.so";
    place->desc.jit_policy = SMLA_JIT_OFF;
    place->desc.cache_policy = SMLA_CACHE_RW;
    place->desc.cache_dir = place->cache;
    place->desc.bundles = place->bundle;
    place->desc.log = note_line;
    place->desc.log_user = &place->lines;
    system_dir = place->system;
    place->world.nvrtc->clear_log();
    *state = place;
    return 0;
}

int place_teardown(void **state)
{
    struct place *place = *state;
    const bool clean = place->world.driver->live_libraries == 0 && place->world.nvrtc->live_programs == 0;

    system_dir = "";
    unsetenv("SMLA_BUNDLE");
    unsetenv("SMLA_JIT");
    remove_folder(place->folder);
    free(place->bundle);
    free(place->system);
    free(place->cache);
    free(place);
    return clean ? 0 : -1;
}
