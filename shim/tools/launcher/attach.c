/*
 * attach.c - gpushim attach and detach: records what a process allocates that was not
 * started under gpushim.
 *
 * The library is loaded by a thread of the process itself (inject.h). It then sets the
 * slots of the modules, and answers with the addresses of the driver's functions and of
 * its own in their place (shim/life/attach.h). Words that hold such an address are
 * replaced here, while all threads are stopped. Detaching is the same in the other
 * direction; the library stays loaded, and nothing calls it any more.
 *
 * Owns: nothing.   Lock: none; one thread.   Design: docs/state.md, "A program that was
 * started without gpushim"
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gs_wait.h"
#include "shim/tools/reader/function_words.h"
#include "shim/tools/launcher/inject.h"
#include "shim/tools/launcher/inject_parts.h"
#include "shim/tools/launcher/launcher.h"
#include "shim/tools/launcher/library_copy.h"
#include "shim/tools/reader/ask.h"
#include "tracker/report/text/text.h"

#define ENTRY          "gpushim_attach"
#define ANSWER_BYTES   ((size_t)256 << 10)
#define REQUEST_BYTES  ((size_t)64 << 10)
#define PAIRS_MOST     8192
#define AREAS_MOST     64
#define DEFAULT_WAIT_S 10
#define MOST_WAIT_S    3600
/* A word may be copied while the others are replaced. */
#define ROUNDS   4
#define ROUND_NS UINT64_C(1000000)
/* How soon --for sees Ctrl-C. */
#define NAP_NS UINT64_C(100000000)

/* What the library answers. */
struct reply {
    const char *refused; /* NULL: it has done it */
    bool again, partly, driver;
    size_t functions; /* of the driver */
    struct gs_function_pair pairs[PAIRS_MOST];
    struct gs_function_area skipped[AREAS_MOST];
    struct gs_function_words words;
};

/* ---- the library's answer ------------------------------------------------------------
 */

static bool starts(const char *line, const char *word)
{
    size_t length = strlen(word);
    return strncmp(line, word, length) == 0 && (line[length] == ' ' || !line[length]);
}

