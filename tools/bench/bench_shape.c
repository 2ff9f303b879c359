#include "bench_shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define ONE_LONG "one-long:"

enum { KEY_BYTES = 32, VALUE_BYTES = 512, DEFAULT_PAGE = 64 };

/* ---- One option ---- */

static int wrong(const char *where, const char *key, const char *value, const char *wanted)
{
    if (where == NULL)
        return cli_usage("--%s '%s' is no %s", key, value, wanted);
    return cli_fail(CLI_USAGE, "%s: %s '%s' is no %s", where, key, value, wanted);
}

static int set_range(struct bench_shape *shape, const char *key, const char *value, const char *where)
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

static int set_lengths(struct bench_shape *shape, const char *key, const char *value, const char *where)
{
    shape->one_long = shape->op == SMLA_OP_DECODE && strncmp(value, ONE_LONG, strlen(ONE_LONG)) == 0;
    if (!shape->one_long)
        return set_range(shape, key, value, where);
    if (!cli_int(value + strlen(ONE_LONG), 1, INT32_MAX, &shape->length_high))
        return wrong(where, key, value, "one-long:N with N > 0");
    shape->length_low = shape->length_high;
    return CLI_FINE;
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

/* ---- Keys ---- */

enum kind { NUMBER, SIZE, NAME, EXTRA_NAME, SWITCH, LENGTHS, INDICES };
enum { PREFILL = 1, DECODE = 2, BOTH = PREFILL | DECODE };

static const struct key {
    const char *name; /* the option's */
    int ops;
    enum kind kind;
    size_t offset;
    int64_t least;
} keys[] = {
    {"b", DECODE, NUMBER, offsetof(struct bench_shape, b), 1},
    {"s-q", BOTH, NUMBER, offsetof(struct bench_shape, s_q), 1},
    {"h-q", BOTH, SIZE, offsetof(struct bench_shape, h_q), 1},
    {"d-qk", BOTH, SIZE, offsetof(struct bench_shape, d_qk), 1},
    {"kv-format", BOTH, NAME, offsetof(struct bench_shape, kv_format), 0},
    {"extra-kv-format", DECODE, EXTRA_NAME, offsetof(struct bench_shape, extra_kv_format), 0},
    {"topk", BOTH, NUMBER, offsetof(struct bench_shape, topk), 1},
    {"extra-topk", DECODE, NUMBER, offsetof(struct bench_shape, extra_topk), 0},
    {"s-kv", BOTH, NUMBER, offsetof(struct bench_shape, s_kv), 1},
    {"extra-s-kv", DECODE, NUMBER, offsetof(struct bench_shape, extra_s_kv), 0},
    {"page", PREFILL, NUMBER, offsetof(struct bench_shape, page), 0},
    {"page-tokens", DECODE, NUMBER, offsetof(struct bench_shape, page), 0},
    {"extra-page-tokens", DECODE, NUMBER, offsetof(struct bench_shape, extra_page), 0},
    {"lengths", BOTH, LENGTHS, 0, 0},
    {"sink", BOTH, SWITCH, offsetof(struct bench_shape, sink), 0},
    {"not-persistent", PREFILL, SWITCH, offsetof(struct bench_shape, not_persistent), 0},
    {"no-workspace", PREFILL, SWITCH, offsetof(struct bench_shape, no_workspace), 0},
    {"batch-invariant", DECODE, SWITCH, offsetof(struct bench_shape, batch_invariant), 0},
    {"sm-limit", BOTH, NUMBER, offsetof(struct bench_shape, sm_limit), 0},
    {"indices", PREFILL, INDICES, 0, 0},
};

static const struct key *find_key(const char *name)
{
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(keys[i].name, name) == 0)
            return &keys[i];
    return NULL;
}

static bool is_of(const struct key *key, uint32_t op)
{
    return (key->ops & (op == SMLA_OP_DECODE ? DECODE : PREFILL)) != 0;
}

const char *bench_shape_owner(const char *name)
{
    const struct key *key = find_key(name);
    if (key == NULL || key->ops == BOTH)
        return "prefill and decode";
    return key->ops == DECODE ? "decode" : "prefill";
}

