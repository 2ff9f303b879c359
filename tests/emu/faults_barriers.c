/* Barriers used wrongly; deadlocks. */
#include "faults.h"

#define WAIT_ON(mark, label, barrier, parity)                                                                          \
    mark label ":\n" mark "mbarrier.try_wait.parity.shared.b64 %p20, [" barrier "], " #parity ";\n" mark               \
               "@!%p20 bra " label ";\n"
#define INIT(n) "@%p2 mbarrier.init.shared.b64 [bar], " #n ";\nbar.sync 0;\n"
#define CLUSTER_SYNC "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"

static const struct fault_case cases[] = {
    {"an mbarrier that was never initialised",
     "+@%p2 mbarrier.init.shared.b64 [bar], 64;\n"
     "+bar.sync 0;\n"
     "+mbarrier.arrive.shared.b64 %rd10, [bar];\n"
     "!mbarrier.arrive.shared.b64 %rd10, [bar]; //2\n",
     .kind = EMU_BARRIER_MISUSE, .certain = ALWAYS, .message = "mbarrier.init is missing", .checks = 0x40},
    {"an mbarrier initialised for no arrival",
     "!@%p2 mbarrier.init.shared.b64 [bar], 0; //2\n"
     "+@%p2 mbarrier.init.shared.b64 [bar], 1;\n",
     .kind = EMU_BARRIER_MISUSE, .certain = ALWAYS},
    {"an arrival for more than are pending",
     INIT(4) "!@%p2 mbarrier.arrive.shared.b64 _, [bar], 5; //2\n"
             "+@%p2 mbarrier.arrive.shared.b64 _, [bar], 4;\n",
     .kind = EMU_BARRIER_MISUSE, .certain = ALWAYS, .message = "over-arrival"},
    {"an arrival for none", INIT(4) "!@%p2 mbarrier.arrive.shared.b64 _, [bar], 0; //2\n", .kind = EMU_BARRIER_MISUSE,
     .certain = ALWAYS},
    {"noComplete completes the phase",
     INIT(4) "!@%p2 mbarrier.arrive.noComplete.shared.b64 %rd10, [bar], 4; //2\n"
             "+@%p2 mbarrier.arrive.noComplete.shared.b64 %rd10, [bar], 3;\n",
     .kind = EMU_BARRIER_MISUSE, .certain = ALWAYS, .message = "noComplete"},
    {"initialised again while in use",
     INIT(2) "@%p2 mbarrier.arrive.shared.b64 _, [bar];\n"
             "+@%p2 mbarrier.arrive.shared.b64 _, [bar];\n"
             "@%p2 mbarrier.init.shared.b64 [bar], 2; //2\n",
     .kind = EMU_BARRIER_MISUSE, .certain = ALWAYS, .message = "in use"},
    {"an arrival after mbarrier.inval",
     INIT(1) "+@%p2 mbarrier.arrive.shared.b64 _, [bar];\n"
             "@%p2 mbarrier.inval.shared.b64 [bar];\n"
             "!@%p2 mbarrier.arrive.shared.b64 _, [bar]; //2\n",
     .kind = EMU_BARRIER_MISUSE, .certain = ALWAYS, .message = "no mbarrier"},
    {"an mbarrier's bytes written as data",
     INIT(1) "!@%p2 st.shared.u32 [bar+4], %r1; //2\n"
             "+@%p2 mbarrier.inval.shared.b64 [bar];\n"
             "+@%p2 st.shared.u32 [bar+4], %r1;\n",
     .kind = EMU_BARRIER_MISUSE, .certain = ALWAYS, .message = "mbarrier"},
    {"fewer bytes expected than come",
     INIT(1) "@!%p2 bra DONE;\n"
             "!mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;\n"
             "+mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;\n"
             "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd1], 256, [bar];\n" WAIT_ON(
                 "", "W", "bar", 0) "DONE:\n",
     .kind = EMU_DEADLOCKED, .certain = ALWAYS, .message = "-128 bytes"},
    {"more bytes expected than come",
     INIT(1) "@!%p2 bra DONE;\n"
             "!mbarrier.arrive.expect_tx.shared.b64 _, [bar], 512;\n"
             "+mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;\n"
             "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd1], 256, [bar];\n"
             "W:\n"
             "mbarrier.try_wait.parity.shared.b64 %p20, [bar], 0; //2\n"
             "@!%p20 bra W;\n"
             "DONE:\n",
     .kind = EMU_DEADLOCKED, .certain = ALWAYS, .message = "256 bytes"},
    {"an mbarrier that misses an arrival, polled with test_wait",
     INIT(2) "@!%p2 bra DONE;\n"
             "mbarrier.arrive.shared.b64 _, [bar];\n"
             "+mbarrier.arrive.shared.b64 _, [bar];\n"
             "W:\n"
             "mbarrier.test_wait.parity.shared.b64 %p20, [bar], 0;\n"
             "@!%p20 bra W;\n"
             "DONE:\n",
     .kind = EMU_DEADLOCKED, .certain = ALWAYS, .message = "mbarrier"},
    {"two warps wait for each other",
     "@%p2 mbarrier.init.shared.b64 [bar], 32;\n"
     "@%p2 mbarrier.init.shared.b64 [bar2], 32;\n"
     "bar.sync 0;\n"
     "@%p1 bra ZERO;\n"
     "+mbarrier.arrive.shared.b64 _, [bar];\n"
     "V:\n"
     "mbarrier.try_wait.parity.shared.b64 %p20, [bar2], 0;\n"
     "@!%p20 bra V;\n"
     "!mbarrier.arrive.shared.b64 _, [bar];\n"
     "bra DONE;\n"
     "ZERO:\n"
     "W:\n"
     "mbarrier.try_wait.parity.shared.b64 %p20, [bar], 0; //2\n"
     "@!%p20 bra W;\n"
     "mbarrier.arrive.shared.b64 _, [bar2];\n"
     "DONE:\n",
     .kind = EMU_DEADLOCKED, .certain = ALWAYS, .message = "waits for the mbarrier"},
    {"a phase overruns a warp that waits for the one before",
     "@%p2 mbarrier.init.shared.b64 [bar], 1;\n"
     "@%p2 mbarrier.init.shared.b64 [bar2], 32;\n"
     "bar.sync 0;\n"
     "@%p1 bra PRODUCER;\n" WAIT_ON("", "A", "bar", 0) "+mbarrier.arrive.shared.b64 _, [bar2];\n" WAIT_ON(
         "+", "B", "bar", 1) "bra DONE;\n"
                             "PRODUCER:\n"
                             "@!%p4 bra DONE;\n"
                             "mbarrier.arrive.shared.b64 _, [bar];\n" WAIT_ON(
                                 "+", "C", "bar2", 0) "mbarrier.arrive.shared.b64 _, [bar]; //2\n"
                                                      "DONE:\n",
     .kind = EMU_BARRIER_MISUSE, .certain = SOMETIMES, .message = "phase overrun"},
    {"a named barrier with another number of threads",
     "!@%p1 bar.sync 1, 64;\n"
     "!@%p3 bar.sync 1, 96;\n"
     "+bar.sync 1, 96;\n",
     .threads = 96, .kind = EMU_BARRIER_MISUSE, .certain = SOMETIMES},
    {"barrier 16",
     "mov.u32 %r10, 16;\n"
     "!bar.sync %r10; //2\n"
     "+mov.u32 %r10, 15;\n"
     "+bar.sync %r10;\n",
     .kind = EMU_BARRIER_MISUSE, .certain = ALWAYS, .message = "barriers 0 to 15"},
    {"barrier 16 of bar.red",
     "mov.u32 %r10, 16;\n"
     "!bar.red.popc.u32 %r11, %r10, %p1; //2\n"
     "+mov.u32 %r10, 15;\n"
     "+bar.red.popc.u32 %r11, %r10, %p1;\n",
     .kind = EMU_BARRIER_MISUSE, .certain = ALWAYS, .message = "barriers 0 to 15"},
    {"a thread count that is no multiple of 32",
     "!bar.sync 1, 48; //2\n"
     "+bar.sync 1, 64;\n",
     .kind = EMU_BARRIER_MISUSE, .certain = ALWAYS, .message = "multiple of 32"},
    {"a warp more than a barrier is for",
     "!bar.sync 1, 64;\n"
     "!@%p1 bar.sync 2, 64;\n"
     "+bar.sync 1, 96;\n",
     .threads = 96, .kind = EMU_BARRIER_MISUSE, .certain = ALWAYS, .message = "cannot know"},
    {"bar.sync that one warp passes by",
     "!@%p1 bar.sync 1, 64; //2\n"
     "!@%p3 bar.sync 2, 64;\n"
     "+bar.sync 1, 64;\n",
     .kind = EMU_DEADLOCKED, .certain = ALWAYS, .message = "barrier 1"},
    {"bar.red and bar.sync on one barrier",
     "!@%p1 bar.sync 1, 64;\n"
     "!@%p3 bar.red.popc.u32 %r10, 1, 64, %p4;\n"
     "+bar.red.popc.u32 %r10, 1, 64, %p4;\n",
     .kind = EMU_BARRIER_MISUSE, .certain = ALWAYS},
    {"a producer that arrives twice before the consumer has come",
     "@%p3 bra CONSUMER;\n"
     "bar.arrive 1, 64;\n"
     "+bar.sync 2, 64;\n"
     "bar.arrive 1, 64; //2\n"
     "bra DONE;\n"
     "CONSUMER:\n"
     "!nanosleep.u32 10;\n"
     "bar.sync 1, 64;\n"
     "+bar.arrive 2, 64;\n"
     "bar.sync 1, 64;\n"
     "DONE:\n",
     .kind = EMU_BARRIER_MISUSE, .certain = ALWAYS, .message = "again"},
    {"barrier.cluster.arrive twice",
     "barrier.cluster.arrive.aligned;\n"
     "!barrier.cluster.arrive.aligned; //2\n"
     "barrier.cluster.wait.aligned;\n",
     .blocks = 2, .cluster = 2, .kind = EMU_BARRIER_MISUSE, .certain = ALWAYS, .message = "arrive again"},
    {"barrier.cluster.wait without an arrival",
     "+barrier.cluster.arrive.aligned;\n"
     "barrier.cluster.wait.aligned; //2\n",
     .blocks = 2, .cluster = 2, .kind = EMU_BARRIER_MISUSE, .certain = ALWAYS},
    {"one block passes the cluster's barrier by",
     "!@!%p5 bra SPIN;\n"
     "barrier.cluster.arrive;\n"
     "barrier.cluster.wait; //2\n"
     "!SPIN:\n"
     "!@%p5 bra DONE;\n"
     "!bar.sync 1, 128;\n"
     "DONE:\n",
     .blocks = 2, .cluster = 2, .kind = EMU_DEADLOCKED, .certain = ALWAYS, .message = "barrier.cluster.wait"},
    {"relaxed cluster arrival orders nothing",
     "mov.u32 %r10, smem;\n"
     "mapa.shared::cluster.u32 %r11, %r10, 0;\n"
     "setp.eq.and.u32 %p10, %r4, 0, %p2;\n"
     "setp.eq.and.u32 %p11, %r4, 1, %p2;\n"
     "@%p10 st.shared.u32 [%r5], 7; //1\n"
     "!barrier.cluster.arrive.relaxed.aligned;\n"
     "+barrier.cluster.arrive.release.aligned;\n"
     "barrier.cluster.wait.acquire.aligned;\n"
     "@%p11 ld.shared::cluster.u32 %r12, [%r11]; //2\n" CLUSTER_SYNC,
     .threads = 32, .blocks = 2, .cluster = 2, .kind = EMU_RACE, .certain = ALWAYS},
    {"another block's mbarrier before the cluster knows of it",
     "mov.u32 %r10, bar;\n"
     "mapa.shared::cluster.u32 %r11, %r10, 0;\n"
     "setp.eq.and.u32 %p10, %r4, 0, %p2;\n"
     "setp.eq.and.u32 %p11, %r4, 1, %p2;\n"
     "@%p10 mbarrier.init.shared.b64 [bar], 1; //1\n"
     "+fence.mbarrier_init.release.cluster;\n"
     "barrier.cluster.arrive.relaxed.aligned;\n"
     "barrier.cluster.wait.acquire.aligned;\n"
     "@%p11 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r11]; //2\n"
     "@!%p5 bra DONE;\n" WAIT_ON("", "W", "bar", 0) "DONE:\n" CLUSTER_SYNC,
     .threads = 32, .blocks = 2, .cluster = 2, .kind = EMU_RACE, .certain = ALWAYS},
};
FAULT_LIST(fault_barriers, cases);
