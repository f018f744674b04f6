/*
 * attach.c - see attach.h.
 * Owns:  the answer and the variables.   Lock: none; one call at a time.
 */
#include "shim/life/attach.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "shim/life/copies.h"
#include "shim/life/unseen.h"
#include "shim/link/deep_modules.h"
#include "shim/link/hook_rows.h"
#include "shim/link/linker.h"
#include "shim/link/real.h"
#include "shim/record.h"
#include "shim/report/finish.h"
#include "shim/report/interim.h"
#include "shim/report/intervals.h"
#include "shim/report/trace_stacks.h"
#include "shim/settings/environment.h"
#include "shim/settings/options.h"
#include "shim/settings/own_thread.h"
#include "shim/settings/process_start.h"
#include "shim/state/state.h"
#include "shim/statefile/state_file.h"
#include "shim/trace/trace.h"

#define ANSWER_BYTES  (256u << 10)
#define REQUEST_BYTES (64u << 10)
#define VARIABLES     128
#define TLS_MOST      1024 /* the library's own thread-local variables */

static struct {
    size_t length;
    char text[ANSWER_BYTES];
} answer;

static char given[REQUEST_BYTES];        /* the lines of the first request */
static char request_copy[REQUEST_BYTES]; /* the variables */
static char *variables[VARIABLES + 1];   /* of request_copy */
static bool attached;
static bool busy; /* atomic */

static void GS_PRINTF(1, 2) add(const char *format, ...)
{
    va_list arguments;
    size_t room = sizeof(answer.text) - answer.length;
    va_start(arguments, format);
    int wanted = vsnprintf(answer.text + answer.length, room, format, arguments);
    va_end(arguments);
    answer.length += wanted > 0 && (size_t)wanted < room ? (size_t)wanted : 0;
}

/* ---- variables --------------------------------------------------------------------- */

/* In place of the request's: the help would end the program. */
static const char *const fixed[] = {"GPUSHIM_POOL=off", "GPUSHIM_FOLLOW_CHILDREN=off",
                                    "GPUSHIM_HELP=off"};
/* Where the request has none. */
static const char *const fallbacks[] = {"GPUSHIM_REPORT_ON=off"};

