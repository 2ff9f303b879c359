#include "bench_rival.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "rival.h"

int bench_rival_open(const char *path, struct bench_rival *out)
{
    char file[4096];
    const char *(*name)(void);
    /* dlopen looks for a name without a slash elsewhere. */
    snprintf(file, sizeof file, "%s%s", strchr(path, '/') == NULL ? "./" : "", path);
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return cli_fail(CLI_USAGE, "--rival: %s", dlerror());
    void *const symbols[] = {dlsym(library, "smla_rival_name"), dlsym(library, "smla_rival_prefill")};
    if (symbols[0] == NULL || symbols[1] == NULL)
        return cli_fail(CLI_USAGE, "--rival: %s exports no %s", path,
                        symbols[0] == NULL ? "smla_rival_name" : "smla_rival_prefill");
    memcpy(&name, &symbols[0], sizeof name);
    memcpy(&out->prefill, &symbols[1], sizeof out->prefill);
    out->name = name();
    return CLI_FINE;
}
