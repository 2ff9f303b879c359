#include "shapes.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_file.h"

static const struct {
    const char *name;
    uint32_t op;
    bool has_keys; /* d_qk and the formats describe it */
} ops[] = {
    {"prefill", SMLA_OP_PREFILL, true},
    {"prefill_reference", SMLA_OP_PREFILL_REFERENCE, true},
    {"combine", SMLA_OP_COMBINE, false},
    {"decode", SMLA_OP_DECODE, true},
};

static const size_t op_count = sizeof ops / sizeof ops[0];

static const char *op_name(uint32_t op)
{
    for (size_t i = 0; i < op_count; i++)
        if (ops[i].op == op)
            return ops[i].name;
    return "none";
}

static bool has_keys(uint32_t op)
{
    for (size_t i = 0; i < op_count; i++)
        if (ops[i].op == op)
            return ops[i].has_keys;
    return true;
}

static int set_op(const char *name, uint32_t *op)
{
    for (size_t i = 0; i < op_count; i++) {
        if (strcmp(name, ops[i].name) == 0) {
            *op = ops[i].op;
            return CLI_FINE;
        }
    }
    return cli_fail(CLI_USAGE, "op '%s' is unknown: prefill, decode, combine and prefill_reference are there", name);
}

/* What cannot be left out. */
static bool is_whole(const struct shape *shape)
{
    return shape->op != 0 && shape->h_q != 0 && (shape->d_qk != 0 || !has_keys(shape->op));
}

static int set_format(const char *name, char out[32])
{
    if (strlen(name) >= 32)
        return cli_fail(CLI_USAGE, "'%s' is too long for a KV format's name", name);
    memcpy(out, name, strlen(name) + 1);
    return CLI_FINE;
}

static int set_size(const char *option, const char *text, int32_t *out)
{
    int64_t value;
    if (!cli_int(text, 1, INT32_MAX, &value))
        return cli_usage("%s '%s' is no positive number", option, text);
    *out = (int32_t)value;
    return CLI_FINE;
}

int shapes_option(struct shapes_options *options, int option, const char *value)
{
    struct shape *shape = &options->shape;
    options->has_shape |= option != CLI_OPTION_SM && option != CLI_OPTION_FROM;
    switch (option) {
    case CLI_OPTION_SM:
        options->sm = value;
        return CLI_FINE;
    case CLI_OPTION_FROM:
        if (options->from_count == SHAPES_FILES)
            return cli_usage("--from '%s' is one file too many: %d are read", value, SHAPES_FILES);
        options->from[options->from_count++] = value;
        return CLI_FINE;
    case CLI_OPTION_OP:
        return set_op(value, &shape->op);
    case CLI_OPTION_H_Q:
        return set_size("--h-q", value, &shape->h_q);
    case CLI_OPTION_D_QK:
        return set_size("--d-qk", value, &shape->d_qk);
    case CLI_OPTION_D_V:
        return set_size("--d-v", value, &shape->d_v);
    case CLI_OPTION_KV_FORMAT:
        return set_format(value, shape->kv_format);
    case CLI_OPTION_EXTRA_KV_FORMAT:
        return set_format(value, shape->extra_kv_format);
    case CLI_OPTION_BATCH_INVARIANT:
        shape->batch_invariant = 1;
        return CLI_FINE;
    case CLI_OPTION_CHECKED:
        shape->flags |= SMLA_KERNEL_CHECKED;
        return CLI_FINE;
    case CLI_OPTION_NOT_PERSISTENT:
        shape->flags |= SMLA_KERNEL_NOT_PERSISTENT;
        return CLI_FINE;
    case CLI_OPTION_LINE_INFO:
        shape->flags |= SMLA_KERNEL_LINE_INFO;
        return CLI_FINE;
    default:
        return cli_usage_getopt();
    }
}

/* ---- shapes.json ---- */

/* Where in the file: for sentences. */
struct place {
    const char *path;
    size_t index;
};

static int wrong_type(const struct place *place, const char *key, const char *wanted)
{
    return cli_fail(CLI_USAGE, "%s: description %zu: '%s' is no %s", place->path, place->index, key, wanted);
}

static int read_int(const struct place *place, const char *key, const json_t *value, int32_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > INT32_MAX)
        return wrong_type(place, key, "positive integer");
    *out = (int32_t)json_integer_value(value);
    return CLI_FINE;
}

