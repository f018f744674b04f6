# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# chain.sh - what stands between the library and the driver: a driver that forwards to
# another, several files of a driver, a library that shares the GPU, a framework's
# trampolines, and modules whose look-ups go past the library.

chain=$sources/tests/apps/chain

# compile OUT SOURCE [OPTION...]: what follows -l stands last.
compile() {
  need gcc
  gcc -g -o "$1" "$chain/$2" "${@:3}" -lpthread -ldl || fail "gcc cannot build $2"
}

# forwarding FOLDER SONAME [SOURCE]: a driver that forwards to the simulated one, with the functions of a file.
forwarding() {
  need nm
  [[ $(uname -m) == x86_64 ]] || skip "x86-64, for which the driver that forwards is written"
  mkdir -p "$1"
  nm -D --defined-only "$build/sim/libcuda.so.1" |
    sed -n 's/.* T \(cu[A-Z][A-Za-z0-9_]*\).*/FORWARD(\1)/p' >names.h
  compile "$1/$2" forward.c "${@:3}" -shared -fPIC -I. -DINNER="\"$build/sim/libcuda.so.1\"" \
    -Wl,-soname,"$2"
}

# Two drivers, or the library and two, need more room for the simulated driver's thread-local memory.
room=GLIBC_TUNABLES=glibc.rtld.optional_static_tls=8192

# same_with [VAR=value...] -- COMMAND...: as same_as_native, with the variables in both runs; and as if
# the library were absent where it is switched off.
same_with() {
  local settings command

  split_settings "$@"
  run_in native "${settings[@]}" -- "${command[@]}"
  run_in shim "${settings[@]}" LD_PRELOAD="$shim" -- "${command[@]}"
  expect_same native shim
  run_in off "${settings[@]}" LD_PRELOAD="$shim" GPUSHIM_ENABLE=off -- "${command[@]}"
  expect_same native off
}

# A driver that forwards, whenever it opens the other one: every way to it is seen. Fails where a function is
# the driver's only if it lies in the driver's own file: the report is then empty.
# forward_case PROGRAM WHEN
forward_case() {
  forwarding front libcuda.so.1
  same_with FORWARD_AT="$2" LD_LIBRARY_PATH="front:$cuda_path" -- "$apps/$1"
  expect_leaks shim.err "$sources/tests/apps/leaky.c"
}
for when in first start thread; do
  for way in shared static dlsym proc linked; do
    add_case "chain a driver that forwards, $way $when" forward_case "leaky_$way" "$when"
  done
done

# Memory of the driver API is freed by the runtime, and the other way round. Where the runtime's free is
# the other driver's own, it frees a whole segment: live blocks lose their contents.
mixed_case() {
  forwarding front libcuda.so.1
  compile both both.c -DRUNTIME -L"$build/sim" -lcudart -lcuda
  same_with "$@" LD_LIBRARY_PATH="front:$cuda_path" -- ./both
  expect_text native.out '^refused 0 bad 0$'
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, .* leaked in 80 allocations'
}
for when in first start thread; do
  add_case "chain mixed interfaces $when" mixed_case FORWARD_AT=$when
  add_case "chain mixed interfaces $when, hostile" mixed_case FORWARD_AT=$when \
    CUDASIM_SCHEDULE=hostile
done

