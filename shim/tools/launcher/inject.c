/*
 * inject.c - loads a library into a running process.
 *
 * One thread of the process, stopped where it holds no lock of the C library
 * (inject_safe.c), is made to call pthread_create, on a stack and with code in memory
 * that it maps itself (inject_stub.h), all signals blocked. Then it is put back as it
 * was, and the kernel repeats the system call that was interrupted. The new thread opens
 * the library and calls its function: it waits for locks as any thread does.
 *
 * The tracer may be killed at any moment: before each step the thread has what it needs
 * to bring itself back. During the two calls of mmap that is a signal's frame below its
 * stack, later the end of the code. What differs then: a wait with a time-out that is
 * interrupted in the first of these begins anew.
 *
 * Owns: nothing between calls.   Lock: none. A thread made for each call traces: at its
 * end the kernel detaches it from threads that could not be stopped.
 */
#include "shim/tools/launcher/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gs_wait.h"
#include "shim/tools/launcher/inject_parts.h"
#include "shim/tools/launcher/inject_stub.h"
#include "shim/tools/reader/living_thread.h"

#define NS_PER_MS UINT64_C(1000000)
#define STOP_NS   (20 * NS_PER_MS) /* for a thread to stop */
#define CALL_NS                                                                          \
    (5000 * NS_PER_MS) /* for a thread to come back from a system call of ours */
#define OLD_NS       (200 * NS_PER_MS) /* the maps are read anew then */
#define START_NS     (300 * NS_PER_MS) /* between two libraries that a program loads */
#define END_NS       (200 * NS_PER_MS) /* for the new thread to end */
#define MOST_RUNNING 8                 /* threads stopped while running, in a round */
#define MOST_LATE    64                /* threads that did not stop in time, at once */
#define REST_MS      500               /* a thread waits so long to be put back */
#define TURNS        5000u /* of a millisecond; the new thread then ends alone */

struct request {
    pid_t pid;
    const char *library, *entry, *argument, *why;
    unsigned wait_ms;
    char *answer;
    size_t capacity;
    uint64_t until_ns, base; /* base: of the memory there */
    bool is_alone;           /* the thread comes back alone: its memory stays mapped */
    unsigned late_count;     /* threads that have not stopped yet */
    pid_t late[MOST_LATE];
    struct gs_target target;
};

static const char gone[] = "it has ended";

/* ---- a stopped thread's calls ------------------------------------------------------ */

/* Puts an interrupted thread back: the kernel then repeats its system call, or ends it
 * for a signal, as if nothing had been. Returns false if the thread is gone. */
static bool put_back(const struct gs_traced *thread, const struct gs_saved *saved)
{
    uint64_t mask = gs_arch_mask(saved);
    (void)ptrace(PTRACE_SETSIGMASK, thread->tid, (void *)sizeof(mask), &mask);
    return gs_traced_set(thread->tid, gs_arch_regs(saved)) &&
           gs_traced_go(thread->tid, PTRACE_DETACH);
}

/* Interrupts a thread that runs, or will. */
static bool interrupt(const struct gs_traced *thread)
{
    (void)ptrace(PTRACE_INTERRUPT, thread->tid, NULL, NULL);
    return gs_traced_wait(thread->tid, PTRACE_CONT, gs_now_ns() + CALL_NS) ==
           GS_EVENT_STOP;
}

/* Puts a thread back from the end of a system call of ours. */
static bool put_back_from_call(const struct gs_traced *thread,
                               const struct gs_saved *saved)
{
    (void)ptrace(PTRACE_INTERRUPT, thread->tid, NULL, NULL);
    return gs_traced_go(thread->tid, PTRACE_CONT) && interrupt(thread) &&
           put_back(thread, saved);
}

/* Goes on to the next begin or end of a system call. */
static bool to_call(const struct gs_traced *thread)
{
    enum gs_event event = GS_EVENT_STOP;
    while (event == GS_EVENT_STOP && gs_traced_go(thread->tid, PTRACE_SYSCALL)) {
        event = gs_traced_wait(thread->tid, PTRACE_SYSCALL, gs_now_ns() + CALL_NS);
    }
    return event == GS_EVENT_CALL;
}

