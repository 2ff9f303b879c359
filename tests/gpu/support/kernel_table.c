#include "kernel_table.h"

#include <stdio.h>
#include <string.h>

#include "layouts.h"

static const int32_t heads[KERNEL_HEADS] = {1, 6, 8, 16, 32, 64, 66, 80, 128};
static const int32_t widths[] = {512, 576};

/* Besides bf16: two formats with every count of heads, the others with few. */
static const struct row {
    int32_t width;
    int32_t heads[KERNEL_HEADS]; /* 0 ends */
    const char *format, *extra;
    const smla_kv_layout *layout, *extra_layout;
} rows[] = {
    {576, {1, 6, 8, 16, 32, 64, 66, 80, 128}, .format = "v32"},
    {512, {1, 6, 8, 16, 32, 64, 66, 80, 128}, .format = "v4"},
    {512, {64, 16}, .format = "v32_norope"},
    {512, {64, 6}, .format = "v41"},
    {512, {64, 32}, .format = "v41_planar"},
    {512, {64, 8}, .format = "v41_fp4"},
    {512, {64, 1}, .format = "v41_fp4_planar"},
    {512, {64, 66}, .format = "hopper_fp4"},
    {512, {64, 16}, .format = "v4", .extra = "v4"},
    {512, {64, 32}, .format = "v41", .extra = "v41_fp4"},
    {512, {64}, .format = "v41", .extra = "v41"},
    {512, {64}, .format = "v41_planar", .extra = "v41_fp4_planar"},
    {512, {64, 8}, .format = "bf16", .extra = "bf16"},
    {512, {64}, .format = "bf16", .extra = "v41"},
    {512, {64}, .format = "v41_fp4", .extra = "bf16"},
    {576, {64, 6}, .format = "v32", .extra = "v32"},
    {512, {64}, .layout = &layout_e2m1_fp32_page},
    {576, {64}, .layout = &layout_e4m3_e4m3_token},
    {512, {64}, .layout = &layout_e4m3_one_scale},
    {512, {64}, .layout = &layout_e4m3_one_scale, .extra_layout = &layout_e2m1_fp32_page},
};

int32_t kernel_heads(int kernel)
{
    return heads[kernel % KERNEL_HEADS];
}

int32_t kernel_head_count(int i)
{
    return heads[i];
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

static bool same_name(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

int kernel_find(const struct kernel_table *table, int32_t wanted_heads, int32_t wanted_width, const char *format,
                const char *extra)
{
    for (int kernel = 0; kernel < table->packed; kernel++) {
        const smla_kernel_desc *desc = &table->descs[kernel];
        if (desc->h_q == wanted_heads && desc->d_qk == wanted_width && !desc->kv_layout &&
            same_name(desc->kv_format, format) && same_name(desc->extra_kv_format, extra))
            return kernel;
    }
    return -1;
}

void kernel_format_text(const smla_kernel_desc *desc, char text[80])
{
    const char *first = desc->kv_layout ? "a layout" : desc->kv_format ? desc->kv_format : "bf16";
    const char *second = desc->extra_kv_layout ? "a layout" : desc->extra_kv_format;
    snprintf(text, 80, "%s%s%s", first, second ? " + " : "", second ? second : "");
}

static void add(struct kernel_table *table, int32_t h_q, const struct row *row)
{
    table->descs[table->all++] = (smla_kernel_desc){.struct_size = sizeof(smla_kernel_desc),
                                                    .op = SMLA_OP_PREFILL,
                                                    .h_q = h_q,
                                                    .d_qk = row->width,
                                                    .kv_format = row->format,
                                                    .extra_kv_format = row->extra,
                                                    .kv_layout = row->layout,
                                                    .extra_kv_layout = row->extra_layout};
}

static void list_packed(struct kernel_table *table)
{
    for (int kernel = 0; kernel < KERNELS; kernel++) {
        const struct row bf16 = {.width = kernel_width(kernel)};
        add(table, kernel_heads(kernel), &bf16);
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (int h = 0; h < KERNEL_HEADS && rows[i].heads[h]; h++)
            add(table, rows[i].heads[h], &rows[i]);
    table->packed = table->all;
}

static bool has_heads(const struct row *row, int32_t h_q)
{
    bool found = false;
    for (int h = 0; h < KERNEL_HEADS; h++)
        found |= row->heads[h] == h_q;
    return found;
}

/* Every other count of heads with every preset. */
static void list_others(struct kernel_table *table)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (int h = 0; h < KERNEL_HEADS; h++)
            if (!has_heads(&rows[i], heads[h]) && table->all < MOST_KERNELS && !rows[i].extra && !rows[i].layout)
                add(table, heads[h], &rows[i]);
}

int kernel_table_open(struct kernel_table *table, char why[PROBLEM_WHY])
{
    memset(table, 0, sizeof(*table));
    list_packed(table);
    list_others(table);
    return bench_open(&table->card, why);
}

void kernel_table_close(struct kernel_table *table)
{
    for (int kernel = 0; kernel < table->all; kernel++) {
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
    bench->desc = table->descs[kernel];
    const smla_kernel_desc *desc = &bench->desc;
    const smla_kernel_desc reference = {
        .struct_size = sizeof(reference), .op = SMLA_OP_PREFILL_REFERENCE, .h_q = desc->h_q, .d_qk = desc->d_qk};
    smla_status status = smla_prepare(bench->context, desc, &bench->prefill);
    if (status == SMLA_OK && !bench->emulated) /* there the CPU reference judges */
        status = smla_prepare(bench->context, &reference, &bench->reference);
    smla_error_info info = {.struct_size = sizeof(info)};
    if (status != SMLA_OK && smla_last_error(&info) == SMLA_OK)
        snprintf(why, PROBLEM_WHY, "smla_prepare: %.900s", info.message);
    return status == SMLA_OK ? bench : NULL;
}
