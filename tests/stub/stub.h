/* A stub CUDA driver and a stub NVRTC: shared objects with the real entry points, a log of every call with its
 * arguments, failures by script, versions and devices by script. A test opens them by path, as smla does, and gets the
 * same instance. */
#ifndef SMLA_STUB_H
#define SMLA_STUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the stub compiler writes into its cubins for its version, and the stub driver may refuse to load. */
#define STUB_BUILT_BY(major, minor) (100 * (major) + (minor))

enum { STUB_MAX_PARAMS_BYTES = 1024, STUB_MAX_RANGES = 4, STUB_LOG_BYTES = 1 << 18 };

/* What both stubs have. Failures: `fail_call` 1 fails the first call after reset, and so on; 0 none. With fail_name
 * only calls of that function count; what a log leaves out (texts of errors, nvrtcDestroyProgram) fails by name alone.
 */
struct stub_script {
    const char *fail_name;
    int fail_call;
    int fail_code;
    int delay_us; /* in loads and compilations */
    int again;    /* of the calls after it, each so-manieth fails too; 0: none */
};

/* What a file of templates compiles to, of a program of several beside what the others do. */
struct stub_kernel {
    const char *file;    /* its name */
    const char *entries; /* with spaces between them */
    size_t param_bytes;  /* of the entries' parameter, where smla has such a struct */
};

struct stub_driver {
    struct stub_script script;
    int version;
    int init_result;
    int device_count;
    int cc_major;
    int cc_minor;
    int max_threads;
    int max_shared_bytes;
    int max_grid_y;
    int sm_count;
    struct {           /* of ordinal 1, for a device_count of 2; the fields above are of ordinal 0 */
        void *context; /* is its, and so is its primary one; any other is of ordinal 0 */
        int cc_major;
        int cc_minor;
        int sm_count;
    } second;
    void *green_context; /* which has so many multiprocessors of its own; NULL: none */
    int green_sm_count;
    int function_max_threads;
    size_t param_offset;
    size_t param_bytes;
    int param_count;
    const struct stub_kernel
        *kernels;        /* whose entries have parameters of their own sizes; file NULL ends; NULL: none */
    const char *missing; /* a symbol that cuGetProcAddress does not have */
    int missing_why;
    int capture_status; /* of every stream */
    struct stub_range {
        uint64_t start, size;
        int memory_type;     /* 0: the driver does not know this memory, as all that is in no range */
        bool not_accessible; /* by kernels */
        bool is_virtual;     /* of the virtual memory API */
    } ranges[STUB_MAX_RANGES];
    uint64_t check_result;             /* what a copy of 8 bytes brings */
    int32_t check_value;               /* and of 4 */
    int refused_builder;               /* STUB_BUILT_BY: cubins of that version are … */
    int refusal;                       /* … not loaded, with this CUresult; 0: all are */
    void (*loading)(const void *code); /* called with what is to be loaded; may be NULL */
    void (*launching)(const char *entry,
                      void *params); /* called with a launch, to do what the kernel would; may be NULL */

    /* Counted by the stub. */
    int live_libraries;
    int live_allocations;
    int live_streams;
    int loads;
    int retained_primaries;
    _Alignas(8) uint8_t params[STUB_MAX_PARAMS_BYTES]; /* of the last launch: param_bytes of them */

    void (*reset)(void);
    void (*set_current)(void *context); /* this thread's stack becomes that one context, or empty for NULL */
    void *(*get_current)(void);
    int (*stack_depth)(void);
    void (*set_capture_mode)(int mode); /* … as cuThreadExchangeStreamCaptureMode does; reset: 0 */
    int (*get_capture_mode)(void);
    const char *(*log)(void);
    void (*clear_log)(void);        /* and the call counts */
    int (*calls)(const char *name); /* NULL: all */
    int (*failed)(void);            /* scripted failures that came, since the log was cleared */
};

struct stub_nvrtc {
    struct stub_script script;
    int major;
    int minor;
    int arch_count;
    int archs[32];
    const char *entry;                 /* that the "cubin" and PTX define; several with spaces between them */
    const struct stub_kernel *kernels; /* files that compile to entries of their own; file NULL ends; NULL: none */
    const char *arch;                  /* written into them instead of the one asked for; NULL: the one asked for */
    int compile_result;                /* of programs that are not empty */
    const char *compile_log;
    bool empty_result; /* success, and a size of 0 */
    /* Called in the thread that compiles, before the delay; exit() aborts while another thread is at either, as the
     * real NVRTC may when its destructors run; the same program is the same number in every process. May be NULL. */
    void (*compiling)(uint64_t program);

    /* Counted by the stub; the empty program does not count. */
    int compiles;
    int live_programs;

    void (*reset)(void);
    const char *(*log)(void);
    void (*clear_log)(void);
    int (*calls)(const char *name);
    int (*failed)(void);
};

/* The one symbol besides the real entry points. */
struct stub_driver *stub_driver(void);
struct stub_nvrtc *stub_nvrtc(void);

#endif
