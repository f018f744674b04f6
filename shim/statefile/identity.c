/*
 * identity.c - the identity of a state file: its process, and the build that wrote it.
 * The library writes it, gpushim report compares it.
 * Owns: nothing.   Lock: none.   Design: docs/state.md
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gs_read_text.h"
#include "shim/link/real.h"
#include "shim/statefile/state_file.h"

void gs_command_line(char out[GS_COMMAND_BYTES + 8])
{
    size_t length = gs_read_text("/proc/thread-self/cmdline", out, GS_COMMAND_BYTES + 2);
    if (length == 0) {
        strcpy(out, "?");
        return;
    }
    while (length > 1 && (unsigned char)out[length - 1] <= ' ') {
        length--; /* the last word's NUL; a process that names itself pads its name */
    }
    bool cut = length > GS_COMMAND_BYTES;
    length = cut ? GS_COMMAND_BYTES : length;
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)out[i] < ' ') {
            out[i] = ' ';
        }
    }
    strcpy(out + length, cut ? "..." : "");
}

void gs_boot_id(char *out, size_t size)
{
    (void)gs_read_text("/proc/sys/kernel/random/boot_id", out, size);
    out[strcspn(out, "\n")] = '\0';
}

uint64_t gs_state_file_layout(uint64_t statistics_form)
{
    return gs_state_layout(GPUSHIM_VERSION, gs_api_names(), GS_API_COUNT,
                           statistics_form);
}
