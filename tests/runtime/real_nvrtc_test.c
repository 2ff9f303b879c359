/* The real NVRTC, where there is one: what a compilation does to the process (nothing), and what comes out. */
#include <dirent.h>
#include <elf.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

enum { EXIT_SKIPPED = 77 };

/* Exported from this program, so that libnvrtc's own calls come here (facts/jit.md §0.11). A sanitizer's runtime makes
 * some too, before it is ready to have this function instrumented. */
static volatile int stack_limit_calls;

__attribute__((no_sanitize("address", "thread", "undefined"))) int setrlimit(__rlimit_resource_t resource,
                                                                             const struct rlimit *limits)
{
    if (resource == RLIMIT_STACK)
        stack_limit_calls = stack_limit_calls + 1;
    return prlimit(0, resource, limits, NULL);
}

struct bytes {
    void *data;
    size_t size;
};

static int32_t keep_bytes(void *user, const void *bytes, size_t size)
{
    struct bytes *kept = user;

    kept->data = malloc(size);
    kept->size = size;
    assert_non_null(kept->data);
    memcpy(kept->data, bytes, size);
    return 0;
}

static smla_context *make_context(const char *cache_dir)
{
    smla_context_desc desc = {.struct_size = sizeof desc, .jit_policy = SMLA_JIT_ON, .cache_dir = cache_dir};
    smla_context *context = NULL;

    desc.cache_policy = cache_dir ? SMLA_CACHE_RW : SMLA_CACHE_OFF;
    if (smla_context_create(&desc, &context) != SMLA_OK)
        fail_msg("%s", last_error().message);
    return context;
}

static struct bytes generate(smla_context *context, uint32_t op, const char *target, uint32_t emit)
{
    smla_kernel_desc desc = op == SMLA_OP_PREFILL ? prefill_desc() : reference_desc();
    struct bytes bytes = {0};

    desc.target = target;
    if (smla_generate(context, &desc, emit, keep_bytes, &bytes) != SMLA_OK)
        fail_msg("%s\n%s", last_error().message, last_error().log);
    return bytes;
}

/* What of the process could be changed. */
struct process {
    struct rlimit limits[RLIM_NLIMITS];
    mode_t mask;
    char folder[4096];
    char *environment;
    size_t environment_size;
};

static struct process process_now(void)
{
    struct process now = {0};
    FILE *stream = open_memstream(&now.environment, &now.environment_size);

    assert_non_null(stream);
    for (char **variable = environ; *variable; variable++)
        fprintf(stream, "%s\n", *variable);
    fclose(stream);
    for (unsigned i = 0; i < RLIM_NLIMITS; i++)
        assert_int_equal(getrlimit((__rlimit_resource_t)i, &now.limits[i]), 0);
    now.mask = umask(0);
    umask(now.mask);
    assert_non_null(getcwd(now.folder, sizeof now.folder));
    return now;
}

static void assert_same_process(const struct process *a, const struct process *b)
{
    assert_memory_equal(a->limits, b->limits, sizeof a->limits);
    assert_int_equal(a->mask, b->mask);
    assert_string_equal(a->folder, b->folder);
    assert_string_equal(a->environment, b->environment);
}

static int files_in(const char *folder)
{
    DIR *stream = opendir(folder);
    int count = -2; /* . and .. */

    assert_non_null(stream);
    while (readdir(stream))
        count++;
    closedir(stream);
    return count;
}

