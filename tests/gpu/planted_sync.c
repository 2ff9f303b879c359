/* The prefill kernel with a __syncwarp that a lane outside its mask joins, so that compute-sanitizer's synccheck has
 * something to find (it is the tool's own manual's example of a wrong argument). Run under synccheck; by itself it
 * exits 0 once the kernel has run, 77 without a card, 1 after a fault of its own. */
#include "mutant.h"

int main(void)
{
    return mutant_main("named_barrier_sync(SETUP, SMLA_THREADS);",
                       "named_barrier_sync(SETUP, SMLA_THREADS); "
                       "u32 lanes = __ballot_sync(0xffffffff, threadIdx.x % 32 < 16); "
                       "if (threadIdx.x % 32 <= 16) __syncwarp(lanes);",
                       "the kernel with a lane outside its mask");
}
