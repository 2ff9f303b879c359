/* What a context tells of itself: each kind of event, once and in order, as struct, as JSON and as a line of the log.
 */
#include <fcntl.h>
#include <glob.h>
#include <jansson.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache_internal.h"
#include "context.h"
#include "gate.h"
#include "smlab_files.h"

enum { MOST = 300, THREADS = 8 };

/* The compile-time path of the system folder, replaced (ld --wrap). */
static const char *system_dir = "";

const char *__wrap_rt_cache_system_dir(void);

const char *__wrap_rt_cache_system_dir(void)
{
    return system_dir;
}

/* Lines of a context's log; one thread at a time here. */
struct lines {
    int count;
    int levels[MOST];
    char text[MOST][320];
};

static struct lines lines;

static void keep_line(void *user, int32_t level, const char *line)
{
    struct lines *to = user;

    assert_true(to->count < MOST);
    to->levels[to->count] = level;
    snprintf(to->text[to->count++], sizeof to->text[0], "%.319s", line);
}

static int setup(void **state)
{
    if (world_setup(state) != 0)
        return -1;
    world_serve_reference(*state);
    memset(&lines, 0, sizeof lines);
    system_dir = "";
    return 0;
}

static smla_context_desc told_desc(void)
{
    smla_context_desc desc = stub_context_desc();

    desc.log = keep_line;
    desc.log_user = &lines;
    return desc;
}

static smla_context *create(const smla_context_desc *desc)
{
    smla_context *context = NULL;

    if (smla_context_create(desc, &context) != SMLA_OK)
        fail_msg("create: %s", last_error().message);
    return context;
}

static void prepare(smla_context *context, int32_t h_q, smla_status status)
{
    smla_kernel_desc desc = reference_desc();
    smla_kernel *kernel = NULL;

    desc.h_q = h_q;
    assert_int_equal(smla_prepare(context, &desc, &kernel), status);
    smla_kernel_destroy(kernel);
}

static size_t read_events(smla_context *context, uint64_t since, smla_event events[MOST])
{
    size_t count = 99;

    events[0].struct_size = sizeof events[0];
    assert_int_equal(smla_events(context, since, events, MOST, &count), SMLA_OK);
    return count;
}

/* The only event of a kind; the test fails when there is none, or more. */
static smla_event only(smla_context *context, uint32_t kind)
{
    static smla_event events[MOST];
    const size_t count = read_events(context, 0, events);
    size_t found = MOST, times = 0;

    for (size_t i = 0; i < count; i++) {
        if (events[i].kind != kind)
            continue;
        found = i;
        times++;
    }
    if (times != 1)
        fail_msg("%zu events of kind %u", times, (unsigned)kind);
    return events[found];
}

/* Every event is a line, word by word and in order, and every line is an event. */
static void assert_same_lines(smla_context *context)
{
    static smla_event events[MOST];
    const size_t count = read_events(context, 0, events);

    assert_int_equal(count, lines.count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(events[i].number, i);
        assert_string_equal(events[i].message, lines.text[i]);
        assert_null(strchr(events[i].message, '\n'));
        assert_in_range(lines.levels[i], SMLA_LOG_WARNING, SMLA_LOG_DEBUG);
    }
}

