/* A cache entry: one file, header + metadata + payload, each digested (facts/jit.md 3.5; docs/cache-format.md). */
#ifndef SMLA_RUNTIME_ENTRY_H
#define SMLA_RUNTIME_ENTRY_H

#include <stdbool.h>

#include "key.h"

/* What is known of a compiled kernel besides its bytes. Strings are NUL-terminated. */
struct rt_entry_info {
    struct rt_key key;
    struct rt_builder builder;
    char arch[16];         /* exactly as given to NVRTC: "sm_90a" */
    char entry_symbol[64]; /* of variant 0; the payload must define it */
    int32_t param_bytes;   /* size of the kernel's one parameter */
    int32_t registers;     /* a thread; -1 not known */
    int32_t spill_bytes;   /* spill loads + stores; -1 not known */
    int32_t local_bytes;   /* stack frame; -1 not known */
    int32_t static_shared_bytes;
    uint32_t compile_ms;   /* not part of the payload's identity; 0 in bundles */
    char description[256]; /* canonical text of the spec, for people */
};

/* An entry in memory: `file` owns everything, payload and log point into it. */
struct rt_entry {
    struct rt_entry_info info;
    const uint8_t *payload;
    size_t payload_size;
    const char *log; /* the compiler's report, NUL-terminated, or NULL; points into `file` too */
    uint8_t *file;
    size_t file_size;
    uint32_t tier;     /* SMLA_TIER_* where it was found; NONE: it was made here */
    const char *place; /* of what was found: the bundle file, or the folder; belongs to that tier */
};

/* Entries that verify and that the driver does not load: passed over when their kernel is looked for once more. They
 * belong to the context, which keeps what it found. */
enum { RT_MOST_REFUSED = 8 };
struct rt_refused {
    const struct rt_entry *entries[RT_MOST_REFUSED];
    int count;
};

/* Larger files are no entries. */
enum { RT_ENTRY_MAX_BYTES = 64 << 20 };

/* Builds the file's bytes from info, payload and log (may be NULL; cut to 64 KiB). The result owns `file`; free with
 * rt_entry_free. The payload is not checked: whoever compiled it has done so. On failure *out is untouched. */
smla_status rt_entry_write(const struct rt_entry_info *info, const void *payload, size_t payload_size, const char *log,
                           struct rt_entry *out);

/* Reads and verifies whole-file bytes: lengths, digests, key, then the payload (ELF and target note for a cubin, a
 * NUL-terminated text with the right .target for PTX). Takes ownership of `file` (malloc'd) in every case: on false it
 * is freed and *out untouched.
 * wanted: NULL accepts any key. Returns false with a sentence in why[] when anything is wrong. */
bool rt_entry_read(uint8_t *file, size_t file_size, const struct rt_key *wanted, struct rt_entry *out, char why[256]);

/* The digest of the entry's header, which covers all that is in the entry. */
void rt_entry_digest(const struct rt_entry *entry, struct rt_digest *out);

/* Whether an entry of that digest was refused. refused: NULL is none. */
bool rt_is_refused(const struct rt_refused *refused, const struct rt_digest *entry_digest);

void rt_entry_free(struct rt_entry *entry);

#endif
