/* A small user of the CUDA driver for tools and tests: memory, streams, events, graphs. libcuda comes by dlopen. */
#ifndef SMLA_TOOLS_CUDA_DEVICE_H
#define SMLA_TOOLS_CUDA_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DEVICE_WHY = 512 };

enum device_status {
    DEVICE_OK,
    DEVICE_UNAVAILABLE, /* no driver, no device, or a driver that lacks a function */
    DEVICE_FAULT        /* a driver call failed */
};

/* One device's primary context, current on the thread that opened it. */
struct device;

/* Opens the driver and the device's primary context.
 * driver_path: NULL means SMLA_DRIVER, else libcuda.so.1. A sentence in why[] unless DEVICE_OK. */
enum device_status device_open(const char *driver_path, int32_t ordinal, struct device **out, char why[DEVICE_WHY]);
void device_close(struct device *device);

const char *device_name(const struct device *device);
/* Compute capability: 90 for 9.0. */
int32_t device_capability(const struct device *device);

/* Whether it is the emulated device (docs/emulator.md), which has no speed. */
bool device_is_emulated(const struct device *device);

/* One of the driver's attributes, CU_DEVICE_ATTRIBUTE_… */
enum {
    DEVICE_ATTRIBUTE_CLOCK_KHZ = 13,
    DEVICE_ATTRIBUTE_SM_COUNT = 16,
    DEVICE_ATTRIBUTE_MEMORY_CLOCK_KHZ = 36,
    DEVICE_ATTRIBUTE_MEMORY_BUS_BITS = 37,
    DEVICE_ATTRIBUTE_L2_BYTES = 38
};
bool device_attribute(struct device *device, int attribute, int *out);

/* The driver's version: 1000 * major + 10 * minor of the CUDA that it is for. */
bool device_driver_version(struct device *device, int *out);
/* "0000:1b:00.0" */
bool device_pci_bus_id(struct device *device, char *text, int capacity);

/* Makes the context current to the calling thread (threads other than the opener's). */
bool device_make_current(struct device *device);

/* The functions below return false after a failed driver call; device_why() then tells the last one. */
const char *device_why(const struct device *device);

/* Device memory; addresses are device pointers. */
bool device_alloc(struct device *device, size_t size_bytes, void **out);
bool device_free(struct device *device, void *memory);
bool device_upload(struct device *device, void *memory, const void *host, size_t size_bytes);
bool device_download(struct device *device, void *host, const void *memory, size_t size_bytes);
bool device_fill(struct device *device, void *memory, uint8_t byte, size_t size_bytes);
/* From device memory to device memory; may still run when it returns. */
bool device_copy(struct device *device, void *to, const void *from, size_t size_bytes);
bool device_memory_info(struct device *device, size_t *free_bytes, size_t *total_bytes);
bool device_synchronize(struct device *device);

/* Handles are the driver's own: CUstream, CUevent, CUgraphExec. */
bool device_stream_create(struct device *device, bool non_blocking, void **out);
bool device_stream_destroy(struct device *device, void *stream);
bool device_stream_synchronize(struct device *device, void *stream);

bool device_event_create(struct device *device, void **out);
bool device_event_destroy(struct device *device, void *event);
bool device_event_record(struct device *device, void *event, void *stream);
/* Waits for `end`. */
bool device_event_elapsed_ms(struct device *device, void *begin, void *end, float *out);

/* Captures what is enqueued between begin and end (relaxed mode) into an executable graph. */
bool device_capture_begin(struct device *device, void *stream);
bool device_capture_end(struct device *device, void *stream, void **graph);
bool device_graph_launch(struct device *device, void *graph, void *stream);
bool device_graph_destroy(struct device *device, void *graph);

/* Code of one's own: a cubin or PTX with a NUL at its end; CUmodule, CUfunction. */
bool device_module_load(struct device *device, const void *image, void **module);
bool device_module_unload(struct device *device, void *module);
/* shared_bytes: dynamic shared memory that launches may ask for. */
bool device_module_function(struct device *device, void *module, const char *name, int32_t shared_bytes,
                            void **function);
bool device_launch(struct device *device, void *function, int32_t blocks, int32_t threads, int32_t shared_bytes,
                   void *stream, void **parameters);
/* Without dynamic shared memory, and so that it may start before the launch ahead of it in the stream has ended: the
 * kernel executes griddepcontrol.wait. */
bool device_launch_dependent(struct device *device, void *function, int32_t blocks, int32_t threads, void *stream,
                             void **parameters);

#endif
