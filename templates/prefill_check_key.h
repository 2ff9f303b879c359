/* How the check names a place in the lists of a call: one number, the smaller the earlier. Included by the runtime
 * (C11) and by the template (CUDA).
 *
 *   bits 32 up: the query token     bit 31: the cache     bits 30 to 0: 0 the length, 1 + slot an entry
 */
#ifndef SMLA_PREFILL_CHECK_KEY_H
#define SMLA_PREFILL_CHECK_KEY_H

#define SMLA_CHECK_NOTHING 0xffffffffffffffffull /* no place: tokens are below 2^31 */

#define SMLA_CHECK_TOKEN(key) ((long long)((key) >> 32))
#define SMLA_CHECK_CACHE(key) ((int)((key) >> 31 & 1))
#define SMLA_CHECK_SLOT(key) ((int)((key)&0x7fffffff) - 1) /* -1: the length */

#endif
