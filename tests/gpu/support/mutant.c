#include "mutant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compile.h"
#include "context.h"
#include "module.h"

/* The file's text with the change, malloc'd; NULL when `from` does not stand there exactly once. */
static char *changed(const struct gen_file *file, const char *from, const char *to)
{
    char *text = malloc(file->size + 1), *whole = malloc(file->size + strlen(to) + 1);
    if (text && whole) {
        memcpy(text, file->bytes, file->size);
        text[file->size] = '\0';
        char *place = strstr(text, from);
        if (place && !strstr(place + 1, from)) {
            *place = '\0';
            sprintf(whole, "%s%s%s", text, to, place + strlen(from));
            free(text);
            return whole;
        }
    }
    free(text);
    free(whole);
    return NULL;
}

/* Compiles and loads the bundle into the mutant's kernel, which is a prepared one otherwise. */
static bool load(struct bench *bench, struct gen_bundle *bundle, struct mutant *mutant)
{
    struct smla_kernel *kernel = &mutant->kernel;
    const struct rt_nvrtc *nvrtc;
    const struct rt_module *module;
    struct rt_device device;
    struct rt_key key;
    bool lasting, refused;
    const enum rt_kind kind = bench->emulated ? RT_KIND_PTX : RT_KIND_CUBIN;
    return rt_key_make(bundle, kind, &key) == SMLA_OK &&
           rt_context_nvrtc(bench->context, bundle->spec.target, 0, &nvrtc) == SMLA_OK &&
           rt_compile(nvrtc, bundle, &key, &mutant->image, &lasting) == SMLA_OK &&
           rt_device_enter(&device, kernel->driver, NULL) == SMLA_OK &&
           rt_modules_get(&bench->context->modules, &device, &mutant->image, &bundle->plan, &module, &refused) ==
               SMLA_OK &&
           (kernel->functions[0] = module->functions[0]) != NULL;
}

bool mutant_make(struct bench *bench, const char *from, const char *to, struct mutant *out, char why[PROBLEM_WHY])
{
    const smla_kernel_desc desc = {.struct_size = sizeof(desc),
                                   .op = SMLA_OP_PREFILL,
                                   .h_q = 64,
                                   .d_qk = 512,
                                   .target = "90",
                                   .batch_invariant = 1,
                                   .flags = SMLA_KERNEL_NOT_PERSISTENT};
    struct gen_bundle bundle;
    struct gen_refusal refusal;
    if (gen_bundle_make(&desc, NULL, &bundle, &refusal) != SMLA_OK) {
        snprintf(why, PROBLEM_WHY, "%.900s", refusal.text);
        return false;
    }
    char *source = NULL;
    int32_t file = 0;
    for (; file < bundle.file_count && !source; file++)
        source = changed(&bundle.files[file], from, to);
    if (!source) {
        snprintf(why, PROBLEM_WHY, "the template has not in one place what this test replaces: %.800s", from);
        return false;
    }
    bundle.files[file - 1].bytes = source;
    bundle.files[file - 1].size = strlen(source);
    bundle.files[file - 1].digest = NULL;
    *out = (struct mutant){.kernel = *bench->prefill};
    const bool loaded = load(bench, &bundle, out);
    smla_error_info info = {.struct_size = sizeof(info)};
    if (!loaded && smla_last_error(&info) == SMLA_OK)
        snprintf(why, PROBLEM_WHY, "%.900s", info.message);
    free(source);
    return loaded;
}

int mutant_main(const char *from, const char *to, const char *what)
{
    static struct mutant mutant;
    struct bench bench;
    char why[PROBLEM_WHY];
    const int opened = bench_open(&bench, why);
    if (opened != 0) {
        printf("%s\n", why);
        return opened;
    }
    const struct problem_spec spec = {.name = "planted", .s_q = 2, .s_kv = 2048, .topk = 128};
    struct problem problem;
    bench.kernel_flags = SMLA_KERNEL_NOT_PERSISTENT;
    bench.batch_invariant = true; /* few queries are not split */
    const bool ran = problem_make(&bench, &spec, &problem, why) && mutant_make(&bench, from, to, &mutant, why) &&
                     problem_run(&bench, &mutant.kernel, &problem, NULL, why);
    printf("%s%s\n", ran ? what : why, ran ? " has run" : "");
    return ran ? 0 : 1;
}
