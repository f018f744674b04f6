/*
 * elf_file.h - an untrusted ELF file: opened, checked, read by pread. Or its image in the
 * memory of this process, when the file is gone.
 *
 * Owns:  the descriptor and copies of the section and program headers.
 * Lock:  none; reading does not change the object.
 */
#ifndef GS_ELF_FILE_H
#define GS_ELF_FILE_H

#include "gs_base.h"

#include <elf.h>

struct gs_elf_file {
    int fd;          /* -1: not open, or an image */
    uintptr_t image; /* address of the file's first byte in memory; 0: a file */
    uint64_t bytes;
    Elf64_Phdr *segments;
    size_t segment_count;
    Elf64_Shdr *sections;
    size_t section_count;
    Elf64_Shdr section_names; /* all zero: none */
    bool made_up;             /* without section headers: .dynsym and .dynstr alone */
    uint8_t build_id[20];     /* its first 20 bytes */
    size_t build_id_len;
};

/*
 * Errors: GS_ERR_IO  no such file, not a regular file, not 64-bit little-endian ELF of
 *                    this machine, or unreadable section headers
 *         GS_ERR_HOST_NOMEM
 * `file` may be closed after an error, too.
 */
enum gs_status gs_elf_file_open(struct gs_elf_file *file, const char *path) GS_MUST_USE;
/* The same for an open descriptor, which belongs to the file from now on. */
enum gs_status gs_elf_file_open_fd(struct gs_elf_file *file, int fd) GS_MUST_USE;
/* The same for the mapped segments of a module whose first byte is at `image`. Only bytes
 * that the module's segments map can be read. */
enum gs_status gs_elf_file_open_image(struct gs_elf_file *file,
                                      uintptr_t image) GS_MUST_USE;
void gs_elf_file_close(struct gs_elf_file *file);

/* Size and modification time as one number, which reveals a replaced file without a build
 * id. 0: no such file. */
uint64_t gs_elf_file_stamp(const char *path);

/* Returns true if all the bytes could be read. */
bool gs_elf_file_read(const struct gs_elf_file *file, uint64_t offset, void *to,
                      size_t bytes);
/* Returns the number of bytes that could be read. */
size_t gs_elf_file_read_some(const struct gs_elf_file *file, uint64_t offset, void *to,
                             size_t bytes);

/* The first section of that type or name, NULL if there is none. */
const Elf64_Shdr *gs_elf_file_section_by_type(const struct gs_elf_file *file,
                                              uint32_t type);
const Elf64_Shdr *gs_elf_file_section_by_name(const struct gs_elf_file *file,
                                              const char *name);

/* The executable segment that contains an ELF virtual address; NULL: none. */
const Elf64_Phdr *gs_elf_file_code(const struct gs_elf_file *file, uint64_t address);

/* Compares the bytes that both ids have stored. False if the file has no build id. */
bool gs_elf_file_has_build_id(const struct gs_elf_file *file, const uint8_t *build_id,
                              size_t length);

#endif
