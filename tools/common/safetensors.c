#include "safetensors.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_file.h"

enum { LENGTH_BYTES = 8 };

static const struct {
    const char *name;
    size_t bytes;
} dtypes[ST_DTYPE_COUNT] = {
    [ST_BOOL] = {"BOOL", 1},       [ST_U8] = {"U8", 1},   [ST_I8] = {"I8", 1},   [ST_F8_E4M3] = {"F8_E4M3", 1},
    [ST_F8_E5M2] = {"F8_E5M2", 1}, [ST_U16] = {"U16", 2}, [ST_I16] = {"I16", 2}, [ST_F16] = {"F16", 2},
    [ST_BF16] = {"BF16", 2},       [ST_U32] = {"U32", 4}, [ST_I32] = {"I32", 4}, [ST_F32] = {"F32", 4},
    [ST_U64] = {"U64", 8},         [ST_I64] = {"I64", 8}, [ST_F64] = {"F64", 8},
};

const char *st_dtype_name(enum st_dtype dtype)
{
    return dtypes[dtype].name;
}

size_t st_dtype_bytes(enum st_dtype dtype)
{
    return dtypes[dtype].bytes;
}

__attribute__((format(printf, 2, 3))) static bool refuse(char why[ST_WHY], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, ST_WHY, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- Reading ---- */

static bool parse_dtype(const char *name, const json_t *value, enum st_dtype *out, char why[ST_WHY])
{
    if (!json_is_string(value))
        return refuse(why, "tensor '%s': dtype is missing or no string", name);
    for (int i = 0; i < ST_DTYPE_COUNT; i++) {
        if (strcmp(dtypes[i].name, json_string_value(value)) == 0) {
            *out = (enum st_dtype)i;
            return true;
        }
    }
    return refuse(why, "tensor '%s': unknown dtype '%s'", name, json_string_value(value));
}

/* Reads the shape and multiplies it out to bytes. */
static bool parse_shape(const json_t *shape, struct st_tensor *tensor, char why[ST_WHY])
{
    if (!json_is_array(shape) || json_array_size(shape) > ST_MAX_RANK)
        return refuse(why, "tensor '%s': shape is no array of at most %d sizes", tensor->name, ST_MAX_RANK);
    tensor->rank = (int32_t)json_array_size(shape);
    tensor->size_bytes = st_dtype_bytes(tensor->dtype);
    for (int32_t i = 0; i < tensor->rank; i++) {
        const json_t *size = json_array_get(shape, (size_t)i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return refuse(why, "tensor '%s': size %d of the shape is no natural number", tensor->name, i);
        tensor->shape[i] = json_integer_value(size);
        if (__builtin_mul_overflow(tensor->size_bytes, (size_t)tensor->shape[i], &tensor->size_bytes))
            return refuse(why, "tensor '%s': the shape overflows", tensor->name);
    }
    return true;
}

static bool parse_offsets(const json_t *offsets, const uint8_t *data, size_t data_bytes, struct st_tensor *tensor,
                          char why[ST_WHY])
{
    const json_t *first = json_array_get(offsets, 0);
    const json_t *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return refuse(why, "tensor '%s': data_offsets is no pair of integers", tensor->name);
    const json_int_t begin = json_integer_value(first);
    const json_int_t end = json_integer_value(last);
    if (begin < 0 || end < begin || (uint64_t)end > data_bytes)
        return refuse(why, "tensor '%s': data_offsets [%lld, %lld] lie outside the %zu bytes of data", tensor->name,
                      (long long)begin, (long long)end, data_bytes);
    if ((uint64_t)(end - begin) != tensor->size_bytes)
        return refuse(why, "tensor '%s': %lld bytes of data for a shape of %zu bytes", tensor->name,
                      (long long)(end - begin), tensor->size_bytes);
    tensor->data = data + begin;
    return true;
}

static bool parse_tensor(const char *name, const json_t *value, const uint8_t *data, size_t data_bytes,
                         struct st_tensor *tensor, char why[ST_WHY])
{
    *tensor = (struct st_tensor){.name = name};
    if (!json_is_object(value) || json_object_size(value) != 3)
        return refuse(why, "tensor '%s': not an object of dtype, shape and data_offsets", name);
    return parse_dtype(name, json_object_get(value, "dtype"), &tensor->dtype, why) &&
           parse_shape(json_object_get(value, "shape"), tensor, why) &&
           parse_offsets(json_object_get(value, "data_offsets"), data, data_bytes, tensor, why);
}

static bool parse_metadata(json_t *object, struct st_file *file, char why[ST_WHY])
{
    if (!json_is_object(object))
        return refuse(why, "__metadata__ is no object");
    file->metadata = calloc(json_object_size(object) + 1, sizeof *file->metadata);
    if (file->metadata == NULL)
        return refuse(why, "out of memory");
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (!json_is_string(value))
            return refuse(why, "__metadata__: '%s' is no string", key);
        file->metadata[file->metadata_count++] = (struct st_pair){key, json_string_value(value)};
    }
    return true;
}

static int by_place(const void *left, const void *right)
{
    const struct st_tensor *a = left;
    const struct st_tensor *b = right;
    if (a->data != b->data)
        return (const uint8_t *)a->data < (const uint8_t *)b->data ? -1 : 1;
    return a->size_bytes < b->size_bytes ? -1 : a->size_bytes > b->size_bytes;
}

/* The format allows neither overlaps nor holes. */
static bool check_cover(const struct st_file *file, const uint8_t *data, size_t data_bytes, char why[ST_WHY])
{
    const uint8_t *next = data;
    for (size_t i = 0; i < file->tensor_count; i++) {
        if (file->tensors[i].data != next)
            return refuse(why, "tensor '%s': its data overlap others or leave a hole before it", file->tensors[i].name);
        next += file->tensors[i].size_bytes;
    }
    return next == data + data_bytes ||
           refuse(why, "%zu bytes of data belong to no tensor", data_bytes - (size_t)(next - data));
}

static bool parse_header(struct st_file *file, const uint8_t *data, size_t data_bytes, char why[ST_WHY])
{
    file->tensors = calloc(json_object_size(file->header) + 1, sizeof *file->tensors);
    if (file->tensors == NULL)
        return refuse(why, "out of memory");
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)file->header, name, value)
    {
        if (strcmp(name, "__metadata__") == 0) {
            if (!parse_metadata(value, file, why))
                return false;
        } else if (!parse_tensor(name, value, data, data_bytes, &file->tensors[file->tensor_count++], why)) {
            return false;
        }
    }
    qsort(file->tensors, file->tensor_count, sizeof *file->tensors, by_place);
    return check_cover(file, data, data_bytes, why);
}