# Two files by which one driver is reached. files_case FIRST SECOND [-p] [VAR=value...]
files_case() {
  local first=$1 second=$2 ask=()

  shift 2
  [[ ${1:-} != -p ]] || { ask=(-p) && shift; }
  forwarding one libcuda.so.1
  forwarding two libcuda.so.1
  forwarding named libother.so
  mkdir only
  compile both both.c
  gcc -shared -Wl,--no-as-needed -Wl,-soname,libcuda.so.1 -o only/libcuda.so.1 -x c /dev/null -x none \
    named/libother.so -Wl,-rpath,"$PWD/named"
  same_with "$room" "$@" -- ./both "${ask[@]}" "${first/sim/$build/sim}" "${second/sim/$build/sim}"
  expect_text native.out '^refused 0 bad 0$'
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, .* leaked in 80 allocations'
}
for ask in "" -p; do
  # shellcheck disable=SC2086  # nothing, or an option
  {
    add_case "chain two drivers that forward $ask" files_case ./one/libcuda.so.1 ./two/libcuda.so.1 $ask
    add_case "chain one that forwards and the other $ask" files_case ./one/libcuda.so.1 \
      sim/libcuda.so.1 $ask CUDASIM_SCHEDULE=hostile
    add_case "chain a driver and one that forwards to it $ask" files_case sim/libcuda.so.1 \
      ./one/libcuda.so.1 $ask FORWARD_AT=start
    add_case "chain a driver of another name $ask" files_case ./named/libother.so ./one/libcuda.so.1 $ask
    add_case "chain a file that only depends on the driver $ask" files_case ./only/libcuda.so.1 \
      ./one/libcuda.so.1 $ask
  }
done

# Two drivers share no memory: each refuses the other's as natively, and a line says that one is not seen.
two_drivers_case() {
  mkdir copy
  cp "$build/sim/libcuda.so.1" copy/
  compile both both.c
  same_with "$room" "$@" -- ./both "$build/sim/libcuda.so.1" ./copy/libcuda.so.1
  expect_text native.out '^refused 16 bad 0$'
  expect_count shim.err '^gpushim: a second CUDA driver is loaded' 1
}
add_case "chain two drivers" two_drivers_case
add_case "chain two drivers, hostile" two_drivers_case CUDASIM_SCHEDULE=hostile

# A library that shares the GPU stands behind this one, as /etc/ld.so.preload does. It sees what is asked of
# the driver, and the program the limit that it sets.
# quota_case PROGRAM ORDER
quota_case() {
  local order=$shim:./quota.so

  compile quota.so quota.c -shared -fPIC
  [[ $2 == behind ]] || order=./quota.so:$shim
  run_in native LD_PRELOAD=./quota.so QUOTA_COUNTS=native.counts -- "$apps/$1"
  run_in shim LD_PRELOAD="$order" QUOTA_COUNTS=shim.counts CUDASIM_LOG=2 -- "$apps/$1"
  expect_same native shim
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, .* leaked in 7 allocations'
  if [[ $2 == behind ]]; then
    expect_text shim.counts "^allocs $(driver_calls shim.err cuMemAlloc_v2)\$"
  else
    expect_equal "what it saw" "$(<native.counts)" "$(<shim.counts)"
  fi
}
for way in shared static dlsym proc linked; do
  for order in front behind; do
    add_case "chain a quota library $order, $way" quota_case "leaky_$way" "$order"
  done
done

# The same without a dlsym of its own: it is next for calls by their names.
plain_quota_case() {
  compile plain.so quota.c -DPLAIN -shared -fPIC
  compile kept kept.c -DINFO -L"$build/sim" -lcuda
  run_in native LD_PRELOAD=./plain.so -- ./kept
  run_in shim LD_PRELOAD="$shim:./plain.so" QUOTA_COUNTS=counts -- ./kept
  expect_same native shim
  expect_text native.out 'total 268435456$'
  expect_text counts '^allocs [1-9]'
}
add_case "chain a quota library by names" plain_quota_case

