/* Every driver function that the emulated device has: one row gives the declaration and the entry point's name and
 * version. Rows follow cuda.h of CUDA 13.0; tests/emu/test_driver_header.c compares them. */
#ifndef EMU_DRIVER_FUNCTIONS_H
#define EMU_DRIVER_FUNCTIONS_H

#include "cuda_abi.h"

/* Exported name, name asked of cuGetProcAddress, first API version with this signature (cudaTypedefs.h), parameters.
 * All return int, a CUresult. */
#define DRV_FUNCTIONS(X)                                                                                               \
    /* Errors, versions, entry points */                                                                               \
    X(cuGetErrorName, cuGetErrorName, 6000, (int error, const char **pStr))                                            \
    X(cuGetErrorString, cuGetErrorString, 6000, (int error, const char **pStr))                                        \
    X(cuInit, cuInit, 2000, (unsigned int Flags))                                                                      \
    X(cuDriverGetVersion, cuDriverGetVersion, 2020, (int *driverVersion))                                              \
    X(cuGetProcAddress, cuGetProcAddress, 11030, (const char *symbol, void **pfn, int cudaVersion, uint64_t flags))    \
    X(cuGetProcAddress_v2, cuGetProcAddress, 12000,                                                                    \
      (const char *symbol, void **pfn, int cudaVersion, uint64_t flags, int *symbolStatus))                            \
    X(cuGetExportTable, cuGetExportTable, 3000, (const void **ppExportTable, const struct cu_uuid *pExportTableId))    \
    X(cuLogsRegisterCallback, cuLogsRegisterCallback, 12090,                                                           \
      (cu_logs_callback callbackFunc, void *userData, cu_logs_handle *callback_out))                                   \
    X(cuLogsUnregisterCallback, cuLogsUnregisterCallback, 12090, (cu_logs_handle callback))                            \
    X(cuLogsCurrent, cuLogsCurrent, 12090, (unsigned int *iterator_out, unsigned int flags))                           \
    X(cuLogsDumpToFile, cuLogsDumpToFile, 12090, (unsigned int *iterator, const char *pathToFile, unsigned int flags)) \
    X(cuLogsDumpToMemory, cuLogsDumpToMemory, 12090,                                                                   \
      (unsigned int *iterator, char *buffer, size_t *size, unsigned int flags))                                        \
    /* Devices */                                                                                                      \
    X(cuDeviceGet, cuDeviceGet, 2000, (int *device, int ordinal))                                                      \
    X(cuDeviceGetCount, cuDeviceGetCount, 2000, (int *count))                                                          \
    X(cuDeviceGetName, cuDeviceGetName, 2000, (char *name, int len, int dev))                                          \
    X(cuDeviceGetUuid, cuDeviceGetUuid, 9020, (struct cu_uuid * uuid, int dev))                                        \
    X(cuDeviceGetUuid_v2, cuDeviceGetUuid, 11040, (struct cu_uuid * uuid, int dev))                                    \
    X(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020, (size_t * bytes, int dev))                                          \
    X(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000, (int *pi, int attrib, int dev))                                \
    X(cuDeviceComputeCapability, cuDeviceComputeCapability, 2000, (int *major, int *minor, int dev))                   \
    X(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, 4010, (char *pciBusId, int len, int dev))                              \
    X(cuDeviceGetByPCIBusId, cuDeviceGetByPCIBusId, 4010, (int *dev, const char *pciBusId))                            \
    X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, 4000, (int *canAccessPeer, int dev, int peerDev))                  \
    X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020, (cu_pool * pool_out, int dev))                      \
    X(cuDeviceGetMemPool, cuDeviceGetMemPool, 11020, (cu_pool * pool, int dev))                                        \
    X(cuDeviceSetMemPool, cuDeviceSetMemPool, 11020, (int dev, cu_pool pool))                                          \
    /* Contexts */                                                                                                     \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, (cu_context * pctx, int dev))                          \
    X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, (int dev))                                       \
    X(cuDevicePrimaryCtxSetFlags_v2, cuDevicePrimaryCtxSetFlags, 11000, (int dev, unsigned int flags))                 \
    X(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000, (int dev, unsigned int *flags, int *active))       \
    X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, (int dev))                                           \
    X(cuCtxCreate_v2, cuCtxCreate, 3020, (cu_context * pctx, unsigned int flags, int dev))                             \
    X(cuCtxCreate_v3, cuCtxCreate, 11040,                                                                              \
      (cu_context * pctx, void *paramsArray, int numParams, unsigned int flags, int dev))                              \
    X(cuCtxCreate_v4, cuCtxCreate, 12050, (cu_context * pctx, void *ctxCreateParams, unsigned int flags, int dev))     \
    X(cuCtxDestroy_v2, cuCtxDestroy, 4000, (cu_context ctx))                                                           \
    X(cuCtxPushCurrent_v2, cuCtxPushCurrent, 4000, (cu_context ctx))                                                   \
    X(cuCtxPopCurrent_v2, cuCtxPopCurrent, 4000, (cu_context * pctx))                                                  \
    X(cuCtxSetCurrent, cuCtxSetCurrent, 4000, (cu_context ctx))                                                        \
    X(cuCtxGetCurrent, cuCtxGetCurrent, 4000, (cu_context * pctx))                                                     \
    X(cuCtxGetDevice, cuCtxGetDevice, 2000, (int *device))                                                             \
    X(cuCtxGetDevice_v2, cuCtxGetDevice, 13000, (int *device, cu_context ctx))                                         \
    X(cuCtxGetFlags, cuCtxGetFlags, 7000, (unsigned int *flags))                                                       \
    X(cuCtxSetFlags, cuCtxSetFlags, 12010, (unsigned int flags))                                                       \
    X(cuCtxGetId, cuCtxGetId, 12000, (cu_context ctx, uint64_t * ctxId))                                               \
    X(cuCtxSynchronize, cuCtxSynchronize, 2000, (void))                                                                \
    X(cuCtxSynchronize_v2, cuCtxSynchronize, 13000, (cu_context ctx))                                                  \
    X(cuCtxSetLimit, cuCtxSetLimit, 3010, (int limit, size_t value))                                                   \
    X(cuCtxGetLimit, cuCtxGetLimit, 3010, (size_t * pvalue, int limit))                                                \
    X(cuCtxGetCacheConfig, cuCtxGetCacheConfig, 3020, (int *pconfig))                                                  \
    X(cuCtxSetCacheConfig, cuCtxSetCacheConfig, 3020, (int config))                                                    \
    X(cuCtxGetApiVersion, cuCtxGetApiVersion, 3020, (cu_context ctx, unsigned int *version))                           \
    X(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange, 5050, (int *leastPriority, int *greatestPriority))     \
    X(cuCtxResetPersistingL2Cache, cuCtxResetPersistingL2Cache, 11000, (void))                                         \
    /* Memory */                                                                                                       \
    X(cuMemGetInfo_v2, cuMemGetInfo, 3020, (size_t * free, size_t * total))                                            \
    X(cuMemAlloc_v2, cuMemAlloc, 3020, (uint64_t * dptr, size_t bytesize))                                             \
    X(cuMemAllocPitch_v2, cuMemAllocPitch, 3020,                                                                       \
      (uint64_t * dptr, size_t * pPitch, size_t WidthInBytes, size_t Height, unsigned int ElementSizeBytes))           \
    X(cuMemAllocManaged, cuMemAllocManaged, 6000, (uint64_t * dptr, size_t bytesize, unsigned int flags))              \
    X(cuMemFree_v2, cuMemFree, 3020, (uint64_t dptr))                                                                  \
    X(cuMemGetAddressRange_v2, cuMemGetAddressRange, 3020, (uint64_t * pbase, size_t * psize, uint64_t dptr))          \
    X(cuMemAllocHost_v2, cuMemAllocHost, 3020, (void **pp, size_t bytesize))                                           \
    X(cuMemHostAlloc, cuMemHostAlloc, 2020, (void **pp, size_t bytesize, unsigned int Flags))                          \
    X(cuMemFreeHost, cuMemFreeHost, 2000, (void *p))                                                                   \
    X(cuMemHostGetDevicePointer_v2, cuMemHostGetDevicePointer, 3020, (uint64_t * pdptr, void *p, unsigned int Flags))  \
    X(cuMemHostGetFlags, cuMemHostGetFlags, 2030, (unsigned int *pFlags, void *p))                                     \
    X(cuMemHostRegister_v2, cuMemHostRegister, 6050, (void *p, size_t bytesize, unsigned int Flags))                   \
    X(cuMemHostUnregister, cuMemHostUnregister, 4000, (void *p))                                                       \
    X(cuMemAllocAsync, cuMemAllocAsync, 11020, (uint64_t * dptr, size_t bytesize, cu_stream hStream))                  \
    X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020,                                                         \
      (uint64_t * dptr, size_t bytesize, cu_pool pool, cu_stream hStream))                                             \
    X(cuMemFreeAsync, cuMemFreeAsync, 11020, (uint64_t dptr, cu_stream hStream))                                       \
    X(cuMemPoolCreate, cuMemPoolCreate, 11020, (cu_pool * pool, const void *poolProps))                                \
    X(cuMemPoolDestroy, cuMemPoolDestroy, 11020, (cu_pool pool))                                                       \
    X(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, (cu_pool pool, size_t minBytesToKeep))                                  \
    X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020, (cu_pool pool, int attr, void *value))                      \
    X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020, (cu_pool pool, int attr, void *value))                      \
    X(cuPointerGetAttribute, cuPointerGetAttribute, 4000, (void *data, int attribute, uint64_t ptr))                   \
    X(cuPointerGetAttributes, cuPointerGetAttributes, 7000,                                                            \
      (unsigned int numAttributes, int *attributes, void **data, uint64_t ptr))                                        \
    X(cuPointerSetAttribute, cuPointerSetAttribute, 6000, (const void *value, int attribute, uint64_t ptr))            \
    X(cuMemAdvise, cuMemAdvise, 8000, (uint64_t devPtr, size_t count, int advice, int device))                         \
    X(cuMemAdvise_v2, cuMemAdvise, 12020, (uint64_t devPtr, size_t count, int advice, struct cu_location location))    \
    X(cuMemPrefetchAsync, cuMemPrefetchAsync, 8000, (uint64_t devPtr, size_t count, int dstDevice, cu_stream hStream)) \
    X(cuMemPrefetchAsync_v2, cuMemPrefetchAsync, 12020,                                                                \
      (uint64_t devPtr, size_t count, struct cu_location location, unsigned int flags, cu_stream hStream))             \
    /* Copies and fills */                                                                                             \
    X(cuMemcpy, cuMemcpy, 4000, (uint64_t dst, uint64_t src, size_t ByteCount))                                        \
    X(cuMemcpyAsync, cuMemcpyAsync, 4000, (uint64_t dst, uint64_t src, size_t ByteCount, cu_stream hStream))           \
    X(cuMemcpyPeer, cuMemcpyPeer, 4000,                                                                                \
      (uint64_t dstDevice, cu_context dstContext, uint64_t srcDevice, cu_context srcContext, size_t ByteCount))        \
    X(cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000,                                                                      \
      (uint64_t dstDevice, cu_context dstContext, uint64_t srcDevice, cu_context srcContext, size_t ByteCount,         \
       cu_stream hStream))                                                                                             \
    X(cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020, (uint64_t dstDevice, const void *srcHost, size_t ByteCount))                \
    X(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, (void *dstHost, uint64_t srcDevice, size_t ByteCount))                      \
    X(cuMemcpyDtoD_v2, cuMemcpyDtoD, 3020, (uint64_t dstDevice, uint64_t srcDevice, size_t ByteCount))                 \
    X(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, 3020,                                                                   \
      (uint64_t dstDevice, const void *srcHost, size_t ByteCount, cu_stream hStream))                                  \
    X(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, 3020,                                                                   \
      (void *dstHost, uint64_t srcDevice, size_t ByteCount, cu_stream hStream))                                        \
    X(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, 3020,                                                                   \
      (uint64_t dstDevice, uint64_t srcDevice, size_t ByteCount, cu_stream hStream))                                   \
    X(cuMemcpy2D_v2, cuMemcpy2D, 3020, (const struct cu_copy2d *pCopy))                                                \
    X(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned, 3020, (const struct cu_copy2d *pCopy))                              \
    X(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, 3020, (const struct cu_copy2d *pCopy, cu_stream hStream))                   \
    X(cuMemcpy3D_v2, cuMemcpy3D, 3020, (const struct cu_copy3d *pCopy))                                                \
    X(cuMemcpy3DAsync_v2, cuMemcpy3DAsync, 3020, (const struct cu_copy3d *pCopy, cu_stream hStream))                   \
    X(cuMemsetD8_v2, cuMemsetD8, 3020, (uint64_t dstDevice, unsigned char uc, size_t N))                               \
    X(cuMemsetD16_v2, cuMemsetD16, 3020, (uint64_t dstDevice, unsigned short us, size_t N))                            \
    X(cuMemsetD32_v2, cuMemsetD32, 3020, (uint64_t dstDevice, unsigned int ui, size_t N))                              \
    X(cuMemsetD2D8_v2, cuMemsetD2D8, 3020,                                                                             \
      (uint64_t dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height))                            \
    X(cuMemsetD2D16_v2, cuMemsetD2D16, 3020,                                                                           \
      (uint64_t dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height))                           \
    X(cuMemsetD2D32_v2, cuMemsetD2D32, 3020,                                                                           \
      (uint64_t dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height))                             \
    X(cuMemsetD8Async, cuMemsetD8Async, 3020, (uint64_t dstDevice, unsigned char uc, size_t N, cu_stream hStream))     \
    X(cuMemsetD16Async, cuMemsetD16Async, 3020, (uint64_t dstDevice, unsigned short us, size_t N, cu_stream hStream))  \
    X(cuMemsetD32Async, cuMemsetD32Async, 3020, (uint64_t dstDevice, unsigned int ui, size_t N, cu_stream hStream))    \
    X(cuMemsetD2D8Async, cuMemsetD2D8Async, 3020,                                                                      \
      (uint64_t dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height, cu_stream hStream))         \
    X(cuMemsetD2D16Async, cuMemsetD2D16Async, 3020,                                                                    \
      (uint64_t dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height, cu_stream hStream))        \
    X(cuMemsetD2D32Async, cuMemsetD2D32Async, 3020,                                                                    \
      (uint64_t dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height, cu_stream hStream))          \
    /* Streams and events */                                                                                           \
    X(cuStreamCreate, cuStreamCreate, 2000, (cu_stream * phStream, unsigned int Flags))                                \
    X(cuStreamCreateWithPriority, cuStreamCreateWithPriority, 5050,                                                    \
      (cu_stream * phStream, unsigned int flags, int priority))                                                        \
    X(cuStreamDestroy_v2, cuStreamDestroy, 4000, (cu_stream hStream))                                                  \
    X(cuStreamQuery, cuStreamQuery, 2000, (cu_stream hStream))                                                         \
    X(cuStreamSynchronize, cuStreamSynchronize, 2000, (cu_stream hStream))                                             \
    X(cuStreamWaitEvent, cuStreamWaitEvent, 3020, (cu_stream hStream, cu_event hEvent, unsigned int Flags))            \
    X(cuStreamGetPriority, cuStreamGetPriority, 5050, (cu_stream hStream, int *priority))                              \
    X(cuStreamGetFlags, cuStreamGetFlags, 5050, (cu_stream hStream, unsigned int *flags))                              \
    X(cuStreamGetId, cuStreamGetId, 12000, (cu_stream hStream, uint64_t * streamId))                                   \
    X(cuStreamGetCtx, cuStreamGetCtx, 9020, (cu_stream hStream, cu_context * pctx))                                    \
    X(cuStreamGetCtx_v2, cuStreamGetCtx, 12050, (cu_stream hStream, cu_context * pCtx, void **pGreenCtx))              \
    X(cuStreamGetDevice, cuStreamGetDevice, 12080, (cu_stream hStream, int *device))                                   \
    X(cuStreamAddCallback, cuStreamAddCallback, 5000,                                                                  \
      (cu_stream hStream, cu_stream_callback callback, void *userData, unsigned int flags))                            \
    X(cuLaunchHostFunc, cuLaunchHostFunc, 10000, (cu_stream hStream, cu_host_function fn, void *userData))             \
    X(cuStreamAttachMemAsync, cuStreamAttachMemAsync, 6000,                                                            \
      (cu_stream hStream, uint64_t dptr, size_t length, unsigned int flags))                                           \
    X(cuStreamCopyAttributes, cuStreamCopyAttributes, 11000, (cu_stream dstStream, cu_stream srcStream))               \
    X(cuEventCreate, cuEventCreate, 2000, (cu_event * phEvent, unsigned int Flags))                                    \
    X(cuEventDestroy_v2, cuEventDestroy, 4000, (cu_event hEvent))                                                      \
    X(cuEventRecord, cuEventRecord, 2000, (cu_event hEvent, cu_stream hStream))                                        \
    X(cuEventRecordWithFlags, cuEventRecordWithFlags, 11010, (cu_event hEvent, cu_stream hStream, unsigned int flags)) \
    X(cuEventQuery, cuEventQuery, 2000, (cu_event hEvent))                                                             \
    X(cuEventSynchronize, cuEventSynchronize, 2000, (cu_event hEvent))                                                 \
    X(cuEventElapsedTime, cuEventElapsedTime, 2000, (float *pMilliseconds, cu_event hStart, cu_event hEnd))            \
    X(cuEventElapsedTime_v2, cuEventElapsedTime, 12080, (float *pMilliseconds, cu_event hStart, cu_event hEnd))        \
    /* Stream capture */                                                                                               \
    X(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, (cu_stream hStream, int mode))                             \
    X(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, 12030,                                                 \
      (cu_stream hStream, cu_graph hGraph, const cu_graph_node *dependencies,                                          \
       const struct cu_edge_data *dependencyData, size_t numDependencies, int mode))                                   \
    X(cuStreamEndCapture, cuStreamEndCapture, 10000, (cu_stream hStream, cu_graph * phGraph))                          \
    X(cuStreamIsCapturing, cuStreamIsCapturing, 10000, (cu_stream hStream, int *captureStatus))                        \
    X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo, 10010,                                                           \
      (cu_stream hStream, int *captureStatus_out, uint64_t *id_out))                                                   \
    X(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo, 11030,                                                        \
      (cu_stream hStream, int *captureStatus_out, uint64_t *id_out, cu_graph *graph_out,                               \
       const cu_graph_node **dependencies_out, size_t *numDependencies_out))                                           \
    X(cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo, 12030,                                                        \
      (cu_stream hStream, int *captureStatus_out, uint64_t *id_out, cu_graph *graph_out,                               \
       const cu_graph_node **dependencies_out, const struct cu_edge_data **edgeData_out, size_t *numDependencies_out)) \
    X(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies, 11030,                                     \
      (cu_stream hStream, cu_graph_node * dependencies, size_t numDependencies, unsigned int flags))                   \
    X(cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies, 12030,                                  \
      (cu_stream hStream, cu_graph_node * dependencies, const struct cu_edge_data *dependencyData,                     \
       size_t numDependencies, unsigned int flags))                                                                    \
    X(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, 10010, (int *mode))                        \
    /* Modules, libraries, kernels, functions */                                                                       \
    X(cuModuleLoad, cuModuleLoad, 2000, (cu_module * module, const char *fname))                                       \
    X(cuModuleLoadData, cuModuleLoadData, 2000, (cu_module * module, const void *image))                               \
    X(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010,                                                                    \
      (cu_module * module, const void *image, unsigned int numOptions, int *options, void **optionValues))             \
    X(cuModuleLoadFatBinary, cuModuleLoadFatBinary, 2000, (cu_module * module, const void *fatCubin))                  \
    X(cuModuleUnload, cuModuleUnload, 2000, (cu_module hmod))                                                          \
    X(cuModuleGetFunction, cuModuleGetFunction, 2000, (cu_function * hfunc, cu_module hmod, const char *name))         \
    X(cuModuleGetGlobal_v2, cuModuleGetGlobal, 3020,                                                                   \
      (uint64_t * dptr, size_t * bytes, cu_module hmod, const char *name))                                             \
    X(cuModuleGetFunctionCount, cuModuleGetFunctionCount, 12040, (unsigned int *count, cu_module mod))                 \
    X(cuModuleEnumerateFunctions, cuModuleEnumerateFunctions, 12040,                                                   \
      (cu_function * functions, unsigned int numFunctions, cu_module mod))                                             \
    X(cuModuleGetLoadingMode, cuModuleGetLoadingMode, 11070, (int *mode))                                              \
    X(cuLibraryLoadData, cuLibraryLoadData, 12000,                                                                     \
      (cu_library * library, const void *code, int *jitOptions, void **jitOptionsValues, unsigned int numJitOptions,   \
       int *libraryOptions, void **libraryOptionValues, unsigned int numLibraryOptions))                               \
    X(cuLibraryLoadFromFile, cuLibraryLoadFromFile, 12000,                                                             \
      (cu_library * library, const char *fileName, int *jitOptions, void **jitOptionsValues,                           \
       unsigned int numJitOptions, int *libraryOptions, void **libraryOptionValues, unsigned int numLibraryOptions))   \
    X(cuLibraryUnload, cuLibraryUnload, 12000, (cu_library library))                                                   \
    X(cuLibraryGetKernel, cuLibraryGetKernel, 12000, (cu_kernel * pKernel, cu_library library, const char *name))      \
    X(cuLibraryGetModule, cuLibraryGetModule, 12000, (cu_module * pMod, cu_library library))                           \
    X(cuLibraryGetKernelCount, cuLibraryGetKernelCount, 12040, (unsigned int *count, cu_library lib))                  \
    X(cuLibraryEnumerateKernels, cuLibraryEnumerateKernels, 12040,                                                     \
      (cu_kernel * kernels, unsigned int numKernels, cu_library lib))                                                  \
    X(cuLibraryGetGlobal, cuLibraryGetGlobal, 12000,                                                                   \
      (uint64_t * dptr, size_t * bytes, cu_library library, const char *name))                                         \
    X(cuLibraryGetManaged, cuLibraryGetManaged, 12000,                                                                 \
      (uint64_t * dptr, size_t * bytes, cu_library library, const char *name))                                         \
    X(cuKernelGetFunction, cuKernelGetFunction, 12000, (cu_function * pFunc, cu_kernel kernel))                        \
    X(cuKernelGetLibrary, cuKernelGetLibrary, 12050, (cu_library * pLib, cu_kernel kernel))                            \
    X(cuKernelGetName, cuKernelGetName, 12030, (const char **name, cu_kernel hfunc))                                   \
    X(cuKernelGetAttribute, cuKernelGetAttribute, 12000, (int *pi, int attrib, cu_kernel kernel, int dev))             \
    X(cuKernelSetAttribute, cuKernelSetAttribute, 12000, (int attrib, int val, cu_kernel kernel, int dev))             \
    X(cuKernelSetCacheConfig, cuKernelSetCacheConfig, 12000, (cu_kernel kernel, int config, int dev))                  \
    X(cuKernelGetParamInfo, cuKernelGetParamInfo, 12040,                                                               \
      (cu_kernel kernel, size_t paramIndex, size_t * paramOffset, size_t * paramSize))                                 \
    X(cuFuncGetAttribute, cuFuncGetAttribute, 2020, (int *pi, int attrib, cu_function hfunc))                          \
    X(cuFuncSetAttribute, cuFuncSetAttribute, 9000, (cu_function hfunc, int attrib, int value))                        \
    X(cuFuncSetCacheConfig, cuFuncSetCacheConfig, 3000, (cu_function hfunc, int config))                               \
    X(cuFuncGetModule, cuFuncGetModule, 11000, (cu_module * hmod, cu_function hfunc))                                  \
    X(cuFuncGetName, cuFuncGetName, 12030, (const char **name, cu_function hfunc))                                     \
    X(cuFuncGetParamInfo, cuFuncGetParamInfo, 12040,                                                                   \
      (cu_function func, size_t paramIndex, size_t * paramOffset, size_t * paramSize))                                 \
    X(cuFuncIsLoaded, cuFuncIsLoaded, 12040, (int *state, cu_function function))                                       \
    X(cuFuncLoad, cuFuncLoad, 12040, (cu_function function))                                                           \
    /* Launches and occupancy */                                                                                       \
    X(cuLaunchKernel, cuLaunchKernel, 4000,                                                                            \
      (cu_function f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX,     \
       unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, cu_stream hStream,                 \
       void **kernelParams, void **extra))                                                                             \
    X(cuLaunchKernelEx, cuLaunchKernelEx, 11060,                                                                       \
      (const struct cu_launch_config *config, cu_function f, void **kernelParams, void **extra))                       \
    X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000,                                                      \
      (cu_function f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX,     \
       unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, cu_stream hStream,                 \
       void **kernelParams))                                                                                           \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050,                  \
      (int *numBlocks, cu_function func, int blockSize, size_t dynamicSMemSize))                                       \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,      \
      7000, (int *numBlocks, cu_function func, int blockSize, size_t dynamicSMemSize, unsigned int flags))             \
    X(cuOccupancyMaxPotentialBlockSize, cuOccupancyMaxPotentialBlockSize, 6050,                                        \
      (int *minGridSize, int *blockSize, cu_function func, cu_block_to_shared blockSizeToDynamicSMemSize,              \
       size_t dynamicSMemSize, int blockSizeLimit))                                                                    \
    X(cuOccupancyMaxPotentialBlockSizeWithFlags, cuOccupancyMaxPotentialBlockSizeWithFlags, 7000,                      \
      (int *minGridSize, int *blockSize, cu_function func, cu_block_to_shared blockSizeToDynamicSMemSize,              \
       size_t dynamicSMemSize, int blockSizeLimit, unsigned int flags))                                                \
    X(cuOccupancyAvailableDynamicSMemPerBlock, cuOccupancyAvailableDynamicSMemPerBlock, 10020,                         \
      (size_t * dynamicSmemSize, cu_function func, int numBlocks, int blockSize))                                      \
    X(cuOccupancyMaxPotentialClusterSize, cuOccupancyMaxPotentialClusterSize, 11070,                                   \
      (int *clusterSize, cu_function func, const struct cu_launch_config *config))                                     \
    X(cuOccupancyMaxActiveClusters, cuOccupancyMaxActiveClusters, 11070,                                               \
      (int *numClusters, cu_function func, const struct cu_launch_config *config))                                     \
    /* Tensor maps */                                                                                                  \
    X(cuTensorMapEncodeTiled, cuTensorMapEncodeTiled, 12000,                                                           \
      (void *tensorMap, int tensorDataType, uint32_t tensorRank, void *globalAddress, const uint64_t *globalDim,       \
       const uint64_t *globalStrides, const uint32_t *boxDim, const uint32_t *elementStrides, int interleave,          \
       int swizzle, int l2Promotion, int oobFill))                                                                     \
    X(cuTensorMapEncodeIm2col, cuTensorMapEncodeIm2col, 12000,                                                         \
      (void *tensorMap, int tensorDataType, uint32_t tensorRank, void *globalAddress, const uint64_t *globalDim,       \
       const uint64_t *globalStrides, const int *pixelBoxLowerCorner, const int *pixelBoxUpperCorner,                  \
       uint32_t channelsPerPixel, uint32_t pixelsPerColumn, const uint32_t *elementStrides, int interleave,            \
       int swizzle, int l2Promotion, int oobFill))                                                                     \
    X(cuTensorMapReplaceAddress, cuTensorMapReplaceAddress, 12000, (void *tensorMap, void *globalAddress))             \
    /* Graphs */                                                                                                       \
    X(cuGraphCreate, cuGraphCreate, 10000, (cu_graph * phGraph, unsigned int flags))                                   \
    X(cuGraphDestroy, cuGraphDestroy, 10000, (cu_graph hGraph))                                                        \
    X(cuGraphClone, cuGraphClone, 10000, (cu_graph * phGraphClone, cu_graph originalGraph))                            \
    X(cuGraphAddKernelNode, cuGraphAddKernelNode, 10000,                                                               \
      (cu_graph_node * phGraphNode, cu_graph hGraph, const cu_graph_node *dependencies, size_t numDependencies,        \
       const struct cu_kernel_node_params_v1 *nodeParams))                                                             \
    X(cuGraphAddKernelNode_v2, cuGraphAddKernelNode, 12000,                                                            \
      (cu_graph_node * phGraphNode, cu_graph hGraph, const cu_graph_node *dependencies, size_t numDependencies,        \
       const struct cu_kernel_node_params *nodeParams))                                                                \
    X(cuGraphKernelNodeGetParams_v2, cuGraphKernelNodeGetParams, 12000,                                                \
      (cu_graph_node hNode, struct cu_kernel_node_params * nodeParams))                                                \
    X(cuGraphKernelNodeSetParams_v2, cuGraphKernelNodeSetParams, 12000,                                                \
      (cu_graph_node hNode, const struct cu_kernel_node_params *nodeParams))                                           \
    X(cuGraphAddMemcpyNode, cuGraphAddMemcpyNode, 10000,                                                               \
      (cu_graph_node * phGraphNode, cu_graph hGraph, const cu_graph_node *dependencies, size_t numDependencies,        \
       const struct cu_copy3d *copyParams, cu_context ctx))                                                            \
    X(cuGraphAddMemsetNode, cuGraphAddMemsetNode, 10000,                                                               \
      (cu_graph_node * phGraphNode, cu_graph hGraph, const cu_graph_node *dependencies, size_t numDependencies,        \
       const struct cu_memset_params *memsetParams, cu_context ctx))                                                   \
    X(cuGraphAddHostNode, cuGraphAddHostNode, 10000,                                                                   \
      (cu_graph_node * phGraphNode, cu_graph hGraph, const cu_graph_node *dependencies, size_t numDependencies,        \
       const struct cu_host_params *nodeParams))                                                                       \
    X(cuGraphAddEmptyNode, cuGraphAddEmptyNode, 10000,                                                                 \
      (cu_graph_node * phGraphNode, cu_graph hGraph, const cu_graph_node *dependencies, size_t numDependencies))       \
    X(cuGraphAddChildGraphNode, cuGraphAddChildGraphNode, 10000,                                                       \
      (cu_graph_node * phGraphNode, cu_graph hGraph, const cu_graph_node *dependencies, size_t numDependencies,        \
       cu_graph childGraph))                                                                                           \
    X(cuGraphAddEventRecordNode, cuGraphAddEventRecordNode, 11010,                                                     \
      (cu_graph_node * phGraphNode, cu_graph hGraph, const cu_graph_node *dependencies, size_t numDependencies,        \
       cu_event event))                                                                                                \
    X(cuGraphAddEventWaitNode, cuGraphAddEventWaitNode, 11010,                                                         \
      (cu_graph_node * phGraphNode, cu_graph hGraph, const cu_graph_node *dependencies, size_t numDependencies,        \
       cu_event event))                                                                                                \
    X(cuGraphAddDependencies, cuGraphAddDependencies, 10000,                                                           \
      (cu_graph hGraph, const cu_graph_node *from, const cu_graph_node *to, size_t numDependencies))                   \
    X(cuGraphAddDependencies_v2, cuGraphAddDependencies, 12030,                                                        \
      (cu_graph hGraph, const cu_graph_node *from, const cu_graph_node *to, const struct cu_edge_data *edgeData,       \
       size_t numDependencies))                                                                                        \
    X(cuGraphNodeGetType, cuGraphNodeGetType, 10000, (cu_graph_node hNode, int *type))                                 \
    X(cuGraphGetNodes, cuGraphGetNodes, 10000, (cu_graph hGraph, cu_graph_node * nodes, size_t * numNodes))            \
    X(cuGraphGetRootNodes, cuGraphGetRootNodes, 10000,                                                                 \
      (cu_graph hGraph, cu_graph_node * rootNodes, size_t * numRootNodes))                                             \
    X(cuGraphGetEdges, cuGraphGetEdges, 10000,                                                                         \
      (cu_graph hGraph, cu_graph_node * from, cu_graph_node * to, size_t * numEdges))                                  \
    X(cuGraphGetEdges_v2, cuGraphGetEdges, 12030,                                                                      \
      (cu_graph hGraph, cu_graph_node * from, cu_graph_node * to, struct cu_edge_data * edgeData, size_t * numEdges))  \
    X(cuGraphNodeGetDependencies, cuGraphNodeGetDependencies, 10000,                                                   \
      (cu_graph_node hNode, cu_graph_node * dependencies, size_t * numDependencies))                                   \
    X(cuGraphNodeGetDependencies_v2, cuGraphNodeGetDependencies, 12030,                                                \
      (cu_graph_node hNode, cu_graph_node * dependencies, struct cu_edge_data * edgeData, size_t * numDependencies))   \
    X(cuGraphDestroyNode, cuGraphDestroyNode, 10000, (cu_graph_node hNode))                                            \
    X(cuGraphInstantiate, cuGraphInstantiate, 10000,                                                                   \
      (cu_graph_exec * phGraphExec, cu_graph hGraph, cu_graph_node * phErrorNode, char *logBuffer, size_t bufferSize)) \
    X(cuGraphInstantiate_v2, cuGraphInstantiate, 11000,                                                                \
      (cu_graph_exec * phGraphExec, cu_graph hGraph, cu_graph_node * phErrorNode, char *logBuffer, size_t bufferSize)) \
    X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040,                                                 \
      (cu_graph_exec * phGraphExec, cu_graph hGraph, uint64_t flags))                                                  \
    X(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams, 12000,                                               \
      (cu_graph_exec * phGraphExec, cu_graph hGraph, struct cu_instantiate_params * instantiateParams))                \
    X(cuGraphExecGetFlags, cuGraphExecGetFlags, 12000, (cu_graph_exec hGraphExec, uint64_t * flags))                   \
    X(cuGraphUpload, cuGraphUpload, 11010, (cu_graph_exec hGraph, cu_stream hStream))                                  \
    X(cuGraphLaunch, cuGraphLaunch, 10000, (cu_graph_exec hGraph, cu_stream hStream))                                  \
    X(cuGraphExecDestroy, cuGraphExecDestroy, 10000, (cu_graph_exec hGraphExec))                                       \
    X(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams, 10010,                                           \
      (cu_graph_exec hGraphExec, cu_graph_node hNode, const struct cu_kernel_node_params_v1 *nodeParams))              \
    X(cuGraphExecKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams, 12000,                                        \
      (cu_graph_exec hGraphExec, cu_graph_node hNode, const struct cu_kernel_node_params *nodeParams))                 \
    X(cuGraphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, 10020,                                           \
      (cu_graph_exec hGraphExec, cu_graph_node hNode, const struct cu_copy3d *copyParams, cu_context ctx))             \
    X(cuGraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams, 10020,                                           \
      (cu_graph_exec hGraphExec, cu_graph_node hNode, const struct cu_memset_params *memsetParams, cu_context ctx))    \
    X(cuGraphExecHostNodeSetParams, cuGraphExecHostNodeSetParams, 10020,                                               \
      (cu_graph_exec hGraphExec, cu_graph_node hNode, const struct cu_host_params *nodeParams))                        \
    X(cuGraphExecUpdate, cuGraphExecUpdate, 10020,                                                                     \
      (cu_graph_exec hGraphExec, cu_graph hGraph, cu_graph_node * hErrorNode_out, int *updateResult_out))              \
    X(cuGraphExecUpdate_v2, cuGraphExecUpdate, 12000,                                                                  \
      (cu_graph_exec hGraphExec, cu_graph hGraph, struct cu_update_result * resultInfo))

