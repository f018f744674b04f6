/*
 * function_words.h - replaces words of a stopped process's memory that hold the address
 * of a function: a runtime, a framework or a program keeps such words once it has looked
 * the function up.
 *
 * Owns: nothing.   Lock: none; one thread.   Design: docs/state.md, "A program that was
 * started without gpushim"
 */
#ifndef GS_FUNCTION_WORDS_H
#define GS_FUNCTION_WORDS_H

#include <sys/types.h>

#include "gs_base.h"

struct gs_function_pair {
    uint64_t from, to;
};

struct gs_function_area {
    uint64_t begin, end;
};

/* A thread's stack pointer and thread pointer. */
struct gs_function_stack {
    uint64_t stack, thread;
};

struct gs_function_words {
    struct gs_function_pair *pairs; /* sorted by gs_function_words_sort */
    size_t pair_count;
    const struct gs_function_area *skipped; /* memory that stays as it is */
    size_t skipped_count;
    /* Stacks stay, too: the driver and the library have such words there while they run.
     * The last `tls_bytes` below a thread pointer are variables, and no stack. */
    const struct gs_function_stack *stacks;
    size_t stack_count;
    uint64_t tls_bytes;
    bool fixed; /* also files' memory that the process cannot write: the linker's slots */
};

struct gs_function_words_result {
    uint64_t found;      /* words */
    uint64_t replaced;   /* of them */
    uint64_t bytes;      /* of memory that was read */
    uint64_t unreadable; /* bytes that could not be read */
    uint64_t asked;      /* pages of which each was looked up: below Linux 6.7 all */
};

/* Sorts the pairs; of several pairs with one `from` the first stays. */
void gs_function_words_sort(struct gs_function_words *words);

/*
 * Reads the private memory of the process that is present, and counts the words that are
 * the `from` of a pair; with `replace`, which wants all threads stopped, makes them its
 * `to`.
 * Returns NULL, or why not: completes "process N: ".
 */
const char *gs_function_words_scan(pid_t pid, const struct gs_function_words *words,
                                   bool replace, struct gs_function_words_result *out);

/*
 * Counts the words that gs_function_words_scan does not look at: in memory that is shared,
 * where another process without the library may use them; and those that are not aligned,
 * in mappings of at most 64 MiB. The threads may run. Returns as above.
 */
const char *gs_function_words_left(pid_t pid, const struct gs_function_words *words,
                                   struct gs_function_words_result *out);

#endif
