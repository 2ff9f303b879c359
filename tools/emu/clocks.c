#include "clocks.h"

#include <stdlib.h>
#include <string.h>

static size_t clocks_size(int agents)
{
    return sizeof(struct emu_clocks) + 2 * (size_t)agents * sizeof(uint32_t);
}

struct emu_clocks *emu_clocks_new(int agents)
{
    struct emu_clocks *clocks = calloc(1, clocks_size(agents));
    if (clocks) {
        clocks->references = 1;
        clocks->agents = agents;
    }
    return clocks;
}

struct emu_clocks *emu_clocks_share(struct emu_clocks *clocks)
{
    if (clocks)
        clocks->references++;
    return clocks;
}

void emu_clocks_release(struct emu_clocks *clocks)
{
    if (clocks && --clocks->references == 0)
        free(clocks);
}

bool emu_clocks_own(struct emu_clocks **clocks)
{
    if ((*clocks)->references == 1)
        return true;
    struct emu_clocks *copy = malloc(clocks_size((*clocks)->agents));
    if (!copy)
        return false;
    memcpy(copy, *clocks, clocks_size((*clocks)->agents));
    copy->references = 1;
    (*clocks)->references--;
    *clocks = copy;
    return true;
}

static bool knows(const struct emu_clocks *clocks, const struct emu_clocks *other)
{
    for (int i = 0; i < 2 * clocks->agents; i++)
        if (other->v[i] > clocks->v[i])
            return false;
    return true;
}

void emu_clocks_join(struct emu_clocks **to, const struct emu_clocks *from)
{
    if (*to == from || knows(*to, from) || !emu_clocks_own(to))
        return;
    for (int i = 0; i < 2 * (*to)->agents; i++)
        (*to)->v[i] = from->v[i] > (*to)->v[i] ? from->v[i] : (*to)->v[i];
}

void emu_clocks_learn(struct emu_clocks **to, int agent, uint32_t epoch, bool async)
{
    const bool v_known = (*to)->v[agent] >= epoch, av_known = !async || emu_clocks_av(*to)[agent] >= epoch;
    if ((v_known && av_known) || !emu_clocks_own(to))
        return;
    if (!v_known)
        (*to)->v[agent] = epoch;
    if (!av_known)
        emu_clocks_av(*to)[agent] = epoch;
}

void emu_clocks_fence(struct emu_clocks **clocks)
{
    if (!emu_clocks_own(clocks))
        return;
    memcpy(emu_clocks_av(*clocks), (*clocks)->v, (size_t)(*clocks)->agents * sizeof(uint32_t));
}
