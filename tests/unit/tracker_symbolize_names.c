/*
 * Proves that addresses get their function's name from the module's file: exported,
 * hidden, C++; that stripped, replaced and missing files give module and offset and no
 * wrong name; and that a plug-in that was closed is still named.
 */
#include "tracker/names/elf_file.h"
#include "tracker/names/symbolize.h"
#include "tracker/stacks/stacks.h"
#include "tracker_stacks_fixtures.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#define FRAMES 64

typedef int enter_function(int (*call)(void *), void *argument);

static struct gs_stacks *stacks;
static struct gs_symbolizer *symbolizer;
static uint32_t captured;
static struct gs_module modules[FRAMES];
static struct gs_symbol_request requests[FRAMES];

static void open_all(void)
{
    struct gs_stacks_config config = {.unwinder = GS_UNWIND_AUTO, .depth = FRAMES};
    struct gs_symbolizer_config names_only = {.lines = false};

    cr_assert_eq(gs_stacks_create(&config, &stacks), GS_OK);
    cr_assert_eq(gs_symbolizer_create(&names_only, &symbolizer), GS_OK);
}

static void close_all(void)
{
    gs_symbolizer_destroy(symbolizer);
    gs_stacks_destroy(stacks);
}

TestSuite(symbolize_names, .init = open_all, .fini = close_all, .timeout = 120);

static __attribute__((noinline)) int capture(void *unused)
{
    (void)unused;
    captured = gs_stacks_capture(stacks);
    return 1;
}

/* Capture through a module's function; the module is closed again. */
static void capture_through(const char *path, const char *function)
{
    void *module = dlopen(path, RTLD_NOW);
    enter_function *enter;

    cr_assert_not_null(module, "%s", dlerror());
    enter = (enter_function *)dlsym(module, function);
    cr_assert_not_null(enter);
    enter(capture, NULL);
    dlclose(module);
}

/* Requests for all frames of the captured stack; returns how many. */
static unsigned make_requests(void)
{
    uintptr_t frames[FRAMES];
    unsigned count = gs_stacks_frames(stacks, captured, frames, FRAMES);

    cr_assert_geq(count, 4);
    for (unsigned i = 0; i < count; i++) {
        requests[i].frame = frames[i];
        requests[i].module = NULL;
        if (gs_stacks_module(stacks, captured, frames[i], &modules[i]) == GS_OK)
            requests[i].module = &modules[i];
    }
    return count;
}

Test(symbolize_names, exported_and_hidden_functions_of_a_closed_plugin)
{
    capture_through(fixture_path("named.so"), "named_exported");
    gs_symbolizer_resolve(symbolizer, requests, make_requests());
    cr_assert_str_eq(requests[0].result.function, "capture");
    cr_assert_str_eq(requests[1].result.function, "named_hidden");
    cr_assert_str_eq(requests[1].result.linkage, "named_hidden");
    cr_assert_str_eq(requests[1].result.module, "named.so");
    cr_assert_str_eq(requests[2].result.function, "named_exported");
    cr_assert_eq(requests[2].result.offset,
                 requests[2].frame - 1 - requests[2].module->bias);
    cr_assert_null(requests[2].result.file);
    cr_assert_eq(requests[2].result.line, 0);
    cr_assert_null(gs_symbolizer_note(symbolizer));
}

Test(symbolize_names, stripped_module_names_what_it_exports_and_nothing_else)
{
    capture_through(fixture_path("named_stripped.so"), "named_exported");
    gs_symbolizer_resolve(symbolizer, requests, make_requests());
    cr_assert_null(requests[1].result.function, "%s", requests[1].result.function);
    cr_assert_null(requests[1].result.linkage);
    cr_assert_str_eq(requests[1].result.module, "named_stripped.so");
    cr_assert_neq(requests[1].result.offset, 0);
    cr_assert_str_eq(requests[2].result.function, "named_exported");
}

Test(symbolize_names, cxx_names_are_demangled)
{
    if (access(fixture_path("names.so"), R_OK) != 0)
        cr_skip_test("no C++ compiler here");
    capture_through(fixture_path("names.so"), "names_enter");
    gs_symbolizer_resolve(symbolizer, requests, make_requests());
    cr_assert_str_eq(requests[1].result.function,
                     "fixture::Caller<void*>::run(int (*)(void*), void*)");
    cr_assert_str_eq(requests[1].result.linkage, "_ZN7fixture6CallerIPvE3runEPFiS1_ES1_");
    cr_assert_str_eq(requests[2].result.function, "names_enter");
}

