/*
 * runtime_modules.c - the modules of the CUDA runtime, the driver and this library.
 * Owns: the names of two copies of the library.   Lock: none; written at start.
 */
#include "tracker/names/frame_kinds.h"
#include "tracker/names/runtime_modules.h"

#include <string.h>

const char *gs_module_base_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;

    if (slash) {
        return slash + 1;
    }
    return path ? path : "";
}

/* Set if the process has two copies of this library; written at start. */
static char copy_names[2][64];

void gs_runtime_modules_set_copies(const char *own, const char *other)
{
    strncpy(copy_names[0], gs_module_base_name(own), sizeof(copy_names[0]) - 1);
    strncpy(copy_names[1], gs_module_base_name(other), sizeof(copy_names[1]) - 1);
}

static bool is_copy(const char *base_name)
{
    return copy_names[0][0] && (strcmp(base_name, copy_names[0]) == 0 ||
                                strcmp(base_name, copy_names[1]) == 0);
}

bool gs_module_is_runtime(const char *base_name)
{
    return gs_frame_kind_of_file(base_name) == GS_FRAME_RUNTIME || is_copy(base_name);
}
