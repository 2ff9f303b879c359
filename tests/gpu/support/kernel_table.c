#include "kernel_table.h"

#include <stdio.h>
#include <string.h>

static const int32_t heads[KERNEL_HEADS] = {1, 6, 8, 16, 32, 64, 66, 80, 128};
static const int32_t widths[] = {512, 576};

int32_t kernel_heads(int kernel)
{
    return heads[kernel % KERNEL_HEADS];
}

int32_t kernel_width(int kernel)
{
    return widths[kernel / KERNEL_HEADS];
}

int kernel_number(int32_t wanted_heads, int32_t wanted_width)
{
    for (int kernel = 0; kernel < KERNELS; kernel++)
        if (kernel_heads(kernel) == wanted_heads && kernel_width(kernel) == wanted_width)
            return kernel;
    return -1;
}

int kernel_table_open(struct kernel_table *table, char why[PROBLEM_WHY])
{
    memset(table, 0, sizeof(*table));
    return bench_open(&table->card, why);
}

void kernel_table_close(struct kernel_table *table)
{
    for (int kernel = 0; kernel < KERNELS; kernel++) {
        smla_kernel_destroy(table->benches[kernel].prefill);
        smla_kernel_destroy(table->benches[kernel].reference);
    }
    bench_close(&table->card);
}

struct bench *kernel_table_bench(struct kernel_table *table, int kernel, char why[PROBLEM_WHY])
{
    struct bench *bench = &table->benches[kernel];
    if (bench->prefill)
        return bench;
    *bench = table->card;
    bench->prefill = bench->reference = NULL;
    bench->desc = (smla_kernel_desc){.struct_size = sizeof(bench->desc),
                                     .op = SMLA_OP_PREFILL,
                                     .h_q = kernel_heads(kernel),
                                     .d_qk = kernel_width(kernel)};
    smla_kernel_desc desc = bench->desc;
    smla_status status = smla_prepare(bench->context, &desc, &bench->prefill);
    desc.op = SMLA_OP_PREFILL_REFERENCE;
    if (status == SMLA_OK && !bench->emulated) /* there the CPU reference judges */
        status = smla_prepare(bench->context, &desc, &bench->reference);
    smla_error_info info = {.struct_size = sizeof(info)};
    if (status != SMLA_OK && smla_last_error(&info) == SMLA_OK)
        snprintf(why, PROBLEM_WHY, "smla_prepare: %.900s", info.message);
    return status == SMLA_OK ? bench : NULL;
}
