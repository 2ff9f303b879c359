#include "settings.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache.h"
#include "cache_gc.h"
#include "error.h"

enum {
    ALL_CONTEXT_FLAGS = SMLA_CONTEXT_PRIMARY | SMLA_CONTEXT_OWN_CACHE | SMLA_CONTEXT_UNVERIFIED |
                        SMLA_CONTEXT_SELF_TEST | SMLA_CONTEXT_LINE_INFO
};

/* A word of an environment variable and its policy. */
struct word {
    const char *text;
    uint32_t policy;
};

/* Unset and empty are the same. secure_getenv: a set-uid program's caller does not choose its files. */
static const char *environment(const char *name)
{
    const char *value = secure_getenv(name);

    return value && value[0] ? value : NULL;
}

static smla_status policy_from_environment(const char *name, const struct word *words, size_t count, uint32_t *policy)
{
    const char *value = environment(name);

    *policy = words[0].policy;
    if (value == NULL)
        return SMLA_OK;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(words[i].text, value) == 0) {
            *policy = words[i].policy;
            return SMLA_OK;
        }
    }
    return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "the environment variable %s is \"%.40s\": it may be %s, %s or %s",
                   name, value, words[0].text, words[1].text, words[2].text);
}

static smla_status read_policies(struct rt_settings *settings, const smla_context_desc *desc)
{
    static const struct word cache_words[] = {{"rw", SMLA_CACHE_RW}, {"ro", SMLA_CACHE_RO}, {"off", SMLA_CACHE_OFF}};
    static const struct word jit_words[] = {{"on", SMLA_JIT_ON}, {"off", SMLA_JIT_OFF}, {"sealed", SMLA_JIT_SEALED}};
    smla_status status = SMLA_OK;

    settings->cache_policy = desc->cache_policy;
    settings->jit_policy = desc->jit_policy;
    if (desc->cache_policy == SMLA_CACHE_DEFAULT)
        status = policy_from_environment("SMLA_CACHE", cache_words, 3, &settings->cache_policy);
    if (status == SMLA_OK && desc->jit_policy == SMLA_JIT_DEFAULT)
        status = policy_from_environment("SMLA_JIT", jit_words, 3, &settings->jit_policy);
    return status;
}

static smla_status limit_from_environment(uint32_t *limit_ms)
{
    const char *value = environment("SMLA_COMPILE_LIMIT_MS");
    char *end;

    *limit_ms = 0;
    if (value == NULL)
        return SMLA_OK;
    errno = 0;
    const unsigned long long number = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end != '\0' || errno != 0 || number >= UINT32_MAX)
        return rt_fail(
            SMLA_ERROR_INVALID_ARGUMENT,
            "the environment variable SMLA_COMPILE_LIMIT_MS is \"%.40s\": it may be a number of milliseconds "
            "below %u, or 0 for no limit",
            value, (unsigned)UINT32_MAX);
    *limit_ms = (uint32_t)number;
    return SMLA_OK;
}

static smla_status read_limit(struct rt_settings *settings, const smla_context_desc *desc)
{
    settings->compile_limit_ms = desc->compile_limit_ms != SMLA_COMPILE_LIMIT_NONE ? desc->compile_limit_ms : 0;
    return desc->compile_limit_ms == 0 ? limit_from_environment(&settings->compile_limit_ms) : SMLA_OK;
}

/* "100", "64K", "512M", "2G"; false for others, and for 0. */
static bool read_bytes(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMG";
    char *end;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    const char *unit = *end != '\0' ? strchr(units, *end) : NULL;
    const int shift = unit != NULL ? 10 * (int)(unit - units + 1) : 0;
    if (errno != 0 || end[unit != NULL] != '\0' || number == 0 || number > UINT64_MAX >> shift)
        return false;
    *bytes = (uint64_t)number << shift;
    return true;
}

smla_status rt_settings_cache_bytes(uint64_t *bytes)
{
    const char *value = environment("SMLA_CACHE_BYTES");

    *bytes = RT_CACHE_CAP_BYTES;
    if (value == NULL || read_bytes(value, bytes))
        return SMLA_OK;
    return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                   "the environment variable SMLA_CACHE_BYTES is \"%.40s\": it may be a number of bytes above 0, as in "
                   "500000000, 64K, 512M or 2G",
                   value);
}

static smla_status read_cache_bytes(struct rt_settings *settings, const smla_context_desc *desc)
{
    settings->cache_bytes = desc->cache_bytes;
    return desc->cache_bytes == 0 ? rt_settings_cache_bytes(&settings->cache_bytes) : SMLA_OK;
}

static smla_status read_line_info(struct rt_settings *settings)
{
    const char *value = environment("SMLA_LINE_INFO");

    if (value != NULL && strcmp(value, "1") == 0)
        settings->flags |= SMLA_CONTEXT_LINE_INFO;
    if (value == NULL || strcmp(value, "0") == 0 || strcmp(value, "1") == 0)
        return SMLA_OK;
    return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                   "the environment variable SMLA_LINE_INFO is \"%.40s\": it may be 1 or 0", value);
}

