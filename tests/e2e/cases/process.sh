# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# process.sh - how processes begin and end: fork, vfork, exec, the kinds of exit, and
# programs that never call CUDA.

# A child that used CUDA and its parent each have a clean report; the others have none.
# fork_case WAY
fork_case() {
  same_as_native -- "$apps/fork_$1"
  expect_only_report shim.err
  expect_no_text shim.err 'LEAK|ERROR'
  sed -nE 's/^==([0-9]+)== SUMMARY: .*/\1/p' shim.err | sort -u >reporters
  expect_count shim.err 'SUMMARY: gpushim: 0 errors, 0 B leaked' "$(wc -l <reporters)"
  [[ $(wc -l <reporters) -ge 2 ]] || fail "child and parent have not both reported"
}
for way in shared static linked; do
  add_case "process fork $way" fork_case "$way"
done

# glibc leaves such a child a lock of the loader's that nobody releases.
# fork_race_case WAY THREADS [WHAT OF CHILDREN]
fork_race_case() {
  same_as_native -- "$apps/forkrace_$1" "$2"
  expect_text shim.out "forkrace: every child ${3:-is refused}"
  expect_only_report shim.err
}
for way in shared static linked; do
  add_case "process fork among calls $way" fork_race_case "$way" calls
  add_case "process fork among look-ups $way" fork_race_case "$way" loader
done
# The shared and the static runtime load the driver then, and glibc's lock stays held in a child of that moment.
add_case "process fork among first calls" fork_race_case linked first ends

# Floating-point exceptions end a program that has them trapped, and it may read their flags: neither the report, nor
# what is computed before, raises one of its. Seen here alone: a quotient of the library's on a thread of the program.
# float_case [VARIABLE...]
float_case() {
  need gcc
  cat >floats.c <<'C'
#define _GNU_SOURCE
#include <fenv.h>
#include <stdio.h>
#define COPIED ((size_t)48 << 20)
extern int cudaMalloc(void **, size_t), cudaMallocHost(void **, size_t), cudaFree(void *);
extern int cudaMemcpy(void *, const void *, size_t, int), cudaDeviceReset(void);
static void copies(void)
{
    void *device = NULL, *host = NULL;
    if (cudaMalloc(&device, COPIED) != 0 || cudaMallocHost(&host, COPIED) != 0)
        return;
    for (size_t i = 1; i < 10; i++)
        (void)!cudaMemcpy(host, device, COPIED - i * 777, 2);
}
int main(void)
{
    void *block = NULL;
    int raised;
    feclearexcept(FE_ALL_EXCEPT);
    for (int trapped = 0; trapped < 2; trapped++) {
        if (trapped)
            feenableexcept(FE_ALL_EXCEPT);
        copies();
        for (size_t i = 1; i < 300; i++)
            if (cudaMalloc(&block, i * 1000) != 0 || (i % 3 != 0 && cudaFree(block) != 0))
                return 1;
        raised = cudaMalloc(&block, (size_t)1 << 40) == 2 && cudaDeviceReset() == 0 ? fetestexcept(FE_ALL_EXCEPT) : -1;
        printf("raised %d, trapped %d\n", raised, fegetexcept());
    }
    return cudaMalloc(&block, 1000);
}
C
  gcc floats.c -o floats -L"$build/sim" -lcudart -lm || fail "gcc"
  same_as_native "$@" -- ./floats
  expect_text shim.err 'LEAK 1: '
}
add_case "process with trapped floating-point exceptions" float_case
add_case "process with trapped floating-point exceptions, sampled" float_case GPUSHIM_STACK=sample:4K GPUSHIM_INTERVAL=20ms \
  GPUSHIM_OUTPUT=csv
add_case "process with trapped floating-point exceptions, pressure" float_case GPUSHIM_PRESSURE=warning:0.1=shrink:0.05
add_case "process with trapped floating-point exceptions, copies" float_case GPUSHIM_CHECK=transfers

# Nothing is said for a child that only execs.
# vfork_case WAY
vfork_case() {
  same_as_native -- "$apps/vfork_$1"
  expect_clean shim.err
}
for way in shared static linked; do
  add_case "process vfork $way" vfork_case "$way"
done

