/*
 * module_snapshot.c - copies the loader's list of mapped modules, with their build ids.
 *
 * Owns:  nothing.   Lock: none of ours; dl_iterate_phdr takes the loader's, so no module
 * is unloaded while its ELF notes are read.   Design: docs/stacks.md
 */
#include "tracker/names/module_snapshot.h"

#include "gs_uncancelled.h"
#include "tracker/host_memory.h"
#include "tracker/names/elf_file.h"

#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define NAMES_PER_MODULE ((size_t)96)
#define NEW_MODULES      ((size_t)16) /* that a snapshot of few has room for */
#define SCRATCH_BYTES    ((size_t)2 * PATH_MAX)

static bool has_counts(size_t size)
{
    return size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(unsigned long long);
}

/* dl_iterate_phdr callback; every entry has the counters, so the first is enough. */
static int read_counts(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct gs_module_counts *counts = arg;

    if (has_counts(size)) {
        counts->adds = info->dlpi_adds;
        counts->unloads = info->dlpi_subs;
    }
    return 1;
}

struct gs_module_counts gs_modules_counts(void)
{
    struct gs_module_counts counts = {0, 0};

    dl_iterate_phdr(read_counts, &counts);
    return counts;
}

uint64_t gs_modules_unloads(void)
{
    return gs_modules_counts().unloads;
}

/* Takes the GNU build id from a note segment, if the segment has one. */
static void read_build_id(struct gs_module *module, const uint8_t *note, size_t bytes)
{
    ElfW(Nhdr) head;

    while (bytes >= sizeof(head)) {
        size_t name_bytes, content_bytes;

        memcpy(&head, note, sizeof(head));
        note += sizeof(head);
        bytes -= sizeof(head);
        name_bytes = gs_round_up(head.n_namesz, 4);
        content_bytes = gs_round_up(head.n_descsz, 4);
        if (name_bytes > bytes || content_bytes > bytes - name_bytes) {
            return;
        }
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 &&
            memcmp(note, "GNU", 4) == 0) {
            size_t kept = head.n_descsz < sizeof(module->build_id)
                              ? head.n_descsz
                              : sizeof(module->build_id);

            memcpy(module->build_id, note + name_bytes, kept);
            module->build_id_len = (uint8_t)kept;
            return;
        }
        note += name_bytes + content_bytes;
        bytes -= name_bytes + content_bytes;
    }
}

/* Returns true if [vaddr, vaddr + bytes) is within one readable segment of the file. */
static bool is_readable(const struct dl_phdr_info *info, ElfW(Addr) vaddr, size_t bytes)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_LOAD && (p->p_flags & PF_R) != 0 &&
            vaddr - p->p_vaddr < p->p_filesz &&
            bytes <= p->p_filesz - (vaddr - p->p_vaddr)) {
            return true;
        }
    }
    return false;
}

static void read_range(struct gs_module *module, const struct dl_phdr_info *info)
{
    uintptr_t low = UINTPTR_MAX, high = 0;

    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + p->p_vaddr;

        if (p->p_type != PT_LOAD || p->p_memsz == 0) {
            continue;
        }
        if (begin < low) {
            low = begin;
        }
        if (begin + p->p_memsz > high) {
            high = begin + p->p_memsz;
        }
    }
    if (low < high) {
        module->begin = low;
        module->end = high;
    }
    module->bias = info->dlpi_addr;
}

static void keep_name(struct gs_module_snapshot *snapshot, struct gs_module *module,
                      const char *name)
{
    size_t length = strlen(name) + 1;

    if (snapshot->names_capacity - snapshot->names_used < length) {
        snapshot->overflow = true;
        module->path = "";
        return;
    }
    module->path = snapshot->names + snapshot->names_used;
    memcpy(snapshot->names + snapshot->names_used, name, length);
    snapshot->names_used += length;
}

static bool copy_module(const struct dl_phdr_info *info, bool all, void *arg)
{
    struct gs_module_snapshot *snapshot = arg;
    struct gs_module *module;

    snapshot->all = all;
    if (snapshot->count == snapshot->capacity) {
        snapshot->overflow = true;
        return true;
    }
    module = &snapshot->modules[snapshot->count++];
    memset(module, 0, sizeof(*module));
    read_range(module, info);
    for (unsigned i = 0; i < info->dlpi_phnum && module->build_id_len == 0; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_NOTE && is_readable(info, p->p_vaddr, p->p_memsz)) {
            read_build_id(module, (const uint8_t *)info->dlpi_addr + p->p_vaddr,
                          p->p_memsz);
        }
    }
    keep_name(snapshot, module, info->dlpi_name != NULL ? info->dlpi_name : "");
    return snapshot->overflow;
}

