/* Every call of the driver and of NVRTC fails, in every operation, with several codes: a status that suits, with stage,
 * native code, path and log; outputs untouched, nothing left behind, and the operation works afterwards. A function of
 * the tables that no operation reaches fails the test. */
#include "cuda_types.h"
#include "nvrtc_types.h"
#include "operations.h"

static const char compile_log[] = "a log of the compiler\n";

/* ---- What is expected of a failure ---- */

/* Calls of a function, in an operation, that fail with each code; later ones do with two. */
enum { EACH_CODE_CALLS = 1 };

enum { ANY_CODE = 0, USUAL = -1 }; /* USUAL: the operation's own status, as if nothing had failed */

struct rule {
    const char *function;
    int code;
    smla_status status;
    const char *stage; /* in the message; NULL: the function's name */
    const char *path;  /* that of the error; NULL: none */
};

/* The first that holds. Without one: DRIVER, and the function's name. */
static const struct rule rules[] = {
    {"cuGetProcAddress_v2", ANY_CODE, SMLA_ERROR_UNAVAILABLE, "cuGetProcAddress of cu", STUB_DRIVER_PATH},
    {"cuDriverGetVersion", ANY_CODE, SMLA_ERROR_UNAVAILABLE, NULL, STUB_DRIVER_PATH},
    {"cuInit", ANY_CODE, SMLA_ERROR_UNAVAILABLE, NULL, STUB_DRIVER_PATH},
    {"cuLaunchKernelEx", ANY_CODE, SMLA_ERROR_DRIVER, "the launch of ", NULL},
    /* Texts of another failure, and what is given back. */
    {"cuGetErrorName", ANY_CODE, USUAL, NULL, NULL},
    {"cuGetErrorString", ANY_CODE, USUAL, NULL, NULL},
    {"cuLibraryUnload", ANY_CODE, USUAL, NULL, NULL},
    {"cuDevicePrimaryCtxRelease", ANY_CODE, USUAL, NULL, NULL},
    {"cuMemRelease", ANY_CODE, USUAL, NULL, NULL},
    /* Of which part of the device a context has. */
    {"cuCtxGetDevResource", ANY_CODE, USUAL, NULL, NULL},
    /* The driver's way of saying that memory is none of its own, or of no virtual memory. */
    {"cuPointerGetAttributes", RT_CUDA_ERROR_INVALID_VALUE, USUAL, NULL, NULL},
    {"cuMemRetainAllocationHandle", RT_CUDA_ERROR_INVALID_VALUE, SMLA_ERROR_INVALID_ARGUMENT, "kv reaches", NULL},

    {"nvrtcVersion", ANY_CODE, SMLA_ERROR_UNAVAILABLE, NULL, STUB_NVRTC_PATH},
    {"nvrtcGetNumSupportedArchs", ANY_CODE, SMLA_ERROR_UNAVAILABLE, NULL, STUB_NVRTC_PATH},
    {"nvrtcGetSupportedArchs", ANY_CODE, SMLA_ERROR_UNAVAILABLE, NULL, STUB_NVRTC_PATH},
    {"nvrtcDestroyProgram", ANY_CODE, USUAL, NULL, NULL},
    {"nvrtcGetErrorString", ANY_CODE, USUAL, NULL, NULL},
    {"nvrtcGetProgramLogSize", ANY_CODE, USUAL, NULL, NULL},
    {"nvrtcGetProgramLog", ANY_CODE, USUAL, NULL, NULL},
    {"nvrtcCreateProgram", RT_NVRTC_ERROR_OUT_OF_MEMORY, SMLA_ERROR_OUT_OF_MEMORY, "reading", STUB_NVRTC_PATH},
    {"nvrtcCreateProgram", RT_NVRTC_ERROR_BUILTIN_OPERATION_FAILURE, SMLA_ERROR_UNAVAILABLE, "reading",
     STUB_NVRTC_PATH},
    {"nvrtcCreateProgram", ANY_CODE, SMLA_ERROR_COMPILE, "reading", STUB_NVRTC_PATH},
    {"nvrtcCompileProgram", RT_NVRTC_ERROR_OUT_OF_MEMORY, SMLA_ERROR_OUT_OF_MEMORY, "compiling", STUB_NVRTC_PATH},
    {"nvrtcCompileProgram", RT_NVRTC_ERROR_BUILTIN_OPERATION_FAILURE, SMLA_ERROR_UNAVAILABLE, "compiling",
     STUB_NVRTC_PATH},
    {"nvrtcCompileProgram", ANY_CODE, SMLA_ERROR_COMPILE, "compiling", STUB_NVRTC_PATH},
    /* The sizes and bytes of PTX and cubins. */
    {"nvrtcGet", RT_NVRTC_ERROR_OUT_OF_MEMORY, SMLA_ERROR_OUT_OF_MEMORY, "the result of", STUB_NVRTC_PATH},
    {"nvrtcGet", RT_NVRTC_ERROR_BUILTIN_OPERATION_FAILURE, SMLA_ERROR_UNAVAILABLE, "the result of", STUB_NVRTC_PATH},
    {"nvrtcGet", ANY_CODE, SMLA_ERROR_COMPILE, "the result of", STUB_NVRTC_PATH},
};

