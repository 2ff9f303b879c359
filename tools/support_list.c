#include "support_list.h"

#include <stdio.h>
#include <string.h>

#include "plan_list.h"
#include "trust.h"

struct table {
    size_t count;
    struct gen_supported rows[GEN_MAX_SUPPORTED];
};

/* Rows of one target. */
struct section {
    const struct gen_supported *rows;
    size_t count;
};

static struct section section_at(const struct table *table, size_t first)
{
    struct section section = {&table->rows[first], 0};
    while (first + section.count < table->count && section.rows[section.count].target == section.rows[0].target)
        section.count++;
    return section;
}

static bool same_section(struct section a, struct section b)
{
    bool same = a.count == b.count;
    for (size_t i = 0; same && i < a.count; i++) {
        const struct gen_supported *x = &a.rows[i], *y = &b.rows[i];
        same = x->op == y->op && x->d_qk == y->d_qk && x->kv == y->kv && x->extra_kv == y->extra_kv &&
               x->first_h_q == y->first_h_q && x->last_h_q == y->last_h_q && strcmp(x->kernel, y->kernel) == 0 &&
               x->companion_heads == y->companion_heads && x->launches == y->launches && x->threads == y->threads &&
               x->least_shared_bytes == y->least_shared_bytes && x->most_shared_bytes == y->most_shared_bytes;
    }
    return same;
}

static void print_formats(const char *title, uint32_t formats)
{
    size_t count;
    const struct gen_kv_format *table = gen_kv_format_table(&count);
    printf("    %s ", title);
    const char *between = "";
    if (formats & GEN_NO_CACHE) {
        printf("none");
        between = ", ";
    }
    for (size_t i = 0; i < count; i++)
        if (formats & 1u << i) {
            printf("%s%s", between, table[i].name);
            between = ", ";
        }
    printf("\n");
}

static void print_head(const struct gen_supported *row)
{
    printf("  %s", gen_op_name(row->op));
    if (row->d_qk)
        printf(", d_qk %d", row->d_qk);
    printf(", d_v 512\n");
    if (row->kv == GEN_NO_CACHE)
        return;
    print_formats("kv:", row->kv);
    print_formats("second cache:", row->extra_kv);
}

static void range_text(int32_t first, int32_t last, char text[24])
{
    if (first == last)
        snprintf(text, 24, "%d", first);
    else
        snprintf(text, 24, "%d-%d", first, last);
}

static void print_row(const struct gen_supported *row)
{
    char heads[24], shared[24];
    range_text(row->first_h_q, row->last_h_q, heads);
    range_text(row->least_shared_bytes, row->most_shared_bytes, shared);
    printf("      %7s  %8d  %7d  %13s  %s", heads, row->launches, row->threads, shared, row->kernel);
    if (row->companion_heads)
        printf("; few tokens: in tiles of %d", row->companion_heads);
    printf("\n");
}

/* Of the kernel's variants, whose names go on with the heads. */
static const char *status_of(const struct gen_supported *row)
{
    char name[64];
    snprintf(name, sizeof name, "%s_h", row->kernel);
    return gen_trust_find(row->target->family, row->op, name)->status;
}

/* Whether one of the rows before has that status, and (kernel not NULL) that kernel. */
static bool told_before(struct section section, size_t row, const char *status, const char *kernel)
{
    bool told = false;
    for (size_t i = 0; i < row && !told; i++)
        told = strcmp(status_of(&section.rows[i]), status) == 0 &&
               (kernel == NULL || strcmp(section.rows[i].kernel, kernel) == 0);
    return told;
}

/* A line a status, with the kernels that have it. */
static void print_statuses(struct section section)
{
    for (size_t i = 0; i < section.count; i++) {
        const char *status = status_of(&section.rows[i]), *between = "";
        if (told_before(section, i, status, NULL))
            continue;
        printf("  %s:", status);
        for (size_t k = i; k < section.count; k++) {
            const char *kernel = section.rows[k].kernel;
            if (strcmp(status_of(&section.rows[k]), status) != 0 || told_before(section, k, status, kernel))
                continue;
            printf("%s %s", between, kernel);
            between = ",";
        }
        printf("\n");
    }
}

static void print_section(struct section section)
{
    for (size_t i = 0; i < section.count; i++) {
        const struct gen_supported *row = &section.rows[i], *before = i ? row - 1 : NULL;
        if (!before || before->op != row->op || before->d_qk != row->d_qk || before->kv != row->kv ||
            before->extra_kv != row->extra_kv)
            print_head(row);
        print_row(row);
    }
    print_statuses(section);
}

bool support_list_print(void)
{
    static struct table table;
    table.count = gen_supported_list(table.rows);
    printf("          h_q  launches  threads  shared memory  kernel\n");
    for (size_t first = 0; first < table.count;) {
        const struct section section = section_at(&table, first);
        size_t next = first + section.count;
        printf("%s", section.rows[0].target->name);
        while (next < table.count && same_section(section, section_at(&table, next))) {
            printf(", %s", table.rows[next].target->name);
            next += section.count;
        }
        printf("\n");
        print_section(section);
        first = next;
    }
    printf(
        "A kv_layout of e4m3 or e2m1 values, in either cache, gets what v4 gets; one of bf16 values what bf16 gets.\n");
    return fflush(stdout) == 0;
}

static json_t *formats_json(uint32_t formats)
{
    size_t count;
    const struct gen_kv_format *table = gen_kv_format_table(&count);
    json_t *names = json_array();
    if (formats & GEN_NO_CACHE)
        json_array_append_new(names, json_null());
    for (size_t i = 0; i < count; i++)
        if (formats & 1u << i)
            json_array_append_new(names, json_string(table[i].name));
    return names;
}

static json_t *row_json(const struct gen_supported *row)
{
    return json_pack("{s:s, s:s, s:[ii], s:o, s:i, s:o, s:o, s:s, s:o, s:i, s:i, s:[ii], s:s}", "target",
                     row->target->name, "op", gen_op_name(row->op), "h_q", row->first_h_q, row->last_h_q, "d_qk",
                     row->d_qk ? json_integer(row->d_qk) : json_null(), "d_v", 512, "kv_formats", formats_json(row->kv),
                     "extra_kv_formats", formats_json(row->extra_kv), "kernel", row->kernel, "companion_heads",
                     row->companion_heads ? json_integer(row->companion_heads) : json_null(), "launches", row->launches,
                     "threads", row->threads, "shared_bytes", row->least_shared_bytes, row->most_shared_bytes, "status",
                     status_of(row));
}

json_t *support_list_json(void)
{
    static struct table table;
    table.count = gen_supported_list(table.rows);
    json_t *list = json_array();
    for (size_t i = 0; i < table.count; i++)
        json_array_append_new(list, row_json(&table.rows[i]));
    return list;
}
