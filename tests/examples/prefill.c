/* Sparse attention of two query tokens over 128 rows of a latent KV cache: describe a kernel, prepare it, launch it on
 * a stream, read the error when something fails.
 *
 * Build: cc prefill.c $(pkg-config --cflags --libs smla)
 * Exit: 0 the result is right; 3 there is no GPU, driver or compiler to use here; 1 anything else. */
#include <dlfcn.h>
#include <smla/smla.h>
#include <stdio.h>
#include <stdlib.h>

enum { S_Q = 2, H_Q = 64, D = 512, S_KV = 128, TOPK = 64 };

/* Prints what the last failing call of this thread found, and leaves. */
static void check(smla_status status, const char *call)
{
    smla_error_info error = {.struct_size = sizeof error};
    if (status == SMLA_OK)
        return;
    smla_last_error(&error);
    fprintf(stderr, "%s: %s\n%s\n", call, smla_status_text(status), error.message);
    exit(status == SMLA_ERROR_UNAVAILABLE ? 3 : 1);
}

/* Calls a function of the CUDA driver: smla needs no CUDA header, nor does its caller. */
#define CU(name, types, ...)                                                                                           \
    do {                                                                                                               \
        int(*function) types;                                                                                          \
        *(void **)&function = dlsym(cuda, name);                                                                       \
        if (function == NULL || function(__VA_ARGS__) != 0)                                                            \
            return fprintf(stderr, name " failed\n"), 1;                                                               \
    } while (0)

int main(void)
{
    smla_context_desc context_desc = {.struct_size = sizeof context_desc, .flags = SMLA_CONTEXT_PRIMARY};
    smla_kernel_desc desc = {.struct_size = sizeof desc, .op = SMLA_OP_PREFILL, .h_q = H_Q, .d_qk = D, .d_v = D};
    smla_context *context = NULL;
    smla_kernel *kernel = NULL;
    check(smla_context_create(&context_desc, &context), "smla_context_create");
    check(smla_prepare(context, &desc, &kernel), "smla_prepare"); /* compiles, or takes it from the cache */

    void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *primary, *stream, *query, *kv, *indices, *out;
    CU("cuDevicePrimaryCtxRetain", (void **, int), &primary, 0);
    CU("cuCtxSetCurrent", (void *), primary);
    CU("cuStreamCreate", (void **, unsigned), &stream, 0);
    CU("cuMemAlloc_v2", (void **, size_t), &query, 2 * S_Q * H_Q * D);
    CU("cuMemAlloc_v2", (void **, size_t), &kv, 2 * S_KV * D);
    CU("cuMemAlloc_v2", (void **, size_t), &indices, sizeof(int32_t) * S_Q * TOPK);
    CU("cuMemAlloc_v2", (void **, size_t), &out, 2 * S_Q * H_Q * D);
    CU("cuMemsetD16_v2", (void *, unsigned short, size_t), query, 0x3f80, S_Q * H_Q * D); /* 1 in bf16 */
    CU("cuMemsetD16_v2", (void *, unsigned short, size_t), kv, 0x4000, S_KV * D);         /* 2 */
    CU("cuMemsetD32_v2", (void *, unsigned, size_t), indices, 5, S_Q * TOPK);             /* row 5, TOPK times */

    smla_prefill_args args = {.struct_size = sizeof args, .s_q = S_Q, .s_kv = S_KV, .topk = TOPK};
    args.sm_scale = 0.04419417f; /* 1/sqrt(512) */
    args.query = query;
    args.kv = kv;
    args.indices = indices;
    args.out = out;
    check(smla_prefill(kernel, &args, stream), "smla_prefill");

    uint16_t result[S_Q * H_Q * D];
    CU("cuStreamSynchronize", (void *), stream);
    CU("cuMemcpyDtoH_v2", (void *, void *, size_t), result, out, sizeof result);
    for (size_t i = 0; i < S_Q * H_Q * D; i++)
        if (result[i] != 0x4000) /* equal rows: their mean is the row */
            return printf("out[%zu] is %#x, not 0x4000\n", i, (unsigned)result[i]), 1;
    printf("%d x %d x %d outputs, each 2.0 as it must be\n", S_Q, H_Q, D);
    smla_kernel_destroy(kernel);
    smla_context_destroy(context);
    return 0;
}
