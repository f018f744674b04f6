/*
 * debug_file.c - the folders of debug files, and the proof that one is the right one: an
 * equal build id, or the checksum that the module names.
 *
 * Owns:  nothing.   Lock: none.   Design: docs/stacks.md
 */
#include "tracker/names/debug_file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINK_BYTES_MAX ((size_t)4096)
#define CRC_PIECE      ((size_t)64 << 10)
#define ID_TEXT_BYTES  41

/* A search in progress. */
struct search {
    const struct gs_debug_request *request;
    struct gs_elf_file *debug;
    char *path;
    size_t path_bytes;
    char id[ID_TEXT_BYTES];  /* the build id in hexadecimal; "": none */
    char name[NAME_MAX + 1]; /* of .gnu_debuglink; "": none */
    uint32_t crc;
    bool foreign; /* one was there, and is of another build */
    /* Stacks are small (docs/stacks.md). */
    char dir[PATH_MAX], folder[PATH_MAX], real[PATH_MAX];
    char link[LINK_BYTES_MAX];
};

/* ---- which one is right -------------------------------------------------------------
 */

/* Continues the checksum of .gnu_debuglink (CRC-32 of IEEE 802.3). */
static uint32_t crc_step(const uint32_t table[256], uint32_t crc, const uint8_t *bytes,
                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        crc = table[(crc ^ bytes[i]) & 0xff] ^ crc >> 8;
    }
    return crc;
}

static bool has_crc(const struct gs_elf_file *file, uint32_t wanted)
{
    uint8_t *piece = malloc(CRC_PIECE);
    uint32_t table[256], crc = UINT32_MAX;
    uint64_t offset = 0;
    size_t got = 0;

    if (piece == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (unsigned bit = 0; bit < 8; bit++) {
            table[i] = table[i] >> 1 ^ ((table[i] & 1) != 0 ? 0xedb88320u : 0);
        }
    }
    while (offset < file->bytes &&
           (got = gs_elf_file_read_some(file, offset, piece, CRC_PIECE)) > 0) {
        crc = crc_step(table, crc, piece, got);
        offset += got;
    }
    free(piece);
    return offset == file->bytes && ~crc == wanted;
}

static bool is_same_file(const struct gs_elf_file *a, const struct gs_elf_file *b)
{
    struct stat left, right;

    return fstat(a->fd, &left) == 0 && fstat(b->fd, &right) == 0 &&
           left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

/* Opens the debug file at search->path. False: none there, or not the right one. */
static bool take(struct search *search, bool named)
{
    const struct gs_debug_request *request = search->request;
    struct gs_elf_file *debug = search->debug;
    bool right;

    if (gs_elf_file_open(debug, search->path) != GS_OK) {
        gs_elf_file_close(debug);
        return false;
    }
    if (debug->made_up) { /* cut: a debug file has sections */
        right = false;
    } else if (request->build_id_len != 0 && debug->build_id_len != 0) {
        right = gs_elf_file_has_build_id(debug, request->build_id, request->build_id_len);
    } else {
        right = named && has_crc(debug, search->crc);
    }
    if (right && request->file != NULL && is_same_file(debug, request->file)) {
        gs_elf_file_close(debug); /* the module itself has the name of its debug file */
        return false;
    }
    if (right) {
        return true;
    }
    search->foreign = true;
    gs_elf_file_close(debug);
    return false;
}

/* ---- folders ----------------------------------------------------------------------- */

/* Joins a path; false: too long. */
static bool join(struct search *search, const char *const *parts, size_t count)
{
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(parts[i]);

        if (length >= search->path_bytes - used) {
            return false;
        }
        memcpy(search->path + used, parts[i], length + 1);
        used += length;
    }
    return true;
}

/* Searches one folder by build id, in the layout of distributions and in that of
 * debuginfod's cache. */
static bool take_by_id(struct search *search, const char *root, const char *dir)
{
    char first[3] = {search->id[0], search->id[1], '\0'};
    const char *const layouts[][6] = {
        {root, dir, "/.build-id/", first, "/", search->id + 2},
        {root, dir, "/", search->id, "/", "debuginfo"}};

    if (search->id[0] == '\0') {
        return false;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(layouts); i++) {
        if (!join(search, layouts[i], GS_ARRAY_LEN(layouts[i]))) {
            continue;
        }
        if (i == 0) {
            size_t used = strlen(search->path);

            if (used + sizeof(".debug") > search->path_bytes) {
                continue;
            }
            memcpy(search->path + used, ".debug", sizeof(".debug"));
        }
        if (take(search, false)) {
            return true;
        }
    }
    return false;
}

static bool take_by_name(struct search *search, const char *root, const char *dir,
                         const char *folder, const char *between)
{
    const char *const parts[] = {root, dir, folder, between, search->name};

    return search->name[0] != '\0' && join(search, parts, GS_ARRAY_LEN(parts)) &&
           take(search, true);
}

