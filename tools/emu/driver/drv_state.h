/* The emulated driver's state: what a handle points to, and how a call begins.
 *
 * One lock over everything: a call holds it from DRV_ENTER to its return, the kernel it runs included. Work is done at
 * the call that submits it, so streams are in order by nature; a fault is kept in the context and reported by the next
 * call that looks, as the real driver reports it. */
#ifndef EMU_DRV_STATE_H
#define EMU_DRV_STATE_H

#include <pthread.h>
#include <stdbool.h>

#include "engine.h"
#include "functions.h"

enum {
    DRV_VERSION = 13000,
    DRV_LOG_LINES = 64,
    DRV_LOG_BYTES = 640,
    DRV_SM_COUNT = 132,
    DRV_MAX_SHARED_OPTIN = 232448,  /* a block: 227 KiB */
    DRV_MAX_SHARED_DEFAULT = 49152, /* … without the attribute */
    DRV_SHARED_PER_SM = 233472,     /* 228 KiB */
    DRV_REGISTERS_PER_SM = 65536,
    DRV_THREADS_PER_SM = 2048,
    DRV_BLOCKS_PER_SM = 32,
    DRV_MAX_THREADS = 1024,
    DRV_PORTABLE_CLUSTER = 8,
    DRV_CONTEXT_DEPTH = 64
};

/* ---- Objects ---- */

enum drv_kind {
    DRV_FREE, /* of a slot in the table of handles */
    DRV_CONTEXT,
    DRV_STREAM,
    DRV_EVENT,
    DRV_MODULE,
    DRV_LIBRARY,
    DRV_KERNEL,
    DRV_FUNCTION,
    DRV_GRAPH,
    DRV_NODE,
    DRV_EXEC,
    DRV_POOL,
    DRV_ALLOCATION
};

/* Finds what a handle (an object's address; an allocation's device address) stands for, or NULL. */
void *drv_find(enum drv_kind kind, uint64_t handle);
bool drv_add(enum drv_kind kind, uint64_t handle, void *object);
void drv_remove(enum drv_kind kind, uint64_t handle);
/* Some object of this kind whose match() is true, or NULL. */
void *drv_search(enum drv_kind kind, bool (*match)(void *object, const void *key), const void *key);

/* Allocates a zeroed object and enters it into the table; NULL without memory. */
void *drv_new(enum drv_kind kind, size_t size);
/* Takes it out and frees it. */
void drv_delete(enum drv_kind kind, void *object);

static inline uint64_t drv_handle(const void *object)
{
    return (uint64_t)(uintptr_t)object;
}

struct drv_context {
    uint64_t id;
    unsigned int flags;
    unsigned int api_version;
    int retained; /* primary context */
    bool primary;
    int error; /* sticky: of a launch; 0: none */
    int cache_config;
    size_t limits[8];
    struct drv_stream *streams; /* all, the default ones included */
    struct drv_stream *legacy;
};

struct drv_stream {
    struct drv_stream *next; /* of the context */
    struct drv_context *context;
    unsigned int flags;
    int priority;
    uint64_t id;
    bool is_default;  /* legacy or per-thread: not to be destroyed */
    pthread_t thread; /* of a per-thread default stream */
    struct drv_capture *capture;
    struct drv_node **tail; /* of the capture: what the next node depends on */
    size_t tail_count;
};

struct drv_event {
    struct drv_context *context;
    unsigned int flags;
    bool recorded;
    uint64_t time_ns;
    struct drv_capture *capture; /* recorded in a capturing stream; id as pointers come again */
    uint64_t capture_id;
    struct drv_node **tail;
    size_t tail_count;
};

/* A capture that goes on; several streams may take part. */
struct drv_capture {
    struct drv_capture *next;
    uint64_t id;
    int mode;
    pthread_t thread;
    struct drv_stream *origin;
    struct drv_graph *graph;
    bool to_graph; /* the caller's own graph */
    bool invalidated;
};

struct drv_attributes {
    int max_dynamic_bytes;
    int carveout;
    int non_portable;
    int policy;
    unsigned int required_cluster[3];
};

/* Code in memory: a module, or what is in a library. */
struct drv_module {
    struct emu_module *code;
    struct drv_library *library; /* NULL: loaded by cuModuleLoad… */
    struct drv_context *context;
    struct drv_function *functions;
    struct drv_kernel *kernels;
    size_t uses; /* operations that run its kernels: a graph outlives the module's unloading */
    bool unloaded;
};

struct drv_library {
    char *text; /* copied; NULL: not text */
    size_t size;
    int refusal;               /* of what is no text: reported at first use, as a lazily loading driver does */
    struct drv_module *module; /* NULL: not read yet */
};

