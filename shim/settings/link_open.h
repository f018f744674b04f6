/*
 * link_open.h - opens what a user has named for writing, and follows no link that another
 * user may have put there.
 *
 * Every file that the library writes is opened here. Whoever can make links in a shared
 * folder would otherwise choose what is written to. Followed are links of the kernel's
 * own (/proc/self/fd/1) and links that root has made (/dev/stdout), one by one, each by
 * this rule. Folders on the way are the user's choice.
 *
 * Locks: none. Async-signal-safe.
 */
#ifndef GS_LINK_OPEN_H
#define GS_LINK_OPEN_H

#include "gs_base.h"

enum gs_link { GS_LINK_NONE, GS_LINK_ROOTS, GS_LINK_KERNELS };

/*
 * open(path, flags, 0600), with O_NOFOLLOW as open has it. Close-on-exec, never a
 * controlling terminal, never a wait for a FIFO's reader. A new file is its owner's
 * alone: reports have addresses in them. A regular file or a socket behind
 * /proc/self/fd/N is N itself, by a copy. Out:    *followed  the last link that led to
 * the file; may be NULL Returns the descriptor, or -1 and sets errno; ELOOP: a link that
 * is not followed
 */
int gs_link_open(const char *path, int flags, enum gs_link *followed);

#endif
