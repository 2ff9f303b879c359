/* What the reader makes of PTX text, and how it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "syntax.h"

#define HEAD ".version 9.0\n.target sm_90a\n.address_size 64\n"
#define KERNEL(body) HEAD ".visible .entry k(.param .u64 p0)\n{\n" body "\nret;\n}\n"

struct text {
    struct emu_arena *arena;
    struct emu_syntax syntax;
    char why[512];
};

static bool read_text(struct text *text, const char *ptx)
{
    text->arena = emu_arena_create((size_t)1 << 28);
    text->why[0] = '\0';
    return emu_read(&text->syntax, text->arena, ptx, text->why);
}

static const struct emu_syntax_kernel *read_good(struct text *text, const char *ptx)
{
    bool good = read_text(text, ptx);
    if (!good)
        fail_msg("%s", text->why);
    return text->syntax.kernels;
}

static void assert_refused(const char *ptx, const char *reason)
{
    struct text text;
    assert_false(read_text(&text, ptx));
    if (!strstr(text.why, reason))
        fail_msg("\"%s\" does not say \"%s\"", text.why, reason);
    emu_arena_destroy(text.arena);
}

static const struct emu_syntax_operand *operand(const struct emu_syntax_kernel *kernel, size_t statement, uint32_t i)
{
    return &kernel->operands[kernel->statements[statement].first_operand + i];
}

/* ---- Module ---- */

static void heads_and_directives(void **state)
{
    (void)state;
    struct text text;
    const struct emu_syntax_kernel *kernel =
        read_good(&text, HEAD ".file 1 \"a.cu\", 12345, 678\n.file 3 \"b.cuh\"\n.pragma \"nounroll\";\n"
                              ".weak .entry k(\n.param .u64 .ptr .global .align 8 a,\n.param .align 64 .b8 b[128]\n)\n"
                              ".maxntid 128, 2, 1\n.minnctapersm 2\n.reqnctapercluster 2, 1, 1\n.explicitcluster\n"
                              ".maxclusterrank 8\n{ ret; }\n.section .debug_str\n{\n$L__info: .b8 95,0\n}\n");
    assert_string_equal(text.syntax.target, "sm_90a");
    assert_string_equal(text.syntax.files[1], "a.cu");
    assert_null(text.syntax.files[2]);
    assert_string_equal(text.syntax.files[3], "b.cuh");
    assert_int_equal(kernel->max_threads, 256);
    assert_int_equal(kernel->min_ctas, 2);
    assert_int_equal(kernel->required_cluster[0], 2);
    assert_true(kernel->explicit_cluster);
    assert_int_equal(kernel->param_count, 2);
    assert_int_equal(text.syntax.variables[kernel->first_param].align, 8);
    assert_int_equal(text.syntax.variables[kernel->first_param + 1].size, 128);
    assert_int_equal(text.syntax.variables[kernel->first_param + 1].align, 64);
    emu_arena_destroy(text.arena);
}

static void initialisers(void **state)
{
    (void)state;
    struct text text;
    read_good(&text,
              HEAD ".global .align 4 .f32 f = 0f3FB8AA3B;\n.const .u32 n[] = {1, 0x2, 0b11, 04, -1};\n"
                   ".global .s32 m[3][2] = {{1,2},{3}};\n.global .b8 s[8] = \"ab\\n\";\n"
                   ".global .u64 q[2] = {generic(n)+4, n};\n.global .f32 d = 0.5;\n.global .v2 .b16 v = {5, 6};\n"
                   ".global .f64 e = 0f3F000000;\n");
    const struct emu_syntax_variable *v = text.syntax.variables;
    assert_memory_equal(v[0].init, "\x3b\xaa\xb8\x3f", 4);
    assert_int_equal(v[1].size, 20);
    assert_memory_equal(v[1].init, ((uint32_t[]){1, 2, 3, 4, 0xffffffff}), 20);
    assert_int_equal(v[2].size, 24);
    assert_memory_equal(v[2].init, ((int32_t[]){1, 2, 3, 0, 0, 0}), 24);
    assert_memory_equal(v[3].init, "ab\n\0\0\0\0", 8);
    assert_int_equal(v[4].relocation_count, 2);
    assert_int_equal(v[4].relocations[0].addend, 4);
    assert_int_equal(v[4].relocations[1].offset, 8);
    assert_memory_equal(v[5].init, "\0\0\0\x3f", 4);
    assert_memory_equal(v[6].init, ((uint16_t[]){5, 6}), 4);
    assert_memory_equal(v[7].init, "\0\0\0\0\0\0\xe0\x3f", 8);
    emu_arena_destroy(text.arena);
}

