# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# library.sh - the file libgpushim.so itself: what it needs, what it shows, where it is
# installed.

# glibc before 2.34 has libdl and libpthread of their own.
needed_case() {
  need readelf
  readelf -dW "$shim" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' >needed
  expect_text needed '^libc[.]so[.]6$'
  grep -vE '^(libc\.so\.6|ld-linux[-.a-z0-9_]*\.so\.[0-9]+|libdl\.so\.2|libpthread\.so\.0)$' \
    needed >others || return 0
  grep -qE 'asan|ubsan|tsan|gcov' others && skip "a build without sanitizers"
  cat others
  fail "NEEDED names more than the C library"
}
add_case "library needs libc alone" needed_case

# The symbols shown are those of the tables and the fixed few, no more and no less.
exports_case() {
  need nm
  nm -D --defined-only "$shim" | awk '{ print $3 }' | sort >shown
  {
    "$sources/scripts/def-rows" "$sources"/shim/entries/{hooks,submit}.def "$sources/shim/link/library_hooks.def" | cut -d'|' -f2
    printf '%s\n' dlsym dlvsym __cxa_finalize _exit _Exit quick_exit fexecve \
      execl execle execlp execv execve execveat execvp execvpe posix_spawn posix_spawnp _Fork vmsplice \
      InitializeInjectionNvtx2 _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
  } | sort -u >wanted
  grep -v '^gpushim_' shown | grep -v '@' >ours
  comm -23 wanted ours >missing
  comm -13 wanted ours >extra
  [[ ! -s missing && ! -s extra ]] && return
  echo "missing:" && cat missing
  echo "not in a table:" && cat extra
  fail "exported symbols are not those of hooks.def, submit.def and library_hooks.def"
}
add_case "library exports its tables" exports_case

# What the library calls of the functions that ThreadSanitizer's runtime stands in front of: each has a row in a table
# of plain_calls.c, or is one that must stay: threads, signals, files. Alone sees an import that a later change adds.
plain_imports_case() {
  need nm
  need gcc
  local runtime
  runtime=$(gcc -print-file-name=libtsan.so)
  [[ $runtime == /* ]] || skip "gcc's libtsan"
  names() { nm -D "$@" | awk '{ sub(/@.*/, "", $NF); print $NF }' | sort -u; }
  names --undefined-only "$shim" >imported
  names --defined-only "$runtime" >watched
  sed -n '/^static const char .*\[\] =/,/;$/p' "$sources/shim/link/plain_calls.c" | grep -o '"[^"]*"' |
    sed 's/\\0/\n/g' | tr -d '"' | sort >table
  comm -12 imported watched | comm -23 - table |
    grep -vE '^(AnnotateIgnoreReadsBegin|pthread_(attr_getstack|once|setcancelstate)|sigaction|signal|dl(open|close)|fflush|fork|.*dir)$' >others ||
    return 0
  cat others
  fail "functions in front of a program's ThreadSanitizer that are not in plain_calls.c"
}
add_case "library calls past a program's ThreadSanitizer" plain_imports_case

# A version node would hide dlsym from callers that ask for dlsym@GLIBC.
version_case() {
  need readelf
  expect_equal "version definitions" 0 "$(readelf -VW "$shim" | grep -c 'version definition')"
}
add_case "library has no version node" version_case

# Without these marks the linker switches the protections off for the whole process. The
# first depends on the C library's start files too: it is asked for where they have it.
property_case() {
  need readelf
  need cc
  [[ $(uname -m) == x86_64 ]] || skip "x86-64"
  readelf -nW "$shim" >notes
  expect_text notes 'x86 feature:.*SHSTK'
  readelf -nW "$(cc -print-file-name=crti.o)" | grep -q 'x86 feature:.*IBT' || return 0
  expect_text notes 'x86 feature:.*IBT'
}
add_case "library keeps IBT and SHSTK" property_case

# No relocation in code, no executable stack.
segments_case() {
  need readelf
  readelf -dW "$shim" >dynamic
  expect_no_text dynamic 'TEXTREL'
  readelf -lW "$shim" >segments
  expect_no_text segments 'GNU_STACK.*RWE'
}
add_case "library has no writable code" segments_case

