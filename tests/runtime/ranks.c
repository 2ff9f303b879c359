#include "ranks.h"

#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache.h"

/* ---- One process -------------------------------------------------------------------------------------------- */

static struct ranks *current; /* of this process; the stub's hook has no argument of ours */

static void note_compile(uint64_t program)
{
    const int number = __atomic_fetch_add(&current->compiles, 1, __ATOMIC_SEQ_CST);

    if (number < MOST_COMPILES) {
        current->compiled[number].pid = getpid();
        current->compiled[number].program = program;
    }
    if (current->compiling)
        current->compiling(current, number);
}

static void note_line(void *user, int32_t level, const char *line)
{
    struct rank *rank = user;

    if (level != SMLA_LOG_WARNING)
        return;
    rank->warnings++;
    snprintf(rank->warning, sizeof rank->warning, "%s", line);
}

static bool succeeded(struct rank *rank, smla_status status)
{
    smla_error_info info = {.struct_size = sizeof info};

    if (status == SMLA_OK)
        return true;
    if (rank->failure[0] == '\0' && smla_last_error(&info) == SMLA_OK)
        snprintf(rank->failure, sizeof rank->failure, "%s", info.message);
    return false;
}

/* Every second rank in the same order, so that all want one kernel at once; the others from somewhere else on. */
static int kernel_at(const struct ranks *ranks, int number, int step)
{
    const uint32_t start = number % 2 == 0 ? 0 : (ranks->seed + (uint32_t)number) * 2654435761u >> 16;

    return (int)((start + (uint32_t)step) % (uint32_t)ranks->kernels);
}

static void prepare_all(struct ranks *ranks, int number, smla_context *context)
{
    struct rank *rank = &ranks->rank[number];

    for (int i = 0; i < ranks->kernels; i++) {
        smla_kernel_desc desc = reference_desc();
        smla_kernel *kernel = NULL;

        desc.h_q = 1 + kernel_at(ranks, number, i);
        if (succeeded(rank, smla_prepare(context, &desc, &kernel)))
            rank->ready++;
        smla_kernel_destroy(kernel);
    }
}

static void run_rank(struct ranks *ranks, int number)
{
    struct rank *rank = &ranks->rank[number];
    smla_context_desc desc = stub_context_desc();
    smla_context *context = NULL;

    current = ranks;
    desc.cache_policy = ranks->cache_policy;
    desc.cache_dir = ranks->cache_dir;
    desc.log = note_line;
    desc.log_user = rank;
    if (ranks->nodes > 1) {
        char dir[600];

        snprintf(dir, sizeof dir, "%s/%d", ranks->runtime_dir, number % ranks->nodes);
        mkdir(dir, 0700);
        setenv("XDG_RUNTIME_DIR", dir, 1);
    }
    __atomic_add_fetch(&ranks->started, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&ranks->started, __ATOMIC_SEQ_CST) < ranks->count)
        usleep(500);
    if (!succeeded(rank, smla_context_create(&desc, &context)))
        return;
    prepare_all(ranks, number, context);
    rank->stats.struct_size = sizeof rank->stats;
    succeeded(rank, smla_stats(context, &rank->stats));
    smla_context_destroy(context);
}

/* ---- All of them -------------------------------------------------------------------------------------------- */

static void open_stubs(const struct ranks *ranks)
{
    struct world world;

    world_open_stubs(&world);
    world_serve_reference(&world);
    world.nvrtc->compiling = note_compile;
    world.nvrtc->script.delay_us = ranks->compile_us;
}

