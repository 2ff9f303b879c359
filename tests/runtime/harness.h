/* What the runtime's tests share: the two stubs, a context on them, a description, assertions about the last error. */
#ifndef SMLA_RUNTIME_HARNESS_H
#define SMLA_RUNTIME_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "smla/smla.h"
#include "stub.h"

/* A CUDA context that the tests make current. */
#define TEST_CONTEXT ((void *)0xc1)

struct world {
    struct stub_driver *driver;
    struct stub_nvrtc *nvrtc;
    smla_context *context; /* on the stubs, no cache folder */
};

/* Resets both stubs, makes TEST_CONTEXT current, creates the context; and the reverse, with a look for what is left. */
int world_setup(void **state);
int world_teardown(void **state);

/* The stubs alone. */
void world_open_stubs(struct world *world);

/* Descriptions that the stubs' settings serve. */
smla_context_desc stub_context_desc(void);
smla_kernel_desc prefill_desc(void);
smla_kernel_desc reference_desc(void);
smla_kernel_desc combine_desc(void);

/* Makes the stubs serve the reference kernel instead of the prefill kernel. */
void world_serve_reference(struct world *world);

/* … and the four of combine. */
void world_serve_combine(struct world *world);

/* All kernels at once, each with its own entries and parameter. */
void world_serve_all(struct world *world);

/* Prepares, or fails the test. */
smla_kernel *must_prepare(smla_context *context, const smla_kernel_desc *desc);

smla_error_info last_error(void);

/* The last error has this status, and its message contains each of the texts (NULL ends). */
void assert_error_(smla_status status, const char *file, int line, ...);
#define assert_error(status, ...) assert_error_(status, __FILE__, __LINE__, __VA_ARGS__, (char *)NULL)

smla_stats_counters stats_of(const smla_context *context);

/* How many events of a kind the context keeps; the last of them in *last (may be NULL). */
int events_of(smla_context *context, uint32_t kind, smla_event *last);

/* The first `size` bytes of a struct in memory of exactly that size, as an older caller would have it; free() it. */
void *older_struct(const void *full, size_t size);

/* A new empty folder under the build folder's temporary place, and its removal with everything in it. */
char *make_folder(void);
void remove_folder(char *folder);

#endif
