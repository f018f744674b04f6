/*
 * nvtx.h - the part of NVTX's interface for injected libraries that nvtx.c uses.
 * Locks: none.   Source: nvtx3/nvtxDetail/nvtxTypes.h and nvToolsExt.h of CUDA 10.0 and
 * later; the numbers are part of NVTX's binary interface.
 */
#ifndef GS_NVTX_H
#define GS_NVTX_H

#include "gs_base.h"

enum { GS_NVTX_CALLBACKS = 1 };               /* number of an export table */
enum { GS_NVTX_CORE = 1, GS_NVTX_CORE2 = 5 }; /* modules of functions */

/* Functions of the two modules. */
enum {
    GS_NVTX_RANGE_PUSH_EX = 8,
    GS_NVTX_RANGE_PUSH_A,
    GS_NVTX_RANGE_PUSH_W,
    GS_NVTX_RANGE_POP,
    GS_NVTX_DOMAIN_RANGE_PUSH_EX = 4,
    GS_NVTX_DOMAIN_RANGE_POP,
    GS_NVTX_DOMAIN_REGISTER_STRING_A = 10,
    GS_NVTX_DOMAIN_REGISTER_STRING_W,
    GS_NVTX_DOMAIN_CREATE_A,
    GS_NVTX_DOMAIN_CREATE_W
};

/* Kinds of messages. */
enum { GS_NVTX_ASCII = 1, GS_NVTX_UNICODE, GS_NVTX_REGISTERED };

/* nvtxEventAttributes_t */
struct gs_nvtx_event {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message; /* char, wchar_t, or a handle */
};

/* NvtxExportTableCallbacks */
struct gs_nvtx_callbacks {
    size_t size;
    /* Sets a table of addresses of function pointers. Returns 0 if there is none. */
    int (*get_module)(int module, void (****table)(void), unsigned *count);
};

typedef const void *gs_nvtx_get_table(uint32_t number);

#endif