static void compiled_loaded_found(void **state)
{
    static const uint32_t kinds[] = {SMLA_EVENT_COMPILE_START, SMLA_EVENT_COMPILE_END, SMLA_EVENT_LOAD,
                                     SMLA_EVENT_MEMORY_HIT};
    struct world *world = *state;
    const smla_context_desc desc = told_desc();
    smla_context *context = create(&desc);
    smla_kernel_desc kernel_desc = reference_desc();
    smla_support support = {.struct_size = sizeof support};
    static smla_event events[MOST];

    assert_int_equal(smla_query_support(context, &kernel_desc, &support), SMLA_OK);
    world->nvrtc->script.delay_us = 3000;
    for (int i = 0; i < 2; i++)
        prepare(context, 64, SMLA_OK);
    assert_int_equal(read_events(context, 0, events), 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(events[i].struct_size, sizeof events[i]);
        assert_int_equal(events[i].kind, kinds[i]);
        assert_int_equal(events[i].status, SMLA_OK);
        assert_string_equal(events[i].kernel_id, support.kernel_id);
        assert_non_null(strstr(events[i].kernel, "prefill_reference h_q=64 d_qk=512"));
        assert_int_equal(events[i].tier, kinds[i] == SMLA_EVENT_MEMORY_HIT ? SMLA_TIER_MEMORY : SMLA_TIER_NONE);
        assert_true(events[i].time_ns > (uint64_t)1700000000 * 1000000000u);
        assert_true(i == 0 || events[i].time_ns >= events[i - 1].time_ns);
    }
    assert_true(events[1].duration_ns >= 3000000u);
    assert_true(events[2].duration_ns > 0);
    assert_same_lines(context);
    assert_int_equal(stats_of(context).events, 4);
    /* From where one has read. */
    assert_int_equal(read_events(context, 3, events), 1);
    assert_int_equal(events[0].number, 3);
    assert_int_equal(read_events(context, 4, events), 0);
    smla_context_destroy(context);
}

static void written_and_found_on_disk(void **state)
{
    smla_context_desc desc = told_desc();
    char *folder = make_folder();

    (void)state;
    desc.cache_policy = SMLA_CACHE_RW;
    desc.cache_dir = folder;
    smla_context *context = create(&desc);
    prepare(context, 64, SMLA_OK);
    const smla_event store = only(context, SMLA_EVENT_STORE);
    assert_int_equal(store.tier, SMLA_TIER_CACHE);
    assert_non_null(strstr(store.kernel, "h_q=64"));
    assert_same_lines(context);
    smla_context_destroy(context);
    lines.count = 0;
    context = create(&desc);
    prepare(context, 64, SMLA_OK);
    const smla_event hit = only(context, SMLA_EVENT_CACHE_HIT);
    assert_int_equal(hit.tier, SMLA_TIER_CACHE);
    assert_true(hit.duration_ns > 0);
    assert_string_equal(hit.kernel_id, store.kernel_id);
    assert_same_lines(context);
    smla_context_destroy(context);
    remove_folder(folder);
}

static void found_in_read_only_tiers(void **state)
{
    smla_context_desc desc = told_desc();
    smla_kernel_desc kernel = reference_desc();
    char *folder = make_folder(), *path = path_in(folder, "a.smlab"), *system = path_in(folder, "system");
    size_t size;

    (void)state;
    uint8_t *bytes = smlab_of(&kernel, 1, &size);
    write_file(path, bytes, size);
    desc.flags = SMLA_CONTEXT_OWN_CACHE;
    desc.cache_policy = SMLA_CACHE_RW;
    desc.cache_dir = system;
    smla_context *context = create(&desc);
    prepare(context, 16, SMLA_OK);
    smla_context_destroy(context);
    lines.count = 0;
    system_dir = system;
    desc.flags = 0;
    desc.jit_policy = SMLA_JIT_OFF;
    desc.cache_dir = folder;
    desc.bundles = path;
    context = create(&desc);
    prepare(context, 64, SMLA_OK);
    prepare(context, 16, SMLA_OK);
    assert_int_equal(only(context, SMLA_EVENT_BUNDLE_HIT).tier, SMLA_TIER_BUNDLE);
    assert_int_equal(only(context, SMLA_EVENT_SYSTEM_HIT).tier, SMLA_TIER_SYSTEM);
    assert_same_lines(context);
    smla_context_destroy(context);
    free(bytes);
    free(path);
    free(system);
    remove_folder(folder);
}

