/*
 * case_array_help.h - what the cases about arrays share: descriptions and arrays of
 * 32-bit words.
 */
#ifndef GS_CASE_ARRAY_HELP_H
#define GS_CASE_ARRAY_HELP_H

#include "conformance.h"

/* A description of words in such a shape. */
CUDA_ARRAY3D_DESCRIPTOR array_desc(size_t width, size_t height, size_t depth,
                                   unsigned flags);

/* An array of them; NULL and a failed check if there is none. */
CUarray array_get(size_t width, size_t height, size_t depth, unsigned flags);
void array_put(CUarray array);
static inline void own_array(CUarray *array)
{
    if (*array)
        array_put(*array);
}
#define ARRAY OWN(own_array) CUarray /* ends with the block */

/* What creating one answers; it is destroyed at once. */
CUresult array_try(const CUDA_ARRAY3D_DESCRIPTOR *desc);

/* Words that tell their place: base, base + 1, ... */
void array_words(uint32_t *words, size_t count, uint32_t base);

#endif
