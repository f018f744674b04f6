# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# small_stacks.sh - threads and fibers with as little stack as natively is enough: not a
# byte below it is written to, and calls and ends are as without the library.

rules() {
  local i

  for i in {1..40}; do
    echo "leak:no_such_function_$i"
  done
}

# small_stack_case WAY WHERE BYTES WHAT [VARIABLE...]
small_stack_case() {
  local what=()

  read -ra what <<<"$4"
  native native "$apps/smallstacks_$1" "$2" "$3" "${what[@]}"
  rules >rules.txt
  preloaded shim "${@:5}" -- "$apps/smallstacks_$1" "$2" "$3" "${what[@]}"
  expect_same native shim
  expect_text shim.out ' 0 bytes below the stack overwritten, ended by exit 7$'
}

# The report is there, and knows where the call was made.
# small_stack_report WAY WHERE BYTES WHAT FUNCTION [VARIABLE...]
small_stack_report() {
  small_stack_case "${@:1:4}" "${@:6}"
  expect_only_report shim.err
  expect_count shim.err 'SUMMARY: gpushim: ' 1
  expect_text shim.err "#0 $5  .*smallstacks.c"
}

small_calls="device managed async virtual graph frees bad_frees refused all_of_it"
small_ends="exit quick_exit _exit exec"

for way in shared static linked proc; do
  for where in thread fiber; do
    for what in pinned $small_ends; do
      add_case "small stacks $where $what $way" small_stack_case "$way" "$where" 16384 "$what"
    done
    for bytes in 16384 32768; do
      for what in device pinned exit; do
        add_case "small stacks $where of $bytes, first $what $way" small_stack_case "$way" "$where" \
          "$bytes" "first $what"
      done
    done
  done
done
for where in thread fiber; do
  for what in $small_calls; do
    add_case "small stacks $where $what" small_stack_case shared "$where" 16384 "$what"
  done
  for what in device pinned managed async virtual; do
    add_case "small stacks $where $what is named" small_stack_report linked "$where" 16384 \
      "$what" "leak_$what"
  done
done
for what in device pinned managed frees bad_frees; do
  add_case "small stacks fiber of 8192, $what" small_stack_case linked fiber 8192 "$what"
done

# small_stack_options NAME VARIABLE...
small_stack_options() {
  local where what

  for where in thread fiber; do
    for what in "first device" pinned exit; do
      add_case "small stacks $where $what, $1" small_stack_case shared "$where" 16384 "$what" "${@:2}"
    done
  done
}
small_stack_options outputs GPUSHIM_OUTPUT=json,pprof,collapsed,csv GPUSHIM_METRICS_FILE=m.%p.prom
# libunwind needs twice what other ways do.
add_case "small stacks thread bad_frees, stacks by libunwind" small_stack_case shared thread 16384 \
  bad_frees GPUSHIM_STACK=libunwind
for way in libunwind gcc cfi fp; do
  small_stack_options "stacks by $way" "GPUSHIM_STACK=$way"
done
small_stack_options "a log file" 'GPUSHIM_LOG_FILE=log.%p.%e.%q{LC_ALL}'
small_stack_options "a state file" GPUSHIM_STATE_FILE=state.%p
small_stack_options "a trace" GPUSHIM_TRACE_FILE=trace.%p
small_stack_options "a scan" GPUSHIM_LEAK_SCAN=on
small_stack_options "rules" GPUSHIM_SUPPRESSIONS=rules.txt
small_stack_options "red zones" GPUSHIM_CHECK=redzone:256,args,transfers,fill:zero,quarantine:64M
small_stack_options "lazy frees" GPUSHIM_FREE_SYNC=lazy
small_stack_options "a report of each reset" GPUSHIM_REPORT_ON=reset,oom GPUSHIM_VERBOSE=3

