/*
 * request.c - gpushim stats, dump, owners, set, trim, export, release and resume: asks
 * running processes, and writes what they answer.
 *
 * Owns: nothing.   Lock: none.   Source: shim/control/requests.def
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/report/outputs.h"
#include "shim/settings/options.h"
#include "shim/settings/options_lists.h"
#include "shim/tools/launcher/launcher.h"
#include "shim/tools/reader/ask.h"
#include "shim/tools/reader/ask_why.h"
#include "shim/tools/reader/live_totals.h"
#include "shim/tools/reader/marks.h"
#include "shim/tools/replay/replay_trace.h"
#include "tracker/report/text/color.h"
#include "tracker/report/text/text.h"

#define DEFAULT_WAIT_S 10
#define MOST_WAIT_S    3600
#define WORD_BYTES     16
#define OPTION_WIDTH   16

/* A row of requests.def. */
static const struct {
    enum gs_verb verb;
    char word[WORD_BYTES];
    enum { MANY, ONE } processes;
} rows[] = {
#define GS_REQUEST(word, verb, processes, argument) {GS_VERB_##verb, #word, processes},
#include "shim/control/requests.def"
};

/* What is asked, of whom. */
struct inquiry {
    enum gs_verb verb;
    char request[GS_CONTROL_REQUEST_BYTES];
    unsigned wait_ms;
    bool json;
    unsigned asked, failed;
};

/* ---- answers ----------------------------------------------------------------------- */

static void print_row(const struct gs_live_totals_row *row)
{
    char live[24], peak[24], reserved[24], count[32];
    if (row->device == GS_LIVE_TOTALS_HOST) {
        printf("  pinned: ");
    } else {
        printf("  GPU %u%s%s: ", row->device, row->bus[0] ? " " : "", row->bus);
    }
    if (row->has_counts) {
        printf("%s live, peak %s, %s allocation%s in all",
               gs_text_bytes(row->live_bytes, live), gs_text_bytes(row->peak_bytes, peak),
               gs_text_count(row->allocs, count), row->allocs == 1 ? "" : "s");
    } else {
        printf("not recorded (GPUSHIM_TRACK=off)");
    }
    if (row->has_reserved) {
        printf(", %s reserved", gs_text_bytes(row->reserved_bytes, reserved));
    }
    putchar('\n');
}

/* What the figures are of, if not of the whole run. */
static void print_recorded(const struct gs_live_totals *totals)
{
    char from[24], to[24];
    if (totals->recorded_from_ns == 0 && totals->recorded_to_ns == 0) {
        return;
    }
    printf("  recorded from %s ", gs_text_duration(totals->recorded_from_ns, from));
    if (totals->recorded_to_ns != 0) {
        printf("to %s", gs_text_duration(totals->recorded_to_ns, to));
    } else {
        printf("on");
    }
    puts(totals->attached ? " (attached): memory allocated before is not counted" : "");
}

static void print_released(const struct gs_live_totals *totals, long pid)
{
    char bytes[24];
    for (unsigned i = 0; i < totals->released_count && i < GS_LIVE_TOTALS_SCOPES; i++) {
        const struct gs_live_totals_scope *scope = &totals->released[i];
        printf("  released: %s, %s (back with gpushim resume %ld %s)\n", scope->name,
               gs_text_bytes(scope->device_bytes, bytes), pid, scope->name);
    }
    if (totals->released_count > GS_LIVE_TOTALS_SCOPES) {
        printf("  released: %u more scopes\n",
               totals->released_count - GS_LIVE_TOTALS_SCOPES);
    }
}

/* Returns false if the answer cannot be read. */
static bool print_stats(const struct gs_ask_answer *answer)
{
    static struct gs_live_totals totals; /* large */
    char container[GS_CONTAINER_TEXT];
    const char *problem;
    if (!gs_live_totals_parse(answer->text, &totals, &problem)) {
        gs_launcher_warn("process %ld: its answer is %s", (long)answer->pid, problem);
        return false;
    }
    printf("%ld: ", (long)answer->pid);
    if (gs_container_text(answer->pid, true, container)[0]) {
        printf("%s: ", container);
    }
    if (totals.process.rank >= 0) {
        printf("rank %d: ", (int)totals.process.rank);
    }
    if (gs_mark_is_paused(answer->pid, totals.process.pid_start)) {
        printf("(paused) ");
    }
    printf("%s\n", totals.process.command);
    for (unsigned i = 0; i < totals.row_count; i++) {
        print_row(&totals.rows[i]);
    }
    print_recorded(&totals);
    print_released(&totals, (long)answer->pid);
    return true;
}

