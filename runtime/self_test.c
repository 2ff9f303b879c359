#include "self_test.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "self_test_run.h"

/* ---- What is remembered ---- */

/* Of a kernel's code on a device of a driver. */
struct verdict {
    struct rt_digest entry;
    rt_cu_device ordinal;
    int driver_version;
    int32_t choices; /* ways for few queries: the kill switch may have left none */
    bool known;
    char failure[640]; /* "": it is right */
};

/* Of the process, whatever contexts there are. A kernel for which there is no place any more is tested anew. */
enum { MOST_VERDICTS = 256 };
static struct {
    pthread_mutex_t lock;
    int next;
    struct verdict verdicts[MOST_VERDICTS];
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct verdict verdict_for(const struct rt_device *device, const struct rt_entry *image,
                                  const smla_kernel *kernel)
{
    struct verdict verdict = {
        .ordinal = device->ordinal, .driver_version = device->driver->version, .choices = kernel->choice_count};

    rt_entry_digest(image, &verdict.entry);
    return verdict;
}

static bool same_kernel(const struct verdict *a, const struct verdict *b)
{
    return a->ordinal == b->ordinal && a->driver_version == b->driver_version && a->choices == b->choices &&
           memcmp(&a->entry, &b->entry, sizeof a->entry) == 0;
}

static void recall(struct verdict *verdict)
{
    pthread_mutex_lock(&memory.lock);
    for (int i = 0; i < MOST_VERDICTS && !verdict->known; i++)
        if (memory.verdicts[i].known && same_kernel(&memory.verdicts[i], verdict))
            *verdict = memory.verdicts[i];
    pthread_mutex_unlock(&memory.lock);
}

static void remember(struct verdict *verdict)
{
    verdict->known = true;
    pthread_mutex_lock(&memory.lock);
    memory.verdicts[memory.next] = *verdict;
    memory.next = (memory.next + 1) % MOST_VERDICTS;
    pthread_mutex_unlock(&memory.lock);
}

void rt_self_test_forget(void)
{
    pthread_mutex_lock(&memory.lock);
    memory.next = 0;
    for (int i = 0; i < MOST_VERDICTS; i++)
        memory.verdicts[i].known = false;
    pthread_mutex_unlock(&memory.lock);
}

/* ---- The test ---- */

static smla_status run_on(struct test_device *test, const struct gen_bundle *bundle, const smla_kernel *kernel)
{
    uint8_t *got = malloc(test->problem->image_bytes - test->problem->offsets[TEST_OUT]);
    const smla_status status = got ? test_run(test, bundle, kernel, got)
                                   : rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for the self-test's results");

    free(got);
    return status;
}

static smla_status test(const struct rt_device *device, const struct gen_bundle *bundle, const smla_kernel *kernel)
{
    struct test_problem problem;
    struct test_device opened;
    smla_status status = test_device_check(device->driver);

    if (status != SMLA_OK)
        return status;
    if (!test_problem_make(&bundle->spec, test_topk(&bundle->spec, kernel), &problem))
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for the self-test's problem");
    status = test_device_open(device->driver, &problem, &opened);
    if (status == SMLA_OK)
        status = test_device_close(&opened, run_on(&opened, bundle, kernel));
    test_problem_free(&problem);
    return status;
}

static smla_status fail(smla_context *context, const struct rt_device *device, const struct verdict *verdict)
{
    rt_count(&context->counters.self_test_failures, 1);
    return rt_fail(
        SMLA_ERROR_SELF_TEST,
        "%s. On device %d (%s, driver API %d.%d) the kernel is not handed out: switch what is wrong off with "
        "SMLA_DISABLE, where something else serves the description, and please report it",
        verdict->failure, device->ordinal, device->name, device->driver->version / 1000,
        device->driver->version % 1000 / 10);
}

/* ---- What is told ---- */

static void tell(const smla_context *context, const struct rt_entry *image, struct rt_event event, const char *words,
                 const char *why)
{
    event.key = &image->info.key;
    event.kernel = image->info.description;
    rt_tell(&context->settings.log, &event, "self-test %s %s%s%s", words, image->info.description, why[0] ? ": " : "",
            why);
}

static void tell_start(const smla_context *context, const struct rt_entry *image)
{
    tell(context, image, (struct rt_event){.kind = SMLA_EVENT_SELF_TEST_START, .level = SMLA_LOG_DEBUG}, "of", "");
}

static void tell_end(const smla_context *context, const struct rt_entry *image, smla_status status, const char *why,
                     uint64_t duration_ns)
{
    const struct rt_event event = {.kind =
                                       status == SMLA_OK ? SMLA_EVENT_SELF_TEST_PASSED : SMLA_EVENT_SELF_TEST_FAILED,
                                   .level = SMLA_LOG_INFO,
                                   .status = status,
                                   .duration_ns = duration_ns};

    tell(context, image, event, status == SMLA_OK ? "passed by" : "failed by", why);
}

static void tell_remembered(const smla_context *context, const struct rt_entry *image, const struct verdict *verdict)
{
    const struct rt_event event = {
        .kind = SMLA_EVENT_SELF_TEST_FAILED, .level = SMLA_LOG_INFO, .status = SMLA_ERROR_SELF_TEST};

    tell(context, image, event, "failed before, and is not run again, by", verdict->failure);
}

/* ---- One of them ---- */

/* What is no verdict (a failure of the driver, no memory) is not remembered. */
static smla_status test_now(smla_context *context, const struct rt_device *device, const struct gen_bundle *bundle,
                            const struct rt_entry *image, const smla_kernel *kernel, struct verdict *verdict)
{
    const uint64_t start = rt_now_ns();
    struct rt_error error = {.message = ""};

    tell_start(context, image);
    const smla_status status = test(device, bundle, kernel);
    const uint64_t duration = rt_now_ns() - start;
    rt_count(&context->counters.self_tests, 1);
    rt_count(&context->counters.self_test_ns, duration);
    if (status != SMLA_OK)
        rt_error_save(&error);
    if (status == SMLA_ERROR_SELF_TEST)
        memcpy(verdict->failure, error.message, sizeof verdict->failure - 1);
    if (status == SMLA_OK || status == SMLA_ERROR_SELF_TEST)
        remember(verdict);
    tell_end(context, image, status, error.message, duration);
    return status;
}

smla_status rt_self_test(smla_context *context, const struct rt_device *device, const struct gen_bundle *bundle,
                         const struct rt_entry *image, const smla_kernel *kernel)
{
    struct verdict verdict = verdict_for(device, image, kernel);
    smla_status status = SMLA_OK;

    recall(&verdict);
    if (!verdict.known)
        status = test_now(context, device, bundle, image, kernel, &verdict);
    else if (verdict.failure[0])
        tell_remembered(context, image, &verdict);
    if (status != SMLA_OK && status != SMLA_ERROR_SELF_TEST)
        return status;
    return verdict.failure[0] ? fail(context, device, &verdict) : SMLA_OK;
}