static void refused(void **state)
{
    smla_context_desc desc = told_desc();

    (void)state;
    desc.jit_policy = SMLA_JIT_OFF;
    smla_context *context = create(&desc);
    prepare(context, 64, SMLA_ERROR_NOT_CACHED);
    const smla_event event = only(context, SMLA_EVENT_COMPILE_REFUSED);
    assert_int_equal(event.status, SMLA_ERROR_NOT_CACHED);
    assert_non_null(strstr(event.message, "off"));
    assert_same_lines(context);
    smla_context_destroy(context);
    lines.count = 0;
    desc.jit_policy = SMLA_JIT_ON;
    context = create(&desc);
    assert_int_equal(smla_context_seal(context), SMLA_OK);
    prepare(context, 64, SMLA_ERROR_NOT_CACHED);
    assert_non_null(strstr(only(context, SMLA_EVENT_COMPILE_REFUSED).message, "sealed"));
    smla_context_destroy(context);
}

static void failed_and_remembered(void **state)
{
    struct world *world = *state;
    const smla_context_desc desc = told_desc();
    smla_context *context = create(&desc);

    world->nvrtc->compile_result = 6;
    prepare(context, 64, SMLA_ERROR_COMPILE);
    assert_int_equal(only(context, SMLA_EVENT_COMPILE_END).status, SMLA_ERROR_COMPILE);
    prepare(context, 64, SMLA_ERROR_COMPILE);
    assert_int_equal(only(context, SMLA_EVENT_FAILURE_HIT).status, SMLA_ERROR_COMPILE);
    assert_int_equal(stats_of(context).remembered_failures, 1);
    assert_same_lines(context);
    smla_context_destroy(context);
}

static void not_loaded(void **state)
{
    struct world *world = *state;
    const smla_context_desc desc = told_desc();
    smla_context *context = create(&desc);

    world->driver->script = (struct stub_script){.fail_name = "cuLibraryLoadData", .fail_call = 1, .fail_code = 200};
    prepare(context, 64, SMLA_ERROR_DRIVER);
    assert_int_equal(only(context, SMLA_EVENT_LOAD).status, SMLA_ERROR_DRIVER);
    assert_same_lines(context);
    smla_context_destroy(context);
}

static void not_waited_for(void **state)
{
    struct world *world = *state;
    smla_context_desc desc = stub_context_desc();

    desc.compile_limit_ms = 20;
    smla_context *context = create(&desc);
    gate_close(world);
    prepare(context, 64, SMLA_ERROR_TIMEOUT);
    const smla_event event = only(context, SMLA_EVENT_COMPILE_TIMEOUT);
    assert_int_equal(event.status, SMLA_ERROR_TIMEOUT);
    assert_int_equal(event.duration_ns, 20000000);
    gate_open();
    smla_context_destroy(context);
}

