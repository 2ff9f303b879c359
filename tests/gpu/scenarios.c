/* What loaders of others were reported for and a card alone can show, by the numbers of docs/bug-reports.md: preparing
 * and calling inside a capture, beside a kernel that does not end, in a second CUDA context, on a part of the card, on
 * two cards, from threads, many times; and calls after somebody's kernel failed. On the emulated device what has no
 * speed in it.
 *
 * Exit 0 all passed, 1 something failed, 77 there is no card. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "decode_problem.h"
#include "kernel.h"
#include "problem.h"

static int passed, failed;

static void report(const char *name, bool fine, const char *text)
{
    printf("%-6s %-40s %s\n", fine ? "passed" : "FAILED", name, text);
    fflush(stdout);
    *(fine ? &passed : &failed) += 1;
}

static void not_run(const char *name, const char *why)
{
    printf("       %-40s not run: %s\n", name, why);
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* The library's last error, or the driver's. */
static void explain(const struct bench *bench, char why[PROBLEM_WHY])
{
    smla_error_info info = {.struct_size = sizeof(info)};
    smla_last_error(&info);
    snprintf(why, PROBLEM_WHY, "a call failed: %.400s; %.400s", info.message, device_why(bench->device));
}

/* ---- A call whose right bits are known ---- */

struct plain {
    struct problem problem;
    uint8_t *bits;
    bool made;
};

static bool plain_make(struct bench *bench, int32_t h_q, int64_t s_q, struct plain *plain, char why[PROBLEM_WHY])
{
    const struct problem_spec spec = {
        .name = "plain", .h_q = h_q, .s_q = s_q, .s_kv = 2048, .topk = 300, .invalid = 0.1, .sink = true};
    size_t size;
    memset(plain, 0, sizeof(*plain));
    plain->made = problem_make(bench, &spec, &plain->problem, why);
    if (!plain->made || !problem_run(bench, bench->prefill, &plain->problem, NULL, why) ||
        !problem_check(bench, &plain->problem, why))
        return false;
    plain->bits = problem_snapshot(bench, &plain->problem, &size);
    why[0] = '\0';
    return plain->bits != NULL;
}

static bool plain_poison(struct bench *bench, const struct plain *plain)
{
    return guarded_poison(bench->device, &plain->problem.out) && device_synchronize(bench->device);
}

static bool plain_same(struct bench *bench, const struct plain *plain, char why[PROBLEM_WHY])
{
    size_t size;
    if (!device_synchronize(bench->device)) {
        explain(bench, why);
        return false;
    }
    uint8_t *bits = problem_snapshot(bench, &plain->problem, &size);
    const bool same = bits && memcmp(bits, plain->bits, size) == 0;
    free(bits);
    snprintf(why, PROBLEM_WHY, same ? "the bits of a plain call" : "other bits than a plain call");
    return same;
}

static void plain_free(struct bench *bench, struct plain *plain)
{
    free(plain->bits);
    if (plain->made)
        problem_free(bench, &plain->problem);
}

/* ---- In a capture ---- */

static int lines; /* of a context's log */

static void count_line(void *user, int32_t level, const char *line)
{
    (void)user;
    (void)level;
    (void)line;
    __atomic_add_fetch(&lines, 1, __ATOMIC_RELAXED);
}

/* Between begin and end of the capture a context that has loaded nothing prepares, and its kernel is called: the log is
 * on, and the call makes no line. */
static bool prepare_and_call(struct bench *bench, const struct plain *plain, smla_context *context,
                             smla_kernel **kernel, void *stream, char why[PROBLEM_WHY])
{
    if (smla_prepare(context, &bench->desc, kernel) != SMLA_OK) {
        explain(bench, why);
        return false;
    }
    const int before = __atomic_load_n(&lines, __ATOMIC_RELAXED);
    const bool called = smla_prefill(*kernel, &plain->problem.args, stream) == SMLA_OK;
    if (!called)
        explain(bench, why);
    else if (__atomic_load_n(&lines, __ATOMIC_RELAXED) != before)
        snprintf(why, PROBLEM_WHY, "the call made a line of the log");
    return called && __atomic_load_n(&lines, __ATOMIC_RELAXED) == before;
}