/* Names, so that a file says what it wants. */
static int read_flags(const struct place *place, const char *key, const json_t *value, uint32_t *out)
{
    size_t i;
    json_t *name;
    if (!json_is_array(value))
        return wrong_type(place, key, "array of names");
    json_array_foreach(value, i, name)
    {
        const char *flag = json_is_string(name) ? json_string_value(name) : "";
        if (strcmp(flag, "checked") == 0)
            *out |= SMLA_KERNEL_CHECKED;
        else if (strcmp(flag, "not_persistent") == 0)
            *out |= SMLA_KERNEL_NOT_PERSISTENT;
        else if (strcmp(flag, "line_info") == 0)
            *out |= SMLA_KERNEL_LINE_INFO;
        else
            return cli_fail(CLI_USAGE,
                            "%s: description %zu: 'flags' has an entry that is no flag (\"checked\", "
                            "\"not_persistent\", \"line_info\")",
                            place->path, place->index);
    }
    return CLI_FINE;
}

/* null stands for a format that is not given. */
static int read_format(const struct place *place, const char *key, const json_t *value, char out[32])
{
    if (json_is_null(value))
        return CLI_FINE;
    if (!json_is_string(value))
        return wrong_type(place, key, "string");
    return set_format(json_string_value(value), out);
}

/* A key of a layout: a word that stands for a number, or a number that may be 0. */
struct word {
    const char *text;
    uint32_t value;
};

static const struct word value_types[] = {
    {"bf16", SMLA_VALUE_BF16}, {"e4m3", SMLA_VALUE_E4M3}, {"e2m1", SMLA_VALUE_E2M1}, {NULL, 0}};
static const struct word scale_types[] = {{"none", SMLA_SCALE_NONE},
                                          {"fp32", SMLA_SCALE_FP32},
                                          {"ue8m0", SMLA_SCALE_UE8M0},
                                          {"e4m3", SMLA_SCALE_E4M3},
                                          {NULL, 0}};
static const struct word places[] = {{"token", SMLA_PLACE_TOKEN}, {"page", SMLA_PLACE_PAGE}, {NULL, 0}};

static int read_word(const struct place *place, const char *key, const json_t *value, const struct word *words,
                     uint32_t *out)
{
    char known[64] = "";
    for (size_t i = 0, used = 0; words[i].text; i++) {
        if (json_is_string(value) && strcmp(json_string_value(value), words[i].text) == 0) {
            *out = words[i].value;
            return CLI_FINE;
        }
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", words[i].text);
    }
    return cli_fail(CLI_USAGE, "%s: description %zu: '%s' is none of %s", place->path, place->index, key, known);
}

static int read_count(const struct place *place, const char *key, const json_t *value, int32_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > INT32_MAX)
        return wrong_type(place, key, "integer from 0");
    *out = (int32_t)json_integer_value(value);
    return CLI_FINE;
}

static int read_layout_key(const struct place *place, const char *key, const json_t *value, smla_kv_layout *layout)
{
    if (strcmp(key, "value_type") == 0)
        return read_word(place, key, value, value_types, &layout->value_type);
    if (strcmp(key, "scale_type") == 0)
        return read_word(place, key, value, scale_types, &layout->scale_type);
    if (strcmp(key, "place") == 0)
        return read_word(place, key, value, places, &layout->place);
    if (strcmp(key, "value_elems") == 0)
        return read_count(place, key, value, &layout->value_elems);
    if (strcmp(key, "scale_group") == 0)
        return read_count(place, key, value, &layout->scale_group);
    if (strcmp(key, "scale_bytes") == 0)
        return read_count(place, key, value, &layout->scale_bytes);
    if (strcmp(key, "tail_elems") == 0)
        return read_count(place, key, value, &layout->tail_elems);
    return cli_fail(CLI_USAGE,
                    "%s: description %zu: unknown key '%s' in a layout (value_type, value_elems, scale_type, "
                    "scale_group, scale_bytes, tail_elems, place are known)",
                    place->path, place->index, key);
}

/* What the numbers say is the library's to judge; null stands for a layout that is not given. */
static int read_layout(const struct place *place, const char *name, json_t *object, smla_kv_layout *layout)
{
    if (json_is_null(object))
        return CLI_FINE;
    if (!json_is_object(object))
        return wrong_type(place, name, "object");
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        const int code = read_layout_key(place, key, value, layout);
        if (code != CLI_FINE)
            return code;
    }
    if (layout->value_type == 0 || layout->value_elems == 0 || layout->place == 0)
        return cli_fail(CLI_USAGE, "%s: description %zu: '%s' lacks value_type, value_elems or place", place->path,
                        place->index, name);
    layout->struct_size = sizeof *layout;
    return CLI_FINE;
}

