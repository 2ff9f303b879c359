#include "test_alu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode.h"

/* The reader ends a kernel with it. */
static bool bind_ret(const struct emu_bind *bind)
{
    (void)bind;
    return true;
}

static const struct emu_row ret_row = {"ret", "", bind_ret, "9.7.12.6"};
static const struct emu_row_list ret_rows = {&ret_row, 1};
static const struct emu_row_list *const lists[] = {&emu_alu_rows, &ret_rows};

/* ---- What the exec functions call and the engine would be ---- */

static char fault_message[512];

enum emu_action emu_fault(struct emu_warp *warp, const struct emu_instr *instr, int lane, enum emu_finding_kind kind,
                          const char *format, ...)
{
    (void)warp;
    (void)instr;
    (void)lane;
    (void)kind;
    va_list args;
    va_start(args, format);
    vsnprintf(fault_message, sizeof fault_message, format, args);
    va_end(args);
    return EMU_FAULT;
}

/* ---- Coverage: the words seen of each row ---- */

enum { SEEN_WORDS = 1 << 14 };
static struct {
    const struct emu_row *row;
    char word[16];
} seen[SEEN_WORDS];
static size_t seen_count;

static bool is_seen(const struct emu_row *row, const char *word, size_t size)
{
    for (size_t i = 0; i < seen_count; i++) {
        if (seen[i].row == row && strlen(seen[i].word) == size && memcmp(seen[i].word, word, size) == 0) {
            return true;
        }
    }
    return false;
}

static void see(const struct emu_instr *instr)
{
    for (const char *at = instr->text; *at;) {
        const size_t size = strcspn(at, ".");
        if (!is_seen(instr->row, at, size)) {
            assert_true(seen_count < SEEN_WORDS && size < sizeof seen->word);
            seen[seen_count].row = instr->row;
            memcpy(seen[seen_count++].word, at, size);
        }
        at += size + (at[size] == '.');
    }
}

void alu_check_coverage(void)
{
    int missing = 0;
    for (size_t i = 0; i < emu_alu_rows.count; i++) {
        const struct emu_row *row = &emu_alu_rows.rows[i];
        for (const char *at = row->pattern; *at;) {
            const size_t size = strcspn(at, ".,[]{}");
            if (size && !is_seen(row, at, size)) {
                fprintf(stderr, "no check of %.*s in %s\n", (int)size, at, row->pattern);
                missing++;
            }
            at += size + (at[size] != '\0');
        }
    }
    assert_int_equal(missing, 0);
}

/* ---- Loading ---- */

static struct emu_module *load(const char *registers, const char *statement, char why[512])
{
    char text[2048];
    snprintf(text, sizeof text,
             ".version 9.0\n.target sm_90a\n.address_size 64\n.shared .align 16 .b8 shared_variable[64];\n"
             ".visible .entry k()\n{\n%s\n%s\n}\n",
             registers, statement);
    return emu_module_load_rows(text, strlen(text), lists, 2, why);
}

static void start(struct alu_test *test)
{
    const struct emu_kernel *kernel = &test->module->kernels[0];
    test->instr = &kernel->instrs[0];
    test->launch = (struct emu_launch){.kernel = kernel, .grid = {7, 1, 1}, .block = {64, 1, 1}, .cluster = {1, 1, 1}};
    test->cta = (struct emu_cta){.cluster = &test->cluster,
                                 .launch = &test->launch,
                                 .options = &test->options,
                                 .ctaid = {5, 0, 0},
                                 .rank = 1,
                                 .warp_count = 2,
                                 .warps = &test->warp};
    test->warp = (struct emu_warp){.cta = &test->cta, .index = 1, .live = EMU_ALL_LANES, .present = EMU_ALL_LANES};
    test->warp.r32 = calloc((kernel->row32_count + 1) * (size_t)EMU_LANES, sizeof *test->warp.r32);
    test->warp.r64 = calloc((kernel->row64_count + 1) * (size_t)EMU_LANES, sizeof *test->warp.r64);
    test->warp.preds = calloc(kernel->pred_count + 1, sizeof *test->warp.preds);
    see(test->instr);
}

void alu_load_text(struct alu_test *test, const char *registers, const char *statement)
{
    char why[512];
    memset(test, 0, sizeof *test);
    test->module = load(registers, statement, why);
    if (!test->module) {
        fail_msg("%s: %s", statement, why);
    }
    start(test);
}

