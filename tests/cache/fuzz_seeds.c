/* Writes the seeds of fuzz-entry into a folder: small cache entries, and one of real code; and those of fuzz-smlab into
 * another: small bundle files, and some with one thing wrong. usage: fuzz_seeds ENTRIES BUNDLES */
#include <stdio.h>
#include <stdlib.h>

#include "bytes.h"
#include "sample_smlab.h"

static const char small_ptx[] = ".version 8.7\n.target sm_90a\n.visible .entry smla_sm90_prefill(\n)\n{ ret; }\n";

/* ---- Entries ---- */

static struct rt_entry entry_with(enum rt_kind kind, const void *code, size_t size, const char *symbol, const char *log)
{
    struct rt_entry_info info = sample_info(1);
    struct rt_entry entry;

    info.key.kind = kind;
    snprintf(info.entry_symbol, sizeof info.entry_symbol, "%s", symbol);
    if (rt_entry_write(&info, code, size, log, &entry) != SMLA_OK)
        abort();
    return entry;
}

static struct rt_entry entry_of_ptx(void)
{
    return entry_with(RT_KIND_PTX, small_ptx, sizeof small_ptx, "smla_sm90_prefill", NULL);
}

static struct rt_entry entry_of_real_code(void)
{
    size_t size;
    char *path = sample_path(SMLA_TEST_DATA, "nvrtc-12.8-sm_90a.cubin");
    uint8_t *cubin = sample_file_read(path, &size);
    const struct rt_entry entry = entry_with(RT_KIND_CUBIN, cubin, size, "my_kernel", "ptxas info");

    free(cubin);
    free(path);
    return entry;
}

static void put_entry(const char *folder, const char *name, struct rt_entry entry)
{
    char *path = sample_path(folder, name);

    sample_file_write(path, entry.file, entry.file_size);
    free(path);
    rt_entry_free(&entry);
}

static void put_entries(const char *folder)
{
    put_entry(folder, "cubin", sample_entry(1));
    put_entry(folder, "ptx", entry_of_ptx());
    put_entry(folder, "real_cubin", entry_of_real_code());
}

/* ---- Bundles ---- */

static void put(const char *folder, const char *name, const struct sample_smlab *smlab)
{
    char *path = sample_path(folder, name);

    sample_file_write(path, smlab->bytes, smlab->size);
    free(path);
}

static void put_and_free(const char *folder, const char *name, struct sample_smlab smlab)
{
    put(folder, name, &smlab);
    free(smlab.bytes);
}

static struct sample_smlab of_two_builders(void)
{
    struct rt_entry entries[] = {sample_entry_by(1, 12, 8), sample_entry_by(1, 13, 0)};
    const struct sample_smlab smlab = sample_smlab_of(entries, 2);

    rt_entry_free(&entries[0]);
    rt_entry_free(&entries[1]);
    return smlab;
}

static struct sample_smlab of_ptx(void)
{
    struct rt_entry entry = entry_of_ptx();
    const struct sample_smlab smlab = sample_smlab_of(&entry, 1);

    rt_entry_free(&entry);
    return smlab;
}

static void put_bundles(const char *folder)
{
    struct sample_smlab smlab = sample_smlab_make(2);

    put_and_free(folder, "empty", sample_smlab_make(0));
    put_and_free(folder, "two_builders", of_two_builders());
    put_and_free(folder, "ptx", of_ptx());
    put(folder, "two", &smlab);
    sample_smlab_entry(&smlab, 1)[150] ^= 1;
    put(folder, "damaged_entry", &smlab);
    smlab.size -= 100;
    put(folder, "cut", &smlab);
    rt_put_le16(smlab.bytes + SMLAB_MAJOR, 2);
    put(folder, "newer_format", &smlab);
    free(smlab.bytes);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    put_entries(argv[1]);
    put_bundles(argv[2]);
    return 0;
}
