/*
 * gs_room.h - waits, until a deadline, for a descriptor's reader to make space. Not
 * installed.
 */
#ifndef GS_ROOM_H
#define GS_ROOM_H

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "gs_clock.h"

/* Does the descriptor accept a write before the deadline (gs_now_ns)? Signals do not end
 * the wait. If poll(2) fails, the write will report the error. */
static inline bool gs_room_until(int fd, uint64_t until_ns)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    int found;

    do {
        uint64_t now = gs_now_ns();
        int left_ms = now < until_ns ? (int)((until_ns - now) / 1000000u) + 1 : 0;

        found = poll(&ready, 1, left_ms);
    } while (found < 0 && errno == EINTR);
    return found != 0;
}

#endif