# A child by _Fork, of which no handler is told. Where the program records into a file, its
# pages are not the child's.
# bare_fork_case WAY REPORTS [VARIABLE...]
bare_fork_case() {
  same_as_native "${@:3}" -- "$apps/barefork_$1"
  grep -q 'no _Fork' native.out && skip "a C library with _Fork"
  expect_clean shim.err "$2"
}
for way in shared static linked; do
  add_case "process _Fork $way" bare_fork_case "$way" 2
  add_case "process _Fork and a state file $way" bare_fork_case "$way" 2 \
    GPUSHIM_STATE_FILE=state.%p
done

# Children by system calls, of which neither handlers nor wrappers are told: where the parent
# records into a file, or for the command, pages are missing in them. A child that allocates has
# a report of its own.
# raw_fork_case file|kept WAY REPORTS [MODE]
raw_fork_case() {
  if [[ $1 == file ]]; then
    same_as_native GPUSHIM_STATE_FILE=state.%p -- "$apps/rawfork_$2" "${@:4}"
  else
    native native "$apps/rawfork_$2" "${@:4}"
    run_in shim -- "$build/gpushim" "$apps/rawfork_$2" "${@:4}"
    expect_same native shim
  fi
  expect_clean shim.err "$3"
}
for place in file kept; do
  add_case "process raw forks $place" raw_fork_case "$place" static 1
  add_case "process raw forks that call CUDA $place linked" raw_fork_case "$place" linked 22 calls
  add_case "process raw forks that call CUDA $place shared" raw_fork_case "$place" shared 26 calls
done

# What programs have that are started: by every way, the library or not.
# children_case off: what is preloaded besides stays, and so do the variables.
children_case() {
  local way other=$apps/libnext.so

  need_file "$other"
  run_in shim LD_PRELOAD="$shim $other" GPUSHIM_FOLLOW_CHILDREN="$1" GPUSHIM_WORD=kept -- \
    "$apps/children"
  expect_status shim 0
  expect_quiet shim
  for way in execv execve execvp execvpe execl execlp execle fexecve execveat posix_spawn \
    posix_spawnp system popen; do
    if [[ $1 == off ]]; then
      expect_count shim.out "^children: $way: LD_PRELOAD $other, the library is not there, GPUSHIM_WORD kept\$" 1
    else
      expect_count shim.out "^children: $way: LD_PRELOAD $shim $other, the library is there, GPUSHIM_WORD kept\$" 1
    fi
  done
  expect_text shim.out '^children: syscall: .* the library is there, '
}
add_case "process children followed" children_case on
add_case "process children not followed" children_case off

# Nothing else is preloaded: the variable goes. A word that says neither: as ever.
children_alone_case() {
  preloaded shim GPUSHIM_FOLLOW_CHILDREN=off -- "$apps/children" execv
  expect_text shim.out ': LD_PRELOAD unset, the library is not there'
  preloaded bad GPUSHIM_FOLLOW_CHILDREN=never -- "$apps/children" execv
  expect_text bad.out 'the library is there'
  preloaded said GPUSHIM_FOLLOW_CHILDREN=never -- "$apps/pinned_shared"
  expect_count said.err '^gpushim: GPUSHIM_FOLLOW_CHILDREN=never: not a switch' 1
  preloaded vfork GPUSHIM_FOLLOW_CHILDREN=off -- "$apps/vfork_shared"
  native native "$apps/vfork_shared"
  expect_same native vfork
  expect_clean vfork.err
}
add_case "process children not followed, alone" children_alone_case

# ending_case END REPORTS: native status and output; that many reports, each with the leak.
ending_case() {
  same_as_native -- "$apps/oddities_static" "$1"
  expect_only_report shim.err
  expect_count shim.err '^==[0-9]+== gpushim [0-9.]+: ' "$2"
  expect_count shim.err 'SUMMARY: gpushim: 0 errors, 128 KiB leaked in 1 allocation' "$2"
  expect_count shim.err '#0 hold .*oddities[.]c:' "$2"
}
add_case "process returns from main" ending_case return 1
add_case "process exit in a thread" ending_case thread 1
add_case "process quick_exit" ending_case quick_exit 1
add_case "process _exit" ending_case _exit 1
add_case "process _Exit" ending_case _Exit 1
add_case "process exec of itself" ending_case exec 2
add_case "process pthread_exit of main" ending_case pthread_exit 1

