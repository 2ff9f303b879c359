#include "sample.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache_name.h"

/* ---- Cubins ------------------------------------------------------------------------------------------------ */

enum { SECTIONS = 4, NOTE_BYTES = 128, NAMES_BYTES = 256, DEFAULT_CODE_BYTES = 512 };

struct image {
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    Elf64_Shdr sections[SECTIONS];
    char names[NAMES_BYTES];
    char note[NOTE_BYTES];
};

static Elf64_Shdr section(uint32_t name, uint32_t type, size_t offset, size_t size)
{
    return (Elf64_Shdr){.sh_name = name, .sh_type = type, .sh_offset = offset, .sh_size = size};
}

static void fill_header(struct image *image, const struct sample_cubin *cubin)
{
    Elf64_Ehdr *header = &image->header;

    memcpy(header->e_ident, ELFMAG, SELFMAG);
    header->e_ident[EI_CLASS] = ELFCLASS64;
    header->e_ident[EI_DATA] = ELFDATA2LSB;
    header->e_ident[EI_OSABI] = cubin->os_abi != 0 ? cubin->os_abi : 0x41;
    header->e_ident[EI_ABIVERSION] = cubin->abi_version != 0 ? cubin->abi_version : 8;
    header->e_machine = EM_CUDA;
    header->e_flags = cubin->flags;
    header->e_phoff = offsetof(struct image, segment);
    header->e_phentsize = sizeof(Elf64_Phdr);
    header->e_phnum = 1;
    header->e_shoff = offsetof(struct image, sections);
    header->e_shentsize = sizeof(Elf64_Shdr);
    header->e_shnum = SECTIONS;
    header->e_shstrndx = 1;
}

static void fill_sections(struct image *image, const struct sample_cubin *cubin, size_t code_bytes)
{
    static const char note_name[] = ".note.nv.tkinfo";
    const uint32_t code_name = 1 + sizeof note_name;

    memcpy(image->names + 1, cubin->arch != NULL ? note_name : ".note.nv.nothing", sizeof note_name);
    snprintf(image->names + code_name, NAMES_BYTES - code_name, ".text.%s", cubin->symbol);
    snprintf(image->note, NOTE_BYTES, "ptxas%c-v  -arch %s ", '\0', cubin->arch != NULL ? cubin->arch : "none");
    image->sections[1] = section(0, SHT_STRTAB, offsetof(struct image, names), NAMES_BYTES);
    image->sections[2] = section(1, SHT_NOTE, offsetof(struct image, note), NOTE_BYTES);
    image->sections[3] = section(code_name, SHT_PROGBITS, sizeof *image, code_bytes);
    image->segment.p_offset = sizeof *image;
    image->segment.p_filesz = code_bytes;
}

uint8_t *sample_cubin_make(const struct sample_cubin *cubin, size_t *size)
{
    const size_t code_bytes = cubin->code_bytes != 0 ? cubin->code_bytes : DEFAULT_CODE_BYTES;
    struct image image = {0};
    uint8_t *bytes;

    fill_header(&image, cubin);
    fill_sections(&image, cubin, code_bytes);
    *size = sizeof image + code_bytes;
    bytes = malloc(*size);
    memcpy(bytes, &image, sizeof image);
    for (size_t i = 0; i < code_bytes; i++)
        bytes[sizeof image + i] = (uint8_t)(i * 7 + code_bytes);
    return bytes;
}

/* ---- Entries ----------------------------------------------------------------------------------------------- */

struct rt_entry_info sample_info(uint8_t seed)
{
    struct rt_entry_info info = {
        .key = {.kind = RT_KIND_CUBIN},
        .builder = {.nvrtc_major = 13, .nvrtc_minor = 0},
        .arch = "sm_90a",
        .entry_symbol = "smla_sm90_prefill",
        .param_bytes = 192,
        .registers = 168,
        .spill_bytes = -1,
        .local_bytes = 0,
        .static_shared_bytes = 1024,
        .compile_ms = 640,
        .description = "prefill h_q 64 d_qk 512 d_v 512 bf16",
    };

