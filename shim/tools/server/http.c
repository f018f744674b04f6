/*
 * http.c - the server's clients: who may ask, what they ask for, and what they get.
 *
 * One thread waits for clients and processes: a request that asks processes is suspended
 * until they have answered. Clients may be hostile, so all that they can take has a
 * limit: connections, bytes of a request, and time, whatever they send or read.
 *
 * Owns: the connections.   Lock: none; one thread.
 * Design: docs/clusters.md, "All processes of a machine"
 */
#include "shim/tools/server/server.h"

#if GS_HAVE_MICROHTTPD

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "gs_clock.h"
#include "shim/tools/server/http_library.h"
#include "shim/tools/server/jobs.h"

#define MS_NS     1000000ull
#define SECOND_NS (1000 * MS_NS)

/* Limits. */
#define MOST_CONNECTIONS 128u
#define MOST_IDLE        64u /* without a whole request: the newest */
#define MOST_JOBS        8u  /* at once, until their answers are sent */
#define REQUEST_BYTES    ((size_t)32 << 10)
#define IDLE_NS          (20 * SECOND_NS) /* for a whole request */
#define SENDING_NS       (60 * SECOND_NS) /* for the whole answer */
#define INACTIVE_S       20u

/* Between two looks at the processes that are asked, and at the limits. */
#define STEP_MS 2
#define REST_MS 1000

/* IDLE: its next request has not come whole; ASKING: it is suspended. */
enum link_phase { LINK_IDLE, LINK_ASKING, LINK_SENDING };

/* A connection. */
struct link {
    struct MHD_Connection *connection;
    int fd;
    enum link_phase phase;
    uint64_t since_ns; /* of the phase */
    bool counted;      /* among `busy` */
    bool answered;     /* `answer` is complete */
    struct gs_job *job;
    struct gs_http_answer answer;
    struct link *next, **back;
};

struct server {
    const struct gs_server_settings *settings;
    bool loopback; /* of a port: browsers reach it */
    bool ending;   /* no request begins to ask processes */
    struct MHD_Daemon *daemon;
    struct link *links;
    unsigned busy; /* jobs whose answers are not sent yet */
};

/* ---- answers ----------------------------------------------------------------------- */

static void set_phase(struct link *link, enum link_phase phase)
{
    link->phase = phase;
    link->since_ns = gs_now_ns();
}

