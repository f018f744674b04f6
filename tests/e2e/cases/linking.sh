# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# linking.sh - the library among others: another preloaded library before and after it,
# weak references, look-ups.

uses cost

# next_case PROGRAM CALL: another wrapper library on either side of ours. CALL is one that
# it sees natively; none where the program finds its calls past all preloaded libraries.
next_case() {
  local program=$apps/$1 next=$apps/libnext.so

  need_file "$next"
  native native "$program"
  run_in alone NEXT_COUNTS=alone.counts LD_PRELOAD="$next" -- "$program"
  expect_same native alone
  [[ $2 == none ]] || expect_text alone.counts "^$2 [1-9]"
  run_in before NEXT_COUNTS=before.counts LD_PRELOAD="$next:$shim" -- "$program"
  expect_same native before
  expect_clean before.err
  run_in after NEXT_COUNTS=after.counts LD_PRELOAD="$shim:$next" -- "$program"
  expect_same native after
  expect_clean after.err
  # In front of ours it sees what it sees without ours.
  cmp -s alone.counts before.counts && return
  paste alone.counts before.counts
  fail "calls of a library in front are not those it has alone"
}
add_case "linking beside another library linked" next_case pipeline_linked cuMemAlloc_v2
add_case "linking beside another library shared" next_case pipeline_shared cudaMalloc
add_case "linking beside another library static" next_case pinned_static none
add_case "linking beside another library proc" next_case pinned_proc none

# Weak references are bound by the preload alone; a call through one must be harmless.
weak_case() {
  preloaded shim -- "$apps/weak"
  expect_status shim 0
  expect_text shim.out '^weak: cudaMalloc (absent|refuses)$'
  expect_text shim.out '^weak: cuMemAlloc (absent|refuses)$'
}
add_case "linking weak references" weak_case

# A call that the library knows and the driver does not have stays missing. Not so by
# RTLD_NEXT, which is never answered: there the library itself is next.
absent_case() {
  local name way

  need_file "$apps/unknown"
  for name in cuMemcpyWithAttributesAsync cuFabricCpyBatchAsync cuLaunchHostFunc_v2; do
    for way in dlsym proc; do
      same_as_native -- "$apps/unknown" "$way" "$name"
      expect_text native.out 'not found$'
    done
  done
}
add_case "linking calls the driver lacks" absent_case

# The library given twice, and by a path with a symbolic link.
twice_case() {
  native native "$apps/pipeline_shared"
  ln -s "$shim" again.so
  run_in shim LD_PRELOAD="$shim:$case_dir/again.so" -- "$apps/pipeline_shared"
  expect_same native shim
  expect_clean shim.err
}
add_case "linking preloaded twice" twice_case

# A real copy beside the first: two inodes, so two libraries in one process.
copies_case() {
  native native "$apps/pipeline_shared"
  cp "$shim" copy.so
  run_in shim LD_PRELOAD="$shim:$case_dir/copy.so" -- "$apps/pipeline_shared"
  expect_same native shim
  expect_count shim.err '^gpushim: another copy of this library is loaded, too: .*/copy[.]so; ' 1
  sed '/another copy of this library/d' shim.err >report.err
  expect_only_report report.err
  expect_no_text report.err 'LEAK|ERROR'
}
add_case "linking two copies" copies_case

# All symbols resolved at start.
bind_now_case() {
  same_as_native LD_BIND_NOW=1 -- "$apps/leaky_linked"
  expect_leaks shim.err "$sources/tests/apps/leaky.c"
}
add_case "linking LD_BIND_NOW" bind_now_case

# A driver whose cuGetProcAddress answers addresses of its own, which no export has.
# private_case PROGRAM
private_case() {
  run_in native CUDASIM_PRIVATE_ENTRIES=1 -- "$apps/$1"
  preloaded shim CUDASIM_PRIVATE_ENTRIES=1 -- "$apps/$1"
  expect_same native shim
  case $1 in
    leaky*) expect_leaks shim.err "$sources/tests/apps/leaky.c" ;;
    *) expect_clean shim.err ;;
  esac
}
for program in leaky_shared leaky_proc threads_static async_ptds pinned_proc; do
  add_case "linking private entry points $program" private_case "$program"
done

