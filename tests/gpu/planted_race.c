/* The prefill kernel with its wait for p_ready replaced by a pause, so that compute-sanitizer's racecheck has something
 * to find: a checker that is silent here says nothing when it is silent elsewhere. (A pause, not nothing: racecheck
 * reports what is read after an unordered write, not what is read too early.) Run under racecheck; by itself it exits 0
 * once the kernel has run, 77 without a card, 1 after a fault of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compile.h"
#include "context.h"
#include "kernel.h"
#include "module.h"
#include "problem.h"

static const char wait_for_p[] = "mbarrier_wait(shared_address(&w.memory.p_ready[p_slot]), block / P_SLOTS % 2);";

static const char pause_instead[] = "for (int n = 0; n < 50; n++) __nanosleep(1000000);";

/* Puts the pause in place of the wait; line numbers stay. NULL when the wait is not there exactly once. */
static char *without_wait(const struct gen_file *file)
{
    char *text = malloc(file->size + 1);
    if (!text)
        return NULL;
    memcpy(text, file->bytes, file->size);
    text[file->size] = '\0';
    char *wait = strstr(text, wait_for_p);
    if (!wait || strstr(wait + 1, wait_for_p)) {
        free(text);
        return NULL;
    }
    memset(wait, ' ', sizeof(wait_for_p) - 1);
    memcpy(wait, pause_instead, sizeof(pause_instead) - 1);
    return text;
}

/* Compiles and loads the mutant into `kernel`, which is a prepared one otherwise. */
static bool plant(struct bench *bench, struct gen_bundle *bundle, struct rt_entry *image, struct smla_kernel *kernel)
{
    const struct rt_nvrtc *nvrtc;
    const struct rt_module *module;
    struct rt_device device;
    struct rt_key key;
    bool lasting;
    return rt_key_make(bundle, RT_KIND_CUBIN, &key) == SMLA_OK &&
           rt_context_nvrtc(bench->context, bundle->spec.target, 0, &nvrtc) == SMLA_OK &&
           rt_compile(nvrtc, bundle, &key, image, &lasting) == SMLA_OK &&
           rt_device_enter(&device, kernel->driver, NULL) == SMLA_OK &&
           rt_modules_get(&bench->context->modules, &device, image, &bundle->plan, &module) == SMLA_OK &&
           (kernel->functions[0] = module->functions[0]) != NULL;
}

int main(void)
{
    struct bench bench;
    char why[PROBLEM_WHY];
    const int opened = bench_open(&bench, why);
    if (opened != 0) {
        printf("%s\n", why);
        return opened;
    }
    const smla_kernel_desc desc = {
        .struct_size = sizeof(desc), .op = SMLA_OP_PREFILL, .h_q = 64, .d_qk = 512, .target = "90"};
    struct gen_bundle bundle;
    struct gen_refusal refusal;
    struct rt_entry image = {0};
    struct smla_kernel kernel = *bench.prefill;
    char *source = gen_bundle_make(&desc, NULL, &bundle, &refusal) == SMLA_OK ? without_wait(&bundle.files[0]) : NULL;
    if (!source) {
        printf("the template no longer waits for P in one place as this test expects\n");
        return 1;
    }
    bundle.files[0].bytes = source;
    if (!plant(&bench, &bundle, &image, &kernel)) {
        smla_error_info info = {.struct_size = sizeof(info)};
        smla_last_error(&info);
        printf("%s\n", info.message);
        return 1;
    }
    /* Two blocks of keys, one a slot: with more, a refill that nobody waits for can overrun a phase and hang. */
    const struct problem_spec spec = {.name = "planted", .s_q = 2, .s_kv = 2048, .topk = 128};
    struct problem problem;
    const bool ran = problem_make(&bench, &spec, &problem, why) && problem_run(&bench, &kernel, &problem, NULL, why);
    printf("%s\n", ran ? "the kernel without its wait has run" : why);
    return ran ? 0 : 1;
}
