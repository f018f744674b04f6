# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# coexistence.sh - the library beside tools and others that reach into the same process:
# memory checkers, profilers, sanitizers, hooks of dlsym, patched code, allocators, crowds
# of processes, Python's workers.

# A memory checker sees each allocation of the program, as natively.
# checker_case PROGRAM SETTING...: the setting that brings it in
checker_case() {
  local program=$apps/$1 calls

  need_file "$apps/libsanitizer-collection.so"
  shift
  run_in native CUDASIM_LOG=2 -- "$program"
  run_in shim CUDASIM_LOG=2 "$@" -- "$program"
  expect_same native shim
  expect_text shim.err '^gpushim: libsanitizer-collection.so checks .*GPUSHIM_POOL=on'
  for calls in cuMemAlloc_v2 cuMemFree_v2; do
    expect_equal "$calls" "$(driver_calls native.err $calls)" "$(driver_calls shim.err $calls)"
  done
  [[ $(driver_calls native.err cuMemAlloc_v2) -gt 0 ]] || fail "no call is in the driver's log"
  expect_text shim.err 'SUMMARY: gpushim: '
}
checker=$apps/libsanitizer-collection.so
add_case "beside a memory checker preloaded" checker_case pipeline_linked \
  LD_PRELOAD="$shim:$checker"
add_case "beside a memory checker in front" checker_case pipeline_static \
  LD_PRELOAD="$checker:$shim"
add_case "beside a memory checker by the driver" checker_case pipeline_shared \
  LD_PRELOAD="$shim" CUDA_INJECTION64_PATH="$checker"
add_case "beside a memory checker by NVTX" checker_case threads_linked \
  LD_PRELOAD="$shim" NVTX_INJECTION64_PATH=libsanitizer-collection.so

# Who asks for the pool keeps it; a profiler minds no pool.
# keeps_pool_case SETTING...
keeps_pool_case() {
  need_file "$apps/libprofiler.so"
  native native "$apps/pipeline_linked"
  run_in shim LD_PRELOAD="$shim:$checker" GPUSHIM_POOL=on GPUSHIM_VERBOSE=2 -- \
    "$apps/pipeline_linked"
  expect_same native shim
  expect_text shim.err 'started .*pool on'
  # The launcher writes such a list to leave something out.
  run_in less LD_PRELOAD="$shim:$checker" GPUSHIM_POOL=device,managed GPUSHIM_VERBOSE=2 -- \
    "$apps/pipeline_linked"
  expect_same native less
  expect_text less.err 'started .*pool off'
  run_in profiled LD_PRELOAD="$shim" CUDA_INJECTION64_PATH="$apps/libprofiler.so" \
    GPUSHIM_VERBOSE=2 -- "$apps/pipeline_linked"
  expect_same native profiled
  expect_text profiled.err 'started .*pool on'
}
add_case "beside a memory checker, pool asked for" keeps_pool_case

# Tools that look for races, with the file for them: none in a program that has none. Seen here
# alone: a race that they find in code which is not in libgpushim.so, such as the C library's.
# race_tool_case TOOL
race_tool_case() {
  local supp=$sources/scripts/package/valgrind.supp

  need valgrind
  run_in native CUDASIM_MEMORY=64M CUDASIM_DEVICES=1 -- \
    valgrind --tool="$1" --error-exitcode=99 "$apps/handover_linked"
  ! grep -qs 'debuginfo reader: ' native.err || skip "a Valgrind that reads this compiler's debug information"
  expect_status native 0
  run_in shim CUDASIM_MEMORY=64M CUDASIM_DEVICES=1 LD_PRELOAD="$shim" -- valgrind -v --tool="$1" \
    --error-exitcode=99 --suppressions="$supp" --log-file=tool.log "$apps/handover_linked"
  expect_same native shim
  expect_clean shim.err
  expect_text tool.log 'used_suppression: +[0-9]+ gpushim: ' # without the file these are errors
}
add_case "beside Helgrind" race_tool_case helgrind
add_case "beside DRD" race_tool_case drd

