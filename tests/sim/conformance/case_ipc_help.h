/*
 * case_ipc_help.h - what the cases about two processes share.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_CONFORMANCE_CASE_IPC_HELP_H
#define GS_CONFORMANCE_CASE_IPC_HELP_H

#include "conformance.h"
#include "ipc_remote.h"

/*
 * Start this very program again as a server (main.c, --serve). False, with the case
 * skipped or failed, if that is not possible or the device has no IPC.
 */
bool start_remote(struct remote *remote);

/* Let it go and wait for it; that it went well is checked. */
void end_remote(struct remote *remote);

/* The server's process: serve on the standard input. Returns the exit status. */
int serve_remote(void);

/* What blocks are filled with, here and there. */
#define WORDS 1000
#define BYTES (WORDS * sizeof(uint32_t))
#define HERE  0x11111111u
#define THERE 0x22222222u

/* A block of this process that holds a word all over, and its handle. 0 and a failed
 * case if there is none. */
CUdeviceptr get_exported(size_t bytes, uint32_t word, CUipcMemHandle *handle);

/* A word, seen from here or there. */
uint32_t word_here(CUdeviceptr pointer);
uint32_t word_there(struct remote *remote, CUdeviceptr pointer);

/* Open and close in the other process, which must go well. */
CUdeviceptr open_there(struct remote *remote, const CUipcMemHandle *handle);
void close_there(struct remote *remote, CUdeviceptr pointer);

/* What most cases start with: a second process that has opened a block of this one, full
 * of HERE. False with nothing left over. */
struct ipc_pair {
    struct remote remote;
    CUipcMemHandle handle;
    CUdeviceptr here, there;
};
bool begin_pair(struct ipc_pair *pair, size_t bytes);
void end_pair(struct ipc_pair *pair);

/* Codes of remote calls are checked as those of one's own. */
#define CHECK_ASKED(asked, expected)                                                     \
    check_code((CUresult)(asked).code, (expected), #asked, __FILE__, __LINE__)

#endif
