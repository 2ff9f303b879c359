#include "companion.h"

#include "error.h"
#include "obtain.h"
#include "plan_companion.h"
#include "thread.h"

bool rt_has_companion(const struct gen_bundle *bundle)
{
    return gen_has_companion(&bundle->plan);
}

smla_status rt_companion_bundle(const struct gen_bundle *of, struct gen_bundle *bundle)
{
    struct gen_refusal refusal;
    const smla_status status = gen_bundle_make_companion(of, bundle, &refusal);

    return status == SMLA_OK ? SMLA_OK : rt_fail(status, "%s", refusal.text);
}

/* ---- Both at once ------------------------------------------------------------------------------------------- */

/* What the second thread does, and what came of it. */
struct job {
    smla_context *context;
    const struct gen_bundle *bundle;
    enum rt_kind kind;
    int32_t max_nvrtc_major;
    const struct rt_entry **image;
    smla_status status;
    struct rt_error error;
};

static void *run_job(void *user)
{
    struct job *job = user;

    job->status = rt_obtain(job->context, job->bundle, job->kind, job->max_nvrtc_major, job->image);
    if (job->status != SMLA_OK)
        rt_error_save(&job->error);
    return NULL;
}

smla_status rt_obtain_with_companion(smla_context *context, const struct gen_bundle *bundles, int count,
                                     enum rt_kind kind, int32_t max_nvrtc_major, const struct rt_entry *images[2])
{
    struct job job = {context, &bundles[1], kind, max_nvrtc_major, &images[1], SMLA_OK, {0}};
    const bool may_compile = rt_context_jit_policy(context) == SMLA_JIT_ON;
    pthread_t thread;
    int cancel_state;

    /* What the second thread writes to is on this stack: nobody may end this thread before it. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    const bool started = count > 1 && may_compile && rt_thread_start(&thread, run_job, &job) == 0;
    const smla_status status = rt_obtain(context, &bundles[0], kind, max_nvrtc_major, &images[0]);
    if (started)
        pthread_join(thread, NULL);
    pthread_setcancelstate(cancel_state, NULL);
    if (status != SMLA_OK || count == 1)
        return status;
    if (!started)
        return rt_obtain(context, &bundles[1], kind, max_nvrtc_major, &images[1]);
    return job.status == SMLA_OK ? SMLA_OK : rt_error_restore(&job.error);
}
