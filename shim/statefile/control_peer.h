/*
 * control_peer.h - who is at the other end of a Unix socket, for both ends of the control
 * channel.   Locks: none.
 */
#ifndef GS_CONTROL_PEER_H
#define GS_CONTROL_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* "nobody", and every user without an id in this user namespace. */
#define GS_PEER_UNMAPPED 65534u

/* The process at the other end, as the kernel recorded it at connect and listen. Its pid
 * is 0 if it has none in this process namespace. */
static inline bool gs_peer_of(int socket, struct ucred *out)
{
    socklen_t length = sizeof(*out);
    return syscall(SYS_getsockopt, socket, SOL_SOCKET, SO_PEERCRED, out, &length) == 0 &&
           length == sizeof(*out);
}

/* Whether the map of a user namespace (user_namespaces(7)) has every id, as the first
 * namespace's has. */
static inline bool gs_peer_map_is_whole(const char *map)
{
    char *at;
    unsigned long inside = strtoul(map, &at, 10), outside = strtoul(at, &at, 10);
    return inside == 0 && outside == 0 && strtoul(at, &at, 10) == UINT32_MAX;
}

/* Root, or the user itself, unless its id stands for others, too. In: map  the text of
 * /proc/self/uid_map */
static inline bool gs_peer_is_allowed(uid_t peer, uid_t own, const char *map)
{
    return peer == 0 ||
           (peer == own && (own != GS_PEER_UNMAPPED || gs_peer_map_is_whole(map)));
}

#endif
