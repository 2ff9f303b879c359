#include "config.h"

static void add_upper(struct gen_text *text, const char *name)
{
    for (; *name; name++) {
        const char letter = (char)(*name >= 'a' && *name <= 'z' ? *name - 'a' + 'A' : *name);
        gen_text_add_bytes(text, &letter, 1);
    }
}

static void add_constant(struct gen_text *text, const char *name, const char *suffix, int32_t value)
{
    gen_text_add_string(text, "#define SMLA_");
    add_upper(text, name);
    gen_text_add_string(text, suffix);
    gen_text_add_string(text, " ");
    gen_text_add_number(text, value);
}

void gen_config_print(const struct gen_spec *spec, const struct gen_plan *plan, struct gen_text *text)
{
    static const char *const deciders[] = {"description", "target", "plan"};
    gen_text_add(text, "/* Configuration of %s for %s%s%s. Generated; see the plan for the reasons. */\n", plan->kernel,
                 spec->target->arch, spec->kv.name ? ", kv " : "", spec->kv.name ? spec->kv.name : "");
    gen_text_add(text, "#ifndef SMLA_CONFIG_CUH\n#define SMLA_CONFIG_CUH\n\n");
    for (int32_t i = 0; i < plan->number_count; i++) {
        const struct gen_number *number = &plan->numbers[i];
        add_constant(text, number->name, "", number->value);
        gen_text_add(text, " /* %s%sby the %s */\n", number->unit, number->unit[0] ? ", " : "",
                     deciders[number->decided_by]);
    }
    for (int32_t i = 0; i < plan->region_count; i++) {
        add_constant(text, plan->regions[i].name, "_OFFSET", plan->regions[i].offset_bytes);
        gen_text_add(text, " /* bytes, by the plan: %s */\n", plan->regions[i].holds);
    }
    add_constant(text, "shared", "_BYTES", plan->variants[0].shared_bytes);
    gen_text_add(text, " /* bytes, by the plan */\n\n#endif\n");
}

/* "%0, %1, … " in rows of eight. Without formats, here and above: there are thousands of these, and they were most of
 * what finding a compiled kernel took. */
static void add_operands(struct gen_text *text, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        gen_text_add_string(text, i % 8 == 0 ? "        \"%" : "%");
        gen_text_add_number(text, i);
        gen_text_add_string(text, i + 1 < count ? ", " : "");
        if (i % 8 == 7 || i + 1 == count)
            gen_text_add_string(text, "\"\n");
    }
}

static void add_constraints(struct gen_text *text, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        gen_text_add_string(text, i % 8 == 0 ? "          \"+f\"(d[" : "\"+f\"(d[");
        gen_text_add_number(text, i);
        gen_text_add_string(text, i + 1 == count ? "])\n" : (i % 8 == 7 ? "]),\n" : "]), "));
    }
}

/* "wgmma_m64n64k16_b_k"; what is transposed of A is named, what is not goes without saying. */
static void add_wgmma_name(struct gen_text *text, const struct gen_wgmma *wgmma)
{
    gen_text_add(text, "wgmma_m64n");
    if (wgmma->n_varies)
        gen_text_add(text, "N");
    else
        gen_text_add(text, "%d", wgmma->n);
    gen_text_add(text, "k16%s_b_%s",
                 wgmma->a_in_registers  ? "_a_registers"
                 : wgmma->a_is_mn_major ? "_a_mn"
                                        : "",
                 wgmma->b_is_mn_major ? "mn" : "k");
}

/* A is a descriptor, or a fragment of four registers. */
static void add_wgmma_operands(struct gen_text *text, const struct gen_wgmma *wgmma, int32_t count)
{
    if (wgmma->a_in_registers)
        gen_text_add(text, "        \"}, {%%%d, %%%d, %%%d, %%%d}, %%%d, p, 1, 1, %d;\\n}\\n\"\n        :\n", count,
                     count + 1, count + 2, count + 3, count + 4, wgmma->b_is_mn_major);
    else
        gen_text_add(text, "        \"}, %%%d, %%%d, p, 1, 1, %d, %d;\\n}\\n\"\n        :\n", count, count + 1,
                     wgmma->a_is_mn_major, wgmma->b_is_mn_major);
}

static void add_wgmma(struct gen_text *text, const struct gen_wgmma *wgmma)
{
    int32_t count = wgmma->n / 2; /* fp32 accumulators a thread: 64 * n / 128 */
    gen_text_add(text, "/* %s */\n", wgmma->used_for);
    gen_text_add(text, "__device__ __forceinline__ void ");
    add_wgmma_name(text, wgmma);
    gen_text_add(text, "(float (&d)[%d], %s, u64 desc_b, int accumulate)\n{\n", count,
                 wgmma->a_in_registers ? "const u32 (&a)[4]" : "u64 desc_a");
    gen_text_add(text, "    asm volatile(\"{\\n.reg .pred p;\\nsetp.ne.b32 p, %%%d, 0;\\n\"\n",
                 count + (wgmma->a_in_registers ? 5 : 2));
    gen_text_add(text, "        \"wgmma.mma_async.sync.aligned.m64n%dk16.f32.bf16.bf16 {\"\n", wgmma->n);
    add_operands(text, count);
    add_wgmma_operands(text, wgmma, count);
    add_constraints(text, count);
    gen_text_add(text, "        : %s, \"l\"(desc_b), \"r\"(accumulate));\n}\n\n",
                 wgmma->a_in_registers ? "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])" : "\"l\"(desc_a)");
}

void gen_wgmma_print(const struct gen_plan *plan, struct gen_text *text)
{
    gen_text_add(
        text,
        "/* The wgmma shapes of %s. Generated.\n"
        " * PTX ISA 9.7.15.5.2: D = A * B + (accumulate ? D : 0); bf16 in, fp32 accumulate; A and B by\n"
        " * shared-memory descriptors, A a fragment where _a_registers is named; scale-a, scale-b 1; A along K, or\n"
        " * along M where _a_mn is named; B along K (_b_k) or along N (_b_mn). */\n",
        plan->kernel);
    gen_text_add(text, "#ifndef SMLA_WGMMA_CUH\n#define SMLA_WGMMA_CUH\n\n#include \"types.cuh\"\n\n");
    for (int32_t i = 0; i < plan->wgmma_count; i++)
        add_wgmma(text, &plan->wgmmas[i]);
    gen_text_add(text, "#endif\n");
}
