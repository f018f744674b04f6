/*
 * cfi_reader.h - reads DWARF's number formats, never beyond a range.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_CFI_READER_H
#define GS_CFI_READER_H

#include "gs_base.h"

#include <string.h>

/* DW_EH_PE: the encoding of a pointer. */
#define GS_CFI_ENC_OMIT    0xff
#define GS_CFI_ENC_PCREL   0x10
#define GS_CFI_ENC_DATAREL 0x30
#define GS_CFI_ENC_FORMAT  0x0f

/* A reader that becomes bad, and stays so, instead of leaving its range. */
struct gs_cfi_reader {
    const uint8_t *at, *end;
    bool bad;
};

static inline uint64_t gs_cfi_read_bytes(struct gs_cfi_reader *in, size_t bytes)
{
    uint64_t value = 0;

    if (in->bad || (size_t)(in->end - in->at) < bytes) {
        in->bad = true;
        return 0;
    }
    memcpy(&value, in->at, bytes);
    in->at += bytes;
    return value;
}

static inline void gs_cfi_skip_bytes(struct gs_cfi_reader *in, uint64_t bytes)
{
    if (in->bad || (uint64_t)(in->end - in->at) < bytes) {
        in->bad = true;
    } else {
        in->at += bytes;
    }
}

static inline uint64_t gs_cfi_read_uleb(struct gs_cfi_reader *in)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint64_t byte = gs_cfi_read_bytes(in, 1);
        value |= (byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            return value;
        }
    }
    in->bad = true;
    return 0;
}

static inline int64_t gs_cfi_read_sleb(struct gs_cfi_reader *in)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64;) {
        uint64_t byte = gs_cfi_read_bytes(in, 1);
        value |= (byte & 0x7f) << shift;
        shift += 7;
        if ((byte & 0x80) == 0) {
            if (shift < 64 && (byte & 0x40) != 0) {
                value |= ~(uint64_t)0 << shift;
            }
            return (int64_t)value;
        }
    }
    in->bad = true;
    return 0;
}

/* Reads a number in a DW_EH_PE format, without its base. */
static inline uint64_t gs_cfi_read_format(struct gs_cfi_reader *in, uint8_t encoding)
{
    switch (encoding & GS_CFI_ENC_FORMAT) {
    case 0x00: /* absptr */
    case 0x04: /* udata8 */
    case 0x0c: /* sdata8 */
        return gs_cfi_read_bytes(in, 8);
    case 0x02: /* udata2 */
        return gs_cfi_read_bytes(in, 2);
    case 0x0a: /* sdata2 */
        return (uint64_t)(int64_t)(int16_t)gs_cfi_read_bytes(in, 2);
    case 0x03: /* udata4 */
        return gs_cfi_read_bytes(in, 4);
    case 0x0b: /* sdata4 */
        return (uint64_t)(int64_t)(int32_t)gs_cfi_read_bytes(in, 4);
    case 0x01:
        return gs_cfi_read_uleb(in);
    case 0x09:
        return (uint64_t)gs_cfi_read_sleb(in);
    }
    in->bad = true;
    return 0;
}

static inline uint64_t gs_cfi_read_pointer(struct gs_cfi_reader *in, uint8_t encoding)
{
    uint64_t base = (uintptr_t)in->at;
    uint64_t value = gs_cfi_read_format(in, encoding);

    switch (encoding & 0xf0) {
    case 0:
        return value;
    case GS_CFI_ENC_PCREL:
        return base + value;
    }
    in->bad = true;
    return 0;
}

#endif