# Installed, it works by its bare name, and so does the launcher.
install_case() {
  need cmake
  cmake --install "$build" --prefix "$case_dir/prefix" >install.log 2>&1 ||
    { cat install.log && fail "cmake --install"; }
  lib=$(dirname "$(find prefix -name libgpushim.so | head -n 1)")
  [[ -e $lib/libgpushim.so ]] || fail "libgpushim.so is not installed"
  for header in gpushim.h gpushim_memory.h gpushim.hpp; do
    [[ -e prefix/include/$header ]] || fail "$header is not installed"
  done
  echo '#include <gpushim_memory.h>' >user.c # with all of its parts
  "${CC:-cc}" -I prefix/include -fsyntax-only user.c || fail "gpushim_memory.h as it is installed"
  native native "$apps/pipeline_shared"
  run_in bare LD_LIBRARY_PATH="$case_dir/$lib:$cuda_path" LD_PRELOAD=libgpushim.so \
    -- "$apps/pipeline_shared"
  expect_same native bare
  expect_clean bare.err
  need_file "$case_dir/prefix/bin/gpushim"
  run_in launched -- "$case_dir/prefix/bin/gpushim" "$apps/pipeline_shared"
  expect_same native launched
  expect_clean launched.err
  run_in killed -- "$case_dir/prefix/bin/gpushim" --state-file=state "$apps/killed_shared" kill
  run_in report -- "$case_dir/prefix/bin/gpushim" --leak-max=1 report state
  expect_count report.out '^==[0-9]+== LIVE ' 1
  users_docs prefix/share/doc/gpushim
}
add_case "library installed" install_case