/* One system call. Returns false if the thread is gone. */
static bool call_there(const struct gs_target *target, struct gs_traced *thread,
                       const struct gs_saved *saved, const uint64_t words[7],
                       uint64_t *result)
{
    static const uint64_t all = ~UINT64_C(0);
    struct user_regs_struct regs;
    gs_arch_call_regs(saved, target, words, &regs);
    if (!gs_traced_set(thread->tid, &regs)) {
        return false;
    }
    (void)ptrace(PTRACE_SETSIGMASK, thread->tid, (void *)sizeof(all), &all);
    bool begun = to_call(thread);
    if (!begun || !to_call(thread) || !gs_traced_get(thread)) {
        return false;
    }
    *result = gs_arch_result(&thread->regs);
    return true;
}

static void unmap_there(const struct gs_target *target, struct gs_traced *thread,
                        const struct gs_saved *saved, uint64_t base, bool *lost)
{
    const uint64_t words[7] = {SYS_munmap, base, GS_STUB_BYTES, 0, 0, 0, 0};
    uint64_t result;
    *lost = !call_there(target, thread, saved, words, &result);
}

/* Maps the memory of inject_stub.h. Returns NULL or the reason; `*lost`: the thread is
 * gone. */
static const char *map_there(const struct gs_target *target, struct gs_traced *thread,
                             const struct gs_saved *saved, uint64_t *base, bool *lost)
{
    const uint64_t data[7] = {SYS_mmap,
                              0,
                              GS_STUB_BYTES,
                              PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                              (uint64_t)-1,
                              0};
    uint64_t code[7] = {SYS_mmap,
                        0,
                        GS_STUB_DATA,
                        PROT_READ | PROT_EXEC,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                        (uint64_t)-1,
                        0};
    uint64_t at, result;
    *lost = !call_there(target, thread, saved, data, &at);
    if (*lost) {
        return gone;
    }
    if (at > (uint64_t)-4096) {
        return gs_inject_reason("no memory can be mapped there: %s", strerror((int)-at));
    }
    code[1] = at;
    *lost = !call_there(target, thread, saved, code, &result);
    if (*lost) {
        return gone;
    }
    if (result != at) {
        unmap_there(target, thread, saved, at, lost);
        return gs_inject_reason("no memory for code can be mapped there: %s",
                                strerror((int)-result));
    }
    *base = at;
    return NULL;
}

static void put_word(unsigned char *data, size_t offset, uint64_t word)
{
    memcpy(data + offset, &word, sizeof(word));
}

/* Appends a string; returns its address there. */
static uint64_t put_text(unsigned char *data, uint64_t base, size_t *used,
                         const char *text)
{
    size_t at = GS_STUB_STRINGS + *used, bytes = strlen(text) + 1;
    memcpy(data + at, text, bytes);
    *used += bytes;
    return base + GS_STUB_DATA + at;
}