/* Whether one of the first variables has the name of an entry NAME=VALUE. */
static bool is_set(const char *entry, size_t count)
{
    size_t length = strcspn(entry, "=") + 1;
    for (size_t i = 0; i < count; i++) {
        if (strncmp(variables[i], entry, length) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns whether all of them fit. */
static bool take_variables(const char *lines)
{
    size_t count = 0;
    if (strlen(lines) >= sizeof(request_copy)) {
        return false;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(fixed); i++) {
        variables[count++] = (char *)fixed[i];
    }
    (void)strcpy(given, lines);
    (void)strcpy(request_copy, lines);
    char *next = request_copy;
    for (char *line; (line = strsep(&next, "\n"));) {
        if (!*line || is_set(line, GS_ARRAY_LEN(fixed))) {
            continue;
        }
        if (count + GS_ARRAY_LEN(fallbacks) >= VARIABLES) {
            return false;
        }
        variables[count++] = line;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(fallbacks); i++) {
        if (!is_set(fallbacks[i], count)) {
            variables[count++] = (char *)fallbacks[i];
        }
    }
    variables[count] = NULL;
    return true;
}

/* ---- the addresses ----------------------------------------------------------------- */

static void add_skipped(uintptr_t begin, uintptr_t end)
{
    add("skip %lx %lx\n", (unsigned long)begin, (unsigned long)end);
}

/* In: back  a bool: the wrappers' addresses are to go, also from the slots of the driver
 * and of what stands before it */
static int add_skipped_module(struct dl_phdr_info *info, size_t size, void *back)
{
    struct gs_module_ref module = gs_elf_module_in(info);
    (void)size;
    if (gs_real_owns((const void *)module.begin)) {
        if (!*(const bool *)back) {
            add_skipped(module.begin, module.end);
        }
        add("driver %.1024s\n", info->dlpi_name);
    } else if (gs_linker_is_own(&module)) {
        add_skipped(module.begin, module.end);
    }
    return 0;
}

static void add_word(const struct gs_hooked_address *address, void *unused)
{
    (void)unused;
    add("word %lx %lx %s\n", (unsigned long)(uintptr_t)address->function,
        (unsigned long)(uintptr_t)address->wrapper, address->symbol);
}

static void add_slot(const char *name, void *function)
{
    struct gs_module_ref own;
    void *wrapper = gs_linker_own_module(&own) ? gs_elf_symbol(&own, name) : NULL;
    if (function && wrapper) {
        add("slot %lx %lx %s\n", (unsigned long)(uintptr_t)function,
            (unsigned long)(uintptr_t)wrapper, name);
    }
}

/* The library came last: no variable of an earlier module is farther from the thread
 * pointer than its own. */
static void add_variables(void)
{
    uintptr_t thread = (uintptr_t)__builtin_thread_pointer(), own = (uintptr_t)&gs_thread;
    add("variables %lx\n", (unsigned long)(thread > own ? thread - own : 0) + TLS_MOST);
    add("thread %lx\n", (unsigned long)thread); /* it ends, and leaves its stack */
}

static void add_addresses(bool back)
{
    add_variables();
    (void)gs_elf_visit(add_skipped_module, &back);
    gs_real_visit_addresses(add_word, NULL);
    add_slot("dlsym", (void *)gs_linker_libc_dlsym());
    add_slot("dlvsym", (void *)gs_linker_dlvsym());
}

/* ---- requests ---------------------------------------------------------------------- */

static const char *why_not(void)
{
    static struct gs_copies copies; /* large */
    if (getauxval(AT_SECURE)) {
        return "it runs with another user's rights (set-uid, or capabilities)";
    }
    if (gs_linker_is_preloaded()) {
        return "it runs under gpushim from its start: ask it with gpushim dump";
    }
    if (gs_copies_find(&copies)) {
        return "another copy of libgpushim.so is in it";
    }
    return NULL;
}

/* Times of the tracker have room for 208 days. */
#define LONGEST_RUN_NS (100 * UINT64_C(86400) * 1000000000)

/* Records from now on. Before the library has started there was no CUDA call, and it will
 * record all of them. */
static void begin_recording(void)
{
    struct gs_state *state = gs_state_peek();
    uint64_t ran_ns = gs_process_ran_ns();
    if (state && state->tracker) {
        gs_tracker_restart(state->tracker,
                           ran_ns < LONGEST_RUN_NS ? ran_ns : LONGEST_RUN_NS);
        gs_intervals_restart(state->tracker);
        gs_interim_attach(&state->options);
        __atomic_store_n(&state->detached, false, __ATOMIC_RELEASE);
        gs_state_file_ending("", false);
    }
}

/* Nothing of the library happens at the end of the process after this. */
static void end_recording(void)
{
    struct gs_state *state = gs_state_peek();
    if (!state || !state->tracker) {
        return;
    }
    if (gs_tracker_records(state->tracker)) {
        gs_tracker_switch(state->tracker);
    }
    gs_trace_end();
    gs_record_trace_changed();
    gs_trace_stacks_write();
    gs_interim_detach();
    gs_finish_detach();
}

/* Starts the library if CUDA has started; else the first call that is seen does. */
static void start(void)
{
    if (gs_real()->cuCtxGetCurrent && gs_enter()) {
        gs_leave();
    }
}

/* Starts the library in a running process with these variables; answers with the
 * wrappers' addresses. */
static void attach(const char *lines)
{
    if (attached) {
        add("again\n%s", strcmp(lines, given) == 0 ? "" : "kept\n");
        add_addresses(false);
        return;
    }
    if (gs_environment_is_replaced()) {
        add("%s", strcmp(lines, given) == 0 ? "" : "kept\n");
    } else {
        if (!take_variables(lines)) {
            add("refused its variables are too many\n");
            return;
        }
        gs_environment_replace(variables);
        gs_unseen_give_up();
        gs_own_thread_watch_first_elsewhere();
    }
    start();
    if (gs_real_lacks()) {
        add("refused its CUDA driver lacks %s: nothing can be recorded\n",
            gs_real_lacks());
        return;
    }
    begin_recording();
    bool all = gs_deep_modules_take();
    __atomic_store_n(&attached, true, __ATOMIC_RELEASE);
    add("attached\n%s", all ? "" : "partly\n");
    add_addresses(false);
}

/* If the library is detached already, the command may have been killed before it replaced
 * the words. */
static void detach(void)
{
    if (!gs_environment_is_replaced()) {
        add("refused gpushim is not attached to it\n");
        return;
    }
    bool again = !attached;
    if (!again) {
        gs_deep_modules_leave();
        __atomic_store_n(&attached, false, __ATOMIC_RELEASE);
        end_recording();
    }
    add(again ? "again\n" : "detached\n");
    add_addresses(true);
}

/* Clears what calls have left on the stack below: addresses of wrappers, which would stay
 * there once the thread has ended. */
static __attribute__((noinline)) void clear_stack(unsigned pieces)
{
    char piece[1024];
    memset(piece, 0, sizeof(piece));
    __asm__ volatile("" : : "r"(piece) : "memory");
    if (pieces > 1) {
        clear_stack(pieces - 1);
        __asm__ volatile("" : : "r"(piece) : "memory"); /* no tail call */
    }
}

bool gs_attach_has_ended(void)
{
    return gs_environment_is_replaced() && !__atomic_load_n(&attached, __ATOMIC_ACQUIRE);
}

char *gpushim_attach(const char *request)
{
    static char later[] = "refused another gpushim attach or detach is at work\n";
    size_t verb = strcspn(request, "\n");
    if (__atomic_exchange_n(&busy, true, __ATOMIC_ACQ_REL)) {
        return later;
    }
    const char *reason = why_not();
    answer.length = 0;
    answer.text[0] = '\0';
    if (reason) {
        add("refused %s\n", reason);
    } else if (verb == strlen("detach") && strncmp(request, "detach", verb) == 0) {
        detach();
    } else {
        attach(request + verb + (request[verb] == '\n'));
    }
    clear_stack(8);
    __atomic_store_n(&busy, false, __ATOMIC_RELEASE);
    return answer.text;
}
