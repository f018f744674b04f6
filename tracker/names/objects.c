/*
 * objects.c - opens the right files of a module.
 *
 * A file is the module's if it has the mapped build id or, without one, the size and
 * modification time of the file that was loaded. While the process runs, the kernel still
 * has a file that was deleted or replaced: as /proc/PID/exe, as a mapping, or behind a
 * descriptor. The module's own memory comes last: it has only exported functions.
 *
 * Owns:  nothing.   Lock: none.   Design: docs/stacks.md
 */
#include "tracker/names/objects.h"

#include "tracker/names/mapped_file.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DELETED    " (deleted)" /* the kernel's suffix for the path of a removed file */
#define PATH_BYTES ((size_t)PATH_MAX + 64)

/* The search for one module's file. */
struct attempt {
    const struct gs_module *module;
    struct gs_elf_file *file;
    char path[PATH_BYTES]; /* of the file that is tried */
    char debug_path[PATH_BYTES];
    enum gs_object_problem problem;
};

/* Returns true if the open file is the module's. `same`: its path is, which counts for a
 * module of which nothing else is known. */
static bool is_right(const struct attempt *attempt, bool same)
{
    const struct gs_module *module = attempt->module;

    if (module->build_id_len != 0) {
        return gs_elf_file_has_build_id(attempt->file, module->build_id,
                                        module->build_id_len);
    }
    return module->file_stamp != 0
               ? gs_elf_file_stamp(attempt->path) == module->file_stamp
               : same;
}

/* Opens the file at attempt->path. */
static bool take(struct attempt *attempt, bool same)
{
    enum gs_status status;

    errno = 0;
    status = gs_elf_file_open(attempt->file, attempt->path);
    if (status != GS_OK) {
        if (errno == EMFILE || errno == ENFILE) {
            attempt->problem = GS_OBJECT_NO_FILES;
        }
    } else if (is_right(attempt, same)) {
        return true;
    } else if (attempt->problem == GS_OBJECT_UNREADABLE) {
        attempt->problem = GS_OBJECT_REPLACED;
    }
    gs_elf_file_close(attempt->file);
    return false;
}

/* Tries a path after a folder. */
static bool take_below(struct attempt *attempt, const char *root)
{
    int length = snprintf(attempt->path, PATH_BYTES, "%s%s", root, attempt->module->path);

    return length > 0 && (size_t)length < PATH_BYTES && take(attempt, true);
}

/* Tries the kernel's files of the process. */
static bool take_of_process(struct attempt *attempt, int64_t process)
{
    struct gs_mapped_file mapped;

    (void)snprintf(attempt->path, PATH_BYTES, "/proc/%" PRId64 "/exe", process);
    if (take(attempt, false)) {
        return true;
    }
    if (!gs_mapped_file_find(process, attempt->module->begin, attempt->module->path,
                             &mapped)) {
        return false;
    }
    (void)snprintf(attempt->path, PATH_BYTES, "/proc/%" PRId64 "/map_files/%s", process,
                   mapped.range);
    if (take(attempt, mapped.same_path)) {
        return true;
    }
    return gs_mapped_file_descriptor(process, &mapped, attempt->module->build_id_len != 0,
                                     attempt->path, PATH_BYTES) &&
           take(attempt, mapped.same_path);
}

static bool find_file(const struct gs_object_search *search, struct attempt *attempt)
{
    const char *sysroot = search->debug.sysroot;
    int64_t process = search->process;
    char root[64];

    if (attempt->module->path[0] != '/') {
        return false;
    }
    if (sysroot != NULL && sysroot[0] != '\0' && take_below(attempt, sysroot)) {
        return true;
    }
    (void)snprintf(root, sizeof(root), "/proc/%" PRId64 "/root", process);
    if (process != 0 && process != getpid() && take_below(attempt, root)) {
        return true;
    }
    if (take_below(attempt, "")) {
        return true;
    }
    return process != 0 && take_of_process(attempt, process);
}

/* Opens the module's memory, if it is still there. */
static bool take_image(const struct gs_object_search *search, struct attempt *attempt)
{
    const struct gs_module *module = attempt->module;

    if (search->process != getpid() || module->build_id_len == 0) {
        return false;
    }
    if (gs_elf_file_open_image(attempt->file, module->begin) == GS_OK &&
        gs_elf_file_has_build_id(attempt->file, module->build_id, module->build_id_len)) {
        return true;
    }
    gs_elf_file_close(attempt->file);
    return false;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);

    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Returns why the file at a module's path is not the module's. */
