/* Which libnvrtc: the path given; one already in the process, if it knows the target; the newest found. */
#include <dlfcn.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "nvrtc_table.h"

static const char *const default_sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12", NULL};

const struct rt_nvrtc_places rt_nvrtc_default_places = {
    .sonames = default_sonames,
    .pattern = "/usr/local/cuda*/lib64/libnvrtc.so.1[2-9]",
};

/* What was tried, for the message when nothing is found. */
struct notes {
    char text[700];
    size_t size;
};

static void note(struct notes *notes, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void note(struct notes *notes, const char *format, ...)
{
    const size_t left = sizeof notes->text - notes->size;
    va_list arguments;

    va_start(arguments, format);
    const int written = vsnprintf(notes->text + notes->size, left, format, arguments);
    va_end(arguments);
    if (written > 0)
        notes->size += (size_t)written < left ? (size_t)written : left - 1;
}

static bool has_arch(const struct rt_nvrtc *nvrtc, const struct gen_target *target)
{
    const int wanted = atoi(target->arch + strlen("sm_"));

    for (int i = 0; i < nvrtc->arch_count; i++)
        if (nvrtc->archs[i] == wanted)
            return true;
    return false;
}

/* nvrtcGetSupportedArchs lists plain numbers, so whether it has the 'a' and 'f' forms is told by its version. */
static bool knows(const struct rt_nvrtc *nvrtc, const struct gen_target *target)
{
    return rt_nvrtc_at_least(nvrtc, target->nvrtc_major, target->nvrtc_minor) && has_arch(nvrtc, target);
}

static bool fits(const struct rt_nvrtc *nvrtc, const struct gen_target *target, int32_t max_major)
{
    return knows(nvrtc, target) && (max_major == 0 || nvrtc->major <= max_major);
}

static void note_known_targets(struct notes *notes, const struct rt_nvrtc *nvrtc)
{
    size_t count;
    const struct gen_target *table = gen_target_table(&count);
    const char *separator = "";

    for (size_t i = 0; i < count; i++) {
        if (!knows(nvrtc, &table[i]))
            continue;
        note(notes, "%s%s", separator, table[i].name);
        separator = ", ";
    }
    if (separator[0] == '\0')
        note(notes, "none of them");
}

static void note_archs(struct notes *notes, const struct rt_nvrtc *nvrtc)
{
    for (int i = 0; i < nvrtc->arch_count; i++)
        note(notes, "%s%d", i ? " " : "", nvrtc->archs[i]);
}

static smla_status refuse_target(const struct rt_nvrtc *nvrtc, const struct gen_target *target)
{
    struct notes targets = {.size = 0}, archs = {.size = 0};

    note_known_targets(&targets, nvrtc);
    note_archs(&archs, nvrtc);
    const smla_status status =
        rt_fail(SMLA_ERROR_UNAVAILABLE,
                "target %s (%s) needs NVRTC %d.%d or newer, and %s is %d.%d (sm_ %s); of smla's targets it builds %s: "
                "name one of these or a newer NVRTC (SMLA_NVRTC or nvrtc_path)",
                target->name, target->arch, target->nvrtc_major, target->nvrtc_minor, nvrtc->path, nvrtc->major,
                nvrtc->minor, archs.text, targets.text);
    rt_fail_path(nvrtc->path);
    return status;
}

static smla_status refuse_unfit(const struct rt_nvrtc_set *set, const struct rt_nvrtc *nvrtc,
                                const struct gen_target *target, int32_t max_major)
{
    if (!knows(nvrtc, target))
        return refuse_target(nvrtc, target);
    const smla_status status = rt_fail(
        SMLA_ERROR_UNAVAILABLE,
        "%s is NVRTC %d.%d, and the CUDA driver (API %d.%d) loads no code built by a newer major: update the driver, "
        "name an NVRTC of major %d (SMLA_NVRTC or nvrtc_path), or have one build the kernel ahead into a bundle or a "
        "cache (smla-gen, smla-cache warm)",
        nvrtc->path, nvrtc->major, nvrtc->minor, set->driver_version / 1000, set->driver_version % 1000 / 10,
        max_major);
    rt_fail_path(nvrtc->path);
    return status;
}

static void drop(struct rt_nvrtc *nvrtc)
{
    if (nvrtc->library)
        dlclose(nvrtc->library);
    nvrtc->library = NULL;
}

/* Takes over *opened into the set. */
static smla_status keep(struct rt_nvrtc_set *set, struct rt_nvrtc *opened, const struct rt_nvrtc **out)
{
    struct rt_nvrtc *kept = malloc(sizeof *kept);

    if (kept == NULL) {
        drop(opened);
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for the NVRTC table");
    }
    *kept = *opened;
    const smla_status status = rt_nvrtc_identify(kept);
    if (status != SMLA_OK) {
        /* Not closed: it has compiled, or tried to. */
        free(kept);
        return status;
    }
    kept->next = set->first;
    set->first = kept;
    *out = kept;
    return SMLA_OK;
}

static smla_status find_given(struct rt_nvrtc_set *set, const struct gen_target *target, int32_t max_major,
                              const struct rt_nvrtc **out)
{
    struct rt_nvrtc opened;
    char why[512];

    if (!rt_nvrtc_open(&opened, set->path, 0, why)) {
        const smla_status status =
            rt_fail_native(SMLA_ERROR_UNAVAILABLE, opened.open_result,
                           "the NVRTC that was named (SMLA_NVRTC or nvrtc_path) cannot be used: %s", why);
        rt_fail_path(set->path);
        return status;
    }
    if (fits(&opened, target, max_major))
        return keep(set, &opened, out);
    const smla_status status = refuse_unfit(set, &opened, target, max_major);
    drop(&opened);
    return status;
}

static bool find_in_process(const struct rt_nvrtc_places *places, const struct gen_target *target, int32_t max_major,
                            struct rt_nvrtc *found)
{
    char why[512];

    for (const char *const *name = places->sonames; *name; name++) {
        if (!rt_nvrtc_open(found, *name, RTLD_NOLOAD, why))
            continue;
        if (fits(found, target, max_major))
            return true;
        drop(found);
    }
    return false;
}

/* The search: the newest that fits; the newest that does not, for the message. */
struct search {
    const struct gen_target *target;
    int32_t max_major;
    struct rt_nvrtc best;
    struct rt_nvrtc unfit;
    struct notes tried;
    rt_nvrtc_result open_result; /* of the last that did not tell what it is */
};

static void keep_newer(struct rt_nvrtc *kept, struct rt_nvrtc *opened)
{
    const bool newer = kept->library == NULL || (rt_nvrtc_at_least(opened, kept->major, kept->minor) &&
                                                 (opened->major != kept->major || opened->minor != kept->minor));

    if (newer) {
        drop(kept);
        *kept = *opened;
    } else {
        drop(opened);
    }
}

static void try_one(struct search *search, const char *name)
{
    struct rt_nvrtc opened;
    char why[512];
    const bool open = rt_nvrtc_open(&opened, name, 0, why);
    const bool failed = !open && opened.open_result != RT_NVRTC_SUCCESS;

    note(&search->tried, "%s%s", search->tried.size ? ", " : "", failed ? why : name);
    if (failed)
        search->open_result = opened.open_result;
    if (open)
        keep_newer(fits(&opened, search->target, search->max_major) ? &search->best : &search->unfit, &opened);
}

static void try_all(struct search *search, const struct rt_nvrtc_places *places)
{
    glob_t files;

    for (const char *const *name = places->sonames; *name; name++)
        try_one(search, *name);
    if (glob(places->pattern, 0, NULL, &files) == 0) {
        for (size_t i = 0; i < files.gl_pathc; i++)
            try_one(search, files.gl_pathv[i]);
        globfree(&files);
    } else {
        note(&search->tried, ", %s", places->pattern);
    }
}

static smla_status find_newest(struct rt_nvrtc_set *set, const struct gen_target *target, int32_t max_major,
                               const struct rt_nvrtc **out)
{
    struct search search = {.target = target, .max_major = max_major};
    smla_status status;

    try_all(&search, set->places);
    if (search.best.library)
        status = keep(set, &search.best, out);
    else if (search.unfit.library)
        status = refuse_unfit(set, &search.unfit, target, max_major);
    else
        status = rt_fail_native(
            SMLA_ERROR_UNAVAILABLE, search.open_result,
            "no NVRTC to compile with: tried %s; install CUDA's NVRTC (the wheel nvidia-cuda-nvrtc will do) and name "
            "it with SMLA_NVRTC or nvrtc_path",
            search.tried.text);
    drop(&search.unfit);
    return status;
}

smla_status rt_nvrtc_find(struct rt_nvrtc_set *set, const struct gen_target *target, int32_t max_major,
                          const struct rt_nvrtc **out)
{
    struct rt_nvrtc found;

    for (const struct rt_nvrtc *opened = set->first; opened; opened = opened->next) {
        if (fits(opened, target, max_major)) {
            *out = opened;
            return SMLA_OK;
        }
    }
    if (set->path)
        return find_given(set, target, max_major, out);
    if (find_in_process(set->places, target, max_major, &found))
        return keep(set, &found, out);
    return find_newest(set, target, max_major, out);
}

void rt_nvrtc_set_free(struct rt_nvrtc_set *set)
{
    while (set->first) {
        struct rt_nvrtc *next = set->first->next;
        free(set->first);
        set->first = next;
    }
}
