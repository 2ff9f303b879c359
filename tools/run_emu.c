#include "run_emu.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef SMLA_EMU_LIBDIR
#define SMLA_EMU_LIBDIR "lib"
#endif

/* The build folder (bin/ beside emu/), then an installation. */
static const char *const places[] = {"../emu/libcuda.so.1", "../" SMLA_EMU_LIBDIR "/smla/emu/libcuda.so.1"};

bool run_emu_find(char path[RUN_EMU_PATH])
{
    char program[RUN_EMU_PATH / 2];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0)
        return false;
    program[length] = '\0';
    char *slash = strrchr(program, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, RUN_EMU_PATH, "%s/%s", program, places[i]);
        if (access(path, R_OK) == 0)
            return true;
    }
    return false;
}

static bool set(const char *name, const char *value)
{
    return value == NULL || setenv(name, value, 1) == 0;
}

bool run_emu_configure(const struct run_emu_options *options)
{
    return set("SMLA_EMU_SCHEDULE", options->schedule) && set("SMLA_EMU_SEED", options->seed) &&
           set("SMLA_EMU_REPORT", options->report);
}

/* A symbol of a driver that is open already. */
static bool find_symbol(const char *path, const char *name, void *function)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    void *symbol = library == NULL ? NULL : dlsym(library, name);
    if (library != NULL)
        dlclose(library);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

bool run_emu_is(const char *path)
{
    int (*version)(void);
    return find_symbol(path, "smla_emu_version", &version);
}

size_t run_emu_findings(const char *path)
{
    uint64_t (*count)(void);
    bool (*write)(const char *);
    if (!find_symbol(path, "smla_emu_finding_count", &count) || !find_symbol(path, "smla_emu_write_report", &write))
        return 0;
    const size_t findings = (size_t)count();
    if (findings > 0)
        write("-");
    return findings;
}

void run_emu_message(const char *path, char *message, size_t capacity)
{
    size_t (*get)(char *, size_t);
    message[0] = '\0';
    if (find_symbol(path, "smla_emu_message", &get))
        get(message, capacity);
}
