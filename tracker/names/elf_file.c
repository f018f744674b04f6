/*
 * elf_file.c - opens and checks an ELF file; reads only by pread.
 *
 * Owns:  the contents of struct gs_elf_file.   Lock: none.   Design: docs/stacks.md
 */
#include "elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#endif

#define SECTIONS_MAX   ((uint64_t)1 << 20)
#define NOTE_BYTES_MAX ((uint64_t)64 << 10)

size_t gs_elf_file_read_some(const struct gs_elf_file *file, uint64_t offset, void *to,
                             size_t bytes)
{
    size_t done = 0;

    if (offset > file->bytes)
        return 0;
    while (done < bytes) {
        ssize_t got =
            pread(file->fd, (char *)to + done, bytes - done, (off_t)(offset + done));

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    return done;
}

bool gs_elf_file_read(const struct gs_elf_file *file, uint64_t offset, void *to,
                      size_t bytes)
{
    return gs_elf_file_read_some(file, offset, to, bytes) == bytes;
}

const Elf64_Shdr *gs_elf_file_section_by_type(const struct gs_elf_file *file,
                                              uint32_t type)
{
    for (size_t i = 0; i < file->section_count; i++) {
        if (file->sections[i].sh_type == type)
            return &file->sections[i];
    }
    return NULL;
}

const Elf64_Shdr *gs_elf_file_section_by_name(const struct gs_elf_file *file,
                                              const char *name)
{
    size_t length = strlen(name) + 1;
    char found[32];

    for (size_t i = 0; i < file->section_count && length <= sizeof(found); i++) {
        const Elf64_Shdr *section = &file->sections[i];

        if (section->sh_name < file->section_names.sh_size &&
            length <= file->section_names.sh_size - section->sh_name &&
            gs_elf_file_read(file, file->section_names.sh_offset + section->sh_name,
                             found, length) &&
            memcmp(found, name, length) == 0)
            return section;
    }
    return NULL;
}

/* Takes the GNU build id from a note section, if the section has one. */
static void find_build_id(struct gs_elf_file *file, const uint8_t *note, size_t bytes)
{
    Elf64_Nhdr head;

    while (bytes >= sizeof(head)) {
        uint64_t name_bytes, content_bytes;

        memcpy(&head, note, sizeof(head));
        note += sizeof(head);
        bytes -= sizeof(head);
        name_bytes = ((uint64_t)head.n_namesz + 3) & ~(uint64_t)3;
        content_bytes = ((uint64_t)head.n_descsz + 3) & ~(uint64_t)3;
        if (name_bytes > bytes || content_bytes > bytes - name_bytes)
            return;
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 &&
            memcmp(note, "GNU", 4) == 0) {
            file->build_id_len = head.n_descsz < sizeof(file->build_id)
                                     ? head.n_descsz
                                     : sizeof(file->build_id);
            memcpy(file->build_id, note + name_bytes, file->build_id_len);
            return;
        }
        note += name_bytes + content_bytes;
        bytes -= (size_t)(name_bytes + content_bytes);
    }
}

static void read_build_id(struct gs_elf_file *file)
{
    for (size_t i = 0; i < file->section_count && file->build_id_len == 0; i++) {
        const Elf64_Shdr *section = &file->sections[i];
        uint8_t *note;

        if (section->sh_type != SHT_NOTE || section->sh_size > NOTE_BYTES_MAX)
            continue;
        note = malloc((size_t)section->sh_size + 1);
        if (note != NULL &&
            gs_elf_file_read(file, section->sh_offset, note, (size_t)section->sh_size))
            find_build_id(file, note, (size_t)section->sh_size);
        free(note);
    }
}

static bool is_ours(const Elf64_Ehdr *header)
{
    return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == ELFCLASS64 &&
           header->e_ident[EI_DATA] == ELFDATA2LSB && header->e_machine == OWN_MACHINE;
}

/* With more than 65,279 sections the numbers are in the first section header. */
static enum gs_status read_sections(struct gs_elf_file *file, const Elf64_Ehdr *header)
{
    uint64_t count = header->e_shnum, names = header->e_shstrndx;
    Elf64_Shdr first;

    if (header->e_shoff == 0 || header->e_shentsize != sizeof(first))
        return GS_ERR_IO;
    if (!gs_elf_file_read(file, header->e_shoff, &first, sizeof(first)))
        return GS_ERR_IO;
    if (count == 0)
        count = first.sh_size;
    if (names == SHN_XINDEX)
        names = first.sh_link;
    if (count == 0 || count > SECTIONS_MAX || count > file->bytes / sizeof(first))
        return GS_ERR_IO;
    file->sections = malloc((size_t)count * sizeof(first));
    if (file->sections == NULL)
        return GS_ERR_HOST_NOMEM;
    if (!gs_elf_file_read(file, header->e_shoff, file->sections,
                          (size_t)count * sizeof(first)))
        return GS_ERR_IO;
    file->section_count = (size_t)count;
    if (names < count)
        file->section_names = file->sections[names];
    return GS_OK;
}

enum gs_status gs_elf_file_open(struct gs_elf_file *file, const char *path)
{
    Elf64_Ehdr header;
    struct stat info;
    enum gs_status status;

    memset(file, 0, sizeof(*file));
    /* O_NONBLOCK: a FIFO at the path must not hold up the report */
    file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file->fd < 0)
        return GS_ERR_IO;
    if (fstat(file->fd, &info) != 0 || !S_ISREG(info.st_mode))
        return GS_ERR_IO;
    file->bytes = (uint64_t)info.st_size;
    if (!gs_elf_file_read(file, 0, &header, sizeof(header)) || !is_ours(&header))
        return GS_ERR_IO;
    status = read_sections(file, &header);
    if (status == GS_OK)
        read_build_id(file);
    return status;
}

void gs_elf_file_close(struct gs_elf_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    free(file->sections);
    memset(file, 0, sizeof(*file));
    file->fd = -1;
}

bool gs_elf_file_has_build_id(const struct gs_elf_file *file, const uint8_t *build_id,
                              size_t length)
{
    if (length > sizeof(file->build_id))
        length = sizeof(file->build_id);
    return length != 0 && file->build_id_len == length &&
           memcmp(file->build_id, build_id, length) == 0;
}

uint64_t gs_elf_file_stamp(const char *path)
{
    struct stat info;
    uint64_t stamp;

    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return 0;
    stamp = (uint64_t)info.st_mtim.tv_sec * 1000000000u + (uint64_t)info.st_mtim.tv_nsec;
    stamp = (stamp ^ (uint64_t)info.st_size) * 0x9e3779b97f4a7c15u;
    return stamp != 0 ? stamp : 1;
}
