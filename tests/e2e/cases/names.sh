# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# names.sh - functions have their names where debug information is packed, split, elsewhere or gone; in other languages
# than C++; and after the program's file was replaced.

readonly NAMES=$sources/tests/apps/names

# names_compile SOURCE [FLAG...]: app/program, with debug information.
names_compile() {
  local source=$NAMES/$1 include compiler=${CXX:-c++}

  [[ $1 == *.cpp ]] || compiler=${CC:-cc}
  need "$compiler"
  need_file "$build/sim/libcudart.so"
  include=$(sed -n 's/^CUDA_INCLUDE_DIR:PATH=//p' "$build/CMakeCache.txt")
  mkdir -p app debug
  "$compiler" -O2 -g -isystem "$include" "$source" -o app/program "${@:2}" "$build/sim/libcudart.so" ||
    skip "a compiler for $*"
}

# names_split DIRECTORY [NAME]: the debug information of app/program goes to a file there, which the program names.
names_split() {
  need objcopy
  mkdir -p "$1"
  objcopy --only-keep-debug app/program "$1/${2:-program.debug}"
  strip --strip-all app/program
  objcopy --add-gnu-debuglink="$1/${2:-program.debug}" app/program
}

# names_run [VAR=value...]: hold.cpp's report names all four functions, with lines.
names_run() {
  preloaded shim "${with_rules[@]}" "$@" -- app/program
  expect_only_report shim.err
}

names_expected() {
  expect_text shim.err '#0 hold_static\(unsigned long\).* +hold\.cpp:12$'
  expect_text shim.err '#1 main +hold\.cpp:38$'
  expect_text shim.err '#0 (hold_inlined.*|\?\?) +hold\.cpp:18 \(inlined\)$' # addr2line does not know the name
  expect_text shim.err '#1 outer\(\) +hold\.cpp:32$'
  expect_text shim.err '#0 Store<int>::put\(unsigned long\).* +hold\.cpp:25$'
  expect_no_text shim.err 'Note:'
  expect_no_text shim.err ' leak:.*clone'
}

# A debug file beside the program, in .debug, in a folder of the user's, under another root: by its checksum without
# a build id. Each place alone finds it.
names_debuglink_case() {
  names_compile hold.cpp -Wl,--build-id="$2"
  case $1 in
  beside) names_split app ;;
  .debug) names_split app/.debug ;;
  folder) names_split "$PWD/debug$PWD/app" ;;
  root) names_split "$PWD/root$PWD/app/.debug" ;;
  esac
  names_run GPUSHIM_DEBUG_DIR="$PWD/debug" GPUSHIM_SYSROOT="$([[ $1 != root ]] || echo "$PWD/root")"
  names_expected
}
for place in beside .debug folder root; do
  add_case "names debug file $place" names_debuglink_case $place sha1
  add_case "names debug file $place, no build id" names_debuglink_case $place none
done

# A debug file by its build id alone, as distributions lay it out and as debuginfod's cache does.
names_build_id_case() {
  local id file

  names_compile hold.cpp -Wl,--build-id=sha1
  need readelf
  id=$(readelf -n app/program | sed -n 's/.*Build ID: //p')
  names_split elsewhere
  case $1 in
  distribution) file=debug/.build-id/${id:0:2}/${id:2}.debug ;;
  cache) file=debug/$id/debuginfo ;;
  esac
  mkdir -p "$(dirname "$file")"
  mv elsewhere/program.debug "$file"
  names_run GPUSHIM_DEBUG_DIR="$PWD/debug"
  names_expected
}
add_case "names debug file by build id" names_build_id_case distribution
add_case "names debug file in debuginfod's cache" names_build_id_case cache

# A missing debug file, one of another build and one that is cut give no name, and a Note that says which.
names_bad_debug_file_case() {
  names_compile hold.cpp -Wl,--build-id="$1"
  names_split app
  case $2 in
  missing) rm app/program.debug ;;
  foreign) cp "$build/libgpushim.so" app/program.debug ;;
  cut) truncate -s 3000 app/program.debug ;;
  esac
  names_run
  expect_no_text shim.err 'hold_static'
  expect_text shim.err "Note: the debug file .*program\.debug.* $3"
}
add_case "names debug file missing" names_bad_debug_file_case sha1 missing 'was not found: name its folder in'
add_case "names debug file of another build" names_bad_debug_file_case sha1 foreign 'is damaged, or not of this build'
add_case "names debug file with a wrong checksum" names_bad_debug_file_case none foreign 'is damaged, or not of this build'
add_case "names debug file cut" names_bad_debug_file_case sha1 cut '(was not found|is damaged)'

# The compressed symbol table of a stripped file; a file without section headers has what it exports.
names_mini_case() {
  names_compile hold.cpp
  need xz
  need objcopy
  nm app/program --format=posix --defined-only | awk '$2 == "T" || $2 == "t" { print $1 }' >keep
  objcopy --only-keep-debug app/program full
  objcopy -S --keep-symbols=keep full mini
  strip --strip-all app/program
  xz mini
  objcopy --add-section .gnu_debugdata=mini.xz app/program
  names_run
  expect_text shim.err '#0 hold_static\(unsigned long\)'
  expect_text shim.err '#0 Store<int>::put\(unsigned long\)'
}
add_case "names in a compressed symbol table" names_mini_case

