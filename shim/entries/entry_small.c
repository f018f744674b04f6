/*
 * entry_small.c - calls that may need a little device memory which does not belong to the
 * program: forwarded, and repeated once after idle memory was reclaimed.
 *
 * These are the functions whose documentation names CUDA_ERROR_OUT_OF_MEMORY, that
 * allocate on a device, and that no other file wraps. Not among them are functions that
 * allocate host memory alone (graphs, address ranges) and kernel launches
 * (entry_submit.c). A query or setting of a kernel loads code that is not loaded yet.
 *
 * Owns:  nothing.   Lock: none.
 */

#define GS_FILE_small ,
#include "forward.h"
