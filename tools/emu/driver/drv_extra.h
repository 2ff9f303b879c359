/* What the emulated device exports besides the driver interface. A library is the emulated device when it has
 * smla_emu_version. */
#ifndef EMU_DRV_EXTRA_H
#define EMU_DRV_EXTRA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)

/* Version of these functions: 1. */
int smla_emu_version(void);
/* The last logged sentence, cut to capacity; returns its length. */
size_t smla_emu_message(char *buffer, size_t capacity);
/* Different findings so far in this process. */
uint64_t smla_emu_finding_count(void);
/* Writes the report so far, as SMLA_EMU_REPORT would: text, or JSON when the path ends in ".json"; "-" is standard
 * error. False with errno. */
bool smla_emu_write_report(const char *path);

#pragma GCC visibility pop

#endif
