/* smla: sparse multi-head latent attention, generated for the shape that is asked for.
 *
 * Read top to bottom: status, context, description, kernel, call, source, statistics.
 *
 * Conventions that hold for every function below:
 *  - A function that can fail returns an smla_status; SMLA_OK is 0. On any other status the outputs are untouched
 *    and smla_last_error() tells, for this thread, what was asked, what the limit is and what would work. SMLA_PENDING
 *    is an answer, not a failure: outputs are untouched, and so is smla_last_error().
 *  - Every struct starts with `struct_size`: set it to sizeof of the struct and zero the rest; zero means default.
 *    A smaller struct (an older caller) is read as if zero-filled. A larger one (a newer caller) is accepted when
 *    what is beyond this library's size is zero, and refused with SMLA_ERROR_UNSUPPORTED otherwise.
 *  - Strings passed in are copied; handles are opaque; destroy(NULL) does nothing.
 *  - The library never prints, aborts, exits, installs signal handlers or changes process state.
 *  - The end of the process: exit(), or a return from main, waits for what is being compiled or loaded then, in any
 *    thread, 30 seconds at most, because the destructors of NVRTC and driver, which run beside threads that go on,
 *    take away what it works with. Nothing else is begun: UNAVAILABLE from then on. Nobody has to destroy anything
 *    before. A process that wants no such wait, whose compiler takes longer, or that may end in the moment in which
 *    another thread opens NVRTC (some hundredths of a second at the first compilation, which nobody can see to)
 *    destroys its contexts first, or ends by _exit().
 *  - dlclose() while no call is under way is safe at any time. Once a context has started a thread (smla_prepare_start,
 *    compile_limit_ms) the library stays mapped until the process ends, and opening it again gives the same one.
 *  - Any function may be called from any thread. One handle may be used by several threads at once, except that
 *    nobody may use it while it is being destroyed.
 */
#ifndef SMLA_SMLA_H
#define SMLA_SMLA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SMLA_API __attribute__((visibility("default")))
#else
#define SMLA_API
#endif

#define SMLA_VERSION_MAJOR 0
#define SMLA_VERSION_MINOR 1
#define SMLA_VERSION_PATCH 0

/* ---- Status ------------------------------------------------------------------------------------------------ */

typedef int32_t smla_status;

/* One row a status: name, value (never renumbered), short text. Split by what the caller can do about it. */
#define SMLA_STATUS_LIST(X)                                                                                            \
    X(SMLA_OK, 0, "success")                                                                                           \
    X(SMLA_ERROR_INVALID_ARGUMENT, 1, "invalid argument: fix the call")                                                \
    X(SMLA_ERROR_UNSUPPORTED, 2, "unsupported: describe another kernel or target")                                     \
    X(SMLA_ERROR_UNAVAILABLE, 3, "unavailable here: driver, device or compiler missing or too old")                    \
    X(SMLA_ERROR_NOT_CACHED, 4, "not in the cache and compiling is switched off")                                      \
    X(SMLA_ERROR_COMPILE, 5, "the kernel did not compile")                                                             \
    X(SMLA_ERROR_IO, 6, "a file or folder cannot be used")                                                             \
    X(SMLA_ERROR_OUT_OF_MEMORY, 7, "out of host memory")                                                               \
    X(SMLA_ERROR_DRIVER, 8, "a CUDA driver call failed")                                                               \
    X(SMLA_ERROR_INTERNAL, 9, "a fault in smla: please report it")                                                     \
    X(SMLA_PENDING, 10, "not ready yet: ask again")                                                                    \
    X(SMLA_ERROR_TIMEOUT, 11, "not ready in the time that was allowed: ask again, or allow more")                      \
    X(SMLA_ERROR_SELF_TEST, 12, "the kernel computes wrong results on this device")

enum {
#define SMLA_STATUS_ENUM(name, value, text) name = (value),
    SMLA_STATUS_LIST(SMLA_STATUS_ENUM)
#undef SMLA_STATUS_ENUM
};

/* Returns the short text of a status, "unknown status" for a number that is none. Static storage. Since 0.1. */
SMLA_API const char *smla_status_text(smla_status status);

/* What the last failing call of this thread found. Strings are never NULL and belong to the library; they stay
 * valid until this thread's next failing call. */
typedef struct smla_error_info {
    uint32_t struct_size;
    smla_status status;  /* of that call; SMLA_OK when this thread has had no failure */
    int32_t native_code; /* CUresult, nvrtcResult or errno, by the sentence in `message`; 0 when none */
    uint32_t reserved;
    const char *message; /* one sentence or a few: what was asked, what the limit is, what would work */
    const char *path;    /* the file or folder concerned, or "" */
    const char *log;     /* the compiler's or the driver's own log, or "" */
} smla_error_info;

/* Fills *info with this thread's last failure. A successful call does not clear it.
 * Returns SMLA_OK; SMLA_ERROR_INVALID_ARGUMENT when info is NULL or its struct_size is 0. Since 0.1. */
SMLA_API smla_status smla_last_error(smla_error_info *info);

/* Returns "major.minor.patch". Static storage. Since 0.1. */
SMLA_API const char *smla_version(void);

/* Returns a number that changes when a caller built against another header could misread this library. Since 0.1. */
SMLA_API uint32_t smla_abi_version(void);

/* ---- Context ----------------------------------------------------------------------------------------------- */

/* Holds the driver and compiler tables (opened at first need), the cache and the counters. */
typedef struct smla_context smla_context;

enum {
    SMLA_CACHE_DEFAULT = 0, /* SMLA_CACHE, else rw */
    SMLA_CACHE_OFF = 1,     /* no folder, the system's neither; bundles that were named are read */
    SMLA_CACHE_RO = 2,      /* read entries, write none */
    SMLA_CACHE_RW = 3
};

enum {
    SMLA_JIT_DEFAULT = 0, /* SMLA_JIT, else on */
    SMLA_JIT_ON = 1,
    SMLA_JIT_OFF = 2,   /* a miss is SMLA_ERROR_NOT_CACHED with the smla-gen line that builds the kernel */
    SMLA_JIT_SEALED = 3 /* as off: for after warm-up, see smla_context_seal */
};

/* Of smla_context_desc.compile_limit_ms: no limit, whatever the environment says. */
#define SMLA_COMPILE_LIMIT_NONE UINT32_MAX

enum {
    /* Retain the primary CUDA context of `device` for the life of the smla_context and use it for kernels. Without
     * this flag a kernel belongs to the CUDA context that is current when smla_prepare is called. */
    SMLA_CONTEXT_PRIMARY = 1u << 0,

    /* Look for kernels in the cache folder alone, neither in bundles nor in the system folder: for filling a cache. */
    SMLA_CONTEXT_OWN_CACHE = 1u << 1,

    /* smla_prepare takes kernels that are not verified too (smla_support.trust). */
    SMLA_CONTEXT_UNVERIFIED = 1u << 2,

    /* At the first prepare of a kernel on a device smla_prepare runs it on a small problem of known answer; a kernel
     * that is wrong is not handed out. See smla_prepare, "Self-test". */
    SMLA_CONTEXT_SELF_TEST = 1u << 3,

    /* Every description stands for one with SMLA_KERNEL_LINE_INFO. Without the flag SMLA_LINE_INFO=1 does the same. */
    SMLA_CONTEXT_LINE_INFO = 1u << 4
};

