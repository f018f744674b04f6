/*
 * exec.c - a process becomes another program (the exec family), starts one (posix_spawn),
 * or forks without handlers (_Fork).
 *
 * exec may run in vfork children, inside the parent's memory: there it forwards and
 * changes nothing (gs_finish_report compares the process id). A new environment is in a
 * mapping, since the caller's stack may be small; if a vfork child becomes another
 * program, the mapping stays in the parent.
 *
 * Owns:  the next functions.   Lock: none; idempotent writes of one word.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gs_uncancelled.h"
#include "shim/coverage.h"
#include "shim/life/child_env.h"
#include "shim/life/fork.h"
#include "shim/link/linker.h"
#include "shim/report/finish.h"
#include "shim/settings/log.h"
#include "shim/state/state.h"
#include "shim/statefile/state_file.h"
#include "tracker/host_memory.h"
#include "tracker/stacks/stacks.h"

/* Values of <fcntl.h> and <unistd.h> of glibc 2.34. */
#ifndef AT_EMPTY_PATH
#define AT_EMPTY_PATH 0x1000
#endif
extern int execveat(int dir, const char *path, char *const argv[], char *const envp[],
                    int flags);
extern pid_t _Fork(void); // NOLINT(bugprone-reserved-identifier): glibc's name

typedef int execv_fn(const char *, char *const[]);
typedef int execl_fn(const char *, const char *, ...);
typedef int execve_fn(const char *, char *const[], char *const[]);
typedef int fexecve_fn(int, char *const[], char *const[]);
typedef int execveat_fn(int, const char *, char *const[], char *const[], int);
typedef int spawn_fn(pid_t *, const char *, const posix_spawn_file_actions_t *,
                     const posix_spawnattr_t *, char *const[], char *const[]);
typedef pid_t fork_fn(void);

/* The functions whose next definition after the shim's is looked up. */
enum next {
    EXECV,
    EXECVP,
    EXECL,
    EXECLP,
    EXECLE,
    EXECVE,
    EXECVPE,
    FEXECVE,
    EXECVEAT,
    SPAWN,
    SPAWNP,
    BARE_FORK
};
static struct {
    char name[16];
    void *found; /* atomic; NULL: not looked up, or not in this C library */
} nexts[] = {
    [EXECV] = {"execv", NULL},         [EXECVP] = {"execvp", NULL},
    [EXECL] = {"execl", NULL},         [EXECLP] = {"execlp", NULL},
    [EXECLE] = {"execle", NULL},       [EXECVE] = {"execve", NULL},
    [EXECVPE] = {"execvpe", NULL},     [FEXECVE] = {"fexecve", NULL},
    [EXECVEAT] = {"execveat", NULL},   [SPAWN] = {"posix_spawn", NULL},
    [SPAWNP] = {"posix_spawnp", NULL}, [BARE_FORK] = {"_Fork", NULL},
};

static void *next(enum next which)
{
    return gs_linker_behind(nexts[which].name, &nexts[which].found);
}

/* ---- before and after an exec ---------------------------------------------------- */

/* The report of this exec is written: a library after the shim may call execve by its
 * name, which comes to the shim again. */
static _Thread_local bool reported;

/* Writes the report before the program executes another and loses its device memory. If
 * the exec fails, the program continues and reports again at its end. */
static void before_exec(const char *path, char *const *env)
{
    int before = gs_uncancelled_begin();
    if (gs_finish_due() && path && !reported) {
        reported = true;
        char ending[128];
        if (gs_child_env_loses(env)) {
            gs_log_line(GS_LOG_WARN,
                        "exec %.300s: LD_PRELOAD is not in its environment: its GPU "
                        "memory is not recorded",
                        path);
        }
        snprintf(ending, sizeof(ending), "exec %.100s", path);
        if (gs_stacks_in_signal_handler()) {
            /* The interrupted code may hold any lock, or be inside malloc. */
            gs_finish_without_report("%s was called in a signal handler", ending);
            gs_state_file_ending(ending, false);
        } else {
            (void)gs_finish_report(ending, true);
        }
    }
    gs_uncancelled_end(before);
    gs_coverage_flush();
}

/* The exec has failed: the program goes on. In a vfork child the state is the parent's
 * and stays. */
static int after_exec(int result)
{
    if (gs_finish_due()) {
        reported = false;
        gs_state_file_ending("", false);
    }
    return result;
}

/* Returns true if exec would find a file: without one, nothing is reported. */
static bool can_run(const char *path)
{
    struct stat info;
    return path && stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
           access(path, X_OK) == 0;
}

/* Like can_run, below a folder; with AT_EMPTY_PATH and an empty name, for the open file
 * itself. */
static bool can_run_at(int dir, const char *path, int flags)
{
    struct stat info;
    if (!path ||
        fstatat(dir, path, &info, flags & (AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)) ||
        !S_ISREG(info.st_mode)) {
        return false;
    }
    return path[0] ? faccessat(dir, path, X_OK, 0) == 0 : (info.st_mode & 0111) != 0;
}

