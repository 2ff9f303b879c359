/* Decoded kernels: operands, layout, rows read and written, refusals; and that coalesced rows never mix registers up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "reader_rows.h"

#define HEAD ".version 9.0\n.target sm_90a\n.address_size 64\n"
#define REGISTERS ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<99>; .reg .b64 %rd<9>;\n"
#define KERNEL(body) HEAD ".visible .entry k(.param .u32 p0, .param .u64 p1)\n{" REGISTERS body "\nret;\n}\n"

static struct emu_module *load_good(const char *text)
{
    char why[512];
    struct emu_module *module = load_small(text, why);
    if (!module)
        fail_msg("%s", why);
    return module;
}

static void assert_refused(const char *text, const char *reason)
{
    char why[512];
    struct emu_module *module = load_small(text, why);
    assert_null(module);
    if (!strstr(why, reason))
        fail_msg("\"%s\" does not say \"%s\"", why, reason);
}

/* ---- Operands ---- */

static void operands_are_resolved(void **state)
{
    (void)state;
    struct emu_module *module =
        load_good(KERNEL("ld.param.u64 %rd1, [p1+4];\nadd.f32 %r1, %r2, 0f3F800000;\n"
                         "shfl.sync.bfly.b32 %r3|%p1, %r1, 1, 31, -1;\n"
                         "@!%p1 ld.global.v2.u32 {%r4, _}, [%rd1+-8];\nmov.u32 %r5, %tid.x;\n"
                         "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::"
                         "bytes [%r1], [%rd1, {%r4, 7}], [%r5];"));
    const struct emu_instr *instr = module->kernels[0].instrs;
    const struct emu_operand *pool = module->kernels[0].pool;
    assert_int_equal(instr[0].operands[1].space, EMU_PARAM);
    assert_int_equal(instr[0].operands[1].imm, 8 + 4);
    assert_int_equal(instr[0].operands[1].row, -1);
    assert_int_equal(instr[0].type, EMU_U64);
    assert_int_equal(instr[1].operands[2].bits, 32);
    assert_int_equal(instr[1].operands[2].imm, 0x3f800000);
    assert_int_equal(instr[2].operands[0].kind, EMU_OP_PRED_PAIR);
    assert_int_equal(instr[2].operands[0].bits, 32);
    assert_int_equal(instr[2].write_count, 2);
    assert_true(instr[3].guard >= 0 && instr[3].guard_negated);
    assert_int_equal(instr[3].operands[0].count, 2);
    assert_int_equal(pool[instr[3].operands[0].first + 1].kind, EMU_OP_SINK);
    assert_int_equal(instr[3].operands[1].imm, -8);
    assert_int_equal(instr[3].read_count, 2); /* guard and address */
    assert_int_equal(instr[3].reads[0].row_class, EMU_ROW_PRED);
    assert_int_equal(instr[3].reads[1].row_class, EMU_ROW64);
    assert_int_equal(instr[3].write_count, 1);
    assert_int_equal(instr[4].operands[1].imm, EMU_TID_X);
    assert_int_equal(instr[5].operands[1].kind, EMU_OP_TENSOR);
    assert_int_equal(instr[5].read_count, 4);
    assert_int_equal(module->kernels[0].instr_count, 8); /* a return behind the last one */
    emu_module_free(module);
}

static void jumps_have_pcs(void **state)
{
    (void)state;
    struct emu_module *module = load_good(KERNEL("{ L: bra L; }\n{ bra L; L: }\nbra.uni END;\nEND:"));
    assert_int_equal(module->kernels[0].instrs[0].operands[0].imm, 0);
    assert_int_equal(module->kernels[0].instrs[1].operands[0].imm, 2);
    assert_int_equal(module->kernels[0].instrs[2].operands[0].imm, 3);
    emu_module_free(module);
}

static void statements_are_refused(void **state)
{
    (void)state;
    assert_refused(KERNEL("mov.b32 %r1, %r2;\nfoo.b32 %r1;"), "line 7: foo.b32 is not in the permitted set");
    assert_refused(KERNEL("add.rz.f16 %r1, %r1, %r1;"), "the nearest there: add.{rn,rz}");
    assert_refused(KERNEL("mov.b32 %r1, %r99;"), "nothing is called %r99 here");
    assert_refused(KERNEL("mov.b32 %r1, %r01;"), "nothing is called %r01 here");
    assert_refused(KERNEL("bra NOWHERE;"), "nothing is called NOWHERE here");
    assert_refused(KERNEL("{ L: } bra L;"), "nothing is called L here");
    assert_refused(KERNEL("mov.b32 3, %r1;"), "operand 1 must be a register");
    assert_refused(KERNEL("mov.b32 %r1, _;"), "operand 2 must be a value");
    assert_refused(KERNEL("mov.b32 {%r1, 3}, %rd1;"), "operand 1 must be a register");
    assert_refused(KERNEL("mov.b32 %r1, [%r1];"), "does not take these 2 operands");
    assert_refused(KERNEL("ld.global.b32 %r1, [%h1];"), "operand 2 is not understood");
    assert_refused(KERNEL("mov.b32 %r1, !%r2;"), "operand 2 is not understood");
    assert_refused(KERNEL("brev.b32 %r1, %r2;"), "brev.b32: refused for a test");
    assert_refused("\0\0", "not PTX");
}

