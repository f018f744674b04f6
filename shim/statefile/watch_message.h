/*
 * watch_message.h - what a process sends to the command gpushim that watches it: its
 * state file, or its state in memory, piece by piece. The library sends (kept_state.c),
 * the launcher receives (launcher/watch.c).
 *
 * A message is a datagram to an abstract Unix socket: neither side waits, nothing is left
 * in a file system, and no descriptor stays open in the process. It carries one
 * descriptor; the kernel adds the sender's process id, user and group.
 */
#ifndef GS_WATCH_MESSAGE_H
#define GS_WATCH_MESSAGE_H

#include "gs_base.h"

/* The variable with the socket's name, for the command and its children. Outside
 * GPUSHIM_: no option. After the last '-' are 16 digits that are in no name and in each
 * message: every user can read the socket's name, only the command's processes their
 * environment. */
#define GS_WATCH_VARIABLE     "_GPUSHIM_WATCHER"
#define GS_WATCH_NAME_BYTES   64
#define GS_WATCH_SECRET_BYTES 16

#define GS_WATCH_MAGIC "gpushim\x1b"
/* The most bytes of text. */
#define GS_WATCH_TEXT_BYTES 24576

struct gs_watch_head {
    char magic[8];
    char secret[GS_WATCH_SECRET_BYTES]; /* the variable's last digits */
    uint64_t key;                       /* the same in all messages of one state */
    uint64_t offset;                    /* of this piece in the state */
    uint32_t whole;                     /* 1: the descriptor is all of it, and grows */
    uint32_t text_bytes; /* after this struct, in the first message of a state: the
                          * sender's GPUSHIM_ variables "NAME=value" and its start folder
                          * "=folder", each with its NUL */
};

#endif
