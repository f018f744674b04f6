/*
 * described.c - reads the program's descriptions of a call without a fault.
 * Owns:  nothing.   Lock: none.
 */
#include "shim/checks/described.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

bool gs_described(void *to, const void *from, size_t bytes, CUresult result)
{
    if (!from) {
        return false;
    }
    if (GS_UNLIKELY(result != CUDA_SUCCESS)) {
        struct iovec here = {to, bytes}, there = {(void *)from, bytes};
        ssize_t copied = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
        /* A sandbox may forbid this system call: then the memory is read directly. */
        if (copied >= 0 || errno == EFAULT) {
            return copied == (ssize_t)bytes;
        }
    }
    memcpy(to, from, bytes);
    return true;
}