/* ---- Layout ---- */

static void memory_is_laid_out(void **state)
{
    (void)state;
    struct emu_module *module = load_good(
        HEAD ".global .b8 one = 5;\n.const .align 16 .b32 two[2] = {6, 7};\n.global .u64 ptr = generic(two)+4;\n"
             ".shared .b8 unused[100];\n.shared .b8 first[3];\n.shared .align 16 .b8 second[20];\n"
             ".extern .shared .align 128 .b8 dyn[];\n"
             ".entry k(.param .b8 a, .param .align 64 .b8 b[128], .param .u32 c)\n.maxntid 384\n{" REGISTERS
             ".local .align 8 .b8 depot[24];\n.shared .b32 third;\nmov.u32 %r1, first;\nmov.u32 %r1, second+4;\n"
             "mov.u32 %r1, third;\nmov.u32 %r1, dyn;\nmov.u64 %rd1, depot;\nld.global.b32 %r1, [two+4];\nret;\n}\n"
             ".entry other() .maxnreg 40 { .reg .b32 %r1; mov.u32 %r1, dyn; ret; }\n.entry third() { ret; }");
    const struct emu_kernel *kernel = emu_module_find(module, "k");
    const struct emu_instr *instr = kernel->instrs;
    assert_int_equal(instr[0].operands[1].imm, EMU_SHARED_RESERVED);
    assert_int_equal(instr[1].operands[1].imm, EMU_SHARED_RESERVED + 16 + 4);
    assert_int_equal(instr[2].operands[1].imm, EMU_SHARED_RESERVED + 36);
    assert_int_equal(kernel->static_shared_bytes, 40);
    assert_int_equal(kernel->dynamic_align, 128);
    assert_int_equal(instr[3].operands[1].imm, EMU_SHARED_RESERVED + 128);
    assert_int_equal(instr[3].operands[1].space, EMU_SHARED_CTA);
    assert_int_equal(instr[4].operands[1].space, EMU_LOCAL);
    assert_int_equal(kernel->local_bytes, 32);
    assert_int_equal(kernel->params[1].offset, 64);
    assert_int_equal(kernel->params[2].offset, 192);
    assert_int_equal(kernel->param_bytes, 196);
    assert_int_equal(kernel->launch_registers, 168);
    assert_int_equal(kernel->max_threads, 384);
    assert_int_equal(module->global_count, 3);
    const uint8_t *two = module->global_memory + module->globals[1].offset;
    assert_int_equal((uintptr_t)two % 16, 0);
    assert_memory_equal(two, ((uint32_t[]){6, 7}), 8);
    assert_ptr_equal((void *)(uintptr_t)instr[5].operands[1].imm, two + 4);
    uint64_t pointer;
    memcpy(&pointer, module->global_memory + module->globals[2].offset, sizeof pointer);
    assert_ptr_equal((void *)(uintptr_t)pointer, two + 4);
    assert_int_equal(emu_module_find(module, "other")->static_shared_bytes, 0);
    assert_int_equal(emu_module_find(module, "other")->launch_registers, 40);
    assert_int_equal(emu_module_find(module, "other")->instrs[0].operands[1].imm, EMU_SHARED_RESERVED);
    assert_int_equal(emu_module_find(module, "third")->launch_registers, 255);
    assert_null(emu_module_find(module, "fourth"));
    emu_module_free(module);
}

static void too_much_memory_is_refused(void **state)
{
    (void)state;
    assert_refused(KERNEL(".shared .b8 a[200000]; .shared .b8 b[200000]; mov.u32 %r1, a; mov.u32 %r1, b;"),
                   "b: more shared memory than");
    assert_refused(KERNEL(".local .b8 a[600000]; mov.u64 %rd1, a;"), "a: more local memory than");
    assert_refused(HEAD ".entry k(.param .b8 a[40000]) { ret; }", "a: more parameter memory than");
    assert_refused(HEAD ".global .b64 a[200000000];", "a: more global memory than");
}

/* ---- Rows ---- */

static int32_t row_of(const struct emu_module *module, uint32_t pc, int operand)
{
    return module->kernels[0].instrs[pc].operands[operand].row;
}