# users_docs FOLDER: the installed pages are users', and each of their links is to a file that is there.
users_docs() {
  local page link

  [[ -e $1/docs/guide.md && -e $1/docs/schema/report-1.json ]] || fail "pages are missing"
  find "$1" -name 'develop.md' -o -name 'CONTRIBUTING.md' -o -size +200k ! -name '*.png' >others
  [[ ! -s others ]] || { cat others && fail "installed, though not for users"; }
  while IFS=: read -r page link; do
    [[ -e ${page%/*}/${link%%#*} ]] || fail "$page: no file $link"
  done < <(grep -roE --include='*.md' '\]\([^)#: ]+[^): ]*\)' "$1" | sed 's/\](//; s/)$//')
}

# A program of CMake's finds the installation, as docs/api.md says.
cmake_consumer_case() {
  need cmake
  cmake --install "$build" --prefix "$case_dir/prefix" >install.log 2>&1 ||
    { cat install.log && fail "cmake --install"; }
  mkdir user
  printf '#include <gpushim.h>\n#include <stdio.h>\nint main(void) { return puts(gpushim_library_version()) < 0; }\n' >user/app.c
  printf '%s\n' 'cmake_minimum_required(VERSION 3.20)' 'project(user C)' 'add_executable(app app.c)' >user/CMakeLists.txt
  grep -E '^(find_package|target_link_libraries)\(' "$sources/docs/api.md" >>user/CMakeLists.txt
  expect_count user/CMakeLists.txt 'gpushim' 2
  { cmake -S user -B built -DCMAKE_PREFIX_PATH="$case_dir/prefix" && cmake --build built; } >cmake.log 2>&1 ||
    { cat cmake.log && fail "the program is not built"; }
  run_in shim GPUSHIM_REPORT_ON=oom -- "$case_dir/prefix/bin/gpushim" built/app
  expect_text shim.out '^[0-9]+[.][0-9]+[.][0-9]+$'
}
add_case "library by CMake" cmake_consumer_case

# use_pkg_config PREFIX: programs in C and C++ compile as pkg-config says of an installation; they have the
# functions with the library that it names, and none without it.
use_pkg_config() {
  local flags language preload

  need pkg-config
  need c++
  printf '#include <gpushim.h>\n#include <stdio.h>\nint main(void) { return puts(gpushim_library_version()) < 0; }\n' >user.c
  printf '#include <gpushim.hpp>\n#include <cstdio>\nint main() { gpushim::buffer empty; return std::puts(gpushim_library_version()) < 0; }\n' \
    >user.cpp
  PKG_CONFIG_PATH=$(dirname "$(find "$1" -name gpushim.pc)")
  export PKG_CONFIG_PATH
  flags=$(pkg-config --cflags --libs gpushim) || fail 'pkg-config --cflags --libs gpushim'
  eval "preload=$(pkg-config --variable=preload gpushim)"
  [[ -e $preload ]] || fail "no file: $preload"
  for language in c cpp; do
    # As a makefile has it: the shell takes the words apart.
    eval "${CC:-cc} -Wall -Wextra -Werror user.$language -o user_$language $flags $([[ $language == c ]] || echo -lstdc++)" ||
      fail "user.$language does not compile: $flags"
    run_in plain -- "./user_$language"
    expect_status plain 0
    expect_equal "without the library" '' "$(<plain.out)"
    [[ $preload != *' '* ]] || continue # no path for LD_PRELOAD
    run_in shim GPUSHIM_REPORT_ON=oom LD_PRELOAD="$preload" -- "./user_$language"
    expect_equal "with the library" "$(pkg-config --modversion gpushim)" "$(<shim.out)"
    expect_quiet shim
  done
}

# In a folder that is not the one it was configured for.
pkg_config_case() {
  need cmake
  cmake --install "$build" --prefix "$case_dir/another" >install.log 2>&1 ||
    { cat install.log && fail "cmake --install"; }
  use_pkg_config another
}
add_case "library by pkg-config" pkg_config_case

# configure FOLDER OPTION...: of these sources, with the headers of this build.
configure() {
  need cmake
  cmake -S "$sources" -B "$@" \
    -DCUDA_INCLUDE_DIR="$(sed -n 's/^CUDA_INCLUDE_DIR:PATH=//p' "$build/CMakeCache.txt")" >configure.log 2>&1 ||
    { tail -n 30 configure.log && fail "cmake ${*:2}"; }
}

# The preset release is one, warnings are errors in the others, and the page names them all.
presets_case() {
  local preset

  need cmake
  grep -oE '"configurePreset": "[a-z]+"' "$sources/CMakePresets.json" | cut -d'"' -f4 >presets
  [[ $(wc -l <presets) -ge 6 ]] || fail 'fewer presets than there are'
  while read -r preset; do
    expect_text "$sources/docs/develop.md" "\`$preset\`"
    # Its variables alone.
    (cd "$sources" && cmake --preset "$preset" -N) >"$preset.txt" 2>&1 || { cat "$preset.txt" && fail "$preset"; }
    [[ $preset == release ]] || expect_text "$preset.txt" '^ *GPUSHIM_WERROR="ON"$'
  done <presets
  expect_text release.txt '^ *CMAKE_BUILD_TYPE="Release"$'
  configure built --preset release
  expect_text built/CMakeCache.txt '^GPUSHIM_WERROR:.*=OFF$'
}
add_case "library presets" presets_case

# The simulated device without tests, and the product alone.
parts_case() {
  configure device -DGPUSHIM_TESTS=OFF
  cmake --build device --target help >device.targets
  expect_text device.targets '\bsim_cudart\b'
  expect_text device.targets '\bgpushim-launcher\b'
  expect_no_text device.targets '\b(app_|unit_|conformance|sim_mutants|sim_cudart_selftest)'
  configure product -DGPUSHIM_SIM=OFF
  cmake --build product --target help >product.targets
  expect_text product.targets '\bgpushim-launcher\b'
  expect_no_text product.targets '\bsim_'
}
add_long_case "library parts" parts_case

# copy_sources FOLDER: what git has, or would take.
copy_sources() {
  need git
  mkdir -p "$1"
  (cd "$sources" && git ls-files -z --cached --others --exclude-standard |
    tar --null --files-from=- -cf -) | tar -xf - -C "$1" || fail 'no copy of the sources'
}

# From two folders, with build folders inside and outside of the sources, the same library, with all that
# debuggers know.
reproducible_case() {
  local folder

  need readelf
  copy_sources one
  copy_sources 'two/of a longer name'
  # Optimized less than a release, in half of the time.
  sources=$case_dir/one configure one/inside -DGPUSHIM_SIM=OFF -DCMAKE_C_FLAGS_RELWITHDEBINFO='-O1 -g'
  sources="$case_dir/two/of a longer name" configure two/outside -DGPUSHIM_SIM=OFF \
    -DCMAKE_C_FLAGS_RELWITHDEBINFO='-O1 -g'
  for folder in one/inside two/outside; do
    cmake --build "$folder" --target libgpushim >build.log 2>&1 || { tail -n 30 build.log && fail "$folder"; }
  done
  cmp one/inside/libgpushim.so two/outside/libgpushim.so || fail 'another library from another folder'
  [[ $(readelf -SW one/inside/libgpushim.so) == *.debug_line* ]] || fail 'no debug information'
  ! grep -qF "$case_dir" one/inside/libgpushim.so || fail 'the folder is in the library'
}
add_long_case "library from two folders" reproducible_case

# build_packages: as a packager builds them, in the folder `packages`.
build_packages() {
  need cpack
  { cmake -S "$sources" -B packages -DGPUSHIM_SIM=OFF -DGPUSHIM_WERROR=ON -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX=/usr && cmake --build packages && (cd packages && cpack); } >build.log 2>&1 ||
    { tail -n 30 build.log && fail 'the packages are not built'; }
}

# find_leak LAUNCHER: an installed launcher finds its library, and that the planted leak; a trace of it is
# replayed by the launcher alone.
find_leak() {
  run_in launched -- "$1" --leak-max=1 --trace-file=trace "$apps/leaky_shared"
  expect_status launched 0
  expect_count launched.err '^==[0-9]+== LEAK 1: 24.0 MiB' 1
  run_in advice -- "$1" advise --warmup trace
  expect_status advice 0
  expect_text advice.out '^GPUSHIM_WARMUP=[0-9KM:,]*24M:1'
}

# The Debian package, as its users see it: installed, used, removed.
use_debian_package() {
  local package=$1 root=$case_dir/root

  need dpkg
  mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
  : >"$root/var/lib/dpkg/status"
  dpkg --root="$root" --force-depends --force-not-root -i "$package" >dpkg.log 2>&1 ||
    { cat dpkg.log && fail 'dpkg -i'; }
  find_leak "$root/usr/bin/gpushim"
  [[ -n $(find root/usr/share/man -name 'gpushim.1*') ]] || fail 'no manual page'
  dpkg --root="$root" --force-not-root -P gpushim >dpkg.log 2>&1 ||
    { cat dpkg.log && fail 'dpkg -P'; }
  find root ! -path 'root/var*' ! -path root/usr >after
  [[ $(<after) == root ]] || fail "left behind: $(<after)"
}

# gpushim_add_test of the package in a folder: one test leaks, one leaks what it may, one only runs.
use_add_test() {
  mkdir tested
  echo 'leak:* max_bytes=64M' >tested/budget
  printf 'int main(int count, char **words) { (void)words; return count - 2; }\n' >tested/own.c
  cat >tested/CMakeLists.txt <<CMAKE
cmake_minimum_required(VERSION 3.16)
project(tested C)
  enable_testing()
find_package(gpushim 0.1 REQUIRED)
add_executable(own own.c)
gpushim_add_test(NAME leaks COMMAND "$apps/leaky_shared")
gpushim_add_test(NAME may OPTIONS "--suppressions=\${CMAKE_SOURCE_DIR}/budget" COMMAND "$apps/leaky_shared")
gpushim_add_test(NAME target COMMAND own "an argument")
CMAKE
  { cmake -S tested -B tested/build -DCMAKE_PREFIX_PATH="$1" && cmake --build tested/build; } >tested.log 2>&1 ||
    { cat tested.log && fail 'gpushim_add_test'; }
  (cd tested/build && LD_LIBRARY_PATH=$cuda_path ctest --output-on-failure) >ctest.log 2>&1 && fail "the leak passes"
  expect_text ctest.log 'leaks +[.]+[*]+Failed'
  expect_text ctest.log '28[.]5 MiB leaked in 7 allocations'
  expect_text ctest.log 'may +[.]+ +Passed'
  expect_text ctest.log 'target +[.]+ +Passed'
  sed -i 's/ COMMAND own "an argument"//' tested/CMakeLists.txt
  cmake -S tested -B tested/build >tested.log 2>&1 && fail "a test without a command"
  expect_text tested.log 'gpushim_add_test[(]NAME;target[)]: NAME and COMMAND are needed'
}

# The command as the launcher of each test, which docs/guide.md names: a program without CUDA passes, a leak does not.
launched_tests_case() {
  need cmake
  [[ $(printf '3.29\n%s\n' "$(cmake --version | grep -oE '[0-9.]+' | head -n 1)" | sort -V | head -n 1) == 3.29 ]] ||
    skip "CMake 3.29, which has CMAKE_TEST_LAUNCHER"
  mkdir tested
  echo 'int main(void) { return 0; }' >tested/plain.c
  printf 'int cudaMalloc(void **, unsigned long);\nint main(void) { void *lost; return cudaMalloc(&lost, 5000); }\n' \
    >tested/leaks.c
  cat >tested/CMakeLists.txt <<CMAKE
cmake_minimum_required(VERSION 3.29)
project(tested C)
  enable_testing()
foreach(name plain leaks)
  add_executable(\${name} \${name}.c)
  target_link_libraries(\${name} PRIVATE "$cuda_path/libcudart.so.13")
  add_test(NAME \${name} COMMAND \${name})
endforeach()
CMAKE
  { cmake -S tested -B tested/build -DCMAKE_TEST_LAUNCHER="$build/gpushim;--error-exitcode=3" &&
    cmake --build tested/build; } >tested.log 2>&1 || { cat tested.log && fail 'CMAKE_TEST_LAUNCHER'; }
  (cd tested/build && LD_LIBRARY_PATH=$cuda_path ctest --output-on-failure) >ctest.log 2>&1 && fail "the leak passes"
  expect_text ctest.log 'plain +[.]+ +Passed'
  expect_text ctest.log 'leaks +[.]+[*]+Failed'
  expect_text ctest.log '4[.]88 KiB leaked in 1 allocation'
}
add_case "library tests by a launcher" launched_tests_case

# The archive, unpacked anywhere: CMake and pkg-config find it, the header compiles.
use_archive() {
  mkdir 'a folder' user
  tar -xzf "$1" -C 'a folder' --strip-components=1
  find_leak "$case_dir/a folder/bin/gpushim"
  cat >user/CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.16)
project(user C)
find_package(gpushim 0.1 REQUIRED)
if(NOT EXISTS "${GPUSHIM_PRELOAD}")
  message(FATAL_ERROR "${GPUSHIM_PRELOAD}")
endif()
add_executable(user user.c)
target_link_libraries(user gpushim::gpushim)
CMAKE
  printf '#include <gpushim.h>\nint main(void) { return 0; }\n' >user/user.c
  { cmake -S user -B user/build -DCMAKE_PREFIX_PATH="$case_dir/a folder" &&
    cmake --build user/build; } >user.log 2>&1 || { cat user.log && fail 'find_package(gpushim)'; }
  use_pkg_config 'a folder'
}

# The build folder, installed somewhere.
add_test_case() {
  need cmake
  need ctest
  need_file "$apps/leaky_shared"
  cmake --install "$build" --prefix "$PWD/a place" >install.log 2>&1 || { tail -n 3 install.log && fail 'cmake --install'; }
  use_add_test "$PWD/a place"
}
add_case "library: gpushim_add_test" add_test_case

packages_case() {
  build_packages
  use_debian_package packages/gpushim_*.deb
  use_archive packages/gpushim-*.tar.gz
}
add_long_case "library packages" packages_case

lintian_case() {
  need lintian
  build_packages
  lintian --allow-root packages/gpushim_*.deb >lintian.txt 2>&1
  cat lintian.txt
  expect_no_text lintian.txt '^[EW]: '
}
add_long_case "library package, by lintian" lintian_case

# Options that bash completes, without its package of completions.
completion_case() {
  cat >complete.bash <<'BASH'
source "$1/scripts/completions/gpushim.bash"
COMP_WORDS=(gpushim "${@:2}") COMP_CWORD=$(($# - 1))
compopt() { :; }
_gpushim
printf '%s\n' "${COMPREPLY[@]}"
BASH
  run_in option PATH="$build:$PATH" -- bash complete.bash "$sources" --leak-m
  [[ $(<option.out) == $'--leak-max=\n--leak-min-bytes=' ]] || fail "completed $(<option.out)"
  run_in off PATH="$build:$PATH" -- bash complete.bash "$sources" --no-trac
  [[ $(<off.out) == $'--no-track\n--no-track-start' ]] || fail "completed $(<off.out)"
  run_in command PATH="$build:$PATH" -- bash complete.bash "$sources" --no-pool repor
  expect_text command.out '^report$'
  : >a.state
  run_in file PATH="$build:$PATH" -- bash complete.bash "$sources" report a.s
  [[ $(<file.out) == a.state ]] || fail "completed $(<file.out)"
  run_in verb PATH="$build:$PATH" -- bash complete.bash "$sources" htm
  expect_text verb.out '^html$'
  run_in verb PATH="$build:$PATH" -- bash complete.bash "$sources" run --no-trac
  expect_text verb.out '^--no-track$'
  run_in verb PATH="$build:$PATH" -- bash complete.bash "$sources" advi
  expect_text verb.out '^advise$'
  run_in file PATH="$build:$PATH" -- bash complete.bash "$sources" html a.s
  [[ $(<file.out) == a.state ]] || fail "completed $(<file.out)"
}
add_case "library completions" completion_case

# A subcommand that a shell does not complete: each of the help's list is in each file, and is one of help's.
completion_list_case() {
  local verb file count=0

  run_in list -- "$build/gpushim" --help
  for verb in $(sed -n '/^Subcommands/,/^$/ s/^  \([a-z|]*\).*/\1/p' list.out | tr '|' ' ') resume release detach; do
    count=$((count + 1))
    for file in gpushim.bash _gpushim gpushim.fish; do
      grep -qE "[ (|]$verb([ )|]|$)|[ (|]$verb\"" "$sources/scripts/completions/$file" || fail "$file does not complete $verb"
    done
    run_in help -- "$build/gpushim" help "$verb"
    expect_status help 0
    expect_text help.out "^(usage:|      ) gpushim .*$verb"
  done
  [[ $count -ge 22 ]] || fail "found $count subcommands"
}
add_case "library completions, each subcommand" completion_list_case

# fish_completes WORDS: what fish completes, a line each.
fish_completes() {
  HOME=$case_dir PATH="$build:$PATH" fish -c "source $sources/scripts/completions/gpushim.fish
    complete --do-complete '$1'" | cut -f 1 >completed
}

# The same for fish.
completion_fish_case() {
  need fish
  fish_completes 'gpushim --leak-m'
  [[ $(<completed) == $'--leak-max=\n--leak-min-bytes=' ]] || fail "completed $(<completed)"
  fish_completes 'gpushim --no-trac'
  [[ $(<completed) == $'--no-track\n--no-track-start' ]] || fail "completed $(<completed)"
  fish_completes 'gpushim --no-pool repor'
  [[ $(<completed) == report ]] || fail "completed $(<completed)"
  fish_completes 'gpushim run --error-n'
  [[ $(<completed) == --error-no-cuda ]] || fail "completed $(<completed)"
  fish_completes 'gpushim run ls --almost'
  [[ $(<completed) == --almost-all ]] || fail "completed $(<completed)"
  fish_completes 'gpushim ls --almost'
  [[ $(<completed) == --almost-all ]] || fail "completed $(<completed)"
  : >a.state
  fish_completes 'gpushim html a.s'
  [[ $(<completed) == a.state ]] || fail "completed $(<completed)"
}
add_case "library completions, fish" completion_fish_case

# Where no package has put uthash.h, a folder may have it, or the build that was carried there;
# where nothing has it, one line says so. setup asks for the package unless a folder has it.
uthash_case() {
  local configure=(cmake -S "$sources" -B built -DGPUSHIM_SIM=OFF -DGPUSHIM_CXX=OFF
    -DCUDA_INCLUDE_DIR="$(sed -n 's/^CUDA_INCLUDE_DIR:PATH=//p' "$build/CMakeCache.txt")"
    -DCMAKE_IGNORE_PATH="/usr/include;/usr/local/include")
  need cmake
  mkdir folder tools
  cp "$build/uthash/uthash.h" folder
  run_in missing -- "${configure[@]}"
  expect_status missing 1
  expect_text missing.err 'uthash.h not found: install uthash-dev, or set UTHASH_DIR to a folder'
  run_in named UTHASH_DIR="$case_dir/folder" -- "${configure[@]}"
  expect_status named 0
  rm -r folder/uthash.h built/CMakeCache.txt built/CMakeFiles
  run_in carried -- "${configure[@]}"
  expect_status carried 0
  printf '%s\n' '#!/bin/sh' '! grep -q uthash' >tools/cc
  chmod +x tools/cc
  run_in without PATH="$case_dir/tools:$PATH" -- "$sources/scripts/setup" --dry-run
  expect_text without.out '^setup: would install packages: (.* )?uthash-dev'
  run_in with PATH="$case_dir/tools:$PATH" UTHASH_DIR="$case_dir/built/uthash" -- \
    "$sources/scripts/setup" --dry-run
  expect_no_text with.out uthash-dev
}
add_case "library finds uthash" uthash_case

# A package that cannot be installed, though its name is known, keeps out no other one.
setup_packages_case() {
  mkdir tools
  printf '%s\n' '#!/bin/sh' '! grep -q uthash' >tools/cc
  cat >tools/sudo <<'SH'
#!/bin/sh
shift
exec "$@"
SH
  cat >tools/apt-get <<'SH'
#!/bin/sh
case "$*" in
  "install -s "*" uthash-dev") ;;
  "install -s "*) exit 100 ;;
  "install "*) echo "$*" >>installed ;;
esac
SH
  chmod +x tools/*
  run_in setup PATH="$case_dir/tools:$PATH" -- "$sources/scripts/setup" --zoo
  expect_equal "installed" 'install -y -qq --no-install-recommends uthash-dev' "$(<installed)"
  expect_no_text setup.err 'sources: uthash-dev'
}
add_case "library setup without a package" setup_packages_case

# Replaced on the disk, as an upgrade does it, the library of a running program is the old
# one to its end. Another copy of it is what the program sees there.
replaced_case() {
  local pid

  cp "$shim" library.so
  start_preloaded shim LD_PRELOAD="$case_dir/library.so" -- timeout 100 "$apps/killed_$1" ask over
  pid=$!
  await 25 grep -q planted shim.out
  if [[ $2 == gone ]]; then
    rm library.so
  else
    head -c 5000 "$shim" >new.so
    mv new.so library.so
  fi
  : >over
  wait "$pid" || fail "ended with $?"
  expect_text shim.out '^killed: the end$'
  expect_clean shim.err
}
for way in shared static linked; do
  add_case "library replaced $way" replaced_case "$way" other
done
add_case "library removed" replaced_case linked gone

# named_case WAY: each call of the runtime that allocates is reported by its own name.
named_case() {
  need_file "$apps/named_$1"
  same_as_native -- "$apps/named_$1"
  # It closes, destroys and unlocks things that are none.
  errors_meant=3 expect_leaks shim.err "$sources/tests/apps/named.c"
  for name in cudaMallocPitch cudaMalloc3D cudaMallocFromPoolAsync; do
    expect_count shim.err "^==[0-9]+==   $name, GPU 0, " 1
  done
}
for way in shared static ptds; do
  add_case "library names runtime calls $way" named_case "$way"
done

# The simulated runtime's own test, every call of which goes through the library.
runtime_case() {
  local program=$build/sim/selftest/sim_cudart_selftest_$1

  need_file "$program"
  native native "$program"
  expect_text native.out '^ok '
  preloaded shim -- "$program"
  expect_status shim "$(<native.status)"
  grep -oE '^(ok|not ok|skip) .*' native.out >wanted
  grep -oE '^(ok|not ok|skip) .*' shim.out >found
  diff wanted found || fail "the runtime's checks end otherwise"
}
add_case "library under the runtime's test shared" runtime_case shared
add_case "library under the runtime's test static" runtime_case static

# What CUDA's documentation promises holds with the library in front, whatever the mode.
# promises_case [VARIABLE...]
promises_case() {
  local program=$build/gpu/conformance

  need_file "$program"
  preloaded shim CUDASIM_MEMORY=4G GPUSHIM_SYMBOLIZE=off "$@" -- "$program" # no line is judged
  grep -hE '^(FAILED|not ok) |^conformance: ' shim.out shim.err || true
  expect_text shim.out '^conformance: [0-9]{3} passed, 0 failed, '
}
add_case "library keeps CUDA's promises" promises_case
add_case "library keeps CUDA's promises, lazy" promises_case GPUSHIM_FREE_SYNC=lazy
add_case "library keeps CUDA's promises, streams" promises_case GPUSHIM_ASYNC=pool
add_case "library keeps CUDA's promises, carved" promises_case GPUSHIM_POOL_CARVE=on

# ---- Every function of the driver is known -------------------------------------------

# Where the tables are checked, with a stub of the driver and a runtime made for it.
known_folder() {
  need gcc
  need nm
  mkdir -p tree/scripts tree/shim
  cp "$sources"/scripts/{check-names,def-rows} tree/scripts
  cp -r "$sources/shim/entries" "$sources/shim/link" tree/shim
  driver=$build/sim/libcuda.so.1
  need_file "$driver"
}

# check_known STATUS TEXT OPTION...: how check-names ends, and what it says.
check_known() {
  local status=$1 text=$2

  shift 2
  tree/scripts/check-names "$@" >checked
  expect_equal "status of check-names" "$status" $?
  expect_text checked "$text"
}

# The tables know the simulated driver and its runtime.
known_case() {
  known_folder
  check_known 0 '^ok each function of .*libcuda.so.1 is in a table$' --driver "$driver" \
    --runtime "$build/sim/libcudart.so.13"
  expect_text checked '^ok each memory function of libcudart.so.13 is named or explained$'
  expect_no_text checked '^not ok'
}
add_case "library knows the driver" known_case

# Headers that have exactly what the tables have.
write_headers() {
  mkdir include
  {
    printf '#define CUDA_VERSION 99000\n'
    "$sources/scripts/def-rows" "$sources/shim/link/enumerators.def" | awk -F'|' '
      $2 != type { if (type) print "} " type ";"; print "typedef enum " $2 "_enum {"; type = $2 }
      { print $3 " = " $4 ", /* one, and another */" }
      END { print "} " type ";" }'
  } >include/cuda.h
  {
    "$sources/scripts/def-rows" "$sources"/shim/entries/{hooks,submit}.def | awk -F'|' '
      $1 != "GS_RUNTIME" { print $3, $4, $5 == "PER_THREAD" ? "_ptsz" : "" }'
    "$sources/scripts/def-rows" "$sources"/shim/link/{harmless,unhandled}.def | awk -F'|' '
      $1 != "GS_REASON" {
        stream = sub(/_pt[ds][sz]$/, "", $2) ? "_ptsz" : ""
        sub(/_v[0-9]$/, "", $2)
        print $2, $3, stream }'
  } | while read -r name version stream; do
    printf 'typedef int (*PFN_%s_v%s%s)(void);\n' "$name" "$version" "$stream"
  done >include/cudaTypedefs.h
}

