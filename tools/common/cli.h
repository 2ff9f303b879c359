/* What every tool does the same way: exit codes, sentences on stderr, progress, --help and --version. */
#ifndef SMLA_TOOLS_CLI_H
#define SMLA_TOOLS_CLI_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "smla/smla.h"

enum cli_exit {
    CLI_FINE = 0,
    CLI_CHECK_FAILED = 1,
    CLI_USAGE = 2,       /* the command line, or a file it names, is wrong */
    CLI_UNAVAILABLE = 3, /* unsupported, or something is missing here */
    CLI_DEVICE_FAULT = 4
};

/* Values of long options that several tools have; those of one tool start at CLI_OPTION_OWN. */
enum {
    CLI_OPTION_HELP = 256,
    CLI_OPTION_VERSION,
    CLI_OPTION_JSON,
    CLI_OPTION_NVRTC,
    CLI_OPTION_DRIVER,
    CLI_OPTION_SM,
    CLI_OPTION_OP,
    CLI_OPTION_H_Q,
    CLI_OPTION_D_QK,
    CLI_OPTION_D_V,
    CLI_OPTION_KV_FORMAT,
    CLI_OPTION_EXTRA_KV_FORMAT,
    CLI_OPTION_BATCH_INVARIANT,
    CLI_OPTION_CHECKED,
    CLI_OPTION_NOT_PERSISTENT,
    CLI_OPTION_LINE_INFO,
    CLI_OPTION_FROM,
    CLI_OPTION_OWN = 512
};

/* Rows of a getopt_long table. */
#define CLI_OPTIONS                                                                                                    \
    {"help", no_argument, NULL, CLI_OPTION_HELP}, {"version", no_argument, NULL, CLI_OPTION_VERSION},                  \
    {                                                                                                                  \
        "json", no_argument, NULL, CLI_OPTION_JSON                                                                     \
    }

/* Starts a tool: its name goes before every sentence and into getopt's own. Call first. */
void cli_start(const char *tool, int argc, char **argv);
const char *cli_tool(void);

/* Prints "smla 0.1.0 (tool)" to stdout. Returns CLI_FINE. */
int cli_version(void);

/* Prints "tool: sentence" to stderr and returns `code`. */
int cli_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for a wrong command line, with a pointer to --help. Returns CLI_USAGE. */
int cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* getopt_long has printed what is wrong; adds the pointer to --help. Returns CLI_USAGE. */
int cli_usage_getopt(void);

/* Prints this thread's smla_last_error() and returns the exit code for its status. what: the file or kernel. */
int cli_smla_error(const char *what);

/* The exit code that stands for a status. */
int cli_exit_of(smla_status status);

/* Of two exit codes the one to end with: a device fault before a failed check before the others. */
int cli_worse(int left, int right);

/* Reads a whole decimal number in [low, high]; false when text is none. */
bool cli_int(const char *text, int64_t low, int64_t high, int64_t *out);

/* Shows "[done/total] label" on stderr when it is a terminal, each call over the last; done == total ends the line. */
void cli_progress(size_t done, size_t total, const char *label);

/* From now on cli_progress writes a line each, where stderr is no terminal. */
void cli_progress_lines(void);

/* Prints a line to stderr when it is a terminal. */
void cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
