/*
 * debug_file.h - finds the separate debug file of a module, where gdb would find it.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_DEBUG_FILE_H
#define GS_DEBUG_FILE_H

#include "tracker/names/elf_file.h"

/* The folder of the distributions' debug files. */
#define GS_DEBUG_DIRS "/usr/lib/debug"

struct gs_debug_search {
    const char *dirs; /* folders of debug files, with colons between; NULL: the above */
    const char *sysroot; /* tried before a path, and before each folder; NULL: none */
};

/* What was found, or why nothing was. */
enum gs_debug_result {
    GS_DEBUG_FOUND,
    GS_DEBUG_NOT_NAMED, /* the module names no debug file, none has its build id */
    GS_DEBUG_MISSING,   /* the module names one, which is nowhere */
    GS_DEBUG_FOREIGN    /* only one of another build is there */
};

struct gs_debug_request {
    const struct gs_debug_search *search;
    const struct gs_elf_file *file; /* the module's; NULL: only its build id is known */
    const char *path;               /* of the module, as it was loaded */
    const uint8_t *build_id;
    size_t build_id_len; /* 0: none */
};

/*
 * Searches by build id, then by the name and checksum of .gnu_debuglink.
 *
 * Out:  *debug  open, to be closed by gs_elf_file_close, if GS_DEBUG_FOUND
 *       path    of the debug file; else the name of the missing or foreign one
 */
enum gs_debug_result gs_debug_file_find(const struct gs_debug_request *request,
                                        struct gs_elf_file *debug, char *path,
                                        size_t path_bytes);

/*
 * Opens the compressed symbol table that some distributions leave in a stripped file
 * (.gnu_debugdata). Needs liblzma, found at run time.
 *
 * Errors: GS_ERR_NOT_FOUND  there is none, it is damaged, or liblzma is missing
 *         GS_ERR_HOST_NOMEM
 */
enum gs_status gs_debug_file_open_mini(const struct gs_elf_file *file,
                                       struct gs_elf_file *mini) GS_MUST_USE;

#endif
