#include "ptxas_report.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char entry_words[] = "Compiling entry function '";

/* The part of the report that is about `symbol`; *end is where the next entry's begins. */
static const char *find_section(const char *log, const char *symbol, const char **end)
{
    const size_t length = strlen(symbol);

    for (const char *at = strstr(log, entry_words); at; at = strstr(at, entry_words)) {
        at += sizeof entry_words - 1;
        if (strncmp(at, symbol, length) != 0 || at[length] != '\'')
            continue;
        const char *next = strstr(at, entry_words);
        *end = next ? next : at + strlen(at);
        return at;
    }
    return NULL;
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The number that stands before `words` on some line of the section, or -1. */
static int32_t number_before(const char *section, const char *end, const char *words)
{
    const char *at = strstr(section, words);

    if (at == NULL || at >= end || at == section)
        return -1;
    const char *digits = at;
    while (digits > section && is_digit(digits[-1]))
        digits--;
    const long value = digits < at ? strtol(digits, NULL, 10) : -1;
    return value < INT32_MAX ? (int32_t)value : -1;
}

static int32_t number_after(const char *section, const char *end, const char *words)
{
    const char *at = strstr(section, words);

    if (at == NULL || at >= end || !is_digit(at[strlen(words)]))
        return -1;
    const long value = strtol(at + strlen(words), NULL, 10);
    return value < INT32_MAX ? (int32_t)value : -1;
}

struct rt_ptxas_report rt_ptxas_report_read(const char *log, const char *symbol)
{
    struct rt_ptxas_report report = {-1, -1, -1, -1, -1};
    const char *end;
    const char *section = find_section(log, symbol, &end);

    if (section == NULL)
        return report;
    report.registers = number_after(section, end, "Used ");
    report.spill_store_bytes = number_before(section, end, " bytes spill stores");
    report.spill_load_bytes = number_before(section, end, " bytes spill loads");
    report.stack_bytes = number_before(section, end, " bytes stack frame");
    report.static_shared_bytes = number_before(section, end, " bytes smem");
    if (report.registers >= 0 && report.static_shared_bytes < 0)
        report.static_shared_bytes = 0;
    return report;
}

void rt_ptxas_report_clean(char *log)
{
    char *to = log;

    for (const char *line = log; *line;) {
        const char *line_end = strchr(line, '\n');
        const size_t size = line_end ? (size_t)(line_end - line) + 1 : strlen(line);
        const char *words = strstr(line, "Compile time =");
        if (words == NULL || words >= line + size) {
            memmove(to, line, size);
            to += size;
        }
        line += size;
    }
    *to = '\0';
}
