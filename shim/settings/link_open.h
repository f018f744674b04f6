/*
 * link_open.h - opens a file that the user has named for writing, without following a
 * link that another user may have created.
 *
 * Every file that the library writes is opened here. Otherwise a user who can create
 * links in a shared folder could choose the file that is overwritten. Followed are links
 * of the kernel (/proc/self/fd/1) and links created by root (/dev/stdout), one by one,
 * each by this rule. Folders on the path are the user's choice.
 *
 * Locks: none. Async-signal-safe.
 */
#ifndef GS_LINK_OPEN_H
#define GS_LINK_OPEN_H

#include "gs_base.h"

enum gs_link { GS_LINK_NONE, GS_LINK_ROOTS, GS_LINK_KERNELS };

/*
 * open(path, flags, 0600), with the meaning of O_NOFOLLOW for the last link.
 * Close-on-exec, never a controlling terminal, never a wait for a FIFO's reader. A new
 * file is readable by its owner only, since reports contain addresses. A regular file or
 * a socket behind /proc/self/fd/N is N itself, duplicated.
 * Out:    *followed  the last link that led to the file; may be NULL
 * Returns the descriptor, or -1 and sets errno; ELOOP: a link that is not followed
 */
int gs_link_open(const char *path, int flags, enum gs_link *followed);

#endif
