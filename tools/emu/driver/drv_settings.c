/* SMLA_EMU_*: read once, at cuInit. docs/emulator.md lists them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drv_state.h"

static const char *const schedule_names[] = {
    [EMU_EAGER] = "eager", [EMU_LAZY] = "lazy", [EMU_RANDOM] = "random", [EMU_STARVE] = "starve", [EMU_PCT] = "pct"};

static const struct {
    const char *name;
    uint32_t checks;
} check_names[] = {
    {"all", EMU_CHECK_ALL},
    {"races", EMU_CHECK_RACES},
    {"proxy", EMU_CHECK_PROXY},
    {"proxy-cp-async", EMU_CHECK_PROXY_CP_ASYNC},
    {"proxy-war", EMU_CHECK_PROXY_WAR},
    {"uninitialised", EMU_CHECK_UNINITIALISED},
    {"wgmma", EMU_CHECK_WGMMA},
    {"barriers", EMU_CHECK_BARRIERS},
    {"exit", EMU_CHECK_EXIT},
    {"warpgroup", EMU_CHECK_WARPGROUP},
    {"grid-wait", EMU_CHECK_GRID},
};

static const char *read_variable(const char *name)
{
    const char *value = secure_getenv(name);
    return value == NULL || value[0] == '\0' ? NULL : value;
}

static int read_sm(struct drv_settings *settings)
{
    const char *value = read_variable("SMLA_EMU_SM");
    settings->sm = 90;
    if (value == NULL || strcmp(value, "90") == 0 || strcmp(value, "90a") == 0)
        return DRV_CUDA_SUCCESS;
    return drv_log(DRV_CUDA_ERROR_NOT_SUPPORTED, "SMLA_EMU_SM '%s': the emulated device is sm_90", value);
}

static int read_sm_count(struct drv_settings *settings)
{
    const char *value = read_variable("SMLA_EMU_SM_COUNT");
    char *end;
    settings->sm_count = DRV_SM_COUNT;
    if (value == NULL)
        return DRV_CUDA_SUCCESS;
    const long count = strtol(value, &end, 10);
    settings->sm_count = (int)count;
    if (value[0] >= '0' && value[0] <= '9' && *end == '\0' && count >= 1 && count <= DRV_SM_COUNT)
        return DRV_CUDA_SUCCESS;
    return drv_log(DRV_CUDA_ERROR_INVALID_VALUE, "SMLA_EMU_SM_COUNT '%s' is no number from 1 to %d", value,
                   DRV_SM_COUNT);
}

static int read_schedule(struct drv_settings *settings)
{
    const char *value = read_variable("SMLA_EMU_SCHEDULE");
    if (value == NULL)
        return DRV_CUDA_SUCCESS;
    for (size_t i = 0; i < sizeof schedule_names / sizeof schedule_names[0]; i++) {
        if (strcmp(value, schedule_names[i]) == 0) {
            settings->options.schedule = (enum emu_schedule)i;
            return DRV_CUDA_SUCCESS;
        }
    }
    return drv_log(DRV_CUDA_ERROR_INVALID_VALUE, "SMLA_EMU_SCHEDULE '%s' is none of eager, lazy, random, starve, pct",
                   value);
}

static int read_seed(struct drv_settings *settings)
{
    const char *value = read_variable("SMLA_EMU_SEED");
    char *end;
    if (value == NULL)
        return DRV_CUDA_SUCCESS;
    settings->options.seed = strtoull(value, &end, 10);
    if (value[0] >= '0' && value[0] <= '9' && *end == '\0')
        return DRV_CUDA_SUCCESS;
    return drv_log(DRV_CUDA_ERROR_INVALID_VALUE, "SMLA_EMU_SEED '%s' is no number", value);
}

/* Words that say how to compute rather than what to check. */
static bool apply_arithmetic(struct emu_options *options, const char *word)
{
    if (strcmp(word, "sum-forward") == 0)
        options->sum_order = EMU_SUM_FORWARD;
    else if (strcmp(word, "sum-reversed") == 0)
        options->sum_order = EMU_SUM_REVERSED;
    else if (strcmp(word, "sum-double") == 0)
        options->sum_order = EMU_SUM_DOUBLE;
    else if (strcmp(word, "perturb") == 0)
        options->perturb_approx = true;
    else
        return false;
    return true;
}

static bool apply_word(struct emu_options *options, const char *word)
{
    const bool remove = word[0] == '-';
    if (strcmp(word, "none") == 0) {
        options->checks = 0;
        return true;
    }
    for (size_t i = 0; i < sizeof check_names / sizeof check_names[0]; i++) {
        if (strcmp(word + remove, check_names[i].name) == 0) {
            options->checks =
                remove ? options->checks & ~check_names[i].checks : options->checks | check_names[i].checks;
            return true;
        }
    }
    return apply_arithmetic(options, word);
}

/* Words between commas change the default set one after the other: "none,races", "-uninitialised". */
static int read_checks(struct drv_settings *settings)
{
    const char *value = read_variable("SMLA_EMU_CHECKS");
    while (value != NULL && *value != '\0') {
        const size_t length = strcspn(value, ",");
        char word[32] = "";
        if (length < sizeof word)
            memcpy(word, value, length);
        if (!apply_word(&settings->options, word))
            return drv_log(DRV_CUDA_ERROR_INVALID_VALUE,
                           "SMLA_EMU_CHECKS: '%.*s' is none of all, none, races, proxy, proxy-cp-async, proxy-war, "
                           "uninitialised, wgmma, barriers, exit, warpgroup, grid-wait (or -name), sum-forward, "
                           "sum-reversed, sum-double, perturb",
                           (int)length, value);
        value += length;
        value += *value == ',';
    }
    return DRV_CUDA_SUCCESS;
}

static int read_report(struct drv_settings *settings)
{
    const char *value = read_variable("SMLA_EMU_REPORT");
    if (value == NULL)
        return DRV_CUDA_SUCCESS;
    if (strlen(value) >= sizeof settings->report)
        return drv_log(DRV_CUDA_ERROR_INVALID_VALUE, "SMLA_EMU_REPORT is longer than %zu bytes",
                       sizeof settings->report - 1);
    strcpy(settings->report, value);
    return DRV_CUDA_SUCCESS;
}

static int host_threads(void)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : online > 16 ? 16 : (int)online;
}

int drv_settings_read(struct drv_settings *settings)
{
    const char *loading = read_variable("CUDA_MODULE_LOADING");
    *settings = (struct drv_settings){0};
    settings->options.checks = EMU_CHECK_DEFAULT;
    settings->options.threads = host_threads();
    settings->options.max_findings = 20;
    settings->eager_loading = loading != NULL && strcmp(loading, "EAGER") == 0;
    DRV_TRY(read_sm(settings));
    DRV_TRY(read_sm_count(settings));
    DRV_TRY(read_schedule(settings));
    DRV_TRY(read_seed(settings));
    DRV_TRY(read_checks(settings));
    return read_report(settings);
}