static void rows_are_reused(void **state)
{
    (void)state;
    struct emu_module *module = load_good(KERNEL("mov.u32 %r1, 1;\nadd.s32 %r2, %r1, 1;\nadd.s32 %r3, %r2, 1;\n"
                                                 "add.s32 %r4, %r3, 1;\nst.global.b32 [%rd1], %r4;"));
    assert_int_equal(module->kernels[0].row32_count, 2); /* a result never takes its source's row */
    assert_int_equal(module->kernels[0].row64_count, 1);
    assert_int_not_equal(row_of(module, 1, 0), row_of(module, 1, 1));
    emu_module_free(module);
}

/* A guarded write leaves the old value in the other lanes. */
static void guarded_writes_keep_the_row(void **state)
{
    (void)state;
    struct emu_module *module =
        load_good(KERNEL("mov.u32 %r1, 1;\nsetp.eq.s32 %p1, %r1, 0;\nmov.u32 %r2, 2;\nst.global.b32 [%rd1], %r2;\n"
                         "@%p1 mov.u32 %r1, 3;\nst.global.b32 [%rd1], %r1;"));
    assert_int_not_equal(row_of(module, 0, 0), row_of(module, 2, 0));
    assert_int_equal(row_of(module, 0, 0), row_of(module, 4, 0));
    emu_module_free(module);
}

/* A value that a loop reads in its next turn is live to the loop's end. */
static void loops_keep_their_rows(void **state)
{
    (void)state;
    struct emu_module *module =
        load_good(KERNEL("mov.u32 %r1, 1;\nL:\nadd.s32 %r2, %r1, 1;\nst.global.b32 [%rd1], %r2;\nmov.u32 %r3, 2;\n"
                         "st.global.b32 [%rd1], %r3;\nsetp.eq.s32 %p1, %r3, 0;\n@%p1 bra L;"));
    assert_int_not_equal(row_of(module, 0, 0), row_of(module, 3, 0));
    assert_int_not_equal(row_of(module, 0, 0), row_of(module, 1, 0));
    emu_module_free(module);
}

/* Between its last read and the next full write a register needs no row, though a loop comes round to it. */
static void rows_are_free_in_holes(void **state)
{
    (void)state;
    struct emu_module *module =
        load_good(KERNEL("mov.u32 %r1, 1;\nL:\nst.global.b32 [%rd1], %r1;\nbra M;\nM:\nmov.u32 %r2, 2;\n"
                         "st.global.b32 [%rd1], %r2;\nbra N;\nN:\nmov.u32 %r1, 3;\nbra L;"));
    assert_int_equal(row_of(module, 0, 0), row_of(module, 3, 0));
    assert_int_equal(module->kernels[0].row32_count, 1);
    emu_module_free(module);
}

/* wgmma's registers are touched until the wait, though nothing in the text says so. */
static void wgmma_keeps_rows_until_the_wait(void **state)
{
    (void)state;
    struct emu_module *module = load_good(
        KERNEL("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r1, %r2, %r3, %r4}, {%r5, %r6, %r7, %r8}, %rd1, "
               "%p1, 1, 1, 0;\nmov.u32 %r10, 1;\nst.global.b32 [%rd1], %r10;\nwgmma.wait_group.sync.aligned 0;\n"
               "mov.u32 %r11, 1;\nst.global.b32 [%rd1], %r11;"));
    assert_int_equal(module->kernels[0].row32_count, 9);
    assert_int_equal(module->kernels[0].instrs[0].write_count, 4);
    assert_int_equal(module->kernels[0].instrs[0].read_count, 4 + 4 + 2);
    emu_module_free(module);
}

/* ---- Random programs: every path sees in a row what it put into the register ---- */

enum { STATEMENTS = 40, REGISTER_COUNT = 12, PROGRAMS = 3000, PATHS = 12, STEPS = 200 };

static uint32_t random_state;

static int pick(int count)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (int)((random_state >> 8) % (uint32_t)count);
}

static int append_statement(char *text, int at)
{
    int kind = pick(10), label = pick(STATEMENTS);
    if (kind < 2)
        return sprintf(text, "L%d: @%%p1 bra L%d;\n", at, label);
    if (kind == 2)
        return sprintf(text, "L%d: %s bra L%d;\n", at, pick(2) ? "" : "@!%p1", label);
    const char *guard = kind == 3 ? "@%p1" : "";
    int d = pick(REGISTER_COUNT), a = pick(REGISTER_COUNT), b = pick(REGISTER_COUNT);
    if (kind == 4)
        return sprintf(text, "L%d: st.global.v2.b32 [%%r%d], {%%r%d, %%r%d};\n", at, a, b, d);
    if (kind == 5)
        return sprintf(text, "L%d: mov.u32 %%r%d, 1;\n", at, d);
    if (kind == 6)
        return sprintf(text, "L%d: %s ld.global.v2.b32 {%%r%d, %%r%d}, [%%r%d];\n", at, guard, d,
                       (d + 1) % REGISTER_COUNT, b);
    return sprintf(text, "L%d: %s add.s32 %%r%d, %%r%d, %%r%d;\n", at, guard, d, a, b);
}

