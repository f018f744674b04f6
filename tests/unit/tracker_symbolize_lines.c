/*
 * Proves that file and line come from either helper, and that a helper that hangs, lies,
 * dies, floods or is not there costs no more than its time limit and leaves no trace: no
 * zombie, no signal, no descriptor.
 */
#include "gs_clock.h"
#include "tracker/names/helper_process.h"
#include "tracker/names/line_helper.h"
#include "tracker/names/symbolize.h"
#include "tracker/stacks/stacks.h"
#include "tracker_stacks_fixtures.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

typedef int enter_function(int (*call)(void *), void *argument);

static char directory[] = "/tmp/gs-lines-XXXXXX";
static struct gs_line_query queries[4];

static void make_directory(void)
{
    cr_assert_not_null(mkdtemp(directory));
    for (int i = 0; i < 4; i++) {
        queries[i].path = i < 3 ? "/bin/sh" : "/bin/true";
        queries[i].address = 0x100u * (unsigned)(i + 1);
    }
}

static void remove_directory(void)
{
    char command[128];

    for (int i = 0; i < 4; i++)
        gs_line_query_free(&queries[i]);
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    cr_assert_eq(system(command), 0);
}

TestSuite(symbolize_lines, .init = make_directory, .fini = remove_directory,
          .timeout = 120);

/* A shell script in the directory; static storage, one at a time. */
static const char *make_script(const char *name, const char *body)
{
    static char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "w");
    cr_assert_not_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", body);
    fclose(file);
    cr_assert_eq(chmod(path, 0755), 0);
    return path;
}

/* A helper's answers to the first questions it gets. */
static const char *resolve(const char *program, unsigned timeout_ms,
                           struct gs_line_query *asked, size_t count)
{
    struct gs_line_helper helper = {.program = program ? strdup(program) : NULL};
    const char *note = gs_line_helper_resolve(&helper, timeout_ms, asked, count);

    gs_line_helper_end(&helper);
    free(helper.program);
    return note;
}

static void assert_no_children(void)
{
    errno = 0;
    cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1);
    cr_assert_eq(errno, ECHILD);
}

static void assert_place(const struct gs_line_place *place, const char *function,
                         const char *file, unsigned line)
{
    cr_assert_eq(place->function != NULL, function != NULL);
    if (function != NULL)
        cr_assert_str_eq(place->function, function);
    cr_assert_eq(place->file != NULL, file != NULL);
    if (file != NULL)
        cr_assert_str_eq(place->file, file);
    cr_assert_eq(place->line, line);
}

/* The place in the function that the symbol names. */
static void assert_answer(int i, const char *file, unsigned line)
{
    static const struct gs_line_place unknown;
    struct gs_line_place place =
        queries[i].count > 0 ? queries[i].places[queries[i].count - 1] : unknown;

    assert_place(&place, place.function, file, line);
}

Test(symbolize_lines, llvm_format)
{
    const char *script =
        make_script("fake-llvm", "printf '_Zin\\ninner.h:9:1\\nout\\nouter.c:20:3\\n\\n"
                                 "??\\n??:0:0\\n\\nf\\n/a b/c:d.c:7:0\\n\\n"
                                 "g\\n??:0:0\\nf\\nx.c:5:1\\n\\n'; cat >/dev/null");

    cr_assert_null(resolve(script, 10000, queries, 4));
    assert_answer(0, "outer.c", 20);
    assert_answer(1, NULL, 0);
    assert_answer(2, "/a b/c:d.c", 7);
    assert_answer(3, "x.c", 5);
    cr_assert_eq(queries[0].count, 2);
    assert_place(&queries[0].places[0], "_Zin", "inner.h", 9);
    assert_place(&queries[0].places[1], "out", "outer.c", 20);
    cr_assert_eq(queries[2].count, 1);
    cr_assert_eq(queries[3].count, 2);
    assert_place(&queries[3].places[0], "g", NULL, 0);
    assert_no_children();
}

/* A name that would move the cursor is none; of too many functions the last, which
 * contains the others, is kept. */
