/*
 * shim_control.c - proves which threads the command gpushim takes for those that answer,
 * what is answered to requests that are none, and what the command makes of answers that
 * are none.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/control/answers.h"
#include "shim/statefile/control_message.h"
#include "shim/tools/reader/ask.h"
#include "shim/tools/reader/container.h"
#include "shim/tools/reader/live_totals.h"

/* ---- names and filters ------------------------------------------------------------- */

Test(control, only_names_of_its_form_are_threads)
{
    static const char *const wrong[] = {"",
                                        "@",
                                        "@12",
                                        "@12/",
                                        "12/13",
                                        "@/13",
                                        "@0/13",
                                        "@12/0",
                                        "@-1/13",
                                        "@12/-13",
                                        "@12/13/",
                                        "@12x/13",
                                        "@12 /",
                                        "@12/13x",
                                        "@ 12/13",
                                        "@99999999999/13",
                                        "@12/99999999999"};
    struct gs_ask_thread thread;
    cr_assert(gs_ask_read_name("@4711/4713", &thread));
    cr_assert_eq(thread.pid, 4711);
    cr_assert_eq(thread.tid, 4713);
    cr_assert_str_eq(thread.name, "@4711/4713");
    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++) {
        cr_expect_not(gs_ask_read_name(wrong[i], &thread), "%s", wrong[i]);
    }
}

Test(control, filters_are_counted)
{
    cr_expect_eq(gs_control_filters(""), 0);
    cr_expect_eq(gs_control_filters("\nSeccomp:\t0\nSeccomp_filters:\t0\n"), 0);
    cr_expect_eq(gs_control_filters("\nSeccomp:\t2\nSeccomp_filters:\t3\n"), 3);
    /* Before Linux 5.9; and the strict mode. */
    cr_expect_eq(gs_control_filters("\nSeccomp:\t2\n"), 1);
    cr_expect_eq(gs_control_filters("\nSeccomp:\t1\nSeccomp_filters:\t0\n"), 1);
}

Test(control, containers_are_those_of_control_groups)
{
#define ID  "1234567890abcdef1234567890abcdef1234567890abcdef1234567890abcdef"
#define UID "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"
    static const struct {
        const char *cgroup, *pod; /* NULL: no container */
    } rows[] = {
        {"0::/\n", NULL},
        {"", NULL},
        {"0::/user.slice/user-1000.slice/session-3.scope\n", NULL},
        {"0::/system.slice/docker-" ID ".scope\n", ""},
        {"12:memory:/docker/" ID "\n11:cpu:/docker/" ID "\n", ""},
        {"0::/machine.slice/libpod-" ID ".scope/container\n", ""},
        {"0::/kubepods/besteffort/pod" UID "/" ID "\n", UID},
        {"0::/kubepods.slice/kubepods-pod0a1b2c3d_0a1b_0a1b_0a1b_0a1b2c3d4e5f.slice/"
         "crio-" ID ".scope\n",
         UID},
        {"0::/kubepods/pod0a1b/" ID "\n", ""},
        {"0::/docker/" ID "0\n", NULL}};
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct gs_container got;
        cr_expect_eq(gs_container_parse(rows[i].cgroup, &got), rows[i].pod != NULL, "%s",
                     rows[i].cgroup);
        cr_expect_str_eq(got.id, rows[i].pod ? ID : "");
        cr_expect_str_eq(got.pod, rows[i].pod ? rows[i].pod : "");
    }
}

/* ---- requests ------------------------------------------------------------------------
 */

static struct gs_state state;
static struct gs_answer answer;

static const char *answer_to(const char *request)
{
    char line[256];
    (void)snprintf(line, sizeof(line), "%s", request);
    answer = (struct gs_answer){.length = 0};
    gs_thread.depth = 1;
    gs_answer(&state, line, &answer);
    cr_assert_eq(gs_thread.depth, 1);
    return answer.text;
}

Test(control, what_is_no_request_is_refused)
{
    static const char *const wrong[][2] = {
        {"", "unknown request"},
        {" ", "unknown request"},
        {"stat", "unknown request"},
        {"statss", "unknown request"},
        {"STATS", "unknown request"},
        {"stats x", "stats takes no argument"},
        {"dump x", "dump takes no argument"},
        {"set", "set: not possible now"},
        {"set ", "set: not possible now"},
        {"set x", "x: not possible now"},
        {"set =x", "set takes NAME=VALUE"},
        {"set GPUSHIM_VERBOSE=1", "GPUSHIM_VERBOSE: not possible now; unchanged"},
        {"dump", "nothing is recorded: GPUSHIM_TRACK=off"},
        {"owners", "nothing is recorded: GPUSHIM_TRACK=off"},
        {"trim", "the pool is off"}};
    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++) {
        const char *text = answer_to(wrong[i][0]);
        cr_expect(answer.refused, "%s", wrong[i][0]);
        cr_expect_eq(strncmp(text, wrong[i][1], strlen(wrong[i][1])), 0, "%s: %s",
                     wrong[i][0], text);
    }
}

