#include "describe.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rt_describe(const struct gen_spec *spec, char text[RT_DESCRIPTION_BYTES])
{
    if (!spec->kv.name) {
        snprintf(text, RT_DESCRIPTION_BYTES, "%s h_q=%d d_v=%d%s%s target=%s", gen_op_name(spec->op), spec->h_q,
                 spec->d_v, spec->batch_invariant ? " batch_invariant" : "", spec->line_info ? " line_info" : "",
                 spec->target->name);
        return;
    }
    char tile[32] = "";
    if (spec->tile_heads > 0)
        snprintf(tile, sizeof tile, " tile_heads=%d", spec->tile_heads);
    snprintf(text, RT_DESCRIPTION_BYTES, "%s h_q=%d d_qk=%d d_v=%d kv=%s%s%s%s%s%s%s%s target=%s",
             gen_op_name(spec->op), spec->h_q, spec->d_qk, spec->d_v, spec->kv.name,
             spec->has_extra_kv ? " extra_kv=" : "", spec->has_extra_kv ? spec->extra_kv.name : "", tile,
             spec->batch_invariant ? " batch_invariant" : "", spec->checked ? " checked" : "",
             spec->not_persistent ? " not_persistent" : "", spec->line_info ? " line_info" : "", spec->target->name);
}

/* ---- Back again -------------------------------------------------------------------------------------------- */

static bool read_op(const char *name, uint32_t *op)
{
    static const uint32_t ops[] = {SMLA_OP_PREFILL, SMLA_OP_PREFILL_REFERENCE, SMLA_OP_COMBINE, SMLA_OP_DECODE};

    for (size_t i = 0; name != NULL && i < sizeof ops / sizeof ops[0]; i++) {
        if (strcmp(gen_op_name(ops[i]), name) == 0) {
            *op = ops[i];
            return true;
        }
    }
    return false;
}

static bool read_number(const char *text, int32_t *out)
{
    char *end;
    const long value = strtol(text, &end, 10);

    if (end == text || *end != '\0' || value < 0 || value > INT32_MAX)
        return false;
    *out = (int32_t)value;
    return true;
}

/* Returns what follows "name=", or NULL. */
static const char *value_of(const char *word, const char *name)
{
    const size_t size = strlen(name);

    return strncmp(word, name, size) == 0 && word[size] == '=' ? word + size + 1 : NULL;
}

static bool read_word(const char *word, struct rt_described *out)
{
    smla_kernel_desc *desc = &out->desc;
    const struct {
        const char *name;
        int32_t *number;
        const char **text;
    } values[] = {{"h_q", &desc->h_q, NULL},      {"d_qk", &desc->d_qk, NULL},
                  {"d_v", &desc->d_v, NULL},      {"tile_heads", &out->tile_heads, NULL},
                  {"kv", NULL, &desc->kv_format}, {"extra_kv", NULL, &desc->extra_kv_format},
                  {"target", NULL, &desc->target}};

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const char *value = value_of(word, values[i].name);

        if (value != NULL && values[i].number != NULL)
            return read_number(value, values[i].number);
        if (value != NULL) {
            *values[i].text = value;
            return true;
        }
    }
    if (strcmp(word, "batch_invariant") == 0)
        desc->batch_invariant = 1;
    else if (strcmp(word, "checked") == 0)
        desc->flags |= SMLA_KERNEL_CHECKED;
    else if (strcmp(word, "not_persistent") == 0)
        desc->flags |= SMLA_KERNEL_NOT_PERSISTENT;
    else if (strcmp(word, "line_info") == 0)
        desc->flags |= SMLA_KERNEL_LINE_INFO;
    else
        return false;
    return true;
}

