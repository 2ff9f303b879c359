/* smla-cache doctor: what smla would use here, and why. */
#include "cache_doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache_gc.h"
#include "cli.h"

static void append(json_t *sentences, const char *format, va_list arguments)
{
    json_t *sentence = json_vsprintf(format, arguments);
    if (sentence != NULL)
        json_array_append_new(sentences, sentence);
}

void doctor_warn(struct doctor *doctor, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append(doctor->warnings, format, arguments);
    va_end(arguments);
}

void doctor_help(struct doctor *doctor, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append(doctor->helps, format, arguments);
    va_end(arguments);
}

const char *doctor_last_error(void)
{
    static char message[1024]; /* as long as the library makes them */
    smla_error_info info = {.struct_size = sizeof info};
    smla_last_error(&info);
    snprintf(message, sizeof message, "%s", info.message);
    return message;
}

/* ---- The verdict ---- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static bool device_is_served(struct doctor *doctor, const json_t *device, const json_t *nvrtc)
{
    const char *name = text_of(device, "name");
    const char *target = text_of(device, "target");
    if (json_is_true(json_object_get(device, "compiles")) || json_is_true(json_object_get(device, "cached")))
        return true;
    if (target[0] == 0)
        doctor_help(doctor, "%s (compute capability %s): smla has no kernels for it", name,
                    text_of(device, "capability"));
    else if (doctor->settings.jit_policy != SMLA_JIT_ON)
        doctor_help(
            doctor,
            "%s: there is no kernel for target %s in any tier, and SMLA_JIT keeps from compiling: fill the cache "
            "folder (smla-cache warm --sm %s), or unset SMLA_JIT",
            name, target, target);
    else
        doctor_help(doctor, "%s: there is no kernel for target %s in any tier, and no compiler: %s", name, target,
                    text_of(nvrtc, "why"));
    return false;
}

/* One device that is served is enough; the others are told. */
static bool is_served(struct doctor *doctor, const json_t *root)
{
    const json_t *devices = json_object_get(root, "devices");
    const json_t *nvrtc = json_object_get(root, "nvrtc");
    size_t index, served = 0;
    json_t *device;
    json_array_foreach(devices, index, device)
    {
        served += device_is_served(doctor, device, nvrtc);
    }
    if (served > 0)
        return true;
    if (!doctor->has_driver)
        doctor_help(doctor, "%s", text_of(json_object_get(root, "driver"), "why"));
    else if (json_array_size(devices) == 0)
        doctor_help(doctor, "the driver shows this process no device: look at CUDA_VISIBLE_DEVICES, and at what the "
                            "container was given");
    if (!doctor->has_driver && json_array_size(json_object_get(nvrtc, "wins")) > 0)
        doctor_help(doctor, "without a driver kernels can be compiled ahead all the same (smla-cache warm, smla-gen)");
    return false;
}

/* ---- As text ---- */

static void print_folder(const json_t *folder)
{
    const char *path = text_of(folder, "path");
    const bool exists = json_is_true(json_object_get(folder, "exists"));
    const bool writable = json_is_true(json_object_get(folder, "writable"));
    if (path[0] == 0) {
        printf("cache folder  none%s\n", strcmp(text_of(folder, "policy"), "off") == 0 ? " (SMLA_CACHE=off)" : "");
        return;
    }
    printf("cache folder  %s (%s)\n", path, text_of(folder, "from"));
    if (exists)
        printf("              user %lld's, mode %s, %s, %s%s\n",
               (long long)json_integer_value(json_object_get(folder, "owner")), text_of(folder, "mode"),
               writable ? "writable" : "not writable",
               json_is_true(json_object_get(folder, "trusted")) ? "trusted" : "not trusted: ", text_of(folder, "why"));
    else
        printf("              not there yet, %s%s\n",
               writable ? "will be made" : "cannot be made: ", writable ? "" : text_of(folder, "why"));
    if (json_object_get(folder, "files") != NULL)
        printf("              %lld entries\n", (long long)json_integer_value(json_object_get(folder, "files")));
    if (json_object_get(folder, "file_system") != NULL)
        printf("              on %s, %.1f GiB free\n", text_of(folder, "file_system"),
               (double)json_integer_value(json_object_get(folder, "free_bytes")) / (1 << 30));
}

