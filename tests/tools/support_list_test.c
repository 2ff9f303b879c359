/* What smla-gen --list --json prints, what smla_query_support answers and what gen_bundle_make makes are the same, for
 * every target, operator, count of heads, d_qk and pair of presets. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bundle.h"
#include "smla/smla.h"
#include "support_list.h"

/* name: NULL for none, which null stands for. */
static bool names(const json_t *formats, const char *name)
{
    size_t i;
    const json_t *format;
    json_array_foreach(formats, i, format)
    {
        if (name ? json_is_string(format) && strcmp(json_string_value(format), name) == 0 : json_is_null(format))
            return true;
    }
    return false;
}

static bool within(int64_t value, const json_t *range)
{
    return value >= json_integer_value(json_array_get(range, 0)) &&
           value <= json_integer_value(json_array_get(range, 1));
}

static const char *text_of(const json_t *row, const char *key)
{
    return json_string_value(json_object_get(row, key));
}

/* The one row that a description is in; NULL when it is in none. */
static const json_t *find_row(const json_t *list, const smla_kernel_desc *desc)
{
    const json_t *row, *found = NULL;
    size_t i;
    json_array_foreach(list, i, row)
    {
        if (strcmp(text_of(row, "target"), desc->target) != 0 || strcmp(text_of(row, "op"), gen_op_name(desc->op)) != 0)
            continue;
        if (json_integer_value(json_object_get(row, "d_qk")) != desc->d_qk ||
            !within(desc->h_q, json_object_get(row, "h_q")))
            continue;
        if (!names(json_object_get(row, "kv_formats"), desc->kv_format) ||
            !names(json_object_get(row, "extra_kv_formats"), desc->extra_kv_format))
            continue;
        assert_null(found);
        found = row;
    }
    return found;
}

static int64_t number_of(const json_t *row, const char *key)
{
    return json_integer_value(json_object_get(row, key));
}

static void assert_agreed(const json_t *row, const smla_kernel_desc *desc)
{
    smla_support support = {.struct_size = sizeof(support)};
    const smla_status asked = smla_query_support(NULL, desc, &support);
    struct gen_bundle bundle;
    struct gen_refusal refusal;
    const smla_status made = gen_bundle_make(desc, NULL, &bundle, &refusal);
    const bool supported = asked == SMLA_OK && support.supported;
    if (supported != (row != NULL) || supported != (made == SMLA_OK))
        fail_msg("%s op %u h_q %d d_qk %d %s + %s: %s the list, query_support %d, bundle %d", desc->target, desc->op,
                 desc->h_q, desc->d_qk, desc->kv_format, desc->extra_kv_format, row ? "in" : "not in", supported,
                 (int)made);
    if (!supported)
        return;
    assert_string_equal(text_of(row, "kernel"), bundle.plan.kernel);
    assert_string_equal(text_of(row, "status"), support.status);
    assert_int_equal(strncmp(support.variant, bundle.plan.kernel, strlen(bundle.plan.kernel)), 0);
    assert_string_equal(support.variant, bundle.plan.variants[0].name);
    assert_int_equal(number_of(row, "launches"), support.launches);
    assert_int_equal(number_of(row, "launches"), bundle.plan.launches);
    assert_int_equal(number_of(row, "threads"), support.threads);
    assert_int_equal(number_of(row, "threads"), bundle.plan.variants[0].threads);
    assert_true(within(support.shared_bytes, json_object_get(row, "shared_bytes")));
    assert_int_equal(support.shared_bytes, bundle.plan.variants[0].shared_bytes);
    gen_bundle_free(&bundle);
}

static int64_t walked, listed;

/* One count of heads past either end, too. */
static void walk_heads(const json_t *list, smla_kernel_desc desc)
{
    for (desc.h_q = 0; desc.h_q <= 129; desc.h_q++) {
        const json_t *row = find_row(list, &desc);
        assert_agreed(row, &desc);
        walked++;
        listed += row != NULL;
    }
}

static void walk_formats(const json_t *list, smla_kernel_desc desc)
{
    static const int32_t widths[] = {512, 576, 640};
    size_t count;
    const struct gen_kv_format *formats = gen_kv_format_table(&count);
    for (size_t i = 0; i < count * (count + 1) * 3; i++) {
        const size_t extra = i % (count + 1);
        desc.kv_format = formats[i / (count + 1) % count].name;
        desc.extra_kv_format = extra == count ? NULL : formats[extra].name;
        desc.d_qk = widths[i / (count + 1) / count];
        walk_heads(list, desc);
    }
}

static void test_all_agree(void **state)
{
    (void)state;
    json_t *list = support_list_json();
    assert_true(json_is_array(list));
    size_t count;
    const struct gen_target *targets = gen_target_table(&count);
    for (size_t i = 0; i < count; i++) {
        smla_kernel_desc desc = {.struct_size = sizeof(desc), .target = targets[i].name};
        for (desc.op = SMLA_OP_PREFILL; desc.op <= SMLA_OP_PREFILL_REFERENCE; desc.op++)
            walk_formats(list, desc);
        desc.op = SMLA_OP_COMBINE;
        walk_heads(list, desc);
    }
    printf("%lld descriptions, %lld of them listed\n", (long long)walked, (long long)listed);
    assert_true(listed > 128 * 78);
    json_decref(list);
}

/* The sentence at the list's end: a layout of one's own gets what a preset of its kind gets. */
static void test_layouts_get_what_presets_get(void **state)
{
    static const struct {
        const char *like;
        smla_kv_layout layout;
    } rows[] = {
        {"v4",
         {.struct_size = sizeof(smla_kv_layout),
          .value_type = SMLA_VALUE_E2M1,
          .value_elems = 384,
          .scale_type = SMLA_SCALE_FP32,
          .scale_group = 128,
          .tail_elems = 128,
          .place = SMLA_PLACE_PAGE}},
        {"v4",
         {.struct_size = sizeof(smla_kv_layout),
          .value_type = SMLA_VALUE_E4M3,
          .value_elems = 64,
          .scale_type = SMLA_SCALE_UE8M0,
          .scale_group = 16,
          .scale_bytes = 16,
          .tail_elems = 448,
          .place = SMLA_PLACE_TOKEN}},
        {"bf16",
         {.struct_size = sizeof(smla_kv_layout),
          .value_type = SMLA_VALUE_BF16,
          .value_elems = 512,
          .place = SMLA_PLACE_TOKEN}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) * 128; i++) {
        smla_kernel_desc desc = {
            .struct_size = sizeof(desc), .op = SMLA_OP_PREFILL, .h_q = 1 + (int32_t)(i % 128), .d_qk = 512};
        const size_t row = i / 128;
        smla_support preset = {.struct_size = sizeof(preset)}, layout = preset;
        desc.target = "90";
        desc.kv_format = rows[row].like;
        assert_int_equal(smla_query_support(NULL, &desc, &preset), SMLA_OK);
        desc.kv_format = NULL;
        desc.kv_layout = &rows[row].layout;
        assert_int_equal(smla_query_support(NULL, &desc, &layout), SMLA_OK);
        assert_int_equal(preset.supported, layout.supported);
        assert_int_equal(preset.threads, layout.threads);
        assert_int_equal(preset.shared_bytes, layout.shared_bytes);
        assert_int_equal(strncmp(preset.variant, layout.variant, strlen("sm90_prefill_turned_h")), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_agree),
                                       cmocka_unit_test(test_layouts_get_what_presets_get)};
    return cmocka_run_group_tests_name("tools.support_list", tests, NULL, NULL);
}
