/* What the groups of probes share: a driver, a record, launches. */
#ifndef PROBES_H
#define PROBES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t device_pointer;

struct driver {
    int (*init)(unsigned);
    int (*device_get)(int *, int);
    int (*context_retain)(void **, int);
    int (*context_set)(void *);
    int (*module_load)(void **, const void *);
    int (*module_function)(void **, void *, const char *);
    int (*alloc)(device_pointer *, size_t);
    int (*free)(device_pointer);
    int (*set)(device_pointer, unsigned char, size_t);
    int (*to_device)(device_pointer, const void *, size_t);
    int (*to_host)(void *, device_pointer, size_t);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                  void **);
    int (*synchronize)(void);
    int (*encode)(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *, const uint32_t *,
                  int, int, int, int);
};

enum { OUT_BYTES = 1 << 20, WINDOW = 40 * 1024 };

extern struct driver cu;
extern device_pointer out, image; /* OUT_BYTES, and 128 KiB */
extern uint8_t host[OUT_BYTES];

/* Ends the program when a call that must succeed did not. */
void check(int result, const char *what);
/* A result: to the file, and its digest to standard output. */
void record(const char *name, const void *data, uint32_t size);
/* One block. A fault is a result too, "NAME faults ERROR", and ends the program, since it ends the context. */
void launch(const char *kernel, const char *name, unsigned threads, void **parameters);
/* A kernel (out, image, number, a, b) over an image of `size` bytes; records out_bytes. */
void run(const char *kernel, const char *name, unsigned threads, const void *bytes, uint32_t size, uint32_t number,
         uint64_t a, uint64_t b, uint32_t out_bytes);

/* ---- Groups ---- */

void matrix_probes(void);
void number_probes(void);
void absent_lane_probe(void);
void encoder_probe(void);
int box_count(void);
void load_probe(int number); /* of a box */
void store_probe(int number);
void hint_probe(void);
int reduction_count(void); /* the first is all those that the ISA allows, each other one that it does not */
void reduction_probe(int number);
int edge_count(void);
void edge_probe(int number);
void prefetch_probe(int number);
void bulk_reduction_probe(void);

#endif
