/* Makes a kernel of a cache folder one that faults: each return of an entry's PTX becomes a trap. The entry is sound in
 * itself afterwards.
 *
 * usage: spoil_entry FILE.smk */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "entry.h"

static const char return_text[] = "ret;", trap_text[] = "trap;";

static bool read_entry(const char *path, struct rt_entry *entry)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(RT_ENTRY_MAX_BYTES);
    char why[256] = "it cannot be read";
    const size_t size = file && bytes ? fread(bytes, 1, RT_ENTRY_MAX_BYTES, file) : 0;
    if (file)
        fclose(file);
    if (rt_entry_read(bytes, size, NULL, entry, why)) /* which takes the bytes */
        return true;
    fprintf(stderr, "spoil_entry: %s: %s\n", path, why);
    return false;
}

/* The caller frees. NULL when it returns nowhere, or memory is out. */
static char *spoil(const struct rt_entry *entry)
{
    const char *from = (const char *)entry->payload, *found;
    char *spoiled = malloc(2 * entry->payload_size), *to = spoiled;
    int count = 0;
    while (spoiled && (found = strstr(from, return_text)) != NULL) {
        memcpy(to, from, (size_t)(found - from));
        to += found - from;
        memcpy(to, trap_text, sizeof trap_text - 1);
        to += sizeof trap_text - 1;
        from = found + sizeof return_text - 1;
        count++;
    }
    if (count > 0)
        strcpy(to, from);
    else
        free(spoiled);
    return count > 0 ? spoiled : NULL;
}

static bool write_file(const char *path, const struct rt_entry *entry)
{
    FILE *file = fopen(path, "wb");
    const bool written = file && fwrite(entry->file, 1, entry->file_size, file) == entry->file_size;
    return file && fclose(file) == 0 && written;
}

int main(int argc, char **argv)
{
    struct rt_entry entry, spoiled;
    if (argc != 2 || !read_entry(argv[1], &entry))
        return 2;
    char *ptx = spoil(&entry);
    bool ok = ptx != NULL && rt_entry_write(&entry.info, ptx, strlen(ptx) + 1, NULL, &spoiled) == SMLA_OK;
    if (ok) {
        ok = write_file(argv[1], &spoiled);
        rt_entry_free(&spoiled);
    }
    free(ptx);
    rt_entry_free(&entry);
    return ok ? 0 : 1;
}
