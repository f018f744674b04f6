/*
 * listen.h - the address that gpushim serve listens at: a port of this machine, or a Unix
 * socket.
 * Locks: none.
 */
#ifndef GS_LISTEN_H
#define GS_LISTEN_H

#include <sys/socket.h>
#include <sys/un.h>

#include "gs_base.h"

/* Not among Prometheus' ports of exporters, 9100 to 10000, which are nearly all taken. */
#define GS_LISTEN_DEFAULT "127.0.0.1:19400"

#define GS_LISTEN_TEXT 160

struct gs_listen {
    struct sockaddr_storage address;
    socklen_t length;
    bool is_unix;
    bool is_loopback;                   /* no other machine can connect */
    int fd;                             /* -1: not open */
    ino_t socket;                       /* of a Unix socket's file */
    char shown[GS_LISTEN_TEXT];         /* "127.0.0.1:19400", "unix:/run/gpushim.sock" */
    char where[GS_LISTEN_TEXT + 16];    /* for a client: "http://127.0.0.1:19400/" */
    char problem[GS_LISTEN_TEXT + 100]; /* of the last failure: a sentence */
};

/* Reads "ADDRESS:PORT", "[ADDRESS]:PORT", "PORT" or "unix:FILE". False: out->problem. */
bool gs_listen_read(const char *text, struct gs_listen *out);

/* Opens it. A file of that name is replaced only if it is a socket that nobody listens
 * at. False: listen->problem. */
bool gs_listen_open(struct gs_listen *listen);
/* Closes it, and removes the file of a Unix socket. */
void gs_listen_close(struct gs_listen *listen);

/* Returns whether a Host header names this machine's loopback: what a browser sends for
 * a name that somebody else's page lets point here is another. */
bool gs_listen_is_loopback_host(const char *host);

#endif
