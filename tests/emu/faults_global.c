/* Races in global memory; reads and writes outside of what was allocated. */
#include "faults.h"

static const struct fault_case cases[] = {
    {"within a block: read after write",
     "@%p1 st.global.u32 [%rd4], %r1; //1\n"
     "+bar.sync 0;\n"
     "@%p3 ld.global.u32 %r10, [%rd4+-128]; //2\n",
     .kind = EMU_RACE, .certain = ALWAYS, .message = "no barrier"},
    {"within a block: write after write",
     "@%p1 st.global.u32 [%rd4], %r1; //1\n"
     "+bar.sync 0;\n"
     "@%p3 st.global.u32 [%rd4+-128], %r1; //2\n",
     .kind = EMU_RACE, .certain = ALWAYS, .message = "no barrier"},
    {"within a block: write after two readers of which one is in order",
     "setp.ge.u32 %p11, %r3, 1;\n"
     "setp.eq.u32 %p12, %r1, 64;\n"
     "setp.le.u32 %p10, %r3, 1;\n"
     "@%p10 ld.global.u32 %r11, [%rd1]; //1\n"
     "!@%p11 bar.sync 1, 64;\n"
     "+bar.sync 1, 96;\n"
     "@%p12 st.global.u32 [%rd1], %r1; //2\n",
     .threads = 96, .kind = EMU_RACE, .certain = ALWAYS},
    {"halfwords within a block",
     "mul.wide.u32 %rd10, %r3, 2;\n"
     "add.u64 %rd10, %rd10, %rd1;\n"
     "!mov.u64 %rd10, %rd1;\n"
     "mov.u16 %h1, 3;\n"
     "@%p4 st.global.u16 [%rd10], %h1; //2\n",
     .kind = EMU_RACE, .certain = ALWAYS},
    {"between blocks: write after write",
     "mul.wide.u32 %rd10, %r7, 4;\n"
     "add.u64 %rd10, %rd10, %rd1;\n"
     "!mov.u64 %rd10, %rd1;\n"
     "@%p2 st.global.u32 [%rd10], %r1; //2\n",
     .blocks = 4, .kind = EMU_RACE, .certain = ALWAYS, .message = "blocks are not ordered"},
    {"between blocks: an atomic counts, a plain read of the count",
     "@%p2 atom.global.add.u32 %r10, [%rd1], 1;\n"
     "!@%p2 ld.global.u32 %r11, [%rd1]; //2\n",
     .blocks = 4, .kind = EMU_RACE, .certain = ALWAYS},
    {"between blocks: the last block, by atomics and fences, sums up",
     "mul.wide.u32 %rd10, %r7, 4;\n"
     "add.u64 %rd10, %rd10, %rd1;\n"
     "@%p2 st.global.u32 [%rd10+64], %r7; //1\n"
     "+membar.gl;\n"
     "mov.u32 %r11, 0;\n"
     "@%p2 atom.global.add.u32 %r11, [%rd1], 1;\n"
     "setp.eq.and.u32 %p10, %r11, 3, %p2;\n"
     "membar.gl;\n"
     "@%p10 ld.global.v4.u32 {%r12, %r13, %r14, %r15}, [%rd1+64]; //2\n",
     .blocks = 4, .kind = EMU_RACE, .certain = ALWAYS},
    {"between blocks: a flag with release and acquire",
     "@%p6 bra WRITER;\n"
     "@!%p2 bra DONE;\n"
     "SPIN:\n"
     "!ld.relaxed.gpu.global.u32 %r10, [%rd1];\n"
     "+ld.acquire.gpu.global.u32 %r10, [%rd1];\n"
     "setp.eq.u32 %p10, %r10, 0;\n"
     "@%p10 bra SPIN;\n"
     "ld.global.u32 %r11, [%rd1+4]; //2\n"
     "bra DONE;\n"
     "WRITER:\n"
     "@!%p2 bra DONE;\n"
     "st.global.u32 [%rd1+4], 7; //1\n"
     "st.release.gpu.global.u32 [%rd1], 1;\n"
     "DONE:\n",
     .blocks = 2, .kind = EMU_RACE, .certain = ALWAYS},
    {"between blocks: volatile flag and fences; the writer's fence comes too early",
     "@%p6 bra WRITER;\n"
     "@!%p2 bra DONE;\n"
     "SPIN:\n"
     "ld.volatile.global.u32 %r10, [%rd1];\n"
     "setp.eq.u32 %p10, %r10, 0;\n"
     "@%p10 bra SPIN;\n"
     "membar.gl;\n"
     "ld.global.u32 %r11, [%rd1+4]; //2\n"
     "bra DONE;\n"
     "WRITER:\n"
     "@!%p2 bra DONE;\n"
     "!membar.gl;\n"
     "st.global.u32 [%rd1+4], 7; //1\n"
     "+membar.gl;\n"
     "st.volatile.global.u32 [%rd1], 1;\n"
     "DONE:\n",
     .blocks = 2, .kind = EMU_RACE, .certain = ALWAYS},
    {"a reader that spins on one flag and then on another",
     "@%p6 bra WRITER;\n"
     "@!%p2 bra DONE;\n"
     "mov.u32 %r12, 0;\n"
     "COUNT:\n"
     "ld.relaxed.gpu.global.u32 %r10, [%rd1+128];\n"
     "add.u32 %r12, %r12, 1;\n"
     "setp.lt.u32 %p10, %r12, 100;\n"
     "@%p10 bra COUNT;\n"
     "SPIN:\n"
     "ld.relaxed.gpu.global.u32 %r10, [%rd1];\n"
     "setp.eq.u32 %p10, %r10, 0;\n"
     "@%p10 bra SPIN;\n"
     "+fence.acq_rel.gpu;\n"
     "ld.global.u32 %r11, [%rd1+4]; //2\n"
     "bra DONE;\n"
     "WRITER:\n"
     "@!%p2 bra DONE;\n"
     "st.global.u32 [%rd1+4], 7; //1\n"
     "fence.acq_rel.gpu;\n"
     "st.relaxed.gpu.global.u32 [%rd1], 1;\n"
     "DONE:\n",
     .blocks = 2, .kind = EMU_RACE, .certain = ALWAYS},
    {"global memory that nobody has written",
     "!ld.global.u32 %r10, [%rd2+16]; //2\n"
     "+ld.global.u32 %r10, [%rd1+16];\n",
     .threads = 32, .kind = EMU_UNINITIALISED, .certain = ALWAYS, .message = "raw buffer"},
    {"past the end of an allocation",
     "!st.global.u32 [%rd4+65536], %r1; //2\n"
     "+st.global.u32 [%rd4+65408], %r1;\n",
     .threads = 32, .kind = EMU_OUT_OF_BOUNDS, .certain = ALWAYS, .message = "past the end of buffer"},
    {"a null pointer",
     "mov.u64 %rd10, 0;\n"
     "!ld.global.u32 %r10, [%rd10]; //2\n",
     .threads = 32, .kind = EMU_OUT_OF_BOUNDS, .certain = ALWAYS, .message = "null pointer"},
    {"misaligned in global memory",
     "!ld.global.u32 %r10, [%rd4+2]; //2\n"
     "+ld.global.u32 %r10, [%rd4+4];\n",
     .threads = 32, .kind = EMU_MISALIGNED_ACCESS, .certain = ALWAYS},
    {"a vector that is aligned as its elements alone",
     "!ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1+8]; //2\n"
     "+ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1+16];\n",
     .threads = 32, .kind = EMU_MISALIGNED_ACCESS, .certain = ALWAYS},
    {"past the end of shared memory",
     "!st.shared.u32 [%r6+16400], %r1; //2\n"
     "+st.shared.u32 [%r6], %r1;\n",
     .threads = 32, .kind = EMU_OUT_OF_BOUNDS, .certain = ALWAYS, .message = "past its end"},
    {"misaligned in shared memory",
     "!st.shared.u32 [%r6+1], %r1; //2\n"
     "+st.shared.u32 [%r6+4], %r1;\n",
     .threads = 32, .kind = EMU_MISALIGNED_ACCESS, .certain = ALWAYS},
    {"shared memory that nobody has written",
     "+st.shared.u32 [%r6+400], %r1;\n"
     "+bar.warp.sync 0xffffffff;\n"
     "ld.shared.u32 %r10, [%r6+400]; //2\n",
     .threads = 32, .kind = EMU_UNINITIALISED, .certain = ALWAYS, .message = "never written"},
    {"past the end of local memory",
     ".local .align 8 .b8 mine[16];\n"
     "mov.u32 %r10, mine;\n"
     "st.local.u32 [%r10+12], %r1;\n"
     "!st.local.u32 [%r10+16], %r1; //2\n",
     .threads = 32, .kind = EMU_OUT_OF_BOUNDS, .certain = ALWAYS},
    {"misaligned in local memory",
     ".local .align 8 .b8 mine[16];\n"
     "mov.u32 %r10, mine;\n"
     "st.local.u32 [%r10+4], %r1;\n"
     "!st.local.u64 [%r10+4], %rd1; //2\n",
     .threads = 32, .kind = EMU_MISALIGNED_ACCESS, .certain = ALWAYS},
    {"past the end of the parameters",
     "ld.param.u64 %rd10, [raw];\n"
     "!ld.param.u64 %rd10, [raw+8]; //2\n",
     .threads = 32, .kind = EMU_OUT_OF_BOUNDS, .certain = ALWAYS},
    {"misaligned parameter", "!ld.param.u64 %rd10, [buffer+4]; //2\n", .threads = 32, .kind = EMU_MISALIGNED_ACCESS,
     .certain = ALWAYS},
    {"a rank that the cluster does not have",
     "mov.u32 %r10, smem;\n"
     "!add.u32 %r10, %r10, 0x2000000;\n"
     "st.shared::cluster.u32 [%r10], %r1; //2\n",
     .threads = 32, .blocks = 2, .cluster = 2, .kind = EMU_OUT_OF_BOUNDS, .certain = ALWAYS, .message = "rank"},
};
FAULT_LIST(fault_global, cases);