Test(symbolize_lines, names_and_numbers_of_functions_are_bounded)
{
    const char *script = make_script(
        "fake-llvm", "printf 'a\\033[31m\\nb.c:1:1\\n\\n'; i=0; while [ $i -lt 100 ]; do "
                     "i=$((i + 1)); echo f$i; echo f.c:$i:1; done; echo; echo; echo");

    cr_assert_null(resolve(script, 10000, queries, 4));
    cr_assert_eq(queries[0].count, 1);
    assert_place(&queries[0].places[0], NULL, "b.c", 1);
    cr_assert_eq(queries[1].count, GS_LINE_PLACES_MAX);
    assert_place(&queries[1].places[0], "f1", "f.c", 1);
    assert_place(&queries[1].places[GS_LINE_PLACES_MAX - 1], "f100", "f.c", 100);
}

Test(symbolize_lines, addr2line_format_and_one_child_a_module)
{
    const char *script = make_script(
        "my-addr2line", "while read a; do echo $a; echo _Zin; echo inner.h:1; echo out;"
                        " echo \"$5:$((a)) (discriminator 3)\"; done");

    cr_assert_null(resolve(script, 10000, queries, 4));
    assert_answer(0, "/bin/sh", 0x100);
    assert_answer(2, "/bin/sh", 0x300);
    assert_answer(3, "/bin/true", 0x400);
    cr_assert_eq(queries[2].count, 2);
    assert_place(&queries[2].places[0], "_Zin", "inner.h", 1);
    assert_place(&queries[2].places[1], "out", "/bin/sh", 0x300);
    assert_no_children();
}

/* Or the innermost function would have the name of the one that contains it. */
Test(symbolize_lines, addr2lines_name_of_the_symbol_is_not_the_inlined_functions)
{
    const char *script =
        make_script("my-addr2line",
                    "while read a; do echo $a; echo main; echo inner.h:1; echo middle; "
                    "echo m.h:2; echo main; echo main.c:3; done");

    cr_assert_null(resolve(script, 10000, queries, 4));
    cr_assert_eq(queries[0].count, 3);
    assert_place(&queries[0].places[0], NULL, "inner.h", 1);
    assert_place(&queries[0].places[1], "middle", "m.h", 2);
    assert_place(&queries[0].places[2], "main", "main.c", 3);
}

Test(symbolize_lines, questions_are_asked_as_llvm_wants_them)
{
    const char *script =
        make_script("fake-llvm", "while read a; do echo $a >>$0.in; echo; done");
    char name[160], text[256] = "";
    FILE *file;

    snprintf(name, sizeof(name), "%s.in", script);
    cr_assert_null(resolve(script, 10000, queries, 4));
    file = fopen(name, "r");
    cr_assert_not_null(file);
    cr_assert_gt(fread(text, 1, sizeof(text) - 1, file), 0);
    fclose(file);
    cr_assert_str_eq(text, "CODE \"/bin/sh\" 0x100\nCODE \"/bin/sh\" 0x200\n"
                           "CODE \"/bin/sh\" 0x300\nCODE \"/bin/true\" 0x400\n");
}

/* Starting llvm-symbolizer costs more than most answers. */
Test(symbolize_lines, one_llvm_answers_until_it_ends)
{
    struct gs_line_helper helper = {
        .program = strdup(make_script("fake-llvm", "i=0; while [ $i -lt 6 ]; do read a; "
                                                   "i=$((i + 1)); echo f; "
                                                   "echo f.c:$i:1; echo; done"))};

    cr_assert_null(gs_line_helper_resolve(&helper, 10000, queries, 2));
    assert_answer(1, "f.c", 2);
    cr_assert_null(gs_line_helper_resolve(&helper, 10000, queries + 2, 2));
    assert_answer(2, "f.c", 3);
    assert_answer(3, "f.c", 4);
    const char *note = gs_line_helper_resolve(&helper, 10000, queries, 4);
    cr_assert_not_null(strstr(note, "no full answer"), "%s", note);
    assert_answer(1, "f.c", 6);
    assert_answer(3, "f.c", 4);
    gs_line_helper_end(&helper);
    free(helper.program);
    assert_no_children();
}

Test(symbolize_lines, hanging_helper_is_ended_at_the_limit_and_what_came_is_kept)
{
    const char *script =
        make_script("fake-llvm", "printf 'f\\nfirst.c:1:1\\n\\n'; sleep 300");
    uint64_t start = gs_now_ns(), took_ms;
    const char *note = resolve(script, 3000, queries, 4);

    took_ms = (gs_now_ns() - start) / 1000000;
    cr_assert_not_null(note);
    cr_assert_not_null(strstr(note, "time limit"), "%s", note);
    cr_assert(took_ms >= 3000 && took_ms < 120000, "%lu ms", (unsigned long)took_ms);
    assert_answer(0, "first.c", 1);
    assert_answer(1, NULL, 0);
    assert_no_children();
}