names_no_sections_case() {
  need llvm-strip
  names_compile hold.cpp -rdynamic
  llvm-strip --strip-sections app/program
  names_run
  expect_text shim.err '#1 main +program\+0x'
  expect_no_text shim.err 'cannot be read'
}
add_case "names without section headers" names_no_sections_case

# What llvm-symbolizer cannot read, or does not answer, addr2line is asked about: a file compressed by zstd, a helper
# that crashes, one that lies about all.
names_second_helper_case() {
  names_compile hold.cpp
  need addr2line
  mkdir bin
  printf '#!/bin/sh\n%s\n' "$1" >bin/llvm-symbolizer
  chmod +x bin/llvm-symbolizer
  names_run PATH="$PWD/bin:$PATH"
  expect_text shim.err '#0 hold_static\(unsigned long\).* +hold\.cpp:12$'
  expect_text shim.err '#1 outer\(\) +hold\.cpp:32$'
}
add_case "names by addr2line if the other crashes" names_second_helper_case 'kill -SEGV $$'
add_case "names by addr2line if the other is silent" names_second_helper_case 'exit 0'
add_case "names by addr2line if the other knows nothing" names_second_helper_case \
  'while read -r line; do printf "??\n??:0:0\n\n"; done'
add_case "names by addr2line if the other talks nonsense" names_second_helper_case \
  'while read -r line; do printf "\001\002\n???\n\n"; done'

# Names of 0.5 to 9 KiB are readable, and each has a rule of its own.
names_long_case() {
  names_compile long.cpp -std=c++17
  command -v llvm-cxxfilt || need c++filt
  names_run
  for type in int float double char; do
    expect_text shim.err "#0 Solver<std::integer_sequence<\.\.\.> >::allocate<$type>\($type\).* +long\.cpp:13"
    expect_text shim.err " leak:.*Solver<.*allocate<$type"
  done
  expect_no_text shim.err '_Z'
}
add_case "names of 9 KiB" names_long_case

# The program's file is deleted, replaced or renamed while it runs.
names_changed_case() {
  names_compile changed.c
  preloaded shim -- app/program "$1"
  expect_status shim 0
  expect_text shim.err '#0 serve_request +changed\.c:16$'
  expect_no_text shim.err 'Note:'
}
for change in delete replace rename; do
  add_case "names of a program's file after $change" names_changed_case $change
done

# Its state file, read when the program has ended, says what happened to the file.
names_changed_state_case() {
  names_compile changed.c
  preloaded shim GPUSHIM_STATE_FILE=state -- app/program "$1"
  run_in found -- "$build/gpushim" report state
  expect_text found.out "Note: functions are missing: .*/app/program $2 [(]of a container: GPUSHIM_SYSROOT=ITS_ROOT[)]$"
}
add_case "names of a deleted program in a state file" names_changed_state_case delete 'is not there'

# In another place, as outside of a container, the files are found below a root.
names_sysroot_case() {
  names_compile changed.c
  mkdir -p "root$PWD"
  preloaded shim GPUSHIM_STATE_FILE=state -- app/program keep
  mv app "root$PWD/app"
  run_in found -- "$build/gpushim" --sysroot="$PWD/root" report state
  expect_text found.out '#0 serve_request +changed\.c:16$'
  run_in found -- "$build/gpushim" --sysroot=/nowhere report state
  expect_text found.err 'GPUSHIM_SYSROOT: /nowhere is not a folder; files are read at their own paths'
  expect_no_text found.out 'serve_request'
}
add_case "names below another root" names_sysroot_case

# Of a program that runs, the kernel has the deleted file: its state file is read meanwhile.
names_running_case() {
  local program

  names_compile changed.c
  mkfifo go
  start_preloaded shim GPUSHIM_STATE_FILE=state -- bash -c 'exec app/program wait <go'
  program=$!
  exec 9>go
  await 60 grep -q waits shim.out || fail "the program does not start"
  rm app/program
  run_in found -- "$build/gpushim" report state
  echo >&9
  exec 9>&-
  wait "$program"
  expect_text found.out '#0 serve_request +changed\.c:16$'
}
add_case "names of a deleted program that runs" names_running_case

# A plug-in without a file has its names; without its descriptor at least what it exports.
names_anonymous_case() {
  names_compile plugin.c -shared -fPIC -Wl,--build-id=sha1
  mv app/program plugin.so
  names_compile anonymous.c -ldl
  preloaded shim -- app/program "$PWD/plugin.so" "$1"
  expect_status shim 0
  expect_text shim.err '#[01] plugin_allocate'
  [[ $1 == close ]] || expect_text shim.err '#0 plugin_hidden +plugin\.c:10$'
}
add_case "names of a plug-in in memory" names_anonymous_case keep
add_case "names of a plug-in in memory, closed" names_anonymous_case close