static bool load_header(const uint8_t *bytes, size_t size_bytes, uint64_t *header_bytes, void **header,
                        char why[ST_WHY])
{
    if (size_bytes < LENGTH_BYTES)
        return refuse(why, "%zu bytes are too few for a safetensors file", size_bytes);
    *header_bytes = 0;
    for (int i = 0; i < LENGTH_BYTES; i++)
        *header_bytes |= (uint64_t)bytes[i] << (8 * i);
    if (*header_bytes > size_bytes - LENGTH_BYTES)
        return refuse(why, "a header of %llu bytes does not fit into a file of %zu", (unsigned long long)*header_bytes,
                      size_bytes);
    if (*header_bytes == 0 || bytes[LENGTH_BYTES] != '{')
        return refuse(why, "the header does not begin with '{'");
    json_error_t error;
    *header = json_loadb((const char *)bytes + LENGTH_BYTES, (size_t)*header_bytes, JSON_REJECT_DUPLICATES, &error);
    return *header != NULL || refuse(why, "the header is no JSON object: %s (at byte %d)", error.text, error.position);
}

bool st_parse(uint8_t *bytes, size_t size_bytes, struct st_file *out, char why[ST_WHY])
{
    uint64_t header_bytes;
    *out = (struct st_file){.bytes = bytes};
    if (load_header(bytes, size_bytes, &header_bytes, &out->header, why)) {
        const size_t start = LENGTH_BYTES + (size_t)header_bytes;
        if (parse_header(out, bytes + start, size_bytes - start, why))
            return true;
    }
    st_free(out);
    return false;
}

bool st_read(const char *path, struct st_file *out, char why[ST_WHY])
{
    uint8_t *bytes;
    size_t size_bytes;
    *out = (struct st_file){0};
    return file_read(path, &bytes, &size_bytes, why) && st_parse(bytes, size_bytes, out, why);
}

