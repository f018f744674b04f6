/*
 * elf_file.c - opens and checks an ELF file; reads only by pread, an image in memory by
 * process_vm_readv, which cannot fault.
 *
 * Owns:  the contents of struct gs_elf_file.   Lock: none.   Design: docs/stacks.md
 */
#include "tracker/names/elf_file.h"

#include "tracker/names/elf_dynamic.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#endif

#define SECTIONS_MAX   ((uint64_t)1 << 20)
#define SEGMENTS_MAX   4096u
#define NOTE_BYTES_MAX ((uint64_t)64 << 10)

/* Reads mapped bytes of an image up to the end of the segment that has the offset. */
static size_t read_image(const struct gs_elf_file *file, uint64_t offset, void *to,
                         size_t bytes)
{
    const Elf64_Phdr *first = NULL, *found = NULL;
    struct iovec local = {to, bytes}, remote;
    ssize_t got;

    if (file->segments == NULL) { /* the headers: the first page is mapped */
        remote = (struct iovec){(void *)(file->image + offset), bytes}; /* NOLINT */
        got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
        return got > 0 ? (size_t)got : 0;
    }
    for (size_t i = 0; i < file->segment_count; i++) {
        const Elf64_Phdr *segment = &file->segments[i];

        if (segment->p_type != PT_LOAD) {
            continue;
        }
        if (segment->p_offset == 0) {
            first = segment;
        }
        if (offset - segment->p_offset < segment->p_filesz) {
            found = segment;
        }
    }
    if (first == NULL || found == NULL) {
        return 0;
    }
    if (bytes > found->p_filesz - (offset - found->p_offset)) {
        bytes = (size_t)(found->p_filesz - (offset - found->p_offset));
    }
    local.iov_len = remote.iov_len = bytes;
    remote.iov_base =
        (void *)(file->image - (uintptr_t)first->p_vaddr + /* NOLINT */
                 (uintptr_t)found->p_vaddr + (uintptr_t)(offset - found->p_offset));
    got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    return got > 0 ? (size_t)got : 0;
}

