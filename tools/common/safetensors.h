/* safetensors files: 8 bytes of header length, a JSON header, the tensors' bytes.
 * (https://github.com/huggingface/safetensors, "Format"; every rule of that page is checked.) */
#ifndef SMLA_TOOLS_SAFETENSORS_H
#define SMLA_TOOLS_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ST_MAX_RANK = 8, ST_WHY = 512 };

enum st_dtype {
    ST_BOOL,
    ST_U8,
    ST_I8,
    ST_F8_E4M3,
    ST_F8_E5M2,
    ST_U16,
    ST_I16,
    ST_F16,
    ST_BF16,
    ST_U32,
    ST_I32,
    ST_F32,
    ST_U64,
    ST_I64,
    ST_F64,
    ST_DTYPE_COUNT
};

struct st_tensor {
    const char *name;
    enum st_dtype dtype;
    int32_t rank;
    int64_t shape[ST_MAX_RANK];
    const void *data; /* may be unaligned when read: copy before use */
    size_t size_bytes;
};

/* A metadata entry: both are text. */
struct st_pair {
    const char *key;
    const char *value;
};

/* A file in memory. Names, keys and values belong to `header`, data to `bytes`. */
struct st_file {
    struct st_tensor *tensors; /* in the order of their bytes */
    size_t tensor_count;
    struct st_pair *metadata;
    size_t metadata_count;
    void *header; /* json_t */
    uint8_t *bytes;
};

/* Parses a whole file's bytes (malloc'd; owned by the call, whatever it returns). False with a sentence in why[]:
 * *out is then empty. On true the caller frees with st_free. */
bool st_parse(uint8_t *bytes, size_t size_bytes, struct st_file *out, char why[ST_WHY]);

/* Reads and parses a file. As st_parse. */
bool st_read(const char *path, struct st_file *out, char why[ST_WHY]);

void st_free(struct st_file *file);

/* NULL when there is none. */
const struct st_tensor *st_find(const struct st_file *file, const char *name);
const char *st_metadata(const struct st_file *file, const char *key);

/* Writes a file atomically, tensors in the order given. False with a sentence in why[]. */
bool st_write(const char *path, const struct st_tensor *tensors, size_t tensor_count, const struct st_pair *metadata,
              size_t metadata_count, char why[ST_WHY]);

/* "BF16", …; bytes an element. */
const char *st_dtype_name(enum st_dtype dtype);
size_t st_dtype_bytes(enum st_dtype dtype);

#endif
