/* What smla uses of NVRTC, declared by itself. tests/runtime/cuda_header_test.c compares it with the real nvrtc.h. */
#ifndef SMLA_RUNTIME_NVRTC_TYPES_H
#define SMLA_RUNTIME_NVRTC_TYPES_H

#include <stddef.h>

typedef int rt_nvrtc_result;
typedef struct rt_nvrtc_program_opaque *rt_nvrtc_program;

/* nvrtc.h's enumerators, here with RT_ before the name. */
#define RT_NVRTC_NUMBERS(X)                                                                                            \
    X(NVRTC_SUCCESS, 0)                                                                                                \
    X(NVRTC_ERROR_OUT_OF_MEMORY, 1)                                                                                    \
    X(NVRTC_ERROR_INVALID_OPTION, 5)                                                                                   \
    X(NVRTC_ERROR_COMPILATION, 6)                                                                                      \
    X(NVRTC_ERROR_BUILTIN_OPERATION_FAILURE, 7)                                                                        \
    X(NVRTC_ERROR_INTERNAL_ERROR, 11)

enum {
#define RT_NVRTC_ENUM(name, value) RT_##name = (value),
    RT_NVRTC_NUMBERS(RT_NVRTC_ENUM)
#undef RT_NVRTC_ENUM
};

/* Every NVRTC symbol: name, parameters. All return rt_nvrtc_result, but nvrtcGetErrorString. */
#define RT_NVRTC_SYMBOLS(X)                                                                                            \
    X(nvrtcVersion, (int *major, int *minor))                                                                          \
    X(nvrtcGetNumSupportedArchs, (int *count))                                                                         \
    X(nvrtcGetSupportedArchs, (int *archs))                                                                            \
    X(nvrtcCreateProgram, (rt_nvrtc_program * program, const char *source, const char *name, int header_count,         \
                           const char *const *headers, const char *const *header_names))                               \
    X(nvrtcDestroyProgram, (rt_nvrtc_program * program))                                                               \
    X(nvrtcCompileProgram, (rt_nvrtc_program program, int option_count, const char *const *options))                   \
    X(nvrtcGetPTXSize, (rt_nvrtc_program program, size_t * size))                                                      \
    X(nvrtcGetPTX, (rt_nvrtc_program program, char *bytes))                                                            \
    X(nvrtcGetCUBINSize, (rt_nvrtc_program program, size_t * size))                                                    \
    X(nvrtcGetCUBIN, (rt_nvrtc_program program, char *bytes))                                                          \
    X(nvrtcGetProgramLogSize, (rt_nvrtc_program program, size_t * size))                                               \
    X(nvrtcGetProgramLog, (rt_nvrtc_program program, char *log))

#endif
