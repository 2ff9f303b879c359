/* A decoded kernel: what the reader and decoder make of PTX text, and what the engine runs.
 *
 * text --reader--> syntax (syntax.h) --decoder--> program (this file) --engine--> effects
 *
 * Registers are rows of 32 lanes, raw bits: 16- and 32-bit registers are rows of uint32_t (upper bits zero for 16),
 * 64-bit ones rows of uint64_t, predicates one bit a lane. PTX's endless virtual registers are coalesced by liveness
 * into few rows (decode.c), so that a warp's registers stay in the cache. */
#ifndef EMU_PROGRAM_H
#define EMU_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EMU_LANES = 32, EMU_ALL_LANES_COUNT = 32 };
#define EMU_ALL_LANES 0xffffffffu

struct emu_warp;
struct emu_instr;

/* Types as PTX writes them; registers are raw, so a type says how an instruction reads them. */
enum emu_type {
    EMU_NONE,
    EMU_PRED,
    EMU_B8,
    EMU_B16,
    EMU_B32,
    EMU_B64,
    EMU_B128,
    EMU_U8,
    EMU_U16,
    EMU_U32,
    EMU_U64,
    EMU_S8,
    EMU_S16,
    EMU_S32,
    EMU_S64,
    EMU_F16,
    EMU_F16X2,
    EMU_BF16,
    EMU_BF16X2,
    EMU_TF32,
    EMU_F32,
    EMU_F32X2,
    EMU_F64,
    EMU_E4M3X2,
    EMU_E5M2X2,
    EMU_UE8M0X2,
    EMU_TYPES
};

/* Size of a type in bits; 1 for EMU_PRED, 0 for EMU_NONE. */
int emu_type_bits(enum emu_type type);
/* From PTX's spelling without the dot ("s32"); EMU_NONE when it is no type. */
enum emu_type emu_type_find(const char *name);

enum emu_space {
    EMU_GENERIC,
    EMU_GLOBAL,
    EMU_SHARED_CTA,     /* .shared, .shared::cta */
    EMU_SHARED_CLUSTER, /* .shared::cluster: the window carries the block's rank in bits 24 and up */
    EMU_LOCAL,
    EMU_PARAM,
    EMU_CONST
};

/* Special registers. */
enum emu_special {
    EMU_TID_X,
    EMU_TID_Y,
    EMU_TID_Z,
    EMU_NTID_X,
    EMU_NTID_Y,
    EMU_NTID_Z,
    EMU_CTAID_X,
    EMU_CTAID_Y,
    EMU_CTAID_Z,
    EMU_NCTAID_X,
    EMU_NCTAID_Y,
    EMU_NCTAID_Z,
    EMU_LANEID,
    EMU_WARPID,
    EMU_NWARPID,
    EMU_SMID,
    EMU_NSMID,
    EMU_GRIDID,
    EMU_LANEMASK_EQ,
    EMU_LANEMASK_LT,
    EMU_LANEMASK_LE,
    EMU_LANEMASK_GT,
    EMU_LANEMASK_GE,
    EMU_CLOCK,
    EMU_CLOCK_HI,
    EMU_CLOCK64,
    EMU_GLOBALTIMER,
    EMU_CLUSTERID_X,
    EMU_CLUSTERID_Y,
    EMU_CLUSTERID_Z,
    EMU_NCLUSTERID_X,
    EMU_NCLUSTERID_Y,
    EMU_NCLUSTERID_Z,
    EMU_CLUSTER_CTAID_X,
    EMU_CLUSTER_CTAID_Y,
    EMU_CLUSTER_CTAID_Z,
    EMU_CLUSTER_NCTAID_X,
    EMU_CLUSTER_NCTAID_Y,
    EMU_CLUSTER_NCTAID_Z,
    EMU_CLUSTER_CTARANK,
    EMU_CLUSTER_NCTARANK,
    EMU_IS_EXPLICIT_CLUSTER,
    EMU_DYNAMIC_SMEM_SIZE,
    EMU_TOTAL_SMEM_SIZE,
    EMU_SPECIALS
};

