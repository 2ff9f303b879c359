#include "bench_shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { KEY_BYTES = 32, VALUE_BYTES = 512, DEFAULT_PAGE = 64 };

/* ---- One option ---- */

static int wrong(const char *where, const char *key, const char *value, const char *wanted)
{
    if (where == NULL)
        return cli_usage("--%s '%s' is no %s", key, value, wanted);
    return cli_fail(CLI_USAGE, "%s: %s '%s' is no %s", where, key, value, wanted);
}

static int set_lengths(struct bench_shape *shape, const char *key, const char *value, const char *where)
{
    char low[KEY_BYTES];
    const char *colon = strchr(value, ':');
    const size_t size = colon == NULL ? 0 : (size_t)(colon - value);
    if (size == 0 || size >= sizeof low)
        return wrong(where, key, value, "pair LOW:HIGH");
    memcpy(low, value, size);
    low[size] = 0;
    if (cli_int(low, 0, INT32_MAX, &shape->length_low) &&
        cli_int(colon + 1, shape->length_low > 0 ? shape->length_low : 1, INT32_MAX, &shape->length_high))
        return CLI_FINE;
    return wrong(where, key, value, "pair LOW:HIGH with 0 <= LOW <= HIGH and HIGH > 0");
}

/* Keeps a string that an array has room for. */
static int set_text(char *out, size_t size, const char *key, const char *value, const char *where)
{
    return (size_t)snprintf(out, size, "%s", value) < size ? CLI_FINE : wrong(where, key, value, "name that short");
}

static int set_indices(struct bench_shape *shape, const char *key, const char *value, const char *where)
{
    static const char *const names[] = {
        [BENCH_INDICES_UNIFORM] = "uniform", [BENCH_INDICES_DRIFT] = "drift", [BENCH_INDICES_WINDOW] = "window"};
    shape->indices_file[0] = 0;
    for (int i = 0; i < BENCH_INDICES_FILE; i++) {
        shape->indices = (enum bench_indices)i;
        if (strcmp(value, names[i]) == 0)
            return CLI_FINE;
    }
    shape->indices = BENCH_INDICES_FILE;
    return set_text(shape->indices_file, sizeof shape->indices_file, key, value, where);
}

static int64_t *number_of(struct bench_shape *shape, const char *key)
{
    if (strcmp(key, "s-q") == 0)
        return &shape->s_q;
    if (strcmp(key, "s-kv") == 0)
        return &shape->s_kv;
    if (strcmp(key, "topk") == 0)
        return &shape->topk;
    if (strcmp(key, "sm-limit") == 0)
        return &shape->sm_limit;
    return strcmp(key, "page") == 0 ? &shape->page : NULL;
}

/* What is there or not. */
static bool is_switch(const char *key)
{
    return strcmp(key, "sink") == 0 || strcmp(key, "not_persistent") == 0;
}

static bool *switch_of(struct bench_shape *shape, const char *key)
{
    return key[0] == 's' ? &shape->sink : &shape->not_persistent;
}

int bench_shape_set(struct bench_shape *shape, const char *key, const char *value, const char *where)
{
    int64_t size = 0, *number = number_of(shape, key);
    if (number != NULL)
        return cli_int(value, number == &shape->page || number == &shape->sm_limit ? 0 : 1, INT32_MAX, number)
                   ? CLI_FINE
                   : wrong(where, key, value, "positive number");
    if (strcmp(key, "h-q") == 0 || strcmp(key, "d-qk") == 0) {
        if (!cli_int(value, 1, INT32_MAX, &size))
            return wrong(where, key, value, "positive number");
        *(key[0] == 'h' ? &shape->h_q : &shape->d_qk) = (int32_t)size;
        return CLI_FINE;
    }
    if (strcmp(key, "lengths") == 0)
        return set_lengths(shape, key, value, where);
    if (strcmp(key, "indices") == 0)
        return set_indices(shape, key, value, where);
    if (strcmp(key, "kv-format") == 0)
        return set_text(shape->kv_format, sizeof shape->kv_format, key, strcmp(value, "bf16") == 0 ? "" : value, where);
    if (is_switch(key)) {
        *switch_of(shape, key) = true;
        return CLI_FINE;
    }
    return cli_fail(CLI_USAGE, "%s: '%s' is no key of a shape", where == NULL ? "shape" : where, key);
}

int bench_shape_check(struct bench_shape *shape, smla_kv_layout *layout, const char *where)
{
    const char *begin = where == NULL ? "" : where, *separator = where == NULL ? "" : ": ";
    smla_error_info info = {.struct_size = sizeof info};
    *layout = (smla_kv_layout){.struct_size = sizeof *layout};
    if (shape->length_high > shape->topk)
        return cli_fail(CLI_USAGE, "%s%slengths up to %lld do not fit lists of %lld", begin, separator,
                        (long long)shape->length_high, (long long)shape->topk);
    if (smla_kv_layout_preset(shape->kv_format[0] == 0 ? "bf16" : shape->kv_format, shape->d_qk, layout) != SMLA_OK) {
        smla_last_error(&info);
        return cli_fail(CLI_USAGE, "%s%s%s", begin, separator, info.message);
    }
    if (layout->place == SMLA_PLACE_PAGE && shape->page == 0)
        shape->page = DEFAULT_PAGE;
    return CLI_FINE;
}

