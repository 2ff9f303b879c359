/* Registers, spills, stack and shared memory of compiled kernels, against a table in the tree for each pinned NVRTC: a
 * spill fails, any other change shows as a diff. Rows are keyed by the digest of what is compiled: those whose digest
 * is the table's are taken as they are, but for a sample; what changed is compiled. A target that the NVRTC does not
 * know has a row that says so.
 *
 * Usage: runtime-golden-test TABLE [sample [PART]]; SMLA_UPDATE_GOLDEN=1 rewrites it, SMLA_GOLDEN_FULL=1 compiles every
 * row. tools/golden-kernels rewrites all tables.
 *
 * With "sample" a fixed time is enough: a row that the table lacks fails uncompiled, and a spill that the table has is
 * no failure. The sample, from the table's end to its beginning, is each row with a trait that no row before it has: of
 * its operator the kernel and d_qk, the pair of formats, the target, each flag. PART (1 to 3) is each third row of it:
 * the tables of three NVRTCs try all of it between them. */
#include "describe.h"
#include "harness.h"
#include "obtain.h"

enum {
    EXIT_SKIPPED = 77,
    TABLE_BYTES = 1 << 17,
    LINE_BYTES = 256,
    SAMPLE_EVERY = 10,
    SAMPLE_PARTS = 3,
    DIGEST_SHOWN = 16,
    MOST_ROWS = 512,
    TRAITS_BYTES = RT_DESCRIPTION_BYTES + 64
};

static const char *const targets[] = {"90a", "100a", "100f", "103a", "103f"};

/* Heads that stand for all: each count that a matrix tile of sm_90 comes in, and some between. */
static const int32_t heads[] = {1, 6, 8, 16, 24, 32, 40, 48, 56, 64, 66, 72, 80, 128};
static const int32_t heads_of_two[] = {8, 16, 40, 48, 64, 128};
static const int32_t decode_heads[] = {8, 40, 56, 64, 72, 128};
static const int32_t decode_heads_of_two[] = {16, 64};

static const struct format_row {
    int32_t d_qk;
    const char *kv_format, *extra_kv_format;
} formats[] = {
    {512, NULL, NULL},         {576, NULL, NULL},       {576, "v32", NULL},
    {512, "v32_norope", NULL}, {512, "v4", NULL},       {512, "v41", NULL},
    {512, "v41_planar", NULL}, {512, "v41_fp4", NULL},  {512, "v41_fp4_planar", NULL},
    {512, "hopper_fp4", NULL}, {512, "bf16", "bf16"},   {512, "bf16", "v41"},
    {512, "v4", "v4"},         {512, "v41", "v41_fp4"}, {512, "v41_planar", "v41_fp4_planar"},
    {512, "v41_fp4", "bf16"},  {576, "v32", "v32"},     {576, "bf16", "v32"},
};

/* The others, for each target that has such a kernel. The reference kernel is the same for every h_q. */
static const smla_kernel_desc others[] = {
    {.op = SMLA_OP_PREFILL, .h_q = 64, .d_qk = 512, .flags = SMLA_KERNEL_CHECKED},
    {.op = SMLA_OP_PREFILL, .h_q = 64, .d_qk = 512, .flags = SMLA_KERNEL_NOT_PERSISTENT},
    {.op = SMLA_OP_PREFILL, .h_q = 128, .d_qk = 512, .flags = SMLA_KERNEL_NOT_PERSISTENT},
    {.op = SMLA_OP_PREFILL, .h_q = 64, .d_qk = 512, .flags = SMLA_KERNEL_NOT_PERSISTENT | SMLA_KERNEL_CHECKED},
    {.op = SMLA_OP_PREFILL, .h_q = 8, .d_qk = 576, .kv_format = "v32", .flags = SMLA_KERNEL_CHECKED},
    {.op = SMLA_OP_PREFILL_REFERENCE, .h_q = 64, .d_qk = 512},
    {.op = SMLA_OP_PREFILL_REFERENCE, .h_q = 128, .d_qk = 576},
    {.op = SMLA_OP_COMBINE, .h_q = 64},
    {.op = SMLA_OP_COMBINE, .h_q = 1},
    {.op = SMLA_OP_DECODE, .h_q = 16, .d_qk = 512, .kv_format = "v4", .batch_invariant = 1},
    {.op = SMLA_OP_DECODE, .h_q = 128, .d_qk = 576, .kv_format = "v32", .batch_invariant = 1},
};

struct table {
    char text[TABLE_BYTES];
    size_t size;
};

/* What a run does, and has so far. */
struct run {
    smla_context *context;
    struct table golden, now;
    bool update, full, sample;
    int part;     /* of the sample; 0: all of it */
    bool listing; /* all rows, before any is compiled */
    int rows, compiled, refused, spilled, missing;
    struct {
        char text[TRAITS_BYTES];
        bool sampled;
    } traits[MOST_ROWS];
};

