/* libnvrtc_stub.so: see stub.h. Its "cubin" is the smallest ELF that smla's check accepts. */
#include <elf.h>
#include <stdlib.h>

#include "call_log.h"
#include "nvrtc_types.h"

struct rt_nvrtc_program_opaque {
    char arch[32];
    char entries[512]; /* of what it compiles to */
    uint64_t number;   /* of what was given */
    bool empty;
    bool compiled;
};

static struct stub_nvrtc state;

static void reset(void)
{
    const struct stub_nvrtc fresh = {
        .major = 12,
        .minor = 9,
        .arch_count = 4,
        .archs = {80, 90, 100, 103},
        .entry = "smla_sm90_prefill smla_sm90_prefill_paged smla_sm90_prefill_split "
                 "smla_sm90_prefill_split_narrow smla_sm90_prefill_turned smla_sm90_prefill_turned_paged "
                 "smla_sm90_prefill_turned_persistent "
                 "smla_sm90_prefill_turned_persistent_paged smla_sm90_prefill_persistent "
                 "smla_sm90_prefill_persistent_paged smla_sm90_prefill_persistent_lengths",
        .compile_log = "",
        .reset = reset,
        .log = call_log_text,
        .clear_log = call_log_clear,
        .calls = call_count,
        .failed = failure_count,
    };

    state = fresh;
    call_log_clear();
}

__attribute__((constructor)) static void start(void)
{
    reset();
}

struct stub_nvrtc *stub_nvrtc(void)
{
    return &state;
}

#define CALLED(...)                                                                                                    \
    do {                                                                                                               \
        const int scripted = called(&state.script, __VA_ARGS__);                                                       \
        if (scripted)                                                                                                  \
            return scripted;                                                                                           \
    } while (0)

#define DECLARE(name, parameters) rt_nvrtc_result name parameters;
RT_NVRTC_SYMBOLS(DECLARE)
const char *nvrtcGetErrorString(rt_nvrtc_result result);

const char *nvrtcGetErrorString(rt_nvrtc_result result)
{
    static const char *const texts[] = {"NVRTC_SUCCESS",
                                        "NVRTC_ERROR_OUT_OF_MEMORY",
                                        "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
                                        "NVRTC_ERROR_INVALID_INPUT",
                                        "NVRTC_ERROR_INVALID_PROGRAM",
                                        "NVRTC_ERROR_INVALID_OPTION",
                                        "NVRTC_ERROR_COMPILATION",
                                        "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE"};

    (void)called_unlogged(&state.script, "nvrtcGetErrorString");
    return result >= 0 && result < 8 ? texts[result] : "NVRTC_ERROR unknown";
}

rt_nvrtc_result nvrtcVersion(int *major, int *minor)
{
    CALLED("nvrtcVersion", "%s", "");
    *major = state.major;
    *minor = state.minor;
    return 0;
}

rt_nvrtc_result nvrtcGetNumSupportedArchs(int *count)
{
    CALLED("nvrtcGetNumSupportedArchs", "%s", "");
    *count = state.arch_count;
    return 0;
}

rt_nvrtc_result nvrtcGetSupportedArchs(int *archs)
{
    CALLED("nvrtcGetSupportedArchs", "%s", "");
    memcpy(archs, state.archs, (size_t)state.arch_count * sizeof *archs);
    return 0;
}

static void join(char *text, size_t capacity, const char *const *words, int count)
{
    size_t size = 0;

    text[0] = '\0';
    for (int i = 0; i < count && size < capacity; i++)
        size += (size_t)snprintf(text + size, capacity - size, "%s%s", i ? " " : "", words[i]);
}

/* FNV-1a, with the NUL. */
static uint64_t add_text(uint64_t number, const char *text)
{
    do
        number = (number ^ (uint8_t)*text) * 0x100000001b3u;
    while (*text++);
    return number;
}

