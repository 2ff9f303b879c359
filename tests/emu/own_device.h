/* The emulated libcuda by dlopen and the plain driver interface, one a process; and what checks of kernels need. Every
 * fault prints a sentence and ends the process with status 1: a check runs in a child (test_own_kernels.c). */
#ifndef EMU_TESTS_OWN_DEVICE_H
#define EMU_TESTS_OWN_DEVICE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OWN_FOUND = 2 }; /* exit status: the device reported something */

/* Opens the device as SMLA_EMU_* says, and loads the module. */
void own_open(const char *libcuda, const char *ptx);
/* Prints the report and ends the process with OWN_FOUND when there are findings. */
void own_close(void);

/* Ends the process unless the condition holds. */
void must(bool condition, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* … unless the value is within tolerance of the expected one; at: which of how many. */
void must_be_near(double value, double expected, double tolerance, const char *what, size_t at);

/* ---- Memory ---- */

uint64_t own_upload(const void *from, size_t bytes);
uint64_t own_zeros(size_t bytes);
void own_download(void *to, uint64_t from, size_t bytes);

/* ---- Launches ---- */

struct own_launch {
    const char *kernel;
    unsigned int grid[3]; /* 0 is 1 */
    unsigned int threads, shared_bytes, cluster;
    bool early; /* may start before the launch before it has ended */
};

/* Arguments end with NULL. Does not wait. */
void own_start(const struct own_launch *launch, void *first, ...) __attribute__((sentinel));
/* Waits. A kernel that was stopped ends the process with OWN_FOUND. */
void own_wait(void);

/* ---- Tensor maps ---- */

enum own_element { OWN_F16 = 6, OWN_F32 = 7, OWN_BF16 = 9 }; /* CUtensorMapDataType */

struct own_map {
    _Alignas(64) uint64_t words[16];
};

/* A dense tensor, inner size first; swizzle: bytes, 0 for none. */
struct own_map own_tensor(uint64_t address, enum own_element element, uint32_t rank, const uint64_t *sizes,
                          const uint32_t *box, unsigned int swizzle);

/* ---- Numbers ---- */

/* Pseudo-random, the same in every run. */
uint32_t own_random(uint32_t *state);
/* Between -1 and 1, a multiple of 1/16: exact in every format used here, and sums of products are in float32. */
float own_sixteenth(uint32_t *state);

uint16_t own_bf16(float value); /* of values that bf16 holds */
float own_of_bf16(uint16_t bits);
uint16_t own_f16(float value); /* of values that f16 holds as normal numbers, and 0 */
float own_of_f16(uint16_t bits);

#endif
