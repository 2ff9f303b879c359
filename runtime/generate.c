#include <string.h>

#include "companion.h"
#include "error.h"
#include "obtain.h"
#include "planning.h"

/* The caller's sink. */
struct sink {
    smla_write_fn write;
    void *user;
};

static smla_status hand_over(const struct sink *sink, const void *bytes, size_t size)
{
    const int32_t code = sink->write(sink->user, bytes, size);

    if (code == 0)
        return SMLA_OK;
    return rt_fail_native(SMLA_ERROR_IO, code, "the result of %zu bytes could not be written: %s", size,
                          strerror(code));
}

static smla_status emit_text(const struct gen_bundle *bundle, uint32_t emit, const struct sink *sink)
{
    struct gen_text text = {0};
    smla_status status;

    if (emit == SMLA_EMIT_PLAN)
        gen_plan_print(&bundle->spec, &bundle->plan, &text);
    else
        gen_bundle_flatten(bundle, &text);
    if (text.failed)
        status = rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for the generated text");
    else
        status = hand_over(sink, text.bytes, text.size);
    gen_text_free(&text);
    return status;
}

/* For the cache folder alone: who prepares the kernel from it needs both. One after the other: who generates several
 * kernels has threads of their own. */
static smla_status obtain_companion(smla_context *context, const struct gen_bundle *bundle, enum rt_kind kind)
{
    struct gen_bundle companion;
    const struct rt_entry *image;
    smla_status status = rt_companion_bundle(bundle, &companion);

    if (status != SMLA_OK)
        return status;
    status = rt_obtain(context, &companion, kind, 0, &image);
    gen_bundle_free(&companion);
    return status;
}

/* The driver, if any, plays no part: code is made for a machine that may not be this one. */
static smla_status emit_code(smla_context *context, const struct gen_bundle *bundle, uint32_t emit,
                             const struct sink *sink)
{
    const enum rt_kind kind = emit == SMLA_EMIT_PTX ? RT_KIND_PTX : RT_KIND_CUBIN;
    const struct rt_entry *image;
    smla_status status = rt_obtain(context, bundle, kind, 0, &image);

    if (status == SMLA_OK && rt_has_companion(bundle) && rt_cache_dir(context->cache) != NULL)
        status = obtain_companion(context, bundle, kind);
    if (status != SMLA_OK)
        return status;
    /* PTX is kept with the NUL that the driver needs; a file has none. */
    const bool ends_in_nul =
        kind == RT_KIND_PTX && image->payload_size > 0 && image->payload[image->payload_size - 1] == '\0';
    return hand_over(sink, image->payload, image->payload_size - (ends_in_nul ? 1 : 0));
}

static smla_status emit_bundle(smla_context *context, const struct gen_bundle *bundle, uint32_t emit,
                               const struct sink *sink)
{
    return emit == SMLA_EMIT_PLAN || emit == SMLA_EMIT_CUDA ? emit_text(bundle, emit, sink)
                                                            : emit_code(context, bundle, emit, sink);
}

static smla_status emit_companion(smla_context *context, const struct gen_bundle *bundle, uint32_t emit,
                                  const struct sink *sink)
{
    struct gen_bundle companion;

    if (!rt_has_companion(bundle))
        return rt_fail(SMLA_ERROR_UNSUPPORTED, "%s has no companion: leave SMLA_EMIT_COMPANION out",
                       bundle->plan.variants[0].name);
    smla_status status = rt_companion_bundle(bundle, &companion);
    if (status != SMLA_OK)
        return status;
    status = emit_bundle(context, &companion, emit, sink);
    gen_bundle_free(&companion);
    return status;
}

static smla_status check_arguments(const smla_context *context, uint32_t emit, smla_write_fn write)
{
    if (context == NULL || write == NULL)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "smla_generate: %s is NULL", context ? "write" : "context");
    const uint32_t kind = emit & ~(uint32_t)SMLA_EMIT_COMPANION;
    if (kind < SMLA_EMIT_PLAN || kind > SMLA_EMIT_CUBIN)
        return rt_fail(
            SMLA_ERROR_INVALID_ARGUMENT,
            "emit %u: SMLA_EMIT_* is 1 (plan), 2 (CUDA), 3 (PTX) or 4 (cubin), and 256 more for the companion",
            (unsigned)emit);
    return SMLA_OK;
}

smla_status smla_generate(smla_context *context, const smla_kernel_desc *desc, uint32_t emit, smla_write_fn write,
                          void *user)
{
    const struct sink sink = {write, user};
    struct gen_bundle bundle;
    struct rt_description full;
    smla_status status = check_arguments(context, emit, write);

    if (status == SMLA_OK)
        status = rt_description_read(&full, desc);
    if (status == SMLA_OK)
        status = rt_bundle_for(context, &full.desc, &bundle);
    if (status != SMLA_OK)
        return status;
    status = emit & SMLA_EMIT_COMPANION ? emit_companion(context, &bundle, emit & ~(uint32_t)SMLA_EMIT_COMPANION, &sink)
                                        : emit_bundle(context, &bundle, emit, &sink);
    gen_bundle_free(&bundle);
    return status;
}
