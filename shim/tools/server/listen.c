/*
 * listen.c - see listen.h.
 * Owns: the file of a Unix socket while it is open.   Lock: none.
 */
#include "shim/tools/server/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BACKLOG 64

/* The format may have %m, the text of errno. */
static bool GS_PRINTF(2, 3) fail(struct gs_listen *listen, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(listen->problem, sizeof(listen->problem), format, arguments);
    va_end(arguments);
    return false;
}

/* ---- reading ----------------------------------------------------------------------- */

static bool read_unix(const char *path, struct gs_listen *out)
{
    struct sockaddr_un *address = (struct sockaddr_un *)&out->address;
    if (path[0] == '\0' || strlen(path) >= sizeof(address->sun_path)) {
        return fail(out, "a Unix socket's name has 1 to %zu bytes",
                    sizeof(address->sun_path) - 1);
    }
    address->sun_family = AF_UNIX;
    (void)strcpy(address->sun_path, path);
    out->length = sizeof(*address);
    out->is_unix = out->is_loopback = true;
    (void)snprintf(out->shown, sizeof(out->shown), "unix:%s", path);
    (void)snprintf(out->where, sizeof(out->where), "%s", out->shown);
    return true;
}

static bool is_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits < 6 && text[digits] == '\0';
}

static bool is_loopback_v4(const struct in_addr *address)
{
    return ntohl(address->s_addr) >> 24 == 127;
}

static bool is_loopback(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET
               ? is_loopback_v4(&((const struct sockaddr_in *)address)->sin_addr)
               : IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

/* Writes the address with its port. */
static void show(struct gs_listen *listen)
{
    char host[64], port[8];
    if (getnameinfo((struct sockaddr *)&listen->address, listen->length, host,
                    sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
        bool six = listen->address.ss_family == AF_INET6;
        (void)snprintf(listen->shown, sizeof(listen->shown), "%s%s%s:%s", six ? "[" : "",
                       host, six ? "]" : "", port);
        (void)snprintf(listen->where, sizeof(listen->where), "http://%s/", listen->shown);
    }
}

/* Numeric addresses alone: a name server's answer is no reason to listen at all. */
static bool read_address(const char *host, const char *port, struct gs_listen *out)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    if (!is_port(port) || strtoul(port, NULL, 10) > 65535) {
        return fail(out, "a port is a number from 0 to 65535, not %.40s", port);
    }
    if (host[0] == '*' || getaddrinfo(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host,
                                      port, &hints, &found) != 0) {
        return fail(out, "%.80s is not a numeric address of this machine", host);
    }
    memcpy(&out->address, found->ai_addr, found->ai_addrlen);
    out->length = found->ai_addrlen;
    freeaddrinfo(found);
    out->is_loopback = is_loopback(&out->address);
    show(out);
    return true;
}

bool gs_listen_read(const char *text, struct gs_listen *out)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    *out = (struct gs_listen){.fd = -1};
    if (strncmp(text, "unix:", strlen("unix:")) == 0) {
        return read_unix(text + strlen("unix:"), out);
    }
    if (is_port(text)) {
        return read_address("127.0.0.1", text, out);
    }
    size_t length = colon ? (size_t)(colon - text) : 0;
    bool bracketed = length >= 2 && text[0] == '[' && text[length - 1] == ']';
    if (bracketed) {
        text++;
        length -= 2;
    }
    if (length == 0 || length >= sizeof(host) ||
        (!bracketed && memchr(text, ':', length))) {
        return fail(out, "not ADDRESS:PORT, [ADDRESS]:PORT, PORT or unix:FILE");
    }
    memcpy(host, text, length);
    host[length] = '\0';
    return read_address(host, colon + 1, out);
}

/* ---- opening ----------------------------------------------------------------------- */