static void print_bundles(const json_t *bundles)
{
    size_t index;
    json_t *row;
    json_array_foreach(bundles, index, row)
    {
        printf("bundle        %s\n", text_of(row, "path"));
        if (json_is_true(json_object_get(row, "used")))
            printf("              %lld entries, %lld bytes\n",
                   (long long)json_integer_value(json_object_get(row, "entries")),
                   (long long)json_integer_value(json_object_get(row, "bytes")));
        if (json_object_get(row, "why") != NULL)
            printf("              %s\n", text_of(row, "why"));
    }
}

static void print_system(const json_t *system)
{
    const char *path = text_of(system, "path");
    if (path[0] == 0 || !json_is_true(json_object_get(system, "exists")))
        printf("system folder %s\n", path[0] == 0 ? "none" : "not there");
    else if (json_is_true(json_object_get(system, "trusted")))
        printf("system folder %s\n              user %lld's, mode %s, %lld entries\n", path,
               (long long)json_integer_value(json_object_get(system, "owner")), text_of(system, "mode"),
               (long long)json_integer_value(json_object_get(system, "files")));
    else
        printf("system folder %s\n              not trusted: %s\n", path, text_of(system, "why"));
}

static void print_nvrtc(const json_t *nvrtc)
{
    size_t index, at;
    json_t *row, *target;
    if (json_array_size(json_object_get(nvrtc, "wins")) == 0)
        puts("NVRTC         none that can be used");
    json_array_foreach(json_object_get(nvrtc, "wins"), index, row)
    {
        printf("NVRTC         %s: %s (%s), builds", text_of(row, "version"), text_of(row, "path"),
               text_of(nvrtc, "from"));
        json_array_foreach(json_object_get(row, "targets"), at, target)
        {
            printf(" %s", json_string_value(target));
        }
        puts("");
    }
    json_array_foreach(json_object_get(nvrtc, "tried"), index, row)
    {
        if (json_object_get(row, "path") != NULL)
            printf("    tried     %s: %s, %s\n", text_of(row, "name"), text_of(row, "version"), text_of(row, "path"));
        else
            printf("    tried     %s\n", text_of(row, "why"));
    }
}

static void print_driver(const json_t *driver, const json_t *devices)
{
    size_t index;
    json_t *device;
    if (text_of(driver, "path")[0] == 0)
        printf("driver        %s\n", text_of(driver, "why"));
    else
        printf("driver        CUDA %s: %s%s\n", text_of(driver, "version"), text_of(driver, "path"),
               json_is_true(json_object_get(driver, "emulated")) ? ", the emulated device" : "");
    json_array_foreach(devices, index, device)
    {
        const char *target = text_of(device, "target"), *tier = text_of(device, "tier");
        printf("device %-6lld %s, compute capability %s, %lld multiprocessors, target %s%s%s\n",
               (long long)json_integer_value(json_object_get(device, "ordinal")), text_of(device, "name"),
               text_of(device, "capability"), (long long)json_integer_value(json_object_get(device, "multiprocessors")),
               target[0] != 0 ? target : "none", tier[0] != 0 ? ", kernels first in the " : "", tier);
    }
}

static void print_sentences(const char *before, const json_t *sentences)
{
    size_t index;
    json_t *sentence;
    json_array_foreach(sentences, index, sentence)
    {
        printf("%-13s %s\n", before, json_string_value(sentence));
    }
}

