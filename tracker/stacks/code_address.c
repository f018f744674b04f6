/*
 * code_address.c - whether an address is one that a call returns to.
 * Owns: nothing.   Lock: none.   Source: Intel SDM, volume 2, CALL; Arm ARM, BL, BLR.
 */
#include "tracker/stacks/code_address.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* The longest call: a prefix, FF, ModR/M, SIB and four bytes. */
#define LONGEST 8

#if defined(__x86_64__)
/* code: the LONGEST bytes before the address */
static bool is_call(const unsigned char *code)
{
    if (code[LONGEST - 5] == 0xe8) {
        return true;
    }
    for (unsigned bytes = 2; bytes <= 7; bytes++) { /* FF /2 */
        const unsigned char *at = code + LONGEST - bytes;
        if (at[0] == 0xff && (at[1] & 0x38) == 0x10) {
            return true;
        }
    }
    return false;
}
#elif defined(__aarch64__)
static bool is_call(const unsigned char *code)
{
    uint32_t word;

    memcpy(&word, code + LONGEST - 4, sizeof(word));
    return word >> 26 == 0x25 || (word & 0xfffff000u) == 0xd63f0000u ||
           (word & 0xfffff000u) == 0xd73f0000u; /* BL, BLR, BLRA */
}
#endif

bool gs_code_follows_call(uintptr_t address)
{
    unsigned char code[LONGEST];
    struct iovec local = {code, LONGEST}, remote = {(void *)(address - LONGEST), LONGEST};
    int saved = errno;
    ssize_t got =
        address > LONGEST ? process_vm_readv(getpid(), &local, 1, &remote, 1, 0) : 0;
    bool unreadable = got < 0 && errno != EFAULT;

    errno = saved;
    return unreadable || (got == LONGEST && is_call(code));
}

bool gs_word_is_readable(uintptr_t address)
{
    uintptr_t word;
    struct iovec local = {&word, sizeof(word)}, remote = {(void *)address, sizeof(word)};
    int saved = errno;
    ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    bool readable = got == sizeof(word) || (got < 0 && errno != EFAULT);

    errno = saved;
    return readable;
}