static int set_number(const struct key *key, const char *value, const char *where, void *out)
{
    int64_t number;
    if (!cli_int(value, key->least, INT32_MAX, &number))
        return wrong(where, key->name, value, "positive number");
    if (key->kind == SIZE)
        *(int32_t *)out = (int32_t)number;
    else
        *(int64_t *)out = number;
    return CLI_FINE;
}

int bench_shape_set(struct bench_shape *shape, const char *name, const char *value, const char *where)
{
    const struct key *key = find_key(name);
    if (key == NULL)
        return cli_fail(CLI_USAGE, "%s: '%s' is no key of a shape", where == NULL ? "shape" : where, name);
    if (!is_of(key, shape->op) && where == NULL)
        return cli_usage("--%s is an option of %s", name, bench_shape_owner(name));
    if (!is_of(key, shape->op))
        return cli_fail(CLI_USAGE, "%s: '%s' is no key of a shape of %s", where, name, bench_op_name(shape->op));
    void *field = (char *)shape + key->offset;
    switch (key->kind) {
    case NAME:
        return set_text(field, sizeof shape->kv_format, name, strcmp(value, "bf16") == 0 ? "" : value, where);
    case EXTRA_NAME:
        return set_text(field, sizeof shape->extra_kv_format, name, value, where);
    case SWITCH:
        *(bool *)field = true;
        return CLI_FINE;
    case LENGTHS:
        return set_lengths(shape, name, value, where);
    case INDICES:
        return set_indices(shape, name, value, where);
    default:
        return set_number(key, value, where, field);
    }
}

/* ---- All of them ---- */

const char *bench_op_name(uint32_t op)
{
    return op == SMLA_OP_DECODE ? "decode" : "prefill";
}

uint32_t bench_op_of(const char *name)
{
    if (strcmp(name, "decode") == 0)
        return SMLA_OP_DECODE;
    return strcmp(name, "prefill") == 0 ? SMLA_OP_PREFILL : 0;
}

int64_t bench_shape_tokens(const struct bench_shape *shape)
{
    return shape->b * shape->s_q;
}

int64_t bench_shape_lengths(const struct bench_shape *shape)
{
    return shape->op == SMLA_OP_DECODE ? shape->b : shape->s_q;
}

bool bench_shape_extra(const struct bench_shape *shape, struct bench_shape *extra)
{
    if (shape->extra_kv_format[0] == 0)
        return false;
    *extra = *shape;
    memcpy(extra->kv_format, shape->extra_kv_format, sizeof extra->kv_format);
    extra->s_kv = shape->extra_s_kv;
    extra->topk = shape->extra_topk;
    extra->page = shape->extra_page;
    extra->length_low = extra->length_high = 0;
    extra->one_long = false;
    return true;
}

/* Finds a cache's layout, and its pages where it needs them. */
static int find_layout(const char *format, int32_t d_qk, int64_t *page, smla_kv_layout *layout, const char *where)
{
    smla_error_info info = {.struct_size = sizeof info};
    *layout = (smla_kv_layout){.struct_size = sizeof *layout};
    if (smla_kv_layout_preset(format[0] == 0 ? "bf16" : format, d_qk, layout) != SMLA_OK) {
        smla_last_error(&info);
        return cli_fail(CLI_USAGE, "%s%s%s", where == NULL ? "" : where, where == NULL ? "" : ": ", info.message);
    }
    if (layout->place == SMLA_PLACE_PAGE && *page == 0)
        *page = DEFAULT_PAGE;
    return CLI_FINE;
}

/* The second cache is there as a whole or not at all. */
static const char *wrong_extra(const struct bench_shape *shape)
{
    if (shape->extra_kv_format[0] == 0)
        return shape->extra_topk != 0 || shape->extra_s_kv != 0 || shape->extra_page != 0
                   ? "a second cache needs extra_kv_format"
                   : NULL;
    return shape->extra_topk == 0 || shape->extra_s_kv == 0 ? "extra_kv_format needs extra_topk and extra_s_kv" : NULL;
}