Test(symbolize_lines, helper_that_ignores_signals_and_input_is_killed)
{
    const char *script = make_script(
        "fake-llvm", "trap '' TERM INT HUP; while :; do echo no; sleep 1; done");
    uint64_t start = gs_now_ns();

    cr_assert_not_null(resolve(script, 200, queries, 4));
    cr_assert_lt(gs_now_ns() - start, 120000000000u);
    assert_no_children();
}

Test(symbolize_lines, limit_holds_for_all_modules_together)
{
    const char *script = make_script("slow-addr2line", "read a; echo $a; sleep 300");
    uint64_t start = gs_now_ns();

    cr_assert_not_null(resolve(script, 300, queries, 4));
    cr_assert_lt(gs_now_ns() - start, 120000000000u);
    assert_no_children();
}

Test(symbolize_lines, answering_and_then_hanging_does_not_cost_the_limit)
{
    const char *script = make_script(
        "fake-llvm",
        "printf 'f\\na:1:1\\n\\nf\\nb:2:1\\n\\nf\\nc:3:1\\n\\nf\\nd:4:1\\n\\n';"
        "exec sleep 300");
    uint64_t start = gs_now_ns();

    cr_assert_null(resolve(script, 250000, queries, 4));
    cr_assert_lt(gs_now_ns() - start, 120000000000u);
    assert_answer(3, "d", 4);
    assert_no_children();
}

static void assert_printable(const char *text)
{
    for (; text != NULL && *text != '\0'; text++)
        cr_assert((unsigned char)*text >= ' ' && *text != 0x7f);
}

Test(symbolize_lines, garbage_is_survived)
{
    static const char *const bodies[] = {
        "head -c 300000 /dev/urandom",
        "head -c 300000 /dev/zero",
        "yes | head -c 300000",
        "printf 'f\\n:::\\nf\\n:\\n\\nf\\n:1:1\\n\\nf\\nx:-5:1\\n\\n'",
        "printf 'f\\nx:99999999999999999999:1\\n\\nx:1:1\\n\\n'",
        "printf 'f\\na\\033[31mb.c:3:4\\n\\n'",
        "echo f; head -c 40000 /dev/zero | tr '\\0' a; printf ':1:1\\n\\n'",
        "kill -9 $$",
        "exit 3",
    };

    for (size_t i = 0; i < GS_ARRAY_LEN(bodies); i++) {
        (void)resolve(make_script("fake-llvm", bodies[i]), 10000, queries, 4);
        (void)resolve(make_script("an-addr2line", bodies[i]), 10000, queries, 4);
        for (int k = 0; k < 4; k++) {
            for (unsigned n = 0; n < queries[k].count; n++) {
                const struct gs_line_place *place = &queries[k].places[n];
                assert_printable(place->function);
                assert_printable(place->file);
                if (i > 2)
                    cr_assert_null(place->file, "body %zu: %s", i, place->file);
            }
            gs_line_query_free(&queries[k]);
        }
        assert_no_children();
    }
}

Test(symbolize_lines, helper_that_reads_nothing_sends_no_signal)
{
    size_t count = 20000;
    struct gs_line_query *many = calloc(count, sizeof(*many));

    signal(SIGPIPE, SIG_DFL);
    for (size_t i = 0; i < count; i++)
        many[i].path = "/bin/sh";
    cr_assert_not_null(
        resolve(make_script("fake-llvm", "exec 0<&-; sleep 0.3"), 10000, many, count));
    free(many);
    assert_no_children();
}

Test(symbolize_lines, many_questions_to_a_helper_that_answers_at_once)
{
    size_t count = 20000;
    struct gs_line_query *many = calloc(count, sizeof(*many));
    const char *script =
        make_script("fake-llvm", "i=0; while read a; do i=$((i + 1)); echo f; "
                                 "echo f.c:$i:1; echo; done");

    for (size_t i = 0; i < count; i++)
        many[i].path = "/bin/sh";
    cr_assert_null(resolve(script, 20000, many, count));
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(many[i].count, 1);
        cr_assert_eq(many[i].places[0].line, i + 1);
        gs_line_query_free(&many[i]);
    }
    free(many);
}