enum {
    SMLA_LOG_WARNING = 1,
    SMLA_LOG_INFO = 2, /* what took time or changed something: compiled, waited, removed */
    SMLA_LOG_DEBUG = 3 /* what is usual: found, loaded, written */
};

/* Receives one line without a line end for each event (smla_events). Called from whichever thread does the work, never
 * from a kernel call; from several at once, too, even where one alone prepares: two kernels of a description are
 * compiled beside each other. It must not call smla. */
typedef void (*smla_log_fn)(void *user, int32_t level, const char *line);

typedef struct smla_context_desc {
    uint32_t struct_size;
    uint32_t flags;        /* SMLA_CONTEXT_* */
    int32_t device;        /* CUDA ordinal; read with SMLA_CONTEXT_PRIMARY only */
    uint32_t cache_policy; /* SMLA_CACHE_* */
    uint32_t jit_policy;   /* SMLA_JIT_* */
    uint32_t reserved;
    const char *driver_path; /* NULL: SMLA_DRIVER, else libcuda.so.1 by the system's search */
    const char *nvrtc_path;  /* NULL: SMLA_NVRTC, else one already in the process, else the newest found */
    const char *cache_dir;   /* NULL: SMLA_CACHE_DIR, else $XDG_CACHE_HOME/smla, else ~/.cache/smla */
    smla_log_fn log;         /* NULL: none */
    void *log_user;
    const char *bundles;       /* bundle files (*.smlab) with colons between them; NULL: SMLA_BUNDLE; "": none */
    uint32_t compile_limit_ms; /* 0: SMLA_COMPILE_LIMIT_MS, else none. How long a call waits for a kernel that no tier
                                  has: to be compiled, by this process or another. A call that waited so long returns
                                  TIMEOUT; the compilation goes on, and who asks later has what came of it */
    uint32_t reserved_2;
    const char *disable;  /* the kill switch: patterns of kernels that are never chosen, with commas or spaces between
                             them; NULL: SMLA_DISABLE; "": none. A pattern is compared with the names of a kernel's
                             variants and its kernel_id; '*' stands for any characters, '?' for one. Where a variant is
                             switched off (as "sm90_prefill_split*") the kernel's others are chosen; where that does not
                             serve each call, smla_prepare refuses with SMLA_ERROR_UNSUPPORTED */
    uint64_t cache_bytes; /* 0: SMLA_CACHE_BYTES (a number, with K, M or G behind it for units of 1024), else 1 GiB. How
                             many bytes of entries the cache folder may hold before this context, when it writes one,
                             removes those not used for longest. Entries used within the hour stay until there are
                             twice as many bytes */
} smla_context_desc;

/* Creates a context. Opens neither driver nor compiler, unless SMLA_CONTEXT_PRIMARY asks for the driver.
 *
 * desc: NULL means all defaults. Environment variables are read here, once, and only where desc leaves a default.
 * out: receives the context; the caller destroys it after every kernel made from it.
 * Returns SMLA_OK; INVALID_ARGUMENT (NULL out, unknown policy or flag); IO (cache_dir was given and cannot be used:
 * a default folder, or a bundle, that cannot be used is logged and done without); UNAVAILABLE (SMLA_CONTEXT_PRIMARY
 * without a usable driver or device); DRIVER; OUT_OF_MEMORY. Since 0.1. */
SMLA_API smla_status smla_context_create(const smla_context_desc *desc, smla_context **out);

/* Says that warm-up is over: from now on the context compiles nothing, as with SMLA_JIT_SEALED, and what would have to
 * be compiled is NOT_CACHED, an event and a number (refused_compiles). Compilations that have begun go on, and who
 * waits for them is served; a prepare in the background that comes to its compilation later is refused. There is no way
 * back. Returns SMLA_OK; INVALID_ARGUMENT (NULL). Since 0.1. */
SMLA_API smla_status smla_context_seal(smla_context *context);

/* Takes the log callback away: it is not called any more, and where it is running that is waited for, so that what it
 * needs may go before the context does, as an interpreter that ends before its process (Python's) does beside a prepare
 * in the background. smla_events goes on. Not to be called in the callback. Returns SMLA_OK; INVALID_ARGUMENT (NULL).
 * Since 0.1. */
SMLA_API smla_status smla_context_mute(smla_context *context);

/* Destroys a context and everything it cached in memory. Kernels made from it must have been destroyed before. Waits
 * for compilations that go on in the background, because a compiler cannot be stopped; a prepare in the background that
 * has not begun never does, and one that is under way or done is lost (smla_prepare_start). NULL is allowed. Since 0.1.
 */
SMLA_API void smla_context_destroy(smla_context *context);

/* ---- Description ------------------------------------------------------------------------------------------- */

enum {
    SMLA_OP_PREFILL = 1,
    /* A plain float64 kernel of the same meaning, any shape, for checking results on the card. It is called through
     * smla_prefill, writes `out` as float32, and fills the ref_* outputs when they are given. Slow. */
    SMLA_OP_PREFILL_REFERENCE = 2,
    /* Merges partial results over disjoint shards of the keys; called through smla_combine. It reads no keys: its
     * description has d_qk 0 and no formats. */
    SMLA_OP_COMBINE = 3,
    /* A few tokens of each of some requests, keys shared among blocks of threads; called through smla_decode. */
    SMLA_OP_DECODE = 4
};

enum { SMLA_VALUE_BF16 = 1, SMLA_VALUE_E4M3 = 2, SMLA_VALUE_E2M1 = 3 };
enum { SMLA_SCALE_NONE = 0, SMLA_SCALE_FP32 = 1, SMLA_SCALE_UE8M0 = 2, SMLA_SCALE_E4M3 = 3 };
enum {
    SMLA_PLACE_TOKEN = 1, /* a token's values, scales and tail together, tokens one after the other */
    SMLA_PLACE_PAGE = 2   /* a page's values and tails, token by token; then the page's scales, token by token */
};

/* A cache format that is no preset. A key is its values times their scales, each product rounded to float32 and then to
 * bf16, followed by the tail. e2m1 values lie two a byte, the even element in the low nibble. */
typedef struct smla_kv_layout {
    uint32_t struct_size;
    uint32_t value_type; /* SMLA_VALUE_* */
    int32_t value_elems; /* a token; with tail_elems: d_qk. A multiple of 64 */
    uint32_t scale_type; /* SMLA_SCALE_*; NONE for bf16 values and no other */
    int32_t scale_group; /* values that share a scale: 16, 32, 64, 128, 256 or 512; divides value_elems */
    int32_t scale_bytes; /* a token, padding behind the scales included; 0: no padding */
    int32_t tail_elems;  /* bf16 elements that are not quantised: a multiple of 64 */
    uint32_t place;      /* SMLA_PLACE_* */
} smla_kv_layout;

/* Tells the layout of a preset ("bf16", "v32", "v32_norope", "v4", "v41", "v41_planar", "v41_fp4", "v41_fp4_planar",
 * "hopper_fp4"), to look at or to start from.
 *
 * name, out: not NULL. d_qk: of the keys; a preset exists for some. Needs neither a context nor a device.
 * Returns SMLA_OK; INVALID_ARGUMENT (no such preset); UNSUPPORTED (not for that d_qk). Since 0.1. */
