/* smla-cache doctor: the cache folder. */
#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "cache_doctor.h"
#include "folder.h"

/* ---- File systems ---- */

struct file_system {
    unsigned long magic;
    const char *name;
    bool network;
};

/* Those that linux/magic.h lacks are of statfs(2). */
static const struct file_system file_systems[] = {
    {NFS_SUPER_MAGIC, "nfs", true},   {SMB_SUPER_MAGIC, "smb", true},      {0xff534d42, "cifs", true},
    {0xfe534d42, "smb2", true},       {0x0bd00bd0, "lustre", true},        {0x47504653, "gpfs", true},
    {0x19830326, "beegfs", true},     {0x00c36400, "ceph", true},          {V9FS_MAGIC, "9p", true},
    {AFS_SUPER_MAGIC, "afs", true},   {FUSE_SUPER_MAGIC, "fuse", false},   {TMPFS_MAGIC, "tmpfs", false},
    {EXT4_SUPER_MAGIC, "ext", false}, {XFS_SUPER_MAGIC, "xfs", false},     {BTRFS_SUPER_MAGIC, "btrfs", false},
    {0x2fc12fc1, "zfs", false},       {F2FS_SUPER_MAGIC, "f2fs", false},   {OVERLAYFS_SUPER_MAGIC, "overlay", false},
    {RAMFS_MAGIC, "ramfs", false},    {SQUASHFS_MAGIC, "squashfs", false}, {EROFS_SUPER_MAGIC_V1, "erofs", false},
};

static const struct file_system *find_file_system(unsigned long magic)
{
    for (size_t i = 0; i < sizeof file_systems / sizeof file_systems[0]; i++)
        if (file_systems[i].magic == magic)
            return &file_systems[i];
    return NULL;
}

/* path: of the folder, or of the part of its path that is there. */
static void add_file_system(struct doctor *doctor, json_t *result, const char *path)
{
    struct statfs info;
    char number[32];
    if (statfs(path, &info) != 0)
        return;
    const unsigned long magic = (unsigned long)info.f_type & 0xffffffff;
    const struct file_system *known = find_file_system(magic);
    snprintf(number, sizeof number, "0x%lx", magic);
    const bool network = known != NULL && known->network;
    const unsigned long long free_bytes = (unsigned long long)info.f_bavail * (unsigned long long)info.f_bsize;
    json_object_set_new(result, "file_system", json_string(known != NULL ? known->name : number));
    json_object_set_new(result, "network", json_boolean(network));
    json_object_set_new(result, "free_bytes", json_integer((json_int_t)free_bytes));
    if (network)
        doctor_warn(doctor,
                    "the cache folder is on %s: what one host compiles another may see a minute later, and compile "
                    "too; a folder of the host itself is faster (SMLA_CACHE_DIR)",
                    known->name);
    if (free_bytes < 64 << 20 && doctor->settings.cache_policy == SMLA_CACHE_RW)
        doctor_warn(doctor, "%llu bytes are free for the cache folder: kernels that find no room live in memory alone",
                    free_bytes);
}

/* ---- The folder ---- */

/* Of a folder by a home, what is above it too. */
static bool is_kept(const struct doctor *doctor, const char *path, char why[256])
{
    return doctor->settings.cache_dir_named || rt_folder_is_kept(path, why);
}

static void add_folder(struct doctor *doctor, json_t *result, const char *path, const struct stat *status)
{
    char why[256] = "", mode[8];
    const bool trusted = S_ISDIR(status->st_mode) && rt_is_trusted(status, why) && is_kept(doctor, path, why);
    if (!S_ISDIR(status->st_mode))
        snprintf(why, sizeof why, "not a folder");
    snprintf(mode, sizeof mode, "%04o", (unsigned)status->st_mode & 07777);
    json_object_set_new(result, "owner", json_integer((json_int_t)status->st_uid));
    json_object_set_new(result, "mode", json_string(mode));
    json_object_set_new(result, "trusted", json_boolean(trusted));
    json_object_set_new(result, "writable", json_boolean(access(path, W_OK | X_OK) == 0));
    if (!trusted) {
        json_object_set_new(result, "why", json_string(why));
        doctor_warn(doctor,
                    "the cache folder is not used: %s. Name another with SMLA_CACHE_DIR, or give it to this user with "
                    "mode 0700",
                    why);
    }
}