/* The table's line that begins so, NULL when there is none. */
static const char *find_line(const struct table *table, const char *beginning)
{
    const size_t length = strlen(beginning);

    for (const char *line = table->text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (strncmp(line, beginning, length) == 0)
            return line;
    return NULL;
}

static void add_line(struct run *run, const char *line, size_t length)
{
    run->now.size += (size_t)snprintf(run->now.text + run->now.size, sizeof run->now.text - run->now.size, "%.*s\n",
                                      (int)length, line);
}

/* Decode over bf16 keys of 576 columns beside quantised ones: what both ways of filling a slot keep is two registers
 * more than there are; ptxas spills them where an item begins. Prefill of one block of heads over keys of 576 columns:
 * 160 registers of an output warpgroup are too few between units (with two blocks of heads they are enough); it was
 * measured so (docs/performance.md, "Keys of 576"). */
static int allowed_stack_bytes(const struct gen_spec *spec)
{
    const bool mixed = spec->has_extra_kv &&
                       (spec->kv.value_type == SMLA_VALUE_BF16) != (spec->extra_kv.value_type == SMLA_VALUE_BF16);
    const bool is_bf16 = spec->kv.value_type == SMLA_VALUE_BF16 && !spec->has_extra_kv;

    if (spec->op == SMLA_OP_DECODE && mixed && spec->d_qk == 576 && spec->h_q > 48)
        return 8;
    return spec->op == SMLA_OP_PREFILL && is_bf16 && spec->d_qk == 576 && spec->h_q >= 57 && spec->h_q <= 64 ? 64 : 0;
}

/* The row of a target that this NVRTC is too old for. False: it failed for another reason. */
static bool add_refused(struct run *run, const struct gen_target *target, const char *beginning)
{
    char reason[LINE_BYTES / 4], line[LINE_BYTES];

    snprintf(reason, sizeof reason, "needs NVRTC %d.%d", target->nvrtc_major, target->nvrtc_minor);
    if (strstr(last_error().message, reason) == NULL)
        return false;
    snprintf(line, sizeof line, "%s   refused: %s", beginning, reason);
    add_line(run, line, strlen(line));
    run->refused++;
    return true;
}

static smla_status compile_row(struct run *run, const struct gen_bundle *bundle, const char *beginning)
{
    const struct rt_entry *entry;
    const smla_status status = rt_obtain(run->context, bundle, RT_KIND_CUBIN, 0, &entry);
    char line[LINE_BYTES];

    if (status == SMLA_ERROR_UNAVAILABLE && add_refused(run, bundle->spec.target, beginning))
        return SMLA_OK;
    if (status != SMLA_OK)
        return status;
    snprintf(line, sizeof line, "%s %9d %7d %7d %13d %14d", beginning, entry->info.registers, entry->info.spill_bytes,
             entry->info.local_bytes, entry->info.static_shared_bytes, bundle->plan.variants[0].shared_bytes);
    add_line(run, line, strlen(line));
    run->compiled++;
    const int allowed = allowed_stack_bytes(&bundle->spec);
    if (entry->info.local_bytes > allowed || (allowed == 0 && entry->info.spill_bytes != 0)) {
        printf("spills or has a stack: %s\n", line);
        run->spilled++;
    }
    return SMLA_OK;
}

/* What the sample shall have at least once of the row's operator: the words of its description but for the heads. */
static void list_traits(struct run *run, const struct gen_bundle *bundle)
{
    char text[RT_DESCRIPTION_BYTES], *traits = run->traits[run->rows].text, *rest;
    size_t size = 0;

    assert_true(run->rows < MOST_ROWS);
    rt_describe(&bundle->spec, text);
    for (const char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        if (strncmp(word, "h_q=", 4) == 0)
            continue;
        const char *kernel = strncmp(word, "d_qk=", 5) == 0 ? bundle->plan.kernel : "";
        const char *between = size ? " " : "";
        if (strncmp(word, "extra_kv=", 9) == 0) { /* one trait with the first cache's format */
            between = "+";
            word += 9;
        }
        size += (size_t)snprintf(traits + size, TRAITS_BYTES - size, "%s%s%s", between, kernel, word);
    }
    run->rows++;
}

static bool has_word(const char *text, const char *word, size_t length)
{
    for (const char *at = text; at; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, word, length) == 0 && (at[length] == ' ' || at[length] == '\0'))
            return true;
    }
    return false;
}

