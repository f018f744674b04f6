/*
 * datagram.h - sends one message to the datagram socket of a service, such as
 * systemd-journald.
 *
 * Never waits: a service whose queue is full gets nothing. No descriptor stays open, and
 * no signal is raised.
 *
 * Locks: none. Async-signal-safe; errno is preserved.
 */
#ifndef GS_DATAGRAM_H
#define GS_DATAGRAM_H

#include "gs_base.h"

/*
 * Sends the data as one datagram. Data too long for a datagram is in a sealed file
 * without a name, whose descriptor is sent in place of the data.
 * In:  path  the socket's; at most GS_DATAGRAM_PATH_BYTES with its NUL
 * Returns 0, or the errno of the failure (gs_output_error_text).
 * Source: https://systemd.io/JOURNAL_NATIVE_PROTOCOL/
 */
#define GS_DATAGRAM_PATH_BYTES 108u
int gs_datagram_send(const char *path, const void *data, size_t length);

#endif
