/*
 * attach.c - gpushim attach and detach: records what a process allocates that was not
 * started under gpushim.
 *
 * A thread of the process loads the library (inject.h). The library sets the slots of all
 * modules, and returns each driver function's address with its wrapper's
 * (shim/life/attach.h). This file replaces the words of memory that hold such an address,
 * while all threads are stopped. Detaching replaces the wrappers' addresses by the
 * driver's; the library stays loaded, and nothing calls it any more.
 *
 * Owns: nothing.   Lock: none; one thread.   Design: docs/state.md, "A program that was
 * started without gpushim"
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gs_wait.h"
#include "shim/settings/options.h"
#include "shim/tools/launcher/inject.h"
#include "shim/tools/launcher/launcher.h"
#include "shim/tools/launcher/library_copy.h"
#include "shim/tools/reader/ask.h"
#include "shim/tools/reader/ask_why.h"
#include "shim/tools/reader/living_thread.h"
#include "shim/tools/replay/replay_trace.h"
#include "shim/tools/reader/function_words.h"

#define ENTRY          "gpushim_attach"
#define ANSWER_BYTES   ((size_t)256 << 10)
#define REQUEST_BYTES  ((size_t)64 << 10)
#define PAIRS_MOST     8192
#define AREAS_MOST     64
#define STACKS_MOST    16384
#define DEFAULT_WAIT_S 10
#define MOST_WAIT_S    3600
#define MOST_STAY_S    10000000
/* A word may be copied while the others are replaced. */
#define ROUNDS   4
#define ROUND_NS UINT64_C(1000000)
/* How soon --for sees Ctrl-C. */
#define NAP_NS UINT64_C(100000000)

/* What the library answers. */
struct reply {
    const char *refused; /* NULL: it has done it */
    bool again, kept, partly, driver;
    size_t functions; /* of the driver */
    uint64_t thread;  /* the thread pointer of the one that has called the library */
    struct gs_function_pair pairs[PAIRS_MOST];
    struct gs_function_area skipped[AREAS_MOST];
    struct gs_function_words words;
};

/* ---- the library's answer ---------------------------------------------------------- */

static bool starts(const char *line, const char *word)
{
    size_t length = strlen(word);
    return strncmp(line, word, length) == 0 && (line[length] == ' ' || !line[length]);
}

/* Two numbers in hexadecimal after the first word. */
static void two_numbers(const char *line, uint64_t *first, uint64_t *second)
{
    char *at;
    *first = strtoull(line + strcspn(line, " "), &at, 16);
    *second = strtoull(at, &at, 16);
}

/* In: back  the wrappers become the driver's functions again */
static void read_line(struct reply *reply, char *line, bool back)
{
    uint64_t first, second;
    bool is_word = starts(line, "word");
    if (starts(line, "refused")) {
        reply->refused = line + strcspn(line, " ");
        reply->refused += *reply->refused == ' ';
    } else if (starts(line, "again")) {
        reply->again = true;
    } else if (starts(line, "kept")) {
        reply->kept = true;
    } else if (starts(line, "partly")) {
        reply->partly = true;
    } else if (starts(line, "driver")) {
        reply->driver = true;
    } else if (starts(line, "variables")) {
        reply->words.tls_bytes = strtoull(line + strcspn(line, " "), NULL, 16);
    } else if (starts(line, "thread")) {
        reply->thread = strtoull(line + strcspn(line, " "), NULL, 16);
    } else if (starts(line, "skip") && reply->words.skipped_count < AREAS_MOST) {
        two_numbers(line, &first, &second);
        reply->skipped[reply->words.skipped_count++] =
            (struct gs_function_area){first, second};
    } else if ((is_word || (back && starts(line, "slot"))) &&
               reply->words.pair_count < PAIRS_MOST) {
        two_numbers(line, &first, &second);
        reply->functions += is_word;
        reply->pairs[reply->words.pair_count++] =
            back ? (struct gs_function_pair){second, first}
                 : (struct gs_function_pair){first, second};
    }
}

static void read_reply(struct reply *reply, char *text, bool back)
{
    *reply = (struct reply){.refused = NULL};
    reply->words = (struct gs_function_words){
        .pairs = reply->pairs, .skipped = reply->skipped, .fixed = back};
    for (char *line, *next = text; (line = strsep(&next, "\n"));) {
        read_line(reply, line, back);
    }
    gs_function_words_sort(&reply->words);
}

/* ---- the process ------------------------------------------------------------------- */

/* By this name the dynamic linker finds the library that the process has, whatever the
 * path was under which it was loaded, and whether the file is still there. */
static const char loaded_name[] = "libgpushim.so";

static bool is_loaded(pid_t pid)
{
    bool readable;
    return gs_ask_has_library(pid, &readable);
}