/* Fills the memory of inject_stub.h. */
static bool fill_there(const struct gs_target *target, const struct gs_traced *thread,
                       const struct gs_saved *saved, const struct request *request,
                       uint64_t base)
{
    static const struct timespec nap = {.tv_nsec = (long)NS_PER_MS};
    static const struct timespec patience = {.tv_nsec = REST_MS * (long)NS_PER_MS};
    unsigned char *data = calloc(1, GS_STUB_ROOM);
    size_t used = 0;
    if (!data) {
        return false;
    }
    const struct gs_functions *functions = &target->functions;
    put_word(data, GS_STUB_CREATE, functions->create);
    put_word(data, GS_STUB_DETACH, functions->detach);
    put_word(data, GS_STUB_ATTRIBUTE, functions->attribute);
    put_word(data, GS_STUB_SIZE_STACK, functions->attribute ? functions->size_stack : 0);
    put_word(data, GS_STUB_SELF, functions->self);
    put_word(data, GS_STUB_OPEN, functions->open);
    put_word(data, GS_STUB_SYMBOL, functions->symbol);
    put_word(data, GS_STUB_ERROR, functions->error);
    put_word(data, GS_STUB_MODE, functions->mode);
    put_word(data, GS_STUB_UNMAP, functions->unmap);
    put_word(data, GS_STUB_BASE, base);
    put_word(data, GS_STUB_SIZE, GS_STUB_BYTES);
    put_word(data, GS_STUB_LIBRARY, put_text(data, base, &used, request->library));
    put_word(data, GS_STUB_ENTRY, put_text(data, base, &used, request->entry));
    put_word(data, GS_STUB_ARGUMENT, put_text(data, base, &used, request->argument));
    put_word(data, GS_STUB_TURNS, TURNS);
    memcpy(data + GS_STUB_NAP, &nap, sizeof(nap));
    memcpy(data + GS_STUB_REST, &patience, sizeof(patience));
    gs_arch_fill(saved, data);
    /* Not the vector registers' pages, which stay untouched. */
    bool filled = gs_target_put(target, base + GS_STUB_DATA, data, GS_STUB_VECTORS) &&
                  gs_target_put(target, base + GS_STUB_DATA + GS_STUB_STRINGS,
                                data + GS_STUB_STRINGS, used);
    free(data);
    /* No one may write where the code is, but a tracer. */
    for (size_t at = 0; filled && at < (size_t)(gs_stub_end - gs_stub_begin);
         at += sizeof(long)) {
        long word = 0;
        size_t rest = (size_t)(gs_stub_end - gs_stub_begin) - at;
        memcpy(&word, gs_stub_begin + at, rest < sizeof(word) ? rest : sizeof(word));
        filled =
            ptrace(PTRACE_POKEDATA, thread->tid, (void *)(base + at), (void *)word) == 0;
    }
    return filled;
}

/* Puts the thread back from the end of the code, where it waits for that. Returns NULL or
 * the reason. */
static const char *end_there(const struct gs_target *target, struct gs_traced *thread,
                             const struct gs_saved *saved, uint64_t base, bool *is_alone)
{
    int error = 0;
    if (!interrupt(thread) || !gs_traced_get(thread)) {
        return gone;
    }
    if (!gs_arch_is_at_end(&thread->regs, base)) {
        *is_alone = true; /* it has waited too long */
        return gs_traced_go(thread->tid, PTRACE_DETACH) ? NULL : gone;
    }
    (void)gs_target_get(target, base + GS_STUB_DATA + GS_STUB_RESULT, &error,
                        sizeof(error));
    if (!error) {
        return put_back(thread, saved) ? NULL : gone;
    }
    bool lost;
    unmap_there(target, thread, saved, base, &lost);
    return !lost && put_back_from_call(thread, saved)
               ? gs_inject_reason("it cannot create a thread: %s", strerror(error))
               : gone;
}

/* Runs the code to its end, and puts the thread back. Returns NULL or the reason. No
 * system call within is a stop: among many busy threads, each would cost a turn of all.
 */
static const char *run_there(const struct gs_target *target, struct gs_traced *thread,
                             const struct gs_saved *saved, uint64_t base,
                             uint64_t until_ns, bool *is_alone)
{
    struct gs_wait wait = {.yields = 20,
                           .nap_ns = NS_PER_MS / 20,
                           .longest_ns = NS_PER_MS,
                           .until_ns = until_ns};
    struct user_regs_struct regs;
    uint64_t done = 0;
    gs_arch_stub_regs(saved, base, &regs);
    if (!gs_traced_set(thread->tid, &regs) || !gs_traced_go(thread->tid, PTRACE_CONT)) {
        return gone;
    }
    while (!done) {
        enum gs_event event = gs_traced_wait(thread->tid, PTRACE_CONT, 1);
        if (event == GS_EVENT_END ||
            !gs_target_get(target, base + GS_STUB_DATA + GS_STUB_DONE, &done,
                           sizeof(done))) {
            return gone;
        }
        if (event != GS_EVENT_TIME) {
            (void)gs_traced_go(thread->tid, PTRACE_CONT); /* stopped with its process */
        }
        if (!done && !gs_wait_step(&wait)) {
            if (interrupt(thread)) { /* it goes on alone, and brings itself back */
                (void)gs_traced_go(thread->tid, PTRACE_DETACH);
            }
            return "a thread could not be created in time: the process may be overloaded";
        }
    }
    return end_there(target, thread, saved, base, is_alone);
}

