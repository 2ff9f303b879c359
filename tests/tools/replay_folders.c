/* Runs a fuzz target without a fuzzer: each file of the folders named, and each file cut short or with one byte
 * changed at many places. usage: fuzz-… FOLDER... */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHANGES = 512 };

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

static int replay(const char *path)
{
    char why[FILE_WHY];
    uint8_t *bytes;
    size_t size;
    if (!file_read(path, &bytes, &size, why)) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    LLVMFuzzerTestOneInput(bytes, size);
    try_changes(bytes, size);
    free(bytes);
    return 0;
}

static int replay_folder(const char *folder)
{
    int failed = 0;
    int files = 0;
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        char path[1024];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        failed |= replay(path);
        files++;
    }
    if (directory != NULL)
        closedir(directory);
    printf("%s: %d files\n", folder, files);
    return failed || files == 0;
}

int main(int argc, char **argv)
{
    int failed = argc < 2;
    for (int i = 1; i < argc; i++)
        failed |= replay_folder(argv[i]);
    return failed;
}