int bench_shape_check(struct bench_shape *shape, smla_kv_layout layouts[2], const char *where)
{
    const char *begin = where == NULL ? "" : where, *separator = where == NULL ? "" : ": ", *extra = wrong_extra(shape);
    if (shape->length_high > shape->topk)
        return cli_fail(CLI_USAGE, "%s%slengths up to %lld do not fit lists of %lld", begin, separator,
                        (long long)shape->length_high, (long long)shape->topk);
    if (extra != NULL)
        return cli_fail(CLI_USAGE, "%s%s%s", begin, separator, extra);
    if (bench_shape_tokens(shape) > INT32_MAX)
        return cli_fail(CLI_USAGE, "%s%sb %lld and s_q %lld are more than %d query tokens", begin, separator,
                        (long long)shape->b, (long long)shape->s_q, INT32_MAX);
    const int code = find_layout(shape->kv_format, shape->d_qk, &shape->page, &layouts[0], where);
    if (code != CLI_FINE || shape->extra_kv_format[0] == 0)
        return code;
    return find_layout(shape->extra_kv_format, shape->d_qk, &shape->extra_page, &layouts[1], where);
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
    snprintf(name, sizeof name, "%s", key);
    for (char *c = name; *c != 0; c++)
        *c = *c == '_' ? '-' : *c;
    const struct key *row = find_key(name);
    if (row != NULL && row->kind == SWITCH && json_is_false(value) && is_of(row, shape->op)) {
        *(bool *)((char *)shape + row->offset) = false;
        return CLI_FINE;
    }
    if (row != NULL && row->kind == SWITCH && json_is_true(value))
        return bench_shape_set(shape, name, "", where);
    if ((row != NULL && row->kind == SWITCH) || !value_text(value, text))
        return cli_fail(CLI_USAGE, "%s: '%s' has a value of the wrong type", where, key);
    return bench_shape_set(shape, name, text, where);
}

int bench_shape_read(const json_t *object, uint32_t op, struct bench_shape *shape, const char *where)
{
    const char *key;
    json_t *value;
    smla_kv_layout layouts[2];
    *shape = bench_shapes_of(op)->start;
    if (!json_is_object(object))
        return cli_fail(CLI_USAGE, "%s is no object", where);
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        const int code = set_key(shape, key, value, where);
        if (code != CLI_FINE)
            return code;
    }
    return bench_shape_check(shape, layouts, where);
}

int bench_shapes_read(const char *path, uint32_t op, struct bench_shape **shapes, size_t *count)
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
        code = bench_shape_read(json_array_get(root, i), op, &(*shapes)[i], where);
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

static const char *format_name(const struct bench_shape *shape)
{
    return shape->kv_format[0] == 0 ? "bf16" : shape->kv_format;
}

/* " lengths 5:64", or nothing. */
static void lengths_text(const struct bench_shape *shape, char text[48])
{
    text[0] = 0;
    if (shape->one_long)
        snprintf(text, 48, " lengths " ONE_LONG "%lld", (long long)shape->length_high);
    else if (shape->length_high != 0)
        snprintf(text, 48, " lengths %lld:%lld", (long long)shape->length_low, (long long)shape->length_high);
}

/* " + 512" behind a number of the first cache, or nothing. */
static void extra_text(const struct bench_shape *shape, int64_t number, char text[32])
{
    text[0] = 0;
    if (shape->extra_kv_format[0] != 0)
        snprintf(text, 32, " + %lld", (long long)number);
}

static void decode_text(const struct bench_shape *shape, const char *behind, char text[BENCH_SHAPE_TEXT])
{
    char topk[32], s_kv[32], page[32];
    const bool has_extra = shape->extra_kv_format[0] != 0;
    extra_text(shape, shape->extra_topk, topk);
    extra_text(shape, shape->extra_s_kv, s_kv);
    extra_text(shape, shape->extra_page, page);
    snprintf(text, BENCH_SHAPE_TEXT, "b %lld s_q %lld h %d d %d topk %lld%s s_kv %lld%s %s%s%s page %lld%s%s%s",
             (long long)shape->b, (long long)shape->s_q, shape->h_q, shape->d_qk, (long long)shape->topk, topk,
             (long long)shape->s_kv, s_kv, format_name(shape), has_extra ? " + " : "", shape->extra_kv_format,
             (long long)shape->page, page, behind, shape->batch_invariant ? " batch_invariant" : "");
}

