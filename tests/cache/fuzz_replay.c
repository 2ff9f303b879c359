/* Runs a libFuzzer target without libFuzzer: on the files named, and on changes of a sound entry drawn from a fixed
 * seed. `fuzz_replay --write FOLDER` writes sound entries to start a real fuzzer from. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHANGES = 20000 };

/* xorshift64: the same sequence everywhere. */
static uint64_t draw(void)
{
    static uint64_t state = 0x9e3779b97f4a7c15;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Overwrites a few bytes, of which interesting values are frequent, and sometimes cuts the end. */
static void run_changed(const struct rt_entry *entry)
{
    static const uint8_t interesting[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    uint8_t *copy = sample_copy(entry->file, entry->file_size);
    const size_t size = draw() % 4 == 0 ? draw() % entry->file_size : entry->file_size;

    for (uint64_t changes = draw() % 8; changes > 0; changes--) {
        const uint64_t value = draw();

        copy[draw() % entry->file_size] = value % 2 == 0 ? (uint8_t)(value >> 8) : interesting[value % 5];
    }
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static int write_seeds(const char *folder)
{
    for (uint8_t seed = 0; seed < 3; seed++) {
        char name[32];
        struct rt_entry entry = sample_entry(seed);
        char *path;

        snprintf(name, sizeof name, "sound-%u.smk", seed);
        path = sample_path(folder, name);
        sample_file_write(path, entry.file, entry.file_size);
        free(path);
        rt_entry_free(&entry);
    }
    return 0;
}

static void run_file(const char *path)
{
    size_t size;
    uint8_t *bytes = sample_file_read(path, &size);

    LLVMFuzzerTestOneInput(bytes, size);
    free(bytes);
}

int main(int argc, char **argv)
{
    struct rt_entry entry = sample_entry(1);

    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        rt_entry_free(&entry);
        return write_seeds(argv[2]);
    }
    for (int i = 1; i < argc; i++)
        run_file(argv[i]);
    LLVMFuzzerTestOneInput(entry.file, 0);
    LLVMFuzzerTestOneInput(entry.file, entry.file_size);
    for (int i = 0; i < CHANGES; i++)
        run_changed(&entry);
    printf("%d files and %d changed entries\n", argc - 1, CHANGES);
    rt_entry_free(&entry);
    return 0;
}
