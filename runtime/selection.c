#include "selection.h"

#include <stdio.h>
#include <string.h>

#include "companion.h"
#include "describe.h"
#include "error.h"
#include "key.h"
#include "plan_rules.h"

static const char separators[] = ", \t\n";

/* The first of the kill switch's patterns that a name fits, and its size; NULL: none. */
static const char *find_pattern(const struct rt_settings *settings, const char *name, size_t *size)
{
    const char *at = settings && settings->disable ? settings->disable : "";

    while (*(at += strspn(at, separators)) != '\0') {
        *size = strcspn(at, separators);
        if (gen_name_matches(at, *size, name))
            return at;
        at += *size;
    }
    return NULL;
}

static bool is_off(const struct rt_settings *settings, const char *name)
{
    size_t size;

    return find_pattern(settings, name, &size) != NULL;
}

/* What of many names does not fit is cut. */
static void note_off(struct rt_selection *selection, const char *name)
{
    const size_t length = strlen(selection->switched_off);

    snprintf(selection->switched_off + length, sizeof selection->switched_off - length, "%s%s", length ? " " : "",
             name);
}

static bool is_for_few(const struct gen_plan *plan, int32_t variant)
{
    return variant != 0 && (variant == plan->split_variant || variant == plan->narrow_variant);
}

/* What no call needs: the variants for few queries, and what unpacks a cache. */
static bool is_optional(const struct gen_plan *plan, int32_t variant)
{
    return is_for_few(plan, variant) || (variant != 0 && variant == plan->unpack.variant);
}

/* A kernel is off by its id, or by an entry point that some call cannot do without.
 * name: what it is off by. */
static smla_status find_off(const struct rt_settings *settings, const struct gen_bundle *bundle, bool *off,
                            char name[RT_DIGEST_HEX])
{
    const struct gen_plan *plan = &bundle->plan;
    struct rt_key key;

    *off = false;
    if (settings == NULL || settings->disable == NULL)
        return SMLA_OK;
    for (int32_t i = 0; i < plan->variant_count && !*off; i++) {
        *off = !is_optional(plan, i) && is_off(settings, plan->variants[i].name);
        snprintf(name, RT_DIGEST_HEX, "%s", plan->variants[i].name);
    }
    if (*off)
        return SMLA_OK;
    const smla_status status = rt_key_make(bundle, RT_KIND_CUBIN, &key);
    if (status != SMLA_OK)
        return status;
    rt_digest_hex(&key.kernel_id, name);
    *off = is_off(settings, name);
    return SMLA_OK;
}

static bool may_be_unverified(const struct rt_settings *settings)
{
    return settings == NULL || (settings->flags & SMLA_CONTEXT_UNVERIFIED);
}

static const struct gen_trust *trust_of(const struct gen_bundle *bundle, int32_t variant)
{
    return gen_trust_find(bundle->plan.family, bundle->spec.op, bundle->plan.variants[variant].name);
}

/* Of the kernel, without what no call needs. */
static const struct gen_trust *least_trust(const struct gen_bundle *bundle)
{
    const struct gen_trust *least = trust_of(bundle, 0);

    for (int32_t i = 1; i < bundle->plan.variant_count; i++) {
        const struct gen_trust *trust = trust_of(bundle, i);
        if (!is_optional(&bundle->plan, i) && trust->level < least->level)
            least = trust;
    }
    return least;
}

/* Whether something that is verified less than what it stands beside may be chosen all the same. */
static bool is_trusted(const struct rt_settings *settings, const struct gen_trust *trust)
{
    return trust->level == SMLA_TRUST_VERIFIED || may_be_unverified(settings);
}

static void note_trust(struct rt_selection *selection, const struct gen_trust *trust)
{
    if (selection->least_trusted == NULL || trust->level < selection->least_trusted->level)
        selection->least_trusted = trust;
}

/* Its queries go another variant's way, or that of many. */
static void drop_rules(struct gen_plan *plan, int32_t variant)
{
    const bool had_last_round = gen_has_last_round(plan);
    int32_t left = 0;

    for (int32_t i = 0; i < plan->rule_count; i++)
        if (plan->rules[i].variant != variant)
            plan->rules[left++] = plan->rules[i];
    plan->rule_count = left;
    if (had_last_round && !gen_has_last_round(plan))
        plan->launches--;
}

static void choose_for_few(const struct rt_settings *settings, struct gen_plan *plan, int32_t variant,
                           const struct gen_trust *trust, struct rt_selection *selection)
{
    const char *name = plan->variants[variant].name;

    if (is_off(settings, name)) {
        drop_rules(plan, variant);
        note_off(selection, name);
    } else if (!is_trusted(settings, trust)) {
        drop_rules(plan, variant);
    } else {
        note_trust(selection, trust);
    }
}