static void prefill_text(const struct bench_shape *shape, const char *behind, char text[BENCH_SHAPE_TEXT])
{
    char page[32] = "";
    if (shape->page != 0)
        snprintf(page, sizeof page, " page %lld", (long long)shape->page);
    snprintf(text, BENCH_SHAPE_TEXT, "h %d d %d topk %lld s_q %lld s_kv %lld%s%s%s %s%s%s%s", shape->h_q, shape->d_qk,
             (long long)shape->topk, (long long)shape->s_q, (long long)shape->s_kv, shape->kv_format[0] == 0 ? "" : " ",
             shape->kv_format, page, indices_name(shape), behind, shape->not_persistent ? " not persistent" : "",
             shape->no_workspace ? " no workspace" : "");
}

void bench_shape_text(const struct bench_shape *shape, char text[BENCH_SHAPE_TEXT])
{
    char lengths[48], behind[64];
    lengths_text(shape, lengths);
    snprintf(behind, sizeof behind, "%s%s", lengths, shape->sink ? "" : " no sink");
    (shape->op == SMLA_OP_DECODE ? decode_text : prefill_text)(shape, behind, text);
    const size_t used = strlen(text);
    if (shape->sm_limit != 0)
        snprintf(text + used, BENCH_SHAPE_TEXT - used, " sm_limit %lld", (long long)shape->sm_limit);
}

static json_t *lengths_json(const struct bench_shape *shape)
{
    if (shape->one_long)
        return json_sprintf(ONE_LONG "%lld", (long long)shape->length_high);
    if (shape->length_high == 0)
        return json_null();
    return json_pack("[I, I]", (json_int_t)shape->length_low, (json_int_t)shape->length_high);
}

static json_t *decode_json(const struct bench_shape *shape)
{
    json_t *extra = shape->extra_kv_format[0] == 0 ? json_null() : json_string(shape->extra_kv_format);
    return json_pack("{s:I, s:I, s:i, s:i, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:b, s:b, s:I}", "b",
                     (json_int_t)shape->b, "s_q", (json_int_t)shape->s_q, "h_q", shape->h_q, "d_qk", shape->d_qk,
                     "kv_format", format_name(shape), "extra_kv_format", extra, "topk", (json_int_t)shape->topk,
                     "extra_topk", (json_int_t)shape->extra_topk, "s_kv", (json_int_t)shape->s_kv, "extra_s_kv",
                     (json_int_t)shape->extra_s_kv, "page_tokens", (json_int_t)shape->page, "extra_page_tokens",
                     (json_int_t)shape->extra_page, "lengths", lengths_json(shape), "sink", shape->sink,
                     "batch_invariant", shape->batch_invariant, "sm_limit", (json_int_t)shape->sm_limit);
}

json_t *bench_shape_json(const struct bench_shape *shape)
{
    if (shape->op == SMLA_OP_DECODE)
        return decode_json(shape);
    return json_pack("{s:i, s:i, s:I, s:I, s:I, s:s, s:I, s:o, s:b, s:b, s:b, s:I, s:s}", "h_q", shape->h_q, "d_qk",
                     shape->d_qk, "topk", (json_int_t)shape->topk, "s_q", (json_int_t)shape->s_q, "s_kv",
                     (json_int_t)shape->s_kv, "kv_format", format_name(shape), "page", (json_int_t)shape->page,
                     "lengths", lengths_json(shape), "sink", shape->sink, "not_persistent", shape->not_persistent,
                     "no_workspace", shape->no_workspace, "sm_limit", (json_int_t)shape->sm_limit, "indices",
                     indices_name(shape));
}