SMLA_API smla_status smla_kv_layout_preset(const char *name, int32_t d_qk, smla_kv_layout *out);

enum {
    /* Of SMLA_OP_PREFILL: each call first looks at every index, every length and the extent of every tensor, and
     * refuses what cannot be meant; see smla_prefill, "Checked kernels". For hunting a bug, not for production: it
     * waits. */
    SMLA_KERNEL_CHECKED = 1u << 0,
    /* Of SMLA_OP_PREFILL: where the plan would choose a kernel whose blocks of threads live as long as the launch and
     * compute one query after the other (sm_90, one bf16 cache, d_qk 512, 57 to 64 or 81 to 128 heads), one that has a
     * block a query instead, or a cluster of them. Slower (docs/performance.md); for comparison. */
    SMLA_KERNEL_NOT_PERSISTENT = 1u << 1,
    /* Of any operator: the cubin has line tables, by which profilers and compute-sanitizer show source lines
     * (docs/tools.md, "Profiling"). The same instructions in a file four times as large, which takes longer to verify
     * and to load. */
    SMLA_KERNEL_LINE_INFO = 1u << 2
};

/* What a kernel is generated for. Everything else is an argument of the call. */
typedef struct smla_kernel_desc {
    uint32_t struct_size;
    uint32_t op;              /* SMLA_OP_* */
    int32_t h_q;              /* query heads */
    int32_t d_qk;             /* elements of a query head and of a key; 0 for SMLA_OP_COMBINE */
    int32_t d_v;              /* elements of a value: the first d_v of the key; 0 means 512 */
    uint32_t batch_invariant; /* 1: a query's bits depend on its own inputs alone */
    uint32_t flags;           /* SMLA_KERNEL_* */
    uint32_t reserved;
    const char *kv_format;                 /* a preset's name; NULL means "bf16", and none for SMLA_OP_COMBINE */
    const char *extra_kv_format;           /* of a second cache; NULL means none */
    const char *target;                    /* "90", "90a", "100", …; NULL means the device's own */
    const smla_kv_layout *kv_layout;       /* instead of kv_format, which is then NULL */
    const smla_kv_layout *extra_kv_layout; /* instead of extra_kv_format, which is then NULL */
} smla_kernel_desc;

/* How much is known of a kernel's correctness, by a table of the library (smla-gen --list prints it). */
enum {
    SMLA_TRUST_NONE = 0,     /* not verified */
    SMLA_TRUST_EMULATED = 1, /* right on the emulated device; has not run on a card */
    SMLA_TRUST_VERIFIED = 2  /* its tests passed on the cards that smla_support.status names */
};

/* What smla would run for a description. */
typedef struct smla_support {
    uint32_t struct_size;
    uint32_t supported;         /* 1 or 0 */
    uint32_t launches;          /* kernel launches a call issues, at most */
    uint32_t variants;          /* compiled entry points, of which a call selects */
    uint32_t threads;           /* threads a block, of variant 0 */
    uint32_t shared_bytes;      /* dynamic shared memory a block, of variant 0 */
    uint32_t pointer_alignment; /* bytes; of query, kv (combine: partial_out) and out */
    uint32_t stride_alignment;  /* elements; of the strides of query, kv (combine: partial_out) and out. A quantised
                                   kv, whose elements are bytes, has strides of multiples of 16 */
    char target[8];             /* the target's own name, such as "90a"; also when the device's is not supported */
    char variant[64];           /* name of variant 0 */
    char kernel_id[72];         /* hex digest of what is wanted: names cache entries and smla-gen's files */
    char reason[512];           /* when not supported: what was asked, what the limit is, what would work */
    uint32_t blocks_per_sm;     /* persistent: a call launches at most so many blocks of threads a multiprocessor, and
                                   keeps sm_limit of its call's arguments. 0: a block for each query, and sm_limit is
                                   not kept */
    char companion[64];         /* variant of the companion: a kernel of its own beside this one, which a call of few
                                   tokens takes (smla_decode), or one that unpacks its cache
                                   (smla_prefill_wanted_workspace_size); "" where there is none */
    char companion_id[72];      /* its digest, as kernel_id; smla_prepare needs both */
    uint32_t trust;             /* SMLA_TRUST_*, of what is chosen: smla_prepare refuses what is not verified, unless
                                   the context has SMLA_CONTEXT_UNVERIFIED. Generating and compiling is free */
    uint32_t reserved;
    char status[128];       /* the same for people, of variant 0: "verified on: NVIDIA H200 (driver …, date)" */
    char switched_off[256]; /* of what would be chosen otherwise, what the context's kill switch takes away
                               (smla_context_desc.disable): names with spaces between them; "" is nothing */
} smla_support;

/* Tells whether a description can be served, and how.
 *
 * context: may be NULL when desc names a target. desc, out: not NULL.
 * Needs no driver when desc names a target. An unsupported description is an answer (SMLA_OK, supported 0), and so is
 * one whose kernels the context's kill switch takes away; `reason` names it.
 * Returns SMLA_OK; INVALID_ARGUMENT; UNAVAILABLE or DRIVER (no target named and the device cannot be asked).
 * Since 0.1. */
SMLA_API smla_status smla_query_support(smla_context *context, const smla_kernel_desc *desc, smla_support *out);

/* ---- Kernel ------------------------------------------------------------------------------------------------ */

/* A compiled, loaded and resolved kernel of one CUDA context. */
typedef struct smla_kernel smla_kernel;

/* Makes a kernel ready: finds it in memory, in the cache, or compiles it; loads and resolves it.
 *
 * Afterwards a call (smla_prefill, smla_decode, smla_combine) does nothing but check arguments and launch. Threads that
 * ask for the same kernel at once share one compilation. A kernel with a companion (smla_support) is both of them, the
 * second compiled meanwhile by a thread that ends before the call does. May take seconds; never call it where that
 * hurts. out:
 * receives the kernel; the caller destroys it with smla_kernel_destroy, before the context. Stream and thread: uses the
 * CUDA context current to the calling thread (or the primary one by SMLA_CONTEXT_PRIMARY); leaves the current context
 * as it was. Returns SMLA_OK; INVALID_ARGUMENT; UNSUPPORTED; UNAVAILABLE (no driver or too old, no current context, no
 * NVRTC or one that does not know the target, called in a forked child, a driver without what a checked kernel or the
 * self-test calls); NOT_CACHED; COMPILE (with the log; the source is not compiled again in this process: whoever asks
 * gets the same error at once); TIMEOUT (compile_limit_ms); DRIVER; OUT_OF_MEMORY; SELF_TEST (remembered too). An entry
 * that the driver does not load counts as not cached. What may pass (all but COMPILE and SELF_TEST) is tried again when
 * it is asked for again. Since 0.1.
 *
 * Which kernels are chosen. One that is not verified (smla_support.trust) only with SMLA_CONTEXT_UNVERIFIED; one that
 * the kill switch names never. Without its variant for few queries, or its companion, a kernel serves their calls
 * itself (one over a quantised cache without what unpacks it, too); for a persistent kernel one that has a block of
 * threads a query is chosen, for a decode kernel its companion.
 * Where nothing is left: UNSUPPORTED, and the message says whether it was the kill switch.
 *
 * Self-test (SMLA_CONTEXT_SELF_TEST). Before a kernel is handed out each of its variants, and its companion, computes a
 * small problem with entries that are not valid, short lengths, an empty row and sinks; out, lse and max_logits are
 * compared with a float64 reference on the CPU. That takes milliseconds, up to 32 MiB of device memory for as long, and
 * a stream of its own, which it waits for. What came of it is remembered for the process, by kernel, compiler, device
 * and driver. A kernel that is wrong gives SELF_TEST, with variant, element, what it is and what it should be. While a
 * stream of this thread captures the test would end the capture: INVALID_ARGUMENT, where the legacy or the per-thread
 * stream tells it. (A capture of another stream that the driver does not tell of is not disturbed.) */
