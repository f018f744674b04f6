/*
 * shim_control.c - proves which sockets and users the control channel believes, what is
 * answered to requests that are none, and what the command makes of answers that are
 * none.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/control/answers.h"
#include "shim/statefile/control_peer.h"
#include "shim/tools/reader/ask.h"
#include "shim/tools/reader/glance.h"

/* ---- names and users ----------------------------------------------------------------
 */

Test(control, only_names_of_its_form_are_sockets)
{
    static const char *const wrong[] = {"",
                                        "@",
                                        "@gpushim",
                                        "@gpushim/",
                                        "@gpushim/12",
                                        "@gpushim/12/",
                                        "@gpushim/12/0123456789abcde",
                                        "@gpushim/12/0123456789abcdef0",
                                        "@gpushim/12/0123456789ABCDEF",
                                        "@gpushim/0/0123456789abcdef",
                                        "@gpushim/-1/0123456789abcdef",
                                        "@gpushim//0123456789abcdef",
                                        "@gpushim/99999999999999999999/0123456789abcdef",
                                        "@gpushim/12/0123456789abcdef/x",
                                        "@gpushim-12-0123456789abcdef",
                                        "gpushim/12/0123456789abcdef",
                                        "@gpushim/12x/0123456789abcdef"};
    struct gs_ask_name name;
    cr_assert(gs_ask_read_name("@gpushim/4711/0123456789abcdef\n", &name));
    cr_assert_eq(name.pid, 4711);
    cr_assert_str_eq(name.text, "gpushim/4711/0123456789abcdef");
    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++) {
        cr_expect_not(gs_ask_read_name(wrong[i], &name), "%s", wrong[i]);
    }
}

Test(control, only_the_user_and_root_may_ask)
{
    static const char whole[] = "         0          0 4294967295\n",
                      part[] = "         0     100000      65536\n";
    cr_expect(gs_peer_is_allowed(0, 1000, whole));
    cr_expect(gs_peer_is_allowed(1000, 1000, part));
    cr_expect_not(gs_peer_is_allowed(1001, 1000, whole));
    cr_expect_not(gs_peer_is_allowed(1000, 0, whole));
    /* "nobody" is a user, or all those that a namespace does not know. */
    cr_expect(gs_peer_is_allowed(GS_PEER_UNMAPPED, GS_PEER_UNMAPPED, whole));
    cr_expect_not(gs_peer_is_allowed(GS_PEER_UNMAPPED, GS_PEER_UNMAPPED, part));
    cr_expect_not(gs_peer_is_allowed(GS_PEER_UNMAPPED, GS_PEER_UNMAPPED, ""));
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
        {"set", "set takes NAME=VALUE"},
        {"set ", "set takes NAME=VALUE"},
        {"set x", "set takes NAME=VALUE"},
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
    struct gs_glance glance;
    const char *problem;
    state.pid = getpid();
    state.device_count = 2;
    state.device_named[1] = true;
    (void)strcpy(state.device_names[1], "a \"quoted\" \\ \n name");
    (void)strcpy(state.device_buses[1], "0000:3b:00.0");
    (void)answer_to("stats");
    cr_assert_not(answer.refused, "%s", answer.text);
    cr_assert(gs_glance_parse(answer.text, &glance, &problem), "%s", problem);
    cr_assert(glance.process.pid_start != 0);
    cr_assert_eq(glance.row_count, 1); /* no device had memory */
    for (unsigned i = 0; i < 100000 && !answer.cut; i++) {
        gs_answer_add(&answer, "%u,", i);
    }
    cr_assert(answer.cut);
    cr_assert_lt(answer.length, sizeof(answer.text));
    cr_assert_eq(answer.text[answer.length], '\0');
}

/* ---- answers -------------------------------------------------------------------------
 */

/* A process that listens, and answers with these bytes; it waits before it leaves. */
static pid_t serve(const char *text, struct gs_ask_name *name)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), ready[2];
    cr_assert_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        int length = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1,
                              "gpushim/%ld/0123456789abcdef", (long)getpid());
        char request[64];
        if (bind(fd, (struct sockaddr *)&at,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) +
                     (socklen_t)length) != 0 ||
            listen(fd, 1) != 0 || write(ready[1], "", 1) != 1) {
            _exit(1);
        }
        int client = accept(fd, NULL, NULL);
        if (text && read(client, request, sizeof(request)) > 0 &&
            write(client, text, strlen(text)) == (ssize_t)strlen(text)) {
            _exit(0);
        }
        (void)pause();
    }
    char byte;
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    (void)close(fd);
    name->pid = child;
    (void)snprintf(name->text, sizeof(name->text), "gpushim/%ld/0123456789abcdef",
                   (long)child);
    return child;
}

static void end(pid_t child)
{
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
}

Test(control, an_answer_is_read_whole_or_not_at_all, .timeout = 60)
{
    static const struct {
        const char *text, *want; /* NULL: no answer */
        bool refused;
    } rows[] = {
        {"gpushim ok 5\nhello", "hello", false},
        {"gpushim no 3\nbad", "bad", true},
        {"gpushim ok 0\n", "", false},
        {"gpushim ok 5\nhell", NULL, false},
        {"gpushim ok", NULL, false},
        {"", NULL, false},
        {"gpushim ok 99999999999\n", NULL, false},
        {"gpushim ok -1\n", NULL, false},
        {"HTTP/1.1 200 OK\r\n\r\n", NULL, false},
        {"gpushim ok 5 hello\nhello", NULL, false},
        {"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", NULL, false}};
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct gs_ask_name name;
        struct gs_ask_answer got;
        pid_t child = serve(rows[i].text, &name);
        bool answered = gs_ask(&name, child, "stats", 10000, &got);
        cr_expect_eq(answered, rows[i].want != NULL, "%s", rows[i].text);
        cr_expect_eq(got.text != NULL, answered);
        cr_expect_eq(got.problem == NULL, answered);
        if (answered && rows[i].want) {
            cr_expect_str_eq(got.text, rows[i].want);
            cr_expect_eq(got.refused, rows[i].refused);
        }
        free(got.text);
        end(child);
    }
}

Test(control, a_process_that_never_answers_is_left, .timeout = 60)
{
    struct gs_ask_name name;
    struct gs_ask_answer got;
    pid_t child = serve(NULL, &name);
    cr_assert_not(gs_ask(&name, child, "stats", 300, &got));
    cr_assert_not_null(got.problem);
    end(child);
    cr_assert_not(gs_ask(&name, child, "stats", 300, &got));
    cr_assert_eq(got.problem, gs_ask_gone);
    /* Who listens is another one than the one that is meant. */
    child = serve("gpushim ok 0\n", &name);
    cr_assert_not(gs_ask(&name, getpid(), "stats", 300, &got));
    cr_assert_not_null(got.problem);
    end(child);
}