void st_free(struct st_file *file)
{
    free(file->tensors);
    free(file->metadata);
    json_decref(file->header);
    free(file->bytes);
    *file = (struct st_file){0};
}

const struct st_tensor *st_find(const struct st_file *file, const char *name)
{
    for (size_t i = 0; i < file->tensor_count; i++)
        if (strcmp(file->tensors[i].name, name) == 0)
            return &file->tensors[i];
    return NULL;
}

const char *st_metadata(const struct st_file *file, const char *key)
{
    for (size_t i = 0; i < file->metadata_count; i++)
        if (strcmp(file->metadata[i].key, key) == 0)
            return file->metadata[i].value;
    return NULL;
}

/* ---- Writing ---- */

static json_t *tensor_row(const struct st_tensor *tensor, size_t begin)
{
    json_t *shape = json_array();
    for (int32_t i = 0; i < tensor->rank; i++)
        json_array_append_new(shape, json_integer(tensor->shape[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", st_dtype_name(tensor->dtype), "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)(begin + tensor->size_bytes));
}

/* The header as text, padded with spaces so that the data begin at a multiple of 8; malloc'd. */
static char *header_text(const struct st_tensor *tensors, size_t tensor_count, const struct st_pair *metadata,
                         size_t metadata_count, size_t *data_bytes)
{
    json_t *header = json_object();
    json_t *pairs = json_object();
    bool ok = header != NULL && pairs != NULL;
    for (size_t i = 0; ok && i < metadata_count; i++)
        ok = json_object_set_new(pairs, metadata[i].key, json_string(metadata[i].value)) == 0;
    if (ok && metadata_count > 0)
        ok = json_object_set(header, "__metadata__", pairs) == 0;
    *data_bytes = 0;
    for (size_t i = 0; ok && i < tensor_count; i++) {
        ok = json_object_set_new(header, tensors[i].name, tensor_row(&tensors[i], *data_bytes)) == 0;
        *data_bytes += tensors[i].size_bytes;
    }
    char *text = ok ? json_dumps(header, JSON_COMPACT) : NULL;
    json_decref(header);
    json_decref(pairs);
    if (text == NULL)
        return NULL;
    const size_t length = strlen(text);
    const size_t padded = (length + 7) / 8 * 8;
    char *result = realloc(text, padded + 1);
    if (result == NULL) {
        free(text);
        return NULL;
    }
    memset(result + length, ' ', padded - length);
    result[padded] = 0;
    return result;
}

static uint8_t *join(const char *header, const struct st_tensor *tensors, size_t tensor_count, size_t data_bytes,
                     size_t *size_bytes)
{
    const size_t header_bytes = strlen(header);
    uint8_t *bytes = malloc(LENGTH_BYTES + header_bytes + data_bytes);
    if (bytes == NULL)
        return NULL;
    for (int i = 0; i < LENGTH_BYTES; i++)
        bytes[i] = (uint8_t)((uint64_t)header_bytes >> (8 * i));
    memcpy(bytes + LENGTH_BYTES, header, header_bytes);
    uint8_t *next = bytes + LENGTH_BYTES + header_bytes;
    for (size_t i = 0; i < tensor_count; i++) {
        if (tensors[i].size_bytes > 0)
            memcpy(next, tensors[i].data, tensors[i].size_bytes);
        next += tensors[i].size_bytes;
    }
    *size_bytes = LENGTH_BYTES + header_bytes + data_bytes;
    return bytes;
}

bool st_write(const char *path, const struct st_tensor *tensors, size_t tensor_count, const struct st_pair *metadata,
              size_t metadata_count, char why[ST_WHY])
{
    size_t data_bytes;
    size_t size_bytes = 0;
    char *header = header_text(tensors, tensor_count, metadata, metadata_count, &data_bytes);
    uint8_t *bytes = header == NULL ? NULL : join(header, tensors, tensor_count, data_bytes, &size_bytes);
    const bool ok =
        bytes == NULL ? refuse(why, "out of memory, or a name is not UTF-8") : file_write(path, bytes, size_bytes, why);
    free(header);
    free(bytes);
    return ok;
}
