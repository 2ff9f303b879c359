#include "cache_name.h"

#include <stdio.h>
#include <string.h>

enum {
    SHARD_HEX = RT_SHARD_BYTES - 1,
    REST_HEX = RT_DIGEST_HEX - 1 - SHARD_HEX,
    BUILD_HEX = 2 * RT_BUILD_PREFIX_BYTES
};

static const char *kind_suffix(enum rt_kind kind)
{
    return kind == RT_KIND_PTX ? ".ptx.smk" : ".cubin.smk";
}

void rt_cache_name_make(const struct rt_key *key, const struct rt_digest *build_id, struct rt_cache_name *name)
{
    char kernel[RT_DIGEST_HEX];
    char build[RT_DIGEST_HEX];

    rt_digest_hex(&key->kernel_id, kernel);
    rt_digest_hex(build_id, build);
    memcpy(name->shard, kernel, SHARD_HEX);
    name->shard[SHARD_HEX] = '\0';
    snprintf(name->file, sizeof name->file, "%s.%.*s%s", kernel + SHARD_HEX, BUILD_HEX, build, kind_suffix(key->kind));
}

static int hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* Reads exactly `count` bytes of lower-case hex; stops at a NUL, which is no digit. */
static bool parse_hex(const char *hex, uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const int high = hex_digit(hex[2 * i]);
        const int low = high < 0 ? -1 : hex_digit(hex[2 * i + 1]);

        if (low < 0)
            return false;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static bool parse_kind(const char *suffix, enum rt_kind *kind)
{
    *kind = strcmp(suffix, kind_suffix(RT_KIND_PTX)) == 0 ? RT_KIND_PTX : RT_KIND_CUBIN;
    return strcmp(suffix, kind_suffix(*kind)) == 0;
}

bool rt_cache_name_is_shard(const char *name)
{
    uint8_t byte;

    return strlen(name) == SHARD_HEX && parse_hex(name, &byte, 1);
}

bool rt_cache_name_parse(const char *shard, const char *file, struct rt_key *key,
                         uint8_t build_prefix[RT_BUILD_PREFIX_BYTES])
{
    return rt_cache_name_is_shard(shard) && parse_hex(shard, key->kernel_id.bytes, 1) &&
           parse_hex(file, key->kernel_id.bytes + 1, REST_HEX / 2) && file[REST_HEX] == '.' &&
           parse_hex(file + REST_HEX + 1, build_prefix, RT_BUILD_PREFIX_BYTES) &&
           parse_kind(file + REST_HEX + 1 + BUILD_HEX, &key->kind);
}

bool rt_cache_name_is_entry(const struct rt_cache_name *name)
{
    struct rt_key key;
    uint8_t build_prefix[RT_BUILD_PREFIX_BYTES];

    return rt_cache_name_parse(name->shard, name->file, &key, build_prefix);
}