    memset(info.key.kernel_id.bytes, seed, RT_DIGEST_BYTES);
    info.key.kernel_id.bytes[31] = 0x5a;
    memset(info.builder.build_id.bytes, 0xb0, RT_DIGEST_BYTES);
    return info;
}

static struct rt_entry entry_of(const struct rt_entry_info *info, uint8_t seed)
{
    const struct sample_cubin cubin = {.arch = info->arch, .symbol = info->entry_symbol, .code_bytes = 512u + seed};
    struct rt_entry entry = {0};
    size_t size;
    uint8_t *bytes = sample_cubin_make(&cubin, &size);

    if (rt_entry_write(info, bytes, size, "ptxas info    : Used 168 registers", &entry) != SMLA_OK)
        abort();
    free(bytes);
    return entry;
}

struct rt_entry sample_entry(uint8_t seed)
{
    const struct rt_entry_info info = sample_info(seed);

    return entry_of(&info, seed);
}

struct rt_entry sample_entry_by(uint8_t seed, int32_t nvrtc_major, int32_t nvrtc_minor)
{
    struct rt_entry_info info = sample_info(seed);

    info.builder.nvrtc_major = nvrtc_major;
    info.builder.nvrtc_minor = nvrtc_minor;
    info.builder.build_id.bytes[0] = (uint8_t)nvrtc_major;
    info.builder.build_id.bytes[1] = (uint8_t)nvrtc_minor;
    return entry_of(&info, seed);
}

uint8_t *sample_copy(const void *bytes, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);

    memcpy(copy, bytes, size);
    return copy;
}

/* ---- Files ------------------------------------------------------------------------------------------------- */

char *sample_folder(void)
{
    char *folder = sample_path(getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp", "smla-test-XXXXXX");

    if (mkdtemp(folder) == NULL)
        abort();
    return folder;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    (void)type;
    (void)where;
    return remove(path);
}

void sample_folder_remove(char *folder)
{
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(folder);
}

char *sample_path(const char *folder, const char *rest)
{
    char *path;

    if (asprintf(&path, "%s/%s", folder, rest) < 0)
        abort();
    return path;
}

char *sample_entry_path(const char *folder, const struct rt_entry *entry)
{
    struct rt_cache_name name;
    char *path;

    rt_cache_name_make(&entry->info.key, &entry->info.builder.build_id, &name);
    if (asprintf(&path, "%s/" RT_CACHE_VERSION_DIR "/%s/%s", folder, name.shard, name.file) < 0)
        abort();
    return path;
}

static const char *counted_suffix;
static int counted;

static int count_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
    const size_t length = strlen(path);
    const size_t suffix = strlen(counted_suffix);

    (void)status;
    (void)where;
    counted += type == FTW_F && length >= suffix && strcmp(path + length - suffix, counted_suffix) == 0;
    return 0;
}

int sample_count_files(const char *folder, const char *suffix)
{
    counted_suffix = suffix;
    counted = 0;
    nftw(folder, count_one, 16, FTW_PHYS);
    return counted;
}

void sample_file_write(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");

    if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
        abort();
}

uint8_t *sample_file_read(const char *path, size_t *size)
{
    struct stat status;
    FILE *file = fopen(path, "rb");
    uint8_t *bytes;

    if (file == NULL || fstat(fileno(file), &status) != 0)
        abort();
    *size = (size_t)status.st_size;
    bytes = malloc(*size + 1);
    if (fread(bytes, 1, *size, file) != *size || fclose(file) != 0)
        abort();
    return bytes;
}

int sample_in_child(unsigned uid, int (*body)(void *argument), void *argument)
{
    int status = 0;
    const pid_t child = fork();

    if (child == 0) {
        if (geteuid() == 0 && (setresgid(uid, uid, uid) != 0 || setresuid(uid, uid, uid) != 0))
            _exit(255);
        _exit(body(argument));
    }
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

void sample_log_line(void *user, int32_t level, const char *line)
{
    struct sample_log *log = user;

    if (level == SMLA_LOG_DEBUG) /* what was told before, louder */
        return;
    log->lines++;
    snprintf(log->last, sizeof log->last, "%s", line);
}