/* The report begins each line with the process's number. */
static void print_report(const struct gs_ask_answer *answer)
{
    const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
    struct gs_text text = {0};
    gs_text_add_bytes(&text, answer->text, answer->length);
    if (isatty(STDOUT_FILENO) && (!no_color || !no_color[0]) &&
        !gs_text_is_dumb(terminal)) {
        gs_text_color(&text);
    }
    if (text.data) {
        (void)fwrite(text.data, 1, text.length, stdout);
    }
    gs_text_free(&text);
}

/* What can be set: a line "NAME=VALUE" for each option. */
static void print_options(struct gs_ask_answer *answer)
{
    char option[GS_OPTION_ARGUMENT_BYTES];
    char *rest = answer->text, *line;
    gs_ask_make_printable(answer);
    printf("%ld: options that gpushim set can change\n", (long)answer->pid);
    while ((line = strsep(&rest, "\n"))) {
        char *value = strchr(line, '=');
        if (value) {
            *value++ = '\0';
            printf("  %-*s %s\n", OPTION_WIDTH,
                   gs_option_argument(line, option) + strlen("--"),
                   value[0] ? value : "\"\"");
        }
    }
}

/* An export of any format as it came, but nothing that a terminal might execute. */
static void print_export(struct gs_ask_answer *answer)
{
    if (isatty(STDOUT_FILENO)) {
        gs_ask_make_printable(answer);
    }
    (void)fwrite(answer->text, 1, answer->length, stdout);
}

static bool print_answer(const struct inquiry *inquiry, struct gs_ask_answer *answer)
{
    switch (inquiry->verb) {
    case GS_VERB_STATS:
        if (!inquiry->json) {
            return print_stats(answer);
        }
        puts(answer->text);
        return true;
    case GS_VERB_DUMP:
    case GS_VERB_OWNERS:
        print_report(answer);
        return true;
    case GS_VERB_EXPORT:
        print_export(answer);
        return true;
    case GS_VERB_SET:
        if (!strchr(inquiry->request, ' ')) {
            print_options(answer);
            return true;
        }
        printf("%ld: %s\n", (long)answer->pid, answer->text);
        return true;
    default:
        printf("%ld: %s\n", (long)answer->pid, answer->text);
        return true;
    }
}

static void take_answer(struct inquiry *inquiry, bool answered, pid_t pid,
                        struct gs_ask_answer *answer)
{
    bool done = answered && !answer->refused && print_answer(inquiry, answer);
    inquiry->asked++;
    inquiry->failed += !done;
    if (!answered) {
        gs_launcher_warn("process %ld: %s", (long)pid, answer->problem);
    } else if (answer->refused) {
        gs_launcher_warn("process %ld: %s", (long)answer->pid, answer->text);
    }
    free(answer->text);
    (void)fflush(stdout); /* in order with messages */
}

/* ---- processes --------------------------------------------------------------------- */

static bool ask(const struct inquiry *inquiry, const struct gs_ask_thread *thread,
                struct gs_ask_answer *out)
{
    return inquiry->verb == GS_VERB_EXPORT
               ? gs_ask_bytes(thread, inquiry->request, inquiry->wait_ms, out)
               : gs_ask(thread, inquiry->request, inquiry->wait_ms, out);
}

static void ask_number(struct inquiry *inquiry, pid_t pid)
{
    struct gs_ask_thread thread;
    struct gs_ask_answer answer = {.pid = pid};
    answer.problem = gs_ask_find(pid, &thread);
    bool answered = !answer.problem && ask(inquiry, &thread, &answer);
    if (answer.problem == gs_ask_gone) {
        answer.problem = gs_ask_why_none(pid);
    }
    take_answer(inquiry, answered, pid, &answer);
}

