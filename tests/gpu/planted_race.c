/* The prefill kernel with its wait for p_ready replaced by a pause, so that compute-sanitizer's racecheck has something
 * to find: a checker that is silent here says nothing when it is silent elsewhere. (A pause, not nothing: racecheck
 * reports what is read after an unordered write, not what is read too early.) Run under racecheck; by itself it exits 0
 * once the kernel has run, 77 without a card, 1 after a fault of its own. */
#include "mutant.h"

int main(void)
{
    return mutant_main("mbarrier_wait(shared_address(&memory.p_ready[p_slot]), turn / P_SLOTS % 2);",
                       "for (int n = 0; n < 50; n++) __nanosleep(1000000);", "the kernel without its wait for P");
}