static int read_flag(const struct place *place, const char *key, const json_t *value, uint32_t *out)
{
    const bool number = json_is_integer(value) && (json_integer_value(value) | 1) == 1;
    if (!json_is_boolean(value) && !number)
        return wrong_type(place, key, "boolean");
    *out = json_is_true(value) || (number && json_integer_value(value) == 1);
    return CLI_FINE;
}

static int read_key(const struct place *place, const char *key, json_t *value, struct shape *shape)
{
    if (strcmp(key, "op") == 0)
        return json_is_string(value) ? set_op(json_string_value(value), &shape->op) : wrong_type(place, key, "string");
    if (strcmp(key, "flags") == 0)
        return read_flags(place, key, value, &shape->flags);
    if (strcmp(key, "h_q") == 0)
        return read_int(place, key, value, &shape->h_q);
    if (strcmp(key, "d_qk") == 0)
        return read_int(place, key, value, &shape->d_qk);
    if (strcmp(key, "d_v") == 0)
        return read_int(place, key, value, &shape->d_v);
    if (strcmp(key, "kv_format") == 0)
        return read_format(place, key, value, shape->kv_format);
    if (strcmp(key, "extra_kv_format") == 0)
        return read_format(place, key, value, shape->extra_kv_format);
    if (strcmp(key, "kv_layout") == 0)
        return read_layout(place, key, value, &shape->kv_layout);
    if (strcmp(key, "extra_kv_layout") == 0)
        return read_layout(place, key, value, &shape->extra_kv_layout);
    if (strcmp(key, "batch_invariant") == 0)
        return read_flag(place, key, value, &shape->batch_invariant);
    return cli_fail(CLI_USAGE,
                    "%s: description %zu: unknown key '%s' (op, h_q, d_qk, d_v, kv_format, extra_kv_format, "
                    "kv_layout, extra_kv_layout, batch_invariant, flags are known)",
                    place->path, place->index, key);
}

static int read_shape(const struct place *place, json_t *object, struct shape *shape)
{
    if (!json_is_object(object))
        return cli_fail(CLI_USAGE, "%s: description %zu is no object", place->path, place->index);
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        const int code = read_key(place, key, value, shape);
        if (code != CLI_FINE)
            return code;
    }
    if (!is_whole(shape))
        return cli_fail(CLI_USAGE, "%s: description %zu lacks op, h_q or d_qk", place->path, place->index);
    return CLI_FINE;
}

static int read_array(const char *path, const json_t *array, struct shape **shapes, size_t *count)
{
    const size_t more = json_array_size(array); /* 0: no array */
    if (more == 0)
        return cli_fail(CLI_USAGE, "%s: not an array of at least one description", path);
    struct shape *grown = realloc(*shapes, (*count + more) * sizeof **shapes);
    if (grown == NULL)
        return cli_fail(CLI_CHECK_FAILED, "out of memory");
    *shapes = grown;
    for (size_t i = 0; i < more; i++) {
        const struct place place = {path, i};
        struct shape *shape = &grown[(*count)++];
        *shape = (struct shape){0};
        const int code = read_shape(&place, json_array_get(array, i), shape);
        if (code != CLI_FINE)
            return code;
    }
    return CLI_FINE;
}

int shapes_read(const char *path, const uint8_t *bytes, size_t size_bytes, struct shape **shapes, size_t *count)
{
    json_error_t error;
    json_t *array = json_loadb((const char *)bytes, size_bytes, JSON_REJECT_DUPLICATES, &error);
    if (array == NULL)
        return cli_fail(CLI_USAGE, "%s: line %d: %s", path, error.line, error.text);
    const int code = read_array(path, array, shapes, count);
    json_decref(array);
    return code;
}

static int read_file(const char *path, struct shape **shapes, size_t *count)
{
    char why[FILE_WHY];
    uint8_t *bytes;
    size_t size_bytes;
    if (!file_read(path, &bytes, &size_bytes, why))
        return cli_fail(CLI_USAGE, "%s", why);
    const int code = shapes_read(path, bytes, size_bytes, shapes, count);
    free(bytes);
    return code;
}

static int read_files(const struct shapes_options *options, struct shape **shapes, size_t *count)
{
    int code = CLI_FINE;
    *shapes = NULL;
    *count = 0;
    for (size_t i = 0; i < options->from_count && code == CLI_FINE; i++)
        code = read_file(options->from[i], shapes, count);
    if (code != CLI_FINE)
        free(*shapes);
    return code;
}

