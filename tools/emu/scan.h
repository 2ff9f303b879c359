/* Words of a PTX text (PTX ISA 4.1-4.5). */
#ifndef EMU_SCAN_H
#define EMU_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum emu_token_kind {
    EMU_TOKEN_END,
    EMU_TOKEN_NAME,      /* identifier, register or special register: "foo", "%r1", "$L__BB0_1", "_" */
    EMU_TOKEN_DIRECTIVE, /* ".reg", the dot in it */
    EMU_TOKEN_INT,       /* value */
    EMU_TOKEN_FLOAT32,   /* value: the bits of 0f... */
    EMU_TOKEN_FLOAT64,   /* value: the bits of 0d... or of a decimal one */
    EMU_TOKEN_STRING,    /* text between the quotes, escapes as written */
    EMU_TOKEN_MARK       /* one character */
};

/* A piece of the text; not NUL-terminated. */
struct emu_span {
    const char *text;
    size_t size;
};

struct emu_scanner {
    const char *next; /* NUL-terminated text */
    uint32_t line;    /* of `next` */
    enum emu_token_kind kind;
    struct emu_span span; /* the current token */
    uint64_t value;
    uint32_t token_line;
    bool failed;
    char *why; /* 512 bytes */
};

/* Starts in front of the first token; why gets the first error. */
void emu_scan_start(struct emu_scanner *scan, const char *text, char *why);
/* Moves to the next token. After an error there are no more: every loop over tokens ends by itself. */
void emu_scan_next(struct emu_scanner *scan);
/* Extends the current name to a whole opcode: "cp.async.cg.shared.global.L2::128B". */
void emu_scan_opcode(struct emu_scanner *scan);
/* True when a colon follows the current name: it is a label. */
bool emu_scan_colon_follows(const struct emu_scanner *scan);
/* Passes over everything up to the mark, which becomes the current token. */
void emu_scan_skip_to(struct emu_scanner *scan, char mark);

bool emu_scan_is(const struct emu_scanner *scan, char mark);
bool emu_scan_is_word(const struct emu_scanner *scan, const char *word);
/* Takes the mark if it is there. */
bool emu_scan_take(struct emu_scanner *scan, char mark);
bool emu_scan_take_word(struct emu_scanner *scan, const char *word);
/* Takes the mark or fails. */
bool emu_scan_expect(struct emu_scanner *scan, char mark);
/* Takes a non-negative integer of at most `limit`, or fails. */
bool emu_scan_number(struct emu_scanner *scan, uint64_t limit, uint64_t *value);

/* Notes the first error, with its line, and ends the text. Returns false. */
bool emu_scan_fail(struct emu_scanner *scan, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool emu_span_is(struct emu_span span, const char *word);

#endif