/* The folders that execvp searches if PATH is not set (confstr(3)). */
#define USUAL_PATH "/bin:/usr/bin"

/* Like can_run, along PATH, in the way of execvp: an empty part is the current folder. */
static bool can_find(const char *file)
{
    const char *path = getenv("PATH"); /* NOLINT(concurrency-mt-unsafe): as execvp does */
    if (!file || !file[0] || strchr(file, '/')) {
        return can_run(file);
    }
    if (!path) {
        path = USUAL_PATH;
    }
    char *candidate = gs_host_map(PATH_MAX);
    bool found = false;
    for (bool last = !candidate; !last && !found;) {
        size_t length = strcspn(path, ":");
        int written = snprintf(candidate, PATH_MAX, "%.*s%s%s", (int)length, path,
                               length ? "/" : "", file);
        found = written > 0 && written < PATH_MAX && can_run(candidate);
        last = path[length] == '\0';
        path += length + 1;
    }
    gs_host_unmap(candidate, PATH_MAX);
    return found;
}

/* The environment for a started program, and the mapping that contains it, or NULL. */
struct child_environment {
    char *const *env;
    void *room;
    size_t bytes;
};

static struct child_environment make_environment(char *const *env)
{
    const struct gs_child_env need = gs_child_env_measure(env);
    struct child_environment next_env = {.env = env};
    if (!need.own && !need.renamed) {
        return next_env;
    }
    size_t pointers = need.entries * sizeof(char *);
    void *room = mmap(NULL, pointers + need.bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) {
        if (need.own) {
            gs_log_line(GS_LOG_WARN, "GPUSHIM_FOLLOW_CHILDREN=off: no memory for a new "
                                     "environment; the child keeps the library");
        }
        return next_env;
    }
    next_env.room = room;
    next_env.bytes = pointers + need.bytes;
    next_env.env = gs_child_env_make(&need, env, room, (char *)room + pointers);
    return next_env;
}

/* Unmaps it after the call has returned; errno is preserved. */
static void unmap_environment(const struct child_environment *next_env)
{
    int saved = errno;
    if (next_env->room) {
        munmap(next_env->room, next_env->bytes);
    }
    errno = saved;
}

/* An exec of the program's. */
struct exec {
    enum next called; /* the function of this name, after the shim's, is called */
    bool in_path;     /* along PATH */
    const char *file;
    char *const *argv;
    char *const *env;
};

/* Calls the next execve or execvpe, with an environment. */
static int run_with(const struct exec *exec, char *const *env)
{
    execve_fn *run = (execve_fn *)next(exec->in_path ? EXECVPE : EXECVE);
    return run ? run(exec->file, exec->argv, env)
               : (int)syscall(SYS_execve, exec->file, exec->argv, env);
}

/* The words of an execl that are passed on by it; a function stops at their NULL. */
#define WORDS_MOST 64
#define WORDS_8(w) (w)[0], (w)[1], (w)[2], (w)[3], (w)[4], (w)[5], (w)[6], (w)[7]
#define WORDS_64(w)                                                                      \
    WORDS_8(w), WORDS_8((w) + 8), WORDS_8((w) + 16), WORDS_8((w) + 24),                  \
        WORDS_8((w) + 32), WORDS_8((w) + 40), WORDS_8((w) + 48), WORDS_8((w) + 56)

/* Calls the next function of an execl's name. More words than there is room for go to
 * the next execve or execvpe. */
static int run_list(const struct exec *exec, execl_fn *run, char *const *env)
{
    const char *words[WORDS_MOST] = {NULL};
    size_t count = 0;
    while (exec->argv[count]) {
        count++;
    }
    if (count + 2 > WORDS_MOST) {
        return run_with(exec, env);
    }
    memcpy(words, exec->argv, count * sizeof(words[0]));
    if (exec->called == EXECLE) {
        words[count + 1] = (const char *)env;
    }
    return run(exec->file, WORDS_64(words));
}

/* A function without an environment can pass on none but the process's own, which other
 * threads read: with another one, the next execve or execvpe is called. */
static int run_next(const struct exec *exec, char *const *env)
{
    void *run = next(exec->called);
    bool takes_env = exec->called == EXECLE;
    if (!run || exec->called == EXECVE || exec->called == EXECVPE ||
        (!takes_env && env != exec->env)) {
        return run_with(exec, env);
    }
    if (exec->called == EXECV || exec->called == EXECVP) {
        return ((execv_fn *)run)(exec->file, exec->argv);
    }
    return run_list(exec, (execl_fn *)run, env);
}

static int run_exec(const struct exec exec)
{
    if (gs_state_peek() && (exec.in_path ? can_find(exec.file) : can_run(exec.file))) {
        before_exec(exec.file, exec.env);
    }
    const struct child_environment to = make_environment(exec.env);
    int result = run_next(&exec, to.env);
    unmap_environment(&to);
    return after_exec(result);
}