static const char declarations[] =
    ".reg .b16 %h<8>;\n.reg .b32 %r<8>;\n.reg .b64 %l<8>;\n.reg .pred %p<8>;\n.reg .pred %q;";

static void write_statement(char *text, size_t size, const char *opcode, const char *kinds, const uint64_t *constants)
{
    size_t used = (size_t)snprintf(text, size, "%s", opcode);
    for (int i = 0; kinds[i]; i++) {
        const char *comma = i ? "," : "";
        switch (kinds[i]) {
        case 'i':
            used += (size_t)snprintf(text + used, size - used, "%s %lld", comma, (long long)*constants++);
            break;
        case 'n':
            used += (size_t)snprintf(text + used, size - used, "%s !%%p%d", comma, i);
            break;
        case 'P':
            used += (size_t)snprintf(text + used, size - used, "%s %%p%d|%%q", comma, i);
            break;
        case 'S':
            used += (size_t)snprintf(text + used, size - used, "%s %%r%d|%%q", comma, i);
            break;
        default:
            used += (size_t)snprintf(text + used, size - used, "%s %%%c%d", comma, kinds[i], i);
            break;
        }
    }
    snprintf(text + used, size - used, ";");
}

void alu_load(struct alu_test *test, const char *opcode, const char *kinds, const uint64_t *constants)
{
    char statement[512];
    write_statement(statement, sizeof statement, opcode, kinds, constants);
    alu_load_text(test, declarations, statement);
    snprintf(test->kinds, sizeof test->kinds, "%s", kinds);
}

void alu_refused(const char *opcode, const char *kinds)
{
    char statement[512], why[512];
    const uint64_t constants[ALU_OPERANDS] = {1, 2, 3, 4, 5, 6};
    write_statement(statement, sizeof statement, opcode, kinds, constants);
    struct emu_module *module = load(declarations, statement, why);
    if (module) {
        fail_msg("%s was not refused", statement);
    }
    assert_non_null(strchr(why, ' '));
}

void alu_free(struct alu_test *test)
{
    free(test->warp.r32);
    free(test->warp.r64);
    free(test->warp.preds);
    emu_module_free(test->module);
}

/* ---- Running ---- */

static void put(struct alu_test *test, const struct emu_operand *operand, int lane, uint64_t value)
{
    if (operand->kind == EMU_OP_PRED) {
        const uint32_t bit = 1u << lane;
        uint32_t *row = &test->warp.preds[operand->row];
        *row = value ? *row | bit : *row & ~bit;
    } else if (operand->kind == EMU_OP_REG && operand->bits == 64) {
        emu_row64(&test->warp, operand->row)[lane] = value;
    } else if (operand->kind == EMU_OP_REG) {
        emu_row32(&test->warp, operand->row)[lane] = operand->bits == 16 ? value & 0xffff : (uint32_t)value;
    }
}

void alu_set(struct alu_test *test, int operand, int lane, uint64_t value)
{
    put(test, &test->instr->operands[operand], lane, value);
}

void alu_set_all(struct alu_test *test, int operand, uint64_t value)
{
    for (int lane = 0; lane < EMU_LANES; lane++) {
        alu_set(test, operand, lane, value);
    }
}

enum emu_action alu_run(struct alu_test *test, uint32_t mask)
{
    return test->instr->exec(&test->warp, test->instr, mask);
}

uint64_t alu_get(const struct alu_test *test, int lane, int half)
{
    const struct emu_operand *to = &test->instr->operands[0];
    const struct emu_warp *warp = &test->warp;
    if (half) {
        return warp->preds[to->row2] >> lane & 1;
    }
    if (to->kind == EMU_OP_PRED || (to->kind == EMU_OP_PRED_PAIR && to->bits == 1)) {
        return warp->preds[to->row] >> lane & 1;
    }
    return to->bits == 64 ? warp->r64[to->row * EMU_LANES + lane] : warp->r32[to->row * EMU_LANES + lane];
}

/* ---- Tables ---- */

static bool is_pair(const struct alu_check *check)
{
    return check->kinds[0] == 'P' || check->kinds[0] == 'S';
}

static void set_sources(struct alu_test *test, const struct alu_check *check)
{
    for (int i = 1; check->kinds[i]; i++) {
        alu_set_all(test, i, check->sources[i - 1]);
    }
}

