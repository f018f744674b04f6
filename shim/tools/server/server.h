/*
 * server.h - gpushim serve: the memory of all processes of this machine by HTTP. Metrics
 * for Prometheus, profiles for pprof, pages for a browser; each request asks the
 * processes anew (shim/tools/reader/ask.h).
 *
 * Locks: none; one thread, which waits for processes and clients alike.
 * Design: docs/clusters.md, "All processes of a machine"
 */
#ifndef GS_SERVER_H
#define GS_SERVER_H

#include "shim/tools/server/listen.h"
#include "tracker/report/text/text.h"

struct gs_server_settings {
    const char *token;    /* that a client must show; NULL: none */
    const char *pod_logs; /* the folder with Kubernetes' links to logs of containers */
    /* Makes the page of a report, JSON, as HTML. */
    void (*page)(const char *json, struct gs_text *out);
};

/* Finds the library that speaks HTTP. Returns NULL, or why there is none: a sentence. */
const char *gs_server_prepare(void);

/*
 * Serves at an open address until SIGINT or SIGTERM, and closes it.
 * Returns NULL, or why it cannot begin: the end of a sentence.
 */
const char *gs_server_run(struct gs_listen *listen,
                          const struct gs_server_settings *settings);

#endif