enum emu_operand_kind {
    EMU_OP_NONE,
    EMU_OP_REG,       /* row, bits 16, 32 or 64 */
    EMU_OP_PRED,      /* row, negated */
    EMU_OP_PRED_PAIR, /* %p|%q: row and row2 (-1: sink), bits 1; %r|%p (shfl, match, lop3): bits 32, row a register's */
    EMU_OP_IMM, /* imm: the bits, sign-extended for integers (bits 0); bits 32 or 64: a 0f or 0d (decimal) literal's */
    EMU_OP_SPECIAL, /* imm: enum emu_special */
    EMU_OP_ADDRESS, /* [base + imm]: row of base (bits 32 or 64) or -1; imm holds displacement and symbol offset */
    EMU_OP_SYMBOL,  /* a variable's address as a value: imm, of space `space`: absolute for global and const memory,
                       an offset in its window or segment otherwise */
    EMU_OP_LABEL,   /* imm: pc */
    EMU_OP_VECTOR,  /* first, count: operands in the kernel's pool; tensor coordinates too */
    EMU_OP_TENSOR,  /* [map, {coordinates}]: row of the map's address, first and count of the coordinates */
    EMU_OP_SINK     /* _ */
};

struct emu_operand {
    uint8_t kind; /* enum emu_operand_kind */
    uint8_t bits;
    uint8_t space; /* enum emu_space of a symbol, or of the symbol that an address is based on */
    bool negated;
    int32_t row;
    int32_t row2;
    int32_t first;
    int32_t count;
    int64_t imm;
};

/* A row that an instruction reads or writes, for the engine's checks. */
enum emu_row_class { EMU_ROW32, EMU_ROW64, EMU_ROW_PRED };
struct emu_row_use { /* a result never has the row of another register that the instruction reads */
    uint8_t row_class;
    int32_t row;
};

/* What the engine does after an instruction. */
enum emu_action {
    EMU_NEXT,    /* all of `mask` goes on to pc + 1 */
    EMU_BRANCH,  /* the instruction has set the groups' pcs itself (control.c alone) */
    EMU_BLOCKED, /* try the same instruction again when what it waits for has happened (warp->wait says what) */
    EMU_YIELD,   /* as EMU_NEXT, and let another warp run */
    EMU_FAULT    /* reported; the launch ends */
};

/* Executes an instruction for the lanes in `mask` (active and guard true; never 0 unless the row says it wants that).
 */
typedef enum emu_action (*emu_exec_fn)(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask);

/* Opcode-specific facts that a bind function works out once. */
struct emu_facts {
    uint8_t compare; /* setp, set: own enum */
    uint8_t bool_op;
    uint8_t rounding; /* enum emu_rounding */
    uint8_t space;    /* enum emu_space */
    uint8_t vector;   /* ld, st: elements */
    uint8_t mode;
    bool ftz, sat, nan, approx, full, wide, hi, aligned, uniform, relu, satfinite;
    int16_t m, n, k;
    int64_t number; /* whatever else */
};

enum emu_rounding { EMU_RN, EMU_RZ, EMU_RM, EMU_RP, EMU_RNA, EMU_RNI, EMU_RZI, EMU_RMI, EMU_RPI };

struct emu_instr {
    emu_exec_fn exec;
    const struct emu_row *row; /* of the opcode table */
    const char *text;          /* the whole opcode, "add.s32", NUL-terminated */
    int32_t guard;             /* predicate row; -1: none */
    bool guard_negated;
    bool orders_lanes;          /* a .sync or a wait: what its lanes did before is seen by all of them after */
    bool guard_by_exec;         /* exec wants all active lanes and applies the guard itself */
    uint8_t type, type2, type3; /* enum emu_type, in the order they stand in the opcode */
    uint16_t operand_count;
    uint16_t read_count, write_count;
    const struct emu_operand *operands;
    const struct emu_row_use *reads, *writes; /* guard included in reads */
    struct emu_facts facts;
    uint32_t line;        /* of the PTX text */
    uint32_t source_file; /* of .loc; 0: none */
    uint32_t source_line;
};

/* ---- The opcode table ---- */

struct emu_bind {
    struct emu_instr *instr; /* to complete: exec, types, facts. Operands are resolved */
    const struct emu_operand *pool;
    int token_count;           /* of the opcode, the base name not counted */
    const char *const *tokens; /* as matched, in order, "" where an optional one is absent: one per pattern element */
    char *why;                 /* 256 bytes for the reason when bind returns false */
};