/* ---- the answer -------------------------------------------------------------------- */

static uint64_t get_word(const struct gs_target *target, uint64_t base, size_t offset,
                         bool *found)
{
    uint64_t word = 0;
    *found = gs_target_get(target, base + GS_STUB_DATA + offset, &word, sizeof(word));
    return word;
}

/* Copies a string of the process, as much of it as there is room for. */
static void get_text(const struct gs_target *target, uint64_t from, char *to,
                     size_t capacity)
{
    size_t length = 0;
    while (from && length + 1 < capacity &&
           gs_target_get(target, from + length, to + length, 1) && to[length]) {
        length++;
    }
    if (capacity > 0) {
        to[length] = '\0';
    }
}

/* Lets the new thread unmap the memory and end. */
static void release(const struct gs_target *target, uint64_t base)
{
    struct gs_wait wait = {.nap_ns = NS_PER_MS / 10, .until_ns = gs_now_ns() + END_NS};
    uint64_t word = 1;
    bool found =
        gs_target_put(target, base + GS_STUB_DATA + GS_STUB_RELEASE, &word, sizeof(word));
    while (found && gs_wait_step(&wait)) {
        (void)get_word(target, base, GS_STUB_RELEASE, &found);
    }
}

static const char *await_answer(const struct gs_target *target,
                                const struct request *request, uint64_t base)
{
    struct gs_wait wait = {.yields = 10,
                           .nap_ns = NS_PER_MS / 20,
                           .longest_ns = 2 * NS_PER_MS,
                           .until_ns = request->until_ns};
    char text[512];
    bool found;
    uint64_t state;
    while (!(state = get_word(target, base, GS_STUB_STATE, &found)) && found) {
        if (!gs_wait_step(&wait)) {
            uint64_t word = !request->is_alone;
            (void)gs_target_put(target, base + GS_STUB_DATA + GS_STUB_RELEASE, &word,
                                sizeof(word));
            return gs_inject_reason(
                "no answer within %u ms: another thread may hold the loader's "
                "lock, or it is stopped",
                request->wait_ms);
        }
    }
    uint64_t answer = get_word(target, base, GS_STUB_ANSWER, &found);
    if (!found) {
        return gone;
    }
    if (state == GS_STUB_FAILED) {
        get_text(target, answer, text, sizeof(text));
    } else {
        get_text(target, answer, request->answer, request->capacity);
    }
    if (!request->is_alone) {
        release(target, base);
    }
    return state == GS_STUB_FAILED
               ? gs_inject_reason("%s", *text ? text : "the library cannot be loaded")
               : NULL;
}

/* ---- which thread ------------------------------------------------------------------ */

/* Starts the new thread by one that is at a safe point. Returns NULL or the reason. */
static const char *load_by(const struct gs_target *target, struct gs_traced *thread,
                           struct request *request)
{
    struct gs_saved *saved;
    uint64_t base = 0;
    bool lost = false;
    (void)gs_arch_keep_waiting(&thread->regs);
    gs_rest_read(thread);
    const char *why = gs_arch_save(thread, &saved);
    if (why) {
        (void)gs_traced_go(thread->tid, PTRACE_DETACH);
        return why;
    }
    if (!gs_arch_guard(saved, target)) {
        why = "its memory cannot be written";
        (void)gs_traced_set(thread->tid, gs_arch_regs(saved));
        (void)gs_traced_go(thread->tid, PTRACE_DETACH);
    } else {
        why = map_there(target, thread, saved, &base, &lost);
        if (!why && !fill_there(target, thread, saved, request, base)) {
            unmap_there(target, thread, saved, base, &lost);
            why = "its memory cannot be written";
        }
        if (why && !lost) {
            (void)put_back_from_call(thread, saved);
        } else if (!why) {
            why = run_there(target, thread, saved, base, request->until_ns,
                            &request->is_alone);
            request->base = base;
        }
    }
    gs_arch_forget(saved);
    return why;
}