/* Calls `look` for each folder of debug files, after the root. */
static bool in_dirs(struct search *search, const char *root, const char *folder)
{
    const char *dirs = search->request->search->dirs;
    char *dir = search->dir;

    if (dirs == NULL || dirs[0] == '\0') {
        dirs = GS_DEBUG_DIRS;
    }
    while (dirs[0] != '\0') {
        size_t length = strcspn(dirs, ":");

        if (length > 0 && length < sizeof(search->dir)) {
            memcpy(dir, dirs, length);
            dir[length] = '\0';
            if (folder == NULL ? take_by_id(search, root, dir)
                               : take_by_name(search, root, dir, folder, "/") ||
                                     take_by_name(search, root, dir, "", "/")) {
                return true;
            }
        }
        dirs += length + (dirs[length] == ':');
    }
    return false;
}

/* Next to the module, below .debug, and in the folders of debug files. */
static bool near_folder(struct search *search, const char *root, const char *folder)
{
    return take_by_name(search, root, "", folder, "/") ||
           take_by_name(search, root, "", folder, "/.debug/") ||
           in_dirs(search, root, folder);
}

/* The path of the open module, without links. */
static bool find_real_path(struct search *search)
{
    const struct gs_elf_file *file = search->request->file;
    char name[64];
    ssize_t length;

    if (file == NULL) {
        return false;
    }
    (void)snprintf(name, sizeof(name), "/proc/thread-self/fd/%d", file->fd);
    length = readlink(name, search->real, sizeof(search->real) - 1);
    if (length <= 0) {
        return false;
    }
    search->real[length] = '\0';
    return search->real[0] == '/';
}

static bool by_name(struct search *search, const char *root)
{
    char *folder = search->folder, *real = search->real;
    const char *slash = strrchr(search->request->path, '/');
    size_t length = slash != NULL ? (size_t)(slash - search->request->path) : 0;

    if (slash == NULL || length >= sizeof(search->folder)) {
        return false;
    }
    memcpy(folder, search->request->path, length);
    folder[length] = '\0';
    if (near_folder(search, root, folder)) {
        return true;
    }
    if (!find_real_path(search)) { /* the path may be a link */
        return false;
    }
    slash = strrchr(real, '/');
    length = slash != NULL ? (size_t)(slash - real) : 0;
    real[length] = '\0';
    return strcmp(real, folder) != 0 && near_folder(search, root, real);
}

/* The name, its padding to four bytes, the checksum. */
static void read_link(struct search *search)
{
    const struct gs_elf_file *file = search->request->file;
    const Elf64_Shdr *section =
        file != NULL ? gs_elf_file_section_by_name(file, ".gnu_debuglink") : NULL;
    char *text = search->link;
    size_t bytes, length;

    if (section == NULL || section->sh_size > sizeof(search->link)) {
        return;
    }
    bytes = (size_t)section->sh_size;
    if (!gs_elf_file_read(file, section->sh_offset, text, bytes)) {
        return;
    }
    length = strnlen(text, bytes);
    if (length == 0 || length >= sizeof(search->name) || memchr(text, '/', length) ||
        gs_round_up(length + 1, 4) + sizeof(search->crc) > bytes) {
        return;
    }
    memcpy(search->name, text, length + 1);
    memcpy(&search->crc, text + gs_round_up(length + 1, 4), sizeof(search->crc));
}

static enum gs_debug_result find(struct search *search)
{
    const struct gs_debug_request *request = search->request;
    const char *sysroot = request->search->sysroot;

    for (size_t i = 0; i < request->build_id_len && i < 20; i++) {
        (void)snprintf(search->id + 2 * i, 3, "%02x", request->build_id[i]);
    }
    read_link(search);
    if (sysroot != NULL && sysroot[0] != '\0' &&
        (in_dirs(search, sysroot, NULL) || by_name(search, sysroot))) {
        return GS_DEBUG_FOUND;
    }
    if (in_dirs(search, "", NULL) || by_name(search, "")) {
        return GS_DEBUG_FOUND;
    }
    (void)snprintf(search->path, search->path_bytes, "%s", search->name);
    if (search->name[0] == '\0') {
        return GS_DEBUG_NOT_NAMED;
    }
    return search->foreign ? GS_DEBUG_FOREIGN : GS_DEBUG_MISSING;
}

enum gs_debug_result gs_debug_file_find(const struct gs_debug_request *request,
                                        struct gs_elf_file *debug, char *path,
                                        size_t path_bytes)
{
    struct search *search = calloc(1, sizeof(*search));
    enum gs_debug_result result;

    memset(debug, 0, sizeof(*debug));
    debug->fd = -1;
    path[0] = '\0';
    if (search == NULL) {
        return GS_DEBUG_NOT_NAMED;
    }
    search->request = request;
    search->debug = debug;
    search->path = path;
    search->path_bytes = path_bytes;
    result = find(search);
    free(search);
    return result;
}