# The first thread ends long before the others. Alone sees files looked for under the process's number, where it then
# has none.
first_thread_case() {
  touch begin more end
  preloaded shim GPUSHIM_VERBOSE=2 GPUSHIM_LEAK_SCAN=on GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=r.json \
    -- "$apps/attached_shared" . second
  expect_text shim.err '#0 keep_weights +attached[.]c:[0-9]+$'
  expect_no_text shim.err 'cannot be read'
  expect_text r.json '"program": "[^"]*/attached_shared"'
}
add_case "process without a first thread" first_thread_case
add_case "process abort" ending_case abort 0
add_case "process SIGKILL" ending_case sigkill 0

# The first thread ends, and the library's threads are the last: without their end the process
# would stay, and no signal but SIGKILL would end it. The report is that of exit, which the C
# library calls in the last thread: the first one, if the program has no other.
# last_thread_case APP ENDING
last_thread_case() {
  same_as_native -- "$apps/lastthread_$1" "$2"
  expect_only_report shim.err
  expect_count shim.err '^==[0-9]+== gpushim [0-9.]+: .* exit 0$' 1
  expect_count shim.err 'SUMMARY: gpushim: 0 errors, 4[.]00 KiB leaked in 1 allocation' 1
}
for way in shared linked; do
  for ending in alone worker late cancelled forked; do
    add_case "process last thread $way $ending" last_thread_case "$way" "$ending"
  done
done

# Other threads allocate and free while the process ends: the report is written once.
# threads_end_case WAY END
threads_end_case() {
  same_as_native GPUSHIM_PEAK_MAX=0 -- "$apps/atexit_threads_$1" "$2"
  expect_only_report shim.err
  expect_count shim.err '^==[0-9]+== SUMMARY: gpushim: 0 errors, ' 1
  expect_count shim.err '#0 main .*atexit_threads[.]c:' 1
}
for way in shared static linked; do
  for end in return exit quick_exit _exit; do
    add_case "process ends among calls $way $end" threads_end_case "$way" "$end"
  done
done

# All threads call exit at once: the first writes the report and the files, the others wait for
# it, and the state file has no ending before that.
# exits_at_once_case WAY END
exits_at_once_case() {
  local round ending=${2/together/exit}

  for round in 1 2 3 4 5; do
    rm -f state report.json
    same_as_native GPUSHIM_STATE_FILE=state GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=report.json \
      -- "$apps/atexit_threads_$1" "$2"
    expect_only_report shim.err
    expect_summary shim.err 0 12345 1 1
    [[ -s report.json ]] || fail "no report.json"
    grep -qaE "\b${ending/exit_quick/quick_exit} 9" state || fail "no ending in the state file"
  done
}
for way in shared static linked; do
  for end in together together_quick; do
    add_case "process threads end it at once $way $end" exits_at_once_case "$way" "$end"
  done
done

# execs_case WAY: the leak is reported before the exec; a program without CUDA follows. One with an
# environment of its own is out of sight, which is said.
execs_case() {
  local unseen=0

  same_as_native -- "$apps/execs_shared" "$1"
  [[ ! $1 =~ ^(execve|execvpe|execle|fexecve|execveat|execveat_open)$ ]] || unseen=1
  expect_count shim.err '^gpushim: exec .*: LD_PRELOAD is not in its environment: ' $unseen
  sed -i '/^gpushim: exec .*: LD_PRELOAD is not in its environment: /d' shim.err
  expect_only_report shim.err
  expect_count shim.err 'SUMMARY: gpushim: 0 errors, 128 KiB leaked in 1 allocation' 1
  expect_count shim.err '#0 hold .*execs[.]c:' 1
}
for way in execv execve execvp execvpe execl execlp execle fexecve execveat execveat_open \
  missing; do
  add_case "process $way" execs_case "$way"
done