Test(symbolize_names, another_build_gives_no_names)
{
    capture_through(fixture_path("named.so"), "named_exported");
    make_requests();
    modules[1].build_id[3] ^= 1;
    gs_symbolizer_resolve(symbolizer, requests, 3);
    cr_assert_null(requests[1].result.function);
    cr_assert_str_eq(requests[1].result.module, "named.so");
    cr_assert_neq(requests[1].result.offset, 0);
    cr_assert_str_eq(requests[2].result.function, "named_exported", "this one is right");
}

Test(symbolize_names, unknown_build_is_taken_as_it_is)
{
    capture_through(fixture_path("named.so"), "named_exported");
    make_requests();
    modules[1].build_id_len = 0;
    gs_symbolizer_resolve(symbolizer, requests, 2);
    cr_assert_str_eq(requests[1].result.function, "named_hidden");
}

/* One without a build id, and with the file it had when it was loaded, or another. */
Test(symbolize_names, another_file_gives_no_names)
{
    capture_through(fixture_path("named.so"), "named_exported");
    make_requests();
    modules[1].build_id_len = 0;
    modules[1].file_stamp = gs_elf_file_stamp(modules[1].path);
    cr_assert_neq(modules[1].file_stamp, 0);
    gs_symbolizer_resolve(symbolizer, requests, 2);
    cr_assert_str_eq(requests[1].result.function, "named_hidden");
    modules[1].file_stamp ^= 2;
    gs_symbolizer_resolve(symbolizer, requests, 2);
    cr_assert_null(requests[1].result.function);
    cr_assert_str_eq(requests[1].result.module, "named.so");
}

Test(symbolize_names, missing_odd_and_foreign_files_are_unknown)
{
    static const uint8_t elf32[64] = {0x7f, 'E', 'L', 'F', 1, 1, 1};
    static const char *const paths[] = {
        "/nonexistent/libx.so",   "[vdso]", "", "/", "/dev/null", "relative.so",
        "/gone/libx.so (deleted)"};
    static const char *const names[] = {"libx.so", "[vdso]",      NULL,     NULL,
                                        "null",    "relative.so", "libx.so"};
    char directory[] = "/tmp/gs-names-XXXXXX", path[64];
    struct gs_module module = {.begin = 0x1000, .end = 0x9000, .bias = 0x1000};
    struct gs_symbol_request request = {.frame = 0x2001, .module = &module};
    FILE *file;

    for (size_t i = 0; i < GS_ARRAY_LEN(paths); i++) {
        module.path = paths[i];
        gs_symbolizer_resolve(symbolizer, &request, 1);
        cr_assert_null(request.result.function);
        cr_assert_eq(request.result.offset, 0x1000);
        if (names[i] == NULL)
            cr_assert_null(request.result.module);
        else
            cr_assert_str_eq(request.result.module, names[i]);
    }
    cr_assert_not_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/elf32", directory);
    file = fopen(path, "w");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(elf32, sizeof(elf32), 1, file), 1);
    fclose(file);
    module.path = path;
    gs_symbolizer_resolve(symbolizer, &request, 1);
    cr_assert_null(request.result.function);
    unlink(path);
    cr_assert_eq(mkfifo(path, 0600), 0);
    module.path = path;
    modules[0] = module;
    modules[0].build_id_len = 1; /* another object: opened again */
    request.module = &modules[0];
    gs_symbolizer_resolve(symbolizer, &request, 1); /* must not wait for a writer */
    cr_assert_null(request.result.function);
    unlink(path);
    rmdir(directory);
}

Test(symbolize_names, no_module_and_no_requests)
{
    struct gs_symbol_request request = {.frame = 0x1234};

    memset(&request.result, 0x55, sizeof(request.result));
    gs_symbolizer_resolve(symbolizer, &request, 1);
    cr_assert_null(request.result.function);
    cr_assert_null(request.result.module);
    cr_assert_null(request.result.file);
    cr_assert_eq(request.result.offset, 0);
    gs_symbolizer_resolve(symbolizer, NULL, 0);
    gs_symbolizer_destroy(NULL);
    cr_assert_eq(gs_symbolizer_create(NULL, &symbolizer), GS_ERR_INVALID);
}

Test(symbolize_names, equal_requests_get_equal_results)
{
    capture_through(fixture_path("named.so"), "named_exported");
    make_requests();
    for (unsigned i = 10; i < 20; i++) {
        requests[i] = requests[1 + i % 2];
        modules[i] = *requests[i].module; /* equal, not the same */
        requests[i].module = &modules[i];
    }
    gs_symbolizer_resolve(symbolizer, requests + 10, 10);
    for (unsigned i = 10; i < 20; i++)
        cr_assert_str_eq(requests[i].result.function,
                         i % 2 ? "named_exported" : "named_hidden");
}
