/*
 * command.c - finds the program that a command runs, and reads from its ELF file whether
 * a library can be preloaded into it.
 *
 * Owns: nothing.   Lock: none.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gs_string.h"
#include "shim/coverage.h"
#include "shim/tools/launcher/launcher.h"

/* Scripts whose interpreter is a script, at most as many as Linux follows. */
#define HOPS 5
/* Bytes of a script's first line that Linux reads. */
#define FIRST_LINE_BYTES 256

/* ---- kinds of machines ------------------------------------------------------------- */

struct gs_elf_kind gs_elf_kind_read(const char *path)
{
    unsigned char head[20];
    struct gs_elf_kind kind = {.is_elf = false};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return kind;
    }
    if (read(fd, head, sizeof(head)) == (ssize_t)sizeof(head) &&
        memcmp(head, ELFMAG, SELFMAG) == 0) {
        kind.is_elf = true;
        memcpy(kind.bytes, head + EI_CLASS, 2);
        memcpy(kind.bytes + 2, head + offsetof(ElfW(Ehdr), e_machine), 2);
    }
    (void)close(fd);
    return kind;
}

bool gs_elf_kind_same(struct gs_elf_kind a, struct gs_elf_kind b)
{
    return a.is_elf && b.is_elf && memcmp(a.bytes, b.bytes, sizeof(a.bytes)) == 0;
}

const char *gs_elf_kind_text(struct gs_elf_kind kind, char out[32])
{
    static const struct {
        unsigned machine;
        const char *name;
    } machines[] = {{EM_X86_64, "x86-64"}, {EM_386, "x86"},     {EM_AARCH64, "AArch64"},
                    {EM_ARM, "Arm"},       {EM_PPC64, "POWER"}, {EM_RISCV, "RISC-V"}};
    bool big_endian = kind.bytes[1] == ELFDATA2MSB;
    unsigned machine = (unsigned)kind.bytes[big_endian ? 3 : 2] |
                       (unsigned)kind.bytes[big_endian ? 2 : 3] << 8;
    const char *bits = kind.bytes[0] == ELFCLASS64 ? "64" : "32";
    for (size_t i = 0; i < GS_ARRAY_LEN(machines); i++) {
        if (machines[i].machine == machine) {
            (void)snprintf(out, 32, "%s-bit %s", bits, machines[i].name);
            return out;
        }
    }
    (void)snprintf(out, 32, "%s-bit machine %u", bits, machine);
    return out;
}

/* ---- the file ---------------------------------------------------------------------- */

/* Finds a program as a shell does: an executable file, by PATH if the word has no slash.
 * Returns whether there is one. */
static bool search(const char *word, char out[PATH_MAX])
{
    const char *path = getenv("PATH");
    struct stat file;
    if (strchr(word, '/')) {
        return (size_t)snprintf(out, PATH_MAX, "%s", word) < PATH_MAX;
    }
    for (path = path ? path : "/bin:/usr/bin"; *word; path++) {
        int length = (int)strcspn(path, ":");
        int printed =
            snprintf(out, PATH_MAX, "%.*s%s%s", length, path, length ? "/" : "./", word);
        if (printed < PATH_MAX && stat(out, &file) == 0 && S_ISREG(file.st_mode) &&
            access(out, X_OK) == 0) {
            return true;
        }
        path += length;
        if (!*path) {
            break;
        }
    }
    return false;
}

__attribute__((noreturn)) static void not_found(const struct gs_arguments *arguments)
{
    static const char *const words[][2] = {
        {"on", "off"}, {"yes", "no"}, {"true", "false"}, {"1", "0"}};
    const char *word = arguments->command[0], *option = arguments->last_switch;
    for (size_t i = 0; option && i < GS_ARRAY_LEN(words); i++) {
        if (strcmp(word, words[i][0]) == 0) {
            gs_launcher_fail(GS_EXIT_NOT_FOUND,
                             "%s: command not found: write %s or %s=on", word, option,
                             option);
        }
        if (strcmp(word, words[i][1]) == 0) {
            gs_launcher_fail(GS_EXIT_NOT_FOUND,
                             "%s: command not found: write --no-%s or %s=off", word,
                             option + 2, option);
        }
    }
    if (!word[0]) {
        gs_launcher_fail(GS_EXIT_NOT_FOUND, "the name of the command is empty");
    }
    const char *near = gs_arguments_verb_near(word);
    gs_launcher_fail(GS_EXIT_NOT_FOUND, "%s: command not found%s%s%s", word,
                     near ? ": did you mean gpushim " : "", near ? near : "",
                     near ? "?" : "");
}