/* dl_iterate_phdr callback. */
static int count_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    size_t *sizes = arg;

    (void)size;
    sizes[0]++;
    sizes[1] += strlen(info->dlpi_name != NULL ? info->dlpi_name : "") + 1;
    return 0;
}

static struct gs_module_snapshot *new_snapshot(size_t modules, size_t name_bytes)
{
    size_t head = sizeof(struct gs_module_snapshot) + modules * sizeof(struct gs_module);
    struct gs_module_snapshot *snapshot = gs_host_map(head + name_bytes);

    if (snapshot == NULL) {
        return NULL;
    }
    snapshot->bytes = head + name_bytes;
    snapshot->capacity = modules;
    snapshot->names = (char *)snapshot + head;
    snapshot->names_capacity = name_bytes;
    return snapshot;
}

/* The kernel writes a line feed in a name as \012, and every other character unchanged.
 * If a file has these four characters in its name, the path stays. */
static void restore_line_feeds(char *path)
{
    char *escaped = strstr(path, "\\012");

    if (escaped == NULL || access(path, F_OK) == 0) {
        return;
    }
    for (; escaped != NULL; escaped = strstr(escaped + 1, "\\012")) {
        *escaped = '\n';
        memmove(escaped + 1, escaped + 4, strlen(escaped + 4) + 1);
    }
}

/*
 * One line of /proc/self/maps: "begin-end perms offset dev inode   path".
 * Gives the path to every module that has none yet and begins in this mapping.
 */
static void use_maps_line(struct gs_module_snapshot *snapshot, char *line)
{
    char *path = strchr(line, '/');
    unsigned long begin, end;
    char *after;

    begin = strtoul(line, &after, 16);
    if (path == NULL || *after != '-') {
        return;
    }
    end = strtoul(after + 1, &after, 16);
    if (*after != ' ') {
        return;
    }
    for (size_t i = 0; i < snapshot->count; i++) {
        struct gs_module *module = &snapshot->modules[i];

        if (module->begin >= begin && module->begin < end && module->path[0] != '/' &&
            module->path[0] != '[') {
            restore_line_feeds(path);
            keep_name(snapshot, module, path);
        }
    }
}

