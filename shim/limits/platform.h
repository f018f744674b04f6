/*
 * platform.h - what kind of device and system this is, where the pools have to mind it.
 *
 * Everything is taken from attributes, files and variables that are documented; nothing
 * of it was seen on such a machine yet (docs/platforms.md).
 *
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_PLATFORM_H
#define GS_PLATFORM_H

#include "gs_base.h"

struct gs_platform {
    bool integrated; /* the device's memory is the machine's (Jetson, DGX Spark) */
    bool concurrent_managed; /* the CPU may use managed memory while the device works */
    bool wsl;                /* Windows Subsystem for Linux */
    bool mps;                /* a client of the Multi-Process Service */
    bool mig;                /* a slice of a device (Multi-Instance GPU) */
};

/*
 * Look at a device and the system now.
 * In:  root  what stands before the paths of system files ("" for the system's own)
 *      env   "NAME=value" strings, NULL at the end; may itself be NULL
 * What cannot be asked counts as the safe side: not concurrent, not integrated.
 */
struct gs_platform gs_platform_read(int device, const char *root, char *const *env);

/* "integrated, WSL2"; "" for a device of its own in an ordinary system. Returns `out`. */
const char *gs_platform_text(const struct gs_platform *platform, char *out, size_t size);

/*
 * How much may be idle on a device whose memory is the machine's: what is idle there is
 * missing to every program, and none of them can ask for it. A quarter, as of pinned
 * memory, where the user has not said what he wants.
 */
#define GS_PLATFORM_SHARED_IDLE 25u /* percent */

#endif