# Another dlsym, in front of ours or behind. What it counts natively it counts with us in
# front or behind, but for the look-ups behind: ours answers what it has to answer.
# hooks_case PROGRAM ORDER
hooks_case() {
  local hooks=$apps/libhooksdlsym.so order

  need_file "$hooks"
  case $2 in
    front) order=$hooks:$shim ;;
    behind) order=$shim:$hooks ;;
  esac
  run_in native LD_PRELOAD="$hooks" HOOKS_COUNTS=native.counts -- "$apps/$1"
  run_in shim LD_PRELOAD="$order" HOOKS_COUNTS=shim.counts -- "$apps/$1"
  expect_same native shim
  case $1 in
    leaky*) expect_leaks shim.err "$sources/tests/apps/leaky.c" ;;
    *) expect_clean shim.err ;;
  esac
  [[ $2 == behind ]] || expect_equal "what it saw" "$(<native.counts)" "$(<shim.counts)"
}
for program in leaky_dlsym leaky_linked pipeline_shared pinned_static async_proc; do
  add_case "beside another dlsym in front $program" hooks_case "$program" front
  add_case "beside another dlsym behind $program" hooks_case "$program" behind
done

# Functions patched in place, found by RTLD_NEXT (as UCX finds them) and by RTLD_DEFAULT. Both
# patchers see every call of the program.
patched_case() {
  local patcher=$apps/libpatcher.so program=$apps/pipeline_linked

  need_file "$patcher"
  native native "$program"
  run_in alone LD_PRELOAD="$patcher" PATCHER_COUNTS=alone.counts -- "$program"
  expect_same native alone
  expect_text alone.counts '^allocs [1-9]'
  run_in behind LD_PRELOAD="$shim:$patcher" PATCHER_COUNTS=behind.counts -- "$program"
  expect_same native behind
  expect_clean behind.err
  cmp alone.counts behind.counts || fail "calls of the program were not all seen by RTLD_NEXT"
  run_in ours LD_PRELOAD="$shim:$patcher" PATCHER_DEFAULT=1 PATCHER_COUNTS=ours.counts -- \
    "$program"
  expect_same native ours
  expect_clean ours.err
  cmp alone.counts ours.counts || fail "calls of the program were not all seen"
}
add_case "beside patched functions" patched_case

# A program built for AddressSanitizer, whose runtime wants to be first.
asan_case() {
  local runtime

  need_file "$apps/beside/asan_leaky"
  runtime=$(ldd "$apps/beside/asan_leaky" | sed -nE 's/.*(lib(clang_rt\.)?asan[^ ]*) => ([^ ]*) .*/\3/p')
  run_in native ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=1 -- "$apps/beside/asan_leaky"
  run_in shim ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=1 \
    LD_PRELOAD="${runtime:+$runtime:}$shim" -- "$apps/beside/asan_leaky"
  expect_same native shim
  expect_leaks shim.err "$sources/tests/apps/leaky.c"
  run_in launched ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=1 -- \
    "$sources/scripts/gpushim" --library "$shim" -- "$apps/beside/asan_leaky"
  expect_same native launched
}
add_case "beside AddressSanitizer" asan_case

# Allocators that replace malloc, where they are installed.
# malloc_case LIBRARY
malloc_case() {
  local library

  library=$(ldconfig -p 2>/dev/null | sed -nE "s/^\t$1[^ ]* .*=> (.*)/\1/p" | head -n 1)
  [[ -n $library ]] || skip "$1"
  native native "$apps/threads_shared"
  run_in shim LD_PRELOAD="$shim:$library" -- "$apps/threads_shared"
  expect_same native shim
  expect_clean shim.err
  run_in front LD_PRELOAD="$library:$shim" -- "$apps/threads_shared"
  expect_same native front
  expect_clean front.err
}
add_case "beside jemalloc" malloc_case libjemalloc.so
add_case "beside tcmalloc" malloc_case libtcmalloc_minimal.so

