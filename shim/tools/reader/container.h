/*
 * container.h - which container and Kubernetes pod a process is in, by its control group.
 * Locks: none.   Source: the paths that Docker, containerd, CRI-O and Podman give
 * containers, by cgroupfs and by systemd
 */
#ifndef GS_CONTAINER_H
#define GS_CONTAINER_H

#include <stdbool.h>
#include <sys/types.h>

struct gs_container {
    char id[65];  /* 64 hexadecimal digits */
    char pod[37]; /* the pod's uid, with '-'; "": none */
};

/* "pod UID, container " and 12 digits, and a NUL. */
#define GS_CONTAINER_TEXT 80

/* In: cgroup  the text of /proc/PID/cgroup
 * Returns whether it names a container, in *out. */
bool gs_container_parse(const char *cgroup, struct gs_container *out);

/* The same of a process. */
bool gs_container_of(pid_t pid, struct gs_container *out);
/* So many digits identify a container for a user, as in `docker ps`. */
#define GS_CONTAINER_SHOWN 12

/* Writes "", or the container of a process, and its pod if `pod`. Returns `out`. */
char *gs_container_text(pid_t pid, bool pod, char out[GS_CONTAINER_TEXT]);

#endif
