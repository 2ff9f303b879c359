#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char tool_name[32] = "smla";
static bool progress_lines;
static bool line_open; /* a progress line stands on the terminal; written under stderr's lock */

void cli_start(const char *tool, int argc, char **argv)
{
    snprintf(tool_name, sizeof tool_name, "%s", tool);
    if (argc > 0)
        argv[0] = tool_name;
}

const char *cli_tool(void)
{
    return tool_name;
}

int cli_version(void)
{
    printf("%s %s\n", tool_name, smla_version());
    return CLI_FINE;
}

/* Ends a progress line, so that a sentence starts in the first column. */
static void close_line(void)
{
    if (line_open)
        fputs("\r\033[K", stderr);
    line_open = false;
}

static void say(const char *format, va_list arguments)
{
    flockfile(stderr);
    close_line();
    fprintf(stderr, "%s: ", tool_name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    funlockfile(stderr);
}

int cli_fail(int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
    return code;
}

int cli_usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
    return cli_usage_getopt();
}

int cli_usage_getopt(void)
{
    fprintf(stderr, "Try '%s --help'.\n", tool_name);
    return CLI_USAGE;
}

int cli_exit_of(smla_status status)
{
    switch (status) {
    case SMLA_OK:
        return CLI_FINE;
    case SMLA_ERROR_INVALID_ARGUMENT:
    case SMLA_ERROR_IO:
        return CLI_USAGE;
    case SMLA_ERROR_UNSUPPORTED:
    case SMLA_ERROR_UNAVAILABLE:
    case SMLA_ERROR_NOT_CACHED:
    case SMLA_ERROR_TIMEOUT:
        return CLI_UNAVAILABLE;
    case SMLA_ERROR_DRIVER:
        return CLI_DEVICE_FAULT;
    default:
        return CLI_CHECK_FAILED;
    }
}

int cli_smla_error(const char *what)
{
    smla_error_info info = {.struct_size = sizeof info};
    smla_last_error(&info);
    const bool has_path = info.path[0] != 0 && strstr(info.message, info.path) == NULL;
    cli_fail(0, "%s: %s%s%s%s", what, info.message, has_path ? " (" : "", has_path ? info.path : "",
             has_path ? ")" : "");
    if (info.log[0] != 0)
        fprintf(stderr, "%s%s", info.log, info.log[strlen(info.log) - 1] == '\n' ? "" : "\n");
    return cli_exit_of(info.status);
}

int cli_worse(int left, int right)
{
    static const int order[] = {CLI_FINE, CLI_UNAVAILABLE, CLI_USAGE, CLI_CHECK_FAILED, CLI_DEVICE_FAULT};
    int worse = left;
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        if (order[i] == left || order[i] == right)
            worse = order[i];
    return worse;
}

bool cli_int(const char *text, int64_t low, int64_t high, int64_t *out)
{
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != 0 || value < low || value > high)
        return false;
    *out = value;
    return true;
}

void cli_progress_lines(void)
{
    progress_lines = true;
}

void cli_progress(size_t done, size_t total, const char *label)
{
    if (!isatty(STDERR_FILENO)) {
        if (progress_lines)
            fprintf(stderr, "%s: [%zu/%zu] %s\n", tool_name, done, total, label);
        return;
    }
    flockfile(stderr);
    fprintf(stderr, "\r\033[K[%zu/%zu] %s%s", done, total, label, done == total ? "\n" : "");
    fflush(stderr);
    line_open = done != total;
    funlockfile(stderr);
}

void cli_note(const char *format, ...)
{
    if (!isatty(STDERR_FILENO))
        return;
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}