# Many processes that start at once: each has its own report and the native status.
crowd_of_processes_case() {
  local count

  count=$(sized 50 300)

  native native "$apps/leaky_static"
  cat >start <<'EOF'
for i in $(seq "$2"); do
  ("$1" >"$i.o" 2>"$i.e"; echo "$?" >"$i.s") &
done
wait
EOF
  preloaded shim GPUSHIM_SYMBOLIZE=off -- bash start "$apps/leaky_static" "$count"
  expect_status shim 0
  expect_equal "statuses" "$count $(<native.status)" "$(cat ./*.s | sort | uniq -c | xargs)"
  expect_equal "outputs" 1 "$(cat native.out >native.o && md5sum ./*.o | cut -d' ' -f1 | sort -u | wc -l)"
  expect_equal "reports" "$count" "$(cat ./*.e | grep -cE 'SUMMARY: gpushim: 0 errors, .* leaked')"
}
add_case "beside many processes" crowd_of_processes_case

# Python's multiprocessing, by each of its ways.
# python_case WAY
python_case() {
  need python3
  need_file "$cuda_path/libcudart.so.13"
  same_as_native -- python3 -S "$sources/tests/apps/beside/workers.py" "$1"
  expect_only_report shim.err
  # Four workers and the first process, each with what it kept.
  expect_count shim.err 'SUMMARY: gpushim: 0 errors, 128 KiB leaked in 1 allocation' 5
}
for way in fork spawn forkserver; do
  add_case "beside Python $way" python_case "$way"
done

# A second copy of the library, by another name: each is told of the other, and neither owns
# what the program allocates.
library_twice_case() {
  cp "$shim" other.so
  native native "$apps/leaky_$1"
  run_in shim LD_PRELOAD="$2" -- "$apps/leaky_$1"
  expect_same native shim
  expect_count shim.err '^gpushim: another copy of this library is loaded, too: ' 1
  expect_text shim.err "^==[0-9]+==   leaky_$1 .* MiB +6\$"
  expect_count shim.err '^==[0-9]+==   (other|libgpushim)[.]so ' 0
  grep -v '^gpushim: ' shim.err >rest
  expect_leaks rest "$sources/tests/apps/leaky.c"
}
for way in shared linked; do
  add_case "beside a copy of the library $way" library_twice_case "$way" "$shim:./other.so"
  add_case "beside a copy of the library in front $way" library_twice_case "$way" "./other.so:$shim"
done

# ---- programs built with a sanitizer ----------------------------------------------------

# Its functions are looked up by dlsym before any constructor has run. sanitized_program_case NAME
sanitized_program_case() {
  need gcc
  cat >program.c <<'C'
#include <cuda.h>
#include <stdio.h>
int main(void)
{
    CUdevice device;
    CUcontext context;
    CUdeviceptr memory;
    int failed = cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
                 cuCtxSetCurrent(context) || cuMemAlloc(&memory, 1 << 20) || cuMemFree(memory);
    printf("%d\n", failed);
    return failed;
}
C
  gcc "-fsanitize=$1" -I"${CUDA_PATH:-/usr/local/cuda}/include" program.c -o program -L"$build/sim" -lcuda 2>gcc.log ||
    skip "a program built with -fsanitize=$1: $(tail -n 1 gcc.log)"
  native native ./program
  expect_status native 0
  preloaded shim GPUSHIM_ENABLE="$2" -- ./program
  expect_same native shim
}
for value in on off; do
  add_case "beside ThreadSanitizer, the program's own, $value" sanitized_program_case thread $value
  add_case "beside UndefinedBehaviorSanitizer, the program's own, $value" sanitized_program_case undefined $value
done

