#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

static const char *const kind_names[] = {
#define KIND_NAME(name, text) [name] = text,
    EMU_FINDING_KINDS(KIND_NAME)
#undef KIND_NAME
};

struct emu_report *emu_report_create(void)
{
    struct emu_report *report = calloc(1, sizeof *report);
    if (report != NULL && pthread_mutex_init(&report->lock, NULL) != 0) {
        free(report);
        return NULL;
    }
    return report;
}

void emu_report_destroy(struct emu_report *report)
{
    if (report == NULL)
        return;
    pthread_mutex_destroy(&report->lock);
    free(report->findings);
    free(report);
}

/* ---- Adding ---- */

static bool same_place(const struct emu_finding *left, const struct emu_finding *right)
{
    return left->kind == right->kind && left->kernel == right->kernel && left->first.instr == right->first.instr &&
           left->second.instr == right->second.instr;
}

static struct emu_finding *find(struct emu_report *report, const struct emu_finding *finding)
{
    for (int i = 0; i < report->count; i++)
        if (same_place(&report->findings[i], finding))
            return &report->findings[i];
    return NULL;
}

static bool append(struct emu_report *report, const struct emu_finding *finding)
{
    if (report->count == report->capacity) {
        const int capacity = report->capacity == 0 ? 16 : 2 * report->capacity;
        struct emu_finding *grown = realloc(report->findings, (size_t)capacity * sizeof *grown);
        if (grown == NULL)
            return false;
        report->findings = grown;
        report->capacity = capacity;
    }
    report->findings[report->count] = *finding;
    report->findings[report->count].count = 1;
    report->count++;
    return true;
}

bool emu_report_add(struct emu_report *report, const struct emu_finding *finding)
{
    pthread_mutex_lock(&report->lock);
    struct emu_finding *known = find(report, finding);
    if (known != NULL)
        known->count++;
    const bool fresh = known == NULL && append(report, finding);
    pthread_mutex_unlock(&report->lock);
    return fresh;
}

/* ---- Where an instruction stands ---- */

/* The file of .loc, or NULL. */
static const char *source_of(const struct emu_finding *finding, const struct emu_instr *instr)
{
    const struct emu_module *module = finding->kernel == NULL ? NULL : finding->kernel->module;
    if (module == NULL || instr->source_file == 0 || instr->source_file >= module->file_count + 1)
        return NULL;
    return module->files == NULL ? NULL : module->files[instr->source_file];
}

static const char *kernel_of(const struct emu_finding *finding)
{
    return finding->kernel == NULL || finding->kernel->name == NULL ? "?" : finding->kernel->name;
}

/* ---- Text ---- */

static void write_site(FILE *file, const struct emu_finding *finding, const struct emu_site *site, const char *label)
{
    const char *source;
    if (site->instr == NULL)
        return;
    fprintf(file, "  %-7s PTX line %" PRIu32, label, site->instr->line);
    if ((source = source_of(finding, site->instr)) != NULL)
        fprintf(file, ", %s:%" PRIu32, source, site->instr->source_line);
    fprintf(file, ": %s\n          block (%" PRIu32 ",%" PRIu32 ",%" PRIu32 ") warp %d",
            site->instr->text == NULL ? "?" : site->instr->text, site->ctaid[0], site->ctaid[1], site->ctaid[2],
            site->warp);
    if (site->lane >= 0)
        fprintf(file, " lane %d\n", site->lane);
    else
        fputs(", the whole warp\n", file);
}

static void write_finding(FILE *file, const struct emu_finding *finding)
{
    fprintf(file, "%s in %s: %s\n", kind_names[finding->kind], kernel_of(finding), finding->message);
    write_site(file, finding, &finding->first, "first:");
    write_site(file, finding, &finding->second, finding->first.instr != NULL ? "then:" : "at:");
    if (finding->has_address)
        fprintf(file, "  address 0x%" PRIx64 "%s%s\n", finding->address, finding->what[0] == '\0' ? "" : ": ",
                finding->what);
    if (finding->count > 1)
        fprintf(file, "  %" PRIu64 " times at these lines\n", finding->count);
}

