/* Cache formats that no preset is: made of the same ingredients, with no kernel code of their own.
 * tests/gpu/shapes.json has them too. */
#ifndef SMLA_TESTS_GPU_LAYOUTS_H
#define SMLA_TESTS_GPU_LAYOUTS_H

#include "smla/smla.h"

extern const smla_kv_layout layout_e2m1_fp32_page;  /* d 512 */
extern const smla_kv_layout layout_e4m3_e4m3_token; /* d 576 */
extern const smla_kv_layout layout_e4m3_one_scale;  /* d 512 */
extern const smla_kv_layout layout_bf16_page;       /* d 512; without scales the same as placed by token */

#endif
