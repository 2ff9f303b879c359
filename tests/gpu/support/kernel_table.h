/* The descriptions that random calls and bug reports are tried with: few enough to be packed as cubins (shapes.json
 * names the same). Each is prepared once, at its first use. */
#ifndef SMLA_TESTS_GPU_KERNEL_TABLE_H
#define SMLA_TESTS_GPU_KERNEL_TABLE_H

#include "problem.h"

enum { KERNEL_HEADS = 9, KERNELS = 2 * KERNEL_HEADS };

struct kernel_table {
    struct bench card;             /* as bench_open made it */
    struct bench benches[KERNELS]; /* on the card's device and context, each with kernels of its own */
};

/* As bench_open and bench_close. */
int kernel_table_open(struct kernel_table *table, char why[PROBLEM_WHY]);
void kernel_table_close(struct kernel_table *table);

int32_t kernel_heads(int kernel);
int32_t kernel_width(int kernel); /* d_qk */

/* The number of the kernel; -1 when the table has none such. */
int kernel_number(int32_t heads, int32_t width);

/* NULL with a sentence in why[] when a kernel cannot be prepared. */
struct bench *kernel_table_bench(struct kernel_table *table, int kernel, char why[PROBLEM_WHY]);

#endif
