/* Calls beside other kernels, on a card or on the emulated device: a persistent kernel that may not take the whole
 * device; and chains of kernels that start while the one before them ends (SMLA_LAUNCH_AFTER_PREVIOUS), where each must
 * wait for what it reads: the first of them is slow, and what it overwrites last would give other results.
 *
 * Exit 0 all passed, 1 something failed, 77 there is no card. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "merge.h"
#include "mutant.h"

static int passed, failed;

static void report(const char *name, bool fine, const char *text)
{
    printf("%-6s %-44s %s\n", fine ? "passed" : "FAILED", name, text);
    fflush(stdout);
    *(fine ? &passed : &failed) += 1;
}

/* ---- Neighbours ---- */

/* Signals at once that what is behind it may start; then naps, waits for what is ahead of it, copies words. */
static const char neighbour_ptx[] =
    ".version 7.8\n.target sm_90\n.address_size 64\n"
    ".visible .entry copy_words(.param .u64 to, .param .u64 from, .param .u32 words, .param .u32 naps)\n"
    "{\n"
    ".reg .pred %p; .reg .b32 %r<8>; .reg .b64 %rd<4>;\n"
    "griddepcontrol.launch_dependents;\n"
    "ld.param.u64 %rd0, [to];\n"
    "ld.param.u64 %rd1, [from];\n"
    "ld.param.u32 %r0, [words];\n"
    "ld.param.u32 %r1, [naps];\n"
    "NAP:\n"
    "setp.eq.u32 %p, %r1, 0;\n"
    "@%p bra AWAKE;\n"
    "nanosleep.u32 20000;\n"
    "sub.u32 %r1, %r1, 1;\n"
    "bra NAP;\n"
    "AWAKE:\n"
    "griddepcontrol.wait;\n"
    "mov.u32 %r2, %ctaid.x;\n"
    "mov.u32 %r3, %ntid.x;\n"
    "mov.u32 %r4, %tid.x;\n"
    "mad.lo.u32 %r2, %r2, %r3, %r4;\n" /* word */
    "mov.u32 %r4, %nctaid.x;\n"
    "mul.lo.u32 %r3, %r3, %r4;\n" /* words a turn */
    "COPY:\n"
    "setp.ge.u32 %p, %r2, %r0;\n"
    "@%p bra DONE;\n"
    "mul.wide.u32 %rd2, %r2, 4;\n"
    "add.u64 %rd3, %rd1, %rd2;\n"
    "ld.global.u32 %r4, [%rd3];\n"
    "add.u64 %rd3, %rd0, %rd2;\n"
    "st.global.u32 [%rd3], %r4;\n"
    "add.u32 %r2, %r2, %r3;\n"
    "bra COPY;\n"
    "DONE:\n"
    "ret;\n"
    "}\n";

enum { BLOCKS = 8, THREADS = 128, NAPS = 10 }; /* 200 us */

struct neighbours {
    struct bench *bench;
    void *module, *copy;
    int repeats;
};

static bool copy_words(const struct neighbours *with, void *to, const void *from, size_t bytes, uint32_t naps,
                       bool dependent, void *stream)
{
    uint32_t words = (uint32_t)(bytes / 4);
    void *parameters[] = {&to, &from, &words, &naps};
    return dependent ? device_launch_dependent(with->bench->device, with->copy, BLOCKS, THREADS, stream, parameters)
                     : device_launch(with->bench->device, with->copy, BLOCKS, THREADS, 0, stream, parameters);
}

/* ---- A chain ---- */

/* Producer, some calls, consumer: the producer writes an input, the consumer copies an output. */
struct chain {
    const struct neighbours *with;
    void *input, *output;   /* on the device */
    void *spare, *consumed; /* what the input shall be; what the consumer made of the output */
    size_t input_bytes, output_bytes;
    uint8_t *expected; /* host: the output of calls in order */
    uint8_t stale;     /* what the input is before the producer comes to it, in every byte */
    uint32_t flags;    /* SMLA_LAUNCH_*, of the calls */
    /* Enqueues the calls. */
    bool (*calls)(const struct chain *chain, void *stream);
    smla_kernel *kernel, *combine;
    smla_prefill_args prefill[2];
    smla_combine_args merge;
};

static bool chain_open(struct chain *chain)
{
    struct device *device = chain->with->bench->device;
    chain->expected = malloc(chain->output_bytes);
    return chain->expected && device_alloc(device, chain->input_bytes, &chain->spare) &&
           device_alloc(device, chain->output_bytes, &chain->consumed) &&
           device_copy(device, chain->spare, chain->input, chain->input_bytes) && device_synchronize(device) &&
           chain->calls(chain, NULL) && device_synchronize(device) &&
           device_download(device, chain->expected, chain->output, chain->output_bytes);
}

