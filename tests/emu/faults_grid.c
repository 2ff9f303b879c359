/* Global memory before griddepcontrol.wait, in a launch that may start before the one ahead of it has ended. */
#include "faults.h"

#define WAIT "griddepcontrol.wait;\n"

static const struct fault_case cases[] = {
    {"dependent launch: read before the wait",
     "!ld.global.u32 %r10, [%rd4]; //2\n" WAIT "ld.global.u32 %r10, [%rd4];\n", .kind = EMU_RACE, .certain = ALWAYS,
     .message = "reads", .dependent = true},
    {"dependent launch: write before the wait", "!st.global.u32 [%rd4], %r1; //2\n" WAIT "st.global.u32 [%rd4], %r1;\n",
     .kind = EMU_RACE, .certain = ALWAYS, .message = "writes", .dependent = true},
    {"dependent launch: read through a generic address, no wait at all", "+" WAIT "ld.u32 %r10, [%rd4]; //2\n",
     .kind = EMU_RACE, .certain = ALWAYS, .message = "before griddepcontrol.wait", .dependent = true},
    {"dependent launch: atomic before the wait",
     "+" WAIT "red.global.add.u32 [%rd1], 1; //2\n"
     "!" WAIT,
     .kind = EMU_RACE, .certain = ALWAYS, .message = "updates", .dependent = true},
    {"dependent launch: cp.async issued before the wait, landing behind it",
     "mov.u32 %r10, %r6;\n"
     "shl.b32 %r11, %r1, 4;\n"
     "add.u32 %r10, %r5, %r11;\n"
     "mul.wide.u32 %rd10, %r1, 16;\n"
     "add.u64 %rd10, %rd10, %rd1;\n"
     "+" WAIT "cp.async.cg.shared.global [%r10], [%rd10], 16; //2\n"
     "!" WAIT "cp.async.wait_all;\n",
     .kind = EMU_RACE, .certain = ALWAYS, .message = "reads", .dependent = true},
    {"dependent launch: bulk copy issued before the wait",
     "@%p2 mbarrier.init.shared.b64 [bar], 1;\n"
     "bar.sync 0;\n"
     "+" WAIT "@%p2 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;\n"
     "@%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [smem], [%rd1], 64, [bar]; //2\n"
     "!" WAIT "SPIN:\n"
     "mbarrier.try_wait.parity.shared.b64 %p20, [bar], 0;\n"
     "@!%p20 bra SPIN;\n",
     .kind = EMU_RACE, .certain = ALWAYS, .message = "reads", .dependent = true},
    {"dependent launch: one thread waits, and no barrier tells the others",
     "@%p2 " WAIT "+bar.sync 0;\n"
     "ld.global.u32 %r10, [%rd4]; //2\n",
     .kind = EMU_RACE, .certain = ALWAYS, .message = "reads", .dependent = true},
    {"dependent launch: one lane waits, and nothing orders the warp's others after it",
     "@%p4 " WAIT "+bar.warp.sync 0xffffffff;\n"
     "ld.global.u32 %r10, [%rd4]; //2\n",
     .threads = 32, .kind = EMU_RACE, .certain = ALWAYS, .message = "reads", .dependent = true},
    {"dependent launch: one thread waits; an mbarrier tells warp 1, not warp 0",
     "@%p2 mbarrier.init.shared.b64 [bar], 1;\n"
     "bar.sync 0;\n"
     "@%p2 " WAIT "@%p2 mbarrier.arrive.shared.b64 _, [bar];\n"
     "!@%p1 bra READ;\n"
     "SPIN:\n"
     "mbarrier.try_wait.parity.shared.b64 %p20, [bar], 0;\n"
     "@!%p20 bra SPIN;\n"
     "READ:\n"
     "ld.global.u32 %r10, [%rd4]; //2\n",
     .kind = EMU_RACE, .certain = ALWAYS, .message = "reads", .dependent = true},
};
FAULT_LIST(fault_grid, cases);
