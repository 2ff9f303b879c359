#include <string.h>

#include "cubin_check.h"
#include "why.h"

static bool is_word_end(char character)
{
    return strchr(" \t\r\n,;(", character) != NULL; /* the NUL counts */
}

/* Finds "directive word" with any blanks between, and nothing else sticking to the word. */
static bool has_directive(const char *text, const char *directive, const char *word)
{
    const size_t length = strlen(word);

    for (const char *at = strstr(text, directive); at != NULL; at = strstr(at, directive)) {
        at += strlen(directive);
        const char *operand = at + strspn(at, " \t\r\n");
        if (operand > at && strncmp(operand, word, length) == 0 && is_word_end(operand[length]))
            return true;
    }
    return false;
}

bool rt_ptx_check(const void *bytes, size_t size_bytes, const char *arch, const char *symbol, char why[256])
{
    if (memchr(bytes, '\0', size_bytes) == NULL)
        return rt_refuse(why, "PTX that does not end in a NUL within %zu bytes", size_bytes);
    if (!has_directive(bytes, ".target", arch))
        return rt_refuse(why, "PTX without .target %s", arch);
    if (!has_directive(bytes, ".entry", symbol))
        return rt_refuse(why, "PTX without .entry %s", symbol);
    return true;
}
