/*
 * library.c - finds the libgpushim.so that fits a program, and makes the value of
 * LD_PRELOAD.
 *
 * Owns: nothing.   Lock: none.
 */
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/tools/launcher/launcher.h"
#include "shim/tools/reader/marks.h"

/* Candidates: installed, below the folder above this program's; of a build folder, next
 * to the program. */
static const struct {
    bool beside;
    const char *path;
} candidates[] = {{false, "/lib/gpushim/libgpushim.so"},
                  {false, "/lib64/gpushim/libgpushim.so"},
                  {false, "/lib/*-linux-gnu*/gpushim/libgpushim.so"},
                  {true, "/libgpushim.so"}};

static void candidate(size_t i, char out[PATH_MAX])
{
    static char here[PATH_MAX], above[PATH_MAX];
    if (!here[0]) {
        if (!realpath("/proc/self/exe", here) || !strrchr(here, '/')) {
            gs_launcher_fail(GS_EXIT_USAGE,
                             "/proc/self/exe cannot be read: set "
                             "GPUSHIM_LIBRARY to the path of libgpushim.so");
        }
        *strrchr(here, '/') = '\0';
        memcpy(above, here, sizeof(above));
        char *slash = strrchr(above, '/');
        if (slash) {
            *slash = '\0';
        }
    }
    const char *folder = candidates[i].beside ? here : above;
    if (snprintf(out, PATH_MAX, "%s%s", folder, candidates[i].path) >= PATH_MAX) {
        out[0] = '\0';
    }
}

static bool is_file(const char *path)
{
    struct stat file;
    return stat(path, &file) == 0 && S_ISREG(file.st_mode);
}

/* The first library next to this program that fits, else the first there is. */
static void find(struct gs_elf_kind kind, char out[PATH_MAX])
{
    char path[PATH_MAX], first[PATH_MAX] = "";
    for (size_t i = 0; i < GS_ARRAY_LEN(candidates); i++) {
        glob_t found;
        candidate(i, path);
        if (glob(path, strchr(path, '*') ? 0 : GLOB_NOCHECK, NULL, &found) != 0) {
            continue;
        }
        for (size_t j = 0; j < found.gl_pathc; j++) {
            const char *one = found.gl_pathv[j];
            if (!is_file(one) || strlen(one) >= PATH_MAX) {
                continue;
            }
            if (!first[0]) {
                strcpy(first, one);
            }
            if (!kind.is_elf || gs_elf_kind_same(gs_elf_kind_read(one), kind)) {
                strcpy(out, one);
                globfree(&found);
                return;
            }
        }
        globfree(&found);
    }
    strcpy(out, first);
    if (first[0]) {
        return;
    }
    gs_launcher_warn("libgpushim.so not found; looked for");
    for (size_t i = 0; i < GS_ARRAY_LEN(candidates); i++) {
        candidate(i, path);
        gs_launcher_warn("  %s", path);
    }
    gs_launcher_fail(GS_EXIT_USAGE, "build it, or set GPUSHIM_LIBRARY to its path");
}

static void check(const struct gs_command *command, const char *library)
{
    char of_program[32], of_library[32];
    if (access(library, F_OK) != 0) {
        gs_launcher_fail(GS_EXIT_USAGE, "%s: no such file (GPUSHIM_LIBRARY)", library);
    }
    if (!is_file(library) || access(library, R_OK) != 0) {
        gs_launcher_fail(GS_EXIT_USAGE, "%s: cannot be read", library);
    }
    struct gs_elf_kind kind = gs_elf_kind_read(library);
    if (!kind.is_elf) {
        gs_launcher_fail(GS_EXIT_USAGE, "%s: not a shared library", library);
    }
    if (command->kind.is_elf && !gs_elf_kind_same(kind, command->kind)) {
        gs_launcher_fail(
            GS_EXIT_USAGE,
            "%s is a %s program, but %s is for %s: build the library for it, "
            "or set GPUSHIM_LIBRARY",
            command->path, gs_elf_kind_text(command->kind, of_program), library,
            gs_elf_kind_text(kind, of_library));
    }
}