/* Whether a function is a rule's; "nvrtcGet" is the start of several. */
static bool is_of(const struct rule *rule, const char *function)
{
    return strcmp(rule->function, "nvrtcGet") == 0 ? strncmp(function, "nvrtcGet", 8) == 0
                                                   : strcmp(rule->function, function) == 0;
}

static struct rule rule_of(const char *function, int code)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (is_of(&rules[i], function) && (rules[i].code == ANY_CODE || rules[i].code == code))
            return rules[i];
    return (struct rule){function, code, SMLA_ERROR_DRIVER, NULL, NULL};
}

/* ---- The functions ---- */

/* A function, how often an operation calls it, and how often it was made to fail. */
struct function {
    const char *name;
    int calls;
    int failures;
};

struct library {
    struct function *functions;
    size_t function_count;
    const int *codes;
    size_t code_count;
    struct stub_script *(*script)(const struct world *world);
    int (*failed)(const struct world *world);
    int (*calls)(const struct world *world, const char *name);
};

static struct stub_script *driver_script(const struct world *world)
{
    return &world->driver->script;
}

static int driver_failed(const struct world *world)
{
    return world->driver->failed();
}

static int driver_calls(const struct world *world, const char *name)
{
    return world->driver->calls(name);
}

static struct stub_script *nvrtc_script(const struct world *world)
{
    return &world->nvrtc->script;
}

static int nvrtc_failed(const struct world *world)
{
    return world->nvrtc->failed();
}

static int nvrtc_calls(const struct world *world, const char *name)
{
    return world->nvrtc->calls(name);
}

#define NAME_ROW(name, ...) {#name, 0, 0},
static struct function driver_functions[] = {{"cuGetProcAddress_v2", 0, 0},
                                             RT_DRIVER_SYMBOLS(NAME_ROW) RT_DRIVER_CHECK_SYMBOLS(NAME_ROW)
                                                 RT_DRIVER_TEST_SYMBOLS(NAME_ROW) RT_DRIVER_RANGE_SYMBOLS(NAME_ROW)
                                                     RT_DRIVER_PART_SYMBOLS(NAME_ROW)};
static struct function nvrtc_functions[] = {RT_NVRTC_SYMBOLS(NAME_ROW){"nvrtcGetErrorString", 0, 0}};

/* Out of memory, not initialised, on its way out, PTX too new, a dead context, captures, unknown; invalid value, which
 * has a meaning here and there; and none of the enumeration. */
static const int driver_codes[] = {2, 1, 3, 4, 222, 719, 900, 901, 999, 9999};
/* Out of memory, invalid input, invalid option, compilation, builtins, internal; and none of the enumeration. */
static const int nvrtc_codes[] = {1, 3, 5, 6, 7, 11, 9999};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
static const struct library driver_library = {driver_functions,    COUNT(driver_functions), driver_codes,
                                              COUNT(driver_codes), driver_script,           driver_failed,
                                              driver_calls};
static const struct library nvrtc_library = {nvrtc_functions, COUNT(nvrtc_functions), nvrtc_codes, COUNT(nvrtc_codes),
                                             nvrtc_script,    nvrtc_failed,           nvrtc_calls};

/* ---- One failure ---- */

struct trial {
    const struct library *library;
    const char *function;
    int call;
    int code;
    struct scene scene;
    smla_status status;
};

static bool is_function(const struct trial *trial, const char *name)
{
    return strcmp(trial->function, name) == 0;
}

static void must(const struct trial *trial, bool good, const char *what)
{
    if (!good)
        fail_msg("%s, call %d of %s fails with %d: %s; status %d: %s", trial->scene.operation->name, trial->call,
                 trial->function, trial->code, what, (int)trial->status, last_error().message);
}

