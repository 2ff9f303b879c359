/* Clocks and power from NVIDIA's management library, where it is there. */
#ifndef SMLA_TOOLS_BENCH_NVML_H
#define SMLA_TOOLS_BENCH_NVML_H

#include <stdbool.h>

#include "cuda_device.h"

enum { BENCH_NVML_TEXT = 80 };

struct bench_nvml;

/* Opens libnvidia-ml.so.1 and finds the device in it. NULL when there is none. */
struct bench_nvml *bench_nvml_open(struct device *device);
void bench_nvml_close(struct bench_nvml *nvml);

/* Reads the SM clock and the power. On Hopper the power is a mean of about the last second. nvml may be NULL. False
 * when nothing was read. */
bool bench_nvml_read(const struct bench_nvml *nvml, double *mhz, double *watts);

/* What the driver calls itself, "580.159.04", and whether the card is split (MIG). nvml may be NULL. False when it does
 * not say. */
bool bench_nvml_driver(const struct bench_nvml *nvml, char text[BENCH_NVML_TEXT]);
bool bench_nvml_mig(const struct bench_nvml *nvml, bool *on);

#endif