# What is wrong is seen: EDIT is a sed script for FILE below shim/.
# wrong_case FILE EDIT TEXT
wrong_case() {
  known_folder
  write_headers
  check_known 0 '^ok versions up to 99000 are those of the headers$' --headers "$case_dir/include"
  sed -i -E "$2" "tree/shim/$1"
  cmp -s "tree/shim/$1" "$sources/shim/$1" && fail "nothing was changed"
  check_known 1 "$3" --driver "$driver" --headers "$case_dir/include" \
    --runtime "$build/sim/libcudart.so.13"
  [[ -z ${4-} ]] || expect_text checked "$4"
}
add_case "library check sees a new location" \
  wrong_case link/enumerators.def '/_DEVICE_LOCALITY_DOMAIN,/d' \
  '^not ok each location, .* of the headers of 99000 is in .*: CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN 6 $'
add_case "library check sees a missing function" \
  wrong_case link/harmless.def '/^GS_REAL\(cuStreamQuery,/d' \
  '^not ok each function of .*libcuda.so.1 is in a table - in none: cuStreamQuery $'
add_case "library check sees a missing interface" \
  wrong_case entries/hooks.def '/^GS_FORWARD\(cuMemAdvise_v2,/s/12020/12030/' \
  '^not ok each function of the headers of 99000 is in a table - in none: cuMemAdvise of 12020 $'
