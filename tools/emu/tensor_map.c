#include "tensor_map.h"

#include <stddef.h>
#include <string.h>

/* ---- Layout: 16 words of 64 bits ---- */

enum {
    WORD_MAGIC,
    WORD_UNUSED, /* CUTLASS pokes it */
    WORD_ADDRESS,
    WORD_KIND,                                  /* bytes: type, rank, interleave, swizzle, fill, changed */
    WORD_BOX,                                   /* bytes: box - 1 */
    WORD_STEPS,                                 /* bytes: element strides */
    WORD_DIMS,                                  /* five, a word each */
    WORD_STRIDES = WORD_DIMS + EMU_TENSOR_DIMS, /* four */
    WORD_CHECK = WORD_STRIDES + EMU_TENSOR_DIMS - 1,
    WORDS
};
_Static_assert(WORDS * sizeof(uint64_t) == EMU_TENSOR_MAP_BYTES, "a tensor map has 128 bytes");

enum { BYTE_CHANGED = 8 * WORD_KIND + 5 }; /* not in the check */

static const uint64_t magic = 0x3150414d414c4d53u; /* "SMLAMAP1" */

static uint64_t without_changed(uint64_t kind)
{
    return kind & ~((uint64_t)0xff << 40);
}

/* Of every word but the unused one: a map that was built by hand or overwritten is told apart. */
static uint64_t check_of(const uint64_t words[WORDS])
{
    uint64_t sum = 0xcbf29ce484222325u;
    for (int i = 0; i < WORD_CHECK; i++)
        if (i != WORD_UNUSED)
            sum = (sum ^ (i == WORD_KIND ? without_changed(words[i]) : words[i])) * 0x100000001b3u;
    return sum;
}

static uint64_t byte_at(uint64_t value, int at)
{
    return (value & 0xff) << 8 * at;
}

static uint32_t get_byte(uint64_t word, int at)
{
    return (uint32_t)(word >> 8 * at & 0xff);
}

int emu_map_type_bytes(enum emu_map_type type)
{
    static const uint8_t bytes[EMU_MAP_TYPES] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 0, 0, 0};
    return bytes[type];
}

static bool map_fine(const struct emu_tensor_map *map);

bool emu_tensor_map_decode(const void *map128, struct emu_tensor_map *map)
{
    uint64_t words[WORDS];
    memcpy(words, map128, sizeof(words));
    if (words[WORD_MAGIC] != magic || words[WORD_CHECK] != check_of(words) || get_byte(words[WORD_KIND], 1) == 0 ||
        get_byte(words[WORD_KIND], 1) > EMU_TENSOR_DIMS || get_byte(words[WORD_KIND], 0) >= EMU_MAP_TYPES)
        return false;
    *map = (struct emu_tensor_map){.type = (enum emu_map_type)get_byte(words[WORD_KIND], 0),
                                   .rank = (int)get_byte(words[WORD_KIND], 1),
                                   .interleave = (int)get_byte(words[WORD_KIND], 2),
                                   .swizzle = (int)get_byte(words[WORD_KIND], 3),
                                   .fill = (int)get_byte(words[WORD_KIND], 4),
                                   .address = words[WORD_ADDRESS]};
    for (int i = 0; i < map->rank; i++) {
        map->dims[i] = words[WORD_DIMS + i];
        map->strides[i] = i ? words[WORD_STRIDES + i - 1] : (uint64_t)emu_map_type_bytes(map->type);
        map->box[i] = get_byte(words[WORD_BOX], i) + 1;
        map->element_strides[i] = get_byte(words[WORD_STEPS], i);
    }
    return map_fine(map);
}

/* ---- The checks of cuTensorMapEncodeTiled: those of its documentation, as an H200's driver makes them (probes) ----
 */

/* Of a box's bytes: the shared memory of an SM. Of an address. */
enum { MOST_BOX_BYTES = 228 * 1024, ADDRESS_BITS = 57 };

struct request {
    int type, interleave, swizzle, l2_promotion, fill;
    uint32_t rank;
    uint64_t address;
    const uint64_t *dims, *strides;
    const uint32_t *box, *steps;
};

static bool is_float(int type)
{
    return (type >= EMU_MAP_F16 && type <= EMU_MAP_TF32_FTZ);
}

/* The packed types and swizzles of other atoms are sm_100's. */
static bool kinds_fine(const struct request *r)
{
    return r->type >= 0 && r->type < EMU_MAP_16U4_ALIGN8B && r->interleave >= EMU_MAP_INTERLEAVE_NONE &&
           r->interleave <= EMU_MAP_INTERLEAVE_32B && r->swizzle >= EMU_MAP_SWIZZLE_NONE &&
           r->swizzle <= EMU_MAP_SWIZZLE_128B && r->l2_promotion >= 0 && r->l2_promotion <= 3 &&
           (r->fill == EMU_MAP_FILL_ZERO || (r->fill == EMU_MAP_FILL_NAN && is_float(r->type)));
}

