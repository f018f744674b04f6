/*
 * serve.c - gpushim serve: its options, before the server begins.
 *
 * Owns: nothing.   Lock: none.   Design: docs/clusters.md, "All processes of a machine"
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gs_read_text.h"
#include "shim/tools/launcher/launcher.h"
#include "shim/tools/server/pod_names.h"
#include "shim/tools/server/server.h"

#define CANNOT_SERVE 1

/* A token that can be guessed protects nothing. */
#define TOKEN_LEAST 16u
#define TOKEN_MOST  512u

/* Reads the token, the file's first line. Ends the launcher if there is none. */
static const char *read_token(const char *path)
{
    static char token[TOKEN_MOST + 2]; /* lives as long as the server */
    errno = 0;
    size_t length = gs_read_text(path, token, sizeof(token));
    if (length == 0 && errno != 0) {
        gs_launcher_fail(GS_EXIT_USAGE, "--token-file: cannot read %.400s: %s", path,
                         gs_output_error_text(errno));
    }
    length = strcspn(token, "\r\n");
    token[length] = '\0';
    for (size_t i = 0; i < length; i++) {
        if (token[i] <= ' ' || token[i] > '~') {
            gs_launcher_fail(GS_EXIT_USAGE,
                             "--token-file: %.400s: a token is of letters, digits and "
                             "punctuation, without spaces",
                             path);
        }
    }
    if (length < TOKEN_LEAST || length > TOKEN_MOST) {
        gs_launcher_fail(
            GS_EXIT_USAGE,
            "--token-file: %.400s: its first line, the token, has %zu bytes; "
            "from %u to %u are possible",
            path, length, TOKEN_LEAST, TOKEN_MOST);
    }
    return token;
}

static void read_listen(const struct gs_arguments *arguments, struct gs_listen *listen)
{
    const char *text = arguments->listen ? arguments->listen : GS_LISTEN_DEFAULT;
    if (!gs_listen_read(text, listen)) {
        gs_launcher_fail(GS_EXIT_USAGE, "--listen=%.200s: %s", text, listen->problem);
    }
    if (!listen->is_loopback && !arguments->token_file) {
        gs_launcher_fail(GS_EXIT_USAGE,
                         "--listen=%.200s: other machines can connect: --token-file=FILE "
                         "is needed, or an address such as 127.0.0.1",
                         text);
    }
}

int gs_serve_run(const struct gs_arguments *arguments)
{
    static struct gs_listen listen;
    struct gs_server_settings settings = {
        .pod_logs = arguments->pod_logs ? arguments->pod_logs : GS_POD_LOGS_DEFAULT,
        .page = gs_html_of_report};
    if (arguments->command[0]) {
        gs_help_refuse(GS_VERB_SERVE, "serve takes only options, not %.200s",
                       arguments->command[0]);
    }
    read_listen(arguments, &listen);
    if (arguments->token_file) {
        settings.token = read_token(arguments->token_file);
    }
    if (arguments->pod_logs && access(arguments->pod_logs, R_OK | X_OK) != 0) {
        gs_launcher_warn("--pod-logs=%.400s: %s; processes have no names of pods",
                         arguments->pod_logs, gs_output_error_text(errno));
    }
    const char *problem = gs_server_prepare();
    if (problem) {
        gs_launcher_fail(GS_EXIT_USAGE, "%s", problem);
    }
    if (!gs_listen_open(&listen)) {
        gs_launcher_fail(CANNOT_SERVE, "serve: %s", listen.problem);
    }
    if (geteuid() == 0 && !settings.token && !listen.is_unix) {
        gs_launcher_warn("serve: as root, all users of this machine can read the memory "
                         "of all processes; --token-file or --listen=unix:FILE keeps "
                         "them out");
    }
    printf("gpushim: serving %s\n", listen.where);
    (void)fflush(stdout);
    problem = gs_server_run(&listen, &settings);
    if (problem) {
        gs_launcher_fail(CANNOT_SERVE, "serve: %s", problem);
    }
    return 0;
}