/* Home, temporary and working folder are empty ones, and stay so; the cache folder alone gets a file. */
static void test_J2_27_changes_nothing(void **state)
{
    char *home = make_folder(), *temporary = make_folder(), *working = make_folder(), *cache = make_folder();

    (void)state;
    setenv("HOME", home, 1);
    setenv("TMPDIR", temporary, 1);
    assert_int_equal(chdir(working), 0);
    umask(027);
    const struct rlimit cpu_seconds = {.rlim_cur = 1000000, .rlim_max = RLIM_INFINITY};
    (void)prlimit(0, RLIMIT_CPU, &cpu_seconds, NULL);
    struct process before = process_now();
    stack_limit_calls = 0;
    smla_context *context = make_context(cache);
    struct bytes cubin = generate(context, SMLA_OP_PREFILL_REFERENCE, "90", SMLA_EMIT_CUBIN);
    assert_int_equal(stats_of(context).entries_written, 1);
    smla_context_destroy(context);
    struct process after = process_now();
    assert_same_process(&before, &after);
    assert_int_equal(stack_limit_calls, 0);
    assert_int_equal(files_in(home), 0);
    assert_int_equal(files_in(temporary), 0);
    assert_int_equal(files_in(working), 0);
    assert_true(files_in(cache) > 0);
    free(cubin.data);
    free(before.environment);
    free(after.environment);
    assert_int_equal(chdir("/"), 0);
    unsetenv("TMPDIR");
    umask(022);
    remove_folder(home);
    remove_folder(temporary);
    remove_folder(working);
    remove_folder(cache);
}

static void test_17_same_bytes_each_time(void **state)
{
    smla_context *first = make_context(NULL), *second = make_context(NULL);
    char *elsewhere = make_folder(); /* line information must not name the working folder */

    (void)state;
    struct bytes a = generate(first, SMLA_OP_PREFILL, "90a", SMLA_EMIT_CUBIN);
    assert_int_equal(chdir(elsewhere), 0);
    struct bytes b = generate(second, SMLA_OP_PREFILL, "90", SMLA_EMIT_CUBIN);
    assert_int_equal(chdir("/"), 0);
    remove_folder(elsewhere);
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    print_message("compiled sm90_prefill in %llu ms and %llu ms\n",
                  (unsigned long long)stats_of(first).compile_ns / 1000000,
                  (unsigned long long)stats_of(second).compile_ns / 1000000);
    free(a.data);
    free(b.data);
    smla_context_destroy(first);
    smla_context_destroy(second);
}

/* By the processor's time, since others use the machine too. A sanitizer takes its share. */
static void test_J11_time_of_a_compilation(void **state)
{
    static const uint32_t ops[] = {SMLA_OP_PREFILL, SMLA_OP_DECODE, SMLA_OP_COMBINE};
    smla_context *context = make_context(NULL);

    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        smla_kernel_desc desc = ops[i] == SMLA_OP_COMBINE ? combine_desc() : prefill_desc();
        struct bytes bytes = {0};
        desc.op = ops[i];
        desc.flags = 0;
        desc.target = "90";
        const clock_t start = clock();
        if (smla_generate(context, &desc, SMLA_EMIT_CUBIN, keep_bytes, &bytes) != SMLA_OK)
            fail_msg("%s\n%s", last_error().message, last_error().log);
        const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        print_message("operator %u: %.2f s of the processor\n", (unsigned)ops[i], seconds);
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
        assert_true(seconds < 50);
#else
        assert_true(seconds < 10); /* prefill has five entry points, 3.5 to 5.9 s on a slow day */
#endif
        free(bytes.data);
    }
    smla_context_destroy(context);
}

/* Every target of the table for which there is a kernel: built, or refused by name. */
static void every_target(void **state)
{
    static const char *const targets[] = {"90a", "100a", "100f", "103a", "103f"};
    smla_context *context = make_context(NULL);

    (void)state;
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        smla_kernel_desc desc = reference_desc();
        struct bytes bytes = {0};
        desc.target = targets[i];
        const smla_status status = smla_generate(context, &desc, SMLA_EMIT_CUBIN, keep_bytes, &bytes);
        if (status == SMLA_OK)
            assert_memory_equal(bytes.data, "\177ELF", 4);
        else
            assert_error(SMLA_ERROR_UNAVAILABLE, targets[i], "needs NVRTC");
        free(bytes.data);
    }
    smla_context_destroy(context);
}

