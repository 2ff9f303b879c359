#include "damage.h"

#include <dirent.h>
#include <unistd.h>

uint64_t draw(void)
{
    static uint64_t state = 0x9e3779b97f4a7c15;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* ---- One attempt ------------------------------------------------------------------------------------------- */

struct damage the;

static void compare_code(const void *code)
{
    the.wrong += memcmp(code, the.code, the.code_size) != 0;
}

/* Asks for the kernel where nothing may be compiled. Served: with the sound code. Otherwise it is not there, and the
 * driver was not asked to load. */
static bool is_served(const char *bundles, const char *cache_dir)
{
    smla_context_desc desc = stub_context_desc();
    smla_context *context = NULL;
    smla_kernel *kernel = NULL;
    const int loads = the.world.driver->loads;

    desc.jit_policy = SMLA_JIT_OFF;
    desc.bundles = bundles;
    desc.cache_policy = cache_dir ? SMLA_CACHE_RO : SMLA_CACHE_OFF;
    desc.cache_dir = cache_dir;
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
    const smla_status status = smla_prepare(context, &the.kernel, &kernel);

    if (status != SMLA_OK) {
        assert_int_equal(status, SMLA_ERROR_NOT_CACHED);
        assert_int_equal(the.world.driver->loads, loads);
    }
    smla_kernel_destroy(kernel);
    smla_context_destroy(context);
    the.attempts++;
    the.served += status == SMLA_OK;
    assert_int_equal(the.wrong, 0);
    return status == SMLA_OK;
}

bool bundle_serves(const uint8_t *bytes, size_t size)
{
    write_file(the.bundle_path, bytes, size);
    return is_served(the.bundle_path, NULL);
}

bool entry_serves(const uint8_t *bytes, size_t size)
{
    write_file(the.entry_path, bytes, size);
    return is_served("", the.cache);
}

/* ---- What the tests change --------------------------------------------------------------------------------- */

void put_digest(uint8_t *at, const uint8_t *bytes, size_t size)
{
    struct rt_digest digest;

    rt_digest_of(bytes, size, &digest);
    memcpy(at, digest.bytes, DIGEST);
}

uint8_t *row_of(uint8_t *bundle, size_t index)
{
    return bundle + HEADER + index * ROW;
}

uint8_t *entry_of(uint8_t *bundle, size_t index)
{
    return bundle + rt_get_le64(row_of(bundle, index) + ROW_AT);
}

void seal_bundle(uint8_t *bundle)
{
    put_digest(bundle + 48, bundle + HEADER, KERNELS * ROW);
    put_digest(bundle + HEADER - DIGEST, bundle, HEADER - DIGEST);
}

void seal_entry(uint8_t *entry)
{
    const size_t header = rt_get_le32(entry + ENTRY_HEADER);

    put_digest(entry + ENTRY_CODE_DIGEST, entry + rt_get_le64(entry + ENTRY_CODE_AT),
               rt_get_le64(entry + ENTRY_CODE_BYTES));
    put_digest(entry + header - DIGEST, entry, header - DIGEST);
}

/* … an entry of a bundle, and all digests that depend on it. */
void seal_within(uint8_t *bundle, size_t index)
{
    uint8_t *entry = entry_of(bundle, index);

    seal_entry(entry);
    memcpy(row_of(bundle, index) + ROW_ENTRY, entry + rt_get_le32(entry + ENTRY_HEADER) - DIGEST, DIGEST);
    seal_bundle(bundle);
}

uint8_t *copy_of(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size);

    assert_non_null(copy);
    memcpy(copy, bytes, size);
    return copy;
}

/* ---- Set-up ------------------------------------------------------------------------------------------------ */

/* Where the cache keeps the entry: found by letting a context write it. */
static void find_entry_path(void)
{
    smla_context_desc desc = stub_context_desc();
    smla_context *context = NULL;
    char shard[600], name[256] = "";

    desc.cache_policy = SMLA_CACHE_RW;
    desc.cache_dir = the.cache;
    assert_int_equal(smla_context_create(&desc, &context), SMLA_OK);
    smla_kernel_destroy(must_prepare(context, &the.kernel));
    smla_context_destroy(context);
    snprintf(shard, sizeof shard, "v1/%02x", the.entry[40]);
    char *folder = path_in(the.cache, shard);
    DIR *list = opendir(folder);

    assert_non_null(list);
    for (struct dirent *item; (item = readdir(list)) != NULL;)
        if (item->d_name[0] != '.')
            snprintf(name, sizeof name, "%s", item->d_name);
    closedir(list);
    the.entry_path = path_in(folder, name);
    free(folder);
}

int damage_setup(void **state)
{
    const smla_kernel_desc prefill = reference_desc();
    smla_kernel_desc kernels[KERNELS] = {prefill, prefill, prefill};

    (void)state;
    world_open_stubs(&the.world);
    world_serve_reference(&the.world);
    kernels[1].d_qk = 576;
    kernels[2].h_q = 128;
    the.kernel = prefill;
    the.bundle = smlab_of(kernels, KERNELS, &the.bundle_size);
    the.entry = smk_of(&the.kernel, &the.entry_size, &the.code, &the.code_size);
    for (size_t i = 0; i < KERNELS; i++)
        if (memcmp(row_of(the.bundle, i), the.entry + 40, DIGEST) == 0)
            the.wanted = i;
    if (access("/dev/shm", W_OK | X_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0); /* thousands of files, each written to be read once */
    the.folder = make_folder();
    the.bundle_path = path_in(the.folder, "a.smlab");
    the.cache = path_in(the.folder, "cache");
    find_entry_path();
    the.world.driver->loading = compare_code;
    return 0;
}

int damage_teardown(void **state)
{
    (void)state;
    print_message("%d damaged files; %d requests were served, by the sound code\n", the.attempts, the.served);
    remove_folder(the.folder);
    free(the.bundle);
    free(the.entry);
    free(the.bundle_path);
    free(the.cache);
    free(the.entry_path);
    return the.world.driver->live_libraries == 0 && the.attempts >= DAMAGE_ATTEMPTS ? 0 : -1;
}
