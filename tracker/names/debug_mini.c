/*
 * debug_mini.c - the compressed symbol table of a stripped file (.gnu_debugdata), as
 * Fedora's packages have it: an ELF file with .symtab, compressed by xz.
 *
 * Role:  liblzma is found at run time, never linked, as the demangler is. The result is
 *        an anonymous file in memory, so that the same code reads it as any other.
 * Owns:  nothing.   Lock: none.   Design: docs/stacks.md
 */
#include "tracker/names/debug_file.h"

#include "tracker/names/loader_message.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PACKED_MAX   ((uint64_t)64 << 20)
#define UNPACKED_MAX ((size_t)512 << 20)
#define MEMORY_MAX   ((uint64_t)256 << 20) /* of liblzma */
#define LZMA_OK      0
#define LZMA_FULL    10 /* LZMA_BUF_ERROR: the result needs more room */

/* lzma_stream_buffer_decode */
typedef int decode_function(uint64_t *memory_limit, uint32_t flags, const void *allocator,
                            const uint8_t *in, size_t *in_at, size_t in_bytes,
                            uint8_t *out, size_t *out_at, size_t out_bytes);

static decode_function *find_decoder(void)
{
    void *library = dlopen("liblzma.so.5", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    void *function = library ? dlsym(library, "lzma_stream_buffer_decode") : NULL;

    if (function == NULL) {
        gs_loader_message_drop();
    }
    return (decode_function *)function;
}

/* Unpacks into a new buffer, which grows until the result fits. NULL: damaged. */
static uint8_t *unpack(const uint8_t *packed, size_t packed_bytes, size_t *bytes)
{
    decode_function *decode = find_decoder();

    for (size_t room = packed_bytes * 8 + 4096; decode && room <= UNPACKED_MAX;
         room *= 2) {
        uint8_t *out = malloc(room);
        uint64_t limit = MEMORY_MAX;
        size_t in_at = 0, out_at = 0;
        int result = out ? decode(&limit, 0, NULL, packed, &in_at, packed_bytes, out,
                                  &out_at, room)
                         : LZMA_OK + 1;

        if (result == LZMA_OK) {
            *bytes = out_at;
            return out;
        }
        free(out);
        if (result != LZMA_FULL) {
            break;
        }
    }
    return NULL;
}

/* Returns the descriptor of an anonymous file with these bytes; -1. */
static int make_file(const uint8_t *data, size_t bytes)
{
    /* by number: one function less for each program to look up at its start */
    int fd = (int)syscall(SYS_memfd_create, "gpushim debug data", MFD_CLOEXEC);
    size_t done = 0;

    while (fd >= 0 && done < bytes) {
        ssize_t written = write(fd, data + done, bytes - done);

        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            close(fd);
            return -1;
        }
        done += (size_t)written;
    }
    return fd;
}

enum gs_status gs_debug_file_open_mini(const struct gs_elf_file *file,
                                       struct gs_elf_file *mini)
{
    const Elf64_Shdr *section = gs_elf_file_section_by_name(file, ".gnu_debugdata");
    enum gs_status status = GS_ERR_NOT_FOUND;
    size_t packed_bytes = 0, bytes = 0;
    uint8_t *packed, *data = NULL;

    if (section == NULL || section->sh_size == 0 || section->sh_size > PACKED_MAX) {
        return GS_ERR_NOT_FOUND;
    }
    packed_bytes = (size_t)section->sh_size;
    packed = malloc(packed_bytes);
    if (packed == NULL) {
        return GS_ERR_HOST_NOMEM;
    }
    if (gs_elf_file_read(file, section->sh_offset, packed, packed_bytes)) {
        data = unpack(packed, packed_bytes, &bytes);
    }
    free(packed);
    if (data != NULL) {
        status = gs_elf_file_open_fd(mini, make_file(data, bytes));
        if (status != GS_OK) {
            gs_elf_file_close(mini);
        }
    }
    free(data);
    return status == GS_ERR_IO ? GS_ERR_NOT_FOUND : status;
}
