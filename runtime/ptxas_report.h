/* Reads what ptxas says of a kernel (--ptxas-options=-v). */
#ifndef SMLA_RUNTIME_PTXAS_REPORT_H
#define SMLA_RUNTIME_PTXAS_REPORT_H

#include <stdint.h>

/* -1: the report does not say. */
struct rt_ptxas_report {
    int32_t registers; /* a thread */
    int32_t spill_store_bytes;
    int32_t spill_load_bytes;
    int32_t stack_bytes;
    int32_t static_shared_bytes; /* 0 when the line does not name any */
};

/* Finds the entry function `symbol` in the report. */
struct rt_ptxas_report rt_ptxas_report_read(const char *log, const char *symbol);

/* Takes the lines that differ from run to run (compile times) out of a report, in place. */
void rt_ptxas_report_clean(char *log);

#endif
