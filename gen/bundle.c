#include "bundle.h"

#include <stdio.h>
#include <string.h>

#include "config.h"
#include "plan_companion.h"

static void add_file(struct gen_bundle *bundle, const char *name, const char *bytes, size_t size)
{
    bundle->files[bundle->file_count++] = (struct gen_file){.name = name, .bytes = bytes, .size = size};
}

static void add_option(struct gen_bundle *bundle, const char *option)
{
    bundle->options[bundle->option_count++] = option;
}

/* The headers that a template includes, found by reading its #include lines, so that a bundle holds no more than the
 * kernel needs. Generated files are already in. */
static smla_status add_includes_of(struct gen_bundle *bundle, const struct gen_file *file, struct gen_refusal *refusal);

static bool has_file(const struct gen_bundle *bundle, const char *name)
{
    for (int32_t i = 0; i < bundle->file_count; i++)
        if (strcmp(bundle->files[i].name, name) == 0)
            return true;
    return false;
}

static smla_status add_template(struct gen_bundle *bundle, const char *name, struct gen_refusal *refusal)
{
    if (has_file(bundle, name))
        return SMLA_OK;
    const struct gen_file *file = gen_template_find(name);
    if (!file || bundle->file_count == GEN_MAX_FILES)
        return gen_refuse(refusal, SMLA_ERROR_INTERNAL, "template \"%.60s\" is not in the library", name);
    bundle->files[bundle->file_count++] = *file;
    return add_includes_of(bundle, file, refusal);
}

