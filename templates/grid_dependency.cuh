/* Programmatic dependent launch: what stands to the kernel before and after this one in the stream. PTX ISA 9.2,
 * 9.7.13.13 griddepcontrol; any target from sm_90 on. Where a launch asked for nothing of the kind there is no
 * prerequisite grid in flight to wait for and no dependent to signal to, so both stand in every kernel. */
#ifndef SMLA_GRID_DEPENDENCY_CUH
#define SMLA_GRID_DEPENDENCY_CUH

/* Waits until the grids before have completed and this thread sees their memory. Each thread executes it before its
 * first access to global memory, of whatever kind: then no order among threads has to carry it. */
__device__ __forceinline__ void griddepcontrol_wait()
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

/* The grid behind may start once each block has executed this in one thread (again does nothing) or has ended; what it
 * reads of this grid it waits for by itself. */
__device__ __forceinline__ void griddepcontrol_launch_dependents()
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

#endif