static bool rank_fine(const struct request *r)
{
    return r->rank >= (r->interleave == EMU_MAP_INTERLEAVE_NONE ? 1u : 3u) && r->rank <= EMU_TENSOR_DIMS;
}

/* Of the address and of the strides. */
static uint64_t alignment(const struct request *r)
{
    return r->interleave == EMU_MAP_INTERLEAVE_32B ? 32 : 16;
}

static bool address_fine(const struct request *r)
{
    return r->address % alignment(r) == 0 && r->address >> ADDRESS_BITS == 0;
}

static bool dims_fine(const struct request *r)
{
    for (uint32_t i = 0; i < r->rank; i++)
        if (r->dims[i] == 0 || r->dims[i] > (uint64_t)1 << 32)
            return false;
    return true;
}

static bool strides_fine(const struct request *r)
{
    for (uint32_t i = 0; i + 1 < r->rank; i++)
        if (r->strides[i] % alignment(r) != 0 || r->strides[i] >= (uint64_t)1 << 40)
            return false;
    return true;
}

static uint32_t swizzle_span(int swizzle)
{
    return swizzle == EMU_MAP_SWIZZLE_NONE ? UINT32_MAX : 16u << swizzle;
}

/* The whole box's bytes count without the gaps that a swizzle leaves behind narrow rows. */
static bool box_fine(const struct request *r)
{
    const uint32_t inner = r->box[0] * (uint32_t)emu_map_type_bytes((enum emu_map_type)r->type);
    uint64_t bytes = inner;
    for (uint32_t i = 0; i < r->rank; i++) {
        if (r->box[i] == 0 || r->box[i] > 256)
            return false;
        bytes *= i ? r->box[i] : 1;
    }
    return inner % 16 == 0 && bytes <= MOST_BOX_BYTES &&
           (r->interleave != EMU_MAP_INTERLEAVE_NONE || inner <= swizzle_span(r->swizzle));
}

/* The first too, though without interleaving it counts for nothing. */
static bool steps_fine(const struct request *r)
{
    for (uint32_t i = 0; i < r->rank; i++)
        if (r->steps[i] == 0 || r->steps[i] > 8)
            return false;
    return true;
}

static bool request_fine(const struct request *r)
{
    return r->dims && r->strides && r->box && r->steps && kinds_fine(r) && rank_fine(r) && address_fine(r) &&
           dims_fine(r) && strides_fine(r) && box_fine(r) && steps_fine(r);
}

int emu_tensor_map_encode_tiled(void *map128, int type, uint32_t rank, uint64_t address, const uint64_t *dims,
                                const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
                                int interleave, int swizzle, int l2_promotion, int oob_fill)
{
    const struct request request = {.type = type,
                                    .interleave = interleave,
                                    .swizzle = swizzle,
                                    .l2_promotion = l2_promotion,
                                    .fill = oob_fill,
                                    .rank = rank,
                                    .address = address,
                                    .dims = dims,
                                    .strides = strides,
                                    .box = box,
                                    .steps = element_strides};
    if (!map128 || (uintptr_t)map128 % EMU_TENSOR_MAP_ALIGN != 0 || !request_fine(&request))
        return 1;
    uint64_t words[WORDS] = {[WORD_MAGIC] = magic, [WORD_ADDRESS] = address};
    words[WORD_KIND] = byte_at((uint64_t)type, 0) | byte_at(rank, 1) | byte_at((uint64_t)interleave, 2) |
                       byte_at((uint64_t)swizzle, 3) | byte_at((uint64_t)oob_fill, 4);
    for (uint32_t i = 0; i < rank; i++) {
        const bool ignored = i == 0 && interleave == EMU_MAP_INTERLEAVE_NONE;
        words[WORD_DIMS + i] = dims[i];
        if (i > 0)
            words[WORD_STRIDES + i - 1] = strides[i - 1];
        words[WORD_BOX] |= byte_at(box[i] - 1, (int)i);
        words[WORD_STEPS] |= byte_at(ignored ? 1 : element_strides[i], (int)i);
    }
    words[WORD_CHECK] = check_of(words);
    memcpy(map128, words, sizeof(words));
    return 0;
}

/* A map that a kernel has put together may be anything. */
static bool map_fine(const struct emu_tensor_map *map)
{
    const struct request request = {.type = (int)map->type,
                                    .interleave = map->interleave,
                                    .swizzle = map->swizzle,
                                    .fill = map->fill,
                                    .rank = (uint32_t)map->rank,
                                    .address = map->address,
                                    .dims = map->dims,
                                    .strides = map->strides + 1,
                                    .box = map->box,
                                    .steps = map->element_strides};
    return map->element_strides[0] > 0 && request_fine(&request);
}

