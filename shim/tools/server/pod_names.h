/*
 * pod_names.h - the names that Kubernetes gives containers, by their ids.
 *
 * A control group has the uid of a pod and the id of a container, no names. The kubelet
 * keeps a link for the log of each container, POD_NAMESPACE_CONTAINER-ID.log in
 * /var/log/containers. Only the names of the links are read, so that a folder mounted
 * read-only suffices, without a question to the API server.
 *
 * Locks: none.   Source: Kubernetes, pkg/kubelet/kuberuntime/legacy.go
 */
#ifndef GS_POD_NAMES_H
#define GS_POD_NAMES_H

#include "shim/tools/reader/container.h"

#define GS_POD_LOGS_DEFAULT "/var/log/containers"

/* Of DNS labels: lower case, digits, '-' and '.'. */
struct gs_pod_name {
    char id[65];
    char pod[254], namespace[64], container[64];
};

struct gs_pod_names {
    struct gs_pod_name *items; /* by id */
    size_t count;
};

/* Reads the name of a link. Returns whether it is one. */
bool gs_pod_name_read(const char *link, struct gs_pod_name *out);

/* Reads the folder; empty if it is none. gs_pod_names_free must follow. */
void gs_pod_names_read(const char *folder, struct gs_pod_names *out);
/* NULL: none. */
const struct gs_pod_name *gs_pod_names_find(const struct gs_pod_names *names,
                                            const char *id);
void gs_pod_names_free(struct gs_pod_names *names);

#endif