SMLA_API smla_status smla_prepare(smla_context *context, const smla_kernel_desc *desc, smla_kernel **out);

/* A prepare in the background: pending, then ready or failed, for good. Its kernel is handed over once. */
typedef struct smla_preparation smla_preparation;

/* Of smla_prepare_wait: without a limit. */
#define SMLA_WAIT_FOREVER UINT32_MAX

/* Begins what smla_prepare does in a thread of the context, and does not wait for it: the call takes microseconds.
 * A context has at most four such threads, started when there is work; more preparations than that queue up. They block
 * all signals but faults, and end with the context. (A fifth to eighth thread compiles companions, and with
 * compile_limit_ms four more compile.)
 *
 * desc: copied. out: receives the preparation; the caller destroys it, before the context or after it.
 * Stream and thread: the kernel belongs to the CUDA context that is current here and now (or the primary one by
 * SMLA_CONTEXT_PRIMARY), which must live until the prepare is done. In a process where nobody has loaded the driver
 * there is no such context, and the driver is not loaded to find that out.
 * When the context is destroyed: what had not begun fails, what was under way is waited for, and a kernel that was not
 * taken is lost: smla_prepare_poll and smla_prepare_wait return UNAVAILABLE, and smla_prepare_destroy is still due.
 * In a child forked later the preparation stays in the parent: UNAVAILABLE there, and destroying it does nothing.
 * Returns SMLA_OK; INVALID_ARGUMENT (NULL, a struct_size that cannot be); UNSUPPORTED (a struct of a newer smla);
 * UNAVAILABLE (no current context, a forked child); DRIVER; OUT_OF_MEMORY (no thread to be had, too). All else comes
 * from smla_prepare_poll and smla_prepare_wait. Since 0.1. */
SMLA_API smla_status smla_prepare_start(smla_context *context, const smla_kernel_desc *desc, smla_preparation **out);

/* Tells how far a preparation is; never waits.
 *
 * out: receives the kernel when it is ready, the caller's from then on (as from smla_prepare); NULL: only asks.
 * Returns SMLA_OK when it is ready; SMLA_PENDING; the status of smla_prepare when it failed, each time, with what
 * smla_last_error() would tell there told in this thread; INVALID_ARGUMENT (NULL preparation; the kernel was handed
 * over before); UNAVAILABLE (its context was destroyed, a forked child). Since 0.1. */
SMLA_API smla_status smla_prepare_poll(smla_preparation *preparation, smla_kernel **out);

/* As smla_prepare_poll, after waiting until it is no longer pending, at most timeout_ms (SMLA_WAIT_FOREVER: no limit;
 * 0: polls). SMLA_PENDING: the time is up. Several threads may wait; one of them gets the kernel. Since 0.1. */
SMLA_API smla_status smla_prepare_wait(smla_preparation *preparation, uint32_t timeout_ms, smla_kernel **out);

/* Destroys a preparation, and its kernel if nobody took it; does not wait. One that has not begun never does; one that
 * is under way ends by itself, and what it compiled is kept for who asks next. NULL is allowed. Since 0.1. */
SMLA_API void smla_prepare_destroy(smla_preparation *preparation);

/* Destroys a kernel. Its code stays loaded until the context is destroyed. Launched work is not affected.
 * NULL is allowed. Since 0.1. */
SMLA_API void smla_kernel_destroy(smla_kernel *kernel);

/* ---- Beside other kernels ------------------------------------------------------------------------------------ */

/* How a call's launch stands to the others of its stream; of smla_prefill, smla_decode and smla_combine. */
enum {
    /* Programmatic dependent launch: the kernel may start while the kernel before it in the stream is ending (when all
     * of its blocks have executed griddepcontrol.launch_dependents, which CUDA C++ calls
     * cudaTriggerProgrammaticLaunchCompletion, or have ended). It prepares itself, and then waits until that kernel has
     * ended and its memory is seen, before it reads or writes anything that a pointer of the call leads to: results are
     * what they are without the flag. The wait is for that one kernel: if it was launched in the same way, it must have
     * waited for its own predecessor (griddepcontrol.wait, cudaGridDependencySynchronize), or that one may still run.
     * Kernels of smla always do. Where something else than a kernel stands before it in the stream, the flag changes
     * nothing. */
    SMLA_LAUNCH_AFTER_PREVIOUS = 1u << 0
};

/* The other side asks for no flag: every kernel of smla executes griddepcontrol.launch_dependents when it begins its
 * last work, so that a kernel which the caller launches behind it with CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_
 * SERIALIZATION may start while it ends. That kernel must execute griddepcontrol.wait before it touches what the call
 * reads or writes.
 *
 * In a capturing stream SMLA_LAUNCH_AFTER_PREVIOUS makes the edge from the kernel node before a programmatic one
 * (CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC), which the replayed graph keeps; every driver that smla runs on (12.4) can.
 * What asks for the edges of such a graph without their data (cuGraphGetEdges before its _v2) gets
 * CUDA_ERROR_LOSSY_QUERY. */

/* ---- Prefill ----------------------------------------------------------------------------------------------- */

enum {
    SMLA_LSE_BASE_2 = 1u << 0,        /* lse in base 2 instead of e */
    SMLA_LSE_WITH_SINK = 1u << 1,     /* lse = log(exp(lse) + exp(sink)); an empty row's lse is then the sink */
    SMLA_LSE_EMPTY_NEGATIVE = 1u << 2 /* an empty row's lse is -inf instead of +inf */
};

/* Arguments of one prefill call. Pointers are device pointers; they and what they point to belong to the caller, and
 * none is kept after the call, but the memory must stay valid until the launched work has run.
 * Strides are in elements of the tensor (bytes of a quantised cache); 0 means contiguous. The last dimension is always
 * contiguous. */
