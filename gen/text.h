/* A growing text that never fails half-way: after the first failed allocation it stays failed and empty. */
#ifndef SMLA_GEN_TEXT_H
#define SMLA_GEN_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gen_text {
    char *bytes; /* NUL-terminated; NULL until something was added */
    size_t size; /* without the NUL */
    size_t capacity;
    bool failed; /* an allocation failed: the text is not usable */
};

/* Appends formatted text. Only %s, %d, %u, %zu, %x, %c and %% with widths are used, so that no locale matters. */
void gen_text_add(struct gen_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends bytes as they are. */
void gen_text_add_bytes(struct gen_text *text, const char *bytes, size_t size);

/* The same of a string, and of a number as %d would write it: where there are many, without a format's cost. */
void gen_text_add_string(struct gen_text *text, const char *string);
void gen_text_add_number(struct gen_text *text, int32_t number);

/* Frees the text; it may be used again afterwards. */
void gen_text_free(struct gen_text *text);

#endif