# What the library itself reads and writes by the C library, its locks and its own memory, and the memory that its
# pool passes on, are no finding of the program's sanitizer. The threads make the first calls of CUDA, at once; their
# pinned blocks come from one another, the device's are freed by a thread other than the one that took them, while
# work is submitted; the leak makes a report with names. Alone sees: a report that MemorySanitizer ends, a pinned block
# whose return ThreadSanitizer has not heard of, a lock that one thread has made and another takes, memory of the
# library that another thread gives back. With -DALONE the locks of the simulated driver, which order what the threads
# do, are not seen either. sanitized_threads_case COMPILER NAME FLAG [VARIABLE...]
sanitized_threads_case() {
  need "$1"
  cat >threads.c <<'C'
#include <pthread.h>
#include <stdio.h>
#include <string.h>
extern int cudaMalloc(void **, size_t), cudaFree(void *), cudaMallocHost(void **, size_t), cudaFreeHost(void *),
    cudaMallocManaged(void **, size_t, unsigned), cudaStreamCreate(void **), cudaStreamDestroy(void *),
    cudaMemsetAsync(void *, int, size_t, void *);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *passed[64];
/* Races of the simulated driver itself. */
#ifdef ALONE
#define WHAT "called_from_lib:"
#define WRITE(block, bytes) (void)(block)
#else
#define WHAT "race:"
#define WRITE(block, bytes) memset(block, 1, bytes)
#endif
const char *__tsan_default_suppressions(void)
{
    return WHAT "libcuda.so\n" WHAT "libcudart.so\n";
}
static int pass_on(size_t i, void *stream)
{
    void *block, *other;
    if (cudaMalloc(&block, i * 7919 % 100000 + 1) || cudaMemsetAsync(block, 1, 1, stream))
        return 1;
    pthread_mutex_lock(&lock);
    other = passed[i % 64];
    passed[i % 64] = block;
    pthread_mutex_unlock(&lock);
    return cudaFree(other);
}
static void *work(void *number)
{
    void *pinned, *managed, *stream;
    if (cudaStreamCreate(&stream))
        return NULL;
    for (size_t i = 0; i < 200; i++) {
        if (cudaMallocHost(&pinned, i * 100 + 1))
            return NULL;
        WRITE(pinned, i * 100 + 1);
        if (pass_on(i, stream) || cudaFreeHost(pinned))
            return NULL;
    }
    for (int i = 0; i < 50; i++) {
        if (cudaMallocManaged(&managed, 1000, 1))
            return NULL;
        WRITE(managed, 1000);
        if (cudaFree(managed))
            return NULL;
    }
    return cudaStreamDestroy(stream) ? NULL : number;
}
int main(void)
{
    pthread_t threads[6];
    void *leak, *done;
    for (int i = 0; i < 18; i++) { /* six, three times */
        if (i % 6 == 0)
            for (int k = 0; k < 6; k++)
                pthread_create(&threads[k], NULL, work, threads);
        pthread_join(threads[i % 6], &done);
        printf("%d\n", done == threads);
    }
    for (int i = 0; i < 64; i++)
        cudaFree(passed[i]);
    return cudaMalloc(&leak, 1 << 20);
}
C
  "$1" -g "-fsanitize=$2" "$3" threads.c -o threads -L"$build/sim" -lcudart -lpthread 2>gcc.log ||
    skip "a program built with -fsanitize=$2 by $1: $(tail -n 1 gcc.log)"
  native native ./threads
  expect_status native 0
  preloaded shim "${@:4}" -- ./threads
  expect_same native shim
  expect_text shim.err 'LEAK 1: 1.00 MiB in 1 allocation '
  sed -i '/^LLVMSymbolizer: error reading file/d' shim.err # of the vdso: frames of what is suppressed
  expect_only_report shim.err
}
for compiler in gcc clang; do
  add_case "beside ThreadSanitizer of $compiler, threads" sanitized_threads_case $compiler thread -UALONE
  add_case "beside ThreadSanitizer of $compiler, threads and a state file" sanitized_threads_case $compiler thread \
    -UALONE GPUSHIM_STATE_FILE=state
  add_case "beside ThreadSanitizer of $compiler, threads, lazy" sanitized_threads_case $compiler thread -UALONE \
    GPUSHIM_FREE_SYNC=lazy
  add_case "beside ThreadSanitizer of $compiler, no locks seen" sanitized_threads_case $compiler thread -DALONE
  add_case "beside ThreadSanitizer of $compiler, no locks seen, lazy" sanitized_threads_case $compiler thread -DALONE \
    GPUSHIM_FREE_SYNC=lazy