static void chain_close(struct chain *chain)
{
    free(chain->expected);
    if (chain->spare)
        device_free(chain->with->bench->device, chain->spare);
    if (chain->consumed)
        device_free(chain->with->bench->device, chain->consumed);
}

static bool enqueue(const struct chain *chain, void *stream)
{
    return copy_words(chain->with, chain->input, chain->spare, chain->input_bytes, NAPS, false, stream) &&
           chain->calls(chain, stream) &&
           copy_words(chain->with, chain->consumed, chain->output, chain->output_bytes, 0, true, stream);
}

static bool make_stale(const struct chain *chain)
{
    struct device *device = chain->with->bench->device;
    return device_fill(device, chain->input, chain->stale, chain->input_bytes) &&
           device_fill(device, chain->output, 0xff, chain->output_bytes) &&
           device_fill(device, chain->consumed, 0xff, chain->output_bytes) && device_synchronize(device);
}

static bool is_right(const struct chain *chain)
{
    struct device *device = chain->with->bench->device;
    uint8_t *bytes = malloc(chain->output_bytes);
    const bool right = bytes && device_synchronize(device) &&
                       device_download(device, bytes, chain->consumed, chain->output_bytes) &&
                       memcmp(bytes, chain->expected, chain->output_bytes) == 0;
    free(bytes);
    return right;
}

/* Right each time, on a stream of the chain's own or on the one given; captured: as a graph that is replayed. */
static bool run_chain(struct chain *chain, bool own_stream, bool captured, char why[PROBLEM_WHY])
{
    struct device *device = chain->with->bench->device;
    void *stream = NULL, *graph = NULL;
    int run = 0;
    bool fine = !own_stream || device_stream_create(device, true, &stream);
    chain->flags = SMLA_LAUNCH_AFTER_PREVIOUS;
    if (fine && captured)
        fine = device_capture_begin(device, stream) && enqueue(chain, stream) &&
               device_capture_end(device, stream, &graph);
    for (; fine && run < chain->with->repeats; run++)
        fine = make_stale(chain) && (captured ? device_graph_launch(device, graph, stream) : enqueue(chain, stream)) &&
               is_right(chain);
    smla_error_info info = {.struct_size = sizeof(info)};
    smla_last_error(&info);
    if (fine)
        snprintf(why, PROBLEM_WHY, "%d times", run);
    else
        snprintf(why, PROBLEM_WHY, "run %d: other bits than one after the other, or a fault (%.300s; %.300s)", run,
                 device_why(device), info.message);
    if (graph)
        device_graph_destroy(device, graph);
    if (stream)
        device_stream_destroy(device, stream);
    return fine;
}

/* ---- Chains of prefill ---- */

static bool call_prefill(const struct chain *chain, void *stream)
{
    smla_prefill_args args = chain->prefill[0];
    args.launch_flags = chain->flags;
    return smla_prefill(chain->kernel, &args, stream) == SMLA_OK;
}

enum input { LISTS, QUERIES };

static void test_prefill(const struct neighbours *with, const char *name, int32_t h_q, uint32_t kernel_flags,
                         enum input input, bool own_stream, bool captured)
{
    struct bench *bench = with->bench;
    const struct problem_spec spec = {
        .name = name, .h_q = h_q, .s_q = 200, .s_kv = 2048, .topk = 320, .lengths = LENGTHS_RANDOM, .emulated_s_q = 3};
    struct problem problem;
    char why[PROBLEM_WHY];
    bench->kernel_flags = kernel_flags;
    bool fine = problem_make(bench, &spec, &problem, why);
    if (fine) {
        const struct guarded *produced = input == LISTS ? &problem.indices : &problem.query;
        struct chain chain = {.with = with,
                              .input = guarded_data(produced),
                              .output = guarded_data(&problem.out),
                              .input_bytes = produced->size_bytes,
                              .output_bytes = problem.out.size_bytes,
                              .stale = 0xff, /* no entry is valid; every element is NaN */
                              .calls = call_prefill,
                              .kernel = bench->prefill,
                              .prefill = {problem.args}};
        fine = chain_open(&chain) && run_chain(&chain, own_stream, captured, why);
        chain_close(&chain);
        problem_free(bench, &problem);
    }
    bench->kernel_flags = 0;
    report(name, fine, why);
}

