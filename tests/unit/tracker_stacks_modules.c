/*
 * Proves that each address of a stack is led back to the module that held it when the
 * stack was first seen, also after that module is gone or another took its place.
 */
#include "tracker/names/module_snapshot.h"
#include "tracker/names/modules.h"
#include "tracker/stacks/stacks.h"
#include "tracker_stacks_fixtures.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>
#include <stdlib.h>

typedef int enter_function(int (*call)(void *), void *argument);

static struct gs_stacks *stacks;
static uint32_t captured;

static void open_stacks(void)
{
    struct gs_stacks_config config = {.unwinder = GS_UNWIND_AUTO, .depth = 64};

    cr_assert_eq(gs_stacks_create(&config, &stacks), GS_OK);
}

static void close_stacks(void)
{
    gs_stacks_destroy(stacks);
}

TestSuite(stacks_modules, .init = open_stacks, .fini = close_stacks, .timeout = 120);

static __attribute__((noinline)) int capture(void *unused)
{
    (void)unused;
    captured = gs_stacks_capture(stacks);
    return 1;
}

/* Capture through a plug-in that is closed afterwards; *frame: the address inside it. */
static uint32_t capture_through(const char *name, uintptr_t *place, uintptr_t *frame)
{
    void *module = dlopen(fixture_path(name), RTLD_NOW);
    uintptr_t frames[64];
    enter_function *enter;

    cr_assert_not_null(module, "%s", dlerror());
    enter = (enter_function *)dlsym(module, "plugin_enter");
    enter(capture, NULL);
    *place = (uintptr_t)enter;
    dlclose(module);
    cr_assert_geq(gs_stacks_frames(stacks, captured, frames, 64), 3);
    *frame = frames[1];
    return captured;
}

Test(stacks_modules, program_and_libraries_have_absolute_paths_and_build_ids)
{
    struct gs_module module;
    char program[PATH_MAX] = "";
    uintptr_t library = (uintptr_t)dlsym(RTLD_DEFAULT, "clock_gettime");
    uintptr_t frames[2] = {(uintptr_t)capture + 1, library + 1};
    uint32_t id = gs_stacks_intern(stacks, frames, 2);
    struct link_map *loaded;
    Dl_info info;

    cr_assert_gt(readlink("/proc/self/exe", program, sizeof(program) - 1), 0);
    cr_assert_eq(gs_stacks_module(stacks, id, frames[0], &module), GS_OK);
    cr_assert_str_eq(module.path, program);
    cr_assert_neq(dladdr1((void *)capture, &info, (void **)&loaded, RTLD_DL_LINKMAP), 0);
    cr_assert(module.begin <= frames[0] && frames[0] < module.end);
    cr_assert_eq(module.bias, loaded->l_addr);

    cr_assert_eq(gs_stacks_module(stacks, id, frames[1], &module), GS_OK);
    cr_assert_neq(dladdr((void *)library, &info), 0);
    cr_assert_str_eq(module.path, info.dli_fname);
    cr_assert_eq(module.path[0], '/');
    cr_assert_eq(module.bias, (uintptr_t)info.dli_fbase);
}

Test(stacks_modules, vdso_has_its_name)
{
    uintptr_t vdso = (uintptr_t)getauxval(AT_SYSINFO_EHDR);
    struct gs_module module;
    uint32_t id;

    if (vdso == 0)
        cr_skip_test("no vdso here");
    vdso += 16;
    id = gs_stacks_intern(stacks, &vdso, 1);
    cr_assert_eq(gs_stacks_module(stacks, id, vdso, &module), GS_OK);
    cr_assert_str_eq(module.path, "[vdso]");
}

