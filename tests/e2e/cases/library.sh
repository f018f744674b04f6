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
    sed -nE 's/^GS_(HOOK|RUNTIME)\(([A-Za-z_0-9]+).*/\2/p' "$sources/shim/entries/hooks.def"
    sed -nE 's/^GS_SUBMIT\(([A-Za-z_0-9]+).*/\1/p' "$sources/shim/entries/submit.def"
    printf '%s\n' dlsym dlvsym _exit _Exit quick_exit fexecve \
      execl execle execlp execv execve execvp execvpe
  } | sort -u >wanted
  grep -v '^gpushim_' shown | grep -v '@' >ours
  comm -23 wanted ours >missing
  comm -13 wanted ours >extra
  [[ ! -s missing && ! -s extra ]] && return
  echo "missing:" && cat missing
  echo "not in a table:" && cat extra
  fail "exported symbols are not those of hooks.def and submit.def"
}
add_case "library exports its tables" exports_case

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
  [[ -e prefix/include/gpushim.h ]] || fail "gpushim.h is not installed"
  native native "$apps/pipeline_shared"
  run_in bare LD_LIBRARY_PATH="$case_dir/$lib:$cuda_path" LD_PRELOAD=libgpushim.so \
    -- "$apps/pipeline_shared"
  expect_same native bare
  expect_clean bare.err
  need_file "$case_dir/prefix/bin/gpushim"
  run_in launched -- "$case_dir/prefix/bin/gpushim" "$apps/pipeline_shared"
  expect_same native launched
  expect_clean launched.err
}
add_case "library installed" install_case