bool rt_describe_read(const char *text, struct rt_described *out)
{
    char *rest;

    out->desc = (smla_kernel_desc){.struct_size = sizeof out->desc};
    out->tile_heads = 0;
    snprintf(out->text, sizeof out->text, "%s", text);
    if (!read_op(strtok_r(out->text, " ", &rest), &out->desc.op))
        return false;
    for (const char *word = strtok_r(NULL, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        if (!read_word(word, out))
            return false;
    }
    return out->desc.target != NULL;
}

/* ---- As a command ------------------------------------------------------------------------------------------ */

enum { RT_LAYOUT_BYTES = 224, RT_FOLDER_BYTES = 512 };

/* A layout of no preset, as a value of shapes.json. */
static void describe_layout(const struct gen_kv_format *format, char text[RT_LAYOUT_BYTES])
{
    static const char *const values[] = {
        [SMLA_VALUE_BF16] = "bf16", [SMLA_VALUE_E4M3] = "e4m3", [SMLA_VALUE_E2M1] = "e2m1"};
    static const char *const scales[] = {[SMLA_SCALE_NONE] = "none",
                                         [SMLA_SCALE_FP32] = "fp32",
                                         [SMLA_SCALE_UE8M0] = "ue8m0",
                                         [SMLA_SCALE_E4M3] = "e4m3"};

    snprintf(text, RT_LAYOUT_BYTES,
             "{\"value_type\":\"%s\",\"value_elems\":%d,\"scale_type\":\"%s\",\"scale_group\":%d,\"scale_bytes\":%d,"
             "\"tail_elems\":%d,\"place\":\"%s\"}",
             values[format->value_type], format->value_elems, scales[format->scale_type], format->scale_group,
             format->scale_bytes, format->tail_elems, format->place == SMLA_PLACE_PAGE ? "page" : "token");
}

static bool is_preset(const struct gen_kv_format *format)
{
    return gen_kv_format_find(format->name) != NULL;
}

/* ,"kv_format":"v4" or ,"kv_layout":{…} */
static void describe_format(const struct gen_kv_format *format, const char *prefix, char text[RT_LAYOUT_BYTES + 32])
{
    char layout[RT_LAYOUT_BYTES];

    describe_layout(format, layout);
    if (is_preset(format))
        snprintf(text, RT_LAYOUT_BYTES + 32, ",\"%skv_format\":\"%s\"", prefix, format->name);
    else
        snprintf(text, RT_LAYOUT_BYTES + 32, ",\"%skv_layout\":%s", prefix, layout);
}

/* ,"flags":["checked"], or "" */
static void describe_flags(const struct gen_spec *spec, char text[64])
{
    const struct {
        bool set;
        const char *name;
    } flags[] = {{spec->checked, "checked"}, {spec->not_persistent, "not_persistent"}, {spec->line_info, "line_info"}};
    size_t size = 0;

    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (flags[i].set)
            size +=
                (size_t)snprintf(text + size, 64 - size, "%s\"%s\"", size > 0 ? "," : ",\"flags\":[", flags[i].name);
    snprintf(text + size, 64 - size, "%s", size > 0 ? "]" : "");
}

/* Layouts have no options: the description goes through a file. */
static void describe_file_command(const struct gen_spec *spec, const char *output, char text[RT_COMMAND_BYTES])
{
    char flags[64] = "", format[RT_LAYOUT_BYTES + 32], extra[RT_LAYOUT_BYTES + 32] = "";

    describe_flags(spec, flags);
    describe_format(&spec->kv, "", format);
    if (spec->has_extra_kv)
        describe_format(&spec->extra_kv, "extra_", extra);
    snprintf(
        text, RT_COMMAND_BYTES,
        "echo '[{\"op\":\"%s\",\"h_q\":%d,\"d_qk\":%d,\"d_v\":%d%s%s%s%s}]' >kernel.json && smla-gen --sm %s --from "
        "kernel.json%s",
        gen_op_name(spec->op), spec->h_q, spec->d_qk, spec->d_v, format, extra,
        spec->batch_invariant ? ",\"batch_invariant\":true" : "", flags, spec->target->name, output);
}

bool rt_describe_quoted(const char *word, char *text, size_t capacity)
{
    size_t size = 1;

    text[0] = '\0';
    for (const char *at = word; *at != '\0'; at++)
        size += *at == '\'' ? strlen("'\\''") : 1;
    if (size + sizeof "'" > capacity)
        return false;
    char *to = text;
    *to++ = '\'';
    for (const char *at = word; *at != '\0'; at++) {
        if (*at == '\'')
            to = stpcpy(to, "'\\'");
        *to++ = *at;
    }
    strcpy(to, "'");
    return true;
}

void rt_describe_command(const struct gen_spec *spec, const char *kind, const char *cache_dir,
                         char text[RT_COMMAND_BYTES])
{
    char width[24] = "", formats[96] = "", folder[RT_FOLDER_BYTES], output[RT_FOLDER_BYTES + 64];

    if (cache_dir && rt_describe_quoted(cache_dir, folder, sizeof folder))
        snprintf(output, sizeof output, " --emit %s -o kernel.%s --cache %s", kind, kind, folder);
    else
        snprintf(output, sizeof output, " --emit %s -o kernel.smlab && export SMLA_BUNDLE=\"$PWD/kernel.smlab\"", kind);
    if (spec->kv.name && (!is_preset(&spec->kv) || (spec->has_extra_kv && !is_preset(&spec->extra_kv)))) {
        describe_file_command(spec, output, text);
        return;
    }
    if (spec->kv.name) {
        snprintf(width, sizeof width, " --d-qk %d", spec->d_qk);
        snprintf(formats, sizeof formats, " --kv-format %s%s%s", spec->kv.name,
                 spec->has_extra_kv ? " --extra-kv-format " : "", spec->has_extra_kv ? spec->extra_kv.name : "");
    }
    snprintf(text, RT_COMMAND_BYTES, "smla-gen --sm %s --op %s --h-q %d%s --d-v %d%s%s%s%s%s%s", spec->target->name,
             gen_op_name(spec->op), spec->h_q, width, spec->d_v, formats,
             spec->batch_invariant ? " --batch-invariant" : "", spec->checked ? " --checked" : "",
             spec->not_persistent ? " --not-persistent" : "", spec->line_info ? " --line-info" : "", output);
}
