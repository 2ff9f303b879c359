#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache.h"

/* NULL when unset, empty, or not to be believed (a set-user-id program). */
static const char *environment(const char *name)
{
    const char *value = secure_getenv(name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}

static char *join(const char *folder, const char *rest)
{
    char *path;

    return asprintf(&path, "%s%s", folder, rest) < 0 ? NULL : path;
}

const char *rt_cache_system_dir(void)
{
    return SMLA_SYSTEM_DIR;
}

/* "/" is what containers give a user without a home: no folder to fill. */
static bool is_home(const char *path)
{
    return path != NULL && path[0] == '/' && path[strspn(path, "/")] != '\0';
}

static char *cache_in_home(const char *home)
{
    return is_home(home) ? join(home, "/.cache/smla") : NULL;
}

static char *cache_in_passwd_home(void)
{
    char buffer[16384]; /* many times what any entry of a passwd database takes */
    struct passwd entry;
    struct passwd *found = NULL;

    if (getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) != 0 || found == NULL)
        return NULL;
    return cache_in_home(entry.pw_dir);
}

char *rt_cache_default_dir_from(const char **origin)
{
    const char *own = environment("SMLA_CACHE_DIR");
    const char *xdg = environment("XDG_CACHE_HOME");
    const char *home = environment("HOME");
    char *dir;

    if (own != NULL) {
        *origin = "SMLA_CACHE_DIR";
        dir = join(own, "");
    } else if (xdg != NULL && xdg[0] == '/') {
        *origin = "XDG_CACHE_HOME";
        dir = join(xdg, "/smla");
    } else if (home != NULL) {
        *origin = "HOME";
        dir = cache_in_home(home);
    } else {
        *origin = "passwd";
        dir = cache_in_passwd_home();
    }
    if (dir == NULL)
        *origin = NULL;
    return dir;
}

char *rt_cache_default_dir(void)
{
    const char *origin;

    return rt_cache_default_dir_from(&origin);
}