Test(symbolize_lines, missing_helpers_are_told)
{
    const char *note = resolve("/nonexistent/helper", 1000, queries, 4);

    cr_assert_not_null(strstr(note, "given helper"), "%s", note);
    setenv("PATH", directory, 1); /* empty */
    note = resolve(NULL, 1000, queries, 4);
    cr_assert_not_null(strstr(note, "neither"), "%s", note);
    make_script("addr2line", "while read a; do echo $a; echo f; echo p.c:3; done");
    cr_assert_null(resolve(NULL, 5000, queries, 4));
    assert_answer(3, "p.c", 3);
    setenv("PATH", "/usr/bin:/bin", 1);
    assert_no_children();
}

static char *const *own_variables(void)
{
    static char path[160];
    static char *const variables[] = {path, NULL};

    snprintf(path, sizeof(path), "PATH=/nonexistent::%s", directory);
    return variables;
}

/* The program may change its list, or free it, while a thread of the library's starts the
 * helper. Alone sees one that is looked up by `environ`, or gets it. */
Test(symbolize_lines, variables_of_the_process_are_not_read)
{
    char **before = environ;

    make_script("addr2line", "while read a; do echo $a; echo f; echo p.c:3; done");
    gs_helper_variables = own_variables;
    environ = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const char *note = resolve(NULL, 5000, queries, 4);
    environ = before;
    gs_helper_variables = NULL;
    cr_assert_null(note, "%s", note);
    assert_answer(3, "p.c", 3);
}

Test(symbolize_lines, program_that_ignores_its_children)
{
    const char *script = make_script("fake-llvm", "printf 'f\\na.c:1:1\\n\\n\\n\\n\\n'");

    signal(SIGCHLD, SIG_IGN);
    cr_assert_null(resolve(script, 10000, queries, 4));
    assert_answer(0, "a.c", 1);
    signal(SIGCHLD, SIG_DFL);
}

static void reap_everything(int number)
{
    int saved = errno;

    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    errno = saved;
}

Test(symbolize_lines, program_that_reaps_everything)
{
    const char *script = make_script("fake-llvm", "printf 'f\\na.c:1:1\\n\\n\\n\\n\\n'");

    signal(SIGCHLD, reap_everything);
    cr_assert_null(resolve(script, 10000, queries, 4));
    assert_answer(0, "a.c", 1);
    signal(SIGCHLD, SIG_DFL);
}

Test(symbolize_lines, program_without_standard_streams)
{
    const char *script = make_script(
        "fake-llvm", "read a; echo f; echo \"$a\" | sed 's/.*/q.c:8:1/'; echo; echo;"
                     "echo; echo; cat >/dev/null");
    int saved[3], next;
    const char *note;

    for (int fd = 0; fd < 3; fd++) {
        saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 100);
        close(fd);
    }
    note = resolve(script, 10000, queries, 4);
    next = open("/dev/null", O_RDONLY); /* 0 again: nothing was left open below */
    for (int fd = 0; fd < 3; fd++)
        dup2(saved[fd], fd);
    cr_assert_null(note, "%s", note);
    assert_answer(0, "q.c", 8);
    cr_assert_eq(next, 0);
}

Test(symbolize_lines, child_environment_is_clean_and_no_descriptor_is_lost)
{
    const char *script =
        make_script("fake-llvm", "env > $0.env; ls /proc/self/fd > $0.fds; echo; echo; "
                                 "echo; echo; cat >/dev/null");
    char command[256];
    int before, after;

    setenv("LD_PRELOAD", "", 1);
    setenv("GPUSHIM_LOG_FILE", "x", 1);
    setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1", 1);
    setenv("KEPT_FOR_THE_HELPER", "yes", 1);
    before = open("/dev/null", O_RDONLY);
    close(before);
    cr_assert_null(resolve(script, 10000, queries, 4));
    after = open("/dev/null", O_RDONLY);
    close(after);
    cr_assert_eq(before, after);
    unsetenv("LD_PRELOAD");
    snprintf(command, sizeof(command),
             "! grep -q -E '^(LD_PRELOAD|GPUSHIM_|DEBUGINFOD)' %s.env && "
             "grep -q KEPT_FOR_THE_HELPER=yes %s.env",
             script, script);
    cr_assert_eq(system(command), 0);
    cr_assert_str_eq(getenv("GPUSHIM_LOG_FILE"), "x", "the program's own is as it was");
}