typedef struct smla_prefill_args {
    uint32_t struct_size;
    uint32_t lse_flags; /* SMLA_LSE_* */
    int64_t s_q;        /* query tokens, >= 0; 0 launches nothing */
    int64_t s_kv;       /* rows of kv, >= 0 */
    int64_t topk;       /* entries of an index list, >= 0 and <= 2^31 - 1 */
    float sm_scale;     /* multiplies q.k; finite, below 2.35e38 */
    uint32_t reserved;
    const void *query;            /* [s_q, h_q, d_qk] bf16 */
    int64_t query_stride_token;   /* 0: query_stride_head * h_q */
    int64_t query_stride_head;    /* 0: d_qk */
    const void *kv;               /* [s_kv, d_qk] bf16, or bytes of the kernel's kv_format; V is the first d_v columns.
                                     May be NULL when s_kv is 0 */
    int64_t kv_stride_token;      /* 0: d_qk, or the format's bytes a token. 0 in a format placed by page */
    const int32_t *indices;       /* [s_q, topk]; valid: 0 <= index < s_kv. May be NULL when topk is 0 */
    int64_t indices_stride_token; /* 0: topk */
    const int32_t *topk_length;   /* [s_q]; entries at or past it are ignored; clamped to [0, topk]. NULL: topk */
    int64_t topk_length_stride;   /* 0: 1 */
    const float *attn_sink;       /* [h_q], natural logarithms; joins the softmax, not lse. NULL: none */
    void *out;                    /* [s_q, h_q, d_v] bf16 */
    int64_t out_stride_token;     /* 0: out_stride_head * h_q */
    int64_t out_stride_head;      /* 0: d_v */
    float *lse;                   /* [s_q, h_q] natural log of the sum of exp(logit), without sink. NULL: not wanted */
    int64_t lse_stride_token;     /* 0: h_q */
    float *max_logits;            /* [s_q, h_q] largest logit. NULL: not wanted */
    int64_t max_logits_stride_token; /* 0: h_q */
    void *workspace; /* smla_prefill_workspace_size bytes, aligned to 8, and may be NULL when that is 0; or up to
                        smla_prefill_wanted_workspace_size bytes, aligned to 16 */
    uint64_t workspace_bytes;
    float *ref_out_abs;   /* SMLA_OP_PREFILL_REFERENCE only: [s_q, h_q, d_v] sum of p |v|, contiguous. May be NULL */
    float *ref_logit_abs; /* SMLA_OP_PREFILL_REFERENCE only: [s_q, h_q] |sm_scale| sum |q k| of the row's largest
                             key, contiguous. May be NULL */
    /* Pages of kv: row i is token i % kv_page_tokens of page i / kv_page_tokens. 0: kv is one run of rows. A format
     * placed by page needs them. */
    int64_t kv_page_tokens;
    int64_t kv_stride_page; /* 0: kv_page_tokens tokens without a gap, where those come to a multiple of 16 bytes */
    /* The second cache, of a kernel with an extra_kv_format: its list joins the first one's under one softmax. Each
     * field means what the first cache's means. */
    int64_t extra_s_kv;
    int64_t extra_topk;
    const void *extra_kv;
    int64_t extra_kv_stride_token;
    int64_t extra_kv_page_tokens;
    int64_t extra_kv_stride_page;
    const int32_t *extra_indices;
    int64_t extra_indices_stride_token;
    const int32_t *extra_topk_length;
    int64_t extra_topk_length_stride;
    /* Multiprocessors that the kernel may take, so that others (communication, say) run beside it: a persistent kernel
     * launches at most sm_limit * smla_support.blocks_per_sm blocks of threads, 0: as many as the device has place for.
     * A wish that persistent kernels alone keep: others have a block a query, and take what the device gives them. More
     * than the device has is as 0. Time depends on it; bits do not, but for few queries of a kernel that is not
     * batch_invariant, and for the last few of a long call without lengths: over how many blocks they are split depends
     * on it as it does on s_q. (Those last few are a launch of their own, behind the other.) */
    int32_t sm_limit;      /* >= 0 */
    uint32_t launch_flags; /* SMLA_LAUNCH_*. A checked kernel waits for the stream in any case, and is launched
                              without */
} smla_prefill_args;

/* Tells how many bytes of device memory a call of up to these sizes needs as `workspace`: a few for a checked kernel, 0
 * for others. Its contents need not be anything, and mean nothing afterwards; a call that is still running has it
 * alone. Returns SMLA_OK; INVALID_ARGUMENT (NULL or negative). Since 0.1. */
SMLA_API smla_status smla_prefill_workspace_size(const smla_kernel *kernel, int64_t max_s_q, int64_t max_topk,
                                                 uint64_t *out_bytes);

/* Tells how many bytes of workspace make calls of up to these sizes as fast as they can be: those that
 * smla_prefill_workspace_size tells, or more, which a call may do without. With them a call over a quantised cache
 * whose tokens are selected often (s_q * topk over s_kv; smla-gen --emit plan prints how often) unpacks the cache
 * first: it turns each token into a row of d_qk bf16 in the workspace, once, and the kernel's companion (smla_support),
 * the kernel for a bf16 cache, reads those. Up to a third faster (docs/performance.md) for two launches, the second as
 * by SMLA_LAUNCH_AFTER_PREVIOUS; what launch_flags and sm_limit say holds for both. Keys are the same bits either way;
 * out and lse may differ in their last ones, so that a batch_invariant kernel never unpacks, nor does one of two caches
 * or with SMLA_KERNEL_NOT_PERSISTENT. Which way a call goes is told by s_q, topk, s_kv and the workspace alone, never
 * by what memory holds: a captured call is right when it is replayed with other contents. Tokens that no list selects
 * are read too, and may hold anything.
 *
 * max_s_kv: of the cache, >= 0. A call whose workspace_bytes are fewer than its own sizes' number, or whose workspace
 * is not aligned to 16, is served all the same, without unpacking, if it has what it needs. Returns SMLA_OK;
 * INVALID_ARGUMENT (NULL, negative, or more than a call may have). Since 0.1. */
SMLA_API smla_status smla_prefill_wanted_workspace_size(const smla_kernel *kernel, int64_t max_s_q, int64_t max_topk,
                                                        int64_t max_s_kv, uint64_t *out_bytes);

/* Computes sparse attention for s_q independent query tokens:
 *
 *   logit[h, j] = sm_scale * sum_d query[h, d] * kv[indices[j], d]      over the valid entries j of the list
 *   lse[h]      = log sum_j exp(logit[h, j])
 *   out[h, :]   = sum_j exp(logit[h, j]) * kv[indices[j], :d_v] / (exp(lse[h]) + exp(attn_sink[h]))
 *
 * (FlashMLA's flash_mla_sparse_fwd, with any list.) Entries that are negative, at or past s_kv, or at or past
 * topk_length are ignored wherever they stand; duplicates count; there is no causal mask. A row with no valid entry
 * has out 0, lse +inf, max_logits -inf. A NaN in a selected key or in the query makes out, lse and max_logits NaN in
 * the heads it reaches; a NaN sink does so for its head.
 *
 * stream: a CUstream; NULL is the legacy default stream; any kind of stream and a capturing one are allowed. The
 * kernel's CUDA context need not be current.
 * Does nothing but check the arguments and launch: no allocation, lock, file, synchronisation.
 *
 * Checked kernels (SMLA_KERNEL_CHECKED). By contract an entry that is not valid is ignored and a length is clamped,
 * which hides a bug in what made them. A checked kernel's call, before it launches the kernel as ever,
 *  - asks the driver for the allocation of each tensor, and refuses one whose first to last byte does not lie in it, or
 *    that the kernel's device cannot access. What the driver does not know (memory of malloc where the device reads it)
 *    and memory of the virtual memory API, where neighbours may be joined, is not refused; nor is a tensor that leaves
 *    its part of a larger allocation, such as one block of a framework's pool;
 *  - runs a small kernel over the lists, both caches', and refuses the first place, by query token and then by slot (in
 *    each token the first cache before the second, a length before its list), that is an entry below the length which
 *    is neither valid nor -1 (the marker of an entry that is not there), or a length outside [0, topk];
 *  - waits for `stream`, and so for what was enqueued there before, to know the answer.
 * The refusal is INVALID_ARGUMENT and names the place: "indices[row 17][slot 43] is 70000: neither -1 nor below s_kv
 * 65536". The kernel is not launched then and outputs are untouched; the workspace is written. What the same stream is
 * given afterwards sees nothing of it. Cost: one read of the lists, one round trip to the device (some 20 us), a driver
 * call a tensor. It cannot be captured: in a capturing stream it is refused with INVALID_ARGUMENT (where another
 * stream's capture forbids waiting for the legacy stream, with DRIVER), and nothing is added to the capture. Lists that
 * another stream changes meanwhile are not protected; where an entry was bad and is good when read again, the refusal
 * says so.
 *
 * Returns SMLA_OK when the work was enqueued; INVALID_ARGUMENT (NULL or misaligned pointers, negative sizes or
 * sm_limit, strides that are misaligned or overflow, sm_scale not finite, unknown flags; of a checked kernel: what it
 * found, a workspace that is missing, too small or misaligned, a capturing stream; nothing was launched); DRIVER (the
 * launch failed; of a checked kernel: any other of its driver calls, and so the failure of work enqueued before). Since
 * 0.1. */
