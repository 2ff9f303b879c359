#include "cache_marker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "digest.h"
#include "host_file.h"

enum { MARKER_FORMAT = 1 };

/* malloc'd; NULL when there is no memory. */
static char *marker_path(const char *folder)
{
    const size_t size = strlen(folder) + sizeof CACHE_MARKER_NAME + 1;
    char *path = malloc(size);
    if (path != NULL)
        snprintf(path, size, "%s/%s", folder, CACHE_MARKER_NAME);
    return path;
}

static int no_memory(void)
{
    return cli_fail(CLI_CHECK_FAILED, "out of memory");
}

/* ---- What it says ---- */

static int compare_texts(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* The strings in order, each once, so that the same list gives the same bytes. NULL: no memory. */
static json_t *sorted(const json_t *texts)
{
    const size_t count = json_array_size(texts);
    const char **order = calloc(count + 1, sizeof *order);
    json_t *result = json_array();
    for (size_t i = 0; order != NULL && i < count; i++)
        order[i] = json_string_value(json_array_get(texts, i));
    if (order != NULL)
        qsort(order, count, sizeof *order, compare_texts);
    bool ok = order != NULL && result != NULL;
    for (size_t i = 0; ok && i < count; i++)
        if (i == 0 || strcmp(order[i], order[i - 1]) != 0)
            ok = json_array_append_new(result, json_string(order[i])) == 0;
    free(order);
    if (ok)
        return result;
    json_decref(result);
    return NULL;
}

/* What `b2sum -l 256` prints of a file. */
static bool add_digest(json_t *digests, const char *path)
{
    char why[FILE_WHY];
    char hex[RT_DIGEST_HEX];
    struct rt_digest digest;
    uint8_t *bytes;
    size_t size_bytes;
    if (!file_read(path, &bytes, &size_bytes, why)) {
        cli_fail(0, "%s", why);
        return false;
    }
    rt_digest_of(bytes, size_bytes, &digest);
    rt_digest_hex(&digest, hex);
    free(bytes);
    return json_array_append_new(digests, json_string(hex)) == 0;
}

json_t *cache_marker_make(const struct shapes_options *shapes, const json_t *targets, const json_t *kernel_ids)
{
    json_t *digests = json_array();
    bool ok = digests != NULL;
    for (size_t i = 0; ok && i < shapes->from_count; i++)
        ok = add_digest(digests, shapes->from[i]);
    json_t *marker =
        !ok ? NULL
            : json_pack("{s:i, s:s, s:o, s:o, s:o}", "format", MARKER_FORMAT, "smla", smla_version(), "lists",
                        sorted(digests), "targets", sorted(targets), "kernels", sorted(kernel_ids));
    json_decref(digests);
    if (marker == NULL)
        cli_fail(0, "the list of kernels for %s could not be made", CACHE_MARKER_NAME);
    return marker;
}

bool cache_marker_add_compilers(json_t *marker, const json_t *versions)
{
    return json_object_set_new(marker, "nvrtc", sorted(versions)) == 0;
}

/* ---- The file ---- */

bool cache_marker_is(const char *folder, const json_t *marker)
{
    char *path = marker_path(folder);
    json_t *found = path == NULL ? NULL : json_load_file(path, 0, NULL);
    if (json_object_get(marker, "nvrtc") == NULL)
        json_object_del(found, "nvrtc");
    const bool same = found != NULL && json_equal(found, marker);
    json_decref(found);
    free(path);
    return same;
}

int cache_marker_remove(const char *folder)
{
    char *path = marker_path(folder);
    if (path == NULL)
        return no_memory();
    int code = CLI_FINE;
    /* Looked for first: on a read-only file system unlink says so of what is not there too. */
    if (access(path, F_OK) == 0 && unlink(path) != 0 && errno != ENOENT)
        code = cli_fail(CLI_USAGE, "cannot remove '%s', which is not true any more: %s", path, strerror(errno));
    free(path);
    return code;
}

int cache_marker_write(const char *folder, const json_t *marker)
{
    char why[FILE_WHY];
    if (cache_marker_is(folder, marker))
        return CLI_FINE;
    char *path = marker_path(folder);
    char *text = json_dumps(marker, JSON_INDENT(2));
    int code = CLI_FINE;
    if (path == NULL || text == NULL) {
        code = no_memory();
    } else {
        const size_t size = strlen(text);
        text[size] = '\n'; /* in the place of the NUL */
        if (!file_write(path, text, size + 1, why))
            code = cli_fail(CLI_USAGE, "%s", why);
    }
    free(text);
    free(path);
    return code;
}