/* ---- Changing (ISA 9.7.9.26) ---- */

static void set_byte(uint64_t *word, uint32_t at, uint64_t value)
{
    *word = (*word & ~byte_at(0xff, (int)at)) | byte_at(value, (int)at);
}

/* Table 33. */
static int type_of_isa(uint64_t number)
{
    static const uint8_t types[] = {
        EMU_MAP_U8,       EMU_MAP_U16,          EMU_MAP_U32,           EMU_MAP_S32,          EMU_MAP_U64,  EMU_MAP_S64,
        EMU_MAP_F16,      EMU_MAP_F32,          EMU_MAP_F32_FTZ,       EMU_MAP_F64,          EMU_MAP_BF16, EMU_MAP_TF32,
        EMU_MAP_TF32_FTZ, EMU_MAP_16U4_ALIGN8B, EMU_MAP_16U4_ALIGN16B, EMU_MAP_16U6_ALIGN16B};
    return number < sizeof(types) ? types[number] : -1;
}

static const char *set_kind(uint64_t *kind, enum emu_map_field field, uint64_t value)
{
    static const struct {
        uint32_t byte;
        uint64_t most;
        const char *why;
    } fields[EMU_FIELDS] = {
        [EMU_FIELD_RANK] = {1, EMU_TENSOR_DIMS - 1, "the rank must be 0 (for 1) to 4 (for 5)"},
        [EMU_FIELD_TYPE] = {0, EMU_MAP_TYPES - 1, "no such element type"},
        [EMU_FIELD_INTERLEAVE] = {2, EMU_MAP_INTERLEAVE_32B, "no such interleave layout"},
        [EMU_FIELD_SWIZZLE] = {3, EMU_MAP_SWIZZLE_128B, "swizzles other than none, 32B, 64B and 128B are not emulated"},
        [EMU_FIELD_FILL] = {4, EMU_MAP_FILL_NAN, "no such fill mode"},
    };
    if (value > fields[field].most)
        return fields[field].why;
    set_byte(kind, fields[field].byte,
             field == EMU_FIELD_RANK   ? value + 1
             : field == EMU_FIELD_TYPE ? (uint64_t)type_of_isa(value)
                                       : value);
    return NULL;
}

static const char *set_dimension(uint64_t words[WORDS], enum emu_map_field field, uint32_t ordinal, uint64_t value)
{
    if (ordinal >= EMU_TENSOR_DIMS - (field == EMU_FIELD_STRIDE))
        return "the ordinal is past the last dimension";
    if (field == EMU_FIELD_DIM)
        words[WORD_DIMS + ordinal] = value;
    else if (field == EMU_FIELD_STRIDE)
        words[WORD_STRIDES + ordinal] = value;
    else if (value == 0 || value > 256 || (field == EMU_FIELD_STEP && value > 8))
        return field == EMU_FIELD_STEP ? "an element stride must be 1 to 8" : "a box has 1 to 256 elements a dimension";
    else if (field == EMU_FIELD_BOX)
        set_byte(&words[WORD_BOX], ordinal, value - 1);
    else
        set_byte(&words[WORD_STEPS], ordinal, value);
    return NULL;
}

static bool all_zero(const uint64_t words[WORDS])
{
    uint64_t any = 0;
    for (int i = 0; i < WORDS; i++)
        any |= words[i];
    return any == 0;
}

const char *emu_tensor_map_replace(void *map128, enum emu_map_field field, uint32_t ordinal, uint64_t value)
{
    const char *why = NULL;
    uint64_t words[WORDS];
    memcpy(words, map128, sizeof(words));
    if (all_zero(words))
        words[WORD_MAGIC] = magic;
    else if (words[WORD_MAGIC] != magic || words[WORD_CHECK] != check_of(words))
        return "the 128 bytes are neither a tensor map of this device nor zeros";
    if (field == EMU_FIELD_ADDRESS)
        words[WORD_ADDRESS] = value;
    else if (field >= EMU_FIELD_BOX && field <= EMU_FIELD_STEP)
        why = set_dimension(words, field, ordinal, value);
    else
        why = set_kind(&words[WORD_KIND], field, value);
    words[WORD_CHECK] = check_of(words);
    memcpy(map128, words, sizeof(words));
    ((uint8_t *)map128)[BYTE_CHANGED] = 1;
    return why;
}

bool emu_tensor_map_changed(const void *map128)
{
    return __atomic_load_n((const uint8_t *)map128 + BYTE_CHANGED, __ATOMIC_RELAXED) != 0;
}

void emu_tensor_map_acquire(void *map128)
{
    __atomic_store_n((uint8_t *)map128 + BYTE_CHANGED, 0, __ATOMIC_RELAXED);
}
