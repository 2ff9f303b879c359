/* The descriptions that random calls and bug reports are tried with: few enough to be packed as cubins (shapes.json
 * names the same). Each is prepared once, at its first use. */
#ifndef SMLA_TESTS_GPU_KERNEL_TABLE_H
#define SMLA_TESTS_GPU_KERNEL_TABLE_H

#include "problem.h"

/* First the kernels of one bf16 cache, every count of heads with every d_qk: for who asks for no format. Then those of
 * other formats, and last what is packed for nobody: every other count of heads with every preset. */
enum { KERNEL_HEADS = 9, KERNELS = 2 * KERNEL_HEADS, MOST_KERNELS = 160 };

struct kernel_table {
    struct bench card; /* as bench_open made it */
    int packed;        /* kernels that shapes.json has */
    int all;
    smla_kernel_desc descs[MOST_KERNELS];
    struct bench benches[MOST_KERNELS]; /* on the card's device and context, each with kernels of its own */
};

/* As bench_open and bench_close. */
int kernel_table_open(struct kernel_table *table, char why[PROBLEM_WHY]);
void kernel_table_close(struct kernel_table *table);

/* Of the first KERNELS. */
int32_t kernel_heads(int kernel);
int32_t kernel_width(int kernel); /* d_qk */

/* The number of the kernel of one bf16 cache; -1 when the table has none such. */
int kernel_number(int32_t heads, int32_t width);

/* The number of a kernel of presets: format NULL is bf16, extra NULL none. -1 when none such is packed. */
int kernel_find(const struct kernel_table *table, int32_t heads, int32_t width, const char *format, const char *extra);

/* The count of heads, by number, that coverage speaks of: 1, 6, 8, 16, 32, 64, 66, 80, 128. */
int32_t kernel_head_count(int i);

/* "bf16", "v4 + v4", "a layout": what the kernel reads. */
void kernel_format_text(const smla_kernel_desc *desc, char text[80]);

/* NULL with a sentence in why[] when a kernel cannot be prepared. */
struct bench *kernel_table_bench(struct kernel_table *table, int kernel, char why[PROBLEM_WHY]);

#endif