/* The first bundle made is chosen. */
static void choose_kernel(const struct rt_settings *settings, struct rt_selection *selection)
{
    struct gen_bundle *bundle = &selection->made[0];

    selection->bundles = bundle;
    selection->count = 1;
    note_trust(selection, least_trust(bundle));
    for (int32_t i = 0; i < bundle->plan.variant_count; i++)
        if (is_for_few(&bundle->plan, i))
            choose_for_few(settings, &bundle->plan, i, trust_of(bundle, i), selection);
}

static smla_status make(const smla_kernel_desc *desc, const struct gen_target *target, struct rt_selection *selection)
{
    struct gen_refusal refusal;
    const smla_status status = gen_bundle_make(desc, target, &selection->made[0], &refusal);

    if (status != SMLA_OK)
        return rt_fail(status, "%s", refusal.text);
    selection->made_count = 1;
    return SMLA_OK;
}

/* name: what is off. */
static smla_status refuse(const struct rt_settings *settings, const char *name, struct rt_selection *selection)
{
    const struct gen_bundle *bundle = &selection->made[0];
    size_t size = 0;
    const char *pattern = find_pattern(settings, name, &size);

    note_off(selection, name);
    return rt_fail(SMLA_ERROR_UNSUPPORTED,
                   "%s is switched off by \"%.*s\" (SMLA_DISABLE, or smla_context_desc.disable), and nothing else "
                   "serves %s h_q %d: take the pattern away, or describe another kernel",
                   name, (int)(size < 100 ? size : 100), pattern ? pattern : "", gen_op_name(bundle->spec.op),
                   bundle->spec.h_q);
}

/* Instead of a kernel that is off: its companion, for all calls. */
static smla_status choose_companion_alone(const struct rt_settings *settings, const char *name,
                                          struct rt_selection *selection)
{
    char by[RT_DIGEST_HEX];
    bool off;
    smla_status status = rt_companion_bundle(&selection->made[0], &selection->made[1]);

    if (status != SMLA_OK)
        return status;
    selection->made_count = 2;
    status = find_off(settings, &selection->made[1], &off, by);
    if (status == SMLA_OK && (off || !is_trusted(settings, least_trust(&selection->made[1]))))
        return refuse(settings, name, selection);
    selection->bundles = &selection->made[1];
    selection->count = 1;
    note_off(selection, name);
    note_trust(selection, least_trust(&selection->made[1]));
    return status;
}

/* Instead of a persistent kernel that is off: one that has a block a query. name: what is off. */
static smla_status choose_not_persistent(const struct rt_settings *settings, const smla_kernel_desc *desc,
                                         const struct gen_target *target, const char *name,
                                         struct rt_selection *selection)
{
    smla_kernel_desc other = *desc;
    char by[RT_DIGEST_HEX];
    bool off;

    other.flags |= SMLA_KERNEL_NOT_PERSISTENT;
    note_off(selection, name);
    gen_bundle_free(&selection->made[0]);
    selection->made_count = 0;
    smla_status status = make(&other, target, selection);
    if (status == SMLA_OK)
        status = find_off(settings, &selection->made[0], &off, by);
    if (status != SMLA_OK)
        return status;
    if (off)
        return refuse(settings, by, selection);
    choose_kernel(settings, selection);
    return SMLA_OK;
}

static smla_status choose_instead(const struct rt_settings *settings, const smla_kernel_desc *desc,
                                  const struct gen_target *target, const char *name, struct rt_selection *selection)
{
    const struct gen_bundle *bundle = &selection->made[0];

    if (bundle->plan.companion.tile_heads > 0)
        return choose_companion_alone(settings, name, selection);
    if (bundle->spec.op == SMLA_OP_PREFILL && bundle->plan.variants[0].blocks_per_sm > 0)
        return choose_not_persistent(settings, desc, target, name, selection);
    return refuse(settings, name, selection);
}

/* What unpacks a cache is off, or not verified: then the kernel beside it has nothing to do. */
static bool cannot_unpack(const struct rt_settings *settings, struct rt_selection *selection)
{
    const struct gen_bundle *bundle = &selection->made[0];
    const int32_t variant = bundle->plan.unpack.variant;

    if (variant == 0)
        return false;
    const char *name = bundle->plan.variants[variant].name;
    if (is_off(settings, name)) {
        note_off(selection, name);
        return true;
    }
    const struct gen_trust *trust = trust_of(bundle, variant);
    if (!is_trusted(settings, trust))
        return true;
    note_trust(selection, trust);
    return false;
}

