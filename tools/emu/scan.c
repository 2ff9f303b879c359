#include "scan.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHY_SIZE = 512, DECIMAL_SIZE = 64 };

void emu_scan_start(struct emu_scanner *scan, const char *text, char *why)
{
    *scan = (struct emu_scanner){.next = text, .line = 1, .token_line = 1, .why = why};
    emu_scan_next(scan);
}

bool emu_scan_fail(struct emu_scanner *scan, const char *format, ...)
{
    if (!scan->failed) {
        int used = snprintf(scan->why, WHY_SIZE, "line %u: ", scan->token_line);
        va_list args;
        va_start(args, format);
        vsnprintf(scan->why + used, (size_t)(WHY_SIZE - used), format, args);
        va_end(args);
    }
    scan->failed = true;
    scan->next = "";
    scan->kind = EMU_TOKEN_END;
    scan->span = (struct emu_span){"", 0};
    return false;
}

/* isalnum and the like take an int that must not be negative. */
static bool is_follow(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

static bool is_name_start(char c)
{
    return isalpha((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

static const char *skip_line_comment(const char *at)
{
    while (*at && *at != '\n')
        at++;
    return at;
}

static void skip_block_comment(struct emu_scanner *scan)
{
    scan->next += 2;
    while (*scan->next && !(scan->next[0] == '*' && scan->next[1] == '/'))
        scan->line += *scan->next++ == '\n';
    if (*scan->next)
        scan->next += 2;
    else
        emu_scan_fail(scan, "a comment does not end");
}

static void skip_space(struct emu_scanner *scan)
{
    for (;;) {
        const char *at = scan->next;
        if (isspace((unsigned char)*at)) {
            scan->line += *at == '\n';
            scan->next++;
        } else if (at[0] == '/' && at[1] == '/') {
            scan->next = skip_line_comment(at);
        } else if (at[0] == '/' && at[1] == '*') {
            skip_block_comment(scan);
        } else {
            return;
        }
    }
}

static void set_token(struct emu_scanner *scan, enum emu_token_kind kind, const char *start, const char *end)
{
    scan->kind = kind;
    scan->span = (struct emu_span){start, (size_t)(end - start)};
    scan->next = end;
}

static void scan_name(struct emu_scanner *scan, enum emu_token_kind kind)
{
    const char *end = scan->next + 1;
    while (is_follow(*end))
        end++;
    set_token(scan, kind, scan->next, end);
}

static void scan_string(struct emu_scanner *scan)
{
    const char *start = scan->next + 1, *end = start;
    while (*end && *end != '"' && *end != '\n')
        end += *end == '\\' && end[1] && end[1] != '\n' ? 2 : 1;
    if (*end != '"') {
        emu_scan_fail(scan, "a string does not end");
        return;
    }
    set_token(scan, EMU_TOKEN_STRING, start, end);
    scan->next = end + 1;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    char lower = (char)tolower((unsigned char)c);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 16;
}

/* Digits of the base from `at` on; returns their end, NULL when the value needs more than 64 bits. */
static const char *read_digits(const char *at, unsigned base, uint64_t *value)
{
    *value = 0;
    for (; (unsigned)digit_value(*at) < base; at++) {
        unsigned digit = (unsigned)digit_value(*at);
        if (*value > (UINT64_MAX - digit) / base)
            return NULL;
        *value = *value * base + digit;
    }
    return at;
}

/* 0f and 0d: exactly 8 or 16 hexadecimal digits, the bits of the number (PTX ISA 4.5.2). */
static void scan_float_bits(struct emu_scanner *scan)
{
    bool is_double = tolower((unsigned char)scan->next[1]) == 'd';
    const char *start = scan->next;
    const char *end = read_digits(start + 2, 16, &scan->value);
    if (!end || end - start - 2 != (is_double ? 16 : 8) || is_follow(*end)) {
        emu_scan_fail(scan, "a %s literal needs %d hexadecimal digits", is_double ? "0d" : "0f", is_double ? 16 : 8);
        return;
    }
    set_token(scan, is_double ? EMU_TOKEN_FLOAT64 : EMU_TOKEN_FLOAT32, start, end);
}

static bool read_double(const char *text, size_t size, double *value)
{
    char copy[DECIMAL_SIZE], *rest;
    if (size >= sizeof copy)
        return false;
    memcpy(copy, text, size);
    copy[size] = '\0';
    *value = strtod(copy, &rest);
    return rest == copy + size;
}

static void scan_decimal_float(struct emu_scanner *scan)
{
    const char *end = scan->next;
    while (isdigit((unsigned char)*end) || *end == '.' || ((*end == 'e' || *end == 'E') && end > scan->next) ||
           ((*end == '+' || *end == '-') && tolower((unsigned char)end[-1]) == 'e'))
        end++;
    double value;
    if (!read_double(scan->next, (size_t)(end - scan->next), &value)) {
        emu_scan_fail(scan, "not a number: %.20s", scan->next);
        return;
    }
    memcpy(&scan->value, &value, sizeof value);
    set_token(scan, EMU_TOKEN_FLOAT64, scan->next, end);
}

/* Hexadecimal, octal, binary, decimal, with an optional U (PTX ISA 4.5.1). */
static void scan_integer(struct emu_scanner *scan)
{
    const char *start = scan->next, *digits = start;
    unsigned base = 10;
    if (start[0] == '0' && tolower((unsigned char)start[1]) == 'x')
        base = 16, digits = start + 2;
    else if (start[0] == '0' && tolower((unsigned char)start[1]) == 'b')
        base = 2, digits = start + 2;
    else if (start[0] == '0')
        base = 8;
    const char *end = read_digits(digits, base, &scan->value);
    if (end && end != digits && *end == 'U')
        end++;
    if (!end || end == digits || is_follow(*end))
        emu_scan_fail(scan, "not an integer of 64 bits: %.20s", start);
    else
        set_token(scan, EMU_TOKEN_INT, start, end);
}

static void scan_number(struct emu_scanner *scan)
{
    const char *end = scan->next;
    while (isdigit((unsigned char)*end))
        end++;
    char second = (char)tolower((unsigned char)scan->next[1]);
    if (scan->next[0] == '0' && (second == 'f' || second == 'd'))
        scan_float_bits(scan);
    else if (*end == '.' || *end == 'e' || *end == 'E')
        scan_decimal_float(scan);
    else
        scan_integer(scan);
}

void emu_scan_next(struct emu_scanner *scan)
{
    skip_space(scan);
    const char *at = scan->next;
    scan->token_line = scan->line;
    if (!*at)
        set_token(scan, EMU_TOKEN_END, at, at);
    else if (is_name_start(*at))
        scan_name(scan, EMU_TOKEN_NAME);
    else if (isdigit((unsigned char)*at))
        scan_number(scan);
    else if (*at == '.' && is_follow(at[1]))
        scan_name(scan, EMU_TOKEN_DIRECTIVE);
    else if (*at == '"')
        scan_string(scan);
    else if (strchr("{}[]()<>,;:|!+-=@*", *at))
        set_token(scan, EMU_TOKEN_MARK, at, at + 1);
    else
        emu_scan_fail(scan, "unexpected character 0x%02x", (unsigned)(unsigned char)*at);
}

void emu_scan_opcode(struct emu_scanner *scan)
{
    const char *end = scan->next;
    while (is_follow(*end) || *end == '.' || (end[0] == ':' && end[1] == ':'))
        end += *end == ':' ? 2 : 1;
    set_token(scan, EMU_TOKEN_NAME, scan->span.text, end);
}

bool emu_scan_colon_follows(const struct emu_scanner *scan)
{
    const char *at = scan->next;
    while (*at == ' ' || *at == '\t')
        at++;
    return at[0] == ':' && at[1] != ':';
}

void emu_scan_skip_to(struct emu_scanner *scan, char mark)
{
    while (*scan->next && *scan->next != mark)
        scan->line += *scan->next++ == '\n';
    emu_scan_next(scan);
}

bool emu_scan_is(const struct emu_scanner *scan, char mark)
{
    return scan->kind == EMU_TOKEN_MARK && *scan->span.text == mark;
}

bool emu_span_is(struct emu_span span, const char *word)
{
    return strlen(word) == span.size && !memcmp(span.text, word, span.size);
}

bool emu_scan_is_word(const struct emu_scanner *scan, const char *word)
{
    return (scan->kind == EMU_TOKEN_NAME || scan->kind == EMU_TOKEN_DIRECTIVE) && emu_span_is(scan->span, word);
}

bool emu_scan_take(struct emu_scanner *scan, char mark)
{
    bool there = emu_scan_is(scan, mark);
    if (there)
        emu_scan_next(scan);
    return there;
}

bool emu_scan_take_word(struct emu_scanner *scan, const char *word)
{
    bool there = emu_scan_is_word(scan, word);
    if (there)
        emu_scan_next(scan);
    return there;
}

bool emu_scan_expect(struct emu_scanner *scan, char mark)
{
    if (emu_scan_take(scan, mark))
        return true;
    return emu_scan_fail(scan, "expected '%c', not '%.*s'", mark, scan->span.size > 40 ? 40 : (int)scan->span.size,
                         scan->span.text);
}

bool emu_scan_number(struct emu_scanner *scan, uint64_t limit, uint64_t *value)
{
    *value = scan->value;
    if (scan->kind != EMU_TOKEN_INT || scan->value > limit)
        return emu_scan_fail(scan, "expected a number of at most %llu, not '%.*s'", (unsigned long long)limit,
                             scan->span.size > 40 ? 40 : (int)scan->span.size, scan->span.text);
    emu_scan_next(scan);
    return true;
}
