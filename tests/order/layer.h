/*
 * layer.h - what the programs that are layers do (layers.c): hand out parts of one
 * allocation of the driver's, and tell the oracle.
 * Owns: the allocation.   Lock: none; used by one thread of a program.
 */
#ifndef GS_ORDER_LAYER_H
#define GS_ORDER_LAYER_H

#include "order.h"

extern CUdeviceptr segment; /* the layer's memory, from begin_layer on */

/* Allocate it. */
void begin_layer(void);

/* A block of BYTES bytes is the program's, or is no longer. */
CUdeviceptr hand_out(size_t offset);
void take_back(CUdeviceptr block);

/* What follows, until leave(), is done for the program's cuMemFree, or cuMemAlloc. */
void enter_free(void);
void enter_alloc(void);
void leave(void);

/* An event of everything, recorded by the layer. */
CUevent fence(void);

#endif