static void bad_modules_are_refused(void **state)
{
    (void)state;
    assert_refused("hello", "line 1: 'hello' is not supported in a module");
    assert_refused("", "this is not PTX");
    assert_refused(HEAD ".address_size 32\n", "only 64-bit");
    assert_refused(HEAD ".func f() { ret; }", "a .func with a body");
    assert_refused(HEAD ".extern .global .b32 x;", "x is defined in another module");
    assert_refused(HEAD ".global .b32 x[];", "x has no length");
    assert_refused(HEAD ".global .b32 x[2] = {1, 2, 3};", "more values than");
    assert_refused(HEAD ".global .b32 x;\n.global .b32 x;", "line 5: x is declared twice");
    assert_refused(HEAD ".global .b32 x[99999999999];", "at most");
    assert_refused(HEAD ".global .b32 x[9999999][9999999];", "more than");
    assert_refused(HEAD ".global .align 3 .b32 x;", "no power of two");
    assert_refused(HEAD ".global .u8 x = 0xff(y);", "line 4");
    assert_refused(HEAD ".shared .b32 x = 3;", "only .global and .const");
    assert_refused(HEAD ".global .attribute(.managed) .b32 x;", ".attribute is not supported");
    assert_refused(HEAD "/* no end", "a comment does not end");
    assert_refused(HEAD ".file 1 \"no end\n", "a string does not end");
    assert_refused(HEAD ".global .b64 x = 18446744073709551616;", "not an integer of 64 bits");
    assert_refused(HEAD ".global .f32 x = 1000000000000000000000000000000000000000000000000000000000000000000000.5;",
                   "not a number");
    assert_refused(HEAD ".global .f32 x = 0f3F80;", "needs 8 hexadecimal digits");
}

/* ---- Kernels ---- */

static void operands_of_every_look(void **state)
{
    (void)state;
    struct text text;
    const struct emu_syntax_kernel *kernel =
        read_good(&text, KERNEL(".shared .b8 buf[64];\n"
                                ".reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<4>;\n"
                                "a %r1|%p1, -5, 0x10U, 0f3F800000, 0d3FF0000000000000, 1.5;\n"
                                "b !%p2, %tid.y, %clock64, _, WARP_SZ, buf+8, buf;\n"
                                "c [%rd2+-4], [%rd2+4], [%rd2], [buf+8], [64], [p0+8];\n"
                                "d [%rd1, {%r1, %r2}], {%r3, _, 7}, {%r1};\n"));
    const struct emu_syntax_operand *pair = operand(kernel, 0, 0);
    assert_int_equal(pair->kind, EMU_SYNTAX_PAIR);
    assert_int_equal(operand(kernel, 0, 1)->value, -5);
    assert_int_equal(operand(kernel, 0, 2)->value, 16);
    assert_int_equal(operand(kernel, 0, 3)->kind, EMU_SYNTAX_FLOAT32);
    assert_int_equal(operand(kernel, 0, 3)->value, 0x3f800000);
    assert_int_equal(operand(kernel, 0, 5)->value, 0x3ff8000000000000);
    assert_true(operand(kernel, 1, 0)->negated);
    assert_int_equal(operand(kernel, 1, 1)->value, EMU_TID_Y);
    assert_int_equal(operand(kernel, 1, 2)->value, EMU_CLOCK64);
    assert_int_equal(operand(kernel, 1, 3)->kind, EMU_SYNTAX_SINK);
    assert_int_equal(operand(kernel, 1, 4)->value, 32);
    assert_int_equal(operand(kernel, 1, 5)->value, 8);
    assert_int_equal(operand(kernel, 2, 0)->value, -4);
    assert_int_equal(operand(kernel, 2, 3)->variable, 1);
    assert_int_equal(operand(kernel, 2, 4)->value, 64);
    assert_int_equal(operand(kernel, 3, 0)->kind, EMU_SYNTAX_TENSOR);
    assert_int_equal(operand(kernel, 3, 0)->count, 2);
    assert_int_equal(operand(kernel, 3, 1)->count, 3);
    emu_arena_destroy(text.arena);
}

/* Inline assembly repeats its names in scopes of its own. */
static void scopes_hide_names(void **state)
{
    (void)state;
    struct text text;
    const struct emu_syntax_kernel *kernel = read_good(
        &text, KERNEL(".reg .b32 %r<3>;\n{\n.reg .b32 %r<3>;\nL: a %r1;\n{ .reg .pred %r1; a %r1; }\nb L;\n}\n"
                      "{\nL:\na %r1;\nb L;\n}"));
    assert_int_not_equal(operand(kernel, 0, 0)->reg, operand(kernel, 1, 0)->reg);
    assert_int_not_equal(operand(kernel, 0, 0)->reg, operand(kernel, 3, 0)->reg);
    assert_int_equal(kernel->registers[operand(kernel, 1, 0)->reg].bits, 1);
    struct emu_span name = {"L", 1};
    assert_int_equal(emu_names_find_label(&text.syntax.names, kernel->statements[2].scope, name)->index, 0);
    assert_int_equal(emu_names_find_label(&text.syntax.names, kernel->statements[4].scope, name)->index, 3);
    emu_arena_destroy(text.arena);
}

