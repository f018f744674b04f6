/*
 * imports.h - memory of others that was given an address here.
 *
 * It is in the tracker's books as imported memory, apart from this process's own. How
 * large it is the driver is asked once for each.
 */
#ifndef GS_IMPORTS_H
#define GS_IMPORTS_H

#include "real.h"

/* cuIpcOpenMemHandle has given this address, perhaps once more. `api`: which ABI of it.
 */
void gs_imports_opened(CUdeviceptr addr, enum gs_api api);

#endif
