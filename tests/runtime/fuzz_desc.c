#include "fuzz_desc.h"

#include <stdlib.h>
#include <string.h>

#include "describe.h"
#include "plan.h"

/* A layout of one's own has no name that a text could give. */
static bool has_presets(const struct gen_spec *spec)
{
    return (!spec->kv.name || gen_kv_format_find(spec->kv.name)) &&
           (!spec->has_extra_kv || gen_kv_format_find(spec->extra_kv.name));
}

static void must_end_early(const char *text, size_t size)
{
    if (memchr(text, '\0', size - 1) == NULL) /* one that fills its buffer may have been cut */
        abort();
}

static void read_back(const struct gen_spec *spec)
{
    char text[RT_DESCRIPTION_BYTES], again[RT_DESCRIPTION_BYTES];
    struct rt_described described;
    struct gen_refusal refusal;
    struct gen_spec same;

    rt_describe(spec, text);
    must_end_early(text, sizeof text);
    if (!rt_describe_read(text, &described))
        abort();
    if (!has_presets(spec))
        return;
    if (gen_spec_make(&described.desc, NULL, &same, &refusal) != SMLA_OK)
        abort();
    rt_describe(&same, again);
    if (strcmp(text, again) != 0)
        abort();
}

static void print_plan(const struct gen_spec *spec, const struct gen_plan *plan)
{
    struct gen_text text = {.failed = false};

    gen_plan_print(spec, plan, &text);
    if (text.size == 0)
        abort();
    gen_text_free(&text);
}

void fuzz_desc(const smla_kernel_desc *desc)
{
    struct gen_refusal refusal = {""};
    struct gen_spec spec;
    struct gen_plan plan;
    char command[RT_COMMAND_BYTES];

    smla_status status = gen_spec_make(desc, NULL, &spec, &refusal);
    if (status == SMLA_OK) {
        read_back(&spec);
        rt_describe_command(&spec, "cubin", NULL, command);
        must_end_early(command, sizeof command);
        status = gen_plan_make(&spec, &plan, &refusal);
        if (status == SMLA_OK)
            print_plan(&spec, &plan);
    }
    if (status != SMLA_OK && refusal.text[0] == '\0')
        abort();
}
