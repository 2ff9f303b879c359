/* Missing proxy fences, waits and wgmma fences; registers in flight or never written. */
#include "faults.h"

/* A and B of m64n8k16 without swizzle: 64 rows of 16, then 8 columns of 16. */
#define FILL_MARKED(mark)                                                                                              \
    "mov.u32 %r10, 0;\n"                                                                                               \
    "FILL:\n"                                                                                                          \
    "mad.lo.u32 %r11, %r10, 512, %r6;\n"                                                                               \
    "st.shared.u32 [%r11], 0;" mark "\n"                                                                               \
    "add.u32 %r10, %r10, 1;\n"                                                                                         \
    "setp.lt.u32 %p10, %r10, 8;\n"                                                                                     \
    "@%p10 bra FILL;\n"
#define FILL_TILES FILL_MARKED("")
#define FENCE "fence.proxy.async;\n"
#define DESCRIPTORS                                                                                                    \
    "shr.u32 %r12, %r5, 4;\n"                                                                                          \
    "cvt.u64.u32 %rd10, %r12;\n"                                                                                       \
    "or.b64 %rd10, %rd10, 0x0000001000080000;\n"                                                                       \
    "add.u64 %rd11, %rd10, 128;\n"                                                                                     \
    "mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;\n"                                 \
    "mov.f32 %f4, %f0; mov.f32 %f5, %f0; mov.f32 %f6, %f0; mov.f32 %f7, %f0;\n"                                        \
    "mov.u32 %r20, 0; mov.u32 %r21, 0; mov.u32 %r22, 0; mov.u32 %r23, 0;\n"
#define MMA(d) "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 " d ", %rd10, %rd11, 1, 1, 1, 0, 0;"
#define D0 "{%f0, %f1, %f2, %f3}"
#define D1 "{%f4, %f5, %f6, %f7}"
#define MMA_RS                                                                                                         \
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 " D0 ", {%r20, %r21, %r22, %r23}, %rd11, 1, 1, 1, 0;"
#define WFENCE "wgmma.fence.sync.aligned;\n"
#define COMMIT "wgmma.commit_group.sync.aligned;\n"
#define WAIT(n) "wgmma.wait_group.sync.aligned " #n ";\n"
#define READY FILL_TILES FENCE "bar.sync 0;\n" DESCRIPTORS

#define BAR_INIT "@%p2 mbarrier.init.shared.b64 [bar], 1;\nbar.sync 0;\n"
#define EXPECT(n) "mbarrier.arrive.expect_tx.shared.b64 _, [bar], " #n ";\n"
#define LOAD(to, n) "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [" to "], [%rd1], " #n ", [bar];"
#define BAR_WAIT(mark, label, parity)                                                                                  \
    mark label ":\n" mark "mbarrier.try_wait.parity.shared.b64 %p20, [bar], " #parity ";\n" mark "@!%p20 bra " label   \
               ";\n"

