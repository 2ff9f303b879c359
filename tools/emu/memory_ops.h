/* What the memory instructions' files share: reading an opcode's words, sources, orders. */
#ifndef EMU_MEMORY_OPS_H
#define EMU_MEMORY_OPS_H

#include "engine.h"
#include "memory_lanes.h"

/* Memory order of an instruction; in facts.mode. */
enum emu_order { EMU_WEAK, EMU_RELAXED, EMU_ACQUIRE, EMU_RELEASE, EMU_ACQ_REL };

/* True when the opcode has this word. */
bool emu_has_token(const struct emu_bind *bind, const char *word);
/* The space that the opcode names; EMU_GENERIC when none. */
enum emu_space emu_token_space(const struct emu_bind *bind);
/* The last word that is a type. */
enum emu_type emu_token_type(const struct emu_bind *bind);
enum emu_order emu_token_order(const struct emu_bind *bind);
/* 1, or what .v2, .v4, .v8 says. */
int emu_token_vector(const struct emu_bind *bind);

/* Refuses with a sentence; returns false. */
bool emu_refuse(const struct emu_bind *bind, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Checks that a cache policy is given exactly when .L2::cache_hint is there; `index` is where it would stand. */
bool emu_bind_policy(const struct emu_bind *bind, int index);
/* Checks that an operand has as many elements as the opcode's vector. */
bool emu_bind_elements(const struct emu_bind *bind, int index);

/* The elements of an operand: of a vector in the kernel's pool, otherwise itself. */
const struct emu_operand *emu_elements(const struct emu_warp *warp, const struct emu_operand *operand);

/* A source's lanes as the bits of `type`: float literals are in the width they were written in. */
const uint64_t *emu_memory_source(struct emu_warp *warp, const struct emu_operand *operand, enum emu_type type,
                                  uint64_t spare[EMU_LANES]);

/* Tells the race checker of strong accesses: release before the write, the rest after the access. */
void emu_order_before(struct emu_warp *warp, const struct emu_instr *instr, const struct emu_lanes *lanes,
                      uint32_t mask);
void emu_order_after(struct emu_warp *warp, const struct emu_instr *instr, const struct emu_lanes *lanes, uint32_t mask,
                     int touch);

/* ---- Binds of the other files, for the table in memory_ops.c ---- */

bool emu_bind_atom(const struct emu_bind *bind);
bool emu_bind_red(const struct emu_bind *bind);
bool emu_bind_cvta(const struct emu_bind *bind);
bool emu_bind_cvta_to(const struct emu_bind *bind);
bool emu_bind_isspacep(const struct emu_bind *bind);
bool emu_bind_mapa(const struct emu_bind *bind);
bool emu_bind_getctarank(const struct emu_bind *bind);
bool emu_bind_createpolicy(const struct emu_bind *bind);
bool emu_bind_prefetch(const struct emu_bind *bind);
bool emu_bind_discard(const struct emu_bind *bind);
bool emu_bind_applypriority(const struct emu_bind *bind);
bool emu_bind_refused_multimem(const struct emu_bind *bind);
bool emu_bind_refused_stack(const struct emu_bind *bind);

#endif