# Rust's names are readable and have no hash of this build; its library's frames are folded.
names_rust_case() {
  need rustc
  need_file "$build/sim/libcudart.so"
  RUSTC_BOOTSTRAP=1 rustc -g -O -Z unstable-options -C symbol-mangling-version="$1" -L "$build/sim" -l cudart \
    "$NAMES/hold.rs" -o program || skip "rustc with mangling $1"
  preloaded shim "${with_rules[@]}" -- ./program
  expect_text shim.err '#0 hold::take +hold\.rs:12$'
  expect_text shim.err '#1 hold::métal::répète +hold\.rs:42$'
  expect_text shim.err '#1 <?hold::Pool<.*>::grow +hold\.rs:23$'
  expect_text shim.err '#1 <.* as hold::Buffer>::fill +hold\.rs:34$'
  expect_no_text shim.err '_R|_ZN|17h[0-9a-f]|\$[A-Z(]|lang_start|[^:]main +program\+'
  expect_text shim.err ' leak:\^hold::take[^ ]* from=\^hold::métal::répète[^ ]* '
}
add_case "names of Rust, v0" names_rust_case v0
add_case "names of Rust, legacy" names_rust_case legacy

# Go's functions have their lines, through the switch of stacks, also without symbols.
names_go_case() {
  local include

  need go
  need_file "$build/sim/libcudart.so"
  [[ $(uname -m) == x86_64 ]] || skip "x86-64"
  include=$(sed -n 's/^CUDA_INCLUDE_DIR:PATH=//p' "$build/CMakeCache.txt")
  mkdir source && cp "$NAMES/hold.go" source/
  (cd source && GOCACHE=${GOCACHE:-${TMPDIR:-/tmp}/gpushim-go-cache} GO111MODULE=off CGO_CFLAGS="-O2 -g -I$include" \
    CGO_LDFLAGS="-L$build/sim -lcudart" go build -ldflags="$1" "${@:2}" -o ../program hold.go) || skip "go with cgo"
  preloaded shim GPUSHIM_STATE_FILE=state -- ./program
  expect_status shim 0
  run_in found -- "$build/gpushim" report state
  expect_text found.out 'live at 5 call sites'
  expect_text found.out '#[0-9] main\.load +hold\.go:21$'
  expect_text found.out '#[0-9] main\.main +hold\.go:37$'
  expect_text found.out '#[0-9] main\.\(\*Cache\)\.Fill +hold\.go:24$'
  expect_text found.out '#[0-9] main\.main\.func1 +hold\.go:40$'
  expect_text found.out '#[01] main\.direct +hold\.go:32$'
  expect_no_text found.out 'runtime\.(goexit|main|cgocall )'
}
add_case "names of Go" names_go_case ''
add_case "names of Go without symbols" names_go_case '-s -w'
add_case "names of Go, position-independent" names_go_case '' -buildmode=pie
add_case "names of Go without symbols, position-independent" names_go_case '-s -w' -buildmode=pie

# D's names are readable.
names_d_case() {
  need gdc
  need c++filt
  need_file "$build/sim/libcudart.so"
  gdc -g "$NAMES/hold.d" -o program "$build/sim/libcudart.so" || fail "gdc"
  preloaded shim -- ./program
  expect_text shim.err '#0 hold\.take.* +hold\.d:7$'
  expect_text shim.err '#1 hold\.Pool.*grow.* +hold\.d:14$'
  expect_no_text shim.err 'entrypoint|_D[0-9]'
}
add_case "names of D" names_d_case

# Python frames beyond the depth: the program's functions are told apart behind a framework's.
names_deep_python_case() {
  need python3
  need_file "$build/sim/libcudart.so"
  preloaded shim "${with_rules[@]}" -- python3 "$NAMES/deep.py" "$1" "$build/sim/libcudart.so"
  expect_status shim 0
  expect_text shim.err 'leaked at 2 call sites'
  expect_text shim.err '#[0-9]+ +train +deep\.py:38$'
  expect_text shim.err '#[0-9]+ +warm_up +deep\.py:34$'
  expect_text shim.err ' leak:.* from=\^train[^ ]* '
}
add_case "names of Python, 11 modules deep" names_deep_python_case 11
add_case "names of Python, 60 modules deep" names_deep_python_case 60

# Code that the program has generated has the name that it wrote for perf; not one of an older file.
names_generated_case() {
  [[ $(uname -m) == x86_64 ]] || skip "x86-64"
  names_compile generated.c
  preloaded shim -- app/program "$1"
  rm -f "$(<shim.out)"
  expect_status shim 0
  expect_text shim.err '#0 leak '
  [[ $1 == old ]] || expect_text shim.err '#1 JIT:compute_kernel'
  [[ $1 != old ]] || expect_no_text shim.err 'JIT:compute_kernel'
}
add_case "names of generated code" names_generated_case new
add_case "names of generated code, not in an old file" names_generated_case old
