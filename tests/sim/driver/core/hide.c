/*
 * hide.c - an older driver lacks newer functions: from CUDASIM_DRIVER_VERSION on, their
 * exports leave this library's symbol table when it is loaded, so that dlsym and a
 * program that links them find none, as with a real older driver.
 * Owns:   this library's own table of dynamic symbols, in its memory.
 * Lock:   none; one thread loads a library.
 * Source: System V ABI, "Symbol Table"; symbols.def.
 */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config.h"
#include "sim.h"

#define SIM_SYMBOL(symbol, base, since, thread, state)                                   \
    extern char sim_export_##symbol[] __asm__(#symbol);
#include "symbols.def"
#undef SIM_SYMBOL

static const struct {
    const char *name;
    const void *address;
    int since;
} rows[] = {
#define SIM_SYMBOL(symbol, base, since, thread, state)                                   \
    {#symbol, sim_export_##symbol, since},
#include "symbols.def"
#undef SIM_SYMBOL
};

/* The page of an address, for a moment writable or again read-only. */
static bool set_writable(const void *address, bool writable)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)address & ~(page - 1);
    uintptr_t end = (uintptr_t)address + sizeof(ElfW(Sym));

    return mprotect((void *)start, end - start,
                    PROT_READ | (writable ? PROT_WRITE : 0)) == 0;
}

/* An undefined symbol without a value is no definition to the dynamic linker. */
static void hide(const char *name, const void *address)
{
    ElfW(Sym) *symbol = NULL;
    Dl_info info;

    if (!dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol ||
        !info.dli_sname || strcmp(info.dli_sname, name) != 0)
        return;
    if (!set_writable(symbol, true))
        return;
    symbol->st_shndx = SHN_UNDEF;
    symbol->st_value = 0;
    (void)set_writable(symbol, false);
}

__attribute__((constructor)) static void hide_newer(void)
{
    const char *text =
        getenv("CUDASIM_DRIVER_VERSION"); /* NOLINT(concurrency-mt-unsafe) */
    char *end;
    long version = text ? strtol(text, &end, 10) : 0;

    if (!text || *end || version < SIM_OLDEST_DRIVER || version > SIM_NEWEST_DRIVER)
        return; /* the first driver call says what is wrong with it */
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        if (rows[i].since > version)
            hide(rows[i].name, rows[i].address);
    }
}