/* The name of an entry's file: the only one there. */
static char *entry_path(const char *folder)
{
    char pattern[600];
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s/" RT_CACHE_VERSION_DIR "/*/*.smk", folder);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    char *path = strdup(found.gl_pathv[0]);
    globfree(&found);
    return path;
}

static void damaged(void **state)
{
    smla_context_desc desc = told_desc();
    char *folder = make_folder();

    (void)state;
    desc.cache_policy = SMLA_CACHE_RW;
    desc.cache_dir = folder;
    smla_context *context = create(&desc);
    prepare(context, 64, SMLA_OK);
    smla_context_destroy(context);
    lines.count = 0;
    char *path = entry_path(folder);
    assert_int_equal(truncate(path, 100), 0);
    context = create(&desc);
    prepare(context, 64, SMLA_OK);
    const smla_event event = only(context, SMLA_EVENT_DAMAGE);
    assert_int_equal(event.tier, SMLA_TIER_CACHE);
    assert_int_equal(strlen(event.kernel_id), 64);
    assert_non_null(strstr(event.message, path));
    assert_same_lines(context);
    smla_context_destroy(context);
    free(path);
    remove_folder(folder);
}

/* One warning for a folder that takes nothing, but an event each time. */
static void not_written(void **state)
{
    smla_context_desc desc = told_desc();
    char *folder = make_folder(), *version = path_in(folder, RT_CACHE_VERSION_DIR);
    static smla_event events[MOST];
    int stores = 0, warnings = 0;

    (void)state;
    desc.cache_policy = SMLA_CACHE_RW;
    desc.cache_dir = folder;
    smla_context *context = create(&desc);
    write_file(version, "", 0);
    prepare(context, 64, SMLA_OK);
    prepare(context, 16, SMLA_OK);
    const size_t count = read_events(context, 0, events);
    for (size_t i = 0; i < count; i++) {
        if (events[i].kind != SMLA_EVENT_STORE_FAILED)
            continue;
        stores++;
        warnings += lines.levels[i] == SMLA_LOG_WARNING;
        assert_int_equal(events[i].status, SMLA_ERROR_IO);
        assert_non_null(strstr(events[i].message, folder));
    }
    assert_int_equal(stores, 2);
    assert_int_equal(warnings, 1);
    assert_same_lines(context);
    smla_context_destroy(context);
    free(version);
    remove_folder(folder);
}

static void cannot_be_used(void **state)
{
    smla_context_desc desc = told_desc();

    (void)state;
    desc.bundles = "/nonexistent/a.smlab";
    smla_context *context = create(&desc);
    const smla_event event = only(context, SMLA_EVENT_UNUSED);
    assert_int_equal(event.tier, SMLA_TIER_BUNDLE);
    assert_string_equal(event.kernel_id, "");
    assert_non_null(strstr(event.message, "/nonexistent/a.smlab"));
    assert_same_lines(context);
    smla_context_destroy(context);
}

static void evicted(void **state)
{
    smla_context_desc desc = told_desc();
    char *folder = make_folder();
    const struct timespec long_ago[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};

    (void)state;
    desc.cache_policy = SMLA_CACHE_RW;
    desc.cache_dir = folder;
    smla_context *context = create(&desc);
    prepare(context, 64, SMLA_OK);
    char *path = entry_path(folder);
    assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
    context->cache->cap_bytes = 1;
    prepare(context, 16, SMLA_OK);
    assert_non_null(strstr(only(context, SMLA_EVENT_EVICTION).message, "removed 1 entries"));
    assert_int_equal(access(path, F_OK), -1);
    assert_same_lines(context);
    smla_context_destroy(context);
    free(path);
    remove_folder(folder);
}

struct asker {
    const struct world *world;
    smla_context *context;
};

static void *ask(void *user)
{
    const struct asker *asker = user;

    asker->world->driver->set_current(TEST_CONTEXT);
    prepare(asker->context, 64, SMLA_OK);
    return NULL;
}

/* Another context of the process is what another process would be. */
static void waited_for_others(void **state)
{
    struct world *world = *state;
    smla_context_desc desc = stub_context_desc();
    char *folder = make_folder();
    pthread_t threads[3];

    assert_int_equal(setenv("XDG_RUNTIME_DIR", folder, 1), 0);
    desc.cache_policy = SMLA_CACHE_RW;
    desc.cache_dir = folder;
    smla_context *contexts[] = {create(&desc), create(&desc)};
    gate_close(world);
    for (int i = 0; i < 3; i++) { /* compiles; waits for that thread; waits for that context */
        static struct asker askers[3];
        askers[i] = (struct asker){world, contexts[i / 2]};
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
        gate_wait_for(1);
        usleep(100000);
    }
    gate_open();
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_true(only(contexts[0], SMLA_EVENT_THREAD_WAIT).duration_ns > 1000000u);
    const smla_event event = only(contexts[1], SMLA_EVENT_NODE_WAIT);
    assert_true(event.duration_ns > 1000000u);
    assert_int_equal(event.tier, SMLA_TIER_CACHE);
    smla_context_destroy(contexts[0]);
    smla_context_destroy(contexts[1]);
    remove_folder(folder);
}

/* The last 256, and their numbers tell how many are gone. */
static void the_oldest_go(void **state)
{
    struct world *world = *state;
    static smla_event events[MOST];

    for (int i = 0; i < 300; i++)
        prepare(world->context, 64, SMLA_OK);
    const uint64_t total = stats_of(world->context).events;
    assert_int_equal(total, 302); /* compile-start, compile-end, load, and hits */
    assert_int_equal(read_events(world->context, 0, events), RT_EVENTS_KEPT);
    assert_int_equal(events[0].number, total - RT_EVENTS_KEPT);
    for (size_t i = 1; i < RT_EVENTS_KEPT; i++)
        assert_int_equal(events[i].number, events[i - 1].number + 1);
    size_t count;
    assert_int_equal(smla_events(world->context, 0, events, 2, &count), SMLA_OK); /* the oldest first */
    assert_int_equal(count, 2);
    assert_int_equal(events[0].number, total - RT_EVENTS_KEPT);
}

/* An older caller's struct ends before the texts, a newer one's goes on behind them. */
static void other_struct_sizes(void **state)
{
    struct world *world = *state;
    const size_t old_size = offsetof(smla_event, kernel_id), new_size = sizeof(smla_event) + 16;
    const smla_event blank = {.struct_size = 0};
    size_t count = 77;

    prepare(world->context, 64, SMLA_OK);
    smla_event *old = older_struct(&blank, old_size); /* room for one, of exactly that size */
    assert_int_equal(smla_events(world->context, 1, old, 1, &count), SMLA_OK);
    assert_int_equal(count, 1);
    assert_int_equal(old->struct_size, old_size);
    assert_int_equal(old->kind, SMLA_EVENT_COMPILE_END);
    free(old);
    uint8_t *larger = calloc(3, new_size);
    const uint32_t size = (uint32_t)new_size;
    memcpy(larger, &size, sizeof size);
    memset(larger + new_size, 0xee, 2 * new_size);
    assert_int_equal(smla_events(world->context, 0, (smla_event *)larger, 3, &count), SMLA_OK);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < 3; i++) {
        smla_event event;
        memcpy(&event, larger + i * new_size, sizeof event);
        assert_int_equal(event.struct_size, new_size);
        assert_int_equal(event.number, i);
        for (size_t j = 0; j < 16; j++)
            assert_int_equal(larger[i * new_size + sizeof event + j], 0);
    }
    free(larger);
}

