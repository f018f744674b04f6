/*
 * platform.h - the kind of device and system, as far as the pools depend on it.
 *
 * All facts come from documented attributes, files and variables. No such machine was
 * tested yet (docs/platforms.md).
 *
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_PLATFORM_H
#define GS_PLATFORM_H

#include "gs_base.h"

struct gs_platform {
    bool integrated;         /* host and device share the memory (Jetson, DGX Spark) */
    bool concurrent_managed; /* CPU access to managed memory while the device works */
    bool wsl;                /* Windows Subsystem for Linux */
    bool mps;                /* a client of the Multi-Process Service */
    bool mig;                /* a slice of a device (Multi-Instance GPU) */
};

/*
 * Examines a device and the system now.
 * In:  root  prefix of the paths of system files ("": the system's own)
 *      env   "NAME=value" strings, NULL at the end; may itself be NULL
 * A fact that cannot be determined gets the safe value: not concurrent, not integrated.
 */
struct gs_platform gs_platform_read(int device, const char *root, char *const *env);

/* "integrated, WSL2"; "" for a discrete device in an ordinary system. Returns `out`. */
const char *gs_platform_text(const struct gs_platform *platform, char *out, size_t size);

/*
 * The limit on idle memory of a device that shares the machine's memory: idle memory
 * there is lost to every other program. A quarter, as for pinned memory, unless the user
 * has set a limit.
 */
#define GS_PLATFORM_SHARED_IDLE 25u /* percent */

#endif