struct drv_kernel {
    struct drv_kernel *next;
    struct drv_module *module;
    const struct emu_kernel *code;
    struct drv_attributes attributes;
};

struct drv_function {
    struct drv_function *next;
    struct drv_module *module;
    struct drv_context *context;
    struct drv_kernel *kernel; /* NULL: of a module of its own */
    const struct emu_kernel *code;
    struct drv_attributes own;
    struct drv_attributes *attributes; /* own, or the kernel's */
};

struct drv_allocation {
    uint64_t address;
    size_t size;
    struct drv_context *context;
    int type; /* DRV_CU_MEMORYTYPE_* */
    bool managed, registered;
    unsigned int host_flags;
    uint64_t id;
};

struct drv_pool {
    uint64_t attributes[8];
};

struct drv_logs {
    cu_logs_callback callback;
    void *user;
};

/* ---- The driver ---- */

struct drv_settings {
    int sm;
    int sm_count;
    struct emu_options options;
    char report[4096]; /* path; "": none */
    bool eager_loading;
};

struct drv_state {
    pthread_mutex_t lock;
    bool initialised, forked, gone;
    struct drv_settings settings;
    struct emu_memory *memory;
    struct emu_report *report;
    struct drv_context primary;
    struct drv_pool *pool; /* the default one */
    struct drv_capture *captures;
    uint64_t clock_ns; /* virtual: warp instructions and other work done */
    uint64_t next_id;
    size_t allocated_bytes;
    struct drv_logs logs;
    char log[DRV_LOG_LINES][DRV_LOG_BYTES];
    unsigned int log_count; /* lines ever written */
};

extern struct drv_state drv;

/* ---- Calls ---- */

struct drv_call {
    struct drv_context *context; /* current, or the stream's */
    bool locked;
};

enum drv_need {
    DRV_NEED_INIT,    /* cuInit */
    DRV_NEED_CURRENT, /* … and a current context */
    DRV_NEED_HEALTHY  /* … without a sticky error */
};

int drv_enter(struct drv_call *call, enum drv_need need);
void drv_leave(struct drv_call *call);

/* Begins a function: takes the lock until the function returns; returns at once when the need is not met. */
#define DRV_ENTER(need)                                                                                                \
    __attribute__((cleanup(drv_leave))) struct drv_call call = {0};                                                    \
    do {                                                                                                               \
        const int entered = drv_enter(&call, need);                                                                    \
        if (entered != DRV_CUDA_SUCCESS)                                                                               \
            return entered;                                                                                            \
    } while (0)

/* The same for work in a stream: *stream becomes an object, call.context its context, which must be healthy. */
int drv_enter_stream(struct drv_call *call, struct drv_stream **stream);
#define DRV_ENTER_STREAM(stream)                                                                                       \
    __attribute__((cleanup(drv_leave))) struct drv_call call = {0};                                                    \
    do {                                                                                                               \
        const int entered = drv_enter_stream(&call, &(stream));                                                        \
        if (entered != DRV_CUDA_SUCCESS)                                                                               \
            return entered;                                                                                            \
    } while (0)

#define DRV_TRY(expression)                                                                                            \
    do {                                                                                                               \
        const int tried = (expression);                                                                                \
        if (tried != DRV_CUDA_SUCCESS)                                                                                 \
            return tried;                                                                                              \
    } while (0)

#define DRV_CHECK(condition, result)                                                                                   \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return DRV_##result;                                                                                       \
    } while (0)

/* The thread's current context, or NULL. */
struct drv_context *drv_current(void);
/* Set while a function's per-thread form runs: NULL streams are then the thread's own. */
extern _Thread_local bool drv_null_is_per_thread;
/* The stream that a handle means in a context (NULL: none is current). */
int drv_stream_of(struct drv_context *context, struct drv_stream *handle, struct drv_stream **out);

/* ---- Log and report ---- */