/* Whether a row of the sample behind `row` has the word with the same operator. */
static bool is_shown(const struct run *run, int row, const char *word, size_t length)
{
    const char *traits = run->traits[row].text;
    const size_t operator_length = strcspn(traits, " ");

    for (int i = row + 1; i < run->rows; i++)
        if (run->traits[i].sampled && strncmp(run->traits[i].text, traits, operator_length + 1) == 0 &&
            has_word(run->traits[i].text, word, length))
            return true;
    return false;
}

static void choose_sample(struct run *run)
{
    for (int row = run->rows - 1; row >= 0; row--)
        for (const char *word = run->traits[row].text; *word; word += strcspn(word, " "), word += *word == ' ')
            if (!is_shown(run, row, word, strcspn(word, " ")))
                run->traits[row].sampled = true;
}

static void keep_part(struct run *run)
{
    for (int row = 0, sampled = 0; row < run->rows; row++)
        if (run->traits[row].sampled)
            run->traits[row].sampled = run->part == 0 || sampled++ % SAMPLE_PARTS == run->part - 1;
}

static bool is_compiled(const struct run *run, const char *known)
{
    if (run->full || (run->update && known == NULL))
        return true;
    if (run->sample)
        return known != NULL && run->traits[run->rows].sampled;
    return known == NULL || run->rows % SAMPLE_EVERY == 0;
}

static void add_uncompiled(struct run *run, const char *known, const char *beginning)
{
    add_line(run, known ? known : beginning, strcspn(known ? known : beginning, "\n"));
    run->missing += known == NULL;
}

static smla_status add_bundle(struct run *run, const struct gen_bundle *bundle)
{
    char text[RT_DESCRIPTION_BYTES], digest[RT_DIGEST_HEX], beginning[LINE_BYTES / 2 + 32];
    struct rt_key key;
    smla_status status = rt_key_make(bundle, RT_KIND_CUBIN, &key);

    if (run->listing)
        list_traits(run, bundle);
    if (status != SMLA_OK || run->listing)
        return status;
    rt_describe(&bundle->spec, text);
    rt_digest_hex(&key.kernel_id, digest);
    snprintf(beginning, sizeof beginning, "%-88.110s %.*s", text, DIGEST_SHOWN, digest);
    const char *known = find_line(&run->golden, beginning);
    if (is_compiled(run, known))
        status = compile_row(run, bundle, beginning);
    else
        add_uncompiled(run, known, beginning);
    run->rows++;
    return status;
}

/* All tiles of a width compile to the same but for constants. */
static bool shows_companion(const struct gen_bundle *bundle)
{
    const int32_t h_q = bundle->spec.h_q;
    return bundle->plan.companion.tile_heads > 0 && (h_q == 16 || h_q == 40 || h_q == 64);
}

static smla_status add_kernel(struct run *run, const smla_kernel_desc *desc)
{
    struct gen_refusal refusal;
    struct gen_bundle bundle, companion;

    if (gen_bundle_make(desc, NULL, &bundle, &refusal) != SMLA_OK)
        return SMLA_OK; /* a target without a kernel of that operator */
    smla_status status = add_bundle(run, &bundle);
    if (status == SMLA_OK && shows_companion(&bundle)) {
        status = gen_bundle_make_companion(&bundle, &companion, &refusal);
        if (status == SMLA_OK) {
            status = add_bundle(run, &companion);
            gen_bundle_free(&companion);
        }
    }
    gen_bundle_free(&bundle);
    return status;
}

static smla_status add_heads(struct run *run, uint32_t op, const struct format_row *format, const int32_t *list,
                             size_t count)
{
    smla_status status = SMLA_OK;

    for (size_t i = 0; status == SMLA_OK && i < count; i++) {
        const smla_kernel_desc desc = {.struct_size = sizeof desc,
                                       .op = op,
                                       .h_q = list[i],
                                       .d_qk = format->d_qk,
                                       .kv_format = format->kv_format,
                                       .extra_kv_format = format->extra_kv_format,
                                       .target = "90a"};
        status = add_kernel(run, &desc);
    }
    return status;
}

static smla_status add_formats(struct run *run, uint32_t op, const struct format_row *format)
{
    const bool two = format->extra_kv_format != NULL, decode = op == SMLA_OP_DECODE;

    if (decode && two)
        return add_heads(run, op, format, decode_heads_of_two, sizeof decode_heads_of_two / sizeof(int32_t));
    if (decode)
        return add_heads(run, op, format, decode_heads, sizeof decode_heads / sizeof(int32_t));
    return two ? add_heads(run, op, format, heads_of_two, sizeof heads_of_two / sizeof(int32_t))
               : add_heads(run, op, format, heads, sizeof heads / sizeof(int32_t));
}