/* Two numbers in hexadecimal behind the first word. */
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
    } else if (starts(line, "partly")) {
        reply->partly = true;
    } else if (starts(line, "driver")) {
        reply->driver = true;
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

/* ---- the process ---------------------------------------------------------------------
 */

/* By this name the dynamic linker finds the library that the process has, whatever the
 * path was under which it was loaded, and whether the file is still there. */
static const char loaded_name[] = "libgpushim.so";

static bool is_loaded(pid_t pid)
{
    char path[64], line[PATH_MAX + 512];
    bool found = false;
    (void)snprintf(path, sizeof(path), "/proc/%ld/maps", (long)pid);
    FILE *maps = fopen(path, "re");
    while (maps && !found && fgets(line, sizeof(line), maps)) {
        const char *name = strstr(line, loaded_name);
        found = name && name > line && name[-1] == '/';
    }
    if (maps) {
        (void)fclose(maps);
    }
    return found;
}

/* Whether the process has the library at the same path. */
static bool has_same_file(pid_t pid, const char *library)
{
    static char inside[PATH_MAX + 64];
    struct stat here, there;
    (void)snprintf(inside, sizeof(inside), "/proc/%ld/root%s", (long)pid, library);
    return stat(library, &here) == 0 && stat(inside, &there) == 0 &&
           here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

/* The library that fits the process's program. */
static const char *library_for(pid_t pid)
{
    static struct gs_command command;
    command = (struct gs_command){.preloads = true};
    (void)snprintf(command.path, sizeof(command.path), "/proc/%ld/exe", (long)pid);
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

/* Replaces the words. Returns how many; a line says what went wrong. */
static uint64_t replace(pid_t pid, const struct reply *reply)
{
    struct gs_function_words_result result;
    uint64_t replaced = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct gs_stop *stop = NULL;
        const char *problem = gs_stop_begin(pid, &stop);
        if (!problem) {
            problem = gs_function_words_scan(pid, &reply->words, true, &result);
            gs_stop_end(stop);
        }
        if (problem) {
            gs_launcher_warn("process %ld: %s: calls by addresses that it has looked up "
                             "may be missed",
                             (long)pid, problem);
            return replaced;
        }
        replaced += result.replaced;
        if (result.found == 0) {
            break;
        }
        gs_nap(ROUND_NS);
    }
    return replaced;
}

/* ---- the request
 * ----------------------------------------------------------------------- */

/* The library's variables, a line each, behind the word. */
static const char *request_of(const char *word)
{
    static char text[REQUEST_BYTES];
    size_t used = (size_t)snprintf(text, sizeof(text), "%s\n", word);
    for (char **entry = environ; *entry; entry++) {
        size_t length = strlen(*entry);
        if (strncmp(*entry, "GPUSHIM_", 8) != 0 || strchr(*entry, '\n') ||
            used + length + 2 > sizeof(text)) {
            continue;
        }
        memcpy(text + used, *entry, length);
        used += length;
        text[used++] = '\n';
        text[used] = '\0';
    }
    return text;
}

static unsigned long seconds_of(const char *option, const char *word, unsigned long most)
{
    char *end;
    errno = 0;
    unsigned long number = strtoul(word, &end, 10);
    if (word[0] < '0' || word[0] > '9' || *end || errno || number < 1 || number > most) {
        gs_launcher_fail(GS_EXIT_USAGE, "%s is a number from 1 to %lu, not %.100s",
                         option, most, word);
    }
    return number;
}

/* ---- attach and detach
 * ----------------------------------------------------------------- */

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

static bool attach(pid_t pid, unsigned wait_ms)
{
    const char *problem = gs_inject_refuse(pid);
    if (problem) {
        gs_launcher_warn("process %ld: %s", (long)pid, problem);
        return false;
    }
    if (!load(pid, wait_ms)) {
        return false;
    }
    uint64_t words = replace(pid, &reply);
    printf("%ld: %s: ", (long)pid, reply.again ? "attached before" : "attached");
    if (reply.driver) {
        printf("%zu addresses of driver functions, %llu words replaced", reply.functions,
               (unsigned long long)words);
    } else {
        printf("no CUDA driver is loaded yet");
    }
    printf("; what it allocates from now on is recorded\n");
    if (reply.partly) {
        gs_launcher_warn("process %ld: libraries came and went: calls of some may be "
                         "missed; attach again",
                         (long)pid);
    }
    return true;
}

/* The report, from the process itself. */
static void print_report(pid_t pid, unsigned wait_ms)
{
    struct gs_ask_thread thread;
    struct gs_ask_answer answer = {.problem = gs_ask_find(pid, &thread)};
    if (answer.problem == gs_ask_gone) {
        gs_launcher_warn("process %ld: no report: no CUDA call of it was seen",
                         (long)pid);
        return;
    }
    if (answer.problem || !gs_ask(&thread, "dump", wait_ms, &answer)) {
        gs_launcher_warn("process %ld: no report: %s", (long)pid, answer.problem);
        return;
    }
    (void)fwrite(answer.text, 1, answer.length, stdout);
    if (answer.refused) {
        putchar('\n');
    }
    free(answer.text);
    (void)fflush(stdout);
}

static bool detach(pid_t pid, unsigned wait_ms)
{
    if (!is_loaded(pid)) {
        gs_launcher_warn("process %ld: gpushim is not attached to it", (long)pid);
        return false;
    }
    print_report(pid, wait_ms);
    if (!call(pid, loaded_name, "detach", wait_ms, true, &reply)) {
        return false;
    }
    uint64_t words = replace(pid, &reply);
    printf("%ld: detached: %llu words replaced\n", (long)pid, (unsigned long long)words);
    return true;
}

/* ---- the command
 * ----------------------------------------------------------------------- */

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

int gs_attach_run(const struct gs_arguments *arguments)
{
    const bool is_attach = arguments->verb == GS_VERB_ATTACH;
    const char *word = is_attach ? "attach" : "detach";
    char **pids = arguments->command;
    unsigned wait_ms =
        1000 * (unsigned)(arguments->wait
                              ? seconds_of("--wait", arguments->wait, MOST_WAIT_S)
                              : DEFAULT_WAIT_S);
    unsigned long stay =
        arguments->stay ? seconds_of("--for", arguments->stay, 10000000) : 0;
    unsigned failed = 0;
    if (!pids[0]) {
        gs_help_refuse(arguments->verb, "%s: no PID is given", word);
    }
    for (char **pid = pids; *pid; pid++) {
        (void)seconds_of("a process", *pid, INT32_MAX);
    }
    gs_lists_join();
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
    return failed || fflush(stdout) != 0 ? 1 : 0;
}
