#include "faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char head[] = ".version 8.6\n.target sm_90a\n.address_size 64\n"
                           ".visible .entry kernel(.param .u64 buffer, .param .u64 raw)%s\n{\n"
                           ".reg .pred %%p<40>; .reg .b16 %%h<20>; .reg .b32 %%r<80>; .reg .b64 %%rd<40>;\n"
                           ".reg .f32 %%f<40>;\n"
                           ".shared .align 1024 .b8 smem[16384];\n"
                           ".shared .align 8 .b64 bar; .shared .align 8 .b64 bar2;\n"
                           "mov.u32 %%r1, %%tid.x; mov.u32 %%r2, %%laneid; shr.u32 %%r3, %%r1, 5;\n"
                           "mov.u32 %%r4, %%cluster_ctarank; mov.u32 %%r5, smem; shl.b32 %%r6, %%r1, 2;\n"
                           "add.u32 %%r6, %%r6, %%r5; ld.param.u64 %%rd1, [buffer]; ld.param.u64 %%rd2, [raw];\n"
                           "mul.wide.u32 %%rd4, %%r1, 4; add.u64 %%rd4, %%rd4, %%rd1; mov.u32 %%r7, %%ctaid.x;\n"
                           "setp.eq.u32 %%p1, %%r3, 0; setp.eq.u32 %%p2, %%r1, 0; setp.eq.u32 %%p3, %%r3, 1;\n"
                           "setp.eq.u32 %%p4, %%r2, 0; setp.eq.u32 %%p5, %%r4, 0; setp.eq.u32 %%p6, %%r7, 0;\n";

/* Appends the lines that belong to the wanted variant. */
static void append_body(char *text, const char *body, bool faulty)
{
    char *to = text + strlen(text);
    while (*body) {
        const char *end = strchr(body, '\n');
        const size_t length = end ? (size_t)(end - body) : strlen(body);
        const bool marked = *body == '!' || *body == '+';
        if (!marked || (*body == '!') == faulty) {
            memcpy(to, body + marked, length - marked);
            to += length - marked;
            *to++ = '\n';
        }
        body += length + (end != NULL);
    }
    strcpy(to, "ret;\n}\n");
}

char *fault_text(const struct fault_case *fault, bool faulty)
{
    char *text = malloc(sizeof(head) + strlen(fault->body) + 256), directives[64] = "";
    if (!text)
        return NULL;
    if (fault->max_registers)
        snprintf(directives, sizeof(directives), "\n.maxnreg %u", fault->max_registers);
    sprintf(text, head, directives);
    append_body(text, fault->body, faulty);
    return text;
}

uint32_t fault_line(const char *text, char mark)
{
    const char wanted[] = {'/', '/', mark, 0};
    const char *at = strstr(text, wanted);
    uint32_t line = 1;
    for (const char *c = text; at && c < at; c++)
        line += *c == '\n';
    return at ? line : 0;
}

static uint32_t at_least_one(uint32_t number)
{
    return number ? number : 1;
}

struct fault_run fault_execute(const struct fault_case *fault, const char *text, const struct emu_options *options)
{
    struct fault_run run = {.memory = emu_memory_create(), .report = emu_report_create()};
    char why[512];
    run.module = emu_module_load(text, strlen(text), why);
    if (!run.module) {
        fprintf(stderr, "%s: %s\n", fault->name, why);
        abort();
    }
    run.buffer = emu_memory_alloc(run.memory, FAULT_BUFFER_BYTES, "buffer");
    run.raw = emu_memory_alloc(run.memory, FAULT_BUFFER_BYTES, "raw buffer");
    memset((void *)(uintptr_t)run.buffer, 0, FAULT_BUFFER_BYTES);
    memset((void *)(uintptr_t)run.raw, 0, FAULT_BUFFER_BYTES);
    emu_memory_mark(run.memory, run.buffer, FAULT_BUFFER_BYTES);
    const uint64_t params[] = {run.buffer, run.raw};
    struct emu_launch launch = {.kernel = &run.module->kernels[0],
                                .params = (const uint8_t *)params,
                                .grid = {at_least_one(fault->blocks), 1, 1},
                                .block = {fault->threads ? fault->threads : 64, 1, 1},
                                .cluster = {at_least_one(fault->cluster), 1, 1},
                                .sm_count = 132,
                                .dependent = fault->dependent};
    run.result = emu_run(&launch, options, run.memory, run.report);
    run.executed = launch.instr_executed;
    return run;
}

void fault_run_end(struct fault_run *run)
{
    emu_report_destroy(run->report);
    emu_memory_destroy(run->memory);
    emu_module_free(run->module);
}
