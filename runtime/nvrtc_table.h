/* The NVRTC table, and which libnvrtc wins (interface.md, "Versions that count"). */
#ifndef SMLA_RUNTIME_NVRTC_TABLE_H
#define SMLA_RUNTIME_NVRTC_TABLE_H

#include <stdbool.h>

#include "key.h"
#include "log.h"
#include "nvrtc_types.h"
#include "target.h"

enum { RT_NVRTC_MAX_ARCHS = 64 };

struct rt_nvrtc {
#define RT_NVRTC_MEMBER(name, parameters) rt_nvrtc_result(*name) parameters;
    RT_NVRTC_SYMBOLS(RT_NVRTC_MEMBER)
#undef RT_NVRTC_MEMBER
    const char *(*nvrtcGetErrorString)(rt_nvrtc_result result);
    struct rt_nvrtc *next;
    void *library;
    int major;
    int minor;
    int arch_count;
    int archs[RT_NVRTC_MAX_ARCHS]; /* plain numbers, without a and f */
    char path[512];                /* of the loaded file */
    struct rt_builder builder;
    rt_nvrtc_result open_result; /* of the call that kept it from being opened; RT_NVRTC_SUCCESS: no call did */
};

/* Where to look when no path is given. */
struct rt_nvrtc_places {
    const char *const *sonames; /* newest first, ends with NULL */
    const char *pattern;        /* for glob() */
};
extern const struct rt_nvrtc_places rt_nvrtc_default_places;

/* The libraries a context has opened: those that won for some target. */
struct rt_nvrtc_set {
    struct rt_nvrtc *first;
    const char *path; /* the only one allowed, or NULL */
    const struct rt_nvrtc_places *places;
    int driver_version; /* 12080 for 12.8: what messages tell where the driver's major is the limit */
};

/* Finds the NVRTC for a target. max_major: the newest major whose cubins the driver takes; 0: any.
 * A path that is given and fails is an error, never a reason to look further.
 * *out belongs to the set. Returns SMLA_OK; UNAVAILABLE (with what was tried, or what the NVRTC found can do);
 * OUT_OF_MEMORY. The caller serialises calls. */
smla_status rt_nvrtc_find(struct rt_nvrtc_set *set, const struct gen_target *target, int32_t max_major,
                          const struct rt_nvrtc **out);

/* Frees the tables. The libraries stay open: NVRTC is never unloaded once it has compiled. */
void rt_nvrtc_set_free(struct rt_nvrtc_set *set);

/* Tells whether a version is at least major.minor. */
bool rt_nvrtc_at_least(const struct rt_nvrtc *nvrtc, int major, int minor);

/* Opens one library and fills the table up to `archs`; the caller closes nvrtc->library. False with a sentence in
 * why[]. */
bool rt_nvrtc_open(struct rt_nvrtc *nvrtc, const char *name, int dlopen_flags, char why[512]);

/* nvrtcCompileProgram, and the process's limits afterwards as they were before. */
rt_nvrtc_result rt_nvrtc_compile(const struct rt_nvrtc *nvrtc, rt_nvrtc_program program, int option_count,
                                 const char *const *options);

/* Readies an opened table for compiling: loads its builtins, finds out who it is (builder). */
smla_status rt_nvrtc_identify(struct rt_nvrtc *nvrtc);

#endif
