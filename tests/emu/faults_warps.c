/* Diverged warps at instructions for all lanes; setmaxnreg. */
#include "faults.h"

static const struct fault_case cases[] = {
    {"bar.sync under a guard that half of the lanes pass",
     "setp.lt.u32 %p10, %r2, 16;\n"
     "!@%p10 bar.sync 0; //2\n"
     "+bar.sync 0;\n",
     .kind = EMU_DIVERGENT, .certain = ALWAYS},
    {"bar.sync in one branch of a warp",
     "setp.lt.u32 %p10, %r2, 16;\n"
     "@%p10 bra LOW;\n"
     "!bar.sync 1, 64; //2\n"
     "bra JOIN;\n"
     "LOW:\n"
     "!bar.sync 2, 64;\n"
     "mov.u32 %r10, 0;\n"
     "JOIN:\n"
     "bar.sync 0;\n",
     .kind = EMU_DIVERGENT, .certain = ALWAYS},
    {"lanes that part after a bar.sync, each with a bar.sync of its own",
     "bar.sync 0;\n"
     "@%p4 bra FIRST;\n"
     "!bar.sync 0; //2\n"
     "bra JOIN;\n"
     "FIRST:\n"
     "!bar.sync 0;\n"
     "mov.u32 %r10, 0;\n"
     "JOIN:\n"
     "bar.sync 0;\n",
     .kind = EMU_DIVERGENT, .certain = ALWAYS, .message = "lanes"},
    {"bra.uni that half of the lanes take",
     "setp.lt.u32 %p10, %r2, 16;\n"
     "!@%p10 bra.uni OUT; //2\n"
     "+@%p10 bra OUT;\n"
     "mov.u32 %r10, 1;\n"
     "OUT:\n",
     .threads = 32, .kind = EMU_DIVERGENT, .certain = ALWAYS, .message = "bra.uni"},
    {"bar.warp.sync by lanes that are not in its mask",
     "!bar.warp.sync 0x0000ffff; //2\n"
     "+bar.warp.sync 0xffffffff;\n",
     .threads = 32, .kind = EMU_DIVERGENT, .certain = ALWAYS, .message = "member mask"},
    {"bar.warp.sync that waits for lanes elsewhere",
     "setp.lt.u32 %p10, %r2, 16;\n"
     "@%p10 bra LOW;\n"
     "!bar.warp.sync 0xffffffff; //2\n"
     "+bar.warp.sync 0xffff0000;\n"
     "bra JOIN;\n"
     "LOW:\n"
     "bar.warp.sync 0x0000ffff;\n"
     "JOIN:\n"
     "bar.sync 0;\n",
     .threads = 32, .kind = EMU_DIVERGENT, .certain = ALWAYS, .message = "lanes"},
    {"shfl.sync with a lane that does not come",
     "setp.lt.u32 %p10, %r2, 16;\n"
     "!@%p10 shfl.sync.bfly.b32 %r10, %r1, 1, 31, 0xffffffff; //2\n"
     "+@%p10 shfl.sync.bfly.b32 %r10, %r1, 1, 31, 0x0000ffff;\n"
     "bar.sync 0;\n",
     .threads = 32, .kind = EMU_DIVERGENT, .certain = ALWAYS},
    {"elect.sync with a lane that does not come",
     "setp.lt.u32 %p10, %r2, 16;\n"
     "@!%p10 bra JOIN;\n"
     "!elect.sync _|%p11, 0xffffffff; //2\n"
     "+elect.sync _|%p11, 0x0000ffff;\n"
     "JOIN:\n"
     "bar.sync 0;\n",
     .threads = 32, .kind = EMU_DIVERGENT, .certain = ALWAYS},
    {"wgmma.fence by half a warp",
     "setp.lt.u32 %p10, %r2, 16;\n"
     "!@%p10 wgmma.fence.sync.aligned; //2\n"
     "+wgmma.fence.sync.aligned;\n",
     .threads = 128, .kind = EMU_DIVERGENT, .certain = ALWAYS},
    {"setmaxnreg: 264 registers",
     "!setmaxnreg.inc.sync.aligned.u32 264; //2\n"
     "+setmaxnreg.dec.sync.aligned.u32 96;\n",
     .threads = 128, .kind = EMU_BAD_REGISTERS, .certain = ALWAYS, .message = "multiple of 8", .max_registers = 128},
    {"setmaxnreg: 100 registers",
     "!setmaxnreg.dec.sync.aligned.u32 100; //2\n"
     "+setmaxnreg.dec.sync.aligned.u32 104;\n",
     .threads = 128, .kind = EMU_BAD_REGISTERS, .certain = ALWAYS, .message = "multiple of 8", .max_registers = 128},
    {"setmaxnreg: dec upwards",
     "!setmaxnreg.dec.sync.aligned.u32 136; //2\n"
     "+setmaxnreg.dec.sync.aligned.u32 120;\n",
     .threads = 128, .kind = EMU_BAD_REGISTERS, .certain = ALWAYS, .message = "dec to 136", .max_registers = 128},
    {"setmaxnreg: inc downwards",
     "setmaxnreg.dec.sync.aligned.u32 96;\n"
     "!setmaxnreg.inc.sync.aligned.u32 80; //2\n"
     "+setmaxnreg.inc.sync.aligned.u32 128;\n",
     .threads = 128, .kind = EMU_BAD_REGISTERS, .certain = ALWAYS, .message = "inc to 80", .max_registers = 128},
    {"setmaxnreg: more than the others have given back",
     "setp.lt.u32 %p10, %r3, 4;\n"
     "@%p10 bra LOW;\n"
     "setmaxnreg.dec.sync.aligned.u32 96;\n"
     "bra JOIN;\n"
     "LOW:\n"
     "!setmaxnreg.inc.sync.aligned.u32 168; //2\n"
     "+setmaxnreg.inc.sync.aligned.u32 160;\n"
     "JOIN:\n",
     .threads = 256, .kind = EMU_DEADLOCKED, .certain = ALWAYS, .message = "registers for setmaxnreg.inc 168",
     .max_registers = 128},
    {"setmaxnreg that one warp of the warpgroup does not execute",
     "!@!%p1 setmaxnreg.dec.sync.aligned.u32 96; //2\n"
     "+setmaxnreg.dec.sync.aligned.u32 96;\n",
     .threads = 128, .kind = EMU_BAD_REGISTERS, .certain = ALWAYS, .message = "warpgroup", .max_registers = 128},
    {"trap", "!@%p2 trap; //2\n", .kind = EMU_TRAP, .certain = ALWAYS},
};
FAULT_LIST(fault_warps, cases);