/* Those with a second form in which the default stream is the thread's own: name, suffix, parameters, arguments. */
#define DRV_PER_THREAD_FUNCTIONS(X)                                                                                    \
    X(cuMemAllocAsync, ptsz, (uint64_t * dptr, size_t bytesize, cu_stream hStream), (dptr, bytesize, hStream))         \
    X(cuMemAllocFromPoolAsync, ptsz, (uint64_t * dptr, size_t bytesize, cu_pool pool, cu_stream hStream),              \
      (dptr, bytesize, pool, hStream))                                                                                 \
    X(cuMemFreeAsync, ptsz, (uint64_t dptr, cu_stream hStream), (dptr, hStream))                                       \
    X(cuMemPrefetchAsync, ptsz, (uint64_t devPtr, size_t count, int dstDevice, cu_stream hStream),                     \
      (devPtr, count, dstDevice, hStream))                                                                             \
    X(cuMemPrefetchAsync_v2, ptsz,                                                                                     \
      (uint64_t devPtr, size_t count, struct cu_location location, unsigned int flags, cu_stream hStream),             \
      (devPtr, count, location, flags, hStream))                                                                       \
    X(cuMemcpy, ptds, (uint64_t dst, uint64_t src, size_t ByteCount), (dst, src, ByteCount))                           \
    X(cuMemcpyAsync, ptsz, (uint64_t dst, uint64_t src, size_t ByteCount, cu_stream hStream),                          \
      (dst, src, ByteCount, hStream))                                                                                  \
    X(cuMemcpyPeer, ptds,                                                                                              \
      (uint64_t dstDevice, cu_context dstContext, uint64_t srcDevice, cu_context srcContext, size_t ByteCount),        \
      (dstDevice, dstContext, srcDevice, srcContext, ByteCount))                                                       \
    X(cuMemcpyPeerAsync, ptsz,                                                                                         \
      (uint64_t dstDevice, cu_context dstContext, uint64_t srcDevice, cu_context srcContext, size_t ByteCount,         \
       cu_stream hStream),                                                                                             \
      (dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream))                                              \
    X(cuMemcpyHtoD_v2, ptds, (uint64_t dstDevice, const void *srcHost, size_t ByteCount),                              \
      (dstDevice, srcHost, ByteCount))                                                                                 \
    X(cuMemcpyDtoH_v2, ptds, (void *dstHost, uint64_t srcDevice, size_t ByteCount), (dstHost, srcDevice, ByteCount))   \
    X(cuMemcpyDtoD_v2, ptds, (uint64_t dstDevice, uint64_t srcDevice, size_t ByteCount),                               \
      (dstDevice, srcDevice, ByteCount))                                                                               \
    X(cuMemcpyHtoDAsync_v2, ptsz, (uint64_t dstDevice, const void *srcHost, size_t ByteCount, cu_stream hStream),      \
      (dstDevice, srcHost, ByteCount, hStream))                                                                        \
    X(cuMemcpyDtoHAsync_v2, ptsz, (void *dstHost, uint64_t srcDevice, size_t ByteCount, cu_stream hStream),            \
      (dstHost, srcDevice, ByteCount, hStream))                                                                        \
    X(cuMemcpyDtoDAsync_v2, ptsz, (uint64_t dstDevice, uint64_t srcDevice, size_t ByteCount, cu_stream hStream),       \
      (dstDevice, srcDevice, ByteCount, hStream))                                                                      \
    X(cuMemcpy2D_v2, ptds, (const struct cu_copy2d *pCopy), (pCopy))                                                   \
    X(cuMemcpy2DUnaligned_v2, ptds, (const struct cu_copy2d *pCopy), (pCopy))                                          \
    X(cuMemcpy2DAsync_v2, ptsz, (const struct cu_copy2d *pCopy, cu_stream hStream), (pCopy, hStream))                  \
    X(cuMemcpy3D_v2, ptds, (const struct cu_copy3d *pCopy), (pCopy))                                                   \
    X(cuMemcpy3DAsync_v2, ptsz, (const struct cu_copy3d *pCopy, cu_stream hStream), (pCopy, hStream))                  \
    X(cuMemsetD8_v2, ptds, (uint64_t dstDevice, unsigned char uc, size_t N), (dstDevice, uc, N))                       \
    X(cuMemsetD16_v2, ptds, (uint64_t dstDevice, unsigned short us, size_t N), (dstDevice, us, N))                     \
    X(cuMemsetD32_v2, ptds, (uint64_t dstDevice, unsigned int ui, size_t N), (dstDevice, ui, N))                       \
    X(cuMemsetD2D8_v2, ptds, (uint64_t dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height),     \
      (dstDevice, dstPitch, uc, Width, Height))                                                                        \
    X(cuMemsetD2D16_v2, ptds, (uint64_t dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height),   \
      (dstDevice, dstPitch, us, Width, Height))                                                                        \
    X(cuMemsetD2D32_v2, ptds, (uint64_t dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height),     \
      (dstDevice, dstPitch, ui, Width, Height))                                                                        \
    X(cuMemsetD8Async, ptsz, (uint64_t dstDevice, unsigned char uc, size_t N, cu_stream hStream),                      \
      (dstDevice, uc, N, hStream))                                                                                     \
    X(cuMemsetD16Async, ptsz, (uint64_t dstDevice, unsigned short us, size_t N, cu_stream hStream),                    \
      (dstDevice, us, N, hStream))                                                                                     \
    X(cuMemsetD32Async, ptsz, (uint64_t dstDevice, unsigned int ui, size_t N, cu_stream hStream),                      \
      (dstDevice, ui, N, hStream))                                                                                     \
    X(cuMemsetD2D8Async, ptsz,                                                                                         \
      (uint64_t dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height, cu_stream hStream),         \
      (dstDevice, dstPitch, uc, Width, Height, hStream))                                                               \
    X(cuMemsetD2D16Async, ptsz,                                                                                        \
      (uint64_t dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height, cu_stream hStream),        \
      (dstDevice, dstPitch, us, Width, Height, hStream))                                                               \
    X(cuMemsetD2D32Async, ptsz,                                                                                        \
      (uint64_t dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height, cu_stream hStream),          \
      (dstDevice, dstPitch, ui, Width, Height, hStream))                                                               \
    X(cuStreamQuery, ptsz, (cu_stream hStream), (hStream))                                                             \
    X(cuStreamSynchronize, ptsz, (cu_stream hStream), (hStream))                                                       \
    X(cuStreamWaitEvent, ptsz, (cu_stream hStream, cu_event hEvent, unsigned int Flags), (hStream, hEvent, Flags))     \
    X(cuStreamGetPriority, ptsz, (cu_stream hStream, int *priority), (hStream, priority))                              \
    X(cuStreamGetFlags, ptsz, (cu_stream hStream, unsigned int *flags), (hStream, flags))                              \
    X(cuStreamGetId, ptsz, (cu_stream hStream, uint64_t * streamId), (hStream, streamId))                              \
    X(cuStreamGetCtx, ptsz, (cu_stream hStream, cu_context * pctx), (hStream, pctx))                                   \
    X(cuStreamGetCtx_v2, ptsz, (cu_stream hStream, cu_context * pCtx, void **pGreenCtx), (hStream, pCtx, pGreenCtx))   \
    X(cuStreamGetDevice, ptsz, (cu_stream hStream, int *device), (hStream, device))                                    \
    X(cuStreamAddCallback, ptsz, (cu_stream hStream, cu_stream_callback callback, void *userData, unsigned int flags), \
      (hStream, callback, userData, flags))                                                                            \
    X(cuLaunchHostFunc, ptsz, (cu_stream hStream, cu_host_function fn, void *userData), (hStream, fn, userData))       \
    X(cuStreamAttachMemAsync, ptsz, (cu_stream hStream, uint64_t dptr, size_t length, unsigned int flags),             \
      (hStream, dptr, length, flags))                                                                                  \
    X(cuStreamCopyAttributes, ptsz, (cu_stream dstStream, cu_stream srcStream), (dstStream, srcStream))                \
    X(cuEventRecord, ptsz, (cu_event hEvent, cu_stream hStream), (hEvent, hStream))                                    \
    X(cuEventRecordWithFlags, ptsz, (cu_event hEvent, cu_stream hStream, unsigned int flags),                          \
      (hEvent, hStream, flags))                                                                                        \
    X(cuStreamBeginCapture_v2, ptsz, (cu_stream hStream, int mode), (hStream, mode))                                   \
    X(cuStreamBeginCaptureToGraph, ptsz,                                                                               \
      (cu_stream hStream, cu_graph hGraph, const cu_graph_node *dependencies,                                          \
       const struct cu_edge_data *dependencyData, size_t numDependencies, int mode),                                   \
      (hStream, hGraph, dependencies, dependencyData, numDependencies, mode))                                          \
    X(cuStreamEndCapture, ptsz, (cu_stream hStream, cu_graph * phGraph), (hStream, phGraph))                           \
    X(cuStreamIsCapturing, ptsz, (cu_stream hStream, int *captureStatus), (hStream, captureStatus))                    \
    X(cuStreamGetCaptureInfo, ptsz, (cu_stream hStream, int *captureStatus_out, uint64_t *id_out),                     \
      (hStream, captureStatus_out, id_out))                                                                            \
    X(cuStreamGetCaptureInfo_v2, ptsz,                                                                                 \
      (cu_stream hStream, int *captureStatus_out, uint64_t *id_out, cu_graph *graph_out,                               \
       const cu_graph_node **dependencies_out, size_t *numDependencies_out),                                           \
      (hStream, captureStatus_out, id_out, graph_out, dependencies_out, numDependencies_out))                          \
    X(cuStreamGetCaptureInfo_v3, ptsz,                                                                                 \
      (cu_stream hStream, int *captureStatus_out, uint64_t *id_out, cu_graph *graph_out,                               \
       const cu_graph_node **dependencies_out, const struct cu_edge_data **edgeData_out, size_t *numDependencies_out), \
      (hStream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out))            \
    X(cuStreamUpdateCaptureDependencies, ptsz,                                                                         \
      (cu_stream hStream, cu_graph_node * dependencies, size_t numDependencies, unsigned int flags),                   \
      (hStream, dependencies, numDependencies, flags))                                                                 \
    X(cuStreamUpdateCaptureDependencies_v2, ptsz,                                                                      \
      (cu_stream hStream, cu_graph_node * dependencies, const struct cu_edge_data *dependencyData,                     \
       size_t numDependencies, unsigned int flags),                                                                    \
      (hStream, dependencies, dependencyData, numDependencies, flags))                                                 \
    X(cuLaunchKernel, ptsz,                                                                                            \
      (cu_function f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX,     \
       unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, cu_stream hStream,                 \
       void **kernelParams, void **extra),                                                                             \
      (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams,        \
       extra))                                                                                                         \
    X(cuLaunchKernelEx, ptsz,                                                                                          \
      (const struct cu_launch_config *config, cu_function f, void **kernelParams, void **extra),                       \
      (config, f, kernelParams, extra))                                                                                \
    X(cuLaunchCooperativeKernel, ptsz,                                                                                 \
      (cu_function f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX,     \
       unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, cu_stream hStream,                 \
       void **kernelParams),                                                                                           \
      (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams))       \
    X(cuGraphInstantiateWithParams, ptsz,                                                                              \
      (cu_graph_exec * phGraphExec, cu_graph hGraph, struct cu_instantiate_params * instantiateParams),                \
      (phGraphExec, hGraph, instantiateParams))                                                                        \
    X(cuGraphUpload, ptsz, (cu_graph_exec hGraph, cu_stream hStream), (hGraph, hStream))                               \
    X(cuGraphLaunch, ptsz, (cu_graph_exec hGraph, cu_stream hStream), (hGraph, hStream))

#pragma GCC visibility push(default)

#define DRV_DECLARE(name, base, version, parameters) int name parameters;
DRV_FUNCTIONS(DRV_DECLARE)
#undef DRV_DECLARE

#define DRV_DECLARE_PER_THREAD(name, suffix, parameters, arguments) int name##_##suffix parameters;
DRV_PER_THREAD_FUNCTIONS(DRV_DECLARE_PER_THREAD)
#undef DRV_DECLARE_PER_THREAD

#pragma GCC visibility pop

#endif
