/* Runs a fuzz target without a fuzzer: each file of a folder, and each cut short or with one bit changed at many
 * places; and each file in found/ below it, where what a fuzzer found lies, as it is. usage: fuzz-… FOLDER */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHANGES = 512 };

#define FOUND "found"

static void try_changes(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size + 1);
    if (copy == NULL)
        abort();
    const size_t step = size / CHANGES + 1;
    for (size_t at = 0; at < size; at += step) {
        memcpy(copy, bytes, size);
        LLVMFuzzerTestOneInput(copy, at);
        for (int bit = 0; bit < 8; bit++) {
            copy[at] = (uint8_t)(bytes[at] ^ (1u << bit));
            LLVMFuzzerTestOneInput(copy, size);
        }
    }
    free(copy);
}

static int replay(const char *path, bool changed)
{
    char why[FILE_WHY];
    uint8_t *bytes;
    size_t size;
    if (!file_read(path, &bytes, &size, why)) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    LLVMFuzzerTestOneInput(bytes, size);
    if (changed)
        try_changes(bytes, size);
    free(bytes);
    return 0;
}

/* A folder that is not there has no files. */
static int replay_folder(const char *folder, bool changed, int *files)
{
    int failed = 0;
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        char path[1024];
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, FOUND) == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        failed |= replay(path, changed);
        ++*files;
    }
    if (directory != NULL)
        closedir(directory);
    return failed;
}

int main(int argc, char **argv)
{
    char found[1024];
    int seeds = 0, found_files = 0;
    if (argc != 2)
        return 2;
    snprintf(found, sizeof found, "%s/" FOUND, argv[1]);
    const int failed = replay_folder(argv[1], true, &seeds) | replay_folder(found, false, &found_files);
    printf("%s: %d files, and %d that a fuzzer found\n", argv[1], seeds, found_files);
    return failed || seeds == 0;
}