static void add_headers(struct MHD_Response *response,
                        const struct gs_http_answer *answer)
{
    static const char *const always[][2] = {
        {"Cache-Control", "no-store"},
        {"X-Content-Type-Options", "nosniff"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
         "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}};
    (void)gs_http.add_response_header(response, "Content-Type", answer->type);
    for (size_t i = 0; i < GS_ARRAY_LEN(always); i++) {
        (void)gs_http.add_response_header(response, always[i][0], always[i][1]);
    }
    if (answer->status == GS_HTTP_METHOD_NOT_ALLOWED) {
        (void)gs_http.add_response_header(response, "Allow", "GET, HEAD");
    } else if (answer->status == GS_HTTP_UNAUTHORIZED) {
        (void)gs_http.add_response_header(response, "WWW-Authenticate", "Bearer");
    } else if (answer->status == GS_HTTP_UNAVAILABLE) {
        (void)gs_http.add_response_header(response, "Retry-After", "1");
    }
}

/* Hands the answer over, which is then empty. */
static enum MHD_Result send_answer(struct link *link)
{
    struct gs_http_answer *answer = &link->answer;
    struct MHD_Response *response =
        answer->body.data
            ? gs_http.create_response_from_buffer(answer->body.length, answer->body.data,
                                                  MHD_RESPMEM_MUST_FREE)
            : NULL;
    if (!response) {
        gs_text_free(&answer->body);
        return MHD_NO; /* closes the connection */
    }
    add_headers(response, answer);
    enum MHD_Result sent =
        gs_http.queue_response(link->connection, answer->status, response);
    gs_http.destroy_response(response);
    *answer = (struct gs_http_answer){.status = 0};
    link->answered = false;
    set_phase(link, LINK_SENDING);
    return sent;
}

/* ---- who may ask ------------------------------------------------------------------- */

static const char *header(const struct link *link, const char *name)
{
    return gs_http.lookup_connection_value(link->connection, MHD_HEADER_KIND, name);
}

/* Compares in a time that says nothing of where they differ. */
static bool is_token(const char *given, const char *token)
{
    size_t length = strlen(given), own = strlen(token);
    unsigned char differ = length != own;
    for (size_t i = 0; i < length; i++) {
        differ |= (unsigned char)given[i] ^ (unsigned char)token[i % own];
    }
    return differ == 0;
}

static bool may_ask(const struct server *server, const struct link *link)
{
    static const char scheme[] = "Bearer ";
    const char *given = header(link, "Authorization");
    return !server->settings->token ||
           (given && strncasecmp(given, scheme, strlen(scheme)) == 0 &&
            is_token(given + strlen(scheme), server->settings->token));
}

static bool has_body(const struct link *link)
{
    const char *length = header(link, "Content-Length");
    return header(link, "Transfer-Encoding") || (length && strcmp(length, "0") != 0);
}

/* Returns whether a request is answered at once, by a refusal in link->answer. */
static bool refuse(const struct server *server, struct link *link, const char *method)
{
    struct gs_http_answer *out = &link->answer;
    const char *host = header(link, "Host");
    if (server->loopback && host && !gs_listen_is_loopback_host(host)) {
        gs_http_say(out, GS_HTTP_FORBIDDEN,
                    "the host name must be 127.0.0.1, [::1] or localhost");
    } else if (!may_ask(server, link)) {
        gs_http_say(out, GS_HTTP_UNAUTHORIZED,
                    "the token of --token-file is missing or wrong: "
                    "Authorization: Bearer TOKEN");
    } else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        gs_http_say(out, GS_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are possible");
    } else if (has_body(link)) {
        gs_http_say(out, GS_HTTP_BAD_REQUEST, "a request has no body here");
    } else {
        return false;
    }
    return true;
}

/* ---- requests ---------------------------------------------------------------------- */

static void begin(struct server *server, struct link *link, const char *path)
{
    struct MHD_Connection *connection = link->connection;
    const struct gs_job_request request = {
        .path = path,
        .pid = gs_http.lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "pid"),
        .name =
            gs_http.lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "name"),
        .seconds =
            gs_http.lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "seconds"),
        .accept = header(link, "Accept"),
        .timeout = header(link, "X-Prometheus-Scrape-Timeout-Seconds")};
    if (server->ending || (server->busy >= MOST_JOBS && strcmp(path, "/healthz") != 0)) {
        gs_http_say(&link->answer, GS_HTTP_UNAVAILABLE,
                    server->ending ? "the server ends"
                                   : "too many requests are being answered: try again");
        link->answered = true;
        return;
    }
    link->job = gs_job_begin(server->settings, &request, &link->answer);
    link->answered = !link->job;
    if (link->job) {
        server->busy++;
        link->counted = true;
        set_phase(link, LINK_ASKING);
    }
}

/* MHD_AccessHandlerCallback: called with the headers, then with the whole request, and
 * again when it is resumed. */
static enum MHD_Result on_request(void *self, struct MHD_Connection *connection,
                                  const char *path, const char *method,
                                  const char *version, const char *data, size_t *length,
                                  void **seen)
{
    struct server *server = self;
    const union MHD_ConnectionInfo *info =
        gs_http.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct link *link = info ? info->socket_context : NULL;
    (void)version;
    (void)data;
    if (!link) {
        return MHD_NO;
    }
    link->connection = connection;
    if (!*seen) {
        *seen = link;
        return refuse(server, link, method) ? send_answer(link) : MHD_YES;
    }
    if (*length > 0) {
        return MHD_NO; /* a body that was not announced */
    }
    if (!link->answered && !link->job) {
        begin(server, link, path);
        if (link->job) {
            gs_http.suspend_connection(connection);
            return MHD_YES;
        }
    }
    return link->answered ? send_answer(link) : MHD_YES;
}

/* ---- connections ------------------------------------------------------------------- */

static void end_job(struct server *server, struct link *link)
{
    if (link->job) {
        gs_job_free(link->job);
        link->job = NULL;
    }
    server->busy -= link->counted;
    link->counted = false;
    link->answered = false;
    gs_text_free(&link->answer.body);
}

/* MHD_RequestCompletedCallback */
static void on_completed(void *self, struct MHD_Connection *connection, void **seen,
                         enum MHD_RequestTerminationCode how)
{
    struct link *link = *seen;
    (void)connection;
    (void)how;
    if (link) {
        end_job(self, link);
        set_phase(link, LINK_IDLE);
    }
    *seen = NULL;
}

