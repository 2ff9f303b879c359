/* smla-cache doctor: the read-only tiers, and which tier has kernels for a target. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache_doctor.h"
#include "folder.h"
#include "tiers.h"

/* ---- Bundles ---- */

static json_t *bundle_json(struct doctor *doctor, const char *path)
{
    struct rt_smlab *smlab = NULL;
    char why[256];
    json_t *result = json_pack("{s:s}", "path", path);
    const enum rt_read_result opened = rt_smlab_open(path, false, &smlab, why);
    json_object_set_new(result, "used", json_boolean(opened == RT_READ_OK));
    if (opened == RT_READ_OK) {
        json_object_set_new(result, "entries", json_integer((json_int_t)rt_smlab_count(smlab)));
        json_object_set_new(result, "bytes", json_integer((json_int_t)rt_smlab_size(smlab)));
    }
    if (opened != RT_READ_OK || why[0] != 0) {
        json_object_set_new(result, "why", json_string(why));
        doctor_warn(doctor, "the bundle '%s' is %s: %s", path, opened == RT_READ_OK ? "damaged" : "not used", why);
    }
    rt_smlab_close(smlab);
    return result;
}

json_t *doctor_bundles(struct doctor *doctor)
{
    json_t *result = json_array();
    const char *list = doctor->settings.bundles;
    char *path = malloc(list != NULL ? strlen(list) + 1 : 1);
    while (path != NULL && rt_tiers_next_path(&list, path))
        json_array_append_new(result, bundle_json(doctor, path));
    free(path);
    return result;
}

/* ---- The system folder ---- */

json_t *doctor_system(struct doctor *doctor)
{
    const char *path = doctor->settings.system_dir;
    struct stat status;
    char why[256] = "", mode[8];
    int error;
    json_t *result = json_pack("{s:s?}", "path", path);
    const bool exists = path != NULL && stat(path, &status) == 0;
    json_object_set_new(result, "exists", json_boolean(exists));
    if (!exists)
        return result;
    const int folder = rt_folder_open(path, &error, why);
    snprintf(mode, sizeof mode, "%04o", (unsigned)status.st_mode & 07777);
    json_object_set_new(result, "owner", json_integer((json_int_t)status.st_uid));
    json_object_set_new(result, "mode", json_string(mode));
    json_object_set_new(result, "trusted", json_boolean(folder >= 0));
    if (folder >= 0) {
        close(folder);
        json_object_set_new(result, "files", json_integer((json_int_t)doctor_count_files(path)));
    } else {
        json_object_set_new(result, "why", json_string(why));
        doctor_warn(doctor, "the system folder is not used: %s", why);
    }
    return result;
}

/* ---- What is in the tiers ---- */

static bool is_for(const struct doctor *doctor, const struct rt_key *key, const struct rt_builder *builder,
                   const char *arch, const struct gen_target *target, struct rt_builder *too_new)
{
    const struct rt_wanted wanted = {.max_nvrtc_major = doctor->driver.version / 1000, .too_new = too_new};
    return strcmp(arch, target->arch) == 0 && key->kind == (doctor->driver.takes_ptx ? RT_KIND_PTX : RT_KIND_CUBIN) &&
           rt_is_of_builder(&wanted, builder);
}

static bool bundle_serves(const struct doctor *doctor, const char *path, const struct gen_target *target,
                          struct rt_builder *too_new)
{
    struct rt_smlab *smlab;
    char why[256];
    bool found = false;
    if (rt_smlab_open(path, false, &smlab, why) != RT_READ_OK)
        return false;
    for (size_t i = 0; i < rt_smlab_count(smlab) && !found; i++) {
        const struct rt_smlab_row *row = rt_smlab_row(smlab, i);
        struct rt_entry entry;
        if (!is_for(doctor, &row->key, &row->builder, row->arch, target, too_new) ||
            rt_smlab_read(smlab, i, &entry, why) != RT_READ_OK)
            continue;
        found = true;
        rt_entry_free(&entry);
    }
    rt_smlab_close(smlab);
    return found;
}

static bool bundles_serve(const struct doctor *doctor, const struct gen_target *target, struct rt_builder *too_new)
{
    const char *list = doctor->settings.bundles;
    char *path = malloc(list != NULL ? strlen(list) + 1 : 1);
    bool found = false;
    while (path != NULL && !found && rt_tiers_next_path(&list, path))
        found = bundle_serves(doctor, path, target, too_new);
    free(path);
    return found;
}

static bool folder_serves(const struct doctor *doctor, const char *dir, const struct gen_target *target,
                          struct rt_builder *too_new)
{
    struct rt_cache *cache;
    struct rt_cache_files list;
    bool found = false;
    if (dir == NULL || rt_cache_open(dir, false, true, NULL, &cache) != SMLA_OK)
        return false;
    (void)rt_cache_list(cache, &list);
    for (size_t i = 0; i < list.count && !found; i++) {
        char why[256];
        struct rt_entry entry;
        if (list.files[i].temporary || rt_cache_file_read(cache, &list.files[i], &entry, why) != RT_READ_OK)
            continue;
        found = is_for(doctor, &entry.info.key, &entry.info.builder, entry.info.arch, target, too_new);
        rt_entry_free(&entry);
    }
    rt_cache_files_free(&list);
    rt_cache_close(cache);
    return found;
}

const char *doctor_tier_of(const struct doctor *doctor, const struct gen_target *target, struct rt_builder *too_new)
{
    *too_new = (struct rt_builder){.nvrtc_major = 0};
    if (bundles_serve(doctor, target, too_new))
        return "bundle";
    if (folder_serves(doctor, doctor->settings.system_dir, target, too_new))
        return "system folder";
    return folder_serves(doctor, doctor->settings.cache_dir, target, too_new) ? "cache folder" : NULL;
}