static void guards_and_locs(void **state)
{
    (void)state;
    struct text text;
    const struct emu_syntax_kernel *kernel =
        read_good(&text, KERNEL(".reg .pred %q;\n.loc 1 10 5\na;\n"
                                ".loc 2 20 1, function_name $L__info_string0+8, inlined_at 1 11 5\n@!%q b;\n@%q c;"));
    assert_int_equal(kernel->statements[0].guard, -1);
    assert_int_equal(kernel->statements[0].source_line, 10);
    assert_int_equal(kernel->statements[1].source_file, 2);
    assert_int_equal(kernel->statements[1].source_line, 20);
    assert_true(kernel->statements[1].guard >= 0 && kernel->statements[1].guard_negated);
    assert_false(kernel->statements[2].guard_negated);
    assert_int_equal(kernel->statements[1].line, 10);
    emu_arena_destroy(text.arena);
}

/* What clang, nvcc and Triton write around vprintf and __assertfail. */
static void calls_lose_their_arguments(void **state)
{
    (void)state;
    struct text text;
    const struct emu_syntax_kernel *kernel =
        read_good(&text, KERNEL(".reg .b64 %rd<3>; .reg .b32 %r<3>;\n{ // callseq 0, 0\n.reg .b32 temp_param_reg;\n"
                                ".param .b64 param0;\nst.param.b64 [param0+0], %rd1;\n.param .b32 retval0;\n"
                                "call.uni (retval0),\nvprintf,\n(\nparam0\n);\nld.param.b32 %r1, [retval0+0];\n}"));
    assert_int_equal(kernel->statement_count, 3);
    assert_int_equal(kernel->statements[0].kind, EMU_STATEMENT_CALL);
    assert_string_equal(text.syntax.opcodes[kernel->statements[0].opcode], "vprintf");
    assert_int_equal(kernel->statements[1].kind, EMU_STATEMENT_RESULT);
    assert_int_equal(kernel->statements[1].operand_count, 1);
    emu_arena_destroy(text.arena);
}

static void bad_kernels_are_refused(void **state)
{
    (void)state;
    assert_refused(KERNEL("call f, ();"), "line 6: call of f: functions are not supported");
    assert_refused(KERNEL(".reg .b128 %x<3>;"), "registers of .b128 are not supported");
    assert_refused(KERNEL("a b c;"), "expected ','");
    assert_refused(KERNEL("a [1.5];"), "an address is a register");
    assert_refused(KERNEL("a {};"), "expected an operand");
    assert_refused(KERNEL("a %tid;"), "needs .x, .y or .z");
    assert_refused(KERNEL("@p a;"), "p is no predicate");
    assert_refused(KERNEL("a !3;"), "expected a name");
    assert_refused(KERNEL("L: a; L: b;"), "L is declared twice");
    assert_refused(KERNEL(".branchtargets x;"), ".branchtargets is not supported");
    assert_refused(HEAD ".entry k() .maxntid 2000 {ret;}", "at most 1024");
    assert_refused(HEAD ".entry k() .maxntid 1024, 2 {ret;}", "more than 1024 threads");
    assert_refused(HEAD ".entry k() {", "expected an instruction");
}

/* Depth and length are bounded, whatever the text. */
static void excess_is_refused(void **state)
{
    (void)state;
    char deep[1024] = HEAD ".entry k() ";
    memset(deep + strlen(deep), '{', 100);
    assert_refused(deep, "scopes nested deeper than 64");
    char *wide = malloc(8192);
    assert_non_null(wide);
    strcpy(wide, HEAD ".entry k() { a {0");
    for (int i = 0; i < 300; i++)
        strcat(wide, ",0");
    strcat(wide, "}; }");
    assert_refused(wide, "a vector of more than 256");
    free(wide);
    assert_refused(KERNEL("a 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17;"), "more than 16 operands");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_and_directives),       cmocka_unit_test(initialisers),
        cmocka_unit_test(bad_modules_are_refused),    cmocka_unit_test(operands_of_every_look),
        cmocka_unit_test(scopes_hide_names),          cmocka_unit_test(guards_and_locs),
        cmocka_unit_test(calls_lose_their_arguments), cmocka_unit_test(bad_kernels_are_refused),
        cmocka_unit_test(excess_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