# A framework's trampolines are the next definition, in the global scope or in a plug-in's own, with a driver
# and without. Where they are not called, cuInit answers 303.
# trampolines_case WAY FOLDER SUMMARY [HASH-STYLE]
trampolines_case() {
  compile libtramp.so trampolines.c -shared -fPIC -Wl,--hash-style="${4:-gnu}"
  compile kept kept.c -L. -ltramp -Wl,-rpath,"$PWD"
  compile libkept.so kept.c -DMODULE -shared -fPIC -L. -ltramp -Wl,-rpath,"$PWD"
  printf '%s\n' '#include <dlfcn.h>' 'int main(void) {' \
    'void *module = dlopen("./libkept.so", RTLD_NOW);' \
    'return module ? ((int (*)(void))dlsym(module, "run"))() : 3; }' >plug.c
  gcc -o plug plug.c -ldl || fail "gcc cannot build the program"
  same_with LD_LIBRARY_PATH="$2" -- "./$1"
  expect_text shim.err "SUMMARY: gpushim: $3"
}
for way in kept plug; do
  add_case "chain trampolines $way" trampolines_case "$way" "$cuda_path" '0 errors, 100 B leaked in 1'
  add_case "chain trampolines with the old hash table $way" trampolines_case "$way" "$cuda_path" \
    '0 errors, 100 B leaked in 1' sysv
  add_case "chain trampolines without a driver $way" trampolines_case "$way" none 'nothing recorded'
done

# A module whose look-ups are the C library's is seen; one in a namespace of its own is not, and has a line
# and the status that the user asked for.
# deepbind_case WAY
deepbind_case() {
  compile libdeep.so deep.c -DMODULE -shared -fPIC "${@:2}"
  compile deep deep.c
  same_with -- ./deep "$1"
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 4.00 MiB leaked in 1 allocation'
}
add_case "chain a module with RTLD_DEEPBIND" deepbind_case deep
add_case "chain a module with RTLD_DEEPBIND, bound at once" deepbind_case deep -Wl,-z,now -Wl,-z,relro
add_case "chain a module with RTLD_DEEPBIND, bound late" deepbind_case deep -Wl,-z,lazy

# Tables of the driver's functions that the linker fills: memory of the pool that is freed by one would reach the
# driver's free.
tables_case() {
  compile libdeep.so tables.c -shared -fPIC -L"$build/sim" -lcuda "$@"
  compile deep deep.c
  same_with -- ./deep deep
  expect_text native.out '^work 0$'
  expect_clean shim.err
}
add_case "chain tables of a module with RTLD_DEEPBIND" tables_case -Wl,-z,now -Wl,-z,relro
add_case "chain tables of a module with RTLD_DEEPBIND, bound late" tables_case -Wl,-z,lazy

# A module may be closed by another thread while its slots are looked at: the library would read, or write, memory
# that is gone.
come_and_go_case() {
  local i

  compile module0.so tables.c -shared -fPIC -L"$build/sim" -lcuda -Wl,-z,now -Wl,-z,relro
  for i in {1..5}; do cp module0.so module"$i".so; done
  compile come_and_go come_and_go.c -Wl,--no-as-needed -L"$build/sim" -lcuda
  same_with -- ./come_and_go
  expect_text native.out '^done$'
}
add_case "chain modules with RTLD_DEEPBIND that come and go" come_and_go_case