static void entry_is_read_back(void **state)
{
    char *cache = make_folder();
    smla_context *writer = make_context(cache), *reader = make_context(cache);
    struct bytes made = generate(writer, SMLA_OP_PREFILL_REFERENCE, "90", SMLA_EMIT_PTX);
    struct bytes read = generate(reader, SMLA_OP_PREFILL_REFERENCE, "90", SMLA_EMIT_PTX);

    (void)state;
    assert_int_equal(stats_of(reader).disk_hits, 1);
    assert_int_equal(stats_of(reader).compiles, 0);
    assert_int_equal(made.size, read.size);
    assert_memory_equal(made.data, read.data, made.size);
    free(made.data);
    free(read.data);
    smla_context_destroy(writer);
    smla_context_destroy(reader);
    remove_folder(cache);
}

static bool has_nvrtc(void)
{
    smla_context *context = make_context(NULL);
    smla_kernel_desc desc = reference_desc();
    struct bytes bytes = {0};

    desc.target = "90";
    const smla_status status = smla_generate(context, &desc, SMLA_EMIT_PTX, keep_bytes, &bytes);
    free(bytes.data);
    smla_context_destroy(context);
    return status != SMLA_ERROR_UNAVAILABLE;
}

/* The section's bytes; NULL: there is none of that name. */
static const uint8_t *section_of(const struct bytes *cubin, const char *name, size_t *size)
{
    const uint8_t *const bytes = cubin->data;
    Elf64_Ehdr header;
    Elf64_Shdr names, section;

    memcpy(&header, bytes, sizeof header);
    memcpy(&names, bytes + header.e_shoff + header.e_shstrndx * sizeof names, sizeof names);
    for (size_t i = 0; i < header.e_shnum; i++) {
        memcpy(&section, bytes + header.e_shoff + i * sizeof section, sizeof section);
        *size = section.sh_size;
        if (strcmp((const char *)bytes + names.sh_offset + section.sh_name, name) == 0)
            return bytes + section.sh_offset;
    }
    return NULL;
}

/* Line tables when they are asked for, and the same instructions without. */
static void line_tables(void **state)
{
    smla_kernel_desc desc = prefill_desc();
    struct bytes cubins[2] = {{0}};
    const uint8_t *code[2];
    size_t size, sizes[2];
    smla_context *context = make_context(NULL);

    (void)state;
    desc.target = "90";
    for (int i = 0; i < 2; i++) {
        desc.flags |= i == 1 ? SMLA_KERNEL_LINE_INFO : 0;
        if (smla_generate(context, &desc, SMLA_EMIT_CUBIN, keep_bytes, &cubins[i]) != SMLA_OK)
            fail_msg("%s", last_error().message);
        code[i] = section_of(&cubins[i], ".text.smla_sm90_prefill", &sizes[i]);
        assert_non_null(code[i]);
        assert_int_equal(section_of(&cubins[i], ".debug_line", &size) != NULL, i == 1);
        assert_int_equal(section_of(&cubins[i], ".nv_debug_ptx_txt", &size) != NULL, i == 1);
    }
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(code[0], code[1], sizes[0]);
    assert_true(3 * cubins[0].size < cubins[1].size);
    free(cubins[0].data);
    free(cubins[1].data);
    smla_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_J2_27_changes_nothing),
        cmocka_unit_test(test_17_same_bytes_each_time),
        cmocka_unit_test(test_J11_time_of_a_compilation),
        cmocka_unit_test(line_tables),
        cmocka_unit_test(every_target),
        cmocka_unit_test(entry_is_read_back),
    };

    if (!has_nvrtc()) {
        printf("SKIPPED: %s\n", last_error().message);
        return EXIT_SKIPPED;
    }
    return cmocka_run_group_tests_name("runtime.real_nvrtc", tests, NULL, NULL);
}
