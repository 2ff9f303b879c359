/* Writes the seeds of fuzz_smlab into a folder: small bundle files, and some with one thing wrong. */
#include <stdlib.h>

#include "bytes.h"
#include "sample_smlab.h"

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
    static const char ptx[] = ".version 8.7\n.target sm_90a\n.visible .entry smla_sm90_prefill(\n)\n{ ret; }\n";
    struct rt_entry_info info = sample_info(1);
    struct rt_entry entry;

    info.key.kind = RT_KIND_PTX;
    if (rt_entry_write(&info, ptx, sizeof ptx, NULL, &entry) != SMLA_OK)
        abort();
    const struct sample_smlab smlab = sample_smlab_of(&entry, 1);

    rt_entry_free(&entry);
    return smlab;
}

int main(int argc, char **argv)
{
    struct sample_smlab smlab = sample_smlab_make(2);

    if (argc != 2)
        return 2;
    put_and_free(argv[1], "empty", sample_smlab_make(0));
    put_and_free(argv[1], "two_builders", of_two_builders());
    put_and_free(argv[1], "ptx", of_ptx());
    put(argv[1], "two", &smlab);
    sample_smlab_entry(&smlab, 1)[150] ^= 1;
    put(argv[1], "damaged_entry", &smlab);
    smlab.size -= 100;
    put(argv[1], "cut", &smlab);
    rt_put_le16(smlab.bytes + SMLAB_MAJOR, 2);
    put(argv[1], "newer_format", &smlab);
    free(smlab.bytes);
    return 0;
}
