#include "cubin_check.h"

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "why.h"

/* CUDA's own ELF identification. NVRTC 12.x writes version 7 for targets up to sm_90a, without the note that names the
 * target: there the low byte of e_flags is the SM and one bit is the 'a'. Version 8 keeps the suffix in the note alone.
 * Read in the output of NVRTC 12.8, 12.9 and 13.0; the names are LLVM's (BinaryFormat/ELF.h, EF_CUDA_*). */
enum { OSABI_CUDA = 0x33, ABIVERSION_CUDA_V1 = 7, EF_CUDA_SM_V1 = 0xff, EF_CUDA_ACCELERATORS_V1 = 0x800 };

struct elf {
    const uint8_t *bytes;
    size_t size;
    Elf64_Ehdr header;
    Elf64_Shdr names; /* of the sections */
};

static bool lies_inside(const struct elf *elf, uint64_t offset, uint64_t size)
{
    return offset <= elf->size && size <= elf->size - offset;
}

static bool has_bytes(const Elf64_Shdr *section)
{
    return section->sh_type != SHT_NULL && section->sh_type != SHT_NOBITS;
}

/* The table was found to lie inside. Copied, because nothing promises that the bytes are aligned. */
static Elf64_Shdr section_at(const struct elf *elf, size_t index)
{
    Elf64_Shdr section;

    memcpy(&section, elf->bytes + elf->header.e_shoff + index * sizeof section, sizeof section);
    return section;
}

/* NULL when the name does not end inside its table. */
static const char *section_name(const struct elf *elf, const Elf64_Shdr *section)
{
    const char *name;

    if (section->sh_name >= elf->names.sh_size)
        return NULL;
    name = (const char *)elf->bytes + elf->names.sh_offset + section->sh_name;
    return memchr(name, '\0', elf->names.sh_size - section->sh_name) != NULL ? name : NULL;
}

static bool read_header(struct elf *elf, char *why)
{
    Elf64_Ehdr *header = &elf->header;

    if (elf->size < sizeof *header)
        return rt_refuse(why, "%zu bytes are too few for an ELF header", elf->size);
    memcpy(header, elf->bytes, sizeof *header);
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return rt_refuse(why, "not an ELF file");
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB)
        return rt_refuse(why, "not a 64-bit little-endian ELF file");
    if (header->e_machine != EM_CUDA)
        return rt_refuse(why, "ELF machine %u, not CUDA's %d", (unsigned)header->e_machine, EM_CUDA);
    return true;
}

static bool check_tables(struct elf *elf, char *why)
{
    const Elf64_Ehdr *header = &elf->header;

    if (header->e_shnum == 0 || header->e_shentsize != sizeof(Elf64_Shdr) ||
        !lies_inside(elf, header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr)))
        return rt_refuse(why, "%zu bytes end before the section table", elf->size);
    if (header->e_phnum != 0 && (header->e_phentsize != sizeof(Elf64_Phdr) ||
                                 !lies_inside(elf, header->e_phoff, (uint64_t)header->e_phnum * sizeof(Elf64_Phdr))))
        return rt_refuse(why, "%zu bytes end before the program header table", elf->size);
    if (header->e_shstrndx >= header->e_shnum)
        return rt_refuse(why, "no table of section names");
    elf->names = section_at(elf, header->e_shstrndx);
    if (!has_bytes(&elf->names) || !lies_inside(elf, elf->names.sh_offset, elf->names.sh_size))
        return rt_refuse(why, "%zu bytes end before the section names", elf->size);
    return true;
}

static bool check_sections(const struct elf *elf, char *why)
{
    for (size_t i = 0; i < elf->header.e_shnum; i++) {
        const Elf64_Shdr section = section_at(elf, i);

        if (section_name(elf, &section) == NULL)
            return rt_refuse(why, "section %zu has no name", i);
        if (has_bytes(&section) && !lies_inside(elf, section.sh_offset, section.sh_size))
            return rt_refuse(why, "section %s reaches past the end of %zu bytes", section_name(elf, &section),
                             elf->size);
    }
    return true;
}

