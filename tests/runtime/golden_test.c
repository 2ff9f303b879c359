/* Registers, spills, stack and shared memory of every compiled kernel with the pinned NVRTC, against a table in the
 * tree: a spill shows as a diff. Usage: runtime-golden-test TABLE; SMLA_UPDATE_GOLDEN=1 rewrites it. */
#include "harness.h"
#include "obtain.h"

enum { EXIT_SKIPPED = 77, TABLE_BYTES = 16384 };

static const char *const targets[] = {"90a", "100a", "100f", "103a", "103f"};

/* Kernels of the table, for each target that has such a kernel. The reference kernel is the same for every h_q. */
static const smla_kernel_desc rows[] = {
#define PREFILL(heads, width)                                                                                          \
    {                                                                                                                  \
        .op = SMLA_OP_PREFILL, .h_q = (heads), .d_qk = (width)                                                         \
    }
#define READING(heads, width, ...)                                                                                     \
    {                                                                                                                  \
        .op = SMLA_OP_PREFILL, .h_q = (heads), .d_qk = (width), __VA_ARGS__                                            \
    }
    PREFILL(64, 512),
    PREFILL(64, 576),
    PREFILL(80, 512),
    PREFILL(80, 576),
    PREFILL(128, 576),
    PREFILL(1, 512),
    PREFILL(1, 576),
    PREFILL(8, 512),
    PREFILL(8, 576),
    PREFILL(16, 512),
    PREFILL(16, 576),
    PREFILL(32, 512),
    PREFILL(32, 576),
    PREFILL(48, 512),
    PREFILL(48, 576),
    PREFILL(56, 512),
    PREFILL(56, 576),
    PREFILL(72, 512),
    /* formats */
    READING(64, 576, .kv_format = "v32"),
    READING(64, 512, .kv_format = "v32_norope"),
    READING(64, 512, .kv_format = "v4"),
    READING(64, 512, .kv_format = "v41"),
    READING(64, 512, .kv_format = "v41_planar"),
    READING(64, 512, .kv_format = "v41_fp4"),
    READING(64, 512, .kv_format = "v41_fp4_planar"),
    READING(64, 512, .kv_format = "hopper_fp4"),
    READING(64, 512, .kv_format = "v4", .extra_kv_format = "v4"),
    READING(64, 512, .kv_format = "v41", .extra_kv_format = "v41_fp4"),
    READING(64, 512, .kv_format = "v41_planar", .extra_kv_format = "v41_fp4_planar"),
    READING(64, 512, .kv_format = "bf16", .extra_kv_format = "bf16"),
    READING(64, 512, .kv_format = "bf16", .extra_kv_format = "v41"),
    READING(64, 576, .kv_format = "v32", .extra_kv_format = "v32"),
    READING(128, 576, .kv_format = "v32"),
    READING(8, 512, .kv_format = "v41"),
    READING(16, 576, .kv_format = "v32"),
    READING(32, 512, .kv_format = "v4", .extra_kv_format = "v4"),
    READING(48, 512, .kv_format = "v41", .extra_kv_format = "v41_fp4"),
    READING(56, 576, .kv_format = "v32", .extra_kv_format = "v32"),
    READING(32, 512, .kv_format = "bf16", .extra_kv_format = "bf16"),
    /* the check's registers are fewer than the kernel's: a line shows what compiling them together does */
    READING(64, 512, .flags = SMLA_KERNEL_CHECKED),
    READING(8, 576, .kv_format = "v32", .extra_kv_format = "v32", .flags = SMLA_KERNEL_CHECKED),
#undef PREFILL
#undef READING
    {.op = SMLA_OP_PREFILL_REFERENCE, .h_q = 64, .d_qk = 512},
    {.op = SMLA_OP_PREFILL_REFERENCE, .h_q = 128, .d_qk = 576},
    {.op = SMLA_OP_COMBINE, .h_q = 64},
    {.op = SMLA_OP_COMBINE, .h_q = 1},
};

struct table {
    char text[TABLE_BYTES];
    size_t size;
};

