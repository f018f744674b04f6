/*
 * libraries.c - checks the loaded libraries, by name.
 *
 * Owns:  the kinds found, and the list of loaded objects as of the last check.
 * Lock:  none. `loaded` is written after the consequences of a found library, so a thread
 *        that reads an unchanged count sees these. Of threads that check at once, the one
 *        that has set `reading` reads the new objects, any other thread reads all.
 */
#include "shim/link/libraries.h"

#include <errno.h>
#include <link.h>

#include "shim/link/elf_module.h"
#include "shim/link/known_functions.h"

bool gs_libraries_matter;
static unsigned found;               /* atomic: gs_library or-ed; only grows */
static const char *first_found = ""; /* atomic: a file of libraries.def, or a text */
static unsigned long long
    loaded;                   /* atomic: objects loaded up to the last check, by count */
static struct gs_loaded seen; /* by the thread that has set `reading` */
static bool reading;          /* atomic */

struct row {
    char file[32];
    unsigned kind;
};

/* NULL: no row. */
static const struct row *row_of(const char *path)
{
    static const struct row rows[] = {
#define GS_LIBRARY(file, what, how) {file, GS_LIBRARY_##what},
#include "shim/link/libraries.def"
    };
    const char *file = gs_elf_file_name(path);
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        if (gs_elf_begins_with(file, rows[i].file)) {
            return &rows[i];
        }
    }
    return NULL;
}

unsigned gs_library_kind(const char *path)
{
    const struct row *row = row_of(path);
    return row ? row->kind : 0;
}

struct check {
    unsigned long long loaded;
    bool counted; /* the dynamic linker reports how many were loaded */
};

/* Keeps the name of the first library. */
static void record_library(const char *name, unsigned kind)
{
    if (__atomic_fetch_or(&found, kind, __ATOMIC_ACQ_REL) == 0) {
        __atomic_store_n(&first_found, name, __ATOMIC_RELEASE);
    }
}

static void add(const char *path)
{
    const struct row *row = row_of(path);
    if (!row) {
        return;
    }
    if (row->kind & GS_LIBRARY_LAUNCHES) {
        gs_known_end_proof(gs_elf_file_name(path));
    }
    record_library(row->file, row->kind);
}

static int count_objects(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct check *check = argument;
    check->counted = size >= offsetof(struct dl_phdr_info, dlpi_subs);
    check->loaded = check->counted ? info->dlpi_adds : 0;
    return 1;
}

static bool check_name(const struct dl_phdr_info *info, bool all, void *unused)
{
    (void)all;
    (void)unused;
    if (info->dlpi_name) {
        add(info->dlpi_name);
    }
    return false;
}

static void check_names(void)
{
    struct gs_loaded nothing = {0};
    if (__atomic_exchange_n(&reading, true, __ATOMIC_ACQ_REL)) {
        (void)gs_elf_visit_new(&nothing, check_name, NULL);
        return;
    }
    (void)gs_elf_visit_new(&seen, check_name, NULL);
    __atomic_store_n(&reading, false, __ATOMIC_RELEASE);
}

/* Assumes a library of each kind: this process cannot list its libraries. */
static void assume_all(void)
{
    static const char name[] = "a library that cannot be seen from this child process";
    gs_known_end_proof(name);
    record_library(name, GS_LIBRARY_MAPS | GS_LIBRARY_LAUNCHES);
}

unsigned gs_libraries_check(void)
{
    int saved_errno = errno;
    struct check check = {.counted = false};
    (void)gs_elf_visit(count_objects, &check);
    if (!check.counted) {
        assume_all();
    } else if (check.loaded != __atomic_load_n(&loaded, __ATOMIC_ACQUIRE)) {
        check_names();
        __atomic_store_n(&loaded, check.loaded, __ATOMIC_RELEASE);
    }
    errno = saved_errno;
    return __atomic_load_n(&found, __ATOMIC_ACQUIRE);
}

const char *gs_libraries_first(void)
{
    return __atomic_load_n(&first_found, __ATOMIC_ACQUIRE);
}
