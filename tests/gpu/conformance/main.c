/*
 * main.c - runs the cases, one line for each that fails or is skipped, figures last.
 *
 *     conformance [--list] [--json FILE] [--verbose] [--after CASE] [filter...]
 *
 * A filter is a part of a case's name; --after leaves out the cases up to one. Status 0:
 * nothing failed; 1: something did; 2: bad arguments; 3: no device; 4: a case did not
 * come back, and what follows it was not run.
 *
 * Owns:  the outcome of the case that runs.   Lock: none, cases run on one thread.
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

#define OWN_PROCESS_SECONDS 180
#define CASE_SECONDS        180 /* of one that shares the process */

extern const struct conformance_case *const __start_conformance[];
extern const struct conformance_case *const __stop_conformance[];

enum outcome { PASSED, FAILED, SKIPPED };

static const struct conformance_case *current;
static enum outcome outcome;
static char reason[160]; /* of a skip */
static FILE *json;
static bool verbose;

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
        printf("FAILED %s: not done after %d s\n", current->name, OWN_PROCESS_SECONDS);
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
        execl(self, self, "--one", current->name, (char *)NULL);
        _exit(CHILD_FAILED);
    }
    for (unsigned waited = 0; waitpid(child, &status, WNOHANG) == 0; waited++) {
        struct timespec pause = {0, 5000000};
        if (waited == OWN_PROCESS_SECONDS * 200) {
            timed_out = true;
            kill(child, SIGKILL);
        }
        nanosleep(&pause, NULL);
    }
    judge_child(status, timed_out);
}

static int run_one(const char *name)
{
    const struct conformance_case *const *entry = __start_conformance;

    while (entry < __stop_conformance && strcmp((*entry)->name, name) != 0)
        entry++;
    if (entry == __stop_conformance || (!(*entry)->uninitialized && !suite_start()))
        return CHILD_FAILED;
    current = *entry;
    current->run();
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

/* A case that shares the process can be given up only with the process. */
static void give_up(int number)
{
    static const char text[] = ": did not come back\n";
    ssize_t written = write(STDOUT_FILENO, "FAILED ", 7);

    (void)number;
    written += write(STDOUT_FILENO, current->name, strlen(current->name));
    written += write(STDOUT_FILENO, text, sizeof(text) - 1);
    _exit(written > 0 ? 4 : 1);
}

static void run_here(void)
{
    alarm(CASE_SECONDS);
    current->run();
    if (!suite_tidy()) {
        printf("FAILED %s: the context is not usable after it\n", current->name);
        outcome = FAILED;
    }
    alarm(0);
}

/* Returns how many failed. */
static unsigned run_all(const char *self, const struct conformance_case *const *cases,
                        size_t case_count, char **filters, int filter_count)
{
    unsigned count[3] = {0};

    for (size_t i = 0; i < case_count; i++) {
        if (!wanted(cases[i]->name, filters, filter_count))
            continue;
        current = cases[i];
        outcome = PASSED;
        reason[0] = '\0';
        if (current->own_process)
            run_in_child(self);
        else
            run_here();
        if (verbose && outcome == PASSED)
            printf("passed %s\n", current->name);
        if (outcome == SKIPPED && !current->own_process)
            printf("skipped %s: %s\n", current->name, reason);
        write_json(count[0] + count[1] + count[2] == 0);
        count[outcome]++;
    }
    printf("conformance: %u passed, %u failed, %u skipped\n", count[PASSED],
           count[FAILED], count[SKIPPED]);
    return count[FAILED];
}

static int usage(const char *wrong)
{
    fprintf(stderr,
            "conformance: %s\n"
            "usage: conformance [--list] [--json FILE] [--verbose] [--after CASE] "
            "[filter...]\n",
            wrong);
    return 2;
}

int main(int argc, char **argv)
{
    size_t count = (size_t)(__stop_conformance - __start_conformance);
    const struct conformance_case **cases = malloc((count + 1) * sizeof(*cases));
    int next = 1;
    bool only_list = false;
    const char *after = "";
    size_t first = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!cases)
        return 1;
    memcpy(cases, __start_conformance, count * sizeof(*cases));
    qsort(cases, count, sizeof(*cases), by_name);
    if (argc == 2 && strcmp(argv[1], "--serve") == 0)
        return serve_remote();
    if (argc == 3 && strcmp(argv[1], "--one") == 0)
        return run_one(argv[2]);
    for (; next < argc && argv[next][0] == '-'; next++) {
        if (strcmp(argv[next], "--list") == 0)
            only_list = true;
        else if (strcmp(argv[next], "--verbose") == 0)
            verbose = true;
        else if (strcmp(argv[next], "--after") == 0 && next + 1 < argc)
            after = argv[++next];
        else if (strcmp(argv[next], "--json") != 0 || next + 1 == argc)
            return usage(argv[next]);
        else if (!(json = fopen(argv[++next], "we")))
            return usage(strerror(errno));
    }
    if (only_list) {
        list(cases, count);
        return 0;
    }
    if (!suite_start()) {
        puts("conformance: 0 passed, 0 failed, 1 skipped (no CUDA device)");
        return 3;
    }
    if (json)
        fputs("[", json);
    signal(SIGALRM, give_up);
    while (first < count && strcmp(cases[first]->name, after) <= 0)
        first++;
    unsigned failed =
        run_all("/proc/self/exe", cases + first, count - first, argv + next, argc - next);
    if (json && (fputs("\n]\n", json) < 0 || fclose(json) != 0))
        return usage("the file could not be written");
    free(cases);
    return failed ? 1 : 0;
}