# A driver that is closed, and one that is opened after it: what is done is seen and
# pooled, and nothing of the first is called. A driver that was never initialized goes
# when it is closed; one that was stays.
# reopen_case WAY gone|still FIRST
reopen_case() {
  local first=$build/$3/libcuda.so.1

  need_file "$first"
  if [[ $1 != used ]]; then # natively that ends threads of the simulated driver
    native native "$apps/reopen" "$1" "$first"
  fi
  preloaded shim CUDASIM_LOG=2 -- "$apps/reopen" "$1" "$first"
  expect_status shim 0
  [[ $1 == used ]] || expect_same native shim
  expect_count shim.out '^reopen: dlerror is quiet$' "$(grep -c 'dlerror is quiet' shim.out)"
  expect_text shim.err "^reopen: $2"
  # A stub lacks what the library stands on: one line names what.
  [[ $3 != */stub-driver ]] || expect_count shim.err \
    '^gpushim: the CUDA driver has no cu[A-Za-z0-9]+: every call is passed on to it' 1
  [[ $1 != global ]] || expect_text shim.err '^reopen: cuInit by its name 0$'
  expect_text shim.err '^==[0-9]+== SUMMARY: gpushim: 0 errors, 1000 B leaked in 1 allocation,'
  [[ $(driver_calls shim.err cuMemAlloc) -le 2 ]] || fail "the second driver is not pooled"
}
add_case "linking a driver closed after use" reopen_case used still sim-closable
add_case "linking a driver closed unused" reopen_case asked gone sim-closable
# As NVIDIA's drivers 470, 535 and 555 (tests/drivers; 550 stays), the simulated one can be closed until then.
add_case "linking the simulated driver closed unused" reopen_case asked gone sim
add_case "linking a stub driver closed" reopen_case refused gone apps/stub-driver
add_case "linking a stub driver closed, the next by its name" reopen_case global gone apps/stub-driver

# A plug-in that comes to the place of another one has its own runtime, whoever has closed
# the other.
# place_taken_case LIBRARIES WAY held|gone plain|bare [LIBRARY]
place_taken_case() {
  local libraries=$1

  shift
  [[ "$1 $3 $libraries" == "called plain $shim" ]] || unsanitized
  native native "$apps/replaced" "$1" "$2" "$3"
  run_in shim LD_PRELOAD="$libraries" -- "$apps/replaced" "$@"
  expect_same native shim
  [[ $3 == bare ]] || expect_count native.out '^replaced: 2$' 15
  [[ $3 == bare ]] || expect_count native.out '^replaced: 2 as it goes$' 10
  [[ $3 == plain ]] || expect_count native.out '^replaced: 4$' 15
  expect_text shim.err '^replaced: [1-9][0-9]* at the place of another$'
}
for keep in held gone; do
  for way in called looked_up deepbind; do
    for parts in plain bare; do
      add_case "linking a plug-in replaced, $way $keep $parts" \
        place_taken_case "$shim" "$way" "$keep" "$parts"
    done
  done
  add_case "linking a plug-in replaced, a tool in front $keep" \
    place_taken_case "$apps/libreplaced_tool.so:$shim" called "$keep" plain
  # Where the library comes too late to be told who goes.
  add_case "linking a plug-in replaced, opened late $keep" \
    place_taken_case "" called "$keep" plain "$shim"
done

# Children that were made while another thread had the loader's lock.
forked_callers_case() {
  preloaded shim -- "$apps/replaced" forked
  expect_status shim 0
  expect_text shim.err '^replaced: 300 of 300 children$'
}
add_case "linking children beside plug-ins that come and go" forked_callers_case

# Two drivers at once: the first one's calls are the library's, and it says so.
both_drivers_case() {
  local one=$build/sim-closable/libcuda.so.1 other=$build/sim/libcuda.so.1

  need_file "$one"
  # The library and two simulated drivers need more thread-local memory than glibc keeps.
  same_as_native GLIBC_TUNABLES=glibc.rtld.optional_static_tls=8192 -- \
    "$apps/reopen" both "$one" "$other"
  expect_count shim.err '^gpushim: a second CUDA driver is loaded' 1
}
add_case "linking two drivers" both_drivers_case

# What a newer driver has and no table: found where it lies, and called as it is. So is a
# newer interface of a function that the tables know.
tomorrow_case() {
  local driver=$build/apps/stub-driver/libcuda.so.1

  need_file "$driver"
  same_as_native "$@" -- "$apps/tomorrow" "$driver"
  expect_text native.out '^tomorrow: proc cuMemAlloc of 99.0 is cuMemAlloc_v9 of libcuda.so.1$'
  expect_text shim.err '^tomorrow: cuMemAlloc of 12.0 is the same by both$'
}
add_case "linking functions of tomorrow" tomorrow_case

# Beside an audit library glibc keeps about 1,700 bytes for the thread-local data of every other library, the
# preloaded ones included; the same holds where the library is opened late. Natively there is room for the
# simulated driver's 840.
# audit_case PROGRAM
audit_case() {
  need gcc
  echo 'unsigned la_version(unsigned version) { return version; }' >audit.c
  gcc -shared -fPIC -o audit.so audit.c || fail "gcc cannot build the audit library"
  run_in native LD_AUDIT=./audit.so -- "$apps/$1"
  expect_status native 0
  run_in shim LD_AUDIT=./audit.so LD_PRELOAD="$shim" -- "$apps/$1"
  expect_same native shim
  expect_clean shim.err
}
for way in linked dlsym shared; do
  add_case "linking LD_AUDIT $way" audit_case "pinned_$way"
done