/* Every process of this user, of all users for root, that answers; with a name only those
 * of this name. */
static void ask_all(struct inquiry *inquiry, const char *name)
{
    size_t count;
    unsigned asked = inquiry->asked;
    struct gs_ask_thread *threads = gs_ask_list(&count);
    for (size_t i = 0; i < count; i++) {
        struct gs_ask_answer answer;
        if (name && !gs_ask_is_named(threads[i].pid, name)) {
            continue;
        }
        bool answered = ask(inquiry, &threads[i], &answer);
        if (!answered &&
            (answer.problem == gs_ask_foreign || answer.problem == gs_ask_gone)) {
            continue;
        }
        take_answer(inquiry, answered, answer.pid, &answer);
    }
    free(threads);
    if (inquiry->asked == asked && name) {
        gs_launcher_warn("%.200s: no process of this name can be asked", name);
        inquiry->failed++;
    } else if (inquiry->asked == asked) {
        gs_launcher_warn("--all: no process of yours can be asked");
        inquiry->failed++;
    }
}

static bool is_number(const char *word)
{
    return word[0] && !word[strspn(word, "0123456789")];
}

pid_t gs_request_process(const char *name)
{
    size_t count, named = 0;
    pid_t pid = 0;
    if (is_number(name)) {
        return (pid_t)gs_value_number("a process", name, 1, INT32_MAX);
    }
    struct gs_ask_thread *threads = gs_ask_list(&count);
    for (size_t i = 0; i < count; i++) {
        if (gs_ask_is_named(threads[i].pid, name)) {
            threads[named++] = threads[i];
        }
    }
    if (named == 1) {
        pid = threads[0].pid;
    } else if (named == 0) {
        gs_launcher_warn("%.200s: no process of this name can be asked", name);
    } else {
        gs_launcher_warn("%.200s: %zu processes have this name, such as %ld and %ld: "
                         "give the PID of one",
                         name, named, (long)threads[0].pid, (long)threads[1].pid);
    }
    free(threads);
    return pid;
}

static void ask_only(struct inquiry *inquiry, const char *name)
{
    pid_t pid = gs_request_process(name);
    if (pid) {
        ask_number(inquiry, pid);
    } else {
        inquiry->failed++;
    }
}

/* ---- words ------------------------------------------------------------------------- */

/* Writes the name of an option as that of a variable. Returns false if it is none. */
static bool read_name(const char *word, size_t length,
                      char name[GS_OPTION_ARGUMENT_BYTES])
{
    if (length == 0 || length >= GS_OPTION_ARGUMENT_BYTES) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        name[i] = word[i] == '-' ? '_' : (char)toupper((unsigned char)word[i]);
    }
    name[length] = '\0';
    return true;
}

/* Ends the launcher. */
static void fail_unknown(const char *word, size_t length, const char *near)
{
    char meant[GS_OPTION_ARGUMENT_BYTES];
    gs_launcher_fail(GS_EXIT_USAGE, "set: no option %.*s%s%s%s", (int)length, word,
                     near ? ": did you mean " : "",
                     near ? gs_option_argument(near, meant) + strlen("--") : "",
                     near ? "?" : "");
}

static bool is_process(const char *name)
{
    size_t count, i = 0;
    struct gs_ask_thread *threads = gs_ask_list(&count);
    while (i < count && !gs_ask_is_named(threads[i].pid, name)) {
        i++;
    }
    free(threads);
    return i < count;
}

/* Takes the name of an option, the last word after processes, out of the words: its
 * value is asked. */