static void test_capture(struct bench *bench, const char *name)
{
    const smla_context_desc desc = {.struct_size = sizeof(desc), .log = count_line};
    struct plain plain;
    smla_context *context = NULL;
    smla_kernel *kernel = NULL;
    void *stream = NULL, *graph = NULL;
    char why[PROBLEM_WHY] = "";
    bool fine = plain_make(bench, 64, 50, &plain, why) && plain_poison(bench, &plain) &&
                smla_context_create(&desc, &context) == SMLA_OK && device_stream_create(bench->device, true, &stream) &&
                device_capture_begin(bench->device, stream);
    if (fine) {
        fine = prepare_and_call(bench, &plain, context, &kernel, stream, why);
        const bool ended = device_capture_end(bench->device, stream, &graph);
        if (fine && !ended)
            explain(bench, why);
        fine = fine && ended && device_graph_launch(bench->device, graph, stream) && plain_same(bench, &plain, why);
    }
    report(name, fine, why);
    if (graph)
        device_graph_destroy(bench->device, graph);
    if (stream)
        device_stream_destroy(bench->device, stream);
    smla_kernel_destroy(kernel);
    smla_context_destroy(context);
    plain_free(bench, &plain);
}

/* ---- Other kernels of the card ---- */

static const char own_ptx[] = ".version 7.8\n.target sm_90\n.address_size 64\n"
                              ".visible .entry nap(.param .u32 naps)\n"
                              "{\n"
                              ".reg .pred %p; .reg .b32 %r;\n"
                              "ld.param.u32 %r, [naps];\n"
                              "NAP:\n"
                              "setp.eq.u32 %p, %r, 0;\n"
                              "@%p bra AWAKE;\n"
                              "nanosleep.u32 20000;\n"
                              "sub.u32 %r, %r, 1;\n"
                              "bra NAP;\n"
                              "AWAKE:\n"
                              "ret;\n"
                              "}\n"
                              ".visible .entry fail()\n"
                              "{\n"
                              "trap;\n"
                              "}\n";

static bool own_kernel(struct bench *bench, const char *name, void **module, void **function)
{
    return device_module_load(bench->device, own_ptx, module) &&
           device_module_function(bench->device, *module, name, 0, function);
}

enum { NAPS = 50000 /* about a second */, CALLS = 100 };
static const double longest_call_ms = 5; /* one that waited would take what is left of the nap */

static void test_beside_a_nap(struct bench *bench, const char *name)
{
    struct plain plain;
    void *module = NULL, *nap = NULL, *streams[2] = {NULL, NULL};
    char why[PROBLEM_WHY] = "";
    uint32_t naps = NAPS;
    void *parameters[] = {&naps};
    double longest = 0, all = 0, end = 0;
    bool fine = plain_make(bench, 64, 1, &plain, why) && plain_poison(bench, &plain) &&
                own_kernel(bench, "nap", &module, &nap) && device_stream_create(bench->device, true, &streams[0]) &&
                device_stream_create(bench->device, true, &streams[1]);
    const double start = now_ms();
    fine = fine && device_launch(bench->device, nap, 1, 32, 0, streams[0], parameters);
    for (int i = 0; fine && i < CALLS; i++) {
        const double before = now_ms();
        fine = smla_prefill(bench->prefill, &plain.problem.args, streams[1]) == SMLA_OK;
        const double took = now_ms() - before;
        longest = took > longest ? took : longest;
    }
    fine = fine && device_stream_synchronize(bench->device, streams[1]);
    all = now_ms() - start;
    fine = fine && device_stream_synchronize(bench->device, streams[0]);
    end = now_ms() - start;
    if (!fine && why[0] == '\0')
        explain(bench, why);
    fine = fine && plain_same(bench, &plain, why);
    if (fine)
        snprintf(why, sizeof(why), "the longest of %d calls %.3f ms, all done after %.0f ms, the nap after %.0f ms",
                 CALLS, longest, all, end);
    report(name, fine && longest < longest_call_ms && all < end / 2, why);
    for (int i = 0; i < 2; i++)
        if (streams[i])
            device_stream_destroy(bench->device, streams[i]);
    if (module)
        device_module_unload(bench->device, module);
    plain_free(bench, &plain);
}