static const struct fault_case cases[] = {
    {"wgmma reads what generic stores wrote, without a proxy fence",
     FILL_MARKED(" //1") "+" FENCE "bar.sync 0;\n" DESCRIPTORS WFENCE MMA(D0) " //2\n" COMMIT WAIT(0), .threads = 128,
     .kind = EMU_MISSING_PROXY_FENCE, .certain = ALWAYS, .message = "fence.proxy.async"},
    {"a bulk store of what generic stores wrote, without a proxy fence",
     "st.shared.u32 [%r6], %r1; //1\n"
     "+fence.proxy.async.shared::cta;\n"
     "bar.sync 0;\n"
     "@!%p2 bra DONE;\n"
     "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r5], 256; //2\n"
     "cp.async.bulk.commit_group;\n"
     "cp.async.bulk.wait_group 0;\n"
     "DONE:\n",
     .kind = EMU_MISSING_PROXY_FENCE, .certain = ALWAYS, .message = "fence.proxy.async"},
    {"the proxy fence comes before the last store",
     "!fence.proxy.async.shared::cta;\n"
     "st.shared.u32 [%r6], %r1; //1\n"
     "+fence.proxy.async.shared::cta;\n"
     "bar.sync 0;\n"
     "@!%p2 bra DONE;\n"
     "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r5], 256; //2\n"
     "cp.async.bulk.commit_group;\n"
     "cp.async.bulk.wait_group 0;\n"
     "DONE:\n",
     .kind = EMU_MISSING_PROXY_FENCE, .certain = ALWAYS},
    {"a bulk load over what was written and read by generic accesses (WAR switch)",
     BAR_INIT "@!%p2 bra DONE;\n"
              "st.shared.u32 [%r5], %r1;\n"
              "fence.proxy.async.shared::cta;\n"
              "ld.shared.u32 %r10, [%r5]; //1\n"
              "+fence.proxy.async.shared::cta;\n" EXPECT(128) LOAD("%r5", 128) " //2\n" BAR_WAIT("", "W", 0) "DONE:\n",
     .kind = EMU_MISSING_PROXY_FENCE, .certain = ALWAYS},
    {"wgmma reads what cp.async wrote, without a proxy fence (policy switch)",
     FILL_TILES FENCE "bar.sync 0;\n"
                      "mul.lo.u32 %r13, %r1, 12; add.u32 %r13, %r13, %r6;\n"
                      "mul.wide.u32 %rd12, %r1, 16; add.u64 %rd12, %rd12, %rd1;\n"
                      "cp.async.cg.shared.global [%r13], [%rd12], 16;\n"
                      "cp.async.wait_all;\n"
                      "+" FENCE "bar.sync 0;\n" DESCRIPTORS WFENCE MMA(D0) " //2\n" COMMIT WAIT(0),
     .threads = 128, .kind = EMU_MISSING_PROXY_FENCE, .certain = ALWAYS},
    {"cp.async: no wait",
     "mul.lo.u32 %r13, %r1, 12; add.u32 %r13, %r13, %r6;\n"
     "cp.async.cg.shared.global [%r13], [%rd1], 16; //1\n"
     "cp.async.commit_group;\n"
     "+cp.async.wait_group 0;\n"
     "bar.sync 0;\n"
     "ld.shared.u32 %r14, [%r13]; //2\n",
     .kind = EMU_RACE, .certain = ALWAYS, .message = "cp.async.wait_group"},
    {"cp.async: wait_group leaves one too many",
     "mul.lo.u32 %r13, %r1, 12; add.u32 %r13, %r13, %r6;\n"
     "cp.async.cg.shared.global [%r13], [%rd1], 16;\n"
     "cp.async.commit_group;\n"
     "cp.async.cg.shared.global [%r13+4096], [%rd1], 16; //1\n"
     "cp.async.commit_group;\n"
     "cp.async.cg.shared.global [%r13+8192], [%rd1], 16;\n"
     "cp.async.commit_group;\n"
     "!cp.async.wait_group 2;\n"
     "+cp.async.wait_group 1;\n"
     "bar.sync 0;\n"
     "ld.shared.u32 %r14, [%r13];\n"
     "ld.shared.u32 %r14, [%r13+4096]; //2\n",
     .kind = EMU_RACE, .certain = ALWAYS, .message = "cp.async.wait_group"},
    {"cp.async: waited for, but no barrier between the warps",
     "mul.lo.u32 %r13, %r1, 12; add.u32 %r13, %r13, %r6;\n"
     "cp.async.cg.shared.global [%r13], [%rd1], 16; //1\n"
     "cp.async.wait_all;\n"
     "+bar.sync 0;\n"
     "xor.b32 %r14, %r13, 512;\n"
     "@%p3 ld.shared.u32 %r15, [%r14]; //2\n",
     .kind = EMU_RACE, .certain = ALWAYS},
    {"cp.async by half a warp while the other half commits other groups",
     "mul.lo.u32 %r13, %r1, 12; add.u32 %r13, %r13, %r6;\n"
     "setp.ge.u32 %p10, %r2, 16;\n"
     "@%p10 bra HIGH;\n"
     "cp.async.commit_group;\n"
     "cp.async.commit_group;\n"
     "cp.async.commit_group;\n"
     "bra JOIN;\n"
     "HIGH:\n"
     "cp.async.cg.shared.global [%r13], [%rd1], 16;  //1\n"
     "cp.async.commit_group;\n"
     "+cp.async.wait_group 0;\n"
     "!cp.async.wait_group 1;\n"
     "ld.shared.u32 %r14, [%r13]; //2\n"
     "JOIN:\n",
     .threads = 32, .kind = EMU_RACE, .certain = ALWAYS},
    {"cp.async and an mbarrier that tracks it: not waited for",
     "@%p2 mbarrier.init.shared.b64 [bar], 64;\n"
     "bar.sync 0;\n"
     "mul.lo.u32 %r13, %r1, 12; add.u32 %r13, %r13, %r6;\n"
     "cp.async.cg.shared.global [%r13], [%rd1], 16; //1\n"
     "cp.async.mbarrier.arrive.noinc.shared.b64 [bar];\n"
     "cp.async.cg.shared.global [%r13+8192], [%rd1], 16;\n"
     "cp.async.commit_group;\n" BAR_WAIT("+", "W", 0) "xor.b32 %r14, %r13, 512;\n"
                                                      "ld.shared.u32 %r15, [%r14]; //2\n"
                                                      "cp.async.wait_group 0;\n"
                                                      "ld.shared.u32 %r15, [%r13+8192];\n",
     .kind = EMU_RACE, .certain = SOMETIMES},
    {"wgmma: wait_group leaves one too many",
     READY WFENCE MMA(D0) "\n" COMMIT MMA(D1) "\n" COMMIT "!" WAIT(2) "+" WAIT(1) "add.f32 %f10, %f0, %f1; //2\n" WAIT(
         0) "add.f32 %f10, %f4, %f5;\n",
     .threads = 128, .kind = EMU_REGISTER_IN_FLIGHT, .certain = ALWAYS, .message = "wgmma.wait_group"},
    {"wgmma: its tiles are overwritten before it was waited for",
     READY WFENCE MMA(D0) " //1\n" COMMIT "+" WAIT(0) "bar.sync 0;\n"
                                                      "@%p2 st.shared.u32 [%r5], 1; //2\n" WAIT(0),
     .threads = 128, .kind = EMU_RACE, .certain = ALWAYS, .message = "wgmma.wait_group"},
    {"wgmma: the accumulator is written in flight",
     READY WFENCE MMA(D0) "\n" COMMIT "+" WAIT(0) "mov.f32 %f2, 0f3f800000; //2\n" WAIT(0) "add.f32 %f9, %f2, %f2;\n",
     .threads = 128, .kind = EMU_REGISTER_IN_FLIGHT, .certain = ALWAYS, .message = "written"},
    {"wgmma: A's registers are overwritten in flight",
     READY WFENCE MMA_RS
     "\n" COMMIT "+" WAIT(0) "mov.u32 %r21, 1; //2\n" WAIT(0) "add.u32 %r30, %r20, %r21;\n"
                                                              "add.u32 %r30, %r22, %r23; add.f32 %f10, %f0, %f1;\n",
     .threads = 128, .kind = EMU_REGISTER_IN_FLIGHT, .certain = ALWAYS, .message = "written"},
    {"wgmma: no fence behind a write of the accumulator", READY "+" WFENCE MMA(D0) " //2\n" COMMIT WAIT(0),
     .threads = 128, .kind = EMU_MISSING_WGMMA_FENCE, .certain = ALWAYS, .message = "wgmma.fence"},
    {"wgmma: no fence behind a read of the accumulator",
     READY WFENCE MMA(D0) "\n" COMMIT WAIT(0) "add.f32 %f10, %f0, %f1;\n+" WFENCE MMA(D0) " //2\n" COMMIT WAIT(0),
     .threads = 128, .kind = EMU_MISSING_WGMMA_FENCE, .certain = ALWAYS},
    {"wgmma: no fence at all before the first",
     FILL_TILES FENCE "bar.sync 0;\n"
                      "shr.u32 %r12, %r5, 4; cvt.u64.u32 %rd10, %r12; or.b64 %rd10, %rd10, 0x0000001000080000;\n"
                      "add.u64 %rd11, %rd10, 128;\n"
                      "+" WFENCE "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 " D0
                      ", %rd10, %rd11, 0, 1, 1, 0, 0; //2\n" COMMIT WAIT(0),
     .threads = 128, .kind = EMU_MISSING_WGMMA_FENCE, .certain = ALWAYS},
    {"wgmma: an accumulator that was never written",
     FILL_TILES FENCE
     "bar.sync 0;\n" DESCRIPTORS WFENCE
     "!wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f10, %f11, %f12, %f13}, %rd10, %rd11, 1, 1, 1, 0, 0; //2\n"
     "+wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f10, %f11, %f12, %f13}, %rd10, %rd11, 0, 1, 1, 0, "
     "0;\n" COMMIT WAIT(0),
     .threads = 128, .kind = EMU_UNINITIALISED, .certain = ALWAYS, .message = "accumulator"},
    {"a bulk load that is read before its mbarrier was waited for",
     BAR_INIT "@!%p2 bra DONE;\n" EXPECT(128) LOAD("%r5", 128) " //1\n" BAR_WAIT(
         "+", "W", 0) "ld.shared.u32 %r10, [%r5]; //2\n" BAR_WAIT("!", "W", 0) "DONE:\n",
     .kind = EMU_RACE, .certain = ALWAYS, .message = "mbarrier"},
    {"a bulk load whose mbarrier is waited for with the wrong parity",
     BAR_INIT "@!%p2 bra DONE;\n" EXPECT(128)
         LOAD("%r5", 128) " //1\n" BAR_WAIT("+", "W", 0) "!mbarrier.try_wait.parity.shared.b64 %p20, [bar], 1;\n"
                                                         "ld.shared.u32 %r10, [%r5]; //2\n"
                                                         "DONE:\n",
     .kind = EMU_RACE, .certain = ALWAYS},
    {"a bulk load that nobody waits for",
     BAR_INIT "@!%p2 bra DONE;\n" EXPECT(128) LOAD("%r5", 128) " //2\n" BAR_WAIT("+", "W", 0) "DONE:\n",
     .kind = EMU_BARRIER_MISUSE, .certain = ALWAYS, .message = "nothing waited for this copy"},
    {"a bulk store that nobody waits for",
     "st.shared.u32 [%r6], %r1;\n"
     "fence.proxy.async.shared::cta;\n"
     "bar.sync 0;\n"
     "@!%p2 bra DONE;\n"
     "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r5], 256; //2\n"
     "cp.async.bulk.commit_group;\n"
     "+cp.async.bulk.wait_group 0;\n"
     "DONE:\n",
     .kind = EMU_BARRIER_MISUSE, .certain = ALWAYS, .message = "nothing waited for this copy"},
    {"a bulk store's source is overwritten: bulk wait_group leaves one too many",
     "st.shared.u32 [%r6], %r1;\n"
     "fence.proxy.async.shared::cta;\n"
     "bar.sync 0;\n"
     "@!%p2 bra DONE;\n"
     "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r5], 128;\n"
     "cp.async.bulk.commit_group;\n"
     "cp.async.bulk.global.shared::cta.bulk_group [%rd1+256], [%r5+128], 128; //1\n"
     "cp.async.bulk.commit_group;\n"
     "!cp.async.bulk.wait_group.read 1;\n"
     "+cp.async.bulk.wait_group.read 0;\n"
     "st.shared.u32 [%r5+128], 1; //2\n"
     "cp.async.bulk.wait_group 0;\n"
     "DONE:\n",
     .kind = EMU_RACE, .certain = ALWAYS, .message = "bulk wait_group"},
    {"wait_group.read does not say that the bytes have been written",
     "st.shared.u32 [%r6], %r1;\n"
     "fence.proxy.async.shared::cta;\n"
     "bar.sync 0;\n"
     "@!%p2 bra DONE;\n"
     "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r5], 128; //1\n"
     "cp.async.bulk.commit_group;\n"
     "!cp.async.bulk.wait_group.read 0;\n"
     "+cp.async.bulk.wait_group 0;\n"
     "ld.global.u32 %r10, [%rd1]; //2\n"
     "!cp.async.bulk.wait_group 0;\n"
     "DONE:\n",
     .kind = EMU_RACE, .certain = ALWAYS},
    {"try_wait without a loop: it may give up",
     BAR_INIT "@%p1 bra WAITER;\n"
              "nanosleep.u32 10;\n"
              "@%p4 st.shared.u32 [%r5], 1; //1\n"
              "@%p4 mbarrier.arrive.shared.b64 _, [bar];\n"
              "bra DONE;\n"
              "WAITER:\n" BAR_WAIT("+", "W", 0) "!mbarrier.try_wait.parity.shared.b64 %p20, [bar], 0;\n"
                                                "ld.shared.u32 %r10, [%r5];\n"
                                                "DONE:\n",
     .kind = EMU_RACE, .certain = SOMETIMES},
    {"an undefined register",
     "!add.u32 %r10, %r40, 1; //2\n"
     "+add.u32 %r10, %r1, 1;\n",
     .threads = 32, .kind = EMU_UNINITIALISED, .certain = ALWAYS, .message = "register"},
    {"a register that half of the lanes have written",
     "setp.lt.u32 %p10, %r2, 16;\n"
     "@%p10 mov.u32 %r10, 1;\n"
     "+@!%p10 mov.u32 %r10, 2;\n"
     "add.u32 %r11, %r10, 1; //2\n",
     .threads = 32, .kind = EMU_UNINITIALISED, .certain = ALWAYS},
    {"an undefined guard",
     "+setp.lt.u32 %p30, %r2, 16;\n"
     "@%p30 mov.u32 %r10, 1; //2\n",
     .threads = 32, .kind = EMU_UNINITIALISED, .certain = ALWAYS},
};
FAULT_LIST(fault_waits, cases);
