#include "planning.h"

#include "error.h"
#include "sized.h"

static smla_status target_of_device(smla_context *context, const struct gen_target **target)
{
    const struct rt_driver *driver;
    struct rt_device device;
    smla_status status;

    if (context == NULL)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                       "neither a context, whose device could be asked, nor a target: name one (90, 90a, 100, 100a, "
                       "100f, 103, 103a, 103f)");
    status = rt_context_driver(context, &driver);
    if (status == SMLA_OK)
        status = rt_device_enter(&device, driver, context->primary);
    return status == SMLA_OK ? rt_device_leave(&device, rt_device_target(&device, target)) : status;
}

static smla_status read_layout(const smla_kv_layout **layout, smla_kv_layout *full, const char *what)
{
    if (*layout == NULL)
        return SMLA_OK;
    const smla_status status = rt_sized_read(full, sizeof *full, *layout, what);
    *layout = full;
    return status;
}

smla_status rt_description_read(struct rt_description *full, const smla_kernel_desc *given)
{
    smla_status status = rt_sized_read(&full->desc, sizeof full->desc, given, "smla_kernel_desc");

    if (status == SMLA_OK)
        status = read_layout(&full->desc.kv_layout, &full->layout, "kv_layout");
    if (status == SMLA_OK)
        status = read_layout(&full->desc.extra_kv_layout, &full->extra_layout, "extra_kv_layout");
    return status;
}

smla_status rt_target_for(smla_context *context, const smla_kernel_desc *desc, const struct gen_target **target)
{
    *target = NULL;
    return desc->target == NULL ? target_of_device(context, target) : SMLA_OK;
}

smla_status rt_bundle_for(smla_context *context, const smla_kernel_desc *desc, struct gen_bundle *bundle)
{
    const struct gen_target *target;
    struct gen_refusal refusal;
    smla_status status = rt_target_for(context, desc, &target);

    if (status != SMLA_OK)
        return status;
    const smla_kernel_desc asked = rt_settings_apply(context ? &context->settings : NULL, desc);
    status = gen_bundle_make(&asked, target, bundle, &refusal);
    return status == SMLA_OK ? SMLA_OK : rt_fail(status, "%s", refusal.text);
}
