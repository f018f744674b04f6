/*
 * hook_rows.h - the rows of hooks.def and submit.def at run time, with the driver's
 * function of each. Only for the files of this folder that answer look-ups.
 *
 * Lock: none. Names are immutable; slots and answers are atomic.
 */
#ifndef GS_HOOK_ROWS_H
#define GS_HOOK_ROWS_H

#include "shim/link/elf_module.h"
#include "shim/link/real.h"

struct gs_hook {
    const char *symbol, *name; /* as exported; as passed to cuGetProcAddress */
    int since;
    bool per_thread;
    bool pooled; /* hooks.def: POOLED, or ORDERED */
    void *wrapper;
    void **slot;   /* the function that the wrapper calls */
    void **answer; /* another address of the same function, by the driver's answer */
};

#define GS_HOOK_ROWS_MOST 1024

/* Rows 0 to gs_hook_count() - 1. */
size_t gs_hook_count(void);
struct gs_hook gs_hook_at(size_t row);
/* The row of an exported symbol; -1: none. */
int gs_hook_find(const char *symbol);

/* A slot of the table by number: those of the rows, and the functions that the shim only
 * calls. */
struct gs_entry {
    const char *symbol;
    void **slot;
    bool may_be_null; /* the shim tests for it */
    bool required;
};
size_t gs_entry_count(void);
struct gs_entry gs_entry_at(size_t entry);

/* The table of the process's driver, filled by real.c. */
extern struct gs_real gs_hook_table __attribute__((visibility("hidden")));

/* Returns true if a driver was found, and has the function of this row. */
bool gs_hook_is_there(const struct gs_hook *hook);

/* Records another address of the row's function, which the driver has answered; it fills
 * a row that seemed to be missing. */
void gs_hook_answered(const struct gs_hook *hook, void *found);

/* Makes the driver behind a handle of the program's the process's driver, unless there is
 * one already, or the handle has none. `found`: what the handle answered. */
void gs_real_adopt(void *handle, const void *found);
bool gs_real_is_adopted(void);

#endif
