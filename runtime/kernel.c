#include "kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "companion.h"
#include "error.h"
#include "launch.h"
#include "obtain.h"
#include "planning.h"
#include "process.h"
#include "selection.h"
#include "self_test.h"

static bool is_reference(const struct gen_spec *spec)
{
    return spec->op == SMLA_OP_PREFILL_REFERENCE;
}

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static struct rt_kv kv_of(const struct gen_kv_format *format)
{
    const int32_t elem_bytes = format->value_type == SMLA_VALUE_BF16 ? 2 : 1;
    return (struct rt_kv){elem_bytes, format->bytes_per_token / elem_bytes, format->scale_bytes,
                          format->place == SMLA_PLACE_PAGE};
}

/* How many clusters of a rule's variant run at once. A device's multiprocessors are not all neighbours. */
static smla_status count_clusters(const struct rt_device *device, const struct rt_module *module,
                                  const struct gen_plan *plan, const struct gen_rule *rule, int32_t *count)
{
    const struct gen_variant *variant = &plan->variants[rule->variant];
    struct rt_launch launch = {.threads = variant->threads,
                               .shared_bytes = variant->shared_bytes,
                               .grid_x = (unsigned int)rule->cluster_blocks,
                               .grid_y = 1};
    int clusters = 0;

    rt_launch_in_clusters(&launch, (unsigned int)rule->cluster_blocks);
    const struct rt_cu_launch_config config = rt_launch_config(&launch, NULL);
    const rt_cu_result result =
        device->driver->cuOccupancyMaxActiveClusters(&clusters, module->functions[rule->variant], &config);
    if (result != RT_CUDA_SUCCESS)
        return rt_driver_fail(device->driver, result, "cuOccupancyMaxActiveClusters of %s in clusters of %d",
                              variant->name, rule->cluster_blocks);
    *count = clusters;
    return SMLA_OK;
}

static smla_status make_choices(const struct rt_device *device, const struct rt_module *module,
                                const struct gen_plan *plan, smla_kernel *kernel)
{
    int32_t active_clusters[GEN_MAX_RULES];
    smla_status status = SMLA_OK;

    for (int32_t i = 0; status == SMLA_OK && i < plan->rule_count; i++)
        status = count_clusters(device, module, plan, &plan->rules[i], &active_clusters[i]);
    if (status != SMLA_OK)
        return status;
    kernel->choice_count = plan->rule_count;
    gen_choices_make(plan, device->sm_count, active_clusters, kernel->choices);
    return SMLA_OK;
}

static smla_status make_kernel(const struct rt_device *device, const struct gen_bundle *bundle,
                               const struct rt_module *module, smla_kernel **out)
{
    const struct gen_plan *plan = &bundle->plan;
    const struct gen_variant *variant = &plan->variants[0];
    smla_kernel *kernel = malloc(sizeof *kernel);

    if (kernel == NULL)
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a kernel's record");
    *kernel = (smla_kernel){
        .driver = device->driver,
        .cuda_context = device->context,
        .op = bundle->spec.op,
        .h_q = bundle->spec.h_q,
        .d_qk = bundle->spec.d_qk,
        .d_v = bundle->spec.d_v,
        .caches = bundle->spec.has_extra_kv ? 2 : 1,
        .kv = {kv_of(&bundle->spec.kv)},
        .paged_variant = plan->paged_variant,
        .lengths_variant = plan->lengths_variant,
        .tensor_maps = plan->tensor_maps,
        .check_variant = plan->check_variant,
        .check_threads = plan->variants[plan->check_variant].threads,
        .combine_variant = plan->combine_variant,
        .combine_threads = plan->variants[plan->combine_variant].threads,
        .sm_count = device->sm_count,
        .decode = gen_decode_of(&bundle->spec, plan),
        .takes_companion = plan->companion,
        .unpack = plan->unpack,
        .unpack_threads = plan->variants[plan->unpack.variant].threads,
        .threads = variant->threads,
        .shared_bytes = variant->shared_bytes,
        .blocks_per_query = variant->blocks_per_query,
        .most_blocks = variant->blocks_per_sm > 0 ? variant->blocks_per_sm * device->sm_count : INT32_MAX,
        .blocks_per_sm = variant->blocks_per_sm,
        .pointer_alignment_bytes = plan->pointer_alignment_bytes,
        .stride_alignment_elems = plan->stride_alignment_elems,
        .out_elem_bytes = is_reference(&bundle->spec) ? 4 : 2,
    };
    if (bundle->spec.has_extra_kv)
        kernel->kv[1] = kv_of(&bundle->spec.extra_kv);
    kernel->out_alignment_bytes = larger(plan->pointer_alignment_bytes, kernel->out_elem_bytes);
    memcpy(kernel->functions, module->functions, sizeof kernel->functions);
    snprintf(kernel->name, sizeof kernel->name, "%s",
             plan->variant_count > 1 && !plan->combine_variant ? plan->kernel : variant->name);
    *out = kernel; /* the caller's to destroy, whatever comes back */
    return make_choices(device, module, plan, kernel);
}