static smla_status check_desc(const smla_context_desc *desc)
{
    if (desc->flags & ~(uint32_t)ALL_CONTEXT_FLAGS)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                       "context flags 0x%x: there are SMLA_CONTEXT_PRIMARY (1), SMLA_CONTEXT_OWN_CACHE (2), "
                       "SMLA_CONTEXT_UNVERIFIED (4), SMLA_CONTEXT_SELF_TEST (8) and SMLA_CONTEXT_LINE_INFO (16) only",
                       (unsigned)desc->flags);
    if (desc->cache_policy > SMLA_CACHE_RW)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "cache_policy %u: SMLA_CACHE_* is 0 to 3",
                       (unsigned)desc->cache_policy);
    if (desc->jit_policy > SMLA_JIT_SEALED)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "jit_policy %u: SMLA_JIT_* is 0 to 3", (unsigned)desc->jit_policy);
    if (desc->reserved != 0 || desc->reserved_2 != 0)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "smla_context_desc.reserved is %u: zero the struct first",
                       (unsigned)(desc->reserved | desc->reserved_2));
    if ((desc->flags & SMLA_CONTEXT_PRIMARY) && desc->device < 0)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "device %d: CUDA ordinals start at 0", (int)desc->device);
    return SMLA_OK;
}

static smla_status copy_string(char **to, const char *from)
{
    const size_t size = from ? strlen(from) + 1 : 0;

    *to = NULL;
    if (from == NULL)
        return SMLA_OK;
    *to = malloc(size);
    if (*to == NULL)
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a setting of %zu bytes", size);
    memcpy(*to, from, size);
    return SMLA_OK;
}

/* The working folder may change later, so a relative folder is fixed now. */
static smla_status copy_absolute(char **to, const char *dir)
{
    char here[PATH_MAX], joined[2 * PATH_MAX];

    if (dir[0] == '/')
        return copy_string(to, dir);
    if (getcwd(here, sizeof here) == NULL) {
        const smla_status status = rt_fail_native(SMLA_ERROR_IO, errno,
                                                  "cache_dir \"%.200s\" is relative and the "
                                                  "working folder cannot be told: %s",
                                                  dir, strerror(errno));
        rt_fail_path(dir);
        return status;
    }
    if (snprintf(joined, sizeof joined, "%s/%s", here, dir) >= (int)sizeof joined)
        return rt_fail(SMLA_ERROR_IO, "cache_dir is longer than %zu bytes", sizeof joined);
    return copy_string(to, joined);
}

static smla_status read_cache_dir(struct rt_settings *settings, const smla_context_desc *desc)
{
    const char *origin = NULL;

    settings->cache_dir_given = desc->cache_dir != NULL;
    settings->cache_dir_named = settings->cache_dir_given;
    if (settings->cache_policy == SMLA_CACHE_OFF)
        return SMLA_OK;
    if (desc->cache_dir)
        return copy_absolute(&settings->cache_dir, desc->cache_dir);
    settings->cache_dir = rt_cache_default_dir_from(&origin);
    settings->cache_dir_named = origin != NULL && strcmp(origin, "SMLA_CACHE_DIR") == 0;
    return SMLA_OK;
}

/* With SMLA_CACHE_OFF kernels come from no folder; a bundle is none, and whoever names one wants it. */
static smla_status read_read_only(struct rt_settings *settings, const smla_context_desc *desc)
{
    const char *bundles = desc->bundles ? desc->bundles : environment("SMLA_BUNDLE");
    const char *system_dir = settings->cache_policy != SMLA_CACHE_OFF ? rt_cache_system_dir() : "";

    if (desc->flags & SMLA_CONTEXT_OWN_CACHE)
        return SMLA_OK;
    const smla_status status = copy_string(&settings->bundles, bundles);
    return status == SMLA_OK ? copy_string(&settings->system_dir, system_dir[0] ? system_dir : NULL) : status;
}

/* A relative one is ignored, as the XDG base directory specification says. */
static smla_status read_runtime_dir(struct rt_settings *settings)
{
    const char *dir = environment("XDG_RUNTIME_DIR");

    return copy_string(&settings->runtime_dir, dir && dir[0] == '/' ? dir : NULL);
}

static const char *first_of(const char *given, const char *otherwise)
{
    return given ? given : otherwise;
}

smla_status rt_settings_read(struct rt_settings *settings, const smla_context_desc *desc)
{
    memset(settings, 0, sizeof *settings);
    settings->flags = desc->flags;
    settings->device = desc->device;
    settings->log = (struct rt_log){.fn = desc->log, .user = desc->log_user};
    smla_status status = check_desc(desc);
    if (status == SMLA_OK)
        status = read_policies(settings, desc);
    if (status == SMLA_OK)
        status = read_limit(settings, desc);
    if (status == SMLA_OK)
        status = read_cache_bytes(settings, desc);
    if (status == SMLA_OK)
        status = read_line_info(settings);
    if (status == SMLA_OK)
        status = copy_string(&settings->driver_path, first_of(desc->driver_path, environment("SMLA_DRIVER")));
    if (status == SMLA_OK)
        status = copy_string(&settings->nvrtc_path, first_of(desc->nvrtc_path, environment("SMLA_NVRTC")));
    if (status == SMLA_OK)
        status = read_cache_dir(settings, desc);
    if (status == SMLA_OK)
        status = read_read_only(settings, desc);
    if (status == SMLA_OK)
        status = read_runtime_dir(settings);
    if (status == SMLA_OK)
        status = copy_string(&settings->disable, first_of(desc->disable, environment("SMLA_DISABLE")));
    if (status != SMLA_OK)
        rt_settings_free(settings);
    return status;
}

smla_kernel_desc rt_settings_apply(const struct rt_settings *settings, const smla_kernel_desc *desc)
{
    smla_kernel_desc asked = *desc;

    if (settings != NULL && (settings->flags & SMLA_CONTEXT_LINE_INFO))
        asked.flags |= SMLA_KERNEL_LINE_INFO;
    return asked;
}

void rt_settings_free(struct rt_settings *settings)
{
    free(settings->driver_path);
    free(settings->nvrtc_path);
    free(settings->cache_dir);
    free(settings->bundles);
    free(settings->system_dir);
    free(settings->runtime_dir);
    free(settings->disable);
    memset(settings, 0, sizeof *settings);
}
