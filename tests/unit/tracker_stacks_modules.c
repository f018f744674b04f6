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
    snapshot->counts.adds = adds;
    snapshot->counts.unloads = unloads;
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

    gs_module_table_merge(&table, old);
    cr_assert_eq(table.epoch, 1);
    gs_module_table_merge(&table, new);
    gs_module_table_merge(&table, gone); /* taken before, merged after */
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