static void wrong_calls(void **state)
{
    struct world *world = *state;
    smla_event event = {.struct_size = sizeof event};
    size_t count = 5;

    assert_int_equal(smla_events(NULL, 0, &event, 1, &count), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_events(world->context, 0, NULL, 1, &count), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_events(world->context, 0, &event, 1, NULL), SMLA_ERROR_INVALID_ARGUMENT);
    event.struct_size = 0;
    assert_int_equal(smla_events(world->context, 0, &event, 1, &count), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(count, 5);
    assert_int_equal(smla_events(world->context, 0, NULL, 0, &count), SMLA_OK);
    assert_int_equal(count, 0);
    assert_int_equal(smla_stats_json(NULL, NULL, 0, &count), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(smla_stats_json(world->context, NULL, 0, NULL), SMLA_ERROR_INVALID_ARGUMENT);
}

/* ---- JSON ---- */

static json_t *json_of(smla_context *context)
{
    json_error_t error;
    size_t size = 0, written = 0;

    assert_int_equal(smla_stats_json(context, NULL, 0, &size), SMLA_OK);
    char *text = malloc(size); /* exactly: ASan proves the size */
    memset(text, 'x', size);
    assert_int_equal(smla_stats_json(context, text, size - 1, &written), SMLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(written, size);
    assert_int_equal(text[0], 'x');
    assert_int_equal(smla_stats_json(context, text, size, &written), SMLA_OK);
    assert_int_equal(written, size);
    assert_int_equal(strlen(text), size - 1);
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL)
        fail_msg("%s at %d:%d: %s", error.text, error.line, error.column, text);
    free(text);
    return root;
}

static void json_says_the_same(void **state)
{
    struct world *world = *state;
    static smla_event events[MOST];

    json_t *empty = json_of(world->context);
    assert_int_equal(json_array_size(json_object_get(empty, "events")), 0);
    json_decref(empty);
    for (int i = 0; i < 2; i++)
        prepare(world->context, 64, SMLA_OK);
    json_t *root = json_of(world->context);
    const json_t *counters = json_object_get(root, "counters"), *rows = json_object_get(root, "events");
    assert_string_equal(json_string_value(json_object_get(root, "smla")), smla_version());
    assert_int_equal(json_integer_value(json_object_get(counters, "compiles")), 1);
    assert_int_equal(json_integer_value(json_object_get(counters, "memory_hits")), 1);
    assert_int_equal(json_integer_value(json_object_get(counters, "events")), 4);
    const size_t count = read_events(world->context, 0, events);
    assert_int_equal(json_array_size(rows), count);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(rows, i);
        assert_int_equal(json_integer_value(json_object_get(row, "number")), events[i].number);
        assert_int_equal(json_integer_value(json_object_get(row, "time_ns")), events[i].time_ns);
        assert_int_equal(json_integer_value(json_object_get(row, "duration_ns")), events[i].duration_ns);
        assert_int_equal(json_integer_value(json_object_get(row, "status")), events[i].status);
        assert_string_equal(json_string_value(json_object_get(row, "kernel_id")), events[i].kernel_id);
        assert_string_equal(json_string_value(json_object_get(row, "kernel")), events[i].kernel);
        assert_string_equal(json_string_value(json_object_get(row, "message")), events[i].message);
    }
    assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 0), "kind")), "compile-start");
    assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 3), "kind")), "memory-hit");
    assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 3), "tier")), "memory");
    json_decref(root);
}

