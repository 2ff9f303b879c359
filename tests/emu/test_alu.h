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

/* The test groups, by file. */
#define ALU_TESTS(X)                                                                                                   \
    X(test_moves)                                                                                                      \
    X(test_integers)                                                                                                   \
    X(test_wide_integers)                                                                                              \
    X(test_bits)                                                                                                       \
    X(test_carries) X(test_logic) X(test_shifts) X(test_permute) X(test_floats) X(test_float_rounding)                 \
        X(test_fma_against_libm) X(test_doubles) X(test_pairs_of_floats) X(test_approximations)                        \
            X(test_approximations_err) X(test_mixed) X(test_halves) X(test_half_arithmetic_exhaustive)                 \
                X(test_comparisons) X(test_all_comparisons) X(test_selections) X(test_conversions)                     \
                    X(test_half_conversions_exhaustive) X(test_fp8_exhaustive) X(test_ue8m0_exhaustive)                \
                        X(test_integer_conversions_exhaustive) X(test_shuffles) X(test_votes)                          \
                            X(test_waiting_for_lanes) X(test_refusals) X(test_coverage)
#define ALU_DECLARE_TEST(name) void name(void **state);
ALU_TESTS(ALU_DECLARE_TEST)

#endif
