/* One scalar instruction at a time, read from PTX and executed on a warp of its own. */
#ifndef TEST_EMU_ALU_H
#define TEST_EMU_ALU_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include "engine.h"

enum { ALU_OPERANDS = 6 };

/* An instruction, loaded. kinds: one letter an operand, the destination first: h, r, l a register of 16, 32 or 64 bits,
 * p a predicate, n one that is read negated, P "%p|%q", S "%r|%p", or, of a source, i a constant. */
struct alu_test {
    struct emu_module *module;
    const struct emu_instr *instr;
    char kinds[ALU_OPERANDS + 1];
    struct emu_options options;
    struct emu_launch launch;
    struct emu_cluster cluster;
    struct emu_cta cta;
    struct emu_warp warp;
};

/* constants: the values of the i operands, in order. Loading fails the test, unless alu_refused asks for that. */
void alu_load(struct alu_test *test, const char *opcode, const char *kinds, const uint64_t *constants);
void alu_load_text(struct alu_test *test, const char *registers, const char *statement);
void alu_free(struct alu_test *test);
/* A source's value in a lane, or in all. */
void alu_set(struct alu_test *test, int operand, int lane, uint64_t value);
void alu_set_all(struct alu_test *test, int operand, uint64_t value);
enum emu_action alu_run(struct alu_test *test, uint32_t mask);
/* A destination's value in a lane; half 1: the predicate of a pair. */
uint64_t alu_get(const struct alu_test *test, int lane, int half);

/* Fails when the table refuses an instruction with these operands. */
void alu_refused(const char *opcode, const char *kinds);

/* One line, one check: all lanes get the same sources; half of the lanes are off at first and must keep what they
 * have. second: of a pair. */
struct alu_check {
    const char *opcode, *kinds;
    uint64_t sources[ALU_OPERANDS - 1];
    uint64_t result, second;
};
void alu_check_table(const struct alu_check *checks, size_t count);
#define ALU_CHECK_TABLE(checks) alu_check_table(checks, sizeof(checks) / sizeof *(checks))

/* Fails when a row of the table, or a word of a row, has not been loaded by any test of this process. */
void alu_check_coverage(void);

/* Bits of floats. */
uint64_t F(float value);
uint64_t D(double value);
float to_float(uint64_t bits);
double to_double(uint64_t bits);

#define F_NAN 0x7fffffffu
#define F_INF 0x7f800000u
#define F_MINUS 0x80000000u
#define D_MINUS 0x8000000000000000ull

/* The test groups. */
typedef void alu_test_fn(void **state);
alu_test_fn test_moves, test_integers, test_wide_integers, test_bits, test_carries, test_logic, test_shifts,
    test_permute, test_floats, test_float_rounding, test_fma_against_libm, test_doubles, test_pairs_of_floats,
    test_approximations, test_approximations_err, test_mixed, test_halves, test_half_arithmetic_exhaustive,
    test_comparisons, test_all_comparisons, test_selections, test_conversions, test_half_conversions_exhaustive,
    test_fp8_exhaustive, test_ue8m0_exhaustive, test_integer_conversions_exhaustive, test_float_to_integer,
    test_shuffles, test_votes, test_waiting_for_lanes, test_refusals, test_coverage;

#endif
