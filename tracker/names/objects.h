/*
 * objects.h - the files of a module, wherever they are now: replaced, deleted, in another
 * mount namespace, stripped.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_OBJECTS_H
#define GS_OBJECTS_H

#include "tracker/names/debug_file.h"
#include "tracker/names/elf_symbols.h"
#include "tracker/names/go_table.h"
#include "tracker/stacks/stacks.h"

/* Where files are searched. */
struct gs_object_search {
    struct gs_debug_search debug;
    /* The process that has the modules mapped; 0: it has ended. Another process's root is
     * searched, too: it may run in a container. */
    int64_t process;
};

/* Why a module has no names, or not all. */
enum gs_object_problem {
    GS_OBJECT_OK,
    GS_OBJECT_UNREADABLE, /* no such file, or it is no ELF file of this machine */
    GS_OBJECT_NO_FILES,   /* the process has too many open files */
    GS_OBJECT_DELETED,
    GS_OBJECT_REPLACED,     /* another build is at the path */
    GS_OBJECT_LINK_MISSING, /* the debug file that the module names is nowhere */
    GS_OBJECT_LINK_FOREIGN  /* it is of another build */
};

struct gs_object {
    struct gs_elf_symbols *symbols; /* NULL: nothing was found */
    struct gs_go_table *go;         /* Go's own table of lines; NULL: none */
    char *lines_path;               /* the file that has line tables; NULL: none */
    char *debug_path; /* the debug file found, or the name of a missing one */
    enum gs_object_problem problem;
};

/* Opens the files of a module. Errors: GS_ERR_HOST_NOMEM. */
enum gs_status gs_object_open(const struct gs_object_search *search,
                              const struct gs_module *module,
                              struct gs_object *out) GS_MUST_USE;
void gs_object_close(struct gs_object *object);

#endif