SMLA_API smla_status smla_prefill(smla_kernel *kernel, const smla_prefill_args *args, void *stream);

/* ---- Decode ------------------------------------------------------------------------------------------------ */

enum {
    SMLA_DECODE_LENGTHS_PER_REQUEST = 1u << 0,      /* topk_length is [b], not [b, s_q] */
    SMLA_DECODE_EXTRA_LENGTHS_PER_REQUEST = 1u << 1 /* extra_topk_length is */
};

/* Arguments of one decode call: s_q query tokens of each of b requests. Rules as for smla_prefill_args, and fields of
 * the same name mean the same, with a stride of requests in front of that of tokens. */
typedef struct smla_decode_args {
    uint32_t struct_size;
    uint32_t lse_flags;             /* SMLA_LSE_* */
    uint32_t decode_flags;          /* SMLA_DECODE_* */
    float sm_scale;                 /* multiplies q.k; finite, below 2.35e38 */
    int64_t b;                      /* requests, >= 0; 0 launches nothing */
    int64_t s_q;                    /* query tokens of each, >= 0; 0 launches nothing */
    int64_t s_kv;                   /* slots of kv: pages * kv_page_tokens */
    int64_t topk;                   /* entries of an index list, >= 0 and <= 2^31 - 1 */
    const void *query;              /* [b, s_q, h_q, d_qk] bf16 */
    int64_t query_stride_request;   /* 0: query_stride_token * s_q */
    int64_t query_stride_token;     /* 0: query_stride_head * h_q */
    int64_t query_stride_head;      /* 0: d_qk */
    const void *kv;                 /* pages of kv_page_tokens tokens in the kernel's kv_format. May be NULL when s_kv
                                       is 0 */
    int64_t kv_page_tokens;         /* of a page, any number; 0: kv is one run of tokens */
    int64_t kv_stride_page;         /* 0: kv_page_tokens tokens without a gap */
    int64_t kv_stride_token;        /* 0: the format's bytes (bf16: d_qk elements). 0 in a format placed by page */
    const int32_t *indices;         /* [b, s_q, topk] slots: page * kv_page_tokens + token of the page; valid:
                                       0 <= index < s_kv. May be NULL when topk is 0 */
    int64_t indices_stride_request; /* 0: indices_stride_token * s_q */
    int64_t indices_stride_token;   /* 0: topk */
    const int32_t *topk_length;     /* [b, s_q], or [b] by decode_flags; entries at or past it are ignored; clamped to
                                       [0, topk]. NULL: topk */
    int64_t topk_length_stride_request; /* 0: topk_length_stride * s_q, or 1 for [b] */
    int64_t topk_length_stride;         /* of tokens. 0: 1. For [b] leave 0 */
    const float *attn_sink;             /* [h_q], natural logarithms; joins the softmax, not lse. NULL: none */
    void *out;                          /* [b, s_q, h_q, d_v] bf16 */
    int64_t out_stride_request;         /* 0: out_stride_token * s_q */
    int64_t out_stride_token;           /* 0: out_stride_head * h_q */
    int64_t out_stride_head;            /* 0: d_v */
    float *lse;                         /* [b, s_q, h_q], natural, without sink. NULL: not wanted */
    int64_t lse_stride_request;         /* 0: lse_stride_token * s_q */
    int64_t lse_stride_token;           /* 0: lse_stride_head * h_q */
    int64_t lse_stride_head;            /* 0: 1 */
    void *workspace;                    /* smla_decode_workspace_size bytes, aligned to 16; NULL when that is 0 */
    uint64_t workspace_bytes;
    int64_t extra_s_kv;
    int64_t extra_topk;
    const void *extra_kv;
    int64_t extra_kv_page_tokens;
    int64_t extra_kv_stride_page;
    int64_t extra_kv_stride_token;
    const int32_t *extra_indices;
    int64_t extra_indices_stride_request;
    int64_t extra_indices_stride_token;
    const int32_t *extra_topk_length;
    int64_t extra_topk_length_stride_request;
    int64_t extra_topk_length_stride;
    int32_t sm_limit;      /* multiprocessors that the main kernel may take, >= 0; 0: all. Without batch_invariant, bits
                              depend on it */
    uint32_t launch_flags; /* SMLA_LAUNCH_* */
} smla_decode_args;

/* Tells how many bytes of device memory a call of up to these sizes, with any lengths and sm_limit, needs as
 * `workspace`, whether it takes the kernel or its companion: parts of results, as many as keys can really be shared
 * among (twice the device's multiprocessors, or with batch_invariant each token's pieces of 1024 keys or more). Its
 * contents need not be anything, and mean nothing afterwards; a call that is still running has it alone.
 *
 * max_b, max_s_q, max_topk, max_extra_topk: >= 0; max_extra_topk is 0 for a kernel of one cache.
 * Returns SMLA_OK; INVALID_ARGUMENT (NULL, negative, or more than a call may have). Since 0.1. */
SMLA_API smla_status smla_decode_workspace_size(const smla_kernel *kernel, int64_t max_b, int64_t max_s_q,
                                                int64_t max_topk, int64_t max_extra_topk, uint64_t *out_bytes);

/* Computes for each token of each request what smla_prefill computes for a query token, the same formula with the same
 * rules for entries that are not valid, empty rows, NaN and sinks; but all tokens' keys are shared among the device's
 * multiprocessors, by the real lengths, which the device reads: one request fills the device, and so does one long
 * request among short ones.
 *
 * The same bits every time for the same call. Without batch_invariant they depend on how keys were shared, and so on
 * b, s_q, topk, all lengths and sm_limit; with it, on the token's own inputs and topk alone.
 *
 * A call of few tokens takes the kernel's companion (smla_support) where there is one: b * s_q times the companion's
 * blocks of heads times the blocks of 64 keys in a token's lists are few beside the multiprocessors (smla-gen --emit
 * plan prints how many). Lengths have no part in it, so that a captured call stays what it is.
 *
 * Two launches at most: the main kernel, and one that combines what was shared, which starts beside it and waits.
 * Nothing is read back, allocated or waited for. A captured call is right when it is replayed with other contents of
 * query, caches, indices and lengths.
 *
 * kernel: of SMLA_OP_DECODE. stream and context: as for smla_prefill.
 * Returns SMLA_OK when the work was enqueued; INVALID_ARGUMENT (as smla_prefill; a workspace that is missing, too small
 * or misaligned; b * s_q tokens that are more than kernels count; nothing was launched); DRIVER (a launch failed).
 * Since 0.1. */
