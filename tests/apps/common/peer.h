/*
 * peer.h - a second process of the same program, and messages between the two.
 *
 * The peer is started again, with `--peer` and the caller's arguments. Its LD_PRELOAD is
 * that of the variable APP_PEER_PRELOAD, if it is set: empty means none. APP_PEER_SETTING
 * is one more variable for it, NAME=value.
 * Owns: nothing.   Lock: none.
 */
#ifndef APP_PEER_H
#define APP_PEER_H

#include <sys/types.h>

#include "app.h"

struct app_peer {
    int socket;
    pid_t pid; /* 0 in the peer itself */
};

/* In main, first of all: whether this process is the peer; then *out leads to the other.
 */
bool app_peer_is(int argc, char **argv, struct app_peer *out);

/* Start it; ends the program with 2 if that fails. */
void app_peer_start(char **argv, struct app_peer *out);

/* Close the connection, and wait for its end; true if it ended with 0. */
bool app_peer_end(struct app_peer *peer);

/* A message, and a file with it unless it is -1. It ends the program with 2 if the other
 * one is gone. */
void app_peer_send(const struct app_peer *peer, const void *data, size_t bytes, int file);

/* The next message, of that size; returns the file that came with it, or -1. */
int app_peer_receive(const struct app_peer *peer, void *data, size_t bytes);

#endif