static void take_name(struct inquiry *inquiry, const struct gs_arguments *arguments)
{
    char **words = arguments->command, name[GS_OPTION_ARGUMENT_BYTES];
    size_t count = 0;
    while (words[count]) {
        count++;
    }
    const char *word = count > 0 ? words[count - 1] : "";
    if (count + (arguments->every != NULL) < 2 || is_number(word) ||
        !read_name(word, strlen(word), name)) {
        return;
    }
    unsigned row = gs_option_row_of(name), list = gs_list_of(name);
    const char *near = gs_options_nearest(name, strlen(name));
    if (row < GS_OPTIONS_COUNT || list < GS_LISTS) {
        (void)snprintf(inquiry->request, sizeof(inquiry->request), "set %s",
                       list < GS_LISTS ? gs_lists[list].name
                                       : gs_options_table[row].name);
        words[count - 1] = NULL;
    } else if (near) {
        fail_unknown(word, strlen(word), near);
    } else if (!is_process(word)) {
        gs_launcher_fail(GS_EXIT_USAGE,
                         "set: no option %.200s, and no process of this name", word);
    }
}

/* Adds NAME=VALUE to the request, with the variable's whole name. Ends the launcher if
 * there is no such variable, or no such value. */
static void take_setting(struct inquiry *inquiry, const char *word)
{
    char name[GS_OPTION_ARGUMENT_BYTES];
    size_t length = strcspn(word, "=");
    if (!read_name(word, length, name)) {
        gs_launcher_fail(GS_EXIT_USAGE, "set: %.200s: not NAME=VALUE", word);
    }
    const char *value = word + length + 1;
    unsigned row = gs_option_row_of(name), list = gs_list_of(name);
    const bool is_list = list < GS_LISTS && gs_list_is_meant(list, value);
    if (row >= GS_OPTIONS_COUNT && !is_list) {
        fail_unknown(word, length, gs_options_nearest(name, length));
    }
    if (is_list) {
        gs_lists_check(list, value);
    } else {
        gs_value_check(&gs_options_table[row], NULL, value);
    }
    char *whole = is_list ? NULL : gs_path_absolute(row, value);
    int printed = snprintf(inquiry->request, sizeof(inquiry->request), "set %s=%s",
                           is_list ? gs_lists[list].name : gs_options_table[row].name,
                           whole ? whole : value);
    free(whole);
    if (printed < 0 || (size_t)printed >= sizeof(inquiry->request) - 1 ||
        strchr(inquiry->request, '\n')) {
        gs_launcher_fail(GS_EXIT_USAGE, "set: the value is too long, or has a newline");
    }
}

/* Takes the setting, or the name of one, out of the words, which are then processes. */
static void take_settings(struct inquiry *inquiry, const struct gs_arguments *arguments,
                          const char *word)
{
    char **words = arguments->command, **kept = words;
    bool given = false;
    for (; *words; words++) {
        if (!strchr(*words, '=')) {
            *kept++ = *words;
        } else if (given) {
            gs_launcher_fail(GS_EXIT_USAGE,
                             "%s takes one NAME=VALUE; the second is %.200s", word,
                             *words);
        } else {
            take_setting(inquiry, *words);
            given = true;
        }
    }
    *kept = NULL;
    if (!given) {
        take_name(inquiry, arguments);
    }
}

/* Takes the format, the last word, out of the words, which are then one process. */
static void take_format(struct inquiry *inquiry, char **words)
{
    char wrong[GS_OUTPUTS_WRONG_BYTES];
    size_t count = 0;
    while (words[count]) {
        count++;
    }
    if (count < 2) {
        gs_help_refuse(inquiry->verb, "export: no %s is given",
                       count == 0 || gs_outputs_wrong(words[0], wrong) ? "FORMAT"
                                                                       : "PID or NAME");
    }
    if (count > 2) {
        gs_help_refuse(inquiry->verb, "export takes one process; the second is %.200s",
                       words[1]);
    }
    size_t row = gs_outputs_format(words[1], strlen(words[1]));
    const bool is_state = strcmp(words[1], GS_CONTROL_STATE) == 0;
    if (row == GS_EXPORT_FORMATS && !is_state) {
        const char *why = gs_outputs_wrong(words[1], wrong);
        if (!why) {
            gs_launcher_fail(GS_EXIT_USAGE, "export: no FORMAT is given");
        }
        gs_launcher_fail(GS_EXIT_USAGE, "export: %.*s, " GS_CONTROL_STATE ")",
                         (int)strlen(why) - 1, why); /* its list has one more here */
    }
    if ((is_state || row == GS_EXPORT_pprof) && isatty(STDOUT_FILENO)) {
        gs_launcher_fail(GS_EXIT_USAGE,
                         "export: %s is binary: write it to a file, such as >%s, or to "
                         "a pipe",
                         words[1], is_state ? "app.state" : "heap.pb");
    }
    (void)snprintf(inquiry->request, sizeof(inquiry->request), "export %s",
                   is_state ? GS_CONTROL_STATE : gs_export_formats[row].name);
    words[1] = NULL;
}

