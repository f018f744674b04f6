/*
 * container.c - see container.h.
 * Owns: nothing.   Lock: none.
 */
#include "shim/tools/reader/container.h"

#include <stdio.h>
#include <string.h>

#include "gs_read_text.h"

#define ID_DIGITS 64

static const char digits[] = "0123456789abcdef";

/* Copies a uid of 8-4-4-4-12 digits, with '-', or with '_' as systemd has it. Returns
 * whether it is one. */
static bool read_uid(const char *text, char out[37])
{
    static const unsigned char parts[] = {8, 4, 4, 4, 12};
    size_t at = 0;
    for (size_t i = 0; i < sizeof(parts); i++) {
        if (strspn(text + at, digits) != parts[i]) {
            return false;
        }
        memcpy(out + at, text + at, parts[i]);
        at += parts[i];
        if (i + 1 < sizeof(parts)) {
            if (text[at] != '-' && text[at] != '_') {
                return false;
            }
            out[at++] = '-';
        }
    }
    out[at] = '\0';
    return true;
}

bool gs_container_parse(const char *cgroup, struct gs_container *out)
{
    bool found = false;
    *out = (struct gs_container){.id = ""};
    for (const char *at = cgroup; *at;) {
        size_t run = strspn(at, digits);
        if (strncmp(at, "pod", 3) == 0 &&
            (at == cgroup || at[-1] == '/' || at[-1] == '-')) {
            if (!read_uid(at + 3, out->pod)) {
                out->pod[0] = '\0';
            }
        }
        if (run == ID_DIGITS) { /* the innermost one counts */
            memcpy(out->id, at, ID_DIGITS);
            found = true;
        }
        at += run > 0 ? run : 1;
    }
    return found;
}

bool gs_container_of(pid_t pid, struct gs_container *out)
{
    static char text[8192]; /* one thread */
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%ld/cgroup", (long)pid);
    (void)gs_read_text(path, text, sizeof(text));
    return gs_container_parse(text, out);
}

char *gs_container_text(pid_t pid, bool pod, char out[GS_CONTAINER_TEXT])
{
    struct gs_container container;
    out[0] = '\0';
    if (gs_container_of(pid, &container)) {
        bool named = pod && container.pod[0];
        (void)snprintf(out, GS_CONTAINER_TEXT, "%s%s%scontainer %.*s",
                       named ? "pod " : "", named ? container.pod : "", named ? ", " : "",
                       GS_CONTAINER_SHOWN, container.id);
    }
    return out;
}
