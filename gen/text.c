#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(struct gen_text *text)
{
    free(text->bytes);
    *text = (struct gen_text){.failed = true};
}

/* Makes room for `extra` more bytes and the NUL. */
static bool reserve(struct gen_text *text, size_t extra)
{
    if (text->failed)
        return false;
    size_t needed = text->size + extra + 1;
    if (needed <= text->capacity)
        return true;
    size_t capacity = text->capacity ? text->capacity : 4096;
    while (capacity < needed)
        capacity *= 2;
    char *bytes = realloc(text->bytes, capacity);
    if (!bytes) {
        fail(text);
        return false;
    }
    text->bytes = bytes;
    text->capacity = capacity;
    return true;
}

void gen_text_add(struct gen_text *text, const char *format, ...)
{
    va_list arguments;
    if (!reserve(text, 0))
        return;
    const size_t room = text->capacity - text->size;
    va_start(arguments, format);
    int size = vsnprintf(text->bytes + text->size, room, format, arguments);
    va_end(arguments);
    if (size < 0) {
        text->bytes[text->size] = '\0';
        return;
    }
    if ((size_t)size >= room) { /* it did not fit */
        if (!reserve(text, (size_t)size))
            return;
        va_start(arguments, format);
        vsnprintf(text->bytes + text->size, (size_t)size + 1, format, arguments);
        va_end(arguments);
    }
    text->size += (size_t)size;
}

void gen_text_add_bytes(struct gen_text *text, const char *bytes, size_t size)
{
    if (!reserve(text, size))
        return;
    memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
    text->bytes[text->size] = '\0';
}

void gen_text_add_string(struct gen_text *text, const char *string)
{
    gen_text_add_bytes(text, string, strlen(string));
}

void gen_text_add_number(struct gen_text *text, int32_t number)
{
    char digits[12];
    size_t at = sizeof digits;
    int64_t left = number < 0 ? -(int64_t)number : number;

    do
        digits[--at] = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (number < 0)
        digits[--at] = '-';
    gen_text_add_bytes(text, digits + at, sizeof digits - at);
}

void gen_text_free(struct gen_text *text)
{
    free(text->bytes);
    *text = (struct gen_text){0};
}
