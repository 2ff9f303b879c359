#include "gen_smlab.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "context.h"
#include "smlab_write.h"

/* What the contexts' stores hold: every image that a description needs, whatever their number. */
static int check_again(const char *path, const struct rt_entry *entries, size_t count, smla_context *second)
{
    struct rt_entry *again = NULL;
    uint8_t *bytes = NULL, *bytes_again = NULL;
    size_t count_again, size = 0, size_again = 0;
    const bool built = rt_store_list(&second->store, &again, &count_again) == SMLA_OK &&
                       rt_smlab_build(entries, count, &bytes, &size) == SMLA_OK &&
                       rt_smlab_build(again, count_again, &bytes_again, &size_again) == SMLA_OK;
    const bool same = built && size == size_again && memcmp(bytes, bytes_again, size) == 0;
    free(again);
    free(bytes);
    free(bytes_again);
    if (!built)
        return cli_smla_error(path);
    return same ? CLI_FINE
                : cli_fail(CLI_CHECK_FAILED, "%s: a second compilation gave another bundle (%zu and %zu bytes)", path,
                           size, size_again);
}

int gen_smlab(const char *path, smla_context *context, smla_context *second)
{
    struct rt_entry *entries;
    size_t count, size_bytes;
    if (rt_store_list(&context->store, &entries, &count) != SMLA_OK)
        return cli_smla_error(path);
    int code = second != NULL ? check_again(path, entries, count, second) : CLI_FINE;
    if (code == CLI_FINE)
        code = smlab_write(path, entries, count, &size_bytes);
    free(entries);
    return code;
}
