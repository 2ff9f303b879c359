/* The operations of the public interface as rows of one table, for the tests that let everything below them fail:
 * driver, compiler, memory, files; and for threads that do all of them at once. */
#ifndef SMLA_RUNTIME_OPERATIONS_H
#define SMLA_RUNTIME_OPERATIONS_H

#include <stdbool.h>

#include "harness.h"

struct operation;

/* What an operation works on. */
struct scene {
    const struct operation *operation;
    struct world world; /* world.context is what the operation uses; NULL: it makes its own */
    char *folder;       /* of this scene alone; its `cache` may be a cache folder */
    char *cache;
    char *bundle; /* a bundle file, where there is one */
    smla_context_desc context_desc;
    smla_kernel_desc desc;
    smla_kernel *kernel;
    bool sealed;  /* so that what cannot be read is NOT_CACHED */
    bool damaged; /* the cache folder's entry, before the operation */
    bool touched; /* atomic: an output was written by an operation that failed */
};

struct operation {
    const char *name;
    smla_kernel_desc (*desc)(void);
    void (*arrange)(struct scene *scene);    /* before anything fails; more than one in one world */
    smla_status (*act)(struct scene *scene); /* what may fail; again, and by several threads, unless `alone` */
    smla_status usual;                       /* of act, when nothing else fails */
    bool alone;                              /* it needs the scene, or the stubs, for itself */
};

extern const struct operation operations[];
extern const size_t operation_count;

/* In stubs that world_open_stubs and world_serve_all made ready. */
void scene_arrange(struct scene *scene, const struct world *world, const struct operation *operation);

/* Resets the stubs first. */
void scene_open(struct scene *scene, const struct operation *operation);

/* What a test expects of act when nothing fails; fails the test otherwise. */
void scene_must_act(struct scene *scene);

/* Destroys what is left. */
void scene_close(struct scene *scene);

/* Whether this thread does what the device would, where nothing of the library's can fail. */
bool scene_is_on_device(void);

#endif