static void write_text(FILE *file, const struct emu_report *report)
{
    fprintf(file, "smla emulated device: %" PRIu64 " launches, %" PRIu64 " warp instructions, %d finding%s\n",
            report->launches, report->instr_executed, report->count, report->count == 1 ? "" : "s");
    for (int i = 0; i < report->count; i++) {
        fputc('\n', file);
        write_finding(file, &report->findings[i]);
    }
}

/* ---- JSON ---- */

static void write_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            fprintf(file, "\\%c", *at);
        else if (*at == '\n')
            fputs("\\n", file);
        else if (*at < 0x20)
            fprintf(file, "\\u%04x", (unsigned int)*at);
        else
            fputc(*at, file);
    }
    fputc('"', file);
}

static void write_member(FILE *file, const char *name, const char *text)
{
    fprintf(file, "\"%s\": ", name);
    if (text == NULL)
        fputs("null", file);
    else
        write_string(file, text);
}

static void write_site_json(FILE *file, const struct emu_finding *finding, const struct emu_site *site)
{
    if (site->instr == NULL) {
        fputs("null", file);
        return;
    }
    const char *source = source_of(finding, site->instr);
    fprintf(file, "{\"ptx_line\": %" PRIu32 ", ", site->instr->line);
    write_member(file, "instruction", site->instr->text);
    fputs(", ", file);
    write_member(file, "file", source);
    if (source != NULL)
        fprintf(file, ", \"file_line\": %" PRIu32, site->instr->source_line);
    fprintf(file, ", \"block\": [%" PRIu32 ", %" PRIu32 ", %" PRIu32 "], \"warp\": %d, ", site->ctaid[0],
            site->ctaid[1], site->ctaid[2], site->warp);
    if (site->lane >= 0)
        fprintf(file, "\"lane\": %d}", site->lane);
    else
        fputs("\"lane\": null}", file);
}

static void write_finding_json(FILE *file, const struct emu_finding *finding)
{
    fputs("    {", file);
    write_member(file, "kind", kind_names[finding->kind]);
    fputs(", ", file);
    write_member(file, "kernel", kernel_of(finding));
    fputs(",\n     ", file);
    write_member(file, "message", finding->message);
    fputs(",\n     \"first\": ", file);
    write_site_json(file, finding, &finding->first);
    fputs(",\n     \"second\": ", file);
    write_site_json(file, finding, &finding->second);
    fputs(",\n     \"address\": ", file);
    if (finding->has_address)
        fprintf(file, "\"0x%" PRIx64 "\"", finding->address);
    else
        fputs("null", file);
    fputs(", ", file);
    write_member(file, "what", finding->what[0] == '\0' ? NULL : finding->what);
    fprintf(file, ", \"count\": %" PRIu64 "}", finding->count);
}

static void write_json(FILE *file, const struct emu_report *report)
{
    fprintf(file,
            "{\n  \"launches\": %" PRIu64 ",\n  \"warp_instructions\": %" PRIu64 ",\n"
            "  \"models_speed\": false,\n  \"findings\": [",
            report->launches, report->instr_executed);
    for (int i = 0; i < report->count; i++) {
        fputs(i == 0 ? "\n" : ",\n", file);
        write_finding_json(file, &report->findings[i]);
    }
    fputs(report->count == 0 ? "]\n}\n" : "\n  ]\n}\n", file);
}

/* ---- The file ---- */

static bool ends_in(const char *text, const char *end)
{
    const size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

bool emu_report_write(struct emu_report *report, const char *path)
{
    const bool to_stderr = strcmp(path, "-") == 0;
    FILE *file = to_stderr ? stderr : fopen(path, "we");
    if (file == NULL)
        return false;
    pthread_mutex_lock(&report->lock);
    if (ends_in(path, ".json"))
        write_json(file, report);
    else
        write_text(file, report);
    pthread_mutex_unlock(&report->lock);
    const bool ok = fflush(file) == 0 && ferror(file) == 0;
    const int why = errno;
    const bool closed = to_stderr || fclose(file) == 0;
    if (!ok)
        errno = why;
    return ok && closed;
}
