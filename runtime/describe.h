/* A spec as text: for people, and as the command that builds it. */
#ifndef SMLA_RUNTIME_DESCRIBE_H
#define SMLA_RUNTIME_DESCRIBE_H

#include <stdbool.h>
#include <stddef.h>

#include "spec.h"

enum { RT_DESCRIPTION_BYTES = 256, RT_COMMAND_BYTES = 1536 };

/* "prefill h_q=64 d_qk=512 d_v=512 kv=bf16 target=90a": canonical, the same spec gives the same text. */
void rt_describe(const struct gen_spec *spec, char text[RT_DESCRIPTION_BYTES]);

/* A description as rt_describe wrote it. Points into itself: not to be copied. */
struct rt_described {
    smla_kernel_desc desc;
    int32_t tile_heads; /* of the companion of that description's kernel; 0: it is the kernel */
    char text[RT_DESCRIPTION_BYTES];
};

/* Reads a spec's text back. False when it is none. The text of a layout of one's own names no format that there is, so
 * the generator refuses that description. */
bool rt_describe_read(const char *text, struct rt_described *out);

/* A word for a shell, in quotes. False, and an empty text, where it has no place: cut it would be another. */
bool rt_describe_quoted(const char *word, char *text, size_t capacity);

/* The smla-gen line that builds the kernel for a context like this one. kind: "cubin" or "ptx". cache_dir: the folder
 * that it is put into; NULL, or too long: there is none, and the line makes a bundle and names it in SMLA_BUNDLE. */
void rt_describe_command(const struct gen_spec *spec, const char *kind, const char *cache_dir,
                         char text[RT_COMMAND_BYTES]);

#endif