static void check_error(const struct trial *trial, const struct rule *rule)
{
    const smla_error_info error = last_error();

    must(trial, error.status == trial->status, "another status in smla_last_error");
    must(trial, strstr(error.message, rule->stage ? rule->stage : trial->function) != NULL, "its stage is not named");
    if (trial->status == SMLA_ERROR_INVALID_ARGUMENT) /* what was found out without that call */
        return;
    must(trial, error.native_code == trial->code, "another native code");
    if (rule->path)
        must(trial, strcmp(error.path, rule->path) == 0, "another path");
    if (is_function(trial, "nvrtcCompileProgram") && trial->code == RT_NVRTC_ERROR_COMPILATION &&
        trial->status == SMLA_ERROR_COMPILE)
        must(trial, strcmp(error.log, compile_log) == 0, "no log");
}

/* What the self-test calls at its end, too: a failure there does not hide that a kernel is wrong. */
static bool gives_back(const struct trial *trial)
{
    return is_function(trial, "cuStreamSynchronize") || is_function(trial, "cuMemFree") ||
           is_function(trial, "cuStreamDestroy") || is_function(trial, "cuThreadExchangeStreamCaptureMode");
}

/* Code that was found in a tier and is refused is a miss, and is made again; what was made and is refused is none, nor
 * is another failure of that call. */
