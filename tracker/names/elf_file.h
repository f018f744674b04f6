/*
 * elf_file.h - an untrusted ELF file: opened, checked, read by pread.
 *
 * Owns:  the descriptor and a copy of the section headers.
 * Lock:  none; reading does not change the object.
 */
#ifndef GS_ELF_FILE_H
#define GS_ELF_FILE_H

#include "gs_base.h"

#include <elf.h>

struct gs_elf_file {
    int fd; /* -1: not open */
    uint64_t bytes;
    Elf64_Shdr *sections;
    size_t section_count;
    Elf64_Shdr section_names; /* all zero: none */
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

/* Compares the bytes that both ids have stored. False if the file has no build id. */
bool gs_elf_file_has_build_id(const struct gs_elf_file *file, const uint8_t *build_id,
                              size_t length);

#endif