static enum gs_object_problem why_missing(const struct attempt *attempt)
{
    if (attempt->problem == GS_OBJECT_UNREADABLE &&
        (ends_with(attempt->module->path, DELETED) ||
         (access(attempt->module->path, F_OK) != 0 && errno == ENOENT))) {
        return GS_OBJECT_DELETED;
    }
    return attempt->problem;
}

/* Finds the debug file. A module without a file of its own is named by it alone. */
static enum gs_debug_result find_debug(const struct gs_object_search *search,
                                       struct attempt *attempt, bool found,
                                       struct gs_elf_file *debug)
{
    const struct gs_module *module = attempt->module;
    const struct gs_elf_file *file = attempt->file;
    char root[64];
    struct gs_debug_request request = {
        .search = &search->debug,
        .file = found && file->image == 0 ? file : NULL,
        .path = module->path,
        .build_id =
            module->build_id_len != 0 || !found ? module->build_id : file->build_id,
        .build_id_len = module->build_id_len != 0 || !found ? module->build_id_len
                                                            : file->build_id_len};
    struct gs_debug_search inside = search->debug;
    enum gs_debug_result result =
        gs_debug_file_find(&request, debug, attempt->debug_path, PATH_BYTES);

    if (result == GS_DEBUG_FOUND || search->process == 0 || search->process == getpid()) {
        return result;
    }
    (void)snprintf(root, sizeof(root), "/proc/%" PRId64 "/root", search->process);
    inside.sysroot = root;
    request.search = &inside;
    return gs_debug_file_find(&request, debug, attempt->debug_path, PATH_BYTES);
}

/* Chooses the file that has lines; the names of a Go program's are in a table of its
 * own. */
static enum gs_status choose_lines(struct gs_object *object, const char *file_path,
                                   const char *debug_path)
{
    enum gs_elf_lines lines = gs_elf_symbols_lines(object->symbols);
    const char *path = lines == GS_ELF_LINES_FILE    ? file_path
                       : lines == GS_ELF_LINES_DEBUG ? debug_path
                                                     : NULL;

    if (path != NULL) {
        object->lines_path = strdup(path);
        return object->lines_path != NULL ? GS_OK : GS_ERR_HOST_NOMEM;
    }
    if (gs_go_table_open(gs_elf_symbols_file(object->symbols), &object->go) != GS_OK) {
        object->go = NULL;
    }
    return GS_OK;
}

/* Opens the module's file and its debug file, or the image in memory if there is no file.
 * Sets out->problem. */
static enum gs_status open_object(const struct gs_object_search *search,
                                  struct attempt *attempt, struct gs_object *out)
{
    struct gs_elf_file debug = {.fd = -1};
    bool found = find_file(search, attempt);
    enum gs_debug_result result;
    enum gs_status status;

    if (!found) {
        out->problem = why_missing(attempt);
        found = take_image(search, attempt);
    }
    result = find_debug(search, attempt, found, &debug);
    if (!found && result != GS_DEBUG_FOUND) {
        return GS_OK;
    }
    if (result == GS_DEBUG_FOUND) {
        out->problem = GS_OBJECT_OK;
    }
    if (out->problem == GS_OBJECT_OK && result == GS_DEBUG_MISSING) {
        out->problem = GS_OBJECT_LINK_MISSING;
    }
    if (out->problem == GS_OBJECT_OK && result == GS_DEBUG_FOREIGN) {
        out->problem = GS_OBJECT_LINK_FOREIGN;
    }
    status = gs_elf_symbols_read(attempt->file, &debug, &out->symbols);
    if (status == GS_OK) {
        status = choose_lines(out, attempt->path, attempt->debug_path);
    }
    if (status == GS_OK && attempt->debug_path[0] != '\0' &&
        (out->debug_path = strdup(attempt->debug_path)) == NULL) {
        status = GS_ERR_HOST_NOMEM;
    }
    return status;
}

enum gs_status gs_object_open(const struct gs_object_search *search,
                              const struct gs_module *module, struct gs_object *out)
{
    struct gs_elf_file file = {.fd = -1};
    struct attempt *attempt = calloc(1, sizeof(*attempt)); /* stacks are small */
    enum gs_status status;

    memset(out, 0, sizeof(*out));
    if (attempt == NULL) {
        return GS_ERR_HOST_NOMEM;
    }
    attempt->module = module;
    attempt->file = &file;
    attempt->problem = GS_OBJECT_UNREADABLE;
    status = open_object(search, attempt, out);
    gs_elf_file_close(&file);
    free(attempt);
    if (status != GS_OK) {
        gs_object_close(out);
    }
    return status;
}

void gs_object_close(struct gs_object *object)
{
    gs_elf_symbols_close(object->symbols);
    gs_go_table_close(object->go);
    free(object->lines_path);
    free(object->debug_path);
    memset(object, 0, sizeof(*object));
}
