/* A launch: its clusters one after the other, on as many host threads as asked for; faults and findings. */
#include "engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

/* ---- Findings ---- */

/* The same two lines again (every byte of a tile, say) are one finding. The newest pairs are remembered. */
static bool is_new(struct emu_cluster_sync *sync, const struct emu_finding *finding)
{
    const int count = sync->distinct < EMU_KNOWN_LINES ? sync->distinct : EMU_KNOWN_LINES;
    for (int i = 0; i < count; i++)
        if (sync->known_kinds[i] == finding->kind && sync->known_lines[2 * i] == finding->first.instr &&
            sync->known_lines[2 * i + 1] == finding->second.instr)
            return false;
    const int at = sync->distinct % EMU_KNOWN_LINES;
    sync->known_kinds[at] = (uint8_t)finding->kind;
    sync->known_lines[2 * at] = finding->first.instr;
    sync->known_lines[2 * at + 1] = finding->second.instr;
    return true;
}

void emu_found(struct emu_cluster *cluster, const struct emu_finding *finding)
{
    struct emu_cluster_sync *sync = cluster->sync;
    emu_report_add(cluster->report, finding);
    sync->findings++;
    sync->distinct += is_new(sync, finding);
    if (sync->distinct >= cluster->options->max_findings)
        cluster->sync->fault = true;
}

__attribute__((format(printf, 5, 0))) static void find(struct emu_warp *warp, const struct emu_instr *instr, int lane,
                                                       enum emu_finding_kind kind, const char *format,
                                                       va_list arguments)
{
    const struct emu_cta *cta = warp->cta;
    struct emu_finding finding = {
        .kind = kind,
        .kernel = cta->launch->kernel,
        .second = {
            .instr = instr, .ctaid = {cta->ctaid[0], cta->ctaid[1], cta->ctaid[2]}, .warp = warp->index, .lane = lane}};
    vsnprintf(finding.message, sizeof(finding.message), format, arguments);
    emu_found(cta->cluster, &finding);
}

enum emu_action emu_fault(struct emu_warp *warp, const struct emu_instr *instr, int lane, enum emu_finding_kind kind,
                          const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    find(warp, instr, lane, kind, format, arguments);
    va_end(arguments);
    if (!warp->cta->cluster->sync->fault) {
        warp->cta->cluster->sync->fault = true;
        warp->cta->cluster->sync->fault_kind = kind;
    }
    return EMU_FAULT;
}

void emu_find(struct emu_warp *warp, const struct emu_instr *instr, int lane, enum emu_finding_kind kind,
              const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    find(warp, instr, lane, kind, format, arguments);
    va_end(arguments);
}

/* ---- Waking ---- */

void emu_wake(struct emu_cluster *cluster, enum emu_wait_kind kind)
{
    cluster->sync->events++;
    cluster->sync->idle_yields = 0;
    for (int c = 0; c < cluster->cta_count; c++)
        for (int w = 0; w < cluster->ctas[c].warp_count; w++) {
            struct emu_warp *warp = &cluster->ctas[c].warps[w];
            for (int g = 0; g < warp->group_count; g++)
                if (warp->groups[g].blocked && warp->groups[g].wait.kind == kind)
                    warp->groups[g].blocked = false;
        }
}

/* ---- The launch ---- */

struct job {
    struct emu_launch *launch;
    const struct emu_options *options;
    struct emu_memory *memory;
    struct emu_report *report;
    uint64_t cluster_count;
    uint64_t next;     /* cluster to run; atomic */
    uint64_t executed; /* atomic */
    int result;        /* enum emu_result; atomic */
};

static enum emu_result result_of(const struct emu_cluster_sync *sync)
{
    if (!sync->fault)
        return sync->findings ? EMU_FINDINGS : EMU_OK;
    switch (sync->fault_kind) {
    case EMU_OUT_OF_BOUNDS:
        return EMU_ILLEGAL_ADDRESS;
    case EMU_MISALIGNED_ACCESS:
        return EMU_MISALIGNED;
    case EMU_DEADLOCKED:
        return EMU_DEADLOCK;
    case EMU_TRAP:
        return EMU_ASSERT;
    case EMU_BAD_OPERAND:
    case EMU_BAD_REGISTERS:
        return EMU_ILLEGAL_INSTRUCTION;
    default:
        return EMU_FINDINGS;
    }
}

static void set_result(struct job *job, enum emu_result result)
{
    int expected = EMU_OK;
    if (result != EMU_OK)
        __atomic_compare_exchange_n(&job->result, &expected, (int)result, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* A fault ends the launch; findings alone do not. */
static bool goes_on(struct job *job)
{
    const int result = __atomic_load_n(&job->result, __ATOMIC_RELAXED);
    return result == EMU_OK || result == EMU_FINDINGS;
}

static void count_instructions(struct job *job, struct emu_cluster *cluster)
{
    for (int c = 0; c < cluster->cta_count; c++)
        for (int w = 0; w < cluster->ctas[c].warp_count; w++) {
            __atomic_fetch_add(&job->executed, cluster->ctas[c].warps[w].instr_executed, __ATOMIC_RELAXED);
            cluster->ctas[c].warps[w].instr_executed = 0;
        }
}

static void *run_clusters(void *argument)
{
    struct job *job = argument;
    struct emu_cluster cluster;
    if (!emu_cluster_create(&cluster, job->launch, job->options, job->memory, job->report)) {
        emu_cluster_destroy(&cluster);
        set_result(job, EMU_NO_MEMORY);
        return NULL;
    }
    while (goes_on(job)) {
        const uint64_t number = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED);
        if (number >= job->cluster_count)
            break;
        if (!emu_cluster_begin(&cluster, number)) {
            set_result(job, EMU_NO_MEMORY);
            break;
        }
        emu_cluster_run(&cluster);
        count_instructions(job, &cluster);
        set_result(job, result_of(cluster.sync));
        if (cluster.sync->fault)
            break;
    }
    emu_cluster_destroy(&cluster);
    return NULL;
}

static void run_on_threads(struct job *job, int threads)
{
    enum { MOST = 64 };
    pthread_t handles[MOST];
    int started = 0;
    const int wanted = threads > MOST ? MOST : threads;
    while (started + 1 < wanted && (uint64_t)started + 1 < job->cluster_count &&
           pthread_create(&handles[started], NULL, run_clusters, job) == 0)
        started++;
    run_clusters(job);
    for (int i = 0; i < started; i++)
        pthread_join(handles[i], NULL);
}

static void fill_cluster(struct emu_launch *launch)
{
    for (int i = 0; i < 3; i++)
        if (launch->cluster[i] == 0)
            launch->cluster[i] = launch->kernel->required_cluster[i] ? launch->kernel->required_cluster[i] : 1;
}

enum emu_result emu_run(struct emu_launch *launch, const struct emu_options *options, struct emu_memory *memory,
                        struct emu_report *report)
{
    fill_cluster(launch);
    const uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    const uint64_t size = (uint64_t)launch->cluster[0] * launch->cluster[1] * launch->cluster[2];
    struct job job = {
        .launch = launch, .options = options, .memory = memory, .report = report, .cluster_count = blocks / size};
    if (options->checks & EMU_CHECK_RACES)
        memory->shadow = emu_global_shadow_create();
    run_on_threads(&job, options->threads);
    emu_global_shadow_destroy(memory->shadow);
    memory->shadow = NULL;
    launch->instr_executed = job.executed;
    pthread_mutex_lock(&report->lock);
    report->launches++;
    report->instr_executed += job.executed;
    pthread_mutex_unlock(&report->lock);
    return (enum emu_result)job.result;
}