static void add_row(struct table *table, const struct rt_entry_info *info, const struct gen_plan *plan)
{
    table->size +=
        (size_t)snprintf(table->text + table->size, sizeof table->text - table->size, "%-64s %9d %7d %7d %13d %14d\n",
                         info->description, info->registers, info->spill_bytes, info->local_bytes,
                         info->static_shared_bytes, plan->variants[0].shared_bytes);
}

static smla_status add_kernel(smla_context *context, struct table *table, const smla_kernel_desc *desc)
{
    const struct rt_entry *entry;
    struct gen_refusal refusal;
    struct gen_bundle bundle;

    if (gen_bundle_make(desc, NULL, &bundle, &refusal) != SMLA_OK)
        return SMLA_OK;
    const smla_status status = rt_obtain(context, &bundle, RT_KIND_CUBIN, 0, &entry);
    if (status == SMLA_OK)
        add_row(table, &entry->info, &bundle.plan);
    gen_bundle_free(&bundle);
    return status;
}

static smla_status add_kernels(smla_context *context, struct table *table)
{
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        for (size_t target = 0; target < sizeof targets / sizeof targets[0]; target++) {
            smla_kernel_desc desc = rows[row];
            desc.struct_size = sizeof desc;
            desc.target = targets[target];
            const smla_status status = add_kernel(context, table, &desc);
            if (status != SMLA_OK)
                return status;
        }
    }
    return SMLA_OK;
}

/* The compiler that the numbers hold for; the first line of the table. */
static void add_compiler(smla_context *context, struct table *table)
{
    const struct rt_nvrtc *nvrtc = rt_context_open_nvrtc(context);
    char build[RT_DIGEST_HEX];

    rt_digest_hex(&nvrtc->builder.build_id, build);
    table->size = (size_t)snprintf(table->text, sizeof table->text, "# NVRTC %d.%d, build %.16s\n", nvrtc->major,
                                   nvrtc->minor, build);
    table->size += (size_t)snprintf(table->text + table->size, sizeof table->text - table->size,
                                    "# %-62s registers spilled   stack static_shared dynamic_shared\n", "kernel");
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

static int compare(const char *path, const struct table *now)
{
    struct table golden = {"", 0};

    if (getenv("SMLA_UPDATE_GOLDEN"))
        return write_table(path, now);
    if (read_table(path, &golden) == 0) {
        printf("no table %s: make it with SMLA_UPDATE_GOLDEN=1\n", path);
        return 1;
    }
    if (!same_first_line(golden.text, now->text)) {
        printf("SKIPPED: this is %.*s, the table is of %.*s\n", (int)strcspn(now->text, "\n"), now->text,
               (int)strcspn(golden.text, "\n"), golden.text);
        return EXIT_SKIPPED;
    }
    if (strcmp(golden.text, now->text) == 0)
        return 0;
    printf("%s differs (SMLA_UPDATE_GOLDEN=1 rewrites it). Now:\n%s\nIn the tree:\n%s", path, now->text, golden.text);
    return 1;
}

int main(int count, char **arguments)
{
    smla_context_desc desc = {.struct_size = sizeof desc, .cache_policy = SMLA_CACHE_OFF, .jit_policy = SMLA_JIT_ON};
    smla_context *context = NULL;
    struct table table = {"", 0}, kernels = {"", 0};
    int result = 1;

    if (count != 2 || smla_context_create(&desc, &context) != SMLA_OK)
        return 1;
    const smla_status status = add_kernels(context, &kernels);
    if (status == SMLA_OK) {
        add_compiler(context, &table);
        memcpy(table.text + table.size, kernels.text, kernels.size);
        table.size += kernels.size;
        table.text[table.size] = '\0';
        result = compare(arguments[1], &table);
    } else if (status == SMLA_ERROR_UNAVAILABLE) {
        printf("SKIPPED: %s\n", last_error().message);
        result = EXIT_SKIPPED;
    } else {
        printf("%s\n%s\n", last_error().message, last_error().log);
    }
    smla_context_destroy(context);
    return result;
}
