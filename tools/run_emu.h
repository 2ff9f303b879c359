/* The emulated device as smla-run uses it: where its libcuda is, what it is told, what it found. */
#ifndef SMLA_TOOLS_RUN_EMU_H
#define SMLA_TOOLS_RUN_EMU_H

#include <stdbool.h>
#include <stddef.h>

enum { RUN_EMU_PATH = 4096 };

/* What the command line says of the emulated device; NULL: its own default. */
struct run_emu_options {
    const char *schedule;
    const char *seed;
    const char *report;
};

/* Finds the emulated device's libcuda beside this program: in the build folder, or installed. */
bool run_emu_find(char path[RUN_EMU_PATH]);

/* Puts the options into this process's environment, where the emulated device reads them when it is opened. */
bool run_emu_configure(const struct run_emu_options *options);

/* Whether an opened driver is the emulated device. path: as it was opened. */
bool run_emu_is(const char *path);

/* Number of different findings so far; its report on standard error when there are some. 0 for other drivers. */
size_t run_emu_findings(const char *path);

/* The emulated device's last sentence about what it refused; "" when there is none. */
void run_emu_message(const char *path, char *message, size_t capacity);

#endif