/* ---- Files of them ---- */

/* What an option would have said; a pair stands for lengths. False: no such value. */
static bool value_text(const json_t *value, char text[VALUE_BYTES])
{
    json_int_t low, high;
    if (json_is_array(value) && json_unpack((json_t *)(uintptr_t)value, "[I, I!]", &low, &high) == 0)
        return snprintf(text, VALUE_BYTES, "%lld:%lld", (long long)low, (long long)high) > 0;
    if (json_is_integer(value))
        return snprintf(text, VALUE_BYTES, "%lld", (long long)json_integer_value(value)) > 0;
    if (json_is_string(value))
        return snprintf(text, VALUE_BYTES, "%s", json_string_value(value)) < VALUE_BYTES;
    return false;
}

static int set_key(struct bench_shape *shape, const char *key, const json_t *value, const char *where)
{
    char name[KEY_BYTES], text[VALUE_BYTES];
    if (json_is_null(value)) /* as in our own results */
        return CLI_FINE;
    if (is_switch(key) && json_is_boolean(value)) {
        *switch_of(shape, key) = json_is_true(value);
        return CLI_FINE;
    }
    snprintf(name, sizeof name, "%s", key);
    for (char *c = name; *c != 0; c++)
        *c = *c == '_' ? '-' : *c;
    if (is_switch(name) || !value_text(value, text))
        return cli_fail(CLI_USAGE, "%s: '%s' has a value of the wrong type", where, key);
    return bench_shape_set(shape, name, text, where);
}

int bench_shape_read(const json_t *object, struct bench_shape *shape, const char *where)
{
    const char *key;
    json_t *value;
    smla_kv_layout layout;
    *shape = bench_default_shape;
    if (!json_is_object(object))
        return cli_fail(CLI_USAGE, "%s is no object", where);
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        const int code = set_key(shape, key, value, where);
        if (code != CLI_FINE)
            return code;
    }
    return bench_shape_check(shape, &layout, where);
}

int bench_shapes_read(const char *path, struct bench_shape **shapes, size_t *count)
{
    json_error_t error;
    char where[VALUE_BYTES];
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    int code = CLI_FINE;
    if (root == NULL)
        return cli_fail(CLI_USAGE, "%s: %s (line %d)", path, error.text, error.line);
    *count = json_array_size(root);
    *shapes = calloc(*count + 1, sizeof **shapes);
    if (*shapes == NULL)
        code = cli_fail(CLI_CHECK_FAILED, "out of memory");
    else if (*count == 0)
        code = cli_fail(CLI_USAGE, "%s: it must be an array of one shape or more", path);
    for (size_t i = 0; i < *count && code == CLI_FINE; i++) {
        snprintf(where, sizeof where, "%s: shape %zu", path, i);
        code = bench_shape_read(json_array_get(root, i), &(*shapes)[i], where);
    }
    json_decref(root);
    if (code != CLI_FINE)
        free(*shapes);
    return code;
}

/* ---- What it is ---- */

static const char *indices_name(const struct bench_shape *shape)
{
    static const char *const names[] = {"uniform", "drift", "window"};
    return shape->indices == BENCH_INDICES_FILE ? shape->indices_file : names[shape->indices];
}

void bench_shape_text(const struct bench_shape *shape, char text[160])
{
    char lengths[48] = "", page[32] = "", limit[32] = "";
    if (shape->length_high != 0)
        snprintf(lengths, sizeof lengths, " lengths %lld:%lld", (long long)shape->length_low,
                 (long long)shape->length_high);
    if (shape->page != 0)
        snprintf(page, sizeof page, " page %lld", (long long)shape->page);
    if (shape->sm_limit != 0)
        snprintf(limit, sizeof limit, " sm_limit %lld", (long long)shape->sm_limit);
    snprintf(text, 160, "h %d d %d topk %lld s_q %lld s_kv %lld%s%s%s %s%s%s%s%s", shape->h_q, shape->d_qk,
             (long long)shape->topk, (long long)shape->s_q, (long long)shape->s_kv, shape->kv_format[0] == 0 ? "" : " ",
             shape->kv_format[0] == 0 ? "" : shape->kv_format, page, indices_name(shape), lengths,
             shape->sink ? "" : " no sink", shape->not_persistent ? " not persistent" : "", limit);
}

json_t *bench_shape_json(const struct bench_shape *shape)
{
    json_t *lengths = shape->length_high == 0
                          ? json_null()
                          : json_pack("[I, I]", (json_int_t)shape->length_low, (json_int_t)shape->length_high);
    return json_pack("{s:i, s:i, s:I, s:I, s:I, s:s, s:I, s:o, s:b, s:b, s:I, s:s}", "h_q", shape->h_q, "d_qk",
                     shape->d_qk, "topk", (json_int_t)shape->topk, "s_q", (json_int_t)shape->s_q, "s_kv",
                     (json_int_t)shape->s_kv, "kv_format", shape->kv_format[0] == 0 ? "bf16" : shape->kv_format, "page",
                     (json_int_t)shape->page, "lengths", lengths, "sink", shape->sink, "not_persistent",
                     shape->not_persistent, "sm_limit", (json_int_t)shape->sm_limit, "indices", indices_name(shape));
}
