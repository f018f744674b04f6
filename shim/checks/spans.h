/*
 * spans.h - the bytes that a copy or a set accesses, and their position relative to an
 * allocation.
 *
 * Pure arithmetic: no CUDA, no state.
 */
#ifndef GS_SPANS_H
#define GS_SPANS_H

#include "gs_base.h"

/* A range of bytes; 0 bytes: empty. */
struct gs_span {
    uint64_t addr, bytes;
};

/* A box of a copy or a set in the driver's terms: `layers` layers, each `height` rows
 * apart, of `rows` rows, each `pitch` bytes apart, of `width` bytes. It begins x bytes, y
 * rows and z layers after `base`. */
struct gs_box {
    uint64_t base, x, y, z;
    uint64_t width, rows, layers;
    uint64_t pitch, height;
};

/*
 * The range from the first to the last byte of the box: the last row counts its `width`,
 * not its pitch.
 * Returns false, with nothing written, if the range exceeds the address space: the driver
 * refuses such a call.
 */
bool gs_span_of_box(const struct gs_box *box, struct gs_span *out) GS_MUST_USE;

/* The position of a non-empty use relative to an allocation. */
enum gs_span_fit {
    GS_SPAN_INSIDE, /* entirely inside */
    GS_SPAN_LEAVES, /* begins inside, ends after */
    GS_SPAN_BEHIND, /* begins at the end or after */
    GS_SPAN_BEFORE  /* begins before */
};
enum gs_span_fit gs_span_fit(const struct gs_span *use, const struct gs_span *extent);

#endif
