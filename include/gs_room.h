/*
 * gs_room.h - waiting for a descriptor's reader to make room, and no longer than said.
 * Not installed.
 */
#ifndef GS_ROOM_H
#define GS_ROOM_H

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "gs_clock.h"

/* Is there room until then (gs_now_ns), however many signals come meanwhile? Where
 * poll(2) fails the write will say why. */
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