static smla_status add_kernels(struct run *run)
{
    smla_status status = SMLA_OK;

    for (size_t i = 0; status == SMLA_OK && i < sizeof formats / sizeof formats[0]; i++)
        status = add_formats(run, SMLA_OP_PREFILL, &formats[i]);
    for (size_t i = 0; status == SMLA_OK && i < sizeof formats / sizeof formats[0]; i++)
        status = add_formats(run, SMLA_OP_DECODE, &formats[i]);
    for (size_t i = 0; status == SMLA_OK && i < sizeof others / sizeof others[0]; i++)
        for (size_t target = 0; status == SMLA_OK && target < sizeof targets / sizeof targets[0]; target++) {
            smla_kernel_desc desc = others[i];
            desc.struct_size = sizeof desc;
            desc.target = targets[target];
            status = add_kernel(run, &desc);
        }
    return status;
}

static smla_status list_rows(struct run *run)
{
    run->listing = true;
    const smla_status status = add_kernels(run);
    run->listing = false;
    choose_sample(run);
    keep_part(run);
    run->rows = 0;
    return status;
}

/* The compiler that the numbers hold for; the first line of the table. */
static bool add_compiler(struct run *run)
{
    const struct rt_nvrtc *nvrtc;
    char build[RT_DIGEST_HEX], line[LINE_BYTES];

    if (rt_context_nvrtc(run->context, gen_target_find(targets[0]), 0, &nvrtc) != SMLA_OK)
        return false;
    rt_digest_hex(&nvrtc->builder.build_id, build);
    snprintf(line, sizeof line, "# NVRTC %d.%d, build %.16s", nvrtc->major, nvrtc->minor, build);
    add_line(run, line, strlen(line));
    snprintf(line, sizeof line, "# %-86s %-16s registers spilled   stack static_shared dynamic_shared", "kernel",
             "digest");
    add_line(run, line, strlen(line));
    return true;
}

static size_t read_table(const char *path, struct table *table)
{
    FILE *file = fopen(path, "r");

    if (file == NULL)
        return 0;
    table->size = fread(table->text, 1, sizeof table->text - 1, file);
    table->text[table->size] = '\0';
    fclose(file);
    return table->size;
}

static int write_table(const char *path, const struct table *table)
{
    FILE *file = fopen(path, "w");

    if (file == NULL || fwrite(table->text, 1, table->size, file) != table->size || fclose(file) != 0) {
        perror(path);
        return 1;
    }
    printf("wrote %s\n", path);
    return 0;
}

static bool same_first_line(const char *a, const char *b)
{
    const size_t length = strcspn(a, "\n");

    return length == strcspn(b, "\n") && memcmp(a, b, length) == 0;
}

static int compare(const char *path, const struct run *run)
{
    if (run->update)
        return write_table(path, &run->now);
    if (strcmp(run->golden.text, run->now.text) == 0)
        return run->spilled != 0 && !run->sample;
    printf("%s differs, %d kernels are not in it (tools/golden-kernels rewrites it). Now:\n%s", path, run->missing,
           run->now.text);
    return 1;
}

static int check(struct run *run, const char *path)
{
    if (!add_compiler(run)) {
        printf("SKIPPED: %s\n", last_error().message);
        return EXIT_SKIPPED;
    }
    const bool same = read_table(path, &run->golden) == 0 || same_first_line(run->golden.text, run->now.text);
    if (!same && !run->update) {
        printf("SKIPPED: this is %.*s, the table is of %.*s\n", (int)strcspn(run->now.text, "\n"), run->now.text,
               (int)strcspn(run->golden.text, "\n"), run->golden.text);
        return run->sample ? 1 : EXIT_SKIPPED; /* the sample's NVRTC was chosen for the table */
    }
    if (!same)
        run->golden = (struct table){.size = 0};
    if (list_rows(run) != SMLA_OK || add_kernels(run) != SMLA_OK) {
        printf("%s\n%s\n", last_error().message, last_error().log);
        return 1;
    }
    printf("%d kernels, %d of them compiled now, %d refused, %d with a spill or a stack\n", run->rows, run->compiled,
           run->refused, run->spilled);
    return compare(path, run);
}

int main(int count, char **arguments)
{
    static struct run run;
    smla_context_desc desc = {.struct_size = sizeof desc, .cache_policy = SMLA_CACHE_OFF, .jit_policy = SMLA_JIT_ON};

    run.full = getenv("SMLA_GOLDEN_FULL") != NULL;
    run.update = getenv("SMLA_UPDATE_GOLDEN") != NULL;
    run.sample = count >= 3 && strcmp(arguments[2], "sample") == 0;
    run.part = run.sample && count == 4 ? atoi(arguments[3]) : 0;
    if (count != 2 + run.sample + (run.part > 0) || run.part > SAMPLE_PARTS ||
        smla_context_create(&desc, &run.context) != SMLA_OK)
        return 1;
    const int result = check(&run, arguments[1]);
    smla_context_destroy(run.context);
    return result;
}