/* Also of more than there is room for: nothing is cut. */
Test(control, statistics_are_what_the_command_reads)
{
    struct gs_live_totals totals;
    const char *problem;
    state.pid = getpid();
    state.device_count = 2;
    state.device_named[1] = true;
    (void)strcpy(state.device_names[1], "a \"quoted\" \\ \n name");
    (void)strcpy(state.device_buses[1], "0000:3b:00.0");
    (void)answer_to("stats");
    cr_assert_not(answer.refused, "%s", answer.text);
    cr_assert(gs_live_totals_parse(answer.text, &totals, &problem), "%s", problem);
    cr_assert(totals.process.pid_start != 0);
    cr_assert_eq(totals.row_count, 1); /* no device had memory */
    for (unsigned i = 0; i < 100000 && !answer.cut; i++) {
        gs_answer_add(&answer, "%u,", i);
    }
    cr_assert(answer.cut);
    cr_assert_lt(answer.length, sizeof(answer.text));
    cr_assert_eq(answer.text[answer.length], '\0');
}

/* ---- answers -------------------------------------------------------------------------
 */

/* What a thread puts into the segment in place of an answer. */
struct wrong {
    const char *text; /* a piece, and what it says of itself; NULL: it never answers */
    uint64_t total;   /* it says there are so many bytes */
    uint32_t length;  /* of the piece */
    uint32_t turn;    /* in place of GS_CONTROL_PIECE, unless 0 */
    const char *want; /* NULL: no answer */
};

static void *serve_one(void *self)
{
    const struct wrong *wrong = self;
    const uint64_t mask = GS_CONTROL_MASK;
    siginfo_t info;
    (void)syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, NULL, sizeof(mask));
    (void)prctl(PR_SET_NAME, GS_CONTROL_THREAD "0");
    do { /* commands of other users of this machine ask every such thread */
        info.si_pid = 0;
        (void)syscall(SYS_rt_sigtimedwait, &mask, &info, NULL, sizeof(mask));
    } while (info.si_pid != getppid());
    struct gs_control_box *box =
        wrong->text ? shmat(info.si_value.sival_int, NULL, 0) : (void *)-1;
    if (box != (void *)-1 && strcmp(box->request, "stats") == 0) {
        memcpy(box->piece, wrong->text, strlen(wrong->text));
        box->total = wrong->total;
        box->length = wrong->length;
        (void)gs_control_hand_over(box, GS_CONTROL_ASKED,
                                   wrong->turn ? wrong->turn : GS_CONTROL_PIECE);
    }
    for (;;) {
        (void)pause();
    }
    return NULL;
}

/* A process with such a thread, once it may be asked. */
static pid_t serve(const struct wrong *wrong, struct gs_ask_thread *thread)
{
    pid_t child = fork();
    if (child == 0) {
        sigset_t all;
        pthread_t unused;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves no such thread */
        sigfillset(&all);
        (void)sigprocmask(SIG_SETMASK, &all, NULL);
        if (pthread_create(&unused, NULL, serve_one, (void *)(uintptr_t)wrong) != 0) {
            _exit(1);
        }
        for (;;) {
            (void)pause();
        }
    }
    size_t count = 0;
    for (int i = 0; i < 500; i++) {
        struct gs_ask_thread *all = gs_ask_list(&count);
        while (count > 0 && all[count - 1].pid != child) {
            count--;
        }
        if (count > 0) {
            *thread = all[count - 1];
        }
        free(all);
        if (count > 0) {
            break;
        }
        usleep(20000);
    }
    cr_assert(count > 0);
    return child;
}

static void end(pid_t child)
{
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
}

Test(control, an_answer_is_read_whole_or_not_at_all, .timeout = 120)
{
    static const struct wrong rows[] = {
        {"hello", 5, 5, 0, "hello"},
        {"", 0, 0, 0, ""},
        {"\033[2J\302\233x", 7, 7, 0, "?[2J??x"},
        {"hello", 6, 5, 0, NULL}, /* the rest never comes */
        {"hello", 4, 5, 0, NULL},
        {"hello", 5, 0, 0, NULL},
        {"hello", 1ull << 40, 5, 0, NULL},
        {"hello", UINT64_MAX, 5, 0, NULL},
        {"hello", 1u << 20, 1u << 20, 0, NULL},
        {"hello", 5, 5, GS_CONTROL_OTHER, NULL},
        {"hello", 5, 5, 4711, NULL}};
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct gs_ask_thread thread;
        struct gs_ask_answer got;
        pid_t child = serve(&rows[i], &thread);
        bool answered = gs_ask(&thread, "stats", 1500, &got);
        cr_expect_eq(answered, rows[i].want != NULL, "row %zu: %s", i,
                     got.problem ? got.problem : "answered");
        cr_expect_eq(got.text != NULL, answered);
        cr_expect_eq(got.problem == NULL, answered);
        if (answered && rows[i].want) {
            cr_expect_str_eq(got.text, rows[i].want);
        }
        free(got.text);
        end(child);
    }
}

Test(control, a_process_that_never_answers_is_left, .timeout = 60)
{
    static const struct wrong never = {.text = NULL};
    struct gs_ask_thread thread, other;
    struct gs_ask_answer got;
    pid_t child = serve(&never, &thread);
    cr_assert_not(gs_ask(&thread, "stats", 300, &got));
    cr_assert_not_null(got.problem);
    /* The number is another thread's, which the signal would end. */
    other = (struct gs_ask_thread){.pid = child, .tid = child};
    cr_assert_not(gs_ask(&other, "stats", 300, &got));
    cr_assert_eq(got.problem, gs_ask_gone);
    cr_assert_eq(kill(child, 0), 0);
    end(child);
    cr_assert_not(gs_ask(&thread, "stats", 300, &got));
    cr_assert_eq(got.problem, gs_ask_gone);
}