/* The last test: the CUDA context is dead afterwards. */
static void test_after_a_failure(struct bench *bench, const char *name)
{
    struct plain plain;
    void *module = NULL, *fail = NULL;
    char why[PROBLEM_WHY] = "";
    smla_error_info info = {.struct_size = sizeof(info)};
    const bool made = plain_make(bench, 64, 1, &plain, why) && own_kernel(bench, "fail", &module, &fail) &&
                      device_launch(bench->device, fail, 1, 32, 0, NULL, NULL);
    const bool died = made && !device_synchronize(bench->device);
    const smla_status status = died ? smla_prefill(bench->prefill, &plain.problem.args, NULL) : SMLA_OK;
    smla_last_error(&info);
    if (died)
        snprintf(why, sizeof(why), "status %d: %.600s", (int)status, info.message);
    report(name, died && status == SMLA_ERROR_DRIVER && strstr(info.message, "from earlier work"), why);
    plain_free(bench, &plain);
}

/* ---- A second CUDA context, a part of the card ---- */

/* The driver's functions that tools/common/cuda_device.h has no use for. */
struct contexts {
    int (*create)(void **context, unsigned int flags, int device);
    int (*destroy)(void *context);
    int (*set_current)(void *context);
    int (*get_current)(void **context);
    int (*get_resource)(int device, void *resource, int type);
    int (*split)(void *result, unsigned int *groups, const void *input, void *remaining, unsigned int flags,
                 unsigned int least);
    int (*describe)(void **description, void *resources, unsigned int count);
    int (*green_create)(void **green, void *description, int device, unsigned int flags);
    int (*green_destroy)(void *green);
    int (*from_green)(void **context, void *green);
};

static void find(void *library, const char *name, void *member)
{
    void *symbol = dlsym(library, name);
    memcpy(member, &symbol, sizeof(symbol));
}

