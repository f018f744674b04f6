/*
 * checkers.c - finds the functions of a program's sanitizers, and calls them.
 *
 * References to them, weak ones too, would cost each program that starts a search of all
 * its libraries.
 *
 * Owns:  the functions.   Lock: none; immutable after start.
 */
#include "shim/settings/checkers.h"

struct gs_checkers gs_checkers;

static void find_msan(void *(*find)(const char *name))
{
    void *begin = find("__msan_scoped_disable_interceptor_checks");
    void *end = begin ? find("__msan_scoped_enable_interceptor_checks") : NULL;
    if (end) {
        gs_checkers.unchecked_end = (void (*)(void))end;
        gs_checkers.unchecked_begin = (void (*)(void))begin;
    }
}

static void find_annotations(void *(*find)(const char *name))
{
    typedef void at_fn(const char *file, int line);
    typedef void key_fn(const char *file, int line, uintptr_t key);
    static const char *const names[] = {
        "AnnotateHappensBefore",  "AnnotateHappensAfter",      "AnnotateIgnoreReadsBegin",
        "AnnotateIgnoreReadsEnd", "AnnotateIgnoreWritesBegin", "AnnotateIgnoreWritesEnd"};
    void *found[GS_ARRAY_LEN(names)];
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        if (!(found[i] = find(names[i]))) {
            return;
        }
    }
    gs_checkers.before = (key_fn *)found[0];
    gs_checkers.after = (key_fn *)found[1];
    gs_checkers.reads_end = (at_fn *)found[3];
    gs_checkers.writes_begin = (at_fn *)found[4];
    gs_checkers.writes_end = (at_fn *)found[5];
    gs_checkers.reads_begin = (at_fn *)found[2];
}

void gs_checkers_start(void *(*find)(const char *name))
{
    find_msan(find);
    find_annotations(find);
}

void gs_checkers_ignore_begin(void)
{
    if (gs_checkers.unchecked_begin) {
        gs_checkers.unchecked_begin();
    }
    if (gs_checkers.reads_begin) {
        gs_checkers.reads_begin(__FILE__, __LINE__);
        gs_checkers.writes_begin(__FILE__, __LINE__);
    }
}

void gs_checkers_ignore_end(void)
{
    if (gs_checkers.reads_begin) {
        gs_checkers.writes_end(__FILE__, __LINE__);
        gs_checkers.reads_end(__FILE__, __LINE__);
    }
    if (gs_checkers.unchecked_begin) {
        gs_checkers.unchecked_end();
    }
}