Test(stacks_modules, addresses_in_no_module_are_not_found)
{
    uintptr_t frames[2] = {16, (uintptr_t)&stacks + ((uintptr_t)1 << 46)};
    uint32_t id = gs_stacks_intern(stacks, frames, 2);
    struct gs_module module;

    cr_assert_neq(id, 0);
    cr_assert_eq(gs_stacks_module(stacks, id, frames[0], &module), GS_ERR_NOT_FOUND);
    cr_assert_eq(gs_stacks_module(stacks, id, frames[1], &module), GS_ERR_NOT_FOUND);
    cr_assert_eq(gs_stacks_module(stacks, id, 0, &module), GS_ERR_NOT_FOUND);
}

Test(stacks_modules, closed_plugin_is_still_known)
{
    uintptr_t place, frame;
    uint32_t id = capture_through("plugin_small.so", &place, &frame);
    struct gs_module module;

    cr_assert_eq(gs_stacks_module(stacks, id, frame, &module), GS_OK);
    cr_assert_not_null(strstr(module.path, "/fixtures/plugin_small.so"));
    cr_assert_eq(module.build_id_len, 20);
    cr_assert(frame > place && frame < place + 256);
}

Test(stacks_modules, equal_addresses_keep_the_module_of_the_first_time)
{
    static const char *const names[] = {"plugin_small.so", "plugin_large.so"};
    uintptr_t places[2], frames[2];
    uint32_t ids[2], later;
    struct gs_module module;

    for (volatile int i = 0; i < 2; i++) /* one call instruction: the same addresses */
        ids[i] = capture_through(names[i], &places[i], &frames[i]);
    if (places[0] != places[1])
        cr_skip_test("the loader put the second plug-in elsewhere");
    cr_assert_eq(frames[0], frames[1]);
    cr_assert_eq(ids[0], ids[1]);
    cr_assert_eq(gs_stacks_module(stacks, ids[0], frames[0], &module), GS_OK);
    cr_assert_not_null(strstr(module.path, "plugin_small.so"));
    /* a stack that is new now, when both are closed */
    later = gs_stacks_intern(stacks, &frames[0], 1);
    cr_assert_eq(gs_stacks_module(stacks, later, frames[0], &module), GS_ERR_NOT_FOUND);
}

static __attribute__((noinline)) int capture_from_elsewhere(void *unused)
{
    return capture(unused) + 1;
}

Test(stacks_modules, successor_is_named_in_stacks_of_its_own)
{
    uintptr_t place, frame, frames[64];
    uint32_t first = capture_through("plugin_small.so", &place, &frame), second;
    void *module = dlopen(fixture_path("plugin_large.so"), RTLD_NOW);
    enter_function *enter;
    struct gs_module before, after;

    cr_assert_not_null(module);
    enter = (enter_function *)dlsym(module, "plugin_enter");
    if ((uintptr_t)enter != place)
        cr_skip_test("the loader put the second plug-in elsewhere");
    enter(capture_from_elsewhere, NULL);
    second = captured;
    cr_assert_neq(first, second);
    cr_assert_geq(gs_stacks_frames(stacks, second, frames, 64), 4);
    cr_assert_eq(gs_stacks_module(stacks, first, frame, &before), GS_OK);
    cr_assert_eq(gs_stacks_module(stacks, second, frames[2], &after), GS_OK);
    cr_assert_not_null(strstr(before.path, "plugin_small.so"));
    cr_assert_not_null(strstr(after.path, "plugin_large.so"));
    cr_assert_eq(before.begin, after.begin);
    dlclose(module);
}

Test(stacks_modules, relative_path_becomes_absolute)
{
    char directory[PATH_MAX + 64];
    uintptr_t frame, frames[64];
    struct gs_module module;
    enter_function *enter;
    void *handle;

    snprintf(directory, sizeof(directory), "%s", fixture_path(""));
    cr_assert_eq(chdir(directory), 0);
    handle = dlopen("./plugin_large.so", RTLD_NOW);
    cr_assert_not_null(handle, "%s", dlerror());
    enter = (enter_function *)dlsym(handle, "plugin_enter");
    enter(capture, NULL);
    cr_assert_geq(gs_stacks_frames(stacks, captured, frames, 64), 3);
    frame = frames[1];
    dlclose(handle);
    cr_assert_eq(gs_stacks_module(stacks, captured, frame, &module), GS_OK);
    cr_assert_eq(module.path[0], '/');
    cr_assert_str_eq(module.path, fixture_path("plugin_large.so"));
}