/* A chain of a kernel that does not wait must go wrong: one that is silent here says nothing elsewhere. */
static void test_without_wait(const struct neighbours *with, const char *name)
{
    static struct mutant mutant;
    struct bench *bench = with->bench;
    const struct problem_spec spec = {.name = name, .s_q = 200, .s_kv = 2048, .topk = 320};
    struct problem problem;
    char why[PROBLEM_WHY];
    bench->kernel_flags = SMLA_KERNEL_NOT_PERSISTENT; /* the kernel that the mutant is made of, not split */
    bench->batch_invariant = true;
    bool fine = problem_make(bench, &spec, &problem, why);
    const bool made = fine && mutant_make(bench, "griddepcontrol_wait();", "", &mutant, why);
    bench->kernel_flags = 0;
    bench->batch_invariant = false;
    if (fine && !made) {
        printf("       %-44s not run: %s\n", name, why);
        problem_free(bench, &problem);
        return;
    }
    if (fine) {
        struct chain chain = {.with = with,
                              .input = guarded_data(&problem.indices),
                              .output = guarded_data(&problem.out),
                              .input_bytes = problem.indices.size_bytes,
                              .output_bytes = problem.out.size_bytes,
                              .stale = 0xff,
                              .calls = call_prefill,
                              .kernel = &mutant.kernel,
                              .prefill = {problem.args}};
        fine = chain_open(&chain);
        if (fine && run_chain(&chain, true, false, why)) {
            snprintf(why, sizeof(why), "right each time without its wait: does nothing start early here?");
            fine = false;
        }
        chain_close(&chain);
        problem_free(bench, &problem);
    }
    report(name, fine, why);
}

/* ---- Chains with combine ---- */

static bool call_combine(const struct chain *chain, void *stream)
{
    smla_combine_args args = chain->merge;
    args.launch_flags = chain->flags;
    return smla_combine(chain->combine, &args, stream) == SMLA_OK;
}

static void test_combine(const struct neighbours *with, const char *name)
{
    const struct merge_spec spec = {.name = name, .s_q = with->bench->emulated ? 3 : 200, .parts = 4, .empty = 0.2};
    struct merger merger = {.bench = with->bench};
    struct merge merge;
    char why[PROBLEM_WHY];
    bool fine = merge_make(&merger, &spec, &merge, why);
    if (fine) {
        struct chain chain = {.with = with,
                              .input = guarded_data(&merge.partial_out),
                              .output = guarded_data(&merge.out),
                              .input_bytes = merge.partial_out.size_bytes,
                              .output_bytes = merge.out.size_bytes,
                              .stale = 0xff,
                              .calls = call_combine,
                              .combine = merger.kernel,
                              .merge = merge.args};
        fine = chain_open(&chain) && run_chain(&chain, true, false, why);
        chain_close(&chain);
        merge_free(&merger, &merge);
    }
    smla_kernel_destroy(merger.kernel);
    report(name, fine, why);
}

/* Each half of the lists, then both together. combine waits for the second half's kernel alone, which has waited for
 * the first's. */
static bool call_halves(const struct chain *chain, void *stream)
{
    for (int half = 0; half < 2; half++) {
        smla_prefill_args args = chain->prefill[half];
        args.launch_flags = chain->flags;
        if (smla_prefill(chain->kernel, &args, stream) != SMLA_OK)
            return false;
    }
    return call_combine(chain, stream);
}

static bool make_halves(const struct problem *problem, void *parts, void *part_lse, struct chain *chain)
{
    const smla_prefill_args *all = &problem->args;
    const int64_t rows = all->s_q * problem->spec.h_q, topk = all->topk / 2;
    for (int half = 0; half < 2; half++) {
        smla_prefill_args *args = &chain->prefill[half];
        *args = *all;
        args->topk = topk;
        args->indices += half * topk;
        args->indices_stride_token = all->topk;
        args->out = (uint16_t *)parts + half * rows * 512;
        args->lse = (float *)part_lse + half * rows;
        args->max_logits = NULL;
    }
    chain->merge = (smla_combine_args){.struct_size = sizeof(smla_combine_args),
                                       .parts = 2,
                                       .s_q = all->s_q,
                                       .partial_out = parts,
                                       .partial_lse = part_lse,
                                       .out = all->out,
                                       .lse = all->lse};
    return true;
}

static void test_halves(const struct neighbours *with, const char *name)
{
    struct bench *bench = with->bench;
    struct merger merger = {.bench = bench};
    const struct problem_spec spec = {.name = name, .s_q = 200, .s_kv = 2048, .topk = 512, .emulated_s_q = 2};
    struct problem problem;
    char why[PROBLEM_WHY];
    void *parts = NULL, *part_lse = NULL;
    bool fine = problem_make(bench, &spec, &problem, why);
    if (fine) {
        fine = merger_prepare(&merger, 64, why) && device_alloc(bench->device, 2 * problem.out.size_bytes, &parts) &&
               device_alloc(bench->device, 2 * problem.lse.size_bytes, &part_lse);
        struct chain chain = {.with = with,
                              .input = guarded_data(&problem.indices),
                              .output = guarded_data(&problem.out),
                              .input_bytes = problem.indices.size_bytes,
                              .output_bytes = problem.out.size_bytes,
                              .stale = 0xff,
                              .calls = call_halves,
                              .kernel = bench->prefill,
                              .combine = merger.kernel};
        fine = fine && make_halves(&problem, parts, part_lse, &chain) && chain_open(&chain) &&
               run_chain(&chain, true, false, why);
        chain_close(&chain);
        problem_free(bench, &problem);
    }
    if (parts)
        device_free(bench->device, parts);
    if (part_lse)
        device_free(bench->device, part_lse);
    smla_kernel_destroy(merger.kernel);
    report(name, fine, why);
}