static void make_program(char *text)
{
    text += sprintf(text, HEAD ".entry k() { .reg .b32 %%r<%d>; .reg .pred %%p<2>;\n", REGISTER_COUNT);
    for (int i = 0; i < STATEMENTS; i++)
        text += append_statement(text, i);
    sprintf(text, "ret; }");
}

/* A lane's registers by name and by row: the number of the write that filled them, 0 for none. */
struct lane {
    uint32_t by_name[64], by_row[64];
    uint32_t writes;
};

static void check_read(const struct lane *lane, int32_t reg, int32_t row, uint32_t pc)
{
    if (reg >= 0 && lane->by_name[reg] != lane->by_row[row])
        fail_msg("pc %u: register %d has write %u, its row %d write %u", pc, reg, lane->by_name[reg], row,
                 lane->by_row[row]);
}

static void do_write(struct lane *lane, int32_t reg, int32_t row)
{
    lane->by_name[reg] = lane->by_row[row] = ++lane->writes;
}

/* Reads or writes of an operand, elements included. Predicates are left out: no instruction here writes one. */
static void touch(struct lane *lane, const struct emu_syntax_kernel *from, const struct emu_kernel *kernel,
                  uint32_t index, bool write, uint32_t pc)
{
    const struct emu_syntax_operand *syntax = &from->operands[index];
    for (uint32_t i = syntax->count ? syntax->first : index;
         i < (syntax->count ? syntax->first + syntax->count : index + 1); i++) {
        if (from->operands[i].reg < 0)
            continue;
        if (write)
            do_write(lane, from->operands[i].reg, kernel->pool[i].row);
        else
            check_read(lane, from->operands[i].reg, kernel->pool[i].row, pc);
    }
}

static void step(struct lane *lane, const struct emu_syntax_kernel *from, const struct emu_kernel *kernel, uint32_t *pc)
{
    const struct emu_statement *statement = &from->statements[*pc];
    const struct emu_instr *instr = &kernel->instrs[*pc];
    uint32_t first = statement->first_operand, at = (*pc)++;
    bool taken = statement->guard < 0 || pick(2);
    if (instr->operand_count && instr->operands[0].kind == EMU_OP_LABEL) {
        *pc = taken ? (uint32_t)instr->operands[0].imm : *pc;
        return;
    }
    for (uint32_t i = 0; taken && i < instr->operand_count; i++)
        if (instr->row->operands[i] != 'd')
            touch(lane, from, kernel, first + i, false, at);
    for (uint32_t i = 0; taken && i < instr->operand_count; i++)
        if (instr->row->operands[i] == 'd')
            touch(lane, from, kernel, first + i, true, at);
}

static void walk_paths(const struct emu_syntax_kernel *from, const struct emu_kernel *kernel)
{
    for (int path = 0; path < PATHS; path++) {
        struct lane lane = {.writes = 0};
        uint32_t pc = 0;
        for (int i = 0; i < STEPS && pc < STATEMENTS; i++)
            step(&lane, from, kernel, &pc);
    }
}

static void random_paths_see_their_values(void **state)
{
    (void)state;
    static char text[1 << 16];
    for (uint32_t program = 0; program < PROGRAMS; program++) {
        struct emu_syntax syntax;
        char why[512];
        random_state = program;
        make_program(text);
        struct emu_module *module = load_good(text);
        struct emu_arena *arena = emu_arena_create((size_t)1 << 24);
        assert_true(emu_read(&syntax, arena, text, why));
        walk_paths(&syntax.kernels[0], &module->kernels[0]);
        emu_arena_destroy(arena);
        emu_module_free(module);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_are_resolved),         cmocka_unit_test(jumps_have_pcs),
        cmocka_unit_test(statements_are_refused),        cmocka_unit_test(memory_is_laid_out),
        cmocka_unit_test(too_much_memory_is_refused),    cmocka_unit_test(rows_are_reused),
        cmocka_unit_test(guarded_writes_keep_the_row),   cmocka_unit_test(loops_keep_their_rows),
        cmocka_unit_test(rows_are_free_in_holes),        cmocka_unit_test(wgmma_keeps_rows_until_the_wait),
        cmocka_unit_test(random_paths_see_their_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
