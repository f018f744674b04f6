/*
 * launcher.c - a library that is called as OptiX's is and has a private table of the
 * simulated driver's, got without cuGetExportTable.
 */
#include "cudasim_behind.h"

__attribute__((visibility("default"))) const struct cudasim_behind *gs_launcher(void);

const struct cudasim_behind *gs_launcher(void)
{
    return cudasim_behind_table();
}
