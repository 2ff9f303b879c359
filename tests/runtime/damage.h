/* Damaged bundles and entries before the stub driver: what reaches it is the sound code or nothing. */
#ifndef SMLA_RUNTIME_DAMAGE_H
#define SMLA_RUNTIME_DAMAGE_H

#include "bytes.h"
#include "entry.h"
#include "smlab_files.h"

/* From docs/cache-format.md. */
enum { HEADER = 128, ROW = 144, ROW_ENTRY = 64, ROW_AT = 96, ROW_BYTES = 104, ROW_TARGET = 128, DIGEST = 32 };
enum { ENTRY_MAJOR = 8, ENTRY_HEADER = 12, ENTRY_CODE_AT = 24, ENTRY_CODE_BYTES = 32, ENTRY_CODE_DIGEST = 104 };
enum { ENTRY_METADATA = 144, KERNELS = 3 };

/* The kernel that is asked for, its bundle among two others, and its entry in a folder. */
struct damage {
    struct world world;
    smla_kernel_desc kernel;
    uint8_t *bundle, *entry;
    size_t bundle_size, entry_size;
    const uint8_t *code; /* within `entry` */
    size_t code_size;
    size_t wanted; /* its row in the bundle */
    char *folder, *bundle_path, *cache, *entry_path;
    int attempts, served, wrong;
};

extern struct damage the;

int damage_setup(void **state);
/* Fails unless there were DAMAGE_ATTEMPTS, half of 10,000. */
enum { DAMAGE_ATTEMPTS = 5000 };
int damage_teardown(void **state);

/* xorshift64: the same sequence everywhere. */
uint64_t draw(void);

/* Writes a bundle, or the entry into the cache folder, and asks for the kernel where nothing may be compiled. True:
 * served, with the sound code. Otherwise it is not there, and the driver was not asked to load. */
bool bundle_serves(const uint8_t *bytes, size_t size);
bool entry_serves(const uint8_t *bytes, size_t size);

uint8_t *copy_of(const uint8_t *bytes, size_t size);

/* Within a bundle of KERNELS rows: where things lie, and digests made right again, of the index and the header, and
 * before that of an entry and in its row. */
uint8_t *row_of(uint8_t *bundle, size_t index);
uint8_t *entry_of(uint8_t *bundle, size_t index);
void put_digest(uint8_t *at, const uint8_t *bytes, size_t size);
void seal_bundle(uint8_t *bundle);
void seal_entry(uint8_t *entry);
void seal_within(uint8_t *bundle, size_t index);

#endif
