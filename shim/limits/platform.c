/*
 * platform.c - reads attributes, system files and variables.
 * Owns: nothing.   Lock: none.
 * Source: CUDA C++ Programming Guide (unified memory, "Systems without full support"),
 * CUDA for Tegra, CUDA on WSL User Guide, Multi-Process Service, MIG User Guide
 */
#include "shim/limits/platform.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gs_read_text.h"
#include "shim/link/real.h"
#include "shim/settings/checkers.h"
#include "tracker/host_memory.h"

/* The file names, in a mapping, since the caller may have a small stack. */
struct paths {
    const char *root;
    char full[PATH_MAX], control[PATH_MAX];
};

static bool has(CUdevice device, CUdevice_attribute attribute)
{
    const struct gs_real *real = gs_real();
    int value = 0;
    return real->cuDeviceGetAttribute &&
           real->cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS &&
           value != 0;
}

static bool path_of(char out[PATH_MAX], const char *root, const char *path)
{
    return (size_t)snprintf(out, PATH_MAX, "%s%s", root, path) < PATH_MAX;
}

static bool exists(struct paths *paths, const char *path)
{
    return path_of(paths->full, paths->root, path) && access(paths->full, F_OK) == 0;
}

/* The release name of a WSL kernel contains "microsoft" in some spelling. */
static bool is_wsl(struct paths *paths)
{
    char text[256];
    if (!path_of(paths->full, paths->root, "/proc/sys/kernel/osrelease")) {
        return false;
    }
    (void)gs_read_text(paths->full, text, sizeof(text));
    return strcasestr(text, "microsoft") != NULL;
}

/* Clients find the control daemon's pipes by a variable, or at the default path. */
static bool is_mps(struct paths *paths, char *const *env)
{
    static const char name[] = "CUDA_MPS_PIPE_DIRECTORY=";
    for (; env && *env; env++) {
        if (strncmp(*env, name, sizeof(name) - 1) == 0) {
            return path_of(paths->control, *env + sizeof(name) - 1, "/control") &&
                   exists(paths, paths->control);
        }
    }
    return exists(paths, "/tmp/nvidia-mps/control");
}

/* The driver calls a slice "NVIDIA A100-SXM4-40GB MIG 1g.5gb". */
static bool is_mig(CUdevice device)
{
    char name[256] = "";
    return gs_real()->cuDeviceGetName &&
           gs_real()->cuDeviceGetName(name, sizeof(name), device) == CUDA_SUCCESS &&
           strstr(name, " MIG ") != NULL;
}

struct gs_platform gs_platform_read(int device, const char *root, char *const *env)
{
    int saved_errno = errno;
    gs_checkers_ignore_begin();
    struct paths *paths = gs_host_map(sizeof(*paths));
    if (paths) {
        paths->root = root;
    }
    struct gs_platform platform = {
        .integrated = has(device, CU_DEVICE_ATTRIBUTE_INTEGRATED),
        .concurrent_managed = has(device, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS),
        .wsl = paths && is_wsl(paths),
        .mps = paths && is_mps(paths, env),
        .mig = is_mig(device),
    };
    gs_host_unmap(paths, sizeof(*paths));
    gs_checkers_ignore_end();
    errno = saved_errno;
    return platform;
}

const char *gs_platform_text(const struct gs_platform *platform, char *out, size_t size)
{
    const struct {
        bool is;
        const char *name;
    } parts[] = {
        {platform->integrated, "integrated"},
        {!platform->concurrent_managed, "no concurrent managed access"},
        {platform->wsl, "WSL2"},
        {platform->mps, "MPS client"},
        {platform->mig, "MIG slice"},
    };
    size_t length = 0;
    out[0] = '\0';
    for (size_t i = 0; i < GS_ARRAY_LEN(parts) && length < size; i++) {
        if (parts[i].is) {
            length += (size_t)snprintf(out + length, size - length, "%s%s",
                                       length ? ", " : "", parts[i].name);
        }
    }
    return out;
}
