#include "own_compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvrtc_table.h"

enum { HEADERS = 3 };
static const char *const header_paths[HEADERS] = {OWN_KERNELS "/own.cuh", OWN_TEMPLATES "/ptx_sm90.cuh",
                                                  OWN_TEMPLATES "/types.cuh"};
static const char *const header_names[HEADERS] = {"own.cuh", "ptx_sm90.cuh", "types.cuh"};

static struct rt_nvrtc_set set;

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    long size = 0;
    char *text = NULL;
    if (file && fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0)
        text = calloc(1, (size_t)size + 1);
    if (file)
        rewind(file);
    if (text && fread(text, 1, (size_t)size, file) != (size_t)size)
        text[0] = '\0';
    if (file)
        fclose(file);
    return text;
}

/* The next line with a mark, from its beginning; NULL: no more. */
static char *next_marked(char *source, char *from)
{
    char *mark = strstr(from, "/* NEEDED");
    while (mark && mark > source && mark[-1] != '\n')
        mark--;
    return mark;
}

static char *find_marked(char *source, int number)
{
    char *line = next_marked(source, source);
    while (line && --number > 0)
        line = next_marked(source, line + strcspn(line, "\n"));
    return line;
}

/* Blanks a marked line, so that the others keep their numbers. */
static bool delete_marked(char *source, int number)
{
    char *line = find_marked(source, number);
    if (line)
        memset(line, ' ', strcspn(line, "\n"));
    return line != NULL;
}

static const struct rt_nvrtc *find(void)
{
    const struct rt_nvrtc *nvrtc = NULL;
    set.path = getenv("SMLA_NVRTC");
    set.places = &rt_nvrtc_default_places;
    return rt_nvrtc_find(&set, gen_target_find("90"), 0, &nvrtc) == SMLA_OK ? nvrtc : NULL;
}

static void print_log(const struct rt_nvrtc *nvrtc, rt_nvrtc_program program, const char *name)
{
    size_t size = 0;
    nvrtc->nvrtcGetProgramLogSize(program, &size);
    char *log = calloc(1, size + 1);
    if (log && nvrtc->nvrtcGetProgramLog(program, log) == RT_NVRTC_SUCCESS)
        fprintf(stderr, "%s: %s\n", name, log);
    free(log);
}

static char *ptx_of(const struct rt_nvrtc *nvrtc, rt_nvrtc_program program, const char *name)
{
    static const char *const options[] = {"--gpu-architecture=sm_90a", "--std=c++17", "-lineinfo",
                                          "-modify-stack-limit=false", "-no-source-include"};
    const int count = sizeof(options) / sizeof(*options);
    size_t size = 0;
    if (rt_nvrtc_compile(nvrtc, program, count, options) != RT_NVRTC_SUCCESS ||
        nvrtc->nvrtcGetPTXSize(program, &size) != RT_NVRTC_SUCCESS) {
        print_log(nvrtc, program, name);
        return NULL;
    }
    char *ptx = calloc(1, size + 1);
    if (ptx && nvrtc->nvrtcGetPTX(program, ptx) != RT_NVRTC_SUCCESS)
        ptx[0] = '\0';
    return ptx;
}

static char *compile(const char *source, const char *file, char *const *headers)
{
    const struct rt_nvrtc *nvrtc = find();
    rt_nvrtc_program program = NULL;
    char *ptx = NULL;
    if (!nvrtc)
        fprintf(stderr, "no NVRTC for sm_90a\n");
    else if (nvrtc->nvrtcCreateProgram(&program, source, file, HEADERS, (const char *const *)headers, header_names) ==
             RT_NVRTC_SUCCESS)
        ptx = ptx_of(nvrtc, program, file);
    if (program)
        nvrtc->nvrtcDestroyProgram(&program);
    return ptx;
}

static char *read_kernel(const char *name, char path[512])
{
    snprintf(path, 512, "%s/%s.cu", OWN_KERNELS, name);
    return read_text(path);
}

char *own_compile(const char *name, int without)
{
    char path[512], *headers[HEADERS], *ptx = NULL;
    char *source = read_kernel(name, path);
    bool fine = source && (without == 0 || delete_marked(source, without));
    for (int i = 0; i < HEADERS; i++)
        fine = (headers[i] = read_text(header_paths[i])) != NULL && fine;
    if (fine)
        ptx = compile(source, path, headers);
    for (int i = 0; i < HEADERS; i++)
        free(headers[i]);
    free(source);
    return ptx;
}

int own_marks(const char *name, int mark, int *line)
{
    char path[512], *source = read_kernel(name, path);
    int count = 0;
    while (source && find_marked(source, count + 1))
        count++;
    if (source && line && mark <= count) {
        const char *end = find_marked(source, mark);
        *line = 1;
        for (const char *at = source; at < end; at++)
            *line += *at == '\n';
    }
    free(source);
    return count;
}

void own_compile_end(void)
{
    rt_nvrtc_set_free(&set);
}
