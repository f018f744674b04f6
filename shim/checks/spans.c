/*
 * spans.c - the arithmetic of spans.h.
 * Owns: nothing.   Lock: none.
 */
#include "shim/checks/spans.h"

/* sum += a * b; false on overflow of 64 bits. */
static bool add_product(uint64_t *sum, uint64_t a, uint64_t b)
{
    uint64_t product;
    return !__builtin_mul_overflow(a, b, &product) &&
           !__builtin_add_overflow(*sum, product, sum);
}

bool gs_span_of_box(const struct gs_box *box, struct gs_span *out)
{
    uint64_t layer = 0, addr = box->base, bytes = 0, end;
    if (box->width == 0 || box->rows == 0 || box->layers == 0) {
        *out = (struct gs_span){.addr = addr};
        return true;
    }
    if (!add_product(&layer, box->pitch, box->height) ||
        !add_product(&addr, box->z, layer) || !add_product(&addr, box->y, box->pitch) ||
        !add_product(&addr, box->x, 1) || !add_product(&bytes, box->layers - 1, layer) ||
        !add_product(&bytes, box->rows - 1, box->pitch) ||
        !add_product(&bytes, box->width, 1) ||
        __builtin_add_overflow(addr, bytes, &end)) {
        return false;
    }
    *out = (struct gs_span){addr, bytes};
    return true;
}

enum gs_span_fit gs_span_fit(const struct gs_span *use, const struct gs_span *extent)
{
    if (use->addr < extent->addr) {
        return GS_SPAN_BEFORE;
    }
    uint64_t offset = use->addr - extent->addr;
    if (offset >= extent->bytes) {
        return GS_SPAN_BEHIND;
    }
    return use->bytes <= extent->bytes - offset ? GS_SPAN_INSIDE : GS_SPAN_LEAVES;
}