/* Whether the user of a process may read a file: it may be in a folder of root's. */
static bool may_read(const struct stat *process, const char *path)
{
    gid_t group = (gid_t)setfsgid(process->st_gid);
    uid_t user = (uid_t)setfsuid(process->st_uid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    (void)setfsuid(user);
    (void)setfsgid(group);
    if (file >= 0) {
        (void)close(file);
    }
    return file >= 0;
}

/* Whether the process has the library at the same path. */
static bool has_same_file(pid_t pid, const char *library)
{
    static char inside[PATH_MAX + 64];
    char process[64];
    struct stat here, there, owner;
    (void)snprintf(inside, sizeof(inside), "/proc/%ld/root%s",
                   (long)gs_living_thread(pid), library);
    (void)snprintf(process, sizeof(process), "/proc/%ld", (long)pid);
    return stat(library, &here) == 0 && stat(inside, &there) == 0 &&
           here.st_dev == there.st_dev && here.st_ino == there.st_ino &&
           stat(process, &owner) == 0 && may_read(&owner, library);
}

/* The library that fits the process's program. */
static const char *library_for(pid_t pid)
{
    static struct gs_command command;
    command = (struct gs_command){.preloads = true};
    (void)snprintf(command.path, sizeof(command.path), "/proc/%ld/exe",
                   (long)gs_living_thread(pid));
    command.kind = gs_elf_kind_read(command.path);
    free(gs_library_preload(&command));
    return gs_library_path();
}

/* Calls the library in the process. Returns whether it has answered; if not, a line says
 * why. */
static bool call(pid_t pid, const char *library, const char *request, unsigned wait_ms,
                 bool back, struct reply *reply)
{
    static char answer[ANSWER_BYTES]; /* the reply's texts are in it */
    const char *problem =
        gs_inject(pid, library, ENTRY, request, wait_ms, answer, sizeof(answer));
    if (problem) {
        gs_launcher_warn("process %ld: %s", (long)pid, problem);
        return false;
    }
    read_reply(reply, answer, back);
    if (reply->refused) {
        gs_launcher_warn("process %ld: %s", (long)pid, reply->refused);
    }
    return !reply->refused;
}

static struct gs_function_stack stacks[STACKS_MOST];

/* Replaces the words once. Returns NULL, or why not. The threads of earlier rounds stay
 * in the list: of one that has ended since, the stack has words that nobody reads. */
static const char *replace_once(pid_t pid, struct reply *reply,
                                struct gs_function_words_result *result)
{
    struct gs_stop *stop = NULL;
    const char *problem = gs_stop_begin(pid, &stop);
    if (!problem) {
        size_t count = reply->words.stack_count;
        for (size_t i = 0;
             count < STACKS_MOST &&
             gs_stop_stack(stop, i, &stacks[count].stack, &stacks[count].thread);
             i++) {
            count++;
        }
        reply->words.stacks = stacks;
        reply->words.stack_count = count;
        problem = is_loaded(pid)
                      ? gs_function_words_scan(pid, &reply->words, true, result)
                      : "it has executed another program";
        gs_stop_end(stop);
    }
    return problem                            ? problem
           : result->replaced < result->found ? "some of its memory cannot be written"
                                              : NULL;
}

/* Replaces the words, until none is left. Returns whether that is done; if not, a line
 * says why. In: wrong  what follows from that   Out: *words  how many */
static bool replace(pid_t pid, struct reply *reply, const char *wrong, uint64_t *words)
{
    struct gs_function_words_result result = {.found = 1};
    const char *problem = NULL;
    *words = 0;
    stacks[0] = (struct gs_function_stack){.thread = reply->thread}; /* it has ended */
    reply->words.stack_count = 1;
    for (int round = 0; round < ROUNDS && result.found > 0 && !problem; round++) {
        if (round > 0) {
            gs_nap(ROUND_NS);
        }
        problem = replace_once(pid, reply, &result);
        *words += result.replaced;
    }
    if (!problem && result.found > 0) {
        problem = "it copies the addresses of driver functions all the time";
    }
    if (problem) {
        gs_launcher_warn("process %ld: %s: %s", (long)pid, problem, wrong);
    } else if (result.unreadable > 0) {
        gs_launcher_warn("process %ld: %llu bytes of its memory cannot be read: %s",
                         (long)pid, (unsigned long long)result.unreadable, wrong);
    }
    return !problem;
}

/* ---- the request ------------------------------------------------------------------- */

/* The library's variables, a line each, after the word. */
static const char *request_of(const char *word)
{
    static char text[REQUEST_BYTES];
    size_t used = (size_t)snprintf(text, sizeof(text), "%s\n", word);
    for (char **entry = environ; *entry; entry++) {
        size_t length = strlen(*entry);
        if (strncmp(*entry, "GPUSHIM_", 8) != 0) {
            continue;
        }
        if (strchr(*entry, '\n') || used + length + 2 > sizeof(text)) {
            gs_launcher_warn("%.*s: has a newline, or is too long; left out",
                             (int)strcspn(*entry, "="), *entry);
            continue;
        }
        memcpy(text + used, *entry, length);
        used += length;
        text[used++] = '\n';
        text[used] = '\0';
    }
    return text;
}

/* ---- attach and detach ------------------------------------------------------------- */

static struct reply reply;

/* Loads the library, which the process may have no file of. Returns whether it is there;
 * if not, a line says why. */
static bool load(pid_t pid, unsigned wait_ms)
{
    struct gs_library_copy copy = {.folder = -1};
    const char *library = loaded_name;
    if (!is_loaded(pid)) {
        library = library_for(pid);
        const char *problem = has_same_file(pid, library)
                                  ? NULL
                                  : gs_library_copy_make(pid, library, &copy);
        if (problem) {
            gs_launcher_warn("process %ld: %s", (long)pid, problem);
            return false;
        }
        library = copy.folder >= 0 ? copy.path : library;
    }
    bool done = call(pid, library, request_of("attach"), wait_ms, false, &reply);
    gs_library_copy_remove(&copy);
    return done;
}

/* Says which words stay as they are. */
static void warn_of_left(pid_t pid)
{
    struct gs_function_words_result left;
    if (!gs_function_words_left(pid, &reply.words, &left) && left.found > 0) {
        gs_launcher_warn("process %ld: %llu address%s of driver functions not changed, "
                         "in memory that it may share, or not aligned: calls through %s "
                         "are missed",
                         (long)pid, (unsigned long long)left.found,
                         left.found == 1 ? "" : "es", left.found == 1 ? "it" : "them");
    }
}

static bool attach(pid_t pid, unsigned wait_ms)
{
    const char *problem = gs_inject_refuse(pid);
    if (!problem) {
        problem = gs_ask_why_launcher(pid);
    }
    if (problem) {
        gs_launcher_warn("process %ld: %s", (long)pid, problem);
        return false;
    }
    if (!load(pid, wait_ms)) {
        return false;
    }
    uint64_t words;
    if (!replace(pid, &reply, "some calls may be missed; attach again", &words)) {
        return false;
    }
    printf("%ld: %s: ", (long)pid, reply.again ? "attached before" : "attached");
    if (reply.driver) {
        printf("calls of %zu CUDA functions go through gpushim (%llu pointers changed)",
               reply.functions, (unsigned long long)words);
    } else {
        printf("no CUDA driver is loaded yet");
    }
    printf("; what it allocates from now on is recorded\n");
    (void)fflush(stdout); /* in order with messages */
    if (reply.kept) {
        gs_launcher_warn("process %ld: its options stay those of the first attach; "
                         "gpushim set %ld changes some",
                         (long)pid, (long)pid);
    }
    if (reply.partly) {
        gs_launcher_warn("process %ld: libraries came and went: calls of some may be "
                         "missed; attach again",
                         (long)pid);
    }
    warn_of_left(pid);
    return true;
}

/* Prints the report, from the process itself. Out: why  why there is none; "": there is
 */
static void print_report(pid_t pid, unsigned wait_ms, char *why, size_t size)
{
    struct gs_ask_thread thread;
    struct gs_ask_answer answer = {.problem = gs_ask_find(pid, &thread)};
    bool answered = !answer.problem && gs_ask(&thread, "detach", wait_ms, &answer);
    why[0] = '\0';
    if (answered && !answer.refused) {
        (void)fwrite(answer.text, 1, answer.length, stdout);
        (void)fflush(stdout); /* in order with messages */
    } else {
        (void)snprintf(why, size, "%s",
                       answered                        ? answer.text
                       : answer.problem == gs_ask_gone ? "it made no CUDA call since, or "
                                                         "its thread that answers could "
                                                         "not start (docs/state.md)"
                                                       : answer.problem);
    }
    if (answered) {
        free(answer.text);
    }
}

static bool detach(pid_t pid, unsigned wait_ms)
{
    static const char not_attached[] = "gpushim is not attached to it";
    char why[512];
    uint64_t words;
    const char *problem = gs_inject_refuse(pid);
    if (!problem && !is_loaded(pid)) {
        problem = gs_ask_why_launcher(pid);
        problem = problem ? problem : not_attached;
    }
    if (problem) {
        gs_launcher_warn("process %ld: %s", (long)pid, problem);
        return false;
    }
    if (gs_ask_was_preloaded(pid)) { /* it would refuse after the report */
        gs_launcher_warn("process %ld: it runs under gpushim from its start: ask it with "
                         "gpushim dump",
                         (long)pid);
        return false;
    }
    print_report(pid, wait_ms, why, sizeof(why));
    if (!call(pid, loaded_name, "detach", wait_ms, true, &reply) ||
        !replace(pid, &reply, "some calls still pass through gpushim; detach again",
                 &words)) {
        return false;
    }
    if (reply.again && words == 0) {
        gs_launcher_warn("process %ld: %s", (long)pid, not_attached);
        return false;
    }
    if (why[0] && !reply.again) {
        gs_launcher_warn("process %ld: no report: %s", (long)pid, why);
    }
    printf("%ld: detached: its calls go to the driver alone (%llu pointer%s restored)\n",
           (long)pid, (unsigned long long)words, words == 1 ? "" : "s");
    return true;
}

/* ---- the command ------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void interrupt(int unused)
{
    (void)unused;
    interrupted = 1;
}

static void sleep_seconds(unsigned long seconds)
{
    const struct sigaction action = {.sa_handler = interrupt};
    const uint64_t end_ns = gs_now_ns() + seconds * UINT64_C(1000000000);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)fflush(stdout);
    while (!interrupted && gs_now_ns() < end_ns) {
        gs_nap(NAP_NS);
    }
}

/* Attached, the library writes nothing to the program's standard error. */
static void warn_of_no_log(void)
{
    const char *verbose = gs_options_table[GS_OPTION_ROW_verbose].name;
    const char *log = getenv(gs_options_table[GS_OPTION_ROW_log_file].name);
    if (log && log[0]) {
        return;
    }
    if (gs_arguments_is_set(verbose)) {
        gs_launcher_warn("attach: --verbose has no effect without --log-file: the "
                         "program's output stays its own");
    }
    if (gs_value_now(GS_OPTION_ROW_stats_interval_ms) != 0) { /* dump says what grows */
        gs_launcher_warn("attach: --stats-interval writes no lines without --log-file: "
                         "the program's output stays its own");
    }
}

/* Memory of a pool would be unknown to the driver once nothing calls the library. */
static void warn_of_pool(void)
{
    static const unsigned rows[] = {GS_OPTION_ROW_pool, GS_OPTION_ROW_host_pool,
                                    GS_OPTION_ROW_managed_pool};
    char option[GS_OPTION_ARGUMENT_BYTES];
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        const char *name = gs_options_table[rows[i]].name;
        if (gs_arguments_is_set(name) && gs_value_now(rows[i]) != 0) {
            gs_option_argument(name, option);
            gs_launcher_warn("attach: %s has no effect: the pool stays off", option);
        }
    }
}