/* Lets a thread go on from where it was stopped. */
static void let_go(struct gs_traced *thread)
{
    if (gs_traced_get(thread)) {
        bool changed = gs_arch_keep_waiting(&thread->regs);
        if (!changed && gs_rest_is_due(thread)) {
            gs_rest_read(thread);
            changed = true;
        }
        if (changed) {
            (void)gs_traced_set(thread->tid, &thread->regs);
        }
    }
    (void)gs_traced_go(thread->tid, PTRACE_DETACH);
}

struct search {
    struct request *request;
    struct gs_target *target;
    bool running; /* which threads: those that wait, or those that run */
    bool found;   /* one was at a safe point; request->why is set */
    unsigned tried;
};

static bool is_late(const struct request *request, pid_t tid)
{
    for (unsigned i = 0; i < request->late_count; i++) {
        if (request->late[i] == tid) {
            return true;
        }
    }
    return false;
}

/* Lets those go on that have stopped late. */
static void settle(struct request *request)
{
    unsigned left = 0;
    for (unsigned i = 0; i < request->late_count; i++) {
        pid_t tid = request->late[i];
        enum gs_event event = gs_traced_wait(tid, PTRACE_CONT, 1);
        if (event == GS_EVENT_TIME) {
            request->late[left++] = tid;
        } else if (event != GS_EVENT_END) {
            let_go(&(struct gs_traced){.tid = tid});
        }
    }
    request->late_count = left;
}

/* Stops a thread; if it is at a safe point, loads by it. Returns whether to go on. */
static bool try_thread(pid_t tid, void *arg)
{
    struct search *search = arg;
    struct gs_target *target = search->target;
    struct request *request = search->request;
    struct gs_traced thread = {.tid = tid};
    bool is_running;
    bool waits = gs_safe_waits(target, tid, &is_running);
    if (is_late(request, tid) || (search->running ? !is_running : !waits) ||
        (search->running && search->tried++ >= MOST_RUNNING)) {
        return true;
    }
    int error = gs_traced_begin(tid);
    if (error == ESRCH) {
        return true;
    }
    if (error) {
        search->found = true;
        request->why = gs_inject_no_trace(tid, error);
        return false;
    }
    enum gs_event event = gs_traced_wait(tid, PTRACE_CONT, gs_now_ns() + STOP_NS);
    if (event == GS_EVENT_TIME) {
        request->late[request->late_count++] = tid;
    }
    if (event != GS_EVENT_STOP) {
        return request->late_count < MOST_LATE;
    }
    if (gs_traced_get(&thread) && gs_safe_here(target, &thread, gs_arch_room())) {
        search->found = true;
        request->why = load_by(target, &thread, request);
        return false;
    }
    let_go(&thread);
    return true;
}

/* Whether the process still has its memory. */
static bool is_there(const struct gs_target *target)
{
    unsigned char byte;
    return gs_target_get(target, target->modules[0].base, &byte, 1);
}

static const char *load(struct request *request, struct gs_target *target)
{
    char path[48];
    struct search search = {.request = request, .target = target};
    struct gs_wait wait = {.nap_ns = NS_PER_MS / 10,
                           .longest_ns = 5 * NS_PER_MS,
                           .until_ns = request->until_ns};
    (void)snprintf(path, sizeof(path), "/proc/%d/mem",
                   (int)gs_living_thread(request->pid));
    target->memory = open(path, O_RDWR | O_CLOEXEC);
    if (target->memory < 0) {
        return gs_inject_no_trace(request->pid, errno == ENOENT ? ESRCH : errno);
    }
    const char *why = gs_target_read(target);
    while (!why && !search.found) {
        settle(request);
        search.running = false;
        if (!gs_inject_threads(request->pid, try_thread, &search)) {
            return gone;
        }
        search.running = true;
        search.tried = 0;
        if (!search.found) {
            (void)gs_inject_threads(request->pid, try_thread, &search);
        }
        if (search.found) {
            return request->why;
        }
        if (!gs_wait_step(&wait)) {
            why = gs_inject_refuse(request->pid);
            why = why ? why
                      : gs_inject_reason(
                            "no thread was at a point where it could load the library "
                            "within %u ms",
                            request->wait_ms);
        } else if (!is_there(target)) {
            why = gone;
        } else if (gs_now_ns() - target->read_ns > OLD_NS) {
            why = gs_target_read(target);
        }
    }
    return why;
}