SMLA_API smla_status smla_decode(smla_kernel *kernel, const smla_decode_args *args, void *stream);

/* ---- Combine ----------------------------------------------------------------------------------------------- */

/* Types of elements, where a call names one. */
enum { SMLA_DTYPE_BF16 = 0, SMLA_DTYPE_FLOAT32 = 1 };

/* Arguments of one combine call. Rules as for smla_prefill_args. `out` and `lse` may not overlap the partials.
 * partial_out and out start at multiples of 16 bytes, and their strides are multiples of 16 bytes. */
typedef struct smla_combine_args {
    uint32_t struct_size;
    uint32_t lse_flags;         /* SMLA_LSE_*, of lse */
    uint32_t partial_lse_flags; /* SMLA_LSE_BASE_2: partial_lse is in base 2. SMLA_LSE_EMPTY_NEGATIVE is allowed and
                                   changes nothing: an infinity of either sign is an empty part */
    uint32_t partial_dtype;     /* SMLA_DTYPE_*, of partial_out */
    uint32_t out_dtype;         /* SMLA_DTYPE_*, of out */
    uint32_t reserved;
    int64_t parts;           /* partial results, >= 0 and <= 2^31 - 1; 0 is as if all were empty */
    int64_t s_q;             /* query tokens, >= 0; 0 launches nothing */
    const void *partial_out; /* [parts, s_q, h_q, d_v] each part's out, without the sink. May be NULL when parts is 0 */
    int64_t partial_out_stride_part;  /* 0: partial_out_stride_token * s_q */
    int64_t partial_out_stride_token; /* 0: partial_out_stride_head * h_q */
    int64_t partial_out_stride_head;  /* 0: d_v */
    const float *partial_lse; /* [parts, s_q, h_q] each part's lse, without the sink. May be NULL when parts is 0 */
    int64_t partial_lse_stride_part;  /* 0: partial_lse_stride_token * s_q */
    int64_t partial_lse_stride_token; /* 0: partial_lse_stride_head * h_q */
    int64_t partial_lse_stride_head;  /* 0: 1 */
    const float *attn_sink;           /* [h_q], natural logarithms; joins the softmax here, once. NULL: none */
    void *out;                        /* [s_q, h_q, d_v] */
    int64_t out_stride_token;         /* 0: out_stride_head * h_q */
    int64_t out_stride_head;          /* 0: d_v */
    float *lse;                       /* [s_q, h_q] of all parts together, by lse_flags. NULL: not wanted */
    int64_t lse_stride_token;         /* 0: lse_stride_head * h_q */
    int64_t lse_stride_head;          /* 0: 1 */
    uint32_t launch_flags;            /* SMLA_LAUNCH_* */
    uint32_t reserved_2;
} smla_combine_args;

/* Merges what sparse attention gave for `parts` disjoint shards of the keys into what it gives for all of them:
 *
 *   w[i]    = exp(partial_lse[i] - max_j partial_lse[j])
 *   out[:]  = sum_i w[i] * partial_out[i, :] / (sum_i w[i] + exp(attn_sink - max_j partial_lse[j]))
 *   lse     = max_j partial_lse[j] + log sum_i w[i]
 *
 * of each query token and head, in float32. A part whose lse is +inf or -inf is empty: it adds nothing, and its row of
 * partial_out is not read. Where all are empty, out is 0 and lse as lse_flags say (+inf). A NaN lse makes its row NaN,
 * a NaN in the row of a part that is not empty its element; a NaN sink is a NaN in its head. An infinite sink: +inf
 * makes out 0, -inf is none. Each row's bits depend on its own inputs alone and are the same each time.
 *
 * kernel: of SMLA_OP_COMBINE; it holds a variant for each pair of types, so that no call compiles.
 * stream and context: as for smla_prefill.
 * Does nothing but check the arguments and launch: no allocation, lock, file, synchronisation.
 * Returns SMLA_OK when the work was enqueued; INVALID_ARGUMENT (a kernel of another op, NULL or misaligned pointers,
 * negative sizes, strides that are misaligned or overflow, unknown types or flags; nothing was launched); DRIVER (the
 * launch failed). Since 0.1. */
SMLA_API smla_status smla_combine(smla_kernel *kernel, const smla_combine_args *args, void *stream);

/* ---- Source and offline ------------------------------------------------------------------------------------ */

enum {
    SMLA_EMIT_PLAN = 1, /* text: every number with its reason */
    SMLA_EMIT_CUDA = 2, /* one CUDA file, all headers inlined in order */
    SMLA_EMIT_PTX = 3,
    SMLA_EMIT_CUBIN = 4,
    SMLA_EMIT_COMPANION = 1u << 8 /* beside one of them: of the kernel's companion (smla_support.companion) */
};

/* Receives the result, in one call. Returns 0, or an errno that ends smla_generate with SMLA_ERROR_IO. */
typedef int32_t (*smla_write_fn)(void *user, const void *bytes, size_t size_bytes);

/* Generates a kernel's plan, source, PTX or cubin. Needs no GPU and no driver when desc names a target; PTX and cubin
 * need NVRTC or a cache entry; what is compiled is put into the cache as smla_prepare does. With a cache folder PTX and
 * cubin of a kernel see to its companion's entry there too, so that the folder has all that smla_prepare needs.
 *
 * emit: SMLA_EMIT_*. write: called once, from the calling thread, on success only; the bytes are valid during that
 * call. Returns SMLA_OK; INVALID_ARGUMENT; UNSUPPORTED (SMLA_EMIT_COMPANION where there is none, too); UNAVAILABLE;
 * NOT_CACHED; COMPILE; IO; OUT_OF_MEMORY. Since 0.1. */
SMLA_API smla_status smla_generate(smla_context *context, const smla_kernel_desc *desc, uint32_t emit,
                                   smla_write_fn write, void *user);

/* ---- Statistics -------------------------------------------------------------------------------------------- */