/* Removes a socket that nobody listens at. False: something else is there. */
static bool remove_stale(struct gs_listen *listen, const char *path)
{
    struct stat there;
    if (lstat(path, &there) != 0) {
        return errno == ENOENT || fail(listen, "%s: %m", listen->shown);
    }
    if (!S_ISSOCK(there.st_mode)) {
        return fail(listen, "%s: exists and is not a socket", listen->shown);
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool stale = fd >= 0 &&
                 connect(fd, (struct sockaddr *)&listen->address, listen->length) != 0 &&
                 errno == ECONNREFUSED;
    if (fd >= 0) {
        (void)close(fd);
    }
    if (!stale) {
        return fail(listen, "%s: another process listens there", listen->shown);
    }
    return unlink(path) == 0 || fail(listen, "%s: %m", listen->shown);
}

static bool bind_unix(struct gs_listen *listen)
{
    const char *path = ((struct sockaddr_un *)&listen->address)->sun_path;
    struct stat made;
    if (!remove_stale(listen, path)) {
        return false;
    }
    mode_t before = umask(0177); /* mode 600 from the first moment on */
    bool bound =
        bind(listen->fd, (struct sockaddr *)&listen->address, listen->length) == 0;
    (void)umask(before);
    if (!bound) {
        return fail(listen, "%s: %m", listen->shown);
    }
    listen->socket = lstat(path, &made) == 0 ? made.st_ino : 0;
    return true;
}

static bool bind_port(struct gs_listen *listen)
{
    const int on = 1;
    (void)setsockopt(listen->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (listen->address.ss_family == AF_INET6) {
        (void)setsockopt(listen->fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    }
    if (bind(listen->fd, (struct sockaddr *)&listen->address, listen->length) != 0) {
        return fail(listen, "%s: %m", listen->shown);
    }
    listen->length = sizeof(listen->address);
    (void)getsockname(listen->fd, (struct sockaddr *)&listen->address, &listen->length);
    show(listen); /* port 0 is any free one */
    return true;
}

bool gs_listen_open(struct gs_listen *listen_at)
{
    listen_at->fd = socket(listen_at->address.ss_family,
                           SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listen_at->fd < 0) {
        return fail(listen_at, "%s: %m", listen_at->shown);
    }
    bool bound = listen_at->is_unix ? bind_unix(listen_at) : bind_port(listen_at);
    if (bound && listen(listen_at->fd, BACKLOG) == 0) {
        return true;
    }
    if (bound) {
        (void)fail(listen_at, "%s: %m", listen_at->shown);
    }
    gs_listen_close(listen_at);
    return false;
}

void gs_listen_close(struct gs_listen *listen)
{
    const char *path = ((struct sockaddr_un *)&listen->address)->sun_path;
    struct stat there;
    if (listen->fd >= 0) {
        (void)close(listen->fd);
        listen->fd = -1;
    }
    if (listen->is_unix && listen->socket != 0 && lstat(path, &there) == 0 &&
        there.st_ino == listen->socket) {
        (void)unlink(path);
    }
    listen->socket = 0;
}

/* ---- clients ----------------------------------------------------------------------- */

bool gs_listen_is_loopback_host(const char *host)
{
    char name[64];
    struct in_addr in;
    struct in6_addr in6;
    bool six = host[0] == '[';
    size_t length = six ? strcspn(host, "]") : strcspn(host, ":");
    const char *rest = host + length;
    if (length >= sizeof(name) || (six && *rest++ != ']') ||
        (rest[0] != '\0' && (rest[0] != ':' || !is_port(rest + 1)))) {
        return false;
    }
    memcpy(name, host, length);
    name[length] = '\0';
    if (six) {
        return inet_pton(AF_INET6, name + 1, &in6) == 1 && IN6_IS_ADDR_LOOPBACK(&in6);
    }
    return strcasecmp(name, "localhost") == 0 ||
           (inet_pton(AF_INET, name, &in) == 1 && is_loopback_v4(&in));
}