# Modules that are opened one after another, with 5,000 relocations each: a look-up that searched all of them
# would take longer the more there are.
many_modules_case() {
  local i

  for ((i = 0; i < 5000; i++)); do
    echo "extern int v$i;"
    echo "int v$i;" >&3
  done >imports.c 3>base.c
  {
    cat imports.c
    echo 'int *address(int i); int *address(int i) { switch (i) {'
    for ((i = 0; i < 5000; i++)); do echo "case $i: return &v$i;"; done
    echo '} return 0; }'
  } >module.c
  gcc -shared -fPIC -o libbase.so base.c || fail "gcc cannot build the base"
  gcc -shared -fPIC -o 0.so module.c -L. -lbase -Wl,-rpath,"$PWD" || fail "gcc cannot build the module"
  for ((i = 1; i < 200; i++)); do cp 0.so $i.so; done
  compile many many.c
  same_with -- ./many 200
  expect_text native.out '^look-ups are cheap$'
  rm -f ./*.so
}
add_case "chain look-ups among many modules" many_modules_case

# A weak reference is absent natively: the library must not open the driver for it.
weak_init_case() {
  compile weak_init weak_init.c "$@"
  native native ./weak_init
  preloaded shim -- ./weak_init
  expect_same native shim
  expect_text native.out '^no CUDA$'
}
add_case "chain a weak reference" weak_init_case
add_case "chain a weak reference of a program that exports nothing" weak_init_case -no-pie

namespace_case() {
  compile libdeep.so deep.c -DMODULE -shared -fPIC
  compile deep deep.c
  same_with -- ./deep namespace
  expect_count shim.err '^gpushim: a CUDA driver was loaded .*libcuda.so.1.*, but no call was seen' 1
  expect_quiet off
  preloaded code GPUSHIM_ERROR_EXITCODE=9 -- ./deep namespace
  expect_status code 9
  expect_count code.err '^gpushim: a CUDA driver was loaded' 1
}
add_case "chain a namespace of its own" namespace_case

# The end of a process does not call a driver: it may have ended.
ended_driver_case() {
  compile libcuda.so.1 ended.c -DDRIVER -shared -fPIC
  compile opens ended.c
  same_with -- ./opens
  expect_text native.out '^opened$'
  expect_quiet shim
  expect_quiet off
}
add_case "chain a driver that has ended" ended_driver_case

# A process that has the GPU's device open has used the driver.
used_driver_case() {
  unshare -m true 2>/dev/null || skip "a file system of our own"
  compile libcuda.so.1 ended.c -DDRIVER -shared -fPIC
  compile opens ended.c
  # shellcheck disable=SC2016  # the inner shell's
  printf '%s\n' 'mount -t tmpfs none /dev && : >/dev/nvidia-uvm && exec 5</dev/nvidia-uvm || exit 77' \
    'GPUSHIM_ERROR_EXITCODE=9 LD_PRELOAD=$1 ./opens' >mounted
  run_in shim -- unshare -m bash mounted "$shim"
  [[ $(<shim.status) != 77 ]] || skip "a mount"
  expect_status shim 9
  expect_count shim.err '^gpushim: a CUDA driver was loaded .*libcuda.so.1.*, but no call was seen' 1
}
add_case "chain a driver that was used unseen" used_driver_case

# Python's modules with the flag, as Taichi's and renderers' are: the look-ups of one that is bound to the C library's
# are seen.
python_deep_case() {
  need python3
  compile libdeep.so deep.c -DMODULE -shared -fPIC
  same_with -- python3 -S -c 'import ctypes, os
print("work", ctypes.CDLL("./libdeep.so", mode=os.RTLD_NOW | os.RTLD_DEEPBIND).work())'
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 4.00 MiB leaked in 1 allocation'
}
add_case "chain Python and RTLD_DEEPBIND" python_deep_case

# A quota library whose look-ups another library makes, in a constructor: with the wrapper it would call itself
# without end.
# helper_case ORDER
helper_case() {
  local order=$shim:./helped.so

  [[ $1 == behind ]] || order=./helped.so:$shim
  printf '%s\n' '#include <dlfcn.h>' 'void *helper(const char *name) {' \
    'return dlsym(dlopen("libcuda.so.1", RTLD_NOW), name); }' >helper.c
  gcc -shared -fPIC -o libhelper.so helper.c -ldl || fail "gcc cannot build the helper"
  compile helped.so quota.c -DHELPED -shared -fPIC -L. -lhelper -Wl,-rpath,"$PWD"
  compile kept kept.c -L"$build/sim" -lcuda
  run_in native LD_PRELOAD=./helped.so -- ./kept
  run_in shim LD_PRELOAD="$order" QUOTA_COUNTS=counts -- ./kept
  expect_same native shim
  expect_text counts '^allocs [1-9]'
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 100 B leaked in 1 allocation'
}
add_case "chain a quota library with a helper behind" helper_case behind
add_case "chain a quota library with a helper in front" helper_case front

# A library in front has its own free alone, and finds the driver's past all preloaded libraries: memory of the
# pool would reach the driver's free, and take a live neighbour along.
free_in_front_case() {
  compile frees.so quota.c -DFREES -shared -fPIC
  run_in native LD_PRELOAD=./frees.so -- "$apps/leaky_linked"
  run_in shim LD_PRELOAD="./frees.so:$shim" -- "$apps/leaky_linked"
  expect_same native shim
  expect_count shim.err '^gpushim: .* has its own cuMemFree_v2, but no cuMemAlloc_v2: the pool is off' 1
}
add_case "chain a free of its own in front" free_in_front_case

# ---- the next definition ---------------------------------------------------------------

# Libraries that look up the next definition themselves: opened or linked, wrapping the driver's functions or
# not, preloaded on either side. Where one gets past the library, its free releases the segment around a block
# of the pool, without a word: the other blocks lose their contents.
# next_definition_case KIND WHERE [OPTION...]
next_definition_case() {
  local where=$2 program=(./next) before=() behind=() calls
  local options=(-DLIBRARY "${@:3}" -shared -fPIC "-Wl,--no-as-needed" -L"$build/sim" -lcuda)

  [[ $1 == plain ]] || options+=(-DLAYER=near)
  compile libnear.so next.c "${options[@]}"
  case $where in
    opened)
      compile next next.c -L"$build/sim" -lcuda
      program+=(./libnear.so)
      ;;
    *) compile next next.c -Wl,--no-as-needed -L. -lnear -L"$build/sim" -lcuda -Wl,-rpath,"$PWD" ;;
  esac
  [[ $where != front ]] || before=(./libnear.so)
  [[ $where != behind ]] || behind=(./libnear.so)
  run_in native LD_PRELOAD="$(IFS=: && echo "${before[*]}${behind[*]}")" -- "${program[@]}"
  [[ ! -e near.counts ]] || mv near.counts native.counts
  run_in shim LD_PRELOAD="$(IFS=: && echo "${before[*]+${before[*]}:}$shim${behind[*]+:${behind[*]}}")" \
    CUDASIM_LOG=2 -- "${program[@]}"
  expect_text native.out '^failed 0 bad 0$'
  expect_same native shim
  [[ -e near.counts ]] || return 0
  calls=$(sed -nE 's/^allocs ([0-9]+) .*/\1/p' near.counts)
  expect_text near.counts ' deepest [01]$'
  case $where in
    front) expect_equal "calls of the library in front" "$(<native.counts)" "$(<near.counts)" ;;
    opened) expect_equal "calls of the library's own" 0 "$calls" ;;
    *) [[ $calls -ge 1 && $calls -le $(driver_calls shim.err cuMemAlloc_v2) ]] ||
      fail "$calls calls of the library behind this one" ;;
  esac
}
for kind in plain layer; do
  for where in opened linked front behind; do
    add_case "chain the next definition, $kind $where" next_definition_case "$kind" "$where"
    add_case "chain the next definition, $kind $where, early" next_definition_case "$kind" "$where" -DEARLY
  done
