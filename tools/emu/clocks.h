/* Vector clocks: what an agent knows to have happened (facts/emulation.md 6.1).
 *
 * v[a] is the newest epoch of agent a that happened before; av[a] the newest of it that an asynchronous reader may
 * rely on (fence.proxy.async: av = v). Shared between whoever has the same knowledge and copied before it changes, so
 * that taking an operation's clocks at its issue costs a reference. */
#ifndef EMU_CLOCKS_H
#define EMU_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>

struct emu_clocks {
    int references;
    int agents;
    uint32_t v[]; /* [agents], then av [agents] */
};

static inline uint32_t *emu_clocks_av(struct emu_clocks *clocks)
{
    return clocks->v + clocks->agents;
}

/* All zero, one reference. NULL: out of memory. */
struct emu_clocks *emu_clocks_new(int agents);
struct emu_clocks *emu_clocks_share(struct emu_clocks *clocks);
void emu_clocks_release(struct emu_clocks *clocks);

/* Makes *clocks changeable: a copy of its own if it is shared. False: out of memory. */
bool emu_clocks_own(struct emu_clocks **clocks);

/* *to takes in all that `from` knows; nothing is copied when it knows it already. */
void emu_clocks_join(struct emu_clocks **to, const struct emu_clocks *from);

/* *to learns agent's epoch; as visible to asynchronous readers when `async`. */
void emu_clocks_learn(struct emu_clocks **to, int agent, uint32_t epoch, bool async);

/* fence.proxy.async: av = v. */
void emu_clocks_fence(struct emu_clocks **clocks);

#endif