static void run_check(const struct alu_check *check)
{
    const uint32_t on = 0x0ff0a5c3;
    struct alu_test test;
    uint64_t before[EMU_LANES][2], constants[ALU_OPERANDS];
    int constant_count = 0;
    for (int i = 1; check->kinds[i]; i++) {
        if (check->kinds[i] == 'i') {
            constants[constant_count++] = check->sources[i - 1];
        }
    }
    alu_load(&test, check->opcode, check->kinds, constants);
    const bool syncs = strstr(check->opcode, "sync") != NULL;
    set_sources(&test, check);
    for (int pass = syncs; pass < 2; pass++) {
        const uint32_t mask = pass ? EMU_ALL_LANES : on;
        for (int lane = 0; lane < EMU_LANES; lane++) {
            before[lane][0] = alu_get(&test, lane, 0);
            before[lane][1] = is_pair(check) ? alu_get(&test, lane, 1) : 0;
        }
        assert_int_equal(alu_run(&test, mask), EMU_NEXT);
        for (int lane = 0; lane < EMU_LANES; lane++) {
            const bool is_on = mask >> lane & 1;
            for (int half = 0; half <= is_pair(check); half++) {
                const uint64_t expected = !is_on ? before[lane][half] : half ? check->second : check->result;
                const uint64_t found = alu_get(&test, lane, half);
                if (found != expected) {
                    fail_msg("%s (0x%llx, 0x%llx, 0x%llx, 0x%llx): lane %d, result %d: 0x%llx instead of 0x%llx",
                             check->opcode, (unsigned long long)check->sources[0],
                             (unsigned long long)check->sources[1], (unsigned long long)check->sources[2],
                             (unsigned long long)check->sources[3], lane, half + 1, (unsigned long long)found,
                             (unsigned long long)expected);
                }
            }
        }
        set_sources(&test, check); /* a source may share the result's row */
    }
    alu_free(&test);
}

void alu_check_table(const struct alu_check *checks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        run_check(&checks[i]);
    }
}

uint64_t F(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

uint64_t D(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

float to_float(uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

double to_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void test_coverage(void **state)
{
    (void)state;
    alu_check_coverage();
}

void test_refusals(void **state)
{
    (void)state;
    alu_refused("add.s32", "rrl");
    alu_refused("add.s32", "rrp");
    alu_refused("add.s32", "irr");
    alu_refused("add.u64", "rrr");
    alu_refused("cvt.s32.f32", "rr");
    alu_refused("cvt.f32.f64", "rl");
    alu_refused("cvt.f32.s32", "rr");
    alu_refused("cvt.rn.s32.f32", "rr");
    alu_refused("cvt.rni.f32.f64", "rl");
    alu_refused("cvt.u64.u32", "rr");
    alu_refused("setp.lt.b32", "prr");
    alu_refused("setp.lo.s32", "prr");
    alu_refused("setp.equ.s32", "prr");
    alu_refused("setp.lt.and.s32", "prr");
    alu_refused("setp.lt.ftz.f64", "pll");
    alu_refused("lop3.b32", "rrrrr");
    alu_refused("mov.pred", "pr");
    alu_refused("fma.f32", "rrrr");
    alu_refused("add.ftz.f64", "lll");
    alu_refused("match.any.sync.b32", "Srr");
    alu_refused("set.lt.f16x2.f32", "rrr");
}

int main(void)
{
    /* Coverage last: it looks at what the others have loaded. */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_wide_integers),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_carries),
        cmocka_unit_test(test_logic),
        cmocka_unit_test(test_shifts),
        cmocka_unit_test(test_permute),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_float_rounding),
        cmocka_unit_test(test_fma_against_libm),
        cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_pairs_of_floats),
        cmocka_unit_test(test_approximations),
        cmocka_unit_test(test_approximations_err),
        cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_half_arithmetic_exhaustive),
        cmocka_unit_test(test_comparisons),
        cmocka_unit_test(test_all_comparisons),
        cmocka_unit_test(test_selections),
        cmocka_unit_test(test_conversions),
        cmocka_unit_test(test_half_conversions_exhaustive),
        cmocka_unit_test(test_fp8_exhaustive),
        cmocka_unit_test(test_ue8m0_exhaustive),
        cmocka_unit_test(test_integer_conversions_exhaustive),
        cmocka_unit_test(test_float_to_integer),
        cmocka_unit_test(test_shuffles),
        cmocka_unit_test(test_votes),
        cmocka_unit_test(test_waiting_for_lanes),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_coverage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
