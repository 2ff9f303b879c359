#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "error.h"
#include "text.h"

/* ---- Strings: a path has any bytes, JSON has UTF-8 ----------------------------------------------------------- */

/* The length of the character that begins here; 0: it is none (RFC 3629, table in section 4). */
static size_t character_length(const char *at)
{
    const uint8_t *byte = (const uint8_t *)at;
    const size_t length = byte[0] < 0x80 ? 1 : byte[0] < 0xc2 ? 0 : byte[0] < 0xe0 ? 2 : byte[0] < 0xf0 ? 3 : 4;

    if (byte[0] > 0xf4 || (byte[0] == 0xe0 && byte[1] < 0xa0) || (byte[0] == 0xed && byte[1] > 0x9f) ||
        (byte[0] == 0xf0 && byte[1] < 0x90) || (byte[0] == 0xf4 && byte[1] > 0x8f))
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((byte[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

static void add_string(struct gen_text *text, const char *string)
{
    gen_text_add_bytes(text, "\"", 1);
    while (*string) {
        const size_t length = character_length(string);

        if (length == 0)
            gen_text_add(text, "\\ufffd");
        else if (*string == '"' || *string == '\\')
            gen_text_add(text, "\\%c", *string);
        else if ((uint8_t)*string < 0x20)
            gen_text_add(text, "\\u%04x", (unsigned)*string);
        else
            gen_text_add_bytes(text, string, length);
        string += length > 0 ? length : 1;
    }
    gen_text_add_bytes(text, "\"", 1);
}

static void add_number(struct gen_text *text, const char *name, uint64_t number)
{
    gen_text_add(text, "\"%s\": %llu", name, (unsigned long long)number);
}

/* ---- Counters ----------------------------------------------------------------------------------------------- */

#define COUNTERS(X)                                                                                                    \
    X(memory_hits)                                                                                                     \
    X(disk_hits)                                                                                                       \
    X(misses)                                                                                                          \
    X(compiles)                                                                                                        \
    X(compile_failures)                                                                                                \
    X(compile_ns)                                                                                                      \
    X(shared_waits)                                                                                                    \
    X(entries_written)                                                                                                 \
    X(entries_damaged)                                                                                                 \
    X(cache_errors)                                                                                                    \
    X(refused_compiles)                                                                                                \
    X(kernels_loaded)                                                                                                  \
    X(load_ns)                                                                                                         \
    X(node_waits)                                                                                                      \
    X(node_wait_ns)                                                                                                    \
    X(bundle_hits)                                                                                                     \
    X(system_hits)                                                                                                     \
    X(compile_timeouts)                                                                                                \
    X(remembered_failures)                                                                                             \
    X(events)                                                                                                          \
    X(self_tests)                                                                                                      \
    X(self_test_failures)                                                                                              \
    X(self_test_ns)                                                                                                    \
    X(entries_refused)                                                                                                 \
    X(driver_ns)

#define COUNT_ONE(name) +1
_Static_assert(sizeof(smla_stats_counters) == 8 + 8 * (0 COUNTERS(COUNT_ONE)), "every counter has its row");

static void add_counters(struct gen_text *text, const smla_stats_counters *counters)
{
    static const struct {
        const char *name;
        size_t offset;
    } rows[] = {
#define ROW(name) {#name, offsetof(smla_stats_counters, name)},
        COUNTERS(ROW)
#undef ROW
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t number;

        memcpy(&number, (const uint8_t *)counters + rows[i].offset, sizeof number);
        gen_text_add(text, i > 0 ? ", " : "");
        add_number(text, rows[i].name, number);
    }
}

/* ---- Events ------------------------------------------------------------------------------------------------- */

static const char *kind_text(uint32_t kind)
{
    switch (kind) {
#define KIND_TEXT(name, value, text)                                                                                   \
    case name:                                                                                                         \
        return text;
        SMLA_EVENT_LIST(KIND_TEXT)
#undef KIND_TEXT
    default:
        return "unknown";
    }
}

static void add_event(struct gen_text *text, const smla_event *event)
{
    static const char *const tiers[] = {"none", "memory", "bundle", "system", "cache"};
    const struct {
        const char *name, *string;
    } strings[] = {{"kind", kind_text(event->kind)},
                   {"tier", tiers[event->tier]},
                   {"kernel_id", event->kernel_id},
                   {"kernel", event->kernel},
                   {"message", event->message}};

    gen_text_add(text, "{");
    add_number(text, "number", event->number);
    gen_text_add(text, ", ");
    add_number(text, "time_ns", event->time_ns);
    gen_text_add(text, ", ");
    add_number(text, "duration_ns", event->duration_ns);
    gen_text_add(text, ", \"status\": %d", (int)event->status);
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) {
        gen_text_add(text, ", \"%s\": ", strings[i].name);
        add_string(text, strings[i].string);
    }
    gen_text_add(text, "}");
}

/* ---- Both --------------------------------------------------------------------------------------------------- */

static smla_status write_json(smla_context *context, struct gen_text *text)
{
    smla_stats_counters counters = {.struct_size = sizeof counters};
    smla_event *events = malloc(RT_EVENTS_KEPT * sizeof *events);
    const smla_status status = smla_stats(context, &counters);

    if (events == NULL || status != SMLA_OK) {
        free(events);
        return status != SMLA_OK ? status : rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a copy of the events");
    }
    const size_t count = rt_events_read(&context->events, 0, events, RT_EVENTS_KEPT);
    gen_text_add(text, "{\"smla\": \"%s\", \"counters\": {", smla_version());
    add_counters(text, &counters);
    gen_text_add(text, "}, \"events\": [");
    for (size_t i = 0; i < count; i++) {
        gen_text_add(text, i > 0 ? ",\n" : "\n");
        add_event(text, &events[i]);
    }
    gen_text_add(text, "]}");
    free(events);
    return text->failed ? rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for the JSON text") : SMLA_OK;
}

smla_status smla_stats_json(smla_context *context, char *out, size_t capacity, size_t *size_bytes)
{
    struct gen_text text = {0};

    if (context == NULL || size_bytes == NULL)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "smla_stats_json: %s is NULL", context ? "size_bytes" : "context");
    smla_status status = write_json(context, &text);
    if (status == SMLA_OK) {
        *size_bytes = text.size + 1;
        if (out != NULL && *size_bytes > capacity)
            status =
                rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                        "the JSON text has %zu bytes now, with its NUL, and capacity is %zu", *size_bytes, capacity);
        else if (out != NULL)
            memcpy(out, text.bytes, *size_bytes);
    }
    gen_text_free(&text);
    return status;
}