done

# What a constructor of a module with RTLD_DEEPBIND allocates is the driver's: nothing of the library runs between
# the module's loading and its constructors. The program's free of it must be the driver's, too.
constructor_case() {
  compile libmade.so constructor.c -DMODULE -shared -fPIC -L"$build/sim" -lcuda
  compile constructor constructor.c -L"$build/sim" -lcuda
  same_with "$@" -- ./constructor
  expect_text native.out '^failed 0$'
  expect_clean shim.err
}
add_case "chain a constructor with RTLD_DEEPBIND" constructor_case
add_case "chain a constructor with RTLD_DEEPBIND, hostile" constructor_case CUDASIM_SCHEDULE=hostile

# empty_library OUT [OPTION...]: has only its dependencies.
empty_library() {
  gcc -shared -fPIC -o "$1" -x c /dev/null -x none -Wl,--no-as-needed,-rpath,"$PWD" "${@:2}" ||
    fail "gcc cannot build $1"
}

# A library whose driver is not among its own dependencies: further down in its tree, or in another branch of the
# library that was opened with it. Its look-ups otherwise get past the library, with the same loss.
# next_deeper_case TREE
next_deeper_case() {
  local near=(-DLIBRARY -shared -fPIC -Wl,--no-as-needed -L.)
  local driver=(-L"$build/sim" -lcuda) opened=./libnear.so

  need gcc
  case $1 in
    below)
      empty_library libfar.so "${driver[@]}"
      empty_library libmid.so -L. -lfar
      compile libnear.so next.c "${near[@]}" -lmid -Wl,-rpath,"$PWD"
      ;;
    sibling)
      compile libnear.so next.c "${near[@]}"
      empty_library libroot.so -L. -lnear "${driver[@]}"
      opened=./libroot.so
      ;;
  esac
  compile next next.c -L"$build/sim" -lcuda
  run_in native -- ./next "$opened"
  run_in shim LD_PRELOAD="$shim" -- ./next "$opened"
  expect_text native.out '^failed 0 bad 0$'
  expect_same native shim
}
for tree in below sibling; do
  add_case "chain the next definition, $tree" next_deeper_case $tree
