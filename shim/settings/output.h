/*
 * output.h - writes every file of the library, and never harms the host by it.
 *
 * All files are opened by link_open.h: readable by their owner only, since they contain
 * addresses of the process, and no link of another user is followed. No descriptor stays
 * open between two calls. During a call SIGPIPE, SIGXFSZ and SIGTTOU are blocked,
 * cancellation is deferred, and errno is preserved. Nothing is logged: the caller gets
 * the errno of the first failure.
 *
 * Locks: none; one thread uses a struct at a time.
 */
#ifndef GS_OUTPUT_H
#define GS_OUTPUT_H

#include <limits.h>
#include <signal.h>
#include <sys/types.h>

#include "gs_base.h"

/* The longest time for which a text waits for a reader that reads nothing. */
#define GS_OUTPUT_PATIENCE_MS 10000

/* The text for an errno of opening or writing a file (static); independent of the
 * locale. */
const char *gs_output_error_text(int error);

/* ---- text, appended; async-signal-safe ------------------------------------------ */

/*
 * Writes all of the data, to a descriptor or to the end of a file.
 * Out:    *done  bytes written, also on failure
 * Returns 0 or an errno.
 */
int gs_output_write(int fd, const char *data, size_t length, size_t *done);
int gs_output_append(const char *path, const char *data, size_t length, size_t *done);

/* ---- a file that appears whole or not at all ------------------------------------------
 *
 * A regular file appears under its name when it is complete, and replaces an earlier one
 * of gpushim (output_ours.h): it is written under a temporary name in the same folder,
 * and renamed. ENOTUNIQ: the file is somebody else's. Devices and pipes are written
 * directly. A symbolic link to a file is neither followed nor replaced,
 * except for /dev/stdout and the like.
 */

/* The saved state of a thread that writes. */
struct gs_output_shield {
    int saved_errno, cancel_state;
    sigset_t mask, pending;
};

/* The signals that write(2) raises: SIGPIPE and SIGXFSZ end the process by default;
 * SIGTTOU stops a background process of a terminal with `stty tostop`. While SIGTTOU is
 * blocked, the write succeeds and raises nothing. Cancellation is deferred. */
void gs_output_shield_raise(struct gs_output_shield *shield);
/* `error`: the errno of the failure to write, which may have raised a signal. Signals
 * that were pending before are the program's own and stay pending. */
void gs_output_shield_lower(struct gs_output_shield *shield, int error);

struct gs_output_file {
    int fd;
    int error;                /* errno of the first failure, 0: none */
    bool direct;              /* not a regular file: `path` itself is open */
    const char *path;         /* owned by the caller */
    char temporary[PATH_MAX]; /* the temporary name, until the rename */
    struct gs_output_shield shield;
};

/* The three are called in this order; after an error the second does nothing, and the
 * third keeps this error. */
void gs_output_file_open(struct gs_output_file *file, const char *path);
/* False: failed. For gs_export_sink. */
bool gs_output_file_write(void *file, const void *data, size_t length);
/*
 * Renames the file to its name; or, if `keep` is false or an error occurred, removes it.
 * Returns 0, or the errno of the first failure.
 */
int gs_output_file_close(struct gs_output_file *file, bool keep);

#endif
