/* Two kernels of a stream where the second may start before the first has ended: first writes middle = in + 1, second
 * writes out = 2 middle, once the first's memory is there. A thread an element. */
#include "own.cuh"

extern "C" __global__ void first(const float *in, float *middle)
{
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    middle[i] = in[i] + 1;
}

extern "C" __global__ void second(const float *middle, float *out)
{
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("griddepcontrol.wait;" ::: "memory"); /* the first kernel's memory */
    out[i] = 2 * middle[i];
}
