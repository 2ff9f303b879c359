#include "preparation.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "thread.h"

/* ---- All of a context --------------------------------------------------------------------------------------- */

smla_status rt_preparations_begin(struct rt_preparations **out)
{
    struct rt_preparations *all = calloc(1, sizeof *all);

    if (all == NULL)
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a context's preparations");
    if (pthread_mutex_init(&all->lock, NULL) != 0) {
        free(all);
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a lock");
    }
    if (!rt_condition_init(&all->changed)) {
        pthread_mutex_destroy(&all->lock);
        free(all);
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a condition");
    }
    all->users = 1;
    *out = all;
    return SMLA_OK;
}

/* Called with the lock held, which it gives up. */
static void leave_all(struct rt_preparations *all)
{
    const bool last = --all->users == 0;

    pthread_mutex_unlock(&all->lock);
    if (!last)
        return;
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

/* A lock that a thread of the parent had is never given back in the child, so the child takes none. */
static bool is_forked(const struct rt_preparations *all)
{
    const pid_t pid = __atomic_load_n(&all->pid, __ATOMIC_RELAXED);

    return pid != 0 && pid != getpid();
}

void rt_preparations_end(struct rt_preparations *all)
{
    if (all == NULL || is_forked(all))
        return;
    pthread_mutex_lock(&all->lock);
    all->ended = true;
    pthread_cond_broadcast(&all->changed);
    leave_all(all);
}

/* ---- One of them -------------------------------------------------------------------------------------------- */

static smla_status fail_forked(pid_t from)
{
    return rt_fail(
        SMLA_ERROR_UNAVAILABLE,
        "process %ld was forked from %ld, where kernels are prepared in the background: the child has no part "
        "in it; create a context in the child, or prepare before",
        (long)getpid(), (long)from);
}

/* A name that does not fit is none that there is, cut or not. */
static void copy_name(const char **name, char copy[RT_NAME_BYTES])
{
    if (*name == NULL)
        return;
    snprintf(copy, RT_NAME_BYTES, "%s", *name);
    *name = copy;
}

static void copy_layout(const smla_kv_layout **layout, smla_kv_layout *copy)
{
    if (*layout == NULL)
        return;
    *copy = **layout;
    *layout = copy;
}

static void copy_description(smla_preparation *preparation, const smla_kernel_desc *desc)
{
    smla_kernel_desc *own = &preparation->desc;

    *own = *desc;
    copy_name(&own->kv_format, preparation->names[0]);
    copy_name(&own->extra_kv_format, preparation->names[1]);
    copy_name(&own->target, preparation->names[2]);
    copy_layout(&own->kv_layout, &preparation->layouts[0]);
    copy_layout(&own->extra_kv_layout, &preparation->layouts[1]);
}

smla_status rt_preparation_make(struct rt_preparations *all, const smla_kernel_desc *desc, smla_preparation **out)
{
    if (is_forked(all))
        return fail_forked(all->pid);
    smla_preparation *preparation = calloc(1, sizeof *preparation);
    if (preparation == NULL)
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a preparation's record");
    preparation->all = all;
    preparation->pid = getpid();
    preparation->users = 2;
    copy_description(preparation, desc);
    __atomic_store_n(&all->pid, preparation->pid, __ATOMIC_RELAXED);
    pthread_mutex_lock(&all->lock);
    all->users++;
    pthread_mutex_unlock(&all->lock);
    *out = preparation;
    return SMLA_OK;
}

bool rt_preparation_is_abandoned(smla_preparation *preparation)
{
    pthread_mutex_lock(&preparation->all->lock);
    const bool abandoned = preparation->users == 1;
    pthread_mutex_unlock(&preparation->all->lock);
    return abandoned;
}

void rt_preparation_leave(smla_preparation *preparation)
{
    struct rt_preparations *all = preparation->all;

    if (preparation->pid != getpid())
        return;
    pthread_mutex_lock(&all->lock);
    if (--preparation->users > 0) {
        pthread_mutex_unlock(&all->lock);
        return;
    }
    leave_all(all);
    smla_kernel_destroy(preparation->kernel);
    free(preparation);
}

void rt_preparation_finish(smla_preparation *preparation, smla_status status, smla_kernel *kernel)
{
    struct rt_preparations *all = preparation->all;

    pthread_mutex_lock(&all->lock);
    preparation->state = status == SMLA_OK ? RT_PREPARATION_READY : RT_PREPARATION_FAILED;
    preparation->kernel = kernel;
    if (status != SMLA_OK)
        rt_error_save(&preparation->error);
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
    rt_preparation_leave(preparation);
}

/* ---- Who asks ----------------------------------------------------------------------------------------------- */

static smla_status hand_over(smla_preparation *preparation, smla_kernel **out)
{
    if (out == NULL)
        return SMLA_OK;
    *out = preparation->kernel;
    preparation->kernel = NULL;
    preparation->state = RT_PREPARATION_TAKEN;
    return SMLA_OK;
}

/* Called with the lock held. */
static smla_status answer(smla_preparation *preparation, smla_kernel **out)
{
    if (preparation->state == RT_PREPARATION_FAILED)
        return rt_error_restore(&preparation->error);
    if (preparation->state == RT_PREPARATION_TAKEN)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "the kernel of this preparation was handed over before");
    if (preparation->all->ended)
        return rt_fail(SMLA_ERROR_UNAVAILABLE,
                       "the context of this preparation was destroyed before its kernel was taken");
    return preparation->state == RT_PREPARATION_READY ? hand_over(preparation, out) : SMLA_PENDING;
}

smla_status rt_preparation_ask(smla_preparation *preparation, uint64_t deadline_ns, smla_kernel **out)
{
    struct rt_preparations *all = preparation->all;
    bool in_time = deadline_ns > 0;

    if (preparation->pid != getpid())
        return fail_forked(preparation->pid);
    pthread_mutex_lock(&all->lock);
    while (preparation->state == RT_PREPARATION_PENDING && !all->ended && in_time)
        in_time = rt_wait_until(&all->changed, &all->lock, deadline_ns);
    const smla_status status = answer(preparation, out);
    pthread_mutex_unlock(&all->lock);
    return status;
}