/* The interpreter named by the first line of a script. After env comes a word to search
 * for. Returns whether there is one. */
static bool interpreter_of(const char *path, char out[PATH_MAX])
{
    char line[FIRST_LINE_BYTES + 1], *rest = line + 2;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return false;
    }
    ssize_t length = read(fd, line, FIRST_LINE_BYTES);
    (void)close(fd);
    if (length < 2 || memcmp(line, "#!", 2) != 0) {
        return false;
    }
    line[length] = '\0';
    line[strcspn(line, "\n")] = '\0';
    char *word = strtok_r(rest, " \t", &rest);
    if (!word) {
        return false;
    }
    if (strcmp(gs_file_name(word), "env") == 0) {
        do {
            word = strtok_r(rest, " \t", &rest);
        } while (word && (word[0] == '-' || strchr(word, '=')));
    }
    return word && search(word, out);
}

void gs_command_find(const struct gs_arguments *arguments, struct gs_command *out)
{
    const char *word = arguments->command[0];
    static char next[PATH_MAX];
    struct stat file;
    if (!search(word, out->path)) {
        not_found(arguments);
    }
    if (stat(out->path, &file) != 0) {
        gs_launcher_fail(GS_EXIT_NOT_FOUND, "%s: %s", word,
                         errno == ENOENT ? "no such file" : strerror(errno));
    }
    if (S_ISDIR(file.st_mode)) {
        gs_launcher_fail(GS_EXIT_CANNOT_RUN, "%s: is a directory", word);
    }
    if (access(out->path, X_OK) != 0) {
        gs_launcher_fail(GS_EXIT_CANNOT_RUN, "%s: not executable", word);
    }
    for (unsigned hops = 0; hops < HOPS && interpreter_of(out->path, next); hops++) {
        if (access(next, F_OK) != 0) { /* of the kernel it would be the script's error */
            gs_launcher_fail(GS_EXIT_NOT_FOUND, "%s: its interpreter %s: no such file",
                             word, next);
        }
        memcpy(out->path, next, PATH_MAX);
        out->is_script = true;
    }
    out->kind = gs_elf_kind_read(out->path);
}

/* execvp hands a file that the kernel refuses to a shell, which would take the bytes of a
 * program that is cut short for commands. */
void gs_command_become(const struct gs_command *command, char **words)
{
    if (command->kind.is_elf && !command->is_script) {
        (void)execv(command->path, words);
    } else {
        (void)execvp(words[0], words);
    }
}

/* ---- what the file says ------------------------------------------------------------ */

/* A program of this machine's own kind, mapped. */
struct image {
    const unsigned char *bytes;
    size_t length;
    const ElfW(Phdr) * segments;
    unsigned count;
};

