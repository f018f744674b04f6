/*
 * code_address.h - converts a return address saved on the stack to a plain address.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_CODE_ADDRESS_H
#define GS_CODE_ADDRESS_H

#include "gs_base.h"

/* Below this no code is ever mapped (vm.mmap_min_addr). */
#define GS_CODE_ADDRESS_MIN 4096

/* On AArch64 a saved return address may carry a signature in its upper bits; the hint
 * instruction strips it and does nothing on processors without signatures. */
static inline uintptr_t gs_code_address(uintptr_t saved)
{
#if defined(__aarch64__)
    register uintptr_t link __asm__("x30") = saved;
    __asm__("hint #7" : "+r"(link)); /* xpaclri */
    return link;
#else
    return saved;
#endif
}

#endif