/* ---- exec ----------------------------------------------------------------------- */

GS_EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
    return run_exec((struct exec){EXECVE, false, path, argv, envp});
}

GS_EXPORT int execv(const char *path, char *const argv[])
{
    return run_exec((struct exec){EXECV, false, path, argv, environ});
}

GS_EXPORT int execvp(const char *file, char *const argv[])
{
    return run_exec((struct exec){EXECVP, true, file, argv, environ});
}

GS_EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
    return run_exec((struct exec){EXECVPE, true, file, argv, envp});
}

GS_EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
    fexecve_fn *real_fexecve = (fexecve_fn *)next(FEXECVE);
    if (gs_state_peek()) {
        before_exec("(file descriptor)", envp);
    }
    const struct child_environment to = make_environment(envp);
    int result = real_fexecve
                     ? real_fexecve(fd, argv, to.env)
                     : (int)syscall(SYS_execveat, fd, "", argv, to.env, AT_EMPTY_PATH);
    unmap_environment(&to);
    return after_exec(result);
}

GS_EXPORT int execveat(int dir, const char *path, char *const argv[], char *const envp[],
                       int flags)
{
    execveat_fn *real_execveat = (execveat_fn *)next(EXECVEAT);
    if (gs_state_peek() && can_run_at(dir, path, flags)) {
        before_exec(path[0] ? path : "(file descriptor)", envp);
    }
    const struct child_environment to = make_environment(envp);
    int result = real_execveat
                     ? real_execveat(dir, path, argv, to.env, flags)
                     : (int)syscall(SYS_execveat, dir, path, argv, to.env, flags);
    unmap_environment(&to);
    return after_exec(result);
}

/* The number of words of an execl, with `first` and without the NULL. */
static size_t count_words(const char *first, va_list *words)
{
    size_t count = 0;
    for (const char *word = first; word; word = va_arg(*words, const char *)) {
        count++;
    }
    return count;
}

/* Copies the words and the NULL; the array is on the caller's stack (vfork). */
static void copy_words(char **argv, size_t count, const char *first, va_list *words)
{
    const char *word = first;
    for (size_t i = 0; i < count; i++) {
        argv[i] = (char *)(uintptr_t)word;
        word = va_arg(*words, const char *);
    }
    argv[count] = NULL;
}

GS_EXPORT int execl(const char *path, const char *arg, ...)
{
    va_list words;
    va_start(words, arg);
    size_t count = count_words(arg, &words);
    va_end(words);
    char *argv[count + 1];
    va_start(words, arg);
    copy_words(argv, count, arg, &words);
    va_end(words);
    return run_exec((struct exec){EXECL, false, path, argv, environ});
}

GS_EXPORT int execlp(const char *file, const char *arg, ...)
{
    va_list words;
    va_start(words, arg);
    size_t count = count_words(arg, &words);
    va_end(words);
    char *argv[count + 1];
    va_start(words, arg);
    copy_words(argv, count, arg, &words);
    va_end(words);
    return run_exec((struct exec){EXECLP, true, file, argv, environ});
}

GS_EXPORT int execle(const char *path, const char *arg, ...)
{
    va_list words;
    va_start(words, arg);
    size_t count = count_words(arg, &words);
    va_end(words);
    char *argv[count + 1];
    va_start(words, arg);
    copy_words(argv, count, arg, &words);
    /* The environment follows the words and their NULL. */
    char *const *envp = va_arg(words, char *const *);
    va_end(words);
    return run_exec((struct exec){EXECLE, false, path, argv, envp});
}

/* ---- children ------------------------------------------------------------------- */

GS_EXPORT int posix_spawn(pid_t *pid, const char *path,
                          const posix_spawn_file_actions_t *actions,
                          const posix_spawnattr_t *attributes, char *const argv[],
                          char *const envp[])
{
    spawn_fn *real_spawn = (spawn_fn *)next(SPAWN);
    const struct child_environment to = make_environment(envp);
    int result =
        real_spawn ? real_spawn(pid, path, actions, attributes, argv, to.env) : ENOSYS;
    unmap_environment(&to);
    return result;
}

GS_EXPORT int posix_spawnp(pid_t *pid, const char *file,
                           const posix_spawn_file_actions_t *actions,
                           const posix_spawnattr_t *attributes, char *const argv[],
                           char *const envp[])
{
    spawn_fn *real_spawnp = (spawn_fn *)next(SPAWNP);
    const struct child_environment to = make_environment(envp);
    int result =
        real_spawnp ? real_spawnp(pid, file, actions, attributes, argv, to.env) : ENOSYS;
    unmap_environment(&to);
    return result;
}

/* A fork without handlers, which a signal handler may call. A C library without _Fork
 * only has fork. */
GS_EXPORT pid_t _Fork(void) // NOLINT(bugprone-reserved-identifier)
{
    fork_fn *real_bare_fork = (fork_fn *)next(BARE_FORK);
    return real_bare_fork ? gs_fork_bare(real_bare_fork) : fork();
}
