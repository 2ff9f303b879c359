/* Threads that look for the same kernels in one bundle (facts/jit.md §2 #59; run under TSan). A damaged entry is told
 * once, whoever finds it. */
#include <pthread.h>

#include "smlab_files.h"

enum { THREADS = 8 };

struct seeker {
    const struct world *world;
    smla_context *context;
    int found;
};

static void count_warnings(void *user, int32_t level, const char *line)
{
    (void)line;
    if (level == SMLA_LOG_WARNING)
        __atomic_fetch_add((int *)user, 1, __ATOMIC_RELAXED);
}

static void *seek(void *argument)
{
    static const int32_t heads[] = {64, 128, 16};
    struct seeker *seeker = argument;

    seeker->world->driver->set_current(TEST_CONTEXT);
    for (int i = 0; i < 3; i++) {
        smla_kernel_desc desc = prefill_desc();
        smla_kernel *kernel = NULL;

        desc.h_q = heads[i];
        for (int again = 0; again < 2; again++)
            if (smla_prepare(seeker->context, &desc, &kernel) == SMLA_OK) {
                seeker->found++;
                smla_kernel_destroy(kernel);
            }
    }
    return NULL;
}

static void threads(void **state)
{
    char *folder = make_folder(), *path = path_in(folder, "a.smlab");
    smla_context_desc desc = stub_context_desc();
    struct world world;
    int warnings = 0;
    smla_kernel_desc kernels[] = {prefill_desc(), prefill_desc(), prefill_desc()};
    struct seeker seekers[THREADS];
    pthread_t ids[THREADS];
    smla_context *context = NULL;
    size_t size;

    (void)state;
    world_open_stubs(&world);
    kernels[1].h_q = 128;
    kernels[2].h_q = 16;
    uint8_t *bytes = smlab_of(kernels, 3, &size);
    bytes[size - 40] ^= 1; /* of the last kernel's code */
    write_file(path, bytes, size);
    desc.jit_policy = SMLA_JIT_OFF;
    desc.bundles = path;
    desc.log = count_warnings;
    desc.log_user = &warnings;
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
    for (int i = 0; i < THREADS; i++) {
        seekers[i] = (struct seeker){&world, context, 0};
        assert_int_equal(pthread_create(&ids[i], NULL, seek, &seekers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(ids[i], NULL), 0);
        assert_int_equal(seekers[i].found, 4);
    }
    assert_int_equal(stats_of(context).bundle_hits, 2);
    assert_int_equal(stats_of(context).entries_damaged, 1);
    assert_int_equal(warnings, 1);
    smla_context_destroy(context);
    assert_int_equal(world.driver->live_libraries, 0);
    free(bytes);
    free(path);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads)};
    return cmocka_run_group_tests_name("runtime.tiers_threads", tests, NULL, NULL);
}