static struct contexts find_contexts(void)
{
    const char *path = getenv("SMLA_DRIVER");
    void *library = dlopen(path && path[0] ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    struct contexts found = {0};
    if (!library)
        return found;
    find(library, "cuCtxCreate_v2", &found.create);
    find(library, "cuCtxDestroy_v2", &found.destroy);
    find(library, "cuCtxSetCurrent", &found.set_current);
    find(library, "cuCtxGetCurrent", &found.get_current);
    find(library, "cuDeviceGetDevResource", &found.get_resource);
    find(library, "cuDevSmResourceSplitByCount", &found.split);
    find(library, "cuDevResourceGenerateDesc", &found.describe);
    find(library, "cuGreenCtxCreate", &found.green_create);
    find(library, "cuGreenCtxDestroy", &found.green_destroy);
    find(library, "cuCtxFromGreenCtx", &found.from_green);
    return found;
}

/* A bench of the same smla context whose kernels and memory belong to the CUDA context that is current. */
static void test_in_context(struct bench *bench, const struct contexts *cu, void *context, const char *name)
{
    struct bench other = {.device = bench->device, .context = bench->context, .emulated = bench->emulated};
    struct plain first, second = {.made = false};
    char why[PROBLEM_WHY] = "";
    bool fine = plain_make(bench, 64, 50, &first, why) && plain_poison(bench, &first) &&
                cu->set_current(context) == 0 && plain_make(&other, 64, 50, &second, why) &&
                plain_poison(&other, &second);
    /* Each is called while the other's context is current. */
    fine = fine && smla_prefill(bench->prefill, &first.problem.args, NULL) == SMLA_OK &&
           device_make_current(bench->device) && smla_prefill(other.prefill, &second.problem.args, NULL) == SMLA_OK &&
           plain_same(bench, &first, why);
    cu->set_current(context);
    fine = fine && plain_same(&other, &second, why);
    if (!fine && why[0] == '\0')
        explain(bench, why);
    report(name, fine, why);
    plain_free(&other, &second);
    smla_kernel_destroy(other.prefill);
    smla_kernel_destroy(other.reference);
    device_make_current(bench->device);
    plain_free(bench, &first);
}

static void test_second_context(struct bench *bench, const struct contexts *cu, const char *name)
{
    void *context = NULL;
    if (!cu->create || cu->create(&context, 0, 0) != 0) {
        not_run(name, "no second context is to be had");
        return;
    }
    test_in_context(bench, cu, context, name);
    cu->destroy(context);
    device_make_current(bench->device);
}

/* Kernels of a context that has a part of the card: they count its multiprocessors, launch no more blocks than it
 * holds, and are right. */
static void test_part(struct bench *bench, const struct contexts *cu, void *context, unsigned int count,
                      const char *name)
{
    struct bench part = {.device = bench->device, .context = bench->context};
    struct decode_bench decode = {.device = bench->device, .context = bench->context};
    const struct decode_spec spec = {.name = name,
                                     .b = 40,
                                     .s_q = 1,
                                     .caches = {{.s_kv = 4096, .topk = 900, .lengths = DECODE_LENGTHS_PER_REQUEST}},
                                     .invalid = 0.1,
                                     .sink = DECODE_SINK};
    struct decode_problem problem;
    struct plain plain = {.made = false};
    char why[PROBLEM_WHY] = "";
    cu->set_current(context);
    bool fine = plain_make(&part, 64, 300, &plain, why) && decode_make(&decode, &spec, &problem, why);
    if (fine) {
        fine = decode_run(&decode, &problem, why) && decode_check(&decode, &problem, why);
        const int64_t counts[] = {part.prefill->sm_count, decode.kernel->sm_count, part.prefill->most_blocks};
        const int64_t blocks = (int64_t)part.prefill->blocks_per_sm * count;
        if (fine && (counts[0] != count || counts[1] != count || blocks == 0 || counts[2] != blocks)) {
            snprintf(why, sizeof(why), "counted %lld and %lld multiprocessors, %lld blocks at most",
                     (long long)counts[0], (long long)counts[1], (long long)counts[2]);
            fine = false;
        }
        decode_free(&decode, &problem);
    }
    report(name, fine, why);
    plain_free(&part, &plain);
    smla_kernel_destroy(decode.kernel);
    smla_kernel_destroy(part.prefill);
    smla_kernel_destroy(part.reference);
    device_make_current(bench->device);
}

/* CUdevResource of multiprocessors is 1; where their number stands. */
enum { RESOURCE_SM = 1, RESOURCE_BYTES = 512, RESOURCE_COUNT_AT = 96, PART_SMS = 16 };

static void test_green_context(struct bench *bench, const struct contexts *cu, const char *name)
{
    _Alignas(16) unsigned char all[RESOURCE_BYTES] = {0}, part[RESOURCE_BYTES] = {0}, rest[RESOURCE_BYTES] = {0};
    void *description = NULL, *green = NULL, *context = NULL;
    unsigned int groups = 1, count = 0;
    char text[80];
    if (!cu->from_green || cu->get_resource(0, all, RESOURCE_SM) != 0 ||
        cu->split(part, &groups, all, rest, 0, PART_SMS) != 0 || cu->describe(&description, part, 1) != 0 ||
        cu->green_create(&green, description, 0, 1) != 0 || cu->from_green(&context, green) != 0) {
        not_run(name, "no green context is to be had");
        return;
    }
    memcpy(&count, part + RESOURCE_COUNT_AT, sizeof(count));
    snprintf(text, sizeof(text), "%s (%u multiprocessors)", name, count);
    test_in_context(bench, cu, context, text);
    test_part(bench, cu, context, count, "I3 a green context counts its own");
    cu->green_destroy(green);
}

/* ---- Two devices -------------------------------------------------------------------------------------------- */

enum { DEVICES = 2 };
enum current { CURRENT_ITS_OWN, CURRENT_THE_OTHER, CURRENT_NONE, CURRENTS };

/* A device, and the kernel of one smla context for it. */
struct side {
    struct device *device;
    struct bench bench;
    struct plain plain;
    void *stream;
};

struct sides {
    const struct contexts *cu;
    smla_context *context;
    struct side side[DEVICES];
};

static bool make_current(const struct sides *sides, int device, enum current current)
{
    if (current == CURRENT_NONE)
        return sides->cu->set_current(NULL) == 0;
    return device_make_current(sides->side[current == CURRENT_ITS_OWN ? device : !device].device);
}

/* Calls the kernel of one device while another context is current, which it is afterwards still. */
static bool call_on(const struct sides *sides, int device, enum current current)
{
    const struct side *side = &sides->side[device];
    void *before = NULL, *after = NULL;
    return make_current(sides, device, current) && sides->cu->get_current(&before) == 0 &&
           smla_prefill(side->bench.prefill, &side->plain.problem.args, side->stream) == SMLA_OK &&
           sides->cu->get_current(&after) == 0 && after == before;
}

static bool same_on(struct sides *sides, int device, char why[PROBLEM_WHY])
{
    struct side *side = &sides->side[device];
    return device_make_current(side->device) && plain_same(&side->bench, &side->plain, why);
}

static bool poison_on(struct sides *sides, int device)
{
    struct side *side = &sides->side[device];
    return device_make_current(side->device) && plain_poison(&side->bench, &side->plain);
}

/* Prepared in each device's context: compiled or found once, in memory the second time, and loaded once a context. */
static bool sides_make(struct sides *sides, char why[PROBLEM_WHY])
{
    smla_stats_counters stats = {.struct_size = sizeof(stats)};
    enum { KERNELS = 2 }; /* and the one that judges it */
    if (smla_context_create(NULL, &sides->context) != SMLA_OK)
        return false;
    for (int i = 0; i < DEVICES; i++) {
        struct side *side = &sides->side[i];
        side->bench = (struct bench){.device = side->device, .context = sides->context};
        if (!device_make_current(side->device) || !plain_make(&side->bench, 64, 50, &side->plain, why) ||
            !device_stream_create(side->device, true, &side->stream))
            return false;
    }
    smla_stats(sides->context, &stats);
    const uint64_t found = stats.compiles + stats.disk_hits + stats.bundle_hits + stats.system_hits;
    if (found == KERNELS && stats.memory_hits == KERNELS && stats.kernels_loaded == (uint64_t)KERNELS * DEVICES)
        return true;
    snprintf(why, PROBLEM_WHY, "%llu kernels made or found, %llu times in memory, %llu modules",
             (unsigned long long)found, (unsigned long long)stats.memory_hits,
             (unsigned long long)stats.kernels_loaded);
    return false;
}

static bool call_by_one_thread(struct sides *sides, char why[PROBLEM_WHY])
{
    for (int current = 0; current < CURRENTS; current++) {
        for (int i = 0; i < DEVICES; i++)
            if (!poison_on(sides, i))
                return false;
        for (int i = 0; i < DEVICES; i++)
            if (!call_on(sides, i, (enum current)current))
                return false;
        for (int i = 0; i < DEVICES; i++)
            if (!same_on(sides, i, why))
                return false;
    }
    return true;
}

struct side_caller {
    struct sides *sides;
    int device;
    bool fine;
};

/* Its own device's kernel, whatever is current. */
static void *call_side_often(void *user)
{
    struct side_caller *caller = user;
    enum { CALLS_A_THREAD = 3000 };
    caller->fine = true;
    for (int i = 0; caller->fine && i < CALLS_A_THREAD; i++)
        caller->fine = call_on(caller->sides, caller->device, (enum current)(i % CURRENTS));
    return NULL;
}

static bool call_by_two_threads(struct sides *sides, char why[PROBLEM_WHY])
{
    struct side_caller callers[DEVICES];
    pthread_t threads[DEVICES];
    bool fine = true;
    for (int i = 0; fine && i < DEVICES; i++)
        fine = poison_on(sides, i);
    if (!fine)
        return false;
    for (int i = 0; i < DEVICES; i++) {
        callers[i] = (struct side_caller){.sides = sides, .device = i};
        if (pthread_create(&threads[i], NULL, call_side_often, &callers[i]) != 0)
            abort(); /* the other thread has this stack */
    }
    for (int i = 0; i < DEVICES; i++) {
        pthread_join(threads[i], NULL);
        fine = fine && callers[i].fine;
    }
    for (int i = 0; fine && i < DEVICES; i++)
        fine = same_on(sides, i, why);
    return fine;
}

/* The kernel of `first` goes, and the other device's serves on. */
static bool destroy_one(struct sides *sides, int first, char why[PROBLEM_WHY])
{
    smla_kernel_destroy(sides->side[first].bench.prefill);
    sides->side[first].bench.prefill = NULL;
    return poison_on(sides, !first) && call_on(sides, !first, CURRENT_THE_OTHER) && same_on(sides, !first, why);
}

static void sides_free(struct sides *sides, int first)
{
    for (int n = 0; n < DEVICES; n++) {
        struct side *side = &sides->side[n == 0 ? first : !first];
        device_make_current(side->device);
        if (side->stream)
            device_stream_destroy(side->device, side->stream);
        plain_free(&side->bench, &side->plain);
        smla_kernel_destroy(side->bench.prefill);
        smla_kernel_destroy(side->bench.reference);
        *side = (struct side){.device = side->device};
    }
    sides->cu->set_current(NULL); /* its modules are unloaded whatever is current */
    smla_context_destroy(sides->context);
    sides->context = NULL;
}

static void test_two_devices(struct bench *bench, const struct contexts *cu, const char *name)
{
    struct sides sides = {.cu = cu, .side = {{.device = bench->device}}};
    char why[PROBLEM_WHY] = "", missing[DEVICE_WHY];
    bool fine = true;
    if (!cu->get_current || device_open(NULL, 1, &sides.side[1].device, missing) != DEVICE_OK) {
        not_run(name, cu->get_current ? missing : "the driver lacks cuCtxGetCurrent");
        return;
    }
    for (int first = 0; fine && first < DEVICES; first++) {
        fine = sides_make(&sides, why) && call_by_one_thread(&sides, why) && call_by_two_threads(&sides, why) &&
               destroy_one(&sides, first, why);
        if (!fine && why[0] == '\0')
            explain(bench, why);
        sides_free(&sides, first);
    }
    report(name, fine, why);
    device_close(sides.side[1].device);
    device_make_current(bench->device);
}

/* ---- Threads, and many ---- */

struct caller {
    struct bench *bench;
    smla_kernel *kernel;
    const struct plain *plain;
    void *stream;
    int calls;
    smla_status status;
};

static void *call_often(void *user)
{
    struct caller *caller = user;
    for (int i = 0; caller->status == SMLA_OK && i < caller->calls; i++)
        caller->status = smla_prefill(caller->kernel, &caller->plain->problem.args, caller->stream);
    return NULL;
}

/* Tiles of much and of little shared memory, each by a thread. */
static void test_threads(struct bench *bench, const char *name)
{
    struct bench few = {.device = bench->device, .context = bench->context, .emulated = bench->emulated};
    struct plain plains[2] = {0};
    struct caller callers[2];
    pthread_t threads[2];
    char why[PROBLEM_WHY] = "";
    bool fine = plain_make(bench, 64, 1, &plains[0], why) && plain_make(&few, 8, 1, &plains[1], why) &&
                plain_poison(bench, &plains[0]) && plain_poison(&few, &plains[1]);
    for (int i = 0; i < 2; i++) {
        callers[i] = (struct caller){.bench = bench,
                                     .kernel = i ? few.prefill : bench->prefill,
                                     .plain = &plains[i],
                                     .calls = bench->emulated ? 5 : 50000};
        fine = fine && device_stream_create(bench->device, true, &callers[i].stream);
    }
    for (int i = 0; fine && i < 2; i++)
        fine = pthread_create(&threads[i], NULL, call_often, &callers[i]) == 0;
    for (int i = 0; fine && i < 2; i++)
        fine = pthread_join(threads[i], NULL) == 0 && callers[i].status == SMLA_OK;
    fine = fine && plain_same(bench, &plains[0], why) && plain_same(&few, &plains[1], why);
    report(name, fine, why);
    for (int i = 0; i < 2; i++)
        if (callers[i].stream)
            device_stream_destroy(bench->device, callers[i].stream);
    plain_free(&few, &plains[1]);
    plain_free(bench, &plains[0]);
    smla_kernel_destroy(few.prefill);
    smla_kernel_destroy(few.reference);
}

/* Kernels of one's own each, then 2,000 handles of one of them. */
static void test_memory(struct bench *bench, const char *name)
{
    static const int32_t heads[] = {1, 3, 4, 6, 16, 64, 128}; /* those of shapes.json */
    enum { KERNELS = sizeof(heads) / sizeof(heads[0]), HANDLES = 2000, LARGEST_BYTES = 1 << 20 };
    smla_context *context = NULL;
    smla_stats_counters stats = {.struct_size = sizeof(stats)};
    size_t before = 0, loaded = 0, after = 0, total;
    char why[PROBLEM_WHY] = "";
    smla_status status = smla_context_create(NULL, &context);
    bool fine = status == SMLA_OK && device_memory_info(bench->device, &before, &total);
    const int handles = bench->emulated ? 20 : HANDLES, kernels = bench->emulated ? 2 : KERNELS;
    for (int i = 0; fine && i < kernels + handles; i++) {
        const smla_kernel_desc desc = {
            .struct_size = sizeof(desc), .op = SMLA_OP_COMBINE, .h_q = heads[i < kernels ? i : 0]};
        smla_kernel *kernel = NULL;
        if (i == kernels)
            fine = device_memory_info(bench->device, &loaded, &total);
        status = smla_prepare(context, &desc, &kernel);
        fine = fine && status == SMLA_OK;
        smla_kernel_destroy(kernel);
    }
    if (status == SMLA_ERROR_UNAVAILABLE || status == SMLA_ERROR_NOT_CACHED) {
        not_run(name, "its kernels are in no cache, and there is no compiler");
        smla_context_destroy(context);
        return;
    }
    if (!fine)
        explain(bench, why);
    fine = fine && device_memory_info(bench->device, &after, &total) && smla_stats(context, &stats) == SMLA_OK;
    const size_t grown = before > loaded ? before - loaded : 0;
    if (fine)
        snprintf(why, sizeof(why), "%d kernels took %zu KiB of the card; %d more handles %zu KiB", kernels,
                 grown / 1024, handles, (loaded > after ? loaded - after : 0) / 1024);
    report(name,
           fine && stats.kernels_loaded == (uint64_t)kernels && grown <= (size_t)kernels * LARGEST_BYTES &&
               after >= loaded,
           why);
    smla_context_destroy(context);
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
    const struct contexts cu = find_contexts();
    test_capture(&bench, "29 30 prepared and called in a capture");
    if (bench.emulated)
        not_run("31 beside a kernel that naps", "the emulated device runs one launch after the other");
    else
        test_beside_a_nap(&bench, "31 beside a kernel that naps");
    test_second_context(&bench, &cu, "34 two CUDA contexts");
    test_green_context(&bench, &cu, "I3 a green context");
    test_two_devices(&bench, &cu, "34 57 two devices");
    test_threads(&bench, "I2 large and small tiles by threads");
    test_memory(&bench, "I4 50 device memory of kernels");
    if (bench.emulated)
        not_run("O1 after somebody's failure", "it would be a finding");
    else
        test_after_a_failure(&bench, "O1 after somebody's failure");
    bench_close(&bench);
    printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
