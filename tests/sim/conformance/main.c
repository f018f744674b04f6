/*
 * main.c - runs the cases, one line for each that fails or is skipped, figures last.
 *
 *     conformance [--list] [--json FILE] [--verbose] [--after CASE] [--case-seconds N]
 *                 [--returns-ms N] [filter...]
 *
 * A filter is a part of a case's name; --after leaves out the cases up to one. A case
 * has --case-seconds (180), a call in it that must come back --returns-ms at most (what
 * the case gives it). Status 0: nothing failed; 1: something did; 2: bad arguments; 3: no
 * device, or one that does not start; 4: a case did not come back; 5: the last case
 * written has ruined the context. After 4 and 5 what follows was not run.
 *
 * Owns:  the outcome of the case that runs; the options, immutable after the start.
 * Lock:  none, cases run on one thread.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "case_ipc_help.h"
#include "conformance.h"
#include "suite.h"

#define CASE_SECONDS  180
#define START_SECONDS 60   /* of a device that nobody has used yet */
#define MOST_SECONDS  3600 /* that an option may say */

enum {
    ENDS_PASSED = 0,
    ENDS_FAILED = 1,
    ENDS_USAGE = 2,
    ENDS_NO_DEVICE = 3,
    ENDS_LATE = 4,
    ENDS_RUINED = 5
};

extern const struct conformance_case *const __start_conformance[];
extern const struct conformance_case *const __stop_conformance[];

enum outcome { PASSED, FAILED, SKIPPED };

static const struct conformance_case *current;
static enum outcome outcome;
static char reason[160]; /* of a skip */
static FILE *json;
static bool verbose;
static unsigned case_seconds = CASE_SECONDS;
static const char *returns_ms; /* for cases in a process of their own; NULL: not said */

static void fail_at(const char *file, int line)
{
    const char *slash = strrchr(file, '/');

    outcome = FAILED;
    printf("FAILED %s (%s:%d): ", current->name, slash ? slash + 1 : file, line);
}

bool check_true(bool held, const char *text, const char *file, int line)
{
    if (!held) {
        fail_at(file, line);
        printf("%s is not so\n", text);
    }
    return held;
}

bool check_code(CUresult got, CUresult expected, const char *text, const char *file,
                int line)
{
    const char *got_name = "?", *expected_name = "?";

    if (got == expected)
        return true;
    cuGetErrorName(got, &got_name);
    cuGetErrorName(expected, &expected_name);
    fail_at(file, line);
    printf("%s answers %s (%d), documented is %s (%d)\n", text, got_name, (int)got,
           expected_name, (int)expected);
    return false;
}

bool check_equal(uint64_t got, uint64_t expected, const char *text, const char *file,
                 int line)
{
    if (got != expected) {
        fail_at(file, line);
        printf("%s is %llu, documented is %llu\n", text, (unsigned long long)got,
               (unsigned long long)expected);
    }
    return got == expected;
}

void skip(const char *why)
{
    if (outcome == PASSED)
        outcome = SKIPPED;
    snprintf(reason, sizeof(reason), "%s", why);
}

/* Sentences are ours and hold nothing but printable characters and quotes. */
static void json_text(const char *text)
{
    fputc('"', json);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', json);
        fputc(*text, json);
    }
    fputc('"', json);
}

static void write_json(bool first)
{
    static const char *const words[] = {"passed", "failed", "skipped"};

    if (!json)
        return;
    fprintf(json, "%s\n  {\"case\": \"%s\", \"outcome\": \"%s\", \"document\": \"%s\", ",
            first ? "" : ",", current->name, words[outcome], current->document);
    fputs("\"section\": ", json);
    json_text(current->section);
    fputs(", \"claim\": ", json);
    json_text(current->claim);
    if (outcome == SKIPPED) {
        fputs(", \"reason\": ", json);
        json_text(reason);
    }
    fputs("}", json);
    fflush(json);
}

/* What a child process says by its exit status. */
enum { CHILD_PASSED = 0, CHILD_FAILED = 1, CHILD_SKIPPED = 77 };