add_case "library check sees a missing stream variant" \
  wrong_case link/harmless.def '/^GS_HARMLESS\(cuStreamQuery_ptsz,/d' \
  'in none: cuStreamQuery of 7000, per thread $'
add_case "library check sees a wrong version" \
  wrong_case entries/hooks.def '/^GS_HOOK\(cuMemAlloc_v2,/s/3020/3030/' \
  '^not ok versions up to 99000 .* no header has: cuMemAlloc_v2 with version 3030 $'
add_case "library check sees a function nobody has" \
  wrong_case link/harmless.def '/^GS_HARMLESS\(cuVDPAUGetDevice,/aGS_HARMLESS(cuZero, 4000, ASKS)' \
  '^not ok versions up to 99000 .* no header has: cuZero with version 4000 $'
add_case "library check sees versions out of order" \
  wrong_case entries/hooks.def '/^GS_FORWARD\(cuMemAdvise_v2,/s/12020/7000/' \
  '^not ok symbol, name and version of a row agree - they do not: cuMemAdvise_v2 $'
add_case "library check sees one twice" \
  wrong_case link/harmless.def '/^GS_HARMLESS\(cuVDPAUGetDevice,/aGS_HARMLESS(cuZ, 4000, ASKS)\nGS_HARMLESS(cuZ, 4000, ASKS)' \
  '^not ok no driver function is in two tables - in several: cuZ $'