/* Takes names from the kernel for modules that the loader knows by no absolute path. */
static void name_from_maps(struct gs_module_snapshot *snapshot, char *buffer)
{
    size_t used = 0;
    int before = gs_uncancelled_begin(); /* the caller holds locks */
    ssize_t got;
    int fd;

    fd = open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (got = read(fd, buffer + used, SCRATCH_BYTES - 1 - used)) > 0) {
        char *line = buffer, *newline;

        used += (size_t)got;
        buffer[used] = '\0';
        while ((newline = strchr(line, '\n')) != NULL) {
            *newline = '\0';
            use_maps_line(snapshot, line);
            line = newline + 1;
        }
        used -= (size_t)(line - buffer);
        memmove(buffer, line, used);
        if (used == SCRATCH_BYTES - 1) {
            used = 0; /* a line beyond every limit: drop it */
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    gs_uncancelled_end(before);
}

#define HEADER_BYTES ((size_t)4096) /* of a file, at the begin of the scratch memory */

/* Returns true if the file has the module's build id. */
static bool is_file_of(const struct gs_module *module, int fd, char *scratch)
{
    const ElfW(Ehdr) *head = (const ElfW(Ehdr) *)scratch;
    struct gs_module file = {.build_id_len = 0};
    ssize_t got = pread(fd, scratch, HEADER_BYTES, 0);
    const ElfW(Phdr) * headers;

    if (got < (ssize_t)sizeof(*head) || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_phoff % sizeof(uint64_t) != 0 || head->e_phoff > (size_t)got ||
        head->e_phnum > ((size_t)got - head->e_phoff) / sizeof(*headers)) {
        return false;
    }
    headers = (const ElfW(Phdr) *)(scratch + head->e_phoff);
    for (unsigned i = 0; i < head->e_phnum && file.build_id_len == 0; i++) {
        char *note = scratch + HEADER_BYTES;

        if (headers[i].p_type == PT_NOTE &&
            headers[i].p_filesz <= SCRATCH_BYTES - HEADER_BYTES &&
            (got = pread(fd, note, headers[i].p_filesz, (off_t)headers[i].p_offset)) >
                0) {
            read_build_id(&file, (const uint8_t *)note, (size_t)got);
        }
    }
    return file.build_id_len == module->build_id_len &&
           memcmp(file.build_id, module->build_id, file.build_id_len) == 0;
}

/* Names a module that was opened by a relative path. If the file at that path is still
 * the module's, the maps need not be read, which have several lines for each module. */
static void name_from_file(struct gs_module_snapshot *snapshot, struct gs_module *module,
                           char *scratch)
{
    char link[sizeof("/proc/thread-self/fd/") + 3 * sizeof(int)];
    ssize_t length = 0;
    int before = gs_uncancelled_begin(); /* the caller holds locks */
    int fd = open(module->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd >= 0 && is_file_of(module, fd, scratch)) {
        (void)snprintf(link, sizeof(link), "/proc/thread-self/fd/%d", fd);
        length = readlink(link, scratch, SCRATCH_BYTES - 1);
    }
    if (fd >= 0) {
        close(fd);
    }
    gs_uncancelled_end(before);
    if (length > 0 && scratch[0] == '/') {
        scratch[length] = '\0';
        keep_name(snapshot, module, scratch);
    }
}

/* Names "[vdso]", the program by its real path, and the modules without an absolute
 * path. */
static void name_specials(struct gs_module_snapshot *snapshot, char *scratch)
{
    uintptr_t vdso = (uintptr_t)getauxval(AT_SYSINFO_EHDR);
    uintptr_t program = (uintptr_t)getauxval(AT_PHDR);
    bool any_unnamed = false;

    for (size_t i = 0; i < snapshot->count; i++) {
        struct gs_module *module = &snapshot->modules[i];
        ssize_t length;

        if (vdso != 0 && vdso >= module->begin && vdso < module->end) {
            module->path = "[vdso]";
        } else if (module->path[0] == '\0' && program >= module->begin &&
                   program < module->end &&
                   (length = readlink("/proc/thread-self/exe", scratch,
                                      SCRATCH_BYTES - 1)) > 0) {
            /* AT_PHDR is elsewhere if the loader was run as a command: then
             * /proc/thread-self/exe is the loader, and the maps have the program's path. */
            scratch[length] = '\0';
            keep_name(snapshot, module, scratch);
        } else if (module->path[0] != '/' && strchr(module->path, '/') != NULL &&
                   module->build_id_len != 0) {
            name_from_file(snapshot, module, scratch);
        }
        any_unnamed |= module->path[0] != '/' && module->path[0] != '[';
    }
    if (any_unnamed) {
        name_from_maps(snapshot, scratch);
    }
}

/* Stamps the files of modules without a build id: a file may be replaced before names are
 * looked up. */
static void stamp_files(struct gs_module_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->count; i++) {
        struct gs_module *module = &snapshot->modules[i];

        if (module->build_id_len == 0 && module->path[0] == '/') {
            module->file_stamp = gs_elf_file_stamp(module->path);
        }
    }
}

/* Copies the new modules. NULL: no memory, or *sizes is not enough. */
static struct gs_module_snapshot *copy_modules(const struct gs_loaded *since,
                                               const size_t *sizes, bool *overflow)
{
    struct gs_module_snapshot *snapshot =
        new_snapshot(sizes[0], sizes[1] + (size_t)PATH_MAX * 4);

    if (snapshot == NULL) {
        return NULL;
    }
    snapshot->before = snapshot->now = *since;
    snapshot->all = since->count == 0;
    (void)gs_loaded_visit_changes(&snapshot->now, copy_module, snapshot);
    *overflow = snapshot->overflow;
    if (*overflow) {
        gs_module_snapshot_free(snapshot);
        return NULL;
    }
    return snapshot;
}

struct gs_module_snapshot *gs_module_snapshot_take(const struct gs_loaded *since)
{
    struct gs_module_snapshot *snapshot;
    size_t sizes[2] = {NEW_MODULES, NAMES_PER_MODULE * NEW_MODULES};
    size_t slack = 8;
    bool overflow = since->count == 0;
    char *scratch; /* mapped: the program's threads may have small stacks */

    for (;;) {
        if (overflow) { /* or modules were added in between: try again */
            sizes[0] = slack;
            sizes[1] = NAMES_PER_MODULE * slack;
            dl_iterate_phdr(count_module, sizes);
            slack *= 2;
        }
        overflow = false;
        snapshot = copy_modules(since, sizes, &overflow);
        if (snapshot != NULL) {
            break;
        }
        if (!overflow) {
            return NULL;
        }
    }
    scratch = gs_host_map(SCRATCH_BYTES);
    if (scratch != NULL) {
        name_specials(snapshot, scratch);
    }
    stamp_files(snapshot);
    gs_host_unmap(scratch, SCRATCH_BYTES);
    return snapshot;
}

void gs_module_snapshot_free(struct gs_module_snapshot *snapshot)
{
    gs_host_unmap(snapshot, snapshot != NULL ? snapshot->bytes : 0);
}