/* The name in an #include "name" line that starts at `line`, or false. */
static bool include_name(const char *line, char name[64])
{
    static const char directive[] = "#include \"";
    if (strncmp(line, directive, sizeof(directive) - 1) != 0)
        return false;
    const char *start = line + sizeof(directive) - 1;
    const char *end = strchr(start, '"');
    if (!end || end - start >= 64)
        return false;
    memcpy(name, start, (size_t)(end - start));
    name[end - start] = '\0';
    return true;
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

static smla_status add_includes_of(struct gen_bundle *bundle, const struct gen_file *file, struct gen_refusal *refusal)
{
    for (const char *line = file->bytes; *line; line = next_line(line)) {
        char name[64];
        if (line[0] != '#' || !include_name(line, name))
            continue;
        smla_status status = add_template(bundle, name, refusal);
        if (status != SMLA_OK)
            return status;
    }
    return SMLA_OK;
}

/* A kernel, what few queries take and its check are templates of their own, compiled as one. */
static bool has_unit(const struct gen_plan *plan)
{
    return plan->split_name || plan->narrow_name || plan->combine_name || plan->check_name;
}

static void print_unit(const struct gen_plan *plan, struct gen_text *text)
{
    gen_text_add(text, "#line 1 \"/smla/smla_unit.cu\"\n/* %s%s%s%s. Generated. */\n", plan->kernel,
                 plan->split_name ? ", few queries" : "", plan->combine_name ? " and what combines its parts" : "",
                 plan->check_name ? " and its check" : "");
    gen_text_add(text, "#include \"%s\"\n", plan->template_name);
    if (plan->split_name)
        gen_text_add(text, "#include \"%s\"\n", plan->split_name);
    if (plan->narrow_name)
        gen_text_add(text, "#include \"%s\"\n", plan->narrow_name);
    if (plan->combine_name)
        gen_text_add(text, "#include \"%s\"\n", plan->combine_name);
    if (plan->check_name)
        gen_text_add(text, "#include \"%s\"\n", plan->check_name);
}

static smla_status add_files(struct gen_bundle *bundle, struct gen_refusal *refusal)
{
    gen_text_add(&bundle->configuration, "#line 1 \"/smla/smla_config.cuh\"\n");
    gen_config_print(&bundle->spec, &bundle->plan, &bundle->configuration);
    gen_text_add(&bundle->instructions, "#line 1 \"/smla/smla_wgmma.cuh\"\n");
    gen_wgmma_print(&bundle->plan, &bundle->instructions);
    if (has_unit(&bundle->plan))
        print_unit(&bundle->plan, &bundle->unit);
    if (bundle->configuration.failed || bundle->instructions.failed || bundle->unit.failed)
        return gen_refuse(refusal, SMLA_ERROR_OUT_OF_MEMORY, "no memory for the configuration text");
    const struct gen_file made = {.name = "smla_unit.cu", .bytes = bundle->unit.bytes, .size = bundle->unit.size};
    const struct gen_file *unit = has_unit(&bundle->plan) ? &made : gen_template_find(bundle->plan.template_name);
    if (!unit)
        return gen_refuse(refusal, SMLA_ERROR_INTERNAL, "template \"%s\" is not in the library",
                          bundle->plan.template_name);
    bundle->files[bundle->file_count++] = *unit;
    add_file(bundle, "smla_config.cuh", bundle->configuration.bytes, bundle->configuration.size);
    if (bundle->plan.wgmma_count)
        add_file(bundle, "smla_wgmma.cuh", bundle->instructions.bytes, bundle->instructions.size);
    return add_includes_of(bundle, unit, refusal);
}

static void add_options(struct gen_bundle *bundle)
{
    snprintf(bundle->arch_option, sizeof(bundle->arch_option), "--gpu-architecture=%s", bundle->spec.target->arch);
    add_option(bundle, bundle->arch_option);
    add_option(bundle, "--std=c++17");
    add_option(bundle, "-default-device");
}

/* The passes behind the spec, which is there. */
static smla_status finish(struct gen_bundle *bundle, struct gen_refusal *refusal)
{
    smla_status status = gen_plan_make(&bundle->spec, &bundle->plan, refusal);
    if (status == SMLA_OK)
        status = add_files(bundle, refusal);
    if (status == SMLA_OK)
        add_options(bundle);
    else
        gen_bundle_free(bundle);
    return status;
}

smla_status gen_bundle_make(const smla_kernel_desc *desc, const struct gen_target *target, struct gen_bundle *bundle,
                            struct gen_refusal *refusal)
{
    memset(bundle, 0, sizeof(*bundle));
    const smla_status status = gen_spec_make(desc, target, &bundle->spec, refusal);
    return status == SMLA_OK ? finish(bundle, refusal) : status;
}

smla_status gen_bundle_make_companion(const struct gen_bundle *of, struct gen_bundle *bundle,
                                      struct gen_refusal *refusal)
{
    memset(bundle, 0, sizeof(*bundle));
    gen_companion_spec(&of->spec, &of->plan, &bundle->spec);
    return finish(bundle, refusal);
}

smla_status gen_bundle_make_again(const struct gen_bundle *of, struct gen_bundle *bundle, struct gen_refusal *refusal)
{
    memset(bundle, 0, sizeof(*bundle));
    bundle->spec = of->spec;
    return finish(bundle, refusal);
}

void gen_bundle_free(struct gen_bundle *bundle)
{
    gen_text_free(&bundle->configuration);
    gen_text_free(&bundle->instructions);
    gen_text_free(&bundle->unit);
    memset(bundle, 0, sizeof(*bundle));
}

static int32_t included_file(const struct gen_bundle *bundle, const char *line)
{
    char name[64];
    if (include_name(line, name))
        for (int32_t i = 0; i < bundle->file_count; i++)
            if (strcmp(bundle->files[i].name, name) == 0)
                return i;
    return -1;
}

/* Emits a file; at its first #include of a bundled file, that file's text stands instead of the line, and a #line leads
 * back. A file's own first line is a #line, so its lines count from 0 here. */
static void flatten_file(const struct gen_bundle *bundle, int32_t index, bool done[GEN_MAX_FILES],
                         struct gen_text *text)
{
    int number = 0;
    done[index] = true;
    for (const char *line = bundle->files[index].bytes; *line; line = next_line(line), number++) {
        const int32_t included = included_file(bundle, line);
        if (included < 0) {
            gen_text_add_bytes(text, line, (size_t)(next_line(line) - line));
            continue;
        }
        if (!done[included])
            flatten_file(bundle, included, done, text);
        gen_text_add(text, "#line %d \"/smla/%s\"\n", number + 1, bundle->files[index].name);
    }
}

void gen_bundle_flatten(const struct gen_bundle *bundle, struct gen_text *text)
{
    bool done[GEN_MAX_FILES] = {false};
    flatten_file(bundle, 0, done, text);
}
