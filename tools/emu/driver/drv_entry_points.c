/* cuGetProcAddress, and the texts of the error codes. */
#include <string.h>

#include "drv_state.h"

typedef void (*entry_function)(void);

struct entry {
    const char *base; /* as asked */
    int version;      /* the first with this signature */
    entry_function function;
};

#define ENTRY(name, base, version, parameters) {#base, version, (entry_function)(name)},
static const struct entry entries[] = {DRV_FUNCTIONS(ENTRY)
                                       /* cuda.h of 12.0 and later spells it without the suffix. */
                                       {"cuGraphInstantiate", 12000, (entry_function)cuGraphInstantiateWithFlags}};
#undef ENTRY

/* The forms whose default stream is the thread's own. */
static const struct {
    entry_function function, per_thread;
} per_thread_forms[] = {
#define FORM(name, suffix, parameters, arguments) {(entry_function)(name), (entry_function)(name##_##suffix)},
    DRV_PER_THREAD_FUNCTIONS(FORM)
#undef FORM
};

static entry_function per_thread_form(entry_function function)
{
    for (size_t i = 0; i < sizeof per_thread_forms / sizeof per_thread_forms[0]; i++)
        if (per_thread_forms[i].function == function)
            return per_thread_forms[i].per_thread;
    return function;
}

/* The newest form that the asked version knows. */
static entry_function find(const char *symbol, int version, int *status)
{
    const struct entry *best = NULL;
    *status = DRV_CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        if (strcmp(entries[i].base, symbol) != 0)
            continue;
        if (*status != DRV_CU_GET_PROC_ADDRESS_SUCCESS)
            *status = DRV_CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        if (entries[i].version > version || (best != NULL && entries[i].version < best->version))
            continue;
        best = &entries[i];
        *status = DRV_CU_GET_PROC_ADDRESS_SUCCESS;
    }
    return best == NULL ? NULL : best->function;
}

int cuGetProcAddress_v2(const char *symbol, void **out, int version, uint64_t flags, int *status)
{
    const uint64_t known = DRV_CU_GET_PROC_ADDRESS_LEGACY_STREAM | DRV_CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    int found = 0;
    if (symbol == NULL || out == NULL || version > DRV_VERSION || (flags & ~known) != 0 || flags == known)
        return DRV_CUDA_ERROR_INVALID_VALUE;
    entry_function function = find(symbol, version, &found);
    if (function != NULL && flags == DRV_CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        function = per_thread_form(function);
    memcpy(out, &function, sizeof *out);
    if (status != NULL)
        *status = found;
    return DRV_CUDA_SUCCESS;
}

int cuGetProcAddress(const char *symbol, void **out, int version, uint64_t flags)
{
    DRV_TRY(cuGetProcAddress_v2(symbol, out, version, flags, NULL));
    return *out != NULL ? DRV_CUDA_SUCCESS : DRV_CUDA_ERROR_NOT_FOUND;
}

/* Undocumented tables of the real driver: nobody outside it can provide them. */
int cuGetExportTable(const void **table, const struct cu_uuid *id)
{
    if (table == NULL || id == NULL)
        return DRV_CUDA_ERROR_INVALID_VALUE;
    *table = NULL;
    return DRV_CUDA_ERROR_NOT_FOUND;
}

int cuGetErrorName(int error, const char **out)
{
    if (out == NULL)
        return DRV_CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    switch (error) {
#define RESULT_NAME(name, value, text)                                                                                 \
    case value:                                                                                                        \
        *out = #name;                                                                                                  \
        break;
        CU_RESULTS(RESULT_NAME)
#undef RESULT_NAME
    default:
        return DRV_CUDA_ERROR_INVALID_VALUE;
    }
    return DRV_CUDA_SUCCESS;
}

int cuGetErrorString(int error, const char **out)
{
    if (out == NULL)
        return DRV_CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    switch (error) {
#define RESULT_TEXT(name, value, text)                                                                                 \
    case value:                                                                                                        \
        *out = text;                                                                                                   \
        break;
        CU_RESULTS(RESULT_TEXT)
#undef RESULT_TEXT
    default:
        return DRV_CUDA_ERROR_INVALID_VALUE;
    }
    return DRV_CUDA_SUCCESS;
}

/* ---- The per-thread forms ---- */

#define PER_THREAD(name, suffix, parameters, arguments)                                                                \
    int name##_##suffix parameters                                                                                     \
    {                                                                                                                  \
        drv_null_is_per_thread = true;                                                                                 \
        const int result = name arguments;                                                                             \
        drv_null_is_per_thread = false;                                                                                \
        return result;                                                                                                 \
    }
DRV_PER_THREAD_FUNCTIONS(PER_THREAD)
