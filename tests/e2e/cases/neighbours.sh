# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# neighbours.sh - beside other preloaded libraries that wrap the C library: none of their wrappers is called during a
# fork, when they may hold a lock, nor when their destructors have run. Real ones, and one that ends the process.

wraps=$apps/libwraps.so

# The library imports no function that others wrap (tests/apps/beside/wraps.def).
wrapped_imports_case() {
  local wrapped

  need_file "$shim"
  nm -D --undefined-only "$shim" | awk '{ print $2 }' | sed 's/@.*//' | sort >imports
  sed -n 's/^WRAPPED(\(.*\))$/\1/p' "$sources/tests/apps/beside/wraps.def" | sort >wrapped
  wrapped=$(comm -12 imports wrapped)
  expect_equal "imports that others wrap" "" "$wrapped"
}
if [[ ${sanitized:-no} == no ]]; then
  add_case "neighbours: imports" wrapped_imports_case
fi

# The wrappers see no call in a phase in which they could not answer.
# wraps_case PROGRAM [ARGUMENT...]
wraps_case() {
  need_file "$wraps"
  run_in native LD_PRELOAD="$wraps" -- "$@"
  run_in shim LD_PRELOAD="$wraps:$shim" -- "$@"
  expect_same native shim
  expect_no_text shim.err '^wraps: '
}
for program in leaky_shared leaky_linked threads_linked fork_linked forkrace_linked barefork_linked; do
  case $program in
    forkrace_linked) add_case "neighbours: wrappers, $program" wraps_case "$apps/$program" calls ;;
    *) add_case "neighbours: wrappers, $program" wraps_case "$apps/$program" ;;
  esac
done
add_case "neighbours: wrappers, a shell" wraps_case bash -c '(true); echo "$(echo forked)"'

# A library's own getauxval finds the C library's by dlsym, which may not ask for it: that would never end. Of the
# two orders each finds the next function by another way.
auxv_case() {
  local order

  need gcc
  cat >mask.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
typedef int visit(struct dl_phdr_info *, size_t, void *);
unsigned long getauxval(unsigned long type)
{
    static unsigned long (*next)(unsigned long);
    if (!next)
        next = (unsigned long (*)(unsigned long))dlsym(RTLD_NEXT, "getauxval");
    return next(type);
}
int dl_iterate_phdr(visit *one, void *data)
{
    static int (*next)(visit *, void *);
    if (!next)
        next = (int (*)(visit *, void *))dlsym(dlopen("libc.so.6", RTLD_LAZY), "dl_iterate_phdr");
    return next(one, data);
}
C
  gcc -shared -fPIC mask.c -o mask.so -ldl || fail "gcc"
  for order in ./mask.so:"$shim" "$shim":./mask.so; do
    run_in shim LD_PRELOAD="$order" -- "$apps/leaky_dlsym"
    expect_status shim 0
    expect_leaks shim.err "$sources/tests/apps/leaky.c"
  done
}
add_case "neighbours: another getauxval and dl_iterate_phdr" auxv_case

# Functions of the program's own that are not ready before its constructor; then as many calls as natively.
begins_late_case() {
  same_as_native GPUSHIM_LOG_FILE=log GPUSHIM_FOLLOW_CHILDREN=off -- "$apps/$1"
  expect_status shim 0
}
if [[ ${sanitized:-no} == no ]]; then
  for program in early_shared early_linked; do
    add_case "neighbours: functions that begin late, $program" begins_late_case "$program"
  done
fi

# Functions of the program's own that have names of the C library's and do something else: natively nobody calls them.
namesakes_case() {
  local include

  need gcc
  include=$(sed -n 's/^CUDA_INCLUDE_DIR:PATH=//p' "$build/CMakeCache.txt")
  cat >namesakes.c <<'C'
#include <cuda_runtime_api.h>
#include <stdio.h>
#define OWN(name) \
    long own_##name(long, long) __asm__(#name); \
    long own_##name(long a, long b) { puts("called: " #name); return a + b; }
OWN(tsearch) OWN(tfind) OWN(tdelete) OWN(twalk) OWN(memmem) OWN(memrchr) OWN(mempcpy) OWN(stpcpy) OWN(strcasestr)
OWN(strsep) OWN(reallocarray) OWN(shmat) OWN(shmctl) OWN(shmdt) OWN(sigpending) OWN(munlock)
int main(void)
{
    void *device, *managed, *pinned;
    printf("%d", cudaMalloc(&device, 1000));
    printf("%d", cudaMallocManaged(&managed, 100000, cudaMemAttachGlobal));
    printf("%d", cudaMallocHost(&pinned, 3 << 20));
    printf("%d%d%d\n", cudaFree(managed), cudaFreeHost(pinned), cudaFree(device));
    return cudaMalloc(&device, 5000);
}
C
  gcc -g -rdynamic -fno-builtin -I"$include" namesakes.c -o namesakes -L"$build/sim" -lcudart || fail "gcc"
  same_as_native GPUSHIM_LOG_FILE=log -- ./namesakes
  expect_status shim 0
  expect_text log 'LEAK 1: 4.88 KiB'
}
if [[ ${sanitized:-no} == no ]]; then
  add_case "neighbours: the program's own functions" namesakes_case