static bool is_among(const char *name, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* Of the files that it is made of: of one the program has the name, several are headers of a program of its own. */
static void find_entries(struct rt_nvrtc_program_opaque *program, const char *name, const char *const *names, int count)
{
    const char *slash = strrchr(name, '/');
    const char *const file = slash ? slash + 1 : name;
    size_t size = 0;

    for (const struct stub_kernel *kernel = state.kernels; kernel && kernel->file; kernel++)
        if (strcmp(kernel->file, file) == 0 || is_among(kernel->file, names, count))
            size += (size_t)snprintf(program->entries + size, sizeof program->entries - size, "%s%s", size ? " " : "",
                                     kernel->entries);
    if (size == 0)
        snprintf(program->entries, sizeof program->entries, "%s", state.entry);
}

rt_nvrtc_result nvrtcCreateProgram(rt_nvrtc_program *program, const char *source, const char *name, int header_count,
                                   const char *const *headers, const char *const *header_names)
{
    char names[512];

    join(names, sizeof names, header_names, header_count);
    CALLED("nvrtcCreateProgram", "%s, %s, [%s]", source[0] ? "source" : "empty", name, names);
    *program = calloc(1, sizeof **program);
    if (*program == NULL)
        return RT_NVRTC_ERROR_OUT_OF_MEMORY;
    find_entries(*program, name, header_names, header_count);
    (*program)->empty = source[0] == '\0';
    (*program)->number = add_text(0xcbf29ce484222325u, source);
    for (int i = 0; i < header_count; i++)
        (*program)->number = add_text((*program)->number, headers[i]);
    __atomic_add_fetch(&state.live_programs, 1, __ATOMIC_SEQ_CST);
    return 0;
}

rt_nvrtc_result nvrtcDestroyProgram(rt_nvrtc_program *program)
{
    free(*program);
    *program = NULL;
    __atomic_sub_fetch(&state.live_programs, 1, __ATOMIC_SEQ_CST);
    return called_unlogged(&state.script, "nvrtcDestroyProgram");
}

static void read_arch(struct rt_nvrtc_program_opaque *program, int option_count, const char *const *options)
{
    static const char option[] = "--gpu-architecture=";

    snprintf(program->arch, sizeof program->arch, "sm_75");
    for (int i = 0; i < option_count; i++)
        if (strncmp(options[i], option, sizeof option - 1) == 0)
            snprintf(program->arch, sizeof program->arch, "%.20s", options[i] + sizeof option - 1);
    if (state.arch && !program->empty)
        snprintf(program->arch, sizeof program->arch, "%.20s", state.arch);
}

rt_nvrtc_result nvrtcCompileProgram(rt_nvrtc_program program, int option_count, const char *const *options)
{
    char joined[768];

    join(joined, sizeof joined, options, option_count);
    read_arch(program, option_count, options);
    if (!program->empty) {
        __atomic_add_fetch(&state.compiles, 1, __ATOMIC_SEQ_CST);
        if (state.compiling)
            state.compiling(program->number);
        if (state.script.delay_us)
            usleep((unsigned)state.script.delay_us);
    }
    CALLED("nvrtcCompileProgram", "%s", joined);
    if (!program->empty && state.compile_result)
        return state.compile_result;
    program->compiled = true;
    return 0;
}

static const char *log_text(const struct rt_nvrtc_program_opaque *program)
{
    return program->empty ? "" : state.compile_log;
}

rt_nvrtc_result nvrtcGetProgramLogSize(rt_nvrtc_program program, size_t *size)
{
    CALLED("nvrtcGetProgramLogSize", "%s", "");
    *size = strlen(log_text(program)) + 1;
    return 0;
}

rt_nvrtc_result nvrtcGetProgramLog(rt_nvrtc_program program, char *log)
{
    CALLED("nvrtcGetProgramLog", "%s", "");
    memcpy(log, log_text(program), strlen(log_text(program)) + 1);
    return 0;
}

enum { PTX_BYTES = 1024, MOST_ENTRIES = 12 };

/* Takes the next of a program's entries; false when there is none left. */
static bool next_entry(const char **at, char name[128])
{
    const size_t length = strcspn(*at, " ");

    if (length == 0)
        return false;
    snprintf(name, 128, "%.*s", (int)length, *at);
    *at += length + ((*at)[length] == ' ');
    return true;
}

static size_t write_ptx(const struct rt_nvrtc_program_opaque *program, char ptx[PTX_BYTES])
{
    int size = snprintf(ptx, PTX_BYTES, "//\n// Compiler Build ID: CL-stub %d.%d\n//\n\n.version 8.7\n.target %s\n",
                        state.major, state.minor, program->arch);
    const bool one = strchr(program->entries, '{') != NULL; /* a text, not a list of names */
    const char *at = program->empty ? "" : program->entries;
    char name[128];

    if (one && !program->empty)
        size += snprintf(ptx + size, (size_t)(PTX_BYTES - size), ".visible .entry %s(\n)\n{ ret; }\n", at);
    while (!one && next_entry(&at, name))
        size += snprintf(ptx + size, (size_t)(PTX_BYTES - size), ".visible .entry %s(\n)\n{ ret; }\n", name);
    return (size_t)size + 1;
}

/* Header, then the bytes of .shstrtab, .note.nv.tkinfo and code, then their rows; a .text.<entry> for each entry, all
 * of the same code. */
enum { NAMES_AT = sizeof(Elf64_Ehdr), NAMES = 512, NOTE = 64, CODE = 64, CUBIN_ROWS = 3 + MOST_ENTRIES };
enum {
    NOTE_AT = NAMES_AT + NAMES,
    CODE_AT = NOTE_AT + NOTE,
    ROWS_AT = CODE_AT + CODE,
    CUBIN_BYTES = ROWS_AT + CUBIN_ROWS * (int)sizeof(Elf64_Shdr)
};

static Elf64_Shdr section(unsigned name, unsigned type, unsigned offset, unsigned size)
{
    return (Elf64_Shdr){.sh_name = name, .sh_type = type, .sh_offset = offset, .sh_size = size};
}

static void write_cubin(const struct rt_nvrtc_program_opaque *program, char cubin[CUBIN_BYTES])
{
    const unsigned note_name = 16;
    unsigned code_name = 40;
    const char *at = program->entries;
    char name[128];
    Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT, 0x41, 8},
                         .e_machine = EM_CUDA,
                         .e_entry = (Elf64_Addr)STUB_BUILT_BY(state.major, state.minor),
                         .e_shoff = ROWS_AT,
                         .e_ehsize = sizeof header,
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shnum = 3,
                         .e_shstrndx = 1};
    Elf64_Shdr rows[CUBIN_ROWS] = {
        section(0, SHT_NULL, 0, 0),
        section(1, SHT_STRTAB, NAMES_AT, NAMES),
        section(note_name, SHT_NOTE, NOTE_AT, NOTE),
    };

    memset(cubin, 0, CUBIN_BYTES);
    while (header.e_shnum < CUBIN_ROWS && next_entry(&at, name)) {
        rows[header.e_shnum++] = section(code_name, SHT_PROGBITS, CODE_AT, CODE);
        code_name += (unsigned)snprintf(cubin + NAMES_AT + code_name, NAMES - code_name, ".text.%s", name) + 1;
    }
    memcpy(cubin, &header, sizeof header);
    strcpy(cubin + NAMES_AT + 1, ".shstrtab");
    strcpy(cubin + NAMES_AT + note_name, ".note.nv.tkinfo");
    snprintf(cubin + NOTE_AT, NOTE, "-v -arch %s", program->arch);
    memset(cubin + CODE_AT, 0x90, CODE);
    memcpy(cubin + ROWS_AT, rows, sizeof rows);
}

rt_nvrtc_result nvrtcGetCUBINSize(rt_nvrtc_program program, size_t *size)
{
    CALLED("nvrtcGetCUBINSize", "%s", "");
    *size = program->compiled && !state.empty_result ? CUBIN_BYTES : 0;
    return 0;
}

rt_nvrtc_result nvrtcGetCUBIN(rt_nvrtc_program program, char *bytes)
{
    CALLED("nvrtcGetCUBIN", "%s", "");
    write_cubin(program, bytes);
    return 0;
}

rt_nvrtc_result nvrtcGetPTXSize(rt_nvrtc_program program, size_t *size)
{
    char ptx[PTX_BYTES];

    CALLED("nvrtcGetPTXSize", "%s", "");
    *size = write_ptx(program, ptx);
    return 0;
}

rt_nvrtc_result nvrtcGetPTX(rt_nvrtc_program program, char *bytes)
{
    char ptx[PTX_BYTES];

    CALLED("nvrtcGetPTX", "%s", "");
    memcpy(bytes, ptx, write_ptx(program, ptx));
    return 0;
}