static bool is_miss(const struct trial *trial)
{
    const struct scene *scene = &trial->scene;

    if (trial->code != RT_CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
        return false;
    if (scene->world.context == NULL)
        return scene->bundle != NULL && trial->status == SMLA_OK;
    return stats_of(scene->world.context).entries_refused > 0 &&
           (scene->world.driver->refusal == 0 || trial->status == scene->operation->usual);
}

static void check_miss(const struct trial *trial)
{
    if (!trial->scene.sealed) {
        must(trial, trial->status == trial->scene.operation->usual, "what is refused was not made again");
        return;
    }
    must(trial, trial->status == SMLA_ERROR_NOT_CACHED, "another status");
    check_error(trial,
                &(struct rule){trial->function, trial->code, SMLA_ERROR_NOT_CACHED, "The driver does not load", NULL});
}

static void check_status(const struct trial *trial)
{
    struct rule rule = rule_of(trial->function, trial->code);
    const smla_status usual = trial->scene.operation->usual;

    if (usual == SMLA_ERROR_SELF_TEST && trial->status == usual && gives_back(trial))
        return;
    if (rule.status == USUAL || (usual != SMLA_OK && is_function(trial, "cuCtxPopCurrent"))) {
        must(trial, trial->status == usual, "it should have done without that call");
        return;
    }
    if (is_miss(trial)) {
        check_miss(trial);
        return;
    }
    /* Of the empty program, which finds out what the compiler is. */
    if (rule.status == SMLA_ERROR_COMPILE && strstr(last_error().message, "an empty program"))
        rule.status = SMLA_ERROR_UNAVAILABLE;
    if (rule.stage && strstr(last_error().message, "cannot compile an empty program") && rule.path)
        rule.stage = "an empty program";
    must(trial, trial->status == rule.status, "another status");
    check_error(trial, &rule);
}

/* Of what the stub counts, what a failure to give it back leaves. */
static void check_leaks(const struct trial *trial)
{
    const struct stub_driver *driver = trial->scene.world.driver;
    const bool unload = is_function(trial, "cuLibraryUnload"),
               release = is_function(trial, "cuDevicePrimaryCtxRelease");
    const bool left_alone = unload && trial->code == RT_CUDA_ERROR_DEINITIALIZED;

    must(trial, driver->live_libraries == 0 || (unload && (driver->live_libraries == 1 || left_alone)),
         "a library is left");
    must(trial, driver->retained_primaries == 0 || (release && driver->retained_primaries == 1) || left_alone,
         "a context is left");
    must(trial, driver->live_allocations == 0, "memory is left");
    must(trial, driver->live_streams == 0, "a stream is left");
    must(trial, trial->scene.world.nvrtc->live_programs == 0, "a program is left");
}

static void check_current(const struct trial *trial, void *before, int depth_before)
{
    const struct stub_driver *driver = trial->scene.world.driver;

    must(trial, driver->get_capture_mode() == 0 || is_function(trial, "cuThreadExchangeStreamCaptureMode"),
         "another capture mode than before");
    if (is_function(trial, "cuCtxPopCurrent"))
        driver->set_current(before);
    must(trial, driver->get_current() == before && driver->stack_depth() == depth_before,
         "another context is current than before");
}

/* True when the failure came: there was such a call. */
static bool fail_one(struct trial *trial, const struct operation *operation)
{
    struct scene *scene = &trial->scene;

    scene_open(scene, operation);
    scene->world.nvrtc->compile_log = compile_log;
    void *const current = scene->world.driver->get_current();
    const int depth = scene->world.driver->stack_depth();
    struct stub_script *script = trial->library->script(&scene->world);
    *script = (struct stub_script){.fail_name = trial->function, .fail_call = trial->call, .fail_code = trial->code};
    trial->status = operation->act(scene);
    const bool came = trial->library->failed(&scene->world) > 0;
    *script = (struct stub_script){0};
    if (came) {
        check_status(trial);
        must(trial, !scene->touched, "an output was written");
        check_current(trial, current, depth);
    }
    if (came && trial->code == RT_NVRTC_ERROR_COMPILATION && trial->status == SMLA_ERROR_COMPILE &&
        is_function(trial, "nvrtcCompileProgram"))
        must(trial, operation->act(scene) == SMLA_ERROR_COMPILE, "a source that does not compile was compiled again");
    else
        scene_must_act(scene);
    scene_close(scene);
    if (came)
        check_leaks(trial);
    return came;
}

/* ---- All of them ---- */

/* What the operation calls, so that nothing is tried where there is nothing to fail. */
static void count_calls(const struct library *library, const struct operation *operation)
{
    struct scene scene;

    scene_open(&scene, operation);
    scene_must_act(&scene);
    for (size_t f = 0; f < library->function_count; f++)
        library->functions[f].calls = library->calls(&scene.world, library->functions[f].name);
    scene_close(&scene);
}

/* No log has them. */
static bool is_unlogged(const char *name)
{
    static const char *const names[] = {"cuGetErrorName", "cuGetErrorString", "nvrtcDestroyProgram",
                                        "nvrtcGetErrorString"};

    for (size_t i = 0; i < COUNT(names); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static void fail_function(const struct library *library, struct function *function, const struct operation *operation)
{
    if (function->calls == 0 && !is_unlogged(function->name))
        return;
    bool came = true; /* while there is such a call */

    for (int call = 1; came; call++) {
        for (size_t i = 0; came && i < library->code_count; i++) {
            struct trial trial = {library, function->name, call, library->codes[i], .status = SMLA_OK};

            if (call > EACH_CODE_CALLS && (i + (size_t)call) % library->code_count > 1)
                continue;
            came = fail_one(&trial, operation);
            function->failures += came;
        }
    }
}

static void fail_everything(const struct library *library)
{
    int failures = 0;

    for (size_t i = 0; i < operation_count; i++) {
        count_calls(library, &operations[i]);
        for (size_t f = 0; f < library->function_count; f++)
            fail_function(library, &library->functions[f], &operations[i]);
    }
    for (size_t f = 0; f < library->function_count; f++) {
        if (library->functions[f].failures == 0)
            fail_msg("no operation reaches %s: add a row to operations.c", library->functions[f].name);
        failures += library->functions[f].failures;
    }
    print_message("%d failures of %zu functions\n", failures, library->function_count);
}

/* As of a CUDA context that is dead: a call fails, and so do all after it. Returns whether it came. */
static bool fail_from(const struct operation *operation, int call)
{
    struct trial trial = {&driver_library, "driver", call, 719, .status = SMLA_OK};
    struct scene *scene = &trial.scene;

    scene_open(scene, operation);
    struct stub_driver *driver = scene->world.driver;
    void *const current = driver->get_current();
    driver->script = (struct stub_script){.fail_call = call, .fail_code = trial.code, .again = 1};
    trial.status = operation->act(scene);
    const bool came = driver->failed() > 0;
    const int not_unloaded = driver->calls("cuLibraryUnload");
    driver->script = (struct stub_script){0};
    driver->set_current(current); /* what could not be popped */
    must(&trial,
         trial.status == operation->usual || trial.status == SMLA_ERROR_DRIVER ||
             trial.status == SMLA_ERROR_UNAVAILABLE,
         "another status");
    must(&trial, !scene->touched, "an output was written");
    scene_must_act(scene);
    scene_close(scene);
    must(&trial, driver->live_libraries <= not_unloaded, "a library is left");
    return came;
}

static void every_driver_call_from_one_on(void **state)
{
    int failures = 0;

    (void)state;
    for (size_t i = 0; i < operation_count; i++)
        for (int call = 1; fail_from(&operations[i], call); call++)
            failures++;
    print_message("%d failures that last\n", failures);
}

static void every_driver_call(void **state)
{
    (void)state;
    fail_everything(&driver_library);
}

static void every_nvrtc_call(void **state)
{
    (void)state;
    fail_everything(&nvrtc_library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_driver_call),
        cmocka_unit_test(every_driver_call_from_one_on),
        cmocka_unit_test(every_nvrtc_call),
    };
    return cmocka_run_group_tests_name("runtime.faults", tests, NULL, NULL);
}
