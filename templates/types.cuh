/* Types of fixed width. NVRTC has no <stdint.h> without an include path, and users need no toolkit headers. */
#ifndef SMLA_TYPES_CUH
#define SMLA_TYPES_CUH

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

static_assert(sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8, "");

#endif
