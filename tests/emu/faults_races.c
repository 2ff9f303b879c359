/* Races in shared memory. */
#include "faults.h"

#define BOTH_IN_CLUSTER "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"

static const struct fault_case cases[] = {
    {"read after write, between warps",
     "st.shared.u32 [%r6], %r1; //1\n"
     "+bar.sync 0;\n"
     "xor.b32 %r10, %r6, 128;\n"
     "ld.shared.u32 %r11, [%r10]; //2\n",
     .kind = EMU_RACE, .certain = SOMETIMES, .message = "no barrier"},
    {"read by warp 1 after write by warp 0 that runs first",
     "@%p1 st.shared.u32 [%r6], %r1; //1\n"
     "+bar.sync 0;\n"
     "sub.u32 %r10, %r6, 128;\n"
     "!@%p1 bra DONE;\n"
     "!nanosleep.u32 100;\n"
     "@%p3 ld.shared.u32 %r11, [%r10]; //2\n"
     "DONE:\n",
     .kind = EMU_RACE, .certain = ALWAYS, .message = "no barrier"},
    {"write after read, between warps",
     "st.shared.u32 [%r6], %r1;\n"
     "bar.sync 0;\n"
     "@%p1 ld.shared.u32 %r11, [%r6+128]; //1\n"
     "+bar.sync 0;\n"
     "@%p3 st.shared.u32 [%r6], %r1; //2\n",
     .kind = EMU_RACE, .certain = ALWAYS},
    {"write after two readers of which one is in order",
     "st.shared.u32 [%r6], %r1;\n"
     "bar.sync 0;\n"
     "setp.le.u32 %p10, %r3, 1;\n"
     "setp.ge.u32 %p11, %r3, 1;\n"
     "@%p10 ld.shared.u32 %r11, [%r5]; //1\n"
     "!@%p11 bar.sync 1, 64;\n"
     "+bar.sync 1, 96;\n"
     "setp.eq.u32 %p12, %r1, 64;\n"
     "@%p12 st.shared.u32 [%r5], %r1; //2\n",
     .threads = 96, .kind = EMU_RACE, .certain = ALWAYS},
    {"write after write, between warps",
     "@%p1 st.shared.u32 [%r6], %r1; //1\n"
     "+bar.sync 0;\n"
     "@%p3 st.shared.u32 [%r6+-128], %r1; //2\n",
     .kind = EMU_RACE, .certain = ALWAYS},
    {"bytes: the same byte is a race, the neighbours are none",
     "add.u32 %r10, %r5, %r3;\n"
     "!mov.u32 %r10, %r5;\n"
     "@%p4 st.shared.u8 [%r10], %r1; //2\n",
     .threads = 128, .kind = EMU_RACE, .certain = ALWAYS},
    {"halfwords: the same is a race, the neighbour is none",
     "mad.lo.u32 %r10, %r3, 2, %r5;\n"
     "!mov.u32 %r10, %r5;\n"
     "mov.u16 %h1, 7;\n"
     "@%p4 st.shared.b16 [%r10], %h1; //2\n",
     .kind = EMU_RACE, .certain = ALWAYS},
    {"a word read over a byte that another warp has written",
     "setp.eq.u32 %p10, %r1, 32;\n"
     "@%p1 st.shared.u32 [%r6], %r1;\n"
     "bar.sync 0;\n"
     "@%p2 st.shared.u8 [%r5+2], %r1; //1\n"
     "+bar.sync 0;\n"
     "@%p10 ld.shared.u32 %r11, [%r5]; //2\n",
     .kind = EMU_RACE, .certain = ALWAYS},
    {"between lanes of a warp",
     "st.shared.u32 [%r6], %r1; //1\n"
     "+bar.warp.sync 0xffffffff;\n"
     "xor.b32 %r10, %r6, 4;\n"
     "ld.shared.u32 %r11, [%r10]; //2\n",
     .threads = 32, .kind = EMU_RACE, .certain = ALWAYS, .message = "bar.warp.sync"},
    {"between lanes of a warp that have parted, before they meet",
     "@%p4 bra ONE;\n"
     "+bar.warp.sync 0xffffffff;\n"
     "setp.eq.u32 %p10, %r2, 1;\n"
     "@%p10 ld.shared.u32 %r11, [%r5]; //2\n"
     "!bar.warp.sync 0xffffffff;\n"
     "bra DONE;\n"
     "ONE:\n"
     "st.shared.u32 [%r5], %r1;  //1\n"
     "bar.warp.sync 0xffffffff;\n"
     "DONE:\n",
     .threads = 32, .kind = EMU_RACE, .certain = SOMETIMES},
    {"write after read between lanes of a warp",
     "st.shared.u32 [%r6], %r1;\n"
     "bar.warp.sync 0xffffffff;\n"
     "xor.b32 %r10, %r6, 4;\n"
     "ld.shared.u32 %r11, [%r10]; //1\n"
     "+bar.warp.sync 0xffffffff;\n"
     "st.shared.u32 [%r6], %r11; //2\n",
     .threads = 32, .kind = EMU_RACE, .certain = ALWAYS, .message = "bar.warp.sync"},
    {"between blocks of a cluster",
     "mov.u32 %r10, smem;\n"
     "mapa.shared::cluster.u32 %r11, %r10, 0;\n"
     "@%p2 st.shared.u32 [%r5+64], %r1;\n" BOTH_IN_CLUSTER "setp.eq.and.u32 %p10, %r4, 1, %p2;\n"
     "setp.eq.and.u32 %p11, %r4, 0, %p2;\n"
     "@%p10 st.shared::cluster.u32 [%r11], %r1; //1\n"
     "+"
     "barrier.cluster.arrive.aligned;\n"
     "+"
     "barrier.cluster.wait.aligned;\n"
     "!@%p10 bra OUT;\n"
     "!@%p11 bar.warp.sync 1;\n"
     "@%p11 ld.shared.u32 %r12, [%r5]; //2\n"
     "OUT:\n" BOTH_IN_CLUSTER,
     .threads = 32, .blocks = 2, .cluster = 2, .kind = EMU_RACE, .certain = SOMETIMES},
    {"an atomic and a plain write",
     "@%p2 st.shared.u32 [%r5+256], 0;\n"
     "bar.sync 0;\n"
     "@%p1 red.shared.add.u32 [%r5+256], 1; //1\n"
     "+@%p3 red.shared.add.u32 [%r5+256], 1;\n"
     "!@%p3 st.shared.u32 [%r5+256], %r1; //2\n",
     .kind = EMU_RACE, .certain = ALWAYS},
    {"atomics of several warps are no race; a weak read of the sum is",
     "@%p2 st.shared.u32 [%r5], 0;\n"
     "bar.sync 0;\n"
     "atom.shared.add.u32 %r10, [%r5], 1; //1\n"
     "+bar.sync 0;\n"
     "ld.shared.u32 %r11, [%r5]; //2\n",
     .kind = EMU_RACE, .certain = ALWAYS},
    {"release and acquire of a flag in shared memory",
     "st.shared.u32 [%r6], 0;\n"
     "bar.sync 0;\n"
     "@%p1 bra WRITER;\n"
     "SPIN:\n"
     "+ld.acquire.cta.shared.u32 %r10, [%r5];\n"
     "!ld.relaxed.cta.shared.u32 %r10, [%r5];\n"
     "setp.eq.u32 %p10, %r10, 0;\n"
     "@%p10 bra SPIN;\n"
     "ld.shared.u32 %r11, [%r5+4]; //2\n"
     "bra DONE;\n"
     "WRITER:\n"
     "@!%p2 bra DONE;\n"
     "st.shared.u32 [%r5+4], 7; //1\n"
     "st.release.cta.shared.u32 [%r5], 1;\n"
     "DONE:\n",
     .kind = EMU_RACE, .certain = ALWAYS},
    {"a flag with a fence on both sides; none before the write",
     "st.shared.u32 [%r6], 0;\n"
     "bar.sync 0;\n"
     "@%p1 bra WRITER;\n"
     "SPIN:\n"
     "ld.volatile.shared.u32 %r10, [%r5];\n"
     "setp.eq.u32 %p10, %r10, 0;\n"
     "@%p10 bra SPIN;\n"
     "fence.acq_rel.cta;\n"
     "ld.shared.u32 %r11, [%r5+4]; //2\n"
     "bra DONE;\n"
     "WRITER:\n"
     "@!%p2 bra DONE;\n"
     "!fence.acq_rel.cta;\n"
     "st.shared.u32 [%r5+4], 7; //1\n"
     "+fence.acq_rel.cta;\n"
     "st.volatile.shared.u32 [%r5], 1;\n"
     "DONE:\n",
     .kind = EMU_RACE, .certain = ALWAYS},
    {"the acquire is of another flag",
     "st.shared.u32 [%r6], 0;\n"
     "bar.sync 0;\n"
     "@%p1 bra WRITER;\n"
     "SPIN:\n"
     "ld.relaxed.cta.shared.u32 %r10, [%r5];\n"
     "setp.eq.u32 %p10, %r10, 0;\n"
     "@%p10 bra SPIN;\n"
     "!ld.acquire.cta.shared.u32 %r10, [%r5+8];\n"
     "+ld.acquire.cta.shared.u32 %r10, [%r5];\n"
     "ld.shared.u32 %r11, [%r5+4]; //2\n"
     "bra DONE;\n"
     "WRITER:\n"
     "@!%p2 bra DONE;\n"
     "st.shared.u32 [%r5+4], 7; //1\n"
     "st.release.cta.shared.u32 [%r5], 1;\n"
     "DONE:\n",
     .kind = EMU_RACE, .certain = ALWAYS},
    {"another block's shared memory after that block may have ended",
     "mov.u32 %r10, smem;\n"
     "mapa.shared::cluster.u32 %r11, %r10, 0;\n"
     "@%p2 st.shared.u32 [%r5], 3;\n" BOTH_IN_CLUSTER "setp.eq.and.u32 %p10, %r4, 1, %p2;\n"
     "@%p10 ld.shared::cluster.u32 %r12, [%r11]; //2\n"
     "+barrier.cluster.arrive.aligned;\n"
     "+barrier.cluster.wait.aligned;\n",
     .threads = 32, .blocks = 2, .cluster = 2, .kind = EMU_RACE, .certain = ALWAYS, .message = "may have ended"},
};
FAULT_LIST(fault_races, cases);
