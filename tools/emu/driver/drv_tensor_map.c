/* Tensor maps. They are made on the host alone: no context is needed. */
#include <string.h>

#include "drv_state.h"
#include "tensor_map.h"

int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *dims,
                           const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
                           int interleave, int swizzle, int l2_promotion, int oob_fill)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(map != NULL && dims != NULL && box != NULL && element_strides != NULL, CUDA_ERROR_INVALID_VALUE);
    if (emu_tensor_map_encode_tiled(map, type, rank, drv_handle(address), dims, strides, box, element_strides,
                                    interleave, swizzle, l2_promotion, oob_fill) != 0)
        return drv_log(DRV_CUDA_ERROR_INVALID_VALUE, "cuTensorMapEncodeTiled: an argument is out of its range");
    return DRV_CUDA_SUCCESS;
}

int cuTensorMapEncodeIm2col(void *map, int type, uint32_t rank, void *address, const uint64_t *dims,
                            const uint64_t *strides, const int *lower, const int *upper, uint32_t channels,
                            uint32_t pixels, const uint32_t *element_strides, int interleave, int swizzle,
                            int l2_promotion, int oob_fill)
{
    (void)map, (void)type, (void)rank, (void)address, (void)dims, (void)strides, (void)lower, (void)upper;
    (void)channels, (void)pixels, (void)element_strides, (void)interleave, (void)swizzle, (void)l2_promotion;
    (void)oob_fill;
    DRV_ENTER(DRV_NEED_INIT);
    return drv_log(DRV_CUDA_ERROR_NOT_SUPPORTED, "the emulated device has tiled tensor maps, no im2col");
}

int cuTensorMapReplaceAddress(void *map, void *address)
{
    struct emu_tensor_map decoded;
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(map != NULL && address != NULL && emu_tensor_map_decode(map, &decoded), CUDA_ERROR_INVALID_VALUE);
    const int result = emu_tensor_map_encode_tiled(
        map, (int)decoded.type, (uint32_t)decoded.rank, drv_handle(address), decoded.dims, decoded.strides + 1,
        decoded.box, decoded.element_strides, decoded.interleave, decoded.swizzle, 0, decoded.fill);
    return result == 0 ? DRV_CUDA_SUCCESS : DRV_CUDA_ERROR_INVALID_VALUE;
}