static struct gs_stacks *stacks;
static uint32_t captured;

static __attribute__((noinline)) int capture(void *unused)
{
    (void)unused;
    captured = gs_stacks_capture(stacks);
    return 1;
}

static bool is_on_path(const char *program)
{
    char command[128];

    snprintf(command, sizeof(command), "command -v %s >/dev/null", program);
    return system(command) == 0;
}

static void resolve_with_lines(struct gs_symbolizer *symbolizer,
                               struct gs_symbol_request *requests, size_t count)
{
    gs_symbolizer_resolve(symbolizer, requests, count);
    gs_symbolizer_find_lines(symbolizer, requests, count);
}

/* The real thing: from a capture to the lines that the fixture says it calls at. */
static void check_real_helper(const char *program)
{
    struct gs_stacks_config stacks_config = {.unwinder = GS_UNWIND_AUTO, .depth = 16};
    struct gs_symbolizer_config config = {
        .lines = true, .timeout_ms = 20000, .helper = program};
    struct gs_symbol_request requests[2];
    struct gs_module modules[2];
    struct gs_symbolizer *symbolizer;
    uintptr_t frames[16];
    void *module;

    cr_assert_eq(gs_stacks_create(&stacks_config, &stacks), GS_OK);
    cr_assert_eq(gs_symbolizer_create(&config, &symbolizer), GS_OK);
    module = dlopen(fixture_path("named.so"), RTLD_NOW);
    cr_assert_not_null(module, "%s", dlerror());
    ((enter_function *)dlsym(module, "named_exported"))(capture, NULL);
    cr_assert_geq(gs_stacks_frames(stacks, captured, frames, 16), 3);
    for (int i = 0; i < 2; i++) {
        requests[i].frame = frames[1 + i];
        requests[i].module = &modules[i];
        requests[i].line_wanted = true;
        cr_assert_eq(gs_stacks_module(stacks, captured, frames[1 + i], &modules[i]),
                     GS_OK);
    }
    resolve_with_lines(symbolizer, requests, 2);
    cr_assert_null(gs_symbolizer_note(symbolizer));
    for (int i = 0; i < 2; i++) {
        cr_assert_not_null(requests[i].result.file);
        cr_assert_not_null(strstr(requests[i].result.file, "named.c"));
        cr_assert_eq(requests[i].result.line, i == 0 ? 100 : 200);
    }
    cr_assert_str_eq(requests[0].result.function, "named_hidden");
    gs_symbolizer_destroy(symbolizer);
    gs_stacks_destroy(stacks);
    dlclose(module);
    assert_no_children();
}

Test(symbolize_lines, real_addr2line)
{
    if (!is_on_path("addr2line"))
        cr_skip_test("no addr2line here");
    check_real_helper("addr2line");
}

Test(symbolize_lines, real_llvm_symbolizer)
{
    if (!is_on_path("llvm-symbolizer"))
        cr_skip_test("no llvm-symbolizer here");
    check_real_helper("llvm-symbolizer");
}

Test(symbolize_lines, no_child_for_modules_without_lines)
{
    struct gs_symbolizer_config config = {
        .lines = true, .timeout_ms = 5000, .helper = NULL};
    struct gs_module module = {.bias = 0, .begin = 0, .end = 0x100000};
    struct gs_symbol_request request = {
        .frame = 0x1101, .module = &module, .line_wanted = true};
    struct gs_symbolizer *symbolizer;
    char path[128];

    config.helper = make_script("fake-llvm", "touch $0.ran");
    snprintf(path, sizeof(path), "%s.ran", config.helper);
    module.path = fixture_path("named_stripped.so");
    cr_assert_eq(gs_symbolizer_create(&config, &symbolizer), GS_OK);
    resolve_with_lines(symbolizer, &request, 1);
    cr_assert_str_eq(gs_symbolizer_note(symbolizer),
                     "named_stripped.so has no debug information: compile it with -g for "
                     "file and line");
    cr_assert_neq(access(path, F_OK), 0);
    module.path = fixture_path("named.so");
    module.build_id_len = 0;
    resolve_with_lines(symbolizer, &request, 1);
    cr_assert_eq(access(path, F_OK), 0, "this one has lines to ask for");
    gs_symbolizer_destroy(symbolizer);
}

