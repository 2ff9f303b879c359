/* Every fault of the catalogue is found, with the right kind, lines and message; its twin is clean in every schedule.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "faults.h"

static const char *const schedule_names[SCHEDULES] = {"eager", "lazy", "random", "starve", "pct"};

static struct emu_options options_of(int schedule, uint64_t seed, uint32_t checks)
{
    return (struct emu_options){.schedule = (enum emu_schedule)schedule,
                                .seed = seed,
                                .checks = checks ? checks : EMU_CHECK_ALL,
                                .threads = 1,
                                .max_findings = 50};
}

static bool is_at(const struct emu_site *site, uint32_t line)
{
    return line == 0 || (site->instr && site->instr->line == line);
}

/* Does the finding name the marked lines and say what it should? Which of a race's two comes first is chance. */
static bool is_expected(const struct emu_finding *finding, const struct fault_case *fault, const char *text)
{
    const uint32_t first = fault_line(text, '1'), second = fault_line(text, '2');
    return finding->kind == fault->kind && (!fault->message || strstr(finding->message, fault->message)) &&
           ((is_at(&finding->first, first) && is_at(&finding->second, second)) ||
            (fault->kind == EMU_RACE && is_at(&finding->first, second) && is_at(&finding->second, first)));
}

static bool is_found(const struct fault_case *fault, const char *text, int schedule, uint64_t seed, bool verbose)
{
    const struct emu_options options = options_of(schedule, seed, fault->checks);
    struct fault_run run = fault_execute(fault, text, &options);
    bool found = false;
    for (int i = 0; i < run.report->count; i++)
        found |= is_expected(&run.report->findings[i], fault, text);
    if (verbose && !found) {
        emu_report_write(run.report, "-");
        fprintf(stderr, "wanted: kind %d, lines %u and %u, \"%s\"\n", (int)fault->kind, fault_line(text, '1'),
                fault_line(text, '2'), fault->message ? fault->message : "");
    }
    fault_run_end(&run);
    return found;
}

enum { SEEDS = 3, MORE_SEEDS = 8 };

/* Bit a schedule in which each of the seeds finds it; `some`: where one does. */
static uint32_t schedules_that_find(const struct fault_case *fault, const char *text, uint32_t *some)
{
    uint32_t all = 0;
    *some = 0;
    for (int schedule = 0; schedule < SCHEDULES; schedule++) {
        int found = 0;
        for (uint64_t seed = 1; seed <= MORE_SEEDS; seed++)
            found += is_found(fault, text, schedule, seed, false);
        all |= found == MORE_SEEDS ? 1u << schedule : 0;
        *some |= found ? 1u << schedule : 0;
    }
    return all;
}

static void print_found(const struct fault_case *fault, uint32_t all, uint32_t some)
{
    print_message("  %-62s", fault->name);
    for (int schedule = 0; schedule < SCHEDULES; schedule++)
        print_message(" %s", all >> schedule & 1    ? schedule_names[schedule]
                             : some >> schedule & 1 ? "(some seeds)"
                                                    : "-");
    print_message("\n");
}

static bool fault_is_found(const struct fault_case *fault)
{
    char *text = fault_text(fault, true);
    uint32_t some, all;
    assert_non_null(text);
    all = schedules_that_find(fault, text, &some);
    print_found(fault, all, some);
    const bool fine = some != 0 && (all & fault->certain) == fault->certain;
    for (int schedule = 0; !fine && schedule < SCHEDULES; schedule++)
        if (!(all >> schedule & 1))
            is_found(fault, text, schedule, 1, true);
    free(text);
    return fine;
}

static bool twin_is_clean(const struct fault_case *fault)
{
    char *text = fault_text(fault, false);
    bool clean = true;
    assert_non_null(text);
    for (int schedule = 0; clean && schedule < SCHEDULES; schedule++)
        for (uint64_t seed = 1; clean && seed <= SEEDS; seed++) {
            const struct emu_options options = options_of(schedule, seed, 0);
            struct fault_run run = fault_execute(fault, text, &options);
            clean = run.result == EMU_OK && run.report->count == 0;
            if (!clean) {
                print_error("%s: the twin, %s, seed %d\n", fault->name, schedule_names[schedule], (int)seed);
                emu_report_write(run.report, "-");
            }
            fault_run_end(&run);
        }
    free(text);
    return clean;
}

static void check_list(const struct fault_list *list)
{
    const char *only = getenv("FAULT");
    int wrong = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (only && !strstr(list->cases[i].name, only))
            continue;
        const bool found = fault_is_found(&list->cases[i]), clean = twin_is_clean(&list->cases[i]);
        if (!found || !clean)
            print_error("%s: %s%s\n", list->cases[i].name, found ? "" : "not found as it should be; ",
                        clean ? "" : "the twin is not clean");
        wrong += !found || !clean;
    }
    assert_int_equal(wrong, 0);
}

#define LIST_TEST(name)                                                                                                \
    static void test_##name(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        check_list(&fault_##name);                                                                                     \
    }
LIST_TEST(races)
LIST_TEST(global)
LIST_TEST(waits)
LIST_TEST(barriers)
LIST_TEST(warps)
LIST_TEST(grid)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_races),    cmocka_unit_test(test_global), cmocka_unit_test(test_waits),
        cmocka_unit_test(test_barriers), cmocka_unit_test(test_warps),  cmocka_unit_test(test_grid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