/* A snapshot by hand: what the loader would say. */
static struct gs_module_snapshot *make_snapshot(uint64_t adds, uint64_t unloads,
                                                const char *path)
{
    struct gs_module_snapshot *snapshot =
        calloc(1, sizeof(*snapshot) + sizeof(struct gs_module));

    cr_assert_not_null(snapshot);
    snapshot->now.adds = adds;
    snapshot->now.unloads = unloads;
    snapshot->all = true;
    if (path != NULL) {
        snapshot->count = 1;
        snapshot->modules[0].path = path;
        snapshot->modules[0].begin = 0x1000;
        snapshot->modules[0].end = 0x2000;
    }
    return snapshot;
}

Test(stacks_modules, late_snapshot_does_not_undo_a_newer_one)
{
    struct gs_module_table table = {0};
    struct gs_module_snapshot *old = make_snapshot(1, 0, "/old");
    struct gs_module_snapshot *gone = make_snapshot(1, 1, NULL);
    struct gs_module_snapshot *new = make_snapshot(2, 1, "/new");
    const struct gs_module *module;

    cr_assert(gs_module_table_merge(&table, old));
    cr_assert_eq(table.epoch, 1);
    cr_assert(gs_module_table_merge(&table, new));
    cr_assert(gs_module_table_merge(&table, gone)); /* taken before, merged after */
    cr_assert_eq(table.epoch, 2);
    module = gs_module_table_find(&table, 1, 0x1800);
    cr_assert_str_eq(module->path, "/old");
    module = gs_module_table_find(&table, 2, 0x1800);
    cr_assert_str_eq(module->path, "/new");
    cr_assert_null(gs_module_table_find(&table, 2, 0x2000));
    gs_module_table_clear(&table);
    free(old);
    free(gone);
    free(new);
}

Test(stacks_modules, increment_fits_only_the_list_it_was_taken_from)
{
    struct gs_module_table table = {0};
    struct gs_module_snapshot *first = make_snapshot(1, 0, "/first");
    struct gs_module_snapshot *more = make_snapshot(2, 0, "/more");
    struct gs_module_snapshot *late = make_snapshot(3, 0, "/late");

    more->all = late->all = false;
    more->before = late->before = first->now;
    more->modules[0].begin += 0x10000;
    more->modules[0].end += 0x10000;
    cr_assert_not(gs_module_table_merge(&table, more), "the table has no list yet");
    cr_assert(gs_module_table_merge(&table, first));
    cr_assert(gs_module_table_merge(&table, more));
    cr_assert_not(gs_module_table_merge(&table, late), "it may have /more again");
    cr_assert_eq(table.epoch, 2);
    cr_assert_str_eq(gs_module_table_find(&table, 2, 0x1800)->path, "/first");
    cr_assert_str_eq(gs_module_table_find(&table, 2, 0x11800)->path, "/more");
    cr_assert_null(gs_module_table_find(&table, 1, 0x11800));
    gs_module_table_clear(&table);
    free(first);
    free(more);
    free(late);
}

/* Of random modules, some at the addresses of earlier ones, the look-up finds the same as
 * a search through all of them. */
