/*
 * ipc_seal.c - packs and unpacks sealed handles.
 * Owns:  nothing.   Lock: none.
 */
#include "shim/ipc/ipc_seal.h"

#include <string.h>

/* The last character is the version of the layout. */
static const unsigned char mark[4] = {'G', 'S', 'H', '1'};

#define HANDLE_BYTES  sizeof(CUipcMemHandle)
#define OFFSET_FACTOR 512u

/* The transfer format between processes of one machine. */
struct packed {
    unsigned char mark[sizeof(mark)];
    uint32_t check;  /* of all following members */
    uint32_t offset; /* in OFFSET_FACTOR bytes */
    uint32_t bytes;
    uint64_t map; /* bit i: byte i of the driver's handle is not zero, and is stored */
    unsigned char used[GS_SEAL_ROOM];
};

static_assert(GS_SEAL_MAX_BYTES <= UINT32_MAX, "as `bytes` has room for");
static_assert(sizeof(struct packed) == HANDLE_BYTES && HANDLE_BYTES == 64,
              "a handle has room for it, and the map a bit for each of its bytes");

static uint32_t checksum(const struct packed *packed)
{
    const size_t from = offsetof(struct packed, offset);
    uint64_t sum = gs_fnv1a((const char *)packed + from, sizeof(*packed) - from);
    return (uint32_t)(sum ^ sum >> 32);
}

enum gs_status gs_ipc_seal(const struct gs_sealed *sealed, CUipcMemHandle *out)
{
    const unsigned char *driver = (const unsigned char *)&sealed->driver;
    struct packed packed = {.offset = (uint32_t)(sealed->offset / OFFSET_FACTOR),
                            .bytes = (uint32_t)sealed->bytes};
    size_t used = 0;
    if (sealed->offset != (uint64_t)packed.offset * OFFSET_FACTOR ||
        sealed->bytes != packed.bytes) {
        return GS_ERR_INVALID;
    }
    for (size_t i = 0; i < HANDLE_BYTES; i++) {
        if (driver[i] == 0) {
            continue;
        }
        if (used == sizeof(packed.used)) {
            return GS_ERR_INVALID;
        }
        packed.map |= (uint64_t)1 << i;
        packed.used[used++] = driver[i];
    }
    memcpy(packed.mark, mark, sizeof(mark));
    packed.check = checksum(&packed);
    memcpy(out, &packed, sizeof(packed));
    return GS_OK;
}

enum gs_status gs_ipc_unseal(const CUipcMemHandle *handle, struct gs_sealed *out)
{
    struct packed packed;
    struct gs_sealed sealed = {.offset = 0};
    unsigned char *driver = (unsigned char *)&sealed.driver;
    size_t used = 0;
    memcpy(&packed, handle, sizeof(packed));
    if (memcmp(packed.mark, mark, sizeof(mark)) != 0 ||
        packed.check != checksum(&packed) ||
        __builtin_popcountll(packed.map) > (int)GS_SEAL_ROOM) {
        return GS_ERR_NOT_OURS;
    }
    for (size_t i = 0; i < HANDLE_BYTES; i++) {
        if (packed.map >> i & 1) {
            driver[i] = packed.used[used++];
        }
    }
    sealed.offset = (uint64_t)packed.offset * OFFSET_FACTOR;
    sealed.bytes = packed.bytes;
    *out = sealed;
    return GS_OK;
}
