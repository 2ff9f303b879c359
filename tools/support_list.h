/* What smla-gen --list prints: the generator's table of what is supported. */
#ifndef SMLA_TOOLS_SUPPORT_LIST_H
#define SMLA_TOOLS_SUPPORT_LIST_H

#include <jansson.h>
#include <stdbool.h>

/* Prints the table; targets that have the same kernels stand together. False when stdout cannot be written. */
bool support_list_print(void);

/* The table, as an array of an object a row. NULL when out of memory. */
json_t *support_list_json(void);

#endif
