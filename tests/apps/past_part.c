/*
 * past_part.c - the part of past.c that calls the driver directly: it reads the addresses
 * of the driver's functions from the symbol table of the loaded driver, so that no
 * look-up and no import of its own shows what it calls.
 * Owns:  nothing.   Lock: none, one thread.
 */
#include <cuda.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

__attribute__((visibility("default"))) CUresult
past_launch(CUfunction function, uint64_t nanoseconds, CUstream stream);
__attribute__((visibility("default"))) CUresult past_stream(CUstream *out);

/* The parts of a module's dynamic section that a search by name needs. */
struct symbols {
    char *base;
    const ElfW(Sym) * all;
    const char *strings;
    const uint32_t *hash; /* GNU's */
};

static int find_driver(struct dl_phdr_info *info, size_t size, void *data)
{
    struct symbols *out = data;
    const ElfW(Dyn) *entry = NULL;

    (void)size;
    if (!strstr(info->dlpi_name, "/libcuda.so.1"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entry = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    out->base = (char *)info->dlpi_addr;
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        const void *address = (const void *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_SYMTAB)
            out->all = address;
        else if (entry->d_tag == DT_STRTAB)
            out->strings = address;
        else if (entry->d_tag == DT_GNU_HASH)
            out->hash = address;
    }
    return 1;
}

/* The driver's own function of this name, by the buckets of its hash table; NULL if there
 * is none. */
static void *find(const char *name)
{
    struct symbols driver = {0};
    uint32_t wanted = 5381;

    dl_iterate_phdr(find_driver, &driver);
    if (!driver.all || !driver.strings || !driver.hash)
        return NULL;
    for (const char *at = name; *at; at++)
        wanted = wanted * 33 + (unsigned char)*at;
    uint32_t count = driver.hash[0], first = driver.hash[1], words = driver.hash[2];
    const uint32_t *buckets = driver.hash + 4 + words * (sizeof(ElfW(Addr)) / 4);
    const uint32_t *chains = buckets + count;
    uint32_t at = buckets[wanted % count];
    for (bool last = at < first; !last; at++) {
        uint32_t hash = chains[at - first];
        const ElfW(Sym) *symbol = &driver.all[at];
        if ((hash | 1) == (wanted | 1) && symbol->st_shndx != SHN_UNDEF &&
            strcmp(driver.strings + symbol->st_name, name) == 0)
            return driver.base + symbol->st_value;
        last = hash & 1;
    }
    return NULL;
}

CUresult past_launch(CUfunction function, uint64_t nanoseconds, CUstream stream)
{
    void *arguments[] = {&nanoseconds};
    __typeof__(cuLaunchKernel) *launch =
        (__typeof__(cuLaunchKernel) *)find("cuLaunchKernel");

    return launch ? launch(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL)
                  : CUDA_ERROR_NOT_FOUND;
}

CUresult past_stream(CUstream *out)
{
    __typeof__(cuStreamCreate) *create =
        (__typeof__(cuStreamCreate) *)find("cuStreamCreate");

    return create ? create(out, CU_STREAM_NON_BLOCKING) : CUDA_ERROR_NOT_FOUND;
}