add_case "library check sees a table out of order" \
  wrong_case link/harmless.def '/^GS_HARMLESS\(cuVDPAUGetDevice,/aGS_HARMLESS(cuA, 4000, ASKS)' \
  '^not ok harmless.def is sorted'
add_case "library check sees half a pair" \
  wrong_case link/harmless.def '/^GS_HARMLESS\(cuVDPAUGetDevice,/aGS_HARMLESS(cuMemAlloc_v9_ptsz, 4000, ASKS)' \
  '^not ok both forms of a hooked function are hooked - only one: cuMemAlloc $'
add_case "library check sees a counting wrapper without its treatment" \
  wrong_case entries/hooks.def '/^GS_HOOK_BOTH\(cuGraphLaunch,/s/COUNTED/RECORDED/' \
  '^not ok what a wrapper counts is COUNTED or ORDERED .* differ: cuGraphLaunch cuGraphLaunch_ptsz $'
add_case "library check sees a counting row without its treatment" \
  wrong_case entries/hooks.def '/^GS_FORWARD\(cuMemAdvise,/s/COUNTED/RECORDED/' \
  '^not ok what a wrapper counts is COUNTED or ORDERED .* differ: cuMemAdvise $'
add_case "library check sees a treatment whose wrapper does not count" \
  wrong_case entries/entry_sync.c 's/gs_submission_begin\(0\)/NULL/' \
  '^not ok what a wrapper counts is COUNTED or ORDERED .* differ: cuMemcpyDtoH_v2 $'
add_case "library check sees a new allocation of the runtime" \
  wrong_case entries/hooks.def '/^GS_RUNTIME\(cudaMallocPitch,/d' \
  '^not ok each memory function of libcudart.so.13 .* neither: cudaMallocPitch $'
