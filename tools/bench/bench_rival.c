#include "bench_rival.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

/* The file's name without folder, "lib" and ".so". */
static void name_file(const char *path, char *name, size_t size)
{
    const char *slash = strrchr(path, '/'), *file = slash == NULL ? path : slash + 1;
    file += strncmp(file, "lib", 3) == 0 ? 3 : 0;
    size_t length = strlen(file);
    if (length >= 3 && strcmp(file + length - 3, ".so") == 0)
        length -= 3;
    snprintf(name, size, "%.*s", (int)length, file);
}

int bench_rival_open(const char *path, uint32_t op, struct bench_rival *out)
{
    char file[4096];
    const char *(*name)(void);
    /* dlopen looks for a name without a slash elsewhere. */
    snprintf(file, sizeof file, "%s%s", strchr(path, '/') == NULL ? "./" : "", path);
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return cli_fail(CLI_USAGE, "--rival: %s", dlerror());
    const bool is_decode = op == SMLA_OP_DECODE;
    void *const symbols[] = {dlsym(library, "smla_rival_name"), dlsym(library, "smla_rival_prefill"),
                             dlsym(library, "smla_rival_decode"), dlsym(library, "smla_rival_describe")};
    if (symbols[is_decode ? 2 : 1] == NULL)
        return cli_fail(CLI_USAGE, "--rival: %s exports no smla_rival_%s", path, is_decode ? "decode" : "prefill");
    memcpy(&name, &symbols[0], sizeof name);
    memcpy(&out->prefill, &symbols[1], sizeof out->prefill);
    memcpy(&out->decode, &symbols[2], sizeof out->decode);
    memcpy(&out->describe, &symbols[3], sizeof out->describe);
    if (name == NULL)
        name_file(path, out->name, sizeof out->name);
    else
        snprintf(out->name, sizeof out->name, "%s", name());
    return CLI_FINE;
}
