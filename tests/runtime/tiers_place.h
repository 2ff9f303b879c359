/* A folder that holds bundle, system folder and cache folder, each with the same kernel of the stub compiler. */
#ifndef SMLA_RUNTIME_TIERS_PLACE_H
#define SMLA_RUNTIME_TIERS_PLACE_H

#include "smlab_files.h"

struct place_lines {
    int warnings;
    char last[1024]; /* of them */
};

struct place {
    struct world world; /* without a context */
    char *folder, *bundle, *system, *cache;
    struct place_lines lines;
    smla_context_desc desc; /* no compiler is to be found; nothing may be compiled */
};

/* The compile-time path of the system folder, replaced (ld --wrap); the place's. */
void place_set_system_dir(const char *dir);

int place_setup(void **state);
int place_teardown(void **state);

/* Compiles the kernel, as of the stub's settings, into a bundle file or a folder. */
void place_write_bundle(const char *path);
void place_fill_folder(const char *dir);

#endif
