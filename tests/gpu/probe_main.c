/*
 * probe_main.c - gpu_probe: asks the driver one question.
 *
 *   gpu_probe QUESTION      rows on stdout: a JSON object, then the same for people
 *   gpu_probe --list        the questions: name, seconds allowed, text
 *   gpu_probe --machine     what it runs on, as one JSON object
 *   gpu_probe --stay PID    keeps the driver open, without a context, until it is told to
 * end or its parent has ended
 *   gpu_probe --kernel MS   holds the GPU for MS milliseconds, then lets it go (for a
 * check that an interrupted question gives the GPU back)
 *
 * Ends with 0 when the question was answered (an answer may be "not supported"), 1 when a
 * call failed that should not have, 2 for a wrong command line, 3 where there is no
 * driver or no device, 4 when the question took too long. Owns: the deadline.   Lock:
 * none.
 */
#include "probe.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { ENDS_FAILED = 1, ENDS_USAGE = 2, ENDS_NO_DEVICE = 3, ENDS_LATE = 4 };

struct question {
    const char *name;
    unsigned seconds;
    const char *text;
    void (*ask)(void);
};

static const struct question questions[] = {
#define PROBE_QUESTION(name, seconds, text) {#name, seconds, text, probe_ask_##name},
#include "probe_questions.def"
#undef PROBE_QUESTION
};

/* ---- endings
 * ------------------------------------------------------------------------------ */

/* Kernels that were held end on their own once released; the driver ends the rest. */
static void leave(int status)
{
    probe_hold_release_all();
    probe_sleep_ns(50 * PROBE_MS);
    _exit(status);
}

void probe_not_supported(const char *format, ...)
{
    va_list arguments;
    char why[256];

    va_start(arguments, format);
    vsnprintf(why, sizeof(why), format, arguments);
    va_end(arguments);
    probe_row_last("not supported", "%s", why);
    leave(0);
    abort();
}

void probe_failed(const char *format, ...)
{
    va_list arguments;
    char why[256];

    va_start(arguments, format);
    vsnprintf(why, sizeof(why), format, arguments);
    va_end(arguments);
    probe_row_last("failed", "%s", why);
    leave(ENDS_FAILED);
    abort();
}

/* "driver.cuMemAlloc_v2(&block, bytes)" -> "cuMemAlloc_v2". */
static void name_of_call(const char *call, char *out, size_t size)
{
    const char *start = strncmp(call, "driver.", 7) == 0 ? call + 7 : call;

    snprintf(out, size, "%.*s", (int)strcspn(start, "("), start);
}

void probe_check(CUresult code, const char *call)
{
    char name[96];

    if (code == CUDA_SUCCESS)
        return;
    name_of_call(call, name, sizeof(name));
    if (code == CUDA_ERROR_NOT_SUPPORTED)
        probe_not_supported("%s answers NOT_SUPPORTED", name);
    probe_failed("%s answers %s", name, probe_code_name(code));
}

void probe_need(bool present, const char *symbol)
{
    if (!present)
        probe_not_supported("the driver has no %s", symbol);
}

static void *end_late(void *seconds)
{
    probe_sleep_ns((uint64_t)(uintptr_t)seconds * 1000 * PROBE_MS);
    probe_row_last("timed out", "after %u s", (unsigned)(uintptr_t)seconds);
    leave(ENDS_LATE);
    return NULL;
}

static void on_signal(int number)
{
    probe_hold_release_all();
    probe_sleep_ns(50 * PROBE_MS);
    signal(number, SIG_DFL);
    raise(number);
}

/*
 * A call that crashes is an answer too: the cells before it are kept. What this does is
 * not safe in every signal handler, but the alternative is to lose the row.
 */
static void on_crash(int number)
{
    probe_hold_release_all();
    probe_row_last("failed", "signal %d in the call after the last cell", number);
    _exit(ENDS_FAILED);
}

static void catch_signals(void)
{
    static const int ends[] = {SIGTERM, SIGINT, SIGHUP};
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    action.sa_flags = SA_NODEFER;
    for (size_t i = 0; i < GS_ARRAY_LEN(ends); i++)
        sigaction(ends[i], &action, NULL);
    action.sa_handler = on_crash;
    action.sa_flags = (int)SA_RESETHAND;
    for (size_t i = 0; i < GS_ARRAY_LEN(crashes); i++)
        sigaction(crashes[i], &action, NULL);
}

static bool guard(unsigned seconds)
{
    pthread_t thread;

    catch_signals();
    if (pthread_create(&thread, NULL, end_late, (void *)(uintptr_t)seconds) != 0)
        return false;
    return pthread_detach(thread) == 0;
}

/* ---- the command line
 * --------------------------------------------------------------------- */

static int list(void)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(questions); i++)
        printf("%-16s %3u  %s\n", questions[i].name, questions[i].seconds,
               questions[i].text);
    return 0;
}

static int usage(const char *program)
{
    fprintf(
        stderr,
        "usage: %s QUESTION [LABEL] | --list | --machine | --stay PID | --kernel MS\n",
        program);
    return ENDS_USAGE;
}

static int hold_for(const char *text)
{
    struct probe_place place;
    char *end;
    unsigned long ms;

    errno = 0;
    ms = strtoul(text, &end, 10);
    if (errno || end == text || *end || ms > 60000)
        return ENDS_USAGE;
    if (!guard(90))
        return ENDS_FAILED;
    probe_context();
    probe_place_open(&place, PROBE_NONBLOCKING);
    probe_hold_begin(&place, ms * PROBE_MS);
    puts("held");
    fflush(stdout);
    PROBE_OK(driver.cuStreamSynchronize(place.stream));
    probe_hold_end();
    puts("released");
    return 0;
}

static int ask(const struct question *question)
{
    const char *why;

    probe_out_begin(question->name, false);
    why = probe_driver_load();
    if (why) {
        fprintf(stderr, "gpu_probe: %s\n", why);
        return ENDS_NO_DEVICE;
    }
    probe_out_begin(question->name, probe_is_simulated());
    if (!guard(question->seconds))
        probe_failed("no thread to watch the time with");
    question->ask();
    fflush(stdout);
    leave(0);
    return 0;
}

static int without_question(int argc, char **argv)
{
    const char *why;

    if (strcmp(argv[1], "--list") == 0)
        return list();
    if (strcmp(argv[1], "--ipc-child") == 0)
        return probe_ipc_child();
    if (strcmp(argv[1], "--stay") == 0 && argc > 2) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != atoi(argv[2]))
            return 0; /* it has ended already */
    } else if (strcmp(argv[1], "--machine") != 0 && strcmp(argv[1], "--kernel") != 0)
        return usage(argv[0]);
    why = probe_driver_load();
    if (why) {
        fprintf(stderr, "gpu_probe: %s\n", why);
        return ENDS_NO_DEVICE;
    }
    if (strcmp(argv[1], "--machine") == 0)
        return probe_machine_print() ? 0 : ENDS_FAILED;
    if (strcmp(argv[1], "--stay") == 0)
        for (;;)
            pause();
    return argc > 2 ? hold_for(argv[2]) : usage(argv[0]);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return usage(argv[0]);
    if (argv[1][0] == '-')
        return without_question(argc, argv);
    if (argc > 2)
        probe_out_label(argv[2]);
    for (size_t i = 0; i < GS_ARRAY_LEN(questions); i++)
        if (strcmp(questions[i].name, argv[1]) == 0)
            return ask(&questions[i]);
    fprintf(stderr, "gpu_probe: no question '%s' (see --list)\n", argv[1]);
    return ENDS_USAGE;
}
