/*
 * output_ours.c - see output_ours.h.
 * Owns:  whether all files may be replaced.   Lock: none, immutable after start.
 */
#include "shim/settings/output_ours.h"

#include <ctype.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "shim/settings/link_open.h"

#define HEAD_BYTES 512

static bool forced; /* atomic */

static const struct {
    const char *begins;
    size_t length;
    const char *contains;
} kinds[] = {
#define GS_OURS(what, begins, contains) {begins, sizeof(begins) - 1, contains},
#include "shim/settings/output_ours.def"
#undef GS_OURS
};

void gs_output_ours_force(bool force)
{
    __atomic_store_n(&forced, force, __ATOMIC_RELAXED);
}

/* Collapsed stacks: "GPU 0;main;load 4096", or another kind of memory. */
static bool is_collapsed(const char *text, size_t length)
{
    static const char host[] = "host memory";
    const char *end = memchr(text, ';', length), *digits = end;

    if (!end || memchr(text, '\n', (size_t)(end - text))) {
        return false;
    }
    while (digits > text && isdigit((unsigned char)digits[-1])) {
        digits--;
    }
    return (digits < end && digits - text >= 4 && memcmp(digits - 4, "GPU ", 4) == 0) ||
           ((size_t)(end - text) >= sizeof(host) - 1 &&
            memcmp(end - sizeof(host) + 1, host, sizeof(host) - 1) == 0);
}

static bool is_kind(const char *text, size_t length)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++) {
        if (length >= kinds[i].length &&
            memcmp(text, kinds[i].begins, kinds[i].length) == 0 &&
            memmem(text, length, kinds[i].contains, strlen(kinds[i].contains))) {
            return true;
        }
    }
    return is_collapsed(text, length);
}

bool gs_output_is_ours(const char *path)
{
    char text[HEAD_BYTES];
    ssize_t length = -1;
    int fd;

    if (__atomic_load_n(&forced, __ATOMIC_RELAXED)) {
        return true;
    }
    fd = gs_link_open(path, O_RDONLY | O_NOFOLLOW, NULL);
    if (fd >= 0) {
        length = pread(fd, text, sizeof(text), 0);
        close(fd);
    }
    return length == 0 || (length > 0 && is_kind(text, (size_t)length));
}
