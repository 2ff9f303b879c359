/* The two functions that CUDA C's assert and printf call. Nothing is known of their arguments: the reader drops them.
 */
#include "decode.h"
#include "engine.h"

#include <string.h>

/* A failed assert ends the launch (CUDA C++ Programming Guide, Assertion). */
static enum emu_action call_assertfail(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    return emu_fault(warp, instr, __builtin_ctz(mask), EMU_TRAP, "an assertion of the kernel failed");
}

static bool bind_assertfail(const struct emu_bind *bind)
{
    bind->instr->exec = call_assertfail;
    return true;
}

static enum emu_action call_vprintf(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    (void)warp, (void)instr, (void)mask;
    return EMU_NEXT; /* prints nothing */
}

static bool bind_vprintf(const struct emu_bind *bind)
{
    bind->instr->exec = call_vprintf;
    return true;
}

/* What a call returned: 0. vprintf's count of arguments, which no kernel looks at. */
static enum emu_action call_result(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    const struct emu_operand *to = &instr->operands[0];
    for (int lane = 0; lane < EMU_LANES; lane++) {
        if (!(mask >> lane & 1))
            continue;
        if (to->bits == 64)
            emu_row64(warp, to->row)[lane] = 0;
        else
            emu_row32(warp, to->row)[lane] = 0;
    }
    return EMU_NEXT;
}

static bool bind_result(const struct emu_bind *bind)
{
    bind->instr->exec = call_result;
    return bind->instr->operands[0].kind == EMU_OP_REG;
}

static const struct emu_row assertfail_row = {"__assertfail", "", bind_assertfail, "9.7.12.5"};
static const struct emu_row vprintf_row = {"vprintf", "", bind_vprintf, "9.7.12.5"};
const struct emu_row emu_call_result_row = {"ld.param", "d", bind_result, "9.7.12.5"};

const struct emu_row *emu_call_row(const char *function)
{
    if (!strcmp(function, "__assertfail"))
        return &assertfail_row;
    return strcmp(function, "vprintf") ? NULL : &vprintf_row;
}