/* The driver's part of it, with next to nothing of our own. */
static smla_status load_once(smla_context *context, const struct rt_device *device, const struct gen_bundle *bundle,
                             const struct rt_entry *image, smla_kernel **out, bool *refuses)
{
    const uint64_t start = rt_now_ns();
    const struct rt_module *module;
    smla_status status = rt_modules_get(&context->modules, device, image, &bundle->plan, &module, refuses);

    if (status == SMLA_OK)
        status = make_kernel(device, bundle, module, out);
    rt_count(&context->counters.driver_ns, rt_now_ns() - start);
    return status;
}

/* *image: another afterwards, where the driver refuses the one that was found. */
static smla_status load_image(smla_context *context, const struct rt_device *device, const struct gen_bundle *bundle,
                              const struct rt_entry **image, smla_kernel **out)
{
    struct rt_refused refused = {.count = 0};

    for (;;) {
        bool refuses;
        smla_status status = load_once(context, device, bundle, *image, out, &refuses);

        if (!refuses)
            return status;
        status = rt_obtain_instead(context, bundle, device->driver->version / 1000, &refused, image);
        if (status != SMLA_OK)
            return status;
    }
}

static smla_status test_kernels(smla_context *context, const struct rt_device *device, const struct gen_bundle *bundles,
                                const struct rt_entry *images[2], const smla_kernel *kernel)
{
    const smla_status status = rt_self_test(context, device, &bundles[0], images[0], kernel);

    if (status != SMLA_OK || kernel->companion == NULL)
        return status;
    return rt_self_test(context, device, &bundles[1], images[1], kernel->companion);
}

static smla_status load_images(smla_context *context, const struct rt_device *device, const struct gen_bundle *bundles,
                               int count, const struct rt_entry *images[2], smla_kernel **out)
{
    smla_status status = load_image(context, device, &bundles[0], &images[0], out);

    if (status == SMLA_OK && count > 1)
        status = load_image(context, device, &bundles[1], &images[1], &(*out)->companion);
    if (status == SMLA_OK && (context->settings.flags & SMLA_CONTEXT_SELF_TEST))
        status = test_kernels(context, device, bundles, images, *out);
    return status;
}

/* bundles: the kernel's, and its companion's where count is 2. */
static smla_status load_bundles(smla_context *context, const struct rt_device *device, const struct gen_bundle *bundles,
                                int count, smla_kernel **out)
{
    const struct rt_entry *images[2];
    smla_status status = SMLA_OK;

    for (int i = 0; status == SMLA_OK && i < count; i++)
        status = rt_device_check(device, &bundles[i].spec, &bundles[i].plan);
    if (status == SMLA_OK && bundles[0].spec.checked)
        status = rt_driver_check_for_checks(device->driver);
    if (status == SMLA_OK)
        status =
            rt_obtain_with_companion(context, bundles, count, device->driver->takes_ptx ? RT_KIND_PTX : RT_KIND_CUBIN,
                                     device->driver->version / 1000, images);
    if (status == SMLA_OK)
        status = rt_process_begin_work();
    if (status != SMLA_OK)
        return status;
    status = load_images(context, device, bundles, count, images, out);
    rt_process_end_work();
    return status;
}

/* The caller frees on OK. */
static smla_status choose(smla_context *context, const smla_kernel_desc *desc, const struct gen_target *target,
                          struct rt_selection *selection)
{
    smla_status status = rt_selection_make(&context->settings, desc, target, selection);

    rt_selection_tell_off(&context->settings, selection, status);
    if (status != SMLA_OK)
        return status;
    status = rt_selection_check(&context->settings, selection);
    if (status != SMLA_OK)
        rt_selection_free(selection);
    return status;
}

static smla_status prepare_on(smla_context *context, const struct rt_device *device, const smla_kernel_desc *desc,
                              smla_kernel **out)
{
    const struct gen_target *target = NULL;
    struct rt_selection selection;
    smla_status status = SMLA_OK;

    if (desc->target == NULL)
        status = rt_device_target(device, &target);
    if (status == SMLA_OK)
        status = choose(context, desc, target, &selection);
    if (status != SMLA_OK)
        return status;
    status = load_bundles(context, device, selection.bundles, selection.count, out);
    rt_selection_free(&selection);
    return status;
}

smla_status rt_prepare(smla_context *context, const smla_kernel_desc *desc, rt_cu_context cuda_context,
                       smla_kernel **out)
{
    const uint64_t start = rt_now_ns();
    const struct rt_driver *driver;
    struct rt_device device;
    smla_kernel *kernel = NULL;
    smla_status status = rt_context_driver(context, &driver);

    if (status == SMLA_OK)
        status = rt_device_enter(&device, driver, cuda_context);
    rt_count(&context->counters.driver_ns, rt_now_ns() - start);
    if (status != SMLA_OK)
        return status;
    status = rt_device_leave(&device, prepare_on(context, &device, desc, &kernel));
    if (status == SMLA_OK)
        *out = kernel;
    else
        smla_kernel_destroy(kernel);
    return status;
}

smla_status smla_prepare(smla_context *context, const smla_kernel_desc *desc, smla_kernel **out)
{
    struct rt_description full;

    if (context == NULL || out == NULL)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "smla_prepare: %s is NULL", context ? "out" : "context");
    const smla_status status = rt_description_read(&full, desc);
    return status == SMLA_OK ? rt_prepare(context, &full.desc, context->primary, out) : status;
}

void smla_kernel_destroy(smla_kernel *kernel)
{
    if (kernel != NULL)
        free(kernel->companion);
    free(kernel);
}
