/* warm.json, the file in a cache folder that says which kernels were all there when smla-cache warm ended
 * (docs/cache-format.md). */
#ifndef SMLA_TOOLS_CACHE_MARKER_H
#define SMLA_TOOLS_CACHE_MARKER_H

#include <jansson.h>

#include "shapes.h"

#define CACHE_MARKER_NAME "warm.json"

/* What the marker says of these kernels, all but the compilers. targets, kernel_ids: arrays of strings, whose order
 * does not matter; they stay the caller's. NULL after a sentence. */
json_t *cache_marker_make(const struct shapes_options *shapes, const json_t *targets, const json_t *kernel_ids);

/* Adds the compilers of the entries: an array of "13.0". False when there is no memory. */
bool cache_marker_add_compilers(json_t *marker, const json_t *versions);

/* Whether the folder's marker says this. One of cache_marker_make is compared without the compilers. */
bool cache_marker_is(const char *folder, const json_t *marker);

/* Removes the folder's marker, if there is one. Returns CLI_FINE, or another code after a sentence. */
int cache_marker_remove(const char *folder);

/* Writes it, unless the folder's marker says this already; nobody sees half of it. Returns CLI_FINE, or another code
 * after a sentence. */
int cache_marker_write(const char *folder, const json_t *marker);

#endif