done

# ---- What is in a process besides ------------------------------------------------------

# build_wrangler: ./linked and ./opened, with a library of variables, and one that refers to them.
build_wrangler() {
  compile libwrangler.so wrangler.c -shared -fPIC -O2
  compile libuser.so wrangler.c -DUSER -shared -fPIC -O2 -L. -lwrangler -Wl,-rpath,"$PWD"
  compile linked wrangler.c -DMAIN -L. -lwrangler -luser -Wl,-rpath,"$PWD"
  compile opened wrangler.c -DMAIN -DOPENED
}

# A library's variables are what it and others read and write, not the library's functions of the same name: from the
# start, also those of NVML, also where another library has them.
wrangler_case() {
  build_wrangler
  same_with -- "./$1"
  expect_equal 'the results' $'0\n0' "$(<native.out)"
  expect_text shim.err 'leaked in 2 allocations'
}
for way in linked opened; do
  add_case "chain variables named as the driver's functions, $way" wrangler_case "$way"
done

# The program's copy of such a variable begins with the variable's value. The linker says that sizes differ.
wrangler_copies_case() {
  build_wrangler
  compile copies wrangler.c -DCOPIES -L. -lwrangler -Wl,-rpath,"$PWD"
  readelf -rW copies | grep -q COPY || skip 'a compiler that makes copies of variables'
  run_in native -- ./copies
  expect_equal 'the results' $'0\n0' "$(<native.out)"
  run_in shim LD_PRELOAD="$shim" -- ./copies
  expect_same native shim
  expect_text shim.err 'leaked in 2 allocations'
}
add_case "chain a program's copies of a library's variables" wrangler_copies_case

# What the program itself exports, and a library's variable, is found in the global scope as natively.
program_exports_case() {
  compile libexports.so exports.c -DLIBRARY -shared -fPIC
  compile exports exports.c -rdynamic -L. -lexports -Wl,-rpath,"$PWD"
  same_with -- ./exports
  expect_equal 'what is found' $'2 3 9\n4 4' "$(<native.out)"
}
add_case "chain CUDA's names in the program" program_exports_case

# The end of a process without CUDA makes no system call of the library's: it may have a filter that ends it for one.
sandbox_case() {
  compile sandbox sandbox.c
  run_in native -- ./sandbox "$1"
  [[ $(tail -n 1 native.out) != 4d00 ]] || skip 'seccomp filters'
  same_with -- ./sandbox "$1"
  expect_equal 'how the child ended' $'decoded\n300' "$(<native.out)"
}
for way in exit C99 exec; do
  add_case "chain a sandboxed child without CUDA, $way" sandbox_case "$way"