int gs_attach_run(const struct gs_arguments *arguments)
{
    const bool is_attach = arguments->verb == GS_VERB_ATTACH;
    const char *word = is_attach ? "attach" : "detach";
    char **pids = arguments->command;
    unsigned wait_ms =
        1000 * (unsigned)(arguments->wait
                              ? gs_value_number("--wait", arguments->wait, 1, MOST_WAIT_S)
                              : DEFAULT_WAIT_S);
    unsigned long stay =
        arguments->stay ? gs_value_number("--for", arguments->stay, 1, MOST_STAY_S) : 0;
    unsigned failed = 0;
    if (!pids[0]) {
        gs_help_refuse(arguments->verb, "%s: no PID is given", word);
    }
    gs_words_once(pids);
    for (char **pid = pids; *pid; pid++) {
        (void)gs_value_number("a process", *pid, 1, INT32_MAX);
    }
    if (is_attach &&
        !(gs_value_now(GS_OPTION_ROW_enable) && gs_value_now(GS_OPTION_ROW_track))) {
        gs_launcher_fail(GS_EXIT_USAGE,
                         "attach: with GPUSHIM_ENABLE=off or GPUSHIM_TRACK=off nothing "
                         "is recorded");
    }
    if (is_attach) {
        warn_of_pool();
    }
    gs_paths_make_absolute();
    gs_lists_join();
    if (is_attach) {
        warn_of_no_log();
    }
    char **done = pids;
    for (char **one = pids; *one; one++) {
        pid_t pid = (pid_t)strtol(*one, NULL, 10);
        if (is_attach ? attach(pid, wait_ms) : detach(pid, wait_ms)) {
            *done++ = *one;
        } else {
            failed++;
        }
    }
    *done = NULL;
    if (stay && pids[0]) {
        sleep_seconds(stay);
        for (char **one = pids; *one; one++) {
            failed += !detach((pid_t)strtol(*one, NULL, 10), wait_ms);
        }
    }
    return gs_replay_end(failed ? 1 : 0);
}