# The same next to a preloaded library with 1,100 bytes of its own, as several libraries have together. Natively
# there is room for 1,648; gpushim takes 472. With 728 the program does not start.
# audit_crowd_case PROGRAM
audit_crowd_case() {
  need gcc
  [[ $(uname -m) == x86_64 ]] || skip "x86-64, for which the sizes hold"
  echo 'unsigned la_version(unsigned version) { return version; }' >audit.c
  cat >crowd.c <<'EOF'
__attribute__((tls_model("initial-exec"))) _Thread_local char crowd[1100];
char *crowd_at(void) { return crowd; }
EOF
  gcc -shared -fPIC -o audit.so audit.c && gcc -shared -fPIC -o crowd.so crowd.c ||
    fail "gcc cannot build the libraries"
  run_in native LD_AUDIT=./audit.so LD_PRELOAD=./crowd.so -- "$apps/$1"
  expect_status native 0
  run_in shim LD_AUDIT=./audit.so LD_PRELOAD="$shim:./crowd.so" -- "$apps/$1"
  expect_same native shim
  expect_clean shim.err
}
for way in linked dlsym shared; do
  add_case "linking LD_AUDIT in a crowd, $way" audit_crowd_case "pinned_$way"
done

late_case() {
  need python3
  run_in shim -- python3 -S -c "import ctypes
ctypes.CDLL('$shim')
print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
  expect_equal "answer of cuInit" 0 "$(<shim.out)"
}
add_case "linking opened late, then the driver" late_case

# without_debug PROGRAM: a copy whose entry for debuggers, DT_DEBUG, is of another number, as -z rodynamic of lld
# leaves it out. Sets `copy`.
without_debug() {
  need python3
  copy=$case_dir/${1##*/}
  cp "$1" "$copy"
  python3 - "$copy" <<'END' || fail "$1 has no DT_DEBUG"
import struct, sys

with open(sys.argv[1], "r+b") as file:
    data = bytearray(file.read())
    word = "<" if data[5] == 1 else ">"
    at, size, count = struct.unpack_from(word + "Q", data, 32) + struct.unpack_from(word + "HH", data, 54)
    changed = 0
    for header in range(at, at + size * count, size):
        kind, _, begin = struct.unpack_from(word + "IIQ", data, header)
        if kind == 2:  # PT_DYNAMIC
            length = struct.unpack_from(word + "Q", data, header + 32)[0]
            for entry in range(begin, begin + length, 16):
                if struct.unpack_from(word + "Q", data, entry)[0] == 21:
                    struct.pack_into(word + "Q", data, entry, 0x6FFFFEF0)
                    changed += 1
    file.seek(0)
    file.write(data)
sys.exit(changed != 1)
END
}

# The linker's list is then found by another way; without it no CUDA, no program to start. Only this case
# would see a list that DT_DEBUG alone leads to.
no_debug_case() {
  local copy way

  without_debug "$apps/execs_shared"
  for way in execlp missing; do
    same_as_native -- "$copy" "$way"
    expect_text shim.err 'LEAK 1: 128 KiB in 1 allocation '
    expect_no_text shim.err 'no CUDA runtime'
  done
  without_debug "$apps/children"
  native native "$copy"
  preloaded shim GPUSHIM_WORD=kept -- "$copy"
  expect_status shim 0
  expect_quiet shim
  for way in execlp execvpe posix_spawn posix_spawnp; do
    expect_count shim.out "^children: $way: LD_PRELOAD $shim, the library is there, GPUSHIM_WORD kept\$" 1
  done
}
add_case "linking without DT_DEBUG" no_debug_case

# A library's constructor and destructor wait for a thread of their own that makes CUDA calls. dlopen and dlclose
# hold the loader's lock meanwhile. This case alone sees a call that takes this lock when the program has already
# used CUDA: then nothing ends.
waiting_constructor_case() {
  need gcc
  cat >part.c <<'C'
#include <pthread.h>
#include <stdio.h>
extern int cudaMalloc(void **, size_t), cudaFree(void *), cudaMallocHost(void **, size_t), cudaFreeHost(void *);
static void *use(void *unused)
{
    void *block, *pinned;
    printf("%d", cudaMalloc(&block, 1000));
    printf(" %d", cudaMallocHost(&pinned, 1000));
    printf(" %d", cudaFree(block));
    printf(" %d\n", cudaFreeHost(pinned));
    return unused;
}
static void use_in_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, use, NULL);
    pthread_join(thread, NULL);
}
__attribute__((constructor)) static void begin(void) { use_in_thread(); }
__attribute__((destructor)) static void end(void) { use_in_thread(); }
C
  cat >program.c <<'C'
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
extern int cudaMalloc(void **, size_t), cudaFree(void *), cudaMallocHost(void **, size_t), cudaFreeHost(void *);
int main(void)
{
    void *block, *pinned, *part;
    int failed = cudaMalloc(&block, 1000) || cudaFree(block) || cudaMallocHost(&pinned, 1000) || cudaFreeHost(pinned);
    alarm(20);
    part = dlopen("./part.so", RTLD_NOW);
    failed = failed || !part || dlclose(part);
    printf("%d\n", failed);
    return failed;
}
C
  gcc -shared -fPIC part.c -o part.so -L"$build/sim" -lcudart -lpthread || fail "gcc"
  gcc program.c -o program -L"$build/sim" -lcudart -ldl || fail "gcc"
  same_as_native -- ./program
  expect_status shim 0
  expect_clean shim.err
}
add_case "linking a constructor that waits for a thread" waiting_constructor_case