/* ---- A part of the device ---- */

static void test_sm_limit(struct bench *bench, const char *name, const struct problem_spec *spec, uint32_t kernel_flags)
{
    static const int32_t limits[] = {1, 7, 1000};
    struct problem problem;
    char why[PROBLEM_WHY];
    size_t size = 0;
    bench->kernel_flags = kernel_flags;
    bench->batch_invariant = true; /* few queries would be split, by what the limit leaves */
    bool fine = problem_make(bench, spec, &problem, why);
    if (fine) {
        fine = problem_run(bench, bench->prefill, &problem, NULL, why) && problem_check(bench, &problem, why);
        uint8_t *all = problem_snapshot(bench, &problem, &size);
        for (size_t i = 0; fine && i < sizeof(limits) / sizeof(limits[0]); i++) {
            problem.args.sm_limit = limits[i];
            fine = problem_run(bench, bench->prefill, &problem, NULL, why);
            uint8_t *some = problem_snapshot(bench, &problem, &size);
            if (fine && (!all || !some || memcmp(all, some, size) != 0)) {
                snprintf(why, sizeof(why), "sm_limit %d gave other bits", limits[i]);
                fine = false;
            }
            free(some);
        }
        free(all);
        problem_free(bench, &problem);
    }
    bench->kernel_flags = 0;
    bench->batch_invariant = false;
    report(name, fine, why);
}

static void test_sm_limits(struct bench *bench)
{
    const struct problem_spec plain = {.s_q = 600, .s_kv = 2048, .topk = 200, .lengths = LENGTHS_WILD, .sink = true};
    struct problem_spec heads = plain, many = plain;
    many.emulated_s_q = 16;
    test_sm_limit(bench, "sm_limit 1, 7, 1000: persistent", &many, 0);
    many.h_q = 128;
    many.emulated_s_q = 9;
    test_sm_limit(bench, "sm_limit 1, 7, 1000: persistent, 128 heads", &many, 0);
    test_sm_limit(bench, "sm_limit 1, 7, 1000: not persistent", &plain, SMLA_KERNEL_NOT_PERSISTENT);
    heads.h_q = 16;
    test_sm_limit(bench, "sm_limit 1, 7, 1000: few heads", &heads, 0);
}

int main(void)
{
    struct bench bench;
    char why[PROBLEM_WHY];
    const int opened = bench_open(&bench, why);
    if (opened != 0) {
        printf("%s: %s\n", opened == 77 ? "skipped" : "FAILED", why);
        return opened;
    }
    struct neighbours with = {.bench = &bench, .repeats = bench.emulated ? 3 : 20};
    test_sm_limits(&bench);
    const bool loaded = device_module_load(bench.device, neighbour_ptx, &with.module) &&
                        device_module_function(bench.device, with.module, "copy_words", 0, &with.copy);
    if (loaded) {
        test_prefill(&with, "chain: 64 heads, lists", 64, 0, LISTS, true, false);
        test_prefill(&with, "chain: 64 heads, queries", 64, 0, QUERIES, true, false);
        test_prefill(&with, "chain: 64 heads, lists, NULL stream", 64, 0, LISTS, false, false);
        test_prefill(&with, "33 chain: 64 heads, lists, captured", 64, 0, LISTS, true, true);
        test_prefill(&with, "chain: 16 heads, lists", 16, 0, LISTS, true, false);
        test_prefill(&with, "chain: 16 heads, queries", 16, 0, QUERIES, true, false);
        test_prefill(&with, "chain: not persistent, lists", 64, SMLA_KERNEL_NOT_PERSISTENT, LISTS, true, false);
        test_prefill(&with, "chain: not persistent, queries", 64, SMLA_KERNEL_NOT_PERSISTENT, QUERIES, true, false);
        test_combine(&with, "chain: combine");
        test_halves(&with, "chain: prefill, prefill, combine");
        if (bench.emulated) /* emu.mutation deletes the waits of all kernels */
            printf("       chain: a missing wait shows                  not run: its fault would end the context\n");
        else
            test_without_wait(&with, "chain: a missing wait shows");
    } else {
        report("chains", false, device_why(bench.device));
    }
    if (with.module)
        device_module_unload(bench.device, with.module);
    bench_close(&bench);
    printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