/* Takes the scope, the last word, out of the words, which are then processes. */
static void take_scope(struct inquiry *inquiry, const struct gs_arguments *arguments,
                       const char *word)
{
    char **words = arguments->command;
    size_t count = 0;
    while (words[count]) {
        count++;
    }
    if (count + (arguments->every != NULL) < 2) {
        gs_help_refuse(inquiry->verb, "%s: no %s is given", word,
                       count > 0 && !is_number(words[0]) ? "PID or NAME" : "SCOPE");
    }
    const char *scope = words[count - 1];
    const char *keep = inquiry->verb != GS_VERB_RELEASE ? ""
                       : arguments->discard             ? "discard "
                       : arguments->plain               ? "plain "
                                                        : "pinned ";
    int printed = snprintf(inquiry->request, sizeof(inquiry->request), "%s %s%s", word,
                           keep, scope);
    if (printed < 0 || (size_t)printed >= sizeof(inquiry->request) - 1 || !scope[0] ||
        strpbrk(scope, "/\n")) {
        gs_launcher_fail(GS_EXIT_USAGE, "%s: not the name of a scope: %.200s", word,
                         scope);
    }
    words[count - 1] = NULL;
}

bool gs_request_names_scope(const struct gs_arguments *arguments)
{
    bool scope = arguments->every != NULL;
    for (char **word = arguments->command; *word; word++) {
        scope |= !is_number(*word);
    }
    return scope;
}

int gs_request_run(const struct gs_arguments *arguments)
{
    static struct inquiry inquiry;
    size_t i = 0;
    while (rows[i].verb != arguments->verb) {
        i++;
    }
    inquiry.verb = arguments->verb;
    inquiry.json = arguments->json != NULL;
    inquiry.wait_ms =
        1000 * (arguments->wait
                    ? (unsigned)gs_value_number("--wait", arguments->wait, 1, MOST_WAIT_S)
                    : DEFAULT_WAIT_S);
    (void)strcpy(inquiry.request, rows[i].word);
    char **pids = arguments->command;
    if (arguments->every && rows[i].processes == ONE) {
        gs_help_refuse(inquiry.verb, "%s takes one process, not --all", rows[i].word);
    }
    if (pids[0] && inquiry.verb == GS_VERB_SET) {
        take_settings(&inquiry, arguments, rows[i].word);
    } else if (inquiry.verb == GS_VERB_EXPORT) {
        take_format(&inquiry, pids);
    } else if (inquiry.verb == GS_VERB_RELEASE || inquiry.verb == GS_VERB_RESUME) {
        take_scope(&inquiry, arguments, rows[i].word);
    }
    gs_words_once(pids);
    for (char **pid = pids; *pid; pid++) {
        if (is_number(*pid)) {
            (void)gs_value_number("a process", *pid, 1, INT32_MAX);
        }
    }
    if (arguments->every && pids[0]) {
        gs_launcher_fail(GS_EXIT_USAGE, "%s: --all, or processes; not both",
                         rows[i].word);
    }
    if (!arguments->every && !pids[0]) {
        gs_help_refuse(inquiry.verb, "%s: no PID or NAME is given", rows[i].word);
    }
    if (arguments->every) {
        ask_all(&inquiry, NULL);
    }
    for (char **word = pids; *word; word++) {
        if (is_number(*word)) {
            ask_number(&inquiry, gs_request_process(*word));
        } else if (rows[i].processes == ONE) {
            ask_only(&inquiry, *word);
        } else {
            ask_all(&inquiry, *word);
        }
    }
    return gs_replay_end(inquiry.failed > 0 ? 1 : 0);
}