/* A path is any bytes: quotes, control characters, UTF-8 and what is none. */
static void json_of_strange_paths(void **state)
{
    static const struct {
        const char *bytes, *text;
    } rows[] = {
        {"a\"b\\c\n\x01", "a\"b\\c\n\x01"},
        {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\xc3(\x80\xff", "\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* half of a surrogate pair */
        {"\xc0\xaf\xf8", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* an overlong slash */
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        smla_context_desc desc = stub_context_desc();
        char path[100], wanted[100];

        snprintf(path, sizeof path, "/nonexistent/%s", rows[i].bytes);
        snprintf(wanted, sizeof wanted, "the bundle /nonexistent/%s is not used", rows[i].text);
        desc.bundles = path;
        smla_context *context = create(&desc);
        json_t *root = json_of(context);
        const json_t *event = json_array_get(json_object_get(root, "events"), 0);
        assert_ptr_equal(strstr(json_string_value(json_object_get(event, "message")), wanted),
                         json_string_value(json_object_get(event, "message")));
        json_decref(root);
        smla_context_destroy(context);
    }
}

/* ---- Threads ---- */

static void *read_on(void *user)
{
    smla_context *context = user;
    static _Thread_local smla_event events[MOST];
    uint64_t since = 0;

    for (int i = 0; i < 50; i++) {
        char *text = malloc(1 << 20);
        size_t size;
        const size_t count = read_events(context, since, events);
        for (size_t j = 0; j < count; j++) {
            assert_true(events[j].number >= since);
            since = events[j].number + 1;
        }
        assert_int_equal(smla_stats_json(context, text, 1 << 20, &size), SMLA_OK);
        free(text);
    }
    return NULL;
}

static void read_while_written(void **state)
{
    struct world *world = *state;
    pthread_t readers[2], writers[THREADS];
    struct asker asker = {world, world->context};

    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_on, world->context), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&writers[i], NULL, ask, &asker), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(readers[i], NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(writers[i], NULL);
    assert_int_equal(stats_of(world->context).events, 3 + THREADS - 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(compiled_loaded_found),
        TEST(written_and_found_on_disk),
        TEST(found_in_read_only_tiers),
        TEST(refused),
        TEST(failed_and_remembered),
        TEST(not_loaded),
        TEST(not_waited_for),
        TEST(damaged),
        TEST(not_written),
        TEST(cannot_be_used),
        TEST(evicted),
        TEST(waited_for_others),
        TEST(the_oldest_go),
        TEST(other_struct_sizes),
        TEST(wrong_calls),
        TEST(json_says_the_same),
        TEST(json_of_strange_paths),
        TEST(read_while_written),
    };
    return cmocka_run_group_tests_name("runtime.events", tests, NULL, NULL);
}
