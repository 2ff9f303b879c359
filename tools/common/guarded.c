#include "guarded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERN = 0xa5, POISON = 0xff };

static size_t whole_bytes(const struct guarded *buffer)
{
    return buffer->size_bytes + 2 * (size_t)GUARDED_ZONE_BYTES;
}

bool guarded_create(struct device *device, const char *name, const void *contents, size_t size_bytes,
                    struct guarded *out)
{
    *out = (struct guarded){.name = name, .size_bytes = size_bytes, .contents = contents};
    if (!device_alloc(device, whole_bytes(out), &out->base) ||
        !device_fill(device, out->base, PATTERN, whole_bytes(out)))
        return false;
    return contents == NULL || device_upload(device, guarded_data(out), contents, size_bytes);
}

void guarded_destroy(struct device *device, struct guarded *buffer)
{
    device_free(device, buffer->base);
    *buffer = (struct guarded){0};
}

void *guarded_data(const struct guarded *buffer)
{
    return buffer->base == NULL ? NULL : (uint8_t *)buffer->base + GUARDED_ZONE_BYTES;
}

bool guarded_poison(struct device *device, const struct guarded *buffer)
{
    return device_fill(device, guarded_data(buffer), POISON, buffer->size_bytes);
}

/* Finds the first changed byte of [begin, end). */
static bool zone_intact(const uint8_t *bytes, size_t begin, size_t end, size_t *where)
{
    for (*where = begin; *where < end; ++*where)
        if (bytes[*where] != PATTERN)
            return false;
    return true;
}

static enum guarded_state check_image(const struct guarded *buffer, const uint8_t *image, char why[GUARDED_WHY])
{
    const size_t begin = GUARDED_ZONE_BYTES;
    const size_t end = begin + buffer->size_bytes;
    size_t where;
    if (!zone_intact(image, 0, begin, &where))
        snprintf(why, GUARDED_WHY, "%s: written %zu bytes before its begin", buffer->name, begin - where);
    else if (!zone_intact(image, end, whole_bytes(buffer), &where))
        snprintf(why, GUARDED_WHY, "%s: written %zu bytes past its end", buffer->name, where - end);
    else if (buffer->contents != NULL && memcmp(image + begin, buffer->contents, buffer->size_bytes) != 0)
        snprintf(why, GUARDED_WHY, "%s: an input was changed", buffer->name);
    else
        return GUARDED_INTACT;
    return GUARDED_BROKEN;
}

enum guarded_state guarded_check(struct device *device, const struct guarded *buffer, char why[GUARDED_WHY])
{
    if (buffer->base == NULL)
        return GUARDED_INTACT;
    uint8_t *image = malloc(whole_bytes(buffer));
    enum guarded_state state = GUARDED_FAULT;
    if (image != NULL && device_download(device, image, buffer->base, whole_bytes(buffer)))
        state = check_image(buffer, image, why);
    free(image);
    return state;
}