done

# No walk goes on by frame information that libgcc ends the process for.
frameless_case() {
  [[ $(uname -m) == x86_64 ]] || skip "x86-64, for which the program makes code"
  compile frameless frameless.c -L"$build/sim" -lcudart
  same_with GPUSHIM_STACK="$1" -- ./frameless
  expect_text native.out '^0 0$'
  # One line is one call site, whatever its stack begins with.
  same_with GPUSHIM_STACK="$1" -- ./frameless coroutine
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, .* leaked in 10 allocations, 1 call site$'
}
for unwinder in auto cfi unwind; do
  add_case "chain code whose frames cannot be unwound, $unwinder" frameless_case "$unwinder"
done

# A sanitizer in front starts when the library registers what runs at exit, and looks up what it stands for.
sanitizer_in_front_case() {
  local runtime

  need gcc
  runtime=$(gcc -print-file-name="lib$1.so")
  [[ $runtime == /* ]] || skip "lib$1.so"
  run_in native LD_PRELOAD="$runtime" -- timeout 20 "$apps/leaky_shared"
  [[ $(<native.status) == 0 ]] || skip "a kernel on which lib$1.so starts"
  run_in shim LD_PRELOAD="$runtime:$shim" -- timeout 20 "$apps/leaky_shared"
  expect_status shim 0
  cmp native.out shim.out || fail "another output"
  expect_leaks shim.err "$sources/tests/apps/leaky.c"
}
for runtime in asan tsan ubsan; do
  add_case "chain lib$runtime in front" sanitizer_in_front_case "$runtime"
done

# What was found to hang, and an errno that was lost. A state file makes the start set errno.
chain_ends_case() {
  compile ends ends.c -L"$build/sim" -lcudart -lcuda
  same_with GPUSHIM_STATE_FILE="$PWD/state" -- timeout -s KILL 20 ./ends "$1"
  expect_status native 0
  [[ $1 == errno ]] || expect_text shim.err 'SUMMARY: gpushim: 0 errors, 1000 B leaked in 1 allocation'
}
for how in traced shared errno; do
  add_case "chain ends: $how" chain_ends_case "$how"
done

# ---- a newer driver --------------------------------------------------------------------

# Memory that only a binding to a logical endpoint holds (CUDA 13.3), or to a multicast object by the calls of 13.1.
# Would see: a binding that is not recorded, so that the memory ends with its handle, here and for GPUSHIM_MEM_LIMIT;
# one that outlives its endpoint.
# endpoint_case [VARIABLE...]
endpoint_case() {
  local settings=(CUDASIM_DEVICES=2 LD_LIBRARY_PATH="front:$cuda_path" "$@")

  forwarding front libcuda.so.1 "$chain/endpoints.c"
  compile endpoint_memory endpoint_memory.c front/libcuda.so.1
  same_with "${settings[@]}" -- ./endpoint_memory
  expect_planted shim.err "$chain/endpoint_memory.c"
  expect_text shim.err "SUMMARY: gpushim: 0 errors, 16.0 MiB leaked in 5 allocations, 4 call sites"
  expect_text shim.out '^bound: the device lacks 16 MiB$'
  same_with "${settings[@]}" -- ./endpoint_memory clean
  expect_clean shim.err
  expect_text shim.out '^the object unbound: the device lacks 0 MiB$'
  run_in limited "${settings[@]}" LD_PRELOAD="$shim" GPUSHIM_MEM_LIMIT=15M GPUSHIM_TRACK=off -- ./endpoint_memory
  expect_status limited 1
  expect_text limited.out '^cuMemCreate.*6291456.*: 2$'
}
add_case "chain memory of logical endpoints" endpoint_case
add_case "chain memory of logical endpoints without the pool" endpoint_case GPUSHIM_POOL=off