typedef struct smla_stats_counters {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t memory_hits; /* prepare or generate answered from this context's memory */
    uint64_t disk_hits;   /* … from the cache folder */
    uint64_t misses;      /* … from nowhere */
    uint64_t compiles;    /* compilations started */
    uint64_t compile_failures;
    uint64_t compile_ns;   /* time in the compiler, summed */
    uint64_t shared_waits; /* calls that waited for another thread's compilation of the same kernel */
    uint64_t entries_written;
    uint64_t entries_damaged;     /* entries and bundles found damaged and treated as misses */
    uint64_t cache_errors;        /* operations on folders and bundles that failed; the work went on from memory */
    uint64_t refused_compiles;    /* misses under SMLA_JIT_OFF, SMLA_JIT_SEALED or after smla_context_seal */
    uint64_t kernels_loaded;      /* modules handed to the driver */
    uint64_t load_ns;             /* time loading and resolving them, summed */
    uint64_t node_waits;          /* calls that waited for another process or context that compiled the same kernel */
    uint64_t node_wait_ns;        /* time of those waits, summed; at most a minute each */
    uint64_t bundle_hits;         /* answered from a bundle. Tiers in order: memory, bundles, system, cache folder */
    uint64_t system_hits;         /* … from the system folder */
    uint64_t compile_timeouts;    /* calls that compile_limit_ms ended */
    uint64_t remembered_failures; /* calls answered by an earlier failure to compile the same source */
    uint64_t events;              /* since the context was made; the last of them are kept */
    uint64_t self_tests;          /* kernels that were tested; what is remembered is not tested again */
    uint64_t self_test_failures;  /* kernels that were not handed out for it, remembered ones too */
    uint64_t self_test_ns;        /* time of the tests, summed */
    uint64_t entries_refused;     /* entries that are whole and that the driver does not load: treated as misses */
    uint64_t driver_ns;           /* time of prepares in the driver, summed: opening it, asking it, and load_ns */
} smla_stats_counters;

/* Reads a context's counters. Returns SMLA_OK; INVALID_ARGUMENT. Since 0.1. */
SMLA_API smla_status smla_stats(const smla_context *context, smla_stats_counters *out);

/* One row a kind of event: name, value (never renumbered), its word in smla_stats_json. */
#define SMLA_EVENT_LIST(X)                                                                                             \
    X(SMLA_EVENT_MEMORY_HIT, 1, "memory-hit")                                                                          \
    X(SMLA_EVENT_BUNDLE_HIT, 2, "bundle-hit")                                                                          \
    X(SMLA_EVENT_SYSTEM_HIT, 3, "system-hit")                                                                          \
    X(SMLA_EVENT_CACHE_HIT, 4, "cache-hit") /* in the user's cache folder */                                           \
    X(SMLA_EVENT_COMPILE_START, 5, "compile-start")                                                                    \
    X(SMLA_EVENT_COMPILE_END, 6, "compile-end")         /* status: SMLA_OK, or why not */                              \
    X(SMLA_EVENT_COMPILE_REFUSED, 7, "compile-refused") /* a miss where nothing is compiled: jit off, sealed */        \
    X(SMLA_EVENT_COMPILE_TIMEOUT, 8, "compile-timeout") /* a call waited for compile_limit_ms */                       \
    X(SMLA_EVENT_FAILURE_HIT, 9, "failure-hit")         /* the source was refused before, and is not compiled */       \
    X(SMLA_EVENT_THREAD_WAIT, 10, "thread-wait")        /* a call waited for another thread's compilation */           \
    X(SMLA_EVENT_NODE_WAIT, 11, "node-wait")            /* … for another process' */                                 \
    X(SMLA_EVENT_STORE, 12, "store")                    /* an entry was written */                                     \
    X(SMLA_EVENT_STORE_FAILED, 13, "store-failed")                                                                     \
    X(SMLA_EVENT_DAMAGE, 14, "damage")    /* an entry, a bundle file or a part of one is not what was written */       \
    X(SMLA_EVENT_UNUSED, 15, "unused")    /* a folder, file or lock that cannot be used, and is done without */        \
    X(SMLA_EVENT_EVICTION, 16, "evicted") /* entries were removed from the cache folder */                             \
    X(SMLA_EVENT_LOAD, 17, "load") /* code was handed to the driver and resolved; status: SMLA_OK, or why not */       \
    X(SMLA_EVENT_SELF_TEST_START, 18, "self-test-start")                                                               \
    X(SMLA_EVENT_SELF_TEST_PASSED, 19, "self-test-passed")                                                             \
    X(SMLA_EVENT_SELF_TEST_FAILED, 20, "self-test-failed") /* status: SELF_TEST, or why it did not end */              \
    X(SMLA_EVENT_SWITCHED_OFF, 21, "switched-off")   /* by the kill switch; status: SMLA_OK where others serve */      \
    X(SMLA_EVENT_UNVERIFIED, 22, "unverified")       /* a kernel that is not verified was refused */                   \
    X(SMLA_EVENT_ENTRY_REFUSED, 23, "entry-refused") /* an entry is whole, and the driver does not load it */

enum {
#define SMLA_EVENT_ENUM(name, value, text) name = (value),
    SMLA_EVENT_LIST(SMLA_EVENT_ENUM)
#undef SMLA_EVENT_ENUM
};

/* Where a kernel was found, or what is told of was. */
enum { SMLA_TIER_NONE = 0, SMLA_TIER_MEMORY = 1, SMLA_TIER_BUNDLE = 2, SMLA_TIER_SYSTEM = 3, SMLA_TIER_CACHE = 4 };

typedef struct smla_event {
    uint32_t struct_size;
    uint32_t kind;        /* SMLA_EVENT_* */
    uint64_t number;      /* the context's first is 0 */
    uint64_t time_ns;     /* when it was over, since 1970 (UTC) */
    uint64_t duration_ns; /* 0: it took no time worth telling */
    smla_status status;   /* of what failed; SMLA_OK */
    uint32_t tier;        /* SMLA_TIER_* */
    char kernel_id[72];   /* as of smla_support; "": it is about no kernel, or several */
    char kernel[160];     /* its description; "": not known */
    char message[320];    /* the line that smla_log_fn was given; both texts are cut to fit */
} smla_event;

/* Reads what the context did last, the oldest first: the last 256 events are kept. Kernel calls make no events.
 *
 * since: number of the first event wanted; 0 for all that are kept, else one more than the last one that was read. When
 * the first one has a greater number, those between are gone.
 * events: [capacity], where events[0].struct_size says how large each is; may be NULL when capacity is 0.
 * count: receives how many were written.
 * Returns SMLA_OK; INVALID_ARGUMENT (NULL, a struct_size that cannot be); UNSUPPORTED (events[0] is a struct of a newer
 * smla, and not zero there); OUT_OF_MEMORY. Since 0.1. */
SMLA_API smla_status smla_events(smla_context *context, uint64_t since, smla_event *events, size_t capacity,
                                 size_t *count);

/* Writes the counters and the events that are kept as one JSON object in UTF-8:
 *
 *   {"smla": "0.1.0", "counters": {"memory_hits": 0, …},
 *    "events": [{"number": 0, "time_ns": …, "duration_ns": 0, "status": 0, "kind": "compile-start", "tier": "none",
 *                "kernel_id": "…", "kernel": "…", "message": "…"}, …]}
 *
 * Names are those of smla_stats_counters and smla_event, kinds those of SMLA_EVENT_LIST.
 *
 * out: [capacity] bytes, the text with a NUL behind it; NULL: only tells the size. size_bytes: receives the size of the
 * text with its NUL. Where it does not fit (events come in meanwhile: ask again) out is untouched and *size_bytes is
 * set all the same. Returns SMLA_OK; INVALID_ARGUMENT (NULL, capacity too small); OUT_OF_MEMORY. Since 0.1. */
SMLA_API smla_status smla_stats_json(smla_context *context, char *out, size_t capacity, size_t *size_bytes);

#ifdef __cplusplus
}
#endif

#endif