static bool map_image(const char *path, struct image *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat file;
    *out = (struct image){.bytes = MAP_FAILED};
    if (fd < 0) {
        return false;
    }
    if (fstat(fd, &file) == 0 && file.st_size >= (off_t)sizeof(ElfW(Ehdr))) {
        out->length = (size_t)file.st_size;
        out->bytes = mmap(NULL, out->length, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    (void)close(fd);
    if (out->bytes == MAP_FAILED) {
        return false;
    }
    const ElfW(Ehdr) *head = (const ElfW(Ehdr) *)out->bytes;
    if (head->e_phentsize == sizeof(ElfW(Phdr)) && head->e_phoff <= out->length &&
        head->e_phoff % _Alignof(ElfW(Phdr)) == 0 &&
        head->e_phnum <= (out->length - head->e_phoff) / sizeof(ElfW(Phdr))) {
        out->segments = (const ElfW(Phdr) *)(out->bytes + head->e_phoff);
        out->count = head->e_phnum;
    }
    return true;
}

static const ElfW(Phdr) * segment_of(const struct image *image, ElfW(Word) type)
{
    for (unsigned i = 0; i < image->count; i++) {
        if (image->segments[i].p_type == type) {
            return &image->segments[i];
        }
    }
    return NULL;
}

/* The bytes of the file from an address to its end, *left of them; NULL: it has none. */
static const unsigned char *bytes_at(const struct image *image, ElfW(Addr) address,
                                     size_t *left)
{
    for (unsigned i = 0; i < image->count; i++) {
        const ElfW(Phdr) *segment = &image->segments[i];
        if (segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
            address - segment->p_vaddr < segment->p_filesz) {
            ElfW(Off) offset = segment->p_offset + (address - segment->p_vaddr);
            *left = offset < image->length ? image->length - offset : 0;
            return *left > 0 ? image->bytes + offset : NULL;
        }
    }
    return NULL;
}

/* The text at an address, with its NUL in the file; NULL if there is none. */
static const char *text_at(const struct image *image, ElfW(Addr) address)
{
    size_t left;
    const unsigned char *bytes = bytes_at(image, address, &left);
    return bytes && memchr(bytes, '\0', left) ? (const char *)bytes : NULL;
}

/* The rows of the dynamic section, up to DT_NULL. NULL: there is none. */
static const ElfW(Dyn) * dynamic_rows(const struct image *image, size_t *count)
{
    const ElfW(Phdr) *dynamic = segment_of(image, PT_DYNAMIC);
    *count = 0;
    if (!dynamic || dynamic->p_offset > image->length ||
        dynamic->p_filesz > image->length - dynamic->p_offset ||
        dynamic->p_offset % _Alignof(ElfW(Dyn)) != 0) {
        return NULL;
    }
    const ElfW(Dyn) *rows = (const ElfW(Dyn) *)(image->bytes + dynamic->p_offset);
    while (*count < dynamic->p_filesz / sizeof(*rows) && rows[*count].d_tag != DT_NULL) {
        ++*count;
    }
    return rows;
}

/* The value of the last row with a tag; 0: there is none. */
static ElfW(Addr) row_value(const ElfW(Dyn) * rows, size_t count, ElfW(Sxword) tag)
{
    while (count > 0 && rows[count - 1].d_tag != tag) {
        count--;
    }
    return count > 0 ? rows[count - 1].d_un.d_ptr : 0;
}

/* ---- sanitizers -------------------------------------------------------------------- */

/* Returns whether a file name is that of a sanitizer's runtime: it ends a program in
 * which another library precedes it. */
static bool is_sanitizer(const char *name)
{
    static const char *const names[] = {"asan", "tsan", "hwasan"};
    if (strncmp(name, "lib", 3) != 0) {
        return false;
    }
    name += strncmp(name, "libclang_rt.", 12) == 0 ? 12 : 3;
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        if (strncmp(name, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* The sanitizer's runtime among the libraries that the program needs; NULL if none. */
static const char *needed_sanitizer(const struct image *image)
{
    size_t count;
    const ElfW(Dyn) *rows = dynamic_rows(image, &count);
    ElfW(Addr) strings = row_value(rows, count, DT_STRTAB);
    for (size_t i = 0; i < count; i++) {
        const char *name = rows[i].d_tag == DT_NEEDED
                               ? text_at(image, strings + rows[i].d_un.d_val)
                               : NULL;
        if (name && is_sanitizer(name)) {
            return name;
        }
    }
    return NULL;
}

/* Asks the dynamic linker where the program's library is; `out` becomes "" if it does not
 * say. */
static void find_library(const char *program, const char *library, char out[PATH_MAX])
{
    char line[PATH_MAX + 256];
    int ends[2];
    out[0] = '\0';
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)dup2(null, STDERR_FILENO);
        (void)unsetenv("LD_PRELOAD");
        (void)setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
        (void)execl(program, program, (char *)NULL);
        gs_coverage_exit(GS_EXIT_CANNOT_RUN);
    }
    (void)close(ends[1]);
    FILE *lines = fdopen(ends[0], "r");
    while (lines && fgets(line, sizeof(line), lines)) {
        const char *at = strstr(line, " => /"), *name = line + strspn(line, " \t");
        if (at && !out[0] && strncmp(name, library, strlen(library)) == 0) {
            at += 4;
            (void)snprintf(out, PATH_MAX, "%.*s", (int)strcspn(at, " \n"), at);
        }
    }
    if (lines) {
        (void)fclose(lines);
    }
    if (child > 0) {
        pid_t ended;
        do {
            ended = waitpid(child, NULL, 0);
        } while (ended < 0 && errno == EINTR);
    }
}

/* Returns whether the program runs with the rights of another user or group. */
static bool has_other_rights(const char *path)
{
    struct stat file;
    return stat(path, &file) == 0 &&
           (((file.st_mode & S_ISUID) && file.st_uid != geteuid()) ||
            ((file.st_mode & S_ISGID) && file.st_gid != getegid()));
}

static bool is_dynamic_linker(const char *path)
{
    const char *name = gs_file_name(path);
    return strncmp(name, "ld-", 3) == 0 || strncmp(name, "ld64", 4) == 0 ||
           strcmp(name, "ld.so") == 0;
}

/* Returns whether the image's dynamic linker is musl's. */
static bool is_of_musl(const struct image *image)
{
    const ElfW(Phdr) *segment = segment_of(image, PT_INTERP);
    const char *linker = segment ? text_at(image, segment->p_vaddr) : NULL;
    const char *name = linker ? strrchr(linker, '/') : NULL;
    return name && strncmp(name + 1, "ld-musl-", 8) == 0;
}

void gs_command_examine(struct gs_command *command)
{
    struct image image;
    if (has_other_rights(command->path)) {
        gs_launcher_warn("%s runs with another user's rights: the dynamic linker ignores "
                         "preloaded libraries there (with sudo, write: sudo gpushim "
                         "command)",
                         command->path);
    }
    command->preloads = true; /* of a file cut short the kernel reports it */
    command->sanitizer[0] = '\0';
    if (!command->kind.is_elf || !map_image(command->path, &image)) {
        return;
    }
    command->preloads = !image.segments || segment_of(&image, PT_INTERP) != NULL;
    if (!command->preloads && !is_dynamic_linker(command->path)) {
        gs_launcher_warn("%s is statically linked: a preloaded library has no effect on "
                         "it",
                         command->path);
    }
    if (is_of_musl(&image)) {
        gs_launcher_warn(
            "%s is linked with musl, and NVIDIA's driver is built for glibc: "
            "the program cannot call CUDA, and nothing is recorded",
            command->path);
    }
    const char *sanitizer = command->preloads ? needed_sanitizer(&image) : NULL;
    if (sanitizer) {
        find_library(command->path, sanitizer, command->sanitizer);
    }
    (void)munmap((void *)(uintptr_t)image.bytes, image.length);
}

/* ---- the C library ----------------------------------------------------------------- */

/* More than any library has; a malformed file may have more. */
#define VERSIONS_MOST 1000u

/* Copies `size` bytes at an address. Returns whether the file has them. */
static bool copy_at(const struct image *image, ElfW(Addr) address, void *out, size_t size)
{
    size_t left;
    const unsigned char *bytes = bytes_at(image, address, &left);
    if (!bytes || left < size) {
        return false;
    }
    memcpy(out, bytes, size);
    return true;
}

/* The N of a version "GLIBC_2.N" or "GLIBC_2.N.M"; 0: it is another. */
static unsigned glibc_minor(const char *version)
{
    static const char prefix[] = "GLIBC_2.";
    return version && strncmp(version, prefix, strlen(prefix)) == 0
               ? (unsigned)strtoul(version + strlen(prefix), NULL, 10)
               : 0;
}

unsigned gs_elf_glibc_minor(const char *path)
{
    struct image image;
    unsigned most = 0;
    size_t count;
    if (!map_image(path, &image)) {
        return 0;
    }
    const ElfW(Dyn) *rows = dynamic_rows(&image, &count);
    ElfW(Addr) strings = row_value(rows, count, DT_STRTAB),
               at = row_value(rows, count, DT_VERNEED);
    ElfW(Verneed) library = {.vn_next = 1};
    for (unsigned i = 0; i < VERSIONS_MOST && library.vn_next && at; i++) {
        if (!copy_at(&image, at, &library, sizeof(library))) {
            break;
        }
        ElfW(Addr) of_version = at + library.vn_aux;
        ElfW(Vernaux) version = {.vna_next = 1};
        for (unsigned j = 0; j < library.vn_cnt && j < VERSIONS_MOST; j++) {
            if (!version.vna_next ||
                !copy_at(&image, of_version, &version, sizeof(version))) {
                break;
            }
            unsigned minor = glibc_minor(text_at(&image, strings + version.vna_name));
            most = minor > most ? minor : most;
            of_version += version.vna_next;
        }
        at += library.vn_next;
    }
    (void)munmap((void *)(uintptr_t)image.bytes, image.length);
    return most;
}
