# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# ends.sh - no end without a report, and none before the start.

# launched PREFIX [VAR=value...] -- WORD...: gpushim WORD...
launched() {
  local prefix=$1 settings command

  need_file "$build/gpushim"
  split_settings "${@:2}"
  run_in "$prefix" GPUSHIM_LIBRARY="$shim" "${settings[@]}" -- "$build/gpushim" "${command[@]}"
}

# report_comes FILE COUNT: so many reports are in the file soon; no more come.
report_comes() {
  await 20 has_reports "$1" "$2" || { cat "$1" && fail "$1: not $2 reports"; }
  expect_count "$1" '^==[0-9]+== SUMMARY: gpushim: ' "$2"
}
has_reports() {
  [[ $(grep -c '^==[0-9]*== SUMMARY: gpushim: ' "$1" 2>/dev/null) -ge $2 ]]
}

# ---- daemons ---------------------------------------------------------------------------

# Relative names are those of the folder where the program was started, by the command and without.
ends_daemon_case() {
  local log

  mkdir start
  echo 'leak:keep max_bytes=4M' >start/known
  cd start || fail start
  if [[ $1 == preload ]]; then
    preloaded ../shim GPUSHIM_LOG_FILE=log.%p GPUSHIM_OUTPUT=json GPUSHIM_SUPPRESSIONS=known \
      GPUSHIM_TRACE_FILE=trace.%p GPUSHIM_STATE_FILE=state.%p GPUSHIM_WRITE_SUPPRESSIONS=new.%p -- \
      "$apps/ends_shared" "$2" "$PWD/../done"
  else
    launched ../shim -- --log-file=log.%p --output=json --suppressions=known \
      --trace-file=trace.%p --state-file=state.%p --write-suppressions=new.%p "$apps/ends_shared" "$2" "$PWD/../done"
  fi
  await 20 test -s ../done || fail "no daemon"
  log=log.$(<../done)
  await 20 test -s "$log" || { ls -la . && fail "no log"; }
  report_comes "$log" 1
  expect_count "$log" '^==[0-9]+== SUMMARY: gpushim: 0 errors, 0 B leaked' 1
  expect_text "$log" 'Suppressed: 1 allocation'
  [[ -s gpushim.$(<../done).json && -s trace.$(<../done) && -s state.$(<../done) ]] || { ls && fail "a file is missing"; }
}
add_case "ends of a daemon, preloaded" ends_daemon_case preload daemon
add_case "ends of a daemon, launched" ends_daemon_case launch daemon

# ---- another C library -----------------------------------------------------------------

# musl refuses a program with a reference that it cannot resolve: weak ones alone may be glibc's.
ends_references_case() {
  local musl

  need nm
  musl=$(find /usr/lib /lib -path '*musl*/libc.so' 2>/dev/null | head -n 1)
  [[ -n $musl ]] || skip "musl"
  nm -D "$shim" | grep -qE '__(asan|tsan|ubsan|gcov)_' && skip "a build without sanitizers"
  nm -D --undefined-only "$shim" | awk '$1 == "U" { sub(/@.*/, "", $2); print $2 }' | sort >needed
  nm -D --defined-only "$musl" | awk '{ print $3 }' | sort >there
  comm -23 needed there >missing
  [[ ! -s missing ]] || { cat missing && fail "musl has not all that is needed"; }
}
add_case "ends with references that musl has" ends_references_case

# A helper that is linked with musl, started by a program of glibc.
ends_musl_case() {
  need musl-gcc
  cat >hello.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    waitpid(child, &status, 0);
    printf("hello %d\n", WEXITSTATUS(status));
    fflush(stdout);
    child = vfork();
    if (child == 0) {
        execlp("true", "true", (char *)0);
        _exit(9);
    }
    waitpid(child, &status, 0);
    return system("exit 4") >> 8;
}
C
  musl-gcc hello.c -o hello || fail "musl-gcc"
  same_as_native -- sh -c './hello; echo $?'
  expect_equal "output" $'hello 3\n4' "$(<shim.out)"
  expect_quiet shim
}
add_case "ends of a helper linked with musl" ends_musl_case
