/* Our declarations of CUDA against the real headers. All of it is checked while compiling. */
#include <cuda.h>
#include <cudaTypedefs.h>
#include <nvrtc.h>

#include <stdio.h>

#include "cuda_types.h"
#include "nvrtc_types.h"

#define CHECK_NUMBER(name, value) _Static_assert((int)(name) == (int)RT_##name, #name);
RT_CUDA_NUMBERS(CHECK_NUMBER)
RT_NVRTC_NUMBERS(CHECK_NUMBER)

#define CHECK_FIELD(field)                                                                                             \
    _Static_assert(offsetof(CUlaunchConfig, field) == offsetof(struct rt_cu_launch_config, field), #field);            \
    _Static_assert(sizeof((CUlaunchConfig *)0)->field == sizeof((struct rt_cu_launch_config *)0)->field, #field);
CHECK_FIELD(gridDimX)
CHECK_FIELD(gridDimY)
CHECK_FIELD(gridDimZ)
CHECK_FIELD(blockDimX)
CHECK_FIELD(blockDimY)
CHECK_FIELD(blockDimZ)
CHECK_FIELD(sharedMemBytes)
CHECK_FIELD(hStream)
CHECK_FIELD(attrs)
CHECK_FIELD(numAttrs)
_Static_assert(sizeof(CUlaunchConfig) == sizeof(struct rt_cu_launch_config), "launch config");
_Static_assert(sizeof(CUlaunchAttribute) == sizeof(struct rt_cu_launch_attribute), "launch attribute");
_Static_assert(offsetof(CUlaunchAttribute, id) == offsetof(struct rt_cu_launch_attribute, id), "launch attribute");
_Static_assert(offsetof(CUlaunchAttribute, value) == offsetof(struct rt_cu_launch_attribute, value), "and its value");
_Static_assert(sizeof(CUlaunchAttributeValue) == sizeof(((struct rt_cu_launch_attribute *)0)->value), "and its value");
_Static_assert(offsetof(CUlaunchAttributeValue, programmaticStreamSerializationAllowed) == 0, "and its member");
_Static_assert(offsetof(CUlaunchAttributeValue, clusterDim.x) == 0, "and its member");
_Static_assert(offsetof(CUlaunchAttributeValue, clusterDim.y) == 4, "and its member");
_Static_assert(offsetof(CUlaunchAttributeValue, clusterDim.z) == 8, "and its member");
_Static_assert(sizeof(CUdevResource) == sizeof(struct rt_cu_multiprocessors), "device resource");
_Static_assert(offsetof(CUdevResource, type) == offsetof(struct rt_cu_multiprocessors, type), "and its type");
_Static_assert(offsetof(CUdevResource, sm.smCount) == offsetof(struct rt_cu_multiprocessors, smCount), "and its count");
_Static_assert(sizeof(CUresult) == sizeof(rt_cu_result), "result");
_Static_assert(sizeof(CUdevice) == sizeof(rt_cu_device), "device");
_Static_assert(sizeof(nvrtcResult) == sizeof(rt_nvrtc_result), "result");

/* PFN_<symbol>_v<version> exists only for versions at which a signature began, and GCC's -Wcast-function-type lets a
 * cast pass only when the parameters have the same representation: so this checks version and signature. */
#if defined(__GNUC__) && !defined(__clang__)
#define CHECK_DRIVER(name, version, parameters)                                                                        \
    {                                                                                                                  \
        PFN_##name##_v##version theirs = 0;                                                                            \
        rt_cu_result(*ours) parameters = (rt_cu_result(*) parameters)theirs;                                           \
        (void)ours;                                                                                                    \
    }
#define CHECK_NVRTC(name, parameters)                                                                                  \
    {                                                                                                                  \
        __typeof__(name) *theirs = 0;                                                                                  \
        rt_nvrtc_result(*ours) parameters = (rt_nvrtc_result(*) parameters)theirs;                                     \
        (void)ours;                                                                                                    \
    }
#else
#define CHECK_DRIVER(name, version, parameters)
#define CHECK_NVRTC(name, parameters)
#endif

int main(void)
{
    RT_DRIVER_SYMBOLS(CHECK_DRIVER)
    RT_DRIVER_TEST_SYMBOLS(CHECK_DRIVER)
    RT_DRIVER_PART_SYMBOLS(CHECK_DRIVER)
    RT_NVRTC_SYMBOLS(CHECK_NVRTC)
    printf("declarations agree with CUDA %d.%d\n", CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
    return 0;
}