/* Completes an instruction whose opcode matched the row. False: refused, with a reason. */
typedef bool (*emu_bind_fn)(const struct emu_bind *bind);

/* A row of the permitted set.
 *
 * pattern: base name and elements in order. ".x" must stand there; ".[a,b]" one of them must; ".{a,b}" one of them may.
 *   "add.{rn,rz,rm,rp}.{ftz}.{sat}.f32", "ld.{relaxed,volatile}.[global,shared].{v2,v4}.[b8,u32,f32]".
 *   A token with brackets or colons ("shared::cta", "L2::128B") is written as in PTX. A shape is written as it is, or
 *   with # for any number: "m64n#k16".
 * operands: one letter an operand, d written, s read, x both, m an address, t a tensor, l a label; after '?' optional.
 *   A vector counts as one operand; its elements are all d, s or x. */
struct emu_row {
    const char *pattern;
    const char *operands;
    emu_bind_fn bind;
    const char *isa; /* PTX ISA section, where it is not obvious */
};

struct emu_row_list {
    const struct emu_row *rows;
    size_t count;
};
extern const struct emu_row_list emu_alu_rows; /* alu*.c: arithmetic, logic, moves, conversions, warp votes, shuffles */
extern const struct emu_row_list
    emu_control_rows; /* control.c: bra, ret, exit, trap, nanosleep, setmaxnreg, griddepcontrol … */
extern const struct emu_row_list
    emu_sync_rows; /* sync_ops.c: bar, barrier, mbarrier, fence, membar, cp.async, elect … */
extern const struct emu_row_list
    emu_memory_rows; /* memory_ops.c: ld, st, atom, red, cvta, isspacep, mapa, prefetch … */
extern const struct emu_row_list
    emu_tensor_rows; /* tensor*.c: wgmma, mma, ldmatrix, stmatrix, bulk and tensor copies */

/* ---- Kernels and modules ---- */

struct emu_variable {
    const char *name;
    uint8_t space; /* enum emu_space */
    uint32_t align;
    uint64_t size;
    uint64_t offset;     /* within its space's segment; an extern .shared array starts where the static ones end */
    const uint8_t *init; /* NULL: zero */
};

struct emu_param {
    uint32_t offset;
    uint32_t size;
    uint32_t align;
};

struct emu_kernel {
    const char *name;
    const struct emu_module *module;
    struct emu_instr *instrs;
    uint32_t instr_count;
    struct emu_operand *pool;
    uint32_t row32_count, row64_count, pred_count;
    const struct emu_param *params;
    uint32_t param_count;
    uint32_t param_bytes;
    uint64_t static_shared_bytes; /* behind EMU_SHARED_RESERVED; dynamic ones start behind them, aligned */
    uint64_t dynamic_align;
    uint64_t local_bytes;         /* a thread */
    uint32_t max_threads;         /* .maxntid; 0: not said */
    uint32_t required_ntid[3];    /* .reqntid; 0: not said */
    uint32_t required_cluster[3]; /* .reqnctapercluster; 0: not said */
    uint32_t launch_registers; /* from .maxnreg, or the launch bounds: 65536 / threads, at most 255, a multiple of 8 */
    bool explicit_cluster;
};

struct emu_module {
    struct emu_kernel *kernels;
    uint32_t kernel_count;
    struct emu_variable *globals; /* .global and .const of the module; the driver gives them memory */
    uint32_t global_count;
    uint8_t *global_memory; /* one block, offsets as in globals; owned by the module */
    size_t global_bytes;
    const char **files; /* of .file; index 1 up */
    uint32_t file_count;
    char target[16];  /* "sm_90a" */
    const char *text; /* a NUL-terminated copy of the PTX */
    void *arena;      /* owns everything above */
};

/* Reads and decodes PTX. NULL with a sentence that names line and opcode in why[] when anything is not understood:
 * execute exactly or refuse by name. text need not be NUL-terminated. */
struct emu_module *emu_module_load(const char *text, size_t size, char why[512]);
void emu_module_free(struct emu_module *module);
const struct emu_kernel *emu_module_find(const struct emu_module *module, const char *name);

#endif
