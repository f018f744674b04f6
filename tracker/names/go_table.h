/*
 * go_table.h - the table of functions and lines that every Go program carries
 * (.gopclntab), also without symbols and debug information.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_GO_TABLE_H
#define GS_GO_TABLE_H

#include "tracker/names/elf_file.h"

struct gs_go_table;

/* Strings live as long as the table. */
struct gs_go_place {
    const char *function; /* such as main.(*Cache).Fill */
    const char *file;     /* NULL: unknown */
    unsigned line;        /* 0: unknown */
};

/* Errors: GS_ERR_NOT_FOUND  no table, or one of an unknown version (read: Go 1.16 on)
 *         GS_ERR_HOST_NOMEM */
enum gs_status gs_go_table_open(const struct gs_elf_file *file,
                                struct gs_go_table **out) GS_MUST_USE;
/* NULL is allowed. */
void gs_go_table_close(struct gs_go_table *table);

/* The function and line of an ELF virtual address. False: not in the table. */
bool gs_go_table_find(const struct gs_go_table *table, uint64_t address,
                      struct gs_go_place *out);

#endif