/* Whether a thread has no memory any more, or there is none of the number. */
static bool lacks_memory(pid_t thread)
{
    char path[48], pages[2] = "";
    (void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)thread);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    bool lacks = file < 0 ? errno == ENOENT
                          : read(file, pages, sizeof(pages)) == (ssize_t)sizeof(pages) &&
                                memcmp(pages, "0 ", sizeof(pages)) == 0;
    if (file >= 0) {
        close(file);
    }
    return lacks;
}

/* Whether the process has ended, or is about to: it has no memory any more. That of a
 * process which executes a program changes at once. Its first thread alone may end
 * between the two looks. */
static bool has_ended(pid_t pid)
{
    bool lacks = lacks_memory(gs_living_thread(pid));
    if (lacks) {
        lacks = lacks_memory(gs_living_thread(pid));
    }
    return lacks;
}

/* Returns true if the process may still load its C library, or has executed another
 * program between two tries, so that the next one may succeed.
 * In, out: *maps, *changed_ns  a sum over its mappings, and when it last changed */
static bool is_starting(const struct request *request, uint64_t *maps,
                        uint64_t *changed_ns)
{
    const struct gs_target *target = &request->target;
    uint64_t sum = target->maps_count;
    for (size_t i = 0; i < target->maps_count; i++) {
        sum = sum * 31 + target->maps[i].start;
    }
    if (sum != *maps || *changed_ns == 0) {
        *maps = sum;
        *changed_ns = gs_now_ns();
    }
    return request->base == 0 && request->why &&
           (target->lacks_libraries || strcmp(request->why, gone) == 0) &&
           gs_now_ns() - *changed_ns < START_NS && !has_ended(request->pid);
}

static void *trace(void *arg)
{
    struct request *request = arg;
    struct gs_wait wait = {.nap_ns = NS_PER_MS, .until_ns = request->until_ns};
    uint64_t maps = 0, changed_ns = 0;
    bool starts;
    do {
        gs_target_end(&request->target);
        request->target = (struct gs_target){.pid = request->pid, .memory = -1};
        request->why = load(request, &request->target);
        starts = is_starting(request, &maps, &changed_ns);
    } while (starts && gs_wait_step(&wait));
    if (starts) {
        request->why = "it is still starting, or executes one program after another";
    }
    return NULL;
}

const char *gs_inject(pid_t pid, const char *library, const char *entry,
                      const char *argument, unsigned wait_ms, char *answer,
                      size_t capacity)
{
    struct request request = {.pid = pid,
                              .library = library,
                              .entry = entry,
                              .argument = argument,
                              .wait_ms = wait_ms,
                              .answer = answer,
                              .capacity = capacity,
                              .until_ns = gs_now_ns() + wait_ms * NS_PER_MS,
                              .target = {.pid = pid, .memory = -1}};
    pthread_t thread;
    const char *why = gs_arch_refuse();
    if (!why) {
        why = gs_inject_refuse(pid);
    }
    if (why && strcmp(why, gone) == 0 && !has_ended(pid)) {
        why = gs_inject_refuse(pid); /* its first thread alone has ended */
    }
    if (why) {
        return why;
    }
    if (strlen(library) + strlen(entry) + strlen(argument) + 3 >
        GS_STUB_ROOM - GS_STUB_STRINGS) {
        return "the library's path and the argument are too long";
    }
    if (pthread_create(&thread, NULL, trace, &request) != 0) {
        return "no thread can be created here";
    }
    (void)pthread_join(thread, NULL);
    if (!request.why) {
        request.why = await_answer(&request.target, &request, request.base);
    }
    gs_target_end(&request.target);
    if (request.why && has_ended(pid)) {
        return gone;
    }
    return request.why && strcmp(request.why, gone) == 0
               ? "it has ended, or executed another program"
               : request.why;
}
