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

/* Returns true if an instruction that calls ends at the address, as before any return
 * address; true also where the memory cannot be read for another reason than that there
 * is none. A coroutine's first frame returns to whatever its stack had (greenlet). */
bool gs_code_follows_call(uintptr_t address);

/* Returns false if the word at the address cannot be read. One system call. */
bool gs_word_is_readable(uintptr_t address);

#endif