static void open_link(struct server *server, struct MHD_Connection *connection,
                      void **context)
{
    const union MHD_ConnectionInfo *info =
        gs_http.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct link *link = calloc(1, sizeof(*link));
    *context = link;
    if (!link) {
        return; /* its requests are closed */
    }
    link->connection = connection;
    link->fd = info ? info->connect_fd : -1;
    set_phase(link, LINK_IDLE);
    link->back = &server->links;
    link->next = server->links;
    if (link->next) {
        link->next->back = &link->next;
    }
    server->links = link;
}

/* MHD_NotifyConnectionCallback */
static void on_connection(void *self, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct link *link = *context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        open_link(self, connection, context);
    } else if (link) {
        end_job(self, link);
        *link->back = link->next;
        if (link->next) {
            link->next->back = link->back;
        }
        free(link);
        *context = NULL;
    }
}

/* Ends a connection that has taken too long: a client that sends or reads a byte now and
 * then is never inactive. Of many without a whole request the older ones end at once:
 * others must find room. */
static void hold_limits(const struct server *server)
{
    uint64_t now_ns = gs_now_ns();
    unsigned idle = 0;
    for (struct link *link = server->links; link; link = link->next) {
        uint64_t limit_ns = link->phase == LINK_IDLE      ? IDLE_NS
                            : link->phase == LINK_SENDING ? SENDING_NS
                                                          : UINT64_MAX;
        idle += link->phase == LINK_IDLE;
        bool over = link->phase == LINK_IDLE && idle > MOST_IDLE;
        if ((over || now_ns - link->since_ns > limit_ns) && link->fd >= 0) {
            (void)shutdown(link->fd, SHUT_RDWR);
        }
    }
}

/* ---- the loop ---------------------------------------------------------------------- */

/* Resumes those whose processes have answered, and at the end of the server the others,
 * too. Returns how long the loop may wait for clients. */
static int step_jobs(struct server *server)
{
    bool asks = false, resumed = false;
    for (struct link *link = server->links; link; link = link->next) {
        if (link->phase != LINK_ASKING || link->answered) {
            continue;
        }
        if (gs_job_step(link->job, &link->answer)) {
            link->answered = true;
        } else if (server->ending) {
            gs_http_say(&link->answer, GS_HTTP_UNAVAILABLE, "the server ends");
            link->answered = true;
        } else {
            asks = true;
            continue;
        }
        gs_job_free(link->job);
        link->job = NULL;
        gs_http.resume_connection(link->connection);
        resumed = true;
    }
    return resumed ? 0 : asks ? STEP_MS : REST_MS;
}

static void serve(struct server *server, int signals)
{
    const union MHD_DaemonInfo *info =
        gs_http.get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd files[] = {{.fd = signals, .events = POLLIN},
                             {.fd = info ? info->epoll_fd : -1, .events = POLLIN}};
    MHD_UNSIGNED_LONG_LONG wanted;
    int wait_ms = REST_MS;
    while (!(files[0].revents & POLLIN)) {
        if (gs_http.get_timeout(server->daemon, &wanted) == MHD_YES &&
            wanted < (unsigned)wait_ms) {
            wait_ms = (int)wanted;
        }
        (void)poll(files, GS_ARRAY_LEN(files), wait_ms);
        (void)gs_http.run(server->daemon);
        wait_ms = step_jobs(server);
        hold_limits(server);
    }
    server->ending = true; /* none may be suspended when the daemon stops */
    (void)step_jobs(server);
    (void)gs_http.run(server->daemon);
}

/* libmicrohttpd's own messages, of clients that go away and such, are no matter of the
 * user's. */
static void ignore(void *self, const char *format, va_list arguments)
{
    (void)self;
    (void)format;
    (void)arguments;
}

static bool start(struct server *server, int fd)
{
    server->daemon = gs_http.start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
        on_request, server, MHD_OPTION_EXTERNAL_LOGGER, ignore, NULL,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, MOST_CONNECTIONS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, REQUEST_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
        INACTIVE_S, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, server, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,
        MHD_OPTION_END);
    return server->daemon;
}

const char *gs_server_run(struct gs_listen *listen,
                          const struct gs_server_settings *settings)
{
    struct server server = {.settings = settings,
                            .loopback = listen->is_loopback && !listen->is_unix};
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &ends, NULL);
    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    int signals = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0 || !start(&server, listen->fd)) {
        return "the server cannot start";
    }
    listen->fd = -1; /* the daemon closes it */
    serve(&server, signals);
    gs_http.stop_daemon(server.daemon);
    (void)close(signals);
    gs_listen_close(listen);
    return NULL;
}

#endif