/* Of requests without a wish for lines, and of those that had an answer, nothing is
 * asked; equal ones are one question. */
Test(symbolize_lines, each_wanted_place_is_asked_about_once)
{
    struct gs_symbolizer_config config = {
        .lines = true, .timeout_ms = 20000, .helper = NULL};
    struct gs_module module = {.begin = 0, .end = 0x100000};
    struct gs_symbol_request requests[4];
    struct gs_symbolizer *symbolizer;
    char name[160], text[512] = "", expected[512];
    FILE *file;

    config.helper = make_script("fake-llvm", "echo start >>$0.in;"
                                             "while read a; do echo $a >>$0.in; echo f; "
                                             "echo f.c:${a##*0x}:1; echo; done");
    module.path = fixture_path("named.so");
    for (uintptr_t i = 0; i < 4; i++) /* the last is the first again */
        requests[i] = (struct gs_symbol_request){
            .frame = 0x1101 + i % 3 * 0x100, .module = &module, .line_wanted = i != 1};
    cr_assert_eq(gs_symbolizer_create(&config, &symbolizer), GS_OK);
    resolve_with_lines(symbolizer, requests, 4);
    cr_expect_eq(requests[0].result.line, 1100);
    cr_expect_null(requests[1].result.file);
    cr_expect_eq(requests[2].result.line, 1300);
    cr_expect_eq(requests[3].result.line, 1100);
    requests[1].line_wanted = true;
    resolve_with_lines(symbolizer, requests, 4);
    cr_expect_eq(requests[0].result.line, 1100);
    cr_expect_eq(requests[1].result.line, 1200);
    gs_symbolizer_destroy(symbolizer);
    snprintf(name, sizeof(name), "%s.in", config.helper);
    file = fopen(name, "r");
    cr_assert_not_null(file);
    cr_assert_gt(fread(text, 1, sizeof(text) - 1, file), 0);
    fclose(file);
    snprintf(expected, sizeof(expected),
             "start\nCODE \"%s\" 0x1100\nCODE \"%s\" 0x1300\nCODE \"%s\" 0x1200\n",
             module.path, module.path, module.path);
    cr_expect_str_eq(text, expected);
}

/* Names of inlined functions are the debug information's, that of the function which
 * contains them is the symbol's. */
Test(symbolize_lines, inlined_functions_are_part_of_a_place)
{
    struct gs_symbolizer_config config = {
        .lines = true, .timeout_ms = 20000, .helper = NULL};
    struct gs_module module = {.begin = 0, .end = 0x100000};
    struct gs_symbol_request request = {
        .frame = 0x1101, .module = &module, .line_wanted = true};
    struct gs_symbolizer *symbolizer;
    struct gs_symbol named;

    config.helper =
        make_script("fake-llvm", "while read a; do printf '_ZN5CacheC4Em\\n"
                                 "/c.h:3:1\\nput\\nb.h:2:1\\nodd\\na.c:1:1\\n\\n';"
                                 "done");
    module.path = fixture_path("named.so");
    cr_assert_eq(gs_symbolizer_create(&config, &symbolizer), GS_OK);
    gs_symbolizer_resolve(symbolizer, &request, 1);
    named = request.result;
    cr_assert_eq(named.inlined_count, 0);
    gs_symbolizer_find_lines(symbolizer, &request, 1);
    cr_assert_eq(request.result.function, named.function);
    cr_assert_str_eq(request.result.file, "a.c");
    cr_assert_eq(request.result.inlined_count, 2);
    cr_expect_str_eq(request.result.inlined[0].function, "Cache::Cache(unsigned long)");
    cr_expect_str_eq(request.result.inlined[0].linkage, "_ZN5CacheC4Em");
    cr_expect_str_eq(request.result.inlined[0].file, "/c.h");
    cr_expect_eq(request.result.inlined[0].line, 3);
    cr_expect_eq(request.result.inlined[0].offset, named.offset);
    cr_expect_str_eq(request.result.inlined[1].function, "put");
    cr_expect_eq(request.result.inlined[1].line, 2);
    gs_symbolizer_destroy(symbolizer);
}