size_t gs_elf_file_read_some(const struct gs_elf_file *file, uint64_t offset, void *to,
                             size_t bytes)
{
    size_t done = 0;

    if (file->image != 0) {
        return read_image(file, offset, to, bytes);
    }
    if (offset > file->bytes) {
        return 0;
    }
    while (done < bytes) {
        ssize_t got =
            pread(file->fd, (char *)to + done, bytes - done, (off_t)(offset + done));

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
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
        if (file->sections[i].sh_type == type) {
            return &file->sections[i];
        }
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
            memcmp(found, name, length) == 0) {
            return section;
        }
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
        if (name_bytes > bytes || content_bytes > bytes - name_bytes) {
            return;
        }
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

/* Reads one note section or segment. */
static void read_note(struct gs_elf_file *file, uint64_t offset, uint64_t bytes)
{
    uint8_t *note = bytes <= NOTE_BYTES_MAX ? malloc((size_t)bytes + 1) : NULL;

    if (note != NULL && gs_elf_file_read(file, offset, note, (size_t)bytes)) {
        find_build_id(file, note, (size_t)bytes);
    }
    free(note);
}

static void read_build_id(struct gs_elf_file *file)
{
    for (size_t i = 0; i < file->section_count && file->build_id_len == 0; i++) {
        const Elf64_Shdr *section = &file->sections[i];

        if (section->sh_type == SHT_NOTE) {
            read_note(file, section->sh_offset, section->sh_size);
        }
    }
    /* A debug file's segments have no contents: its sections come first. */
    for (size_t i = 0; i < file->segment_count && file->build_id_len == 0; i++) {
        const Elf64_Phdr *segment = &file->segments[i];

        if (segment->p_type == PT_NOTE && file->made_up) {
            read_note(file, segment->p_offset, segment->p_filesz);
        }
    }
}

static bool is_ours(const Elf64_Ehdr *header)
{
    return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == ELFCLASS64 &&
           header->e_ident[EI_DATA] == ELFDATA2LSB && header->e_machine == OWN_MACHINE;
}

/* Reads the section table. With more than 65,279 sections its counts are in the first
 * section header. */
static enum gs_status read_sections(struct gs_elf_file *file, const Elf64_Ehdr *header)
{
    uint64_t count = header->e_shnum, names = header->e_shstrndx;
    Elf64_Shdr first;

    if (header->e_shoff == 0 || header->e_shentsize != sizeof(first)) {
        return GS_ERR_IO;
    }
    if (!gs_elf_file_read(file, header->e_shoff, &first, sizeof(first))) {
        return GS_ERR_IO;
    }
    if (count == 0) {
        count = first.sh_size;
    }
    if (names == SHN_XINDEX) {
        names = first.sh_link;
    }
    if (count == 0 || count > SECTIONS_MAX || count > file->bytes / sizeof(first)) {
        return GS_ERR_IO;
    }
    file->sections = malloc((size_t)count * sizeof(first));
    if (file->sections == NULL) {
        return GS_ERR_HOST_NOMEM;
    }
    if (!gs_elf_file_read(file, header->e_shoff, file->sections,
                          (size_t)count * sizeof(first))) {
        return GS_ERR_IO;
    }
    file->section_count = (size_t)count;
    if (names < count) {
        file->section_names = file->sections[names];
    }
    return GS_OK;
}

static enum gs_status read_segments(struct gs_elf_file *file, const Elf64_Ehdr *header)
{
    size_t count = header->e_phnum, bytes = count * sizeof(*file->segments);
    Elf64_Phdr *segments;

    if (count == 0 || count > SEGMENTS_MAX || header->e_phentsize != sizeof(*segments)) {
        return GS_OK; /* an object file has none */
    }
    segments = malloc(bytes);
    if (segments == NULL) {
        return GS_ERR_HOST_NOMEM;
    }
    if (!gs_elf_file_read(file, header->e_phoff, segments, bytes)) {
        free(segments);
        return GS_OK;
    }
    file->segments = segments;
    file->segment_count = count;
    return GS_OK;
}

/* Reads the headers of an open file, or of an image. */
static enum gs_status read_headers(struct gs_elf_file *file)
{
    enum gs_status status;
    Elf64_Ehdr header;

    if (!gs_elf_file_read(file, 0, &header, sizeof(header)) || !is_ours(&header)) {
        return GS_ERR_IO;
    }
    status = read_segments(file, &header);
    if (status == GS_OK) {
        status = file->image != 0 ? GS_ERR_IO : read_sections(file, &header);
    }
    if (status == GS_ERR_IO) {
        free(file->sections);
        file->sections = NULL;
        file->section_count = 0;
        status = gs_elf_dynamic_make_up(file);
    }
    if (status == GS_OK) {
        read_build_id(file);
    }
    return status;
}

enum gs_status gs_elf_file_open_fd(struct gs_elf_file *file, int fd)
{
    struct stat info;

    memset(file, 0, sizeof(*file));
    file->fd = fd;
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        return GS_ERR_IO;
    }
    file->bytes = (uint64_t)info.st_size;
    return read_headers(file);
}

enum gs_status gs_elf_file_open(struct gs_elf_file *file, const char *path)
{
    /* O_NONBLOCK: a FIFO at the path must not hold up the report */
    return gs_elf_file_open_fd(file,
                               open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

enum gs_status gs_elf_file_open_image(struct gs_elf_file *file, uintptr_t image)
{
    memset(file, 0, sizeof(*file));
    file->fd = -1;
    file->image = image;
    file->bytes = UINT64_MAX;
    return image != 0 ? read_headers(file) : GS_ERR_IO;
}

const Elf64_Phdr *gs_elf_file_code(const struct gs_elf_file *file, uint64_t address)
{
    for (size_t i = 0; i < file->segment_count; i++) {
        const Elf64_Phdr *segment = &file->segments[i];

        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) != 0 &&
            address - segment->p_vaddr < segment->p_memsz) {
            return segment;
        }
    }
    return NULL;
}

void gs_elf_file_close(struct gs_elf_file *file)
{
    if (file->fd >= 0) {
        close(file->fd);
    }
    free(file->sections);
    free(file->segments);
    memset(file, 0, sizeof(*file));
    file->fd = -1;
}

bool gs_elf_file_has_build_id(const struct gs_elf_file *file, const uint8_t *build_id,
                              size_t length)
{
    if (length > sizeof(file->build_id)) {
        length = sizeof(file->build_id);
    }
    return length != 0 && file->build_id_len == length &&
           memcmp(file->build_id, build_id, length) == 0;
}

uint64_t gs_elf_file_stamp(const char *path)
{
    struct stat info;
    uint64_t stamp;

    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
        return 0;
    }
    stamp = (uint64_t)info.st_mtim.tv_sec * 1000000000u + (uint64_t)info.st_mtim.tv_nsec;
    stamp = (stamp ^ (uint64_t)info.st_size) * 0x9e3779b97f4a7c15u;
    return stamp != 0 ? stamp : 1;
}