Test(stacks_modules, look_up_in_many_records_finds_the_one_of_the_epoch)
{
    enum { RECORDS = 3000, PLACES = 40, QUESTIONS = 20000 };
    struct gs_module_table table = {0};
    uint32_t free_from[PLACES] = {0};
    unsigned seed = 1;

    for (int i = 0; i < RECORDS; i++) {
        size_t place = (size_t)rand_r(&seed) % PLACES;
        struct gs_module_record record = {.module.path = "/module"};

        record.first_epoch = free_from[place] + 1 + (uint32_t)rand_r(&seed) % 3;
        record.last_epoch = record.first_epoch + (uint32_t)rand_r(&seed) % 4;
        free_from[place] = record.last_epoch;
        record.module.begin = 0x10000 * (place + 1) + (uintptr_t)rand_r(&seed) % 3 * 4096;
        record.module.end = record.module.begin + 4096 * (1 + (uintptr_t)i % 5);
        gs_module_table_add(&table, &record);
    }
    for (int i = 0; i < QUESTIONS; i++) {
        uintptr_t address = (uintptr_t)rand_r(&seed) % (0x10000 * (PLACES + 2));
        uint32_t epoch = (uint32_t)rand_r(&seed) % 300;
        const struct gs_module *found = gs_module_table_find(&table, epoch, address);
        const struct gs_module *wanted = NULL;

        for (size_t k = 0; k < table.count && wanted == NULL; k++) {
            const struct gs_module_record *record = &table.records[k];

            if (address >= record->module.begin && address < record->module.end &&
                epoch >= record->first_epoch && epoch <= record->last_epoch)
                wanted = &record->module;
        }
        cr_assert_eq(found, wanted, "%#lx in epoch %u", (unsigned long)address, epoch);
    }
    cr_assert_not_null(table.index, "an index, instead of a search through all");
    gs_module_table_clear(&table);
}

/* What a reading of the loader's list visits. */
struct visits {
    unsigned count;
    bool all, plugin;
};

static bool count_visit(const struct dl_phdr_info *info, bool all, void *data)
{
    struct visits *visits = data;
    bool dynamic = false;

    for (int i = 0; i < info->dlpi_phnum; i++)
        dynamic |= info->dlpi_phdr[i].p_type == PT_DYNAMIC;
    cr_assert(dynamic, "the program headers of %s", info->dlpi_name);
    visits->count++;
    visits->all = all;
    visits->plugin |= strstr(info->dlpi_name, "plugin_small.so") != NULL;
    return false;
}

static void expect_new_modules_alone(bool every)
{
    bool (*read)(struct gs_loaded *, gs_loaded_visit *, void *) =
        every ? gs_loaded_visit_changes : gs_loaded_visit_new;
    struct gs_loaded seen = {0};
    struct visits all = {0}, none = {0}, one = {0}, again = {0}, other = {0};
    void *module;

    cr_assert_not(read(&seen, count_visit, &all));
    cr_assert(all.all && all.count > 3);
    cr_assert_not(read(&seen, count_visit, &none));
    cr_assert_eq(none.count, 0);
    module = dlopen(fixture_path("plugin_small.so"), RTLD_NOW);
    cr_assert_not_null(module);
    cr_assert_not(read(&seen, count_visit, &one));
    cr_assert(one.count == 1 && one.plugin && !one.all);
    cr_assert_eq(seen.count, all.count + 1);
    dlclose(module);
    cr_assert_not(read(&seen, count_visit, &again));
    cr_assert_eq(again.count, every ? all.count : 0);
    cr_assert_eq(seen.count, all.count);
    for (int i = 0; i < 2; i++) { /* an unload and loads since the last reading */
        module = dlopen(fixture_path("plugin_small.so"), RTLD_NOW);
        if (i == 0)
            dlclose(module);
    }
    cr_assert_not(read(&seen, count_visit, &other));
    cr_assert(other.plugin && other.count <= (every ? all.count + 1 : 2));
    cr_assert_eq(seen.count, all.count + 1);
    dlclose(module);
}

Test(stacks_modules, reading_of_the_list_visits_what_is_new)
{
    void *find = dlsym(RTLD_DEFAULT, "_dl_find_object");
    void *const finders[] = {find, NULL};

    for (size_t i = 0; i < GS_ARRAY_LEN(finders); i++) {
        gs_loaded_learn(finders[i]); /* NULL: an older glibc */
        expect_new_modules_alone(false);
        expect_new_modules_alone(true);
    }
}
