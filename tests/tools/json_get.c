/* Reads JSON from stdin and prints the value at each path: "tensors.out.failed", "0.path"; "#" is a length.
 * Exit 1 when it is no JSON or a path leads nowhere. For the command-line tests. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const json_t *step(const json_t *at, const char *key)
{
    return json_is_array(at) ? json_array_get(at, (size_t)strtoul(key, NULL, 10)) : json_object_get(at, key);
}

static int print_size(const json_t *at)
{
    return printf("%zu\n", json_is_array(at) ? json_array_size(at) : json_object_size(at)) < 0;
}

static int print_path(const json_t *at, char *path)
{
    for (char *key = strtok(path, "."); key != NULL && at != NULL; key = strtok(NULL, ".")) {
        if (strcmp(key, "#") == 0)
            return print_size(at);
        at = step(at, key);
    }
    if (json_is_string(at))
        return puts(json_string_value(at)) < 0;
    return at == NULL || json_dumpf(at, stdout, JSON_ENCODE_ANY) != 0 || putchar('\n') == EOF;
}

int main(int argc, char **argv)
{
    json_error_t error;
    json_t *root = json_loadf(stdin, 0, &error);
    int failed = root == NULL;
    for (int i = 1; i < argc && root != NULL; i++)
        failed |= print_path(root, argv[i]);
    json_decref(root);
    return failed;
}