static void judge_child(int status, bool timed_out)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_PASSED)
        return;
    if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_SKIPPED) {
        skip("see the line above");
        return;
    }
    outcome = FAILED;
    if (timed_out)
        printf("FAILED %s: not done after %u s\n", current->name, case_seconds);
    else if (WIFSIGNALED(status))
        printf("FAILED %s: signal %d\n", current->name, WTERMSIG(status));
}

/* Run this very program again for one case; the parent has initialized CUDA, so a plain
 * fork would not do. */
static void run_in_child(const char *self)
{
    int status = 0;
    bool timed_out = false;

    fflush(NULL);
    pid_t child = fork();
    if (child < 0) {
        skip("no process could be started");
        return;
    }
    if (child == 0) {
        if (returns_ms)
            execl(self, self, "--returns-ms", returns_ms, "--one", current->name,
                  (char *)NULL);
        else
            execl(self, self, "--one", current->name, (char *)NULL);
        _exit(CHILD_FAILED);
    }
    for (unsigned waited = 0; waitpid(child, &status, WNOHANG) == 0; waited++) {
        struct timespec pause = {0, 5000000};
        if (waited == case_seconds * 200) {
            timed_out = true;
            kill(child, SIGKILL);
        }
        nanosleep(&pause, NULL);
    }
    judge_child(status, timed_out);
}

static void run_current(void)
{
    if (current->there && !current->there())
        return;
    current->run();
    if (current->after)
        current->after();
}

static int run_one(const char *name)
{
    const struct conformance_case *const *entry = __start_conformance;

    while (entry < __stop_conformance && strcmp((*entry)->name, name) != 0)
        entry++;
    if (entry == __stop_conformance || (!(*entry)->uninitialized && !suite_start()))
        return CHILD_FAILED;
    current = *entry;
    run_current();
    if (outcome == SKIPPED)
        printf("skipped %s: %s\n", current->name, reason);
    fflush(stdout);
    return outcome == PASSED   ? CHILD_PASSED
           : outcome == FAILED ? CHILD_FAILED
                               : CHILD_SKIPPED;
}

static bool wanted(const char *name, char **filters, int count)
{
    for (int i = 0; i < count; i++) {
        if (strstr(name, filters[i]))
            return true;
    }
    return count == 0;
}

static int by_name(const void *left, const void *right)
{
    const struct conformance_case *const *a = left, *const *b = right;

    return strcmp((*a)->name, (*b)->name);
}

static void list(const struct conformance_case *const *cases, size_t count)
{
    for (size_t i = 0; i < count; i++)
        printf("%-44s %s, %s: %s\n", cases[i]->name, cases[i]->document,
               cases[i]->section, cases[i]->claim);
}

/* A case that shares the process can be given up only with the process, and so can the
 * start of the device. */
static void give_up(int number)
{
    static const char start[] = "conformance: the device did not start in time\n";
    static const char text[] = ": did not come back\n";
    ssize_t written = 0;

    (void)number;
    if (!current) {
        written = write(STDERR_FILENO, start, sizeof(start) - 1);
        _exit(written > 0 ? ENDS_NO_DEVICE : ENDS_FAILED);
    }
    written = write(STDOUT_FILENO, "FAILED ", 7);
    written += write(STDOUT_FILENO, current->name, strlen(current->name));
    written += write(STDOUT_FILENO, text, sizeof(text) - 1);
    _exit(written > 0 ? ENDS_LATE : ENDS_FAILED);
}

/* Whether the context can be used by another case. */
static bool run_here(void)
{
    alarm(case_seconds);
    run_current();
    bool usable = suite_tidy();
    alarm(0);
    if (!usable) {
        printf("FAILED %s: the context is not usable after it\n", current->name);
        outcome = FAILED;
    }
    return usable;
}

/* Returns ENDS_PASSED, ENDS_FAILED or, where a case has ruined the context of those
 * behind it, ENDS_RUINED. */
