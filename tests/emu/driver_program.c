/* A program of the driver API as anyone would write it, with the real cuda.h and -lcuda: vector addition through a
 * captured graph, timed by events. It knows nothing of the emulated device. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver_ptx.h"

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        const CUresult result = (call);                                                                                \
        const char *what = NULL;                                                                                       \
        if (result != CUDA_SUCCESS) {                                                                                  \
            cuGetErrorName(result, &what);                                                                             \
            fprintf(stderr, "%s: %s\n", #call, what != NULL ? what : "?");                                             \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { COUNT = 3000 };

int main(void)
{
    static float in[COUNT], out[COUNT];
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction vecadd;
    CUstream stream;
    CUevent begin, end;
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr a, b, c;
    unsigned int count = COUNT;
    float ms = 0;
    char name[64];
    for (int i = 0; i < COUNT; i++)
        in[i] = (float)i;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDeviceGetName(name, sizeof name, device));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, ptx_vecadd));
    CHECK(cuModuleGetFunction(&vecadd, module, "vecadd"));
    CHECK(cuMemAlloc(&a, sizeof in));
    CHECK(cuMemAlloc(&b, sizeof in));
    CHECK(cuMemAlloc(&c, sizeof in));
    CHECK(cuMemcpyHtoD(a, in, sizeof in));
    CHECK(cuMemcpyHtoD(b, in, sizeof in));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&begin, CU_EVENT_DEFAULT));
    CHECK(cuEventCreate(&end, CU_EVENT_DEFAULT));
    void *params[] = {&a, &b, &c, &count};
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuLaunchKernel(vecadd, (COUNT + 127) / 128, 1, 1, 128, 1, 1, 0, stream, params, NULL));
    CHECK(cuMemcpyDtoHAsync(out, c, sizeof out, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuEventRecord(begin, stream));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuEventRecord(end, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuEventElapsedTime(&ms, begin, end));
    for (int i = 0; i < COUNT; i++) {
        if (out[i] != 2 * in[i]) {
            fprintf(stderr, "element %d is %g\n", i, (double)out[i]);
            return 1;
        }
    }
    printf("vecadd on %s: %g ms\n", name, (double)ms);
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuEventDestroy(begin));
    CHECK(cuEventDestroy(end));
    CHECK(cuStreamDestroy(stream));
    CHECK(cuModuleUnload(module));
    CHECK(cuMemFree(a));
    CHECK(cuDevicePrimaryCtxRelease(device));
    return 0;
}
