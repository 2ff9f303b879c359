/* The driver table: libcuda, opened by dlopen at first need. */
#ifndef SMLA_RUNTIME_DRIVER_H
#define SMLA_RUNTIME_DRIVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "cuda_types.h"
#include "smla/smla.h"

/* Driver API 12.4, the first with cuKernelGetParamInfo (facts/jit.md 3.2). */
enum { RT_DRIVER_FLOOR = 12040 };

struct rt_driver {
#define RT_DRIVER_MEMBER(name, version, parameters) rt_cu_result(*name) parameters;
    RT_DRIVER_SYMBOLS(RT_DRIVER_MEMBER)
    RT_DRIVER_CHECK_SYMBOLS(RT_DRIVER_MEMBER) /* NULL where the driver lacks them */
    RT_DRIVER_TEST_SYMBOLS(RT_DRIVER_MEMBER)
    RT_DRIVER_RANGE_SYMBOLS(RT_DRIVER_MEMBER)
    RT_DRIVER_PART_SYMBOLS(RT_DRIVER_MEMBER)
#undef RT_DRIVER_MEMBER
    int version;    /* of the driver API: 1000 * major + 10 * minor */
    pid_t pid;      /* of the process that initialised it: CUDA does not survive a fork */
    bool takes_ptx; /* the emulated device, which runs PTX and no cubin */
    char path[512]; /* as opened */
};

/* Gives a symbol's address, or NULL with one of RT_CU_GET_PROC_ADDRESS_* in *why, and what the driver returned.
 * `version`: what smla was written against. */
typedef rt_cu_result (*rt_driver_load_fn)(void *user, const char *symbol, int version, void **address, int *why);

/* Fills and initialises the table through `load`. path: for messages.
 * Returns SMLA_OK; UNAVAILABLE (a symbol is missing, the driver is too old, or cuInit fails). */
smla_status rt_driver_fill(struct rt_driver *driver, const char *path, rt_driver_load_fn load, void *user);

/* Whether the library that rt_driver_open would open is in the process already. */
bool rt_driver_is_loaded(const char *path);

/* Opens libcuda. path: NULL means libcuda.so.1 by the system's search. The library stays open for the life of the
 * process: a driver has threads of its own. Returns as rt_driver_fill. */
smla_status rt_driver_open(struct rt_driver *driver, const char *path);

/* Refuse a driver that lacks what a checked kernel, or the self-test, calls: UNAVAILABLE. */
smla_status rt_driver_check_for_checks(const struct rt_driver *driver);
smla_status rt_driver_check_for_test(const struct rt_driver *driver);

/* Refuses a child forked after cuInit: UNAVAILABLE. */
smla_status rt_driver_check_process(const struct rt_driver *driver);

/* Records the failure of a driver call, with the driver's own name and text for `result`. */
smla_status rt_driver_fail(const struct rt_driver *driver, rt_cu_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
