/* Our declarations of the driver interface beside the real cuda.h: numbers, layouts, names and versions. Compiling is
 * most of the test. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#undef __CUDA_API_VERSION_INTERNAL

#include <stdio.h>
#include <string.h>

#include "cuda_abi.h"

#define SAME_NUMBER(name, value) _Static_assert((long long)(name) == (value), #name);
#define SAME_RESULT(name, value, text) SAME_NUMBER(name, value)
CU_RESULTS(SAME_RESULT)
/* Masks and the like that cuda.h has under the same names; MAX_L2_FETCH_GRANULARITY and PERSISTING_L2 too. */
CU_NUMBERS(SAME_NUMBER)

#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(struct ours) == sizeof(theirs), #theirs);
#define SAME_PLACE(ours, member, theirs, their_member)                                                                 \
    _Static_assert(offsetof(struct ours, member) == offsetof(theirs, their_member), #theirs "." #their_member);

SAME_SIZE(cu_uuid, CUuuid)
SAME_SIZE(cu_location, CUmemLocation)
SAME_SIZE(cu_copy3d, CUDA_MEMCPY3D)
SAME_PLACE(cu_copy3d, src_device, CUDA_MEMCPY3D, srcDevice)
SAME_PLACE(cu_copy3d, dst_x, CUDA_MEMCPY3D, dstXInBytes)
SAME_PLACE(cu_copy3d, dst_host, CUDA_MEMCPY3D, dstHost)
SAME_PLACE(cu_copy3d, width, CUDA_MEMCPY3D, WidthInBytes)
SAME_PLACE(cu_copy3d, depth, CUDA_MEMCPY3D, Depth)
SAME_SIZE(cu_copy2d, CUDA_MEMCPY2D)
SAME_PLACE(cu_copy2d, src_pitch, CUDA_MEMCPY2D, srcPitch)
SAME_PLACE(cu_copy2d, dst_type, CUDA_MEMCPY2D, dstMemoryType)
SAME_PLACE(cu_copy2d, height, CUDA_MEMCPY2D, Height)
SAME_SIZE(cu_memset_params, CUDA_MEMSET_NODE_PARAMS)
SAME_PLACE(cu_memset_params, element_bytes, CUDA_MEMSET_NODE_PARAMS, elementSize)
SAME_PLACE(cu_memset_params, height, CUDA_MEMSET_NODE_PARAMS, height)
SAME_SIZE(cu_host_params, CUDA_HOST_NODE_PARAMS)
SAME_SIZE(cu_kernel_node_params_v1, CUDA_KERNEL_NODE_PARAMS_v1)
SAME_SIZE(cu_kernel_node_params, CUDA_KERNEL_NODE_PARAMS_v2)
SAME_PLACE(cu_kernel_node_params, shared_bytes, CUDA_KERNEL_NODE_PARAMS_v2, sharedMemBytes)
SAME_PLACE(cu_kernel_node_params, kernel, CUDA_KERNEL_NODE_PARAMS_v2, kern)
SAME_SIZE(cu_launch_attribute, CUlaunchAttribute)
SAME_PLACE(cu_launch_attribute, value, CUlaunchAttribute, value)
SAME_PLACE(cu_launch_attribute, value.event.event, CUlaunchAttribute, value.programmaticEvent.event)
SAME_SIZE(cu_launch_config, CUlaunchConfig)
SAME_PLACE(cu_launch_config, block, CUlaunchConfig, blockDimX)
SAME_PLACE(cu_launch_config, stream, CUlaunchConfig, hStream)
SAME_PLACE(cu_launch_config, attribute_count, CUlaunchConfig, numAttrs)
SAME_SIZE(cu_instantiate_params, CUDA_GRAPH_INSTANTIATE_PARAMS)
SAME_PLACE(cu_instantiate_params, result, CUDA_GRAPH_INSTANTIATE_PARAMS, result_out)
SAME_SIZE(cu_update_result, CUgraphExecUpdateResultInfo)
SAME_SIZE(cu_edge_data, CUgraphEdgeData)
SAME_SIZE(cu_context_params, CUctxCreateParams)

int main(void)
{
    puts("driver_header: all is as in cuda.h");
    return 0;
}