static bool check_segments(const struct elf *elf, char *why)
{
    for (size_t i = 0; i < elf->header.e_phnum; i++) {
        Elf64_Phdr segment;

        memcpy(&segment, elf->bytes + elf->header.e_phoff + i * sizeof segment, sizeof segment);
        if (!lies_inside(elf, segment.p_offset, segment.p_filesz))
            return rt_refuse(why, "segment %zu reaches past the end of %zu bytes", i, elf->size);
    }
    return true;
}

static bool find_section(const struct elf *elf, const char *name, Elf64_Shdr *out)
{
    for (size_t i = 0; i < elf->header.e_shnum; i++) {
        *out = section_at(elf, i);
        if (has_bytes(out) && strcmp(section_name(elf, out), name) == 0)
            return true;
    }
    return false;
}

/* The note holds the options that ptxas was given, among them "-arch sm_90a", NUL-terminated. */
static bool check_arch_note(const struct elf *elf, const Elf64_Shdr *note, const char *arch, char *why)
{
    static const char option[] = " -arch ";
    const char *bytes = (const char *)elf->bytes + note->sh_offset;
    const char *found;
    size_t length;

    /* The option comes first in its string when ptxas was given no other. */
    found = memmem(bytes, note->sh_size, option, sizeof option - 1);
    if (found == NULL)
        found = memmem(bytes, note->sh_size, "\0-arch ", sizeof option - 1);
    if (found == NULL)
        return rt_refuse(why, ".note.nv.tkinfo names no -arch");
    found += sizeof option - 1;
    length = strnlen(found, note->sh_size - (size_t)(found - bytes));
    for (size_t i = 0; i < length; i++) {
        if (found[i] == ' ')
            length = i;
    }
    if (length != strlen(arch) || memcmp(found, arch, length) != 0)
        return rt_refuse(why, "built for %.*s, not for %s", length < 32 ? (int)length : 32, found, arch);
    return true;
}

static bool check_arch_flags(const struct elf *elf, const char *arch, char *why)
{
    const uint32_t flags = elf->header.e_flags;
    char built_for[16];

    snprintf(built_for, sizeof built_for, "sm_%u%s", (unsigned)(flags & EF_CUDA_SM_V1),
             (flags & EF_CUDA_ACCELERATORS_V1) != 0 ? "a" : "");
    if (strcmp(built_for, arch) != 0)
        return rt_refuse(why, "built for %s, not for %s", built_for, arch);
    return true;
}

static bool check_arch(const struct elf *elf, const char *arch, char *why)
{
    Elf64_Shdr note;

    if (find_section(elf, ".note.nv.tkinfo", &note))
        return check_arch_note(elf, &note, arch, why);
    if (elf->header.e_ident[EI_OSABI] == OSABI_CUDA && elf->header.e_ident[EI_ABIVERSION] == ABIVERSION_CUDA_V1)
        return check_arch_flags(elf, arch, why);
    return rt_refuse(why, "nothing tells the target: no .note.nv.tkinfo");
}

static bool check_code(const struct elf *elf, const char *symbol, char *why)
{
    char name[RT_WHY_BYTES / 2];
    Elf64_Shdr code;
    const int length = snprintf(name, sizeof name, ".text.%s", symbol);

    if (length < 0 || (size_t)length >= sizeof name)
        return rt_refuse(why, "a symbol name of more than %zu characters", sizeof name - sizeof ".text.");
    if (!find_section(elf, name, &code) || code.sh_size == 0)
        return rt_refuse(why, "no kernel %s", symbol);
    return true;
}

bool rt_cubin_check(const void *bytes, size_t size_bytes, const char *arch, const char *symbol, char why[256])
{
    struct elf elf = {.bytes = bytes, .size = size_bytes};

    return read_header(&elf, why) && check_tables(&elf, why) && check_sections(&elf, why) &&
           check_segments(&elf, why) && check_arch(&elf, arch, why) && check_code(&elf, symbol, why);
}