/* ---- paths that LD_PRELOAD cannot contain ------------------------------------------ */

static bool separates(const char *path)
{
    return path[strcspn(path, " \t\n:")] != '\0';
}

/* Names the library by a link, since the dynamic linker takes a space or a colon for the
 * end of a path. The link stays: the command's children preload it, too. */
static void link_to(char library[PATH_MAX])
{
    char folder[PATH_MAX], link[PATH_MAX], fresh[PATH_MAX], now[PATH_MAX];
    uint64_t hash = gs_fnv1a(library, strlen(library));
    if (!gs_marks_folder(folder) ||
        snprintf(link, sizeof(link), "%s/libgpushim-%016llx.so", folder,
                 (unsigned long long)hash) >= PATH_MAX ||
        snprintf(fresh, sizeof(fresh), "%s.%ld", link, (long)getpid()) >= PATH_MAX) {
        gs_launcher_fail(GS_EXIT_USAGE,
                         "%s: the dynamic linker cannot preload a file whose path has a "
                         "space or a colon, and no folder for a link to it can be made; "
                         "copy it elsewhere and set GPUSHIM_LIBRARY",
                         library);
    }
    ssize_t length = readlink(link, now, sizeof(now) - 1);
    now[length > 0 ? length : 0] = '\0';
    if (strcmp(now, library) != 0 &&
        (symlink(library, fresh) != 0 || rename(fresh, link) != 0)) {
        gs_launcher_fail(GS_EXIT_USAGE, "%s: no link to %s can be made", link, library);
    }
    memcpy(library, link, PATH_MAX);
}

/* ---- LD_PRELOAD -------------------------------------------------------------------- */

static bool has(const char *list, const char *library)
{
    size_t length = strlen(library);
    for (const char *at = list; (at = strstr(at, library)) != NULL; at += length) {
        if ((at == list || strchr(" :", at[-1])) &&
            (!at[length] || strchr(" :", at[length]))) {
            return true;
        }
    }
    return false;
}

static char library[PATH_MAX];

const char *gs_library_path(void)
{
    return library;
}

/* Sets `library` for a program; its kind may be unknown. */
static void choose(const struct gs_command *command)
{
    static char folder[PATH_MAX];
    const char *named = getenv("GPUSHIM_LIBRARY");
    if (named && named[0]) {
        bool absolute = named[0] == '/';
        if ((!absolute && !getcwd(folder, sizeof(folder))) ||
            snprintf(library, sizeof(library), "%s%s%s", absolute ? "" : folder,
                     absolute ? "" : "/", named) >= PATH_MAX) {
            gs_launcher_fail(GS_EXIT_USAGE, "%s: the path is too long (GPUSHIM_LIBRARY)",
                             named);
        }
    } else {
        find(command->kind, library);
    }
    check(command, library);
}

const char *gs_library_of_any(void)
{
    static const struct gs_command any;
    choose(&any);
    return library;
}

char *gs_library_preload(const struct gs_command *command)
{
    static struct gs_command examined;
    const char *others = getenv("LD_PRELOAD");
    choose(command);
    if (separates(library)) {
        link_to(library);
    }
    examined = *command;
    gs_command_examine(&examined);
    others = others && others[0] ? others : NULL;
    if (others && has(others, library)) {
        return strdup(others); /* a launcher inside a launcher adds nothing */
    }
    char *preload = NULL;
    const char *sanitizer = examined.sanitizer;
    if (asprintf(&preload, "%s%s%s%s%s", sanitizer, sanitizer[0] ? ":" : "", library,
                 others ? ":" : "", others ? others : "") < 0) {
        gs_launcher_fail(GS_EXIT_CANNOT_RUN, "no memory");
    }
    return preload;
}