struct ranks *ranks_new(int count, int kernels)
{
    struct ranks *ranks = mmap(NULL, sizeof *ranks, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(ranks, MAP_FAILED);
    ranks->count = count;
    ranks->kernels = kernels;
    ranks->cache_policy = SMLA_CACHE_RW;
    ranks->compile_us = 5000;
    ranks->seed = 1;
    ranks->folder = make_folder();
    snprintf(ranks->cache, sizeof ranks->cache, "%s/cache", ranks->folder);
    snprintf(ranks->runtime_dir, sizeof ranks->runtime_dir, "%s/run", ranks->folder);
    ranks->cache_dir = ranks->cache;
    assert_int_equal(mkdir(ranks->runtime_dir, 0700), 0);
    assert_int_equal(setenv("XDG_RUNTIME_DIR", ranks->runtime_dir, 1), 0);
    return ranks;
}

void ranks_free(struct ranks *ranks)
{
    remove_folder(ranks->folder);
    munmap(ranks, sizeof *ranks);
}

void ranks_start(struct ranks *ranks)
{
    open_stubs(ranks);
    ranks->started = 0;
    ranks->forked = 0;
    ranks->inside = 0;
    ranks->most_inside = 0;
    ranks->compiles = 0;
    memset(ranks->compiled, 0, sizeof ranks->compiled);
    memset(ranks->rank, 0, sizeof ranks->rank);
    fflush(NULL);
    for (int i = 0; i < ranks->count; i++) {
        const pid_t child = fork();

        if (child == 0) {
            /* A test that fails leaves none behind, stopped ones neither. */
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            run_rank(ranks, i);
            _exit(0);
        }
        ranks->rank[i].pid = child;
    }
}

void ranks_wait(struct ranks *ranks, int number)
{
    struct rank *rank = &ranks->rank[number];

    if (rank->pid <= 0 || waitpid(rank->pid, &rank->exit_status, 0) != rank->pid)
        rank->exit_status = -1;
}

void ranks_join(struct ranks *ranks)
{
    for (int i = 0; i < ranks->count; i++)
        ranks_wait(ranks, i);
}

void ranks_run(struct ranks *ranks)
{
    ranks_start(ranks);
    ranks_join(ranks);
}

bool ranks_all_ready(const struct ranks *ranks, int count)
{
    int ready = 0;

    for (int i = 0; i < ranks->count; i++) {
        const struct rank *rank = &ranks->rank[i];

        if (rank->exit_status == 0 && rank->ready == ranks->kernels && rank->failure[0] == '\0')
            ready++;
        else
            fprintf(stderr, "process %d: status 0x%x, %d of %d kernels %s\n", i, (unsigned)rank->exit_status,
                    rank->ready, ranks->kernels, rank->failure);
    }
    return ready == count;
}

int ranks_most_compiles_of_one(const struct ranks *ranks)
{
    int most = 0;

    for (int i = 0; i < ranks->compiles && i < MOST_COMPILES; i++) {
        int same = 0;

        for (int j = 0; j < ranks->compiles && j < MOST_COMPILES; j++)
            same += ranks->compiled[j].program == ranks->compiled[i].program;
        most = same > most ? same : most;
    }
    return most;
}

/* ---- What is left ------------------------------------------------------------------------------------------- */

static struct ranks_files counted;

static int count_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    const char *name = path + walk->base;
    const size_t length = strlen(name);

    (void)status;
    if (type != FTW_F)
        return 0;
    if (name[0] != '.' && length > 4 && strcmp(name + length - 4, ".smk") == 0) {
        counted.entries++;
        return 0;
    }
    fprintf(stderr, "left behind: %s\n", path);
    counted.others++;
    snprintf(counted.other, sizeof counted.other, "%s", name);
    return 0;
}

static bool count_damaged(void *user, const char *path, uint64_t size_bytes, bool valid,
                          const struct rt_entry_info *info, const char *why)
{
    struct ranks_files *files = user;

    (void)size_bytes;
    (void)info;
    if (!valid) {
        fprintf(stderr, "damaged: %s: %s\n", path, why);
        files->entries--;
        files->others++;
    }
    return true;
}

struct ranks_files ranks_count_files(const char *folder)
{
    struct rt_cache *cache = NULL;
    struct ranks_files files;

    memset(&counted, 0, sizeof counted);
    nftw(folder, count_one, 16, FTW_PHYS);
    files = counted;
    if (rt_cache_open(folder, false, false, NULL, &cache) == SMLA_OK)
        rt_cache_visit(cache, count_damaged, &files);
    rt_cache_close(cache);
    return files;
}

/* ---- Surroundings ------------------------------------------------------------------------------------------- */

int ranks_in_child(int (*body)(struct ranks *ranks), struct ranks *ranks)
{
    int status = 0;

    fflush(NULL);
    const pid_t child = fork();

    if (child == 0) {
        const int result = body(ranks);

        fflush(NULL);
        _exit(result);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == RANKS_SKIPPED)
        skip();
    return status;
}

static bool write_text(const char *path, const char *text)
{
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    const bool written = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);

    if (file >= 0)
        close(file);
    return written;
}

bool ranks_enter_namespaces(unsigned uid)
{
    char map[64];
    const unsigned own_uid = geteuid(), own_gid = getegid();

    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
        perror("SKIP: no user and mount namespaces here: unshare");
        return false;
    }
    (void)write_text("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "%u %u 1", uid, own_gid);
    if (!write_text("/proc/self/gid_map", map)) {
        perror("SKIP: /proc/self/gid_map");
        return false;
    }
    snprintf(map, sizeof map, "%u %u 1", uid, own_uid);
    if (!write_text("/proc/self/uid_map", map)) {
        perror("SKIP: /proc/self/uid_map");
        return false;
    }
    return true;
}