/* Without it the kernel takes all calls. */
static smla_status choose_companion(const struct rt_settings *settings, struct rt_selection *selection)
{
    char name[RT_DIGEST_HEX];
    bool off;
    smla_status status = rt_companion_bundle(&selection->made[0], &selection->made[1]);

    if (status != SMLA_OK)
        return status;
    selection->made_count = 2;
    const struct gen_trust *trust = least_trust(&selection->made[1]);
    status = find_off(settings, &selection->made[1], &off, name);
    if (status == SMLA_OK && off)
        note_off(selection, name);
    if (off || !is_trusted(settings, trust) || cannot_unpack(settings, selection)) {
        selection->made[0].plan.companion = (struct gen_companion){0};
        if (selection->made[0].plan.unpack.variant != 0)
            selection->made[0].plan.launches--;
        selection->made[0].plan.unpack = (struct gen_unpack){0};
        return status;
    }
    note_trust(selection, trust);
    selection->count = 2;
    return status;
}

static smla_status choose(const struct rt_settings *settings, const smla_kernel_desc *desc,
                          const struct gen_target *target, struct rt_selection *selection)
{
    char name[RT_DIGEST_HEX];
    bool off = false;
    smla_status status = make(desc, target, selection);

    if (status == SMLA_OK)
        status = find_off(settings, &selection->made[0], &off, name);
    if (status != SMLA_OK)
        return status;
    if (off)
        return choose_instead(settings, desc, target, name, selection);
    choose_kernel(settings, selection);
    return rt_has_companion(&selection->made[0]) ? choose_companion(settings, selection) : SMLA_OK;
}

smla_status rt_selection_make(const struct rt_settings *settings, const smla_kernel_desc *desc,
                              const struct gen_target *target, struct rt_selection *out)
{
    out->made_count = 0;
    out->bundles = NULL;
    out->count = 0;
    out->least_trusted = NULL;
    out->switched_off[0] = '\0';
    const smla_kernel_desc asked = rt_settings_apply(settings, desc);
    const smla_status status = choose(settings, &asked, target, out);
    if (status != SMLA_OK)
        rt_selection_free(out);
    return status;
}

/* ---- What is told ---- */

static void tell(const struct rt_settings *settings, const struct rt_selection *selection, struct rt_event event,
                 const char *words)
{
    char what[RT_DESCRIPTION_BYTES];

    rt_describe(&selection->bundles[0].spec, what);
    event.kernel = what;
    rt_tell(&settings->log, &event, "%s %s", what, words);
}

void rt_selection_tell_off(const struct rt_settings *settings, const struct rt_selection *selection, smla_status status)
{
    const struct rt_event event = {.kind = SMLA_EVENT_SWITCHED_OFF, .level = SMLA_LOG_INFO, .status = status};
    char words[sizeof selection->switched_off + 64];
    struct rt_error error;

    if (selection->switched_off[0] == '\0')
        return;
    if (status == SMLA_OK) {
        snprintf(words, sizeof words, "is served without what is switched off: %s", selection->switched_off);
        tell(settings, selection, event, words);
        return;
    }
    rt_error_save(&error);
    rt_tell(&settings->log, &event, "%s", error.message);
}

void rt_selection_free(struct rt_selection *selection)
{
    for (int i = 0; i < selection->made_count; i++)
        gen_bundle_free(&selection->made[i]);
    selection->made_count = 0;
}

smla_status rt_selection_check(const struct rt_settings *settings, const struct rt_selection *selection)
{
    const struct gen_spec *spec = &selection->bundles[0].spec;
    const struct rt_event event = {
        .kind = SMLA_EVENT_UNVERIFIED, .level = SMLA_LOG_INFO, .status = SMLA_ERROR_UNSUPPORTED};

    if (is_trusted(settings, selection->least_trusted))
        return SMLA_OK;
    tell(settings, selection, event, "is not verified, and was not asked for");
    return rt_fail(SMLA_ERROR_UNSUPPORTED,
                   "%s for %s is not taken unless it is asked for, its status is \"%s\": create the context with "
                   "SMLA_CONTEXT_UNVERIFIED, best with SMLA_CONTEXT_SELF_TEST beside it; making its code without "
                   "running it (smla_generate, smla-gen) is free",
                   selection->bundles[0].plan.variants[0].name, spec->target->arch, selection->least_trusted->status);
}