/* Keeps a sentence for cuLogsDumpToMemory, log callbacks and smla_emu_message. Returns `result`. */
int drv_log(int result, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *drv_last_message(void);
/* To the file of SMLA_EMU_REPORT, if there is one. */
void drv_write_report(bool last);

/* ---- Settings ---- */

/* Reads SMLA_EMU_*. False with a logged sentence on a value that means nothing. */
int drv_settings_read(struct drv_settings *settings);

/* ---- Operations: what a stream does and a graph remembers ---- */

struct drv_kernel_op {
    struct drv_function *function;
    struct drv_kernel *kernel; /* as given; NULL: a function */
    unsigned int grid[3], block[3], cluster[3];
    unsigned int shared_bytes;
    bool dependent;          /* PROGRAMMATIC_STREAM_SERIALIZATION */
    uint8_t *params;         /* owned: code->param_bytes */
    void **param_pointers;   /* owned: into params, for cuGraphKernelNodeGetParams */
    struct drv_event *after; /* recorded when it has run (launch attributes), or NULL */
};

struct drv_op {
    int type; /* DRV_CU_GRAPH_NODE_TYPE_* */
    union {
        struct drv_kernel_op kernel;
        struct cu_copy3d copy;
        struct cu_memset_params fill;
        struct cu_host_params host;
        struct drv_event *event;
        struct drv_exec *child; /* owned */
    } as;
};

int drv_op_copy(struct drv_op *to, const struct drv_op *from);
void drv_op_free(struct drv_op *op);
/* Carries it out now. */
int drv_op_run(struct drv_context *context, const struct drv_op *op);
/* Carries it out, or adds it to the stream's capture. Keeps nothing of *op: the caller frees it. */
int drv_submit(struct drv_stream *stream, const struct drv_op *op);

/* Checks and does a copy or fill; result of the checks alone when `check_only`. */
int drv_copy(const struct cu_copy3d *copy, bool check_only);
int drv_fill(const struct cu_memset_params *fill, bool check_only);

/* Makes a checked kernel operation. attributes may be NULL. */
int drv_kernel_op_make(struct drv_context *context, const struct cu_launch_config *config, cu_function handle,
                       void **params, void **extra, struct drv_op *out);
int drv_kernel_op_run(struct drv_context *context, const struct drv_kernel_op *op);

/* ---- Modules ---- */

/* The function of a kernel in a context. */
int drv_kernel_function(struct drv_kernel *kernel, struct drv_context *context, struct drv_function **out);
/* Finds what a CUfunction (which may be a CUkernel) means in a context. */
int drv_resolve_function(struct drv_context *context, cu_function handle, struct drv_function **out,
                         struct drv_kernel **kernel);
/* Takes it and its handles away; memory goes with the last use. */
void drv_module_unload(struct drv_module *module);
void drv_module_use(struct drv_module *module);
void drv_module_unuse(struct drv_module *module);
int drv_registers(const struct emu_kernel *code);
int drv_kernel_max_threads(const struct emu_kernel *code);

/* ---- Contexts ---- */

/* Frees all that belongs to a context. */
void drv_context_clear(struct drv_context *context);
void drv_streams_destroy(struct drv_context *context);
void drv_allocations_destroy(struct drv_context *context);
void drv_modules_destroy(struct drv_context *context);
void drv_events_destroy(struct drv_context *context);

/* ---- Capture ---- */

/* A call that no capture allows (whatever = true) or that only relaxed ones do: invalidates those that forbid it. */
int drv_forbid_in_capture(bool whatever);
/* Refuses work in the legacy stream while a blocking stream captures. */
int drv_check_implicit(struct drv_stream *stream);
void drv_capture_invalidate(struct drv_capture *capture);
bool drv_capturing(const struct drv_stream *stream);
/* Adds a node behind the stream's tail. */
int drv_capture_op(struct drv_stream *stream, const struct drv_op *op);
int drv_capture_record(struct drv_stream *stream, struct drv_event *event);
int drv_capture_wait(struct drv_stream *stream, struct drv_event *event);
void drv_capture_forget_stream(struct drv_stream *stream);

/* ---- Graphs ---- */

struct drv_node {
    struct drv_graph *graph;
    struct drv_op op;
    struct drv_node **needs;
    size_t need_count;
    size_t index; /* in the graph */
};

struct drv_graph {
    struct drv_node **nodes;
    size_t count, capacity;
    bool owned; /* by a capture that goes on, or by a child node */
};

struct drv_exec {
    struct drv_op *ops;     /* in an order that keeps the edges */
    struct drv_node **from; /* the node of each, to find it again; may be gone */
    size_t *need_counts;    /* edges of each, for updates */
    size_t count;
    uint64_t flags;
};

struct drv_graph *drv_graph_new(void);
void drv_graph_free(struct drv_graph *graph);
int drv_graph_add(struct drv_graph *graph, struct drv_node *const *needs, size_t need_count, const struct drv_op *op,
                  struct drv_node **out);
int drv_node_add_need(struct drv_node *node, struct drv_node *need);
int drv_exec_make(const struct drv_graph *graph, uint64_t flags, struct drv_exec **out);
int drv_exec_copy(const struct drv_exec *from, struct drv_exec **out);
void drv_exec_free(struct drv_exec *exec);
int drv_exec_run(struct drv_context *context, const struct drv_exec *exec);

#endif