static void print_text(const json_t *root)
{
    const json_t *policies = json_object_get(root, "policies");
    print_bundles(json_object_get(root, "bundles"));
    print_system(json_object_get(root, "system"));
    print_folder(json_object_get(root, "cache"));
    printf("policies      SMLA_CACHE %s, SMLA_JIT %s\n", text_of(policies, "cache"), text_of(policies, "jit"));
    if (json_integer_value(json_object_get(policies, "compile_limit_ms")) > 0)
        printf("compile limit %lld ms (SMLA_COMPILE_LIMIT_MS)\n",
               (long long)json_integer_value(json_object_get(policies, "compile_limit_ms")));
    if (json_integer_value(json_object_get(policies, "cache_bytes")) != (json_int_t)RT_CACHE_CAP_BYTES)
        printf("cache bytes   %lld at most (SMLA_CACHE_BYTES)\n",
               (long long)json_integer_value(json_object_get(policies, "cache_bytes")));
    if (text_of(policies, "disable")[0] != 0)
        printf("switched off  %s (SMLA_DISABLE)\n", text_of(policies, "disable"));
    if (json_is_true(json_object_get(policies, "line_info")))
        puts("line tables   in every kernel (SMLA_LINE_INFO)");
    print_nvrtc(json_object_get(root, "nvrtc"));
    print_driver(json_object_get(root, "driver"), json_object_get(root, "devices"));
    print_sentences("warning", json_object_get(root, "warnings"));
    printf("%-13s %s\n", "verdict",
           json_is_true(json_object_get(root, "served")) ? "kernels can be served" : "kernels cannot be served here");
    print_sentences("would help", json_object_get(root, "helps"));
}

/* ---- The command ---- */

static json_t *policies_json(const struct rt_settings *settings)
{
    static const char *const cache[] = {[SMLA_CACHE_OFF] = "off", [SMLA_CACHE_RO] = "ro", [SMLA_CACHE_RW] = "rw"};
    static const char *const jit[] = {[SMLA_JIT_ON] = "on", [SMLA_JIT_OFF] = "off", [SMLA_JIT_SEALED] = "sealed"};
    return json_pack("{s:s, s:s, s:o, s:s?, s:b, s:I}", "cache", cache[settings->cache_policy], "jit",
                     jit[settings->jit_policy], "compile_limit_ms",
                     settings->compile_limit_ms > 0 ? json_integer(settings->compile_limit_ms) : json_null(), "disable",
                     settings->disable, "line_info", (settings->flags & SMLA_CONTEXT_LINE_INFO) != 0, "cache_bytes",
                     (json_int_t)settings->cache_bytes);
}

/* In this order: the driver's version decides which NVRTC counts, and that what a device gets. */
static json_t *examine(struct doctor *doctor)
{
    json_t *root = json_object();
    json_object_set_new(root, "bundles", doctor_bundles(doctor));
    json_object_set_new(root, "system", doctor_system(doctor));
    json_object_set_new(root, "cache", doctor_folder(doctor));
    json_object_set_new(root, "policies", policies_json(&doctor->settings));
    if (doctor->settings.disable != NULL)
        doctor_warn(doctor,
                    "SMLA_DISABLE is \"%s\": kernels and variants of these names are not chosen, and what they alone "
                    "serve is refused",
                    doctor->settings.disable);
    json_object_set_new(root, "driver", doctor_driver(doctor));
    json_object_set_new(root, "nvrtc", doctor_nvrtc(doctor));
    json_object_set_new(root, "devices", doctor_devices(doctor));
    json_object_set_new(root, "served", json_boolean(is_served(doctor, root)));
    json_object_set(root, "warnings", doctor->warnings);
    json_object_set(root, "helps", doctor->helps);
    return root;
}

int cache_doctor(const struct cache_options *options)
{
    const smla_context_desc desc = {
        .struct_size = sizeof desc, .nvrtc_path = options->nvrtc, .cache_dir = options->cache};
    struct doctor doctor = {.options = options, .nvrtcs = {.places = &rt_nvrtc_default_places}};
    if (rt_settings_read(&doctor.settings, &desc) != SMLA_OK)
        return cli_worse(CLI_CHECK_FAILED, cli_smla_error("kernels cannot be served here"));
    doctor.warnings = json_array();
    doctor.helps = json_array();
    doctor.nvrtcs.path = doctor.settings.nvrtc_path;
    json_t *root = examine(&doctor);
    int code = json_is_true(json_object_get(root, "served")) ? CLI_FINE : CLI_CHECK_FAILED;
    if (options->json) {
        code = cli_worse(code, cache_print_json(root));
    } else {
        print_text(root);
        json_decref(root);
    }
    json_decref(doctor.warnings);
    json_decref(doctor.helps);
    rt_nvrtc_set_free(&doctor.nvrtcs);
    rt_settings_free(&doctor.settings);
    return code;
}