static int run_all(const char *self, const struct conformance_case *const *cases,
                   size_t case_count, char **filters, int filter_count)
{
    unsigned count[3] = {0};
    bool usable = true;

    for (size_t i = 0; usable && i < case_count; i++) {
        if (!wanted(cases[i]->name, filters, filter_count))
            continue;
        current = cases[i];
        outcome = PASSED;
        reason[0] = '\0';
        if (current->own_process)
            run_in_child(self);
        else
            usable = run_here();
        if (verbose && outcome == PASSED)
            printf("passed %s\n", current->name);
        if (outcome == SKIPPED && !current->own_process)
            printf("skipped %s: %s\n", current->name, reason);
        write_json(count[0] + count[1] + count[2] == 0);
        count[outcome]++;
    }
    printf("conformance: %u passed, %u failed, %u skipped\n", count[PASSED],
           count[FAILED], count[SKIPPED]);
    return !usable ? ENDS_RUINED : count[FAILED] ? ENDS_FAILED : ENDS_PASSED;
}

static int usage(const char *wrong)
{
    fprintf(stderr,
            "conformance: %s\n"
            "usage: conformance [--list] [--json FILE] [--verbose] [--after CASE] "
            "[--case-seconds N] [--returns-ms N] [filter...]\n",
            wrong);
    return ENDS_USAGE;
}

/* A number from 1 to `most`; 0 for anything else. */
static unsigned number(const char *text, unsigned most)
{
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);

    return *text < '0' || *text > '9' || *end || value > most ? 0 : (unsigned)value;
}

struct arguments {
    bool only_list;
    const char *after; /* a case's name; "" for none */
    const char *one;   /* the case this process is for, or NULL */
};

/* Returns the index of the first filter, or -1 with a line that says what is wrong. */
static int read_arguments(int argc, char **argv, struct arguments *arguments)
{
    int next = 1;

    for (; next < argc && argv[next][0] == '-'; next++) {
        const char *name = argv[next];
        const char *value = next + 1 < argc ? argv[next + 1] : NULL;
        const char *wrong = NULL;

        if (strcmp(name, "--list") == 0) {
            arguments->only_list = true;
            continue;
        }
        if (strcmp(name, "--verbose") == 0) {
            verbose = true;
            continue;
        }
        if (value && strcmp(name, "--after") == 0) {
            arguments->after = value;
        } else if (value && strcmp(name, "--one") == 0) {
            arguments->one = value;
        } else if (value && strcmp(name, "--case-seconds") == 0) {
            if (!(case_seconds = number(value, MOST_SECONDS)))
                wrong = name;
        } else if (value && strcmp(name, "--returns-ms") == 0) {
            unsigned ms = number(value, MOST_SECONDS * 1000);
            if (!ms)
                wrong = name;
            suite_set_returns_ms(ms);
            returns_ms = value;
        } else if (value && strcmp(name, "--json") == 0) {
            if (!(json = fopen(value, "we")))
                wrong = strerror(errno);
        } else {
            wrong = name;
        }
        if (wrong) {
            usage(wrong);
            return -1;
        }
        next++;
    }
    return next;
}

int main(int argc, char **argv)
{
    size_t count = (size_t)(__stop_conformance - __start_conformance);
    const struct conformance_case **cases = malloc((count + 1) * sizeof(*cases));
    struct arguments arguments = {.after = ""};
    size_t first = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!cases)
        return ENDS_FAILED;
    memcpy(cases, __start_conformance, count * sizeof(*cases));
    qsort(cases, count, sizeof(*cases), by_name);
    if (argc == 2 && strcmp(argv[1], "--serve") == 0)
        return serve_remote();
    int filters = read_arguments(argc, argv, &arguments);
    if (filters < 0)
        return ENDS_USAGE;
    if (arguments.one)
        return run_one(arguments.one);
    if (arguments.only_list) {
        list(cases, count);
        return ENDS_PASSED;
    }
    signal(SIGALRM, give_up);
    alarm(START_SECONDS);
    if (!suite_start()) {
        puts("conformance: 0 passed, 0 failed, 1 skipped (no CUDA device)");
        return ENDS_NO_DEVICE;
    }
    alarm(0);
    if (json)
        fputs("[", json);
    while (first < count && strcmp(cases[first]->name, arguments.after) <= 0)
        first++;
    int ends = run_all("/proc/self/exe", cases + first, count - first, argv + filters,
                       argc - filters);
    if (json && (fputs("\n]\n", json) < 0 || fclose(json) != 0))
        return usage("the file could not be written");
    /* What a ruined context would do at the end of the process is of no interest. */
    if (ends == ENDS_RUINED) {
        fflush(NULL);
        _exit(ends);
    }
    free(cases);
    return ends;
}