/* Cuts the path to the part that is there. */
static void cut_to_existing(char *path, struct stat *status)
{
    while (stat(path, status) != 0) {
        char *slash = strrchr(path, '/');
        if (slash == NULL || slash == path) {
            strcpy(path, "/");
            (void)stat(path, status);
            return;
        }
        *slash = 0;
    }
}

static void add_missing(struct doctor *doctor, json_t *result, const char *path, const char *existing,
                        const struct stat *status)
{
    char why[256] = "";
    if (!is_kept(doctor, path, why)) {
        json_object_set_new(result, "trusted", json_false());
        json_object_set_new(result, "why", json_string(why));
        json_object_set_new(result, "writable", json_false());
        doctor_warn(doctor, "the cache folder is not used: %s. Name another with SMLA_CACHE_DIR", why);
        return;
    }
    const bool can_be_made = S_ISDIR(status->st_mode) && access(existing, W_OK | X_OK) == 0;
    json_object_set_new(result, "writable", json_boolean(can_be_made));
    if (!can_be_made)
        json_object_set_new(result, "why", json_sprintf("below '%s' nothing can be made", existing));
    if (!can_be_made && doctor->settings.cache_policy == SMLA_CACHE_RW)
        doctor_warn(doctor,
                    "the cache folder is not there and cannot be made below '%s': each process compiles for itself. "
                    "Name another with SMLA_CACHE_DIR",
                    existing);
}

size_t doctor_count_files(const char *dir)
{
    struct rt_cache *cache;
    struct rt_cache_files list;
    size_t entries = 0;
    if (rt_cache_open(dir, false, true, NULL, &cache) != SMLA_OK)
        return 0;
    (void)rt_cache_list(cache, &list);
    for (size_t i = 0; i < list.count; i++)
        entries += !list.files[i].temporary;
    rt_cache_files_free(&list);
    rt_cache_close(cache);
    return entries;
}

static void look_at(struct doctor *doctor, json_t *result, const char *path)
{
    struct stat status, of_existing;
    const bool exists = stat(path, &status) == 0;
    char *existing = strdup(path);
    json_object_set_new(result, "exists", json_boolean(exists));
    if (existing == NULL)
        return;
    cut_to_existing(existing, &of_existing);
    if (exists)
        add_folder(doctor, result, path, &status);
    else
        add_missing(doctor, result, path, existing, &of_existing);
    add_file_system(doctor, result, existing);
    if (exists)
        json_object_set_new(result, "files", json_integer((json_int_t)doctor_count_files(path)));
    free(existing);
}

json_t *doctor_folder(struct doctor *doctor)
{
    static const char *const policies[] = {[SMLA_CACHE_OFF] = "off", [SMLA_CACHE_RO] = "ro", [SMLA_CACHE_RW] = "rw"};
    const struct rt_settings *settings = &doctor->settings;
    const char *origin = NULL;
    json_t *result = json_pack("{s:s}", "policy", policies[settings->cache_policy]);
    free(rt_cache_default_dir_from(&origin));
    if (settings->cache_dir == NULL) {
        json_object_set_new(result, "path", json_null());
        if (settings->cache_policy != SMLA_CACHE_OFF)
            doctor_warn(doctor,
                        "there is no cache folder, since SMLA_CACHE_DIR, XDG_CACHE_HOME and a home are missing: "
                        "each process compiles for itself");
        return result;
    }
    json_object_set_new(result, "path", json_string(settings->cache_dir));
    json_object_set_new(result, "from", json_string(doctor->options->cache != NULL ? "--cache" : origin));
    if (settings->cache_dir[0] == '/')
        look_at(doctor, result, settings->cache_dir);
    else
        doctor_warn(doctor, "the cache folder '%s' is not used: not an absolute path", settings->cache_dir);
    return result;
}