fi

# An allocator that replaces pthread_create too, as a sanitizer or a garbage collector: it sees the library's own
# threads, which allocate. Any other library sees none.
threads_seen_case() {
  local order native

  need gcc
  cat >threads.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <unistd.h>
typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int pthread_create(pthread_t *out, const pthread_attr_t *how, void *(*body)(void *), void *argument)
{
    (void)!write(1, "seen\n", 5);
    return ((create_fn *)dlsym(RTLD_NEXT, "pthread_create"))(out, how, body, argument);
}
#ifdef ALLOCATES
extern void *__libc_malloc(size_t);
void *malloc(size_t bytes)
{
    return __libc_malloc(bytes);
}
#endif
C
  gcc -shared -fPIC -fno-builtin threads.c -o threads.so -ldl || fail "gcc"
  gcc -shared -fPIC -fno-builtin -DALLOCATES threads.c -o allocates.so -ldl || fail "gcc"
  run_in native LD_PRELOAD=./threads.so -- "$apps/leaky_shared"
  native=$(grep -c '^seen$' native.out)
  for order in "./%s:$shim" "$shim:./%s"; do
    # shellcheck disable=SC2059  # the order is the format
    run_in apart LD_PRELOAD="$(printf "$order" threads.so)" -- "$apps/leaky_shared"
    expect_count apart.out '^seen$' "$native"
    # shellcheck disable=SC2059
    run_in allocates LD_PRELOAD="$(printf "$order" allocates.so)" -- "$apps/leaky_shared"
    [[ $(grep -c '^seen$' allocates.out) -gt $native ]] || fail "the library's threads are not seen"
  done
}
if [[ ${sanitized:-no} == no ]]; then
  add_case "neighbours: who sees the library's threads" threads_seen_case
fi

# Files and lines too: the report has them as without the wrappers.
wraps_report_case() {
  need_file "$wraps"
  run_in shim LD_PRELOAD="$wraps:$shim" GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=r.json GPUSHIM_STATE_FILE=state \
    GPUSHIM_TRACE_FILE=trace -- "$apps/leaky_linked"
  expect_leaks shim.err "$sources/tests/apps/leaky.c"
  expect_no_text shim.err '^wraps: '
  [[ -s r.json && -s state && -s trace ]] || fail "a file is missing"
}
add_case "neighbours: wrappers, all files" wraps_report_case

# A published library, in front and behind: the program's output, status and report are as without it.
# published_case FILE [VAR=value...]
published_case() {
  local library order

  library=$(find /usr/lib -name "$1" -print -quit 2>/dev/null)
  [[ -n $library ]] || skip "no $1"
  for order in "$library:$shim" "$shim:$library"; do
    run_in shim LD_PRELOAD="$order" "${@:2}" -- "$apps/leaky_shared"
    expect_status shim 0
    expect_leaks shim.err "$sources/tests/apps/leaky.c"
    run_in forks LD_PRELOAD="$order" "${@:2}" -- "$apps/fork_linked"
    expect_status forks 0
    run_in shell LD_PRELOAD="$order" "${@:2}" -- bash -c '(true); echo forked'
    expect_equal "a shell's forks" forked "$(<shell.out)"
  done
}
add_case "neighbours: libfaketime" published_case libfaketime.so.1 FAKETIME=-10d
add_case "neighbours: libfaketime for threads" published_case libfaketimeMT.so.1 FAKETIME=-10d
add_case "neighbours: uid_wrapper" published_case libuid_wrapper.so UID_WRAPPER=1 UID_WRAPPER_ROOT=1
add_case "neighbours: fakeroot" published_case libfakeroot-sysv.so
add_case "neighbours: torsocks" published_case libtorsocks.so
add_case "neighbours: jemalloc" published_case libjemalloc.so.2
add_case "neighbours: tcmalloc" published_case libtcmalloc_minimal.so.4
add_case "neighbours: tcmalloc that checks" published_case libtcmalloc_minimal_debug.so.4
add_case "neighbours: eatmydata" published_case libeatmydata.so
add_case "neighbours: proxychains" published_case libproxychains.so.4 PROXYCHAINS_QUIET_MODE=1
add_case "neighbours: nss_wrapper" published_case libnss_wrapper.so