# A handler on an alternate stack of 8 KiB, of which its frame takes some 3.5: wrong frees there name what they were
# given. Alone sees: what only a free that is wrong needs beyond a right one; and the thread that a context's first
# allocation starts.
# small_handler_case [first]
small_handler_case() {
  need gcc
  cat >handler.c <<'C'
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#define BYTES 8192
extern int cudaMalloc(void **, size_t), cudaFree(void *), cudaStreamCreate(void **);
static int wrong;
static void handler(int number)
{
    void *block = NULL;
    volatile char of_its_own[256];
    of_its_own[0] = (char)number;
    (void)of_its_own[0];
    wrong += cudaMalloc(&block, 5000) != 0;
    wrong += cudaFree(block) != 0;
    wrong += cudaFree(block) != 1;
    wrong += cudaFree((void *)999) != 1;
}
int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    char *at = mmap(NULL, 4096 + BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = at + 4096, .ss_size = BYTES};
    void *block;
    if (sysconf(_SC_MINSIGSTKSZ) > 4096)
        return puts("no room"), 0;
    (void)argv;
    if (mprotect(at, 4096, PROT_NONE) != 0 || sigaltstack(&stack, NULL) != 0 ||
        (argc > 1 ? cudaStreamCreate(&block) : cudaMalloc(&block, 5000)) != 0)
        return 1;
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 3; i++)
        raise(SIGUSR1);
    printf("%d wrong answers\n", wrong);
    return 0;
}
C
  gcc handler.c -o handler -L"$build/sim" -lcudart || fail "gcc"
  native native ./handler "$@"
  grep -q 'no room' native.out && skip "a processor with small signal frames"
  expect_text native.out '^0 wrong answers$'
  preloaded shim -- ./handler "$@"
  expect_same native shim
  expect_text shim.err 'SUMMARY: gpushim: [1-9] errors'
}
add_case "small stacks handler of 8192, wrong frees" small_handler_case
add_case "small stacks handler of 8192, a context's first call" small_handler_case first

# The first thread's own stack: natively the program runs.
# small_main_case KIB
small_main_case() {
  same_as_native -- bash -c "ulimit -s $1; exec $apps/leaky_shared"
  expect_text shim.err 'SUMMARY: gpushim: 0 errors'
}
for kib in 24 48; do
  add_case "small stacks first thread with $kib KiB" small_main_case "$kib"
done

# Code that switches stacks by hand says nothing of it in its call frame information, by which a walk then leaves the
# stack: at its end, where nothing is mapped, to a page that a file does not have, or to any address. Alone sees: a
# signal in the walk of such a stack.
# switched_stack_case [VARIABLE...]
switched_stack_case() {
  need gcc
  [[ $(uname -m) == x86_64 ]] || skip "x86-64"
  cat >switched.c <<'C'
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
extern int cudaMalloc(void **, size_t), cudaFree(void *);
static void *leak;
static void work(void)
{
    void *block;
    printf("%d %d %d\n", cudaMalloc(&block, 1000), cudaFree(block), cudaMalloc(&leak, 5000));
}
__attribute__((noinline)) static void on_stack(char *top, void (*call)(void), unsigned long frame_pointer)
{
    __asm__ volatile("push %%rbp; mov %%rsp, %%r12; mov %%rdi, %%rsp; mov %%rdx, %%rbp; call *%%rsi;"
                     "mov %%r12, %%rsp; pop %%rbp"
                     : "+D"(top), "+S"(call), "+d"(frame_pointer)
                     :
                     : "r12", "rax", "rcx", "r8", "r9", "r10", "r11", "rbx", "r13", "r14", "r15", "memory", "cc");
}
int main(void)
{
    const size_t bytes = 1 << 18;
    int file = memfd_create("stack", 0);
    work();
    for (int way = 0; way < 4; way++) {
        int shared = way == 3 && ftruncate(file, bytes) == 0;
        char *stack = mmap(NULL, bytes + 8192, PROT_READ | PROT_WRITE,
                           shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, shared ? file : -1, 0);
        char *top = stack + bytes;
        if (way == 0)
            munmap(top, 8192);
        if (way == 1)
            mprotect(top, 8192, PROT_NONE);
        on_stack(top, work, way == 2 ? 0xdeadbeefdeadbeeful : way == 0 ? 0 : (unsigned long)top);
    }
    return 0;
}
C
  gcc -O1 -g -mno-red-zone -fno-omit-frame-pointer switched.c -o switched -L"$build/sim" -lcudart || fail "gcc"
  same_as_native "$@" -- ./switched
  expect_text shim.err 'work +switched\.c:'
}
for way in auto unwind fp; do
  add_case "small stacks switched by hand, $way" switched_stack_case GPUSHIM_STACK=$way
done
