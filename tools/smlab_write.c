#include "smlab_write.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "host_file.h"

bool smlab_is_path(const char *path)
{
    static const char ending[] = ".smlab";
    const size_t length = strlen(path);
    return length >= strlen(ending) && strcmp(path + length - strlen(ending), ending) == 0;
}

int smlab_write(const char *path, const struct rt_entry *entries, size_t count, size_t *size_bytes)
{
    char why[FILE_WHY];
    uint8_t *bytes;
    if (rt_smlab_build(entries, count, &bytes, size_bytes) != SMLA_OK)
        return cli_smla_error(path);
    const mode_t before = umask(077);
    umask(before | S_IWGRP | S_IWOTH);
    const bool ok = file_write(path, bytes, *size_bytes, why);
    umask(before);
    free(bytes);
    return ok ? CLI_FINE : cli_fail(CLI_USAGE, "%s", why);
}