# A library after this one stands for functions of the exec family and _Exit, and for no other; its execvp calls
# execve by name, which comes back to this one. It sees each call as natively, and the report is written once.
behind_library() {
  need gcc
  cat >behind.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
static void say(const char *name, char *const argv[])
{
    (void)!write(1, name, strlen(name));
    for (int i = 0; argv && argv[i]; i++) {
        (void)!write(1, " ", 1);
        (void)!write(1, argv[i], strlen(argv[i]));
    }
    (void)!write(1, "\n", 1);
}
int execv(const char *path, char *const argv[])
{
    say("behind execv", argv);
    return ((int (*)(const char *, char *const[]))dlsym(RTLD_NEXT, "execv"))(path, argv);
}
int execvp(const char *file, char *const argv[])
{
    say("behind execvp", argv);
    return execve(file, argv, environ);
}
#define TAKE_WORDS                                            \
    char *argv[100] = {(char *)arg};                          \
    va_list list;                                             \
    va_start(list, arg);                                      \
    for (int i = 0; argv[i] && i < 98; i++)                   \
        argv[i + 1] = va_arg(list, char *);                   \
    char *const *env = with_env ? va_arg(list, char *const *) : environ; \
    va_end(list)
#define LIST(name, by, env_given)                             \
    int name(const char *file, const char *arg, ...)          \
    {                                                         \
        const int with_env = env_given;                       \
        TAKE_WORDS;                                           \
        say("behind " #name, argv);                           \
        return by(file, argv, env);                           \
    }
LIST(execl, execve, 0)
LIST(execlp, execvpe, 0)
LIST(execle, execve, 1)
void _Exit(int status)
{
    say("behind _Exit", 0);
    ((void (*)(int))dlsym(RTLD_NEXT, "_Exit"))(status);
    __builtin_unreachable();
}
C
  gcc -shared -fPIC -fno-builtin behind.c -o behind.so -ldl || fail "gcc"
}

# A library's fork handler makes CUDA calls while other threads make the first ones of the process, whose look-ups
# wait for the fork: 100 ms for all, not each. Without the bound a run takes 6 s; with a lock of the simulated
# driver's around a fork it never ends.
fork_handler_case() {
  need gcc
  cat >handler.c <<'C'
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
extern int cudaMalloc(void **, size_t), cudaFree(void *);
static volatile int done;
static void use(void)
{
    void *block;
    cudaMalloc(&block, 1000);
    cudaFree(block);
}
static void *work(void *unused)
{
    while (!done)
        use();
    return unused;
}
int main(void)
{
    pthread_t threads[2];
    int status;
    pthread_atfork(use, use, NULL);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(7);
        waitpid(child, &status, 0);
        printf("child %d\n", WEXITSTATUS(status));
    }
    done = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
C
  gcc handler.c -o handler -L"$build/sim" -lcudart -lpthread || fail "gcc"
  same_as_native -- ./handler
  expect_status shim 0
}
add_case "process fork handlers that use CUDA" fork_handler_case

# execs_behind_case WAY
execs_behind_case() {
  behind_library
  run_in native LD_PRELOAD=./behind.so -- "$apps/execs_shared" "$1"
  run_in shim LD_PRELOAD="$shim:./behind.so" -- "$apps/execs_shared" "$1"
  expect_same native shim
  expect_count native.out "^behind $1 .*execs_shared arrived" 1
  expect_count shim.err 'SUMMARY: gpushim: 0 errors, 128 KiB leaked in 1 allocation' 1
}
for way in execv execvp execl execlp execle; do
  add_case "process $way, with a library behind" execs_behind_case "$way"
done

# More words than an execl passes on by itself arrive, by execve; and _Exit.
lists_behind_case() {
  local words

  behind_library
  words=$(printf '"%d", ' {1..80})
  printf '#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\nint main(void)\n{\n%s\n%s\n%s\n}\n' \
    "if (!fork()) return execl(\"/bin/echo\", \"echo\", $words (char *)0);" 'wait(0);' '_Exit(5);' >many.c
  gcc many.c -o many || fail "gcc"
  run_in shim LD_PRELOAD="$shim:./behind.so" -- ./many
  expect_status shim 5
  expect_count shim.out "^$(echo {1..80})\$" 1
  expect_count shim.out '^behind _Exit$' 1
}
add_case "process long execl and _Exit, with a library behind" lists_behind_case

# fakechroot is such a library: a program runs in a folder that it takes for the root.
fakechroot_case() {
  local library

  need fakechroot
  need gcc
  mkdir -p root/bin root/usr/bin
  printf '#!/bin/sh\necho inside\n' >root/usr/bin/inside
  chmod +x root/usr/bin/inside
  cp -L /bin/sh root/bin/
  ldd /bin/sh | sed -nE 's/.* (\/[^ ]+) \(0x.*/\1/p; s/^\t(\/[^ ]+) \(0x.*/\1/p' | sort -u |
    while read -r library; do mkdir -p "root$(dirname "$library")" && cp -L "$library" "root$library"; done
  cat >enter.c <<'C'
#include <stdio.h>
#include <unistd.h>
int main(void)
{
    char *argv[] = {"inside", NULL};
    if (chroot("root") || chdir("/"))
        return 2;
    execv("/usr/bin/inside", argv);
    perror("execv");
    return 1;
}
C
  gcc enter.c -o enter || fail "gcc"
  run_in native -- fakechroot ./enter
  expect_text native.out '^inside$'
  run_in shim -- fakechroot "$build/gpushim" ./enter
  expect_same native shim
}
add_case "process in fakechroot" fakechroot_case

# cancelled_case PROGRAM VARIABLE WAY...: a pending cancellation acts where it does natively.
cancelled_case() {
  local -x CUDASIM_MEMORY=512M # full soon

  [[ ${3-} != exit || -z ${E2E_COVERAGE-} ]] ||
    skip 'a build without gcov, which writes at exit and is cancelled there'
  same_as_native "$2" -- "$apps/$1" "${@:3}"
  expect_only_report shim.err
  expect_count shim.err 'SUMMARY: gpushim: ' 1
}
for setting in GPUSHIM_ENABLE=on GPUSHIM_FREE_SYNC=lazy GPUSHIM_POOL=off; do
  for way in shared linked; do
    for call in malloc malloc_host malloc_managed malloc_async mem_info host_register bad_free; do
      add_case "process cancelled first $call $way $setting" \
        cancelled_case "cancelled_$way" "$setting" first "$call"
    done
    for how in '' each full exit _exit quick_exit exec; do
      # shellcheck disable=SC2086 # none is no argument
      add_case "process cancelled ${how:-not} $way $setting" \
        cancelled_case "cancelled_$way" "$setting" $how
    done
  done
done

# Frees that look for what has been idle for long ask how much memory the machine has.
for way in shared linked; do
  add_case "process cancelled each $way trim" \
    cancelled_case "cancelled_$way" GPUSHIM_POOL_TRIM=1ms each
done

# What begins to be waited for with a second stream, in the lazy mode alone.
for way in shared linked; do
  add_case "process cancelled order $way" \
    cancelled_case "cancelled_$way" GPUSHIM_FREE_SYNC=lazy order
done

# A thread that waits for whichever child ends next is told of the program's own alone: then
# there is no helper for file and line, and the report says so.
# supervised_case WAY NOTES
supervised_case() {
  command -v llvm-symbolizer >/dev/null || need addr2line
  native native "$apps/supervised_shared" "$1"
  preloaded shim -- "$apps/supervised_shared" "$1"
  expect_status native 0
  expect_same native shim
  expect_only_report shim.err
  expect_count shim.err 'file and line are missing: a thread of the program waits for any child' "$2"
  expect_count shim.err '#0 hold .*supervised[.]c:' $((1 - $2))
  expect_count shim.err '#0 hold .*supervised_shared[+]0x' "$2"
}
for way in wait waitpid waitid; do
  add_case "process supervised $way" supervised_case "$way" 1
done
add_case "process supervised one" supervised_case one 0

# Death by SIGTERM keeps its status; a report is allowed, nothing else.
sigterm_case() {
  same_as_native -- "$apps/oddities_static" sigterm
  expect_only_report shim.err
}
add_case "process SIGTERM" sigterm_case

# plain_case ARGUMENT
plain_case() {
  same_as_native -- "$apps/plain" "$1"
  expect_quiet shim
}
for way in exit _exit exec fork spawn; do
  add_case "process without CUDA $way" plain_case "$way"
done

# Whichever allocation of the first call fails, the program goes on to its end: a library that
# could not be opened for lack of memory is as if nobody had asked for it.
# starved_case COUNT|thread [VARIABLE...]: so many fail; or all, in a thread's first call.
starved_case() {
  local nth

  for nth in {0..30}; do
    preloaded shim "${@:2}" -- "$apps/starved" "$nth" "$1"
    expect_status shim 0
  done
}
for way in auto unwind; do
  add_case "process malloc fails in the first call, $way" starved_case 1 GPUSHIM_STACK=$way
done
for way in auto unwind; do
  add_case "process malloc fails from the first call on, $way" starved_case 1000000 GPUSHIM_STACK=$way
done
for way in auto unwind libunwind; do
  add_case "process malloc fails in a thread's first call, $way" starved_case thread GPUSHIM_STACK=$way
done

# A handler that leaves the first call by siglongjmp leaves nothing half done.
jumps_case() {
  same_as_native GPUSHIM_PEAK_MAX=0 -- "$apps/jumps_linked"
  expect_equal "output" "jumps: 1" "$(<shim.out)"
  expect_only_report shim.err
  expect_count shim.err '#0 use +jumps[.]c:' 2
  expect_summary shim.err 0 2000 2 2
}
add_case "process jump out of the first call" jumps_case

# Ordinary commands of the system, preloaded.
commands_case() {
  preloaded shim -- sh -c 'ls / | grep -c . >/dev/null; (exit 3); echo "$?"; date -d @0 +%Y'
  expect_status shim 0
  expect_quiet shim
  expect_equal "output" $'3\n1970' "$(<shim.out)"
}
add_case "process shell and commands" commands_case

# A closed standard error is no reason to fail.
closed_stderr_case() {
  native native "$apps/pinned_shared"
  # shellcheck disable=SC2016  # expanded by the inner shell
  preloaded shim -- sh -c '"$0" 2>&-' "$apps/pinned_shared"
  expect_same native shim
}
add_case "process closed standard error" closed_stderr_case

# Only cudart is there, no driver: the program's own error, nothing of ours but a report.
no_driver_case() {
  mkdir only
  cp -P "$cuda_path"/libcudart.so* only/ 2>/dev/null || skip "a shared libcudart"
  run_in native LD_LIBRARY_PATH="$case_dir/only" -- "$apps/leaky_shared"
  run_in shim LD_LIBRARY_PATH="$case_dir/only" LD_PRELOAD="$shim" -- "$apps/leaky_shared"
  [[ $(<native.status) -ne 0 ]] || skip "a machine without a driver"
  expect_same native shim
  grep -vE '^(==[0-9]+==|gpushim: )' shim.err | diff native.err - ||
    fail "the program's own messages have changed"
}
add_case "process without a driver" no_driver_case

# The process ends, or becomes another program, in a handler that interrupts malloc: on the
# thread's own stack, on an alternate one of 16 KiB, and on one the kernel does not tell of.
# lastcall_case exit|exec own|alternate|disarmed [threads]
lastcall_case() {
  [[ ${3-} != threads || -z ${E2E_COVERAGE-} ]] ||
    skip 'a build without gcov, which allocates in the handler, at the end'
  local round

  for round in 1 2 3; do
    preloaded "shim$round" -- "$apps/lastcall_linked" "$@"
    expect_status "shim$round" 0
    expect_no_text "shim$round.err" 'SUMMARY'
    expect_text "shim$round.err" "^gpushim: no report: _?$1 .*was called in a signal handler\$"
  done
}
for how in exit exec; do
  for where in own alternate disarmed; do
    add_case "process $how in a handler, $where stack" lastcall_case $how $where
    add_case "process $how in a handler, $where stack, threads" lastcall_case $how $where threads
  done
done

# Where the C library searches without PATH, so does the look whether there is a program.
no_path_case() {
  preloaded shim -- "$apps/lastcall_linked" path
  expect_status shim 0
  expect_count shim.err 'SUMMARY: gpushim: 0 errors, 1000 B leaked in 1 allocation' 1
}
add_case "process execvp without PATH" no_path_case

# A new environment takes nothing of a small stack.
little_room_case() {
  preloaded shim GPUSHIM_FOLLOW_CHILDREN=off -- "$apps/lastcall_linked" spawn
  expect_status shim 0
  expect_equal "output" "lastcall: spawned" "$(<shim.out)"
}
add_case "process large environment, small stack" little_room_case

# CUDA calls in signal handlers, between the program's calls and amidst the library's own:
# the same data, no wait for oneself, nothing lost.
# handlers_case between|inside [VARIABLE...]
handlers_case() {
  same_as_native "${@:2}" -- "$apps/handlers_linked" "$1"
  expect_text shim.err '^handlers: [1-9][0-9]{2} interruptions$'
  grep -v '^handlers: ' shim.err >report.err
  expect_clean report.err
}
for where in between inside; do
  for mode in native lazy; do
    add_case "process calls in handlers $where $mode" handlers_case "$where" GPUSHIM_FREE_SYNC=$mode
  done
done