done
add_case "beside MemorySanitizer, threads" sanitized_threads_case clang memory -UALONE
add_case "beside MemorySanitizer, threads, sampled" sanitized_threads_case clang memory -UALONE \
  GPUSHIM_INTERVAL=20ms GPUSHIM_CHECK=args,churn

# What stands in front of the C library with the interface of ThreadSanitizer sees none of the library's reads and
# writes once it has started, to the end of its report; without that interface it sees them. plain_calls_case SEEN [FLAG]
plain_calls_case() {
  need gcc
  cat >counts.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
extern int cudaMalloc(void **, size_t), cudaFree(void *);
static void *library; /* its first address, once it has started */
static unsigned long seen;
static void count(void *caller)
{
    Dl_info of;
    if (library && dladdr(caller, &of) && of.dli_fbase == library)
        seen++;
}
#define COUNT() count(__builtin_return_address(0))
#define CHARS(name) ((const unsigned char *)(name))
void *memcpy(void *to, const void *from, size_t n)
{
    COUNT();
    for (size_t i = 0; i < n; i++)
        ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}
void *memset(void *to, int value, size_t n)
{
    COUNT();
    for (size_t i = 0; i < n; i++)
        ((volatile char *)to)[i] = (char)value;
    return to;
}
int memcmp(const void *a, const void *b, size_t n)
{
    size_t i = 0;
    COUNT();
    while (i < n && CHARS(a)[i] == CHARS(b)[i])
        i++;
    return i < n ? CHARS(a)[i] - CHARS(b)[i] : 0;
}
size_t strlen(const char *text)
{
    size_t n = 0;
    COUNT();
    while (((volatile const char *)text)[n])
        n++;
    return n;
}
int strcmp(const char *a, const char *b)
{
    size_t i = 0;
    COUNT();
    while (a[i] && a[i] == b[i])
        i++;
    return CHARS(a)[i] - CHARS(b)[i];
}
char *strchr(const char *text, int wanted)
{
    COUNT();
    while (*text && *text != (char)wanted)
        text++;
    return *text == (char)wanted ? (char *)text : NULL;
}
#ifdef ANNOTATED
void AnnotateHappensBefore(const char *f, int l, const void *key) { (void)f, (void)l, (void)key; }
void AnnotateHappensAfter(const char *f, int l, const void *key) { (void)f, (void)l, (void)key; }
void AnnotateIgnoreReadsBegin(const char *f, int l) { (void)f, (void)l; }
void AnnotateIgnoreReadsEnd(const char *f, int l) { (void)f, (void)l; }
void AnnotateIgnoreWritesBegin(const char *f, int l) { (void)f, (void)l; }
void AnnotateIgnoreWritesEnd(const char *f, int l) { (void)f, (void)l; }
#endif
__attribute__((destructor)) static void say(void)
{
    dprintf(1, "%s\n", seen ? "seen" : "unseen");
}
int main(void)
{
    void *block, *leak;
    Dl_info of;
    if (cudaMalloc(&leak, 1 << 20))
        return 1;
    void *function = dlsym(RTLD_DEFAULT, "gpushim_functions");
    if (function && dladdr(function, &of))
        library = of.dli_fbase;
    /* A call stack of a new library's time: the library reads the names of modules. */
    if (!dlopen("libresolv.so.2", RTLD_NOW) || cudaMalloc(&block, 1000) || cudaFree(block))
        return 2;
    return 0;
}
C
  gcc -O1 -fno-builtin -rdynamic "${@:2}" counts.c -o counts -L"$build/sim" -lcudart -ldl 2>gcc.log || skip "gcc"
  preloaded shim GPUSHIM_REPORT_ON=exit GPUSHIM_CHECK=all GPUSHIM_STATE_FILE=state -- ./counts
  expect_status shim 0
  expect_text shim.out "^$1\$"
  expect_text shim.err 'LEAK 1: 1.00 MiB in 1 allocation '
}
add_case "beside what sees the reads of the C library" plain_calls_case seen
add_case "beside what sees the reads of the C library, as ThreadSanitizer" plain_calls_case unseen -DANNOTATED
