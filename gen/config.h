/* The two generated headers of a kernel. */
#ifndef SMLA_GEN_CONFIG_H
#define SMLA_GEN_CONFIG_H

#include "plan.h"

/* "smla_config.cuh": the plan's numbers as named constants, each with unit and who decided it. */
void gen_config_print(const struct gen_spec *spec, const struct gen_plan *plan, struct gen_text *text);

/* "smla_wgmma.cuh": one wrapper for each wgmma shape of the plan, operand lists spelled out. */
void gen_wgmma_print(const struct gen_plan *plan, struct gen_text *text);

#endif
