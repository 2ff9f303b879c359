#include "clock.h"
#include "context.h"
#include "error.h"
#include "kernel.h"
#include "planning.h"

/* ---- In a worker -------------------------------------------------------------------------------------------- */

static void prepare(struct rt_work *work)
{
    smla_preparation *preparation = (smla_preparation *)work;
    smla_kernel *kernel = NULL;
    smla_status status;

    if (rt_preparation_is_abandoned(preparation)) {
        rt_preparation_leave(preparation);
        return;
    }
    status = rt_prepare(preparation->context, &preparation->desc, preparation->cuda_context, &kernel);
    rt_preparation_finish(preparation, status, kernel);
}

static void drop(struct rt_work *work)
{
    rt_preparation_finish((smla_preparation *)work,
                          rt_fail(SMLA_ERROR_UNAVAILABLE,
                                  "the context of this preparation was destroyed before the preparation had begun"),
                          NULL);
}

/* ---- In the caller's thread --------------------------------------------------------------------------------- */

/* What a worker cannot find out. Without a driver in the process there is no context, and loading one takes too long
 * for a call that is not to wait. */
static smla_status find_cuda_context(smla_context *context, rt_cu_context *out)
{
    const struct rt_driver *driver;

    *out = context->primary;
    if (context->primary != NULL)
        return SMLA_OK;
    if (!rt_context_driver_is_loaded(context))
        return rt_device_fail_none_current();
    const smla_status status = rt_context_driver(context, &driver);
    return status == SMLA_OK ? rt_device_current(driver, out) : status;
}

/* A preparation that no worker will ever have. */
static smla_status give_up(smla_preparation *preparation, smla_status status)
{
    rt_preparation_leave(preparation);
    rt_preparation_leave(preparation);
    return status;
}

static smla_status start(smla_context *context, const smla_kernel_desc *desc, smla_preparation **out)
{
    rt_cu_context cuda_context = NULL;
    smla_status status = find_cuda_context(context, &cuda_context);

    if (status == SMLA_OK)
        status = rt_preparation_make(context->preparations, desc, out);
    if (status != SMLA_OK)
        return status;
    smla_preparation *preparation = *out;
    preparation->context = context;
    preparation->cuda_context = cuda_context;
    preparation->work = (struct rt_work){.run = prepare, .drop = drop};
    status = rt_workers_add(&context->preparing, &preparation->work);
    return status == SMLA_OK ? SMLA_OK : give_up(preparation, status);
}

smla_status smla_prepare_start(smla_context *context, const smla_kernel_desc *desc, smla_preparation **out)
{
    struct rt_description full;
    smla_preparation *preparation;

    if (context == NULL || out == NULL)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "smla_prepare_start: %s is NULL", context ? "out" : "context");
    smla_status status = rt_description_read(&full, desc);
    if (status == SMLA_OK)
        status = start(context, &full.desc, &preparation);
    if (status == SMLA_OK)
        *out = preparation;
    return status;
}

smla_status smla_prepare_poll(smla_preparation *preparation, smla_kernel **out)
{
    return smla_prepare_wait(preparation, 0, out);
}

smla_status smla_prepare_wait(smla_preparation *preparation, uint32_t timeout_ms, smla_kernel **out)
{
    uint64_t deadline_ns = UINT64_MAX;

    if (preparation == NULL)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "the preparation is NULL");
    if (timeout_ms == 0)
        deadline_ns = 0;
    else if (timeout_ms != SMLA_WAIT_FOREVER)
        deadline_ns = rt_now_ns() + timeout_ms * (uint64_t)1000000;
    return rt_preparation_ask(preparation, deadline_ns, out);
}

void smla_prepare_destroy(smla_preparation *preparation)
{
    if (preparation != NULL)
        rt_preparation_leave(preparation);
}
