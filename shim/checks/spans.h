/*
 * spans.h - which bytes a copy or a set touches, and how they lie to an allocation.
 *
 * Pure arithmetic: no CUDA, no state.
 */
#ifndef GS_SPANS_H
#define GS_SPANS_H

#include "gs_base.h"

/* Bytes from an address on; 0 bytes: nothing. */
struct gs_span {
    uint64_t addr, bytes;
};

/* A box of a copy or a set, as the driver has it: `rows` rows of `width` bytes, each
 * `pitch` bytes behind the one before, `layers` of these, each `height` rows behind the
 * one before; it begins x bytes, y rows and z layers behind `base`. */
struct gs_box {
    uint64_t base, x, y, z;
    uint64_t width, rows, layers;
    uint64_t pitch, height;
};

/*
 * From the first to the last byte that the box touches: the last row ends where its bytes
 * do, not a pitch further.
 * Returns false, with nothing written, where that is more than there are addresses: the
 * driver refuses it.
 */
bool gs_span_of_box(const struct gs_box *box, struct gs_span *out) GS_MUST_USE;

/* How a use that is not empty lies to an allocation. */
enum gs_span_fit {
    GS_SPAN_INSIDE, /* all of it */
    GS_SPAN_LEAVES, /* it begins inside, and ends behind it */
    GS_SPAN_BEHIND, /* it begins at the allocation's end, or further on */
    GS_SPAN_BEFORE  /* it begins before it */
};
enum gs_span_fit gs_span_fit(const struct gs_span *use, const struct gs_span *extent);

#endif