static int read_options(const struct shapes_options *options, struct shape **shapes, size_t *count)
{
    if (options->from_count > 0 && options->has_shape)
        return cli_usage("--from and the options of a single description exclude each other");
    if (options->from_count > 0)
        return read_files(options, shapes, count);
    if (!is_whole(&options->shape))
        return cli_usage("a description needs --op, --h-q and --d-qk, or --from FILE");
    *count = 1;
    *shapes = malloc(sizeof **shapes);
    if (*shapes == NULL)
        return cli_fail(CLI_CHECK_FAILED, "out of memory");
    **shapes = options->shape;
    return CLI_FINE;
}

/* ---- Targets ---- */

static int next_target(const char **list, char target[16])
{
    const size_t length = strcspn(*list, ",");
    if (length == 0 || length >= 16)
        return cli_usage("--sm '%s': a target is missing or too long", *list);
    memcpy(target, *list, length);
    target[length] = 0;
    *list += length;
    if (**list == ',')
        ++*list;
    else
        *list = NULL;
    return CLI_FINE;
}

static int cross(const char *targets, const struct shape *shapes, size_t shape_count, struct shapes_job **jobs,
                 size_t *count)
{
    for (*jobs = NULL, *count = 0; targets != NULL;) {
        char target[16];
        const int code = next_target(&targets, target);
        struct shapes_job *grown = code != CLI_FINE ? NULL : realloc(*jobs, (*count + shape_count) * sizeof **jobs);
        if (grown == NULL) {
            free(*jobs);
            return code != CLI_FINE ? code : cli_fail(CLI_CHECK_FAILED, "out of memory");
        }
        *jobs = grown;
        for (size_t i = 0; i < shape_count; i++) {
            struct shapes_job *job = &grown[(*count)++];
            job->shape = shapes[i];
            memcpy(job->target, target, sizeof target);
        }
    }
    return CLI_FINE;
}

int shapes_jobs(const struct shapes_options *options, struct shapes_job **jobs, size_t *count)
{
    struct shape *shapes;
    size_t shape_count;
    if (options->sm == NULL)
        return cli_usage("--sm LIST is missing");
    int code = read_options(options, &shapes, &shape_count);
    if (code != CLI_FINE)
        return code;
    code = cross(options->sm, shapes, shape_count, jobs, count);
    free(shapes);
    return code;
}

static const char *or_null(const char *text)
{
    return text[0] == 0 ? NULL : text;
}

static const smla_kv_layout *layout_or_null(const smla_kv_layout *layout)
{
    return layout->struct_size == 0 ? NULL : layout;
}

void shapes_desc(const struct shapes_job *job, smla_kernel_desc *desc)
{
    *desc = (smla_kernel_desc){.struct_size = sizeof *desc,
                               .op = job->shape.op,
                               .h_q = job->shape.h_q,
                               .d_qk = job->shape.d_qk,
                               .d_v = job->shape.d_v,
                               .batch_invariant = job->shape.batch_invariant,
                               .flags = job->shape.flags,
                               .kv_format = or_null(job->shape.kv_format),
                               .extra_kv_format = or_null(job->shape.extra_kv_format),
                               .target = or_null(job->target),
                               .kv_layout = layout_or_null(&job->shape.kv_layout),
                               .extra_kv_layout = layout_or_null(&job->shape.extra_kv_layout)};
}

/* none: what stands for a format that is not given. */
static const char *format_text(const char *name, const smla_kv_layout *layout, const char *none)
{
    if (layout->struct_size != 0)
        return "custom";
    return name[0] == 0 ? none : name;
}

void shapes_text(const struct shapes_job *job, char text[160])
{
    const struct shape *shape = &job->shape;
    const char *extra = format_text(shape->extra_kv_format, &shape->extra_kv_layout, "");
    if (!has_keys(shape->op)) {
        snprintf(text, 160, "%s %s h_q %d d_v %d%s", job->target, op_name(shape->op), shape->h_q,
                 shape->d_v == 0 ? 512 : shape->d_v, shape->flags & SMLA_KERNEL_LINE_INFO ? " line_info" : "");
        return;
    }
    snprintf(text, 160, "%s %s h_q %d d_qk %d d_v %d %s%s%s%s%s%s%s", job->target, op_name(shape->op), shape->h_q,
             shape->d_qk, shape->d_v == 0 ? 512 : shape->d_v, format_text(shape->kv_format, &shape->kv_layout, "bf16"),
             extra[0] == 0 ? "" : " + ", extra, shape->batch_invariant ? " batch-invariant" : "",
             shape->flags & SMLA_KERNEL_CHECKED ? " checked" : "",
             shape->flags & SMLA_KERNEL_NOT_PERSISTENT ? " not_persistent" : "",
             shape->flags & SMLA_KERNEL_LINE_INFO ? " line_info" : "");
}
