/* Prints, for each PTX file, what loading it took and gave: opcodes, instructions, rows a warp, milliseconds.
 * A file that is refused says why. */
#include "decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    if (fseek(file, 0, SEEK_END) != 0) {
        fclose(file);
        return NULL;
    }
    *size = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(*size + 1);
    if (text && fread(text, 1, *size, file) != *size) {
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}

/* Opcodes are interned: equal ones are one pointer. */
static int by_pointer(const void *a, const void *b)
{
    const char *const *left = a, *const *right = b;
    return (*left > *right) - (*left < *right);
}

static size_t distinct_opcodes(const struct emu_module *module)
{
    size_t total = 0, distinct = 0;
    for (uint32_t k = 0; k < module->kernel_count; k++)
        total += module->kernels[k].instr_count;
    const char **texts = calloc(total + 1, sizeof *texts);
    if (!texts)
        return 0;
    total = 0;
    for (uint32_t k = 0; k < module->kernel_count; k++)
        for (uint32_t pc = 0; pc < module->kernels[k].instr_count; pc++)
            texts[total++] = module->kernels[k].instrs[pc].text;
    qsort(texts, total, sizeof *texts, by_pointer);
    for (size_t i = 0; i < total; i++)
        distinct += !i || texts[i] != texts[i - 1];
    free(texts);
    return distinct;
}

static void print_kernels(const struct emu_module *module)
{
    for (uint32_t k = 0; k < module->kernel_count; k++) {
        const struct emu_kernel *kernel = &module->kernels[k];
        unsigned bytes = kernel->row32_count * 128 + kernel->row64_count * 256 + kernel->pred_count * 4;
        printf("  %.50s: %u instrs, rows %u x32 %u x64 %u preds = %.1f KiB a warp, registers %u, shared %llu\n",
               kernel->name, kernel->instr_count, kernel->row32_count, kernel->row64_count, kernel->pred_count,
               bytes / 1024.0, kernel->launch_registers, (unsigned long long)kernel->static_shared_bytes);
    }
}

static bool print_file(const char *path)
{
    char why[512];
    size_t size = 0;
    char *text = read_file(path, &size);
    if (!text)
        return false;
    double start = now_ms();
    struct emu_module *module = emu_module_load_rows(text, size, emu_opcode_table, emu_opcode_table_count, why);
    double loaded = now_ms();
    free(text);
    if (!module) {
        printf("%s: %s\n", path, why);
        return false;
    }
    printf("%s: %zu KiB, %.1f ms, %zu opcodes\n", path, size / 1024, loaded - start, distinct_opcodes(module));
    print_kernels(module);
    emu_module_free(module);
    return true;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++)
        failed += !print_file(argv[i]);
    return failed != 0;
}
