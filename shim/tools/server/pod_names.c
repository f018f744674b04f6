/*
 * pod_names.c - see pod_names.h.
 * Owns: nothing.   Lock: none.
 */
#include "shim/tools/server/pod_names.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "gs_grow.h"

#define ID_DIGITS 64u

/* Copies a name up to `end`, and moves after it. Returns whether it is one. */
static bool take(const char **at, char end, char *out, size_t size)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";
    size_t length = strspn(*at, allowed);
    if (length == 0 || length >= size || (*at)[length] != end) {
        return false;
    }
    memcpy(out, *at, length);
    out[length] = '\0';
    *at += length + 1;
    return true;
}

bool gs_pod_name_read(const char *link, struct gs_pod_name *out)
{
    char last[sizeof(out->container) + 1 + ID_DIGITS];
    const char *at = link;
    size_t length = strlen(link);
    if (length < 4 || strcmp(link + length - 4, ".log") != 0 ||
        !take(&at, '_', out->pod, sizeof(out->pod)) ||
        !take(&at, '_', out->namespace, sizeof(out->namespace))) {
        return false;
    }
    length -= (size_t)(at - link) + 4; /* of CONTAINER-ID */
    if (length < ID_DIGITS + 2 || length >= sizeof(last)) {
        return false;
    }
    memcpy(last, at, length);
    last[length] = '\0';
    char *id = last + length - ID_DIGITS;
    if (id[-1] != '-' || strspn(id, "0123456789abcdef") != ID_DIGITS) {
        return false;
    }
    (void)strcpy(out->id, id);
    id[-1] = '\0';
    at = last;
    return take(&at, '\0', out->container, sizeof(out->container));
}

static int compare(const void *left, const void *right)
{
    return strcmp(((const struct gs_pod_name *)left)->id,
                  ((const struct gs_pod_name *)right)->id);
}

void gs_pod_names_read(const char *folder, struct gs_pod_names *out)
{
    size_t room = 0;
    DIR *links = opendir(folder);
    *out = (struct gs_pod_names){.count = 0};
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of this function's own */
    for (struct dirent *entry; links && (entry = readdir(links));) {
        if (!gs_grow(&out->items, out->count, &room, sizeof(*out->items))) {
            break;
        }
        out->count += gs_pod_name_read(entry->d_name, &out->items[out->count]);
    }
    if (links) {
        (void)closedir(links);
    }
    if (out->count > 0) {
        qsort(out->items, out->count, sizeof(*out->items), compare);
    }
}

const struct gs_pod_name *gs_pod_names_find(const struct gs_pod_names *names,
                                            const char *id)
{
    struct gs_pod_name key;
    if (names->count == 0 || strlen(id) >= sizeof(key.id)) {
        return NULL;
    }
    (void)strcpy(key.id, id);
    return bsearch(&key, names->items, names->count, sizeof(key), compare);
}

void gs_pod_names_free(struct gs_pod_names *names)
{
    free(names->items);
    *names = (struct gs_pod_names){.count = 0};
}
