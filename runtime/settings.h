/* What a context is to do: the description where it says, the environment where it leaves a default. Read once. */
#ifndef SMLA_RUNTIME_SETTINGS_H
#define SMLA_RUNTIME_SETTINGS_H

#include <stdbool.h>

#include "log.h"

struct rt_settings {
    uint32_t flags;
    int32_t device;
    uint32_t cache_policy; /* never DEFAULT */
    uint32_t jit_policy;   /* never DEFAULT; atomic: smla_context_seal */
    char *driver_path;     /* NULL: the system's search */
    char *nvrtc_path;      /* NULL: the search of nvrtc_table.h */
    char *cache_dir;       /* absolute; NULL: none */
    bool cache_dir_given;  /* by the description */
    bool cache_dir_named;  /* by the description or SMLA_CACHE_DIR, and not by a home */
    char *bundles;         /* paths of bundle files with colons between them; NULL: none */
    char *system_dir;      /* NULL: none */
    char *runtime_dir;     /* absolute; NULL: none. For locks */
    char *disable;         /* patterns of kernels that are never chosen (kill_switch.h); NULL: none */
    struct rt_log log;
    uint32_t compile_limit_ms; /* 0: none */
    uint64_t cache_bytes;      /* of entries, that writers let the folder hold */
};

/* Returns SMLA_OK; INVALID_ARGUMENT (also for an environment variable with an unknown word); IO; OUT_OF_MEMORY.
 * On OK the caller frees with rt_settings_free. */
smla_status rt_settings_read(struct rt_settings *settings, const smla_context_desc *desc);
/* What SMLA_CACHE_BYTES says, else RT_CACHE_CAP_BYTES. Returns SMLA_OK; INVALID_ARGUMENT. */
smla_status rt_settings_cache_bytes(uint64_t *bytes);
void rt_settings_free(struct rt_settings *settings);

/* A full-size description with what the settings (NULL: none) ask of every kernel. */
smla_kernel_desc rt_settings_apply(const struct rt_settings *settings, const smla_kernel_desc *desc);

#endif
